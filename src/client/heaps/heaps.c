/* SPDX-License-Identifier: Apache-2.0 */
/* Register heaps, begin them with a session, and call the program's callbacks. */
#include "client/heaps/heaps.h"

#include <stddef.h>
#include <string.h>

#include "client/forward.h"
#include "client/heaps/python_object.h"
#include "client/libc/libc.h"
#include "client/sample/thread_slot.h"
#include "client/session.h"

static uint32_t heaps_described; /* ids [1, this] are taken */

/* --- describing --- */

EXPORT AHeapInfo *AHeapInfo_create(const char *heap_name)
{
    FORWARD(create, heap_name);
    size_t length = heap_name != NULL ? strnlen(heap_name, RING_HEAP_NAME_BYTES) : 0;
    if (length == 0 || length >= RING_HEAP_NAME_BYTES)
        return NULL;
    uint32_t described = load_relaxed(&heaps_described);
    do {
        if (described >= RING_HEAPS_MAX - 1)
            return NULL;
    } while (!cas_relaxed(&heaps_described, &described, described + 1));
    struct AHeapInfo *heap = &heaps[described + 1];
    memcpy(heap->name, heap_name, length);
    store_release(&heap->stage, HEAP_DESCRIBED);
    return heap;
}

static bool is_described(const AHeapInfo *info)
{
    return info != NULL && load_acquire(&info->stage) == HEAP_DESCRIBED;
}

EXPORT AHeapInfo *AHeapInfo_setEnabledCallback(AHeapInfo *info,
                                               AHeapProfileEnabledCallback callback, void *data)
{
    FORWARD(set_enabled, info, callback, data);
    if (is_described(info)) {
        info->enabled = callback;
        info->enabled_data = data;
    }
    return info;
}

EXPORT AHeapInfo *AHeapInfo_setDisabledCallback(AHeapInfo *info,
                                                AHeapProfileDisabledCallback callback, void *data)
{
    FORWARD(set_disabled, info, callback, data);
    if (is_described(info)) {
        info->disabled = callback;
        info->disabled_data = data;
    }
    return info;
}

EXPORT uint64_t
AHeapProfileEnableCallbackInfo_getSamplingInterval(const AHeapProfileEnableCallbackInfo *info)
{
    FORWARD(interval, info);
    const struct AHeapInfo *heap = (const void *)info;
    return heap->rule.interval_bytes;
}

/* --- registering --- */

static uint32_t heaps_end_id(void)
{
    return load_acquire(&heaps_described) + 1;
}

#ifdef HEAPPROFD_NO_HOOKS

static void describe_mmap(void) {}

#else

HIDDEN uint32_t heaps_mmap;

/* Register the heap libc.mmap. It takes one of the ids only if a session wants it. */
static void describe_mmap(void)
{
    const struct ring_heap_rule *rule = heap_find_rule(HEAPS_MMAP_NAME);
    if (heaps_mmap != 0 || rule == NULL || rule->interval_bytes == 0 || heaps_init() != 0)
        return;
    struct AHeapInfo *heap = AHeapInfo_create(HEAPS_MMAP_NAME);
    if (heap == NULL)
        return;
    heap->of_ranges = 1;
    store_ordered(&heap->stage, HEAP_REGISTERED);
    store_release(&heaps_mmap, (uint32_t)(heap - heaps));
}

#endif

void heaps_begin(void)
{
    describe_mmap();
    for (uint32_t id = 1; id < heaps_end_id(); id++) {
        if (load_ordered(&heaps[id].stage) == HEAP_REGISTERED)
            heap_begin(id);
    }
}

void heaps_forget(void)
{
    heap_lines_forget();
    for (uint32_t id = 1; id < heaps_end_id(); id++) {
        store_relaxed(&client.process->heap_states[id], HEAP_IDLE);
        store_relaxed(&client.process->heap_begun[id], 0);
        live_set_forget(&heaps[id].live);
    }
    store_release(&client.process->heaps_callbacks_due, 1);
}

void heaps_after_fork(void)
{
    for (uint32_t id = 1; id < heaps_end_id(); id++)
        store_relaxed(&heaps[id].in_callback, 0);
    store_release(&client.process->heaps_callbacks_due, 1);
}

EXPORT uint32_t AHeapProfile_registerHeap(AHeapInfo *info)
{
    FORWARD(register_heap, info);
    uint32_t described = HEAP_DESCRIBED;
    if (!is_described(info))
        return 0;
    uint32_t id = (uint32_t)(info - heaps);
    session_join_or_tick();
    struct thread_passage passage;
    thread_enter(&passage);
    bool counts = heaps_init() == 0 && cas_ordered(&info->stage, &described, HEAP_REGISTERED);
    /* A thread that makes the session active at this moment then reads the stages: one of us begins
     * the heap. */
    if (counts && load_ordered(&client.process->state) == CLIENT_ACTIVE)
        heap_begin(id);
    thread_leave(&passage);
    heaps_run_callbacks();
    return counts ? id : 0;
}

/* --- callbacks --- */

static bool is_profiled(uint32_t id)
{
    return client_state() == CLIENT_ACTIVE &&
           load_acquire(&client.process->heap_states[id]) != HEAP_IDLE;
}

/* Call the heap's callbacks until they agree with its state. If another thread is doing so, leave
 * it to that thread. */
static void run_callbacks_of(uint32_t id)
{
    struct AHeapInfo *heap = &heaps[id];
    while (is_profiled(id) != (heap->was_enabled != 0)) {
        uint32_t nobody = 0;
        if (!cas_acq_rel(&heap->in_callback, &nobody, 1))
            return;
        bool profiled = is_profiled(id);
        if (profiled != (heap->was_enabled != 0)) {
            heap->was_enabled = profiled;
            if (profiled && heap->enabled != NULL)
                heap->enabled(heap->enabled_data, (const void *)heap);
            else if (!profiled && heap->disabled != NULL)
                heap->disabled(heap->disabled_data, (const void *)heap);
        }
        store_release(&heap->in_callback, 0);
    }
}

void heaps_run_callbacks(void)
{
    int saved_errno = errno;
    store_release(&client.process->heaps_callbacks_due, 0);
    python_object_register_noticed();
    for (uint32_t id = 1; id < heaps_end_id(); id++) {
        if (load_acquire(&heaps[id].stage) == HEAP_REGISTERED)
            run_callbacks_of(id);
    }
    errno = saved_errno;
}
