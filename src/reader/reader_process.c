/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Receive requests with their descriptors and send the replies.
 */
#include "reader/reader_process.h"

#include <errno.h>
#include <libelf.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "reader/answers.h"
#include "reader/program_file.h"

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

static bool receive_question(struct question *question)
{
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(READER_DESCRIPTORS_MAX * sizeof(int))];
    } control;
    struct iovec part = {.iov_base = &question->request, .iov_len = sizeof(question->request)};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof(control)};
    int fds[READER_DESCRIPTORS_MAX] = {-1, -1};
    *question = (struct question){.fd = -1, .debug_fd = -1};
    ssize_t got = recvmsg(SOCKET, &message, MSG_WAITALL);
    if (got != (ssize_t)sizeof(question->request))
        return false;
    const struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    if (header != NULL && header->cmsg_type == SCM_RIGHTS &&
        header->cmsg_len <= CMSG_LEN(sizeof(fds)))
        memcpy(fds, CMSG_DATA(header), header->cmsg_len - CMSG_LEN(0));
    question->fd = fds[0];
    question->debug_fd = fds[1];
    if (question->request.bytes > READER_REQUEST_BYTES_MAX)
        return false;
    if (question->request.bytes == 0)
        return true;
    question->bytes = malloc(question->request.bytes);
    return question->bytes != NULL && receive_bytes(question->bytes, question->request.bytes);
}

static int answer_program(const struct question *question, struct answer *answer)
{
    struct program_file *program = calloc(1, sizeof(*program));
    answer->bytes = program;
    answer->length = sizeof(*program);
    return program == NULL ? -ENOMEM : program_file_parse(question->fd, program);
}

static int answer_question(const struct question *question, struct answer *answer)
{
    switch (question->request.kind) {
    case READER_NAMES:
        return answer_names(question, answer);
    case READER_FUNCTIONS:
        return answer_functions(question, answer);
    case READER_SEGMENT:
        return answer_segment(question, answer);
    case READER_PROGRAM:
        return answer_program(question, answer);
    case READER_UNWIND_OPEN:
        return answer_unwind_open(question);
    case READER_UNWIND_RULES:
        return answer_unwind_rules(question, answer);
    default:
        return -ENOSYS;
    }
}

_Noreturn void reader_process_run(int socket, pid_t asker)
{
    struct question question;
    int step = 0;
    int code = reader_sandbox_enter(socket, asker, &step);
    if (!reply(code, &step, sizeof(step)) || code < 0)
        _exit(1);
    elf_version(EV_CURRENT);
    while (receive_question(&question)) {
        struct answer answer = {0};
        if (question.request.kind == READER_UNWIND_CLOSE) {
            answer_unwind_close(question.request.file);
        } else {
            code = answer_question(&question, &answer);
            if (answer.length > READER_REPLY_BYTES_MAX)
                code = -E2BIG;
            if (!reply(code, answer.bytes, code < 0 ? 0 : answer.length))
                break;
        }
        free(answer.bytes);
        free(question.bytes);
        if (question.fd >= 0)
            close(question.fd);
        if (question.debug_fd >= 0)
            close(question.debug_fd);
    }
    _exit(0);
}
