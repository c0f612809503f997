/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Receive requests with their descriptors and send the replies.
 */
#include "recorder/reader/reader_process.h"

#include <errno.h>
#include <libelf.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "recorder/reader/handlers.h"
#include "recorder/reader/program_file.h"

#define SOCKET 0

static bool receive_bytes(void *bytes, size_t length)
{
    char *at = bytes;
    while (length > 0) {
        ssize_t got = read(SOCKET, at, length);
        if (got <= 0) {
            if (got < 0 && errno == EINTR)
                continue;
            return false;
        }
        at += got;
        length -= (size_t)got;
    }
    return true;
}

static bool reply(int code, const void *bytes, size_t length)
{
    struct reader_reply head = {.code = code, .bytes = (uint32_t)length};
    struct iovec parts[2] = {{.iov_base = &head, .iov_len = sizeof(head)},
                             {.iov_base = (void *)bytes, .iov_len = length}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    while (parts[0].iov_len + parts[1].iov_len > 0) {
        ssize_t sent = sendmsg(SOCKET, &message, MSG_NOSIGNAL);
        if (sent <= 0) {
            if (sent < 0 && errno == EINTR)
                continue;
            return false;
        }
        for (int i = 0; i < 2 && sent > 0; i++) {
            size_t part = (size_t)sent < parts[i].iov_len ? (size_t)sent : parts[i].iov_len;
            parts[i].iov_base = (char *)parts[i].iov_base + part;
            parts[i].iov_len -= part;
            sent -= (ssize_t)part;
        }
    }
    return true;
}

static bool receive_call(struct reader_call *call)
{
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(READER_DESCRIPTORS_MAX * sizeof(int))];
    } control;
    struct iovec part = {.iov_base = &call->request, .iov_len = sizeof(call->request)};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof(control)};
    int fds[READER_DESCRIPTORS_MAX] = {-1, -1};
    *call = (struct reader_call){.fd = -1, .debug_fd = -1};
    ssize_t got = recvmsg(SOCKET, &message, MSG_WAITALL);
    if (got != (ssize_t)sizeof(call->request))
        return false;
    const struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    if (header != NULL && header->cmsg_type == SCM_RIGHTS &&
        header->cmsg_len <= CMSG_LEN(sizeof(fds)))
        memcpy(fds, CMSG_DATA(header), header->cmsg_len - CMSG_LEN(0));
    call->fd = fds[0];
    call->debug_fd = fds[1];
    if (call->request.bytes > READER_REQUEST_BYTES_MAX)
        return false;
    if (call->request.bytes == 0)
        return true;
    call->bytes = malloc(call->request.bytes);
    return call->bytes != NULL && receive_bytes(call->bytes, call->request.bytes);
}

static int handle_program(const struct reader_call *call, struct reader_result *result)
{
    struct program_file *program = calloc(1, sizeof(*program));
    result->bytes = program;
    result->length = sizeof(*program);
    return program == NULL ? -ENOMEM : program_file_parse(call->fd, call->debug_fd, program);
}

static int handle_call(const struct reader_call *call, struct reader_result *result)
{
    switch (call->request.kind) {
    case READER_NAMES:
        return handle_names(call, result);
    case READER_FUNCTIONS:
        return handle_functions(call, result);
    case READER_SEGMENT:
        return handle_segment(call, result);
    case READER_PROGRAM:
        return handle_program(call, result);
    case READER_UNWIND_OPEN:
        return handle_unwind_open(call);
    case READER_UNWIND_RULES:
        return handle_unwind_rules(call, result);
    default:
        return -ENOSYS;
    }
}

_Noreturn void reader_process_run(int socket, pid_t profiler)
{
    struct reader_call call;
    int step = 0;
    int code = reader_sandbox_enter(socket, profiler, &step);
    if (!reply(code, &step, sizeof(step)) || code < 0)
        _exit(1);
    elf_version(EV_CURRENT);
    while (receive_call(&call)) {
        struct reader_result result = {0};
        if (call.request.kind == READER_UNWIND_CLOSE) {
            handle_unwind_close(call.request.file);
        } else {
            code = handle_call(&call, &result);
            if (result.length > READER_REPLY_BYTES_MAX)
                code = -E2BIG;
            if (!reply(code, result.bytes, code < 0 ? 0 : result.length))
                break;
        }
        free(result.bytes);
        free(call.bytes);
        if (call.fd >= 0)
            close(call.fd);
        if (call.debug_fd >= 0)
            close(call.debug_fd);
    }
    _exit(0);
}
