#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""heap_profile leaks, on constructed traces with known answers and on real programs: leaks.py CASE"""

import json
import os
import re
import struct
import subprocess
import sys
import tempfile
import time

import harness
from attach import attached
from daemon import Session, scene, wait_for
from harness import BUILD, TOOL, check, program, run
from perfetto_bytes import (
    clocks, field, heap_samples, interned, packet, process_tree, profile_packet, text, varint,
)
from saved_page import Refused, SavedPage

# --- constructed traces with every allocation recorded ---


def double(number, value):
    return varint(number << 3 | 1) + struct.pack("<d", value)


def figures(size, count, freed_size, freed_count):
    return double(1, size) + double(2, freed_size) + double(3, count) + double(4, freed_count)


class Made:
    """A trace with some dumps: live[dump][pid, heap] is {(stack, type): (size, count)}, where a stack is
    "main;outer;inner" and the type "" is unknown."""

    def __init__(self, processes, live):
        self.processes, self.live = processes, live
        keys = [key for dump in live for heap in dump.values() for key in heap]
        self.stacks = {stack: i + 1 for i, stack in enumerate(sorted({stack for stack, _ in keys}))}
        self.types = [""] + sorted({kind for _, kind in keys if kind})
        self.frames = sorted({name for stack in self.stacks for name in stack.split(";")})
        self.order = [key for key in dict.fromkeys(key for dump in live for key in dump)]
        self.sums = {}

    def interned(self):
        numbers = {name: i + 1 for i, name in enumerate(self.frames)}
        body = interned(
            names={number: name for name, number in numbers.items()},
            paths={1: "program"}, build_ids={1: b"\1\2\3\4"}, mappings=[(1, 1, 0x1000, 0x9000000, [1])],
            frames=[(number, 1, 0x10 * number, number) for number in numbers.values()],
            stacks={i: [numbers[name] for name in stack.split(";")] for stack, i in self.stacks.items()},
        )
        tags = b"".join(field(5000, field(1, i) + text(2, name)) for i, name in enumerate(self.types) if name)
        return packet(body, timestamp=1, sequence=1, flags=1) + packet(
            field(12, tags), timestamp=1, sequence=1, flags=2)

    def part(self, pid, heap, key, now):
        """Return sums since the start: blocks that disappear were freed, new blocks were allocated."""
        size, count, freed_size, freed_count = self.sums.get((pid, heap, key), (0, 0, 0, 0))
        size += max(now[0] - (size - freed_size), 0)
        count += max(now[1] - (count - freed_count), 0)
        self.sums[pid, heap, key] = sums = (size, count, size - now[0], count - now[1])
        return sums

    def sample(self, pid, heap, stack, parts, tagged):
        whole = [sum(values) for values in zip(*parts.values())]
        body = field(1, self.stacks[stack])
        body += field(2, whole[0]) + field(3, whole[2]) + field(5, whole[1]) + field(6, whole[3])
        if tagged:
            body += field(5000, figures(*whole))
            for kind, values in parts.items():
                body += field(5005, field(1, pid) + field(2, figures(*values))
                              + field(3, self.types.index(kind)))
        return body

    def write(self, directory, name):
        packets = [clocks(1000, 1100), self.interned()]
        packets.append(process_tree([(pid, 1, arguments) for pid, arguments in self.processes.items()]))
        seen = {}
        for number, dump in enumerate(self.live):
            bodies = []
            for pid, heap in self.order:
                for stack, kind in dump.get((pid, heap), {}):
                    seen.setdefault((pid, heap), {}).setdefault(stack, set()).add(kind)
                samples = []
                for stack, kinds in seen.get((pid, heap), {}).items():
                    now = {kind: dump.get((pid, heap), {}).get((stack, kind), (0, 0)) for kind in sorted(kinds)}
                    parts = {kind: self.part(pid, heap, (stack, kind), values) for kind, values in now.items()}
                    samples.append(self.sample(pid, heap, stack, parts, kinds != {""}))
                if (pid, heap) in dump:
                    bodies.append(heap_samples(pid, samples, 1000 * (number + 2), heap, field(12, 1)))
            packets.append(packet(profile_packet(bodies, number), timestamp=9, sequence=1))
        path = os.path.join(directory, name)
        with open(path, "wb") as out:
            out.write(b"".join(packets))
        return path


def one_process(*dumps):
    """Make dumps of process 7's malloc: {stack: (size, count)}."""
    return Made({7: ["/bin/server", "--port", "80"]},
                [{(7, "malloc"): {(stack, ""): value for stack, value in dump.items()}} for dump in dumps])


# --- the tool's output ---


def leaks(*arguments, status=0):
    done = run([TOOL, "leaks", *arguments])
    check(done.status == status, f"leaks {arguments}: {done.status}, {done.stderr[-300:]!r}")
    return done


def leaks_json(*arguments):
    return json.loads(leaks("--json", *arguments).stdout)


def entries(document, what="leaks"):
    """Return {(pid, heap): [(stack from the outermost, size, count)]}, in order."""
    return {
        (process["pid"], heap["heap"]):
            [(";".join(reversed(e["stackframes"])), e["size"], e["count"]) for e in heap[what]]
        for process in document["processes"] for heap in process["heaps"]
    }


def same(got, wanted, what):
    check(got == wanted, f"{what}: {got}, and not {wanted}")


def test_one_profile(directory):
    """With one profile, all live memory is listed, the largest first, each stack with its own allocations only."""
    path = one_process({"main;a": (100, 1), "main;b": (5000, 2), "main": (300, 30)}).write(directory, "t")
    same(entries(leaks_json(path)), {(7, "malloc"): [("main;b", 5000, 2), ("main", 300, 30), ("main;a", 100, 1)]},
         "sorted by size")
    lines = leaks(path).stdout.decode().splitlines()
    same(lines[:2], ["Process[7] server: /bin/server --port 80", "  malloc: 3 potential leaks found."], "text")
    check("5.00 kB" in lines[3] and "b [program] < main" in lines[3], f"the largest first: {lines}")
    lines = leaks("--top", "1", path).stdout.decode().splitlines()
    check("(2 more with 400 B; --top 0 shows all)" in lines[-1], f"the omitted rows are not counted: {lines}")
    check(len(leaks_json("--top", "1", path)["processes"][0]["heaps"][0]["leaks"]) == 1, "--top")


def test_own_growth_of_callers(directory):
    """A function that allocates 10 itself and calls one that allocates 4 has grown by 10."""
    path = one_process({"main": (1, 1)}, {"main": (1, 1), "main;f": (10, 10), "main;f;g": (4, 4)}).write(directory, "t")
    same(entries(leaks_json(path + "@1", path + "@2")), {(7, "malloc"): [("main;f", 10, 10), ("main;f;g", 4, 4)]},
         "own values")
    # The same in a deep stack, on all levels.
    stacks = {";".join(f"f{i}" for i in range(n + 1)): (100 + n, n + 1) for n in range(60)}
    path = one_process(stacks).write(directory, "deep")
    got = {stack: (size, count) for stack, size, count in entries(leaks_json(path))[7, "malloc"]}
    same(got, stacks, "own values on each level")


def test_shrinking(directory):
    """A stack that shrank is not listed, and neither are its callers."""
    before = {"main;f": (100, 10), "main;f;g": (400, 4), "main;h": (50, 5), "main;stays": (9, 9)}
    after = {"main;f": (60, 6), "main;f;g": (0, 0), "main;h": (80, 8), "main;stays": (9, 9)}
    path = one_process(before, after).write(directory, "t")
    document = leaks_json("--shrunk", path + "@1", path + "@2")
    same(entries(document), {(7, "malloc"): [("main;h", 30, 3)]}, "grown")
    same(entries(document, "shrunk"), {(7, "malloc"): [("main;f;g", -400, -4), ("main;f", -40, -4)]}, "shrunk")
    check("shrunk" not in leaks_json(path + "@1", path + "@2")["processes"][0]["heaps"][0], "listed without the option")
    # All stacks shrink.
    document = leaks_json(path + "@2", path + "@1")
    path = one_process({"main;f": (100, 10)}, {"main;f": (1, 1)}).write(directory, "all")
    same(entries(leaks_json(path + "@1", path + "@2")), {(7, "malloc"): []}, "nothing grew")
    text = leaks(path + "@1", path + "@2").stdout.decode()
    check("malloc: 0 potential leaks found.\n  1 call stack shrank, by 99 B; --shrunk lists it" in text, text)
    check("shrank:\n" in leaks("--shrunk", path + "@1", path + "@2").stdout.decode(), "as text")
    path = one_process({"main;f": (100, 10)}).write(directory, "one")
    check("malloc: 1 potential leak found." in leaks(path).stdout.decode(), "one leak")


def test_dumps(directory):
    """Any two dumps of one file are compared, in either direction; a dump has no growth against itself."""
    path = one_process(*({"main;f": (n * 100, n), "main;g": (7, 1)} for n in (1, 2, 5, 4))).write(directory, "t")
    for first, second, grown in ((1, 2, 100), (1, 3, 400), (2, 3, 300), (1, 4, 300), (3, 4, None), (4, 3, 100),
                                 (3, 1, None), (2, 2, None)):
        document = leaks_json(f"{path}@{first}", f"{path}@{second}")
        wanted = [("main;f", grown, grown // 100)] if grown else []
        same(entries(document), {(7, "malloc"): wanted}, f"{first} and {second}")
        check(document["processes"][0]["heaps"][0]["exact"], "exact")
    same(entries(leaks_json(f"{path}@3")), {(7, "malloc"): [("main;f", 500, 5), ("main;g", 7, 1)]}, "of one dump")
    same(entries(leaks_json(path, path)), {(7, "malloc"): []}, "of the last with itself")
    # Nothing can be said of growth if there is only one: then what is live.
    path = one_process({"main;f": (500, 5), "main;g": (7, 1)}).write(directory, "single")
    for arguments in (path + "@1", path + "@last"), (path, path):
        same(entries(leaks_json(*arguments)), {(7, "malloc"): [("main;f", 500, 5), ("main;g", 7, 1)]}, f"{arguments}")
        check(b"has only one dump" in leaks(*arguments).stderr, f"{arguments}: no message")


def test_thresholds(directory):
    """A stack is listed only if it is above both thresholds."""
    path = one_process({"main;a": (1000, 10), "main;b": (1001, 11), "main;c": (5000, 10), "main;d": (900, 500),
                        "main;e": (1001, 10)}).write(directory, "t")

    def found(*arguments):
        return "".join(stack[-1] for stack, _, _ in entries(leaks_json(*arguments, path))[7, "malloc"])

    same(found(), "cbead", "without thresholds")
    same(found("--threshold", "10"), "bd", "of counts")
    same(found("--size-threshold", "1000"), "cbe", "of sizes")
    same(found("--size-threshold", "1000", "--threshold", "10"), "b", "of both")
    same(found("--threshold", "0", "--size-threshold", "0"), "cbead", "of nothing")
    same(found("--size-threshold", "1k"), "c", "with a unit")
    same(found("--threshold", "500"), "", "above all")
    check("malloc: 0 potential leaks found." in leaks("--threshold", "500", path).stdout.decode(), "does not print that there is no growth")
    # A stack with larger but not more blocks has grown, unless a growth in blocks is required.
    path = one_process({"main;vector": (100, 1)}, {"main;vector": (9000, 1)}).write(directory, "vector")
    same(entries(leaks_json(path + "@1", path + "@2")), {(7, "malloc"): [("main;vector", 8900, 0)]}, "larger")
    same(entries(leaks_json("--threshold", "0", path + "@1", path + "@2")), {(7, "malloc"): []}, "no more of them")


def test_unknown_figures(directory):
    """A figure that the file does not contain is not 0."""
    path = os.path.join(directory, "stacks.txt")
    with open(path, "w") as out:
        out.write("main;parse 4000\nmain;read 1000\n")
    (heap,) = leaks_json(path)["processes"][0]["heaps"]
    check(heap["untold"] == ["objects", "alloc_space", "alloc_objects", "max"], f"no counts: {heap['untold']}")
    lines = leaks(path).stdout.decode().splitlines()
    (line,) = [line.split() for line in lines if "parse" in line]
    check(line[:2] == ["4.00", "kB"] and "?" in line and line[-3:] == ["parse", "<", "main"], f"a line: {line}")
    check("± unknown" in lines[3] and heap["leaks"][0]["size_low95"] is None, "how sure it is")
    more = os.path.join(directory, "more.txt")
    with open(more, "w") as out:
        out.write("main;parse 9000\n")
    (heap,) = leaks_json(path, more)["processes"][0]["heaps"]
    check(heap["leaks"][0]["size"] == 5000 and not heap["leaks"][0]["size_beyond_chance"], f"no mark: {heap}")
    check("counts are not in the file: nothing is above --threshold" in
          leaks("--threshold", "0", path).stdout.decode(), "a threshold on an unknown figure is not refused")


def test_types(directory):
    """An entry lists its types with their figures, which add up to its own."""
    first = {("main;f", "Node"): (40, 4), ("main;f", "Edge"): (30, 3), ("main;g", ""): (5, 5)}
    second = {("main;f", "Node"): (100, 10), ("main;f", "Edge"): (10, 1), ("main;f", ""): (8, 2),
              ("main;g", ""): (20, 20)}
    made = Made({7: ["/bin/server"]}, [{(7, "malloc"): first}, {(7, "malloc"): second}])
    path = made.write(directory, "t")
    (process,) = leaks_json(path + "@1", path + "@2")["processes"]
    f, g = process["heaps"][0]["leaks"]
    same((f["size"], f["count"]), (48, 6), "sums")
    same(f["count_by_type"], {"Node": 6, "Edge": -2, "[unknown]": 2}, "counts by type")
    same(f["size_by_type"], {"Node": 60, "Edge": -20, "[unknown]": 8}, "sizes by type")
    same(g["count_by_type"], {"[unknown]": 15}, "without types")
    text = leaks(path + "@1", path + "@2").stdout.decode()
    check("by type: Edge −2, Node +6, [no type] +2\n" in text, text)
    check(text.count("by type") == 1, "missing types are printed")


def two_servers(sizes):
    """Make processes of one name: {pid: (command, {heap: size})}."""
    return Made({pid: command.split() for pid, (command, _) in sizes.items()},
                [{(pid, heap): {("main;f", ""): (size, 1)} for pid, (_, heaps) in sizes.items()
                  for heap, size in heaps.items()}])


def test_processes(directory):
    """Pair by pid, or by name and command line; heaps without a partner are left out and reported."""
    before = two_servers({10: ("/bin/server -a", {"malloc": 100}), 11: ("/bin/server -b", {"malloc": 200}),
                          12: ("/bin/gone", {"malloc": 5})}).write(directory, "before")
    after = two_servers({11: ("/bin/server -a", {"malloc": 1000, "zone": 9}), 10: ("/bin/server -b", {"malloc": 400}),
                         13: ("/bin/new", {"malloc": 7})}).write(directory, "after")
    document = leaks_json(before, after)
    same(entries(document), {(11, "malloc"): [("main;f", 800, 0)], (11, "zone"): [("main;f", 9, 1)],
                             (10, "malloc"): [("main;f", 300, 0)]}, "by pid")
    unpaired = {(entry["pid"], entry["in"]) for entry in document["unpaired"]}
    same(unpaired, {(12, "before"), (13, "after")}, "without a partner")
    text = leaks(before, after).stdout.decode()
    check(f"Process[13] new: not there before, in {before}; left out\n" in text, text)
    check(f"Process[12] gone: not there in {after}; left out\n" in text, text)
    labels = ("--match-by-labels", before, after)
    same(entries(leaks_json(*labels)), {(11, "malloc"): [("main;f", 900, 0)], (11, "zone"): [("main;f", 9, 1)],
                                        (10, "malloc"): [("main;f", 200, 0)]}, "by labels")
    check("Process[11] server: /bin/server -a\n  compared with process 10 server\n" in leaks(*labels).stdout.decode(),
          "with whom it is compared")
    same(entries(leaks_json("--filter-by-labels", "-b", *labels)), {(10, "malloc"): [("main;f", 200, 0)]}, "filtered")
    same(entries(leaks_json("--filter-by-name", "new", after)), {(13, "malloc"): [("main;f", 7, 1)]}, "by name")
    leaks("--filter-by-name", "ne", after, status=1)
    same(entries(leaks_json("--pid", "12,13", before, after)), {(13, "malloc"): [("main;f", 2, 0)]}, "one of each")
    # Two of the same name and command on one side are added up.
    twice = two_servers({20: ("/bin/server -a", {"malloc": 70}), 21: ("/bin/server -a", {"malloc": 80})})
    document = leaks_json("--match-by-labels", before, twice.write(directory, "twice"))
    same(entries(document), {(20, "malloc"): [("main;f", 50, 1)]}, "added up")
    check(document["processes"][0]["process_count"] == 2, "no message says so")
    # With a single profile, equal processes are not added up.
    same(entries(leaks_json("--match-by-labels", os.path.join(directory, "twice"))),
         {(20, "malloc"): [("main;f", 70, 1)], (21, "malloc"): [("main;f", 80, 1)]}, "one alone")
    # Without a common process there is an error, not an empty answer.
    other = two_servers({30: ("/bin/x", {"malloc": 1}), 31: ("/bin/y", {"malloc": 1})}).write(directory, "other")
    check(b"no process of" in leaks(before, other, status=1).stderr, "no message about missing pairs")
    check(b"no process of" in leaks("--match-by-labels", before, other, status=1).stderr, "processes are paired by labels")


def test_files(directory):
    """--output DIR writes these files."""
    hard = 'f<T>("\\") </script>\n\u2028\u00e9'
    made = Made({7: ["/bin/server"], 8: ["/bin/idle"]},
                [{(7, "malloc"): {("main;f", "Node"): (40, 4), ("main", ""): (50, 5)}, (7, "a/b zone"): {(hard, ""): (1, 1)},
                  (8, "malloc"): {("main", ""): (0, 0)}}])
    path, out = made.write(directory, "t"), os.path.join(directory, "out")
    leaks("--output", out, path)
    same(sorted(os.listdir(out)), ["process_7_a%2Fb%20zone-leaks.json", "process_7_malloc-leaks.json"],
         "where there is something")
    with open(os.path.join(out, "process_7_malloc-leaks.json")) as content:
        same(json.load(content), [
            {"count": 5, "size": 50, "count_by_type": {"[unknown]": 5}, "stackframes": ["main"]},
            {"count": 4, "size": 40, "count_by_type": {"Node": 4}, "stackframes": ["f", "main"]},
        ], "the list")
    with open(os.path.join(out, "process_7_a%2Fb%20zone-leaks.json")) as content:
        same(json.load(content)[0]["stackframes"], [hard], "names are escaped")
    # Files of an earlier run are removed; other files stay.
    for name in ("process_99_malloc-leaks.json", "process_notes-leaks.json", "process_7.json", "notes"):
        with open(os.path.join(out, name), "w") as other:
            other.write("[]")
    done = leaks("--output", out, "--heap", "malloc", path)
    same(sorted(os.listdir(out)), ["notes", "process_7.json", "process_7_malloc-leaks.json", "process_notes-leaks.json"],
         "old files")
    check(b"3 files of an earlier run" in done.stderr, f"no message: {done.stderr}")
    check(b"/nowhere" in leaks("--output", "/nowhere/at/all", path, status=1).stderr, "an error names the directory")


def test_usage(directory):
    path = one_process({"main": (1, 1)}).write(directory, "t")
    for arguments in ((path, path, path), ("--treshold", "1", path), ("--threshold", "-1", path),
                      ("--size-threshold", "x", path), ("--pid", "7,8", path)):
        done = leaks(*arguments, status=2)
        check(done.stderr.startswith(b"heap_profile: ") and done.stdout == b"", f"{arguments}: {done}")
    for arguments in ((path + "@9",), ("/nowhere",), (path, "/nowhere"), ("--heap", "zone", path)):
        done = leaks(*arguments, status=1)
        check(done.stderr.startswith(b"heap_profile: ") and done.stdout == b"", f"{arguments}: {done}")
    check(b"did you mean --threshold" in leaks("--treshold", "1", path, status=2).stderr, "a typing error")
    check(b"usage: heap_profile leaks [options] [A] " in leaks("--help").stdout, "--help")
    # Without an argument, the latest profile.
    done = run([TOOL, "leaks"], env={"TMPDIR": directory})
    check(done.status == 1 and b"no latest profile" in done.stderr, f"{done}")
    done = run([TOOL, "host", "-i", "1", "-q", "--", program("added_leak"), "1"], env={"TMPDIR": directory})
    done = run([TOOL, "leaks"], env={"TMPDIR": directory})
    # What was live at the end of so short a run is the answer, not that nothing was found.
    text = done.stdout.decode()
    check(done.status == 0 and re.search(r"\n  libc\.malloc: \S+ \S?B was never freed, at \d+ callsites?\. \S+ m?s are too short to tell growth "
                                         r"from setup: that takes 5\.00 s\.\n", text), text)


def test_programs(directory):
    """Of two runs of a program the second leaks: the leak is found and marked, also in its profile alone."""

    def record(name, *arguments, interval):
        path = os.path.join(directory, name)
        done = run(harness.host_command([program("added_leak"), *arguments], path, interval))
        check(done.status == 0, f"host: {done.status}, {done.stderr[-300:]!r}")
        return path

    before, after = record("a", interval=1), record("b", "2000", interval=1)
    (process,) = leaks_json(before, after)["processes"]
    (heap,) = process["heaps"]
    (entry,) = heap["leaks"]
    same((entry["stackframes"][0], entry["size"], entry["count"]), ("the_leak", 400000, 2000), "exactly")
    check(heap["exact"] and entry["size_beyond_chance"] and entry["count_beyond_chance"], "beyond chance")
    same(process["labels"], program("added_leak") + " 2000", "labels")
    before, after = record("c", interval=4096), record("d", "2000", interval=4096)
    (heap,) = leaks_json(before, after)["processes"][0]["heaps"]
    found = {entry["stackframes"][0]: entry for entry in heap["leaks"]}
    check("the_leak" in found and found["the_leak"]["size_beyond_chance"], f"sampled: {list(found)}")
    entry = found["the_leak"]
    check(entry["size_low95"] < entry["size"] < entry["size_high95"], "with its limits")
    check("the_leak" in leaks(after).stdout.decode(), "the single profile lacks the leak")


# --- Chrome's dumps ---


def chrome_process(pid, name, labels):
    head = {"ph": "M", "cat": "__metadata", "pid": pid, "tid": 0, "ts": 0}
    return [{**head, "name": "process_name", "args": {"name": name}},
            {**head, "name": "process_labels", "args": {"labels": labels}}]


def chrome_dump(pid, number, heaps):
    """Make a MemoryInfra dump. heaps: {allocator: {(stack, type): (size, count)}}, as in Made."""
    strings, nodes, kinds, allocators, ids = [], [], {}, {}, {}

    def string(value):
        strings.append({"id": 100000 * number + len(strings), "string": value})
        return strings[-1]["id"]

    def node(stack):
        if stack not in ids:
            caller, _, name = stack.rpartition(";")
            entry = {"name_sid": string(name), **({"parent": node(caller)} if caller else {})}
            ids[stack] = entry["id"] = 100000 * number + len(ids)
            nodes.append(entry)
        return ids[stack]

    for allocator, sites in heaps.items():
        rows = {"nodes": [], "types": [], "counts": [], "sizes": []}
        for (stack, kind), (size, count) in sites.items():
            kinds.setdefault(kind or "[unknown]", 10 * number + len(kinds))
            for key, value in zip(rows, (node(stack), kinds[kind or "[unknown]"], count, size)):
                rows[key].append(value)
        allocators[allocator] = rows
    maps = {"types": [{"id": i, "name_sid": string(kind)} for kind, i in kinds.items()], "strings": strings,
            "nodes": nodes}
    return {"ph": "v", "cat": "disabled-by-default-memory-infra", "name": "periodic_interval", "id": hex(number),
            "pid": pid, "tid": -1, "ts": 1000 * number,
            "args": {"dumps": {"level_of_detail": "detailed",
                               "heaps_v2": {"version": 1, "maps": maps, "allocators": allocators}}}}


def chrome_file(directory, name, events):
    path = os.path.join(directory, name)
    with open(path, "w") as out:
        json.dump({"traceEvents": events, "metadata": {"product-version": "Made/1.0"}}, out)
    return path


def test_chrome(directory):
    """Chrome's dumps work the same: two of one file, types, deep stacks, processes by pid and by labels."""
    sys.setrecursionlimit(5000)
    deep = ";".join(f"f{i}" for i in range(1200))
    first = {"malloc": {("main;f", ""): (10, 1), ("main;gone", ""): (900, 9)},
             "partition_alloc": {("main", "Node"): (64, 1)}}
    second = {"malloc": {("main;f", ""): (20, 11), ("main;f;g", ""): (400, 4), (deep, ""): (7, 1)},
              "partition_alloc": {("main", "Node"): (640, 10), ("main", "Edge"): (32, 2)}}
    path = chrome_file(directory, "two.json", chrome_process(5, "Renderer", "tab one") +
                       [chrome_dump(5, 1, first), chrome_dump(5, 2, second)])
    document = leaks_json(path + "@1", path + "@2")
    same(entries(document), {(5, "malloc"): [("main;f;g", 400, 4), ("main;f", 10, 10), (deep, 7, 1)],
                             (5, "partition_alloc"): [("main", 608, 11)]}, "two dumps of one file")
    (process,) = document["processes"]
    same((process["name"], process["labels"]), ("Renderer", "tab one"), "who it is")
    same([heap["heap"] for heap in process["heaps"]], ["partition_alloc", "malloc"], "what grew most comes first")
    same(process["heaps"][0]["leaks"][0]["count_by_type"], {"Edge": 2, "Node": 9}, "types")
    same(entries(leaks_json(path, path)), {(5, "malloc"): [], (5, "partition_alloc"): []}, "with itself")
    check("Process[5] Renderer: tab one\n" in leaks(path).stdout.decode(), "as text")
    # Two runs: processes are matched by labels, not by pid; the browser process by its name alone.
    one_site = {"malloc": {("main", ""): (100, 1)}}
    run_one = chrome_file(directory, "a.json", sum((chrome_process(*p) for p in (
        (1, "Browser", ""), (2, "Renderer", "news"), (3, "Renderer", "mail"))), []) +
        [chrome_dump(pid, pid, one_site) for pid in (1, 2, 3)])
    run_two = chrome_file(directory, "b.json", sum((chrome_process(*p) for p in (
        (7, "Browser", "other label"), (2, "Renderer", "mail"), (8, "Renderer", "news"))), []) +
        [chrome_dump(pid, pid, {"malloc": {("main", ""): (100 + pid, 1)}}) for pid in (7, 2, 8)])
    same(entries(leaks_json(run_one, run_two)), {(2, "malloc"): [("main", 2, 0)]}, "by pid")
    same(entries(leaks_json("--match-by-labels", run_one, run_two)),
         {(7, "malloc"): [("main", 7, 0)], (2, "malloc"): [("main", 2, 0)], (8, "malloc"): [("main", 8, 0)]}, "by labels")
    same(entries(leaks_json("--filter-by-labels", "ail", "--match-by-labels", run_one, run_two)),
         {(2, "malloc"): [("main", 2, 0)]}, "of some labels")


# --- leaks, caches and what is kept ---


def names_of(heap):
    return {entry["stackframes"][0]: entry for entry in heap["leaks"]}


def test_cache(directory):
    """Of a server that was attached to, with a full cache, the leak of one in 500 requests is the only potential leak,
    although nearly all blocks of its callsite are freed; the cache turns over."""
    with scene() as (daemon, _):
        server = subprocess.Popen([program("serving"), "500", "2000", "20"], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, bufsize=0)
        lines = server.stdout
        while int(lines.readline()) < 4000:
            pass
        session = Session(daemon, os.path.join(directory, "o"), "-p", str(server.pid))
        attached(daemon, server)
        os.set_blocking(lines.fileno(), False)
        while lines.read(65536):
            pass
        os.set_blocking(lines.fileno(), True)
        # Of the first five seconds nothing is said.
        begun, count = time.monotonic(), 0
        while count < 60 or time.monotonic() < begun + 6:
            count += lines.readline() != b""
        check(session.end() == 0, session.stderr)
        server.stdin.close()
        check(server.wait() == 0, "the server failed")
    path = os.path.join(directory, "o")
    check(f" leaks {path} " in session.stderr, f"what the session printed: {session.stderr}")
    first = next((line for line in session.stderr.split("\n") if line.startswith("  ")), "")
    check(re.match(r"  read_request \[serving\] grows.*, .* a second, to .* \(leaks has all\)\.$", first), f"the first sentence: {first!r}")
    (process,) = leaks_json(path)["processes"]
    heap = next(heap for heap in process["heaps"] if heap["heap"] == "libc.malloc")
    entries_of = names_of(heap)
    same(heap["leaks"][0]["stackframes"][0], "read_request", "the first")
    leak, cache = entries_of["read_request"], entries_of["cache_entry"]
    same((heap["potential_leaks"], leak["trend"], cache["trend"]), (1, "grows", "turns_over"), f"{leak} {cache}")
    check(leak["chance"] < 0.01 and 0.98 < leak["freed"] < 1, f"the leak: {leak}")
    check(leak["oldest_age_ms"] > cache["oldest_age_ms"] > 0 and leak["bytes_per_second"] > 0, f"ages: {leak} {cache}")
    check(cache["size"] > leak["size"] and cache["freed"] > 0.5, f"the cache: {cache}")
    text = leaks(path).stdout.decode()
    check("1 potential leak found, among" in text and "grows" in text and "turns over: " in text, text)
    # A report shows the same of each callsite.
    report = json.loads(run([TOOL, "report", "--json", "--lifetimes", path]).stdout)
    (heap,) = [heap for heap in report["heaps"] if heap["heap"] == "libc.malloc"]
    shown = {callsite["frames"][0]["name"]: callsite for callsite in heap["callsites"]}
    for name, entry in (("read_request", leak), ("cache_entry", cache)):
        for key in ("trend", "freed", "mean_lifetime_ms", "median_age_ms", "oldest_age_ms", "chance"):
            same(shown[name][key], entry[key], f"{key} of {name} in the report")
    text = run([TOOL, "report", "--lifetimes", path]).stdout.decode()
    check("grows" in text and "turns over: " in text, text)


def test_freed_at_end(directory):
    """Of a program that frees all at its end, the last checkpoint before it is shown, and said so."""
    output = os.path.join(directory, "o")
    host = subprocess.Popen(harness.host_command([program("commanded")], output, 1), stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, bufsize=0)
    host.stdin.write(b"hold 1000 1000\n")
    host.stdout.readline()
    trace = os.path.join(output, "raw-trace")

    def held_at_checkpoint():
        done = run([TOOL, "report", "--json", trace])
        return done.status == 0 and any(heap["total"]["space"]["estimate"] >= 1e6
                                        for heap in json.loads(done.stdout)["heaps"])

    wait_for("a checkpoint", held_at_checkpoint)
    host.stdin.write(b"drop\nexit 0\n")
    host.stdin.close()
    check(host.wait() == 0, "the profiler failed")
    report = json.loads(run([TOOL, "report", "--json", output]).stdout)
    same([heap["dumps"] for heap in report["heaps"]], [1], "dumps of the report")
    for arguments in ((output,), (output + "@max",), (output + "@last",)):
        done = leaks("--json", *arguments)
        (heap,) = json.loads(done.stdout)["processes"][0]["heaps"]
        entry = names_of(heap).get("hold_block")
        check(entry and (entry["size"], entry["count"], entry["freed"]) == (1000000, 1000, 0), f"{arguments}: {entry}")
        check(0 < heap["at_ns"] < report["heaps"][0]["duration_ns"], f"at {heap['at_ns']}")
        same(heap["too_short"], heap["at_ns"] < 5e9, "too short to tell growth")
        same(b"nothing later is in it (-c 1s" in done.stderr, not arguments[0].endswith("@max"), f"{done.stderr!r}")
    (heap,) = leaks_json(output + "@final")["processes"][0]["heaps"]
    check("hold_block" not in names_of(heap), f"at the end: {heap['leaks']}")


def test_rows(directory):
    """A row is a row of a report: call stacks that are shown alike are one, with the callers at which they part."""
    inner = "a;b;c;d;e;f;g"
    made = {f"main;one;{inner}": (300, 3), f"main;two;{inner}": (100, 1), "main;h": (10, 1)}
    path = one_process(made).write(directory, "t")
    same(entries(leaks_json(path)), {(7, "malloc"): [(f"main;one;{inner}", 400, 4), ("main;h", 10, 1)]}, "rows")
    same([entry["stacks"] for entry in leaks_json(path)["processes"][0]["heaps"][0]["leaks"]], [2, 1], "their stacks")
    same(entries(leaks_json("--stacks", path)),
         {(7, "malloc"): [(f"main;one;{inner}", 300, 3), (f"main;two;{inner}", 100, 1), ("main;h", 10, 1)]}, "each stack")
    text = leaks(path).stdout.decode()
    check("one 75 %, two 25 %" in text, text)
    report = run([TOOL, "report", path]).stdout.decode()
    check("one 75 %, two 25 %" in report, report)
    # A sum below the largest row would contradict it.
    before = {"main;shrinks": (252000, 10), "main;grows": (10, 1)}
    path = one_process(before, {"main;shrinks": (0, 0), "main;grows": (121010, 2)}).write(directory, "both")
    text = leaks(path + "@1", path + "@2").stdout.decode()
    check("1 potential leak found; others shrank by 252 kB." in text and "in all" not in text, text)
    # What was freed is known of each, ages are not.
    (heap,) = leaks_json(path + "@1", path + "@2")["processes"][0]["heaps"]
    (entry,) = heap["leaks"]
    same([entry[key] for key in ("trend", "steady", "chance", "freed", "mean_lifetime_ms", "median_age_ms",
                                 "oldest_age_ms", "bytes_per_second")], [None, None, None, 0, None, None, None, None],
         "what is unknown")
    check("nothing of what it allocated was freed; ages unknown\n" in text, text)


# --- the page ---


def flamegraph(directory, *arguments):
    path = os.path.join(directory, "page.html")
    done = run([os.path.join(BUILD, "traceconv"), "flamegraph", *arguments, path])
    check(done.status == 0, f"flamegraph: {done.status}, {done.stderr[-300:]!r}")
    return SavedPage(path)


def is_refused(page, question):
    try:
        page.ask(question)
    except Refused:
        return True
    return False


def opened(page):
    """Return what the page opens on: pid, heap, view, tab, dump and base."""
    opening = page.overview["opening"]
    heap = page.heaps()[opening["heap"]]
    return heap["process"]["pid"], heap["name"], opening["view"], opening["tab"], opening["dump"], opening.get("base")


def test_page(directory):
    """The page has the stacks of each view, and opens on the flame graph."""
    harness.need_saved_pages()
    made = {"main;f": (100, 10), "main;f;g": (400, 4), "main;h;g": (50, 5), "main;r;r;r": (30, 3)}
    path = one_process(made).write(directory, "t")
    page = flamegraph(directory, path)
    (heap,) = page.heaps().values()
    same((heap["process"]["name"], heap["process"]["pid"], heap["process"]["command"], heap["name"], heap["exact"]),
         ("server", 7, "/bin/server --port 80", "malloc", True), "which heap")
    same(opened(page), (7, "malloc", "space", "flame", 0, None), "opens on")
    for view, which in (("space", 0), ("objects", 1), ("alloc_space", 0), ("alloc_objects", 1)):
        same(page.values(heap["id"], view), {tuple(stack.split(";")): values[which] for stack, values in made.items()}, view)
    same(page.title, path, "title")


def test_page_opens(directory):
    """The page opens on the largest heap, and on a view that is not empty."""
    harness.need_saved_pages()
    sizes = {7: (10, 0), 8: (5000, 0), 9: (600, 0)}
    made = Made({pid: [f"/bin/p{pid}"] for pid in sizes},
                [{(pid, "malloc"): {("main", ""): (size, 1)} for pid, (size, _) in sizes.items()}])
    path = made.write(directory, "t")
    page = flamegraph(directory, path)
    same([heap["process"]["pid"] for heap in page.heaps().values()], [7, 8, 9], "all heaps")
    same(opened(page)[:3], (8, "malloc", "space"), "the largest")
    only = flamegraph(directory, "--pid", "9", path)
    same([heap["process"]["pid"] for heap in only.heaps().values()], [9], "the chosen heap")
    same(opened(only)[0], 9, "opens on the chosen one")
    for heap in ("0.0", "0.1"):
        check(is_refused(only, f"api/tree?heap={heap}"), f"it has another heap: {heap}")
    done = run([os.path.join(BUILD, "traceconv"), "speedscope", path])
    speedscope = json.loads(done.stdout)
    check("8" in speedscope["profiles"][speedscope["activeProfileIndex"]]["name"], f"{speedscope['profiles'][0]['name']}")
    leaks("--output", os.path.join(directory, "grown"), "--flame-graph", path)
    grown = SavedPage(os.path.join(directory, "grown", "graph", "index.html"))
    same((opened(grown), grown.title), ((8, "malloc", "space", "flame", 0, None), f"Live in {path}"), "what leaks most")
    done = run([TOOL, "host", "--quiet", "-i", "1", "-o", os.path.join(directory, "gone"), "--", "sh", "-c", "true"])
    check(done.status == 0, f"{done.stderr!r}")
    page = flamegraph(directory, os.path.join(directory, "gone"))
    empty = not page.values(page.overview["opening"]["heap"], "space")
    same(opened(page)[2], "max" if empty else "space", "a heap that is empty at its end")


def test_page_dumps(directory):
    """The page has the dumps of a trace; with --dump, that one only."""
    harness.need_saved_pages()
    dumps = [{"main": (size, 1)} for size in (10, 500, 70)]
    path = one_process(*dumps).write(directory, "t")
    page = flamegraph(directory, path)
    (heap,) = page.heaps().values()
    same([dump["kept"] for dump in heap["dumps"]], [True] * 3, "kept")
    same([page.values(heap["id"], "space", dump) for dump in range(3)], [{("main",): size} for size in (10, 500, 70)], "live")
    page = flamegraph(directory, "--dump", "2", path)
    (heap,) = page.heaps().values()
    same([dump["kept"] for dump in heap["dumps"]], [False, True], "the chosen dump is the last")
    same((page.values(heap["id"], "space"), opened(page)[4]), ({("main",): 500}, 1), "live")


def test_page_names(directory):
    """Names stay data, whatever they contain: they neither end the script nor become tags."""
    harness.need_saved_pages()
    names = ["</script><script>alert(1)</script>", "<!--", "<img src=x onerror=alert(1)>", 'a"b\\c', "tab\tline\n",
             "&amp", "&#60", "\u2028\u2029", "\u00e9\u4e2d\U0001f600", "]]>", "${x}`", "\u202eevil"]
    made = Made({7: ["/bin/</title><script>", "--x=</script>"]},
                [{(7, "</script>"): {("main;" + name, ""): (10 + i, 1) for i, name in enumerate(names)}}])
    made.write(directory, "t")
    broken = os.path.join(directory, "u<title>\udcff&")
    with open(os.path.join(directory, "t"), "rb") as content:
        whole = content.read()
    with open(broken, "wb") as out:  # of the same length, but not UTF-8
        out.write(whole.replace("${x}`".encode(), b"\xff\xfe{\xc3}"))
    for path in (os.path.join(directory, "t"), broken):
        page = flamegraph(directory, path)
        text = page.text
        same(text.count("</script"), 4, "ends of scripts")
        same(text[:text.index("<style")].count("<title"), 1, "titles")
        check("alert(1)" not in text and "<img" not in text, "no tags of theirs")
        check("default-src 'none'" in text, "the page may load something")
        (heap,) = page.heaps().values()
        got = {stack[-1] for stack in page.values(heap["id"], "space")}
        wanted = {"\ufffd\ufffd{\ufffd}" if path == broken and name == "${x}`" else name for name in names}
        same(got, wanted, "names come through")
        same((heap["name"], heap["process"]["command"]), ("</script>", "'/bin/</title><script>' '--x=</script>'"), "so does all else")


def test_page_figures(directory):
    """The page has the same figures for a stack as the tools."""
    harness.need_saved_pages()
    profile = os.path.join(directory, "profile")
    done = run(harness.host_command([program("added_leak"), "2000"], profile, 4096))
    check(done.status == 0, f"host: {done.status}")
    (heap,) = leaks_json(profile)["processes"][0]["heaps"]
    page = flamegraph(directory, profile)
    check(len(heap["leaks"]) > 5, "several entries")
    for view, name in (("space", "size"), ("objects", "count")):
        values = page.values(page.overview["opening"]["heap"], view)
        for entry in heap["leaks"]:
            found = values[tuple(reversed(entry["stackframes"]))]
            check(abs(found - entry[name]) <= 1e-6 * (1 + entry[name]), f"{entry['stackframes'][0]}: {found}, and not {entry[name]}")
    whole = page.header(f"api/tree?heap={page.overview['opening']['heap']}")["whole"]["bytes"]
    check(abs(whole["value"] - heap["total_size"]) < 1e-6 * heap["total_size"] and whole["high"] > whole["value"], f"the whole: {whole}")


def test_graph_files(directory):
    """leaks --flame-graph: the page and its JSON show growth."""
    harness.need_saved_pages()
    hard = 'f("\\") </script>'
    deep = ";".join(f"f{i}" for i in range(900))
    before, after = {"main;f": (10, 1), "main;" + hard: (5, 5)}, {"main;f": (110, 3), "main;" + hard: (1005, 5), deep: (7, 1)}
    path, out = one_process(before, after).write(directory, "t"), os.path.join(directory, "out")
    leaks("--output", out, "--flame-graph", path + "@1", path + "@2")
    graph = os.path.join(out, "graph")
    same(sorted(os.listdir(graph)), ["index.html", "index.json", "process_7_malloc-objects.json"], "files")
    with open(os.path.join(graph, "index.json")) as content:
        same(json.load(content), [{"pid": 7, "heap": "malloc", "name": "server", "labels": "/bin/server --port 80",
                                   "objects": "process_7_malloc-objects.json", "potential leaks": 3,
                                   "objects leaked": 3}], "index")
    with open(os.path.join(graph, "process_7_malloc-objects.json")) as content:
        sys.setrecursionlimit(10000)
        root = json.load(content)
    same((root["size"], root["count"]), (1107, 3), "all")
    top = {child["name"]: child for child in root["children"]}
    same({child["name"]: (child["size"], child["count"]) for child in top["main"]["children"]},
         {hard: (1000, 0), "f": (100, 2)}, "nested")
    depth, at = 0, top["f0"]
    while at:
        depth, at = depth + 1, (at.get("children") or [None])[0]
    same(depth, 900, "deep")
    page = SavedPage(os.path.join(graph, "index.html"))
    same(page.title, f"Growth from {path}@1 to {path}@2", "title")
    same(opened(page), (7, "malloc", "space", "flame", 1, "0"), "it is a difference")
    (heap,) = page.heaps()
    same([page.values(heap, "space", dump) for dump in range(2)],
         [{tuple(stack.split(";")): size for stack, (size, _) in stacks.items()} for stacks in (before, after)], "both dumps")
    # The same of two files, and of two processes of one.
    other = os.path.join(directory, "other")
    leaks("--output", other, "--flame-graph", one_process(before).write(directory, "a"), one_process(after).write(directory, "b"))
    page = SavedPage(os.path.join(other, "graph", "index.html"))
    same(opened(page), (7, "malloc", "space", "flame", 0, "0.0.0"), "two files")
    check(page.header("api/tree?heap=1.0&base=0.0.0")["difference"], "no difference of two files")
    # The target of a link of that name is not overwritten.
    page, kept = os.path.join(graph, "index.html"), os.path.join(directory, "kept")
    with open(kept, "w") as content:
        content.write("kept")
    os.unlink(page)
    os.symlink(kept, page)
    # Files of an earlier run are removed; without leaks, the page is written nevertheless.
    leaks("--output", out, "--flame-graph", path + "@2", path + "@2")
    same(sorted(os.listdir(graph)), ["index.html", "index.json"], "nothing has grown")
    same(opened(SavedPage(page))[4:], (1, "1"), "nothing has grown")
    with open(kept) as content:
        same(content.read(), "kept", "what a link led to")
    check(b"--output" in leaks("--flame-graph", path, status=2).stderr, "needs a directory")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made_directory:
        harness.main(made_directory)
