/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Other processes that have the same memory as a process: made by clone() with CLONE_VM and without
 * CLONE_THREAD, or by vfork() before their exec. They run while the threads of the process are
 * stopped, so its code must not be changed meanwhile.
 */
#ifndef HEAPPROFD_RECORDER_ATTACH_MEMORY_SHARERS_H
#define HEAPPROFD_RECORDER_ATTACH_MEMORY_SHARERS_H

#include <stddef.h>
#include <sys/types.h>

struct memory_sharers {
    pid_t pid;
    pid_t *known; /* processes that have other memory, in the order of /proc */
    size_t count, capacity;
};

/*
 * Look at all processes that no earlier call has looked at. Return one that shares the memory of
 * sharers->pid, or 0. Before the stop this takes about 1 us for each process of the machine; once
 * the process is stopped, only new ones are left. A kernel without kcmp() shows none.
 */
pid_t memory_sharers_look(struct memory_sharers *sharers);
void memory_sharers_clear(struct memory_sharers *sharers);

#endif
