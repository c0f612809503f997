/* SPDX-License-Identifier: Apache-2.0 */
/* Shows the profiles that the page names: {"paths": ["/tmp/heap_profile-abc", ...], "add": false,
 * "native": true}. */
#include <errno.h>
#include <string.h>

#include "tools/cli/view/machine.h"
#include "tools/view/server/json_parse.h"
#include "util/json_writer.h"

/* Take the paths. Return their number, or a negative errno with *error set. */
static int take_paths(const struct json_value *root, const char *paths[VIEW_PROFILES_MAX],
                      struct error *error)
{
    const struct json_value *list = json_member(root, "paths");
    int count = 0;
    if (list == NULL || list->kind != JSON_ARRAY)
        return error_set(error, -EINVAL, "the request has no list \"paths\"");
    for (const struct json_value *item = list->first; item != NULL; item = item->next) {
        if (json_string_of(item) == NULL)
            return error_set(error, -EINVAL, "\"paths\" has something that is no string");
        if (count == (int)VIEW_PROFILES_MAX)
            return error_set(error, -E2BIG, "the page shows at most %u profiles",
                             VIEW_PROFILES_MAX);
        paths[count++] = item->text;
    }
    return count;
}

static int open_paths(struct machine *machine, const struct json_value *root, struct error *error)
{
    const char *paths[VIEW_PROFILES_MAX];
    const struct json_value *add = json_member(root, "add");
    const struct json_value *native = json_member(root, "native");
    int count = take_paths(root, paths, error);
    if (count < 0)
        return count;
    if ((add != NULL && add->kind != JSON_BOOL) || (native != NULL && native->kind != JSON_BOOL))
        return error_set(error, -EINVAL, "\"add\" or \"native\" is neither true nor false");
    return shown_open(&machine->shown, paths, (size_t)count, add != NULL && add->truth,
                      native != NULL ? &native->truth : NULL, error);
}

int machine_open(void *context, const struct view_parameters *parameters, const char *body,
                 FILE *out, struct error *error)
{
    struct json_document document;
    (void)parameters;
    int code = json_parse(&document, body, strlen(body), error);
    if (code == 0)
        code = open_paths(context, document.root, error);
    json_document_clear(&document);
    if (code < 0)
        return code;
    struct json_writer json = json_begin(out);
    json_object(&json, NULL);
    json_end_object(&json);
    return 0;
}
