/* SPDX-License-Identifier: Apache-2.0 */
/* Prints a notice before a program waits for a pipe's reader or for input. */
#include "tools/print/wait_notice.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/print/format.h"
#include "util/output_file.h"

#define PATIENCE_MS 1000

static void announce_output(const char *path)
{
    format_printf(stderr, "%s: %s is a pipe that nobody reads: waiting for a reader\n",
                  program_invocation_short_name, path);
}

void wait_notice_announce_outputs(void)
{
    output_file_waits = announce_output;
}

/* Return whether a device, or a file of /proc such as kmsg, has nothing to read. Opening it briefly
 * consumes nothing. */
static bool is_silent(const char *path)
{
    struct pollfd polled = {.fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC),
                            .events = POLLIN};
    if (polled.fd < 0)
        return false;
    bool is_silent = poll(&polled, 1, PATIENCE_MS) == 0;
    close(polled.fd);
    return is_silent;
}

void wait_notice_announce_input(const char *path)
{
    struct stat status;
    if (!isatty(STDERR_FILENO) || strcmp(path, "-") == 0 || stat(path, &status) != 0 ||
        S_ISDIR(status.st_mode) || (S_ISREG(status.st_mode) && status.st_size > 0))
        return;
    /* Do not open and close a named pipe: its writer would lose its reader. A pipe opened by the
     * shell (/dev/fd/63) has a writer already. */
    if (S_ISFIFO(status.st_mode) && strncmp(path, "/dev/fd/", 8) != 0 &&
        strncmp(path, "/proc/", 6) != 0)
        format_printf(stderr, "%s: %s is a pipe: reading what is written to it\n",
                      program_invocation_short_name, path);
    else if (!S_ISFIFO(status.st_mode) && is_silent(path))
        format_printf(stderr, "%s: nothing comes from %s yet; Ctrl-C ends the wait\n",
                      program_invocation_short_name, path);
}
