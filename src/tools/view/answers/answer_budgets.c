/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers with the verdicts of `heap_profile check` on a profile: of the budgets in the question,
 * or of those that the page was started with. Growth is judged against the profile that is
 * compared.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/print/check_report.h"
#include "tools/view/answers/answers.h"
#include "tools/view/model/kept.h"
#include "util/xmalloc.h"

/* Choose the last dump of each heap that the page has. Return the number of dumps. */
static size_t choose_dumps(const struct view_profiles *profiles, const struct profile *profile,
                           struct export_dump *dumps)
{
    size_t count = 0;
    for (size_t i = 0; i < profile->heap_count; i++) {
        const struct profile_heap *heap = &profile->heaps[i];
        size_t last = view_kept_last(profiles, heap);
        if (last < heap->dump_count)
            dumps[count++] = (struct export_dump){heap, &heap->dumps[last]};
    }
    return count;
}

static struct budget_subject subject_of(const struct view_profiles *profiles,
                                        const struct view_profile *of, struct export_dump **dumps)
{
    *dumps = xcalloc(of->profile->heap_count + 1, sizeof(**dumps));
    return (struct budget_subject){.profile = of->profile,
                                   .folding = &of->folding,
                                   .dumps = *dumps,
                                   .dump_count = choose_dumps(profiles, of->profile, *dumps)};
}

/* Judge a profile. base NULL: growth is not judged. */
static void judge(const struct view_profiles *profiles, const struct view_profile *of,
                  const struct view_profile *base, struct budgets *budgets, FILE *out)
{
    struct export_dump *dumps, *base_dumps = NULL;
    const struct budget_subject subject = subject_of(profiles, of, &dumps);
    struct budget_subject before = {0};
    struct budget_report report = {0};
    if (base != NULL)
        before = subject_of(profiles, base, &base_dumps);
    xmalloc_code(budgets_check(budgets, &subject, base != NULL ? &before : NULL, &report));
    const struct check_page page = {
        .profile = of->profile, .budgets = budgets, .report = &report, .folding = of->folding};
    check_report_json(&page, out);
    budget_report_clear(&report);
    free(dumps);
    free(base_dumps);
}

int answer_budgets(struct view_profiles *profiles, const struct view_parameters *parameters,
                   FILE *out, struct error *error)
{
    const char *text = view_parameter(parameters, "budgets");
    struct view_range range = {0, VIEW_PROFILES_MAX - 1, 0};
    struct budgets budgets = {0};
    uint64_t index, base;
    int code = view_parameter_number(parameters, "profile", range, &index, error);
    range.otherwise = index;
    if (code == 0)
        code = view_parameter_number(parameters, "base", range, &base, error);
    if (code == 0 && (index >= profiles->count || base >= profiles->count))
        code = error_set(error, -ENOENT, "there is no such profile");
    if (text == NULL)
        text = profiles->budgets != NULL ? profiles->budgets : "";
    if (code == 0)
        code = budgets_read_text(&budgets, text, strlen(text), error);
    if (code == 0)
        judge(profiles, &profiles->items[index], base == index ? NULL : &profiles->items[base],
              &budgets, out);
    budgets_clear(&budgets);
    return code;
}
