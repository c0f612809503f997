/* SPDX-License-Identifier: Apache-2.0 */
/* The descriptors of a session process. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "recorder/service/session_confine.h"
#include "util/kernel_calls.h"
#include "util/seccomp_program.h"

/* Far more than are open. To try each number up to the limit takes long where that is high. */
#define TOO_FAR 1000

/* Have close_range() fail, as before Linux 5.9, and end who closes what is too far. */
static int forbid_close_range(void)
{
    struct sock_filter filter[] = {
        SECCOMP_LOAD(nr),
        SECCOMP_JUMP(BPF_JEQ, SYS_close_range, 0, 1),
        SECCOMP_RETURN(SECCOMP_RET_ERRNO | ENOSYS),
        SECCOMP_JUMP(BPF_JEQ, SYS_close, 0, 3),
        SECCOMP_LOAD(args[0]),
        SECCOMP_JUMP(BPF_JGE, TOO_FAR, 0, 1),
        SECCOMP_RETURN(SECCOMP_RET_KILL_PROCESS),
        SECCOMP_RETURN(SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {sizeof(filter) / sizeof(filter[0]), filter};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ? -1
                                                      : prctl(PR_SET_SECCOMP, 2, &program, 0, 0);
}

static bool is_open(int fd)
{
    return fcntl(fd, F_GETFD) >= 0;
}

/* Keep two of six descriptors. Return 0 if that is so. */
static int confine(void)
{
    int fds[6];
    for (int i = 0; i < 6; i++) {
        fds[i] = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 100 + 10 * i);
        if (fds[i] < 0)
            return 1;
    }
    int kept[] = {fds[4], fds[1], -1};
    session_confine_descriptors(kept, 3);
    for (int i = 0; i < 6; i++) {
        if (is_open(fds[i]) != (i == 1 || i == 4))
            return 2 + i;
    }
    return 0;
}

static int status_of_confined(bool without_close_range)
{
    int status = -1;
    pid_t child = fork();
    if (child == 0)
        _exit(without_close_range && forbid_close_range() < 0 ? 77 : confine());
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void other_descriptors_are_closed(void **state)
{
    (void)state;
    assert_int_equal(status_of_confined(false), 0);
}

static void they_are_closed_by_an_older_kernel_too(void **state)
{
    (void)state;
    int status = status_of_confined(true);
    if (status == 77)
        skip();
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(other_descriptors_are_closed),
        cmocka_unit_test(they_are_closed_by_an_older_kernel_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
