/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scopes that a thread is in (include/heap_profile.h) and the names of types, sent with a
 * sample; and on request a record of each begin and end of a scope. Scopes are in the frames of
 * their functions, each with a pointer to the next outer one. A longjmp may have left some of them
 * in memory that now holds something else. So each scope is checked before it is used, and read
 * only if its memory is mapped.
 */
#ifndef HEAPPROFD_CLIENT_SAMPLE_CONTEXT_H
#define HEAPPROFD_CLIENT_SAMPLE_CONTEXT_H

#include <stdbool.h>
#include <stdint.h>

#include "client/client.h"

#ifdef HEAPPROFD_ATTACHED

/* An attached client has no thread-local storage, and no program that pushes scopes. */
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

/* 1: the session wants a record of each begin and end of a scope, or there was no hello yet. */
extern HIDDEN uint32_t context_is_recorded;

static inline bool context_is_empty(void)
{
    return context_innermost == NULL;
}

/* Send the thread's context, or a name, if the daemon does not know it. Return its hash; 0: there
 * is none, or the session is over. */
uint64_t context_send(struct ring_thread *thread);
uint64_t context_send_name(struct ring_thread *thread, const char *name);

#endif /* !HEAPPROFD_ATTACHED */

#endif
