/* SPDX-License-Identifier: Apache-2.0 */
/* Invalid messages of the kernel's connector: none is read beyond its end, and every reported event
 * has a pid. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "recorder/processes/exec_events.h"

static void check_event(void *context, const struct exec_event *event)
{
    size_t *count = context;
    if (event->pid <= 0 || event->kind > EXEC_EVENT_ENDED)
        abort();
    (*count)++;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t count = 0;
    exec_events_parse(data, size, check_event, &count);
    if (count > size / 36)
        abort();
    return 0;
}
