/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the pprof file to a file in memory, because export/pprof writes to descriptors. */
#include "production/sinks/period_pprof.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/write_all.h"

static int read_back(struct period_pprof *made, int fd)
{
    struct stat status;
    if (fstat(fd, &status) < 0 || lseek(fd, 0, SEEK_SET) < 0)
        return -errno;
    made->length = (size_t)status.st_size;
    made->bytes = malloc(made->length + 1);
    return made->bytes == NULL ? -ENOMEM : read_all(fd, made->bytes, made->length);
}

static void free_comments(char **comments)
{
    for (char **comment = comments; comment != NULL && *comment != NULL; comment++)
        free(*comment);
    free(comments);
}

/* Return the labels as comments, NULL at the end; without memory NULL. */
static char **comments_of(const struct period *period)
{
    char **comments = calloc(period->label_count + 1, sizeof(*comments));
    for (size_t i = 0; comments != NULL && i < period->label_count; i++) {
        const struct period_label *label = &period->labels[i];
        if (asprintf(&comments[i], "label %s: %s", label->name, label->value) < 0) {
            comments[i] = NULL;
            free_comments(comments);
            return NULL;
        }
    }
    return comments;
}

int period_pprof_make(struct period_pprof *made, const struct period *period,
                      struct pprof_period file, struct error *error)
{
    file.start_ns = period->start_ns;
    file.end_ns = period->end_ns;
    file.interval_bytes = period->interval_bytes;
    file.end_reason = period->is_final ? period->end_reason : "";
    const struct pprof_options options = {.gzip = true, .period = &file};
    *made = (struct period_pprof){0};
    /* A store gets the labels beside the file. */
    char **comments = file.for_others ? NULL : comments_of(period);
    if (comments == NULL && !file.for_others)
        return error_set(error, -ENOMEM, "no memory for a pprof file");
    file.comments = (const char *const *)comments;
    int fd = memfd_create("period", MFD_CLOEXEC);
    int code = fd < 0
                   ? error_set(error, -errno, "no memory for a pprof file: %s", strerror(errno))
                   : pprof_write(period->profile, period->heap, period->dump, &options, fd, error);
    free_comments(comments);
    if (fd < 0)
        return code;
    if (code == 0 && (code = read_back(made, fd)) < 0) {
        period_pprof_free(made);
        error_set(error, code, "no memory for a pprof file: %s", strerror(-code));
    }
    close(fd);
    return code;
}

void period_pprof_free(struct period_pprof *made)
{
    free(made->bytes);
    *made = (struct period_pprof){0};
}

const char *period_label(const struct period *period, const char *name, const char *fallback)
{
    for (size_t i = 0; i < period->label_count; i++) {
        if (strcmp(period->labels[i].name, name) == 0)
            return period->labels[i].value;
    }
    return fallback;
}
