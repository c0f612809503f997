/* SPDX-License-Identifier: Apache-2.0 */
/* heap_profile view: serves the web page on profiles and this machine, and opens the browser. */
#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "tools/cli/cmd.h"
#include "tools/cli/options/options.h"
#include "tools/cli/record/live_view.h"
#include "tools/cli/view/asked_dumps.h"
#include "tools/cli/view/browser.h"
#include "tools/cli/view/machine.h"
#include "tools/cli/view/perfetto_ui.h"
#include "tools/print/format.h"
#include "tools/view/saved/save.h"
#include "tools/view/server/perfetto.h"
#include "tools/view/server/server.h"
#include "util/output_file.h"
#include "util/xmalloc.h"

static const char help[] =
    "usage: heap_profile view [options] [DIR|FILE[@DUMP]]...\n"
    "\n"
    "Shows heap profiles in the browser: their course over time, flame graphs, tables, and\n"
    "differences between dumps and profiles. DIR is a directory that heap_profile wrote, FILE a\n"
    "raw-trace or another profile (docs/formats.md). Without either, opens the start page: recent\n"
    "profiles, sessions and processes of this machine. The page also records. A recording that\n"
    "goes on is read again whenever it has a new dump. With @DUMP the page opens on that dump "
    "(@2,\n"
    "@12.5s, @max, @last); with two, on their difference.\n"
    "\n"
    "The page is served on this machine, to this user: its address contains a random token. "
    "Nothing\n"
    "is fetched from the network, and the profile does not leave the machine. Control-C ends it.\n"
    "\n"
    "  --port N        listen on 127.0.0.1, port N (default: a free one)\n"
    "  --listen PATH   listen on a unix socket instead, for example for ssh -L\n"
    "  --no-browser    print the address, and open no browser\n"
    "  --native        show the interpreter's frames beside the language's functions; the page "
    "has\n"
    "                  a switch for them, too\n"
    "  --save FILE     write a page with its data inside, for any browser, and serve nothing\n"
    "                  (without DIR or FILE: the latest profile)\n" PERFETTO_UI_HELP "\n"
    "Examples:\n"
    "  heap_profile view                       the start page\n"
    "  heap_profile view before/ after/        two profiles, to be compared\n"
    "  heap_profile view DIR@1 DIR@last        what grew while it ran\n"
    "  heap_profile view --save leak.html DIR  a file to keep, or to send\n"
    "  ssh -L 8000:localhost:8000 server heap_profile view --no-browser --port 8000\n";

struct request {
    struct view_server_options server;
    uint64_t port;
    const char *save;
    bool native;
    struct perfetto_ui_request perfetto;
    struct asked_dumps asked;
};

static const struct option_entry options[] = {
    OPTION_ENTRY("port", 0, OPTION_NUMBER, struct request, port),
    OPTION_ENTRY("listen", 0, OPTION_TEXT, struct request, server.socket_path),
    OPTION_ENTRY("no-browser", 0, OPTION_SET, struct request, perfetto.no_browser),
    OPTION_ENTRY("native", 0, OPTION_SET, struct request, native),
    OPTION_ENTRY("save", 0, OPTION_TEXT, struct request, save),
    PERFETTO_UI_OPTIONS(struct request, perfetto),
    OPTIONS_END,
};

/* Serve until a signal ends it. Return the memory that answers needed when nobody asks for more. */
static void serve(const struct view_server *server, struct shown *shown, const sigset_t *ends)
{
    static const struct timespec second = {.tv_sec = 1};
    uint64_t before = 0, returned = 0;
    while (sigtimedwait(ends, NULL, &second) < 0) {
        shown_refresh(shown);
        uint64_t answers = view_server_answers(server);
        if (answers == before && answers != returned) {
            malloc_trim(0);
            returned = answers;
        }
        before = answers;
    }
}

/* Print the page's address, and open the browser on it. Without a profile the page begins at its
 * start. */
static void show(struct browser *browser, const struct request *request, const char *address,
                 const char *fragment)
{
    char page[512];
    snprintf(page, sizeof(page), "%s%s", address, fragment);
    if (request->server.socket_path != NULL)
        format_printf(stdout, "heap_profile: serving on the socket %s, at %s\n",
                      request->server.socket_path, page);
    else
        format_printf(stdout, "heap_profile: serving on %s\n", page);
    fflush(stdout);
    if (!request->perfetto.no_browser && request->server.socket_path == NULL)
        browser_open(browser, page);
}

/* Start the server and the browser. */
static int run(struct watched *watched, struct view_profiles *profiles, struct request *request,
               struct error *error)
{
    struct browser browser = {0};
    struct machine machine = {0};
    char fragment[200] = "#page=home";
    sigset_t ends;
    if (watched->count > 0)
        asked_dumps_write_fragment(&request->asked, profiles, fragment, sizeof(fragment));
    /* The server's threads inherit the mask, so the signals reach this one. */
    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &ends, NULL);
    signal(SIGPIPE, SIG_IGN);
    /* If our parent ignored it, the kernel would forget how our children end. */
    signal(SIGCHLD, SIG_DFL);
    request->server.questions = machine_questions;
    request->server.question_count = machine_question_count;
    request->server.context = &machine;
    /* Each connection has a thread, and would keep the memory of its answers for itself. */
    mallopt(M_ARENA_MAX, 1);
    machine_begin(&machine, watched);
    struct view_server *server = view_server_start(profiles, &request->server, error);
    if (server == NULL) {
        machine_end(&machine);
        return error->code;
    }
    /* Nobody can ask before the address is printed: it has the token. */
    shown_set_server(&machine.shown, server);
    show(&browser, request, view_server_address(server), fragment);
    serve(server, &machine.shown, &ends);
    browser_close(&browser);
    /* A second signal ends what the first one waits for. */
    pthread_sigmask(SIG_UNBLOCK, &ends, NULL);
    view_server_stop(server);
    machine_end(&machine);
    return 0;
}

/* Write the page to a file. */
static int save(struct view_profiles *profiles, const struct request *request, struct error *error)
{
    const char *path = request->save;
    const struct asked_dumps *asked = &request->asked;
    const struct view_save_options chosen = {
        .choice = {asked->kept, asked->kept_count, .with_earlier = true},
        .opening = asked->opening};
    struct output_file file;
    if (profiles->count == 0)
        return error_set(error, -ENODATA, "nothing has been recorded yet, so there is no page");
    int code = output_file_open(&file, path, 0, error);
    if (code < 0)
        return code;
    code = view_save(profiles, &chosen, xmalloc_made(output_file_stream(&file)), error);
    return output_file_close(&file, code, error);
}

/* Add the profiles of the command line. A page that is saved has the latest without any. */
static int add_profiles(struct request *request, struct watched *watched, char *const *arguments,
                        struct error *error)
{
    if (*arguments == NULL && request->save != NULL)
        return watched_add(watched, NULL, error);
    int code = 0;
    for (; *arguments != NULL && code == 0; arguments++)
        code = asked_dumps_add(&request->asked, watched, *arguments, error);
    return code;
}

/* Return -1 to continue, else VERB_USAGE after a message. */
static int complain(const struct request *request, int argument_count)
{
    const char *message = NULL;
    if (request->port > UINT16_MAX)
        message = "--port is a number from 1 to 65535";
    else if (!request->perfetto.wanted)
        message = request->perfetto.ui != NULL ? "--ui is an option of --perfetto" : NULL;
    else if (request->port != 0 && request->port != PERFETTO_PORT)
        message = "--perfetto needs port 9001: Perfetto UI may read from no other port of this "
                  "machine (its Content-Security-Policy)";
    else if (request->server.socket_path != NULL || request->save != NULL)
        message = "--perfetto takes neither --listen nor --save: another page shows the trace";
    else if (argument_count > 1)
        message = "--perfetto takes one profile";
    if (message == NULL)
        return -1;
    format_printf(stderr, "heap_profile: %s\n", message);
    return VERB_USAGE;
}

int cmd_view(int argc, char **argv)
{
    static const struct verb_line line = {"heap_profile view", help, options, false};
    struct request request = {0};
    struct error error = {0};
    int code = options_parse(&line, argc, argv, &request);
    if (code < 0)
        code = complain(&request, argc - optind);
    if (code >= 0)
        return code;
    if (request.perfetto.wanted)
        return perfetto_ui_serve(&request.perfetto, argv[optind]);
    request.server.port = (uint16_t)request.port;
    struct watched watched = {.native = request.native};
    code = add_profiles(&request, &watched, argv + optind, &error);
    struct view_profiles *profiles = code < 0 ? NULL : watched_read(&watched, true, &error);
    code = profiles == NULL ? error.code : asked_dumps_choose(&request.asked, profiles, &error);
    if (profiles != NULL && (code < 0 || request.save != NULL)) {
        code = code < 0 ? code : save(profiles, &request, &error);
        view_profiles_free(profiles);
        free(profiles);
    } else if (profiles != NULL) {
        code = run(&watched, profiles, &request, &error);
    }
    asked_dumps_clear(&request.asked);
    watched_clear(&watched);
    if (code < 0)
        format_printf(stderr, "heap_profile: %s\n", error.message);
    return code < 0 ? VERB_FAILED : VERB_DONE;
}
