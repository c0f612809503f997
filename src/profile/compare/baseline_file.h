/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A baseline file: what growth needs of a run, in a few kB of JSON that is kept beside the sources.
 *
 * It has the four figures (growth_side.h) of the whole run, of each heap, of the patterns that the
 * run's own budgets of growth name, and of the functions that held or allocated most; and the
 * heaviest rows of stacks, from which a report says what grew. A figure is a number if it is exact,
 * and [value, low, high] if it is estimated; estimates are rounded to whole bytes and calls, their
 * limits outwards; null is unknown. Every row is on a line of its own, rows are in the order of
 * their names, and nothing depends on pids or times: two runs with the same figures have the same
 * file.
 *
 * The file is untrusted.
 */
#ifndef HEAPPROFD_PROFILE_COMPARE_BASELINE_FILE_H
#define HEAPPROFD_PROFILE_COMPARE_BASELINE_FILE_H

#include <stdio.h>

#include "profile/compare/growth_rows.h"

#define BASELINE_FUNCTIONS 24u
#define BASELINE_STACKS 16u
#define BASELINE_FILE_BYTES_MAX (1u << 20)
#define BASELINE_TEXT_BYTES_MAX 4096u
#define BASELINE_ROWS_MAX 4096u

struct baseline_row {
    char *of; /* "heap:libc.malloc", a pattern or a function; NULL: the whole run */
    struct growth_amount amounts[GROWTH_FIGURES];
    /* Why its estimates, or its exact totals, lack something; NULL: they do not. */
    char *partial, *totals_partial;
    bool lacks_frees;
};

struct baseline_stack {
    char *text; /* as in growth_rows.h */
    double amounts[GROWTH_FIGURES];
};

struct baseline_file {
    char *command;           /* of the first process */
    char *heap;              /* the only one that was judged (--heap); NULL: all */
    char *unseen;            /* why a process's allocations were not seen; NULL: all were */
    bool unprofiled;         /* processes ran and were not profiled */
    uint64_t interval_bytes; /* 0: unknown */
    char **suppressions;     /* patterns, sorted */
    size_t suppression_count, suppression_capacity;
    struct baseline_row total;
    struct baseline_row *rows; /* sorted by `of` */
    size_t row_count, row_capacity;
    struct baseline_stack *stacks; /* sorted by text */
    size_t stack_count, stack_capacity;
    double other_stacks[GROWTH_FIGURES]; /* the most that a row has which is not in the file */
};

/* Take from a run what a file keeps. Return 0 or -ENOMEM; baseline_file_clear() frees it in any
 * case. */
int baseline_file_make(const struct budgets *budgets, const struct budget_subject *subject,
                       struct baseline_file *file);
void baseline_file_write(const struct baseline_file *file, FILE *out);

/* Return whether a file begins like a baseline file. */
bool baseline_file_is(const char *path);
/* Read a file. Return 0, or a negative errno with *error set; baseline_file_clear() frees it in any
 * case. */
int baseline_file_read(struct baseline_file *file, const char *path, struct error *error);
/* The same from a buffer. Messages begin with the offset. */
int baseline_file_read_text(struct baseline_file *file, const char *text, size_t length,
                            struct error *error);
void baseline_file_clear(struct baseline_file *file);

/* Return what the file has of a figure and a part of the memory (NULL: all). `subject` is of the
 * baseline. */
struct growth_amount baseline_file_find(const struct baseline_file *file,
                                        const struct budgets *budgets,
                                        const struct budget_subject *subject, const char *pattern,
                                        enum growth_figure figure);

/* Return what the file has of a row's figure. *most: what the row may have had; more than the
 * result if the file has no such row. */
double baseline_file_stack(const struct baseline_file *file, const char *text,
                           enum growth_figure figure, double *most);

#endif
