/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Builds a profile from packets, in one pass: the profile's tables, which importers of other formats
 * fill, too, and the parts that read packets. What belongs to one part is in its own header.
 *
 *   builder.c              the profile's tables: strings, mappings, frames, callsites
 *   builder_packet.c       dispatch of packets; the timeline
 *   builder_processes.c    names of processes and threads
 *   builder_clocks.c       ClockSnapshots: conversion of times to trace time
 *   builder_end.c          how a process ended
 *   builder_service.c      what the tracing service says of the session
 *   builder_smaps.c        SmapsPackets
 *   builder_memory.c       MemorySnapshots
 *   builder_stream.c       streamed events
 *   builder_tracks.c       counter tracks, and lifetimes of threads
 *   builder_symbols.c      ModuleSymbols: names, lines and inlined frames that were found later
 *   builder_deobfuscate.c  DeobfuscationMappings: the original names of Java code
 *   builder_naming.c       which of these names a method gets
 *   builder_lines.c        the lines for which they hold
 *   builder_interned.c     interned data of each sequence
 *   builder_resolve.c      resolves its ids when they are used
 *   builder_heap.c         ProfilePackets: collects snapshots
 *   builder_sample.c       their samples
 *   builder_unchanged.c    samples that are the same as in the previous dump
 *   builder_counters.c     counters of Perfetto's recorder, which restart under a new id
 *   builder_dump.c         turns snapshots into dumps
 *   builder_stack_samples.c  StackSamples that are counted in bytes, as dumps
 *   builder_stack_rows.c     all of them as rows, for SQL
 *   builder_stack_contexts.c  what they name
 *
 * Packets are untrusted. Damage inside one spoils only that packet, and the profile's warning
 * reports it. Only lack of memory ends the building.
 */
#ifndef HEAPPROFD_PROFILE_BUILDER_BUILDER_H
#define HEAPPROFD_PROFILE_BUILDER_BUILDER_H

#include "profile/builder/builder_clocks.h"
#include "profile/builder/builder_counters.h"
#include "profile/builder/builder_service.h"
#include "profile/builder/builder_symbols.h"
#include "profile/builder/builder_tracks.h"
#include "profile/builder/profile_read.h"
#include "profile/profile_owner.h"
#include "trace/intern.h"
#include "trace/proto_members.h"
#include "util/id_map.h"

struct builder_sequence;

struct builder {
    struct profile_owner *owner;
    struct profile *profile;
    enum demangle_mode demangling; /* these two: of profile_read_options */
    bool as_in_trace;
    const struct trace_source *source; /* of profile_read_options */
    uint64_t steps;                    /* look-ups of callsites */
    int error; /* negative errno of the first error; nothing is built after it */
    /* Called from time to time while packets are read. Returns 0, or a negative errno that ends the
     * building. It must be called inside packets: a single packet can fill the file. NULL: no
     * limit. */
    int (*check)(void *context);
    void *check_context;
    uint32_t unchecked; /* items that were added since the last check */

    /* Strings of the profile, by index; 0 is "". */
    struct intern_table string_ids;
    const char **strings;
    size_t string_count, string_capacity;
    size_t chunk_left;
    char *chunk_at;

    struct intern_table mapping_ids, frame_ids;
    uint32_t *first_child;      /* by callsite; most have only one child */
    struct id_map callsite_ids; /* by parent and frame: callsites that are not a first child */
    size_t first_child_capacity;
    size_t mapping_capacity, frame_capacity, callsite_capacity;
    uint32_t *frame_names; /* string index of linkage_name, by frame */
    struct builder_mapping_texts {
        uint32_t path, build_id; /* string indexes */
    } * mapping_texts;           /* by mapping */
    size_t frame_name_capacity, mapping_text_capacity;

    size_t process_capacity, thread_capacity, heap_capacity, unprofiled_capacity;
    size_t stream_capacity, smaps_capacity, memory_snapshot_capacity;
    uint64_t smaps_bytes;         /* total of all SmapsPackets so far */
    struct id_map processes;      /* pid -> newest process of that pid */
    struct id_map threads;        /* by pid and tid */
    struct intern_table heap_ids; /* by pid, name and start */
    struct id_map newest_heaps;   /* by pid and name */
    size_t *timeline_capacities, timeline_capacity_capacity;
    size_t *dump_capacities, dump_capacity_capacity;
    struct builder_heap {
        uint32_t *callsites; /* of the last dump's samples */
        bool steady; /* most of its last dump's samples were the same as in the previous dump */
        /* Of the last dump packet. */
        uint64_t timestamp_ns, start_timestamp_ns;
        uint64_t image, exact_calls, heap_samples;
        size_t sequence; /* index */
        bool final;
    } * heaps; /* like the profile's heaps, for those that packets described */
    size_t heap_count, heaps_capacity;

    /* Parts with data of their own: each has a header. */
    struct builder_symbols symbols;
    struct builder_deobfuscation *deobfuscation; /* NULL: the trace has no mappings */
    struct id_map packages;                      /* Android user id -> string of its package */
    struct builder_tracks tracks;
    struct builder_clocks clocks;
    struct builder_mentions mentions;
    struct builder_counters counters;
    struct builder_service service;
    struct builder_stack_samples *stack_samples; /* NULL: the trace has had none so far */

    struct builder_sequence *sequences; /* sequences with tables or heaps */
    struct pending_dump *spare;         /* empty arrays for the next one; NULL: none */
    size_t sequence_count, sequence_capacity;
    struct id_map sequence_ids;
    struct id_map default_clocks; /* by sequence id, for packets without a clock */
    uint32_t machine; /* of the packet that is being read; 0: the one that recorded the trace */

    uint64_t packets;
    uint64_t dumps; /* number of dumps made so far, of all heaps */
    uint64_t carried_samples;
    size_t context_bytes; /* total length of all joined names */
    /* What is not in the profile, for its warning. */
    struct builder_losses {
        uint64_t damaged_packets, missing_packets, missing_frames;
        uint64_t missing_contexts;  /* ids of StackSamples without a meaning */
        uint64_t dropped;           /* packets that follow dropped ones of their sequence */
        uint64_t crowded_packets;   /* packets that were dropped because of too many sequences */
        uint64_t frames_over_limit; /* not looked up in a map because of the limit */
        uint64_t unknown_names;     /* types and contexts without a name when they were used */
    } losses;

    /* Scratch data of builder_dump.c. */
    struct builder_scratch {
        /* By callsite: base + 1 + the index of the pending dump's sample (smaller values are left
         * from an earlier dump), and 1 + the index of the previous dump's sample. */
        struct builder_places {
            uint32_t pending, before;
        } * places;
        uint32_t base;
        size_t place_count;
        struct profile_part *parts; /* of several samples */
        size_t part_capacity;
    } scratch;
};

/* Return NULL: no memory. */
struct builder *builder_new(const struct profile_read_options *options);
/* Read one TracePacket. Return a negative errno only if the building has ended. */
int builder_packet(struct builder *builder, struct proto_span packet);
/* Apply the data that need the whole trace, return the profile, and free the builder. `problem`:
 * what ended the reading early, or NULL. Return NULL: no memory. */
struct profile *builder_finish(struct builder *builder, const char *problem);
void builder_abandon(struct builder *builder);
/* Finish if *code is 0, else abandon and return NULL. `builder` may be NULL if *code is not 0. Set
 * *code to -ENOMEM if there is no memory to finish. */
struct profile *builder_end(struct builder *builder, int *code, const char *problem);

/* --- tables; the functions return PROFILE_NONE after an error --- */

int builder_fail(struct builder *builder);
/* Count items that are added to the profile: samples, names, frames and others. Return 0 or the
 * builder's error. */
int builder_keep(struct builder *builder, size_t count);
uint32_t builder_string(struct builder *builder, const void *bytes, size_t length);
uint32_t builder_string_of_span(struct builder *builder, struct proto_span span);
/* Intern a string and return its text. Do not index strings[] with a call that may move it. */
const char *builder_text(struct builder *builder, const void *bytes, size_t length);
const char *builder_text_of_span(struct builder *builder, struct proto_span span);
/* Like proto_store() and proto_read_members(), with texts. The latter returns -EBADMSG for a
 * malformed message, else the builder's error. */
void builder_store(struct builder *builder, const struct proto_member *members, size_t count,
                   const struct proto_field *field, void *into);
int builder_read_members(struct builder *builder, const struct proto_member *members, size_t count,
                         struct proto_span message, void *into);
/* Return the string of bytes as lower-case hex. */
uint32_t builder_hex(struct builder *builder, struct proto_span span);
/* Return the string of a build id that is given in hex, in lower case; 0 ("") if the text is not
 * hex. */
uint32_t builder_build_id(struct builder *builder, const char *text, size_t length);
uint32_t builder_mapping(struct builder *builder, const struct profile_mapping *mapping,
                         uint32_t path, uint32_t build_id);
/* Limits the sharing of a mapping to one process and one interned mapping. */
struct builder_mapping_scope {
    uint64_t process, item; /* 0: equal mappings are shared */
};
uint32_t builder_mapping_of(struct builder *builder, const struct profile_mapping *mapping,
                            uint32_t path, uint32_t build_id,
                            const struct builder_mapping_scope *scope);
struct builder_frame_key {
    uint32_t mapping;
    uint64_t rel_pc;
    uint32_t name, source_file; /* string indexes */
    uint32_t line;              /* 0: unknown */
    /* See struct profile_frame. */
    bool is_unnamed, has_line, has_symbol;
    bool is_without_lines; /* ignore files and lines when comparing frames */
};
uint32_t builder_frame_of(struct builder *builder, const struct builder_frame_key *key);
uint32_t builder_frame(struct builder *builder, uint32_t mapping, uint64_t rel_pc, uint32_t name,
                       uint32_t source_file, uint32_t line);
uint32_t builder_callsite(struct builder *builder, uint32_t parent, uint32_t frame);
uint32_t builder_process(struct builder *builder, int32_t pid);
uint32_t builder_pid_key(const struct builder *builder, int32_t pid);
/* Return memory that lives as long as the profile: for any data, or for one sample. NULL after an
 * error. */
void *builder_memory(struct builder *builder, size_t bytes);
struct profile_sample *builder_sample(struct builder *builder);
/* Pass malloc'd samples to the profile. Return 0 or -ENOMEM; after an error the caller still owns
 * them. */
int builder_take_over(struct builder *builder, struct profile_sample *samples, size_t count);

/* --- streamed events --- */

int builder_smaps(struct builder *builder, struct proto_span packet, uint64_t packet_ns);

/* --- builder_processes.c --- */

int builder_process_tree(struct builder *builder, struct proto_span tree, uint64_t packet_ns);
int builder_unprofiled(struct builder *builder, struct proto_span entry);

/* --- builder_end.c --- */

int builder_process_end(struct builder *builder, struct proto_span message, uint64_t packet_ns);

/* --- builder_memory.c --- */

int builder_memory_snapshot(struct builder *builder, struct proto_span message, uint64_t packet_ns);
int builder_streaming_allocation(struct builder *builder, struct proto_span message);
int builder_streaming_free(struct builder *builder, struct proto_span message);
/* Find how many events are missing, once all are read. */
void builder_finish_streams(struct builder *builder);

#endif
