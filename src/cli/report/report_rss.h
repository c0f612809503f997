/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Explains why the heap differs from the RSS. For one dump of each process, a table leads from the
 * requested live bytes to the memory that the kernel reports. Its rows add up to the RSS exactly,
 * and each names its source. Caveats list what cannot be known from outside the process.
 */
#ifndef HEAPPROFD_CLI_REPORT_REPORT_RSS_H
#define HEAPPROFD_CLI_REPORT_REPORT_RSS_H

#include "cli/report/report.h"

enum rss_source {
    RSS_ESTIMATED, /* from samples */
    RSS_BY_RULE,   /* by the allocator's size classes, from samples */
    RSS_MEASURED,
    RSS_REMAINDER,
    RSS_NOT_KNOWN, /* unknown; included in the remainder */
};

struct rss_row {
    const char *name; /* for scripts */
    const char *text; /* for people */
    int64_t bytes;    /* 0 if unknown */
    double margin;    /* 95 % margin; < 0: exact */
    enum rss_source source;
    enum memory_kind kind; /* MEMORY_UNKNOWN: a part of the allocator's */
};

#define RSS_ROWS_MAX 16u

/* Rows [0, allocator_count) are the allocator's memory, the others the rest. All rows add up to
 * rss_bytes. */
struct rss_table {
    struct rss_row rows[RSS_ROWS_MAX];
    size_t count, allocator_count;
    uint64_t allocator_bytes, rss_bytes, swap_bytes;
};

void rss_table_fill(struct rss_table *table, const struct memory_snapshot *snapshot);

/* Print the tables. Return 0, or -ENOENT if nothing in the profile matches the options. */
int report_print_rss(const struct profile *profile, const struct report_options *options, bool json,
                     FILE *out);

#endif
