/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes a Perfetto trace as a stream of packets: interns repeated data, keeps packets under
 * TRACE_PACKET_BYTES_MAX, and keeps only one packet and the intern tables in memory.
 *
 * Every function returns 0 or a negative errno (of the failed write). After an error all later
 * calls return the same error, so a caller may check only once, at trace_writer_close().
 */
#ifndef HEAPPROFD_TRACE_WRITE_TRACE_WRITER_H
#define HEAPPROFD_TRACE_WRITE_TRACE_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace/frame_kind.h"
#include "trace/heap_dump.h"
#include "trace/live_times.h"
#include "trace/trace_figures.h"

#define TRACE_PACKET_BYTES_MAX (500u * 1000u)

struct trace_writer;

/* Return a writer to fd (not owned) at its current offset. NULL: no memory. */
struct trace_writer *trace_writer_open(int fd);

/* Return a writer of packets for Perfetto's tracing service, which adds the fields that only it may
 * write: a packet with one of them would be rejected. The service may lose packets. So the dumps of
 * a process do not rely on earlier packets: they have their own tables of names and stacks. (Were
 * they in InternedData, Perfetto's trace processor would need its state cleared after a loss, and
 * with the state it forgets the counters of earlier dumps, and counts them again.) NULL: no memory.
 */
struct trace_writer *trace_writer_open_for_service(int fd);

/* Return a writer of packets without those fields for the collector, which cuts them into traces at
 * each trace_writer_restart(). NULL: no memory. */
struct trace_writer *trace_writer_open_for_collector(int fd);

/* Clear the incremental state, so that a reader that has none of the earlier packets understands
 * the later ones: everything that a packet refers to is written again before its next use. Ids stay
 * valid. Call it between dumps. Packets for the service have no such state. */
int trace_writer_restart(struct trace_writer *writer);

/* Flush and free. Return the first error since opening. */
int trace_writer_close(struct trace_writer *writer);

/* Return the number of bytes written so far. */
uint64_t trace_writer_bytes(const struct trace_writer *writer);

/* --- checkpoints: packets that are withdrawn when they are no longer needed --- */

/* A checkpoint of a trace. Zeros: there is none yet. */
struct trace_checkpoint {
    int64_t offset; /* of its head in the file; 0: none */
    uint64_t bytes; /* of its contents after the head */
};

/* Begin a checkpoint. Return a separate writer for it, with its own ids. Until its end nothing else
 * is written, and readers do not see it. Return NULL if there is no memory or we do not control the
 * file position (a pipe, a file opened to append, a position that somebody moved); the trace stays
 * unchanged in that case. */
struct trace_writer *trace_writer_begin_checkpoint(struct trace_writer *writer,
                                                   struct trace_checkpoint *checkpoint);
/* End a checkpoint, and close `part`. From now on readers see it, unless there was an error (a
 * negative errno): then they never see it. */
int trace_writer_end_checkpoint(struct trace_writer *writer, struct trace_writer *part,
                                struct trace_checkpoint *checkpoint);
/* Withdraw a checkpoint: from now on readers skip it. */
int trace_writer_withdraw_checkpoint(struct trace_writer *writer,
                                     struct trace_checkpoint *checkpoint);

#define TRACE_CHECKPOINT_HEAD_BYTES 14
/* Make the head of a checkpoint of which readers skip `withdrawn` bytes. Its lengths have a fixed
 * size, so that it can be rewritten in place. */
void trace_checkpoint_make_head(uint8_t head[TRACE_CHECKPOINT_HEAD_BYTES], uint64_t withdrawn);

/* --- the head of a trace --- */

int trace_writer_clock_snapshot(struct trace_writer *writer); /* all six builtin clocks, now */
int trace_writer_uuid(struct trace_writer *writer);           /* random, version 4 */
int trace_writer_system_info(struct trace_writer *writer);    /* uname, page size, cpus, RAM */
/* Write a serialized TraceConfig message (see trace_config.h). */
int trace_writer_config(struct trace_writer *writer, const void *bytes, size_t length);

struct trace_process {
    int32_t pid, parent_pid, uid;
    const char *const *arguments; /* cmdline */
    size_t argument_count;
    bool arguments_are_comm;
    uint64_t start_boottime_ns; /* process_start_from_boot */
    const char *name;           /* of the program; NULL: unknown; our own field */
    uint64_t image; /* number of the program that the process runs: it changes with each exec; 0:
                       unknown; our own field */
};
struct trace_thread {
    int32_t tid, pid;
    const char *name;
};
int trace_writer_process_tree(struct trace_writer *writer, const struct trace_process *processes,
                              size_t process_count, const struct trace_thread *threads,
                              size_t thread_count);

/* --- interning: ids start at 1 and are valid as long as the writer --- */

struct trace_mapping {
    const char *path; /* "/usr/lib/libc.so.6", "[vdso]", or "" */
    const uint8_t *build_id;
    size_t build_id_length;
    uint64_t start, end, exact_offset, load_bias;
};
/* Return the same id for equal mappings. Mappings of one file (path, build id, exact_offset,
 * load_bias) at different addresses have two ids: the first has its addresses in the trace, and all
 * others share a mapping whose start and end are 0. Return 0 on error. */
uint64_t trace_writer_mapping(struct trace_writer *writer, const struct trace_mapping *mapping);
/* Return whether the mapping has its addresses in the trace. The same for a trace and its
 * checkpoints. */
bool trace_writer_has_place(struct trace_writer *writer, const struct trace_mapping *mapping);

/* Return the id of a frame. `mapping` 0: none. `name` NULL or "": unknown. Names are mangled, as in
 * the symbol table. */
uint64_t trace_writer_frame(struct trace_writer *writer, uint64_t mapping, uint64_t rel_pc,
                            const char *name);

/* Return the id of a frame of generated code, which may get its name later (trace_writer_symbols).
 */
uint64_t trace_writer_jit_frame(struct trace_writer *writer, uint64_t mapping, uint64_t pc);

/* Return the id of a frame of an interpreted language. It has a name and a line, and no address:
 * its rel_pc is a hash of these, the same in every process. */
struct trace_source {
    const char *function;
    const char *file; /* "": unknown */
    uint32_t line;    /* 0: unknown */
};
uint64_t trace_writer_source_frame(struct trace_writer *writer, uint64_t mapping,
                                   const struct trace_source *source);

/* Return the id of a callstack, given its frames innermost first (the trace has the reverse order).
 * A truncated stack gets an outermost frame named TRACE_TRUNCATED_FRAME. A stack that ended in an
 * error gets one named by `ending` (NULL: none), such as TRACE_NO_UNWINDING_FRAME. */
uint64_t trace_writer_callstack(struct trace_writer *writer, const uint64_t *frames, size_t count,
                                const char *ending);

/* Return the id of a frame that is only a name: of a thread, of a scope, or why frames are missing.
 */
uint64_t trace_writer_marker(struct trace_writer *writer, const char *name);

/* Return the id of a type or scope, and of nested scopes, outermost first. */
uint64_t trace_writer_heap_name(struct trace_writer *writer, const char *name);
uint64_t trace_writer_heap_context(struct trace_writer *writer, const uint64_t *names,
                                   size_t count);

/* --- names that become known after the frames were written --- */

struct trace_symbol {
    uint64_t address; /* a frame's rel_pc */
    const char *function;
    const char *file; /* NULL: unknown */
    uint32_t line;    /* 0: unknown */
    enum trace_frame_kind kind;
};
/* Write names of frames in the mapping with this path and without a build id. Call it after the
 * dumps that use them: readers search for the mapping. */
int trace_writer_symbols(struct trace_writer *writer, const char *path,
                         const struct trace_symbol *symbols, size_t count);

/* --- dumps --- */

struct trace_heap_sample {
    uint64_t callstack;
    struct trace_figures figures;
    struct trace_peak_figures peak;
    /* Figures by thread, type and context; may be NULL. Their sum is `figures`. */
    const struct trace_thread_figures {
        int32_t tid;
        struct trace_figures figures;
        uint64_t type, context; /* ids; 0: none */
        /* Only written if a part of the sample has a type or a context. */
        struct trace_peak_figures peak;
    } * threads;
    size_t thread_count;
    const struct trace_live_times *times; /* NULL: unknown */
};

/* Write a dump: begin, any number of samples, end. The writer splits it into packets. */
int trace_writer_dump_begin(struct trace_writer *writer, const struct trace_heap_dump *dump);
int trace_writer_dump_sample(struct trace_writer *writer, const struct trace_heap_sample *sample);
int trace_writer_dump_end(struct trace_writer *writer);
/* End the dumps of a process: one for each heap. Ids of frames and stacks are not valid after it.
 */
int trace_writer_dumps_end(struct trace_writer *writer);

/* --- the stream of all events: a packet has the events of one process. It is written when it is
 * full, before an event of another process, and at a flush --- */

struct trace_stream_event {
    int32_t pid;
    uint32_t heap;
    uint64_t sequence; /* order of all events of the process, from 1 */
    uint64_t address;
    /* Of allocations only. */
    uint64_t size;
    double count;          /* number of allocations that it represents */
    uint64_t timestamp_ns; /* CLOCK_MONOTONIC_COARSE */
};
int trace_writer_stream_allocation(struct trace_writer *writer,
                                   const struct trace_stream_event *event);
int trace_writer_stream_free(struct trace_writer *writer, const struct trace_stream_event *event);
/* Record that the last free of this address did not happen. */
int trace_writer_stream_undone(struct trace_writer *writer, const struct trace_stream_event *event);
int trace_writer_stream_flush(struct trace_writer *writer);

/* --- slices: the scopes of threads. They are written at the latest at a flush of the stream --- */

/* Describe a thread's track. Its number is unique in the trace. */
int trace_writer_thread_track(struct trace_writer *writer, uint64_t track,
                              const struct trace_thread *thread);
int trace_writer_slice_begin(struct trace_writer *writer, uint64_t track, uint64_t boottime_ns,
                             const char *name);
/* End the track's innermost slice. `doubt`: why its end may be another; NULL: it is exact. */
int trace_writer_slice_end(struct trace_writer *writer, uint64_t track, uint64_t boottime_ns,
                           const char *doubt);

/* Processes of one name that the session saw but did not profile; our own packet. */
struct trace_unprofiled {
    int32_t pid, parent_pid; /* of the first one */
    uint64_t count;          /* 0: unknown, perhaps none */
    const char *kind;        /* the reason as one word, for scripts */
    const char *name;        /* comm */
    const char *reason;      /* text for users, with the remedy */
    bool by_choice;          /* the user selected other processes */
};
int trace_writer_unprofiled(struct trace_writer *writer, const struct trace_unprofiled *process);

#endif
