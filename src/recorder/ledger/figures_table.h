/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The figures of a ledger, found by callsite, thread, heap, interval and tag. Indices stay valid
 * for the life of the table.
 *
 * A table can be frozen: its content of that moment stays readable while the table changes.
 * Freezing copies nothing. Figures are copied before their first change after it, so events pay for
 * it only while somebody reads.
 */
#ifndef HEAPPROFD_RECORDER_LEDGER_FIGURES_TABLE_H
#define HEAPPROFD_RECORDER_LEDGER_FIGURES_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "recorder/ledger/calibration.h"
#include "trace/trace_figures.h"
#include "util/hash_index.h"
#include "util/keyed_hash.h"
#include "util/prefetch.h"
#include "wire/barrier.h"

#define FIGURES_NONE UINT32_MAX

/* Four cache lines, which begin with the table's items: an allocation changes the first, a free
 * the second, too, each with p < 1 the third, and the first change after a peak the fourth. */
struct ledger_figures {
    uint32_t node; /* in the callsite tree */
    uint32_t tag;  /* type and context */
    uint16_t thread, interval;
    uint8_t heap;
    uint8_t pad;
    uint16_t period; /* of its last change: what `open` belongs to (calibration.h) */
    uint64_t epoch;  /* number of the peak that `peak` belongs to */
    struct trace_figures sums;
    /* Bytes that live samples stand for beside themselves. */
    double missed_live_bytes;
    uint8_t pad2[8];
    /* The part of the sums that is missed allocations, of samples of the period. */
    struct figures_open {
        struct ledger_amount allocated, freed, temporary;
    } open;
    struct trace_peak_figures peak;
    double missed_peak_bytes; /* as above, of those that were live at the peak */
    struct ledger_amount open_peak;
};
_Static_assert(sizeof(struct ledger_figures) == 256, "four cache lines");
_Static_assert(offsetof(struct ledger_figures, sums.freed_bytes) == 64, "the second line");
_Static_assert(offsetof(struct ledger_figures, missed_live_bytes) == 128, "the third line");
_Static_assert(offsetof(struct ledger_figures, peak) == 192, "the fourth line");

/* The key of figures. */
struct figures_key {
    uint32_t node, thread, tag;
    uint16_t interval;
    uint8_t heap;
};

struct figures_table {
    struct ledger_figures *items; /* aligned to a cache line in `memory` */
    size_t count, capacity;
    void *memory;
    struct hash_index index; /* of items */
    struct figures_frozen {
        size_t count;                  /* number of items when it was frozen */
        uint32_t *places;              /* by item: index of its copy + 1; 0: unchanged since */
        struct ledger_figures *copies; /* has room for all items, so that events cannot fail */
        size_t copy_count;
    } * frozen; /* NULL: not frozen */
};

/* Return 0 or -ENOMEM. */
int figures_table_init(struct figures_table *table);
void figures_table_clear(struct figures_table *table);

/* Return the index of the figures of a key, or FIGURES_NONE. */
uint32_t figures_table_find(const struct figures_table *table, struct figures_key key);

/* Return the index of the figures of a key. Make them with this epoch if there are none.
 * FIGURES_NONE: no memory, or too many figures. */
uint32_t figures_table_intern(struct figures_table *table, struct figures_key key, uint64_t epoch);

/* Freeze the table. Return 0 or -ENOMEM. A frozen table cannot be frozen again. */
int figures_table_freeze(struct figures_table *table);
void figures_table_thaw(struct figures_table *table);

/* Return an item as it was when the table was frozen; index < frozen->count. */
const struct ledger_figures *figures_table_frozen(const struct figures_table *table, size_t index);

/* Copy an item of a frozen table that is about to change, unless it was copied before. */
void figures_table_keep(struct figures_table *table, uint32_t index);

/* Return an item that the caller will change. */
static inline struct ledger_figures *figures_table_change(struct figures_table *table,
                                                          uint32_t index)
{
    if (unlikely(table->frozen != NULL))
        figures_table_keep(table, index);
    return &table->items[index];
}

static inline uint64_t figures_key_hash(struct figures_key key)
{
    return keyed_hash_pair((uint64_t)key.node << 32 | key.thread,
                           (uint64_t)key.tag << 32 | (uint32_t)key.interval << 8 | key.heap);
}

/* Return where a search for the key begins. */
static inline const uint32_t *figures_table_home(const struct figures_table *table,
                                                 struct figures_key key)
{
    return &table->index.slots[figures_key_hash(key) & (table->index.size - 1)];
}

/* The lines of an item, as bits: what an allocation changes, what a free does, both with p < 1, and
 * the first change after a peak. */
#define FIGURES_LINE_ALLOCATED 1u
#define FIGURES_LINE_FREED 2u
#define FIGURES_LINE_OPEN 4u
#define FIGURES_LINE_PEAK 8u
#define FIGURES_LINES 4u

/* Prefetch, in this order, what figures_table_find() reads, and what an event changes. */
PREFETCHING figures_table_prefetch_index(const struct figures_table *table, struct figures_key key)
{
    __builtin_prefetch(figures_table_home(table, key));
}

PREFETCHING figures_table_prefetch_item(const struct figures_table *table, uint32_t index,
                                        unsigned lines)
{
    const char *item = (const char *)&table->items[index];
    for (unsigned i = 0; i < FIGURES_LINES; i++)
        if ((lines & 1u << i) != 0)
            __builtin_prefetch(item + i * 64, 1);
}

PREFETCHING figures_table_prefetch_found(const struct figures_table *table, struct figures_key key,
                                         unsigned lines)
{
    uint32_t found = *figures_table_home(table, key);
    if (found != 0)
        figures_table_prefetch_item(table, found - 1, lines);
}

#endif
