/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the known word nearest to an unknown one, and prints the error about an unknown option.
 * Nothing is corrected silently. */
#ifndef HEAPPROFD_TOOLS_CLI_OPTIONS_SUGGEST_H
#define HEAPPROFD_TOOLS_CLI_OPTIONS_SUGGEST_H

#include <getopt.h>
#include <stddef.h>

/* Return the nearest of `count` words to the typed one; NULL if none is near. `known` is an array
 * of structs of `stride` bytes that begin with a const char *. */
const char *suggest_nearest(const char *typed, const void *known, size_t count, size_t stride);

/*
 * Print what is wrong with an option, after getopt_long() returned '?' or ':' with opterr 0 and an
 * option string that begins with ':'. `command` is the verb as the user types it: "heap_profile
 * host".
 */
void suggest_option(const char *command, char *const *argv, int result,
                    const struct option *options);

#endif
