/* SPDX-License-Identifier: Apache-2.0 */
/* Count the users' sessions, and limit them. */
#include "recorder/service/user_limits.h"

#include <errno.h>

#include "recorder/server/attach_budget.h"

#define SESSIONS_OF_A_USER_MAX (SUPERVISOR_SESSIONS_MAX / 4)
#define SESSIONS_OF_ROOT 8 /* reserved */

int user_limits_check(const struct supervisor *supervisor, const struct access_requester *requester,
                      struct error *error)
{
    size_t own = 0;
    for (size_t i = 0; i < supervisor->count; i++)
        own += supervisor->sessions[i]->owner.uid == requester->uid;
    if (requester->uid == 0 && supervisor->count == SUPERVISOR_SESSIONS_MAX)
        return error_set(error, -EMFILE,
                         "%d sessions run already: end one (heap_profile status shows them)",
                         SUPERVISOR_SESSIONS_MAX);
    if (requester->uid == 0)
        return 0;
    if (own >= SESSIONS_OF_A_USER_MAX)
        return error_set(error, -EMFILE, "you have %d sessions already: end one",
                         SESSIONS_OF_A_USER_MAX);
    if (supervisor->count >= SUPERVISOR_SESSIONS_MAX - SESSIONS_OF_ROOT)
        return error_set(error, -EMFILE, "the daemon has no room for one more session: try later");
    return 0;
}

uint32_t user_limits_attach_share_ppm(const struct supervisor *supervisor, uid_t uid, size_t more)
{
    size_t users = 0, own = more;
    for (size_t i = 0; i < supervisor->count; i++) {
        uid_t owner = supervisor->sessions[i]->owner.uid;
        bool is_first = owner != uid;
        for (size_t j = 0; is_first && j < i; j++)
            is_first = supervisor->sessions[j]->owner.uid != owner;
        users += is_first;
        own += owner == uid;
    }
    return attach_budget_share_ppm(users + 1, own);
}
