/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The data that invites a process (wire/control_page.h): its pid, and the secret that it shares
 * with those who may read its memory.
 */
#ifndef HEAPPROFD_RECORDER_PROCESSES_INVITED_H
#define HEAPPROFD_RECORDER_PROCESSES_INVITED_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "wire/control_page.h"

struct invited {
    uint64_t number; /* pid of the process in its own namespace */
    struct control_page_secret secret;
};

/* Read what invites a process that has the library. This needs the right to read its memory, but
 * reads none of it. Return false if the process is gone or may not be read. */
bool invited_read(struct invited *invited, pid_t pid);

#endif
