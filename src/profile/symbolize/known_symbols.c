/* SPDX-License-Identifier: Apache-2.0 */
/* Remember the symbols of a trace by hashes, and write only new ones (known_symbols.h). */
#include "profile/symbolize/known_symbols.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "pb_field_numbers.h"
#include "trace/proto_buffer.h"
#include "trace/read/trace_reader.h"
#include "util/write_all.h"

/* The module of a packet, and room to put keys together. */
struct module {
    uint64_t id;
    struct proto_span path, build_id;
    struct proto_buffer key;
};

static struct proto_span find_field(struct proto_span message, uint32_t number)
{
    struct proto_field field;
    while (proto_next(&message, &field) > 0)
        if (field.number == number && field.type == PROTO_BYTES)
            return field.span;
    return (struct proto_span){0};
}

/* --- keys --- */

static void put_span(struct proto_buffer *key, struct proto_span span)
{
    proto_put_varint(key, proto_length(span));
    if (proto_length(span) > 0)
        proto_put_raw(key, span.at, proto_length(span));
}

/* Set *module to the module of a packet. Return 0 or -ENOMEM. */
static int begin_module(struct known_symbols *known, struct module *module,
                        struct proto_span symbols)
{
    bool added;
    module->path = find_field(symbols, PB_MODULE_SYMBOLS_PATH);
    module->build_id = find_field(symbols, PB_MODULE_SYMBOLS_BUILD_ID);
    module->key.length = 0;
    put_span(&module->key, module->path);
    put_span(&module->key, module->build_id);
    if (module->key.failed)
        return -ENOMEM;
    module->id = intern_bytes(&known->modules, module->key.bytes, module->key.length, &added);
    return module->id == 0 ? -ENOMEM : 0;
}

struct entry {
    uint64_t address;
    bool has_file;
};

static struct entry read_entry(struct proto_span span)
{
    struct entry entry = {0};
    struct proto_field field;
    while (proto_next(&span, &field) > 0) {
        if (field.number == PB_ADDRESS_SYMBOLS_ADDRESS)
            entry.address = field.value;
        else if (field.number == PB_ADDRESS_SYMBOLS_LINES && field.type == PROTO_BYTES)
            entry.has_file |= proto_length(find_field(field.span, PB_LINE_SOURCE_FILE_NAME)) > 0;
    }
    return entry;
}

/* Remember an entry. Return 1 if it adds nothing to the known ones; 0 if it is new; or -ENOMEM. */
static int meet_entry(struct known_symbols *known, struct module *module, struct proto_span span)
{
    struct entry entry = read_entry(span);
    uint64_t place[] = {module->id, entry.address};
    bool added, line_added = false;
    if (!entry.has_file && intern_find(&known->lines, place, sizeof(place)) != 0)
        return 1;
    module->key.length = 0;
    proto_put_varint(&module->key, module->id);
    put_span(&module->key, span);
    if (module->key.failed ||
        intern_bytes(&known->entries, module->key.bytes, module->key.length, &added) == 0 ||
        (entry.has_file && intern_bytes(&known->lines, place, sizeof(place), &line_added) == 0))
        return -ENOMEM;
    return !added;
}

/* --- the symbols of a trace --- */

static int take_packet(struct known_symbols *known, struct module *module, struct proto_span packet)
{
    struct proto_span symbols = find_field(packet, PB_TRACE_PACKET_MODULE_SYMBOLS);
    struct proto_span mapping = find_field(packet, PB_TRACE_PACKET_DEOBFUSCATION_MAPPING);
    struct proto_field field;
    bool added;
    if (mapping.at != NULL &&
        intern_bytes(&known->others, mapping.at, proto_length(mapping), &added) == 0)
        return -ENOMEM;
    int result = symbols.at == NULL ? 0 : begin_module(known, module, symbols);
    while (result == 0 && proto_next(&symbols, &field) > 0) {
        if (field.number == PB_MODULE_SYMBOLS_ADDRESS_SYMBOLS && field.type == PROTO_BYTES)
            result = meet_entry(known, module, field.span) < 0 ? -ENOMEM : 0;
    }
    return result;
}

int known_symbols_read(struct known_symbols *known, const char *path, struct error *error)
{
    struct module module = {0};
    struct error problem;
    struct proto_span packet;
    int status = 1, result = 0;
    bool any = false;
    *known = (struct known_symbols){.good_bytes = UINT64_MAX};
    struct trace_reader *reader = trace_reader_open(path, error);
    if (reader == NULL)
        return error->code;
    while (result == 0 && (status = trace_reader_next(reader, &packet, &problem)) > 0) {
        any = true;
        result = take_packet(known, &module, packet);
    }
    if (result < 0) {
        error_set(error, result, "no memory for the symbols of the trace");
    } else if (status < 0 && !any) {
        result = error_set(error, status, "%s", problem.message);
    } else if (status < 0) {
        memcpy(known->warning, problem.message, sizeof(known->warning));
        known->good_bytes = trace_reader_offset(reader);
    }
    proto_buffer_free(&module.key);
    trace_reader_close(reader);
    return result;
}

/* --- new symbols --- */

struct writing {
    struct known_symbols *known;
    struct module module;
    struct proto_buffer head, entries, packet;
    int64_t written;
    int fd;
};

static int write_packet(struct writing *to, uint32_t number, const uint8_t *bytes, size_t length)
{
    to->head.length = to->packet.length = 0;
    proto_put_bytes(&to->packet, number, bytes, length);
    proto_put_bytes(&to->head, PB_TRACE_PACKET, to->packet.bytes, to->packet.length);
    if (to->head.failed || to->packet.failed)
        return -ENOMEM;
    return write_all(to->fd, to->head.bytes, to->head.length);
}

static int write_module(struct writing *to, struct proto_span symbols)
{
    struct proto_buffer *entries = &to->entries;
    struct proto_field field;
    int64_t before = to->written;
    int result = begin_module(to->known, &to->module, symbols);
    entries->length = 0;
    proto_put_bytes(entries, PB_MODULE_SYMBOLS_PATH, to->module.path.at,
                    proto_length(to->module.path));
    proto_put_bytes(entries, PB_MODULE_SYMBOLS_BUILD_ID, to->module.build_id.at,
                    proto_length(to->module.build_id));
    while (result == 0 && proto_next(&symbols, &field) > 0) {
        if (field.number != PB_MODULE_SYMBOLS_ADDRESS_SYMBOLS || field.type != PROTO_BYTES)
            continue;
        int met = meet_entry(to->known, &to->module, field.span);
        result = met < 0 ? met : 0;
        if (met != 0)
            continue;
        proto_put_bytes(entries, field.number, field.span.at, proto_length(field.span));
        to->written++;
    }
    if (result < 0 || to->written == before)
        return result;
    if (entries->failed)
        return -ENOMEM;
    return write_packet(to, PB_TRACE_PACKET_MODULE_SYMBOLS, entries->bytes, entries->length);
}

static int write_mapping(struct writing *to, struct proto_span mapping)
{
    bool added;
    if (intern_bytes(&to->known->others, mapping.at, proto_length(mapping), &added) == 0)
        return -ENOMEM;
    if (!added)
        return 0;
    to->written++;
    return write_packet(to, PB_TRACE_PACKET_DEOBFUSCATION_MAPPING, mapping.at,
                        proto_length(mapping));
}

int64_t known_symbols_write_new(struct known_symbols *known, const void *packets, size_t length,
                                int fd, struct error *error)
{
    struct writing to = {.known = known, .fd = fd};
    struct proto_span rest = {packets, (const uint8_t *)packets + length};
    struct proto_field packet;
    int result = 0;
    while (result == 0 && proto_next(&rest, &packet) > 0) {
        struct proto_span symbols = find_field(packet.span, PB_TRACE_PACKET_MODULE_SYMBOLS);
        struct proto_span mapping = find_field(packet.span, PB_TRACE_PACKET_DEOBFUSCATION_MAPPING);
        if (symbols.at != NULL)
            result = write_module(&to, symbols);
        if (result == 0 && mapping.at != NULL)
            result = write_mapping(&to, mapping);
    }
    proto_buffer_free(&to.module.key);
    proto_buffer_free(&to.head);
    proto_buffer_free(&to.entries);
    proto_buffer_free(&to.packet);
    if (result < 0)
        return error_set(error, result, "the symbols cannot be written: %s", strerror(-result));
    return to.written;
}

void known_symbols_clear(struct known_symbols *known)
{
    intern_free(&known->modules);
    intern_free(&known->entries);
    intern_free(&known->lines);
    intern_free(&known->others);
    *known = (struct known_symbols){0};
}
