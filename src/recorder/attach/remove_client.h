/* SPDX-License-Identifier: Apache-2.0 */
/* Remove a client that is already in a process: our own, or one that a dead attacher left. */
#ifndef HEAPPROFD_RECORDER_ATTACH_REMOVE_CLIENT_H
#define HEAPPROFD_RECORDER_ATTACH_REMOVE_CLIENT_H

#include "recorder/attach/installed_client.h"
#include "recorder/attach/process.h"
#include "recorder/attach/tracee.h"

/* Wait until no thread is in the client, and remove it. Return 0; -EBUSY: a thread stays in it, or
 * it must not be unmapped (outcome->left has the reason); or a negative errno of another failure.
 * The process runs before and after. */
int remove_client(struct installed_client *client, struct tracee *tracee,
                  struct attach_outcome *outcome);

/* Remove the clients of all dead attachers. There may be several, because an attacher that is
 * killed during its attach leaves a client that is not in use. */
int remove_orphans(struct process *process, struct tracee *tracee, struct attach_outcome *outcome,
                   struct error *error);

#endif
