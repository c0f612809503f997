/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers as text, fast: whole numbers, and doubles in the fewest digits that read back as the
 * same double.
 */
#ifndef HEAPPROFD_TRACE_TEXT_TEXT_NUMBER_H
#define HEAPPROFD_TRACE_TEXT_TEXT_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TEXT_NUMBER_BYTES 48

/* Both write to a buffer of TEXT_NUMBER_BYTES, without a zero byte, and return the length. */
size_t text_number_of_uint(uint64_t value, char *to);
/* "inf", "-inf" and "nan" where it is no number. */
size_t text_number_of_double(double value, char *to);

/* The double that text[length], a number without sign, stands for; false: none. */
bool text_number_to_double(const char *text, size_t length, double *value);

#endif
