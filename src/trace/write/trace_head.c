/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The writer's single packets: the head of a trace, the names of processes and threads, and
 * processes that were not profiled.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "pb_field_numbers.h"
#include "trace.pb-c.h"
#include "trace/write/writer_state.h"

typedef Perfetto__Protos__ClockSnapshot ClockSnapshot;
typedef Perfetto__Protos__ClockSnapshot__Clock Clock;
typedef Perfetto__Protos__ProcessTree ProcessTree;
typedef Perfetto__Protos__ProcessTree__Process TreeProcess;
typedef Perfetto__Protos__ProcessTree__Thread TreeThread;

/* Command lines are for readers. Longer ones are truncated to fit the packet. */
#define ARGUMENT_BYTES_MAX 4096u
#define ARGUMENTS_MAX 64u
/* Threads in one packet: with names of 16 bytes it is far below the limit. */
#define THREADS_IN_PACKET 4096u

int trace_writer_clock_snapshot(struct trace_writer *writer)
{
    static const struct {
        uint32_t id;
        clockid_t clock;
    } kinds[] = {
        {PERFETTO__PROTOS__BUILTIN_CLOCK__BUILTIN_CLOCK_BOOTTIME, CLOCK_BOOTTIME},
        {PERFETTO__PROTOS__BUILTIN_CLOCK__BUILTIN_CLOCK_REALTIME, CLOCK_REALTIME},
        {PERFETTO__PROTOS__BUILTIN_CLOCK__BUILTIN_CLOCK_REALTIME_COARSE, CLOCK_REALTIME_COARSE},
        {PERFETTO__PROTOS__BUILTIN_CLOCK__BUILTIN_CLOCK_MONOTONIC, CLOCK_MONOTONIC},
        {PERFETTO__PROTOS__BUILTIN_CLOCK__BUILTIN_CLOCK_MONOTONIC_COARSE, CLOCK_MONOTONIC_COARSE},
        {PERFETTO__PROTOS__BUILTIN_CLOCK__BUILTIN_CLOCK_MONOTONIC_RAW, CLOCK_MONOTONIC_RAW},
    };
    enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };
    struct timespec now[KINDS];
    Clock clocks[KINDS], *pointers[KINDS];
    for (size_t i = 0; i < KINDS; i++)
        clock_gettime(kinds[i].clock, &now[i]);
    for (size_t i = 0; i < KINDS; i++) {
        perfetto__protos__clock_snapshot__clock__init(&clocks[i]);
        clocks[i].has_clock_id = clocks[i].has_timestamp = true;
        clocks[i].clock_id = kinds[i].id;
        clocks[i].timestamp = (uint64_t)now[i].tv_sec * 1000000000u + (uint64_t)now[i].tv_nsec;
        pointers[i] = &clocks[i];
    }
    ClockSnapshot snapshot = PERFETTO__PROTOS__CLOCK_SNAPSHOT__INIT;
    snapshot.n_clocks = KINDS;
    snapshot.clocks = pointers;
    snapshot.has_primary_trace_clock = true;
    snapshot.primary_trace_clock = PERFETTO__PROTOS__BUILTIN_CLOCK__BUILTIN_CLOCK_BOOTTIME;
    return packet_write_message(writer, PB_TRACE_PACKET_CLOCK_SNAPSHOT, &snapshot.base);
}

int trace_writer_uuid(struct trace_writer *writer)
{
    uint64_t random[2];
    if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
        return writer->error; /* the UUID is optional */
    Perfetto__Protos__TraceUuid uuid = PERFETTO__PROTOS__TRACE_UUID__INIT;
    uuid.has_msb = uuid.has_lsb = true;
    uuid.msb = (int64_t)((random[0] & ~UINT64_C(0xf000)) | UINT64_C(0x4000));
    uuid.lsb = (int64_t)((random[1] & ~(UINT64_C(3) << 62)) | UINT64_C(1) << 63);
    return packet_write_message(writer, PB_TRACE_PACKET_TRACE_UUID, &uuid.base);
}

int trace_writer_system_info(struct trace_writer *writer)
{
    struct utsname name;
    struct sysinfo memory;
    Perfetto__Protos__Utsname utsname = PERFETTO__PROTOS__UTSNAME__INIT;
    Perfetto__Protos__SystemInfo info = PERFETTO__PROTOS__SYSTEM_INFO__INIT;
    if (uname(&name) == 0) {
        utsname.sysname = name.sysname;
        utsname.version = name.version;
        utsname.release = name.release;
        utsname.machine = name.machine;
        info.utsname = &utsname;
    }
    info.tracing_service_version = "heapprofd " HEAPPROFD_VERSION;
    info.has_page_size = info.has_num_cpus = info.has_hz = true;
    info.page_size = (uint32_t)sysconf(_SC_PAGESIZE);
    info.num_cpus = (uint32_t)sysconf(_SC_NPROCESSORS_CONF);
    info.hz = sysconf(_SC_CLK_TCK);
    info.has_system_ram_bytes = sysinfo(&memory) == 0;
    if (info.has_system_ram_bytes)
        info.system_ram_bytes = (uint64_t)memory.totalram * memory.mem_unit;
    return packet_write_message(writer, PB_TRACE_PACKET_SYSTEM_INFO, &info.base);
}

int trace_writer_config(struct trace_writer *writer, const void *bytes, size_t length)
{
    packet_begin(writer, packet_time_ns(writer), SEQUENCE_PLAIN);
    proto_put_bytes(&writer->packet, PB_TRACE_PACKET_TRACE_CONFIG, bytes, length);
    return packet_end(writer);
}

static void put_process(struct proto_buffer *tree, const struct trace_process *process,
                        struct proto_buffer *entry)
{
    TreeProcess head = PERFETTO__PROTOS__PROCESS_TREE__PROCESS__INIT;
    head.has_pid = head.has_ppid = head.has_uid = true;
    head.pid = process->pid;
    head.ppid = process->parent_pid;
    head.uid = process->uid;
    head.has_cmdline_is_comm = process->arguments_are_comm;
    head.cmdline_is_comm = process->arguments_are_comm;
    head.has_process_start_from_boot = process->start_boottime_ns != 0;
    head.process_start_from_boot = process->start_boottime_ns;
    head.has_image = process->image != 0;
    head.image = process->image;
    entry->length = 0;
    uint8_t *at = proto_buffer_reserve(entry, PACKET_OVERHEAD_BYTES);
    if (at != NULL)
        entry->length = protobuf_c_message_pack(&head.base, at);
    for (size_t i = 0; i < process->argument_count && i < ARGUMENTS_MAX; i++)
        proto_put_bytes(entry, PB_PROCESS_TREE_PROCESS_CMDLINE, process->arguments[i],
                        strnlen(process->arguments[i], ARGUMENT_BYTES_MAX));
    if (process->name != NULL)
        proto_put_bytes(entry, PB_PROCESS_TREE_PROCESS_NAME, process->name,
                        strnlen(process->name, ARGUMENT_BYTES_MAX));
    proto_put_bytes(tree, PB_PROCESS_TREE_PROCESSES, entry->bytes, entry->length);
}

static void put_thread(struct proto_buffer *tree, const struct trace_thread *thread)
{
    TreeThread entry = PERFETTO__PROTOS__PROCESS_TREE__THREAD__INIT;
    entry.has_tid = entry.has_tgid = true;
    entry.tid = thread->tid;
    entry.tgid = thread->pid;
    entry.name = (char *)thread->name;
    proto_put_message(tree, PB_PROCESS_TREE_THREADS, &entry.base);
}

static int write_tree(struct trace_writer *writer, const struct proto_buffer *tree)
{
    if (tree->failed && writer->error == 0)
        writer->error = -ENOMEM;
    packet_begin(writer, packet_time_ns(writer), SEQUENCE_PLAIN);
    proto_put_bytes(&writer->packet, PB_TRACE_PACKET_PROCESS_TREE, tree->bytes, tree->length);
    return packet_end(writer);
}

int trace_writer_process_tree(struct trace_writer *writer, const struct trace_process *processes,
                              size_t process_count, const struct trace_thread *threads,
                              size_t thread_count)
{
    struct proto_buffer tree = {0};
    size_t threads_in_packet = 0;
    for (size_t i = 0; i < process_count; i++) {
        put_process(&tree, &processes[i], &writer->scratch);
        if (tree.length > TRACE_PACKET_BYTES_MAX / 4) {
            write_tree(writer, &tree);
            tree.length = 0;
        }
    }
    for (size_t i = 0; i < thread_count; i++) {
        put_thread(&tree, &threads[i]);
        if (++threads_in_packet == THREADS_IN_PACKET || tree.length > TRACE_PACKET_BYTES_MAX / 4) {
            write_tree(writer, &tree);
            tree.length = threads_in_packet = 0;
        }
    }
    if (tree.length > 0)
        write_tree(writer, &tree);
    proto_buffer_free(&tree);
    return writer->error;
}

int trace_writer_unprofiled(struct trace_writer *writer, const struct trace_unprofiled *process)
{
    Perfetto__Protos__UnprofiledProcess entry = PERFETTO__PROTOS__UNPROFILED_PROCESS__INIT;
    entry.has_pid = entry.has_parent_pid = true;
    entry.pid = process->pid;
    entry.parent_pid = process->parent_pid;
    entry.name = (char *)process->name;
    entry.reason = (char *)process->reason;
    entry.has_by_choice = entry.by_choice = process->by_choice;
    entry.has_count = true;
    entry.count = process->count;
    entry.kind = (char *)process->kind;
    return packet_write_message(writer, PB_TRACE_PACKET_UNPROFILED_PROCESS, &entry.base);
}
