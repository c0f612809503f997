/* SPDX-License-Identifier: Apache-2.0 */
/* A pipe tells the child when to end. The child makes system calls only: it is a copy of one thread
 * of a process that may have more. */
#include "recorder/sockets/closing_child.h"

#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "util/close_descriptors.h"
#include "util/priority.h"

/* Close all other descriptors. The first ones are in ascending order. */
static void keep_only(const int *fds, unsigned count, int pipe)
{
    unsigned next = 0;
    for (unsigned i = 0; i <= count; i++) {
        unsigned end = i < count ? (unsigned)fds[i] : ~0U;
        if ((unsigned)pipe >= next && (unsigned)pipe < end) {
            if ((unsigned)pipe > next)
                close_descriptors(next, (unsigned)pipe - 1);
            next = (unsigned)pipe + 1;
        }
        if (end > next)
            close_descriptors(next, end == ~0U ? end : end - 1);
        next = end + 1;
    }
}

static _Noreturn void hold(const int *fds, unsigned count, int pipe)
{
    struct pollfd closed = {.fd = pipe};
    keep_only(fds, count, pipe);
    while ((closed.revents & (POLLHUP | POLLNVAL)) == 0)
        syscall(SYS_ppoll, &closed, 1, NULL, NULL, sizeof(unsigned long));
    for (;;)
        syscall(SYS_exit_group, 0);
}

static int compare_fds(const void *left, const void *right)
{
    int a = *(const int *)left, b = *(const int *)right;
    return (a > b) - (a < b);
}

pid_t closing_child_start(int *fds, unsigned count)
{
    int pipe[2];
    if (pipe2(pipe, O_CLOEXEC) < 0)
        return -1;
    qsort(fds, count, sizeof(*fds), compare_fds);
    pid_t child = (pid_t)syscall(SYS_clone, 0, NULL, NULL, NULL, 0);
    if (child == 0)
        hold(fds, count, pipe[0]);
    close(pipe[0]);
    if (child > 0) {
        priority_restore(child);
        /* The child still has them, so these closes do not wait. */
        for (unsigned i = 0; i < count; i++)
            close(fds[i]);
    }
    close(pipe[1]);
    return child;
}
