/* SPDX-License-Identifier: Apache-2.0 */
/* Opens the listening socket. */
#include "production/metrics/listen.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define BACKLOG 16
#define UNIX_PREFIX "unix:"

/* Close a socket after an error. */
static int give_up(int fd, const char *where, struct error *error)
{
    int code = -errno;
    if (fd >= 0)
        close(fd);
    return error_set(error, code, "cannot serve metrics at %s: %s", where, strerror(-code));
}

/* --- unix sockets --- */

/* Remove a socket that nobody serves. Anything else at its place stays. */
static int remove_old(const char *path, const struct sockaddr_un *address, struct error *error)
{
    struct stat status;
    if (lstat(path, &status) < 0)
        return 0;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool is_served = !S_ISSOCK(status.st_mode) || fd < 0 ||
                     connect(fd, (const struct sockaddr *)address, sizeof(*address)) == 0 ||
                     errno != ECONNREFUSED;
    if (fd >= 0)
        close(fd);
    if (is_served || unlink(path) < 0)
        return error_set(error, -EADDRINUSE,
                         "cannot serve metrics at %s: the path is in use; remove it, or choose "
                         "another one",
                         path);
    return 0;
}

static int take_mode(struct settings_section *section, mode_t *mode, struct error *error)
{
    const char *text = setting_text(section, "socket_mode", "0600");
    char *end;
    unsigned long value = strtoul(text, &end, 8);
    if (end == text || *end != '\0' || value > 0777)
        return setting_refuse(section, "socket_mode", error, "permissions are octal, such as 0660");
    *mode = (mode_t)value;
    return 0;
}

/* The place of the metrics, as a section says it. */
union address {
    struct sockaddr any;
    struct sockaddr_un path;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};
struct place {
    union address address;
    socklen_t length;
    mode_t mode; /* of a unix socket */
};

static int take_path(struct settings_section *section, const char *path, struct place *place,
                     struct error *error)
{
    struct sockaddr_un *address = &place->address.path;
    if (path[0] != '/' || strlen(path) >= sizeof(address->sun_path))
        return setting_refuse(section, "listen", error,
                              "the path of a unix socket is absolute and has at most 107 bytes");
    address->sun_family = AF_UNIX;
    strcpy(address->sun_path, path);
    place->length = sizeof(*address);
    return take_mode(section, &place->mode, error);
}

static int listen_on_path(const struct place *place, struct error *error)
{
    const struct sockaddr_un *address = &place->address.path;
    int code = remove_old(address->sun_path, address, error);
    if (code < 0)
        return code;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    mode_t mask = umask(0777 & ~place->mode);
    int bound = fd < 0 ? -1 : bind(fd, &place->address.any, place->length);
    int reason = errno;
    umask(mask);
    errno = reason;
    return bound < 0 || listen(fd, BACKLOG) < 0 ? give_up(fd, address->sun_path, error) : fd;
}

/* --- addresses --- */

/* Parse "127.0.0.1:9464" or "[::1]:9464". Return the length of the address, or 0 if this is no
 * address. */
static socklen_t parse_address(const char *text, union address *address)
{
    char host[INET6_ADDRSTRLEN] = "";
    const char *colon = strrchr(text, ':');
    char *end;
    if (colon == NULL || colon[1] < '0' || colon[1] > '9')
        return 0;
    unsigned long port = strtoul(colon + 1, &end, 10);
    bool is_v6 = text[0] == '[' && colon > text && colon[-1] == ']';
    size_t length = (size_t)(colon - text) - (is_v6 ? 2 : 0);
    if (*end != '\0' || port > UINT16_MAX || length >= sizeof(host))
        return 0;
    memcpy(host, text + is_v6, length);
    memset(address, 0, sizeof(*address));
    if (is_v6) {
        address->v6.sin6_family = AF_INET6;
        address->v6.sin6_port = htons((uint16_t)port);
        return inet_pton(AF_INET6, host, &address->v6.sin6_addr) == 1 ? sizeof(address->v6) : 0;
    }
    address->v4.sin_family = AF_INET;
    address->v4.sin_port = htons((uint16_t)port);
    return inet_pton(AF_INET, host, &address->v4.sin_addr) == 1 ? sizeof(address->v4) : 0;
}

static bool is_loopback(const union address *address)
{
    if (address->any.sa_family == AF_INET6)
        return IN6_IS_ADDR_LOOPBACK(&address->v6.sin6_addr);
    return ntohl(address->v4.sin_addr.s_addr) >> 24 == 127;
}

static void print_address(const union address *from, char address[METRICS_ADDRESS_BYTES])
{
    char host[INET6_ADDRSTRLEN] = "";
    bool is_v6 = from->any.sa_family == AF_INET6;
    if (is_v6)
        inet_ntop(AF_INET6, &from->v6.sin6_addr, host, sizeof(host));
    else
        inet_ntop(AF_INET, &from->v4.sin_addr, host, sizeof(host));
    snprintf(address, METRICS_ADDRESS_BYTES, "http://%s%s%s:%u/metrics", is_v6 ? "[" : "", host,
             is_v6 ? "]" : "", ntohs(is_v6 ? from->v6.sin6_port : from->v4.sin_port));
}

static int take_address(struct settings_section *section, const char *text, struct place *place,
                        struct error *error)
{
    bool allows_remote = false;
    int code = setting_bool(section, "allow_remote", &allows_remote, error);
    if (code < 0)
        return code;
    place->length = parse_address(text, &place->address);
    if (place->length == 0)
        return setting_refuse(section, "listen", error,
                              "expected an address and a port (127.0.0.1:9464, [::1]:9464), or "
                              "unix:/PATH");
    if (!allows_remote && !is_loopback(&place->address))
        return setting_refuse(section, "listen", error,
                              "other machines can reach this address, and read the names and heaps "
                              "of programs; if they may, set allow_remote = yes");
    return 0;
}

static int bind_address(struct place *place, const char *text, struct error *error)
{
    int one = 1,
        fd = socket(place->address.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0)
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (fd < 0 || bind(fd, &place->address.any, place->length) < 0)
        return give_up(fd, text, error);
    return fd;
}

static int listen_on_address(struct place *place, const char *text,
                             char address[METRICS_ADDRESS_BYTES], struct error *error)
{
    int fd = bind_address(place, text, error);
    if (fd < 0)
        return fd;
    if (listen(fd, BACKLOG) < 0 || getsockname(fd, &place->address.any, &place->length) < 0)
        return give_up(fd, text, error);
    print_address(&place->address, address);
    return fd;
}

/* --- both --- */

static bool is_path(const char *where)
{
    return strncmp(where, UNIX_PREFIX, strlen(UNIX_PREFIX)) == 0;
}

/* Read the section, whose settings are all used then. Return 0 or a negative errno with a message.
 */
static int listen_take_place(struct settings_section *section, struct place *place,
                             const char **where, struct error *error)
{
    *place = (struct place){0};
    *where = setting_text(section, "listen", METRICS_LISTEN_DEFAULT);
    /* Those of the other kind of address have no effect, but are known. */
    setting_text(section, is_path(*where) ? "allow_remote" : "socket_mode", NULL);
    return is_path(*where) ? take_path(section, *where + strlen(UNIX_PREFIX), place, error)
                           : take_address(section, *where, place, error);
}

int metrics_listen(struct settings_section *section, char address[METRICS_ADDRESS_BYTES],
                   struct error *error)
{
    struct place place;
    const char *where;
    int code = listen_take_place(section, &place, &where, error);
    if (code < 0)
        return code;
    if (!is_path(where))
        return listen_on_address(&place, where, address, error);
    int fd = listen_on_path(&place, error);
    snprintf(address, METRICS_ADDRESS_BYTES, "%s", where);
    return fd;
}

/* Bind any port of an address: the one of the section may be that of a collector that runs. */
static int check_address(struct place *place, const char *where, struct error *error)
{
    if (place->address.any.sa_family == AF_INET6)
        place->address.v6.sin6_port = 0;
    else
        place->address.v4.sin_port = 0;
    int fd = bind_address(place, where, error);
    if (fd >= 0)
        close(fd);
    return fd < 0 ? fd : 0;
}

/* Check that a socket can be made: the path's directory exists. */
static int check_path(const struct place *place, struct error *error)
{
    char directory[sizeof(place->address.path.sun_path)];
    strcpy(directory, place->address.path.sun_path);
    *strrchr(directory, '/') = '\0';
    struct stat status;
    if (stat(*directory != '\0' ? directory : "/", &status) == 0 && S_ISDIR(status.st_mode))
        return 0;
    return error_set(error, -ENOENT, "cannot serve metrics at %s: there is no directory %s",
                     place->address.path.sun_path, directory);
}

int metrics_listen_check(struct settings_section *section, struct error *error)
{
    struct place place;
    const char *where;
    int code = listen_take_place(section, &place, &where, error);
    if (code < 0)
        return code;
    return is_path(where) ? check_path(&place, error) : check_address(&place, where, error);
}

void metrics_listen_end(const char *address)
{
    size_t prefix = strlen(UNIX_PREFIX);
    if (strncmp(address, UNIX_PREFIX, prefix) == 0)
        unlink(address + prefix);
}
