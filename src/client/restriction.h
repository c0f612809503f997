/* SPDX-License-Identifier: Apache-2.0 */
/* What the client does before it must do without system calls. */
#ifndef HEAPPROFD_CLIENT_RESTRICTION_H
#define HEAPPROFD_CLIENT_RESTRICTION_H

/* Do in advance what needs system calls: give this thread a slot, check how far its stack is
 * readable, read the program's path. A preloaded client tells its daemon. */
void restriction_prepare(void) __attribute__((visibility("hidden")));

#endif
