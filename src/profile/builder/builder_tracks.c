/* SPDX-License-Identifier: Apache-2.0 */
/* Read counters and lifetimes. Names, units and types of tracks are those of Perfetto's trace
 * processor. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "pb_field_numbers.h"
#include "profile/builder/builder.h"
#include "trace/system_counters.h"
#include "util/array.h"

/* A track of a track has at most this many ancestors: a damaged trace may have a circle. */
#define ANCESTORS_MAX 16u
#define TYPE_COUNTER 4u
#define STATE_CREATED 1u
#define STATE_DESTROYED 8u

/* --- tracks and values --- */

uint32_t builder_track_add(struct builder *builder, const struct profile_counter_track *track)
{
    struct profile *profile = builder->profile;
    if (profile->counter_track_count >= PROFILE_NONE - 1 ||
        ARRAY_ADD(&profile->counter_tracks, &profile->counter_track_count,
                  &builder->tracks.track_capacity, *track) < 0) {
        builder_fail(builder);
        return PROFILE_NONE;
    }
    return (uint32_t)profile->counter_track_count - 1;
}

int builder_track_value(struct builder *builder, uint32_t track, uint64_t packet_ns, double value)
{
    struct profile *profile = builder->profile;
    const struct profile_counter counter = {
        .boottime_ns = packet_ns, .value = value, .track = track};
    if (track == PROFILE_NONE)
        return builder->error;
    if (profile->counter_count >= PROFILE_NONE - 1 ||
        ARRAY_ADD(&profile->counters, &profile->counter_count, &builder->tracks.counter_capacity,
                  counter) < 0)
        return builder_fail(builder);
    builder_date(builder, DATED_COUNTER, 0, profile->counter_count - 1);
    return builder_keep(builder, 1);
}

/* A track that Perfetto names. */
struct known_track {
    const char *type, *name, *unit;
};

/* Add a value to a known track of a process, or of the machine (PROFILE_NONE). */
static int add_known(struct builder *builder, uint32_t process, const struct known_track *known,
                     uint64_t packet_ns, double value)
{
    struct builder_tracks *tracks = &builder->tracks;
    uint32_t name = builder_string(builder, known->name, strlen(known->name));
    uint64_t key = (uint64_t)process << 32 | name;
    uint32_t track = id_map_find(&tracks->ids, key);
    if (builder->error < 0)
        return builder->error;
    if (track == ID_MAP_NONE) {
        const struct profile_counter_track added = {.process = process,
                                                    .type = known->type,
                                                    .name = builder->strings[name],
                                                    .unit = known->unit};
        track = builder_track_add(builder, &added);
        if (track == PROFILE_NONE || id_map_set(&tracks->ids, key, track) < 0)
            return builder_fail(builder);
    }
    return builder_track_value(builder, track, packet_ns, value);
}

/* --- ProcessStats --- */

#define STATS(name) PB_PROCESS_STATS_PROCESS_##name

static const struct stats_track {
    uint32_t field, factor;
    struct known_track track;
} stats_tracks[] = {
    {STATS(VM_SIZE_KB), 1024, {"process_memory", "mem.virt", ""}},
    {STATS(VM_RSS_KB), 1024, {"process_memory", "mem.rss", ""}},
    {STATS(RSS_ANON_KB), 1024, {"process_memory", "mem.rss.anon", ""}},
    {STATS(RSS_FILE_KB), 1024, {"process_memory", "mem.rss.file", ""}},
    {STATS(RSS_SHMEM_KB), 1024, {"process_memory", "mem.rss.shmem", ""}},
    {STATS(VM_SWAP_KB), 1024, {"process_memory", "mem.swap", ""}},
    {STATS(VM_LOCKED_KB), 1024, {"process_memory", "mem.locked", ""}},
    {STATS(VM_HWM_KB), 1024, {"process_memory", "mem.rss.watermark", ""}},
    {STATS(DMABUF_RSS_KB), 1024, {"process_memory", "mem.dmabuf_rss", ""}},
    {STATS(OOM_SCORE_ADJ), 1, {"oom_score_adj", "oom_score_adj", ""}},
    {STATS(SMR_RSS_KB), 1024, {"smaps", "mem.smaps.rss", ""}},
    {STATS(SMR_PSS_KB), 1024, {"smaps", "mem.smaps.pss", ""}},
    {STATS(SMR_PSS_ANON_KB), 1024, {"smaps", "mem.smaps.pss.anon", ""}},
    {STATS(SMR_PSS_FILE_KB), 1024, {"smaps", "mem.smaps.pss.file", ""}},
    {STATS(SMR_PSS_SHMEM_KB), 1024, {"smaps", "mem.smaps.pss.smem", ""}},
    {STATS(SMR_SWAP_PSS_KB), 1024, {"smaps", "mem.smaps.swap.pss", ""}},
    {STATS(RUNTIME_USER_MODE), 1, {"proc_stat_runtime", "runtime.user_ns", ""}},
    {STATS(RUNTIME_KERNEL_MODE), 1, {"proc_stat_runtime", "runtime.kernel_ns", ""}},
};
#define STATS_TRACKS (sizeof(stats_tracks) / sizeof(stats_tracks[0]))

static const struct stats_track *stats_track_of(uint32_t field)
{
    for (size_t i = 0; i < STATS_TRACKS; i++)
        if (stats_tracks[i].field == field)
            return &stats_tracks[i];
    return NULL;
}

static int take_stats_process(struct builder *builder, struct proto_span message,
                              uint64_t packet_ns)
{
    struct proto_span rest = message;
    struct proto_field field;
    int32_t pid = 0;
    int status, code = 0;
    while ((status = proto_next(&rest, &field)) > 0)
        if (field.number == STATS(PID))
            pid = (int32_t)field.value;
    if (status < 0)
        return -EBADMSG;
    while (code == 0 && proto_next(&message, &field) > 0) {
        const struct stats_track *known = stats_track_of(field.number);
        if (known == NULL || field.type != PROTO_VARINT)
            continue;
        builder_mention(builder, pid, 0, packet_ns);
        uint32_t process = builder_process(builder, pid);
        code = process == PROFILE_NONE ? builder->error
                                       : add_known(builder, process, &known->track, packet_ns,
                                                   (double)(int64_t)field.value * known->factor);
    }
    return code;
}

static int take_process_stats(struct builder *builder, struct proto_span stats, uint64_t packet_ns)
{
    struct proto_field field;
    int status = 0, code = 0;
    while (code == 0 && (status = proto_next(&stats, &field)) > 0)
        if (field.number == PB_PROCESS_STATS_PROCESSES)
            code = take_stats_process(builder, field.span, packet_ns);
    return status < 0 ? -EBADMSG : code;
}

/* --- SysStats --- */

/* A key and its value: the same fields in all of these messages. */
struct system_entry {
    uint64_t key, value;
};

static const struct proto_member system_members[] = {
    PROTO_MEMBER(PB_SYS_STATS_MEMINFO_VALUE_KEY, struct system_entry, key),
    PROTO_MEMBER(PB_SYS_STATS_MEMINFO_VALUE_VALUE, struct system_entry, value),
};

static const char *pressure_name(uint64_t resource)
{
    static const char *const names[] = {"psi.resource.unspecified",
                                        "psi.cpu.some",
                                        "psi.cpu.full",
                                        "psi.io.some",
                                        "psi.io.full",
                                        "psi.mem.some",
                                        "psi.mem.full"};
    return resource < sizeof(names) / sizeof(names[0]) ? names[resource] : NULL;
}

static int take_system_entry(struct builder *builder, const struct proto_field *field,
                             uint64_t packet_ns)
{
    struct system_entry entry = {0};
    struct known_track known = {.unit = ""};
    char vmstat[SYSTEM_COUNTER_NAME_BYTES];
    double factor = 1;
    if (proto_read_members(PROTO_MEMBERS(system_members), field->span, &entry) < 0)
        return -EBADMSG;
    uint32_t key = entry.key < UINT32_MAX ? (uint32_t)entry.key : UINT32_MAX;
    if (field->number == PB_SYS_STATS_MEMINFO) {
        known = (struct known_track){"meminfo", meminfo_counter_name(key), "bytes"};
        factor = 1024;
    } else if (field->number == PB_SYS_STATS_VMSTAT) {
        known.type = "vmstat";
        known.name = vmstat_counter_name(key, vmstat) ? vmstat : NULL;
    } else {
        known.type = "psi";
        known.name = pressure_name(key);
    }
    if (known.name == NULL)
        return 0;
    return add_known(builder, PROFILE_NONE, &known, packet_ns, (double)entry.value * factor);
}

static int take_sys_stats(struct builder *builder, struct proto_span stats, uint64_t packet_ns)
{
    struct proto_field field;
    int status = 0, code = 0;
    while (code == 0 && (status = proto_next(&stats, &field)) > 0)
        if (field.number == PB_SYS_STATS_MEMINFO || field.number == PB_SYS_STATS_VMSTAT ||
            field.number == PB_SYS_STATS_PSI)
            code = take_system_entry(builder, &field, packet_ns);
    return status < 0 ? -EBADMSG : code;
}

/* --- track events --- */

struct counter_entry {
    uint64_t unit, multiplier;
    bool is_incremental;
    const char *unit_name;
};

struct descriptor_entry {
    uint64_t uuid, parent_uuid;
    const char *name;
    struct proto_span process, counter;
};

#define COUNTER(name, member)                                                                      \
    PROTO_MEMBER(PB_COUNTER_DESCRIPTOR_##name, struct counter_entry, member)
#define TRACK(name, member)                                                                        \
    PROTO_MEMBER(PB_TRACK_DESCRIPTOR_##name, struct descriptor_entry, member)

static struct track_descriptor *find_descriptor(struct builder *builder, uint64_t uuid)
{
    uint32_t known = id_map_find(&builder->tracks.descriptors, uuid);
    return known == ID_MAP_NONE ? NULL : &builder->tracks.items[known];
}

static int take_counter(struct builder *builder, struct proto_span message,
                        struct track_descriptor *track)
{
    static const struct proto_member members[] = {
        COUNTER(UNIT, unit),
        COUNTER(UNIT_MULTIPLIER, multiplier),
        COUNTER(IS_INCREMENTAL, is_incremental),
        COUNTER(UNIT_NAME, unit_name),
    };
    static const char *const units[] = {"", "ns", "count", "bytes"};
    struct counter_entry entry = {.unit_name = ""};
    int code = builder_read_members(builder, PROTO_MEMBERS(members), message, &entry);
    track->is_counter = true;
    track->is_incremental = entry.is_incremental;
    track->multiplier = entry.multiplier != 0 ? (double)(int64_t)entry.multiplier : 1;
    track->unit = entry.unit > 0 && entry.unit < 4 ? units[entry.unit] : entry.unit_name;
    return code;
}

static int take_pid(struct proto_span message, int32_t *pid)
{
    struct proto_field field;
    int status;
    while ((status = proto_next(&message, &field)) > 0)
        if (field.number == PB_PROCESS_DESCRIPTOR_PID)
            *pid = (int32_t)field.value;
    return status < 0 ? -EBADMSG : 0;
}

static int take_descriptor(struct builder *builder, struct proto_span message)
{
    static const struct proto_member members[] = {
        TRACK(UUID, uuid),
        TRACK(NAME, name),
        TRACK(PROCESS, process),
        TRACK(COUNTER, counter),
        TRACK(PARENT_UUID, parent_uuid),
    };
    struct builder_tracks *tracks = &builder->tracks;
    struct descriptor_entry entry = {.name = ""};
    struct track_descriptor track = {.unit = "", .track = PROFILE_NONE};
    int code = builder_read_members(builder, PROTO_MEMBERS(members), message, &entry);
    if (code == 0 && entry.process.at != NULL)
        code = take_pid(entry.process, &track.pid);
    if (code == 0 && entry.counter.at != NULL)
        code = take_counter(builder, entry.counter, &track);
    if (code < 0 || find_descriptor(builder, entry.uuid) != NULL)
        return code;
    track.uuid = entry.uuid;
    track.parent_uuid = entry.parent_uuid;
    track.name = entry.name;
    if (tracks->count >= PROFILE_NONE - 1 ||
        ARRAY_ADD(&tracks->items, &tracks->count, &tracks->capacity, track) < 0 ||
        id_map_set(&tracks->descriptors, entry.uuid, (uint32_t)tracks->count - 1) < 0)
        return builder_fail(builder);
    return builder_keep(builder, 1);
}

/* Return the pid of the process that the track, or an ancestor, belongs to; 0: none. */
static int32_t pid_of(struct builder *builder, const struct track_descriptor *track)
{
    for (unsigned i = 0; i < ANCESTORS_MAX && track != NULL; i++) {
        if (track->pid != 0)
            return track->pid;
        track = track->parent_uuid != 0 ? find_descriptor(builder, track->parent_uuid) : NULL;
    }
    return 0;
}

static int make_track(struct builder *builder, struct track_descriptor *descriptor,
                      uint64_t packet_ns)
{
    int32_t pid = pid_of(builder, descriptor);
    struct profile_counter_track track = {.process = PROFILE_NONE,
                                          .type = pid != 0 ? "process_counter_track_event"
                                                           : "global_counter_track_event",
                                          .name = descriptor->name,
                                          .unit = descriptor->unit};
    if (pid != 0) {
        builder_mention(builder, pid, 0, packet_ns);
        track.process = builder_process(builder, pid);
        if (track.process == PROFILE_NONE)
            return builder->error;
    }
    descriptor->track = builder_track_add(builder, &track);
    return builder->error;
}

struct event_entry {
    uint64_t type, track_uuid;
    bool has_value;
    double number;
};

static int take_event(struct builder *builder, struct proto_span message, uint64_t packet_ns)
{
    struct event_entry entry = {0};
    struct proto_field field;
    int status;
    while ((status = proto_next(&message, &field)) > 0) {
        if (field.number == PB_TRACK_EVENT_TYPE)
            entry.type = field.value;
        else if (field.number == PB_TRACK_EVENT_TRACK_UUID)
            entry.track_uuid = field.value;
        else if (field.number == PB_TRACK_EVENT_COUNTER_VALUE)
            entry.number = (double)(int64_t)field.value;
        else if (field.number == PB_TRACK_EVENT_DOUBLE_COUNTER_VALUE)
            entry.number = proto_double(&field);
        entry.has_value |= field.number == PB_TRACK_EVENT_COUNTER_VALUE ||
                           field.number == PB_TRACK_EVENT_DOUBLE_COUNTER_VALUE;
    }
    if (status < 0)
        return -EBADMSG;
    struct track_descriptor *track =
        entry.type == TYPE_COUNTER ? find_descriptor(builder, entry.track_uuid) : NULL;
    if (track == NULL || !track->is_counter || !entry.has_value)
        return 0;
    if (track->track == PROFILE_NONE && make_track(builder, track, packet_ns) < 0)
        return builder->error;
    double value = entry.number * track->multiplier;
    if (track->is_incremental)
        value = track->sum += value;
    return builder_track_value(builder, track->track, packet_ns, value);
}

/* --- lifetimes --- */

struct task_entry {
    int32_t tid;
    uint64_t state;
};

static int take_task_state(struct builder *builder, struct proto_span message, uint64_t packet_ns)
{
    static const struct proto_member members[] = {
        PROTO_MEMBER(PB_GENERIC_KERNEL_TASK_STATE_EVENT_TID, struct task_entry, tid),
        PROTO_MEMBER(PB_GENERIC_KERNEL_TASK_STATE_EVENT_STATE, struct task_entry, state),
    };
    struct profile *profile = builder->profile;
    struct task_entry entry = {0};
    if (proto_read_members(PROTO_MEMBERS(members), message, &entry) < 0)
        return -EBADMSG;
    if (entry.state != STATE_CREATED && entry.state != STATE_DESTROYED)
        return 0;
    const struct profile_lifetime event = {
        .boottime_ns = packet_ns, .tid = entry.tid, .is_end = entry.state == STATE_DESTROYED};
    if (ARRAY_ADD(&profile->lifetimes, &profile->lifetime_count, &builder->tracks.lifetime_capacity,
                  event) < 0)
        return builder_fail(builder);
    builder_date(builder, DATED_LIFETIME, 0, profile->lifetime_count - 1);
    return builder_keep(builder, 1);
}

/* --- all --- */

int builder_tracks_take(struct builder *builder, const struct track_parts *parts,
                        uint64_t packet_ns)
{
    int code = 0;
    if (parts->process_stats.at != NULL)
        code = take_process_stats(builder, parts->process_stats, packet_ns);
    if (code == 0 && parts->sys_stats.at != NULL)
        code = take_sys_stats(builder, parts->sys_stats, packet_ns);
    if (code == 0 && parts->descriptor.at != NULL)
        code = take_descriptor(builder, parts->descriptor);
    if (code == 0 && parts->event.at != NULL)
        code = take_event(builder, parts->event, packet_ns);
    if (code == 0 && parts->task_state.at != NULL)
        code = take_task_state(builder, parts->task_state, packet_ns);
    return code;
}

static int compare_times(uint64_t left, uint64_t right)
{
    return left == right ? 0 : (int64_t)left < (int64_t)right ? -1 : 1;
}

static int compare_counters(const void *left_pointer, const void *right_pointer)
{
    const struct profile_counter *left = left_pointer, *right = right_pointer;
    int order = compare_times(left->boottime_ns, right->boottime_ns);
    return order != 0 ? order : left->order > right->order ? 1 : -(left->order < right->order);
}

static int compare_lifetimes(const void *left_pointer, const void *right_pointer)
{
    const struct profile_lifetime *left = left_pointer, *right = right_pointer;
    int order = compare_times(left->boottime_ns, right->boottime_ns);
    return order != 0 ? order : left->is_end - right->is_end;
}

void builder_tracks_order(struct builder *builder)
{
    struct profile *profile = builder->profile;
    for (size_t i = 0; i < profile->counter_count; i++)
        profile->counters[i].order = (uint32_t)i;
    if (profile->counter_count > 0)
        qsort(profile->counters, profile->counter_count, sizeof(*profile->counters),
              compare_counters);
    if (profile->lifetime_count > 0)
        qsort(profile->lifetimes, profile->lifetime_count, sizeof(*profile->lifetimes),
              compare_lifetimes);
}

void builder_tracks_free(struct builder_tracks *tracks)
{
    id_map_free(&tracks->ids);
    id_map_free(&tracks->descriptors);
    free(tracks->items);
    *tracks = (struct builder_tracks){0};
}
