/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the file with the rights of whoever asks. */
#include "tools/cli/record/collector_file.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/write_all.h"

static Heapprofd__CollectorStatus *read_open(int fd, const char *path, struct error *error)
{
    struct stat status;
    if (fstat(fd, &status) < 0 || !S_ISREG(status.st_mode) ||
        (status.st_uid != 0 && status.st_uid != geteuid()) ||
        status.st_size > (off_t)COLLECTOR_FILE_BYTES_MAX) {
        error_set(error, -EPERM, "%s is no status file of root or of yours", path);
        return NULL;
    }
    uint8_t *bytes = malloc((size_t)status.st_size + 1);
    int code = bytes == NULL ? -ENOMEM : read_all(fd, bytes, (size_t)status.st_size);
    Heapprofd__CollectorStatus *message = NULL;
    if (code == 0)
        message = heapprofd__collector_status__unpack(NULL, (size_t)status.st_size, bytes);
    free(bytes);
    if (message == NULL)
        error_set(error, code < 0 ? code : -EBADMSG, "cannot read %s: %s", path,
                  code < 0 ? strerror(-code) : "it is no status of a collector");
    return message;
}

Heapprofd__CollectorStatus *collector_file_read(const char *directory, struct error *error)
{
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/" COLLECTOR_FILE_NAME, directory);
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) {
        int code = -errno;
        error_set(error, code, "cannot read %s: %s%s", path, strerror(-code),
                  code == -EACCES ? "; ask as root, because it names programs of all users" : "");
        return NULL;
    }
    Heapprofd__CollectorStatus *message = read_open(fd, path, error);
    close(fd);
    return message;
}
