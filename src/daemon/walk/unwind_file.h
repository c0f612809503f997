/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Call frame information of files, for walks that a profiled process could not finish by what it
 * has loaded. The file reader parses the files (reader/file_reader.h); rules that were asked for
 * once are kept here.
 *
 * Files are anybody's, and may take only so much time. They are shared by all processes of this
 * one's sessions, and live as long as one of them uses them. For one thread.
 */
#ifndef HEAPPROFD_DAEMON_WALK_UNWIND_FILE_H
#define HEAPPROFD_DAEMON_WALK_UNWIND_FILE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/ledger/callsite_tree.h"
#include "reader/frame_rule.h"

struct unwind_file;

/* The file of a process's module; NULL: it cannot be read, is another one, or has no call frame
 * information. To be given back. */
struct unwind_file *unwind_file_take(pid_t pid, bool shares_root,
                                     const struct callsite_module *module);
void unwind_file_give(struct unwind_file *file);

/* Whether it says more than what is loaded from it into a process. */
bool unwind_file_says_more(const struct unwind_file *file);

/* For whom a rule is looked up. */
struct unwind_look {
    pid_t pid;
    bool shares_root;                     /* as in struct target_mapping */
    const struct callsite_module *module; /* as when the file was taken */
    const uint64_t *words;                /* the stack, whose other addresses will be looked up */
    size_t word_count;
};

/* How to leave the frame of the code at an ELF virtual address; NULL: it does not say. Valid until
 * the next call, and not the caller's. */
const struct frame_rule *unwind_file_rule(struct unwind_file *file, uint64_t address,
                                          const struct unwind_look *look);

#endif
