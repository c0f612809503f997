/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon's socket with hostile hellos and requests: one message each on up to four concurrent
 * connections, with or without descriptors. No connection and no descriptor stays open. */
#include <dirent.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "recorder/service/control.h"
#include "util/clock.h"

#define CONNECTIONS 4
#define KINDS 8
#define PATIENCE_MS 20000
#define DESCRIPTORS_MAX 253 /* the kernel's limit */

static struct control control;

/* Descriptors of each kind that behaves differently when used or closed. -1: the connection
 * itself. */
static int kinds[KINDS];

static void open_kinds(void)
{
    int pipes[2], sockets[2];
    if (pipe2(pipes, O_CLOEXEC) < 0 ||
        socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) < 0)
        abort();
    kinds[0] = open("/dev/null", O_RDONLY | O_CLOEXEC);
    kinds[1] = pipes[0];
    kinds[2] = pipes[1];
    kinds[3] = sockets[0];
    kinds[4] = memfd_create("passed", MFD_CLOEXEC);
    kinds[5] = open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC);
    kinds[6] = eventfd(0, EFD_CLOEXEC);
    kinds[7] = -1;
}

static void open_once(void)
{
    static bool is_open;
    struct error error = {0};
    if (is_open)
        return;
    is_open = true;
    open_kinds();
    if (control_open(&control, NULL, -1, &error) < 0)
        abort();
}

static unsigned open_descriptors(void)
{
    unsigned count = 0;
    DIR *directory = opendir("/proc/self/fd");
    if (directory == NULL)
        abort();
    while (readdir(directory) != NULL)
        count++;
    closedir(directory);
    return count;
}

/* Send a message with `count` copies of a descriptor. */
static void send_with(int fd, const void *data, size_t length, unsigned count, int passed_fd)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int) * DESCRIPTORS_MAX)];
    } passed = {0};
    struct iovec vector = {(void *)data, length};
    struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1};
    if (count > 0) {
        message.msg_control = &passed;
        message.msg_controllen = CMSG_SPACE(sizeof(int) * count);
        passed.header.cmsg_level = SOL_SOCKET;
        passed.header.cmsg_type = SCM_RIGHTS;
        passed.header.cmsg_len = CMSG_LEN(sizeof(int) * count);
        for (unsigned i = 0; i < count; i++)
            memcpy(CMSG_DATA(&passed.header) + i * sizeof(int), &passed_fd, sizeof(int));
    }
    sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
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

/* Does not wait: a deadline has always passed. */
static void step(void)
{
    control.wake_ms = 0;
    control_step(&control);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const unsigned descriptors[8] = {0, 1, 2, 3, 0, 17, DESCRIPTORS_MAX, 0};
    int connections[CONNECTIONS] = {-1, -1, -1, -1};
    static unsigned before;
    open_once();
    if (before == 0)
        before = open_descriptors();
    /* The input: a byte for the connection and the descriptors, two for the length (whose last bits
     * are the kind of the descriptors), then the message. */
    while (size >= 3) {
        int *fd = &connections[data[0] % CONNECTIONS];
        unsigned count = descriptors[data[0] / CONNECTIONS % 8];
        size_t length = data[1] | (size_t)(data[2] & 31) << 8;
        int passed_fd = kinds[data[2] / 32];
        data += 3;
        size -= 3;
        if (length > size)
            length = size;
        if (*fd < 0)
            *fd = connect_to(control.rendezvous.path);
        send_with(*fd, data, length, count, passed_fd < 0 ? *fd : passed_fd);
        data += length;
        size -= length;
        step();
    }
    step();
    for (int i = 0; i < CONNECTIONS; i++) {
        if (connections[i] >= 0)
            close(connections[i]);
    }
    /* A step takes one message of each connection. Connections that end with unread descriptors
     * wait for others to close them, and a session takes the time of its process. */
    uint64_t end_ms = clock_read_ms(CLOCK_MONOTONIC) + PATIENCE_MS;
    while (open_descriptors() > before + control.rendezvous.ending.count) {
        if (clock_read_ms(CLOCK_MONOTONIC) > end_ms) {
            fprintf(stderr, "%u descriptors are open, %u were, %zu connections are ending\n",
                    open_descriptors(), before, (size_t)control.rendezvous.ending.count);
            abort();
        }
        step();
    }
    return 0;
}
