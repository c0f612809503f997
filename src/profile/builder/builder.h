/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Builds a profile from packets, in one pass. Shared data and functions of the builder's parts:
 *
 *   builder.c              the profile's tables: strings, mappings, frames, callsites
 *   builder_packet.c       dispatch of packets; the timeline
 *   builder_processes.c    names of processes and threads
 *   builder_clocks.c       ClockSnapshots: conversion of times to trace time
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

#include "profile/builder/builder_tracks.h"
#include "profile/builder/profile_read.h"
#include "profile/profile_owner.h"
#include "trace/intern.h"
#include "trace/proto_members.h"
#include "util/id_map.h"

struct builder_sequence;

/* A session of the tracing service has a few. */
#define BUILDER_BUFFERS_MAX 64u

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

    struct intern_table mapping_ids, frame_ids, symbol_ids;
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

    /* The symbols of an address from ModuleSymbols: its lines, innermost first. */
    struct builder_symbol {
        size_t first_line;
        uint32_t line_count;
        uint32_t kind;            /* of the frame, unless it is 0 */
        uint64_t function_offset; /* of an address without lines, from its function's start */
    } * symbols;
    struct builder_line {
        uint32_t name, source_file, line; /* the first two are string indexes */
        bool has_line;                    /* the trace contains the line, even if it is 0 */
    } * symbol_lines;
    size_t symbol_line_count, symbol_line_capacity;
    size_t kept_line_capacity; /* of profile.symbol_lines */
    size_t symbol_count, symbol_capacity;
    bool keeps_lines; /* further symbols without a line replace none with one */

    struct builder_deobfuscation *deobfuscation; /* NULL: the trace has no mappings */
    struct id_map packages;                      /* Android user id -> string of its package */

    /* See builder_mention(). */
    struct builder_mentions {
        struct dated_mention {
            struct profile_mention who;
            uint64_t time_ns, clock, order;
        } * items;
        size_t count, capacity;
        struct id_map ids;
        uint64_t latest_ns; /* of any packet, by the trace's clock */
    } mentions;

    struct builder_tracks tracks;

    struct builder_sequence *sequences; /* sequences with tables or heaps */
    struct pending_dump *spare;         /* empty arrays for the next one; NULL: none */
    size_t sequence_count, sequence_capacity;
    struct id_map sequence_ids;
    struct id_map default_clocks; /* by sequence id, for packets without a clock */
    uint64_t frames_over_limit;   /* frames that were not looked up in a map because of the limit */
    uint64_t crowded_packets;     /* packets that were dropped because of too many sequences */

    struct builder_clocks {
        struct clock_reading {
            uint64_t
                clock; /* its id; the upper half is the sequence, if the clock belongs to one */
            int64_t reading_ns, trace_ns;
            uint32_t snapshot; /* number */
        } * readings;
        struct clock_kind {
            uint64_t clock, unit_ns;
            bool is_incremental; /* each time is relative to the previous one */
            uint64_t last_ns;
        } * kinds; /* of clocks whose times are not plain ns */
        struct id_map kind_ids;
        struct dated {
            enum dated_kind {
                DATED_MEMORY_POINT, /* of a process */
                DATED_SMAPS,
                DATED_MEMORY_SNAPSHOT,
                DATED_END,  /* of a process */
                DATED_HEAP, /* the heap's last packet */
                DATED_COUNTER,
                DATED_LIFETIME,
                DATED_STACK_SAMPLE,
            } kind;
            uint32_t owner, index;
            uint64_t clock;
        } * late;              /* items with times of other clocks than the trace's */
        uint64_t trace_clock;  /* 0: unknown so far */
        uint64_t packet_clock; /* 0: the trace's */
        size_t reading_count, reading_capacity, kind_count, kind_capacity, late_count,
            late_capacity;
        uint32_t snapshot_count;
    } clocks;
    /* See builder_counters_take(). */
    struct builder_counters {
        struct intern_table ids; /* by heap, sequence, callstack id and callsite */
        struct counter_values {
            double allocated_bytes, freed_bytes, allocated_count, freed_count;
        } * last;              /* by id: the last values in the trace */
        struct id_map sums_of; /* by heap and callsite */
        struct counter_sum {
            struct counter_values sum;
            struct counter_values decrease; /* decreases in this dump; only if as_in_trace */
            uint64_t given;                 /* number of the dump that contains the sum */
        } * sums;
        size_t last_capacity, sum_count, sum_capacity;
    } counters;
    uint64_t packets, damaged_packets, missing_packets, missing_frames;
    uint64_t missing_contexts; /* ids of StackSamples without a meaning */
    uint64_t dropped;          /* packets that follow dropped ones of their sequence */
    /* What the tracing service says of itself, if it recorded the trace. */
    struct builder_service {
        uint64_t chromium_interval_bytes; /* of its heap profiler; 0: not in the trace */
        uint64_t heap_buffers;            /* a bit for each buffer with a heap profile */
        uint32_t stop_timeout_ms;         /* that it waits for the last dumps */
        bool has_ended;                   /* the session: the trace has its statistics */
        struct builder_buffer {
            uint64_t overwritten, discarded; /* chunks that nobody read */
            uint64_t lost;                   /* packets, or runs of packets */
        } buffers[BUILDER_BUFFERS_MAX];
    } service;
    struct builder_stack_samples *stack_samples; /* NULL: the trace has had none so far */
    uint32_t machine; /* of the packet that is being read; 0: the one that recorded the trace */
    uint64_t carried_samples;
    uint64_t dumps;         /* number of dumps made so far, of all heaps */
    size_t context_bytes;   /* total length of all joined names */
    uint64_t unknown_names; /* types and contexts without a name when they were used */
    /* Scratch data of builder_dump.c, by callsite: place_base + 1 + the index of the pending dump's
     * sample (smaller values are left from an earlier dump), and 1 + the index of the previous
     * dump's sample. And the parts of several samples. */
    struct builder_places {
        uint32_t pending, before;
    } * places;
    uint32_t place_base;
    size_t place_count;
    struct profile_part *parts;
    size_t part_capacity;
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
/* Record that a Perfetto packet of this time names a process, or its thread if tid is not 0. */
void builder_mention(struct builder *builder, int32_t pid, int32_t tid, uint64_t packet_ns);
/* Record that the item that was just added has the packet's time, which later becomes trace time.
 */
void builder_date(struct builder *builder, enum dated_kind kind, uint32_t owner, size_t index);

/* Return memory that lives as long as the profile: for any data, or for one sample. NULL after an
 * error. */
void *builder_memory(struct builder *builder, size_t bytes);
struct profile_sample *builder_sample(struct builder *builder);
/* Pass malloc'd samples to the profile. Return 0 or -ENOMEM; after an error the caller still owns
 * them. */
int builder_take_over(struct builder *builder, struct profile_sample *samples, size_t count);

/* --- sequences --- */

/* Interned data of one sequence, as in the trace. Entries may come in any order, so references are
 * resolved only when a callstack is used. */
struct builder_sequence {
    struct id_map names, paths, source_paths, build_ids; /* string indexes */
    struct id_map heap_names;                            /* string indexes */
    bool has_packet_tables; /* the tables came in ProfilePackets: they end with the snapshot */
    struct sequence_stacks *stacks;                       /* NULL: nothing of stack samples */
    struct id_map mappings, frames, callstacks, contexts; /* indexes of the items below */
    struct sequence_mapping {
        uint64_t build_id;
        struct profile_mapping mapping;
        size_t first_path;
        uint32_t path_count;
        uint32_t resolved, round;
        bool is_shared; /* by all processes: it is in a ProfilePacket */
    } * mapping_items;
    struct sequence_frame {
        uint64_t name, mapping, source_path, rel_pc;
        uint32_t line, kind, kind_name; /* kind_name is a string */
        bool is_named, has_line, has_kind;
    } * frame_items;
    struct sequence_resolved {
        uint32_t frame, round;
    } * frames_resolved; /* by frame item */
    size_t frames_resolved_capacity;
    struct sequence_callstack {
        size_t first_byte; /* of the message in stack_bytes */
        uint32_t byte_count;
        uint32_t resolved, round;
    } * callstack_items;
    struct sequence_context {
        size_t first_name;
        uint32_t name_count;
        uint32_t resolved; /* string index + 1 */
    } * context_items;
    uint64_t *ids;        /* path components and names of the items above */
    uint8_t *stack_bytes; /* callstacks as in the trace, without their ids */
    size_t stack_byte_count, stack_byte_capacity;
    /* The process for which ids are resolved, and how often it has changed. An id that was resolved
     * in another round is resolved again. Only used if as_in_trace; else the round is always 0. */
    int32_t pid;
    uint32_t round;
    bool has_pid, has_several_pids; /* of the sequence's dumps */
    int32_t first_pid;
    /* The steps of the callstack that was resolved last, from the outermost frame. Successive
     * callstacks share most of them. */
    struct sequence_step {
        uint32_t callsite;
        uint32_t end; /* offset in the stack's bytes after this step */
    } * last;
    size_t last_first_byte, last_count, last_capacity;
    size_t mapping_count, mapping_capacity, frame_count, frame_capacity;
    size_t callstack_count, callstack_capacity, id_count, id_capacity;
    size_t context_count, context_capacity;

    /* The snapshots that are being collected from ProfilePackets. */
    struct pending_dump {
        uint32_t heap;
        uint64_t timestamp_ns;
        struct trace_heap_dump status;
        /* Samples as they will be in the dump, but without their callsites, parts and names. */
        struct profile_sample *samples;
        struct pending_origin {
            uint64_t callstack; /* id */
            size_t part_first;
            /* The sample of an earlier dump with the same bytes, which replaces samples[]. */
            const struct profile_sample *known;
            uint32_t kept, generation; /* in sequence->seen: index + 1, or 0 */
            bool is_counted;           /* its counters are those of Perfetto's recorder */
            bool is_single;            /* its part is sample.single, and not in parts[] */
            struct pending_tag {
                uint64_t type, context; /* ids */
            } tag;                      /* of the single part */
        } * origins;                    /* by sample */
        struct profile_part *parts;
        struct pending_tag *tags; /* by part */
        size_t sample_count, sample_capacity, origin_capacity;
        size_t part_count, part_capacity, tag_capacity;
        size_t known_count;
        bool steady; /* see its heap */
    } * pending;
    size_t pending_count, pending_capacity;
    struct intern_table pending_ids; /* by heap and timestamp, if there are many */
    /* By callstack: the bytes of its sample in the last dump of a steady heap. */
    struct sequence_seen {
        const struct profile_sample *sample; /* NULL: no sample was made from these bytes alone */
        size_t first_byte;                   /* in seen_bytes */
        uint32_t byte_count, room;
        uint32_t generation;
        uint32_t awaited; /* number of the commit for which a sample with these bytes waits */
    } * seen;
    uint8_t *seen_bytes;
    size_t seen_count, seen_byte_count, seen_byte_capacity;
    uint32_t generation;  /* incremented when an id that samples can name gets another meaning */
    uint32_t commits;     /* number of commits so far */
    bool tables_doubtful; /* packets are missing, perhaps with new meanings of ids */
    bool has_lost;        /* samples, since the beginning */
    bool gap;             /* packets of the pending snapshot are missing */
    bool cut_off;         /* because the trace ends before them */
    uint64_t next_index;
};

/* Usually each writing thread has a sequence. A sequence takes much more memory than bytes of the
 * file. */
#define SEQUENCES_MAX 32768u

/* Find or add the sequence of an id. Return 0, or -EBADMSG if there are too many. */
int builder_sequence(struct builder *builder, uint32_t id, struct builder_sequence **sequence);
void pending_free(const struct pending_dump *pending);
void sequence_clear_interned(struct builder_sequence *sequence);
void sequence_free(struct builder_sequence *sequence);

/* Read InternedData. Return -EBADMSG if it is malformed. */
int builder_interned_data(struct builder *builder, struct builder_sequence *sequence,
                          struct proto_span data);
enum interned_kind {
    INTERNED_NAME,
    INTERNED_PATH,
    INTERNED_SOURCE_PATH,
    INTERNED_BUILD_ID,
    INTERNED_ANY_STRING, /* in the only string table of Android 10 */
    INTERNED_MAPPING,
    INTERNED_PROFILE_MAPPING, /* in a ProfilePacket */
    INTERNED_FRAME,
    INTERNED_PROFILE_FRAME, /* in a ProfilePacket */
    INTERNED_CALLSTACK,
    INTERNED_HEAP_NAME,
    INTERNED_HEAP_CONTEXT,
    INTERNED_STACK_COUNTER,
    INTERNED_STACK_TASK,
    INTERNED_STACK_EXECUTION,
    INTERNED_STACK_ASYNC,
};
int builder_intern(struct builder *builder, struct builder_sequence *sequence,
                   enum interned_kind kind, struct proto_span entry);
/* Add the entries of a ProfilePacket's tables, in the trace processor's order. */
void builder_resolve_tables(struct builder *builder, struct builder_sequence *sequence,
                            struct proto_span packet);
/* Resolve ids of samples for this process from now on. */
void builder_resolve_for(struct builder *builder, struct builder_sequence *sequence, int32_t pid);
/* Return PROFILE_NONE if the trace does not have the mapping, or it is not a file. */
uint32_t builder_resolve_mapping(struct builder *builder, struct builder_sequence *sequence,
                                 uint64_t iid);
/* Return the callsite of a callstack. One without known frames gets a frame whose name states this.
 */
uint32_t builder_resolve(struct builder *builder, struct builder_sequence *sequence,
                         uint64_t callstack);
/* Return the callsite of a callstack as the trace processor does: PROFILE_NONE if the trace lacks
 * the callstack or one of its frames, or it has none. */
uint32_t builder_resolve_whole(struct builder *builder, struct builder_sequence *sequence,
                               uint32_t index);

/* Return the name of a type, and the joined names of a context; "" for id 0. */
const char *builder_resolve_type(struct builder *builder, const struct builder_sequence *sequence,
                                 uint64_t type);
const char *builder_resolve_context(struct builder *builder, struct builder_sequence *sequence,
                                    uint64_t context);

/* --- the tracing service --- */

/* Read a TraceConfig, TraceStats. Return -EBADMSG if they are malformed. */
int builder_trace_config(struct builder *builder, struct proto_span config);
int builder_trace_stats(struct builder *builder, struct proto_span stats);
/* Return what the buffers with heap profiles have lost. */
struct builder_buffer builder_service_losses(const struct builder *builder);

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

/* --- symbols --- */

/* Read ModuleSymbols. Return -EBADMSG if they are malformed. */
int builder_module_symbols(struct builder *builder, struct proto_span module);
/* Give names to the address of a frame with a mapping, the innermost function first. Return 0 or a
 * negative errno. */
int builder_name_frame(struct builder *builder, const struct profile_frame *frame,
                       const struct builder_line *lines, uint32_t count);
/* Set names and lines of frames. A frame with inlined functions becomes several frames. Call it
 * once, after everything was read. */
void builder_apply_symbols(struct builder *builder);

/* Append copies of a frame without names. Return the index of the first copy, or 0 if there is no
 * room. */
size_t builder_copy_frame(struct builder *builder, size_t index, size_t more);
/* The frames around a frame: of the functions that it was inlined into, the outermost last. */
struct builder_around {
    uint32_t first, count;
};
/* Insert the frames around each frame (`around`, by frame) between its callsites and their callers.
 */
void builder_expand_callsites(struct builder *builder, const struct builder_around *around);

/* --- deobfuscation --- */

/* Read a DeobfuscationMapping or a PackagesList. Return -EBADMSG if it is malformed. */
int builder_deobfuscation_mapping(struct builder *builder, struct proto_span mapping);
int builder_packages_list(struct builder *builder, struct proto_span list);
/* Set the names of obfuscated frames, and restore inlined calls as frames. Call it once, after
 * everything else has names. */
void builder_apply_deobfuscation(struct builder *builder);
void builder_deobfuscation_free(struct builder_deobfuscation *deobfuscation);

/* --- heaps --- */

int builder_profile_packet(struct builder *builder, struct builder_sequence *sequence,
                           struct proto_span packet, uint64_t packet_ns);
/* Take a HeapSample into the dump. Return 0 or a negative errno. */
int builder_take_sample(struct builder *builder, struct builder_sequence *sequence,
                        struct pending_dump *dump, struct proto_span entry);
/* Read parts that did not fit into their sample: they become a sample without other figures. */
int builder_take_more(struct builder *builder, struct pending_dump *dump, struct proto_span entry);
/* Append a sample to the dump. The parts of an unknown one are the last that were read. Return 0 or
 * -ENOMEM. */
int builder_put_sample(struct builder *builder, struct pending_dump *dump,
                       const struct pending_origin *origin, const struct profile_sample *sample);
enum builder_sample_kind {
    SAMPLE_OF_ITS_BYTES, /* depends only on its bytes and on the names of types and contexts */
    SAMPLE_OF_COUNTERS,  /* of Perfetto's recorder: see builder_counters_take() */
    SAMPLE_OF_PEAK,      /* or a mixture that no recorder writes */
};
/* Read a sample with its callstack, and its parts into the dump. Return 0 or a negative errno. */
int builder_read_sample(struct builder *builder, struct pending_dump *dump,
                        struct proto_span message, struct profile_sample *sample,
                        struct pending_origin *origin, enum builder_sample_kind *kind);
/* Estimate the figures that Perfetto's recorder does not write, as far as its counters allow. */
void builder_estimate_figures(struct trace_figures *figures, uint64_t interval_bytes);

/* --- counters of Perfetto's recorder --- */

/* Identity of counters. */
struct builder_counters_key {
    uint32_t heap, sequence, callsite;
    uint64_t callstack; /* id */
};
/* Add the increase of a callstack id's counters to the callsite's sum. Return 0 or -ENOMEM. */
int builder_counters_take(struct builder *builder, const struct builder_counters_key *key,
                          const struct profile_sample *sample);
/* Replace a sample's counters, after they were taken, with its callsite's sum. If the pending dump
 * has several samples of the callsite, the first one gets the sum and the others get zeros. */
void builder_counters_give(struct builder *builder, const struct builder_counters_key *key,
                           struct profile_sample *sample, uint64_t interval_bytes);
void builder_counters_free(struct builder_counters *counters);

/* --- unchanged samples --- */

/* Take a sample that has the same bytes as in an earlier dump. Return 1 if it was taken; 0 if it
 * must be read (origin->kept is the place of its bytes, if they are kept); or -ENOMEM. */
int builder_take_unchanged(struct builder *builder, struct builder_sequence *sequence,
                           struct pending_dump *dump, struct proto_span entry,
                           struct pending_origin *origin);
/* Record the sample that the kept bytes of a pending sample mean, after its dump is made. NULL: the
 * bytes alone do not determine it. */
void builder_keep_unchanged(struct builder_sequence *sequence, const struct pending_origin *origin,
                            const struct profile_sample *sample);
/* Call it before an id gets another meaning. Samples that were taken by their bytes are read
 * instead, and all kept bytes are dropped. */
void builder_forget_unchanged(struct builder *builder, struct builder_sequence *sequence);

/* --- stack samples --- */

/* Read defaults of a sequence's samples, something interned that they name, a sample. Return 0 or a
 * negative errno. */
void builder_forget_stacks(struct builder_sequence *sequence);
int builder_stack_defaults(struct builder *builder, struct builder_sequence *sequence,
                           struct proto_span defaults);
int builder_stack_counter(struct builder *builder, struct builder_sequence *sequence,
                          struct proto_span entry);
int builder_stack_task(struct builder *builder, struct builder_sequence *sequence,
                       struct proto_span entry);
int builder_stack_execution(struct builder *builder, struct builder_sequence *sequence,
                            struct proto_span entry);
int builder_stack_async(struct builder *builder, struct builder_sequence *sequence,
                        struct proto_span entry);
int builder_stack_sample(struct builder *builder, struct builder_sequence *sequence,
                         struct proto_span message, uint64_t packet_ns);
/* Make dumps of all samples that are left. */
void builder_stack_finish(struct builder *builder);
/* Number the rows of samples, after times became trace time and counters have their order. */
void builder_stack_rows_finish(struct builder *builder);
void builder_stack_free(struct builder_stack_samples *samples);

/* Make dumps of the pending snapshots. */
void builder_commit(struct builder *builder, struct builder_sequence *sequence);
/* Make dumps of snapshots whose last packet is missing. Return true if there were any. */
bool builder_commit_rest(struct builder *builder);

#endif
