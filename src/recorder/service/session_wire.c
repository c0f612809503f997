/* SPDX-License-Identifier: Apache-2.0 */
/* Send and receive messages. On one machine the structs need no other encoding. */
#include "recorder/service/session_wire.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "util/pass_descriptor.h"

#define SEND_PATIENCE_MS 1000

int session_wire_send(int fd, const void *head, size_t head_bytes, const void *rest,
                      size_t rest_bytes, int passed_fd, bool waits)
{
    const struct iovec parts[] = {{(void *)head, head_bytes}, {(void *)rest, rest_bytes}};
    for (int attempt = 0;; attempt++) {
        ssize_t sent = pass_descriptor(fd, parts, 2, passed_fd, MSG_DONTWAIT);
        if (sent >= 0)
            return 0;
        if (sent != -EAGAIN && sent != -EINTR)
            return (int)sent;
        struct pollfd writable = {.fd = fd, .events = POLLOUT};
        if (!waits || attempt == 2 || poll(&writable, 1, SEND_PATIENCE_MS) == 0)
            return -EAGAIN;
    }
}

ssize_t session_wire_receive(int fd, void *bytes, size_t size, int *passed_fd)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct iovec vector = {bytes, size};
    struct msghdr message = {.msg_iov = &vector,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = CMSG_LEN(sizeof(int))};
    *passed_fd = -1;
    ssize_t got = recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got >= 0 && message.msg_controllen >= CMSG_LEN(sizeof(int)) &&
        control.header.cmsg_level == SOL_SOCKET && control.header.cmsg_type == SCM_RIGHTS)
        memcpy(passed_fd, CMSG_DATA(&control.header), sizeof(int));
    return got < 0 ? -errno : got;
}

int session_wire_send_number(int fd, enum session_wire_type type, uint32_t number, bool waits)
{
    struct session_wire_number message = {type, number};
    return session_wire_send(fd, &message, sizeof(message), NULL, 0, -1, waits);
}

bool session_wire_read(void *head, size_t head_bytes, const void *bytes, size_t length)
{
    if (length < head_bytes)
        return false;
    memcpy(head, bytes, head_bytes);
    return true;
}
