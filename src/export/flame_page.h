/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Flame graphs as one page for a browser: it contains its script and style, makes no network
 * requests, and has the whole profile as data, which it shows as text only.
 *
 * The user selects a graph (process and heap), each of which has several views. Stacks of equal
 * functions and modules are merged, whatever their addresses and lines.
 */
#ifndef HEAPPROFD_EXPORT_FLAME_PAGE_H
#define HEAPPROFD_EXPORT_FLAME_PAGE_H

#include <stdio.h>

#include "profile/confidence_interval.h"
#include "profile/profile.h"

#define FLAME_FIGURES_MAX 4

/* An estimate, or the difference of two: gained minus lost. */
struct flame_figure {
    struct profile_estimate gained, lost;
};

struct flame_view {
    const char *name, *title; /* "space", "bytes live" */
    unsigned figure;          /* which figure of a site */
    bool counts_bytes;
};

/* The memory that a call stack allocated itself. */
struct flame_site {
    const struct profile *profile; /* at most two for a page */
    uint32_t callsite;
    struct flame_figure figures[FLAME_FIGURES_MAX];
};

struct flame_graph {
    const char *process, *labels, *heap;
    int32_t pid;
    bool difference; /* lost is set */
    bool exact;      /* every allocation was recorded */
    bool partial;    /* the same, except that some were lost */
    uint64_t gained_interval_bytes, lost_interval_bytes;
    const struct flame_view *views;
    size_t view_count, figure_count;
    size_t site_count;
    void (*read_site)(const void *context, size_t index, struct flame_site *site);
    const void *context;
};

struct flame_page;

/* Begin a page. Output that is written stays in out after any error; write errors are left in
 * ferror(). Return NULL without memory. */
struct flame_page *flame_page_new(FILE *out, const char *title);
/* Return 0 or -ENOMEM. */
int flame_page_add(struct flame_page *page, const struct flame_graph *graph);
/* End the page; `result` is the result of the additions. Return 0 or -ENOMEM. */
int flame_page_end(struct flame_page *page, int result);

#endif
