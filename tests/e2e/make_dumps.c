/* SPDX-License-Identifier: Apache-2.0 */
/*
 * make_dumps FILE PROCESSES DUMPS: write a trace of this size for tests of the page. Each process
 * has a heap with two callsites, DUMPS dumps a second apart, and two readings of its memory before
 * each dump. In the first process, samples are lost before the third and the fourth dump, the
 * interval is doubled before the fifth, its threads wait before the sixth, and its third reading of
 * memory fails.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>

#include "../unit/trace_fixture.h"

#define SECOND_NS UINT64_C(1000000000)
#define FIRST_PID 1000
#define INTERVAL UINT64_C(4096)

struct making {
    struct trace_writer *writer;
    struct fixture_stacks stacks;
    uint64_t dumps;
};

static void write_process(const struct making *making, int32_t pid)
{
    char name[32];
    snprintf(name, sizeof(name), "/usr/bin/worker-%d", pid - FIRST_PID);
    const char *const arguments[] = {name};
    const struct trace_process process = {
        .pid = pid, .parent_pid = 1, .uid = 1000, .arguments = arguments, .argument_count = 1};
    trace_writer_process_tree(making->writer, &process, 1, NULL, 0);
}

static void write_readings(const struct making *making, int32_t pid, uint64_t dump)
{
    for (uint64_t half = 0; half < 2; half++) {
        uint64_t number = 2 * dump + half;
        bool fails = pid == FIRST_PID && number == 2;
        struct trace_memory_point point = trace_memory_point_of(pid);
        point.boottime_ns = (dump + 1) * SECOND_NS + half * SECOND_NS / 2;
        point.heap_bytes = 1000000 + number * 50000;
        if (!fails) {
            point.vm_rss_kb = 40000 + number * 100;
            point.rss_anon_kb = 30000 + number * 100;
            point.vm_size_kb = UINT64_C(1) << 20;
        }
        trace_writer_memory_point(making->writer, &point);
    }
}

static void write_sample(const struct making *making, uint64_t callstack, double bytes)
{
    const struct trace_heap_sample sample = {
        .callstack = callstack,
        .figures = {.allocated_bytes = bytes,
                    .freed_bytes = bytes / 4,
                    .allocated_count = bytes / 100,
                    .freed_count = bytes / 400,
                    .allocated_bytes_variance = bytes * (double)INTERVAL,
                    .freed_bytes_variance = bytes * (double)INTERVAL / 4,
                    .samples = (uint64_t)(bytes / (double)INTERVAL) + 1},
        .peak.bytes = bytes * 3 / 4,
        .peak.count = bytes / 133};
    trace_writer_dump_sample(making->writer, &sample);
}

static void write_dump(const struct making *making, int32_t pid, uint64_t dump)
{
    struct trace_heap_dump head = {
        .pid = pid,
        .heap_name = "libc.malloc",
        .interval_bytes = INTERVAL,
        .first_interval_bytes = INTERVAL,
        .timestamp_ns = (dump + 2) * SECOND_NS,
        .start_timestamp_ns = (dump + 1) * SECOND_NS,
        .from_startup = true,
        .final = dump + 1 == making->dumps,
        .exact_bytes = 1000000 * (dump + 1) + (uint64_t)pid,
        .exact_calls = 10000 * (dump + 1),
        .allocator = "libc.so.6",
        .exit_status = -1,
    };
    if (pid == FIRST_PID) {
        head.lost[TRACE_LOST_OVERRUN] = dump >= 3 ? 70 : dump >= 2 ? 50 : 0;
        head.lost[TRACE_LOST_UNWIND] = dump >= 3 ? 4 : 0;
        head.blocked_us = dump >= 5 ? 250000 : 0;
        head.interval_bytes = dump >= 4 ? 2 * INTERVAL : INTERVAL;
    }
    trace_writer_dump_begin(making->writer, &head);
    write_sample(making, making->stacks.in_outer, 700000.0 * (double)(dump + 1));
    write_sample(making, making->stacks.in_inner, 300000.0 * (double)(dump + 1) + pid);
    trace_writer_dump_end(making->writer);
}

int main(int argc, char **argv)
{
    int fd = argc == 4 ? open(argv[1], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644) : -1;
    if (fd < 0) {
        fprintf(stderr, "usage: make_dumps FILE PROCESSES DUMPS\n");
        return 1;
    }
    int32_t processes = (int32_t)strtol(argv[2], NULL, 10);
    struct making making = {.writer = trace_writer_open(fd), .dumps = strtoull(argv[3], NULL, 10)};
    trace_writer_clock_snapshot(making.writer);
    making.stacks = fixture_stacks(making.writer);
    for (int32_t i = 0; i < processes; i++)
        write_process(&making, FIRST_PID + i);
    for (uint64_t dump = 0; dump < making.dumps; dump++) {
        for (int32_t i = 0; i < processes; i++)
            write_readings(&making, FIRST_PID + i, dump);
        for (int32_t i = 0; i < processes; i++)
            write_dump(&making, FIRST_PID + i, dump);
    }
    int code = trace_writer_close(making.writer);
    close(fd);
    return code < 0;
}
