/* SPDX-License-Identifier: Apache-2.0 */
/* Write the ends of processes. */
#include "trace/process_end.h"

#include "pb_field_numbers.h"
#include "trace.pb-c.h"
#include "trace/write/writer_state.h"

int trace_writer_process_end(struct trace_writer *writer, const struct process_end *end)
{
    Perfetto__Protos__ProcessEnd message = PERFETTO__PROTOS__PROCESS_END__INIT;
    message.has_pid = message.has_how = message.has_oom_kills = true;
    message.pid = end->pid;
    message.how = (Perfetto__Protos__ProcessEnd__How)end->how;
    message.has_code = end->how != PROCESS_END_UNKNOWN;
    message.code = end->code;
    message.has_core_dumped = message.core_dumped = end->core_dumped;
    message.oom_kills = (Perfetto__Protos__ProcessEnd__OomKills)end->oom_kills;
    message.cgroup = (char *)end->cgroup;
    message.has_limit_bytes = end->limit_bytes != 0;
    message.limit_bytes = end->limit_bytes;
    message.has_used_bytes = end->used_bytes != 0;
    message.used_bytes = end->used_bytes;
    message.has_peak_bytes = end->peak_bytes != 0;
    message.peak_bytes = end->peak_bytes;
    message.has_rss_bytes = end->rss_bytes != 0;
    message.rss_bytes = end->rss_bytes;
    message.has_profiler_rss_bytes = end->rss_bytes != 0 && end->profiler_rss_bytes != 0;
    message.profiler_rss_bytes = end->profiler_rss_bytes;
    message.has_most_rss_bytes = end->most_rss_bytes != 0;
    message.most_rss_bytes = end->most_rss_bytes;
    packet_begin(writer, end->boottime_ns, SEQUENCE_PLAIN);
    proto_put_message(&writer->packet, PB_TRACE_PACKET_PROCESS_END, &message.base);
    return packet_end(writer);
}
