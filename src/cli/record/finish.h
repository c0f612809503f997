/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is done with a trace that has just been written: names for its addresses (finish_names.h),
 * pprof files beside it, and the short report.
 */
#ifndef HEAPPROFD_CLI_RECORD_FINISH_H
#define HEAPPROFD_CLI_RECORD_FINISH_H

#include <stdbool.h>

#include "cli/files/output.h"
#include "util/error.h"

struct finish_options {
    bool quiet;        /* no report */
    bool no_symbols;   /* neither files nor maps are looked at */
    bool memory_infra; /* memory_infra.json.gz, too */
};

/* Reads the trace back, adds names, writes the pprof files and what else is asked for, and prints
 * the short report to standard error. 0 or a negative errno with a message. */
int finish_output(const struct output *output, const struct finish_options *options,
                  struct error *error);

#endif
