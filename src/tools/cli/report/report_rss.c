/* SPDX-License-Identifier: Apache-2.0 */
/* Prints how the live bytes of a heap relate to the RSS of its process. */
#include "tools/cli/report/report_rss.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "profile/compare/rss.h"
#include "tools/print/format.h"
#include "tools/print/stack_format.h"
#include "util/json_writer.h"
#include "util/xmalloc.h"

/* The trace has a few more, for scripts. */
#define SITES_PRINTED 10u
#define SITE_FIGURES_COLUMNS 43

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

static struct formatted signed_bytes(double value)
{
    struct formatted text = format_bytes(fabs(value)), result;
    snprintf(result.bytes, sizeof(result.bytes), "%s%.30s", value < 0 ? FORMAT_MINUS : "",
             text.bytes);
    return result;
}

/* Print how much is mapped, of which a part is resident, in how many mappings. */
static void print_mapped(const struct memory_part *part, FILE *out)
{
    fprintf(out, " of %s mapped", format_bytes((double)part->mapped_bytes).bytes);
    if (part->mappings > 1)
        fprintf(out, ", %s mappings", format_count((double)part->mappings).bytes);
    if (part->huge_bytes > 0)
        fprintf(out, ", %s in huge pages", format_bytes((double)part->huge_bytes).bytes);
}

static void print_figure(const char *sign, const char *words, double value, const char *source,
                         FILE *out)
{
    struct formatted bytes = signed_bytes(value);
    fprintf(out, "%s %-54s %*s  %s", sign, words, format_width(&bytes, 9), bytes.bytes, source);
}

static void print_row(const struct rss_row *row, const struct memory_snapshot *snapshot, FILE *out)
{
    struct formatted bytes = signed_bytes((double)row->bytes);
    fprintf(out, "  %-54s %*s  %s", row->text, format_width(&bytes, 9),
            row->source == RSS_NOT_KNOWN ? "?" : bytes.bytes, source_texts[row->source]);
    if (row->source == RSS_BY_RULE) {
        fputc(' ', out);
        format_print(out, snapshot->rounding_rule, FORMAT_WORD_WIDTH);
    }
    if (row->margin >= 0.5)
        fprintf(out, ", ± %s", format_bytes(row->margin).bytes);
    if (row->kind != MEMORY_UNKNOWN)
        print_mapped(&snapshot->parts[row->kind], out);
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
    bool is_counted = total.interval.low == total.interval.high;
    print_figure(" ", "live blocks, as requested", total.value,
                 source_texts[is_counted ? RSS_COUNTED : RSS_ESTIMATED], out);
    fputc('\n', out);
    if (rss > 0) {
        print_figure(" ", "everything else", (double)rss - total.value, source_texts[RSS_REMAINDER],
                     out);
        fputc('\n', out);
        print_figure("=", "RSS", (double)rss, source_texts[RSS_MEASURED], out);
        fputc('\n', out);
    } else {
        fprintf(out, "= %-54s %9s  not in the trace\n", "RSS", "?");
    }
    fputc('\n', out);
    print_note(out, rss_why_no_snapshot);
}

static void print_table(const struct rss_moment *moment, const struct rss_table *table, FILE *out)
{
    for (size_t i = 0; i < table->allocator_count; i++)
        print_row(&table->rows[i], moment->snapshot, out);
    print_figure("=", "the allocator's memory", (double)table->allocator_bytes, "measured", out);
    print_mapped(&moment->snapshot->parts[MEMORY_ALLOCATOR], out);
    fputc('\n', out);
    for (size_t i = table->allocator_count; i < table->count; i++)
        print_row(&table->rows[i], moment->snapshot, out);
    print_figure("=", "RSS", (double)table->rss_bytes, "measured\n", out);
    print_figure(" ", "the profiler's own memory, not part of it", (double)table->profiler_bytes,
                 "measured\n", out);
    print_figure(" ", "swapped out, not part of the RSS", (double)table->swap_bytes, "measured\n\n",
                 out);
}

/* Print the table of the moment with the most memory, too, if the process gave much of it back. */
static void print_most(const struct rss_moment *moment, FILE *out)
{
    struct rss_moment most;
    struct rss_table table;
    if (!rss_most_of(&most, moment))
        return;
    rss_table_of(&table, &most);
    fprintf(out, "\nThe most that was read, %s before the dump\n\n",
            format_time(rss_age_seconds(&most)).bytes);
    print_table(&most, &table, out);
}

/* Print the callsites whose live blocks are not resident, or keep free memory from the kernel. */
static void print_sites(const struct rss_moment *moment, const struct report_options *options,
                        const struct folding *folding, FILE *out)
{
    const struct profile_dump *dump = moment->dump;
    const struct stack_format format = {
        .profile = moment->profile,
        .folding = folding,
        .python_lines = true,
        .simple = options->simple_names,
        .columns = stack_format_room(options->columns, SITE_FIGURES_COLUMNS)};
    if (dump->site_count == 0)
        return;
    fputs("\nCallsites with live blocks that are not resident", out);
    if (dump->piece_bytes > 0)
        fprintf(out, ", or with free memory around them (in the same %s)",
                format_bytes((double)dump->piece_bytes).bytes);
    fputs("\n      live  95 %       resident      free  function < its callers\n", out);
    for (size_t i = 0; i < dump->site_count && i < SITES_PRINTED; i++) {
        const struct trace_memory_site *site = &dump->sites[i];
        struct formatted margin = {"± 0 B"}, around = {"?"};
        if (site->live_margin >= 0.5)
            snprintf(margin.bytes, sizeof(margin.bytes), "± %.30s",
                     format_bytes(site->live_margin).bytes);
        if (dump->piece_bytes > 0)
            around = format_bytes(site->free_bytes);
        fprintf(out, "%10s  %-*s%9s%10s  ", format_bytes(site->live_bytes).bytes,
                format_width(&margin, 10), margin.bytes,
                format_bytes(fmax(site->live_bytes - site->absent_bytes, 0)).bytes, around.bytes);
        stack_format_print_row(&format, (uint32_t)site->callsite, out);
        fputc('\n', out);
    }
}

static void print_text(const struct rss_moment *moment, const struct report_options *options,
                       const struct folding *folding, FILE *out)
{
    struct rss_table table;
    format_print(out, moment->process->name, FORMAT_WORD_WIDTH);
    fprintf(out, " (pid %d), dump %zu of %zu: from the heap to the RSS\n\n", moment->process->pid,
            (size_t)(moment->dump - moment->heap->dumps) + 1, moment->heap->dump_count);
    if (moment->snapshot == NULL) {
        print_missing(moment, out);
        return;
    }
    rss_table_of(&table, moment);
    print_table(moment, &table, out);
    rss_caveats(moment, &table, print_note, out);
    print_sites(moment, options, folding, out);
    print_most(moment, out);
}

/* --- text and JSON --- */

int report_print_rss(const struct profile *profile, const struct report_options *options, bool json,
                     FILE *out)
{
    bool any = false;
    struct folding folding = {0};
    if (!json)
        xmalloc_code(folding_make(&folding, profile));
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
            print_text(&moment, options, options->all_frames ? NULL : &folding, out);
        }
    }
    if (json && any) {
        json_end_array(&writer);
        json_end_object(&writer);
        fputc('\n', out);
    }
    folding_clear(&folding);
    return any ? 0 : -ENOENT;
}
