/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One process, one client: where a program has the client linked into itself
 * (libheapprofd_client.a) and the preload library is there, too, the program's copy passes on to
 * that. The preload library's table is found by a weak reference: no look-up, and NULL without it.
 * (The shared client needs nothing: its functions are bound to the preload library's, which come
 * first.)
 */
#ifndef HEAPPROFD_CLIENT_FORWARD_H
#define HEAPPROFD_CLIENT_FORWARD_H

#include "client/client.h"
#include "heap_profile.h"

/* Grows at its end only: an older program may meet a newer library. */
struct heap_functions {
    __typeof__(AHeapInfo_create) *create;
    __typeof__(AHeapInfo_setEnabledCallback) *set_enabled;
    __typeof__(AHeapInfo_setDisabledCallback) *set_disabled;
    __typeof__(AHeapProfileEnableCallbackInfo_getSamplingInterval) *interval;
    __typeof__(AHeapProfile_registerHeap) *register_heap;
    __typeof__(AHeapProfile_reportAllocation) *report_allocation;
    __typeof__(HeapProfile_reportAllocationOfType) *report_of_type;
    __typeof__(AHeapProfile_reportSample) *report_sample;
    __typeof__(AHeapProfile_reportFree) *report_free;
    __typeof__(HeapProfile_intern) *intern;
    __typeof__(HeapProfile_pushContext) *push;
    __typeof__(HeapProfile_popContext) *pop;
};

#ifdef HEAPPROFD_STATIC
extern const struct heap_functions heapprofd_preloaded __attribute__((weak));
#define FORWARD(function, ...)                                                                     \
    do {                                                                                           \
        if (unlikely(&heapprofd_preloaded != NULL))                                                \
            return heapprofd_preloaded.function(__VA_ARGS__);                                      \
    } while (0)
#else
extern const struct heap_functions heapprofd_preloaded;
#define FORWARD(function, ...) ((void)0)
#endif

#endif
