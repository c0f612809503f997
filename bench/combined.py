#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Measure how fast heap dumps are found among the packets of Perfetto's other data sources.

    bench/combined.py [MEGABYTES] [-- PROGRAM...]

Each trace has the dumps of 1,000 callsites, and else one kind of packets: scheduler events (4 kB a packet), track
events (22 bytes a packet, the smallest there are), memory counters of 300 processes, or all of them. PROGRAM reads a
trace, too, for example: trace_processor_shell -Q "select count(*) from heap_profile_allocation". Figures are medians
of three runs, and the peak of resident memory.
"""

import os
import subprocess
import sys
import tempfile

from common import ROOT, TOOL, make, median_cost

sys.path.insert(0, os.path.join(ROOT, "tests", "e2e"))
from perfetto_bytes import field, packet  # noqa: E402

RUNS = 3
BLOCK_BYTES = 1 << 20


def scheduler(i):
    events = b"".join(field(2, field(1, 10**12 + i * 1000 + k * 37) + field(2, k) + field(4, field(1, "swapper/0") + field(7, 120)))
                      for k in range(120))
    return packet(field(1, field(1, i % 8) + events), timestamp=10**12 + i * 1000, sequence=2)


def track_event(i):
    return packet(field(11, field(9, i % 3 + 1) + field(10, i % 50 + 1) + field(11, 7 + i % 9)), timestamp=10**12 + i * 1000,
                  sequence=3 + i % 5, flags=2)


def memory_counters(i):
    processes = (field(1, field(1, 1000 + k) + field(2, 1000 + i) + field(3, 500 + k) + field(4, 300)) for k in range(300))
    return packet(field(9, b"".join(processes)), timestamp=10**12 + i * 10**7, sequence=9)


MAKERS = {"scheduler": [scheduler], "track events": [track_event] * 100, "memory counters": [memory_counters],
          "all": [scheduler, *[track_event] * 100, memory_counters]}


def write_trace(path, heap, makers, megabytes):
    block, length, i = [], 0, 0
    while length < BLOCK_BYTES:
        for maker in makers:
            block.append(maker(i))
            length += len(block[-1])
            i += 1
    block = b"".join(block)
    with open(path, "wb") as out:
        for _ in range(megabytes * 1000000 // len(block)):
            out.write(block)
        out.write(heap)


def main():
    arguments = sys.argv[1:]
    program = arguments[arguments.index("--") + 1:] if "--" in arguments else []
    megabytes = int(arguments[0]) if arguments and arguments[0] != "--" else 300
    make_trace, _ = make("tests/e2e/make_trace", "heap_profile")
    with tempfile.TemporaryDirectory(prefix="bench-") as work:
        subprocess.run([make_trace, work, "1000"], check=True, stdout=subprocess.DEVNULL)
        with open(os.path.join(work, "raw-trace"), "rb") as file:
            heap = file.read()
        path = os.path.join(work, "combined")
        for name, makers in MAKERS.items():
            write_trace(path, heap, makers, megabytes)
            ways = {"cat | cat": ["sh", "-c", f"cat {path} | cat > /dev/null"], "report": [TOOL, "report", path]}
            if program:
                ways[os.path.basename(program[0])] = [*program, path]
            for way, command in ways.items():
                wall, cpu, peak = median_cost(command, RUNS)
                size = os.path.getsize(path) / 1e6
                print(f"{name:16} {way:22} {size / wall:6.0f} MB/s, {cpu:.2f} s CPU, {peak:.0f} MB")


if __name__ == "__main__":
    main()
