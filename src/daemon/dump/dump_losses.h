/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The losses that a client counted in its ring, as the trace has them.
 */
#ifndef HEAPPROFD_DAEMON_DUMP_DUMP_LOSSES_H
#define HEAPPROFD_DAEMON_DUMP_DUMP_LOSSES_H

#include <stdint.h>

#include "trace/losses.h"
#include "wire/ring.h"

void dump_losses(const uint64_t in_ring[RING_LOSS_COUNT], uint64_t in_trace[TRACE_LOST_PLACES]);

#endif
