/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scopes that a thread is in (include/heap_profile.h), as a sample takes them along, and the
 * names of types. Scopes lie in their functions' frames, one leading to the next further out. A
 * longjmp may have left some of them behind, in memory that is something else by now: each is
 * checked before it is believed, and read only where there is memory.
 */
#ifndef HEAPPROFD_CLIENT_SAMPLE_CONTEXT_H
#define HEAPPROFD_CLIENT_SAMPLE_CONTEXT_H

#include <stdbool.h>
#include <stdint.h>

#include "client/client.h"

#ifdef HEAPPROFD_ATTACHED

/* There is no thread-local storage, and nobody who could push. */
static inline bool context_is_empty(void)
{
    return true;
}
static inline uint64_t context_send(struct ring_thread *thread)
{
    (void)thread;
    return 0;
}
static inline uint64_t context_send_name(struct ring_thread *thread, const char *name)
{
    (void)thread;
    (void)name;
    return 0;
}

#else

struct HeapProfileScope;

/* The innermost scope. */
extern HIDDEN __thread struct HeapProfileScope *context_innermost
    __attribute__((tls_model("initial-exec")));

static inline bool context_is_empty(void)
{
    return context_innermost == NULL;
}

/* Sees to it that the daemon knows the thread's context, or a name. Its hash; 0: there is none, or
 * the session is over. */
uint64_t context_send(struct ring_thread *thread);
uint64_t context_send_name(struct ring_thread *thread, const char *name);

#endif /* !HEAPPROFD_ATTACHED */

#endif
