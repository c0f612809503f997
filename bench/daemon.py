#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Measure the costs of the daemon besides single events: dumps, --dump-at-max, waiting without a
session.

    bench/daemon.py
"""

import os
import re
import subprocess
import tempfile
import time

from common import BUILD, TOOL, cost, figure_of, make, make_micro, medians

RUNS = 5
PAIRS = 5000000
BLOCKS = 2000000
DUMP = re.compile(r"(\w+) dump: (\d+) ms, ingestion stalled for ([\d.]+) ms")


def measure_dump():
    """Return {"first", "later": (total ms, ms without ingestion)}: medians of the output of
    bench/dump.c."""
    command, found = make("src/recorder/dump_bench"), {}
    for _ in range(RUNS):
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        for which, whole, stall in DUMP.findall(text):
            found.setdefault(which, []).append((float(whole), float(stall)))
    return {which: medians(runs) for which, runs in found.items()}


def measure_dump_at_max():
    """Return (wall, CPU) of a program that makes only new maxima, as multiples of a session
    without --dump-at-max. Every allocation is a sample."""
    runs = {"plain": [], "at_max": []}
    with tempfile.TemporaryDirectory(prefix="bench-") as work:
        command = [make_micro(work), "hold", str(BLOCKS)]
        for number in range(RUNS):
            for which, options in (("plain", []), ("at_max", ["--dump-at-max"])):
                output = os.path.join(work, f"{which}{number}")
                runs[which].append(cost(
                    [TOOL, "host", "--quiet", "-i", "1", "-o", output, *options, "--", *command]))
    plain, at_max = map(medians, runs.values())
    return at_max[0] / plain[0], at_max[1] / plain[1]


def measure_dormant():
    """Return nanoseconds of a malloc and its free: bare, and preloaded with a daemon that has no
    session."""
    found = {"bare": [], "dormant": []}
    with tempfile.TemporaryDirectory(prefix="bench-") as work:
        command = [make_micro(work), "pair", str(PAIRS)]
        run_directory = {**os.environ, "HEAPPROFD_RUN_DIR": os.path.join(work, "run")}
        preloaded = {**run_directory, "LD_PRELOAD": os.path.join(BUILD, "libheapprofd_preload.so")}
        daemon = subprocess.Popen([os.path.join(BUILD, "heapprofd")], env=run_directory,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            time.sleep(0.5)
            for _ in range(RUNS):
                for which, environment in (("bare", run_directory), ("dormant", preloaded)):
                    text = subprocess.run(command, env=environment, capture_output=True, check=True).stdout
                    found[which].append(float(text))
        finally:
            daemon.terminate()
            daemon.wait()
    return {which: figure_of(figures) for which, figures in found.items()}


if __name__ == "__main__":
    for measure in (measure_dump, measure_dump_at_max, measure_dormant):
        print(f"{measure.__name__[8:]}: {measure()}", flush=True)
