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

/* What the dumps of a profile share. All zeros: nothing is known yet, and all of it is made when it
 * is first needed. */
struct report_gap_finder {
    uint32_t *ends;    /* by callsite: where its stack ends */
    uint64_t *samples; /* by mapping; all 0 between two dumps */
    uint32_t *found;   /* mappings that a dump has samples of */
    size_t found_capacity;
};
void report_gap_finder_clear(struct report_gap_finder *finder);

/* 0 or -ENOMEM; to be cleared in any case. */
int report_gaps_find(struct report_gap_finder *finder, const struct profile *profile,
                     const struct profile_dump *dump, struct report_gaps *gaps);
void report_gaps_clear(struct report_gaps *gaps);

/* What whoever builds the module can do. */
const char *report_gap_remedy(const struct report_gap *gap);

/* Lines for the report's head; nothing where there is no gap. */
void report_gaps_print_text(struct report_gap_finder *finder, const struct profile *profile,
                            const struct profile_dump *dump, FILE *out);
/* ,"unwind_gaps":[...] */
void report_gaps_print_json(struct report_gap_finder *finder, const struct profile *profile,
                            const struct profile_dump *dump, FILE *out);

#endif
