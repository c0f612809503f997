/* SPDX-License-Identifier: Apache-2.0 */
/* Writes collapsed stacks, for flamegraph.pl, inferno and Speedscope: one view of each heap's
 * dump. */
#include "cli/convert/conversions.h"
#include "cli/convert/stack_conversion.h"
#include "cli/files/conversion_io.h"
#include "cli/options/filter_options.h"
#include "cli/options/profile_options.h"
#include "export/collapsed.h"

static const char help[] =
    "usage: traceconv collapsed [options] [DIR|TRACE] [OUT]\n"
    "\n"
    "  Writes a line \"outermost;...;innermost N\" for each stack, for flamegraph.pl, inferno and\n"
    "  Speedscope: traceconv collapsed raw-trace | flamegraph.pl > graph.svg. If there are "
    "several\n"
    "  processes, the outermost frame is the process; if a process has several heaps, the next "
    "frame\n"
    "  is the heap.\n"
    "\n" CONVERSION_INPUT_HELP CONVERSION_OUTPUT_HELP "\n"
    "  --view VIEW   the meaning of N:\n"
    "                  space          bytes live at the dump (default)\n"
    "                  objects        the same, counted in allocations\n"
    "                  alloc_space    bytes ever allocated\n"
    "                  alloc_objects  the same, counted in allocations\n"
    "                  max            bytes live at the heap's peak\n" DUMP_CHOICE_HELP FILTER_HELP
        DEMANGLE_FULL_HELP "      --help, --version\n";

static int64_t write_stacks(const struct profile *profile, const struct export_dump *dumps,
                            size_t count, enum export_view view, const char *name, FILE *out)
{
    (void)name;
    return collapsed_write(profile, dumps, count, view, out);
}

int convert_collapsed(int argc, char **argv)
{
    static const struct stack_conversion conversion = {
        .help = help, .has_view = true, .write = write_stacks};
    return stack_conversion_run(argc, argv, &conversion);
}
