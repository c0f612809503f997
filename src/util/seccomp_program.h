/* SPDX-License-Identifier: Apache-2.0 */
/* Instructions of seccomp filters, which are programs of the kernel's classic BPF. */
#ifndef HEAPPROFD_UTIL_SECCOMP_PROGRAM_H
#define HEAPPROFD_UTIL_SECCOMP_PROGRAM_H

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>

#if defined(__x86_64__)
#define SECCOMP_OUR_MACHINE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define SECCOMP_OUR_MACHINE AUDIT_ARCH_AARCH64
#endif

/* Load a field of struct seccomp_data. */
#define SECCOMP_LOAD(field)                                                                        \
    (struct sock_filter) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define SECCOMP_RETURN(value) (struct sock_filter) BPF_STMT(BPF_RET | BPF_K, value)
/* Compare (BPF_JEQ and others), and skip `holds` or `else_` instructions. */
#define SECCOMP_JUMP(condition, value, holds, else_)                                               \
    (struct sock_filter) BPF_JUMP(BPF_JMP | (condition) | BPF_K, value, holds, else_)

#endif
