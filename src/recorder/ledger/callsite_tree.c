/* SPDX-License-Identifier: Apache-2.0 */
/* Intern modules, stacks and their frames. */
#include "recorder/ledger/callsite_tree.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "util/array.h"
#include "util/sorted_search.h"

#define NODES_FIRST 256u

static uint64_t node_hash(const struct callsite_node *node)
{
    return keyed_hash_pair(node->pc, ((uint64_t)node->parent << 32) | node->module);
}

static uint64_t hash_of_node(const void *nodes, uint32_t number)
{
    return node_hash((const struct callsite_node *)nodes + number);
}

int callsite_tree_init(struct callsite_tree *tree)
{
    memset(tree, 0, sizeof(*tree));
    tree->nodes = calloc(NODES_FIRST, sizeof(*tree->nodes));
    if (tree->nodes == NULL)
        return -ENOMEM;
    tree->node_capacity = NODES_FIRST;
    tree->nodes[0] = (struct callsite_node){.module = CALLSITE_NO_MODULE};
    tree->nodes[1] =
        (struct callsite_node){.module = CALLSITE_ENDING, .pc = CALLSITE_ENDING_UNKNOWN};
    tree->node_count = 2;
    tree->unknown = 1;
    return code_table_init(&tree->code);
}

void callsite_tree_clear(struct callsite_tree *tree)
{
    for (size_t i = 0; i < tree->module_count; i++)
        free(tree->modules[i].path);
    free(tree->modules);
    free(tree->mapped);
    free(tree->nodes);
    hash_index_free(&tree->index);
    id_map_free(&tree->stacks);
    free(tree->path);
    code_table_clear(&tree->code);
    memset(tree, 0, sizeof(*tree));
}

void callsite_tree_forget(struct callsite_tree *tree)
{
    tree->mapped_count = 0;
    tree->path_count = 0;
    id_map_clear(&tree->stacks);
}

/* --- modules --- */

static bool module_equals(const struct callsite_module *known, const struct record_module *module)
{
    const uint8_t *path = module->bytes + module->build_id_length;
    return known->start == module->start && known->end == module->end &&
           known->file_offset == module->file_offset && known->load_bias == module->load_bias &&
           known->build_id_length == module->build_id_length &&
           memcmp(known->build_id, module->bytes, module->build_id_length) == 0 &&
           strlen(known->path) == strnlen((const char *)path, module->path_length) &&
           memcmp(known->path, path, strlen(known->path)) == 0;
}

/* Intern the module and return its index. CALLSITE_NO_MODULE: no memory, or too many modules. */
static uint32_t module_intern(struct callsite_tree *tree, const struct record_module *module)
{
    for (size_t i = 0; i < tree->module_count; i++) {
        if (module_equals(&tree->modules[i], module))
            return (uint32_t)i;
    }
    if (tree->module_count >= CALLSITE_MODULES_MAX ||
        ARRAY_RESERVE(&tree->modules, &tree->module_capacity, tree->module_count, 1) < 0)
        return CALLSITE_NO_MODULE;
    struct callsite_module *added = &tree->modules[tree->module_count];
    added->start = module->start;
    added->end = module->end;
    added->file_offset = module->file_offset;
    added->load_bias = module->load_bias;
    added->build_id_length = module->build_id_length;
    memcpy(added->build_id, module->bytes, module->build_id_length);
    added->path =
        strndup((const char *)module->bytes + module->build_id_length, module->path_length);
    if (added->path == NULL)
        return CALLSITE_NO_MODULE;
    return (uint32_t)tree->module_count++;
}

/* Return the position of the first mapped module that ends after the address. */
static size_t mapped_position(const struct callsite_tree *tree, uint64_t address)
{
    return SORTED_SEARCH(tree->mapped_count, i, tree->modules[tree->mapped[i]].end <= address);
}

int callsite_tree_add_module(struct callsite_tree *tree, const struct record_module *module)
{
    uint32_t index = module_intern(tree, module);
    if (index == CALLSITE_NO_MODULE)
        return tree->module_count >= CALLSITE_MODULES_MAX ? 0 : -ENOMEM;
    if (ARRAY_RESERVE(&tree->mapped, &tree->mapped_capacity, tree->mapped_count, 1) < 0)
        return -ENOMEM;
    tree->path_count = 0; /* its addresses may belong to another module now */
    /* Modules that it overlaps are unloaded, or the client is wrong: the newer one counts. */
    size_t first = mapped_position(tree, module->start), last = first;
    while (last < tree->mapped_count && tree->modules[tree->mapped[last]].start < module->end)
        last++;
    memmove(&tree->mapped[first + 1], &tree->mapped[last],
            (tree->mapped_count - last) * sizeof(*tree->mapped));
    tree->mapped[first] = index;
    tree->mapped_count = tree->mapped_count - (last - first) + 1;
    return 0;
}

/* --- nodes --- */

/* Intern the node of a frame. CALLSITE_ROOT: no memory, or too many nodes. */
static uint32_t node_intern(struct callsite_tree *tree, uint32_t parent, uint32_t module,
                            uint64_t pc)
{
    struct callsite_node node = {.parent = parent, .module = module, .pc = pc};
    if (hash_index_reserve(&tree->index, tree->node_count, hash_of_node, tree->nodes) < 0)
        return CALLSITE_ROOT;
    const struct callsite_node *known = tree->nodes;
    uint32_t *slot = HASH_INDEX_SLOT(&tree->index, node_hash(&node), i,
                                     known[i].pc == pc && known[i].parent == parent &&
                                         known[i].module == module);
    if (*slot != 0)
        return *slot - 1;
    if (tree->node_count >= CALLSITE_NODES_MAX ||
        ARRAY_ADD(&tree->nodes, &tree->node_count, &tree->node_capacity, node) < 0)
        return CALLSITE_ROOT;
    *slot = (uint32_t)tree->node_count;
    return *slot - 1;
}

/* --- stacks --- */

uint32_t callsite_tree_find(const struct callsite_tree *tree, uint64_t hash)
{
    uint32_t node = hash != 0 ? id_map_find(&tree->stacks, hash) : ID_MAP_NONE;
    return node != ID_MAP_NONE ? node : CALLSITE_ROOT;
}

/* Return the frame's pc as nodes have it. */
static uint64_t pc_of(struct callsite_tree *tree, uint64_t frame)
{
    if (!(frame & RECORD_CODE_FRAME))
        return frame;
    return RECORD_CODE_FRAME | code_table_place(&tree->code, frame);
}

/* Return the node of the outermost frames that the stack shares with the previous stack, and their
 * number in *depth. They need no look-up. */
static uint32_t shared_path(struct callsite_tree *tree, const struct record_stack *stack,
                            uint64_t ending, uint32_t *depth)
{
    uint32_t node = CALLSITE_ROOT;
    *depth = 0;
    if (ending != tree->path_ending)
        return node;
    while (*depth < stack->count && *depth < tree->path_count &&
           tree->nodes[tree->path[*depth]].pc ==
               pc_of(tree, stack->frames[stack->count - 1 - *depth]))
        node = tree->path[(*depth)++];
    return node;
}

/* Return the module that is mapped at pc. Check `likely_one` first. */
static uint32_t module_at(const struct callsite_tree *tree, uint64_t pc, uint32_t likely_one)
{
    if (likely_one != CALLSITE_NO_MODULE && pc >= tree->modules[likely_one].start &&
        pc < tree->modules[likely_one].end)
        return likely_one;
    size_t position = mapped_position(tree, pc);
    if (position < tree->mapped_count && tree->modules[tree->mapped[position]].start <= pc)
        return tree->mapped[position];
    return CALLSITE_NO_MODULE;
}

uint32_t callsite_tree_module_at(const struct callsite_tree *tree, uint64_t address)
{
    return module_at(tree, address, CALLSITE_NO_MODULE);
}

/* Intern the frames, outermost first, so that stacks share their outer nodes. */
static uint32_t intern_frames(struct callsite_tree *tree, const struct record_stack *stack)
{
    uint64_t ending =
        stack->flags & RECORD_STACK_TRUNCATED ? CALLSITE_ENDING_TRUNCATED : stack->error & 0xff;
    if (ending == 0 && stack->count == 0)
        return tree->unknown;
    uint32_t depth, module = CALLSITE_NO_MODULE;
    uint32_t node = shared_path(tree, stack, ending, &depth);
    tree->path_count = 0;
    if (ARRAY_RESERVE(&tree->path, &tree->path_capacity, depth, stack->count - depth) < 0)
        return CALLSITE_ROOT;
    if (depth == 0 && ending != 0) {
        node = node_intern(tree, node, CALLSITE_ENDING, ending);
        if (node == CALLSITE_ROOT)
            return CALLSITE_ROOT;
    }
    for (; depth < stack->count; depth++) {
        uint64_t pc = pc_of(tree, stack->frames[stack->count - 1 - depth]);
        bool is_code = (pc & RECORD_CODE_FRAME) != 0;
        if (pc == (RECORD_CODE_FRAME | UINT32_MAX))
            return CALLSITE_ROOT;
        if (!is_code)
            module = module_at(tree, pc, module);
        node = node_intern(tree, node, is_code ? CALLSITE_CODE : module, pc);
        if (node == CALLSITE_ROOT)
            return CALLSITE_ROOT;
        tree->path[depth] = node;
    }
    tree->path_count = depth;
    tree->path_ending = ending;
    return node;
}

int callsite_tree_add_stack(struct callsite_tree *tree, const struct record_stack *stack)
{
    if (id_map_find(&tree->stacks, stack->hash) != ID_MAP_NONE)
        return 0;
    uint32_t node = intern_frames(tree, stack);
    if (node == CALLSITE_ROOT) {
        if (tree->node_count < CALLSITE_NODES_MAX)
            return -ENOMEM;
        node = tree->unknown;
    }
    return id_map_set(&tree->stacks, stack->hash, node);
}
