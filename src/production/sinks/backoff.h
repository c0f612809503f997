/* SPDX-License-Identifier: Apache-2.0 */
/* When to try again after failures: delays that double, with jitter so that a fleet whose store
 * comes back does not return at once. */
#ifndef HEAPPROFD_PRODUCTION_SINKS_BACKOFF_H
#define HEAPPROFD_PRODUCTION_SINKS_BACKOFF_H

#include <stdint.h>

/* The other side's own wish is honoured up to this. */
#define BACKOFF_RETRY_AFTER_MS_MAX (UINT64_C(3600) * 1000)

struct backoff {
    uint64_t first_ms, max_ms;
    unsigned failures; /* in a row */
    uint64_t due_ms;   /* CLOCK_MONOTONIC; 0: at once */
};

/* Choose the time of the next attempt after a failure: the delay is between a half and the whole of
 * first_ms * 2^failures, at most max_ms, and at least retry_after_ms (0: the other side said
 * nothing). */
void backoff_fail(struct backoff *backoff, uint64_t now_ms, uint64_t retry_after_ms);

/* The next attempt is due at once. */
void backoff_succeed(struct backoff *backoff);

#endif
