#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Measure how long the threads of a process are stopped at attaching and detaching, by their
number.

    bench/attach.py

Prints a table of medians (of five attachments each): all threads allocate all the time, more of
them than processors. Uses its own run directory.
"""

import json
import os
import re
import subprocess
import tempfile
import time

from common import TOOL, make, medians

THREADS = (1, 8, 100, 500)
ROUNDS = 5
STOPPED = re.compile(r"were stopped for ([\d.]+) ms then, and for ([\d.]+) ms at the end")


def measure(busy_threads, threads):
    """Return milliseconds: threads stopped at attaching, at detaching; total time of
    heap_profile without its -d."""
    program = subprocess.Popen([busy_threads, str(threads), "600"], stdout=subprocess.PIPE)
    program.stdout.readline()
    time.sleep(0.3)
    runs = []
    try:
        for _ in range(ROUNDS):
            with tempfile.TemporaryDirectory() as directory:
                environment = {**os.environ, "HEAPPROFD_RUN_DIR": os.path.join(directory, "run")}
                output = os.path.join(directory, "o")
                began = time.monotonic()
                subprocess.run(
                    [TOOL, "--quiet", "-p", str(program.pid), "-d", "200", "-o", output],
                    env=environment, check=True, stderr=subprocess.DEVNULL,
                )
                whole = (time.monotonic() - began - 0.2) * 1000
                report = subprocess.run(
                    [TOOL, "report", "--json", output], capture_output=True, check=True
                )
                found = STOPPED.search(json.loads(report.stdout)["heaps"][0]["remark"])
                runs.append((float(found.group(1)), float(found.group(2)), whole))
    finally:
        program.kill()
        program.wait()
    return medians(runs)


def measure_attach():
    """Return {threads: the result of measure()}."""
    busy_threads, = make("tests/programs/busy_threads")
    return {threads: measure(busy_threads, threads) for threads in THREADS}


def table_of_attaching(figures):
    lines = ["| threads | stopped at attaching | stopped at detaching | heap_profile in total, without -d |",
             "|---|---|---|---|"]
    for threads, (attach, detach, whole) in figures.items():
        lines.append(f"| {threads} | {attach:.1f} ms | {detach:.1f} ms | {whole:.0f} ms |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table_of_attaching(measure_attach()))
