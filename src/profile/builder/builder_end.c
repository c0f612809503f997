/* SPDX-License-Identifier: Apache-2.0 */
/* Read ProcessEnds: how processes ended. */
#include "pb_field_numbers.h"
#include "profile/builder/builder.h"

#define END_MEMBER(name, member) PROTO_MEMBER(PB_PROCESS_END_##name, struct process_end, member)

int builder_process_end(struct builder *builder, struct proto_span message, uint64_t packet_ns)
{
    static const struct proto_member members[] = {
        END_MEMBER(PID, pid),
        END_MEMBER(HOW, how),
        END_MEMBER(CODE, code),
        END_MEMBER(CORE_DUMPED, core_dumped),
        END_MEMBER(OOM_KILLS, oom_kills),
        END_MEMBER(CGROUP, cgroup),
        END_MEMBER(LIMIT_BYTES, limit_bytes),
        END_MEMBER(USED_BYTES, used_bytes),
        END_MEMBER(PEAK_BYTES, peak_bytes),
        END_MEMBER(RSS_BYTES, rss_bytes),
        END_MEMBER(PROFILER_RSS_BYTES, profiler_rss_bytes),
        END_MEMBER(MOST_RSS_BYTES, most_rss_bytes),
    };
    struct process_end end = {.boottime_ns = packet_ns};
    int code = builder_read_members(builder, PROTO_MEMBERS(members), message, &end);
    if (code < 0)
        return code;
    uint32_t index = builder_process(builder, end.pid);
    if (index == PROFILE_NONE)
        return builder->error;
    struct profile_process *process = &builder->profile->processes[index];
    process->end = end;
    process->has_end = true;
    builder_date(builder, DATED_END, index, 0);
    return builder->error;
}
