/* SPDX-License-Identifier: Apache-2.0 */
/* Ask /proc, then the pidfd. */
#include "recorder/processes/exit_status.h"

#include <stdbool.h>
#include <sys/ioctl.h>

#include "util/process_files.h"

/* The first version of the kernel's struct pidfd_info, and its request. Debian 12's headers lack
 * them. */
struct pidfd_info_first {
    uint64_t mask, cgroup_id;
    uint32_t pid, leader, parent;
    uint32_t ids[8];
    int32_t exit_code;
};
#define PIDFD_INFO_EXIT_MASK (UINT64_C(1) << 3)
#define PIDFD_GET_INFO_FIRST _IOWR(0xff, 11, struct pidfd_info_first)
_Static_assert(sizeof(struct pidfd_info_first) == 64, "the kernel's PIDFD_INFO_SIZE_VER0");

static int32_t status_of_pidfd(int pidfd)
{
    struct pidfd_info_first info = {.mask = PIDFD_INFO_EXIT_MASK};
    if (pidfd < 0 || ioctl(pidfd, PIDFD_GET_INFO_FIRST, &info) < 0 ||
        (info.mask & PIDFD_INFO_EXIT_MASK) == 0)
        return -1;
    return info.exit_code;
}

/* Return whether the kernel lets us see what only those may see who may trace the process: to
 * others the exit code in its stat is 0. */
static bool may_see_code(int directory)
{
    char text[512];
    return process_directory_read(directory, "io", text, sizeof(text)) > 0;
}

static int32_t status_of_zombie(int directory)
{
    char text[2048];
    struct process_stat stat;
    if (directory < 0 || process_directory_read(directory, "stat", text, sizeof(text)) <= 0 ||
        !process_stat_parse(text, &stat) || stat.state != 'Z')
        return -1;
    return stat.exit_code != 0 || may_see_code(directory) ? stat.exit_code : -1;
}

int32_t exit_status_find(int directory, int pidfd)
{
    int32_t status = status_of_zombie(directory);
    return status >= 0 ? status : status_of_pidfd(pidfd);
}
