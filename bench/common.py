# SPDX-License-Identifier: Apache-2.0
"""Shared by the benchmarks: the build that is measured, and the cost of a command.

HEAPPROFD_BUILD names the build directory (default: build).
"""

import contextlib
import os
import statistics
import subprocess
import time
from typing import NamedTuple

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.path.abspath(os.environ.get("HEAPPROFD_BUILD", os.path.join(ROOT, "build")))
TOOL = os.environ.get("HEAPPROFD_TOOL", os.path.join(BUILD, "heap_profile"))
TRACECONV = os.path.join(BUILD, "traceconv")


class Cost(NamedTuple):
    """Wall and CPU seconds of a command and all its descendants that it waited for, and the peak of
    resident memory in MB."""

    wall: float
    cpu: float
    peak: float


def make(*targets):
    """Build targets that are not built by default. Return their paths."""
    subprocess.run(["ninja", "-C", BUILD, *targets], check=True, stdout=subprocess.DEVNULL)
    return [os.path.join(BUILD, target) for target in targets]


def make_micro(directory):
    """Compile bench/micro.c. Return its path."""
    path = os.path.join(directory, "micro")
    source = os.path.join(ROOT, "bench", "micro.c")
    subprocess.run(["gcc", "-O2", "-pthread", "-o", path, source], check=True)
    return path


def run(command, stdin=os.devnull, env=None, during=None, **how):
    """Run a command without output, and during() beside it. Return its exit status and its Cost."""
    began = time.monotonic()
    with open(stdin, "rb") as source:
        process = subprocess.Popen(command, stdin=source, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                   env={**os.environ, **(env or {})}, **how)
    if during:
        during(process)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, Cost(time.monotonic() - began, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def cost(command, statuses=(0,), **how):
    """Return the Cost of a command that ends with one of these statuses."""
    status, found = run(command, **how)
    if status not in statuses:
        raise RuntimeError(f"{command}: status {status}")
    return found


def medians(runs):
    """Return the median of each column."""
    return tuple(map(statistics.median, zip(*runs)))


def median_cost(command, rounds, **how):
    return Cost(*medians([cost(command, **how) for _ in range(rounds)]))


@contextlib.contextmanager
def load(programs):
    """Keep this number of programs computing."""
    running = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(programs)]
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()
