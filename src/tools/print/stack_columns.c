/* SPDX-License-Identifier: Apache-2.0 */
/* Asks for the width of lines. */
#include <ctype.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "tools/print/stack_format.h"

#define COLUMNS_MAX 10000

size_t stack_format_columns(FILE *out)
{
    const char *wanted = getenv("COLUMNS");
    struct winsize size;
    int fd = fileno(out);
    if (wanted != NULL && isdigit((unsigned char)*wanted)) {
        unsigned long columns = strtoul(wanted, NULL, 10);
        if (columns > 0)
            return columns < COLUMNS_MAX ? columns : COLUMNS_MAX;
    }
    if (fd < 0 || !isatty(fd) || ioctl(fd, TIOCGWINSZ, &size) != 0)
        return 0;
    return size.ws_col;
}
