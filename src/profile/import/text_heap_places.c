/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames for the addresses of a heap profile in text: the mappings and the symbols of the file and,
 * where it has none, the names that this machine's files give.
 */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profile/import/text_heap_reading.h"
#include "util/array.h"
#include "util/base_name.h"
#include "util/process_maps.h"
#include "util/sorted_search.h"

void text_heap_places_free(struct text_heap_places *places)
{
    free(places->regions);
    free(places->symbols);
    free(places->names);
    local_names_free(places->local);
}

/* --- mappings --- */

/* Keep "build=/path" for the mappings that follow. */
static void take_variable(struct text_heap_places *places, const char *line)
{
    struct builder *builder = places->builder;
    const char *name = line + strspn(line, " \t"), *equals = strchr(name, '=');
    if (equals == NULL || equals == name || places->variable_count == TEXT_HEAP_VARIABLES_MAX)
        return;
    const char *value = equals + 1 + strspn(equals + 1, " \t");
    places->variables[places->variable_count++] = (struct text_heap_variable){
        .name = builder_string(builder, name, strcspn(name, "= \t")),
        .value = builder_string(builder, value, strcspn(value, " \t\r")),
    };
}

/* Return the string of a path, whose "$build" is replaced. */
static uint32_t path_of(struct text_heap_places *places, const char *path, size_t length)
{
    struct builder *builder = places->builder;
    char replaced[4096];
    for (size_t i = 0; length > 1 && path[0] == '$' && i < places->variable_count; i++) {
        const char *name = builder->strings[places->variables[i].name];
        size_t known = strlen(name);
        if (known == 0 || known > length - 1 || memcmp(path + 1, name, known) != 0)
            continue;
        int made = snprintf(replaced, sizeof(replaced), "%s%.*s",
                            builder->strings[places->variables[i].value],
                            length - 1 - known < sizeof(replaced) ? (int)(length - 1 - known) : 0,
                            path + 1 + known);
        if (made > 0 && (size_t)made < sizeof(replaced))
            return builder_string(builder, replaced, (size_t)made);
    }
    return builder_string(builder, path, length);
}

static void add_region(struct text_heap_places *places, const struct profile_mapping *mapping,
                       uint32_t path, uint32_t build_id)
{
    struct text_heap_region region = {.start = mapping->start,
                                      .end = mapping->end,
                                      .offset = mapping->exact_offset,
                                      .module = PROFILE_NONE};
    struct profile_mapping with_bias = *mapping;
    const char **strings = places->builder->strings;
    if (places->builder->error == 0 && places->local != NULL) {
        uint32_t module = local_names_module(places->local, strings[path], strings[build_id], 0);
        if (local_names_bias(places->local, module, region.start, region.end, region.offset,
                             &with_bias.load_bias))
            region.module = module;
    }
    region.bias = with_bias.load_bias;
    region.mapping = builder_mapping(places->builder, &with_bias, path, build_id);
    if (ARRAY_ADD(&places->regions, &places->region_count, &places->region_capacity, region) < 0)
        builder_fail(places->builder);
}

/* Return the build id at the end of a line: hex digits only. */
static uint32_t build_id_at(struct text_heap_places *places, const char *text)
{
    size_t length = strspn(text, "0123456789abcdefABCDEF");
    bool ends = text[length + strspn(text + length, " \t\r")] == '\0';
    return ends && length >= 8 ? builder_build_id(places->builder, text, length) : 0;
}

/* Read "400000-401000[:] [r-xp] /bin/a [(@1000)] [build id]". Return whether it is one. */
static bool take_brief_mapping(struct text_heap_places *places, const char *line)
{
    struct profile_mapping mapping = {0};
    const char *at = line + strspn(line, " \t");
    at += strncmp(at, "0x", 2) == 0 ? 2 : 0;
    if (!line_read_hex(&at, &mapping.start) || *at++ != '-')
        return false;
    at += strncmp(at, "0x", 2) == 0 ? 2 : 0;
    if (!line_read_hex(&at, &mapping.end) || mapping.end <= mapping.start)
        return false;
    at += *at == ':';
    if (*at != ' ' && *at != '\t')
        return false;
    at += strspn(at, " \t");
    size_t rights = strspn(at, "rwxps-");
    if (rights >= 3 && (at[rights] == ' ' || at[rights] == '\t')) {
        if (memchr(at, 'x', rights) == NULL)
            return true;
        at += rights + strspn(at + rights, " \t");
    }
    size_t length = strcspn(at, " \t\r");
    if (length == 0)
        return true;
    uint32_t path = path_of(places, at, length);
    at += length + strspn(at + length, " \t");
    if (strncmp(at, "(@", 2) == 0) {
        at += 2;
        if (!line_read_hex(&at, &mapping.exact_offset) || *at++ != ')')
            return true;
        at += strspn(at, " \t");
    }
    add_region(places, &mapping, path, build_id_at(places, at));
    return true;
}

void text_heap_take_mapping(struct text_heap_places *places, const char *line)
{
    struct process_map map;
    if (!process_map_parse(line, &map)) {
        if (!take_brief_mapping(places, line))
            take_variable(places, line);
        return;
    }
    if (map.path[0] == '\0' || !map.executable)
        return;
    const struct profile_mapping mapping = {
        .start = map.start, .end = map.end, .exact_offset = map.offset};
    add_region(places, &mapping, path_of(places, map.path, strcspn(map.path, "\r")), 0);
}

static int compare_regions(const void *left_pointer, const void *right_pointer)
{
    const struct text_heap_region *left = left_pointer, *right = right_pointer;
    return left->start < right->start ? -1 : left->start > right->start;
}

/* Some writers leave out the first part of a file that is mapped in parts: it belongs to the next
 * region, which then has an offset. */
static bool is_before(const struct text_heap_region *region, uint64_t address)
{
    return region->offset != 0 && address < region->start && region->start >= region->offset &&
           address >= region->start - region->offset;
}

static const struct text_heap_region *find_region(const struct text_heap_places *places,
                                                  uint64_t address)
{
    size_t after = SORTED_SEARCH(places->region_count, i, places->regions[i].start <= address);
    if (after > 0 && address < places->regions[after - 1].end)
        return &places->regions[after - 1];
    if (after < places->region_count && is_before(&places->regions[after], address))
        return &places->regions[after];
    return NULL;
}

/* --- names in the file --- */

static void add_name(struct text_heap_places *places, const struct text_heap_name *name)
{
    if (ARRAY_ADD(&places->names, &places->name_count, &places->name_capacity, *name) < 0)
        builder_fail(places->builder);
}

static void add_symbol(struct text_heap_places *places, uint64_t address, size_t first)
{
    struct text_heap_symbol symbol = {address, {first, (uint32_t)(places->name_count - first)}};
    if (ARRAY_ADD(&places->symbols, &places->symbol_count, &places->symbol_capacity, symbol) < 0)
        builder_fail(places->builder);
}

/* Read "0x12" and the blanks after it. */
static bool take_address(const char **at, uint64_t *address)
{
    const char *next = *at + strspn(*at, " \t");
    if (next[0] != '0' || (next[1] | 0x20) != 'x')
        return false;
    next += 2;
    if (!line_read_hex(&next, address) || (*next != ' ' && *next != '\t'))
        return false;
    *at = next + strspn(next, " \t");
    return true;
}

/* jeprof tells apart symbols of one name by their addresses, as "f<0000000000001159>". Return where
 * the name ends. */
static const char *before_address(const char *at, const char *end)
{
    enum { DIGITS = 16 };
    const char *open = end - DIGITS - 2;
    if (end - at < DIGITS + 3 || *open != '<' || end[-1] != '>')
        return end;
    for (const char *digit = open + 1; digit < end - 1; digit++)
        if (hex_digit(*digit) > 15)
            return end;
    return open;
}

void text_heap_take_symbol(struct text_heap_places *places, const char *line)
{
    const char *at = line;
    struct text_heap_name name = {0};
    size_t first = places->name_count;
    if (!take_address(&at, &name.address))
        return;
    size_t end = strcspn(at, "\r");
    const char *stop = at + end;
    while (at < stop && places->name_count - first < TEXT_HEAP_FRAMES_MAX) {
        const char *next = memmem(at, (size_t)(stop - at), "--", 2);
        const char *until = next == NULL || next == at ? stop : next;
        /* "operator--" ends in what separates names. */
        while (until < stop && until - at >= 8 && memcmp(until - 8, "operator", 8) == 0) {
            next = memmem(until + 2, (size_t)(stop - until - 2), "--", 2);
            until = next == NULL ? stop : next;
        }
        const char *end_of_name = until;
        until = before_address(at, until);
        if (until > at && !(until - at == 2 && memcmp(at, "??", 2) == 0)) {
            name.name = builder_string(places->builder, at, (size_t)(until - at));
            add_name(places, &name);
        }
        at = end_of_name + 2 < stop ? end_of_name + 2 : stop;
    }
    if (places->name_count > first)
        add_symbol(places, name.address, first);
}

/* Read "(a/b.java:12)" or "(libfoo.so)" at the end of a line, and cut it off. */
static void take_source(struct text_heap_places *places, const char *at, size_t *length,
                        struct text_heap_name *name)
{
    if (*length == 0 || at[*length - 1] != ')')
        return;
    const char *open = memrchr(at, '(', *length);
    if (open == NULL || open == at || (open[-1] != ' ' && open[-1] != '\t'))
        return;
    const char *end = at + *length - 1, *colon = memrchr(open, ':', (size_t)(end - open));
    const char *stop = colon != NULL && isdigit((unsigned char)colon[1]) ? colon : end;
    unsigned long long line = stop == colon ? strtoull(colon + 1, NULL, 10) : 0;
    name->line = line <= UINT32_MAX ? (uint32_t)line : 0;
    name->file = builder_string(places->builder, open + 1, (size_t)(stop - open - 1));
    for (*length = (size_t)(open - at); *length > 0 && isspace((unsigned char)at[*length - 1]);)
        --*length;
}

void text_heap_take_java_symbol(struct text_heap_places *places, const char *line)
{
    const char *at = line;
    struct text_heap_name name = {0};
    size_t first = places->name_count;
    if (!take_address(&at, &name.address))
        return;
    size_t length = strlen(at);
    while (length > 0 && isspace((unsigned char)at[length - 1]))
        length--;
    take_source(places, at, &length, &name);
    if (length == 0)
        return;
    name.name = builder_string(places->builder, at, length);
    add_name(places, &name);
    add_symbol(places, name.address, first);
}

bool text_heap_take_go_name(struct text_heap_places *places, const char *line)
{
    struct text_heap_name name = {0};
    const char *at = line;
    if (*at != '\t' || !take_address(&at, &name.address))
        return false;
    const char *plus = strstr(at, "+0x"), *tab = strchr(at, '\t');
    const char *stop = plus != NULL && (tab == NULL || plus < tab) ? plus
                       : tab != NULL                               ? tab
                                                                   : at + strcspn(at, "\r");
    name.name = builder_string(places->builder, at, (size_t)(stop - at));
    if (tab != NULL) {
        at = tab + strspn(tab, "\t ");
        const char *colon = strrchr(at, ':');
        size_t length = colon != NULL ? (size_t)(colon - at) : strcspn(at, "\r");
        unsigned long long number = colon != NULL ? strtoull(colon + 1, NULL, 10) : 0;
        name.file = builder_string(places->builder, at, length);
        name.line = number <= UINT32_MAX ? (uint32_t)number : 0;
    }
    add_name(places, &name);
    return true;
}

static int compare_symbols(const void *left_pointer, const void *right_pointer)
{
    const struct text_heap_symbol *left = left_pointer, *right = right_pointer;
    return left->address < right->address ? -1 : left->address > right->address;
}

void text_heap_places_sort(struct text_heap_places *places)
{
    if (places->region_count > 0)
        qsort(places->regions, places->region_count, sizeof(*places->regions), compare_regions);
    if (places->symbol_count > 0)
        qsort(places->symbols, places->symbol_count, sizeof(*places->symbols), compare_symbols);
}

static const struct text_heap_names *find_symbol(const struct text_heap_places *places,
                                                 uint64_t address)
{
    size_t after = SORTED_SEARCH(places->symbol_count, i, places->symbols[i].address <= address);
    if (after == 0 || places->symbols[after - 1].address != address)
        return NULL;
    return &places->symbols[after - 1].names;
}

/* --- frames --- */

/* Return where the address is in its module's file, as frames have it. */
static uint64_t text_heap_places_place_of(const struct text_heap_region *region, uint64_t address)
{
    return address - region->start + region->offset + region->bias;
}

void text_heap_places_want(struct text_heap_places *places, uint64_t address)
{
    const struct text_heap_region *region = find_region(places, address);
    if (places->local == NULL || region == NULL || region->module == PROFILE_NONE ||
        find_symbol(places, address) != NULL || find_symbol(places, address + 1) != NULL)
        return;
    if (local_names_add(places->local, region->module, text_heap_places_place_of(region, address)) <
        0)
        builder_fail(places->builder);
}

static uint32_t call(struct builder *builder, uint32_t callsite, uint32_t frame)
{
    return builder->error < 0 ? PROFILE_NONE : builder_callsite(builder, callsite, frame);
}

uint32_t text_heap_places_name(struct text_heap_places *places, uint32_t callsite,
                               const struct text_heap_name *name)
{
    struct builder *builder = places->builder;
    const struct text_heap_region *region = find_region(places, name->address);
    uint64_t place =
        region == NULL ? name->address : text_heap_places_place_of(region, name->address);
    return call(builder, callsite,
                builder_frame(builder, region == NULL ? PROFILE_NONE : region->mapping, place,
                              name->name, name->file, name->line));
}

static uint32_t call_local(struct text_heap_places *places, uint32_t callsite,
                           const struct text_heap_region *region, uint64_t address)
{
    struct builder *builder = places->builder;
    uint64_t place = text_heap_places_place_of(region, address);
    uint32_t count = 0;
    const struct builder_line *names =
        places->local == NULL ? NULL : local_names_of(places->local, region->module, place, &count);
    if (names == NULL)
        return call(builder, callsite, builder_frame(builder, region->mapping, place, 0, 0, 0));
    for (uint32_t i = count; i-- > 0 && builder->error == 0;)
        callsite = call(builder, callsite,
                        builder_frame(builder, region->mapping, place, names[i].name,
                                      names[i].source_file, names[i].line));
    return callsite;
}

uint32_t text_heap_places_call(struct text_heap_places *places, uint32_t callsite, uint64_t address,
                               bool is_id)
{
    struct builder *builder = places->builder;
    const struct text_heap_names *names = find_symbol(places, address);
    /* Some writers name the return address. */
    if (names == NULL && !is_id)
        names = find_symbol(places, address + 1);
    const struct text_heap_region *region = find_region(places, address);
    if (names == NULL && region != NULL)
        return call_local(places, callsite, region, address);
    if (names == NULL)
        return call(builder, callsite, builder_frame(builder, PROFILE_NONE, address, 0, 0, 0));
    for (uint32_t i = 0; i < names->count && builder->error == 0; i++) {
        struct text_heap_name name = places->names[names->first + i];
        name.address = is_id ? 0 : address;
        callsite = text_heap_places_name(places, callsite, &name);
    }
    return callsite;
}
