/* SPDX-License-Identifier: Apache-2.0 */
/* heap_profile fleet VERB: what the verbs share, and the verbs. Each returns an exit code. */
#ifndef HEAPPROFD_PRODUCTION_FLEET_VERBS_FLEET_H
#define HEAPPROFD_PRODUCTION_FLEET_VERBS_FLEET_H

#include "production/fleet/clickhouse.h"
#include "production/fleet/fleet_profile.h"
#include "tools/cli/compare/compare.h"
#include "tools/cli/options/options.h"
#include "tools/cli/options/profile_options.h"
#include "tools/cli/report/report.h"
#include "util/settings.h"

struct fleet_request {
    struct clickhouse_options server;
    struct settings settings; /* of the section [fleet] */
    int64_t now_s;
    struct fleet_selection selection;
    struct profile_filter filter;
    int demangling;
    bool json;
    struct report_options report;
    enum dimension by;
    bool lines;
    const char *export; /* a file; NULL: print */
    const char *cluster;
    bool is_replicated;
    const char *symbol_paths;
    bool offline;
    uint64_t keep_periods_days, keep_hours_days, keep_days_days;
    struct error error; /* of an option's value */
};

/* Options that all verbs take, those of a selection, and those of tables of stacks. */
#define FLEET_SERVER_OPTIONS                                                                       \
    OPTION_ENTRY("url", 0, OPTION_TEXT, struct fleet_request, server.url),                         \
        OPTION_ENTRY("database", 0, OPTION_TEXT, struct fleet_request, server.database),           \
        OPTION_ENTRY("user", 0, OPTION_TEXT, struct fleet_request, server.user),                   \
        OPTION_ENTRY("password-file", 0, OPTION_TEXT, struct fleet_request, server.password_file), \
        OPTION_ENTRY("ca-file", 0, OPTION_TEXT, struct fleet_request, server.ca_file)
#define FLEET_SELECTION_OPTIONS                                                                    \
    {.name = "service", .kind = OPTION_CALL, .take = take_fleet_label},                            \
        {.name = "label", .kind = OPTION_CALL, .take = take_fleet_label},                          \
        {.name = "since", .kind = OPTION_CALL, .take = take_fleet_label},                          \
    {                                                                                              \
        .name = "until", .kind = OPTION_CALL, .take = take_fleet_label                             \
    }
option_take take_fleet_label; /* the member is the whole request */

#define FLEET_SERVER_HELP                                                                          \
    "  --url URL       ClickHouse's HTTP address, such as http://localhost:8123; this and the\n"   \
    "                  next four may be in the section [fleet] of /etc/heapprofd.conf or\n"        \
    "                  ~/.config/heapprofd.conf\n"                                                 \
    "  --database NAME (heapprofd), --user NAME, --password-file FILE, --ca-file FILE\n"
#define FLEET_SELECTION_HELP                                                                       \
    "  --service NAME, --label NAME=VALUE   only series with these labels\n"                       \
    "  --since TIME, --until TIME   1d, 36h (ago) or 2026-11-22T10:30 (UTC); from 1d on, ranges\n" \
    "                  are rounded outwards to full hours\n"

/* Parse a verb's options and read the configuration. Return -1 to continue, else the exit code. */
int fleet_parse(const struct verb_line *line, int argc, char **argv, struct fleet_request *request);
/* Connect to the server. Return NULL after printing a message. */
struct clickhouse *fleet_connect(const struct fleet_request *request);
void fleet_request_clear(struct fleet_request *request);

/* Write the selection for people: "checkout, version=1.5, since 2026-11-22 00:00". */
void fleet_describe(const struct fleet_selection *selection, char *text, size_t size);

/* Ask for the profile of a selection. side: 0: of all its processes; 1 and 2: of a mean process,
 * before and after. NULL after printing a message. */
struct profile *fleet_read(struct clickhouse *server, const struct fleet_request *request,
                           const struct fleet_selection *selection, int side,
                           struct fleet_facts *facts);

/* Run a query and print an error. Return 0 or a negative errno. */
int fleet_ask(struct clickhouse *server, const char *query, struct clickhouse_answer *answer);

int fleet_diff(int argc, char **argv);
int fleet_expire(int argc, char **argv);
int fleet_flamegraph(int argc, char **argv);
int fleet_growth(int argc, char **argv);
int fleet_hosts(int argc, char **argv);
int fleet_query(int argc, char **argv);
int fleet_setup(int argc, char **argv);
int fleet_symbolize(int argc, char **argv);
int fleet_top(int argc, char **argv);

#endif
