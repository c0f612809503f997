/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libheapprofd_noop.a: the functions of heap_profile.h without effect. A program that is linked to
 * it instead of libheapprofd_client cannot create a heap, and every heap id is 0. It behaves as if
 * no session ever profiled it.
 */
#include "heap_profile.h"

#include <stddef.h>

AHeapInfo *AHeapInfo_create(const char *heap_name)
{
    (void)heap_name;
    return NULL;
}

AHeapInfo *AHeapInfo_setEnabledCallback(AHeapInfo *info, AHeapProfileEnabledCallback callback,
                                        void *data)
{
    (void)callback;
    (void)data;
    return info;
}

AHeapInfo *AHeapInfo_setDisabledCallback(AHeapInfo *info, AHeapProfileDisabledCallback callback,
                                         void *data)
{
    (void)callback;
    (void)data;
    return info;
}

uint64_t
AHeapProfileEnableCallbackInfo_getSamplingInterval(const AHeapProfileEnableCallbackInfo *info)
{
    (void)info;
    return 0;
}

uint32_t AHeapProfile_registerHeap(AHeapInfo *info)
{
    (void)info;
    return 0;
}

bool AHeapProfile_reportAllocation(uint32_t heap_id, uint64_t allocation_id, uint64_t size)
{
    (void)heap_id;
    (void)allocation_id;
    (void)size;
    return false;
}

bool AHeapProfile_reportSample(uint32_t heap_id, uint64_t allocation_id, uint64_t size)
{
    (void)heap_id;
    (void)allocation_id;
    (void)size;
    return false;
}

void AHeapProfile_reportFree(uint32_t heap_id, uint64_t allocation_id)
{
    (void)heap_id;
    (void)allocation_id;
}

bool HeapProfile_reportAllocationOfType(uint32_t heap_id, uint64_t allocation_id, uint64_t size,
                                        const char *type)
{
    (void)heap_id;
    (void)allocation_id;
    (void)size;
    (void)type;
    return false;
}

/* Return the text itself: nothing keeps it. */
const char *HeapProfile_intern(const char *text)
{
    return text;
}

void HeapProfile_pushContext(struct HeapProfileScope *scope, const char *name)
{
    (void)scope;
    (void)name;
}

void HeapProfile_popContext(struct HeapProfileScope *scope)
{
    (void)scope;
}
