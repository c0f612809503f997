/* SPDX-License-Identifier: Apache-2.0 */
/* Write the packets beside the heap. */
#include "trace/write/trace_timeline.h"

#include "pb_field_numbers.h"
#include "trace.pb-c.h"
#include "trace/write/writer_state.h"

/* --- memory of a process --- */

typedef Perfetto__Protos__ProcessStats__Process StatsProcess;

#define SET_KNOWN(message, field, value)                                                           \
    do {                                                                                           \
        (message)->has_##field = (value) != TRACE_UNKNOWN;                                         \
        (message)->field = (value);                                                                \
    } while (0)

static void put_stats(struct trace_writer *writer, StatsProcess *process)
{
    Perfetto__Protos__ProcessStats stats = PERFETTO__PROTOS__PROCESS_STATS__INIT;
    StatsProcess *processes[] = {process};
    process->has_pid = true;
    stats.n_processes = 1;
    stats.processes = processes;
    proto_put_message(&writer->packet, PB_TRACE_PACKET_PROCESS_STATS, &stats.base);
}

static void put_heap_size(struct trace_writer *writer, const struct trace_memory_point *point)
{
    Perfetto__Protos__HeapSize heap = PERFETTO__PROTOS__HEAP_SIZE__INIT;
    heap.has_pid = heap.has_live_bytes = true;
    heap.pid = point->pid;
    heap.live_bytes = point->heap_bytes;
    SET_KNOWN(&heap, profiler_anon_bytes, point->profiler_anon_bytes);
    SET_KNOWN(&heap, profiler_file_bytes, point->profiler_file_bytes);
    SET_KNOWN(&heap, profiler_shmem_bytes, point->profiler_shmem_bytes);
    proto_put_message(&writer->packet, PB_TRACE_PACKET_HEAP_SIZE, &heap.base);
}

int trace_writer_heap_size(struct trace_writer *writer, const struct trace_memory_point *point)
{
    packet_begin(writer, point->boottime_ns, SEQUENCE_PLAIN);
    put_heap_size(writer, point);
    return packet_end_soon(writer);
}

int trace_writer_memory_point(struct trace_writer *writer, const struct trace_memory_point *point)
{
    StatsProcess process = PERFETTO__PROTOS__PROCESS_STATS__PROCESS__INIT;
    process.pid = point->pid;
    SET_KNOWN(&process, vm_size_kb, point->vm_size_kb);
    SET_KNOWN(&process, vm_rss_kb, point->vm_rss_kb);
    SET_KNOWN(&process, rss_anon_kb, point->rss_anon_kb);
    SET_KNOWN(&process, rss_file_kb, point->rss_file_kb);
    SET_KNOWN(&process, rss_shmem_kb, point->rss_shmem_kb);
    SET_KNOWN(&process, vm_swap_kb, point->vm_swap_kb);
    SET_KNOWN(&process, vm_locked_kb, point->vm_locked_kb);
    SET_KNOWN(&process, vm_hwm_kb, point->vm_hwm_kb);
    process.has_oom_score_adj = point->has_oom_score_adj;
    process.oom_score_adj = point->oom_score_adj;
    packet_begin(writer, point->boottime_ns, SEQUENCE_PLAIN);
    put_stats(writer, &process);
    put_heap_size(writer, point);
    return packet_end_soon(writer);
}

int trace_writer_smaps_sums(struct trace_writer *writer, const struct trace_smaps_sums *sums)
{
    StatsProcess process = PERFETTO__PROTOS__PROCESS_STATS__PROCESS__INIT;
    process.pid = sums->pid;
    SET_KNOWN(&process, smr_rss_kb, sums->rss_kb);
    SET_KNOWN(&process, smr_pss_kb, sums->pss_kb);
    SET_KNOWN(&process, smr_pss_anon_kb, sums->pss_anon_kb);
    SET_KNOWN(&process, smr_pss_file_kb, sums->pss_file_kb);
    SET_KNOWN(&process, smr_pss_shmem_kb, sums->pss_shmem_kb);
    SET_KNOWN(&process, smr_swap_pss_kb, sums->swap_pss_kb);
    packet_begin(writer, sums->boottime_ns, SEQUENCE_PLAIN);
    put_stats(writer, &process);
    return packet_end(writer);
}

/* --- counter tracks --- */

static const struct {
    const char *name;
    Perfetto__Protos__CounterDescriptor__Unit unit;
} counters[TRACE_COUNTERS] = {
    [TRACE_COUNTER_MINOR_FAULTS] = {"mem.faults.minor",
                                    PERFETTO__PROTOS__COUNTER_DESCRIPTOR__UNIT__UNIT_COUNT},
    [TRACE_COUNTER_MAJOR_FAULTS] = {"mem.faults.major",
                                    PERFETTO__PROTOS__COUNTER_DESCRIPTOR__UNIT__UNIT_COUNT},
    [TRACE_COUNTER_CGROUP_SOME_NS] = {"mem.cgroup.psi.some",
                                      PERFETTO__PROTOS__COUNTER_DESCRIPTOR__UNIT__UNIT_TIME_NS},
    [TRACE_COUNTER_CGROUP_FULL_NS] = {"mem.cgroup.psi.full",
                                      PERFETTO__PROTOS__COUNTER_DESCRIPTOR__UNIT__UNIT_TIME_NS},
};

/* Mix the bits (the finalizer of splitmix64): numbers of tracks are unique in the whole trace, also
 * among those of other programs. */
static uint64_t mix(uint64_t value)
{
    value = (value ^ value >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    value = (value ^ value >> 27) * UINT64_C(0x94d049bb133111eb);
    return value ^ value >> 31;
}

uint64_t trace_process_track(int32_t pid, uint64_t start_boottime_ns)
{
    return mix(mix(start_boottime_ns + UINT64_C(0x9e3779b97f4a7c15)) + (uint32_t)pid) | 1;
}

static uint64_t counter_track(enum trace_counter counter, int32_t pid, uint64_t start_boottime_ns)
{
    return mix(trace_process_track(pid, start_boottime_ns) + 1 + counter) | 1;
}

static int write_track(struct trace_writer *writer,
                       const Perfetto__Protos__TrackDescriptor *descriptor)
{
    return packet_write_message(writer, PB_TRACE_PACKET_TRACK_DESCRIPTOR, &descriptor->base);
}

int trace_writer_process_track(struct trace_writer *writer, int32_t pid, uint64_t start_boottime_ns)
{
    Perfetto__Protos__ProcessDescriptor process = PERFETTO__PROTOS__PROCESS_DESCRIPTOR__INIT;
    Perfetto__Protos__TrackDescriptor track = PERFETTO__PROTOS__TRACK_DESCRIPTOR__INIT;
    process.has_pid = track.has_uuid = true;
    process.pid = pid;
    track.uuid = trace_process_track(pid, start_boottime_ns);
    track.process = &process;
    return write_track(writer, &track);
}

int trace_writer_counter_track(struct trace_writer *writer, enum trace_counter counter, int32_t pid,
                               uint64_t start_boottime_ns)
{
    Perfetto__Protos__CounterDescriptor descriptor = PERFETTO__PROTOS__COUNTER_DESCRIPTOR__INIT;
    Perfetto__Protos__TrackDescriptor track = PERFETTO__PROTOS__TRACK_DESCRIPTOR__INIT;
    descriptor.has_unit = track.has_uuid = track.has_parent_uuid = true;
    descriptor.unit = counters[counter].unit;
    track.uuid = counter_track(counter, pid, start_boottime_ns);
    track.parent_uuid = trace_process_track(pid, start_boottime_ns);
    track.name = (char *)counters[counter].name;
    track.counter = &descriptor;
    return write_track(writer, &track);
}

int trace_writer_counter(struct trace_writer *writer, uint64_t boottime_ns,
                         enum trace_counter counter, int32_t pid, uint64_t start_boottime_ns,
                         uint64_t value)
{
    Perfetto__Protos__TrackEvent event = PERFETTO__PROTOS__TRACK_EVENT__INIT;
    event.has_type = event.has_track_uuid = event.has_counter_value = true;
    event.type = PERFETTO__PROTOS__TRACK_EVENT__TYPE__TYPE_COUNTER;
    event.track_uuid = counter_track(counter, pid, start_boottime_ns);
    event.counter_value = (int64_t)value;
    /* Without its track's description a value says nothing. */
    packet_begin(writer, boottime_ns, SEQUENCE_NEEDS_INTERNED);
    proto_put_message(&writer->packet, PB_TRACE_PACKET_TRACK_EVENT, &event.base);
    return packet_end_soon(writer);
}

/* --- the machine --- */

/* Append SysStats' entries of two numbers each. */
static void put_pairs(struct proto_buffer *stats, uint32_t field,
                      const struct trace_system_counter *entries, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        Perfetto__Protos__SysStats__MeminfoValue entry =
            PERFETTO__PROTOS__SYS_STATS__MEMINFO_VALUE__INIT;
        entry.has_key = entry.has_value = true;
        entry.key = entries[i].key;
        entry.value = entries[i].value;
        proto_put_message(stats, field, &entry.base);
    }
}

int trace_writer_system_point(struct trace_writer *writer, const struct trace_system_point *point)
{
    const struct trace_system_counter pressure[] = {
        {PERFETTO__PROTOS__SYS_STATS__PSI_SAMPLE__PSI_RESOURCE__PSI_RESOURCE_MEMORY_SOME,
         point->pressure_some_ns},
        {PERFETTO__PROTOS__SYS_STATS__PSI_SAMPLE__PSI_RESOURCE__PSI_RESOURCE_MEMORY_FULL,
         point->pressure_full_ns},
    };
    struct proto_buffer *stats = &writer->scratch;
    stats->length = 0;
    put_pairs(stats, PB_SYS_STATS_MEMINFO, point->meminfo, point->meminfo_count);
    put_pairs(stats, PB_SYS_STATS_VMSTAT, point->vmstat, point->vmstat_count);
    for (size_t i = 0; i < 2; i++)
        if (pressure[i].value != TRACE_UNKNOWN)
            put_pairs(stats, PB_SYS_STATS_PSI, &pressure[i], 1);
    if (stats->length == 0)
        return writer->error;
    packet_begin(writer, point->boottime_ns, SEQUENCE_PLAIN);
    proto_put_bytes(&writer->packet, PB_TRACE_PACKET_SYS_STATS, stats->bytes, stats->length);
    return packet_end(writer);
}

/* --- lifetimes --- */

static int write_state(struct trace_writer *writer, int32_t tid, const char *name,
                       Perfetto__Protos__GenericKernelTaskStateEvent__TaskStateEnum state,
                       uint64_t boottime_ns)
{
    Perfetto__Protos__GenericKernelTaskStateEvent event =
        PERFETTO__PROTOS__GENERIC_KERNEL_TASK_STATE_EVENT__INIT;
    event.has_tid = event.has_state = true;
    event.tid = tid;
    event.comm = (char *)name;
    event.state = state;
    packet_begin(writer, boottime_ns, SEQUENCE_PLAIN);
    proto_put_message(&writer->packet, PB_TRACE_PACKET_GENERIC_KERNEL_TASK_STATE_EVENT,
                      &event.base);
    return packet_end(writer);
}

#define STATE(name)                                                                                \
    PERFETTO__PROTOS__GENERIC_KERNEL_TASK_STATE_EVENT__TASK_STATE_ENUM__TASK_STATE_##name

int trace_writer_thread_start(struct trace_writer *writer, int32_t tid, const char *name,
                              uint64_t boottime_ns)
{
    /* An earlier time would extend the trace's. */
    if (boottime_ns < writer->begin_ns)
        return writer->error;
    return write_state(writer, tid, name, STATE(CREATED), boottime_ns);
}

int trace_writer_thread_end(struct trace_writer *writer, int32_t tid, uint64_t boottime_ns)
{
    return write_state(writer, tid, NULL, STATE(DESTROYED), boottime_ns);
}

void trace_writer_set_time(struct trace_writer *writer, uint64_t boottime_ns)
{
    writer->time_ns = boottime_ns;
}

uint64_t trace_writer_time(const struct trace_writer *writer)
{
    return packet_time_ns(writer);
}
