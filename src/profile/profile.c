/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a trace into a profile, determines the unknown values, and frees it. */
#include "profile/profile.h"

#include <stdlib.h>
#include <string.h>

#include "profile/builder/builder.h"
#include "trace/read/trace_reader.h"
#include "util/sorted_search.h"

/* A heap without calls and samples. For malloc that means that nobody saw its calls: every program
 * has some. Other heaps can be idle, and the file then has a count of 0. */
static void find_unseen(struct profile *profile)
{
    static const char malloc_heap[] = "libc.malloc";
    for (size_t i = 0; i < profile->heap_count; i++) {
        struct profile_heap *heap = &profile->heaps[i];
        if (heap->dump_count == 0 ||
            (heap->status.has_exact_calls &&
             strncmp(heap->name, malloc_heap, sizeof(malloc_heap) - 1) != 0))
            continue;
        bool is_seen = heap->status.heap_samples > 0;
        for (size_t j = 0; j < heap->dump_count && !is_seen; j++)
            is_seen = heap->dumps[j].exact_calls > 0 || heap->dumps[j].sample_count > 0;
        heap->unseen = !is_seen;
        if (heap->unseen)
            heap->unknown = PROFILE_UNKNOWN_ALL;
    }
}

/* Perfetto's recorder counts samples, which at interval 1 are the allocations. It reports either
 * live and allocated memory, or memory at the peak. */
static void find_perfettos(struct profile *profile)
{
    for (size_t i = 0; i < profile->heap_count; i++) {
        struct profile_heap *heap = &profile->heaps[i];
        if (!heap->is_perfettos || heap->unseen || heap->dump_count == 0)
            continue;
        bool is_sampled = heap->interval_bytes != 1 || heap->first_interval_bytes != 1;
        heap->unknown = PROFILE_UNKNOWN_TEMPORARY | (is_sampled ? PROFILE_UNKNOWN_COUNTS : 0);
        heap->unknown |= heap->status.dump_at_max ? PROFILE_UNKNOWN_LIVE | PROFILE_UNKNOWN_ALLOCATED
                                                  : PROFILE_UNKNOWN_PEAK;
        const struct profile_dump *last = &heap->dumps[heap->dump_count - 1];
        for (size_t j = 0; heap->status.dump_at_max && j < last->sample_count; j++)
            heap->status.peak_live_bytes += last->samples[j]->peak.bytes;
    }
}

/* Perfetto's recorder does not say which dump is the last. */
static void find_unfinished(struct profile *profile)
{
    for (size_t i = 0; i < profile->heap_count; i++) {
        struct profile_heap *heap = &profile->heaps[i];
        heap->unfinished = !heap->is_perfettos && !heap->unseen && heap->dump_count > 0 &&
                           !heap->dumps[heap->dump_count - 1].final;
    }
}

/* Context of the memory check during the reading of a packet. */
struct checking {
    const struct trace_reader *reader;
    struct error error;
};

static int check_memory(void *context)
{
    struct checking *checking = context;
    return trace_reader_check(checking->reader, &checking->error);
}

static struct profile *read_all(struct trace_reader *reader,
                                const struct profile_read_options *options, struct error *error)
{
    struct error problem = {0};
    struct proto_span packet;
    int code = 0;
    struct checking checking = {.reader = reader};
    struct builder *builder = builder_new(options);
    if (builder == NULL) {
        error_set(error, -ENOMEM, "no memory to read the trace");
        return NULL;
    }
    builder->check = check_memory;
    builder->check_context = &checking;
    while (code == 0 && (code = trace_reader_next(reader, &packet, &problem)) > 0) {
        code = builder_packet(builder, packet);
        if (options->tell != NULL)
            options->tell(options->tell_context, trace_reader_offset(reader));
    }
    if (code == -EFBIG) {
        error_set(error, code, "%s", builder->error < 0 ? checking.error.message : problem.message);
        builder_abandon(builder);
        return NULL;
    }
    bool nothing_good = builder->packets == builder->damaged_packets;
    if (nothing_good && code == 0)
        error_set(&problem, -ENODATA, "%s",
                  "there is no trace packet in it; is it the raw-trace that heap_profile wrote?");
    if (nothing_good || builder->error < 0) {
        if (builder->error < 0)
            error_set(error, -ENOMEM, "no memory to read the trace");
        else
            error_set(error, problem.code, "%s", problem.message);
        builder_abandon(builder);
        return NULL;
    }
    struct profile *profile = builder_finish(builder, code < 0 ? problem.message : NULL);
    if (profile == NULL) {
        error_set(error, checking.error.code < 0 ? checking.error.code : -ENOMEM, "%s",
                  checking.error.code < 0 ? checking.error.message : "no memory to read the trace");
    } else if (trace_reader_check(reader, error) < 0) {
        profile_free(profile);
        profile = NULL;
    } else {
        find_unseen(profile);
        find_perfettos(profile);
        find_unfinished(profile);
    }
    return profile;
}

static const struct profile_read_options usual = {.demangling = DEMANGLE_FULL};

struct profile *profile_read(const char *path, struct error *error)
{
    return profile_read_as(path, &usual, error);
}

/* Close the reader. */
static struct profile *read_named(struct trace_reader *reader, const char *name,
                                  const struct profile_read_options *options, struct error *error)
{
    if (reader == NULL)
        return NULL;
    struct error problem = {0};
    struct profile *profile = read_all(reader, options, &problem);
    if (profile == NULL)
        error_set(error, problem.code, "%.300s: %s", name, problem.message);
    trace_reader_close(reader);
    return profile;
}

struct profile *profile_read_as(const char *path, const struct profile_read_options *options,
                                struct error *error)
{
    return read_named(trace_reader_open(path, error),
                      strcmp(path, "-") == 0 ? "standard input" : path, options, error);
}

struct profile *profile_read_source(struct trace_source *source, const char *name,
                                    const struct profile_read_options *options, struct error *error)
{
    return read_named(trace_reader_open_source(source, error), name,
                      options == NULL ? &usual : options, error);
}

struct profile *profile_read_bytes(const void *bytes, size_t length, struct error *error)
{
    return profile_read_bytes_as(bytes, length, &usual, error);
}

struct profile *profile_read_bytes_as(const void *bytes, size_t length,
                                      const struct profile_read_options *options,
                                      struct error *error)
{
    struct trace_reader *reader = trace_reader_open_bytes(bytes, length, error);
    if (reader == NULL)
        return NULL;
    struct profile *profile = read_all(reader, options, error);
    trace_reader_close(reader);
    return profile;
}

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

const char *profile_heap_why_unseen(const struct profile_heap *heap)
{
    return heap->status.remark != NULL && heap->status.remark[0] != '\0'
               ? heap->status.remark
               : "No call of its allocator was seen.";
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
    free(profile->meetings);
    free(profile->unprofiled);
    free(profile->streams);
    free(profile->smaps);
    free(profile->memory_snapshots);
    free(profile->symbol_lines);
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
double profile_floor_bytes(uint64_t interval_bytes)
{
    return interval_bytes <= 1 ? 0 : (double)interval_bytes * 2.995732;
}
