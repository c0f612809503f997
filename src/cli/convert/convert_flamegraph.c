/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a flame graph: every view of each heap's dump, as a web page. */
#include <errno.h>
#include <string.h>

#include "cli/convert/conversions.h"
#include "cli/convert/stack_conversion.h"
#include "cli/files/conversion_io.h"
#include "cli/options/filter_options.h"
#include "cli/options/profile_options.h"
#include "compare/diff.h"
#include "export/flame_page.h"
#include "profile/partial.h"

static const char help[] =
    "usage: traceconv flamegraph [options] [DIR|TRACE] [OUT.html]\n"
    "\n"
    "  Writes a self-contained page for any browser, with a flame graph of each view (space,\n"
    "  objects, alloc_space, alloc_objects, max) of each process and heap, at its last dump:\n"
    "  top-down and bottom-up, with zoom, search, and the 95 % limits of each figure.\n"
    "\n" CONVERSION_INPUT_HELP CONVERSION_OUTPUT_HELP
    "\n" DUMP_CHOICE_HELP FILTER_HELP DEMANGLE_FULL_HELP "      --help, --version\n"
    "\n"
    "heap_profile leaks --flame-graph writes a flame graph of growth.\n";

struct source {
    const struct profile *profile;
    const struct profile_dump *dump;
};

static void read_site(const void *context, size_t index, struct flame_site *site)
{
    const struct source *source = context;
    const struct profile_sample *sample = source->dump->samples[index];
    struct rollup_values values = rollup_values_of(sample);
    *site = (struct flame_site){.profile = source->profile, .callsite = sample->callsite};
    for (enum diff_figure figure = 0; figure < DIFF_FIGURES; figure++)
        site->figures[figure].gained = diff_estimate_of(&values, figure);
}

static int add_dump(struct flame_page *page, const struct profile *profile,
                    const struct export_dump *chosen)
{
    struct flame_view views[EXPORT_VIEWS];
    const struct profile_heap *heap = chosen->heap;
    const struct profile_process *process = &profile->processes[heap->process];
    const struct source source = {profile, chosen->dump};
    for (enum export_view view = 0; view < EXPORT_VIEWS; view++)
        views[view] = (struct flame_view){export_view_info[view].name, export_view_info[view].title,
                                          (unsigned)diff_figure_of(view),
                                          export_view_info[view].counts_bytes};
    struct flame_graph graph = {
        .process = process->name,
        .labels = process->command,
        .heap = heap->name,
        .pid = process->pid,
        .exact = profile_dump_is_exact(heap, chosen->dump),
        .partial = heap->interval_bytes == 1 &&
                   (profile_dump_is_partial(heap, chosen->dump) || profile_lacks_frees(heap)),
        .gained_interval_bytes = heap->interval_bytes,
        .lost_interval_bytes = heap->interval_bytes,
        .views = views,
        .view_count = EXPORT_VIEWS,
        .figure_count = DIFF_FIGURES,
        .site_count = chosen->dump->sample_count,
        .read_site = read_site,
        .context = &source};
    return flame_page_add(page, &graph);
}

static int64_t write_page(const struct profile *profile, const struct export_dump *dumps,
                          size_t count, enum export_view view, const char *name, FILE *out)
{
    (void)view; /* the page has all views */
    struct flame_page *page = flame_page_new(out, name);
    if (page == NULL)
        return -ENOMEM;
    int code = 0;
    for (size_t i = 0; i < count && code == 0; i++)
        code = add_dump(page, profile, &dumps[i]);
    code = flame_page_end(page, code);
    return code < 0 ? code : (int64_t)count;
}

int convert_flamegraph(int argc, char **argv)
{
    static const struct stack_conversion conversion = {
        .help = help, .largest_first = true, .shares_callers = true, .write = write_page};
    return stack_conversion_run(argc, argv, &conversion);
}
