/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process's part in a session: joining it at the first allocation, leaving
 * it, and beginning anew in a forked child.
 *
 * Hooks and samplers call these functions. They are implemented above them, because a change of
 * session resets everything: join/session.c (preloaded, linked) or attached/session.c.
 */
#ifndef HEAPPROFD_CLIENT_SESSION_H
#define HEAPPROFD_CLIENT_SESSION_H

/*
 * Called at the first allocation of a program or of a forked child: set the client
 * up, say hello to the daemon if there is one, and join its session or stay
 * dormant. On return the state is ACTIVE, DORMANT, LISTENED or ENDED, or
 * CONNECTING while another thread joins.
 */
void session_join(void);

/*
 * Leave a session that is over, join one that this process is invited to, and begin or end to
 * sample for a tracer. Called now and then, by a thread that is not recording a sample. Cheap if
 * there is nothing to do.
 */
void session_tick(void);

/* Call session_join() or session_tick(), whichever is due. The thread must not be in the client. */
void session_join_or_tick(void);

/* Report to the daemon, in this session and later ones, that the program opens a library with
 * RTLD_DEEPBIND, whose malloc calls bypass the hooks. Call it before opening the library. It makes
 * no system call and takes no lock. */
void session_note_deepbind(void);

/* Report to the daemon, in this session and later ones, the name of an allocator whose calls the
 * client does not see; "": there is none. At most RING_UNSEEN_BYTES - 1 characters count. */
void session_note_unseen_family(const char *name);

#endif
