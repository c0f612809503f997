/* SPDX-License-Identifier: Apache-2.0 */
/* The options --view and --perfetto of verbs that are not in the view's own program. */
#include <stddef.h>

#include "tools/cli/main/verb_program.h"
#include "tools/cli/record/live_view.h"
#include "tools/cli/view/perfetto_ui.h"

bool take_live_view(void *member, const char *name, const char *value)
{
    (void)name;
    (void)value;
    *(bool *)member = true;
    return true;
}

int perfetto_ui_show(const struct perfetto_ui_request *request, const char *argument)
{
    const char *arguments[9] = {"heap_profile", "view", "--perfetto"};
    size_t count = 3;
    if (request->no_browser)
        arguments[count++] = "--no-browser";
    if (request->ui != NULL) {
        arguments[count++] = "--ui";
        arguments[count++] = request->ui;
    }
    if (argument != NULL) {
        arguments[count++] = "--";
        arguments[count++] = argument;
    }
    return verb_program_run((char *const *)arguments);
}
