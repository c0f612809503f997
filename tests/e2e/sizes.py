#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Hostile files take time that is nearly linear in their size, and memory within the bound, or end with an error that
names the reason. bench/hostile_sizes.py runs all files through all verbs. sizes.py CASE"""

import json
import os
import tempfile

from harness import SLOWNESS, TOOL, check, main, run
from hostile_files import CASES
from hostile_verbs import measure

WORK = tempfile.TemporaryDirectory()
# The bound of util/memory_bound.h, and beyond it the program itself and the MiB of the file that exceeds the bound.
TIMES, UNPACKED_TIMES, FLOOR_BYTES, BESIDE_BYTES = 32, 16, 64 << 20, 96 << 20
PROGRAM_BYTES, GROWTH_BYTES = 16 << 20, 40 << 20 # an array that grows by half exists twice for a moment


def allowed(path):
    times = TIMES * UNPACKED_TIMES if path.endswith((".gz", ".zst")) else TIMES
    return times * os.path.getsize(path) + FLOOR_BYTES + BESIDE_BYTES


def cost(name, scale, verb, said=None):
    """Return the processor seconds of a verb on a file. said: a part of the error that it must end with."""
    path = CASES[name](WORK.name, scale)
    status, seconds, kib, words = measure(verb, path, WORK.name)
    size = os.path.getsize(path)
    what = f"{name}, {size} bytes: {verb}"
    if said is None:
        check(status == 0, f"{what}: status {status}: {words[:300]}")
    else:
        check(status in (1, 2) and said in words, f"{what}: status {status}: {words[:400]}")
    check(kib * 1024 <= allowed(path), f"{what}: {kib // 1024} MiB")
    return seconds


def grows(name, scale, *verbs, times=4, said=None):
    """Check that a file that is several times larger takes at most twice as many times longer."""
    for verb in verbs:
        # What runs beside it only adds to its processor time, by faults and cold caches.
        small, large = (min(cost(name, size, verb, said) for _ in range(2)) for size in (scale, times * scale))
        check(large <= 2 * times * max(small, 0.03), f"{name}: {verb} takes {small:.2f} s, and {large:.2f} s of {times} times as much")


def test_processes():
    grows("trace_processes", 256, "report", "leaks2", "diff", "memory_infra")


def test_dumps():
    grows("trace_dumps", 256, "report", "memory_infra")
    grows("infra_dumps", 1024, "memory_infra")


def test_sequences():
    grows("sequences", 1024, "report")
    grows("sequences_interning", 512, "report")


def test_unseen():
    grows("trace_unseen", 128, "report")


def test_heaps():
    """A heap costs as much as its own stacks, not as much as the profile's. A file that is a single packet ends at the bound,
    when growing arrays exist twice."""
    grows("trace_heaps", 128, "report", "leaks2")
    grows("trace_heaps_callsites", 192, "report", "tree", "flamegraph")
    cost("trace_heaps_chain", 768, "tree", said="each heap's counted by itself")
    path = CASES["trace_heaps"](WORK.name, 2048)
    status, _, kib, words = measure("report", path, WORK.name)
    check(status == 1 and "more than a profile of its size needs" in words, f"status {status}: {words}")
    most = TIMES * os.path.getsize(path) + FLOOR_BYTES + PROGRAM_BYTES + GROWTH_BYTES
    check(kib * 1024 <= most, f"{kib} KiB of {most // 1024}")


def test_chains():
    """There is a site on each of 15,000 frames, and on more frames than can be written one by one as stacks."""
    for verb in ("report", "tree", "cumulative", "leaks2", "difflines", "flamegraph"):
        check(cost("infra_chain", 800, verb) < 2, f"a chain: {verb}")
    for verb in ("json", "stacks", "collapsed", "speedscope", "profile"):
        cost("infra_chain", 1600, verb, said="too many to write them one by one")
    cost("infra_chain_names", 2048, "memory_infra", said="this many stacks of more than 900 frames")


def test_bombs():
    """Compressed zeros are refused before they are decompressed completely."""
    check(cost("infra_column_bomb", 200, "report", said="if you trust") < 3, "a column waits")
    check(cost("infra_events_bomb", 200, "report") < 3, "dumps wait")
    cost("trace_compressed", 256, "report", said="bytes of compressed packets become more than")
    cost("trace_zstd_bomb", 1100, "report", said="made to exhaust its reader")


def test_line_ranges():
    """Each line finds its range among all ranges of its method, and all frames get their names."""
    grows("trace_line_ranges", 256, "report")
    grows("trace_line_overlaps", 256, "report")
    path = CASES["trace_line_ranges"](WORK.name, 512)
    functions = {frame["name"] for heap in json.loads(run([TOOL, "report", "--json", path]).stdout)["heaps"]
                 for site in heap["callsites"] for frame in site["frames"]}
    count = 512 * 1024 // 50
    expected = {f"A.n{i - 1}" for i in range(1, count)}
    check(functions == expected, f"{len(functions ^ expected)} of {count} names differ: {sorted(functions ^ expected)[:5]}")


def test_long_names():
    """3,000 functions share one name of 128 KiB: it is written for each, but stored once."""
    for verb in ("json", "collapsed", "speedscope", "flamegraph"):
        cost("pprof_long_name", 256, verb)
    grows("trace_long_name", 128, "report", "leaks2")
    text = run([TOOL, "report", CASES["trace_long_name"](WORK.name, 256)]).stdout
    check(b"f... (at least 65,536 bytes more)" in text and len(text) < 250000, f"{len(text)} bytes: {text[:300]}")


def test_frames_again():
    """Few bytes that name many frames, again and again, or unpack to nothing but lines, are refused in time."""
    for name, scale, verb, said in (("text_inlined", 4096, "report", "again and again"), ("text_inlined", 4096, "collapsed", "again and again"),
                                    ("collapsed_again", 512, "report", "again and again"),
                                    ("collapsed_blank", 600, "report", "made to exhaust its reader"),
                                    ("text_blank", 600, "report", "made to exhaust its reader")):
        seconds = cost(name, scale, verb, said)
        check(seconds < 15 * SLOWNESS, f"{name}: {seconds:.1f} s of the processor")


def test_everything():
    """Every file, at a smaller size, is reported or refused in time."""
    for name in CASES:
        path = CASES[name](WORK.name, 48)
        status, seconds, kib, said = measure("report", path, WORK.name)
        size = os.path.getsize(path)
        check(status in (0, 1) and seconds < 2, f"{name}: status {status} after {seconds:.1f} s: {said[:200]}")
        check(kib * 1024 <= allowed(path), f"{name}: {kib // 1024} MiB of {size} bytes")
        os.remove(path)


if __name__ == "__main__":
    main()
