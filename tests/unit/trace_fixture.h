/* SPDX-License-Identifier: Apache-2.0 */
/* Traces in memory for tests: written to a memfd, read back as bytes. */
#ifndef HEAPPROFD_TESTS_TRACE_FIXTURE_H
#define HEAPPROFD_TESTS_TRACE_FIXTURE_H

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "profile/builder/profile_read.h"
#include "trace/write/trace_timeline.h"
#include "trace/write/trace_writer.h"

struct fixture_trace {
    uint8_t *bytes;
    size_t length;
};

static inline struct fixture_trace fixture_take(int fd)
{
    struct fixture_trace trace = {.length = (size_t)lseek(fd, 0, SEEK_END)};
    trace.bytes = malloc(trace.length + 1);
    if (trace.bytes == NULL || pread(fd, trace.bytes, trace.length, 0) != (ssize_t)trace.length)
        abort();
    close(fd);
    return trace;
}

/* Close fd and return the profile of the trace that was written to it. */
static inline struct profile *fixture_take_profile(int fd)
{
    struct fixture_trace trace = fixture_take(fd);
    struct profile *profile = profile_read_bytes(trace.bytes, trace.length, NULL, NULL);
    if (profile == NULL)
        abort();
    free(trace.bytes);
    return profile;
}

static const uint8_t fixture_build_id[] = {0xde, 0xad, 0xbe, 0xef};

/* main calls outer, outer calls inner; `program` is their mapping. */
struct fixture_stacks {
    uint64_t program, main, outer, inner;
    uint64_t in_outer, in_inner;
};

static inline struct fixture_stacks fixture_stacks(struct trace_writer *writer)
{
    struct fixture_stacks stacks;
    struct trace_mapping mapping = {.path = "/usr/bin/example",
                                    .build_id = fixture_build_id,
                                    .build_id_length = sizeof(fixture_build_id),
                                    .start = 0x400000,
                                    .end = 0x500000,
                                    .exact_offset = 0x1000};
    stacks.program = trace_writer_mapping(writer, &mapping);
    stacks.main = trace_writer_frame(writer, stacks.program, 0x1100, "main");
    stacks.outer = trace_writer_frame(writer, stacks.program, 0x1200, "_Z5outerv");
    stacks.inner = trace_writer_frame(writer, stacks.program, 0x1300, "_Z5inneri");
    uint64_t outer[] = {stacks.outer, stacks.main};
    uint64_t inner[] = {stacks.inner, stacks.outer, stacks.main};
    stacks.in_outer = trace_writer_callstack(writer, outer, 2, NULL);
    stacks.in_inner = trace_writer_callstack(writer, inner, 3, NULL);
    return stacks;
}

#define FIXTURE_PID 4711

static inline struct trace_heap_dump fixture_dump(void)
{
    return (struct trace_heap_dump){
        .pid = FIXTURE_PID,
        .heap_name = "libc.malloc",
        .interval_bytes = 4096,
        .first_interval_bytes = 4096,
        .timestamp_ns = 2000000000,
        .start_timestamp_ns = 1000000000,
        .from_startup = true,
        .heap_samples = 5,
        .exact_bytes = 123456,
        .exact_calls = 789,
        .lost = {3, 0, 1},
        .peak_live_bytes = 5000.5,
        .allocator = "libc.so.6",
        .exit_status = 0,
        .remark = "nothing to remark",
    };
}

static inline void fixture_process(struct trace_writer *writer)
{
    static const char *const arguments[] = {"/usr/bin/example", "two words", "it's"};
    struct trace_process process = {.pid = FIXTURE_PID,
                                    .parent_pid = 1,
                                    .uid = 1000,
                                    .arguments = arguments,
                                    .argument_count = 3};
    struct trace_thread threads[] = {{FIXTURE_PID, FIXTURE_PID, "example"},
                                     {FIXTURE_PID + 1, FIXTURE_PID, "worker"}};
    trace_writer_process_tree(writer, &process, 1, threads, 2);
}

/* Return a small trace with every kind of content. */
static inline struct fixture_trace fixture_full_trace(void)
{
    int fd = memfd_create("trace", 0);
    struct trace_writer *writer = trace_writer_open(fd);
    trace_writer_clock_snapshot(writer);
    trace_writer_uuid(writer);
    trace_writer_system_info(writer);
    fixture_process(writer);
    struct trace_memory_point point = trace_memory_point_of(FIXTURE_PID);
    point.boottime_ns = 5000;
    point.vm_rss_kb = 8;
    point.heap_bytes = 4097;
    trace_writer_memory_point(writer, &point);
    struct fixture_stacks stacks = fixture_stacks(writer);
    struct trace_heap_dump dump = fixture_dump();
    struct trace_thread_figures threads[] = {
        {.tid = FIXTURE_PID,
         .figures = {.allocated_bytes = 1000, .allocated_count = 10, .samples = 1}},
        {.tid = FIXTURE_PID + 1,
         .figures = {.allocated_bytes = 500.25,
                     .allocated_count = 5,
                     .freed_bytes = 100.25,
                     .freed_count = 1,
                     .samples = 1}}};
    struct trace_heap_sample both = {.callstack = stacks.in_inner,
                                     .figures = {.allocated_bytes = 1500.25,
                                                 .allocated_count = 15,
                                                 .freed_bytes = 100.25,
                                                 .freed_count = 1,
                                                 .allocated_bytes_variance = 77.5,
                                                 .samples = 2},
                                     .peak.bytes = 1400.5,
                                     .threads = threads,
                                     .thread_count = 2};
    struct trace_heap_sample one = {
        .callstack = stacks.in_outer,
        .figures = {.allocated_bytes = 64, .allocated_count = 4, .samples = 3},
        .threads = threads,
        .thread_count = 1};
    dump.final = true;
    struct trace_place place = {stacks.program, 0x400000, 0x500000};
    dump.places = &place;
    dump.place_count = 1;
    trace_writer_dump_begin(writer, &dump);
    trace_writer_dump_sample(writer, &both);
    trace_writer_dump_sample(writer, &one);
    trace_writer_dump_end(writer);
    struct trace_unprofiled other = {.pid = 9,
                                     .parent_pid = FIXTURE_PID,
                                     .name = "child",
                                     .reason = "it is static",
                                     .kind = "static",
                                     .count = 1};
    trace_writer_unprofiled(writer, &other);
    trace_writer_close(writer);
    return fixture_take(fd);
}

#endif
