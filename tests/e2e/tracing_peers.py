#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The tests' tracing service against Perfetto's own programs: perfetto records from traced_probes through it.

Skipped where these are not found (perfetto_programs.py). What the service then does is what its documentation says,
so that our producer and consumer can be judged by it.
"""

import os

from harness import TOOL, check, main, make_work_directory, run
from perfetto_programs import Background, Sockets, need_perfetto
from tracing_service import Behaviour, TracingService
from trace import fields

WORK = make_work_directory("test-tracing-peers-")
SOURCES = """
data_sources { config { name: "linux.process_stats" target_buffer: 0
  process_stats_config { scan_all_processes_on_start: true proc_stats_poll_ms: 100 } } }
data_sources { config { name: "linux.sys_stats" target_buffer: 0
  sys_stats_config { meminfo_period_ms: 50 } } }
"""
PACKET, PROCESS_TREE, SYS_STATS, TRACE_CONFIG, DROPPED = 1, 2, 7, 33, 42


class Peers:
    """The service with the real traced_probes connected to it, and the real perfetto."""

    def __init__(self, **behaviour):
        self.behaviour = Behaviour(**behaviour)

    def __enter__(self):
        self.perfetto, probes = need_perfetto("perfetto", "traced_probes")
        self.sockets = Sockets(WORK)
        self.service = TracingService(self.sockets.producer, self.sockets.consumer, self.behaviour).__enter__()
        self.probes = Background([probes], self.sockets.environment, os.path.join(WORK, "probes.log"))
        self.probes.__enter__()
        check(self.service.wait("register", "linux.sys_stats"), "traced_probes does not register linux.sys_stats")
        return self

    def __exit__(self, *error):
        self.probes.__exit__()
        self.service.stop()

    def record(self, config, *options):
        """Run perfetto; return its outcome."""
        return run([self.perfetto, "--txt", "-c", "-", *options], config.encode(), self.sockets.environment)


def packets_of(path):
    with open(path, "rb") as file:
        return [dict(fields(packet)) for number, packet in fields(file.read()) if number == PACKET]


def check_recorded(path, what):
    """Check that a trace has the process tree and counters, and that ours reads it."""
    packets = packets_of(path)
    for number in (PROCESS_TREE, SYS_STATS, TRACE_CONFIG):
        check(any(number in packet for packet in packets), f"{what}: no packet has field {number}")
    sequences = {packet.get(10) for packet in packets}
    check(None not in sequences, f"{what}: a packet has no trusted sequence id")
    firsts = set()
    for packet in packets:
        dropped, first = packet.get(DROPPED), packet.get(10) not in firsts
        check(not dropped or first, f"{what}: a packet of sequence {packet.get(10)} is lost")
        firsts.add(packet.get(10))
    outcome = run([TOOL, "query", "--csv", path, f"select count(*) from process where pid = {os.getpid()}"])
    check(outcome.stdout.split()[-1:] == [b"1"], f"{what}: query {outcome.stdout!r} {outcome.stderr[-200:]!r}")


def record_and_check(what, config="duration_ms: 500", options=(), **behaviour):
    path = os.path.join(WORK, "trace")
    with Peers(**behaviour) as peers:
        outcome = peers.record("buffers { size_kb: 4096 }" + config + SOURCES, "-o", path, *options)
        check(outcome.status == 0, f"{what}: {outcome.status}, {outcome.stderr[-300:]!r}")
    check_recorded(path, what)


def test_read_buffers():
    record_and_check("ReadBuffers")


def test_write_into_file():
    record_and_check("write_into_file", "duration_ms: 500 write_into_file: true file_write_period_ms: 100")


def test_small_pages():
    record_and_check("pages of 4 KiB", page_size=4096, shm_size=16 * 4096)


def test_emulation():
    record_and_check("emulation by IPC", emulate=True)


def test_byte_by_byte():
    record_and_check("byte by byte", byte_by_byte=True, reads_slowly=True)


def test_detached():
    path = os.path.join(WORK, "detached")
    with Peers() as peers:
        config = "buffers { size_kb: 4096 } write_into_file: true file_write_period_ms: 100" + SOURCES
        outcome = peers.record(config, "-o", path, "--detach=key")
        check(outcome.status == 0, f"--detach: {outcome.status}, {outcome.stderr[-300:]!r}")
        check(peers.service.wait("detach", "key"), "the session is not detached")
        outcome = run([peers.perfetto, "--attach=key", "--stop"], env=peers.sockets.environment)
        check(outcome.status == 0, f"--attach: {outcome.status}, {outcome.stderr[-300:]!r}")
    check_recorded(path, "detached")


main()
