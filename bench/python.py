#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Measure what profiling costs Python programs (bench/python_work.py): their frames and the heap
python.object at interval 4096, beside tracemalloc, and beside memray if it is installed.

    bench/python.py [ROUNDS]      prints the table; 5 rounds

The first column is the default: every allocation until that costs 5 % of the processor time.

Each round runs the programs bare and under each profiler in turn. A figure is the median over the
rounds of the time relative to the bare run of the same round.
"""

import importlib.util
import os
import shutil
import statistics
import sys
import tempfile

from common import ROOT, TOOL, cost

PYTHON = os.environ.get("PYTHON", "/usr/bin/python3")
WORK = os.path.join(ROOT, "bench", "python_work.py")
PROGRAMS = {"json": ("json", "500"), "requests": ("requests", "8000")}
AIM = 1.10


def profilers(directory):
    """Return {name: the command before the script}."""

    def host(*options):
        return [TOOL, "host", "--quiet", "-o", os.path.join(directory, "profile"), *options, "--", PYTHON]

    found = {
        "ours, 4096": host(),
        "ours, 4096": host("-i", "4096"),
        "ours, 65536": host("-i", "65536"),
        "ours, 524288": host("-i", "524288"),
        "ours, 4096, libc.malloc alone": host("--heaps", "libc.malloc"),
        "tracemalloc, 1 frame": [PYTHON, "-X", "tracemalloc=1"],
        "tracemalloc, 25 frames": [PYTHON, "-X", "tracemalloc=25"],
    }
    if importlib.util.find_spec("memray"):
        found["memray"] = [PYTHON, "-m", "memray", "run", "--force", "--quiet", "-o", os.path.join(directory, "memray")]
    return found


def measure(rounds):
    """Return {program: {profiler: (wall, CPU)}}, relative to the bare program, and its seconds."""
    figures, seconds = {}, {}
    with tempfile.TemporaryDirectory() as directory:
        commands = profilers(directory)
        for program, arguments in PROGRAMS.items():
            script, bare, ratios = [WORK, *arguments], [], {name: [] for name in commands}
            for _ in range(rounds):
                base = cost([PYTHON, *script])
                bare.append(base.wall)
                for name, command in commands.items():
                    found = cost([*command, *script])
                    shutil.rmtree(os.path.join(directory, "profile"), ignore_errors=True)
                    ratios[name].append((found.wall / base.wall, found.cpu / base.cpu))
            seconds[program] = statistics.median(bare)
            figures[program] = {name: tuple(map(statistics.median, zip(*runs))) for name, runs in ratios.items()}
    return figures, seconds


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    figures, seconds = measure(rounds)
    print("| program | seconds | " + " | ".join(next(iter(figures.values()))) + " |")
    print("|---" * (2 + len(next(iter(figures.values())))) + "|")
    for program, found in figures.items():
        cells = " | ".join(f"{wall:.2f} / {cpu:.2f}" for wall, cpu in found.values())
        print(f"| {program} | {seconds[program]:.1f} | {cells} |")
    worst = max(found["ours, 4096"][0] for found in figures.values())
    print(f"aim: wall at most {AIM:.2f} at interval 4096; worst {worst:.2f}")


if __name__ == "__main__":
    main()
