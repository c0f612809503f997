/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Callsites whose live bytes rise: asks the store for the rise of every stack, and for the course
 * over time, host by host, of those that rose most. trend.h judges them.
 */
#ifndef HEAPPROFD_PRODUCTION_FLEET_GROWTH_H
#define HEAPPROFD_PRODUCTION_FLEET_GROWTH_H

#include "production/fleet/clickhouse.h"
#include "production/fleet/selection.h"
#include "production/fleet/trend.h"
#include "profile/confidence_interval.h"
#include "profile/profile.h"

/* Stacks that are judged: those with the greatest rise of all hosts together, and of one host. */
#define FLEET_GROWTH_STACKS_MAX 64u

struct fleet_growth_row {
    uint64_t stack;
    const char *service, *heap; /* texts of the profile */
    uint32_t callsite;
    struct trend_of_hosts trend;
    double p;
    double slope;                        /* bytes per day, of all hosts */
    struct profile_estimate first, last; /* live bytes of all hosts in the first and last moment */
    const char *worst_host;              /* with the smallest p; a text of the profile */
    double worst_p, worst_slope;         /* of it */
};

struct fleet_growth {
    struct profile *profile;       /* of the stacks: without figures */
    struct fleet_growth_row *rows; /* the smallest p first */
    size_t count;
    size_t callsites; /* that were examined */
    size_t moments;
    int64_t moment_s; /* length of a moment */
};

/* Return 0, or a negative errno with *error set; -ENODATA: the time is too short. Clear it. */
int fleet_growth_read(struct fleet_growth *growth, struct clickhouse *server,
                      const struct fleet_selection *selection, int64_t now_s, struct error *error);
void fleet_growth_clear(struct fleet_growth *growth);

#endif
