/* SPDX-License-Identifier: Apache-2.0 */
/* Figures and names as people read them. */
#ifndef HEAPPROFD_CLI_PRINT_FORMAT_H
#define HEAPPROFD_CLI_PRINT_FORMAT_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct formatted {
    char bytes[32];
};

/* Three digits and a decimal unit: "4.10 kB". */
struct formatted format_bytes(double bytes);

/* 1234567 as "1,234,567". */
struct formatted format_count(double count);

/* The same with "+" or "-" (unless it rounds to 0), for bytes or a count. */
struct formatted format_signed(double amount, bool counts);

/* Return a value's interval as printed beside it: "± 4.10 kB", or "-1 +3". A side that rounds to 0
 * is left out. For nothing, or a value that exceeds its upper limit, return "at most 69.6 kB". */
struct formatted format_margin(double value, double low, double high, bool counts);

/* Print a sum and its margin in a sentence: "69.6 kB ± 4.10 kB", "0 B, at most 12.3 kB". Of a sum
 * that exceeds its limit, print the limit alone: "at most 69.6 kB". `unit` follows the amount:
 * " allocations". */
void format_print_amount(FILE *out, double value, const char *amount, const char *unit,
                         const struct formatted *margin);

/* "950 us", "1.72 ms", "3.40 s", "28 min 39 s", "5 h 2 min". */
struct formatted format_time(double seconds);

/* Print text from elsewhere, cut to a width in bytes. What a terminal would obey is escaped
 * (util/terminal_text.h). */
void format_print(FILE *out, const char *text, size_t width);

/* Print a function's name in the same way; of a long one its first bytes, and how many more it has:
 * a file needs its name once, a table in each row. */
#define FORMAT_NAME_WIDTH 2048u
void format_print_name(FILE *out, const char *name);

/* Print as fprintf does; escape what a terminal would obey, also in the format, except for a
 * newline at its end. */
__attribute__((format(printf, 2, 3))) void format_printf(FILE *out, const char *format, ...);
void format_vprintf(FILE *out, const char *format, va_list arguments);

#endif
