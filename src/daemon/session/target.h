/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One profiled process, from its hello to its dump: its ring, its ledger, and
 * what is to be said of it.
 */
#ifndef HEAPPROFD_DAEMON_SESSION_TARGET_H
#define HEAPPROFD_DAEMON_SESSION_TARGET_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "attach/attach.h"
#include "daemon/dump/dump.h"
#include "daemon/dump/memory_watch.h"
#include "daemon/ledger/ledger.h"
#include "daemon/processes/process_info.h"
#include "daemon/processes/program.h"
#include "daemon/ring/ring_reader.h"
#include "daemon/session/heap_rules.h"
#include "daemon/walk/finish_walk.h"
#include "daemon/walk/non_module_code.h"
#include "trace/write/trace_writer.h"
#include "wire/handshake.h"

struct target {
    struct process_info info;
    bool shares_root; /* when it joined: as in struct target_mapping */
    int pidfd;        /* readable once the process is dead */
    int statm_fd;     /* -1: none */
    int image_fd;     /* process_image_open; -1: none */
    struct memory_watch memory;
    struct ring_reader reader;
    struct ledger *ledger;
    struct walk_finisher *finisher;   /* NULL: none */
    struct non_module_code *unlisted; /* code without a module; NULL: none is looked for */
    struct trace_writer *stream;      /* where its events go; NULL: nowhere */
    uint64_t start_ms;                /* CLOCK_MONOTONIC_COARSE */
    uint64_t last_dump_ns;            /* by the same clock; 0: none yet */
    uint64_t interval_bytes;          /* malloc's; 0: it is not profiled */
    enum handshake_origin origin;
    struct attach *attach; /* NULL: the process joined by itself */
    bool was_attached;
    uint32_t children_heard; /* forked ones, where beside_client */
    bool beside_client;      /* when it said hello, for it has an allocator of its own */
    uint64_t attach_stopped_us, detach_stopped_us; /* how long all its threads stood */
    /* Of a newcomer; CLOCK_MONOTONIC. When it was attached to, and when it had begun: at its exec,
     * if the kernel told of that, else no earlier than this; 0: unknown. */
    uint64_t began_us, attached_us;
    bool told_of_start;
    uint32_t restrictions;                     /* of its system calls, when it was attached to */
    char attach_remark[3 * ATTACH_LEFT_BYTES]; /* problems of the attachment, in sentences */
    char allocator[64];
    /* Why the client does not see all that the process allocates, in a sentence, and which
     * allocator it does not see; "": it sees all, as far as the program's file tells. */
    char unseen_reason[PROGRAM_REASON_BYTES], unseen_allocator[24];
    bool is_go;                             /* a Go program, whose own heap nobody sees */
    char attach_failure[ATTACH_LEFT_BYTES]; /* why attaching failed; "" */
    bool has_ring;                          /* false once no more records can come */
    bool announced;                         /* the trace has its process */
    bool title_changed;                     /* since then: the next dump writes it again */
    /* CLOCK_MONOTONIC_COARSE, before the profiler left it running; 0: it did not. */
    uint64_t left_ns;
    uint64_t image; /* number of the program in the trace */
    bool corrupted, out_of_memory, hit_guardrail;
    bool image_gone;         /* the process became another program, which is not a target */
    bool superseded;         /* it became another program, which is a target of its own */
    char became[64];         /* that program's name */
    uint64_t became_ms;      /* when, CLOCK_MONOTONIC_COARSE */
    const char *became_hint; /* why that program is not profiled, or where the reason is printed */
    char replaced[64];       /* name of the program before the exec, if it was a target */
    bool replaced_kept;      /* that program's profile is a separate heap */
    uint64_t replaced_samples;
    unsigned execs;            /* from target to target, before this one */
    struct ring_totals totals; /* as of the last look */
    struct ring_heap_totals heap_totals[RING_HEAPS_MAX];
    const struct heap_config *config;
};

/* How a target's life ended, for its last dump. */
struct target_end {
    bool final;
    bool checkpoint; /* it leaves no mark in the target: later dumps are as if it had not been */
    bool running, interrupted;
    int32_t exit_status; /* as waitpid gives it, -1: unknown */
};

/*
 * Makes ring and ledger for a process, with what config says of heaps, which is to outlive the
 * target. Takes over info and pidfd in any case; *memfd is for the client. NULL: no memory, or no
 * more descriptors.
 */
struct target *target_open(struct process_info *info, int pidfd, const char *ring_name,
                           uint64_t data_bytes, const struct heap_config *config, int *memfd);
void target_close(struct target *target);

/*
 * Brings the client into the target's process, which has it not, or has it beside an allocator of
 * its own (as in struct attach_options). 0; -EAGAIN: it may work in a
 * moment; -ENOTSUP: not with this program, unless its loader is not done yet; or a negative errno.
 * With a message.
 */
int target_attach(struct target *target, int ring_fd, const struct handshake_reply *reply,
                  bool beside_client, unsigned patience_ms, struct error *error);

/* Note what the program's file says about its allocator. */
void target_learn_program(struct target *target, const struct program *program);

/* Takes in what the ring holds; the number of bytes. `dead`: no one writes any more. */
uint64_t target_look(struct target *target, bool dead);

/* Tells the client that it is over, takes in the rest, and lets go of the ring. */
void target_finish(struct target *target, bool dead);

/* To be called once it is finished: finds names for its generated code, which may be gone soon.
 * `pause`, which may be NULL, as in dump.h. */
void target_name_code(struct target *target, bool dead, void (*pause)(void *context),
                      void *context);

/* Writes every event of it to the trace as it is taken in (stream_allocations). */
void target_stream(struct target *target, struct trace_writer *writer);

int target_write_memory_point(struct target *target, struct trace_writer *writer,
                              uint64_t *rss_bytes);

int target_write_dump(struct target *target, struct trace_writer *writer, struct dump_files *files,
                      const struct target_end *end, bool dump_at_max);

/* Return the process in the trace's form. `comm` must outlive it. */
struct trace_process target_trace_process(const struct process_info *info, const char *const *comm,
                                          uint64_t image);

/* Whether the process has ended, whoever waits for it. */
bool target_is_dead(const struct target *target);

/* Whether the process runs another program than the profiled one. */
bool target_has_exec(const struct target *target);

/* Whether the client came into it by attaching. */
bool target_is_attached(const struct target *target);

uint64_t target_lost(const struct target *target);

#endif
