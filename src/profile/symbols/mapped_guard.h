/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guard for reading mapped files. If a mapped file is truncated or its medium fails, an access
 * raises SIGBUS. Inside a guard this becomes an error of the current work. It installs a signal
 * handler: use it only in tools, never in a profiled process.
 */
#ifndef HEAPPROFD_PROFILE_SYMBOLS_MAPPED_GUARD_H
#define HEAPPROFD_PROFILE_SYMBOLS_MAPPED_GUARD_H

typedef int guarded_work(void *context);

/* Return the result of work(), or -EIO if it accessed a page past the end of a file. In that case
 * work() is left at once, and its resources leak. Guards must not be nested; each thread may have
 * its own. */
int mapped_guard_run(guarded_work *work, void *context);

#endif
