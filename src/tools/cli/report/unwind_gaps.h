/* SPDX-License-Identifier: Apache-2.0 */
/* Reports stacks that end early because no unwind information exists: by module, the share of
 * samples, and the remedy. */
#ifndef HEAPPROFD_TOOLS_CLI_REPORT_UNWIND_GAPS_H
#define HEAPPROFD_TOOLS_CLI_REPORT_UNWIND_GAPS_H

#include <stdio.h>

#include "profile/profile.h"
#include "util/json_writer.h"

/* Cache shared by the dumps of a profile. All zeros is the valid empty state. */
struct unwind_gap_finder {
    uint32_t *ends;    /* by callsite: where its stack ends */
    uint64_t *samples; /* by mapping; all 0 between dumps */
    uint32_t *found;   /* mappings with samples in the dump */
    size_t found_capacity;
};
void unwind_gap_finder_clear(struct unwind_gap_finder *finder);

/* Print lines for the report's head, none if there is no gap. */
void unwind_gaps_print_text(struct unwind_gap_finder *finder, const struct profile *profile,
                            const struct profile_dump *dump, FILE *out);
/* Print ,"unwind_gaps":[...]. */
void unwind_gaps_print_json(struct unwind_gap_finder *finder, const struct profile *profile,
                            const struct profile_dump *dump, struct json_writer *json);

#endif
