/* SPDX-License-Identifier: Apache-2.0 */
/* heap_profile fleet symbolize: looks up the addresses of all stacks that have no names from debug
 * information yet, and stores the names. Each address is looked up once for all machines. */
#include <stdlib.h>
#include <string.h>

#include "pb_field_numbers.h"
#include "production/fleet/answer.h"
#include "production/fleet/rows_state.h"
#include "production/fleet/verbs/fleet.h"
#include "profile/symbolize/symbolize.h"
#include "tools/cli/files/symbol_options.h"
#include "tools/print/format.h"
#include "trace/proto_cursor.h"
#include "util/array.h"

static const char help[] =
    "usage: heap_profile fleet symbolize [options]\n"
    "\n"
    "Finds functions, files and lines for the addresses of all stacks, once for each build id,\n"
    "and stores them. Files are searched in the directories, in this machine's usual places and "
    "on\n"
    "the servers in DEBUGINFOD_URLS, by build id. Without it, frames have the names that the\n"
    "profiled machines knew.\n"
    "\n"
    "  --symbol-paths DIR[:DIR...]   search these directories first\n"
    "  --offline       search only them\n" FLEET_SERVER_HELP;

static const struct option_entry options[] = {
    FLEET_SERVER_OPTIONS,
    OPTION_ENTRY("symbol-paths", 0, OPTION_TEXT, struct fleet_request, symbol_paths),
    OPTION_ENTRY("offline", 0, OPTION_SET, struct fleet_request, offline),
    OPTIONS_END,
};

/* --- addresses --- */

static const char addresses_query[] =
    "SELECT DISTINCT build_id, module, bias, offset FROM stacks "
    "ARRAY JOIN build_ids AS build_id, modules AS module, biases AS bias, offsets AS offset "
    "WHERE build_id != '' AND (build_id, offset) GLOBAL NOT IN "
    "(SELECT build_id, offset FROM symbols WHERE quality >= 3) "
    "ORDER BY build_id, bias, module, offset FORMAT RowBinary";

static bool is_module(const struct trace_module *module, const char *build_id, uint64_t bias)
{
    char hex[2 * TRACE_BUILD_ID_BYTES_MAX + 1] = "";
    for (size_t i = 0; i < module->build_id_length; i++)
        snprintf(hex + 2 * i, 3, "%02x", module->build_id[i]);
    return strcmp(hex, build_id) == 0 && module->load_bias == bias;
}

/* Add an address to the last module, or to a new one: the rows are sorted. */
static int add_address(struct trace_addresses *addresses, const char *build_id, const char *path,
                       uint64_t bias, uint64_t offset)
{
    struct trace_module *last =
        addresses->count == 0 ? NULL : &addresses->modules[addresses->count - 1];
    if (last == NULL || !is_module(last, build_id, bias)) {
        struct trace_module module = {.load_bias = bias, .path = strdup(path)};
        trace_module_set_build_id(&module, build_id);
        if (module.path == NULL ||
            ARRAY_ADD(&addresses->modules, &addresses->count, &addresses->capacity, module) < 0) {
            free(module.path);
            return -ENOMEM;
        }
        last = &addresses->modules[addresses->count - 1];
    }
    return trace_module_add_address(last, offset);
}

static int take_addresses(struct trace_addresses *addresses, struct clickhouse *server,
                          struct error *error)
{
    struct clickhouse_answer text = {0};
    int code = clickhouse_run(server, addresses_query, NULL, 0, &text, error);
    struct answer answer = answer_begin(text.bytes, text.length);
    while (code == 0 && answer_has_more(&answer)) {
        struct answer_text id = answer_text(&answer), module = answer_text(&answer);
        uint64_t bias = answer_u64(&answer), offset = answer_u64(&answer);
        char build_id[2 * TRACE_BUILD_ID_BYTES_MAX + 1], path[4096];
        if (answer.is_bad || id.length >= sizeof(build_id) || module.length >= sizeof(path)) {
            code = error_set(error, -EBADMSG, "query %s: the server's answer is damaged",
                             text.query_id);
            break;
        }
        snprintf(build_id, sizeof(build_id), "%.*s", (int)id.length, id.bytes);
        snprintf(path, sizeof(path), "%.*s", (int)module.length, module.bytes);
        if (add_address(addresses, build_id, path, bias, offset) < 0)
            code = error_set(error, -ENOMEM, "no memory for the addresses");
    }
    clickhouse_answer_clear(&text);
    if (code == 0)
        trace_addresses_sort(addresses);
    return code;
}

/* --- names --- */

struct names {
    const struct trace_addresses *addresses;
    struct proto_buffer rows;
    struct proto_span functions[FLEET_INLINED_MAX], files[FLEET_INLINED_MAX];
    uint32_t lines[FLEET_INLINED_MAX];
    uint64_t count;
};

static bool fleet_symbolize_take_line(struct names *names, size_t at, struct proto_span line)
{
    struct proto_field field;
    names->functions[at] = names->files[at] = (struct proto_span){0};
    names->lines[at] = 0;
    while (proto_next(&line, &field) > 0) {
        if (field.number == PB_LINE_FUNCTION_NAME)
            names->functions[at] = field.span;
        else if (field.number == PB_LINE_SOURCE_FILE_NAME)
            names->files[at] = field.span;
        else if (field.number == PB_LINE_LINE_NUMBER)
            names->lines[at] = (uint32_t)field.value;
    }
    return proto_length(names->functions[at]) > 0;
}

static void put_span(struct proto_buffer *to, struct proto_span span)
{
    size_t length = proto_length(span);
    length = length < ROWS_TEXT_BYTES_MAX ? length : ROWS_TEXT_BYTES_MAX;
    proto_put_varint(to, length);
    if (length > 0)
        proto_put_raw(to, span.at, length);
}

/* Receive the functions of an address, innermost first. */
static int take_names(void *context, size_t module, uint64_t address, const void *lines,
                      size_t length)
{
    struct names *names = context;
    struct proto_span span = {lines, (const uint8_t *)lines + length};
    struct proto_field field;
    char hex[2 * TRACE_BUILD_ID_BYTES_MAX + 1] = "";
    const struct trace_module *of = &names->addresses->modules[module];
    size_t count = 0;
    while (count < FLEET_INLINED_MAX && proto_next(&span, &field) > 0)
        if (field.number == PB_ADDRESS_SYMBOLS_LINES && field.type == PROTO_BYTES)
            count += fleet_symbolize_take_line(names, count, field.span);
    if (count == 0)
        return 0;
    for (size_t i = 0; i < of->build_id_length; i++)
        snprintf(hex + 2 * i, 3, "%02x", of->build_id[i]);
    put_text(&names->rows, hex);
    put_u64(&names->rows, address);
    put_u8(&names->rows, FLEET_SYMBOL_DEBUG);
    proto_put_varint(&names->rows, count);
    for (size_t i = 0; i < count; i++)
        put_span(&names->rows, names->functions[i]);
    proto_put_varint(&names->rows, count);
    for (size_t i = 0; i < count; i++)
        put_span(&names->rows, names->files[i]);
    proto_put_varint(&names->rows, count);
    for (size_t i = 0; i < count; i++)
        put_u32(&names->rows, names->lines[i]);
    names->count++;
    return names->rows.failed ? -ENOMEM : 0;
}

static int find_names(const struct fleet_request *request, struct names *names, struct error *error)
{
    struct symbol_places places = {0};
    struct symbol_finder *finder = NULL;
    struct breakpad_store *breakpad = NULL;
    struct symbolize_report report = {0};
    int code = symbol_places_read(&places, error);
    if (code == 0 && request->symbol_paths != NULL)
        symbol_places_add(&places, request->symbol_paths);
    places.by_build_id |= request->symbol_paths != NULL;
    if (code == 0)
        code = symbol_places_open(&places, !request->offline, &finder, &breakpad, error);
    const struct symbolize_options symbolize = {
        .breakpad = breakpad, .answer = take_names, .answer_context = names};
    if (code == 0)
        code = symbol_options_symbolize(&symbolize, names->addresses, finder, -1, &report, false,
                                        error);
    if (code == 0)
        symbol_options_print_report(stdout, &report);
    symbolize_report_clear(&report);
    symbol_finder_close(finder);
    breakpad_store_close(breakpad);
    symbol_places_clear(&places);
    return code;
}

static int symbolize(struct clickhouse *server, const struct fleet_request *request)
{
    struct trace_addresses addresses = {0};
    struct names *names = calloc(1, sizeof(*names));
    struct error error = {0};
    char insert[200];
    int code = names == NULL ? error_set(&error, -ENOMEM, "no memory")
                             : take_addresses(&addresses, server, &error);
    if (code == 0 && addresses.count > 0) {
        names->addresses = &addresses;
        code = find_names(request, names, &error);
    }
    snprintf(insert, sizeof(insert), "INSERT INTO %s (%s) FORMAT RowBinary",
             fleet_table_names[FLEET_SYMBOLS], fleet_table_columns[FLEET_SYMBOLS]);
    if (code == 0 && names->count > 0)
        code = clickhouse_run(server, insert, names->rows.bytes, names->rows.length, NULL, &error);
    if (code == 0)
        printf("Stored names of %llu addresses.\n", (unsigned long long)names->count);
    if (names != NULL)
        proto_buffer_free(&names->rows);
    free(names);
    trace_addresses_clear(&addresses);
    return code < 0 ? verb_fail(&error) : verb_end_output("report", VERB_DONE);
}

int fleet_symbolize(int argc, char **argv)
{
    static const struct verb_line line = {"heap_profile fleet symbolize", help, options, false};
    struct fleet_request request = {0};
    int code = fleet_parse(&line, argc, argv, &request);
    if (code < 0) {
        struct clickhouse *server = fleet_connect(&request);
        code = server == NULL ? VERB_FAILED : symbolize(server, &request);
        clickhouse_close(server);
    }
    fleet_request_clear(&request);
    return code;
}
