/* SPDX-License-Identifier: Apache-2.0 */
/* A hostile tracing service that sends any commands to the producer, with or without memory, and
 * scribbles in that memory. There is no daemon, so each start gives a packet with the reason. */
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "fuzzing.h"
#include "recorder/tracing/ipc/frame.h"
#include "recorder/tracing/producer/service_link.h"
#include "util/pass_descriptor.h"

#define PAGE_BYTES 4096
#define MEMORY_BYTES (4 * PAGE_BYTES)

/* The producer's requests, in its order. */
enum { BIND_REQUEST = 1, WELCOME_REQUEST, COMMANDS_REQUEST };

static int listener = -1, epoll = -1;
static char name[64];

static void begin_once(void)
{
    if (listener >= 0)
        return;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    setenv("HEAPPROFD_RUN_DIR", "/nonexistent", 1);
    snprintf(name, sizeof(name), "@heapprofd-fuzz-producer-%d", getpid());
    memcpy(address.sun_path + 1, name + 1, strlen(name) - 1);
    listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    epoll = epoll_create1(EPOLL_CLOEXEC);
    socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name));
    check(bind(listener, (struct sockaddr *)&address, length) == 0 && listen(listener, 8) == 0);
}

__attribute__((format(printf, 1, 2))) static void no_log(const char *format, ...)
{
    (void)format;
}

static void send_frame(int peer, const Perfetto__Protos__IPCFrame *frame, int descriptor)
{
    static uint8_t bytes[TRACING_FRAME_BYTES_MAX];
    const struct iovec part = {.iov_base = bytes, .iov_len = tracing_frame_bytes(frame)};
    tracing_frame_write(frame, bytes);
    pass_descriptor(peer, &part, 1, descriptor, MSG_DONTWAIT);
}

static void send_methods(int peer)
{
    static const char *const names[] = {
        "InitializeConnection",    "GetAsyncCommand",         "RegisterDataSource",
        "RegisterTraceWriter",     "UnregisterTraceWriter",   "CommitData",
        "NotifyDataSourceStarted", "NotifyDataSourceStopped",
    };
    enum { COUNT = sizeof(names) / sizeof(names[0]) };
    Perfetto__Protos__IPCFrame__BindServiceReply__MethodInfo methods[COUNT], *pointers[COUNT];
    Perfetto__Protos__IPCFrame__BindServiceReply reply =
        PERFETTO__PROTOS__IPCFRAME__BIND_SERVICE_REPLY__INIT;
    Perfetto__Protos__IPCFrame frame = PERFETTO__PROTOS__IPCFRAME__INIT;
    for (unsigned i = 0; i < COUNT; i++) {
        perfetto__protos__ipcframe__bind_service_reply__method_info__init(&methods[i]);
        methods[i].has_id = true;
        methods[i].id = i + 1;
        methods[i].name = (char *)names[i];
        pointers[i] = &methods[i];
    }
    reply.has_success = reply.success = true;
    reply.n_methods = COUNT;
    reply.methods = pointers;
    frame.has_request_id = true;
    frame.request_id = BIND_REQUEST;
    frame.msg_case = PERFETTO__PROTOS__IPCFRAME__MSG_MSG_BIND_SERVICE_REPLY;
    frame.msg_bind_service_reply = &reply;
    send_frame(peer, &frame, -1);
}

static void send_reply(int peer, uint64_t request, const uint8_t *bytes, size_t length,
                       int descriptor)
{
    Perfetto__Protos__IPCFrame__InvokeMethodReply reply =
        PERFETTO__PROTOS__IPCFRAME__INVOKE_METHOD_REPLY__INIT;
    Perfetto__Protos__IPCFrame frame = PERFETTO__PROTOS__IPCFRAME__INIT;
    reply.has_success = reply.success = reply.has_has_more = true;
    reply.has_more = request == COMMANDS_REQUEST;
    reply.has_reply_proto = true;
    reply.reply_proto.data = (uint8_t *)bytes;
    reply.reply_proto.len = length;
    frame.has_request_id = true;
    frame.request_id = request;
    frame.msg_case = PERFETTO__PROTOS__IPCFRAME__MSG_MSG_INVOKE_METHOD_REPLY;
    frame.msg_invoke_method_reply = &reply;
    send_frame(peer, &frame, descriptor);
}

/* Serve everything that is there, and read what the producer says. */
static int serve(struct service_link *link, int peer)
{
    static uint8_t said[1 << 16];
    struct error error = {0};
    int code = service_link_serve(link, tracing_connection_fd(link->connection), &error);
    for (size_t i = 0; i < link->count && code == 0; i++)
        code = service_link_serve(link, link->instances[i]->pipe, &error);
    if (code == 0)
        code = service_link_settle(link, &error);
    while (recv(peer, said, sizeof(said), MSG_DONTWAIT) > 0) {
    }
    check(code == 0 || error.message[0] != '\0');
    return code;
}

/* Obey one part of the input: a byte for what it is, one for its length, and its bytes. */
static size_t play(int peer, int memory, uint8_t *shared, const uint8_t *data, size_t size)
{
    size_t length = data[1] < size - 2 ? data[1] : size - 2;
    const uint8_t *bytes = data + 2;
    if ((data[0] & 3) == 3)
        memcpy(shared + data[0] / 4U * 256U, bytes, length);
    else if ((data[0] & 3) == 2)
        send_reply(peer, data[0] / 4U, bytes, length, -1);
    else
        send_reply(peer, COMMANDS_REQUEST, bytes, length, (data[0] & 4) != 0 ? memory : -1);
    return length + 2;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    begin_once();
    if (size == 0)
        return 0;
    struct error error;
    const struct tracing_socket to = {.port = TRACING_PRODUCER_PORT, .name = name};
    static struct service_link link;
    link = (struct service_link){.log = no_log};
    check(service_link_open(&link, &to, epoll, &error) == 0);
    int peer = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    int memory = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    check(peer >= 0 && memory >= 0 && ftruncate(memory, MEMORY_BYTES) == 0);
    if ((data[0] & 1) == 0)
        fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW);
    uint8_t *shared = mmap(NULL, MEMORY_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
    check(shared != MAP_FAILED);
    const uint8_t emulates[] = {3 << 3, (data[0] & 2) != 0};
    send_methods(peer);
    int code = serve(&link, peer);
    send_reply(peer, WELCOME_REQUEST, emulates, sizeof(emulates), -1);
    data++;
    size--;
    while (size > 2 && code == 0) {
        size_t used = play(peer, memory, shared, data, size);
        data += used;
        size -= used;
        code = serve(&link, peer);
    }
    service_link_close(&link);
    munmap(shared, MEMORY_BYTES);
    close(memory);
    close(peer);
    /* Nothing stays open. */
    int next = dup(listener);
    check(next < 64);
    close(next);
    return 0;
}
