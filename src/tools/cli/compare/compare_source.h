/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An argument of the comparing verbs: a trace, or one dump of it, as in TRACE, TRACE@2 (its second
 * dump), TRACE@12.5s (the dump nearest to 12.5 s after the profile's start), TRACE@max (the dump
 * with most live bytes), TRACE@last and TRACE@final. These two differ if the caller wants the last
 * one of programs that free all at their end to be the one before it. TRACE may be a directory that
 * heap_profile wrote.
 */
#ifndef HEAPPROFD_TOOLS_CLI_COMPARE_COMPARE_SOURCE_H
#define HEAPPROFD_TOOLS_CLI_COMPARE_COMPARE_SOURCE_H

#include "profile/builder/profile_read.h"
#include "profile/compare/diff.h"
#include "tools/cli/options/options.h"

enum compare_dump { COMPARE_LAST, COMPARE_NUMBER, COMPARE_TIME, COMPARE_MAX };

struct compare_source {
    const char *argument; /* as the user typed it */
    char path[4096];
    enum compare_dump which;
    bool is_final;      /* COMPARE_LAST was named @final */
    uint64_t number;    /* from 1 */
    uint64_t offset_ns; /* since the start of the trace's first profile */
    struct profile *profile;
    struct export_dump *dumps; /* the chosen ones */
    size_t dump_count;
};

/* Parse an argument. Return 0, or a negative errno with *error set. */
int compare_source_parse(const char *argument, struct compare_source *source, struct error *error);

/* Read both profiles, once if they are one file. Return 0, or a negative errno with *error set. */
int compare_sources_read(struct compare_source sources[2],
                         const struct profile_read_options *options, struct error *error);
/* Check that the dumps are small enough to compare. `whole_stacks`: each stack counts by itself.
 * Return 0, or -E2BIG (profile/view.h) or -ENOMEM with *error set. */
int compare_sources_check_size(const struct compare_source sources[2], bool whole_stacks,
                               struct error *error);
/* Print the warning of a source's profile, if it has been read and has one. */
void compare_source_warn(const struct compare_source *source);
/* Print the warnings of both profiles, once if they are the same. */
void compare_sources_warn(const struct compare_source sources[2]);
void compare_sources_close(struct compare_source sources[2]);

struct compare_choice {
    int32_t pid;        /* 0: all */
    const char *heap;   /* NULL: all */
    const char *name;   /* of the process; NULL: all */
    const char *labels; /* contained in its command line; NULL: all */
    bool before_end;    /* COMPARE_LAST: without a last dump after which little is left */
};

/* Return whether the program had freed most of its memory, more than three quarters, when its last
 * dump was taken, at its end. */
bool compare_is_freed_at_end(const struct profile_heap *heap);
/* Return whether the dump before that one was chosen in its place. */
bool compare_is_before_end(const struct compare_source *source, const struct export_dump *chosen);

/* --pid PID[,PID]: of the profile before and after; a single PID means both. */
struct compare_pids {
    int32_t of[2]; /* 0: all */
};
option_take take_compare_pids;

/* Choose the dumps of a source whose profile has been read. Return 0, or a negative errno with
 * *error set if none fits. */
int compare_source_choose(struct compare_source *source, const struct compare_choice *choice,
                          struct error *error);

#endif
