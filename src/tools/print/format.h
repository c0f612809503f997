/* SPDX-License-Identifier: Apache-2.0 */
/* Formats figures and names for people. */
#ifndef HEAPPROFD_TOOLS_PRINT_FORMAT_H
#define HEAPPROFD_TOOLS_PRINT_FORMAT_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "trace/losses.h"
#include "util/format_bytes.h"

/* Format 1234567 as "1,234,567", without a sign. */
struct formatted format_count(double count);

/* Format bytes or, with `counts`, a count. */
struct formatted format_amount(double amount, bool counts);

/* Format bytes or a count with "+" or a minus sign, unless it rounds to 0. */
struct formatted format_signed(double amount, bool counts);

/* Format a value's 95 % interval as it is printed beside the value: "± 4.10 kB" if both sides are
 * alike, to within a quarter, else the limits: "(130 to 138 MB)", or "(up to 466 kB)" if nothing is
 * below the value. */
struct formatted format_margin(double value, double low, double high, bool counts);
/* The same of percentages. */
struct formatted format_share_margin(double value, double low, double high);
struct formatted format_share(double percent);

/* Return the field width in bytes with which printf() pads a text to `columns`: "±" and the minus
 * sign have several bytes. */
int format_width(const struct formatted *text, int columns);

/* Print an empty line and a title, bold with `colours`. */
void format_print_title(FILE *out, const char *title, bool colours);

/* Format a time: "950 us", "1.72 ms", "3.40 s", "28 min 39 s", "5 h 2 min". */
struct formatted format_time(double seconds);

/* Format the amount of a loss, which is no flag. */
struct formatted format_loss(enum trace_loss_unit unit, uint64_t amount);

/* Widths to which untrusted texts are cut, in bytes. */
#define FORMAT_WORD_WIDTH 255    /* names of processes, heaps and modules */
#define FORMAT_REASON_WIDTH 2000 /* reasons and remarks */
#define FORMAT_LINE_WIDTH 4096   /* command lines: the most that a profile keeps */

/* Print untrusted text, cut to a width in bytes. Characters that a terminal would obey are escaped
 * (util/terminal_text.h). */
void format_print(FILE *out, const char *text, size_t width);

/* Print a function's name, escaped. A long name is cut, and the length of the rest printed, because
 * tables repeat names in each row. */
#define FORMAT_NAME_WIDTH 2048u
void format_print_name(FILE *out, const char *name);

/* Print like fprintf(), but escape characters that a terminal would obey, even in the format. Only
 * a newline at its end stays. */
__attribute__((format(printf, 2, 3))) void format_printf(FILE *out, const char *format, ...);
void format_vprintf(FILE *out, const char *format, va_list arguments);

#endif
