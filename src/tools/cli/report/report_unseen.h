/* SPDX-License-Identifier: Apache-2.0 */
/* The processes of the text report that have no figures: those whose allocator was not seen, and
 * those that were not profiled. */
#ifndef HEAPPROFD_TOOLS_CLI_REPORT_REPORT_UNSEEN_H
#define HEAPPROFD_TOOLS_CLI_REPORT_REPORT_UNSEEN_H

#include "tools/cli/report/report_sections.h"

struct report_unseen {
    struct unseen_group *items; /* by id - 1 */
    uint32_t *ids;              /* by section; 0: it has figures */
};

/* Group the sections without figures. */
void report_unseen_make(struct report_unseen *unseen, const struct profile *profile,
                        const struct report_sections *sections);
void report_unseen_clear(struct report_unseen *unseen);

/* Return false if the section has figures. Otherwise print its group, once. */
bool report_unseen_print(const struct report_unseen *unseen, size_t section,
                         const struct printer *printer);

/* Print the processes that were not profiled, by reason. */
void report_unprofiled_print(const struct profile *profile, FILE *out);

#endif
