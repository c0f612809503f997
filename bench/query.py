#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""query.py [CALLSITES DUMPS]: write a trace with these numbers of callsites and dumps, and measure
SQL: loading, the documented queries, the export, opening the export, and memory.

Each time is the best of five runs. Those of queries are the CPU time of the whole run, which has
one thread, minus that of loading alone. Of the memory after loading, "rows" is the data behind the
tables' rows (bench/query.c), and "besides rows" the rest of the peak of resident memory: reading,
the program and its libraries.
"""

import os
import subprocess
import sys
import tempfile

from common import ROOT, TOOL, cost, make

sys.path.append(os.path.join(ROOT, "tests", "e2e"))
from perfetto_bytes import clocks, field, interned, packet, process_tree, text  # noqa: E402

QUERIES = {
    "stack tables joined": (
        "select count(*) from stack_profile_callsite c join stack_profile_frame f "
        "on c.frame_id = f.id join stack_profile_mapping m on f.mapping = m.id"
    ),
    "allocations of a dump": (
        "select sum(size) from heap_profile_allocation where ts = "
        "(select max(ts_end) from heap_profile)"
    ),
    "all allocations": "select count(*), sum(size) from heap_profile_allocation",
    "flamegraph": (
        "select name, map_name, cumulative_size from experimental_flamegraph("
        "(select max(ts_end) from heap_profile), 1, 'native') "
        "order by abs(cumulative_size) desc limit 20"
    ),
    "summary tree": (
        "include perfetto module android.memory.heap_profile.summary_tree; select * from "
        "android_heap_profile_summary_tree order by cumulative_size desc limit 20"
    ),
}


def write_trace(path, callsites, dumps):
    """Write stacks with a common path and a separate leaf. Each dump has a tenth of them,
    because unchanged counters are omitted."""
    with open(path, "wb") as out:
        out.write(clocks(0, 0))
        out.write(process_tree([(1, 0, ["bench"])]))
        frames = [(i + 1, 1, 0x1000 + i * 16, i + 1) for i in range(callsites + 8)]
        out.write(
            packet(
                interned(
                    names={i + 1: f"_ZN5bench8functionILi{i}EEvv" for i in range(callsites + 8)},
                    paths={1: "bench"},
                    mappings=[(1, 0, 0x400000, 0x500000, [1])],
                    frames=frames,
                    stacks={
                        i + 1: list(range(1, 9)) + [9 + i] for i in range(callsites)
                    },
                ),
                timestamp=1,
                sequence=1,
                flags=1,
            )
        )
        index = 0
        for dump in range(dumps):
            samples = []
            for i in range(callsites):
                if dump == 0 or i % 10 == dump % 10:
                    grown = (dump + 1) * (64 + i % 100)
                    samples.append(
                        field(2, field(1, i + 1) + field(2, grown) + field(3, grown // 2)
                              + field(5, dump + 1) + field(6, (dump + 1) // 2))
                    )
            chunks = [samples[i:i + 5000] for i in range(0, len(samples), 5000)] or [[]]
            for number, chunk in enumerate(chunks):
                body = field(1, 1) + field(9, 1000 + dump * 1000) + field(12, 4096)
                body += text(11, "libc.malloc") + b"".join(chunk)
                profile = field(5, body) + field(7, index)
                if number + 1 < len(chunks):
                    profile += field(6, 1)
                index += 1
                out.write(packet(field(37, profile), timestamp=1000 + dump * 1000, sequence=1))


MEGABYTES = ("trace", "rows", "besides rows", "exported")
ROUNDS = 5


def measure_times(trace, exported):
    """Return {what: ms}."""
    runs = {"load": (trace, "select 1"), "export": (trace, "--export", exported),
            "reopen": (exported, "select count(*) from process")}
    runs.update({name: (trace, sql) for name, sql in QUERIES.items()})
    times = {name: [] for name in runs}
    for _ in range(ROUNDS):
        for name, arguments in runs.items():
            times[name].append(cost([TOOL, "query", *arguments]))
    wall = {name: min(one.wall for one in times[name]) * 1000 for name in times}
    cpu = {name: min(one.cpu for one in times[name]) * 1000 for name in times}
    return {name: cpu[name] - cpu["load"] if name in QUERIES else wall[name] for name in times}


def measure_memory(trace):
    """Return MB of the rows, and of the rest at the peak."""
    program, = make("src/tools/query/query_bench")
    done = subprocess.run([program, trace], capture_output=True, text=True, check=True)
    figures = dict(line.split() for line in done.stdout.splitlines())
    rows = int(figures["rows"])
    return rows / 1e6, (int(figures["peak"]) - rows) / 1e6


def measure_query(callsites=100000, dumps=50):
    """Return {what: ms, or MB of MEGABYTES}."""
    found = {}
    with tempfile.TemporaryDirectory() as directory:
        trace, exported = (os.path.join(directory, n) for n in ("trace", "trace.sqlite"))
        write_trace(trace, callsites, dumps)
        found["trace"] = os.path.getsize(trace) / 1e6
        found["rows"], found["besides rows"] = measure_memory(trace)
        found.update(measure_times(trace, exported))
        found["exported"] = os.path.getsize(exported) / 1e6
    return found


def main():
    figures = measure_query(*map(int, sys.argv[1:3]))
    for name, figure in figures.items():
        print(f"{name:22} {figure:9.1f} {'MB' if name in MEGABYTES else 'ms'}")


if __name__ == "__main__":
    main()
