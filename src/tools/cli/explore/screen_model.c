/* SPDX-License-Identifier: Apache-2.0 */
/* Applies keys to the state of the screen: figures, dumps, rows, the path and the search. */
#include <ctype.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cli/explore/screen_state.h"
#include "util/xmalloc.h"

__attribute__((format(printf, 2, 3))) static void say(struct screen *screen, const char *format,
                                                      ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(screen->message, sizeof(screen->message), format, arguments);
    va_end(arguments);
}

/* --- the figure --- */

static bool screen_model_is_known(const struct screen *screen, enum diff_figure figure)
{
    for (size_t i = 0; i < screen->column_count; i++)
        if (!screen->sites->unknown[i].bytes[figure])
            return true;
    return false;
}

/* Return `figure`, or the next figure that a file contains. */
static enum diff_figure first_known(const struct screen *screen, enum diff_figure figure)
{
    for (int i = 0; i < DIFF_FIGURES; i++) {
        enum diff_figure other = (enum diff_figure)(((int)figure + i) % DIFF_FIGURES);
        if (screen_model_is_known(screen, other))
            return other;
    }
    return figure;
}

static void show_known(struct screen *screen, enum diff_figure wanted)
{
    enum diff_figure known = first_known(screen, wanted);
    breakdown_set_figure(screen->breakdown, known);
    if (known != wanted)
        say(screen, "'%s' is not in the file; '%s' is shown instead.", screen_figure_names[wanted],
            screen_figure_names[known]);
}

void screen_next_figure(struct screen *screen)
{
    enum diff_figure now = breakdown_figure(screen->breakdown);
    show_known(screen, (enum diff_figure)(((int)now + 1) % DIFF_FIGURES));
    screen_refresh(screen);
}

/* --- the dumps --- */

/* A step by its label: keys differ between dumps. */
struct kept_step {
    enum sites_dimension dimension;
    char label[SCREEN_TEXT_BYTES];
};

static struct kept_step *keep_path(const struct screen *screen, size_t *count)
{
    *count = 0;
    if (screen->breakdown == NULL)
        return NULL;
    const struct breakdown_step *steps = breakdown_path(screen->breakdown, count);
    struct kept_step *kept = xcalloc(*count + 1, sizeof(*kept));
    for (size_t i = 0; i < *count; i++) {
        kept[i].dimension = steps[i].dimension;
        snprintf(kept[i].label, sizeof(kept[i].label), "%s",
                 screen->sites->keys[steps[i].dimension].keys[steps[i].key].label);
    }
    return kept;
}

static void return_to_path(struct screen *screen, const struct kept_step *kept, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct sites_keys *keys = &screen->sites->keys[kept[i].dimension];
        size_t key = 0;
        while (key < keys->count &&
               strncmp(keys->keys[key].label, kept[i].label, sizeof(kept[i].label) - 1) != 0)
            key++;
        struct breakdown_step step = {kept[i].dimension, (uint32_t)key};
        if (key == keys->count || breakdown_enter(screen->breakdown, step) < 0)
            return;
    }
}

static enum sites_dimension first_dimension(const struct sites *sites)
{
    return sites->keys[SITES_PROCESS].count > 1 ? SITES_PROCESS
           : sites->keys[SITES_HEAP].count > 1  ? SITES_HEAP
                                                : SITES_FRAME;
}

/* Return the shown figure of the whole profile. */
static double bytes_of_all(const struct screen *screen)
{
    struct breakdown_row total = breakdown_total(screen->breakdown, 0);
    double bytes = 0;
    for (size_t i = 0; i < screen->column_count; i++)
        bytes += total.values[i].bytes;
    return bytes;
}

/* If everything has been freed, show the peak. */
static void show_something(struct screen *screen)
{
    if (screen->request->figure_chosen || bytes_of_all(screen) >= 0.5 ||
        !screen_model_is_known(screen, DIFF_PEAK))
        return;
    enum diff_figure before = breakdown_figure(screen->breakdown);
    breakdown_set_figure(screen->breakdown, DIFF_PEAK);
    if (bytes_of_all(screen) >= 0.5)
        say(screen, "Nothing is %s; '%s' is shown instead.", screen_figure_names[before],
            screen_figure_names[DIFF_PEAK]);
    else
        breakdown_set_figure(screen->breakdown, before);
}

/* Enter the largest row of a dimension. Return false if there are fewer than two. */
static bool enter_largest(struct screen *screen, enum sites_dimension dimension)
{
    const struct breakdown_order by_size = {0};
    struct breakdown_rows rows = {0};
    bool entered = false;
    breakdown_rows(screen->breakdown, dimension, &rows);
    if (rows.count > 1) {
        breakdown_sort(screen->breakdown, dimension, &by_size, &rows);
        struct breakdown_step step = {dimension, rows.rows[0].key};
        entered = breakdown_enter(screen->breakdown, step) == 0;
    }
    breakdown_rows_free(&rows);
    return entered;
}

/* Open on the largest heap of the largest process, if there is one dump. */
static void open_largest(struct screen *screen)
{
    screen->dimension = SITES_FRAME;
    bool of_many = enter_largest(screen, SITES_PROCESS);
    bool of_its = enter_largest(screen, SITES_HEAP);
    if ((of_many || of_its) && screen->message[0] == '\0')
        say(screen, "This is the largest %s; Backspace shows the others.",
            of_its ? "heap" : "process");
}

static void forget_finds(struct screen *screen)
{
    breakdown_finds_free(&screen->finds);
    free(screen->find_path);
    screen->find_path = NULL;
    screen->find_path_count = screen->find_at = 0;
}

static int choose_all(struct screen *screen, const struct compare_source *columns, size_t count,
                      struct compare_source *chosen, struct error *error)
{
    for (size_t i = 0; i < count; i++) {
        chosen[i] = columns[i];
        chosen[i].dumps = NULL;
        chosen[i].dump_count = 0;
        int code = compare_source_choose(&chosen[i], &screen->request->choice, error);
        if (code < 0)
            return code;
    }
    return 0;
}

static void drop_columns(struct compare_source *columns, size_t count)
{
    for (size_t i = 0; i < count; i++)
        free(columns[i].dumps);
}

int screen_load(struct screen *screen, const struct compare_source *columns, size_t count,
                struct error *error)
{
    struct compare_source chosen[SITES_COLUMNS] = {0};
    struct diff_side sides[SITES_COLUMNS];
    struct sites *sites = NULL;
    int code = choose_all(screen, columns, count, chosen, error);
    for (size_t i = 0; i < count; i++)
        sides[i] = (struct diff_side){chosen[i].profile, chosen[i].dumps, chosen[i].dump_count};
    if (code == 0 && (sites = sites_new(sides, count)) == NULL)
        code = error_set(error, -E2BIG,
                         "too many stacks, or too deep ones: more than %u frames; heap_profile "
                         "report reads them",
                         SITES_FRAMES_MAX);
    if (code < 0) {
        drop_columns(chosen, count);
        return code;
    }
    bool first = screen->breakdown == NULL;
    size_t kept_count;
    struct kept_step *kept = keep_path(screen, &kept_count);
    enum breakdown_mode mode = first ? screen->request->mode : breakdown_mode(screen->breakdown);
    enum diff_figure figure = first ? screen->request->figure : breakdown_figure(screen->breakdown);
    screen_unload(screen);
    memcpy(screen->columns, chosen, sizeof(chosen));
    screen->column_count = count;
    screen->sites = sites;
    screen->breakdown = breakdown_new(sites);
    screen->order.column = count > 1 ? BREAKDOWN_ALL_COLUMNS : 0;
    show_known(screen, figure);
    breakdown_set_mode(screen->breakdown, mode);
    return_to_path(screen, kept, kept_count);
    free(kept);
    if (first)
        show_something(screen);
    if (first && count == 1)
        open_largest(screen);
    else if (first || !sites_has_dimension(sites, screen->dimension))
        screen->dimension = first_dimension(sites);
    screen->selected = screen->top = 0;
    screen_refresh(screen);
    return 0;
}

void screen_unload(struct screen *screen)
{
    forget_finds(screen);
    breakdown_rows_free(&screen->rows);
    breakdown_free(screen->breakdown);
    sites_free(screen->sites);
    drop_columns(screen->columns, screen->column_count);
    screen->breakdown = NULL;
    screen->sites = NULL;
    screen->column_count = 0;
}

/* --- rows --- */

static void select_row(struct screen *screen, uint32_t key)
{
    for (size_t i = 0; i < screen->rows.count; i++) {
        if (screen->rows.rows[i].key == key) {
            screen->selected = i;
            return;
        }
    }
}

static void make_rows(struct screen *screen)
{
    breakdown_rows(screen->breakdown, screen->dimension, &screen->rows);
    breakdown_sort(screen->breakdown, screen->dimension, &screen->order, &screen->rows);
}

void screen_refresh(struct screen *screen)
{
    uint32_t key = screen->selected < screen->rows.count ? screen->rows.rows[screen->selected].key
                                                         : PROFILE_NONE;
    make_rows(screen);
    if (screen->selected >= screen->rows.count)
        screen->selected = screen->rows.count > 0 ? screen->rows.count - 1 : 0;
    select_row(screen, key);
}

/* Make the rows of another path or dimension. */
static void show_rows(struct screen *screen)
{
    screen->selected = screen->top = 0;
    make_rows(screen);
}

/* --- the path --- */

void screen_enter(struct screen *screen)
{
    if (screen->selected >= screen->rows.count)
        return;
    struct breakdown_step step = {screen->dimension, screen->rows.rows[screen->selected].key};
    if (breakdown_enter(screen->breakdown, step) < 0) {
        say(screen, "The path has that already: use Backspace, or the left and right keys.");
        return;
    }
    if (screen->dimension != SITES_FRAME)
        screen->dimension = SITES_FRAME;
    show_rows(screen);
}

void screen_leave(struct screen *screen)
{
    size_t count;
    const struct breakdown_step *steps = breakdown_path(screen->breakdown, &count);
    if (count == 0) {
        say(screen, "That is the whole profile.");
        return;
    }
    struct breakdown_step last = steps[count - 1];
    breakdown_leave(screen->breakdown);
    screen->dimension = last.dimension;
    show_rows(screen);
    select_row(screen, last.key);
}

void screen_turn(struct screen *screen, int direction)
{
    do {
        int next = (int)screen->dimension + direction + SITES_DIMENSIONS;
        screen->dimension = (enum sites_dimension)(next % SITES_DIMENSIONS);
    } while (!sites_has_dimension(screen->sites, screen->dimension));
    show_rows(screen);
}

void screen_set_mode(struct screen *screen, enum breakdown_mode mode)
{
    breakdown_set_mode(screen->breakdown, mode);
    forget_finds(screen);
    show_rows(screen);
}

void screen_choose(struct screen *screen, enum sites_dimension dimension, uint32_t key)
{
    size_t count, used = 0;
    const struct breakdown_step *steps = breakdown_path(screen->breakdown, &count);
    struct breakdown_step *path = xreallocarray(NULL, count + 1, sizeof(*path));
    if (key != PROFILE_NONE)
        path[used++] = (struct breakdown_step){dimension, key};
    size_t own = used;
    for (size_t i = 0; i < count; i++)
        if (steps[i].dimension != dimension)
            path[used++] = steps[i];
    breakdown_go(screen->breakdown, path, used);
    /* Another process may lack the path's functions. */
    breakdown_rows(screen->breakdown, SITES_TYPE, &screen->rows);
    if (screen->rows.count == 0)
        breakdown_go(screen->breakdown, path, own);
    free(path);
    if (screen->dimension == dimension && key != PROFILE_NONE)
        screen->dimension = SITES_FRAME;
    show_rows(screen);
}

/* --- columns and sorting --- */

static int figure_width(const struct screen *screen, const struct screen_figure *figure)
{
    if (figure->kind == SCREEN_SHARE)
        return 7;
    return screen->exact_figures ? 16 : 10;
}

#define NAME_WIDTH_LEAST 14

static void add_figure(const struct screen *screen, size_t column, int kind, int *room,
                       struct screen_figure *figures, size_t *count)
{
    struct screen_figure figure = {.column = column, .kind = kind};
    figure.width = figure_width(screen, &figure);
    if (*count > 0 && figure.width > *room)
        return;
    *room -= figure.width;
    figures[(*count)++] = figure;
}

static int compare_figures(const void *left_pointer, const void *right_pointer)
{
    const struct screen_figure *left = left_pointer, *right = right_pointer;
    if (left->kind != right->kind)
        return left->kind < right->kind ? -1 : 1;
    return left->column < right->column ? -1 : left->column > right->column;
}

size_t screen_figures(const struct screen *screen, int width,
                      struct screen_figure figures[SCREEN_FIGURES])
{
    const int kinds[2] = {screen->counts_first ? SCREEN_COUNT : SCREEN_SIZE,
                          screen->counts_first ? SCREEN_SIZE : SCREEN_COUNT};
    size_t count = 0, columns = screen->column_count;
    int room = width - NAME_WIDTH_LEAST;
    for (int i = 0; i < 2; i++) {
        if (columns > 1)
            add_figure(screen, BREAKDOWN_ALL_COLUMNS, kinds[i], &room, figures, &count);
        /* The last and the first, from which the difference is computed; then the others. */
        add_figure(screen, columns - 1, kinds[i], &room, figures, &count);
        for (size_t j = 0; j + 1 < columns; j++)
            add_figure(screen, j, kinds[i], &room, figures, &count);
    }
    if (columns == 1)
        add_figure(screen, 0, SCREEN_SHARE, &room, figures, &count);
    qsort(figures, count, sizeof(*figures), compare_figures);
    return count;
}

/* Cycle through the columns of figures, and the names. */
void screen_next_sorting(struct screen *screen)
{
    struct screen_figure figures[SCREEN_FIGURES];
    struct breakdown_order *order = &screen->order;
    size_t count = screen_figures(screen, 1000, figures), at = count;
    for (size_t i = 0; i < count; i++) {
        enum breakdown_sort_key key =
            figures[i].kind == SCREEN_COUNT ? BREAKDOWN_BY_COUNT : BREAKDOWN_BY_SIZE;
        if (order->key == key && order->column == figures[i].column &&
            figures[i].kind != SCREEN_SHARE)
            at = i;
    }
    at = order->key == BREAKDOWN_BY_NAME ? 0 : at + 1;
    while (at < count && figures[at].kind == SCREEN_SHARE)
        at++;
    order->key = at >= count                        ? BREAKDOWN_BY_NAME
                 : figures[at].kind == SCREEN_COUNT ? BREAKDOWN_BY_COUNT
                                                    : BREAKDOWN_BY_SIZE;
    if (at < count)
        order->column = figures[at].column;
    screen_refresh(screen);
}

/* --- search --- */

struct pattern {
    const char *text;
    bool any_case;
};

static bool row_matches(void *context, const struct sites_key *key)
{
    const struct pattern *pattern = context;
    return (pattern->any_case ? strcasestr(key->label, pattern->text)
                              : strstr(key->label, pattern->text)) != NULL;
}

static struct pattern pattern_of(const struct screen *screen)
{
    struct pattern pattern = {screen->wanted, true};
    for (const char *at = screen->wanted; *at != '\0'; at++)
        if (isupper((unsigned char)*at))
            pattern.any_case = false;
    return pattern;
}

/* Move to the next matching row after the selected one. Return false if there is none. */
static bool search_rows(struct screen *screen, int direction)
{
    struct pattern pattern = pattern_of(screen);
    const struct sites_key *keys = screen->sites->keys[screen->dimension].keys;
    for (size_t i = screen->selected + (size_t)direction; i < screen->rows.count;
         i += (size_t)direction) {
        if (row_matches(&pattern, &keys[screen->rows.rows[i].key])) {
            screen->selected = i;
            return true;
        }
    }
    return false;
}

/* Go to a match below the path: show its caller's rows and select it. */
static void go_to_find(struct screen *screen, size_t at)
{
    const struct breakdown_find *find = &screen->finds.finds[at];
    size_t count = screen->find_path_count;
    struct breakdown_step *path = xcalloc(count + find->length, sizeof(*path));
    if (count > 0)
        memcpy(path, screen->find_path, count * sizeof(*path));
    for (size_t i = 0; i + 1 < find->length; i++)
        path[count + i] = (struct breakdown_step){SITES_FRAME, find->frames[i]};
    breakdown_go(screen->breakdown, path, count + find->length - 1);
    free(path);
    screen->find_at = at + 1;
    screen->dimension = SITES_FRAME;
    show_rows(screen);
    select_row(screen, find->frames[find->length - 1]);
    say(screen, "%zu of %zu below; n: the next, N: the one before", at + 1, screen->finds.count);
}

static void search_below(struct screen *screen)
{
    struct pattern pattern = pattern_of(screen);
    size_t count;
    const struct breakdown_step *steps = breakdown_path(screen->breakdown, &count);
    forget_finds(screen);
    screen->find_path = xcalloc(count + 1, sizeof(*screen->find_path));
    breakdown_search(screen->breakdown, row_matches, &pattern, &screen->finds);
    if (count > 0)
        memcpy(screen->find_path, steps, count * sizeof(*steps));
    screen->find_path_count = count;
}

void screen_search(struct screen *screen)
{
    if (*screen->wanted == '\0')
        return;
    struct pattern pattern = pattern_of(screen);
    const struct sites_key *keys = screen->sites->keys[screen->dimension].keys;
    search_below(screen);
    for (size_t i = 0; i < screen->rows.count; i++) {
        if (row_matches(&pattern, &keys[screen->rows.rows[i].key])) {
            screen->selected = i;
            return;
        }
    }
    if (screen->finds.count > 0)
        go_to_find(screen, 0);
    else
        say(screen, "Nothing here or below has \"%.200s\" in its name.", screen->wanted);
}

/* Search in the rows where the search began, then below them, then in the rows again. */
void screen_search_on(struct screen *screen, int direction)
{
    if (*screen->wanted == '\0') {
        say(screen, "No search yet: press /");
        return;
    }
    if (screen->find_at == 0 && search_rows(screen, direction))
        return;
    size_t next = screen->find_at + (size_t)direction; /* from 1 on */
    if (screen->find_path == NULL)
        search_below(screen), next = 1;
    if (next >= 1 && next <= screen->finds.count) {
        go_to_find(screen, next - 1);
        return;
    }
    if (screen->find_at > 0) {
        breakdown_go(screen->breakdown, screen->find_path, screen->find_path_count);
        screen->find_at = 0;
        show_rows(screen);
    }
    screen_search(screen);
}
