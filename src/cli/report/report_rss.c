/* SPDX-License-Identifier: Apache-2.0 */
/* Prints how the live bytes of a heap relate to the RSS of its process. */
#include "cli/report/report_rss.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "cli/print/format.h"
#include "compare/rss.h"
#include "util/json_writer.h"

#define MALLOC_NAME "libc.malloc"

/* --- choosing the heap --- */

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

/* --- for people --- */

static const char *const source_texts[] = {
    [RSS_ESTIMATED] = "estimated from samples",
    [RSS_COUNTED] = "counted",
    [RSS_BY_RULE] = "by the size classes of",
    [RSS_MEASURED] = "measured",
    [RSS_REMAINDER] = "remainder",
    [RSS_NOT_KNOWN] = "unknown",
};

static struct formatted signed_count(int64_t value)
{
    struct formatted text = format_count(fabs((double)value)), result;
    snprintf(result.bytes, sizeof(result.bytes), "%s%.30s", value < 0 ? FORMAT_MINUS : "",
             text.bytes);
    return result;
}

static void print_row(const struct rss_row *row, const struct memory_snapshot *snapshot, FILE *out)
{
    struct formatted bytes = signed_count(row->bytes);
    fprintf(out, "  %-54s %*s  %s", row->text, format_width(&bytes, 17),
            row->source == RSS_NOT_KNOWN ? "?" : bytes.bytes, source_texts[row->source]);
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

static void print_missing(const struct rss_moment *moment, FILE *out)
{
    uint64_t rss = moment->timeline_bytes;
    const struct estimate_shown total =
        estimate_total(moment->heap, moment->dump, EXPORT_SPACE, false);
    double live = total.value;
    bool is_counted = total.interval.low == total.interval.high;
    fprintf(out, "  live blocks, as requested %17s  %s\n", signed_count(llround(live)).bytes,
            source_texts[is_counted ? RSS_COUNTED : RSS_ESTIMATED]);
    if (rss > 0) {
        fprintf(out, "  everything else           %17s  %s\n",
                signed_count((int64_t)rss - llround(live)).bytes, source_texts[RSS_REMAINDER]);
        fprintf(out, "= RSS                       %17s  %s\n", format_count((double)rss).bytes,
                source_texts[RSS_MEASURED]);
    } else {
        fputs("= RSS                                       ?  not in the trace\n", out);
    }
    fputc('\n', out);
    print_note(out, rss_why_no_snapshot);
}

static void print_text(const struct rss_moment *moment, FILE *out)
{
    struct rss_table table;
    format_print(out, moment->process->name, FORMAT_WORD_WIDTH);
    fprintf(out, " (pid %d), dump %zu of %zu: from the heap to the RSS, in bytes\n\n",
            moment->process->pid, (size_t)(moment->dump - moment->heap->dumps) + 1,
            moment->heap->dump_count);
    if (moment->snapshot == NULL) {
        print_missing(moment, out);
        return;
    }
    rss_table_of(&table, moment);
    for (size_t i = 0; i < table.allocator_count; i++)
        print_row(&table.rows[i], moment->snapshot, out);
    uint64_t mappings = moment->snapshot->parts[MEMORY_ALLOCATOR].mappings;
    fprintf(out, "= %-54s %17s  measured, %s mapping%s\n", "the allocator's memory",
            format_count((double)table.allocator_bytes).bytes, format_count((double)mappings).bytes,
            mappings == 1 ? "" : "s");
    for (size_t i = table.allocator_count; i < table.count; i++)
        print_row(&table.rows[i], moment->snapshot, out);
    fprintf(out, "= %-54s %17s  measured\n", "RSS", format_count((double)table.rss_bytes).bytes);
    fprintf(out, "  %-54s %17s  measured\n", "the profiler's own memory, not part of it",
            format_count((double)table.profiler_bytes).bytes);
    fprintf(out, "  %-54s %17s  measured\n\n", "swapped out, not part of the RSS",
            format_count((double)table.swap_bytes).bytes);
    rss_caveats(moment, &table, print_note, out);
}

/* --- text and JSON --- */

int report_print_rss(const struct profile *profile, const struct report_options *options, bool json,
                     FILE *out)
{
    bool any = false;
    struct json_writer writer = json_begin(out);
    for (uint32_t i = 0; i < profile->process_count; i++) {
        const struct profile_heap *heap = heap_of(profile, i, options);
        if (heap == NULL)
            continue;
        const struct profile_dump *dump = dump_choice_of(&options->choice, profile, heap);
        const struct rss_moment moment = rss_moment_of(profile, heap, dump, options->choice.dump);
        if (json && !any) {
            json_object(&writer, NULL);
            json_unsigned(&writer, "version", 1);
            json_array(&writer, "processes");
        } else if (any && !json) {
            fputc('\n', out);
        }
        any = true;
        if (json) {
            json_line(&writer);
            rss_write_json(&writer, NULL, &moment);
        } else {
            print_text(&moment, out);
        }
    }
    if (json && any) {
        json_end_array(&writer);
        json_end_object(&writer);
        fputc('\n', out);
    }
    return any ? 0 : -ENOENT;
}
