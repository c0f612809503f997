/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between the passes of symbolize.h: get the names of all addresses from the common symbolizer
 * (profile/symbolize/symbolize.h), and count the addresses without a name.
 */
#include "profile/memory_infra/symbolize.h"

#include <stdlib.h>
#include <string.h>

#include "pb_field_numbers.h"
#include "profile/memory_infra/symbolize_private.h"
#include "profile/symbols/demangle.h"
#include "trace/proto_cursor.h"
#include "util/array.h"

/* --- names --- */

struct decoder {
    struct memory_infra_symbols *symbols;
    struct texts mangled;
    uint32_t *names; /* by mangled name: the text for people */
    size_t name_capacity;
};

/* Return the readable name; NONE: no memory. */
static uint32_t name_of(struct decoder *decoder, struct proto_span span)
{
    size_t known = decoder->mangled.count;
    uint32_t index = texts_add(&decoder->mangled, (const char *)span.at, proto_length(span));
    if (index == NONE || index < known)
        return index == NONE ? NONE : decoder->names[index];
    if (ARRAY_RESERVE(&decoder->names, &decoder->name_capacity, known, 1) < 0)
        return NONE;
    char *name = demangle_name(decoder->mangled.items[index]);
    if (name == NULL)
        return NONE;
    decoder->names[index] = texts_add(&decoder->symbols->texts, name, strlen(name));
    free(name);
    return decoder->names[index];
}

static int add_place(struct decoder *decoder, struct proto_span line)
{
    struct memory_infra_symbols *symbols = decoder->symbols;
    struct source_place place = {.function = NONE, .file = NONE};
    struct proto_field field;
    while (proto_next(&line, &field) > 0) {
        if (field.number == PB_LINE_FUNCTION_NAME && proto_length(field.span) > 0) {
            place.function = name_of(decoder, field.span);
            if (place.function == NONE)
                return -ENOMEM;
        } else if (field.number == PB_LINE_SOURCE_FILE_NAME && field.type == PROTO_BYTES) {
            place.file =
                texts_add(&symbols->texts, (const char *)field.span.at, proto_length(field.span));
            if (place.file == NONE)
                return -ENOMEM;
        } else if (field.number == PB_LINE_LINE_NUMBER) {
            place.line = (uint32_t)field.value;
        }
    }
    if (place.function == NONE)
        return 0;
    return ARRAY_ADD(&symbols->places, &symbols->place_count, &symbols->place_capacity, place);
}

static int take_answer(void *context, size_t module_index, uint64_t address, const void *lines,
                       size_t length)
{
    struct decoder *decoder = context;
    struct memory_infra_symbols *symbols = decoder->symbols;
    const struct trace_module *module = &symbols->addresses.modules[module_index];
    struct proto_span rest = {lines, (const uint8_t *)lines + length};
    struct answer answer = {.place = symbols->place_count};
    struct proto_field field;
    int result = 0;
    while (result == 0 && proto_next(&rest, &field) > 0)
        if (field.number == PB_ADDRESS_SYMBOLS_LINES && field.type == PROTO_BYTES)
            result = add_place(decoder, field.span);
    answer.count = (uint32_t)(symbols->place_count - answer.place);
    if (result < 0 || answer.count == 0)
        return result;
    if (symbols->answer_count >= NONE - 1 ||
        ARRAY_RESERVE(&symbols->answers, &symbols->answer_capacity, symbols->answer_count, 1) < 0)
        return -ENOMEM;
    size_t index = trace_module_find_address(module, address);
    if (index < module->count)
        symbols->modules[module_index].answers[index] = (uint32_t)symbols->answer_count;
    symbols->answers[symbols->answer_count++] = answer;
    return 0;
}

static int find_names(struct memory_infra_symbols *symbols,
                      const struct memory_infra_symbolize_options *options, struct error *error)
{
    struct decoder decoder = {.symbols = symbols};
    struct symbolize_options symbolizing = options->symbolizing;
    size_t count = symbols->addresses.count;
    for (size_t i = 0; i < count; i++) {
        size_t bytes = symbols->addresses.modules[i].count * sizeof(uint32_t);
        symbols->modules[i].answers = malloc(bytes + 1);
        if (symbols->modules[i].answers == NULL)
            return error_set(error, -ENOMEM, "no memory for the symbols");
        memset(symbols->modules[i].answers, 0xff, bytes);
    }
    symbolizing.answer = take_answer;
    symbolizing.answer_context = &decoder;
    int result = symbolize_addresses(&symbolizing, &symbols->addresses, options->finder, -1,
                                     &symbols->report, error);
    texts_free(&decoder.mangled);
    free(decoder.names);
    return result;
}

/* A frame keeps its address as its name if a use of it has no name. */
static void set_answers(struct memory_infra_symbols *symbols)
{
    for (size_t i = 0; i < symbols->use_count; i++) {
        struct pc_use *use = &symbols->uses[i];
        if (use->module != NONE) {
            const struct trace_module *module = &symbols->addresses.modules[use->module];
            size_t index = trace_module_find_address(module, use->address);
            use->answer = symbols->modules[use->module].answers[index];
        }
        if (use->answer == NONE)
            symbols->frames[use->frame].is_kept = true;
    }
}

/* A module without a build id in the dump and without a file lacks its file, not its build id. */
static int finish_report(struct memory_infra_symbols *symbols)
{
    symbols->unchecked = calloc(symbols->addresses.count + 1, sizeof(bool));
    if (symbols->unchecked == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < symbols->report.count; i++) {
        size_t *without = symbols->report.modules[i].without;
        symbols->unchecked[i] = symbols->modules[i].unchecked;
        if (!symbols->modules[i].is_missing)
            continue;
        without[SYMBOL_NO_FILE] += without[SYMBOL_NO_BUILD_ID];
        without[SYMBOL_NO_BUILD_ID] = 0;
    }
    return 0;
}

struct memory_infra_symbols *
memory_infra_symbols_find(const char *path, const struct memory_infra_symbolize_options *options,
                          struct error *error)
{
    struct memory_infra_symbols *symbols = calloc(1, sizeof(*symbols));
    int result = symbols == NULL ? error_set(error, -ENOMEM, "no memory to read %s", path) : 0;
    if (result == 0)
        result = symbols_collect(symbols, path, error);
    if (result == 0 && symbols_place(symbols, options->finder) < 0)
        result = error_set(error, -ENOMEM, "no memory for the addresses of %s", path);
    if (result == 0)
        result = find_names(symbols, options, error);
    if (result == 0 && finish_report(symbols) < 0)
        result = error_set(error, -ENOMEM, "no memory for the symbols");
    if (result == 0) {
        set_answers(symbols);
        return symbols;
    }
    memory_infra_symbols_free(symbols);
    return NULL;
}

/* Count each address of a process once. Without memory, count frames instead. */
void memory_infra_symbols_sum(const struct memory_infra_symbols *symbols,
                              struct memory_infra_summary *summary)
{
    struct intern_table seen = {0};
    *summary = (struct memory_infra_summary){
        .modules = &symbols->report, .unchecked = symbols->unchecked, .warning = symbols->warning};
    for (int named = 0; named < 2; named++) { /* first addresses that lack a name in any use */
        for (size_t i = 0; i < symbols->use_count; i++) {
            const struct pc_use *use = &symbols->uses[i];
            const struct pc_frame *frame = &symbols->frames[use->frame];
            const uint64_t key[] = {frame->process, frame->address};
            bool added = false;
            if ((use->answer != NONE) != (named == 1))
                continue;
            if (intern_bytes(&seen, key, sizeof(key), &added) != 0 && !added)
                continue;
            summary->frames++;
            summary->named += named == 1;
            if (named == 0 && use->module == NONE)
                summary->strays[use->stray]++;
        }
    }
    intern_free(&seen);
}

void memory_infra_symbols_free(struct memory_infra_symbols *symbols)
{
    if (symbols == NULL)
        return;
    for (size_t i = 0; i < symbols->addresses.count; i++) {
        free(symbols->modules[i].answers);
        free(symbols->modules[i].image);
        free(symbols->modules[i].by_name);
    }
    symbols_clear_collected(symbols);
    trace_addresses_clear(&symbols->addresses);
    symbolize_report_clear(&symbols->report);
    intern_free(&symbols->module_ids);
    free(symbols->modules);
    free(symbols->places);
    free(symbols->answers);
    free(symbols->unchecked);
    free(symbols);
}
