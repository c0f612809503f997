/* SPDX-License-Identifier: Apache-2.0 */
/* A hash table of figures, and the copies that a frozen table keeps. */
#include "recorder/ledger/figures_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "recorder/ledger/live_blocks.h"

#define FIGURES_MAX (64u << 20)
_Static_assert(FIGURES_MAX <= LIVE_SAMPLE_FIGURES_MAX, "an index fits a live sample");

int figures_table_init(struct figures_table *table)
{
    *table = (struct figures_table){0};
    return hash_index_reserve(&table->index, 0, NULL, NULL);
}

void figures_table_clear(struct figures_table *table)
{
    figures_table_thaw(table);
    free(table->memory);
    hash_index_free(&table->index);
    *table = (struct figures_table){0};
}

/* Return the slot of the key in the index, or the empty slot for it. */
static uint32_t *find_slot(const struct figures_table *table, struct figures_key key)
{
    const struct ledger_figures *items = table->items;
    return HASH_INDEX_SLOT(&table->index, figures_key_hash(key), i,
                           items[i].node == key.node && items[i].thread == key.thread &&
                               items[i].heap == key.heap && items[i].interval == key.interval &&
                               items[i].tag == key.tag);
}

static uint64_t hash_of_item(const void *items, uint32_t number)
{
    const struct ledger_figures *item = (const struct ledger_figures *)items + number;
    return figures_key_hash((struct figures_key){.node = item->node,
                                                 .thread = item->thread,
                                                 .tag = item->tag,
                                                 .interval = item->interval,
                                                 .heap = item->heap});
}

uint32_t figures_table_find(const struct figures_table *table, struct figures_key key)
{
    /* An empty slot has 0, and 0 - 1 is FIGURES_NONE. */
    return *find_slot(table, key) - 1;
}

/* Make room for one item more. Large memory moves by pages, so that the items stay aligned in it.
 */
static int reserve_item(struct figures_table *table)
{
    const size_t line = 64, item_bytes = sizeof(*table->items);
    if (table->count < table->capacity)
        return 0;
    size_t wanted = table->capacity + table->capacity / 2 + 4;
    uintptr_t before = (uintptr_t)table->items - (uintptr_t)table->memory;
    char *memory = realloc(table->memory, wanted * item_bytes + line);
    if (memory == NULL)
        return -ENOMEM;
    size_t aside = -(uintptr_t)memory % line;
    if (aside != before && table->count > 0)
        memmove(memory + aside, memory + before, table->count * item_bytes);
    table->memory = memory;
    table->items = (struct ledger_figures *)(memory + aside);
    table->capacity = wanted;
    return 0;
}

uint32_t figures_table_intern(struct figures_table *table, struct figures_key key, uint64_t epoch)
{
    if (hash_index_reserve(&table->index, table->count, hash_of_item, table->items) < 0)
        return FIGURES_NONE;
    uint32_t *slot = find_slot(table, key);
    if (*slot != 0)
        return *slot - 1;
    if (table->count >= FIGURES_MAX || reserve_item(table) < 0)
        return FIGURES_NONE;
    table->items[table->count] = (struct ledger_figures){
        .node = key.node,
        .tag = key.tag,
        .thread = (uint16_t)key.thread,
        .heap = key.heap,
        .interval = key.interval,
        .epoch = epoch,
    };
    *slot = (uint32_t)++table->count;
    return *slot - 1;
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
