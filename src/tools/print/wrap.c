/* SPDX-License-Identifier: Apache-2.0 */
/* Collects text in memory, and breaks its lines at the last space that fits. */
#include "tools/print/wrap.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "util/utf8.h"
#include "util/xmalloc.h"

/* A continuation has at least this many columns, whatever the indent. */
#define LEAST_COLUMNS 24u

FILE *wrap_begin(struct wrap *wrap, FILE *out, size_t columns)
{
    *wrap = (struct wrap){.out = out, .page = out, .columns = columns};
    if (columns > 0)
        wrap->page = xopen_memstream(&wrap->text, &wrap->length);
    return wrap->page;
}

/* Return whether a line may end before this space: an amount stays together with its unit and its
 * margin, and the gap after a label stays, too. */
static bool is_break(const char *line, const char *space)
{
    return space > line && space[1] != ' ' && space[-1] != ' ' &&
           !isdigit((unsigned char)space[-1]) &&
           (space - line < 2 || strncmp(space - 2, "±", 2) != 0) &&
           strncmp(space + 1, "±", strlen("±")) != 0;
}

/* Return the end of what fits into `columns`: the last good break; else the last space; else the
 * end of the first word. */
static const char *end_of_line(const char *line, const char *end, size_t columns)
{
    const char *good = NULL, *any = NULL;
    size_t used = 0;
    bool has_word = false;
    for (const char *at = line; at < end; at++) {
        if (*at == ' ' && has_word && at[-1] != ' ') {
            if (used > columns)
                return good != NULL ? good : any != NULL ? any : at;
            any = at;
            good = is_break(line, at) ? at : good;
        }
        has_word |= *at != ' ';
        used += !utf8_continues(*at);
    }
    return used <= columns ? end : good != NULL ? good : any != NULL ? any : end;
}

static void write_line(FILE *out, const char *line, const char *end, size_t columns, size_t indent)
{
    size_t room = columns > indent + LEAST_COLUMNS ? columns - indent : LEAST_COLUMNS;
    const char *stop = end_of_line(line, end, columns);
    fwrite(line, 1, (size_t)(stop - line), out);
    for (; stop < end; line = stop) {
        line = stop + strspn(stop, " ");
        if (line >= end)
            break;
        stop = end_of_line(line, end, room);
        fprintf(out, "\n%*s%.*s", (int)indent, "", (int)(stop - line), line);
    }
}

void wrap_end(struct wrap *wrap, size_t indent)
{
    if (wrap->page == wrap->out)
        return;
    xclose_memstream(wrap->page);
    for (const char *line = wrap->text; *line != '\0';) {
        const char *end = strchrnul(line, '\n');
        write_line(wrap->out, line, end, wrap->columns, indent);
        if (*end == '\n')
            fputc('\n', wrap->out);
        line = *end == '\n' ? end + 1 : end;
    }
    free(wrap->text);
}
