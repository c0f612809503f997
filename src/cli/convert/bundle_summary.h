/* SPDX-License-Identifier: Apache-2.0 */
/* What a bundle became, and what is said of it. */
#ifndef HEAPPROFD_CLI_CONVERT_BUNDLE_SUMMARY_H
#define HEAPPROFD_CLI_CONVERT_BUNDLE_SUMMARY_H

#include <stdbool.h>
#include <stdint.h>

#include "deobfuscate/deobfuscate.h"
#include "symbolize/symbolize.h"

struct bundle_outcome {
    struct trace_addresses addresses;
    struct symbolize_report symbols; /* refers to the addresses */
    struct trace_names names;
    struct deobfuscate_report maps; /* those that were named */
    int64_t added;                  /* addresses and classes that were not in the trace */
};

void bundle_outcome_clear(struct bundle_outcome *outcome);

/* Reads the bundle again, if it is a file, so that what is said of it is so. Standard error. */
void bundle_summary_print(const struct bundle_outcome *outcome, const char *path, bool verbose);
void bundle_summary_print_maps(const struct deobfuscate_report *maps);

#endif
