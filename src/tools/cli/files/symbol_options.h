/* SPDX-License-Identifier: Apache-2.0 */
/* The common part of verbs that look for symbols: the places from the environment and options, and
 * the report on addresses without names. */
#ifndef HEAPPROFD_TOOLS_CLI_FILES_SYMBOL_OPTIONS_H
#define HEAPPROFD_TOOLS_CLI_FILES_SYMBOL_OPTIONS_H

#include <stdbool.h>
#include <stdio.h>

#include "profile/symbolize/symbolize.h"
#include "tools/cli/options/options.h"
#include "util/error.h"

struct symbol_places {
    char *directories; /* separated by colons; NULL: none */
    bool by_build_id;
    char *breakpad; /* directories of Breakpad symbol files, separated by colons; NULL: none */
};

/* Read PERFETTO_BINARY_PATH and PERFETTO_SYMBOLIZER_MODE. Return 0 or a negative errno. */
int symbol_places_read(struct symbol_places *places, struct error *error);
/* Append a directory. Return 0 or a negative errno. */
void symbol_places_add(struct symbol_places *places, const char *directory);
/* Open the places, and this machine's own if `automatic`. *breakpad is NULL if no directory of
 * Breakpad symbol files was named. Warn of directories that cannot be searched. Return 0, or a
 * negative errno; even then the caller closes what is not NULL. */
int symbol_places_open(const struct symbol_places *places, bool automatic,
                       struct symbol_finder **finder, struct breakpad_store **breakpad,
                       struct error *error);
void symbol_places_clear(struct symbol_places *places);

/* --symbol-paths and --breakpad-symbols. The member is a struct symbol_places. */
option_take take_symbol_paths, take_breakpad_symbols;

/* Print how many addresses have names and, by module, why others have none. */
void symbol_options_print_report(FILE *out, const struct symbolize_report *report);

/* Show the progress as one line on a terminal. */
symbolize_progress symbol_options_show_progress;
/* Call symbolize_addresses(), and show its progress as one line if standard error is a
 * terminal. */
int symbol_options_symbolize(const struct symbolize_options *options,
                             const struct trace_addresses *addresses, struct symbol_finder *finder,
                             int fd, struct symbolize_report *report, bool quiet,
                             struct error *error);

/* Return 1 + the reason why most of a module's unnamed addresses have no name; 0: all have one. */
uint8_t symbol_options_main_reason(const struct symbolized_module *module);

#endif
