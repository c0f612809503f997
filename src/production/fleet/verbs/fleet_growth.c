/* SPDX-License-Identifier: Apache-2.0 */
/* heap_profile fleet growth: callsites whose live bytes rise over days, host by host. */
#include "production/fleet/growth.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "production/fleet/verbs/fleet.h"
#include "profile/folding.h"
#include "tools/print/format.h"
#include "tools/print/stack_format.h"
#include "util/json_writer.h"

/* Rows with a higher chance of being chance are not printed. */
#define P_MOST 0.05
#define DEFAULT_DAYS 9

static const char help[] =
    "usage: heap_profile fleet growth [options]\n"
    "\n"
    "Lists callsites whose live bytes rise over time, host by host, with the chance (p) that any\n"
    "callsite looks like this without a trend. Below 5 days of data moments are hours, else days;\n"
    "the default is the last 9 days (docs/fleet.md has the test).\n"
    "\n" FLEET_SELECTION_HELP "  --stacks        show whole stacks\n"
    "  --top N         rows of the table (20; 0: all)\n" FRAMES_HELP
    "  --json          print as JSON, the callsites without a trend, too\n" FLEET_SERVER_HELP;

static const struct option_entry options[] = {
    FLEET_SERVER_OPTIONS,
    FLEET_SELECTION_OPTIONS,
    OPTION_ENTRY("stacks", 0, OPTION_SET, struct fleet_request, report.stacks),
    OPTION_ENTRY("top", 0, OPTION_NUMBER, struct fleet_request, report.top),
    FRAMES_OPTION(struct fleet_request, report.all_frames),
    OPTION_ENTRY("json", 0, OPTION_SET, struct fleet_request, json),
    OPTIONS_END,
};

/* "1.23 MB ± 45 kB", "1.23 MB (1.10 to 1.50 MB)". */
static void put_estimate(char *text, size_t size, const struct profile_estimate *estimate)
{
    struct profile_interval limits = profile_interval_of_bytes(estimate);
    snprintf(text, size, "%s %s", format_bytes(estimate->bytes).bytes,
             format_margin(estimate->bytes, limits.low, limits.high, false).bytes);
}

static void print_row(const struct fleet_growth_row *row, const struct stack_format *format,
                      bool whole)
{
    char first[112], last[112], p[24];
    put_estimate(first, sizeof(first), &row->first);
    put_estimate(last, sizeof(last), &row->last);
    snprintf(p, sizeof(p), row->p < 1e-12 ? "<1e-12" : "%.2g", row->p);
    const struct formatted slope = format_bytes(row->slope);
    printf("%*s/d %7s %6zu %6zu %6zu  ", format_width(&slope, 10), slope.bytes, p,
           row->trend.rising, row->trend.falling, row->trend.hosts);
    if (row->callsite == PROFILE_NONE)
        printf("unknown stack %016llx\n", (unsigned long long)row->stack);
    else
        stack_format_print_row(format, row->callsite, stdout), fputc('\n', stdout);
    format_printf(stdout, "%12s %s: %s, then %s", "", row->service, first, last);
    format_printf(stdout, "; most certain on %s, %s/d (p %.2g of this host alone)\n",
                  row->worst_host, format_bytes(row->worst_slope).bytes, row->worst_p);
    if (whole && row->callsite != PROFILE_NONE)
        stack_format_print_stack(format, row->callsite, 0, "              ", stdout);
}

static int print_text(const struct fleet_growth *growth, const struct fleet_request *request)
{
    struct folding folding = {0};
    size_t shown = 0, all = 0;
    if (folding_make(&folding, growth->profile) < 0)
        return VERB_FAILED;
    const struct stack_format format = {
        .profile = growth->profile,
        .python_lines = true,
        .own_lines = 1,
        .folding = request->report.all_frames ? NULL : &folding,
        .columns = stack_format_room(request->report.columns, 46),
        .line_columns = request->report.columns,
    };
    printf("%zu callsites, over %zu %s; p is the chance that any of them rises like this without "
           "a trend\n\n",
           growth->callsites, growth->moments, growth->moment_s == FLEET_DAY_S ? "days" : "hours");
    for (size_t i = 0; i < growth->count; i++) {
        const struct fleet_growth_row *row = &growth->rows[i];
        if (row->p > P_MOST || !(row->slope > 0))
            continue;
        if (all++ == 0)
            printf("      rise         p rising  falls  hosts  function < its callers\n");
        if (request->report.top != 0 && all > request->report.top)
            continue;
        print_row(row, &format, request->report.stacks);
        shown++;
    }
    if (all == 0)
        printf("None rises beyond chance (p of at most %.2f).\n", P_MOST);
    if (shown < all)
        printf("       ...  (%zu more; --top 0 shows all)\n", all - shown);
    folding_clear(&folding);
    return verb_end_output("growth", VERB_DONE);
}

static void put_frames(struct json_writer *json, const struct profile *profile, uint32_t callsite)
{
    json_array(json, "frames");
    for (; callsite != PROFILE_NONE; callsite = profile->callsites[callsite].parent) {
        char label[PROFILE_LABEL_BYTES];
        json_string(json, NULL,
                    profile_frame_label(
                        profile, &profile->frames[profile->callsites[callsite].frame], label));
    }
    json_end_array(json);
}

static void put_json_estimate(struct json_writer *json, const char *key,
                              const struct profile_estimate *estimate)
{
    struct profile_interval limits = profile_interval_of_bytes(estimate);
    json_object(json, key);
    json_number(json, "bytes", estimate->bytes);
    json_number(json, "low", limits.low);
    json_number(json, "high", limits.high);
    json_end_object(json);
}

static int print_json(const struct fleet_growth *growth)
{
    struct json_writer json = json_begin(stdout);
    json_object(&json, NULL);
    json_unsigned(&json, "callsites", growth->callsites);
    json_unsigned(&json, "moments", growth->moments);
    json_signed(&json, "moment_seconds", growth->moment_s);
    json_array(&json, "rows");
    for (size_t i = 0; i < growth->count; i++) {
        const struct fleet_growth_row *row = &growth->rows[i];
        json_line(&json);
        json_object(&json, NULL);
        json_string(&json, "service", row->service);
        json_string(&json, "heap", row->heap);
        json_number(&json, "p", row->p);
        json_number(&json, "bytes_per_day", row->slope);
        json_unsigned(&json, "hosts", row->trend.hosts);
        json_unsigned(&json, "rising", row->trend.rising);
        json_unsigned(&json, "falling", row->trend.falling);
        put_json_estimate(&json, "first", &row->first);
        put_json_estimate(&json, "last", &row->last);
        json_string(&json, "worst_host", row->worst_host);
        json_number(&json, "worst_p", row->worst_p);
        json_number(&json, "worst_bytes_per_day", row->worst_slope);
        put_frames(&json, growth->profile, row->callsite);
        json_end_object(&json);
    }
    json_end_array(&json);
    json_end_object(&json);
    fputc('\n', stdout);
    return verb_end_output("growth", VERB_DONE);
}

int fleet_growth(int argc, char **argv)
{
    static const struct verb_line line = {"heap_profile fleet growth", help, options, false};
    struct fleet_request request = {0};
    int code = fleet_parse(&line, argc, argv, &request);
    if (code < 0) {
        struct fleet_growth growth = {0};
        struct error error = {0};
        code = VERB_FAILED;
        if (request.selection.since_s < 0)
            request.selection.since_s = request.now_s - DEFAULT_DAYS * FLEET_DAY_S;
        struct clickhouse *server = fleet_connect(&request);
        if (server != NULL &&
            fleet_growth_read(&growth, server, &request.selection, request.now_s, &error) < 0)
            verb_fail(&error);
        else if (server != NULL)
            code = request.json ? print_json(&growth) : print_text(&growth, &request);
        fleet_growth_clear(&growth);
        clickhouse_close(server);
    }
    fleet_request_clear(&request);
    return code;
}
