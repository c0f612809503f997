/* SPDX-License-Identifier: Apache-2.0 */
/* The heap python.object of an attached client. */
#ifndef HEAPPROFD_CLIENT_ATTACHED_PYTHON_H
#define HEAPPROFD_CLIENT_ATTACHED_PYTHON_H

/* Begin the heap if the attacher has found pymalloc. Called with the session, before the client
 * counts. */
void attached_python_begin(void);

#endif
