/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bounds the number of log lines about each user. A request costs a line, and a user may send
 * thousands a second: the disk would fill, or the journal would drop lines that others need. Lines
 * about root and the daemon's own user are not bounded.
 */
#ifndef HEAPPROFD_DAEMON_SOCKETS_LOG_SHARES_H
#define HEAPPROFD_DAEMON_SOCKETS_LOG_SHARES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Lines about one user in a period. Users beyond the last entry share one. */
#define LOG_SHARES_LINES 120u
#define LOG_SHARES_PERIOD_MS 60000u
#define LOG_SHARES_USERS 64u

struct log_share {
    uid_t uid;
    unsigned lines, left_out;
    uint64_t end_ms; /* of the period */
};

struct log_shares {
    struct log_share users[LOG_SHARES_USERS];
    unsigned user_count;
};

/* Return whether a line about this user may be written now (CLOCK_MONOTONIC). *left_out: number of
 * earlier lines that were left out and not mentioned yet. */
bool log_shares_take(struct log_shares *shares, uid_t uid, uint64_t now_ms, unsigned *left_out);

#endif
