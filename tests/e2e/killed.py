#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""kill -9 of each part, at any instant: the trace contains what was promised, and the program continues
unchanged.

    killed.py CASE

The program keeps its own tally (tests/programs/tally.c), against which the trace is judged. Twelve kills
a case, six under sanitizers; two hundred with HEAPPROFD_LONG_TESTS=1.
"""

import concurrent.futures
import contextlib
import csv
import io
import json
import os
import random
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time

import harness
from daemon import PATIENCE, Daemon, wait_for
from harness import LONG, TOOL, check, program, run

# Under sanitizers twelve at once would wait for each other longer than the kills are apart.
AT_ONCE = 6 if harness.SANITIZED else 12
KILLS = 200 if LONG else AT_ONCE
LATEST_S = 3.0
# For what it writes and reads. The time in which it waits for a processor comes on top.
SLACK_S = 1.5 * harness.SLOWNESS
FIRST_CHECKPOINT_S = 1.0
THREADS, ENTRIES = 2, 131072
ENTRY = struct.Struct("=QQQ")
# The clock of the dumps' times ticks every 4 ms, and so does the one for their conversion.
TICK_S = 0.005
# Of a program that the test ends.
LIFETIME_MS = 600000
# Allocations of the C library, which the program does not count.
OWN_CALLS = 100


def now_s():
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def waited_s(pid):
    """Return how many seconds the first thread of a process, which profiles, has waited for a processor. 0: the kernel
    does not tell."""
    with contextlib.suppress(OSError):
        with open(f"/proc/{pid}/schedstat") as file:
            return int(file.read().split()[1]) / 1e9
    return 0


class Kill:
    """Kill a process, and note when: began_s <= the kill <= ended_s, since this program may be descheduled, too. None: on
    a loaded machine it had ended before."""

    def __init__(self, pid):
        self.waited_s = waited_s(pid)
        self.began_s = now_s()
        if pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.ended_s = now_s()


def used(part):
    """Return the beginning of a thread's ring that is in use: it is all in use as soon as its last entry is."""
    if len(part) < ENTRIES * ENTRY.size:
        return b""  # the program has not made its file yet
    low, high = 0, ENTRIES
    if ENTRY.unpack_from(part, (ENTRIES - 1) * ENTRY.size)[0]:
        low = high
    while low < high:
        middle = (low + high) // 2
        if ENTRY.unpack_from(part, middle * ENTRY.size)[0]:
            low = middle + 1
        else:
            high = middle
    return part[:low * ENTRY.size]


class Tally:
    """The program and its tally."""

    def __init__(self, directory, milliseconds):
        self.path = os.path.join(directory, "tally")
        self.output = os.path.join(directory, "output")
        self.command = [program("tally"), self.path, str(milliseconds)]
        self.had_ended = None  # at the kill; None: not known

    def entries(self):
        """Return [[(seconds, calls, bytes)] by thread], in order of time."""
        try:
            with open(self.path, "rb") as file:
                data = file.read()
        except FileNotFoundError:
            return [[], []]
        parts = [data[i * ENTRIES * ENTRY.size:(i + 1) * ENTRIES * ENTRY.size] for i in range(THREADS)]
        return [sorted((when / 1e9, calls, size) for when, calls, size in ENTRY.iter_unpack(used(part)) if when)
                for part in parts]

    def told(self, until_s):
        """Return the calls and bytes that it had made at that time, at least."""
        calls = size = 0
        for thread in self.entries():
            before = [entry for entry in thread if entry[0] <= until_s]
            if before:
                calls, size = calls + before[-1][1], size + before[-1][2]
        return calls, size

    def began_s(self):
        first = [thread[0][0] for thread in self.entries() if thread]
        return min(first) if first else None

    def last_s(self):
        return max(thread[-1][0] for thread in self.entries() if thread)

    def check_output(self, what):
        """Check that it ran to its end and reported it."""
        def lines():
            with open(self.output) as file:
                return file.read().split()
        if not wait_for(f"{what}: the program's output", lambda: len(lines()) == THREADS):
            return
        wanted = [thread[-1][1] for thread in self.entries()]
        check([int(word) for word in lines()] == wanted, f"{what}: it printed {lines()}, tally {wanted}")


class Killed:
    """The program's figures in a trace; has_dump is False if there are none."""

    def __init__(self, directory, what):
        self.has_dump, self.unfinished = False, None
        outcome = run([TOOL, "report", "--json", directory])
        if outcome.status != 0:
            words = outcome.stderr.decode()
            check("no heap profile in it" in words or "no raw-trace in it" in words or "No such file" in words
                  or "there is no trace packet" in words, f"{what}: {words[-300:]}")
            return
        heaps = [heap for heap in json.loads(outcome.stdout)["heaps"] if heap["name"] == "tally" and not heap["unseen"]]
        if not heaps:
            return
        heap = heaps[-1]
        self.has_dump, self.unfinished = True, heap["unfinished"]
        check(not heap["incomplete"], f"{what}: the dump is incomplete")
        self.calls, self.bytes = heap["exact_calls"], heap["exact_bytes"]
        self.samples, self.lost = heap["total"]["samples"], heap["lost"]["allocations"]
        text = run([TOOL, "report", directory]).stdout.decode()
        check(("\n  unfinished  " in text) == self.unfinished, f"{what}: unfinished {self.unfinished}: {text[:900]}")
        rows = run([TOOL, "query", directory, "select max(ts) from heap_profile_allocation"]).stdout.decode()
        self.when_s = int(list(csv.reader(io.StringIO(rows)))[1][0]) / 1e9

    def check_promise(self, tally, what, since=(0, 0), killed_s=None):
        """Check that a dump has all that the program had allocated before, and nothing that it never allocated."""
        told = [number - before for number, before in zip(tally.told(self.when_s - TICK_S), since)]
        check(self.calls >= told[0], f"{what}: {self.calls} calls in the trace, {told[0]} noted before its dump")
        check(self.bytes >= told[1], f"{what}: {self.bytes} bytes in the trace, {told[1]} noted before its dump")
        check(self.samples + self.lost == self.calls, f"{what}: {self.samples} samples, {self.calls} calls, {self.lost} lost")
        if killed_s is not None:
            most = tally.told(killed_s + 1)[0] + OWN_CALLS
            check(self.calls <= most, f"{what}: {self.calls} calls in the trace, {most} made")


def check_killed_profiler(directory, tally, kill, what, since=(0, 0), began_s=None):
    """Return a dump of a profiler that ran long enough, not older than half of its life."""
    trace = Killed(os.path.join(directory, "profile"), what)
    began_s = began_s or tally.began_s()
    age_s = kill.began_s - began_s if began_s else 0
    slack_s = SLACK_S + kill.waited_s
    if trace.has_dump:
        trace.check_promise(tally, what, since, kill.ended_s)
        # On a loaded machine the program, and with it the session, may have ended before the kill.
        had_ended = tally.last_s() < kill.began_s - 0.1 if tally.had_ended is None else tally.had_ended
        check(trace.unfinished or had_ended, f"{what}: it is not called unfinished")
        missing_s = min(kill.began_s, tally.last_s()) - trace.when_s
        check(missing_s <= age_s / 2 + slack_s,
              f"{what}: killed after {age_s:.2f} s, {missing_s:.2f} s are missing, waited {kill.waited_s:.2f} s")
    check(trace.has_dump or age_s < FIRST_CHECKPOINT_S + slack_s,
          f"{what}: no dump after {age_s:.2f} s, waited {kill.waited_s:.2f} s")
    return trace.has_dump


def many(kill):
    """Call kill(directory, delay in seconds, what) repeatedly. Return how many calls left a dump."""
    chance = random.Random(4711)
    delays = [chance.uniform(0, LATEST_S) for _ in range(KILLS)]

    def one(number):
        with tempfile.TemporaryDirectory(prefix="test-killed-") as directory:
            return kill(directory, delays[number], f"kill {number} after {delays[number]:.3f} s")

    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        left = list(pool.map(one, range(KILLS)))
    print(f"{KILLS} kills, {sum(map(bool, left))} left a dump")
    check(sum(map(bool, left)) >= KILLS // 3, f"only {sum(map(bool, left))} of {KILLS} left a dump")


def start_command(directory, tally):
    with open(tally.output, "wb") as output:
        return subprocess.Popen(
            harness.host_command(tally.command, os.path.join(directory, "profile"), 1),
            stdout=output, stderr=subprocess.DEVNULL,
        )


def test_command():
    """Kill the profiler of a command."""
    def kill(directory, delay, what):
        tally = Tally(directory, int((delay + 1) * 1000))
        profiler = start_command(directory, tally)
        time.sleep(delay)
        killed = Kill(profiler.pid)
        profiler.wait()
        if tally.began_s() is None:  # it will not start any more, or it starts now
            time.sleep(2)
        if tally.began_s() is not None:
            tally.check_output(what)
        return check_killed_profiler(directory, tally, killed, what)

    many(kill)


def test_program():
    """Kill the program itself: the trace is complete and has all of its calls."""
    def kill(directory, delay, what):
        tally = Tally(directory, 60000)
        profiler = start_command(directory, tally)
        target = wait_for(f"{what}: it begins", lambda: tally.began_s() and harness.find_descendant(profiler.pid, "tally"))
        time.sleep(delay / 4)
        os.kill(target, signal.SIGKILL)
        status = profiler.wait(harness.TIMEOUT)
        check(status == -signal.SIGKILL, f"{what}: status {status}")
        trace = Killed(os.path.join(directory, "profile"), what)
        if check(trace.has_dump and not trace.unfinished, f"{what}: no whole profile"):
            trace.when_s = now_s()
            trace.check_promise(tally, what, killed_s=now_s())
        return trace.has_dump

    many(kill)


def has_client(process):
    """Return whether the profiler is in the process, and no longer attaching to it."""
    try:
        with open(f"/proc/{process.pid}/status") as status:
            return bool(harness.client_mappings(process.pid)) and "TracerPid:\t0\n" in status.read()
    except OSError:  # it has ended
        return False


def has_ended(pid):
    """Return whether a process that is not ours has ended; its parent may not have waited for it."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(") ", 1)[1][0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


def wait_for_client(process):
    wait_for("the profiler's part in the process", lambda: has_client(process) or process.poll() is not None)
    time.sleep(0.2)


def sessions_of(daemon):
    """Return None if no answer arrived in time."""
    status = daemon.status()
    return None if status is None else status["sessions"]


def attach_and_kill(directory, delay, what, victim):
    """Start a session of a running program, and kill `victim`: the tool that profiles, or with a daemon the daemon, the
    session's process, or the requesting tool. Return (the tally, the kill, its calls before, time of the start).
    The tally's was_attached says whether the profiler was in the program."""
    with_daemon = victim != "tool"
    tally = Tally(directory, LIFETIME_MS)
    with open(tally.output, "wb") as output:
        process = subprocess.Popen(tally.command, stdout=output)
    wait_for(f"{what}: the program begins", tally.began_s)
    daemon = Daemon(directory)
    if with_daemon:
        daemon.start()
    session = subprocess.Popen(
        [TOOL, "-i", "1", "-q", "-o", os.path.join(directory, "profile"), "-p", str(process.pid)],
        env=daemon.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )
    since = (0, 0)
    if with_daemon:  # otherwise the tool profiles by itself
        wait_for(f"{what}: the session", lambda: sessions_of(daemon) or session.poll() is not None)
    # A busy machine may take seconds until the session profiles: its age counts from there.
    if delay > 1:
        wait_for_client(process)
        since = tally.told(now_s() + 1)
    began_s = now_s()
    time.sleep(delay)
    tally.was_attached = has_client(process)
    pid = session.pid if victim in ("tool", "requester") else daemon.process.pid
    if victim == "session":
        pid = harness.find_descendant(pid, "heapd-session")
    finishing = harness.find_descendant(daemon.process.pid, "heapd-session") if victim == "daemon" else None
    killed = Kill(pid)
    tally.had_ended = process.poll() is not None
    session.wait(PATIENCE)
    if victim == "daemon":
        daemon.process.wait()
    wait_for(f"{what}: the program goes on", lambda: tally.began_s() and tally.last_s() > killed.ended_s + 0.2)
    process.terminate()
    check(process.wait(PATIENCE) == 0, f"{what}: the program's status is {process.returncode}")
    began = tally.began_s()
    check(began is not None and began < killed.began_s, f"{what}: the tally does not reach back to the kill")
    if finishing:
        wait_for(f"{what}: the end of the session's process", lambda: has_ended(finishing))
    tally.check_output(what)
    if victim in ("requester", "session"):
        wait_for("the session's end", lambda: sessions_of(daemon) == [])
        daemon.end()
    if delay <= 1:
        since = tally.told(now_s())
    return tally, killed, since, began_s


def test_session():
    """Kill heap_profile -p without a daemon."""
    def kill(directory, delay, what):
        tally, killed, since, began_s = attach_and_kill(directory, delay, what, "tool")
        return check_killed_profiler(directory, tally, killed, what, since, began_s)

    many(kill)


def test_session_process():
    """Kill the daemon's process for one session: its programs and the daemon continue."""
    def kill(directory, delay, what):
        tally, killed, since, began_s = attach_and_kill(directory, delay, what, "session")
        return check_killed_profiler(directory, tally, killed, what, since, began_s)

    many(kill)


def finishes(victim):
    """Kill a process that the session survives: the trace is complete."""
    def kill(directory, delay, what):
        tally, killed, since, _ = attach_and_kill(directory, delay, what, victim)
        trace = Killed(os.path.join(directory, "profile"), what)
        if trace.has_dump:
            check(not trace.unfinished, f"{what}: it is called unfinished")
            trace.check_promise(tally, what, since, killed.ended_s + 10)
        check(trace.has_dump or not tally.was_attached, f"{what}: no dump")
        return trace.has_dump

    many(kill)


def test_daemon():
    """Kill the daemon itself: its session processes finish their traces."""
    finishes("daemon")


def test_requester():
    """Kill the tool that requested the session."""
    finishes("requester")


# A real program whose output would show a change in it. It has the leftovers of an attacher that is killed
# while it removes its memory.
COUNTING = """
import ctypes, hashlib, os, sys, time
ring = os.memfd_create("heapprofd-ring-attached")
ctypes.CDLL(None).mmap(None, ctypes.c_size_t(1 << 24), 0, 1, ring, 0)
os.close(ring)
digest, end = hashlib.sha256(), time.monotonic() + float(sys.argv[1])
words, rounds = [], 0
while time.monotonic() < end or rounds % 1000:
    words.append(str(rounds) * 20)
    digest.update(words[-1].encode())
    rounds += 1
    if len(words) > 500:
        words = [word for word in words[250:]]
    if rounds % 1000 == 0:
        print(rounds, digest.hexdigest(), flush=True)
"""


def check_counting(lines):
    """Return the lines that the program prints without a profiler."""
    import hashlib
    digest, rounds = hashlib.sha256(), 0
    for line in lines:
        told, told_digest = line.split()
        while rounds < int(told):
            digest.update((str(rounds) * 20).encode())
            rounds += 1
        if not check(told_digest == digest.hexdigest(), f"after {told} rounds it printed something else"):
            return


def test_attaching():
    """Kill the profiler while it attaches or detaches: python3 continues, and a later session is complete."""
    seconds = 180 if LONG else 9
    chance = random.Random(42)
    with tempfile.TemporaryDirectory(prefix="test-killed-") as directory:
        environment = Daemon(directory).environment
        process = subprocess.Popen([sys.executable, "-c", COUNTING, str(seconds)], stdout=subprocess.PIPE)
        lines = []
        reader = threading.Thread(target=lambda: lines.extend(process.stdout))
        reader.start()
        end = time.monotonic() + seconds - 5
        kills = 0
        while kills < KILLS and time.monotonic() < end:
            session = subprocess.Popen(
                [TOOL, "-q", "-d", "100", "-o", os.path.join(directory, f"o{kills}"), "-p", str(process.pid)],
                env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )
            time.sleep(chance.uniform(0, 0.3))
            session.kill()
            session.wait()
            kills += 1
            if not check(process.poll() is None, f"kill {kills}: status {process.returncode}"):
                break
        print(f"{kills} kills")
        check(kills >= KILLS // 3, f"only {kills} kills")
        # If a thread was inside the client for too long, the next attachment removes the client.
        left, rounds = True, 0
        while left and rounds < 3 and process.poll() is None:
            rounds += 1
            last = os.path.join(directory, f"last{rounds}")
            outcome = run([TOOL, "-q", "-d", "300", "-o", last, "-p", str(process.pid)], env=environment)
            check(outcome.status == 0, f"a session afterwards: {outcome.status} {outcome.stderr[-300:]}")
            # The page of jumps stays (docs/attach.md).
            left = [line for line in harness.client_mappings(process.pid) if "heapprofd_calls" not in line]
        check(not left, f"left mapped: {left}, {outcome.stderr[-300:]}")
        check(process.wait(seconds + PATIENCE) == 0, f"status {process.returncode}")
        reader.join()
        process.stdout.close()
        check(len(lines) > 3, f"{len(lines)} lines")
        check_counting(line.decode() for line in lines)
        heap = json.loads(run([TOOL, "report", "--json", last]).stdout)["heaps"][-1]
        check(heap["heap_samples"] > 0 and not heap["unfinished"], f"a session afterwards: {heap['remark']}")


if __name__ == "__main__":
    harness.main()
