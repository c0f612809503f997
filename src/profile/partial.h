/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether the figures of a dump leave out allocations, and why.
 *
 * The figures of a partial profile are lower bounds: the missing part is unknown. Reports mark such
 * a profile, call no figure of it exact, and no budget on it holds. Reasons are the losses of one
 * table (trace/losses.h), samples that are missing from the trace, an allocator that was not
 * profiled, memory that is in no heap, and totals that disagree with the samples.
 *
 * A heap whose last dump is missing (heap->unfinished) is not partial: its figures are true at the
 * moment of the dump, and only what came later is unknown.
 */
#ifndef HEAPPROFD_PROFILE_PARTIAL_H
#define HEAPPROFD_PROFILE_PARTIAL_H

#include <stdbool.h>
#include <stddef.h>

#include "profile/profile.h"

struct profile_partial_reason {
    const char *name;  /* in one word, for scripts */
    const char *words; /* for people */
    bool of_dump;      /* reported by the dump or the heap, not in the table of losses */
};

/* The reason of a dump whose totals and samples disagree. */
extern const char profile_disagreement_words[];

#define PROFILE_PARTIAL_REASONS_MAX (TRACE_LOSS_IDS + 4)

/* Return whether much memory of the process was in no heap. */
bool profile_is_unexplained(const struct profile_dump *dump);

/* Fill in the reasons for which the dump's estimates leave out allocations. Return their number; 0:
 * the dump is whole. */
size_t profile_partial_reasons(const struct profile_heap *heap, const struct profile_dump *dump,
                               struct profile_partial_reason reasons[PROFILE_PARTIAL_REASONS_MAX]);

/* Return whether the dump's estimates leave out allocations. */
bool profile_dump_is_partial(const struct profile_heap *heap, const struct profile_dump *dump);

/* Return whether the dump's exact totals are known, perhaps as zeros. A program that samples by
 * itself has none, and many files of other profilers have none. */
bool profile_has_totals(const struct profile_heap *heap, const struct profile_dump *dump);

/* Return why the exact totals leave out calls, too, in words for people; NULL: they do not. */
const char *profile_totals_why_partial(const struct profile_heap *heap,
                                       const struct profile_dump *dump);

/* Return whether live figures may be too high, because frees were lost. */
bool profile_lacks_frees(const struct profile_heap *heap);

/* Return whether the dump's figures have every single allocation and free. */
bool profile_dump_is_exact(const struct profile_heap *heap, const struct profile_dump *dump);

#endif
