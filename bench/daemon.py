#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Measure the costs of the daemon besides single events: dumps, --dump-at-max, waiting without a
session.

    bench/daemon.py      prints; HEAPPROFD_BUILD names the build directory
"""

import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.path.abspath(os.environ.get("HEAPPROFD_BUILD", os.path.join(ROOT, "build")))
TOOL = os.path.join(BUILD, "heap_profile")
RUNS = 5
PAIRS = 5000000
BLOCKS = 2000000
DUMP = re.compile(r"(\w+) dump: (\d+) ms, ingestion stalled for ([\d.]+) ms")


def build_micro(directory):
    path = os.path.join(directory, "micro")
    subprocess.run(["gcc", "-O2", "-pthread", "-o", path, os.path.join(ROOT, "bench", "micro.c")],
                   check=True)
    return path


def run_timed(command):
    """Return (wall, CPU) seconds of a command and all its descendants that it waited for."""
    begin = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise RuntimeError(f"{command}: status {process.returncode}")
    return time.monotonic() - begin, usage.ru_utime + usage.ru_stime


def measure_dump():
    """Return {"first", "later": (total ms, ms without ingestion)}: medians of the output of
    bench/dump.c."""
    target = "src/daemon/dump_bench"
    subprocess.run(["ninja", "-C", BUILD, target], check=True, stdout=subprocess.DEVNULL)
    found = {}
    for _ in range(RUNS):
        text = subprocess.run([os.path.join(BUILD, target)], capture_output=True, text=True,
                              check=True).stdout
        for which, whole, stall in DUMP.findall(text):
            found.setdefault(which, []).append((float(whole), float(stall)))
    return {which: tuple(map(statistics.median, zip(*runs))) for which, runs in found.items()}


def measure_dump_at_max():
    """Return (wall, CPU) of a program that makes only new maxima, as multiples of a session
    without --dump-at-max. Every allocation is a sample."""
    runs = {"plain": [], "at_max": []}
    with tempfile.TemporaryDirectory(prefix="bench-") as work:
        command = [build_micro(work), "hold", str(BLOCKS)]
        for number in range(RUNS):
            for which, options in (("plain", []), ("at_max", ["--dump-at-max"])):
                output = os.path.join(work, f"{which}{number}")
                runs[which].append(run_timed(
                    [TOOL, "host", "--quiet", "-i", "1", "-o", output, *options, "--", *command]))
    plain, at_max = (tuple(map(statistics.median, zip(*runs[which]))) for which in runs)
    return at_max[0] / plain[0], at_max[1] / plain[1]


def measure_dormant():
    """Return nanoseconds of a malloc and its free: bare, and preloaded with a daemon that has no
    session."""
    found = {"bare": [], "dormant": []}
    with tempfile.TemporaryDirectory(prefix="bench-") as work:
        command = [build_micro(work), "pair", str(PAIRS)]
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
    return {which: statistics.median(figures) for which, figures in found.items()}


if __name__ == "__main__":
    for measure in (measure_dump, measure_dump_at_max, measure_dormant):
        print(f"{measure.__name__[8:]}: {measure()}", flush=True)
