/* SPDX-License-Identifier: Apache-2.0 */
/* Adds up processes by program and service. */
#include "production/metrics/program_totals.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "util/array.h"
#include "util/utf8.h"
#include "wire/sampling.h"

/* What a process had when it was last seen: counters get what it has more. */
struct process_figures {
    int32_t pid;
    int64_t since_ns;
    uint64_t samples;
    uint64_t losses[TRACE_LOSS_IDS];
    struct heap_figures {
        uint64_t name; /* a hash */
        struct program_heap_counters counters;
    } * heaps;
    size_t heap_count;
};

const char *program_label(const struct collector_program *program, const char *name)
{
    for (size_t i = 0; i < program->label_count; i++)
        if (strcmp(program->labels[i].name, name) == 0)
            return program->labels[i].value;
    return "";
}

/* Copy a name, cut at the end of a character. */
static void copy_name(char to[PROGRAM_NAME_BYTES], const char *name)
{
    size_t length = strnlen(name, PROGRAM_NAME_BYTES);
    if (length == PROGRAM_NAME_BYTES)
        for (length--; length > 0 && utf8_continues(name[length]);)
            length--;
    memcpy(to, name, length);
    to[length] = '\0';
}

/* FNV-1a. Names of one process only are compared. */
static uint64_t hash_name(const char *name)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (; *name != '\0'; name++)
        hash = (hash ^ (unsigned char)*name) * UINT64_C(0x100000001b3);
    return hash;
}

static void add_known(double *sum, double value)
{
    if (!isnan(value))
        *sum = isnan(*sum) ? value : *sum + value;
}

/* Add the square of a distance to the sum. A distance that is unknown makes the sum unknown. */
static void add_square(double *sum, double distance, bool is_first)
{
    *sum = (is_first ? 0 : *sum) + distance * distance;
}

/* --- processes --- */

static int compare_processes(const void *left, const void *right)
{
    const struct process_figures *a = left, *b = right;
    if (a->pid != b->pid)
        return a->pid < b->pid ? -1 : 1;
    return a->since_ns < b->since_ns ? -1 : a->since_ns > b->since_ns;
}

static void free_processes(struct process_figures *processes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        free(processes[i].heaps);
    free(processes);
}

static void take_losses(uint64_t losses[TRACE_LOSS_IDS], const struct collector_program *program)
{
    for (size_t i = 0; i < program->loss_count; i++) {
        enum trace_loss_id id = trace_loss_named(program->losses[i].reason);
        if (id < TRACE_LOSS_IDS)
            losses[id] += program->losses[i].amount;
    }
}

static int take_process(struct process_figures *to, const struct collector_program *program)
{
    *to = (struct process_figures){
        .pid = program->pid,
        .since_ns = program->since_ns,
        .samples = program->samples,
    };
    take_losses(to->losses, program);
    if (program->heap_count == 0)
        return 0;
    to->heaps = calloc(program->heap_count, sizeof(*to->heaps));
    if (to->heaps == NULL)
        return -ENOMEM;
    to->heap_count = program->heap_count;
    for (size_t i = 0; i < program->heap_count; i++)
        to->heaps[i] = (struct heap_figures){
            hash_name(program->heaps[i].name),
            {program->heaps[i].allocated_bytes, program->heaps[i].allocated_count}};
    return 0;
}

/* Return what the process had when it was last seen; NULL: it was not. Its profile had perhaps no
 * known beginning then. */
static const struct process_figures *find_process(const struct program_totals *totals,
                                                  const struct process_figures *now)
{
    struct process_figures wanted = {.pid = now->pid, .since_ns = now->since_ns};
    const struct process_figures *found = NULL;
    if (totals->process_count > 0)
        found = bsearch(&wanted, totals->processes, totals->process_count, sizeof(wanted),
                        compare_processes);
    wanted.since_ns = 0;
    if (totals->process_count > 0 && found == NULL)
        found = bsearch(&wanted, totals->processes, totals->process_count, sizeof(wanted),
                        compare_processes);
    return found;
}

static struct process_figures *take_processes(const struct collector_status *status)
{
    struct process_figures *processes = calloc(status->program_count + 1, sizeof(*processes));
    for (size_t i = 0; processes != NULL && i < status->program_count; i++)
        if (take_process(&processes[i], &status->programs[i]) < 0) {
            free_processes(processes, i);
            return NULL;
        }
    return processes;
}

/* Return a heap of the same process when it was last seen; NULL: it had none. */
static const struct heap_figures *find_heap(const struct process_figures *before, size_t index,
                                            uint64_t name)
{
    if (before == NULL)
        return NULL;
    if (index < before->heap_count && before->heaps[index].name == name)
        return &before->heaps[index];
    for (size_t i = 0; i < before->heap_count; i++)
        if (before->heaps[i].name == name)
            return &before->heaps[i];
    return NULL;
}

/* --- programs --- */

static struct program_total *find_total(const struct program_totals *totals, const char *program,
                                        const char *service)
{
    for (size_t i = 0; i < totals->count; i++)
        if (strcmp(totals->items[i].program, program) == 0 &&
            strcmp(totals->items[i].service, service) == 0)
            return &totals->items[i];
    return NULL;
}

static struct program_total *add_total(struct program_totals *totals, const char *program,
                                       const char *service)
{
    struct program_total *total = &totals->items[totals->count++];
    memset(total, 0, sizeof(*total));
    strcpy(total->program, program);
    strcpy(total->service, service);
    total->interval_bytes = total->samples = COLLECTOR_UNKNOWN;
    total->unexplained_bytes = NAN;
    return total;
}

/* There is room for one more and the others. */
static struct program_total *total_of(struct program_totals *totals,
                                      const struct collector_program *program)
{
    char name[PROGRAM_NAME_BYTES], service[PROGRAM_NAME_BYTES];
    copy_name(name, program->name);
    copy_name(service, program_label(program, "service_name"));
    struct program_total *total = find_total(totals, name, service);
    if (total != NULL)
        return total;
    if (totals->count < PROGRAM_TOTALS_MAX)
        return add_total(totals, name, service);
    totals->unnamed++;
    total = find_total(totals, PROGRAM_TOTALS_OTHERS, "");
    return total != NULL ? total : add_total(totals, PROGRAM_TOTALS_OTHERS, "");
}

static struct program_heap *heap_of(struct program_total *total, const char *of_process)
{
    char name[PROGRAM_NAME_BYTES];
    copy_name(name, of_process);
    for (size_t i = 0; i < total->heap_count && i < PROGRAM_HEAPS_MAX; i++)
        if (strcmp(total->heaps[i].name, name) == 0)
            return &total->heaps[i];
    struct program_heap *heap = &total->heaps[total->heap_count];
    if (total->heap_count > PROGRAM_HEAPS_MAX)
        return &total->heaps[PROGRAM_HEAPS_MAX];
    *heap = (struct program_heap){.counters = {NAN, NAN},
                                  .live_bytes = NAN,
                                  .live_count = NAN,
                                  .low_squares = NAN,
                                  .high_squares = NAN};
    strcpy(heap->name, total->heap_count < PROGRAM_HEAPS_MAX ? name : PROGRAM_TOTALS_OTHERS);
    total->heap_count++;
    return heap;
}

/* Forget figures of processes that ran before. */
static void begin_now(struct program_total *total)
{
    total->processes = total->measured = total->unprofiled = total->unsampled = 0;
    total->interval_bytes = COLLECTOR_UNKNOWN;
    total->unexplained_bytes = NAN;
    total->oldest_dump_ns = 0;
    for (size_t i = 0; i < total->heap_count; i++) {
        struct program_heap *heap = &total->heaps[i];
        heap->live_bytes = heap->live_count = heap->low_squares = heap->high_squares = NAN;
        heap->partial = 0;
    }
}

/* Return what a counter has more than before. */
static uint64_t more(uint64_t now, uint64_t before)
{
    return now > before ? now - before : 0;
}

static void add_samples(struct program_total *total, uint64_t now, uint64_t before)
{
    if (now == COLLECTOR_UNKNOWN)
        return;
    if (total->samples == COLLECTOR_UNKNOWN)
        total->samples = 0;
    total->samples += before == COLLECTOR_UNKNOWN ? now : more(now, before);
}

/* The same as more(). NAN: unknown. */
static double more_of(double now, double before)
{
    return isnan(before) ? now : isnan(now) ? NAN : fmax(now - before, 0);
}

static void add_heap(struct program_total *total, const struct collector_heap *heap,
                     const struct heap_figures *before, bool is_measured)
{
    struct program_heap *to = heap_of(total, heap->name);
    double bytes = before != NULL ? before->counters.allocated_bytes : NAN;
    double count = before != NULL ? before->counters.allocated_count : NAN;
    add_known(&to->counters.allocated_bytes, more_of(heap->allocated_bytes, bytes));
    add_known(&to->counters.allocated_count, more_of(heap->allocated_count, count));
    if (!is_measured)
        return;
    bool is_first = isnan(to->live_bytes);
    add_square(&to->low_squares, heap->live_bytes - heap->live_bytes_low, is_first);
    add_square(&to->high_squares, heap->live_bytes_high - heap->live_bytes, is_first);
    add_known(&to->live_bytes, heap->live_bytes);
    add_known(&to->live_count, heap->live_count);
    to->partial += heap->is_partial;
}

static void add_program(struct program_total *total, const struct collector_program *program,
                        const struct process_figures *now, const struct process_figures *before)
{
    bool is_measured = program->last_dump_ns > 0;
    total->processes++;
    total->unprofiled += program->problem[0] != '\0';
    total->measured += is_measured;
    if (is_measured &&
        (total->oldest_dump_ns == 0 || program->last_dump_ns < total->oldest_dump_ns))
        total->oldest_dump_ns = program->last_dump_ns;
    bool is_off =
        program->interval_bytes != COLLECTOR_UNKNOWN && sampling_is_off(program->interval_bytes);
    total->unsampled += is_off;
    if (program->interval_bytes != COLLECTOR_UNKNOWN && program->interval_bytes > 0 && !is_off &&
        (total->interval_bytes == COLLECTOR_UNKNOWN ||
         program->interval_bytes > total->interval_bytes))
        total->interval_bytes = program->interval_bytes;
    if (program->unexplained.of_bytes > 0)
        add_known(&total->unexplained_bytes, (double)program->unexplained.bytes);
    add_samples(total, now->samples, before != NULL ? before->samples : COLLECTOR_UNKNOWN);
    for (size_t id = 0; id < TRACE_LOSS_IDS; id++)
        total->losses[id] += more(now->losses[id], before != NULL ? before->losses[id] : 0);
    for (size_t i = 0; i < program->heap_count; i++)
        add_heap(total, &program->heaps[i], find_heap(before, i, now->heaps[i].name), is_measured);
}

static void forget_old(struct program_totals *totals, uint64_t now_ms)
{
    size_t kept = 0;
    for (size_t i = 0; i < totals->count; i++) {
        struct program_total *total = &totals->items[i];
        if (total->processes > 0)
            total->seen_ms = now_ms;
        if (now_ms - total->seen_ms < PROGRAM_TOTALS_KEPT_MS && kept++ != i)
            totals->items[kept - 1] = *total;
    }
    totals->count = kept;
}

int program_totals_update(struct program_totals *totals, const struct collector_status *status,
                          uint64_t now_ms)
{
    size_t most = totals->count + status->program_count + 1;
    most = most < PROGRAM_TOTALS_MAX + 1 ? most : PROGRAM_TOTALS_MAX + 1;
    struct process_figures *processes = take_processes(status);
    if (processes == NULL ||
        ARRAY_RESERVE(&totals->items, &totals->capacity, totals->count, most - totals->count) < 0) {
        if (processes != NULL)
            free_processes(processes, status->program_count);
        return -ENOMEM;
    }
    totals->unnamed = 0;
    for (size_t i = 0; i < totals->count; i++)
        begin_now(&totals->items[i]);
    for (size_t i = 0; i < status->program_count; i++)
        add_program(total_of(totals, &status->programs[i]), &status->programs[i], &processes[i],
                    find_process(totals, &processes[i]));
    forget_old(totals, now_ms);
    free_processes(totals->processes, totals->process_count);
    qsort(processes, status->program_count, sizeof(*processes), compare_processes);
    totals->processes = processes;
    totals->process_count = status->program_count;
    return 0;
}

void program_totals_clear(struct program_totals *totals)
{
    free_processes(totals->processes, totals->process_count);
    free(totals->items);
    *totals = (struct program_totals){0};
}
