/* SPDX-License-Identifier: Apache-2.0 */
/* heap_profile view in a build without the page: says what is missing. */
#include <stdio.h>

#include "cli/cmd.h"
#include "cli/options/options.h"

int cmd_view(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    fputs("heap_profile: this build has no view: it was made with -Dview=disabled. Build with "
          "libmicrohttpd and npm, or write a page with traceconv flamegraph\n",
          stderr);
    return VERB_FAILED;
}
