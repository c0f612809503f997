/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums of a selection by any dimension. By function, module and file, a row has what it allocates
 * itself and what it does with all that it calls; a stack counts once in a row, however often the
 * row is on it.
 */
#ifndef HEAPPROFD_VIEW_TABLE_H
#define HEAPPROFD_VIEW_TABLE_H

#include "tools/view/model/leaves.h"
#include "util/json_writer.h"

struct table_row {
    const char *label; /* NULL: of a function or a class */
    uint32_t function; /* of VIEW_FUNCTION and VIEW_HOLDER; else STACK_NONE */
    int64_t number;    /* the tid of VIEW_THREAD, the class of VIEW_SIZE and VIEW_LIFETIME */
    struct flame_sum self, total;
    bool is_beyond_chance; /* of a difference: the total's change */
};

struct table {
    struct table_row *rows; /* in no order; those without a figure are left out */
    size_t count, capacity;
};

/* Make a table of a selection. Return 0, or -EINVAL with the reason if the file does not
 * contain what the table is by. */
int table_make(struct table *table, struct view_profiles *profiles,
               const struct view_selection *selection, const struct view_leaves *leaves,
               enum view_dimension key, struct error *error);
void table_free(struct table *table);

/* Write what names a row, and its `part` for only=. */
void table_write_key(struct json_writer *json, struct view_profiles *profiles,
                     enum view_dimension by, const struct table_row *row);

#endif
