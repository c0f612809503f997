/* SPDX-License-Identifier: Apache-2.0 */
/* A table of users, searched from its start, because few users are connected at once. */
#include "recorder/sockets/connection_shares.h"

#include <unistd.h>

#define USERS_PART 4
#define ROOTS_PART 8

void connection_shares_init(struct connection_shares *shares, unsigned places)
{
    shares->places = places;
    shares->taken = shares->user_count = 0;
}

static bool is_root(uid_t uid)
{
    return uid == 0 || uid == geteuid();
}

/* Return the number of places that a user may hold. */
static unsigned places_of_a_user(const struct connection_shares *shares, uid_t uid)
{
    return is_root(uid) ? shares->places : shares->places / USERS_PART;
}

static unsigned find_user(const struct connection_shares *shares, uid_t uid)
{
    unsigned index = 0;
    while (index < shares->user_count && shares->users[index].uid != uid)
        index++;
    return index;
}

unsigned connection_shares_held(const struct connection_shares *shares, uid_t uid)
{
    unsigned index = find_user(shares, uid);
    return index < shares->user_count ? shares->users[index].count : 0;
}

enum connection_share_answer connection_shares_check(const struct connection_shares *shares,
                                                     uid_t uid)
{
    unsigned others = shares->places - (is_root(uid) ? 0 : shares->places / ROOTS_PART);
    if (connection_shares_held(shares, uid) >= places_of_a_user(shares, uid))
        return CONNECTION_SHARE_USED_UP;
    return shares->taken < others ? CONNECTION_SHARE_FREE : CONNECTION_SHARE_FULL;
}

void connection_shares_take(struct connection_shares *shares, uid_t uid)
{
    unsigned index = find_user(shares, uid);
    if (index == shares->user_count)
        shares->users[shares->user_count++] = (struct connection_share){.uid = uid};
    shares->users[index].count++;
    shares->taken++;
}

void connection_shares_give_back(struct connection_shares *shares, uid_t uid)
{
    unsigned index = find_user(shares, uid);
    if (index == shares->user_count)
        return;
    shares->taken--;
    if (--shares->users[index].count == 0)
        shares->users[index] = shares->users[--shares->user_count];
}

void connection_shares_begin_turn(struct connection_shares *shares)
{
    for (unsigned i = 0; i < shares->user_count; i++)
        shares->users[i].served = 0;
}

bool connection_shares_serve(struct connection_shares *shares, uid_t uid)
{
    unsigned index = find_user(shares, uid);
    return index == shares->user_count ||
           shares->users[index].served++ < CONNECTION_SHARES_SERVED_MAX;
}
