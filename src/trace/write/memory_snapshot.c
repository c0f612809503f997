/* SPDX-License-Identifier: Apache-2.0 */
/* Write memory snapshots. */
#include "trace/memory_snapshot.h"

#include "pb_field_numbers.h"
#include "trace.pb-c.h"
#include "trace/write/writer_state.h"

uint64_t memory_snapshot_rss(const struct memory_snapshot *look)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < MEMORY_KINDS; i++)
        sum += look->parts[i].rss_bytes;
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

int trace_writer_memory_snapshot(struct trace_writer *writer, const struct memory_snapshot *look)
{
    Perfetto__Protos__MemorySnapshot message = PERFETTO__PROTOS__MEMORY_SNAPSHOT__INIT;
    Perfetto__Protos__MemorySnapshot__Part parts[MEMORY_KINDS], *pointers[MEMORY_KINDS];
    for (unsigned i = 0; i < MEMORY_KINDS; i++) {
        if (look->parts[i].mappings == 0)
            continue;
        fill_part(&parts[message.n_parts], i, &look->parts[i]);
        pointers[message.n_parts] = &parts[message.n_parts];
        message.n_parts++;
    }
    message.parts = pointers;
    message.has_pid = message.has_live_bytes = message.has_live_bytes_variance = true;
    message.has_live_count = message.has_duration_us = true;
    message.pid = look->pid;
    message.live_bytes = look->live_bytes;
    message.live_bytes_variance = look->live_bytes_variance;
    message.live_count = look->live_count;
    message.has_rounding_bytes = look->rounding_rule != NULL;
    message.rounding_bytes = look->rounding_bytes;
    message.rounding_rule = (char *)look->rounding_rule;
    message.has_untouched_bytes = message.has_swapped_bytes = !look->pages_unknown;
    message.untouched_bytes = look->untouched_bytes;
    message.swapped_bytes = look->swapped_bytes;
    message.has_pages_unknown = look->pages_unknown;
    message.pages_unknown = look->pages_unknown;
    message.allocator = (char *)look->allocator;
    message.duration_us = look->duration_us;
    packet_begin(writer, look->boottime_ns, SEQUENCE_PLAIN);
    proto_put_message(&writer->packet, PB_TRACE_PACKET_MEMORY_SNAPSHOT, &message.base);
    return packet_end(writer);
}
