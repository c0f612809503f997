/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Return type of any function that only prefetches. It must be inlined always: gcc (12) takes such
 * a function for one without effects, and drops its calls without a word. Where that happened to
 * the live samples of a batch, an event took a third longer.
 */
#ifndef HEAPPROFD_UTIL_PREFETCH_H
#define HEAPPROFD_UTIL_PREFETCH_H

#define PREFETCHING static inline __attribute__((always_inline)) void

#endif
