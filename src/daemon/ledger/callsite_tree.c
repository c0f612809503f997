/* SPDX-License-Identifier: Apache-2.0 */
/* Intern modules, stacks and their frames. */
#include "daemon/ledger/callsite_tree.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "util/array.h"
#include "util/sorted_search.h"

#define TABLE_SIZE_FIRST 256u

static uint64_t node_hash(const struct callsite_node *node)
{
    return keyed_hash_pair(node->pc, ((uint64_t)node->parent << 32) | node->module);
}

int callsite_tree_init(struct callsite_tree *tree)
{
    memset(tree, 0, sizeof(*tree));
    tree->index = calloc(TABLE_SIZE_FIRST, sizeof(*tree->index));
    tree->stacks = calloc(TABLE_SIZE_FIRST, sizeof(*tree->stacks));
    tree->nodes = calloc(TABLE_SIZE_FIRST, sizeof(*tree->nodes));
    if (tree->index == NULL || tree->stacks == NULL || tree->nodes == NULL) {
        callsite_tree_clear(tree);
        return -ENOMEM;
    }
    tree->index_size = tree->stacks_size = tree->node_capacity = TABLE_SIZE_FIRST;
    tree->nodes[0] = (struct callsite_node){.module = CALLSITE_NO_MODULE};
    tree->nodes[1] =
        (struct callsite_node){.module = CALLSITE_ENDING, .pc = CALLSITE_ENDING_UNKNOWN};
    tree->node_count = 2;
    tree->unknown = 1;
    return 0;
}

void callsite_tree_clear(struct callsite_tree *tree)
{
    for (size_t i = 0; i < tree->module_count; i++)
        free(tree->modules[i].path);
    free(tree->modules);
    free(tree->mapped);
    free(tree->nodes);
    free(tree->index);
    free(tree->stacks);
    free(tree->path);
    memset(tree, 0, sizeof(*tree));
}

void callsite_tree_forget(struct callsite_tree *tree)
{
    tree->mapped_count = 0;
    tree->path_count = 0;
    tree->stack_count = 0;
    memset(tree->stacks, 0, tree->stacks_size * sizeof(*tree->stacks));
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
        array_reserve(&tree->modules, &tree->module_capacity, tree->module_count, 1,
                      sizeof(*tree->modules)) < 0)
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
    if (array_reserve(&tree->mapped, &tree->mapped_capacity, tree->mapped_count, 1,
                      sizeof(*tree->mapped)) < 0)
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

static int index_grow(struct callsite_tree *tree)
{
    size_t size = tree->index_size * 2;
    uint32_t *index = calloc(size, sizeof(*index));
    if (index == NULL)
        return -ENOMEM;
    for (size_t i = 2; i < tree->node_count; i++) {
        size_t position = node_hash(&tree->nodes[i]) & (size - 1);
        while (index[position] != 0)
            position = (position + 1) & (size - 1);
        index[position] = (uint32_t)i;
    }
    free(tree->index);
    tree->index = index;
    tree->index_size = size;
    return 0;
}

/* Intern the node of a frame. CALLSITE_ROOT: no memory, or too many nodes. */
static uint32_t node_intern(struct callsite_tree *tree, uint32_t parent, uint32_t module,
                            uint64_t pc)
{
    struct callsite_node node = {.parent = parent, .module = module, .pc = pc};
    size_t mask = tree->index_size - 1;
    size_t position = node_hash(&node) & mask;
    while (tree->index[position] != 0) {
        const struct callsite_node *known = &tree->nodes[tree->index[position]];
        if (known->pc == pc && known->parent == parent && known->module == module)
            return tree->index[position];
        position = (position + 1) & mask;
    }
    if (tree->node_count >= CALLSITE_NODES_MAX ||
        array_reserve(&tree->nodes, &tree->node_capacity, tree->node_count, 1,
                      sizeof(*tree->nodes)) < 0)
        return CALLSITE_ROOT;
    if (tree->node_count * 4 >= tree->index_size * 3) {
        if (index_grow(tree) < 0)
            return CALLSITE_ROOT;
        mask = tree->index_size - 1;
        position = node_hash(&node) & mask;
        while (tree->index[position] != 0)
            position = (position + 1) & mask;
    }
    tree->nodes[tree->node_count] = node;
    tree->index[position] = (uint32_t)tree->node_count;
    return (uint32_t)tree->node_count++;
}

/* --- stacks --- */

static struct callsite_stack *stack_place(struct callsite_stack *stacks, size_t size, uint64_t hash)
{
    size_t position = keyed_hash(hash) & (size - 1);
    while (stacks[position].hash != 0 && stacks[position].hash != hash)
        position = (position + 1) & (size - 1);
    return &stacks[position];
}

static int stacks_grow(struct callsite_tree *tree)
{
    size_t size = tree->stacks_size * 2;
    struct callsite_stack *stacks = calloc(size, sizeof(*stacks));
    if (stacks == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < tree->stacks_size; i++) {
        if (tree->stacks[i].hash != 0)
            *stack_place(stacks, size, tree->stacks[i].hash) = tree->stacks[i];
    }
    free(tree->stacks);
    tree->stacks = stacks;
    tree->stacks_size = size;
    return 0;
}

uint32_t callsite_tree_find(const struct callsite_tree *tree, uint64_t hash)
{
    if (hash == 0)
        return CALLSITE_ROOT;
    const struct callsite_stack *stack = stack_place(tree->stacks, tree->stacks_size, hash);
    return stack->hash == hash ? stack->node : CALLSITE_ROOT;
}

/* Return the node of the outermost frames that the stack shares with the previous stack, and their
 * number in *depth. They need no look-up. */
static uint32_t shared_path(const struct callsite_tree *tree, const struct record_stack *stack,
                            uint64_t ending, uint32_t *depth)
{
    uint32_t node = CALLSITE_ROOT;
    *depth = 0;
    if (ending != tree->path_ending)
        return node;
    while (*depth < stack->count && *depth < tree->path_count &&
           tree->nodes[tree->path[*depth]].pc == stack->frames[stack->count - 1 - *depth])
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
    if (array_reserve(&tree->path, &tree->path_capacity, depth, stack->count - depth,
                      sizeof(*tree->path)) < 0)
        return CALLSITE_ROOT;
    if (depth == 0 && ending != 0) {
        node = node_intern(tree, node, CALLSITE_ENDING, ending);
        if (node == CALLSITE_ROOT)
            return CALLSITE_ROOT;
    }
    for (; depth < stack->count; depth++) {
        uint64_t pc = stack->frames[stack->count - 1 - depth];
        module = module_at(tree, pc, module);
        node = node_intern(tree, node, module, pc);
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
    if (tree->stack_count * 4 >= tree->stacks_size * 3 && stacks_grow(tree) < 0)
        return -ENOMEM;
    struct callsite_stack *place = stack_place(tree->stacks, tree->stacks_size, stack->hash);
    if (place->hash != 0)
        return 0;
    uint32_t node = intern_frames(tree, stack);
    if (node == CALLSITE_ROOT) {
        if (tree->node_count < CALLSITE_NODES_MAX)
            return -ENOMEM;
        node = tree->unknown;
    }
    place->hash = stack->hash;
    place->node = node;
    tree->stack_count++;
    return 0;
}
