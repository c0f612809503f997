/* SPDX-License-Identifier: Apache-2.0 */
/* Explains why a process could not be stopped, and checks what stopped threads may call. Shared by
 * attaching and removing. */
#ifndef HEAPPROFD_RECORDER_ATTACH_STOP_CHECKS_H
#define HEAPPROFD_RECORDER_ATTACH_STOP_CHECKS_H

#include "recorder/attach/process.h"
#include "recorder/attach/seccomp_filter.h"
#include "recorder/attach/tracee.h"

/* Explain why tracee_open() or tracee_stop() failed with this code. Return an error for the caller,
 * and set the refusal of the outcome. */
int stop_explain(const struct tracee *tracee, int code, struct attach_outcome *outcome,
                 struct error *error);

/* Check whether all threads may make the system calls of these makers (enum call_maker): that none
 * has its calls dispatched to itself (prctl PR_SET_SYSCALL_USER_DISPATCH), and that the filters
 * allow them. Return 0 or a negative errno. *verdict: what the client must not do. */
int stop_check_calls(const struct tracee *tracee, unsigned makers,
                     struct client_filter_verdict *verdict, struct error *error);

#endif
