/* SPDX-License-Identifier: Apache-2.0 */
/* Parses the selection of a question. */
#include "tools/view/model/selection.h"

#include <errno.h>
#include <string.h>

#include "tools/view/model/kept.h"

const char *view_parameter(const struct view_parameters *parameters, const char *name)
{
    for (size_t i = 0; i < parameters->count; i++)
        if (strcmp(parameters->items[i].name, name) == 0)
            return parameters->items[i].value;
    return NULL;
}

/* Parse decimal digits up to a dot or the end, and move *text behind them and the dot. Return
 * UINT64_MAX if there are none, or too many. */
static uint64_t take_number(const char **text)
{
    uint64_t number = 0;
    const char *at = *text;
    for (; *at >= '0' && *at <= '9' && number < UINT32_MAX; at++)
        number = number * 10 + (uint64_t)(*at - '0');
    if (at == *text || (*at != '\0' && *at != '.'))
        return UINT64_MAX;
    *text = *at == '.' ? at + 1 : at;
    return number;
}

int view_parameter_number(const struct view_parameters *parameters, const char *name,
                          struct view_range range, uint64_t *number, struct error *error)
{
    const char *text = view_parameter(parameters, name);
    *number = range.otherwise;
    if (text == NULL)
        return 0;
    const char *end = text;
    *number = take_number(&end);
    if (*end != '\0' || *number < range.least || *number > range.most)
        return error_set(error, -EINVAL, "%s=%.40s: this is no number from %ju to %ju", name, text,
                         (uintmax_t)range.least, (uintmax_t)range.most);
    return 0;
}

static int find_heap(struct view_profiles *profiles, const char *text, const char **rest,
                     struct view_dump *found, struct error *error)
{
    *rest = text;
    uint64_t profile = take_number(rest), heap = **rest == '\0' ? UINT64_MAX : take_number(rest);
    if (profile >= profiles->count || heap >= profiles->items[profile].profile->heap_count)
        return error_set(error, -ENOENT, "there is no heap '%.40s' in the loaded profiles", text);
    found->of = &profiles->items[profile];
    found->dump.heap = &found->of->profile->heaps[heap];
    return 0;
}

static int find_dump(const struct view_profiles *profiles, const char *text,
                     struct view_dump *found, struct error *error)
{
    const struct profile_heap *heap = found->dump.heap;
    uint64_t index = text == NULL ? view_kept_last(profiles, heap) : 0;
    const char *end = text;
    if (text != NULL) {
        index = take_number(&end);
        if (*end != '\0')
            index = UINT64_MAX;
    }
    if (index >= heap->dump_count)
        return error_set(error, -ENOENT, "there is no dump '%.40s': the heap has %zu",
                         text == NULL ? "" : text, heap->dump_count);
    found->dump.dump = &heap->dumps[index];
    if (!view_kept_has(profiles, &found->dump))
        return error_set(error, -ENOENT,
                         "This page is a file and does not contain this dump. Open the profile "
                         "with `heap_profile view` for it.");
    return 0;
}

/* DUMP of the heap of `beside`, or PROFILE.HEAP.DUMP. */
static int find_other(struct view_profiles *profiles, const char *text,
                      const struct view_dump *beside, struct view_dump *found, struct error *error)
{
    const char *rest = text;
    *found = (struct view_dump){.of = beside->of, .dump.heap = beside->dump.heap};
    if (strchr(text, '.') == NULL)
        return find_dump(profiles, text, found, error);
    int code = find_heap(profiles, text, &rest, found, error);
    return code < 0 ? code : find_dump(profiles, rest, found, error);
}

static int find_base(struct view_profiles *profiles, const char *text,
                     struct view_selection *selection, struct error *error)
{
    if (text == NULL || *text == '\0')
        return 0;
    return find_other(profiles, text, &selection->at, &selection->base, error);
}

static int parse_view(const char *text, enum export_view *view, struct error *error)
{
    *view = EXPORT_SPACE;
    for (enum export_view i = 0; i < EXPORT_VIEWS && text != NULL; i++) {
        if (strcmp(text, export_view_info[i].name) == 0) {
            *view = i;
            return 0;
        }
    }
    return text == NULL ? 0 : error_set(error, -EINVAL, "there is no view '%.40s'", text);
}

/* Add a filter KIND:REGEX. */
static int add_filter(struct profile_filter *filter, const char *text, struct error *error)
{
    if (filter->count == VIEW_PATTERNS_MAX)
        return error_set(error, -E2BIG, "there are more than %u filters", VIEW_PATTERNS_MAX);
    for (enum profile_filter_kind kind = 0; kind < PROFILE_FILTER_KINDS; kind++) {
        size_t length = strlen(profile_filter_names[kind]);
        if (strncmp(text, profile_filter_names[kind], length) == 0 && text[length] == ':')
            return profile_filter_add(filter, kind, text + length + 1, error);
    }
    return error_set(error, -EINVAL,
                     "filter=%.40s: a filter is focus, ignore, hide or show-from, "
                     "a colon and an expression",
                     text);
}

/* Make the parts of the dumps that only= selects. */
static int make_parts(struct view_selection *selection, struct view_profiles *profiles,
                      bool without_filtered, struct error *error)
{
    const struct view_part_request request = {.profiles = profiles,
                                              .filter = &selection->filter,
                                              .only = &selection->only,
                                              .view = selection->view,
                                              .without_filtered = without_filtered};
    struct view_dump *dumps[] = {&selection->at, &selection->base, &selection->least};
    int code = 0;
    for (size_t i = 0; i < sizeof(dumps) / sizeof(dumps[0]) && code == 0; i++)
        if (i == 0 || dumps[i]->dump.dump != NULL)
            code = view_part_make(&dumps[i]->part, &request, dumps[i]->of, &dumps[i]->dump, error);
    return code;
}

int view_selection_parse(struct view_selection *selection, struct view_profiles *profiles,
                         const struct view_parameters *parameters, struct error *error)
{
    const char *rest = "", *heap = view_parameter(parameters, "heap");
    *selection = (struct view_selection){0};
    if (heap == NULL)
        return error_set(error, -EINVAL, "the question names no heap");
    int code = find_heap(profiles, heap, &rest, &selection->at, error);
    if (code == 0 && *rest != '\0')
        code = error_set(error, -ENOENT, "there is no heap '%.40s' in the loaded profiles", heap);
    if (code == 0)
        code = find_dump(profiles, view_parameter(parameters, "dump"), &selection->at, error);
    if (code == 0)
        code = find_base(profiles, view_parameter(parameters, "base"), selection, error);
    if (code == 0)
        code = parse_view(view_parameter(parameters, "view"), &selection->view, error);
    for (size_t i = 0; i < parameters->count && code == 0; i++)
        if (strcmp(parameters->items[i].name, "filter") == 0)
            code = add_filter(&selection->filter, parameters->items[i].value, error);
    for (size_t i = 0; i < parameters->count && code == 0; i++)
        if (strcmp(parameters->items[i].name, "only") == 0)
            code = view_only_add(&selection->only, profiles, parameters->items[i].value, error);
    if (code == 0)
        code = view_profiles_filter(profiles, &selection->filter, error);
    if (code == 0 && selection->only.count > 0)
        code = make_parts(selection, profiles, false, error);
    return code;
}

void view_selection_clear(struct view_selection *selection)
{
    profile_filter_clear(&selection->filter);
    view_selection_unrestrict(selection);
    view_retained_free(&selection->retained);
}

/* Return why a question cannot be about what was retained; "": it can. */
static const char *why_not_retained(const struct view_selection *selection)
{
    const struct export_dump *to = &selection->at.dump, *from = &selection->base.dump;
    if (from->dump == NULL || from->heap != to->heap)
        return "retained memory needs two dumps of one heap: heap, dump and base";
    if (selection->view != EXPORT_SPACE && selection->view != EXPORT_OBJECTS)
        return "retained memory is live memory: choose the view space or objects";
    for (size_t i = 0; i < selection->only.count; i++)
        if (selection->only.items[i].dimension >= VIEW_SIZE)
            return "retained memory cannot be filtered by size or lifetime";
    return view_retained_why_unknown(to->heap, from->dump, to->dump);
}

int view_selection_retain(struct view_selection *selection, struct view_profiles *profiles,
                          const struct view_parameters *parameters, struct error *error)
{
    if (view_parameter(parameters, "retained") == NULL)
        return 0;
    const char *why = why_not_retained(selection);
    if (*why != '\0')
        return error_set(error, -EINVAL, "%s", why);
    const struct profile_dump *from = selection->base.dump.dump, *to = selection->at.dump.dump;
    bool is_in_order = from->boottime_ns <= to->boottime_ns;
    view_selection_unrestrict(selection);
    view_retained_make(&selection->retained, selection->at.of->profile, is_in_order ? from : to,
                       is_in_order ? to : from);
    selection->least = selection->at;
    selection->least.dump.dump = &selection->retained.least.dump;
    selection->at.dump.dump = &selection->retained.most.dump;
    selection->base = (struct view_dump){0};
    return selection->only.count > 0 ? view_selection_remake(selection, profiles, error) : 0;
}

int view_selection_restrict(struct view_selection *some, struct view_profiles *profiles,
                            const struct view_selection *selection,
                            const struct view_only_item *item, struct error *error)
{
    *some = *selection;
    some->at.part = some->base.part = some->least.part = (struct view_part){0};
    if (item != NULL)
        some->only.items[some->only.count++] = *item;
    return make_parts(some, profiles, true, error);
}

void view_selection_unrestrict(struct view_selection *some)
{
    view_part_free(&some->at.part);
    view_part_free(&some->base.part);
    view_part_free(&some->least.part);
}

int view_selection_remake(struct view_selection *some, struct view_profiles *profiles,
                          struct error *error)
{
    some->at.part = some->base.part = some->least.part = (struct view_part){0};
    return make_parts(some, profiles, false, error);
}

int view_selection_find_dump(const struct view_selection *selection, struct view_profiles *profiles,
                             const char *text, struct view_dump *found, struct error *error)
{
    struct view_selection some = *selection;
    some.base = some.least = (struct view_dump){0};
    int code = find_other(profiles, text, &selection->at, &some.at, error);
    if (code == 0 && some.only.count > 0)
        code = view_selection_remake(&some, profiles, error);
    *found = some.at;
    return code;
}
