/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The texts of cgroups: /proc/PID/cgroup, mountinfo, memory.events and the like. Names of cgroups
 * are anybody's. What a parser returns must be in the text, and within its bounds.
 */
#include <ctype.h>
#include <string.h>

#include "fuzzing.h"
#include "recorder/cgroups/cgroup_files.h"
#include "util/process_cgroup.h"

static void check_mounts(char *text, struct cgroup_mounts *mounts)
{
    char *rest = text, *line;
    while ((line = strsep(&rest, "\n")) != NULL)
        cgroup_mounts_take(mounts, line);
    const struct cgroup_mount *both[] = {&mounts->unified, &mounts->memory};
    for (size_t i = 0; i < 2; i++) {
        check(memchr(both[i]->path, 0, sizeof(both[i]->path)) != NULL &&
              memchr(both[i]->root, 0, sizeof(both[i]->root)) != NULL);
        check(both[i]->path[0] == 0 || both[i]->path[0] == '/');
    }
}

static void check_paths(const char *text, const struct cgroup_mounts *mounts)
{
    char path[CGROUP_PATH_BYTES], directory[CGROUP_PATH_BYTES];
    for (int of_memory = 0; of_memory < 2; of_memory++) {
        const struct cgroup_mount *mount = of_memory ? &mounts->memory : &mounts->unified;
        if (!cgroup_path_of(text, of_memory, path))
            continue;
        check(path[0] == '/' && strlen(path) < sizeof(path) && strstr(text, path) != NULL);
        check(strncmp(path, "/..", 3) != 0 && strchr(path, '\n') == NULL);
        if (cgroup_directory(mount, path, directory))
            check(mount->path[0] != 0 && strncmp(directory, mount->path, strlen(mount->path)) == 0);
    }
}

static void check_values(const char *text)
{
    static const char *const names[] = {"oom_kill", "high", "inactive_file", "some"};
    char line[64];
    uint64_t value;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        snprintf(line, sizeof(line), "%s ", names[i]);
        check(!cgroup_counter(text, names[i], &value) || strstr(text, line) != NULL);
    }
    if (cgroup_amount(text, &value))
        check(isdigit((unsigned char)text[strspn(text, " \t\n+")]) || value == CGROUP_UNLIMITED);
}

static void check_process(char *text, const char *copy)
{
    struct process_cgroup cgroup;
    process_cgroup_parse(&cgroup, text);
    size_t length = strlen(cgroup.container);
    check(strlen(cgroup.path) < sizeof(cgroup.path) && strstr(copy, cgroup.path) != NULL);
    check(strlen(cgroup.unit) < sizeof(cgroup.unit) && strstr(cgroup.path, cgroup.unit) != NULL);
    check(length == 0 || length == PROCESS_CONTAINER_BYTES - 1);
    check(strstr(cgroup.path, cgroup.container) != NULL);
    for (size_t i = 0; i < length; i++)
        check(isxdigit((unsigned char)cgroup.container[i]));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cgroup_mounts mounts = {0};
    char *copies[3];
    for (size_t i = 0; i < 3; i++) {
        check((copies[i] = malloc(size + 1)) != NULL);
        memcpy(copies[i], data, size);
        copies[i][size] = 0;
    }
    check_mounts(copies[0], &mounts);
    check_paths(copies[2], &mounts);
    check_values(copies[2]);
    check_process(copies[1], copies[2]);
    for (size_t i = 0; i < 3; i++)
        free(copies[i]);
    return 0;
}
