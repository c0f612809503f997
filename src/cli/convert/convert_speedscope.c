/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a Speedscope file: every view of each heap's last dump. */
#include "cli/convert/conversions.h"
#include "cli/convert/stack_conversion.h"
#include "cli/files/conversion_io.h"
#include "cli/options/filter_options.h"
#include "cli/options/profile_options.h"
#include "export/speedscope.h"

static const char help[] =
    "usage: traceconv speedscope [options] [DIR|TRACE] [OUT]\n"
    "\n"
    "  Writes a file for https://www.speedscope.app and the npm package speedscope: one profile\n"
    "  for each view (space, objects, alloc_space, alloc_objects, max) of each process and heap,\n"
    "  at its last dump, with source files and lines.\n"
    "\n" CONVERSION_INPUT_HELP CONVERSION_OUTPUT_HELP
    "\n" DUMP_CHOICE_HELP FILTER_HELP DEMANGLE_FULL_HELP "      --help, --version\n";

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
