#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""heapprofd --producer with the tests' tracing service: what a recording has, and what a bad service does to it.

    tracing_producer.py CASE
"""

import concurrent.futures
import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time

from daemon import (ALICE, DAEMON, LIBRARY, PATIENCE, Commanded, Daemon, Session, as_user, check_figure, heap_of,
                    joined, need_root, own_name, reachable, report_of, wait_for)
from harness import SLOWNESS, TOOL, check, main, need, program, run
from heaps import Program
from perfetto_reader import allocate, check_readers
from tracing_service import Behaviour, TracingService
from tracing_service.client import ConsumerClient
from tracing_service.producer_port import ProducerPort
from tracing_service.wire import message

PROFILE_PACKET, INTERNED_DATA, SEQUENCE_FLAGS, PROCESS_TREE, DROPPED = 37, 12, 13, 2, 42
TRACK_EVENT, TRACK_DESCRIPTOR = 11, 60
TRACE_CONFIG, TRACE_UUID, UNPROFILED = 33, 89, 5000
HEAPS, ALL_HEAPS, INTERVALS, EXCLUDED = 20, 21, 22, 27  # of HeapprofdConfig
NEEDED = 2  # of SEQUENCE_FLAGS
ENDS = (("disconnect", "ProducerPort"), ("restart",))


def length_prefix(data):
    size, prefix = len(data), b"\x0a"
    while size > 127:
        prefix += bytes([size & 127 | 128])
        size >>= 7
    return prefix + bytes([size])


def source(heapprofd, name="android.heapprofd"):
    """Return a data source of a TraceConfig, with these fields of HeapprofdConfig."""
    return (2, message((1, message((1, name), (2, 0), (105, message(*heapprofd))))))


def names(*programs, interval=1):
    return [(1, interval), (9, True), *((2, name) for name in programs)]


def pids(*processes, interval=1):
    return [(1, interval), (9, True), *((4, process.pid) for process in processes)]


class Recording:
    """A consumer's session, until end()."""

    def __init__(self, place, *sources, fields=(), buffer_kb=63488, policy=None):
        self.service = place.service
        self.path = os.path.join(place.directory, f"trace-{len(place.recordings)}")
        place.recordings.append(self)
        self.consumer = ConsumerClient(place.paths[1])
        started = len(self.notes("started"))
        config = message((1, message((1, buffer_kb), (4, policy))), *sources, *fields)
        self.disabled = self.consumer.enable(config)
        self.wait_note("started", len(sources) + started)

    def notes(self, kind):
        return [note for note in self.service.notes if note[0] == kind]

    def wait_note(self, kind, count=1):
        noted = self.service.wait(kind, count=count, timeout=PATIENCE)
        check(noted, f"the service noted no {kind}: {self.service.notes[-5:]}")

    def flush(self):
        self.consumer.call("Flush", message((1, 20000)))

    def end(self):
        """End the session; return its packets, and write the trace."""
        self.consumer.call("DisableTracing")
        self.consumer.wait(self.disabled)
        packets = self.read()
        self.consumer.close()
        return packets

    def read(self):
        packets = self.consumer.read()
        with open(self.path, "wb") as file:
            for packet in packets:
                file.write(length_prefix(packet.data) + packet.data)
        return packets

    def report(self):
        return report_of(self.path)


class Place:
    """A tracing service and a daemon with a producer for it."""

    def __init__(self, directory, behaviour):
        self.directory, self.recordings = directory, []
        self.paths = [os.path.join(directory, name) for name in ("p", "c")]
        self.service = TracingService(*self.paths, behaviour)
        self.daemon = Daemon(directory, arguments=("--producer", self.paths[0]))
        self.environment = self.daemon.environment

    def record(self, *sources, **options):
        return Recording(self, *sources, **options)

    def wait_registered(self, count=1):
        noted = self.service.wait("register", "heapprofd", count=count, timeout=PATIENCE)
        check(noted, f"no data source is registered: {self.daemon.log()}")

    def has_noted(self, *beginnings):
        return any(note[: len(begin)] == begin for note in list(self.service.notes) for begin in beginnings)

    def restart_service(self):
        """Let the service die and come back. What was noted before does not count any more."""
        def restart():
            self.service.notes.clear()
            self.service._restart()  # pylint: disable=protected-access

        self.service.call(restart)

    def log_has(self, text):
        return wait_for(f"the log's {text}", lambda: text in self.daemon.log())


@contextlib.contextmanager
def place(registers=True, **behaviour):
    directory = tempfile.mkdtemp(prefix="test-producer-")
    here = Place(directory, Behaviour(**behaviour))
    try:
        with here.service:
            here.daemon.start()
            if registers:
                here.wait_registered()
            yield here
            check(here.daemon.process.poll() is None, "the daemon ended")
            check(here.daemon.end() == 0, "the daemon's exit code")
            log = here.daemon.log()
            check("Sanitizer" not in log and "is started again" not in log, f"the producer failed: {log}")
    finally:
        if here.daemon.process and here.daemon.process.poll() is None:
            here.daemon.process.kill()
        shutil.rmtree(directory, ignore_errors=True)


def own_copy(here, name):
    """Return the path of a program's copy whose name no other test uses."""
    path = os.path.join(here.directory, own_name(name))
    shutil.copy(shutil.which(name), path)
    return path


def callsites(report):
    """Return {(stack, figures)}: what two recordings of one deterministic program have in common."""
    sites = {}
    for heap in report["heaps"]:
        for site in heap["callsites"]:
            stack = tuple((frame["name"], frame["mapping"], frame["rel_pc"]) for frame in site["frames"])
            figures = tuple(site[name]["estimate"] for name in ("space", "objects", "alloc_space", "alloc_objects"))
            sites[stack] = tuple(a + b for a, b in zip(sites.get(stack, (0, 0, 0, 0)), figures))
    return sites


# --- recordings ---


def test_same_as_file():
    """A program that starts during the session: its profile has the same stacks and figures as one in a file."""
    need("jq")
    with place() as here:
        jq = own_copy(here, "jq")
        command = [jq, "-n", "[range(3000)] | length"]
        environment = {**here.environment, "LD_PRELOAD": LIBRARY}
        output = os.path.join(here.directory, "file")
        session = Session(here.daemon, output, "-n", os.path.basename(jq), "--no-symbols")
        check(run(command, env=environment).stdout == b"3000\n", "jq's output")
        session.end()
        recording = here.record(source(names(os.path.basename(jq))))
        check(run(command, env=environment).stdout == b"3000\n", "jq's output")
        packets = recording.end()
        for field in (TRACE_CONFIG, TRACE_UUID):
            check(sum(packet.has(field) for packet in packets) == 1, f"not one packet with field {field}")
        theirs, ours = session.report(), recording.report()
        check(callsites(ours) == callsites(theirs), "the callsites differ")
        for name in ("exact_bytes", "exact_calls"):
            check(ours["heaps"][0][name] == theirs["heaps"][0][name] > 0, f"{name} differs")
        check(len(ours["heaps"]) == len(theirs["heaps"]) > 0, f"{len(ours['heaps'])} heaps")


def test_running_and_attached():
    """Two sessions at once, of a preloaded and of an attached process; both names of the data source."""
    with place() as here:
        preloaded = Commanded(here.environment)
        bare = Commanded(here.environment, preload=False)
        first = here.record(source(pids(preloaded)))
        second = here.record(source(pids(bare), "heapprofd"))
        joined(here.daemon, preloaded, bare)
        preloaded.tell("hold 10 1000")
        bare.tell("hold 20 500")
        shown = [session["tracing_service"] for session in here.daemon.status()["sessions"]]
        check(sorted(s["data_source"] for s in shown) == ["android.heapprofd", "heapprofd"], f"status {shown}")
        text = run([TOOL, "status"], env=here.environment).stdout.decode()
        check("data source heapprofd of its session 2" in text, text)
        first.end()
        second.end()
        check_figure(heap_of(first.report(), preloaded.pid), "hold_block", "space", 10000)
        check_figure(heap_of(second.report(), bare.pid), "hold_block", "space", 10000)
        here.log_has("data source android.heapprofd of tracing session 1 ended")
        check(preloaded.end() == 0 and bare.end() == 0, "a program failed")


def test_instances_of_one_session():
    """Two data sources of one session: the process that both name is in the first one's profile only."""
    with place() as here:
        process = Commanded(here.environment)
        recording = here.record(source(pids(process)), source(pids(process)))
        joined(here.daemon, process)
        process.tell("hold 5 100")
        recording.end()
        heaps = recording.report()["heaps"]
        profiled = {"heaps": [heap for heap in heaps if not heap["rejected_concurrent"]]}
        check_figure(heap_of(profiled, process.pid), "hold_block", "space", 500)
        check(len(profiled["heaps"]) < len(heaps), f"no heap is rejected_concurrent: {heaps}")
        process.end()


def test_flush_and_dumps():
    """A flush brings what is written so far; later dumps follow."""
    with place() as here:
        process = Commanded(here.environment)
        config = pids(process) + [(6, message((5, 0), (6, 100)))]
        recording = here.record(source(config))
        joined(here.daemon, process)
        process.tell("hold 10 1000")
        recording.flush()

        def dumps():
            recording.flush()
            seen.extend(recording.consumer.read())
            return sum(packet.has(PROFILE_PACKET) for packet in seen) >= 2

        seen = []
        wait_for("two dumps", dumps)
        recording.end()
        process.end()


# --- what is lost or cleared multiplies no figure, in our tools and in Perfetto's ---

DUMPS = (6, message((5, 0), (6, 50)))  # each 50 ms


def test_cleared_state():
    """ClearIncrementalState: processes and tracks are described again, and no figure is counted again."""
    with place() as here:
        process = Commanded(here.environment)
        # With what is beside the heap (no_timeline: false), which producers leave to others.
        recording = here.record(source(pids(process) + [DUMPS, (5001, 0)]), fields=[(21, message((1, 200)))])
        joined(here.daemon, process)
        allocate(process)
        recording.wait_note("clear", 3)
        packets = recording.end()
        ours = [packet for packet in packets if packet.has(PROFILE_PACKET)]
        indexes = [packet.message(PROFILE_PACKET).number(7) for packet in ours]
        check(indexes == list(range(len(indexes))), f"indexes of profile packets: {indexes}")
        trees = [packet for packet in packets if packet.has(PROCESS_TREE) and packet.number(10) == ours[0].number(10)]
        check(len(trees) >= 3, f"the process was described {len(trees)} times")
        check_readers(recording.path, process.pid)
        process.end()


def test_lost_dumps():
    """The service stands still until dumps are lost, goes on, and is told of the loss."""
    with place(shm_size=16384, page_size=4096) as here:
        process = Commanded(here.environment)
        recording = here.record(source(pids(process) + [DUMPS]))
        joined(here.daemon, process)
        allocate(process)
        here.service.call(lambda: time.sleep(3))
        packets = recording.end()
        check(any(packet.number(DROPPED) for packet in packets), "no packet was lost")
        check_readers(recording.path, process.pid)
        process.end()


def test_wrapped_ring():
    """The beginning is overwritten: the last dumps have all that they need, without a clear."""
    with place() as here:
        process = Commanded(here.environment)
        recording = here.record(source(pids(process) + [DUMPS]), buffer_kb=32)
        joined(here.daemon, process)
        allocate(process)
        wait_for("a full ring", lambda: here.service.call(lambda: any(
            buffer.stats["chunks_overwritten"] for buffer in here.service.buffers.values())))
        packets = recording.end()
        reader = check_readers(recording.path, process.pid)
        check(packets and reader.skipped == 0, "packets that need others")
        process.end()


def test_last_dump():
    """The last dump arrives although the service stands still while it is written: for longer than the daemon waits
    for another session's end (12 s, and again after work), and the dump is larger than all buffers on its way."""
    with place(shm_size=65536, page_size=4096) as here:
        command = shutil.copy(program("many_stacks"), os.path.join(here.directory, own_name("stacks")))
        recording = here.record(source(names(os.path.basename(command))), fields=[(23, 60000)])
        process = subprocess.Popen([command, "15"], env={**here.environment, "LD_PRELOAD": LIBRARY},
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        check(process.stdout.readline() == b"ok\n", "the program")
        take = []

        def stand_still(port, arguments, reply):
            take.append(len(take))
            if len(take) == 2:
                time.sleep(27)
            return commit(port, arguments, reply)

        commit = ProducerPort.METHODS["CommitData"]
        ProducerPort.METHODS["CommitData"] = stand_still
        recording.consumer.sock.settimeout(PATIENCE + 40)
        try:
            packets = recording.end()
        finally:
            ProducerPort.METHODS["CommitData"] = commit
        check(len(take) > 2, f"{len(take)} commits")
        check(sum(packet.number(DROPPED) and packet.has(PROFILE_PACKET) for packet in packets) == 0, "packets were lost")
        check_figure(heap_of(recording.report(), process.pid), "descend", "alloc_objects", 1 << 15)
        process.communicate(timeout=PATIENCE)


def test_small_commits():
    """Small packets, one by one, take a small part of the service's buffer."""
    with place() as here:
        process = Commanded(here.environment)
        recording = here.record(source(pids(process) + [DUMPS]))
        joined(here.daemon, process)

        def written():
            return here.service.call(lambda: [(buffer.stats["chunks_written"], buffer.used) for buffer in here.service.buffers.values()])

        wait_for("20 commits", lambda: written()[0][0] >= 20)
        (chunks, used), packets = written()[0], recording.end()
        data = sum(len(packet.data) for packet in packets)
        check(used < 2 * data, f"{used} bytes in {chunks} chunks for {data} bytes of packets")
        process.end()


def test_slices_of_a_ring():
    """Slices whose beginning was overwritten have their names, and their tracks are described again."""
    with place() as here:
        process = Program(here.environment, "shared preloaded")
        recording = here.record(source(pids(process) + [DUMPS, (ALL_HEAPS, 1), (5002, 1)]),
                                fields=[(21, message((1, 100)))], buffer_kb=32)
        heap = process.register("own")
        wait_for("joining", lambda: process.tell("wake") or process.pid in here.daemon.profiled_pids())

        def work():
            for i in range(20):
                process.tell(f"push name-{i}")
                process.report(f"allocate {heap} {i} 10")
                process.ask(f"free {heap} {i}")
                process.tell("pop 1")
            return here.service.call(lambda: sum(buffer.stats["chunks_overwritten"] for buffer in here.service.buffers.values()))

        wait_for("a full ring", lambda: work() > 40)
        clears = len(recording.notes("clear"))
        recording.wait_note("clear", clears + 2)
        work()
        packets = recording.end()
        check(not any(packet.number(SEQUENCE_FLAGS) & NEEDED and packet.has(TRACK_EVENT) for packet in packets), "needs others")
        begun = [packet.message(TRACK_EVENT) for packet in packets
                 if packet.has(TRACK_EVENT) and packet.message(TRACK_EVENT).number(9) == 1]
        last = [event.text(23) for event in begun][-20:]
        check(last == [f"name-{i}" for i in range(20)], f"slices {last}")
        tracks = {packet.message(TRACK_DESCRIPTOR).number(1) for packet in packets if packet.has(TRACK_DESCRIPTOR)}
        check({event.number(11) for event in begun[-20:]} <= tracks, "a track is not described")
        process.end()


# --- sessions that fail ---


def test_refused():
    """Without a session, the trace says why, and the service is answered."""
    with place() as here:
        recording = here.record(source([(1, 0), (2, "nothing")]))
        reasons = [packet.data for packet in recording.end() if packet.has(UNPROFILED)]
        check(any(b"sampling interval" in reason for reason in reasons), "no reason in the trace")
        here.log_has("sampling interval")
        recording = here.record(source(names(own_name("absent"))))
        reasons = [packet.data for packet in recording.end() if packet.has(UNPROFILED)]
        check(any(own_name("absent").encode() in reason for reason in reasons), "no remark on the absent process")


# Configurations that Perfetto's heapprofd takes, without a process: (fields, what the note says was left out).
LEFT_OUT = (
    ([(1, 1), (4, 0)], "0 is not a pid"),
    ([(1, 1), (4, 99999999)], "99999999 is not a pid"),
    ([(1, 1), (2, "")], "a process name is empty"),
    ([(1, 1), (6, message((5, 500)))], "dump_phase_ms"),
    ([(HEAPS, "libc.malloc"), (INTERVALS, 1)], None),
    ([(1, 0), (HEAPS, "libc.malloc"), (INTERVALS, 1)], None),
    ([(INTERVALS, 1)], None),
    ([(1, 0), (INTERVALS, 1)], None),
    ([(1, 1), (HEAPS, "x" * 64), (HEAPS, "libc.malloc")], "x" * 64),
    ([(HEAPS, "x" * 64), (INTERVALS, 9), (HEAPS, "libc.malloc"), (INTERVALS, 1)], "x" * 64),
    ([(1, 1), (ALL_HEAPS, 1), (EXCLUDED, "x" * 64)], "x" * 64),
    ([(1, 1), *((HEAPS, name) for name in ["libc.malloc", *map(str, range(300))])], "the heap '254': too many"),
    ([(HEAPS, "libc.malloc"), (INTERVALS, 1), (HEAPS, "libc.mmap"), (INTERVALS, 4096)], "libc.mmap"),
    ([(HEAPS, "libc.malloc"), (INTERVALS, 1), (HEAPS, "big"), (INTERVALS, 1 << 63)], "too large"),
    ([(1, 1), (26, "@system")], "target_installed_by"),
)


def test_left_out():
    """A part of a configuration that makes no sense has no effect, and a note in the trace; the rest is profiled."""
    with place() as here:
        for fields, note in LEFT_OUT:
            process = Commanded(here.environment)
            recording = here.record(source([*fields, (4, process.pid), (9, True)]))
            joined(here.daemon, process)
            process.tell("hold 10 1000")
            recording.end()
            report = recording.report()
            notes = [entry["reason"] for entry in report["unprofiled"] if entry["name"] == "heapprofd"]
            check(all("left out of its configuration" in text for text in notes), f"{fields}: {notes}")
            check(not notes if note is None else any(note in text for text in notes), f"{fields}: {notes}")
            check_figure(heap_of(report, process.pid), "hold_block", "space", 10000)
            process.end()


def test_nothing_left():
    """Without a target or a heap there is no session, and the trace says why."""
    with place() as here:
        for fields, reason in (([(1, 1), (4, 0)], b"0 is not a pid"), ([(1, 1), (2, "")], b"name is empty"),
                               ([(1, 1), (2, "name"), (HEAPS, "x" * 64)], b"heap name"),
                               ([(2, "name"), (ALL_HEAPS, 1), (INTERVALS, 1)], b"give one for each")):
            packets = here.record(source(fields)).end()
            check(any(packet.has(UNPROFILED) and reason in packet.data for packet in packets), f"{fields}: no {reason}")


def test_thread():
    """The number of a thread is told as such."""
    with place() as here:
        thread = subprocess.Popen(
            ["/usr/bin/python3", "-c", "import threading, sys\nthreading.Thread(target=lambda: (print(threading."
             "get_native_id(), flush=True), sys.stdin.read())).start()"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        number = int(thread.stdout.readline())
        words = f"{number} is a thread of process {thread.pid}; name that one"
        outcome = run([TOOL, "-p", str(number), "-o", os.path.join(here.directory, "o")], env=here.environment)
        check(words.encode() in outcome.stderr, f"-p {number}: {outcome.stderr!r}")
        recording = here.record(source([(1, 1), (4, number)]))
        recording.end()
        report = run([TOOL, "report", "--json", recording.path])
        check(words.encode() in report.stdout + report.stderr, f"pid: {report}")
        thread.communicate(timeout=PATIENCE)


def test_many_sources():
    """Each of 70 data sources gets an answer; those for which there is no room say so in the trace."""
    with place() as here:
        process = Commanded(here.environment)
        recording = here.record(*[source(pids(process)) for _ in range(70)], fields=[(23, 60000)])
        packets = recording.end()
        check(len(recording.notes("started")) == 70, f"{len(recording.notes('started'))} are started")
        check(len(recording.notes("stopped")) == 70, f"{len(recording.notes('stopped'))} are stopped")
        refused = [packet for packet in packets if packet.has(UNPROFILED) and b"64 sessions" in packet.data]
        check(len(refused) == 6, f"{len(refused)} notes: {[p.data for p in packets if p.has(UNPROFILED)][:3]}")
        recording = here.record(source(pids(process)))
        joined(here.daemon, process)
        process.tell("hold 10 1000")
        recording.end()
        check_figure(heap_of(recording.report(), process.pid), "hold_block", "space", 10000)
        process.end()


# --- memory of all kinds ---


def record_hold(here, what):
    """Record a program, and check its figures."""
    process = Commanded(here.environment)
    recording = here.record(source(pids(process)))
    joined(here.daemon, process)
    process.tell("hold 10 1000")
    recording.end()
    check_figure(heap_of(recording.report(), process.pid), "hold_block", "space", 10000)
    check(process.end() == 0, f"{what}: the program failed")


def test_buffer_sizes():
    for shm_size, page_size in ((4096, 4096), (16384, 4096), (65536, 65536), (32 << 20, 32768), (24576, 8192)):
        with place(shm_size=shm_size, page_size=page_size) as here:
            record_hold(here, f"{shm_size} of {page_size}")


def test_emulated():
    with place(emulate=True) as here:
        record_hold(here, "by IPC")


# --- bad services ---


def try_service(here, process, registers):
    """Ask the service, as it is now, for a profile, as far as it lets us."""
    if registers:
        wait_for("a connection that registers or ends", lambda: here.has_noted(("register", "heapprofd"), *ENDS))
    else:
        here.service.wait("bind", "ProducerPort", timeout=PATIENCE)
        return
    with contextlib.suppress(OSError):
        consumer = ConsumerClient(here.paths[1])
        consumer.enable(message((1, message((1, 4096))), source(pids(process))))
        here.service.wait("started", timeout=0.5)
        process.wake()
        process.tell("hold 10 1000")
        consumer.invoke("Flush", message((1, 500)))
        consumer.invoke("DisableTracing")
        end = time.monotonic() + 1.5
        while time.monotonic() < end and not here.has_noted(("stopped",), *ENDS):
            time.sleep(0.01)
        consumer.close()


def bad_service(registers=True, **behaviour):
    """Let a service behave badly, and then well: the program is not harmed, and the good service gets its profile."""
    with place(registers=False, **behaviour) as here:
        process = Commanded(here.environment)
        try_service(here, process, registers)
        here.service.behave(Behaviour())
        here.restart_service()
        here.wait_registered()
        wait_for("the end of all sessions", lambda: not here.daemon.status()["sessions"])
        record_hold(here, str(behaviour))
        check(process.end() == 0, f"{behaviour}: the program failed")
        ignored, connections = here.daemon.log().count(": ignored"), here.service.notes.count(("connect", "ProducerPort"))
        check(ignored <= 10 * connections, f"{behaviour}: {ignored} lines of the log are about ignored commands")


def bad_services(*behaviours):
    """Try several services at once: each mostly waits."""
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for tried in [pool.submit(bad_service, **behaviour) for behaviour in behaviours]:
            tried.result()


def test_bad_descriptors():
    bad_services(*({"descriptor": kind} for kind in ("none", "null", "pipe", "read-only", "two")))


def test_bad_memory():
    bad_services(
        {"sealed": False}, {"sealed": False, "truncate_to": 0}, {"announced_page_kb": 3},
        {"announced_page_kb": 1 << 31},
    )


def test_scribbled_memory():
    bad_services({"scribbles": "headers"}, {"scribbles": "chunks"}, {"scribbles": "all"})


def test_never_frees():
    bad_services({"never_frees": True, "shm_size": 8192, "page_size": 4096})


def test_odd_commands():
    bad_services({"commands_twice": True}, {"unknown_instances": True}, {"start_without_setup": True})


def test_endless_replies():
    """Commands and greetings that are repeated without an end change nothing, and do not fill the log."""
    for method in ("InitializeConnection", "GetAsyncCommand"):
        bad_service(endless=(method,))


def test_odd_setup():
    bad_services({"setup_tracing": "never"}, {"setup_tracing": "late"})


def test_odd_frames():
    bad_services(
        {"replies_twice": True}, {"garbage": True}, {"wrong_request_ids": True, "registers": False},
    )


def test_deaths():
    """The service dies in each state and comes back: the producer registers again and serves it."""
    states = ("bind", "initialize", "register", "setup", "start", "commit", "flush", "stop")
    bad_services(*({"die_at": state} for state in states))


def test_silence():
    """A service that stops reading does not hold up the program."""
    bad_services({"stops_reading_at": "start"})


# --- the process ---


def test_two_users():
    """A user's producer profiles what that user may, although the daemon is root's."""
    need_root()
    with place() as here:
        reachable(here.directory)
        for path in here.paths:
            os.chmod(path, 0o777)
        ours = Commanded(here.environment)
        hers = subprocess.Popen(
            [program("commanded")], env={**here.environment, "LD_PRELOAD": LIBRARY}, stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL, **as_user(ALICE),
        )
        producer = subprocess.Popen(
            [DAEMON, "--producer", here.paths[0]], env=here.environment, stderr=subprocess.DEVNULL, **as_user(ALICE)
        )
        here.wait_registered(2)
        recording = here.record(source(pids(ours, hers)))
        wait_for("her session", lambda: ALICE in [session["uid"] for session in here.daemon.status()["sessions"]])
        # The service starts the data source in both producers. Root's profiles what hers does not get.
        refused = [packet for packet in recording.end() if b"belongs to another user" in packet.data]
        check(refused, "her producer profiles root's process")
        hers.stdin.close()
        check(hers.wait(PATIENCE) == 0 and ours.end() == 0, "a program failed")
        producer.terminate()
        check(producer.wait(PATIENCE) == 0, "the user's producer")


def test_restarted_producer():
    """A producer that dies is started again; a second one uses the daemon that is there."""
    with place() as here:
        with open(f"/proc/{here.daemon.process.pid}/task/{here.daemon.process.pid}/children") as children:
            producer = int(children.read().split()[0])
        os.kill(producer, signal.SIGKILL)
        here.wait_registered(2)
        check("signal 9" in here.daemon.log(), here.daemon.log())
        record_hold(here, "after the restart")
        other = subprocess.Popen([DAEMON, "--producer", here.paths[0]], env=here.environment, stderr=subprocess.PIPE)
        here.wait_registered(3)
        other.terminate()
        _, log = other.communicate(timeout=PATIENCE)
        check(other.returncode == 0 and b"ready" not in log, f"the second producer: {other.returncode}, {log}")
        here.daemon.end()
        with open(here.daemon.log_path, "w"):
            here.daemon.start()


def test_ends_at_once():
    """A daemon that ends while its producer begins leaves none, and waits for none."""
    with place() as here:
        for attempt in range(5):
            here.daemon.end()
            began = time.monotonic()
            here.daemon.start()
            time.sleep(attempt / 500)
            check(here.daemon.end() == 0, "the daemon's exit code")
            check(time.monotonic() - began < 5 * SLOWNESS, f"{time.monotonic() - began:.1f} s for a start and an end")
            here.daemon.start()
        check(here.daemon.log().count("ready") == 11, here.daemon.log())


def test_arguments():
    """--producer takes a socket in both forms, and nothing else."""
    with place(registers=False) as here:
        joined_form = subprocess.Popen(
            [DAEMON, f"--producer={here.directory}/none"], env=here.environment, stderr=subprocess.PIPE, text=True
        )
        line = joined_form.stderr.readline()
        joined_form.terminate()
        joined_form.communicate()
        check(f"{here.directory}/none: no tracing service listens" in line, line)
    for arguments in (["--producer", "a", "b"], ["--producer=a", "b"], ["--producer", "--follow-children"]):
        outcome = run([DAEMON, *arguments])
        check(outcome.status == 2 and b"at most one socket" in outcome.stderr, (arguments, outcome.stderr))
    outcome = run([DAEMON, "--produce"])
    check(outcome.status == 2 and b"heapprofd --help" in outcome.stderr, outcome.stderr)


def test_daemon_ends():
    """The last dumps of a daemon that ends reach the service."""
    with place() as here:
        process = Commanded(here.environment)
        recording = here.record(source(pids(process)))
        joined(here.daemon, process)
        process.tell("hold 10 1000")
        check(here.daemon.end() == 0, "the daemon's exit code")
        recording.end()
        check_figure(heap_of(recording.report(), process.pid), "hold_block", "space", 10000)
        check(process.end() == 0, "the program failed")
        here.daemon.start()


def test_no_service():
    """Without a service the daemon serves its own clients."""
    with place(registers=False) as here:
        here.service.call(here.service._hang_up)  # pylint: disable=protected-access
        process = Commanded(here.environment)
        session = Session(here.daemon, os.path.join(here.directory, "o"), "-p", str(process.pid))
        joined(here.daemon, process)
        process.tell("hold 3 100")
        check(session.end() == 0, session.stderr)
        check_figure(heap_of(session.report(), process.pid), "hold_block", "space", 300)
        process.end()


if __name__ == "__main__":
    main()
