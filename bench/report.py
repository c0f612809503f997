#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Measure how long heap_profile report takes for a trace of 100,000 callsites.

    bench/report.py [CALLSITES]      HEAPPROFD_BUILD names the build directory

tests/e2e/make_trace.c writes the trace with our own trace writer: two dumps, 16 frames a stack.
Figures are medians of seven runs: seconds of CPU time, user and system, and wall time.
"""

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.path.abspath(os.environ.get("HEAPPROFD_BUILD", os.path.join(ROOT, "build")))
RUNS = 7
WAYS = {"table": (), "max": ("--view", "max"), "cumulative": ("--cumulative",), "tree": ("--tree",),
        "thread": ("--thread",), "json": ("--json",)}


def cpu_seconds():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def measure_once(command):
    begin, cpu = time.monotonic(), cpu_seconds()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    return time.monotonic() - begin, cpu_seconds() - cpu


def measure_report(callsites=100000):
    """Return {way: (wall, CPU)} in seconds, and "bytes" of the trace."""
    subprocess.run(["ninja", "-C", BUILD, "tests/e2e/make_trace", "heap_profile"], check=True,
                   stdout=subprocess.DEVNULL)
    with tempfile.TemporaryDirectory(prefix="bench-") as work:
        subprocess.run([os.path.join(BUILD, "tests/e2e/make_trace"), work, str(callsites)], check=True,
                       stdout=subprocess.DEVNULL)
        found = {"bytes": os.path.getsize(os.path.join(work, "raw-trace"))}
        for way, options in WAYS.items():
            command = [os.path.join(BUILD, "heap_profile"), "report", *options, work]
            runs = [measure_once(command) for _ in range(RUNS)]
            found[way] = tuple(statistics.median(run[i] for run in runs) for i in (0, 1))
    return found


if __name__ == "__main__":
    figures = measure_report(*map(int, sys.argv[1:2]))
    size = figures.pop("bytes")
    print(f"trace: {size / 1e6:.1f} MB")
    for name, (wall, cpu) in figures.items():
        print(f"{name:11} {wall:.2f} s wall, {cpu:.2f} s CPU, {size / 1e6 / cpu:.0f} MB/s of CPU time")
