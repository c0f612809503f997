/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the writer's parts share: the state of a trace being written, and how a
 * packet leaves. trace_writer.c owns it, trace_intern.c and trace_dump.c add
 * what they have gathered, trace_head.c writes single packets.
 */
#ifndef HEAPPROFD_TRACE_WRITE_WRITER_STATE_H
#define HEAPPROFD_TRACE_WRITE_WRITER_STATE_H

#include <sys/types.h>

#include "trace/intern.h"
#include "trace/proto_buffer.h"
#include "trace/write/trace_writer.h"

/* What a packet's own fields and the heads of its messages can take at most. */
#define PACKET_OVERHEAD_BYTES 1024u
/* Strings longer than this are cut: they are names, and a packet must hold them. */
#define PACKET_STRING_BYTES_MAX (64u * 1024u)

/* All that a session writes is of one sequence; each checkpoint begins the other one anew. */
#define TRACE_SEQUENCE_MAIN 1u
#define TRACE_SEQUENCE_CHECKPOINT 2u

/* trace_peaks.c: parts of maxima, in whole bytes and allocations. */
struct trace_peak {
    uint64_t bytes, count;             /* in this dump */
    uint64_t freed_bytes, freed_count; /* sums of all falls from dump to dump */
};

struct trace_peaks {
    struct peak_heap *heaps;
    size_t count, capacity;
    ssize_t current; /* heap whose dump is being written; -1: none that is remembered */
    bool is_final;
};

/* trace_intern.c: files, and where each has its mapping with addresses. A checkpoint uses those of
 * the trace: a process's mappings, and so its callstacks, must be the same in both. */
struct trace_files {
    struct intern_table files, places;
};

struct trace_writer {
    int fd;
    uint32_t sequence;  /* trusted_packet_sequence_id */
    int64_t start;      /* offset of the first byte in the file; -1: it has none */
    uint64_t bytes_max; /* of what it writes */
    int error;          /* negative errno of the first failure */
    uint64_t bytes;
    bool sequence_begun;
    struct proto_buffer packet;   /* reused for every packet */
    struct proto_buffer interned; /* InternedData not yet written */
    struct intern_table strings, paths, build_ids, mappings, frames, callstacks;
    struct intern_table heap_names, heap_contexts;
    struct trace_files own_files, *files;
    struct proto_buffer key;     /* what is looked up */
    struct proto_buffer scratch; /* one entry */

    uint64_t profile_packets; /* ProfilePacket.index */
    bool in_dump, dump_at_max;
    struct proto_buffer dump_head;    /* ProcessHeapSamples less its samples; once a dump */
    struct proto_buffer dump_again;   /* what of it every further packet repeats */
    struct proto_buffer dump_samples; /* samples not yet written */
    bool dump_head_written;
    struct trace_peaks peaks;

    int32_t stream_pid; /* whose events wait */
    struct proto_buffer stream_allocations, stream_frees;
    bool stream_has_counts;
};

enum sequence_use { SEQUENCE_PLAIN, SEQUENCE_NEEDS_INTERNED };

/* Begins a packet in writer->packet (timestamp, sequence); end writes it to the file. */
void packet_begin(struct trace_writer *writer, uint64_t boottime_ns, enum sequence_use use);
int packet_end(struct trace_writer *writer);

/* A packet with this one message, now. */
int packet_write_message(struct trace_writer *writer, uint32_t field,
                         const ProtobufCMessage *message);

/* Puts what was interned since the last time into the packet begun. */
void packet_put_interned(struct trace_writer *writer);
/* Writes it as a packet of its own, if there is any. */
int packet_flush_interned(struct trace_writer *writer);

/* Begin and end the dump of a heap with dump_at_max. A heap is forgotten after its final one. */
int trace_peaks_begin(struct trace_peaks *peaks, int32_t pid, const char *name, bool final);
void trace_peaks_end(struct trace_peaks *peaks);
/* Fill in by how much the callstack's `bytes` and `count` have fallen in all dumps together. */
int trace_peaks_next(struct trace_peaks *peaks, uint64_t callstack, struct trace_peak *peak);
void trace_peaks_free(struct trace_peaks *peaks);

uint64_t boottime_now_ns(void);

#endif
