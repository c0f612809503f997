/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the texts on the screen, and writes them into its cells. */
#define NCURSES_WIDECHAR 1
#include <curses.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "profile/symbols/demangle.h"
#include "profile/unseen.h"
#include "tools/cli/explore/screen_state.h"
#include "tools/cli/options/profile_options.h"
#include "tools/print/format.h"
#include "util/utf8.h"

/* Limit of the end of a path in the title. */
#define NAME_BYTES 100

const char *const screen_mode_names[BREAKDOWN_MODES] = {
    [BREAKDOWN_TREE] = "Top-down (Tree)",
    [BREAKDOWN_HEAVY] = "Top-down (Heavy)",
    [BREAKDOWN_BOTTOM_UP] = "Bottom-up",
};

const char *const screen_figure_names[DIFF_FIGURES] = {
    [DIFF_LIVE] = "live",
    [DIFF_ALLOCATED] = "allocated",
    [DIFF_PEAK] = "at peak",
};

const char *const screen_dimension_names[SITES_DIMENSIONS] = {
    [SITES_FRAME] = "Stack frame", [SITES_TYPE] = "Object type", [SITES_THREAD] = "Thread",
    [SITES_CONTEXT] = "Context",   [SITES_MODULE] = "Module",    [SITES_HEAP] = "Heap",
    [SITES_PROCESS] = "Process",
};

const char *screen_name(const struct screen *screen, enum sites_dimension dimension, uint32_t key,
                        char buffer[SCREEN_TEXT_BYTES])
{
    const struct sites_key *of = &screen->sites->keys[dimension].keys[key];
    char *simple = NULL;
    if (dimension == SITES_FRAME && screen->short_names && of->profile != NULL) {
        const char *mangled = of->profile->frames[of->frame].linkage_name;
        if (*mangled != '\0' && strcmp(mangled, of->label) != 0)
            simple = demangle_name_as(mangled, DEMANGLE_SIMPLE);
    }
    const char *name = simple != NULL && *simple != '\0' ? simple : of->label;
    snprintf(buffer, SCREEN_TEXT_BYTES, "%s", *name != '\0' ? name : "?");
    free(simple);
    return buffer;
}

/* --- title --- */

static bool is_one_trace(const struct screen *screen)
{
    for (size_t i = 1; i < screen->column_count; i++)
        if (screen->columns[i].profile != screen->columns[0].profile)
            return false;
    return true;
}

static void put_dump(const struct compare_source *column, char buffer[64])
{
    switch (column->which) {
    case COMPARE_NUMBER:
        snprintf(buffer, 64, "@%llu", (unsigned long long)column->number);
        break;
    case COMPARE_TIME:
        snprintf(buffer, 64, "@%gs", (double)column->offset_ns / 1e9);
        break;
    case COMPARE_MAX:
        snprintf(buffer, 64, "@max");
        break;
    default:
        snprintf(buffer, 64, "@last");
    }
}

const char *screen_column_name(const struct screen *screen, size_t column, char buffer[64])
{
    if (is_one_trace(screen))
        put_dump(&screen->columns[column], buffer);
    else
        snprintf(buffer, 64, "#%zu", column + 1);
    return buffer;
}

/* Set *end to the end of a path and return its length. Traces have the same name in every profile's
 * directory, so their directory is shown instead. */
static int short_path(const char *path, const char **end)
{
    const char *slash = strrchr(path, '/');
    *end = slash == NULL || slash[1] == '\0' ? path : slash + 1;
    if (slash == NULL || slash == path ||
        (strcmp(*end, "raw-trace") != 0 && strcmp(*end, "symbolized-trace") != 0))
        return (int)strnlen(*end, NAME_BYTES);
    const char *before = slash;
    while (before > path && before[-1] != '/')
        before--;
    *end = before;
    return slash - before < NAME_BYTES ? (int)(slash - before) : NAME_BYTES;
}

/* Add a note that a filter makes the sums smaller than the heaps. */
static void put_filter(const struct screen *screen, char buffer[SCREEN_TEXT_BYTES], size_t used)
{
    const char *filter = screen->column_count > 0 ? screen->columns[0].profile->filter : "";
    double part = 0, whole = 0;
    for (size_t i = 0; i < screen->column_count; i++) {
        for (size_t j = 0; j < screen->columns[i].dump_count; j++) {
            const struct profile_dump *dump = screen->columns[i].dumps[j].dump;
            part += rollup_live_bytes(&dump->left_out.sum.figures);
            whole += rollup_live_bytes(&dump->total);
        }
    }
    if (*filter != '\0' && used < SCREEN_TEXT_BYTES)
        snprintf(buffer + used, SCREEN_TEXT_BYTES - used, " %.200s leaves out %s live", filter,
                 profile_options_share(part, whole, false).bytes);
}

/* Add a note about how much the sums may miss, for the column that may miss most. */
static void put_unseen(const struct screen *screen, char buffer[SCREEN_TEXT_BYTES], size_t used)
{
    double most = 0;
    for (size_t i = 0; i < screen->column_count; i++) {
        struct unseen unseen = {0};
        for (size_t j = 0; j < screen->columns[i].dump_count; j++) {
            const struct export_dump *dump = &screen->columns[i].dumps[j];
            if (!dump->heap->unseen)
                unseen = unseen_add(unseen, unseen_of(dump->heap, dump->dump, false));
        }
        most = fmax(most, unseen_most(unseen));
    }
    if (most >= 0.5 && used < SCREEN_TEXT_BYTES)
        snprintf(buffer + used, SCREEN_TEXT_BYTES - used, " (up to %s more in no sample)",
                 format_bytes(most).bytes);
}

void screen_title(const struct screen *screen, char buffer[SCREEN_TEXT_BYTES])
{
    size_t used = 0;
    char dump[64];
    bool one = is_one_trace(screen);
    *buffer = '\0';
    for (size_t i = 0; i < screen->column_count && used < SCREEN_TEXT_BYTES; i++) {
        const char *path;
        int length = short_path(screen->columns[i].path, &path);
        char number[32] = "";
        put_dump(&screen->columns[i], dump);
        if (!one)
            snprintf(number, sizeof(number), "#%zu ", i + 1);
        used += (size_t)snprintf(buffer + used, SCREEN_TEXT_BYTES - used, "%s%s%.*s%s",
                                 i > 0 ? ", " : "", number, one && i > 0 ? 0 : length, path, dump);
    }
    put_filter(screen, buffer, used);
    put_unseen(screen, buffer, strlen(buffer));
}

/* --- figures --- */

const char *screen_figure_head(const struct screen *screen, const struct screen_figure *figure,
                               char buffer[64])
{
    static const char *const names[] = {"Size", "Count", "Share"};
    static const char *const aggregates[] = {"Diff", "Max"};
    const struct breakdown_order *order = &screen->order;
    char name[64] = "";
    enum breakdown_sort_key key =
        figure->kind == SCREEN_COUNT ? BREAKDOWN_BY_COUNT : BREAKDOWN_BY_SIZE;
    bool sorts = figure->kind != SCREEN_SHARE && order->key == key &&
                 (screen->column_count < 2 || order->column == figure->column);
    if (screen->column_count > 1 && figure->column == BREAKDOWN_ALL_COLUMNS)
        snprintf(name, sizeof(name), "%s", aggregates[order->aggregate]);
    else if (screen->column_count > 1)
        screen_column_name(screen, figure->column, name);
    bool counts = figure->kind == SCREEN_COUNT;
    snprintf(buffer, 64, "%s%.20s%s%s", sorts ? (order->reverse ? "^" : "v") : "", name,
             *name == '\0' ? ""
             : counts      ? " n"
                           : "",
             *name == '\0' ? names[figure->kind] : "");
    return buffer;
}

static struct formatted short_count(double count)
{
    struct formatted text = format_count(count);
    double size = count < 0 ? -count : count;
    if (size >= 1e9)
        snprintf(text.bytes, sizeof(text.bytes), "%.1f G", size / 1e9);
    else if (size >= 1e7)
        snprintf(text.bytes, sizeof(text.bytes), "%.1f M", size / 1e6);
    return text;
}

static struct formatted format_figure(const struct screen *screen, double value, bool counts)
{
    if (screen->exact_figures)
        return format_count(value);
    return counts ? short_count(value) : format_bytes(value < 0 ? -value : value);
}

bool screen_is_unknown(const struct screen *screen, const struct screen_figure *figure)
{
    enum diff_figure shown = breakdown_figure(screen->breakdown);
    bool all = figure->column == BREAKDOWN_ALL_COLUMNS, counts = figure->kind == SCREEN_COUNT;
    bool difference = all && screen->order.aggregate == BREAKDOWN_DIFFERENCE;
    for (size_t i = 0; i < screen->column_count; i++) {
        const struct sites_unknown *unknown = &screen->sites->unknown[i];
        bool between = i > 0 && i + 1 < screen->column_count;
        if ((all ? !(difference && between) : i == figure->column) &&
            (counts ? unknown->counts : unknown->bytes)[shown])
            return true;
    }
    return false;
}

const char *screen_figure_text(const struct screen *screen, const struct screen_figure *figure,
                               const struct breakdown_row *row, const struct breakdown_row *total,
                               char buffer[64])
{
    bool all = figure->column == BREAKDOWN_ALL_COLUMNS;
    if (screen_is_unknown(screen, figure))
        return strcpy(buffer, "?");
    struct sites_value value =
        all ? breakdown_aggregate_of(row, screen->column_count, screen->order.aggregate)
            : row->values[figure->column];
    if (figure->kind == SCREEN_SHARE) {
        double whole = total->values[figure->column].bytes;
        snprintf(buffer, 64, "%.1f%%", whole > 0 ? 100 * value.bytes / whole : 0);
        return buffer;
    }
    bool counts = figure->kind == SCREEN_COUNT;
    double number = counts ? value.count : value.bytes;
    bool is_difference =
        all && screen->column_count > 1 && screen->order.aggregate == BREAKDOWN_DIFFERENCE;
    const char *minus = screen->utf8 ? FORMAT_MINUS : "-", *sign = number <= -0.5 ? minus
                                                                   : is_difference && number >= 0.5
                                                                       ? "+"
                                                                       : "";
    snprintf(buffer, 64, "%s%s", sign, format_figure(screen, number, counts).bytes);
    return buffer;
}

/* --- cells --- */

static attr_t attributes_of(const struct screen *screen, enum screen_style style)
{
    switch (style) {
    case SCREEN_BAR:
        return A_REVERSE;
    case SCREEN_STRONG:
        return A_BOLD;
    case SCREEN_FAINT:
        return screen->colours ? A_DIM : A_NORMAL;
    case SCREEN_GREW:
        return screen->colours ? (attr_t)COLOR_PAIR(1) : A_NORMAL;
    case SCREEN_SHRANK:
        return screen->colours ? (attr_t)COLOR_PAIR(2) : A_NORMAL;
    default:
        return A_NORMAL;
    }
}

/* Return the character at *text and advance. Return a question mark for invalid bytes, control
 * characters, characters without a width, and characters that the terminal's locale lacks. */
static wchar_t take_character(const struct screen *screen, const char **text)
{
    const unsigned char *at = (const unsigned char *)*text;
    size_t length = utf8_length(at);
    *text += length > 0 ? length : 1;
    if (length == 1)
        return *at < 0x20 || *at == 0x7f ? L'?' : (wchar_t)*at;
    if (length == 0 || !screen->utf8)
        return L'?';
    wchar_t character = at[0] & (0x7f >> length);
    for (size_t i = 1; i < length; i++)
        character = character << 6 | (at[i] & 0x3f);
    return wcwidth(character) > 0 ? character : L'?';
}

/* Convert text to characters that fit into `width` cells. Return the cells used. Mark text that was
 * cut. */
static int fit(const struct screen *screen, const char *text, int width, wchar_t *characters,
               size_t *count)
{
    int cells = 0, cells_before_mark = 0;
    size_t used = 0, used_before_mark = 0;
    while (*text != '\0') {
        wchar_t character = take_character(screen, &text);
        int wide = wcwidth(character);
        if (cells + wide > width) {
            characters[used_before_mark] = screen->utf8 ? L'\u2026' : L'>';
            *count = used_before_mark + 1;
            return cells_before_mark + 1;
        }
        characters[used++] = character;
        cells += wide;
        if (cells < width) {
            used_before_mark = used;
            cells_before_mark = cells;
        }
    }
    *count = used;
    return cells;
}

#define CELLS_MAX 1024

int screen_put(const struct screen *screen, int y, int x, int width, enum screen_style style,
               const char *text)
{
    wchar_t characters[CELLS_MAX + 1];
    size_t count;
    if (width > CELLS_MAX)
        width = CELLS_MAX;
    if (width <= 0 || y < 0 || y >= LINES || x < 0 || x + width > COLS)
        return 0;
    int cells = fit(screen, text, width, characters, &count);
    attrset(attributes_of(screen, style));
    mvaddnwstr(y, x, characters, (int)count);
    for (int i = cells; i < width; i++)
        mvaddch(y, x + i, ' ');
    attrset(A_NORMAL);
    return cells;
}

void screen_put_right(const struct screen *screen, int y, int x, int width, enum screen_style style,
                      const char *text)
{
    int length = (int)utf8_count(text); /* figures: one cell each */
    screen_put(screen, y, x, length < width ? width - length : 0, style, "");
    if (length > width)
        screen_put(screen, y, x, width, style, text);
    else
        screen_put(screen, y, x + width - length, length, style, text);
}

void screen_rule(const struct screen *screen, int y, int x, int height)
{
    attrset(attributes_of(screen, SCREEN_FAINT));
    mvvline(y, x, 0, height);
    attrset(A_NORMAL);
}
