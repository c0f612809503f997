/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The answers to the page's questions. Each writes its answer to `out` and returns 0, or a negative
 * errno with *error set: -EINVAL and -ENOENT are faults of the question.
 */
#ifndef HEAPPROFD_VIEW_ANSWERS_H
#define HEAPPROFD_VIEW_ANSWERS_H

#include <stdio.h>

#include "tools/view/model/kept.h"
#include "tools/view/model/selection.h"
#include "util/json_writer.h"

typedef int answer_function(struct view_profiles *profiles,
                            const struct view_parameters *parameters, FILE *out,
                            struct error *error);

/* The sizes that processes report of their allocators at a dump, as JSON. */
answer_function answer_allocators;
/* The rows of a table over time, as JSON. */
answer_function answer_course;
/* A level of the heap details, of several dumps side by side, as JSON. */
answer_function answer_details;
/* The selection as a file of another format. */
answer_function answer_export;
/* What the numbers of functions mean, as JSON. */
answer_function answer_functions;
/* What holds memory, or has grown, and whether it may be a leak, as JSON. */
answer_function answer_leaks;
/* The verdicts of `heap_profile check` on a profile, as JSON. */
answer_function answer_budgets;
/* The parts of a process's memory over time and at a dump, as JSON. */
answer_function answer_memory;
/* All profiles, processes, heaps and dumps with their figures, as JSON. */
answer_function answer_overview;
/* What happened between two dumps of a heap, as JSON. */
answer_function answer_range;
/* Two groups of runs, compared, as JSON. */
answer_function answer_runs;
/* The page as a file. */
answer_function answer_save;
/* The source file of a function, with the figures of its lines, as JSON. */
answer_function answer_source;
/* What a heap's profile says at a dump, in sentences, as JSON. */
answer_function answer_summary;
/* Write that answer. */
void summary_write(const struct view_profiles *profiles, const struct view_profile *of,
                   const struct export_dump *at, FILE *out);
/* A table by function, module, thread and so on, as JSON. */
answer_function answer_table;
/* A flame graph: a header in JSON, then columns of numbers (docs/view-requests.md). */
answer_function answer_flame;

#endif
