/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What people meant to type: the nearest of the known words, and the complaint about
 * an option that is none. Nothing is corrected silently.
 */
#ifndef HEAPPROFD_CLI_OPTIONS_SUGGEST_H
#define HEAPPROFD_CLI_OPTIONS_SUGGEST_H

#include <getopt.h>
#include <stddef.h>

/* The nearest of `count` words to what was typed; NULL if none is near. `known` is an array of
 * structs of `stride` bytes that begin with a const char *. */
const char *suggest_nearest(const char *typed, const void *known, size_t count, size_t stride);

/*
 * Says on standard error what is wrong after getopt_long() returned '?' or ':' with opterr 0 and
 * an option string that begins with ':'. `command` is how the verb is called: "heap_profile host".
 */
void suggest_option(const char *command, char *const *argv, int result,
                    const struct option *options);

#endif
