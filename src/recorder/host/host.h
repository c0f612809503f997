/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a command under the profiler: the daemon embedded in `heap_profile host`. It starts the
 * command with the preload library, answers its handshake, drains its rings, and writes the trace.
 */
#ifndef HEAPPROFD_RECORDER_HOST_HOST_H
#define HEAPPROFD_RECORDER_HOST_HOST_H

#include <stdbool.h>
#include <stdint.h>

#include "trace/config/trace_config.h"
#include "util/error.h"

/* Exit codes where the command did not run, those of env(1) and timeout(1). Wrong usage is a
 * failure of the profiler, too: 2 would be taken for the command's. */
#define HOST_PROFILER_FAILED 125
#define HOST_NOT_EXECUTABLE 126
#define HOST_NOT_FOUND 127

struct host_progress {
    uint64_t elapsed_ms;
    unsigned processes; /* profiled so far */
    double live_bytes;  /* estimated, all processes */
    uint64_t samples;   /* ALLOC records */
    uint64_t lost;      /* samples lost, all reasons */
    unsigned ending;    /* number of last dumps still to be written, at the end; else 0 */
};

struct host_options {
    const struct heap_config *config;
    char *const *command;        /* argv, NULL-terminated */
    const char *preload_library; /* absolute path of libheapprofd_preload.so */
    int trace_fd;                /* raw-trace, opened by the caller */
    bool follow_children;        /* profile all descendants */
    bool end_with_command;       /* even if profiled processes that it started still run */
    /* Called about ten times a second, and at the end; may be NULL. */
    void (*progress)(void *context, const struct host_progress *progress);
    void *progress_context;
    /* Called when the command has ended and the session goes on for this number of processes that
     * it started. May be NULL. */
    void (*outlived)(unsigned processes);
};

struct host_result {
    int32_t pid;         /* the command's, a child of the caller; 0: not started */
    int wait_status;     /* from waitpid; -1: not waited for yet */
    bool started;        /* the command was exec'ed */
    int exec_errno;      /* reason why it was not */
    bool interrupted;    /* a signal to us ended the session */
    unsigned profiled;   /* processes with a profile */
    unsigned unprofiled; /* processes that were seen but not profiled */
};

/*
 * Run a command and its session. session.h describes which processes are profiled, and what happens
 * at an exec. It runs until the command and all profiled processes have ended. With
 * end_with_command it runs until the command has ended, and dumps the processes that still run.
 * After config->duration_ms the session ends while the command goes on; host_wait() waits for the
 * command. Signals to us are passed on to the command (command_signals.h); after the command's end
 * they end the session. SIGUSR1 takes a dump. Return 0 or a negative errno with a message.
 */
int host_run(const struct host_options *options, struct host_result *result, struct error *error);

/* Wait for a command that outlives its session, and pass signals on to it until then. Set
 * wait_status, or -1 if it is unknown. */
void host_wait(struct host_result *result);

#endif
