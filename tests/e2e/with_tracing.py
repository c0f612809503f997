#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The option --with-tracing: we record the heap, the tracing service other data sources, and both become one trace.

    with_tracing.py CASE      HEAPPROFD_BUILD names the build directory
"""

import json
import os
import re
import subprocess

from harness import SLOWNESS, TOOL, check, main, make_work_directory, run
from perfetto_programs import Background, Sockets, need_perfetto
from trace import fields
from tracing_service import Behaviour, TracingService
from tracing_service.service import EXTRA_PACKET

WORK = make_work_directory("test-with-tracing-")
SOCKETS = Sockets(WORK)
ENVIRONMENT = {**SOCKETS.environment, "TMPDIR": WORK, "DEBUGINFOD_URLS": "", "HEAPPROFD_RUN_DIR": f"{WORK}/run"}
BUFFER = "buffers { size_kb: 1024 }\n"
SOURCE = 'data_sources { config { name: "test.nothing" } }\n'
HEAP = ('data_sources { config { name: "android.heapprofd" heapprofd_config { sampling_interval_bytes: 777 '
        'process_cmdline: "another" pid: 1 } } }\n')
COMMAND = ("jq", "-n", "[range(1000) | tostring] | length")
PACKET, SEQUENCE, HEAP_PACKET = 1, 10, 37


def at(name):
    return os.path.join(WORK, name)


def write(name, content):
    with open(at(name), "w", encoding="utf-8") as file:
        file.write(content)
    return at(name)


def serving(**behaviour):
    return TracingService(SOCKETS.producer, SOCKETS.consumer, Behaviour(**behaviour))


def tool(*arguments, **environment):
    return run([TOOL, *arguments], env={**ENVIRONMENT, **environment}, timeout=60 * SLOWNESS)


def host(config, out, *command, options=(), **environment):
    return tool("host", "-o", at(out), "--with-tracing", write("config", config), *options, "--", *command, **environment)


def packets(out):
    with open(os.path.join(at(out), "raw-trace"), "rb") as file:
        return [dict(fields(packet)) for number, packet in fields(file.read()) if number == PACKET]


def expect(outcome, status, words, what, output=b""):
    text = outcome.stderr.decode()
    check(outcome.status == status, f"{what}: status {outcome.status}, expected {status}: {text}")
    check(re.search(words, text), f"{what}: {words!r} is not in {text!r}")
    check(outcome.stdout == output, f"{what}: the command printed {outcome.stdout!r}")


def check_heap(out, interval=4096):
    found = json.loads(tool("report", "--json", at(out)).stdout)
    check(found["warning"] == "" and found["heaps"], f"{out}: {found['warning']}")
    heap = found["heaps"][0]
    check(heap["exact_calls"] > 0 and not heap["unfinished"] and heap["interval_bytes"] == interval, f"{out}: {heap}")


def test_one_trace():
    """The packets of both are in one trace, in sequences that do not meet; output and exit code are the command's."""
    for config, what in ((BUFFER + SOURCE, "read"), (BUFFER + SOURCE + "write_into_file: true file_write_period_ms: 100\n", "file")):
        with serving(extra_packets=(300, 400)) as service:
            seen = []
            enable = service.enable
            service.enable = lambda consumer, config, file: seen.append(config.data) or enable(consumer, config, file)
            outcome = host(config, what, "sh", "-c", "echo out; exec jq -n '[range(1000) | tostring] | length'")
            expect(outcome, 0, "raw-trace", what, b"out\n1000\n")
            check(len(seen) == 1 and service.wait("free"), f"{what}: {len(seen)} sessions, {service.notes}")
        found = packets(what)
        ours = {packet.get(SEQUENCE) for packet in found if HEAP_PACKET in packet}
        theirs = {packet.get(SEQUENCE) for packet in found if EXTRA_PACKET in packet}
        count = sum(EXTRA_PACKET in packet for packet in found)
        check(ours == {1} and (count == 300 or what == "file"), f"{what}: {ours}, {count} packets of the service")
        check(all(number is None or number >= 65536 for number in theirs - ours), f"{what}: sequences {theirs}")
        check(any(33 in packet and packet.get(SEQUENCE, 0) >= 65536 for packet in found), f"{what}: no packet of the service")
        check_heap(what)


def test_left_to_service():
    """What is beside the heap is ours, unless the service records the same."""
    source = 'data_sources { config { name: "linux.%s" %s_config { %s } } }\n'
    off, machine = "no_timeline: true", 'name: "linux.sys_stats" target_buffer: 0 sys_stats_config { }'
    for name, settings, wanted in (
        ("process_stats", "scan_all_processes_on_start: true", None),
        ("process_stats", "proc_stats_poll_ms: 1000", off),
        ("ftrace", 'ftrace_events: "sched/sched_switch"', None),
        ("ftrace", 'ftrace_events: "kmem/rss_stat"', off),
        ("sys_stats", "meminfo_period_ms: 1000", machine),
        ("sys_stats", "stat_period_ms: 1000", None),
    ):
        outcome = host(BUFFER + source % (name, name, settings), "left", "true", options=("--print-config",))
        check(outcome.status == 0, f"{settings}: {outcome.stderr}")
        text = " ".join(outcome.stdout.decode().split())
        for words in (off, machine):
            check((words in text) == (words == wanted), f"{settings}: {words} in {text}")


def test_exit_status():
    with serving():
        expect(host(BUFFER + SOURCE, "three", "sh", "-c", "exit 3", options=("-q",)), 3, "^$", "exit 3")
        expect(host(BUFFER + SOURCE, "none", "./no-such-program"), 127, "no-such-program", "no command")


def test_heap_of_configuration():
    """The configuration's heap profile sets our defaults, which options override, and the service does not see it."""
    config = BUFFER + HEAP + SOURCE
    with serving() as service:
        seen = []
        enable = service.enable
        service.enable = lambda consumer, config, file: seen.append(config.data) or enable(consumer, config, file)
        outcome = host(config, "ours", *COMMAND, options=("-q",))
        expect(outcome, 0, "no producer offers|^$", "ours", b"1000\n")
        check_heap("ours", 777)
        host(config, "option", *COMMAND, options=("-q", "-i", "555"))
        check_heap("option", 555)
        check(all(b"heapprofd" not in data and b"test.nothing" in data for data in seen), f"the service gets {seen}")
        check(len(seen) == 2, f"{len(seen)} sessions")
    printed = tool("host", "--with-tracing", at("config"), "--print-config").stdout.decode()
    check("sampling_interval_bytes: 777" in printed and "another" not in printed, printed)


def test_not_started():
    """Without the service, or if it refuses, the command does not run."""
    outcome = host(BUFFER + SOURCE, "missing", "echo", "ran", PERFETTO_CONSUMER_SOCK_NAME=at("nobody"))
    expect(outcome, 125, "no tracing service listens", "missing")
    with serving():
        expect(host(BUFFER.replace("1024", "0") + SOURCE, "refused", "echo", "ran"), 125, "tracing service: .*buffer", "refused")
    with serving(die_at="enable", restarts=False):
        expect(host(BUFFER + SOURCE, "dies", "echo", "ran"), 125, "tracing service", "dies")
    for config, words in ((BUFFER + HEAP, "no data source beside the heap"), (BUFFER + SOURCE + 'output_path: "/x"', "output_path"),
                          (BUFFER + SOURCE + "trigger_config { trigger_mode: STOP_TRACING trigger_timeout_ms: 9 }", "triggers"),
                          ("unheard_of: 1", "unheard_of")):
        expect(host(config, "wrong", "echo", "ran"), 125, words, words)
    check(not any(os.path.exists(at(name)) and os.listdir(at(name)) for name in ("missing", "refused", "dies", "wrong")), "files are left")


def test_service_dies():
    """The service dies while the command runs: the heap profile is whole, and the end says what is missing."""
    os.mkfifo(at("running"))
    os.mkfifo(at("goes-on"))
    service = serving().__enter__()
    command = f"echo > {at('running')}; read line < {at('goes-on')}; exec jq -n '[range(1000)] | length'"
    process = subprocess.Popen(
        [TOOL, "host", "-o", at("died"), "--with-tracing", write("config", BUFFER + SOURCE), "--", "sh", "-c", command],
        env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )
    with open(at("running"), encoding="utf-8") as file:
        file.read()  # else the shell could write to a pipe without a reader, and die of it
        service.stop()
    with open(at("goes-on"), "w", encoding="utf-8") as file:
        file.write("\n")
    output, errors = process.communicate(timeout=60 * SLOWNESS)
    check(process.returncode == 0 and output == b"1000\n", f"{process.returncode} {output!r} {errors!r}")
    check(b"the heap profile is whole, but nothing of the other data sources" in errors, f"{errors!r}")
    check_heap("died")


def test_running_process():
    """heap_profile -p takes the option, too."""
    code = "import sys; x = []\nfor line in sys.stdin: x.append(bytearray(100000)); print(len(x), flush=True)"
    with serving(extra_packets=(5, 50)) as service, subprocess.Popen(
            ["python3", "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as target:
        target.stdin.write(b"\n")
        target.stdin.flush()
        check(target.stdout.readline() == b"1\n", "the target does not run")
        outcome = tool("-p", str(target.pid), "-q", "-d", "300", "-o", at("pid"), "--with-tracing", write("config", BUFFER + SOURCE))
        check(outcome.status == 0, f"-p: {outcome.status} {outcome.stderr!r}")
        check(service.wait("free"), f"{service.notes}")
        target.stdin.close()
    check(sum(EXTRA_PACKET in packet for packet in packets("pid")) == 5, "no packets of the service")
    outcome = tool("-p", str(os.getpid()), "--service", "--with-tracing", at("config"))
    check(outcome.status == 2 and b"take one of them" in outcome.stderr, f"{outcome.stderr!r}")


def test_real_service():
    """Perfetto's own service and probes."""
    traced, probes = need_perfetto("traced", "traced_probes")
    config = BUFFER + HEAP + ('data_sources { config { name: "linux.process_stats" target_buffer: 0 103 { 2: 1 4: 100 } } }\n'
                              'data_sources { config { name: "linux.sys_stats" 104 { 1: 50 } } }\n')
    with Background([traced], SOCKETS.environment, at("traced.log")):
        SOCKETS.wait()
        with Background([probes], SOCKETS.environment, at("probes.log")):
            outcome = host(config, "real", "sh", "-c", "sleep 0.3; exec jq -n '[range(1000)] | length'", options=("-q",))
            expect(outcome, 0, "", "real", b"1000\n")
    check_heap("real", 777)
    processes = tool("query", "--json", at("real"), f"SELECT count(*) AS n FROM process WHERE pid = {os.getpid()}").stdout
    check(json.loads(processes) == [{"n": 1}], f"{processes!r}")


main()
