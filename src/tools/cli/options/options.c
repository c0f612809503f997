/* SPDX-License-Identifier: Apache-2.0 */
/* Builds getopt_long()'s tables from a table of options, and stores the parsed values in the
 * request. */
#include "tools/cli/options/options.h"

#include <assert.h>
#include <errno.h>
#include <getopt.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "tools/cli/options/parse.h"
#include "tools/cli/options/suggest.h"
#include "tools/print/format.h"
#include "util/pattern.h"
#include "util/version.h"

/* The value of the first entry for getopt_long(), above all letters. Entry i returns ENTRY_FIRST +
 * i. */
#define ENTRY_FIRST 256
#define ENTRY_HELP (ENTRY_FIRST + OPTIONS_MAX)
#define ENTRY_VERSION (ENTRY_HELP + 1)

/* The tables that getopt_long() reads, with room for help, version and the end. */
struct getopt_tables {
    struct option options[OPTIONS_MAX + 3];
    char letters[2 + 2 * (OPTIONS_MAX + 1) + 1];
    int entry_of_letter[128];
};

static bool takes_value(const struct option_entry *entry)
{
    return entry->kind != OPTION_SET && entry->kind != OPTION_CLEAR && entry->kind != OPTION_FLAG;
}

static void make_tables(const struct verb_line *line, struct getopt_tables *tables)
{
    int count = 0;
    char *letter = tables->letters;
    if (line->ends_at_first)
        *letter++ = '+';
    *letter++ = ':'; /* report a missing value as ':' and print nothing */
    for (const struct option_entry *entry = line->options; entry->name != NULL; entry++, count++) {
        assert(count < OPTIONS_MAX);
        int has_value = takes_value(entry) ? required_argument : no_argument;
        tables->options[count] = (struct option){entry->name, has_value, NULL, ENTRY_FIRST + count};
        if (entry->letter == 0)
            continue;
        *letter++ = entry->letter;
        if (has_value == required_argument)
            *letter++ = ':';
        tables->entry_of_letter[(unsigned char)entry->letter] = ENTRY_FIRST + count;
    }
    tables->options[count++] = (struct option){"help", no_argument, NULL, ENTRY_HELP};
    tables->options[count++] = (struct option){"version", no_argument, NULL, ENTRY_VERSION};
    tables->options[count] = (struct option){0};
    *letter++ = 'h';
    *letter = '\0';
    tables->entry_of_letter['h'] = ENTRY_HELP;
}

static void complain_choice(const struct option_entry *entry, const char *value)
{
    format_printf(stderr, "%s: --%s takes ", program_invocation_short_name, entry->name);
    for (const char *const *name = entry->names; *name != NULL; name++)
        fprintf(stderr, "%s%s", name == entry->names ? "" : name[1] == NULL ? " or " : ", ", *name);
    format_printf(stderr, ", not '%s'\n", value);
}

static bool take_choice(const struct option_entry *entry, const char *value, void *member)
{
    for (int i = 0; entry->names[i] != NULL; i++) {
        if (strcmp(entry->names[i], value) != 0)
            continue;
        if (entry->kind == OPTION_EITHER)
            *(bool *)member = i == 1;
        else
            memcpy(member, &i, sizeof(i));
        return true;
    }
    complain_choice(entry, value);
    return false;
}

/* Parse a number for a member of a smaller type than uint64_t. */
static bool take_pid(const char *option, const char *value, void *member)
{
    uint64_t number;
    if (!parse_number(option, value, INT32_MAX, &number))
        return false;
    uint32_t small = (uint32_t)number;
    memcpy(member, &small, sizeof(small));
    return true;
}

static bool take_time(const char *option, const char *value, double bare_ms, void *member)
{
    uint64_t number;
    if (!parse_time(option, value, bare_ms, UINT32_MAX, &number))
        return false;
    uint32_t small = (uint32_t)number;
    memcpy(member, &small, sizeof(small));
    return true;
}

static bool options_take(const struct option_entry *entry, const char *value, void *member)
{
    char option[64];
    snprintf(option, sizeof(option), "--%s", entry->name);
    switch (entry->kind) {
    case OPTION_SET:
    case OPTION_CLEAR:
        *(bool *)member = entry->kind == OPTION_SET;
        return true;
    case OPTION_TEXT:
        *(const char **)member = value;
        return true;
    case OPTION_BYTES:
        return parse_bytes(option, value, member);
    case OPTION_NUMBER:
        return parse_number(option, value, UINT32_MAX, member);
    case OPTION_MS:
        return take_time(option, value, 1, member);
    case OPTION_US:
        return take_time(option, value, 1e-3, member);
    case OPTION_PID:
        return take_pid(option, value, member);
    case OPTION_CHOICE:
    case OPTION_EITHER:
        return take_choice(entry, value, member);
    case OPTION_CALL:
    case OPTION_FLAG:
        return entry->take(member, entry->name, value);
    }
    return false;
}

int options_parse(const struct verb_line *line, int argc, char **argv, void *request)
{
    struct getopt_tables tables = {0};
    int found;
    make_tables(line, &tables);
    opterr = 0;
    while ((found = getopt_long(argc, argv, tables.letters, tables.options, NULL)) != -1) {
        if (found == '?' || found == ':') {
            suggest_option(line->command, argv, found, tables.options);
            return VERB_USAGE;
        }
        if (found < ENTRY_FIRST)
            found = tables.entry_of_letter[found];
        if (found == ENTRY_HELP) {
            fputs(line->help, stdout);
            return VERB_DONE;
        }
        if (found == ENTRY_VERSION) {
            version_print(program_invocation_short_name);
            return VERB_DONE;
        }
        const struct option_entry *entry = &line->options[found - ENTRY_FIRST];
        if (!options_take(entry, optarg, (char *)request + entry->offset))
            return VERB_USAGE;
    }
    return -1;
}

int verb_fail(const struct error *error)
{
    format_printf(stderr, "%s: %s\n", program_invocation_short_name, error->message);
    return error->code == PATTERN_EXCEEDS ? VERB_USAGE : VERB_FAILED;
}

int verb_end_output(const char *what, int code)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return code;
    format_printf(stderr, "heap_profile: cannot write the %s: %s\n", what, strerror(errno));
    return VERB_FAILED;
}
