/* SPDX-License-Identifier: Apache-2.0 */
/* Replace a small file as a whole. */
#include "production/continuous/last_dump.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "util/safe_directory.h"

#define FILE_NAME "last-dump"
#define NEW_NAME "last-dump.new"

int64_t last_dump_read(const char *directory)
{
    char text[32] = "";
    int parent = safe_directory_open(directory, NULL);
    int fd = parent < 0 ? -1 : openat(parent, FILE_NAME, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd >= 0) {
        ssize_t length = read(fd, text, sizeof(text) - 1);
        text[length > 0 ? length : 0] = '\0';
        close(fd);
    }
    if (parent >= 0)
        close(parent);
    long long time_ns = strtoll(text, NULL, 10);
    return time_ns > 0 ? (int64_t)time_ns : 0;
}

int last_dump_write(const char *directory, int64_t time_ns, struct error *error)
{
    char text[32];
    int length = snprintf(text, sizeof(text), "%lld\n", (long long)time_ns);
    int parent = safe_directory_make(directory, error);
    if (parent < 0)
        return parent;
    int fd = openat(parent, NEW_NAME, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    int code = fd < 0 ? -errno : 0;
    if (fd >= 0 && write(fd, text, (size_t)length) != length)
        code = -EIO;
    if (fd >= 0)
        close(fd);
    if (code == 0 && renameat(parent, NEW_NAME, parent, FILE_NAME) < 0)
        code = -errno;
    close(parent);
    return code < 0 ? error_set(error, code, "cannot write %s/" FILE_NAME ": %s", directory,
                                strerror(-code))
                    : 0;
}
