/* SPDX-License-Identifier: Apache-2.0 */

#include "production/fleet/growth.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "production/fleet/answer.h"
#include "production/fleet/stacks.h"
#include "production/fleet/tables.h"
#include "util/array.h"

/* --- the answers that are judged: profiled time and live memory by series and moment --- */

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

#define SERIES_MAX 4000000u

/* A query that is being written. */
struct query {
    char *text;
    size_t size;
    FILE *out;
};

static bool growth_begin(struct query *query)
{
    *query = (struct query){0};
    return (query->out = open_memstream(&query->text, &query->size)) != NULL;
}

/* Run the query, and free it. */
static int growth_run(struct growth_data *data, struct query *query,
                      struct clickhouse_answer *answer)
{
    fputs(" FORMAT RowBinary", query->out);
    int code = fclose(query->out) != 0
                   ? error_set(data->error, -ENOMEM, "no memory")
                   : clickhouse_run(data->server, query->text, NULL, 0, answer, data->error);
    free(query->text);
    return code;
}

static int no_memory(struct growth_data *data)
{
    return error_set(data->error, -ENOMEM, "no memory for the course of the callsites");
}

static int growth_finish(struct growth_data *data, struct clickhouse_answer *text,
                         const struct answer *answer, int code)
{
    if (code == 0 && answer->is_bad)
        code = error_set(data->error, -EBADMSG, "query %s: the server's answer is damaged",
                         text->query_id);
    clickhouse_answer_clear(text);
    return code;
}

static void growth_data_free(struct growth_data *data)
{
    fleet_stacks_free(&data->stacks);
    free(data->series);
    free(data->hosts);
    free(data->cells);
    id_map_free(&data->series_ids);
    intern_free(&data->host_ids);
}

/* --- stacks that rose most --- */

struct top {
    uint64_t stacks[FLEET_GROWTH_STACKS_MAX];
    double rises[FLEET_GROWTH_STACKS_MAX]; /* the highest first */
    size_t count;
};

static void top_add(struct top *top, uint64_t stack, double rise)
{
    size_t at = top->count;
    if (!(rise > 0) || (at == FLEET_GROWTH_STACKS_MAX && rise <= top->rises[at - 1]))
        return;
    if (at == FLEET_GROWTH_STACKS_MAX)
        at--;
    else
        top->count++;
    for (; at > 0 && top->rises[at - 1] < rise; at--) {
        top->rises[at] = top->rises[at - 1];
        top->stacks[at] = top->stacks[at - 1];
    }
    top->rises[at] = rise;
    top->stacks[at] = stack;
}

static void add_candidates(struct growth_data *data, const struct top *top)
{
    for (size_t i = 0; i < top->count; i++) {
        bool known = false;
        for (size_t j = 0; j < data->candidate_count; j++)
            known |= data->candidates[j] == top->stacks[i];
        if (!known)
            data->candidates[data->candidate_count++] = top->stacks[i];
    }
}

/* Each returns 0, or a negative errno with *data->error set. In this order: */
static int growth_data_candidates(struct growth_data *data)
{
    struct query query;
    struct clickhouse_answer text = {0};
    struct top all = {0}, one = {0};
    int64_t middle = data->first_s + (int64_t)data->moments * data->moment_s / 2;
    if (!growth_begin(&query))
        return no_memory(data);
    fprintf(query.out,
            "SELECT stack, sum(rise), max(rise) FROM (SELECT stack, series, "
            "sum(if(time >= toDateTime(%lld), live_byte_seconds, -live_byte_seconds)) AS rise "
            "FROM figures WHERE ",
            (long long)middle);
    fleet_selection_where(data->selection, false, query.out);
    fputs(" GROUP BY stack, series) GROUP BY stack", query.out);
    int code = growth_run(data, &query, &text);
    struct answer answer = answer_begin(text.bytes, text.length);
    while (code == 0 && answer_has_more(&answer)) {
        uint64_t stack = answer_u64(&answer);
        double sum = answer_figure(&answer), most = answer_figure(&answer);
        data->callsites++;
        top_add(&all, stack, sum);
        top_add(&one, stack, most);
    }
    add_candidates(data, &all);
    add_candidates(data, &one);
    return growth_finish(data, &text, &answer, code);
}

/* --- series and hosts --- */

static uint32_t take_string(struct growth_data *data, struct answer *answer)
{
    struct answer_text text = answer_text(answer);
    return builder_string(data->stacks.builder, text.bytes, text.length);
}

static int add_series(struct growth_data *data, uint64_t id, const struct growth_host *host)
{
    const uint32_t key[3] = {host->service, host->heap, host->name};
    bool added = false;
    uint64_t number = intern_bytes(&data->host_ids, key, sizeof(key), &added);
    if (number == 0 || data->series_count >= SERIES_MAX ||
        (added && ARRAY_ADD(&data->hosts, &data->host_count, &data->host_capacity, *host) < 0))
        return no_memory(data);
    if (id_map_find(&data->series_ids, id) != ID_MAP_NONE)
        return 0;
    struct growth_series series = {.id = id, .host = (uint32_t)number - 1};
    if (id_map_set(&data->series_ids, id, (uint32_t)data->series_count) < 0 ||
        ARRAY_ADD(&data->series, &data->series_count, &data->series_capacity, series) < 0)
        return no_memory(data);
    return 0;
}

static int growth_data_series(struct growth_data *data)
{
    struct query query;
    struct clickhouse_answer text = {0};
    if (!growth_begin(&query))
        return no_memory(data);
    fputs("SELECT series, service, heap, host FROM series WHERE ", query.out);
    fleet_selection_series(data->selection, query.out);
    int code = growth_run(data, &query, &text);
    struct answer answer = answer_begin(text.bytes, text.length);
    while (code == 0 && answer_has_more(&answer)) {
        uint64_t id = answer_u64(&answer);
        struct growth_host host = {.service = take_string(data, &answer)};
        host.heap = take_string(data, &answer);
        host.name = take_string(data, &answer);
        if (!answer.is_bad)
            code = add_series(data, id, &host);
    }
    if (code == 0 && data->stacks.builder->error < 0)
        code = no_memory(data);
    return growth_finish(data, &text, &answer, code);
}

static void put_moment(const struct growth_data *data, FILE *out)
{
    fprintf(out, "toUInt32(intDiv(toUInt32(time) - %lld, %lld)) AS moment",
            (long long)data->first_s, (long long)data->moment_s);
}

static int growth_data_times(struct growth_data *data)
{
    struct query query;
    struct clickhouse_answer text = {0};
    if (!growth_begin(&query))
        return no_memory(data);
    fputs("SELECT series, ", query.out);
    put_moment(data, query.out);
    fputs(", sum(seconds) FROM figures WHERE ", query.out);
    data->first_seen = data->moments;
    fleet_selection_where(data->selection, true, query.out);
    fputs(" GROUP BY series, moment", query.out);
    int code = growth_run(data, &query, &text);
    struct answer answer = answer_begin(text.bytes, text.length);
    while (code == 0 && answer_has_more(&answer)) {
        uint32_t number = id_map_find(&data->series_ids, answer_u64(&answer));
        uint32_t moment = answer_u32(&answer);
        double seconds = answer_figure(&answer);
        if (number == ID_MAP_NONE || moment >= data->moments || answer.is_bad)
            continue;
        data->hosts[data->series[number].host].seconds[moment] += seconds;
        data->first_seen = moment < data->first_seen ? moment : data->first_seen;
        data->last_seen = moment > data->last_seen ? moment : data->last_seen;
    }
    return growth_finish(data, &text, &answer, code);
}

/* --- the course of the candidates --- */

static int compare_cells(const void *a, const void *b)
{
    const struct growth_cell *one = a, *other = b;
    if (one->stack != other->stack)
        return one->stack < other->stack ? -1 : 1;
    return (one->host > other->host) - (one->host < other->host);
}

static bool is_candidate(const struct growth_data *data, uint64_t stack)
{
    for (size_t i = 0; i < data->candidate_count; i++)
        if (data->candidates[i] == stack)
            return true;
    return false;
}

static int growth_data_cells(struct growth_data *data)
{
    struct query query;
    struct clickhouse_answer text = {0};
    if (data->candidate_count == 0)
        return 0;
    if (!growth_begin(&query))
        return no_memory(data);
    fputs("SELECT stack, series, ", query.out);
    put_moment(data, query.out);
    fputs(", sum(live_byte_seconds), sum(live_byte_variance) FROM figures WHERE ", query.out);
    fleet_selection_where(data->selection, false, query.out);
    fputs(" AND stack IN (", query.out);
    for (size_t i = 0; i < data->candidate_count; i++)
        fprintf(query.out, "%s%llu", i > 0 ? "," : "", (unsigned long long)data->candidates[i]);
    fputs(") GROUP BY stack, series, moment", query.out);
    int code = growth_run(data, &query, &text);
    struct answer answer = answer_begin(text.bytes, text.length);
    while (code == 0 && answer_has_more(&answer)) {
        struct growth_cell cell = {.stack = answer_u64(&answer)};
        uint32_t number = id_map_find(&data->series_ids, answer_u64(&answer));
        cell.moment = answer_u32(&answer);
        cell.live = answer_figure(&answer);
        cell.variance = answer_figure(&answer);
        if (number == ID_MAP_NONE || cell.moment >= data->moments || answer.is_bad ||
            !is_candidate(data, cell.stack))
            continue;
        cell.host = data->series[number].host;
        if (ARRAY_ADD(&data->cells, &data->cell_count, &data->cell_capacity, cell) < 0)
            code = no_memory(data);
    }
    if (data->cell_count > 0)
        qsort(data->cells, data->cell_count, sizeof(*data->cells), compare_cells);
    return growth_finish(data, &text, &answer, code);
}

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
