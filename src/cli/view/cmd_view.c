/* SPDX-License-Identifier: Apache-2.0 */
/* heap_profile view: serves the web page on profiles, and opens the browser. */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cmd.h"
#include "cli/files/output_directory.h"
#include "cli/options/options.h"
#include "cli/print/format.h"
#include "cli/print/progress.h"
#include "cli/view/browser.h"
#include "view/server.h"

static const char help[] =
    "usage: heap_profile view [options] [DIR|FILE]...\n"
    "\n"
    "Shows heap profiles in the browser: their course over time, flame graphs, tables, and\n"
    "differences between dumps and profiles. DIR is a directory that heap_profile wrote, FILE a\n"
    "raw-trace or another profile (docs/formats.md). Without either, shows the latest profile.\n"
    "\n"
    "The page is served on this machine, to this user: its address contains a random token. "
    "Nothing\n"
    "is fetched from the network, and the profile does not leave the machine. Control-C ends it.\n"
    "\n"
    "  --port N        listen on 127.0.0.1, port N (default: a free one)\n"
    "  --listen PATH   listen on a unix socket instead, for example for ssh -L\n"
    "  --no-browser    print the address, and open no browser\n"
    "\n"
    "Examples:\n"
    "  heap_profile view                       the last recording\n"
    "  heap_profile view before/ after/        two profiles, to be compared\n"
    "  ssh -L 8000:localhost:8000 server heap_profile view --no-browser --port 8000\n";

struct request {
    struct view_server_options server;
    uint64_t port;
    bool no_browser;
};

static const struct option_entry options[] = {
    OPTION_ENTRY("port", 0, OPTION_NUMBER, struct request, port),
    OPTION_ENTRY("listen", 0, OPTION_TEXT, struct request, server.socket_path),
    OPTION_ENTRY("no-browser", 0, OPTION_SET, struct request, no_browser),
    OPTIONS_END,
};

/* Read a profile and add it to the page. Return 0 or a negative errno. */
static int add_profile(struct view_profiles *profiles, const char *argument, struct error *error)
{
    static const struct profile_read_options reading = {.demangling = DEMANGLE_FULL};
    char path[PATH_MAX];
    int code = output_find_trace(argument, path, error);
    if (code < 0)
        return code;
    struct profile *profile = progress_import(path, &reading, error);
    return profile == NULL ? error->code : view_profiles_add(profiles, path, profile, error);
}

static int load(struct view_profiles *profiles, int count, char *const *arguments,
                struct error *error)
{
    int code = count == 0 ? add_profile(profiles, NULL, error) : 0;
    for (int i = 0; i < count && code == 0; i++)
        code = add_profile(profiles, arguments[i], error);
    return code < 0 ? code : view_profiles_link(profiles, error);
}

/* Serve until a signal ends it. */
static int serve(struct view_profiles *profiles, const struct request *request,
                 const sigset_t *ends, struct error *error)
{
    struct browser browser = {0};
    int signal;
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
    sigwait(ends, &signal);
    browser_close(&browser);
    view_server_stop(server);
    return 0;
}

int cmd_view(int argc, char **argv)
{
    static const struct verb_line line = {"heap_profile view", help, options, false};
    static struct view_profiles profiles;
    struct request request = {0};
    struct error error = {0};
    sigset_t ends;
    int code = options_parse(&line, argc, argv, &request);
    if (code >= 0)
        return code;
    if (request.port > UINT16_MAX) {
        fputs("heap_profile: --port is a number from 1 to 65535\n", stderr);
        return VERB_USAGE;
    }
    request.server.port = (uint16_t)request.port;
    code = load(&profiles, argc - optind, argv + optind, &error);
    if (code == 0) {
        /* The server's thread inherits the mask, so the signals reach sigwait(). */
        sigemptyset(&ends);
        sigaddset(&ends, SIGINT);
        sigaddset(&ends, SIGTERM);
        sigaddset(&ends, SIGHUP);
        pthread_sigmask(SIG_BLOCK, &ends, NULL);
        signal(SIGPIPE, SIG_IGN);
        code = serve(&profiles, &request, &ends, &error);
    }
    if (code < 0)
        format_printf(stderr, "heap_profile: %s\n", error.message);
    view_profiles_free(&profiles);
    return code < 0 ? VERB_FAILED : VERB_DONE;
}
