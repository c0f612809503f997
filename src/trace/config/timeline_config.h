/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of a TraceConfig that say what is recorded beside the heap. */
#ifndef HEAPPROFD_TRACE_CONFIG_TIMELINE_CONFIG_H
#define HEAPPROFD_TRACE_CONFIG_TIMELINE_CONFIG_H

#include "config.pb-c.h"
#include "trace/config/trace_config.h"

#define PROCESS_DATA_SOURCE "linux.process_stats"
#define SYSTEM_DATA_SOURCE "linux.sys_stats"

struct heap_timeline heap_timeline_default(void);

/* Take over a data source. Return false if it is neither of the two. */
bool heap_timeline_take(struct heap_timeline *timeline,
                        const Perfetto__Protos__DataSourceConfig *source);

/* Return the name of the next field that the data source sets and that is not taken over; NULL:
 * there are no more. *next begins with 0. */
const char *heap_timeline_ignored(const Perfetto__Protos__DataSourceConfig *source, unsigned *next);

/* The messages of the data sources that a configuration has. They point into themselves. */
struct timeline_sources {
    Perfetto__Protos__ProcessStatsConfig process;
    Perfetto__Protos__SysStatsConfig system;
    Perfetto__Protos__MeminfoCounters meminfo[64];
    Perfetto__Protos__VmstatCounters vmstat[3 * 64];
    Perfetto__Protos__DataSourceConfig configs[2];
    Perfetto__Protos__TraceConfig__DataSource sources[2];
};

/* Append the configuration's data sources to a list. Return their number. */
size_t heap_timeline_fill(const struct heap_timeline *timeline, struct timeline_sources *sources,
                          Perfetto__Protos__TraceConfig__DataSource **list);

#endif
