/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the file with O_PATH, checks its type, then opens it through that descriptor. */
#include "util/regular_file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "util/process_files.h"

/* Reopen for reading the file that the O_PATH descriptor refers to, and close that descriptor. */
static int open_found(int found, struct stat *status)
{
    char link[32];
    int fd = -EINVAL;
    if (fstat(found, status) < 0)
        fd = -errno;
    else if (S_ISREG(status->st_mode)) {
        snprintf(link, sizeof(link), "/proc/self/fd/%d", found);
        fd = open(link, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
        if (fd < 0)
            fd = -errno;
    } else if (S_ISLNK(status->st_mode)) {
        fd = -ELOOP;
    }
    close(found);
    return fd;
}

int regular_file_open(const char *path, struct stat *status)
{
    int found = open(path, O_PATH | O_CLOEXEC);
    return found < 0 ? -errno : open_found(found, status);
}

int regular_file_open_below(int root, const char *path, int flags, struct stat *status)
{
    struct open_how how = {.flags = (uint64_t)(O_PATH | O_CLOEXEC | (flags & O_NOFOLLOW)),
                           .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};
    int found = (int)syscall(SYS_openat2, root, path, &how, sizeof(how));
    if (found < 0 && (errno == ENOSYS || errno == EPERM))
        found = openat(root, path + strspn(path, "/"), (int)how.flags);
    return found < 0 ? -errno : open_found(found, status);
}

int regular_file_root_of(pid_t pid)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/root", (int)process_living_thread(pid));
    int root = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    return root < 0 ? -errno : root;
}

bool regular_file_is_same(const char *one, const char *other)
{
    struct stat first, second;
    return stat(one, &first) == 0 && stat(other, &second) == 0 && S_ISREG(first.st_mode) &&
           first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

bool regular_file_shares_root(pid_t pid)
{
    return process_shares(pid, "root") && process_shares(pid, "ns/mnt");
}
