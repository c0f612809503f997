/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The labels of a process's periods: facts of the machine and the process, and what the
 * configuration says. Values come from programs, too: control characters are replaced, and they
 * have a bounded length.
 */
#ifndef HEAPPROFD_PRODUCTION_CONTINUOUS_LABELS_H
#define HEAPPROFD_PRODUCTION_CONTINUOUS_LABELS_H

#include <stddef.h>
#include <sys/types.h>

#include "production/continuous/collector_config.h"
#include "production/continuous/period.h"

#define LABELS_MAX 48
#define LABEL_VALUE_BYTES 256

struct labels {
    struct period_label items[LABELS_MAX]; /* by name; values are malloc'd, names too */
    size_t count;
};

/* Set a label if the value is not empty. An earlier value is replaced. */
void labels_set(struct labels *labels, const char *name, const char *value);
void labels_clear(struct labels *labels);
/* Return the value, or "". */
const char *labels_get(const struct labels *labels, const char *name);

/* Set the labels of a process that runs: of the machine, of the section that chose it, and what
 * /proc says. `name` is the program's. */
void labels_describe(struct labels *labels, const struct collector_config *config,
                     const struct program_config *program, pid_t pid, const char *name);

/* Copy the labels and `more` ones, which are ordered by name, to items. Names of `more` replace
 * those of the labels. Return the number of items, of which the caller provides the sum of both. */
size_t labels_with(const struct labels *labels, const struct period_label *more, size_t more_count,
                   struct period_label *items);

#endif
