/* SPDX-License-Identifier: Apache-2.0 */
/* Opens directories and looks for traces without following links. */
#include "tools/cli/view/profile_directory.h"

#include <fcntl.h>
#include <stdbool.h>
#include <unistd.h>

/* Return whether a file is this user's or root's. */
static bool is_trusted(const struct stat *status)
{
    return status->st_uid == geteuid() || status->st_uid == 0;
}

int profile_directory_open(const char *path, struct stat *status)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd >= 0 && fstat(fd, status) == 0 && is_trusted(status))
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

const char *profile_directory_trace(int fd, struct stat *status)
{
    static const char *const names[] = {"symbolized-trace", "raw-trace"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (fstatat(fd, names[i], status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(status->st_mode) &&
            is_trusted(status))
            return names[i];
    return NULL;
}
