/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the screen share. */
#ifndef HEAPPROFD_CLI_EXPLORE_SCREEN_STATE_H
#define HEAPPROFD_CLI_EXPLORE_SCREEN_STATE_H

#include <wchar.h>

#include "cli/explore/screen.h"

#define SCREEN_LEAST_LINES 10
#define SCREEN_LEAST_COLUMNS 40
#define SCREEN_TEXT_BYTES 512

enum screen_style {
    SCREEN_PLAIN,
    SCREEN_BAR,    /* title and the row under the cursor */
    SCREEN_STRONG, /* heads, and the tab that is shown */
    SCREEN_FAINT,
    SCREEN_GREW,
    SCREEN_SHRANK,
};

/* A column of figures: of a dump, or of them all. */
struct screen_figure {
    size_t column; /* BREAKDOWN_ALL_COLUMNS: the aggregate */
    enum { SCREEN_SIZE, SCREEN_COUNT, SCREEN_SHARE } kind;
    int width;
};
#define SCREEN_FIGURES (2 * (SITES_COLUMNS + 1) + 1)

struct screen {
    const struct screen_request *request;
    struct compare_source columns[SITES_COLUMNS];
    size_t column_count;
    struct sites *sites;
    struct breakdown *breakdown;
    enum sites_dimension dimension;
    struct breakdown_rows rows;
    struct breakdown_order order;
    size_t selected, top; /* rows: the one under the cursor, and the first that is shown */
    int shown_lines;      /* rows that have room */
    bool short_names, exact_figures, counts_first;
    bool utf8, colours;
    /* What was looked for, and where it was found last. */
    char wanted[SCREEN_TEXT_BYTES];
    struct breakdown_finds finds; /* below the path that it was looked for at */
    struct breakdown_step *find_path;
    size_t find_path_count, find_at;
    char message[SCREEN_TEXT_BYTES]; /* for the last line, until the next key */
};

/* --- screen_model.c: what keys do --- */

/* Reads the columns' dumps anew. The same path, as far as it is there. 0 or a negative errno with
 * a message. */
int screen_load(struct screen *screen, const struct compare_source *columns, size_t count,
                struct error *error);
void screen_unload(struct screen *screen);
/* Makes the rows of the path anew; the cursor stays on the same one if it is there. */
void screen_refresh(struct screen *screen);
void screen_select(struct screen *screen, uint32_t key);
void screen_enter(struct screen *screen);
void screen_leave(struct screen *screen);
/* To the next (1) or previous (-1) dimension. */
void screen_turn(struct screen *screen, int direction);
void screen_set_mode(struct screen *screen, enum breakdown_mode mode);
/* To the next figure that a file tells. */
void screen_next_figure(struct screen *screen);
void screen_next_sorting(struct screen *screen);
/* Looks for screen.wanted in the rows, and below; then for the next place (1) or the one before
 * (-1). */
void screen_search(struct screen *screen);
void screen_search_on(struct screen *screen, int direction);
/* The path becomes that of one process or heap. */
void screen_choose(struct screen *screen, enum sites_dimension dimension, uint32_t key);
/* The figures that stand beside names where there is room for `width` cells; how many. */
size_t screen_figures(const struct screen *screen, int width,
                      struct screen_figure figures[SCREEN_FIGURES]);

/* --- screen_text.c: words --- */

extern const char *const screen_mode_words[BREAKDOWN_MODES];
extern const char *const screen_figure_words[DIFF_FIGURES];
extern const char *const screen_dimension_words[SITES_DIMENSIONS];

/* A name as it is to be shown, cut to the buffer. */
const char *screen_name(const struct screen *screen, enum sites_dimension dimension, uint32_t key,
                        char buffer[SCREEN_TEXT_BYTES]);
/* "@2", or "#1" where there are several traces. */
const char *screen_column_name(const struct screen *screen, size_t column, char buffer[64]);
/* What is shown: traces and dumps. */
void screen_title(const struct screen *screen, char buffer[SCREEN_TEXT_BYTES]);
/* Whether a file does not tell it. */
bool screen_is_unknown(const struct screen *screen, const struct screen_figure *figure);
const char *screen_figure_head(const struct screen *screen, const struct screen_figure *figure,
                               char buffer[64]);
const char *screen_figure_text(const struct screen *screen, const struct screen_figure *figure,
                               const struct breakdown_row *row, const struct breakdown_row *total,
                               char buffer[64]);
/* Writes text at a place, cut to width cells and filled up with blanks; cells used by it. */
int screen_put(const struct screen *screen, int y, int x, int width, enum screen_style style,
               const char *text);
/* The same against the right end. */
void screen_put_right(const struct screen *screen, int y, int x, int width, enum screen_style style,
                      const char *text);
void screen_rule(const struct screen *screen, int y, int x, int height);

/* --- screen_draw.c --- */

void screen_draw(struct screen *screen);

/* --- screen_menu.c: what covers the screen for a while --- */

struct screen_item {
    char text[SCREEN_TEXT_BYTES];
    bool marked;
};
/* Lets one of the items be chosen, or several if `marks`; the index of the one under the cursor, or
 * -1 if none was wanted. */
int screen_menu(struct screen *screen, const char *title, struct screen_item *items, size_t count,
                size_t at, bool marks);
/* Lets a line be typed in the last line; false: given up. */
bool screen_prompt(struct screen *screen, const char *title, char text[SCREEN_TEXT_BYTES]);
void screen_help(struct screen *screen);
void screen_choose_dumps(struct screen *screen);
void screen_choose_from(struct screen *screen, enum sites_dimension dimension);

/* --- screen_write.c --- */

/* The rows as text, to a new file. 0 or a negative errno. */
int screen_write(const struct screen *screen, const char *path);

/* --- screen_terminal.c --- */

/* 0, or a negative errno with a message that helps. */
int screen_check_terminal(FILE *out, struct error *error);

/* --- screen.c --- */

#define SCREEN_KEY_END (-2) /* a signal came, or the terminal is gone */
/* The next key: a character, or KEY_... with *is_function. */
int screen_key(struct screen *screen, bool *is_function);

#endif
