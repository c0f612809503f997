/* SPDX-License-Identifier: Apache-2.0 */
/* What a session process gives up before it takes its user's rights (session_rights.h). */
#ifndef HEAPPROFD_RECORDER_SERVICE_SESSION_CONFINE_H
#define HEAPPROFD_RECORDER_SERVICE_SESSION_CONFINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "recorder/processes/access.h"

/* Ignore signals: a terminal sends them to the supervisor, too, which handles them. */
void session_confine_signals(void);

/* Close all descriptors except the given ones and the standard files, which become /dev/null. */
void session_confine_descriptors(int kept[], size_t count);

/* Set limits while the process is still root, so that the user cannot remove them. Return the limit
 * of its memory in bytes; 0: none. A part of it is kept for the last dump. */
uint64_t session_confine_resources(const struct access_policy *policy, bool is_root);

/* Allow the memory that was kept. */
void session_confine_release_memory(void);

#endif
