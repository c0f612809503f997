/* SPDX-License-Identifier: Apache-2.0 */
/* Says whether memory grows, turns over or stays: as a line of text, and as members of JSON. */
#ifndef HEAPPROFD_TOOLS_PRINT_TURNOVER_TEXT_H
#define HEAPPROFD_TOOLS_PRINT_TURNOVER_TEXT_H

#include <stdio.h>

#include "profile/compare/turnover.h"
#include "util/json_writer.h"

/* Print how a row grows: "grows steadily, 559 kB a second". */
void turnover_print_growth(const struct turnover *row, FILE *out);

/* Print a line: "turns over: 94 % of what it allocated was freed, after 9.80 s on average; ages up
 * to 12.0 s, median 6.10 s". Print nothing if nothing is known. */
void turnover_print_line(const struct turnover *row, const char *indent, FILE *out);

/* Print the members; docs/leaks.md describes them. */
void turnover_print_json(struct json_writer *json, const struct turnover *row);

#endif
