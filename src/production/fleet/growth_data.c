/* SPDX-License-Identifier: Apache-2.0 */
#include "production/fleet/growth_data.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "production/fleet/answer.h"
#include "production/fleet/tables.h"
#include "util/array.h"

#define SERIES_MAX 4000000u

/* A query that is being written. */
struct query {
    char *text;
    size_t size;
    FILE *out;
};

static bool begin(struct query *query)
{
    *query = (struct query){0};
    return (query->out = open_memstream(&query->text, &query->size)) != NULL;
}

/* Run the query, and free it. */
static int run(struct growth_data *data, struct query *query, struct clickhouse_answer *answer)
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

static int finish(struct growth_data *data, struct clickhouse_answer *text,
                  const struct answer *answer, int code)
{
    if (code == 0 && answer->is_bad)
        code = error_set(data->error, -EBADMSG, "query %s: the server's answer is damaged",
                         text->query_id);
    clickhouse_answer_clear(text);
    return code;
}

void growth_data_free(struct growth_data *data)
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

int growth_data_candidates(struct growth_data *data)
{
    struct query query;
    struct clickhouse_answer text = {0};
    struct top all = {0}, one = {0};
    int64_t middle = data->first_s + (int64_t)data->moments * data->moment_s / 2;
    if (!begin(&query))
        return no_memory(data);
    fprintf(query.out,
            "SELECT stack, sum(rise), max(rise) FROM (SELECT stack, series, "
            "sum(if(time >= toDateTime(%lld), live_byte_seconds, -live_byte_seconds)) AS rise "
            "FROM figures WHERE ",
            (long long)middle);
    fleet_selection_where(data->selection, false, query.out);
    fputs(" GROUP BY stack, series) GROUP BY stack", query.out);
    int code = run(data, &query, &text);
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
    return finish(data, &text, &answer, code);
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

int growth_data_series(struct growth_data *data)
{
    struct query query;
    struct clickhouse_answer text = {0};
    if (!begin(&query))
        return no_memory(data);
    fputs("SELECT series, service, heap, host FROM series WHERE ", query.out);
    fleet_selection_series(data->selection, query.out);
    int code = run(data, &query, &text);
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
    return finish(data, &text, &answer, code);
}

static void put_moment(const struct growth_data *data, FILE *out)
{
    fprintf(out, "toUInt32(intDiv(toUInt32(time) - %lld, %lld)) AS moment",
            (long long)data->first_s, (long long)data->moment_s);
}

int growth_data_times(struct growth_data *data)
{
    struct query query;
    struct clickhouse_answer text = {0};
    if (!begin(&query))
        return no_memory(data);
    fputs("SELECT series, ", query.out);
    put_moment(data, query.out);
    fputs(", sum(seconds) FROM figures WHERE ", query.out);
    data->first_seen = data->moments;
    fleet_selection_where(data->selection, true, query.out);
    fputs(" GROUP BY series, moment", query.out);
    int code = run(data, &query, &text);
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
    return finish(data, &text, &answer, code);
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

int growth_data_cells(struct growth_data *data)
{
    struct query query;
    struct clickhouse_answer text = {0};
    if (data->candidate_count == 0)
        return 0;
    if (!begin(&query))
        return no_memory(data);
    fputs("SELECT stack, series, ", query.out);
    put_moment(data, query.out);
    fputs(", sum(live_byte_seconds), sum(live_byte_variance) FROM figures WHERE ", query.out);
    fleet_selection_where(data->selection, false, query.out);
    fputs(" AND stack IN (", query.out);
    for (size_t i = 0; i < data->candidate_count; i++)
        fprintf(query.out, "%s%llu", i > 0 ? "," : "", (unsigned long long)data->candidates[i]);
    fputs(") GROUP BY stack, series, moment", query.out);
    int code = run(data, &query, &text);
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
    return finish(data, &text, &answer, code);
}
