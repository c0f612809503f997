/* SPDX-License-Identifier: Apache-2.0 */
/* traceconv: the dispatch to the conversions of traces into files that other tools read. */
#include <stdio.h>
#include <string.h>

#include "tools/cli/convert/conversions.h"
#include "tools/cli/main/tool_setup.h"
#include "tools/print/format.h"
#include "util/version.h"

static void print_help(FILE *out)
{
    fputs("usage: traceconv VERB [options] [TRACE] [OUT]\n"
          "\n"
          "Converts a trace or another heap profile to:\n"
          "\n",
          out);
    conversions_print(out);
    fputs("\n"
          "TRACE is a file, or a directory that heap_profile wrote; '-' is standard input. Without "
          "TRACE,\n"
          "standard input is read or, if it is a terminal, the latest profile.\n"
          "OUT is a file; '-' or none: standard output.\n"
          "More help: traceconv VERB --help, man traceconv.\n",
          out);
}

int main(int argc, char **argv)
{
    tool_setup();
    if (argc < 2) {
        print_help(stderr);
        return 2;
    }
    const struct conversion *conversion = conversion_find(argv[1]);
    if (conversion != NULL)
        return conversion->run(argc - 1, argv + 1);
    if (strcmp(argv[1], "--version") == 0) {
        version_print("traceconv");
        return 0;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        print_help(stdout);
        return 0;
    }
    const char *nearest = conversion_suggest(argv[1]);
    format_printf(stderr, "traceconv: there is no conversion '%s'", argv[1]);
    if (nearest != NULL)
        format_printf(stderr, "; did you mean %s?", nearest);
    fputs("\ntraceconv: see traceconv --help\n", stderr);
    return 2;
}
