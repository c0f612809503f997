/* SPDX-License-Identifier: Apache-2.0 */
/* Our own table about how processes ended. */
#include "tools/query/query_table.h"
#include "trace/process_end.h"

static size_t end_count(struct query_trace *trace)
{
    size_t count = 0;
    for (size_t i = 0; i < trace->profile->process_count; i++)
        count += trace->profile->processes[i].has_end;
    return count;
}

/* Set row->part to the process, too. */
static void find_end(struct query_row *row)
{
    const struct profile *profile = row->trace->profile;
    size_t process = 0, left = row->number;
    while (!profile->processes[process].has_end || left-- > 0)
        process++;
    row->part = process;
    row->item = &profile->processes[process].end;
}

static struct query_value size_or_null(uint64_t bytes)
{
    return bytes == 0 ? query_null() : query_integer((int64_t)bytes);
}

#define END(column, expression)                                                                    \
    QUERY_GETTER(end_##column, const struct process_end *end, expression)

END(upid, query_id(row->trace->bases.process, row->trace->process_rows[row->part]))
END(how, query_text(process_end_how_name(end)))
END(code, end->how == PROCESS_END_UNKNOWN ? query_null() : query_integer(end->code))
END(core_dumped, query_integer(end->core_dumped))
END(oom_killer, query_integer(process_end_is_oom(end)))
END(oom_kills, query_text(process_end_oom_kills_name(end)))
END(cgroup, query_text_or_null(end->cgroup))
END(limit_size, size_or_null(end->limit_bytes))
END(used_size, size_or_null(end->used_bytes))
END(peak_size, size_or_null(end->peak_bytes))
END(rss_size, size_or_null(end->rss_bytes))
END(profiler_rss_size, size_or_null(end->profiler_rss_bytes))
END(most_rss_size, size_or_null(end->most_rss_bytes))
#undef END

static const struct query_column end_columns[] = {
    {"upid", INT, "process", .get = end_upid, .lookup = QUERY_INDEXED},
    {QUERY_MEMBER("ts", "when, in ns", struct process_end, boottime_ns)},
    {"how", TEXT, "exit, signal or unknown", .get = end_how},
    {"code", INT, "exit code, or signal; NULL: unknown", .get = end_code},
    {"core_dumped", INT, "1: it left a core file", .get = end_core_dumped},
    {"oom_killer", INT, "1: signal 9, and an oom_kill counter rose", .get = end_oom_killer},
    {"oom_kills", TEXT, "that counter: unknown, unchanged, cgroup_rose or machine_rose",
     .get = end_oom_kills},
    {"cgroup", TEXT, "its memory cgroup; NULL: unknown", .get = end_cgroup},
    {"limit_size", INT, "lowest limit of the cgroup and those around it; NULL: none known",
     .get = end_limit_size},
    {"used_size", INT,
     "most that the cgroup with that limit was seen to use in the last seconds; NULL: unknown",
     .get = end_used_size},
    {"peak_size", INT, "its highest use; NULL: unknown", .get = end_peak_size},
    {"rss_size", INT, "resident bytes of the program at the last look; NULL: unknown",
     .get = end_rss_size},
    {"profiler_rss_size", INT, "the profiler's own beside it; NULL: unknown, and part of rss_size",
     .get = end_profiler_rss_size},
    {"most_rss_size", INT,
     "the most that was ever resident, the profiler's own included, by the kernel's count; NULL: "
     "unknown",
     .get = end_most_rss_size},
};

const struct query_table query_end_tables[] = {
    {"hp_process_end", "how processes ended", QUERY_COLUMNS(end_columns), false, end_count, NULL,
     find_end, NULL},
    {0},
};
