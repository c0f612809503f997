/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a Speedscope file: every view of each heap's last dump. */
#include "cli/convert/conversions.h"
#include "cli/convert/stack_conversion.h"
#include "cli/options/filter_options.h"
#include "export/speedscope.h"

static const char help[] =
    "usage: traceconv speedscope [options] [DIR|TRACE] [OUT]\n"
    "\n"
    "  Writes the file that https://www.speedscope.app and the npm package speedscope open:\n"
    "  one profile for each view (space, objects, alloc_space, alloc_objects, max) of each\n"
    "  process and heap, as of its last dump, with files and lines. TRACE: '-', or none where\n"
    "  it is not a terminal: standard input. OUT: '-' or none: standard output.\n"
    "\n"
    "  --pid PID, --heap NAME   only these\n"
    "  --dump N      the N-th dump of each heap, from 1, or 'final', the last "
    "(default)\n" FILTER_HELP
    "  --demangle full|simple|none   functions' names with all that is in them (default),\n"
    "                without parameters and template arguments, or mangled\n"
    "      --help, --version\n";

static int64_t write_stacks(const struct profile *profile, const struct export_dump *dumps,
                            size_t count, enum export_view view, const char *name, FILE *out)
{
    (void)view; /* the file has all views */
    return speedscope_write(profile, dumps, count, name, out);
}

int convert_speedscope(int argc, char **argv)
{
    static const struct stack_conversion conversion = {
        .help = help, .largest_first = true, .write = write_stacks};
    return stack_conversion_run(argc, argv, &conversion);
}
