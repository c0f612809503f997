/* SPDX-License-Identifier: Apache-2.0 */
/* Takes an end from a status of waitpid. */
#include <sys/wait.h>

#include "trace/process_end.h"

void process_end_set_status(struct process_end *end, int32_t wait_status)
{
    end->how = PROCESS_END_UNKNOWN;
    end->code = 0;
    end->core_dumped = false;
    if (wait_status < 0)
        return;
    if (WIFSIGNALED(wait_status)) {
        end->how = PROCESS_END_SIGNALED;
        end->code = WTERMSIG(wait_status);
        end->core_dumped = WCOREDUMP(wait_status);
    } else if (WIFEXITED(wait_status)) {
        end->how = PROCESS_END_EXITED;
        end->code = WEXITSTATUS(wait_status);
    }
}
