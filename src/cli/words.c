/* See words.h. */
#include "cli/words.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct words words_of_bytes(double bytes)
{
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB"};
    struct words text;
    unsigned unit = 0;
    double value = fabs(bytes);
    while (value >= 999.5 && unit < 4) {
        value /= 1000;
        unit++;
    }
    int digits = unit == 0 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
    snprintf(text.bytes, sizeof(text.bytes), "%s%.*f %s", bytes < 0 ? "-" : "", digits, value,
             units[unit]);
    return text;
}

struct words words_of_count(double count)
{
    char digits[32];
    struct words text;
    snprintf(digits, sizeof(digits), "%.0f", fabs(count) < 9e18 ? fabs(count) : 9e18);
    size_t length = strlen(digits), at = 0;
    for (size_t i = 0; i < length && at + 2 < sizeof(text.bytes); i++) {
        if (i > 0 && (length - i) % 3 == 0)
            text.bytes[at++] = ',';
        text.bytes[at++] = digits[i];
    }
    text.bytes[at] = '\0';
    return text;
}

void words_print(FILE *out, const char *text, size_t width)
{
    size_t length = strnlen(text, width + 1), shown = length;
    if (length > width) {
        shown = width - 3;
        while (shown > 0 && ((unsigned char)text[shown] & 0xc0) == 0x80)
            shown--; /* not in the middle of a character */
    }
    for (size_t i = 0; i < shown; i++) {
        unsigned char byte = (unsigned char)text[i];
        bool commands = byte < 0x20 || byte == 0x7f;
        /* U+0080 to U+009F are control characters, too. */
        if (byte == 0xc2 && (unsigned char)text[i + 1] < 0xa0)
            commands = true;
        fputc(commands ? '?' : byte, out);
        i += commands && byte == 0xc2;
    }
    if (length > width)
        fputs("...", out);
}

void words_vprintf(FILE *out, const char *format, va_list arguments)
{
    char *text;
    size_t length = strlen(format);
    bool ends_line = length > 0 && format[length - 1] == '\n';
    if (vasprintf(&text, format, arguments) < 0)
        return;
    if (ends_line)
        text[strlen(text) - 1] = '\0';
    words_print(out, text, strlen(text));
    if (ends_line)
        fputc('\n', out);
    free(text);
}

void words_printf(FILE *out, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    words_vprintf(out, format, arguments);
    va_end(arguments);
}
