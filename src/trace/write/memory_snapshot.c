/* SPDX-License-Identifier: Apache-2.0 */
/* Write memory snapshots. */
#include "trace/memory_snapshot.h"

#include "pb_field_numbers.h"
#include "trace.pb-c.h"
#include "trace/write/writer_state.h"

uint64_t memory_snapshot_rss(const struct memory_snapshot *snapshot)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < MEMORY_KINDS; i++)
        sum += snapshot->parts[i].rss_bytes;
    return sum;
}

static void fill_part(Perfetto__Protos__MemorySnapshot__Part *part, unsigned kind,
                      const struct memory_part *from)
{
    perfetto__protos__memory_snapshot__part__init(part);
    part->has_kind = part->has_rss_bytes = part->has_mapped_bytes = part->has_mappings = true;
    part->kind = (Perfetto__Protos__MemorySnapshot__Kind)kind;
    part->rss_bytes = from->rss_bytes;
    part->has_swap_bytes = from->swap_bytes != 0;
    part->swap_bytes = from->swap_bytes;
    part->mapped_bytes = from->mapped_bytes;
    part->mappings = from->mappings;
}

int trace_writer_memory_snapshot(struct trace_writer *writer,
                                 const struct memory_snapshot *snapshot)
{
    Perfetto__Protos__MemorySnapshot message = PERFETTO__PROTOS__MEMORY_SNAPSHOT__INIT;
    Perfetto__Protos__MemorySnapshot__Part parts[MEMORY_KINDS], *pointers[MEMORY_KINDS];
    for (unsigned i = 0; i < MEMORY_KINDS; i++) {
        if (snapshot->parts[i].mappings == 0)
            continue;
        fill_part(&parts[message.n_parts], i, &snapshot->parts[i]);
        pointers[message.n_parts] = &parts[message.n_parts];
        message.n_parts++;
    }
    message.parts = pointers;
    message.has_pid = message.has_live_bytes = message.has_live_bytes_variance = true;
    message.has_live_count = message.has_duration_us = true;
    message.pid = snapshot->pid;
    message.live_bytes = snapshot->live_bytes;
    message.live_bytes_variance = snapshot->live_bytes_variance;
    message.live_count = snapshot->live_count;
    message.has_rounding_bytes = snapshot->rounding_rule != NULL;
    message.rounding_bytes = snapshot->rounding_bytes;
    message.rounding_rule = (char *)snapshot->rounding_rule;
    message.has_untouched_bytes = message.has_swapped_bytes = !snapshot->pages_unknown;
    message.untouched_bytes = snapshot->untouched_bytes;
    message.swapped_bytes = snapshot->swapped_bytes;
    message.has_pages_unknown = snapshot->pages_unknown;
    message.pages_unknown = snapshot->pages_unknown;
    message.allocator = (char *)snapshot->allocator;
    message.duration_us = snapshot->duration_us;
    packet_begin(writer, snapshot->boottime_ns, SEQUENCE_PLAIN);
    proto_put_message(&writer->packet, PB_TRACE_PACKET_MEMORY_SNAPSHOT, &message.base);
    return packet_end(writer);
}
