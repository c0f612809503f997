/* SPDX-License-Identifier: Apache-2.0 */
/* Writes collapsed stacks, for flamegraph.pl, inferno and Speedscope: one view of each heap's
 * dump. */
#include "cli/convert/conversions.h"
#include "cli/convert/stack_conversion.h"
#include "cli/options/filter_options.h"
#include "export/collapsed.h"

static const char help[] =
    "usage: traceconv collapsed [options] [DIR|TRACE] [OUT]\n"
    "\n"
    "  Writes a line \"outermost;...;innermost N\" for each stack, as flamegraph.pl, inferno and\n"
    "  Speedscope read them: traceconv collapsed raw-trace | flamegraph.pl > graph.svg.\n"
    "  TRACE: '-', or none where it is not a terminal: standard input. OUT: '-' or none:\n"
    "  standard output. Where there are several processes, each is the outermost frame of its\n"
    "  stacks; where a process has several heaps, so is each of these within it.\n"
    "\n"
    "  --view VIEW   what N is:\n"
    "                  space          bytes live at the dump (default)\n"
    "                  objects        the same, counted in allocations\n"
    "                  alloc_space    bytes ever allocated\n"
    "                  alloc_objects  the same, counted in allocations\n"
    "                  max            bytes live when the heap was largest\n"
    "  --pid PID, --heap NAME   only these\n"
    "  --dump N      the N-th dump of each heap, from 1, or 'final', the last "
    "(default)\n" FILTER_HELP
    "  --demangle full|simple|none   functions' names with all that is in them (default),\n"
    "                without parameters and template arguments, or mangled\n"
    "      --help, --version\n";

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
