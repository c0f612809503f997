/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads pprof files, ours and others'. The name of a sample type defines the meaning of its values;
 * docs/formats.md lists the known names. Our own files become the same profile again, as far as
 * they contain it.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "import/pprof_reading.h"
#include "import/readers.h"
#include "profile/partial.h"
#include "util/base_name.h"

static const struct {
    const char *type;
    enum pprof_column column;
} type_names[] = {
    {"alloc_objects", PPROF_ALLOC_OBJECTS},
    {"alloc_space", PPROF_ALLOC_SPACE},
    {"objects", PPROF_OBJECTS},
    {"space", PPROF_SPACE},
    {"inuse_objects", PPROF_OBJECTS},
    {"inuse_space", PPROF_SPACE},
    {"inuse", PPROF_SPACE},
    {"Total malloc count", PPROF_ALLOC_OBJECTS},
    {"Total malloc size", PPROF_ALLOC_SPACE},
    {"Unreleased malloc count", PPROF_OBJECTS},
    {"Unreleased malloc size", PPROF_SPACE},
    {"Total count", PPROF_ALLOC_OBJECTS},
    {"Total size", PPROF_ALLOC_SPACE},
    {"Unreleased count", PPROF_OBJECTS},
    {"Unreleased size", PPROF_SPACE},
};

/* --- the header --- */

/* Find the meaning of each value. Fail if none belongs to a heap. */
static int find_columns(struct pprof_reading *reading, struct error *error)
{
    const struct pprof_file *file = &reading->file;
    char names[300] = "";
    size_t length = 0;
    bool any = false;
    for (size_t i = 0; i < file->type_count && i < PPROF_VALUES_MAX; i++) {
        struct proto_span type = pprof_file_string(file, file->types[i].type);
        reading->column_of[i] = -1;
        for (size_t j = 0; j < sizeof(type_names) / sizeof(type_names[0]); j++) {
            if (!pprof_reading_is_text(reading, file->types[i].type, type_names[j].type) ||
                reading->has[type_names[j].column])
                continue;
            reading->column_of[i] = (int)type_names[j].column;
            any = reading->has[type_names[j].column] = true;
            break;
        }
        if (length < sizeof(names) - 60)
            length += (size_t)snprintf(names + length, sizeof(names) - length, "%s%.*s",
                                       i == 0 ? "" : ", ",
                                       proto_length(type) < 40 ? (int)proto_length(type) : 40,
                                       type.at == NULL ? "" : (const char *)type.at);
    }
    if (any)
        return 0;
    return error_set(
        error, -EINVAL,
        "this pprof file is not a heap profile: its sample types are %s; a heap profile's "
        "are alloc_objects, alloc_space, objects and space, or inuse_ for the last",
        file->type_count == 0 ? "none" : names);
}

/* Read the losses in our files' comments (export/pprof_comments.c), so that a partial profile stays
 * partial. */
static void take_loss(struct pprof_reading *reading, const char *text)
{
    static const char other_allocator[] = "missing: what another allocator gave (";
    struct heap_figures_head *head = &reading->head;
    size_t length = strlen(text);
    if (strncmp(text, other_allocator, strlen(other_allocator)) == 0 && text[length - 1] == ')')
        head->losses.unseen_allocator = builder_text(
            reading->builder, text + strlen(other_allocator), length - strlen(other_allocator) - 1);
    else if (sscanf(text, "missing: %" SCNu64 " of %" SCNu64 " bytes of anonymous memory",
                    &head->unexplained.bytes, &head->unexplained.of_bytes) == 2)
        return;
    else if (strncmp(text, "unfinished: ", 12) == 0)
        head->unfinished = true;
    else if (strncmp(text, "partial: ", 9) == 0 &&
             strcmp(text + 9, profile_disagreement_words) == 0)
        head->disagrees = true;
    else if (strncmp(text, "partial: ", 9) == 0)
        head->incomplete = true;
    else if (trace_loss_take_text(&head->losses, text))
        return;
    else if (strncmp(text, "lost: ", 6) == 0) /* in the words of another version */
        head->incomplete = true;
    else if (strncmp(text, "ended early: ", 13) == 0 || strncmp(text, "no profile: ", 12) == 0)
        head->losses.client_error = TRACE_CLIENT_OTHER;
}

/* Read how the process ended ("exit 3", "signal 9 (oom)"). Other reasons are of the profile only.
 */
static void take_end(struct pprof_reading *reading, const char *text)
{
    struct heap_figures_head *head = &reading->head;
    if (sscanf(text, "exit %d", &head->end.code) == 1)
        head->end.how = PROCESS_END_EXITED;
    else if (sscanf(text, "signal %d", &head->end.code) == 1)
        head->end.how = PROCESS_END_SIGNALED;
    else
        return;
    if (strstr(text, "(oom)") != NULL)
        head->end.oom_kills = OOM_KILLS_CGROUP_ROSE;
    head->has_end = true;
}

static void take_memory_at_end(struct pprof_reading *reading, const char *text)
{
    struct process_end *end = &reading->head.end;
    char oom_kills[32] = "";
    int at = 0;
    if (sscanf(text,
               "resident %" SCNu64 ", limit %" SCNu64 ", in use %" SCNu64 ", peak %" SCNu64
               ", oom_kills %31[a-z_], %n",
               &end->rss_bytes, &end->limit_bytes, &end->used_bytes, &end->peak_bytes, oom_kills,
               &at) < 5)
        return;
    text += at;
    at = 0;
    /* Older files do not have it. */
    if (sscanf(text, "profiler %" SCNu64 ", %n", &end->profiler_rss_bytes, &at) == 1)
        text += at;
    at = 0;
    (void)!sscanf(text, "cgroup %n", &at);
    for (uint32_t kind = 0; kind < OOM_KILLS_VALUES; kind++) {
        const struct process_end named = {.oom_kills = kind};
        if (strcmp(process_end_oom_kills_name(&named), oom_kills) == 0)
            end->oom_kills = kind;
    }
    if (at > 0 && text[at] != '\0')
        end->cgroup = builder_text(reading->builder, text + at, strlen(text + at));
}

/* Read the comments of our files. */
static void take_comment(struct pprof_reading *reading, const char *text)
{
    struct heap_figures_head *head = &reading->head;
    uint64_t bytes, calls;
    int pid, at = 0;
    if (strncmp(text, "command: ", 9) == 0)
        head->command = text + 9;
    else if (strncmp(text, "end of the process: ", 20) == 0)
        take_end(reading, text + 20);
    else if (strncmp(text, "memory at its end: ", 19) == 0)
        take_memory_at_end(reading, text + 19);
    else if (sscanf(text, "exact: %" SCNu64 " bytes in %" SCNu64 " calls", &bytes, &calls) == 2 ||
             sscanf(text, "counted: %" SCNu64 " bytes in %" SCNu64 " calls", &bytes, &calls) == 2) {
        head->exact_bytes = bytes;
        head->exact_calls = calls;
    } else if (sscanf(text, "process %d, heap %n", &pid, &at) == 1 && at > 0) {
        const char *end = NULL;
        for (const char *next = text + at; (next = strstr(next, ", sampling interval ")) != NULL;
             next++)
            end = next;
        head->pid = pid;
        if (end != NULL)
            head->heap =
                builder_text(reading->builder, text + at, (size_t)(end - text) - (size_t)at);
    } else {
        take_loss(reading, text);
    }
}

static void take_head(struct pprof_reading *reading)
{
    const struct pprof_file *file = &reading->file;
    struct heap_figures_head *head = &reading->head;
    struct builder *builder = reading->builder;
    bool bytes = pprof_reading_is_text(reading, file->period_type.unit, "bytes");
    head->interval_bytes = bytes && (int64_t)file->period > 0 ? file->period : 0;
    head->heap = builder_text(builder, "heap", 4);
    for (size_t i = 0; i < file->type_count; i++)
        if (strstr(pprof_reading_text(reading, file->types[i].type), "malloc") != NULL)
            head->heap = builder_text(builder, "libc.malloc", 11);
    for (size_t i = 0; i < file->comment_count; i++)
        take_comment(reading, pprof_reading_text(reading, file->comments[i]));
    if (file->mapping_count > 0 &&
        !pprof_reading_is_text(reading, file->mappings[0].file, "[no mapping]"))
        head->name = base_name(pprof_reading_text(reading, file->mappings[0].file));
    if ((int64_t)file->duration_nanos > 0)
        head->boottime_ns = file->duration_nanos;
    if ((int64_t)file->time_nanos > 0)
        builder->profile->boottime_to_realtime_ns = (int64_t)(file->time_nanos - head->boottime_ns);
    head->unknown = PROFILE_UNKNOWN_TEMPORARY;
    head->earlier = file->earlier.earlier;
    head->sampled_bytes = file->earlier.period_sampled_bytes;
    head->sampled_calls = file->earlier.period_sampled_calls;
    if (!reading->has[PPROF_SPACE] && !reading->has[PPROF_OBJECTS]) {
        head->unknown |= PROFILE_UNKNOWN_LIVE;
        head->remark = "The file has figures of allocated memory, but none of live memory.";
    } else if (!reading->has[PPROF_ALLOC_SPACE] && !reading->has[PPROF_ALLOC_OBJECTS]) {
        head->unknown |= PROFILE_UNKNOWN_ALLOCATED;
        head->remark =
            "The file has figures of live memory only: allocations that were freed are unknown.";
    }
    if (!reading->has[PPROF_OBJECTS] && !reading->has[PPROF_ALLOC_OBJECTS])
        head->unknown |= PROFILE_UNKNOWN_COUNTS;
}

/* --- the whole file --- */

static int make_tables(struct pprof_reading *reading)
{
    const struct pprof_file *file = &reading->file;
    reading->strings = calloc(file->string_count + 1, sizeof(*reading->strings));
    reading->mappings = calloc(file->mapping_count + 1, sizeof(*reading->mappings));
    reading->load_bias = calloc(file->mapping_count + 1, sizeof(*reading->load_bias));
    reading->locations = calloc(file->location_count + 1, sizeof(*reading->locations));
    return reading->strings == NULL || reading->mappings == NULL || reading->load_bias == NULL ||
                   reading->locations == NULL
               ? -ENOMEM
               : 0;
}

static int read_all(struct pprof_reading *reading, struct trace_source *source, struct error *error)
{
    int code = pprof_file_read(&reading->file, source, error);
    if (code == 0)
        code = make_tables(reading);
    if (code == 0)
        code = find_columns(reading, error);
    if (code < 0)
        return code;
    take_head(reading);
    code = pprof_reading_take_mappings(reading);
    if (code == 0)
        code = pprof_reading_take_samples(reading, source, error);
    if (code == 0)
        code = heap_figures_finish(&reading->heap, &reading->head);
    return code;
}

/* A difference has negative values, which a profile cannot represent. */
static size_t count_below_zero(const struct heap_figures *heap)
{
    size_t count = 0;
    for (size_t i = 0; i < heap->sample_count; i++) {
        const struct trace_figures *figures = &heap->samples[i].figures;
        count += figures->allocated_bytes < 0 || figures->allocated_count < 0 ||
                 figures->freed_bytes > figures->allocated_bytes ||
                 figures->freed_count > figures->allocated_count;
    }
    return count;
}

/* If the file has names that differ from our demangled ones, keep the file's. */
static void put_names(struct profile *profile, const char **names, size_t count)
{
    for (size_t i = 0; i < profile->frame_count && i < count; i++)
        if (names[i] != NULL)
            profile->frames[i].name = names[i];
}

struct profile *import_pprof(struct trace_source *source,
                             const struct profile_read_options *options, struct error *error)
{
    struct pprof_reading reading = {.builder = builder_new(options)};
    reading.heap.builder = reading.builder;
    int code = reading.builder == NULL ? -ENOMEM : read_all(&reading, source, error);
    size_t below_zero = code == 0 ? count_below_zero(&reading.heap) : 0;
    char problem[200];
    snprintf(problem, sizeof(problem),
             "%zu of %zu callsites have negative values, as in a difference: their live memory is "
             "shown as 0, and subtracted from sums; go tool pprof shows the values",
             below_zero, reading.heap.sample_count);
    struct profile *profile = builder_end(reading.builder, &code, below_zero > 0 ? problem : NULL);
    if (profile != NULL && options->demangling == DEMANGLE_FULL && !options->as_in_trace)
        put_names(profile, reading.names, reading.name_capacity);
    if (code == -ENOMEM)
        error_set(error, code, "no memory to read the pprof file");
    heap_figures_free(&reading.heap);
    pprof_file_free(&reading.file);
    free(reading.strings);
    free(reading.mappings);
    free(reading.load_bias);
    free(reading.locations);
    free(reading.frames);
    free(reading.names);
    free(reading.ids);
    free(reading.last_ids);
    free(reading.path);
    return profile;
}
