/* SPDX-License-Identifier: Apache-2.0 */
/* Write memory snapshots. */
#include "trace/memory_snapshot.h"

#include "pb_field_numbers.h"
#include "trace.pb-c.h"
#include "trace/write/writer_state.h"

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
    part->has_huge_bytes = from->huge_bytes != 0;
    part->huge_bytes = from->huge_bytes;
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
    message.has_others_live_bytes = message.has_others_live_variance =
        snapshot->parts[MEMORY_OTHER_HEAPS].mappings > 0;
    message.others_live_bytes = snapshot->others_live_bytes;
    message.others_live_variance = snapshot->others_live_variance;
    message.has_arenas = message.has_arenas_rss_bytes = snapshot->arenas > 0;
    message.arenas = snapshot->arenas;
    message.arenas_rss_bytes = snapshot->arenas_rss_bytes;
    message.allocator = (char *)snapshot->allocator;
    message.duration_us = snapshot->duration_us;
    message.has_unexplained_bytes = message.has_anonymous_bytes = snapshot->has_unexplained;
    message.has_most_unexplained_bytes = message.has_most_anonymous_bytes =
        snapshot->has_unexplained;
    message.unexplained_bytes = snapshot->unexplained.bytes;
    message.anonymous_bytes = snapshot->unexplained.of_bytes;
    message.most_unexplained_bytes = snapshot->most_unexplained.bytes;
    message.most_anonymous_bytes = snapshot->most_unexplained.of_bytes;
    packet_begin(writer, snapshot->boottime_ns, SEQUENCE_PLAIN);
    proto_put_message(&writer->packet, PB_TRACE_PACKET_MEMORY_SNAPSHOT, &message.base);
    return packet_end(writer);
}
