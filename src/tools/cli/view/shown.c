/* SPDX-License-Identifier: Apache-2.0 */
/* Replaces the server's profiles. */
#include "tools/cli/view/shown.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "tools/cli/files/output_directory.h"
#include "util/clock.h"
#include "util/regular_file.h"
#include "util/xmalloc.h"

void shown_begin(struct shown *shown, struct watched *watched)
{
    *shown = (struct shown){.watched = *watched};
    pthread_mutex_init(&shown->lock, NULL);
    *watched = (struct watched){0};
}

void shown_set_server(struct shown *shown, struct view_server *server)
{
    pthread_mutex_lock(&shown->lock);
    shown->server = server;
    pthread_mutex_unlock(&shown->lock);
}

void shown_end(struct shown *shown)
{
    watched_clear(&shown->watched);
    pthread_mutex_destroy(&shown->lock);
}

/* Spend at most a quarter of the time on reading. On failure, keep what is shown: the recording is
 * perhaps being finished. */
void shown_refresh(struct shown *shown)
{
    struct error error = {0};
    if (pthread_mutex_trylock(&shown->lock) != 0)
        return;
    if (clock_read_ns(CLOCK_MONOTONIC) >= shown->next_ns && watched_have_changed(&shown->watched)) {
        struct view_profiles *profiles = watched_read(&shown->watched, false, &error);
        if (profiles != NULL)
            view_server_replace(shown->server, profiles);
        shown->next_ns = clock_read_ns(CLOCK_MONOTONIC) + 3 * shown->watched.read_ns;
    }
    pthread_mutex_unlock(&shown->lock);
}

/* Add a path that the page names. It leads to a file that can be read to its end: a pipe or a file
 * of /proc may never end. */
static int shown_add(struct watched *watched, const char *path, struct error *error)
{
    char trace[PATH_MAX];
    struct stat status;
    if (*path != '/')
        return error_set(error, -EINVAL, "'%.200s' is no absolute path", path);
    int code = output_find_trace(path, trace, error);
    if (code < 0)
        return code;
    int fd = regular_file_open(trace, &status);
    if (fd == -EINVAL)
        return error_set(error, -EINVAL, "'%.200s' is neither a file nor a directory", path);
    if (fd < 0)
        return error_set(error, fd, "cannot open '%.200s': %s", trace, strerror(-fd));
    close(fd);
    const char *name = strrchr(trace, '/') + 1;
    if (status.st_size == 0 && strcmp(name, "raw-trace") != 0)
        return error_set(error, -EINVAL, "'%.200s' is empty", trace);
    return watched_add(watched, path, error);
}

static int shown_fill(struct watched *next, const struct watched *before, const char *const *paths,
                      size_t count, struct error *error)
{
    int code = 0;
    for (size_t i = 0; i < before->count && code == 0; i++)
        code = watched_add(next, before->paths[i], error);
    for (size_t i = 0; i < count && code == 0; i++)
        code = shown_add(next, paths[i], error);
    return code;
}

int shown_open(struct shown *shown, const char *const *paths, size_t count, bool adds,
               const bool *native, struct error *error)
{
    static const struct watched nothing;
    struct watched next = {0};
    pthread_mutex_lock(&shown->lock);
    next.native = native != NULL ? *native : shown->watched.native;
    if (shown->watched.budgets != NULL)
        next.budgets = xstrdup(shown->watched.budgets);
    int code = shown_fill(&next, adds ? &shown->watched : &nothing, paths, count, error);
    struct view_profiles *profiles = code < 0 ? NULL : watched_read(&next, false, error);
    if (profiles != NULL) {
        watched_clear(&shown->watched);
        shown->watched = next;
        shown->next_ns = 0;
        view_server_replace(shown->server, profiles);
    } else {
        code = error->code;
        watched_clear(&next);
    }
    pthread_mutex_unlock(&shown->lock);
    return code;
}
