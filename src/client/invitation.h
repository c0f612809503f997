/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds sessions that invite this process, in the control pages (wire/control_page.h) that it
 * mapped when it started. A check costs one load for each page and no system call.
 */
#ifndef HEAPPROFD_CLIENT_INVITATION_H
#define HEAPPROFD_CLIENT_INVITATION_H

#include <stdbool.h>
#include <stdint.h>

#include "client/client.h"
#include "wire/barrier.h"

/* Map the existing pages. Call it once, when the process starts. */
void invitation_init(void);

/* Return the socket of a daemon that profiles new processes, or NULL. */
const char *invitation_at_startup(void);

/* Return the socket of a daemon whose invitation is unanswered; NULL: no daemon has one. */
const char *invitation_find(void);

/* Mark all present invitations as answered. */
void invitation_answered(void);

/* The pages' generations, and the last ones that this process has checked. Without a page, both
 * refer to one word. */
extern HIDDEN const uint32_t *invitation_generations[2];
extern HIDDEN uint32_t invitation_seen[2];

/* Return whether a page has changed since the last invitation_find(). */
static inline bool invitation_is_new(void)
{
    return unlikely(load_relaxed(invitation_generations[0]) != load_relaxed(&invitation_seen[0])) ||
           unlikely(load_relaxed(invitation_generations[1]) != load_relaxed(&invitation_seen[1]));
}

#endif
