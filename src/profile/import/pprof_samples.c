/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Adds a pprof file's samples to the heap: callsites of locations, figures of values, threads and
 * tags of labels.
 */
#include <math.h>

#include "pprof_field_numbers.h"
#include "profile/import/pprof_reading.h"
#include "util/array.h"

/* Check the memory after this number of samples or new callsites. */
#define BOUND_SAMPLES 16384u
#define BOUND_CALLSITES 65536u

/* The functions below return 0 or a negative errno. After -ENOMEM, which the builder keeps, *error
 * is unset. */

/* Find the callsite of the sample's locations. The outermost ones often equal those of the previous
 * sample: their callsites are known. */
static int find_callsite(struct pprof_reading *reading, uint32_t *callsite, struct error *error)
{
    struct builder *builder = reading->builder;
    size_t count = reading->id_count, at = 0;
    *callsite = PROFILE_NONE;
    while (at < count && at < reading->last_count &&
           reading->ids[count - 1 - at] == reading->last_ids[reading->last_count - 1 - at])
        at++;
    if (at > 0)
        *callsite = reading->path[at - 1];
    if (ARRAY_RESERVE(&reading->path, &reading->path_capacity, at, count - at + 1) < 0)
        builder_fail(builder);
    reading->last_count = 0;
    for (; at < count && builder->error == 0; at++) {
        const struct pprof_location_frames *frames =
            pprof_reading_frames(reading, reading->ids[count - 1 - at]);
        if (frames == NULL && builder->error < 0)
            return builder->error;
        if (frames == NULL)
            return error_set(error, -EBADMSG, "a sample with an unknown or malformed location");
        for (uint32_t i = frames->count; i-- > 0 && builder->error == 0;) {
            *callsite = builder_callsite(builder, *callsite, reading->frames[frames->first + i]);
            if (builder->error < 0)
                return builder->error;
            if (builder->profile->callsites[*callsite].depth >= PPROF_FRAMES_MAX)
                return error_set(error, -EBADMSG, "a stack of more than 65,536 frames");
            if (builder->profile->callsite_count > PPROF_CALLSITES_MAX)
                return error_set(error, -EBADMSG, "more than 33,554,432 callsites");
        }
        reading->path[at] = *callsite;
    }
    if (builder->error < 0)
        return builder->error;
    if (count == 0)
        *callsite = heap_figures_marker(builder, HEAP_FIGURES_NO_STACK);
    uint64_t *ids = reading->last_ids;
    size_t capacity = reading->last_capacity;
    reading->last_ids = reading->ids;
    reading->last_capacity = reading->id_capacity;
    reading->last_count = count;
    reading->ids = ids;
    reading->id_capacity = capacity;
    return builder->error;
}

static int put_id(struct pprof_reading *reading, uint64_t id)
{
    if (ARRAY_ADD(&reading->ids, &reading->id_count, &reading->id_capacity, id) < 0)
        return builder_fail(reading->builder);
    return 0;
}

/* Read one of our labels. */
static int take_label(struct pprof_reading *reading, struct proto_span span,
                      struct profile_part *part, const char **thread, bool *labelled)
{
    uint64_t key = 0, text = 0, number = 0;
    struct proto_field field;
    int status;
    while ((status = proto_next(&span, &field)) > 0) {
        if (field.number == PPROF_LABEL_KEY)
            key = field.value;
        else if (field.number == PPROF_LABEL_STR)
            text = field.value;
        else if (field.number == PPROF_LABEL_NUM)
            number = field.value;
    }
    bool known = true;
    if (pprof_reading_is_text(reading, key, "tid"))
        part->tid = (int32_t)number;
    else if (pprof_reading_is_text(reading, key, "thread"))
        *thread = pprof_reading_text(reading, text);
    else if (pprof_reading_is_text(reading, key, "type"))
        part->type = pprof_reading_text(reading, text);
    else if (pprof_reading_is_text(reading, key, "context"))
        part->context = pprof_reading_text(reading, text);
    else
        known = false;
    *labelled |= known;
    return status;
}

static int name_thread(struct pprof_reading *reading, int32_t tid, const char *name)
{
    struct builder *builder = reading->builder;
    struct profile *profile = builder->profile;
    if (id_map_find(&builder->threads, (uint32_t)tid) != ID_MAP_NONE)
        return 0;
    if (ARRAY_RESERVE(&profile->threads, &builder->thread_capacity, profile->thread_count, 1) < 0 ||
        id_map_set(&builder->threads, (uint32_t)tid, (uint32_t)profile->thread_count) < 0)
        return builder_fail(builder);
    profile->threads[profile->thread_count++] =
        (struct profile_thread){tid, reading->head.pid, name};
    return 0;
}

/* The samples of an estimate (Sampling in profile.proto). */
struct sampling {
    uint64_t samples;
    double missed, bytes_variance, count_variance;
};

static int take_sampling(struct proto_span span, struct sampling *sampling)
{
    static const struct proto_member members[] = {
        PROTO_MEMBER(PPROF_SAMPLING_SAMPLES, struct sampling, samples),
        PROTO_MEMBER(PPROF_SAMPLING_MISSED, struct sampling, missed),
        PROTO_MEMBER(PPROF_SAMPLING_BYTES_VARIANCE, struct sampling, bytes_variance),
        PROTO_MEMBER(PPROF_SAMPLING_COUNT_VARIANCE, struct sampling, count_variance),
    };
    return proto_read_members(PROTO_MEMBERS(members), span, sampling);
}

/* Return the estimate of a value and its count from its samples. */
static struct heap_estimate estimate_of_sampling(double bytes, const struct sampling *sampling)
{
    return (struct heap_estimate){
        .bytes = bytes,
        .count = (double)sampling->samples + sampling->missed,
        .bytes_variance = fmax(sampling->bytes_variance, 0),
        .count_variance = fmax(sampling->count_variance, 0),
        .samples = sampling->samples,
    };
}

static struct trace_figures make_figures(const struct pprof_reading *reading, const double *values)
{
    const bool *has = reading->has;
    uint64_t interval = reading->head.interval_bytes;
    bool allocated_known = has[PPROF_ALLOC_SPACE] || has[PPROF_ALLOC_OBJECTS];
    bool live_known = has[PPROF_SPACE] || has[PPROF_OBJECTS];
    struct heap_estimate allocated =
        heap_estimate_of_scaled(values[PPROF_ALLOC_SPACE], values[PPROF_ALLOC_OBJECTS], interval);
    struct heap_estimate live =
        heap_estimate_of_scaled(values[PPROF_SPACE], values[PPROF_OBJECTS], interval);
    if (!live_known)
        live = (struct heap_estimate){0};
    return heap_figures_of(allocated_known ? &allocated : &live, &live);
}

/* Return the figures of one of our files that has the samples behind its values. */
static struct trace_figures sampled_figures_of(const struct pprof_reading *reading,
                                               const double *values,
                                               const struct sampling sampling[2])
{
    struct heap_estimate allocated = estimate_of_sampling(values[PPROF_ALLOC_SPACE], &sampling[0]);
    struct heap_estimate live = estimate_of_sampling(values[PPROF_SPACE], &sampling[1]);
    return reading->file.is_of_period ? heap_figures_of_period(&allocated, &live)
                                      : heap_figures_of(&allocated, &live);
}

/* Add a sample's value to the columns that it belongs to. */
static void take_value(struct pprof_reading *reading, size_t index, int64_t value, double *values)
{
    if (index >= reading->file.type_count || index >= PPROF_VALUES_MAX)
        return;
    unsigned columns = reading->columns_of[index];
    reading->is_elsewhere |= columns == 0 && value != 0;
    for (unsigned column = 0; column < PPROF_COLUMNS; column++)
        if ((columns >> column & 1) != 0 && reading->has[column])
            values[column] += (double)value * reading->factor_of[index];
}

static bool is_zero(const double *values)
{
    for (unsigned column = 0; column < PPROF_COLUMNS; column++)
        if (values[column] != 0)
            return false;
    return true;
}

/* Read the fields of a sample. */
static int read_sample(struct pprof_reading *reading, struct proto_span span, double *values,
                       struct profile_part *part, const char **thread, bool *labelled,
                       struct sampling sampling[2], struct error *error)
{
    struct proto_field field;
    size_t value = 0;
    int status;
    while ((status = proto_next(&span, &field)) > 0) {
        struct proto_span packed = field.span;
        bool is_id = field.number == PPROF_SAMPLE_LOCATION_ID;
        if (field.number == PPROF_SAMPLE_LABEL &&
            take_label(reading, packed, part, thread, labelled) < 0)
            return error_set(error, -EBADMSG, "a malformed label");
        if ((field.number == PPROF_SAMPLE_ALLOCATED || field.number == PPROF_SAMPLE_LIVE) &&
            take_sampling(packed, &sampling[field.number == PPROF_SAMPLE_LIVE]) < 0)
            return error_set(error, -EBADMSG, "malformed samples of an estimate");
        if (!is_id && field.number != PPROF_SAMPLE_VALUE)
            continue;
        bool one = field.type == PROTO_VARINT;
        uint64_t number = field.value;
        while (one || packed.at < packed.end) {
            if (!one && !proto_read_varint(&packed, &number))
                return error_set(error, -EBADMSG, "a malformed number");
            one = false;
            if (is_id) {
                if (put_id(reading, number) < 0)
                    return reading->builder->error;
                continue;
            }
            take_value(reading, value++, (int64_t)number, values);
        }
    }
    return status < 0 ? error_set(error, -EBADMSG, "a malformed sample") : 0;
}

static int take_sample(struct pprof_reading *reading, struct proto_span span, struct error *error)
{
    struct profile_part part = {.type = "", .context = ""};
    const char *thread = NULL;
    double values[PPROF_COLUMNS] = {0};
    struct sampling sampling[2] = {0};
    bool labelled = false;
    uint32_t callsite = PROFILE_NONE;
    part.type = part.context = reading->builder->strings[0];
    reading->id_count = 0;
    reading->is_elsewhere = false;
    int code = read_sample(reading, span, values, &part, &thread, &labelled, sampling, error);
    /* All that it has are values of other types: of the stacks that freed memory, for example. */
    if (code == 0 && reading->is_elsewhere && is_zero(values))
        return 0;
    if (code == 0)
        code = pprof_drop_apply(reading, error);
    if (code == 0)
        code = find_callsite(reading, &callsite, error);
    if (code < 0)
        return code;
    struct profile_sample *sample = heap_figures_sample(&reading->heap, callsite);
    if (sample == NULL)
        return reading->builder->error;
    part.figures = reading->file.is_of_period || reading->has_sampling
                       ? sampled_figures_of(reading, values, sampling)
                       : make_figures(reading, values);
    trace_figures_add(&sample->figures, &part.figures);
    if (labelled && heap_figures_part(&reading->heap, sample, &part) == 0 && thread != NULL)
        name_thread(reading, part.tid, thread);
    return reading->builder->error;
}

/* Note the columns of a sample's values other than 0. What is malformed is found later. */
static void note_used(const struct pprof_reading *reading, struct proto_span span, bool *is_used)
{
    struct proto_field field;
    size_t value = 0;
    while (proto_next(&span, &field) > 0) {
        struct proto_span packed = field.span;
        bool one = field.type == PROTO_VARINT;
        uint64_t number = field.value;
        while (field.number == PPROF_SAMPLE_VALUE && (one || packed.at < packed.end)) {
            if (!one && !proto_read_varint(&packed, &number))
                return;
            one = false;
            unsigned columns = value < reading->file.type_count && value < PPROF_VALUES_MAX
                                   ? reading->columns_of[value]
                                   : 0;
            value++;
            for (unsigned column = 0; column < PPROF_COLUMNS && number != 0; column++)
                is_used[column] |= (columns >> column & 1) != 0;
        }
    }
}

void pprof_reading_find_used(const struct pprof_reading *reading, bool is_used[PPROF_COLUMNS])
{
    struct proto_span span = {reading->file.bytes, reading->file.bytes + reading->file.length};
    struct proto_field field;
    while (proto_next(&span, &field) > 0)
        if (field.number == PPROF_PROFILE_SAMPLE && field.type == PROTO_BYTES)
            note_used(reading, field.span, is_used);
}

int pprof_reading_take_samples(struct pprof_reading *reading, const struct trace_source *source,
                               struct error *error)
{
    const struct pprof_file *file = &reading->file;
    struct proto_span span = {file->bytes, file->bytes + file->length};
    struct proto_field field;
    const uint8_t *at = span.at;
    struct error problem = {0};
    size_t samples = 0, bound_at = BOUND_CALLSITES;
    for (; proto_next(&span, &field) > 0; at = span.at) {
        if (field.number != PPROF_PROFILE_SAMPLE)
            continue;
        int code = field.type == PROTO_BYTES
                       ? take_sample(reading, field.span, &problem)
                       : error_set(&problem, -EBADMSG, "a sample that is not a message");
        if (reading->builder->error < 0)
            return reading->builder->error;
        size_t callsites = reading->builder->profile->callsite_count;
        bool is_due = ++samples % BOUND_SAMPLES == 0 || callsites >= bound_at;
        if (is_due)
            bound_at = callsites + BOUND_CALLSITES;
        if (is_due && trace_source_check(source, error) < 0)
            return -EFBIG;
        if (code < 0)
            return error_set(error, code, "the pprof file is damaged at offset %zu: %s",
                             (size_t)(at - file->bytes), problem.message);
    }
    return 0;
}
