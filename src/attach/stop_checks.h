/* SPDX-License-Identifier: Apache-2.0 */
/* Explains why a process could not be stopped, and checks the filters of stopped threads. Shared by
 * attaching and removing. */
#ifndef HEAPPROFD_ATTACH_STOP_CHECKS_H
#define HEAPPROFD_ATTACH_STOP_CHECKS_H

#include "attach/process.h"
#include "attach/seccomp_filter.h"
#include "attach/tracee.h"

/* Explain why tracee_open() or tracee_stop() failed with this code. Return an error for the caller,
 * and set the refusal of the outcome. */
int stop_explain(const struct tracee *tracee, int code, struct attach_outcome *outcome,
                 struct error *error);

/* Check whether the filters of all threads allow the system calls for this purpose. Return 0 or a
 * negative errno. avoid_copying: as for seccomp_filter_check(); NULL for SECCOMP_TO_LEAVE. */
int stop_check_seccomp(const struct tracee *tracee, enum seccomp_purpose purpose,
                       bool *avoid_copying, struct error *error);

#endif
