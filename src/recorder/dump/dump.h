/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes a ledger to the trace: mappings, frames with the names of their functions, callstacks and
 * figures.
 */
#ifndef HEAPPROFD_RECORDER_DUMP_DUMP_H
#define HEAPPROFD_RECORDER_DUMP_DUMP_H

#include <sys/types.h>

#include "recorder/dump/memory_sites.h"
#include "recorder/ledger/ledger.h"
#include "recorder/walk/non_module_code.h"
#include "trace/config/trace_config.h"
#include "trace/losses.h"
#include "trace/write/trace_writer.h"
#include "util/process_rights.h"

/* The symbol files that dumps have opened. All dumps of a session share them. */
struct dump_files;

/* Make an empty set of symbol files. `pause`, which may be NULL, is called every few milliseconds
 * while a dump is written. It may take in events, even those of the dumped ledger: a dump contains
 * the state at its beginning. NULL: no memory. */
struct dump_files *dump_files_open(void (*pause)(void *context), void *context);
/* Leave frames out of stacks if the name of their function (as in the symbol table) begins with one
 * of these prefixes. NULL ends the list, or stands for an empty one. The caller keeps it. */
void dump_files_skip(struct dump_files *files, char *const *prefixes);

/* Call `pause` now: the writer of a dump waits for something. */
void dump_files_pause(const struct dump_files *files);

void dump_files_close(struct dump_files *files);

/* Have the file reader read the symbols of the tree's modules from *prepared on, as far as it can
 * without our waiting. The next dump then finds them read. */
void dump_files_prepare(struct dump_files *files, const struct callsite_tree *tree,
                        size_t *prepared, pid_t pid, struct process_rights *rights);

struct dump_request {
    /* What the dumps say about the process. The dump fills in a heap's name, intervals, sample
     * counts and peak. Only the first heap has the remark. The exact totals are malloc's. heap_name
     * is NULL, or a text in brackets after the heaps' names. */
    struct trace_heap_dump status;
    uint64_t start_ms;
    /* A living process whose view of the file system is used; 0: our own. */
    pid_t root_pid;
    struct process_rights *rights; /* as in struct target_mapping */
    /* Exact totals of each heap, RING_HEAPS_MAX entries; NULL: unknown. */
    const struct ring_heap_totals *heap_totals;
    /* Name of the empty dump of a process without heaps; NULL: libc.malloc. */
    const char *no_heap_name;
    enum heap_stack_mode stack_mode;
    /* Code outside modules (NULL: unknown), and the path of the mapping that stands for generated
     * code. */
    const struct non_module_code *non_module_code;
    const char *generated_path;
    /* Of malloc's heap; their callsites are numbers of figures. NULL: none. */
    const struct memory_sites_found *sites;
};

/* Write each known heap of the ledger as a dump. Return 0 or a negative errno. */
int dump_write(struct trace_writer *writer, struct dump_files *files, struct ledger *ledger,
               const struct dump_request *request);

/* Convert the losses that a client counted in its ring to the trace's. */
void dump_losses(const uint64_t in_ring[RING_LOSS_COUNT], uint64_t in_trace[TRACE_LOST_PLACES]);

#endif
