/* SPDX-License-Identifier: Apache-2.0 */
/* The main function of a verb that is a program of its own: -DVERB is its function. */
#include <stdio.h>

#include "tools/cli/cmd.h"
#include "tools/cli/main/tool_setup.h"

int main(int argc, char **argv)
{
    tool_setup();
    if (argc < 2) {
        fputs("This program is a part of heap_profile: see heap_profile --help\n", stderr);
        return 2;
    }
    return VERB(argc - 1, argv + 1);
}
