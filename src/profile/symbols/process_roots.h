/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The root directories of processes that have another one than we (containers, chroots), kept open:
 * a child that has given up the right to open them still finds files there. elf_source_open() opens
 * "/proc/PID/root/PATH" below such a directory. For one thread at a time.
 */
#ifndef HEAPPROFD_PROFILE_SYMBOLS_PROCESS_ROOTS_H
#define HEAPPROFD_PROFILE_SYMBOLS_PROCESS_ROOTS_H

#include <stddef.h>
#include <sys/types.h>

/* Open the roots of more processes, each directory once. Those that may not be opened are left out.
 */
void process_roots_open(const pid_t *processes, size_t count);
void process_roots_close(void);

/* Return a process for each open root; 0 after the last. */
pid_t process_roots_item(size_t index);
/* Return the descriptor of a process's root, or -1. */
int process_roots_descriptor(pid_t process);

#endif
