/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocates COUNT times, writes a line to a pipe after each, and ends in the way HOW: kill,
 * abort, _exit, exec, or exit; "endless" continues until it is killed.
 *   vanish HOW COUNT
 */
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "truth.h"

static CALLSITE void *allocate_and_tell(size_t size)
{
    return kept(malloc(size));
}

static void tell(unsigned long count)
{
    char line[32];
    int length = snprintf(line, sizeof(line), "%lu\n", count);
    require(write(STDOUT_FILENO, line, (size_t)length) == length);
}

int main(int argc, char **argv)
{
    require(argc == 3);
    const char *how = argv[1];
    unsigned long wanted = strtoul(argv[2], NULL, 10);
    if (!strcmp(how, "endless"))
        wanted = ~0ul;
    for (unsigned long count = 1; count <= wanted; count++) {
        require(allocate_and_tell(100));
        tell(count);
    }
    if (!strcmp(how, "kill"))
        kill(getpid(), SIGKILL);
    if (!strcmp(how, "abort"))
        abort();
    if (!strcmp(how, "_exit"))
        _exit(7);
    if (!strcmp(how, "exec")) {
        execl("/bin/sh", "sh", "-c", "exit 8", (char *)NULL);
        return 99;
    }
    return 9;
}
