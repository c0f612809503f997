# SPDX-License-Identifier: Apache-2.0
"""The packets that the service itself writes into a trace, as bodies of TracePackets."""

import os
import time

from .wire import message

SERVICE_SEQUENCE = 1
SYNC_MARKER = bytes.fromhex("82477a76b28d42ba81dc33326d57a079")
BOOTTIME = 6
# Clock ids of a ClockSnapshot, by Python's clocks.
CLOCKS = ((6, time.CLOCK_BOOTTIME), (1, time.CLOCK_REALTIME), (2, 5), (3, time.CLOCK_MONOTONIC), (4, 6),
          (5, time.CLOCK_MONOTONIC_RAW))
# Events of the session's life, by their fields in TracingServiceEvent.
ALL_STARTED, TRACING_STARTED, ALL_FLUSHED, READ_COMPLETED, TRACING_DISABLED, FLUSH_STARTED = 1, 2, 3, 4, 5, 9
STATS_FIELDS = {
    "buffer_size": 12, "bytes_written": 1, "bytes_overwritten": 13, "bytes_read": 14, "chunks_written": 2,
    "chunks_rewritten": 10, "chunks_overwritten": 3, "chunks_discarded": 18, "chunks_read": 17,
    "chunks_committed_out_of_order": 11, "patches_succeeded": 5, "patches_failed": 6, "readaheads_succeeded": 7,
    "readaheads_failed": 8, "abi_violations": 9, "trace_writer_packet_loss": 19,
}


def boottime_ns():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def _packet(*fields):
    return message((3, os.getuid()), (10, SERVICE_SEQUENCE), (58, BOOTTIME), *fields)


def clock_readings():
    return [(number, time.clock_gettime_ns(clock)) for number, clock in CLOCKS]


def clock_snapshot(readings):
    clocks = [(1, message((1, number), (2, value))) for number, value in readings]
    return _packet((6, message((2, BOOTTIME), *clocks)))


def sync_marker():
    return message((3, os.getuid()), (10, SERVICE_SEQUENCE), (36, SYNC_MARKER))


def trace_config(data):
    return _packet((33, data))


def trace_uuid(most_significant, least_significant):
    return _packet((8, boottime_ns()), (89, message((1, most_significant), (2, least_significant))))


def system_info():
    name = os.uname()
    utsname = message((1, name.sysname), (2, name.version), (3, name.release), (4, name.machine))
    return _packet((8, boottime_ns()), (45, message(
        (1, utsname), (3, os.sysconf("SC_CLK_TCK")), (4, "tests/tracing_service"), (6, os.sysconf("SC_PAGE_SIZE")),
        (8, os.cpu_count()),
    )))


def service_event(timestamp, number):
    return _packet((8, timestamp), (69, message((number, True))))


def trigger(timestamp, name, producer):
    return _packet((8, timestamp), (46, message((1, name), (2, producer.name), (3, producer.uid))))


def trace_stats(data):
    return _packet((35, data))


def buffer_stats(stats):
    return message(*((number, stats[name]) for name, number in STATS_FIELDS.items()))
