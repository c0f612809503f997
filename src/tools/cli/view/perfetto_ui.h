/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The option --perfetto of view and report: shows a profile in Perfetto UI, in the user's browser.
 * Serves one trace to that page (tools/view/server/perfetto.h) until the page has read it.
 */
#ifndef HEAPPROFD_TOOLS_CLI_VIEW_PERFETTO_UI_H
#define HEAPPROFD_TOOLS_CLI_VIEW_PERFETTO_UI_H

#include <stdbool.h>
#include <stdint.h>

#include "tools/cli/options/options.h"

struct perfetto_ui_request {
    bool wanted;
    bool no_browser;
    const char *ui; /* address of the page; NULL: https://ui.perfetto.dev */
};

#define PERFETTO_UI_OPTIONS(type, member)                                                          \
    OPTION_ENTRY("perfetto", 0, OPTION_SET, type, member.wanted),                                  \
        OPTION_ENTRY("ui", 0, OPTION_TEXT, type, member.ui)

#define PERFETTO_UI_HELP                                                                           \
    "  --perfetto      show the trace in https://ui.perfetto.dev instead: hand it to that page\n"  \
    "                  from 127.0.0.1, port 9001, the only one that it reads from. Ends when "     \
    "the\n"                                                                                        \
    "                  page has the trace. Other profilers' files become traces first\n"           \
    "  --ui URL        with --perfetto: a copy of the page that you host\n"

/* Show the profile that an argument names; NULL: the latest. Return the exit code. */
int perfetto_ui_serve(const struct perfetto_ui_request *request, const char *argument);

/* The same from another verb: heap_profile becomes the view's program. */
int perfetto_ui_show(const struct perfetto_ui_request *request, const char *argument);

#endif
