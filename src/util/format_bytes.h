/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes as all reports print them. */
#ifndef HEAPPROFD_UTIL_FORMAT_BYTES_H
#define HEAPPROFD_UTIL_FORMAT_BYTES_H

struct formatted {
    char bytes[48];
};

/* The sign of a negative figure, as wide as a plus. */
#define FORMAT_MINUS "\u2212"

/* Format bytes with three digits and a decimal unit: "4.10 kB". */
struct formatted format_bytes(double bytes);

#endif
