/* SPDX-License-Identifier: Apache-2.0 */
/* Asks the kernel by sock_diag(7), which finds one socket without a search through all. */
#include "tools/view/server/peer.h"

#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

/* The kernel answers at once; this bounds what a broken one costs. */
static const struct timeval patience = {.tv_sec = 1};

struct diag_request {
    struct nlmsghdr header;
    struct inet_diag_req_v2 of;
};

static int send_request(int fd, const struct sockaddr_in *from, const struct sockaddr_in *to)
{
    struct diag_request request = {
        .header = {.nlmsg_len = sizeof(request),
                   .nlmsg_type = SOCK_DIAG_BY_FAMILY,
                   .nlmsg_flags = NLM_F_REQUEST},
        .of = {.sdiag_family = AF_INET,
               .sdiag_protocol = IPPROTO_TCP,
               .idiag_states = ~0U,
               .id = {.idiag_sport = from->sin_port,
                      .idiag_dport = to->sin_port,
                      .idiag_src = {from->sin_addr.s_addr},
                      .idiag_dst = {to->sin_addr.s_addr},
                      .idiag_cookie = {INET_DIAG_NOCOOKIE, INET_DIAG_NOCOOKIE}}},
    };
    return send(fd, &request, sizeof(request), 0) == sizeof(request) ? 0 : -errno;
}

static int receive_user(int fd, uid_t *user)
{
    union {
        struct nlmsghdr header;
        char bytes[4096];
    } answer;
    struct inet_diag_msg socket;
    ssize_t length = recv(fd, &answer, sizeof(answer), 0);
    if (length < 0)
        return -errno;
    if (!NLMSG_OK(&answer.header, (size_t)length) ||
        answer.header.nlmsg_type != SOCK_DIAG_BY_FAMILY ||
        answer.header.nlmsg_len < NLMSG_LENGTH(sizeof(socket)))
        return -ENOENT; /* an error of the kernel: it has no such socket */
    memcpy(&socket, NLMSG_DATA(&answer.header), sizeof(socket));
    *user = socket.idiag_uid;
    return 0;
}

/* Find the user of the socket at `from` that is connected to `to`. Return 0 or a negative errno. */
static int find_user(const struct sockaddr_in *from, const struct sockaddr_in *to, uid_t *user)
{
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
    if (fd < 0)
        return -errno;
    int code =
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) < 0 ? -errno : 0;
    if (code == 0)
        code = send_request(fd, from, to);
    if (code == 0)
        code = receive_user(fd, user);
    close(fd);
    return code;
}

bool peer_may_connect(const struct sockaddr *from, socklen_t length, uint16_t port)
{
    const struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_in address;
    uid_t user;
    if (from == NULL || length < sizeof(address) || from->sa_family != AF_INET)
        return true;
    memcpy(&address, from, sizeof(address));
    return find_user(&address, &to, &user) < 0 || user == 0 || user == geteuid();
}
