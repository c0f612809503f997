/* SPDX-License-Identifier: Apache-2.0 */
/* Tunes malloc for the tools. */
#ifndef HEAPPROFD_CLI_MAIN_MALLOC_TUNING_H
#define HEAPPROFD_CLI_MAIN_MALLOC_TUNING_H

/*
 * Keep freed memory in the process. The tools allocate one large buffer (symbol tables, traces)
 * after the other and end soon. Returning the pages and fetching them again would cost a fifth of
 * the run time in page faults.
 */
void malloc_tuning_keep_freed(void);

#endif
