#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Measure single allocations (bench/micro.c), the memory of a session, and an empty session.

    bench/micro.py [ROUNDS]      prints the figures; 7 rounds
"""

import os
import re
import subprocess
import sys
import tempfile
import time

from common import PASS_THROUGH, cost, figure_of, make, make_micro, make_pass_through, spread
from profilers import ours

ROUNDS = 7
PAIRS, DEEP = 5000000, 20000
# Live blocks of 64 bytes: HEAP are 256 MB, with 62,500 samples at interval 4096.
FEW, MANY, HEAP = 1000, 1000000, 4000000
UNSAMPLED = 1 << 40
LARGE_RING = ("--shmem-size", str(256 << 20))
STARTS = 41


def figure_names():
    """Return {name: (arguments of micro, interval or None, options of host)}."""
    names = {"pair": (("pair", PAIRS), None, ()), "pair_on": (("pair", PAIRS), UNSAMPLED, ()),
             "pair_4096": (("pair", PAIRS), 4096, ()),
             "threads": (("pair", PAIRS // 5, 8), None, ()), "threads_on": (("pair", PAIRS // 5, 8), UNSAMPLED, ()),
             "threads_4096": (("pair", PAIRS // 5, 8), 4096, ())}
    for frames in (1, 32):
        names[f"deep{frames}"] = (("deep", DEEP, frames), None, ())
        names[f"deep{frames}_on"] = (("deep", DEEP, frames), 1, LARGE_RING)
    for blocks, intervals in ((FEW, (1, 4096)), (MANY, (1,)), (HEAP, (4096,))):
        names[f"hold{blocks}"] = (("hold", blocks), None, ())
        for interval in intervals:
            names[f"hold{blocks}_{interval}"] = (("hold", blocks), interval, LARGE_RING)
    return names


def print_of(command, env=None):
    return float(subprocess.run(command, capture_output=True, check=True, env=env and {**os.environ, **env}).stdout)


def measure_micro(rounds=ROUNDS):
    """Return {name: Figure}: nanoseconds, KiB of each "hold"."""
    runs = {}
    make_pass_through()
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        program = make_micro(directory)
        for _ in range(rounds):
            for name, (arguments, interval, options) in figure_names().items():
                command = [program, *map(str, arguments)]
                with tempfile.TemporaryDirectory(prefix="bench-") as work:
                    full = ours("-i", str(interval), *options)(command, work)[0] if interval else command
                    runs.setdefault(name, []).append(print_of(full))
            runs.setdefault("pair_through", []).append(
                print_of([program, "pair", str(PAIRS)], {"LD_PRELOAD": PASS_THROUGH}))
    return {name: figure_of(values) for name, values in runs.items()}


def measure_start(rounds=STARTS):
    """Return what `host -- /bin/true` adds to /bin/true: wall and CPU milliseconds."""
    walls, cpus = [], []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory(prefix="bench-") as work:
            bare, full = cost(["/bin/true"]), cost(ours()(["/bin/true"], work)[0])
            walls.append((full.wall - bare.wall) * 1000)
            cpus.append((full.cpu - bare.cpu) * 1000)
    return figure_of(walls), figure_of(cpus)


def measure_daemon():
    """Return {live samples: KiB}: resident memory of heap_profile at interval 1."""
    with tempfile.TemporaryDirectory(prefix="bench-") as work:
        program, found = make_micro(work), {}
        for blocks in (1000, 2000000):
            command = [program, "hold", str(blocks)]
            process = subprocess.Popen(ours("-i", "1")(command, tempfile.mkdtemp(dir=work))[0], stdout=subprocess.DEVNULL)
            peak = 0
            while process.poll() is None:
                try:
                    with open(f"/proc/{process.pid}/status") as status:
                        text = status.read()
                    # Without the ring, which belongs to the target.
                    anon = re.search(r"RssAnon:\s+(\d+)", text)
                    peak = max(peak, int(anon.group(1)) if anon else 0)
                except OSError:
                    pass
                time.sleep(0.005)
            found[blocks] = peak
        return found


def measure_ledger(rounds=5):
    """Return the output of bench/ledger.c as {name: Figure}: nanoseconds of CPU an event, bytes a live sample."""
    program, = make("src/recorder/ledger_bench")
    found = {}
    for _ in range(rounds):
        text = subprocess.run([program, "4096", "1000000", "10000000"], capture_output=True, text=True, check=True).stdout
        for name, value in re.findall(r"(\w+): +([0-9.]+)", text):
            found.setdefault(name, []).append(float(value))
    return {name: figure_of(values) for name, values in found.items()}


def main():
    for name, figure in measure_micro(*map(int, sys.argv[1:2])).items():
        print(f"{name:16} {spread(figure)}")
    for name, figure in zip(("start, wall ms", "start, CPU ms"), measure_start()):
        print(f"{name:16} {spread(figure)}")


if __name__ == "__main__":
    main()
