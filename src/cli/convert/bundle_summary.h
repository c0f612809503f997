/* SPDX-License-Identifier: Apache-2.0 */
/* The outcome of making a bundle, and its summary for the user. */
#ifndef HEAPPROFD_CLI_CONVERT_BUNDLE_SUMMARY_H
#define HEAPPROFD_CLI_CONVERT_BUNDLE_SUMMARY_H

#include <stdbool.h>
#include <stdint.h>

#include "deobfuscate/deobfuscate.h"
#include "symbolize/symbolize.h"

struct bundle_outcome {
    struct trace_addresses addresses;
    struct symbolize_report symbols; /* points into `addresses` */
    struct trace_names names;
    struct deobfuscate_report maps; /* the maps that the user named */
    int64_t added;                  /* number of names that the trace did not have */
};

void bundle_outcome_clear(struct bundle_outcome *outcome);

/* Print the summary to standard error. If the bundle is a file, read it again, so that the summary
 * describes what it really contains. */
void bundle_summary_print(const struct bundle_outcome *outcome, const char *path, bool verbose);
void bundle_summary_print_maps(const struct deobfuscate_report *maps);

#endif
