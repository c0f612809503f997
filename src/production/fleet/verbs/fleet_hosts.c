/* SPDX-License-Identifier: Apache-2.0 */
/* heap_profile fleet hosts and query: tables as the server has them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "production/fleet/answer.h"
#include "production/fleet/verbs/fleet.h"
#include "profile/unseen.h"
#include "tools/print/format.h"
#include "util/json_writer.h"

static const char hosts_help[] =
    "usage: heap_profile fleet hosts [options]\n"
    "\n"
    "Lists hosts, their services and heaps: mean live bytes with their 95 % limits, processes,\n"
    "bytes allocated in an hour, and when they were last seen (UTC).\n"
    "\n" FLEET_SELECTION_HELP "  --top N         rows of the table (20; 0: all)\n"
    "  --json          print as JSON\n" FLEET_SERVER_HELP;

static const struct option_entry hosts_options[] = {
    FLEET_SERVER_OPTIONS,
    FLEET_SELECTION_OPTIONS,
    OPTION_ENTRY("top", 0, OPTION_NUMBER, struct fleet_request, report.top),
    OPTION_ENTRY("json", 0, OPTION_SET, struct fleet_request, json),
    OPTIONS_END,
};

struct host_row {
    struct answer_text host, service, heap;
    struct profile_estimate live;
    struct profile_interval limits;
    double processes, alloc_per_hour, partial_share;
    uint32_t last_s;
};

/* The mean over the time in which this host was profiled. */
static bool take_row(struct answer *answer, struct host_row *row)
{
    *row = (struct host_row){.host = answer_text(answer)};
    row->service = answer_text(answer);
    row->heap = answer_text(answer);
    double live = answer_figure(answer), variance = answer_figure(answer);
    double alloc = answer_figure(answer), seconds = answer_figure(answer);
    double periods = answer_figure(answer), partial = answer_figure(answer);
    double interval_seconds = answer_figure(answer), time_s = answer_figure(answer);
    row->last_s = answer_u32(answer);
    if (answer->is_bad || !(time_s > 0) || !(seconds > 0))
        return false;
    row->live.bytes = live / time_s;
    row->live.bytes_variance = variance / time_s;
    uint64_t interval_bytes = (uint64_t)fmin(fmax(interval_seconds / seconds, 0), 0x1p53);
    const struct unseen unseen = {profile_floor_bytes(interval_bytes), INFINITY};
    row->limits =
        unseen_raise(profile_interval_of_bytes(&row->live), row->live.bytes, unseen);
    row->processes = seconds / time_s;
    row->alloc_per_hour = alloc / time_s * (double)FLEET_HOUR_S;
    row->partial_share = periods > 0 ? partial / periods : 0;
    return true;
}

static void print_row(const struct host_row *row)
{
    time_t last = row->last_s;
    struct tm parts;
    char date[32] = "";
    if (gmtime_r(&last, &parts) != NULL)
        strftime(date, sizeof(date), "%m-%d %H:%M", &parts);
    char host[FORMAT_WORD_WIDTH + 1], service[FORMAT_WORD_WIDTH + 1], heap[FORMAT_WORD_WIDTH + 1];
    snprintf(host, sizeof(host), "%.*s", (int)row->host.length, row->host.bytes);
    snprintf(service, sizeof(service), "%.*s", (int)row->service.length, row->service.bytes);
    snprintf(heap, sizeof(heap), "%.*s", (int)row->heap.length, row->heap.bytes);
    format_printf(stdout, "%11s %11s %11s %9.1f %11s %8s %s  %s  %s  %s\n",
                  format_bytes(row->live.bytes).bytes, format_bytes(row->limits.low).bytes,
                  format_bytes(row->limits.high).bytes, row->processes,
                  format_bytes(row->alloc_per_hour).bytes, row->partial_share > 0 ? "partial" : "",
                  date, host, service, heap);
}

static void put_json(struct json_writer *json, const struct host_row *row)
{
    char *host = strndup(row->host.bytes, row->host.length);
    char *service = strndup(row->service.bytes, row->service.length);
    char *heap = strndup(row->heap.bytes, row->heap.length);
    json_line(json);
    json_object(json, NULL);
    json_string(json, "host", host);
    json_string(json, "service", service);
    json_string(json, "heap", heap);
    json_number(json, "live_bytes", row->live.bytes);
    json_number(json, "low", row->limits.low);
    json_number(json, "high", row->limits.high);
    json_number(json, "processes", row->processes);
    json_number(json, "allocated_bytes_per_hour", row->alloc_per_hour);
    json_number(json, "partial_share", row->partial_share);
    json_unsigned(json, "last_seen", row->last_s);
    json_end_object(json);
    free(host);
    free(service);
    free(heap);
}

/* A host's time is, hour by hour or day by day, that of the series with most of it, at most the
 * whole: several processes of one series add up. The server of 2018 joins two tables only, so there
 * are two steps. */
static char *make_hosts_query(const struct fleet_request *request)
{
    char *query = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&query, &size);
    if (out == NULL)
        return NULL;
    fputs("SELECT host, service, heap, sum(live2), sum(variance2), sum(alloc2), sum(profiled2), "
          "sum(periods2), sum(partial2), sum(interval2), sum(longest), max(last2) FROM "
          "(SELECT host, service, heap, is_day, bucket, sum(live1) AS live2, "
          "sum(variance1) AS variance2, sum(alloc1) AS alloc2, sum(profiled1) AS profiled2, "
          "sum(periods1) AS periods2, sum(partial1) AS partial2, sum(interval1) AS interval2, "
          "max(last1) AS last2, "
          "max(least(profiled1, if(is_day, 86400, 3600))) AS longest FROM "
          "(SELECT series, is_day, bucket, live1, variance1, alloc1, profiled1, periods1, "
          "partial1, interval1, last1 FROM (SELECT series, level = 'day_total' AS is_day, "
          "intDiv(toUInt32(time), 3600) AS bucket, sum(live_byte_seconds) AS live1, "
          "sum(live_byte_variance) AS variance1, sum(alloc_bytes) AS alloc1, "
          "sum(seconds) AS profiled1, sum(periods) AS periods1, "
          "sum(partial_periods) AS partial1, sum(interval_seconds) AS interval1 "
          "FROM figures WHERE ",
          out);
    fleet_selection_where(&request->selection, true, out);
    fputs(" GROUP BY series, is_day, bucket) ANY LEFT JOIN "
          "(SELECT series, max(time) AS last1 FROM figures WHERE level = 'period_total' "
          "GROUP BY series) USING series) ANY LEFT JOIN "
          "(SELECT series, any(host) AS host, any(service) AS service, any(heap) AS heap "
          "FROM series GROUP BY series) USING series "
          "GROUP BY host, service, heap, is_day, bucket) "
          "GROUP BY host, service, heap ORDER BY sum(live2) DESC, host, service, heap",
          out);
    if (request->report.top > 0 && !request->json)
        fprintf(out, " LIMIT %llu", (unsigned long long)request->report.top);
    fputs(" FORMAT RowBinary", out);
    if (fclose(out) == 0)
        return query;
    free(query);
    return NULL;
}

static int print_hosts(struct clickhouse *server, const struct fleet_request *request)
{
    struct clickhouse_answer text = {0};
    char *query = make_hosts_query(request);
    if (query == NULL || fleet_ask(server, query, &text) < 0) {
        free(query);
        return VERB_FAILED;
    }
    free(query);
    struct answer answer = answer_begin(text.bytes, text.length);
    struct json_writer json = json_begin(stdout);
    struct host_row row;
    if (request->json)
        json_array(&json, NULL);
    else
        fputs(
            "  live (mean)     95 % from          to processes  allocated/h           last seen   "
            " host  service  heap\n",
            stdout);
    while (answer_has_more(&answer) && take_row(&answer, &row)) {
        if (request->json)
            put_json(&json, &row);
        else
            print_row(&row);
    }
    if (request->json)
        json_end_array(&json);
    fputc('\n', stdout);
    if (answer.is_bad)
        format_printf(stderr, "heap_profile: query %s: the server's answer is damaged\n",
                      text.query_id);
    clickhouse_answer_clear(&text);
    return verb_end_output("hosts", answer.is_bad ? VERB_FAILED : VERB_DONE);
}

int fleet_hosts(int argc, char **argv)
{
    static const struct verb_line line = {"heap_profile fleet hosts", hosts_help, hosts_options,
                                          false};
    struct fleet_request request = {0};
    int code = fleet_parse(&line, argc, argv, &request);
    if (code < 0) {
        if (request.selection.since_s < 0)
            request.selection.since_s = request.now_s - FLEET_DAY_S;
        fleet_selection_round(&request.selection);
        struct clickhouse *server = fleet_connect(&request);
        code = server == NULL ? VERB_FAILED : print_hosts(server, &request);
        clickhouse_close(server);
    }
    fleet_request_clear(&request);
    return code;
}

/* --- SQL --- */

static const char query_help[] =
    "usage: heap_profile fleet query [options] SQL\n"
    "\n"
    "Runs SQL on the tables (docs/fleet.md) and prints the rows: tab-separated with names, or\n"
    "in the format that the query names (FORMAT CSVWithNames).\n"
    "\n"
    "  --json          one JSON object a row\n" FLEET_SERVER_HELP;

static const struct option_entry query_options[] = {
    FLEET_SERVER_OPTIONS,
    OPTION_ENTRY("json", 0, OPTION_SET, struct fleet_request, json),
    OPTIONS_END,
};

/* On a terminal, escape what it would obey; else write the bytes as they are. */
static void write_rows(const char *bytes, size_t length)
{
    bool is_terminal = isatty(STDOUT_FILENO);
    const char *end = bytes + length;
    while (is_terminal && bytes < end) {
        const char *stop = memchr(bytes, '\n', (size_t)(end - bytes));
        stop = stop == NULL ? end : stop;
        for (const char *cell = bytes; cell <= stop;) {
            const char *tab = memchr(cell, '\t', (size_t)(stop - cell));
            tab = tab == NULL ? stop : tab;
            char *text = strndup(cell, (size_t)(tab - cell));
            format_printf(stdout, "%s", text == NULL ? "" : text);
            fputc(tab < stop ? '\t' : '\n', stdout);
            free(text);
            cell = tab + 1;
        }
        bytes = stop + 1;
    }
    if (!is_terminal)
        fwrite(bytes, 1, length, stdout);
}

static int run_query(struct clickhouse *server, const char *sql, bool json)
{
    struct clickhouse_answer text = {0};
    char *query = NULL;
    bool has_format = strcasestr(sql, "FORMAT ") != NULL;
    if (asprintf(&query, "%s%s", sql,
                 has_format ? ""
                 : json     ? " FORMAT JSONEachRow"
                            : " FORMAT TabSeparatedWithNames") < 0)
        return VERB_FAILED;
    int code = fleet_ask(server, query, &text);
    free(query);
    if (code < 0)
        return VERB_FAILED;
    write_rows((const char *)text.bytes, text.length);
    clickhouse_answer_clear(&text);
    return verb_end_output("rows", VERB_DONE);
}

int fleet_query(int argc, char **argv)
{
    static const struct verb_line line = {"heap_profile fleet query", query_help, query_options,
                                          false};
    struct fleet_request request = {0};
    int code = fleet_parse(&line, argc, argv, &request);
    if (code < 0 && argc - optind != 1) {
        fputs(
            "heap_profile: one query, in quotation marks: heap_profile fleet query 'SELECT ...'\n",
            stderr);
        code = VERB_USAGE;
    }
    if (code < 0) {
        struct clickhouse *server = fleet_connect(&request);
        code = server == NULL ? VERB_FAILED : run_query(server, argv[optind], request.json);
        clickhouse_close(server);
    }
    fleet_request_clear(&request);
    return code;
}
