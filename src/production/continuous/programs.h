/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The processes that the collector knows, the programs that they belong to, and the interval of
 * each program. A program is what a section [program NAME] chooses under one name, of one user and
 * in one place (unit, container or cgroup): its processes share an interval (interval_control.h).
 * Programs of one section and name share a budget (budget_split.h). So whoever starts programs
 * under another's name has an own interval, and takes no more than a newcomer's part.
 */
#ifndef HEAPPROFD_PRODUCTION_CONTINUOUS_PROGRAMS_H
#define HEAPPROFD_PRODUCTION_CONTINUOUS_PROGRAMS_H

#include <control.pb-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "production/continuous/collector_config.h"
#include "production/continuous/collector_status.h"
#include "production/continuous/interval_control.h"
#include "production/continuous/labels.h"

#define PROGRAM_NAME_BYTES_MAX 64

struct program {
    char section[PROGRAM_NAME_BYTES_MAX], name[PROGRAM_NAME_BYTES_MAX];
    char user[16];     /* a number; "": unknown, it ended at once */
    uint64_t place;    /* hash of the unit, the container or the cgroup; 0: unknown */
    uint64_t came;     /* order of coming */
    bool has_part;     /* of the budget: it has processes */
    bool is_quiet;     /* as in budget_split.h */
    double share;      /* of the budget */
    double cost_share; /* of that, 0 to 1: less if its user costs too much (cost_control.h) */
    const struct program_config *config; /* NULL: the section is unknown */
    struct interval_control control;
    uint64_t samples, bytes; /* since the last step */
    size_t processes;        /* now */
    uint64_t seen_ms;        /* CLOCK_MONOTONIC, when it last had one */
    char left_out[160];      /* why it is not profiled; "" */
};

struct known_process {
    pid_t pid;
    char name[PROGRAM_NAME_BYTES_MAX];
    size_t program; /* index */
    struct labels labels;
    bool has_build_id;
    bool is_there;                 /* in the session, by its last progress */
    bool has_ended;                /* it was in the session, and is not any more */
    unsigned turns;                /* dumps taken since: its last one may come with the next */
    uint64_t samples, exact_bytes; /* by the last progress */
    uint64_t interval_bytes;       /* in force */
    uint64_t asked_bytes;          /* 0: none yet */
    /* By the last dump. */
    int64_t since_ns, last_dump_ns;
    struct memory_unexplained unexplained; /* of_bytes 0: unknown */
    struct collector_heap *heaps;          /* names are malloc'd */
    size_t heap_count, heap_capacity;
    struct collector_loss *losses;
    size_t loss_count, loss_capacity;
    char problem[512];
    char lent_to[96]; /* the session that has the process now; "": none */
    bool is_cut;      /* it was lent, and its last period is not made yet */
};

struct programs {
    const struct collector_config *config;
    struct program *programs;
    size_t program_count, program_capacity;
    struct known_process *processes;
    size_t process_count, process_capacity;
    struct collector_program *status; /* for programs_status() */
    size_t status_capacity;
    uint64_t came; /* programs so far */
    bool must_split;
};

void programs_init(struct programs *programs, const struct collector_config *config);
void programs_clear(struct programs *programs);

/* Take the figures of all processes in the session. */
void programs_take_progress(struct programs *programs, const Heapprofd__ControlSession *session);

/* Take a process that cannot be profiled. */
void programs_take_refused(struct programs *programs, pid_t pid, const char *name,
                           const char *reason);

/* Take a process that was lent to another session. */
void programs_take_lent(struct programs *programs, pid_t pid, const char *name, const char *whose);

/* Choose the intervals. Call it after each progress. */
void programs_step(struct programs *programs, uint64_t now_ms);

/* The configuration was replaced: describe all processes by the new one. */
void programs_reload(struct programs *programs);

/* The session has ended, and another one begins: all figures begin anew. */
void programs_begin_anew(struct programs *programs);

/* Return the process; NULL: it is unknown. */
struct known_process *programs_find(struct programs *programs, pid_t pid);
/* Return it, or make it: a process may begin and end between two reports of progress. */
struct known_process *programs_find_or_add(struct programs *programs, pid_t pid, const char *name,
                                           const char *section);

struct program *programs_of(struct programs *programs, const struct known_process *process);

/* Return the interval to ask of the program's processes: one without samples if it is off. */
uint64_t programs_interval_of(const struct program *program);

/* The least shares that are left to a program: of the user whose programs have most samples, and of
 * all users. */
struct programs_cost_shares {
    const char *user; /* a number: whose programs have most; "": unknown */
    double of_user, least;
};
struct programs_cost_shares programs_cost_shares(const struct programs *programs);
/* Multiply the shares of a user's programs, or everybody's (NULL), to `most` 1. */
void programs_scale_cost(struct programs *programs, const char *user, double factor);

/* Leave out the program with the most samples. Return its name, or NULL if none is left. */
const char *programs_leave_out(struct programs *programs, const char *reason);

/* Take what a dump says of one of the process's heaps. */
struct profile;
struct profile_heap;
void programs_take_heap(struct known_process *process, const struct profile *profile,
                        const struct profile_heap *heap, int64_t boottime_to_realtime_ns);

/* Forget the processes that have ended. Call it once their last periods are made. */
void programs_forget_ended(struct programs *programs);

/* Return the status of all processes, valid until the next call of any function here. */
const struct collector_program *programs_status(struct programs *programs, size_t *count);

#endif
