/* SPDX-License-Identifier: Apache-2.0 */
/* Prints rows of SQL as a table, as CSV and as JSON. */
#include "tools/cli/query/query_output.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "util/json.h"
#include "util/terminal_text.h"
#include "util/utf8.h"
#include "util/xmalloc.h"

/* Number of rows that determine a table's column widths. Longer cells in later rows stick out. */
#define ROWS_MEASURED 1000
#define CELL_WIDTH_MAX 80

/* --- CSV --- */

/* Print a string in double quotes (RFC 4180). Programs that read CSV get its bytes unchanged; on a
 * terminal, characters that it would obey are escaped. */
static void print_csv_text(const char *text, bool escapes, FILE *out)
{
    const unsigned char *at = (const unsigned char *)text;
    char next[TERMINAL_TEXT_ESCAPE_BYTES];
    size_t taken;
    fputc('"', out);
    while (*at != '\0') {
        if (*at == '"')
            fputc('"', out);
        if (!escapes) {
            fputc(*at++, out);
        } else if ((taken = terminal_text_next(at, next)) > 0) {
            fputs(next, out);
            at += taken;
        }
    }
    fputc('"', out);
}

static void print_csv_cell(sqlite3_stmt *statement, int column, bool escapes, FILE *out)
{
    switch (sqlite3_column_type(statement, column)) {
    case SQLITE_INTEGER:
        fprintf(out, "%lld", sqlite3_column_int64(statement, column));
        break;
    case SQLITE_FLOAT:
        fprintf(out, "%f", sqlite3_column_double(statement, column));
        break;
    case SQLITE_NULL:
        fputs("\"[NULL]\"", out);
        break;
    default:
        print_csv_text((const char *)sqlite3_column_text(statement, column), escapes, out);
    }
}

static int print_csv(sqlite3_stmt *statement, FILE *out)
{
    int columns = sqlite3_column_count(statement), code;
    bool escapes = isatty(fileno(out));
    for (int i = 0; i < columns; i++) {
        fputs(i == 0 ? "" : ",", out);
        print_csv_text(sqlite3_column_name(statement, i), escapes, out);
    }
    fputc('\n', out);
    while ((code = sqlite3_step(statement)) == SQLITE_ROW) {
        for (int i = 0; i < columns; i++) {
            fputs(i == 0 ? "" : ",", out);
            print_csv_cell(statement, i, escapes, out);
        }
        fputc('\n', out);
    }
    return code;
}

/* --- JSON --- */

static void print_object(sqlite3_stmt *statement, FILE *out)
{
    int columns = sqlite3_column_count(statement);
    fputc('{', out);
    for (int i = 0; i < columns; i++) {
        fputs(i == 0 ? "" : ", ", out);
        json_print_string(out, sqlite3_column_name(statement, i));
        fputs(": ", out);
        switch (sqlite3_column_type(statement, i)) {
        case SQLITE_INTEGER:
            fprintf(out, "%lld", sqlite3_column_int64(statement, i));
            break;
        case SQLITE_FLOAT:
            json_print_number(out, sqlite3_column_double(statement, i));
            break;
        case SQLITE_NULL:
            fputs("null", out);
            break;
        default:
            json_print_string(out, (const char *)sqlite3_column_text(statement, i));
        }
    }
    fputc('}', out);
}

static int print_json(sqlite3_stmt *statement, bool lines, FILE *out)
{
    bool first = true;
    int code;
    fputs(lines ? "" : "[", out);
    while ((code = sqlite3_step(statement)) == SQLITE_ROW) {
        fputs(lines ? "" : first ? "\n  " : ",\n  ", out);
        print_object(statement, out);
        fputs(lines ? "\n" : "", out);
        first = false;
    }
    fputs(lines ? "" : first ? "]\n" : "\n]\n", out);
    return code;
}

/* --- a table --- */

struct cells {
    char **texts; /* by row and column */
    bool *numbers;
    size_t rows, capacity;
};

/* Return a copy without terminal commands: names come from the trace. */
static char *clean_text(const char *text)
{
    size_t room = strlen(text) * (TERMINAL_TEXT_ESCAPE_BYTES - 1) + 1;
    char *copy = xmalloc(room);
    terminal_text_escape(text, false, copy, room);
    return copy;
}

static char *cell_text(sqlite3_stmt *statement, int column)
{
    char number[64];
    switch (sqlite3_column_type(statement, column)) {
    case SQLITE_NULL:
        return xstrdup("NULL");
    case SQLITE_FLOAT:
        snprintf(number, sizeof(number), "%.15g", sqlite3_column_double(statement, column));
        return xstrdup(number);
    default: {
        const char *text = (const char *)sqlite3_column_text(statement, column);
        return clean_text(text == NULL ? "" : text);
    }
    }
}

static void print_cell(const char *text, size_t width, bool right, bool last, FILE *out)
{
    size_t used = utf8_count(text), blanks = used < width ? width - used : 0;
    if (right)
        fprintf(out, "%*s%s", (int)blanks, "", text);
    else
        fprintf(out, "%s%*s", text, last ? 0 : (int)blanks, "");
    fputs(last ? "\n" : "  ", out);
}

static void take_row(sqlite3_stmt *statement, int columns, struct cells *cells)
{
    if (cells->rows == cells->capacity) {
        size_t capacity = cells->capacity * 2 + 16, count = capacity * (size_t)columns;
        cells->texts = xreallocarray(cells->texts, count, sizeof(*cells->texts));
        cells->numbers = xreallocarray(cells->numbers, count, sizeof(*cells->numbers));
        cells->capacity = capacity;
    }
    size_t at = cells->rows * (size_t)columns;
    for (int i = 0; i < columns; i++) {
        int type = sqlite3_column_type(statement, i);
        cells->numbers[at + (size_t)i] = type == SQLITE_INTEGER || type == SQLITE_FLOAT;
        cells->texts[at + (size_t)i] = cell_text(statement, i);
    }
    cells->rows++;
}

static void print_cells(struct cells *cells, int columns, const size_t *widths, FILE *out)
{
    for (size_t i = 0; i < cells->rows * (size_t)columns; i++) {
        int column = (int)(i % (size_t)columns);
        print_cell(cells->texts[i], widths[column], cells->numbers[i], column + 1 == columns, out);
        free(cells->texts[i]);
    }
    cells->rows = 0;
}

static void print_heads(sqlite3_stmt *statement, int columns, const size_t *widths,
                        const struct cells *cells, FILE *out)
{
    for (int i = 0; i < columns; i++) {
        /* Column names are untrusted, too. */
        char *name = clean_text(sqlite3_column_name(statement, i));
        print_cell(name, widths[i], cells->rows > 0 && cells->numbers[i], i + 1 == columns, out);
        free(name);
    }
    for (int i = 0; i < columns; i++) {
        for (size_t j = 0; j < widths[i]; j++)
            fputc('-', out);
        fputs(i + 1 == columns ? "\n" : "  ", out);
    }
}

static int print_table(sqlite3_stmt *statement, FILE *out)
{
    int columns = sqlite3_column_count(statement), code = SQLITE_ROW;
    struct cells cells = {0};
    size_t *widths = xcalloc((size_t)columns + 1, sizeof(*widths));
    for (int i = 0; i < columns; i++)
        widths[i] = utf8_count(sqlite3_column_name(statement, i));
    while (cells.rows < ROWS_MEASURED && (code = sqlite3_step(statement)) == SQLITE_ROW)
        take_row(statement, columns, &cells);
    for (size_t i = 0; i < cells.rows * (size_t)columns; i++) {
        size_t width = utf8_count(cells.texts[i]);
        size_t *widest = &widths[i % (size_t)columns];
        if (width > CELL_WIDTH_MAX)
            width = CELL_WIDTH_MAX;
        *widest = width > *widest ? width : *widest;
    }
    print_heads(statement, columns, widths, &cells, out);
    print_cells(&cells, columns, widths, out);
    while (code == SQLITE_ROW && (code = sqlite3_step(statement)) == SQLITE_ROW) {
        take_row(statement, columns, &cells);
        print_cells(&cells, columns, widths, out);
    }
    free(cells.texts);
    free(cells.numbers);
    free(widths);
    return code;
}

int query_print(sqlite3_stmt *statement, enum query_format format, FILE *out)
{
    if (sqlite3_column_count(statement) == 0)
        return sqlite3_step(statement);
    switch (format) {
    case QUERY_CSV:
        return print_csv(statement, out);
    case QUERY_JSON:
        return print_json(statement, false, out);
    case QUERY_JSONL:
        return print_json(statement, true, out);
    default:
        return print_table(statement, out);
    }
}
