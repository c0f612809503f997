/*
 * See builder.h: from snapshots to dumps. What they name is resolved, samples of one callsite are
 * summed up, and what a snapshot leaves out is carried over from the one before.
 */
#include <stdlib.h>
#include <string.h>

#include "profile/builder.h"
#include "profile/rollup.h"
#include "util/array.h"

/* Perfetto drops callstacks whose counters have come to rest, so what a dump does not
 * name is carried over from the one before; hostile files could make that too much. */
#define CARRIED_SAMPLES_MAX UINT64_C(2000000)

static void append_sample(struct profile_dump *dump, const struct profile_sample *sample)
{
    struct profile_sample *added = &dump->samples[dump->sample_count++];
    *added = *sample;
    added->part_first = (uint32_t)dump->part_count;
    added->part_count = 0;
}

/* To the sample that was appended last. */
static void append_part(struct profile_dump *dump, const struct profile_part *part)
{
    dump->parts[dump->part_count++] = *part;
    dump->samples[dump->sample_count - 1].part_count++;
}

static void append_pending(struct profile_dump *dump, const struct pending_dump *pending,
                           const struct profile_sample *sample)
{
    for (uint32_t i = 0; i < sample->part_count; i++) {
        append_part(dump, &pending->parts[sample->part_first + i]);
    }
}

static int compare_parts(const void *left_pointer, const void *right_pointer)
{
    const struct profile_part *left = left_pointer, *right = right_pointer;
    if (left->tid != right->tid)
        return left->tid < right->tid ? -1 : 1;
    int order = strcmp(left->type, right->type);
    return order != 0 ? order : strcmp(left->context, right->context);
}

/* Sums up what a sample, the last, has twice: parts of callstacks that differ only in ids. */
static void merge_parts(struct profile_dump *dump, struct profile_sample *sample)
{
    struct profile_part *parts = &dump->parts[sample->part_first];
    uint32_t count = 0;
    qsort(parts, sample->part_count, sizeof(*parts), compare_parts);
    for (uint32_t i = 0; i < sample->part_count; i++) {
        if (count == 0 || compare_parts(&parts[count - 1], &parts[i]) != 0) {
            parts[count++] = parts[i];
            continue;
        }
        rollup_figures_add(&parts[count - 1].figures, &parts[i].figures);
        parts[count - 1].peak_bytes += parts[i].peak_bytes;
        parts[count - 1].peak_count += parts[i].peak_count;
        parts[count - 1].peak_bytes_variance += parts[i].peak_bytes_variance;
        parts[count - 1].peak_count_variance += parts[i].peak_count_variance;
    }
    dump->part_count -= sample->part_count - count;
    sample->part_count = count;
}

static int scratch_reserve(struct builder *builder)
{
    size_t wanted = builder->profile->callsite_count;
    if (wanted <= builder->sample_of_callsite_size)
        return 0;
    wanted += wanted / 2;
    uint32_t *grown = realloc(builder->sample_of_callsite, wanted * sizeof(*grown));
    if (grown == NULL)
        return builder_fail(builder);
    memset(grown + builder->sample_of_callsite_size, 0,
           (wanted - builder->sample_of_callsite_size) * sizeof(*grown));
    builder->sample_of_callsite = grown;
    builder->sample_of_callsite_size = wanted;
    return 0;
}

/* Names each pending sample's callsite and its parts' types and contexts. Callstacks that differ
 * only in ids are one callsite, and are chained so that they are summed: next[i] follows i, `first`
 * begins a chain. Whether there is any such chain, or a negative errno. */
static int resolve_samples(struct builder *builder, struct builder_sequence *sequence,
                           struct pending_dump *pending, uint32_t *next, bool *first)
{
    bool chained = false;
    for (size_t i = 0; i < pending->sample_count; i++) {
        pending->samples[i].callsite = builder_resolve(builder, sequence, pending->callstacks[i]);
        if (builder->error < 0)
            return builder->error;
    }
    for (size_t i = 0; i < pending->part_count; i++) {
        struct profile_part *part = &pending->parts[i];
        part->type = builder_resolve_type(builder, sequence, pending->tags[i].type);
        part->context = builder_resolve_context(builder, sequence, pending->tags[i].context);
    }
    if (scratch_reserve(builder) < 0)
        return builder->error;
    for (size_t i = pending->sample_count; i-- > 0;) {
        uint32_t *head = &builder->sample_of_callsite[pending->samples[i].callsite];
        if (*head != 0)
            first[*head - 1] = false;
        chained |= *head != 0;
        next[i] = *head;
        first[i] = true;
        *head = (uint32_t)i + 1;
    }
    return builder->error < 0 ? builder->error : chained;
}

/* The samples of one callsite, as one. */
static void sum_chain(const struct pending_dump *pending, const uint32_t *next, size_t first,
                      struct profile_dump *dump)
{
    append_sample(dump, &pending->samples[first]);
    struct profile_sample *sum = &dump->samples[dump->sample_count - 1];
    append_pending(dump, pending, &pending->samples[first]);
    for (uint32_t at = next[first]; at != 0; at = next[at - 1]) {
        const struct profile_sample *more = &pending->samples[at - 1];
        rollup_figures_add(&sum->figures, &more->figures);
        sum->peak_bytes += more->peak_bytes;
        sum->peak_count += more->peak_count;
        sum->peak_bytes_variance += more->peak_bytes_variance;
        sum->peak_count_variance += more->peak_count_variance;
        sum->tagged |= more->tagged;
        append_pending(dump, pending, more);
    }
    if (next[first] != 0)
        merge_parts(dump, sum);
}

/* How many samples of the dump before the pending one does not name. */
static size_t count_unnamed(const struct builder *builder, const struct profile_dump *before)
{
    size_t count = 0;
    for (size_t i = 0; before != NULL && i < before->sample_count; i++)
        count += builder->sample_of_callsite[before->samples[i].callsite] == 0;
    return count;
}

/* Sums up chains, and carries over what is not named. 0 or -ENOMEM. */
static int fill_dump(struct builder *builder, const struct pending_dump *pending,
                     const struct profile_dump *before, const uint32_t *next, const bool *first,
                     struct profile_dump *dump)
{
    size_t samples = pending->sample_count + (before == NULL ? 0 : before->sample_count);
    size_t parts = pending->part_count + (before == NULL ? 0 : before->part_count);
    dump->samples = calloc(samples + 1, sizeof(*dump->samples));
    dump->parts = calloc(parts + 1, sizeof(*dump->parts));
    if (dump->samples == NULL || dump->parts == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < pending->sample_count; i++) {
        if (first[i])
            sum_chain(pending, next, i, dump);
    }
    for (size_t i = 0; before != NULL && i < before->sample_count; i++) {
        if (builder->sample_of_callsite[before->samples[i].callsite] != 0)
            continue;
        append_sample(dump, &before->samples[i]);
        for (uint32_t j = 0; j < before->samples[i].part_count; j++)
            append_part(dump, &before->parts[before->samples[i].part_first + j]);
        builder->carried_samples++;
    }
    return 0;
}

/* The usual case: nothing to sum up or to carry over, so the samples are the dump's as they are. */
static void move_dump(struct pending_dump *pending, struct profile_dump *dump)
{
    dump->samples = pending->samples;
    dump->sample_count = pending->sample_count;
    dump->parts = pending->parts;
    dump->part_count = pending->part_count;
    pending->samples = NULL;
    pending->parts = NULL;
    pending->sample_count = pending->part_count = 0;
}

static int make_dump(struct builder *builder, struct builder_sequence *sequence,
                     struct pending_dump *pending)
{
    struct profile_dump dump = {
        .boottime_ns = pending->boottime_ns,
        .final = pending->status.final,
        .incomplete = sequence->gap,
        .exact_bytes = pending->status.exact_bytes,
        .exact_calls = pending->status.exact_calls,
    };
    uint32_t *next = calloc(pending->sample_count + 1, sizeof(*next));
    bool *first = calloc(pending->sample_count + 1, sizeof(*first));
    int chained = next == NULL || first == NULL
                      ? -ENOMEM
                      : resolve_samples(builder, sequence, pending, next, first);
    struct profile_heap *heap = &builder->profile->heaps[pending->heap];
    if (chained < 0 || array_reserve(&heap->dumps, &builder->dump_capacities[pending->heap],
                                     heap->dump_count, 1, sizeof(dump)) < 0) {
        builder_fail(builder);
        goto out;
    }
    const struct profile_dump *before = NULL;
    if (heap->dump_count > 0 && !pending->status.dump_at_max &&
        builder->carried_samples < CARRIED_SAMPLES_MAX)
        before = &heap->dumps[heap->dump_count - 1];
    bool plain = !chained && count_unnamed(builder, before) == 0;
    if (!plain && fill_dump(builder, pending, before, next, first, &dump) < 0)
        builder_fail(builder);
    for (size_t i = 0; i < pending->sample_count; i++)
        builder->sample_of_callsite[pending->samples[i].callsite] = 0;
    if (plain)
        move_dump(pending, &dump);
    for (size_t i = 0; i < dump.sample_count; i++)
        rollup_figures_add(&dump.total, &dump.samples[i].figures);
    dump.order = builder->dumps++;
    heap->dumps[heap->dump_count++] = dump;
    heap->status = pending->status;
    heap->interval_bytes = pending->status.interval_bytes;
    heap->first_interval_bytes = pending->status.first_interval_bytes != 0
                                     ? pending->status.first_interval_bytes
                                     : pending->status.interval_bytes;
out:
    free(next);
    free(first);
    return builder->error;
}

void pending_free(struct pending_dump *pending)
{
    free(pending->samples);
    free(pending->callstacks);
    free(pending->parts);
    free(pending->tags);
}

void builder_commit(struct builder *builder, struct builder_sequence *sequence)
{
    for (size_t i = 0; i < sequence->pending_count; i++) {
        struct pending_dump *pending = &sequence->pending[i];
        if (builder->error == 0)
            make_dump(builder, sequence, pending);
        pending_free(pending);
    }
    sequence->pending_count = 0;
    sequence->gap = false;
}

bool builder_commit_rest(struct builder *builder)
{
    bool any = false;
    for (size_t i = 0; i < builder->sequence_count; i++) {
        any |= builder->sequences[i].pending_count > 0;
        builder->sequences[i].gap = true;
        builder_commit(builder, &builder->sequences[i]);
    }
    return any;
}
