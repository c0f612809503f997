/* SPDX-License-Identifier: Apache-2.0 */
/* Formats the sentence in place. */
#include "util/remark.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void remark_add(char *text, size_t size, const char *format, ...)
{
    size_t used = strlen(text);
    if (used > 0 && used + 1 < size) {
        text[used++] = ' ';
        text[used] = 0;
    }
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + used, size - used, format, arguments);
    va_end(arguments);
}
