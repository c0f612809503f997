/* SPDX-License-Identifier: Apache-2.0 */
/* Makes parts of dumps. */
#include "tools/view/model/part.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "util/base_name.h"
#include "util/xmalloc.h"

/* --- what to keep --- */

static int64_t parse_tid(const char *text)
{
    char *end;
    long number = *text >= '0' && *text <= '9' ? strtol(text, &end, 10) : -1;
    return number < 0 || number > INT32_MAX || *end != '\0' ? -1 : number;
}

static int parse_value(struct view_only_item *item, struct view_profiles *profiles,
                       struct error *error)
{
    uint32_t function;
    int code;
    switch (item->dimension) {
    case VIEW_FUNCTION:
    case VIEW_HOLDER:
        code = functions_find(&profiles->functions, item->text, &function, error);
        item->number = function;
        return code;
    case VIEW_THREAD:
        item->number = parse_tid(item->text);
        return item->number >= 0
                   ? 0
                   : error_set(error, -EINVAL, "only=thread:%.40s: this is no tid", item->text);
    case VIEW_SIZE:
    case VIEW_LIFETIME:
        item->number = view_class_parse(item->dimension, item->text);
        return item->number != VIEW_CLASS_UNKNOWN
                   ? 0
                   : error_set(error, -EINVAL, "only=%s:%.40s: there is no such class",
                               view_dimension_names[item->dimension], item->text);
    default:
        return 0;
    }
}

int view_only_add(struct view_only *only, struct view_profiles *profiles, const char *text,
                  struct error *error)
{
    const char *colon = strchr(text, ':');
    enum view_dimension dimension =
        colon == NULL ? VIEW_DIMENSIONS : view_dimension_of(text, (size_t)(colon - text));
    if (dimension == VIEW_DIMENSIONS)
        return error_set(error, -EINVAL,
                         "only=%.40s: this is no dimension, a colon and a value; dimensions are "
                         "function, holder, module, file, thread, type, context, size and lifetime",
                         text);
    if (only->count == VIEW_ONLY_MAX)
        return error_set(error, -E2BIG, "there are more than %u parts to keep", VIEW_ONLY_MAX);
    struct view_only_item *item = &only->items[only->count++];
    *item = (struct view_only_item){.dimension = dimension, .text = colon + 1};
    return parse_value(item, profiles, error);
}

/* --- stacks --- */

struct maker {
    const struct view_part_request *request;
    struct view_part *part;
    const struct view_profile *of;
    uint8_t *marks; /* by function: bits of the items that it is of */
    uint8_t wanted; /* bits of the items that a function on the stack must have */
    /* By node: bits of the functions on its stack, in the whole tree and in what filters leave. */
    uint8_t *on_stack[2];
    size_t sample_count, part_count; /* of part->samples and part->parts */
    bool peak_is_undivided;
};

/* Return whether a function is in the module: by its path, or by the name of the file alone. */
static bool is_of_module(const char *path, const char *text, bool by_name)
{
    return strcmp(by_name ? base_name(path) : path, text) == 0;
}

/* Mark the functions of an item. Return how many there are. */
static size_t mark_functions(struct maker *maker, size_t index, bool by_name)
{
    const struct view_only_item *item = &maker->request->only->items[index];
    struct functions *functions = &maker->request->profiles->functions;
    size_t found = 0;
    for (size_t i = 0; i < functions->count; i++) {
        const struct function *function = &functions->items[i];
        bool is_one =
            item->dimension == VIEW_FUNCTION ? (int64_t)i == item->number
            : item->dimension == VIEW_MODULE
                ? is_of_module(function_path(function), item->text, by_name)
                : strcmp(function->profile->frames[function->frame].source_file, item->text) == 0;
        if (is_one) {
            maker->marks[i] |= (uint8_t)(1u << index);
            found++;
        }
    }
    return found;
}

/* Return, by node, the marks of its function and of all callers; malloc'd. */
static uint8_t *marks_on_stacks(const struct stack_tree *tree, const uint8_t *marks)
{
    uint8_t *on_stack = xcalloc(tree->count + 1, 1);
    for (size_t i = 0; i < tree->count; i++) {
        uint32_t parent = tree->nodes[i].parent;
        on_stack[i] = (uint8_t)(marks[tree->nodes[i].function] |
                                (parent == STACK_NONE ? 0 : on_stack[parent]));
    }
    return on_stack;
}

static int mark_stacks(struct maker *maker, struct error *error)
{
    const struct view_only *only = maker->request->only;
    struct view_profiles *profiles = maker->request->profiles;
    maker->marks = xcalloc(profiles->functions.count + 1, 1);
    for (size_t i = 0; i < only->count; i++) {
        if (only->items[i].dimension > VIEW_FILE || only->items[i].dimension == VIEW_HOLDER)
            continue;
        maker->wanted |= (uint8_t)(1u << i);
        if (mark_functions(maker, i, false) == 0 && mark_functions(maker, i, true) == 0)
            return error_set(error, -ENOENT, "no function of the loaded profiles is of %s '%.200s'",
                             view_dimension_names[only->items[i].dimension], only->items[i].text);
    }
    if (maker->wanted == 0)
        return 0;
    maker->on_stack[0] = marks_on_stacks(&profiles->tree, maker->marks);
    maker->on_stack[1] = marks_on_stacks(view_profiles_tree(profiles), maker->marks);
    return 0;
}

/* Return whether a sample's stack is to be kept. A stack that filters leave out as a whole is
 * judged as a whole: it counts as left out of the part. */
static bool has_stack(const struct maker *maker, uint32_t callsite)
{
    const struct view_part_request *request = maker->request;
    struct view_profiles *profiles = request->profiles;
    uint32_t node = view_profiles_node(profiles, request->filter, maker->of, callsite);
    bool is_left = node != STACK_NONE;
    if (!is_left && request->without_filtered)
        return false;
    const struct stack_tree *tree = is_left ? view_profiles_tree(profiles) : &profiles->tree;
    if (!is_left)
        node = maker->of->of_callsites[callsite];
    if (maker->wanted != 0 && (maker->on_stack[is_left][node] & maker->wanted) != maker->wanted)
        return false;
    for (size_t i = 0; i < request->only->count; i++) {
        const struct view_only_item *item = &request->only->items[i];
        if (item->dimension == VIEW_HOLDER &&
            view_profiles_holder(profiles, tree, node) != item->number)
            return false;
    }
    return true;
}

/* --- samples --- */

static bool has_class(const struct maker *maker, const struct profile_sample *sample)
{
    const struct view_only *only = maker->request->only;
    for (size_t i = 0; i < only->count; i++) {
        const struct view_only_item *item = &only->items[i];
        if (item->dimension == VIEW_SIZE &&
            view_size_class(sample, maker->request->view) != item->number)
            return false;
        if (item->dimension == VIEW_LIFETIME && view_lifetime_class(sample) != item->number)
            return false;
    }
    return true;
}

static bool has_part(const struct view_only *only, const struct profile_part *part)
{
    for (size_t i = 0; i < only->count; i++) {
        const struct view_only_item *item = &only->items[i];
        if ((item->dimension == VIEW_THREAD && part->tid != item->number) ||
            (item->dimension == VIEW_TYPE && strcmp(part->type, item->text) != 0) ||
            (item->dimension == VIEW_CONTEXT && strcmp(part->context, item->text) != 0))
            return false;
    }
    return true;
}

static uint32_t count_parts(const struct view_only *only, const struct profile_sample *sample)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < sample->part_count; i++)
        count += has_part(only, &sample->parts[i]);
    return count;
}

/* Return a sample with some of the parts of another. */
static struct profile_sample *part_divide(struct maker *maker, const struct profile_sample *sample)
{
    struct profile_sample *some = &maker->part->samples[maker->sample_count++];
    struct profile_part *parts = &maker->part->parts[maker->part_count];
    *some = (struct profile_sample){
        .callsite = sample->callsite, .parts = parts, .tagged = sample->tagged};
    for (uint32_t i = 0; i < sample->part_count; i++) {
        const struct profile_part *part = &sample->parts[i];
        if (!has_part(maker->request->only, part))
            continue;
        parts[some->part_count++] = *part;
        trace_figures_add(&some->figures, &part->figures);
        if (sample->tagged)
            trace_peak_figures_add(&some->peak, &part->peak);
    }
    maker->part_count += some->part_count;
    maker->peak_is_undivided |= !sample->tagged && sample->peak.bytes > 0;
    return some;
}

/* Return what is to be kept of a sample; NULL: nothing. */
static const struct profile_sample *part_keep_of(struct maker *maker,
                                                 const struct profile_sample *sample)
{
    static const struct profile_part without_part = {.type = "", .context = ""};
    const struct view_only *only = maker->request->only;
    if (!has_stack(maker, sample->callsite) || !has_class(maker, sample))
        return NULL;
    if (sample->part_count == 0)
        return has_part(only, &without_part) ? sample : NULL;
    uint32_t count = count_parts(only, sample);
    return count == 0 ? NULL : count == sample->part_count ? sample : part_divide(maker, sample);
}

/* Count what a part leaves of a sample as left out: all of it, if `kept` is NULL. */
static void leave_out(struct profile_left_out *left_out, const struct profile_sample *sample,
                      const struct profile_sample *kept)
{
    struct trace_figures figures = sample->figures;
    struct trace_peak_figures peak = sample->peak;
    if (kept != NULL) {
        trace_figures_subtract(&figures, &kept->figures);
        peak.bytes -= kept->peak.bytes;
        peak.count -= kept->peak.count;
        peak.bytes_variance -= kept->peak.bytes_variance;
        peak.count_variance -= kept->peak.count_variance;
        peak.samples -= kept->peak.samples;
    }
    left_out->callsites += kept == NULL;
    trace_figures_add(&left_out->sum.figures, &figures);
    trace_peak_figures_add(&left_out->sum.peak, &peak);
}

static void take_samples(struct maker *maker, const struct profile_dump *dump)
{
    struct view_part *part = maker->part;
    part->dump = *dump;
    part->dump.sample_count = part->dump.part_count = 0;
    part->dump.samples = xcalloc(dump->sample_count + 1, sizeof(*part->dump.samples));
    part->whole = xcalloc(dump->sample_count + 1, sizeof(*part->whole));
    part->samples = xcalloc(dump->sample_count + 1, sizeof(*part->samples));
    part->parts = xcalloc(dump->part_count + 1, sizeof(*part->parts));
    for (size_t i = 0; i < dump->sample_count; i++) {
        const struct profile_sample *sample = dump->samples[i], *kept = part_keep_of(maker, sample);
        if (kept != sample)
            leave_out(&part->dump.left_out, sample, kept);
        if (kept == NULL)
            continue;
        part->whole[part->dump.sample_count] = sample;
        part->dump.samples[part->dump.sample_count++] = kept;
        part->dump.part_count += kept->part_count;
    }
}

/* Let no sample have a peak: some are of several threads, so that a sum of the others is too low.
 */
static void drop_peaks(struct maker *maker)
{
    struct view_part *part = maker->part;
    for (size_t i = 0; i < part->dump.sample_count; i++) {
        struct profile_sample *own = &part->samples[maker->sample_count];
        if (part->dump.samples[i] == part->whole[i]) {
            *own = *part->whole[i];
            part->dump.samples[i] = own;
            maker->sample_count++;
        }
    }
    for (size_t i = 0; i < maker->sample_count; i++)
        part->samples[i].peak = (struct trace_peak_figures){0};
}

/* --- */

static int find_unknown(const struct view_only *only, const struct profile_heap *heap,
                        struct error *error)
{
    for (size_t i = 0; i < only->count; i++) {
        const struct view_only_item *item = &only->items[i];
        bool is_none = item->dimension >= VIEW_TYPE && *item->text == '\0';
        const char *why = is_none ? NULL : view_dimension_why_unknown(heap, item->dimension);
        if (why != NULL)
            return error_set(error, -EINVAL, "there is no part by %s: %s",
                             view_dimension_names[item->dimension], why);
    }
    return 0;
}

int view_part_make(struct view_part *part, const struct view_part_request *request,
                   const struct view_profile *of, const struct export_dump *chosen,
                   struct error *error)
{
    struct maker maker = {.request = request, .part = part, .of = of};
    *part = (struct view_part){0};
    int code = find_unknown(request->only, chosen->heap, error);
    if (code < 0)
        return code;
    code = mark_stacks(&maker, error);
    if (code == 0)
        take_samples(&maker, chosen->dump);
    if (code == 0 && maker.peak_is_undivided && request->view == EXPORT_MAX)
        code = error_set(error, -EINVAL,
                         "the file does not contain the peak of single threads: choose another "
                         "view");
    if (code == 0 && maker.peak_is_undivided)
        drop_peaks(&maker);
    free(maker.marks);
    free(maker.on_stack[0]);
    free(maker.on_stack[1]);
    return code;
}

void view_part_free(struct view_part *part)
{
    free(part->dump.samples);
    free(part->whole);
    free(part->samples);
    free(part->parts);
    *part = (struct view_part){0};
}
