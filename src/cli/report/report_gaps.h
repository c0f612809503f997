/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where stacks end because nobody knows how to unwind further: by module, what part of the samples
 * it costs, and what helps.
 */
#ifndef HEAPPROFD_CLI_REPORT_REPORT_GAPS_H
#define HEAPPROFD_CLI_REPORT_REPORT_GAPS_H

#include <stdio.h>

#include "profile/profile.h"

struct report_gap {
    const char *module; /* path; "": code of no module */
    uint64_t samples;
    double share; /* of the dump's samples, 0 to 1 */
};

struct report_gaps {
    struct report_gap *items; /* the most samples first */
    size_t count;
};

/* 0 or -ENOMEM; to be cleared in any case. */
int report_gaps_find(const struct profile *profile, const struct profile_dump *dump,
                     struct report_gaps *gaps);
void report_gaps_clear(struct report_gaps *gaps);

/* What whoever builds the module can do. */
const char *report_gap_remedy(const struct report_gap *gap);

/* Lines for the report's head; nothing where there is no gap. */
void report_gaps_print_text(const struct profile *profile, const struct profile_dump *dump,
                            FILE *out);
/* ,"unwind_gaps":[...] */
void report_gaps_print_json(const struct profile *profile, const struct profile_dump *dump,
                            FILE *out);

#endif
