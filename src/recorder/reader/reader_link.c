/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Run the reader and exchange messages with it. The socket does not block: every wait has a
 * deadline, and a stopped reader (SIGSTOP) counts as dead.
 */
#include "recorder/reader/reader_link.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "recorder/reader/reader_process.h"
#include "util/clock.h"
#include "util/heartbeat.h"
#include "util/kernel_calls.h"

/* Failed readers in the lifetime of this process, after which no other is started. */
#define FAILURES_MAX 4u

/* Readers that somebody killed while they were idle, or that had no processor. They do not count as
 * failures of a file. */
#define IDLE_ENDS_MAX 64u

/* If no reader can be started (the machine lacks processes), wait this long before the next
 * attempt, and twice as long after each failure. */
#define START_FAILURES_MAX 8u
#define START_AGAIN_MS 100

/* A reader that misses a deadline below this one, and had the processor for less than a quarter of
 * the time, may have been waiting for it on a loaded machine. That is no failure of its file. */
#define FAIR_DEADLINE_MS 2000u

/* Interval of checks whether the reader was stopped. */
#define CHECK_MS 50

/* Wait after SIGKILL. A reader that waits for a disk or a network file system ends later. */
#define REAP_MS 200
#define OWN_END_MS 20

#define WHY_BYTES 160

static struct {
    pid_t owner;     /* a forked child of ours has no reader */
    pid_t pid;       /* 0: none */
    pid_t dismissed; /* one that was killed and not waited for; 0: none */
    int socket;
    bool has_started;
    uint32_t last_number;
    unsigned failures, idle_ends;
    uint64_t cpu_us; /* of earlier readers */
    struct lost_file {
        char *path;
        uint8_t build_id[READER_BUILD_ID_MAX];
        size_t build_id_length;
        char why[WHY_BYTES];
    } lost[FAILURES_MAX];
    unsigned start_failures; /* since the last successful start */
    char broken[WHY_BYTES];  /* why there is no reader; "": one may be started */
    uint64_t again_ms;       /* when `broken` is cleared, CLOCK_MONOTONIC; 0: never */
} link_state = {.socket = -1};

/* A request that was begun. Its reply, without bytes, was not received yet. */
static struct {
    bool is_due;
    struct reader_file file;
    char *path;
    uint8_t build_id[READER_BUILD_ID_MAX];
    uint64_t deadline_ms;
} begun;

struct wait {
    uint64_t deadline_ms;
    const char *why; /* reason of a failure */
    bool is_late;    /* the deadline has passed */
};

static void reader_link_fail(const struct reader_file *file, const char *why);

/* --- start and end --- */

/* Forget the reader of the process that we were forked from. Its descriptor number may have been
 * closed since and belong to another file. */
static void forget_parents_reader(void)
{
    if (link_state.pid == 0 || link_state.owner == getpid())
        return;
    link_state.socket = -1;
    link_state.pid = link_state.dismissed = 0;
    begun.is_due = false;
}

static uint64_t cpu_us_of(pid_t pid)
{
    struct timespec used;
    clockid_t clock;
    if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &used) < 0)
        return 0;
    return (uint64_t)used.tv_sec * 1000000 + (uint64_t)used.tv_nsec / 1000;
}

uint64_t file_reader_cpu_us(void)
{
    forget_parents_reader();
    return link_state.cpu_us + (link_state.pid != 0 ? cpu_us_of(link_state.pid) : 0);
}

pid_t file_reader_pid(void)
{
    forget_parents_reader();
    return link_state.pid;
}

static bool await_end(int pidfd, int ms)
{
    struct pollfd ended = {.fd = pidfd, .events = POLLIN};
    return pidfd >= 0 && poll(&ended, 1, ms) > 0;
}

static void hang_up(void)
{
    link_state.cpu_us += cpu_us_of(link_state.pid);
    close(link_state.socket);
    link_state.socket = -1;
    begun.is_due = false;
}

/* Kill the reader. Return `why`. If that is NULL, return how the reader ended by itself, as text
 * for messages. */
static const char *end_reader(const char *why)
{
    static char text[64];
    int status = 0;
    pid_t ended = 0;
    if (link_state.pid == 0)
        return why;
    hang_up();
    int pidfd = kernel_pidfd_open(link_state.pid, 0);
    /* A reader that is dying gets time to end, so that we learn its own signal. */
    if (why != NULL || !await_end(pidfd, OWN_END_MS)) {
        kill(link_state.pid, SIGKILL);
        await_end(pidfd, REAP_MS);
    }
    ended = waitpid(link_state.pid, &status, WNOHANG);
    if (pidfd >= 0)
        close(pidfd);
    link_state.pid = 0;
    if (why != NULL)
        return why;
    if (ended > 0 && WIFSIGNALED(status)) {
        snprintf(text, sizeof(text), "was killed by signal %d", WTERMSIG(status));
        return text;
    }
    return "ended";
}

/* Count a reader that ended, or was ended, through no fault of a file. */
static void count_idle_end(void)
{
    if (++link_state.idle_ends == IDLE_ENDS_MAX)
        snprintf(link_state.broken, sizeof(link_state.broken),
                 "the process that reads files was killed, stopped or not run %u times, and is not "
                 "started again",
                 IDLE_ENDS_MAX);
}

/* Clear a reader that was killed or stopped since the last request. */
static void clear_ended(void)
{
    siginfo_t info = {0};
    if (link_state.pid == 0 ||
        (waitid(P_PID, (id_t)link_state.pid, &info, WEXITED | WSTOPPED | WNOHANG | WNOWAIT) == 0 &&
         info.si_pid == 0))
        return;
    if (begun.is_due) {
        reader_link_fail(&begun.file, NULL);
        return;
    }
    end_reader("was ended");
    count_idle_end();
}

/* Record that there is no reader for a while, because of errno. */
static void note_failed_start(const char *what)
{
    snprintf(link_state.broken, sizeof(link_state.broken), "the process that reads files %s: %s",
             what, strerror(errno));
    if (++link_state.start_failures < START_FAILURES_MAX)
        link_state.again_ms = clock_read_ms(CLOCK_MONOTONIC) +
                              ((uint64_t)START_AGAIN_MS << (link_state.start_failures - 1));
}

static void forget_failed_start(void)
{
    if (link_state.again_ms == 0 || clock_read_ms(CLOCK_MONOTONIC) < link_state.again_ms)
        return;
    link_state.broken[0] = 0;
    link_state.again_ms = 0;
}

void file_reader_start(void)
{
    int ends[2];
    forget_parents_reader();
    forget_failed_start();
    clear_ended();
    if (link_state.pid != 0 || link_state.broken[0] != 0)
        return;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0) {
        note_failed_start("cannot be reached");
        return;
    }
    /* The reader blocks all signals: those of our terminal and service are not for it, and our
     * handlers must not run in it. Signals of faults end it nevertheless. */
    sigset_t all, before;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before);
    pid_t profiler = getpid(), pid = fork();
    if (pid == 0)
        reader_process_run(ends[1], profiler);
    sigprocmask(SIG_SETMASK, &before, NULL);
    close(ends[1]);
    if (pid < 0) {
        note_failed_start("cannot be started");
        close(ends[0]);
        return;
    }
    link_state.owner = profiler;
    link_state.pid = pid;
    link_state.socket = ends[0];
    link_state.has_started = false;
    link_state.start_failures = 0;
}

void file_reader_dismiss(void)
{
    forget_parents_reader();
    if (link_state.pid == 0)
        return;
    hang_up();
    kill(link_state.pid, SIGKILL);
    link_state.dismissed = link_state.pid;
    link_state.pid = 0;
}

void file_reader_close(void)
{
    forget_parents_reader();
    end_reader("was closed");
    if (link_state.dismissed == 0)
        return;
    int pidfd = kernel_pidfd_open(link_state.dismissed, 0);
    await_end(pidfd, REAP_MS);
    waitpid(link_state.dismissed, NULL, WNOHANG);
    link_state.dismissed = 0;
    if (pidfd >= 0)
        close(pidfd);
}

uint32_t file_reader_number(void)
{
    return ++link_state.last_number;
}

/* --- failures --- */

static struct lost_file *find_lost(const char *path, const uint8_t *build_id, size_t length)
{
    for (unsigned i = 0; i < link_state.failures; i++) {
        struct lost_file *lost = &link_state.lost[i];
        if (lost->path != NULL && strcmp(lost->path, path) == 0 &&
            lost->build_id_length == length &&
            (length == 0 || memcmp(lost->build_id, build_id, length) == 0))
            return lost;
    }
    return NULL;
}

/* Record a failure at this file. If `why` is NULL, use the way in which the reader ended. */
static void reader_link_fail(const struct reader_file *file, const char *why)
{
    why = end_reader(why);
    struct lost_file *lost = &link_state.lost[link_state.failures++];
    lost->path = strdup(file->path);
    lost->build_id_length =
        file->build_id_length <= READER_BUILD_ID_MAX ? file->build_id_length : 0;
    if (lost->build_id_length > 0)
        memcpy(lost->build_id, file->build_id, lost->build_id_length);
    snprintf(lost->why, sizeof(lost->why), "the process that reads files %s", why);
    if (link_state.failures == FAILURES_MAX)
        snprintf(link_state.broken, sizeof(link_state.broken),
                 "the process that reads files failed %u times, and is not started again",
                 FAILURES_MAX);
}

const char *file_reader_failure(const char *path, const uint8_t *build_id, size_t build_id_length)
{
    forget_failed_start();
    if (link_state.broken[0] != 0)
        return link_state.broken;
    const struct lost_file *lost = find_lost(path, build_id, build_id_length);
    return lost != NULL ? lost->why : NULL;
}

void reader_link_reject_reply(const struct reader_file *file)
{
    reader_link_fail(file, "sent an invalid reply");
}

/* --- bytes --- */

static bool is_stopped(void)
{
    siginfo_t info = {0};
    return waitid(P_PID, (id_t)link_state.pid, &info, WSTOPPED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid == link_state.pid;
}

/* Wait until the socket is ready. Return false with wait->why. */
static bool await(struct wait *wait, short events)
{
    struct pollfd ready = {.fd = link_state.socket, .events = events};
    for (;;) {
        uint64_t now = clock_read_ms(CLOCK_MONOTONIC);
        int left = wait->deadline_ms > now ? (int)(wait->deadline_ms - now) : 0;
        int got = poll(&ready, 1, left < CHECK_MS ? left : CHECK_MS);
        heartbeat_send();
        if (got > 0)
            return true;
        if (got < 0 && errno != EINTR) {
            wait->why = "could not be waited for";
            return false;
        }
        if (is_stopped()) {
            wait->why = "was stopped";
            return false;
        }
        if (got == 0 && left == 0) {
            wait->why = "did not answer in time";
            wait->is_late = true;
            return false;
        }
    }
}

static bool send_bytes(struct wait *wait, const void *bytes, size_t length)
{
    const char *at = bytes;
    while (length > 0) {
        ssize_t sent = send(link_state.socket, at, length, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent > 0) {
            at += sent;
            length -= (size_t)sent;
        } else if (sent < 0 && errno == EAGAIN) {
            if (!await(wait, POLLOUT))
                return false;
        } else if (sent == 0 || errno != EINTR) {
            return false;
        }
    }
    return true;
}

static bool receive_bytes(struct wait *wait, void *bytes, size_t length)
{
    char *at = bytes;
    while (length > 0) {
        ssize_t got = recv(link_state.socket, at, length, MSG_DONTWAIT);
        if (got > 0) {
            at += got;
            length -= (size_t)got;
        } else if (got < 0 && errno == EAGAIN) {
            if (!await(wait, POLLIN))
                return false;
        } else if (got == 0 || errno != EINTR) {
            return false;
        }
    }
    return true;
}

/* Send the head. It is shorter than any socket's buffer, so it is sent as a whole. */
static bool send_head(struct wait *wait, const struct reader_request *request, const int *fds)
{
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(READER_DESCRIPTORS_MAX * sizeof(int))];
    } control = {0};
    struct iovec part = {.iov_base = (void *)request, .iov_len = sizeof(*request)};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (request->descriptors > 0) {
        message.msg_control = &control;
        message.msg_controllen = CMSG_SPACE(request->descriptors * sizeof(int));
        control.header.cmsg_level = SOL_SOCKET;
        control.header.cmsg_type = SCM_RIGHTS;
        control.header.cmsg_len = CMSG_LEN(request->descriptors * sizeof(int));
        memcpy(CMSG_DATA(&control.header), fds, request->descriptors * sizeof(int));
    }
    for (;;) {
        ssize_t sent = sendmsg(link_state.socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent == (ssize_t)sizeof(*request))
            return true;
        if (sent >= 0 || (errno != EAGAIN && errno != EINTR))
            return false;
        if (errno == EAGAIN && !await(wait, POLLOUT))
            return false;
    }
}

/* --- one request --- */

/* Receive the reader's report whether it gave up its rights. */
static bool receive_start_report(struct wait *wait)
{
    static const char *const steps[] = {
        [READER_STEP_MEMORY] = "give up its memory and descriptors",
        [READER_STEP_RIGHTS] = "give up its rights",
        [READER_STEP_SYSTEM_CALLS] = "restrict its system calls (seccomp)",
    };
    struct reader_reply reply;
    int step;
    if (link_state.has_started)
        return true;
    if (!receive_bytes(wait, &reply, sizeof(reply)) || reply.bytes != sizeof(step) ||
        !receive_bytes(wait, &step, sizeof(step)))
        return false;
    link_state.has_started = reply.code == 0;
    if (link_state.has_started)
        return true;
    bool is_known = step > 0 && step < (int)(sizeof(steps) / sizeof(steps[0]));
    snprintf(link_state.broken, sizeof(link_state.broken),
             "the process that reads files cannot %s: %s", is_known ? steps[step] : "start",
             strerror(reply.code < 0 && reply.code > -4096 ? -reply.code : EIO));
    wait->why = "could not start";
    return false;
}

static bool exchange(const struct reader_file *file, const struct reader_request *request,
                     const void *bytes, struct wait *wait, struct reader_reply *answer,
                     void **reply)
{
    const int fds[READER_DESCRIPTORS_MAX] = {file->fd, file->debug_fd};
    *reply = NULL;
    if (!receive_start_report(wait) || !send_head(wait, request, fds) ||
        !send_bytes(wait, bytes, request->bytes) || !receive_bytes(wait, answer, sizeof(*answer)))
        return false;
    if (answer->bytes == 0)
        return true;
    if (answer->bytes > READER_REPLY_BYTES_MAX || answer->code < 0) {
        wait->why = "sent an invalid reply";
        return false;
    }
    *reply = malloc(answer->bytes);
    if (*reply == NULL) {
        wait->why = "sent a reply for which there is no memory";
        return false;
    }
    return receive_bytes(wait, *reply, answer->bytes);
}

/* Receive the reply to the request that was begun, if there is one. Return false if there is no
 * time left for another request. */
static bool settle(uint64_t deadline_ms)
{
    struct reader_reply answer;
    struct wait wait = {.deadline_ms = clock_earlier(deadline_ms, begun.deadline_ms)};
    if (!begun.is_due)
        return true;
    bool is_there = receive_bytes(&wait, &answer, sizeof(answer));
    if (!is_there && wait.is_late && deadline_ms < begun.deadline_ms)
        return false;
    begun.is_due = false;
    if (!is_there)
        reader_link_fail(&begun.file, wait.why);
    else if (answer.bytes != 0)
        reader_link_fail(&begun.file, "sent an invalid reply");
    return true;
}

static void identify_file(const struct reader_file *file, struct reader_request *request)
{
    request->descriptors = file->fd < 0 ? 0 : file->debug_fd < 0 ? 1 : 2;
    if (file->build_id_length > 0 && file->build_id_length <= READER_BUILD_ID_MAX) {
        request->build_id_length = (uint32_t)file->build_id_length;
        memcpy(request->build_id, file->build_id, file->build_id_length);
    }
}

int reader_link_request(const struct reader_file *file, const struct reader_request *request,
                        const void *bytes, unsigned deadline_ms, void **reply, size_t *length)
{
    struct reader_request sent = *request;
    struct reader_reply answer = {0};
    struct wait wait = {.deadline_ms = clock_read_ms(CLOCK_MONOTONIC) + deadline_ms};
    *reply = NULL;
    *length = 0;
    forget_parents_reader();
    if (!settle(wait.deadline_ms))
        return -EIO;
    if (file_reader_failure(file->path, file->build_id, file->build_id_length) != NULL)
        return -EIO;
    file_reader_start();
    if (link_state.pid == 0)
        return -EIO;
    uint64_t began_us = file_reader_cpu_us();
    identify_file(file, &sent);
    if (exchange(file, &sent, bytes, &wait, &answer, reply)) {
        *length = answer.bytes;
        return answer.code;
    }
    free(*reply);
    *reply = NULL;
    bool was_not_run = wait.is_late && deadline_ms < FAIR_DEADLINE_MS &&
                       file_reader_cpu_us() - began_us < deadline_ms * 1000 / 4;
    if (was_not_run) {
        end_reader(wait.why);
        count_idle_end();
    } else {
        reader_link_fail(file, wait.why);
    }
    return -EIO;
}

void reader_link_send(const struct reader_request *request)
{
    struct wait wait = {.deadline_ms = clock_read_ms(CLOCK_MONOTONIC)};
    forget_parents_reader();
    /* Without the greeting the reader has no file yet that it could close. */
    if (link_state.pid == 0 || !link_state.has_started)
        return;
    if (!send_head(&wait, request, NULL))
        end_reader("cannot be reached");
}

bool reader_link_is_idle(void)
{
    struct pollfd answered = {.fd = link_state.socket, .events = POLLIN};
    forget_parents_reader();
    if (link_state.pid == 0 || !link_state.has_started)
        return false;
    if (begun.is_due && poll(&answered, 1, 0) <= 0)
        return false;
    return settle(UINT64_MAX) && link_state.pid != 0;
}

void reader_link_begin(const struct reader_file *file, const struct reader_request *request,
                       unsigned deadline_ms)
{
    struct reader_request sent = *request;
    uint64_t now_ms = clock_read_ms(CLOCK_MONOTONIC);
    struct wait wait = {.deadline_ms = now_ms};
    const int fds[READER_DESCRIPTORS_MAX] = {file->fd, file->debug_fd};
    char *path = strdup(file->path);
    if (path == NULL || !reader_link_is_idle() ||
        file_reader_failure(file->path, file->build_id, file->build_id_length) != NULL) {
        free(path);
        return;
    }
    identify_file(file, &sent);
    free(begun.path);
    begun.path = path;
    memcpy(begun.build_id, sent.build_id, sizeof(begun.build_id));
    begun.file = (struct reader_file){.path = path,
                                      .fd = -1,
                                      .debug_fd = -1,
                                      .build_id = begun.build_id,
                                      .build_id_length = sent.build_id_length};
    begun.deadline_ms = now_ms + deadline_ms;
    begun.is_due = send_head(&wait, &sent, fds);
    if (!begun.is_due)
        end_reader("cannot be reached");
}
