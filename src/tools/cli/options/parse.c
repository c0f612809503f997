/* SPDX-License-Identifier: Apache-2.0 */
/* Parses numbers, sizes and lists strictly: no sign, no blanks, nothing after the value. */
#include "tools/cli/options/parse.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/print/format.h"
#include "util/units.h"
#include "util/xmalloc.h"

static bool parse_whole(const char *text, uint64_t *value, const char **rest)
{
    if (*text < '0' || *text > '9')
        return false; /* strtoull() would accept a sign and blanks */
    char *end;
    errno = 0;
    *value = strtoull(text, &end, 10);
    *rest = end;
    return errno == 0;
}

bool parse_number(const char *option, const char *text, uint64_t max, uint64_t *value)
{
    const char *rest = "";
    if (parse_whole(text, value, &rest) && *rest == '\0' && *value <= max)
        return true;
    format_printf(stderr, "%s: %s takes a whole number up to %llu, not '%s'\n",
                  program_invocation_short_name, option, (unsigned long long)max, text);
    return false;
}

/* Parse a size with its suffix; *rest is the text after it. */
static bool parse_size(const char *text, uint64_t *value, const char **rest)
{
    if (!parse_whole(text, value, rest))
        return false;
    const char *unit = *rest;
    /* Sizes are printed with a blank: "100 kB". */
    unit += *unit == ' ' && unit[1] != '\0' && unit[1] != ',';
    size_t length = strcspn(unit, ",");
    uint64_t factor = (uint64_t)size_unit_bytes(unit, length);
    if (factor == 0 || *value > UINT64_MAX / factor)
        return false;
    *value *= factor;
    *rest = unit + length;
    return true;
}

bool parse_bytes(const char *option, const char *text, uint64_t *value)
{
    const char *rest = "";
    if (parse_size(text, value, &rest) && *rest == '\0')
        return true;
    format_printf(stderr, "heap_profile: %s takes bytes, as in 4096, 64k or 1M, not '%s'\n", option,
                  text);
    return false;
}

bool parse_time(const char *option, const char *text, double bare_ms, uint64_t max, uint64_t *value)
{
    char *end = (char *)text;
    double number = *text >= '0' && *text <= '9' ? strtod(text, &end) : NAN;
    const char *unit = end + (*end == ' ' && end[1] != '\0');
    double unit_ms = *unit == '\0' ? bare_ms : time_unit_ms(unit);
    double whole = round(number * unit_ms / bare_ms);
    bool is_whole = *unit != '\0' || strspn(text, "0123456789") == strlen(text);
    bool is_time = is_whole && unit_ms > 0 && (whole >= 1 || number == 0);
    if (is_time && whole <= (double)max) {
        *value = (uint64_t)whole;
        return true;
    }
    const char *bare = bare_ms < 1 ? "microseconds" : "milliseconds";
    if (is_time)
        format_printf(stderr, "%s: %s takes at most %llu %s, not '%s'\n",
                      program_invocation_short_name, option, (unsigned long long)max, bare, text);
    else
        format_printf(stderr,
                      "%s: %s takes a time, as in 200ms, 5s or 1.5h, not '%s'; a bare number means "
                      "%s\n",
                      program_invocation_short_name, option, text, bare);
    return false;
}

bool parse_names(const char *text, char ***names)
{
    size_t count = 0;
    if (text[strspn(text, ", ")] == '\0') {
        format_printf(stderr, "heap_profile: a list of names is empty: '%s'\n", text);
        return false;
    }
    while (*names != NULL && (*names)[count] != NULL)
        count++;
    while (*text != '\0') {
        /* Accept "a, b" in quotes like "a,b". */
        text += strspn(text, " ");
        size_t length = strcspn(text, ",");
        if (length > 0) {
            char **grown = xreallocarray(*names, count + 2, sizeof(*grown));
            *names = grown;
            grown[count++] = xmalloc_made(strndup(text, length));
            grown[count] = NULL;
        }
        text += length + (text[length] == ',');
    }
    return true;
}

/* Append the numbers of a comma-separated list to a malloc'd array. `parse_one` reads one of them
 * and sets *rest after it. */
static bool parse_list(const char *text, bool (*parse_one)(const char *, uint64_t *, const char **),
                       uint64_t **numbers, size_t *count)
{
    do {
        uint64_t number;
        const char *rest = text;
        if (!parse_one(text, &number, &rest) || (*rest != ',' && *rest != '\0'))
            return false;
        *numbers = xreallocarray(*numbers, *count + 1, sizeof(**numbers));
        (*numbers)[(*count)++] = number;
        text = rest + (*rest == ',');
    } while (*text != '\0');
    return true;
}

bool parse_numbers(const char *option, const char *what, const char *text, uint64_t **numbers,
                   size_t *count)
{
    bool good = parse_list(text, parse_whole, numbers, count);
    if (!good)
        format_printf(stderr, "%s: %s takes %s, as in 1234,5678, not '%s'\n",
                      program_invocation_short_name, option, what, text);
    return good;
}

bool parse_pids(const char *text, uint64_t **pids, size_t *count)
{
    return parse_numbers("--pid", "numbers of processes", text, pids, count);
}

bool parse_byte_list(const char *option, const char *text, uint64_t **values, size_t *count)
{
    bool good = parse_list(text, parse_size, values, count);
    if (!good)
        format_printf(stderr, "heap_profile: %s takes bytes, as in 4096,64k,1, not '%s'\n", option,
                      text);
    return good;
}
