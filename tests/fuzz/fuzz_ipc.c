/* SPDX-License-Identifier: Apache-2.0 */
/* A hostile tracing service: it sends any bytes, cut anywhere, with descriptors. */
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "fuzzing.h"
#include "recorder/tracing/ipc/connection.h"
#include "tracing_service.pb-c.h"
#include "util/pass_descriptor.h"

static int listener = -1;
static char name[64];

static void listen_once(void)
{
    if (listener >= 0)
        return;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(name, sizeof(name), "@heapprofd-fuzz-ipc-%d", getpid());
    memcpy(address.sun_path + 1, name + 1, strlen(name) - 1);
    listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name));
    check(bind(listener, (struct sockaddr *)&address, length) == 0 && listen(listener, 8) == 0);
}

struct replies {
    unsigned count;
    struct tracing_connection *connection;
};

/* Read the bytes to their end, and invoke again: a handler may. */
static int count_reply(void *context, struct tracing_reply *reply, struct error *error)
{
    struct replies *replies = context;
    unsigned sum = 0;
    for (size_t i = 0; i < reply->length; i++)
        sum += reply->bytes[i];
    check(sum <= reply->length * 255 && (reply->success || reply->length == 0));
    replies->count++;
    const Perfetto__Protos__FlushRequest request = PERFETTO__PROTOS__FLUSH_REQUEST__INIT;
    if (replies->count < 8)
        tracing_connection_invoke(replies->connection, "Flush", &request.base, -1, count_reply,
                                  replies, error);
    return sum == 77 ? error_set(error, -EPROTO, "refused") : 0;
}

/* Send one part: a byte has its length, and whether a descriptor comes with it. */
static size_t send_part(int peer, const uint8_t *data, size_t size)
{
    size_t length = (data[0] & 0x7f) + 1U;
    if (length > size - 1)
        length = size - 1;
    const struct iovec part = {.iov_base = (void *)(data + 1), .iov_len = length};
    pass_descriptor(peer, &part, 1, (data[0] & 0x80) != 0 ? listener : -1, MSG_DONTWAIT);
    return length + 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    listen_once();
    struct error error;
    const struct tracing_socket to = {.port = TRACING_CONSUMER_PORT, .name = name};
    struct replies replies = {.connection = tracing_connection_open(&to, &error)};
    check(replies.connection != NULL);
    int peer = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    check(peer >= 0);
    int result = 0;
    bool has_invoked = false;
    while (size > 1 && result == 0) {
        size_t used = send_part(peer, data, size);
        data += used;
        size -= used;
        result = tracing_connection_serve(replies.connection, &error);
        if (result < 0 || has_invoked || !tracing_connection_is_bound(replies.connection))
            continue;
        const Perfetto__Protos__FlushRequest request = PERFETTO__PROTOS__FLUSH_REQUEST__INIT;
        has_invoked = tracing_connection_invoke(replies.connection, "Flush", &request.base, -1,
                                                count_reply, &replies, &error) == 0;
    }
    close(peer);
    while (result == 0)
        result = tracing_connection_serve(replies.connection, &error);
    check(error.message[0] != '\0');
    tracing_connection_close(replies.connection);
    /* Every descriptor that came is closed or was never received. */
    int next = dup(listener);
    check(next < 64);
    close(next);
    return 0;
}
