/* SPDX-License-Identifier: Apache-2.0 */
/* Computes how the live bytes of a heap relate to the RSS of its process. */
#include "compare/rss.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "compare/estimates.h"
#include "profile/process_memory.h"
#include "trace/config/trace_config.h"
#include "util/format_bytes.h"

#define DEVIATIONS 1.96 /* 95 % of a normal distribution */
#define AT_THE_DUMP_NS UINT64_C(20000000)

/* --- the table of a memory snapshot --- */

static void add(struct rss_table *table, struct rss_row row)
{
    if (table->count < RSS_ROWS_MAX)
        table->rows[table->count++] = row;
}

double rss_live_margin(const struct memory_snapshot *snapshot)
{
    return DEVIATIONS * sqrt(fmax(snapshot->live_bytes_variance, 0));
}

static void add_of_allocator(struct rss_table *table, const struct memory_snapshot *snapshot)
{
    double margin = rss_live_margin(snapshot);
    bool has_rule = snapshot->rounding_rule != NULL;
    enum rss_source of_live = margin > 0 ? RSS_ESTIMATED : RSS_COUNTED;
    enum rss_source of_pages = snapshot->pages_unknown ? RSS_NOT_KNOWN : of_live;
    add(table, (struct rss_row){"live_requested", "live blocks, as requested",
                                llround(snapshot->live_bytes), margin, of_live, MEMORY_UNKNOWN});
    add(table, (struct rss_row){"rounding", "rounding and headers",
                                has_rule ? llround(snapshot->rounding_bytes) : 0, -1,
                                has_rule ? RSS_BY_RULE : RSS_NOT_KNOWN, MEMORY_UNKNOWN});
    add(table, (struct rss_row){"untouched", "live blocks' untouched pages",
                                snapshot->pages_unknown ? 0 : -llround(snapshot->untouched_bytes),
                                -1, of_pages, MEMORY_UNKNOWN});
    if (snapshot->pages_unknown || snapshot->swapped_bytes > 0)
        add(table, (struct rss_row){"live_swapped", "live blocks' swapped-out pages",
                                    snapshot->pages_unknown ? 0 : -llround(snapshot->swapped_bytes),
                                    -1, of_pages, MEMORY_UNKNOWN});
    int64_t known = 0;
    for (size_t i = 0; i < table->count; i++)
        known += table->rows[i].bytes;
    table->allocator_bytes = snapshot->parts[MEMORY_ALLOCATOR].rss_bytes;
    add(table, (struct rss_row){"free_lists", "free lists, fragmentation, not profiled",
                                (int64_t)table->allocator_bytes - known, margin, RSS_REMAINDER,
                                MEMORY_UNKNOWN});
    table->allocator_count = table->count;
}

const struct rss_kind rss_kinds[MEMORY_KINDS] = {
    {MEMORY_ALLOCATOR, "the allocator's memory"},
    {MEMORY_ANONYMOUS, "anonymous mappings without live blocks"},
    {MEMORY_THREAD_STACKS, "thread stacks"},
    {MEMORY_MAIN_STACK, "main thread's stack"},
    {MEMORY_FILES_WRITTEN, "modified pages of files: .data, .bss"},
    {MEMORY_FILES_CLEAN, "unmodified pages of files: code, constants"},
    {MEMORY_SHARED, "shared memory"},
    {MEMORY_PROFILER, "the profiler's own memory"},
    {MEMORY_KERNEL, "kernel pages"},
    {MEMORY_UNKNOWN, "of a kind unknown to this version"},
};

void rss_table_fill(struct rss_table *table, const struct memory_snapshot *snapshot)
{
    struct memory_part sum = memory_snapshot_sum(snapshot);
    *table = (struct rss_table){.rss_bytes = sum.rss_bytes,
                                .swap_bytes = sum.swap_bytes,
                                .profiler_bytes = snapshot->parts[MEMORY_PROFILER].rss_bytes};
    add_of_allocator(table, snapshot);
    for (size_t i = 1; i < MEMORY_KINDS; i++) {
        enum memory_kind kind = rss_kinds[i].kind;
        const struct memory_part *part = &snapshot->parts[kind];
        if (part->rss_bytes > 0 && kind != MEMORY_PROFILER)
            add(table, (struct rss_row){memory_kind_names[kind], rss_kinds[i].text,
                                        (int64_t)part->rss_bytes, -1, RSS_MEASURED, kind});
    }
}

/* --- the memory at a dump --- */

const char rss_why_no_snapshot[] =
    "The trace has no memory snapshot of this process: the process ended before the first one "
    "(taken within a second), its memory could not be read, or another version of heapprofd "
    "recorded the profile.";

/* Return the bytes live in libc.mmap at the dump of this number, from 1, or the last for 0; < 0: no
 * such heap. */
static double mapped_of(const struct profile *profile, uint32_t process, uint64_t number)
{
    for (size_t i = 0; i < profile->heap_count; i++) {
        const struct profile_heap *heap = &profile->heaps[i];
        size_t dump = number == 0 ? heap->dump_count : (size_t)number;
        if (heap->process == process && strcmp(heap->name, HEAP_CONFIG_MMAP) == 0 && dump > 0 &&
            dump <= heap->dump_count)
            return estimate_of_dump(&heap->dumps[dump - 1], EXPORT_SPACE).bytes;
    }
    return -1;
}

struct rss_moment rss_moment_of(const struct profile *profile, const struct profile_heap *heap,
                                const struct profile_dump *dump, uint64_t mapped_number)
{
    return (struct rss_moment){
        .process = &profile->processes[heap->process],
        .heap = heap,
        .dump = dump,
        .snapshot = process_memory_snapshot(profile, heap->process, dump),
        .timeline_bytes = process_memory_of_timeline(&profile->processes[heap->process], dump),
        .mmap_wanted = profile->wants_mmap,
        .mapped_bytes = mapped_of(profile, heap->process, mapped_number),
    };
}

static double age_seconds(const struct rss_moment *moment)
{
    uint64_t taken = moment->snapshot->boottime_ns, dump = moment->dump->boottime_ns;
    return dump > taken + AT_THE_DUMP_NS ? (double)(dump - taken) / 1e9 : 0;
}

/* Return whether the process had certainly ended before the dump. */
static bool has_ended(const struct rss_moment *moment)
{
    return moment->dump->final && moment->heap->status.disconnected;
}

/* --- caveats --- */

static void remainder_caveats(const struct rss_moment *moment, const struct rss_table *table,
                              rss_caveat_fn *take, void *context)
{
    const struct rss_row *rest = &table->rows[table->allocator_count - 1];
    take(context,
         "Free lists, fragmentation and allocations from before the profile share one row: only "
         "the allocator's own count (malloc_info), a call in the process, could separate them. The "
         "row is the rest of the allocator's memory, and includes the error of the estimates "
         "above.");
    if (rest->bytes < 0)
        take(context, "That row is negative: the estimates are too high by at least that amount. A "
                      "smaller interval (-i) makes them more precise, and -i 1 exact.");
    if (moment->snapshot->rounding_rule == NULL)
        take(context, "The size classes of this allocator are unknown: its rounding is part of the "
                      "remainder.");
    if (moment->snapshot->pages_unknown)
        take(context,
             "The untouched pages of live blocks are unknown, because /proc/PID/pagemap could "
             "not be read: the remainder is too low by them.");
}

/* Return what is known of the anonymous mappings without a heap libc.mmap. */
static const char *why_no_mapped(const struct rss_moment *moment)
{
    if (!moment->mmap_wanted)
        return "It is unknown whether the program itself or an allocator made the anonymous "
               "mappings: --heaps libc.malloc,libc.mmap profiles the program's, too.";
    if (!moment->heap->status.from_startup)
        return "It is unknown whether the program itself or an allocator made the anonymous "
               "mappings: the heap libc.mmap, which was requested, exists only in programs that "
               "heap_profile host or shell starts.";
    return "The heap libc.mmap was requested, and nothing was reported to it: an allocator made "
           "the anonymous mappings, or the program by system calls of its own.";
}

void rss_caveats(const struct rss_moment *moment, const struct rss_table *table,
                 rss_caveat_fn *take, void *context)
{
    char text[256];
    remainder_caveats(moment, table, take, context);
    if (moment->snapshot->parts[MEMORY_ANONYMOUS].rss_bytes > 0 && moment->mapped_bytes < 0)
        take(context, why_no_mapped(moment));
    if (moment->mapped_bytes >= 0) {
        snprintf(
            text, sizeof(text),
            "The program itself had %s of anonymous mappings (heap libc.mmap), touched or not.",
            format_bytes(moment->mapped_bytes).bytes);
        take(context, text);
    }
    if (age_seconds(moment) > 0) {
        snprintf(text, sizeof(text),
                 "The table shows the last memory snapshot, %.1f s before the dump%s.",
                 age_seconds(moment), has_ended(moment) ? ": the program had ended since" : "");
        take(context, text);
    }
}

void rss_table_of(struct rss_table *table, const struct rss_moment *moment)
{
    const struct estimate_shown live =
        estimate_total(moment->heap, moment->dump, EXPORT_SPACE, false);
    const struct profile_interval *limits = &live.interval;
    rss_table_fill(table, moment->snapshot);
    if (!(fabs(live.value - moment->snapshot->live_bytes) < 0.5) || isnan(limits->high))
        return;
    double margin = fmax(limits->high - live.value, live.value - limits->low);
    for (size_t i = 0; i < table->allocator_count; i++)
        if (table->rows[i].margin >= 0)
            table->rows[i].margin = margin;
}

/* --- as JSON --- */

static const char *const source_names[] = {
    [RSS_ESTIMATED] = "estimated", [RSS_COUNTED] = "counted",     [RSS_BY_RULE] = "rule",
    [RSS_MEASURED] = "measured",   [RSS_REMAINDER] = "remainder", [RSS_NOT_KNOWN] = "not_known",
};

static void write_caveat(void *context, const char *text)
{
    json_string(context, NULL, text);
}

static void write_row(struct json_writer *json, const struct rss_row *row,
                      const struct memory_snapshot *snapshot)
{
    json_object(json, NULL);
    json_string(json, "name", row->name);
    json_string(json, "words", row->text);
    if (row->source == RSS_NOT_KNOWN)
        json_null(json, "bytes");
    else
        json_signed(json, "bytes", row->bytes);
    json_string(json, "source", source_names[row->source]);
    if (row->source == RSS_BY_RULE)
        json_string(json, "rule", snapshot->rounding_rule);
    if (row->margin >= 0)
        json_number(json, "margin_bytes", row->margin);
    if (row->kind != MEMORY_UNKNOWN) {
        json_unsigned(json, "mappings", snapshot->parts[row->kind].mappings);
        json_unsigned(json, "mapped_bytes", snapshot->parts[row->kind].mapped_bytes);
    }
    json_end_object(json);
}

static void write_rows(struct json_writer *json, const char *name, const struct rss_row *rows,
                       size_t count, const struct memory_snapshot *snapshot)
{
    json_array(json, name);
    for (size_t i = 0; i < count; i++)
        write_row(json, &rows[i], snapshot);
    json_end_array(json);
}

static void write_memory(struct json_writer *json, const struct rss_moment *moment)
{
    struct rss_table table;
    const struct memory_snapshot *snapshot = moment->snapshot;
    rss_table_of(&table, moment);
    json_number(json, "seconds_before_dump", age_seconds(moment));
    json_unsigned(json, "look_us", snapshot->duration_us);
    json_string(json, "allocator", snapshot->allocator);
    write_rows(json, "allocator_rows", table.rows, table.allocator_count, snapshot);
    json_unsigned(json, "allocator_bytes", table.allocator_bytes);
    write_rows(json, "other_rows", table.rows + table.allocator_count,
               table.count - table.allocator_count, snapshot);
    json_unsigned(json, "rss_bytes", table.rss_bytes);
    json_unsigned(json, "profiler_bytes", table.profiler_bytes);
    json_unsigned(json, "swap_bytes", table.swap_bytes);
    json_array(json, "not_known");
    rss_caveats(moment, &table, write_caveat, json);
    json_end_array(json);
}

void rss_write_json(struct json_writer *json, const char *key, const struct rss_moment *moment)
{
    json_object(json, key);
    json_signed(json, "pid", moment->process->pid);
    json_string(json, "process", moment->process->name);
    json_unsigned(json, "dump", (size_t)(moment->dump - moment->heap->dumps) + 1);
    json_unsigned(json, "dumps", moment->heap->dump_count);
    json_unsigned(json, "timeline_rss_bytes", moment->timeline_bytes);
    json_bool(json, "known", moment->snapshot != NULL);
    if (moment->snapshot != NULL)
        write_memory(json, moment);
    json_end_object(json);
}
