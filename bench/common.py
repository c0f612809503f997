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
# The library that make_pass_through() compiles.
PASS_THROUGH = os.path.join(BUILD, "pass_through.so")
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


def make_pass_through():
    """Compile bench/pass_through.c."""
    source = os.path.join(ROOT, "bench", "pass_through.c")
    subprocess.run(["gcc", "-O2", "-shared", "-fPIC", "-o", PASS_THROUGH, source], check=True)


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


class Figure(float):
    """A median, with its quartiles as `low` and `high`."""

    def __new__(cls, median, low, high):
        figure = super().__new__(cls, median)
        figure.low, figure.high = low, high
        return figure

    def __getnewargs__(self):
        """A process that measured passes it on (pickle)."""
        return float(self), self.low, self.high

    def less(self, other):
        """Return the difference. Its bounds are those of the two quartiles farthest apart."""
        return Figure(self - other, self.low - other.high, self.high - other.low)


def figure_of(values):
    """Return the Figure of some runs."""
    values = list(values)
    if len(values) < 2:
        return Figure(values[0], values[0], values[0])
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return Figure(median, low, high)


def spread(figure, form="{:.1f}"):
    """Return a Figure as text, with its quartiles."""
    if not isinstance(figure, Figure) or figure.low == figure.high:
        return form.format(figure)
    return f"{form.format(figure)} ({form.format(figure.low)} to {form.format(figure.high)})"


def medians(runs):
    """Return the Figure of each column."""
    return tuple(map(figure_of, zip(*runs)))


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
