/*
 * How much of the log each user may fill. What a user asks of the daemon costs a line, and he may
 * ask a thousand times a second: the disk would fill, and the journal would drop what others need.
 * Root's lines, and those of whoever runs the daemon, are all written.
 */
#ifndef HEAPPROFD_DAEMON_LOG_SHARES_H
#define HEAPPROFD_DAEMON_LOG_SHARES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* In one period a user has so many lines. Users beyond the last place share one. */
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

/* Whether a line about this user may be written now (CLOCK_MONOTONIC). *left_out: how many before
 * it were not, and nobody has been told. */
bool log_shares_take(struct log_shares *shares, uid_t uid, uint64_t now_ms, unsigned *left_out);

#endif
