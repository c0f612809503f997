/* SPDX-License-Identifier: Apache-2.0 */
#include "production/fleet/selection.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "production/fleet/tables.h"
#include "util/units.h"

/* --- parsing --- */

static int parse_ago(const char *text, int64_t now_s, int64_t *time_s)
{
    char *end;
    long number = strtol(text, &end, 10);
    double unit_ms = time_unit_ms(end);
    if (end == text || number < 0 || number > 1000000 || unit_ms == 0)
        return -EINVAL;
    *time_s = now_s - (int64_t)((double)number * unit_ms / 1e3);
    return *time_s < 0 ? -EINVAL : 0;
}

int fleet_time_parse(const char *text, int64_t now_s, int64_t *time_s, struct error *error)
{
    static const char *const forms[] = {"%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S",
                                        "%Y-%m-%d %H:%M", "%Y-%m-%d %H:%M:%S"};
    if (parse_ago(text, now_s, time_s) == 0)
        return 0;
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        struct tm date = {0};
        const char *end = strptime(text, forms[i], &date);
        if (end == NULL || (*end != '\0' && strcmp(end, "Z") != 0))
            continue;
        *time_s = timegm(&date);
        if (*time_s >= 0 && *time_s <= UINT32_MAX)
            return 0;
    }
    return error_set(error, -EINVAL,
                     "'%.100s' is no time: 2d, 36h or 90min mean so long ago; a date is "
                     "2026-11-22 or 2026-11-22T10:30, in UTC",
                     text);
}

static int add_one(struct fleet_selection *selection, char *text, int64_t now_s,
                   struct error *error)
{
    char *value = strchr(text, '=');
    if (value == NULL || value == text)
        return error_set(error, -EINVAL,
                         "'%.100s' is no condition, such as version=1.5 or host=web-7", text);
    *value++ = '\0';
    if (strcmp(text, "since") == 0)
        return fleet_time_parse(value, now_s, &selection->since_s, error);
    if (strcmp(text, "until") == 0)
        return fleet_time_parse(value, now_s, &selection->until_s, error);
    if (selection->condition_count == FLEET_CONDITIONS_MAX)
        return error_set(error, -EINVAL, "more than %u conditions", FLEET_CONDITIONS_MAX);
    struct fleet_condition *condition = &selection->conditions[selection->condition_count];
    if (strlen(text) >= sizeof(condition->name) || strlen(value) >= sizeof(condition->value))
        return error_set(error, -EINVAL, "the condition on %.100s is too long", text);
    strcpy(condition->name, text);
    strcpy(condition->value, value);
    selection->condition_count++;
    return 0;
}

int fleet_selection_add(struct fleet_selection *selection, const char *text, int64_t now_s,
                        struct error *error)
{
    char *copy = strdup(text), *rest = NULL;
    int code = copy == NULL ? error_set(error, -ENOMEM, "no memory") : 0;
    for (char *part = code < 0 ? NULL : strtok_r(copy, ",", &rest); part != NULL && code == 0;
         part = strtok_r(NULL, ",", &rest))
        code = add_one(selection, part, now_s, error);
    free(copy);
    return code;
}

static int64_t round_up(int64_t value, int64_t unit)
{
    return (value + unit - 1) / unit * unit;
}

void fleet_selection_round(struct fleet_selection *selection)
{
    if (selection->until_s != FLEET_FOREVER &&
        selection->until_s - selection->since_s < FLEET_DAY_S)
        return;
    selection->since_s = selection->since_s / FLEET_HOUR_S * FLEET_HOUR_S;
    if (selection->until_s != FLEET_FOREVER)
        selection->until_s = round_up(selection->until_s, FLEET_HOUR_S);
}

/* --- SQL --- */

void fleet_put_quoted(FILE *out, const char *text)
{
    fputc('\'', out);
    for (; *text != '\0'; text++) {
        if (*text == '\'' || *text == '\\')
            fputc('\\', out);
        fputc(*text, out);
    }
    fputc('\'', out);
}

static void put_range(FILE *out, const char *level, bool totals, int64_t since_s, int64_t until_s,
                      bool *any)
{
    if (since_s >= until_s)
        return;
    fprintf(out, "%s(level = '%s%s' AND time >= toDateTime(%lld)", *any ? " OR " : "", level,
            totals ? "_total" : "", (long long)since_s);
    if (until_s != FLEET_FOREVER)
        fprintf(out, " AND time < toDateTime(%lld)", (long long)until_s);
    fputc(')', out);
    *any = true;
}

/* The rows of a range: its whole days by day, its other whole hours by hour, and the rest. */
static void put_ranges(const struct fleet_selection *selection, bool totals, FILE *out)
{
    int64_t since = selection->since_s, until = selection->until_s;
    bool is_open = until == FLEET_FOREVER, any = false;
    int64_t hours_from = round_up(since, FLEET_HOUR_S), days_from = round_up(since, FLEET_DAY_S);
    int64_t hours_to = is_open ? until : until / FLEET_HOUR_S * FLEET_HOUR_S;
    int64_t days_to = is_open ? until : until / FLEET_DAY_S * FLEET_DAY_S;
    fputc('(', out);
    if (hours_from >= hours_to) {
        put_range(out, "period", totals, since, until, &any);
    } else {
        put_range(out, "period", totals, since, hours_from, &any);
        if (days_from >= days_to || selection->by_hour) {
            put_range(out, "hour", totals, hours_from, hours_to, &any);
        } else {
            put_range(out, "hour", totals, hours_from, days_from, &any);
            put_range(out, "day", totals, days_from, days_to, &any);
            put_range(out, "hour", totals, days_to, hours_to, &any);
        }
        put_range(out, "period", totals, hours_to, until, &any);
    }
    fputs(any ? ")" : "0)", out);
}

static void put_condition(const struct fleet_condition *condition, FILE *out)
{
    static const char *const columns[] = {"service", "heap", "host", "version"};
    const char *name = strcmp(condition->name, "service_name") == 0 ? "service" : condition->name;
    for (size_t i = 0; i < sizeof(columns) / sizeof(columns[0]); i++)
        if (strcmp(name, columns[i]) == 0) {
            fprintf(out, "%s = ", columns[i]);
            fleet_put_quoted(out, condition->value);
            return;
        }
    fputs("arrayElement(values, indexOf(names, ", out);
    fleet_put_quoted(out, name);
    fputs(")) = ", out);
    fleet_put_quoted(out, condition->value);
}

static void put_conditions(const struct fleet_selection *selection, FILE *out)
{
    for (size_t i = 0; i < selection->condition_count; i++) {
        fputs(i > 0 ? " AND " : "", out);
        put_condition(&selection->conditions[i], out);
    }
    if (selection->condition_count == 0)
        fputs("1", out);
}

void fleet_selection_series(const struct fleet_selection *selection, FILE *out)
{
    put_conditions(selection, out);
    if (selection->except != NULL) {
        fputs(" AND NOT (", out);
        put_conditions(selection->except, out);
        fputc(')', out);
    }
}

void fleet_selection_where(const struct fleet_selection *selection, bool totals, FILE *out)
{
    bool only_service = selection->except == NULL;
    put_ranges(selection, totals, out);
    for (size_t i = 0; i < selection->condition_count; i++) {
        const struct fleet_condition *condition = &selection->conditions[i];
        bool is_service =
            strcmp(condition->name, "service") == 0 || strcmp(condition->name, "service_name") == 0;
        if (is_service) { /* in the key of `figures`, too */
            fputs(" AND service = ", out);
            fleet_put_quoted(out, condition->value);
        }
        only_service &= is_service;
    }
    if (only_service)
        return;
    fputs(" AND series GLOBAL IN (SELECT series FROM series WHERE ", out);
    fleet_selection_series(selection, out);
    fputc(')', out);
}
