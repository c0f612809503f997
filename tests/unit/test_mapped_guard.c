/* SPDX-License-Identifier: Apache-2.0 */
/* Files that are truncated while they are read: the work fails, and the tool continues. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "profile/symbols/debug_info.h"
#include "profile/symbols/mapped_guard.h"

static int read_byte(void *context)
{
    return *(volatile char *)context;
}

static int say_seven(void *context)
{
    (void)context;
    return 7;
}

static char *map_nothing(void)
{
    int fd = memfd_create("short", MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, 4096), 0);
    char *map = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
    assert_true(map != MAP_FAILED);
    assert_int_equal(ftruncate(fd, 0), 0);
    close(fd);
    return map;
}

static void the_result_of_the_work_is_returned(void **state)
{
    (void)state;
    assert_int_equal(mapped_guard_run(say_seven, NULL), 7);
}

static void a_file_that_ended_is_an_error_each_time(void **state)
{
    (void)state;
    char *map = map_nothing();
    assert_int_equal(mapped_guard_run(read_byte, map), -EIO);
    assert_int_equal(mapped_guard_run(read_byte, map), -EIO);
    assert_int_equal(mapped_guard_run(say_seven, NULL), 7);
    munmap(map, 4096);
}

static void without_a_guard_the_process_dies(void **state)
{
    (void)state;
    char *map = map_nothing();
    struct sigaction before;
    assert_int_equal(sigaction(SIGBUS, NULL, &before), 0);
    assert_int_equal(mapped_guard_run(read_byte, map), -EIO);
    pid_t child = fork();
    if (child == 0) {
        signal(SIGBUS, SIG_DFL);
        _exit(read_byte(map));
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
    struct sigaction now;
    assert_int_equal(sigaction(SIGBUS, NULL, &now), 0);
    assert_true(now.sa_handler == before.sa_handler);
    munmap(map, 4096);
}

static int count_frames(void *context, size_t index, struct source_frame *frames, size_t count)
{
    (void)index;
    (void)frames;
    *(size_t *)context += count;
    return 0;
}

static int find_own(void *context)
{
    static const uint64_t addresses[] = {0, 0x1000, 0x100000};
    size_t frames = 0;
    return debug_info_find(context, addresses, 3, count_frames, &frames);
}

static void debug_information_that_ended_is_an_error(void **state)
{
    (void)state;
    char path[] = "/tmp/test_mapped_guard.XXXXXX", buffer[65536];
    int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC), to = mkstemp(path);
    ssize_t length;
    assert_true(from >= 0 && to >= 0);
    while ((length = read(from, buffer, sizeof(buffer))) > 0)
        assert_int_equal(write(to, buffer, (size_t)length), length);
    struct error error = {0};
    struct debug_info *info = debug_info_open(path, &error);
    if (info == NULL) {
        unlink(path);
        print_message("built without debug information: %s\n", error.message);
        skip();
    }
    assert_int_equal(ftruncate(to, 0), 0);
    assert_int_equal(mapped_guard_run(find_own, info), -EIO);
    debug_info_close(info);
    unlink(path);
    close(from);
    close(to);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_result_of_the_work_is_returned),
        cmocka_unit_test(a_file_that_ended_is_an_error_each_time),
        cmocka_unit_test(without_a_guard_the_process_dies),
        cmocka_unit_test(debug_information_that_ended_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
