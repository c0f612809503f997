/* SPDX-License-Identifier: Apache-2.0 */
/* Explains why the kernel forbids attaching to a process, and what the user can do about it. */
#ifndef HEAPPROFD_RECORDER_ATTACH_PERMISSION_H
#define HEAPPROFD_RECORDER_ATTACH_PERMISSION_H

#include <stdbool.h>
#include <sys/types.h>

#include "recorder/attach/attach.h"
#include "util/error.h"

/* Explain an EPERM or EACCES of the kernel in `error`, and set the refusal. Return -EPERM. */
int permission_explain(pid_t pid, struct attach_outcome *outcome, struct error *error);

/* Return whether we may trace the process. Then ptrace(2) fails with EPERM only because somebody
 * else traces it. */
bool permission_to_trace(pid_t pid);

/* Check that a stopped process has no rights of root that we lack. The kernel judges this when it
 * lets us trace; but the process may execute a program at that moment, and from now on it cannot.
 * Return 0, or a negative errno with the refusal set. */
int permission_check_stopped(pid_t pid, struct attach_outcome *outcome, struct error *error);

#endif
