/* SPDX-License-Identifier: Apache-2.0 */
/* List the directory by the names that the sink gives. */
#include "tools/cli/oom/period_files.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/xmalloc.h"

#define PERIOD_SUFFIX ".pb.gz"
#define END_SUFFIX ".end.pb.gz"

static bool ends_in(const char *name, const char *suffix)
{
    size_t length = strlen(name), suffix_length = strlen(suffix);
    return length > suffix_length && strcmp(name + length - suffix_length, suffix) == 0;
}

static int is_period(const struct dirent *entry)
{
    return ends_in(entry->d_name, PERIOD_SUFFIX);
}

int period_files_find(struct period_files *files, const char *directory)
{
    struct dirent **entries = NULL;
    *files = (struct period_files){0};
    /* Names begin with the time. */
    int count = scandir(directory, &entries, is_period, alphasort);
    if (count < 0)
        return -errno;
    unsigned found = (unsigned)count;
    files->paths = xcalloc(found + 1, sizeof(*files->paths));
    for (unsigned i = 0; i < found; i++) {
        if (ends_in(entries[i]->d_name, END_SUFFIX))
            files->paths[files->count++] = xasprintf("%s/%s", directory, entries[i]->d_name);
        free(entries[i]);
    }
    free(entries);
    return found == 0 ? -ENOENT : 0;
}

void period_files_clear(struct period_files *files)
{
    for (size_t i = 0; i < files->count; i++)
        free(files->paths[i]);
    free(files->paths);
    *files = (struct period_files){0};
}
