/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The profile: the only model of a heap profile in memory, which every tool reads. It is made from
 * a trace (profile/builder/profile_read.h) or another profiler's file (profile/import/import.h),
 * and does not change afterwards.
 *
 * All processes and dumps of the profile share mappings, functions, frames and callsites, which are
 * identified by index. A callsite is a node of a tree: its frame, called from its parent; the whole
 * stack is the path to the root.
 */
#ifndef HEAPPROFD_PROFILE_PROFILE_H
#define HEAPPROFD_PROFILE_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace/frame_kind.h"
#include "trace/heap_dump.h"
#include "trace/memory_snapshot.h"
#include "trace/process_end.h"
#include "trace/trace_figures.h"

#define PROFILE_NONE UINT32_MAX

struct profile_mapping {
    const char *path;     /* "" if unknown */
    const char *build_id; /* lower-case hex, "" if unknown */
    uint64_t start, end;  /* 0: unknown, or different in each process (profile_place_of) */
    uint64_t exact_offset, load_bias;
    uint64_t start_offset; /* offset in the file of its first mapping */
};

struct profile_frame {
    const char *name;         /* demangled, or "" if unknown */
    const char *linkage_name; /* as in the trace (mangled) */
    /* The obfuscated name, if both names above come from a map; else "". Of the calls that were
     * inlined into a function, the outermost has it. */
    const char *obfuscated_name;
    const char *source_file; /* "" if unknown */
    uint32_t line;           /* 0: unknown */
    uint32_t mapping;        /* PROFILE_NONE: none */
    uint64_t rel_pc;
    uint64_t function_start; /* of a frame without a name, as rel_pc counts; rel_pc if unknown */
    uint32_t symbol_first, symbol_count; /* in profile.symbol_lines, innermost first */
    uint32_t kind;                       /* enum trace_frame_kind */
    const char *kind_name;               /* the trace's name of another kind; "": none */
    /* Used only with profile_read_options.as_in_trace. */
    bool is_unnamed; /* the trace has no name, not even an empty one */
    bool has_line;   /* the trace has a line, which may be 0 */
    bool has_symbol; /* symbol_lines has the file and the line */
};

/* One function at an address, with profile_read_options.as_in_trace. */
struct profile_symbol_line {
    const char *name;        /* "" if unknown */
    const char *source_file; /* "" if unknown */
    uint32_t line;
    uint32_t set; /* the first line of the same address */
    bool has_line, has_inlined;
    bool inlined; /* into the next one; known if has_inlined */
};

struct profile_callsite {
    uint32_t parent; /* PROFILE_NONE: outermost */
    uint32_t frame;
    uint32_t depth; /* 0: outermost */
};

#define PROFILE_PART_MEMBERS                                                                       \
    struct trace_figures figures;                                                                  \
    /* At the heap's peak. Of a part it is valid only in a tagged sample, whose parts' peaks add   \
     * up to the sample's. Otherwise only the sample's own peak counts. */                         \
    struct trace_peak_figures peak;                                                                \
    const char *type;    /* "": none; equal names are the same pointer within a profile */         \
    const char *context; /* names of scopes, the outermost first, joined by ";"; "": none */       \
    int32_t tid

/* The part of a callsite's figures that belongs to one thread, type and context. */
struct profile_part {
    PROFILE_PART_MEMBERS;
};

/* A callsite's own figures (not its callees') at one dump, cumulative since the start. In a dump of
 * a period, `allocated` is of the period and `allocated` - `freed` is live at its end, as in
 * production/continuous/period.h. */
struct profile_sample {
    union {
        struct {
            PROFILE_PART_MEMBERS;
        };
        /* Most samples have a single part, with the same figures: `parts` can point here. Else only
         * the figures and the peak mean something. */
        struct profile_part single;
    };
    uint32_t callsite;
    const struct profile_part *parts;
    uint32_t part_count;
    bool tagged;                       /* a part has a type or a context */
    const struct profile_times *times; /* NULL if they are unknown, or no block is live */
};

/* The part of a dump that a filter left out (profile/filter.h). */
struct profile_left_out {
    struct profile_sample sum; /* of no callsite, without parts */
    size_t callsites;
};

/* The increase of a loss since the previous dump of the heap. */
struct profile_new_loss {
    enum trace_loss_id id;
    uint64_t amount; /* of a flag: 1 */
};

/* What was allocated before the time of a dump that covers only a period: its live memory can be of
 * then. Zeros: the dump covers everything. */
struct profile_earlier {
    bool unknown; /* it is not known what that was */
    uint64_t exact_bytes, exact_calls;
    double sampled_bytes, sampled_calls; /* as in profile_dump */
    struct trace_figures sampled;        /* only what was allocated */
};

struct profile_dump {
    uint64_t boottime_ns;       /* trace time */
    uint64_t start_boottime_ns; /* start of the covered time, usually the previous dump's time;
                                 * unknown: the same as boottime_ns */
    bool final;
    uint32_t cause; /* enum dump_cause_kind: why it was taken if nobody asked for it */
    uint64_t cause_used_bytes, cause_limit_bytes; /* of the cgroup at that moment */
    bool incomplete; /* samples of it are missing from the trace: all figures but the exact
                      * totals are too low */
    bool cut_off;    /* incomplete, because the trace ends inside the dump */
    bool disagrees;  /* a file without some figures says that its totals and samples disagree */
    /* Consecutive dumps usually share the samples that have not changed. */
    const struct profile_sample **samples;
    size_t sample_count;
    size_t part_count; /* of all of them */
    struct profile_left_out left_out;
    struct trace_figures total; /* sum over samples and what is left out */
    uint64_t exact_bytes, exact_calls;
    /* As in struct trace_heap_dump; 0: not calibrated, no bias of the peak is known. */
    double sampled_bytes, sampled_calls, calibration_ratio;
    double peak_highest_bytes, peak_highest_count;
    /* What was taken from the highest estimate of all, by the variance of what is left: a part with
     * variance V had V times this taken. 0: no bias is known. */
    double peak_bytes_bias, peak_count_bias;
    struct profile_earlier earlier;
    uint64_t order;    /* position among the dumps of all heaps in the trace */
    uint32_t sequence; /* sequence of its packets, by order of appearance */
    uint32_t new_loss_count;
    const struct profile_new_loss *new_losses;
    uint64_t interval_bytes; /* 0: the file has no interval and no losses of single dumps */
    /* Of malloc's heap: callsites at the last reading of the process's memory (heap_dump.h). */
    struct trace_memory_site *sites;
    size_t site_count;
    uint64_t piece_bytes;
    /* Of malloc's heap: memory of the process that was in no heap, at the snapshot until this dump
     * where it was most. of_bytes 0: unknown. */
    struct memory_unexplained unexplained;
};

/* Figures that other profilers' files do not contain. They are 0, or taken from other figures,
 * because they are unknown. */
enum profile_unknown {
    PROFILE_UNKNOWN_LIVE = 1,
    PROFILE_UNKNOWN_ALLOCATED = 2,
    PROFILE_UNKNOWN_PEAK = 4,
    PROFILE_UNKNOWN_COUNTS = 8,
    PROFILE_UNKNOWN_TEMPORARY = 16, /* which allocations were freed at once */
    PROFILE_UNKNOWN_SIZES = 32,     /* bytes: only allocations are counted */
    PROFILE_UNKNOWN_ALL = 63,
};

/* One heap of one process. */
struct profile_heap {
    uint32_t process; /* in profile.processes */
    const char *name; /* "libc.malloc" */
    uint64_t interval_bytes, first_interval_bytes;
    /* At the last dump. The profile owns the strings inside. */
    struct trace_heap_dump status;
    /* The content of its packets, added up as by Perfetto's trace processor. Times and samples
     * count from the start in each packet, so with several dumps the sums are too large. */
    struct profile_packet_sums {
        uint64_t corrupted, hit_guardrail, overran, disconnected, rejected;
        uint64_t unwinding_time_us, samples, blocked_us;
    } packet_sums;
    uint64_t start_boottime_ns;
    uint64_t packet_boottime_ns; /* time of its last dump */
    bool unnamed;                /* the trace has no name for it */
    struct profile_dump *dumps;  /* in order of time */
    size_t dump_count;
    /* From Perfetto's recorder, whose counts are of samples, not of allocations. */
    bool is_perfettos;
    uint32_t unknown; /* of enum profile_unknown; in our traces 0 or, if unseen, all */
    /* From samples of stacks that are counted in bytes (StackSample). */
    bool is_of_stack_samples;
    /* No call of the process's allocator was seen: it allocated nothing, was never profiled, or has
     * an unhooked allocator. Zeros mean nothing. */
    bool unseen;
    /* The last dump is missing from the trace: the profiler still ran when the trace was read, or
     * was killed. Everything after the last existing dump is unknown. */
    bool unfinished;
};

#define PROFILE_UNKNOWN_BYTES UINT64_MAX
#define PROFILE_BYTES_MAX (UINT64_C(1) << 56) /* sums do not overflow */

/* The resident bytes are the program's own, without the profiler's. If these are unknown, as in
 * older traces and those of other profilers, they are included. */
struct profile_memory_point {
    uint64_t boottime_ns;
    uint64_t rss_bytes, rss_anon_bytes, vm_bytes, heap_bytes; /* 0: unknown */
    /* PROFILE_UNKNOWN_BYTES: unknown, as in older traces of ours */
    uint64_t rss_file_bytes, rss_shmem_bytes, swap_bytes;
    uint64_t profiler_bytes; /* PROFILE_UNKNOWN_BYTES: unknown */
};

struct profile_process {
    int32_t pid, parent_pid, uid; /* pid 0: unknown, in files of other profilers */
    bool has_uid, has_start;
    bool arguments_are_comm;    /* the name of the main thread replaces them */
    uint64_t start_boottime_ns; /* if has_start */
    const char *name;           /* base name of the program */
    const char *command;        /* command line, arguments quoted as a shell needs it */
    const char *first_argument; /* argv[0]; NULL: unknown */
    const char *arguments;      /* all arguments, with a blank between; NULL: unknown */
    /* The trace processor's name: a single argument ends at a blank. */
    const char *title; /* NULL: the first argument */
    uint64_t image;    /* which program of this pid; 0: unknown */
    /* Not 0: this stands for so many processes, on average, and its pid is only a number: show
     * profile_shown_pid(). */
    double mean_processes;
    struct profile_memory_point *timeline;
    size_t timeline_count;
    struct memory_unexplained unexplained; /* see struct profile_dump; at the end */
    bool has_end;                          /* the trace says how it ended */
    struct process_end end;                /* if has_end; the profile owns its strings */
};

/* A process or a thread that one of Perfetto's packets names, in the order of time. */
struct profile_mention {
    int32_t pid, tid; /* pid: PROFILE_NO_PID if the packet names a thread only */
    bool is_thread;
};

struct profile_thread {
    int32_t tid, pid;
    const char *name;
};

/* The sums of a heap's streamed events (stream_allocations). */
struct profile_stream {
    uint32_t process; /* PROFILE_NONE: unknown */
    uint32_t heap_id; /* 0: malloc */
    uint64_t allocations, frees;
    uint64_t undone_frees;                   /* frees that did not happen */
    double allocated_bytes, allocated_count; /* sums that the allocations represent */
    uint64_t last_sequence; /* the highest number of an event; numbers are of the process */
    uint64_t missing;       /* events of the process, of any heap, that the trace has lost */
};

/* One mapping of a process's memory at a moment (SmapsPacket). */
struct profile_smaps {
    uint64_t boottime_ns;
    uint32_t process;
    const char *path, *file_name, *module_debugid, *module_debug_path; /* "" if unknown */
    uint64_t size_kb, private_dirty_kb, swap_kb, start_address, module_timestamp;
    uint64_t private_clean_resident_kb, shared_dirty_resident_kb, shared_clean_resident_kb;
    uint64_t locked_kb, proportional_resident_kb;
    uint32_t protection_flags;
    uint32_t known; /* of enum profile_smaps_known; the others are unknown, and 0 */
};

enum profile_smaps_known {
    PROFILE_SMAPS_START = 1,
    PROFILE_SMAPS_PROPORTIONAL = 2,
    PROFILE_SMAPS_PRIVATE_DIRTY = 4,
    PROFILE_SMAPS_PRIVATE_CLEAN = 8,
    PROFILE_SMAPS_SHARED_DIRTY = 16,
    PROFILE_SMAPS_SHARED_CLEAN = 32,
    PROFILE_SMAPS_SWAP = 64,
};

/* What one of Chrome's memory dumps says of a process's memory, without backtraces: the size of an
 * allocator (the outermost ones only: "malloc", not "malloc/partitions") or of the process. */
struct profile_reported {
    uint64_t boottime_ns;
    uint32_t process;
    const char *name; /* of the allocator, or "private_footprint", "peak_resident" */
    bool is_allocator;
    double size_bytes;      /* NAN: unknown */
    double effective_bytes; /* without what it shares with other allocators; NAN: unknown */
};

/* A snapshot of a process's memory. The profile owns its strings. */
struct profile_memory_snapshot {
    struct memory_snapshot values;
    uint32_t process;
    uint64_t order; /* dumps with this order or a higher one come after it */
};

/* A counter over time, of a process or of the machine. */
struct profile_counter_track {
    uint32_t process;               /* PROFILE_NONE: of the machine */
    const char *type, *name, *unit; /* as Perfetto's trace processor names them; "": unknown */
};

struct profile_counter {
    uint64_t boottime_ns;
    double value;
    uint32_t track; /* in profile.counter_tracks */
    uint32_t order; /* in the trace */
};

/* The start or the end of a thread, or with its main thread of a process. */
struct profile_lifetime {
    uint64_t boottime_ns;
    int32_t tid;
    bool is_end;
};

/* Processes of one name that ran and were not profiled. */
struct profile_unprofiled {
    int32_t pid, parent_pid; /* the first one's */
    uint64_t count;          /* 0: there may have been some that nobody saw */
    const char *name, *reason;
    bool by_choice;   /* the user named other processes */
    const char *kind; /* the reason in one word (docs/report.md); "": unknown */
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
    struct profile_mention *mentions; /* if as_in_trace was requested */
    size_t mention_count;
    struct profile_heap *heaps;
    size_t heap_count;
    struct profile_unprofiled *unprofiled;
    size_t unprofiled_count;
    struct profile_stream *streams;
    size_t stream_count;
    struct profile_smaps *smaps;
    size_t smaps_count;
    struct profile_reported *reported;
    size_t reported_count;
    struct profile_memory_snapshot *memory_snapshots;
    size_t memory_snapshot_count;
    /* If as_in_trace was requested, in the order of time. */
    struct profile_counter_track *counter_tracks;
    size_t counter_track_count;
    struct profile_counter *counters;
    size_t counter_count;
    struct profile_lifetime *lifetimes;
    size_t lifetime_count;
    struct profile_symbol_line *symbol_lines; /* if as_in_trace was requested */
    size_t symbol_line_count;
    /* If as_in_trace was requested (profile/stack_samples.h); NULL: the trace has none. */
    struct profile_stack_samples *stack_samples;
    uint64_t missing_packets, damaged_packets;
    bool has_loops;            /* a trace: it has interpreters' own frames beside their functions */
    bool wants_mmap;           /* the session named the heap libc.mmap */
    bool ends_early;           /* the trace is cut off or damaged, and was not read to its end */
    uint64_t unfinished_dumps; /* heaps whose last dump's end is missing */
    /* Add to a boottime_ns for nanoseconds since 1970; 0: unknown. */
    int64_t boottime_to_realtime_ns;
    /* Damage of the input that was skipped, in words; "" if none. */
    const char *warning;
    const char *filter; /* the filter that left out parts, as options: "--focus 'x'"; "" */
};

/* NULL is allowed. */
void profile_free(struct profile *profile);

/* Return "jit", "interpreted", "kernel" and the like; "" if native or unknown. */
const char *profile_frame_kind(const struct profile_frame *frame);

#define PROFILE_LABEL_BYTES 256
/* Return the frame's function; of a frame without a name its address and module, written to
 * `buffer`. */
const char *profile_frame_label(const struct profile *profile, const struct profile_frame *frame,
                                char buffer[PROFILE_LABEL_BYTES]);

/* Return, by frame, whether a stack has it; malloc'd. NULL: no memory. */
bool *profile_frames_on_stacks(const struct profile *profile);

/* Return where the heap's process has a mapping: start and end; both 0: unknown. */
struct profile_place {
    uint64_t start, end;
};
struct profile_place profile_place_of(const struct profile *profile,
                                      const struct profile_heap *heap, uint32_t mapping);

/* Replace the callsites of what was found at them (profile_dump.sites) by others, after the samples
 * have got them. */
void profile_remap_sites(struct profile *profile, const uint32_t *now);

/* Return the pid of a process; 0: unknown, or a sum over processes has none. */
static inline int32_t profile_shown_pid(const struct profile_process *process)
{
    return process->mean_processes > 0 ? 0 : process->pid;
}

/* Return whether the profile has the time that the dump covers: files of other profilers may not.
 */
bool profile_has_duration(const struct profile_heap *heap, const struct profile_dump *dump);

/* Return why a heap is unseen, in words for people. */
const char *profile_heap_why_unseen(const struct profile_heap *heap);

/* Return whether the heap is of a program that became another one by exec. */
bool profile_heap_is_before_exec(const struct profile_heap *heap);

/* Return "" if unknown. */
const char *profile_thread_name(const struct profile *profile, int32_t pid, int32_t tid);

/* Return whether every allocation was recorded at first, and samples later. */
bool profile_is_widened(const struct profile_heap *heap);

/* Return when a heap's peak was, as its last dump knows, by CLOCK_BOOTTIME in ns; 0: unknown. */
uint64_t profile_peak_boottime_ns(const struct profile_heap *heap);

/* Return the number of bytes that a callsite without a sample can still hold (95 %). */
double profile_floor_bytes(uint64_t interval_bytes);

#endif
