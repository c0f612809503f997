/* SPDX-License-Identifier: Apache-2.0 */
/* Read rights of processes from /proc and sockets, explain refusals, and read the policy file. */
#include "recorder/processes/access.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/array.h"
#include "util/base_name.h"
#include "util/main_program.h"
#include "util/process_files.h"
#include "util/regular_file.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

#define CAPABILITY_SYS_PTRACE 19
#define POLICY_BYTES_MAX (1u << 20)

#define SESSION_MEMORY_MB_DEFAULT 1024
#define SESSION_MEMORY_MB_MIN 64u
#define SESSION_MEMORY_MB_MAX (1u << 20)

/* The capabilities of a process in another user namespace mean nothing here. */
static bool is_in_our_user_namespace(pid_t pid)
{
    return process_shares(pid, "ns/user");
}

static bool has_ptrace_capability(const struct process_status *rights)
{
    return (rights->effective >> CAPABILITY_SYS_PTRACE & 1) != 0;
}

static bool are_all(const unsigned ids[4], unsigned id)
{
    return ids[0] == id && ids[1] == id && ids[2] == id;
}

struct access_requester access_self(void)
{
    struct process_status rights;
    return (struct access_requester){.uid = geteuid(),
                                     .may_all = process_status_read(getpid(), &rights) == 0 &&
                                                has_ptrace_capability(&rights)};
}

/* Return whether the kernel guards a process of that user, which is not dumpable then: it gives the
 * process's files in /proc to root. */
static bool is_guarded(pid_t pid, uid_t uid)
{
    char path[64];
    struct stat status;
    /* Those of a thread that has ended are root's, too. */
    snprintf(path, sizeof(path), "/proc/%d/status", (int)process_living_thread(pid));
    return stat(path, &status) < 0 || status.st_uid != uid;
}

/*
 * Return whether the process has gained rights by executing a file: it is setuid, or the kernel
 * guards it. A user who connects and then executes a privileged program does not have that
 * program's rights.
 */
static bool has_gained_rights(const struct ucred *credentials, const struct process_status *rights)
{
    return !are_all(rights->uid, credentials->uid) ||
           is_guarded(credentials->pid, credentials->uid);
}

/* Read the peer's credentials and rights. Return -EPERM if it is in another user namespace, or
 * that cannot be seen. The text in /proc/PID is the peer's only if the peer is still alive
 * afterwards. */
static int read_peer(int socket, struct ucred *credentials, struct process_status *rights)
{
    int pidfd = -1;
    socklen_t length = sizeof(*credentials);
    if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, credentials, &length) < 0)
        return -errno;
    length = sizeof(pidfd);
    if (getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &length) < 0)
        pidfd = -1;
    int code = credentials->pid > 0 ? process_status_read(credentials->pid, rights) : -EPERM;
    if (code == 0 && !is_in_our_user_namespace(credentials->pid))
        code = -EPERM;
    /* Before Linux 6.5 the pid may belong to another process by now. A user must gain nothing by
     * that. */
    if (code == 0 && credentials->uid != 0 && (pidfd < 0 || has_gained_rights(credentials, rights)))
        rights->ambient = 0;
    /* The peer may also execute a program that has rights, be checked, and then execute another
     * one. Such rights are not ambient, and one read of its status returns all three sets. */
    if (code == 0 && credentials->uid != 0) {
        rights->permitted &= rights->ambient;
        rights->effective &= rights->ambient;
    }
    struct pollfd dead = {.fd = pidfd, .events = POLLIN};
    if (code == 0 && pidfd >= 0 && poll(&dead, 1, 0) != 0)
        code = -ESRCH;
    if (pidfd >= 0)
        close(pidfd);
    return code;
}

int access_peer(int socket, struct access_requester *requester, pid_t *pid)
{
    struct ucred credentials;
    struct process_status rights = {0};
    socklen_t length = sizeof(credentials);
    if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &length) < 0)
        return -errno;
    *pid = credentials.pid;
    *requester = (struct access_requester){.uid = credentials.uid};
    requester->may_all =
        read_peer(socket, &credentials, &rights) == 0 && has_ptrace_capability(&rights);
    return 0;
}

/* Return whether the process has this user, which it may have changed since. */
static bool has_user(pid_t pid, uid_t uid)
{
    struct process_status rights;
    if (process_status_read(pid, &rights) < 0)
        return false;
    for (unsigned i = 0; i < 4; i++) {
        if (rights.uid[i] == uid)
            return true;
    }
    return false;
}

bool access_peer_lives(int socket)
{
    struct ucred credentials;
    int pidfd = -1;
    socklen_t length = sizeof(pidfd);
    if (getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &length) == 0) {
        struct pollfd dead = {.fd = pidfd, .events = POLLIN};
        bool lives = poll(&dead, 1, 0) == 0;
        close(pidfd);
        return lives;
    }
    /* Its pid was released. */
    if (errno == ESRCH || errno == EINVAL)
        return false;
    length = sizeof(credentials);
    return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &length) == 0 &&
           has_user(credentials.pid, credentials.uid);
}

int access_peer_capabilities(int socket, uint64_t *permitted, uint64_t *effective)
{
    struct ucred credentials;
    struct process_status rights;
    int code = read_peer(socket, &credentials, &rights);
    if (code < 0)
        return code;
    *permitted = rights.permitted;
    *effective = rights.effective;
    return 0;
}

/* Find out why the kernel does not let us read the memory of a process. It does not report the
 * reason. */
static int explain_refusal(const struct process_info *info, struct error *error)
{
    int pid = (int)info->pid;
    struct process_status theirs, own;
    if (process_status_read(info->pid, &theirs) < 0 || process_status_read(getpid(), &own) < 0)
        return error_set(error, -ESRCH, "there is no process %d any more", pid);
    /* Neither users, nor groups, nor the capabilities of the process matter then. */
    if (has_ptrace_capability(&own))
        return error_set(
            error, -EPERM,
            "process %d is closed to you, although you have CAP_SYS_PTRACE: it belongs "
            "to another user namespace, or a security module or the container protects "
            "it; profile it from outside the container",
            pid);
    /* Another user's process: print only its pid. */
    if (!are_all(theirs.uid, (unsigned)getuid()))
        return error_set(error, -EPERM,
                         "process %d belongs to another user than you (uid %u), or has the rights "
                         "of one: profile it as that user or as root",
                         pid, (unsigned)getuid());
    if (!are_all(theirs.gid, (unsigned)getgid()))
        return error_set(error, -EPERM,
                         "process %d (%s) runs with another group than you (gid %u, you %u): the "
                         "kernel lets only root profile it, or you with that group (newgrp)",
                         pid, process_info_name(info), theirs.gid[1], (unsigned)getgid());
    if ((theirs.permitted & ~own.permitted) != 0)
        return error_set(
            error, -EPERM,
            "process %d (%s) has capabilities that you do not have (%#llx): profile it "
            "as a user who has them, as root does outside containers",
            pid, process_info_name(info), (unsigned long long)(theirs.permitted & ~own.permitted));
    /* The namespace of a guarded process cannot be read, whichever it is. */
    if (!is_guarded(info->pid, theirs.uid[1]) && !is_in_our_user_namespace(info->pid))
        return error_set(error, -EPERM,
                         "process %d (%s) is in another user namespace, over which you have no "
                         "rights: profile it from in there, or as root",
                         pid, process_info_name(info));
    return error_set(error, -EPERM,
                     "process %d (%s) is not dumpable (its program's file may not be read, or it "
                     "asked for that), or a security module protects it: only root may profile it",
                     pid, process_info_name(info));
}

int access_check(const struct process_info *info, struct error *error)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/maps", (int)process_living_thread(info->pid));
    /* Opening it checks ptrace's rule for reading (PTRACE_MODE_READ). */
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        close(fd);
        return 0;
    }
    if (errno == ENOENT || errno == ESRCH)
        return error_set(error, -ESRCH, "there is no process %d any more", (int)info->pid);
    if (errno == EACCES || errno == EPERM)
        return explain_refusal(info, error);
    return error_set(error, -errno, "cannot open %s: %s", path, strerror(errno));
}

/* --- the administrator's policy --- */

static int add_names(struct access_policy *policy, size_t *capacity, char *text)
{
    char *rest = NULL;
    for (char *name = strtok_r(text, ", \t", &rest); name != NULL;
         name = strtok_r(NULL, ", \t", &rest)) {
        char *copy = strdup(name);
        if (copy == NULL || ARRAY_RESERVE(&policy->never_profile, capacity, policy->count, 1) < 0) {
            free(copy);
            return -ENOMEM;
        }
        policy->never_profile[policy->count++] = copy;
    }
    return 0;
}

/* Apply a setting. Return 0, or a negative errno without a message. */
static int take_setting(struct access_policy *policy, size_t *capacity, const char *key,
                        size_t key_length, char *value)
{
    static const char never[] = "never_profile", memory[] = "session_memory_mb";
    if (key_length == strlen(never) && strncmp(key, never, key_length) == 0)
        return add_names(policy, capacity, value);
    if (key_length != strlen(memory) || strncmp(key, memory, key_length) != 0)
        return -EINVAL;
    char *end;
    errno = 0;
    unsigned long long number = strtoull(value, &end, 10);
    end += strspn(end, " \t");
    if (errno != 0 || end == value || *end != 0 || *value == '-' ||
        number > SESSION_MEMORY_MB_MAX || (number > 0 && number < SESSION_MEMORY_MB_MIN))
        return -EINVAL;
    policy->session_memory_mb = number;
    return 0;
}

/* Return whether a file belongs to root or to us. In a user namespace root may appear as nobody:
 * then the root directory does, too. */
static bool is_trusted_owner(uid_t owner)
{
    struct stat root;
    return owner == 0 || owner == geteuid() || (stat("/", &root) == 0 && owner == root.st_uid);
}

/* Open the policy. Return NULL without an error if there is no such file. */
static FILE *open_policy(const char *path, struct error *error)
{
    struct stat status;
    int fd = regular_file_open(path, &status);
    if (fd == -ENOENT)
        return NULL;
    if (fd < 0) {
        error_set(error, fd, "cannot read %s: %s", path,
                  fd == -EINVAL ? "it is not a regular file" : strerror(-fd));
        return NULL;
    }
    FILE *file = NULL;
    /* A user who may write to the file could decide who is profiled. */
    if (!is_trusted_owner(status.st_uid) || (status.st_mode & 022) != 0)
        error_set(error, -EPERM,
                  "%s is not read: it belongs to user %u and has mode %03o, so that users other "
                  "than root may change it (chown root, chmod go-w)",
                  path, (unsigned)status.st_uid, (unsigned)(status.st_mode & 07777));
    else if ((file = fdopen(fd, "r")) == NULL)
        error_set(error, -errno, "cannot read %s: %s", path, strerror(errno));
    if (file == NULL)
        close(fd);
    return file;
}

int access_policy_read(struct access_policy *policy, const char *path, struct error *error)
{
    *policy = (struct access_policy){.session_memory_mb = SESSION_MEMORY_MB_DEFAULT};
    error->code = 0;
    FILE *file = open_policy(path, error);
    if (file == NULL)
        return error->code;
    char *line = NULL;
    size_t line_capacity = 0, capacity = 0, bytes = 0;
    ssize_t length;
    int code = 0;
    for (unsigned number = 1; code == 0 && (length = getline(&line, &line_capacity, file)) >= 0;
         number++) {
        bytes += (size_t)length;
        line[strcspn(line, "#\r\n")] = 0;
        char *text = line + strspn(line, " \t");
        if (*text == 0)
            continue;
        /* Sections are of continuous mode (util/settings.h). */
        if (*text == '[')
            break;
        size_t key_length = strcspn(text, " \t=");
        char *value = text + key_length + strspn(text + key_length, " \t=");
        code = bytes > POLICY_BYTES_MAX ? -EINVAL
                                        : take_setting(policy, &capacity, text, key_length, value);
        if (code == -EINVAL)
            error_set(error, code,
                      "%s:%u: '%.*s' is not a setting, or its value is not valid; this file has "
                      "lines such as: never_profile sshd, gpg-agent; session_memory_mb 1024 (%u to "
                      "%u, 0: no "
                      "limit)",
                      path, number, (int)(key_length < 64 ? key_length : 64), text,
                      SESSION_MEMORY_MB_MIN, SESSION_MEMORY_MB_MAX);
        else if (code < 0)
            error_set(error, code, "no memory to read %s", path);
    }
    if (code == 0 && ferror(file))
        code = error_set(error, -EIO, "cannot read %s", path);
    free(line);
    fclose(file);
    if (code < 0)
        access_policy_clear(policy);
    return code;
}

void *access_policy_pack(const struct access_policy *policy, size_t *length)
{
    char *bytes = malloc(ACCESS_POLICY_PACKED_MAX);
    *length = 0;
    for (size_t i = 0; i < policy->count && bytes != NULL; i++) {
        size_t name_length = strlen(policy->never_profile[i]) + 1;
        if (name_length > ACCESS_POLICY_PACKED_MAX - *length) {
            free(bytes);
            return NULL;
        }
        memcpy(bytes + *length, policy->never_profile[i], name_length);
        *length += name_length;
    }
    return bytes;
}

int access_policy_unpack(struct access_policy *policy, const void *bytes, size_t length)
{
    struct access_policy unpacked = {.session_memory_mb = policy->session_memory_mb};
    size_t capacity = 0;
    const char *at = bytes, *end = at + length;
    if (length > 0 && end[-1] != '\0')
        return -EPROTO;
    for (; at < end; at += strlen(at) + 1) {
        char *copy = strdup(at);
        if (copy == NULL ||
            ARRAY_ADD(&unpacked.never_profile, &unpacked.count, &capacity, copy) < 0) {
            free(copy);
            access_policy_clear(&unpacked);
            return -ENOMEM;
        }
    }
    access_policy_clear(policy);
    *policy = unpacked;
    return 0;
}

void access_policy_clear(struct access_policy *policy)
{
    for (size_t i = 0; i < policy->count; i++)
        free(policy->never_profile[i]);
    free(policy->never_profile);
    *policy = (struct access_policy){0};
}

static bool is_file(const char *pattern, const char *path)
{
    return fnmatch(pattern, base_name(path), 0) == 0 || fnmatch(pattern, path, 0) == 0;
}

bool access_policy_denies_command(const struct access_policy *policy, const char *command,
                                  const char *path)
{
    struct process_info info = {.arguments = &command, .argument_count = 1};
    snprintf(info.executable, sizeof(info.executable), "%s", path);
    return access_policy_denies(policy, &info);
}

bool access_policy_denies(const struct access_policy *policy, const struct process_info *info)
{
    struct main_program program = {0};
    if (policy->count > 0 && main_program_is_loader(info->executable))
        main_program_find(&program, info->pid);
    for (size_t i = 0; i < policy->count; i++) {
        const char *pattern = policy->never_profile[i];
        /* A process must not escape the policy by changing its name: its file counts, too. */
        if (process_info_matches(info, pattern) || is_file(pattern, info->executable) ||
            (program.by_loader && is_file(pattern, program.file)))
            return true;
    }
    return false;
}
