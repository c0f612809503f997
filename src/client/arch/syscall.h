/* SPDX-License-Identifier: Apache-2.0 */
/* The system call instruction, by processor. Calls are made by system_call() (client/system.h). */
#ifndef HEAPPROFD_CLIENT_ARCH_SYSCALL_H
#define HEAPPROFD_CLIENT_ARCH_SYSCALL_H

#if defined(__x86_64__)
#include "client/arch/x86_64/syscall.h"
#elif defined(__aarch64__)
#include "client/arch/aarch64/syscall.h"
#else
#error "heapprofd runs on x86-64 and aarch64"
#endif

#endif
