/* SPDX-License-Identifier: Apache-2.0 */
/* The units of sizes and times in options, configurations and selections (docs/units.md). */
#ifndef HEAPPROFD_UTIL_UNITS_H
#define HEAPPROFD_UTIL_UNITS_H

#include <stddef.h>

struct unit {
    const char *name; /* NULL ends a list */
    double factor;
};

/* Of 1024 as k, M, G and T, and with i; of 1000 with B alone, as sizes are printed. */
extern const struct unit size_units[];

/* Return the bytes of a unit whose name has `length` bytes; 0: there is no such unit. */
double size_unit_bytes(const char *name, size_t length);

/* Of milliseconds, from us to w. */
extern const struct unit time_units[];

/* Return the milliseconds of a unit; 0: there is no such unit. */
double time_unit_ms(const char *name);

#endif
