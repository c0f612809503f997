/* SPDX-License-Identifier: Apache-2.0 */
/* The table of conversions, and the search in it. */
#include "tools/cli/convert/conversions.h"

#include <string.h>

#include "tools/cli/options/suggest.h"

static const struct conversion conversions[] = {
    {"binary", convert_binary, "a trace, from its text form"},
    {"bundle", convert_bundle, "the trace and all names that can be found for it, in one file"},
    {"collapsed", convert_collapsed, "stacks for flamegraph.pl, inferno and others"},
    {"decompress_packets", convert_decompress_packets, "the trace without compressed packets"},
    {"memory_infra", convert_memory_infra,
     "Chrome's memory dumps, for the trace viewer and its scripts"},
    {"flamegraph", convert_flamegraph, "a web page with flame graphs: every view of each heap"},
    {"profile", convert_profile, "pprof files, one for each process, heap and dump"},
    {"speedscope", convert_speedscope, "a file for Speedscope: every view, with files and lines"},
    {"deobfuscate", convert_deobfuscate, "names of obfuscated Java code, to append to the trace"},
    {"symbolize", convert_symbolize, "functions, files and lines, to append to the trace"},
    {"text", convert_text, "every packet in protobuf's text format"},
};
#define CONVERSIONS (sizeof(conversions) / sizeof(conversions[0]))

void conversions_print(FILE *out)
{
    for (size_t i = 0; i < CONVERSIONS; i++)
        fprintf(out, "  %-18s %s\n", conversions[i].name, conversions[i].summary);
}

const struct conversion *conversion_find(const char *name)
{
    for (size_t i = 0; i < CONVERSIONS; i++)
        if (strcmp(name, conversions[i].name) == 0)
            return &conversions[i];
    return NULL;
}

const char *conversion_of_others(const char *name)
{
    static const char *const others[][2] = {
        {"pprof", "profile"},
        {"folded", "collapsed"},
        {"flame-graph", "flamegraph"},
        {"json", "memory_infra"},
        {"decompress", "decompress_packets"},
    };
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        if (strcmp(name, others[i][0]) == 0)
            return others[i][1];
    return NULL;
}

const char *conversion_suggest(const char *name)
{
    const char *meant = conversion_of_others(name);
    return meant != NULL
               ? meant
               : suggest_nearest(name, conversions, CONVERSIONS, sizeof(conversions[0]));
}
