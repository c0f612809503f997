/* SPDX-License-Identifier: Apache-2.0 */
/* Formats an error message and escapes control characters in it. */
#include "util/error.h"

#include <stdarg.h>
#include <stdio.h>

#include "util/terminal_text.h"

int error_set(struct error *error, int code, const char *format, ...)
{
    if (error != NULL) {
        char message[sizeof(error->message)];
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(message, sizeof(message), format, arguments);
        va_end(arguments);
        terminal_text_escape(message, true, error->message, sizeof(error->message));
        error->code = code;
    }
    return code;
}
