/* SPDX-License-Identifier: Apache-2.0 */
/* heap_profile query: runs SQL on traces. */
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "tools/cli/cmd.h"
#include "tools/cli/files/output_directory.h"
#include "tools/cli/options/options.h"
#include "tools/cli/query/query_shell.h"
#include "tools/print/format.h"
#include "tools/print/wait_notice.h"
#include "util/regular_file.h"
#include "util/xmalloc.h"

#define SQL_FILE_BYTES_MAX (1u << 20)
#define SCHEMA_BYTES_MAX 160 /* ".schema NAME" */

static const char help[] =
    "usage: heap_profile query [DIR|TRACE...] [SQL] [options]\n"
    "\n"
    "  Runs SQL on traces. The tables are those of Perfetto's trace processor (process, thread,\n"
    "  stack_profile_mapping, _frame, _callsite, _symbol, heap_profile, heap_profile_allocation,\n"
    "  profiler_smaps, counter, counter_track, process_counter_track, stack_sample,\n"
    "  stack_sample_..., stats, experimental_flamegraph) and our own (hp_...); .schema lists\n"
    "  them.\n"
    "  Without TRACE, reads the latest profile. Without SQL, starts a shell or, if standard input\n"
    "  is not a terminal, reads statements from it. The last argument is SQL if it looks like "
    "SQL,\n"
    "  or is a command of the shell (.tables, .schema [NAME]), and no file has that name.\n"
    "\n"
    "  -f, --file FILE      read statements from a file ('-': standard input)\n"
    "  -i, --interactive    start a shell\n"
    "      --csv            print rows as Perfetto's trace processor does (default unless output\n"
    "                       goes to a terminal)\n"
    "      --json           print an array of objects\n"
    "      --jsonl          print one object a line\n"
    "      --table          print an aligned table (default on a terminal)\n"
    "      --export FILE    write all tables to an SQLite database, which query can read, too\n"
    "      --help, --version\n"
    "\n"
    "Examples:\n"
    "  heap_profile query .schema\n"
    "  heap_profile query --table \"select pid, name from process\"\n"
    "  heap_profile query profile/raw-trace -f questions.sql --csv\n";

struct request {
    const char *file, *export_path, *sql;
    bool interactive;
    enum query_format format;
    char **traces;
    int trace_count;
};

static bool take_format(void *member, const char *name, const char *value)
{
    (void)value;
    enum query_format *format = member;
    *format = *name == 'c'                 ? QUERY_CSV
              : *name == 't'               ? QUERY_TABLE
              : strcmp(name, "jsonl") == 0 ? QUERY_JSONL
                                           : QUERY_JSON;
    return true;
}

static const struct option_entry options[] = {
    OPTION_ENTRY("file", 'f', OPTION_TEXT, struct request, file),
    OPTION_ENTRY("interactive", 'i', OPTION_SET, struct request, interactive),
    OPTION_ENTRY_FLAG("csv", struct request, format, take_format),
    OPTION_ENTRY_FLAG("json", struct request, format, take_format),
    OPTION_ENTRY_FLAG("jsonl", struct request, format, take_format),
    OPTION_ENTRY_FLAG("table", struct request, format, take_format),
    OPTION_ENTRY("export", 0, OPTION_TEXT, struct request, export_path),
    OPTIONS_END,
};

/* Return whether the argument is a keyword with which a statement begins: without quotes, the shell
 * splits a statement into words. */
static bool is_keyword(const char *argument)
{
    static const char *const words[] = {
        "alter",    "analyze", "attach",  "begin",     "commit", "create",  "delete",  "detach",
        "drop",     "end",     "explain", "insert",    "pragma", "reindex", "release", "replace",
        "rollback", "select",  "update",  "savepoint", "vacuum", "values",  "with",
    };
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strcasecmp(argument, words[i]) == 0)
            return true;
    return false;
}

/* Return whether the argument looks like SQL and is not a file. */
static bool is_sql(const char *argument)
{
    return strcmp(argument, "-") != 0 && access(argument, F_OK) != 0 &&
           (strpbrk(argument, " \n\t;(") != NULL || is_keyword(argument) ||
            query_is_command(argument));
}

/* Return whether the argument is SQL that begins with a comment: no option has a space after its
 * hyphens, or several lines. */
static bool begins_with_comment(const char *argument)
{
    return strncmp(argument, "--", 2) == 0 &&
           (isspace((unsigned char)argument[2]) || strchr(argument, '\n') != NULL);
}

/* Return the first argument that is SQL with a comment at its beginning, and remove it from the
 * command line: getopt() would treat it as an option. NULL: no argument is such SQL. */
static const char *take_commented_sql(int *argc, char **argv)
{
    for (int i = 1; i < *argc && strcmp(argv[i], "--") != 0; i++) {
        if (!begins_with_comment(argv[i]))
            continue;
        const char *sql = argv[i];
        memmove(&argv[i], &argv[i + 1], (size_t)(*argc - i) * sizeof(*argv));
        --*argc;
        return sql;
    }
    return NULL;
}

/* Take SQL, or a command of the shell, from the end of the arguments. `text` is for a command with
 * an argument (.schema NAME). */
static void take_last_as_sql(struct request *request, char text[SCHEMA_BYTES_MAX])
{
    int count = request->trace_count;
    char **last = request->traces + count - 1;
    if (count > 0 && is_sql(*last)) {
        request->sql = *last;
        request->trace_count--;
    } else if (count > 1 && is_sql(last[-1]) && query_is_command(last[-1])) {
        snprintf(text, SCHEMA_BYTES_MAX, "%s %s", last[-1], *last);
        request->sql = text;
        request->trace_count -= 2;
    }
}

/* Return NULL with errno set on failure. */
static FILE *open_named(const char *path)
{
    int fd = regular_file_open_named(path);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "r");
    if (fd < 0)
        errno = -fd;
    else if (file == NULL)
        close(fd);
    return file;
}

/* Read the statements of a file. Return NULL after an error message. */
static char *read_file(const char *path)
{
    wait_notice_announce_input(path);
    FILE *file = strcmp(path, "-") == 0 ? stdin : open_named(path);
    char *text = xmalloc(SQL_FILE_BYTES_MAX + 1);
    size_t length = 0;
    if (file == NULL) {
        format_printf(stderr, "heap_profile: %s: %s\n", path, strerror(errno));
        free(text);
        text = NULL;
    } else {
        length = fread(text, 1, SQL_FILE_BYTES_MAX + 1, file);
        if (length > SQL_FILE_BYTES_MAX || ferror(file)) {
            format_printf(stderr, "heap_profile: %s: %s\n", path,
                          ferror(file) ? strerror(errno) : "more than 1 MB of SQL");
            free(text);
            text = NULL;
        } else {
            text[length] = '\0';
        }
    }
    if (file != NULL && file != stdin)
        fclose(file);
    return text;
}

static struct query_database *open_traces(const struct request *request, struct error *error)
{
    char path[PATH_MAX];
    int count = request->trace_count == 0 ? 1 : request->trace_count;
    struct query_database *database = NULL;
    for (int i = 0; i < count; i++) {
        const char *argument = request->trace_count == 0 ? NULL : request->traces[i];
        if (output_find_trace(argument, path, error) < 0)
            goto failed;
        if (query_is_database(path)) {
            if (count > 1) {
                error_set(error, -EINVAL,
                          "%.300s: an exported database cannot be combined with other files", path);
                goto failed;
            }
            return query_database_open_file(path, error);
        }
        if (database == NULL && (database = query_database_new(error)) == NULL)
            return NULL;
        if (query_database_add(database, path, error) < 0)
            goto failed;
        const char *warning = query_database_warning(database, (size_t)i);
        if (warning != NULL && *warning != '\0')
            format_printf(stderr, "heap_profile: %s: %s\n", path, warning);
    }
    return database;
failed:
    query_database_close(database);
    return NULL;
}

static int run(const struct request *request, struct query_database *database)
{
    struct error error = {0};
    if (request->export_path != NULL &&
        query_database_export(database, request->export_path, &error) < 0)
        return verb_fail(&error);
    int code = 0;
    bool quits = false;
    if (request->sql != NULL && query_is_command(request->sql))
        code = query_run_command(database, request->sql, &quits);
    else if (request->sql != NULL)
        code = query_run(database, request->sql, request->format);
    if (request->file != NULL && code == 0) {
        char *text = read_file(request->file);
        code = text == NULL ? 1 : query_run(database, text, request->format);
        free(text);
    }
    bool asks_nothing =
        request->sql == NULL && request->file == NULL && request->export_path == NULL;
    if ((request->interactive || asks_nothing) && code == 0)
        code = query_shell(database, request->format);
    return code;
}

int cmd_query(int argc, char **argv)
{
    struct request request = {.format = isatty(STDOUT_FILENO) ? QUERY_TABLE : QUERY_CSV};
    request.sql = take_commented_sql(&argc, argv);
    static const struct verb_line line = {"heap_profile query", help, options, false};
    int code = options_parse(&line, argc, argv, &request);
    if (code >= 0)
        return code;
    request.traces = argv + optind;
    request.trace_count = argc - optind;
    char text[SCHEMA_BYTES_MAX];
    if (request.sql == NULL)
        take_last_as_sql(&request, text);
    if (request.sql != NULL && request.file != NULL) {
        fputs("heap_profile: give SQL or a file with SQL (-f), not both\n", stderr);
        return 2;
    }
    for (int i = 0; i < request.trace_count; i++) {
        if (is_keyword(request.traces[i]) && access(request.traces[i], F_OK) != 0) {
            format_printf(stderr,
                          "heap_profile: SQL is one argument: put it in quotes, from '%s' on\n",
                          request.traces[i]);
            return 2;
        }
    }
    struct error error = {0};
    struct query_database *database = open_traces(&request, &error);
    if (database == NULL)
        return verb_fail(&error);
    code = run(&request, database);
    query_database_close(database);
    return verb_end_output("rows", code);
}
