/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends stacks, and before them the modules that their frames fall into, once each.
 *
 * A walk that stopped for others to finish it (unfinished_walk.h) is sent with a copy of the stack,
 * and with the modules that anything in that copy may lead into: the client does not know which
 * of its words are return addresses.
 */
#ifndef HEAPPROFD_CLIENT_SAMPLE_STACK_SENDER_H
#define HEAPPROFD_CLIENT_SAMPLE_STACK_SENDER_H

#include <stdbool.h>
#include <stdint.h>

#include "client/unwind/unfinished_walk.h"
#include "client/unwind/unwind.h"
#include "wire/ring.h"

/* 0 or -ENOMEM. */
int stack_sender_init(void);

/* The next session's daemon knows no module. */
void stack_sender_forget(void);

/* False: the session is over, or it is lost. */
bool stack_sender_send(struct ring_thread *thread, const struct unwind_walk *walk,
                       const uint64_t *frames, uint32_t generation);

/* What the daemon says of a module, for struct unwind_rest: _FOUND also before it has said
 * anything; but _UNKNOWN while the ring has no room for copies. */
enum ring_unwinding stack_sender_ask(uint32_t module);

/* The walk's token; 0: it is lost. frames: UNWIND_FRAMES_MAX places, those behind the walk's are
 * made use of. */
uint64_t stack_sender_send_walk(struct ring_thread *thread, const struct unwind_walk *walk,
                                uint64_t *frames, const struct unwind_rest *rest,
                                uint32_t generation);

#endif
