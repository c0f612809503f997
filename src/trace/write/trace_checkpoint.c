/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checkpoints: parts of a trace that count only until something better follows.
 *
 * A checkpoint is a run of packets after a head. The head is a packet with one field of bytes,
 * `withdrawn`. If the field's length is 0, readers continue with the packets after it. If it is the
 * length of all those packets, readers skip them as the value of an unknown field. So eight bytes
 * of the file decide for every reader. While a checkpoint is being written, the length is larger
 * than the rest of the file: to a reader the file is cut off at the head.
 *
 * A process that is killed in the middle of a write may leave a part of it, up to a page's end.
 * Therefore a head never crosses a page boundary.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pb_field_numbers.h"
#include "trace/write/writer_state.h"
#include "util/write_all.h"

/* Less than the largest packet that readers take (TRACE_READER_PACKET_BYTES_MAX). */
#define CHECKPOINT_BYTES_MAX (UINT64_C(128) << 20)

#define PAGE_BYTES 4096
#define LENGTH_BYTES 5 /* a varint of up to 2^35 */
#define FIELD_KEY_BYTES 3
#define INNER_BYTES (FIELD_KEY_BYTES + LENGTH_BYTES)
_Static_assert(TRACE_CHECKPOINT_HEAD_BYTES == 1 + LENGTH_BYTES + INNER_BYTES, "the head's parts");

/* Write a varint of fixed length. */
static void put_length(uint8_t *at, uint64_t value)
{
    for (int i = 0; i < LENGTH_BYTES; i++)
        at[i] = (uint8_t)((value >> 7 * i & 0x7f) | (i < LENGTH_BYTES - 1 ? 0x80 : 0));
}

void trace_checkpoint_make_head(uint8_t head[TRACE_CHECKPOINT_HEAD_BYTES], uint64_t withdrawn)
{
    uint8_t key[PROTO_VARINT_BYTES_MAX];
    head[0] = PB_TRACE_PACKET << 3 | 2;
    put_length(head + 1, INNER_BYTES + withdrawn);
    _Static_assert(PB_TRACE_PACKET_WITHDRAWN >> 11 > 0 && PB_TRACE_PACKET_WITHDRAWN >> 18 == 0,
                   "a key of three bytes");
    proto_encode_varint(key, (uint64_t)PB_TRACE_PACKET_WITHDRAWN << 3 | 2);
    for (int i = 0; i < FIELD_KEY_BYTES; i++)
        head[1 + LENGTH_BYTES + i] = key[i];
    put_length(head + 1 + LENGTH_BYTES + FIELD_KEY_BYTES, withdrawn);
}

/* Return the file offset of the next byte, or -1 if we do not control it. */
static int64_t position_of(const struct trace_writer *writer)
{
    struct stat status;
    int64_t position = writer->start + (int64_t)writer->bytes;
    int flags = fcntl(writer->fd, F_GETFL);
    bool is_ours = writer->start >= 0 && fstat(writer->fd, &status) == 0 &&
                   S_ISREG(status.st_mode) && flags >= 0 && (flags & O_APPEND) == 0 &&
                   lseek(writer->fd, 0, SEEK_CUR) == position;
    return is_ours ? position : -1;
}

/* Write bytes that are not a packet of this writer. */
static int write_raw(struct trace_writer *writer, const uint8_t *bytes, size_t length)
{
    if (writer->error == 0)
        writer->error = write_all(writer->fd, bytes, length);
    if (writer->error == 0)
        writer->bytes += length;
    return writer->error;
}

static int rewrite_head(struct trace_writer *writer, int64_t offset, uint64_t withdrawn)
{
    uint8_t head[TRACE_CHECKPOINT_HEAD_BYTES];
    trace_checkpoint_make_head(head, withdrawn);
    ssize_t written;
    do
        written = pwrite(writer->fd, head, sizeof(head), offset);
    while (written < 0 && errno == EINTR);
    /* The present bytes there could make everything after them unreadable. */
    if (written != (ssize_t)sizeof(head) && writer->error == 0)
        writer->error = written < 0 ? -errno : -EIO;
    return writer->error;
}

struct trace_writer *trace_writer_begin_checkpoint(struct trace_writer *writer,
                                                   struct trace_checkpoint *checkpoint)
{
    static const uint8_t empty_packet[] = {PB_TRACE_PACKET << 3 | 2, 0};
    uint8_t head[TRACE_CHECKPOINT_HEAD_BYTES];
    int64_t position = writer->error < 0 ? -1 : position_of(writer);
    struct trace_writer *part = position < 0 ? NULL : trace_writer_open(writer->fd);
    if (part == NULL)
        return NULL;
    while (position % PAGE_BYTES > PAGE_BYTES - TRACE_CHECKPOINT_HEAD_BYTES) {
        write_raw(writer, empty_packet, sizeof(empty_packet));
        position += (int64_t)sizeof(empty_packet);
    }
    trace_checkpoint_make_head(head, CHECKPOINT_BYTES_MAX);
    if (write_raw(writer, head, sizeof(head)) < 0) {
        trace_writer_close(part);
        return NULL;
    }
    part->sequence = TRACE_SEQUENCE_CHECKPOINT;
    part->bytes_max = CHECKPOINT_BYTES_MAX;
    part->files = writer->files;
    *checkpoint = (struct trace_checkpoint){.offset = position};
    return part;
}

int trace_writer_end_checkpoint(struct trace_writer *writer, struct trace_writer *part,
                                struct trace_checkpoint *checkpoint)
{
    int code = trace_writer_close(part);
    int64_t end = lseek(writer->fd, 0, SEEK_CUR);
    if (end < checkpoint->offset + TRACE_CHECKPOINT_HEAD_BYTES) {
        writer->error = end < 0 ? -errno : -EIO;
        return writer->error;
    }
    /* A failed packet may have left a part of itself. */
    checkpoint->bytes = (uint64_t)(end - checkpoint->offset) - TRACE_CHECKPOINT_HEAD_BYTES;
    writer->bytes += checkpoint->bytes;
    int headed = rewrite_head(writer, checkpoint->offset, code == 0 ? 0 : checkpoint->bytes);
    if (code < 0)
        *checkpoint = (struct trace_checkpoint){0};
    return headed < 0 ? headed : code;
}

int trace_writer_withdraw_checkpoint(struct trace_writer *writer,
                                     struct trace_checkpoint *checkpoint)
{
    int code = 0;
    if (checkpoint->offset > 0)
        code = rewrite_head(writer, checkpoint->offset, checkpoint->bytes);
    *checkpoint = (struct trace_checkpoint){0};
    return code;
}
