/* SPDX-License-Identifier: Apache-2.0 */
/* The preload library's table of functions for a client that is linked into the program. */
#include "client/forward.h"

EXPORT const struct heap_functions heapprofd_preloaded = {
    .create = AHeapInfo_create,
    .set_enabled = AHeapInfo_setEnabledCallback,
    .set_disabled = AHeapInfo_setDisabledCallback,
    .interval = AHeapProfileEnableCallbackInfo_getSamplingInterval,
    .register_heap = AHeapProfile_registerHeap,
    .report_allocation = AHeapProfile_reportAllocation,
    .report_of_type = HeapProfile_reportAllocationOfType,
    .report_sample = AHeapProfile_reportSample,
    .report_free = AHeapProfile_reportFree,
    .intern = HeapProfile_intern,
    .push = HeapProfile_pushContext,
    .pop = HeapProfile_popContext,
};
