/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks at the memory of a target's process: what of it is in memory, what that is for, and what of
 * the live allocations it consists of. At each dump, and between them, so that there is a last look
 * at a process that ends by itself. From outside: nothing is asked of the process, but the kernel
 * holds back its changes of mappings while it lists them (about 2 ms for each 100 MB that is
 * resident). Looks between dumps take 1 % of the time at most.
 */
#ifndef HEAPPROFD_DAEMON_DUMP_MEMORY_WATCH_H
#define HEAPPROFD_DAEMON_DUMP_MEMORY_WATCH_H

#include "daemon/ledger/ledger.h"
#include "trace/memory_snapshot.h"

struct memory_watch {
    struct memory_snapshot last;
    bool has_last;
    uint64_t next_us; /* when the next look between dumps may be; CLOCK_MONOTONIC */
};

/* The moment's look; allocator as the handshake has it, "": unknown, and stays the caller's. Keeps
 * the last look where this one fails: the process has ended, or may not be looked at. */
void memory_watch_look(struct memory_watch *watch, pid_t pid, struct ledger *ledger,
                       const char *allocator);

/* The same, unless it is too soon after the last one. */
void memory_watch_tick(struct memory_watch *watch, pid_t pid, struct ledger *ledger,
                       const char *allocator);

/* Writes the last look, if there is one. 0 or a negative errno. */
int memory_watch_write(const struct memory_watch *watch, struct trace_writer *writer);

#endif
