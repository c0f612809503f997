/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who may profile what. The kernel's own rule for ptrace decides, because a session runs with the
 * rights of its requester (session_rights.h). The administrator may exclude programs for all users
 * (never_profile in /etc/heapprofd.conf).
 */
#ifndef HEAPPROFD_RECORDER_PROCESSES_ACCESS_H
#define HEAPPROFD_RECORDER_PROCESSES_ACCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "recorder/processes/process_info.h"
#include "util/error.h"

#define ACCESS_POLICY_PATH "/etc/heapprofd.conf"

/* The user who asked for a session. */
struct access_requester {
    uid_t uid;
    bool may_all; /* had CAP_SYS_PTRACE at the request */
};

/* Return this process as a requester. */
struct access_requester access_self(void);

/* Describe the process at the other end of a unix socket. Return 0 or a negative errno. */
int access_peer(int socket, struct access_requester *requester, pid_t *pid);

/* Return whether the process that connected still lives. If so, what was read about its pid before
 * is about that process. Before Linux 6.5 the kernel cannot tell; there, return whether the pid's
 * process has the user that connected: a user gains nothing by the pid of another user's process.
 */
bool access_peer_lives(int socket);

/* Read the peer's capabilities. -EPERM: it is in another user namespace, or that cannot be
 * determined. */
int access_peer_capabilities(int socket, uint64_t *permitted, uint64_t *effective);

/* Ask the kernel whether this process may read the memory of that one. Return 0, or a negative
 * errno with the reason and a remedy. When attaching, ptrace itself decides. */
int access_check(const struct process_info *info, struct error *error);

struct access_policy {
    char **never_profile; /* names and globs, as for process names in a configuration */
    size_t count;
    uint64_t session_memory_mb; /* limit of a user's session; 0: none */
};

/* Read a policy. Without the file nothing is denied. Return 0, or a negative errno with a message
 * that names file and line: an unreadable policy must not pass for an empty one. */
int access_policy_read(struct access_policy *policy, const char *path, struct error *error);
void access_policy_clear(struct access_policy *policy);

/* Pack the names of never_profile for another process, at most ACCESS_POLICY_PACKED_MAX bytes.
 * Return malloc'd bytes; NULL: no memory, or too many. */
#define ACCESS_POLICY_PACKED_MAX ((size_t)32 << 10)
void *access_policy_pack(const struct access_policy *policy, size_t *length);
/* Replace the names by packed ones. Return 0, or a negative errno: the policy is as before. */
int access_policy_unpack(struct access_policy *policy, const void *bytes, size_t length);

bool access_policy_denies(const struct access_policy *policy, const struct process_info *info);

/* The same for a command before it runs: its argument 0 and the file of its program. */
bool access_policy_denies_command(const struct access_policy *policy, const char *command,
                                  const char *path);

#endif
