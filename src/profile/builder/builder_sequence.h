/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The packets of one sequence: its interned data, resolved when they are used, and the snapshots
 * that are collected from them (see builder.h for the files).
 */
#ifndef HEAPPROFD_PROFILE_BUILDER_BUILDER_SEQUENCE_H
#define HEAPPROFD_PROFILE_BUILDER_BUILDER_SEQUENCE_H

#include "profile/builder/builder.h"

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

/* Make dumps of the pending snapshots. */
void builder_commit(struct builder *builder, struct builder_sequence *sequence);
/* Make dumps of snapshots whose last packet is missing. Return true if there were any. */
bool builder_commit_rest(struct builder *builder);

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

#endif
