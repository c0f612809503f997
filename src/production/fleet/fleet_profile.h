/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sums of a selection as a profile, which all tools print, compare and export: one process for
 * each heap, with what its stacks held and allocated.
 *
 * Live memory is the mean over the time in which at least one process of the selection was
 * profiled: of all processes together, or of one process. What was allocated is the sum over the
 * selection's time, or that of one process in an hour.
 *
 * The variance of a sum over processes is the sum of theirs. The variance of a mean over time is at
 * most the mean of the variances, and that is used: blocks that stay live are sampled once, so the
 * moments of one process are not independent.
 */
#ifndef HEAPPROFD_PRODUCTION_FLEET_FLEET_PROFILE_H
#define HEAPPROFD_PRODUCTION_FLEET_FLEET_PROFILE_H

#include "production/fleet/clickhouse.h"
#include "production/fleet/selection.h"
#include "production/fleet/tables.h"
#include "profile/builder/profile_read.h"
#include "profile/view.h"

/* Most stacks that a question takes. The others are one, so that the sums stay whole. */
#define FLEET_STACKS_MAX 20000u

struct fleet_profile_options {
    enum export_view view; /* ranks the stacks, if there are more than FLEET_STACKS_MAX */
    bool per_process;      /* of a mean process, to compare selections of different size */
    const char *title;     /* of the selection, for people */
    int32_t first_pid;     /* of the processes; profiles to compare need different ones */
    struct profile_read_options reading;
};

/* Facts about the selection beside the profile. */
struct fleet_facts {
    struct fleet_sums sums; /* of all heaps */
    double time_s;          /* in which at least one process was profiled */
    uint64_t series, hosts, heaps, stacks;
};

/* Ask the server. Return NULL with *error set; -ENOENT: the selection has no data. */
struct profile *fleet_profile_read(struct clickhouse *server,
                                   const struct fleet_selection *selection,
                                   const struct fleet_profile_options *options,
                                   struct fleet_facts *facts, struct error *error);

#endif
