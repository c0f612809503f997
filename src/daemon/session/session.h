/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A profiling session: which processes are its targets, their rings and
 * ledgers, and the trace that it writes.
 *
 * Targets of a session of a command. Without names and without follow_children: the
 * process that the command is, whatever it execs. With names: every descendant of such a
 * name. With follow_children: all descendants.
 *
 * Targets of a session of the machine: the processes that its configuration names and that
 * its owner may profile (daemon/processes/access.h). With follow_children: their forked children
 * too.
 *
 * Exec. The last target that a pid was has the heap names that people expect
 * ("libc.malloc"). A target that execs another target is dumped then, as a heap of its
 * own ("libc.malloc (sh, before exec)"); so nothing is lost, and no reader takes the
 * two for dumps of one heap. What a forked child did before its exec is not kept: it
 * is a copy of its parent there, and no program that anybody knows. A target
 * that execs something else is kept to the process's end.
 */
#ifndef HEAPPROFD_DAEMON_SESSION_SESSION_H
#define HEAPPROFD_DAEMON_SESSION_SESSION_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "daemon/dump/checkpoints.h"
#include "daemon/dump/dump.h"
#include "daemon/processes/access.h"
#include "daemon/processes/invited.h"
#include "daemon/processes/program.h"
#include "daemon/session/absent.h"
#include "daemon/session/target.h"
#include "daemon/session/unprofiled.h"
#include "trace/config/trace_config.h"
#include "trace/write/trace_writer.h"
#include "wire/handshake.h"

/* Each has a ring of shmem_size_bytes of address space and three descriptors or so. */
#define SESSION_TARGETS_MAX 512

/* What has been done about a process (daemon/server/target_discovery.c). */
enum discovery_state {
    DISCOVERY_NOT_WANTED,
    DISCOVERY_DONE,    /* it joined, was attached to, or the trace says why not */
    DISCOVERY_AWAITED, /* it has the library, and will join by itself */
    DISCOVERY_FORKED,  /* not looked at yet */
    DISCOVERY_LOADING, /* its loader is not done yet */
    DISCOVERY_BUSY,    /* it could not be attached to for the moment */
};

/* The processes of the machine as they were at the last look, by pid. Times: CLOCK_MONOTONIC. */
struct discovery_list {
    struct discovery_entry {
        pid_t pid;
        char comm[16];
        enum discovery_state state;
        bool running;      /* when the session began */
        bool told;         /* by the kernel, of its exec */
        uint64_t began_us; /* its exec, if told; else no earlier than this; 0: unknown */
        uint64_t seen_ms, due_ms;
        unsigned attempts;
        struct invited invited; /* if it is awaited */
        uint64_t invited_ms;    /* when that was read last; 0: not yet */
        bool is_invited;        /* and could be read */
    } * entries;
    size_t count, capacity, pending;
    uint64_t scan_ms; /* of the last look */
    uint64_t rest_ms; /* until then nothing is tried again that failed */
    uint64_t busy_ms; /* spent in attempts that failed, in this turn */
    bool must_scan;   /* something was missed since */
};

enum session_end {
    SESSION_GOES_ON,
    SESSION_OVER_DURATION,
    SESSION_OVER_GUARDRAIL,
    SESSION_OVER_STOPPED, /* somebody asked for it */
    SESSION_OVER_ENDED,   /* all of its processes have ended */
};

#define SESSION_PROGRAMS_KNOWN 16

/* A program's file as it was when it was read. */
struct known_program {
    dev_t device;
    ino_t inode; /* 0: none */
    off_t bytes;
    struct timespec changed;
    struct program program;
};

struct session {
    uint64_t id;
    const struct heap_config *config;
    bool follow_children;
    bool of_command;   /* not of the machine */
    pid_t command_pid; /* 0: not started yet */
    /* Of a session of the machine. */
    struct access_requester owner;
    const struct access_policy *policy;
    enum session_end over;

    /* All times: CLOCK_MONOTONIC; UINT64_MAX: never. */
    uint64_t start_ms, sample_ms, dump_ms, end_ms;
    uint64_t cpu_us_at_start;
    uint64_t ring_bytes;
    struct trace_writer *writer;
    struct dump_files *files;
    struct checkpoints checkpoints;
    /* Takes in what the rings of all sessions hold, this one's too; set by the server. */
    void (*drain_all)(void *context);
    void *drain_context;
    /* Whether the kernel has told that the process descends from the command, whoever is its parent
     * now. NULL: it tells of nothing. */
    bool (*descends)(void *context, pid_t pid);
    void *descends_context;
    /* Called at once for a process that is wanted and gets no profile; set by the server. */
    void (*refused)(void *context, struct session *session, const struct process_info *info,
                    const char *remark);
    void *refused_context;
    /* Called before each of the last dumps with the number of those that are left. NULL: nobody
     * asks. */
    void (*ending)(void *context, size_t left);
    void *ending_context;
    struct target *targets[SESSION_TARGETS_MAX];
    size_t target_count;
    struct unprofiled_list unprofiled;
    struct absent_list absent;
    struct discovery_list reach;
    struct known_program programs[SESSION_PROGRAMS_KNOWN]; /* those that said hello last */
    unsigned next_program;
    unsigned profiled; /* targets with a profile, gone ones too */
    uint64_t images;   /* programs in the trace so far */
    bool command_said_hello;
    uint64_t samples_of_gone, lost_of_gone;
    pid_t *threads_of_gone; /* tids of a command's gone targets; a tid may occur twice */
    size_t threads_of_gone_count, threads_of_gone_capacity;
    uint64_t command_rss_bytes;
};

/* Opens the trace and writes its head. The session is one of a command until its owner is
 * set and of_command cleared. 0 or a negative errno. */
int session_open(struct session *session, const struct heap_config *config, bool follow_children,
                 int trace_fd);

/*
 * Answer a process that says hello. Return
 *   1  it is a target: the caller sends and closes its ring, *memfd, and no longer owns info;
 *   2  it is a target that was attached to: the reply says that it is no target;
 *   0  it is not a target;
 *   a negative errno: do not reply.
 */
int session_hello(struct session *session, struct process_info *info, uid_t uid,
                  const struct handshake_hello *hello, struct handshake_reply *reply, int *memfd);

/* Whether this process is one that the session is after. */
bool session_wants(const struct session *session, const struct process_info *info,
                   enum handshake_origin origin);

/* Whether the session's owner may profile it; 0, or -EPERM with a message. */
int session_may_profile(const struct session *session, const struct process_info *info,
                        struct error *error);

/* Whether the session profiles the program that the process runs now. */
bool session_profiles(const struct session *session, pid_t pid);

/*
 * Makes a target of a process that has not the library in it, by attaching; *pidfd is readable at
 * its end. As target_attach.
 */
int session_attach(struct session *session, pid_t pid, unsigned patience_ms, int *pidfd,
                   struct error *error);

/* What was attached to is gone: its process has begun another program. */
void session_lose_image(struct session *session, const struct process_info *info);

/* End the profile of each program that its process has replaced by exec since the last call.
 * `found` (may be NULL) is called for each and may add targets. */
void session_look_for_execs(struct session *session, void (*found)(void *context, pid_t pid),
                            void *context);

/* Note in the trace that a process belongs to another session, if this one wants it too. `whose`
 * names the other session. */
void session_reject(struct session *session, pid_t pid, enum handshake_origin origin,
                    const char *whose);

/* The process is wanted and has no profile: says why in the trace, once a process. */
void session_note_absent(struct session *session, const struct process_info *info,
                         const char *remark);

struct target *session_find(const struct session *session, pid_t pid);

/* Ends the session (session->over) where max_heapprofd_memory_kb or max_heapprofd_cpu_secs
 * is passed. */
void session_check_guardrails(struct session *session);

/* Takes in what all rings hold; the bytes of the fullest. */
uint64_t session_look(struct session *session);

/* The same while something else goes on: no dump is written, no target ends. */
void session_drain(struct session *session);

/* A point of each target's timeline. */
void session_sample_memory(struct session *session);

/* The process is dead (and may still be a zombie): its last dump. exit_status as
 * waitpid gives it, -1 if unknown. */
void session_process_ended(struct session *session, pid_t pid, int exit_status);

/* Dumps of all targets while the session goes on. */
void session_dump(struct session *session);

/* Write what a kill of the profiler leaves: dumps of all targets that count until later ones
 * follow. */
void session_checkpoint(struct session *session);

/* The last dumps of targets that still run. */
void session_end_targets(struct session *session, bool interrupted);

/* Says in the trace why the command has no profile, if it ought to have one. */
void session_explain_command(struct session *session, const char *command, const char *library,
                             int exit_status, bool running);

#define SESSION_NAME_BYTES 64
/* Print the name of the session for other users: its number, and the profiler's pid. */
void session_print_name(const struct session *session, char name[SESSION_NAME_BYTES]);

/* Closes the trace; the first error of writing it. */
int session_close(struct session *session);

uint64_t session_samples(const struct session *session);
uint64_t session_lost(const struct session *session);
double session_live_bytes(const struct session *session);

#endif
