/* SPDX-License-Identifier: Apache-2.0 */
/* Read packets: processes, threads, the timeline, and dispatch of the others. */
#include <string.h>

#include "pb_field_numbers.h"
#include "profile/builder/builder_clocks.h"
#include "util/array.h"

#define SEQUENCE_CLEARED 1u
#define COMMAND_BYTES_MAX 4096u

/* --- processes and threads --- */

static uint32_t add_process(struct builder *builder, int32_t pid)
{
    struct profile *profile = builder->profile;
    size_t used = profile->process_count;
    if (ARRAY_RESERVE(&profile->processes, &builder->process_capacity, used, 1) < 0 ||
        ARRAY_RESERVE(&builder->timeline_capacities, &builder->timeline_capacity_capacity, used,
                      1) < 0 ||
        id_map_set(&builder->processes, (uint32_t)pid, (uint32_t)used) < 0) {
        builder_fail(builder);
        return PROFILE_NONE;
    }
    profile->processes[used] = (struct profile_process){.pid = pid, .name = "", .command = ""};
    builder->timeline_capacities[used] = 0;
    profile->process_count++;
    return (uint32_t)used;
}

uint32_t builder_process(struct builder *builder, int32_t pid)
{
    uint32_t index = id_map_find(&builder->processes, (uint32_t)pid);
    return index == ID_MAP_NONE ? add_process(builder, pid) : index;
}

static bool is_plain(const char *argument, size_t length)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "_-+=./,:@%^";
    for (size_t i = 0; i < length; i++) {
        if (argument[i] == '\0' || strchr(plain, argument[i]) == NULL)
            return false;
    }
    return length > 0;
}

/* Append an argument, quoted for a shell. One that does not fit is left out. */
static void append_argument(char *command, size_t *at, struct proto_span argument)
{
    const char *text = (const char *)argument.at;
    size_t length = proto_length(argument), quotes = 2;
    bool plain = is_plain(text, length);
    for (size_t i = 0; i < length; i++)
        quotes += text[i] == '\'' ? 3 : 0;
    if (length + quotes + 1 >= COMMAND_BYTES_MAX - *at)
        return;
    if (*at > 0)
        command[(*at)++] = ' ';
    if (!plain)
        command[(*at)++] = '\'';
    for (size_t i = 0; i < length; i++) {
        if (text[i] == '\'') {
            memcpy(command + *at, "'\\''", 4);
            *at += 4;
        } else {
            command[(*at)++] = text[i];
        }
    }
    if (!plain)
        command[(*at)++] = '\'';
}

/* Append an argument unquoted, and truncate it if it does not fit. */
static void append_plain(char *arguments, size_t *at, struct proto_span argument)
{
    size_t length = proto_length(argument);
    if (*at > 0 && *at < COMMAND_BYTES_MAX)
        arguments[(*at)++] = ' ';
    if (length > COMMAND_BYTES_MAX - *at)
        length = COMMAND_BYTES_MAX - *at;
    if (length > 0)
        memcpy(arguments + *at, argument.at, length);
    *at += length;
}

static struct proto_span base_name(struct proto_span path)
{
    for (const uint8_t *at = path.end; at > path.at; at--) {
        if (at[-1] == '/') {
            if (at < path.end)
                path.at = at;
            break;
        }
    }
    return path;
}

/* Return whether anything was measured in the process. */
static bool has_heaps(const struct profile *profile, uint32_t process)
{
    for (size_t i = 0; i < profile->stream_count; i++) {
        if (profile->streams[i].process == process)
            return true;
    }
    for (size_t i = 0; i < profile->heap_count; i++) {
        if (profile->heaps[i].process == process)
            return true;
    }
    return false;
}

/* Return a command line that was rewritten as a single argument up to its first option. A path may
 * contain blanks, too. */
static struct proto_span up_to_options(struct proto_span argument)
{
    for (size_t i = 0; i + 1 < proto_length(argument); i++) {
        const uint8_t *at = argument.at + i;
        if ((at[0] == ' ' && at[1] == '-') || (at[0] == ':' && at[1] == ' '))
            argument.end = at;
    }
    return argument;
}

/* Return the name of a process from its argument 0: a path, or a title that it gave itself
 * ("redis-server *:6379", "-bash"), whose first word is the name. */
static struct proto_span name_of_argument(struct proto_span argument)
{
    struct proto_span word = argument;
    if (proto_length(argument) == 0 || argument.at[0] == '/')
        return base_name(up_to_options(argument));
    word.at += word.at[0] == '-';
    const uint8_t *end = word.at;
    while (end < word.end && strchr(" \t\n:", *end) == NULL)
        end++;
    word.end = end;
    word = base_name(word);
    return proto_length(word) > 0 ? word : base_name(argument);
}

/* Return whether the process has started another program. A trace without image numbers shows that
 * by another command line; with them, a process may have given itself another title. */
static bool is_another_program(const struct profile_process *known, const char *command,
                               uint64_t image)
{
    if (image != 0 && known->image != 0)
        return image != known->image;
    return *known->command != '\0' && strcmp(known->command, command) != 0;
}

/* A process of a ProcessTree. */
struct process_entry {
    int32_t pid, parent_pid, uid;
    bool has_uid, has_start, are_comm;
    uint64_t start_ns, image;
    struct proto_span name, first;
    bool is_alone; /* the first argument is the only one */
    size_t command_length, arguments_length;
    char command[COMMAND_BYTES_MAX], arguments[COMMAND_BYTES_MAX];
};

#define PROCESS(name) PB_PROCESS_TREE_PROCESS_##name
static const struct proto_member process_members[] = {
    PROTO_MEMBER(PROCESS(PID), struct process_entry, pid),
    PROTO_MEMBER(PROCESS(PPID), struct process_entry, parent_pid),
    PROTO_MEMBER(PROCESS(UID), struct process_entry, uid),
    PROTO_MEMBER(PROCESS(CMDLINE_IS_COMM), struct process_entry, are_comm),
    PROTO_MEMBER(PROCESS(PROCESS_START_FROM_BOOT), struct process_entry, start_ns),
    PROTO_MEMBER(PROCESS(IMAGE), struct process_entry, image),
    PROTO_MEMBER(PROCESS(NAME), struct process_entry, name),
};

static int read_process(struct proto_span message, struct process_entry *entry)
{
    struct proto_field field;
    int status;
    while ((status = proto_next(&message, &field)) > 0) {
        entry->has_uid |= field.number == PROCESS(UID);
        entry->has_start |= field.number == PROCESS(PROCESS_START_FROM_BOOT);
        if (field.number == PROCESS(CMDLINE)) {
            entry->is_alone = entry->first.at == NULL;
            if (entry->is_alone)
                entry->first = field.span;
            append_plain(entry->arguments, &entry->arguments_length, field.span);
            append_argument(entry->command, &entry->command_length, field.span);
        } else {
            proto_store(PROTO_MEMBERS(process_members), &field, entry);
        }
    }
    return status < 0 ? -EBADMSG : 0;
}

static void name_process(struct builder *builder, const struct process_entry *entry,
                         struct profile_process *process)
{
    struct proto_span first = entry->first;
    process->name = builder_text_of_span(
        builder, proto_length(entry->name) > 0 ? entry->name : name_of_argument(first));
    process->first_argument = builder_text_of_span(builder, first);
    const uint8_t *blank =
        entry->is_alone && first.at != NULL ? memchr(first.at, ' ', proto_length(first)) : NULL;
    if (blank != NULL)
        first.end = blank;
    process->title = builder_text_of_span(builder, first);
    process->arguments = builder_text(builder, entry->arguments, entry->arguments_length);
}

static int take_process(struct builder *builder, struct proto_span message, uint64_t packet_ns)
{
    struct process_entry entry;
    memset(&entry, 0, offsetof(struct process_entry, command));
    if (read_process(message, &entry) < 0)
        return -EBADMSG;
    if (entry.first.at != NULL) {
        builder_mention(builder, entry.parent_pid, 0, packet_ns);
        builder_mention(builder, entry.pid, 0, packet_ns);
    }
    uint32_t text = builder_string(builder, entry.command, entry.command_length);
    uint32_t index = builder_process(builder, entry.pid);
    if (builder->error < 0)
        return builder->error;
    /* It has called exec: the earlier data belong to another program. */
    if (is_another_program(&builder->profile->processes[index], builder->strings[text],
                           entry.image) &&
        has_heaps(builder->profile, index) &&
        (index = add_process(builder, entry.pid)) == PROFILE_NONE)
        return builder->error;
    struct profile_process *process = &builder->profile->processes[index];
    process->parent_pid = entry.parent_pid;
    process->uid = entry.uid;
    process->has_uid = entry.has_uid;
    process->has_start = entry.has_start;
    process->start_boottime_ns = entry.start_ns;
    process->arguments_are_comm = entry.are_comm;
    process->image = entry.image;
    if (entry.command_length > 0) {
        process->command = builder->strings[text];
        name_process(builder, &entry, process);
    }
    return builder->error;
}

static int take_thread(struct builder *builder, struct proto_span entry, uint64_t packet_ns)
{
    static const struct proto_member members[] = {
        PROTO_MEMBER(PB_PROCESS_TREE_THREAD_TID, struct profile_thread, tid),
        PROTO_MEMBER(PB_PROCESS_TREE_THREAD_NAME, struct profile_thread, name),
        PROTO_MEMBER(PB_PROCESS_TREE_THREAD_TGID, struct profile_thread, pid),
    };
    struct profile *profile = builder->profile;
    struct profile_thread thread = {.name = ""};
    int code = builder_read_members(builder, PROTO_MEMBERS(members), entry, &thread);
    if (code < 0)
        return code;
    builder_mention(builder, thread.pid, 0, packet_ns);
    builder_mention(builder, thread.pid, thread.tid, packet_ns);
    uint64_t key = (uint64_t)(uint32_t)thread.pid << 32 | (uint32_t)thread.tid;
    uint32_t known = id_map_find(&builder->threads, key);
    if (known != ID_MAP_NONE) {
        if (*thread.name != '\0')
            profile->threads[known].name = thread.name;
        return builder->error;
    }
    size_t used = profile->thread_count;
    if (ARRAY_RESERVE(&profile->threads, &builder->thread_capacity, used, 1) < 0 ||
        id_map_set(&builder->threads, key, (uint32_t)used) < 0)
        return builder_fail(builder);
    profile->threads[profile->thread_count++] = thread;
    return builder->error;
}

static int take_tree(struct builder *builder, struct proto_span tree, uint64_t packet_ns)
{
    struct proto_field field;
    int status, code = 0;
    while (code == 0 && (status = proto_next(&tree, &field)) != 0) {
        if (status < 0)
            return -EBADMSG;
        if (field.number == PB_PROCESS_TREE_PROCESSES)
            code = take_process(builder, field.span, packet_ns);
        else if (field.number == PB_PROCESS_TREE_THREADS)
            code = take_thread(builder, field.span, packet_ns);
    }
    return code;
}

#define UNPROFILED(name, member)                                                                   \
    PROTO_MEMBER(PB_UNPROFILED_PROCESS_##name, struct profile_unprofiled, member)

static int take_unprofiled(struct builder *builder, struct proto_span entry)
{
    static const struct proto_member members[] = {
        UNPROFILED(PID, pid),       UNPROFILED(PARENT_PID, parent_pid), UNPROFILED(NAME, name),
        UNPROFILED(REASON, reason), UNPROFILED(BY_CHOICE, by_choice),   UNPROFILED(COUNT, count),
        UNPROFILED(KIND, kind),
    };
    struct profile *profile = builder->profile;
    struct profile_unprofiled process = {.name = "", .reason = "", .kind = "", .count = 1};
    int code = builder_read_members(builder, PROTO_MEMBERS(members), entry, &process);
    if (code < 0)
        return code;
    if (ARRAY_ADD(&profile->unprofiled, &profile->unprofiled_count, &builder->unprofiled_capacity,
                  process) < 0)
        return builder_fail(builder);
    return builder->error;
}

/* --- the timeline --- */

/* Live bytes of a process's heaps, in addition to the system's figures. */
struct heap_size {
    int32_t pid; /* 0: absent */
    uint64_t live_bytes;
};

static const struct proto_member heap_size_members[] = {
    PROTO_MEMBER(PB_HEAP_SIZE_PID, struct heap_size, pid),
    PROTO_MEMBER(PB_HEAP_SIZE_LIVE_BYTES, struct heap_size, live_bytes),
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
                                         .swap_bytes = bytes_of_kb(entry.swap_kb)};
    if ((point.rss_bytes | point.rss_anon_bytes | point.vm_bytes) != 0)
        builder_mention(builder, pid, 0, packet_ns);
    if (size->pid != 0 && size->pid == pid) {
        point.heap_bytes = size->live_bytes;
        size->pid = 0;
    }
    return add_memory_point(builder, pid, &point);
}

/* Add points of the timeline: ProcessStats, with or without a HeapSize, or a HeapSize alone. */
static int take_timeline(struct builder *builder, struct proto_span stats, struct proto_span heap,
                         uint64_t packet_ns)
{
    struct heap_size size = {0};
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
                                           .swap_bytes = PROFILE_UNKNOWN_BYTES});
    return code;
}

/* --- packets --- */

struct packet_parts {
    uint64_t timestamp_ns;
    uint64_t clock; /* of the timestamp; 0: absent */
    uint32_t sequence_id;
    bool cleared;
    struct proto_span interned, profile_packet, tree, stats, clocks, symbols, unprofiled;
    struct proto_span allocations, frees, deobfuscation, packages, smaps, memory_snapshot, defaults,
        heap_size;
};

#define PACKET(name, member) PROTO_MEMBER(PB_TRACE_PACKET_##name, struct packet_parts, member)

static const struct proto_member packet_members[] = {
    PACKET(TIMESTAMP, timestamp_ns),
    PACKET(TIMESTAMP_CLOCK_ID, clock),
    PACKET(TRACE_PACKET_DEFAULTS, defaults),
    PACKET(TRUSTED_PACKET_SEQUENCE_ID, sequence_id),
    PACKET(INTERNED_DATA, interned),
    PACKET(PROFILE_PACKET, profile_packet),
    PACKET(PROCESS_TREE, tree),
    PACKET(PROCESS_STATS, stats),
    PACKET(CLOCK_SNAPSHOT, clocks),
    PACKET(MODULE_SYMBOLS, symbols),
    PACKET(DEOBFUSCATION_MAPPING, deobfuscation),
    PACKET(PACKAGES_LIST, packages),
    PACKET(STREAMING_ALLOCATION, allocations),
    PACKET(STREAMING_FREE, frees),
    PACKET(SMAPS_PACKET, smaps),
    PACKET(MEMORY_SNAPSHOT, memory_snapshot),
    PACKET(HEAP_SIZE, heap_size),
    PACKET(UNPROFILED_PROCESS, unprofiled),
};

static int split_packet(struct proto_span packet, struct packet_parts *parts)
{
    struct proto_field field;
    int status;
    while ((status = proto_next(&packet, &field)) > 0) {
        if (field.number == PB_TRACE_PACKET_SEQUENCE_FLAGS)
            parts->cleared |= field.value & SEQUENCE_CLEARED;
        else if (field.number == PB_TRACE_PACKET_INCREMENTAL_STATE_CLEARED)
            parts->cleared |= field.value != 0;
        else
            proto_store(PROTO_MEMBERS(packet_members), &field, parts);
    }
    return status;
}

/* Read the defaults for packets of a sequence. */
static int take_defaults(struct builder *builder, const struct packet_parts *parts)
{
    struct proto_span defaults = parts->defaults;
    struct proto_field field;
    int status = 0;
    if (!parts->cleared && defaults.at == NULL)
        return 0;
    uint32_t clock = 0, before = id_map_find(&builder->default_clocks, parts->sequence_id);
    while (defaults.at != NULL && (status = proto_next(&defaults, &field)) > 0)
        if (field.number == PB_TRACE_PACKET_DEFAULTS_TIMESTAMP_CLOCK_ID)
            clock = (uint32_t)field.value;
    if (clock != (before == ID_MAP_NONE ? 0 : before) &&
        id_map_set(&builder->default_clocks, parts->sequence_id, clock) < 0)
        return builder_fail(builder);
    return status < 0 ? -EBADMSG : 0;
}

static void take_time(struct builder *builder, struct packet_parts *parts)
{
    uint32_t known =
        parts->clock != 0 ? ID_MAP_NONE : id_map_find(&builder->default_clocks, parts->sequence_id);
    if (known != ID_MAP_NONE)
        parts->clock = known;
    parts->timestamp_ns =
        builder_packet_time(builder, parts->timestamp_ns, parts->clock, parts->sequence_id);
}

/* Read the parts that need the sequence's state: tables and heaps. */
static int take_of_sequence(struct builder *builder, const struct packet_parts *parts)
{
    uint32_t known = id_map_find(&builder->sequence_ids, parts->sequence_id);
    struct builder_sequence *sequence;
    int code = 0;
    if (parts->cleared && known != ID_MAP_NONE) {
        builder_forget_unchanged(builder, &builder->sequences[known]);
        sequence_clear_interned(&builder->sequences[known]);
    }
    if (parts->interned.at == NULL && parts->profile_packet.at == NULL)
        return 0;
    code = builder_sequence(builder, parts->sequence_id, &sequence);
    if (code < 0)
        return code;
    if (parts->interned.at != NULL)
        code = builder_interned_data(builder, sequence, parts->interned);
    if (parts->profile_packet.at != NULL && builder->error == 0) {
        int result =
            builder_profile_packet(builder, sequence, parts->profile_packet, parts->timestamp_ns);
        code = code == 0 ? result : code;
    }
    return code;
}

static int take_parts(struct builder *builder, const struct packet_parts *parts)
{
    int code = take_of_sequence(builder, parts);
    if (code == 0 && parts->tree.at != NULL)
        code = take_tree(builder, parts->tree, parts->timestamp_ns);
    if (code == 0 && (parts->stats.at != NULL || parts->heap_size.at != NULL))
        code = take_timeline(builder, parts->stats, parts->heap_size, parts->timestamp_ns);
    if (code == 0 && parts->clocks.at != NULL)
        code = builder_clock_snapshot(builder, parts->sequence_id, parts->clocks);
    if (code == 0 && parts->symbols.at != NULL)
        code = builder_module_symbols(builder, parts->symbols);
    if (code == 0 && parts->deobfuscation.at != NULL)
        code = builder_deobfuscation_mapping(builder, parts->deobfuscation);
    if (code == 0 && parts->packages.at != NULL)
        code = builder_packages_list(builder, parts->packages);
    if (code == 0 && parts->unprofiled.at != NULL)
        code = take_unprofiled(builder, parts->unprofiled);
    if (code == 0 && parts->smaps.at != NULL)
        code = builder_smaps(builder, parts->smaps, parts->timestamp_ns);
    if (code == 0 && parts->memory_snapshot.at != NULL)
        code = builder_memory_snapshot(builder, parts->memory_snapshot, parts->timestamp_ns);
    if (code == 0 && parts->allocations.at != NULL)
        code = builder_streaming_allocation(builder, parts->allocations);
    if (code == 0 && parts->frees.at != NULL)
        code = builder_streaming_free(builder, parts->frees);
    return code;
}

int builder_packet(struct builder *builder, struct proto_span packet)
{
    struct packet_parts parts = {0};
    builder->packets++;
    if (split_packet(packet, &parts) < 0) {
        builder->damaged_packets++;
        return builder->error;
    }
    int code = take_defaults(builder, &parts);
    take_time(builder, &parts);
    if (code == 0)
        code = take_parts(builder, &parts);
    if (code == -EBADMSG)
        builder->damaged_packets++;
    return builder->error;
}
