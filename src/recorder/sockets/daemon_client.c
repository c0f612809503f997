/* SPDX-License-Identifier: Apache-2.0 */
/* Connects to a daemon, checks that it is trusted, and exchanges messages with it. */
#include "recorder/sockets/daemon_client.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "recorder/sockets/request.h"
#include "recorder/sockets/run_directory.h"
#include "util/pass_descriptor.h"

int daemon_connect_to(const char *path, int flags, unsigned patience_s, struct error *error)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct timeval patience = {.tv_sec = patience_s};
    if (strlen(path) >= sizeof(address.sun_path))
        return error_set(error, -ENAMETOOLONG, "the name of the socket %s is too long", path);
    memcpy(address.sun_path, path, strlen(path));
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | flags, 0);
    if (fd < 0)
        return error_set(error, -errno, "cannot make a socket: %s", strerror(errno));
    if (patience_s > 0) {
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
    }
    if (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
        return fd;
    int code = -errno;
    close(fd);
    return error_set(error, code, "cannot reach the profiler at %s: %s", path,
                     code == -EAGAIN ? "it accepts no connections: is it stopped?"
                                     : strerror(-code));
}

/* Check that the daemon is root's or our own: it gets our configuration and writes our trace. */
static int check_daemon(int fd, const char *directory, struct error *error)
{
    struct ucred peer;
    socklen_t length = sizeof(peer);
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) < 0)
        return error_set(error, -errno, "cannot determine which user listens in %s: %s", directory,
                         strerror(errno));
    if (peer.uid != 0 && peer.uid != geteuid())
        return error_set(error, -EPERM,
                         "the daemon in %s belongs to user %u, who could write to your profile: "
                         "use another one (" RUN_DIRECTORY_ENV ")",
                         directory, (unsigned)peer.uid);
    return 0;
}

int daemon_connect(int flags, struct error *error)
{
    char directory[RUN_DIRECTORY_PATH_MAX], path[RUN_DIRECTORY_PATH_MAX + 16];
    for (unsigned n = 0; n < 2; n++) {
        if (!run_directory_candidate(n, directory))
            continue;
        snprintf(path, sizeof(path), "%s/%s", directory, RUN_DIRECTORY_SOCKET);
        int fd = daemon_connect_to(path, flags, 0, error);
        int code = fd >= 0 ? check_daemon(fd, directory, error) : 0;
        if (code < 0) {
            close(fd);
            return code;
        }
        if (fd >= 0 || (fd != -ENOENT && fd != -ECONNREFUSED && fd != -ENOTDIR))
            return fd;
    }
    return error_set(error, -ENOENT, "no heapprofd is running: start it, as `heapprofd &`");
}

int daemon_send(int fd, const Heapprofd__ControlRequest *request, int passed_fd,
                struct error *error)
{
    struct request_header header = {REQUEST_MAGIC, REQUEST_VERSION};
    size_t length = heapprofd__control_request__get_packed_size(request);
    if (length > REQUEST_BYTES_MAX - sizeof(header))
        return error_set(error, -E2BIG,
                         "the configuration is too large: %zu bytes, at most %zu are accepted",
                         length, (size_t)REQUEST_BYTES_MAX - sizeof(header));
    uint8_t *bytes = malloc(length > 0 ? length : 1);
    if (bytes == NULL)
        return error_set(error, -ENOMEM, "no memory for a request");
    heapprofd__control_request__pack(request, bytes);
    struct iovec vectors[] = {{&header, sizeof(header)}, {bytes, length}};
    int code = (int)pass_descriptor(fd, vectors, 2, passed_fd, 0);
    free(bytes);
    /* A daemon that refuses the connection does not wait for the request: its reply is there. */
    if (code == -EPIPE)
        return 0;
    if (code < 0)
        return error_set(error, code, "cannot ask the daemon: %s", strerror(-code));
    return 0;
}

Heapprofd__ControlReply *daemon_receive(int fd, struct error *error)
{
    static uint8_t bytes[REQUEST_BYTES_MAX];
    struct request_header header;
    ssize_t got;
    bool was_reset = false, again;
    do {
        got = recv(fd, bytes, sizeof(bytes), 0);
        /* This is reported once, if the daemon has not read our request, before its reply. */
        again = got < 0 && (errno == EINTR || (errno == ECONNRESET && !was_reset));
        was_reset |= got < 0 && errno == ECONNRESET;
    } while (again);
    if (got < 0 && errno == EAGAIN) {
        error_set(error, -EAGAIN, "the profiler does not answer: is it stopped?");
        return NULL;
    }
    if (got <= 0) {
        error_set(error, got < 0 ? -errno : -EPIPE, "the daemon went away%s%s", got < 0 ? ": " : "",
                  got < 0 ? strerror(errno) : "");
        return NULL;
    }
    Heapprofd__ControlReply *reply = NULL;
    if ((size_t)got >= sizeof(header) && request_is_one(bytes, (size_t)got))
        reply = heapprofd__control_reply__unpack(NULL, (size_t)got - sizeof(header),
                                                 bytes + sizeof(header));
    if (reply == NULL) {
        error_set(error, -EPROTO, "the daemon's reply cannot be read: is it of another version?");
        return NULL;
    }
    if (reply->error == NULL)
        return reply;
    error_set(error, reply->error_code < 0 ? reply->error_code : -EIO, "%s", reply->error);
    heapprofd__control_reply__free_unpacked(reply, NULL);
    return NULL;
}
