/* heap_profile snapshot, heap_profile stop: what a running daemon is to do now. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "cli/cmd.h"
#include "cli/daemon_client.h"
#include "cli/parse.h"
#include "cli/suggest.h"

static const char snapshot_help[] =
    "usage: heap_profile snapshot [--session ID]\n"
    "\n"
    "Takes a dump of all processes that the running heapprofd profiles for you (root: for all),\n"
    "now. It becomes a profile of its own in the session's output. So does kill -USR1 of the\n"
    "daemon.\n";

static const char stop_help[] =
    "usage: heap_profile stop [--session ID]\n"
    "\n"
    "Ends your sessions (root: all) in the running heapprofd, with all data written.\n";

static const struct option options[] = {
    {"session", required_argument, NULL, 's'}, {"help", no_argument, NULL, 'h'}, {0}};

static int ask(int argc, char **argv, const char *help, bool stop)
{
    Heapprofd__ControlRequest__Session session = HEAPPROFD__CONTROL_REQUEST__SESSION__INIT;
    Heapprofd__ControlRequest request = HEAPPROFD__CONTROL_REQUEST__INIT;
    int option;
    opterr = 0;
    while ((option = getopt_long(argc, argv, ":s:h", options, NULL)) != -1) {
        if (option == 'h') {
            fputs(help, stdout);
            return 0;
        }
        if (option != 's')
            suggest_option(stop ? "heap_profile stop" : "heap_profile snapshot", argv, option,
                           options);
        if (option != 's' || !parse_number("--session", optarg, UINT64_MAX, &session.id))
            return 2;
        session.has_id = true;
    }
    if (optind < argc) {
        fputs(help, stderr);
        return 2;
    }
    *(stop ? &request.stop : &request.snapshot) = &session;
    struct error error = {0};
    Heapprofd__ControlReply *reply = daemon_ask(&request, &error);
    if (reply == NULL) {
        fprintf(stderr, "heap_profile: %s\n", error.message);
        return 1;
    }
    unsigned count = reply->sessions;
    heapprofd__control_reply__free_unpacked(reply, NULL);
    if (count == 0) {
        fputs("heap_profile: there is no such session of yours: heap_profile status shows all\n",
              stderr);
        return 1;
    }
    printf("%s %u session%s\n", stop ? "ended" : "took a dump of", count, count == 1 ? "" : "s");
    return 0;
}

int cmd_snapshot(int argc, char **argv)
{
    return ask(argc, argv, snapshot_help, false);
}

int cmd_stop(int argc, char **argv)
{
    return ask(argc, argv, stop_help, true);
}
