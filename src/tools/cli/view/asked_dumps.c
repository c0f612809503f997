/* SPDX-License-Identifier: Apache-2.0 */
/* Reads TRACE@DUMP as the comparing verbs do, and finds the dumps among the profiles of the page.
 */
#include "tools/cli/view/asked_dumps.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "profile/rollup.h"
#include "tools/cli/files/output_directory.h"
#include "util/xmalloc.h"

/* --- arguments --- */

/* Return whether a profile with this path is there already. */
static bool is_watched(const struct watched *watched, const char *path)
{
    char other[PATH_MAX];
    for (size_t i = 0; i < watched->count; i++)
        if (output_find_trace(watched->paths[i], other, NULL) == 0 && strcmp(other, path) == 0)
            return true;
    return false;
}

int asked_dumps_add(struct asked_dumps *asked, struct watched *watched, const char *argument,
                    struct error *error)
{
    const char *at = strrchr(argument, '@');
    struct stat status;
    char name[PATH_MAX];
    if (at == NULL || at - argument >= PATH_MAX || stat(argument, &status) == 0)
        return watched_add(watched, argument, error);
    if (asked->count == VIEW_PROFILES_MAX)
        return error_set(error, -E2BIG, "the page opens on at most %u dumps", VIEW_PROFILES_MAX);
    struct compare_source *source = &asked->sources[asked->count];
    int code = compare_source_parse(argument, source, error);
    if (code < 0)
        return code;
    asked->count++;
    snprintf(name, sizeof(name), "%.*s", (int)(at - argument), argument);
    return is_watched(watched, source->path)
               ? 0
               : watched_add(watched, *name == '\0' ? NULL : name, error);
}

/* --- dumps --- */

/* Return the dump of the heap that holds most. */
static struct export_dump biggest(const struct compare_source *source)
{
    struct export_dump found = source->dumps[0];
    struct rollup_size most = rollup_size_of(found.dump);
    for (size_t i = 1; i < source->dump_count; i++) {
        struct rollup_size size = rollup_size_of(source->dumps[i].dump);
        if (rollup_size_compare(&size, &most) >= 0)
            continue;
        most = size;
        found = source->dumps[i];
    }
    return found;
}

/* Return the dump of the same heap, or of that with the same name in another profile; none: zeros.
 */
static struct export_dump same_heap(const struct compare_source *source,
                                    const struct compare_source *other,
                                    const struct export_dump *wanted)
{
    const char *process = other->profile->processes[wanted->heap->process].name;
    for (size_t i = 0; i < source->dump_count; i++) {
        const struct profile_heap *heap = source->dumps[i].heap;
        if (source->profile == other->profile
                ? heap == wanted->heap
                : strcmp(heap->name, wanted->heap->name) == 0 &&
                      strcmp(source->profile->processes[heap->process].name, process) == 0)
            return source->dumps[i];
    }
    return (struct export_dump){0};
}

static int choose(struct compare_source *source, const struct view_profiles *profiles,
                  struct error *error)
{
    static const struct compare_choice all = {0};
    for (size_t i = 0; i < profiles->count && source->profile == NULL; i++)
        if (strcmp(profiles->items[i].path, source->path) == 0)
            source->profile = profiles->items[i].profile;
    if (source->profile == NULL)
        return error_set(error, -ENOENT, "%s: nothing has been recorded yet", source->argument);
    return compare_source_choose(source, &all, error);
}

static void keep(struct asked_dumps *asked, const struct profile_heap *heap,
                 const struct profile_dump *dump, size_t *capacity)
{
    const struct export_dump one = {heap, dump};
    XARRAY_ADD(&asked->kept, &asked->kept_count, capacity, one);
}

static void keep_all(struct asked_dumps *asked, const struct view_profiles *profiles)
{
    size_t capacity = 0;
    for (size_t i = 0; i < profiles->count; i++) {
        const struct profile *profile = profiles->items[i].profile;
        for (size_t j = 0; j < profile->heap_count; j++) {
            const struct profile_heap *heap = &profile->heaps[j];
            if (heap->dump_count > 0)
                keep(asked, heap, &heap->dumps[heap->dump_count - 1], &capacity);
        }
    }
    for (size_t i = 0; i < asked->count; i++)
        for (size_t j = 0; j < asked->sources[i].dump_count; j++)
            keep(asked, asked->sources[i].dumps[j].heap, asked->sources[i].dumps[j].dump,
                 &capacity);
}

int asked_dumps_choose(struct asked_dumps *asked, const struct view_profiles *profiles,
                       struct error *error)
{
    int code = 0;
    for (size_t i = 0; i < asked->count && code == 0; i++)
        code = choose(&asked->sources[i], profiles, error);
    if (code < 0 || asked->count == 0)
        return code;
    const struct compare_source *first = &asked->sources[0],
                                *last = &asked->sources[asked->count - 1];
    struct view_opening *opening = &asked->opening;
    opening->at = biggest(last);
    opening->view = EXPORT_SPACE;
    if (export_view_is_unknown(opening->at.heap, EXPORT_SPACE))
        opening->view = EXPORT_ALLOC_SPACE;
    if (first != last)
        opening->base = same_heap(first, last, &opening->at);
    keep_all(asked, profiles);
    return 0;
}

/* --- the address --- */

/* Write "PROFILE.HEAP" and return the number of the dump. */
static size_t place_of(const struct view_profiles *profiles, const struct export_dump *at,
                       char *text, size_t size)
{
    for (size_t i = 0; i < profiles->count; i++) {
        const struct profile *profile = profiles->items[i].profile;
        if (at->heap >= profile->heaps && at->heap < profile->heaps + profile->heap_count)
            snprintf(text, size, "%zu.%zu", i, (size_t)(at->heap - profile->heaps));
    }
    return (size_t)(at->dump - at->heap->dumps);
}

void asked_dumps_write_fragment(const struct asked_dumps *asked,
                                const struct view_profiles *profiles, char *text, size_t size)
{
    const struct view_opening *opening = &asked->opening;
    char at[48], base[48];
    text[0] = '\0';
    if (opening->at.dump == NULL)
        return;
    size_t dump = place_of(profiles, &opening->at, at, sizeof(at));
    int length = snprintf(text, size, "#heap=%s&dump=%zu&view=%s", at, dump,
                          export_view_info[opening->view].name);
    if (opening->base.dump == NULL || length < 0 || (size_t)length >= size)
        return;
    dump = place_of(profiles, &opening->base, base, sizeof(base));
    if (opening->base.heap == opening->at.heap)
        snprintf(text + length, size - (size_t)length, "&base=%zu", dump);
    else
        snprintf(text + length, size - (size_t)length, "&base=%s.%zu", base, dump);
}

void asked_dumps_clear(struct asked_dumps *asked)
{
    for (size_t i = 0; i < asked->count; i++)
        free(asked->sources[i].dumps);
    free(asked->kept);
    *asked = (struct asked_dumps){0};
}
