/* SPDX-License-Identifier: Apache-2.0 */
/* Raise our own priority, and give it back in children. */
#include "util/priority.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/resource.h>

static int nice_before;
static bool is_raised;

void priority_raise(int nice)
{
    errno = 0;
    int now = getpriority(PRIO_PROCESS, 0);
    if ((now == -1 && errno != 0) || now <= nice || setpriority(PRIO_PROCESS, 0, nice) < 0)
        return;
    nice_before = now;
    is_raised = true;
}

void priority_restore(pid_t child)
{
    if (is_raised)
        setpriority(PRIO_PROCESS, (id_t)child, nice_before > 0 ? nice_before : 0);
}
