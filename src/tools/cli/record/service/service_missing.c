/* SPDX-License-Identifier: Apache-2.0 */
/* heap_profile trigger, and the option --service, in a build without tracing: say what is missing.
 */
#include <stdio.h>

#include "tools/cli/cmd.h"
#include "tools/cli/record/record_session.h"
#include "tools/cli/record/service/service_session.h"

static void service_missing_explain(void)
{
    fputs("heap_profile: this build cannot speak to a tracing service: it was made with "
          "-Dtracing=disabled. Record without --service, or use a build with tracing\n",
          stderr);
}

bool take_service(void *member, const char *name, const char *value)
{
    (void)name;
    (void)value;
    ((struct service_options *)member)->is_wanted = true;
    return true;
}

bool take_detach(void *member, const char *name, const char *value)
{
    return take_service(member, name, value);
}

int service_session_run(const struct service_session *session)
{
    (void)session;
    service_missing_explain();
    return RECORD_SESSION_FAILED;
}

int cmd_trigger(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    service_missing_explain();
    return VERB_FAILED;
}
