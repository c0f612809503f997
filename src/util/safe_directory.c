/* SPDX-License-Identifier: Apache-2.0 */
/* The rules for one directory, and the walk that applies them to each directory on a path. */
#include "util/safe_directory.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/magic.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <unistd.h>

/* The kernel's own limit. */
#define LINKS_MAX 40
#define TRIES_MAX 100

/* --- who may change a directory --- */

static bool called_sudo(uid_t owner)
{
    const char *text = geteuid() == 0 ? getenv("SUDO_UID") : NULL;
    char *end = NULL;
    if (text == NULL || *text < '0' || *text > '9')
        return false;
    errno = 0;
    unsigned long uid = strtoul(text, &end, 10);
    return errno == 0 && *end == '\0' && uid == owner;
}

bool safe_directory_trusts(uid_t owner)
{
    struct stat root;
    return owner == geteuid() || owner == 0 || called_sudo(owner) ||
           (stat("/", &root) == 0 && root.st_uid == owner);
}

/* Return whether an access list could let anybody but the group write. */
static bool has_access_list(int fd)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    return getxattr(path, "system.posix_acl_access", NULL, 0) > 0;
}

static bool is_private_group(int fd, const struct stat *status)
{
    if (has_access_list(fd))
        return false;
    if (status->st_gid == 0)
        return true;
    const struct passwd *user = getpwuid(status->st_uid);
    if (user == NULL || user->pw_gid != status->st_gid)
        return false;
    const struct group *group = getgrgid(status->st_gid);
    if (group == NULL || strcmp(group->gr_name, user->pw_name) != 0)
        return false;
    for (char **member = group->gr_mem; *member != NULL; member++) {
        if (strcmp(*member, user->pw_name) != 0)
            return false;
    }
    return true;
}

/* Return the kernel's name of an open directory, which contains no symlinks. */
static const char *path_of(int fd, char path[PATH_MAX])
{
    char self[64];
    snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
    ssize_t length = readlink(self, path, PATH_MAX - 1);
    path[length > 0 ? length : 0] = '\0';
    return length > 0 ? path : "a directory on the way";
}

static int refuse_owner(const char *path, const char *what, uid_t owner, struct error *error)
{
    return error_set(error, -EPERM,
                     "%.150s: not a safe place: %.200s belongs to user %u, who could "
                     "redirect it; name a directory of your own",
                     path, what, (unsigned)owner);
}

static int safe_directory_check(int fd, const char *path, struct error *error)
{
    char own[PATH_MAX];
    struct stat status;
    if (fstat(fd, &status) != 0)
        return error_set(error, -errno, "%.300s: %s", path, strerror(errno));
    if (!safe_directory_trusts(status.st_uid))
        return refuse_owner(path, path_of(fd, own), status.st_uid, error);
    if ((status.st_mode & S_ISVTX) != 0)
        return 0;
    if ((status.st_mode & S_IWOTH) != 0)
        return error_set(error, -EPERM,
                         "%.150s: not a safe place: every user may rename what is in "
                         "%.200s; chmod go-w forbids that, or name a directory of your own",
                         path, path_of(fd, own));
    if ((status.st_mode & S_IWGRP) != 0 && !is_private_group(fd, &status))
        return error_set(error, -EPERM,
                         "%.150s: not a safe place: group %u may rename what is in "
                         "%.200s; chmod g-w forbids that, or name a directory of your own",
                         path, (unsigned)status.st_gid, path_of(fd, own));
    return 0;
}

/* --- the way there --- */

struct walk {
    const char *path; /* as the caller gave it */
    int fd;           /* the directory reached so far */
    unsigned links;
    char rest[PATH_MAX]; /* not followed yet */
};

static bool is_proc(int fd)
{
    struct statfs system;
    return fstatfs(fd, &system) == 0 && system.f_type == PROC_SUPER_MAGIC;
}

static int safe_directory_fail(const struct walk *walk, int code, struct error *error)
{
    return error_set(error, code, "%.300s: %s", walk->path, strerror(-code));
}

/* Continue the walk in the directory `fd`. */
static int safe_directory_step(struct walk *walk, int fd, struct error *error)
{
    if (walk->fd >= 0)
        close(walk->fd);
    walk->fd = fd;
    return fd < 0 ? safe_directory_fail(walk, -errno, error)
                  : safe_directory_check(fd, walk->path, error);
}

static int safe_directory_begin(struct walk *walk, struct error *error)
{
    return safe_directory_step(
        walk, open(walk->rest[0] == '/' ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC), error);
}

/* Put a symlink's text in front of the rest of the path. `length` is the length of its
 * component. */
static int follow_link(struct walk *walk, const char *name, size_t length, uid_t owner,
                       struct error *error)
{
    char text[PATH_MAX], rest[PATH_MAX];
    if (!safe_directory_trusts(owner))
        return refuse_owner(walk->path, name, owner, error);
    if (++walk->links > LINKS_MAX)
        return safe_directory_fail(walk, -ELOOP, error);
    ssize_t got = readlinkat(walk->fd, name, text, sizeof(text) - 1);
    if (got <= 0)
        return safe_directory_fail(walk, got < 0 ? -errno : -ENOENT, error);
    text[got] = '\0';
    if (snprintf(rest, sizeof(rest), "%s%s", text, walk->rest + length) >= (int)sizeof(rest))
        return safe_directory_fail(walk, -ENAMETOOLONG, error);
    strcpy(walk->rest, rest);
    return *text == '/' ? safe_directory_begin(walk, error) : 0;
}

/* Enter a directory, or follow a symlink. `length` is the length of the component with its
 * slashes. */
static int enter(struct walk *walk, const char *name, size_t length, struct error *error)
{
    struct stat status;
    int fd = openat(walk->fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &status) != 0) {
        int code = -errno;
        if (fd >= 0)
            close(fd);
        return safe_directory_fail(walk, code, error);
    }
    if (S_ISLNK(status.st_mode)) {
        close(fd);
        if (!is_proc(walk->fd))
            return follow_link(walk, name, strlen(name), status.st_uid, error);
        /* Links of /proc do not lead to the path in their text. */
        fd = openat(walk->fd, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
    } else if (!S_ISDIR(status.st_mode)) {
        close(fd);
        return safe_directory_fail(walk, -ENOTDIR, error);
    }
    int code = safe_directory_step(walk, fd, error);
    memmove(walk->rest, walk->rest + length, strlen(walk->rest + length) + 1);
    return code;
}

/* Follow the path up to its last component. If that is a symlink, follow it, too. */
static int walk_to_parent(struct walk *walk, char name[NAME_MAX + 1], struct error *error)
{
    struct stat status;
    int code = safe_directory_begin(walk, error);
    while (code == 0) {
        size_t slashes = strspn(walk->rest, "/");
        memmove(walk->rest, walk->rest + slashes, strlen(walk->rest + slashes) + 1);
        size_t length = strcspn(walk->rest, "/");
        if (length > NAME_MAX)
            return safe_directory_fail(walk, -ENAMETOOLONG, error);
        memcpy(name, walk->rest, length);
        name[length] = '\0';
        size_t whole = length + strspn(walk->rest + length, "/");
        bool is_last = walk->rest[whole] == '\0';
        if (length == 0)
            return 0;
        if (!is_last || strcmp(name, "..") == 0)
            code = enter(walk, name, whole, error);
        else if (fstatat(walk->fd, name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
                 S_ISLNK(status.st_mode) && !is_proc(walk->fd))
            code = follow_link(walk, name, length, status.st_uid, error);
        else
            return 0;
    }
    return code;
}

static int safe_directory_start(struct walk *walk, const char *path, struct error *error)
{
    *walk = (struct walk){.path = path, .fd = -1};
    if (*path == '\0')
        return safe_directory_fail(walk, -ENOENT, error);
    if (strlen(path) >= sizeof(walk->rest))
        return safe_directory_fail(walk, -ENAMETOOLONG, error);
    strcpy(walk->rest, path);
    return 0;
}

int safe_directory_open_parent(const char *path, char name[NAME_MAX + 1], struct error *error)
{
    struct walk walk;
    int code = safe_directory_start(&walk, path, error);
    if (code == 0)
        code = walk_to_parent(&walk, name, error);
    if (code == 0 && (*name == '\0' || strcmp(name, ".") == 0 || strchr(walk.rest, '/') != NULL))
        code = safe_directory_fail(&walk, -EISDIR, error);
    if (code == 0)
        return walk.fd;
    if (walk.fd >= 0)
        close(walk.fd);
    return code;
}

static int open_last(struct walk *walk, const char *name, struct error *error)
{
    /* /proc/PID/cwd is a symlink whose text cannot be followed instead. */
    int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC | (is_proc(walk->fd) ? 0 : O_NOFOLLOW);
    int fd = openat(walk->fd, *name == '\0' ? "." : name, flags);
    if (fd < 0)
        return safe_directory_fail(walk, -errno, error);
    int code = safe_directory_check(fd, walk->path, error);
    if (code < 0)
        close(fd);
    return code < 0 ? code : fd;
}

static int open_or_make(const char *path, bool makes, struct error *error)
{
    char name[NAME_MAX + 1];
    struct walk walk;
    int code = safe_directory_start(&walk, path, error);
    if (code == 0)
        code = walk_to_parent(&walk, name, error);
    if (code == 0 && makes && *name != '\0' && mkdirat(walk.fd, name, 0700) != 0 && errno != EEXIST)
        code = error_set(error, -errno, "cannot create the directory %.300s: %s", path,
                         strerror(errno));
    if (code == 0)
        code = open_last(&walk, name, error);
    if (walk.fd >= 0)
        close(walk.fd);
    return code;
}

int safe_directory_open(const char *path, struct error *error)
{
    return open_or_make(path, false, error);
}

int safe_directory_make(const char *path, struct error *error)
{
    return open_or_make(path, true, error);
}

void safe_directory_put_random(char *name)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    unsigned char random[6] = {0};
    char *at = name + strlen(name);
    /* Names need not be secret: the caller creates the entry with O_EXCL or mkdir(). */
    if (getrandom(random, sizeof(random), GRND_NONBLOCK) < 0)
        random[0] = (unsigned char)getpid();
    /* The last one is no small letter: a name that a user chooses for a purpose is a word. */
    for (size_t i = 0; i < sizeof(random); i++)
        *at++ = i < sizeof(random) - 1 ? letters[random[i] % (sizeof(letters) - 1)]
                                       : letters[26 + random[i] % (sizeof(letters) - 27)];
    *at = '\0';
}

int safe_directory_make_unique(int parent, const char *prefix, char name[NAME_MAX + 1])
{
    for (unsigned i = 0; i < TRIES_MAX; i++) {
        snprintf(name, NAME_MAX - 8, "%s", prefix);
        safe_directory_put_random(name);
        if (mkdirat(parent, name, 0700) == 0) {
            int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
            return fd < 0 ? -errno : fd;
        }
        if (errno != EEXIST)
            return -errno;
    }
    return -EEXIST;
}
