#!/usr/bin/python3
"""What attaching costs the process: how long its threads stand, by their number.

    bench/attach.py [BUILD]

Prints a table of medians (of seven attachments each): all threads busy allocating, more of them than
processors. Uses a run directory of its own.
"""

import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

BUILD = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "build")
TOOL = os.path.join(BUILD, "heap_profile")
PROGRAM = os.path.join(BUILD, "tests", "programs", "busy_threads")
ROUNDS = 7
STOOD = re.compile(r"stood for ([\d.]+) ms then, and for ([\d.]+) ms at the end")


def measure(threads):
    program = subprocess.Popen([PROGRAM, str(threads), "600"], stdout=subprocess.PIPE)
    program.stdout.readline()
    time.sleep(0.3)
    attach, detach, whole = [], [], []
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
                whole.append(time.monotonic() - began - 0.2)
                report = subprocess.run(
                    [TOOL, "report", "--json", output], capture_output=True, check=True
                )
                found = STOOD.search(json.loads(report.stdout)["heaps"][0]["remark"])
                attach.append(float(found.group(1)))
                detach.append(float(found.group(2)))
    finally:
        program.kill()
        program.wait()
    return [statistics.median(figures) for figures in (attach, detach, whole)]


if __name__ == "__main__":
    print("| threads | stand at attaching | stand at detaching | heap_profile in all, less -d |")
    print("|---|---|---|---|")
    for threads in (1, 8, 100, 500):
        attach, detach, whole = measure(threads)
        print(f"| {threads} | {attach:.1f} ms | {detach:.1f} ms | {whole * 1000:.0f} ms |", flush=True)
