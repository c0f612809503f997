/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finishes walks that a profiled process could not finish (wire/record.h, struct record_walk). It
 * starts from the registers and the copy of the stack that the process sent, uses the call frame
 * information of its modules' files, and frame pointers without such information.
 *
 * Neither the process nor the files are trusted: nothing is read outside the copy, and a walk takes
 * a bounded number of steps.
 */
#ifndef HEAPPROFD_RECORDER_WALK_FINISH_WALK_H
#define HEAPPROFD_RECORDER_WALK_FINISH_WALK_H

#include <sys/types.h>

#include "recorder/ledger/callsite_tree.h"
#include "wire/record.h"
#include "wire/ring.h"

struct walk_finisher;

/* Make a finisher for one process. NULL: no memory. */
struct walk_finisher *walk_finisher_open(pid_t pid);
void walk_finisher_close(struct walk_finisher *finisher);

/* Return the whole stack, with a hash of its own, valid until the next call; NULL: no memory.
 * *answer: whether the file of the module in which the client stopped has more information. */
const struct record_stack *walk_finish(struct walk_finisher *finisher,
                                       const struct callsite_tree *tree,
                                       const struct record_walk *walk, enum ring_unwinding *answer);

#endif
