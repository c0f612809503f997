/* SPDX-License-Identifier: Apache-2.0 */
/* Computes how the live bytes of a heap relate to the RSS of its process. */
#include "profile/compare/rss.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profile/compare/estimates.h"
#include "profile/process_memory.h"
#include "trace/config/trace_config.h"
#include "util/format_bytes.h"

#define DEVIATIONS 1.96 /* 95 % of a normal distribution */
#define AT_THE_DUMP_NS UINT64_C(20000000)
/* Less than this is not worth a sentence. */
#define MUCH_BYTES (16 << 20)
/* The main arena, and those of a few threads. */
#define ARENAS_FEW 4u

/* --- the table of a memory snapshot --- */

static void rss_add(struct rss_table *table, struct rss_row row)
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
    rss_add(table,
            (struct rss_row){"live_requested", "live blocks, as requested",
                             llround(snapshot->live_bytes), margin, of_live, MEMORY_UNKNOWN});
    rss_add(table, (struct rss_row){"rounding", "rounding and headers",
                                    has_rule ? llround(snapshot->rounding_bytes) : 0, -1,
                                    has_rule ? RSS_BY_RULE : RSS_NOT_KNOWN, MEMORY_UNKNOWN});
    rss_add(table,
            (struct rss_row){"untouched", "live blocks' untouched pages",
                             snapshot->pages_unknown ? 0 : -llround(snapshot->untouched_bytes), -1,
                             of_pages, MEMORY_UNKNOWN});
    if (snapshot->pages_unknown || snapshot->swapped_bytes > 0)
        rss_add(table,
                (struct rss_row){"live_swapped", "live blocks' swapped-out pages",
                                 snapshot->pages_unknown ? 0 : -llround(snapshot->swapped_bytes),
                                 -1, of_pages, MEMORY_UNKNOWN});
    int64_t known = 0;
    for (size_t i = 0; i < table->count; i++)
        known += table->rows[i].bytes;
    table->allocator_bytes = snapshot->parts[MEMORY_ALLOCATOR].rss_bytes;
    rss_add(table, (struct rss_row){"free_lists", "free lists, fragmentation, not profiled",
                                    (int64_t)table->allocator_bytes - known, margin, RSS_REMAINDER,
                                    MEMORY_UNKNOWN});
    table->allocator_count = table->count;
}

const struct rss_kind rss_kinds[MEMORY_KINDS] = {
    {MEMORY_ALLOCATOR, "the allocator's memory"},
    {MEMORY_OTHER_HEAPS, "anonymous mappings with live blocks of other heaps"},
    {MEMORY_ANONYMOUS, "anonymous mappings without live blocks"},
    {MEMORY_THREAD_STACKS, "thread stacks"},
    {MEMORY_MAIN_STACK, "main thread's stack"},
    {MEMORY_FILES_WRITTEN, "modified pages of files: .data, .bss"},
    {MEMORY_FILES_CLEAN, "pages of files: code, constants, mapped data"},
    {MEMORY_SHARED, "shared memory"},
    {MEMORY_PROFILER, "the profiler's own memory"},
    {MEMORY_KERNEL, "kernel pages"},
    {MEMORY_UNKNOWN, "of a kind unknown to this version"},
};

static int compare_rows(const void *left_pointer, const void *right_pointer)
{
    const struct rss_row *left = left_pointer, *right = right_pointer;
    return (left->bytes < right->bytes) - (left->bytes > right->bytes);
}

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
            rss_add(table, (struct rss_row){memory_kind_names[kind], rss_kinds[i].text,
                                            (int64_t)part->rss_bytes, -1, RSS_MEASURED, kind});
    }
    qsort(table->rows + table->allocator_count, table->count - table->allocator_count,
          sizeof(*table->rows), compare_rows);
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

static bool has_heap(const struct profile *profile, uint32_t process, const char *name)
{
    for (size_t i = 0; i < profile->heap_count; i++)
        if (profile->heaps[i].process == process && strcmp(profile->heaps[i].name, name) == 0)
            return true;
    return false;
}

struct rss_moment rss_moment_of(const struct profile *profile, const struct profile_heap *heap,
                                const struct profile_dump *dump, uint64_t mapped_number)
{
    return (struct rss_moment){
        .profile = profile,
        .process = &profile->processes[heap->process],
        .heap = heap,
        .dump = dump,
        .snapshot = process_memory_snapshot(profile, heap->process, dump),
        .most = process_memory_most(profile, heap->process, dump),
        .timeline_bytes = process_memory_of_timeline(&profile->processes[heap->process], dump),
        .mmap_wanted = profile->wants_mmap,
        .has_python = has_heap(profile, heap->process, HEAP_CONFIG_PYTHON),
        .mapped_bytes = mapped_of(profile, heap->process, mapped_number),
    };
}

bool rss_most_of(struct rss_moment *most, const struct rss_moment *moment)
{
    if (moment->snapshot == NULL || moment->most == moment->snapshot)
        return false;
    uint64_t now = memory_snapshot_sum(moment->snapshot).rss_bytes;
    uint64_t then = memory_snapshot_sum(moment->most).rss_bytes;
    *most = *moment;
    most->snapshot = moment->most;
    return then > now + now / 10 + MUCH_BYTES / 4;
}

double rss_age_seconds(const struct rss_moment *moment)
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

const struct rss_row *rss_remainder(const struct rss_table *table)
{
    return &table->rows[table->allocator_count - 1];
}

bool rss_arenas_hold_much(const struct rss_moment *moment, const struct rss_table *table)
{
    const struct memory_snapshot *snapshot = moment->snapshot;
    int64_t rest = rss_remainder(table)->bytes;
    return snapshot->arenas > 0 && rest > MUCH_BYTES &&
           rest > (int64_t)(snapshot->arenas_rss_bytes / 2);
}

/* Say what returns the free memory of the C library's arenas to the kernel. */
static void arenas_caveat(const struct rss_moment *moment, const struct rss_table *table,
                          rss_caveat_fn *take, void *context)
{
    char text[512];
    const struct memory_snapshot *snapshot = moment->snapshot;
    int64_t rest = rss_remainder(table)->bytes;
    if (!rss_arenas_hold_much(moment, table))
        return;
    snprintf(text, sizeof(text),
             "%s %s, of which %s at most is free%s: "
             "malloc_trim(0), a call in the program, gives whole free pages back%s.",
             snapshot->arenas == 1 ? "The C library's arena holds"
                                   : "The mappings of the C library's arenas hold",
             format_bytes((double)snapshot->arenas_rss_bytes).bytes,
             format_bytes(fmin((double)rest, (double)snapshot->arenas_rss_bytes)).bytes,
             moment->heap->status.from_startup ? "" : " or from before the profile",
             snapshot->arenas > ARENAS_FEW
                 ? ", and MALLOC_ARENA_MAX=2 in its environment lets threads share arenas"
                 : "");
    take(context, text);
}

static void remainder_caveats(const struct rss_moment *moment, const struct rss_table *table,
                              rss_caveat_fn *take, void *context)
{
    const struct rss_row *rest = rss_remainder(table);
    bool is_estimated = rss_live_margin(moment->snapshot) > 0;
    if (moment->heap->status.from_startup)
        take(context, is_estimated
                          ? "Free lists and fragmentation share one row: only the allocator's own "
                            "count (malloc_info), a call in the process, could separate them. The "
                            "row is the rest of the allocator's memory, and includes the error of "
                            "the estimates above."
                          : "Free lists and fragmentation share one row: only the allocator's own "
                            "count (malloc_info), a call in the process, could separate them. The "
                            "row is the rest of the allocator's memory.");
    else
        take(context,
             "Free lists, fragmentation and allocations from before the profile share one row: "
             "only the allocator's own count (malloc_info), a call in the process, could separate "
             "them. The row is the rest of the allocator's memory, and includes the error of the "
             "estimates above.");
    if (rest->bytes < 0 && moment->snapshot->pages_unknown)
        take(context, "That row is negative: pages of live blocks that are not resident are part "
                      "of it.");
    else if (rest->bytes < 0 && is_estimated)
        take(context, "That row is negative: the estimates are too high by at least that amount. A "
                      "smaller interval (-i) makes them more precise.");
    else if (rest->bytes < 0)
        take(context, "That row is negative: pages that blocks share with others count as "
                      "resident, and blocks may have been made while the memory was read.");
    arenas_caveat(moment, table, take, context);
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

double rss_other_heaps_live(const struct memory_snapshot *snapshot, double *margin)
{
    *margin = DEVIATIONS * sqrt(fmax(snapshot->others_live_variance, 0));
    return snapshot->others_live_bytes;
}

static void other_heaps_caveat(const struct memory_snapshot *snapshot, rss_caveat_fn *take,
                               void *context)
{
    char text[256], around[64] = "";
    double resident = (double)snapshot->parts[MEMORY_OTHER_HEAPS].rss_bytes;
    double margin, live = rss_other_heaps_live(snapshot, &margin);
    if (snapshot->parts[MEMORY_OTHER_HEAPS].mappings == 0)
        return;
    if (margin >= 0.5)
        snprintf(around, sizeof(around), " ± %s", format_bytes(margin).bytes);
    snprintf(text, sizeof(text),
             live > resident ? "The mappings of other heaps have %s%s of live blocks, of which %s "
                               "at most is resident."
                             : "The mappings of other heaps have %s%s of live blocks in the %s "
                               "that are resident.",
             format_bytes(live).bytes, around, format_bytes(resident).bytes);
    take(context, text);
}

void rss_caveats(const struct rss_moment *moment, const struct rss_table *table,
                 rss_caveat_fn *take, void *context)
{
    char text[256];
    remainder_caveats(moment, table, take, context);
    other_heaps_caveat(moment->snapshot, take, context);
    if (moment->snapshot->parts[MEMORY_ANONYMOUS].rss_bytes > 0 && moment->mapped_bytes < 0)
        take(context, why_no_mapped(moment));
    if (moment->mapped_bytes >= 0) {
        snprintf(
            text, sizeof(text),
            "The program itself had %s of anonymous mappings (heap libc.mmap), touched or not.",
            format_bytes(moment->mapped_bytes).bytes);
        take(context, text);
    }
    if (rss_age_seconds(moment) > 0) {
        snprintf(text, sizeof(text),
                 "The table shows the last memory snapshot, %.1f s before the dump%s.",
                 rss_age_seconds(moment), has_ended(moment) ? ": the program had ended since" : "");
        take(context, text);
    }
}

void rss_table_of(struct rss_table *table, const struct rss_moment *moment)
{
    const struct estimate_shown live =
        estimate_total(moment->heap, moment->dump, EXPORT_SPACE, false);
    const struct profile_interval *limits = &live.interval;
    rss_table_fill(table, moment->snapshot);
    if (moment->heap->status.from_startup && moment->heap->status.unseen_allocator == NULL)
        table->rows[table->allocator_count - 1].text = "free lists, fragmentation";
    if (!(fabs(live.value - moment->snapshot->live_bytes) < 0.5) || isnan(limits->high))
        return;
    double margin = fmax(limits->high - live.value, live.value - limits->low);
    for (size_t i = 0; i < table->allocator_count; i++)
        if (table->rows[i].margin >= 0)
            table->rows[i].margin = margin;
}

/* --- the rest --- */

/* Parts of less than this share of the RSS are left to the table. */
#define PART_SHARE 10

/* Return whether a program's name is this one, perhaps with a version: ruby, ruby3.1, ruby-3.1. */
static bool is_called(const char *program, const char *name)
{
    size_t length = strlen(name);
    const char *version = program + length;
    return strncmp(program, name, length) == 0 && version[strspn(version, "0123456789.-")] == '\0';
}

/* What a run time has in anonymous mappings of its own, and the tool that shows it. */
struct runtime {
    const char *program, *words, *tool;
};

static const struct runtime *runtime_of(const struct rss_moment *moment)
{
    static const struct runtime runtimes[] = {
        {"node", "V8's heap and other mappings", "node --heap-prof"},
        {"nodejs", "V8's heap and other mappings", "node --heap-prof"},
        {"java", "Java's heap and other mappings",
         "jcmd PID GC.class_histogram; with -XX:NativeMemoryTracking=summary, jcmd PID "
         "VM.native_memory"},
        {"php", "Zend's heap and other mappings",
         "USE_ZEND_ALLOC=0 in its environment shows them in malloc's"},
        {"php-fpm", "Zend's heap and other mappings",
         "USE_ZEND_ALLOC=0 in its environment shows them in malloc's"},
        {"ruby", "Ruby's objects and other mappings", "Ruby's ObjectSpace"},
        {"python", "Python's objects and other mappings",
         "--heaps libc.malloc," HEAP_CONFIG_PYTHON},
    };
    for (size_t i = 0; i < sizeof(runtimes) / sizeof(runtimes[0]); i++)
        if (is_called(moment->process->name, runtimes[i].program) &&
            !(moment->has_python && strcmp(runtimes[i].program, "python") == 0))
            return &runtimes[i];
    return NULL;
}

static void describe_arenas(const struct rss_moment *moment, const struct rss_table *table,
                            struct rss_rest_part *part)
{
    uint64_t arenas = moment->snapshot->arenas;
    const char *earlier = moment->heap->status.from_startup ? "" : " or from before the profile";
    if (!rss_arenas_hold_much(moment, table)) {
        snprintf(part->words, sizeof(part->words), "free%s in the allocator's memory", earlier);
        return;
    }
    if (arenas == 1)
        snprintf(part->words, sizeof(part->words), "free%s in glibc's arena", earlier);
    else
        snprintf(part->words, sizeof(part->words), "free%s in the %.0f mappings of glibc's arenas",
                 earlier, (double)arenas);
    part->tool = arenas > ARENAS_FEW ? "MALLOC_ARENA_MAX, malloc_trim" : "malloc_trim";
}

static void describe_anonymous(const struct rss_moment *moment, struct rss_rest_part *part)
{
    const struct runtime *runtime = runtime_of(moment);
    snprintf(part->words, sizeof(part->words), "%s",
             runtime != NULL ? runtime->words : "mappings in no heap");
    if (runtime != NULL)
        part->tool = runtime->tool;
    else if (!moment->mmap_wanted)
        part->tool = "--heaps libc.malloc," HEAP_CONFIG_MMAP;
}

/* What of the mappings of other heaps is not live. */
static void describe_other_heaps(const struct rss_moment *moment, struct rss_rest_part *part)
{
    double live = rss_other_heaps_live(moment->snapshot, &part->margin);
    double full = part->bytes > 0 ? fmin(100 * live / part->bytes, 100) : 0;
    part->bytes = fmax(part->bytes - live, 0);
    snprintf(part->words, sizeof(part->words), "free in %s, which are %.0f %% full",
             moment->has_python ? "Python's arenas" : "mappings of other heaps", full);
}

static struct rss_rest_part rss_part_of(const struct rss_moment *moment,
                                        const struct rss_table *table, const struct rss_row *row)
{
    struct rss_rest_part part = {
        .name = row->name, .bytes = (double)row->bytes, .margin = fmax(row->margin, 0)};
    snprintf(part.words, sizeof(part.words), "%s",
             row->kind == MEMORY_FILES_CLEAN ? "code and mapped files" : row->text);
    if (row == rss_remainder(table))
        describe_arenas(moment, table, &part);
    else if (row->kind == MEMORY_ANONYMOUS)
        describe_anonymous(moment, &part);
    else if (row->kind == MEMORY_OTHER_HEAPS)
        describe_other_heaps(moment, &part);
    return part;
}

/* Insert a part by size; the smallest are dropped. */
static void insert(struct rss_rest *rest, const struct rss_rest_part *part)
{
    size_t at = rest->count < RSS_REST_MAX ? rest->count++ : RSS_REST_MAX;
    if (at == RSS_REST_MAX && part->bytes <= rest->parts[--at].bytes)
        return;
    for (; at > 0 && rest->parts[at - 1].bytes < part->bytes; at--)
        rest->parts[at] = rest->parts[at - 1];
    rest->parts[at] = *part;
}

bool rss_rest_of(struct rss_rest *rest, const struct rss_moment *moment)
{
    struct rss_moment most;
    struct rss_table table;
    *rest = (struct rss_rest){0};
    if (moment->snapshot == NULL)
        return false;
    if (!rss_most_of(&most, moment))
        most = *moment;
    rss_table_of(&table, &most);
    rest->rss_bytes = table.rss_bytes;
    rest->boottime_ns = most.snapshot->boottime_ns;
    rest->live_bytes = most.snapshot->live_bytes;
    rest->absent_bytes = most.snapshot->untouched_bytes + most.snapshot->swapped_bytes;
    rest->has_absent = !most.snapshot->pages_unknown;
    for (size_t i = table.allocator_count - 1; i < table.count; i++) {
        const struct rss_rest_part part = rss_part_of(&most, &table, &table.rows[i]);
        if (part.bytes * PART_SHARE >= (double)rest->rss_bytes)
            insert(rest, &part);
    }
    for (size_t i = 0; i < rest->count; i++)
        rest->bytes += rest->parts[i].bytes;
    return true;
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
        json_unsigned(json, "huge_bytes", snapshot->parts[row->kind].huge_bytes);
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
    json_number(json, "seconds_before_dump", rss_age_seconds(moment));
    json_unsigned(json, "look_us", snapshot->duration_us);
    json_string(json, "allocator", snapshot->allocator);
    write_rows(json, "allocator_rows", table.rows, table.allocator_count, snapshot);
    json_unsigned(json, "allocator_bytes", table.allocator_bytes);
    json_unsigned(json, "allocator_mapped_bytes", snapshot->parts[MEMORY_ALLOCATOR].mapped_bytes);
    json_unsigned(json, "allocator_huge_bytes", snapshot->parts[MEMORY_ALLOCATOR].huge_bytes);
    if (snapshot->arenas > 0) {
        json_unsigned(json, "arenas", snapshot->arenas);
        json_unsigned(json, "arenas_rss_bytes", snapshot->arenas_rss_bytes);
    }
    if (snapshot->parts[MEMORY_OTHER_HEAPS].mappings > 0) {
        double margin, live = rss_other_heaps_live(snapshot, &margin);
        json_number(json, "other_heaps_live_bytes", live);
        json_number(json, "other_heaps_live_margin_bytes", margin);
    }
    write_rows(json, "other_rows", table.rows + table.allocator_count,
               table.count - table.allocator_count, snapshot);
    json_unsigned(json, "rss_bytes", table.rss_bytes);
    json_unsigned(json, "profiler_bytes", table.profiler_bytes);
    json_unsigned(json, "swap_bytes", table.swap_bytes);
    json_array(json, "not_known");
    rss_caveats(moment, &table, write_caveat, json);
    json_end_array(json);
}

/* Write the callsites whose blocks are not resident, or keep free memory. */
static void write_sites(struct json_writer *json, const struct rss_moment *moment)
{
    const struct profile *profile = moment->profile;
    const struct profile_dump *dump = moment->dump;
    char label[PROFILE_LABEL_BYTES];
    json_array(json, "callsites");
    for (size_t i = 0; i < dump->site_count; i++) {
        const struct trace_memory_site *site = &dump->sites[i];
        json_line(json);
        json_object(json, NULL);
        json_number(json, "live_bytes", site->live_bytes);
        json_number(json, "live_margin_bytes", site->live_margin);
        json_number(json, "resident_bytes", fmax(site->live_bytes - site->absent_bytes, 0));
        json_number(json, "free_bytes", dump->piece_bytes > 0 ? site->free_bytes : (double)NAN);
        json_array(json, "stack");
        for (uint32_t at = (uint32_t)site->callsite; at != PROFILE_NONE;
             at = profile->callsites[at].parent)
            json_string(json, NULL,
                        profile_frame_label(profile, &profile->frames[profile->callsites[at].frame],
                                            label));
        json_end_array(json);
        json_end_object(json);
    }
    json_end_array(json);
    if (dump->piece_bytes > 0)
        json_unsigned(json, "piece_bytes", dump->piece_bytes);
    else
        json_null(json, "piece_bytes");
}

void rss_write_json(struct json_writer *json, const char *key, const struct rss_moment *moment)
{
    json_object(json, key);
    json_signed(json, "pid", moment->process->pid);
    json_string(json, "process", moment->process->name);
    json_unsigned(json, "dump", (size_t)(moment->dump - moment->heap->dumps) + 1);
    json_unsigned(json, "dumps", moment->heap->dump_count);
    if (moment->timeline_bytes > 0)
        json_unsigned(json, "timeline_rss_bytes", moment->timeline_bytes);
    else
        json_null(json, "timeline_rss_bytes");
    json_bool(json, "known", moment->snapshot != NULL);
    if (moment->snapshot != NULL) {
        write_memory(json, moment);
        write_sites(json, moment);
    }
    struct rss_moment most;
    if (rss_most_of(&most, moment)) {
        json_object(json, "most");
        write_memory(json, &most);
        json_end_object(json);
    }
    json_end_object(json);
}
