/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process has one active client. If a program links the client statically
 * (libheapprofd_client.a) and the preload library is loaded, too, the program's copy forwards all
 * calls to the library. A weak reference finds the library's table: no look-up, and NULL without
 * the library. (The shared client needs no forwarding: the preload library's functions precede its
 * own.)
 */
#ifndef HEAPPROFD_CLIENT_FORWARD_H
#define HEAPPROFD_CLIENT_FORWARD_H

#include "client/client.h"
#include "heap_profile.h"

/* Grows only at its end: an older program may run with a newer library. */
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
