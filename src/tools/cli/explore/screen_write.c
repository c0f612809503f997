/* SPDX-License-Identifier: Apache-2.0 */
/* Writes all rows, with unabridged figures, to a text file. */

#include "tools/cli/explore/screen_state.h"
#include "tools/print/format.h"
#include "util/output_file.h"
#include "util/xmalloc.h"

#define FIGURE_WIDTH 18

static void write_figures(const struct screen *screen, struct sites_value value, size_t column,
                          FILE *out)
{
    const double numbers[] = {[SCREEN_SIZE] = value.bytes, [SCREEN_COUNT] = value.count};
    for (int kind = SCREEN_SIZE; kind <= SCREEN_COUNT; kind++) {
        const struct screen_figure figure = {.column = column, .kind = kind};
        if (screen_is_unknown(screen, &figure))
            fprintf(out, "%*s", FIGURE_WIDTH, "?");
        else
            fprintf(out, "%*.0f", FIGURE_WIDTH, numbers[kind]);
    }
}

static void write_line(const struct screen *screen, const struct breakdown_row *row, FILE *out)
{
    size_t columns = screen->column_count;
    for (size_t i = 0; i < columns; i++)
        write_figures(screen, row->values[i], i, out);
    if (columns > 1)
        write_figures(screen, breakdown_aggregate_of(row, columns, screen->order.aggregate),
                      BREAKDOWN_ALL_COLUMNS, out);
    fputs("  ", out);
}

static void write_head(const struct screen *screen, FILE *out)
{
    char text[SCREEN_TEXT_BYTES], name[64];
    size_t columns = screen->column_count;
    screen_title(screen, text);
    format_printf(out, "%s, %s, %s\n", text,
                  screen_figure_names[breakdown_figure(screen->breakdown)],
                  screen_mode_names[breakdown_mode(screen->breakdown)]);
    for (size_t i = 0; i < columns; i++) {
        screen_column_name(screen, i, name);
        fprintf(out, "%*s%*s", FIGURE_WIDTH, columns > 1 ? name : "bytes", FIGURE_WIDTH, "count");
    }
    if (columns > 1)
        fprintf(out, "%*s%*s", FIGURE_WIDTH,
                screen->order.aggregate == BREAKDOWN_MAX ? "maximum" : "difference", FIGURE_WIDTH,
                "count");
    fprintf(out, "  %s\n", screen_dimension_names[screen->dimension]);
}

static void write_rows(const struct screen *screen, FILE *out)
{
    char name[SCREEN_TEXT_BYTES];
    size_t count;
    const struct breakdown_step *steps = breakdown_path(screen->breakdown, &count);
    write_head(screen, out);
    for (size_t i = 0; i <= count; i++) {
        struct breakdown_row total =
            i > 0 ? breakdown_total(screen->breakdown, i) : breakdown_whole(screen->breakdown);
        write_line(screen, &total, out);
        if (i > 0)
            format_printf(out, "path: %s\n",
                          screen_name(screen, steps[i - 1].dimension, steps[i - 1].key, name));
        else
            fputs("everything\n", out);
    }
    for (size_t i = 0; i < screen->rows.count; i++) {
        write_line(screen, &screen->rows.rows[i], out);
        format_printf(out, "%s\n",
                      screen_name(screen, screen->dimension, screen->rows.rows[i].key, name));
    }
}

int screen_write(const struct screen *screen, const char *path)
{
    struct output_file file;
    int code = output_file_open(&file, path, OUTPUT_FILE_NEW, NULL);
    if (code < 0)
        return code;
    write_rows(screen, xmalloc_made(output_file_stream(&file)));
    return output_file_close(&file, 0, NULL);
}
