/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sink `clickhouse`: rows of the fleet's tables (src/production/fleet/), inserted over HTTP.
 *
 * A message that was sent twice, because its answer was lost, counts once: every row of figures has
 * the id of its batch, and the store leaves out a batch that it has
 * (src/production/fleet/schema.c). A retry sends the same bytes, and so the same id. Stacks, series
 * and symbols may arrive any number of times.
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "production/fleet/rows.h"
#include "production/sinks/kinds.h"

#define DATABASE_BYTES_MAX 100

/*
 * On a cluster a batch is taken only when every shard has its rows; until then it stays in the
 * spool. Otherwise the server keeps rows for a shard that is away in files, and sets a file aside
 * ("broken") if that shard dies while it answers: its rows are lost. With several threads, 18.16
 * fails one such insert in six ("Attempt to attach to nullptr thread group").
 */
#define SETTINGS "insert_distributed_sync=1&max_threads=1"

struct clickhouse_sink {
    struct fleet_rows *rows;
    char *targets[FLEET_TABLES];
    const struct sink_output *output; /* of the present call */
    struct error *error;
};

/* Return the path and query of a table's messages, malloc'd; NULL: no memory. */
static char *make_target(const char *database, enum fleet_table table)
{
    char *target = NULL, query[1024];
    size_t size = 0;
    FILE *out = open_memstream(&target, &size);
    if (out == NULL)
        return NULL;
    snprintf(query, sizeof(query), "INSERT INTO %s (%s) FORMAT RowBinary", fleet_table_names[table],
             fleet_table_columns[table]);
    fprintf(out, "/?database=%s&" SETTINGS "&query=", database);
    for (const char *at = query; *at != '\0'; at++)
        fprintf(out, isalnum((unsigned char)*at) || *at == '_' ? "%c" : "%%%02X", *at);
    if (fclose(out) == 0)
        return target;
    free(target);
    return NULL;
}

static void close_sink(void *state)
{
    struct clickhouse_sink *sink = state;
    if (sink == NULL)
        return;
    fleet_rows_free(sink->rows);
    for (int table = 0; table < FLEET_TABLES; table++)
        free(sink->targets[table]);
    free(sink);
}

static void *open_sink(struct settings_section *section, struct error *error)
{
    const char *database = setting_text(section, "database", FLEET_DATABASE);
    size_t plain = strspn(database, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                    "0123456789_");
    if (database[plain] != '\0' || plain == 0 || plain > DATABASE_BYTES_MAX) {
        setting_refuse(section, "database", error, "not a name of letters, digits and _");
        return NULL;
    }
    struct clickhouse_sink *sink = calloc(1, sizeof(*sink));
    bool good = sink != NULL && (sink->rows = fleet_rows_new()) != NULL;
    for (int table = 0; table < FLEET_TABLES && good; table++) {
        sink->targets[table] = make_target(database, (enum fleet_table)table);
        good = sink->targets[table] != NULL;
    }
    if (good)
        return sink;
    error_set(error, -ENOMEM, "no memory");
    close_sink(sink);
    return NULL;
}

static int put_batch(void *context, enum fleet_table table, const void *bytes, size_t length,
                     uint64_t rows, uint64_t periods)
{
    (void)rows;
    struct clickhouse_sink *sink = context;
    const struct sink_message message = {
        .target = sink->targets[table],
        .content_type = "application/octet-stream",
        .content_encoding = "",
        .body = bytes,
        .length = length,
        .periods = periods,
    };
    return sink->output->put(sink->output->context, &message, sink->error);
}

static int encode(void *state, const struct period *periods, size_t count,
                  const struct sink_output *output, struct error *error)
{
    struct clickhouse_sink *sink = state;
    sink->output = output;
    sink->error = error;
    return fleet_rows_encode(sink->rows, periods, count, put_batch, sink, error);
}

/* Return whether the server's error is about the message itself: damaged rows, or too large. All
 * others pass: a missing table, a wrong password, a full disk, a query that was killed. */
static bool is_about_message(const char *answer, size_t length)
{
    static const int of_message[] = {
        27,  /* CANNOT_PARSE_INPUT_ASSERTION_FAILED */
        33,  /* CANNOT_READ_ALL_DATA */
        117, /* INCORRECT_DATA */
        131, /* TOO_LARGE_STRING_SIZE */
    };
    char code[16] = "";
    if (length < 6 || memcmp(answer, "Code: ", 6) != 0)
        return false;
    memcpy(code, answer + 6, length - 6 < sizeof(code) - 1 ? length - 6 : sizeof(code) - 1);
    for (size_t i = 0; i < sizeof(of_message) / sizeof(of_message[0]); i++)
        if (atoi(code) == of_message[i])
            return true;
    return false;
}

static enum sink_verdict clickhouse_judge(void *state, long status, const char *answer,
                                          size_t length)
{
    (void)state;
    if (status >= 200 && status < 300)
        return SINK_TAKEN;
    return is_about_message(answer, length) ? SINK_REFUSED : SINK_AGAIN;
}

const struct sink_kind sink_clickhouse = {
    .name = "clickhouse",
    .open = open_sink,
    .close = close_sink,
    .encode = encode,
    .compressions = SINK_GZIP | SINK_ZSTD,
    .judge = clickhouse_judge,
};
