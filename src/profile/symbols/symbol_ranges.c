/* SPDX-License-Identifier: Apache-2.0 */
/* Sort symbols, and turn those that nest or have no size into ranges without overlap. */
#include "profile/symbols/symbol_ranges.h"

#include <elf.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "util/sort_keys.h"
#include "util/sorted_search.h"

/* Bounds the comparison in a file with a million aliases of a million letters. */
#define COMPARED_LENGTH_MAX 4096
/* Ranges after the last address's that are tried before a search. */
#define RANGES_TRIED 3

/* Return the length of a name without its "@VERSION", at most COMPARED_LENGTH_MAX. */
static size_t name_length(const char *name)
{
    size_t length = strnlen(name, COMPARED_LENGTH_MAX);
    const char *at = memchr(name, '@', length);
    return at == NULL || at == name ? length : (size_t)(at - name);
}

/* --- order --- */

static unsigned leading_underscores(const char *name)
{
    return (unsigned)strspn(name, "_");
}

static int binding_rank(unsigned char binding)
{
    if (binding == STB_GLOBAL || binding == STB_GNU_UNIQUE)
        return 0;
    return binding == STB_WEAK ? 1 : 2;
}

bool symbol_is_better(const struct symbol *a, const struct symbol *b)
{
    int difference = (a->type == STT_NOTYPE) - (b->type == STT_NOTYPE);
    if (difference == 0)
        difference = (a->end == a->start) - (b->end == b->start);
    if (difference == 0)
        difference = binding_rank(a->binding) - binding_rank(b->binding);
    if (difference == 0)
        difference = (int)leading_underscores(a->name) - (int)leading_underscores(b->name);
    if (difference != 0)
        return difference < 0;
    size_t a_length = name_length(a->name), b_length = name_length(b->name);
    if (a_length != b_length)
        return a_length < b_length;
    return memcmp(a->name, b->name, a_length) < 0;
}

/* The symbols by address, the best one of each address: indexes in an array, which is larger than
 * they are and is not moved. */
struct symbol_order {
    struct symbol *items;
    struct sort_key *keys;
    size_t count;
};

static struct symbol *symbol_at(const struct symbol_order *order, size_t place)
{
    return &order->items[order->keys[place].index];
}

/* Sort the symbols by address and keep the best one of each address. */
static int order_symbols(struct symbol *symbols, size_t count, struct symbol_order *order)
{
    size_t kept = 0;
    struct sort_key *keys = reallocarray(NULL, count + 1, 2 * sizeof(*keys));
    if (count > UINT32_MAX || keys == NULL) {
        free(keys);
        return -ENOMEM;
    }
    *order = (struct symbol_order){.items = symbols, .keys = keys};
    for (size_t i = 0; i < count; i++)
        keys[i] = (struct sort_key){symbols[i].start, (uint32_t)i};
    sort_keys(keys, keys + count, count);
    for (size_t i = 0; i < count; i++) {
        if (kept == 0 || keys[kept - 1].key != keys[i].key)
            keys[kept++] = keys[i];
        else if (symbol_is_better(&symbols[keys[i].index], symbol_at(order, kept - 1)))
            keys[kept - 1] = keys[i];
    }
    order->count = kept;
    return 0;
}

/* Drop labels inside functions, and give symbols without a size an end. */
static void resolve_symbols(struct symbol_order *order)
{
    size_t kept = 0;
    uint64_t covered = 0;
    for (size_t i = 0; i < order->count; i++) {
        const struct symbol *symbol = symbol_at(order, i);
        if (symbol->end == symbol->start && symbol->start < covered)
            continue;
        if (symbol->end > covered)
            covered = symbol->end;
        order->keys[kept++] = order->keys[i];
    }
    for (size_t i = 0; i < kept; i++) {
        struct symbol *symbol = symbol_at(order, i);
        if (symbol->end != symbol->start)
            continue;
        symbol->end = symbol->section_end;
        if (i + 1 < kept && order->keys[i + 1].key < symbol->end)
            symbol->end = order->keys[i + 1].key;
    }
    order->count = kept;
}

/* --- ranges --- */

static void append_range(struct symbol_ranges *ranges, uint64_t address, const char *name)
{
    if (ranges->count > 0) {
        struct symbol_range *last = &ranges->items[ranges->count - 1];
        if (last->address == address) {
            last->name = name;
            return;
        }
    }
    ranges->items[ranges->count++] = (struct symbol_range){address, name};
}

/* Close the open symbols that end at or before `address`. An outer symbol continues where an inner
 * one ends. */
static size_t close_ranges(struct symbol_ranges *ranges, const struct symbol **open, size_t depth,
                           uint64_t address)
{
    while (depth > 0 && open[depth - 1]->end <= address) {
        uint64_t end = open[--depth]->end;
        while (depth > 0 && open[depth - 1]->end <= end)
            depth--;
        append_range(ranges, end, depth > 0 ? open[depth - 1]->name : NULL);
    }
    return depth;
}

/* Turn sorted symbols, which may nest, into ranges, which do not: at most one range per start and
 * one per end. */
static int build_ranges(struct symbol_ranges *ranges, const struct symbol_order *order)
{
    ranges->items = calloc(2 * order->count + 1, sizeof(*ranges->items));
    const struct symbol **open = calloc(order->count + 1, sizeof(const struct symbol *));
    if (ranges->items == NULL || open == NULL) {
        free(open);
        return -ENOMEM;
    }
    size_t depth = 0;
    for (size_t i = 0; i < order->count; i++) {
        const struct symbol *symbol = symbol_at(order, i);
        depth = close_ranges(ranges, open, depth, symbol->start);
        open[depth++] = symbol;
        append_range(ranges, symbol->start, symbol->name);
    }
    close_ranges(ranges, open, depth, UINT64_MAX);
    free(open);
    return 0;
}

/* --- interface --- */

int symbol_ranges_make(struct symbol_ranges *ranges, struct symbol *symbols, size_t count)
{
    struct symbol_order order;
    *ranges = (struct symbol_ranges){0};
    int result = order_symbols(symbols, count, &order);
    if (result < 0)
        return result;
    resolve_symbols(&order);
    result = build_ranges(ranges, &order);
    free(order.keys);
    return result;
}

static bool contains(const struct symbol_ranges *ranges, const struct symbol_range *range,
                     uint64_t address)
{
    const struct symbol_range *end = ranges->items + ranges->count;
    return range < end && address >= range->address &&
           (range + 1 == end || address < range[1].address);
}

const struct symbol_range *symbol_ranges_find(const struct symbol_ranges *ranges,
                                              const struct symbol_range *last, uint64_t address)
{
    for (int i = 0; last != NULL && i < RANGES_TRIED; i++) {
        if (contains(ranges, last + i, address))
            return last + i;
    }
    size_t after = SORTED_SEARCH(ranges->count, i, ranges->items[i].address <= address);
    return after > 0 ? &ranges->items[after - 1] : NULL;
}

void symbol_ranges_free(struct symbol_ranges *ranges)
{
    free(ranges->items);
    *ranges = (struct symbol_ranges){0};
}
