/* SPDX-License-Identifier: Apache-2.0 */
/* Counters of Perfetto's recorder, which restart under a new id. */
#ifndef HEAPPROFD_PROFILE_BUILDER_BUILDER_COUNTERS_H
#define HEAPPROFD_PROFILE_BUILDER_BUILDER_COUNTERS_H

#include <stddef.h>
#include <stdint.h>

#include "profile/profile.h"
#include "trace/intern.h"
#include "util/id_map.h"

struct builder;

/* See builder_counters_take(). */
struct builder_counters {
    struct intern_table ids; /* by heap, sequence, callstack id and callsite */
    struct counter_values {
        double allocated_bytes, freed_bytes, allocated_count, freed_count;
    } * last;              /* by id: the last values in the trace */
    struct id_map sums_of; /* by heap and callsite */
    struct counter_sum {
        struct counter_values sum;
        struct counter_values decrease; /* decreases in this dump; only if as_in_trace */
        uint64_t given;                 /* number of the dump that contains the sum */
    } * sums;
    size_t last_capacity, sum_count, sum_capacity;
};

/* Identity of counters. */
struct builder_counters_key {
    uint32_t heap, sequence, callsite;
    uint64_t callstack; /* id */
};
/* Add the increase of a callstack id's counters to the callsite's sum. Return 0 or -ENOMEM. */
int builder_counters_take(struct builder *builder, const struct builder_counters_key *key,
                          const struct profile_sample *sample);
/* Replace a sample's counters, after they were taken, with its callsite's sum. If the pending dump
 * has several samples of the callsite, the first one gets the sum and the others get zeros. */
void builder_counters_give(struct builder *builder, const struct builder_counters_key *key,
                           struct profile_sample *sample, uint64_t interval_bytes);
void builder_counters_free(struct builder_counters *counters);

#endif
