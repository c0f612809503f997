/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What all share that look for symbols: the places that the environment names, and what is said of
 * addresses without a name.
 */
#ifndef HEAPPROFD_CLI_FILES_SYMBOL_OPTIONS_H
#define HEAPPROFD_CLI_FILES_SYMBOL_OPTIONS_H

#include <stdbool.h>
#include <stdio.h>

#include "cli/options/options.h"
#include "symbolize/symbolize.h"
#include "util/error.h"

struct symbol_places {
    char *directories; /* with colons between them; NULL: none */
    bool by_build_id;
    char *breakpad; /* directories of Breakpad's symbol files, likewise; NULL: none */
};

/* PERFETTO_BINARY_PATH and PERFETTO_SYMBOLIZER_MODE. 0 or a negative errno. */
int symbol_places_read(struct symbol_places *places, struct error *error);
/* These in place of all others. 0 or a negative errno. */
int symbol_places_set(struct symbol_places *places, const char *list, char separator,
                      struct error *error);
/* One more, the last. 0 or a negative errno. */
int symbol_places_add(struct symbol_places *places, const char *directory, struct error *error);
/* More directories of symbol files, with commas or colons between them. 0 or a negative errno. */
int symbol_places_add_breakpad(struct symbol_places *places, const char *list, struct error *error);
/* *store is NULL where no such directory was named; what cannot be searched is warned of. 0 or a
 * negative errno. */
int symbol_places_open_breakpad(const struct symbol_places *places, struct breakpad_store **store,
                                struct error *error);
void symbol_places_clear(struct symbol_places *places);

/* --symbol-paths and --breakpad-symbols. The member is a struct symbol_places. */
option_take take_symbol_paths, take_breakpad_symbols;

/* How many addresses have names, and why others have none, by module. */
void symbol_options_print_report(FILE *out, const struct symbolize_report *report);

/* A symbolize_progress, one line on a terminal; context: how many modules there are (size_t). */
void symbol_options_show_progress(void *context, size_t done, const struct trace_module *module);

#endif
