/* SPDX-License-Identifier: Apache-2.0 */
/* Parses option values strictly: the whole text must be valid, else print an error and return
 * false. */
#ifndef HEAPPROFD_TOOLS_CLI_OPTIONS_PARSE_H
#define HEAPPROFD_TOOLS_CLI_OPTIONS_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Parse a whole number of bytes with an optional unit (util/units.h). On anything
 * else print an error that names the option, and return false. */
bool parse_bytes(const char *option, const char *text, uint64_t *value);
/* Parse a time. A bare number is of units of bare_ms. Set *value to it in such units, rounded. */
bool parse_time(const char *option, const char *text, double bare_ms, uint64_t max,
                uint64_t *value);
bool parse_number(const char *option, const char *text, uint64_t max, uint64_t *value);

/* Append the names of a comma-separated list to a malloc'd NULL-terminated array. If the list has
 * no names, print an error and return false. */
bool parse_names(const char *text, char ***names);

/* Append the sizes of a comma-separated list to a malloc'd array. Return false after an error
 * message. */
bool parse_byte_list(const char *option, const char *text, uint64_t **values, size_t *count);

/* Append the numbers of a comma-separated list to a malloc'd array. On anything else print an error
 * that the option takes `what`, and return false. */
bool parse_numbers(const char *option, const char *what, const char *text, uint64_t **numbers,
                   size_t *count);
bool parse_pids(const char *text, uint64_t **pids, size_t *count);

#endif
