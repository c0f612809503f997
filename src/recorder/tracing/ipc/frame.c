/* SPDX-License-Identifier: Apache-2.0 */
/* The reader has one buffer, which holds the largest frame. */
#include "recorder/tracing/ipc/frame.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define BUFFER_BYTES (TRACING_FRAME_HEADER_BYTES + TRACING_FRAME_BYTES_MAX)
/* Descriptors that can come with one message. The kernel closes further ones. */
#define DESCRIPTORS_MAX 4

void tracing_frame_reader_init(struct tracing_frame_reader *reader)
{
    *reader = (struct tracing_frame_reader){.descriptor = -1};
}

void tracing_frame_reader_clear(struct tracing_frame_reader *reader)
{
    if (reader->descriptor >= 0)
        close(reader->descriptor);
    free(reader->bytes);
    tracing_frame_reader_init(reader);
}

/* Keep the first descriptor of a message, if none waits already, and close the others. */
static void keep_descriptor(struct tracing_frame_reader *reader, struct msghdr *message)
{
    for (struct cmsghdr *part = CMSG_FIRSTHDR(message); part != NULL;
         part = CMSG_NXTHDR(message, part)) {
        if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS)
            continue;
        for (size_t at = CMSG_LEN(0); at + sizeof(int) <= part->cmsg_len; at += sizeof(int)) {
            int fd;
            memcpy(&fd, (const char *)part + at, sizeof(fd));
            if (reader->descriptor >= 0) {
                close(fd);
                continue;
            }
            reader->descriptor = fd;
            reader->descriptor_end = reader->end;
        }
    }
}

/* Move the unread bytes to the start of the buffer. */
static int frame_make_room(struct tracing_frame_reader *reader)
{
    if (reader->bytes == NULL)
        reader->bytes = malloc(BUFFER_BYTES);
    if (reader->bytes == NULL)
        return -ENOMEM;
    memmove(reader->bytes, reader->bytes + reader->start, reader->end - reader->start);
    reader->end -= reader->start;
    if (reader->descriptor >= 0)
        reader->descriptor_end -= reader->start;
    reader->start = 0;
    /* tracing_frame_next() would have taken a frame that fills the buffer. */
    return reader->end < BUFFER_BYTES ? 0 : -EPROTO;
}

ssize_t tracing_frame_receive(struct tracing_frame_reader *reader, int socket)
{
    int result = frame_make_room(reader);
    if (result < 0)
        return result;
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(DESCRIPTORS_MAX * sizeof(int))];
    } control;
    struct iovec room = {.iov_base = reader->bytes + reader->end,
                         .iov_len = BUFFER_BYTES - reader->end};
    struct msghdr message = {.msg_iov = &room,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof(control)};
    ssize_t got = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got < 0)
        return -errno;
    reader->end += (size_t)got;
    keep_descriptor(reader, &message);
    return got;
}

/* A descriptor belongs to the frame that has the last byte received with it: the kernel ends a read
 * after the bytes that a descriptor was sent with. */
static int take_descriptor(struct tracing_frame_reader *reader)
{
    if (reader->descriptor < 0 || reader->descriptor_end > reader->start)
        return -1;
    int fd = reader->descriptor;
    reader->descriptor = -1;
    return fd;
}

int tracing_frame_next(struct tracing_frame_reader *reader, struct tracing_frame *frame,
                       struct error *error)
{
    while (reader->end - reader->start >= TRACING_FRAME_HEADER_BYTES) {
        uint32_t length;
        memcpy(&length, reader->bytes + reader->start, sizeof(length));
        length = le32toh(length);
        if (length > TRACING_FRAME_BYTES_MAX)
            return error_set(error, -EPROTO,
                             "byte %llu of the stream: a frame of %u bytes, more than the %zu that "
                             "the protocol allows",
                             (unsigned long long)reader->taken, length, TRACING_FRAME_BYTES_MAX);
        if (reader->end - reader->start - TRACING_FRAME_HEADER_BYTES < length)
            return 0;
        const uint8_t *body = reader->bytes + reader->start + TRACING_FRAME_HEADER_BYTES;
        reader->start += TRACING_FRAME_HEADER_BYTES + length;
        reader->taken += TRACING_FRAME_HEADER_BYTES + length;
        *frame = (struct tracing_frame){.descriptor = take_descriptor(reader)};
        if (length > 0)
            frame->message = perfetto__protos__ipcframe__unpack(NULL, length, body);
        if (frame->message != NULL)
            return 1;
        tracing_frame_clear(frame);
        if (length > 0)
            return error_set(error, -EPROTO,
                             "a frame of %u bytes before byte %llu of the stream cannot be decoded",
                             length, (unsigned long long)reader->taken);
    }
    return 0;
}

void tracing_frame_clear(struct tracing_frame *frame)
{
    if (frame->message != NULL)
        perfetto__protos__ipcframe__free_unpacked(frame->message, NULL);
    if (frame->descriptor >= 0)
        close(frame->descriptor);
    *frame = (struct tracing_frame){.descriptor = -1};
}

size_t tracing_frame_bytes(const Perfetto__Protos__IPCFrame *message)
{
    size_t length = perfetto__protos__ipcframe__get_packed_size(message);
    return length <= TRACING_FRAME_BYTES_MAX ? TRACING_FRAME_HEADER_BYTES + length : 0;
}

void tracing_frame_write(const Perfetto__Protos__IPCFrame *message, uint8_t *into)
{
    size_t length = perfetto__protos__ipcframe__pack(message, into + TRACING_FRAME_HEADER_BYTES);
    uint32_t header = htole32((uint32_t)length);
    memcpy(into, &header, sizeof(header));
}
