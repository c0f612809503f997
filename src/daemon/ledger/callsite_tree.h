/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The call stacks of one process, as a tree that shares their outer frames: a
 * node is a frame called from its parent, a callsite is the node of its
 * innermost frame. 16 bytes a node and 4 to 8 of index.
 *
 * Modules and stacks come from the client by address and by hash; both are
 * forgotten when it says so (a library was unloaded, its addresses may mean
 * another), while nodes stay and keep the module that they were made with.
 */
#ifndef HEAPPROFD_DAEMON_LEDGER_CALLSITE_TREE_H
#define HEAPPROFD_DAEMON_LEDGER_CALLSITE_TREE_H

#include <stddef.h>
#include <stdint.h>

#include "util/keyed_hash.h"
#include "wire/record.h"

/* Parent of outermost frames. */
#define CALLSITE_ROOT 0u

/* A frame's module when its address lies in none that is known (JIT code). */
#define CALLSITE_NO_MODULE UINT32_MAX
/* Not a frame: says why the frames outside it are missing; pc is enum callsite_ending. */
#define CALLSITE_ENDING (UINT32_MAX - 1)

enum callsite_ending {
    CALLSITE_ENDING_UNKNOWN = 0x100, /* no stack at all */
    CALLSITE_ENDING_TRUNCATED = 0x101,
    /* Below: the value of record_stack.error (enum unwind_stop of the client). */
};

/* Bounds for a client that means ill; a real one stays far below. */
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

struct callsite_stack {
    uint64_t hash; /* 0: no stack here */
    uint32_t node;
    uint32_t pad;
};

struct callsite_tree {
    struct callsite_node *nodes; /* [0] is the root */
    size_t node_count, node_capacity;
    uint32_t *index; /* of nodes by their content; 0: empty */
    size_t index_size;

    struct callsite_stack *stacks; /* by hash */
    size_t stack_count, stacks_size;

    struct callsite_module *modules; /* all there ever were */
    size_t module_count, module_capacity;
    uint32_t *mapped; /* those of now, by address */
    size_t mapped_count, mapped_capacity;

    uint32_t unknown; /* the callsite of samples without a known stack */

    /* The nodes of the stack that was added last, outermost first: the next one shares most. */
    uint32_t *path;
    size_t path_count, path_capacity;
    uint64_t path_ending;
};

/* 0 or -ENOMEM, as all below that return int. */
int callsite_tree_init(struct callsite_tree *tree);
void callsite_tree_clear(struct callsite_tree *tree);

int callsite_tree_add_module(struct callsite_tree *tree, const struct record_module *module);
/* A hash that is known already keeps its stack. */
int callsite_tree_add_stack(struct callsite_tree *tree, const struct record_stack *stack);
void callsite_tree_forget(struct callsite_tree *tree);

/* The index of the module that is mapped at the address; CALLSITE_NO_MODULE: none. */
uint32_t callsite_tree_module_at(const struct callsite_tree *tree, uint64_t address);

/* The callsite of a stack hash; CALLSITE_ROOT if it was never sent. */
uint32_t callsite_tree_find(const struct callsite_tree *tree, uint64_t hash);

/* Fetches what callsite_tree_find will look at. */
static inline void callsite_tree_prefetch(const struct callsite_tree *tree, uint64_t hash)
{
    __builtin_prefetch(&tree->stacks[keyed_hash(hash) & (tree->stacks_size - 1)]);
}

#endif
