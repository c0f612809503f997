/* SPDX-License-Identifier: Apache-2.0 */
/* Formats figures with units, their margins, and untrusted names. */
#include "tools/print/format.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "util/terminal_text.h"
#include "util/utf8.h"

/* Limit for measuring the rest of a long name, each time it is printed. */
#define COUNTED_BYTES_MAX 65536u

struct formatted format_count(double count)
{
    char digits[32];
    struct formatted text;
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

struct formatted format_time(double seconds)
{
    static const char *const units[] = {"us", "ms", "s"};
    struct formatted text;
    double value = seconds * 1e6;
    unsigned unit = 0;
    while (value >= 999.5 && unit < 2) {
        value /= 1000;
        unit++;
    }
    double whole = round(seconds), minutes = floor(whole / 60);
    if (minutes >= 60)
        snprintf(text.bytes, sizeof(text.bytes), "%.0f h %.0f min", floor(minutes / 60),
                 fmod(minutes, 60));
    else if (minutes >= 1)
        snprintf(text.bytes, sizeof(text.bytes), "%.0f min %.0f s", minutes, fmod(whole, 60));
    else
        snprintf(text.bytes, sizeof(text.bytes), "%.*f %s",
                 unit == 0 || value >= 99.95 ? 0
                 : value >= 9.995            ? 1
                                             : 2,
                 value, units[unit]);
    return text;
}

struct formatted format_loss(enum trace_loss_unit unit, uint64_t amount)
{
    switch (unit) {
    case TRACE_LOSS_BYTES:
        return format_bytes((double)amount);
    case TRACE_LOSS_MICROSECONDS:
        return format_time((double)amount / 1e6);
    default:
        return format_count((double)amount);
    }
}

static struct formatted format_limit_count(double count)
{
    struct formatted text, size = format_count(count);
    snprintf(text.bytes, sizeof(text.bytes), "%s%.44s", count <= -0.5 ? FORMAT_MINUS : "",
             size.bytes);
    return text;
}

struct formatted format_amount(double amount, bool counts)
{
    return counts ? format_limit_count(amount) : format_bytes(amount);
}

static bool rounds_to_0(double amount)
{
    return fabs(amount) < 0.5;
}

struct formatted format_signed(double amount, bool counts)
{
    struct formatted text, size = format_amount(fabs(amount), counts);
    const char *sign = rounds_to_0(amount) ? "" : amount < 0 ? FORMAT_MINUS : "+";
    snprintf(text.bytes, sizeof(text.bytes), "%s%.44s", sign, size.bytes);
    return text;
}

struct formatted format_share(double percent)
{
    struct formatted text;
    snprintf(text.bytes, sizeof(text.bytes), "%.1f %%", percent);
    return text;
}

static struct formatted format_limit_bytes(double bytes)
{
    return format_bytes(bytes);
}

/* Format both limits, with their unit once if they have the same. */
static struct formatted format_range(const char *low, const char *high)
{
    struct formatted text;
    const char *unit = strchr(low, ' '), *high_unit = strchr(high, ' ');
    bool same = unit != NULL && high_unit != NULL && strcmp(unit, high_unit) == 0;
    snprintf(text.bytes, sizeof(text.bytes), "(%.*s to %.20s)",
             same ? (int)(unit - low) : (int)strnlen(low, 20), low, high);
    return text;
}

/* Format an interval in some unit, of which less than `least` is nothing. */
static struct formatted format_interval(double value, double low, double high,
                                        struct formatted (*format)(double), double least)
{
    struct formatted text, printed = format(value), lower = format(low), upper = format(high);
    double below = value - low, above = high - value;
    below = below < least ? 0 : below;
    above = above < least ? 0 : above;
    bool has_lower = below > 0 && strcmp(lower.bytes, printed.bytes) != 0,
         has_upper = above > 0 && strcmp(upper.bytes, printed.bytes) != 0;
    if ((above <= 1.25 * below && below <= 1.25 * above) || (!has_lower && !has_upper))
        snprintf(text.bytes, sizeof(text.bytes), "± %.42s", format(fmax(above, below)).bytes);
    else if (!has_lower)
        snprintf(text.bytes, sizeof(text.bytes), "(up to %.38s)", upper.bytes);
    else
        text = format_range(lower.bytes, upper.bytes);
    return text;
}

struct formatted format_margin(double value, double low, double high, bool counts)
{
    /* Users add the margin to the printed, whole count. */
    return format_interval(counts ? round(value) : value, low, high,
                           counts ? format_limit_count : format_limit_bytes, 0.5);
}

struct formatted format_share_margin(double value, double low, double high)
{
    return format_interval(value, low, high, format_share, 0.05);
}

int format_width(const struct formatted *text, int columns)
{
    for (const char *at = text->bytes; *at != '\0'; at++)
        columns += utf8_continues(*at);
    return columns;
}

void format_print_title(FILE *out, const char *title, bool colours)
{
    fputs(colours ? "\n\033[1m" : "\n", out);
    format_print(out, title, FORMAT_LINE_WIDTH);
    fputs(colours ? "\033[0m\n" : "\n", out);
}

/* Return the length of the printable ASCII at the beginning of a text, up to `most`. */
static size_t plain_length(const unsigned char *text, size_t most)
{
    size_t length = 0;
    while (length < most && text[length] >= ' ' && text[length] < 0x7f)
        length++;
    return length;
}

/* Return the width of the escaped text, or a number above `width` if it is wider. */
static size_t shown_length(const char *text, size_t width)
{
    const unsigned char *at = (const unsigned char *)text;
    char next[TERMINAL_TEXT_ESCAPE_BYTES];
    size_t used = 0, taken;
    while (used <= width) {
        size_t plain = plain_length(at, width - used);
        used += plain;
        at += plain;
        if ((taken = terminal_text_next(at, next)) == 0)
            break;
        used += strlen(next);
        at += taken;
    }
    return used;
}

void format_print(FILE *out, const char *text, size_t width)
{
    const unsigned char *at = (const unsigned char *)text;
    char next[TERMINAL_TEXT_ESCAPE_BYTES];
    bool is_cut = shown_length(text, width) > width;
    size_t used = 0, room = is_cut ? width - 3 : width, taken;
    while (true) {
        size_t plain = plain_length(at, room - used);
        fwrite(at, 1, plain, out);
        used += plain;
        at += plain;
        taken = terminal_text_next(at, next);
        if (taken == 0 || used + strlen(next) > room)
            break;
        used += strlen(next);
        fputs(next, out);
        at += taken;
    }
    if (is_cut)
        fputs("...", out);
}

void format_print_name(FILE *out, const char *name)
{
    size_t length = strnlen(name, FORMAT_NAME_WIDTH + 1);
    if (length <= FORMAT_NAME_WIDTH) {
        format_print(out, name, SIZE_MAX);
        return;
    }
    length = FORMAT_NAME_WIDTH;
    for (int i = 0; i < 3 && utf8_continues(name[length]); i++)
        length--; /* do not cut a character */
    char text[FORMAT_NAME_WIDTH + 1];
    memcpy(text, name, length);
    text[length] = '\0';
    format_print(out, text, SIZE_MAX);
    size_t more = strnlen(name + length, COUNTED_BYTES_MAX);
    fprintf(out, "... (%s%s bytes more)", more == COUNTED_BYTES_MAX ? "at least " : "",
            format_count((double)more).bytes);
}

void format_vprintf(FILE *out, const char *format, va_list arguments)
{
    char *text;
    size_t length = strlen(format);
    bool ends_line = length > 0 && format[length - 1] == '\n';
    if (vasprintf(&text, format, arguments) < 0)
        return;
    if (ends_line)
        text[strlen(text) - 1] = '\0';
    /* Write it at once: standard error has no buffer, and other programs write to it, too. */
    size_t room = strlen(text) * (TERMINAL_TEXT_ESCAPE_BYTES - 1) + 2;
    char *shown = malloc(room);
    if (shown != NULL) {
        terminal_text_escape(text, false, shown, room - 1);
        if (ends_line)
            strcat(shown, "\n");
        fputs(shown, out);
    }
    free(shown);
    free(text);
}

void format_printf(FILE *out, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    format_vprintf(out, format, arguments);
    va_end(arguments);
}
