/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Named access to words that two threads or two processes share.
 *
 * Every shared word in this project is read and written through these wrappers, so that each access
 * shows its ordering. Plain accesses are for memory that one thread owns.
 */
#ifndef HEAPPROFD_WIRE_BARRIER_H
#define HEAPPROFD_WIRE_BARRIER_H

/* No ordering: counters, and words whose ordering another access provides. */
#define load_relaxed(p) __atomic_load_n((p), __ATOMIC_RELAXED)
#define store_relaxed(p, v) __atomic_store_n((p), (v), __ATOMIC_RELAXED)
#define add_relaxed(p, v) __atomic_fetch_add((p), (v), __ATOMIC_RELAXED)
#define sub_relaxed(p, v) __atomic_fetch_sub((p), (v), __ATOMIC_RELAXED)
#define exchange_relaxed(p, v) __atomic_exchange_n((p), (v), __ATOMIC_RELAXED)

/* What the writer did before store_release is visible after load_acquire. */
#define load_acquire(p) __atomic_load_n((p), __ATOMIC_ACQUIRE)
#define store_release(p, v) __atomic_store_n((p), (v), __ATOMIC_RELEASE)

/* One total order over all of these: for "I set mine, then read yours". */
#define load_ordered(p) __atomic_load_n((p), __ATOMIC_SEQ_CST)
#define store_ordered(p, v) __atomic_store_n((p), (v), __ATOMIC_SEQ_CST)
#define add_ordered(p, v) __atomic_fetch_add((p), (v), __ATOMIC_SEQ_CST)

/* Compare and swap. On failure *(expected) is set to the current value. */
#define cas_relaxed(p, expected, v)                                                                \
    __atomic_compare_exchange_n((p), (expected), (v), 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)
#define cas_acquire(p, expected, v)                                                                \
    __atomic_compare_exchange_n((p), (expected), (v), 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)
#define cas_acq_rel(p, expected, v)                                                                \
    __atomic_compare_exchange_n((p), (expected), (v), 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)

#define cas_ordered(p, expected, v)                                                                \
    __atomic_compare_exchange_n((p), (expected), (v), 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)

/* Order what comes before against later stores, or later loads and stores: for words whose readers,
 * or writers, do not use release and acquire. */
#define barrier_release() __atomic_thread_fence(__ATOMIC_RELEASE)
#define barrier_acquire() __atomic_thread_fence(__ATOMIC_ACQUIRE)

/* Orders only the compiler: for a signal handler of the same thread. */
#define barrier_signal() __atomic_signal_fence(__ATOMIC_SEQ_CST)

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

#endif
