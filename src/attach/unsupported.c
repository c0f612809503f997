/* SPDX-License-Identifier: Apache-2.0 */
/* Refuse to attach: attach.h for processors on which entries cannot be patched. */
#include <errno.h>
#include <stddef.h>

#include "attach/attach.h"

static int refuse(pid_t pid, struct attach_outcome *outcome, struct error *error)
{
    *outcome = (struct attach_outcome){.refusal = ATTACH_UNSUPPORTED};
    return error_set(error, -ENOTSUP,
                     "process %d cannot be attached to: on this processor only programs that are "
                     "started under heap_profile, or with its library preloaded, can be profiled",
                     (int)pid);
}

struct attach *attach_open(const struct attach_options *options, struct attach_outcome *outcome,
                           struct error *error)
{
    refuse(options->pid, outcome, error);
    return NULL;
}

int attach_close(struct attach *attach, struct attach_outcome *outcome, struct error *error)
{
    (void)attach;
    return refuse(0, outcome, error);
}

int attach_check(pid_t pid, struct attach_outcome *outcome, struct error *error)
{
    return refuse(pid, outcome, error);
}

int attach_check_released(pid_t pid, struct error *error)
{
    (void)pid;
    (void)error;
    return 0;
}

int attach_check_loaded(pid_t pid)
{
    (void)pid;
    return -ENOTSUP;
}

unsigned attach_tidy(void)
{
    return 0;
}
