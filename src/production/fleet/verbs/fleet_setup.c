/* SPDX-License-Identifier: Apache-2.0 */
/* heap_profile fleet setup and expire: the store's tables, and how long they keep figures. */
#include <stdlib.h>
#include <string.h>

#include "production/fleet/answer.h"
#include "production/fleet/schema.h"
#include "production/fleet/verbs/fleet.h"
#include "tools/print/format.h"

static const char setup_help[] =
    "usage: heap_profile fleet setup [options]\n"
    "\n"
    "Creates the tables in ClickHouse, or brings those of an older version to this one.\n"
    "\n"
    "  --cluster NAME  distribute the rows over the cluster's servers, by service and stack; run\n"
    "                  it for each server, by its --url\n"
    "  --replicated    use ReplicatedMergeTree, with the servers' macros {shard} and "
    "{replica}\n" FLEET_SERVER_HELP;

static const struct option_entry setup_options[] = {
    FLEET_SERVER_OPTIONS,
    OPTION_ENTRY("cluster", 0, OPTION_TEXT, struct fleet_request, cluster),
    OPTION_ENTRY("replicated", 0, OPTION_SET, struct fleet_request, is_replicated),
    OPTIONS_END,
};

static bool is_plain_name(const char *name)
{
    size_t length = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
    return length > 0 && length <= 100 && name[length] == '\0';
}

static int check_names(const struct fleet_request *request)
{
    if (is_plain_name(request->server.database) &&
        (request->cluster == NULL || is_plain_name(request->cluster)))
        return 0;
    fputs("heap_profile: names of databases and clusters have letters, digits and _\n", stderr);
    return VERB_USAGE;
}

/* Return the version of the tables, or 0 if the database has no tables of ours. */
static int read_version(struct clickhouse *server, const struct fleet_request *request,
                        unsigned *version)
{
    char query[600];
    struct clickhouse_answer text = {0};
    const char *local = request->cluster != NULL ? "_local" : "";
    snprintf(query, sizeof(query),
             "SELECT count() FROM system.tables WHERE database = '%s' AND name = 'schema%s' "
             "FORMAT RowBinary",
             request->server.database, local);
    int code = fleet_ask(server, query, &text);
    struct answer answer = answer_begin(text.bytes, text.length);
    uint64_t tables = answer_u64(&answer);
    clickhouse_answer_clear(&text);
    *version = 0;
    if (code < 0 || tables == 0)
        return code;
    snprintf(query, sizeof(query), "SELECT max(version) FROM %s.schema%s FORMAT RowBinary",
             request->server.database, local);
    code = fleet_ask(server, query, &text);
    answer = answer_begin(text.bytes, text.length);
    *version = answer_u32(&answer);
    clickhouse_answer_clear(&text);
    return code;
}

static int run_statement(void *context, const char *statement, struct error *error)
{
    return clickhouse_run(context, statement, NULL, 0, NULL, error);
}

static int setup(struct clickhouse *server, const struct fleet_request *request)
{
    const struct fleet_schema_options options = {request->server.database, request->cluster,
                                                 request->is_replicated};
    struct error error = {0};
    unsigned version;
    if (read_version(server, request, &version) < 0)
        return VERB_FAILED;
    if (version > FLEET_SCHEMA_VERSION) {
        format_printf(stderr,
                      "heap_profile: %s has tables of version %u, and this heap_profile knows them "
                      "up to %u: a newer one made them\n",
                      request->server.url, version, FLEET_SCHEMA_VERSION);
        return VERB_FAILED;
    }
    if (fleet_schema_statements(version, &options, run_statement, server, &error) < 0)
        return verb_fail(&error);
    if (version == FLEET_SCHEMA_VERSION)
        format_printf(stdout, "The tables in %s at %s have version %u already.\n",
                      request->server.database, request->server.url, version);
    else
        format_printf(stdout, "Created the tables in %s at %s, version %u.\n",
                      request->server.database, request->server.url, FLEET_SCHEMA_VERSION);
    return verb_end_output("message", VERB_DONE);
}

int fleet_setup(int argc, char **argv)
{
    static const struct verb_line line = {"heap_profile fleet setup", setup_help, setup_options,
                                          false};
    struct fleet_request request = {0};
    int code = fleet_parse(&line, argc, argv, &request);
    if (code < 0 && (code = check_names(&request)) == 0) {
        struct clickhouse_options options = request.server;
        struct error error = {0};
        options.database = ""; /* it may not exist yet */
        struct clickhouse *server = clickhouse_open(&options, &error);
        code = server == NULL ? verb_fail(&error) : setup(server, &request);
        clickhouse_close(server);
    }
    fleet_request_clear(&request);
    return code;
}

/* --- retention --- */

#define KEEP_PERIODS_DAYS 7
#define KEEP_HOURS_DAYS 60
#define KEEP_DAYS_DAYS 400

static const char expire_help[] = "usage: heap_profile fleet expire [options]\n"
                                  "\n"
                                  "Removes figures that are older than they are kept. Run it once "
                                  "a day, for example by a timer.\n"
                                  "\n"
                                  "  --periods DAYS  keep the figures of single periods (7)\n"
                                  "  --hours DAYS    keep the sums by hour (60)\n"
                                  "  --days DAYS     keep the sums by day (400)\n"
                                  "  --cluster NAME  the tables were set up with a cluster; run it "
                                  "for each server\n" FLEET_SERVER_HELP;

static const struct option_entry expire_options[] = {
    FLEET_SERVER_OPTIONS,
    OPTION_ENTRY("periods", 0, OPTION_NUMBER, struct fleet_request, keep_periods_days),
    OPTION_ENTRY("hours", 0, OPTION_NUMBER, struct fleet_request, keep_hours_days),
    OPTION_ENTRY("days", 0, OPTION_NUMBER, struct fleet_request, keep_days_days),
    OPTION_ENTRY("cluster", 0, OPTION_TEXT, struct fleet_request, cluster),
    OPTIONS_END,
};

/* Drop the partitions, which are days, that nothing is kept of. */
static int drop_days(struct clickhouse *server, const struct fleet_request *request,
                     int64_t before_day, const char *table)
{
    char query[600];
    struct clickhouse_answer text = {0};
    snprintf(query, sizeof(query),
             "SELECT DISTINCT toUInt32(partition) AS day FROM system.parts WHERE database = '%s' "
             "AND table = '%s' AND active AND day < %lld FORMAT RowBinary",
             request->server.database, table, (long long)before_day);
    int code = fleet_ask(server, query, &text);
    struct answer answer = answer_begin(text.bytes, text.length);
    while (code == 0 && answer_has_more(&answer)) {
        snprintf(query, sizeof(query), "ALTER TABLE %s.%s DROP PARTITION %u",
                 request->server.database, table, answer_u32(&answer));
        code = fleet_ask(server, query, NULL);
    }
    clickhouse_answer_clear(&text);
    return code;
}

static int expire(struct clickhouse *server, const struct fleet_request *request)
{
    const char *table = request->cluster != NULL ? "figures_local" : "figures";
    int64_t today = request->now_s / FLEET_DAY_S;
    int64_t periods = (today - (int64_t)request->keep_periods_days) * FLEET_DAY_S;
    int64_t hours = (today - (int64_t)request->keep_hours_days) * FLEET_DAY_S;
    int64_t batches = (today - FLEET_BATCH_DAYS - 1) * FLEET_DAY_S;
    char query[800];
    int code = drop_days(server, request, today - (int64_t)request->keep_days_days, table);
    /* A mutation rewrites only the days that have such rows: those of yesterday's end. */
    snprintf(query, sizeof(query),
             "ALTER TABLE %s.%s DELETE WHERE "
             "(level IN ('period', 'period_total') AND time < toDateTime(%lld)) OR "
             "(level IN ('hour', 'hour_total') AND time < toDateTime(%lld)) OR "
             "(level = 'batch' AND time < toDateTime(%lld))",
             request->server.database, table, (long long)periods, (long long)hours,
             (long long)batches);
    if (code == 0)
        code = fleet_ask(server, query, NULL);
    return code < 0 ? VERB_FAILED : VERB_DONE;
}

int fleet_expire(int argc, char **argv)
{
    static const struct verb_line line = {"heap_profile fleet expire", expire_help, expire_options,
                                          false};
    struct fleet_request request = {.keep_periods_days = KEEP_PERIODS_DAYS,
                                    .keep_hours_days = KEEP_HOURS_DAYS,
                                    .keep_days_days = KEEP_DAYS_DAYS};
    int code = fleet_parse(&line, argc, argv, &request);
    if (code < 0 && (code = check_names(&request)) == 0) {
        struct clickhouse *server = fleet_connect(&request);
        code = server == NULL ? VERB_FAILED : expire(server, &request);
        clickhouse_close(server);
    }
    fleet_request_clear(&request);
    return code;
}
