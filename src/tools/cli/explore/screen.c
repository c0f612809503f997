/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sets up the terminal, reads its keys, and restores it on every exit.
 *
 * Signals that end the program are blocked except while it waits for a key, so that one place
 * restores the terminal. The signal of a resized window is handled the same way.
 */
#define NCURSES_WIDECHAR 1
#include "tools/cli/explore/screen.h"

#include <curses.h>
#include <errno.h>
#include <langinfo.h>
#include <poll.h>
#include <signal.h>
#include <string.h>

#include "tools/cli/explore/screen_state.h"
#include "util/xmalloc.h"

/* Reads without a key although the terminal is readable; after these the terminal is gone. */
#define EMPTY_READS_MOST 100
#define ESCAPE_WAIT_MS 100 /* for the rest of a key's escape sequence, over a slow line */
#define CONTROL(letter) ((letter) - '@')

static volatile sig_atomic_t ended_by_signal;
static sigset_t outside; /* the mask before ours */

static void note_signal(int number)
{
    ended_by_signal = number;
}

static const int ending_signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
#define ENDING_SIGNALS (sizeof(ending_signals) / sizeof(ending_signals[0]))

static void take_signals(struct sigaction old[ENDING_SIGNALS])
{
    struct sigaction action = {.sa_handler = note_signal};
    sigset_t blocked;
    sigemptyset(&action.sa_mask);
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGWINCH);
    for (size_t i = 0; i < ENDING_SIGNALS; i++)
        sigaddset(&blocked, ending_signals[i]);
    sigprocmask(SIG_BLOCK, &blocked, &outside);
    for (size_t i = 0; i < ENDING_SIGNALS; i++) {
        sigaction(ending_signals[i], NULL, &old[i]);
        if (old[i].sa_handler != SIG_IGN)
            sigaction(ending_signals[i], &action, NULL);
    }
}

static void return_signals(const struct sigaction old[ENDING_SIGNALS])
{
    for (size_t i = 0; i < ENDING_SIGNALS; i++)
        sigaction(ending_signals[i], &old[i], NULL);
    sigprocmask(SIG_SETMASK, &outside, NULL);
}

/* --- the terminal --- */

static SCREEN *take_terminal(const struct screen_request *request, struct screen *screen)
{
    /* Ignore LINES and COLUMNS of the environment: they would not follow a resize. */
    use_tioctl(TRUE);
    SCREEN *terminal = newterm(NULL, request->out, request->in);
    if (terminal == NULL)
        return NULL;
    cbreak();
    noecho();
    nonl();
    keypad(stdscr, TRUE);
    nodelay(stdscr, TRUE);
    set_escdelay(ESCAPE_WAIT_MS);
    curs_set(0);
    screen->utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
    if (request->colours && has_colors()) {
        start_color();
        use_default_colors();
        init_pair(1, COLOR_RED, -1);
        init_pair(2, COLOR_GREEN, -1);
        screen->colours = true;
    }
    return terminal;
}

int screen_key(struct screen *screen, bool *is_function)
{
    struct pollfd waiting = {.fd = fileno(screen->request->in), .events = POLLIN};
    for (unsigned empty = 0; empty < EMPTY_READS_MOST;) {
        wint_t key;
        int outcome = get_wch(&key);
        if (outcome != ERR) {
            *is_function = outcome == KEY_CODE_YES;
            return (int)key;
        }
        if (ended_by_signal)
            return SCREEN_KEY_END;
        int ready = ppoll(&waiting, 1, NULL, &outside);
        if (ready < 0 && errno != EINTR)
            return SCREEN_KEY_END;
        if (ready > 0 && (waiting.revents & (POLLERR | POLLHUP | POLLNVAL)))
            return SCREEN_KEY_END;
        empty = ready > 0 ? empty + 1 : 0;
    }
    return SCREEN_KEY_END;
}

/* --- keys --- */

static void move_to(struct screen *screen, ptrdiff_t by)
{
    ptrdiff_t last = (ptrdiff_t)screen->rows.count - 1, at = (ptrdiff_t)screen->selected + by;
    screen->selected = at < 0 || last < 0 ? 0 : (size_t)(at > last ? last : at);
}

static void ask_and_write(struct screen *screen)
{
    char path[SCREEN_TEXT_BYTES] = "heap_profile-rows.txt";
    if (!screen_prompt(screen, " Write to: ", path) || *path == '\0')
        return;
    int code = screen_write(screen, path);
    if (code < 0)
        snprintf(screen->message, sizeof(screen->message), " Not written: %.300s: %s", path,
                 strerror(-code));
    else
        snprintf(screen->message, sizeof(screen->message), " Written: %.400s", path);
}

static void ask_and_search(struct screen *screen)
{
    char wanted[SCREEN_TEXT_BYTES] = "";
    if (!screen_prompt(screen, " /", wanted) || *wanted == '\0')
        return;
    memcpy(screen->wanted, wanted, sizeof(wanted));
    screen_search(screen);
}

/* Return the character with the same meaning as a function key; 0: no character has it. */
static int character_of(int function_key)
{
    static const struct {
        int function_key, character;
    } same[] = {
        {KEY_UP, 'k'},   {KEY_DOWN, 'j'}, {KEY_PPAGE, CONTROL('B')}, {KEY_NPAGE, CONTROL('F')},
        {KEY_HOME, 'g'}, {KEY_END, 'G'},  {KEY_ENTER, '\n'},         {KEY_BACKSPACE, '\b'},
    };
    for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++)
        if (same[i].function_key == function_key)
            return same[i].character;
    return 0; /* KEY_RESIZE, too: everything is redrawn */
}

/* Change what is shown, and how. */
static void choose_how(struct screen *screen, int key)
{
    struct breakdown *breakdown = screen->breakdown;
    switch (key) {
    case 'v':
        screen_set_mode(screen, (breakdown_mode(breakdown) + 1) % BREAKDOWN_MODES);
        break;
    case 'f':
        screen_next_figure(screen);
        break;
    case 's':
        screen_next_sorting(screen);
        break;
    case 'r':
        screen->order.reverse = !screen->order.reverse;
        screen_refresh(screen);
        break;
    case 'x':
        screen->order.aggregate =
            screen->order.aggregate == BREAKDOWN_MAX ? BREAKDOWN_DIFFERENCE : BREAKDOWN_MAX;
        screen_refresh(screen);
        break;
    case 'c':
        screen->counts_first = !screen->counts_first;
        break;
    case 'e':
        screen->exact_figures = !screen->exact_figures;
        break;
    case 'm':
        screen->short_names = !screen->short_names;
        break;
    }
}

/* Move in the rows, or into and out of them. Return false if the key does not mean a move. */
static bool take_move(struct screen *screen, int key)
{
    ptrdiff_t page = screen->shown_lines > 1 ? screen->shown_lines - 1 : 1;
    switch (key) {
    case 'k':
        move_to(screen, -1);
        return true;
    case 'j':
        move_to(screen, 1);
        return true;
    case CONTROL('B'):
        move_to(screen, -page);
        return true;
    case CONTROL('F'):
        move_to(screen, page);
        return true;
    case 'g':
        screen->selected = 0;
        return true;
    case 'G':
        move_to(screen, PTRDIFF_MAX / 2);
        return true;
    case '\n':
    case '\r':
        screen_enter(screen);
        return true;
    case '\b':
    case 127:
        screen_leave(screen);
        return true;
    }
    return false;
}

/* Handle a character. Return false to quit. */
static bool take_character(struct screen *screen, int key)
{
    if (take_move(screen, key))
        return true;
    switch (key) {
    case 'q':
        return false;
    case CONTROL('L'):
        clearok(curscr, TRUE);
        break;
    case '/':
        ask_and_search(screen);
        break;
    case 'n':
    case 'N':
        screen_search_on(screen, key == 'n' ? 1 : -1);
        break;
    case 'd':
        screen_choose_dumps(screen);
        break;
    case 'p':
        screen_choose_from(screen, SITES_PROCESS);
        break;
    case 'h':
        screen_choose_from(screen, SITES_HEAP);
        break;
    case 'w':
        ask_and_write(screen);
        break;
    case '?':
        screen_help(screen);
        break;
    default:
        choose_how(screen, key);
    }
    return true;
}

static void take_keys(struct screen *screen)
{
    bool is_function, running = true;
    while (running) {
        screen_draw(screen);
        int key = screen_key(screen, &is_function);
        if (key == SCREEN_KEY_END)
            return;
        *screen->message = '\0';
        if (is_function && (key == KEY_LEFT || key == KEY_RIGHT))
            screen_turn(screen, key == KEY_LEFT ? -1 : 1);
        else
            running = take_character(screen, is_function ? character_of(key) : key);
    }
}

/* Leave the screen, so that a message appears on the terminal. */
static void leave_screen(void)
{
    endwin();
}

int screen_run(const struct screen_request *request, int *ended_by, struct error *error)
{
    struct screen screen = {.request = request, .short_names = !request->full_names};
    struct sigaction old[ENDING_SIGNALS];
    int code = screen_check_terminal(request->out, error);
    screen.order.key = request->sort_by_count ? BREAKDOWN_BY_COUNT : BREAKDOWN_BY_SIZE;
    screen.counts_first = request->sort_by_count;
    if (code == 0)
        code = screen_load(&screen, request->columns, request->column_count, error);
    if (code < 0)
        return code;
    take_signals(old);
    SCREEN *terminal = take_terminal(request, &screen);
    if (terminal != NULL) {
        xmalloc_before_exit = leave_screen;
        take_keys(&screen);
        xmalloc_before_exit = NULL;
        endwin();
        delscreen(terminal);
    } else {
        code = error_set(error, -ENOTTY, "the terminal cannot be taken");
    }
    return_signals(old);
    screen_unload(&screen);
    *ended_by = (int)ended_by_signal;
    return code == 0 && *ended_by != 0 ? -EINTR : code;
}
