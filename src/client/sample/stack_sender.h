/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends stacks, and before them the modules of their frames, once each.
 *
 * A walk that the daemon has to finish (unfinished_walk.h) is sent with a copy of the stack, and
 * with the modules of all words in that copy: the client does not know which of them are return
 * addresses.
 */
#ifndef HEAPPROFD_CLIENT_SAMPLE_STACK_SENDER_H
#define HEAPPROFD_CLIENT_SAMPLE_STACK_SENDER_H

#include <stdbool.h>
#include <stdint.h>

#include "client/unwind/unfinished_walk.h"
#include "client/unwind/unwind.h"
#include "wire/ring.h"

/* Return 0 or -ENOMEM. */
int stack_sender_init(void);

/* Forget what was sent: the next session's daemon knows no module. */
void stack_sender_forget(void);

/* Send the modules of a walk's frames. Return false if the session is over or there is no room. */
bool stack_sender_send_modules(struct ring_thread *thread, const struct unwind_walk *walk,
                               const uint64_t *frames, uint32_t generation);

/* Send a stack, after its modules. Return false if the session is over or the stack is lost. */
bool stack_sender_send(struct ring_thread *thread, const struct unwind_walk *walk,
                       const uint64_t *frames);

/* Return the daemon's answer on a module, for struct unfinished_walk: _FOUND before it has
 * answered, and _UNKNOWN while the ring has no room for copies of stacks. */
enum ring_unwinding stack_sender_ask(uint32_t module);

/* Send an unfinished walk. Return its token; 0: it is lost. `frames` has UNWIND_FRAMES_MAX places;
 * those after the walk's frames are overwritten. */
uint64_t stack_sender_send_walk(struct ring_thread *thread, const struct unwind_walk *walk,
                                uint64_t *frames, const struct unfinished_walk *unfinished,
                                uint32_t generation);

#endif
