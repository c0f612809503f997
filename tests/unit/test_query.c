/* SPDX-License-Identifier: Apache-2.0 */
/* SQL over profiles: sums of random profiles, rows by id and by column, and refused statements. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "profile/rollup.h"
#include "tools/query/database.h"
#include "trace_fixture.h"

#define STACKS 40
#define DUMPS 6

/* Random profiles: each dump has growing figures for some stacks. */
struct random_profile {
    struct fixture_trace trace;
    int64_t live_bytes, allocated_bytes, live_count;
};

static uint64_t make_stack(struct trace_writer *writer, const struct fixture_stacks *stacks, int i)
{
    char name[32];
    snprintf(name, sizeof(name), "_Z4leaf%di", i);
    uint64_t leaf = trace_writer_frame(writer, stacks->program, 0x2000 + (uint64_t)i * 16, name);
    uint64_t frames[] = {leaf, i % 2 ? stacks->outer : stacks->inner, stacks->main};
    return trace_writer_callstack(writer, frames, 3, NULL);
}

static struct random_profile make_profile(unsigned seed)
{
    struct random_profile made = {0};
    struct trace_figures figures[STACKS] = {0};
    int fd = memfd_create("trace", MFD_CLOEXEC);
    struct trace_writer *writer = trace_writer_open(fd);
    struct fixture_stacks stacks = fixture_stacks(writer);
    uint64_t ids[STACKS];
    srand(seed);
    for (int i = 0; i < STACKS; i++)
        ids[i] = make_stack(writer, &stacks, i);
    for (int i = 0; i < DUMPS; i++) {
        struct trace_heap_dump dump = fixture_dump();
        dump.timestamp_ns += (uint64_t)i * 1000;
        trace_writer_dump_begin(writer, &dump);
        for (int j = 0; j < STACKS; j++) {
            int count = rand() % 5;
            if (rand() % 3 == 0)
                continue;
            figures[j].allocated_count += count;
            figures[j].allocated_bytes += count * (8.0 + j);
            if (rand() % 2 == 0) {
                figures[j].freed_count = figures[j].allocated_count;
                figures[j].freed_bytes = figures[j].allocated_bytes;
            }
            struct trace_heap_sample sample = {.callstack = ids[j], .figures = figures[j]};
            trace_writer_dump_sample(writer, &sample);
        }
        trace_writer_dump_end(writer);
    }
    for (int i = 0; i < STACKS; i++) {
        made.live_bytes += (int64_t)(figures[i].allocated_bytes - figures[i].freed_bytes);
        made.allocated_bytes += (int64_t)figures[i].allocated_bytes;
        made.live_count += (int64_t)(figures[i].allocated_count - figures[i].freed_count);
    }
    assert_int_equal(trace_writer_close(writer), 0);
    made.trace = fixture_take(fd);
    return made;
}

static struct query_database *open_profile(const struct random_profile *made)
{
    static const struct profile_read_options options = {.demangling = DEMANGLE_NONE,
                                                        .as_in_trace = true};
    struct error error = {0};
    struct profile *profile =
        profile_read_bytes(made->trace.bytes, made->trace.length, &options, &error);
    struct query_database *database = query_database_new(&error);
    assert_non_null(profile);
    assert_non_null(database);
    query_database_add_profile(database, "random", profile);
    return database;
}

/* Return the first column of the first row. */
static int64_t ask(struct query_database *database, const char *sql)
{
    struct error error = {0};
    sqlite3_stmt *statement = NULL;
    const char *rest;
    int64_t value;
    if (query_database_prepare(database, sql, sql, &statement, &rest, &error) < 0)
        fail_msg("%s: %s", sql, error.message);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    value = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return value;
}

static void sums_are_those_of_the_profile(void **state)
{
    (void)state;
    for (unsigned seed = 1; seed <= 50; seed++) {
        struct random_profile made = make_profile(seed);
        struct query_database *database = open_profile(&made);
        assert_int_equal(ask(database, "select sum(size) from heap_profile_allocation"),
                         made.live_bytes);
        assert_int_equal(ask(database, "select sum(count) from heap_profile_allocation"),
                         made.live_count);
        assert_int_equal(
            ask(database, "select sum(size) from heap_profile_allocation where size > 0"),
            made.allocated_bytes);
        assert_int_equal(
            ask(database, "select sum(cumulative_size) from experimental_flamegraph((select "
                          "max(ts_end) from heap_profile), (select max(upid) from heap_profile), "
                          "'native') where depth = 0"),
            made.live_bytes);
        assert_int_equal(ask(database, "select sum(self_size) from "
                                       "android_heap_profile_summary_tree"),
                         made.live_bytes);
        assert_int_equal(ask(database, "select live_size from hp_total order by ts desc limit 1"),
                         made.live_bytes);
        query_database_close(database);
        free(made.trace.bytes);
    }
}

/* An indexed lookup must find the same rows as a full scan. */
static void indexed_rows_equal_a_full_scan(void **state)
{
    static const char *const columns[][2] = {
        {"stack_profile_callsite", "id"},
        {"stack_profile_callsite", "parent_id"},
        {"stack_profile_callsite", "frame_id"},
        {"stack_profile_frame", "mapping"},
        {"heap_profile_allocation", "id"},
        {"heap_profile_allocation", "callsite_id"},
        {"thread", "upid"},
        {"heap_profile", "ts_end"},
        {"hp_callsite_stats", "callsite_id"},
        {"hp_callsite_stats", "dump_id"},
    };
    struct random_profile made = make_profile(7);
    struct query_database *database = open_profile(&made);
    char sql[400];
    (void)state;
    for (size_t i = 0; i < sizeof(columns) / sizeof(columns[0]); i++) {
        const char *table = columns[i][0], *column = columns[i][1];
        snprintf(sql, sizeof(sql),
                 "select count(*) from (select distinct %s as v from %s) k where (select count(*) "
                 "from %s t where t.%s = k.v) <> (select count(*) from %s u where +u.%s = k.v)",
                 column, table, table, column, table, column);
        assert_int_equal(ask(database, sql), 0);
        snprintf(sql, sizeof(sql), "select count(*) from %s where %s = -1 or %s = 1 << 60", table,
                 column, column);
        assert_int_equal(ask(database, sql), 0);
    }
    query_database_close(database);
    free(made.trace.bytes);
}

static void writing_is_refused(void **state)
{
    static const char *const statements[] = {
        "delete from process",
        "attach ':memory:' as x",
        "create table t(x)",
        "pragma journal_mode=wal",
        "vacuum",
        "select load_extension('x')",
        "select fts3_tokenizer('simple')",
        "select FTS3_Tokenizer('x', x'0000000000000000')",
        "create temp table t(x)",
        "pragma writable_schema=1",
        "create temp trigger t after insert on x begin select 1; end",
    };
    struct random_profile made = make_profile(3);
    struct query_database *database = open_profile(&made);
    (void)state;
    for (size_t i = 0; i < sizeof(statements) / sizeof(statements[0]); i++) {
        struct error error = {0};
        sqlite3_stmt *statement = NULL;
        const char *rest;
        int code = query_database_prepare(database, statements[i], statements[i], &statement, &rest,
                                          &error);
        if (code == 0 && sqlite3_step(statement) != SQLITE_ERROR &&
            sqlite3_errcode(query_database_sql(database)) != SQLITE_AUTH)
            fail_msg("was done: %s", statements[i]);
        sqlite3_finalize(statement);
    }
    query_database_close(database);
    free(made.trace.bytes);
}

/* Values and SQLite's memory have limits, and sorted rows are not written to a file. */
static void a_confined_database_has_limits(void **state)
{
    static const char *const statements[] = {
        "select length(zeroblob(70000000))",
        "with recursive c(n, b) as (select 1, zeroblob(1000000) union select n + 1, "
        "zeroblob(1000000) from c) select count(*) from c",
    };
    const int codes[] = {SQLITE_TOOBIG, SQLITE_NOMEM};
    struct random_profile made = make_profile(3);
    struct query_database *database = open_profile(&made);
    struct error error = {0};
    (void)state;
    assert_int_equal(query_database_confine(database, 8 << 20, &error), 0);
    for (size_t i = 0; i < sizeof(statements) / sizeof(statements[0]); i++) {
        sqlite3_stmt *statement = NULL;
        const char *rest;
        assert_int_equal(query_database_prepare(database, statements[i], statements[i], &statement,
                                                &rest, &error),
                         0);
        assert_int_equal(sqlite3_step(statement), codes[i]);
        sqlite3_finalize(statement);
    }
    assert_int_equal(ask(database,
                         "with recursive c(n) as (select 1 union all select n + 1 from c "
                         "where n < 20000) select count(*) from (select printf('%100d', n) "
                         "from c order by n % 7, 1)"),
                     20000);
    query_database_close(database);
    sqlite3_hard_heap_limit64(0);
    free(made.trace.bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_those_of_the_profile),
        cmocka_unit_test(indexed_rows_equal_a_full_scan),
        cmocka_unit_test(writing_is_refused),
        cmocka_unit_test(a_confined_database_has_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
