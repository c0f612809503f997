/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See symbolize.h: between the passes. Symbols come as ModuleSymbols packets, as for a trace, with
 * all that is known there of files, caches and reasons; they go to a file in memory and are taken
 * apart from it.
 */
#include "memory_infra/symbolize.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "memory_infra/symbolize_private.h"
#include "pb_field_numbers.h"
#include "symbols/demangle.h"
#include "trace/proto_cursor.h"
#include "util/array.h"

/* --- what was found --- */

struct decoder {
    struct memory_infra_symbols *symbols;
    const struct trace_addresses *addresses;
    struct texts mangled;
    uint32_t *names; /* by mangled name: the text for people */
    size_t name_capacity;
};

/* The name for people; NONE: no memory. */
static uint32_t name_of(struct decoder *decoder, struct proto_span span)
{
    size_t known = decoder->mangled.count;
    uint32_t index = texts_add(&decoder->mangled, (const char *)span.at, proto_length(span));
    if (index == NONE || index < known)
        return index == NONE ? NONE : decoder->names[index];
    if (array_reserve(&decoder->names, &decoder->name_capacity, known, 1, sizeof(uint32_t)) < 0)
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
    if (array_reserve(&symbols->places, &symbols->place_capacity, symbols->place_count, 1,
                      sizeof(place)) < 0)
        return -ENOMEM;
    symbols->places[symbols->place_count++] = place;
    return 0;
}

static uint32_t index_of(const uint64_t *addresses, size_t count, uint64_t address)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (addresses[middle] < address)
            low = middle + 1;
        else
            high = middle;
    }
    return low < count && addresses[low] == address ? (uint32_t)low : NONE;
}

static bool is_of(const struct trace_module *module, struct proto_span path, struct proto_span id)
{
    return proto_length(path) == strlen(module->path) &&
           memcmp(path.at, module->path, proto_length(path)) == 0 &&
           proto_length(id) == module->build_id_length &&
           (module->build_id_length == 0 ||
            memcmp(id.at, module->build_id, module->build_id_length) == 0);
}

static int take_address(struct decoder *decoder, struct proto_span path, struct proto_span id,
                        struct proto_span entry)
{
    struct memory_infra_symbols *symbols = decoder->symbols;
    struct proto_field field;
    struct answer answer = {.place = symbols->place_count};
    uint64_t address = 0;
    int result = 0;
    while (result == 0 && proto_next(&entry, &field) > 0) {
        if (field.number == PB_ADDRESS_SYMBOLS_ADDRESS)
            address = field.value;
        else if (field.number == PB_ADDRESS_SYMBOLS_LINES && field.type == PROTO_BYTES)
            result = add_place(decoder, field.span);
    }
    answer.count = (uint32_t)(symbols->place_count - answer.place);
    if (result < 0 || answer.count == 0)
        return result;
    if (symbols->answer_count >= NONE - 1 ||
        array_reserve(&symbols->answers, &symbols->answer_capacity, symbols->answer_count, 1,
                      sizeof(answer)) < 0)
        return -ENOMEM;
    symbols->answers[symbols->answer_count] = answer;
    for (size_t i = 0; i < symbols->module_count; i++) {
        struct source_module *module = &symbols->modules[i];
        uint32_t index = is_of(&decoder->addresses->modules[i], path, id)
                             ? index_of(module->addresses, module->count, address)
                             : NONE;
        if (index != NONE)
            module->answers[index] = (uint32_t)symbols->answer_count;
    }
    symbols->answer_count++;
    return 0;
}

static int take_symbols(struct decoder *decoder, struct proto_span symbols)
{
    struct proto_span rest = symbols, path = {0}, id = {0};
    struct proto_field field;
    int result = 0;
    while (proto_next(&rest, &field) > 0) {
        if (field.number == PB_MODULE_SYMBOLS_PATH)
            path = field.span;
        else if (field.number == PB_MODULE_SYMBOLS_BUILD_ID)
            id = field.span;
    }
    while (result == 0 && proto_next(&symbols, &field) > 0)
        if (field.number == PB_MODULE_SYMBOLS_ADDRESS_SYMBOLS && field.type == PROTO_BYTES)
            result = take_address(decoder, path, id, field.span);
    return result;
}

static int take_packets(struct decoder *decoder, int fd)
{
    struct stat status;
    struct proto_field packet, field;
    int result = 0;
    if (fstat(fd, &status) != 0)
        return -errno;
    if (status.st_size == 0)
        return 0;
    void *bytes = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (bytes == MAP_FAILED)
        return -errno;
    struct proto_span rest = {bytes, (const uint8_t *)bytes + status.st_size};
    while (result == 0 && proto_next(&rest, &packet) > 0)
        while (result == 0 && proto_next(&packet.span, &field) > 0)
            if (field.number == PB_TRACE_PACKET_MODULE_SYMBOLS && field.type == PROTO_BYTES)
                result = take_symbols(decoder, field.span);
    munmap(bytes, (size_t)status.st_size);
    return result;
}

/* --- what is asked --- */

/* Borrows paths and addresses. */
static int list_addresses(struct memory_infra_symbols *symbols, struct trace_addresses *addresses)
{
    addresses->modules = calloc(symbols->module_count + 1, sizeof(*addresses->modules));
    if (addresses->modules == NULL)
        return -ENOMEM;
    addresses->count = symbols->module_count;
    for (size_t i = 0; i < symbols->module_count; i++) {
        struct source_module *module = &symbols->modules[i];
        struct trace_module *asked = &addresses->modules[i];
        asked->path = symbols->texts.items[module->path];
        asked->file = module->by_path ? asked->path : NULL;
        memcpy(asked->build_id, module->id, module->id_length);
        asked->build_id_length = module->id_length;
        asked->load_bias = module->load_bias;
        asked->addresses = module->addresses;
        asked->count = module->count;
        module->answers = malloc((module->count + 1) * sizeof(uint32_t));
        if (module->answers == NULL)
            return -ENOMEM;
        memset(module->answers, 0xff, module->count * sizeof(uint32_t));
    }
    for (size_t i = 0; i < symbols->process_count && i < TRACE_PROCESSES_MAX; i++)
        addresses->processes[addresses->process_count++] = (pid_t)symbols->processes[i].pid;
    return 0;
}

static int ask(struct memory_infra_symbols *symbols,
               const struct memory_infra_symbolize_options *options, struct error *error)
{
    struct trace_addresses addresses = {0};
    struct decoder decoder = {.symbols = symbols, .addresses = &addresses};
    size_t modules = symbols->module_count;
    int fd = memfd_create("symbols", MFD_CLOEXEC);
    int result = fd < 0 ? -errno : list_addresses(symbols, &addresses);
    if (result == 0)
        result = symbolize_addresses_as(&options->symbolizing, &addresses, options->finder, fd,
                                        &symbols->report, options->progress, &modules, error);
    else
        error_set(error, result, "no memory for the symbols");
    if (result == 0 && (result = take_packets(&decoder, fd)) < 0)
        error_set(error, result, "no memory for the symbols");
    if (fd >= 0)
        close(fd);
    texts_free(&decoder.mangled);
    free(decoder.names);
    free(addresses.modules);
    return result;
}

/* --- what it means --- */

static void find_answers(struct memory_infra_symbols *symbols)
{
    for (size_t i = 0; i < symbols->use_count; i++) {
        struct pc_use *use = &symbols->uses[i];
        if (use->module == NONE)
            continue;
        const struct source_module *module = &symbols->modules[use->module];
        uint32_t index = index_of(module->addresses, module->count, use->address);
        use->answer = index == NONE ? NONE : module->answers[index];
    }
}

/* Where there is no file of a module that the dump has no build id of, that is what is wrong. */
static int finish_report(struct memory_infra_symbols *symbols)
{
    symbols->unchecked = calloc(symbols->module_count + 1, sizeof(bool));
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
        result = ask(symbols, options, error);
    if (result == 0) {
        find_answers(symbols);
        symbols_tell_uses(symbols);
        if (finish_report(symbols) < 0)
            result = error_set(error, -ENOMEM, "no memory for the symbols");
    }
    if (result == 0)
        return symbols;
    memory_infra_symbols_free(symbols);
    return NULL;
}

/* Of each address of a process once. Without memory the figures are those of frames, not addresses.
 */
void memory_infra_symbols_sum(const struct memory_infra_symbols *symbols,
                              struct memory_infra_summary *summary)
{
    struct intern_table seen = {0};
    *summary = (struct memory_infra_summary){
        .modules = &symbols->report, .unchecked = symbols->unchecked, .warning = symbols->warning};
    for (int named = 0; named < 2; named++) { /* those without a name first, in any of their uses */
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
    for (size_t i = 0; i < symbols->module_count; i++) {
        free(symbols->modules[i].addresses);
        free(symbols->modules[i].answers);
        free(symbols->modules[i].image);
    }
    symbols_clear_collected(symbols);
    symbolize_report_clear(&symbols->report);
    intern_free(&symbols->module_ids);
    free(symbols->modules);
    free(symbols->places);
    free(symbols->answers);
    free(symbols->unchecked);
    free(symbols);
}
