/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a file or standard input to its end. */
#include "tools/cli/record/config_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/print/wait_notice.h"
#include "util/regular_file.h"
#include "util/xmalloc.h"

#define CONFIG_BYTES_MAX (1u << 20)

char *config_file_read(const char *path, size_t *length, struct error *error)
{
    wait_notice_announce_input(path);
    int fd = strcmp(path, "-") == 0 ? STDIN_FILENO : regular_file_open_named(path);
    if (fd < 0) {
        error_set(error, fd, "cannot read the configuration %s: %s", path, strerror(-fd));
        return NULL;
    }
    char *bytes = NULL;
    size_t capacity = 0;
    ssize_t got = 1;
    *length = 0;
    while (got > 0 && *length <= CONFIG_BYTES_MAX) {
        XARRAY_RESERVE(&bytes, &capacity, *length, 4096);
        got = read(fd, bytes + *length, capacity - *length);
        *length += got > 0 ? (size_t)got : 0;
    }
    int code = got < 0 ? -errno : 0;
    if (fd != STDIN_FILENO)
        close(fd);
    if (got == 0)
        return bytes;
    free(bytes);
    if (code < 0)
        error_set(error, code, "cannot read the configuration %s: %s", path, strerror(-code));
    else
        error_set(error, -EFBIG, "the configuration %s is larger than %u bytes: is it one?", path,
                  CONFIG_BYTES_MAX);
    return NULL;
}
