/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of reading a pprof file as a profile. pprof.c reads the header and controls the rest;
 * pprof_frames.c converts strings, mappings and locations, pprof_drop.c finds frames to leave out,
 * pprof_samples.c converts samples.
 */
#ifndef HEAPPROFD_PROFILE_IMPORT_PPROF_READING_H
#define HEAPPROFD_PROFILE_IMPORT_PPROF_READING_H

#include "profile/import/heap_figures.h"
#include "profile/import/local_names.h"
#include "profile/import/pprof_file.h"
#include "util/pattern.h"

/* A stack with more frames is treated as damage, and so is a file with more callsites: few bytes of
 * a hostile file could request any number of them. */
#define PPROF_FRAMES_MAX (1u << 16)
#define PPROF_CALLSITES_MAX (1u << 25)
#define PPROF_VALUES_MAX 64u

/* The meaning of a sample's value. */
enum pprof_column {
    PPROF_ALLOC_OBJECTS,
    PPROF_ALLOC_SPACE,
    PPROF_OBJECTS,
    PPROF_SPACE,
    PPROF_COLUMNS
};

/* The frames that the file asks its readers to leave out (drop_frames, keep_frames). */
struct pprof_drop {
    struct pattern *drop, *keep; /* NULL: none */
    const char *problem;         /* why it is not done; NULL: it is, or nothing is asked for */
};

struct pprof_reading {
    struct pprof_file file;
    struct builder *builder;
    struct heap_figures heap;
    struct heap_figures_head head;
    unsigned columns_of[PPROF_VALUES_MAX]; /* by value of a sample: bits of the columns that it
                                            * adds to */
    double factor_of[PPROF_VALUES_MAX];    /* its unit, in bytes; 1 of a count */
    bool has[PPROF_COLUMNS];
    bool is_heap;
    bool has_sampling; /* samples have what their values were estimated from */
    bool is_elsewhere; /* the present sample has values that belong to no column */
    struct pprof_drop drop;
    struct local_names *local;    /* names of locations without lines; NULL: not wanted */
    uint32_t *modules;            /* of local names, by the file's index of mappings */
    size_t callsites, below_zero; /* with samples; of these, with negative figures */
    uint32_t *strings;   /* string of the builder + 1, by the file's index; 0: not copied yet */
    uint32_t *mappings;  /* of the builder, by the file's index; PROFILE_NONE: no mapping */
    uint64_t *load_bias; /* by the file's index of mappings */
    struct pprof_location_frames {
        size_t first;
        uint32_t count; /* 0: not made yet */
        /* Frames of it are to be dropped, with everything that they call: all, or only the inner
         * ones, which are not in the list. */
        enum { PPROF_KEPT, PPROF_DROPPED, PPROF_DROPPED_INSIDE } dropped;
    } * locations;
    uint32_t *frames; /* of the locations, innermost first */
    size_t frame_count, frame_capacity;
    const char **names; /* by frame of the builder: the file's name, or NULL */
    size_t name_capacity;
    uint64_t *ids, *last_ids; /* locations of the present and of the previous sample, innermost
                               * first */
    size_t id_count, id_capacity, last_count, last_capacity;
    uint32_t *path; /* callsites of the previous sample, by its locations from the outermost on */
    size_t path_capacity;
};

/* Read drop_frames and keep_frames. What is not an expression that can be used drops nothing, and
 * sets drop.problem. */
void pprof_drop_open(struct pprof_reading *reading);
void pprof_drop_close(struct pprof_drop *drop);
/* Return whether a function of this name is dropped. */
bool pprof_drop_matches(struct pprof_drop *drop, const char *name);
/* Remove the dropped locations from reading->ids, as go tool pprof does: the outermost one that has
 * a kept caller goes, with all that it calls. Return 0, or a negative errno, as of
 * pprof_reading_frames(). */
int pprof_drop_apply(struct pprof_reading *reading, struct error *error);

/* Return whether a string of the file is this text. */
bool pprof_reading_is_text(const struct pprof_reading *reading, uint64_t string, const char *text);
/* Return a string of the file, copied to the builder; "" if the file does not have it. */
const char *pprof_reading_text(struct pprof_reading *reading, uint64_t string);
/* Add the file's mappings to the builder. Return 0 or -ENOMEM. */
int pprof_reading_take_mappings(struct pprof_reading *reading);
/* Find names on this machine for the locations that have none. Return 0 or a negative errno; *error
 * is set except after -ENOMEM. */
int pprof_reading_find_names(struct pprof_reading *reading, struct trace_source *source,
                             struct error *error);
/* Return the frames of the location with this id. NULL if there is no such location, if it is
 * malformed, or without memory, which the builder then keeps as its error. */
const struct pprof_location_frames *pprof_reading_frames(struct pprof_reading *reading,
                                                         uint64_t id);
/* Set is_used for the columns that have values other than 0. */
void pprof_reading_find_used(const struct pprof_reading *reading, bool is_used[PPROF_COLUMNS]);
/* Add the file's samples to reading->heap. Return 0 or a negative errno; *error is set except after
 * -ENOMEM. */
int pprof_reading_take_samples(struct pprof_reading *reading, const struct trace_source *source,
                               struct error *error);

#endif
