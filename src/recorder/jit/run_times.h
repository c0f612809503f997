/* SPDX-License-Identifier: Apache-2.0 */
/* Recognizes a process's language run time by its mapped code files, and explains how to make that
 * run time name the code that it generates. */
#ifndef HEAPPROFD_RECORDER_JIT_RUN_TIMES_H
#define HEAPPROFD_RECORDER_JIT_RUN_TIMES_H

#include "recorder/jit/code_ranges.h"

struct run_time {
    const char *name;   /* common name: "node" */
    const char *remedy; /* "start it with --perf-basic-prof" */
};

/* Return the run time, or NULL if no known one is mapped. */
const struct run_time *run_time_find(const struct code_ranges *ranges);

#endif
