/* SPDX-License-Identifier: Apache-2.0 */
/* Converts the losses that a client counted in its ring to the trace's. */
#ifndef HEAPPROFD_DAEMON_DUMP_DUMP_LOSSES_H
#define HEAPPROFD_DAEMON_DUMP_DUMP_LOSSES_H

#include <stdint.h>

#include "trace/losses.h"
#include "wire/ring.h"

void dump_losses(const uint64_t in_ring[RING_LOSS_COUNT], uint64_t in_trace[TRACE_LOST_PLACES]);

#endif
