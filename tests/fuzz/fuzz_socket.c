/* The daemon's socket: hellos and requests as a stranger may send them, one message each on up to
 * four connections that overlap. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "daemon/clock.h"
#include "daemon/control.h"

#define CONNECTIONS 4

static struct control control;

static void open_once(void)
{
    static bool is_open;
    struct error error = {0};
    if (is_open)
        return;
    is_open = true;
    if (control_open(&control, NULL, -1, &error) < 0)
        abort();
}

static int connect_to(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    strncpy(address.sun_path, path, sizeof(address.sun_path) - 1);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
        abort();
    return fd;
}

/* Never waits: there is always something due. */
static void step(void)
{
    control.station.server.wake_ms = 0;
    control_step(&control);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int connections[CONNECTIONS] = {-1, -1, -1, -1};
    open_once();
    /* A byte for the connection, two for the length, the message. */
    while (size >= 3) {
        int *fd = &connections[data[0] % CONNECTIONS];
        size_t length = data[1] | (size_t)data[2] << 8;
        data += 3;
        size -= 3;
        if (length > size)
            length = size;
        if (*fd < 0)
            *fd = connect_to(control.station.server.rendezvous.path);
        send(*fd, data, length, MSG_NOSIGNAL | MSG_DONTWAIT);
        data += length;
        size -= length;
        step();
    }
    step();
    for (int i = 0; i < CONNECTIONS; i++) {
        if (connections[i] >= 0)
            close(connections[i]);
    }
    for (int i = 0; i < 3; i++)
        step();
    return 0;
}
