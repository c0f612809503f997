/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers with the selection as a file of another format. Filters change a profile, so the profile
 * is read again for them.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "profile/import/import.h"
#include "tools/export/collapsed.h"
#include "tools/export/diff_pprof.h"
#include "tools/export/pprof.h"
#include "tools/export/speedscope.h"
#include "tools/view/answers/answers.h"
#include "tools/view/answers/export_json.h"
#include "util/base_name.h"
#include "util/xmalloc.h"

#define COPY_BYTES 65536

/* Copy a file from its beginning. Return 0 or a negative errno. */
static int answer_export_copy(int fd, FILE *out)
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

/* Both writers of pprof need a file that they can seek in. */
static int open_pprof(struct error *error)
{
    int fd = memfd_create("pprof", MFD_CLOEXEC);
    return fd < 0 ? error_set(error, -errno, "no room for the pprof file: %s", strerror(errno))
                  : fd;
}

/* Copy the pprof file to `out`, unless writing it has failed with `code`, and close it. */
static int close_pprof(int fd, int code, FILE *out, struct error *error)
{
    if (code == 0 && (code = answer_export_copy(fd, out)) < 0)
        error_set(error, code, "cannot read the pprof file back: %s", strerror(-code));
    close(fd);
    return code;
}

static int write_pprof(const struct profile *profile, const struct export_dump *chosen, FILE *out,
                       struct error *error)
{
    static const struct pprof_options options = {.gzip = true};
    int fd = open_pprof(error);
    if (fd < 0)
        return fd;
    int code = pprof_write(profile, chosen->heap, chosen->dump, &options, fd, error);
    return close_pprof(fd, code, out, error);
}

static int write_format(const char *format, const struct profile *profile,
                        const struct export_dump *chosen, enum export_view view, const char *name,
                        FILE *out, struct error *error)
{
    if (strcmp(format, "pprof") == 0)
        return write_pprof(profile, chosen, out, error);
    if (strcmp(format, "collapsed") == 0)
        collapsed_write(profile, chosen, 1, view, out);
    else
        speedscope_write(profile, chosen, 1, name, out);
    return 0;
}

/* A profile's own filters join patterns of one kind by "or", the page's by "and". */
static bool joins_alike(const struct profile_filter *filter)
{
    size_t counts[PROFILE_FILTER_KINDS] = {0};
    for (size_t i = 0; i < filter->count; i++)
        counts[filter->patterns[i].kind]++;
    return counts[PROFILE_FOCUS] <= 1 && counts[PROFILE_SHOW_FROM] <= 1;
}

/* --- a selection with filters --- */

/* One side of the selection as files have it: of a profile that was read with the filters. */
struct side {
    const struct profile *profile;
    struct profile *read; /* owned; NULL: another has it */
    struct export_dump dump;
};

/* Take a side. `other`: may have the same profile with the filters; NULL: none. */
static int take_side(struct side *side, const struct view_dump *from, const struct side *other,
                     const struct view_selection *selection, struct error *error)
{
    const struct profile_read_options reading = {
        .demangling = DEMANGLE_FULL, .filter = &selection->filter, .only_regular = true};
    const struct view_profile *of = from->of;
    *side = (struct side){.profile = of->profile, .dump = from->dump};
    if (selection->filter.count == 0) {
        side->dump.dump = view_shown(selection, from);
        return 0;
    }
    size_t heap = (size_t)(from->dump.heap - of->profile->heaps),
           dump = (size_t)(from->dump.dump - from->dump.heap->dumps);
    if (other != NULL && selection->base.of == selection->at.of)
        side->profile = other->profile;
    else
        side->profile = side->read = import_profile(of->path, &reading, error);
    if (side->profile == NULL)
        return error->code;
    if (heap >= side->profile->heap_count || dump >= side->profile->heaps[heap].dump_count)
        return error_set(error, -ENOENT, "'%s' has changed; reload the page", of->path);
    side->dump.heap = &side->profile->heaps[heap];
    side->dump.dump = &side->dump.heap->dumps[dump];
    return 0;
}

static int write_pprof_of_difference(const struct side *base, const struct side *at, FILE *out,
                                     struct error *error)
{
    const struct diff_side before = {base->profile, &base->dump, 1},
                           after = {at->profile, &at->dump, 1};
    const struct diff_options options = {.by = DIMENSION_CALLSITE, .lines = true};
    int fd = open_pprof(error);
    if (fd < 0)
        return fd;
    struct diff *diff = xmalloc_made(diff_new(&before, &after, &options));
    int code =
        diff_pprof_write(diff, &before, &after, "heap_profile view: a difference", true, fd, error);
    diff_free(diff);
    return close_pprof(fd, code, out, error);
}

/* --- */

static int write_dump(const struct view_selection *selection, const char *format, FILE *out,
                      struct error *error)
{
    struct side at;
    int code = take_side(&at, &selection->at, NULL, selection, error);
    if (code == 0)
        code = write_format(format, at.profile, &at.dump, selection->view,
                            base_name(selection->at.of->path), out, error);
    profile_free(at.read);
    return code;
}

static int write_difference(const struct view_selection *selection, FILE *out, struct error *error)
{
    struct side at, base = {.read = NULL};
    int code = take_side(&at, &selection->at, NULL, selection, error);
    if (code == 0)
        code = take_side(&base, &selection->base, &at, selection, error);
    if (code == 0)
        code = write_pprof_of_difference(&base, &at, out, error);
    profile_free(at.read);
    profile_free(base.read);
    return code;
}

int answer_export(struct view_profiles *profiles, const struct view_parameters *parameters,
                  FILE *out, struct error *error)
{
    static const char *const formats[] = {"pprof", "collapsed", "speedscope", "json"};
    const char *format = view_parameter(parameters, "format");
    struct view_selection selection;
    bool known = false;
    for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]) && format != NULL; i++)
        known |= strcmp(format, formats[i]) == 0;
    if (!known)
        return error_set(error, -EINVAL, "format is pprof, collapsed, speedscope or json");
    if (view_parameter(parameters, "group") != NULL)
        return error_set(error, -EINVAL, "a file has no groups: export one part of the graph");
    if (view_parameter(parameters, "retained") != NULL)
        return error_set(error, -EINVAL,
                         "a file has one figure of each stack, and not the two bounds of what was "
                         "retained: choose SVG");
    if (strcmp(format, "json") == 0)
        return export_json(profiles, parameters, out, error);
    int code = view_selection_parse(&selection, profiles, parameters, error);
    bool is_difference = view_selection_is_difference(&selection);
    if (code == 0 && is_difference && strcmp(format, "pprof") != 0)
        code = error_set(error, -EINVAL,
                         "collapsed stacks and Speedscope's files cannot have a difference: choose "
                         "pprof, JSON or SVG");
    if (code == 0 && !joins_alike(&selection.filter))
        code = error_set(error, -EINVAL,
                         "a file can have one filter 'stack has' and one 'from frame': choose JSON "
                         "or SVG");
    if (code == 0 && selection.filter.count > 0 && selection.only.count > 0)
        code = error_set(error, -EINVAL,
                         "a file can have filters, or a part by thread, type and so on, but not "
                         "both: take one of them back, or choose JSON or SVG");
    if (code == 0)
        code = is_difference ? write_difference(&selection, out, error)
                             : write_dump(&selection, format, out, error);
    view_selection_clear(&selection);
    return code;
}
