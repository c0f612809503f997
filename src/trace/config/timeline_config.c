/* SPDX-License-Identifier: Apache-2.0 */
/* Convert the two data sources from and to a struct heap_timeline. */
#include "trace/config/timeline_config.h"

#include <string.h>

#include "trace/system_counters.h"

#define MEMINFO_BIT(counter) (UINT64_C(1) << PERFETTO__PROTOS__MEMINFO_COUNTERS__MEMINFO_##counter)

_Static_assert(MEMINFO_COUNTERS <= 64 && VMSTAT_COUNTERS <= 3 * 64, "a bit for each counter");

static void set_bit(uint64_t *bits, uint32_t number)
{
    bits[number / 64] |= UINT64_C(1) << number % 64;
}

struct heap_timeline heap_timeline_default(void)
{
    static const Perfetto__Protos__VmstatCounters vmstat[] = {
        PERFETTO__PROTOS__VMSTAT_COUNTERS__VMSTAT_PGFAULT,
        PERFETTO__PROTOS__VMSTAT_COUNTERS__VMSTAT_PGMAJFAULT,
        PERFETTO__PROTOS__VMSTAT_COUNTERS__VMSTAT_PSWPIN,
        PERFETTO__PROTOS__VMSTAT_COUNTERS__VMSTAT_PSWPOUT,
        PERFETTO__PROTOS__VMSTAT_COUNTERS__VMSTAT_OOM_KILL,
    };
    struct heap_timeline timeline = {
        .process_ms = HEAP_TIMELINE_MS,
        .meminfo_ms = HEAP_TIMELINE_SYSTEM_MS,
        .vmstat_ms = HEAP_TIMELINE_SYSTEM_MS,
        .psi_ms = HEAP_TIMELINE_SYSTEM_MS,
        .meminfo_counters = MEMINFO_BIT(MEM_TOTAL) | MEMINFO_BIT(MEM_FREE) |
                            MEMINFO_BIT(MEM_AVAILABLE) | MEMINFO_BIT(CACHED) |
                            MEMINFO_BIT(SWAP_TOTAL) | MEMINFO_BIT(SWAP_FREE),
    };
    for (size_t i = 0; i < sizeof(vmstat) / sizeof(vmstat[0]); i++)
        set_bit(timeline.vmstat_counters, vmstat[i]);
    return timeline;
}

void heap_timeline_set_period(struct heap_timeline *timeline, uint32_t period_ms)
{
    uint32_t system_ms = period_ms > HEAP_TIMELINE_SYSTEM_MS ? period_ms : HEAP_TIMELINE_SYSTEM_MS;
    timeline->has_process = timeline->has_system = true;
    timeline->process_ms = period_ms > HEAP_TIMELINE_MS ? period_ms : HEAP_TIMELINE_MS;
    timeline->meminfo_ms = timeline->vmstat_ms = timeline->psi_ms = system_ms;
}

/* --- reading --- */

static uint32_t at_least(uint32_t period_ms)
{
    return period_ms > 0 && period_ms < HEAP_TIMELINE_MS ? HEAP_TIMELINE_MS : period_ms;
}

/* Set the bits of the listed counters; an empty list means all. */
static void take_counters(uint64_t *bits, size_t words, const unsigned *counters, size_t count)
{
    memset(bits, count == 0 ? 0xff : 0, words * sizeof(*bits));
    for (size_t i = 0; i < count; i++)
        if (counters[i] < words * 64)
            set_bit(bits, counters[i]);
}

bool heap_timeline_take(struct heap_timeline *timeline,
                        const Perfetto__Protos__DataSourceConfig *source)
{
    const Perfetto__Protos__ProcessStatsConfig *process = source->process_stats_config;
    const Perfetto__Protos__SysStatsConfig *system = source->sys_stats_config;
    if (strcmp(source->name, PROCESS_DATA_SOURCE) == 0) {
        timeline->has_process = true;
        if (process != NULL && process->proc_stats_poll_ms > 0)
            timeline->process_ms = at_least(process->proc_stats_poll_ms);
        timeline->smaps_rollup = process != NULL && process->scan_smaps_rollup;
        return true;
    }
    if (strcmp(source->name, SYSTEM_DATA_SOURCE) != 0)
        return false;
    timeline->has_system = true;
    timeline->meminfo_ms = timeline->vmstat_ms = timeline->psi_ms = 0;
    if (system == NULL)
        return true;
    timeline->meminfo_ms = at_least(system->meminfo_period_ms);
    timeline->vmstat_ms = at_least(system->vmstat_period_ms);
    timeline->psi_ms = at_least(system->psi_period_ms);
    take_counters(&timeline->meminfo_counters, 1, (const unsigned *)system->meminfo_counters,
                  system->n_meminfo_counters);
    take_counters(timeline->vmstat_counters, 3, (const unsigned *)system->vmstat_counters,
                  system->n_vmstat_counters);
    return true;
}

static bool is_set(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
    const char *quantifier = (const char *)message + field->quantifier_offset;
    if (field->label == PROTOBUF_C_LABEL_REPEATED)
        return *(const size_t *)quantifier > 0;
    return *(const protobuf_c_boolean *)quantifier != 0;
}

const char *heap_timeline_ignored(const Perfetto__Protos__DataSourceConfig *source, unsigned *next)
{
    /* What a session records anyway is no field without effect. */
    static const char *const taken[] = {
        "proc_stats_poll_ms", "scan_smaps_rollup", "record_thread_names",
        "record_process_age", "meminfo_period_ms", "meminfo_counters",
        "vmstat_period_ms",   "vmstat_counters",   "psi_period_ms",
    };
    const ProtobufCMessage *message = NULL;
    if (source->process_stats_config != NULL)
        message = &source->process_stats_config->base;
    else if (source->sys_stats_config != NULL)
        message = &source->sys_stats_config->base;
    while (message != NULL && *next < message->descriptor->n_fields) {
        const ProtobufCFieldDescriptor *field = &message->descriptor->fields[(*next)++];
        bool is_taken = false;
        for (size_t i = 0; i < sizeof(taken) / sizeof(taken[0]); i++)
            is_taken |= strcmp(taken[i], field->name) == 0;
        if (!is_taken && is_set(message, field))
            return field->name;
    }
    return NULL;
}

/* --- writing --- */

/* List the counters whose bits are set, unless all are. Return their number. */
static size_t list_counters(const uint64_t *bits, size_t words, unsigned *counters)
{
    size_t count = 0;
    for (size_t i = 0; i < words * 64; i++)
        if ((bits[i / 64] >> i % 64 & 1) != 0)
            counters[count++] = (unsigned)i;
    return count == words * 64 ? 0 : count;
}

static void fill_process(const struct heap_timeline *timeline,
                         Perfetto__Protos__ProcessStatsConfig *process)
{
    perfetto__protos__process_stats_config__init(process);
    process->has_proc_stats_poll_ms = true;
    process->proc_stats_poll_ms = timeline->process_ms;
    process->has_scan_smaps_rollup = process->scan_smaps_rollup = timeline->smaps_rollup;
}

static void fill_system(const struct heap_timeline *timeline, struct timeline_sources *sources)
{
    Perfetto__Protos__SysStatsConfig *system = &sources->system;
    perfetto__protos__sys_stats_config__init(system);
    system->has_meminfo_period_ms = timeline->meminfo_ms > 0;
    system->meminfo_period_ms = timeline->meminfo_ms;
    system->has_vmstat_period_ms = timeline->vmstat_ms > 0;
    system->vmstat_period_ms = timeline->vmstat_ms;
    system->has_psi_period_ms = timeline->psi_ms > 0;
    system->psi_period_ms = timeline->psi_ms;
    system->meminfo_counters = sources->meminfo;
    system->vmstat_counters = sources->vmstat;
    if (timeline->meminfo_ms > 0)
        system->n_meminfo_counters =
            list_counters(&timeline->meminfo_counters, 1, (unsigned *)sources->meminfo);
    if (timeline->vmstat_ms > 0)
        system->n_vmstat_counters =
            list_counters(timeline->vmstat_counters, 3, (unsigned *)sources->vmstat);
}

size_t heap_timeline_fill(const struct heap_timeline *timeline, struct timeline_sources *sources,
                          Perfetto__Protos__TraceConfig__DataSource **list)
{
    size_t count = 0;
    for (size_t i = 0; i < 2; i++) {
        bool is_process = i == 0;
        if (is_process ? !timeline->has_process : !timeline->has_system)
            continue;
        Perfetto__Protos__DataSourceConfig *config = &sources->configs[i];
        perfetto__protos__data_source_config__init(config);
        config->name = is_process ? PROCESS_DATA_SOURCE : SYSTEM_DATA_SOURCE;
        config->has_target_buffer = true;
        if (is_process) {
            fill_process(timeline, &sources->process);
            config->process_stats_config = &sources->process;
        } else {
            fill_system(timeline, sources);
            config->sys_stats_config = &sources->system;
        }
        perfetto__protos__trace_config__data_source__init(&sources->sources[i]);
        sources->sources[i].config = config;
        list[count++] = &sources->sources[i];
    }
    return count;
}
