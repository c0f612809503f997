/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turn snapshots into dumps: resolve ids, sum up samples of the same callsite, and carry over from
 * the previous dump what a snapshot omits.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "profile/builder/builder_sequence.h"
#include "profile/live_times.h"
#include "profile/rollup.h"
#include "util/array.h"

/* Perfetto drops callstacks whose counters are at rest. So callsites that a dump does not contain
 * are carried over from the previous one. The limit is for hostile files. */
#define CARRIED_SAMPLES_MAX UINT64_C(2000000)

static int compare_parts(const void *left_pointer, const void *right_pointer)
{
    const struct profile_part *left = left_pointer, *right = right_pointer;
    if (left->tid != right->tid)
        return left->tid < right->tid ? -1 : 1;
    int order = strcmp(left->type, right->type);
    return order != 0 ? order : strcmp(left->context, right->context);
}

/* Sum up duplicate parts of a sample: parts of callstacks that differ only in ids. Return how many
 * are left. */
static uint32_t merge_parts(struct profile_part *parts, size_t all)
{
    uint32_t count = 0;
    if (all > 0)
        qsort(parts, all, sizeof(*parts), compare_parts);
    for (size_t i = 0; i < all; i++) {
        if (count == 0 || compare_parts(&parts[count - 1], &parts[i]) != 0) {
            parts[count++] = parts[i];
            continue;
        }
        trace_figures_add(&parts[count - 1].figures, &parts[i].figures);
        trace_peak_figures_add(&parts[count - 1].peak, &parts[i].peak);
    }
    return count;
}

/* Reserve places for all callsites, and for `count` samples. */
static int reserve_places(struct builder *builder, size_t count)
{
    size_t wanted = builder->profile->callsite_count;
    if (count >= UINT32_MAX - builder->scratch.base) {
        memset(builder->scratch.places, 0,
               builder->scratch.place_count * sizeof(*builder->scratch.places));
        builder->scratch.base = 0;
    }
    if (wanted <= builder->scratch.place_count)
        return 0;
    wanted += wanted / 2;
    struct builder_places *grown = reallocarray(builder->scratch.places, wanted, sizeof(*grown));
    if (grown == NULL)
        return builder_fail(builder);
    memset(grown + builder->scratch.place_count, 0,
           (wanted - builder->scratch.place_count) * sizeof(*grown));
    builder->scratch.places = grown;
    builder->scratch.place_count = wanted;
    return 0;
}

/* The callsite of a pending sample. Callstacks that differ only in ids have the same callsite, and
 * their samples are chained to be summed. */
struct sample_place {
    uint32_t callsite;
    uint32_t next; /* index + 1 of the next sample in the chain; 0: none */
    bool first;    /* first of its chain */
};

/* Replace counters that restart under each callstack id by their sums. */
static int count_samples(struct builder *builder, const struct builder_sequence *sequence,
                         struct pending_dump *pending, const struct sample_place *places)
{
    for (int giving = 0; giving < 2; giving++) {
        for (size_t i = 0; i < pending->sample_count; i++) {
            if (!pending->origins[i].is_counted)
                continue;
            struct builder_counters_key key = {
                .heap = pending->heap,
                .sequence = (uint32_t)(sequence - builder->sequences),
                .callsite = places[i].callsite,
                .callstack = pending->origins[i].callstack,
            };
            if (giving)
                builder_counters_give(builder, &key, &pending->samples[i],
                                      pending->status.interval_bytes);
            else if (builder_counters_take(builder, &key, &pending->samples[i]) < 0)
                return builder->error;
        }
    }
    return 0;
}

static void resolve_tag(struct builder *builder, struct builder_sequence *sequence,
                        const struct pending_tag *tag, struct profile_part *part)
{
    part->type = builder_resolve_type(builder, sequence, tag->type);
    part->context = builder_resolve_context(builder, sequence, tag->context);
}

/* Resolve each pending sample's callsite and its parts' types and contexts. */
static int resolve_samples(struct builder *builder, struct builder_sequence *sequence,
                           struct pending_dump *pending, struct sample_place *places)
{
    for (size_t i = 0; i < pending->sample_count; i++) {
        const struct pending_origin *origin = &pending->origins[i];
        places[i].callsite = origin->known != NULL
                                 ? sequence->callstack_items[origin->kept - 1].resolved
                                 : builder_resolve(builder, sequence, origin->callstack);
        if (builder->error < 0)
            return builder->error;
    }
    if (count_samples(builder, sequence, pending, places) < 0)
        return builder->error;
    for (size_t i = 0; i < pending->sample_count; i++)
        if (pending->origins[i].is_single)
            resolve_tag(builder, sequence, &pending->origins[i].tag, &pending->samples[i].single);
    for (size_t i = 0; i < pending->part_count; i++)
        resolve_tag(builder, sequence, &pending->tags[i], &pending->parts[i]);
    return reserve_places(builder, pending->sample_count);
}

static void chain_samples(struct builder *builder, size_t count, struct sample_place *places)
{
    uint32_t base = builder->scratch.base;
    for (size_t i = count; i-- > 0;) {
        uint32_t *head = &builder->scratch.places[places[i].callsite].pending;
        places[i].next = *head > base ? *head - base : 0;
        places[i].first = true;
        if (places[i].next != 0)
            places[places[i].next - 1].first = false;
        *head = base + (uint32_t)i + 1;
    }
}

static const struct profile_sample *pending_sample(struct pending_dump *pending, size_t index)
{
    const struct pending_origin *origin = &pending->origins[index];
    struct profile_sample *sample = &pending->samples[index];
    if (origin->known != NULL)
        return origin->known;
    sample->parts = sample->part_count == 0 ? NULL
                    : origin->is_single     ? &sample->single
                                            : pending->parts + origin->part_first;
    return sample;
}

static int gather_parts(struct builder *builder, const struct profile_sample *sample, size_t used)
{
    size_t count = sample->part_count;
    if (ARRAY_RESERVE(&builder->scratch.parts, &builder->scratch.part_capacity, used, count) < 0)
        return builder_fail(builder);
    if (count > 0)
        memcpy(builder->scratch.parts + used, sample->parts,
               count * sizeof(*builder->scratch.parts));
    return 0;
}

/* Give a sample the times of a sum, if they are known. */
static int own_times(struct builder *builder, struct profile_sample *sample,
                     const struct live_times_sum *sum)
{
    sample->times = NULL;
    if (sum->unknown || sum->times.slice_ms == 0)
        return 0;
    struct profile_times *kept = builder_memory(builder, profile_times_bytes(&sum->times));
    if (kept == NULL)
        return builder->error;
    profile_times_keep(&sum->times, kept);
    sample->times = kept;
    return 0;
}

/* Sum up a chain in its first sample. */
static int sum_chain(struct builder *builder, struct pending_dump *pending,
                     const struct sample_place *places, size_t first)
{
    struct profile_sample *sum = &pending->samples[first];
    *sum = *pending_sample(pending, first);
    size_t parts = sum->part_count;
    struct live_times_sum times = {0};
    live_times_sum_add(&times, sum);
    if (gather_parts(builder, sum, 0) < 0)
        return builder->error;
    for (uint32_t at = places[first].next; at != 0; at = places[at - 1].next) {
        const struct profile_sample *more = pending_sample(pending, at - 1);
        trace_figures_add(&sum->figures, &more->figures);
        trace_peak_figures_add(&sum->peak, &more->peak);
        sum->tagged |= more->tagged;
        live_times_sum_add(&times, more);
        if (gather_parts(builder, more, parts) < 0)
            return builder->error;
        parts += more->part_count;
    }
    sum->part_count = merge_parts(builder->scratch.parts, parts);
    sum->parts = builder->scratch.parts;
    return own_times(builder, sum, &times);
}

/* Return whether two parts are equal. Different padding may make equal figures differ, which only
 * costs memory. */
static bool is_same_part(const struct profile_part *one, const struct profile_part *other,
                         bool tagged)
{
    return one->tid == other->tid && one->type == other->type && one->context == other->context &&
           memcmp(&one->figures, &other->figures, sizeof(one->figures)) == 0 &&
           (!tagged || memcmp(&one->peak, &other->peak, sizeof(one->peak)) == 0);
}

static bool is_same_sample(const struct profile_sample *one, const struct profile_sample *other)
{
    bool same = memcmp(&one->figures, &other->figures, sizeof(one->figures)) == 0 &&
                memcmp(&one->peak, &other->peak, sizeof(one->peak)) == 0 &&
                profile_times_are_same(one->times, other->times) && one->tagged == other->tagged &&
                one->part_count == other->part_count;
    for (uint32_t i = 0; i < one->part_count && same; i++)
        same = is_same_part(&one->parts[i], &other->parts[i], one->tagged);
    return same;
}

/* Give a sample parts that live as long as the profile. */
static int own_parts(struct builder *builder, struct profile_sample *sample)
{
    const struct profile_part *from = sample->parts;
    sample->single.tid = sample->part_count == 1 ? from->tid : 0;
    sample->single.type = sample->part_count == 1 ? from->type : NULL;
    sample->single.context = sample->part_count == 1 ? from->context : NULL;
    if (sample->part_count == 0 ||
        (sample->part_count == 1 && is_same_part(from, &sample->single, sample->tagged))) {
        sample->parts = sample->part_count == 0 ? NULL : &sample->single;
        return 0;
    }
    size_t bytes = sample->part_count * sizeof(*from);
    struct profile_part *parts = builder_memory(builder, bytes);
    if (parts == NULL)
        return builder->error;
    memcpy(parts, from, bytes);
    sample->parts = parts;
    return 0;
}

/* Return the previous dump's sample of a callsite; NULL: none. */
static const struct profile_sample *before_of(const struct builder *builder,
                                              const struct profile_dump *before, uint32_t callsite)
{
    uint32_t place = before == NULL ? 0 : builder->scratch.places[callsite].before;
    return place == 0 ? NULL : before->samples[place - 1];
}

/* Data for making a dump. */
struct dump_making {
    struct pending_dump *pending;
    const struct profile_dump *before; /* previous dump of the heap; NULL: this is the first */
    struct sample_place *places;       /* of the pending samples */
    uint32_t *callsites;               /* of the dump's samples */
    struct profile_dump dump;
    bool gives; /* the profile takes over the pending samples, instead of copies of them */
};

/* Return the sample of a chain: the previous dump's if nothing has changed, else a new one. */
static const struct profile_sample *keep_sample(struct builder *builder,
                                                const struct dump_making *making, size_t first)
{
    struct pending_dump *pending = making->pending;
    struct profile_sample *sum = &pending->samples[first];
    bool chained = making->places[first].next != 0;
    if (chained ? sum_chain(builder, pending, making->places, first) < 0
                : pending_sample(pending, first) != sum)
        return NULL;
    sum->callsite = making->places[first].callsite;
    const struct profile_sample *before = before_of(builder, making->before, sum->callsite);
    if (before != NULL && is_same_sample(before, sum))
        return before;
    struct profile_sample *kept = making->gives ? sum : builder_sample(builder);
    if (kept == NULL)
        return NULL;
    *kept = *sum;
    return own_parts(builder, kept) < 0 ? NULL : kept;
}

static void add_sample(struct dump_making *making, uint32_t callsite,
                       const struct profile_sample *sample)
{
    making->callsites[making->dump.sample_count] = callsite;
    making->dump.samples[making->dump.sample_count++] = sample;
}

/* Add the pending samples to the dump. Return how many are the previous dump's. */
static size_t add_pending(struct builder *builder, struct builder_sequence *sequence,
                          struct dump_making *making)
{
    struct pending_dump *pending = making->pending;
    const struct sample_place *places = making->places;
    size_t same = 0;
    for (size_t i = 0; i < pending->sample_count && builder->error == 0; i++) {
        const struct pending_origin *origin = &pending->origins[i];
        bool alone = places[i].first && places[i].next == 0, is_known = origin->known != NULL;
        if (alone && is_known) {
            add_sample(making, places[i].callsite, origin->known);
            same++;
            continue;
        }
        const struct profile_sample *sample = NULL;
        if (places[i].first) {
            sample = keep_sample(builder, making, i);
            same +=
                sample != NULL && sample == before_of(builder, making->before, places[i].callsite);
            add_sample(making, places[i].callsite, sample);
        }
        builder_keep_unchanged(sequence, origin, alone ? sample : NULL);
    }
    return same;
}

/* Return whether the profile takes over the pending samples. It would waste the memory of those
 * that it has already, so most of them must be new. */
static bool gives_samples(const struct builder *builder, const struct dump_making *making)
{
    struct pending_dump *pending = making->pending;
    size_t same = 0;
    if (making->before == NULL || pending->known_count > 0)
        return pending->known_count == 0;
    for (size_t i = 0; i < pending->sample_count; i++) {
        const struct profile_sample *before =
            before_of(builder, making->before, making->places[i].callsite);
        same += before != NULL && is_same_sample(before, pending_sample(pending, i));
    }
    return same <= pending->sample_count / 4;
}

/* Give back the room that an array does not need any more: the profile keeps it. `count` items are
 * in use. */
static void *trim(void *items, size_t count, size_t item_bytes)
{
    void *trimmed = reallocarray(items, count + 1, item_bytes);
    return trimmed == NULL ? items : trimmed;
}

/* Add samples that only the previous dump has. */
static void add_carried(struct builder *builder, struct dump_making *making,
                        const uint32_t *callsites)
{
    for (size_t i = 0; i < making->before->sample_count; i++) {
        if (builder->scratch.places[callsites[i]].pending > builder->scratch.base)
            continue;
        add_sample(making, callsites[i], making->before->samples[i]);
        builder->carried_samples++;
    }
}

static void mark_before(struct builder *builder, const uint32_t *callsites, size_t count,
                        bool there)
{
    for (size_t i = 0; i < count; i++)
        builder->scratch.places[callsites[i]].before = there ? (uint32_t)i + 1 : 0;
}

static int fill_dump(struct builder *builder, struct builder_sequence *sequence,
                     struct dump_making *making, bool carried)
{
    const struct pending_dump *pending = making->pending;
    struct builder_heap *heap = &builder->heaps[pending->heap];
    size_t count = pending->sample_count;
    size_t before_count = making->before == NULL ? 0 : making->before->sample_count;
    size_t most = count + (carried ? before_count : 0);
    making->dump.samples = reallocarray(NULL, most + 1, sizeof(*making->dump.samples));
    making->callsites = reallocarray(NULL, most + 1, sizeof(*making->callsites));
    if (making->dump.samples == NULL || making->callsites == NULL)
        return builder_fail(builder);
    chain_samples(builder, count, making->places);
    /* If samples were recognized by their bytes, a sample with other bytes is a different one. */
    size_t marked = pending->known_count == 0 ? before_count : 0;
    mark_before(builder, heap->callsites, marked, true);
    making->gives = gives_samples(builder, making);
    if (making->gives) { /* now, while nothing points into the array */
        making->pending->samples = trim(pending->samples, count, sizeof(*pending->samples));
        making->pending->sample_capacity = count;
    }
    heap->steady = add_pending(builder, sequence, making) > count / 2;
    mark_before(builder, heap->callsites, marked, false);
    if (carried && builder->error == 0)
        add_carried(builder, making, heap->callsites);
    making->dump.samples =
        trim(making->dump.samples, making->dump.sample_count, sizeof(*making->dump.samples));
    builder->scratch.base += (uint32_t)count;
    free(heap->callsites);
    heap->callsites = making->callsites;
    making->callsites = NULL;
    return builder->error;
}

/* Set the losses that increased since the heap's previous dump. Their amounts in the trace count
 * from the start of the heap. */
static void add_new_losses(struct builder *builder, const struct trace_heap_dump *status,
                           const struct profile_heap *heap, struct profile_dump *dump)
{
    struct profile_new_loss found[TRACE_LOSS_IDS];
    uint32_t count = 0;
    for (enum trace_loss_id id = 0; id < TRACE_LOSS_IDS; id++) {
        uint64_t amount = trace_loss_amount(status, id);
        uint64_t before =
            amount == 0 || heap->dump_count == 0 ? 0 : trace_loss_amount(&heap->status, id);
        if (amount > before)
            found[count++] = (struct profile_new_loss){id, amount - before};
    }
    struct profile_new_loss *kept =
        count == 0 ? NULL : builder_memory(builder, count * sizeof(*kept));
    if (kept == NULL)
        return;
    memcpy(kept, found, count * sizeof(*kept));
    dump->new_losses = kept;
    dump->new_loss_count = count;
}

/* Samples of older dumps are scattered in memory. */
#define AHEAD 8u

static void add_dump(struct builder *builder, const struct pending_dump *pending,
                     struct profile_dump *dump)
{
    static const char malloc_heap[] = "libc.malloc"; /* also that of a program before an exec */
    struct profile_heap *heap = &builder->profile->heaps[pending->heap];
    for (size_t i = 0; i < dump->sample_count; i++) {
        if (i + AHEAD < dump->sample_count)
            __builtin_prefetch(&dump->samples[i + AHEAD]->figures);
        trace_figures_add(&dump->total, &dump->samples[i]->figures);
        dump->part_count += dump->samples[i]->part_count;
    }
    rollup_find_peak_bias(dump);
    dump->order = builder->dumps++;
    if (strncmp(heap->name, malloc_heap, strlen(malloc_heap)) == 0)
        dump->unexplained = builder->profile->processes[heap->process].unexplained;
    add_new_losses(builder, &pending->status, heap, dump);
    uint64_t start_timestamp_ns =
        heap->dump_count > 0 ? heap->status.start_timestamp_ns : pending->status.start_timestamp_ns;
    heap->dumps[heap->dump_count++] = *dump;
    heap->status = pending->status;
    heap->status.start_timestamp_ns = start_timestamp_ns;
    heap->interval_bytes = pending->status.interval_bytes;
    heap->first_interval_bytes = pending->status.first_interval_bytes != 0
                                     ? pending->status.first_interval_bytes
                                     : pending->status.interval_bytes;
}

static void give_samples(struct builder *builder, struct pending_dump *pending)
{
    if (pending->sample_count == 0 ||
        builder_take_over(builder, pending->samples, pending->sample_count) < 0)
        return;
    pending->samples = NULL;
    pending->sample_capacity = 0;
}

static int compare_places(const void *left_pointer, const void *right_pointer)
{
    const struct trace_place *left = left_pointer, *right = right_pointer;
    return (left->mapping > right->mapping) - (left->mapping < right->mapping);
}

/* Replace mapping ids by the profile's mappings, and sort by them. */
static void resolve_places(struct builder *builder, struct builder_sequence *sequence,
                           struct trace_heap_dump *status)
{
    struct trace_place *places = (struct trace_place *)status->places;
    size_t count = builder->as_in_trace ? 0 : status->place_count;
    status->place_count = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t mapping = builder_resolve_mapping(builder, sequence, places[i].mapping);
        if (mapping != PROFILE_NONE)
            places[status->place_count++] =
                (struct trace_place){mapping, places[i].start, places[i].end};
    }
    if (status->place_count > 1)
        qsort(places, status->place_count, sizeof(*places), compare_places);
}

/* Replace callstack ids by the profile's callsites. Several figures may be of one. */
static void resolve_sites(struct builder *builder, struct builder_sequence *sequence,
                          struct trace_heap_dump *status)
{
    struct trace_memory_site *sites = (struct trace_memory_site *)status->sites;
    size_t count = builder->as_in_trace ? 0 : status->site_count;
    status->site_count = 0;
    for (size_t i = 0; i < count && builder->error == 0; i++) {
        uint32_t callsite = builder_resolve(builder, sequence, sites[i].callsite);
        struct trace_memory_site site = sites[i];
        size_t at = 0;
        site.callsite = callsite;
        while (at < status->site_count && sites[at].callsite != callsite)
            at++;
        if (builder->error < 0 || callsite == PROFILE_NONE)
            continue;
        if (at == status->site_count) {
            sites[status->site_count++] = site;
            continue;
        }
        sites[at].live_bytes += site.live_bytes;
        sites[at].live_margin = hypot(sites[at].live_margin, site.live_margin);
        sites[at].absent_bytes += site.absent_bytes;
        sites[at].free_bytes += site.free_bytes;
    }
}

/* Return whether a dump contains all callstacks of its heap. Those of heapprofd do, and it alone
 * writes these fields. A callstack that is missing in its next dump has got names for its frames in
 * between, and the dump has it under another id: carried over, it would count twice. */
static bool is_complete(const struct trace_heap_dump *status)
{
    return status->has_exact_calls || status->peak_live_bytes > 0;
}

static int make_dump(struct builder *builder, struct builder_sequence *sequence,
                     struct pending_dump *pending)
{
    struct dump_making making = {
        .pending = pending,
        .dump.boottime_ns = pending->timestamp_ns,
        .dump.start_boottime_ns = pending->status.start_timestamp_ns,
        .dump.final = pending->status.final,
        .dump.cause = pending->status.cause,
        .dump.cause_used_bytes = pending->status.cause_used_bytes,
        .dump.cause_limit_bytes = pending->status.cause_limit_bytes,
        .dump.sequence = (uint32_t)(sequence - builder->sequences),
        /* A dump that relies on earlier ones lacks what is missing in those, too. */
        .dump.incomplete = sequence->gap || (sequence->has_lost && !is_complete(&pending->status)),
        .dump.cut_off = sequence->cut_off,
        .dump.interval_bytes = pending->status.interval_bytes,
        .dump.exact_bytes = pending->status.exact_bytes,
        .dump.exact_calls = pending->status.exact_calls,
        .dump.sampled_bytes = pending->status.sampled_bytes,
        .dump.sampled_calls = pending->status.sampled_calls,
        .dump.calibration_ratio = pending->status.calibration_ratio,
        .dump.peak_highest_bytes = pending->status.peak_highest_bytes,
        .dump.peak_highest_count = pending->status.peak_highest_count,
    };
    struct profile_heap *heap = &builder->profile->heaps[pending->heap];
    if (builder_keep(builder, 1) < 0)
        return builder->error;
    builder_resolve_for(builder, sequence, pending->status.pid);
    making.places = reallocarray(NULL, pending->sample_count + 1, sizeof(*making.places));
    if (making.places == NULL ||
        ARRAY_RESERVE(&heap->dumps, &builder->dump_capacities[pending->heap], heap->dump_count, 1) <
            0) {
        builder_fail(builder);
    } else if (resolve_samples(builder, sequence, pending, making.places) == 0) {
        making.before = heap->dump_count > 0 ? &heap->dumps[heap->dump_count - 1] : NULL;
        bool carried = making.before != NULL && !pending->status.dump_at_max &&
                       (!is_complete(&pending->status) || making.dump.incomplete) &&
                       !builder->as_in_trace && builder->carried_samples < CARRIED_SAMPLES_MAX;
        if (fill_dump(builder, sequence, &making, carried) == 0 && making.gives)
            give_samples(builder, pending);
        resolve_places(builder, sequence, &pending->status);
        resolve_sites(builder, sequence, &pending->status);
        making.dump.sites = (struct trace_memory_site *)pending->status.sites;
        making.dump.site_count = pending->status.site_count;
        making.dump.piece_bytes = pending->status.piece_bytes;
    }
    if (builder->error == 0)
        add_dump(builder, pending, &making.dump);
    else
        free(making.dump.samples);
    free(making.callsites);
    free(making.places);
    return builder->error;
}

void pending_free(const struct pending_dump *pending)
{
    free(pending->samples);
    free(pending->origins);
    free(pending->parts);
    free(pending->tags);
}

/* Keep the arrays of a dump that is done, for the next one. */
static void keep_spare(struct builder *builder, const struct pending_dump *pending)
{
    if (builder->spare == NULL)
        builder->spare = malloc(sizeof(*builder->spare));
    else
        pending_free(builder->spare);
    if (builder->spare == NULL) {
        pending_free(pending);
        return;
    }
    *builder->spare = *pending;
    builder->spare->sample_count = builder->spare->part_count = builder->spare->known_count = 0;
}

void builder_commit(struct builder *builder, struct builder_sequence *sequence)
{
    uint64_t unknown_names = builder->losses.unknown_names;
    for (size_t i = 0; i < sequence->pending_count; i++) {
        struct pending_dump *pending = &sequence->pending[i];
        if (builder->error == 0)
            make_dump(builder, sequence, pending);
        keep_spare(builder, pending);
    }
    sequence->pending_count = 0;
    intern_free(&sequence->pending_ids);
    sequence->commits++;
    /* The same bytes may have a name later. */
    if (builder->losses.unknown_names != unknown_names || sequence->has_packet_tables)
        builder_forget_unchanged(builder, sequence);
    if (sequence->has_packet_tables)
        sequence_clear_interned(sequence);
    sequence->has_packet_tables = false;
    sequence->gap = false;
}

bool builder_commit_rest(struct builder *builder)
{
    bool any = false;
    for (size_t i = 0; i < builder->sequence_count; i++) {
        any |= builder->sequences[i].pending_count > 0;
        builder->sequences[i].gap = builder->sequences[i].cut_off = true;
        builder_commit(builder, &builder->sequences[i]);
    }
    return any;
}
