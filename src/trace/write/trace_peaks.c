/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Peaks in the form that Perfetto's readers understand. With dump_at_max, a dump contains what each
 * callstack held when the heap was largest. At a later and higher maximum, a callstack may hold
 * less. Trace processor computes differences of dumps and counts every decrease as an error, even
 * in traces of Perfetto's own recorder. Once a callstack has decreased, it therefore gets
 * Perfetto's two counters for growth and release, and their difference is its part of the maximum.
 *
 * The writer keeps the last dump of each heap until the heap's final one.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "trace/write/writer_state.h"
#include "util/array.h"

struct peak_heap {
    int32_t pid;
    char *name;
    struct intern_table ids; /* of callstacks */
    struct trace_peak *peaks;
    size_t capacity;
};

static void heap_free(struct peak_heap *heap)
{
    free(heap->name);
    intern_free(&heap->ids);
    free(heap->peaks);
}

static ssize_t find_heap(const struct trace_peaks *peaks, int32_t pid, const char *name)
{
    for (size_t i = 0; i < peaks->count; i++)
        if (peaks->heaps[i].pid == pid && strcmp(peaks->heaps[i].name, name) == 0)
            return (ssize_t)i;
    return -1;
}

int trace_peaks_begin(struct trace_peaks *peaks, int32_t pid, const char *name, bool final)
{
    peaks->current = find_heap(peaks, pid, name);
    peaks->is_final = final;
    if (peaks->current >= 0 || final)
        return 0;
    char *copy = strdup(name);
    if (copy == NULL || ARRAY_RESERVE(&peaks->heaps, &peaks->capacity, peaks->count, 1) < 0) {
        free(copy);
        return -ENOMEM;
    }
    peaks->heaps[peaks->count] = (struct peak_heap){.pid = pid, .name = copy};
    peaks->current = (ssize_t)peaks->count++;
    return 0;
}

void trace_peaks_end(struct trace_peaks *peaks)
{
    if (peaks->current >= 0 && peaks->is_final) {
        heap_free(&peaks->heaps[peaks->current]);
        peaks->heaps[peaks->current] = peaks->heaps[--peaks->count];
    }
    peaks->current = -1;
}

int trace_peaks_next(struct trace_peaks *peaks, uint64_t callstack, struct trace_peak *peak)
{
    struct peak_heap *heap = peaks->current < 0 ? NULL : &peaks->heaps[peaks->current];
    peak->freed_bytes = peak->freed_count = 0;
    if (heap == NULL)
        return 0;
    bool added;
    uint64_t id = intern_bytes(&heap->ids, &callstack, sizeof(callstack), &added);
    if (id == 0 || ARRAY_RESERVE(&heap->peaks, &heap->capacity, (size_t)id - 1, 1) < 0)
        return -ENOMEM;
    struct trace_peak *last = &heap->peaks[id - 1];
    if (!added) {
        peak->freed_bytes = last->freed_bytes;
        peak->freed_count = last->freed_count;
        if (last->bytes > peak->bytes)
            peak->freed_bytes += last->bytes - peak->bytes;
        if (last->count > peak->count)
            peak->freed_count += last->count - peak->count;
    }
    *last = *peak;
    return 0;
}

void trace_peaks_free(struct trace_peaks *peaks)
{
    for (size_t i = 0; i < peaks->count; i++)
        heap_free(&peaks->heaps[i]);
    free(peaks->heaps);
}
