#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""properties.py [SEED...]: SQL, report, pprof and diff agree on any profile.

Random profiles come from a seed, which is printed: several processes, heaps, dumps, threads, types and contexts, stacks
with recursion, frames without a name, symbols with inlined calls, callstacks that a dump leaves out or names twice.
The model here gives the expected output of each tool, independently of their code. All figures are whole numbers, or
multiples of 1/8, whose sums are exact in any order: so all comparisons are for equality.
"""

import collections
import gzip
import json
import os
import random
import subprocess
import sys
import tempfile

from harness import BUILD, LONG, SANITIZED, TOOL, check, finish
from perfetto_bytes import (
    clocks, double, field, fields, heap_samples, interned, module_symbols, packet, process_tree, profile_packet, text,
)

# Sanitizers take six times as long.
SEEDS = range(40 if LONG else 5 if SANITIZED else 20)
FIGURES = 4  # a callsite's bytes allocated and freed, allocations and frees
VIEWS = ("alloc_objects", "alloc_space", "objects", "space")  # the columns of a pprof file
Frame = collections.namedtuple("Frame", "module rel_pc name lines")
Module = collections.namedtuple("Module", "path build_id start")
Part = collections.namedtuple("Part", "tid type context")
NOBODY = Part(None, "", "")
directory = tempfile.TemporaryDirectory()


def views_of(figures):
    allocated, freed, count, free_count = figures
    return count, allocated, count - free_count, allocated - freed


def added(one, other):
    return tuple(a + b for a, b in zip(one, other))


def lesser(one, other):
    return tuple(a - b for a, b in zip(one, other))


def without_zeros(figures):
    return {key: value for key, value in figures.items() if any(value)}


def rounded(value):
    return int(value + 0.5)


class Profile:
    """A random profile: its frames and stacks, and for each dump of each heap the sums since the start, by stack and part."""

    def __init__(self, seed):
        self.random = pick = random.Random(seed)
        self.seed, self.eighths = seed, pick.random() < 0.4
        self.modules = [Module(("usr", "lib", f"lib{i}.so") if i else ("bin", "program"), bytes([i + 1] * 8),
                               0x400000 * (i + 1)) for i in range(pick.randint(1, 4))]
        functions = [f"function{i}" if i % 3 else f"_Z{len(f'inner{i}')}inner{i}v" for i in range(10)] + [""]
        self.frames = []
        for number in range(pick.randint(1, 14)):
            lines = [(f"line{pick.randint(0, 5)}", f"file{pick.randint(0, 2)}.c", pick.randint(1, 99))
                     for _ in range(pick.choice((0, 0, 1, 2, 3)))]
            self.frames.append(Frame(pick.choice(self.modules), 0x1000 + number * 16, pick.choice(functions), lines))
        stacks = {tuple(pick.choices(self.frames_by_number(), k=pick.choice((1, 2, 3, 5, 12))))
                  for _ in range(pick.randint(1, 20))}
        self.stacks = sorted(stacks)  # frames' numbers, the outermost first
        self.processes = {100 + i: f"program{i}" for i in range(pick.randint(1, 3))}
        self.dump_count = pick.randint(1, 4)
        self.types, self.contexts = ["", "Node", "Edge"], ["", "load", "load;parse"]
        self.heaps = {}  # (pid, name): a dict of (stack, part) to figures, for each dump
        for pid in self.processes:
            for heap in pick.choice((["libc.malloc"], ["libc.malloc", "pool"])):
                self.heaps[pid, heap] = self.grow_heap(pid)

    def frames_by_number(self):
        return list(range(len(self.frames)))

    def grow_heap(self, pid):
        pick, now, dumps = self.random, {}, []
        parts = [NOBODY]
        if pick.random() < 0.7:
            parts = [Part(pid + i, kind, context) for i in range(pick.randint(1, 3)) for kind in self.types
                     for context in self.contexts]
        for _ in range(self.dump_count):
            for key in [(stack, part) for stack in range(len(self.stacks)) for part in parts]:
                if pick.random() < (0.2 if len(parts) > 1 else 0.6):
                    now[key] = self.grow(now.get(key, (0,) * FIGURES))
            dumps.append(dict(now))
        return dumps

    def grow(self, figures):
        allocated, freed, count, free_count = figures
        unit = 0.125 if self.eighths else 1
        # Readers treat eighths as estimates, so a relative difference of 10^-12 may be rounding.
        allocated += self.random.choice((0, 8, 100, 1 << (20 if self.eighths else 30))) * self.random.randint(0, 9) * unit
        count += self.random.randint(0, 99) * unit
        freed += self.random.choice((0, 0.5, 1)) * (allocated - freed) // unit * unit
        free_count += self.random.choice((0, 0.5, 1)) * (count - free_count) // unit * unit
        return tuple(v if self.eighths else int(v) for v in (allocated, freed, count, free_count))

    # --- names ---

    def raw_lines(self, number):
        """Return [(name, file, line)] of a frame as in the trace, the innermost first."""
        frame = self.frames[number]
        return frame.lines or [(frame.name, "", 0)]

    def lines(self, number):
        return [(plain(name), file, line) for name, file, line in self.raw_lines(number)]

    def path(self, number):
        return "/" + "/".join(self.frames[number].module.path)

    def words(self, stack):
        """Return a stack as in the report: the innermost first."""
        return tuple((name, self.path(number), self.frames[number].rel_pc, file, line)
                     for number in reversed(self.stacks[stack]) for name, file, line in self.lines(number))

    def names(self, stack, addresses):
        """Return the same by names and modules. Frames without a name are distinguished by address if both sides of a
        difference have the same build of the module."""
        return tuple((name or (f"0x{rel_pc:x}" if addresses else ""), path)
                     for name, path, rel_pc, _, _ in self.words(stack))

    # --- sums ---

    def sums(self, pid, heap, dump, key):
        """Return the views of a dump, added up by key(stack, part)."""
        found = collections.defaultdict(lambda: (0,) * len(VIEWS))
        for (stack, part), figures in self.heaps[pid, heap][dump].items():
            where = key(stack, part)
            found[where] = added(found[where], views_of(figures))
        return without_zeros(found)

    def total(self, pid, heap, dump):
        return self.sums(pid, heap, dump, lambda stack, part: "all").get("all", (0,) * len(VIEWS))


def plain(name):
    return name[name.index("inner"):-1] + "()" if name.startswith("_Z") else name


# --- the trace ---


def figures_field(number, figures):
    """Return HeapFigures, with sample counts that make it exact."""
    allocated, freed, count, free_count = figures
    return field(number, double(1, allocated) + double(2, freed) + double(3, count) + double(4, free_count))


class Writer:
    """A Profile as a trace. Callstacks have several ids each; where the format lets a writer choose, the choice is random."""

    def __init__(self, profile):
        self.profile, self.pick = profile, random.Random(profile.seed + 1000)
        self.last = {}  # (pid, heap, stack): the last figures of Perfetto's recorder, those at the start of its id, and the id

    def interned(self):
        profile = self.profile
        paths = sorted({part for module in profile.modules for part in module.path})
        names = sorted({frame.name for frame in profile.frames if frame.name})
        count = len(profile.stacks)
        body = interned(
            names={i + 1: name for i, name in enumerate(names)},
            paths={i + 1: part for i, part in enumerate(paths)},
            build_ids={i + 1: module.build_id for i, module in enumerate(profile.modules)},
            mappings=[(i + 1, i + 1, module.start, module.start + 0x100000,
                       [paths.index(part) + 1 for part in module.path]) for i, module in enumerate(profile.modules)],
            frames=[(i + 1, profile.modules.index(frame.module) + 1, frame.rel_pc,
                     names.index(frame.name) + 1 if frame.name else 0) for i, frame in enumerate(profile.frames)],
            stacks={i + 1: [number + 1 for number in profile.stacks[i % count]] for i in range((2 + profile.dump_count) * count)},
        )
        tags = b"".join(field(5000, field(1, i + 1) + text(2, name))
                        for i, name in enumerate(["Node", "Edge", "load", "parse"]))
        tags += field(5001, field(1, 1) + field(2, 3)) + field(5001, field(1, 2) + field(2, 3) + field(2, 4))
        return packet(body, timestamp=1, sequence=1, flags=1) + packet(field(12, tags), timestamp=1, sequence=1, flags=2)

    def counters(self, where, stack, second, whole):
        """Do as Perfetto's recorder: a callstack without live allocations may return under another id, and counts from zero then."""
        last, start, number = self.last.get((*where, stack), ((0,) * FIGURES, (0,) * FIGURES, int(second)))
        if last[0] == last[1] and last[2] == last[3] and any(last) and self.pick.random() < 0.7:
            start, number = last, number + 1
        self.last[(*where, stack)] = whole, start, number
        return lesser(whole, start), number

    def sample(self, where, stack, parts, second=False):
        """Return a HeapSample. parts: {Part: figures}"""
        whole = (0,) * FIGURES
        for figures in parts.values():
            whole = added(whole, figures)
        estimated = self.profile.eighths or list(parts) != [NOBODY]
        figures, number = (whole, int(second)) if estimated else self.counters(where, stack, second, whole)
        allocated, freed, count, free_count = figures
        body = field(1, stack + 1 + number * len(self.profile.stacks))
        body += field(2, rounded(allocated)) + field(3, min(rounded(freed), rounded(allocated)))
        body += field(5, rounded(count)) + field(6, min(rounded(free_count), rounded(count)))
        if estimated:
            body += figures_field(5000, whole)
        for part, figures in parts.items():
            if part == NOBODY:
                continue
            entry = field(1, part.tid) + field(3, self.profile.types.index(part.type))
            entry += field(4, self.profile.contexts.index(part.context))
            alone = len(parts) == 1 and self.pick.random() < 0.5
            body += field(5005, entry if alone else entry + figures_field(2, figures))
        return body

    def samples(self, where, now, before):
        """Return the samples of a dump: unchanged ones are mostly left out, and some are split in two."""
        stacks = collections.defaultdict(dict)
        for (stack, part), figures in now.items():
            stacks[stack][part] = figures
        for stack, parts in stacks.items():
            rests = all(before.get((stack, part)) == figures for part, figures in parts.items())
            if rests and self.pick.random() < 0.7:
                continue
            if len(parts) > 1 and self.pick.random() < 0.3:
                first = dict(list(parts.items())[:1])
                yield self.sample(where, stack, first)
                yield self.sample(where, stack, {k: v for k, v in parts.items() if k not in first}, second=True)
            else:
                yield self.sample(where, stack, parts, second=self.pick.random() < 0.3)

    def write(self, name):
        profile, index = self.profile, 0
        threads = [(pid + i, pid, f"worker{i}") for pid in profile.processes for i in range(1, 3)]
        packets = [clocks(1000, 1100), self.interned()]
        packets.append(process_tree([(pid, 1, ["/bin/" + program]) for pid, program in profile.processes.items()],
                                    threads))
        for module in profile.modules:
            lines = {frame.rel_pc: frame.lines for frame in profile.frames if frame.module == module and frame.lines}
            packets.insert(self.pick.randint(1, len(packets)),
                           module_symbols("/" + "/".join(module.path), module.build_id, lines))
        for dump in range(profile.dump_count):
            bodies = []
            for (pid, heap), dumps in profile.heaps.items():
                samples = list(self.samples((pid, heap), dumps[dump], dumps[dump - 1] if dump else {}))
                cut = self.pick.randint(0, len(samples))
                for chunk in (samples[:cut], samples[cut:]):
                    bodies.append(heap_samples(pid, chunk, 1000 * (dump + 2), heap, field(12, 1)))
            while bodies:
                taken = [bodies.pop(0) for _ in range(self.pick.randint(1, len(bodies)))]
                packets.append(packet(profile_packet(taken, index, continued=bool(bodies)), timestamp=9, sequence=1))
                index += 1
        path = os.path.join(directory.name, name)
        with open(path, "wb") as out:
            out.write(b"".join(packets))
        return path


# --- output of the tools ---


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
    if done.returncode != 0:
        check(False, f"{command}: {done.returncode}: {done.stderr}")
        finish()
    return done.stdout


def report(trace, *options):
    return json.loads(run(TOOL, "report", trace, "--json", *options))["heaps"]


def diff(before, after, *options):
    return json.loads(run(TOOL, "diff", "--json", "--top", "0", before, after, *options))["heaps"]


def query(trace, sql):
    return [tuple(json.loads(line).values()) for line in run(TOOL, "query", trace, sql, "--jsonl").splitlines()]


def told_words(site):
    return tuple((f["name"], f["mapping"], f["rel_pc"], f.get("file", ""), f.get("line", 0)) for f in site["frames"])


def told_views(site, key="estimate"):
    return tuple(site[view][key] for view in VIEWS)


def same(got, wanted, what):
    if got != wanted and isinstance(got, dict):
        wrong = [k for k in {*got, *wanted} if got.get(k) != wanted.get(k)][:3]
        got, wanted = {k: got.get(k) for k in wrong}, {k: wanted.get(k) for k in wrong}
    check(got == wanted, f"{what}\n  gave   {got}\n  wanted {wanted}")


def hold_report(profile, trace):
    for dump in range(profile.dump_count):
        heaps = report(trace, "--dump", str(dump + 1))
        same(len(heaps), len(profile.heaps), "heaps of the report")
        for heap in heaps:
            where = heap["pid"], heap["heap"], dump
            got = without_zeros({told_words(site): told_views(site) for site in heap["callsites"]})
            same(got, profile.sums(*where, lambda stack, part: profile.words(stack)), f"report, {where}")
            same(told_views(heap["total"]), profile.total(*where), f"report, total of {where}")


def read_pprof(path):
    """Return {(frames, the innermost first, labels): values} of a pprof file."""
    with open(path, "rb") as file:
        data = file.read()
    message = collections.defaultdict(list)
    for number, value in fields(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data):
        message[number].append(value)
    strings = [value.decode() for value in message[6]]

    def entries(number):
        return [dict(fields(value)) for value in message[number]]

    paths = {entry[1]: strings[entry.get(5, 0)] for entry in entries(3)}
    functions = {entry[1]: (strings[entry.get(2, 0)], strings[entry.get(4, 0)]) for entry in entries(5)}
    locations = {}
    for entry in entries(4):
        line = dict(fields(entry[4]))
        name, file = functions[line[1]]
        locations[entry[1]] = name, paths[entry[2]], entry.get(3, 0), file, line.get(2, 0)
    found = collections.defaultdict(lambda: (0,) * len(VIEWS))
    for sample in message[2]:
        frames, values, labels = [], [], {}
        for number, value in fields(sample):
            if number == 1:
                frames += [locations[i] for i in ([value] if isinstance(value, int) else varints(value))]
            elif number == 2:
                values.append(value - (1 << 64) if value >> 63 else value)
            elif number == 3:
                label = dict(fields(value))
                labels[strings[label[1]]] = strings[label[2]] if label.get(2) else label.get(3, 0)
        key = tuple(frames), Part(labels.get("tid"), labels.get("type", ""), labels.get("context", ""))
        found[key] = added(found[key], values)
    return without_zeros(found)


def varints(data):
    value = shift = 0
    for byte in data:
        value, shift = value | (byte & 0x7F) << shift, shift + 7
        if byte < 0x80:
            yield value
            value = shift = 0


def pprof_words(profile, stack):
    """Return a stack as in a pprof file, where every frame has a name."""
    modules = {"/" + "/".join(module.path): module for module in profile.modules}
    return tuple((name or f"0x{rel_pc:x} @ {path.rsplit('/', 1)[1]}", path, rel_pc + modules[path].start, file, line)
                 for name, path, rel_pc, file, line in profile.words(stack))


def hold_pprof(profile, trace):
    made = os.path.join(directory.name, f"pprof-{profile.seed}")
    run(os.path.join(BUILD, "traceconv"), "profile", "-o", made, "--gzip", trace)
    files = os.listdir(made)
    same(len(files), len(profile.heaps) * profile.dump_count, "pprof files")
    for (pid, heap), dumps in profile.heaps.items():
        for dump in range(len(dumps)):
            where = pid, heap, dump
            path = os.path.join(made, f"{profile.processes[pid]}.{pid}.{heap}.{dump + 1}.pb.gz")
            got, columns = read_pprof(path), (0,) * len(VIEWS)
            for values in got.values():
                columns = added(columns, values)
            same(columns, tuple(map(rounded, profile.total(*where))), f"pprof, columns of {where}")
            wanted = profile.sums(*where, lambda stack, part: (pprof_words(profile, stack), part))
            if not profile.eighths:
                same(got, wanted, f"pprof, {where}")
            for key in {*got, *wanted}:
                off = lesser(got.get(key, (0,) * len(VIEWS)), wanted.get(key, (0,) * len(VIEWS)))
                check(all(abs(value) < 1 for value in off), f"pprof, {where}, {key}: off by {off}")
            (again,) = report(path)
            same(told_views(again["total"]), columns, f"report of the pprof file of {where}")


# --- SQL ---


def sql_stacks(profile, trace):
    """Return {callsite id: number of the stack}, from the tables' frames."""
    sites = {row[0]: row[1:] for row in query(trace, "select c.id, c.parent_id, m.name, f.rel_pc from stack_profile_callsite c "
                                              "join stack_profile_frame f on c.frame_id = f.id "
                                              "join stack_profile_mapping m on f.mapping = m.id")}
    known = {tuple((profile.path(number), profile.frames[number].rel_pc) for number in stack): i
             for i, stack in enumerate(profile.stacks)}
    found = {}
    for site in sites:
        frames, at = [], site
        while at is not None:
            parent, module, rel_pc = sites[at]
            frames.append((module, rel_pc))
            at = parent
        found[site] = known.get(tuple(reversed(frames)))
    return found


def hold_allocations(profile, trace, stacks):
    """Check the sums of heap_profile_allocation up to each dump, rounded per callsite."""
    rows = query(trace, "select ts, pid, heap_name, callsite_id, count, size from heap_profile_allocation "
                        "join process using (upid)")
    times = [row[0] for row in query(trace, "select distinct ts_end from heap_profile order by 1")]
    same(len(times), profile.dump_count, "dumps of SQL")
    for pid, heap in profile.heaps:
        for dump, time in enumerate(times):
            got = collections.defaultdict(lambda: (0,) * FIGURES)
            for ts, row_pid, row_heap, site, count, size in rows:
                if ts > time or (row_pid, row_heap) != (pid, heap):
                    continue
                gone = size < 0 or count < 0
                more = (0, -size, 0, -count) if gone else (size, 0, count, 0)
                got[stacks[site]] = added(got[stacks[site]], more)
            whole = collections.defaultdict(lambda: (0,) * FIGURES)
            for (stack, _), figures in profile.heaps[pid, heap][dump].items():
                whole[stack] = added(whole[stack], figures)
            wanted = {stack: tuple(map(rounded, figures)) for stack, figures in whole.items()}
            same(without_zeros(got), without_zeros(wanted), f"heap_profile_allocation, {pid} {heap} {dump}")


def hold_own_tables(profile, trace, stacks):
    """Callsites that a dump leaves out keep their figures."""
    dumps = query(trace, "select p.id, pid, heap_name from heap_profile p join process using (upid) order by 1")
    totals = dict((row[0], row[1:]) for row in query(
        trace, "select dump_id, alloc_count, alloc_size, live_count, live_size from hp_total"))
    by_site, by_part, seen = {}, {}, collections.Counter()
    for dump_id, pid, heap in dumps:
        where = pid, heap, seen[pid, heap]
        seen[pid, heap] += 1
        same(totals[dump_id], profile.total(*where), f"hp_total, {where}")
        sites, parts = by_site.setdefault((pid, heap), {}), by_part.setdefault((pid, heap), {})
        for site, *values in query(trace, "select callsite_id, alloc_count, alloc_size, live_count, live_size from "
                                   f"hp_callsite_stats where dump_id = {dump_id}"):
            sites[stacks[site]] = tuple(values)
        same(without_zeros(sites), profile.sums(*where, lambda stack, part: stack), f"hp_callsite_stats, {where}")
        for site, tid, kind, context, *values in query(
                trace, "select callsite_id, tid, type_name, context, alloc_count, alloc_size, live_count, live_size "
                f"from hp_part where dump_id = {dump_id}"):
            parts[stacks[site], Part(tid, kind or "", context or "")] = tuple(values)
        wanted = profile.sums(*where, lambda stack, part: (stack, part))
        same(without_zeros(parts), {k: v for k, v in wanted.items() if k[1] != NOBODY}, f"hp_part, {where}")


def node_sums(profile, heaps, dump, lines):
    """Return {path of nodes, the outermost first: [own, with callees]} of (bytes, allocations live, bytes, allocations
    ever), rounded per callsite."""
    found = {}
    sampled = {stack for dumps in profile.heaps.values() for stack, _ in dumps[-1]}
    for stack in sorted(sampled):
        figures = (0,) * FIGURES
        for heap in heaps:
            whole = (0,) * FIGURES
            for (other, _), more in profile.heaps[heap][dump].items():
                whole = added(whole, more) if other == stack else whole
            figures = added(figures, map(rounded, whole))
        allocated, freed, count, free_count = figures
        values = allocated - freed, count - free_count, allocated, count
        path = tuple(line for number in profile.stacks[stack] for line in reversed(lines(number)))
        for length in range(1, len(path) + 1):
            own, all_below = found.setdefault(path[:length], [(0,) * 4, (0,) * 4])
            found[path[:length]] = [added(own, values) if length == len(path) else own, added(all_below, values)]
    return found


def told_paths(rows):
    """Return {path: sums of the nodes of that path}. rows: id, parent, name, own, with callees"""
    nodes = {row[0]: row for row in rows}
    found = {}
    for at, _, _, *sums in rows:
        path = []
        while at is not None:
            path.append(nodes[at][2])
            at = nodes[at][1]
        known = found.setdefault(tuple(reversed(path)), [(0,) * len(one) for one in sums])
        found[tuple(reversed(path))] = [added(one, other) for one, other in zip(known, sums)]
    return found


def hold_trees(profile, trace):
    times = [row[0] for row in query(trace, "select distinct ts_end from heap_profile order by 1")]
    for pid in profile.processes:
        heaps = [heap for heap in profile.heaps if heap[0] == pid]
        for dump, time in enumerate(times):
            rows = query(trace, "select id, parent_id, name, map_name, size, count, alloc_size, alloc_count, "
                         "cumulative_size, cumulative_count, cumulative_alloc_size, cumulative_alloc_count from "
                         f"experimental_flamegraph({time}, (select upid from process where pid = {pid}), 'native')")
            got = told_paths([(r[0], r[1], (r[2] or "", r[3]), r[4:8], r[8:]) for r in rows])
            wanted = node_sums(profile, heaps, dump, lambda number: [
                (name, profile.path(number)) for name, _, _ in profile.raw_lines(number)])
            # A callsite without a row of heap_profile_allocation has no node.
            rows_of_it = any(any(one) for sums in wanted.values() for one in sums)
            same(got, wanted if rows_of_it else {}, f"experimental_flamegraph, {pid}, {dump}")
    rows = query(trace, "include perfetto module android.memory.heap_profile.summary_tree; select id, parent_id, name, "
                 "mapping_name, source_file, line_number, self_size, self_alloc_size, cumulative_size, "
                 "cumulative_alloc_size from android_heap_profile_summary_tree")
    got = told_paths([(r[0], r[1], ("" if r[2] == "unknown" else r[2], r[3], r[4] or "", r[5] or 0), r[6:8], r[8:])
                      for r in rows])
    wanted = node_sums(profile, profile.heaps, profile.dump_count - 1, lambda number: [
        (name, profile.path(number), file, line) for name, file, line in profile.lines(number)])
    # The innermost of a callsite's lines has its own bytes.
    for path, sums in wanted.items():
        sums[:] = [(one[0], one[2]) for one in sums]
    same(without_zeros({k: v[0] + v[1] for k, v in got.items()}),
         without_zeros({k: v[0] + v[1] for k, v in wanted.items()}), "android_heap_profile_summary_tree")


# --- differences ---


def change_of(row):
    check(all(row[view]["after"] - row[view]["before"] == row[view]["change"] for view in VIEWS), f"change: {row}")
    return told_views(row, "change")


def hold_change(heap, wanted, total, what, addresses=True):
    """The rows of each view, which is ranked by itself, are the difference and add up to its total."""
    same(change_of(heap["total"]), total, f"{what}: total")
    got = {}
    for row in heap["rows"]:
        words = tuple((f["name"] or (f"0x{f['rel_pc']:x}" if addresses else ""), f["mapping"]) for f in row["frames"])
        check(words not in got, f"{what}: twice: {words}")
        got[words] = change_of(row)
    same(got, wanted, what)


def changed(profile, pid, heap, before, after, view):
    """Return {names of the stack: change} where the view differs. before: None for an empty profile"""
    nothing = (0,) * len(VIEWS)
    addresses = before is not None
    sums = [profile.sums(pid, heap, dump, lambda stack, part: profile.names(stack, addresses))
            if dump is not None else {} for dump in (before, after)]
    every = {key: lesser(sums[1].get(key, nothing), sums[0].get(key, nothing)) for key in {*sums[0], *sums[1]}}
    return {key: change for key, change in every.items() if change[VIEWS.index(view)]}


def hold_diff(profile, trace):
    pairs = [(a, b) for a in range(profile.dump_count) for b in range(profile.dump_count)]
    for before, after in profile.random.sample(pairs, min(3, len(pairs))) + [(0, 0)]:
        view = profile.random.choice(VIEWS)
        heaps = diff(f"{trace}@{before + 1}", f"{trace}@{after + 1}", "--view", view)
        same(len(heaps), len(profile.heaps), "heaps of the diff")
        for heap in heaps:
            pid, name = heap["after"][0]["pid"], heap["after"][0]["heap"]
            total = lesser(profile.total(pid, name, after), profile.total(pid, name, before))
            hold_change(heap, changed(profile, pid, name, before, after, view), total,
                        f"diff, {pid} {name}, {before} {after}, {view}")
            check(before != after or heap["rows_in_all"] == 0, f"diff of {before} with itself: {heap['rows']}")
        for by in ("thread", "type", "context"):
            for heap in diff(f"{trace}@{before + 1}", f"{trace}@{after + 1}", "--view", view, "--by", by):
                whole = sum(row[view]["change"] for row in heap["rows"])
                same(whole, heap["total"][view]["change"], f"diff --by {by}, {before} {after}, {view}")


def hold_diff_with_nothing(profile, trace, nothing):
    """Every callsite with live memory has grown, or shrunk, from an empty profile."""
    last = profile.dump_count - 1
    for pid, heap in profile.heaps:
        options = ("--pid", f"1,{pid}", "--heap", heap, "--view", "space")
        (pair,) = diff(nothing, trace, *options)
        hold_change(pair, changed(profile, pid, heap, None, last, "space"), profile.total(pid, heap, last),
                    f"diff with nothing, {pid} {heap}", addresses=False)
        (pair,) = diff(trace, nothing, "--pid", f"{pid},1", *options[2:])
        shrunk = {key: lesser((0,) * len(VIEWS), value)
                  for key, value in changed(profile, pid, heap, None, last, "space").items()}
        hold_change(pair, shrunk, lesser((0,) * len(VIEWS), profile.total(pid, heap, last)),
                    f"diff to nothing, {pid} {heap}", addresses=False)
        path = os.path.join(directory.name, "difference.pb")
        run(TOOL, "diff", nothing, trace, *options, "--pprof", path)
        columns = (0,) * len(VIEWS)
        for values in read_pprof(path).values():
            columns = added(columns, values)
        same(columns, tuple(map(rounded, profile.total(pid, heap, last))), f"pprof of a difference, {pid} {heap}")


def empty_trace(heaps):
    bodies = [heap_samples(1, [], 2000, heap, field(12, 1) + field(5, field(2, 1))) for heap in heaps]
    path = os.path.join(directory.name, "nothing")
    with open(path, "wb") as out:
        out.write(clocks(1000, 1100) + process_tree([(1, 0, ["/bin/nothing"])])
                  + packet(profile_packet(bodies, 0), timestamp=9, sequence=1))
    return path


def hold_exported(profile, trace):
    """An exported database has the same content as the trace."""
    path = os.path.join(directory.name, f"exported-{profile.seed}")
    run(TOOL, "query", trace, "--export", path)
    stacks = sql_stacks(profile, path)
    hold_allocations(profile, path, stacks)
    hold_own_tables(profile, path, stacks)
    hold_trees(profile, path)


def hold(seed):
    profile = Profile(seed)
    trace = Writer(profile).write(f"trace-{seed}")
    print(f"seed {seed}: {len(profile.heaps)} heaps, {profile.dump_count} dumps, {len(profile.stacks)} stacks, "
          f"{sum(len(d[-1]) for d in profile.heaps.values())} figures{', eighths' if profile.eighths else ''}", flush=True)
    stacks = sql_stacks(profile, trace)
    hold_report(profile, trace)
    hold_pprof(profile, trace)
    hold_allocations(profile, trace, stacks)
    hold_own_tables(profile, trace, stacks)
    hold_trees(profile, trace)
    if seed % 4 == 0:
        hold_exported(profile, trace)
    hold_diff(profile, trace)
    hold_diff_with_nothing(profile, trace, empty_trace(["libc.malloc", "pool"]))


if __name__ == "__main__":
    for number in [int(word) for word in sys.argv[1:]] or SEEDS:
        hold(number)
    finish()
