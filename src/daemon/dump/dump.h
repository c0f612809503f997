/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a ledger to the trace: mappings, frames with the names of their
 * functions, callstacks and figures.
 */
#ifndef HEAPPROFD_DAEMON_DUMP_DUMP_H
#define HEAPPROFD_DAEMON_DUMP_DUMP_H

#include <sys/types.h>

#include "daemon/ledger/ledger.h"
#include "daemon/walk/non_module_code.h"
#include "trace/config/trace_config.h"
#include "trace/write/trace_writer.h"

/* Symbol files that dumps have opened, to be shared by all dumps of a session. */
struct dump_files;

/* `pause`, which may be NULL, is called every few milliseconds while a dump is written, and may
 * take events in, those of the ledger that is dumped too: a dump holds what was at its beginning.
 * NULL: no memory. */
struct dump_files *dump_files_open(void (*pause)(void *context), void *context);
/* Frames of functions whose names (as in the symbol table) begin with one of these are left out of
 * stacks; ended by NULL, NULL: none; stays the caller's. */
void dump_files_skip(struct dump_files *files, char *const *prefixes);

/* Calls `pause` now: whoever writes a dump waits for something. */
void dump_files_pause(const struct dump_files *files);

void dump_files_close(struct dump_files *files);

struct dump_request {
    /* What the dumps say of the process; name, intervals, sample counts and peak of a heap are
     * filled in by the dump, and only the first heap has the remark. The exact totals are
     * malloc's. heap_name is NULL, or what is to stand in brackets behind the heaps' names. */
    struct trace_heap_dump status;
    uint64_t start_ms;
    /* A living process whose view of the files holds; 0 for our own view. */
    pid_t root_pid;
    bool shares_root; /* as in struct target_mapping */
    /* Exact totals by heap, RING_HEAPS_MAX of them; NULL: not known. */
    const struct ring_heap_totals *heap_totals;
    /* What an empty dump is called where there is no heap at all; NULL: libc.malloc. */
    const char *no_heap_name;
    enum heap_stack_mode stack_mode;
    /* Code that no module names, NULL: not known; and the path of the mapping that stands for what
     * of it was generated. */
    const struct non_module_code *unlisted;
    const char *generated_path;
};

/* Writes each heap of the ledger that was heard of as a dump. 0 or a negative errno. */
int dump_write(struct trace_writer *writer, struct dump_files *files, struct ledger *ledger,
               const struct dump_request *request);

#endif
