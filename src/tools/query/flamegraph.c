/* SPDX-License-Identifier: Apache-2.0 */
/* The table function experimental_flamegraph(). Its arguments are hidden columns, by position or by
 * name. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/query/exported_trace.h"
#include "tools/query/flamegraph_build.h"
#include "tools/query/query_table.h"
#include "util/xmalloc.h"

/* --- columns --- */

#define NODE(column, expression)                                                                   \
    QUERY_GETTER(node_##column, const struct flame_node *node, expression)

NODE(id, query_integer((int64_t)row->number))
NODE(name, node->is_unnamed ? query_null() : query_text(node->name))
NODE(parent_id, query_id(0, node->parent))
NODE(source_file, query_text_or_null(node->source_file))
NODE(line_number, node->has_line ? query_integer(node->line) : query_null())
#undef NODE

#define NODE_MEMBER(name, member) QUERY_MEMBER(name, "", struct flame_node, member)

static const struct query_column columns[] = {
    {"id", INT, .get = node_id},
    {NODE_MEMBER("depth", depth)},
    {"name", TEXT, .get = node_name},
    {NODE_MEMBER("map_name", map_name)},
    {NODE_MEMBER("count", self.count)},
    {NODE_MEMBER("cumulative_count", cumulative.count)},
    {NODE_MEMBER("size", self.size)},
    {NODE_MEMBER("cumulative_size", cumulative.size)},
    {NODE_MEMBER("alloc_count", self.alloc_count)},
    {NODE_MEMBER("cumulative_alloc_count", cumulative.alloc_count)},
    {NODE_MEMBER("alloc_size", self.alloc_size)},
    {NODE_MEMBER("cumulative_alloc_size", cumulative.alloc_size)},
    {"parent_id", INT, .get = node_parent_id},
    {"source_file", TEXT, .get = node_source_file},
    {"line_number", INT, .get = node_line_number},
};

/* The hidden columns after them: the arguments, by position and by name. */
enum argument {
    /* Its type distinguishes the older order of arguments from the present one. */
    COLUMN_FIRST_ARGUMENT = sizeof(columns) / sizeof(columns[0]),
    COLUMN_TS = COLUMN_FIRST_ARGUMENT + 6,
    COLUMN_UPID,
    COLUMN_PROFILE_TYPE,
    COLUMN_FOCUS_STR,
    COLUMN_COUNT_OF_ALL,
};

#define ARGUMENTS_DECLARATION                                                                      \
    "argument_1 HIDDEN, argument_2 HIDDEN, argument_3 HIDDEN, argument_4 HIDDEN, "                 \
    "argument_5 HIDDEN, argument_6 HIDDEN, ts HIDDEN, upid HIDDEN, profile_type HIDDEN, "          \
    "focus_str HIDDEN)"

/* --- the table function --- */

struct table {
    sqlite3_vtab base;           /* first */
    struct query_traces *traces; /* NULL: the connection's tables come from a file */
    sqlite3 *sql;
};

struct cursor {
    sqlite3_vtab_cursor base; /* first */
    struct flamegraph flamegraph;
    struct exported_trace stored; /* owner of the names, if from a file */
    sqlite3_value *arguments[COLUMN_COUNT_OF_ALL];
    size_t at;
};

static int connect_flamegraph(sqlite3 *sql, void *context, int argc, const char *const *argv,
                              sqlite3_vtab **made, char **message)
{
    (void)argc, (void)argv, (void)message;
    sqlite3_str *declaration = sqlite3_str_new(sql);
    sqlite3_str_appendall(declaration, "CREATE TABLE x(");
    query_columns_declare(QUERY_COLUMNS(columns), declaration);
    sqlite3_str_appendall(declaration, ARGUMENTS_DECLARATION);
    char *text = sqlite3_str_finish(declaration);
    int code = text == NULL ? SQLITE_NOMEM : sqlite3_declare_vtab(sql, text);
    sqlite3_free(text);
    if (code != SQLITE_OK)
        return code;
    struct table *table = xcalloc(1, sizeof(*table));
    table->traces = context;
    table->sql = sql;
    sqlite3_vtab_config(sql, SQLITE_VTAB_INNOCUOUS);
    *made = &table->base;
    return SQLITE_OK;
}

static int disconnect_flamegraph(sqlite3_vtab *base)
{
    free(base);
    return SQLITE_OK;
}

/* Accept all arguments, each by its column; idxNum has a bit for each given one, in the order of
 * the columns. */
static int best_index(sqlite3_vtab *base, sqlite3_index_info *info)
{
    int given[COLUMN_COUNT_OF_ALL];
    int arguments = 0;
    (void)base;
    memset(given, -1, sizeof(given));
    for (int i = 0; i < info->nConstraint; i++) {
        int column = info->aConstraint[i].iColumn;
        if (column < COLUMN_FIRST_ARGUMENT || info->aConstraint[i].op != SQLITE_INDEX_CONSTRAINT_EQ)
            continue;
        if (!info->aConstraint[i].usable)
            return SQLITE_CONSTRAINT;
        given[column] = i;
    }
    for (int column = COLUMN_FIRST_ARGUMENT; column < COLUMN_COUNT_OF_ALL; column++) {
        if (given[column] < 0)
            continue;
        info->aConstraintUsage[given[column]].argvIndex = ++arguments;
        info->aConstraintUsage[given[column]].omit = 1;
        info->idxNum |= 1 << (column - COLUMN_FIRST_ARGUMENT);
    }
    info->estimatedCost = 10000;
    info->estimatedRows = 1024;
    return SQLITE_OK;
}

static int open_cursor(sqlite3_vtab *base, sqlite3_vtab_cursor **made)
{
    struct cursor *cursor = xcalloc(1, sizeof(*cursor));
    (void)base;
    *made = &cursor->base;
    return SQLITE_OK;
}

static void clear_cursor(struct cursor *cursor)
{
    flamegraph_free(&cursor->flamegraph);
    exported_trace_free(&cursor->stored);
    for (size_t i = 0; i < COLUMN_COUNT_OF_ALL; i++) {
        sqlite3_value_free(cursor->arguments[i]);
        cursor->arguments[i] = NULL;
    }
    cursor->at = 0;
}

static int close_cursor(sqlite3_vtab_cursor *base)
{
    clear_cursor((struct cursor *)base);
    free(base);
    return SQLITE_OK;
}

static int refuse(sqlite3_vtab_cursor *base, const char *message)
{
    sqlite3_free(base->pVtab->zErrMsg);
    base->pVtab->zErrMsg = sqlite3_mprintf("experimental_flamegraph: %s", message);
    return SQLITE_ERROR;
}

/* Assign the arguments by position to names. */
struct wanted {
    sqlite3_value *ts, *upid, *type, *focus;
};

static struct wanted sort_arguments(const struct cursor *cursor)
{
    sqlite3_value *const *given = cursor->arguments;
    sqlite3_value *const *placed = given + COLUMN_FIRST_ARGUMENT;
    struct wanted wanted = {given[COLUMN_TS], given[COLUMN_UPID], given[COLUMN_PROFILE_TYPE],
                            given[COLUMN_FOCUS_STR]};
    if (placed[0] == NULL)
        return wanted;
    if (sqlite3_value_type(placed[0]) == SQLITE_TEXT) {
        /* type, ts, times, upid, group of upids, focus */
        wanted.type = placed[0];
        wanted.ts = placed[1];
        wanted.upid = placed[3];
        wanted.focus = placed[5] != NULL ? placed[5] : wanted.focus;
        return wanted;
    }
    wanted.ts = placed[0];
    wanted.upid = placed[1] != NULL ? placed[1] : wanted.upid;
    wanted.type = placed[2] != NULL ? placed[2] : wanted.type;
    wanted.focus = placed[3] != NULL ? placed[3] : wanted.focus;
    return wanted;
}

static bool is_integer(sqlite3_value *value)
{
    return value != NULL && sqlite3_value_numeric_type(value) == SQLITE_INTEGER;
}

static bool is_null(sqlite3_value *value)
{
    return value == NULL || sqlite3_value_type(value) == SQLITE_NULL;
}

static int build_stored(struct cursor *cursor, int64_t upid, int64_t ts, const char *focus)
{
    sqlite3 *sql = ((struct table *)cursor->base.pVtab)->sql;
    struct exported_trace *stored = &cursor->stored;
    int code = exported_trace_read(sql, upid, ts, stored);
    if (code == 0 && stored->dumps > 0)
        flamegraph_build_of(&stored->profile, stored->sums, focus, &cursor->flamegraph);
    if (code == -EIO)
        return refuse(&cursor->base, sqlite3_errmsg(sql));
    if (code == -EBADMSG)
        return refuse(&cursor->base, "the ids of this database are not those of an exported one");
    return code < 0 ? SQLITE_NOMEM : SQLITE_OK;
}

static int build(struct cursor *cursor)
{
    struct table *table = (struct table *)cursor->base.pVtab;
    struct wanted wanted = sort_arguments(cursor);
    if (is_null(wanted.ts) || is_null(wanted.upid) || is_null(wanted.type))
        return refuse(&cursor->base, "needs ts, upid and the type 'native', as in "
                                     "experimental_flamegraph(TS, UPID, 'native')");
    const char *type = (const char *)sqlite3_value_text(wanted.type);
    if (type == NULL || strcmp(type, "native") != 0)
        return refuse(&cursor->base, "the type is 'native'; other profiles are not here");
    if (!is_integer(wanted.ts) || !is_integer(wanted.upid))
        return refuse(&cursor->base, "ts and upid are whole numbers");
    const char *focus =
        is_null(wanted.focus) ? NULL : (const char *)sqlite3_value_text(wanted.focus);
    int64_t ts = sqlite3_value_int64(wanted.ts), upid = sqlite3_value_int64(wanted.upid);
    if (table->traces == NULL)
        return build_stored(cursor, upid, ts, focus);
    for (size_t i = 0; i < table->traces->count; i++) {
        struct query_trace *trace = &table->traces->items[i];
        int64_t row = upid - trace->bases.process;
        if (row < 0 || row >= (int64_t)trace->process_count)
            continue;
        flamegraph_build(trace, (uint32_t)row, ts, focus, &cursor->flamegraph);
        break;
    }
    return SQLITE_OK;
}

static int filter_nodes(sqlite3_vtab_cursor *base, int given, const char *unused, int argc,
                        sqlite3_value **argv)
{
    struct cursor *cursor = (struct cursor *)base;
    int used = 0;
    (void)unused;
    clear_cursor(cursor);
    for (int i = 0; i < COLUMN_COUNT_OF_ALL - COLUMN_FIRST_ARGUMENT && used < argc; i++) {
        if ((given >> i & 1) == 0)
            continue;
        sqlite3_value *copy = sqlite3_value_dup(argv[used++]);
        if (copy == NULL)
            return SQLITE_NOMEM;
        cursor->arguments[COLUMN_FIRST_ARGUMENT + i] = copy;
    }
    return build(cursor);
}

static int next_node(sqlite3_vtab_cursor *base)
{
    ((struct cursor *)base)->at++;
    return SQLITE_OK;
}

static int at_end(sqlite3_vtab_cursor *base)
{
    const struct cursor *cursor = (const struct cursor *)base;
    return cursor->at >= cursor->flamegraph.count;
}

static int give_column(sqlite3_vtab_cursor *base, sqlite3_context *result, int column)
{
    const struct cursor *cursor = (const struct cursor *)base;
    const struct query_row row = {.number = cursor->at,
                                  .item = &cursor->flamegraph.nodes[cursor->at]};
    if (column < COLUMN_FIRST_ARGUMENT)
        query_column_give(&columns[column], &row, result);
    else if (cursor->arguments[column] != NULL)
        sqlite3_result_value(result, cursor->arguments[column]);
    return SQLITE_OK;
}

static int give_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *rowid)
{
    *rowid = (sqlite3_int64)((const struct cursor *)base)->at;
    return SQLITE_OK;
}

static const sqlite3_module flamegraph_functions = {
    .xConnect = connect_flamegraph,
    .xBestIndex = best_index,
    .xDisconnect = disconnect_flamegraph,
    .xDestroy = disconnect_flamegraph,
    .xOpen = open_cursor,
    .xClose = close_cursor,
    .xFilter = filter_nodes,
    .xNext = next_node,
    .xEof = at_end,
    .xColumn = give_column,
    .xRowid = give_rowid,
};

int query_flamegraph_register(sqlite3 *sql, struct query_traces *traces)
{
    return sqlite3_create_module(sql, "experimental_flamegraph", &flamegraph_functions, traces);
}
