/* SPDX-License-Identifier: Apache-2.0 */
/* Opens listening sockets. */
#include "tools/view/server/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

int view_listen_on_port(uint16_t port, uint16_t *chosen, struct error *error)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int one = 1;
    if (fd >= 0)
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, length) < 0 || listen(fd, 32) < 0 ||
        getsockname(fd, (struct sockaddr *)&address, &length) < 0) {
        int code = -errno;
        if (fd >= 0)
            close(fd);
        return error_set(error, code, "cannot listen on 127.0.0.1, port %u: %s", port,
                         strerror(-code));
    }
    *chosen = ntohs(address.sin_port);
    return fd;
}

int view_listen_on_path(const char *path, struct error *error)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof(address.sun_path))
        return error_set(error, -ENAMETOOLONG, "'%s': the path of a socket has at most %zu bytes",
                         path, sizeof(address.sun_path) - 1);
    strcpy(address.sun_path, path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    mode_t mask = umask(0177);
    int bound = fd < 0 ? -1 : bind(fd, (struct sockaddr *)&address, sizeof(address));
    umask(mask);
    if (bound < 0 || listen(fd, 32) < 0) {
        int code = -errno;
        if (fd >= 0)
            close(fd);
        return error_set(error, code, "cannot listen on the socket '%s': %s", path,
                         strerror(-code));
    }
    return fd;
}
