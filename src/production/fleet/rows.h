/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Periods as rows of the fleet's tables (tables.h), in ClickHouse's RowBinary.
 *
 * Stacks, series and symbols are sent once, and again on the next day, in case the first time was
 * lost. What was sent is remembered in bounded memory: beyond it some are sent again. The store
 * keeps one of equal rows.
 *
 * A row's values are estimates over one period of one heap of a process: what was allocated in it,
 * and what was live at its end, times its duration. `pid` and `boot_id` are not part of a series:
 * the processes of a program on a host add up.
 */
#ifndef HEAPPROFD_PRODUCTION_FLEET_ROWS_H
#define HEAPPROFD_PRODUCTION_FLEET_ROWS_H

#include "production/continuous/period.h"
#include "production/fleet/tables.h"
#include "util/error.h"

/* Rows of one batch: below the million that ClickHouse keeps in one block, because only a block is
 * written whole or not at all. */
#define FLEET_BATCH_ROWS 50000u

struct fleet_rows;

/* Receives a batch: the rows of one INSERT. Return 0 or a negative errno. */
typedef int fleet_rows_put(void *context, enum fleet_table table, const void *bytes, size_t length,
                           uint64_t rows, uint64_t periods);

/* Return NULL without memory. */
struct fleet_rows *fleet_rows_new(void);
void fleet_rows_free(struct fleet_rows *rows);

/* Encode the periods of a collection. Return 0, or a negative errno with *error set. Batches that
 * were put before an error stay put. */
int fleet_rows_encode(struct fleet_rows *rows, const struct period *periods, size_t count,
                      fleet_rows_put *put, void *context, struct error *error);

#endif
