/* SPDX-License-Identifier: Apache-2.0 */
/* A small table of users. An inactive user's entry is reused. */
#include "daemon/sockets/log_shares.h"

#include <unistd.h>

/* Return whether another user may have the entry: its period has ended, and all lines that were
 * left out were mentioned. */
static bool is_free(const struct log_share *share, uint64_t now_ms)
{
    return now_ms >= share->end_ms && share->left_out == 0;
}

static struct log_share *find_share(struct log_shares *shares, uid_t uid, uint64_t now_ms)
{
    struct log_share *place = NULL;
    for (unsigned i = 0; i < shares->user_count; i++) {
        struct log_share *share = &shares->users[i];
        if (share->uid == uid)
            return share;
        if (place == NULL && is_free(share, now_ms))
            place = share;
    }
    if (place == NULL && shares->user_count < LOG_SHARES_USERS)
        place = &shares->users[shares->user_count++];
    if (place == NULL)
        return &shares->users[LOG_SHARES_USERS - 1];
    *place = (struct log_share){.uid = uid, .end_ms = now_ms + LOG_SHARES_PERIOD_MS};
    return place;
}

bool log_shares_take(struct log_shares *shares, uid_t uid, uint64_t now_ms, unsigned *left_out)
{
    *left_out = 0;
    if (uid == 0 || uid == geteuid())
        return true;
    struct log_share *share = find_share(shares, uid, now_ms);
    if (now_ms >= share->end_ms) {
        share->end_ms = now_ms + LOG_SHARES_PERIOD_MS;
        share->lines = 0;
    }
    if (share->lines >= LOG_SHARES_LINES) {
        share->left_out++;
        return false;
    }
    share->lines++;
    *left_out = share->left_out;
    share->left_out = 0;
    return true;
}
