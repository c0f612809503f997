#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Our tools read the figures of MemoryInfra files as an independent reader does: files of Chromium, and random ones in
every variant of the format. memory_infra_read.py CASE"""

import collections
import csv
import gzip
import io
import json
import os
from random import Random
import tempfile

from harness import ROOT, SANITIZED, TOOL, TRACECONV, check, fail, failures, main, need, run

GENUINE = os.path.join(ROOT, "tests", "data", "memory_infra", "chromium-150-browser.json.gz")
WORK = tempfile.TemporaryDirectory()


def path(name):
    return os.path.join(WORK.name, name)


def write(name, document, **options):
    data = document if isinstance(document, (bytes, str)) else json.dumps(document, **options)
    with open(path(name), "wb") as out:
        out.write(data.encode() if isinstance(data, str) else data)
    return path(name)


def tool(*arguments, status=0, stdin=None):
    outcome = run([TOOL, *arguments], stdin=stdin)
    if outcome.status != status:
        fail(f"{arguments}: status {outcome.status}: {outcome.stderr.decode()[:500]}")
    return outcome


def rows(file, sql):
    return list(csv.reader(io.StringIO(tool("query", file, sql, "--csv").stdout.decode())))[1:]


def stacks_of(file):
    """Return {id of a callsite: names of its frames, the outermost first}; a frame without a name is its mapping's
    path and rel_pc."""
    frames = {}
    for key, name, mapping, rel_pc in rows(
        file, "select f.id, f.name, ifnull(m.name, ''), f.rel_pc from stack_profile_frame f left join "
              "stack_profile_mapping m on f.mapping = m.id"):
        frames[key] = name if name not in ("", "[NULL]") else f"{mapping}+{int(rel_pc):x}"
    stacks = {}
    for key, parent, frame in rows(
        file, "select id, ifnull(parent_id, ''), frame_id from stack_profile_callsite order by depth, id"):
        stacks[key] = (stacks[parent] if parent else ()) + (frames[frame],)
    return stacks


def sites_of(file):
    """Return {(ns, pid, heap): {(stack, type): [bytes, count]}} as our tools read it."""
    stacks = stacks_of(file)
    found = collections.defaultdict(lambda: collections.defaultdict(lambda: [0, 0]))
    parts = collections.defaultdict(lambda: [0, 0])
    for ts, pid, heap, callsite, kind, size, count in rows(
        file, "select a.ts, p.pid, a.heap_name, a.callsite_id, ifnull(a.type_name, ''), a.live_size, a.live_count "
              "from hp_part a join process p using (upid)"):
        key = int(ts), int(pid), heap
        site = found[key][stacks[callsite], kind if kind != "[NULL]" else ""]
        for i, value in enumerate((size, count)):
            site[i] += float(value)
            parts[key + (callsite,)][i] += float(value)
    for ts, pid, heap, callsite, size, count in rows(
        file, "select a.ts, p.pid, a.heap_name, a.callsite_id, a.live_size, a.live_count from hp_callsite_stats a "
              "join process p using (upid)"):
        key = int(ts), int(pid), heap
        before = parts.get(key + (callsite,))
        if before is None:
            site = found[key][stacks[callsite], ""]
            site[0] += float(size)
            site[1] += float(count)
        else:
            check(close(before, (float(size), float(count))), f"{key} {callsite}: parts {before}, {size} {count}")
    # Memory that was freed since an earlier dump has zeros.
    live = {key: {site: value for site, value in sites.items() if value[0] > 0} for key, sites in found.items()}
    return {key: sites for key, sites in live.items() if sites}


def close(one, other):
    return all(abs(a - b) <= 1e-6 * max(1, abs(a)) for a, b in zip(one, other))


def compare(found, wanted, what):
    for key in sorted(set(found) | set(wanted)):
        ours, theirs = found.get(key, {}), wanted.get(key, {})
        for site in set(ours) | set(theirs):
            one, other = ours.get(site, (0, 0)), theirs.get(site, (0, 0))
            if not close(one, other):
                fail(f"{what}, {key}, {site}: {one}, wanted {other}")
                return


# --- Chromium's own files ---


def test_chromium():
    """All figures of our tools equal an independent count of the file."""
    with gzip.open(GENUINE) as file:
        document = json.load(file)
    names, wanted, regions, mapped = {}, {}, {}, {}
    for event in document["traceEvents"]:
        if event["name"] == "process_name":
            names[event["pid"]] = event["args"]["name"]
        dumps = event.get("args", {}).get("dumps", {})
        for region in dumps.get("process_mmaps", {}).get("vm_regions", []):
            entry = regions.setdefault(event["pid"], [0, 0, 0])
            entry[0] += 1
            entry[1] += int(region["sz"], 16) // 1024
            entry[2] += int(region["bs"]["pd"], 16) // 1024
            first = mapped.setdefault(region["mf"], int(region["sa"], 16))
            mapped[region["mf"]] = min(first, int(region["sa"], 16))
        if "heaps_v2" not in dumps:
            continue
        maps = dumps["heaps_v2"]["maps"]
        strings = {entry["id"]: entry["string"] for entry in maps["strings"]}
        nodes = {node["id"]: node for node in maps["nodes"]}
        types = {entry["id"]: strings[entry["name_sid"]] for entry in maps["types"]}
        places = [(int(r["sa"], 16), int(r["sa"], 16) + int(r["sz"], 16), r["mf"])
                  for r in dumps["process_mmaps"]["vm_regions"]]

        def name(text):
            if not text.startswith("pc:"):
                return text
            address = int(text[3:], 16) - 1
            for start, end, file in places:
                if start <= address < end and file:
                    return f"{file}+{address - mapped[file]:x}"
            return f"+{address:x}"

        for heap, columns in dumps["heaps_v2"]["allocators"].items():
            key = event["ts"] * 1000, event["pid"], heap
            into = wanted.setdefault(key, collections.defaultdict(lambda: [0, 0]))
            for leaf, kind, size, count in zip(*(columns[c] for c in ("nodes", "types", "sizes", "counts"))):
                stack, at = [], leaf
                while at is not None:
                    stack.insert(0, name(strings[nodes[at]["name_sid"]]))
                    at = nodes[at].get("parent")
                site = into[tuple(stack), "" if types[kind] == "[unknown]" else types[kind]]
                site[0] += size
                site[1] += count
    check(sum(len(sites) for sites in wanted.values()) == 9, "the count has nine sites")
    compare(sites_of(GENUINE), wanted, "Chromium's")
    found = {int(pid): name for pid, name in rows(GENUINE, "select pid, name from process where pid > 0")}
    check(found == names, f"processes {found}, wanted {names}")
    told = {int(pid): [int(n) for n in rest] for pid, *rest in rows(
        GENUINE, "select p.pid, count(*), sum(size_kb), sum(private_dirty_kb) from profiler_smaps s join process p "
                 "using (upid) group by 1")}
    check(told == regions, f"regions {told}, wanted {regions}")
    ids = rows(GENUINE, "select distinct build_id from stack_profile_mapping where name like '%/chromium'")
    check(ids and all(row[0] == row[0].lower() and len(row[0]) == 40 for row in ids), f"build ids {ids}")
    report = tool("report", GENUINE).stdout.decode()
    for text in ("Browser", "10.0 MB", "58,049 allocations", "one in 1,000,000 B"):
        check(text in report, f"the report has no {text!r}")


def test_inputs():
    """Every verb that reads a trace also reads these files: packed or not, by name or from standard input."""
    need("zstd")
    plain = gzip.open(GENUINE).read()
    write("dump.json", plain)
    write("dump.txt", plain)
    run(["zstd", "-q", path("dump.json"), "-o", path("dump.zst")])
    report = tool("report", GENUINE).stdout
    for name in ("dump.json", "dump.txt", "dump.zst"):
        check(tool("report", path(name)).stdout == report, f"report {name}")
    check(tool("report", "-", stdin=plain).stdout == report, "report of standard input")
    collapsed = run([TRACECONV, "collapsed", path("dump.json")]).stdout.decode()
    total = sum(int(line.rsplit(" ", 1)[1]) for line in collapsed.splitlines())
    check(total == 10000000, f"collapsed adds up to {total}")
    for arguments in (["profile", "-o", path("out"), path("dump.json")],
                      ["speedscope", path("dump.json"), path("out.json")]):
        outcome = run([TRACECONV, *arguments])
        check(outcome.status == 0, f"{arguments}: {outcome.stderr.decode()[:300]}")
    diff = tool("diff", path("dump.json"), path("dump.zst"))
    check(b"Browser" in diff.stdout, diff.stdout.decode()[:300])
    (found,) = rows(path("dump.zst"), "select count(*), sum(size) from heap_profile_allocation")
    check(found == ["9", "10000000"], f"query: {found}")
    (found,) = rows(path("dump.zst"), """select p.name, count(*), sum(size), sum(count)
        from heap_profile_allocation join process p using (upid)""")
    check(found == ["Browser", "9", "10000000", "58049"], f"query: {found}")


# --- random files ---


class Model:
    """Random processes, dumps and heaps, and the figures of each site."""

    def __init__(self, rng):
        self.rng = rng
        self.names = [f"f{i}" for i in range(rng.randint(1, 12))] + [
            'quote"', "back\\slash", "über", "\U0001f600 smile", "tab\there", "a;b", "<other>", "<self>", "[Thread: x]"]
        self.kinds = ["[unknown]"] + [f"Type<{i}>" for i in range(rng.randint(0, 4))]
        self.pids = rng.sample(range(1, 4000), rng.randint(1, 3))
        self.times = sorted(rng.sample(range(1000, 100000), rng.randint(1, 4)))
        self.heaps = {}  # (time, pid, heap): {(stack, type): (bytes, count)}
        for pid in self.pids:
            sites = {}
            for time in self.times:
                if time != self.times[0] and rng.random() < 0.2:
                    continue
                for heap in rng.sample(["malloc", "partition_alloc", "blink_gc"], rng.randint(1, 3)):
                    sites.setdefault(heap, {})
                    for _ in range(rng.randint(0, 12)):
                        stack = tuple(rng.choice(self.names) for _ in range(rng.randint(1, 8)))
                        sites[heap][stack, rng.choice(self.kinds)] = (rng.randint(1, 10**9), self.count())
                    for site in [s for s in sites[heap] if rng.random() < 0.2]:
                        del sites[heap][site]
                    self.heaps[time, pid, heap] = dict(sites[heap])

    def count(self):
        return self.rng.choice([self.rng.randint(1, 1000), self.rng.randint(1, 4000) / 8])

    def wanted(self):
        found = {}
        for (time, pid, heap), sites in self.heaps.items():
            into = found.setdefault((time * 1000, pid, heap), {})
            for (stack, kind), value in sites.items():
                into[stack, "" if kind == "[unknown]" else kind] = value
        return {key: sites for key, sites in found.items() if sites}


def shuffled(rng, mapping):
    keys = list(mapping)
    rng.shuffle(keys)
    return {key: mapping[key] for key in keys}


class Ids:
    """The ids that a process has in the file so far; sparse or not."""

    def __init__(self, rng, first):
        self.rng, self.next, self.told = rng, first, {}
        self.step = rng.choice([1, 1, 3, 10**6, 2**40])

    def of(self, key):
        """Return the id of a thing, and whether it is new."""
        if key in self.told:
            return self.told[key], False
        self.told[key] = self.next
        self.next += self.rng.randint(1, self.step)
        return self.told[key], True


def v2_events(model, full):
    """Make a dump event for each process and time. full: every dump has complete maps, with its own ids."""
    rng, events, known = model.rng, [], {}
    for number, time in enumerate(model.times):
        for pid in model.pids:
            heaps = {heap: sites for (t, p, heap), sites in model.heaps.items() if (t, p) == (time, pid)}
            if not heaps:
                continue
            if full or pid not in known:
                known[pid] = [Ids(rng, rng.randint(0, 3)) for _ in range(3)]
            strings, nodes, types = known[pid]
            maps = {"strings": [], "nodes": [], "types": []}

            def string(text):
                key, new = strings.of(text)
                if new:
                    maps["strings"].append({"id": key, "string": text})
                return key

            def node(stack):
                parent = node(stack[:-1]) if len(stack) > 1 else None
                key, new = nodes.of(stack)
                if new:
                    entry = {"id": key, "name_sid": string(stack[-1])}
                    if parent is not None:
                        entry["parent"] = parent
                    maps["nodes"].append(shuffled(rng, entry))
                return key

            def kind(name):
                key, new = types.of(name)
                if new:
                    maps["types"].append({"name_sid": string(name), "id": key})
                return key

            allocators = {}
            for heap, sites in heaps.items():
                columns = {"nodes": [], "types": [], "counts": [], "sizes": []}
                for (stack, name), (size, count) in sites.items():
                    columns["nodes"].append(node(stack))
                    columns["types"].append(kind(name))
                    columns["counts"].append(count)
                    columns["sizes"].append(size)
                allocators[heap] = shuffled(rng, columns)
            for entries in maps.values():
                rng.shuffle(entries)
            heads = [(heaps_part,) for heaps_part in allocators.items()]
            split = rng.random() < 0.3 and len(heads) > 1
            for part in ([dict(h) for h in heads] if split else [allocators]):
                dumps = {"level_of_detail": "detailed",
                         "heaps_v2": shuffled(rng, {"version": 1, "maps": shuffled(rng, maps), "allocators": part})}
                events.append(dump_event(rng, number, pid, time, dumps))
                if split and not full:
                    maps = {"strings": [], "nodes": [], "types": []}
    return events


def dump_event(rng, number, pid, time, dumps):
    if rng.random() < 0.5:
        dumps["allocators"] = {"malloc": {"guid": "1", "attrs": {
            "size": {"type": "scalar", "units": "bytes", "value": "1f4"}}}}
        dumps["process_totals"] = {"resident_set_bytes": "100000", "is_peak_rss_resetable": True}
        dumps["allocators_graph"] = [{"source": "1", "target": "2", "type": "ownership", "importance": 1}]
    return shuffled(rng, {
        "ph": "v", "cat": "disabled-by-default-memory-infra", "name": "periodic_interval", "id": hex(number),
        "pid": pid, "tid": -1, "ts": time, "args": {"dumps": shuffled(rng, dumps)}})


def document_of(rng, events, shuffle_events):
    events = list(events)
    events += [{"ph": "M", "cat": "__metadata", "name": "process_name", "pid": event["pid"], "tid": 1, "ts": 0,
                "args": {"name": f"p{event['pid']}"}} for event in events]
    events += [{"ph": "X", "name": "other", "pid": 1, "tid": 1, "ts": 5, "dur": 1,
                "args": {"dumps": 5, "name": {"deep": [[[{}]]]}, "x": None}}]
    if shuffle_events:
        rng.shuffle(events)
    if rng.random() < 0.3:
        return events
    return shuffled(rng, {"traceEvents": events, "metadata": {"a": {"b": [1, {"c": 2}]}, "d": "e"}, "z": [1, 2]})


def formatted(rng, document):
    options = rng.choice([{}, {"indent": 1}, {"separators": (",", ":")}])
    return json.dumps(document, ensure_ascii=rng.random() < 0.5, **options)


def check_growth(file, model, what):
    """The changes from dump to dump add up to a heap's last dump."""
    last = {}
    for (_, pid, heap), sites in sorted(model.heaps.items(), key=lambda item: item[0]):
        last[pid, heap] = sum(size for size, _ in sites.values())
    for pid, heap, size in rows(
        file, "select p.pid, a.heap_name, sum(a.size) from heap_profile_allocation a join process p using (upid) "
              "group by 1, 2"):
        check(abs(int(size) - last[int(pid), heap]) <= 100, f"{what}: {pid} {heap} grew to {size}")


def random_files(count, make):
    for seed in range(count):
        rng = Random(seed)
        model = Model(rng)
        text, wanted = make(rng, model)
        file = write("random.json", text)
        before = len(failures)
        compare(sites_of(file), wanted, f"seed {seed}")
        check_growth(file, model, f"seed {seed}")
        warning = rows(file, "select ifnull(warning, '') from hp_trace")[0][0]
        check(warning in ("", "[NULL]"), f"seed {seed}: {warning}")
        if len(failures) > before:
            return


def test_random():
    """heaps_v2: several processes, dumps and heaps, keys in any order, ids far apart; complete or incremental maps, and
    dumps in any order of the file if their ids allow it."""

    def make(rng, model):
        full = rng.random() < 0.5
        events = v2_events(model, full)
        return formatted(rng, document_of(rng, events, not full)), model.wanted()

    random_files(20 if SANITIZED else 60, make)


# --- invalid input ---


def small(pid=1, number=1, time=1000, sites=(("a", "b"),), **changes):
    strings, nodes = [{"id": 100, "string": "[unknown]"}], []
    leaves, key = [], 1
    for stack in sites:
        parent = None
        for name in stack:
            strings.append({"id": key, "string": name})
            nodes.append({"id": key, "name_sid": key, **({"parent": parent} if parent else {})})
            parent, key = key, key + 1
        leaves.append(parent)
    heaps = {"version": 1, "maps": {"strings": strings, "nodes": nodes, "types": [{"id": 0, "name_sid": 100}]},
             "allocators": {"malloc": {"nodes": leaves, "types": [0] * len(leaves), "counts": [2] * len(leaves),
                                       "sizes": [4096] * len(leaves)}}}
    heaps.update(changes)
    return {"ph": "v", "cat": "disabled-by-default-memory-infra", "name": "periodic_interval", "id": hex(number),
            "pid": pid, "tid": -1, "ts": time, "args": {"dumps": {"level_of_detail": "detailed", "heaps_v2": heaps}}}


def old(event, **others):
    """Return the event with the heaps that Chrome wrote before version 59, and these others."""
    return {**event, "args": {"dumps": {"heaps": {"malloc": {"entries": [{"bt": "", "size": "77", "count": "1"}]}}, **others}}}


def warning_of(file):
    return rows(file, "select ifnull(warning, '') from hp_trace")[0][0]


def total_of(file):
    return sum(value[0] for sites in sites_of(file).values() for value in sites.values())


def test_deep():
    """Stacks of 900 frames, which the original scripts still read, of 1,200, at which they break, and of many more."""
    for depth in (900, 1200, 4000):
        stack = [f"frame {i}" for i in range(depth)]
        file = write("deep.json", {"traceEvents": [small(sites=[stack])]})
        ((deepest,),) = rows(file, "select max(depth) + 1 from stack_profile_callsite")
        check(deepest == str(depth), f"{depth} frames are {deepest}")
        check(total_of(file) == 4096, f"{depth} frames")
    file = write("deep.json", {"traceEvents": [small(sites=[["x"] * 70000])]})
    check("more than 65,536 frames" in warning_of(file), warning_of(file))
    check(total_of(file) == 4096, "memory of a stack that is too deep is lost")


def test_refused():
    """Unusable input is an error with its place and reason."""
    for name, document, wanted in (
        ("an unknown version", {"traceEvents": [small(version=2)]}, "version 2: only 1 is supported"),
        ("no version", {"traceEvents": [small(version=None)]}, "version null"),
        ("sizes that are texts", {"traceEvents": [small(allocators={"malloc": {
            "nodes": [2], "types": [0], "counts": [1], "sizes": ["1000"]}})]}, '"sizes" is "1000"'),
        ("negative counts", {"traceEvents": [small(allocators={"malloc": {
            "nodes": [2], "types": [0], "counts": [-1], "sizes": [1]}})]}, '"counts" is -1'),
        ("columns that differ", {"traceEvents": [small(allocators={"malloc": {
            "nodes": [2], "types": [0, 0], "counts": [1], "sizes": [1]}})]}, "1 nodes, 2 types"),
        ("no memory dump", {"traceEvents": [{"ph": "X", "name": "x", "pid": 1, "tid": 1, "ts": 1}]}, "no memory dump"),
        ("no heap", {"traceEvents": [{**small(), "args": {"dumps": {}}}]}, "no heap dump"),
        ("heaps of Chrome before version 59", {"traceEvents": [old(small())]}, "Chrome before version 59"),
        ("no events", {"other": 1}, "no list of events"),
        ("events that are no list", {"traceEvents": 5}, "traceEvents is a number"),
        ("not a number", '{"traceEvents": [{"ph": "v", "x": NaN}]}', "byte"),
        ("cut off", json.dumps({"traceEvents": [small()]})[:300], "in event 0: the file is cut off"),
        ("deep nesting", '{"traceEvents": [{"a": ' + "[" * 100000 + "]" * 100000 + "}]}", "deeper than 512"),
    ):
        outcome = tool("report", write("bad.json", document), status=1)
        message = outcome.stderr.decode()
        check(wanted in message, f"{name}: {message!r}")
        check("Traceback" not in message and "bad.json" in message, f"{name}: {message!r}")


def test_damaged():
    """Valid input before the damage counts, and the damage is reported."""
    good, more = small(), small(number=2, time=2000, sites=(("a", "b"), ("c",)))
    text = json.dumps({"traceEvents": [good, more]})
    whole = len(json.dumps({"traceEvents": [good]})) - 2
    for name, document, total, wanted in (
        ("cut off", text[: whole + 200], 4096, "the file is cut off"),
        ("garbage at the end", text + "}", 3 * 4096, "byte"),
        ("an event of another version", {"traceEvents": [good, {**more, "args": small(version=3)["args"]}]}, 4096,
         "in event 1: heaps_v2 of version 3"),
        ("heaps of Chrome before version 59", {"traceEvents": [good, old(more)]}, 4096,
         "in event 1: its heaps are in the format of Chrome before version 59"),
        ("the same heap twice", {"traceEvents": [good, good]}, 4096, "has this heap in this dump already: malloc"),
        ("a node in no map", {"traceEvents": [good, small(number=2, allocators={"malloc": {
            "nodes": [77], "types": [0], "counts": [1], "sizes": [5]}})]}, 4101, "node 77, which is in no map"),
        ("a type in no map", {"traceEvents": [good, small(number=2, allocators={"malloc": {
            "nodes": [1], "types": [9], "counts": [1], "sizes": [5]}})]}, 4101, "type 9 is in no map"),
        ("no maps", {"traceEvents": [good, small(pid=2, number=2, maps={})]}, 8192, "is in no map"),
        ("a circle", {"traceEvents": [good, small(number=2, maps={
            "strings": [], "nodes": [{"id": 1, "name_sid": 1, "parent": 2}], "types": []})]}, 8192,
         "goes in a circle"),
        ("no pid", {"traceEvents": [good, {k: v for k, v in more.items() if k != "pid"}]}, 4096, "without a pid"),
    ):
        file = write("kept.json", document)
        check(total_of(file) == total, f"{name}: {total_of(file)} B, wanted {total}")
        check(wanted in warning_of(file), f"{name}: {warning_of(file)!r}")
    packed = gzip.compress(text.encode(), mtime=0)
    file = write("kept.gz", packed[:-9])
    outcome = run([TOOL, "report", file])
    check(outcome.status == 1 or b"cut off" in outcome.stdout + outcome.stderr, "a gzip file cut off")


def test_both_formats():
    """Of an event with heaps in the old and in the new format, the new ones are read."""
    event = small()
    file = write("both.json", {"traceEvents": [old(event, **event["args"]["dumps"])]})
    check(total_of(file) == 4096, f"{total_of(file)} B")
    check(warning_of(file) in ("", "[NULL]"), warning_of(file))


def test_times():
    """Processes of one global dump keep their own times, in any order of the file."""
    events = [small(pid=pid, time=time) for pid, time in ((1, 3000), (2, 1000), (3, 2000))]
    file = write("times.json", {"traceEvents": events})
    got = {int(pid): int(ts) for pid, ts in rows(file, "select distinct p.pid, s.ts from hp_callsite_stats s join process p using (upid)")}
    check(got == {1: 3_000_000, 2: 1_000_000, 3: 2_000_000}, f"times {got}")


def test_reused():
    """Ids may have another meaning in a later dump, and in another process."""
    first, second = small(sites=(("a", "b"),)), small(number=2, time=2000, sites=(("x", "y"),))
    other = small(pid=2, sites=(("p", "q"),))
    file = write("reused.json", {"traceEvents": [first, other, second]})
    found = {key: list(sites) for key, sites in sites_of(file).items()}
    check(found == {(1000000, 1, "malloc"): [(("a", "b"), "")], (1000000, 2, "malloc"): [(("p", "q"), "")],
                    (2000000, 1, "malloc"): [(("x", "y"), "")]}, str(found))


def test_regions():
    """Addresses belong to the regions of their process and dump; `fo` is the virtual address in the file."""
    def regions(*told):
        return {"vm_regions": [{"sa": f"{start:x}", "sz": f"{size:x}", "pf": 5, "mf": file, "bs": {}, **more}
                               for start, size, file, more in told]}

    def dump(pid, number, mmaps, address):
        event = small(pid=pid, number=number, time=1000 * number, sites=(("main", f"pc:{address:x}"),))
        if mmaps:
            event["args"]["dumps"]["process_mmaps"] = mmaps
        return event

    later = {"ph": "v", "name": "periodic_interval", "id": "0x5", "pid": 5, "ts": 1,
             "args": {"dumps": {"process_mmaps": regions((0x1000, 0x1000, "/late", {}))}}}
    file = write("regions.json", {"traceEvents": [
        dump(1, 1, regions((0x1000, 0x1000, "/lib/a", {"id": "ABCDEF"}), (0x3000, 0x1000, "/lib/a", {})), 0x3011),
        dump(1, 2, regions((0x8000, 0x1000, "/lib/b", {})), 0x3011),  # unmapped since then
        dump(2, 1, regions((0x3000, 0x1000, "/exe", {"fo": "401000"})), 0x3011),
        dump(3, 1, None, 0x3011),
        dump(4, 1, regions((0x3000, 0x1000, "", {})), 0x3011),
        dump(5, 5, None, 0x1001), later,
        dump(6, 6, regions((0x1000, 0x1000, "/moved", {})), 0x1011),
        dump(6, 7, regions((0x1000, 0x1000, "/there", {})), 0x1011),
    ]})
    found = {(ts // 1000000, pid): [stack[-1] for stack, _ in sites]
             for (ts, pid, _), sites in sites_of(file).items()}
    wanted = {(1, 1): "/lib/a+2010", (2, 1): "/lib/a+2010", (1, 2): "/exe+401010", (1, 3): "+3010", (1, 4): "+3010",
              (0, 5): "/late+0", (6, 6): "/moved+10", (7, 6): "/there+10"}
    check(found == {key: [value] for key, value in wanted.items()}, f"{found}, wanted {wanted}")
    check(rows(file, "select distinct build_id from stack_profile_mapping where build_id != '' and "
                     "build_id is not null") == [["abcdef"]], "build ids are lower case")


if __name__ == "__main__":
    main()
