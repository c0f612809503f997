/*
 * See builder.h: what builder_clocks.c keeps of clocks while a trace is read.
 */
#ifndef HEAPPROFD_PROFILE_BUILDER_CLOCKS_H
#define HEAPPROFD_PROFILE_BUILDER_CLOCKS_H

#include "profile/builder.h"

void builder_clocks_free(struct builder_clocks *clocks);

/* ClockSnapshot of a packet of this sequence. -EBADMSG: malformed. */
int builder_clock_snapshot(struct builder *builder, uint32_t sequence, struct proto_span snapshot);

/* A packet begins whose timestamp is by this clock, in ns of it; clock 0: the trace's own. */
uint64_t builder_packet_time(struct builder *builder, uint64_t timestamp, uint64_t clock_id,
                             uint32_t sequence);

void builder_meetings_free(struct builder_meetings *meetings);

/* Turns times into trace time. Once, when all has been read. */
void builder_apply_clocks(struct builder *builder);

#endif
