/*
 * How a process learns of the machine's sessions: the control pages (wire/control_page.h) that it
 * mapped when it started. Looking costs a load a page and no system call.
 */
#ifndef HEAPPROFD_CLIENT_INVITATION_H
#define HEAPPROFD_CLIENT_INVITATION_H

/* Maps the pages that there are. Once, when the process starts. */
void invitation_init(void);

/* The socket of a daemon that wants processes from their start; NULL: there is none. */
const char *invitation_at_startup(void);

/* The socket of a daemon that has invited this process since the last answer; NULL: none. */
const char *invitation_since(void);

/* Those that there are now have been answered. */
void invitation_answered(void);

#endif
