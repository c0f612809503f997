/* SPDX-License-Identifier: Apache-2.0 */
/* Reads profiles, once and again. */
#include "tools/cli/view/watched.h"

#include <errno.h>
#include <limits.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "profile/import/import.h"
#include "tools/cli/files/output_directory.h"
#include "tools/print/progress.h"
#include "util/clock.h"
#include "util/xmalloc.h"

static struct watched_file state_of(const char *path)
{
    struct stat status;
    if (stat(path, &status) < 0)
        return (struct watched_file){0};
    return (struct watched_file){status.st_dev, status.st_ino, status.st_size, status.st_mtim};
}

static bool is_same(const struct watched_file *one, const struct watched_file *other)
{
    return one->device == other->device && one->inode == other->inode && one->size == other->size &&
           one->changed.tv_sec == other->changed.tv_sec &&
           one->changed.tv_nsec == other->changed.tv_nsec;
}

int watched_add(struct watched *watched, const char *path, struct error *error)
{
    if (watched->count == VIEW_PROFILES_MAX)
        return error_set(error, -E2BIG, "the page shows at most %u profiles", VIEW_PROFILES_MAX);
    watched->paths[watched->count++] = path == NULL ? NULL : xstrdup(path);
    return 0;
}

void watched_clear(struct watched *watched)
{
    for (size_t i = 0; i < watched->count; i++)
        free(watched->paths[i]);
    free(watched->budgets);
    *watched = (struct watched){0};
}

/* Return whether a recording has begun this file and has written nothing yet. */
static bool has_just_begun(const char *path, const struct watched_file *file)
{
    const char *slash = strrchr(path, '/');
    return file->inode != 0 && file->size == 0 && slash != NULL && strcmp(slash, "/raw-trace") == 0;
}

static int add(struct watched *watched, size_t index, struct view_profiles *profiles,
               bool shows_progress, struct error *error)
{
    /* A user may name a pipe, and can end the wait for it: not so once the page is served. */
    static const struct profile_filter native = {.native = true};
    const struct profile_read_options reading = {.filter = watched->native ? &native : NULL,
                                                 .demangling = DEMANGLE_FULL,
                                                 .only_regular = !shows_progress};
    char path[PATH_MAX];
    int code = output_find_trace(watched->paths[index], path, error);
    if (code < 0)
        return code;
    if (strcmp(path, "-") == 0)
        return error_set(error, -EINVAL, "view reads files: the page asks for them again");
    /* What is written while the file is read counts as a change. */
    watched->files[index] = state_of(path);
    if (has_just_begun(path, &watched->files[index]))
        return 0;
    struct profile *profile = shows_progress ? progress_import(path, &reading, error)
                                             : import_profile(path, &reading, error);
    /* Reading needs more memory than the profile, which stays as long as the server. */
    malloc_trim(0);
    return profile == NULL ? error->code : view_profiles_add(profiles, path, profile, error);
}

struct view_profiles *watched_read(struct watched *watched, bool shows_progress,
                                   struct error *error)
{
    struct view_profiles *profiles = xcalloc(1, sizeof(*profiles));
    uint64_t begin = clock_read_ns(CLOCK_MONOTONIC);
    int code = 0;
    profiles->native = watched->native;
    profiles->budgets = watched->budgets == NULL ? NULL : xstrdup(watched->budgets);
    for (size_t i = 0; i < watched->count && code == 0; i++)
        code = add(watched, i, profiles, shows_progress, error);
    if (code == 0)
        view_profiles_link(profiles);
    watched->read_ns = clock_read_ns(CLOCK_MONOTONIC) - begin;
    if (code == 0)
        return profiles;
    view_profiles_free(profiles);
    free(profiles);
    return NULL;
}

bool watched_have_changed(const struct watched *watched)
{
    char path[PATH_MAX];
    for (size_t i = 0; i < watched->count; i++) {
        if (output_find_trace(watched->paths[i], path, NULL) < 0)
            continue;
        struct watched_file now = state_of(path);
        if (!is_same(&now, &watched->files[i]))
            return true;
    }
    return false;
}
