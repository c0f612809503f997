/* SPDX-License-Identifier: Apache-2.0 */
/* Frames and connections of Perfetto's IPC, against a peer that each test plays itself. */
#include "recorder/tracing/ipc/connection.h"

#include <endian.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "recorder/tracing/ipc/frame.h"
#include "util/clock.h"
#include "util/pass_descriptor.h"

/* --- a peer --- */

static char name[64];
static int listener, peer;

static struct tracing_connection *connect_here(struct error *error)
{
    const struct tracing_socket to = {.port = TRACING_CONSUMER_PORT, .name = name};
    struct tracing_connection *connection = tracing_connection_open(&to, error);
    assert_non_null(connection);
    peer = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    assert_true(peer >= 0);
    return connection;
}

static void send_bytes(const void *bytes, size_t length, int descriptor)
{
    const struct iovec part = {.iov_base = (void *)bytes, .iov_len = length};
    assert_int_equal(pass_descriptor(peer, &part, 1, descriptor, 0), length);
}

static void send_frame(const Perfetto__Protos__IPCFrame *frame, int descriptor)
{
    size_t length = tracing_frame_bytes(frame);
    assert_true(length > 0);
    uint8_t *bytes = malloc(length);
    tracing_frame_write(frame, bytes);
    send_bytes(bytes, length, descriptor);
    free(bytes);
}

static void send_methods(bool success)
{
    Perfetto__Protos__IPCFrame__BindServiceReply__MethodInfo infos[3];
    Perfetto__Protos__IPCFrame__BindServiceReply__MethodInfo *pointers[3];
    for (unsigned i = 0; i < 3; i++) {
        perfetto__protos__ipcframe__bind_service_reply__method_info__init(&infos[i]);
        infos[i].has_id = true;
        infos[i].id = i; /* the first one is invalid */
        infos[i].name = i == 1 ? "Flush" : "Detach";
        pointers[i] = &infos[i];
    }
    Perfetto__Protos__IPCFrame__BindServiceReply reply =
        PERFETTO__PROTOS__IPCFRAME__BIND_SERVICE_REPLY__INIT;
    reply.has_success = reply.has_service_id = true;
    reply.success = success;
    reply.service_id = 7;
    reply.n_methods = 3;
    reply.methods = pointers;
    Perfetto__Protos__IPCFrame frame = PERFETTO__PROTOS__IPCFRAME__INIT;
    frame.has_request_id = true;
    frame.request_id = 1;
    frame.msg_case = PERFETTO__PROTOS__IPCFRAME__MSG_MSG_BIND_SERVICE_REPLY;
    frame.msg_bind_service_reply = &reply;
    send_frame(&frame, -1);
}

static void send_reply(uint64_t id, bool success, bool has_more, const char *text, int descriptor)
{
    Perfetto__Protos__IPCFrame__InvokeMethodReply reply =
        PERFETTO__PROTOS__IPCFRAME__INVOKE_METHOD_REPLY__INIT;
    reply.has_success = reply.has_has_more = reply.has_reply_proto = true;
    reply.success = success;
    reply.has_more = has_more;
    reply.reply_proto = (ProtobufCBinaryData){.data = (uint8_t *)text, .len = strlen(text)};
    Perfetto__Protos__IPCFrame frame = PERFETTO__PROTOS__IPCFRAME__INIT;
    frame.has_request_id = true;
    frame.request_id = id;
    frame.msg_case = PERFETTO__PROTOS__IPCFRAME__MSG_MSG_INVOKE_METHOD_REPLY;
    frame.msg_invoke_method_reply = &reply;
    send_frame(&frame, descriptor);
}

/* Return the next frame of the connection. */
static struct tracing_frame next_frame(struct tracing_frame_reader *reader)
{
    struct tracing_frame frame;
    struct error error;
    while (tracing_frame_next(reader, &frame, &error) == 0)
        assert_true(tracing_frame_receive(reader, peer) > 0);
    return frame;
}

static struct tracing_connection *connect_bound(void)
{
    struct error error;
    struct tracing_connection *connection = connect_here(&error);
    assert_int_equal(tracing_connection_serve(connection, &error), 0);
    assert_false(tracing_connection_is_bound(connection));
    send_methods(true);
    assert_int_equal(tracing_connection_serve(connection, &error), 0);
    assert_true(tracing_connection_is_bound(connection));
    return connection;
}

static void finish(struct tracing_connection *connection)
{
    tracing_connection_close(connection);
    close(peer);
}

static int set_up(void **state)
{
    (void)state;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(name, sizeof(name), "@heapprofd-test-ipc-%d", getpid());
    memcpy(address.sun_path + 1, name + 1, strlen(name) - 1);
    listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name));
    return bind(listener, (struct sockaddr *)&address, length) == 0 && listen(listener, 8) == 0
               ? 0
               : -1;
}

static int tear_down(void **state)
{
    (void)state;
    return close(listener);
}

/* --- replies --- */

struct replies {
    unsigned count, successes, more, descriptors;
    char text[256];
    int keep; /* a descriptor that the handler keeps */
};

static int note_reply(void *context, struct tracing_reply *reply, struct error *error)
{
    struct replies *replies = context;
    replies->count++;
    replies->successes += reply->success;
    replies->more += reply->has_more;
    replies->descriptors += reply->descriptor >= 0;
    snprintf(replies->text, sizeof(replies->text), "%.*s", (int)reply->length,
             reply->length > 0 ? (const char *)reply->bytes : "");
    if (replies->keep == 0 && reply->descriptor >= 0) {
        replies->keep = reply->descriptor;
        reply->descriptor = -1;
    }
    if (strcmp(replies->text, "bad") == 0)
        return error_set(error, -EPROTO, "a bad reply");
    return 0;
}

static int invoke(struct tracing_connection *connection, const char *method, int descriptor,
                  struct replies *replies, struct error *error)
{
    const Perfetto__Protos__FlushRequest request = PERFETTO__PROTOS__FLUSH_REQUEST__INIT;
    return tracing_connection_invoke(connection, method, &request.base, descriptor,
                                     replies != NULL ? note_reply : NULL, replies, error);
}

/* --- tests --- */

static void a_port_is_bound_and_its_methods_invoked(void **state)
{
    (void)state;
    struct error error;
    struct replies replies = {0};
    struct tracing_frame_reader reader;
    tracing_frame_reader_init(&reader);
    struct tracing_connection *connection = connect_bound();
    struct tracing_frame frame = next_frame(&reader);
    assert_string_equal(frame.message->msg_bind_service->service_name, "ConsumerPort");
    tracing_frame_clear(&frame);

    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    assert_int_equal(invoke(connection, "Flush", fd, &replies, &error), 0);
    assert_int_equal(invoke(connection, "Detach", -1, NULL, &error), 0);
    close(fd);
    assert_int_equal(invoke(connection, "Attach", -1, NULL, &error), -ENOSYS);
    assert_non_null(strstr(error.message, "has no Attach"));

    frame = next_frame(&reader);
    assert_int_equal(frame.message->request_id, 2);
    assert_int_equal(frame.message->msg_invoke_method->service_id, 7);
    assert_int_equal(frame.message->msg_invoke_method->method_id, 1);
    assert_false(frame.message->msg_invoke_method->drop_reply);
    assert_true(frame.descriptor >= 0);
    tracing_frame_clear(&frame);
    frame = next_frame(&reader);
    assert_int_equal(frame.message->msg_invoke_method->method_id, 2);
    assert_true(frame.message->msg_invoke_method->drop_reply);
    assert_int_equal(frame.descriptor, -1);
    tracing_frame_clear(&frame);

    send_reply(99, true, false, "never asked", -1);
    send_reply(2, true, true, "one", -1);
    send_reply(2, true, false, "two", -1);
    send_reply(2, true, false, "late", -1);
    assert_int_equal(tracing_connection_serve(connection, &error), 0);
    assert_int_equal(replies.count, 2);
    assert_int_equal(replies.more, 1);
    assert_string_equal(replies.text, "two");
    tracing_frame_reader_clear(&reader);
    finish(connection);
}

static void a_refusal_has_its_reason(void **state)
{
    (void)state;
    struct error error;
    struct replies replies = {0};
    struct tracing_connection *connection = connect_bound();
    assert_int_equal(invoke(connection, "Flush", -1, &replies, &error), 0);
    assert_int_equal(invoke(connection, "Flush", -1, &replies, &error), 0);
    send_reply(2, false, false, "not read", -1);
    Perfetto__Protos__IPCFrame__RequestError failure =
        PERFETTO__PROTOS__IPCFRAME__REQUEST_ERROR__INIT;
    failure.error = "unknown request";
    Perfetto__Protos__IPCFrame frame = PERFETTO__PROTOS__IPCFRAME__INIT;
    frame.has_request_id = true;
    frame.request_id = 3;
    frame.msg_case = PERFETTO__PROTOS__IPCFRAME__MSG_MSG_REQUEST_ERROR;
    frame.msg_request_error = &failure;
    send_frame(&frame, -1);
    assert_int_equal(tracing_connection_serve(connection, &error), 0);
    assert_int_equal(replies.count, 2);
    assert_int_equal(replies.successes, 0);
    assert_string_equal(replies.text, "");
    finish(connection);
}

static void a_descriptor_comes_with_its_own_reply(void **state)
{
    (void)state;
    struct error error;
    struct replies with = {0}, without = {0}, unwanted = {.keep = -1};
    struct tracing_connection *connection = connect_bound();
    assert_int_equal(invoke(connection, "Flush", -1, &without, &error), 0);
    assert_int_equal(invoke(connection, "Flush", -1, &with, &error), 0);
    assert_int_equal(invoke(connection, "Flush", -1, &unwanted, &error), 0);
    int pipes[2];
    assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
    send_reply(2, true, false, "", -1);
    send_reply(3, true, false, "", pipes[1]);
    send_reply(4, true, false, "", pipes[1]);
    close(pipes[1]);
    assert_int_equal(tracing_connection_serve(connection, &error), 0);
    assert_int_equal(without.descriptors, 0);
    assert_int_equal(with.descriptors, 1);
    assert_int_equal(unwanted.descriptors, 1);
    /* The pipe ends when no descriptor of its other end is left. */
    char byte;
    assert_int_equal(write(with.keep, "x", 1), 1);
    close(with.keep);
    assert_int_equal(read(pipes[0], &byte, 1), 1);
    assert_int_equal(read(pipes[0], &byte, 1), 0);
    close(pipes[0]);
    finish(connection);
}

static void frames_are_cut_anywhere(void **state)
{
    (void)state;
    struct error error;
    struct replies replies = {0};
    struct tracing_connection *connection = connect_bound();
    assert_int_equal(invoke(connection, "Flush", -1, &replies, &error), 0);
    /* {request_id: 2, msg_invoke_method_reply {success: true, reply_proto: "cut"}}, after an empty
     * frame. */
    static const uint8_t bytes[] = {0,    0, 0, 0, 11,   0, 0,   0,   0x10, 2,
                                    0x32, 7, 8, 1, 0x1a, 3, 'c', 'u', 't'};
    for (size_t i = 0; i < sizeof(bytes); i++) {
        assert_int_equal(replies.count, 0);
        send_bytes(bytes + i, 1, -1);
        assert_int_equal(tracing_connection_serve(connection, &error), 0);
    }
    assert_string_equal(replies.text, "cut");
    finish(connection);
}

static void the_largest_frame_passes_and_a_larger_one_does_not(void **state)
{
    (void)state;
    struct error error;
    struct tracing_connection *connection = connect_bound();
    static uint8_t large[TRACING_FRAME_HEADER_BYTES + TRACING_FRAME_BYTES_MAX];
    uint32_t length = htole32(TRACING_FRAME_BYTES_MAX);
    memcpy(large, &length, sizeof(length));
    /* An unknown field, number 15, of 131,064 bytes. */
    static const uint8_t field[] = {0x7a, 0xf8, 0xff, 0x07};
    memcpy(large + TRACING_FRAME_HEADER_BYTES, field, sizeof(field));
    fcntl(peer, F_SETFL, O_NONBLOCK);
    for (size_t sent = 0; sent < sizeof(large);) {
        ssize_t now = write(peer, large + sent, sizeof(large) - sent);
        sent += now > 0 ? (size_t)now : 0;
        assert_int_equal(tracing_connection_serve(connection, &error), 0);
    }
    length = htole32(TRACING_FRAME_BYTES_MAX + 1);
    send_bytes(&length, sizeof(length), -1);
    assert_int_equal(tracing_connection_serve(connection, &error), -EPROTO);
    assert_non_null(strstr(error.message, "131069 bytes"));
    finish(connection);
}

static void what_is_no_protocol_ends_the_connection(void **state)
{
    (void)state;
    struct error error;
    struct replies replies = {0};
    struct tracing_connection *connection = connect_bound();
    send_bytes("\x02\x00\x00\x00\x32\x7f", 6, -1);
    assert_int_equal(tracing_connection_serve(connection, &error), -EPROTO);
    assert_non_null(strstr(error.message, "cannot be decoded"));
    finish(connection);

    connection = connect_bound();
    assert_int_equal(invoke(connection, "Flush", -1, &replies, &error), 0);
    send_reply(2, true, false, "bad", -1);
    assert_int_equal(tracing_connection_serve(connection, &error), -EPROTO);
    assert_string_equal(error.message, "a bad reply");
    finish(connection);

    connection = connect_here(&error);
    send_methods(false);
    assert_int_equal(tracing_connection_serve(connection, &error), -EPROTO);
    assert_non_null(strstr(error.message, "not the tracing service's ConsumerPort"));
    finish(connection);
}

static void a_peer_that_ends_is_reported_after_its_last_reply(void **state)
{
    (void)state;
    struct error error;
    struct replies replies = {0};
    struct tracing_connection *connection = connect_bound();
    assert_int_equal(invoke(connection, "Flush", -1, &replies, &error), 0);
    send_reply(2, true, false, "last", -1);
    close(peer);
    assert_int_equal(invoke(connection, "Detach", -1, NULL, &error), 0);
    int result;
    while ((result = tracing_connection_serve(connection, &error)) == 0)
        ;
    assert_int_equal(result, -ECONNRESET);
    assert_string_equal(replies.text, "last");
    tracing_connection_close(connection);
}

static void a_peer_that_does_not_read_is_noticed(void **state)
{
    (void)state;
    struct error error = {0};
    struct tracing_connection *connection = connect_bound();
    static char long_key[64 * 1024];
    memset(long_key, 'k', sizeof(long_key) - 1);
    Perfetto__Protos__DetachRequest request = PERFETTO__PROTOS__DETACH_REQUEST__INIT;
    request.key = long_key;
    int result = 0;
    unsigned count = 0;
    while (count < 1000 && result == 0) {
        result =
            tracing_connection_invoke(connection, "Detach", &request.base, -1, NULL, NULL, &error);
        count += result == 0;
    }
    assert_int_equal(result, -ENOBUFS);
    assert_true(tracing_connection_events(connection) & 4 /* EPOLLOUT */);
    /* What was accepted arrives. */
    struct tracing_frame_reader reader;
    tracing_frame_reader_init(&reader);
    struct tracing_frame frame;
    for (unsigned i = 0; i <= count;) {
        assert_int_equal(tracing_connection_serve(connection, &error), 0);
        while (tracing_frame_next(&reader, &frame, &error) == 1) {
            tracing_frame_clear(&frame);
            i++;
        }
        if (i <= count)
            assert_true(tracing_frame_receive(&reader, peer) > 0);
    }
    tracing_frame_reader_clear(&reader);

    static char too_long[TRACING_FRAME_BYTES_MAX];
    memset(too_long, 'k', sizeof(too_long) - 1);
    request.key = too_long;
    result = tracing_connection_invoke(connection, "Detach", &request.base, -1, NULL, NULL, &error);
    assert_int_equal(result, -EMSGSIZE);
    finish(connection);
}

static void a_wait_ends_in_time(void **state)
{
    (void)state;
    struct error error;
    struct tracing_connection *connection = connect_bound();
    uint64_t now_ms = clock_read_ms(CLOCK_MONOTONIC);
    assert_int_equal(tracing_connection_wait(connection, now_ms, &error), -ETIMEDOUT);
    send_reply(3, true, false, "", -1);
    assert_int_equal(tracing_connection_wait(connection, UINT64_MAX, &error), 0);
    finish(connection);
}

static void names_have_three_forms(void **state)
{
    (void)state;
    struct sockaddr_storage address;
    struct error error;
    const struct sockaddr_un *path = (struct sockaddr_un *)&address;
    assert_int_equal(tracing_socket_address("/a:1", &address, &error), 2 + 4 + 1);
    assert_int_equal(address.ss_family, AF_UNIX);
    assert_int_equal(tracing_socket_address("@ab", &address, &error), 2 + 3);
    assert_memory_equal(path->sun_path, "\0ab", 3);
    assert_true(tracing_socket_address("127.0.0.1:80", &address, &error) > 0);
    assert_int_equal(address.ss_family, AF_INET);
    assert_true(tracing_socket_address("[::1]:80", &address, &error) > 0);
    assert_int_equal(address.ss_family, AF_INET6);
    assert_int_equal(tracing_socket_address("localhost:80", &address, &error), -EINVAL);
    assert_int_equal(tracing_socket_address("vsock://3:80", &address, &error), -EAFNOSUPPORT);
    assert_int_equal(tracing_socket_address("", &address, &error), -EINVAL);
    char long_path[109];
    memset(long_path, 'a', 108);
    long_path[108] = '\0';
    assert_int_equal(tracing_socket_address(long_path, &address, &error), -ENAMETOOLONG);
    long_path[107] = '\0';
    assert_int_equal(tracing_socket_address(long_path, &address, &error), 2 + 107 + 1);
}

static void the_environment_comes_before_defaults(void **state)
{
    (void)state;
    setenv("PERFETTO_PRODUCER_SOCK_NAME", "@here", 1);
    assert_string_equal(tracing_socket_choose(TRACING_PRODUCER_PORT, NULL).name, "@here");
    assert_string_equal(tracing_socket_choose(TRACING_PRODUCER_PORT, "@there").name, "@there");
    unsetenv("PERFETTO_PRODUCER_SOCK_NAME");
    struct tracing_socket chosen = tracing_socket_choose(TRACING_PRODUCER_PORT, NULL);
    assert_string_equal(chosen.name, chosen.anybody_may_own ? "/tmp/perfetto-producer"
                                                            : "/run/perfetto/traced-producer.sock");
}

static void a_failure_to_connect_has_a_remedy(void **state)
{
    (void)state;
    struct error error;
    const struct tracing_socket nothing = {.port = TRACING_CONSUMER_PORT, .name = "/nowhere/c"};
    assert_null(tracing_connection_open(&nothing, &error));
    assert_int_equal(error.code, -ENOENT);
    assert_non_null(strstr(error.message, "PERFETTO_CONSUMER_SOCK_NAME"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_port_is_bound_and_its_methods_invoked),
        cmocka_unit_test(a_refusal_has_its_reason),
        cmocka_unit_test(a_descriptor_comes_with_its_own_reply),
        cmocka_unit_test(frames_are_cut_anywhere),
        cmocka_unit_test(the_largest_frame_passes_and_a_larger_one_does_not),
        cmocka_unit_test(what_is_no_protocol_ends_the_connection),
        cmocka_unit_test(a_peer_that_ends_is_reported_after_its_last_reply),
        cmocka_unit_test(a_peer_that_does_not_read_is_noticed),
        cmocka_unit_test(a_wait_ends_in_time),
        cmocka_unit_test(names_have_three_forms),
        cmocka_unit_test(the_environment_comes_before_defaults),
        cmocka_unit_test(a_failure_to_connect_has_a_remedy),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
