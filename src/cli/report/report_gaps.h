/* SPDX-License-Identifier: Apache-2.0 */
/* Reports stacks that end early because no unwind information exists: by module, the share of
 * samples, and the remedy. */
#ifndef HEAPPROFD_CLI_REPORT_REPORT_GAPS_H
#define HEAPPROFD_CLI_REPORT_REPORT_GAPS_H

#include <stdio.h>

#include "profile/profile.h"
#include "util/json_writer.h"

struct report_gap {
    const char *module; /* path; "": code of no module */
    uint64_t samples;
    double share; /* of the dump's samples, 0 to 1 */
};

struct report_gaps {
    struct report_gap *items; /* the most samples first */
    size_t count;
};

/* Cache shared by the dumps of a profile. All zeros is the valid empty state. */
struct report_gap_finder {
    uint32_t *ends;    /* by callsite: where its stack ends */
    uint64_t *samples; /* by mapping; all 0 between dumps */
    uint32_t *found;   /* mappings with samples in the dump */
    size_t found_capacity;
};
void report_gap_finder_clear(struct report_gap_finder *finder);

/* Find a dump's gaps. Return 0 or -ENOMEM; clear `gaps` in any case. */
int report_gaps_find(struct report_gap_finder *finder, const struct profile *profile,
                     const struct profile_dump *dump, struct report_gaps *gaps);
void report_gaps_clear(struct report_gaps *gaps);

/* Return what the module's builder can do. */
const char *report_gap_remedy(const struct report_gap *gap);

/* Print lines for the report's head, none if there is no gap. */
void report_gaps_print_text(struct report_gap_finder *finder, const struct profile *profile,
                            const struct profile_dump *dump, FILE *out);
/* Print ,"unwind_gaps":[...]. */
void report_gaps_print_json(struct report_gap_finder *finder, const struct profile *profile,
                            const struct profile_dump *dump, struct json_writer *json);

#endif
