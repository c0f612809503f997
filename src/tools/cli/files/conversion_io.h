/* SPDX-License-Identifier: Apache-2.0 */
/* Input, output and errors of conversions. Messages begin with the name of the program, traceconv
 * or heap_profile. */
#ifndef HEAPPROFD_TOOLS_CLI_FILES_CONVERSION_IO_H
#define HEAPPROFD_TOOLS_CLI_FILES_CONVERSION_IO_H

#include <limits.h>
#include <stdbool.h>

#include "tools/cli/options/options.h"
#include "util/error.h"
#include "util/output_file.h"

/* The --help texts on the arguments TRACE and OUT. */
#define CONVERSION_INPUT_HELP                                                                      \
    "  TRACE is a file, or a directory that heap_profile wrote; '-' is standard input. Without\n"  \
    "  TRACE, standard input is read or, if it is a terminal, the latest profile.\n"
#define CONVERSION_OUTPUT_HELP "  OUT '-', or none, is standard output.\n"

/* Write the path of the trace that an argument names (a file, or a directory that heap_profile
 * wrote) to `path`. Without an argument take standard input or, if that is a terminal, the latest
 * profile; "-" is standard input. Return 0 or a negative errno. */
int conversion_find_input(const char *argument, char path[PATH_MAX], struct error *error);

/* Copy standard input to an unnamed file, for a conversion that reads its input more than once, and
 * write a path to it to `path`. Return 0 or a negative errno. */
int conversion_keep_input(char path[PATH_MAX], struct error *error);

/* Open the output; `out` NULL or "-": standard output. Refuse to write binary data to a
 * terminal, and to overwrite the input. output_file_close() finishes the file. Return 0 or a
 * negative errno. */
int conversion_open_output(struct output_file *file, const char *out, const char *input,
                           bool is_text, struct error *error);

/* Open the file of a --json option; "-": standard error. output_file_close() finishes it. Return
 * NULL with *error set on failure. */
FILE *conversion_open_details(struct output_file *file, const char *path, struct error *error);

/* Return whether `path` is a profile of another kind than a trace, with *error set. Standard input
 * is not checked. */
bool conversion_is_no_trace(const char *path, struct error *error);

void conversion_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Call options_parse() for a conversion that takes at most `most` arguments after the options.
 * argv[0] is the verb. */
int conversion_parse(int argc, char **argv, const char *help, const struct option_entry *options,
                     int most, void *request);

#endif
