/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exports all tables of the traces to a file (database.h). It is written under a temporary name and
 * renamed, so that nobody finds an incomplete file.
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/query/database_state.h"
#include "util/output_file.h"
#include "util/xmalloc.h"

/* Marks our files, in the header field that SQLite reserves for applications: "hpdb". */
#define APPLICATION_ID 0x68706462

static int run(sqlite3 *sql, char *text)
{
    int code = text == NULL ? SQLITE_NOMEM : sqlite3_exec(sql, text, NULL, NULL, NULL);
    sqlite3_free(text);
    return code;
}

/* Return whether a column gets an index. Of the QUERY_OF_DUMP columns only the first one does. */
static bool gets_index(const struct query_table *table, unsigned column)
{
    enum query_lookup lookup = table->columns[column].lookup;
    for (unsigned i = 0; i < column && lookup == QUERY_OF_DUMP; i++)
        if (table->columns[i].lookup == QUERY_OF_DUMP)
            return false;
    return lookup != QUERY_BY_SCAN;
}

/* Export a table unchanged, with trace_id if there are several traces, and its indexes. */
static int export_table(struct query_database *database, const struct query_table *table)
{
    sqlite3 *sql = database->sql;
    bool many = database->traces.count > 1;
    sqlite3_str *create = sqlite3_str_new(sql), *names = sqlite3_str_new(sql);
    for (unsigned i = 0; i < table->column_count; i++) {
        const struct query_column *column = &table->columns[i];
        sqlite3_str_appendf(create, "%s\"%w\" %s%s", i == 0 ? "" : ", ", column->name, column->type,
                            i == 0 && table->has_id ? " PRIMARY KEY" : "");
        sqlite3_str_appendf(names, "%s\"%w\"", i == 0 ? "" : ", ", column->name);
    }
    if (many) {
        sqlite3_str_appendall(create, ", trace_id INTEGER");
        sqlite3_str_appendall(names, ", trace_id");
    }
    char *created = sqlite3_str_finish(create), *named = sqlite3_str_finish(names);
    int code = created == NULL || named == NULL ? SQLITE_NOMEM : SQLITE_OK;
    if (code == SQLITE_OK)
        code = run(sql, sqlite3_mprintf("CREATE TABLE export.\"%w\"(%s)", table->name, created));
    if (code == SQLITE_OK)
        code = run(sql, sqlite3_mprintf("INSERT INTO export.\"%w\" SELECT %s FROM main.\"%w\"",
                                        table->name, named, table->name));
    for (unsigned i = table->has_id ? 1 : 0; i < table->column_count && code == SQLITE_OK; i++) {
        if (gets_index(table, i))
            code = run(sql, sqlite3_mprintf("CREATE INDEX export.\"%w.%w\" ON \"%w\"(\"%w\")",
                                            table->name, table->columns[i].name, table->name,
                                            table->columns[i].name));
    }
    sqlite3_free(created);
    sqlite3_free(named);
    return code;
}

static int export_all(struct query_database *database, const char *path)
{
    sqlite3 *sql = database->sql;
    int code = run(sql, sqlite3_mprintf("ATTACH %Q AS export", path));
    if (code != SQLITE_OK)
        return code;
    /* A file that is discarded after any failure needs no journal on disk. */
    code =
        run(sql, sqlite3_mprintf("PRAGMA export.journal_mode = MEMORY; PRAGMA export.synchronous = "
                                 "OFF; PRAGMA export.application_id = %d; BEGIN",
                                 APPLICATION_ID));
    for (size_t i = 0; query_tables[i] != NULL; i++)
        for (const struct query_table *table = query_tables[i]; table->name != NULL; table++)
            if (code == SQLITE_OK)
                code = export_table(database, table);
    if (code == SQLITE_OK)
        code = run(sql, sqlite3_mprintf("COMMIT"));
    return code;
}

/* Return whether the existing file may be replaced: it is empty, missing, or an earlier export. */
static int check_place(const char *path, struct error *error)
{
    uint8_t head[72];
    static const uint8_t magic[16] = "SQLite format 3";
    static const uint8_t id[4] = {APPLICATION_ID >> 24, APPLICATION_ID >> 16 & 0xff,
                                  APPLICATION_ID >> 8 & 0xff, APPLICATION_ID & 0xff};
    struct stat status;
    if (stat(path, &status) < 0)
        return errno == ENOENT ? 0 : error_set(error, -errno, "%.300s: %s", path, strerror(errno));
    FILE *file = S_ISREG(status.st_mode) ? fopen(path, "re") : NULL;
    size_t length = file != NULL ? fread(head, 1, sizeof(head), file) : 0;
    bool is_ours = length == sizeof(head) && memcmp(head, magic, sizeof(magic)) == 0 &&
                   memcmp(head + 68, id, sizeof(id)) == 0;
    if (file != NULL)
        fclose(file);
    if (is_ours || (file != NULL && status.st_size == 0))
        return 0;
    return error_set(error, -EEXIST,
                     "%.300s exists and is not an exported database: remove it, or choose "
                     "another name",
                     path);
}

/* The file that is being written. */
static const char *unfinished;

static void remove_unfinished(void)
{
    unlink(unfinished);
}

int query_database_export(struct query_database *database, const char *path, struct error *error)
{
    char beside[PATH_MAX];
    struct output_file file;
    int code = query_database_register(database, error);
    if (code < 0)
        return code;
    if (database->is_file)
        return error_set(error, -EINVAL, "%.300s: this is an exported database already", path);
    if ((code = check_place(path, error)) < 0)
        return code;
    if ((code = output_file_open(&file, path, OUTPUT_FILE_NAMED | OUTPUT_FILE_RENAMED, error)) < 0)
        return code;
    if (file.directory < 0)
        return output_file_close(
            &file, error_set(error, -EINVAL, "%.300s: a database needs a file's name", path),
            error);
    output_file_beside(&file, beside);
    unfinished = beside;
    xmalloc_before_exit = remove_unfinished;
    database->is_exporting = true;
    int result = export_all(database, beside);
    if (result != SQLITE_OK)
        code = error_set(error, -EIO, "%.300s cannot be written: %s", path,
                         sqlite3_errmsg(database->sql));
    if (!sqlite3_get_autocommit(database->sql))
        sqlite3_exec(database->sql, "ROLLBACK", NULL, NULL, NULL);
    sqlite3_exec(database->sql, "DETACH export", NULL, NULL, NULL);
    database->is_exporting = false;
    xmalloc_before_exit = NULL;
    return output_file_close(&file, code, error);
}
