/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An error that a person can act on: what failed, on what, why, and what to do.
 * Library code fills it; only the edge (src/cli, the daemon's log) prints it.
 */
#ifndef HEAPPROFD_UTIL_ERROR_H
#define HEAPPROFD_UTIL_ERROR_H

#include <errno.h>
#include <stddef.h>

struct error {
    int code; /* negative errno */
    char message[512];
};

/* Fill *error (which may be NULL) and return code, a negative errno, so that
 * `return error_set(error, -EINVAL, "...")` reads as it should. Names in the message come from
 * elsewhere: what a terminal would obey is escaped (terminal_text.h). */
int error_set(struct error *error, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
