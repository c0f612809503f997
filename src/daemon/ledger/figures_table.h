/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The figures of a ledger, each found by callsite, thread, heap, interval and tag. Indices
 * stay valid for the life of the table.
 *
 * A table can be frozen: what it held at that moment stays readable while it goes on changing.
 * Freezing copies nothing; figures are copied when they first change after it, so events pay for it
 * only while somebody reads.
 */
#ifndef HEAPPROFD_DAEMON_LEDGER_FIGURES_TABLE_H
#define HEAPPROFD_DAEMON_LEDGER_FIGURES_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "trace/trace_figures.h"
#include "util/keyed_hash.h"
#include "wire/barrier.h"

#define FIGURES_NONE UINT32_MAX

struct ledger_figures {
    uint32_t node; /* in the callsite tree */
    uint32_t tag;  /* of type and context */
    uint16_t thread, interval;
    uint8_t heap;
    uint8_t pad[3];
    uint64_t epoch; /* of the peak that the values below belong to */
    struct trace_peak_figures peak;
    struct trace_figures sums;
};

/* What figures are for. */
struct figures_key {
    uint32_t node, thread, tag;
    uint16_t interval;
    uint8_t heap;
};

struct figures_table {
    struct ledger_figures *items;
    size_t count, capacity;
    uint32_t *index; /* of items by key; 0: empty, else index + 1 */
    size_t index_size;
    struct figures_frozen {
        size_t count;                  /* items that there were */
        uint32_t *places;              /* by item: of its copy, + 1; 0: not changed since */
        struct ledger_figures *copies; /* room for all, so that events need not fail */
        size_t copy_count;
    } * frozen; /* NULL: not frozen */
};

/* 0 or -ENOMEM. */
int figures_table_init(struct figures_table *table);
void figures_table_clear(struct figures_table *table);

/* The index of the figures for key; FIGURES_NONE if there are none. */
uint32_t figures_table_find(const struct figures_table *table, struct figures_key key);

/* The same, made if there are none, with this epoch; FIGURES_NONE: no memory, or too many. */
uint32_t figures_table_intern(struct figures_table *table, struct figures_key key, uint64_t epoch);

/* 0 or -ENOMEM; a frozen table is not frozen again. */
int figures_table_freeze(struct figures_table *table);
void figures_table_thaw(struct figures_table *table);

/* The item as it was when the table was frozen; index < frozen->count. */
const struct ledger_figures *figures_table_frozen(const struct figures_table *table, size_t index);

/* Keeps a copy of a frozen item that is about to change, if there is none yet. */
void figures_table_keep(struct figures_table *table, uint32_t index);

/* An item, to be changed. */
static inline struct ledger_figures *figures_table_change(struct figures_table *table,
                                                          uint32_t index)
{
    if (unlikely(table->frozen != NULL))
        figures_table_keep(table, index);
    return &table->items[index];
}

static inline size_t figures_table_home(const struct figures_table *table, struct figures_key key)
{
    return keyed_hash_pair((uint64_t)key.node << 32 | key.thread,
                           (uint64_t)key.tag << 32 | (uint32_t)key.interval << 8 | key.heap) &
           (table->index_size - 1);
}

/* Fetch what figures_table_find looks at, in this order, and what an event changes. */
static inline void figures_table_prefetch_index(const struct figures_table *table,
                                                struct figures_key key)
{
    __builtin_prefetch(&table->index[figures_table_home(table, key)]);
}

static inline void figures_table_prefetch_item(const struct figures_table *table, uint32_t index)
{
    const char *item = (const char *)&table->items[index];
    for (size_t i = 0; i < sizeof(struct ledger_figures); i += 64)
        __builtin_prefetch(item + i, 1);
}

static inline void figures_table_prefetch_found(const struct figures_table *table,
                                                struct figures_key key)
{
    uint32_t found = table->index[figures_table_home(table, key)];
    if (found != 0)
        figures_table_prefetch_item(table, found - 1);
}

#endif
