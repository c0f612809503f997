/* SPDX-License-Identifier: Apache-2.0 */
/* Lists to choose from, the help, and a line to type in, which cover the screen temporarily. */
#define NCURSES_WIDECHAR 1
#include <curses.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cli/explore/screen_state.h"
#include "tools/print/format.h"
#include "util/utf8.h"
#include "util/xmalloc.h"

#define KEY_ESCAPE 27
#define KEY_DELETE 127
#define KEY_CLEAR_LINE 21 /* Ctrl-U */

/* --- lists --- */

struct item {
    char text[SCREEN_TEXT_BYTES];
    bool marked;
};

static void draw_menu(const struct screen *screen, const char *title, const struct item *items,
                      size_t count, size_t at, bool marks)
{
    int lines = LINES - 3;
    size_t first = at >= (size_t)(lines > 0 ? lines : 1) ? at - (size_t)lines + 1 : 0;
    erase();
    screen_put(screen, 0, 0, COLS, SCREEN_BAR, title);
    for (int i = 0; i < lines && first + (size_t)i < count; i++) {
        const struct item *item = &items[first + (size_t)i];
        char line[SCREEN_TEXT_BYTES + 8];
        snprintf(line, sizeof(line), " %s%s",
                 !marks         ? ""
                 : item->marked ? "[x] "
                                : "[ ] ",
                 item->text);
        screen_put(screen, 1 + i, 0, COLS, first + (size_t)i == at ? SCREEN_BAR : SCREEN_PLAIN,
                   line);
    }
    screen_put(screen, LINES - 1, 0, COLS, SCREEN_PLAIN,
               marks ? " Space marks  Enter takes  q back" : " Enter takes  q back");
    move(LINES - 1, COLS - 1);
    refresh();
}

/* Return the new place of the cursor; the same place if the key does not move it. */
static size_t move_in_list(int key, bool is_function, size_t at, size_t count)
{
    size_t page = LINES > 4 ? (size_t)LINES - 3 : 1;
    if ((is_function && key == KEY_UP) || (!is_function && key == 'k'))
        return at > 0 ? at - 1 : 0;
    if ((is_function && key == KEY_DOWN) || (!is_function && key == 'j'))
        return at + 1 < count ? at + 1 : at;
    if (is_function && key == KEY_PPAGE)
        return at > page ? at - page : 0;
    if (is_function && key == KEY_NPAGE)
        return at + page < count ? at + page : count - 1;
    if (is_function && key == KEY_HOME)
        return 0;
    if (is_function && key == KEY_END)
        return count - 1;
    return at;
}

static bool is_enter(int key, bool is_function)
{
    return is_function ? key == KEY_ENTER : key == '\n' || key == '\r';
}

/* Let the user choose an item, or several if `marks`. Return the index of the selected one, or -1
 * if the user cancels. */
static int choose(struct screen *screen, const char *title, struct item *items, size_t count,
                  size_t at, bool marks)
{
    for (;;) {
        bool is_function;
        draw_menu(screen, title, items, count, at, marks);
        int key = screen_key(screen, &is_function);
        if (key == SCREEN_KEY_END || (!is_function && (key == 'q' || key == KEY_ESCAPE)))
            return -1;
        if (is_enter(key, is_function))
            return (int)at;
        if (marks && !is_function && key == ' ')
            items[at].marked = !items[at].marked;
        at = move_in_list(key, is_function, at, count);
    }
}

void screen_choose_from(struct screen *screen, enum sites_dimension dimension)
{
    const struct sites_keys *keys = &screen->sites->keys[dimension];
    struct item *items = xcalloc(keys->count + 1, sizeof(*items));
    size_t steps, at = 0;
    const struct breakdown_step *path = breakdown_path(screen->breakdown, &steps);
    snprintf(items[0].text, sizeof(items[0].text), "all");
    for (size_t i = 0; i < keys->count; i++) {
        screen_name(screen, dimension, (uint32_t)i, items[i + 1].text);
        for (size_t j = 0; j < steps; j++)
            if (path[j].dimension == dimension && path[j].key == i)
                at = i + 1;
    }
    char title[64];
    snprintf(title, sizeof(title), " %s", screen_dimension_names[dimension]);
    int chosen = choose(screen, title, items, keys->count + 1, at, false);
    if (chosen >= 0)
        screen_choose(screen, dimension, chosen == 0 ? PROFILE_NONE : (uint32_t)chosen - 1);
    free(items);
}

/* --- dumps --- */

struct moment {
    const struct compare_source *trace;
    enum compare_dump which;
    uint64_t number;
};

static size_t most_dumps(const struct profile *profile)
{
    size_t most = 0;
    for (size_t i = 0; i < profile->heap_count; i++)
        if (profile->heaps[i].dump_count > most)
            most = profile->heaps[i].dump_count;
    return most;
}

/* Describe a dump of all heaps: its live bytes, and the time from the start of its heap to the
 * latest. */
static void describe_moment(const struct moment *moment, bool name_trace,
                            char text[SCREEN_TEXT_BYTES])
{
    const struct profile *profile = moment->trace->profile;
    double live = 0, seconds = 0;
    for (size_t i = 0; i < profile->heap_count; i++) {
        const struct profile_heap *heap = &profile->heaps[i];
        size_t number = moment->which == COMPARE_LAST ? heap->dump_count : moment->number;
        if (number == 0 || number > heap->dump_count)
            continue;
        const struct profile_dump *dump = &heap->dumps[number - 1];
        live += rollup_live_bytes(&dump->total);
        double at = ((double)dump->boottime_ns - (double)heap->start_boottime_ns) / 1e9;
        if (at > seconds)
            seconds = at;
    }
    char name[32];
    snprintf(name, sizeof(name), moment->which == COMPARE_LAST ? "last" : "%llu",
             (unsigned long long)moment->number);
    snprintf(text, SCREEN_TEXT_BYTES, "%-6s %9.3f s  %10s live%s%.200s", name, seconds,
             format_bytes(live).bytes, name_trace ? "  " : "",
             name_trace ? moment->trace->path : "");
}

static void take_moments(struct screen *screen, const struct moment *moments,
                         const struct item *items, size_t count, size_t at)
{
    struct compare_source columns[SITES_COLUMNS] = {0};
    struct error error = {0};
    size_t used = 0, marked = 0;
    for (size_t i = 0; i < count; i++)
        marked += items[i].marked;
    for (size_t i = 0; i < count && used < SITES_COLUMNS; i++) {
        if (marked > 0 ? !items[i].marked : i != at)
            continue;
        columns[used] = *moments[i].trace;
        columns[used].which = moments[i].which;
        columns[used++].number = moments[i].number;
    }
    if (screen_load(screen, columns, used, &error) < 0)
        snprintf(screen->message, sizeof(screen->message), "%s", error.message);
    else if (marked > SITES_COLUMNS)
        snprintf(screen->message, sizeof(screen->message), "The first %d of %zu.", SITES_COLUMNS,
                 marked);
}

static bool is_shown(const struct screen *screen, const struct moment *moment)
{
    for (size_t i = 0; i < screen->column_count; i++) {
        const struct compare_source *column = &screen->columns[i];
        if (column->profile == moment->trace->profile && column->which == moment->which &&
            (moment->which != COMPARE_NUMBER || column->number == moment->number))
            return true;
    }
    return false;
}

void screen_choose_dumps(struct screen *screen)
{
    const struct screen_request *request = screen->request;
    size_t count = 0, at = 0, used = 0;
    for (size_t i = 0; i < request->trace_count; i++)
        count += most_dumps(request->traces[i].profile);
    struct moment *moments = xcalloc(count + 1, sizeof(*moments));
    struct item *items = xcalloc(count + 1, sizeof(*items));
    for (size_t i = 0; i < request->trace_count; i++) {
        size_t dumps = most_dumps(request->traces[i].profile);
        for (size_t j = 1; j <= dumps; j++, used++) {
            /* The last dump is the last of every heap, even of those with fewer dumps. */
            moments[used] =
                (struct moment){&request->traces[i], j == dumps ? COMPARE_LAST : COMPARE_NUMBER, j};
            describe_moment(&moments[used], request->trace_count > 1, items[used].text);
            items[used].marked = is_shown(screen, &moments[used]);
            if (items[used].marked)
                at = used;
        }
    }
    /* A dump that is shown alone was not chosen yet. */
    if (screen->column_count == 1)
        for (size_t i = 0; i < used; i++)
            items[i].marked = false;
    int chosen = used == 0 ? -1 : choose(screen, " Dumps", items, used, at, true);
    if (chosen >= 0)
        take_moments(screen, moments, items, used, (size_t)chosen);
    free(moments);
    free(items);
}

/* --- help --- */

void screen_help(struct screen *screen)
{
    static const char *const lines[] = {
        "Enter           into the row, to its parts",
        "Backspace       back",
        "Left, Right     rows by stack frame, object type, thread, ...",
        "Up, Down, PgUp, PgDn, Home, End (or j, k, ^F, ^B, g, G)",
        "v               top-down tree, top-down heavy, bottom-up",
        "f               live, ever allocated, at the peak",
        "s, r            sort by the next column; the other way round",
        "/, n, N         search here and below; the next; the previous",
        "d               one dump, or several side by side",
        "x               several dumps: difference, or maximum",
        "p, h            one process, one heap",
        "c, e            counts before sizes; figures in full",
        "m               names short, or in full",
        "w               write the rows to a file, as text",
        "q               end",
        "",
        "The tree starts at the outermost frame, and its rows add up.",
        "The heavy view counts a frame anywhere on a stack, and each stack once.",
        "Bottom-up starts with the functions that allocate; inside a function are its callers.",
        "<self> is the memory that a function allocated itself.",
    };
    size_t count = sizeof(lines) / sizeof(lines[0]);
    struct item *items = xcalloc(count, sizeof(*items));
    for (size_t i = 0; i < count; i++)
        snprintf(items[i].text, sizeof(items[i].text), "%s", lines[i]);
    choose(screen, " Keys; q goes back", items, count, 0, false);
    free(items);
}

/* --- line input --- */

static void remove_character(char *text)
{
    size_t length = strlen(text);
    while (length > 0 && utf8_continues(text[length - 1]))
        length--;
    text[length > 0 ? length - 1 : 0] = '\0';
}

static void add_character(char text[SCREEN_TEXT_BYTES], int key)
{
    char bytes[MB_LEN_MAX];
    mbstate_t state = {0};
    size_t length = wcrtomb(bytes, (wchar_t)key, &state), used = strlen(text);
    if (key < ' ' || length == (size_t)-1 || used + length >= SCREEN_TEXT_BYTES)
        return;
    memcpy(text + used, bytes, length);
    text[used + length] = '\0';
}

bool screen_prompt(struct screen *screen, const char *title, char text[SCREEN_TEXT_BYTES])
{
    for (;;) {
        bool is_function;
        char line[SCREEN_TEXT_BYTES + 64];
        snprintf(line, sizeof(line), "%s%s_", title, text);
        screen_draw(screen);
        screen_put(screen, LINES - 1, 0, COLS, SCREEN_STRONG, line);
        refresh();
        int key = screen_key(screen, &is_function);
        if (key == SCREEN_KEY_END || (!is_function && key == KEY_ESCAPE))
            return false;
        if (is_enter(key, is_function))
            return true;
        if (is_function ? key == KEY_BACKSPACE : key == KEY_DELETE || key == '\b')
            remove_character(text);
        else if (!is_function && key == KEY_CLEAR_LINE)
            *text = '\0';
        else if (!is_function)
            add_character(text, key);
    }
}
