/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The call stacks of one process, as a tree that shares their outer frames: a node is a frame
 * called from its parent, a callsite is the node of its innermost frame. A node takes 16 bytes, and
 * 5 to 11 bytes of index.
 *
 * The client sends modules by address and stacks by hash. Both are forgotten when it asks for that
 * (a library was unloaded, and its addresses may belong to another one). Nodes stay and keep the
 * module that they were made with.
 */
#ifndef HEAPPROFD_RECORDER_LEDGER_CALLSITE_TREE_H
#define HEAPPROFD_RECORDER_LEDGER_CALLSITE_TREE_H

#include <stddef.h>
#include <stdint.h>

#include "recorder/ledger/code_table.h"
#include "util/hash_index.h"
#include "util/id_map.h"
#include "wire/record.h"

/* Parent of outermost frames. */
#define CALLSITE_ROOT 0u

/* The module of a frame whose address is in no known module (JIT code). */
#define CALLSITE_NO_MODULE UINT32_MAX
/* Not a frame, but the reason why the outer frames are missing. pc is an enum callsite_ending. */
#define CALLSITE_ENDING (UINT32_MAX - 1)

/* A frame of an interpreted language. pc is RECORD_CODE_FRAME and the number of its place in
 * callsite_tree.code. */
#define CALLSITE_CODE (UINT32_MAX - 2)

enum callsite_ending {
    CALLSITE_ENDING_UNKNOWN = 0x100, /* no stack at all */
    CALLSITE_ENDING_TRUNCATED = 0x101,
    /* Smaller values are record_stack.error (enum unwind_stop of the client). */
};

/* Bounds against a malicious client; a real one stays far below. */
#define CALLSITE_NODES_MAX (16u << 20)
#define CALLSITE_MODULES_MAX (64u << 10)

struct callsite_node {
    uint32_t parent;
    uint32_t module;
    uint64_t pc;
};

struct callsite_module {
    uint64_t start, end, file_offset, load_bias;
    uint16_t build_id_length;
    char *path; /* terminated */
    uint8_t build_id[RECORD_BUILD_ID_MAX];
};

struct callsite_tree {
    struct callsite_node *nodes; /* [0] is the root */
    size_t node_count, node_capacity;
    struct hash_index index; /* of nodes */

    struct id_map stacks; /* by hash: the callsite */

    struct callsite_module *modules; /* all modules of the process's life */
    size_t module_count, module_capacity;
    uint32_t *mapped; /* the currently mapped ones, by address */
    size_t mapped_count, mapped_capacity;

    struct code_table code;

    uint32_t unknown; /* the callsite of samples whose stack is unknown */

    /* The nodes of the last added stack, outermost first: the next stack shares most of them. */
    uint32_t *path;
    size_t path_count, path_capacity;
    uint64_t path_ending;
};

/* Functions that return int return 0 or -ENOMEM. */
int callsite_tree_init(struct callsite_tree *tree);
void callsite_tree_clear(struct callsite_tree *tree);

int callsite_tree_add_module(struct callsite_tree *tree, const struct record_module *module);
/* If the hash is known already, its stack stays. */
int callsite_tree_add_stack(struct callsite_tree *tree, const struct record_stack *stack);
void callsite_tree_forget(struct callsite_tree *tree);

/* Return the index of the module that is mapped at the address, or CALLSITE_NO_MODULE. */
uint32_t callsite_tree_module_at(const struct callsite_tree *tree, uint64_t address);

/* Return the callsite of a stack hash, or CALLSITE_ROOT if the stack was never sent. */
uint32_t callsite_tree_find(const struct callsite_tree *tree, uint64_t hash);

/* Prefetch what callsite_tree_find() reads. */
PREFETCHING callsite_tree_prefetch(const struct callsite_tree *tree, uint64_t hash)
{
    id_map_prefetch(&tree->stacks, hash);
}

#endif
