/* SPDX-License-Identifier: Apache-2.0 */
/* Look-ups in a profile, and its end. */
#include "profile/profile.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profile/profile_owner.h"
#include "profile/stack_samples.h"
#include "util/base_name.h"
#include "util/sorted_search.h"

struct profile_place profile_place_of(const struct profile *profile,
                                      const struct profile_heap *heap, uint32_t mapping)
{
    const struct profile_mapping *known = &profile->mappings[mapping];
    const struct trace_heap_dump *status = &heap->status;
    size_t at = SORTED_SEARCH(status->place_count, i, status->places[i].mapping < mapping);
    if (known->start >= known->end && at < status->place_count &&
        status->places[at].mapping == mapping)
        return (struct profile_place){status->places[at].start, status->places[at].end};
    return (struct profile_place){known->start, known->end};
}

bool profile_has_duration(const struct profile_heap *heap, const struct profile_dump *dump)
{
    return heap->unknown == 0 || heap->is_perfettos || dump->boottime_ns != heap->start_boottime_ns;
}

bool profile_heap_is_before_exec(const struct profile_heap *heap)
{
    /* "libc.malloc (sh, before exec)", and numbers for further ones */
    const char *program = strstr(heap->name, " (");
    return program != NULL && strstr(program, ", before exec") != NULL;
}

const char *profile_heap_why_unseen(const struct profile_heap *heap)
{
    return heap->status.remark != NULL && heap->status.remark[0] != '\0'
               ? heap->status.remark
               : "No call of its allocator was seen.";
}

static void remap_sites(struct profile_dump *dump, const uint32_t *now)
{
    size_t count = 0;
    for (size_t i = 0; i < dump->site_count; i++) {
        struct trace_memory_site site = dump->sites[i];
        site.callsite = now[site.callsite];
        if (site.callsite != PROFILE_NONE)
            dump->sites[count++] = site;
    }
    dump->site_count = count;
}

void profile_remap_sites(struct profile *profile, const uint32_t *now)
{
    for (size_t i = 0; i < profile->heap_count; i++)
        for (size_t j = 0; j < profile->heaps[i].dump_count; j++)
            remap_sites(&profile->heaps[i].dumps[j], now);
}

static void free_stack_samples(struct profile_stack_samples *samples)
{
    if (samples == NULL)
        return;
    free(samples->sessions);
    free(samples->asyncs);
    free(samples->tasks);
    free(samples->executions);
    free(samples->tracks);
    free(samples->samples);
    free(samples->counters);
    free(samples);
}

void profile_free(struct profile *profile)
{
    if (profile == NULL)
        return;
    struct profile_owner *owner = (struct profile_owner *)profile;
    for (size_t i = 0; i < profile->heap_count; i++) {
        for (size_t j = 0; j < profile->heaps[i].dump_count; j++) {
            free(profile->heaps[i].dumps[j].samples);
        }
        free(profile->heaps[i].dumps);
    }
    for (size_t i = 0; i < profile->process_count; i++)
        free(profile->processes[i].timeline);
    free(profile->heaps);
    free(profile->processes);
    free(profile->threads);
    free(profile->mentions);
    free(profile->unprofiled);
    free(profile->streams);
    free(profile->smaps);
    free(profile->reported);
    free(profile->memory_snapshots);
    free(profile->counter_tracks);
    free(profile->counters);
    free(profile->lifetimes);
    free(profile->symbol_lines);
    free_stack_samples(profile->stack_samples);
    free(profile->mappings);
    free(profile->frames);
    free(profile->callsites);
    while (owner->samples != NULL) {
        struct profile_sample_block *block = owner->samples;
        owner->samples = block->next;
        free(block->samples);
        free(block);
    }
    while (owner->memory != NULL) {
        struct profile_memory *memory = owner->memory;
        owner->memory = memory->next;
        free(memory->memory);
        free(memory);
    }
    while (owner->chunks != NULL) {
        struct profile_chunk *chunk = owner->chunks;
        owner->chunks = chunk->next;
        free(chunk);
    }
    free(owner);
}

const char *profile_frame_kind(const struct profile_frame *frame)
{
    static const char *const kinds[] = {
        [TRACE_FRAME_UNKNOWN] = "",        [TRACE_FRAME_NATIVE] = "",
        [TRACE_FRAME_KERNEL] = "kernel",   [TRACE_FRAME_INTERPRETED] = "interpreted",
        [TRACE_FRAME_JIT] = "jit",         [TRACE_FRAME_GC] = "gc",
        [TRACE_FRAME_RUNTIME] = "runtime",
    };
    if (frame->kind == TRACE_FRAME_UNKNOWN && frame->kind_name != NULL)
        return frame->kind_name;
    return frame->kind < sizeof(kinds) / sizeof(*kinds) ? kinds[frame->kind] : "";
}

const char *profile_frame_label(const struct profile *profile, const struct profile_frame *frame,
                                char buffer[PROFILE_LABEL_BYTES])
{
    if (*frame->name != '\0')
        return frame->name;
    const char *path = frame->mapping == PROFILE_NONE ? "" : profile->mappings[frame->mapping].path;
    const char *module = base_name(path);
    snprintf(buffer, PROFILE_LABEL_BYTES, "0x%" PRIx64 " @ %s", frame->function_start,
             *module == '\0' ? "?" : module);
    return buffer;
}

bool *profile_frames_on_stacks(const struct profile *profile)
{
    bool *are_used = calloc(profile->frame_count + 1, sizeof(*are_used));
    for (size_t i = 0; i < profile->callsite_count && are_used != NULL; i++)
        are_used[profile->callsites[i].frame] = true;
    return are_used;
}

const char *profile_thread_name(const struct profile *profile, int32_t pid, int32_t tid)
{
    for (size_t i = 0; i < profile->thread_count; i++) {
        if (profile->threads[i].tid == tid && profile->threads[i].pid == pid)
            return profile->threads[i].name;
    }
    return "";
}

/* Bytes b of allocations small beside T go unseen with probability exp(-b/T), which is
 * 5 % at b = T ln 20; above an interval of 1 nothing hides. */
bool profile_is_widened(const struct profile_heap *heap)
{
    return heap->first_interval_bytes == 1 && heap->interval_bytes > 1;
}

uint64_t profile_peak_boottime_ns(const struct profile_heap *heap)
{
    const struct trace_heap_dump *status = &heap->status;
    uint64_t last_ns = heap->dump_count > 0 ? heap->dumps[heap->dump_count - 1].boottime_ns : 0;
    if (status->peak_timestamp_ns == 0 || status->peak_timestamp_ns > status->timestamp_ns ||
        last_ns < heap->start_boottime_ns)
        return 0;
    uint64_t before_ns = status->timestamp_ns - status->peak_timestamp_ns;
    return before_ns > last_ns - heap->start_boottime_ns ? 0 : last_ns - before_ns;
}

double profile_floor_bytes(uint64_t interval_bytes)
{
    return interval_bytes <= 1 ? 0 : (double)interval_bytes * 2.995732;
}
