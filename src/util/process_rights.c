/* SPDX-License-Identifier: Apache-2.0 */
/* Takes rights in a child, which shares a page of memory with us for its answer. */
#include "util/process_rights.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/magic.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "util/clock.h"
#include "util/close_descriptors.h"
#include "util/heartbeat.h"
#include "util/pass_descriptor.h"
#include "util/process_files.h"
#include "util/regular_file.h"

#ifndef FUSE_SUPER_MAGIC
#define FUSE_SUPER_MAGIC 0x65735546
#endif

/* --- whose rights --- */

#define CAPABILITY(number) (UINT64_C(1) << (number))

/* The capabilities of this thread. */
static uint64_t own_capabilities(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {0};
    syscall(SYS_capget, &header, data);
    return (uint64_t)data[1].effective << 32 | data[0].effective;
}

/* Read the line "Groups:" of /proc/PID/status. Return false if they are unknown or too many. */
static bool read_groups(struct process_rights *rights, pid_t pid)
{
    char *line = NULL;
    size_t size = 0;
    bool is_whole = false;
    int fd = process_file_open(pid, "status");
    FILE *file = fd < 0 ? NULL : fdopen(fd, "r");
    if (file == NULL && fd >= 0)
        close(fd);
    rights->group_count = 0;
    while (file != NULL && getline(&line, &size, file) > 0) {
        if (strncmp(line, "Groups:", 7) != 0)
            continue;
        char *at = line + 7, *end;
        unsigned long group = strtoul(at, &end, 10);
        for (; end != at && rights->group_count < PROCESS_RIGHTS_GROUPS_MAX;
             group = strtoul(at, &end, 10)) {
            rights->groups[rights->group_count++] = (gid_t)group;
            at = end;
        }
        is_whole = end == at;
        break;
    }
    free(line);
    if (file != NULL)
        fclose(file);
    return is_whole;
}

/* The user who started a program that has changed its user has chosen its paths, unless root did:
 * then the program works for the user whom it has become. */
static bool has_started_as_root(const struct process_status *status)
{
    return status->uid[0] == 0;
}

/* Return the user whom the kernel shows for a process, also where its rights are unknown; -1: it is
 * gone. */
static uid_t user_of(pid_t pid)
{
    char path[32];
    struct stat status;
    snprintf(path, sizeof(path), "/proc/%d", (int)pid);
    return stat(path, &status) == 0 ? status.st_uid : (uid_t)-1;
}

/* Return whether the pid is that of the same process as before. */
static bool is_same_process(pid_t pid, uint64_t start_ticks)
{
    struct process_stat stat;
    return process_stat_read(pid, &stat) && stat.start_ticks == start_ticks;
}

void process_rights_read(struct process_rights *rights, pid_t pid)
{
    struct process_rights now = {0};
    struct process_status status;
    struct process_stat stat;
    if (!rights->is_known)
        rights->uid = user_of(pid);
    if (pid <= 0 || !process_stat_read(pid, &stat) || process_status_read(pid, &status) < 0 ||
        (rights->is_known && stat.start_ticks != rights->start_ticks))
        return;
    now.start_ticks = stat.start_ticks;
    unsigned which = has_started_as_root(&status) ? 3 : 0;
    uint64_t own = own_capabilities();
    now.uid = status.uid[which];
    now.gid = status.gid[which];
    now.is_known = read_groups(&now, pid) && now.uid != ~0U && now.gid != ~0U;
    now.has_ours = (own & ~status.effective) == 0 && (own == 0 || process_shares(pid, "ns/user"));
    for (int i = 0; i < 4; i++)
        now.has_ours &= status.uid[i] == geteuid();
    now.shares_root = regular_file_shares_root(pid);
    /* Of a process that is ending the kernel shows no namespaces. */
    if (now.is_known && (now.shares_root || !process_has_ended(pid)) &&
        is_same_process(pid, now.start_ticks))
        *rights = now;
}

/* --- the child --- */

enum task {
    OPEN_BELOW_ROOT,
    OPEN_MAPPED,
    READ_MEMORY,
};

struct request {
    enum task task;
    const struct process_rights *rights;
    uid_t payer;
    const char *path; /* below the root */
    int fd;    /* the root, what was found of a mapped file, or the file whose contents are read */
    int flags; /* of regular_file_find_below() */
    bool takes_rights;
};

/* Memory that the child and we share. */
struct answer {
    struct stat status;
    ssize_t code; /* 0 or the number of bytes, or a negative errno */
    char bytes[];
};

/* Take the rights in this thread, by system calls alone: libc's functions would wait for other
 * threads, which this copy of one thread does not have. Until the memory cannot be read by other
 * processes of that user, the capabilities keep them away. */
static int take_rights(const struct process_rights *rights)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    const struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {0};
    if (prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) < 0 ||
        syscall(SYS_setgroups, (size_t)rights->group_count, rights->groups) < 0 ||
        syscall(SYS_setresgid, rights->gid, rights->gid, rights->gid) < 0 ||
        syscall(SYS_setresuid, rights->uid, rights->uid, rights->uid) < 0 ||
        prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
        prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0 ||
        syscall(SYS_capset, &header, none) < 0)
        return -errno;
    return own_capabilities() == 0 ? 0 : -EPERM;
}

/* Open the file only if neither reading nor closing it can wait for a user's server. */
static int open_safely(const struct request *request, struct stat *status)
{
    struct statfs system;
    int found = request->task == OPEN_MAPPED
                    ? request->fd
                    : regular_file_find_below(request->fd, request->path, request->flags);
    if (found < 0)
        return found;
    int code = fstatfs(found, &system) < 0 ? -errno : 0;
    if (code == 0 && (system.f_type == FUSE_SUPER_MAGIC || system.f_type == PROC_SUPER_MAGIC))
        code = -EINVAL;
    if (code == 0)
        return regular_file_open_found(found, status);
    close(found);
    return code;
}

static ssize_t read_whole(int fd, char *buffer, size_t size)
{
    size_t length = 0;
    ssize_t got = 1;
    while (got > 0 && length < size) {
        got = read(fd, buffer + length, size - length);
        length += got > 0 ? (size_t)got : 0;
    }
    return got < 0 && length == 0 ? -errno : (ssize_t)length;
}

/* Keep two descriptors of all: whatever holds this child up holds none of the profiler's own. */
static void keep_only(int one, int other)
{
    int low = one < other ? one : other, high = one < other ? other : one;
    if (low > 0)
        close_descriptors(0, (unsigned)low - 1);
    if (high > low + 1)
        close_descriptors((unsigned)low + 1, (unsigned)high - 1);
    close_descriptors((unsigned)high + 1, ~0U);
}

static _Noreturn void be_child(const struct request *request, struct answer *answer, size_t size,
                               int socket)
{
    const struct iovec part = {(char *)"", 1};
    int fd = -1, code = 0;
    keep_only(request->fd >= 0 ? request->fd : socket, socket);
    pass_descriptor(socket, &part, 1, -1, 0); /* it has begun */
    if (request->takes_rights)
        code = take_rights(request->rights);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (code < 0)
        answer->code = code;
    else if (request->task == READ_MEMORY)
        answer->code = read_whole(request->fd, answer->bytes, size);
    else
        answer->code = (fd = open_safely(request, &answer->status)) < 0 ? fd : 0;
    ssize_t passed = pass_descriptor(socket, &part, 1, fd, 0);
    if (passed < 0) {
        answer->code = passed;
        pass_descriptor(socket, &part, 1, -1, 0);
    }
    /* Here, because this may wait, too. The end of the connection says that nothing more can. */
    if (fd >= 0)
        close(fd);
    close(socket);
    for (;;)
        syscall(SYS_exit_group, 0);
}

/* --- budgets --- */

/* In a minute a user's files may take two seconds of our time, and those of eight users may take
 * some: a program with FUSE, or 65,536 users of a container, can delay every opening. */
#define BUDGET_MS 2000
#define PERIOD_MS 60000
#define USERS_MAX 8
/* Children that the kernel holds, although they were killed. */
#define STUCK_MAX 8
/* Openings that take less are the machine's own delays. */
#define FREE_MS 50
/* To copy this process and to close what the copy must not have. No user pays for this, and none
 * can delay it. */
#define BEGINNING_MS 10000

static struct spender {
    uid_t uid;
    uint64_t since_ms; /* 0: unused */
    uint64_t spent_ms;
} spenders[USERS_MAX];

static struct stuck {
    pid_t child; /* 0: unused */
    uid_t uid;
} stuck[STUCK_MAX];

/* Return the user's entry, a free one, or NULL. */
static struct spender *spender_of(uid_t uid, uint64_t now_ms)
{
    struct spender *unused = NULL;
    for (size_t i = 0; i < USERS_MAX; i++) {
        struct spender *spender = &spenders[i];
        if (spender->since_ms != 0 && now_ms - spender->since_ms > PERIOD_MS)
            *spender = (struct spender){0};
        if (spender->since_ms != 0 && spender->uid == uid)
            return spender;
        if (spender->since_ms == 0)
            unused = spender;
    }
    return unused;
}

static void charge(struct spender *spender, uid_t uid, uint64_t took_ms)
{
    if (took_ms < FREE_MS)
        return;
    if (spender->since_ms == 0)
        *spender = (struct spender){.uid = uid, .since_ms = clock_read_ms(CLOCK_MONOTONIC)};
    spender->spent_ms += took_ms;
}

/* Return room for a user's child that may get stuck, or NULL: also while the user has such a child.
 * Else one user could fill all rooms, for as long as he likes. */
static struct stuck *stuck_room(uid_t uid)
{
    struct stuck *room = NULL;
    bool has_one = false;
    for (size_t i = 0; i < STUCK_MAX; i++) {
        if (stuck[i].child != 0 && waitpid(stuck[i].child, NULL, __WALL | WNOHANG) != 0)
            stuck[i].child = 0;
        if (stuck[i].child == 0)
            room = &stuck[i];
        else
            has_one |= stuck[i].uid == uid;
    }
    return has_one ? NULL : room;
}

/* --- asking the child --- */

/* How far a child has come. */
struct progress {
    bool has_begun, has_answered, has_ended; /* ended: its connection */
    uint64_t took_ms;                        /* from its beginning on */
    int fd;                                  /* that it passed; -1: none */
};

/* Wait until the child has ended its connection, but for no longer than `patience_ms` after it has
 * begun. */
static void wait_for(int socket, unsigned patience_ms, struct progress *progress)
{
    uint64_t began_ms = clock_read_ms(CLOCK_MONOTONIC);
    while (!progress->has_ended) {
        struct pollfd polled = {.fd = socket, .events = POLLIN};
        union {
            struct cmsghdr header;
            char bytes[CMSG_SPACE(sizeof(int))];
        } control = {0};
        char byte;
        struct iovec part = {&byte, 1};
        struct msghdr message = {.msg_iov = &part,
                                 .msg_iovlen = 1,
                                 .msg_control = &control,
                                 .msg_controllen = sizeof(control)};
        uint64_t took_ms = clock_read_ms(CLOCK_MONOTONIC) - began_ms;
        unsigned may_take_ms = progress->has_begun ? patience_ms : BEGINNING_MS;
        if (took_ms >= may_take_ms)
            break;
        uint64_t left_ms = may_take_ms - took_ms;
        heartbeat_send();
        if (poll(&polled, 1, left_ms < 100 ? (int)left_ms : 100) <= 0)
            continue;
        ssize_t got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
        if (got < 0 && (errno == EAGAIN || errno == EINTR))
            continue;
        if (got <= 0) {
            progress->has_ended = true;
        } else if (!progress->has_begun) {
            progress->has_begun = true;
            began_ms = clock_read_ms(CLOCK_MONOTONIC);
        } else {
            progress->has_answered = true;
        }
        if (message.msg_controllen >= CMSG_LEN(sizeof(int)) &&
            control.header.cmsg_type == SCM_RIGHTS)
            memcpy(&progress->fd, CMSG_DATA(&control.header), sizeof(int));
    }
    if (progress->has_begun)
        progress->took_ms = clock_read_ms(CLOCK_MONOTONIC) - began_ms;
}

/* Let a child do it. Return the answer's code, or the descriptor of the file that it opened. */
static ssize_t process_rights_run(const struct request *request, struct answer *answer, size_t size,
                                  unsigned patience_ms, uint64_t *took_ms)
{
    struct progress progress = {.fd = -1};
    int sockets[2];
    struct stuck *room = stuck_room(request->payer);
    if (room == NULL)
        return -ETIMEDOUT;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) < 0)
        return -errno;
    /* Its end sends no signal: programs that embed the profiler wait for SIGCHLD. */
    pid_t child = (pid_t)syscall(SYS_clone, 0, NULL, NULL, NULL, 0);
    if (child == 0)
        be_child(request, answer, size, sockets[1]);
    close(sockets[1]);
    if (child > 0)
        wait_for(sockets[0], patience_ms, &progress);
    close(sockets[0]);
    if (child < 0)
        return -EAGAIN;
    kill(child, SIGKILL); /* its user may have stopped it after its answer */
    if (progress.has_ended)
        waitpid(child, NULL, __WALL);
    else
        *room = (struct stuck){child, request->payer};
    *took_ms = progress.took_ms;
    ssize_t code = !progress.has_ended      ? -ETIMEDOUT
                   : !progress.has_answered ? -EIO /* it was killed */
                                            : answer->code;
    if (code >= 0 && request->task != READ_MEMORY)
        return progress.fd >= 0 ? progress.fd : -EMFILE; /* dropped: we have no number for it */
    if (progress.fd >= 0)
        close(progress.fd);
    return code;
}

/* Let a child do it, within the user's budget. `size`: of the contents that are wanted. */
static ssize_t process_rights_ask(const struct request *request, char *buffer, size_t size,
                                  struct stat *status)
{
    uint64_t took_ms = 0;
    uid_t uid = request->payer;
    struct spender *spender = spender_of(uid, clock_read_ms(CLOCK_MONOTONIC));
    uint64_t spent_ms = spender == NULL ? BUDGET_MS : spender->spent_ms;
    if (spent_ms >= BUDGET_MS)
        return -ETIMEDOUT;
    struct answer *answer = mmap(NULL, sizeof(*answer) + size, PROT_READ | PROT_WRITE,
                                 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (answer == MAP_FAILED)
        return -errno;
    ssize_t code =
        process_rights_run(request, answer, size, (unsigned)(BUDGET_MS - spent_ms), &took_ms);
    if (code >= 0 && request->task == READ_MEMORY)
        memcpy(buffer, answer->bytes, (size_t)code);
    else if (code >= 0)
        *status = answer->status;
    munmap(answer, sizeof(*answer) + size);
    charge(spender, uid, took_ms);
    return code;
}

/* --- files --- */

static bool can_take_rights(void)
{
    const uint64_t needed = CAPABILITY(CAP_SETUID) | CAPABILITY(CAP_SETGID);
    return (own_capabilities() & needed) == needed;
}

/* Without the right to change its user, a profiler opens only files that all, or the process's user
 * own or may read. */
static bool is_for_all(const struct process_rights *rights, const struct stat *status)
{
    return (status->st_mode & S_IROTH) != 0 || (rights->is_known && status->st_uid == rights->uid);
}

int process_rights_open(const struct process_rights *rights, int root, const char *path, int flags,
                        struct stat *status)
{
    int top = root >= 0 ? root : open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (top < 0)
        return -errno;
    bool takes_rights = can_take_rights();
    const struct request request = {.task = OPEN_BELOW_ROOT,
                                    .rights = rights,
                                    .payer = rights->uid,
                                    .path = path,
                                    .fd = top,
                                    .flags = flags,
                                    .takes_rights = takes_rights};
    int fd = -EACCES;
    if (rights->has_ours)
        fd = regular_file_open_below(top, path, flags, status);
    else if (rights->is_known || !takes_rights)
        fd = (int)process_rights_ask(&request, NULL, 0, status);
    if (fd >= 0 && !rights->has_ours && !takes_rights && !is_for_all(rights, status)) {
        close(fd);
        fd = -EACCES;
    }
    if (root < 0)
        close(top);
    return fd;
}

/* Return whether what was found lies where the machine's own files do: on a disk, or on the file
 * system of our root. */
static bool is_on_disk(int found)
{
    struct stat file, root;
    return regular_file_look_found(found, &file) == 0 && regular_file_look("/", &root) == 0 &&
           (major(file.st_dev) != 0 || file.st_dev == root.st_dev);
}

int process_rights_open_mapped(const char *link, struct stat *status)
{
    struct process_rights rights = {0};
    struct process_stat before = {0};
    int pid = 0;
    if (sscanf(link, "/proc/%d/", &pid) == 1)
        process_stat_read(pid, &before);
    /* The link may lead to another file the next time. */
    int found = open(link, O_PATH | O_CLOEXEC);
    if (found < 0)
        return -errno;
    if (pid == 0 || is_on_disk(found))
        return regular_file_open_found(found, status);
    process_rights_read(&rights, pid);
    if (rights.has_ours && rights.start_ticks == before.start_ticks)
        return regular_file_open_found(found, status);
    const struct request request = {
        .task = OPEN_MAPPED, .rights = &rights, .payer = rights.uid, .fd = found};
    int fd = (int)process_rights_ask(&request, NULL, 0, status);
    close(found);
    return fd;
}

ssize_t process_rights_read_memory(const struct process_rights *rights, pid_t pid, const char *name,
                                   char *buffer, size_t size)
{
    struct request request = {.task = READ_MEMORY, .rights = rights, .payer = rights->uid};
    ssize_t length;
    const int fd = request.fd = process_file_open(pid, name);
    if (fd < 0)
        return fd;
    if (!rights->is_known)
        request.payer = user_of(pid);
    if (rights->is_known && !is_same_process(pid, rights->start_ticks))
        length = -ESRCH;
    else if (rights->has_ours)
        length = read_whole(fd, buffer, size - 1);
    else
        length = process_rights_ask(&request, buffer, size - 1, NULL);
    close(fd);
    buffer[length > 0 ? length : 0] = '\0';
    return length;
}
