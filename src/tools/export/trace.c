/* SPDX-License-Identifier: Apache-2.0 */
/* Gives a profile's tables, whose items count from 0, to the trace writer, which has ids. */
#include "tools/export/trace.h"

#include <stdlib.h>
#include <string.h>

#include "pb_field_numbers.h"
#include "profile/view.h"
#include "trace.pb-c.h"
#include "trace/proto_buffer.h"
#include "trace/write/trace_writer.h"
#include "util/hex.h"
#include "util/write_all.h"
#include "util/xmalloc.h"

#define BUILD_ID_BYTES_MAX 64u
/* Perfetto draws dumps in time. A file without times gets a second for each dump. */
#define DUMP_NS UINT64_C(1000000000)

struct trace_export {
    const struct profile *profile;
    const char *name;
    struct trace_writer *writer;
    uint64_t *frame_ids;   /* by frame; 0: not written yet */
    uint32_t *stack;       /* room for the frames of a stack */
    uint64_t *stack_ids;   /* the same as ids */
    uint64_t *mapping_ids; /* by mapping; 0: not written yet */
};

static uint64_t mapping_id(struct trace_export *export, uint32_t index)
{
    if (index == PROFILE_NONE)
        return 0;
    const struct profile_mapping *from = &export->profile->mappings[index];
    uint8_t build_id[BUILD_ID_BYTES_MAX];
    size_t length = hex_read(from->build_id, build_id, sizeof(build_id));
    const struct trace_mapping mapping = {.path = from->path,
                                          .build_id = build_id,
                                          .build_id_length = length,
                                          .start = from->start,
                                          .end = from->end,
                                          .exact_offset = from->exact_offset,
                                          .load_bias = from->load_bias};
    if (export->mapping_ids[index] == 0)
        export->mapping_ids[index] = trace_writer_mapping(export->writer, &mapping);
    return export->mapping_ids[index];
}

static uint64_t frame_id(struct trace_export *export, uint32_t index)
{
    const struct profile_frame *frame = &export->profile->frames[index];
    if (export->frame_ids[index] == 0)
        export->frame_ids[index] =
            trace_writer_frame(export->writer, mapping_id(export, frame->mapping), frame->rel_pc,
                               *frame->linkage_name != '\0' ? frame->linkage_name : frame->name);
    return export->frame_ids[index];
}

/* Perfetto UI shows a stack only if its count is positive: a stack whose count is unknown counts
 * as one allocation. */
static struct trace_figures with_counts(struct trace_figures figures)
{
    double live = figures.allocated_bytes - figures.freed_bytes;
    if (live > 0 && figures.allocated_count - figures.freed_count < 1)
        figures.allocated_count = figures.freed_count + 1;
    return figures;
}

static int write_sample(struct trace_export *export, const struct profile_sample *sample)
{
    size_t count = export_take_stack(export->profile, sample->callsite, export->stack);
    for (size_t i = 0; i < count; i++)
        export->stack_ids[i] = frame_id(export, export->stack[i]);
    const struct trace_heap_sample written = {
        .callstack = trace_writer_callstack(export->writer, export->stack_ids, count, NULL),
        .figures = with_counts(sample->figures),
        .peak = sample->peak,
    };
    return trace_writer_dump_sample(export->writer, &written);
}

static int write_dump(struct trace_export *export, const struct profile_heap *heap, size_t index)
{
    const struct profile_dump *dump = &heap->dumps[index];
    struct trace_heap_dump head = heap->status;
    head.pid = export->profile->processes[heap->process].pid;
    head.heap_name = heap->name;
    head.interval_bytes = heap->interval_bytes;
    head.first_interval_bytes = heap->first_interval_bytes;
    head.timestamp_ns = dump->boottime_ns > 0 ? dump->boottime_ns : (index + 1) * DUMP_NS;
    head.start_timestamp_ns = heap->start_boottime_ns;
    head.exact_bytes = dump->exact_bytes;
    head.exact_calls = dump->exact_calls;
    head.sampled_bytes = dump->sampled_bytes;
    head.sampled_calls = dump->sampled_calls;
    head.calibration_ratio = dump->calibration_ratio;
    head.peak_highest_bytes = dump->peak_highest_bytes;
    head.peak_highest_count = dump->peak_highest_count;
    head.final = index + 1 == heap->dump_count;
    head.heap_samples = dump->sample_count; /* never 0 with samples, which would mean none seen */
    head.place_count = 0;                   /* their mappings have other ids here */
    int code = trace_writer_dump_begin(export->writer, &head);
    for (size_t i = 0; i < dump->sample_count && code == 0; i++)
        code = write_sample(export, dump->samples[i]);
    return code < 0 ? code : trace_writer_dump_end(export->writer);
}

/* Write clocks that are equal, so that readers keep the times of the dumps, and the date if it is
 * known. */
static int write_clocks(const struct profile *profile, int fd)
{
    const struct {
        uint64_t id, ns;
    } clocks[] = {
        {PERFETTO__PROTOS__BUILTIN_CLOCK__BUILTIN_CLOCK_BOOTTIME, DUMP_NS},
        {PERFETTO__PROTOS__BUILTIN_CLOCK__BUILTIN_CLOCK_MONOTONIC_COARSE, DUMP_NS},
        {PERFETTO__PROTOS__BUILTIN_CLOCK__BUILTIN_CLOCK_REALTIME,
         DUMP_NS + (uint64_t)profile->boottime_to_realtime_ns},
    };
    size_t count = profile->boottime_to_realtime_ns > 0 ? 3 : 2;
    struct proto_buffer clock = {0}, snapshot = {0}, packet = {0}, trace = {0};
    for (size_t i = 0; i < count; i++) {
        clock.length = 0;
        proto_put_uint(&clock, PB_CLOCK_SNAPSHOT_CLOCK_CLOCK_ID, clocks[i].id);
        proto_put_uint(&clock, PB_CLOCK_SNAPSHOT_CLOCK_TIMESTAMP, clocks[i].ns);
        proto_put_bytes(&snapshot, PB_CLOCK_SNAPSHOT_CLOCKS, clock.bytes, clock.length);
    }
    proto_put_bytes(&packet, PB_TRACE_PACKET_CLOCK_SNAPSHOT, snapshot.bytes, snapshot.length);
    proto_put_bytes(&trace, PB_TRACE_PACKET, packet.bytes, packet.length);
    if (clock.failed || snapshot.failed || packet.failed || trace.failed)
        xmalloc_fail(0);
    int code = write_all(fd, trace.bytes, trace.length);
    proto_buffer_free(&clock);
    proto_buffer_free(&snapshot);
    proto_buffer_free(&packet);
    proto_buffer_free(&trace);
    return code;
}

static int write_processes(const struct trace_export *export)
{
    const struct profile *profile = export->profile;
    int code = 0;
    for (size_t i = 0; i < profile->process_count && code == 0; i++) {
        const struct profile_process *from = &profile->processes[i];
        const char *name = *from->name != '\0' ? from->name : export->name;
        const char *command = *from->command != '\0' ? from->command : name;
        const struct trace_process process = {
            .pid = from->pid,
            .parent_pid = from->parent_pid,
            .uid = from->uid,
            .arguments = &command,
            .argument_count = 1,
            .start_boottime_ns = from->has_start ? from->start_boottime_ns : 0,
            .name = name,
        };
        code = trace_writer_process_tree(export->writer, &process, 1, NULL, 0);
    }
    return code;
}

static int write_trace(struct trace_export *export)
{
    const struct profile *profile = export->profile;
    int code = write_processes(export);
    for (size_t i = 0; i < profile->heap_count; i++)
        for (size_t j = 0; j < profile->heaps[i].dump_count && code == 0; j++)
            code = write_dump(export, &profile->heaps[i], j);
    return code;
}

/* Whole stacks can be much larger than the tree that they come from. */
static int check_size(const struct profile *profile, struct error *error)
{
    uint64_t frames = 0;
    int code = 0;
    for (size_t i = 0; i < profile->heap_count; i++)
        for (size_t j = 0; j < profile->heaps[i].dump_count && code == 0; j++)
            code = export_count_frames(profile, &profile->heaps[i].dumps[j], &frames, error);
    return code;
}

int export_trace(const struct profile *profile, const char *name, int fd, struct error *error)
{
    int code = check_size(profile, error);
    if (code < 0)
        return code;
    size_t deepest = export_deepest_stack(profile);
    struct trace_export export = {
        .profile = profile,
        .name = name,
        .writer = xmalloc_made(trace_writer_open(fd)),
        .frame_ids = xcalloc(profile->frame_count + 1, sizeof(uint64_t)),
        .mapping_ids = xcalloc(profile->mapping_count + 1, sizeof(uint64_t)),
        .stack = xcalloc(deepest, sizeof(uint32_t)),
        .stack_ids = xcalloc(deepest, sizeof(uint64_t)),
    };
    code = write_clocks(profile, fd);
    if (code == 0)
        code = write_trace(&export);
    int closed = trace_writer_close(export.writer);
    code = xmalloc_code(code < 0 ? code : closed);
    free(export.frame_ids);
    free(export.mapping_ids);
    free(export.stack);
    free(export.stack_ids);
    return code < 0 ? error_set(error, code, "the trace cannot be written: %s", strerror(-code))
                    : 0;
}
