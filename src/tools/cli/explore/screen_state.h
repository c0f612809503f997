/* SPDX-License-Identifier: Apache-2.0 */
/* The state of the screen, and the functions that its files share. */
#ifndef HEAPPROFD_TOOLS_CLI_EXPLORE_SCREEN_STATE_H
#define HEAPPROFD_TOOLS_CLI_EXPLORE_SCREEN_STATE_H

#include <wchar.h>

#include "tools/cli/explore/screen.h"

#define SCREEN_LEAST_LINES 10
#define SCREEN_LEAST_COLUMNS 40
#define SCREEN_TEXT_BYTES 512

enum screen_style {
    SCREEN_PLAIN,
    SCREEN_BAR,    /* title and the selected row */
    SCREEN_STRONG, /* heads, and the current tab */
    SCREEN_FAINT,
    SCREEN_GREW,
    SCREEN_SHRANK,
};

/* A column of figures: one dump's, or an aggregate of all. */
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
    size_t selected, top; /* rows: the selected one, and the first shown */
    int shown_lines;      /* rows that fit */
    bool short_names, exact_figures, counts_first;
    bool utf8, colours;
    /* The search text, and the place of the last match. */
    char wanted[SCREEN_TEXT_BYTES];
    struct breakdown_finds finds; /* below the path where the search began */
    struct breakdown_step *find_path;
    size_t find_path_count, find_at;
    char message[SCREEN_TEXT_BYTES]; /* shown in the last line until the next key */
};

/* --- screen_model.c: actions of keys --- */

/* Load the columns' dumps. Keep the path up to the first step that they do not have. Return 0, or a
 * negative errno with *error set. */
int screen_load(struct screen *screen, const struct compare_source *columns, size_t count,
                struct error *error);
void screen_unload(struct screen *screen);
/* Make the rows again. Keep the cursor on its row if that still exists. */
void screen_refresh(struct screen *screen);
void screen_enter(struct screen *screen);
void screen_leave(struct screen *screen);
/* Go to the next (1) or previous (-1) dimension. */
void screen_turn(struct screen *screen, int direction);
void screen_set_mode(struct screen *screen, enum breakdown_mode mode);
/* Show the next figure that a file contains. */
void screen_next_figure(struct screen *screen);
void screen_next_sorting(struct screen *screen);
/* Search for screen.wanted in the rows and below. screen_search_on() goes to the next match (1) or
 * the previous one (-1). */
void screen_search(struct screen *screen);
void screen_search_on(struct screen *screen, int direction);
/* Narrow the path to one process or heap. */
void screen_choose(struct screen *screen, enum sites_dimension dimension, uint32_t key);
/* Choose the columns of figures that fit beside names in `width` cells. Return their number. */
size_t screen_figures(const struct screen *screen, int width,
                      struct screen_figure figures[SCREEN_FIGURES]);

/* --- screen_text.c: texts --- */

extern const char *const screen_mode_names[BREAKDOWN_MODES];
extern const char *const screen_figure_names[DIFF_FIGURES];
extern const char *const screen_dimension_names[SITES_DIMENSIONS];

/* Return a name as shown, cut to the buffer. */
const char *screen_name(const struct screen *screen, enum sites_dimension dimension, uint32_t key,
                        char buffer[SCREEN_TEXT_BYTES]);
/* Return "@2", or "#1" if there are several traces. */
const char *screen_column_name(const struct screen *screen, size_t column, char buffer[64]);
/* Return the traces and dumps shown. */
void screen_title(const struct screen *screen, char buffer[SCREEN_TEXT_BYTES]);
/* Return whether a file does not contain the figure. */
bool screen_is_unknown(const struct screen *screen, const struct screen_figure *figure);
const char *screen_figure_head(const struct screen *screen, const struct screen_figure *figure,
                               char buffer[64]);
const char *screen_figure_text(const struct screen *screen, const struct screen_figure *figure,
                               const struct breakdown_row *row, const struct breakdown_row *total,
                               char buffer[64]);
/* Write text at a place, cut or padded to `width` cells. Return the cells that it uses. */
int screen_put(const struct screen *screen, int y, int x, int width, enum screen_style style,
               const char *text);
/* Like screen_put(), but aligned to the right. */
void screen_put_right(const struct screen *screen, int y, int x, int width, enum screen_style style,
                      const char *text);
void screen_rule(const struct screen *screen, int y, int x, int height);

/* --- screen_draw.c --- */

void screen_draw(struct screen *screen);

/* --- screen_menu.c: lists, help and prompts that cover the screen --- */

/* Let the user type a line in the last line. Return false if the user cancels. */
bool screen_prompt(struct screen *screen, const char *title, char text[SCREEN_TEXT_BYTES]);
void screen_help(struct screen *screen);
void screen_choose_dumps(struct screen *screen);
void screen_choose_from(struct screen *screen, enum sites_dimension dimension);

/* --- screen_write.c --- */

/* Write the rows as text to a new file. Return 0 or a negative errno. */
int screen_write(const struct screen *screen, const char *path);

/* --- screen_terminal.c --- */

/* Return 0 if the terminal is usable, or a negative errno with a remedy in *error. */
int screen_check_terminal(FILE *out, struct error *error);

/* --- screen.c --- */

#define SCREEN_KEY_END (-2) /* a signal came, or the terminal is gone */
/* Wait for the next key. Return a character, or KEY_... with *is_function set. */
int screen_key(struct screen *screen, bool *is_function);

#endif
