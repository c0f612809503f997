/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints of a trace: each is completely in the file, or not at all. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/resource.h>

#include <cmocka.h>

#include "profile/profile.h"
#include "trace_fixture.h"

#define CHECKPOINT_CALLSITES 1000

/* Write a dump with so many callsites that it needs several packets. */
static void write_large_dump(struct trace_writer *writer, uint64_t timestamp_ns, bool final)
{
    struct trace_heap_dump dump = fixture_dump();
    struct fixture_stacks stacks = fixture_stacks(writer);
    dump.timestamp_ns = timestamp_ns;
    dump.final = final;
    fixture_process(writer);
    trace_writer_dump_begin(writer, &dump);
    for (uint64_t i = 0; i < CHECKPOINT_CALLSITES; i++) {
        uint64_t frames[] = {trace_writer_frame(writer, stacks.program, 0x2000 + 16 * i, NULL),
                             stacks.main};
        struct trace_thread_figures threads[40] = {0};
        for (int j = 0; j < 40; j++)
            threads[j] = (struct trace_thread_figures){
                .tid = j + 1,
                .figures = {.allocated_bytes = 16, .allocated_count = 1, .samples = 1}};
        struct trace_heap_sample sample = {
            .callstack = trace_writer_callstack(writer, frames, 2, NULL),
            .figures = {.allocated_bytes = 640, .allocated_count = 40, .samples = 40},
            .threads = threads,
            .thread_count = 40};
        trace_writer_dump_sample(writer, &sample);
    }
    trace_writer_dump_end(writer);
}

static struct trace_checkpoint write_checkpoint(struct trace_writer *writer, uint64_t timestamp_ns)
{
    struct trace_checkpoint checkpoint = {0};
    struct trace_writer *part = trace_writer_begin_checkpoint(writer, &checkpoint);
    assert_non_null(part);
    write_large_dump(part, timestamp_ns, false);
    assert_int_equal(trace_writer_end_checkpoint(writer, part, &checkpoint), 0);
    return checkpoint;
}

/* Check that the first `length` bytes have complete dumps of these times and no others. */
static void check_dumps(int fd, size_t length, const uint64_t *times_ns, size_t count)
{
    uint8_t *bytes = malloc(length);
    struct error error = {0};
    assert_int_equal(pread(fd, bytes, length, 0), length);
    struct profile *profile = profile_read_bytes(bytes, length, NULL, &error);
    free(bytes);
    if (profile == NULL)
        fail_msg("%zu bytes: %s", length, error.message);
    if ((profile->heap_count > 0 ? profile->heaps[0].dump_count : 0) != count)
        fail_msg("%zu bytes: not %zu dumps", length, count);
    for (size_t i = 0; i < count; i++) {
        const struct profile_dump *dump = &profile->heaps[0].dumps[i];
        assert_int_equal(dump->sample_count, CHECKPOINT_CALLSITES);
        assert_int_equal(dump->total.samples, 40 * CHECKPOINT_CALLSITES);
        assert_false(dump->incomplete);
        assert_int_equal(dump->boottime_ns % 1000000000, times_ns[i] % 1000000000);
    }
    if (count > 0)
        assert_int_equal(profile->heaps[0].unfinished, !profile->heaps[0].dumps[count - 1].final);
    profile_free(profile);
}

/* A writer can be killed at any byte: all checkpoints except the unfinished one are in the file. */
static void checkpoints_are_whole_or_not_there(void **state)
{
    (void)state;
    static const uint64_t times_ns[] = {2000000001, 3000000002, 4000000003};
    int fd = memfd_create("trace", 0);
    struct trace_writer *writer = trace_writer_open(fd);
    trace_writer_system_info(writer);
    /* So that the first head would cross a page boundary. */
    while (lseek(fd, 0, SEEK_CUR) % 4096 < 4090) {
        off_t left = 4093 - lseek(fd, 0, SEEK_CUR) % 4096;
        struct trace_thread thread = {1, 1, "12345678901234"};
        if (left > 40)
            trace_writer_process_tree(writer, NULL, 0, &thread, 1);
        else
            break;
    }
    struct trace_checkpoint first = write_checkpoint(writer, times_ns[0]);
    assert_true(first.offset % 4096 <= 4096 - 14);
    off_t first_end = lseek(fd, 0, SEEK_CUR);
    check_dumps(fd, (size_t)first_end, times_ns, 1);

    struct trace_checkpoint second = {0};
    struct trace_writer *part = trace_writer_begin_checkpoint(writer, &second);
    write_large_dump(part, times_ns[1], false);
    off_t end = lseek(fd, 0, SEEK_CUR);
    assert_true(end > first_end + 1000000);
    for (off_t length = first_end; length < end; length += length < first_end + 40 ? 1 : 99991)
        check_dumps(fd, (size_t)length, times_ns, 1);
    assert_int_equal(trace_writer_end_checkpoint(writer, part, &second), 0);
    end = lseek(fd, 0, SEEK_CUR);
    check_dumps(fd, (size_t)end, times_ns, 2);
    assert_int_equal(trace_writer_withdraw_checkpoint(writer, &first), 0);
    check_dumps(fd, (size_t)end, times_ns + 1, 1);

    write_large_dump(writer, times_ns[2], true);
    assert_int_equal(trace_writer_withdraw_checkpoint(writer, &second), 0);
    check_dumps(fd, (size_t)lseek(fd, 0, SEEK_CUR), times_ns + 2, 1);
    assert_int_equal(trace_writer_bytes(writer), lseek(fd, 0, SEEK_CUR));
    assert_int_equal(trace_writer_close(writer), 0);
    close(fd);
}

/* If bytes cannot be removed again, no provisional bytes are written. */
static void checkpoints_need_an_ordinary_file(void **state)
{
    (void)state;
    int pipes[2];
    char path[] = "/tmp/test-checkpoint-XXXXXX";
    struct trace_checkpoint checkpoint = {0};
    assert_int_equal(pipe(pipes), 0);
    struct trace_writer *writer = trace_writer_open(pipes[1]);
    assert_null(trace_writer_begin_checkpoint(writer, &checkpoint));
    assert_int_equal(trace_writer_close(writer), 0);
    int fd = mkostemp(path, O_APPEND);
    assert_true(fd >= 0);
    unlink(path);
    writer = trace_writer_open(fd);
    trace_writer_uuid(writer);
    assert_null(trace_writer_begin_checkpoint(writer, &checkpoint));
    assert_int_equal(fcntl(fd, F_SETFL, 0), 0);
    assert_int_equal(write(fd, "x", 1), 1); /* another writer */
    assert_null(trace_writer_begin_checkpoint(writer, &checkpoint));
    assert_int_equal(trace_writer_close(writer), 0);
    close(fd);
    close(pipes[0]);
    close(pipes[1]);
}

/* If a checkpoint fails for lack of space, the reader skips it and its remains. */
static void a_failed_checkpoint_is_skipped(void **state)
{
    (void)state;
    static const uint64_t times_ns[] = {2000000001};
    int fd = memfd_create("trace", MFD_ALLOW_SEALING);
    struct trace_writer *writer = trace_writer_open(fd);
    struct trace_checkpoint checkpoint = {0};
    trace_writer_system_info(writer);
    struct trace_writer *part = trace_writer_begin_checkpoint(writer, &checkpoint);
    struct rlimit limit = {.rlim_cur = 300000, .rlim_max = RLIM_INFINITY}, before;
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before);
    limit.rlim_max = before.rlim_max;
    setrlimit(RLIMIT_FSIZE, &limit);
    write_large_dump(part, times_ns[0], false);
    assert_int_equal(trace_writer_end_checkpoint(writer, part, &checkpoint), -EFBIG);
    setrlimit(RLIMIT_FSIZE, &before);
    assert_int_equal(checkpoint.offset, 0);
    check_dumps(fd, (size_t)lseek(fd, 0, SEEK_CUR), times_ns, 0);
    write_large_dump(writer, times_ns[0], true);
    check_dumps(fd, (size_t)lseek(fd, 0, SEEK_CUR), times_ns, 1);
    assert_int_equal(trace_writer_close(writer), 0);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(checkpoints_are_whole_or_not_there),
        cmocka_unit_test(checkpoints_need_an_ordinary_file),
        cmocka_unit_test(a_failed_checkpoint_is_skipped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
