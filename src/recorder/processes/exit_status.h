/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a process that is not our child has ended. The kernel tells it in two places, each for a
 * time: /proc/PID/stat while the process is a zombie, to those who may trace it; and the pidfd once
 * its parent has waited for it, from Linux 6.15 on. (The third are the process events of
 * exec_events.h.)
 */
#ifndef HEAPPROFD_RECORDER_PROCESSES_EXIT_STATUS_H
#define HEAPPROFD_RECORDER_PROCESSES_EXIT_STATUS_H

#include <stdint.h>

/* Return the status of an ended process as waitpid gives it; -1: unknown. `directory` is /proc/PID,
 * opened while the process ran; -1: none. */
int32_t exit_status_find(int directory, int pidfd);

#endif
