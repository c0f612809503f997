/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the sites of the chosen dumps: numbers their stacks and adds up their samples' figures. */
#include "tools/explore/sites.h"

#include <stdlib.h>
#include <string.h>

#include "profile/compare/estimates.h"
#include "tools/explore/sites_names.h"
#include "util/xmalloc.h"

/* Numbers of a profile's functions and stacks, kept for all of its dumps. */
struct known {
    uint32_t *functions; /* by frame: its key + 1; 0: not made yet */
    uint32_t *stacks;    /* by callsite: its stack + 1 */
};

struct maker {
    struct sites *sites;
    struct sites_names names;
    const struct profile *profile;
    struct known *known;
    const struct profile_heap *heap;
    uint32_t column, heap_key, process_key;
    const struct profile_heap *unseen; /* an unseen heap of the column, if any */
    bool seen;                         /* whether any heap of the column was seen */
};

static uint32_t find_function(struct maker *maker, uint32_t frame)
{
    uint32_t *known = &maker->known->functions[frame];
    if (*known == 0)
        *known = sites_names_function(&maker->names, maker->profile, frame) + 1;
    return *known - 1;
}

static int add_stack(struct maker *maker, uint32_t callsite)
{
    struct sites *sites = maker->sites;
    const struct profile_callsite *callsites = maker->profile->callsites;
    size_t first = sites->frame_count, length = (size_t)callsites[callsite].depth + 2;
    if (length > SITES_FRAMES_MAX - first)
        return -E2BIG;
    XARRAY_RESERVE(&sites->frames, &sites->frame_capacity, first, length);
    uint32_t *frames = &sites->frames[first];
    size_t at = length - 1;
    frames[at] = SITES_SELF;
    while (at > 0 && callsite != PROFILE_NONE) {
        frames[--at] = find_function(maker, callsites[callsite].frame);
        callsite = callsites[callsite].parent;
    }
    sites->frame_count += length;
    const struct sites_stack stack = {(uint32_t)(first + at), (uint32_t)(length - at),
                                      sites->keys[SITES_FRAME].keys[frames[length - 2]].module};
    XARRAY_ADD(&sites->stacks, &sites->stack_count, &sites->stack_capacity, stack);
    return 0;
}

/* --- entries --- */

static bool has_value(const struct sites_value values[DIFF_FIGURES])
{
    for (int i = 0; i < DIFF_FIGURES; i++)
        if (values[i].bytes != 0 || values[i].count != 0)
            return true;
    return false;
}

/* Add an entry. `part` NULL: without type and context, of unknown threads. */
static void add_entry(struct maker *maker, uint32_t stack, const struct profile_part *part,
                      const struct sites_value values[DIFF_FIGURES])
{
    struct sites *sites = maker->sites;
    if (!has_value(values))
        return;
    struct sites_entry entry = {.column = maker->column, .stack = stack};
    memcpy(entry.values, values, sizeof(entry.values));
    entry.keys[SITES_HEAP] = maker->heap_key;
    entry.keys[SITES_PROCESS] = maker->process_key;
    entry.keys[SITES_TYPE] =
        sites_names_label(&maker->names, SITES_TYPE, part == NULL ? "" : part->type);
    entry.keys[SITES_CONTEXT] =
        sites_names_label(&maker->names, SITES_CONTEXT, part == NULL ? "" : part->context);
    entry.keys[SITES_THREAD] =
        sites_names_thread(&maker->names, maker->profile, maker->heap->process, part);
    XARRAY_ADD(&sites->entries, &sites->entry_count, &sites->entry_capacity, entry);
}

static void take_values(const struct trace_figures *figures, double peak_bytes, double peak_count,
                        struct sites_value values[DIFF_FIGURES])
{
    values[DIFF_LIVE] = (struct sites_value){figures->allocated_bytes - figures->freed_bytes,
                                             figures->allocated_count - figures->freed_count};
    values[DIFF_ALLOCATED] =
        (struct sites_value){figures->allocated_bytes, figures->allocated_count};
    values[DIFF_PEAK] = (struct sites_value){peak_bytes, peak_count};
}

/* Add a sample. Its peak is divided by thread only if it is tagged. The undivided peak belongs to
 * unknown threads, unless there is only one part. Return 0, or -E2BIG if there are too many frames.
 */
static int add_sample(struct maker *maker, const struct profile_sample *sample)
{
    struct sites_value values[DIFF_FIGURES];
    uint32_t callsite = sample->callsite;
    uint32_t *known = &maker->known->stacks[callsite];
    int code = *known == 0 ? add_stack(maker, callsite) : 0;
    if (code < 0)
        return code;
    if (*known == 0)
        *known = (uint32_t)maker->sites->stack_count;
    uint32_t stack = *known - 1;
    if (sample->part_count < 2) {
        take_values(&sample->figures, sample->peak.bytes, sample->peak.count, values);
        add_entry(maker, stack, sample->part_count > 0 ? sample->parts : NULL, values);
        return 0;
    }
    for (uint32_t i = 0; i < sample->part_count; i++) {
        const struct profile_part *part = &sample->parts[i];
        take_values(&part->figures, sample->tagged ? part->peak.bytes : 0,
                    sample->tagged ? part->peak.count : 0, values);
        add_entry(maker, stack, part, values);
    }
    if (sample->tagged)
        return 0;
    const struct trace_figures nothing = {0};
    take_values(&nothing, sample->peak.bytes, sample->peak.count, values);
    add_entry(maker, stack, NULL, values);
    return 0;
}

static void note_unknown(const struct profile_heap *heap, struct sites_unknown *unknown)
{
    static const struct {
        enum export_view bytes;
        uint32_t unknown; /* of the figure itself */
    } figures[DIFF_FIGURES] = {[DIFF_LIVE] = {EXPORT_SPACE, PROFILE_UNKNOWN_LIVE},
                               [DIFF_ALLOCATED] = {EXPORT_ALLOC_SPACE, PROFILE_UNKNOWN_ALLOCATED},
                               [DIFF_PEAK] = {EXPORT_MAX, PROFILE_UNKNOWN_PEAK}};
    for (int i = 0; i < DIFF_FIGURES; i++) {
        unknown->bytes[i] |= export_view_is_unknown(heap, figures[i].bytes);
        unknown->counts[i] |= (heap->unknown & (figures[i].unknown | PROFILE_UNKNOWN_COUNTS)) != 0;
    }
}

/* Add a heap's totals to those of its column. */
static void add_whole(struct maker *maker, const struct export_dump *chosen)
{
    static const enum export_view views[DIFF_FIGURES] = {
        [DIFF_LIVE] = EXPORT_SPACE,
        [DIFF_ALLOCATED] = EXPORT_ALLOC_SPACE,
        [DIFF_PEAK] = EXPORT_MAX,
    };
    maker->sites->has_whole[maker->column] &= chosen->dump->left_out.callsites == 0;
    for (enum diff_figure figure = 0; figure < DIFF_FIGURES; figure++) {
        struct sites_value *whole = &maker->sites->whole[figure][maker->column];
        whole->bytes += estimate_total(chosen->heap, chosen->dump, views[figure], false).value;
        whole->count += estimate_total(chosen->heap, chosen->dump, views[figure], true).value;
    }
}

static int add_dump(struct maker *maker, const struct export_dump *chosen)
{
    maker->heap = chosen->heap;
    if (chosen->heap->unseen)
        maker->unseen = chosen->heap;
    /* If other heaps were seen, an unseen one is only missing, like a process that nobody
     * wanted. */
    maker->seen |= !chosen->heap->unseen;
    if (!chosen->heap->unseen)
        note_unknown(chosen->heap, &maker->sites->unknown[maker->column]);
    add_whole(maker, chosen);
    maker->heap_key = sites_names_label(&maker->names, SITES_HEAP, chosen->heap->name);
    maker->process_key = sites_names_process(&maker->names, maker->profile, chosen->heap->process);
    int code = 0;
    for (size_t i = 0; i < chosen->dump->sample_count && code == 0; i++)
        code = add_sample(maker, chosen->dump->samples[i]);
    return code;
}

/* --- sites --- */

static void known_begin(struct known *known, const struct profile *profile)
{
    known->functions = xcalloc(profile->frame_count + 1, sizeof(*known->functions));
    known->stacks = xcalloc(profile->callsite_count + 1, sizeof(*known->stacks));
}

static int add_columns(struct maker *maker, const struct diff_side *columns, size_t count)
{
    struct known known[SITES_COLUMNS] = {0};
    int code = 0;
    for (size_t i = 0; i < count && code == 0; i++) {
        /* Columns of one profile share its numbers. */
        size_t same = 0;
        while (columns[same].profile != columns[i].profile)
            same++;
        if (same == i)
            known_begin(&known[i], columns[i].profile);
        maker->profile = columns[i].profile;
        maker->known = &known[same];
        maker->column = (uint32_t)i;
        maker->sites->has_whole[i] = true;
        maker->unseen = NULL;
        maker->seen = false;
        for (size_t j = 0; j < columns[i].dump_count && code == 0; j++)
            code = add_dump(maker, &columns[i].dumps[j]);
        if (!maker->seen && maker->unseen != NULL)
            note_unknown(maker->unseen, &maker->sites->unknown[i]);
    }
    for (size_t i = 0; i < count; i++) {
        free(known[i].functions);
        free(known[i].stacks);
    }
    return code;
}

struct sites *sites_new(const struct diff_side *columns, size_t column_count)
{
    struct maker maker = {.sites = xcalloc(1, sizeof(*maker.sites))};
    bool one_profile = true;
    if (column_count > SITES_COLUMNS)
        column_count = SITES_COLUMNS;
    for (size_t i = 1; i < column_count; i++)
        one_profile = one_profile && columns[i].profile == columns[0].profile;
    maker.sites->column_count = column_count;
    sites_names_begin(&maker.names, maker.sites, one_profile);
    int code = add_columns(&maker, columns, column_count);
    sites_names_end(&maker.names);
    if (code == 0)
        return maker.sites;
    sites_free(maker.sites);
    return NULL;
}

void sites_free(struct sites *sites)
{
    if (sites == NULL)
        return;
    for (size_t i = 0; i < sites->text_count; i++)
        free(sites->texts[i]);
    for (size_t i = 0; i < SITES_DIMENSIONS; i++)
        free(sites->keys[i].keys);
    free(sites->texts);
    free(sites->frames);
    free(sites->stacks);
    free(sites->entries);
    free(sites);
}

bool sites_has_dimension(const struct sites *sites, enum sites_dimension dimension)
{
    const struct sites_keys *keys = &sites->keys[dimension];
    /* A single type is worth showing; no type at all is not. */
    if (dimension == SITES_TYPE && keys->count == 1)
        return strcmp(keys->keys[0].label, SITES_NO_TYPE) != 0;
    return dimension == SITES_FRAME || keys->count > 1;
}
