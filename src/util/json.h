/* SPDX-License-Identifier: Apache-2.0 */
/* Writes JSON strings and numbers. */
#ifndef HEAPPROFD_UTIL_JSON_H
#define HEAPPROFD_UTIL_JSON_H

#include <stdint.h>
#include <stdio.h>

/* Print a quoted and escaped string. Bytes that are not UTF-8 become U+FFFD. */
void json_print_string(FILE *out, const char *text);

/* Like json_print_string(), but in ASCII only: other characters are \uXXXX, or a pair of these. */
void json_print_ascii_string(FILE *out, const char *text);
/* Print one character of an ASCII string. Return the number of its bytes in the text, at least
 * 1. */
size_t json_print_ascii_character(FILE *out, const char *at);

void json_print_unsigned(FILE *out, uint64_t value);
/* Print a number that parses back to the same double; null if it is not finite. */
void json_print_number(FILE *out, double value);

#endif
