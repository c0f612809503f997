/* SPDX-License-Identifier: Apache-2.0 */
/* Profiles by their paths, and whether their files have changed since they were read: those of a
 * recording that goes on do. */
#ifndef HEAPPROFD_TOOLS_CLI_VIEW_WATCHED_H
#define HEAPPROFD_TOOLS_CLI_VIEW_WATCHED_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "tools/view/model/profiles.h"
#include "util/error.h"

struct watched {
    char *paths[VIEW_PROFILES_MAX]; /* DIR or FILE; owned. NULL: the latest profile */
    size_t count;
    bool native;   /* with the interpreters' own frames */
    char *budgets; /* the text of a file of budgets; owned. NULL: none */
    struct watched_file {
        dev_t device;
        ino_t inode;
        off_t size;
        struct timespec changed;
    } files[VIEW_PROFILES_MAX];
    uint64_t read_ns; /* how long reading took */
};

/* Add a path, which is copied. Return 0, or -E2BIG with *error set. */
int watched_add(struct watched *watched, const char *path, struct error *error);
void watched_clear(struct watched *watched);

/* Read all profiles, except those whose recording has written nothing yet. `shows_progress`: on the
 * terminal. Return NULL with *error set on failure. */
struct view_profiles *watched_read(struct watched *watched, bool shows_progress,
                                   struct error *error);
/* Return whether a file differs from what was read. */
bool watched_have_changed(const struct watched *watched);

#endif
