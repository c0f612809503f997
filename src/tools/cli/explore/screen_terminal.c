/* SPDX-License-Identifier: Apache-2.0 */
/* Checks that a terminal has the capabilities that the screen needs. */
#include <stdlib.h>

#include "tools/cli/explore/screen_state.h"

/* Included last: it defines common words as macros. */
#include <curses.h>
#include <term.h>

int screen_check_terminal(FILE *out, struct error *error)
{
    const char *name = getenv("TERM");
    int outcome;
    if (name == NULL || *name == '\0')
        return error_set(
            error, -ENOTTY,
            "TERM is not set, so the type of this terminal is unknown; TERM=xterm-256color fits "
            "most, and heap_profile report needs no terminal");
    if (setupterm(name, fileno(out), &outcome) != OK)
        return error_set(error, -ENOTTY,
                         "there is no terminal '%.100s' (TERM) in terminfo here; "
                         "TERM=xterm-256color fits most, and heap_profile report needs no terminal",
                         name);
    const char *moves = tigetstr("cup");
    bool has_screen = moves != NULL && moves != (const char *)-1;
    del_curterm(cur_term); /* the screen sets up its own */
    if (!has_screen)
        return error_set(error, -ENOTTY,
                         "a terminal like '%.100s' (TERM) has no screen to draw on; heap_profile "
                         "report prints the same profile as text",
                         name);
    return 0;
}
