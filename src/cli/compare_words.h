/* What tables of differences share: changes, how sure they are, and call stacks, as people read
 * them. */
#ifndef HEAPPROFD_CLI_COMPARE_WORDS_H
#define HEAPPROFD_CLI_COMPARE_WORDS_H

#include <stdio.h>

#include "cli/words.h"
#include "compare/change.h"

/* Bytes, or calls. */
struct words compare_amount(double value, bool counts);
/* With its sign; 0 has none. */
struct words compare_signed_amount(double value, bool counts);

/* How far the truth may be from a difference, with 95 %: "± 4.10 kB", "-1.20 kB +8.30 kB", "exact".
 */
struct words compare_margin(const struct change *change, bool counts, bool exact);
/* In how many bytes it takes up so many columns: "±" is two bytes wide. */
int compare_margin_width(const struct words *margin, int columns);

/* A frame's function, cut to a width in bytes; its file and line, where lines; its module. */
void compare_print_frame(FILE *out, const struct profile *profile, uint32_t frame, size_t width,
                         bool module, bool lines);
/* The function that allocates, and some of its callers; or all of them below it, one a line. */
void compare_print_callsite(FILE *out, const struct profile *profile, uint32_t callsite, bool lines,
                            bool stacks);

#endif
