/* SPDX-License-Identifier: Apache-2.0 */
/* Write mappings, frames and callstacks, each once. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "recorder/dump/dump_state.h"
#include "util/array.h"

/* A stack has at most as many frames as fit into its record, and an ending. */
#define FRAMES_MAX (RING_RECORD_BYTES_MAX / 8)

/* In place of the id of a frame that is left out of stacks. Real ids have 32 bits. */
#define FRAME_SKIPPED UINT32_MAX

/* --- ids --- */

/* Note the addresses of a mapping that has none in the trace, for the dump to state. If the process
 * has the mapping twice, the first place counts. */
static void add_place(struct dump *dump, const struct trace_place *place)
{
    size_t known = 0;
    while (known < dump->place_count && dump->places[known].mapping != place->mapping)
        known++;
    if (known < dump->place_count || known == TRACE_PLACES_MAX ||
        ARRAY_RESERVE(&dump->places, &dump->place_capacity, known, 1) < 0)
        return;
    dump->places[dump->place_count++] = *place;
}

static uint64_t mapping_of(struct dump *dump, const struct callsite_module *module)
{
    const struct trace_mapping mapping = {
        .path = module->path,
        .build_id = module->build_id,
        .build_id_length = module->build_id_length,
        .start = module->start,
        .end = module->end,
        .exact_offset = module->file_offset,
        .load_bias = module->load_bias,
    };
    uint64_t id = trace_writer_mapping(dump->writer, &mapping);
    if (!trace_writer_has_place(dump->writer, &mapping))
        add_place(dump, &(struct trace_place){id, module->start, module->end});
    return id;
}

static uint64_t mapping_id(struct dump *dump, uint32_t index)
{
    if (dump->mappings[index] != 0)
        return dump->mappings[index];
    const struct callsite_module *module = &dump->tree->modules[index];
    dump->mappings[index] = mapping_of(dump, module);
    dump_count_work(dump, 1);
    return dump->mappings[index];
}

static uint64_t frame_hash(const struct callsite_node *node)
{
    return keyed_hash_pair(node->pc, node->module);
}

/* The number of the table is in the lowest bits. */
static uint64_t hash_of_node(const void *nodes, uint32_t number)
{
    return frame_hash((const struct callsite_node *)nodes + number) / FRAME_TABLES;
}

static bool is_skipped(const struct dump_files *files, const char *name)
{
    for (char *const *prefix = files->skipped_prefixes;
         name != NULL && prefix != NULL && *prefix != NULL; prefix++) {
        if (**prefix != 0 && strncmp(name, *prefix, strlen(*prefix)) == 0)
            return true;
    }
    return false;
}

/* Return the id of a frame outside the client's modules. */
static uint64_t non_module_frame(struct dump *dump, uint64_t pc)
{
    const struct callsite_module *module;
    enum non_module_kind kind = non_module_code_find(dump->request->non_module_code, pc, &module);
    if (kind == NON_MODULE_GENERATED) {
        const struct trace_mapping generated = {.path = dump->request->generated_path};
        return trace_writer_jit_frame(dump->writer, trace_writer_mapping(dump->writer, &generated),
                                      pc);
    }
    if (kind == NON_MODULE_UNKNOWN)
        return trace_writer_frame(dump->writer, 0, pc, NULL);
    uint64_t address = dump_address_in_file(module, pc);
    const char *name = dump_file_name(dump_file_of_non_module(dump, module), address);
    return is_skipped(dump->files, name)
               ? FRAME_SKIPPED
               : trace_writer_frame(dump->writer, mapping_of(dump, module), address, name);
}

static const char *const language_paths[] = {
    [RECORD_LANGUAGE_PYTHON] = TRACE_PYTHON_PATH,
    [RECORD_LANGUAGE_RUBY] = TRACE_RUBY_PATH,
    [RECORD_LANGUAGE_PHP] = TRACE_PHP_PATH,
};

/* Return the id of a frame of an interpreted language. */
static uint64_t code_frame(struct dump *dump, uint64_t pc)
{
    const struct code_table *code = &dump->tree->code;
    struct code_place place = code->places[pc & UINT32_MAX];
    const struct code_function *function = &code->functions[place.function];
    const struct trace_source source = {
        .function = function->name, .file = function->file, .line = place.line};
    const struct trace_mapping mapping = {.path = language_paths[function->language]};
    return is_skipped(dump->files, function->name)
               ? FRAME_SKIPPED
               : trace_writer_source_frame(dump->writer,
                                           trace_writer_mapping(dump->writer, &mapping), &source);
}

/* Return the id of a frame in a module. */
static uint64_t listed_frame(struct dump *dump, struct callsite_node node)
{
    uint64_t mapping = mapping_id(dump, node.module);
    uint64_t address = dump_address_in_file(&dump->tree->modules[node.module], node.pc);
    const char *name = dump_file_name(dump_file_of(dump, node.module), address);
    return is_skipped(dump->files, name) ? FRAME_SKIPPED
                                         : trace_writer_frame(dump->writer, mapping, address, name);
}

/* Return the id of a node's frame, which other nodes may share. 0: no memory, or the writer
 * failed. */
static uint32_t frame_id(struct dump *dump, uint32_t number)
{
    if (dump->frame_of_node[number] != 0)
        return dump->frame_of_node[number];
    const struct callsite_node *nodes = dump->tree->nodes, node = nodes[number];
    struct frame_table *table = &dump->frame_tables[frame_hash(&node) % FRAME_TABLES];
    if (hash_index_reserve(&table->index, table->count, hash_of_node, nodes) < 0)
        return 0;
    uint32_t *slot = HASH_INDEX_SLOT(&table->index, hash_of_node(nodes, number), i,
                                     nodes[i].pc == node.pc && nodes[i].module == node.module);
    if (*slot != 0)
        return dump->frame_of_node[number] = dump->frame_of_node[*slot - 1];

    uint64_t id;
    if (node.module == CALLSITE_CODE)
        id = code_frame(dump, node.pc);
    else
        id = node.module == CALLSITE_NO_MODULE ? non_module_frame(dump, node.pc)
                                               : listed_frame(dump, node);
    if (id != 0) {
        *slot = number + 1;
        table->count++;
    }
    return dump->frame_of_node[number] = (uint32_t)id;
}

/* Return the name of the frame that states why outer frames are missing. The numbers are the
 * client's enum unwind_stop. */
static const char *ending_name(uint64_t ending)
{
    switch (ending) {
    case CALLSITE_ENDING_UNKNOWN:
        return "[unknown stack]";
    case CALLSITE_ENDING_TRUNCATED:
    case 1:
        return TRACE_TRUNCATED_FRAME;
    case 2:
        return TRACE_NO_UNWINDING_FRAME;
    case 3:
        return "[damaged unwind information]";
    case 4:
        return "[unreadable stack]";
    case 5:
        return "[stack without end]";
    case 7:
        return "[no room for the stack]";
    case 8:
        return "[unread unwind information]";
    default:
        return "[unwinding failed]";
    }
}

/* A stack under construction, innermost frame first. */
struct stack {
    uint64_t frames[FRAMES_MAX + RECORD_CONTEXT_NAMES_MAX + 2];
    size_t count;
};

static bool push_frame(struct stack *stack, uint64_t frame)
{
    if (frame == 0)
        return false;
    stack->frames[stack->count] = frame;
    stack->count += frame != FRAME_SKIPPED;
    return true;
}

/* Push a frame that is not code: the reason why frames are missing, a thread, or a scope. */
static bool push_name(struct dump *dump, struct stack *stack, const char *name)
{
    return push_frame(stack, trace_writer_marker(dump->writer, name[0] != 0 ? name : "[unnamed]"));
}

/* Push the known frames from a node outwards. Return the first node whose frame is not known, or
 * CALLSITE_ROOT after the outermost frame. */
static uint32_t push_known(const struct dump *dump, struct stack *stack, uint32_t node)
{
    const struct callsite_node *nodes = dump->tree->nodes;
    const uint32_t *known = dump->frame_of_node;
    size_t count = stack->count;
    while (node != CALLSITE_ROOT && count < FRAMES_MAX && known[node] != 0) {
        stack->frames[count] = known[node];
        count += known[node] != FRAME_SKIPPED;
        node = nodes[node].parent;
    }
    stack->count = count;
    return node;
}

static bool push_native(struct dump *dump, struct stack *stack, uint32_t node)
{
    for (;;) {
        uint32_t at = push_known(dump, stack, node);
        if (at == CALLSITE_ROOT || stack->count >= FRAMES_MAX)
            return true;
        struct callsite_node frame = dump->tree->nodes[at];
        if (frame.module == CALLSITE_ENDING)
            return push_name(dump, stack, ending_name(frame.pc));
        if (!push_frame(stack, frame_id(dump, at)))
            return false;
        node = frame.parent;
    }
}

static bool push_thread(struct dump *dump, struct stack *stack, uint16_t thread)
{
    size_t count;
    const struct ledger_thread *known = &ledger_threads(dump->ledger, &count)[thread];
    char name[32];
    snprintf(name, sizeof(name), known->name[0] != 0 ? "%s" : "[thread without a name]",
             known->name);
    return push_name(dump, stack, name);
}

static bool push_context(struct dump *dump, struct stack *stack, uint32_t tag)
{
    const struct tags *tags = ledger_tags(dump->ledger);
    uint32_t context = tags->items[tag].context;
    for (size_t i = 0; i < tags_context_depth(tags, context); i++) {
        if (!push_name(dump, stack, tags_scope_name(tags, context, i)))
            return false;
    }
    return true;
}

static bool push_all(struct dump *dump, struct stack *stack, const struct ledger_figures *figures)
{
    switch (dump->request->stack_mode) {
    case HEAP_STACK_THREAD_NAMES:
        return push_native(dump, stack, figures->node) && push_thread(dump, stack, figures->thread);
    case HEAP_STACK_PSEUDO:
        return push_context(dump, stack, figures->tag) &&
               (stack->count > 0 || push_name(dump, stack, "[no context]"));
    case HEAP_STACK_MIXED:
        return push_native(dump, stack, figures->node) && push_context(dump, stack, figures->tag);
    default:
        return push_native(dump, stack, figures->node);
    }
}

uint64_t dump_callstack_id(struct dump *dump, const struct ledger_figures *figures)
{
    bool by_node = dump->request->stack_mode == HEAP_STACK_NATIVE;
    if (by_node && dump->callstacks[figures->node] != 0)
        return dump->callstacks[figures->node];
    struct stack stack;
    stack.count = 0;
    if (!push_all(dump, &stack, figures))
        return 0;
    dump->work += (unsigned)stack.count;
    uint64_t id = trace_writer_callstack(dump->writer, stack.frames, stack.count, NULL);
    if (by_node)
        dump->callstacks[figures->node] = id;
    return id;
}

void dump_stacks_clear(struct dump *dump)
{
    free(dump->mappings);
    free(dump->file_of_module);
    free(dump->callstacks);
    free(dump->frame_of_node);
    free(dump->places);
    for (size_t i = 0; i < FRAME_TABLES; i++)
        hash_index_free(&dump->frame_tables[i].index);
}
