/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the file with O_PATH, checks its type, then opens it through that descriptor. The walk
 * below a root makes system calls only, for the child of process_rights.c. */
#include "util/regular_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "util/kernel_calls.h"
#include "util/process_files.h"

int regular_file_open_found(int found, struct stat *status)
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
    return found < 0 ? -errno : regular_file_open_found(found, status);
}

int regular_file_open_named(const char *path)
{
    struct stat status;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return -errno;
    if (fstat(fd, &status) == 0 && !S_ISDIR(status.st_mode))
        return fd;
    close(fd);
    return -EISDIR;
}

/* --- below a root, name by name --- */

/* The kernel follows at most as many links. */
#define LINKS_MAX 40
#define DEPTH_MAX 64

/* The directories from the root to the present place stay open, so that ".." needs no look-up,
 * and nobody can lead the walk out of the root by moving one of them. */
struct walk {
    int places[DEPTH_MAX]; /* the last one is the present place, and at the end the file */
    unsigned depth, links;
    char rest[PATH_MAX]; /* of the path */
};

static void go_up(struct walk *walk, unsigned depth)
{
    while (walk->depth > depth)
        close(walk->places[--walk->depth]);
}

/* Leave the link that is the present place, and put its text before the rest of the path. */
static int follow_link(struct walk *walk)
{
    char text[PATH_MAX], rest[PATH_MAX];
    ssize_t length = readlinkat(walk->places[walk->depth - 1], "", text, sizeof(text) - 1);
    if (length < 0)
        return -errno;
    text[length] = '\0';
    if (++walk->links > LINKS_MAX)
        return -ELOOP;
    if (snprintf(rest, sizeof(rest), "%s/%s", text, walk->rest) >= (int)sizeof(rest))
        return -ENAMETOOLONG;
    memcpy(walk->rest, rest, sizeof(rest));
    go_up(walk, text[0] == '/' ? 1 : walk->depth - 1);
    return 0;
}

/* Go to the next name of the path. `flags`: O_NOFOLLOW if a link as the last one stays. */
static int regular_file_step(struct walk *walk, int flags)
{
    char name[NAME_MAX + 1];
    struct stat status;
    char *at = walk->rest + strspn(walk->rest, "/");
    size_t length = strcspn(at, "/");
    if (length > NAME_MAX || walk->depth == DEPTH_MAX)
        return -ENAMETOOLONG;
    memcpy(name, at, length);
    name[length] = '\0';
    memmove(walk->rest, at + length, strlen(at + length) + 1);
    if (length == 0 || strcmp(name, ".") == 0)
        return 0;
    if (strcmp(name, "..") == 0) {
        go_up(walk, walk->depth > 1 ? walk->depth - 1 : 1);
        return 0;
    }
    int fd = openat(walk->places[walk->depth - 1], name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    walk->places[walk->depth++] = fd;
    if (fstat(fd, &status) < 0)
        return -errno;
    bool stays = walk->rest[0] == '\0' && (flags & O_NOFOLLOW) != 0;
    return S_ISLNK(status.st_mode) && !stays ? follow_link(walk) : 0;
}

/* Find a file as openat2() with RESOLVE_IN_ROOT does, where there is no such call: it came with
 * Linux 5.6, and a filter of system calls may refuse it. */
static int find_by_names(int root, const char *path, int flags)
{
    struct walk walk = {.places = {openat(root, ".", O_PATH | O_DIRECTORY | O_CLOEXEC)},
                        .depth = 1};
    if (walk.places[0] < 0)
        return -errno;
    int code = snprintf(walk.rest, sizeof(walk.rest), "%s", path) < (int)sizeof(walk.rest)
                   ? 0
                   : -ENAMETOOLONG;
    while (code == 0 && walk.rest[0] != '\0')
        code = regular_file_step(&walk, flags);
    int found = code == 0 ? walk.places[--walk.depth] : code;
    go_up(&walk, 0);
    return found;
}

int regular_file_find_below(int root, const char *path, int flags)
{
    struct kernel_open_how how = {.flags = (uint64_t)(O_PATH | O_CLOEXEC | (flags & O_NOFOLLOW)),
                                  .resolve = KERNEL_RESOLVE_IN_ROOT | KERNEL_RESOLVE_NO_MAGICLINKS};
    int found = (int)syscall(SYS_openat2, root, path, &how, sizeof(how));
    if (found >= 0)
        return found;
    return errno == ENOSYS || errno == EPERM ? find_by_names(root, path, flags) : -errno;
}

int regular_file_open_below(int root, const char *path, int flags, struct stat *status)
{
    int found = regular_file_find_below(root, path, flags);
    return found < 0 ? found : regular_file_open_found(found, status);
}

int regular_file_root_of(pid_t pid)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/root", (int)process_living_thread(pid));
    int root = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    return root < 0 ? -errno : root;
}

static int look_at(int directory, const char *path, int flags, struct stat *status)
{
    struct statx known;
    if (statx(directory, path, flags | AT_STATX_DONT_SYNC, STATX_BASIC_STATS, &known) < 0)
        return -errno;
    *status = (struct stat){
        .st_dev = makedev(known.stx_dev_major, known.stx_dev_minor),
        .st_ino = known.stx_ino,
        .st_mode = known.stx_mode,
        .st_uid = known.stx_uid,
        .st_gid = known.stx_gid,
        .st_size = (off_t)known.stx_size,
        .st_mtim = {known.stx_mtime.tv_sec, known.stx_mtime.tv_nsec},
        .st_ctim = {known.stx_ctime.tv_sec, known.stx_ctime.tv_nsec},
    };
    return 0;
}

int regular_file_look(const char *path, struct stat *status)
{
    return look_at(AT_FDCWD, path, 0, status);
}

int regular_file_look_found(int found, struct stat *status)
{
    return look_at(found, "", AT_EMPTY_PATH, status);
}

bool regular_file_is_same(const char *one, const char *other)
{
    struct stat first, second;
    return regular_file_look(one, &first) == 0 && regular_file_look(other, &second) == 0 &&
           S_ISREG(first.st_mode) && first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

bool regular_file_shares_root(pid_t pid)
{
    return process_shares(pid, "root") && process_shares(pid, "ns/mnt");
}
