/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What one user may take of the daemon: the number of sessions, and the share of the time for
 * attempts to attach. No user can thereby keep others from profiling. Some sessions are reserved
 * for root.
 */
#ifndef HEAPPROFD_RECORDER_SERVICE_USER_LIMITS_H
#define HEAPPROFD_RECORDER_SERVICE_USER_LIMITS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "recorder/service/supervisor.h"
#include "util/error.h"

/* Check whether the requester may start one more session. Return 0, or -EMFILE with a message. */
int user_limits_check(const struct supervisor *supervisor, const struct access_requester *requester,
                      struct error *error);

/* Return the share (attach_budget.h) of each session of a user, once the user has `more` sessions
 * than now. */
uint32_t user_limits_attach_share_ppm(const struct supervisor *supervisor, uid_t uid, size_t more);

#endif
