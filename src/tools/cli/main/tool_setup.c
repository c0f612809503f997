/* SPDX-License-Identifier: Apache-2.0 */
/* Opens closed standard descriptors, tunes malloc, and has traces read with the names that the
 * environment offers. */
#include "tools/cli/main/tool_setup.h"

#include <fcntl.h>
#include <malloc.h>
#include <unistd.h>

#include "profile/builder/profile_read.h"
#include "tools/cli/files/environment_names.h"
#include "tools/print/wait_notice.h"

/*
 * Open closed standard descriptors on /dev/null, read-only, so that no trace, cache or temporary
 * file gets their numbers. Writing to them still fails, and a command that a verb runs gets them
 * closed.
 */
static void open_standard_files(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        /* open() takes the lowest free number, which is `fd`. */
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDONLY | O_CLOEXEC) != fd)
            return;
    }
}

/*
 * The tools allocate one large buffer (symbol tables, traces) after the other and end soon.
 * Returning the pages and fetching them again would cost a fifth of the run time in page faults.
 */
static void keep_freed_memory(void)
{
    mallopt(M_MMAP_THRESHOLD, 32 << 20);
    mallopt(M_TRIM_THRESHOLD, 256 << 20);
    mallopt(M_TOP_PAD, 16 << 20);
}

void tool_setup(void)
{
    open_standard_files();
    wait_notice_announce_outputs();
    keep_freed_memory();
    profile_read_further = environment_names_find;
}
