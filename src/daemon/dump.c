/* See dump.h. */
#include "daemon/dump.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "symbols/symbols.h"
#include "util/array.h"

/* A stack cannot be deeper than its record is long, plus its ending. */
#define FRAMES_MAX (RING_RECORD_BYTES_MAX / 8)

struct dump_file {
    char *path;
    uint8_t build_id[RECORD_BUILD_ID_MAX];
    size_t build_id_length;
    struct symbol_file *symbols; /* NULL: could not be had */
};

struct dump_files {
    struct dump_file *files;
    size_t count, capacity;
    void (*pause)(void *context);
    void *pause_context;
    char *const *skipped_prefixes;
};

/* In place of the id of a frame that is left out of stacks. */
#define FRAME_SKIPPED UINT64_MAX

/* Between two pauses, in units of about 20 ns: 2 ms, or as long as one symbol file takes. */
#define WORK_UNTIL_PAUSE 100000u
#define WORK_OF_ROW 30u /* beside its frames and threads */
#define WORK_OF_THREAD 10u

#define FRAME_TABLES 64u

/* Trace ids of what the ledger has by index, filled as they are needed; 0: not yet. */
struct dump {
    struct trace_writer *writer;
    struct dump_files *files;
    const struct ledger *ledger;
    const struct ledger_snapshot *snapshot; /* what is written; the ledger goes on */
    const struct callsite_tree *tree;
    const struct dump_request *request;
    unsigned work; /* since the last pause */
    uint64_t *mappings;
    struct symbol_file **symbols; /* of a module, once mappings[] is filled */
    uint64_t *callstacks;         /* by node */
    uint64_t *types, *contexts;   /* by their numbers */
    /* Ids of frames by module and pc, open addressing. In many tables that grow one at a time: one
     * would take 30 ms to grow to half a million, without a pause. */
    struct frame_table {
        struct known_frame {
            uint64_t pc, id;
            uint32_t module;
        } * frames;
        size_t count, size;
    } frame_tables[FRAME_TABLES];
    /* Figures of one heap, those of one callstack as a list. */
    struct dump_row {
        uint32_t figures;
        uint32_t next; /* row + 1; 0: the last */
    } * rows;
    size_t row_count;
    uint64_t other_types, other_contexts; /* samples in them whose tags were too many */
    uint32_t *first_rows;                 /* by callstack: row + 1; 0: none */
    size_t first_count, first_capacity;
    /* Of the callstack that is written. */
    struct dump_part {
        uint32_t tid, tag, figures;
    } * parts;
    size_t part_capacity;
    struct trace_thread_figures *threads;
    size_t thread_capacity;
};

struct dump_files *dump_files_open(void (*pause)(void *context), void *context)
{
    struct dump_files *files = calloc(1, sizeof(*files));
    if (files != NULL) {
        files->pause = pause;
        files->pause_context = context;
    }
    return files;
}

void dump_files_skip(struct dump_files *files, char *const *prefixes)
{
    files->skipped_prefixes = prefixes;
}

void dump_files_close(struct dump_files *files)
{
    if (files == NULL)
        return;
    for (size_t i = 0; i < files->count; i++) {
        symbol_file_close(files->files[i].symbols);
        free(files->files[i].path);
    }
    free(files->files);
    free(files);
}

/* Lets others work once enough was done; what the ledger's arrays hold may move then. */
static void breathe(struct dump *dump, unsigned work)
{
    dump->work += work;
    if (dump->work < WORK_UNTIL_PAUSE || dump->files->pause == NULL)
        return;
    dump->work = 0;
    dump->files->pause(dump->files->pause_context);
}

/* --- names --- */

/* Opens what the client named, if it is an ordinary file: opening a pipe would
 * wait, opening a device may do anything. */
static int open_regular(const char *path)
{
    struct stat status;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd >= 0 && (fstat(fd, &status) < 0 || !S_ISREG(status.st_mode))) {
        close(fd);
        fd = -1;
    }
    return fd;
}

static struct symbol_file *open_symbols(const struct callsite_module *module, pid_t root_pid)
{
    if (module->path[0] != '/')
        return NULL;
    struct symbol_file *symbols = NULL;
    char path[RECORD_PATH_MAX + 64];
    /* Through the process's root first: in a container the same path is another file. */
    for (int attempt = root_pid > 0 ? 0 : 1; attempt < 2 && symbols == NULL; attempt++) {
        if (attempt == 0)
            snprintf(path, sizeof(path), "/proc/%d/root%s", (int)root_pid, module->path);
        else
            snprintf(path, sizeof(path), "%s", module->path);
        int fd = open_regular(path);
        if (fd < 0)
            continue;
        symbols = symbol_file_open_fd(fd, module->build_id, module->build_id_length, NULL);
        close(fd);
    }
    return symbols;
}

static struct symbol_file *symbols_of(struct dump *dump, const struct callsite_module *module)
{
    struct dump_files *files = dump->files;
    for (size_t i = 0; i < files->count; i++) {
        const struct dump_file *known = &files->files[i];
        if (known->build_id_length == module->build_id_length &&
            memcmp(known->build_id, module->build_id, module->build_id_length) == 0 &&
            strcmp(known->path, module->path) == 0)
            return known->symbols;
    }
    if (array_reserve(&files->files, &files->capacity, files->count, 1, sizeof(*files->files)) < 0)
        return NULL;
    char *path = strdup(module->path);
    if (path == NULL)
        return NULL;
    struct dump_file *added = &files->files[files->count++];
    added->path = path;
    added->build_id_length = module->build_id_length;
    memcpy(added->build_id, module->build_id, module->build_id_length);
    added->symbols = open_symbols(module, dump->request->root_pid);
    dump->work += WORK_UNTIL_PAUSE;
    return added->symbols;
}

/* --- ids --- */

static uint64_t mapping_id(struct dump *dump, uint32_t index)
{
    if (index == CALLSITE_NO_MODULE)
        return 0;
    if (dump->mappings[index] != 0)
        return dump->mappings[index];
    const struct callsite_module *module = &dump->tree->modules[index];
    struct trace_mapping mapping = {
        .path = module->path,
        .build_id = module->build_id,
        .build_id_length = module->build_id_length,
        .start = module->start,
        .end = module->end,
        .exact_offset = module->file_offset,
        .load_bias = module->load_bias,
    };
    dump->mappings[index] = trace_writer_mapping(dump->writer, &mapping);
    dump->symbols[index] = symbols_of(dump, module);
    breathe(dump, 1);
    return dump->mappings[index];
}

static uint64_t frame_hash(uint32_t module, uint64_t pc)
{
    uint64_t hash = (pc ^ (uint64_t)module << 48) * UINT64_C(0x9E3779B97F4A7C15);
    return hash ^ hash >> 32;
}

static struct known_frame *frame_place(const struct frame_table *table, uint32_t module,
                                       uint64_t pc)
{
    size_t position = frame_hash(module, pc) / FRAME_TABLES & (table->size - 1);
    while (table->frames[position].id != 0 &&
           (table->frames[position].pc != pc || table->frames[position].module != module))
        position = (position + 1) & (table->size - 1);
    return &table->frames[position];
}

static int frames_grow(struct frame_table *table)
{
    struct frame_table grown = {.count = table->count,
                                .size = table->size == 0 ? 16 : table->size * 2};
    grown.frames = calloc(grown.size, sizeof(*grown.frames));
    if (grown.frames == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < table->size; i++) {
        const struct known_frame *known = &table->frames[i];
        if (known->id != 0)
            *frame_place(&grown, known->module, known->pc) = *known;
    }
    free(table->frames);
    *table = grown;
    return 0;
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

/* 0: no memory, or the writer failed. */
static uint64_t frame_id(struct dump *dump, struct callsite_node node)
{
    struct frame_table *table =
        &dump->frame_tables[frame_hash(node.module, node.pc) % FRAME_TABLES];
    if (table->count * 2 >= table->size && frames_grow(table) < 0)
        return 0;
    struct known_frame *place = frame_place(table, node.module, node.pc);
    if (place->id != 0)
        return place->id;

    uint64_t mapping = mapping_id(dump, node.module), rel_pc = node.pc;
    const char *name = NULL;
    if (node.module != CALLSITE_NO_MODULE) {
        const struct callsite_module *module = &dump->tree->modules[node.module];
        rel_pc = node.pc - module->start + module->file_offset + module->load_bias;
        if (dump->symbols[node.module] != NULL)
            name = symbol_file_lookup(dump->symbols[node.module], rel_pc);
    }
    place->module = node.module;
    place->pc = node.pc;
    place->id = is_skipped(dump->files, name)
                    ? FRAME_SKIPPED
                    : trace_writer_frame(dump->writer, mapping, rel_pc, name);
    table->count += place->id != 0;
    return place->id;
}

/* Why frames are missing, as the outermost frame is to be named; the numbers are
 * those of the client's enum unwind_stop. */
static const char *ending_name(uint64_t ending)
{
    switch (ending) {
    case CALLSITE_ENDING_UNKNOWN:
        return "[unknown stack]";
    case CALLSITE_ENDING_TRUNCATED:
    case 1:
        return TRACE_TRUNCATED_FRAME;
    case 2:
        return "[no unwind information]";
    case 3:
        return "[damaged unwind information]";
    case 4:
        return "[unreadable stack]";
    case 5:
        return "[stack without end]";
    default:
        return "[unwinding failed]";
    }
}

/* A stack that is being put together, innermost frame first. */
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

/* What is not code: why frames are missing, a thread, a scope. */
static bool push_name(struct dump *dump, struct stack *stack, const char *name)
{
    return push_frame(stack, trace_writer_marker(dump->writer, name[0] != 0 ? name : "[unnamed]"));
}

static bool push_native(struct dump *dump, struct stack *stack, uint32_t node)
{
    for (uint32_t at = node; at != CALLSITE_ROOT && stack->count < FRAMES_MAX;
         at = dump->tree->nodes[at].parent) {
        struct callsite_node frame = dump->tree->nodes[at];
        if (frame.module == CALLSITE_ENDING)
            return push_name(dump, stack, ending_name(frame.pc));
        if (!push_frame(stack, frame_id(dump, frame)))
            return false;
    }
    return true;
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

/* 0: no memory, or the writer failed. */
static uint64_t callstack_id(struct dump *dump, const struct ledger_figures *figures)
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

/* --- figures --- */

static int compare_parts(const void *left_pointer, const void *right_pointer)
{
    const struct dump_part *left = left_pointer, *right = right_pointer;
    if (left->tid != right->tid)
        return left->tid < right->tid ? -1 : 1;
    if (left->tag != right->tag)
        return left->tag < right->tag ? -1 : 1;
    return left->figures < right->figures ? -1 : left->figures > right->figures;
}

static void figures_add(struct trace_figures *sum, const struct trace_figures *part)
{
    sum->allocated_bytes += part->allocated_bytes;
    sum->freed_bytes += part->freed_bytes;
    sum->allocated_count += part->allocated_count;
    sum->freed_count += part->freed_count;
    sum->allocated_bytes_variance += part->allocated_bytes_variance;
    sum->freed_bytes_variance += part->freed_bytes_variance;
    sum->allocated_count_variance += part->allocated_count_variance;
    sum->freed_count_variance += part->freed_count_variance;
    sum->samples += part->samples;
    sum->freed_samples += part->freed_samples;
    sum->temporary_bytes += part->temporary_bytes;
    sum->temporary_count += part->temporary_count;
    sum->lifetime_ms_sum += part->lifetime_ms_sum;
}

/* The list of the callstack's rows; NULL: no memory. */
static uint32_t *first_row(struct dump *dump, uint64_t callstack)
{
    if (callstack >= dump->first_count) {
        size_t more = callstack + 1 - dump->first_count;
        if (array_reserve(&dump->first_rows, &dump->first_capacity, dump->first_count, more,
                          sizeof(*dump->first_rows)) < 0)
            return NULL;
        memset(dump->first_rows + dump->first_count, 0, more * sizeof(*dump->first_rows));
        dump->first_count += more;
    }
    return &dump->first_rows[callstack];
}

/* Sorts by callstack without comparing: many rows would take long at a stretch. */
static int collect_rows(struct dump *dump, uint8_t heap)
{
    dump->row_count = 0;
    dump->other_types = dump->other_contexts = 0;
    for (size_t i = 0; i < dump->snapshot->figures_count; i++) {
        breathe(dump, 1);
        struct ledger_figures figures = ledger_snapshot_figures(dump->ledger, dump->snapshot, i);
        if (figures.heap != heap)
            continue;
        const struct tag tag = ledger_tags(dump->ledger)->items[figures.tag];
        dump->other_types += tag.type == TAG_OTHERS ? figures.sums.samples : 0;
        dump->other_contexts += tag.context == TAG_OTHERS ? figures.sums.samples : 0;
        uint64_t callstack = callstack_id(dump, &figures);
        uint32_t *first = callstack != 0 ? first_row(dump, callstack) : NULL;
        if (first == NULL)
            return -ENOMEM;
        dump->rows[dump->row_count++] = (struct dump_row){(uint32_t)i, *first};
        *first = (uint32_t)dump->row_count;
    }
    return 0;
}

/* What makes up one callstack, by thread and tag; its rows are taken off the list. */
static ssize_t take_parts(struct dump *dump, uint64_t callstack)
{
    size_t count = 0, thread_count;
    const struct ledger_thread *threads = ledger_threads(dump->ledger, &thread_count);
    for (uint32_t row = dump->first_rows[callstack]; row != 0; row = dump->rows[row - 1].next) {
        uint32_t index = dump->rows[row - 1].figures;
        if (array_reserve(&dump->parts, &dump->part_capacity, count, 1, sizeof(*dump->parts)) < 0 ||
            array_reserve(&dump->threads, &dump->thread_capacity, count, 1,
                          sizeof(*dump->threads)) < 0)
            return -ENOMEM;
        struct ledger_figures figures =
            ledger_snapshot_figures(dump->ledger, dump->snapshot, index);
        dump->parts[count++] = (struct dump_part){threads[figures.thread].tid, figures.tag, index};
    }
    dump->first_rows[callstack] = 0;
    if (count > 1)
        qsort(dump->parts, count, sizeof(*dump->parts), compare_parts);
    return (ssize_t)count;
}

static uint64_t type_id(struct dump *dump, uint32_t type)
{
    if (type != TAG_NONE && dump->types[type] == 0)
        dump->types[type] =
            trace_writer_heap_name(dump->writer, tags_type_name(ledger_tags(dump->ledger), type));
    return dump->types[type];
}

static uint64_t context_id(struct dump *dump, uint32_t context)
{
    if (context == TAG_NONE || dump->contexts[context] != 0)
        return dump->contexts[context];
    const struct tags *tags = ledger_tags(dump->ledger);
    uint64_t names[RECORD_CONTEXT_NAMES_MAX];
    size_t count = tags_context_depth(tags, context);
    for (size_t i = 0; i < count; i++)
        names[i] =
            trace_writer_heap_name(dump->writer, tags_scope_name(tags, context, count - 1 - i));
    dump->contexts[context] = trace_writer_heap_context(dump->writer, names, count);
    dump->work += (unsigned)count;
    return dump->contexts[context];
}

/* A thread's part of one tag, nothing yet. */
static void begin_part(struct dump *dump, const struct dump_part *part,
                       struct trace_thread_figures *figures)
{
    const struct tag tag = ledger_tags(dump->ledger)->items[part->tag];
    *figures = (struct trace_thread_figures){.tid = (int32_t)part->tid,
                                             .type = type_id(dump, tag.type),
                                             .context = context_id(dump, tag.context)};
}

static void sum_parts(struct dump *dump, size_t count, struct trace_heap_sample *sample)
{
    for (size_t i = 0; i < count; i++) {
        const struct dump_part *part = &dump->parts[i];
        struct ledger_figures figures =
            ledger_snapshot_figures(dump->ledger, dump->snapshot, part->figures);
        if (i == 0 || part[-1].tid != part->tid || part[-1].tag != part->tag)
            begin_part(dump, part, &dump->threads[sample->thread_count++]);
        struct trace_thread_figures *thread = &dump->threads[sample->thread_count - 1];
        figures_add(&thread->figures, &figures.sums);
        thread->peak_bytes += figures.peak_bytes;
        thread->peak_count += figures.peak_count;
        thread->peak_bytes_variance += figures.peak_bytes_variance;
        thread->peak_count_variance += figures.peak_count_variance;
        figures_add(&sample->figures, &figures.sums);
        sample->peak_bytes += figures.peak_bytes;
        sample->peak_count += figures.peak_count;
        sample->peak_bytes_variance += figures.peak_bytes_variance;
        sample->peak_count_variance += figures.peak_count_variance;
        breathe(dump, WORK_OF_THREAD);
    }
    sample->threads = dump->threads;
}

static int write_samples(struct dump *dump)
{
    int code = 0;
    for (uint64_t callstack = 1; callstack < dump->first_count && code == 0; callstack++) {
        if (dump->first_rows[callstack] == 0)
            continue;
        struct trace_heap_sample sample = {.callstack = callstack};
        ssize_t count = take_parts(dump, callstack);
        if (count < 0)
            return (int)count;
        sum_parts(dump, (size_t)count, &sample);
        code = trace_writer_dump_sample(dump->writer, &sample);
        breathe(dump, WORK_OF_ROW);
    }
    return code;
}

/* How many heaps before this one have its name. */
static unsigned same_before(const struct ledger_heap *heaps, size_t index)
{
    unsigned same = 0;
    for (size_t i = 0; i < index; i++)
        same += heaps[i].known && strcmp(heaps[i].name, heaps[index].name) == 0;
    return same;
}

/* What a heap is called: two of one name must not look like two dumps of one heap. */
static void name_heap(const struct dump *dump, size_t index, char *name, size_t size)
{
    const struct ledger_heap *heaps = dump->snapshot->heaps;
    unsigned same = same_before(heaps, index);
    if (heaps[index].name[0] == 0)
        snprintf(name, size, "heap %zu", index);
    else if (same > 0)
        snprintf(name, size, "%.63s-%u", heaps[index].name, same + 1);
    else
        snprintf(name, size, "%.63s", heaps[index].name);
}

static void fill_heap(const struct dump *dump, size_t index, struct trace_heap_dump *filled)
{
    const struct ledger_snapshot *snapshot = dump->snapshot;
    const struct ledger_heap *heap = &snapshot->heaps[index];
    const struct ring_heap_totals *totals = dump->request->heap_totals;
    filled->interval_bytes = index == 0 ? snapshot->interval_bytes : heap->interval_bytes;
    filled->first_interval_bytes =
        index == 0 ? snapshot->first_interval_bytes : heap->interval_bytes;
    filled->heap_samples = heap->samples;
    filled->weighed_samples = heap->weighed_samples;
    filled->other_types = dump->other_types;
    filled->other_contexts = dump->other_contexts;
    filled->peak_live_bytes = heap->peak_bytes;
    filled->peak_live_count = heap->peak_count;
    filled->peak_timestamp_ns =
        heap->samples > 0 ? (dump->request->start_ms + heap->peak_time_ms) * UINT64_C(1000000) : 0;
    if (index == 0)
        return;
    /* A program that samples by itself knows the totals, and does not say them. */
    filled->allocator = NULL;
    bool is_exact = totals != NULL && heap->weighed_samples == 0;
    filled->exact_bytes = is_exact ? totals[index].bytes : 0;
    filled->exact_calls = is_exact ? totals[index].calls : 0;
}

/* The dump of heap `index`, or of none, with what `filled` has of it. */
static int write_heap(struct dump *dump, const struct trace_heap_dump *filled, const char *name,
                      bool has_samples)
{
    struct trace_heap_dump named = *filled;
    char whole[256];
    const char *program = dump->request->status.heap_name;
    snprintf(whole, sizeof(whole), program != NULL ? "%s (%s)" : "%s", name, program);
    named.heap_name = whole;
    int code = trace_writer_dump_begin(dump->writer, &named);
    if (code == 0 && has_samples)
        code = write_samples(dump);
    return code < 0 ? code : trace_writer_dump_end(dump->writer);
}

static int write_heaps(struct dump *dump)
{
    const struct ledger_snapshot *snapshot = dump->snapshot;
    struct trace_heap_dump filled = dump->request->status;
    bool any = false;
    int code = 0;
    for (size_t i = 0; i < snapshot->heap_count && code == 0; i++) {
        char name[RING_HEAP_NAME_BYTES + 16];
        if (!snapshot->heaps[i].known)
            continue;
        name_heap(dump, i, name, sizeof(name));
        code = collect_rows(dump, (uint8_t)i);
        fill_heap(dump, i, &filled);
        if (code == 0)
            code = write_heap(dump, &filled, name, true);
        filled.remark = NULL;
        any = true;
    }
    if (any || code < 0)
        return code;
    const char *name = dump->request->no_heap_name;
    filled.exact_bytes = filled.exact_calls = 0;
    filled.allocator = name == NULL ? filled.allocator : NULL;
    return write_heap(dump, &filled, name != NULL ? name : "libc.malloc", false);
}

static int allocate_ids(struct dump *dump)
{
    const struct ledger_snapshot *snapshot = dump->snapshot;
    dump->mappings = calloc(snapshot->module_count + 1, sizeof(*dump->mappings));
    dump->symbols = calloc(snapshot->module_count + 1, sizeof(*dump->symbols));
    dump->callstacks = calloc(snapshot->node_count, sizeof(*dump->callstacks));
    dump->rows = calloc(snapshot->figures_count + 1, sizeof(*dump->rows));
    const struct tags *tags = ledger_tags(dump->ledger);
    dump->types = calloc(tags->type_count, sizeof(*dump->types));
    dump->contexts = calloc(tags->context_count, sizeof(*dump->contexts));
    return dump->mappings != NULL && dump->symbols != NULL && dump->callstacks != NULL &&
                   dump->rows != NULL && dump->types != NULL && dump->contexts != NULL
               ? 0
               : -ENOMEM;
}

int dump_write(struct trace_writer *writer, struct dump_files *files, struct ledger *ledger,
               const struct dump_request *request)
{
    struct ledger_snapshot *snapshot = ledger_snapshot_take(ledger);
    if (snapshot == NULL)
        return -ENOMEM;
    struct dump dump = {.writer = writer,
                        .files = files,
                        .ledger = ledger,
                        .snapshot = snapshot,
                        .tree = ledger_callsites(ledger),
                        .request = request};
    int code = allocate_ids(&dump);
    if (code == 0)
        code = write_heaps(&dump);
    ledger_snapshot_release(ledger, snapshot);
    free(dump.mappings);
    free(dump.symbols);
    free(dump.callstacks);
    free(dump.types);
    free(dump.contexts);
    for (size_t i = 0; i < FRAME_TABLES; i++)
        free(dump.frame_tables[i].frames);
    free(dump.rows);
    free(dump.first_rows);
    free(dump.parts);
    free(dump.threads);
    return code;
}
