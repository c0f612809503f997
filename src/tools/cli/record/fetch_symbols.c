/* SPDX-License-Identifier: Apache-2.0 */
/* Decide whether a program needs its debug file, and ask for it. */
#include "tools/cli/record/fetch_symbols.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "profile/symbols/debuginfod.h"
#include "recorder/processes/program.h"
#include "tools/print/format.h"
#include "util/hex.h"
#include "util/main_program.h"

/* The user waits meanwhile. The debug file of a large program takes some seconds. */
#define FETCH_LIMIT_MS 15000u

static void fetch(const char *path, const char *name, bool quiet)
{
    struct program program;
    uint8_t build_id[PROGRAM_BUILD_ID_MAX];
    const char *servers = getenv("DEBUGINFOD_URLS");
    if (servers == NULL || servers[0] == 0 || path[0] == 0 || program_read(&program, path) < 0 ||
        !program_needs_debug_file(&program))
        return;
    struct debuginfod *debuginfod = debuginfod_open(FETCH_LIMIT_MS, NULL);
    if (debuginfod == NULL)
        return;
    if (!quiet)
        format_printf(stderr, "heap_profile: asking %s for the symbols of %s\n", servers, name);
    free(debuginfod_find(debuginfod, build_id,
                         hex_read(program.file.build_id, build_id, sizeof(build_id))));
    debuginfod_close(debuginfod);
}

void fetch_symbols_of_command(char *const *command, bool quiet)
{
    char path[PATH_MAX];
    if (getenv("DEBUGINFOD_URLS") == NULL)
        return;
    program_find_of_command(command, path, sizeof(path));
    fetch(path, command[0], quiet);
}

void fetch_symbols_of_process(pid_t pid, bool quiet)
{
    struct main_program program;
    char name[64];
    main_program_find(&program, pid);
    snprintf(name, sizeof(name), "process %d", (int)pid);
    fetch(program.path, name, quiet);
}
