/* SPDX-License-Identifier: Apache-2.0 */
/* Keep functions as they were sent, and find the lines of their places once each. */
#include "recorder/ledger/code_table.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "profile/interp/code_lines.h"
#include "util/array.h"

/* The first functions: the unknown one of each language. */
#define UNKNOWN_FUNCTIONS ((uint32_t)RECORD_LANGUAGES)

int code_table_init(struct code_table *table)
{
    memset(table, 0, sizeof(*table));
    static char unknown[] = "[unknown function]", nowhere[] = "";
    if (ARRAY_RESERVE(&table->functions, &table->function_capacity, 0, UNKNOWN_FUNCTIONS) < 0)
        return -ENOMEM;
    for (uint8_t i = 0; i < UNKNOWN_FUNCTIONS; i++)
        table->functions[i] =
            (struct code_function){.name = unknown, .file = nowhere, .language = i};
    table->function_count = UNKNOWN_FUNCTIONS;
    return 0;
}

static void function_free(struct code_function *function)
{
    free(function->name);
    free(function->file);
    free(function->table);
}

void code_table_clear(struct code_table *table)
{
    for (size_t i = UNKNOWN_FUNCTIONS; i < table->function_count; i++)
        function_free(&table->functions[i]);
    free(table->functions);
    free(table->places);
    id_map_free(&table->function_numbers);
    id_map_free(&table->place_numbers);
    hash_index_free(&table->place_index);
    memset(table, 0, sizeof(*table));
}

/* --- functions --- */

static bool is_same(const struct code_function *known, const struct record_code *code)
{
    const uint8_t *name = code->bytes, *file = name + code->name_length;
    return known->first_line == code->first_line && known->lines == code->lines &&
           known->table_length == code->table_length &&
           strlen(known->name) == strnlen((const char *)name, code->name_length) &&
           memcmp(known->name, name, strlen(known->name)) == 0 &&
           strlen(known->file) == strnlen((const char *)file, code->file_length) &&
           memcmp(known->file, file, strlen(known->file)) == 0 &&
           memcmp(known->table, file + code->file_length, code->table_length) == 0;
}

static int copy_function(const struct record_code *code, struct code_function *function)
{
    const uint8_t *name = code->bytes, *file = name + code->name_length;
    *function = (struct code_function){
        .name = strndup((const char *)name, code->name_length),
        .file = strndup((const char *)file, code->file_length),
        .table = malloc(code->table_length + 1u),
        .table_length = code->table_length,
        .first_line = code->first_line,
        .lines = code->lines,
        .language = (uint8_t)record_code_language(code->function),
        .table_is_cut = code->flags & RECORD_CODE_TABLE_CUT,
    };
    if (function->name == NULL || function->file == NULL || function->table == NULL) {
        function_free(function);
        return -ENOMEM;
    }
    memcpy(function->table, file + code->file_length, code->table_length);
    return 0;
}

int code_table_add(struct code_table *table, const struct record_code *code)
{
    uint32_t known = id_map_find(&table->function_numbers, code->function);
    if (known != ID_MAP_NONE) {
        if (known < UNKNOWN_FUNCTIONS || is_same(&table->functions[known], code))
            return 0;
        /* Two functions have this id: from now on nobody knows which one a frame means. */
        return id_map_set(&table->function_numbers, code->function,
                          record_code_language(code->function));
    }
    uint64_t bytes = (uint64_t)code->name_length + code->file_length + code->table_length;
    if (table->function_count >= CODE_FUNCTIONS_MAX || bytes > CODE_BYTES_MAX - table->bytes)
        return 0;
    struct code_function function;
    if (ARRAY_RESERVE(&table->functions, &table->function_capacity, table->function_count, 1) < 0 ||
        copy_function(code, &function) < 0)
        return -ENOMEM;
    table->functions[table->function_count] = function;
    table->bytes += bytes;
    return id_map_set(&table->function_numbers, code->function, (uint32_t)table->function_count++);
}

/* --- places --- */

static uint64_t hash_text(uint64_t hash, const char *text)
{
    for (; *text != 0; text++)
        hash = keyed_hash(hash ^ (uint8_t)*text);
    return hash;
}

static uint64_t hash_of(const struct code_table *table, struct code_place place)
{
    const struct code_function *function = &table->functions[place.function];
    return hash_text(hash_text(keyed_hash(place.line), function->name) + 1, function->file);
}

static bool is_same_place(const struct code_table *table, struct code_place left,
                          struct code_place right)
{
    const struct code_function *functions = table->functions;
    return left.line == right.line &&
           functions[left.function].language == functions[right.function].language &&
           strcmp(functions[left.function].name, functions[right.function].name) == 0 &&
           strcmp(functions[left.function].file, functions[right.function].file) == 0;
}

static uint64_t hash_of_number(const void *context, uint32_t number)
{
    const struct code_table *table = context;
    return hash_of(table, table->places[number]);
}

static uint32_t intern_place(struct code_table *table, struct code_place place)
{
    if (hash_index_reserve(&table->place_index, table->place_count, hash_of_number, table) < 0)
        return UINT32_MAX;
    uint32_t *slot = HASH_INDEX_SLOT(&table->place_index, hash_of(table, place), i,
                                     is_same_place(table, table->places[i], place));
    if (*slot != 0)
        return *slot - 1;
    if (ARRAY_ADD(&table->places, &table->place_count, &table->place_capacity, place) < 0)
        return UINT32_MAX;
    *slot = (uint32_t)table->place_count;
    return *slot - 1;
}

bool code_table_has(const struct code_table *table, enum record_language language)
{
    size_t i = UNKNOWN_FUNCTIONS;
    while (i < table->function_count && table->functions[i].language != language)
        i++;
    return i < table->function_count;
}

uint32_t code_table_place(struct code_table *table, uint64_t frame)
{
    const struct code_place unknown = {.function = record_code_language(frame)};
    uint32_t number = id_map_find(&table->function_numbers, record_code_function(frame));
    if (number == ID_MAP_NONE || number < UNKNOWN_FUNCTIONS)
        return intern_place(table, unknown);
    uint32_t known = id_map_find(&table->place_numbers, frame);
    if (known != ID_MAP_NONE)
        return known;
    if (id_map_count(&table->place_numbers) >= CODE_FRAMES_MAX)
        return intern_place(table, unknown);
    const struct code_function *function = &table->functions[number];
    const struct code_lines lines = {.kind = (enum record_line_table)function->lines,
                                     .bytes = function->table,
                                     .length = function->table_length,
                                     .first_line = function->first_line,
                                     .is_cut = function->table_is_cut};
    const struct code_place place = {
        .function = number,
        .line = code_lines_find(&lines, (uint32_t)(frame & RECORD_CODE_PLACE_UNKNOWN))};
    number = intern_place(table, place);
    if (number == UINT32_MAX || id_map_set(&table->place_numbers, frame, number) < 0)
        return UINT32_MAX;
    return number;
}
