/* SPDX-License-Identifier: Apache-2.0 */
/* Pass a trace's packets to the builder, and determine the unknown values of the profile. */
#include "profile/builder/profile_read.h"

#include <string.h>

#include "profile/builder/builder.h"
#include "profile/filter.h"
#include "profile/interpreter_frames.h"
#include "trace/read/trace_reader.h"
#include "trace/read/trace_source.h"

/* --- unknown values --- */

/* Find out whether a heap without calls and samples was seen at all. Every program calls malloc, so
 * nobody saw the calls of such a malloc heap. Other heaps can be idle: then the file has a count of
 * 0. */
static void find_unseen(struct profile_heap *heap)
{
    static const char malloc_heap[] = "libc.malloc";
    if (heap->status.has_exact_calls &&
        strncmp(heap->name, malloc_heap, sizeof(malloc_heap) - 1) != 0)
        return;
    bool is_seen = heap->status.heap_samples > 0;
    for (size_t i = 0; i < heap->dump_count && !is_seen; i++)
        is_seen = heap->dumps[i].exact_calls > 0 || heap->dumps[i].sample_count > 0;
    heap->unseen = !is_seen;
    if (heap->unseen)
        heap->unknown = PROFILE_UNKNOWN_ALL;
}

/* Perfetto's recorder counts samples, which at interval 1 are the allocations. It reports either
 * live and allocated memory, or memory at the peak. */
static void complete_perfettos(struct profile_heap *heap)
{
    bool is_sampled = heap->interval_bytes != 1 || heap->first_interval_bytes != 1;
    heap->unknown = PROFILE_UNKNOWN_TEMPORARY | (is_sampled ? PROFILE_UNKNOWN_COUNTS : 0);
    heap->unknown |= heap->status.dump_at_max ? PROFILE_UNKNOWN_LIVE | PROFILE_UNKNOWN_ALLOCATED
                                              : PROFILE_UNKNOWN_PEAK;
    const struct profile_dump *last = &heap->dumps[heap->dump_count - 1];
    for (size_t i = 0; heap->status.dump_at_max && i < last->sample_count; i++)
        heap->status.peak_live_bytes += last->samples[i]->peak.bytes;
}

static void find_unknown(struct profile *profile)
{
    for (size_t i = 0; i < profile->heap_count; i++) {
        struct profile_heap *heap = &profile->heaps[i];
        if (heap->dump_count == 0 || heap->is_of_stack_samples)
            continue;
        find_unseen(heap);
        if (heap->unseen)
            continue;
        /* Perfetto's recorder does not say which dump is the last. */
        if (heap->is_perfettos)
            complete_perfettos(heap);
        else
            heap->unfinished = !heap->dumps[heap->dump_count - 1].final;
    }
}

/* --- reading --- */

/* Context of the memory check during the reading of a packet. */
struct checking {
    struct trace_reader *const *reader;
    struct error error;
};

static int check_memory(void *context)
{
    struct checking *checking = context;
    return trace_reader_check(*checking->reader, &checking->error);
}

static int fail_without_memory(struct error *error)
{
    return error_set(error, -ENOMEM, "no memory to read the trace");
}

/* Pass all packets to the builder. Return 0, or a negative errno with *error set: what ended the
 * reading early. */
static int read_packets(struct trace_reader *reader, const struct profile_read_options *options,
                        struct builder *builder, struct error *error)
{
    struct proto_span packet;
    int code = 0;
    if (options->withdrawn)
        trace_reader_take_withdrawn(reader);
    while (code == 0 && (code = trace_reader_next(reader, &packet, error)) > 0) {
        code = builder_packet(builder, packet);
        if (options->tell != NULL)
            options->tell(options->tell_context, trace_reader_offset(reader));
    }
    return code;
}

int (*profile_read_further)(const struct profile *unfinished);

/* Return a descriptor of further packets, or -1. */
static int find_more(const struct profile_read_options *options, const struct profile *unfinished,
                     bool is_first)
{
    if (options->go_on != NULL)
        return options->go_on(options->go_on_context, unfinished);
    bool asks = is_first && !options->alone && profile_read_further != NULL;
    return asks ? profile_read_further(unfinished) : -1;
}

/* Pass the packets with which the caller continues the trace to the builder. From here on, *reader
 * is theirs, if there are any: memory is bounded by what they may cost. */
static int read_more(struct trace_reader **reader, const struct profile_read_options *options,
                     struct builder *builder, struct error *error)
{
    struct profile_read_options silent = *options;
    int fd, code = 0;
    silent.tell = NULL;
    builder->symbols.keeps_lines = true;
    for (bool is_first = true; code == 0 && builder->error == 0 &&
                               (fd = find_more(options, builder->profile, is_first)) >= 0;
         is_first = false) {
        struct trace_reader *more = trace_reader_open_source(trace_source_of_fd(fd, error), error);
        if (more == NULL)
            return error->code;
        trace_reader_close(*reader);
        *reader = more;
        code = read_packets(more, &silent, builder, error);
    }
    return code;
}

/* Return whether the packets make a profile. `code` and `problem` are what ended the reading early,
 * if anything did. */
static bool has_profile(const struct builder *builder, const struct checking *checking, int code,
                        const struct error *problem, struct error *error)
{
    if (builder->error < 0 && builder->error != -EFBIG)
        fail_without_memory(error);
    else if (code == -EFBIG)
        *error = builder->error < 0 ? checking->error : *problem;
    else if (builder->packets > builder->losses.damaged_packets)
        return true;
    else if (code < 0)
        *error = *problem;
    else
        error_set(error, -ENODATA,
                  "there is no trace packet in it; is it the raw-trace that heap_profile wrote?");
    return false;
}

static struct profile *read_all(struct trace_reader **reader,
                                const struct profile_read_options *options, struct error *error)
{
    struct error problem = {0};
    struct checking checking = {.reader = reader};
    struct builder *builder = builder_new(options);
    if (builder == NULL) {
        fail_without_memory(error);
        return NULL;
    }
    builder->check = check_memory;
    builder->check_context = &checking;
    int code = read_packets(*reader, options, builder, &problem);
    if (code == 0)
        code = read_more(reader, options, builder, &problem);
    if (!has_profile(builder, &checking, code, &problem, error)) {
        builder_abandon(builder);
        return NULL;
    }
    struct profile *profile = builder_finish(builder, code < 0 ? problem.message : NULL);
    if (profile == NULL) {
        fail_without_memory(error);
        if (checking.error.code < 0)
            *error = checking.error;
    } else if (trace_reader_check(*reader, error) < 0) {
        profile_free(profile);
        profile = NULL;
    } else {
        find_unknown(profile);
        profile->has_loops = true;
        bool keeps = options->as_in_trace || (options->filter != NULL && options->filter->native);
        if (!keeps && interpreter_frames_hide(profile) < 0) {
            profile_free(profile);
            profile = NULL;
            fail_without_memory(error);
        }
    }
    return profile;
}

struct profile *profile_read_source(struct trace_source *source, const char *name,
                                    const struct profile_read_options *options, struct error *error)
{
    static const struct profile_read_options usual = {.demangling = DEMANGLE_FULL};
    struct error problem = {0};
    struct trace_reader *reader = trace_reader_open_source(source, error);
    if (reader == NULL)
        return NULL;
    struct profile *profile = read_all(&reader, options == NULL ? &usual : options, &problem);
    if (profile == NULL)
        error_set(error, problem.code, "%.300s%s%s", name, *name == '\0' ? "" : ": ",
                  problem.message);
    trace_reader_close(reader);
    return profile;
}

struct profile *profile_read(const char *path, const struct profile_read_options *options,
                             struct error *error)
{
    return profile_read_source(trace_source_open(path, error),
                               strcmp(path, "-") == 0 ? "standard input" : path, options, error);
}

struct profile *profile_read_bytes(const void *bytes, size_t length,
                                   const struct profile_read_options *options, struct error *error)
{
    return profile_read_source(trace_source_of_bytes(bytes, length, error), "", options, error);
}
