/* SPDX-License-Identifier: Apache-2.0 */
/* Reads statements and shell commands, completes names, and runs the statements. */
#include "tools/cli/query/query_shell.h"

#include <editline/readline.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/print/format.h"
#include "util/xmalloc.h"

#define HISTORY_LINES 1000

/* --- statements --- */

static struct query_database *interrupted;

static void interrupt(int signal)
{
    (void)signal;
    query_database_interrupt(interrupted);
}

/* Let Ctrl-C end the running statement instead of the program. */
static void catch_interrupts(struct query_database *database)
{
    struct sigaction action = {.sa_handler = interrupt, .sa_flags = SA_RESETHAND};
    interrupted = database;
    sigaction(SIGINT, &action, NULL);
}

int query_run(struct query_database *database, const char *text, enum query_format format)
{
    struct error error = {0};
    const char *rest = text;
    while (*rest != '\0') {
        sqlite3_stmt *statement = NULL;
        if (query_database_prepare(database, text, rest, &statement, &rest, &error) < 0) {
            fflush(stdout);
            /* The message may have several lines. Names in it are escaped already. */
            fprintf(stderr, "heap_profile: %s\n", error.message);
            return 1;
        }
        if (statement == NULL)
            continue;
        catch_interrupts(database);
        int code = query_print(statement, format, stdout);
        signal(SIGINT, SIG_DFL);
        if (code != SQLITE_DONE) {
            query_database_step_error(database, &error);
            fflush(stdout);
            fprintf(stderr, "heap_profile: %s\n", error.message);
        }
        sqlite3_finalize(statement);
        if (code != SQLITE_DONE)
            return 1;
        fflush(stdout); /* it stays, even if memory is out in the next statement */
    }
    return 0;
}

/* --- commands of the shell --- */

static const char examples[] =
    "-- Live memory by callsite:\n"
    "select c.id, f.name, m.name as file, sum(a.size) as live\n"
    "from heap_profile_allocation a join stack_profile_callsite c on a.callsite_id = c.id\n"
    "join stack_profile_frame f on c.frame_id = f.id\n"
    "join stack_profile_mapping m on f.mapping = m.id\n"
    "group by a.callsite_id order by live desc limit 20;\n"
    "\n"
    "-- Functions with their callees, at the last dump:\n"
    "select name, map_name, cumulative_size\n"
    "from experimental_flamegraph((select max(ts) from heap_profile_allocation),\n"
    "                             (select max(upid) from heap_profile_allocation), 'native')\n"
    "order by abs(cumulative_size) desc limit 20;\n"
    "\n"
    "-- The same for all processes:\n"
    "include perfetto module android.memory.heap_profile.summary_tree;\n"
    "select name, cumulative_size from android_heap_profile_summary_tree\n"
    "order by cumulative_size desc limit 20;\n"
    "\n"
    "-- The time that each dump covers, and its changes:\n"
    "include perfetto module android.memory.heap_profile.intervals;\n"
    "select ts, dur, upid, heap_name, retained, allocated, delta\n"
    "from _android_heap_profile_intervals;\n"
    "\n"
    "-- The 95 % limits:\n"
    "select callsite_id, live_size_low, live_size, live_size_high from hp_callsite_stats\n"
    "order by live_size desc limit 20;\n"
    "\n"
    "-- A process's other memory, at each snapshot:\n"
    "select l.ts, l.upid, p.kind, p.rss_size from hp_memory_snapshot l\n"
    "join hp_memory_part p on p.look_id = l.id where p.rss_size > 0;\n";

static const char help[] = "SQL ends with a semicolon. Commands of the shell:\n"
                           "  .tables         list the tables\n"
                           "  .schema [NAME]  list the columns of a table, or of all\n"
                           "  .examples       print statements to begin with\n"
                           "  .help           print this help\n"
                           "  .quit           end the shell, like Ctrl-D\n";

static int run_schema(struct query_database *database, const char *name)
{
    char text[1200];
    if (strlen(name) > 100 || strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_"
                                           "0123456789") != strlen(name)) {
        fputs("heap_profile: .schema takes the name of a table\n", stderr);
        return 1;
    }
    if (*name == '\0')
        snprintf(text, sizeof(text),
                 "select t.name as \"table\", c.name as \"column\", c.type from (%s) t join "
                 "pragma_table_xinfo(t.name) c order by t.name, c.cid",
                 query_tables_sql);
    else
        snprintf(text, sizeof(text),
                 "select name as \"column\", type from pragma_table_xinfo('%s')", name);
    return query_run(database, text, QUERY_TABLE);
}

enum command { COMMAND_TABLES, COMMAND_SCHEMA, COMMAND_EXAMPLES, COMMAND_HELP, COMMAND_QUIT };

/* The names of commands, each with the length of its shortest form. */
static const struct {
    const char *name;
    size_t least;
    enum command command;
} commands[] = {
    {".tables", 2, COMMAND_TABLES},     {".schema", 2, COMMAND_SCHEMA},
    {".examples", 3, COMMAND_EXAMPLES}, {".help", 2, COMMAND_HELP},
    {".quit", 2, COMMAND_QUIT},         {".exit", 3, COMMAND_QUIT},
};
#define COMMANDS (sizeof(commands) / sizeof(commands[0]))

/* Return the index of the command that a line begins with, or COMMANDS if it begins with none. */
static size_t find_command(const char *line)
{
    size_t length = strcspn(line, " \t;\r\n"), i = 0;
    while (i < COMMANDS &&
           (length < commands[i].least || strncmp(line, commands[i].name, length) != 0))
        i++;
    return i;
}

bool query_is_command(const char *text)
{
    return find_command(text) < COMMANDS;
}

int query_run_command(struct query_database *database, const char *line, bool *quits)
{
    size_t found = find_command(line), length = strcspn(line, " \t;\r\n");
    char name[160] = "";
    snprintf(name, sizeof(name), "%s", line + length + strspn(line + length, " \t"));
    name[strcspn(name, " \t;\r\n")] = '\0';
    if (found == COMMANDS) {
        format_printf(stderr, "heap_profile: there is no command '%.*s'; .help lists them\n",
                      (int)length, line);
        return 1;
    }
    switch (commands[found].command) {
    case COMMAND_TABLES:
        return query_run(database, query_tables_sql, QUERY_TABLE);
    case COMMAND_SCHEMA:
        return run_schema(database, name);
    case COMMAND_EXAMPLES:
        fputs(examples, stdout);
        return 0;
    case COMMAND_HELP:
        fputs(help, stdout);
        return 0;
    case COMMAND_QUIT:
        *quits = true;
    }
    return 0;
}

/* --- completion --- */

static struct query_database *completed;

static const char completion_sql[] =
    "select name from (%s) where lower(name) glob lower(?1) || '*' union "
    "select c.name from (%s) t join pragma_table_xinfo(t.name) c "
    "where lower(c.name) glob lower(?1) || '*' union "
    "select column1 from (values ('select'), ('from'), ('where'), ('join'), ('order by'), "
    "('group by'), ('limit'), ('desc'), ('distinct'), ('count('), ('sum('), ('abs('), "
    "('demangle('), ('include perfetto module android.memory.heap_profile.summary_tree;'), "
    "('include perfetto module android.memory.heap_profile.intervals;')) "
    "where column1 glob lower(?1) || '*' order by 1";

/* Return the next name that begins with a word, malloc'd; NULL: there is no other. */
static char *next_completion(const char *word, int state)
{
    static sqlite3_stmt *statement;
    if (state == 0) {
        struct error error;
        const char *rest;
        char *text = sqlite3_mprintf(completion_sql, query_tables_sql, query_tables_sql);
        sqlite3_finalize(statement);
        statement = NULL;
        if (text == NULL ||
            query_database_prepare(completed, text, text, &statement, &rest, &error) < 0) {
            sqlite3_free(text);
            return NULL;
        }
        sqlite3_free(text);
        sqlite3_bind_text(statement, 1, word, -1, SQLITE_TRANSIENT);
    }
    if (statement != NULL && sqlite3_step(statement) == SQLITE_ROW)
        return xstrdup((const char *)sqlite3_column_text(statement, 0));
    sqlite3_finalize(statement);
    statement = NULL;
    return NULL;
}

static char **complete(const char *word, int start, int end)
{
    (void)start, (void)end;
    rl_attempted_completion_over = 1;
    return rl_completion_matches(word, next_completion);
}

/* --- the loop --- */

static bool history_path(char path[PATH_MAX])
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    int length;
    if (state != NULL && *state == '/')
        length = snprintf(path, PATH_MAX, "%s/heap_profile_history", state);
    else if (home != NULL && *home == '/')
        length = snprintf(path, PATH_MAX, "%s/.heap_profile_history", home);
    else
        return false;
    return length < PATH_MAX;
}

/* Append a line to the statement typed so far. */
static char *append_line(char *typed, const char *line)
{
    size_t before = typed == NULL ? 0 : strlen(typed), more = strlen(line);
    char *grown = xreallocarray(typed, before + more + 2, 1);
    memcpy(grown + before, line, more);
    memcpy(grown + before + more, "\n", 2);
    return grown;
}

static bool is_blank(const char *text)
{
    return text[strspn(text, " \t\r\n")] == '\0';
}

/* Handle one typed line. Return -1 to continue, else the exit code. */
static int take_line(struct query_database *database, enum query_format format, const char *line,
                     char **typed)
{
    if (*typed == NULL && is_blank(line))
        return -1;
    if (*typed == NULL && *line == '.') {
        bool quits = false;
        query_run_command(database, line, &quits);
        return quits ? 0 : -1;
    }
    *typed = append_line(*typed, line);
    if (sqlite3_complete(*typed)) {
        query_run(database, *typed, format);
        fflush(stdout);
        free(*typed);
        *typed = NULL;
    }
    return -1;
}

static int run_terminal(struct query_database *database, enum query_format format)
{
    char path[PATH_MAX], *typed = NULL;
    bool keeps = history_path(path);
    int code = -1;
    completed = database;
    rl_readline_name = "heap_profile";
    rl_attempted_completion_function = complete;
    using_history();
    stifle_history(HISTORY_LINES);
    if (keeps)
        read_history(path);
    puts("SQL over heap profiles. .help lists commands, .examples prints statements.");
    while (code < 0) {
        char *line = readline(typed == NULL ? "sql> " : "...> ");
        if (line == NULL)
            break;
        if (!is_blank(line))
            add_history(line);
        code = take_line(database, format, line, &typed);
        free(line);
    }
    free(typed);
    if (keeps) {
        mode_t before = umask(077);
        write_history(path);
        umask(before);
    }
    return code < 0 ? 0 : code;
}

/* Run standard input statement by statement, so that the rows of the first one appear at once. */
static int run_stream(struct query_database *database, enum query_format format)
{
    char *line = NULL, *typed = NULL;
    size_t size = 0;
    int code = 0;
    bool quits = false;
    while (code == 0 && !quits && getline(&line, &size, stdin) > 0) {
        line[strcspn(line, "\n")] = '\0';
        if (typed == NULL && *line == '.') {
            code = query_run_command(database, line, &quits);
            continue;
        }
        typed = append_line(typed, line);
        if (!sqlite3_complete(typed))
            continue;
        code = query_run(database, typed, format);
        free(typed);
        typed = NULL;
    }
    if (code == 0 && typed != NULL && !is_blank(typed))
        code = query_run(database, typed, format);
    free(typed);
    free(line);
    return code;
}

int query_shell(struct query_database *database, enum query_format format)
{
    return isatty(STDIN_FILENO) ? run_terminal(database, format) : run_stream(database, format);
}
