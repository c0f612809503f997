/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Of all symbols of a file, those that decide the names of some addresses. A library has 50,000
 * symbols, and a profile is about a few of them: to read all, without sorting them, takes a tenth
 * of the time.
 */
#ifndef HEAPPROFD_PROFILE_SYMBOLS_NEAR_SYMBOLS_H
#define HEAPPROFD_PROFILE_SYMBOLS_NEAR_SYMBOLS_H

#include <stddef.h>
#include <stdint.h>

#include "profile/symbols/symbol_table.h"

struct near_symbols {
    struct symbol *items;
    size_t count, capacity;
};

/*
 * Collect the symbols near the addresses (in any order) from all tables. symbol_ranges_make() of
 * them gives these addresses the same names as that of all symbols would. Return 0 or -ENOMEM; free
 * near->items in any case.
 */
int near_symbols_collect(struct near_symbols *near, const struct symbol_table *tables,
                         size_t table_count, const uint64_t *addresses, size_t address_count);

#endif
