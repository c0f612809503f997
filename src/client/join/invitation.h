/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a process learns of the machine's sessions: the control pages (wire/control_page.h) that it
 * mapped when it started. Looking costs a load a page and no system call.
 */
#ifndef HEAPPROFD_CLIENT_JOIN_INVITATION_H
#define HEAPPROFD_CLIENT_JOIN_INVITATION_H

#include <stdbool.h>
#include <stdint.h>

#include "client/client.h"
#include "wire/barrier.h"

/* Maps the pages that there are. Once, when the process starts. */
void invitation_init(void);

/* The socket of a daemon that wants processes from their start; NULL: there is none. */
const char *invitation_at_startup(void);

/* The socket of a daemon that has invited this process since the last answer; NULL: none. */
const char *invitation_since(void);

/* Those that there are now have been answered. */
void invitation_answered(void);

/* The pages' counts of invitations, and those that were looked at; words that stay equal where
 * there is no page. */
extern HIDDEN const uint32_t *invitation_generations[2];
extern HIDDEN uint32_t invitation_seen[2];

/* Whether invitation_since() has anything to look at. */
static inline bool invitation_is_new(void)
{
    return unlikely(load_relaxed(invitation_generations[0]) != load_relaxed(&invitation_seen[0])) ||
           unlikely(load_relaxed(invitation_generations[1]) != load_relaxed(&invitation_seen[1]));
}

#endif
