/* SPDX-License-Identifier: Apache-2.0 */
/* Writes functions, stacks, heaps and dumps. Numbers keep their order, so that the page adds up and
 * orders everything as the server does. */
#include "tools/view/saved/saved_stacks.h"

#include <stdlib.h>
#include <string.h>

#include "profile/compare/estimates.h"
#include "profile/partial.h"
#include "tools/view/saved/saved_heaps.h"
#include "util/xmalloc.h"

/* --- the samples of all heaps --- */

static struct saved_heap *add_heap(struct saved_heaps *heaps, size_t profile, size_t heap)
{
    const struct saved_heap one = {
        .profile = profile, .heap = heap, .of = &heaps->profiles->items[profile]};
    XARRAY_ADD(&heaps->items, &heaps->count, &heaps->capacity, one);
    struct saved_heap *added = &heaps->items[heaps->count - 1];
    snprintf(added->id, sizeof(added->id), "%zu.%zu", profile, heap);
    return added;
}

/* Write the dumps of a heap, and keep the list of its samples. */
static void take_heap(struct saved_heaps *heaps, struct kept_samples *samples, size_t profile,
                      size_t index)
{
    const struct view_kept_heap *kept = &heaps->kept->profiles[profile].items[index];
    const struct profile_heap *heap = &samples->profile->heaps[index];
    struct saved_heap *saved = add_heap(heaps, profile, index);
    for (size_t i = 0; i <= kept->last; i++) {
        if (!kept->dumps[i])
            continue;
        uint32_t *numbers = xcalloc(heap->dumps[i].sample_count + 1, sizeof(*numbers));
        kept_samples_add(samples, &heap->dumps[i], numbers);
        saved_dump_write(heaps, saved, i, numbers);
        free(numbers);
    }
    saved->samples = xcalloc(samples->count + 1, sizeof(*saved->samples));
    saved->sample_count = samples->count;
    for (size_t i = 0; i < samples->count; i++)
        saved->samples[i] = samples->items[i];
    kept_samples_reset(samples);
}

static void take_heaps(struct saved_heaps *heaps)
{
    for (size_t i = 0; i < heaps->profiles->count; i++) {
        struct kept_samples samples = {.profile = heaps->profiles->items[i].profile};
        for (size_t j = 0; j < samples.profile->heap_count; j++)
            if (heaps->kept->profiles[i].items[j].dumps != NULL)
                take_heap(heaps, &samples, i, j);
        kept_samples_free(&samples);
    }
}

/* --- the tree --- */

/* Turn marks into numbers, in order. Return how many there are. */
static size_t number_marked(uint32_t *marks, size_t count)
{
    uint32_t used = 0;
    for (size_t i = 0; i < count; i++)
        marks[i] = marks[i] != 0 ? used++ : STACK_NONE;
    return used;
}

/* Number the nodes that samples are at or below, and their functions. */
static void number_nodes(struct saved_heaps *heaps)
{
    const struct stack_tree *tree = &heaps->profiles->tree;
    for (size_t i = 0; i < heaps->count; i++) {
        const struct saved_heap *heap = &heaps->items[i];
        for (size_t j = 0; j < heap->sample_count; j++) {
            uint32_t node = heap->of->of_callsites[heap->samples[j]->callsite];
            for (; node != STACK_NONE && heaps->nodes[node] == 0; node = tree->nodes[node].parent) {
                heaps->nodes[node] = 1;
                heaps->functions[tree->nodes[node].function] = 1;
            }
        }
    }
    heaps->node_count = number_marked(heaps->nodes, tree->count);
    number_marked(heaps->functions, heaps->profiles->functions.count);
}

static void write_tree(struct saved_heaps *heaps)
{
    const struct stack_tree *tree = &heaps->profiles->tree;
    uint32_t *parents = xcalloc(heaps->node_count + 1, sizeof(*parents));
    uint32_t *functions = xcalloc(heaps->node_count + 1, sizeof(*functions));
    struct saved_block block;
    for (size_t i = 0; i < tree->count; i++) {
        const struct stack_node *node = &tree->nodes[i];
        uint32_t at = heaps->nodes[i];
        if (at == STACK_NONE)
            continue;
        /* How far above it its parent is; 0: it has none. */
        parents[at] = node->parent == STACK_NONE ? 0 : at - heaps->nodes[node->parent];
        functions[at] = heaps->functions[node->function];
    }
    saved_block_begin(&block);
    saved_block_numbers(&block, "above", parents, heaps->node_count);
    saved_block_numbers(&block, "function", functions, heaps->node_count);
    saved_block_end(&block, heaps->blocks, "tree");
    free(parents);
    free(functions);
}

/* --- functions --- */

static void write_function(struct json_writer *json, const struct saved_heaps *heaps,
                           uint32_t index)
{
    struct function_names names;
    const struct function *function = &heaps->profiles->functions.items[index];
    const struct view_profile *of = view_profiles_of(heaps->profiles, function->profile);
    const struct known_frames *known = folding_of(&of->folding, function->frame);
    functions_name(&heaps->profiles->functions, index, &names);
    json_line(json);
    json_object(json, NULL);
    json_string(json, "name", names.name);
    if (strcmp(names.name, names.full_name) != 0)
        json_string(json, "full_name", names.full_name);
    if (*names.path != '\0')
        json_string(json, "path", names.path);
    if (*names.file != '\0') {
        json_string(json, "file", names.file);
        json_unsigned(json, "line", names.line);
    }
    if (*names.kind != '\0')
        json_string(json, "kind", names.kind);
    if (known != NULL)
        json_string(json, "folded", known->allocates ? "allocates" : "other");
    json_end_object(json);
}

static void write_functions(struct saved_heaps *heaps)
{
    struct saved_block block;
    saved_block_begin(&block);
    json_array(&block.json, "functions");
    for (size_t i = 0; i < heaps->profiles->functions.count; i++)
        if (heaps->functions[i] != STACK_NONE)
            write_function(&block.json, heaps, (uint32_t)i);
    json_end_array(&block.json);
    saved_block_end(&block, heaps->blocks, "functions");
}

/* --- */

void saved_stacks_write(struct saved_blocks *blocks, struct view_profiles *profiles,
                        const struct view_kept *kept, const struct view_opening *opening)
{
    struct saved_heaps heaps = {
        .blocks = blocks,
        .profiles = profiles,
        .kept = kept,
        .nodes = xcalloc(profiles->tree.count + 1, sizeof(*heaps.nodes)),
        .functions = xcalloc(profiles->functions.count + 1, sizeof(*heaps.functions)),
    };
    take_heaps(&heaps);
    number_nodes(&heaps);
    write_functions(&heaps);
    write_tree(&heaps);
    for (size_t i = 0; i < heaps.count; i++)
        saved_heap_write(&heaps, &heaps.items[i]);
    saved_pairs_write(&heaps, opening);
    for (size_t i = 0; i < heaps.count; i++)
        free(heaps.items[i].samples);
    free(heaps.items);
    free(heaps.nodes);
    free(heaps.functions);
}
