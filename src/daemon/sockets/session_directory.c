/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See session_directory.h. The directory is $HEAPPROFD_RUN_DIR/sessions if we own
 * HEAPPROFD_RUN_DIR. Else it is /tmp/heapprofd-sessions-UID, which root finds, too. If another user
 * has taken that name, it is $XDG_RUNTIME_DIR/heapprofd-sessions.
 */
#include "daemon/sockets/session_directory.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/sockets/run_directory.h"

#define SHARED_PLACE "/tmp"
#define SHARED_NAME "heapprofd-sessions-"
#define OWN_NAME "heapprofd-sessions"

/* More are not looked at. */
#define ENTRIES_MAX 4096

static bool is_of(const char *path, uid_t owner, mode_t forbidden)
{
    struct stat status;
    return lstat(path, &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == owner &&
           (status.st_mode & forbidden) == 0;
}

/* Compute the n-th candidate directory of this user. Return false after the last one. The caller
 * creates *base first. */
static bool print_place(unsigned n, char path[SESSION_LINK_MAX], char base[SESSION_LINK_MAX])
{
    const char *run = getenv(RUN_DIRECTORY_ENV), *runtime = getenv("XDG_RUNTIME_DIR");
    int printed = -1;
    base[0] = 0;
    bool has_run = run != NULL && run[0] == '/' &&
                   (is_of(run, geteuid(), 022) || (access(run, F_OK) < 0 && errno == ENOENT));
    if (has_run && n == 0) {
        snprintf(base, SESSION_LINK_MAX, "%s", run);
        printed = snprintf(path, SESSION_LINK_MAX, "%s/sessions", run);
    } else if (!has_run && n == 0) {
        printed = snprintf(path, SESSION_LINK_MAX, SHARED_PLACE "/" SHARED_NAME "%u",
                           (unsigned)geteuid());
    } else if (!has_run && n == 1 && runtime != NULL && runtime[0] == '/') {
        printed = snprintf(path, SESSION_LINK_MAX, "%s/" OWN_NAME, runtime);
    }
    /* A pid follows. */
    return printed > 0 && printed < SESSION_LINK_MAX - 16;
}

void session_directory_add(const char *socket, char link[SESSION_LINK_MAX])
{
    char path[SESSION_LINK_MAX], base[SESSION_LINK_MAX];
    link[0] = 0;
    for (unsigned n = 0; print_place(n, path, base); n++) {
        if (base[0] != 0)
            mkdir(base, 0755);
        mkdir(path, 0700);
        if (!is_of(path, geteuid(), 077))
            continue;
        int used = snprintf(link, SESSION_LINK_MAX, "%s", path);
        snprintf(link + used, SESSION_LINK_MAX - (size_t)used, "/%d", (int)getpid());
        /* A link of an earlier process with our pid. */
        unlink(link);
        if (symlink(socket, link) == 0)
            return;
    }
    link[0] = 0;
}

void session_directory_remove(char link[SESSION_LINK_MAX])
{
    if (link[0] != 0)
        unlink(link);
    link[0] = 0;
}

/* Parse a number of decimal digits only. Return -1 if it is not one. */
static long number_of(const char *name)
{
    size_t digits = strspn(name, "0123456789");
    return digits == 0 || digits > 10 || name[digits] != 0 ? -1 : strtol(name, NULL, 10);
}

typedef void visit_link(void *context, pid_t pid, uid_t owner, const char *link);

static void visit_place(const char *path, uid_t owner, visit_link *visit, void *context)
{
    char link[SESSION_LINK_MAX + 256];
    DIR *directory = is_of(path, owner, 077) ? opendir(path) : NULL;
    const struct dirent *entry;
    for (unsigned i = 0; directory != NULL && i < ENTRIES_MAX; i++) {
        if ((entry = readdir(directory)) == NULL)
            break;
        long pid = number_of(entry->d_name);
        if (pid <= 0)
            continue;
        snprintf(link, sizeof(link), "%s/%s", path, entry->d_name);
        visit(context, (pid_t)pid, owner, link);
    }
    if (directory != NULL)
        closedir(directory);
}

/* Visit other users' directories, for root. */
static void visit_others(visit_link *visit, void *context)
{
    char path[SESSION_LINK_MAX + 256];
    DIR *directory = opendir(SHARED_PLACE);
    const struct dirent *entry;
    while (directory != NULL && (entry = readdir(directory)) != NULL) {
        if (strncmp(entry->d_name, SHARED_NAME, strlen(SHARED_NAME)) != 0)
            continue;
        long uid = number_of(entry->d_name + strlen(SHARED_NAME));
        if (uid < 0 || (uid_t)uid == geteuid())
            continue;
        snprintf(path, sizeof(path), SHARED_PLACE "/%s", entry->d_name);
        visit_place(path, (uid_t)uid, visit, context);
    }
    if (directory != NULL)
        closedir(directory);
}

void session_directory_visit(visit_link *visit, void *context)
{
    char path[SESSION_LINK_MAX], base[SESSION_LINK_MAX];
    const char *run = getenv(RUN_DIRECTORY_ENV);
    for (unsigned n = 0; print_place(n, path, base); n++)
        visit_place(path, geteuid(), visit, context);
    /* If a run directory is named, use only that one. */
    if (geteuid() == 0 && (run == NULL || run[0] == 0))
        visit_others(visit, context);
}
