/* SPDX-License-Identifier: Apache-2.0 */
/* How a process ended, and why a dump was taken that nobody asked for, as lines of the text report
 * and as JSON. */
#ifndef HEAPPROFD_TOOLS_PRINT_REPORT_END_H
#define HEAPPROFD_TOOLS_PRINT_REPORT_END_H

#include <stdio.h>

#include "profile/profile.h"
#include "util/json_writer.h"

/* Print the lines that apply to this dump of the process, perhaps none. */
void report_end_print_text(const struct profile_process *process, const struct profile_dump *dump,
                           FILE *out);

/* Print the member "end": null if the process still ran, or the trace does not say how it ended. */
void report_end_print_json(const struct profile_process *process, struct json_writer *json);
/* Print the member "cause": null if somebody asked for the dump, or it is the last one. */
void report_cause_print_json(const struct profile_dump *dump, struct json_writer *json);

#endif
