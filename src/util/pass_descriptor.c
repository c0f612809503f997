/* SPDX-License-Identifier: Apache-2.0 */
/* Builds the control message that carries the descriptor. */
#include "util/pass_descriptor.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

ssize_t pass_descriptor(int socket, const struct iovec *parts, size_t count, int descriptor,
                        int flags)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct msghdr message = {.msg_iov = (struct iovec *)parts, .msg_iovlen = count};
    if (descriptor >= 0) {
        message.msg_control = &control;
        message.msg_controllen = sizeof(control);
        control.header.cmsg_level = SOL_SOCKET;
        control.header.cmsg_type = SCM_RIGHTS;
        control.header.cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(&control.header), &descriptor, sizeof(int));
    }
    ssize_t sent = sendmsg(socket, &message, flags | MSG_NOSIGNAL);
    return sent < 0 ? -errno : sent;
}
