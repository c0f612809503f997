/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The writer's interning: mappings, frames and callstacks get ids. New entries wait in
 * writer->interned for the next packet.
 */
#include <errno.h>
#include <string.h>

#include "pb_field_numbers.h"
#include "trace.pb-c.h"
#include "trace/proto_fields.h"
#include "trace/write/writer_state.h"

typedef Perfetto__Protos__InternedString InternedString;

/* Frames of a callstack that always fit in a packet, at up to 10 bytes each. */
#define CALLSTACK_FRAMES_MAX 40000u
#define PATH_COMPONENTS_MAX 256u
#define FRAME_FIELDS 7

static uint64_t trace_intern_fail(struct trace_writer *writer)
{
    if (writer->error == 0)
        writer->error = -ENOMEM;
    return 0;
}

/* Return the number of a table's field: of InternedData, or of a ProfilePacket for the service. */
static uint32_t table_field(const struct trace_writer *writer, uint32_t field)
{
    if (!writer->for_service)
        return field;
    switch (field) {
    case PB_INTERNED_DATA_MAPPINGS:
        return PB_PROFILE_PACKET_MAPPINGS;
    case PB_INTERNED_DATA_FRAMES:
        return PB_PROFILE_PACKET_FRAMES;
    case PB_INTERNED_DATA_CALLSTACKS:
        return PB_PROFILE_PACKET_CALLSTACKS;
    case PB_INTERNED_DATA_SOURCE_PATHS:
        return PB_PROFILE_PACKET_SOURCE_PATHS;
    case PB_INTERNED_DATA_HEAP_NAMES:
        return PB_PROFILE_PACKET_HEAP_NAMES;
    case PB_INTERNED_DATA_HEAP_CONTEXTS:
        return PB_PROFILE_PACKET_HEAP_CONTEXTS;
    default:
        return PB_PROFILE_PACKET_STRINGS;
    }
}

/* Return the table of a kind of string. A ProfilePacket has one for several kinds. */
static struct intern_table *strings_of(struct trace_writer *writer, struct intern_table *table)
{
    return writer->for_service ? &writer->strings : table;
}

/* Make room for an entry, and begin the tables of a ProfilePacket: in them, id 0 must be written as
 * the empty string. */
static void trace_intern_make_room(struct trace_writer *writer, size_t bytes)
{
    if (writer->interned.length + bytes + PACKET_OVERHEAD_BYTES > TRACE_PACKET_BYTES_MAX)
        packet_flush_interned(writer);
    if (!writer->for_service || writer->has_tables)
        return;
    writer->has_tables = true;
    proto_put_bytes(&writer->interned, PB_PROFILE_PACKET_STRINGS, NULL, 0);
}

uint64_t packet_intern_string(struct trace_writer *writer, struct intern_table *table,
                              uint32_t field, const void *bytes, size_t length)
{
    bool added;
    if (length > PACKET_STRING_BYTES_MAX)
        length = PACKET_STRING_BYTES_MAX;
    uint64_t id = intern_bytes(table, bytes, length, &added);
    if (id == 0)
        return trace_intern_fail(writer);
    if (!added)
        return id;
    InternedString string = PERFETTO__PROTOS__INTERNED_STRING__INIT;
    string.has_iid = string.has_str = true;
    string.iid = id;
    string.str.data = (uint8_t *)bytes;
    string.str.len = length;
    trace_intern_make_room(writer, length);
    proto_put_message(&writer->interned, table_field(writer, field), &string.base);
    return id;
}

/* Intern the components of a path. Readers put a "/" before every component, so a name without
 * slashes gains one: "[vdso]" becomes /[vdso], as with Perfetto's own producer. */
static size_t intern_path(struct trace_writer *writer, const char *path, uint64_t *ids)
{
    size_t count = 0;
    while (count < PATH_COMPONENTS_MAX) {
        path += strspn(path, "/");
        if (*path == '\0')
            break;
        /* The last id takes the rest of the path. */
        size_t length = count == PATH_COMPONENTS_MAX - 1 ? strlen(path) : strcspn(path, "/");
        ids[count++] = packet_intern_string(writer, strings_of(writer, &writer->paths),
                                            PB_INTERNED_DATA_MAPPING_PATHS, path, length);
        path += length;
    }
    return count;
}

/* Build in writer->key the identity of this mapping at these addresses. */
static void make_mapping_key(struct trace_writer *writer, const struct trace_mapping *mapping,
                             uint64_t start, uint64_t end)
{
    uint64_t numbers[] = {start, end, mapping->exact_offset, mapping->load_bias,
                          mapping->build_id_length};
    const char *path = mapping->path == NULL ? "" : mapping->path;
    writer->key.length = 0;
    proto_put_raw(&writer->key, numbers, sizeof(numbers));
    proto_put_raw(&writer->key, mapping->build_id, mapping->build_id_length);
    proto_put_raw(&writer->key, path, strlen(path));
}

static uint64_t put_mapping(struct trace_writer *writer, uint64_t id,
                            const struct trace_mapping *mapping, uint64_t start, uint64_t end)
{
    uint64_t path_ids[PATH_COMPONENTS_MAX];
    Perfetto__Protos__Mapping message = PERFETTO__PROTOS__MAPPING__INIT;
    message.n_path_string_ids =
        intern_path(writer, mapping->path == NULL ? "" : mapping->path, path_ids);
    message.path_string_ids = path_ids;
    message.has_iid = message.has_start = message.has_end = true;
    message.has_exact_offset = message.has_start_offset = message.has_load_bias = true;
    message.iid = id;
    message.start = start;
    message.end = end;
    message.exact_offset = mapping->exact_offset;
    message.start_offset = mapping->exact_offset;
    message.load_bias = mapping->load_bias;
    message.has_build_id = mapping->build_id_length > 0;
    if (message.has_build_id)
        message.build_id = packet_intern_string(writer, strings_of(writer, &writer->build_ids),
                                                PB_INTERNED_DATA_BUILD_IDS, mapping->build_id,
                                                mapping->build_id_length);
    trace_intern_make_room(writer, 16 * PATH_COMPONENTS_MAX);
    proto_put_message(&writer->interned, table_field(writer, PB_INTERNED_DATA_MAPPINGS),
                      &message.base);
    return writer->error < 0 ? 0 : id;
}

/* Return whether the mapping is a file at some addresses. Its build id identifies the file. */
static bool is_of_file(const struct trace_mapping *mapping)
{
    return mapping->build_id_length > 0 && mapping->start != mapping->end;
}

bool trace_writer_has_place(struct trace_writer *writer, const struct trace_mapping *mapping)
{
    if (!is_of_file(mapping))
        return true;
    make_mapping_key(writer, mapping, mapping->start, mapping->end);
    return intern_find(&writer->files->places, writer->key.bytes, writer->key.length) != 0;
}

/* Return whether the file has a mapping with other addresses. If it has no mapping yet, these
 * become its addresses. */
static bool is_elsewhere(struct trace_writer *writer, const struct trace_mapping *mapping)
{
    bool is_new, is_new_place;
    if (trace_writer_has_place(writer, mapping))
        return false;
    make_mapping_key(writer, mapping, 0, 0);
    if (intern_bytes(&writer->files->files, writer->key.bytes, writer->key.length, &is_new) == 0)
        trace_intern_fail(writer);
    if (!is_new || writer->error < 0)
        return true;
    make_mapping_key(writer, mapping, mapping->start, mapping->end);
    if (intern_bytes(&writer->files->places, writer->key.bytes, writer->key.length,
                     &is_new_place) == 0)
        trace_intern_fail(writer);
    return false;
}

/* Return the id of a mapping. Each process has a file at different addresses. With a mapping for
 * each, its frames and callstacks would be written again for each process. So a file has two
 * mappings: one with the addresses of its first place, and one without addresses for all other
 * places. */
uint64_t trace_writer_mapping(struct trace_writer *writer, const struct trace_mapping *mapping)
{
    bool added, elsewhere = is_elsewhere(writer, mapping);
    uint64_t start = elsewhere ? 0 : mapping->start, end = elsewhere ? 0 : mapping->end;
    make_mapping_key(writer, mapping, start, end);
    if (writer->key.failed)
        return trace_intern_fail(writer);
    uint64_t id = intern_bytes(&writer->mappings, writer->key.bytes, writer->key.length, &added);
    if (id == 0)
        return trace_intern_fail(writer);
    return added ? put_mapping(writer, id, mapping, start, end) : id;
}

/* The mapping of frames outside all files has no path. */
static uint64_t nowhere(struct trace_writer *writer)
{
    return trace_writer_mapping(writer, &(struct trace_mapping){.path = ""});
}

static uint64_t intern_frame(struct trace_writer *writer, uint64_t mapping, uint64_t rel_pc,
                             const char *name, enum trace_frame_kind kind, const char *file,
                             uint32_t line)
{
    bool added;
    uint64_t name_id = 0;
    if (mapping == 0 && writer->for_service) /* a ProfilePacket has no mapping 0 */
        mapping = nowhere(writer);
    if (name != NULL && *name != '\0')
        name_id = packet_intern_string(writer, &writer->strings, PB_INTERNED_DATA_FUNCTION_NAMES,
                                       name, strlen(name));
    uint64_t file_id = 0;
    if (file != NULL && *file != '\0')
        file_id = packet_intern_string(writer, &writer->source_paths, PB_INTERNED_DATA_SOURCE_PATHS,
                                       file, strlen(file));
    uint64_t key[] = {mapping, rel_pc, name_id, kind, file_id, line};
    uint64_t id = intern_bytes(&writer->frames, key, sizeof(key), &added);
    if (id == 0)
        return trace_intern_fail(writer);
    if (!added)
        return id;
    uint8_t message[FRAME_FIELDS * PROTO_FIELD_BYTES_MAX];
    uint8_t *at = proto_field_uint(message, PB_FRAME_IID, id);
    at = proto_field_count(at, PB_FRAME_FUNCTION_NAME_ID, name_id);
    /* Set it even for an empty mapping: Perfetto's importer drops a frame whose mapping is missing.
     */
    at = proto_field_count(at, PB_FRAME_MAPPING_ID, mapping);
    at = proto_field_uint(at, PB_FRAME_REL_PC, rel_pc);
    at = proto_field_count(at, PB_FRAME_SOURCE_PATH_IID, file_id);
    at = proto_field_count(at, PB_FRAME_LINE_NUMBER, line);
    at = proto_field_count(at, PB_FRAME_KIND, kind);
    trace_intern_make_room(writer, 0);
    proto_put_bytes(&writer->interned, table_field(writer, PB_INTERNED_DATA_FRAMES), message,
                    (size_t)(at - message));
    return writer->error < 0 ? 0 : id;
}

uint64_t trace_writer_frame(struct trace_writer *writer, uint64_t mapping, uint64_t rel_pc,
                            const char *name)
{
    return intern_frame(writer, mapping, rel_pc, name, TRACE_FRAME_UNKNOWN, NULL, 0);
}

uint64_t trace_writer_jit_frame(struct trace_writer *writer, uint64_t mapping, uint64_t pc)
{
    return intern_frame(writer, mapping, pc, NULL, TRACE_FRAME_JIT, NULL, 0);
}

static uint64_t hash_text(uint64_t hash, const char *text)
{
    for (; *text != '\0'; text++)
        hash = (hash ^ (uint8_t)*text) * UINT64_C(0x100000001b3);
    return (hash ^ hash >> 32) * UINT64_C(0xd1342543de82ef95);
}

uint64_t trace_writer_source_frame(struct trace_writer *writer, uint64_t mapping,
                                   const struct trace_source *source)
{
    uint64_t hash = hash_text(hash_text(source->line + 1u, source->function), source->file);
    return intern_frame(writer, mapping, hash >> 16, source->function, TRACE_FRAME_INTERPRETED,
                        source->file, source->line);
}

uint64_t trace_writer_marker(struct trace_writer *writer, const char *name)
{
    return trace_writer_frame(writer, nowhere(writer), 0, name);
}

static void put_callstack(struct trace_writer *writer, uint64_t id, const uint64_t *frame_ids,
                          size_t count)
{
    trace_intern_make_room(writer, count * (1 + PROTO_VARINT_BYTES_MAX));
    struct proto_buffer *entry = &writer->scratch;
    entry->length = 0;
    uint8_t *at = proto_buffer_reserve(entry, (1 + count) * PROTO_FIELD_BYTES_MAX);
    if (at != NULL) {
        at = proto_field_uint(at, PB_CALLSTACK_IID, id);
        for (size_t i = count; i-- > 0;)
            at = proto_field_uint(at, PB_CALLSTACK_FRAME_IDS, frame_ids[i]);
        entry->length = (size_t)(at - entry->bytes);
    }
    proto_put_bytes(&writer->interned, table_field(writer, PB_INTERNED_DATA_CALLSTACKS),
                    entry->bytes, entry->length);
    if (entry->failed)
        trace_intern_fail(writer);
}

uint64_t trace_writer_callstack(struct trace_writer *writer, const uint64_t *frames, size_t count,
                                const char *ending)
{
    bool added;
    if (count > CALLSTACK_FRAMES_MAX) {
        count = CALLSTACK_FRAMES_MAX;
        ending = TRACE_TRUNCATED_FRAME;
    }
    uint64_t outermost = 0;
    if (ending != NULL && (outermost = trace_writer_marker(writer, ending)) == 0)
        return 0;
    /* The key is the stack including its marker. */
    struct proto_buffer *key = &writer->key;
    key->length = 0;
    proto_put_raw(key, frames, count * sizeof(*frames));
    if (outermost != 0)
        proto_put_raw(key, &outermost, sizeof(outermost));
    if (key->failed)
        return trace_intern_fail(writer);
    uint64_t id = intern_bytes(&writer->callstacks, key->bytes, key->length, &added);
    if (id == 0)
        return trace_intern_fail(writer);
    if (added)
        put_callstack(writer, id, (const uint64_t *)(const void *)key->bytes,
                      count + (outermost != 0));
    return writer->error < 0 ? 0 : id;
}

uint64_t trace_writer_heap_name(struct trace_writer *writer, const char *name)
{
    uint64_t id = packet_intern_string(writer, &writer->heap_names, PB_INTERNED_DATA_HEAP_NAMES,
                                       name, strlen(name));
    return writer->error < 0 ? 0 : id;
}

uint64_t trace_writer_heap_context(struct trace_writer *writer, const uint64_t *names, size_t count)
{
    bool added;
    uint64_t id = intern_bytes(&writer->heap_contexts, names, count * sizeof(*names), &added);
    if (id == 0)
        return trace_intern_fail(writer);
    if (!added)
        return writer->error < 0 ? 0 : id;
    Perfetto__Protos__HeapContext context = PERFETTO__PROTOS__HEAP_CONTEXT__INIT;
    context.has_iid = true;
    context.iid = id;
    context.n_name_ids = count;
    context.name_ids = (uint64_t *)names;
    trace_intern_make_room(writer, count * (1 + PROTO_VARINT_BYTES_MAX));
    proto_put_message(&writer->interned, table_field(writer, PB_INTERNED_DATA_HEAP_CONTEXTS),
                      &context.base);
    return writer->error < 0 ? 0 : id;
}
