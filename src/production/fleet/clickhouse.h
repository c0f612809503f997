/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client of ClickHouse's HTTP interface: one connection, one query at a time. What the server
 * answers is untrusted: its length is bounded here, its content where it is parsed (answer.h).
 */
#ifndef HEAPPROFD_PRODUCTION_FLEET_CLICKHOUSE_H
#define HEAPPROFD_PRODUCTION_FLEET_CLICKHOUSE_H

#include <stddef.h>
#include <stdint.h>

#include "util/error.h"

/* A longer answer is an error. */
#define CLICKHOUSE_ANSWER_BYTES_MAX (UINT64_C(512) << 20)

struct clickhouse_options {
    const char *url;           /* http://HOST:8123 or https://... */
    const char *database;      /* of all queries; "" : the server's default */
    const char *user;          /* NULL: the server's default */
    const char *password_file; /* its first line; readable by its owner only. NULL: no password */
    const char *ca_file;       /* certificates to trust instead of the system's; NULL: those */
    uint64_t timeout_s;        /* of a query; 0: 300 */
};

struct clickhouse;

struct clickhouse_answer {
    uint8_t *bytes; /* malloc'd */
    size_t length;
    char query_id[48];
};

/* Nothing is sent yet. Return NULL with *error set. */
struct clickhouse *clickhouse_open(const struct clickhouse_options *options, struct error *error);
void clickhouse_close(struct clickhouse *server);

/* Run a query. `body`, if it is not NULL, is the data of an INSERT, and the query then goes into
 * the URL. `answer` may be NULL. Return 0 and the answer, which the caller clears, or a negative
 * errno; the message has the query's id and the server's reason. */
int clickhouse_run(struct clickhouse *server, const char *query, const void *body, size_t length,
                   struct clickhouse_answer *answer, struct error *error);
void clickhouse_answer_clear(struct clickhouse_answer *answer);

/* Write text as an SQL string in quotation marks. Return 0, or -ENAMETOOLONG. */
int clickhouse_quote(const char *text, char *to, size_t size);

#endif
