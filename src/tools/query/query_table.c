/* SPDX-License-Identifier: Apache-2.0 */
/* SQLite's virtual tables over the tables of query_table.h, and how they find rows. */
#include "tools/query/query_table.h"

#include <stdlib.h>

#include "util/sorted_search.h"
#include "util/xmalloc.h"

/* The rows of one trace in the order of one column. */
struct column_order {
    int64_t *values; /* sorted; NULLs are left out */
    uint32_t *rows;
    size_t count;
    bool made;
};

struct table {
    sqlite3_vtab base; /* first, as SQLite requires */
    const struct query_table *about;
    struct query_traces *traces;
    struct column_order *orders; /* by trace and column */
};

struct cursor {
    sqlite3_vtab_cursor base; /* first */
    size_t trace;
    size_t at, end;                   /* rows, or positions in the order */
    const struct column_order *order; /* NULL: rows as they are */
    int64_t first_row;                /* rowid of the trace's row 0 */
    size_t last_trace;                /* stop after it */
    size_t dump;                      /* the next one to check */
    bool by_column, by_dump;
    unsigned column;
    int64_t wanted;
    struct query_row row; /* owner of the cached columns; row.trace NULL: none */
};

const struct query_table *const query_tables[] = {
    query_perfetto_tables, query_own_tables,     query_memory_tables,
    query_end_tables,      query_summary_tables, query_interval_tables,
    query_counter_tables,  query_stack_tables,   NULL};

/* --- values --- */

struct query_value query_row_ts(const struct query_row *row)
{
    return query_integer((int64_t)row->dump->boottime_ns);
}

struct query_value query_row_upid(const struct query_row *row)
{
    return query_id(row->trace->bases.process, row->trace->process_rows[row->heap->process]);
}

struct query_value query_row_heap_name(const struct query_row *row)
{
    return query_text(row->heap->name);
}

static void find_row(const struct query_table *about, struct query_trace *trace, size_t number,
                     struct query_row *row)
{
    row->trace = trace;
    row->number = number;
    if (about->find != NULL)
        about->find(row);
}

static struct query_value member_of(const struct query_column *of, const void *item)
{
    const char *at = (const char *)item + of->offset;
    switch (of->member) {
    case QUERY_UINT64:
    case QUERY_INT64:
        return query_integer(*(const int64_t *)at);
    case QUERY_UINT32:
        return query_integer(*(const uint32_t *)at);
    case QUERY_INT32:
        return query_integer(*(const int32_t *)at);
    case QUERY_DOUBLE:
        return query_real(*(const double *)at);
    case QUERY_STRING:
        return query_text(*(const char *const *)at);
    default:
        return query_null();
    }
}

static struct query_value value_of(const struct query_column *of, const struct query_row *row)
{
    if (of->figures != 0 && (row->heap->unknown & of->figures) != 0)
        return query_null();
    return of->get != NULL ? of->get(row) : member_of(of, row->item);
}

void query_columns_declare(const struct query_column *columns, unsigned count,
                           sqlite3_str *declaration)
{
    for (unsigned i = 0; i < count; i++)
        sqlite3_str_appendf(declaration, "\"%w\" %s, ", columns[i].name, columns[i].type);
}

void query_column_give(const struct query_column *column, const struct query_row *row,
                       sqlite3_context *result)
{
    struct query_value value = value_of(column, row);
    if (value.kind == QUERY_INTEGER)
        sqlite3_result_int64(result, value.integer);
    else if (value.kind == QUERY_REAL)
        sqlite3_result_double(result, value.real);
    else if (value.kind == QUERY_TEXT)
        sqlite3_result_text(result, value.text, -1, SQLITE_STATIC);
    else
        sqlite3_result_null(result);
}

/* --- tables --- */

/* How rows are found, as SQLite's idxNum; the column is in the bits from COLUMN_SHIFT on. */
#define FIND_ALL 0
#define FIND_ID 1
#define FIND_COLUMN 2
#define FIND_DUMPS 3 /* by a column with one value for all rows of a dump */
#define FIND_MASK 3
#define IN_TRACE 4 /* only rows of the trace that the last argument gives */
#define COLUMN_SHIFT 8

struct module_context {
    const struct query_table *about;
    struct query_traces *traces;
};

static int connect_table(sqlite3 *sql, void *context, int argc, const char *const *argv,
                         sqlite3_vtab **made, char **message)
{
    const struct module_context *module = context;
    const struct query_table *about = module->about;
    (void)argc, (void)argv, (void)message;
    sqlite3_str *declaration = sqlite3_str_new(sql);
    sqlite3_str_appendf(declaration, "CREATE TABLE x(");
    query_columns_declare(about->columns, about->column_count, declaration);
    sqlite3_str_appendall(declaration, "trace_id INTEGER HIDDEN)");
    char *text = sqlite3_str_finish(declaration);
    int code = text == NULL ? SQLITE_NOMEM : sqlite3_declare_vtab(sql, text);
    sqlite3_free(text);
    if (code != SQLITE_OK)
        return code;
    struct table *table = xcalloc(1, sizeof(*table));
    table->about = about;
    table->traces = module->traces;
    table->orders =
        xcalloc(module->traces->count * about->column_count + 1, sizeof(*table->orders));
    sqlite3_vtab_config(sql, SQLITE_VTAB_INNOCUOUS);
    *made = &table->base;
    return SQLITE_OK;
}

static int disconnect_table(sqlite3_vtab *base)
{
    struct table *table = (struct table *)base;
    for (size_t i = 0; i < table->traces->count * table->about->column_count; i++) {
        free(table->orders[i].values);
        free(table->orders[i].rows);
    }
    free(table->orders);
    free(table);
    return SQLITE_OK;
}

static double estimate_rows(const struct table *table)
{
    double rows = 1;
    for (size_t i = 0; i < table->traces->count; i++) {
        struct query_trace *trace = &table->traces->items[i];
        rows += (double)(table->about->estimate != NULL ? table->about->estimate(trace)
                                                        : table->about->count(trace));
    }
    return rows;
}

static int lookup_of(enum query_lookup lookup)
{
    return lookup == QUERY_INDEXED ? FIND_COLUMN : lookup == QUERY_OF_DUMP ? FIND_DUMPS : FIND_ALL;
}

static bool is_better(int lookup, int than)
{
    return lookup == FIND_COLUMN ? than == FIND_ALL || than == FIND_DUMPS
                                 : lookup == FIND_DUMPS && than == FIND_ALL;
}

/* Return the approximate number of rows that are found. */
static double expect_rows(const struct table *table, int how, double rows)
{
    size_t dumps = 1;
    switch (how & FIND_MASK) {
    case FIND_ID:
        return 1;
    case FIND_COLUMN:
        return rows / 100 + 4;
    case FIND_DUMPS:
        for (size_t i = 0; i < table->traces->count; i++)
            dumps += table->traces->items[i].dump_count;
        return rows / (double)dumps + 4;
    default:
        return rows;
    }
}

/* Choose how rows are found: by id, else by an indexed column, else by dump, else by a scan. */
static int best_index(sqlite3_vtab *base, sqlite3_index_info *info)
{
    const struct table *table = (const struct table *)base;
    const struct query_table *about = table->about;
    int found = -1, trace_constraint = -1, how = FIND_ALL, arguments = 0;
    double rows = estimate_rows(table);
    for (int i = 0; i < info->nConstraint; i++) {
        int column = info->aConstraint[i].iColumn;
        if (!info->aConstraint[i].usable || info->aConstraint[i].op != SQLITE_INDEX_CONSTRAINT_EQ)
            continue;
        if (column == (int)about->column_count)
            trace_constraint = i;
        else if (column < 0 || (column == 0 && about->has_id))
            found = i, how = FIND_ID;
        else if (is_better(lookup_of(about->columns[column].lookup), how & FIND_MASK))
            found = i, how = lookup_of(about->columns[column].lookup) | column << COLUMN_SHIFT;
    }
    if (found >= 0)
        info->aConstraintUsage[found].argvIndex = ++arguments;
    if (trace_constraint >= 0) {
        info->aConstraintUsage[trace_constraint].argvIndex = ++arguments;
        how |= IN_TRACE;
    }
    double expected = expect_rows(table, how, rows);
    info->idxNum = how;
    info->estimatedRows = (sqlite3_int64)expected;
    info->estimatedCost = (how & FIND_MASK) == FIND_ALL ? rows + 10 : expected + 5;
    if ((how & FIND_MASK) == FIND_ID)
        info->idxFlags = SQLITE_INDEX_SCAN_UNIQUE;
    if ((how & FIND_MASK) == FIND_ALL && about->has_id && info->nOrderBy == 1 &&
        info->aOrderBy[0].iColumn <= 0 && !info->aOrderBy[0].desc)
        info->orderByConsumed = 1;
    return SQLITE_OK;
}

static int open_cursor(sqlite3_vtab *base, sqlite3_vtab_cursor **made)
{
    struct cursor *cursor = xcalloc(1, sizeof(*cursor));
    (void)base;
    *made = &cursor->base;
    return SQLITE_OK;
}

static int close_cursor(sqlite3_vtab_cursor *base)
{
    free(base);
    return SQLITE_OK;
}

/* --- orders --- */

struct keyed_row {
    int64_t value;
    uint32_t row;
};

static int compare_rows(const void *left_pointer, const void *right_pointer)
{
    const struct keyed_row *left = left_pointer, *right = right_pointer;
    if (left->value != right->value)
        return left->value < right->value ? -1 : 1;
    return left->row < right->row ? -1 : left->row > right->row;
}

static void make_order(const struct query_table *about, struct query_trace *trace, unsigned column,
                       struct column_order *order)
{
    size_t count = about->count(trace);
    struct query_row row = {0};
    struct keyed_row *keyed = xcalloc(count + 1, sizeof(*keyed));
    bool sorted = true;
    order->values = xcalloc(count + 1, sizeof(*order->values));
    order->rows = xcalloc(count + 1, sizeof(*order->rows));
    for (size_t i = 0; i < count; i++) {
        find_row(about, trace, i, &row);
        struct query_value value = value_of(&about->columns[column], &row);
        if (value.kind != QUERY_INTEGER)
            continue;
        sorted = sorted && (order->count == 0 || keyed[order->count - 1].value <= value.integer);
        keyed[order->count++] = (struct keyed_row){value.integer, (uint32_t)i};
    }
    if (!sorted)
        qsort(keyed, order->count, sizeof(*keyed), compare_rows);
    for (size_t i = 0; i < order->count; i++) {
        order->values[i] = keyed[i].value;
        order->rows[i] = keyed[i].row;
    }
    order->made = true;
    free(keyed);
}

static size_t first_not_below(const struct column_order *order, int64_t value)
{
    return SORTED_SEARCH(order->count, i, order->values[i] < value);
}

/* --- iteration --- */

/* Set the cursor to the next dump of its trace with wanted rows. Return false after the last one.
 */
static bool enter_dump(const struct query_table *about, struct query_trace *trace,
                       struct cursor *cursor)
{
    struct query_row row = {0};
    while (cursor->dump < trace->dump_count) {
        cursor->at = about->first_of_dump(trace, cursor->dump++);
        cursor->end = about->first_of_dump(trace, cursor->dump);
        if (cursor->at == cursor->end)
            continue;
        find_row(about, trace, cursor->at, &row);
        struct query_value value = value_of(&about->columns[cursor->column], &row);
        if (value.kind == QUERY_INTEGER && value.integer == cursor->wanted)
            return true;
    }
    cursor->at = cursor->end;
    return false;
}

/* Set the cursor to the rows of its trace. */
static void enter_trace(struct table *table, struct cursor *cursor)
{
    const struct query_table *about = table->about;
    struct query_trace *trace = &table->traces->items[cursor->trace];
    cursor->at = 0;
    cursor->end = about->count(trace);
    cursor->dump = 0;
    if (cursor->by_dump)
        enter_dump(about, trace, cursor);
    if (!cursor->by_column)
        return;
    struct column_order *order =
        &table->orders[cursor->trace * about->column_count + cursor->column];
    if (!order->made)
        make_order(about, trace, cursor->column, order);
    cursor->order = order;
    cursor->at = first_not_below(order, cursor->wanted);
    cursor->end = cursor->at;
    while (cursor->end < order->count && order->values[cursor->end] == cursor->wanted)
        cursor->end++;
}

/* Skip dumps and traces without further rows. */
static void skip_empty(struct table *table, struct cursor *cursor)
{
    while (cursor->at >= cursor->end) {
        if (cursor->by_dump &&
            enter_dump(table->about, &table->traces->items[cursor->trace], cursor))
            break;
        if (cursor->trace >= cursor->last_trace)
            break;
        cursor->first_row += (int64_t)table->about->count(&table->traces->items[cursor->trace]);
        cursor->trace++;
        enter_trace(table, cursor);
    }
}

static int next_row(sqlite3_vtab_cursor *base)
{
    struct cursor *cursor = (struct cursor *)base;
    cursor->at++;
    skip_empty((struct table *)base->pVtab, cursor);
    return SQLITE_OK;
}

static int at_end(sqlite3_vtab_cursor *base)
{
    const struct cursor *cursor = (const struct cursor *)base;
    return cursor->at >= cursor->end;
}

/* Find a whole number that equals the value. Return false if there is no such number. */
static bool take_integer(sqlite3_value *value, int64_t *integer)
{
    switch (sqlite3_value_numeric_type(value)) {
    case SQLITE_INTEGER:
        *integer = sqlite3_value_int64(value);
        return true;
    case SQLITE_FLOAT: {
        double real = sqlite3_value_double(value);
        if (!(real >= -0x1p62 && real <= 0x1p62))
            return false;
        *integer = (int64_t)real;
        return (double)*integer == real;
    }
    default:
        return false;
    }
}

/* Set the cursor to the row with this id. */
static void enter_row(struct table *table, struct cursor *cursor, int64_t id)
{
    for (; cursor->trace <= cursor->last_trace; cursor->trace++) {
        enter_trace(table, cursor);
        int64_t row = id - cursor->first_row;
        if (row >= 0 && row < (int64_t)cursor->end) {
            cursor->at = (size_t)row;
            cursor->end = cursor->at + 1;
            cursor->last_trace = cursor->trace;
            return;
        }
        cursor->first_row += (int64_t)cursor->end;
    }
    cursor->at = cursor->end = 0;
    cursor->trace = cursor->last_trace;
}

static int filter_rows(sqlite3_vtab_cursor *base, int how, const char *unused, int argc,
                       sqlite3_value **argv)
{
    struct table *table = (struct table *)base->pVtab;
    struct cursor *cursor = (struct cursor *)base;
    int64_t wanted = 0, in_trace = 0;
    (void)unused;
    *cursor = (struct cursor){.base = cursor->base};
    if (table->traces->count == 0)
        return SQLITE_OK;
    cursor->last_trace = table->traces->count - 1;
    bool has_key = (how & FIND_MASK) != FIND_ALL;
    if ((has_key && !take_integer(argv[0], &wanted)) ||
        ((how & IN_TRACE) != 0 && !take_integer(argv[argc - 1], &in_trace)))
        return SQLITE_OK;
    if ((how & IN_TRACE) != 0) {
        if (in_trace < 0 || in_trace > (int64_t)cursor->last_trace)
            return SQLITE_OK;
        for (; (int64_t)cursor->trace < in_trace; cursor->trace++)
            cursor->first_row += (int64_t)table->about->count(&table->traces->items[cursor->trace]);
        cursor->last_trace = cursor->trace;
    }
    if ((how & FIND_MASK) == FIND_ID) {
        enter_row(table, cursor, wanted);
        return SQLITE_OK;
    }
    cursor->by_column = (how & FIND_MASK) == FIND_COLUMN;
    cursor->by_dump = (how & FIND_MASK) == FIND_DUMPS;
    cursor->column = (unsigned)how >> COLUMN_SHIFT;
    cursor->wanted = wanted;
    enter_trace(table, cursor);
    skip_empty(table, cursor);
    return SQLITE_OK;
}

static size_t current_row(const struct cursor *cursor)
{
    return cursor->order == NULL ? cursor->at : cursor->order->rows[cursor->at];
}

static int give_column(sqlite3_vtab_cursor *base, sqlite3_context *result, int column)
{
    const struct table *table = (const struct table *)base->pVtab;
    struct cursor *cursor = (struct cursor *)base;
    struct query_trace *trace = &table->traces->items[cursor->trace];
    size_t row = current_row(cursor);
    if (column == (int)table->about->column_count) {
        sqlite3_result_int64(result, (int64_t)cursor->trace);
        return SQLITE_OK;
    }
    if (column == 0 && table->about->has_id) {
        sqlite3_result_int64(result, cursor->first_row + (int64_t)row);
        return SQLITE_OK;
    }
    if (cursor->row.trace != trace || cursor->row.number != row)
        find_row(table->about, trace, row, &cursor->row);
    query_column_give(&table->about->columns[column], &cursor->row, result);
    return SQLITE_OK;
}

static int give_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *rowid)
{
    const struct cursor *cursor = (const struct cursor *)base;
    *rowid = cursor->first_row + (int64_t)current_row(cursor);
    return SQLITE_OK;
}

/* Without xCreate, so that the table exists without CREATE. */
static const sqlite3_module module_functions = {
    .xConnect = connect_table,
    .xBestIndex = best_index,
    .xDisconnect = disconnect_table,
    .xDestroy = disconnect_table,
    .xOpen = open_cursor,
    .xClose = close_cursor,
    .xFilter = filter_rows,
    .xNext = next_row,
    .xEof = at_end,
    .xColumn = give_column,
    .xRowid = give_rowid,
};

int query_table_register(sqlite3 *sql, const struct query_table *about, struct query_traces *traces)
{
    struct module_context *context = xmalloc(sizeof(*context));
    *context = (struct module_context){about, traces};
    return sqlite3_create_module_v2(sql, about->name, &module_functions, context, free);
}
