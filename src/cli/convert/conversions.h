/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What turns traces into other traces and files. Each is a verb of traceconv and of heap_profile:
 * it gets argv from its own name on and returns the exit code.
 */
#ifndef HEAPPROFD_CLI_CONVERT_CONVERSIONS_H
#define HEAPPROFD_CLI_CONVERT_CONVERSIONS_H

#include <stddef.h>

struct conversion {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *summary;
};

extern const struct conversion conversions[];
extern const size_t conversion_count;

/* NULL: there is none of this name. */
const struct conversion *conversion_find(const char *name);
/* What was meant by a name that is none: the nearest, or what other tools call it. NULL: nothing.
 */
const char *conversion_meant(const char *name);

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
