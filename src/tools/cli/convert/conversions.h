/* SPDX-License-Identifier: Apache-2.0 */
/* Conversions of traces into other traces and files. Each is a verb of traceconv and of
 * heap_profile. It gets argv starting with its own name and returns the exit code. */
#ifndef HEAPPROFD_TOOLS_CLI_CONVERT_CONVERSIONS_H
#define HEAPPROFD_TOOLS_CLI_CONVERT_CONVERSIONS_H

#include <stdio.h>

struct conversion {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *summary;
};

/* Print all names and summaries, a line each. */
void conversions_print(FILE *out);

/* Return the conversion of this name, or NULL. */
const struct conversion *conversion_find(const char *name);
/* Return our name for another tool's conversion, or NULL. */
const char *conversion_of_others(const char *name);
/* Return a suggestion for an unknown name: our name for another tool's, or the nearest name, or
 * NULL. */
const char *conversion_suggest(const char *name);

int convert_binary(int argc, char **argv);
int convert_bundle(int argc, char **argv);
int convert_collapsed(int argc, char **argv);
int convert_deobfuscate(int argc, char **argv);
int convert_decompress_packets(int argc, char **argv);
int convert_memory_infra(int argc, char **argv);
int convert_flamegraph(int argc, char **argv);
int convert_profile(int argc, char **argv);
int convert_speedscope(int argc, char **argv);
int convert_symbolize(int argc, char **argv);
int convert_text(int argc, char **argv);

#endif
