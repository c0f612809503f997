#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Contexts as slices (--context-slices), read from the trace's packets without any of the project's code.

    slices.py CASE
"""

import contextlib
import os
import sys

import trace
from daemon import Session, scene, wait_for
from harness import check, host_command, main, make_work_directory, program, run
from heaps import WAYS_AND_STATIC, Program

BEGIN, END = 1, 2


class Slice:
    def __init__(self, name, begin, depth):
        self.name, self.begin, self.end, self.depth, self.doubt = name, begin, None, depth, None

    def __repr__(self):
        return f"{'  ' * self.depth}{self.name} {self.begin} to {self.end}"


class Track:
    def __init__(self, thread):
        self.pid, self.tid = trace.first(thread, 1), trace.first(thread, 2)
        self.slices, self.open = [], []


def tracks_of(path):
    """Return the tracks of a trace, in the order of their packets, with their slices."""
    with open(path, "rb") as file:
        packets = [packet for number, packet in trace.fields(file.read()) if number == 1]
    tracks, names, events = {}, {}, []
    for packet in packets:
        for _, interned in (f for f in trace.fields(packet) if f[0] == 12):
            for _, name in (f for f in trace.fields(interned) if f[0] == 2):
                names[trace.first(name, 1)] = trace.first(name, 2).decode()
        descriptor, event = trace.first(packet, 60, b""), trace.first(packet, 11, b"")
        if thread := trace.first(descriptor, 4, None):
            tracks[trace.first(descriptor, 1)] = Track(thread)
        if trace.first(event, 9) in (BEGIN, END):
            events.append((trace.first(packet, 8), event, names.get(trace.first(event, 10))))
    # As readers do: by time, and packets of one time in their order.
    for at, event, name in sorted(events, key=lambda event: event[0]):
        track = tracks[trace.first(event, 11)]
        if trace.first(event, 9) == BEGIN:
            track.slices.append(Slice(name, at, len(track.open)))
            track.open.append(track.slices[-1])
        elif check(track.open, f"an end at {at} without a slice"):
            track.open[-1].end = at
            annotation = trace.first(event, 4, None)
            track.open.pop().doubt = annotation and trace.first(annotation, 6).decode()
    return list(tracks.values())


def shape(track):
    return " ".join("." * s.depth + s.name + ("" if s.end else "?") for s in track.slices)


@contextlib.contextmanager
def sliced(way):
    """Run a program in a session with slices for the block. Afterwards its `tracks` are there."""
    with scene() as (daemon, directory):
        process = Program(daemon.environment, way)
        output = os.path.join(directory, "out")
        wake = process.register("wake")
        process.tell("push before")
        session = Session(daemon, output, "-p", str(process.pid), "--context-slices", "--all-heaps")

        def joins():
            process.ask(f"allocate {wake} 1 100000")
            return process.pid in daemon.profiled_pids()

        wait_for("the process to join", joins)
        yield process
        check(session.end() == 0, session.stderr)
        process.tracks = tracks_of(os.path.join(output, "raw-trace"))
        check(process.end() == 0, "the program failed")


def test_nesting():
    """Slices nest as the scopes do, whatever leaves a scope, in each way to have the client."""
    for way in WAYS_AND_STATIC:
        with sliced(way) as process:
            for line in ("push a", "push b", "pop 1", "push b", "push c", "drop_scope jumped", "push d"):
                process.tell(line)
            process.tell("pop 2") # c, and with it what is inside
            process.tell("pop 2")
            process.tell("pop 1") # its begin was before the session
            process.tell("elsewhere push x;push y;pop 1;drop_scope z") # the thread dies in two scopes
            process.tell("fork push child") # another process, which no session profiles
            process.tell("push open")
        shapes = [shape(track) for track in process.tracks]
        check(shapes == ["a .b .b ..c ...jumped ....d open?", "x? .y .z?"], f"{way}: {shapes}")
        threads = [(track.pid, track.tid == track.pid) for track in process.tracks]
        check(threads == [(process.pid, True), (process.pid, False)], f"{way}: {threads}")


PYTHON = """
import ctypes, json, threading, time, zlib
client, lines = ctypes.CDLL(None), []

class Scope(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("outer", ctypes.c_void_p), ("check", ctypes.c_void_p)]

def scoped(name, work, *arguments):
    storage, times = Scope(), []
    times.append(time.clock_gettime_ns(time.CLOCK_BOOTTIME))
    client.HeapProfile_pushContext(ctypes.byref(storage), name.encode())
    times.append(time.clock_gettime_ns(time.CLOCK_BOOTTIME))
    work(*arguments)
    times.append(time.clock_gettime_ns(time.CLOCK_BOOTTIME))
    client.HeapProfile_popContext(ctypes.byref(storage))
    times.append(time.clock_gettime_ns(time.CLOCK_BOOTTIME))
    lines.append(" ".join(map(str, (name, *times))))

def pack(number):
    scoped(f"dump {number}", lambda: zlib.compress(json.dumps(list(range(5000))).encode()))

def thread(number):
    scoped(f"thread {number}", lambda: [pack(number) for _ in range(20)])

threads = [threading.Thread(target=thread, args=(number,)) for number in range(3)]
scoped("start", lambda: [thread.start() for thread in threads])
scoped("join", lambda: [thread.join() for thread in threads])
print(*lines, sep="\\n")
"""


def test_python():
    """Python with threads, from its first scope: each slice begins and ends when its scope does."""
    directory = make_work_directory("test-slices-")
    outcome = run(host_command([sys.executable, "-c", PYTHON], os.path.join(directory, "out"), 100000, "--context-slices"))
    check(outcome.status == 0, outcome.stderr[-500:])
    wanted = {}
    for line in outcome.stdout.decode().splitlines():
        *name, before, begun, ends, after = line.split()
        wanted.setdefault(" ".join(name), []).append((int(before), int(begun), int(ends), int(after)))
    tracks = tracks_of(os.path.join(directory, "out", "raw-trace"))
    check(len(tracks) == 4, f"{len(tracks)} tracks")
    found = sorted((s for track in tracks for s in track.slices), key=lambda s: s.begin)
    check(len(found) == sum(map(len, wanted.values())), f"{len(found)} slices")
    for one in found:
        # The profiler knows the distance of the two clocks to a few microseconds.
        before, begun, ends, after = wanted[one.name].pop(0)
        slack = 100000
        check(before - slack <= one.begin <= begun + slack, f"{one}: begun between {before} and {begun}")
        check(ends - slack <= one.end <= after + slack, f"{one}: ended between {ends} and {after}")
        check(one.depth == one.name.startswith("dump") and not one.doubt, f"{one}")


def test_left_in_every_way():
    """Scopes that are used incorrectly, or left by jumps: no end is without a begin, and the output is the program's own."""
    directory = make_work_directory("test-slices-")
    bare = run([program("heap_scopes")])
    outcome = run(host_command(
        [program("heap_scopes")], os.path.join(directory, "out"), 1, "--context-slices", "--all-heaps",
    ))
    outcome.check_same(bare, "heap_scopes")
    tracks = tracks_of(os.path.join(directory, "out", "raw-trace"))
    check(sum(len(track.slices) for track in tracks) > 20, f"{[len(track.slices) for track in tracks]} slices")
    check(not any(one.doubt for track in tracks for one in track.slices), "a slice's end is in doubt")


def test_off():
    """Without the option the trace has no slices."""
    directory = make_work_directory("test-slices-")
    run(host_command([program("heap_scopes")], os.path.join(directory, "out"), 1, "--all-heaps"))
    check(tracks_of(os.path.join(directory, "out", "raw-trace")) == [], "there are slices")


if __name__ == "__main__":
    main()
