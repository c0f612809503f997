/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a question is about: a time range and conditions on labels, as the WHERE clause of
 * `figures`.
 *
 * A range is taken apart into whole days, whole hours and the rest, each from the level of figures
 * that has it, so that every row counts once and few rows are read.
 */
#ifndef HEAPPROFD_PRODUCTION_FLEET_SELECTION_H
#define HEAPPROFD_PRODUCTION_FLEET_SELECTION_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "util/error.h"

#define FLEET_CONDITIONS_MAX 16u
#define FLEET_FOREVER INT64_MAX

struct fleet_condition {
    char name[128], value[512];
};

struct fleet_selection {
    /* Seconds since 1970: [since, until). until FLEET_FOREVER: no end. */
    int64_t since_s, until_s;
    struct fleet_condition conditions[FLEET_CONDITIONS_MAX]; /* all must hold */
    size_t condition_count;
    bool by_hour; /* take no sums by day: the answer is by hour */
    /* NULL, or a selection: series that meet all its own conditions do not belong to this one. */
    const struct fleet_selection *except;
};

/* Parse "2d", "36h", "90min" (ago), "2026-11-22", "2026-11-22T10:30" (UTC). Return 0 or -EINVAL. */
int fleet_time_parse(const char *text, int64_t now_s, int64_t *time_s, struct error *error);

/* Add conditions "NAME=VALUE[,NAME=VALUE...]"; the names since and until set the range. Return 0 or
 * -EINVAL. */
int fleet_selection_add(struct fleet_selection *selection, const char *text, int64_t now_s,
                        struct error *error);

/* A range of a day or more begins and ends at full hours: then it needs the hours' and days' sums
 * only. Rounds outwards. */
void fleet_selection_round(struct fleet_selection *selection);

/* Write the condition, without WHERE. `totals`: of the heaps' totals; else of single stacks. */
void fleet_selection_where(const struct fleet_selection *selection, bool totals, FILE *out);

/* Write the condition on labels only, for the table `series`. */
void fleet_selection_series(const struct fleet_selection *selection, FILE *out);

/* Write a text as an SQL string. */
void fleet_put_quoted(FILE *out, const char *text);

#endif
