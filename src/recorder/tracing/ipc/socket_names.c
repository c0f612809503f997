/* SPDX-License-Identifier: Apache-2.0 */
/* The names' defaults and forms. */
#include "recorder/tracing/ipc/socket_names.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

static const struct {
    const char *service, *variable, *in_run, *in_tmp;
} ports[] = {
    [TRACING_PRODUCER_PORT] = {"ProducerPort", "PERFETTO_PRODUCER_SOCK_NAME",
                               "/run/perfetto/traced-producer.sock", "/tmp/perfetto-producer"},
    [TRACING_CONSUMER_PORT] = {"ConsumerPort", "PERFETTO_CONSUMER_SOCK_NAME",
                               "/run/perfetto/traced-consumer.sock", "/tmp/perfetto-consumer"},
};

const char *tracing_port_service(enum tracing_port port)
{
    return ports[port].service;
}

const char *tracing_port_variable(enum tracing_port port)
{
    return ports[port].variable;
}

struct tracing_socket tracing_socket_choose(enum tracing_port port, const char *given)
{
    struct tracing_socket chosen = {.port = port, .name = given};
    if (chosen.name == NULL)
        chosen.name = getenv(ports[port].variable);
    if (chosen.name != NULL)
        return chosen;
    chosen.anybody_may_own = access("/run/perfetto/", X_OK) != 0;
    chosen.name = chosen.anybody_may_own ? ports[port].in_tmp : ports[port].in_run;
    return chosen;
}

static int unix_address(const char *name, struct sockaddr_un *address, struct error *error)
{
    size_t length = strlen(name);
    if (length >= sizeof(address->sun_path))
        return error_set(error, -ENAMETOOLONG,
                         "%s: the name of a socket has at most %zu bytes, and this one has %zu",
                         name, sizeof(address->sun_path) - 1, length);
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(address->sun_path, name, length);
    size_t used = offsetof(struct sockaddr_un, sun_path) + length;
    if (name[0] == '@') /* abstract: the length ends the name, not a NUL */
        address->sun_path[0] = '\0';
    else
        used++;
    return (int)used;
}

/* Split "ADDRESS:PORT". Return whether the name has this form. */
static bool split_host_port(const char *name, char host[64], const char **port)
{
    const char *colon = strrchr(name, ':');
    if (colon == NULL || colon[1] == '\0' || strspn(colon + 1, "0123456789") != strlen(colon + 1))
        return false;
    size_t length = (size_t)(colon - name);
    if (length >= 2 && name[0] == '[' && colon[-1] == ']') {
        name++;
        length -= 2;
    }
    if (length >= 64)
        return false;
    memcpy(host, name, length);
    host[length] = '\0';
    *port = colon + 1;
    return true;
}

/* Read an address of IPv6, which may end with the interface that leads to it: "fe80::1%eth0". */
static bool read_ipv6(const char *host, struct sockaddr_in6 *address)
{
    char number[64];
    size_t length = strcspn(host, "%");
    snprintf(number, sizeof(number), "%.*s", (int)length, host);
    if (host[length] == '%')
        address->sin6_scope_id = if_nametoindex(host + length + 1);
    return inet_pton(AF_INET6, number, &address->sin6_addr) == 1 &&
           (host[length] == '\0' || address->sin6_scope_id != 0);
}

/* Only numbers: looking up a host's name could wait for the network. */
static int tcp_address(const char *name, const char *host, const char *port,
                       struct sockaddr_storage *address, struct error *error)
{
    struct sockaddr_in *ipv4 = (struct sockaddr_in *)address;
    struct sockaddr_in6 *ipv6 = (struct sockaddr_in6 *)address;
    unsigned long number = strtoul(port, NULL, 10);
    memset(address, 0, sizeof(*address));
    if (strlen(port) <= 5 && number <= UINT16_MAX &&
        inet_pton(AF_INET, host, &ipv4->sin_addr) == 1) {
        ipv4->sin_family = AF_INET;
        ipv4->sin_port = htons((uint16_t)number);
        return sizeof(*ipv4);
    }
    memset(address, 0, sizeof(*address));
    if (strlen(port) <= 5 && number <= UINT16_MAX && read_ipv6(host, ipv6)) {
        ipv6->sin6_family = AF_INET6;
        ipv6->sin6_port = htons((uint16_t)number);
        return sizeof(*ipv6);
    }
    return error_set(error, -EINVAL,
                     "%s: not an address; write it in numbers, such as 127.0.0.1:%s, or give a "
                     "socket's path",
                     name, port);
}

int tracing_socket_address(const char *name, struct sockaddr_storage *address, struct error *error)
{
    char host[64];
    const char *port;
    if (name[0] == '\0')
        return error_set(error, -EINVAL, "the name of the tracing service's socket is empty");
    if (strncmp(name, "vsock://", 8) == 0)
        return error_set(error, -EAFNOSUPPORT,
                         "%s: sockets of virtual machines are not supported; use a path or "
                         "ADDRESS:PORT",
                         name);
    if (name[0] != '/' && name[0] != '@' && split_host_port(name, host, &port))
        return tcp_address(name, host, port, address, error);
    return unix_address(name, (struct sockaddr_un *)address, error);
}
