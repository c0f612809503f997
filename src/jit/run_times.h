/* Which run time a process runs, by the files whose code it has mapped, and how that run time names
 * the code that it generates. */
#ifndef HEAPPROFD_JIT_RUN_TIMES_H
#define HEAPPROFD_JIT_RUN_TIMES_H

#include "jit/code_ranges.h"

struct run_time {
    const char *name;   /* what people call it: "node" */
    const char *remedy; /* "start it with --perf-basic-prof" */
};

/* NULL: none that is known. */
const struct run_time *run_time_find(const struct code_ranges *ranges);

#endif
