/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any SQL, and any arguments of the table functions, over a small profile: nothing is written, and
 * every statement ends with rows or an error. The first byte selects the kind.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "profile/builder/profile_read.h"
#include "tools/query/database.h"

#define TEXT_BYTES_MAX 4096u
#define ROWS_MAX 10000
#define STEPS_MAX 200

/* A trace by tests/e2e/perfetto_bytes.py: clocks, process 7, a callstack of two frames, and a dump.
 */
static const uint8_t trace[] = {
    0x0a, 0x0e, 0x32, 0x0c, 0x0a, 0x04, 0x08, 0x04, 0x10, 0x0a, 0x0a, 0x04, 0x08, 0x06, 0x10, 0x6e,
    0x0a, 0x0e, 0x12, 0x0c, 0x0a, 0x0a, 0x08, 0x07, 0x10, 0x03, 0x1a, 0x04, 0x70, 0x72, 0x6f, 0x67,
    0x0a, 0x50, 0x50, 0x01, 0x68, 0x01, 0x62, 0x4a, 0x2a, 0x08, 0x08, 0x01, 0x12, 0x04, 0x6d, 0x61,
    0x69, 0x6e, 0x2a, 0x09, 0x08, 0x02, 0x12, 0x05, 0x5f, 0x5a, 0x31, 0x66, 0x76, 0x8a, 0x01, 0x05,
    0x08, 0x01, 0x12, 0x01, 0x78, 0x9a, 0x01, 0x0e, 0x08, 0x01, 0x18, 0x00, 0x20, 0x00, 0x28, 0x00,
    0x30, 0x00, 0x38, 0x01, 0x40, 0x00, 0x32, 0x08, 0x08, 0x01, 0x10, 0x01, 0x18, 0x01, 0x20, 0x01,
    0x32, 0x08, 0x08, 0x02, 0x10, 0x02, 0x18, 0x01, 0x20, 0x02, 0x3a, 0x06, 0x08, 0x01, 0x10, 0x01,
    0x10, 0x02, 0x0a, 0x26, 0x50, 0x01, 0xaa, 0x02, 0x21, 0x2a, 0x1d, 0x08, 0x07, 0x12, 0x0a, 0x08,
    0x01, 0x10, 0x40, 0x18, 0x10, 0x28, 0x02, 0x30, 0x01, 0x48, 0x14, 0x5a, 0x0b, 0x6c, 0x69, 0x62,
    0x63, 0x2e, 0x6d, 0x61, 0x6c, 0x6c, 0x6f, 0x63, 0x38, 0x00,
};

static int steps;

static int stop_late(void *unused)
{
    (void)unused;
    return ++steps > STEPS_MAX;
}

static void run(struct query_database *database, const char *text)
{
    const char *rest = text;
    struct error error;
    steps = 0;
    while (*rest != '\0') {
        sqlite3_stmt *statement = NULL;
        const char *before = rest;
        if (query_database_prepare(database, text, rest, &statement, &rest, &error) < 0)
            return;
        for (int rows = 0; statement != NULL && rows < ROWS_MAX; rows++) {
            if (sqlite3_step(statement) != SQLITE_ROW)
                break;
            for (int i = 0; i < sqlite3_column_count(statement); i++)
                (void)sqlite3_column_text(statement, i);
        }
        sqlite3_finalize(statement);
        if (rest <= before)
            abort();
    }
}

/* Append values of any kind, as SQL literals. */
static void append_value(sqlite3_str *text, const uint8_t **data, size_t *size)
{
    uint8_t kind = **data;
    size_t length = kind >> 3;
    *data += 1, *size -= 1;
    if (length > *size)
        length = *size;
    int64_t number = 0;
    memcpy(&number, *data, length < sizeof(number) ? length : sizeof(number));
    switch (kind & 7) {
    case 0:
        sqlite3_str_appendall(text, "NULL");
        break;
    case 1:
        sqlite3_str_appendf(text, "%lld", (long long)number);
        break;
    case 2:
        sqlite3_str_appendf(text, "'%.*q'", (int)length, (const char *)*data);
        break;
    case 3:
        sqlite3_str_appendf(text, "%lld.5", (long long)number);
        break;
    case 4:
        sqlite3_str_appendall(text, "(select max(ts_end) from heap_profile)");
        break;
    case 5:
        sqlite3_str_appendall(text, "2");
        break;
    default:
        sqlite3_str_appendall(text, "'native'");
    }
    *data += length, *size -= length;
}

static char *make_call(const uint8_t *data, size_t size, bool by_name)
{
    static const char *const names[] = {"ts", "upid", "profile_type", "focus_str", "id", "depth"};
    sqlite3_str *text = sqlite3_str_new(NULL);
    sqlite3_str_appendall(text, "select * from experimental_flamegraph");
    for (size_t i = 0; i < 6 && size > 0; i++) {
        if (by_name)
            sqlite3_str_appendf(text, " %s %s = ", i == 0 ? "where" : "and", names[i]);
        else
            sqlite3_str_appendall(text, i == 0 ? "(" : ", ");
        append_value(text, &data, &size);
    }
    if (!by_name)
        sqlite3_str_appendall(text, ")");
    return sqlite3_str_finish(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct query_database *database;
    static const struct profile_read_options options = {.demangling = DEMANGLE_NONE,
                                                        .as_in_trace = true};
    struct error error;
    if (database == NULL) {
        struct profile *profile = profile_read_bytes(trace, sizeof(trace), &options, &error);
        database = query_database_new(&error);
        if (profile == NULL || database == NULL || profile->callsite_count != 2)
            abort();
        query_database_add_profile(database, "fuzz", profile);
        sqlite3_progress_handler(query_database_sql(database), 1000, stop_late, NULL);
        sqlite3_limit(query_database_sql(database), SQLITE_LIMIT_LENGTH, 1 << 20);
    }
    if (size < 2 || size > TEXT_BYTES_MAX)
        return 0;
    char *text;
    if (data[0] % 3 == 0) {
        text = sqlite3_malloc64(size);
        memcpy(text, data + 1, size - 1);
        text[size - 1] = '\0';
    } else {
        text = make_call(data + 1, size - 1, data[0] % 3 == 1);
    }
    if (text != NULL)
        run(database, text);
    sqlite3_free(text);
    return 0;
}
