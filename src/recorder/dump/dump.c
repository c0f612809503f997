/* SPDX-License-Identifier: Apache-2.0 */
/* Write the heaps of a ledger and their figures. */
#include "recorder/dump/dump_state.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/array.h"

#define WORK_OF_ROW 30u /* without its frames and threads */
#define WORK_OF_THREAD 10u

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

void dump_files_pause(const struct dump_files *files)
{
    if (files->pause != NULL)
        files->pause(files->pause_context);
}

void dump_files_close(struct dump_files *files)
{
    if (files == NULL)
        return;
    for (size_t i = 0; i < files->count; i++)
        dump_file_close(files->files[i]);
    hash_index_free(&files->index);
    free(files->files);
    free(files);
}

void dump_count_work(struct dump *dump, unsigned work)
{
    dump->work += work;
    if (dump->work < WORK_UNTIL_PAUSE)
        return;
    dump->work = 0;
    dump_files_pause(dump->files);
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

/* Return the head of the callstack's list of rows. NULL: no memory. */
static uint32_t *first_row(struct dump *dump, uint64_t callstack)
{
    if (callstack >= dump->first_count) {
        size_t more = callstack + 1 - dump->first_count;
        if (ARRAY_RESERVE(&dump->first_rows, &dump->first_capacity, dump->first_count, more) < 0)
            return NULL;
        memset(dump->first_rows + dump->first_count, 0, more * sizeof(*dump->first_rows));
        dump->first_count += more;
    }
    return &dump->first_rows[callstack];
}

/* Sort figures by heap in one pass, since there may be many of both. */
static void sort_by_heap(struct dump *dump)
{
    for (size_t i = dump->snapshot->figures_count; i-- > 0;) {
        uint8_t heap = ledger_snapshot_figures(dump->ledger, dump->snapshot, i).heap;
        dump->next_of_heap[i] = dump->first_of_heap[heap];
        dump->first_of_heap[heap] = (uint32_t)i + 1;
        dump_count_work(dump, 1);
    }
}

/* Sort a heap's figures by callstack, in buckets instead of by comparing. A comparing sort of many
 * rows would run long without a pause. */
static int collect_rows(struct dump *dump, uint8_t heap)
{
    struct ledger_amount held = {0};
    dump->row_count = 0;
    dump->other_types = dump->other_contexts = 0;
    for (uint32_t at = dump->first_of_heap[heap]; at != 0; at = dump->next_of_heap[at - 1]) {
        dump_count_work(dump, 1);
        struct ledger_figures figures =
            ledger_snapshot_figures(dump->ledger, dump->snapshot, at - 1);
        const struct tag tag = ledger_tags(dump->ledger)->items[figures.tag];
        dump->other_types += tag.type == TAG_OTHERS ? figures.sums.samples : 0;
        dump->other_contexts += tag.context == TAG_OTHERS ? figures.sums.samples : 0;
        if (ledger_holds_peak(&figures))
            ledger_amount_add(&held, 1, ledger_peak_missed(&figures));
        uint64_t callstack = dump_callstack_id(dump, &figures);
        uint32_t *first = callstack != 0 ? first_row(dump, callstack) : NULL;
        if (first == NULL)
            return -ENOMEM;
        dump->rows[dump->row_count++] = (struct dump_row){at - 1, *first};
        *first = (uint32_t)dump->row_count;
    }
    dump->peak = ledger_peak_of(&dump->snapshot->heaps[heap], held);
    return 0;
}

/* Collect the parts of one callstack, by thread and tag, and empty its list of rows. Return their
 * number or -ENOMEM. */
static ssize_t take_parts(struct dump *dump, uint64_t callstack)
{
    size_t count = 0, thread_count;
    const struct ledger_thread *threads = ledger_threads(dump->ledger, &thread_count);
    for (uint32_t row = dump->first_rows[callstack]; row != 0; row = dump->rows[row - 1].next) {
        uint32_t index = dump->rows[row - 1].figures;
        if (ARRAY_RESERVE(&dump->parts, &dump->part_capacity, count, 1) < 0 ||
            ARRAY_RESERVE(&dump->threads, &dump->thread_capacity, count, 1) < 0)
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

/* Begin the part of a thread and a tag, with all figures 0. */
static void begin_part(struct dump *dump, const struct dump_part *part,
                       struct trace_thread_figures *figures)
{
    const struct tag tag = ledger_tags(dump->ledger)->items[part->tag];
    *figures = (struct trace_thread_figures){.tid = (int32_t)part->tid,
                                             .type = type_id(dump, tag.type),
                                             .context = context_id(dump, tag.context)};
}

static void sum_parts(struct dump *dump, size_t count, struct trace_heap_sample *sample,
                      struct trace_live_times *times)
{
    for (size_t i = 0; i < count; i++) {
        const struct dump_part *part = &dump->parts[i];
        struct ledger_figures figures =
            ledger_snapshot_figures(dump->ledger, dump->snapshot, part->figures);
        ledger_correct_peak(&figures, dump->peak.factor);
        if (i == 0 || part[-1].tid != part->tid || part[-1].tag != part->tag)
            begin_part(dump, part, &dump->threads[sample->thread_count++]);
        struct trace_thread_figures *thread = &dump->threads[sample->thread_count - 1];
        trace_figures_add(&thread->figures, &figures.sums);
        trace_peak_figures_add(&thread->peak, &figures.peak);
        trace_figures_add(&sample->figures, &figures.sums);
        trace_peak_figures_add(&sample->peak, &figures.peak);
        uint32_t next = dump_times_first(&dump->times, part->figures);
        while (next != 0)
            dump_count_work(dump, dump_times_add(&dump->times, dump->ledger, dump->snapshot,
                                                 part->figures, figures.heap, &next, times));
        dump_count_work(dump, WORK_OF_THREAD);
    }
    sample->threads = dump->threads;
    sample->times = times->slice_ms != 0 ? times : NULL;
}

static int write_samples(struct dump *dump)
{
    int code = 0;
    for (uint64_t callstack = 1; callstack < dump->first_count && code == 0; callstack++) {
        if (dump->first_rows[callstack] == 0)
            continue;
        struct trace_heap_sample sample = {.callstack = callstack};
        struct trace_live_times times = {0};
        ssize_t count = take_parts(dump, callstack);
        if (count < 0)
            return (int)count;
        sum_parts(dump, (size_t)count, &sample, &times);
        code = trace_writer_dump_sample(dump->writer, &sample);
        dump_count_work(dump, WORK_OF_ROW);
    }
    return code;
}

/* Return the number of heaps before this one that have its name. */
static unsigned same_before(const struct ledger_heap *heaps, size_t index)
{
    unsigned same = 0;
    for (size_t i = 0; i < index; i++)
        same += heaps[i].known && strcmp(heaps[i].name, heaps[index].name) == 0;
    return same;
}

/* Print a heap's name. Two heaps of one name must not appear as two dumps of one heap. */
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
    /* A callsite may have gone unseen under the longest interval. */
    if (heap->longest_interval_bytes > filled->interval_bytes)
        filled->interval_bytes = heap->longest_interval_bytes;
    filled->first_interval_bytes =
        index == 0 ? snapshot->first_interval_bytes : heap->interval_bytes;
    filled->heap_samples = heap->samples;
    filled->weighed_samples = heap->weighed_samples;
    filled->other_types = dump->other_types;
    filled->other_contexts = dump->other_contexts;
    const struct calibration *calibration = &heap->calibration;
    bool is_calibrated = calibration->closed > 0;
    filled->sampled_bytes =
        is_calibrated ? heap->seen_bytes + calibration->missed_by_chance.bytes : 0;
    filled->sampled_calls =
        is_calibrated ? (double)heap->samples + calibration->missed_by_chance.count : 0;
    filled->calibration_ratio = is_calibrated ? calibration_ratio_most(calibration) : 0;
    filled->peak_live_bytes = dump->peak.bytes;
    filled->peak_live_count = dump->peak.count;
    filled->peak_highest_bytes = heap->split.begun ? dump->peak.highest.bytes : 0;
    filled->peak_highest_count = heap->split.begun ? dump->peak.highest.count : 0;
    filled->peak_timestamp_ns =
        heap->samples > 0 ? (dump->request->start_ms + heap->peak_time_ms) * UINT64_C(1000000) : 0;
    if (index == 0)
        return;
    filled->unseen_allocator = NULL; /* concerns only malloc's heap */
    /* A program that samples by itself does not report its totals. */
    filled->allocator = NULL;
    bool is_exact = totals != NULL && heap->weighed_samples == 0;
    filled->exact_bytes = is_exact ? totals[index].bytes : 0;
    filled->exact_calls = is_exact ? totals[index].calls : 0;
}

/* Set what was found at callsites of malloc's heap when the memory was read. */
static void fill_sites(struct dump *dump, struct trace_heap_dump *filled,
                       struct trace_memory_site sites[TRACE_MEMORY_SITES_MAX])
{
    const struct memory_sites_found *found = dump->request->sites;
    filled->sites = sites;
    for (size_t i = 0; found != NULL && i < found->count; i++) {
        struct trace_memory_site site = found->items[i];
        if (site.callsite >= dump->snapshot->figures_count)
            continue;
        const struct ledger_figures figures =
            ledger_snapshot_figures(dump->ledger, dump->snapshot, site.callsite);
        site.callsite = dump_callstack_id(dump, &figures);
        if (site.callsite != 0)
            sites[filled->site_count++] = site;
    }
    filled->piece_bytes = found != NULL ? found->piece_bytes : 0;
}

/* Write the dump of heap `index`, or one without a heap, with the fields of `filled`. */
static int write_heap(struct dump *dump, const struct trace_heap_dump *filled, const char *name,
                      bool has_samples)
{
    struct trace_heap_dump named = *filled;
    named.places = dump->places;
    named.place_count = dump->place_count;
    char whole[256];
    const char *program = dump->request->status.heap_name;
    snprintf(whole, sizeof(whole), program != NULL ? "%s (%s)" : "%s", name, program);
    named.heap_name = whole;
    int code = trace_writer_dump_begin(dump->writer, &named);
    if (code == 0 && has_samples)
        code = write_samples(dump);
    return code < 0 ? code : trace_writer_dump_end(dump->writer);
}

/* Return the remark of the dump, with a note on files that could not be read. */
static const char *remark_of(struct dump *dump)
{
    const char *remark = dump->request->status.remark;
    size_t used = strlen(dump->unreadable);
    if (used == 0 || remark == NULL)
        return used == 0 ? remark : dump->unreadable;
    snprintf(dump->remark, sizeof(dump->remark), "%s %s", remark, dump->unreadable);
    return dump->remark;
}

/* Return the heap's remark: that of the process, if it has it, and what concerns this heap. */
static const char *remark_of_heap(struct dump *dump, const struct ledger_heap *heap,
                                  const char *of_process)
{
    static const char free_lists[] =
        "CPython makes lists, dicts, tuples, floats and some others again from those that were "
        "freed, without its allocator: such an object is counted where its memory was first "
        "allocated, which may be another line. Sums are right; tracemalloc has each object's own "
        "line.";
    size_t used = of_process == NULL ? 0 : strlen(of_process);
    if (strcmp(heap->name, HEAP_CONFIG_PYTHON) != 0 || heap->live_count < 0.5)
        return of_process;
    if (used == 0)
        return free_lists;
    if (of_process != dump->remark)
        snprintf(dump->remark, sizeof(dump->remark), "%s", of_process);
    used = strlen(dump->remark);
    snprintf(dump->remark + used, sizeof(dump->remark) - used, " %s", free_lists);
    return dump->remark;
}

static int write_heaps(struct dump *dump)
{
    const struct ledger_snapshot *snapshot = dump->snapshot;
    struct trace_heap_dump filled = dump->request->status;
    struct trace_memory_site sites[TRACE_MEMORY_SITES_MAX];
    bool any = false;
    int code = 0;
    filled.remark = remark_of(dump);
    sort_by_heap(dump);
    for (size_t i = 0; i < snapshot->heap_count && code == 0; i++) {
        char name[RING_HEAP_NAME_BYTES + 16];
        if (!snapshot->heaps[i].known)
            continue;
        name_heap(dump, i, name, sizeof(name));
        code = collect_rows(dump, (uint8_t)i);
        fill_heap(dump, i, &filled);
        filled.site_count = 0;
        if (i == 0 && code == 0)
            fill_sites(dump, &filled, sites);
        filled.remark = remark_of_heap(dump, &snapshot->heaps[i], filled.remark);
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
    dump->file_of_module = calloc(snapshot->module_count + 1, sizeof(*dump->file_of_module));
    dump->callstacks = calloc(snapshot->node_count, sizeof(*dump->callstacks));
    dump->frame_of_node = calloc(snapshot->node_count, sizeof(*dump->frame_of_node));
    dump->rows = calloc(snapshot->figures_count + 1, sizeof(*dump->rows));
    dump->next_of_heap = calloc(snapshot->figures_count + 1, sizeof(*dump->next_of_heap));
    const struct tags *tags = ledger_tags(dump->ledger);
    dump->types = calloc(tags->type_count, sizeof(*dump->types));
    dump->contexts = calloc(tags->context_count, sizeof(*dump->contexts));
    return dump->mappings != NULL && dump->file_of_module != NULL && dump->callstacks != NULL &&
                   dump->frame_of_node != NULL && dump->rows != NULL &&
                   dump->next_of_heap != NULL && dump->types != NULL && dump->contexts != NULL
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
    if (code == 0) {
        /* Now, before a pause lets events in: they are of the snapshot's moment. */
        dump_times_take(&dump.times, ledger,
                        request->status.timestamp_ns / 1000000 - request->start_ms);
        dump_names_find(&dump);
        code = write_heaps(&dump);
        int ended = trace_writer_dumps_end(writer);
        code = code < 0 ? code : ended;
    }
    ledger_snapshot_release(ledger, snapshot);
    dump_stacks_clear(&dump);
    dump_times_clear(&dump.times);
    free(dump.next_of_heap);
    free(dump.types);
    free(dump.contexts);
    free(dump.rows);
    free(dump.first_rows);
    free(dump.parts);
    free(dump.threads);
    return code;
}

/* --- losses --- */

/* The wire's numbers of losses may change with each version, the trace's never do. */
static const enum trace_loss_id in_trace_of[] = {
    [RING_LOST_OVERRUN] = TRACE_LOST_OVERRUN,
    [RING_LOST_REENTRANT] = TRACE_LOST_REENTRANT,
    [RING_LOST_NO_SCRATCH] = TRACE_LOST_NO_SCRATCH,
    [RING_LOST_NO_THREAD_SLOT] = TRACE_LOST_NO_THREAD_SLOT,
    [RING_LOST_LIVE_SET] = TRACE_LOST_LIVE_SET,
    [RING_LOST_UNWIND] = TRACE_LOST_UNWIND,
    [RING_LOST_ABANDONED] = TRACE_LOST_ABANDONED,
    [RING_LOST_FREE] = TRACE_LOST_FREE,
    [RING_LOST_CALLS] = TRACE_LOST_ALLOCATIONS,
    [RING_LOST_BYTES] = TRACE_LOST_ALLOCATED_BYTES,
    [RING_LOST_SCOPES] = TRACE_LOST_SCOPES,
    [RING_LOST_INTERPRETER_STATE] = TRACE_LOST_INTERPRETER_STATE,
    [RING_LOST_INTERPRETER_UNKNOWN] = TRACE_LOST_INTERPRETER_UNKNOWN,
    [RING_LOST_MODULES] = TRACE_LOST_MODULES,
};
#define LOSSES (sizeof(in_trace_of) / sizeof(*in_trace_of))

_Static_assert(LOSSES == RING_LOSSES_USED && LOSSES <= TRACE_LOST_PLACES,
               "each loss of the ring has a place in the trace");
_Static_assert(HEAP_CONFIG_SHMEM_BYTES_MAX == RING_DATA_BYTES_MAX,
               "a configuration asks for no more than a ring can be");

void dump_losses(const uint64_t in_ring[RING_LOSS_COUNT], uint64_t in_trace[TRACE_LOST_PLACES])
{
    memset(in_trace, 0, TRACE_LOST_PLACES * sizeof(*in_trace));
    for (size_t i = 0; i < LOSSES; i++)
        in_trace[in_trace_of[i]] = in_ring[i];
}
