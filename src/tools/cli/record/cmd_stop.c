/* SPDX-License-Identifier: Apache-2.0 */
/* heap_profile snapshot and heap_profile stop: send requests to running sessions. */
#include <stdio.h>
#include <stdlib.h>

#include "tools/cli/cmd.h"
#include "tools/cli/options/options.h"
#include "tools/cli/options/parse.h"
#include "tools/cli/record/session_list.h"
#include "tools/print/format.h"
#include "util/xmalloc.h"

static const char snapshot_help[] =
    "usage: heap_profile snapshot [ID | PID]\n"
    "\n"
    "Takes a dump of each of your sessions now (root: of all users'): those of the running "
    "heapprofd\n"
    "and those of heap_profile commands without it. The dump becomes a separate profile in the\n"
    "session's output. A number selects one session: by its number in heap_profile status, or by "
    "a\n"
    "process that it profiles. kill -USR1 of heap_profile or heapprofd takes a dump, too.\n"
    "\n"
    "      --session ID       the number is that of a session, not of a process\n"
    "\n"
    "Exit code: 0, 1 if there is no such session.\n";

static const char stop_help[] =
    "usage: heap_profile stop [ID | PID]\n"
    "\n"
    "Ends your sessions (root: all), with all data written. A command that heap_profile host runs\n"
    "continues. A number selects one session: by its number in heap_profile status, or by a "
    "process\n"
    "that it profiles.\n"
    "\n"
    "      --session ID       the number is that of a session, not of a process\n"
    "\n"
    "Exit code: 0, 1 if there is no such session.\n";

/* The sessions that the user means. */
struct choice {
    bool has_number;
    bool is_session; /* the number is a session's, not a pid */
    uint64_t number;
};

static bool has_process(const Heapprofd__ControlSession *session, uint64_t pid)
{
    for (size_t i = 0; i < session->n_processes; i++) {
        if ((uint64_t)session->processes[i]->pid == pid)
            return true;
    }
    return false;
}

static bool matches(const Heapprofd__ControlSession *session, const struct choice *choice,
                    bool by_process)
{
    return by_process ? has_process(session, choice->number)
                      : session->id == choice->number || (uint64_t)session->pid == choice->number;
}

/* The daemon ends a session that takes two minutes to end. For other users' profilers nobody does.
 */
#define STOP_MS 150000u
#define ANSWER_MS 10000u

/* The sessions to ask for, and what came of it. */
struct asked {
    struct wanted {
        const struct session_server *server;
        const uint64_t *id; /* NULL: all of the server */
    } * wanted;
    size_t count, capacity;
    unsigned sessions;
    bool failed;
};

static void want(struct asked *asked, const struct session_server *server, const uint64_t *id)
{
    const struct wanted wanted = {server, id};
    XARRAY_ADD(&asked->wanted, &asked->count, &asked->capacity, wanted);
}

static void take_answers(struct asked *asked, struct session_question *questions)
{
    for (size_t i = 0; i < asked->count; i++) {
        struct session_question *question = &questions[i];
        if (question->reply != NULL)
            asked->sessions += question->reply->sessions;
        else
            format_printf(stderr, "heap_profile: process %d of user %u: %s\n",
                          question->server->pid, (unsigned)question->server->uid,
                          question->error.message);
        asked->failed |= question->reply == NULL;
        heapprofd__control_reply__free_unpacked(question->reply, NULL);
    }
}

/* Send the request to all wanted sessions at once. */
static void ask_wanted(struct asked *asked, bool stop)
{
    struct session_question *questions = xcalloc(asked->count + 1, sizeof(*questions));
    Heapprofd__ControlRequest *requests = xcalloc(asked->count + 1, sizeof(*requests));
    Heapprofd__ControlRequest__Session *sessions = xcalloc(asked->count + 1, sizeof(*sessions));
    for (size_t i = 0; i < asked->count; i++) {
        const struct wanted *wanted = &asked->wanted[i];
        heapprofd__control_request__init(&requests[i]);
        heapprofd__control_request__session__init(&sessions[i]);
        sessions[i].has_id = wanted->id != NULL;
        sessions[i].id = wanted->id != NULL ? *wanted->id : 0;
        *(stop ? &requests[i].stop : &requests[i].snapshot) = &sessions[i];
        bool is_long = stop && !session_server_is_strangers(wanted->server);
        questions[i] = (struct session_question){.server = wanted->server,
                                                 .request = &requests[i],
                                                 .patience_ms = is_long ? STOP_MS : ANSWER_MS};
    }
    session_servers_ask(questions, asked->count);
    take_answers(asked, questions);
    asked->count = 0;
    free(questions);
    free(requests);
    free(sessions);
}

static void ask_chosen(const struct session_list *list, const struct choice *choice,
                       bool by_process, bool stop, struct asked *asked)
{
    for (size_t i = 0; i < list->count; i++) {
        const Heapprofd__ControlStatus *status = session_server_status(&list->servers[i]);
        for (size_t j = 0; status != NULL && j < status->n_sessions; j++) {
            if (matches(status->sessions[j], choice, by_process))
                want(asked, &list->servers[i], &status->sessions[j]->id);
        }
    }
    ask_wanted(asked, stop);
}

static int ask_all(const struct choice *choice, bool stop)
{
    struct session_list list;
    struct asked asked = {0};
    session_list_read(&list);
    for (size_t i = 0; i < list.count; i++) {
        const struct session_server *server = &list.servers[i];
        bool is_selected = !choice->has_number || choice->number == (uint64_t)server->pid;
        if (session_server_status(server) == NULL && is_selected) {
            format_printf(stderr, "heap_profile: process %d of user %u: %s\n", server->pid,
                          (unsigned)server->uid, server->error.message);
            asked.failed = true;
        } else if (!choice->has_number) {
            want(&asked, server, NULL);
        }
    }
    ask_wanted(&asked, stop);
    if (choice->has_number)
        ask_chosen(&list, choice, false, stop, &asked);
    if (choice->has_number && !choice->is_session && asked.sessions == 0 && !asked.failed)
        ask_chosen(&list, choice, true, stop, &asked);
    free(asked.wanted);
    session_list_clear(&list);
    if (asked.sessions > 0)
        printf("%s %u session%s\n", stop ? "ended" : "took a dump of", asked.sessions,
               asked.sessions == 1 ? "" : "s");
    else if (!asked.failed)
        fputs("heap_profile: there is no such session of yours: heap_profile status shows all\n",
              stderr);
    return asked.failed || asked.sessions == 0 ? 1 : 0;
}

static bool take_session(void *member, const char *name, const char *value)
{
    (void)name;
    struct choice *choice = member;
    choice->has_number = choice->is_session = true;
    return parse_number("--session", value, UINT64_MAX, &choice->number);
}

static const struct option_entry options[] = {
    {.name = "session", .letter = 's', .kind = OPTION_CALL, .take = take_session},
    OPTIONS_END,
};

static int stop_ask(int argc, char **argv, const struct verb_line *line, bool stop)
{
    struct choice choice = {0};
    int code = options_parse(line, argc, argv, &choice);
    if (code >= 0)
        return code;
    if (optind < argc && !choice.has_number) {
        if (!parse_number("ID or PID", argv[optind++], UINT64_MAX, &choice.number))
            return VERB_USAGE;
        choice.has_number = true;
    }
    if (optind < argc) {
        fputs(line->help, stderr);
        return VERB_USAGE;
    }
    return ask_all(&choice, stop);
}

int cmd_snapshot(int argc, char **argv)
{
    static const struct verb_line line = {"heap_profile snapshot", snapshot_help, options, false};
    return stop_ask(argc, argv, &line, false);
}

int cmd_stop(int argc, char **argv)
{
    static const struct verb_line line = {"heap_profile stop", stop_help, options, false};
    return stop_ask(argc, argv, &line, true);
}
