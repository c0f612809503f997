/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collect addresses in one pass over the packets. Interned data may come in any order. So a frame
 * whose mapping is not known yet waits until its sequence starts again or the trace ends; nearly
 * all are complete at once.
 */
#include "profile/symbolize/trace_addresses.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "pb_field_numbers.h"
#include "trace/intern.h"
#include "trace/read/trace_reader.h"
#include "util/array.h"
#include "util/id_map.h"

#define PATH_BYTES_MAX 8192u
#define PATH_PARTS_MAX 64u
#define SEQUENCE_CLEARED 1u
/* Of ClockSnapshot.Clock.clock_id. */
#define REALTIME_ID 1u
#define BOOTTIME_ID 6u

struct text {
    uint8_t *bytes;
    size_t length;
};

struct mapping {
    uint64_t build_id;
    uint64_t load_bias;
    uint64_t parts[PATH_PARTS_MAX];
    unsigned part_count;
    uint32_t module; /* ID_MAP_NONE: not yet put together */
};

struct frame {
    uint64_t mapping, rel_pc;
    uint64_t name; /* its hash; 0: none */
};

struct sequence {
    struct id_map paths, build_ids, mapping_ids; /* indexes of texts and mappings */
    struct id_map names;                         /* indexes of hashes */
    uint64_t *hashes;
    size_t hash_count, hash_capacity;
    struct mapping *mappings;
    size_t mapping_count, mapping_capacity;
    struct frame *waiting;
    size_t waiting_count, waiting_capacity;
};

/* When the trace's processes began, and what relates that to the calendar. */
struct process_starts {
    struct id_map indexes; /* of `boottime_ns`, by pid */
    uint64_t *boottime_ns;
    size_t count, capacity;
    uint64_t earliest_ns; /* of the profiled ones; 0: none yet */
    bool is_one_unknown;
    int64_t boottime_to_realtime_ns; /* 0: unknown */
};

struct collector {
    struct trace_addresses *found;
    struct intern_table text_ids, module_ids;
    struct text *texts;
    size_t text_count, text_capacity;
    struct id_map sequence_ids;
    struct sequence *sequences;
    size_t sequence_count, sequence_capacity;
    struct process_starts starts;
};

/* --- interned data --- */

/* Return the index of the text with these bytes. ID_MAP_NONE: no memory. */
static uint32_t keep_text(struct collector *collector, struct proto_span span)
{
    bool added;
    uint64_t id = intern_bytes(&collector->text_ids, span.at, proto_length(span), &added);
    if (id == 0 || id > UINT32_MAX - 1)
        return ID_MAP_NONE;
    if (!added)
        return (uint32_t)(id - 1);
    uint8_t *copy = malloc(proto_length(span) + 1);
    if (copy == NULL ||
        ARRAY_RESERVE(&collector->texts, &collector->text_capacity, collector->text_count, 1) < 0) {
        free(copy);
        return ID_MAP_NONE;
    }
    if (proto_length(span) > 0)
        memcpy(copy, span.at, proto_length(span));
    copy[proto_length(span)] = '\0';
    collector->texts[collector->text_count++] = (struct text){copy, proto_length(span)};
    return (uint32_t)(id - 1);
}

/* Read an InternedString. Return false if it is malformed. */
static bool read_string(struct proto_span entry, uint64_t *iid, struct proto_span *bytes)
{
    struct proto_field field;
    int status;
    *iid = 0;
    *bytes = (struct proto_span){0};
    while ((status = proto_next(&entry, &field)) > 0) {
        if (field.number == PB_INTERNED_STRING_IID)
            *iid = field.value;
        else if (field.number == PB_INTERNED_STRING_STR)
            *bytes = field.span;
    }
    return status == 0;
}

static int take_string(struct collector *collector, struct proto_span entry, struct id_map *first,
                       struct id_map *second)
{
    struct proto_span bytes;
    uint64_t iid;
    if (!read_string(entry, &iid, &bytes))
        return 0;
    uint32_t text = keep_text(collector, bytes);
    if (text == ID_MAP_NONE || id_map_set(first, iid, text) < 0 ||
        (second != NULL && id_map_set(second, iid, text) < 0))
        return -ENOMEM;
    return 0;
}

static int take_name(struct sequence *sequence, struct proto_span entry)
{
    struct proto_span name;
    uint64_t iid;
    if (!read_string(entry, &iid, &name) || proto_length(name) == 0)
        return 0;
    if (id_map_set(&sequence->names, iid, (uint32_t)sequence->hash_count) < 0)
        return -ENOMEM;
    return ARRAY_ADD(&sequence->hashes, &sequence->hash_count, &sequence->hash_capacity,
                     XXH3_64bits(name.at, proto_length(name)));
}

/* Android 10 has paths, build ids and names in one table. */
static int take_any_string(struct collector *collector, struct sequence *sequence,
                           struct proto_span entry)
{
    int result = take_string(collector, entry, &sequence->paths, &sequence->build_ids);
    return result == 0 ? take_name(sequence, entry) : result;
}

static void trace_addresses_put_part(struct mapping *mapping, uint64_t part)
{
    if (mapping->part_count < PATH_PARTS_MAX)
        mapping->parts[mapping->part_count++] = part;
}

static int take_mapping(struct sequence *sequence, struct proto_span entry)
{
    struct mapping mapping = {.module = ID_MAP_NONE};
    struct proto_field field;
    uint64_t iid = 0, part;
    int status;
    while ((status = proto_next(&entry, &field)) > 0) {
        if (field.number == PB_MAPPING_IID)
            iid = field.value;
        else if (field.number == PB_MAPPING_BUILD_ID)
            mapping.build_id = field.value;
        else if (field.number == PB_MAPPING_LOAD_BIAS)
            mapping.load_bias = field.value;
        else if (field.number == PB_MAPPING_PATH_STRING_IDS && field.type == PROTO_VARINT)
            trace_addresses_put_part(&mapping, field.value);
        else if (field.number == PB_MAPPING_PATH_STRING_IDS)
            while (proto_read_varint(&field.span, &part))
                trace_addresses_put_part(&mapping, part);
    }
    if (status < 0)
        return 0;
    if (ARRAY_RESERVE(&sequence->mappings, &sequence->mapping_capacity, sequence->mapping_count,
                      1) < 0 ||
        id_map_set(&sequence->mapping_ids, iid, (uint32_t)sequence->mapping_count) < 0)
        return -ENOMEM;
    sequence->mappings[sequence->mapping_count++] = mapping;
    return 0;
}

/* Join the parts of a path. Return false if one of them is not known (yet). */
static bool join_path(const struct collector *collector, const struct sequence *sequence,
                      const struct mapping *mapping, char path[PATH_BYTES_MAX], size_t *length)
{
    *length = 0;
    for (unsigned i = 0; i < mapping->part_count; i++) {
        uint32_t index = id_map_find(&sequence->paths, mapping->parts[i]);
        if (index == ID_MAP_NONE)
            return false;
        const char *part = (const char *)collector->texts[index].bytes;
        size_t part_length = strlen(part);
        if (part_length == 0)
            continue;
        if (part_length + 2 > PATH_BYTES_MAX - *length)
            break;
        if (*part != '/' && !(mapping->part_count == 1 && *part == '['))
            path[(*length)++] = '/';
        memcpy(path + *length, part, part_length);
        *length += part_length;
    }
    path[*length] = '\0';
    return true;
}

/* Return the index of the module with this path, build id and bias. ID_MAP_NONE: no memory. */
static uint32_t find_module(struct collector *collector, const char *path, size_t path_length,
                            const struct text *build_id, uint64_t load_bias)
{
    struct trace_module module = {.load_bias = load_bias};
    char key[PATH_BYTES_MAX + TRACE_BUILD_ID_BYTES_MAX + sizeof(load_bias) + 1];
    bool added;
    if (build_id != NULL && build_id->length <= TRACE_BUILD_ID_BYTES_MAX) {
        module.build_id_length = build_id->length;
        memcpy(module.build_id, build_id->bytes, build_id->length);
    }
    memcpy(key, &load_bias, sizeof(load_bias));
    memcpy(key + sizeof(load_bias), path, path_length + 1);
    memcpy(key + sizeof(load_bias) + path_length + 1, module.build_id, module.build_id_length);
    uint64_t id =
        intern_bytes(&collector->module_ids, key,
                     sizeof(load_bias) + path_length + 1 + module.build_id_length, &added);
    struct trace_addresses *found = collector->found;
    if (id == 0 || id > UINT32_MAX - 1)
        return ID_MAP_NONE;
    if (!added)
        return (uint32_t)(id - 1);
    if (ARRAY_RESERVE(&found->modules, &found->capacity, found->count, 1) < 0 ||
        (module.path = strdup(path)) == NULL)
        return ID_MAP_NONE;
    found->modules[found->count++] = module;
    return (uint32_t)(id - 1);
}

/* Return whether the path is "[jit:PID]", for code that a program generated. No file has its names;
 * if there are any, they are in the trace. */
static bool is_generated(const char *path)
{
    return strncmp(path + (*path == '/'), "[jit:", strlen("[jit:")) == 0;
}

/* Add the frame's address to its module. Return 1 if that is done, or the frame has no module; 0 if
 * its mapping is not complete (yet); or -ENOMEM. */
static int resolve_frame(struct collector *collector, struct sequence *sequence,
                         const struct frame *frame)
{
    uint32_t index = id_map_find(&sequence->mapping_ids, frame->mapping);
    if (index == ID_MAP_NONE)
        return 0;
    struct mapping *mapping = &sequence->mappings[index];
    if (mapping->module == ID_MAP_NONE) {
        char path[PATH_BYTES_MAX];
        size_t length;
        uint32_t text = id_map_find(&sequence->build_ids, mapping->build_id);
        if ((mapping->build_id != 0 && text == ID_MAP_NONE) ||
            !join_path(collector, sequence, mapping, path, &length))
            return 0;
        if (length == 0 || is_generated(path))
            return 1;
        mapping->module =
            find_module(collector, path, length,
                        text == ID_MAP_NONE ? NULL : &collector->texts[text], mapping->load_bias);
        if (mapping->module == ID_MAP_NONE)
            return -ENOMEM;
    }
    struct trace_module *module = &collector->found->modules[mapping->module];
    int result = trace_module_add_address(module, frame->rel_pc);
    if (result == 0 && frame->name != 0)
        result = trace_module_add_name(module, frame->rel_pc, frame->name);
    return result < 0 ? result : 1;
}

static int take_frame(struct collector *collector, struct sequence *sequence,
                      struct proto_span entry)
{
    struct frame frame = {0};
    struct proto_field field;
    uint64_t name = 0;
    int status;
    while ((status = proto_next(&entry, &field)) > 0) {
        if (field.number == PB_FRAME_MAPPING_ID)
            frame.mapping = field.value;
        else if (field.number == PB_FRAME_REL_PC)
            frame.rel_pc = field.value;
        else if (field.number == PB_FRAME_FUNCTION_NAME_ID)
            name = field.value;
    }
    if (status < 0 || frame.mapping == 0)
        return 0;
    /* A name that comes later is missed. At worst it is written again. */
    uint32_t hash = name == 0 ? ID_MAP_NONE : id_map_find(&sequence->names, name);
    if (hash != ID_MAP_NONE)
        frame.name = sequence->hashes[hash];
    status = resolve_frame(collector, sequence, &frame);
    if (status != 0)
        return status < 0 ? status : 0;
    return ARRAY_ADD(&sequence->waiting, &sequence->waiting_count, &sequence->waiting_capacity,
                     frame);
}

static int resolve_waiting(struct collector *collector, struct sequence *sequence)
{
    int result = 0;
    for (size_t i = 0; i < sequence->waiting_count && result >= 0; i++)
        result = resolve_frame(collector, sequence, &sequence->waiting[i]);
    sequence->waiting_count = 0;
    return result < 0 ? result : 0;
}

static int clear_sequence(struct collector *collector, struct sequence *sequence)
{
    int result = resolve_waiting(collector, sequence);
    id_map_free(&sequence->paths);
    id_map_free(&sequence->build_ids);
    id_map_free(&sequence->mapping_ids);
    id_map_free(&sequence->names);
    sequence->mapping_count = 0;
    sequence->hash_count = 0;
    return result;
}

/* --- packets --- */

/* Note when a profiled process began. */
static void note_profiled(struct process_starts *starts, uint64_t pid)
{
    uint32_t index = id_map_find(&starts->indexes, pid);
    if (index == ID_MAP_NONE)
        starts->is_one_unknown = true;
    else if (starts->earliest_ns == 0 || starts->boottime_ns[index] < starts->earliest_ns)
        starts->earliest_ns = starts->boottime_ns[index];
}

/* Take ProcessTree.processes. */
static int take_tree(struct process_starts *starts, struct proto_span tree)
{
    struct proto_field field, part;
    while (proto_next(&tree, &field) > 0) {
        if (field.number != PB_PROCESS_TREE_PROCESSES || field.type != PROTO_BYTES)
            continue;
        uint64_t pid = 0, start_ns = 0;
        while (proto_next(&field.span, &part) > 0) {
            if (part.number == PB_PROCESS_TREE_PROCESS_PID)
                pid = part.value;
            else if (part.number == PB_PROCESS_TREE_PROCESS_PROCESS_START_FROM_BOOT)
                start_ns = part.value;
        }
        if (start_ns == 0 || id_map_find(&starts->indexes, pid) != ID_MAP_NONE)
            continue;
        if (id_map_set(&starts->indexes, pid, (uint32_t)starts->count) < 0 ||
            ARRAY_ADD(&starts->boottime_ns, &starts->count, &starts->capacity, start_ns) < 0)
            return -ENOMEM;
    }
    return 0;
}

static void take_clocks(struct process_starts *starts, struct proto_span snapshot)
{
    struct proto_field field, part;
    uint64_t realtime_ns = 0, boottime_ns = 0;
    while (proto_next(&snapshot, &field) > 0) {
        uint64_t id = 0, reading_ns = 0;
        if (field.number != PB_CLOCK_SNAPSHOT_CLOCKS || field.type != PROTO_BYTES)
            continue;
        while (proto_next(&field.span, &part) > 0) {
            if (part.number == PB_CLOCK_SNAPSHOT_CLOCK_CLOCK_ID)
                id = part.value;
            else if (part.number == PB_CLOCK_SNAPSHOT_CLOCK_TIMESTAMP)
                reading_ns = part.value;
        }
        if (id == REALTIME_ID)
            realtime_ns = reading_ns;
        else if (id == BOOTTIME_ID)
            boottime_ns = reading_ns;
    }
    if (realtime_ns != 0 && boottime_ns != 0)
        starts->boottime_to_realtime_ns = (int64_t)(realtime_ns - boottime_ns);
}

static int64_t begun_ns(const struct process_starts *starts)
{
    return starts->is_one_unknown || starts->earliest_ns == 0 ||
                   starts->boottime_to_realtime_ns == 0
               ? 0
               : (int64_t)(starts->earliest_ns + (uint64_t)starts->boottime_to_realtime_ns);
}

static void take_process(struct trace_addresses *found, struct process_starts *starts,
                         struct proto_span dump)
{
    struct proto_field field;
    while (proto_next(&dump, &field) > 0) {
        if (field.number != PB_PROFILE_PACKET_PROCESS_HEAP_SAMPLES_PID || field.value == 0 ||
            field.value > INT32_MAX)
            continue;
        note_profiled(starts, field.value);
        for (size_t i = 0; i < found->process_count; i++) {
            if (found->processes[i] == (pid_t)field.value)
                return;
        }
        if (found->process_count < TRACE_PROCESSES_MAX)
            found->processes[found->process_count++] = (pid_t)field.value;
    }
}

static void take_processes(struct trace_addresses *found, struct process_starts *starts,
                           struct proto_span profile)
{
    struct proto_field field;
    while (proto_next(&profile, &field) > 0) {
        if (field.number == PB_PROFILE_PACKET_PROCESS_DUMPS && field.type == PROTO_BYTES)
            take_process(found, starts, field.span);
    }
}

/* The fields with interned data in a message; 0: it has no such field. */
struct tables {
    uint32_t paths, build_ids, names, strings, mappings, frames;
};

static const struct tables interned_tables = {
    .paths = PB_INTERNED_DATA_MAPPING_PATHS,
    .build_ids = PB_INTERNED_DATA_BUILD_IDS,
    .names = PB_INTERNED_DATA_FUNCTION_NAMES,
    .mappings = PB_INTERNED_DATA_MAPPINGS,
    .frames = PB_INTERNED_DATA_FRAMES,
};
static const struct tables profile_tables = {
    .strings = PB_PROFILE_PACKET_STRINGS,
    .mappings = PB_PROFILE_PACKET_MAPPINGS,
    .frames = PB_PROFILE_PACKET_FRAMES,
};

/* Take strings, then mappings, then frames: nothing in one packet has to wait. */
static int take_tables(struct collector *collector, struct sequence *sequence,
                       struct proto_span message, const struct tables *tables)
{
    int result = 0;
    for (int pass = 0; pass < 3 && result == 0; pass++) {
        struct proto_span rest = message;
        struct proto_field field;
        while (result == 0 && proto_next(&rest, &field) > 0) {
            if (field.type != PROTO_BYTES)
                continue;
            if (pass == 0 && field.number == tables->paths)
                result = take_string(collector, field.span, &sequence->paths, NULL);
            else if (pass == 0 && field.number == tables->build_ids)
                result = take_string(collector, field.span, &sequence->build_ids, NULL);
            else if (pass == 0 && field.number == tables->names)
                result = take_name(sequence, field.span);
            else if (pass == 0 && field.number == tables->strings)
                result = take_any_string(collector, sequence, field.span);
            else if (pass == 1 && field.number == tables->mappings)
                result = take_mapping(sequence, field.span);
            else if (pass == 2 && field.number == tables->frames)
                result = take_frame(collector, sequence, field.span);
        }
    }
    return result;
}

static struct sequence *find_sequence(struct collector *collector, uint32_t id)
{
    uint32_t index = id_map_find(&collector->sequence_ids, id);
    if (index != ID_MAP_NONE)
        return &collector->sequences[index];
    size_t used = collector->sequence_count;
    if (ARRAY_RESERVE(&collector->sequences, &collector->sequence_capacity, used, 1) < 0 ||
        id_map_set(&collector->sequence_ids, id, (uint32_t)used) < 0)
        return NULL;
    collector->sequences[used] = (struct sequence){0};
    collector->sequence_count++;
    return &collector->sequences[used];
}

static int take_packet(struct collector *collector, struct proto_span packet)
{
    struct proto_span interned = {0}, profile = {0}, tree = {0};
    struct proto_field field;
    uint32_t id = 0;
    bool cleared = false;
    while (proto_next(&packet, &field) > 0) {
        if (field.number == PB_TRACE_PACKET_TRUSTED_PACKET_SEQUENCE_ID)
            id = (uint32_t)field.value;
        else if (field.number == PB_TRACE_PACKET_SEQUENCE_FLAGS)
            cleared |= (field.value & SEQUENCE_CLEARED) != 0;
        else if (field.number == PB_TRACE_PACKET_INCREMENTAL_STATE_CLEARED)
            cleared |= field.value != 0;
        else if (field.number == PB_TRACE_PACKET_INTERNED_DATA)
            interned = field.span;
        else if (field.number == PB_TRACE_PACKET_PROFILE_PACKET)
            profile = field.span;
        else if (field.number == PB_TRACE_PACKET_PROCESS_TREE && field.type == PROTO_BYTES)
            tree = field.span;
        else if (field.number == PB_TRACE_PACKET_CLOCK_SNAPSHOT && field.type == PROTO_BYTES)
            take_clocks(&collector->starts, field.span);
    }
    if (tree.at != NULL && take_tree(&collector->starts, tree) < 0)
        return -ENOMEM;
    if (!cleared && interned.at == NULL && profile.at == NULL)
        return 0;
    if (profile.at != NULL)
        take_processes(collector->found, &collector->starts, profile);
    struct sequence *sequence = find_sequence(collector, id);
    if (sequence == NULL)
        return -ENOMEM;
    int result = cleared ? clear_sequence(collector, sequence) : 0;
    if (result == 0 && interned.at != NULL)
        result = take_tables(collector, sequence, interned, &interned_tables);
    if (result == 0 && profile.at != NULL)
        result = take_tables(collector, sequence, profile, &profile_tables);
    return result;
}

static int read_packets(struct collector *collector, struct trace_reader *reader, const char *path,
                        struct error *error)
{
    struct error problem = {0};
    struct proto_span packet;
    int status, result = 0;
    bool any = false;
    while (result == 0 && (status = trace_reader_next(reader, &packet, &problem)) != 0) {
        if (status < 0 && !any)
            return error_set(error, status, "%s", problem.message);
        if (status < 0) {
            memcpy(collector->found->warning, problem.message, sizeof(problem.message));
            break;
        }
        any = true;
        result = take_packet(collector, packet);
    }
    if (!any)
        return error_set(
            error, -EBADMSG,
            "%s: there is no trace packet in it; is it the raw-trace that heap_profile wrote?",
            strcmp(path, "-") == 0 ? "standard input" : path);
    for (size_t i = 0; i < collector->sequence_count && result == 0; i++)
        result = resolve_waiting(collector, &collector->sequences[i]);
    return result < 0 ? error_set(error, result, "no memory for the addresses of the trace") : 0;
}

static void free_collector(struct collector *collector)
{
    for (size_t i = 0; i < collector->sequence_count; i++) {
        struct sequence *sequence = &collector->sequences[i];
        sequence->waiting_count = 0;
        clear_sequence(collector, sequence);
        free(sequence->mappings);
        free(sequence->hashes);
        free(sequence->waiting);
    }
    free(collector->sequences);
    id_map_free(&collector->sequence_ids);
    for (size_t i = 0; i < collector->text_count; i++)
        free(collector->texts[i].bytes);
    free(collector->texts);
    id_map_free(&collector->starts.indexes);
    free(collector->starts.boottime_ns);
    intern_free(&collector->text_ids);
    intern_free(&collector->module_ids);
}

int trace_addresses_read(struct trace_addresses *addresses, const char *path, struct error *error)
{
    *addresses = (struct trace_addresses){0};
    struct trace_reader *reader = trace_reader_open(path, error);
    if (reader == NULL)
        return error->code;
    struct collector collector = {.found = addresses};
    int result = read_packets(&collector, reader, path, error);
    addresses->begun_ns = begun_ns(&collector.starts);
    trace_addresses_sort(addresses);
    free_collector(&collector);
    trace_reader_close(reader);
    return result;
}
