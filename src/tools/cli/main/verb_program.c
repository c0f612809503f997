/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the program of a verb in this process. */
#include "tools/cli/main/verb_program.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tools/cli/options/options.h"
#include "util/sibling_program.h"

int verb_program_run(char *const *arguments)
{
    char name[64], path[PATH_MAX];
    struct error error;
    snprintf(name, sizeof(name), "heap_profile_%s", arguments[1]);
    if (sibling_program_find(name, path, &error) == 0) {
        execv(path, arguments);
        error_set(&error, -errno, "cannot run %s: %s", path, strerror(errno));
    }
    return verb_fail(&error);
}
