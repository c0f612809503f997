/* SPDX-License-Identifier: Apache-2.0 */
/* Steps of a thread that makes system calls (tracee_call.c), for the part that depends on the
 * processor. */
#ifndef HEAPPROFD_RECORDER_ATTACH_TRACEE_CALL_H
#define HEAPPROFD_RECORDER_ATTACH_TRACEE_CALL_H

#include "recorder/attach/tracee.h"

/* Wait for the worker's next stop. Return its status, or a negative errno. -ETIMEDOUT: it runs. */
int worker_wait(struct tracee *tracee);

/* Run the worker until its next system call stop. Return 0 or a negative errno. */
int worker_run_to_call(struct tracee *tracee);

#endif
