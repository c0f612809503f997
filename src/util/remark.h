/* SPDX-License-Identifier: Apache-2.0 */
/* Remarks for users: sentences, one after the other, in a buffer of fixed size. */
#ifndef HEAPPROFD_UTIL_REMARK_H
#define HEAPPROFD_UTIL_REMARK_H

#include <stddef.h>

/* Append a sentence to `text`, after a space unless the text is empty. Cut what does not fit. */
void remark_add(char *text, size_t size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
