/* SPDX-License-Identifier: Apache-2.0 */
/*
 * make_trace DIRECTORY CALLSITES [DUMPS [FRAMES]]: write a trace with every kind of content and
 * dumps (2) with this number of callsites of odd figures, stacks of this number of frames (16),
 * read it back, write each dump as pprof, and print the totals that other readers must find, too.
 * The output has times, so that it serves as a benchmark.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include "../unit/trace_fixture.h"
#include "profile/rollup.h"
#include "tools/export/pprof.h"
#include "trace/config/trace_config.h"

static double now_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

#define FRAMES 16u
#define FRAMES_MAX 512u

/* What is made. */
struct making {
    struct trace_writer *writer;
    uint64_t program, callsites, dumps, frames;
};

/* Make a stack. Stacks share their outer frames, like real ones. */
static uint64_t make_callstack(const struct making *making, uint64_t number)
{
    uint64_t frames[FRAMES_MAX];
    for (uint64_t i = 0; i < making->frames; i++) {
        uint64_t which = i < 8 ? number >> i : i;
        char name[64];
        snprintf(name, sizeof(name), "_ZN5level8number%" PRIu64 "Ei", which % 100000 + i);
        frames[i] = trace_writer_frame(making->writer, making->program,
                                       0x2000 + which * making->frames + i, name);
    }
    return trace_writer_callstack(making->writer, frames, making->frames,
                                  number % 7 == 0 ? "[odd ending]" : NULL);
}

/* Of many dumps each changes a tenth of the callsites. */
#define CHANGES_EACH 10u

/* Return a callsite's share of its last figures at a dump, from 0. */
static double share_at(const struct making *making, uint64_t callsite, uint64_t number)
{
    uint64_t since = making->dumps == 2 ? 0 : (callsite + number) % CHANGES_EACH;
    return (double)(number - (since < number ? since : number) + 1) / (double)making->dumps;
}

static void write_dump(const struct making *making, uint64_t number)
{
    struct trace_writer *writer = making->writer;
    uint64_t callsites = making->callsites;
    struct trace_heap_dump dump = fixture_dump();
    dump.timestamp_ns += (number + 1) * UINT64_C(1000000000) / making->dumps;
    dump.final = number + 1 == making->dumps;
    uint64_t *callstacks = malloc((callsites + 1) * sizeof(*callstacks));
    double begin = now_seconds();
    for (uint64_t i = 0; i < callsites; i++)
        callstacks[i] = make_callstack(making, i);
    double interned = now_seconds();
    trace_writer_dump_begin(writer, &dump);
    for (uint64_t i = 0; i < callsites; i++) {
        double bytes = share_at(making, i, number) * (4096.37 * (double)(i % 50) + 0.3),
               count = bytes / 100.7;
        struct trace_figures figures = {.allocated_bytes = bytes,
                                        .freed_bytes = bytes / 3,
                                        .allocated_count = count,
                                        .freed_count = count / 3,
                                        .allocated_bytes_variance = bytes * 4096,
                                        .freed_bytes_variance = bytes * 1000,
                                        .samples = 2 + i,
                                        .freed_samples = i / 2,
                                        .lifetime_ms_sum = 12.5};
        /* A second thread did as much, at some callsites. */
        struct trace_thread_figures threads[] = {
            {.tid = FIXTURE_PID + (int32_t)(i % 2), .figures = figures},
            {.tid = FIXTURE_PID + 2, .figures = figures}};
        size_t thread_count = i % 5 == 0 ? 2 : 1;
        if (thread_count == 2)
            trace_figures_add(&figures, &threads[1].figures);
        struct trace_heap_sample sample = {.callstack = callstacks[i],
                                           .figures = figures,
                                           .peak.bytes = bytes * 0.9,
                                           .peak.count = count * 0.9,
                                           .threads = threads,
                                           .thread_count = thread_count};
        trace_writer_dump_sample(writer, &sample);
    }
    trace_writer_dump_end(writer);
    printf("interning_ms=%.1f dump_ms=%.1f\n", (interned - begin) * 1e3,
           (now_seconds() - interned) * 1e3);
    free(callstacks);
}

static int write_trace(const char *path, struct making *making)
{
    struct heap_config config;
    size_t config_length;
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0)
        return -1;
    struct trace_writer *writer = trace_writer_open(fd);
    heap_config_init(&config);
    void *config_bytes = heap_config_to_bytes(&config, &config_length);
    trace_writer_clock_snapshot(writer);
    trace_writer_uuid(writer);
    trace_writer_system_info(writer);
    trace_writer_config(writer, config_bytes, config_length);
    struct trace_memory_point point = trace_memory_point_of(FIXTURE_PID);
    point.boottime_ns = 5000;
    point.vm_rss_kb = 8;
    point.heap_bytes = 4097;
    trace_writer_memory_point(writer, &point);
    struct trace_unprofiled other = {.pid = 9,
                                     .parent_pid = FIXTURE_PID,
                                     .name = "child",
                                     .reason = "it is static",
                                     .kind = "static",
                                     .count = 1};
    trace_writer_unprofiled(writer, &other);
    fixture_process(writer);
    making->writer = writer;
    making->program = fixture_stacks(writer).program;
    for (uint64_t i = 0; i < making->dumps; i++)
        write_dump(making, i);
    int code = trace_writer_close(writer);
    free(config_bytes);
    close(fd);
    return code;
}

/* Write a configuration with everything that its text form can have. */
static int write_config(const char *path)
{
    struct heap_config config;
    char *names[] = {"jq", "a \"quoted\\ name\"\n", NULL};
    FILE *out = fopen(path, "we");
    heap_config_init(&config);
    config.process_cmdline = names;
    config.duration_ms = 1000;
    config.dump_interval_ms = 100;
    config.block_client_timeout_us = 5;
    config.all = config.no_startup = config.no_running = config.dump_at_max = true;
    config.disable_fork_teardown = config.disable_vfork_detection = true;
    char *text = heap_config_to_text(&config);
    int code = out == NULL || text == NULL || fputs(text, out) < 0 ? -1 : 0;
    free(text);
    return out != NULL && fclose(out) == 0 ? code : -1;
}

int main(int argc, char **argv)
{
    char path[4096], name[256];
    struct error error = {0};
    struct making making = {
        .callsites = argc > 2 ? strtoull(argv[2], NULL, 10) : 0,
        .dumps = argc > 3 ? strtoull(argv[3], NULL, 10) : 2,
        .frames = argc > 4 ? strtoull(argv[4], NULL, 10) : FRAMES,
    };
    if (argc < 3 || argc > 5 || making.dumps == 0 || making.frames < FRAMES ||
        making.frames > FRAMES_MAX) {
        fprintf(stderr, "usage: make_trace DIRECTORY CALLSITES [DUMPS [FRAMES]]\n");
        return 1;
    }
    snprintf(path, sizeof(path), "%s/config.txt", argv[1]);
    if (write_config(path) < 0)
        return 1;
    snprintf(path, sizeof(path), "%s/raw-trace", argv[1]);
    if (write_trace(path, &making) < 0)
        return 1;
    double begin = now_seconds();
    struct profile *profile = profile_read(path, NULL, &error);
    if (profile == NULL) {
        fprintf(stderr, "%s\n", error.message);
        return 1;
    }
    double read = now_seconds();
    struct pprof_file_names names;
    pprof_file_names_make(&names, profile);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    printf("bytes=%lld read_ms=%.1f\n", (long long)lseek(fd, 0, SEEK_END), (read - begin) * 1e3);
    close(fd);
    for (size_t i = 0; i < profile->heaps[0].dump_count; i++) {
        const struct profile_dump *dump = &profile->heaps[0].dumps[i];
        double live_bytes = 0, live_count = 0;
        pprof_file_name(&names, &profile->heaps[0], dump, name, sizeof(name));
        snprintf(path, sizeof(path), "%s/%s", argv[1], name);
        fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
        begin = now_seconds();
        if (pprof_write(profile, &profile->heaps[0], dump, &(struct pprof_options){.gzip = true},
                        fd, &error) < 0) {
            fprintf(stderr, "%s\n", error.message);
            return 1;
        }
        printf("pprof_ms=%.1f\n", (now_seconds() - begin) * 1e3);
        close(fd);
        for (size_t j = 0; j < dump->sample_count; j++) {
            live_bytes += rollup_live_bytes(&dump->samples[j]->figures);
            live_count += rollup_live_count(&dump->samples[j]->figures);
        }
        printf("dump %s alloc_space=%.3f alloc_objects=%.3f space=%.3f objects=%.3f\n", name,
               dump->total.allocated_bytes, dump->total.allocated_count, live_bytes, live_count);
    }
    pprof_file_names_clear(&names);
    profile_free(profile);
    return 0;
}
