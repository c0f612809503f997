/* SPDX-License-Identifier: Apache-2.0 */
/* heap_profile view, and the options --view and --perfetto, in a build without the page: say what
 * is missing. */
#include <stdio.h>

#include "tools/cli/cmd.h"
#include "tools/cli/options/options.h"
#include "tools/cli/record/live_view.h"
#include "tools/cli/view/perfetto_ui.h"

static void view_missing_explain(void)
{
    fputs("heap_profile: this build has no view: it was made with -Dview=disabled. Build with "
          "libmicrohttpd and npm, or write a file for another viewer with traceconv speedscope\n",
          stderr);
}

int cmd_view(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    view_missing_explain();
    return VERB_FAILED;
}

int perfetto_ui_show(const struct perfetto_ui_request *request, const char *argument)
{
    (void)request;
    (void)argument;
    view_missing_explain();
    return VERB_FAILED;
}

bool take_live_view(void *member, const char *name, const char *value)
{
    (void)member;
    (void)name;
    (void)value;
    view_missing_explain();
    return false;
}
