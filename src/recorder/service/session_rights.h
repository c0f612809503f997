/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rights of a session process: those of the requester, so that the kernel's own rules decide
 * which processes it may attach to, and which files it may read and write.
 *
 * uid, gid and groups are those of the connection (SO_PEERCRED, SO_PEERGROUPS). Capabilities are
 * those that both the requester and the daemon have: root in a container gains none. Other
 * restrictions of a requester (a security module, a seccomp filter, a chroot) are not applied. A
 * requester in another user namespace is refused.
 */
#ifndef HEAPPROFD_RECORDER_SERVICE_SESSION_RIGHTS_H
#define HEAPPROFD_RECORDER_SERVICE_SESSION_RIGHTS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "util/error.h"

struct session_rights {
    uid_t uid;
    gid_t gid;
    gid_t *groups;
    size_t group_count;
    uint64_t permitted, effective; /* capabilities */
};

/* Read the rights of a connection's peer. Return 0 or a negative errno with a message. */
int session_rights_of_peer(struct session_rights *rights, int socket, struct error *error);
void session_rights_clear(struct session_rights *rights);

/*
 * Replace our own rights by these, permanently. Afterwards only root can trace this process or read
 * its memory, and it gains no rights by exec. A daemon without root's rights serves its own user
 * and root, with its own rights. Return 0, or a negative errno with a message: the process must end
 * then.
 */
int session_rights_take(const struct session_rights *rights, struct error *error);

#endif
