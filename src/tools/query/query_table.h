/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tables of SQL. Their rows are items of the traces' arrays: values are computed when they are
 * read, and nothing is copied. A table consists of columns, each with a name, a type and an
 * accessor, and of a function that finds a row's item for the accessors. query_table_register()
 * makes it a virtual table of SQLite, which finds rows by id, and by the columns that have a
 * lookup.
 *
 * Every table has a hidden column trace_id, the number of the trace on the command line, from 0.
 */
#ifndef HEAPPROFD_TOOLS_QUERY_QUERY_TABLE_H
#define HEAPPROFD_TOOLS_QUERY_QUERY_TABLE_H

#include <sqlite3.h>

#include "tools/query/query_trace.h"

struct query_value {
    enum { QUERY_NULL, QUERY_INTEGER, QUERY_REAL, QUERY_TEXT } kind;
    int64_t integer;
    double real;
    const char *text; /* lives as long as the trace */
};

/* How rows with a given value of a column are found. */
enum query_lookup {
    QUERY_BY_SCAN, /* the default: by reading all rows */
    QUERY_INDEXED, /* by an order that is made at its first use */
    QUERY_OF_DUMP, /* all rows of a dump have the same value, and are adjacent */
};

/* The row that accessors read. The last three are valid in tables whose rows belong to a dump. */
struct query_row {
    struct query_trace *trace;
    size_t number;    /* in its trace */
    const void *item; /* content of the row, in the table's own type */
    size_t part;      /* of the item, if its parts are rows */
    size_t dump_number;
    const struct profile_heap *heap;
    const struct profile_dump *dump;
};

/* C type of a member that a column shows unchanged. */
enum query_member {
    QUERY_NO_MEMBER,
    QUERY_UINT64,
    QUERY_INT64,
    QUERY_UINT32,
    QUERY_INT32,
    QUERY_DOUBLE,
    QUERY_STRING,
};

/* A column without a member and without get() is the row's id, in a table that has ids. */
struct query_column {
    const char *name;
    const char *type; /* "INTEGER", "REAL", "TEXT" */
    const char *description;
    enum query_member member;
    size_t offset; /* of the member in row->item */
    struct query_value (*get)(const struct query_row *row);
    enum query_lookup lookup;
    /* enum profile_unknown: NULL in heaps whose file does not contain all of these figures. */
    uint32_t figures;
};

#define INT "INTEGER"
#define REAL "REAL"
#define TEXT "TEXT"

/* Begin a column that shows a member of row->item, a struct of this type. */
#define QUERY_MEMBER(name, description, struct_type, struct_member)                                \
    name,                                                                                          \
        _Generic(((struct_type *)NULL)->struct_member,                                             \
            double: REAL,                                                                          \
            const char *: TEXT,                                                                    \
            default: INT),                                                                         \
        description,                                                                                      \
        _Generic(((struct_type *)NULL)->struct_member,                                             \
            uint64_t: QUERY_UINT64,                                                                \
            int64_t: QUERY_INT64,                                                                  \
            uint32_t: QUERY_UINT32,                                                                \
            int32_t: QUERY_INT32,                                                                  \
            double: QUERY_DOUBLE,                                                                  \
            const char *: QUERY_STRING),                                                           \
        .offset = offsetof(struct_type, struct_member)
/* Append the columns' names and types, as a declaration has them. */
void query_columns_declare(const struct query_column *columns, unsigned count,
                           sqlite3_str *declaration);
/* Give SQLite the value of a column in a row. */
void query_column_give(const struct query_column *column, const struct query_row *row,
                       sqlite3_context *result);
#define QUERY_COLUMNS(array) (array), sizeof(array) / sizeof((array)[0])

struct query_table {
    const char *name, *description;
    const struct query_column *columns;
    unsigned column_count;
    bool has_id; /* the first column is the row's number, going on over all traces */
    size_t (*count)(struct query_trace *trace);
    /* Approximate number; NULL: count() is cheap. */
    size_t (*estimate)(const struct query_trace *trace);
    /* Set the row's item; its trace and number are set already. NULL: accessors need no item. */
    void (*find)(struct query_row *row);
    /* Return the first row of a dump, by its number in query_trace.dumps; after the last dump, the
     * number of rows. Needed by QUERY_OF_DUMP columns. count() is called before. */
    size_t (*first_of_dump)(struct query_trace *trace, size_t dump);
};

/* The context of tables; owned by the database. */
struct query_traces {
    struct query_trace *items;
    size_t count;
};

int query_table_register(sqlite3 *sql, const struct query_table *table,
                         struct query_traces *traces);

/* Register experimental_flamegraph(): callsites as a tree, with the sums of a dump. Callsites of
 * the same function and mapping below the same caller are one node, as in Perfetto's trace
 * processor. `traces` NULL: the connection's tables come from an exported database. */
int query_flamegraph_register(sqlite3 *sql, struct query_traces *traces);

/* All tables, Perfetto's first: lists that end with a table without a name, then NULL. */
extern const struct query_table *const query_tables[];
extern const struct query_table query_perfetto_tables[], query_own_tables[], query_memory_tables[],
    query_end_tables[], query_counter_tables[], query_summary_tables[], query_interval_tables[],
    query_stack_tables[];

/* --- helpers for tables --- */

/* Define TABLE_count() and find_TABLE() of a table whose rows are an array of the trace. */
#define QUERY_ARRAY(table, array, length)                                                          \
    static size_t table##_count(struct query_trace *trace)                                         \
    {                                                                                              \
        return trace->length;                                                                      \
    }                                                                                              \
    static void find_##table(struct query_row *row)                                                \
    {                                                                                              \
        row->item = &row->trace->array[row->number];                                               \
    }

/* Define the accessor of a column. `declaration` names row->item, with its type, for the
 * expression, which may use `row`, too. */
#define QUERY_GETTER(function, declaration, expression)                                            \
    static struct query_value function(const struct query_row *row)                                \
    {                                                                                              \
        declaration __attribute__((unused)) = row->item;                                           \
        return expression;                                                                         \
    }

static inline void query_row_set_dump(struct query_row *row, size_t number)
{
    row->dump_number = number;
    row->heap = query_trace_heap(row->trace, number);
    row->dump = query_trace_dump(row->trace, number);
}

static inline struct query_value query_null(void)
{
    return (struct query_value){.kind = QUERY_NULL};
}

static inline struct query_value query_integer(int64_t value)
{
    return (struct query_value){.kind = QUERY_INTEGER, .integer = value};
}

static inline struct query_value query_real(double value)
{
    return (struct query_value){.kind = QUERY_REAL, .real = value};
}

static inline struct query_value query_text(const char *value)
{
    return (struct query_value){.kind = QUERY_TEXT, .text = value};
}

/* Return NULL for an empty or missing text. */
static inline struct query_value query_text_or_null(const char *value)
{
    return value == NULL || *value == '\0' ? query_null() : query_text(value);
}

/* Return an id of another table: base + index, or NULL. */
static inline struct query_value query_id(int64_t base, uint32_t index)
{
    return index == PROFILE_NONE ? query_null() : query_integer(base + index);
}

/* Accessors for rows that belong to a dump. */
struct query_value query_row_ts(const struct query_row *row); /* time of the dump */
struct query_value query_row_upid(const struct query_row *row);
struct query_value query_row_heap_name(const struct query_row *row);

#endif
