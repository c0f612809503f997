/* SPDX-License-Identifier: Apache-2.0 */
/* Computes and prints how the live bytes of a heap relate to the RSS of its process. */
#include "cli/report/report_rss.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "cli/print/format.h"
#include "util/json_writer.h"

#define MALLOC_NAME "libc.malloc"
#define DEVIATIONS 1.96 /* 95 % of a normal distribution */
#define AT_THE_DUMP_NS UINT64_C(20000000)

/* --- the table --- */

static void add(struct rss_table *table, struct rss_row row)
{
    if (table->count < RSS_ROWS_MAX)
        table->rows[table->count++] = row;
}

static void add_of_allocator(struct rss_table *table, const struct memory_snapshot *snapshot)
{
    double margin = DEVIATIONS * sqrt(fmax(snapshot->live_bytes_variance, 0));
    bool has_rule = snapshot->rounding_rule != NULL;
    enum rss_source of_pages = snapshot->pages_unknown ? RSS_NOT_KNOWN : RSS_ESTIMATED;
    add(table,
        (struct rss_row){"live_requested", "live blocks, as requested",
                         llround(snapshot->live_bytes), margin, RSS_ESTIMATED, MEMORY_UNKNOWN});
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

void rss_table_fill(struct rss_table *table, const struct memory_snapshot *snapshot)
{
    static const struct {
        enum memory_kind kind;
        const char *name, *text;
    } others[] = {
        {MEMORY_ANONYMOUS, "anonymous", "anonymous mappings without live blocks"},
        {MEMORY_THREAD_STACKS, "thread_stacks", "thread stacks"},
        {MEMORY_MAIN_STACK, "main_stack", "main thread's stack"},
        {MEMORY_FILES_WRITTEN, "files_written", "modified pages of files: .data, .bss"},
        {MEMORY_FILES_CLEAN, "files_clean", "unmodified pages of files: code, constants"},
        {MEMORY_SHARED, "shared", "shared memory"},
        {MEMORY_PROFILER, "profiler", "the profiler's own memory"},
        {MEMORY_KERNEL, "kernel", "kernel pages"},
        {MEMORY_UNKNOWN, "unknown", "of a kind unknown to this version"},
    };
    *table = (struct rss_table){.rss_bytes = memory_snapshot_rss(snapshot)};
    add_of_allocator(table, snapshot);
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        const struct memory_part *part = &snapshot->parts[others[i].kind];
        if (part->rss_bytes > 0)
            add(table, (struct rss_row){others[i].name, others[i].text, (int64_t)part->rss_bytes,
                                        -1, RSS_MEASURED, others[i].kind});
    }
    for (unsigned i = 0; i < MEMORY_KINDS; i++)
        table->swap_bytes += snapshot->parts[i].swap_bytes;
}

/* --- choosing the snapshot --- */

/* Return the last memory snapshot before the dump. */
static const struct memory_snapshot *snapshot_of(const struct profile *profile, uint32_t process,
                                                 const struct profile_dump *dump)
{
    const struct memory_snapshot *found = NULL;
    for (size_t i = 0; i < profile->memory_snapshot_count; i++) {
        const struct profile_memory_snapshot *snapshot = &profile->memory_snapshots[i];
        if (snapshot->process == process && snapshot->order <= dump->order)
            found = &snapshot->values;
    }
    return found;
}

static bool is_malloc(const struct profile_heap *heap)
{
    return strncmp(heap->name, MALLOC_NAME, sizeof(MALLOC_NAME) - 1) == 0;
}

/* Return the heap whose dumps represent the process: malloc's, or the first one. */
static const struct profile_heap *heap_of(const struct profile *profile, uint32_t process,
                                          const struct report_options *options)
{
    const struct profile_heap *found = NULL;
    for (size_t i = 0; i < profile->heap_count; i++) {
        const struct profile_heap *heap = &profile->heaps[i];
        if (heap->process != process || dump_choice_of(&options->choice, profile, heap) == NULL)
            continue;
        if (found == NULL || (is_malloc(heap) && !is_malloc(found)))
            found = heap;
    }
    return found;
}

/* Return the RSS at the dump from the timeline; 0: unknown. */
static uint64_t timeline_rss(const struct profile_process *process, const struct profile_dump *dump)
{
    uint64_t rss = 0;
    for (size_t i = 0; i < process->timeline_count; i++) {
        const struct profile_memory_point *point = &process->timeline[i];
        if (point->boottime_ns <= dump->boottime_ns && point->rss_bytes > 0)
            rss = point->rss_bytes;
    }
    return rss;
}

struct subject {
    const struct profile_process *process;
    const struct profile_heap *heap;
    const struct profile_dump *dump;
    const struct memory_snapshot *snapshot; /* NULL: the trace has none */
    double mapped_bytes;                    /* live in libc.mmap; < 0: not profiled */
};

static double age_seconds(const struct subject *subject)
{
    uint64_t taken = subject->snapshot->boottime_ns, dump = subject->dump->boottime_ns;
    return dump > taken + AT_THE_DUMP_NS ? (double)(dump - taken) / 1e9 : 0;
}

/* Return whether the process had certainly ended before the dump. */
static bool has_ended(const struct subject *subject)
{
    return subject->dump->final && subject->heap->status.disconnected;
}

/* --- caveats --- */

typedef void caveat_fn(void *context, const char *text);

static void print_remainder_caveats(const struct subject *subject, const struct rss_table *table,
                                    caveat_fn *print, void *context)
{
    const struct rss_row *rest = &table->rows[table->allocator_count - 1];
    print(
        context,
        "Free lists, fragmentation and allocations from before the profile share one row: only "
        "the allocator's own count (malloc_info), a call in the process, could separate them. The "
        "row is the rest of the allocator's memory, and includes the error of the estimates "
        "above.");
    if (rest->bytes < 0)
        print(context,
              "That row is negative: the estimates are too high by at least that amount. A "
              "smaller interval (-i) makes them more precise, and -i 1 exact.");
    if (subject->snapshot->rounding_rule == NULL)
        print(context,
              "The size classes of this allocator are unknown: its rounding is part of the "
              "remainder.");
    if (subject->snapshot->pages_unknown)
        print(context,
              "The untouched pages of live blocks are unknown, because /proc/PID/pagemap could "
              "not be read: the remainder is too low by them.");
}

static void print_caveats(const struct subject *subject, const struct rss_table *table,
                          caveat_fn *print, void *context)
{
    char text[256];
    print_remainder_caveats(subject, table, print, context);
    if (subject->snapshot->parts[MEMORY_ANONYMOUS].rss_bytes > 0 && subject->mapped_bytes < 0)
        print(context,
              "It is unknown whether the program itself or an allocator made the anonymous "
              "mappings: --heaps libc.malloc,libc.mmap profiles the program's, too.");
    if (subject->mapped_bytes >= 0) {
        snprintf(
            text, sizeof(text),
            "The program itself had %s of anonymous mappings (heap libc.mmap), touched or not.",
            format_bytes(subject->mapped_bytes).bytes);
        print(context, text);
    }
    if (age_seconds(subject) > 0) {
        snprintf(text, sizeof(text),
                 "The table shows the last memory snapshot, %.1f s before the dump%s.",
                 age_seconds(subject), has_ended(subject) ? ": the program had ended since" : "");
        print(context, text);
    }
}

/* --- for people --- */

static const char *const source_texts[] = {
    [RSS_ESTIMATED] = "estimated from samples",
    [RSS_BY_RULE] = "by the size classes of",
    [RSS_MEASURED] = "measured",
    [RSS_REMAINDER] = "remainder",
    [RSS_NOT_KNOWN] = "unknown",
};

static const char *const source_names[] = {
    [RSS_ESTIMATED] = "estimated", [RSS_BY_RULE] = "rule",        [RSS_MEASURED] = "measured",
    [RSS_REMAINDER] = "remainder", [RSS_NOT_KNOWN] = "not_known",
};

static struct formatted signed_count(int64_t value)
{
    struct formatted text = format_count(fabs((double)value)), result;
    snprintf(result.bytes, sizeof(result.bytes), "%s%.30s", value < 0 ? "-" : "", text.bytes);
    return result;
}

static void print_row(const struct rss_row *row, const struct memory_snapshot *snapshot, FILE *out)
{
    struct formatted bytes = signed_count(row->bytes);
    fprintf(out, "  %-54s %17s  %s", row->text, row->source == RSS_NOT_KNOWN ? "?" : bytes.bytes,
            source_texts[row->source]);
    if (row->source == RSS_BY_RULE) {
        fputc(' ', out);
        format_print(out, snapshot->rounding_rule, FORMAT_WORD_WIDTH);
    }
    if (row->margin >= 0.5)
        fprintf(out, ", ± %s", format_count(row->margin).bytes);
    if (row->kind != MEMORY_UNKNOWN)
        fprintf(out, ", %s mapping%s",
                format_count((double)snapshot->parts[row->kind].mappings).bytes,
                snapshot->parts[row->kind].mappings == 1 ? "" : "s");
    fputc('\n', out);
}

static void print_note(void *context, const char *text)
{
    FILE *out = context;
    size_t column = 0;
    while (*text != '\0') {
        size_t length = strcspn(text, " ");
        if (column > 0 && column + 1 + length > 92) {
            fputc('\n', out);
            column = 0;
        }
        column += (size_t)fprintf(out, "%s%.*s", column == 0 ? "  " : " ", (int)length, text);
        text += length + strspn(text + length, " ");
    }
    fputc('\n', out);
}

static void print_missing(const struct subject *subject, FILE *out)
{
    uint64_t rss = timeline_rss(subject->process, subject->dump);
    struct profile_estimate live = estimate_of_dump(subject->dump, EXPORT_SPACE);
    fprintf(out, "  live blocks, as requested %17s  %s\n", signed_count(llround(live.bytes)).bytes,
            source_texts[RSS_ESTIMATED]);
    if (rss > 0) {
        fprintf(out, "  everything else           %17s  %s\n",
                signed_count((int64_t)rss - llround(live.bytes)).bytes,
                source_texts[RSS_REMAINDER]);
        fprintf(out, "= RSS                       %17s  %s\n", format_count((double)rss).bytes,
                source_texts[RSS_MEASURED]);
    } else {
        fputs("= RSS                                       ?  not in the trace\n", out);
    }
    fputc('\n', out);
    print_note(out,
               "The trace has no memory snapshot of this process: the process ended before the "
               "first one (taken within a second), its memory could not be read, or another "
               "version of heapprofd recorded the profile.");
}

static void print_text(const struct subject *subject, FILE *out)
{
    struct rss_table table;
    format_print(out, subject->process->name, FORMAT_WORD_WIDTH);
    fprintf(out, " (pid %d), dump %zu of %zu: from the heap to the RSS, in bytes\n\n",
            subject->process->pid, (size_t)(subject->dump - subject->heap->dumps) + 1,
            subject->heap->dump_count);
    if (subject->snapshot == NULL) {
        print_missing(subject, out);
        return;
    }
    rss_table_fill(&table, subject->snapshot);
    for (size_t i = 0; i < table.allocator_count; i++)
        print_row(&table.rows[i], subject->snapshot, out);
    uint64_t mappings = subject->snapshot->parts[MEMORY_ALLOCATOR].mappings;
    fprintf(out, "= %-54s %17s  measured, %s mapping%s\n", "the allocator's memory",
            format_count((double)table.allocator_bytes).bytes, format_count((double)mappings).bytes,
            mappings == 1 ? "" : "s");
    for (size_t i = table.allocator_count; i < table.count; i++)
        print_row(&table.rows[i], subject->snapshot, out);
    fprintf(out, "= %-54s %17s  measured\n", "RSS", format_count((double)table.rss_bytes).bytes);
    fprintf(out, "  %-54s %17s  measured\n\n", "swapped out, not part of the RSS",
            format_count((double)table.swap_bytes).bytes);
    print_caveats(subject, &table, print_note, out);
}

/* --- for scripts --- */

static void print_json_note(void *context, const char *text)
{
    json_string(context, NULL, text);
}

static void print_json_row(struct json_writer *json, const struct rss_row *row,
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

static void print_json_rows(struct json_writer *json, const char *name, const struct rss_row *rows,
                            size_t count, const struct memory_snapshot *snapshot)
{
    json_array(json, name);
    for (size_t i = 0; i < count; i++)
        print_json_row(json, &rows[i], snapshot);
    json_end_array(json);
}

static void print_json_memory(struct json_writer *json, const struct subject *subject)
{
    struct rss_table table;
    const struct memory_snapshot *snapshot = subject->snapshot;
    rss_table_fill(&table, snapshot);
    json_number(json, "seconds_before_dump", age_seconds(subject));
    json_unsigned(json, "look_us", snapshot->duration_us);
    json_string(json, "allocator", snapshot->allocator);
    print_json_rows(json, "allocator_rows", table.rows, table.allocator_count, snapshot);
    json_unsigned(json, "allocator_bytes", table.allocator_bytes);
    print_json_rows(json, "other_rows", table.rows + table.allocator_count,
                    table.count - table.allocator_count, snapshot);
    json_unsigned(json, "rss_bytes", table.rss_bytes);
    json_unsigned(json, "swap_bytes", table.swap_bytes);
    json_array(json, "not_known");
    print_caveats(subject, &table, print_json_note, json);
    json_end_array(json);
}

static void print_json(struct json_writer *json, const struct subject *subject)
{
    json_line(json);
    json_object(json, NULL);
    json_signed(json, "pid", subject->process->pid);
    json_string(json, "process", subject->process->name);
    json_unsigned(json, "dump", (size_t)(subject->dump - subject->heap->dumps) + 1);
    json_unsigned(json, "dumps", subject->heap->dump_count);
    json_unsigned(json, "timeline_rss_bytes", timeline_rss(subject->process, subject->dump));
    json_bool(json, "known", subject->snapshot != NULL);
    if (subject->snapshot != NULL)
        print_json_memory(json, subject);
    json_end_object(json);
}

/* --- text and JSON --- */

/* Return the bytes live in libc.mmap at the dump of the same number; < 0: not profiled. */
static double mapped_of(const struct profile *profile, uint32_t process,
                        const struct report_options *options)
{
    struct report_options same = *options;
    same.choice.heap = "libc.mmap";
    for (size_t i = 0; i < profile->heap_count; i++) {
        const struct profile_dump *dump = dump_choice_of(&same.choice, profile, &profile->heaps[i]);
        if (dump != NULL && profile->heaps[i].process == process)
            return estimate_of_dump(dump, EXPORT_SPACE).bytes;
    }
    return -1;
}

int report_print_rss(const struct profile *profile, const struct report_options *options, bool json,
                     FILE *out)
{
    bool any = false;
    struct json_writer writer = json_begin(out);
    for (uint32_t i = 0; i < profile->process_count; i++) {
        struct subject subject = {.process = &profile->processes[i]};
        subject.heap = heap_of(profile, i, options);
        if (subject.heap == NULL)
            continue;
        subject.dump = dump_choice_of(&options->choice, profile, subject.heap);
        subject.snapshot = snapshot_of(profile, i, subject.dump);
        subject.mapped_bytes = mapped_of(profile, i, options);
        if (json && !any) {
            json_object(&writer, NULL);
            json_array(&writer, "processes");
        } else if (any && !json) {
            fputc('\n', out);
        }
        any = true;
        if (json)
            print_json(&writer, &subject);
        else
            print_text(&subject, out);
    }
    if (json && any) {
        json_end_array(&writer);
        json_end_object(&writer);
        fputc('\n', out);
    }
    return any ? 0 : -ENOENT;
}
