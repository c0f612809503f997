/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files are mapped to be read; one that is truncated meanwhile, or whose medium
 * fails, ends in SIGBUS. Within a guard that is an error of the work at hand.
 * Only for tools, never in a profiled process: a handler is installed.
 */
#ifndef HEAPPROFD_SYMBOLS_MAPPED_GUARD_H
#define HEAPPROFD_SYMBOLS_MAPPED_GUARD_H

typedef int guarded_work(void *context);

/* What work returns, or -EIO where it met the end of a file: it is left at once then, and what it
 * held is lost. Not to be nested; threads may each have one of their own. */
int mapped_guard_run(guarded_work *work, void *context);

#endif
