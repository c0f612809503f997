/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Code of a process that its dynamic loader does not know, and that the client therefore names no
 * module for: what JIT compilers made, and files that the program has mapped itself (V8 maps its
 * own builtins a second time).
 *
 * What an address is, is learnt from the process's maps soon after the first stack with it has
 * come, for the process may end at any time. What generated code is called, is learnt at its end,
 * from the files that JIT compilers write for perf (src/jit).
 */
#ifndef HEAPPROFD_DAEMON_WALK_NON_MODULE_CODE_H
#define HEAPPROFD_DAEMON_WALK_NON_MODULE_CODE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/ledger/callsite_tree.h"
#include "trace/write/trace_writer.h"

/* Addresses beyond these stay unknown. */
#define UNLISTED_ADDRESSES_MAX (1u << 20)
#define UNLISTED_REMARK_BYTES 512

struct non_module_code;

/* Of a living process. NULL: no memory. */
struct non_module_code *non_module_code_open(pid_t pid);
void non_module_code_close(struct non_module_code *code);

/* Looks at addresses that have come since; at the process's maps only now and then (now_ms:
 * CLOCK_MONOTONIC), and not if it is dead. */
void non_module_code_look(struct non_module_code *code, const struct callsite_tree *tree,
                          uint64_t now_ms, bool dead);

/* The same before a dump that others will follow: at once, and what is not known then stays so. A
 * stack must be the same one in each dump. */
void non_module_code_settle(struct non_module_code *code, const struct callsite_tree *tree,
                            bool dead);

enum unlisted_end {
    UNLISTED_RUNS,
    UNLISTED_REPLACED, /* by another program: its memory is that one's */
    UNLISTED_DEAD,
};
/* At the end of the process or of its profile: reads names, once. `pause` as in dump.h. */
void non_module_code_name(struct non_module_code *code, const struct callsite_tree *tree,
                          enum unlisted_end end, void (*pause)(void *context), void *context);

enum unlisted_kind {
    UNLISTED_UNKNOWN,
    UNLISTED_GENERATED,
    UNLISTED_FILE,
};
/* module: of a file, NULL else; valid until the next look. */
enum unlisted_kind non_module_code_find(const struct non_module_code *code, uint64_t pc,
                                        const struct callsite_module **module);

/* Names that were read, for frames in the mapping of this path. */
int non_module_code_write(const struct non_module_code *code, struct trace_writer *writer,
                          const char *path);

/* What is missing, why, and what to do about it: sentences for people; "": nothing is. */
void non_module_code_remark(const struct non_module_code *code, char text[UNLISTED_REMARK_BYTES]);

#endif
