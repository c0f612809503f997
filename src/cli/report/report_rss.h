/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Why the heap is not the RSS: for one dump of each process, from the live requested bytes to what
 * the system says the process has in memory. The rows add up to it, to the byte; each says where it
 * is from, and what nobody can know from outside is said.
 */
#ifndef HEAPPROFD_CLI_REPORT_REPORT_RSS_H
#define HEAPPROFD_CLI_REPORT_REPORT_RSS_H

#include "cli/report/report.h"

enum rss_source {
    RSS_ESTIMATED, /* from samples */
    RSS_BY_RULE,   /* of the allocator's size classes, from samples */
    RSS_MEASURED,
    RSS_REMAINDER,
    RSS_NOT_KNOWN, /* and in the remainder */
};

struct rss_row {
    const char *name;  /* for scripts */
    const char *words; /* for people */
    int64_t bytes;     /* 0 where it is not known */
    double margin;     /* 95 % of estimates are no further off; < 0: exact */
    enum rss_source source;
    enum memory_kind kind; /* MEMORY_UNKNOWN: a part of the allocator's */
};

#define RSS_ROWS_MAX 16u

/* Rows [0, allocator_count) are what the allocator's memory consists of, the others all else; the
 * sum of all is rss_bytes. */
struct rss_table {
    struct rss_row rows[RSS_ROWS_MAX];
    size_t count, allocator_count;
    uint64_t allocator_bytes, rss_bytes, swap_bytes;
};

void rss_table_fill(struct rss_table *table, const struct memory_snapshot *look);

/* 0, or -ENOENT if nothing in the profile answers to the options. */
int report_print_rss(const struct profile *profile, const struct report_options *options, bool json,
                     FILE *out);

#endif
