/* SPDX-License-Identifier: Apache-2.0 */
/* Subscribe to the connector, filter and parse its datagrams. A datagram is a netlink header, a
 * connector header and an event, all in this machine's byte order; the event is not aligned. */
#include "recorder/processes/exec_events.h"

#include <arpa/inet.h>
#include <linux/cn_proc.h>
#include <linux/connector.h>
#include <linux/filter.h>
#include <linux/netlink.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/clock.h"

/* Values of the kernel's enums, whose scope differs between versions of its headers. */
#define EVENT_NONE 0x00000000u /* reply to a request */
#define EVENT_FORK 0x00000001u
#define EVENT_EXEC 0x00000002u
#define EVENT_COMM 0x00000200u
#define EVENT_EXIT 0x80000000u

#define HEADERS_BYTES (NLMSG_HDRLEN + sizeof(struct cn_msg))
#define DATAGRAM_BYTES_MAX 4096
#define DATAGRAMS_AT_ONCE 256

/* Enough for a reader that is busy for a moment, on a machine that starts thousands of programs a
 * second. */
#define RECEIVE_BUFFER_BYTES (4 << 20)

/* The kernel answers at once, or, in another namespace, never. */
#define ANSWER_PATIENCE_MS 50

/* How long an answer is reused. Asking costs more than the rest of a status reply, and in a
 * container the whole patience. */
#define ANSWER_HOLDS_MS 60000

/* The common header, then the events that we use. */
struct event_head {
    uint32_t what, cpu;
    uint64_t time_ns; /* CLOCK_MONOTONIC */
};

struct event_body {
    /* Thread and process; in a fork the parent's, then the child's; at an end the thread's exit
     * code follows. */
    int32_t pids[4];
};

/* --- parsing --- */

static bool exec_events_describe(uint32_t what, const struct event_body *body,
                                 struct exec_event *event)
{
    switch (what) {
    case EVENT_FORK:
        event->kind = EXEC_EVENT_FORKED;
        event->pid = body->pids[3];
        event->parent = body->pids[1];
        return body->pids[2] == body->pids[3];
    case EVENT_EXEC:
        event->kind = EXEC_EVENT_BEGAN;
        event->pid = body->pids[1];
        return true;
    case EVENT_COMM:
        event->kind = EXEC_EVENT_RENAMED;
        event->pid = body->pids[1];
        return body->pids[0] == body->pids[1];
    case EVENT_EXIT:
        event->kind = EXEC_EVENT_ENDED;
        event->pid = body->pids[1];
        event->is_leader = body->pids[0] == body->pids[1];
        event->status = body->pids[2];
        return true;
    default:
        return false;
    }
}

static void parse_event(const uint8_t *bytes, size_t length, exec_event_handler *handler,
                        void *context)
{
    struct event_head head;
    struct event_body body = {{0}};
    struct exec_event event = {0};
    if (length < sizeof(head))
        return;
    memcpy(&head, bytes, sizeof(head));
    length -= sizeof(head);
    memcpy(&body, bytes + sizeof(head), length < sizeof(body) ? length : sizeof(body));
    event.time_us = head.time_ns / 1000;
    if (exec_events_describe(head.what, &body, &event) && event.pid > 0)
        handler(context, &event);
}

void exec_events_parse(const void *bytes, size_t length, exec_event_handler *handler, void *context)
{
    const uint8_t *at = bytes;
    while (length >= HEADERS_BYTES) {
        struct nlmsghdr header;
        struct cn_msg message;
        memcpy(&header, at, sizeof(header));
        memcpy(&message, at + NLMSG_HDRLEN, sizeof(message));
        if (header.nlmsg_len < HEADERS_BYTES || header.nlmsg_len > length ||
            message.len > header.nlmsg_len - HEADERS_BYTES)
            return;
        if (message.id.idx == CN_IDX_PROC && message.id.val == CN_VAL_PROC)
            parse_event(at + HEADERS_BYTES, message.len, handler, context);
        size_t step = NLMSG_ALIGN(header.nlmsg_len);
        if (step > length)
            return;
        at += step;
        length -= step;
    }
}

/* --- the socket --- */

/* Attach a filter that drops events without use (of threads), so that they wake nobody. If it
 * cannot be attached, they do. */
void exec_events_set_filter(int fd)
{
    enum { WHAT = HEADERS_BYTES, BODY = WHAT + sizeof(struct event_head) };
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, WHAT),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, htonl(EVENT_EXEC), 15, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, htonl(EVENT_NONE), 14, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, htonl(EVENT_FORK), 0, 4),
        /* The thread is the process. */
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, BODY + 8),
        BPF_STMT(BPF_MISC | BPF_TAX, 0),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, BODY + 12),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_X, 0, 9, 8),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, htonl(EVENT_COMM), 3, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, htonl(EVENT_EXIT), 0, 6),
        /* Most threads end with 0. */
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, BODY + 8),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 5),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, BODY),
        BPF_STMT(BPF_MISC | BPF_TAX, 0),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, BODY + 4),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_X, 0, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, 0),
        BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
    };
    struct sock_fprog program = {sizeof(code) / sizeof(code[0]), code};
    setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program));
}

void exec_events_set_pids(int fd, const pid_t *pids, size_t count)
{
    enum { WHAT = HEADERS_BYTES, BODY = WHAT + sizeof(struct event_head), FIXED = 14 };
    struct sock_filter code[FIXED + EXEC_EVENTS_PIDS_MAX + 2] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, WHAT),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, htonl(EVENT_EXEC), 11, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, htonl(EVENT_FORK), 0, 4),
        /* The child is a process. */
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, BODY + 8),
        BPF_STMT(BPF_MISC | BPF_TAX, 0),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, BODY + 12),
        BPF_STMT(BPF_JMP | BPF_JA, 4),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, htonl(EVENT_EXIT), 0, 4),
        /* The thread is the process's first. */
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, BODY),
        BPF_STMT(BPF_MISC | BPF_TAX, 0),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, BODY + 4),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_X, 0, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, 0),
        /* The process: of a fork, the parent. */
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, BODY + 4),
    };
    size_t used = FIXED, some = count < EXEC_EVENTS_PIDS_MAX ? count : EXEC_EVENTS_PIDS_MAX;
    for (size_t i = 0; i < some; i++)
        code[used++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
                                                    htonl((uint32_t)pids[i]), some - i, 0);
    code[used++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, 0);
    code[used++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, UINT32_MAX);
    struct sock_fprog program = {(unsigned short)used, code};
    setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program));
}

static int exec_events_ask(int fd, uint32_t operation)
{
    uint8_t request[HEADERS_BYTES + sizeof(operation)] = {0};
    struct nlmsghdr header = {.nlmsg_len = sizeof(request), .nlmsg_type = NLMSG_DONE};
    struct cn_msg message = {.id = {CN_IDX_PROC, CN_VAL_PROC}, .len = sizeof(operation)};
    memcpy(request, &header, sizeof(header));
    memcpy(request + NLMSG_HDRLEN, &message, sizeof(message));
    memcpy(request + HEADERS_BYTES, &operation, sizeof(operation));
    return send(fd, request, sizeof(request), 0) < 0 ? -errno : 0;
}

/* Receive one datagram from the kernel. Return 0 if there is none. */
static ssize_t receive(int fd, void *bytes, size_t size)
{
    for (;;) {
        struct sockaddr_nl sender = {0};
        socklen_t sender_bytes = sizeof(sender);
        ssize_t got =
            recvfrom(fd, bytes, size, MSG_DONTWAIT, (struct sockaddr *)&sender, &sender_bytes);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return errno == EAGAIN ? 0 : -errno;
        if (got > 0 && sender_bytes == sizeof(sender) && sender.nl_pid == 0)
            return got;
    }
}

/* Wait for the kernel's reply to the request. Other datagrams are older than our subscription. */
static int await_answer(int fd)
{
    uint8_t bytes[DATAGRAM_BYTES_MAX];
    uint64_t end_ms = clock_read_ms(CLOCK_MONOTONIC) + ANSWER_PATIENCE_MS;
    for (;;) {
        ssize_t got = receive(fd, bytes, sizeof(bytes));
        uint32_t what, code;
        if (got < 0 && got != -ENOBUFS)
            return (int)got;
        if (got >= (ssize_t)(HEADERS_BYTES + sizeof(struct event_head) + sizeof(code))) {
            memcpy(&what, bytes + HEADERS_BYTES, sizeof(what));
            memcpy(&code, bytes + HEADERS_BYTES + sizeof(struct event_head), sizeof(code));
            if (what == EVENT_NONE)
                return code > 0 && code < 4096 ? -(int)code : 0;
        }
        uint64_t now_ms = clock_read_ms(CLOCK_MONOTONIC);
        struct pollfd readable = {.fd = fd, .events = POLLIN};
        if (now_ms >= end_ms)
            return -ETIMEDOUT;
        poll(&readable, 1, (int)(end_ms - now_ms));
    }
}

/* Return whether we are in the initial namespaces. Elsewhere the kernel does not reply, and waiting
 * for it takes time. The inode numbers are part of the kernel's interface (PROC_PID_INIT_INO,
 * PROC_USER_INIT_INO). */
static bool is_in_initial_namespaces(void)
{
    static const struct {
        const char *path;
        ino_t inode;
    } initial[] = {{"/proc/self/ns/pid", 0xeffffffc}, {"/proc/self/ns/user", 0xeffffffd}};
    struct stat status;
    for (size_t i = 0; i < sizeof(initial) / sizeof(initial[0]); i++) {
        if (stat(initial[i].path, &status) == 0 && status.st_ino != initial[i].inode)
            return false;
    }
    return true;
}

int exec_events_subscribe(struct error *error)
{
    if (!is_in_initial_namespaces())
        return error_set(error, -ECONNREFUSED, "this is a container");
    int fd = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_CONNECTOR);
    if (fd < 0)
        return error_set(error, -errno, "the kernel has no connector (CONFIG_CONNECTOR): %s",
                         strerror(errno));
    struct sockaddr_nl address = {.nl_family = AF_NETLINK, .nl_groups = CN_IDX_PROC};
    int bytes = RECEIVE_BUFFER_BYTES;
    if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes)) < 0)
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
    int code = 0;
    if (bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
        code = -errno;
    if (code == 0)
        code = exec_events_ask(fd, PROC_CN_MCAST_LISTEN);
    if (code == 0)
        code = await_answer(fd);
    if (code == 0)
        return fd;
    close(fd);
    if (code == -EPERM || code == -EACCES)
        return error_set(error, code, "the kernel reports them only to root (CAP_NET_ADMIN)");
    if (code == -ETIMEDOUT || code == -ECONNREFUSED)
        return error_set(error, code,
                         "this is a container, or the kernel has no CONFIG_PROC_EVENTS");
    return error_set(error, code, "the kernel's process events: %s", strerror(-code));
}

int exec_events_open(struct error *error)
{
    int fd = exec_events_subscribe(error);
    if (fd >= 0)
        exec_events_set_filter(fd);
    return fd;
}

bool exec_events_are_there(struct error *why_not)
{
    static uint64_t asked_ms;
    static struct error answer;
    uint64_t now_ms = clock_read_ms(CLOCK_MONOTONIC);
    if (asked_ms == 0 || now_ms > asked_ms + ANSWER_HOLDS_MS) {
        answer = (struct error){0};
        exec_events_close(exec_events_open(&answer));
        asked_ms = now_ms;
    }
    *why_not = answer;
    return answer.code == 0;
}

void exec_events_close(int fd)
{
    if (fd < 0)
        return;
    /* Older kernels count listeners by these requests. */
    exec_events_ask(fd, PROC_CN_MCAST_IGNORE);
    close(fd);
}

void exec_events_drop(int fd)
{
    uint8_t bytes[DATAGRAM_BYTES_MAX];
    for (int i = 0; i < DATAGRAMS_AT_ONCE && receive(fd, bytes, sizeof(bytes)) > 0; i++)
        ;
}

bool exec_events_pending(int fd)
{
    struct pollfd readable = {.fd = fd, .events = POLLIN};
    return poll(&readable, 1, 0) == 1;
}

int exec_events_read(int fd, exec_event_handler *handler, void *context)
{
    uint8_t bytes[DATAGRAM_BYTES_MAX];
    bool lost = false;
    for (int i = 0; i < DATAGRAMS_AT_ONCE; i++) {
        ssize_t got = receive(fd, bytes, sizeof(bytes));
        lost |= got < 0;
        if (got == 0 || (got < 0 && got != -ENOBUFS))
            break;
        if (got > 0)
            exec_events_parse(bytes, (size_t)got, handler, context);
    }
    return lost ? -ENOBUFS : 0;
}
