/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Users and groups from /etc/passwd and /etc/group alone. Those of the C library ask what
 * nsswitch.conf names, and load libraries of the machine's own C library for that, which may be
 * another one than that in this program.
 */
#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define LINE_BYTES_MAX 65536

/* The line of the last call. The C library's functions also return memory of their own. */
static char last_user_line[LINE_BYTES_MAX], last_group_line[LINE_BYTES_MAX];
static struct passwd last_user;
static struct group last_group;

/* Find a user by name, or by number if name is NULL. Return 0 or an errno. *found: NULL if there is
 * no such user. */
static int accounts_find_user(const char *name, uid_t uid, struct passwd *entry, char *line,
                              size_t size, struct passwd **found)
{
    *found = NULL;
    FILE *file = fopen("/etc/passwd", "rce");
    if (file == NULL)
        return errno == ENOENT ? 0 : errno;
    int code;
    do
        code = fgetpwent_r(file, entry, line, size, found);
    while (code == 0 && (name != NULL ? strcmp(entry->pw_name, name) != 0 : entry->pw_uid != uid));
    fclose(file);
    if (code != 0)
        *found = NULL;
    return code == ENOENT ? 0 : code;
}

int getpwnam_r(const char *name, struct passwd *entry, char *line, size_t size,
               struct passwd **found)
{
    return accounts_find_user(name, 0, entry, line, size, found);
}

int getpwuid_r(uid_t uid, struct passwd *entry, char *line, size_t size, struct passwd **found)
{
    return accounts_find_user(NULL, uid, entry, line, size, found);
}

struct passwd *getpwnam(const char *name)
{
    struct passwd *found;
    errno = getpwnam_r(name, &last_user, last_user_line, sizeof(last_user_line), &found);
    return found;
}

struct passwd *getpwuid(uid_t uid)
{
    struct passwd *found;
    errno = getpwuid_r(uid, &last_user, last_user_line, sizeof(last_user_line), &found);
    return found;
}

struct group *getgrgid(gid_t gid)
{
    struct group *found = NULL;
    FILE *file = fopen("/etc/group", "rce");
    if (file == NULL)
        return NULL;
    do
        errno = fgetgrent_r(file, &last_group, last_group_line, sizeof(last_group_line), &found);
    while (found != NULL && found->gr_gid != gid);
    fclose(file);
    return found;
}

/* libedit completes "~NAME" from this list. Without it there are no names to complete. */
struct passwd *getpwent(void)
{
    return NULL;
}

void setpwent(void) {}

void endpwent(void) {}
