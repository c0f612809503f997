/* SPDX-License-Identifier: Apache-2.0 */
/* Signals during a recording: SIGINT, SIGTERM and SIGHUP ask for its end, SIGUSR1 for a dump. */
#ifndef HEAPPROFD_TOOLS_CLI_RECORD_END_SIGNALS_H
#define HEAPPROFD_TOOLS_CLI_RECORD_END_SIGNALS_H

#include <stdbool.h>

/* Handle the signals from now on. Return a descriptor that is readable after one, or -1 with errno
 * set. `second_kills`: a second request for the end ends this process at once, even during long
 * work, like SIGKILL would: profiled programs go on (recorder/attach/return_frame.h). */
int end_signals_take(bool second_kills);

/* Return whether a signal asked for the end; set *dump if one asked for a dump. */
bool end_signals_read(int signals, bool *dump);

/* Return the number of requests for the end. Signals of the same moment count once. */
unsigned end_signals_count(void);

/* Restore the signals' actions. If no signal has asked for the end, the first one that comes now is
 * ignored: it must not interrupt the report. Late requests for a dump are always ignored. */
void end_signals_restore(bool end_requested);

#endif
