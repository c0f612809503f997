/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A profiling session: its targets with their rings and ledgers, and the trace that it writes.
 *
 * Targets of a command's session. Without names and without follow_children: the process of the
 * command, whatever it execs. With names: every descendant that has one of the names. With
 * follow_children: all descendants.
 *
 * Targets of a session of the machine: the processes that its configuration names and that its
 * owner may profile (recorder/processes/access.h). With follow_children: their forked children,
 * too.
 *
 * Exec. The last target of a pid has the ordinary heap names ("libc.malloc"). When a target execs
 * another target, its profile is written as a separate heap ("libc.malloc (sh, before exec)"), so
 * that nothing is lost and no reader takes the two for dumps of one heap. What a forked child did
 * before its exec is dropped: there it was only a copy of its parent. When a target execs a program
 * that is not a target, its profile is kept until the process ends.
 */
#ifndef HEAPPROFD_RECORDER_SESSION_SESSION_H
#define HEAPPROFD_RECORDER_SESSION_SESSION_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "recorder/cgroups/cgroup_watch.h"
#include "recorder/dump/checkpoints.h"
#include "recorder/dump/dump.h"
#include "recorder/processes/access.h"
#include "recorder/processes/exec_events.h"
#include "recorder/processes/invited.h"
#include "recorder/processes/program.h"
#include "recorder/session/empty_profile.h"
#include "recorder/session/target.h"
#include "recorder/session/unprofiled.h"
#include "recorder/timeline/system_watch.h"
#include "trace/config/trace_config.h"
#include "trace/write/trace_writer.h"
#include "wire/handshake.h"

/* Each target has a ring of shmem_size_bytes of address space and about three descriptors. */
#define SESSION_TARGETS_MAX 512
/* Processes that a session remembers not to profile, for now or for good. */
#define SESSION_LEFT_MAX 4096

/* The state of a process in target discovery (recorder/server/target_discovery.c). */
enum discovery_state {
    DISCOVERY_NOT_WANTED,
    DISCOVERY_DONE,    /* joined, attached to, or the trace says why not */
    DISCOVERY_AWAITED, /* has the library and will join by itself */
    DISCOVERY_FORKED,  /* not examined yet */
    DISCOVERY_LOADING, /* its loader is still running */
    DISCOVERY_BUSY,    /* could not be attached to for the moment */
    DISCOVERY_UNSEEN,  /* a profiler that cannot be seen has it, or was killed a moment ago */
    DISCOVERY_CLAIMED, /* the daemon asks continuous mode to hand it over */
    DISCOVERY_HELD,    /* another session has it; a background session takes it after that one */
};

/* The processes of the machine at the last scan, by pid. Times: CLOCK_MONOTONIC. */
struct discovery_list {
    struct discovery_entry {
        pid_t pid;
        char comm[16];
        uint64_t start_boottime_ns; /* of the process; 0: not examined */
        enum discovery_state state;
        bool running;      /* since before the session began */
        bool was_reported; /* the kernel reported its exec */
        uint64_t began_us; /* time of its exec if reported, else a lower bound; 0: unknown */
        uint64_t seen_ms, due_ms;
        unsigned attempts;
        struct invited invited; /* of an awaited process */
        uint64_t invited_ms;    /* when `invited` was last read; 0: not yet */
        bool is_invited;        /* that read succeeded */
        unsigned invitations;   /* number of times that it succeeded */
    } * entries;
    size_t count, capacity, pending;
    uint64_t due_ms;        /* nothing pending is due before this time */
    uint64_t scan_ms;       /* time of the last scan */
    uint64_t retry_ms;      /* failed attempts are not repeated before this time */
    uint64_t busy_ms;       /* time that failed attempts took in this turn */
    bool must_scan;         /* an event was missed since the last scan */
    uint64_t read_rings_ms; /* when the rings were last read between two processes */
};

/* Where the trace goes: into a file, or as packets without a head to Perfetto's tracing service or
 * to the collector of continuous mode. */
enum session_trace { SESSION_TRACE_FILE, SESSION_TRACE_SERVICE, SESSION_TRACE_COLLECTOR };

enum session_end {
    SESSION_GOES_ON,
    SESSION_OVER_DURATION,
    SESSION_OVER_GUARDRAIL,
    SESSION_OVER_STOPPED, /* on request */
    SESSION_OVER_ENDED,   /* all its processes have ended */
};

#define SESSION_PROGRAMS_KNOWN 16

/* A program's file at the time that it was read. */
struct known_program {
    dev_t device;
    ino_t inode; /* 0: empty entry */
    off_t bytes;
    struct timespec changed;
    bool is_unread; /* the file reader failed, or took too long */
    struct program program;
};

struct session;

/* Callbacks of a session's user. Each may be NULL. */
struct session_user {
    /* Called now and then during work that may take seconds: dumps, attaching, the end. */
    void (*busy)(void *context);
    /* Return whether the kernel reported that the process descends from the command, whoever its
     * parent is now. NULL: the kernel reports nothing. */
    bool (*descends)(void *context, pid_t pid);
    /* Called at once for a process that is wanted but gets no profile; the remark is the reason. */
    void (*refused)(void *context, struct session *session, const struct process_info *info,
                    const char *remark);
    /* Called before each of the last dumps with the number of dumps left. */
    void (*ending)(void *context, size_t left);
    void *context;
};

/* What is recorded beside the heaps (session_timeline.c). */
struct session_timeline {
    struct system_watch system;
    char cgroups[512];         /* where cgroups are mounted; "": nowhere */
    int64_t allowed_ns;        /* processor time that may be used */
    uint64_t allowed_since_ns; /* CLOCK_MONOTONIC; 0: not begun yet */
    size_t next;               /* the next target to be read */
};

struct session {
    uint64_t id;
    const struct heap_config *config;
    bool follow_children;
    bool of_command;                    /* else a session of the machine */
    pid_t command_pid;                  /* 0: not started yet */
    struct access_requester owner;      /* only in a session of the machine */
    const struct access_policy *policy; /* NULL: nothing is denied */
    enum session_end over;

    /* All times: CLOCK_MONOTONIC; UINT64_MAX: never. */
    uint64_t start_ms, sample_ms, dump_ms, end_ms;
    uint64_t cpu_us_at_start;
    uint64_t ring_bytes;
    enum session_trace trace;
    struct trace_writer *writer;
    struct dump_files *files;
    struct checkpoints checkpoints;
    struct session_timeline timeline;
    struct cgroup_watch cgroups;
    uint64_t near_due_ms;            /* no dump near the limit of a cgroup before this time */
    const struct session_user *user; /* set by the server */
    struct target *targets[SESSION_TARGETS_MAX];
    size_t target_count;
    struct unprofiled_list unprofiled;
    struct empty_profile_list empty_profiles;
    struct left_process {
        pid_t pid; /* 0: it was taken back */
        uint64_t start_boottime_ns;
        uint64_t borrower; /* the order of the session that it was lent to; 0: left for good */
        uint64_t since_ms; /* CLOCK_MONOTONIC */
    } * left;              /* the last SESSION_LEFT_MAX */
    size_t left_count;
    struct discovery_list discovery;
    struct known_program programs[SESSION_PROGRAMS_KNOWN]; /* the latest */
    unsigned next_program;
    unsigned profiled;          /* number of targets with a profile, including ended ones */
    uint64_t images;            /* number of programs in the trace so far */
    bool command_said_hello;    /* or was attached to at its first instruction */
    struct error entry_failure; /* why the command could not be; no message: it was, or need not */
    uint64_t samples_of_gone, lost_of_gone;
    pid_t *threads_of_gone; /* tids of a command's ended targets; a tid may be in it twice */
    size_t threads_of_gone_count, threads_of_gone_capacity;
};

/* Open the trace and write its head. The session is a command's until the caller sets its owner and
 * clears of_command. Return 0 or a negative errno. */
int session_open(struct session *session, const struct heap_config *config, bool follow_children,
                 enum session_trace trace, int trace_fd);

/* Do what the answer to the command's hello needs, before it comes: read its program's file ("":
 * unknown), and find the cgroup. */
void session_prepare(struct session *session, const char *program);

/*
 * Answer a process that says hello. Return
 *   1  it is a target: the caller sends and closes its ring, *memfd, and no longer owns info;
 *   2  it is a target that was attached to: the reply says that it is no target;
 *   0  it is not a target;
 *   a negative errno: do not reply.
 */
int session_hello(struct session *session, struct process_info *info, uid_t uid,
                  const struct handshake_hello *hello, struct handshake_reply *reply, int *memfd);

/* Return whether the process is one that the session wants. */
bool session_wants(const struct session *session, const struct process_info *info,
                   enum handshake_origin origin);

/* Return why a process that the session does not want has no profile. */
enum unprofiled_reason session_unwanted_reason(const struct session *session,
                                               const struct process_info *info);

/* Return 0 if the session's owner may profile the process, else -EPERM with a message. */
int session_may_profile(const struct session *session, const struct process_info *info,
                        struct error *error);

/* Return whether the session profiles the program that the process runs now. */
bool session_profiles(const struct session *session, pid_t pid);

/*
 * Make a target of a process that does not have the library, by attaching to it. *pidfd becomes
 * readable when the process ends. Returns as target_attach().
 */
int session_attach(struct session *session, pid_t pid, unsigned patience_ms, int *pidfd,
                   struct error *error);

/* Return whether the session would profile the process from the first instruction of a static
 * program, which it says it is about to become. `uid` is the sender's. */
bool session_may_enter(const struct session *session, const struct process_info *info, uid_t uid);

/*
 * Make a target of a static program that stands at its first instruction (recorder/attach/entry.h),
 * and let it go on. *pidfd becomes readable when it ends. Return 0; -ECANCELED without a message if
 * the session does not want it, or it is not static; or another negative errno with a message.
 */
int session_enter(struct session *session, pid_t pid, int *pidfd, struct error *error);

/* End the profile of an attached program: its process has begun another one. */
void session_end_replaced(struct session *session, const struct process_info *info);

/* End the profile of each program that its process has replaced by exec since the last call.
 * `found` (may be NULL) is called for each and may add targets. */
void session_handle_execs(struct session *session, void (*found)(void *context, pid_t pid),
                          void *context);

/* Room for the name of another session, for users: "number 5123456 of process 812". */
#define SESSION_NAME_BYTES 64

/* Note in the trace that a process belongs to another session, if this one wants it too. `whose`
 * names the other session. */
void session_reject(struct session *session, pid_t pid, enum handshake_origin origin,
                    const char *whose);

/* Write an empty profile of a wanted process that cannot be profiled, with the reason. Do nothing
 * if it has one already. */
void session_write_empty_profile(struct session *session, const struct process_info *info,
                                 const char *remark);

struct target *session_find(const struct session *session, pid_t pid);

/* End the session (session->over) if it exceeds max_heapprofd_memory_kb or
 * max_heapprofd_cpu_secs. */
void session_check_guardrails(struct session *session);

/* Take in what all rings hold, and write the profiles of replaced programs. Return the number of
 * bytes in the fullest ring. */
uint64_t session_poll(struct session *session);

/* Take in what the rings hold while an attach or a detach waits (attach_serve_meanwhile()). */
void session_serve_meanwhile(void *context);

/* Write a point of each target's timeline. */
void session_sample_memory(struct session *session);

/* Dump the targets whose cgroup has come near the limit of its memory. Call it ten times a second,
 * and when session->cgroups.epoll is readable. */
void session_check_cgroups(struct session *session);

/* Note how a thread of a target has ended, as the kernel reported it. */
void session_note_exit(struct session *session, const struct exec_event *event);
/* Note the most memory that a zombie ever had, if the kernel's count is of this program alone. */
void session_note_most_rss(struct session *session, pid_t pid, uint64_t bytes);

/* Write the last dump of a process that is dead (perhaps still a zombie). exit_status is that of
 * waitpid, -1 if the caller does not know it. */
void session_process_ended(struct session *session, pid_t pid, int exit_status);

/* End the profile of a process with its last dump, and let it go on. It is not profiled again while
 * it runs. */
void session_leave(struct session *session, pid_t pid);

/* End the profile of a process with its last dump, so that another session can profile it. It is
 * not wanted until session_take_back(). `borrower`: the order of that session, not 0. Return false
 * if it is not profiled. */
bool session_lend(struct session *session, pid_t pid, uint64_t borrower);

/* Want a process again that was lent. Return its pid, or 0 if no process was lent to that
 * session. */
pid_t session_take_back(struct session *session, uint64_t borrower);

/* The same for a process that was lent minutes ago and that no session profiles: the borrower's end
 * was not reported. */
pid_t session_take_back_unused(struct session *session);

/* Take targets out, with a last dump, that the configuration does not want any more or the policy
 * denies: one of the two has changed. */
void session_drop_unwanted(struct session *session);

/* Return whether a process was left, for now or for good. */
bool session_has_left(const struct session *session, const struct process_info *info);

/* Dump all targets while the session goes on. */
void session_dump(struct session *session);

/* Write everything that packets refer to again before its next use (trace_writer_restart()). */
void session_restart_trace(struct session *session);

/* Write dumps of all targets that count until later ones follow. If the profiler is killed, they
 * are what remains. */
void session_checkpoint(struct session *session);

/* Write the last dumps of targets that still run. */
void session_end_targets(struct session *session, bool interrupted);

/* If the command should have a profile but has none, write the reason in the trace. */
void session_explain_command(struct session *session, char *const *arguments, const char *library,
                             int exit_status, bool running);

/* If no process was found, write that into a trace whose reader gets no other answer. */
void session_explain_absence(struct session *session);

/* Close the trace. Return 0 or the first error of writing it. */
int session_close(struct session *session);

uint64_t session_samples(const struct session *session);
uint64_t session_lost(const struct session *session);
double session_live_bytes(const struct session *session);

#endif
