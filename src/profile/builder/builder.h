/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Builds a profile from packets, in one pass. What the parts of the builder share:
 *
 *   builder.c           the profile's tables: strings, mappings, frames, callsites
 *   builder_packet.c    which packet means what; names, clocks, timeline
 *   builder_clocks.c    ClockSnapshots: times as trace time
 *   builder_smaps.c     SmapsPackets
 *   builder_memory.c    MemorySnapshots
 *   builder_symbols.c   ModuleSymbols: names, lines and inlined frames, found later
 *   builder_deobfuscate.c  DeobfuscationMappings: the names that Java code had
 *   builder_naming.c       which of them a method gets
 *   builder_lines.c        the lines that they hold for
 *   builder_interned.c  interned data of each sequence
 *   builder_resolve.c      what its ids mean, when they are used
 *   builder_heap.c      ProfilePackets: snapshots put together
 *   builder_unchanged.c    samples that stand there as in the dump before
 *   builder_counters.c     counters of Perfetto's recorder, which begin anew under a new id
 *   builder_dump.c      dumps made of them
 *
 * Everything in a packet is untrusted. Damage inside one spoils that packet and
 * is told in the profile's warning; only lack of memory ends the building.
 */
#ifndef HEAPPROFD_PROFILE_BUILDER_BUILDER_H
#define HEAPPROFD_PROFILE_BUILDER_BUILDER_H

#include "profile/id_map.h"
#include "profile/profile_owner.h"
#include "trace/intern.h"
#include "trace/proto_cursor.h"

struct builder_sequence;

struct builder {
    struct profile_owner *owner;
    struct profile *profile;
    int error; /* negative errno; nothing is built after it */
    /* Asked now and then while packets are taken: 0, or a negative errno that ends the building. A
     * packet can be all of a file. NULL: nobody bounds what is kept. */
    int (*check)(void *context);
    void *check_context;
    uint32_t unchecked; /* things that were kept since */

    /* Strings of the profile, by index; 0 is "". */
    struct intern_table string_ids;
    const char **strings;
    size_t string_count, string_capacity;
    size_t chunk_left;
    char *chunk_at;

    struct intern_table mapping_ids, frame_ids, symbol_ids;
    uint32_t *first_child;      /* by callsite; most have no other */
    struct id_map callsite_ids; /* of parent and frame: those that are no first child */
    size_t first_child_capacity;
    size_t mapping_capacity, frame_capacity, callsite_capacity;
    uint32_t *frame_names; /* string index of linkage_name, by frame */
    uint32_t *mapping_paths, *mapping_build_ids;
    size_t frame_name_capacity, mapping_path_capacity, mapping_build_id_capacity;

    size_t process_capacity, thread_capacity, heap_capacity, unprofiled_capacity;
    size_t stream_capacity, smaps_capacity, memory_snapshot_capacity;
    uint64_t smaps_bytes;         /* of all SmapsPackets so far */
    struct id_map processes;      /* pid: the newest process of that pid */
    struct id_map threads;        /* pid and tid */
    struct intern_table heap_ids; /* of pid, name and start */
    struct id_map newest_heaps;   /* of pid and name */
    size_t *timeline_capacities, timeline_capacity_capacity;
    size_t *dump_capacities, dump_capacity_capacity;
    struct builder_heap {
        uint32_t *callsites; /* of the last dump's samples */
        bool steady;         /* most of them were those of the dump before */
        /* Of the last dump that was met. */
        uint64_t timestamp_ns, start_timestamp_ns;
        bool final;
    } * heaps; /* as in the profile, of those that packets told of */
    size_t heap_count, heaps_capacity;

    /* What ModuleSymbols say of an address: its lines, innermost first. */
    struct builder_symbol {
        size_t first_line;
        uint32_t line_count;
        uint32_t kind; /* of the frame, if it is not 0 */
    } * symbols;
    struct builder_line {
        uint32_t name, source_file, line; /* the first two by string */
        bool has_line;                    /* the trace says it, even if it is 0 */
    } * symbol_lines;
    size_t symbol_line_count, symbol_line_capacity;
    size_t kept_line_capacity; /* of profile.symbol_lines */
    size_t symbol_count, symbol_capacity;

    struct builder_deobfuscation *deobfuscation; /* NULL: nothing is said of it */
    struct id_map packages;                      /* Android user id: the string of its package */

    /* See builder_meet(). */
    struct builder_meetings {
        struct dated_meeting {
            struct profile_meeting who;
            uint64_t time_ns, clock, order;
        } * items;
        size_t count, capacity;
        struct id_map ids;
        uint64_t latest_ns; /* of any packet by the trace's clock */
    } meetings;

    struct builder_sequence *sequences; /* those with tables or heaps */
    size_t sequence_count, sequence_capacity;
    struct id_map sequence_ids;
    struct id_map default_clocks; /* by sequence id, of packets that do not say theirs */
    uint64_t unasked_frames;      /* of which no map was asked, for that had cost too much */
    uint64_t crowded_packets;     /* left out, for their sequences were too many */

    struct builder_clocks {
        struct clock_reading {
            uint64_t clock; /* its id; above it the sequence, where the clock is its own */
            int64_t reading_ns, trace_ns;
            uint32_t snapshot; /* number */
        } * readings;
        struct clock_kind {
            uint64_t clock, unit_ns;
            bool is_incremental; /* each time counts from the one before */
            uint64_t last_ns;
        } * kinds; /* of clocks whose times are no plain ns */
        struct id_map kind_ids;
        struct dated {
            enum dated_kind {
                DATED_MEMORY_POINT, /* of a process */
                DATED_SMAPS,
                DATED_LOOK,
                DATED_HEAP, /* the heap's last packet */
            } kind;
            uint32_t owner, index;
            uint64_t clock;
        } * late;              /* what packets of other clocks than the trace's dated */
        uint64_t trace_clock;  /* 0: not told yet */
        uint64_t packet_clock; /* 0: the trace's */
        size_t reading_count, reading_capacity, kind_count, kind_capacity, late_count,
            late_capacity;
        uint32_t snapshot_count;
    } clocks;
    /* See builder_counters_take(). */
    struct builder_counters {
        struct intern_table ids; /* of heap, sequence, callstack id and callsite */
        struct counter_values {
            double allocated_bytes, freed_bytes, allocated_count, freed_count;
        } * last;              /* by id, as the trace had them last */
        struct id_map sums_of; /* heap and callsite */
        struct counter_sum {
            struct counter_values sum;
            struct counter_values unbelieved; /* fell in this dump; only where as_in_trace */
            uint64_t given;                   /* number of the dump that has the sum */
        } * sums;
        size_t last_capacity, sum_count, sum_capacity;
    } counters;
    uint64_t packets, damaged_packets, missing_packets, missing_frames;
    uint64_t carried_samples;
    uint64_t dumps;         /* made so far, of all heaps */
    size_t context_bytes;   /* of all joined names */
    uint64_t unknown_names; /* types and contexts that had no name when they were used */
    /* Scratch of builder_dump.c, by callsite: place_base + 1 + the index of the pending dump's
     * sample (what is not above it is left of an earlier dump), and 1 + that of the dump before;
     * and the parts of several samples. */
    struct builder_places {
        uint32_t pending, before;
    } * places;
    uint32_t place_base;
    size_t place_count;
    struct profile_part *parts;
    size_t part_capacity;
};

struct builder *builder_new(void);
/* One TracePacket. Negative only if there is no memory. */
int builder_packet(struct builder *builder, struct proto_span packet);
/* Applies what needs the whole trace and gives the profile out; frees the builder.
 * problem: what ended the reading early, or NULL. NULL: no memory. */
struct profile *builder_finish(struct builder *builder, const char *problem);
void builder_abandon(struct builder *builder);

/* --- tables; PROFILE_NONE after an error --- */

int builder_fail(struct builder *builder);
/* Note that things are kept: samples, names, frames and the like. 0, or the builder's error. */
int builder_keep(struct builder *builder, size_t count);
uint32_t builder_string(struct builder *builder, const void *bytes, size_t length);
uint32_t builder_string_of_span(struct builder *builder, struct proto_span span);
/* The same as text. Never index strings[] by a call that may move it. */
const char *builder_text(struct builder *builder, const void *bytes, size_t length);
const char *builder_text_of_span(struct builder *builder, struct proto_span span);
/* Bytes as lower-case hex. */
uint32_t builder_hex(struct builder *builder, struct proto_span span);
uint32_t builder_mapping(struct builder *builder, const struct profile_mapping *mapping,
                         uint32_t path, uint32_t build_id);
/* The same, of a process and an interned mapping that share it with no other one. */
struct builder_mapping_scope {
    uint64_t process, item; /* 0: shared by all that are equal */
};
uint32_t builder_mapping_of(struct builder *builder, const struct profile_mapping *mapping,
                            uint32_t path, uint32_t build_id,
                            const struct builder_mapping_scope *scope);
struct builder_frame_key {
    uint32_t mapping;
    uint64_t rel_pc;
    uint32_t name, source_file; /* strings */
    uint32_t line;              /* 0: unknown */
    /* See struct profile_frame. */
    bool is_unnamed, has_line, has_symbol;
    bool is_without_lines; /* the same with other files and lines is the same frame */
};
uint32_t builder_frame_of(struct builder *builder, const struct builder_frame_key *key);
uint32_t builder_frame(struct builder *builder, uint32_t mapping, uint64_t rel_pc, uint32_t name,
                       uint32_t source_file, uint32_t line);
uint32_t builder_callsite(struct builder *builder, uint32_t parent, uint32_t frame);
uint32_t builder_process(struct builder *builder, int32_t pid);
/* Note that a Perfetto packet of this time names a process, or its thread if tid is not 0. */
void builder_meet(struct builder *builder, int32_t pid, int32_t tid, uint64_t packet_ns);
/* Note that the item just added has the packet's time, which later becomes trace time. */
void builder_date(struct builder *builder, enum dated_kind kind, uint32_t owner, size_t index);

/* Memory that lives as long as the profile, for anything; and for a sample. NULL after an error. */
void *builder_memory(struct builder *builder, size_t bytes);
struct profile_sample *builder_sample(struct builder *builder);
/* Malloc'd samples and parts go over to the profile. 0 or -ENOMEM, after which they are still the
 * caller's. */
int builder_take_over(struct builder *builder, struct profile_sample *samples, size_t count,
                      struct profile_part *parts);

/* --- sequences --- */

/* Interned data of one sequence as it stands in the trace: entries may come in any
 * order, so references are followed only when a callstack is used. */
struct builder_sequence {
    struct id_map names, paths, source_paths, build_ids;  /* string indexes */
    struct id_map heap_names;                             /* string indexes */
    struct id_map mappings, frames, callstacks, contexts; /* indexes below */
    struct sequence_mapping {
        uint64_t build_id;
        struct profile_mapping mapping;
        size_t first_path;
        uint32_t path_count;
        uint32_t resolved, round;
        bool is_shared; /* by all processes: it stands in a ProfilePacket */
    } * mapping_items;
    struct sequence_frame {
        uint64_t name, mapping, source_path, rel_pc;
        uint32_t line, kind, kind_name; /* the last a string */
        bool is_named, has_line, has_kind;
    } * frame_items;
    struct sequence_resolved {
        uint32_t frame, round;
    } * frames_resolved; /* by frame item */
    size_t frames_resolved_capacity;
    struct sequence_callstack {
        size_t first_byte; /* of the message, in stack_bytes */
        uint32_t byte_count;
        uint32_t resolved, round;
    } * callstack_items;
    struct sequence_context {
        size_t first_name;
        uint32_t name_count;
        uint32_t resolved; /* string index + 1 */
    } * context_items;
    uint64_t *ids;        /* path components and names of the above */
    uint8_t *stack_bytes; /* callstacks as they stand in the trace, less their ids */
    size_t stack_byte_count, stack_byte_capacity;
    /* The process that ids are resolved for, and how often it changed: what was resolved in another
     * round is resolved again. Only where as_in_trace; elsewhere all is round 0. */
    int32_t pid;
    uint32_t round;
    bool has_pid, has_several_pids; /* of its dumps */
    int32_t first_pid;
    /* The callstack resolved last, from the outermost frame in: successive ones share most of
     * it. */
    struct sequence_step {
        uint32_t callsite;
        uint32_t end; /* bytes of the stack up to here */
    } * last;
    size_t last_first_byte, last_count, last_capacity;
    size_t mapping_count, mapping_capacity, frame_count, frame_capacity;
    size_t callstack_count, callstack_capacity, id_count, id_capacity;
    size_t context_count, context_capacity;

    /* The snapshot being put together from ProfilePackets. */
    struct pending_dump {
        uint32_t heap;
        uint64_t timestamp_ns;
        struct trace_heap_dump status;
        /* Samples as they will stand in the dump, but for their callsites, parts and names: */
        struct profile_sample *samples;
        struct pending_origin {
            uint64_t callstack; /* id */
            size_t part_first;
            /* That of a dump before, with the same bytes; it stands in place of samples[]. */
            const struct profile_sample *known;
            uint32_t kept, generation; /* of sequence->seen: index + 1, or 0 */
            bool is_counted;           /* its counters are those of Perfetto's recorder */
        } * origins;                   /* by sample */
        struct profile_part *parts;
        struct pending_tag {
            uint64_t type, context;
        } * tags; /* ids, by part */
        size_t sample_count, sample_capacity, origin_capacity;
        size_t part_count, part_capacity, tag_capacity;
        size_t known_count;
        bool steady; /* as its heap is */
    } * pending;
    size_t pending_count, pending_capacity;
    struct intern_table pending_ids; /* by heap and timestamp, where they are many */
    struct pending_dump spare;       /* empty arrays, for the next one */
    /* By callstack: the bytes of its sample as a dump of a steady heap had them. */
    struct sequence_seen {
        const struct profile_sample *sample; /* NULL: none is made of these bytes alone */
        size_t first_byte;                   /* in seen_bytes */
        uint32_t byte_count, room;
        uint32_t generation;
        uint32_t awaited; /* the commit, by number, that a sample with these bytes waits for */
    } * seen;
    uint8_t *seen_bytes;
    size_t seen_count, seen_byte_count, seen_byte_capacity;
    uint32_t generation; /* grows where an id that a sample may name gets another meaning */
    uint32_t commits;    /* begun so far, and the next one */
    bool index_known;
    bool gap; /* packets of the pending snapshot are missing */
    uint64_t next_index;
};

/* A writer, a thread as a rule, has a sequence. What each needs is far more than the bytes that
 * make it. */
#define SEQUENCES_MAX 32768u

/* The sequence of that id, which is made where it is not there. -EBADMSG: there are too many. */
int builder_sequence(struct builder *builder, uint32_t id, struct builder_sequence **sequence);
void pending_free(struct pending_dump *pending);
void sequence_clear_interned(struct builder_sequence *sequence);
void sequence_free(struct builder_sequence *sequence);

/* InternedData, or the same tables inside a ProfilePacket. -EBADMSG: malformed. */
int builder_interned_data(struct builder *builder, struct builder_sequence *sequence,
                          struct proto_span data);
enum interned_kind {
    INTERNED_NAME,
    INTERNED_PATH,
    INTERNED_SOURCE_PATH,
    INTERNED_BUILD_ID,
    INTERNED_ANY_STRING, /* the one string table of Android 10 */
    INTERNED_MAPPING,
    INTERNED_PROFILE_MAPPING, /* in a ProfilePacket */
    INTERNED_FRAME,
    INTERNED_PROFILE_FRAME, /* in a ProfilePacket */
    INTERNED_CALLSTACK,
    INTERNED_HEAP_NAME,
    INTERNED_HEAP_CONTEXT,
};
int builder_intern(struct builder *builder, struct builder_sequence *sequence,
                   enum interned_kind kind, struct proto_span entry);
/* Add the entries of a ProfilePacket's tables, in the trace processor's order. */
void builder_resolve_tables(struct builder *builder, struct builder_sequence *sequence,
                            struct proto_span packet);
/* Resolve from here on what a process's samples name. */
void builder_resolve_for(struct builder *builder, struct builder_sequence *sequence, int32_t pid);
/* PROFILE_NONE: the trace does not have it, or it stands for no file. */
uint32_t builder_resolve_mapping(struct builder *builder, struct builder_sequence *sequence,
                                 uint64_t iid);
/* The callsite of a callstack; one without known frames has a frame that says so. */
uint32_t builder_resolve(struct builder *builder, struct builder_sequence *sequence,
                         uint64_t callstack);

/* The name of a type, and the joined names of a context; "" for id 0. */
const char *builder_resolve_type(struct builder *builder, const struct builder_sequence *sequence,
                                 uint64_t type);
const char *builder_resolve_context(struct builder *builder, struct builder_sequence *sequence,
                                    uint64_t context);

/* --- streamed events --- */

int builder_smaps(struct builder *builder, struct proto_span packet, uint64_t packet_ns);

/* --- builder_memory.c --- */

int builder_memory_snapshot(struct builder *builder, struct proto_span message, uint64_t packet_ns);
int builder_streaming_allocation(struct builder *builder, struct proto_span message);
int builder_streaming_free(struct builder *builder, struct proto_span message);

/* --- symbols --- */

/* ModuleSymbols. -EBADMSG: malformed. */
int builder_module_symbols(struct builder *builder, struct proto_span module);
/* Gives frames their names and lines; a frame into which others were inlined becomes several. Once,
 * when all has been read. */
void builder_apply_symbols(struct builder *builder);

/* Copies of a frame behind the last, nameless; the first of them, or 0 where there is no room. */
size_t builder_copy_frame(struct builder *builder, size_t index, size_t more);
/* What a frame became: further frames, from the one around the innermost outwards. */
struct builder_around {
    uint32_t first, count;
};
/* Puts the frames around each frame, which are given by frame, between its callsites and their
 * callers. */
void builder_expand_callsites(struct builder *builder, const struct builder_around *around);

/* --- deobfuscation --- */

/* DeobfuscationMapping; PackagesList. -EBADMSG: malformed. */
int builder_deobfuscation_mapping(struct builder *builder, struct proto_span mapping);
int builder_packages_list(struct builder *builder, struct proto_span list);
/* Gives frames of obfuscated code their names, and the calls that were inlined back as frames.
 * Once, when all else has its names. */
void builder_apply_deobfuscation(struct builder *builder);
void builder_deobfuscation_free(struct builder_deobfuscation *deobfuscation);

/* --- heaps --- */

int builder_profile_packet(struct builder *builder, struct builder_sequence *sequence,
                           struct proto_span packet, uint64_t packet_ns);
/* A sample behind those of the dump. The parts of one that is not known were taken last. 0 or
 * -ENOMEM. */
int builder_put_sample(struct builder *builder, struct pending_dump *dump,
                       const struct pending_origin *origin, const struct profile_sample *sample);
enum builder_sample_kind {
    SAMPLE_OF_ITS_BYTES, /* and of the names of types and contexts, and of nothing else */
    SAMPLE_OF_COUNTERS,  /* of Perfetto's recorder (builder_counters_take()) */
    SAMPLE_OF_PEAK,      /* or a mixture that no recorder writes */
};
/* Read a sample, and its parts into the dump. 0 or a negative errno. */
int builder_read_sample(struct builder *builder, struct pending_dump *dump, struct proto_span entry,
                        struct profile_sample *sample, uint64_t *callstack,
                        enum builder_sample_kind *kind);
/* Fill in what Perfetto's recorder does not say, as far as its counters tell. */
void builder_estimate_figures(struct trace_figures *figures, uint64_t interval_bytes);

/* --- counters of Perfetto's recorder --- */

/* Which counters these are. */
struct builder_counters_key {
    uint32_t heap, sequence, callsite;
    uint64_t callstack; /* id */
};
/* Add to the callsite's sum what the counters of a callstack id have grown by. 0 or -ENOMEM. */
int builder_counters_take(struct builder *builder, const struct builder_counters_key *key,
                          const struct profile_sample *sample);
/* Replace the counters of a sample that was taken with its callsite's sum. If the pending dump has
 * several samples of the callsite, the first one gets the sum and the others get zeros. */
void builder_counters_give(struct builder *builder, const struct builder_counters_key *key,
                           struct profile_sample *sample, uint64_t interval_bytes);
void builder_counters_free(struct builder_counters *counters);

/* --- samples that have not changed --- */

/* 1: the sample has the bytes that it had in a dump before, and is taken; 0: it has to be read, and
 * origin->kept is where its bytes are kept, if they are; -ENOMEM. */
int builder_take_unchanged(struct builder *builder, struct builder_sequence *sequence,
                           struct pending_dump *dump, struct proto_span entry,
                           struct pending_origin *origin);
/* Once a dump is made: `sample` is what the bytes mean that were kept of a pending one; NULL:
 * nothing by themselves. */
void builder_keep_unchanged(struct builder_sequence *sequence, const struct pending_origin *origin,
                            const struct profile_sample *sample);
/* To be called before an id gets another meaning: what was taken by its bytes is read after all,
 * and no bytes are known any more. */
void builder_forget_unchanged(struct builder *builder, struct builder_sequence *sequence);

/* Makes dumps of the pending snapshot. */
void builder_commit(struct builder *builder, struct builder_sequence *sequence);
/* Snapshots whose last packet never came; true if there were any. */
bool builder_commit_rest(struct builder *builder);

#endif
