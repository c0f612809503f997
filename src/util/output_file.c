/* SPDX-License-Identifier: Apache-2.0 */
/* Opens an output file in the way that fits what exists at its path, and moves a finished file into
 * place. */
#include "util/output_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/safe_directory.h"

#define TRIES_MAX 100

void (*output_file_waits)(const char *path);

static int output_file_fail(const struct output_file *file, int code, struct error *error)
{
    return error_set(error, code, "%.300s: cannot be written: %s", file->path, strerror(-code));
}

static int output_file_refuse(const struct output_file *file, const char *reason,
                              struct error *error)
{
    return error_set(error, -EINVAL, "%.300s: cannot be written: %s", file->path, reason);
}

/* --- open descriptors --- */

/* Return the descriptor that a path like /dev/stdout stands for, or -1. */
static int descriptor_of(const char *path)
{
    static const char *const places[] = {"/dev/fd/", "/proc/self/fd/"};
    if (strcmp(path, "/dev/stdout") == 0)
        return STDOUT_FILENO;
    if (strcmp(path, "/dev/stderr") == 0)
        return STDERR_FILENO;
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        const char *number = path + strlen(places[i]);
        size_t digits;
        if (strncmp(path, places[i], strlen(places[i])) == 0 &&
            (digits = strspn(number, "0123456789")) > 0 && digits < 9 && number[digits] == '\0')
            return atoi(number);
    }
    return -1;
}

static int open_descriptor(struct output_file *file, int fd, struct error *error)
{
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0)
        return output_file_fail(file, -errno, error);
    if ((flags & O_ACCMODE) == O_RDONLY)
        return output_file_refuse(file, "it is open for reading only", error);
    file->fd = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    return file->fd < 0 ? output_file_fail(file, -errno, error) : 0;
}

/* --- devices and pipes --- */

static int open_special(struct output_file *file, int directory, const struct stat *status,
                        struct error *error)
{
    struct stat opened;
    int flags = O_WRONLY | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC;
    int fd = openat(directory, file->name, flags | (S_ISFIFO(status->st_mode) ? O_NONBLOCK : 0));
    if (fd < 0 && errno == ENXIO && S_ISFIFO(status->st_mode)) {
        if (output_file_waits != NULL)
            output_file_waits(file->path);
        fd = openat(directory, file->name, flags);
    }
    if (fd < 0)
        return output_file_fail(file, -errno, error);
    if (fstat(fd, &opened) != 0 || opened.st_ino != status->st_ino ||
        opened.st_dev != status->st_dev || fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK)) {
        close(fd);
        return output_file_refuse(file, "it was replaced just now", error);
    }
    file->fd = fd;
    return 0;
}

/* --- regular files --- */

static bool is_mount_point(int directory, const char *name)
{
    struct statx status;
    return statx(directory, name, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT, STATX_TYPE, &status) ==
               0 &&
           (status.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
}

/* Overwrite the file that is there, if it has no other names. */
static int open_in_place(struct output_file *file, int directory, struct error *error)
{
    struct stat status;
    int fd = openat(directory, file->name, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return output_file_fail(file, -errno, error);
    int code = fstat(fd, &status) != 0 ? -errno : 0;
    if (code == 0 &&
        (!S_ISREG(status.st_mode) || status.st_nlink != 1 || !safe_directory_trusts(status.st_uid)))
        code = -EPERM;
    if (code == 0 && ftruncate(fd, 0) != 0)
        code = -errno;
    if (code < 0) {
        close(fd);
        return output_file_fail(file, code, error);
    }
    file->fd = fd;
    return 0;
}

static void choose_name_beside(struct output_file *file)
{
    snprintf(file->beside, sizeof(file->beside), ".%.200s.", file->name);
    safe_directory_put_random(file->beside);
}

static mode_t mode_of(unsigned flags)
{
    return (flags & OUTPUT_FILE_SHARED) != 0 ? 0666 : 0600;
}

static int open_unnamed(int directory, mode_t mode)
{
    /* Without /proc the file cannot be given a name later. */
    if (access("/proc/self/fd", X_OK) != 0)
        return -1;
    return openat(directory, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, mode);
}

static int create(struct output_file *file, int directory, unsigned flags)
{
    int create_flags = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    if ((flags & OUTPUT_FILE_AT_ONCE) != 0 && !file->replaces)
        return openat(directory, file->name, create_flags, mode_of(flags));
    int fd = (flags & (OUTPUT_FILE_AT_ONCE | OUTPUT_FILE_NAMED)) == 0
                 ? open_unnamed(directory, mode_of(flags))
                 : -1;
    for (unsigned i = 0; fd < 0 && i < TRIES_MAX; i++) {
        choose_name_beside(file);
        fd = openat(directory, file->beside, create_flags, mode_of(flags));
        if (fd < 0 && errno != EEXIST)
            break;
    }
    return fd;
}

/* Give the new file the owner, group and permissions of the old one, as far as we may. */
static void keep_permissions(const struct output_file *file)
{
    struct stat status;
    if (fstat(file->fd, &status) != 0)
        return;
    /* If the group cannot be kept, other users of our group get no access. */
    bool kept = (status.st_uid == file->owner && status.st_gid == file->group) ||
                fchown(file->fd, file->owner, file->group) == 0 ||
                fchown(file->fd, (uid_t)-1, file->group) == 0;
    mode_t mode = kept ? 0777 : 0707;
    (void)!fchmod(file->fd, file->mode & mode);
}

static int link_unnamed(const struct output_file *file, const char *name)
{
    char self[64];
    snprintf(self, sizeof(self), "/proc/self/fd/%d", file->fd);
    return linkat(AT_FDCWD, self, file->directory, name, AT_SYMLINK_FOLLOW) == 0 ? 0 : -errno;
}

static int link_beside(struct output_file *file)
{
    int code = -EEXIST;
    for (unsigned i = 0; code == -EEXIST && i < TRIES_MAX; i++) {
        choose_name_beside(file);
        code = link_unnamed(file, file->beside);
    }
    if (code < 0)
        file->beside[0] = '\0';
    return code;
}

static void remove_beside(struct output_file *file)
{
    if (file->beside[0] != '\0')
        unlinkat(file->directory, file->beside, 0);
    file->beside[0] = '\0';
}

static int rename_beside(struct output_file *file)
{
    int directory = file->directory;
    if (renameat2(directory, file->beside, directory, file->name,
                  file->is_new ? RENAME_NOREPLACE : 0) == 0) {
        file->beside[0] = '\0';
        return 0;
    }
    /* NFS does not support flags of renameat2(). */
    int code = -errno;
    if (code == -EINVAL && file->is_new)
        code = linkat(directory, file->beside, directory, file->name, 0) == 0 ? 0 : -errno;
    remove_beside(file);
    return code;
}

static int output_file_take_place(struct output_file *file)
{
    if (file->has_mode)
        keep_permissions(file);
    if (file->beside[0] == '\0') {
        int code = file->replaces ? -EEXIST : link_unnamed(file, file->name);
        if (code == -EEXIST && !file->is_new)
            code = link_beside(file);
        if (code < 0 || file->beside[0] == '\0')
            return code;
    }
    return rename_beside(file);
}

static int open_regular(struct output_file *file, int directory, unsigned flags,
                        struct error *error)
{
    /* A rename would replace a write-protected file: refuse. */
    if (file->has_mode && faccessat(directory, file->name, W_OK, AT_EACCESS) != 0)
        return output_file_fail(file, -errno, error);
    bool in_place = file->has_mode && (flags & OUTPUT_FILE_RENAMED) == 0;
    if (in_place && is_mount_point(directory, file->name))
        return open_in_place(file, directory, error);
    file->fd = create(file, directory, flags);
    if (file->fd < 0 && in_place && (errno == EACCES || errno == EPERM || errno == EROFS))
        return open_in_place(file, directory, error);
    if (file->fd < 0)
        return output_file_fail(file, -errno, error);
    file->directory = directory;
    file->is_new = (flags & OUTPUT_FILE_NEW) != 0;
    if ((flags & OUTPUT_FILE_AT_ONCE) == 0)
        return 0;
    int code = file->beside[0] != '\0' ? output_file_take_place(file) : 0;
    file->directory = -1;
    if (code < 0) {
        close(file->fd);
        file->fd = -1;
        return output_file_fail(file, code, error);
    }
    return 0;
}

/* --- all kinds --- */

static int examine_place(struct output_file *file, int directory, unsigned flags,
                         struct stat *status, struct error *error)
{
    if (fstatat(directory, file->name, status, AT_SYMLINK_NOFOLLOW) != 0) {
        status->st_mode = S_IFREG;
        return errno == ENOENT ? 0 : output_file_fail(file, -errno, error);
    }
    if ((flags & OUTPUT_FILE_NEW) != 0)
        return output_file_fail(file, -EEXIST, error);
    if (!safe_directory_trusts(status->st_uid))
        return error_set(error, -EPERM,
                         "%.300s: cannot be written: it belongs to user %u; remove it, or name "
                         "another file",
                         file->path, (unsigned)status->st_uid);
    file->replaces = true;
    if (S_ISLNK(status->st_mode)) {
        /* Replace the link, not the file that it leads to. */
        status->st_mode = S_IFREG;
        return 0;
    }
    file->has_mode = true;
    file->mode = status->st_mode & 0777;
    file->owner = status->st_uid;
    file->group = status->st_gid;
    return 0;
}

static int open_kind(struct output_file *file, int directory, unsigned flags, struct error *error)
{
    struct stat status;
    int code = examine_place(file, directory, flags, &status, error);
    if (code < 0)
        return code;
    switch (status.st_mode & S_IFMT) {
    case S_IFREG:
        return open_regular(file, directory, flags, error);
    case S_IFCHR:
    case S_IFIFO:
        return open_special(file, directory, &status, error);
    case S_IFDIR:
        return output_file_fail(file, -EISDIR, error);
    case S_IFBLK:
        return output_file_refuse(file, "it is a disk", error);
    case S_IFSOCK:
        return output_file_refuse(file, "it is a socket", error);
    default:
        return output_file_refuse(file, "it is no file", error);
    }
}

/* Keep a duplicate of the directory's descriptor: the original is the caller's. */
static int keep_directory(struct output_file *file, int code, struct error *error)
{
    if (code < 0 || file->directory < 0)
        return code;
    file->directory = fcntl(file->directory, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    if (file->directory >= 0)
        return code;
    code = -errno;
    close(file->fd);
    file->fd = -1;
    return output_file_fail(file, code, error);
}

int output_file_open_in(struct output_file *file, int directory, const char *path, const char *name,
                        unsigned flags, struct error *error)
{
    *file = (struct output_file){.fd = -1, .directory = -1};
    if (strlen(name) > NAME_MAX ||
        snprintf(file->path, sizeof(file->path), "%s/%s", path, name) >= (int)sizeof(file->path))
        return error_set(error, -ENAMETOOLONG, "%.300s: its name is too long", path);
    strcpy(file->name, name);
    return keep_directory(file, open_kind(file, directory, flags, error), error);
}

int output_file_open(struct output_file *file, const char *path, unsigned flags,
                     struct error *error)
{
    *file = (struct output_file){.fd = -1, .directory = -1};
    if (snprintf(file->path, sizeof(file->path), "%s", path) >= (int)sizeof(file->path))
        return error_set(error, -ENAMETOOLONG, "%.300s: its name is too long", path);
    int fd = descriptor_of(path);
    if (fd >= 0)
        return open_descriptor(file, fd, error);
    int directory = safe_directory_open_parent(path, file->name, error);
    /* The message of a refused directory is already set. */
    if (directory < 0)
        return directory == -EPERM ? directory : output_file_fail(file, directory, error);
    int code = open_kind(file, directory, flags, error);
    if (file->directory < 0)
        close(directory);
    return code;
}

FILE *output_file_stream(struct output_file *file)
{
    file->stream = fdopen(file->fd, "w");
    return file->stream;
}

void output_file_beside(const struct output_file *file, char path[PATH_MAX])
{
    snprintf(path, PATH_MAX, "/proc/self/fd/%d/%s", file->directory, file->beside);
}

int output_file_close(struct output_file *file, int result, struct error *error)
{
    int code = 0;
    if (file->fd < 0)
        return result;
    if (file->stream != NULL && (fflush(file->stream) != 0 || ferror(file->stream)))
        code = errno != 0 ? -errno : -EIO;
    if (code == 0 && result >= 0 && file->directory >= 0)
        code = output_file_take_place(file);
    if ((file->stream != NULL ? fclose(file->stream) : close(file->fd)) != 0 && code == 0)
        code = -errno;
    remove_beside(file);
    if (file->directory >= 0)
        close(file->directory);
    file->fd = file->directory = -1;
    file->stream = NULL;
    return code < 0 && result >= 0 ? output_file_fail(file, code, error) : result;
}
