/* SPDX-License-Identifier: Apache-2.0 */
/* Prints progress lines on a terminal, at most five times a second. */
#include "tools/print/progress.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "profile/import/import.h"
#include "tools/print/format.h"

#define UPDATE_NS INT64_C(200000000)

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

struct progress progress_begin(const char *path, bool writes)
{
    struct stat info;
    struct progress progress = {.is_shown =
                                    isatty(STDERR_FILENO) && !(writes && isatty(STDOUT_FILENO)),
                                .doing = "",
                                .shown_ns = now_ns()};
    if (strcmp(path, "-") != 0 && stat(path, &info) == 0 && S_ISREG(info.st_mode))
        progress.total = (uint64_t)info.st_size;
    return progress;
}

/* Return whether the next report is due. */
static bool is_due(struct progress *progress)
{
    int64_t now = progress->is_shown ? now_ns() : 0;
    if (!progress->is_shown || now - progress->shown_ns < UPDATE_NS)
        return false;
    progress->shown_ns = now;
    progress->has_shown = true;
    return true;
}

void progress_show_bytes(void *context, uint64_t bytes)
{
    struct progress *progress = context;
    if (!is_due(progress))
        return;
    /* A packed file unpacks to more than its size. */
    if (bytes <= progress->total)
        fprintf(stderr, "\r%s%.0f of %.0f MB \b", progress->doing, (double)bytes / 1e6,
                (double)progress->total / 1e6);
    else
        fprintf(stderr, "\r%s%.0f MB          \b", progress->doing, (double)bytes / 1e6);
}

void progress_show_written(void *context, uint64_t bytes)
{
    if (is_due(context))
        fprintf(stderr, "\r%.0f MB written   \b", (double)bytes / 1e6);
}

void progress_show_lines(void *context, const char *path, size_t lines)
{
    if (!is_due(context))
        return;
    fputs("\r\033[K", stderr);
    format_printf(stderr, "%.60s: %zu lines", path, lines);
}

void progress_show_profiles(void *context, size_t files, size_t all)
{
    if (is_due(context))
        fprintf(stderr, "\r\033[Kwriting the profiles: %zu of %zu files", files, all);
}

void progress_show_files(void *context, size_t files, size_t all)
{
    if (is_due(context))
        fprintf(stderr, "\r%zu of %zu files      \b", files, all);
}

void progress_end(const struct progress *progress)
{
    if (progress->has_shown)
        fputs("\r\033[K", stderr);
}

struct profile *progress_import(const char *path, const struct profile_read_options *options,
                                struct error *error)
{
    struct progress shown = progress_begin(path, false);
    struct profile_read_options telling = {.demangling = DEMANGLE_FULL};
    if (options != NULL)
        telling = *options;
    telling.tell = progress_show_bytes;
    telling.tell_context = &shown;
    struct profile *profile = import_profile(path, &telling, error);
    progress_end(&shown);
    return profile;
}
