/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two hostile session processes send any messages to the supervisor, with or without descriptors. A
 * third session stays unchanged, root's status lists all of them, each log line stays one line, and
 * only the processes that sent messages are killed.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "recorder/service/supervisor.h"
#include "recorder/sockets/request.h"
#include "util/clock.h"
#include "wire/control_page.h"

/* Above the kernel's maximum, so that no process has them. */
#define FIRST_PID 1000000000
#define HOSTILE 2 /* hostile sessions, besides one that is not */
#define MESSAGES_MAX 64
#define MESSAGE_BYTES_MAX REQUEST_BYTES_MAX

static void fail(int line)
{
    fprintf(stderr, "check in line %d fails\n", line);
    abort();
}

#define check(good) ((good) ? (void)0 : fail(__LINE__))

static struct rendezvous rendezvous;
static struct control_page page;
static struct run_directory directory = {.lock = -1, .page = &page};
static struct supervisor supervisor;
static struct event_log log_of_sessions;
static unsigned messages, answers;
static int passed_fd;

int __wrap_kill(pid_t pid, int signal);
int __real_kill(pid_t pid, int signal);
pid_t __wrap_waitpid(pid_t pid, int *status, int options);
pid_t __real_waitpid(pid_t pid, int *status, int options);

int __wrap_kill(pid_t pid, int signal)
{
    if (pid < FIRST_PID)
        return __real_kill(pid, signal);
    check(pid < FIRST_PID + HOSTILE && signal == SIGKILL);
    return 0;
}

pid_t __wrap_waitpid(pid_t pid, int *status, int options)
{
    if (pid < FIRST_PID)
        return __real_waitpid(pid, status, options);
    *status = SIGKILL;
    return pid;
}

/* --- the supervisor's owner --- */

static void on_answer(void *context, struct supervised *session, uint32_t ticket, int verdict)
{
    (void)context, (void)ticket, (void)verdict;
    check(session->pid < FIRST_PID + HOSTILE);
    answers++;
}

static void on_dump(void *context, struct supervised *session, uint32_t ticket)
{
    on_answer(context, session, ticket, 0);
}

static void on_session(void *context, struct supervised *session)
{
    (void)context;
    check(session->pid >= FIRST_PID);
}

static void on_line(const char *line)
{
    for (; *line != 0; line++)
        check((unsigned char)*line >= ' ' && *line != 0x7f);
}

static const struct supervisor_user user = {
    .answered = on_answer,
    .dumped = on_dump,
    .leaving = on_session,
    .ended = on_session,
};

/* --- sessions --- */

/* Add a session and return its process's end of the socket. */
static int add_session(int number)
{
    int ends[2], client[2];
    struct supervised *session = calloc(1, sizeof(*session));
    if (session == NULL || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0 ||
        socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, client) < 0)
        abort();
    close(client[1]);
    session->id = (uint64_t)number + 1;
    session->owner = (struct access_requester){.uid = 1000 + (uid_t)number};
    session->requester = session->pid = FIRST_PID + number;
    session->pidfd = eventfd(0, EFD_CLOEXEC);
    session->socket = ends[0];
    session->client = client[0];
    session->start_ms = session->last_message_ms = clock_read_ms(CLOCK_MONOTONIC);
    session->end_ms = UINT64_MAX;
    supervisor.sessions[supervisor.count++] = session;
    return ends[1];
}

static void send_message(int fd, const void *bytes, size_t length, bool with_descriptor)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct iovec vector = {(void *)bytes, length};
    struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1};
    if (with_descriptor) {
        message.msg_control = &control;
        message.msg_controllen = sizeof(control);
        control.header.cmsg_level = SOL_SOCKET;
        control.header.cmsg_type = SCM_RIGHTS;
        control.header.cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(&control.header), &passed_fd, sizeof(int));
    }
    if (sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0)
        messages++;
}

/* The input: a byte for the type, the sender, and whether there is a descriptor; one for the number
 * of repetitions of the rest; two for the length of the rest. */
static void say(const int ends[HOSTILE], const uint8_t *data, size_t size)
{
    static uint8_t bytes[MESSAGE_BYTES_MAX];
    for (int i = 0; i < MESSAGES_MAX && size >= 4; i++) {
        uint32_t type = data[0] & 15;
        unsigned who = data[0] >> 4 & 1;
        bool with_descriptor = data[0] >> 5 == 7;
        size_t times = 1 + data[1], length = data[2] | (size_t)data[3] << 8, used = sizeof(type);
        data += 4, size -= 4;
        if (length > size)
            length = size;
        memcpy(bytes, &type, sizeof(type));
        for (size_t j = 0; j < times && used + length <= sizeof(bytes); j++, used += length)
            memcpy(bytes + used, data, length);
        data += length, size -= length;
        send_message(ends[who], bytes, used, with_descriptor);
        if (supervisor.sessions[who]->socket >= 0)
            supervisor_serve(&supervisor, supervisor.sessions[who]->socket);
    }
}

static void check_status(void)
{
    static uint8_t bytes[REQUEST_BYTES_MAX];
    const struct access_requester root = {.uid = 0, .may_all = true};
    const struct access_requester other = {.uid = 1000 + HOSTILE};
    const struct control_status_profiler self = {
        .socket_path = "/run/socket", .start_ms = 1, .has_exec_events = true};
    for (int i = 0; i < 2; i++) {
        int ends[2];
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
            abort();
        supervisor_send_status(&supervisor, ends[0], i == 0 ? &root : &other, &self);
        ssize_t got = recv(ends[1], bytes, sizeof(bytes), MSG_DONTWAIT);
        check(got > (ssize_t)sizeof(struct request_header));
        Heapprofd__ControlReply *reply =
            heapprofd__control_reply__unpack(NULL, (size_t)got - sizeof(struct request_header),
                                             bytes + sizeof(struct request_header));
        check(reply != NULL && reply->error == NULL && reply->status != NULL);
        check(reply->status->n_sessions == (i == 0 ? HOSTILE + 1 : 1));
        const Heapprofd__ControlSession *last =
            reply->status->sessions[reply->status->n_sessions - 1];
        check(last->uid == 1000 + HOSTILE && last->n_processes == 0);
        heapprofd__control_reply__free_unpacked(reply, NULL);
        close(ends[0]);
        close(ends[1]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (supervisor.user == NULL) {
        rendezvous.epoll = epoll_create1(EPOLL_CLOEXEC);
        passed_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    }
    messages = answers = 0;
    log_of_sessions = (struct event_log){.write = on_line};
    supervisor = (struct supervisor){.user = &user,
                                     .log = &log_of_sessions,
                                     .epoll = rendezvous.epoll,
                                     .rendezvous = &rendezvous,
                                     .directory = &directory};
    int ends[HOSTILE] = {add_session(0), add_session(1)}, beside = add_session(HOSTILE);
    struct supervised before = *supervisor.sessions[HOSTILE];
    say(ends, data, size);
    supervisor_do_due(&supervisor, clock_read_ms(CLOCK_MONOTONIC));
    check(answers <= messages);
    check(memcmp(&before, supervisor.sessions[HOSTILE], sizeof(before)) == 0);
    check_status();
    close(ends[0]);
    close(ends[1]);
    close(beside);
    while (supervisor.count > 0)
        supervisor_serve(&supervisor, supervisor.sessions[0]->pidfd);
    peer_sockets_clear(&rendezvous.ending);
    return 0;
}
