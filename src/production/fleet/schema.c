/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tables as templates. In them
 *
 *   @db        is the database,
 *   @local     is "_local" with a cluster, else nothing,
 *   @(Engine)  is an engine of the MergeTree family, replicated if asked for.
 *
 * ClickHouse of 2018 (18.16, Debian's) has no column codecs and no TTL, so neither is used:
 * retention is `heap_profile fleet expire`.
 */
#include "production/fleet/schema.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "production/fleet/tables.h"

#define SUM_COLUMN(name) #name ", "
#define SUM_COLUMNS FLEET_SUMS(SUM_COLUMN) FLEET_TOTAL_SUMS(SUM_COLUMN)

const char *const fleet_table_names[FLEET_TABLES] = {
    [FLEET_INBOX] = "inbox",
    [FLEET_STACKS] = "stacks",
    [FLEET_SERIES] = "series",
    [FLEET_SYMBOLS] = "symbols",
};

const char *const fleet_table_columns[FLEET_TABLES] = {
    [FLEET_INBOX] = SUM_COLUMNS "batch, is_total, service, stack, series, time",
    [FLEET_STACKS] = ("stack, service, heap, is_total, build_ids, modules, biases, offsets, names, "
                      "files, lines, day"),
    [FLEET_SERIES] = "series, service, heap, host, version, names, values, day",
    [FLEET_SYMBOLS] = "build_id, offset, quality, functions, files, lines",
};

/* Float32 is enough: each value is an estimate with an error far above 6e-8 of it, and sums over
 * rows are Float64. */
#define FLOAT_COLUMN(name) #name " Float32, "
#define SUM_COLUMN_TYPES FLEET_SUMS(FLOAT_COLUMN) FLEET_TOTAL_SUMS(FLOAT_COLUMN)

/*
 * `stack` before `series`: a question about stacks then meets long runs of one stack, which
 * aggregate and compress well, and `growth` reads the series of a few stacks in one piece.
 * A part of a table is written whole or not at all, and never across a partition: so the figures of
 * a batch, which has one day, and the row that marks its arrival are written together.
 */
static const char figures[] =
    "CREATE TABLE IF NOT EXISTS @db.figures@local ("
    "level Enum8('period' = 0, 'hour' = 1, 'day' = 2, 'batch' = 3, 'period_total' = 4, "
    "'hour_total' = 5, 'day_total' = 6), "
    "service String, stack UInt64, series UInt64, time DateTime, " SUM_COLUMN_TYPES
    "batch_rows Float32) ENGINE = @(SummingMergeTree) "
    "PARTITION BY intDiv(toUInt32(time), 86400) ORDER BY (level, service, stack, series, time)";

static const char inbox[] =
    "CREATE TABLE IF NOT EXISTS @db.inbox@local (" SUM_COLUMN_TYPES
    "batch UInt64, is_total UInt8, service String, stack UInt64, series UInt64, time DateTime) "
    "ENGINE = Null";

/* The roll-ups by hour and day, and the mark of the batch. The mark has the batch's day. */
#define KEEP_FIGURE(name) "toFloat32(if(to_level = 3, 0, " #name ")) AS " #name ", "
static const char roll_up[] =
    "CREATE MATERIALIZED VIEW IF NOT EXISTS @db.inbox_to_figures@local TO @db.figures@local AS "
    "SELECT CAST(to_level, 'Enum8(\\'period\\' = 0, \\'hour\\' = 1, \\'day\\' = 2, \\'batch\\' = "
    "3, \\'period_total\\' = 4, \\'hour_total\\' = 5, \\'day_total\\' = 6)') AS level, "
    "if(to_level = 3, '', service) AS service, if(to_level = 3, batch, stack) AS stack, "
    "if(to_level = 3, toUInt64(0), series) AS series, "
    "toDateTime(multiIf(to_level % 4 = 0, toUInt32(time), to_level % 4 = 1, "
    "intDiv(toUInt32(time), 3600) * 3600, intDiv(toUInt32(time), 86400) * 86400)) AS "
    "time, " FLEET_SUMS(KEEP_FIGURE)
        FLEET_TOTAL_SUMS(KEEP_FIGURE) "toFloat32(to_level = 3) AS batch_rows "
                                      "FROM @db.inbox@local ARRAY JOIN if(is_total, [3, 4, 5, "
                                      "6], [0, 1, 2, 3]) AS to_level "
                                      "WHERE batch NOT IN (SELECT stack FROM @db.figures@local "
                                      "WHERE level = 'batch' AND "
                                      "time >= now() - 86400 * @days)";

static const char stacks[] =
    "CREATE TABLE IF NOT EXISTS @db.stacks@local ("
    "stack UInt64, service String, heap String, is_total UInt8, build_ids Array(String), "
    "modules Array(String), biases Array(UInt64), offsets Array(UInt64), names Array(String), "
    "files Array(String), "
    "lines Array(UInt32), day Date) ENGINE = @(ReplacingMergeTree:day) ORDER BY stack";

static const char series[] =
    "CREATE TABLE IF NOT EXISTS @db.series@local ("
    "series UInt64, service String, heap String, host String, version String, "
    "names Array(String), values Array(String), day Date) "
    "ENGINE = @(ReplacingMergeTree:day) ORDER BY series";

static const char symbols[] =
    "CREATE TABLE IF NOT EXISTS @db.symbols@local ("
    "build_id String, offset UInt64, quality UInt8, functions Array(String), "
    "files Array(String), lines Array(UInt32)) "
    "ENGINE = @(ReplacingMergeTree:quality) ORDER BY (build_id, offset)";

static const char schema[] =
    "CREATE TABLE IF NOT EXISTS @db.schema@local (version UInt32, time DateTime) "
    "ENGINE = @(ReplacingMergeTree:time) ORDER BY version";

/* What leads from each version to the next. */
static const struct step {
    unsigned version; /* that the statement leads to */
    const char *statement;
} steps[] = {
    {1, "CREATE DATABASE IF NOT EXISTS @db"},
    {1, figures},
    {1, inbox},
    {1, roll_up},
    {1, stacks},
    {1, series},
    {1, symbols},
    {1, schema},
};

/* Tables that a cluster distributes: "" places rows anywhere, since there are few. */
static const struct {
    const char *name, *by;
} distributed[] = {
    {"figures", "cityHash64(service, stack)"},
    {"inbox", "cityHash64(service, stack)"},
    {"stacks", "stack"},
    {"series", "series"},
    {"symbols", "cityHash64(build_id, offset)"},
    {"schema", "version"},
};

static void put_engine(FILE *out, const char *name, size_t length, const char *table,
                       const struct fleet_schema_options *options)
{
    const char *colon = memchr(name, ':', length);
    int engine = (int)(colon != NULL ? colon - name : (ptrdiff_t)length);
    int argument = colon != NULL ? (int)length - engine - 1 : 0;
    const char *text = colon != NULL ? colon + 1 : "";
    if (options->is_replicated)
        fprintf(out, "Replicated%.*s('/clickhouse/tables/{shard}/%s.%s', '{replica}'%s%.*s)",
                engine, name, options->database, table, argument > 0 ? ", " : "", argument, text);
    else
        fprintf(out, "%.*s(%.*s)", engine, name, argument, text);
}

/* Return the statement of a template, malloc'd; NULL: no memory. */
static char *expand(const char *text, const struct fleet_schema_options *options)
{
    char *statement = NULL, table[32] = "";
    size_t size = 0;
    FILE *out = open_memstream(&statement, &size);
    if (out == NULL)
        return NULL;
    const char *name = strstr(text, "@db.");
    if (name != NULL)
        snprintf(table, sizeof(table), "%.*s", (int)strspn(name + 4, "abcdefghijklmnopqrstuvwxyz_"),
                 name + 4);
    for (const char *at = text; *at != '\0';) {
        size_t plain = strcspn(at, "@");
        fwrite(at, 1, plain, out);
        at += plain;
        if (strncmp(at, "@db", 3) == 0) {
            fputs(options->database, out);
            at += 3;
        } else if (strncmp(at, "@local", 6) == 0) {
            fputs(options->cluster != NULL ? "_local" : "", out);
            at += 6;
        } else if (strncmp(at, "@days", 5) == 0) {
            fprintf(out, "%d", FLEET_BATCH_DAYS);
            at += 5;
        } else if (strncmp(at, "@(", 2) == 0) {
            size_t length = strcspn(at, ")");
            put_engine(out, at + 2, length - 2, table, options);
            at += length + 1;
        }
    }
    if (fclose(out) != 0) {
        free(statement);
        return NULL;
    }
    return statement;
}

static int run_text(const char *text, const struct fleet_schema_options *options,
                    fleet_schema_run *run, void *context, struct error *error)
{
    char *statement = expand(text, options);
    if (statement == NULL)
        return error_set(error, -ENOMEM, "no memory");
    int code = run(context, statement, error);
    free(statement);
    return code;
}

static int distribute(const struct fleet_schema_options *options, fleet_schema_run *run,
                      void *context, struct error *error)
{
    char text[512];
    int code = 0;
    for (size_t i = 0; i < sizeof(distributed) / sizeof(distributed[0]) && code == 0; i++) {
        const char *name = distributed[i].name;
        snprintf(text, sizeof(text),
                 "CREATE TABLE IF NOT EXISTS @db.%s AS @db.%s_local ENGINE = "
                 "Distributed(%.100s, @db, %s_local, %s)",
                 name, name, options->cluster, name, distributed[i].by);
        code = run_text(text, options, run, context, error);
    }
    return code;
}

int fleet_schema_statements(unsigned version, const struct fleet_schema_options *options,
                            fleet_schema_run *run, void *context, struct error *error)
{
    int code = 0;
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]) && code == 0; i++)
        if (steps[i].version > version)
            code = run_text(steps[i].statement, options, run, context, error);
    if (code == 0 && options->cluster != NULL)
        code = distribute(options, run, context, error);
    if (code == 0 && version < FLEET_SCHEMA_VERSION) {
        char text[100];
        snprintf(text, sizeof(text), "INSERT INTO @db.schema@local VALUES (%u, now())",
                 FLEET_SCHEMA_VERSION);
        code = run_text(text, options, run, context, error);
    }
    return code;
}
