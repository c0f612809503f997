#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Measure how long heap_profile report takes for a trace of 100,000 callsites.

    bench/report.py [CALLSITES]

tests/e2e/make_trace.c writes the trace with our own trace writer: two dumps, 16 frames a stack.
Figures are medians of seven runs: seconds of CPU time, user and system, and wall time.
"""

import os
import subprocess
import sys
import tempfile

from common import TOOL, make, median_cost

RUNS = 7
WAYS = {"table": (), "max": ("--view", "max"), "cumulative": ("--cumulative",), "tree": ("--tree",),
        "thread": ("--thread",), "json": ("--json",)}


def measure_report(callsites=100000):
    """Return {way: (wall, CPU)} in seconds, and "bytes" of the trace."""
    make_trace, _ = make("tests/e2e/make_trace", "heap_profile")
    with tempfile.TemporaryDirectory(prefix="bench-") as work:
        subprocess.run([make_trace, work, str(callsites)], check=True, stdout=subprocess.DEVNULL)
        found = {"bytes": os.path.getsize(os.path.join(work, "raw-trace"))}
        for way, options in WAYS.items():
            found[way] = median_cost([TOOL, "report", *options, work], RUNS)[:2]
    return found


if __name__ == "__main__":
    figures = measure_report(*map(int, sys.argv[1:2]))
    size = figures.pop("bytes")
    print(f"trace: {size / 1e6:.1f} MB")
    for name, (wall, cpu) in figures.items():
        print(f"{name:11} {wall:.2f} s wall, {cpu:.2f} s CPU, {size / 1e6 / cpu:.0f} MB/s of CPU time")
