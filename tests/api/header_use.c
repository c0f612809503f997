/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Uses all declarations of heap_profile.h, for header.py to compile as C and as C++, and checks
 * what programs that were built with an earlier header rely on.
 */
#include <heap_profile.h>
#include <heap_profile.h> /* a second include is harmless */
#include <stddef.h>

/* The program has a scope on its stack, and the library reads and writes it. */
#ifndef HEAP_PROFILE_NOOP
#define HOLDS(name, what) typedef char name[(what) ? 1 : -1]
HOLDS(scope_has_three_words, sizeof(struct HeapProfileScope) == 3 * sizeof(void *));
HOLDS(scope_name_is_first, offsetof(struct HeapProfileScope, name) == 0);
HOLDS(scope_outer_is_second, offsetof(struct HeapProfileScope, outer) == sizeof(void *));
HOLDS(scope_check_is_third, offsetof(struct HeapProfileScope, check) == 2 * sizeof(void *));
#endif

static void begin(void *data, const AHeapProfileEnableCallbackInfo *info)
{
    *(uint64_t *)data = AHeapProfileEnableCallbackInfo_getSamplingInterval(info);
}

static void end(void *data, const AHeapProfileDisableCallbackInfo *info)
{
    (void)info;
    *(uint64_t *)data = 0;
}

/* The types of all functions, as they are documented. */
struct functions {
    AHeapInfo *(*create)(const char *);
    AHeapInfo *(*set_enabled)(AHeapInfo *, void (*)(void *, const AHeapProfileEnableCallbackInfo *),
                              void *);
    AHeapInfo *(*set_disabled)(AHeapInfo *,
                               void (*)(void *, const AHeapProfileDisableCallbackInfo *), void *);
    uint64_t (*get_interval)(const AHeapProfileEnableCallbackInfo *);
    uint32_t (*register_heap)(AHeapInfo *);
    bool (*report_allocation)(uint32_t, uint64_t, uint64_t);
    bool (*report_sample)(uint32_t, uint64_t, uint64_t);
    void (*report_free)(uint32_t, uint64_t);
    bool (*report_of_type)(uint32_t, uint64_t, uint64_t, const char *);
    const char *(*intern)(const char *);
    void (*push)(struct HeapProfileScope *, const char *);
    void (*pop)(struct HeapProfileScope *);
};

extern const struct functions all_functions;
const struct functions all_functions = {
    AHeapInfo_create,
    AHeapInfo_setEnabledCallback,
    AHeapInfo_setDisabledCallback,
    AHeapProfileEnableCallbackInfo_getSamplingInterval,
    AHeapProfile_registerHeap,
    AHeapProfile_reportAllocation,
    AHeapProfile_reportSample,
    AHeapProfile_reportFree,
    HeapProfile_reportAllocationOfType,
    HeapProfile_intern,
    HeapProfile_pushContext,
    HeapProfile_popContext,
};

int main(void)
{
    HEAP_PROFILE_SCOPE("outer");
    HEAP_PROFILE_SCOPE(HeapProfile_intern("inner"));
    static uint64_t interval;
    AHeapInfo *info = AHeapInfo_create("example");
    info = AHeapInfo_setEnabledCallback(info, begin, &interval);
    info = AHeapInfo_setDisabledCallback(info, end, &interval);
    uint32_t heap = AHeapProfile_registerHeap(info);
    bool sampled = AHeapProfile_reportAllocation(heap, UINT64_MAX, 1);
    sampled = AHeapProfile_reportSample(heap, 0, 100) || sampled;
    if (heap) {
        HEAP_PROFILE_SCOPE("in a block");
        sampled = HeapProfile_reportAllocationOfType(heap, 1, 2, "Node") || sampled;
    }
    AHeapProfile_reportFree(heap, UINT64_MAX);
    return sampled ? 0 : (int)interval;
}
