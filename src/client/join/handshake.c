/* SPDX-License-Identifier: Apache-2.0 */
/* Connect, say hello, and check the reply and its descriptor. */
#include "client/join/handshake.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include "client/client.h"
#include "client/environment.h"
#include "client/libc/libc.h"
#include "client/real_allocator.h"
#include "client/system.h"
#include "wire/ring.h"

#define SOCKET_PATH_MAX sizeof(((struct sockaddr_un *)0)->sun_path)

static char socket_of_command[SOCKET_PATH_MAX];

void handshake_init(void)
{
    const char *path = environment_get(HANDSHAKE_SOCKET_ENV);
    if (path != NULL && strlen(path) < SOCKET_PATH_MAX)
        strcpy(socket_of_command, path);
}

const char *handshake_socket_of_command(void)
{
    return socket_of_command;
}

/* Return a connected socket, or a negative errno. */
static int connect_to_daemon(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (path[0] == '\0' || strlen(path) >= SOCKET_PATH_MAX)
        return -ENOENT;
    strcpy(address.sun_path, path);
    int fd = (int)system_call(CALL_MAKE_SOCKET);
    if (fd < 0)
        return fd;
    struct timeval limit = {.tv_sec = HANDSHAKE_TIMEOUT_MS / 1000,
                            .tv_usec = HANDSHAKE_TIMEOUT_MS % 1000 * 1000};
    system_call(CALL_LIMIT_SENDING, fd, &limit, sizeof(limit));
    system_call(CALL_LIMIT_RECEIVING, fd, &limit, sizeof(limit));
    long result = system_call(CALL_CONNECT, fd, &address, sizeof(address));
    if (result < 0) {
        system_call(CALL_CLOSE, fd);
        return (int)result;
    }
    return fd;
}

/* Receive the reply and the ring's descriptor (-1: none came). */
static int receive_reply(int socket, struct handshake_reply *reply, int *ring_fd)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct iovec vector = {.iov_base = reply, .iov_len = sizeof(*reply)};
    struct msghdr message = {.msg_iov = &vector,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             /* CMSG_SPACE has room for two descriptors: alignment. */
                             .msg_controllen = CMSG_LEN(sizeof(int))};
    long got;
    do {
        got = system_call(CALL_RECEIVE_REPLY, socket, &message);
    } while (got == -EINTR);
    if (message.msg_controllen >= CMSG_LEN(sizeof(int)) &&
        control.header.cmsg_level == SOL_SOCKET && control.header.cmsg_type == SCM_RIGHTS)
        memcpy(ring_fd, CMSG_DATA(&control.header), sizeof(int));
    if (got < 0)
        return (int)got;
    if (got != sizeof(*reply) || (message.msg_flags & MSG_CTRUNC) != 0 ||
        reply->magic != HANDSHAKE_MAGIC || reply->version != HANDSHAKE_VERSION)
        return -EPROTO;
    return 0;
}

static void send_hello(int socket, enum handshake_origin origin)
{
    struct handshake_hello hello = {
        .magic = HANDSHAKE_MAGIC,
        .version = HANDSHAKE_VERSION,
        .origin = origin,
        .tid = (uint32_t)system_call(CALL_OWN_THREAD),
        .pid = (uint32_t)client.pid,
        .is_initialized = libc_is_initialized(),
    };
    const char *allocator = real_allocator_name();
    size_t length = strlen(allocator);
    memcpy(hello.allocator, allocator,
           length < sizeof(hello.allocator) ? length : sizeof(hello.allocator) - 1);
    system_call(CALL_SAY_HELLO, socket, &hello, sizeof(hello));
}

static bool reply_is_sound(const struct handshake_reply *reply)
{
    return reply->verdict == HANDSHAKE_ACCEPTED && reply->data_bytes >= RING_DATA_BYTES_MIN &&
           reply->data_bytes <= RING_DATA_BYTES_MAX &&
           (reply->data_bytes & (reply->data_bytes - 1)) == 0;
}

int handshake_ask(const char *socket_path, enum handshake_origin origin,
                  struct handshake_reply *reply, int *ring_fd, int32_t *daemon_pid)
{
    *ring_fd = -1;
    *daemon_pid = 0;
    memset(reply, 0, sizeof(*reply));
    int socket = connect_to_daemon(socket_path);
    if (socket < 0)
        return socket;

    struct ucred daemon = {0};
    socklen_t length = sizeof(daemon);
    send_hello(socket, origin);
    int result = receive_reply(socket, reply, ring_fd);
    if (result == 0 && (!reply_is_sound(reply) || *ring_fd < 0))
        result = -EPERM;
    if (result == 0 && system_call(CALL_PEER, socket, &daemon, &length) == 0)
        *daemon_pid = daemon.pid;
    if (result < 0 && *ring_fd >= 0)
        system_call(CALL_CLOSE, *ring_fd);
    system_call(CALL_CLOSE, socket);
    return result;
}
