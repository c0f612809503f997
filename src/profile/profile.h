/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The profile: the one model of a heap profile in memory that every tool
 * reads. Built by profile_read() from a trace, by nothing else changed.
 *
 * Mappings, functions, frames and callsites are shared by all processes and
 * dumps of the profile and named by index. A callsite is a node of a tree: its
 * frame, called from its parent; the whole stack is the path to the root.
 */
#ifndef HEAPPROFD_PROFILE_PROFILE_H
#define HEAPPROFD_PROFILE_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "symbols/demangle.h"
#include "trace/frame_kind.h"
#include "trace/heap_dump.h"
#include "trace/memory_snapshot.h"
#include "trace/trace_figures.h"
#include "util/error.h"

#define PROFILE_NONE UINT32_MAX

struct profile_mapping {
    const char *path;     /* "" if unknown */
    const char *build_id; /* lower-case hex, "" if unknown */
    uint64_t start, end;  /* 0: unknown, or of each process its own (profile_place_of) */
    uint64_t exact_offset, load_bias;
    uint64_t start_offset; /* of the file, where the first mapping of it begins */
};

struct profile_frame {
    const char *name;         /* demangled, or "" if unknown */
    const char *linkage_name; /* as in the trace (mangled) */
    /* What it was called when it ran, where both names above were found in a map; else "". Of the
     * calls that were inlined into a function, the outermost has it. */
    const char *obfuscated_name;
    const char *source_file; /* "" if unknown */
    uint32_t line;           /* 0: unknown */
    uint32_t mapping;        /* PROFILE_NONE: none */
    uint64_t rel_pc;
    uint32_t symbol_first, symbol_count; /* in profile.symbol_lines, innermost first */
    uint32_t kind;                       /* enum trace_frame_kind */
    const char *kind_name;               /* of another kind, as the trace calls it; "": none */
    /* What the trace says beside, where profile_read_options.as_in_trace. */
    bool is_unnamed; /* it gives no name, not even an empty one */
    bool has_line;   /* or says that it is 0 */
    bool has_symbol; /* the file and line stand in symbol_lines */
};

/* One function of those that an address is in, where profile_read_options.as_in_trace. */
struct profile_symbol_line {
    const char *name;        /* "" if unknown */
    const char *source_file; /* "" if unknown */
    uint32_t line;
    uint32_t set; /* the first line of the same address */
    bool has_line, has_inlined;
    bool inlined; /* into the next one; known where has_inlined */
};

struct profile_callsite {
    uint32_t parent; /* PROFILE_NONE: outermost */
    uint32_t frame;
    uint32_t depth; /* 0: outermost */
};

/* The part of a callsite's figures that one thread has, of one type, in one context. */
struct profile_part {
    int32_t tid;
    const char *type;    /* "": none; equal names are the same pointer within a profile */
    const char *context; /* names of scopes, the outermost first, joined by ";"; "": none */
    struct trace_figures figures;
    /* At the heap's peak. Meaningful only in a tagged sample, where the parts' peaks add up to the
     * sample's. Elsewhere only the sample's own peak counts. */
    struct trace_peak_figures peak;
};

/* A callsite's own figures (not its callees') at one dump, cumulative since the start. */
struct profile_sample {
    uint32_t callsite;
    struct trace_figures figures;
    struct trace_peak_figures peak;
    const struct profile_part *parts;
    uint32_t part_count;
    bool tagged; /* a part has a type or a context */
};

/* What a filter took out of a dump (profile/filter.h). */
struct profile_left_out {
    struct profile_sample sum; /* of no callsite, without parts */
    size_t callsites;
};

struct profile_dump {
    uint64_t boottime_ns;       /* trace time */
    uint64_t start_boottime_ns; /* of what it tells: the dump before, as a rule; or the same */
    bool final;
    bool incomplete; /* samples of it are missing from the trace: all but the exact totals are too
                        low */
    /* What a dump has as the one before it had it, is as a rule the same sample of both. */
    const struct profile_sample **samples;
    size_t sample_count;
    size_t part_count; /* of all of them */
    struct profile_left_out left_out;
    struct trace_figures total; /* sum over samples and what is left out */
    uint64_t exact_bytes, exact_calls;
    uint64_t order;    /* among the dumps of all heaps, as the trace has them */
    uint32_t sequence; /* of packets that it came in, by order of appearance */
};

/* Figures that files of others do not tell: where they are 0, or what else was known, it is for
 * want of knowledge. */
enum profile_unknown {
    PROFILE_UNKNOWN_LIVE = 1,
    PROFILE_UNKNOWN_ALLOCATED = 2,
    PROFILE_UNKNOWN_PEAK = 4,
    PROFILE_UNKNOWN_COUNTS = 8,
    PROFILE_UNKNOWN_TEMPORARY = 16, /* which were freed at once */
    PROFILE_UNKNOWN_ALL = 31,
};

/* One heap of one process. */
struct profile_heap {
    uint32_t process; /* in profile.processes */
    const char *name; /* "libc.malloc" */
    uint64_t interval_bytes, first_interval_bytes;
    /* As of the last dump. Strings inside are owned by the profile. */
    struct trace_heap_dump status;
    /* What its packets say, added up over all of them as Perfetto's trace processor does. Times and
     * samples count from the start in each, so with several dumps the sums are more than there
     * were. */
    struct profile_packet_sums {
        uint64_t corrupted, hit_guardrail, overran, disconnected, rejected;
        uint64_t unwinding_time_us, samples, blocked_us;
    } packet_sums;
    uint64_t start_boottime_ns;
    uint64_t packet_boottime_ns; /* when its last dump was written */
    bool unnamed;                /* in the trace, which calls it nothing */
    struct profile_dump *dumps;  /* in order of time */
    size_t dump_count;
    /* Of Perfetto's recorder, whose counts are of samples, not of allocations. */
    bool is_perfettos;
    uint32_t unknown; /* of enum profile_unknown; in traces of ours 0 or, where unseen, all */
    /* No call of the process's allocator was seen: it allocated nothing, or was never profiled, or
     * has an allocator that the profiler does not sit in. Zeros mean nothing. */
    bool unseen;
    /* The trace does not have its last dump: the profiler still ran when it was read, or was
     * killed. Nothing is known of what came after the last dump that is there. */
    bool unfinished;
};

struct profile_memory_point {
    uint64_t boottime_ns;
    uint64_t rss_bytes, rss_anon_bytes, vm_bytes, heap_bytes;
};

struct profile_process {
    int32_t pid, parent_pid, uid;
    bool has_uid, has_start;
    bool arguments_are_comm;    /* the name of the main thread stands in their place */
    uint64_t start_boottime_ns; /* where has_start */
    const char *name;           /* base name of the program */
    const char *command;        /* command line, arguments quoted as a shell needs it */
    const char *first_argument; /* as the program was called; NULL: the trace does not say */
    const char *arguments;      /* all, with a blank between; NULL: the trace does not say */
    /* As the trace processor calls it: a first argument that stands alone ends at a blank. */
    const char *title; /* NULL: the first argument */
    uint64_t image;    /* which program of this pid; 0: the trace does not say */
    struct profile_memory_point *timeline;
    size_t timeline_count;
};

/* A process or a thread that a packet of Perfetto's names, in the order of time. */
struct profile_meeting {
    int32_t pid, tid;
    bool is_thread;
};

struct profile_thread {
    int32_t tid, pid;
    const char *name;
};

/* What was streamed of one heap (stream_allocations), summed up. */
struct profile_stream {
    uint32_t process; /* PROFILE_NONE: the trace does not say */
    uint32_t heap_id; /* 0: malloc */
    uint64_t allocations, frees;
    uint64_t undone_frees;                   /* of the frees: did not happen after all */
    double allocated_bytes, allocated_count; /* what the allocations stand for */
};

/* One mapping of a process's memory at a moment (SmapsPacket). */
struct profile_smaps {
    uint64_t boottime_ns;
    uint32_t process;
    const char *path, *file_name, *module_debugid, *module_debug_path; /* "" if not told */
    uint64_t size_kb, private_dirty_kb, swap_kb, start_address, module_timestamp;
    uint64_t private_clean_resident_kb, shared_dirty_resident_kb, shared_clean_resident_kb;
    uint64_t locked_kb, proportional_resident_kb;
    uint32_t protection_flags;
    uint32_t told; /* of enum profile_smaps_told: the others are 0 because they are unknown */
};

enum profile_smaps_told {
    PROFILE_SMAPS_START = 1,
    PROFILE_SMAPS_PROPORTIONAL = 2,
    PROFILE_SMAPS_PRIVATE_DIRTY = 4,
    PROFILE_SMAPS_PRIVATE_CLEAN = 8,
    PROFILE_SMAPS_SHARED_DIRTY = 16,
    PROFILE_SMAPS_SHARED_CLEAN = 32,
    PROFILE_SMAPS_SWAP = 64,
};

/* A look at a process's memory; its strings are the profile's. */
struct profile_memory_snapshot {
    struct memory_snapshot values;
    uint32_t process;
    uint64_t order; /* dumps with this order or a higher one come behind it */
};

/* Processes of one name that ran and were not profiled. */
struct profile_unprofiled {
    int32_t pid, parent_pid; /* the first one's */
    uint64_t count;          /* 0: perhaps there were some that nobody saw */
    const char *name, *reason;
    bool by_choice;   /* the user named other processes */
    const char *kind; /* the reason in one word (docs/report.md); "": not told */
};

struct profile {
    struct profile_mapping *mappings;
    size_t mapping_count;
    struct profile_frame *frames;
    size_t frame_count;
    struct profile_callsite *callsites; /* a parent comes before its children */
    size_t callsite_count;
    struct profile_process *processes;
    size_t process_count;
    struct profile_thread *threads;
    size_t thread_count;
    struct profile_meeting *meetings; /* where as_in_trace was asked for */
    size_t meeting_count;
    struct profile_heap *heaps;
    size_t heap_count;
    struct profile_unprofiled *unprofiled;
    size_t unprofiled_count;
    struct profile_stream *streams;
    size_t stream_count;
    struct profile_smaps *smaps;
    size_t smaps_count;
    struct profile_memory_snapshot *memory_snapshots;
    size_t memory_snapshot_count;
    struct profile_symbol_line *symbol_lines; /* where as_in_trace was asked for */
    size_t symbol_line_count;
    uint64_t missing_packets, damaged_packets;
    uint64_t unfinished_dumps; /* heaps whose last dump's end is missing */
    /* Add to a boottime_ns for nanoseconds since 1970; 0: unknown. */
    int64_t boottime_to_realtime_ns;
    /* What was wrong with the input and could be passed over, in words; "" if nothing. */
    const char *warning;
    const char *filter; /* what was left out of it and why, as options: "--focus 'x'"; "" */
};

/*
 * Reads a trace from a path ("-": standard input). A file that is cut off or
 * damaged gives what was good before the damage, with `warning` set; one with
 * nothing good in it gives NULL and an error with the offset and the reason.
 */
struct profile *profile_read(const char *path, struct error *error);

struct profile_filter;
struct profile_read_options {
    enum demangle_mode demangling; /* of profile_frame.name */
    /* Frames, mappings and callsites are the trace's own, one by one: names are as they stand there
     * (frame.name is what a map gave back where obfuscated_name is set), and what was inlined
     * stands in symbol_lines and is no callsite. */
    bool as_in_trace;
    const struct profile_filter *filter; /* of import_profile(); NULL: all is kept */
    /* Told time and again how many bytes, unpacked, have been read; NULL: nobody asks. */
    void (*tell)(void *context, uint64_t bytes);
    void *tell_context;
};
struct profile *profile_read_as(const char *path, const struct profile_read_options *options,
                                struct error *error);
/* The same of a source that nothing was read from, which becomes the profile's to close; `name` is
 * what errors call it. */
struct trace_source;
struct profile *profile_read_source(struct trace_source *source, const char *name,
                                    const struct profile_read_options *options,
                                    struct error *error);
/* The same of a trace in memory. */
struct profile *profile_read_bytes(const void *bytes, size_t length, struct error *error);
struct profile *profile_read_bytes_as(const void *bytes, size_t length,
                                      const struct profile_read_options *options,
                                      struct error *error);
void profile_free(struct profile *profile);

/* "jit", "interpreted", "kernel" and the like; "" if native, or not told. */
const char *profile_frame_kind(const struct profile_frame *frame);

/* Where the heap's process has a mapping: its start and end; both 0: unknown. */
struct profile_place {
    uint64_t start, end;
};
struct profile_place profile_place_of(const struct profile *profile,
                                      const struct profile_heap *heap, uint32_t mapping);

/* Why a heap is unseen, in words for people. */
const char *profile_heap_why_unseen(const struct profile_heap *heap);

/* "" if unknown. */
const char *profile_thread_name(const struct profile *profile, int32_t pid, int32_t tid);

/* Bytes that a callsite without a sample can still hide with 95 % confidence. */
double profile_floor_bytes(uint64_t interval_bytes);

#endif
