#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Programs of every difficult kind run at once, while profilers attach to them and leave them at random moments.

    attach_stress.py CASE

HEAPPROFD_STRESS_SECONDS says how long, HEAPPROFD_STRESS_SEED which moments. For an hour:

    HEAPPROFD_STRESS_SECONDS=3600 tests/e2e/attach_stress.py at_random
"""

import collections
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time

import harness
from attach import code_of, descriptors_of, maps_of
from harness import TOOL, check, program

SECONDS = float(os.environ.get("HEAPPROFD_STRESS_SECONDS", "200" if harness.LONG else "15"))
SEED = int(os.environ.get("HEAPPROFD_STRESS_SEED", random.randrange(1 << 32)))
PROFILERS = 3

# A library is loaded, used and unloaded, while another thread forks, until standard input ends.
LOADS_AND_FORKS = """
import _ctypes, ctypes, os, sys, threading
over = threading.Event()
def load():
    while not over.is_set():
        library = ctypes.CDLL("libz.so.1")
        library.crc32(0, b"abc", 3)
        _ctypes.dlclose(library._handle)
        data = [bytes(i) for i in range(1000)]
def fork():
    while not over.is_set():
        child = os.fork()
        if child == 0:
            os._exit(len([str(i) for i in range(100)]) & 7)
        assert os.waitpid(child, 0)[1] == (100 & 7) << 8
        over.wait(0.02)
threads = [threading.Thread(target=work) for work in (load, load, fork)]
for thread in threads:
    thread.start()
print("begun", flush=True)
sys.stdin.read()
over.set()
for thread in threads:
    thread.join()
print("ok")
"""


class Target:
    """A program that runs until the end of the test, and then says whether it noticed anything.

    ends_by: SIGTERM, or None for the end of its standard input; last: the end of what it prints;
    is_steady: its files are mapped once for all; bears_kills: it does not notice what a profiler can leave that is
    killed while it attaches (docs/attach.md, limits), but for its descriptors."""

    def __init__(self, *command, ends_by=None, last=b"ok\n", is_steady=True, bears_kills=False):
        self.name = os.path.basename(command[0])
        self.ends_by, self.last, self.is_steady, self.bears_kills = ends_by, last, is_steady, bears_kills
        self.lock = threading.Lock()
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
        self.pid = self.process.pid
        line = self.process.stdout.readline()
        self.is_running = bool(line) and b"io_uring_setup" not in line

    def look(self):
        if not self.is_steady:
            return None
        return code_of(self.pid), maps_of(self.pid), None if self.bears_kills else descriptors_of(self.pid)

    def end(self):
        if self.ends_by is not None:
            self.process.send_signal(self.ends_by)
        out = self.process.communicate(timeout=harness.TIMEOUT)[0]
        check(self.process.returncode == 0, f"{self.name} ends with {self.process.returncode}")
        check(out.endswith(self.last), f"{self.name} prints {out!r}")


def start_targets():
    targets = [
        Target(program("io_uring_worker"), ends_by=signal.SIGTERM),
        Target(program("io_uring_worker"), "poll", ends_by=signal.SIGTERM),
        Target(program("small_coroutine"), ends_by=signal.SIGTERM),
        Target(program("vfork_parent"), ends_by=signal.SIGTERM),
        Target(program("busy_threads"), "8", str(SECONDS + 1000), ends_by=signal.SIGTERM, bears_kills=True),
        Target(program("interrupted_calls"), last=b"\n"),
        Target(program("blocked")),
        Target(sys.executable, "-c", LOADS_AND_FORKS, is_steady=False, bears_kills=True),
    ]
    for target in targets:
        if not target.is_running:
            target.process.kill()
            target.process.wait()
    return [target for target in targets if target.is_running]


class Profiler(threading.Thread):
    """Attaches to some of the targets, again and again, until the time is over."""

    def __init__(self, number, targets, directory, until):
        super().__init__()
        self.random = random.Random(f"{SEED} {number}")
        self.targets, self.until = targets, until
        self.directory = directory
        self.environment = {**os.environ, "HEAPPROFD_RUN_DIR": os.path.join(directory, f"run{number}")}
        self.outcomes = collections.Counter()
        self.failures = []

    def command(self, pids, output):
        interval = self.random.choice(([], ["-i", "1"], ["-i", "4096"], ["-i", "524288"]))
        return [TOOL, "--quiet", "-o", output, "-d", str(self.random.randrange(1, 300)), *interval,
                "-p", ",".join(map(str, pids))]

    def attach(self, targets, ends_by=None):
        """Attach once. ends_by: a signal that ends the profiler early."""
        pids = [target.pid for target in targets]
        with tempfile.TemporaryDirectory(dir=self.directory) as output:
            process = subprocess.Popen(self.command(pids, output), env=self.environment, stdout=subprocess.DEVNULL,
                                       stderr=subprocess.PIPE, start_new_session=True)
            if ends_by is not None:
                time.sleep(self.random.random() * 0.2)
                process.send_signal(ends_by)
            stderr = process.communicate(timeout=harness.TIMEOUT)[1]
        self.outcomes["killed" if ends_by == signal.SIGKILL else "ended" if ends_by else "whole"] += 1
        # A thread in vfork() cannot be stopped, so the process is refused.
        if ends_by is None and process.returncode != 0 and b"(vfork_parent): " not in stderr:
            self.failures.append((pids, process.returncode, stderr[-400:]))

    def run(self):
        while time.monotonic() < self.until:
            chosen = self.random.sample(self.targets, self.random.randint(1, 3))
            # Two profilers at once would refuse each other.
            mine = [target for target in chosen if target.lock.acquire(blocking=False)]
            try:
                ends_by = self.random.choices((None, signal.SIGINT, signal.SIGKILL), (70, 15, 15))[0]
                if ends_by == signal.SIGKILL and not all(target.bears_kills for target in mine):
                    ends_by = None
                if mine:
                    self.attach(mine, ends_by)
            except (OSError, subprocess.SubprocessError) as error:
                self.failures.append(repr(error))
            finally:
                for target in mine:
                    target.lock.release()


def test_at_random():
    print(f"HEAPPROFD_STRESS_SEED={SEED}")
    targets = start_targets()
    looks = {target: target.look() for target in targets}
    with tempfile.TemporaryDirectory(prefix="test-") as directory:
        profilers = [Profiler(n, targets, directory, time.monotonic() + SECONDS) for n in range(PROFILERS)]
        try:
            for profiler in profilers:
                profiler.start()
            for profiler in profilers:
                profiler.join()
            for target in targets:
                profilers[0].attach([target])
                look = target.look()
                check(look == looks[target], f"{target.name}: its code, mappings or descriptors are others: "
                      f"{look} instead of {looks[target]}")
                target.end()
        finally:
            for target in targets:
                target.process.kill()
                target.process.wait()
    total = sum((profiler.outcomes for profiler in profilers), collections.Counter())
    failures = [failure for profiler in profilers for failure in profiler.failures]
    print(f"{sum(total.values())} attachments to {len(targets)} programs in {SECONDS:.0f} s: {dict(total)}")
    check(total["whole"] > 0 and not failures, f"{len(failures)} failed: {failures[:5]}")


if __name__ == "__main__":
    harness.limit_core_dumps()
    harness.main()
