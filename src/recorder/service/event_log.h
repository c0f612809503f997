/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon's log, with a bound on the number of lines about each user. A request costs a line,
 * and a user may send thousands a second: the disk would fill, or the journal would drop lines that
 * others need. Lines about root and the daemon's own user are not bounded.
 */
#ifndef HEAPPROFD_RECORDER_SERVICE_EVENT_LOG_H
#define HEAPPROFD_RECORDER_SERVICE_EVENT_LOG_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Lines about one user in a period. Users beyond the last entry share one. */
#define EVENT_LOG_LINES 120u
#define EVENT_LOG_PERIOD_MS 60000u
#define EVENT_LOG_USERS 64u

struct event_log {
    /* Called with one line, without a newline. NULL: nothing is logged. */
    void (*write)(const char *line);
    struct event_log_share {
        uid_t uid;
        unsigned lines, left_out;
        uint64_t end_ms; /* of the period */
    } users[EVENT_LOG_USERS];
    unsigned user_count;
};

/* Log an event about this user's actions, unless too many were logged about this user. */
void event_log_write(struct event_log *log, uid_t uid, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Return whether a line about this user may be written now (CLOCK_MONOTONIC). *left_out: number of
 * earlier lines that were left out and not mentioned yet. */
bool event_log_has_room(struct event_log *log, uid_t uid, uint64_t now_ms, unsigned *left_out);

#endif
