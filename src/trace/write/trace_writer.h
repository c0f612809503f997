/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes a Perfetto trace as a stream of packets: interns what repeats, keeps
 * packets under TRACE_PACKET_BYTES_MAX, and holds no more than one packet and
 * the intern tables in memory.
 *
 * Every function returns 0 or a negative errno (of the failed write); after a
 * failure all later calls return the same error, so that a caller may check
 * once, at trace_writer_close.
 */
#ifndef HEAPPROFD_TRACE_WRITE_TRACE_WRITER_H
#define HEAPPROFD_TRACE_WRITE_TRACE_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace/frame_kind.h"
#include "trace/heap_dump.h"
#include "trace/trace_figures.h"

#define TRACE_PACKET_BYTES_MAX (500u * 1000u)

struct trace_writer;

/* Writes to fd (not owned) from its current offset. NULL if out of memory. */
struct trace_writer *trace_writer_open(int fd);

/* Flushes and frees; returns the first error met since opening. */
int trace_writer_close(struct trace_writer *writer);

/* Bytes written so far. */
uint64_t trace_writer_bytes(const struct trace_writer *writer);

/* --- checkpoints: packets that are taken back when they are no longer needed --- */

/* What stands between two checkpoints of one trace. Zeros: there is none yet. */
struct trace_checkpoint {
    int64_t offset; /* of its head in the file; 0: none */
    uint64_t bytes; /* after the head */
};

/* Begin a checkpoint: return a writer of its own for it, with ids of its own. Until its end,
 * nothing else is written, and readers do not see it. NULL: no memory, or the file is no ordinary
 * file whose position is ours (a pipe, one opened to append, a position that moved); the trace is
 * as it was. */
struct trace_writer *trace_writer_begin_checkpoint(struct trace_writer *writer,
                                                   struct trace_checkpoint *checkpoint);
/* End it, and close `part`. Readers see it from now on, unless something failed (0 or a negative
 * errno), in which case they never do. */
int trace_writer_end_checkpoint(struct trace_writer *writer, struct trace_writer *part,
                                struct trace_checkpoint *checkpoint);
/* Take it back: readers pass over it from now on. */
int trace_writer_withdraw_checkpoint(struct trace_writer *writer,
                                     struct trace_checkpoint *checkpoint);

/* --- what stands at the head of a trace --- */

int trace_writer_clock_snapshot(struct trace_writer *writer); /* all six builtin clocks, now */
int trace_writer_uuid(struct trace_writer *writer);           /* random, version 4 */
int trace_writer_system_info(struct trace_writer *writer);    /* uname, page size, cpus, RAM */
/* A serialized TraceConfig message (see trace_config.h). */
int trace_writer_config(struct trace_writer *writer, const void *bytes, size_t length);

struct trace_process {
    int32_t pid, parent_pid, uid;
    const char *const *arguments; /* cmdline */
    size_t argument_count;
    bool arguments_are_comm;
    uint64_t start_boottime_ns; /* process_start_from_boot */
    const char *name;           /* of the program; NULL: not told; own field */
    uint64_t image; /* the same for what one program of the process does, and another number for
                     * the next program that it becomes; 0: not told; own field */
};
struct trace_thread {
    int32_t tid, pid;
    const char *name;
};
int trace_writer_process_tree(struct trace_writer *writer, const struct trace_process *processes,
                              size_t process_count, const struct trace_thread *threads,
                              size_t thread_count);

/* One point of the timeline. */
struct trace_memory_point {
    uint64_t boottime_ns; /* packet timestamp */
    int32_t pid;
    uint64_t rss_bytes, rss_anon_bytes, vm_bytes; /* 0: unknown */
    uint64_t heap_bytes; /* estimated live bytes of all profiled heaps; own field */
};
int trace_writer_memory_point(struct trace_writer *writer, const struct trace_memory_point *point);

/* --- interning; ids are 1-based and valid for the life of the writer --- */

struct trace_mapping {
    const char *path; /* "/usr/lib/libc.so.6", "[vdso]", or "" */
    const uint8_t *build_id;
    size_t build_id_length;
    uint64_t start, end, exact_offset, load_bias;
};
/* Return the same id for equal mappings. Mappings of one file (path, build id, exact_offset,
 * load_bias) at different addresses have two ids: the first has its addresses in the trace, and all
 * others share a mapping whose start and end are 0. 0 on error. */
uint64_t trace_writer_mapping(struct trace_writer *writer, const struct trace_mapping *mapping);
/* Return whether the mapping has its addresses in the trace. The same for a trace and its
 * checkpoints. */
bool trace_writer_has_place(struct trace_writer *writer, const struct trace_mapping *mapping);

/* mapping 0: none. name NULL or "": unknown; names are as in the symbol table (mangled). */
uint64_t trace_writer_frame(struct trace_writer *writer, uint64_t mapping, uint64_t rel_pc,
                            const char *name);

/* Generated code, which may get its name later (trace_writer_symbols). */
uint64_t trace_writer_jit_frame(struct trace_writer *writer, uint64_t mapping, uint64_t pc);

/* frames innermost first (the writer reverses them). A truncated stack gets an
 * outermost frame named TRACE_TRUNCATED_FRAME, a stack that ended in an error
 * one named by `ending` (NULL: none), such as TRACE_NO_UNWINDING_FRAME. */
uint64_t trace_writer_callstack(struct trace_writer *writer, const uint64_t *frames, size_t count,
                                const char *ending);

/* A frame that is no code but a name: of a thread, of a scope, or of why frames are missing. */
uint64_t trace_writer_marker(struct trace_writer *writer, const char *name);

/* A type, or a scope; and scopes in each other, the outermost first. */
uint64_t trace_writer_heap_name(struct trace_writer *writer, const char *name);
uint64_t trace_writer_heap_context(struct trace_writer *writer, const uint64_t *names,
                                   size_t count);

/* --- names that are known only after the frames were written --- */

struct trace_symbol {
    uint64_t address; /* a frame's rel_pc */
    const char *function;
    const char *file; /* NULL: unknown */
    uint32_t line;    /* 0: unknown */
    enum trace_frame_kind kind;
};
/* Of frames in the mapping with this path and no build id. To be called after the dumps that use
 * them: readers look for the mapping. */
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
        /* Written where anything of the sample has a type or a context. */
        struct trace_peak_figures peak;
    } * threads;
    size_t thread_count;
};

/* begin, any number of samples, end. The writer splits into packets. */
int trace_writer_dump_begin(struct trace_writer *writer, const struct trace_heap_dump *dump);
int trace_writer_dump_sample(struct trace_writer *writer, const struct trace_heap_sample *sample);
int trace_writer_dump_end(struct trace_writer *writer);

/* --- the stream of all events; packets hold those of one process, and leave when they are full,
 * when another process's begin, or at a flush --- */

struct trace_stream_event {
    int32_t pid;
    uint32_t heap;
    uint64_t sequence; /* order of all events of the process, from 1 */
    uint64_t address;
    /* Of an allocation. */
    uint64_t size;
    double count;          /* allocations that it stands for */
    uint64_t timestamp_ns; /* CLOCK_MONOTONIC_COARSE */
};
int trace_writer_stream_allocation(struct trace_writer *writer,
                                   const struct trace_stream_event *event);
int trace_writer_stream_free(struct trace_writer *writer, const struct trace_stream_event *event);
/* The last free of this address did not happen. */
int trace_writer_stream_undone(struct trace_writer *writer, const struct trace_stream_event *event);
int trace_writer_stream_flush(struct trace_writer *writer);

/* Processes of one name that the session saw but did not profile; own packet. */
struct trace_unprofiled {
    int32_t pid, parent_pid; /* the first one's */
    uint64_t count;          /* 0: perhaps some, nobody knows */
    const char *kind;        /* the reason in one word, for scripts */
    const char *name;        /* comm */
    const char *reason;      /* in words for people, with what to do */
    bool by_choice;          /* the user named other processes */
};
int trace_writer_unprofiled(struct trace_writer *writer, const struct trace_unprofiled *process);

#endif
