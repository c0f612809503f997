/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Option values as people type them: strict, whole, and with a clear complaint.
 */
#ifndef HEAPPROFD_CLI_OPTIONS_PARSE_H
#define HEAPPROFD_CLI_OPTIONS_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A whole number with an optional suffix k, M or G (of 1024) when it counts
 * bytes. False, with a message on standard error that names option, on anything else. */
bool parse_bytes(const char *option, const char *text, uint64_t *value);
/* The size of a ring; says so where it will be cut to the largest that there is. */
bool parse_ring_bytes(const char *text, uint64_t *value);
bool parse_number(const char *option, const char *text, uint64_t max, uint64_t *value);

/* Adds the names of a comma-separated list to a malloc'd NULL-terminated array. False, with a
 * message, if there is none in it. */
bool parse_names(const char *text, char ***names);

/* Adds the sizes of a comma-separated list to a malloc'd array. False, with a message. */
bool parse_byte_list(const char *option, const char *text, uint64_t **values, size_t *count);

/* Adds the numbers of a comma-separated list to a malloc'd array. False, with a message that says
 * what the option takes. */
bool parse_numbers(const char *option, const char *what, const char *text, uint64_t **numbers,
                   size_t *count);
bool parse_pids(const char *text, uint64_t **pids, size_t *count);

#endif
