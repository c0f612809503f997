/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ModuleSymbols: names of frames that were written before their names were known, in separate
 * packets.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "pb_field_numbers.h"
#include "trace/write/writer_state.h"

/* A packet is written when it has this size. One more address with both names truncated still fits.
 */
#define SYMBOLS_BYTES (TRACE_PACKET_BYTES_MAX / 2)

struct module {
    struct trace_writer *writer;
    const char *path;
    struct proto_buffer addresses, entry, line;
};

/* Write the mapping's path as readers form it: with a slash before each component. */
static void put_path(struct proto_buffer *entry, const char *path)
{
    char slashed[4096];
    bool is_bare = *path != '\0' && *path != '/' && strlen(path) + 2 <= sizeof(slashed);
    if (is_bare)
        snprintf(slashed, sizeof(slashed), "/%s", path);
    proto_put_string(entry, PB_MODULE_SYMBOLS_PATH, is_bare ? slashed : path);
}

static int trace_symbols_flush(struct module *module)
{
    struct trace_writer *writer = module->writer;
    if (module->addresses.length == 0)
        return writer->error;
    module->entry.length = 0;
    put_path(&module->entry, module->path);
    proto_put_raw(&module->entry, module->addresses.bytes, module->addresses.length);
    if (module->addresses.failed || module->entry.failed || module->line.failed) {
        writer->error = writer->error < 0 ? writer->error : -ENOMEM;
        return writer->error;
    }
    packet_begin(writer, packet_time_ns(writer), SEQUENCE_PLAIN);
    proto_put_bytes(&writer->packet, PB_TRACE_PACKET_MODULE_SYMBOLS, module->entry.bytes,
                    module->entry.length);
    module->addresses.length = 0;
    return packet_end(writer);
}

static void put_text(struct proto_buffer *buffer, uint32_t field, const char *text)
{
    proto_put_bytes(buffer, field, text, strnlen(text, PACKET_STRING_BYTES_MAX));
}

static void put_symbol(struct module *module, const struct trace_symbol *symbol)
{
    struct proto_buffer *entry = &module->entry, *line = &module->line;
    entry->length = line->length = 0;
    put_text(line, PB_LINE_FUNCTION_NAME, symbol->function);
    if (symbol->file != NULL)
        put_text(line, PB_LINE_SOURCE_FILE_NAME, symbol->file);
    if (symbol->line != 0)
        proto_put_uint(line, PB_LINE_LINE_NUMBER, symbol->line);
    proto_put_uint(entry, PB_ADDRESS_SYMBOLS_ADDRESS, symbol->address);
    proto_put_bytes(entry, PB_ADDRESS_SYMBOLS_LINES, line->bytes, line->length);
    if (symbol->kind != TRACE_FRAME_UNKNOWN)
        proto_put_uint(entry, PB_ADDRESS_SYMBOLS_KIND, symbol->kind);
    proto_put_bytes(&module->addresses, PB_MODULE_SYMBOLS_ADDRESS_SYMBOLS, entry->bytes,
                    entry->length);
}

int trace_writer_symbols(struct trace_writer *writer, const char *path,
                         const struct trace_symbol *symbols, size_t count)
{
    struct module module = {.writer = writer, .path = path};
    int result = writer->error;
    for (size_t i = 0; i < count && result == 0; i++) {
        put_symbol(&module, &symbols[i]);
        if (module.addresses.length >= SYMBOLS_BYTES)
            result = trace_symbols_flush(&module);
    }
    if (result == 0)
        result = trace_symbols_flush(&module);
    proto_buffer_free(&module.addresses);
    proto_buffer_free(&module.entry);
    proto_buffer_free(&module.line);
    return result;
}
