/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A verb's command line as a table: one entry for each option, with the member of the verb's
 * request that it sets. options_parse() handles abbreviations, values, error messages with the
 * nearest existing option, and --help and --version, which every verb has.
 *
 *     struct request { const char *heap; bool json; };
 *     static const struct option_entry options[] = {
 *         OPTION_ENTRY("heap", 0, OPTION_TEXT, struct request, heap),
 *         OPTION_ENTRY("json", 0, OPTION_SET, struct request, json),
 *         OPTIONS_END,
 *     };
 */
#ifndef HEAPPROFD_TOOLS_CLI_OPTIONS_OPTIONS_H
#define HEAPPROFD_TOOLS_CLI_OPTIONS_OPTIONS_H

#include <getopt.h> /* optind */
#include <stdbool.h>
#include <stddef.h>

#include "util/error.h"

/* Exit codes of all verbs. A verb that runs a command or judges a profile has more (man
 * heap_profile). */
enum verb_exit {
    VERB_DONE = 0,
    VERB_FAILED = 1, /* something could not be read, written or profiled */
    VERB_USAGE = 2,  /* the command line is wrong: nothing was done */
};

/* The value that an option takes, and the type of the member that it sets. */
enum option_kind {
    OPTION_SET,    /* bool: no value; becomes true */
    OPTION_CLEAR,  /* bool: no value; becomes false */
    OPTION_TEXT,   /* const char *: any text */
    OPTION_BYTES,  /* uint64_t: a size, with its unit (util/units.h) */
    OPTION_NUMBER, /* uint64_t: up to UINT32_MAX */
    OPTION_MS,     /* uint32_t: a time, with its unit or in milliseconds */
    OPTION_US,     /* the same in microseconds */
    OPTION_PID,    /* int32_t */
    OPTION_CHOICE, /* an enum from 0 on: one of `names` */
    OPTION_EITHER, /* bool: one of two `names`; true for the second */
    OPTION_CALL,   /* any type: `take` parses the value */
    OPTION_FLAG,   /* any type: no value; `take` is called with NULL */
};

/* Set *member from the value of --NAME. Return false after printing a message. */
typedef bool option_take(void *member, const char *name, const char *value);

struct option_entry {
    const char *name; /* without "--"; NULL ends the table */
    char letter;      /* of the short form; 0: none */
    enum option_kind kind;
    size_t offset;            /* of the member in the verb's request */
    const char *const *names; /* of OPTION_CHOICE and OPTION_EITHER, NULL at the end */
    option_take *take;
};

/* `type` is the request's struct. */
#define OPTION_ENTRY(name_, letter_, kind_, type, member)                                          \
    {                                                                                              \
        .name = name_, .letter = letter_, .kind = kind_, .offset = offsetof(type, member)          \
    }
#define OPTION_ENTRY_CHOICE(name_, type, member, names_)                                           \
    {                                                                                              \
        .name = name_, .kind = OPTION_CHOICE, .offset = offsetof(type, member), .names = names_    \
    }
#define OPTION_ENTRY_EITHER(name_, type, member, names_)                                           \
    {                                                                                              \
        .name = name_, .kind = OPTION_EITHER, .offset = offsetof(type, member), .names = names_    \
    }
#define OPTION_ENTRY_CALL(name_, letter_, type, member, take_)                                     \
    {                                                                                              \
        .name = name_, .letter = letter_, .kind = OPTION_CALL, .offset = offsetof(type, member),   \
        .take = take_                                                                              \
    }
#define OPTION_ENTRY_FLAG(name_, type, member, take_)                                              \
    {                                                                                              \
        .name = name_, .kind = OPTION_FLAG, .offset = offsetof(type, member), .take = take_        \
    }
#define OPTIONS_END                                                                                \
    {                                                                                              \
        .name = NULL                                                                               \
    }

/* Limit of a verb's options, over all its tables. */
#define OPTIONS_MAX 48

struct verb_line {
    const char *command; /* as the user types it: "heap_profile host" */
    const char *help;
    const struct option_entry *options;
    bool ends_at_first; /* the first argument ends the options: it begins a command */
};

/*
 * Fill `request` from the options; afterwards the arguments begin at argv[optind]. Return -1 to
 * continue, else the exit code: VERB_DONE after --help or --version, VERB_USAGE after an error
 * message.
 */
int options_parse(const struct verb_line *line, int argc, char **argv, void *request);

/* Print the error message, and return VERB_FAILED; VERB_USAGE if a pattern takes too many steps. */
int verb_fail(const struct error *error);

/* Flush standard output. Return `code`, or VERB_FAILED after printing the error "cannot write the
 * WHAT". */
int verb_end_output(const char *what, int code);

#endif
