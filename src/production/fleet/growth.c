/* SPDX-License-Identifier: Apache-2.0 */
#include "production/fleet/growth.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "production/fleet/growth_data.h"
#include "production/fleet/tables.h"

/* Less is no time of a profile. */
#define SECONDS_MIN 1e-6
/* From this range on a moment is a day. */
#define DAYS_MIN (5 * FLEET_DAY_S)

/* Choose moments: as many whole hours or days as are fit for the test. The present one is left out:
 * it is not over. */
static int choose_moments(struct growth_data *data, struct fleet_selection *selection,
                          int64_t now_s)
{
    int64_t until = selection->until_s < now_s ? selection->until_s : now_s;
    data->moment_s = until - selection->since_s >= DAYS_MIN ? FLEET_DAY_S : FLEET_HOUR_S;
    until = until / data->moment_s * data->moment_s;
    int64_t since = (selection->since_s + data->moment_s - 1) / data->moment_s * data->moment_s;
    int64_t moments = (until - since) / data->moment_s;
    if (moments > (int64_t)TREND_MOMENTS_MAX) {
        since = until - (int64_t)TREND_MOMENTS_MAX * data->moment_s;
        moments = TREND_MOMENTS_MAX;
    }
    if (moments < (int64_t)TREND_MOMENTS_MIN)
        return error_set(data->error, -ENODATA,
                         "a trend needs %u whole hours or days: choose an earlier --since",
                         TREND_MOMENTS_MIN);
    selection->since_s = data->first_s = since;
    selection->until_s = until;
    selection->by_hour = data->moment_s < FLEET_DAY_S;
    data->moments = (size_t)moments;
    return 0;
}

/* Judge one host: the mean of its processes at each moment in which they were profiled. A stack
 * that was not sampled then was estimated as 0. */
static struct trend judge_host(const struct growth_data *data, const struct growth_host *host,
                               const double *live, double *processes)
{
    double values[TREND_MOMENTS_MAX], seconds = 0;
    size_t seen = 0;
    for (size_t i = 0; i < data->moments; i++) {
        values[i] = host->seconds[i] > SECONDS_MIN ? live[i] / host->seconds[i] : NAN;
        seconds += host->seconds[i];
        seen += host->seconds[i] > SECONDS_MIN;
    }
    *processes = seen == 0 ? 0 : seconds / ((double)seen * (double)data->moment_s);
    return trend_of(values, data->moments);
}

static void judge_and_add(const struct growth_data *data, uint32_t number, const double *live,
                          struct fleet_growth_row *row)
{
    const struct growth_host *host = &data->hosts[number];
    double processes;
    struct trend trend = judge_host(data, host, live, &processes);
    trend_add_host(&row->trend, &trend);
    double slope = trend.slope * processes * (double)(FLEET_DAY_S / data->moment_s);
    row->slope += slope;
    if (trend.moments < TREND_MOMENTS_MIN || trend.p > row->worst_p ||
        (trend.p == row->worst_p && slope <= row->worst_slope))
        return;
    row->worst_p = trend.p;
    row->worst_slope = slope;
    row->worst_host = data->stacks.builder->strings[host->name];
}

/* Judge a stack from its cells, [first, end). Hosts of its service and heap without a cell count as
 * hosts that do not change. */
static void judge_stack(const struct growth_data *data, size_t first, size_t end,
                        struct fleet_growth_row *row)
{
    const struct fleet_stack *stack = fleet_stacks_find(&data->stacks, row->stack);
    size_t at = first;
    double moment_s = (double)data->moment_s;
    for (; at < end;) {
        double live[TREND_MOMENTS_MAX] = {0};
        uint32_t host = data->cells[at].host;
        for (; at < end && data->cells[at].host == host; at++) {
            const struct growth_cell *cell = &data->cells[at];
            live[cell->moment] += cell->live;
            if (cell->moment == data->first_seen || cell->moment == data->last_seen) {
                struct profile_estimate *sum =
                    cell->moment == data->first_seen ? &row->first : &row->last;
                sum->bytes += cell->live / moment_s;
                sum->bytes_variance += cell->variance / moment_s;
            }
        }
        judge_and_add(data, host, live, row);
    }
    size_t others = 0;
    for (size_t i = 0; stack != NULL && i < data->host_count; i++)
        others += data->hosts[i].service == stack->service && data->hosts[i].heap == stack->heap;
    if (others > row->trend.hosts)
        row->trend.hosts = others;
}

static int compare_rows(const void *a, const void *b)
{
    const struct fleet_growth_row *one = a, *other = b;
    if (one->p != other->p)
        return one->p < other->p ? -1 : 1;
    return (one->slope < other->slope) - (one->slope > other->slope);
}

static int judge_all(struct fleet_growth *growth, struct growth_data *data)
{
    growth->rows = calloc(data->candidate_count + 1, sizeof(*growth->rows));
    if (growth->rows == NULL)
        return error_set(data->error, -ENOMEM, "no memory");
    for (size_t first = 0, end; first < data->cell_count; first = end) {
        for (end = first;
             end < data->cell_count && data->cells[end].stack == data->cells[first].stack; end++)
            ;
        struct fleet_growth_row *row = &growth->rows[growth->count++];
        *row = (struct fleet_growth_row){.stack = data->cells[first].stack,
                                         .trend.p_best = 1,
                                         .worst_p = 1,
                                         .service = "",
                                         .heap = "",
                                         .worst_host = "",
                                         .callsite = PROFILE_NONE};
        judge_stack(data, first, end, row);
        row->p = trend_p(&row->trend, data->callsites);
        const struct fleet_stack *stack = fleet_stacks_find(&data->stacks, row->stack);
        if (stack == NULL)
            continue;
        row->callsite = fleet_stacks_callsite(&data->stacks, stack, PROFILE_NONE);
        row->service = data->stacks.builder->strings[stack->service];
        row->heap = data->stacks.builder->strings[stack->heap];
    }
    qsort(growth->rows, growth->count, sizeof(*growth->rows), compare_rows);
    return 0;
}

int fleet_growth_read(struct fleet_growth *growth, struct clickhouse *server,
                      const struct fleet_selection *wanted, int64_t now_s, struct error *error)
{
    static const struct profile_read_options reading = {.demangling = DEMANGLE_SIMPLE};
    struct fleet_selection selection = *wanted;
    struct growth_data data = {.server = server,
                               .selection = &selection,
                               .error = error,
                               .stacks = {.builder = builder_new(&reading)}};
    *growth = (struct fleet_growth){0};
    int code = data.stacks.builder == NULL ? error_set(error, -ENOMEM, "no memory") : 0;
    code = code < 0 ? code : choose_moments(&data, &selection, now_s);
    code = code < 0 ? code : growth_data_candidates(&data);
    code = code < 0 ? code : growth_data_series(&data);
    code = code < 0 ? code : growth_data_times(&data);
    code = code < 0 ? code : growth_data_cells(&data);
    code = code < 0 ? code
                    : fleet_stacks_read(&data.stacks, server, data.candidates, data.candidate_count,
                                        error);
    code = code < 0 ? code : judge_all(growth, &data);
    growth->callsites = data.callsites;
    growth->moments = data.moments;
    growth->moment_s = data.moment_s;
    if (data.stacks.builder != NULL)
        growth->profile = builder_end(data.stacks.builder, &code, NULL);
    growth_data_free(&data);
    return code;
}

void fleet_growth_clear(struct fleet_growth *growth)
{
    profile_free(growth->profile);
    free(growth->rows);
    *growth = (struct fleet_growth){0};
}
