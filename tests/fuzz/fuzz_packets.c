/* SPDX-License-Identifier: Apache-2.0 */
/* Replies with packets of a hostile tracing service: the trace has whole packets only. */
#include <string.h>

#include "fuzzing.h"
#include "recorder/tracing/consumer/packet_writer.h"
#include "trace/proto_cursor.h"

/* Check that a file consists of whole packets. Return their number. */
static uint64_t count_packets(int fd, uint64_t bytes)
{
    static uint8_t content[1 << 20];
    check(bytes <= sizeof(content) && pread(fd, content, sizeof(content), 0) == (ssize_t)bytes);
    struct proto_span rest = {content, content + bytes};
    struct proto_field field;
    uint64_t count = 0;
    int more;
    while ((more = proto_next(&rest, &field)) > 0) {
        check(field.number == 1 && field.type == PROTO_BYTES);
        count++;
    }
    check(more == 0);
    return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct packet_writer writer;
    struct error error;
    int fd = fuzz_file(NULL, NULL, 0), code = 0;
    packet_writer_init(&writer, fd, UINT64_MAX);
    /* Each reply has its length before it. */
    while (size > 1 && size <= 1 << 16 && code == 0) {
        size_t length = data[0] < size ? data[0] : size - 1;
        code = packet_writer_add(&writer, data + 1, length, &error);
        data += length + 1;
        size -= length + 1;
    }
    check(code == 0 || error.message[0] != '\0');
    /* A malformed reply may have whole packets before the error; they are written, too. */
    check(count_packets(fd, writer.bytes) == writer.packets);
    packet_writer_clear(&writer);
    close(fd);
    return 0;
}
