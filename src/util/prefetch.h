/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Return type of an inline function that prefetches. It must be inlined always: gcc (12) takes a
 * function that does nothing else for one without effects, and drops its calls.
 */
#ifndef HEAPPROFD_UTIL_PREFETCH_H
#define HEAPPROFD_UTIL_PREFETCH_H

#define PREFETCHING static inline __attribute__((always_inline)) void

#endif
