/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers with the selection as a file of another format. Filters change a profile, so the profile
 * is read again for them.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "export/collapsed.h"
#include "export/pprof.h"
#include "export/speedscope.h"
#include "import/import.h"
#include "util/base_name.h"
#include "view/answers.h"

#define COPY_BYTES 65536

/* Copy a file from its beginning. Return 0 or a negative errno. */
static int copy(int fd, FILE *out)
{
    char buffer[COPY_BYTES];
    ssize_t length;
    off_t at = 0;
    while ((length = pread(fd, buffer, sizeof(buffer), at)) > 0) {
        fwrite(buffer, 1, (size_t)length, out);
        at += length;
    }
    return length < 0 ? -errno : 0;
}

static int write_pprof(const struct profile *profile, const struct export_dump *chosen, FILE *out,
                       struct error *error)
{
    static const struct pprof_options options = {.gzip = true};
    int fd = memfd_create("pprof", MFD_CLOEXEC);
    if (fd < 0)
        return error_set(error, -errno, "no room for the pprof file: %s", strerror(errno));
    int code = pprof_write(profile, chosen->heap, chosen->dump, &options, fd, error);
    if (code == 0 && (code = copy(fd, out)) < 0)
        error_set(error, code, "cannot read the pprof file back: %s", strerror(-code));
    close(fd);
    return code;
}

static int write_format(const char *format, const struct profile *profile,
                        const struct export_dump *chosen, enum export_view view, const char *name,
                        FILE *out, struct error *error)
{
    int64_t written;
    if (strcmp(format, "pprof") == 0)
        return write_pprof(profile, chosen, out, error);
    if (strcmp(format, "collapsed") == 0)
        written = collapsed_write(profile, chosen, 1, view, out);
    else
        written = speedscope_write(profile, chosen, 1, name, out);
    return written < 0 ? error_set(error, (int)written, "not enough memory for the file") : 0;
}

/* A profile's own filters join patterns of one kind by "or", the page's by "and". */
static bool joins_alike(const struct profile_filter *filter)
{
    size_t counts[PROFILE_FILTER_KINDS] = {0};
    for (size_t i = 0; i < filter->count; i++)
        counts[filter->patterns[i].kind]++;
    return counts[PROFILE_FOCUS] <= 1 && counts[PROFILE_SHOW_FROM] <= 1;
}

static int write_selection(const struct view_selection *selection, const char *format, FILE *out,
                           struct error *error)
{
    const struct view_profile *of = selection->at.of;
    const struct profile_read_options reading = {.demangling = DEMANGLE_FULL,
                                                 .filter = &selection->filter};
    struct export_dump chosen = selection->at.dump;
    if (selection->filter.count == 0) {
        chosen.dump = view_shown(selection, &selection->at);
        return write_format(format, of->profile, &chosen, selection->view, base_name(of->path), out,
                            error);
    }
    size_t heap = (size_t)(chosen.heap - of->profile->heaps),
           dump = (size_t)(chosen.dump - chosen.heap->dumps);
    struct profile *filtered = import_profile(of->path, &reading, error);
    if (filtered == NULL)
        return error->code;
    int code;
    if (heap >= filtered->heap_count || dump >= filtered->heaps[heap].dump_count) {
        code = error_set(error, -ENOENT, "'%s' has changed; reload the page", of->path);
    } else {
        chosen.heap = &filtered->heaps[heap];
        chosen.dump = &chosen.heap->dumps[dump];
        code = write_format(format, filtered, &chosen, selection->view, base_name(of->path), out,
                            error);
    }
    profile_free(filtered);
    return code;
}

int answer_export(struct view_profiles *profiles, const struct view_parameters *parameters,
                  FILE *out, struct error *error)
{
    static const char *const formats[] = {"pprof", "collapsed", "speedscope"};
    const char *format = view_parameter(parameters, "format");
    struct view_selection selection;
    bool known = false;
    for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]) && format != NULL; i++)
        known |= strcmp(format, formats[i]) == 0;
    if (!known)
        return error_set(error, -EINVAL, "format is pprof, collapsed or speedscope");
    int code = view_selection_parse(&selection, profiles, parameters, error);
    if (code == 0 && view_selection_is_difference(&selection))
        code = error_set(error, -EINVAL,
                         "a file has one dump: for a difference, use heap_profile "
                         "diff --pprof");
    if (code == 0 && !joins_alike(&selection.filter))
        code = error_set(error, -EINVAL,
                         "a file can have one filter 'stack has' and one 'from "
                         "frame'");
    if (code == 0 && selection.filter.count > 0 && selection.only.count > 0)
        code = error_set(error, -EINVAL,
                         "a file can have filters, or a part by thread, type and so on, but not "
                         "both: take one of them back");
    if (code == 0)
        code = write_selection(&selection, format, out, error);
    view_selection_clear(&selection);
    return code;
}
