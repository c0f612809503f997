/* SPDX-License-Identifier: Apache-2.0 */
/* Formats what is known of a row's turnover. */
#include "tools/print/turnover_text.h"

#include <math.h>

#include "tools/print/format.h"

/* In the text, "" says nothing. */
static const struct {
    const char *text, *json;
} kind_names[] = {
    [TURNOVER_UNKNOWN] = {"", NULL},
    [TURNOVER_UNCLEAR] = {"", "unclear"},
    [TURNOVER_GROWS] = {"grows", "grows"},
    [TURNOVER_TURNS_OVER] = {"turns over", "turns_over"},
    [TURNOVER_STAYS] = {"no longer grows", "stays"},
};

static const char *const paces[] = {[TURNOVER_PACE_UNKNOWN] = "",
                                    [TURNOVER_STEADY] = " steadily",
                                    [TURNOVER_IN_STEPS] = " in steps"};

/* A share that is neither none nor all is not printed as such. */
static void print_freed(const struct turnover *row, FILE *out)
{
    double percent = 100 * row->freed, rest = 100 - percent;
    if (isnan(row->freed))
        fputs("it is unknown what was freed", out);
    else if (percent <= 0)
        fputs("nothing of what it allocated was freed", out);
    else if (rest <= 0)
        fputs("all that it allocated was freed", out);
    else if (percent < 0.01 || rest < 0.01)
        fprintf(out, "%s of what it allocated was freed",
                percent < 0.01 ? "less than 0.01 %" : "more than 99.99 %");
    else
        fprintf(out, "%.*f %% of what it allocated was freed", percent < 1 || rest < 1 ? 2 : 0,
                percent);
    if (!isnan(row->lifetime_ms) && row->freed > 0)
        fprintf(out, ", after %s on average", format_time(row->lifetime_ms / 1000).bytes);
}

void turnover_print_growth(const struct turnover *row, FILE *out)
{
    fprintf(out, "%s%s, %s a second", kind_names[TURNOVER_GROWS].text, paces[row->pace],
            format_bytes(row->bytes_per_second).bytes);
}

void turnover_print_line(const struct turnover *row, const char *indent, FILE *out)
{
    const char *name = kind_names[row->kind].text;
    if (isnan(row->freed) && isnan(row->oldest_ms))
        return;
    fputs(indent, out);
    if (row->kind == TURNOVER_GROWS)
        turnover_print_growth(row, out);
    else
        fputs(name, out);
    fputs(*name != '\0' ? ": " : "", out);
    print_freed(row, out);
    if (isnan(row->oldest_ms))
        fputs("; ages unknown\n", out);
    else
        fprintf(out, "; ages up to %s, median %s\n", format_time(row->oldest_ms / 1000).bytes,
                format_time(row->median_ms / 1000).bytes);
}

void turnover_print_json(struct json_writer *json, const struct turnover *row)
{
    bool is_tested = row->probability_least < 1;
    json_string(json, "trend", kind_names[row->kind].json);
    if (row->kind != TURNOVER_GROWS || row->pace == TURNOVER_PACE_UNKNOWN)
        json_null(json, "steady");
    else
        json_bool(json, "steady", row->pace == TURNOVER_STEADY);
    json_number(json, "chance", is_tested ? row->probability : (double)NAN);
    json_number(json, "bytes_per_second", row->bytes_per_second);
    json_number(json, "freed", row->freed);
    json_number(json, "mean_lifetime_ms", row->lifetime_ms);
    json_number(json, "median_age_ms", row->median_ms);
    json_number(json, "oldest_age_ms", row->oldest_ms);
    json_number(json, "age_slice_ms", row->slice_ms);
}
