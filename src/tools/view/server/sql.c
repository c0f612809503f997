/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs the page's SQL, within limits of rows, bytes, memory and time, and until somebody waits for
 * it.
 *
 * SQLite does not ask within a step whether to go on, and one step can take hours: instr() and
 * replace() of long texts take the product of both lengths, and a step may have thousands of them.
 * So a copy of this process runs the statements. It can be ended at any time, and what it can do to
 * the database, or a mistake of SQLite to it, is gone with it.
 */
#include "tools/view/server/sql.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "profile/import/import.h"
#include "util/clock.h"
#include "util/close_descriptors.h"
#include "util/json_writer.h"
#include "util/read_only_sandbox.h"
#include "util/write_all.h"
#include "util/xmalloc.h"

#define ROWS_MAX 10000u
#define CELL_BYTES_MAX 4096
#define ANSWER_BYTES_MAX ((off_t)32 << 20)
#define MILLISECONDS_MAX 60000u
#define LOOK_MS 50 /* between two looks at who waits for the query's end */
#define SQLITE_BYTES_MAX (INT64_C(1) << 30)
#define READ_BYTES (64u << 10)

/* The owner of a file that is shown may have replaced it. */
static int add(struct query_database *database, const char *path, struct error *error)
{
    static const struct profile_read_options reading = {
        .demangling = DEMANGLE_NONE, .as_in_trace = true, .only_regular = true};
    struct profile *profile = import_profile(path, &reading, error);
    if (profile == NULL)
        return error->code;
    query_database_add_profile(database, path, profile);
    return 0;
}

static int open_database(struct view_sql *sql, struct error *error)
{
    if (sql->database != NULL)
        return 0;
    struct query_database *database = query_database_new(error);
    if (database == NULL)
        return error->code;
    for (size_t i = 0; i < sql->path_count; i++) {
        int code = add(database, sql->paths[i], error);
        if (code < 0) {
            query_database_close(database);
            return code;
        }
    }
    sql->database = database;
    return 0;
}

static void write_cell(struct json_writer *json, sqlite3_stmt *statement, int column)
{
    char text[CELL_BYTES_MAX + 1];
    switch (sqlite3_column_type(statement, column)) {
    case SQLITE_INTEGER:
        json_signed(json, NULL, sqlite3_column_int64(statement, column));
        break;
    case SQLITE_FLOAT:
        json_number(json, NULL, sqlite3_column_double(statement, column));
        break;
    case SQLITE_NULL:
        json_null(json, NULL);
        break;
    default:
        snprintf(text, sizeof(text), "%s", (const char *)sqlite3_column_text(statement, column));
        json_string(json, NULL, text);
    }
}

/* Write a statement's columns and rows. Return SQLite's code. */
static int write_rows(struct json_writer *json, sqlite3_stmt *statement)
{
    int columns = sqlite3_column_count(statement), code;
    size_t rows = 0;
    json_array(json, "columns");
    for (int i = 0; i < columns; i++)
        json_string(json, NULL, sqlite3_column_name(statement, i));
    json_end_array(json);
    json_array(json, "rows");
    while ((code = sqlite3_step(statement)) == SQLITE_ROW && rows++ < ROWS_MAX &&
           ftello(json->out) < ANSWER_BYTES_MAX) {
        json_array(json, NULL);
        for (int i = 0; i < columns; i++)
            write_cell(json, statement, i);
        json_end_array(json);
    }
    json_end_array(json);
    json_bool(json, "more", code == SQLITE_ROW);
    return code == SQLITE_ROW ? SQLITE_DONE : code;
}

/* Return whether the text that follows a statement has another one. */
static bool is_last(const char *rest)
{
    return rest[strspn(rest, " \t\r\n;")] == '\0';
}

static int run_statement(sqlite3_stmt *statement, bool last, struct json_writer *json)
{
    int code;
    if (last)
        return write_rows(json, statement);
    while ((code = sqlite3_step(statement)) == SQLITE_ROW)
        ;
    return code;
}

static int run_statements(const struct view_sql *sql, const char *text, struct json_writer *json,
                          struct error *error)
{
    const char *at = text;
    bool answered = false;
    while (*at != '\0') {
        sqlite3_stmt *statement = NULL;
        int code = query_database_prepare(sql->database, text, at, &statement, &at, error);
        if (code < 0)
            return code;
        bool last = is_last(at);
        code = statement == NULL ? SQLITE_DONE : run_statement(statement, last, json);
        answered |= last && statement != NULL;
        sqlite3_finalize(statement);
        if (code != SQLITE_DONE) {
            query_database_step_error(sql->database, error);
            return -EINVAL;
        }
    }
    return answered ? 0 : error_set(error, -EINVAL, "the text ends without a statement");
}

/* Run the statements. Write the error's code, then its message or the answer, and exit. */
static void run_child(const struct view_sql *sql, const char *text, int answer, pid_t parent)
    __attribute__((noreturn));
static void run_child(const struct view_sql *sql, const char *text, int answer, pid_t parent)
{
    struct error error = {0};
    char *bytes = NULL;
    size_t length = 0;
    close_descriptors(STDERR_FILENO + 1, (unsigned)answer - 1);
    close_descriptors((unsigned)answer + 1, ~0u);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    FILE *out = xopen_memstream(&bytes, &length);
    read_only_sandbox_enter(-1);
    uint64_t begin = clock_read_ns(CLOCK_MONOTONIC);
    struct json_writer json = json_begin(out);
    json_object(&json, NULL);
    error.code = query_database_confine(sql->database, SQLITE_BYTES_MAX, &error);
    if (error.code == 0)
        error.code = run_statements(sql, text, &json, &error);
    json_number(&json, "seconds", (double)(clock_read_ns(CLOCK_MONOTONIC) - begin) / 1e9);
    json_end_object(&json);
    xclose_memstream(out);
    write_all(answer, &error, sizeof(error));
    if (error.code == 0)
        write_all(answer, bytes, length);
    _exit(0);
}

/* Wait until the child writes or is to end. Return 0, or an error because of which it is ended. */
static int wait_for_child(const struct view_sql *sql, int answer, uint64_t deadline_ms,
                          struct error *error)
{
    struct pollfd polled = {.fd = answer, .events = POLLIN};
    while (poll(&polled, 1, LOOK_MS) <= 0) {
        if (*sql->waiting > 0)
            return error_set(error, -EINVAL,
                             "the query was ended, because the profiles were replaced while it "
                             "ran; run it again");
        if (clock_read_ms(CLOCK_MONOTONIC) > deadline_ms)
            return error_set(error, -EINVAL,
                             "the query ran for a minute and was ended; ask for less, or use "
                             "heap_profile query");
    }
    return 0;
}

/* Read what the child wrote. The error is its own, or why it has none. */
static int read_answer(const struct view_sql *sql, int answer, FILE *out, struct error *error)
{
    static const struct error none = {-ENODATA, "the query's process ended without an answer"};
    uint64_t deadline_ms = clock_read_ms(CLOCK_MONOTONIC) + MILLISECONDS_MAX;
    char bytes[READ_BYTES];
    int code = wait_for_child(sql, answer, deadline_ms, error);
    if (code < 0)
        return code;
    if (read_all(answer, error, sizeof(*error)) < 0)
        *error = none;
    while (error->code == 0 && (code = wait_for_child(sql, answer, deadline_ms, error)) == 0) {
        ssize_t got = read(answer, bytes, sizeof(bytes));
        if (got <= 0)
            return got == 0 ? 0 : error_set(error, -errno, "the answer: %s", strerror(errno));
        fwrite(bytes, 1, (size_t)got, out);
    }
    return error->code;
}

int view_sql_run(struct view_sql *sql, const char *text, FILE *out, struct error *error)
{
    int ends[2], code = open_database(sql, error);
    if (code < 0)
        return code;
    if (pipe2(ends, O_CLOEXEC) < 0)
        return error_set(error, -errno, "the query cannot be run: %s", strerror(errno));
    pid_t self = getpid(), child = fork();
    if (child == 0)
        run_child(sql, text, ends[1], self);
    close(ends[1]);
    code = child < 0 ? error_set(error, -errno, "no process for the query: %s", strerror(errno))
                     : read_answer(sql, ends[0], out, error);
    close(ends[0]);
    if (child > 0) {
        kill(child, SIGKILL);
        while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    return code;
}

static void end_table(struct json_writer *json)
{
    json_end_array(json);
    json_end_object(json);
}

int view_sql_tables(struct view_sql *sql, FILE *out, struct error *error)
{
    char columns[2048], table[256] = "";
    sqlite3_stmt *statement = NULL;
    const char *rest;
    int code = open_database(sql, error);
    snprintf(columns, sizeof(columns),
             "SELECT t.name, c.name, c.type FROM (%s) AS t JOIN pragma_table_xinfo(t.name) AS c "
             "ORDER BY t.name, c.cid",
             query_tables_sql);
    if (code == 0)
        code = query_database_prepare(sql->database, columns, columns, &statement, &rest, error);
    if (code < 0)
        return code;
    struct json_writer json = json_begin(out);
    json_array(&json, NULL);
    while (sqlite3_step(statement) == SQLITE_ROW) {
        const char *name = (const char *)sqlite3_column_text(statement, 0);
        if (strcmp(name, table) != 0) {
            if (table[0] != '\0')
                end_table(&json);
            snprintf(table, sizeof(table), "%s", name);
            json_object(&json, NULL);
            json_string(&json, "name", name);
            json_array(&json, "columns");
        }
        json_object(&json, NULL);
        json_string(&json, "name", (const char *)sqlite3_column_text(statement, 1));
        json_string(&json, "type", (const char *)sqlite3_column_text(statement, 2));
        json_end_object(&json);
    }
    if (table[0] != '\0')
        end_table(&json);
    json_end_array(&json);
    sqlite3_finalize(statement);
    return 0;
}

void view_sql_close(struct view_sql *sql)
{
    query_database_close(sql->database);
    sql->database = NULL;
}
