/* SPDX-License-Identifier: Apache-2.0 */
/* Finishes a trace that has just been written: adds names for its addresses (automatic_names.h),
 * writes pprof files beside it, and prints the short report. */
#ifndef HEAPPROFD_TOOLS_CLI_RECORD_FINISH_PROFILE_H
#define HEAPPROFD_TOOLS_CLI_RECORD_FINISH_PROFILE_H

#include <stdbool.h>

#include "tools/cli/files/output_directory.h"
#include "util/error.h"

struct finish_profile_options {
    bool quiet;          /* print nothing to standard error */
    const char *summary; /* file for the short report; "-": standard output; NULL: stderr */
    bool no_symbols;     /* search neither symbol files nor maps */
    bool no_pprof;       /* write no pprof files */
    bool memory_infra;   /* write memory_infra.json.gz, too */
};

/* Return 0, or a negative errno with *error set, before anything is recorded, if the options'
 * `summary` cannot be written. */
int finish_profile_check(const struct finish_profile_options *options, struct error *error);

/* Read the trace back, add names, write the pprof and other files, and print the short report.
 * Return the number of heaps that were profiled, or a negative errno with *error
 * set. */
int finish_profile(const struct output *output, const struct finish_profile_options *options,
                   struct error *error);

/* Read a trace that stays alone. Return the number of heaps that were profiled, or a negative errno
 * with *error set; if it is 0, print the reasons that the trace has. */
int finish_profile_count(const char *trace, bool quiet, struct error *error);

#endif
