/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Selects the code addresses of a profile for which a file on this machine may add names, or the
 * starts of functions without one. The profiler has read each module's own symbols, so a module
 * without a better file is asked about nameless addresses only.
 */
#ifndef HEAPPROFD_TOOLS_CLI_RECORD_SYMBOL_CANDIDATES_H
#define HEAPPROFD_TOOLS_CLI_RECORD_SYMBOL_CANDIDATES_H

#include <stdbool.h>
#include <stdint.h>

#include "profile/profile.h"
#include "profile/symbolize/symbolize.h"

struct symbol_candidates {
    struct trace_addresses found; /* modules for which files may add names */
    uint32_t *module_of;          /* by mapping of the profile; PROFILE_NONE: left out */
    bool *wants_nameless;         /* by module: its addresses with a name are left out */
    size_t mapping_count;
};

/* Collect the addresses. reasons[mapping] becomes 1 + enum symbol_reason for modules without a
 * better file. Clear *addresses, or let it live as long as the process. */
void symbol_candidates_collect(struct symbol_candidates *addresses, const struct profile *profile,
                               struct symbol_finder *finder, uint8_t *reasons);

/* Write the profiled processes, of more than these the first ones. Return their number. */
size_t symbol_candidates_processes(const struct profile *profile,
                                   pid_t processes[TRACE_PROCESSES_MAX]);

/* Set the reasons of the modules that were symbolized, from the report. */
void symbol_candidates_set_reasons(const struct symbol_candidates *addresses,
                                   const struct symbolize_report *report, uint8_t *reasons);

/* What was made from them must not be used any more. */
void symbol_candidates_clear(struct symbol_candidates *addresses);

#endif
