/* SPDX-License-Identifier: Apache-2.0 */
/* Draws the main screen: title, tabs, path, rows, and the detail line of the selected row. */
#define NCURSES_WIDECHAR 1
#include <curses.h>
#include <string.h>

#include "tools/cli/explore/screen_state.h"
#include "util/format_bytes.h"
#include "util/utf8.h"

#define PATH_WIDTH_LEAST 24
#define PATH_WIDTH_MOST 60
#define TWO_PANES_COLUMNS 72
#define PATH_FIGURE_WIDTH 10

struct layout {
    int path_width; /* 0: the path has its own line */
    int rows_x, rows_width;
    int head_y, rows_y, rows_end; /* rows_end: the line after the rows */
};

static struct layout lay_out(void)
{
    struct layout layout = {.rows_width = COLS, .head_y = 3, .rows_end = LINES - 2};
    if (COLS >= TWO_PANES_COLUMNS) {
        layout.path_width = COLS / 3;
        if (layout.path_width > PATH_WIDTH_MOST)
            layout.path_width = PATH_WIDTH_MOST;
        if (layout.path_width < PATH_WIDTH_LEAST)
            layout.path_width = PATH_WIDTH_LEAST;
        layout.rows_x = layout.path_width + 1;
        layout.rows_width = COLS - layout.rows_x;
        layout.head_y = 2;
    }
    layout.rows_y = layout.head_y + 1;
    return layout;
}

/* --- title and tabs --- */

static void draw_title(const struct screen *screen)
{
    char title[SCREEN_TEXT_BYTES], line[2 * SCREEN_TEXT_BYTES], figure[64], right[128];
    struct breakdown_row total = breakdown_whole(screen->breakdown);
    const struct sites_keys *processes = &screen->sites->keys[SITES_PROCESS],
                            *heaps = &screen->sites->keys[SITES_HEAP];
    struct screen_figure all = {screen->column_count > 1 ? screen->column_count - 1 : 0,
                                SCREEN_SIZE, 0};
    screen_title(screen, title);
    int used = snprintf(line, sizeof(line), " %s: ", title);
    if (processes->count == 1)
        used +=
            snprintf(line + used, sizeof(line) - (size_t)used, "%.100s", processes->keys[0].label);
    else
        used +=
            snprintf(line + used, sizeof(line) - (size_t)used, "%zu processes", processes->count);
    if (heaps->count == 1)
        snprintf(line + used, sizeof(line) - (size_t)used, ", %.100s", heaps->keys[0].label);
    else
        snprintf(line + used, sizeof(line) - (size_t)used, ", %zu heaps", heaps->count);
    snprintf(right, sizeof(right), "%s %s ",
             screen_figure_text(screen, &all, &total, &total, figure),
             screen_figure_names[breakdown_figure(screen->breakdown)]);
    int width = (int)utf8_count(right);
    screen_put(screen, 0, 0, COLS - width - 1, SCREEN_BAR, line);
    screen_put(screen, 0, COLS - width - 1, 1, SCREEN_BAR, "");
    screen_put(screen, 0, COLS - width, width, SCREEN_BAR, right);
}

/* Draw the mode and the dimensions. */
static void draw_tabs(const struct screen *screen)
{
    const char *mode = screen_mode_names[breakdown_mode(screen->breakdown)];
    screen_put(screen, 1, 0, COLS, SCREEN_PLAIN, "");
    int x = 1 + screen_put(screen, 1, 1, COLS - 1, SCREEN_PLAIN, mode) + 2;
    int room = COLS - x, wanted = 0;
    for (int i = 0; i < SITES_DIMENSIONS; i++)
        if (sites_has_dimension(screen->sites, (enum sites_dimension)i))
            wanted += (int)strlen(screen_dimension_names[i]) + 3;
    for (int i = 0; i < SITES_DIMENSIONS; i++) {
        char tab[64];
        bool shown = screen->dimension == (enum sites_dimension)i;
        if (!sites_has_dimension(screen->sites, (enum sites_dimension)i) ||
            (wanted > room && !shown))
            continue;
        snprintf(tab, sizeof(tab), shown ? "[%s]" : " %s ", screen_dimension_names[i]);
        x += 1 + screen_put(screen, 1, x, COLS - x, shown ? SCREEN_STRONG : SCREEN_PLAIN, tab);
    }
}

/* --- the path --- */

static void name_step(const struct screen *screen, const struct breakdown_step *step,
                      char buffer[SCREEN_TEXT_BYTES])
{
    static const char *const kinds[SITES_DIMENSIONS] = {
        [SITES_FRAME] = "",          [SITES_TYPE] = "type ",     [SITES_THREAD] = "thread ",
        [SITES_CONTEXT] = "in ",     [SITES_MODULE] = "module ", [SITES_HEAP] = "heap ",
        [SITES_PROCESS] = "process "};
    char name[SCREEN_TEXT_BYTES];
    screen_name(screen, step->dimension, step->key, name);
    snprintf(buffer, SCREEN_TEXT_BYTES, "%s%.400s", kinds[step->dimension], name);
}

static struct screen_figure path_figure(const struct screen *screen)
{
    return (struct screen_figure){screen->column_count > 1 ? BREAKDOWN_ALL_COLUMNS : 0,
                                  screen->counts_first ? SCREEN_COUNT : SCREEN_SIZE, 0};
}

static void draw_path_line(const struct screen *screen, int y, int width, size_t step)
{
    char name[SCREEN_TEXT_BYTES] = "everything", figure[64];
    size_t count;
    const struct breakdown_step *steps = breakdown_path(screen->breakdown, &count);
    if (step > 0)
        name_step(screen, &steps[step - 1], name);
    struct screen_figure shown = path_figure(screen);
    struct breakdown_row total =
        step > 0 ? breakdown_total(screen->breakdown, step) : breakdown_whole(screen->breakdown);
    int room = width - PATH_FIGURE_WIDTH;
    screen_put(screen, y, 0, room, step == count ? SCREEN_STRONG : SCREEN_PLAIN, name);
    screen_put_right(screen, y, room, PATH_FIGURE_WIDTH, SCREEN_PLAIN,
                     screen_figure_text(screen, &shown, &total, &total, figure));
}

static void draw_path(const struct screen *screen, const struct layout *layout)
{
    size_t count;
    int lines = layout->rows_end - layout->rows_y;
    breakdown_path(screen->breakdown, &count);
    screen_put(screen, layout->head_y, 0, layout->path_width, SCREEN_STRONG, "Current path");
    size_t first = count + 1 > (size_t)lines ? count + 1 - (size_t)lines : 0;
    for (int i = 0; i < lines; i++) {
        int y = layout->rows_y + i;
        if (i == 0 && first > 0) {
            char more[64];
            snprintf(more, sizeof(more), "... %zu above", first + 1);
            screen_put(screen, y, 0, layout->path_width, SCREEN_FAINT, more);
        } else if (first + (size_t)i <= count) {
            draw_path_line(screen, y, layout->path_width, first + (size_t)i);
        } else {
            screen_put(screen, y, 0, layout->path_width, SCREEN_PLAIN, "");
        }
    }
    screen_rule(screen, layout->head_y, layout->path_width, layout->rows_end - layout->head_y);
}

/* Draw the path in one line, if there is no room beside the rows. Its beginning is cut. */
static void draw_path_in_line(const struct screen *screen)
{
    char line[2 * SCREEN_TEXT_BYTES], name[SCREEN_TEXT_BYTES];
    size_t count, from;
    const struct breakdown_step *steps = breakdown_path(screen->breakdown, &count);
    size_t length = 0;
    for (from = count; from > 0; from--) {
        name_step(screen, &steps[from - 1], name);
        length += strlen(name) + 3;
        if (length + 6 > (size_t)COLS && from < count)
            break;
    }
    int used = snprintf(line, sizeof(line), " %s", from > 0 ? "..." : "everything");
    for (size_t i = from; i < count && used < (int)sizeof(line); i++) {
        name_step(screen, &steps[i], name);
        used += snprintf(line + used, sizeof(line) - (size_t)used, " > %s", name);
    }
    screen_put(screen, 2, 0, COLS, SCREEN_STRONG, line);
}

/* --- the rows --- */

static void draw_head(const struct screen *screen, const struct layout *layout,
                      const struct screen_figure *figures, size_t count)
{
    int x = layout->rows_x;
    char text[96], head[64];
    for (size_t i = 0; i < count; i++) {
        screen_put_right(screen, layout->head_y, x, figures[i].width, SCREEN_STRONG,
                         screen_figure_head(screen, &figures[i], head));
        x += figures[i].width;
    }
    const char *sorts = screen->order.key != BREAKDOWN_BY_NAME ? ""
                        : screen->order.reverse                ? "^"
                                                               : "v";
    snprintf(text, sizeof(text), "  %s%s", sorts, screen_dimension_names[screen->dimension]);
    screen_put(screen, layout->head_y, x, COLS - x, SCREEN_STRONG, text);
}

static enum screen_style style_of(const struct screen *screen, const struct screen_figure *figure,
                                  const char *text, bool selected)
{
    if (selected)
        return SCREEN_BAR;
    if (figure->column != BREAKDOWN_ALL_COLUMNS || screen->order.aggregate != BREAKDOWN_DIFFERENCE)
        return SCREEN_PLAIN;
    return *text == '+'                             ? SCREEN_GREW
           : *text == *FORMAT_MINUS || *text == '-' ? SCREEN_SHRANK
                                                    : SCREEN_PLAIN;
}

static void draw_row(const struct screen *screen, const struct layout *layout, int y, size_t index,
                     const struct screen_figure *figures, size_t count,
                     const struct breakdown_row *total)
{
    const struct breakdown_row *row = &screen->rows.rows[index];
    char name[SCREEN_TEXT_BYTES], text[SCREEN_TEXT_BYTES + 8], figure[64];
    bool selected = index == screen->selected;
    int x = layout->rows_x;
    for (size_t i = 0; i < count; i++) {
        screen_figure_text(screen, &figures[i], row, total, figure);
        screen_put_right(screen, y, x, figures[i].width,
                         style_of(screen, &figures[i], figure, selected), figure);
        x += figures[i].width;
    }
    snprintf(text, sizeof(text), "  %s", screen_name(screen, screen->dimension, row->key, name));
    screen_put(screen, y, x, COLS - x, selected ? SCREEN_BAR : SCREEN_PLAIN, text);
}

static void draw_rows(struct screen *screen, const struct layout *layout)
{
    struct screen_figure figures[SCREEN_FIGURES];
    size_t steps, count = screen_figures(screen, layout->rows_width, figures);
    int lines = layout->rows_end - layout->rows_y;
    breakdown_path(screen->breakdown, &steps);
    struct breakdown_row total = breakdown_total(screen->breakdown, steps);
    screen->shown_lines = lines;
    if (screen->selected < screen->top)
        screen->top = screen->selected;
    if (screen->selected >= screen->top + (size_t)lines)
        screen->top = screen->selected - (size_t)lines + 1;
    if (screen->top + (size_t)lines > screen->rows.count)
        screen->top = screen->rows.count > (size_t)lines ? screen->rows.count - (size_t)lines : 0;
    draw_head(screen, layout, figures, count);
    for (int i = 0; i < lines; i++) {
        size_t index = screen->top + (size_t)i;
        int y = layout->rows_y + i;
        if (index < screen->rows.count)
            draw_row(screen, layout, y, index, figures, count, &total);
        else
            screen_put(screen, y, layout->rows_x, layout->rows_width, SCREEN_FAINT,
                       i == 0 ? "  Nothing is here." : "");
    }
}

/* --- detail --- */

static void draw_detail(const struct screen *screen)
{
    char line[2 * SCREEN_TEXT_BYTES] = "", where[64] = "";
    int used = 0;
    if (screen->selected < screen->rows.count) {
        uint32_t key = screen->rows.rows[screen->selected].key;
        const struct sites_key *of = &screen->sites->keys[screen->dimension].keys[key];
        used = snprintf(line, sizeof(line), " %.600s", of->label);
        if (screen->dimension == SITES_FRAME && of->profile != NULL) {
            const struct profile_frame *frame = &of->profile->frames[of->frame];
            if (frame->mapping != PROFILE_NONE)
                used += snprintf(line + used, sizeof(line) - (size_t)used, ", in %.150s",
                                 screen->sites->keys[SITES_MODULE].keys[of->module].label);
            if (*frame->source_file != '\0')
                snprintf(line + used, sizeof(line) - (size_t)used, ", %.200s", frame->source_file);
        }
        snprintf(where, sizeof(where), " %zu of %zu ", screen->selected + 1, screen->rows.count);
    }
    int width = (int)strlen(where);
    screen_put(screen, LINES - 2, 0, COLS - width, SCREEN_FAINT, line);
    screen_put(screen, LINES - 2, COLS - width, width, SCREEN_FAINT, where);
}

static void draw_keys(const struct screen *screen)
{
    static const char *const keys[] = {
        " Enter in  Backspace out  Left/Right by what  / search  v view  d dumps  ? help  q quit",
        " Enter in  Backspace out  Left/Right by what  / search  ? help  q quit",
        " Enter in  Backspace out  ? help  q quit",
        " ? help  q quit",
    };
    size_t i = 0;
    while (i < 3 && strlen(keys[i]) > (size_t)COLS)
        i++;
    screen_put(screen, LINES - 1, 0, COLS, SCREEN_PLAIN,
               *screen->message != '\0' ? screen->message : keys[i]);
}

static void draw_refusal(void)
{
    char line[96];
    snprintf(line, sizeof(line), "Too small: %dx%d is the least.", SCREEN_LEAST_COLUMNS,
             SCREEN_LEAST_LINES);
    mvaddnstr(0, 0, line, COLS);
    if (LINES > 1)
        mvaddnstr(1, 0, "q quits.", COLS);
}

void screen_draw(struct screen *screen)
{
    struct layout layout = lay_out();
    erase();
    if (LINES < SCREEN_LEAST_LINES || COLS < SCREEN_LEAST_COLUMNS) {
        draw_refusal();
    } else {
        draw_title(screen);
        draw_tabs(screen);
        if (layout.path_width > 0)
            draw_path(screen, &layout);
        else
            draw_path_in_line(screen);
        draw_rows(screen, &layout);
        draw_detail(screen);
        draw_keys(screen);
    }
    move(LINES - 1, COLS - 1);
    refresh();
}
