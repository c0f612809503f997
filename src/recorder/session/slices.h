/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the scopes of a target's threads to the trace, as slices.
 *
 * Each thread has a track and a stack of open scopes. A scope's record names the scope that is
 * innermost before it begins or after it ends; so scopes that a jump has left end with the next
 * record of their thread, and an end whose begin is unknown (it was before the session, or is lost)
 * ends nothing. Scopes in which the thread or the process dies, or which are open at the session's
 * end, stay open in the trace.
 */
#ifndef HEAPPROFD_RECORDER_SESSION_SLICES_H
#define HEAPPROFD_RECORDER_SESSION_SLICES_H

#include <stdint.h>

#include "recorder/ledger/ledger.h"
#include "trace/write/trace_writer.h"

struct slices;

/* `image` distinguishes the programs that run in the process one after the other. No slice begins
 * before start_ns (CLOCK_MONOTONIC), of which the process's clock is so far ahead. NULL: no memory.
 */
struct slices *slices_open(struct trace_writer *writer, int32_t pid, uint64_t image,
                           uint64_t start_ns, int64_t process_ahead_ns);
void slices_close(struct slices *slices); /* may be NULL */

void slices_take(struct slices *slices, const struct ledger_scope *scope);

/* Describe each track again before its next slice. */
void slices_describe_again(struct slices *slices);

/* Return the number of begins that were not written: too many threads, scopes too deep, or no
 * memory. */
uint64_t slices_lost(const struct slices *slices);

#endif
