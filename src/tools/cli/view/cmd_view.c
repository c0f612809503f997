/* SPDX-License-Identifier: Apache-2.0 */
/* heap_profile view: serves the web page on profiles and this machine, and opens the browser. */
#include <errno.h>
#include <limits.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "profile/compare/budgets.h"
#include "profile/rollup.h"
#include "tools/cli/cmd.h"
#include "tools/cli/compare/compare_source.h"
#include "tools/cli/files/output_directory.h"
#include "tools/cli/options/options.h"
#include "tools/cli/record/live_view.h"
#include "tools/cli/view/browser.h"
#include "tools/cli/view/machine.h"
#include "tools/cli/view/perfetto_ui.h"
#include "tools/cli/view/watched.h"
#include "tools/print/format.h"
#include "tools/view/model/kept.h"
#include "tools/view/saved/save.h"
#include "tools/view/server/perfetto.h"
#include "tools/view/server/server.h"
#include "util/output_file.h"
#include "util/xmalloc.h"

/* The dumps that arguments of `view` name (TRACE@DUMP): the page opens on the last of them,
 * compared with the first of several. */

struct asked_dumps {
    struct compare_source sources[VIEW_PROFILES_MAX];
    size_t count;
    struct view_opening opening;
    struct export_dump *kept; /* the last dump of each heap, and the chosen ones */
    size_t kept_count;
};

/* --- arguments --- */

/* Return whether a profile with this path is there already. */
static bool is_watched(const struct watched *watched, const char *path)
{
    char other[PATH_MAX];
    for (size_t i = 0; i < watched->count; i++)
        if (output_find_trace(watched->paths[i], other, NULL) == 0 && strcmp(other, path) == 0)
            return true;
    return false;
}

/* Add the profile of an argument, once if several name dumps of it. Return 0 or a negative errno.
 */
static int asked_dumps_add(struct asked_dumps *asked, struct watched *watched, const char *argument,
                           struct error *error)
{
    const char *at = strrchr(argument, '@');
    struct stat status;
    char name[PATH_MAX];
    if (at == NULL || at - argument >= PATH_MAX || stat(argument, &status) == 0)
        return watched_add(watched, argument, error);
    if (asked->count == VIEW_PROFILES_MAX)
        return error_set(error, -E2BIG, "the page opens on at most %u dumps", VIEW_PROFILES_MAX);
    struct compare_source *source = &asked->sources[asked->count];
    int code = compare_source_parse(argument, source, error);
    if (code < 0)
        return code;
    asked->count++;
    snprintf(name, sizeof(name), "%.*s", (int)(at - argument), argument);
    return is_watched(watched, source->path)
               ? 0
               : watched_add(watched, *name == '\0' ? NULL : name, error);
}

/* --- dumps --- */

/* Return the dump of the heap that holds most. */
static struct export_dump biggest(const struct compare_source *source)
{
    struct export_dump found = source->dumps[0];
    struct rollup_size most = rollup_size_of(found.dump);
    for (size_t i = 1; i < source->dump_count; i++) {
        struct rollup_size size = rollup_size_of(source->dumps[i].dump);
        if (rollup_size_compare(&size, &most) >= 0)
            continue;
        most = size;
        found = source->dumps[i];
    }
    return found;
}

/* Return the dump of the same heap, or of that with the same name in another profile; none: zeros.
 */
static struct export_dump same_heap(const struct compare_source *source,
                                    const struct compare_source *other,
                                    const struct export_dump *wanted)
{
    const char *process = other->profile->processes[wanted->heap->process].name;
    for (size_t i = 0; i < source->dump_count; i++) {
        const struct profile_heap *heap = source->dumps[i].heap;
        if (source->profile == other->profile
                ? heap == wanted->heap
                : strcmp(heap->name, wanted->heap->name) == 0 &&
                      strcmp(source->profile->processes[heap->process].name, process) == 0)
            return source->dumps[i];
    }
    return (struct export_dump){0};
}

static int choose(struct compare_source *source, const struct view_profiles *profiles,
                  struct error *error)
{
    static const struct compare_choice all = {0};
    for (size_t i = 0; i < profiles->count && source->profile == NULL; i++)
        if (strcmp(profiles->items[i].path, source->path) == 0)
            source->profile = profiles->items[i].profile;
    if (source->profile == NULL)
        return error_set(error, -ENOENT, "%s: nothing has been recorded yet", source->argument);
    return compare_source_choose(source, &all, error);
}

static void view_keep(struct asked_dumps *asked, const struct profile_heap *heap,
                      const struct profile_dump *dump, size_t *capacity)
{
    const struct export_dump one = {heap, dump};
    XARRAY_ADD(&asked->kept, &asked->kept_count, capacity, one);
}

static void keep_all(struct asked_dumps *asked, const struct view_profiles *profiles)
{
    size_t capacity = 0;
    for (size_t i = 0; i < profiles->count; i++) {
        const struct profile *profile = profiles->items[i].profile;
        for (size_t j = 0; j < profile->heap_count; j++) {
            const struct profile_heap *heap = &profile->heaps[j];
            if (heap->dump_count > 0)
                view_keep(asked, heap, &heap->dumps[heap->dump_count - 1], &capacity);
        }
    }
    for (size_t i = 0; i < asked->count; i++)
        for (size_t j = 0; j < asked->sources[i].dump_count; j++)
            view_keep(asked, asked->sources[i].dumps[j].heap, asked->sources[i].dumps[j].dump,
                      &capacity);
}

/* Find the dumps. Nothing is set if no argument names one. Return 0 or a negative errno. */
static int asked_dumps_choose(struct asked_dumps *asked, const struct view_profiles *profiles,
                              struct error *error)
{
    int code = 0;
    for (size_t i = 0; i < asked->count && code == 0; i++)
        code = choose(&asked->sources[i], profiles, error);
    if (code < 0 || asked->count == 0)
        return code;
    const struct compare_source *first = &asked->sources[0],
                                *last = &asked->sources[asked->count - 1];
    struct view_opening *opening = &asked->opening;
    opening->at = biggest(last);
    opening->view = EXPORT_SPACE;
    if (export_view_is_unknown(opening->at.heap, EXPORT_SPACE))
        opening->view = EXPORT_ALLOC_SPACE;
    if (first != last)
        opening->base = same_heap(first, last, &opening->at);
    keep_all(asked, profiles);
    return 0;
}

/* --- the address --- */

/* Write "PROFILE.HEAP" and return the number of the dump. */
static size_t view_place_of(const struct view_profiles *profiles, const struct export_dump *at,
                            char *text, size_t size)
{
    for (size_t i = 0; i < profiles->count; i++) {
        const struct profile *profile = profiles->items[i].profile;
        if (at->heap >= profile->heaps && at->heap < profile->heaps + profile->heap_count)
            snprintf(text, size, "%zu.%zu", i, (size_t)(at->heap - profile->heaps));
    }
    return (size_t)(at->dump - at->heap->dumps);
}

/* Write what the page's address ends with to open on them; "": nothing. */
static void asked_dumps_write_fragment(const struct asked_dumps *asked,
                                       const struct view_profiles *profiles, char *text,
                                       size_t size)
{
    const struct view_opening *opening = &asked->opening;
    char at[48], base[48];
    text[0] = '\0';
    if (opening->at.dump == NULL)
        return;
    size_t dump = view_place_of(profiles, &opening->at, at, sizeof(at));
    int length = snprintf(text, size, "#heap=%s&dump=%zu&view=%s", at, dump,
                          export_view_info[opening->view].name);
    if (opening->base.dump == NULL || length < 0 || (size_t)length >= size)
        return;
    dump = view_place_of(profiles, &opening->base, base, sizeof(base));
    if (opening->base.heap == opening->at.heap)
        snprintf(text + length, size - (size_t)length, "&base=%zu", dump);
    else
        snprintf(text + length, size - (size_t)length, "&base=%s.%zu", base, dump);
}

static void asked_dumps_clear(struct asked_dumps *asked)
{
    for (size_t i = 0; i < asked->count; i++)
        free(asked->sources[i].dumps);
    free(asked->kept);
    *asked = (struct asked_dumps){0};
}

static const char help[] =
    "usage: heap_profile view [options] [DIR|FILE[@DUMP]]...\n"
    "       heap_profile view [options] --base RUN... -- RUN...\n"
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
    "  --base RUN...   runs of one release, up to `--`, to be compared with those behind it: "
    "means,\n"
    "                  with the spread from run to run\n"
    "  --native        show the interpreter's frames beside the language's functions; the page "
    "has\n"
    "                  a switch for them, too\n"
    "  --budgets FILE  show limits of `heap_profile check --budgets` as lines in the timeline, "
    "with "
    "its\n"
    "                  verdicts\n"
    "  --save FILE     write a page with its data inside, for any browser, and serve nothing\n"
    "                  (without DIR or FILE: the latest profile)\n" PERFETTO_UI_HELP "\n"
    "Examples:\n"
    "  heap_profile view                       the start page\n"
    "  heap_profile view before/ after/        two profiles, to be compared\n"
    "  heap_profile view --base a1 a2 a3 -- b1 b2 b3   two releases, each of which ran three "
    "times\n"
    "  heap_profile view DIR@1 DIR@last        what grew while it ran\n"
    "  heap_profile view --save leak.html DIR  a file to keep, or to send\n"
    "  ssh -L 8000:localhost:8000 server heap_profile view --no-browser --port 8000\n";

struct request {
    char **arguments; /* with each run of --base behind an option of its own */
    const char *bases[VIEW_PROFILES_MAX];
    size_t base_count, run_count; /* earlier runs; all profiles that are compared */
    struct view_server_options server;
    uint64_t port;
    const char *save, *budgets;
    bool native;
    struct perfetto_ui_request perfetto;
    struct asked_dumps asked;
};

static bool take_base(void *member, const char *name, const char *value)
{
    struct request *request = member;
    (void)name;
    if (request->base_count < VIEW_PROFILES_MAX)
        request->bases[request->base_count] = value;
    request->base_count++;
    return true;
}

static const struct option_entry options[] = {
    {.name = "base", .kind = OPTION_CALL, .offset = 0, .take = take_base},
    OPTION_ENTRY("port", 0, OPTION_NUMBER, struct request, port),
    OPTION_ENTRY("listen", 0, OPTION_TEXT, struct request, server.socket_path),
    OPTION_ENTRY("no-browser", 0, OPTION_SET, struct request, perfetto.no_browser),
    OPTION_ENTRY("native", 0, OPTION_SET, struct request, native),
    OPTION_ENTRY("budgets", 0, OPTION_TEXT, struct request, budgets),
    OPTION_ENTRY("save", 0, OPTION_TEXT, struct request, save),
    PERFETTO_UI_OPTIONS(struct request, perfetto),
    OPTIONS_END,
};

/* Write what the page's address ends with to compare the runs. */
static void write_runs(const struct request *request, char *text, size_t size)
{
    int used = snprintf(text, size, "#tab=runs&runs=");
    for (size_t i = 0; i < request->run_count && used > 0 && (size_t)used < size; i++)
        used += snprintf(text + used, size - (size_t)used, "%s%zu",
                         i == 0                     ? ""
                         : i == request->base_count ? "-"
                                                    : ",",
                         i);
}

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
static int view_run(struct watched *watched, struct view_profiles *profiles,
                    struct request *request, struct error *error)
{
    struct browser browser = {0};
    struct machine machine = {0};
    char fragment[200] = "#page=home";
    sigset_t ends;
    if (watched->count > 0)
        asked_dumps_write_fragment(&request->asked, profiles, fragment, sizeof(fragment));
    if (request->run_count > 0)
        write_runs(request, fragment, sizeof(fragment));
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
    char fragment[200];
    const struct asked_dumps *asked = &request->asked;
    const struct view_save_options chosen = {
        .choice = {asked->kept, asked->kept_count, .with_earlier = true},
        .opening = asked->opening,
        .fragment = request->run_count > 0 ? fragment + 1 : NULL};
    struct output_file file;
    if (request->run_count > 0)
        write_runs(request, fragment, sizeof(fragment));
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

/* Read the file of budgets, which the page judges anew when its profiles change. */
static int read_budgets(const char *path, struct watched *watched, struct error *error)
{
    struct budgets budgets = {0};
    size_t length;
    if (path == NULL)
        return 0;
    int code = budgets_read(&budgets, path, error);
    if (code == 0)
        code = budgets_read_file(path, &watched->budgets, &length, error);
    if (code == 0 && length > VIEW_BUDGETS_BYTES_MAX)
        code = error_set(error, -EFBIG, "%s: the page takes at most %u bytes of budgets", path,
                         VIEW_BUDGETS_BYTES_MAX);
    budgets_clear(&budgets);
    return code;
}

/* Return -1 to continue, else VERB_USAGE after a message. */
static int view_complain(const struct request *request, int argument_count)
{
    const char *message = NULL;
    if (request->port > UINT16_MAX)
        message = "--port is a number from 1 to 65535";
    else if (request->base_count > 0 && argument_count == 0)
        message =
            "--base takes the earlier runs; the others follow behind --, as in --base a1 a2 a3 "
            "-- b1 b2 b3";
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

/* Give each run of "--base A B C --" an option of its own: "--base A --base B --base C". */
static int spread_bases(int argc, char **argv, struct request *request)
{
    int count = 0, i = 0;
    char **to = request->arguments = xcalloc(2 * (size_t)argc + 1, sizeof(*to));
    while (i < argc) {
        bool is_base = i > 0 && strcmp(argv[i], "--base") == 0;
        if (!is_base || i + 1 == argc) {
            to[count++] = argv[i++];
            continue;
        }
        char *name = argv[i++];
        do {
            to[count++] = name;
            to[count++] = argv[i++];
        } while (i < argc && *argv[i] != '-');
        i += i < argc && strcmp(argv[i], "--") == 0;
    }
    return count;
}

/* Add the earlier runs, before the others. */
static int add_bases(const struct request *request, struct watched *watched, struct error *error)
{
    int code = 0;
    if (request->base_count > VIEW_PROFILES_MAX)
        return error_set(error, -E2BIG, "the page shows at most %u profiles", VIEW_PROFILES_MAX);
    for (size_t i = 0; i < request->base_count && code == 0; i++)
        code = watched_add(watched, request->bases[i], error);
    return code;
}

int cmd_view(int argc, char **argv)
{
    static const struct verb_line line = {"heap_profile view", help, options, false};
    struct request request = {0};
    struct error error = {0};
    argc = spread_bases(argc, argv, &request);
    argv = request.arguments;
    int code = options_parse(&line, argc, argv, &request);
    if (code < 0)
        code = view_complain(&request, argc - optind);
    if (code >= 0) {
        free(request.arguments);
        return code;
    }
    if (request.perfetto.wanted) {
        code = perfetto_ui_serve(&request.perfetto, argv[optind]);
        free(request.arguments);
        return code;
    }
    request.server.port = (uint16_t)request.port;
    struct watched watched = {.native = request.native};
    code = read_budgets(request.budgets, &watched, &error);
    if (code == 0)
        code = add_bases(&request, &watched, &error);
    if (code == 0)
        code = add_profiles(&request, &watched, argv + optind, &error);
    request.run_count = request.base_count == 0 ? 0 : watched.count;
    struct view_profiles *profiles = code < 0 ? NULL : watched_read(&watched, true, &error);
    code = profiles == NULL ? error.code : asked_dumps_choose(&request.asked, profiles, &error);
    if (profiles != NULL && (code < 0 || request.save != NULL)) {
        code = code < 0 ? code : save(profiles, &request, &error);
        view_profiles_free(profiles);
        free(profiles);
    } else if (profiles != NULL) {
        code = view_run(&watched, profiles, &request, &error);
    }
    asked_dumps_clear(&request.asked);
    watched_clear(&watched);
    free(request.arguments);
    if (code < 0)
        format_printf(stderr, "heap_profile: %s\n", error.message);
    return code < 0 ? VERB_FAILED : VERB_DONE;
}
