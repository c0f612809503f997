/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Builds one heap by callsite, for files that hold one process, and mostly a single moment of it.
 * The readers of this folder add figures to callsites of a builder, and end with a profile.
 */
#ifndef HEAPPROFD_PROFILE_IMPORT_HEAP_FIGURES_H
#define HEAPPROFD_PROFILE_IMPORT_HEAP_FIGURES_H

#include "profile/builder/builder.h"

struct heap_figures {
    struct builder *builder;
    struct profile_sample *samples; /* one a callsite, in order of appearance */
    size_t sample_count, sample_capacity;
    uint32_t *sample_of; /* by callsite: index + 1 */
    size_t sample_of_size;
    struct heap_figures_part {
        uint32_t sample;
        struct profile_part part;
    } * parts;
    size_t part_count, part_capacity;
    bool is_made; /* the profile has the heap, and at least one dump */
    uint32_t made;
};

/* Return the sample of a callsite, for additions until the next call. NULL: no memory. */
struct profile_sample *heap_figures_sample(struct heap_figures *heap, uint32_t callsite);
/* Add a part to the sample's figures. Return 0 or -ENOMEM. */
int heap_figures_part(struct heap_figures *heap, const struct profile_sample *sample,
                      const struct profile_part *part);

/* Return the callsite of a single frame that names what is known instead of a stack. PROFILE_NONE
 * after an error. */
#define HEAP_FIGURES_NO_STACK "[no stack]"
uint32_t heap_figures_marker(struct builder *builder, const char *name);

/* The known facts about the process and the heap. */
struct heap_figures_head {
    int32_t pid;
    const char *name, *command, *heap; /* texts of the builder; heap NULL: libc.malloc */
    double mean_processes;             /* as in profile_process */
    uint64_t interval_bytes;
    uint64_t first_interval_bytes; /* 0: the same */
    uint64_t start_boottime_ns, boottime_ns;
    uint64_t exact_bytes, exact_calls;
    bool has_exact;                      /* the file has both, perhaps zeros */
    double sampled_bytes, sampled_calls; /* as in profile_dump */
    struct profile_earlier earlier;      /* of a file about one period */
    double peak_bytes, peak_count;
    uint64_t peak_boottime_ns;
    const char *remark;            /* NULL: none */
    bool has_end;                  /* the file says how the process ended */
    struct process_end end;        /* its strings are texts of the builder */
    struct trace_heap_dump losses; /* only the losses (trace/losses.h) and unseen_allocator */
    bool incomplete, disagrees;    /* as in profile_dump */
    struct memory_unexplained unexplained;
    bool unfinished;  /* as in profile_heap */
    uint32_t unknown; /* enum profile_unknown; if it includes the peak, the peak is
                       * 0 */
};
/* Make the process, its heap and the only dump. The profile takes over the samples. Return 0 or
 * -ENOMEM. */
int heap_figures_finish(struct heap_figures *heap, const struct heap_figures_head *head);
/* The same for a file with several moments: add a dump, later than those before it. What is not of
 * the dump is taken from the last head. Samples begin anew. */
int heap_figures_add_dump(struct heap_figures *heap, const struct heap_figures_head *head);
void heap_figures_free(struct heap_figures *heap);

/* The allocations that `samples` samples of an average size represent at an interval, in *count and
 * *bytes with their variances: an allocation of s bytes was sampled with p = 1 - exp(-s/T). */
struct heap_estimate {
    double bytes, count, bytes_variance, count_variance;
    uint64_t samples;
};
struct heap_estimate heap_estimate_of_samples(double bytes, double samples, uint64_t interval);
/* The same for figures that are already scaled. */
struct heap_estimate heap_estimate_of_scaled(double bytes, double count, uint64_t interval);
/* Figures of the allocated and the live memory; `freed` is the difference. */
struct trace_figures heap_figures_of(const struct heap_estimate *allocated,
                                     const struct heap_estimate *live);
/* The same where what is live may be from before the time of `allocated`: each has its own samples
 * and variance, and the difference may be below 0 (trace_figures_live_samples()). */
struct trace_figures heap_figures_of_period(const struct heap_estimate *allocated,
                                            const struct heap_estimate *live);

#endif
