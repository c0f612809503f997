#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""memory_infra_round_trip.py [SEED...]: random profiles, converted to MemoryInfra's JSON and back, pruned and not, keep
their sites, types, sizes, counts, regions and totals. The expected figures come from the model of properties.py and
from an independent reader of the JSON."""

import collections
import json
import os
import random
import sys

import properties
from harness import LONG, SANITIZED, TOOL, TRACECONV, check, finish
from memory_infra_file import File, Frame, Rules
from memory_infra_write import HOLDER
from perfetto_bytes import field, packet
from properties import Profile, Writer, run, same

SEEDS = range(30 if LONG else 3 if SANITIZED else 8)
OBJECTS, SPACE = properties.VIEWS.index("objects"), properties.VIEWS.index("space")


def address(profile, number):
    """Return the return address of a call; the trace has the address inside of the call."""
    frame = profile.frames[number]
    return f"pc:{frame.module.start + frame.rel_pc + 1:x}"


def frames(profile, stack):
    return tuple(Frame(name or address(profile, number), file, line)
                 for number in reversed(profile.stacks[stack]) for name, file, line in profile.lines(number))


def wanted_sites(profile, pid, heap, dump):
    """Return {(frames, the innermost first, type): (bytes, count)}."""
    sums = profile.sums(pid, heap, dump, lambda stack, part: (frames(profile, stack), part.type or "[unknown]"))
    return {key: (views[SPACE], views[OBJECTS]) for key, views in sums.items() if views[SPACE] or views[OBJECTS]}


def allocator(heap):
    return "malloc" if heap == "libc.malloc" else heap


def told_sites(file, pid, heap, number):
    """Return the sites without the frame that is added to each stack of a heap."""
    dump = file.dump(pid, number)
    added = "malloc" if heap == "libc.malloc" else heap + "::allocate"
    sites = {}
    for (stack, kind), held in dump.sites(allocator(heap)).items():
        check(stack[0].name in (added, "<other>"), f"{heap}: {stack[0]}")
        sites[stack[1:] if stack[0].name == added else stack, kind] = held
    return sites


def hold_sites(profile, got, wanted, what):
    if not profile.eighths:
        same(got, wanted, what)
        return
    for key in {*got, *wanted}:
        ours, model = got.get(key, (0, 0)), wanted.get(key, (0, 0))
        check(all(abs(a - b) < 1.001 for a, b in zip(ours, model)), f"{what}: {key} has {ours}, not {model}")
    for i in (0, 1):
        exact = sum(held[i] for held in wanted.values())
        check(abs(sum(held[i] for held in got.values()) - exact) <= 0.5 + exact * 1e-9, f"{what}: sum {i}")


def memory_of(profile, pick):
    """Return packets of the timeline, and memory snapshots with mappings: code, some of it of the modules, and data."""
    extra = b""
    for dump in range(profile.dump_count):
        points = b"".join(
            field(1, field(1, pid) + field(2, pick.randint(1000, 9999)) + field(3, pick.randint(10, 999)) + field(4, pick.randint(1, 9)))
            for pid in profile.processes)
        extra += packet(field(9, points), timestamp=1000 * (dump + 2) + 100)
        for pid in profile.processes:
            body = field(1, pid)
            entries = [(0x10000000 + 0x100000 * i, pick.choice(["", "/lib/data.so", "[stack]"]), 6) for i in range(5)]
            entries += [(module.start, "/" + "/".join(module.path), 5) for module in profile.modules]
            for start, path, flags in entries:
                entry = field(2, 1024) + field(5, path.encode()) + field(6, start) + field(10, flags)
                entry += b"".join(field(n, pick.randint(0, 99)) for n in (3, 4, 11, 12, 13, 15))
                body += field(2, entry)
            extra += packet(field(68, body), timestamp=1000 * (dump + 2) + 100)
    return extra


def convert(path, out, *options):
    run(TRACECONV, "memory_infra", *options, path, out)
    file = File(out)
    for broken in Rules(file).broken:
        check(False, f"{os.path.basename(path)} {options}: {broken}")
    return file


def said(path, dump):
    """Return the report of one dump: {(pid, heap): ({frames: (bytes, count)}, bytes, count)}."""
    found = {}
    for heap in json.loads(run(TOOL, "report", "--json", "--dump", str(dump + 1), path))["heaps"]:
        sites = collections.defaultdict(lambda: (0, 0))
        for site in heap["callsites"]:
            key = tuple((f["name"] or (f["mapping"], f["rel_pc"]), f.get("file", ""), f.get("line", 0)) for f in site["frames"])
            size, count = site["space"]["estimate"], site["objects"]["estimate"]
            if size or count:
                sites[key] = sites[key][0] + size, sites[key][1] + count
        total = heap["total"]
        found[heap["pid"], heap["heap"]] = dict(sites), total["space"]["estimate"], total["objects"]["estimate"]
    return found


def hold_reports(profile, trace, path, what):
    for dump in range(profile.dump_count):
        before, after = said(trace, dump), said(path, dump)
        same(set(after), set(before), f"{what}: heaps of dump {dump + 1}")
        for key in set(before) & set(after):
            if profile.eighths:
                check(abs(after[key][1] - before[key][1]) <= 0.5 + before[key][1] * 1e-9, f"{what}: bytes of {key}")
                check(abs(after[key][2] - before[key][2]) <= 0.5 + before[key][2] * 1e-9, f"{what}: count of {key}")
            else:
                same(after[key], before[key], f"{what}: report of {key}, dump {dump + 1}")


def of_memory(file):
    """A region without an offset starts at the beginning of its file, as readers assume."""
    return [(dump.pid, dump.event["ts"], sorted(r._replace(offset=r.offset or 0) for r in dump.regions()),
             sorted((r["sa"], sorted(r["bs"].items())) for r in dump.dumps["process_mmaps"]["vm_regions"]),
             dump.totals()) for dump in file.dumps]


def own_metadata(file):
    """Return a dump without the mark of a heap's last dump, which a reader of the whole file does not need."""
    return {key: {k: v for k, v in value.items() if k != "final"} if isinstance(value, dict) else value
            for key, value in file.metadata.items() if key.startswith("heapprofd-")}


def seed(number):
    profile, pick = Profile(number), random.Random(number)
    trace = Writer(profile).write(f"trace-{number}")
    with open(trace, "ab") as out:
        out.write(memory_of(profile, pick))
    prune = f"{pick.choice((0, 1000, 1 << 31))},{pick.choice((1, 50, 1000))}"
    for options in ((), ("--prune", prune)):
        what = f"seed {number} {' '.join(options)}"
        first = convert(trace, trace + ".json.gz", *options)
        second = convert(trace + ".json.gz", trace + "-again.json")
        third = convert(trace + "-again.json", trace + "-third.json")
        for pid, heap in profile.heaps:
            for dump in range(profile.dump_count):
                got = told_sites(first, pid, heap, dump)
                if "--prune" not in options:
                    hold_sites(profile, got, wanted_sites(profile, pid, heap, dump), f"{what}: {pid}, {heap}, dump {dump}")
                same(told_sites(second, pid, heap, dump), got, f"{what}, again: {pid}, {heap}, dump {dump}")
                same(told_sites(third, pid, heap, dump), got, f"{what}, a third time: {pid}, {heap}, dump {dump}")
                for key in (allocator(heap), allocator(heap) + "/allocated_objects"):
                    same(second.dump(pid, dump).attribute(key, "size"), first.dump(pid, dump).attribute(key, "size"), what)
        same(of_memory(second), of_memory(first), f"{what}: regions and totals")
        same(second.names, first.names, f"{what}: names")
        same(second.told("process_labels"), first.told("process_labels"), f"{what}: labels")
        same(of_memory(third), of_memory(second), f"{what}: regions and totals, a third time")
        same(own_metadata(third), own_metadata(second), f"{what}: metadata, a third time")
        if "--prune" not in options:
            same(own_metadata(second), own_metadata(first), f"{what}: metadata")
            hold_reports(profile, trace, trace + ".json.gz", what)


def programs():
    """Profiles of real programs: addresses without names come back as offsets in the same files."""
    for name, options in (("named", ()), ("bare", ("--no-symbols",))):
        directory = os.path.join(properties.directory.name, name)
        run(TOOL, "host", "--quiet", "-i", "1", "-o", directory, *options, "--", sys.executable, "-c", HOLDER)
        before = said(directory, 0)
        file = convert(directory, directory + ".json")
        after = said(directory + ".json", 0)
        same(set(after), set(before), f"{name}: heaps")
        for key in before:
            same(after.get(key), before[key], f"{name}: {key}")
        check(any(r.build_id and r.offset for r in file.dump().regions()), f"{name}: regions")
        addresses = [frame for stack in before[next(iter(before))][0] for frame in stack if isinstance(frame[0], tuple)]
        check(name == "named" or len(addresses) > 10, f"{name}: {len(addresses)} addresses without a name")


if __name__ == "__main__":
    if len(sys.argv) == 1:
        programs()
    for chosen in map(int, sys.argv[1:] or SEEDS):
        print("seed", chosen, flush=True)
        seed(chosen)
    finish()
