/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finishes walks that a profiled process could not (wire/record.h, struct record_walk): from the
 * registers and the copy of the stack that it sent, by what the files of its modules say
 * (unwind_file.h), and by frame pointers where these say nothing.
 *
 * What the process sent and what the files hold may be anything: nothing is read outside the copy,
 * and a walk takes a bounded number of steps.
 */
#ifndef HEAPPROFD_DAEMON_WALK_FINISH_WALK_H
#define HEAPPROFD_DAEMON_WALK_FINISH_WALK_H

#include <sys/types.h>

#include "daemon/ledger/callsite_tree.h"
#include "wire/record.h"
#include "wire/ring.h"

struct walk_finisher;

/* For one process. NULL: no memory. */
struct walk_finisher *walk_finisher_open(pid_t pid);
void walk_finisher_close(struct walk_finisher *finisher);

/* The whole stack, with a hash of its own, valid until the next call; NULL: no memory. *answer:
 * what is known of the module of the code that the walk came to. */
const struct record_stack *walk_finish(struct walk_finisher *finisher,
                                       const struct callsite_tree *tree,
                                       const struct record_walk *walk, enum ring_unwinding *answer);

#endif
