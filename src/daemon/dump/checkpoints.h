/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When a session takes checkpoints: dumps of all its targets that the trace has only until
 * something better follows, so that a profiler that is killed leaves a profile. They are not part
 * of a trace that was finished.
 *
 * The first comes after a second. The next ones come when the session is twice as old, and from the
 * first minute on once a minute. They take at most a fiftieth of the profiler's time. Once
 * all have taken 16 MiB and more of the file than the rest of the trace has, they come only when
 * the session is twice as old.
 */
#ifndef HEAPPROFD_DAEMON_DUMP_CHECKPOINTS_H
#define HEAPPROFD_DAEMON_DUMP_CHECKPOINTS_H

#include <stdint.h>

#include "trace/write/trace_writer.h"

struct checkpoints {
    struct trace_checkpoint last, before; /* before: while the last one is written */
    uint64_t written_bytes;               /* of all, taken back or not */
    /* CLOCK_MONOTONIC; due_ms UINT64_MAX: never. */
    uint64_t start_ms, due_ms;
};

void checkpoints_start(struct checkpoints *checkpoints, uint64_t now_ms);

/* Return the writer for the next checkpoint; NULL if the trace can have none. */
struct trace_writer *checkpoints_begin(struct checkpoints *checkpoints,
                                       struct trace_writer *writer);
/* End it, take back the one before it, and set when the next is due. began_ms: when it began. */
void checkpoints_end(struct checkpoints *checkpoints, struct trace_writer *writer,
                     struct trace_writer *part, uint64_t began_ms);

/* There was nothing to write. */
void checkpoints_put_off(struct checkpoints *checkpoints, uint64_t now_ms);

/* Dumps of all targets follow the last checkpoint: take it back. */
void checkpoints_supersede(struct checkpoints *checkpoints, struct trace_writer *writer,
                           uint64_t now_ms);

/* At the end of a trace that is whole: take back the last one. */
void checkpoints_close(struct checkpoints *checkpoints, struct trace_writer *writer);

#endif
