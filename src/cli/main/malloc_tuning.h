/* SPDX-License-Identifier: Apache-2.0 */
/* How the tools use malloc. */
#ifndef HEAPPROFD_CLI_MAIN_MALLOC_TUNING_H
#define HEAPPROFD_CLI_MAIN_MALLOC_TUNING_H

/*
 * Large buffers (symbol tables, traces) come one after the other in a process that ends soon.
 * Kept, their pages serve the next one; given back and fetched again, they cost a fifth of the
 * tool's time in page faults.
 */
void malloc_tuning_keep_freed(void);

#endif
