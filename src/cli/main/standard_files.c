/* SPDX-License-Identifier: Apache-2.0 */
/* Opens /dev/null as each closed standard descriptor. */
#include "cli/main/standard_files.h"

#include <fcntl.h>
#include <unistd.h>

void standard_files_open(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        /* open() takes the lowest free number, which is `fd`. */
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDONLY | O_CLOEXEC) != fd)
            return;
    }
}
