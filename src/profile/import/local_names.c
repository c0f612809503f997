/* SPDX-License-Identifier: Apache-2.0 */
/* Asks the symbolizer of traces about the addresses of other profilers' files. */
#include "profile/import/local_names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pb_field_numbers.h"
#include "profile/symbolize/symbolize.h"
#include "profile/symbols/elf_image.h"
#include "util/array.h"
#include "util/base_name.h"

/* Real processes have some hundred files. */
#define MODULES_MAX 65536u
/* Number of files that a warning names. */
#define NAMED_MAX 3u

struct local_names {
    struct builder *builder;
    struct import_naming *naming; /* NULL: none */
    struct symbol_finder *finder; /* NULL: it could not be opened, and nothing is found */
    struct trace_addresses addresses;
    struct error warning; /* about the directories */
    struct module_names {
        struct elf_image *image; /* NULL: no file */
        char *by_name;           /* the path of a file that only its name led to; NULL: none */
        struct answer {
            size_t first;
            uint32_t count;
        } * answers; /* by address; NULL before local_names_find() */
    } * modules;
    size_t module_capacity;
    struct intern_table ids; /* by path and build id */
    struct builder_line *names;
    size_t name_count, name_capacity;
};

/* The processes of the profile, where they still run, have their files open. */
static void set_processes(struct local_names *names)
{
    const struct profile *profile = names->builder->profile;
    struct trace_addresses *addresses = &names->addresses;
    for (size_t i = 0; i < profile->process_count && addresses->process_count < TRACE_PROCESSES_MAX;
         i++)
        if (profile->processes[i].pid > 0)
            addresses->processes[addresses->process_count++] = profile->processes[i].pid;
    symbol_finder_set_processes(names->finder, addresses->processes, addresses->process_count);
}

struct local_names *local_names_new(struct builder *builder, struct import_naming *naming)
{
    struct local_names *names = calloc(1, sizeof(*names));
    struct error warning = {0}, error;
    struct symbol_finder_options options = {.automatic = true, .offline = true};
    if (names == NULL)
        return NULL;
    names->builder = builder;
    names->naming = naming;
    if (naming != NULL) {
        names->finder = naming->finder;
        set_processes(names);
        return names;
    }
    if (symbol_finder_options_from_environment(&options, &names->warning) < 0)
        options.directories = NULL;
    names->finder = symbol_finder_open(&options, &warning, &error);
    if (names->warning.code == 0)
        names->warning = warning;
    return names;
}

void local_names_free(struct local_names *names)
{
    if (names == NULL)
        return;
    for (size_t i = 0; i < names->addresses.count; i++) {
        free(names->modules[i].image);
        free(names->modules[i].by_name);
        free(names->modules[i].answers);
        names->addresses.modules[i].file = NULL;
    }
    if (names->naming != NULL) {
        names->naming->addresses = names->addresses; /* the report has their paths */
    } else {
        trace_addresses_clear(&names->addresses);
        symbol_finder_close(names->finder);
    }
    intern_free(&names->ids);
    free(names->modules);
    free(names->names);
    free(names);
}

/* --- modules --- */

static int find_file(struct local_names *names, struct trace_module *module,
                     struct symbol_found *found)
{
    if (module->build_id_length == 0)
        return symbol_finder_find_named(names->finder, module->path, found);
    return symbol_finder_find(names->finder, module->path, module->build_id,
                              module->build_id_length, found);
}

/* Read the headers of the module's file. Those of a debug file have no offsets: if the program
 * itself is there, too, its own are better. */
static int read_image(const struct trace_module *module, const char *path, struct elf_image *image)
{
    struct elf_image program;
    int code = elf_image_read(path, image);
    if (code == 0 && !image->has_code && *module->path == '/' &&
        elf_image_read(module->path, &program) == 0 && program.has_code &&
        image->build_id_length > 0 && program.build_id_length == image->build_id_length &&
        memcmp(program.build_id, image->build_id, image->build_id_length) == 0)
        *image = program;
    return code;
}

/* Find the module's file. Where only its name leads to it, its build id leads to its debug files.
 */
static int find_image(struct local_names *names, struct trace_module *module,
                      struct module_names *kept)
{
    struct symbol_found found = {0};
    struct elf_image image;
    int code = find_file(names, module, &found);
    if (code == 0 && found.path != NULL && read_image(module, found.path, &image) == 0) {
        kept->image = malloc(sizeof(*kept->image));
        if (kept->image == NULL)
            code = -ENOMEM;
        else
            *kept->image = image;
        module->load_bias = image.load_bias;
        if (found.is_by_path) {
            kept->by_name = found.path;
            found.path = NULL;
            module->build_id_length = image.build_id_length;
            memcpy(module->build_id, image.build_id, image.build_id_length);
            module->file = image.build_id_length == 0 ? kept->by_name : NULL;
        }
    }
    symbol_found_clear(&found);
    return code;
}

uint32_t local_names_module(struct local_names *names, const char *path, const char *build_id,
                            uint64_t load_bias)
{
    struct trace_addresses *addresses = &names->addresses;
    /* Strings of the builder are unique. */
    const char *key[] = {builder_text(names->builder, path, strlen(path)),
                         builder_text(names->builder, build_id, strlen(build_id))};
    bool added;
    uint64_t id = intern_bytes(&names->ids, key, sizeof(key), &added);
    if (id == 0 || id > MODULES_MAX)
        return PROFILE_NONE;
    if (!added)
        return (uint32_t)id - 1;
    if (ARRAY_RESERVE(&addresses->modules, &addresses->capacity, addresses->count, 1) < 0 ||
        ARRAY_RESERVE(&names->modules, &names->module_capacity, addresses->count, 1) < 0) {
        builder_fail(names->builder);
        return PROFILE_NONE;
    }
    struct trace_module *module = &addresses->modules[addresses->count];
    *module = (struct trace_module){.path = strdup(path), .load_bias = load_bias};
    names->modules[addresses->count] = (struct module_names){0};
    if (module->path == NULL) {
        builder_fail(names->builder);
        return PROFILE_NONE;
    }
    trace_module_set_build_id(module, build_id);
    addresses->count++;
    if (names->finder != NULL && find_image(names, module, &names->modules[id - 1]) < 0)
        builder_fail(names->builder);
    return (uint32_t)id - 1;
}

const struct elf_image *local_names_image(const struct local_names *names, uint32_t module)
{
    return module < names->addresses.count ? names->modules[module].image : NULL;
}

bool local_names_bias(const struct local_names *names, uint32_t module, uint64_t start,
                      uint64_t end, uint64_t offset, uint64_t *bias)
{
    const struct elf_image *image = local_names_image(names, module);
    return image != NULL && elf_image_find_bias(image, start, end, offset, bias);
}

int local_names_add(struct local_names *names, uint32_t module, uint64_t address)
{
    const struct elf_image *image = local_names_image(names, module);
    bool is_code = image != NULL && elf_image_has_code_at(image, address);
    if (module >= names->addresses.count || (!is_code && names->naming == NULL))
        return 0;
    return trace_module_add_address(&names->addresses.modules[module], address);
}

/* --- names --- */

static int local_names_take_line(struct local_names *names, struct proto_span line)
{
    struct builder_line name = {.has_line = true};
    struct proto_field field;
    while (proto_next(&line, &field) > 0) {
        if (field.number == PB_LINE_FUNCTION_NAME && field.type == PROTO_BYTES)
            name.name = builder_string_of_span(names->builder, field.span);
        else if (field.number == PB_LINE_SOURCE_FILE_NAME && field.type == PROTO_BYTES)
            name.source_file = builder_string_of_span(names->builder, field.span);
        else if (field.number == PB_LINE_LINE_NUMBER)
            name.line = field.value <= UINT32_MAX ? (uint32_t)field.value : 0;
    }
    if (names->builder->error < 0)
        return names->builder->error;
    if (name.name == 0)
        return 0;
    return ARRAY_ADD(&names->names, &names->name_count, &names->name_capacity, name);
}

static int take_answer(void *context, size_t index, uint64_t address, const void *lines,
                       size_t length)
{
    struct local_names *names = context;
    struct proto_span rest = {lines, (const uint8_t *)lines + length};
    const struct trace_module *module = &names->addresses.modules[index];
    struct answer answer = {.first = names->name_count};
    struct proto_field field;
    int code = 0;
    while (code == 0 && proto_next(&rest, &field) > 0)
        if (field.number == PB_ADDRESS_SYMBOLS_LINES && field.type == PROTO_BYTES)
            code = local_names_take_line(names, field.span);
    size_t at = trace_module_find_address(module, address);
    answer.count = (uint32_t)(names->name_count - answer.first);
    if (code == 0 && at < module->count)
        names->modules[index].answers[at] = answer;
    return code;
}

/* Hand on the report. A module without a build id lacks its file if none has its name. */
static int keep_report(struct local_names *names, const struct symbolize_report *report)
{
    struct import_naming *naming = names->naming;
    naming->report = *report;
    naming->by_name = calloc(report->count + 1, sizeof(*naming->by_name));
    if (naming->by_name == NULL)
        return builder_fail(names->builder);
    for (size_t i = 0; i < report->count; i++) {
        size_t *without = report->modules[i].without;
        naming->by_name[i] = names->modules[i].by_name != NULL;
        without[SYMBOL_NO_FILE] += without[SYMBOL_NO_BUILD_ID];
        without[SYMBOL_NO_BUILD_ID] = 0;
    }
    return 0;
}

int local_names_find(struct local_names *names)
{
    struct trace_addresses *addresses = &names->addresses;
    struct symbolize_options options = {0};
    struct symbolize_report report = {0};
    struct error unsaid;
    if (names->naming != NULL)
        options = names->naming->symbolizing;
    options.answer = take_answer;
    options.answer_context = names;
    if (names->finder == NULL)
        return 0;
    trace_addresses_sort(addresses);
    for (size_t i = 0; i < addresses->count; i++) {
        names->modules[i].answers =
            calloc(addresses->modules[i].count + 1, sizeof(*names->modules[i].answers));
        if (names->modules[i].answers == NULL)
            return builder_fail(names->builder);
    }
    /* What could not be read has no names. */
    int code = symbolize_addresses(&options, addresses, names->finder, -1, &report, &unsaid);
    if (names->naming == NULL)
        symbolize_report_clear(&report);
    else
        keep_report(names, &report);
    if (code == -ENOMEM)
        return builder_fail(names->builder);
    return names->builder->error;
}

const struct builder_line *local_names_of(const struct local_names *names, uint32_t module,
                                          uint64_t address, uint32_t *count)
{
    *count = 0;
    if (module >= names->addresses.count || names->modules[module].answers == NULL)
        return NULL;
    size_t at = trace_module_find_address(&names->addresses.modules[module], address);
    if (at >= names->addresses.modules[module].count)
        return NULL;
    const struct answer *answer = &names->modules[module].answers[at];
    *count = answer->count;
    return answer->count == 0 ? NULL : &names->names[answer->first];
}

size_t local_names_problems(const struct local_names *names, char *text, size_t size)
{
    size_t at = 0, count = 0;
    text[0] = '\0';
    if (names->warning.code != 0)
        at = (size_t)snprintf(text, size, "%.200s", names->warning.message);
    for (size_t i = 0; i < names->addresses.count; i++) {
        const char *path = names->modules[i].by_name;
        if (path == NULL || names->addresses.modules[i].count == 0 || count++ >= NAMED_MAX ||
            at >= size)
            continue;
        at += (size_t)snprintf(text + at, size - at, "%s%.200s",
                               count > 1 ? ", "
                               : at > 0  ? "; names by the file's name alone, without a build id: "
                                         : "names by the file's name alone, without a build id: ",
                               path);
    }
    if (count > NAMED_MAX && at < size)
        at += (size_t)snprintf(text + at, size - at, " and %zu more", count - NAMED_MAX);
    return at < size ? at : size - 1;
}
