/* SPDX-License-Identifier: Apache-2.0 */
/* Prints two changes and the stacks of each row, and sums up the rows that are not shown. */
#include "tools/cli/compare/growth_table.h"

#define FIGURES_COLUMNS 69 /* of a row, before its text */

static bool print_row(const struct growth_table *table, const struct diff_row *row, FILE *out)
{
    const struct compare_columns bytes = {EXPORT_SPACE, 12, 19, table->is_growth,
                                          table->marks_bytes},
                                 counts = {EXPORT_OBJECTS, 11, 17, table->is_growth,
                                           table->marks_counts};
    bool is_marked = compare_print_change(&bytes, table->pair, row, out);
    is_marked |= compare_print_change(&counts, table->pair, row, out);
    fputc(' ', out);
    compare_print_row(table->stacks, table->pair, row, EXPORT_SPACE, table->whole, FIGURES_COLUMNS,
                      out);
    if (table->print_below != NULL)
        table->print_below(table->context, row, out);
    return is_marked;
}

bool growth_table_print(const struct growth_table *table, const struct growth_list *list, FILE *out)
{
    size_t shown = table->top == 0 || list->count <= table->top ? list->count : (size_t)table->top;
    bool is_marked = false;
    double rest = 0;
    if (list->count > 0)
        fprintf(out, "%12s   %-19s %11s   %-17s  %s\n", "bytes", "95 %", "count", "95 %",
                dimension_info[DIMENSION_CALLSITE].head);
    for (size_t i = 0; i < shown; i++)
        is_marked |= print_row(table, list->entries[i].row, out);
    for (size_t i = shown; i < list->count; i++)
        rest += list->entries[i].size;
    if (shown < list->count)
        fprintf(out, "%12s   (%s more with %s; --top 0 shows all)\n", "...",
                format_count((double)(list->count - shown)).bytes, format_bytes(rest).bytes);
    return is_marked;
}
