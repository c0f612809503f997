/* SPDX-License-Identifier: Apache-2.0 */
/* An error message that a user can act on: what failed, on which object, why, and the remedy.
 * Library code fills it; only src/tools/cli and the daemon's log print it. */
#ifndef HEAPPROFD_UTIL_ERROR_H
#define HEAPPROFD_UTIL_ERROR_H

#include <errno.h>
#include <stddef.h>

struct error {
    int code; /* negative errno */
    char message[512];
};

/* Fill *error (which may be NULL) and return `code`, a negative errno, so that a caller can write
 * `return error_set(error, -EINVAL, "...")`. Escape control characters in the message, because it
 * may contain untrusted names (terminal_text.h). */
int error_set(struct error *error, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
