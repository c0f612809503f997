#!/usr/bin/env python3
"""query.py BUILD [CALLSITES DUMPS]: writes a trace of so many callsites and dumps, and prints how long
SQL takes to load it, the documented queries after that, the export and its reopening, and the memory.

Each figure is the best of three runs; those of queries are the whole run less the loading.
"""

import os
import subprocess
import sys
import tempfile
import time

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "e2e"))
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
    """Stacks of a common path and a leaf of their own; each dump names a tenth of them, as those
    whose counters rest are left out."""
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


def run(tool, *arguments):
    best = None
    for _ in range(3):
        began = time.monotonic()
        subprocess.run([tool, "query", *arguments], check=True, stdout=subprocess.DEVNULL,
                       stdin=subprocess.DEVNULL)
        took = time.monotonic() - began
        best = took if best is None else min(best, took)
    return best * 1000


def measure_query(build, callsites=100000, dumps=50):
    """{what: ms, or MB for "trace", "peak memory" and "exported"}."""
    tool, found = os.path.join(build, "heap_profile"), {}
    with tempfile.TemporaryDirectory() as directory:
        trace, exported = (os.path.join(directory, n) for n in ("trace", "trace.sqlite"))
        write_trace(trace, callsites, dumps)
        found["trace"] = os.path.getsize(trace) / 1e6
        found["load"] = run(tool, trace, "select 1")
        child = subprocess.Popen([tool, "query", trace, "select 1"], stdout=subprocess.DEVNULL)
        found["peak memory"] = os.wait4(child.pid, 0)[2].ru_maxrss * 1024 / 1e6
        for name, sql in QUERIES.items():
            found[name] = run(tool, trace, sql) - found["load"]
        found["export"] = run(tool, trace, "--export", exported)
        found["exported"] = os.path.getsize(exported) / 1e6
        found["reopen"] = run(tool, exported, "select count(*) from process")
    return found


def main():
    figures = measure_query(sys.argv[1], *(int(v) for v in sys.argv[2:4]))
    for name, figure in figures.items():
        print(f"{name:22} {figure:9.1f} {'MB' if name in ('trace', 'peak memory', 'exported') else 'ms'}")


if __name__ == "__main__":
    main()
