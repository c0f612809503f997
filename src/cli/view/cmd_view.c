/* SPDX-License-Identifier: Apache-2.0 */
/* heap_profile view: serves the web page on profiles, and opens the browser. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/cmd.h"
#include "cli/options/options.h"
#include "cli/print/format.h"
#include "cli/record/live_view.h"
#include "cli/view/browser.h"
#include "cli/view/watched.h"
#include "util/clock.h"
#include "util/output_file.h"
#include "view/save.h"
#include "view/server.h"

static const char help[] =
    "usage: heap_profile view [options] [DIR|FILE]...\n"
    "\n"
    "Shows heap profiles in the browser: their course over time, flame graphs, tables, and\n"
    "differences between dumps and profiles. DIR is a directory that heap_profile wrote, FILE a\n"
    "raw-trace or another profile (docs/formats.md). Without either, shows the latest profile. A\n"
    "recording that goes on is read again whenever it has a new dump.\n"
    "\n"
    "The page is served on this machine, to this user: its address contains a random token. "
    "Nothing\n"
    "is fetched from the network, and the profile does not leave the machine. Control-C ends it.\n"
    "\n"
    "  --port N        listen on 127.0.0.1, port N (default: a free one)\n"
    "  --listen PATH   listen on a unix socket instead, for example for ssh -L\n"
    "  --no-browser    print the address, and open no browser\n"
    "  --save FILE     write a page with its data inside, for any browser, and serve nothing\n"
    "\n"
    "Examples:\n"
    "  heap_profile view                       the last recording\n"
    "  heap_profile view before/ after/        two profiles, to be compared\n"
    "  heap_profile view --save leak.html DIR  a file to keep, or to send\n"
    "  ssh -L 8000:localhost:8000 server heap_profile view --no-browser --port 8000\n";

struct request {
    struct view_server_options server;
    uint64_t port;
    const char *save;
    bool no_browser;
};

static const struct option_entry options[] = {
    OPTION_ENTRY("port", 0, OPTION_NUMBER, struct request, port),
    OPTION_ENTRY("listen", 0, OPTION_TEXT, struct request, server.socket_path),
    OPTION_ENTRY("no-browser", 0, OPTION_SET, struct request, no_browser),
    OPTION_ENTRY("save", 0, OPTION_TEXT, struct request, save),
    OPTIONS_END,
};

/* Read the profiles again if their files have changed, but spend at most a quarter of the time on
 * it. On failure, keep what is shown: the recording is perhaps being finished. */
static void read_again(struct watched *watched, struct view_server *server, uint64_t *next_ns)
{
    struct error error = {0};
    if (clock_read_ns(CLOCK_MONOTONIC) < *next_ns || !watched_have_changed(watched))
        return;
    struct view_profiles *profiles = watched_read(watched, false, &error);
    if (profiles != NULL)
        view_server_replace(server, profiles);
    *next_ns = clock_read_ns(CLOCK_MONOTONIC) + 3 * watched->read_ns;
}

/* Serve until a signal ends it. */
static void serve(struct watched *watched, struct view_server *server, const sigset_t *ends)
{
    static const struct timespec second = {.tv_sec = 1};
    uint64_t next_ns = 0;
    while (sigtimedwait(ends, NULL, &second) < 0)
        read_again(watched, server, &next_ns);
}

/* Start the server and the browser. */
static int run(struct watched *watched, struct view_profiles *profiles,
               const struct request *request, struct error *error)
{
    struct browser browser = {0};
    sigset_t ends;
    /* The server's threads inherit the mask, so the signals reach this one. */
    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &ends, NULL);
    signal(SIGPIPE, SIG_IGN);
    struct view_server *server = view_server_start(profiles, &request->server, error);
    if (server == NULL)
        return error->code;
    if (request->server.socket_path != NULL)
        format_printf(stdout, "heap_profile: serving on the socket %s, at %s\n",
                      request->server.socket_path, view_server_address(server));
    else
        format_printf(stdout, "heap_profile: serving on %s\n", view_server_address(server));
    fflush(stdout);
    if (!request->no_browser && request->server.socket_path == NULL)
        browser_open(&browser, view_server_address(server));
    serve(watched, server, &ends);
    browser_close(&browser);
    view_server_stop(server);
    return 0;
}

/* Write the page to a file. */
static int save(struct view_profiles *profiles, const char *path, struct error *error)
{
    struct output_file file;
    if (profiles->count == 0)
        return error_set(error, -ENODATA, "nothing has been recorded yet, so there is no page");
    int code = output_file_open(&file, path, 0, error);
    if (code < 0)
        return code;
    FILE *out = output_file_stream(&file);
    code = out == NULL ? error_set(error, -ENOMEM, "not enough memory to write '%s'", path)
                       : view_save(profiles, out, error);
    return output_file_close(&file, code, error);
}

bool take_live_view(void *member, const char *name, const char *value)
{
    (void)name;
    (void)value;
    *(bool *)member = true;
    return true;
}

int cmd_view(int argc, char **argv)
{
    static const struct verb_line line = {"heap_profile view", help, options, false};
    struct request request = {0};
    struct error error = {0};
    int code = options_parse(&line, argc, argv, &request);
    if (code >= 0)
        return code;
    if (request.port > UINT16_MAX) {
        fputs("heap_profile: --port is a number from 1 to 65535\n", stderr);
        return VERB_USAGE;
    }
    request.server.port = (uint16_t)request.port;
    struct watched watched = {.arguments = argv + optind, .count = argc - optind};
    struct view_profiles *profiles = watched_read(&watched, true, &error);
    if (profiles == NULL) {
        code = error.code;
    } else if (request.save != NULL) {
        code = save(profiles, request.save, &error);
        view_profiles_free(profiles);
        free(profiles);
    } else {
        code = run(&watched, profiles, &request, &error);
    }
    if (code < 0)
        format_printf(stderr, "heap_profile: %s\n", error.message);
    return code < 0 ? VERB_FAILED : VERB_DONE;
}
