/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first answer about a heap at a dump: what its profile says, in sentences. They name what
 * holds most, what made the peak, who churns and what part of the process's memory the heaps are,
 * each with its figure, and only where it matters. Reports begin with them, and so does the page.
 */
#ifndef HEAPPROFD_TOOLS_PRINT_SUMMARY_H
#define HEAPPROFD_TOOLS_PRINT_SUMMARY_H

#include "profile/folding.h"

struct summary_subject {
    const struct profile *profile;
    const struct profile_heap *heap;
    const struct profile_dump *dump;
    const struct folding *folding; /* NULL: functions are not named */
    const uint32_t *of_frames;     /* by frame: the number of its function */
    size_t function_count;         /* more than these numbers */
    bool simple_names;             /* without parameters even if the profile has them */
    bool has_process;              /* also say what is about the whole process */
};

/* What a sentence is about. */
enum summary_topic {
    SUMMARY_LIVE,
    SUMMARY_PEAK,
    SUMMARY_GROWTH, /* which memory grows */
    SUMMARY_CHURN,
    SUMMARY_RESIDENT, /* the process's memory */
    SUMMARY_UNSEEN,
};

/* A sentence as parts: words and names by turns, the first and the last are words. A name is a
 * function or a command. A part may be empty. */
struct summary_sentence {
    const char **parts;
    size_t count;
    enum summary_topic topic;
};

struct summary {
    struct summary_sentence *items;
    size_t count;
    char *text; /* that of all parts */
    const char **parts;
};

/* Make the sentences. They are about the whole heap, so a profile that was read with a filter has
 * none. */
void summary_make(struct summary *summary, const struct summary_subject *subject);
void summary_clear(struct summary *summary);

#endif
