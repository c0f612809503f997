/*
 * The rights of a session process: those of whoever asked for the session, so that the kernel's own
 * rules decide what it may attach to, read and write.
 *
 * uid, gid and groups are those of the connection (SO_PEERCRED, SO_PEERGROUPS). Capabilities are
 * those that the requester has and the daemon, too: root in a container gets no more than it has.
 * What else confines a requester (a security module, a seccomp filter, a chroot) is not carried
 * over; one in another user namespace is refused.
 */
#ifndef HEAPPROFD_DAEMON_SESSION_RIGHTS_H
#define HEAPPROFD_DAEMON_SESSION_RIGHTS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/access.h"
#include "util/error.h"

struct session_rights {
    uid_t uid;
    gid_t gid;
    gid_t *groups;
    size_t group_count;
    uint64_t permitted, effective; /* capabilities */
};

/* Find out what the peer of a connection may. 0, or a negative errno with a message. */
int session_rights_of_peer(struct session_rights *rights, int socket, struct error *error);
void session_rights_clear(struct session_rights *rights);

/*
 * Take these rights in place of our own, for good, and no others: nobody but root can trace this
 * process or read its memory afterwards, and it gains no rights by exec. A daemon that is no root's
 * serves its own user and root, with its own rights. 0, or a negative errno with a message: the
 * process must end then.
 */
int session_rights_take(const struct session_rights *rights, struct error *error);

#endif
