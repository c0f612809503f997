/* SPDX-License-Identifier: Apache-2.0 */
/* Options and configuration that the verbs of `fleet` share. */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "production/fleet/verbs/fleet.h"
#include "tools/print/format.h"
#include "tools/print/stack_format.h"

/* Heaps of a side have these numbers in place of pids. */
#define FLEET_PIDS_OF_SIDE 1000
#define SYSTEM_SETTINGS "/etc/heapprofd.conf"
#define SYSTEM_SETTINGS_DIRECTORY "/etc/heapprofd.conf.d"

bool take_fleet_label(void *member, const char *name, const char *value)
{
    struct fleet_request *request = member;
    char condition[700];
    if (strcmp(name, "label") == 0)
        snprintf(condition, sizeof(condition), "%s", value);
    else
        snprintf(condition, sizeof(condition), "%s=%s", name, value);
    if (fleet_selection_add(&request->selection, condition, request->now_s, &request->error) == 0)
        return true;
    verb_fail(&request->error);
    return false;
}

/* Settings that options have not set. */
static void take_settings(struct fleet_request *request)
{
    struct clickhouse_options *server = &request->server;
    struct settings_section *section = NULL;
    while ((section = settings_next(&request->settings, "fleet", section)) != NULL) {
        server->url = server->url != NULL ? server->url : setting_text(section, "url", NULL);
        if (server->database == NULL)
            server->database = setting_text(section, "database", NULL);
        server->user = server->user != NULL ? server->user : setting_text(section, "user", NULL);
        if (server->password_file == NULL)
            server->password_file = setting_text(section, "password_file", NULL);
        server->ca_file =
            server->ca_file != NULL ? server->ca_file : setting_text(section, "ca_file", NULL);
    }
}

/* Read the user's file, then the machine's, as far as an address is missing. A file that others may
 * not read is no error. */
static int read_settings(struct fleet_request *request)
{
    char own[4096] = "";
    const char *base = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    if (base != NULL && *base == '/')
        snprintf(own, sizeof(own), "%s/heapprofd.conf", base);
    else if (home != NULL)
        snprintf(own, sizeof(own), "%s/.config/heapprofd.conf", home);
    struct error error = {0};
    for (int i = 0; i < 2 && request->server.url == NULL; i++) {
        settings_clear(&request->settings);
        request->settings = (struct settings){0};
        int code = i == 0 ? settings_read(&request->settings, own, NULL, &error)
                          : settings_read(&request->settings, SYSTEM_SETTINGS,
                                          SYSTEM_SETTINGS_DIRECTORY, &error);
        if (code < 0 && code != -ENOENT && code != -EACCES)
            return verb_fail(&error);
        if (code == 0)
            take_settings(request);
    }
    if (request->server.database == NULL)
        request->server.database = FLEET_DATABASE;
    if (request->server.url != NULL)
        return 0;
    fputs("heap_profile: where is ClickHouse? --url http://HOST:8123, or 'url' in the section "
          "[fleet] of " SYSTEM_SETTINGS " or ~/.config/heapprofd.conf\n",
          stderr);
    return VERB_USAGE;
}

int fleet_parse(const struct verb_line *line, int argc, char **argv, struct fleet_request *request)
{
    request->now_s = time(NULL);
    request->selection.since_s = -1;
    request->selection.until_s = FLEET_FOREVER;
    request->demangling = DEMANGLING_DEFAULT;
    request->report.top = 20;
    request->report.colours = isatty(STDOUT_FILENO) && getenv("NO_COLOR") == NULL;
    request->report.columns = stack_format_columns(stdout);
    int code = options_parse(line, argc, argv, request);
    if (code >= 0)
        return code;
    code = read_settings(request);
    return code == 0 ? -1 : code;
}

struct clickhouse *fleet_connect(const struct fleet_request *request)
{
    struct error error = {0};
    struct clickhouse *server = clickhouse_open(&request->server, &error);
    if (server == NULL)
        verb_fail(&error);
    return server;
}

void fleet_request_clear(struct fleet_request *request)
{
    settings_clear(&request->settings);
    profile_filter_clear(&request->filter);
}

static size_t put_time(int64_t time_s, const char *word, char *text, size_t size)
{
    char date[64] = "";
    time_t time = (time_t)time_s;
    struct tm parts;
    if (gmtime_r(&time, &parts) != NULL)
        strftime(date, sizeof(date), "%Y-%m-%d %H:%M", &parts);
    int written = snprintf(text, size, "%s %s", word, date);
    return written < 0 || (size_t)written >= size ? 0 : (size_t)written;
}

void fleet_describe(const struct fleet_selection *selection, char *text, size_t size)
{
    size_t at = 0;
    *text = '\0';
    for (size_t i = 0; i < selection->condition_count; i++) {
        const struct fleet_condition *condition = &selection->conditions[i];
        int written =
            strcmp(condition->name, "service") == 0
                ? snprintf(text + at, size - at, "%s, ", condition->value)
                : snprintf(text + at, size - at, "%s=%s, ", condition->name, condition->value);
        if (written < 0 || (size_t)written >= size - at)
            break;
        at += (size_t)written;
    }
    at += put_time(selection->since_s, "since", text + at, size - at);
    if (selection->until_s != FLEET_FOREVER && at + 1 < size) {
        text[at++] = ' ';
        put_time(selection->until_s, "until", text + at, size - at);
    }
}

struct profile *fleet_read(struct clickhouse *server, const struct fleet_request *request,
                           const struct fleet_selection *selection, int side,
                           struct fleet_facts *facts)
{
    char title[1024];
    struct error error = {0};
    fleet_describe(selection, title, sizeof(title));
    const struct fleet_profile_options options = {
        .view = request->report.view,
        .per_process = side > 0,
        .first_pid = 1 + side * FLEET_PIDS_OF_SIDE,
        .title = title,
        .reading = {.filter = &request->filter,
                    .demangling = demangling_of(request->demangling, request->json)},
    };
    struct profile *profile = fleet_profile_read(server, selection, &options, facts, &error);
    if (profile == NULL)
        verb_fail(&error);
    return profile;
}

int fleet_ask(struct clickhouse *server, const char *query, struct clickhouse_answer *answer)
{
    struct error error = {0};
    int code = clickhouse_run(server, query, NULL, 0, answer, &error);
    if (code < 0)
        verb_fail(&error);
    return code;
}
