/* SPDX-License-Identifier: Apache-2.0 */
/* Read rights from the socket before the fork, and take them after it. */
#include "recorder/service/session_rights.h"

#include "recorder/processes/access.h"
#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SO_PEERGROUPS
#define SO_PEERGROUPS 59
#endif

/* The kernel's limit. */
#define GROUPS_MAX 65536

static int read_groups(struct session_rights *rights, int socket)
{
    socklen_t bytes = 0;
    if (getsockopt(socket, SOL_SOCKET, SO_PEERGROUPS, NULL, &bytes) == 0)
        return 0;
    if (errno != ERANGE || bytes > GROUPS_MAX * sizeof(gid_t))
        return -errno;
    rights->groups = malloc(bytes);
    if (rights->groups == NULL)
        return -ENOMEM;
    if (getsockopt(socket, SOL_SOCKET, SO_PEERGROUPS, rights->groups, &bytes) < 0)
        return -errno;
    rights->group_count = bytes / sizeof(gid_t);
    return 0;
}

int session_rights_of_peer(struct session_rights *rights, int socket, struct error *error)
{
    struct ucred credentials;
    socklen_t length = sizeof(credentials);
    *rights = (struct session_rights){0};
    if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &length) < 0)
        return error_set(error, -errno, "cannot find out who you are: %s", strerror(errno));
    rights->uid = credentials.uid;
    rights->gid = credentials.gid;
    int code = read_groups(rights, socket);
    if (code < 0) {
        session_rights_clear(rights);
        return error_set(error, code, "cannot find out which groups you are in: %s",
                         strerror(-code));
    }
    code = access_peer_capabilities(socket, &rights->permitted, &rights->effective);
    if (code < 0) {
        session_rights_clear(rights);
        return error_set(error, code,
                         "you are in another user namespace than the daemon (a container?), or "
                         "your process has ended: run heap_profile or a heapprofd in there");
    }
    return 0;
}

void session_rights_clear(struct session_rights *rights)
{
    free(rights->groups);
    *rights = (struct session_rights){0};
}

/* --- taking rights --- */

struct capabilities {
    struct __user_cap_header_struct header;
    struct __user_cap_data_struct data[2];
};

static int read_own(struct capabilities *own)
{
    *own = (struct capabilities){.header = {.version = _LINUX_CAPABILITY_VERSION_3}};
    return syscall(SYS_capget, &own->header, own->data) < 0 ? -errno : 0;
}

/* Keep the capabilities that both have. Nothing is inheritable. */
static int reduce_capabilities(const struct capabilities *before,
                               const struct session_rights *rights)
{
    struct capabilities now = {.header = {.version = _LINUX_CAPABILITY_VERSION_3}};
    for (unsigned i = 0; i < 2; i++) {
        uint32_t permitted = (uint32_t)(rights->permitted >> 32 * i);
        uint32_t effective = (uint32_t)(rights->effective >> 32 * i);
        now.data[i].permitted = before->data[i].permitted & permitted;
        now.data[i].effective = before->data[i].permitted & permitted & effective;
    }
    if (syscall(SYS_capset, &now.header, now.data) < 0)
        return -errno;
    return prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0 ? -errno : 0;
}

static bool groups_are(const struct session_rights *rights)
{
    gid_t *own = malloc(GROUPS_MAX * sizeof(*own));
    int count = own != NULL ? getgroups(GROUPS_MAX, own) : -1;
    bool same = count >= 0 && (size_t)count == rights->group_count &&
                (count == 0 || memcmp(own, rights->groups, (size_t)count * sizeof(*own)) == 0);
    free(own);
    return same;
}

static int change_ids(const struct session_rights *rights)
{
    /* In a user namespace setgroups() may be forbidden even if it would change nothing. */
    if (getuid() == rights->uid && getgid() == rights->gid && groups_are(rights))
        return 0;
    if (setgroups(rights->group_count, rights->groups) < 0 ||
        setresgid(rights->gid, rights->gid, rights->gid) < 0 ||
        setresuid(rights->uid, rights->uid, rights->uid) < 0)
        return -errno;
    uid_t uid[3];
    gid_t gid[3];
    if (getresuid(&uid[0], &uid[1], &uid[2]) < 0 || getresgid(&gid[0], &gid[1], &gid[2]) < 0)
        return -errno;
    for (unsigned i = 0; i < 3; i++) {
        if (uid[i] != rights->uid || gid[i] != rights->gid)
            return -EPERM;
    }
    return 0;
}

static int session_rights_explain(int code, const struct session_rights *rights,
                                  struct error *error)
{
    return error_set(error, code,
                     "the daemon (uid %u) cannot take your rights (uid %u, gid %u): %s; ask a "
                     "daemon of root's, or run heap_profile without one",
                     (unsigned)geteuid(), (unsigned)rights->uid, (unsigned)rights->gid,
                     strerror(-code));
}

int session_rights_take(const struct session_rights *rights, struct error *error)
{
    struct capabilities before;
    bool is_root = geteuid() == 0;
    int code = read_own(&before);
    if (code < 0 || (!is_root && rights->uid != geteuid() && rights->uid != 0))
        return session_rights_explain(code < 0 ? code : -EPERM, rights, error);
    if (is_root) {
        if (prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) < 0 || (code = change_ids(rights)) < 0)
            return session_rights_explain(code < 0 ? code : -errno, rights, error);
        prctl(PR_SET_KEEPCAPS, 0, 0, 0, 0);
        code = reduce_capabilities(&before, rights);
    }
    if (code == 0 &&
        (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0))
        code = -errno;
    return code < 0 ? session_rights_explain(code, rights, error) : 0;
}
