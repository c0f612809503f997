/* SPDX-License-Identifier: Apache-2.0 */
/* The hooks of the functions by which a program restricts its system calls. */
#ifndef HEAPPROFD_CLIENT_ATTACHED_RESTRICT_H
#define HEAPPROFD_CLIENT_ATTACHED_RESTRICT_H

#include "client/client.h"

int restrict_prctl(int option, unsigned long a, unsigned long b, unsigned long c,
                   unsigned long d) HIDDEN;
/* In arch/<cpu>/attached_syscall.S. */
long attached_syscall(long number, ...) HIDDEN;

#endif
