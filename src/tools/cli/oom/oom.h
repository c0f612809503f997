/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The result of `heap_profile oom`: processes that the OOM killer ended (or any signal), what held
 * their memory at their last dump, and what had grown since the dump before. Printed as text and as
 * JSON.
 */
#ifndef HEAPPROFD_TOOLS_CLI_OOM_OOM_H
#define HEAPPROFD_TOOLS_CLI_OOM_OOM_H

#include <stdio.h>

#include "profile/compare/growth.h"
#include "tools/cli/compare/compare_format.h"
#include "util/json_writer.h"

struct oom_options {
    bool all; /* processes that any signal ended, too, and those of whose end nothing is known */
    uint64_t top; /* rows of a table; 0: all */
    bool stacks, all_frames, colours;
};

/* A heap of a process that died. */
struct oom_heap {
    const struct profile_heap *heap;
    const struct profile_dump *last, *before; /* before NULL: there is only one dump */
    struct diff *held_diff, *grown_diff;      /* grown_diff NULL: no dump before */
    struct growth_list held, grown;           /* the largest first */
};

struct oom_death {
    const char *path; /* of the trace */
    const struct profile *profile;
    const struct profile_process *process;
    struct oom_heap *heaps; /* those with live memory, the largest first */
    size_t heap_count;
    struct compare_stacks stacks;
};

/* Return whether the process is one to list. */
bool oom_is_wanted(const struct profile_process *process, bool all);

/* Describe the death of a process; `path` and `profile` must outlive it. `whole_stacks`: each stack
 * is printed in full. Return 0, or -E2BIG with a message if that would be too much
 * (profile/view.h). Clear it in both cases. */
int oom_death_make(const struct profile *profile, size_t process, const char *path,
                   const struct oom_options *options, bool whole_stacks, struct oom_death *death,
                   struct error *error);
void oom_death_clear(struct oom_death *death);

/* Return when it died, in ns since 1970; 0: unknown. */
int64_t oom_death_realtime_ns(const struct oom_death *death);

void oom_print_text(const struct oom_death *death, const struct oom_options *options, FILE *out);
void oom_print_json(const struct oom_death *death, const struct oom_options *options,
                    struct json_writer *json);

#endif
