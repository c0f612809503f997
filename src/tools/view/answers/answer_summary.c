/* SPDX-License-Identifier: Apache-2.0 */
/* Answers what a heap's profile says at a dump, in the sentences with which reports begin. */
#include "tools/print/summary.h"
#include "tools/view/answers/answers.h"
#include "util/json_writer.h"

static const char *const topic_names[] = {
    [SUMMARY_LIVE] = "live",   [SUMMARY_PEAK] = "peak",         [SUMMARY_GROWTH] = "growth",
    [SUMMARY_CHURN] = "churn", [SUMMARY_RESIDENT] = "resident", [SUMMARY_UNSEEN] = "unseen",
};

void summary_write(const struct view_profiles *profiles, const struct view_profile *of,
                   const struct export_dump *at, FILE *out)
{
    const struct summary_subject subject = {
        .profile = of->profile,
        .heap = at->heap,
        .dump = at->dump,
        .folding = &of->folding,
        .of_frames = of->of_frames,
        .function_count = profiles->functions.count,
        .simple_names = true,
        .has_process = true,
    };
    struct summary summary = {0};
    if (!at->heap->unseen)
        summary_make(&summary, &subject);
    struct json_writer json = json_begin(out);
    json_object(&json, NULL);
    json_array(&json, "sentences");
    for (size_t i = 0; i < summary.count; i++) {
        json_array(&json, NULL);
        for (size_t j = 0; j < summary.items[i].count; j++)
            json_string(&json, NULL, summary.items[i].parts[j]);
        json_end_array(&json);
    }
    json_end_array(&json);
    json_array(&json, "topics");
    for (size_t i = 0; i < summary.count; i++)
        json_string(&json, NULL, topic_names[summary.items[i].topic]);
    json_end_array(&json);
    json_end_object(&json);
    summary_clear(&summary);
}

int answer_summary(struct view_profiles *profiles, const struct view_parameters *parameters,
                   FILE *out, struct error *error)
{
    struct view_selection selection;
    int code = view_selection_parse(&selection, profiles, parameters, error);
    if (code == 0)
        summary_write(profiles, selection.at.of, &selection.at.dump, out);
    view_selection_clear(&selection);
    return code;
}
