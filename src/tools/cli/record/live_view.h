/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The page of a recording that goes on (option --view): a child process, heap_profile view DIR. It
 * has a process group of its own, so that Ctrl-C ends the recording and not the page. It ends with
 * this process at the latest, and holds none of its files except standard error.
 */
#ifndef HEAPPROFD_TOOLS_CLI_RECORD_LIVE_VIEW_H
#define HEAPPROFD_TOOLS_CLI_RECORD_LIVE_VIEW_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "tools/cli/options/options.h"
#include "tools/cli/record/dump_schedule.h"
#include "trace/config/trace_config.h"
#include "util/error.h"

struct live_view {
    pid_t pid;        /* 0: there is no page */
    bool takes_dumps; /* the user has not chosen when */
    struct dump_schedule schedule;
};

/* Take the option --view, a bool. Fail with a message if this build has no view. */
option_take take_live_view;
#define LIVE_VIEW_OPTION(type, member) OPTION_ENTRY_FLAG("view", type, member, take_live_view)
#define LIVE_VIEW_HELP                                                                             \
    "      --view             open a page in the browser that follows the recording (print its\n"  \
    "                         address on a machine without a desktop), until Ctrl-C after the\n"   \
    "                         end. Without -c it takes dumps: one a second for 20 s, then one\n"   \
    "                         whenever the recording is a twentieth older\n"

/* Start the page. Call it before the signals' handlers are set. Return 0 or a negative errno. */
int live_view_start(struct live_view *view, const char *directory, const struct heap_config *config,
                    struct error *error);

/* Take a dump if one is due, by raising SIGUSR1, which the recording handles. `processes` are being
 * profiled. */
void live_view_follow(struct live_view *view, uint64_t elapsed_ms, unsigned processes);

/* After the recording: wait until the user ends the page by SIGINT, SIGTERM or SIGHUP. */
void live_view_stay(struct live_view *view);

/* End the page: there is nothing to show. */
void live_view_end(struct live_view *view);

#endif
