/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clocks and times of a trace (see builder.h).
 */
#ifndef HEAPPROFD_PROFILE_BUILDER_BUILDER_CLOCKS_H
#define HEAPPROFD_PROFILE_BUILDER_BUILDER_CLOCKS_H

#include "profile/builder/builder.h"

void builder_clocks_free(struct builder_clocks *clocks);

/* Read the ClockSnapshot of a packet of this sequence. Return -EBADMSG if it is malformed. */
int builder_clock_snapshot(struct builder *builder, uint32_t sequence, struct proto_span snapshot);

/* Begin a packet. Return its timestamp in ns of its clock. Clock 0 is the trace's own. */
uint64_t builder_packet_time(struct builder *builder, uint64_t timestamp, uint64_t clock_id,
                             uint32_t sequence);

void builder_mentions_free(struct builder_mentions *mentions);

/* Convert all times to trace time. Call it once, after the whole trace was read. */
void builder_apply_clocks(struct builder *builder);

#endif
