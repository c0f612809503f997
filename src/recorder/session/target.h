/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One profiled process from its hello to its last dump: its ring, its ledger, and what the dump
 * reports about it.
 */
#ifndef HEAPPROFD_RECORDER_SESSION_TARGET_H
#define HEAPPROFD_RECORDER_SESSION_TARGET_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "recorder/attach/attach.h"
#include "recorder/cgroups/cgroup_watch.h"
#include "recorder/dump/dump.h"
#include "recorder/dump/memory_watch.h"
#include "recorder/ledger/ledger.h"
#include "recorder/processes/process_info.h"
#include "recorder/processes/program.h"
#include "recorder/ring/ring_reader.h"
#include "recorder/session/slices.h"
#include "recorder/timeline/process_watch.h"
#include "recorder/timeline/thread_watch.h"
#include "recorder/walk/finish_walk.h"
#include "recorder/walk/non_module_code.h"
#include "trace/write/trace_writer.h"
#include "util/process_rights.h"
#include "wire/handshake.h"

/*
 * What execs did to a target:
 *
 *     from        event                                             to
 *     NONE        its process becomes a program that is no target   AWAY
 *     NONE, AWAY  its process becomes a program that is a target    SUPERSEDED
 *     SUPERSEDED  its last dump is written                          (removed)
 *
 * A target that is away keeps its profile until the session or the process ends. Only a superseded
 * one shares its pid with another target.
 */
enum target_exec {
    TARGET_EXEC_NONE,       /* the process runs the target's program */
    TARGET_EXEC_AWAY,       /* it became another program, which is not a target */
    TARGET_EXEC_SUPERSEDED, /* it became another program, which is a target of its own */
};

struct target {
    struct process_info info;
    const struct heap_config *config;
    uint64_t start_ms;            /* CLOCK_MONOTONIC_COARSE */
    uint64_t answered_ms;         /* the same; when it got its ring */
    unsigned late_answers;        /* rings that it did not accept, before the present one */
    int64_t clock_ahead_ms;       /* that of the process, of ours */
    struct process_rights rights; /* as in struct target_mapping */
    size_t modules_prepared;      /* see dump_files_prepare() */
    int pidfd;                    /* readable once the process is dead */
    int image_fd;                 /* from process_image_open(); -1: none */
    uint64_t left_ns; /* CLOCK_MONOTONIC_COARSE, before the profiler left the process running; 0:
                         it has not */
    enum handshake_origin origin;
    uint64_t interval_bytes; /* malloc's; 0: malloc is not profiled */
    uint64_t asked_bytes;    /* of target_ask_interval(); 0: none yet */
    char rule[64];           /* name of the target rule that chose it; "": none */

    /* What its client reports. */
    struct ring_reader reader;
    bool has_ring;  /* false when no more records can come */
    int drain_code; /* why target_drain_meanwhile() failed; 0: it did not */
    bool corrupted, out_of_memory, hit_guardrail;
    struct ring_totals totals; /* as last read */
    struct ring_heap_totals heap_totals[RING_HEAPS_MAX];
    struct ledger *ledger;
    struct walk_finisher *finisher;          /* NULL: none */
    struct non_module_code *non_module_code; /* code outside modules; NULL: not tracked */
    struct memory_watch memory;
    size_t neighbours; /* the session's targets, which share the time for snapshots */

    /* Beside its heap. */
    struct process_watch process;
    struct thread_watch threads;
    uint64_t counters_due_ms, threads_due_ms; /* CLOCK_MONOTONIC */
    uint64_t title_due_ms;                    /* CLOCK_MONOTONIC */
    /* As last read, of the program and of the profiler; 0: unknown, and part of rss_bytes. */
    uint64_t rss_bytes, profiler_rss_bytes;
    uint64_t read_at_touched; /* what the process had touched of its ring then */
    uint64_t most_rss_bytes;  /* as in struct process_end */

    /* Of its memory cgroup (session_cgroups.c). */
    struct memory_cgroup *cgroup; /* NULL: none */
    uint64_t moved_due_ms;        /* CLOCK_MONOTONIC */

    /* How its threads ended, as the kernel reported it (session_process_end.c); -1: not so. */
    struct target_exits {
        int32_t of_signal, of_leader, of_others;
    } exits;

    /* In the trace. */
    struct trace_writer *stream; /* where its events are streamed; NULL: they are not */
    struct slices *slices;       /* NULL: its scopes do not become slices */
    uint64_t image;              /* number of the program in the trace */
    bool announced;              /* the trace has its process */
    bool title_changed;          /* since it was announced: the next dump writes it again */
    uint64_t last_dump_ns;       /* CLOCK_MONOTONIC_COARSE; 0: none yet */

    /* How the client came into the process. */
    struct attach *attach;     /* NULL: the process joined by itself, or the profiler has left it */
    bool was_attached;         /* the client came into the process by attaching */
    enum attach_moment moment; /* if was_attached */
    bool is_complete; /* attached to before any code of the program or its libraries had run */
    uint32_t children_reported; /* number of forked children that said hello, if attached to at its
                                   own hello */
    enum attach_python python;  /* attached to: whether python.object is counted */
    /* Allocators of libraries that it has opened since (target_families.c). */
    struct target_families {
        uint64_t due_ms; /* CLOCK_MONOTONIC */
        bool is_awaited; /* unseen_allocator is one that may still be patched */
        char added[ATTACH_LEFT_BYTES];
        unsigned reopened;
        uint64_t stopped_us;
    } families;
    uint64_t attach_stopped_us, detach_stopped_us; /* how long all its threads were stopped */
    unsigned calls_cut; /* system calls that failed with EINTR because of that */
    /* Of a new process, CLOCK_MONOTONIC. began_us: its exec if the kernel reported it, else a lower
     * bound; 0: unknown. */
    uint64_t began_us, attached_us;
    bool start_was_reported; /* the kernel reported its exec */
    bool is_linked;          /* it was attached to, and is linked to the client library */
    bool may_join;           /* and would have joined a session of heaps of its own */
    uint32_t restrictions;   /* on its system calls, when it was attached to */
    char attach_failure[ATTACH_LEFT_BYTES];    /* reason why attaching failed; "" */
    char attach_remark[3 * ATTACH_LEFT_BYTES]; /* problems of the attachment, or of joining, as
                                                  sentences */

    /* Its allocators. */
    char allocator[64];        /* file name of the object with the profiled malloc */
    bool allocator_has_others; /* another allocator's functions count beside it */
    /* Why the client does not see all allocations of the process, as a sentence, and which
     * allocator it misses. "": according to the program's file, it sees all. */
    char unseen_reason[PROGRAM_REASON_BYTES], unseen_allocator[24];
    bool is_go; /* a Go program: its own heap is not profiled */

    /* Exec: the program that its process became, and the one that it was before. */
    enum target_exec exec;
    char became[64];         /* the next program's name */
    uint64_t became_ms;      /* when, CLOCK_MONOTONIC_COARSE */
    const char *became_hint; /* why that program is not profiled, or where the reason is printed */
    unsigned execs;          /* number of earlier execs from target to target */
    char replaced[64];       /* name of the program before the exec, if it was a target */
    bool replaced_kept;      /* the profile of that program is a separate heap */
    uint64_t replaced_samples;
};

/* How the dump is to describe the end of the target. */
struct target_end {
    bool final;
    bool checkpoint; /* leaves the target unchanged: later dumps are as if there had been no
                        checkpoint */
    bool running, interrupted;
    int32_t exit_status;                          /* that of waitpid; -1: unknown */
    uint32_t cause;                               /* enum dump_cause_kind */
    uint64_t cause_used_bytes, cause_limit_bytes; /* of the cgroup */
};

/*
 * Make ring and ledger for a process. config must outlive the target. Takes ownership of info and
 * pidfd in any case; *memfd is for the client. Return NULL without memory or descriptors.
 */
struct target *target_open(struct process_info *info, int pidfd, const char *ring_name,
                           uint64_t data_bytes, const struct heap_config *config, int *memfd);
void target_close(struct target *target);

/*
 * Bring the client into the target's process. Return 0; -EAGAIN if it may work in a moment;
 * -ENOTSUP if the program is not supported, unless its loader is still running; or another negative
 * errno. Errors come with a message.
 */
int target_attach(struct target *target, int ring_fd, const struct handshake_reply *reply,
                  enum attach_moment moment, unsigned patience_ms, struct error *error);

/* Note what the program's file shows about its allocator. */
void target_note_program(struct target *target, const struct program *program);
/* The file could not be read in time: whether the program has an allocator of its own is unknown.
 */
void target_note_unread_program(struct target *target);

/* Read all records from the ring. Return the number of bytes. `dead`: nobody writes any more. */
uint64_t target_drain(struct target *target, bool dead);

/* Read what the ring has while an attach or a detach waits. A damaged ring is left to the next
 * target_drain(), which may detach. */
void target_drain_meanwhile(struct target *target);

/* Ask the client to stop, take in the rest, and release the ring. */
void target_finish(struct target *target, bool dead);

/* Find names for the target's generated code, which may be gone soon. Call it after
 * target_finish(). `pause` may be NULL; see dump.h. */
void target_name_code(struct target *target, bool dead, void (*pause)(void *context),
                      void *context);

/* Ask the client for a sampling interval of malloc: the first one, or a multiple of it by a power
 * of two, rounded up. The client uses it from its next samples on. */
void target_ask_interval(struct target *target, uint64_t interval_bytes);

/* Write every event of the target to the trace when it is taken in (stream_allocations). */
void target_stream(struct target *target, struct trace_writer *writer);

/* Write the scopes of the target's threads to the trace as slices (context_slices). Return 0 or
 * -ENOMEM. */
int target_slice(struct target *target, struct trace_writer *writer);

/* The trace's readers may lack the process's and the threads' descriptions: write them again before
 * their next use. */
void target_forget_announcements(struct target *target);

/* Notice changes of the process: at once of its rights, and when it is due, of its title and its
 * memory. Call it ten times a second for each of the session's `targets`. */
void target_notice_changes(struct target *target, size_t targets);

/* target_families.c: note that the memory of an allocator under another name is missing, and why
 * (""); look for those of libraries that an attached process has opened since, when it is due; and
 * write the remark of the attachment, with what was found. */
void target_note_unseen_family(struct target *target, const char *name, const char *why);
void target_look_for_families(struct target *target);
void target_remark_families(const struct target *target, char *remark, size_t size);

/* target_timeline.c: what is recorded beside the heap. Without `process_stats` only the heap's size
 * is written. */
void target_write_memory_point(struct target *target, struct trace_writer *writer,
                               bool process_stats);

/* Return the profiler's own part of the resident memory: as last read, and what the process has
 * written of the ring since. 0: unknown. */
uint64_t target_profiler_rss(const struct target *target);
/* Write what changes slowly: threads that start, end, or change their name, and the pressure of the
 * cgroup. */
void target_write_threads(struct target *target, struct trace_writer *writer, const char *cgroups);
/* Write the names of the threads that allocated. */
int target_name_threads(struct target *target, struct trace_writer *writer);
/* The same for a checkpoint: those names do not stay in the trace. */
int target_name_threads_for_checkpoint(struct target *target, struct trace_writer *part);
/* Write the end of the threads, and of the process if it is dead. No later packet may name it. */
void target_write_end(struct target *target, struct trace_writer *writer, bool process_ends);

/* Write the process's names, unless the trace has them. */
int target_announce(struct target *target, struct trace_writer *writer);

int target_write_dump(struct target *target, struct trace_writer *writer, struct dump_files *files,
                      const struct target_end *end, bool dump_at_max);

/* Return the process in the trace's form. `comm` must outlive it. */
struct trace_process target_trace_process(const struct process_info *info, const char *const *comm,
                                          uint64_t image);

/* Return whether the process has ended, even if nobody has waited for it. */
bool target_is_dead(const struct target *target);

/* Return whether the process has not accepted its ring yet: our reply may have come too late. */
bool target_is_awaited(const struct target *target);

/* Return whether it waits for it no longer, and is to be invited again: a few times, since each
 * answer that comes too late has cost it the time that it waited. */
bool target_is_late(const struct target *target, uint64_t now_ms);

/* Replace the ring that the process did not accept by a new one. Return 0, or a negative errno; the
 * old one stays then. */
int target_renew_ring(struct target *target, const char *name, uint64_t data_bytes, int *memfd);

/* Return whether the process runs another program than the profiled one. */
bool target_has_exec(const struct target *target);

uint64_t target_lost(const struct target *target);

/* Fill in what the target has lost so far, and why its profile has ended early. */
void target_note_losses(const struct target *target, struct trace_heap_dump *status);

/* Write the remark of the target's last dump: what the profile lacks, and why; "" if there is
 * nothing to remark. `remark` has DIAGNOSIS_BYTES_MAX bytes. */
void target_diagnose(const struct target *target, const struct target_end *end, char *remark);

#endif
