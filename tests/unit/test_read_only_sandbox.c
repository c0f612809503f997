/* SPDX-License-Identifier: Apache-2.0 */
/* The remaining rights of a child that parses files. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "util/kernel_calls.h"
#include "util/read_only_sandbox.h"

static char place[] = "/tmp/test_read_only_sandbox.XXXXXX";

/* For the child, which must not use assertions: they would run the other tests. Return the line
 * that failed. */
#define expect(condition)                                                                          \
    do {                                                                                           \
        if (!(condition))                                                                          \
            return __LINE__;                                                                       \
    } while (0)

static int look_around(int writable, int open_file)
{
    char name[] = "true", *arguments[] = {name, NULL};
    read_only_sandbox_enter(writable);
    expect(open("file", O_RDONLY) >= 0);
    expect(write(open_file, "it", 2) == 2);
    expect(execv("/bin/true", arguments) < 0 && errno == EPERM);
    expect(socket(AF_UNIX, SOCK_STREAM, 0) < 0 && errno == EPERM);
    expect(kill(getppid(), 0) < 0 && errno == EPERM);
    expect(syscall(SYS_tgkill, getppid(), getppid(), 0) < 0 && errno == EPERM);
    expect(syscall(SYS_tgkill, getpid(), getpid(), 0) == 0);
    expect(chmod("file", 0666) < 0 && errno == EPERM);
    expect(fchmod(open_file, 0666) < 0 && errno == EPERM);
    expect(truncate("file", 0) < 0 && errno == EPERM);
    expect(syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0) < 0 && errno == EPERM);
    expect(syscall(SYS_clone3, NULL, 0) < 0 && errno == ENOSYS);
    pid_t child = fork();
    if (child == 0)
        _exit(7);
    int status = 0;
    expect(child > 0 && waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 7);
    if (syscall(SYS_landlock_create_ruleset, NULL, 0, 1) >= 3) {
        expect(open("file", O_WRONLY) < 0 && errno == EACCES);
        expect(open("new", O_WRONLY | O_CREAT, 0600) < 0 && errno == EACCES);
        expect(unlink("file") < 0 && errno == EACCES);
    }
    /* As the symbol cache writes. */
    int fd = openat(writable, "new", O_WRONLY | O_CREAT | O_EXCL, 0600);
    expect(fd >= 0 && write(fd, "it", 2) == 2);
    expect(renameat(writable, "new", writable, "kept") == 0);
    expect(unlinkat(writable, "kept", 0) == 0);
    if (geteuid() == 0) {
        expect(open("anothers", O_RDONLY) >= 0);
        expect(setresuid(1, 1, 1) < 0);
        expect(open("/proc/sys/kernel/core_pattern", O_WRONLY) < 0);
    }
    return 0;
}

/* The thread sanitizer starts a thread in each forked child, which the sandbox does not allow. */
#if defined(__SANITIZE_THREAD__)
#define WITH_THREAD_SANITIZER true
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define WITH_THREAD_SANITIZER true
#endif
#endif
#ifndef WITH_THREAD_SANITIZER
#define WITH_THREAD_SANITIZER false
#endif

static void test_child_can_only_read(void **state)
{
    int status = 0;
    (void)state;
    if (WITH_THREAD_SANITIZER)
        skip();
    assert_int_equal(mkdir("cache", 0700), 0);
    int open_file = open("file", O_RDWR | O_CREAT, 0600), writable = open("cache", O_RDONLY);
    int anothers = open("anothers", O_RDWR | O_CREAT, 0600);
    assert_true(open_file >= 0 && writable >= 0 && anothers >= 0);
    if (geteuid() == 0)
        assert_int_equal(fchown(anothers, 12345, 12345), 0);
    pid_t child = fork();
    if (child == 0)
        _exit(look_around(writable, open_file));
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    close(open_file), close(writable), close(anothers);
}

static int set_up(void **state)
{
    (void)state;
    return mkdtemp(place) != NULL && chdir(place) == 0 ? 0 : -1;
}

static int tear_down(void **state)
{
    char command[64];
    (void)state;
    snprintf(command, sizeof(command), "rm -rf %s", place);
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_child_can_only_read),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
