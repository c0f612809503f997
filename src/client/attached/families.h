/* SPDX-License-Identifier: Apache-2.0 */
/* The heaps of families of libraries, of an attached client. */
#ifndef HEAPPROFD_CLIENT_ATTACHED_FAMILIES_H
#define HEAPPROFD_CLIENT_ATTACHED_FAMILIES_H

/* Begin the heaps of the families that the attacher has found. Called with the session, before the
 * client counts. */
void attached_families_begin(void);

#endif
