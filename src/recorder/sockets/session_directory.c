/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The directory is $HEAPPROFD_RUN_DIR/sessions if we own HEAPPROFD_RUN_DIR. Otherwise it is
 * /run/user/UID/heapprofd-sessions if there is such a directory of the user's, where nobody else
 * can take the name, or /tmp/heapprofd-sessions-UID: root finds both. If another user has taken the
 * latter, it is $XDG_RUNTIME_DIR/heapprofd-sessions.
 */
#include "recorder/sockets/session_directory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "recorder/sockets/run_directory.h"

#define USER_PLACE "/run/user"
#define SHARED_PLACE "/tmp"
#define SHARED_NAME "heapprofd-sessions-"
#define OWN_NAME "heapprofd-sessions"

/* Number of entries that are read: of a user's directory, and of a directory of such ones. */
#define ENTRIES_MAX 4096
#define PLACES_MAX 65536

/* Return the directory's descriptor, or -1 if it is not a directory of that user without these
 * permissions. */
static int open_place(int parent, const char *path, uid_t owner, mode_t forbidden)
{
    struct stat status;
    int fd = openat(parent, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0 &&
        (fstat(fd, &status) < 0 || status.st_uid != owner || (status.st_mode & forbidden) != 0)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

static bool is_own(const char *path)
{
    int fd = open_place(AT_FDCWD, path, geteuid(), 022);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

/* Compute the n-th candidate directory of this user. Return false after the last one. The caller
 * creates *base first. */
static bool print_place(unsigned n, char path[SESSION_LINK_MAX], char base[SESSION_LINK_MAX])
{
    const char *run = getenv(RUN_DIRECTORY_ENV), *runtime = getenv("XDG_RUNTIME_DIR");
    char of_user[sizeof(USER_PLACE) + 16];
    int printed = -1;
    base[0] = 0;
    snprintf(of_user, sizeof(of_user), USER_PLACE "/%u", (unsigned)geteuid());
    bool has_run =
        run != NULL && run[0] == '/' && (is_own(run) || (access(run, F_OK) < 0 && errno == ENOENT));
    if (has_run && n == 0) {
        snprintf(base, SESSION_LINK_MAX, "%s", run);
        printed = snprintf(path, SESSION_LINK_MAX, "%s/sessions", run);
    } else if (!has_run && n == 0 && is_own(of_user)) {
        printed = snprintf(path, SESSION_LINK_MAX, "%s/" OWN_NAME, of_user);
    } else if (!has_run && n == (is_own(of_user) ? 1 : 0)) {
        printed = snprintf(path, SESSION_LINK_MAX, SHARED_PLACE "/" SHARED_NAME "%u",
                           (unsigned)geteuid());
    } else if (!has_run && n == (is_own(of_user) ? 2 : 1) && runtime != NULL && runtime[0] == '/') {
        printed = snprintf(path, SESSION_LINK_MAX, "%s/" OWN_NAME, runtime);
    }
    /* Leave room for a pid. */
    return printed > 0 && printed < SESSION_LINK_MAX - 16;
}

void session_directory_add(const char *socket, char link[SESSION_LINK_MAX])
{
    char path[SESSION_LINK_MAX], base[SESSION_LINK_MAX], name[16];
    snprintf(name, sizeof(name), "%d", (int)getpid());
    link[0] = 0;
    for (unsigned n = 0; link[0] == 0 && print_place(n, path, base); n++) {
        if (base[0] != 0)
            mkdir(base, 0755);
        mkdir(path, 0700);
        int fd = open_place(AT_FDCWD, path, geteuid(), 077);
        if (fd < 0)
            continue;
        /* Remove the link of an earlier process with our pid. */
        unlinkat(fd, name, 0);
        if (symlinkat(socket, fd, name) == 0)
            snprintf(link, SESSION_LINK_MAX, "%.*s/%s", SESSION_LINK_MAX - 20, path, name);
        close(fd);
    }
}

bool session_directory_has_problem(struct error *problem)
{
    char path[SESSION_LINK_MAX], base[SESSION_LINK_MAX];
    bool any = false;
    for (unsigned n = 0; print_place(n, path, base); n++) {
        struct stat status;
        if (lstat(path, &status) < 0)
            return false; /* it can still be made, or its parent says why not */
        if (S_ISDIR(status.st_mode) && status.st_uid == geteuid() && (status.st_mode & 077) == 0)
            return false;
        if (!any)
            error_set(
                problem, -EEXIST,
                "%s belongs to user %u, or others may enter it: your sessions without "
                "heapprofd are in no status, and stop and snapshot do not reach them; have it "
                "removed, or set " RUN_DIRECTORY_ENV " to a directory of yours",
                path, (unsigned)status.st_uid);
        any = true;
    }
    return any;
}

void session_directory_remove(char link[SESSION_LINK_MAX])
{
    char *slash = strrchr(link, '/');
    if (slash == NULL)
        return;
    *slash = 0;
    int fd = open_place(AT_FDCWD, link, geteuid(), 077);
    if (fd >= 0) {
        unlinkat(fd, slash + 1, 0);
        close(fd);
    }
    link[0] = 0;
}

/* Parse a number that consists of decimal digits only. Return -1 if it is not one. */
static long session_directory_number_of(const char *name)
{
    size_t digits = strspn(name, "0123456789");
    return digits == 0 || digits > 10 || name[digits] != 0 ? -1 : strtol(name, NULL, 10);
}

/* Visit the links in a directory. Takes ownership of its descriptor (-1: none). */
static void visit_place(int fd, uid_t owner, session_directory_visitor *visit, void *context)
{
    DIR *directory = fd >= 0 ? fdopendir(fd) : NULL;
    const struct dirent *entry;
    if (directory == NULL) {
        if (fd >= 0)
            close(fd);
        return;
    }
    for (unsigned i = 0; i < ENTRIES_MAX && (entry = readdir(directory)) != NULL; i++) {
        char socket[SESSION_LINK_MAX];
        long pid = session_directory_number_of(entry->d_name);
        ssize_t length = pid <= 0 ? -1 : readlinkat(fd, entry->d_name, socket, sizeof(socket));
        if (length <= 0 || (size_t)length == sizeof(socket))
            continue;
        socket[length] = 0;
        if (!visit(context, (pid_t)pid, owner, socket) && owner == geteuid())
            unlinkat(fd, entry->d_name, 0);
    }
    closedir(directory);
}

/* Visit other users' directories, for root: those that are named `before`UID`after` at a place. */
static void visit_others(const char *place, const char *before, const char *after,
                         session_directory_visitor *visit, void *context)
{
    DIR *directory = opendir(place);
    const struct dirent *entry;
    for (unsigned i = 0;
         i < PLACES_MAX && directory != NULL && (entry = readdir(directory)) != NULL; i++) {
        char path[SESSION_LINK_MAX];
        long uid = strncmp(entry->d_name, before, strlen(before)) == 0
                       ? session_directory_number_of(entry->d_name + strlen(before))
                       : -1;
        if (uid < 0 || (uid_t)uid == geteuid())
            continue;
        snprintf(path, sizeof(path), "%.64s%s", entry->d_name, after);
        visit_place(open_place(dirfd(directory), path, (uid_t)uid, 077), (uid_t)uid, visit,
                    context);
    }
    if (directory != NULL)
        closedir(directory);
}

void session_directory_visit(session_directory_visitor *visit, void *context)
{
    char path[SESSION_LINK_MAX], base[SESSION_LINK_MAX];
    const char *run = getenv(RUN_DIRECTORY_ENV);
    for (unsigned n = 0; print_place(n, path, base); n++)
        visit_place(open_place(AT_FDCWD, path, geteuid(), 077), geteuid(), visit, context);
    /* If a run directory is named, use only that one. */
    if (geteuid() == 0 && (run == NULL || run[0] == 0)) {
        visit_others(USER_PLACE, "", "/" OWN_NAME, visit, context);
        visit_others(SHARED_PLACE, SHARED_NAME, "", visit, context);
    }
}
