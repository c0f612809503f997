#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Measure reading of MemoryInfra JSON: of 20,000 sites of 30 frames (29 MB), and of 1 GB: once as a
single dump of stacks that share nothing, once as dumps of the same sites with full maps, as Chrome
writes them. Prints the costs of a report: wall and CPU seconds, MB of JSON a CPU second, peak of
resident memory. Of the small file also the times of symbolizing its addresses (in LIBRARY, by its
own symbols, with an empty cache), and of a comparison with a later file.

Medians of three runs; the files are in the page cache.
"""

import os
import random
import subprocess
import tempfile

from common import TOOL, median_cost

RUNS = int(os.environ.get("HEAPPROFD_BENCH_RUNS", "3"))
NAMES = 2000
SITES, FRAMES = 20_000, 30
LARGE_SITES, LARGE_DUMPS = 680_000, 36  # of 1 GB each
LIBRARY, LOADED_AT = "/usr/lib/x86_64-linux-gnu/libLLVM-14.so.1", 0x7F0000000000


def addresses():
    """Return as many addresses as there are names, spread over the library's code."""
    sections = subprocess.run(["readelf", "-SW", LIBRARY], stdout=subprocess.PIPE, check=True, text=True).stdout
    text = next(line for line in sections.splitlines() if " .text " in line).split("]", 1)[1].split()
    start, size = int(text[2], 16), int(text[4], 16)
    return [f"pc:{LOADED_AT + start + size * i // (NAMES + 1):x}" for i in range(1, NAMES + 1)]


def write_dump(out, number, sites, seed, size, texts):
    rng = random.Random(seed)
    out.write(
        ',\n{"args":{"dumps":{"heaps_v2":{"allocators":{"malloc":{"counts":[' + ",".join(["3"] * sites) + '],"nodes":['
        + ",".join(str(NAMES + (i + 1) * FRAMES) for i in range(sites)) + '],"sizes":['
        + ",".join(str(size + i % 1000) for i in range(sites)) + '],"types":[' + ",".join(["0"] * sites) + ']}},'
        '"maps":{"nodes":[')
    node, names = NAMES, range(1, NAMES + 1)
    for i in range(sites):
        picked = rng.choices(names, k=FRAMES)
        stack = [f'{{"id":{node + 1},"name_sid":{picked[0]}}}']
        stack += [f'{{"id":{node + depth + 1},"name_sid":{picked[depth]},"parent":{node + depth}}}'
                  for depth in range(1, FRAMES)]
        node += FRAMES
        out.write(("," if i else "") + ",".join(stack))
    strings = ",".join(f'{{"id":{i},"string":"{texts[i - 1]}"}}' for i in names)
    out.write(f'],"strings":[{{"id":0,"string":"[unknown]"}},{strings}],"types":[{{"id":0,"name_sid":0}}]}},'
              '"version":1},"level_of_detail":"detailed","process_mmaps":{"vm_regions":'
              f'[{{"bs":{{}},"mf":"{LIBRARY}","pf":5,"sa":"{LOADED_AT:x}","sz":"8000000"}}]}}'
              '}},"cat":"disabled-by-default-memory-infra",'
              f'"id":"0x{number:x}","name":"periodic_interval","ph":"v","pid":1,"tid":-1,"ts":{number * 1000000}}}')


def write_file(path, sites, dumps, size=4096, texts=None):
    texts = texts or [f"bench::function_{i}(int, std::string const&)" for i in range(1, NAMES + 1)]
    with open(path, "w", buffering=1 << 20, encoding="ascii") as out:
        out.write('{"traceEvents":[{"args":{"name":"bench"},"cat":"__metadata","name":"process_name","ph":"M",'
                  '"pid":1,"tid":0,"ts":0}')
        for number in range(1, dumps + 1):
            write_dump(out, number, sites, 1, size, texts)
        out.write('],"metadata":{"product-version":"Bench/1.0"}}')


def measure(arguments):
    return median_cost([TOOL, *arguments], RUNS, statuses=(0, 1))


def measure_memory_infra():
    """Return {what: (MB of JSON, wall s, CPU s, peak MB)}."""
    with tempfile.TemporaryDirectory() as work:
        return measure_in(work)


def measure_in(work):
    small, later, bare = (os.path.join(work, name) for name in ("small.json", "later.json", "bare.json"))
    write_file(small, SITES, 1)
    write_file(later, SITES, 1, 8192)
    write_file(bare, SITES, 1, texts=addresses())
    megabytes = os.path.getsize(small) / 1e6
    figures = {"report": (megabytes, *measure(["report", small])),
               "symbolize": (os.path.getsize(bare) / 1e6,
                             *measure(["symbolize", "--no-cache", bare, os.path.join(work, "named.json")])),
               "diff": (2 * megabytes, *measure(["diff", small, later]))}
    large = os.path.join(work, "large.json")
    for name, sites, dumps in (("report, one dump", LARGE_SITES, 1), ("report, many dumps", SITES, LARGE_DUMPS)):
        write_file(large, sites, dumps)
        figures[name] = (os.path.getsize(large) / 1e6, *measure(["report", large]))
        os.unlink(large)
    return figures


if __name__ == "__main__":
    for what, (size, wall, cpu, peak) in measure_memory_infra().items():
        print(f"{what:20} {size:7.0f} MB  {wall:6.2f} s wall  {cpu:6.2f} s CPU  {size / cpu:4.0f} MB/s  {peak:5.0f} MB peak")
