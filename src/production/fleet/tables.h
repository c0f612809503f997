/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tables of the fleet's store, ClickHouse, and their columns. docs/fleet.md explains them.
 *
 *   inbox     what sinks insert: figures of one period, by stack. It keeps nothing; a view passes
 *             its rows on to `figures`, unless the batch has arrived before.
 *   figures   sums by stack and series, on three levels: as inserted, by hour, and by day
 *   stacks    each stack once: its service, heap and frames
 *   series    each set of labels once
 *   symbols   names of code addresses, by build id and offset
 *   schema    the version of these tables
 *
 * All sums can be added: an estimate's variance is beside it. Live memory is a level, not an event,
 * so its sum is the integral over time: bytes x seconds.
 */
#ifndef HEAPPROFD_PRODUCTION_FLEET_TABLES_H
#define HEAPPROFD_PRODUCTION_FLEET_TABLES_H

#include <stddef.h>
#include <stdint.h>

#define FLEET_SCHEMA_VERSION 1u
#define FLEET_DATABASE "heapprofd"
#define FLEET_HOUR_S INT64_C(3600)
#define FLEET_DAY_S INT64_C(86400)

/* Days for which a batch that arrives again is recognized (docs/fleet.md). */
#define FLEET_BATCH_DAYS 8

enum fleet_table {
    FLEET_INBOX,
    FLEET_STACKS,
    FLEET_SERIES,
    FLEET_SYMBOLS,
    FLEET_TABLES,
};

/* figures.level: which rows belong together. The totals of a whole heap have levels of their own,
 * so that a question about them reads little. */
enum fleet_level {
    FLEET_LEVEL_PERIOD,
    FLEET_LEVEL_HOUR,
    FLEET_LEVEL_DAY,
    FLEET_LEVEL_BATCH, /* a batch that has arrived: its id is in `stack` */
    FLEET_LEVEL_TOTALS /* add it to one of the first three: total of the heap */
};

/* The sums of a row, in the order of their columns. */
#define FLEET_SUMS(USE)                                                                            \
    USE(live_byte_seconds)                                                                         \
    USE(live_byte_variance)                                                                        \
    USE(live_count_seconds)                                                                        \
    USE(live_count_variance)                                                                       \
    USE(alloc_bytes)                                                                               \
    USE(alloc_byte_variance)                                                                       \
    USE(alloc_count)                                                                               \
    USE(alloc_count_variance)                                                                      \
    USE(samples)
/* Further sums, of a heap's total only: profiled time, that time times the sampling interval, the
 * number of periods, and of those that lost samples. */
#define FLEET_TOTAL_SUMS(USE)                                                                      \
    USE(seconds)                                                                                   \
    USE(interval_seconds)                                                                          \
    USE(periods)                                                                                   \
    USE(partial_periods)

struct fleet_sums {
#define MEMBER(name) double name;
    FLEET_SUMS(MEMBER)
    FLEET_TOTAL_SUMS(MEMBER)
#undef MEMBER
};

static inline void fleet_sums_add(struct fleet_sums *sum, const struct fleet_sums *more)
{
#define ADD(name) sum->name += more->name;
    FLEET_SUMS(ADD)
    FLEET_TOTAL_SUMS(ADD)
#undef ADD
}

/* Symbols of one address may come from several sources: the best wins. */
enum fleet_symbol_quality {
    FLEET_SYMBOL_NAME = 1, /* as the profiled machine named it, from a symbol table */
    FLEET_SYMBOL_LINE = 2, /* the same, with a line */
    FLEET_SYMBOL_DEBUG = 3 /* from debug information: inlined functions, too */
};

/* Frames of a stack, and functions of an address, beyond which the rest is left out. */
#define FLEET_FRAMES_MAX 4096u
#define FLEET_INLINED_MAX 256u

/* Name of each table, and the list of its columns as an INSERT has it. */
extern const char *const fleet_table_names[FLEET_TABLES];
extern const char *const fleet_table_columns[FLEET_TABLES];

#endif
