#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Samples of stacks that are counted in bytes (Perfetto's StackSample) are heap profiles: Chromium's snapshots of what
is live, and what other profilers saw allocated.

    stack_samples.py CASE
"""

import json
import math
import os

from harness import TOOL, check, main, make_work_directory, run
from perfetto_bytes import callstack, field, frame, mapping, packet, snapshot, string, text

WORK = make_work_directory("stack-samples-")
CLEARED, NEEDED = 1, 2
BYTES, NANOSECONDS = 4, 1
CHROMIUM = "org.chromium.native_heap_profiler"


def counter(iid, name, unit=None, unit_str=None, multiplier=None):
    body = (field(1, iid) if iid else b"") + text(2, name)
    body += field(3, unit) if unit is not None else b""
    body += text(4, unit_str) if unit_str else b""
    return body + (field(5, multiplier) if multiplier else b"")


def task(pid, tid, iid=0):
    return (field(1, iid) if iid else b"") + field(2, pid) + field(3, tid)


def tables(counters=(), stacks=None, tasks=()):
    """Functions 1 main, 2 load, 3 keep, each a frame of one module."""
    body = b"".join(field(5, string(i, name)) for i, name in enumerate(("main", "load", "keep"), 1))
    body += field(17, string(1, "chromium")) + field(19, mapping(1, 0, 0, 0, [1]))
    body += b"".join(field(6, frame(i, 1, i * 16, i)) for i in (1, 2, 3))
    body += b"".join(field(7, callstack(i, frames)) for i, frames in (stacks or {1: [1, 2], 2: [1, 2, 3]}).items())
    body += b"".join(field(48, one) for one in tasks)
    return field(12, body + b"".join(field(50, one) for one in counters))


def defaults(source, descriptor=None):
    body = text(1, source) + (field(2, descriptor) if descriptor else b"")
    return field(59, field(100, body))


def sample(weight, stack=None, counter_iid=None, pid=None, tid=0, task_iid=None, inline=None):
    body = field(10, counter_iid) if counter_iid else b""
    body += field(11, weight)
    body += field(6, stack) if stack else field(5, inline)
    return field(135, body + (field(2, task_iid) if task_iid else field(1, task(pid, tid))))


def config(interval):
    source = text(1, CHROMIUM) + field(2, 0) + field(144, field(1, interval) + field(2, 500))
    return packet(field(33, field(2, field(1, source))))


def write(name, *packets):
    path = os.path.join(WORK, name)
    with open(path, "wb") as out:
        out.write(b"".join(packets))
    return path


def report(path, *options):
    outcome = run([TOOL, "report", "--json", *options, path])
    check(outcome.status == 0, f"{path}: {outcome.status}, {outcome.stderr!r}")
    return {(heap["pid"], heap["heap"]): heap for heap in json.loads(outcome.stdout)["heaps"]}


def by_stack(heap, figure):
    """Return {functions, the innermost first: bytes}."""
    return {tuple(one["name"] for one in site["frames"]): site[figure]["estimate"] for site in heap["callsites"]}


KEEP, LOAD = ("keep", "load", "main"), ("load", "main")
KINDS = [counter(1, "malloc", BYTES), counter(2, "partition_alloc", BYTES)]


def chromiums(interval_known=True):
    """Two snapshots of process 7, the state of the sequence is cleared in the second; one of process 8."""
    first, second = 5_000_000_000, 6_000_000_000
    begin = defaults(CHROMIUM) + tables(KINDS)
    again = defaults(CHROMIUM) + tables([counter(1, "malloc", BYTES)], {1: [1, 2, 3]})
    packets = [snapshot({6: 1, 3: 1}), config(1024) if interval_known else b""]
    for iid, weight, stack, tid in ((1, 1024, 1, 71), (1, 4096, 2, 71), (2, 2048, 1, 72)):
        packets.append(packet((begin if len(packets) == 2 else b"") + sample(weight, stack, iid, 7, tid), first, 2,
                              CLEARED if len(packets) == 2 else NEEDED))
    packets.append(packet(begin + sample(3072, 1, 1, 8, 8), first, 3, CLEARED))
    packets.append(packet(sample(5120, 1, 1, 7, 71), second, 2, NEEDED))
    packets.append(packet(again + sample(1024, 1, 1, 7, 72), second, 2, CLEARED))
    packets.append(packet(sample(1024, 1, 1, 7, 71), second, 2, NEEDED))
    return packets


def test_chromium():
    """Each snapshot is a dump of what was live, by counter and process; its interval gives the ±."""
    for known in (True, False):
        path = write(f"chromium-{known}", *chromiums(known))
        heaps = report(path)
        check(set(heaps) == {(7, "malloc"), (7, "partition_alloc"), (8, "malloc")}, f"{set(heaps)}")
        heap = heaps[7, "malloc"]
        check(heap["dumps"] == 2 and by_stack(heap, "space") == {LOAD: 5120, KEEP: 2048}, f"{by_stack(heap, 'space')}")
        check(heap["interval_bytes"] == 1024 and heap["total"]["samples"] == 3, f"{heap['interval_bytes']}, {heap['total']}")
        low, high = heap["total"]["space"]["low95"], heap["total"]["space"]["high95"]
        margin = 1.96 * math.sqrt(1024 * 7168)
        check(low < 7168 < high and margin / 2 < high - 7168 < 2 * margin, f"{low} to {high}, ± {margin}")
        check(set(heap["untold"]) == {"objects", "alloc_space", "alloc_objects", "max"}, f"{heap['untold']}")
        check(heap["partial"] == [] and "sampled and that were live" in heap["remark"], f"{heap['remark']!r}")
        check(by_stack(heaps[7, "partition_alloc"], "space") == {LOAD: 2048}, "partition_alloc")
        check(by_stack(heaps[8, "malloc"], "space") == {LOAD: 3072}, "process 8")
        first = report(path, "--dump", "1")[7, "malloc"]
        check(by_stack(first, "space") == {LOAD: 1024, KEEP: 4096}, f"{by_stack(first, 'space')}")


def test_text():
    """The report says that these are sampled live blocks, and nothing of a damaged or unfinished trace."""
    outcome = run([TOOL, "report", write("text", *chromiums())])
    check(outcome.status == 0 and outcome.stderr == b"", f"{outcome.status}, {outcome.stderr!r}")
    for word in (b"Chromium's own heap profiler", b"not in the file", b"one in 1,024 B"):
        check(word in outcome.stdout, f"no {word} in {outcome.stdout}")
    check(b"unfinished" not in outcome.stdout and b"warning" not in outcome.stdout, f"{outcome.stdout}")
    outcome = run([TOOL, "leaks", f"{WORK}/text@1", f"{WORK}/text@last"])
    check(outcome.status == 0 and b"load" in outcome.stdout, f"{outcome.stdout}, {outcome.stderr!r}")


def test_allocated():
    """Another profiler's samples are what was allocated: by default counter, unit in words, multiplier, task by id,
    stack in the sample."""
    kilobytes = counter(0, "alloc", unit_str="bytes", multiplier=1024)
    begin = defaults("my.sampler", kilobytes) + tables(tasks=[task(9, 91, iid=4)])
    path = write(
        "allocated", packet(begin + sample(3, 1, task_iid=4), 1_000, 5, CLEARED),
        packet(sample(5, inline=b"".join(field(2, i) for i in (1, 2, 3)), task_iid=4), 2_000, 5, NEEDED),
        packet(sample(7, 1, task_iid=4), 3_000, 5, NEEDED))
    (name, heap), = report(path).items()
    check(name == (9, "alloc") and heap["dumps"] == 1, f"{name}, {heap['dumps']} dumps")
    check(by_stack(heap, "alloc_space") == {LOAD: 10240, KEEP: 5120}, f"{by_stack(heap, 'alloc_space')}")
    check(set(heap["untold"]) == {"space", "objects", "alloc_objects", "max"}, f"{heap['untold']}")
    check("what was allocated" in heap["remark"], f"{heap['remark']!r}")


def test_other_units():
    """Samples of time are no heap profile."""
    begin = defaults("python.wall", counter(0, "wall", NANOSECONDS)) + tables()
    outcome = run([TOOL, "report", "--json", write("time", packet(begin + sample(10_000, 1, pid=9), 1_000, 5, CLEARED))])
    check(outcome.status != 0 or json.loads(outcome.stdout)["heaps"] == [], f"{outcome.stdout!r}")
    check(b"damaged" not in outcome.stderr, f"{outcome.stderr!r}")


def test_damaged():
    """Wrong ids and cut packets cost their samples only."""
    begin = defaults(CHROMIUM) + tables(KINDS)
    good = packet(begin + sample(1024, 1, 1, 7, 7), 1_000, 2, CLEARED)
    for bad in (packet(sample(1024, 1, 9, 7, 7), 1_000, 2, NEEDED), packet(field(135, b"\x0a\x7f\x01"), 1_000, 2, NEEDED),
                packet(field(12, field(50, b"\x12\x7f")), 1_000, 2, NEEDED)):
        heap = report(write("damaged", good, bad))[7, "malloc"]
        check(by_stack(heap, "space") == {LOAD: 1024}, f"{bad}: {by_stack(heap, 'space')}")


if __name__ == "__main__":
    main()
