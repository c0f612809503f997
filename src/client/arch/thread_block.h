/* SPDX-License-Identifier: Apache-2.0 */
/* What glibc keeps where the thread pointer points to (tcbhead_t). */
#ifndef HEAPPROFD_CLIENT_ARCH_THREAD_BLOCK_H
#define HEAPPROFD_CLIENT_ARCH_THREAD_BLOCK_H

/* The index of a word that is there for other processors or uses, and is always 0. */
#if defined(__x86_64__)
#define ARCH_THREAD_BLOCK_ZERO_WORD 4 /* sysinfo, after tcb, dtv, self and two numbers */
#else
#define ARCH_THREAD_BLOCK_ZERO_WORD 1 /* private, after dtv */
#endif

#endif
