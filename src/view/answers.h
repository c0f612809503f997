/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The answers to the page's questions. Each writes its answer to `out` and returns 0, or a negative
 * errno with *error set: -EINVAL and -ENOENT are faults of the question.
 */
#ifndef HEAPPROFD_VIEW_ANSWERS_H
#define HEAPPROFD_VIEW_ANSWERS_H

#include <stdio.h>

#include "view/selection.h"

/* All profiles, processes, heaps and dumps with their figures, as JSON. */
int answer_overview(struct view_profiles *profiles, const struct view_parameters *parameters,
                    FILE *out, struct error *error);
/* A flame graph: a header in JSON, then columns of numbers (docs/view.md). */
int answer_flame(struct view_profiles *profiles, const struct view_parameters *parameters,
                 FILE *out, struct error *error);
/* A table by function, module, thread and so on, as JSON. */
int answer_table(struct view_profiles *profiles, const struct view_parameters *parameters,
                 FILE *out, struct error *error);
/* The source file of a function, with the figures of its lines, as JSON. */
int answer_source(struct view_profiles *profiles, const struct view_parameters *parameters,
                  FILE *out, struct error *error);

#endif
