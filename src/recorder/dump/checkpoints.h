/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When a session takes checkpoints: dumps of all its targets that count only until later ones
 * follow, so that a killed profiler leaves a profile. A finished trace contains none.
 *
 * The first checkpoint comes one second after the session began, or at most one second after its
 * first process joined. The next ones come when the session is twice as old, counted from the
 * second before that process joined, and from the first minute on once a minute. They take at most
 * a fiftieth of a processor. Once all together have taken more than 16 MiB, and more of the file
 * than the rest of the trace, each comes only when the session is twice as old as at the one
 * before.
 */
#ifndef HEAPPROFD_RECORDER_DUMP_CHECKPOINTS_H
#define HEAPPROFD_RECORDER_DUMP_CHECKPOINTS_H

#include <stdint.h>

#include "trace/write/trace_writer.h"

struct checkpoints {
    struct trace_checkpoint last, before; /* `before` is set while `last` is being written */
    uint64_t written_bytes;               /* of all checkpoints, including withdrawn ones */
    /* CLOCK_MONOTONIC. start_ms: the last second without a process; due_ms UINT64_MAX: never. */
    uint64_t start_ms, due_ms;
};

void checkpoints_start(struct checkpoints *checkpoints, uint64_t now_ms);

/* Return the writer for the next checkpoint, or NULL if the trace cannot have one. */
struct trace_writer *checkpoints_begin(struct checkpoints *checkpoints,
                                       struct trace_writer *writer);
/* End a checkpoint that took cost_ms of processor time. Withdraw the one before it, and set when
 * the next is due. */
void checkpoints_end(struct checkpoints *checkpoints, struct trace_writer *writer,
                     struct trace_writer *part, uint64_t cost_ms);

/* Set when the next checkpoint is due, after one that had nothing to write. */
void checkpoints_put_off(struct checkpoints *checkpoints, uint64_t now_ms);

/* Withdraw the last checkpoint: dumps of all targets follow it. */
void checkpoints_supersede(struct checkpoints *checkpoints, struct trace_writer *writer,
                           uint64_t now_ms);

/* Withdraw the last checkpoint at the end of a complete trace. */
void checkpoints_close(struct checkpoints *checkpoints, struct trace_writer *writer);

#endif
