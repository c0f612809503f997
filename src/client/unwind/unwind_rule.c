/* SPDX-License-Identifier: Apache-2.0 */
/* The table of the rule cache. frame_rule_<cpu>.h has the layout of a rule. */
#include "client/unwind/unwind_rule.h"

#include <errno.h>

#include "client/system.h"
#include "client/unwind/frame_rule.h"

#define TABLE_WORDS (1u << RULE_INDEX_BITS)

uint64_t *rule_table;

/* Number of times that the generation bits have wrapped around. */
static uint32_t table_round;

int rule_init(void)
{
    if (rule_table != NULL)
        return 0;
    rule_table = system_map_wiped(TABLE_WORDS * sizeof(uint64_t));
    return rule_table != NULL ? 0 : -ENOMEM;
}

void rule_begin(uint32_t generation)
{
    uint32_t round = generation >> RULE_GENERATION_BITS;
    uint32_t seen = load_relaxed(&table_round);
    if (likely(round == seen) || !cas_relaxed(&table_round, &seen, round))
        return;
    for (uint32_t i = 0; i < TABLE_WORDS; i++)
        store_relaxed(&rule_table[i], 0);
}

void rule_insert(uint64_t address, uint64_t generation_bits, uint32_t rule)
{
    uint64_t index = rule_index(address), key = rule_key(address, generation_bits);
    uint64_t old = load_relaxed(&rule_table[index]);
    if (old != 0 && old >> RULE_BITS != key >> RULE_BITS)
        store_relaxed(&rule_table[rule_other_index(index)], old);
    store_relaxed(&rule_table[index], key | rule);
}

uint32_t rule_compile(const struct cfi_row *row)
{
    if (cfi_cell_rule(row->columns.cells[row->return_column]) == CFI_RULE_UNDEFINED)
        return RULE_OUTERMOST;
    uint32_t rule;
    if (row->signal_frame || row->return_column != ARCH_RETURN_ADDRESS ||
        !arch_rule_make(&row->columns, &rule))
        return RULE_INTERPRET;
    return rule | RULE_IS_PLAIN;
}
