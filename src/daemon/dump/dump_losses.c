/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Map the wire's loss reasons to the trace's. The wire's numbers may change with each version, the
 * trace's never do.
 */
#include "daemon/dump/dump_losses.h"

#include <string.h>

#include "trace/config/trace_config.h"

static const enum trace_loss_id in_trace_of[] = {
    [RING_LOST_OVERRUN] = TRACE_LOST_OVERRUN,
    [RING_LOST_REENTRANT] = TRACE_LOST_REENTRANT,
    [RING_LOST_NO_SCRATCH] = TRACE_LOST_NO_SCRATCH,
    [RING_LOST_NO_THREAD_SLOT] = TRACE_LOST_NO_THREAD_SLOT,
    [RING_LOST_LIVE_SET] = TRACE_LOST_LIVE_SET,
    [RING_LOST_UNWIND] = TRACE_LOST_UNWIND,
    [RING_LOST_ABANDONED] = TRACE_LOST_ABANDONED,
    [RING_LOST_FREE] = TRACE_LOST_FREE,
    [RING_LOST_CALLS] = TRACE_LOST_ALLOCATIONS,
    [RING_LOST_BYTES] = TRACE_LOST_ALLOCATED_BYTES,
};
#define LOSSES (sizeof(in_trace_of) / sizeof(*in_trace_of))

_Static_assert(LOSSES == RING_LOSSES_USED && LOSSES <= TRACE_LOST_PLACES,
               "each loss of the ring has a place in the trace");
_Static_assert(HEAP_CONFIG_SHMEM_BYTES_MAX == RING_DATA_BYTES_MAX,
               "a configuration asks for no more than a ring can be");

void dump_losses(const uint64_t in_ring[RING_LOSS_COUNT], uint64_t in_trace[TRACE_LOST_PLACES])
{
    memset(in_trace, 0, TRACE_LOST_PLACES * sizeof(*in_trace));
    for (size_t i = 0; i < LOSSES; i++)
        in_trace[in_trace_of[i]] = in_ring[i];
}
