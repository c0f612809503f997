/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the sites of the chosen dumps: numbers their stacks and adds up their samples' figures. */
#include "tools/explore/sites.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profile/compare/estimates.h"
#include "profile/compare/matching.h"
#include "profile/interpreter_frames.h"
#include "profile/symbols/clones.h"
#include "trace/intern.h"
#include "util/base_name.h"
#include "util/xmalloc.h"

/* Decides which names of the profiles share a key of the sites. */

struct sites_names {
    struct sites *sites;
    struct intern_table tables[SITES_DIMENSIONS];
    struct intern_table texts;
    /* The previous lookup: consecutive samples share a label, at the same address. */
    const char *last_labels[SITES_DIMENSIONS];
    uint32_t last_keys[SITES_DIMENSIONS];
    bool one_profile; /* distinguish processes and threads by pid and tid */
};

/* Return the key of these bytes, a new one if they are new. */
static uint32_t find_key(struct sites_names *names, enum sites_dimension dimension,
                         const void *bytes, size_t length, bool *added)
{
    static const struct sites_key unnamed = {
        .label = "", .frame = PROFILE_NONE, .module = PROFILE_NONE};
    uint64_t id = xmalloc_id(intern_bytes(&names->tables[dimension], bytes, length, added));
    struct sites_keys *keys = &names->sites->keys[dimension];
    if (*added)
        XARRAY_ADD(&keys->keys, &keys->count, &keys->capacity, unnamed);
    return (uint32_t)id - 1;
}

/* Set a label that no profile contains. */
static void make_label(struct sites_names *names, struct sites_key *key, const char *text)
{
    struct sites *sites = names->sites;
    char *copy = xstrdup(text);
    XARRAY_ADD(&sites->texts, &sites->text_count, &sites->text_capacity, copy);
    key->label = copy;
}

static void sites_names_begin(struct sites_names *names, struct sites *sites, bool one_profile)
{
    const uint64_t self[5] = {0};
    bool added;
    *names = (struct sites_names){.sites = sites, .one_profile = one_profile};
    uint32_t key = find_key(names, SITES_FRAME, self, sizeof(self), &added);
    sites->keys[SITES_FRAME].keys[key].label = "<self>";
}

static void sites_names_end(struct sites_names *names)
{
    for (size_t i = 0; i < SITES_DIMENSIONS; i++)
        intern_free(&names->tables[i]);
    intern_free(&names->texts);
}

/* Return the number of a text, from 1. */
static uint64_t number_text(struct sites_names *names, const char *text, size_t length)
{
    bool added;
    return xmalloc_id(intern_bytes(&names->texts, text, length, &added));
}

static uint32_t find_module(struct sites_names *names, const struct profile *profile,
                            uint32_t frame)
{
    uint32_t mapping = profile->frames[frame].mapping;
    const char *path = mapping == PROFILE_NONE ? "" : profile->mappings[mapping].path, *base;
    size_t length = matching_module_length(path, &base);
    bool added;
    uint32_t key = find_key(names, SITES_MODULE, base, length, &added);
    if (added)
        names->sites->keys[SITES_MODULE].keys[key] = (struct sites_key){
            .label = *path != '\0' ? base_name(path) : "[no file]",
            .profile = profile,
            .frame = frame,
        };
    return key;
}

/* Return the key of a function; the functions below return that of another name. */
static uint32_t sites_names_function(struct sites_names *names, const struct profile *profile,
                                     uint32_t index)
{
    const struct profile_frame *frame = &profile->frames[index];
    uint32_t module = find_module(names, profile, index);
    uint64_t parts[5] = {1, module};
    bool added;
    if (*frame->name != '\0') {
        parts[2] = number_text(names, frame->name, clones_name_length(frame->name));
        /* Many functions have one name, as "<module>", in a mapping of them all. */
        if (interpreter_frames_has(profile, frame))
            parts[4] = number_text(names, frame->source_file, strlen(frame->source_file));
    } else {
        const char *build_id =
            frame->mapping == PROFILE_NONE ? "" : profile->mappings[frame->mapping].build_id;
        parts[0] = 2;
        parts[2] = number_text(names, build_id, strlen(build_id));
        parts[3] = frame->function_start;
    }
    uint32_t key = find_key(names, SITES_FRAME, parts, sizeof(parts), &added);
    if (!added)
        return key;
    struct sites_key *made = &names->sites->keys[SITES_FRAME].keys[key];
    char label[PROFILE_LABEL_BYTES];
    const char *name = interpreter_frames_label(profile, frame, label);
    *made = (struct sites_key){.label = name, .profile = profile, .frame = index, .module = module};
    if (name == label)
        make_label(names, made, label);
    return key;
}

/* Find the key of a type, context or heap. */
static uint32_t sites_names_label(struct sites_names *names, enum sites_dimension dimension,
                                  const char *label)
{
    const char *nothing = dimension == SITES_TYPE      ? dimension_info[DIMENSION_TYPE].nothing
                          : dimension == SITES_CONTEXT ? dimension_info[DIMENSION_CONTEXT].nothing
                                                       : "[no name]";
    bool added;
    if (label == names->last_labels[dimension])
        return names->last_keys[dimension];
    uint32_t key = find_key(names, dimension, label, strlen(label), &added);
    if (added)
        names->sites->keys[dimension].keys[key].label = *label != '\0' ? label : nothing;
    names->last_labels[dimension] = label;
    names->last_keys[dimension] = key;
    return key;
}

static uint32_t sites_names_process(struct sites_names *names, const struct profile *profile,
                                    uint32_t index)
{
    const struct profile_process *process = &profile->processes[index];
    uint64_t parts[2] = {number_text(names, process->name, strlen(process->name)),
                         names->one_profile ? (uint64_t)index + 1 : 0};
    bool added;
    uint32_t key = find_key(names, SITES_PROCESS, parts, sizeof(parts), &added);
    if (!added)
        return key;
    struct sites_key *made = &names->sites->keys[SITES_PROCESS].keys[key];
    made->label = *process->name != '\0' ? process->name : "[no name]";
    if (!names->one_profile || process->pid == 0)
        return key;
    char label[PROFILE_LABEL_BYTES];
    snprintf(label, sizeof(label), "%.200s (%d)", made->label, process->pid);
    make_label(names, made, label);
    return key;
}

/* Return the key of the part's thread. `part` NULL, or its thread 0: unknown. */
static uint32_t sites_names_thread(struct sites_names *names, const struct profile *profile,
                                   uint32_t process, const struct profile_part *part)
{
    int32_t pid = profile->processes[process].pid;
    if (part != NULL && part->tid == 0)
        part = NULL;
    const char *name = part == NULL ? "" : profile_thread_name(profile, pid, part->tid);
    uint64_t parts[4] = {part != NULL, number_text(names, name, strlen(name))};
    bool added;
    if (part != NULL && names->one_profile) {
        parts[2] = (uint32_t)pid;
        parts[3] = (uint32_t)part->tid;
    }
    uint32_t key = find_key(names, SITES_THREAD, parts, sizeof(parts), &added);
    if (!added)
        return key;
    struct sites_key *made = &names->sites->keys[SITES_THREAD].keys[key];
    made->label = part == NULL ? "[not known]" : *name != '\0' ? name : "[no name]";
    if (part == NULL || !names->one_profile)
        return key;
    char label[PROFILE_LABEL_BYTES];
    snprintf(label, sizeof(label), "%.200s (%d)", made->label, part->tid);
    make_label(names, made, label);
    return key;
}

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
        return strcmp(keys->keys[0].label, dimension_info[DIMENSION_TYPE].nothing) != 0;
    return dimension == SITES_FRAME || keys->count > 1;
}
