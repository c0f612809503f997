/* SPDX-License-Identifier: Apache-2.0 */
/* Lists what the block has of each structure. */
#include "tools/view/saved/saved_profile.h"

#include <stdlib.h>
#include <string.h>

#include "util/xmalloc.h"

#define FIGURES(of, in)                                                                            \
    M(of, in.allocated_bytes, DOUBLE), M(of, in.allocated_count, DOUBLE),                          \
        M(of, in.allocated_bytes_variance, DOUBLE), M(of, in.allocated_count_variance, DOUBLE),    \
        M(of, in.samples, NUMBER64), M(of, in.freed_bytes, DOUBLE), M(of, in.freed_count, DOUBLE), \
        M(of, in.freed_bytes_variance, DOUBLE), M(of, in.freed_count_variance, DOUBLE),            \
        M(of, in.freed_samples, NUMBER64), M(of, in.lifetime_ms_sum, DOUBLE),                      \
        M(of, in.temporary_bytes, DOUBLE), M(of, in.temporary_count, DOUBLE)
#define PEAK(of, in)                                                                               \
    M(of, in.bytes, DOUBLE), M(of, in.count, DOUBLE), M(of, in.bytes_variance, DOUBLE),            \
        M(of, in.count_variance, DOUBLE), M(of, in.samples, DOUBLE)

static const struct member profile_members[] = {
    M(profile, has_loops, BOOL),
    M(profile, wants_mmap, BOOL),
    M(profile, ends_early, BOOL),
    M(profile, boottime_to_realtime_ns, NUMBER64),
    M(profile, missing_packets, NUMBER64),
    M(profile, damaged_packets, NUMBER64),
    M(profile, unfinished_dumps, NUMBER64),
    M(profile, warning, TEXT),
    M(profile, filter, TEXT),
};
static const struct structure profile_structure = STRUCTURE(struct profile, profile_members);

static const struct member mapping_members[] = {
    M(profile_mapping, path, TEXT),
    M(profile_mapping, build_id, TEXT),
    M(profile_mapping, start, NUMBER64),
    M(profile_mapping, end, NUMBER64),
    M(profile_mapping, exact_offset, NUMBER64),
    M(profile_mapping, load_bias, NUMBER64),
    M(profile_mapping, start_offset, NUMBER64),
};
static const struct structure mapping_structure =
    STRUCTURE(struct profile_mapping, mapping_members);

static const struct member frame_members[] = {
    M(profile_frame, name, TEXT),
    M(profile_frame, linkage_name, TEXT),
    M(profile_frame, obfuscated_name, TEXT),
    M(profile_frame, source_file, TEXT),
    M(profile_frame, line, NUMBER32),
    INDEX_OR_NONE(profile_frame, mapping, MAPPINGS),
    M(profile_frame, rel_pc, NUMBER64),
    M(profile_frame, function_start, NUMBER64),
    M(profile_frame, kind, NUMBER32),
    M(profile_frame, kind_name, TEXT_OR_NULL),
};
static const struct structure frame_structure = STRUCTURE(struct profile_frame, frame_members);

static const struct member known_members[] = {
    M(known_frames, what, TEXT),
    M(known_frames, allocates, BOOL),
    M(known_frames, is_run_time, BOOL),
};
static const struct structure known_structure = STRUCTURE(struct known_frames, known_members);

static const struct member callsite_members[] = {
    INDEX_OR_NONE(profile_callsite, parent, CALLSITES),
    INDEX(profile_callsite, frame, FRAMES),
};
static const struct structure callsite_structure =
    STRUCTURE(struct profile_callsite, callsite_members);

static const struct member process_members[] = {
    M(profile_process, pid, NUMBER32),
    M(profile_process, parent_pid, NUMBER32),
    M(profile_process, uid, NUMBER32),
    M(profile_process, has_uid, BOOL),
    M(profile_process, has_start, BOOL),
    M(profile_process, start_boottime_ns, NUMBER64),
    M(profile_process, name, TEXT),
    M(profile_process, command, TEXT),
    M(profile_process, image, NUMBER64),
    M(profile_process, mean_processes, DOUBLE),
    M(profile_process, unexplained.bytes, NUMBER64),
    M(profile_process, unexplained.of_bytes, NUMBER64),
    M(profile_process, has_end, BOOL),
    M(profile_process, end.pid, NUMBER32),
    M(profile_process, end.boottime_ns, NUMBER64),
    M(profile_process, end.how, NUMBER32),
    M(profile_process, end.code, NUMBER32),
    M(profile_process, end.core_dumped, BOOL),
    M(profile_process, end.oom_kills, NUMBER32),
    M(profile_process, end.cgroup, TEXT_OR_NULL),
    M(profile_process, end.limit_bytes, NUMBER64),
    M(profile_process, end.used_bytes, NUMBER64),
    M(profile_process, end.peak_bytes, NUMBER64),
    M(profile_process, end.rss_bytes, NUMBER64),
    M(profile_process, end.profiler_rss_bytes, NUMBER64),
    M(profile_process, end.most_rss_bytes, NUMBER64),
};
static const struct structure process_structure =
    STRUCTURE(struct profile_process, process_members);

static const struct member point_members[] = {
    M(profile_memory_point, boottime_ns, NUMBER64),
    M(profile_memory_point, rss_bytes, NUMBER64),
    M(profile_memory_point, rss_anon_bytes, NUMBER64),
    M(profile_memory_point, vm_bytes, NUMBER64),
    M(profile_memory_point, heap_bytes, NUMBER64),
    M(profile_memory_point, rss_file_bytes, NUMBER64),
    M(profile_memory_point, rss_shmem_bytes, NUMBER64),
    M(profile_memory_point, swap_bytes, NUMBER64),
    M(profile_memory_point, profiler_bytes, NUMBER64),
};
static const struct structure point_structure =
    STRUCTURE(struct profile_memory_point, point_members);

static const struct member thread_members[] = {
    M(profile_thread, tid, NUMBER32),
    M(profile_thread, pid, NUMBER32),
    M(profile_thread, name, TEXT),
};
static const struct structure thread_structure = STRUCTURE(struct profile_thread, thread_members);

static const struct member unprofiled_members[] = {
    M(profile_unprofiled, pid, NUMBER32),   M(profile_unprofiled, parent_pid, NUMBER32),
    M(profile_unprofiled, count, NUMBER64), M(profile_unprofiled, name, TEXT),
    M(profile_unprofiled, reason, TEXT),    M(profile_unprofiled, by_choice, BOOL),
    M(profile_unprofiled, kind, TEXT),
};
static const struct structure unprofiled_structure =
    STRUCTURE(struct profile_unprofiled, unprofiled_members);

/* Without the names of the mappings, which no answer has. */
static const struct member smaps_members[] = {
    M(profile_smaps, boottime_ns, NUMBER64),
    INDEX(profile_smaps, process, PROCESSES),
    M(profile_smaps, size_kb, NUMBER64),
    M(profile_smaps, private_dirty_kb, NUMBER64),
    M(profile_smaps, swap_kb, NUMBER64),
    M(profile_smaps, private_clean_resident_kb, NUMBER64),
    M(profile_smaps, shared_dirty_resident_kb, NUMBER64),
    M(profile_smaps, shared_clean_resident_kb, NUMBER64),
    M(profile_smaps, locked_kb, NUMBER64),
    M(profile_smaps, proportional_resident_kb, NUMBER64),
    M(profile_smaps, known, NUMBER32),
};
static const struct structure smaps_structure = STRUCTURE(struct profile_smaps, smaps_members);

static const struct member reported_members[] = {
    M(profile_reported, boottime_ns, NUMBER64),
    INDEX(profile_reported, process, PROCESSES),
    M(profile_reported, name, TEXT),
    M(profile_reported, is_allocator, BOOL),
    M(profile_reported, size_bytes, DOUBLE),
    M(profile_reported, effective_bytes, DOUBLE),
};
static const struct structure reported_structure =
    STRUCTURE(struct profile_reported, reported_members);

#define S(member, type) M(profile_memory_snapshot, values.member, type)
#define KIND(kind)                                                                                 \
    S(parts[kind].rss_bytes, NUMBER64), S(parts[kind].swap_bytes, NUMBER64),                       \
        S(parts[kind].mapped_bytes, NUMBER64), S(parts[kind].mappings, NUMBER64),                  \
        S(parts[kind].huge_bytes, NUMBER64)
static const struct member snapshot_members[] = {
    INDEX(profile_memory_snapshot, process, PROCESSES),
    M(profile_memory_snapshot, order, NUMBER64),
    S(pid, NUMBER32),
    S(boottime_ns, NUMBER64),
    KIND(0),
    KIND(1),
    KIND(2),
    KIND(3),
    KIND(4),
    KIND(5),
    KIND(6),
    KIND(7),
    KIND(8),
    KIND(9),
    KIND(10),
    S(live_bytes, DOUBLE),
    S(live_bytes_variance, DOUBLE),
    S(live_count, DOUBLE),
    S(rounding_bytes, DOUBLE),
    S(rounding_rule, TEXT_OR_NULL),
    S(untouched_bytes, DOUBLE),
    S(swapped_bytes, DOUBLE),
    S(pages_unknown, BOOL),
    S(others_live_bytes, DOUBLE),
    S(others_live_variance, DOUBLE),
    S(arenas, NUMBER64),
    S(arenas_rss_bytes, NUMBER64),
    S(allocator, TEXT_OR_NULL),
    S(duration_us, NUMBER64),
    S(has_unexplained, BOOL),
    S(unexplained.bytes, NUMBER64),
    S(unexplained.of_bytes, NUMBER64),
    S(most_unexplained.bytes, NUMBER64),
    S(most_unexplained.of_bytes, NUMBER64),
};
#undef S
_Static_assert(MEMORY_KINDS == 11, "each kind is a KIND() above");
static const struct structure snapshot_structure =
    STRUCTURE(struct profile_memory_snapshot, snapshot_members);

#define S(member, type) M(profile_heap, status.member, type)
static const struct member heap_members[] = {
    INDEX(profile_heap, process, PROCESSES),
    M(profile_heap, name, TEXT),
    M(profile_heap, interval_bytes, NUMBER64),
    M(profile_heap, first_interval_bytes, NUMBER64),
    M(profile_heap, start_boottime_ns, NUMBER64),
    M(profile_heap, packet_boottime_ns, NUMBER64),
    M(profile_heap, unnamed, BOOL),
    M(profile_heap, is_perfettos, BOOL),
    M(profile_heap, unknown, NUMBER32),
    M(profile_heap, is_of_stack_samples, BOOL),
    M(profile_heap, unseen, BOOL),
    M(profile_heap, unfinished, BOOL),
    S(pid, NUMBER32),
    S(interval_bytes, NUMBER64),
    S(first_interval_bytes, NUMBER64),
    S(timestamp_ns, NUMBER64),
    S(start_timestamp_ns, NUMBER64),
    S(from_startup, BOOL),
    S(rejected_concurrent, BOOL),
    S(disconnected, BOOL),
    S(buffer_overran, BOOL),
    S(buffer_corrupted, BOOL),
    S(hit_guardrail, BOOL),
    S(client_error, NUMBER32),
    S(dump_at_max, BOOL),
    S(final, BOOL),
    S(unwinding_errors, NUMBER64),
    S(heap_samples, NUMBER64),
    S(map_reparses, NUMBER64),
    S(unwinding_time_us, NUMBER64),
    S(blocked_us, NUMBER64),
    S(exact_bytes, NUMBER64),
    S(exact_calls, NUMBER64),
    S(has_exact_calls, BOOL),
    S(unsent_bytes_of_ring, NUMBER64),
    S(lost[0], NUMBER64),
    S(lost[1], NUMBER64),
    S(lost[2], NUMBER64),
    S(lost[3], NUMBER64),
    S(lost[4], NUMBER64),
    S(lost[5], NUMBER64),
    S(lost[6], NUMBER64),
    S(lost[7], NUMBER64),
    S(lost[8], NUMBER64),
    S(lost[9], NUMBER64),
    S(lost[10], NUMBER64),
    S(lost[11], NUMBER64),
    S(lost[12], NUMBER64),
    S(lost[13], NUMBER64),
    S(lost[14], NUMBER64),
    S(lost[15], NUMBER64),
    S(sampled_bytes, DOUBLE),
    S(sampled_calls, DOUBLE),
    S(calibration_ratio, DOUBLE),
    S(image, NUMBER64),
    S(peak_live_bytes, DOUBLE),
    S(peak_live_count, DOUBLE),
    S(peak_highest_bytes, DOUBLE),
    S(peak_highest_count, DOUBLE),
    S(peak_timestamp_ns, NUMBER64),
    S(allocator, TEXT_OR_NULL),
    S(exit_status, NUMBER32),
    S(remark, TEXT_OR_NULL),
    S(other_types, NUMBER64),
    S(other_contexts, NUMBER64),
    S(max_overhead_percent, NUMBER32),
    S(weighed_samples, NUMBER64),
    S(unseen_allocator, TEXT_OR_NULL),
};
#undef S
_Static_assert(TRACE_LOST_PLACES == 16, "each place is above");
static const struct structure heap_structure = STRUCTURE(struct profile_heap, heap_members);

static const struct member place_members[] = {
    M(trace_place, mapping, NUMBER64),
    M(trace_place, start, NUMBER64),
    M(trace_place, end, NUMBER64),
};
static const struct structure place_structure = STRUCTURE(struct trace_place, place_members);

#define D(member, type) M(profile_dump, member, type)
static const struct member dump_members[] = {
    D(boottime_ns, NUMBER64),
    D(start_boottime_ns, NUMBER64),
    D(final, BOOL),
    D(cause, NUMBER32),
    D(cause_used_bytes, NUMBER64),
    D(cause_limit_bytes, NUMBER64),
    D(incomplete, BOOL),
    D(cut_off, BOOL),
    D(disagrees, BOOL),
    FIGURES(profile_dump, left_out.sum.figures),
    PEAK(profile_dump, left_out.sum.peak),
    D(left_out.callsites, SIZE),
    FIGURES(profile_dump, total),
    D(exact_bytes, NUMBER64),
    D(exact_calls, NUMBER64),
    D(sampled_bytes, DOUBLE),
    D(sampled_calls, DOUBLE),
    D(calibration_ratio, DOUBLE),
    D(peak_highest_bytes, DOUBLE),
    D(peak_highest_count, DOUBLE),
    D(peak_bytes_bias, DOUBLE),
    D(peak_count_bias, DOUBLE),
    D(earlier.unknown, BOOL),
    D(earlier.exact_bytes, NUMBER64),
    D(earlier.exact_calls, NUMBER64),
    D(earlier.sampled_bytes, DOUBLE),
    D(earlier.sampled_calls, DOUBLE),
    FIGURES(profile_dump, earlier.sampled),
    D(order, NUMBER64),
    D(sequence, NUMBER32),
    D(interval_bytes, NUMBER64),
    D(piece_bytes, NUMBER64),
    D(unexplained.bytes, NUMBER64),
    D(unexplained.of_bytes, NUMBER64),
};
#undef D
static const struct structure dump_structure = STRUCTURE(struct profile_dump, dump_members);

static const struct member loss_members[] = {
    INDEX(profile_new_loss, id, LOSSES),
    M(profile_new_loss, amount, NUMBER64),
};
static const struct structure loss_structure = STRUCTURE(struct profile_new_loss, loss_members);

/* Its callsite is checked when it is read. */
static const struct member site_members[] = {
    M(trace_memory_site, callsite, NUMBER64),  M(trace_memory_site, live_bytes, DOUBLE),
    M(trace_memory_site, live_margin, DOUBLE), M(trace_memory_site, absent_bytes, DOUBLE),
    M(trace_memory_site, free_bytes, DOUBLE),
};
static const struct structure site_structure = STRUCTURE(struct trace_memory_site, site_members);

static const struct member part_members[] = {
    FIGURES(profile_part, figures), PEAK(profile_part, peak),       M(profile_part, type, TEXT),
    M(profile_part, context, TEXT), M(profile_part, tid, NUMBER32),
};
static const struct structure part_structure = STRUCTURE(struct profile_part, part_members);

/* A sample whose only part has the same figures has no parts of its own. */
static const struct member sample_members[] = {
    INDEX(profile_sample, callsite, CALLSITES),
    FIGURES(profile_sample, figures),
    PEAK(profile_sample, peak),
    M(profile_sample, type, TEXT_OR_NULL),
    M(profile_sample, context, TEXT_OR_NULL),
    M(profile_sample, tid, NUMBER32),
    M(profile_sample, part_count, NUMBER32),
    M(profile_sample, tagged, BOOL),
};
static const struct structure sample_structure = STRUCTURE(struct profile_sample, sample_members);

static const struct member times_members[] = {
    M(saved_times, slice_ms, NUMBER64),
    M(saved_times, oldest_ms, NUMBER64),
    M(saved_times, first, NUMBER32),
};
static const struct structure times_structure = STRUCTURE(struct saved_times, times_members);
static const struct member slice_members[] = {
    M(saved_slice, bytes, DOUBLE),
    M(saved_slice, samples, NUMBER32),
};
static const struct structure slice_structure = STRUCTURE(struct saved_slice, slice_members);

/* Single values beside other structures. */
static const struct member number_members[] = {{0, NUMBER32, NO_ARRAY, false}};
static const struct structure number_structure = STRUCTURE(uint32_t, number_members);
static const struct member known_index_members[] = {{0, NUMBER32, KNOWN, true}};
static const struct structure known_index_structure = STRUCTURE(uint32_t, known_index_members);
static const struct member flag_members[] = {{0, BOOL, NO_ARRAY, false}};
static const struct structure flag_structure = STRUCTURE(bool, flag_members);
static const struct member text_members[] = {{0, TEXT, NO_ARRAY, false}};
static const struct structure text_structure = STRUCTURE(const char *, text_members);

/* --- a profile --- */

static const struct nesting timeline_nesting =
    NESTING(profile_process, timeline, timeline_count, SIZE, &point_structure, true);
static const struct nesting dump_nesting =
    NESTING(profile_heap, dumps, dump_count, SIZE, &dump_structure, true);
static const struct nesting place_nesting =
    NESTING(profile_heap, status.places, status.place_count, SIZE, &place_structure, false);
static const struct nesting loss_nesting =
    NESTING(profile_dump, new_losses, new_loss_count, NUMBER32, &loss_structure, false);
static const struct nesting site_nesting =
    NESTING(profile_dump, sites, site_count, SIZE, &site_structure, false);
static const struct nesting part_nesting =
    NESTING(saved_list, items, count, SIZE, &part_structure, false);
static const struct nesting slice_nesting =
    NESTING(saved_times, slices, slice_count, SIZE, &slice_structure, true);
static const struct nesting sample_number_nesting =
    NESTING(saved_list, items, count, SIZE, &number_structure, true);

static void carry_heaps(struct carrier *carrier, struct saved_profile *saved)
{
    struct profile *profile = saved->profile;
    carry_array(carrier, &heap_structure, &profile->heaps, &profile->heap_count);
    carry_nested(carrier, &place_nesting, profile->heaps, sizeof(*profile->heaps),
                 profile->heap_count);
    carry_nested(carrier, &dump_nesting, profile->heaps, sizeof(*profile->heaps),
                 profile->heap_count);
    saved->dump_count = 0;
    for (size_t i = 0; i < profile->heap_count; i++) {
        struct profile_heap *heap = &profile->heaps[i];
        carry_nested(carrier, &loss_nesting, heap->dumps, sizeof(*heap->dumps), heap->dump_count);
        carry_nested(carrier, &site_nesting, heap->dumps, sizeof(*heap->dumps), heap->dump_count);
        saved->dump_count += heap->dump_count;
    }
}

void saved_profile_carry(struct carrier *carrier, struct saved_profile *saved)
{
    struct profile *profile = saved->profile;
    carry_items(carrier, &profile_structure, profile, 1);
    carry_array(carrier, &mapping_structure, &profile->mappings, &profile->mapping_count);
    carrier->counts[MAPPINGS] = profile->mapping_count;
    carry_array(carrier, &frame_structure, &profile->frames, &profile->frame_count);
    carrier->counts[FRAMES] = profile->frame_count;
    carrier->counts[CALLSITES] = SIZE_MAX;
    carry_array(carrier, &callsite_structure, &profile->callsites, &profile->callsite_count);
    carrier->counts[CALLSITES] = profile->callsite_count;
    carry_array(carrier, &process_structure, &profile->processes, &profile->process_count);
    carrier->counts[PROCESSES] = profile->process_count;
    carry_nested(carrier, &timeline_nesting, profile->processes, sizeof(*profile->processes),
                 profile->process_count);
    carry_array(carrier, &thread_structure, &profile->threads, &profile->thread_count);
    carry_array(carrier, &unprofiled_structure, &profile->unprofiled, &profile->unprofiled_count);
    carry_array(carrier, &smaps_structure, &profile->smaps, &profile->smaps_count);
    carry_array(carrier, &reported_structure, &profile->reported, &profile->reported_count);
    carry_array(carrier, &snapshot_structure, &profile->memory_snapshots,
                &profile->memory_snapshot_count);
    carry_heaps(carrier, saved);
    carry_fixed(carrier, &flag_structure, &saved->are_listed, profile->heap_count);
    carry_fixed(carrier, &flag_structure, &saved->are_kept, saved->dump_count);
    carry_fixed(carrier, &text_structure, &saved->sentences, saved->dump_count);
    carry_array(carrier, &known_structure, &saved->known, &saved->known_count);
    carrier->counts[KNOWN] = saved->known_count;
    carry_fixed(carrier, &known_index_structure, &saved->known_of, profile->frame_count);
    carry_array(carrier, &sample_structure, &saved->samples, &saved->sample_count);
    if (carrier->reads) {
        saved->parts = xcalloc(saved->sample_count + 1, sizeof(*saved->parts));
        saved->dumps = xcalloc(saved->dump_count + 1, sizeof(*saved->dumps));
    }
    carry_nested(carrier, &part_nesting, saved->parts, sizeof(*saved->parts), saved->sample_count);
    carry_fixed(carrier, &times_structure, &saved->times, saved->sample_count);
    carry_nested(carrier, &slice_nesting, saved->times, sizeof(*saved->times), saved->sample_count);
    carry_nested(carrier, &sample_number_nesting, saved->dumps, sizeof(*saved->dumps),
                 saved->dump_count);
}

void saved_profile_free(struct saved_profile *saved)
{
    for (size_t i = 0; i < saved->dump_count && saved->dumps != NULL; i++)
        free(saved->dumps[i].items);
    free(saved->dumps);
    free(saved->parts);
    for (size_t i = 0; i < saved->sample_count && saved->times != NULL; i++)
        free(saved->times[i].slices);
    free(saved->times);
    free(saved->known_of);
    free(saved->are_listed);
    free(saved->are_kept);
    free(saved->sentences);
}

/* --- budgets --- */

void carry_budgets(struct carrier *carrier, char **budgets)
{
    size_t length = *budgets == NULL ? 0 : strlen(*budgets);
    carry_count(carrier, &length);
    if (!carrier->reads) {
        fwrite(*budgets, 1, length, carrier->out);
        return;
    }
    const unsigned char *bytes = carrier_take(carrier, length);
    if (bytes != NULL && length > 0)
        *budgets = xmalloc_made(strndup((const char *)bytes, length));
}

/* --- what the page opens on --- */

struct saved_place {
    uint32_t profile, heap, dump; /* PROFILE_NONE: none */
};

static struct saved_place place_of(const struct view_profiles *profiles,
                                   const struct export_dump *at)
{
    for (size_t i = 0; i < profiles->count && at->dump != NULL; i++) {
        const struct profile *profile = profiles->items[i].profile;
        if (at->heap >= profile->heaps && at->heap < profile->heaps + profile->heap_count)
            return (struct saved_place){(uint32_t)i, (uint32_t)(at->heap - profile->heaps),
                                        (uint32_t)(at->dump - at->heap->dumps)};
    }
    return (struct saved_place){PROFILE_NONE, 0, 0};
}

static void carry_place(struct carrier *carrier, const struct view_profiles *profiles,
                        struct export_dump *at)
{
    struct saved_place place = {PROFILE_NONE, 0, 0};
    if (!carrier->reads)
        place = place_of(profiles, at);
    carry_number(carrier, &place.profile);
    carry_number(carrier, &place.heap);
    carry_number(carrier, &place.dump);
    if (!carrier->reads || carrier->failed || place.profile == PROFILE_NONE)
        return;
    const struct profile *profile =
        place.profile < profiles->count ? profiles->items[place.profile].profile : NULL;
    if (profile == NULL || place.heap >= profile->heap_count ||
        place.dump >= profile->heaps[place.heap].dump_count)
        return carrier_fail(carrier, "there is no such dump");
    at->heap = &profile->heaps[place.heap];
    at->dump = &at->heap->dumps[place.dump];
}

void saved_opening_carry(struct carrier *carrier, const struct view_profiles *profiles,
                         struct view_opening *opening)
{
    uint32_t view = opening->view, tab = opening->tab != NULL;
    carry_place(carrier, profiles, &opening->at);
    carry_place(carrier, profiles, &opening->base);
    carry_number(carrier, &view);
    carry_number(carrier, &tab);
    if (view >= EXPORT_VIEWS)
        return carrier_fail(carrier, "there is no such view");
    opening->view = (enum export_view)view;
    opening->tab = tab != 0 ? VIEW_OPENING_FLAME : NULL;
}
