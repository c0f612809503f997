#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The client's USDT probes, with gdb as the tracer that listens: it sets their semaphores, as the kernel does for uprobes.

    usdt.py CASE
"""

import os
import re
import signal
import subprocess
import time

import daemon
from daemon import LIBRARY, PATIENCE, Commanded, Recording, config_of, joined, scene, streamed_events, wait_for
from harness import BUILD, check, main, make_work_directory, need, profile, program, run, skip
from heaps import Program

QUIET = ["gdb", "-nx", "-q", "-batch", "-iex", "set debuginfod enabled off", "-iex", "set auto-load off"]


def script_of(provider, *after_alloc):
    """Return gdb's commands that print each event on a line."""
    print_alloc = r'printf "A %lx %lu %lu\n", $_probe_arg0, $_probe_arg1, $_probe_arg2'
    return "\n".join([
        "set pagination off", "set confirm off", "set breakpoint pending on",
        f"break -probe-stap {provider}:alloc", "commands", "silent", print_alloc, *after_alloc, "continue", "end",
        f"break -probe-stap {provider}:free", "commands", "silent", r'printf "F %lx\n", $_probe_arg0', "continue",
        "end", "",
    ])


class Probe:
    """A probe as the notes of a library describe it."""

    def __init__(self, note):
        value = lambda word: re.search(rf"{word}: (\S+)", note)[1].rstrip(",")
        self.name, self.provider = value("Name"), value("Provider")
        self.semaphore = int(value("Semaphore"), 16)
        self.arguments = re.search(r"Arguments: (.*)", note)[1].split()


def probes_of(library):
    need("gdb", "readelf")
    notes = run(["readelf", "-nW", library]).stdout.decode().split("NT_STAPSDT")[1:]
    if not notes:
        skip("built without <sys/sdt.h>")
    return {probe.name: probe for probe in map(Probe, notes)}


def events_in(text):
    """Return ("A", address, size, weighted) and ("F", address) of each event, in order."""
    events = []
    for line in text.splitlines():
        fields = line.split()
        if fields and fields[0] in ("A", "F"):
            events.append((fields[0], int(fields[1], 16), *map(int, fields[2:])))
    return events


def still_live(events):
    """Return {address: weighted bytes} of what was not freed; check that what is freed was live."""
    live = {}
    for kind, address, *figures in events:
        if kind == "A":
            check(address not in live, f"{address:x} is allocated twice")
            live[address] = figures[1]
        else:
            check(live.pop(address, None) is not None, f"{address:x} is freed and was not live")
    return live


def place_of(library, pid):
    """Return the address of a library in a process."""
    with open(f"/proc/{pid}/maps") as maps:
        return next(int(line.split("-")[0], 16) for line in maps if os.path.realpath(library) in line)


class Listener:
    """gdb, attached to a process and listening to its probes."""

    def __init__(self, pid, directory, library=LIBRARY):
        self.pid, self.library, self.probes = pid, library, probes_of(library)
        script = os.path.join(directory, "script")
        with open(script, "w") as file:
            file.write(script_of(self.probes["alloc"].provider))
        self.output = os.path.join(directory, f"events-{pid}")
        with open(self.output, "wb") as file:
            self.process = subprocess.Popen(
                [*QUIET, "-x", script, "-ex", "continue", "-ex", "delete", "-ex", "detach", "-p", str(pid)],
                stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT, start_new_session=True,
            )
        wait_for("the tracer to listen", lambda: self.process.poll() is not None or self.semaphores() == [1, 1])
        if self.process.poll() is not None:
            with open(self.output) as file:
                said = file.read()
            if "Operation not permitted" in said:
                skip("no permission to trace")
            check(False, f"gdb ended: {said[-500:]}")

    def semaphores(self):
        """Return both semaphores' values in the process."""
        base = place_of(self.library, self.pid)
        with open(f"/proc/{self.pid}/mem", "rb") as memory:
            values = []
            for name in ("alloc", "free"):
                memory.seek(base + self.probes[name].semaphore)
                values.append(int.from_bytes(memory.read(2), "little"))
            return values

    def end(self):
        """Stop listening; the process runs on. Return the events."""
        os.kill(self.process.pid, signal.SIGINT)
        self.process.wait(PATIENCE)
        check(self.semaphores() == [0, 0], "the semaphores are not 0 after the tracer has gone")
        return self.events()

    def events(self):
        with open(self.output) as file:
            return events_in(file.read())


def test_notes():
    """Both libraries have both probes, with semaphores and all arguments."""
    for library in ("libheapprofd_preload.so", "libheapprofd_client.so", "libheapprofd_client.a"):
        probes = probes_of(os.path.join(BUILD, library))
        check(sorted(probes) == ["alloc", "free"], f"{library}: probes {sorted(probes)}")
        check(len(probes["alloc"].arguments) == 3 and len(probes["free"].arguments) == 1, f"{library}: arguments")
        check(all(a.startswith("8@") for p in probes.values() for a in p.arguments), f"{library}: sizes of arguments")
        check(probes["alloc"].semaphore != probes["free"].semaphore, f"{library}: semaphores")


def test_real_program():
    """A preloaded program without a session, from its start: every event, and its output is its own."""
    provider = probes_of(LIBRARY)["alloc"].provider
    need("xmllint")
    directory = make_work_directory("test-usdt-")
    document, script, out = (os.path.join(directory, name) for name in ("document", "script", "out"))
    with open(document, "w") as file:
        file.write("<a>" + "".join(f'<b c="{i}">text {i}</b>' for i in range(20)) + "</a>")
    with open(script, "w") as file:
        file.write(script_of(provider))
    command = ["xmllint", "--format", document]
    bare = run(command)
    _, truth = profile(command)
    listened = run([
        *QUIET, "-x", script, "-ex", f"set environment LD_PRELOAD {LIBRARY}",
        "-ex", "set environment HEAPPROFD_USDT_INTERVAL 1", "-ex", f"run --format {document} >{out}", "xmllint",
    ])
    check(b"exited normally" in listened.stdout, f"gdb: {listened.stdout[-300:]!r}, {listened.stderr[-300:]!r}")
    with open(out, "rb") as file:
        check(file.read() == bare.stdout, "the program's output differs")
    events = events_in(listened.stdout.decode())
    allocated = [event for event in events if event[0] == "A"]
    total = truth.process().total
    check(len(allocated) == total.alloc_objects, f"{len(allocated)} allocations, the trace has {total.alloc_objects}")
    check(all(size == weighted for _, _, size, weighted in allocated), "at interval 1 a sample stands for its size")
    requested = sum(size for _, _, size, _ in allocated)
    check(requested == total.alloc_space, f"{requested} bytes, the trace has {total.alloc_space}")
    live = still_live(events)
    check(len(live) == total.objects, f"{len(live)} blocks remain, in the trace {total.objects}")
    check(sum(live.values()) == total.space, f"{sum(live.values())} bytes remain, in the trace {total.space}")


def is_same(seen, streamed):
    """Return whether a tracer's event is one of daemon.streamed_events()."""
    kind, address, *figures = seen
    # The trace's weight is not a whole number.
    return (kind, address) == ({"+": "A", "-": "F"}[streamed[1]], streamed[2]) and (
        kind == "F" or abs(figures[1] - streamed[3]) <= 1
    )


def test_session():
    """What a tracer sees during a session is what the trace has."""
    probes_of(LIBRARY)
    with scene() as (server, directory):
        process = Commanded(server.environment)
        recording = Recording(server, directory, config_of(
            process, "sampling_interval_bytes: 4096", "stream_allocations: true",
        ))
        joined(server, process)
        listener = Listener(process.pid, directory)
        process.tell("hold 2000 100")
        process.tell("churn 3000 700")
        process.tell("drop")
        process.tell("hold 300 50000")
        seen = listener.end()
        process.tell("drop")
        recording.end()
        streamed = streamed_events(recording.trace, process.pid)
        check(len(seen) > 1000, f"{len(seen)} events")
        # The trace has more: what came before the tracer, and after it.
        begins = [i for i in range(len(streamed) - len(seen) + 1) if is_same(seen[0], streamed[i])]
        agrees = [sum(map(is_same, seen, streamed[i:])) for i in begins]
        check(len(seen) in agrees, f"of {len(seen)} events {max(agrees, default=0)} are those of the trace")
        check(process.end() == 0, "the program failed")


def test_comes_and_goes():
    """A dormant process samples while a tracer listens, before and after a session, too."""
    interval = 1000
    probes_of(LIBRARY)
    with scene() as (server, directory):
        process = Commanded({**server.environment, "HEAPPROFD_USDT_INTERVAL": str(interval)})
        for turn in range(2):
            listener = Listener(process.pid, directory)
            process.wake()
            process.tell("hold 500 5000")
            process.tell("churn 2000 100")
            process.tell("drop")
            events = listener.end()
            large = [event for event in events if event[0] == "A" and event[2] == 5000]
            check(len(large) == 500, f"{len(large)} of 500 large blocks in turn {turn}")
            check(all(weighted == 5000 for _, _, _, weighted in large), "a large block stands for itself")
            small = [weighted for kind, *figures in events if kind == "A" and figures[1] == 100
                     for weighted in figures[2:]]
            # 100 / (1 - exp(-0.1))
            check(set(small) == {1051}, f"weights of blocks of 100 bytes: {set(small)}")
            # Of 2,000 blocks 190 are sampled, with a standard deviation of 13.
            check(190 - 80 < len(small), f"{len(small)} samples of small blocks")
            check(not still_live(events), "everything was freed")
            session = daemon.Session(server, os.path.join(directory, f"out{turn}"), "-p", str(process.pid))
            joined(server, process)
            process.tell("hold 10 1000")
            process.tell("drop")
            session.end()
        check(process.end() == 0, "the program failed")


def test_fast_tracers():
    """Tracers come and go much faster than preempted threads leave the hot path."""
    probes = probes_of(LIBRARY)
    process = subprocess.Popen(
        [program("busy_threads"), "8", "600"], stdout=subprocess.PIPE,
        env={**os.environ, "LD_PRELOAD": LIBRARY, "HEAPPROFD_USDT_INTERVAL": "2000"},
    )
    check(process.stdout.readline() == b"busy\n", "the program does not run")
    base = place_of(LIBRARY, process.pid)
    with open(f"/proc/{process.pid}/mem", "r+b", buffering=0) as memory:
        for turn in range(1, 801):
            for probe in probes.values():
                memory.seek(base + probe.semaphore)
                memory.write(bytes([turn % 2, 0]))
            time.sleep(0.001)
    process.terminate()
    check(process.stdout.read() == b"ok\n", "the program found errors")
    check(process.wait(PATIENCE) == 0, f"the program ended with {process.returncode}")
    process.stdout.close()


def test_own_heap():
    """The heaps of a program that is linked to the client."""
    library = os.path.realpath(os.path.join(BUILD, "libheapprofd_client.so"))
    probes_of(library)
    with scene() as (server, directory):
        process = Program(server.environment)
        heap = process.register("pool")
        session = daemon.Session(
            server, os.path.join(directory, "out"), "-p", str(process.pid), "--heaps", "pool", begins=False,
        )
        wait_for("the session", lambda: process.report(f"allocate {heap} 77 1000"))
        listener = Listener(process.pid, directory, library)
        check(process.report(f"allocate {heap} 4096 1000"), "not sampled")
        check(process.report(f"allocate {heap} 4096 3000"), "not sampled")
        process.tell(f"free {heap} 4096")
        process.tell(f"free {heap} 5")
        check(process.report(f"sample {heap} 8192 70000"), "not sampled")
        events = listener.end()
        wanted = [("A", 4096, 1000, 1000), ("F", 4096), ("A", 4096, 3000, 3000), ("F", 4096), ("A", 8192, 70000, 70000)]
        check(events == wanted, f"the tracer saw {events}")
        session.end()
        check(process.end() == 0, "the program failed")


def test_frames():
    """A tracer that follows frame pointers gets from the probe to malloc's caller, as one with unwind tables does."""
    provider = probes_of(LIBRARY)["alloc"].provider
    if os.uname().machine != "x86_64":
        skip("the registers are those of x86-64")
    link = "*(long *)(*(long *)(*(long *)$rbp))"
    up = [f"*(long *)({where} + 8)" for where in ("$rbp", "*(long *)$rbp", "*(long *)(*(long *)$rbp)", link)]
    directory = make_work_directory("test-usdt-")
    script = os.path.join(directory, "script")
    with open(script, "w") as file:
        file.write(script_of(
            provider, r'printf "P %lx %lx %lx %lx\n", ' + ", ".join(up), "backtrace 6",
        ))
    seen = run([
        *QUIET, "-x", script, "-ex", f"set environment LD_PRELOAD {LIBRARY}",
        "-ex", "set environment HEAPPROFD_USDT_INTERVAL 2000", "-ex", "run", "--args", "openssl", "version",
    ]).stdout.decode()
    by_pointers = [line.split()[1:] for line in seen.splitlines() if line.startswith("P ")]
    check(by_pointers, f"no sample: {seen[-500:]}")
    addresses = re.findall(r"^#([1-4]) +0x0*([0-9a-f]+) ", seen, re.M)
    by_tables = [[address for number, address in addresses[i:i + 4]] for i in range(0, len(addresses), 4)]
    check(by_pointers == by_tables, f"by frame pointers {by_pointers[:2]}, by tables {by_tables[:2]}")


if __name__ == "__main__":
    main()
