/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The messages of one sink that wait on disk: a directory with a file for each. A message is there
 * from before sinks_put() returns until the other side has taken it, so it outlives a restart and a
 * kill of the program. The page cache outlives both, so no file is synced: after a crash of the
 * whole machine a young message may be damaged, which its checksum shows.
 *
 * The directory's size is bounded. To make room, the oldest messages are dropped and counted.
 */
#ifndef HEAPPROFD_PRODUCTION_SINKS_SPOOL_H
#define HEAPPROFD_PRODUCTION_SINKS_SPOOL_H

#include "production/sinks/sink.h"

/* Each file counts as whole blocks of this size, so that the bound also limits the number of
 * files. */
#define SPOOL_BLOCK_BYTES 4096u

struct spool_entry {
    uint64_t sequence; /* the file's name; rises with time */
    uint64_t bytes;    /* in blocks */
    uint64_t periods;
    int64_t created_ns; /* since 1970 */
};

struct spool {
    int directory;
    struct spool_entry *entries; /* oldest first */
    size_t count, capacity;
    uint64_t bytes, bytes_max;
    uint64_t next_sequence;
    uint64_t held; /* sequence of the message that is being sent, which is not dropped; 0: none */
    uint64_t dropped_messages, dropped_periods;
    uint64_t damaged; /* files that were no messages and were removed; also among the dropped */
};

/* Open or create the directory, and find the messages of an earlier run. Damaged files are removed
 * and counted; other files stay. Return 0; -EBUSY if another process has the spool; or another
 * negative errno, with a message. */
int spool_open(struct spool *spool, const char *path, uint64_t bytes_max, struct error *error);
void spool_close(struct spool *spool);

/* Keep a message. If it cannot be kept, count it as dropped and return a negative errno with a
 * message. */
int spool_add(struct spool *spool, const struct sink_message *message, struct error *error);

/* Return the oldest message after `sequence`, or the oldest of all if there is none; NULL: the
 * spool is empty. Valid until the spool changes. */
const struct spool_entry *spool_next(const struct spool *spool, uint64_t sequence);

/* A message in memory. */
struct spool_message {
    struct sink_message message;
    uint8_t *bytes;
};

/* Read a message. Return 0, or a negative errno: -EBADMSG and -ENOENT mean that the message is
 * lost, which is counted, and that the spool has changed. */
int spool_read(struct spool *spool, uint64_t sequence, struct spool_message *message);
void spool_message_free(struct spool_message *message);

/* Remove a message. Count it as dropped unless the other side has it. */
void spool_remove(struct spool *spool, uint64_t sequence, bool is_dropped);

#endif
