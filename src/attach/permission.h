/* SPDX-License-Identifier: Apache-2.0 */
/* Explains why the kernel forbids attaching to a process, and what the user can do about it. */
#ifndef HEAPPROFD_ATTACH_PERMISSION_H
#define HEAPPROFD_ATTACH_PERMISSION_H

#include <sys/types.h>

#include "attach/attach.h"
#include "util/error.h"

/* Explain an EPERM or EACCES of the kernel in `error`, and set the refusal. Return -EPERM. */
int permission_explain(pid_t pid, struct attach_outcome *outcome, struct error *error);

#endif
