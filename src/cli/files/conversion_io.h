/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What conversions share: where they read and write, and how they say what went wrong. Messages
 * begin with the name of the program, traceconv or heap_profile.
 */
#ifndef HEAPPROFD_CLI_FILES_CONVERSION_IO_H
#define HEAPPROFD_CLI_FILES_CONVERSION_IO_H

#include <limits.h>
#include <stdbool.h>

#include "cli/options/options.h"
#include "util/error.h"
#include "util/output_file.h"

/* The trace that an argument names (a file, or a directory that heap_profile wrote) into path. None
 * is standard input, or the latest profile where that is a terminal; "-" is standard input.
 * 0 or a negative errno. */
int conversion_find_input(const char *argument, char path[PATH_MAX], struct error *error);

/* Standard input for what reads it more than once: kept in a file without a name, whose path is
 * there. 0 or a negative errno. */
int conversion_keep_input(char path[PATH_MAX], struct error *error);

/* Open a file to write to; out NULL or "-": standard output. Refuse to write what is no text to a
 * terminal, and anything over the input. output_file_close() finishes it. 0 or a negative errno. */
int conversion_open_output(struct output_file *file, const char *out, const char *input,
                           bool is_text, struct error *error);

/* Open the file of a --json option; "-": standard error. output_file_close() finishes it. NULL with
 * an error. */
FILE *conversion_open_details(struct output_file *file, const char *path, struct error *error);

/* For what can be made of traces alone: whether `path` is a profile of another kind; the error says
 * so then. Standard input is not looked at. */
bool conversion_is_no_trace(const char *path, struct error *error);

/* Says it, and returns the exit code: 1. */
int conversion_fail(const struct error *error);
void conversion_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* options_parse() for a conversion, with at most `most` arguments after the options. argv[0] is the
 * verb. */
int conversion_parse(int argc, char **argv, const char *help, const struct option_entry *options,
                     int most, void *request);

#endif
