/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Code that the dynamic loader of a process does not list, so that the client has no module for it:
 * code from JIT compilers, and files that the program mapped itself (V8 maps its own builtins a
 * second time).
 *
 * Addresses are classified by the process's maps soon after the first stack with them, because the
 * process may end at any time. Names of generated code are read at its end, from the files that JIT
 * compilers write for perf (src/recorder/jit).
 */
#ifndef HEAPPROFD_RECORDER_WALK_NON_MODULE_CODE_H
#define HEAPPROFD_RECORDER_WALK_NON_MODULE_CODE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "recorder/ledger/callsite_tree.h"
#include "trace/write/trace_writer.h"

/* Further addresses stay unknown. */
#define NON_MODULE_ADDRESSES_MAX (1u << 20)
#define NON_MODULE_REMARK_BYTES 512

struct non_module_code;

/* Make it for a living process. NULL: no memory. */
struct non_module_code *non_module_code_open(pid_t pid);
void non_module_code_close(struct non_module_code *code);

/* Classify new addresses. The process's maps are read only now and then (now_ms: CLOCK_MONOTONIC),
 * and not if it is dead. */
void non_module_code_classify(struct non_module_code *code, const struct callsite_tree *tree,
                              uint64_t now_ms, bool dead);

/* Classify new addresses at once, before a dump that others will follow. Unknown ones stay unknown:
 * a stack must be the same in each dump. */
void non_module_code_settle(struct non_module_code *code, const struct callsite_tree *tree,
                            bool dead);

enum non_module_end {
    NON_MODULE_RUNS,
    NON_MODULE_REPLACED, /* by another program, which has the memory now */
    NON_MODULE_DEAD,
};
/* Read names, once, at the end of the process or of its profile. `pause`: as in dump.h. */
void non_module_code_name(struct non_module_code *code, const struct callsite_tree *tree,
                          enum non_module_end end, void (*pause)(void *context), void *context);

enum non_module_kind {
    NON_MODULE_UNKNOWN,
    NON_MODULE_GENERATED,
    NON_MODULE_FILE,
};
/* Return the kind of an address. *module is set for a file, else NULL; valid until the next
 * non_module_code_classify(). */
enum non_module_kind non_module_code_find(const struct non_module_code *code, uint64_t pc,
                                          const struct callsite_module **module);

/* Write the names that were read, for frames in the mapping with this path. */
int non_module_code_write(const struct non_module_code *code, struct trace_writer *writer,
                          const char *path);

/* Print, in sentences for users, what is missing, why, and what to do about it. "": nothing is
 * missing. */
void non_module_code_remark(const struct non_module_code *code, char text[NON_MODULE_REMARK_BYTES]);

#endif
