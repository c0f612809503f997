/* SPDX-License-Identifier: Apache-2.0 */
/* Parses TRACE@DUMP arguments, reads the profiles and chooses their dumps. */
#include "tools/cli/compare/compare_source.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tools/cli/files/output_directory.h"
#include "tools/cli/options/parse.h"
#include "tools/print/format.h"
#include "tools/print/progress.h"
#include "util/regular_file.h"
#include "util/units.h"
#include "util/xmalloc.h"

/* Parse the number, time or word after the '@'. Return false if it is invalid. */
static bool parse_dump(const char *text, struct compare_source *source)
{
    char *end;
    if (strcmp(text, "last") == 0 || strcmp(text, "final") == 0) {
        source->which = COMPARE_LAST;
        source->is_final = *text == 'f';
        return true;
    }
    if (strcmp(text, "max") == 0) {
        source->which = COMPARE_MAX;
        return true;
    }
    if (*text < '0' || *text > '9')
        return false;
    errno = 0;
    double value = strtod(text, &end);
    if (errno != 0 || !isfinite(value) || value > 1e9)
        return false;
    double unit_ms = time_unit_ms(end);
    if (unit_ms > 0) {
        source->which = COMPARE_TIME;
        source->offset_ns = (uint64_t)(value * unit_ms * 1e6);
        return true;
    }
    source->which = COMPARE_NUMBER;
    source->number = (uint64_t)value;
    return *end == '\0' && value >= 1 && value == floor(value);
}

int compare_source_parse(const char *argument, struct compare_source *source, struct error *error)
{
    const char *at = argument != NULL ? strrchr(argument, '@') : NULL;
    struct stat info;
    *source = (struct compare_source){.argument = argument != NULL ? argument : "the latest"};
    /* A file's own name may contain '@'. */
    if (at == NULL || stat(argument, &info) == 0)
        return output_find_trace(argument, source->path, error);
    if (!parse_dump(at + 1, source))
        return error_set(error, -EINVAL,
                         "%s: @ needs the number of a dump (@2), a time (@12.5s), max or last",
                         argument);
    char *name = xmalloc_made(strndup(argument, (size_t)(at - argument)));
    int code = output_find_trace(*name != '\0' ? name : NULL, source->path, error);
    free(name);
    return code;
}

int compare_sources_read(struct compare_source sources[2],
                         const struct profile_read_options *options, struct error *error)
{
    sources[0].profile = progress_import(sources[0].path, options, error);
    if (sources[0].profile == NULL)
        return error->code;
    sources[1].profile = regular_file_is_same(sources[0].path, sources[1].path)
                             ? sources[0].profile
                             : progress_import(sources[1].path, options, error);
    return sources[1].profile == NULL ? error->code : 0;
}

int compare_sources_check_size(const struct compare_source sources[2], bool whole_stacks,
                               struct error *error)
{
    struct export_callers callers = {0};
    struct error problem;
    uint64_t frames = 0;
    int code = 0;
    for (int i = 0; i < 2; i++)
        for (size_t j = 0; j < sources[i].dump_count && code == 0; j++) {
            const struct profile_dump *dump = sources[i].dumps[j].dump;
            code = whole_stacks ? export_count_frames(sources[i].profile, dump, &frames, &problem)
                                : export_callers_add(&callers, sources[i].profile, dump, &problem);
            if (code < 0)
                error_set(error, problem.code, "%.150s: %.300s", sources[i].argument,
                          problem.message);
        }
    export_callers_clear(&callers);
    return code;
}

void compare_source_warn(const struct compare_source *source)
{
    if (source->profile != NULL && *source->profile->warning != '\0')
        format_printf(stderr, "heap_profile: %s: %s\n", source->argument, source->profile->warning);
}

void compare_sources_warn(const struct compare_source sources[2])
{
    compare_source_warn(&sources[0]);
    if (sources[0].profile != sources[1].profile)
        compare_source_warn(&sources[1]);
}

void compare_sources_close(struct compare_source sources[2])
{
    if (sources[1].profile != sources[0].profile)
        profile_free(sources[1].profile);
    profile_free(sources[0].profile);
    free(sources[0].dumps);
    free(sources[1].dumps);
}

bool take_compare_pids(void *member, const char *name, const char *value)
{
    (void)name;
    struct compare_pids *pids = member;
    uint64_t *numbers = NULL;
    size_t count = 0;
    bool good = parse_pids(value, &numbers, &count);
    if (good && (count > 2 || numbers[0] > INT32_MAX || numbers[count - 1] > INT32_MAX)) {
        fputs("heap_profile: --pid takes a process, or one before and one after\n", stderr);
        good = false;
    }
    for (size_t i = 0; i < 2 && good; i++)
        pids->of[i] = (int32_t)numbers[i < count ? i : 0];
    free(numbers);
    return good;
}

static double live_of(const struct profile_dump *dump)
{
    return rollup_live_bytes(&dump->total);
}

bool compare_is_freed_at_end(const struct profile_heap *heap)
{
    const struct profile_dump *last = &heap->dumps[heap->dump_count - 1];
    double before = heap->dump_count > 1 ? live_of(&last[-1]) : heap->status.peak_live_bytes;
    return last->final && live_of(last) < before / 4;
}

bool compare_is_before_end(const struct compare_source *source, const struct export_dump *chosen)
{
    const struct profile_heap *heap = chosen->heap;
    return source->which == COMPARE_LAST && chosen->dump != &heap->dumps[heap->dump_count - 1];
}

static const struct profile_dump *dump_of(const struct compare_source *source,
                                          const struct profile_heap *heap, uint64_t start_ns,
                                          bool before_end)
{
    const struct profile_dump *dumps = heap->dumps, *found = &dumps[heap->dump_count - 1];
    if (source->which == COMPARE_LAST && before_end && !source->is_final && heap->dump_count > 1 &&
        compare_is_freed_at_end(heap))
        return &found[-1];
    if (source->which == COMPARE_NUMBER)
        return source->number <= heap->dump_count ? &dumps[source->number - 1] : NULL;
    for (size_t i = heap->dump_count; i-- > 0;) {
        double wanted = (double)start_ns + (double)source->offset_ns;
        if (source->which == COMPARE_MAX && live_of(&dumps[i]) > live_of(found))
            found = &dumps[i];
        if (source->which == COMPARE_TIME &&
            fabs((double)dumps[i].boottime_ns - wanted) < fabs((double)found->boottime_ns - wanted))
            found = &dumps[i];
    }
    return found;
}

static uint64_t start_of(const struct profile *profile)
{
    uint64_t start_ns = UINT64_MAX;
    for (size_t i = 0; i < profile->heap_count; i++)
        if (profile->heaps[i].start_boottime_ns < start_ns)
            start_ns = profile->heaps[i].start_boottime_ns;
    return start_ns;
}

static bool is_chosen(const struct profile_process *process, const struct profile_heap *heap,
                      const struct compare_choice *choice)
{
    return (choice->pid == 0 || process->pid == choice->pid) &&
           (choice->heap == NULL || strcmp(choice->heap, heap->name) == 0) &&
           (choice->name == NULL || strcmp(choice->name, process->name) == 0) &&
           (choice->labels == NULL || strstr(process->command, choice->labels) != NULL);
}

int compare_source_choose(struct compare_source *source, const struct compare_choice *choice,
                          struct error *error)
{
    const struct profile *profile = source->profile;
    uint64_t start_ns = start_of(profile);
    source->dumps = xcalloc(profile->heap_count + 1, sizeof(*source->dumps));
    for (size_t i = 0; i < profile->heap_count; i++) {
        const struct profile_heap *heap = &profile->heaps[i];
        if (heap->dump_count == 0 || !is_chosen(&profile->processes[heap->process], heap, choice))
            continue;
        const struct profile_dump *dump = dump_of(source, heap, start_ns, choice->before_end);
        if (dump != NULL)
            source->dumps[source->dump_count++] = (struct export_dump){heap, dump};
    }
    if (source->dump_count > 0)
        return 0;
    if (profile->heap_count == 0)
        return error_set(error, -ENOENT, "%s: there is no heap profile in it", source->argument);
    return error_set(error, -ENOENT,
                     "%s: nothing in it has that process, heap or dump; heap_profile report %s "
                     "lists what it has",
                     source->argument, source->path);
}
