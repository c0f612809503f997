/* SPDX-License-Identifier: Apache-2.0 */
/* JSON as the tools print it. */
#ifndef HEAPPROFD_UTIL_JSON_H
#define HEAPPROFD_UTIL_JSON_H

#include <stdint.h>
#include <stdio.h>

/* A string in quotes, with what must be escaped escaped; what is not UTF-8 becomes U+FFFD. */
void json_print_string(FILE *out, const char *text);

/* The same with < > & escaped, too: it may stand in a <script> of a page. */
void json_print_string_in_html(FILE *out, const char *text);

/* The same in ASCII only: other characters are \uXXXX, or a pair of these. */
void json_print_ascii_string(FILE *out, const char *text);
/* Print one character of such a string. Return the number of bytes that it takes, at least 1. */
size_t json_print_ascii_character(FILE *out, const char *at);

void json_print_unsigned(FILE *out, uint64_t value);
/* A number that reads back as the same double; null if it is not finite. */
void json_print_number(FILE *out, double value);

#endif
