/* SPDX-License-Identifier: Apache-2.0 */
/* The answers that growth.c judges: profiled time and live memory by series and moment. */
#ifndef HEAPPROFD_PRODUCTION_FLEET_GROWTH_DATA_H
#define HEAPPROFD_PRODUCTION_FLEET_GROWTH_DATA_H

#include "production/fleet/growth.h"
#include "production/fleet/stacks.h"

struct growth_series {
    uint64_t id;
    uint32_t host; /* index of growth_host */
};

/* One heap of a service on a host: all series of it, whatever their version. */
struct growth_host {
    uint32_t service, heap, name; /* strings */
    double seconds[TREND_MOMENTS_MAX];
};

struct growth_cell {
    uint64_t stack;
    uint32_t host, moment;
    double live, variance; /* integrals */
};

struct growth_data {
    struct clickhouse *server;
    const struct fleet_selection *selection;
    struct error *error;
    struct fleet_stacks stacks;
    int64_t first_s, moment_s;             /* moments begin at first_s */
    size_t moments, first_seen, last_seen; /* the first and the last one with a profiled process */
    struct growth_series *series;
    size_t series_count, series_capacity;
    struct id_map series_ids;
    struct growth_host *hosts;
    size_t host_count, host_capacity;
    struct intern_table host_ids;
    uint64_t candidates[2 * FLEET_GROWTH_STACKS_MAX];
    size_t candidate_count, callsites;
    struct growth_cell *cells; /* by stack, then host */
    size_t cell_count, cell_capacity;
};

/* Each returns 0, or a negative errno with *data->error set. In this order: */
int growth_data_candidates(struct growth_data *data);
int growth_data_series(struct growth_data *data);
int growth_data_times(struct growth_data *data);
int growth_data_cells(struct growth_data *data);
void growth_data_free(struct growth_data *data);

#endif
