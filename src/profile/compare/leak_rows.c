/* SPDX-License-Identifier: Apache-2.0 */
/* Measures all rows of a heap by its later dump, judges which grow, and ranks them. */
#include "profile/compare/leak_rows.h"

#include <errno.h>
#include <stdlib.h>

static int judge(struct leak_rows *rows, const struct leak_rows_of *of)
{
    const struct diff_pair *pair = rows->pair;
    const struct export_dump *dump = pair->after_count > 0 ? &pair->after[0] : NULL;
    for (size_t i = 0; i < pair->row_count; i++) {
        const struct diff_row *row = &pair->rows[i];
        struct turnover_facts facts = {0};
        for (size_t j = 0; j < row->stack_count; j++) {
            const struct diff_stack *stack = &pair->stacks[row->stack_first + j];
            if (stack->side == 1)
                turnover_facts_add(&facts, stack->sample);
        }
        rows->turnovers[i] = turnover_of(&facts, of->after, dump, pair->after_count == 1);
        rows->has_trends |= rows->turnovers[i].kind != TURNOVER_UNKNOWN;
    }
    return turnover_judge(rows->turnovers, pair->row_count);
}

/* Return whether an entry may be a leak. Of live memory, it must grow; of a growth, it must not be
 * known to end by itself. Two runs differ for other reasons, too. */
static bool is_leak(const struct leak_rows *rows, const struct leak_rows_of *of,
                    const struct turnover *turnover)
{
    if (!rows->has_trends || (of->is_difference && !rows->pair->same_process))
        return true;
    if (!of->is_difference)
        return turnover->kind == TURNOVER_GROWS;
    return turnover->kind != TURNOVER_TURNS_OVER && turnover->kind != TURNOVER_STAYS;
}

/* Move the entries that grow to the front, and count the leaks. */
static int rank_entries(struct leak_rows *rows, const struct leak_rows_of *of)
{
    struct growth_list *list = &rows->grown;
    struct growth_entry *ranked = calloc(list->count + 1, sizeof(*ranked));
    size_t used = 0;
    if (ranked == NULL)
        return -ENOMEM;
    for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < list->count; i++) {
            const struct growth_entry *entry = &list->entries[i];
            const struct turnover *turnover = leak_rows_turnover(rows, entry->row);
            bool is_first = turnover->kind == TURNOVER_GROWS &&
                            (!of->is_difference || rows->pair->same_process);
            if (is_first != (pass == 0))
                continue;
            ranked[used++] = *entry;
            rows->growing += is_first ? entry->size : 0;
            rows->leak_count += is_leak(rows, of, turnover);
        }
    free(list->entries);
    list->entries = ranked;
    return 0;
}

int leak_rows_make(struct leak_rows *rows, const struct diff_pair *pair,
                   const struct leak_rows_of *of, const struct growth_options *options)
{
    *rows = (struct leak_rows){
        .pair = pair,
        .turnovers = calloc(pair->row_count + 1, sizeof(*rows->turnovers)),
    };
    int code = rows->turnovers == NULL ? -ENOMEM : 0;
    if (code == 0)
        code = growth_list_make(pair, options, false, &rows->grown);
    if (code == 0)
        code = growth_list_make(pair, options, true, &rows->shrunk);
    if (code == 0)
        code = judge(rows, of);
    if (code == 0)
        code = rank_entries(rows, of);
    return code;
}

void leak_rows_clear(struct leak_rows *rows)
{
    growth_list_clear(&rows->grown);
    growth_list_clear(&rows->shrunk);
    free(rows->turnovers);
    *rows = (struct leak_rows){0};
}

uint64_t leak_rows_lack_ms(const struct leak_rows *rows, const struct leak_rows_of *of)
{
    const struct diff_pair *pair = rows->pair;
    if (of->is_difference || pair->after_count != 1 || rows->leak_count > 0)
        return 0;
    return turnover_lacks_ms(of->after, pair->after);
}
