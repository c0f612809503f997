/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes and reads the block. One list of members describes each structure, and one function
 * carries each part in both directions, so that reader and writer cannot differ.
 */
#include "tools/view/saved/saved_profiles.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "profile/merge_samples.h"
#include "profile/profile_owner.h"
#include "profile/symbols/demangle.h"
#include "tools/view/answers/answers.h"
#include "util/id_map.h"
#include "util/xmalloc.h"

#define VERSION 1u

/* --- members --- */

enum member_type {
    BOOL,
    NUMBER32,
    NUMBER64,
    SIZE,
    DOUBLE,
    TEXT,
    TEXT_OR_NULL,
};

/* Arrays whose items are named by their number. */
enum array { NO_ARRAY, MAPPINGS, FRAMES, CALLSITES, PROCESSES, KNOWN, LOSSES, ARRAYS };

struct member {
    uint32_t offset;
    uint8_t type;
    uint8_t array;    /* the value is below the number of its items */
    bool may_be_none; /* or PROFILE_NONE */
};

struct structure {
    size_t bytes;
    const struct member *members;
    size_t count;
};
#define STRUCTURE(type, members)                                                                   \
    {                                                                                              \
        sizeof(type), members, sizeof(members) / sizeof(members[0])                                \
    }

#define M(of, member, type)                                                                        \
    {                                                                                              \
        offsetof(struct of, member), type, NO_ARRAY, false                                         \
    }
#define INDEX(of, member, array)                                                                   \
    {                                                                                              \
        offsetof(struct of, member), NUMBER32, array, false                                        \
    }
#define INDEX_OR_NONE(of, member, array)                                                           \
    {                                                                                              \
        offsetof(struct of, member), NUMBER32, array, true                                         \
    }

#define FIGURES(of, in)                                                                            \
    M(of, in.allocated_bytes, DOUBLE), M(of, in.allocated_count, DOUBLE),                          \
        M(of, in.allocated_bytes_variance, DOUBLE), M(of, in.allocated_count_variance, DOUBLE),    \
        M(of, in.samples, NUMBER64), M(of, in.freed_bytes, DOUBLE), M(of, in.freed_count, DOUBLE), \
        M(of, in.freed_bytes_variance, DOUBLE), M(of, in.freed_count_variance, DOUBLE),            \
        M(of, in.freed_samples, NUMBER64), M(of, in.lifetime_ms_sum, DOUBLE)
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

/* Single values beside other structures. */
static const struct member number_members[] = {{0, NUMBER32, NO_ARRAY, false}};
static const struct structure number_structure = STRUCTURE(uint32_t, number_members);
static const struct member known_index_members[] = {{0, NUMBER32, KNOWN, true}};
static const struct structure known_index_structure = STRUCTURE(uint32_t, known_index_members);
static const struct member flag_members[] = {{0, BOOL, NO_ARRAY, false}};
static const struct structure flag_structure = STRUCTURE(bool, flag_members);
static const struct member text_members[] = {{0, TEXT, NO_ARRAY, false}};
static const struct structure text_structure = STRUCTURE(const char *, text_members);

/* --- values --- */

struct carrier {
    bool reads;
    size_t counts[ARRAYS];
    /* writing */
    FILE *out, *texts_out;
    struct intern_table text_ids;
    const char *last_text; /* as many values in a row have the same */
    uint64_t last_number;
    /* reading */
    const unsigned char *bytes, *at, *end;
    const char **texts;
    size_t text_count;
    struct profile *profile; /* whose memory is filled */
    struct error *error;
    bool failed; /* then nothing more is read */
};

static void carrier_fail(struct carrier *carrier, const char *reason)
{
    if (!carrier->failed)
        error_set(carrier->error, -EBADMSG, "the data of the page are damaged at byte %zu: %s",
                  (size_t)(carrier->at - carrier->bytes), reason);
    carrier->failed = true;
}

/* Return zeroed memory that lives as long as the profile. */
static void *keep(struct carrier *carrier, size_t count, size_t bytes)
{
    return xmalloc_made(profile_merge_memory(carrier->profile, count + 1, bytes));
}

/* Return the next bytes; NULL: there are not so many. */
static const unsigned char *take(struct carrier *carrier, size_t count)
{
    const unsigned char *at = carrier->at;
    if (carrier->failed)
        return NULL;
    if (count > (size_t)(carrier->end - at)) {
        carrier_fail(carrier, "it ends too early");
        return NULL;
    }
    carrier->at += count;
    return at;
}

static void carry_number(struct carrier *carrier, uint32_t *number)
{
    unsigned char bytes[4];
    for (unsigned i = 0; i < 4; i++)
        bytes[i] = (unsigned char)(*number >> 8 * i);
    if (!carrier->reads)
        fwrite(bytes, 1, sizeof(bytes), carrier->out);
    const unsigned char *taken = carrier->reads ? take(carrier, sizeof(bytes)) : bytes;
    *number = taken == NULL ? 0
                            : (uint32_t)taken[0] | (uint32_t)taken[1] << 8 |
                                  (uint32_t)taken[2] << 16 | (uint32_t)taken[3] << 24;
}

/* Carry the number of an array's items. A damaged block cannot ask for much more memory than it
 * has bytes. */
static void carry_count(struct carrier *carrier, size_t *count)
{
    uint32_t number = (uint32_t)*count;
    if (!carrier->reads && *count > UINT32_MAX)
        xmalloc_fail(*count);
    carry_number(carrier, &number);
    if (carrier->reads && number > (size_t)(carrier->end - carrier->bytes)) {
        carrier_fail(carrier, "it has more items than bytes");
        number = 0;
    }
    *count = number;
}

/* --- columns --- */

static void write_column(FILE *out, const uint64_t *values, size_t count)
{
    uint64_t all = 0;
    unsigned char *plane = xmalloc(count + 1);
    for (size_t i = 0; i < count; i++)
        all |= values[i];
    unsigned planes = 0;
    for (; planes < 8 && all >> 8 * planes != 0; planes++)
        ;
    fputc((int)planes, out);
    for (unsigned i = 0; i < planes; i++) {
        for (size_t j = 0; j < count; j++)
            plane[j] = (unsigned char)(values[j] >> 8 * i);
        fwrite(plane, 1, count, out);
    }
    free(plane);
}

static void read_column(struct carrier *carrier, uint64_t *values, size_t count)
{
    const unsigned char *planes = take(carrier, 1);
    if (planes != NULL && *planes > 8)
        carrier_fail(carrier, "a number has more than 8 bytes");
    for (unsigned i = 0; !carrier->failed && i < *planes; i++) {
        const unsigned char *plane = take(carrier, count);
        if (plane == NULL)
            return;
        for (size_t j = 0; j < count; j++)
            values[j] |= (uint64_t)plane[j] << 8 * i;
    }
}

static void to_differences(uint64_t *values, size_t count)
{
    uint64_t last = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t difference = values[i] - last;
        last = values[i];
        values[i] = difference << 1 ^ (uint64_t)((int64_t)difference >> 63);
    }
}

static void from_differences(uint64_t *values, size_t count)
{
    uint64_t last = 0;
    for (size_t i = 0; i < count; i++) {
        last += values[i] >> 1 ^ -(values[i] & 1);
        values[i] = last;
    }
}

static uint64_t text_number(struct carrier *carrier, const char *text)
{
    bool added;
    if (text == NULL)
        return 0;
    if (text == carrier->last_text)
        return carrier->last_number;
    carrier->last_text = text;
    carrier->last_number = xmalloc_id(intern_bytes(&carrier->text_ids, text, strlen(text), &added));
    if (added)
        fwrite(text, 1, strlen(text) + 1, carrier->texts_out);
    return carrier->last_number;
}

static uint64_t load(struct carrier *carrier, const struct member *member, const char *at)
{
    uint32_t number;
    uint64_t value = 0;
    switch ((enum member_type)member->type) {
    case BOOL:
        return *(const bool *)at;
    case NUMBER32:
        memcpy(&number, at, sizeof(number));
        return number;
    case SIZE:
        return *(const size_t *)at;
    case TEXT:
    case TEXT_OR_NULL:
        return text_number(carrier, *(const char *const *)at);
    case NUMBER64:
    case DOUBLE:
        break;
    }
    memcpy(&value, at, sizeof(value));
    return value;
}

/* Store a column's values in the items. */
static void store(struct carrier *carrier, const struct member *member, char *items, size_t bytes,
                  const uint64_t *values, size_t count)
{
    enum member_type type = member->type;
    uint64_t most = type == BOOL                                    ? 1
                    : type == TEXT || type == TEXT_OR_NULL          ? carrier->text_count
                    : type == NUMBER32 && member->array != NO_ARRAY ? carrier->counts[member->array]
                    : type == NUMBER32                              ? UINT32_MAX
                    : type == SIZE                                  ? SIZE_MAX
                                                                    : UINT64_MAX;
    /* Numbers of texts begin at 1. */
    bool excludes_most = type == NUMBER32 && member->array != NO_ARRAY;
    for (size_t i = 0; i < count; i++) {
        char *at = items + i * bytes + member->offset;
        uint64_t value = values[i];
        bool is_none = member->may_be_none && value == PROFILE_NONE;
        if ((value > most - excludes_most || most < excludes_most) && !is_none)
            return carrier_fail(carrier, "a number is too large");
        if (type == TEXT && value == 0)
            return carrier_fail(carrier, "a text is missing");
        uint32_t number = (uint32_t)value;
        if (type == BOOL)
            *(bool *)at = value != 0;
        else if (type == NUMBER32)
            memcpy(at, &number, sizeof(number));
        else if (type == SIZE)
            *(size_t *)at = (size_t)value;
        else if (type == TEXT || type == TEXT_OR_NULL)
            *(const char **)at = value == 0 ? NULL : carrier->texts[value - 1];
        else
            memcpy(at, &value, sizeof(value));
    }
}

static void carry_items(struct carrier *carrier, const struct structure *structure, void *items,
                        size_t count)
{
    uint64_t *values = xcalloc(count + 1, sizeof(*values));
    for (size_t i = 0; i < structure->count && !carrier->failed; i++) {
        const struct member *member = &structure->members[i];
        if (carrier->reads) {
            memset(values, 0, count * sizeof(*values));
            read_column(carrier, values, count);
            if (carrier->failed)
                break;
            if (member->type != DOUBLE)
                from_differences(values, count);
            store(carrier, member, items, structure->bytes, values, count);
            continue;
        }
        for (size_t j = 0; j < count; j++)
            values[j] =
                load(carrier, member, (const char *)items + j * structure->bytes + member->offset);
        if (member->type != DOUBLE)
            to_differences(values, count);
        write_column(carrier->out, values, count);
    }
    free(values);
}

/* Carry an array whose number of items is known. */
static void carry_fixed(struct carrier *carrier, const struct structure *structure, void *items,
                        size_t count)
{
    void **array = items;
    if (carrier->reads)
        *array = xcalloc(count + 1, structure->bytes);
    carry_items(carrier, structure, *array, count);
}

/* Carry an array with the number of its items. */
static void carry_array(struct carrier *carrier, const struct structure *structure, void *items,
                        size_t *count)
{
    carry_count(carrier, count);
    carry_fixed(carrier, structure, items, *count);
}

/* Arrays of which each item of another array has one. */
struct nesting {
    const struct structure *structure;
    size_t items;        /* offset of the pointer in the outer item */
    struct member count; /* of the items */
    bool owned; /* each is freed with its outer item; else they live as long as the profile */
};
#define NESTING(of, items, count, count_type, structure, owned)                                    \
    {                                                                                              \
        structure, offsetof(struct of, items), M(of, count, count_type), owned                     \
    }

static size_t nested_count(const struct nesting *nesting, const char *outer)
{
    uint32_t number;
    if (nesting->count.type == SIZE)
        return *(const size_t *)(outer + nesting->count.offset);
    memcpy(&number, outer + nesting->count.offset, sizeof(number));
    return number;
}

/* Put the inner arrays one after the other. */
static char *gather_nested(const struct nesting *nesting, const char *outer, size_t outer_bytes,
                           size_t outer_count, size_t all)
{
    size_t bytes = nesting->structure->bytes;
    char *inner = xcalloc(all + 1, bytes), *to = inner;
    for (size_t i = 0; i < outer_count; i++, outer += outer_bytes) {
        size_t count = nested_count(nesting, outer);
        if (count > 0)
            memcpy(to, *(void *const *)(outer + nesting->items), count * bytes);
        to += count * bytes;
    }
    return inner;
}

/* Give each outer item its array. */
static void spread_nested(const struct nesting *nesting, char *outer, size_t outer_bytes,
                          size_t outer_count, char *inner)
{
    size_t bytes = nesting->structure->bytes;
    for (size_t i = 0; i < outer_count; i++, outer += outer_bytes) {
        size_t count = nested_count(nesting, outer);
        void *items = nesting->owned ? memcpy(xcalloc(count + 1, bytes), inner, count * bytes)
                                     : (void *)inner;
        memcpy(outer + nesting->items, &items, sizeof(items));
        inner += count * bytes;
    }
}

/* After a failure, no outer item has an array. */
static void forget_nested(const struct nesting *nesting, char *outer, size_t outer_bytes,
                          size_t outer_count)
{
    size_t bytes = nesting->count.type == SIZE ? sizeof(size_t) : sizeof(uint32_t);
    for (size_t i = 0; i < outer_count; i++, outer += outer_bytes)
        memset(outer + nesting->count.offset, 0, bytes);
}

static void carry_nested(struct carrier *carrier, const struct nesting *nesting, void *outer,
                         size_t outer_bytes, size_t outer_count)
{
    const struct structure counts = {outer_bytes, &nesting->count, 1};
    size_t bytes = nesting->structure->bytes, all = 0, sum = 0;
    for (size_t i = 0; i < outer_count && !carrier->reads; i++)
        all += nested_count(nesting, (char *)outer + i * outer_bytes);
    carry_count(carrier, &all);
    carry_items(carrier, &counts, outer, outer_count);
    for (size_t i = 0; i < outer_count; i++) {
        size_t count = nested_count(nesting, (char *)outer + i * outer_bytes);
        sum = count <= all - sum ? sum + count : all + 1;
        if (sum > all)
            break;
    }
    if (sum != all && !carrier->failed)
        carrier_fail(carrier, "arrays are not as long as together");
    if (carrier->failed)
        return forget_nested(nesting, outer, outer_bytes, outer_count);
    char *inner = !carrier->reads  ? gather_nested(nesting, outer, outer_bytes, outer_count, all)
                  : nesting->owned ? xcalloc(all + 1, bytes)
                                   : keep(carrier, all, bytes);
    carry_items(carrier, nesting->structure, inner, all);
    if (carrier->reads)
        spread_nested(nesting, outer, outer_bytes, outer_count, inner);
    if (!carrier->reads || nesting->owned)
        free(inner);
}

/* --- a profile --- */

/* A profile as the block has it: beside its own arrays, what these only point to. */
struct saved_profile {
    struct profile *profile;
    struct known_frames *known; /* each once */
    size_t known_count;
    uint32_t *known_of; /* by frame: in `known`; PROFILE_NONE: a frame of the program */
    /* Of all kept dumps. */
    struct profile_sample *samples;
    size_t sample_count;
    struct saved_list {
        void *items;
        size_t count;
    } * parts,  /* by sample; none if its only part has its figures */
        *dumps; /* by dump of all heaps: the numbers of its samples */
    size_t dump_count;
    /* By heap and by dump of all heaps: as in view_kept. */
    bool *are_listed, *are_kept;
    const char **sentences;
};

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

static void carry_profile(struct carrier *carrier, struct saved_profile *saved)
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
    carry_nested(carrier, &sample_number_nesting, saved->dumps, sizeof(*saved->dumps),
                 saved->dump_count);
}

static void saved_profile_free(struct saved_profile *saved)
{
    for (size_t i = 0; i < saved->dump_count && saved->dumps != NULL; i++)
        free(saved->dumps[i].items);
    free(saved->dumps);
    free(saved->parts);
    free(saved->known_of);
    free(saved->are_listed);
    free(saved->are_kept);
    free(saved->sentences);
}

/* --- writing --- */

/* What of a profile is written. The copies of its parts live until it is. */
struct kept_profile {
    struct profile profile;
    const struct view_profile *of;
    uint32_t *callsites, *frames,
        *mappings; /* their numbers in the block; PROFILE_NONE: left out */
};

/* Turn marks into numbers, in order. Return how many there are. */
static size_t number_marked(uint32_t *marks, size_t count)
{
    uint32_t used = 0;
    for (size_t i = 0; i < count; i++)
        marks[i] = marks[i] != 0 ? used++ : PROFILE_NONE;
    return used;
}

/* Mark a callsite with its callers, their frames and mappings. */
static void mark_callsite(struct kept_profile *kept, uint64_t at)
{
    const struct profile *profile = kept->of->profile;
    for (; at != PROFILE_NONE && kept->callsites[at] == 0; at = profile->callsites[at].parent) {
        uint32_t frame = profile->callsites[at].frame, mapping = profile->frames[frame].mapping;
        kept->callsites[at] = kept->frames[frame] = 1;
        if (mapping != PROFILE_NONE)
            kept->mappings[mapping] = 1;
    }
}

static uint32_t number_of(const uint32_t *numbers, uint32_t index)
{
    return index == PROFILE_NONE ? PROFILE_NONE : numbers[index];
}

/* Copy the marked items of an array. */
static void *copy_marked(const void *items, size_t bytes, const uint32_t *numbers, size_t count,
                         size_t left)
{
    char *copy = xcalloc(left + 1, bytes);
    for (size_t i = 0; i < count; i++)
        if (numbers[i] != PROFILE_NONE)
            memcpy(copy + numbers[i] * bytes, (const char *)items + i * bytes, bytes);
    return copy;
}

/* Take the samples of the kept dumps of a heap, and the numbers of each dump's. */
static void take_samples(struct saved_profile *saved, struct kept_samples *samples,
                         const struct profile_heap *heap, const bool *are_kept,
                         struct saved_list *dumps)
{
    size_t before = saved->sample_count;
    for (size_t i = 0; i < heap->dump_count; i++) {
        if (!are_kept[i])
            continue;
        uint32_t *numbers = xcalloc(heap->dumps[i].sample_count + 1, sizeof(*numbers));
        kept_samples_add(samples, &heap->dumps[i], numbers);
        for (size_t j = 0; j < heap->dumps[i].sample_count; j++)
            numbers[j] += (uint32_t)before;
        dumps[i] = (struct saved_list){numbers, heap->dumps[i].sample_count};
    }
    saved->sample_count += samples->count;
    saved->samples =
        xreallocarray(saved->samples, saved->sample_count + 1, sizeof(*saved->samples));
    saved->parts = xreallocarray(saved->parts, saved->sample_count + 1, sizeof(*saved->parts));
    for (size_t i = 0; i < samples->count; i++) {
        const struct profile_sample *sample = samples->items[i];
        bool is_single = sample->part_count == 1 && sample->parts == &sample->single;
        saved->samples[before + i] = *sample;
        saved->parts[before + i] =
            (struct saved_list){(void *)sample->parts, is_single ? 0 : sample->part_count};
    }
    kept_samples_reset(samples);
}

/* Return the answer of api/summary. */
static char *sentences_of(struct view_profiles *profiles, const struct view_profile *of,
                          const struct export_dump *at)
{
    char *text;
    size_t length;
    FILE *out = xopen_memstream(&text, &length);
    summary_write(profiles, of, at, out);
    xclose_memstream(out);
    return text;
}

/* Take what the page shows of the heaps and their dumps; of heaps that are not listed, no dump. */
static void take_heaps(struct saved_profile *saved, struct view_profiles *profiles,
                       struct kept_profile *kept, const struct view_kept_heaps *heaps)
{
    struct profile *profile = &kept->profile;
    struct kept_samples samples = {.profile = kept->of->profile};
    profile->heaps = xcalloc(profile->heap_count + 1, sizeof(*profile->heaps));
    saved->are_listed = xcalloc(profile->heap_count + 1, sizeof(*saved->are_listed));
    for (size_t i = 0; i < profile->heap_count; i++) {
        const struct profile_heap *heap = &kept->of->profile->heaps[i];
        profile->heaps[i] = *heap;
        saved->are_listed[i] = heaps->items[i].is_listed;
        if (!saved->are_listed[i])
            profile->heaps[i].dump_count = profile->heaps[i].status.place_count = 0;
        saved->dump_count += profile->heaps[i].dump_count;
    }
    saved->are_kept = xcalloc(saved->dump_count + 1, sizeof(*saved->are_kept));
    saved->sentences = xcalloc(saved->dump_count + 1, sizeof(*saved->sentences));
    saved->dumps = xcalloc(saved->dump_count + 1, sizeof(*saved->dumps));
    size_t first = 0;
    for (size_t i = 0; i < profile->heap_count; i++) {
        struct profile_heap *heap = &profile->heaps[i];
        const struct profile_heap *whole = &kept->of->profile->heaps[i];
        heap->dumps = xcalloc(heap->dump_count + 1, sizeof(*heap->dumps));
        for (size_t j = 0; j < heap->dump_count; j++) {
            const struct export_dump at = {whole, &whole->dumps[j]};
            bool is_kept = heaps->items[i].dumps != NULL && heaps->items[i].dumps[j];
            heap->dumps[j] = whole->dumps[j];
            heap->dumps[j].site_count = is_kept ? heap->dumps[j].site_count : 0;
            saved->are_kept[first + j] = is_kept;
            saved->sentences[first + j] =
                is_kept ? sentences_of(profiles, kept->of, &at) : xstrdup("");
        }
        take_samples(saved, &samples, heap, saved->are_kept + first, saved->dumps + first);
        first += heap->dump_count;
    }
    kept_samples_free(&samples);
}

/* Give samples, sites and places their new numbers. */
static void renumber_heaps(struct saved_profile *saved, const struct kept_profile *kept)
{
    for (size_t i = 0; i < saved->sample_count; i++)
        saved->samples[i].callsite = kept->callsites[saved->samples[i].callsite];
    for (size_t i = 0; i < kept->profile.heap_count; i++) {
        struct profile_heap *heap = &kept->profile.heaps[i];
        struct trace_heap_dump *status = &heap->status;
        struct trace_place *places = xcalloc(status->place_count + 1, sizeof(*places));
        size_t count = 0;
        for (size_t j = 0; j < status->place_count; j++) {
            places[count] = status->places[j];
            places[count].mapping = kept->mappings[status->places[j].mapping];
            count += places[count].mapping != PROFILE_NONE;
        }
        status->places = places;
        status->place_count = count;
        for (size_t j = 0; j < heap->dump_count; j++) {
            struct profile_dump *dump = &heap->dumps[j];
            struct trace_memory_site *sites = xcalloc(dump->site_count + 1, sizeof(*sites));
            for (size_t k = 0; k < dump->site_count; k++) {
                sites[k] = dump->sites[k];
                sites[k].callsite = kept->callsites[sites[k].callsite];
            }
            dump->sites = sites;
        }
    }
}

/* Return the simple name of a frame, which the page cannot make of the mangled one. */
static const char *simple_name(const struct profile_frame *frame, struct id_map *known,
                               char ***names, size_t *count, size_t *capacity)
{
    const char *mangled = frame->linkage_name;
    if (*mangled == '\0' || *frame->obfuscated_name != '\0')
        return "";
    uint32_t at = id_map_find(known, (uint64_t)(uintptr_t)mangled);
    if (at == ID_MAP_NONE) {
        char *name = xmalloc_made(demangle_name_as(mangled, DEMANGLE_SIMPLE));
        at = (uint32_t)*count;
        XARRAY_ADD(names, count, capacity, name);
        xmalloc_code(id_map_set(known, (uint64_t)(uintptr_t)mangled, at));
    }
    return (*names)[at];
}

/* Take the callsites of the samples and sites, and what these need. */
static void take_callsites(struct saved_profile *saved, struct kept_profile *kept)
{
    const struct profile *whole = kept->of->profile;
    struct profile *profile = &kept->profile;
    for (size_t i = 0; i < saved->sample_count; i++)
        mark_callsite(kept, saved->samples[i].callsite);
    for (size_t i = 0; i < profile->heap_count; i++)
        for (size_t j = 0; j < profile->heaps[i].dump_count; j++)
            for (size_t k = 0; k < profile->heaps[i].dumps[j].site_count; k++)
                mark_callsite(kept, profile->heaps[i].dumps[j].sites[k].callsite);
    profile->callsite_count = number_marked(kept->callsites, whole->callsite_count);
    profile->frame_count = number_marked(kept->frames, whole->frame_count);
    profile->mapping_count = number_marked(kept->mappings, whole->mapping_count);
    profile->callsites = copy_marked(whole->callsites, sizeof(*whole->callsites), kept->callsites,
                                     whole->callsite_count, profile->callsite_count);
    profile->frames = copy_marked(whole->frames, sizeof(*whole->frames), kept->frames,
                                  whole->frame_count, profile->frame_count);
    profile->mappings = copy_marked(whole->mappings, sizeof(*whole->mappings), kept->mappings,
                                    whole->mapping_count, profile->mapping_count);
    for (size_t i = 0; i < profile->callsite_count; i++) {
        struct profile_callsite *callsite = &profile->callsites[i];
        callsite->parent = number_of(kept->callsites, callsite->parent);
        callsite->frame = kept->frames[callsite->frame];
    }
    for (size_t i = 0; i < profile->frame_count; i++)
        profile->frames[i].mapping = number_of(kept->mappings, profile->frames[i].mapping);
    renumber_heaps(saved, kept);
}

/* Take the groups into which frames are folded. */
static void take_known(struct saved_profile *saved, const struct kept_profile *kept)
{
    const struct profile *whole = kept->of->profile;
    struct id_map ids = {0};
    size_t capacity = 0;
    saved->known_of = xcalloc(kept->profile.frame_count + 1, sizeof(*saved->known_of));
    for (size_t i = 0; i < whole->frame_count; i++) {
        const struct known_frames *known = folding_of(&kept->of->folding, (uint32_t)i);
        uint32_t frame = kept->frames[i], at = PROFILE_NONE;
        if (frame == PROFILE_NONE)
            continue;
        if (known != NULL && (at = id_map_find(&ids, (uint64_t)(uintptr_t)known)) == ID_MAP_NONE) {
            at = (uint32_t)saved->known_count;
            XARRAY_ADD(&saved->known, &saved->known_count, &capacity, *known);
            xmalloc_code(id_map_set(&ids, (uint64_t)(uintptr_t)known, at));
        }
        saved->known_of[frame] = at;
    }
    id_map_free(&ids);
}

static void write_profile(struct carrier *page, struct saved_profile *saved)
{
    struct carrier carrier = {.reads = false};
    char *texts, *columns;
    size_t text_bytes, column_bytes;
    carrier.texts_out = xopen_memstream(&texts, &text_bytes);
    carrier.out = xopen_memstream(&columns, &column_bytes);
    carry_profile(&carrier, saved);
    xclose_memstream(carrier.texts_out);
    xclose_memstream(carrier.out);
    carry_count(page, &text_bytes);
    fwrite(texts, 1, text_bytes, page->out);
    fwrite(columns, 1, column_bytes, page->out);
    intern_free(&carrier.text_ids);
    free(texts);
    free(columns);
}

static void kept_profile_free(struct kept_profile *kept)
{
    for (size_t i = 0; i < kept->profile.heap_count; i++) {
        struct profile_heap *heap = &kept->profile.heaps[i];
        for (size_t j = 0; j < heap->dump_count; j++)
            free((void *)heap->dumps[j].sites);
        free((void *)heap->status.places);
        free(heap->dumps);
    }
    free(kept->profile.heaps);
    free(kept->profile.callsites);
    free(kept->profile.frames);
    free(kept->profile.mappings);
    free(kept->callsites);
    free(kept->frames);
    free(kept->mappings);
}

static void save_profile(struct carrier *page, struct view_profiles *profiles,
                         const struct view_profile *of, const struct view_kept_heaps *heaps)
{
    const struct profile *whole = of->profile;
    struct kept_profile kept = {
        .profile = *whole,
        .of = of,
        .callsites = xcalloc(whole->callsite_count + 1, sizeof(uint32_t)),
        .frames = xcalloc(whole->frame_count + 1, sizeof(uint32_t)),
        .mappings = xcalloc(whole->mapping_count + 1, sizeof(uint32_t)),
    };
    struct saved_profile saved = {.profile = &kept.profile};
    struct id_map names_of = {0};
    char **names = NULL;
    size_t name_count = 0, name_capacity = 0;
    take_heaps(&saved, profiles, &kept, heaps);
    take_callsites(&saved, &kept);
    take_known(&saved, &kept);
    for (size_t i = 0; i < kept.profile.frame_count; i++)
        kept.profile.frames[i].linkage_name =
            simple_name(&kept.profile.frames[i], &names_of, &names, &name_count, &name_capacity);
    write_profile(page, &saved);
    for (size_t i = 0; i < name_count; i++)
        free(names[i]);
    free(names);
    id_map_free(&names_of);
    for (size_t i = 0; i < saved.dump_count; i++)
        free((void *)saved.sentences[i]);
    free(saved.known);
    free(saved.samples);
    saved_profile_free(&saved);
    kept_profile_free(&kept);
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

static void carry_opening(struct carrier *carrier, const struct view_profiles *profiles,
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

/* --- the block --- */

void saved_profiles_write(struct view_profiles *profiles, const struct view_kept *kept,
                          const struct view_opening *opening, FILE *out)
{
    struct carrier carrier = {.out = out};
    struct view_opening copy = *opening;
    uint32_t version = VERSION, count = (uint32_t)profiles->count, native = profiles->native;
    carry_number(&carrier, &version);
    carry_number(&carrier, &count);
    carry_number(&carrier, &native);
    for (size_t i = 0; i < profiles->count; i++) {
        size_t length = strlen(profiles->items[i].path);
        carry_count(&carrier, &length);
        fwrite(profiles->items[i].path, 1, length, out);
        save_profile(&carrier, profiles, &profiles->items[i], &kept->profiles[i]);
    }
    carry_opening(&carrier, profiles, &copy);
}

/* Read the list of texts, which the profile keeps. */
static void read_texts(struct carrier *carrier)
{
    size_t length = 0;
    carry_count(carrier, &length);
    const unsigned char *bytes = take(carrier, length);
    if (bytes == NULL || length == 0)
        return;
    if (bytes[length - 1] != '\0')
        return carrier_fail(carrier, "a text has no end");
    char *copy = memcpy(keep(carrier, length, 1), bytes, length);
    for (size_t i = 0; i < length; i++)
        carrier->text_count += copy[i] == '\0';
    carrier->texts = xcalloc(carrier->text_count + 1, sizeof(*carrier->texts));
    for (size_t i = 0; i < carrier->text_count; i++) {
        carrier->texts[i] = copy;
        copy += strlen(copy) + 1;
    }
}

/* Let the profile own the samples. */
static void keep_samples(struct profile_owner *owner, struct saved_profile *saved)
{
    owner->samples = xcalloc(1, sizeof(*owner->samples));
    owner->samples->samples = saved->samples;
    owner->samples->count = owner->samples->capacity = saved->sample_count;
}

/* Make depths, and check what a number alone does not show. */
static void check_profile(struct carrier *carrier, const struct saved_profile *saved)
{
    struct profile *profile = saved->profile;
    for (size_t i = 0; i < profile->callsite_count; i++) {
        struct profile_callsite *callsite = &profile->callsites[i];
        if (callsite->parent != PROFILE_NONE && callsite->parent >= i)
            return carrier_fail(carrier, "a callsite comes before its caller");
        callsite->depth =
            callsite->parent == PROFILE_NONE ? 0 : profile->callsites[callsite->parent].depth + 1;
    }
    for (size_t i = 0; i < profile->heap_count; i++) {
        const struct profile_heap *heap = &profile->heaps[i];
        for (size_t j = 0; j < heap->dump_count; j++)
            for (size_t k = 0; k < heap->dumps[j].site_count; k++)
                if (heap->dumps[j].sites[k].callsite >= profile->callsite_count)
                    return carrier_fail(carrier, "a site has no callsite");
    }
    for (size_t i = 0; i < saved->sample_count; i++) {
        const struct profile_sample *sample = &saved->samples[i];
        bool has_label = sample->type != NULL && sample->context != NULL;
        bool is_single = saved->parts[i].count == 0 && sample->part_count == 1 && has_label;
        if (!is_single && saved->parts[i].count != sample->part_count)
            return carrier_fail(carrier, "a sample lacks its parts");
    }
}

/* Point dumps to their samples, and samples to their parts. */
static void link_samples(struct carrier *carrier, const struct saved_profile *saved)
{
    size_t at = 0;
    for (size_t i = 0; i < saved->sample_count; i++) {
        struct profile_sample *sample = &saved->samples[i];
        sample->parts = saved->parts[i].count > 0 ? saved->parts[i].items
                        : sample->part_count == 1 ? &sample->single
                                                  : NULL;
    }
    for (size_t i = 0; i < saved->profile->heap_count; i++) {
        struct profile_heap *heap = &saved->profile->heaps[i];
        for (size_t j = 0; j < heap->dump_count; j++, at++) {
            struct profile_dump *dump = &heap->dumps[j];
            const uint32_t *numbers = saved->dumps[at].items;
            dump->samples = xcalloc(saved->dumps[at].count + 1, sizeof(*dump->samples));
            for (size_t k = 0; k < saved->dumps[at].count; k++) {
                if (numbers[k] >= saved->sample_count)
                    return carrier_fail(carrier, "there is no such sample");
                dump->samples[dump->sample_count++] = &saved->samples[numbers[k]];
                dump->part_count += saved->samples[numbers[k]].part_count;
            }
        }
    }
}

/* Take which heaps and dumps there are, and their sentences. */
static void read_kept(struct carrier *carrier, const struct saved_profile *saved,
                      struct view_kept_heaps *kept)
{
    const struct profile *profile = saved->profile;
    size_t at = 0;
    kept->count = profile->heap_count;
    kept->items = xcalloc(kept->count + 1, sizeof(*kept->items));
    for (size_t i = 0; i < kept->count; i++) {
        struct view_kept_heap *heap = &kept->items[i];
        size_t count = profile->heaps[i].dump_count;
        heap->is_listed = saved->are_listed[i];
        if (count > 0 && memchr(saved->are_kept + at, true, count) != NULL) {
            heap->dumps = xcalloc(count, sizeof(*heap->dumps));
            memcpy(heap->dumps, saved->are_kept + at, count * sizeof(*heap->dumps));
            heap->sentences = keep(carrier, count, sizeof(*heap->sentences));
            memcpy(heap->sentences, saved->sentences + at, count * sizeof(*heap->sentences));
        }
        for (size_t j = 0; j < count && heap->dumps != NULL; j++)
            heap->last = heap->dumps[j] ? j : heap->last;
        at += count;
    }
}

static struct folding read_folding(struct carrier *carrier, const struct saved_profile *saved)
{
    size_t count = saved->profile->frame_count;
    struct known_frames *known = keep(carrier, saved->known_count, sizeof(*known));
    struct folding folding = {xcalloc(count + 1, sizeof(*folding.frames))};
    memcpy(known, saved->known, saved->known_count * sizeof(*known));
    for (size_t i = 0; i < count; i++)
        folding.frames[i] = saved->known_of[i] == PROFILE_NONE ? NULL : &known[saved->known_of[i]];
    return folding;
}

static void read_profile(struct carrier *page, struct saved_profiles *into)
{
    struct profile_owner *owner = xcalloc(1, sizeof(*owner));
    struct saved_profile saved = {.profile = &owner->profile};
    struct carrier carrier = *page;
    char path[PATH_MAX];
    size_t length = 0;
    carry_count(&carrier, &length);
    const unsigned char *bytes = take(&carrier, length);
    snprintf(path, sizeof(path), "%.*s", bytes == NULL ? 0 : (int)length, (const char *)bytes);
    carrier.profile = saved.profile;
    carrier.counts[LOSSES] = TRACE_LOSS_IDS;
    read_texts(&carrier);
    carry_profile(&carrier, &saved);
    if (!carrier.failed)
        check_profile(&carrier, &saved);
    keep_samples(owner, &saved);
    if (!carrier.failed)
        link_samples(&carrier, &saved);
    if (!carrier.failed) {
        struct folding folding = read_folding(&carrier, &saved);
        read_kept(&carrier, &saved, &into->kept.profiles[into->profiles.count]);
        view_profiles_take(&into->profiles, path, saved.profile, &folding);
    } else {
        profile_free(saved.profile);
    }
    free(saved.known);
    saved_profile_free(&saved);
    free(carrier.texts);
    page->at = carrier.at;
    page->failed = carrier.failed;
}

int saved_profiles_read(struct saved_profiles *saved, const void *bytes, size_t length,
                        struct error *error)
{
    struct carrier carrier = {.reads = true,
                              .bytes = bytes,
                              .at = bytes,
                              .end = (const unsigned char *)bytes + length,
                              .error = error};
    uint32_t version = 0, count = 0, native = 0;
    *saved = (struct saved_profiles){0};
    carry_number(&carrier, &version);
    carry_number(&carrier, &count);
    carry_number(&carrier, &native);
    if (!carrier.failed && version != VERSION)
        carrier_fail(&carrier, "it is of another version");
    if (count > VIEW_PROFILES_MAX)
        carrier_fail(&carrier, "it has too many profiles");
    for (uint32_t i = 0; i < count && !carrier.failed; i++)
        read_profile(&carrier, saved);
    carry_opening(&carrier, &saved->profiles, &saved->opening);
    view_profiles_link(&saved->profiles);
    saved->profiles.native = native != 0;
    saved->profiles.kept = &saved->kept;
    saved->profiles.opening = &saved->opening;
    return carrier.failed ? -EBADMSG : 0;
}

void saved_profiles_free(struct saved_profiles *saved)
{
    view_profiles_free(&saved->profiles);
    view_kept_clear(&saved->kept);
}
