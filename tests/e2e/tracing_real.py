#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""heapprofd beside Perfetto's own traced, traced_probes and perfetto, where they are found (perfetto_programs.py).

One configuration records the heap, process statistics and ftrace. The profiled programs obey commands at interval 1,
so that every figure is known.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time

from daemon import (DAEMON, PATIENCE, Commanded, Daemon, check_figure, heap_of, joined, own_name, report_of,
                    wait_for)
from harness import TOOL, check, main, run
from perfetto_reader import allocate, check_readers
from perfetto_programs import Background, Sockets, need_perfetto
from trace import fields
from tracing_service.client import ConsumerClient, ProducerClient
from tracing_service.wire import message

PACKET, PROCESS_TREE, PROCESS_STATS, PROFILE = 1, 2, 9, 37

OTHER_SOURCES = """
data_sources { config { name: "linux.process_stats" target_buffer: 1
  process_stats_config { scan_all_processes_on_start: true proc_stats_poll_ms: 100 } } }
data_sources { config { name: "linux.ftrace" target_buffer: 1 ftrace_config { ftrace_events: "sched/sched_switch" } } }
"""


def config_of(target, more=""):
    """Return a configuration that profiles a process (a number) or a program (a name)."""
    wanted = f"pid: {target}" if isinstance(target, int) else f'process_cmdline: "{target}"'
    return f"""
buffers {{ size_kb: 16384 }} buffers {{ size_kb: 16384 }}
data_sources {{ config {{ name: "android.heapprofd" target_buffer: 0
  heapprofd_config {{ sampling_interval_bytes: 1 {wanted} shmem_size_bytes: 8388608 block_client: true }} }} }}
{OTHER_SOURCES} {more}"""


class Producer(Daemon):
    """A heapprofd that is a producer of the tracing service at these sockets."""

    def __init__(self, directory, sockets):
        super().__init__(directory)
        self.environment.update(sockets.environment, HEAPPROFD_RUN_DIR=self.environment["HEAPPROFD_RUN_DIR"])

    def start(self):
        with open(self.log_path, "a") as log:
            self.process = subprocess.Popen([DAEMON, "--producer"], stderr=log, env=self.environment)
        wait_for("the daemon's socket", lambda: self.status() is not None)
        return self


class Scene:
    def __init__(self, directory, traced, probes, perfetto):
        self.directory, self.perfetto, self.traced_path = directory, perfetto, traced
        self.sockets = Sockets(directory)
        self.services = contextlib.ExitStack()
        self.traced = self.start_traced()
        self.services.enter_context(self.background(probes, "probes"))
        self.daemon = Producer(directory, self.sockets).start()
        self.wait_for_source("android.heapprofd")
        self.wait_for_source("linux.process_stats")

    def background(self, path, name):
        return Background([path], self.sockets.environment, os.path.join(self.directory, f"{name}.log"))

    def start_traced(self):
        traced = self.services.enter_context(self.background(self.traced_path, "traced"))
        self.sockets.wait()
        return traced

    def path(self, name):
        return os.path.join(self.directory, name)

    def sources(self):
        """Return the names of the data sources that the service knows."""
        consumer = ConsumerClient(self.sockets.consumer)
        state = consumer.call("QueryServiceState").message(1)
        consumer.close()
        return [source.message(1).text(1) for source in state.messages(2)]

    def wait_for_source(self, name):
        wait_for(f"data source {name}", lambda: name in self.sources())

    def record(self, name, config, *options):
        return Recording(self, self.path(name), config, options)

    def close(self):
        self.daemon.end()
        self.services.close()
        with open(self.path("log")) as log:
            print(log.read())


class Recording:
    """Perfetto's own perfetto, which records until the test ends it."""

    def __init__(self, scene, path, config, options=()):
        self.path = path
        self.process = subprocess.Popen(
            [scene.perfetto, "--txt", "-c", "-", "-o", path, *options], env=scene.sockets.environment,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
        )
        self.process.stdin.write(config.encode())
        self.process.stdin.close()

    def end(self, number=signal.SIGINT):
        """End the recording, by a signal if it does not end itself. Return its JSON report."""
        if number:
            self.process.send_signal(number)
        output = self.process.stdout.read()
        status = self.process.wait(PATIENCE)
        check(status == 0, f"perfetto: {status}, {output[-500:]!r}")
        return report_of(self.path)


@contextlib.contextmanager
def scene_with_perfetto():
    traced, probes, perfetto = need_perfetto("traced", "traced_probes", "perfetto")
    directory = tempfile.mkdtemp(prefix="test-real-")
    scene = Scene(directory, traced, probes, perfetto)
    try:
        yield scene
    finally:
        scene.close()
        shutil.rmtree(directory, ignore_errors=True)


def packets_of(path):
    with open(path, "rb") as file:
        return [dict(fields(packet)) for number, packet in fields(file.read()) if number == PACKET]


def check_combined(path):
    """Check that the trace has the heap, and beside it what traced_probes recorded, without a loss in between."""
    packets = packets_of(path)
    for number in (PROCESS_TREE, PROCESS_STATS, PROFILE):
        check(any(number in packet for packet in packets), f"no packet has field {number}")
    seen = set()
    for packet in packets:
        check(not packet.get(42) or packet[10] not in seen, f"sequence {packet[10]} has lost packets")
        seen.add(packet[10])


def test_runtime():
    with scene_with_perfetto() as scene:
        process = Commanded(scene.daemon.environment)
        recording = scene.record("trace", config_of(process.pid))
        joined(scene.daemon, process)
        process.tell("hold 10 1000")
        report = recording.end()
        check_figure(heap_of(report, process.pid), "hold_block", "space", 10000)
        check_combined(recording.path)
        check(process.end() == 0, "the program failed")


def test_startup():
    with scene_with_perfetto() as scene:
        name = own_name("startup")
        recording = scene.record("trace", config_of(name))
        wait_for("the session", lambda: (scene.daemon.status() or {}).get("sessions"))
        process = Commanded(scene.daemon.environment, name, scene.directory)
        joined(scene.daemon, process)
        process.tell("hold 7 100")
        heap = heap_of(recording.end(), process.pid)
        check_figure(heap, "hold_block", "objects", 8)
        process.end()


def test_attached():
    """A program that does not have the library is profiled, too."""
    with scene_with_perfetto() as scene:
        process = Commanded(scene.daemon.environment, preload=False)
        recording = scene.record("trace", config_of(process.pid))
        joined(scene.daemon, process)
        process.tell("hold 10 1000")
        check_figure(heap_of(recording.end(), process.pid), "hold_block", "space", 10000)
        process.end()


def test_two_sessions():
    with scene_with_perfetto() as scene:
        first, second = Commanded(scene.daemon.environment), Commanded(scene.daemon.environment)
        recordings = [scene.record(f"trace{p.pid}", config_of(p.pid)) for p in (first, second)]
        joined(scene.daemon, first, second)
        concurrent = scene.record("concurrent", config_of(first.pid, "duration_ms: 1000"))
        first.tell("hold 10 1000")
        second.tell("hold 20 500")
        heap = heap_of(concurrent.end(None), first.pid)
        check(heap and heap["rejected_concurrent"], "a second session of a program is not marked as rejected")
        for process, recording in zip((first, second), recordings):
            report = recording.end()
            check_figure(heap_of(report, process.pid), "hold_block", "space", 10000)
            check({heap["pid"] for heap in report["heaps"]} == {process.pid}, "another session's process")
            process.end()


def test_write_into_file():
    with scene_with_perfetto() as scene:
        process = Commanded(scene.daemon.environment)
        recording = scene.record("trace", config_of(process.pid, "write_into_file: true file_write_period_ms: 100"))
        joined(scene.daemon, process)
        process.tell("hold 100000 16")
        report = recording.end()
        check_figure(heap_of(report, process.pid), "hold_block", "objects", 100000)
        check_combined(recording.path)
        process.end()


def dumping_config(process, buffer_kb=16384, more=""):
    """Return a configuration of a dump each 50 ms, alone in its buffer."""
    return f"""
buffers {{ size_kb: {buffer_kb} }}
data_sources {{ config {{ name: "android.heapprofd" heapprofd_config {{
  sampling_interval_bytes: 1 pid: {process.pid} block_client: true continuous_dump_config {{ dump_interval_ms: 50 }} }} }} }}
{more}"""


def test_cleared_state():
    """The service clears incremental state: no figure is counted again."""
    with scene_with_perfetto() as scene:
        process = Commanded(scene.daemon.environment)
        recording = scene.record("trace", dumping_config(process, more="incremental_state_config { clear_period_ms: 200 }"))
        joined(scene.daemon, process)
        allocate(process)
        recording.end()
        check_readers(recording.path, process.pid)
        process.end()


def test_wrapped_ring():
    """The beginning is overwritten: the last dumps have all that they need."""
    with scene_with_perfetto() as scene:
        process = Commanded(scene.daemon.environment)
        recording = scene.record("trace", dumping_config(process, 32))
        joined(scene.daemon, process)
        allocate(process)
        time.sleep(2)
        recording.end()
        with open(recording.path, "rb") as file:
            packets = [dict(fields(packet)) for number, packet in fields(file.read()) if number == PACKET]
        first = next(packet for packet in packets if PROFILE in packet)
        check(dict(fields(first[PROFILE])).get(7, 0) > 0, "the ring has not wrapped")
        check_readers(recording.path, process.pid)
        process.end()


def heap_profile(scene, *arguments, config=None):
    """Start heap_profile with this configuration in a file."""
    path = scene.path("configuration")
    with open(path, "w") as file:
        file.write(config or "")
    return subprocess.Popen(
        [TOOL, *(path if argument == "CONFIG" else argument for argument in arguments)], env=scene.daemon.environment,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )


def end_of(process, number=None):
    """Wait for the end, after this signal; it must be a success."""
    if number:
        process.send_signal(number)
    output, _ = process.communicate(timeout=PATIENCE)
    check(process.returncode == 0, f"{process.args}: {process.returncode}, {output[-500:]!r}")


def test_record():
    """heap_profile is the consumer: one command makes the combined trace."""
    with scene_with_perfetto() as scene:
        process, path = Commanded(scene.daemon.environment), scene.path("trace")
        recording = heap_profile(scene, "record", "--service", "--txt", "-c", "CONFIG", "-o", path,
                                 config=config_of(process.pid))
        joined(scene.daemon, process)
        process.tell("hold 10 1000")
        end_of(recording, signal.SIGINT)
        check_figure(heap_of(report_of(path), process.pid), "hold_block", "space", 10000)
        check_combined(path)
        process.end()


def test_record_options():
    with scene_with_perfetto() as scene:
        process, path = Commanded(scene.daemon.environment), scene.path("profile")
        recording = heap_profile(scene, "-p", str(process.pid), "-i", "1", "--service", "-d", "1500", "-o", path)
        joined(scene.daemon, process)
        process.tell("hold 10 1000")
        end_of(recording)
        check_figure(heap_of(report_of(path), process.pid), "hold_block", "space", 10000)
        process.end()


def test_record_detached():
    with scene_with_perfetto() as scene:
        process, path, key = Commanded(scene.daemon.environment), scene.path("trace"), own_name("key")
        end_of(heap_profile(scene, "record", "--service", "--txt", "-c", "CONFIG", "--detach", key,
                            config=config_of(process.pid)))
        joined(scene.daemon, process)
        process.tell("hold 10 1000")
        end_of(heap_profile(scene, "record", "--attach", key, "--stop", "-o", path))
        check_figure(heap_of(report_of(path), process.pid), "hold_block", "space", 10000)
        check_combined(path)
        process.end()


def test_record_trigger():
    with scene_with_perfetto() as scene:
        process, path = Commanded(scene.daemon.environment), scene.path("trace")
        recording = heap_profile(scene, "record", "--service", "--txt", "-c", "CONFIG", "-o", path,
                                 config=config_of(process.pid, trigger("STOP_TRACING")))
        joined(scene.daemon, process)
        process.tell("hold 10 1000")
        activate(scene)
        end_of(recording)
        check_figure(heap_of(report_of(path), process.pid), "hold_block", "space", 10000)
        process.end()


def test_flush():
    """After a flush, the buffers have what was dumped before."""
    with scene_with_perfetto() as scene:
        process = Commanded(scene.daemon.environment)
        heapprofd = message((1, 1), (4, process.pid), (6, message((6, 100))))
        source = message((1, message((1, "android.heapprofd"), (105, heapprofd))))
        consumer = ConsumerClient(scene.sockets.consumer)
        disabled = consumer.enable(message((1, message((1, 16384))), (2, source)))
        joined(scene.daemon, process)
        process.tell("hold 5 100")

        def dumps_after_flush():
            success, _, _ = consumer.wait(consumer.invoke("Flush", message((1, 20000))))
            check(success, "the flush timed out")
            return [packet for packet in consumer.read() if packet.has(PROFILE)]

        wait_for("a dump", dumps_after_flush)
        consumer.call("DisableTracing")
        success, _, _ = consumer.wait(disabled)
        check(success, "tracing is not disabled")
        check(any(packet.has(PROFILE) for packet in consumer.read()), "there is no last dump")
        consumer.close()
        process.end()


def trigger(mode, delay_ms=100):
    return f"""trigger_config {{ trigger_mode: {mode} trigger_timeout_ms: 60000
  triggers {{ name: "leak" stop_delay_ms: {delay_ms} }} }}"""


def activate(scene):
    client = ProducerClient(scene.sockets.producer, "test.trigger")
    client.call("ActivateTriggers", message((1, "leak")))
    client.close()


def test_stop_trigger():
    with scene_with_perfetto() as scene:
        process = Commanded(scene.daemon.environment)
        recording = scene.record("trace", config_of(process.pid, trigger("STOP_TRACING")))
        joined(scene.daemon, process)
        process.tell("hold 10 1000")
        activate(scene)
        check_figure(heap_of(recording.end(None), process.pid), "hold_block", "space", 10000)
        process.end()


def test_start_trigger():
    with scene_with_perfetto() as scene:
        process = Commanded(scene.daemon.environment)
        process.tell("hold 3 1000")
        recording = scene.record("trace", config_of(process.pid, trigger("START_TRACING", 3000)))
        process.wake()
        check(not scene.daemon.profiled_pids(), "it is profiled before the trigger")
        activate(scene)
        joined(scene.daemon, process)
        process.tell("hold 10 1000")
        check_figure(heap_of(recording.end(None), process.pid), "hold_block", "space", 10000)
        process.end()


def test_detach():
    with scene_with_perfetto() as scene:
        process = Commanded(scene.daemon.environment)
        config = config_of(process.pid, "write_into_file: true file_write_period_ms: 100")
        path, key = scene.path("trace"), own_name("key")
        outcome = run([scene.perfetto, "--txt", "-c", "-", "-o", path, f"--detach={key}"], config.encode(),
                      scene.sockets.environment)
        check(outcome.status == 0, f"--detach: {outcome.stderr[-300:]!r}")
        joined(scene.daemon, process)
        process.tell("hold 10 1000")
        outcome = run([scene.perfetto, f"--attach={key}", "--stop"], env=scene.sockets.environment)
        check(outcome.status == 0, f"--attach: {outcome.stderr[-300:]!r}")
        check_figure(heap_of(report_of(path), process.pid), "hold_block", "space", 10000)
        process.end()


def test_traced_killed():
    """Sessions end with their service; the producer waits for the next one."""
    with scene_with_perfetto() as scene:
        process = Commanded(scene.daemon.environment)
        recording = scene.record("lost", config_of(process.pid))
        joined(scene.daemon, process)
        os.killpg(scene.traced.pid, signal.SIGKILL)
        scene.traced.wait()
        recording.process.wait(PATIENCE)
        wait_for("the session's end", lambda: not scene.daemon.status()["sessions"])
        scene.start_traced()
        begin = time.monotonic()
        scene.wait_for_source("android.heapprofd")
        print(f"registered again after {time.monotonic() - begin:.1f} s")
        recording = scene.record("trace", config_of(process.pid))
        joined(scene.daemon, process)
        process.tell("hold 10 1000")
        check_figure(heap_of(recording.end(), process.pid), "hold_block", "space", 10000)
        check(process.end() == 0, "the program failed")


if __name__ == "__main__":
    main()
