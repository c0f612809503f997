/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts the connections of each user. A user holds at most a quarter of all places, and the last
 * eighth is reserved for root. Also counts the messages of each user in a turn: each user is served
 * a few.
 *
 * The profiler's own user counts as root.
 */
#ifndef HEAPPROFD_RECORDER_SOCKETS_CONNECTION_SHARES_H
#define HEAPPROFD_RECORDER_SOCKETS_CONNECTION_SHARES_H

#include <stdbool.h>
#include <sys/types.h>

#define CONNECTION_SHARES_MAX 2048

/* Messages of one user that are served in a turn, at most. */
#define CONNECTION_SHARES_SERVED_MAX 8

struct connection_shares {
    unsigned places; /* at most CONNECTION_SHARES_MAX */
    unsigned taken;
    unsigned user_count;
    struct connection_share {
        uid_t uid;
        unsigned count, served;
    } users[CONNECTION_SHARES_MAX];
};

enum connection_share_answer {
    CONNECTION_SHARE_FREE,
    CONNECTION_SHARE_USED_UP, /* this user holds as many as one user may */
    CONNECTION_SHARE_FULL     /* other users hold the places */
};

void connection_shares_init(struct connection_shares *shares, unsigned places);

enum connection_share_answer connection_shares_check(const struct connection_shares *shares,
                                                     uid_t uid);

/* Take a place. The caller has asked whether one is free. */
void connection_shares_take(struct connection_shares *shares, uid_t uid);

void connection_shares_give_back(struct connection_shares *shares, uid_t uid);

/* Return the number of places that a user holds. */
unsigned connection_shares_held(const struct connection_shares *shares, uid_t uid);

void connection_shares_begin_turn(struct connection_shares *shares);

/* Count a message of a user in this turn. Return false if it must wait for the next turn. */
bool connection_shares_serve(struct connection_shares *shares, uid_t uid);

#endif
