/* SPDX-License-Identifier: Apache-2.0 */
/* Read packets: the timeline, and dispatch of the others. */
#include <string.h>

#include "pb_field_numbers.h"
#include "profile/builder/builder_deobfuscation.h"
#include "profile/builder/builder_stack_samples.h"
#include "util/array.h"

#define SEQUENCE_CLEARED 1u
#define SEQUENCE_NEEDED 2u /* the packet refers to interned data */

/* --- the timeline --- */

/* Live bytes of a process's heaps and the profiler's own memory, in addition to the system's
 * figures. */
struct heap_size {
    int32_t pid; /* 0: absent */
    uint64_t live_bytes;
    uint64_t profiler_anon_bytes, profiler_file_bytes, profiler_shmem_bytes;
};

static const struct proto_member heap_size_members[] = {
    PROTO_MEMBER(PB_HEAP_SIZE_PID, struct heap_size, pid),
    PROTO_MEMBER(PB_HEAP_SIZE_LIVE_BYTES, struct heap_size, live_bytes),
    PROTO_MEMBER(PB_HEAP_SIZE_PROFILER_ANON_BYTES, struct heap_size, profiler_anon_bytes),
    PROTO_MEMBER(PB_HEAP_SIZE_PROFILER_FILE_BYTES, struct heap_size, profiler_file_bytes),
    PROTO_MEMBER(PB_HEAP_SIZE_PROFILER_SHMEM_BYTES, struct heap_size, profiler_shmem_bytes),
};

static int add_memory_point(struct builder *builder, int32_t pid,
                            const struct profile_memory_point *point)
{
    bool has_parts = point->rss_file_bytes != PROFILE_UNKNOWN_BYTES ||
                     point->rss_shmem_bytes != PROFILE_UNKNOWN_BYTES ||
                     point->swap_bytes != PROFILE_UNKNOWN_BYTES;
    if ((point->rss_bytes | point->vm_bytes | point->heap_bytes) == 0 && !has_parts)
        return 0;
    uint32_t index = builder_process(builder, pid);
    if (index == PROFILE_NONE)
        return builder->error;
    struct profile_process *process = &builder->profile->processes[index];
    if (ARRAY_RESERVE(&process->timeline, &builder->timeline_capacities[index],
                      process->timeline_count, 1) < 0)
        return builder_fail(builder);
    process->timeline[process->timeline_count++] = *point;
    builder_date(builder, DATED_MEMORY_POINT, index, process->timeline_count - 1);
    return 0;
}

/* A process of ProcessStats, in KiB except for the heap. */
struct stats_entry {
    int32_t pid;
    uint64_t vm_kb, rss_kb, rss_anon_kb, heap_bytes;
    uint64_t rss_file_kb, rss_shmem_kb, swap_kb; /* UINT64_MAX: absent */
};

static uint64_t bytes_of_kb(uint64_t kb)
{
    return kb > UINT64_MAX / 1024 ? PROFILE_UNKNOWN_BYTES : kb * 1024;
}

static uint64_t without(uint64_t bytes, uint64_t part)
{
    return bytes == PROFILE_UNKNOWN_BYTES ? bytes : bytes > part ? bytes - part : 0;
}

/* Take the profiler's own memory out of the process's. The kernel counted all of it. */
static void take_out_profiler(struct profile_memory_point *point, const struct heap_size *size)
{
    uint64_t anon = size->profiler_anon_bytes, file = size->profiler_file_bytes,
             shmem = size->profiler_shmem_bytes;
    if (anon > PROFILE_BYTES_MAX || file > PROFILE_BYTES_MAX || shmem > PROFILE_BYTES_MAX)
        return;
    point->profiler_bytes = anon + file + shmem;
    point->rss_bytes = without(point->rss_bytes, point->profiler_bytes);
    point->rss_anon_bytes = without(point->rss_anon_bytes, anon);
    point->rss_file_bytes = without(point->rss_file_bytes, file);
    point->rss_shmem_bytes = without(point->rss_shmem_bytes, shmem);
}

#define STATS(name, member)                                                                        \
    PROTO_MEMBER(PB_PROCESS_STATS_PROCESS_##name, struct stats_entry, member)

static int take_memory_point(struct builder *builder, struct proto_span message, uint64_t packet_ns,
                             struct heap_size *size)
{
    static const struct proto_member members[] = {
        STATS(PID, pid),
        STATS(VM_SIZE_KB, vm_kb),
        STATS(VM_RSS_KB, rss_kb),
        STATS(RSS_ANON_KB, rss_anon_kb),
        STATS(RSS_FILE_KB, rss_file_kb),
        STATS(RSS_SHMEM_KB, rss_shmem_kb),
        STATS(VM_SWAP_KB, swap_kb),
        STATS(HEAP_BYTES, heap_bytes),
    };
    struct stats_entry entry = {
        .rss_file_kb = UINT64_MAX, .rss_shmem_kb = UINT64_MAX, .swap_kb = UINT64_MAX};
    if (proto_read_members(PROTO_MEMBERS(members), message, &entry) < 0)
        return -EBADMSG;
    int32_t pid = entry.pid;
    struct profile_memory_point point = {.boottime_ns = packet_ns,
                                         .rss_bytes = entry.rss_kb * 1024,
                                         .rss_anon_bytes = entry.rss_anon_kb * 1024,
                                         .vm_bytes = entry.vm_kb * 1024,
                                         .heap_bytes = entry.heap_bytes,
                                         .rss_file_bytes = bytes_of_kb(entry.rss_file_kb),
                                         .rss_shmem_bytes = bytes_of_kb(entry.rss_shmem_kb),
                                         .swap_bytes = bytes_of_kb(entry.swap_kb),
                                         .profiler_bytes = PROFILE_UNKNOWN_BYTES};
    if ((point.rss_bytes | point.rss_anon_bytes | point.vm_bytes) != 0)
        builder_mention(builder, pid, 0, packet_ns);
    if (size->pid != 0 && size->pid == pid) {
        point.heap_bytes = size->live_bytes;
        take_out_profiler(&point, size);
        size->pid = 0;
    }
    return add_memory_point(builder, pid, &point);
}

/* Add points of the timeline: ProcessStats, with or without a HeapSize, or a HeapSize alone. */
static int take_timeline(struct builder *builder, struct proto_span stats, struct proto_span heap,
                         uint64_t packet_ns)
{
    struct heap_size size = {.profiler_anon_bytes = PROFILE_UNKNOWN_BYTES,
                             .profiler_file_bytes = PROFILE_UNKNOWN_BYTES,
                             .profiler_shmem_bytes = PROFILE_UNKNOWN_BYTES};
    struct proto_field field;
    int status = 0, code = 0;
    if (heap.at != NULL && proto_read_members(PROTO_MEMBERS(heap_size_members), heap, &size) < 0)
        code = -EBADMSG;
    while (code == 0 && stats.at != NULL && (status = proto_next(&stats, &field)) != 0) {
        if (status < 0)
            return -EBADMSG;
        if (field.number == PB_PROCESS_STATS_PROCESSES)
            code = take_memory_point(builder, field.span, packet_ns, &size);
    }
    if (code == 0 && size.pid != 0)
        code = add_memory_point(
            builder, size.pid,
            &(struct profile_memory_point){.boottime_ns = packet_ns,
                                           .heap_bytes = size.live_bytes,
                                           .rss_file_bytes = PROFILE_UNKNOWN_BYTES,
                                           .rss_shmem_bytes = PROFILE_UNKNOWN_BYTES,
                                           .swap_bytes = PROFILE_UNKNOWN_BYTES,
                                           .profiler_bytes = PROFILE_UNKNOWN_BYTES});
    return code;
}

/* --- packets --- */

/* What every packet may have. */
struct packet_head {
    uint64_t timestamp_ns;
    uint64_t clock; /* of the timestamp; 0: absent */
    uint32_t sequence_id, machine;
    uint32_t flags;
    bool cleared, dropped, first_on_sequence;
    bool has_parts, has_track_parts;
};

struct packet_parts {
    struct packet_head head;
    struct proto_span interned, profile_packet, tree, stats, clocks, symbols, unprofiled, config,
        service_stats;
    struct proto_span allocations, frees, deobfuscation, packages, smaps, memory_snapshot, defaults,
        heap_size, process_end, stack_sample;
    struct track_parts tracks;
};

#define PACKET_PARTS(PART)                                                                         \
    PART(TRACE_PACKET_DEFAULTS, defaults)                                                          \
    PART(INTERNED_DATA, interned)                                                                  \
    PART(PROFILE_PACKET, profile_packet)                                                           \
    PART(PROCESS_TREE, tree)                                                                       \
    PART(PROCESS_STATS, stats)                                                                     \
    PART(CLOCK_SNAPSHOT, clocks)                                                                   \
    PART(MODULE_SYMBOLS, symbols)                                                                  \
    PART(DEOBFUSCATION_MAPPING, deobfuscation)                                                     \
    PART(PACKAGES_LIST, packages)                                                                  \
    PART(STREAMING_ALLOCATION, allocations)                                                        \
    PART(STREAMING_FREE, frees)                                                                    \
    PART(SMAPS_PACKET, smaps)                                                                      \
    PART(MEMORY_SNAPSHOT, memory_snapshot)                                                         \
    PART(HEAP_SIZE, heap_size)                                                                     \
    PART(PROCESS_END, process_end)                                                                 \
    PART(STACK_SAMPLE, stack_sample)                                                               \
    PART(UNPROFILED_PROCESS, unprofiled)                                                           \
    PART(TRACE_CONFIG, config)                                                                     \
    PART(TRACE_STATS, service_stats)

/* Those that are only read for SQL (builder_tracks.c), beside PROCESS_STATS. */
#define TRACK_PARTS(PART)                                                                          \
    PART(SYS_STATS, tracks.sys_stats)                                                              \
    PART(TRACK_DESCRIPTOR, tracks.descriptor)                                                      \
    PART(TRACK_EVENT, tracks.event)                                                                \
    PART(GENERIC_KERNEL_TASK_STATE_EVENT, tracks.task_state)

/* Read the head. Most packets of a combined trace have no parts: this is all that they cost. */
static int read_head(struct proto_span packet, struct packet_head *head)
{
    struct proto_field field;
    int status;
    while ((status = proto_next(&packet, &field)) > 0) {
        switch (field.number) {
#define NUMBER(name, member)                                                                       \
    case PB_TRACE_PACKET_##name:                                                                   \
        head->member = field.value;                                                                \
        break;
            NUMBER(TIMESTAMP, timestamp_ns)
            NUMBER(TIMESTAMP_CLOCK_ID, clock)
            NUMBER(TRUSTED_PACKET_SEQUENCE_ID, sequence_id)
            NUMBER(MACHINE_ID, machine)
            NUMBER(SEQUENCE_FLAGS, flags)
            NUMBER(INCREMENTAL_STATE_CLEARED, cleared)
            NUMBER(PREVIOUS_PACKET_DROPPED, dropped)
            NUMBER(FIRST_PACKET_ON_SEQUENCE, first_on_sequence)
#undef NUMBER
#define PART(name, member) case PB_TRACE_PACKET_##name:
            PACKET_PARTS(PART)
            head->has_parts = true;
            break;
            TRACK_PARTS(PART)
#undef PART
            head->has_track_parts = true;
        }
    }
    head->cleared |= (head->flags & SEQUENCE_CLEARED) != 0;
    return status;
}

static void read_parts(struct proto_span packet, struct packet_parts *parts)
{
    static const struct proto_member members[] = {
#define PART(name, member) PROTO_MEMBER(PB_TRACE_PACKET_##name, struct packet_parts, member),
        PACKET_PARTS(PART) TRACK_PARTS(PART)
#undef PART
    };
    proto_read_members(PROTO_MEMBERS(members), packet, parts);
}

/* Read the defaults for packets of a sequence. */
static int take_defaults(struct builder *builder, const struct packet_parts *parts)
{
    struct proto_span defaults = parts->defaults;
    struct proto_field field;
    int status = 0;
    if (!parts->head.cleared && defaults.at == NULL)
        return 0;
    uint32_t clock = 0, before = id_map_find(&builder->default_clocks, parts->head.sequence_id);
    while (defaults.at != NULL && (status = proto_next(&defaults, &field)) > 0)
        if (field.number == PB_TRACE_PACKET_DEFAULTS_TIMESTAMP_CLOCK_ID)
            clock = (uint32_t)field.value;
    if (clock != (before == ID_MAP_NONE ? 0 : before) &&
        id_map_set(&builder->default_clocks, parts->head.sequence_id, clock) < 0)
        return builder_fail(builder);
    return status < 0 ? -EBADMSG : 0;
}

static void take_time(struct builder *builder, struct packet_head *head)
{
    uint32_t known =
        head->clock != 0 ? ID_MAP_NONE : id_map_find(&builder->default_clocks, head->sequence_id);
    if (known != ID_MAP_NONE)
        head->clock = known;
    head->timestamp_ns =
        builder_packet_time(builder, head->timestamp_ns, head->clock, head->sequence_id);
}

/* Forget a sequence's tables when it begins new ones. Packets before this one may be lost, and a
 * beginning among them: then ids of packets that rely on it may mean something else by now. */
static void check_tables(struct builder *builder, const struct packet_head *head)
{
    uint32_t known = id_map_find(&builder->sequence_ids, head->sequence_id);
    if (known == ID_MAP_NONE)
        return;
    struct builder_sequence *sequence = &builder->sequences[known];
    sequence->tables_doubtful |= head->dropped;
    bool doubtful = sequence->tables_doubtful && (head->flags & SEQUENCE_NEEDED) != 0;
    if (!head->cleared && !doubtful)
        return;
    sequence->tables_doubtful = false;
    builder_forget_unchanged(builder, sequence);
    sequence_clear_interned(sequence);
}

/* Return whether the packet's defaults concern stack samples: they have some, or replace some. */
static bool has_stack_defaults(const struct builder *builder, const struct packet_parts *parts)
{
    struct proto_span defaults = parts->defaults;
    struct proto_field field;
    if (defaults.at == NULL)
        return false;
    uint32_t known = id_map_find(&builder->sequence_ids, parts->head.sequence_id);
    if (known != ID_MAP_NONE && builder->sequences[known].stacks != NULL)
        return true;
    while (proto_next(&defaults, &field) > 0)
        if (field.number == PB_TRACE_PACKET_DEFAULTS_STACK_SAMPLE_DEFAULTS)
            return true;
    return false;
}

/* Read the parts that need the sequence's state: tables and heaps. */
static int take_of_sequence(struct builder *builder, const struct packet_parts *parts)
{
    struct builder_sequence *sequence;
    int code = 0;
    if (parts->interned.at == NULL && parts->profile_packet.at == NULL &&
        parts->stack_sample.at == NULL && !has_stack_defaults(builder, parts))
        return 0;
    code = builder_sequence(builder, parts->head.sequence_id, &sequence);
    if (code < 0)
        return code;
    if (parts->defaults.at != NULL)
        code = builder_stack_defaults(builder, sequence, parts->defaults);
    if (parts->interned.at != NULL && code == 0)
        code = builder_interned_data(builder, sequence, parts->interned);
    if (parts->stack_sample.at != NULL && code == 0)
        code =
            builder_stack_sample(builder, sequence, parts->stack_sample, parts->head.timestamp_ns);
    if (parts->profile_packet.at != NULL && builder->error == 0) {
        int result = builder_profile_packet(builder, sequence, parts->profile_packet,
                                            parts->head.timestamp_ns);
        code = code == 0 ? result : code;
    }
    return code;
}

static int take_parts(struct builder *builder, const struct packet_parts *parts)
{
    int code = take_of_sequence(builder, parts);
    if (code == 0 && parts->tree.at != NULL)
        code = builder_process_tree(builder, parts->tree, parts->head.timestamp_ns);
    if (code == 0 && (parts->stats.at != NULL || parts->heap_size.at != NULL))
        code = take_timeline(builder, parts->stats, parts->heap_size, parts->head.timestamp_ns);
    /* Another machine has other clocks. */
    if (code == 0 && parts->clocks.at != NULL && parts->head.machine == 0)
        code = builder_clock_snapshot(builder, parts->head.sequence_id, parts->clocks);
    if (code == 0 && parts->symbols.at != NULL)
        code = builder_module_symbols(builder, parts->symbols);
    if (code == 0 && parts->deobfuscation.at != NULL)
        code = builder_deobfuscation_mapping(builder, parts->deobfuscation);
    if (code == 0 && parts->packages.at != NULL)
        code = builder_packages_list(builder, parts->packages);
    if (code == 0 && parts->config.at != NULL)
        code = builder_trace_config(builder, parts->config);
    if (code == 0 && parts->service_stats.at != NULL)
        code = builder_trace_stats(builder, parts->service_stats);
    if (code == 0 && parts->unprofiled.at != NULL)
        code = builder_unprofiled(builder, parts->unprofiled);
    if (code == 0 && parts->smaps.at != NULL)
        code = builder_smaps(builder, parts->smaps, parts->head.timestamp_ns);
    if (code == 0 && parts->memory_snapshot.at != NULL)
        code = builder_memory_snapshot(builder, parts->memory_snapshot, parts->head.timestamp_ns);
    if (code == 0 && parts->process_end.at != NULL)
        code = builder_process_end(builder, parts->process_end, parts->head.timestamp_ns);
    if (code == 0 && parts->allocations.at != NULL)
        code = builder_streaming_allocation(builder, parts->allocations);
    if (code == 0 && parts->frees.at != NULL)
        code = builder_streaming_free(builder, parts->frees);
    return code;
}

static int take_tracks(struct builder *builder, struct packet_parts *parts)
{
    /* Another machine has other clocks. */
    if (!builder->as_in_trace || parts->head.machine != 0)
        return 0;
    parts->tracks.process_stats = parts->stats;
    return builder_tracks_take(builder, &parts->tracks, parts->head.timestamp_ns);
}

int builder_packet(struct builder *builder, struct proto_span packet)
{
    struct packet_head head = {0};
    builder->packets++;
    if (read_head(packet, &head) < 0) {
        builder->losses.damaged_packets++;
        return builder->error;
    }
    builder->machine = head.machine;
    /* The service marks each sequence's first packet so. */
    builder->losses.dropped += head.dropped && !head.first_on_sequence;
    if (head.cleared || head.dropped || head.has_parts)
        check_tables(builder, &head);
    bool has_tracks = builder->as_in_trace && head.has_track_parts;
    if (!head.has_parts && !head.cleared && !has_tracks) {
        take_time(builder, &head);
        return builder->error;
    }
    struct packet_parts parts = {.head = head};
    read_parts(packet, &parts);
    int code = take_defaults(builder, &parts);
    take_time(builder, &parts.head);
    if (code == 0)
        code = take_parts(builder, &parts);
    if (code == 0 && (has_tracks || parts.stats.at != NULL))
        code = take_tracks(builder, &parts);
    if (code == -EBADMSG)
        builder->losses.damaged_packets++;
    return builder->error;
}
