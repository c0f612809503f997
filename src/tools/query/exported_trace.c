/* SPDX-License-Identifier: Apache-2.0 */
/* Reads stacks and sums from the tables of an exported file, and checks every id. */
#include "tools/query/exported_trace.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "util/xmalloc.h"

#define ROWS_MAX (UINT32_MAX / 2)

/* The rows of a trace have consecutive ids. The bases are the first ids. */
struct reading {
    struct exported_trace *trace;
    int64_t mapping_base, frame_base, callsite_base, symbol_base;
    size_t mapping_capacity, frame_capacity, callsite_capacity, line_capacity;
};

static const char *take_text(struct exported_trace *trace, sqlite3_stmt *row, int column)
{
    const char *text = (const char *)sqlite3_column_text(row, column);
    bool added;
    if (text == NULL)
        text = "";
    uint64_t id = xmalloc_id(intern_bytes(&trace->text_ids, text, strlen(text), &added));
    if (added) {
        XARRAY_RESERVE(&trace->texts, &trace->text_capacity, id - 1, 1);
        trace->texts[id - 1] = xstrdup(text);
    }
    return trace->texts[id - 1];
}

/* Set *found to the row that an id refers to, counted from `base`; PROFILE_NONE for NULL. Return 0
 * or -EBADMSG. */
static int take_row(sqlite3_stmt *row, int column, int64_t base, size_t count, uint32_t *found)
{
    int64_t id = sqlite3_column_int64(row, column);
    *found = PROFILE_NONE;
    if (sqlite3_column_type(row, column) == SQLITE_NULL)
        return 0;
    if (id < base || id - base >= (int64_t)count)
        return -EBADMSG;
    *found = (uint32_t)(id - base);
    return 0;
}

/* Return whether the row's id, its first column, follows the previous row's. */
static bool is_next(sqlite3_stmt *row, size_t count, int64_t *base)
{
    int64_t id = sqlite3_column_int64(row, 0);
    if (count == 0)
        *base = id;
    return id >= 0 && count < ROWS_MAX && id == *base + (int64_t)count;
}

static int take_mapping(struct reading *reading, sqlite3_stmt *row)
{
    struct profile *profile = &reading->trace->profile;
    struct profile_mapping mapping = {.build_id = ""};
    if (!is_next(row, profile->mapping_count, &reading->mapping_base))
        return -EBADMSG;
    mapping.path = take_text(reading->trace, row, 1);
    XARRAY_ADD(&profile->mappings, &profile->mapping_count, &reading->mapping_capacity, mapping);
    return 0;
}

static int take_symbol(struct reading *reading, sqlite3_stmt *row)
{
    struct profile *profile = &reading->trace->profile;
    struct profile_symbol_line line = {0};
    if (!is_next(row, profile->symbol_line_count, &reading->symbol_base) ||
        take_row(row, 1, reading->symbol_base, profile->symbol_line_count + 1, &line.set) < 0)
        return -EBADMSG;
    line.name = take_text(reading->trace, row, 2);
    line.source_file = take_text(reading->trace, row, 3);
    line.line = (uint32_t)sqlite3_column_int64(row, 4);
    line.has_line = sqlite3_column_type(row, 4) != SQLITE_NULL;
    XARRAY_ADD(&profile->symbol_lines, &profile->symbol_line_count, &reading->line_capacity, line);
    return 0;
}

static int take_frame(struct reading *reading, sqlite3_stmt *row)
{
    struct profile *profile = &reading->trace->profile;
    struct profile_frame frame = {.source_file = "", .obfuscated_name = ""};
    uint32_t set;
    if (!is_next(row, profile->frame_count, &reading->frame_base) ||
        take_row(row, 3, reading->mapping_base, profile->mapping_count, &frame.mapping) < 0 ||
        take_row(row, 4, reading->symbol_base, profile->symbol_line_count, &set) < 0)
        return -EBADMSG;
    frame.linkage_name = take_text(reading->trace, row, 1);
    frame.name = take_text(reading->trace, row, 2);
    frame.is_unnamed = sqlite3_column_type(row, 1) == SQLITE_NULL;
    if (sqlite3_column_type(row, 2) != SQLITE_NULL)
        frame.obfuscated_name = frame.linkage_name;
    for (uint32_t i = set; i < profile->symbol_line_count && profile->symbol_lines[i].set == set;
         i++)
        frame.symbol_count++;
    frame.symbol_first = frame.symbol_count > 0 ? set : 0;
    XARRAY_ADD(&profile->frames, &profile->frame_count, &reading->frame_capacity, frame);
    return 0;
}

static int take_callsite(struct reading *reading, sqlite3_stmt *row)
{
    struct profile *profile = &reading->trace->profile;
    struct profile_callsite callsite = {0};
    /* A parent comes before its children. */
    if (!is_next(row, profile->callsite_count, &reading->callsite_base) ||
        take_row(row, 1, reading->callsite_base, profile->callsite_count, &callsite.parent) < 0 ||
        take_row(row, 2, reading->frame_base, profile->frame_count, &callsite.frame) < 0 ||
        callsite.frame == PROFILE_NONE)
        return -EBADMSG;
    XARRAY_ADD(&profile->callsites, &profile->callsite_count, &reading->callsite_capacity,
               callsite);
    return 0;
}

static int take_allocation(struct reading *reading, sqlite3_stmt *row)
{
    struct exported_trace *trace = reading->trace;
    int64_t size = sqlite3_column_int64(row, 1), count = sqlite3_column_int64(row, 2);
    uint32_t callsite;
    if (take_row(row, 0, reading->callsite_base, trace->profile.callsite_count, &callsite) < 0 ||
        callsite == PROFILE_NONE)
        return -EBADMSG;
    /* The file is untrusted: sums may overflow, and then wrap around. */
    struct query_counters *sum = &trace->sums[callsite];
    bool freed = size < 0 || count < 0;
    int64_t *bytes = freed ? &sum->freed_bytes : &sum->allocated_bytes;
    int64_t *counts = freed ? &sum->freed_count : &sum->allocated_count;
    *bytes = (int64_t)((uint64_t)*bytes + (freed ? 0 - (uint64_t)size : (uint64_t)size));
    *counts = (int64_t)((uint64_t)*counts + (freed ? 0 - (uint64_t)count : (uint64_t)count));
    return 0;
}

static int take_dumps(struct reading *reading, sqlite3_stmt *row)
{
    reading->trace->dumps = sqlite3_column_int64(row, 0);
    return 0;
}

/* Call `take` with each row of a statement. Free its text. */
static int read_rows(sqlite3 *sql, char *text, struct reading *reading,
                     int (*take)(struct reading *, sqlite3_stmt *))
{
    sqlite3_stmt *row = NULL;
    int code = 0, step = SQLITE_DONE;
    if (text == NULL)
        return -ENOMEM;
    if (sqlite3_prepare_v2(sql, text, -1, &row, NULL) != SQLITE_OK)
        code = -EIO;
    while (code == 0 && (step = sqlite3_step(row)) == SQLITE_ROW)
        code = take(reading, row);
    if (code == 0 && step != SQLITE_DONE)
        code = -EIO;
    sqlite3_finalize(row);
    sqlite3_free(text);
    return code;
}

/* Return the WHERE clause for the trace that contains the process; "" if the database has one
 * trace, and so no column trace_id. NULL: no memory. */
static char *only_of(sqlite3 *sql, int64_t upid)
{
    sqlite3_stmt *row = NULL;
    char *where = NULL, *text = sqlite3_mprintf(
                            "SELECT trace_id FROM main.process WHERE upid = %lld", (long long)upid);
    if (text == NULL)
        return NULL;
    if (sqlite3_prepare_v2(sql, text, -1, &row, NULL) != SQLITE_OK)
        where = sqlite3_mprintf("");
    else
        where = sqlite3_mprintf(
            " WHERE trace_id = %lld",
            sqlite3_step(row) == SQLITE_ROW ? (long long)sqlite3_column_int64(row, 0) : -1LL);
    sqlite3_finalize(row);
    sqlite3_free(text);
    return where;
}

static int read_stacks(sqlite3 *sql, const char *where, struct reading *reading)
{
    const struct {
        const char *columns, *table;
        int (*take)(struct reading *, sqlite3_stmt *);
    } tables[] = {
        {"id, name", "stack_profile_mapping", take_mapping},
        {"id, symbol_set_id, name, source_file, line_number", "stack_profile_symbol", take_symbol},
        {"id, name, deobfuscated_name, mapping, symbol_set_id", "stack_profile_frame", take_frame},
        {"id, parent_id, frame_id", "stack_profile_callsite", take_callsite},
    };
    int code = 0;
    for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]) && code == 0; i++)
        code = read_rows(sql,
                         sqlite3_mprintf("SELECT %s FROM main.%s%s ORDER BY id", tables[i].columns,
                                         tables[i].table, where),
                         reading, tables[i].take);
    return code;
}

int exported_trace_read(sqlite3 *sql, int64_t upid, int64_t ts, struct exported_trace *trace)
{
    struct reading reading = {.trace = trace};
    *trace = (struct exported_trace){0};
    char *where = only_of(sql, upid);
    int code = where == NULL ? -ENOMEM : read_stacks(sql, where, &reading);
    sqlite3_free(where);
    trace->sums = xcalloc(trace->profile.callsite_count + 1, sizeof(*trace->sums));
    if (code == 0)
        code = read_rows(sql,
                         /* The plus signs keep SQLite from using an index: read rows in order. */
                         sqlite3_mprintf("SELECT callsite_id, size, count FROM "
                                         "main.heap_profile_allocation WHERE +upid = %lld AND "
                                         "+ts <= %lld",
                                         (long long)upid, (long long)ts),
                         &reading, take_allocation);
    if (code == 0)
        code = read_rows(sql,
                         sqlite3_mprintf("SELECT count(*) FROM main.heap_profile WHERE upid = %lld "
                                         "AND ts_end <= %lld",
                                         (long long)upid, (long long)ts),
                         &reading, take_dumps);
    if (code < 0)
        exported_trace_free(trace);
    return code;
}

void exported_trace_free(struct exported_trace *trace)
{
    for (size_t i = 0; i < trace->text_ids.count && i < trace->text_capacity; i++)
        free(trace->texts[i]);
    free(trace->texts);
    intern_free(&trace->text_ids);
    free(trace->profile.mappings);
    free(trace->profile.frames);
    free(trace->profile.callsites);
    free(trace->profile.symbol_lines);
    free(trace->sums);
    *trace = (struct exported_trace){0};
}
