/* SPDX-License-Identifier: Apache-2.0 */
/* Prints why the heap differs from the RSS, for one dump of each process (profile/compare/rss.h).
 */
#ifndef HEAPPROFD_TOOLS_CLI_REPORT_REPORT_RSS_H
#define HEAPPROFD_TOOLS_CLI_REPORT_REPORT_RSS_H

#include "tools/cli/report/report.h"

/* Print the tables. Return 0, or -ENOENT if nothing in the profile matches the options. */
int report_print_rss(const struct profile *profile, const struct report_options *options, bool json,
                     FILE *out);

#endif
