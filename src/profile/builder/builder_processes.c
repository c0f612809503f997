/* SPDX-License-Identifier: Apache-2.0 */
/* Read process trees: names of processes and threads, and programs that follow each other in one
 * process; and the processes that were not profiled. */
#include <string.h>

#include "pb_field_numbers.h"
#include "profile/builder/builder.h"
#include "util/array.h"

#define COMMAND_BYTES_MAX 4096u

/* Return a number for a process of the packet's machine. Those of other machines are scattered, so
 * that they do not meet pids of this one. */
uint32_t builder_pid_key(const struct builder *builder, int32_t pid)
{
    return (uint32_t)pid ^ builder->machine * 0x9e3779b1u;
}

static uint32_t add_process(struct builder *builder, int32_t pid)
{
    struct profile *profile = builder->profile;
    size_t used = profile->process_count;
    if (ARRAY_RESERVE(&profile->processes, &builder->process_capacity, used, 1) < 0 ||
        ARRAY_RESERVE(&builder->timeline_capacities, &builder->timeline_capacity_capacity, used,
                      1) < 0 ||
        id_map_set(&builder->processes, builder_pid_key(builder, pid), (uint32_t)used) < 0) {
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
    uint32_t index = id_map_find(&builder->processes, builder_pid_key(builder, pid));
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
    uint64_t key = (uint64_t)builder_pid_key(builder, thread.pid) << 32 | (uint32_t)thread.tid;
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

int builder_process_tree(struct builder *builder, struct proto_span tree, uint64_t packet_ns)
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

int builder_unprofiled(struct builder *builder, struct proto_span entry)
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
