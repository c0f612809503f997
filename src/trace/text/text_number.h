/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fast conversion of numbers to text: whole numbers, and doubles with the fewest digits that read
 * back as the same double.
 */
#ifndef HEAPPROFD_TRACE_TEXT_TEXT_NUMBER_H
#define HEAPPROFD_TRACE_TEXT_TEXT_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TEXT_NUMBER_BYTES 48

/* Write a number without a terminating zero to a buffer of TEXT_NUMBER_BYTES. Return its length. */
size_t text_number_of_uint(uint64_t value, char *to);
/* Write "inf", "-inf", "nan" or "-nan" if it is not a finite number. */
size_t text_number_of_double(double value, char *to);

/* Read a number without a sign from text[length]. Return false if it is not one. */
bool text_number_to_double(const char *text, size_t length, double *value);

#endif
