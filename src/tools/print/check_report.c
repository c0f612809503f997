/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the results of budgets as text and as JSON. JUnit and GitHub formats are in
 * check_files.c. */
#include "tools/print/check_report.h"

#include <math.h>
#include <stdlib.h>

#include "tools/print/format.h"
#include "tools/print/stack_format.h"
#include "util/json_writer.h"
#include "util/xmalloc.h"

#define REASON_WIDTH 500
#define STATE_WIDTH 12
#define FIGURE_COLUMNS 13 /* of bytes, before a callsite */

size_t check_report_count(const struct budget_report *report, enum budget_state state)
{
    size_t count = 0;
    for (size_t i = 0; i < report->count; i++)
        count += report->results[i].state == state;
    return count;
}

const char *check_state_name(enum budget_state state)
{
    return state == BUDGET_HOLDS ? "holds" : state == BUDGET_FAILS ? "fails" : "undecidable";
}

/* Format a value in the unit of the budget. */
static struct formatted amount_of(const struct budget_result *result, double value)
{
    return result->budget->kind == BUDGET_TEMPORARY
               ? format_share(100 * value)
               : format_amount(value, budget_counts_calls(result->budget->kind));
}

static struct formatted margin_of(const struct budget_result *result)
{
    return result->budget->kind == BUDGET_TEMPORARY
               ? format_share_margin(100 * result->value, 100 * result->low, 100 * result->high)
               : format_margin(result->value, result->low, result->high,
                               budget_counts_calls(result->budget->kind));
}

void check_title(const struct budget_result *result, char *buffer, size_t size)
{
    const struct budget *budget = result->budget;
    snprintf(buffer, size, "%s %s%s%s", budget_names[budget->kind],
             budget->pattern != NULL ? budget->pattern : "", budget->pattern != NULL ? "=" : "",
             budget->text);
}

void check_finding(const struct budget_result *result, char *buffer, size_t size)
{
    struct formatted value = amount_of(result, result->value);
    int used = 0;
    if (result->unprofiled != NULL) {
        snprintf(buffer, size, "it ran and was not profiled (--only-profiled leaves it out): %s",
                 result->reason);
        return;
    }
    if (result->unknown) {
        snprintf(buffer, size, "%s", result->reason);
        return;
    }
    if (result->exact)
        used = snprintf(buffer, size, "%s, exact", value.bytes);
    else if (result->low != result->value || result->high != result->value)
        used = snprintf(buffer, size, "%s %s", value.bytes, margin_of(result).bytes);
    else
        used = snprintf(buffer, size, "%s", value.bytes);
    if (budget_is_growth(result->budget->kind) && used > 0 && (size_t)used < size)
        used += snprintf(buffer + used, size - (size_t)used, "; from %s to %s, limit %s",
                         amount_of(result, result->before).bytes,
                         amount_of(result, result->after).bytes,
                         amount_of(result, result->limit).bytes);
    if (result->state != BUDGET_UNDECIDABLE || used < 0 || (size_t)used >= size)
        return;
    if (result->deciding_interval_bytes > 0)
        snprintf(buffer + used, size - (size_t)used, "; %s: an interval of %s B would decide",
                 result->reason, format_count((double)result->deciding_interval_bytes).bytes);
    else
        snprintf(buffer + used, size - (size_t)used, "; %s", result->reason);
}

void check_subject(const struct profile *profile, const struct budget_result *result, bool pids,
                   char *buffer, size_t size)
{
    if (result->unprofiled != NULL) {
        int used = snprintf(buffer, size, "%s", result->unprofiled->name);
        if (pids && result->unprofiled->pid != 0 && used > 0 && (size_t)used < size)
            used += snprintf(buffer + used, size - (size_t)used, " %d", result->unprofiled->pid);
        if (pids && result->unprofiled_count > 1 && used > 0 && (size_t)used < size)
            snprintf(buffer + used, size - (size_t)used, " and %zu more",
                     result->unprofiled_count - 1);
        return;
    }
    if (result->heap == NULL) {
        snprintf(buffer, size, "all that was profiled");
        return;
    }
    const struct profile_process *process = &profile->processes[result->heap->process];
    if (pids && process->pid != 0)
        snprintf(buffer, size, "%s %d, %s", process->name, process->pid, result->heap->name);
    else
        snprintf(buffer, size, "%s%s%s", process->name, *process->name != '\0' ? ", " : "",
                 result->heap->name);
}

bool check_has_culprits(const struct budget_result *result)
{
    return result->state != BUDGET_HOLDS && result->budget->kind != BUDGET_TEMPORARY &&
           result->budget->kind != BUDGET_ALLOCATIONS;
}

void check_print_culprit(const struct check_page *page, const struct budget_result *result,
                         int index, size_t columns, FILE *out)
{
    bool is_growth = budget_is_growth(result->budget->kind);
    bool counts = budget_counts_calls(result->budget->kind);
    const struct stack_format format = {
        .profile = page->profile,
        .folding = &page->folding,
        .lines = !is_growth, /* its rows are without lines */
        .simple = true,
        .columns = stack_format_room(columns, STATE_WIDTH + FIGURE_COLUMNS),
    };
    double amount = result->culprit_bytes[index];
    struct formatted figure = is_growth && !result->culprit_at_most[index]
                                  ? format_signed(amount, counts)
                                  : format_amount(amount, counts);
    char text[64];
    snprintf(text, sizeof(text), "%s%s", result->culprit_at_most[index] ? "up to " : "",
             figure.bytes);
    fprintf(out, "%10s ", text);
    stack_format_print_row(&format, result->culprits[index], out);
    fputc('\n', out);
}

static void print_result(const struct check_page *page, const struct budget_result *result,
                         FILE *out)
{
    char text[1024];
    fprintf(out, "%-*s ", STATE_WIDTH,
            result->state == BUDGET_FAILS ? "FAILS" : check_state_name(result->state));
    check_title(result, text, sizeof(text));
    format_print(out, text, FORMAT_WORD_WIDTH);
    fputs(": ", out);
    check_finding(result, text, sizeof(text));
    format_print(out, text, REASON_WIDTH);
    check_subject(page->profile, result, true, text, sizeof(text));
    fputs("   [", out);
    format_print(out, text, FORMAT_WORD_WIDTH);
    fputs("]\n", out);
    for (int i = 0; i < BUDGET_CULPRITS && check_has_culprits(result); i++) {
        if (result->culprits[i] == PROFILE_NONE)
            break;
        fprintf(out, "%*s ", STATE_WIDTH, "");
        check_print_culprit(page, result, i, page->columns, out);
    }
}

static void print_suppressions(const struct check_page *page, FILE *out)
{
    for (size_t i = 0; i < page->budgets->suppression_count; i++) {
        const struct budget_suppression *suppression = &page->budgets->suppressions[i];
        bool used = suppression->count > 0;
        fprintf(out, "%-*s leak:", STATE_WIDTH, used ? "suppressed" : "unused");
        format_print(out, suppression->pattern, FORMAT_WORD_WIDTH);
        if (used)
            fprintf(out, ": %s in %s blocks", format_bytes(suppression->bytes).bytes,
                    format_count(suppression->count).bytes);
        else
            fputs(": it suppresses nothing", out);
        fputs(" (", out);
        format_print(out, suppression->reason, REASON_WIDTH);
        fputs(")\n", out);
    }
}

void check_report_text(const struct check_page *page, FILE *out)
{
    static const enum budget_state order[] = {BUDGET_FAILS, BUDGET_UNDECIDABLE, BUDGET_HOLDS};
    for (size_t state = 0; state < sizeof(order) / sizeof(order[0]); state++)
        for (size_t i = 0; i < page->report->count; i++)
            if (page->report->results[i].state == order[state])
                print_result(page, &page->report->results[i], out);
    print_suppressions(page, out);
    fprintf(out, "heap_profile check: %zu of %zu budgets hold, %zu fail, %zu undecidable%s\n",
            check_report_count(page->report, BUDGET_HOLDS), page->report->count,
            check_report_count(page->report, BUDGET_FAILS),
            check_report_count(page->report, BUDGET_UNDECIDABLE),
            page->undecided_passes ? " (which pass)" : "");
}

/* --- JSON --- */

/* Print the stacks that hold most, or grew most, as the text report does. */
static void print_json_stacks(const struct check_page *page, const struct budget_result *result,
                              struct json_writer *json)
{
    const struct stack_format format = {
        .profile = page->profile, .folding = &page->folding, .simple = true};
    json_array(json, "stacks");
    for (int i = 0; i < BUDGET_CULPRITS && check_has_culprits(result); i++) {
        char *text = NULL;
        size_t length = 0;
        if (result->culprits[i] == PROFILE_NONE)
            break;
        FILE *out = xopen_memstream(&text, &length);
        stack_format_print_row(&format, result->culprits[i], out);
        xclose_memstream(out);
        json_object(json, NULL);
        json_string(json, "stack", text);
        json_number(json, "amount", result->culprit_bytes[i]);
        json_bool(json, "at_most", result->culprit_at_most[i]);
        json_end_object(json);
        free(text);
    }
    json_end_array(json);
}

static void print_json_result(const struct check_page *page, const struct budget_result *result,
                              struct json_writer *json)
{
    const struct budget *budget = result->budget;
    char finding[1024];
    json_line(json);
    json_object(json, NULL);
    json_string(json, "budget", budget_names[budget->kind]);
    json_string(json, "state", check_state_name(result->state));
    json_string(json, "text", budget->text);
    if (budget->pattern != NULL)
        json_string(json, "pattern", budget->pattern);
    json_number(json, "limit", result->limit);
    json_number(json, "value", result->unknown ? (double)NAN : result->value);
    json_number(json, "low95", result->unknown ? (double)NAN : result->low);
    json_number(json, "high95", result->unknown ? (double)NAN : result->high);
    json_bool(json, "exact", result->exact);
    json_string(json, "reason", result->reason);
    check_finding(result, finding, sizeof(finding));
    json_string(json, "finding", finding);
    if (result->deciding_interval_bytes > 0)
        json_unsigned(json, "deciding_interval_bytes", result->deciding_interval_bytes);
    if (budget_is_growth(budget->kind)) {
        json_number(json, "before", result->unknown ? (double)NAN : result->before);
        json_number(json, "after", result->unknown ? (double)NAN : result->after);
    }
    print_json_stacks(page, result, json);
    if (result->heap != NULL) {
        const struct profile_process *process = &page->profile->processes[result->heap->process];
        json_pid(json, "pid", profile_shown_pid(process));
        json_string(json, "name", process->name);
        json_string(json, "heap", result->heap->name);
    }
    if (result->unprofiled != NULL) {
        json_signed(json, "pid", result->unprofiled->pid);
        json_string(json, "name", result->unprofiled->name);
        json_unsigned(json, "unprofiled", result->unprofiled_count);
    }
    if (budget->line > 0)
        json_unsigned(json, "line", budget->line);
    json_end_object(json);
}

void check_report_json(const struct check_page *page, FILE *out)
{
    struct json_writer json = json_begin(out);
    json_object(&json, NULL);
    json_unsigned(&json, "version", 1);
    json_unsigned(&json, "holds", check_report_count(page->report, BUDGET_HOLDS));
    json_unsigned(&json, "fails", check_report_count(page->report, BUDGET_FAILS));
    json_unsigned(&json, "undecidable", check_report_count(page->report, BUDGET_UNDECIDABLE));
    json_array(&json, "results");
    for (size_t i = 0; i < page->report->count; i++)
        print_json_result(page, &page->report->results[i], &json);
    json_end_array(&json);
    json_array(&json, "suppressions");
    for (size_t i = 0; i < page->budgets->suppression_count; i++) {
        const struct budget_suppression *suppression = &page->budgets->suppressions[i];
        json_object(&json, NULL);
        json_string(&json, "pattern", suppression->pattern);
        json_string(&json, "reason", suppression->reason);
        json_number(&json, "space", suppression->bytes);
        json_number(&json, "objects", suppression->count);
        json_end_object(&json);
    }
    json_end_array(&json);
    json_end_object(&json);
    fputc('\n', out);
}
