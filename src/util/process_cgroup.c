/* SPDX-License-Identifier: Apache-2.0 */
/* Parse /proc/PID/cgroup. A process may be in cgroups with any name: every length has a bound. */
#include "util/process_cgroup.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "util/process_files.h"

#define CONTAINER_DIGITS (PROCESS_CONTAINER_BYTES - 1)

static bool ends_in(const char *text, size_t length, const char *end)
{
    size_t end_length = strlen(end);
    return length > end_length && memcmp(text + length - end_length, end, end_length) == 0;
}

/* Take the last component that is a unit. */
static void find_unit(struct process_cgroup *cgroup)
{
    for (const char *at = cgroup->path; *at != '\0';) {
        size_t length = strcspn(at, "/");
        if ((ends_in(at, length, ".service") || ends_in(at, length, ".scope")) &&
            length < sizeof(cgroup->unit))
            snprintf(cgroup->unit, sizeof(cgroup->unit), "%.*s", (int)length, at);
        at += length + (at[length] == '/');
    }
}

/* Take the last run of 64 hexadecimal digits: docker-ID.scope, cri-containerd-ID.scope,
 * libpod-ID.scope, /docker/ID and the like. */
static void find_container(struct process_cgroup *cgroup)
{
    for (const char *at = cgroup->path; *at != '\0';) {
        size_t length = 0;
        while (isxdigit((unsigned char)at[length]))
            length++;
        if (length == CONTAINER_DIGITS)
            snprintf(cgroup->container, sizeof(cgroup->container), "%.*s", CONTAINER_DIGITS, at);
        at += length + (at[length] != '\0');
    }
}

void process_cgroup_parse(struct process_cgroup *cgroup, char *text)
{
    int best = -1;
    char *rest = text, *line;
    *cgroup = (struct process_cgroup){0};
    while ((line = strsep(&rest, "\n")) != NULL) {
        /* HIERARCHY:CONTROLLERS:PATH */
        char *controllers = strchr(line, ':');
        char *path = controllers != NULL ? strchr(controllers + 1, ':') : NULL;
        if (path == NULL)
            continue;
        *path++ = '\0';
        int rank = strncmp(line, "0:", 2) == 0                    ? 2
                   : strcmp(controllers + 1, "name=systemd") == 0 ? 1
                                                                  : 0;
        /* On a machine with both versions, the second one may be mounted but unused. */
        if (rank == 2 && strcmp(path, "/") == 0)
            rank = 0;
        if (rank <= best || strlen(path) >= sizeof(cgroup->path))
            continue;
        best = rank;
        snprintf(cgroup->path, sizeof(cgroup->path), "%s", path);
    }
    find_unit(cgroup);
    find_container(cgroup);
}

void process_cgroup_read(struct process_cgroup *cgroup, pid_t pid)
{
    char text[8192];
    *cgroup = (struct process_cgroup){0};
    if (process_file_read(pid, "cgroup", text, sizeof(text)) > 0)
        process_cgroup_parse(cgroup, text);
}
