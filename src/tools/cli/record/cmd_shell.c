/* SPDX-License-Identifier: Apache-2.0 */
/* heap_profile shell: runs a shell, or a command, with the profiling library preloaded. Its
 * programs can be profiled at any later time, from their next allocation on, without attaching. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "recorder/host/host.h"
#include "recorder/host/launcher.h"
#include "recorder/host/preload_path.h"
#include "recorder/sockets/run_directory.h"
#include "tools/cli/cmd.h"
#include "tools/cli/options/options.h"
#include "tools/print/format.h"

static const char help[] =
    "usage: heap_profile shell [-- COMMAND [ARGS]]\n"
    "\n"
    "Runs $SHELL, or COMMAND, with the profiling library preloaded and dormant. Programs started\n"
    "from it need about 2 ns more for an allocation, and heap_profile -n or -p can profile them "
    "at\n"
    "any later time (-n: programs that start later, from their first allocation on).\n"
    "\n"
    "Exit code: that of the shell or COMMAND; 125 if the profiler failed or for wrong usage, 126 "
    "if\n"
    "COMMAND could not be run, 127 if it was not found.\n"
    "\n"
    "Example:\n"
    "  heap_profile shell -- ./server &\n"
    "  heap_profile -n server -d 10000\n";

static const struct option_entry options[] = {OPTIONS_END};

/* Set the variable to `first` and `second`, joined by a colon; either may be missing. */
static int set_joined(const char *name, const char *first, const char *second, struct error *error)
{
    char value[2 * PATH_MAX];
    first = first != NULL ? first : "";
    second = second != NULL ? second : "";
    int printed = snprintf(value, sizeof(value), "%s%s%s", first,
                           first[0] != 0 && second[0] != 0 ? ":" : "", second);
    if (printed < 0 || (size_t)printed >= sizeof(value) || setenv(name, value, 1) != 0)
        return error_set(error, -ENOMEM, "the environment's %s is too long", name);
    return 0;
}

/* Make the run directory for a daemon of this user. Without a place for it, the system's daemon can
 * serve the user: the processes map that daemon's control page, if it exists. */
static int prepare_run_directory(struct error *error)
{
    char path[RUN_DIRECTORY_PATH_MAX];
    int code = run_directory_choose(path, error);
    if (code == 0)
        return run_directory_prepare(path, error);
    bool has_system = access(RUN_DIRECTORY_OF_SYSTEM "/" RUN_DIRECTORY_CONTROL, R_OK) == 0;
    return code == -ENOENT && has_system ? 0 : code;
}

static int prepare(struct error *error)
{
    char library[PATH_MAX];
    if (preload_path_find(library, error) < 0 || prepare_run_directory(error) < 0 ||
        set_joined("LD_PRELOAD", library, getenv("LD_PRELOAD"), error) < 0)
        return error->code;
    return set_joined(LAUNCHER_ASAN_ENV, getenv(LAUNCHER_ASAN_ENV), LAUNCHER_ASAN_OPTION, error);
}

int cmd_shell(int argc, char **argv)
{
    static const struct verb_line line = {"heap_profile shell", help, options, true};
    int code = options_parse(&line, argc, argv, NULL);
    if (code >= 0) /* as of `host`: a command's own code may be 2 */
        return code == VERB_USAGE ? HOST_PROFILER_FAILED : code;
    struct error error = {0};
    if (prepare(&error) < 0) {
        verb_fail(&error);
        return HOST_PROFILER_FAILED;
    }
    const char *shell = getenv("SHELL");
    char *const interactive[] = {(char *)(shell != NULL && shell[0] != 0 ? shell : "/bin/sh"),
                                 NULL};
    char *const *command = optind < argc ? argv + optind : interactive;
    execvp(command[0], command);
    code = errno;
    format_printf(stderr, "heap_profile: cannot run %s: %s\n", command[0], strerror(code));
    return code == ENOENT ? HOST_NOT_FOUND : HOST_NOT_EXECUTABLE;
}
