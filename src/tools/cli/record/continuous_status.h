/* SPDX-License-Identifier: Apache-2.0 */
/* Shows the status of continuous mode, which the collector leaves in the daemon's run directory
 * (production/metrics/status_file.h). */
#ifndef HEAPPROFD_TOOLS_CLI_RECORD_CONTINUOUS_STATUS_H
#define HEAPPROFD_TOOLS_CLI_RECORD_CONTINUOUS_STATUS_H

#include "util/json_writer.h"

/* Print the status as text. Print nothing if continuous mode does not run. */
void continuous_status_print(const char *run_directory);

/* Write the member "continuous": null if continuous mode does not run. */
void continuous_status_print_json(struct json_writer *json, const char *run_directory);

#endif
