/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads pprof files, ours and others'. The name of a sample type defines the meaning of its values;
 * docs/formats.md lists the known names. Our own files become the same profile again, as far as
 * they contain it.
 */
#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profile/import/pprof_reading.h"
#include "profile/import/readers.h"
#include "profile/partial.h"
#include "util/base_name.h"

/* The known names of sample types; "_", "-" and a blank are equal in them, and so are capitals. */
static const struct {
    const char *type;
    unsigned columns; /* a bit for each enum pprof_column */
    bool adds;        /* to the other types of the column; else the first one counts */
} type_names[] = {
    {"alloc_objects", 1u << PPROF_ALLOC_OBJECTS, false},
    {"alloc_space", 1u << PPROF_ALLOC_SPACE, false},
    {"objects", 1u << PPROF_OBJECTS, false},
    {"space", 1u << PPROF_SPACE, false},
    {"inuse_objects", 1u << PPROF_OBJECTS, false},
    {"inuse_space", 1u << PPROF_SPACE, false},
    {"inuse", 1u << PPROF_SPACE, false},
    /* Perfetto */
    {"total_malloc_count", 1u << PPROF_ALLOC_OBJECTS, false},
    {"total_malloc_size", 1u << PPROF_ALLOC_SPACE, false},
    {"unreleased_malloc_count", 1u << PPROF_OBJECTS, false},
    {"unreleased_malloc_size", 1u << PPROF_SPACE, false},
    {"total_count", 1u << PPROF_ALLOC_OBJECTS, false},
    {"total_size", 1u << PPROF_ALLOC_SPACE, false},
    {"unreleased_count", 1u << PPROF_OBJECTS, false},
    {"unreleased_size", 1u << PPROF_SPACE, false},
    /* Datadog's profilers (ddprof, .NET, Python, Ruby, PHP), Pyroscope's for .NET */
    {"alloc_samples", 1u << PPROF_ALLOC_OBJECTS, false},
    {"alloc_size", 1u << PPROF_ALLOC_SPACE, false},
    {"heap_space", 1u << PPROF_SPACE, false},
    {"heap_live_samples", 1u << PPROF_OBJECTS, false},
    {"heap_live_size", 1u << PPROF_SPACE, false},
    /* Java, from its flight recorder: inside and outside of the threads' buffers */
    {"alloc_in_new_tlab_objects", 1u << PPROF_ALLOC_OBJECTS, true},
    {"alloc_outside_tlab_objects", 1u << PPROF_ALLOC_OBJECTS, true},
    {"alloc_in_new_tlab_bytes", 1u << PPROF_ALLOC_SPACE, true},
    {"alloc_outside_tlab_bytes", 1u << PPROF_ALLOC_SPACE, true},
    {"alloc_sample_objects", 1u << PPROF_ALLOC_OBJECTS, true},
    {"alloc_sample_bytes", 1u << PPROF_ALLOC_SPACE, true},
    /* tcmalloc's lifetimes: what was freed while they were recorded, and what was not */
    {"allocated_objects", 1u << PPROF_ALLOC_OBJECTS, true},
    {"allocated_space", 1u << PPROF_ALLOC_SPACE, true},
    {"censored_allocated_objects", 1u << PPROF_ALLOC_OBJECTS | 1u << PPROF_OBJECTS, true},
    {"censored_allocated_space", 1u << PPROF_ALLOC_SPACE | 1u << PPROF_SPACE, true},
};
#define TYPE_NAMES (sizeof(type_names) / sizeof(type_names[0]))
#define BYTES_COLUMNS (1u << PPROF_ALLOC_SPACE | 1u << PPROF_SPACE)

/* The units of memory, as go tool pprof reads them: without a final s, capitals as small letters.
 */
static const struct {
    const char *names[3];
    double bytes;
} memory_units[] = {
    {{"b", "byte", "byte"}, 1},
    {{"kb", "kbyte", "kilobyte"}, 0x1p10},
    {{"mb", "mbyte", "megabyte"}, 0x1p20},
    {{"gb", "gbyte", "gigabyte"}, 0x1p30},
    {{"tb", "tbyte", "terabyte"}, 0x1p40},
    {{"pb", "pbyte", "petabyte"}, 0x1p50},
};

/* --- the header --- */

static int plain_letter(int letter)
{
    return letter == '-' || letter == ' ' ? '_' : tolower(letter);
}

/* Return whether a string of the file is this text, apart from capitals and separators. */
static bool is_like(const struct pprof_reading *reading, uint64_t string, const char *text)
{
    struct proto_span span = pprof_file_string(&reading->file, string);
    if (proto_length(span) != strlen(text))
        return false;
    for (; span.at < span.end; span.at++, text++)
        if (plain_letter(*span.at) != plain_letter((unsigned char)*text))
            return false;
    return true;
}

/* Return the bytes of a unit of memory, or 0 for another unit. */
static double bytes_of_unit(const struct pprof_reading *reading, uint64_t unit)
{
    char plural[16];
    for (size_t i = 0; i < sizeof(memory_units) / sizeof(memory_units[0]); i++) {
        for (size_t j = 0; j < sizeof(memory_units[i].names) / sizeof(memory_units[i].names[0]);
             j++) {
            const char *name = memory_units[i].names[j];
            snprintf(plural, sizeof(plural), "%ss", name);
            if (is_like(reading, unit, name) ||
                (strlen(name) > 1 && is_like(reading, unit, plural)))
                return memory_units[i].bytes;
        }
    }
    return 0;
}

static bool is_unit_of_time(const struct pprof_reading *reading, uint64_t unit)
{
    static const char *const names[] = {"ns", "nanoseconds",  "us", "microseconds",
                                        "ms", "milliseconds", "s",  "seconds"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (is_like(reading, unit, names[i]))
            return true;
    return false;
}

/* Return the columns of a value of an unknown name, if its unit is one of memory: "alloc" in the
 * name means that it was allocated. */
static unsigned columns_of_memory(struct pprof_reading *reading,
                                  const struct pprof_value_type *type)
{
    if (bytes_of_unit(reading, type->unit) == 0)
        return 0;
    return strcasestr(pprof_reading_text(reading, type->type), "alloc") != NULL
               ? 1u << PPROF_ALLOC_SPACE
               : 1u << PPROF_SPACE;
}

/* tcmalloc's profile of allocations has the names of live memory; the type that it shows by default
 * tells. */
static bool is_of_allocations(const struct pprof_reading *reading)
{
    const struct pprof_file *file = &reading->file;
    return is_like(reading, file->default_type, "objects") && (int64_t)file->duration_nanos > 0;
}

static unsigned columns_of_name(struct pprof_reading *reading, const struct pprof_value_type *type,
                                bool *adds)
{
    bool is_bytes = bytes_of_unit(reading, type->unit) > 0;
    if (is_unit_of_time(reading, type->unit))
        return 0;
    for (size_t i = 0; i < TYPE_NAMES; i++) {
        unsigned columns = type_names[i].columns;
        if (!is_like(reading, type->type, type_names[i].type))
            continue;
        if (is_bytes && (columns & BYTES_COLUMNS) == 0)
            return 0;
        *adds = type_names[i].adds;
        if (is_of_allocations(reading) && columns == 1u << PPROF_OBJECTS)
            return 1u << PPROF_ALLOC_OBJECTS;
        return is_of_allocations(reading) && columns == 1u << PPROF_SPACE ? 1u << PPROF_ALLOC_SPACE
                                                                          : columns;
    }
    return 0;
}

/* Use the file's value `index` for these columns, unless another value already has them. */
static void take_type(struct pprof_reading *reading, size_t index, unsigned columns, bool adds)
{
    const struct pprof_value_type *type = &reading->file.types[index];
    double bytes = bytes_of_unit(reading, type->unit);
    reading->factor_of[index] = (columns & BYTES_COLUMNS) != 0 && bytes > 0 ? bytes : 1;
    for (unsigned column = 0; column < PPROF_COLUMNS; column++) {
        if ((columns >> column & 1) == 0 || (reading->has[column] && !adds))
            continue;
        reading->columns_of[index] |= 1u << column;
        reading->has[column] = true;
    }
}

/* A side with counts and without bytes is unknown if the other side has bytes. */
static void drop_counts_alone(struct pprof_reading *reading)
{
    static const enum pprof_column sides[2][2] = {{PPROF_OBJECTS, PPROF_SPACE},
                                                  {PPROF_ALLOC_OBJECTS, PPROF_ALLOC_SPACE}};
    bool *has = reading->has;
    for (int i = 0; i < 2; i++)
        if (has[sides[i][0]] && !has[sides[i][1]] && has[sides[1 - i][1]])
            has[sides[i][0]] = false;
}

static void list_types(const struct pprof_file *file, char *names, size_t size)
{
    size_t length = 0;
    names[0] = '\0';
    for (size_t i = 0; i < file->type_count && length < size - 60; i++) {
        struct proto_span type = pprof_file_string(file, file->types[i].type);
        length += (size_t)snprintf(names + length, size - length, "%s%.*s", i == 0 ? "" : ", ",
                                   proto_length(type) < 40 ? (int)proto_length(type) : 40,
                                   type.at == NULL ? "" : (const char *)type.at);
    }
}

/* Find the meaning of each value. Fail if none belongs to a heap. */
static int find_columns(struct pprof_reading *reading, struct error *error)
{
    const struct pprof_file *file = &reading->file;
    size_t count = file->type_count < PPROF_VALUES_MAX ? file->type_count : PPROF_VALUES_MAX;
    char names[300];
    for (size_t i = 0; i < count; i++) {
        bool adds = false;
        unsigned columns = columns_of_name(reading, &file->types[i], &adds);
        take_type(reading, i, columns, adds);
        reading->is_heap |= columns != 0;
    }
    for (size_t i = 0; i < count && !reading->is_heap; i++) {
        unsigned columns = columns_of_memory(reading, &file->types[i]);
        take_type(reading, i, columns, false);
        reading->is_heap = columns != 0;
    }
    if (reading->is_heap)
        return 0;
    list_types(file, names, sizeof(names));
    return error_set(
        error, -EINVAL,
        "this pprof file is not a heap profile: its sample types are %s; a heap profile's "
        "are alloc_objects, alloc_space, objects and space, or inuse_ for the last, or have a unit "
        "of memory",
        file->type_count == 0 ? "none" : names);
}

/* Read the losses in our files' comments (tools/export/pprof_comments.c), so that a partial profile
 * stays partial. */
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
    double processes = 0;
    int pid = 0, at = 0;
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
        head->has_exact = true;
    } else if ((sscanf(text, "process %d, heap %n", &pid, &at) == 1 && at > 0) ||
               (sscanf(text, "sum over %lf processes on average, heap %n", &processes, &at) == 1 &&
                at > 0)) {
        const char *end = NULL;
        for (const char *next = text + at; (next = strstr(next, ", sampling interval")) != NULL;
             next++)
            end = next;
        head->pid = pid;
        head->mean_processes = isfinite(processes) ? fmax(processes, 0) : 0;
        /* Of several intervals, each sample has its own margins. */
        reading->has_sampling = end != NULL && sscanf(end, ", sampling intervals from %" SCNu64,
                                                      &head->first_interval_bytes) == 1;
        if (end != NULL)
            head->heap =
                builder_text(reading->builder, text + at, (size_t)(end - text) - (size_t)at);
    } else {
        take_loss(reading, text);
    }
}

/* Drop columns that are zero throughout, where others show that this cannot be: bytes without
 * objects, objects without bytes, or live memory that nobody allocated. Their writers did not count
 * them. In files of ours such zeros are measured. */
static void drop_columns_of_zeros(struct pprof_reading *reading)
{
    bool is_used[PPROF_COLUMNS] = {false};
    bool *has = reading->has;
    if (reading->head.pid != 0 || reading->file.is_of_period)
        return;
    pprof_reading_find_used(reading, is_used);
    bool allocates = is_used[PPROF_ALLOC_SPACE] || is_used[PPROF_ALLOC_OBJECTS];
    bool lives = is_used[PPROF_SPACE] || is_used[PPROF_OBJECTS];
    for (unsigned column = 0; column < PPROF_COLUMNS; column++) {
        bool is_allocated = column == PPROF_ALLOC_SPACE || column == PPROF_ALLOC_OBJECTS;
        if (!is_used[column] && (is_allocated ? allocates || lives : lives))
            has[column] = false;
    }
}

/* Set what the file does not tell. */
static void take_unknown(struct pprof_reading *reading)
{
    struct heap_figures_head *head = &reading->head;
    const bool *has = reading->has;
    head->unknown = PROFILE_UNKNOWN_TEMPORARY;
    if (!has[PPROF_SPACE] && !has[PPROF_OBJECTS]) {
        head->unknown |= PROFILE_UNKNOWN_LIVE;
        head->remark = "The file has figures of allocated memory, but none of live memory.";
    } else if (!has[PPROF_ALLOC_SPACE] && !has[PPROF_ALLOC_OBJECTS]) {
        head->unknown |= PROFILE_UNKNOWN_ALLOCATED;
        head->remark =
            "The file has figures of live memory only: allocations that were freed are unknown.";
    }
    if (!has[PPROF_SPACE] && !has[PPROF_ALLOC_SPACE]) {
        head->unknown |= PROFILE_UNKNOWN_SIZES;
        head->interval_bytes = 0; /* without sizes, the chance to be sampled is unknown */
        head->remark = "The file counts allocations, and does not tell their bytes.";
    }
    if ((has[PPROF_SPACE] && !has[PPROF_OBJECTS]) ||
        (has[PPROF_ALLOC_SPACE] && !has[PPROF_ALLOC_OBJECTS]))
        head->unknown |= PROFILE_UNKNOWN_COUNTS;
}

static void take_head(struct pprof_reading *reading)
{
    const struct pprof_file *file = &reading->file;
    struct heap_figures_head *head = &reading->head;
    struct builder *builder = reading->builder;
    double interval =
        (double)(int64_t)file->period * bytes_of_unit(reading, file->period_type.unit);
    head->interval_bytes = interval > 0 && interval < 0x1p62 ? (uint64_t)interval : 0;
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
    head->earlier = file->earlier.earlier;
    head->sampled_bytes = file->earlier.period_sampled_bytes;
    head->sampled_calls = file->earlier.period_sampled_calls;
    drop_columns_of_zeros(reading);
    drop_counts_alone(reading);
    take_unknown(reading);
}

/* --- the whole file --- */

static int make_tables(struct pprof_reading *reading)
{
    const struct pprof_file *file = &reading->file;
    reading->strings = calloc(file->string_count + 1, sizeof(*reading->strings));
    reading->mappings = calloc(file->mapping_count + 1, sizeof(*reading->mappings));
    reading->load_bias = calloc(file->mapping_count + 1, sizeof(*reading->load_bias));
    reading->modules = calloc(file->mapping_count + 1, sizeof(*reading->modules));
    reading->locations = calloc(file->location_count + 1, sizeof(*reading->locations));
    return reading->strings == NULL || reading->mappings == NULL || reading->load_bias == NULL ||
                   reading->locations == NULL || reading->modules == NULL
               ? -ENOMEM
               : 0;
}

/* A difference of two profiles has values below 0. */
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
    pprof_drop_open(reading);
    code = pprof_reading_take_mappings(reading);
    if (code == 0 && reading->local != NULL)
        code = pprof_reading_find_names(reading, source, error);
    if (code == 0)
        code = pprof_reading_take_samples(reading, source, error);
    if (code < 0)
        return code;
    reading->callsites = reading->heap.sample_count;
    reading->below_zero = count_below_zero(&reading->heap);
    /* Its samples are those of two profiles. */
    if (reading->below_zero > 0)
        reading->head.interval_bytes = 0;
    return heap_figures_finish(&reading->heap, &reading->head);
}

/* Report the parts of the file that are not used as they are. Return NULL: none. */
static const char *describe_problems(const struct pprof_reading *reading, char *text, size_t size)
{
    char names[LOCAL_NAMES_PROBLEMS_BYTES];
    size_t at = 0;
    text[0] = '\0';
    if (reading->below_zero > 0)
        at = (size_t)snprintf(
            text, size,
            "%zu of %zu callsites have negative values, as in a difference of two profiles: what "
            "is below 0 became less",
            reading->below_zero, reading->callsites);
    if (reading->drop.problem != NULL && at < size)
        at += (size_t)snprintf(text + at, size - at, "%s%s", at > 0 ? "; " : "",
                               reading->drop.problem);
    if (reading->local != NULL && local_names_problems(reading->local, names, sizeof(names)) > 0 &&
        at < size)
        snprintf(text + at, size - at, "%s%s", at > 0 ? "; " : "", names);
    return text[0] == '\0' ? NULL : text;
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
    int code = reading.builder == NULL ? -ENOMEM : 0;
    if (code == 0 && options->find_names &&
        (reading.local = local_names_new(reading.builder, NULL)) == NULL)
        code = -ENOMEM;
    if (code == 0)
        code = read_all(&reading, source, error);
    char problems[400 + LOCAL_NAMES_PROBLEMS_BYTES];
    struct profile *profile = builder_end(reading.builder, &code,
                                          describe_problems(&reading, problems, sizeof(problems)));
    if (profile != NULL && options->demangling == DEMANGLE_FULL && !options->as_in_trace)
        put_names(profile, reading.names, reading.name_capacity);
    if (code == -ENOMEM)
        error_set(error, code, "no memory to read the pprof file");
    heap_figures_free(&reading.heap);
    pprof_drop_close(&reading.drop);
    local_names_free(reading.local);
    free(reading.modules);
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
