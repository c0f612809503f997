/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a file of budgets. Accepted budgets are valid, read back the same, and can be
 * evaluated on a small profile.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzzing.h"
#include "profile/compare/baseline_file.h"
#include "profile/compare/budgets.h"

static void check_budget(const struct budget *budget)
{
    struct budgets again = {0};
    struct error error = {0};
    char *value = NULL;
    check(budget->kind < BUDGET_KINDS && isfinite(budget->limit) && budget->limit >= 0);
    check(budget->kind == BUDGET_LEAK ? budget->pattern != NULL
                                      : budget->pattern == NULL || budget_is_growth(budget->kind));
    check(asprintf(&value, "%s%s%s", budget->pattern != NULL ? budget->pattern : "",
                   budget->pattern != NULL ? "=" : "", budget->text) >= 0);
    check(budgets_add(&again, budget_names[budget->kind], value, 0, &error) == 0);
    check(again.items[0].limit == budget->limit && again.items[0].share == budget->share);
    free(value);
    budgets_clear(&again);
}

/* Judge growth beyond a baseline file of the subject, which has all patterns of the budgets. */
static void judge_with_file(struct budgets *budgets, const struct budget_subject *subject)
{
    struct baseline_file made, file;
    struct budget_report report = {0};
    struct error error = {0};
    char *text;
    size_t length;
    check(baseline_file_make(budgets, subject, &made) == 0);
    FILE *out = open_memstream(&text, &length);
    check(out != NULL);
    baseline_file_write(&made, out);
    fclose(out);
    check(baseline_file_read_text(&file, text, length, &error) == 0);
    const struct budget_subject before = {.saved = &file};
    check(budgets_check(budgets, subject, &before, &report) == 0);
    for (size_t i = 0; i < report.count; i++)
        check(report.results[i].state <= BUDGET_UNDECIDABLE && !isnan(report.results[i].value));
    budget_report_clear(&report);
    baseline_file_clear(&file);
    baseline_file_clear(&made);
    free(text);
}

/* A callsite of two frames; half of its memory is live. */
static void judge(struct budgets *budgets)
{
    struct profile_mapping mapping = {.path = "/usr/lib/libfoo.so.1", .build_id = ""};
    struct profile_frame frames[] = {
        {.name = "std::vector<int>::push_back(int&&)", .linkage_name = "", .source_file = ""},
        {.name = "", .linkage_name = "", .source_file = "", .mapping = PROFILE_NONE},
    };
    struct profile_callsite callsites[] = {{PROFILE_NONE, 1, 0}, {0, 0, 1}};
    struct profile_sample sample = {.callsite = 1,
                                    .figures = {.allocated_bytes = 4096,
                                                .allocated_count = 8,
                                                .freed_bytes = 2048,
                                                .freed_count = 4,
                                                .allocated_bytes_variance = 100,
                                                .freed_bytes_variance = 50,
                                                .samples = 8,
                                                .freed_samples = 4}};
    const struct profile_sample *samples[] = {&sample};
    struct profile_dump dump = {
        .samples = samples, .sample_count = 1, .total = sample.figures, .final = true};
    struct profile_process process = {.pid = 1, .name = "a", .command = "a"};
    struct profile_heap heap = {
        .name = "libc.malloc", .interval_bytes = 4096, .dumps = &dump, .dump_count = 1};
    struct profile profile = {.mappings = &mapping,
                              .mapping_count = 1,
                              .frames = frames,
                              .frame_count = 2,
                              .callsites = callsites,
                              .callsite_count = 2,
                              .processes = &process,
                              .process_count = 1,
                              .heaps = &heap,
                              .heap_count = 1,
                              .warning = ""};
    struct export_dump chosen = {&heap, &dump};
    struct budget_subject subject = {.profile = &profile, .dumps = &chosen, .dump_count = 1};
    struct budget_report report = {0};
    check(budgets_check(budgets, &subject, &subject, &report) == 0);
    for (size_t i = 0; i < report.count; i++)
        check(report.results[i].state <= BUDGET_UNDECIDABLE && !isnan(report.results[i].value));
    budget_report_clear(&report);
    judge_with_file(budgets, &subject);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    struct budgets budgets = {0};
    struct error error = {0};
    int code = budgets_read_text(&budgets, (const char *)bytes, length, &error);
    check(code == 0 || (code < 0 && error.message[0] != '\0'));
    for (size_t i = 0; i < budgets.count; i++)
        check_budget(&budgets.items[i]);
    for (size_t i = 0; i < budgets.suppression_count; i++)
        check(*budgets.suppressions[i].pattern != '\0' && *budgets.suppressions[i].reason != '\0');
    if (code == 0)
        judge(&budgets);
    budgets_clear(&budgets);
    return 0;
}
