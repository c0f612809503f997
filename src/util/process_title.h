/* SPDX-License-Identifier: Apache-2.0 */
/* Names helper processes for ps, pidof and pkill. */
#ifndef HEAPPROFD_UTIL_PROCESS_TITLE_H
#define HEAPPROFD_UTIL_PROCESS_TITLE_H

/*
 * Give this process the name (at most 15 bytes) and an empty command line, so that killall, pidof
 * and pkill -f match only the process that it was forked from. If /proc hides the arguments'
 * address, the command line stays. This wipes the arguments: call it only in a fork that no longer
 * needs them.
 */
void process_title_set(const char *name);

#endif
