/* SPDX-License-Identifier: Apache-2.0 */
/* Opens traces or an exported file as one SQLite database, and answers queries on it. */
#include "tools/query/database.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "profile/import/import.h"
#include "profile/symbols/demangle.h"
#include "tools/query/database_state.h"
#include "util/regular_file.h"
#include "util/utf8.h"
#include "util/write_all.h"
#include "util/xmalloc.h"

#define SQL_BYTES_MAX (1 << 20)
#define VALUE_BYTES_MAX (64 << 20)

/* --- permitted statements --- */

/* Return whether a function is one that does more than to compute: loads code, or takes a pointer
 * from its caller. */
static bool is_dangerous(const char *function)
{
    return function == NULL || strcasecmp(function, "load_extension") == 0 ||
           strcasecmp(function, "fts3_tokenizer") == 0;
}

/* Permit reading, and the connection's own views. */
static int authorize(void *context, int action, const char *first, const char *second,
                     const char *database_name, const char *trigger)
{
    const struct query_database *database = context;
    (void)trigger;
    if (database->is_exporting)
        return SQLITE_OK;
    switch (action) {
    case SQLITE_SELECT:
    case SQLITE_READ:
    case SQLITE_RECURSIVE:
    case SQLITE_CREATE_TEMP_VIEW:
    case SQLITE_DROP_TEMP_VIEW:
        return SQLITE_OK;
    case SQLITE_FUNCTION:
        return is_dangerous(second) ? SQLITE_DENY : SQLITE_OK;
    case SQLITE_PRAGMA:
        /* PRAGMAs that only read; first is the name, second the argument. */
        return first != NULL && (strcasecmp(first, "table_info") == 0 ||
                                 strcasecmp(first, "table_xinfo") == 0 ||
                                 strcasecmp(first, "table_list") == 0 ||
                                 strcasecmp(first, "function_list") == 0 ||
                                 strcasecmp(first, "module_list") == 0 ||
                                 strcasecmp(first, "compile_options") == 0 ||
                                 strcasecmp(first, "collation_list") == 0)
                   ? SQLITE_OK
                   : SQLITE_DENY;
    case SQLITE_INSERT:
    case SQLITE_DELETE:
    case SQLITE_UPDATE:
        /* A temporary view writes its own entry. */
        return (first != NULL && strcmp(first, "sqlite_temp_master") == 0) ||
                       (database_name != NULL && strcmp(database_name, "temp") == 0 &&
                        first != NULL && strncmp(first, "sqlite_", 7) == 0)
                   ? SQLITE_OK
                   : SQLITE_DENY;
    default:
        return SQLITE_DENY;
    }
}

/* --- functions --- */

/* Return NULL for a name that is not mangled, like Perfetto. */
static void function_demangle(sqlite3_context *result, int argc, sqlite3_value **argv)
{
    (void)argc;
    const char *name = (const char *)sqlite3_value_text(argv[0]);
    if (name == NULL)
        return;
    char *plain = xmalloc_made(demangle_name(name));
    if (strcmp(plain, name) != 0)
        sqlite3_result_text(result, plain, -1, SQLITE_TRANSIENT);
    free(plain);
}

static struct query_database *make_database(const char *path, int flags, struct error *error)
{
    struct query_database *database = xcalloc(1, sizeof(*database));
    if (sqlite3_open_v2(path, &database->sql, flags, NULL) != SQLITE_OK) {
        error_set(error, -EIO, "%.300s: %s", path,
                  database->sql == NULL ? "no memory" : sqlite3_errmsg(database->sql));
        query_database_close(database);
        return NULL;
    }
    sqlite3_create_function(database->sql, "demangle", 1,
                            SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS, NULL,
                            function_demangle, NULL, NULL);
    sqlite3_limit(database->sql, SQLITE_LIMIT_SQL_LENGTH, SQL_BYTES_MAX);
    sqlite3_db_config(database->sql, SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0, NULL);
    sqlite3_db_config(database->sql, SQLITE_DBCONFIG_ENABLE_FTS3_TOKENIZER, 0, NULL);
    sqlite3_db_config(database->sql, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    /* A file's own views call no function or table that could do more than to compute. */
    sqlite3_db_config(database->sql, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    sqlite3_set_authorizer(database->sql, authorize, database);
    return database;
}

struct query_database *query_database_new(struct error *error)
{
    return make_database(":memory:", SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, error);
}

bool query_is_database(const char *path)
{
    static const char magic[16] = "SQLite format 3";
    char head[sizeof(magic)] = "";
    struct stat status;
    int fd = strcmp(path, "-") == 0 ? -1 : regular_file_open(path, &status);
    if (fd < 0)
        return false;
    bool is = read_all(fd, head, sizeof(head)) == 0 && memcmp(head, magic, sizeof(magic)) == 0;
    close(fd);
    return is;
}

struct query_database *query_database_open_file(const char *path, struct error *error)
{
    struct query_database *database = make_database(path, SQLITE_OPEN_READONLY, error);
    if (database != NULL)
        database->is_file = true;
    return database;
}

void query_database_close(struct query_database *database)
{
    if (database == NULL)
        return;
    sqlite3_close(database->sql);
    for (size_t i = 0; i < database->traces.count; i++)
        query_trace_close(&database->traces.items[i]);
    free(database->traces.items);
    free(database);
}

const char query_tables_sql[] =
    "select name from pragma_module_list where name in ('experimental_flamegraph') or "
    "name in (select name from sqlite_master where type in ('table', 'view') and name not like "
    "'sqlite%') or name like 'hp\\_%' escape '\\' or name like 'stack\\_profile%' escape '\\' "
    "or name like 'stack\\_sample%' escape '\\' or name like 'heap\\_profile%' escape '\\' "
    "or name in ('process', 'thread', 'stats', "
    "'counter', 'counter_track', 'process_counter_track', 'profiler_smaps', "
    "'android_heap_profile_summary_tree', '_android_heap_profile_intervals') "
    "union "
    "select name from (select * from sqlite_master union all select * from sqlite_temp_master) "
    "where type in ('table', 'view') and name not like 'sqlite%' and sql not like 'create "
    "virtual%' "
    "order by 1";

sqlite3 *query_database_sql(struct query_database *database)
{
    return database->sql;
}

int query_database_confine(struct query_database *database, int64_t memory_bytes,
                           struct error *error)
{
    database->is_exporting = true;
    int code = sqlite3_exec(database->sql, "PRAGMA temp_store = MEMORY", NULL, NULL, NULL);
    database->is_exporting = false;
    if (code != SQLITE_OK)
        return error_set(error, -EIO, "%s", sqlite3_errmsg(database->sql));
    sqlite3_limit(database->sql, SQLITE_LIMIT_LENGTH, VALUE_BYTES_MAX);
    sqlite3_hard_heap_limit64(memory_bytes);
    return 0;
}

void query_database_interrupt(struct query_database *database)
{
    sqlite3_interrupt(database->sql);
}

const char *query_database_warning(const struct query_database *database, size_t index)
{
    return index < database->traces.count ? database->traces.items[index].profile->warning : NULL;
}

/* --- traces --- */

void query_database_add_profile(struct query_database *database, const char *name,
                                struct profile *profile)
{
    struct query_bases bases = {0};
    struct query_traces *traces = &database->traces;
    traces->items = xreallocarray(traces->items, traces->count + 1, sizeof(*traces->items));
    if (traces->count > 0)
        bases = query_trace_next_bases(&traces->items[traces->count - 1]);
    query_trace_open(&traces->items[traces->count++], name, profile, &bases);
}

int query_database_add(struct query_database *database, const char *path, struct error *error)
{
    static const struct profile_read_options options = {.demangling = DEMANGLE_NONE,
                                                        .as_in_trace = true};
    struct error problem = {0};
    struct profile *profile = import_profile(path, &options, &problem);
    if (profile == NULL)
        return error_set(error, problem.code, "%s", problem.message);
    query_database_add_profile(database, path, profile);
    return 0;
}

/* Use a table once: at its first use a virtual table declares its columns in SQL, which the
 * authorizer forbids to users' statements. */
static int connect_table(struct query_database *database, const char *name)
{
    sqlite3_stmt *statement = NULL;
    char *text = sqlite3_mprintf("SELECT * FROM \"%w\"", name);
    if (text == NULL)
        return SQLITE_NOMEM;
    database->is_exporting = true;
    int code = sqlite3_prepare_v2(database->sql, text, -1, &statement, NULL);
    database->is_exporting = false;
    sqlite3_finalize(statement);
    sqlite3_free(text);
    return code;
}

static int register_table(struct query_database *database, const struct query_table *table)
{
    int code = query_table_register(database->sql, table, &database->traces);
    return code == SQLITE_OK ? connect_table(database, table->name) : code;
}

int query_database_register(struct query_database *database, struct error *error)
{
    /* SQLite's tables about tables, for the shell. Versions before 3.37 lack the last one. */
    static const char *const pragmas[] = {"pragma_table_info", "pragma_table_xinfo",
                                          "pragma_module_list", "pragma_table_list"};
    size_t pragma_count =
        sizeof(pragmas) / sizeof(pragmas[0]) - (sqlite3_libversion_number() < 3037000);
    int code = SQLITE_OK;
    if (database->registered)
        return 0;
    database->registered = true;
    for (size_t i = 0; i < pragma_count && code == SQLITE_OK; i++)
        code = connect_table(database, pragmas[i]);
    for (size_t i = 0; query_tables[i] != NULL && !database->is_file; i++)
        for (const struct query_table *table = query_tables[i]; table->name != NULL; table++)
            if (code == SQLITE_OK)
                code = register_table(database, table);
    if (code == SQLITE_OK)
        code =
            query_flamegraph_register(database->sql, database->is_file ? NULL : &database->traces);
    if (code == SQLITE_OK)
        code = connect_table(database, "experimental_flamegraph");
    return code == SQLITE_OK ? 0
                             : error_set(error, -ENOMEM, "the tables cannot be made: %s",
                                         sqlite3_errmsg(database->sql));
}

/* --- statements --- */

static const char *skip_blanks(const char *at)
{
    for (;;) {
        if (isspace((unsigned char)*at) || *at == ';') {
            at++;
        } else if (at[0] == '-' && at[1] == '-') {
            at += strcspn(at, "\n");
        } else if (at[0] == '/' && at[1] == '*') {
            const char *end = strstr(at + 2, "*/");
            at = end == NULL ? at + strlen(at) : end + 2;
        } else {
            return at;
        }
    }
}

static bool take_word(const char **at, const char *word)
{
    size_t length = strlen(word);
    const char *here = skip_blanks(*at);
    if (strncasecmp(here, word, length) != 0 || isalnum((unsigned char)here[length]) ||
        here[length] == '_')
        return false;
    *at = here + length;
    return true;
}

/* Set an error that shows the line of SQL and a caret below the position. */
static int say_where(const char *whole, const char *text, int offset, const char *message,
                     struct error *error)
{
    size_t length = strlen(text);
    if (offset < 0 || (size_t)offset > length)
        return error_set(error, -EINVAL, "%s", message);
    const char *line = text + offset;
    while (line > whole && line[-1] != '\n')
        line--;
    int number = 1, width = (int)strcspn(line, "\n"), at = (int)(text + offset - line);
    for (const char *c = whole; c < line; c++)
        number += *c == '\n';
    /* For long lines, only the part around the position. */
    int from = at > 60 ? at - 60 : 0;
    while (from > 0 && utf8_continues(line[from]))
        from--;
    int shown = width - from > 100 ? 100 : width - from;
    int column = 0;
    for (int i = from; i < at; i++)
        column += !utf8_continues(line[i]);
    return error_set(error, -EINVAL, "line %d: %s\n  %.*s\n  %*s", number, message, shown,
                     line + from, column + 1, "^");
}

/* Handle INCLUDE PERFETTO MODULE name. Return 1: it is one, and known; 0: it is not one; negative
 * errno. */
static int take_include(const char *whole, const char *text, const char **rest, struct error *error)
{
    static const char *const known[] = {"android.memory.heap_profile.summary_tree",
                                        "android.memory.heap_profile.intervals",
                                        "prelude.after_eof.stack_samples"};
    const char *at = text;
    if (!take_word(&at, "INCLUDE"))
        return 0;
    if (!take_word(&at, "PERFETTO") || !take_word(&at, "MODULE"))
        return say_where(whole, text, (int)(skip_blanks(at) - text),
                         "INCLUDE PERFETTO MODULE was expected", error);
    at = skip_blanks(at);
    size_t length = strcspn(at, "; \t\r\n");
    *rest = at + length;
    if (**rest != '\0')
        *rest = skip_blanks(*rest);
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (strlen(known[i]) == length && strncmp(known[i], at, length) == 0)
            return 1;
    char message[240];
    snprintf(message, sizeof(message), "there is no module %.*s here; there are %s, %s and %s",
             (int)(length > 80 ? 80 : length), at, known[0], known[1], known[2]);
    return say_where(whole, text, (int)(at - text), message, error);
}

/* Return where SQLite stopped reading, -1 if that is unknown: versions before 3.38 do not say it.
 */
static int error_offset(sqlite3 *sql)
{
#if SQLITE_VERSION_NUMBER >= 3038000
    return sqlite3_error_offset(sql);
#else
    (void)sql;
    return -1;
#endif
}

static int refuse(const char *whole, const char *text, int offset, const char *message,
                  struct error *error)
{
    char refused[200];
    snprintf(refused, sizeof(refused),
             "%.80s: a profile is read only (SELECT, EXPLAIN and CREATE TEMP VIEW are allowed)",
             message);
    return say_where(whole, text, offset, refused, error);
}

/* Return whether it is a statement for which SQLite calls the authorizer too late or never. */
static bool is_refused(const char *text)
{
    static const char *const words[] = {"VACUUM", "REINDEX"};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        const char *at = text;
        if (take_word(&at, words[i]))
            return true;
    }
    return false;
}

int query_database_prepare(struct query_database *database, const char *whole, const char *text,
                           sqlite3_stmt **statement, const char **rest, struct error *error)
{
    *statement = NULL;
    int code = query_database_register(database, error);
    if (code < 0)
        return code;
    const char *begin = skip_blanks(text);
    int included = take_include(whole, begin, rest, error);
    if (included != 0)
        return included < 0 ? included : 0;
    if (strlen(begin) > SQL_BYTES_MAX)
        return error_set(error, -E2BIG, "SQL of more than %d bytes", SQL_BYTES_MAX);
    if (is_refused(begin))
        return refuse(whole, begin, 0, "not authorized", error);
    code = sqlite3_prepare_v2(database->sql, begin, -1, statement, rest);
    if (code == SQLITE_OK)
        return 0;
    int offset = error_offset(database->sql);
    const char *message = sqlite3_errmsg(database->sql);
    return code == SQLITE_AUTH ? refuse(whole, begin, offset, message, error)
                               : say_where(whole, begin, offset, message, error);
}

int query_database_step_error(struct query_database *database, struct error *error)
{
    int code = sqlite3_errcode(database->sql);
    return error_set(error, code == SQLITE_INTERRUPT ? -EINTR : -EIO, "%s",
                     sqlite3_errmsg(database->sql));
}
