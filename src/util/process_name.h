/* SPDX-License-Identifier: Apache-2.0 */
/* The name under which ps, pidof and pkill know one of our helper processes. */
#ifndef HEAPPROFD_UTIL_PROCESS_NAME_H
#define HEAPPROFD_UTIL_PROCESS_NAME_H

/*
 * Give this process the name (at most 15 bytes) and an empty command line, so that killall, pidof
 * and pkill -f find the process that it was forked from alone. The command line stays where /proc
 * does not say where it lies. Wipes the arguments: call it only in a fork that needs them no more.
 */
void process_name_set(const char *name);

#endif
