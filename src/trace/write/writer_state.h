/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared state of the writer's parts: a trace that is being written, and how a packet is written.
 * trace_writer.c owns it, trace_intern.c and trace_dump.c add their data, and trace_head.c writes
 * single packets.
 */
#ifndef HEAPPROFD_TRACE_WRITE_WRITER_STATE_H
#define HEAPPROFD_TRACE_WRITE_WRITER_STATE_H

#include <sys/types.h>

#include "trace/intern.h"
#include "trace/proto_buffer.h"
#include "trace/write/trace_writer.h"

/* Limit of the size of a packet's own fields and the heads of its messages. */
#define PACKET_OVERHEAD_BYTES 1024u
/* Longer strings are truncated: they are names, and must fit in a packet. */
#define PACKET_STRING_BYTES_MAX (64u * 1024u)

/* A session writes one sequence. Each checkpoint restarts the second one. */
#define TRACE_SEQUENCE_MAIN 1u
#define TRACE_SEQUENCE_CHECKPOINT 2u

/* trace_peaks.c: parts of maxima, in whole bytes and allocations. */
struct trace_peak {
    uint64_t bytes, count;             /* in this dump */
    uint64_t freed_bytes, freed_count; /* sums of all decreases from dump to dump */
};

struct trace_peaks {
    struct peak_heap *heaps;
    size_t count, capacity;
    ssize_t current; /* heap whose dump is being written; -1: none that is kept */
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
    int64_t start;      /* offset of the first byte in the file; -1: not seekable */
    uint64_t bytes_max; /* limit of `bytes` */
    int error;          /* negative errno of the first failure */
    uint64_t begin_ns;  /* CLOCK_BOOTTIME when it was opened */
    uint64_t time_ns;   /* of the next packets; 0: the present */
    uint64_t bytes;
    bool for_service;    /* the tracing service may lose packets: dumps have their own tables */
    bool omits_trusted;  /* fields that only the tracing service may write */
    bool has_first;      /* the sequence's first packet is written */
    bool sequence_begun; /* and since the last restart one more */
    struct proto_buffer packet;   /* reused for every packet */
    struct proto_buffer waiting;  /* packets from packet_end_soon() */
    struct proto_buffer interned; /* InternedData not yet written; with for_service, tables of a
                                     ProfilePacket */
    bool has_tables, has_dumps;   /* with for_service: since the last trace_writer_dumps_end() */
    struct intern_table strings, paths, source_paths, build_ids, mappings, frames, callstacks;
    struct intern_table heap_names, heap_contexts, event_names, event_categories;
    struct trace_files own_files, *files;
    struct proto_buffer key;     /* key of the current look-up */
    struct proto_buffer scratch; /* one entry */

    uint64_t profile_packets; /* ProfilePacket.index */
    bool in_dump, dump_at_max;
    struct proto_buffer
        dump_head; /* ProcessHeapSamples without its samples; written once per dump */
    struct proto_buffer dump_again;   /* the part of it that every further packet repeats */
    struct proto_buffer dump_samples; /* samples not yet written */
    bool dump_head_written;
    struct trace_peaks peaks;

    int32_t stream_pid; /* process of the waiting events */
    struct proto_buffer stream_allocations, stream_frees;
    bool stream_has_counts;
};

enum sequence_use { SEQUENCE_PLAIN, SEQUENCE_NEEDS_INTERNED };

/* Begin a packet in writer->packet (timestamp, sequence). packet_end() writes it to the file. */
void packet_begin(struct trace_writer *writer, uint64_t boottime_ns, enum sequence_use use);
int packet_end(struct trace_writer *writer);
/* End one of many small packets: it is written with later ones, at the latest by
 * packet_write_waiting(), and in its order among all packets. */
int packet_end_soon(struct trace_writer *writer);
int packet_write_waiting(struct trace_writer *writer);

/* Write a packet with this one message. */
int packet_write_message(struct trace_writer *writer, uint32_t field,
                         const ProtobufCMessage *message);

/* Return the id of a text in a table whose entries are written as this field of InternedData: an id
 * and the text. 0: no memory. */
uint64_t packet_intern_string(struct trace_writer *writer, struct intern_table *table,
                              uint32_t field, const void *bytes, size_t length);

/* Put the newly interned data into the current packet. Not with for_service. */
void packet_put_interned(struct trace_writer *writer);
/* Write the newly interned data as a separate packet, if there is any. */
int packet_flush_interned(struct trace_writer *writer);
/* Write a ProfilePacket with the waiting tables (for_service) or interned data, and with a heap's
 * head and samples (NULL: none). */
int packet_write_profile(struct trace_writer *writer, const struct proto_buffer *head,
                         const struct proto_buffer *samples, bool continued);
/* Let everything that is interned be written again before its next use. */
int packet_forget_interned(struct trace_writer *writer);

/* Begin and end the dump of a heap with dump_at_max. The heap is dropped after its final dump. */
int trace_peaks_begin(struct trace_peaks *peaks, int32_t pid, const char *name, bool final);
void trace_peaks_end(struct trace_peaks *peaks);
/* Set by how much the callstack decreased in `bytes` and `count` over all dumps together. Return 0
 * or -ENOMEM. */
int trace_peaks_next(struct trace_peaks *peaks, uint64_t callstack, struct trace_peak *peak);
void trace_peaks_free(struct trace_peaks *peaks);

/* Return the time for the next packet: the present, unless trace_writer_set_time() said another. */
uint64_t packet_time_ns(const struct trace_writer *writer);

#endif
