/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a difference as pprof. The exporter writes dumps, so this builds a dump: its callsites are
 * those of both profiles, one after the other, and its figures are the changes. */
#include "tools/export/diff_pprof.h"

#include <stdlib.h>
#include <string.h>

#include "tools/export/pprof.h"
#include "trace/intern.h"
#include "util/xmalloc.h"

struct joined {
    struct profile profile;
    struct profile_process process;
    struct profile_heap heap;
    struct profile_dump dump;
    uint32_t after_callsites; /* the first one of the second profile */
    /* One copy of each name: the exporter distinguishes functions by the addresses of their
     * names. */
    struct intern_table text_ids;
    const char **texts;
    size_t text_capacity;
    struct profile_sample *rows; /* of the dump */
};

static const char *diff_pprof_text_of(struct joined *joined, const char *text)
{
    bool added;
    uint64_t id = xmalloc_id(intern_bytes(&joined->text_ids, text, strlen(text), &added));
    if (added) {
        XARRAY_RESERVE(&joined->texts, &joined->text_capacity, id - 1, 1);
        joined->texts[id - 1] = text;
    }
    return joined->texts[id - 1];
}

static uint32_t moved(uint32_t index, size_t by)
{
    return index == PROFILE_NONE ? index : index + (uint32_t)by;
}

static void diff_pprof_append(struct joined *joined, const struct profile *from)
{
    struct profile *profile = &joined->profile;
    for (size_t i = 0; i < from->frame_count; i++) {
        struct profile_frame frame = from->frames[i];
        frame.name = diff_pprof_text_of(joined, frame.name);
        frame.linkage_name = diff_pprof_text_of(joined, frame.linkage_name);
        frame.source_file = diff_pprof_text_of(joined, frame.source_file);
        frame.mapping = moved(frame.mapping, profile->mapping_count);
        profile->frames[profile->frame_count + i] = frame;
    }
    for (size_t i = 0; i < from->callsite_count; i++) {
        struct profile_callsite callsite = from->callsites[i];
        callsite.parent = moved(callsite.parent, profile->callsite_count);
        callsite.frame = moved(callsite.frame, profile->frame_count);
        profile->callsites[profile->callsite_count + i] = callsite;
    }
    if (from->mapping_count > 0)
        memcpy(profile->mappings + profile->mapping_count, from->mappings,
               from->mapping_count * sizeof(*from->mappings));
    profile->mapping_count += from->mapping_count;
    profile->frame_count += from->frame_count;
    profile->callsite_count += from->callsite_count;
}

/* Join the profiles. Return false if they are too large together. */
static bool diff_pprof_join(struct joined *joined, const struct profile *before,
                            const struct profile *after)
{
    struct profile *profile = &joined->profile;
    size_t times = before == after ? 1 : 2;
    size_t mappings = before->mapping_count + after->mapping_count;
    size_t frames = before->frame_count + after->frame_count;
    size_t callsites = before->callsite_count + after->callsite_count;
    if (callsites >= PROFILE_NONE || frames >= PROFILE_NONE)
        return false;
    profile->mappings = xcalloc(mappings + 1, sizeof(*profile->mappings));
    profile->frames = xcalloc(frames + 1, sizeof(*profile->frames));
    profile->callsites = xcalloc(callsites + 1, sizeof(*profile->callsites));
    diff_pprof_append(joined, before);
    joined->after_callsites = times == 1 ? 0 : (uint32_t)profile->callsite_count;
    if (times == 2)
        diff_pprof_append(joined, after);
    return true;
}

static void take_rows(struct joined *joined, const struct diff_pair *pair,
                      const struct profile *after)
{
    for (size_t i = 0; i < pair->row_count; i++) {
        const struct diff_row *row = &pair->rows[i];
        struct profile_sample *sample = &joined->rows[joined->dump.sample_count];
        sample->callsite = row->callsite;
        if (row->profile == after)
            sample->callsite += joined->after_callsites;
        /* The exporter computes live as allocated less freed. */
        sample->figures.allocated_bytes = row->changes[EXPORT_ALLOC_SPACE].value;
        sample->figures.allocated_count = row->changes[EXPORT_ALLOC_OBJECTS].value;
        sample->figures.freed_bytes =
            sample->figures.allocated_bytes - row->changes[EXPORT_SPACE].value;
        sample->figures.freed_count =
            sample->figures.allocated_count - row->changes[EXPORT_OBJECTS].value;
        joined->dump.samples[joined->dump.sample_count++] = sample;
    }
}

/* Describe the later side in the file, or the earlier one if the later one is empty. */
static void diff_pprof_describe(struct joined *joined, const struct diff *diff,
                                const struct diff_side *before, const struct diff_side *after,
                                const char *title)
{
    const struct diff_pair *pair = &diff->pairs[0];
    bool is_after = pair->after_count > 0;
    const struct export_dump *subject = is_after ? pair->after : pair->before;
    const struct profile *profile = is_after ? after->profile : before->profile;
    joined->process = profile->processes[subject->heap->process];
    joined->process.command = title;
    joined->heap.name = subject->heap->name;
    joined->heap.interval_bytes = subject->heap->interval_bytes;
    joined->heap.dumps = &joined->dump;
    joined->heap.dump_count = 1;
    joined->profile.warning = "";
    joined->profile.filter = after->profile->filter;
    joined->profile.processes = &joined->process;
    joined->profile.process_count = 1;
    joined->profile.heaps = &joined->heap;
    joined->profile.heap_count = 1;
    joined->profile.boottime_to_realtime_ns = profile->boottime_to_realtime_ns;
    joined->dump.boottime_ns = joined->heap.start_boottime_ns = subject->dump->boottime_ns;
}

int diff_pprof_write(const struct diff *diff, const struct diff_side *before,
                     const struct diff_side *after, const char *title, bool gzip, int fd,
                     struct error *error)
{
    struct joined joined = {0};
    struct pprof_options options = {.gzip = gzip, .annotated = true, .difference = true};
    size_t rows = 0;
    for (size_t i = 0; i < diff->pair_count; i++)
        rows += diff->pairs[i].row_count;
    if (!diff_pprof_join(&joined, before->profile, after->profile))
        return error_set(error, -E2BIG, "the profiles are too large for one pprof file");
    joined.rows = xcalloc(rows + 1, sizeof(*joined.rows));
    joined.dump.samples = xcalloc(rows + 1, sizeof(struct profile_sample *));
    diff_pprof_describe(&joined, diff, before, after, title);
    for (size_t i = 0; i < diff->pair_count; i++)
        take_rows(&joined, &diff->pairs[i], after->profile);
    int code = pprof_write(&joined.profile, &joined.heap, &joined.dump, &options, fd, error);
    free(joined.profile.mappings);
    free(joined.profile.frames);
    free(joined.profile.callsites);
    free(joined.rows);
    free(joined.dump.samples);
    intern_free(&joined.text_ids);
    free(joined.texts);
    return code;
}
