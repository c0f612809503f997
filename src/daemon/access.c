/* See access.h. */
#include "daemon/access.h"

#include <errno.h>
#include <fnmatch.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/array.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

#define CAPABILITY_SYS_PTRACE 19
#define POLICY_BYTES_MAX (1u << 20)

/* What /proc/PID/status says of rights; all ids equal: `uid`, else -1. */
struct rights {
    uid_t uid;
    uint64_t permitted, effective; /* capabilities */
};

static int read_rights(pid_t pid, struct rights *rights)
{
    char path[64], line[256];
    snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return errno == ENOENT ? -ESRCH : -errno;
    *rights = (struct rights){.uid = (uid_t)-1, .permitted = ~UINT64_C(0)};
    unsigned real, effective, saved, of_files;
    unsigned long long bits;
    while (fgets(line, sizeof(line), file) != NULL) {
        if (sscanf(line, "Uid: %u %u %u %u", &real, &effective, &saved, &of_files) == 4 &&
            real == effective && real == saved && real == of_files)
            rights->uid = real;
        else if (sscanf(line, "CapPrm: %llx", &bits) == 1)
            rights->permitted = bits;
        else if (sscanf(line, "CapEff: %llx", &bits) == 1)
            rights->effective = bits;
    }
    fclose(file);
    return 0;
}

/* Capabilities mean something only in the user namespace that they are of. */
static bool is_in_our_user_namespace(pid_t pid)
{
    char path[64];
    struct stat theirs, ours;
    snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)pid);
    return stat(path, &theirs) == 0 && stat("/proc/self/ns/user", &ours) == 0 &&
           theirs.st_ino == ours.st_ino && theirs.st_dev == ours.st_dev;
}

static bool has_ptrace_capability(pid_t pid)
{
    struct rights rights;
    return read_rights(pid, &rights) == 0 && is_in_our_user_namespace(pid) &&
           (rights.effective >> CAPABILITY_SYS_PTRACE & 1) != 0;
}

struct access_requester access_self(void)
{
    return (struct access_requester){.uid = geteuid(), .may_all = has_ptrace_capability(getpid())};
}

int access_peer(int socket, struct access_requester *requester, pid_t *pid)
{
    struct ucred credentials;
    socklen_t length = sizeof(credentials);
    if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &length) < 0)
        return -errno;
    *pid = credentials.pid;
    *requester = (struct access_requester){.uid = credentials.uid};

    /* What /proc says of the pid is said of the peer only if the peer still lives after. */
    int pidfd;
    length = sizeof(pidfd);
    if (credentials.pid <= 0 || getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &length) < 0) {
        requester->may_all = credentials.uid == 0 && geteuid() == 0;
        return 0;
    }
    bool capable = has_ptrace_capability(credentials.pid);
    struct pollfd alive = {.fd = pidfd, .events = POLLIN};
    requester->may_all = capable && poll(&alive, 1, 0) == 0;
    close(pidfd);
    return 0;
}

int access_check(const struct access_requester *requester, const struct process_info *info,
                 struct error *error)
{
    if (requester->may_all)
        return 0;
    struct rights rights;
    int code = read_rights(info->pid, &rights);
    if (code < 0)
        return error_set(error, code, "there is no process %d any more", (int)info->pid);
    if (rights.uid != requester->uid)
        return error_set(error, -EPERM,
                         "process %d (%s) belongs to another user than you (uid %u): profile it "
                         "as that user or as root",
                         (int)info->pid, process_info_name(info), (unsigned)requester->uid);
    char path[64];
    struct stat owner;
    snprintf(path, sizeof(path), "/proc/%d", (int)info->pid);
    if (rights.permitted != 0 || stat(path, &owner) < 0 || owner.st_uid != requester->uid)
        return error_set(error, -EPERM,
                         "process %d (%s) has rights that you have not, or guards its memory (it "
                         "is not dumpable): only root may profile it",
                         (int)info->pid, process_info_name(info));
    return 0;
}

/* --- the administrator's policy --- */

static int add_names(struct access_policy *policy, size_t *capacity, char *text)
{
    char *rest = NULL;
    for (char *name = strtok_r(text, ", \t", &rest); name != NULL;
         name = strtok_r(NULL, ", \t", &rest)) {
        char *copy = strdup(name);
        if (copy == NULL || array_reserve(&policy->never_profile, capacity, policy->count, 1,
                                          sizeof(*policy->never_profile)) < 0) {
            free(copy);
            return -ENOMEM;
        }
        policy->never_profile[policy->count++] = copy;
    }
    return 0;
}

int access_policy_read(struct access_policy *policy, const char *path, struct error *error)
{
    static const char key[] = "never_profile";
    *policy = (struct access_policy){0};
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return errno == ENOENT
                   ? 0
                   : error_set(error, -errno, "cannot read %s: %s", path, strerror(errno));
    char *line = NULL;
    size_t line_capacity = 0, capacity = 0, bytes = 0;
    ssize_t length;
    int code = 0;
    for (unsigned number = 1; code == 0 && (length = getline(&line, &line_capacity, file)) >= 0;
         number++) {
        bytes += (size_t)length;
        line[strcspn(line, "#\n")] = 0;
        char *text = line + strspn(line, " \t");
        if (*text == 0)
            continue;
        size_t key_length = strcspn(text, " \t=");
        if (bytes > POLICY_BYTES_MAX || key_length != strlen(key) ||
            strncmp(text, key, key_length) != 0)
            code = error_set(error, -EINVAL,
                             "%s:%u: '%.*s' is no setting; this file has lines such as: "
                             "never_profile sshd, gpg-agent",
                             path, number, (int)(key_length < 64 ? key_length : 64), text);
        else if (add_names(policy, &capacity,
                           text + key_length + strspn(text + key_length, " \t=")))
            code = error_set(error, -ENOMEM, "no memory to read %s", path);
    }
    if (code == 0 && ferror(file))
        code = error_set(error, -EIO, "cannot read %s", path);
    free(line);
    fclose(file);
    if (code < 0)
        access_policy_clear(policy);
    return code;
}

void access_policy_clear(struct access_policy *policy)
{
    for (size_t i = 0; i < policy->count; i++)
        free(policy->never_profile[i]);
    free(policy->never_profile);
    *policy = (struct access_policy){0};
}

bool access_policy_denies(const struct access_policy *policy, const struct process_info *info)
{
    for (size_t i = 0; i < policy->count; i++) {
        const char *pattern = policy->never_profile[i];
        /* What a process calls itself must not free it of the policy: its file counts too. */
        const char *slash = strrchr(info->executable, '/');
        if (process_info_matches(info, pattern) ||
            fnmatch(pattern, slash != NULL ? slash + 1 : info->executable, 0) == 0 ||
            fnmatch(pattern, info->executable, 0) == 0)
            return true;
    }
    return false;
}
