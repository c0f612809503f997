/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the nearest known word, by edit distance, and prints errors about wrong options. */
#include "tools/cli/options/suggest.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "tools/print/format.h"

#define WORD_BYTES_MAX 40u
#define COMPLAINT_BYTES_MAX 200

/* Options of earlier versions, and what to do without them. */
static const struct {
    const char *name, *remedy;
} removed[] = {
    {"symbolizer", "heapprofd reads the files itself: leave the option out"},
};

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Return the number of letters to insert, delete, replace, or swap with their neighbour to turn one
 * word into the other: the optimal string alignment distance. SIZE_MAX: a word is too long. */
static size_t suggest_distance(const char *a, const char *b)
{
    size_t rows[3][WORD_BYTES_MAX + 1];
    size_t a_length = strlen(a), b_length = strlen(b);
    if (a_length > WORD_BYTES_MAX || b_length > WORD_BYTES_MAX)
        return SIZE_MAX;
    for (size_t j = 0; j <= b_length; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= a_length; i++) {
        size_t *row = rows[i % 3];
        const size_t *above = rows[(i + 2) % 3], *above_that = rows[(i + 1) % 3];
        row[0] = i;
        for (size_t j = 1; j <= b_length; j++) {
            row[j] = least(least(above[j], row[j - 1]) + 1, above[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = least(row[j], above_that[j - 2] + 1);
        }
    }
    return rows[a_length % 3][b_length];
}

const char *suggest_nearest(const char *typed, const void *known, size_t count, size_t stride)
{
    const char *nearest = NULL;
    size_t length = strlen(typed), best = length / 3 + 1; /* one in three letters may be wrong */
    for (size_t i = 0; i < count && length > 1; i++) {
        const char *word = *(const char *const *)((const char *)known + i * stride);
        size_t far = suggest_distance(typed, word);
        if (far <= best && far < length) {
            nearest = word;
            best = far - (far > 0); /* of equally near ones take the first */
        }
    }
    return nearest;
}

/* Return the number of options that an abbreviation matches. */
static size_t count_beginning(const char *typed, size_t length, const struct option *options)
{
    size_t count = 0;
    for (; options->name != NULL; options++)
        count += strncmp(options->name, typed, length) == 0;
    return count;
}

static void list_beginning(const char *typed, size_t length, const struct option *options)
{
    const char *separator = ": ";
    for (; options->name != NULL; options++) {
        if (strncmp(options->name, typed, length) != 0)
            continue;
        format_printf(stderr, "%s--%s", separator, options->name);
        separator = ", ";
    }
}

static const char *remedy_of(const char *name)
{
    for (size_t i = 0; i < sizeof(removed) / sizeof(removed[0]); i++)
        if (strcmp(removed[i].name, name) == 0)
            return removed[i].remedy;
    return NULL;
}

/* Print the error about a word "--..." that getopt_long() rejected. */
static void complain_long(const char *program, const char *typed, const struct option *options)
{
    char name[COMPLAINT_BYTES_MAX];
    size_t count = 0;
    snprintf(name, sizeof(name), "%.*s", (int)strcspn(typed + 2, "="), typed + 2);
    while (options[count].name != NULL)
        count++;
    if (count_beginning(name, strlen(name), options) > 1) {
        format_printf(stderr, "%s: '--%s' is ambiguous", program, name);
        list_beginning(name, strlen(name), options);
        return;
    }
    const char *nearest = suggest_nearest(name, options, count, sizeof(*options));
    const char *remedy = remedy_of(name);
    format_printf(stderr, "%s: there is no option '--%s'", program, name);
    if (remedy != NULL)
        fprintf(stderr, "; %s", remedy);
    else if (nearest != NULL)
        format_printf(stderr, "; did you mean --%s?", nearest);
}

void suggest_option(const char *command, char *const *argv, int result,
                    const struct option *options)
{
    char program[COMPLAINT_BYTES_MAX];
    /* getopt_long() has stepped past a long option, and past a letter without its value. */
    const char *typed = argv[optind - 1];
    bool is_long = strncmp(typed, "--", 2) == 0;
    snprintf(program, sizeof(program), "%.*s", (int)strcspn(command, " "), command);
    if (result == ':')
        format_printf(stderr, "%s: %s needs a value", program, typed);
    else if (optopt == 0)
        complain_long(program, typed, options);
    else if (is_long && strchr(typed, '=') != NULL)
        format_printf(stderr, "%s: %.*s takes no value", program, (int)strcspn(typed, "="), typed);
    else
        format_printf(stderr, "%s: there is no option '-%c'", program, optopt);
    fprintf(stderr, "\n%s: see %s --help\n", program, command);
}
