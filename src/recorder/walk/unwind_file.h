/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Call frame information of files, for walks that a profiled process could not finish from its
 * loaded memory. The file reader parses the files (recorder/reader/file_reader.h). Rules that it
 * returned are cached here.
 *
 * Files are untrusted, and may take only a limited time. All processes of this process's sessions
 * share them. A file stays open while one of them uses it. Use them from one thread only.
 */
#ifndef HEAPPROFD_RECORDER_WALK_UNWIND_FILE_H
#define HEAPPROFD_RECORDER_WALK_UNWIND_FILE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "recorder/ledger/callsite_tree.h"
#include "recorder/reader/frame_rule.h"
#include "util/process_rights.h"

struct unwind_file;

/* Return the file of a process's module, or NULL if it cannot be read, is another file, or has no
 * call frame information. Release it with unwind_file_release(). */
struct unwind_file *unwind_file_acquire(pid_t pid, struct process_rights *rights,
                                        const struct callsite_module *module);
void unwind_file_release(struct unwind_file *file);

/* Return whether the file has more information than its part that is loaded into a process. */
bool unwind_file_has_more(const struct unwind_file *file);

/* The context of a look-up. */
struct unwind_lookup {
    pid_t pid;
    struct process_rights *rights;        /* as in struct target_mapping */
    const struct callsite_module *module; /* the one with which the file was taken */
    const uint64_t *words; /* the stack; rules of its other addresses are fetched, too */
    size_t word_count;
};

/* Return the rule for leaving the frame of the code at an ELF virtual address. NULL: the file has
 * none. The rule belongs to the file, and is valid until the next call. */
const struct frame_rule *unwind_file_rule(struct unwind_file *file, uint64_t address,
                                          const struct unwind_lookup *lookup);

#endif
