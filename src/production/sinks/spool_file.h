/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file that keeps one message of a sink: a head of fixed size, the message's three texts, and
 * its body. A checksum over everything finds files that were cut or changed.
 */
#ifndef HEAPPROFD_PRODUCTION_SINKS_SPOOL_FILE_H
#define HEAPPROFD_PRODUCTION_SINKS_SPOOL_FILE_H

#include "production/sinks/sink.h"

/* Larger messages are refused: they would not fit into memory beside others. */
#define SPOOL_FILE_BODY_BYTES_MAX (64u << 20)
#define SPOOL_FILE_TEXT_BYTES_MAX (8u << 10)
#define SPOOL_FILE_BYTES_MAX (SPOOL_FILE_BODY_BYTES_MAX + 4 * SPOOL_FILE_TEXT_BYTES_MAX)

/* What the head says. */
struct spool_file_head {
    int64_t created_ns; /* since 1970 */
    uint64_t periods;
};

#define SPOOL_FILE_HEAD_BYTES 56u

/* Return the size of a message's file, or -EMSGSIZE. */
int64_t spool_file_size(const struct sink_message *message);

/* Write a message to an empty file. Return 0 or a negative errno. */
int spool_file_write(int fd, const struct sink_message *message, int64_t created_ns);

/* Read the head from the first bytes of a file of `size` bytes. Return 0, or -EBADMSG if the file
 * cannot be a whole message. */
int spool_file_read_head(const uint8_t *bytes, size_t length, uint64_t size,
                         struct spool_file_head *head);

/* Read a whole file. The message points into `bytes`. Return 0, or -EBADMSG if it is damaged. */
int spool_file_read(const uint8_t *bytes, size_t size, struct sink_message *message);

#endif
