/* SPDX-License-Identifier: Apache-2.0 */
/* Read the files of a cgroup. Each is opened again: it may vanish, and a descriptor would keep the
 * cgroup. */
#include "recorder/cgroups/memory_cgroup.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "util/process_files.h"

/* memory.stat has about 2 KiB, /proc/vmstat 5. What is longer is cut. */
#define FILE_BYTES 16384u
/* How long the highest reading holds. */
#define MOST_HOLDS_MS 5000u

static struct memory_cgroup *make(int directory, const char *path)
{
    struct memory_cgroup *cgroup = calloc(1, sizeof(*cgroup));
    char *copy = strdup(path);
    if (cgroup == NULL || copy == NULL) {
        free(cgroup);
        free(copy);
        return NULL;
    }
    *cgroup = (struct memory_cgroup){.directory = directory,
                                     .path = copy,
                                     .limit_bytes = CGROUP_UNLIMITED,
                                     .high_bytes = CGROUP_UNLIMITED,
                                     .events = -1,
                                     .pressure = -1};
    return cgroup;
}

struct memory_cgroup *memory_cgroup_open(const char *directory, const char *path, bool is_v1)
{
    int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return NULL;
    struct memory_cgroup *cgroup = make(fd, path);
    if (cgroup == NULL)
        close(fd);
    else
        cgroup->is_v1 = is_v1;
    return cgroup;
}

struct memory_cgroup *memory_cgroup_open_machine(void)
{
    struct memory_cgroup *cgroup = make(-1, "");
    if (cgroup != NULL)
        cgroup->is_machine = true;
    return cgroup;
}

void memory_cgroup_close(struct memory_cgroup *cgroup)
{
    const int descriptors[] = {cgroup->directory, cgroup->events, cgroup->pressure};
    for (size_t i = 0; i < sizeof(descriptors) / sizeof(descriptors[0]); i++)
        if (descriptors[i] >= 0)
            close(descriptors[i]);
    free(cgroup->path);
    free(cgroup);
}

static bool read_amount(const struct memory_cgroup *cgroup, const char *name, uint64_t *bytes)
{
    char text[64];
    return !cgroup->is_machine &&
           process_directory_read(cgroup->directory, name, text, sizeof(text)) > 0 &&
           cgroup_amount(text, bytes);
}

void memory_cgroup_read_limits(struct memory_cgroup *cgroup)
{
    if (!read_amount(cgroup, cgroup->is_v1 ? "memory.limit_in_bytes" : "memory.max",
                     &cgroup->limit_bytes))
        cgroup->limit_bytes = CGROUP_UNLIMITED;
    if (cgroup->is_v1 || !read_amount(cgroup, "memory.high", &cgroup->high_bytes))
        cgroup->high_bytes = CGROUP_UNLIMITED;
}

/* Return the bytes that are cache of files; 0: unknown. */
static uint64_t read_cache(const struct memory_cgroup *cgroup)
{
    char text[FILE_BYTES];
    uint64_t inactive = 0, active = 0;
    if (process_directory_read(cgroup->directory, "memory.stat", text, sizeof(text)) <= 0)
        return 0;
    /* Version 1 has a sum over the cgroups below beside its own figures. */
    cgroup_counter(text, cgroup->is_v1 ? "total_inactive_file" : "inactive_file", &inactive);
    cgroup_counter(text, cgroup->is_v1 ? "total_active_file" : "active_file", &active);
    return inactive + active;
}

void memory_cgroup_read_use(struct memory_cgroup *cgroup, uint64_t interesting_bytes,
                            uint64_t now_ms)
{
    uint64_t used;
    if (!read_amount(cgroup, cgroup->is_v1 ? "memory.usage_in_bytes" : "memory.current", &used) ||
        used == CGROUP_UNLIMITED)
        return;
    uint64_t cache = used >= interesting_bytes ? read_cache(cgroup) : 0;
    cgroup->used_bytes = used;
    cgroup->held_bytes = used > cache ? used - cache : 0;
    if (used >= cgroup->most_bytes || now_ms > cgroup->most_ms + MOST_HOLDS_MS) {
        cgroup->most_bytes = used;
        cgroup->most_ms = now_ms;
    }
}

void memory_cgroup_read_kills(struct memory_cgroup *cgroup, uint64_t now_ms)
{
    char text[FILE_BYTES];
    uint64_t kills;
    /* memory.events counts those of the cgroups below, too; memory.events.local is newer (Linux
     * 5.2). */
    ssize_t got =
        cgroup->is_machine ? process_directory_read(AT_FDCWD, "/proc/vmstat", text, sizeof(text))
        : cgroup->is_v1
            ? process_directory_read(cgroup->directory, "memory.oom_control", text, sizeof(text))
            : process_directory_read(cgroup->directory, "memory.events.local", text, sizeof(text));
    if (got < 0 && !cgroup->is_machine && !cgroup->is_v1)
        got = process_directory_read(cgroup->directory, "memory.events", text, sizeof(text));
    if (got <= 0 || !cgroup_counter(text, "oom_kill", &kills))
        return;
    if (cgroup->has_kills && kills > cgroup->kills)
        cgroup->rose_ms = now_ms;
    cgroup->kills = kills;
    cgroup->has_kills = true;
}

uint64_t memory_cgroup_peak(const struct memory_cgroup *cgroup)
{
    uint64_t peak;
    bool is_known =
        read_amount(cgroup, cgroup->is_v1 ? "memory.max_usage_in_bytes" : "memory.peak", &peak);
    return is_known && peak != CGROUP_UNLIMITED ? peak : 0;
}
