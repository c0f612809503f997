/* SPDX-License-Identifier: Apache-2.0 */
/* A hash table of figures, and the copies that a frozen table keeps. */
#include "daemon/ledger/figures_table.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "util/array.h"

#define FIGURES_MAX (64u << 20)
#define INDEX_SIZE_FIRST 256u

int figures_table_init(struct figures_table *table)
{
    *table = (struct figures_table){.index_size = INDEX_SIZE_FIRST};
    table->index = calloc(INDEX_SIZE_FIRST, sizeof(*table->index));
    return table->index != NULL ? 0 : -ENOMEM;
}

void figures_table_clear(struct figures_table *table)
{
    figures_table_thaw(table);
    free(table->items);
    free(table->index);
    *table = (struct figures_table){0};
}

static bool is_for(const struct ledger_figures *item, struct figures_key key)
{
    return item->node == key.node && item->thread == key.thread && item->heap == key.heap &&
           item->interval == key.interval && item->tag == key.tag;
}

/* Return the place of the key in the index, or the empty place for it. */
static size_t find_position(const struct figures_table *table, struct figures_key key)
{
    size_t mask = table->index_size - 1, position = figures_table_home(table, key);
    while (table->index[position] != 0 && !is_for(&table->items[table->index[position] - 1], key))
        position = (position + 1) & mask;
    return position;
}

static int grow_index(struct figures_table *table)
{
    struct figures_table grown = {.index_size = table->index_size * 2};
    grown.index = calloc(grown.index_size, sizeof(*grown.index));
    if (grown.index == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < table->count; i++) {
        const struct ledger_figures *item = &table->items[i];
        struct figures_key key = {.node = item->node,
                                  .thread = item->thread,
                                  .tag = item->tag,
                                  .interval = item->interval,
                                  .heap = item->heap};
        size_t position = figures_table_home(&grown, key);
        while (grown.index[position] != 0)
            position = (position + 1) & (grown.index_size - 1);
        grown.index[position] = (uint32_t)i + 1;
    }
    free(table->index);
    table->index = grown.index;
    table->index_size = grown.index_size;
    return 0;
}

uint32_t figures_table_find(const struct figures_table *table, struct figures_key key)
{
    /* An empty place has 0, and 0 - 1 is FIGURES_NONE. */
    return table->index[find_position(table, key)] - 1;
}

uint32_t figures_table_intern(struct figures_table *table, struct figures_key key, uint64_t epoch)
{
    if (table->count * 4 >= table->index_size * 3 && grow_index(table) < 0)
        return FIGURES_NONE;
    size_t position = find_position(table, key);
    if (table->index[position] != 0)
        return table->index[position] - 1;
    if (table->count >= FIGURES_MAX ||
        array_reserve(&table->items, &table->capacity, table->count, 1, sizeof(*table->items)) < 0)
        return FIGURES_NONE;
    table->items[table->count] = (struct ledger_figures){
        .node = key.node,
        .tag = key.tag,
        .thread = (uint16_t)key.thread,
        .heap = key.heap,
        .interval = key.interval,
        .epoch = epoch,
    };
    table->index[position] = (uint32_t)table->count + 1;
    return (uint32_t)table->count++;
}

/* --- frozen --- */

int figures_table_freeze(struct figures_table *table)
{
    struct figures_frozen *frozen = calloc(1, sizeof(*frozen));
    if (frozen == NULL)
        return -ENOMEM;
    frozen->count = table->count;
    /* Large arrays are the kernel's zero pages until they are written. */
    frozen->places = calloc(table->count + 1, sizeof(*frozen->places));
    frozen->copies = calloc(table->count + 1, sizeof(*frozen->copies));
    table->frozen = frozen;
    if (frozen->places == NULL || frozen->copies == NULL) {
        figures_table_thaw(table);
        return -ENOMEM;
    }
    return 0;
}

void figures_table_thaw(struct figures_table *table)
{
    if (table->frozen == NULL)
        return;
    free(table->frozen->places);
    free(table->frozen->copies);
    free(table->frozen);
    table->frozen = NULL;
}

const struct ledger_figures *figures_table_frozen(const struct figures_table *table, size_t index)
{
    const struct figures_frozen *frozen = table->frozen;
    uint32_t place = frozen->places[index];
    return place != 0 ? &frozen->copies[place - 1] : &table->items[index];
}

void figures_table_keep(struct figures_table *table, uint32_t index)
{
    struct figures_frozen *frozen = table->frozen;
    if (index >= frozen->count || frozen->places[index] != 0)
        return;
    frozen->copies[frozen->copy_count] = table->items[index];
    frozen->places[index] = (uint32_t)++frozen->copy_count;
}
