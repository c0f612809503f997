/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel's messages about exec: valid ones are parsed, and none is read beyond its end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <linux/cn_proc.h>
#include <linux/connector.h>
#include <linux/netlink.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "recorder/processes/exec_events.h"

enum { EVENT_BYTES = 40, MESSAGE_BYTES = NLMSG_HDRLEN + sizeof(struct cn_msg) + EVENT_BYTES };

struct seen {
    struct exec_event events[64];
    size_t count;
};

static void see(void *context, const struct exec_event *event)
{
    struct seen *seen = context;
    assert_true(event->pid > 0);
    assert_true(event->kind <= EXEC_EVENT_ENDED);
    if (seen->count < 64)
        seen->events[seen->count] = *event;
    seen->count++;
}

/* Write a message in the kernel's layout: 4 + 4 + 8 bytes, then up to four pids. */
static void make(uint8_t *to, uint32_t what, uint64_t time_ns, const int32_t pids[4])
{
    struct nlmsghdr header = {.nlmsg_len = MESSAGE_BYTES, .nlmsg_type = NLMSG_DONE};
    struct cn_msg message = {.id = {CN_IDX_PROC, CN_VAL_PROC}, .len = EVENT_BYTES};
    memset(to, 0, MESSAGE_BYTES);
    memcpy(to, &header, sizeof(header));
    memcpy(to + NLMSG_HDRLEN, &message, sizeof(message));
    uint8_t *event = to + NLMSG_HDRLEN + sizeof(message);
    memcpy(event, &what, sizeof(what));
    memcpy(event + 8, &time_ns, sizeof(time_ns));
    memcpy(event + 16, pids, 4 * sizeof(*pids));
}

/* Parse from a copy of exactly this size, so that a sanitizer sees a read beyond the end. */
static void parse(const uint8_t *bytes, size_t length, struct seen *seen)
{
    uint8_t *copy = malloc(length + 1);
    assert_non_null(copy);
    memcpy(copy + 1, bytes, length); /* unaligned, too */
    seen->count = 0;
    exec_events_parse(copy + 1, length, see, seen);
    free(copy);
}

static void events_are_understood(void **state)
{
    (void)state;
    uint8_t bytes[7 * MESSAGE_BYTES];
    struct seen seen;
    make(bytes, 2, 5000000000, (int32_t[4]){11, 10});
    make(bytes + MESSAGE_BYTES, 1, 1, (int32_t[4]){10, 10, 20, 20});
    make(bytes + 2 * MESSAGE_BYTES, 0x200, 1, (int32_t[4]){30, 30});
    make(bytes + 3 * MESSAGE_BYTES, 1, 1, (int32_t[4]){10, 10, 21, 20}); /* a thread */
    make(bytes + 4 * MESSAGE_BYTES, 0x200, 1, (int32_t[4]){31, 30});     /* by a thread */
    make(bytes + 5 * MESSAGE_BYTES, 0x80000000, 1, (int32_t[4]){40, 40, 9, 17});
    make(bytes + 6 * MESSAGE_BYTES, 0x80000000, 1, (int32_t[4]){41, 40, 3 << 8, 17});
    parse(bytes, sizeof(bytes), &seen);
    assert_int_equal(seen.count, 5);
    assert_int_equal(seen.events[0].kind, EXEC_EVENT_BEGAN);
    assert_int_equal(seen.events[0].pid, 10);
    assert_int_equal(seen.events[0].time_us, 5000000);
    assert_int_equal(seen.events[1].kind, EXEC_EVENT_FORKED);
    assert_int_equal(seen.events[1].pid, 20);
    assert_int_equal(seen.events[2].kind, EXEC_EVENT_RENAMED);
    assert_int_equal(seen.events[2].pid, 30);
    assert_int_equal(seen.events[3].kind, EXEC_EVENT_ENDED);
    assert_int_equal(seen.events[3].pid, 40);
    assert_true(seen.events[3].is_leader);
    assert_int_equal(seen.events[3].status, 9);
    assert_int_equal(seen.events[4].pid, 40);
    assert_false(seen.events[4].is_leader);
    assert_int_equal(seen.events[4].status, 3 << 8);
}

static void other_profiles_are_skipped(void **state)
{
    (void)state;
    static const uint32_t others[] = {0, 4, 0x40, 0x80, 0x100, 0x40000000, UINT32_MAX};
    uint8_t bytes[MESSAGE_BYTES];
    struct seen seen;
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        make(bytes, others[i], 1, (int32_t[4]){10, 10, 10, 10});
        parse(bytes, sizeof(bytes), &seen);
        assert_int_equal(seen.count, 0);
    }
    make(bytes, 2, 1, (int32_t[4]){10, 0});
    parse(bytes, sizeof(bytes), &seen);
    assert_int_equal(seen.count, 0);
    make(bytes, 2, 1, (int32_t[4]){10, -1});
    parse(bytes, sizeof(bytes), &seen);
    assert_int_equal(seen.count, 0);
    make(bytes, 2, 1, (int32_t[4]){10, 10});
    bytes[NLMSG_HDRLEN]++; /* of another connector */
    parse(bytes, sizeof(bytes), &seen);
    assert_int_equal(seen.count, 0);
}

static void nothing_is_read_beyond_a_truncation(void **state)
{
    (void)state;
    uint8_t bytes[2 * MESSAGE_BYTES];
    struct seen seen;
    make(bytes, 2, 1, (int32_t[4]){10, 10});
    make(bytes + MESSAGE_BYTES, 2, 1, (int32_t[4]){20, 20});
    for (size_t length = 0; length < sizeof(bytes); length++) {
        parse(bytes, length, &seen);
        assert_int_equal(seen.count, length / MESSAGE_BYTES);
    }
}

static void any_lengths_are_safe(void **state)
{
    (void)state;
    static const uint32_t lengths[] = {0,  1,  15, 16, 35,         36,         37,        51,
                                       52, 75, 77, 78, 0x7fffffff, 0xfffffff0, 0xffffffff};
    uint8_t bytes[2 * MESSAGE_BYTES];
    struct seen seen;
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        for (size_t j = 0; j < sizeof(lengths) / sizeof(lengths[0]); j++) {
            uint16_t inner = (uint16_t)lengths[j];
            make(bytes, 2, 1, (int32_t[4]){10, 10});
            make(bytes + MESSAGE_BYTES, 2, 1, (int32_t[4]){20, 20});
            memcpy(bytes, &lengths[i], sizeof(lengths[i]));
            memcpy(bytes + NLMSG_HDRLEN + offsetof(struct cn_msg, len), &inner, sizeof(inner));
            parse(bytes, sizeof(bytes), &seen);
            assert_true(seen.count <= 2);
        }
    }
}

static void random_bytes_are_survived(void **state)
{
    (void)state;
    uint8_t bytes[3 * MESSAGE_BYTES];
    struct seen seen;
    uint32_t random = 1;
    for (int round = 0; round < 200000; round++) {
        for (int i = 0; i < 3; i++)
            make(bytes + i * MESSAGE_BYTES, 2, 1, (int32_t[4]){10, 10});
        for (int i = 0; i < 4; i++) {
            random = random * 1664525 + 1013904223;
            bytes[(random >> 8) % sizeof(bytes)] = (uint8_t)(random >> 24);
        }
        random = random * 1664525 + 1013904223;
        parse(bytes, (random >> 8) % (sizeof(bytes) + 1), &seen);
    }
}

static void see_child(void *context, const struct exec_event *event)
{
    pid_t *wanted = context;
    if (event->kind == EXEC_EVENT_BEGAN && event->pid == *wanted)
        *wanted = 0;
}

/* If the kernel sends events here. */
static void the_kernel_reports_an_exec(void **state)
{
    (void)state;
    struct error error = {0};
    int fd = exec_events_open(&error);
    if (fd < 0) {
        assert_int_not_equal(error.message[0], 0);
        print_message("not told here: %s\n", error.message);
        skip();
    }
    pid_t child = fork();
    if (child == 0) {
        execl("/bin/true", "true", NULL);
        _exit(127);
    }
    pid_t wanted = child;
    assert_int_equal(waitpid(child, NULL, 0), child);
    exec_events_read(fd, see_child, &wanted);
    exec_events_close(fd);
    assert_int_equal(wanted, 0);
}

struct wanted_end {
    pid_t pid;
    int32_t status; /* -1: not seen */
};

static void see_end(void *context, const struct exec_event *event)
{
    struct wanted_end *wanted = context;
    if (event->kind == EXEC_EVENT_ENDED && event->pid == wanted->pid && event->is_leader)
        wanted->status = event->status;
}

/* If the kernel sends events here. */
static void the_kernel_reports_an_end(void **state)
{
    (void)state;
    int fd = exec_events_open(NULL);
    if (fd < 0)
        skip();
    for (int i = 0; i < 2; i++) {
        pid_t child = fork();
        if (child == 0) {
            if (i == 0)
                _exit(3);
            raise(SIGKILL);
        }
        struct wanted_end wanted = {child, -1};
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        exec_events_read(fd, see_end, &wanted);
        assert_int_equal(wanted.status, status);
    }
    exec_events_close(fd);
}

/* Start a child that waits until something is written to *go, and then runs true; it ends if *go is
 * closed. */
static pid_t start_waiting(int *go)
{
    int ends[2];
    char byte;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        close(ends[1]);
        if (read(ends[0], &byte, 1) == 1)
            execl("/bin/true", "true", NULL);
        _exit(127);
    }
    close(ends[0]);
    *go = ends[1];
    return child;
}

/* If the kernel sends events here. */
static void only_events_of_chosen_processes_wake_us(void **state)
{
    (void)state;
    struct seen seen = {.count = 0};
    int fd = exec_events_open(NULL), go;
    if (fd < 0)
        skip();
    /* The process itself forks. */
    exec_events_set_pids(fd, (pid_t[]){INT32_MAX, getpid()}, 2);
    exec_events_drop(fd);
    pid_t child = start_waiting(&go);
    exec_events_read(fd, see, &seen);
    assert_int_equal(seen.count, 1);
    assert_int_equal(seen.events[0].kind, EXEC_EVENT_FORKED);
    assert_int_equal(seen.events[0].pid, child);
    assert_int_equal(seen.events[0].parent, getpid());
    /* The child begins a program and ends. */
    seen.count = 0;
    exec_events_set_pids(fd, &child, 1);
    assert_int_equal(write(go, "", 1), 1);
    close(go);
    assert_int_equal(waitpid(child, NULL, 0), child);
    exec_events_read(fd, see, &seen);
    assert_int_equal(seen.count, 2);
    assert_int_equal(seen.events[0].kind, EXEC_EVENT_BEGAN);
    assert_int_equal(seen.events[1].kind, EXEC_EVENT_ENDED);
    assert_true(seen.events[0].pid == child && seen.events[1].pid == child);
    /* Of the sixteen last ones, too. */
    pid_t many[EXEC_EVENTS_PIDS_MAX] = {0};
    seen.count = 0;
    many[EXEC_EVENTS_PIDS_MAX - 1] = getpid();
    exec_events_set_pids(fd, many, EXEC_EVENTS_PIDS_MAX);
    child = start_waiting(&go);
    close(go);
    assert_int_equal(waitpid(child, NULL, 0), child);
    exec_events_read(fd, see, &seen);
    assert_int_equal(seen.count, 1);
    exec_events_set_pids(fd, NULL, 0);
    child = start_waiting(&go);
    close(go);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_false(exec_events_pending(fd));
    exec_events_close(fd);
}

static void count_event(void *context, const struct exec_event *event)
{
    size_t *count = context;
    (void)event;
    (*count)++;
}

/* A slow reader learns that events were lost, and receives the kept ones. */
static void lost_events_are_reported(void **state)
{
    (void)state;
    int fd = exec_events_open(NULL), bytes = 4096;
    if (fd < 0)
        skip();
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes)), 0);
    for (int i = 0; i < 100; i++) {
        pid_t child = fork();
        if (child == 0)
            _exit(0);
        assert_int_equal(waitpid(child, NULL, 0), child);
    }
    size_t count = 0;
    assert_int_equal(exec_events_read(fd, count_event, &count), -ENOBUFS);
    assert_true(count > 0);
    exec_events_close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events_are_understood),
        cmocka_unit_test(other_profiles_are_skipped),
        cmocka_unit_test(nothing_is_read_beyond_a_truncation),
        cmocka_unit_test(any_lengths_are_safe),
        cmocka_unit_test(random_bytes_are_survived),
        cmocka_unit_test(the_kernel_reports_an_exec),
        cmocka_unit_test(the_kernel_reports_an_end),
        cmocka_unit_test(only_events_of_chosen_processes_wake_us),
        cmocka_unit_test(lost_events_are_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
