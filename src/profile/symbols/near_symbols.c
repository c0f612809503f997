/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nearly always, an address is in the symbol that starts last before it, the best of those that
 * start there. So the tables are read once, and of each address's symbols only this one is kept.
 *
 * Symbols may nest: another one that starts earlier may contain the address, too. Then the tables
 * are read again, for the best symbol at each start of such a one.
 *
 * If the symbol has no size, it ends where the next one starts, and counts only if no other one
 * contains its start. Then the starts of all symbols without a size are treated like addresses.
 *
 * A symbol takes about the same time however many addresses or symbols a hostile file or process
 * puts close together: a bucket is searched by halves.
 */
#include "profile/symbols/near_symbols.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "profile/symbols/symbol_ranges.h"
#include "util/array.h"
#include "util/sort_keys.h"
#include "util/sorted_search.h"

/* --- sorted numbers with an index of buckets --- */

struct numbers {
    uint64_t *items; /* ascending, each once */
    size_t count, capacity;
    uint32_t *first; /* of each bucket, the index of its first number; one more for the end */
    size_t buckets;
    uint64_t base, last; /* the first and the last number */
    unsigned shift;
};

static int sort_numbers(struct numbers *numbers)
{
    size_t count = numbers->count, kept = 0;
    struct sort_key *keys = reallocarray(NULL, count + 1, 2 * sizeof(*keys));
    if (keys == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++)
        keys[i] = (struct sort_key){numbers->items[i], 0};
    sort_keys(keys, keys + count, count);
    for (size_t i = 0; i < count; i++) {
        if (kept == 0 || numbers->items[kept - 1] != keys[i].key)
            numbers->items[kept++] = keys[i].key;
    }
    numbers->count = kept;
    free(keys);
    return 0;
}

static uint64_t bucket_of(const struct numbers *numbers, uint64_t number)
{
    return (number - numbers->base) >> numbers->shift;
}

/* Sort the numbers and make their index: two to four buckets for each. */
static int index_numbers(struct numbers *numbers)
{
    if (numbers->count >= UINT32_MAX / 4 || sort_numbers(numbers) < 0)
        return -ENOMEM;
    free(numbers->first);
    numbers->first = NULL;
    numbers->buckets = 0;
    if (numbers->count == 0)
        return 0;
    uint64_t last = numbers->last = numbers->items[numbers->count - 1];
    numbers->base = numbers->items[0];
    numbers->shift = 0;
    while (bucket_of(numbers, last) >= 4 * numbers->count)
        numbers->shift++;
    numbers->buckets = bucket_of(numbers, last) + 1;
    numbers->first = calloc(numbers->buckets + 1, sizeof(*numbers->first));
    if (numbers->first == NULL)
        return -ENOMEM;
    size_t at = 0;
    for (size_t bucket = 0; bucket < numbers->buckets; bucket++) {
        while (bucket_of(numbers, numbers->items[at]) < bucket)
            at++;
        numbers->first[bucket] = (uint32_t)at;
    }
    numbers->first[numbers->buckets] = (uint32_t)numbers->count;
    return 0;
}

/* Return the index of the first number that is not below this one, or the count. */
static size_t find_number(const struct numbers *numbers, uint64_t number)
{
    if (numbers->count == 0 || number <= numbers->base)
        return 0;
    uint64_t bucket = bucket_of(numbers, number);
    if (bucket >= numbers->buckets || number > numbers->last)
        return numbers->count;
    size_t first = numbers->first[bucket], end = numbers->first[bucket + 1];
    /* Without branches, which a processor could not predict. There is a number after the bucket,
     * because `number` is not above the last one. */
    if (end - first <= 1)
        return first + ((first < end) & (numbers->items[first] < number));
    return first + SORTED_SEARCH(end - first, at, numbers->items[first + at] < number);
}

static bool has_number(const struct numbers *numbers, uint64_t number)
{
    size_t at = find_number(numbers, number);
    return at < numbers->count && numbers->items[at] == number;
}

static int add_number(struct numbers *numbers, uint64_t number)
{
    return ARRAY_ADD(&numbers->items, &numbers->count, &numbers->capacity, number);
}

static void free_numbers(struct numbers *numbers)
{
    free(numbers->items);
    free(numbers->first);
}

/* --- the last symbol before each address --- */

/* The best one of those that start last before a point. */
struct last_symbol {
    uint64_t start;
    uint32_t index; /* in the table; 0: no symbol */
    uint16_t table;
    bool is_unsized;
    bool contains; /* one of them contains the point */
};

struct search {
    const struct symbol_table *tables;
    size_t table_count;
    struct numbers points;    /* the addresses; perhaps also starts of symbols without a size */
    struct last_symbol *last; /* by point */
    struct numbers starts;    /* of other symbols that are needed */
    struct symbol_section section;
};

static bool get_symbol(struct search *search, size_t table, size_t index, struct symbol *symbol)
{
    return symbol_table_get(&search->tables[table], index, &search->section, symbol);
}

/* Take a symbol that contains `point`, or starts as late before it as the last one found so far. */
static int take_near(struct search *search, size_t table, size_t index, size_t point)
{
    struct last_symbol *last = &search->last[point];
    struct symbol symbol, before;
    if (!get_symbol(search, table, index, &symbol))
        return 0;
    bool contains = search->points.items[point] < symbol.end;
    bool is_same = last->index > 0 && symbol.start == last->start;
    if (last->index > 0 && symbol.start < last->start)
        return contains ? add_number(&search->starts, symbol.start) : 0;
    if (last->contains && !is_same && add_number(&search->starts, last->start) < 0)
        return -ENOMEM;
    contains |= is_same && last->contains;
    if (is_same && get_symbol(search, last->table, last->index, &before) &&
        !symbol_is_better(&symbol, &before)) {
        last->contains = contains;
        return 0;
    }
    *last = (struct last_symbol){.start = symbol.start,
                                 .index = (uint32_t)index,
                                 .table = (uint16_t)table,
                                 .is_unsized = symbol.end == symbol.start,
                                 .contains = contains};
    return 0;
}

static int search_table(struct search *search, size_t number)
{
    const struct symbol_table *table = &search->tables[number];
    const struct numbers *points = &search->points;
    GElf_Sym entry;
    int result = 0;
    search->section = (struct symbol_section){0};
    for (size_t i = 1; i < table->count && result == 0; i++) {
        if (!symbol_table_entry(table, i, &entry))
            continue;
        size_t point = find_number(points, entry.st_value);
        if (point == points->count)
            continue;
        /* Nearly all symbols end here. */
        if (entry.st_value < search->last[point].start &&
            points->items[point] - entry.st_value >= entry.st_size)
            continue;
        result = take_near(search, number, i, point);
    }
    return result;
}

static int search_all(struct search *search)
{
    int result = index_numbers(&search->points);
    free(search->last);
    search->last = calloc(search->points.count + 1, sizeof(*search->last));
    if (search->last == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < search->table_count && result == 0; i++)
        result = search_table(search, i);
    return result;
}

/* --- symbols without a size --- */

static bool need_unsized(const struct search *search)
{
    for (size_t i = 0; i < search->points.count; i++) {
        if (search->last[i].is_unsized)
            return true;
    }
    return false;
}

static int add_unsized_of(struct search *search, size_t table)
{
    struct symbol symbol;
    int result = 0;
    search->section = (struct symbol_section){0};
    for (size_t i = 1; i < search->tables[table].count && result == 0; i++) {
        if (!get_symbol(search, table, i, &symbol) || symbol.end > symbol.start)
            continue;
        result = add_number(&search->starts, symbol.start);
        if (result == 0)
            result = add_number(&search->points, symbol.start);
    }
    return result;
}

/* Add all of them, and search again with their starts. */
static int add_unsized(struct search *search)
{
    int result = 0;
    for (size_t i = 0; i < search->table_count && result == 0; i++)
        result = add_unsized_of(search, i);
    return result < 0 ? result : search_all(search);
}

/* --- collecting --- */

static int add_last(struct search *search, struct near_symbols *near)
{
    struct symbol symbol;
    search->section = (struct symbol_section){0};
    for (size_t i = 0; i < search->points.count; i++) {
        const struct last_symbol *last = &search->last[i];
        if (last->index > 0 && get_symbol(search, last->table, last->index, &symbol) &&
            ARRAY_ADD(&near->items, &near->count, &near->capacity, symbol) < 0)
            return -ENOMEM;
    }
    return 0;
}

/* Add all symbols with the starts that are needed. */
static int add_starts(struct search *search, size_t number, struct near_symbols *near)
{
    const struct symbol_table *table = &search->tables[number];
    struct symbol symbol;
    GElf_Sym entry;
    int result = 0;
    search->section = (struct symbol_section){0};
    for (size_t i = 1; i < table->count && result == 0; i++) {
        if (symbol_table_entry(table, i, &entry) && has_number(&search->starts, entry.st_value) &&
            get_symbol(search, number, i, &symbol))
            result = ARRAY_ADD(&near->items, &near->count, &near->capacity, symbol);
    }
    return result;
}

int near_symbols_collect(struct near_symbols *near, const struct symbol_table *tables,
                         size_t table_count, const uint64_t *addresses, size_t address_count)
{
    struct search search = {.tables = tables, .table_count = table_count};
    int result = 0;
    *near = (struct near_symbols){0};
    for (size_t i = 0; i < address_count && result == 0; i++)
        result = add_number(&search.points, addresses[i]);
    if (result == 0)
        result = search_all(&search);
    if (result == 0 && need_unsized(&search))
        result = add_unsized(&search);
    if (result == 0)
        result = add_last(&search, near);
    if (result == 0 && search.starts.count > 0)
        result = index_numbers(&search.starts);
    for (size_t i = 0; i < table_count && result == 0 && search.starts.count > 0; i++)
        result = add_starts(&search, i, near);
    free_numbers(&search.points);
    free_numbers(&search.starts);
    free(search.last);
    return result;
}
