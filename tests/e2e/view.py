#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The server of `heap_profile view`: its answers on recordings of real programs, against what report, diff and
query print of them, and what it refuses. tests/view/ has the page itself.

    view.py CASE      HEAPPROFD_BUILD names the build directory
"""

import array
import contextlib
import http.client
import json
import math
import os
import re
import signal
import socket
import struct
import subprocess
import threading
import time
import urllib.parse

from harness import BUILD, LONG, SLOWNESS, TIMEOUT, TOOL, check, main, make_work_directory, need_saved_pages, own_network, run, sentences_of, skip
from saved_page import SavedPage

TRACECONV = os.path.join(BUILD, "traceconv")
WORK = make_work_directory("view-")
ENVIRONMENT = {"TMPDIR": WORK, "DEBUGINFOD_URLS": "", "HOME": WORK, "HEAPPROFD_RUN_DIR": f"{WORK}/run", "SUDO_UID": "",
               "DISPLAY": "", "WAYLAND_DISPLAY": ""}
TYPES = {"f64": "d", "f32": "f", "u32": "I"}
ROOT = 0xffffffff
ONE_HEAP = ("--heaps", "libc.malloc")  # without Python's own
SCRIPT = ("import json, sys; kept = [json.loads('{\"a\": [1, 2, 3]}') for _ in range(3000)]; sys.stdout.write(str(len(kept)))")

LIFETIMES = ("none", 0, 1, 10, 100, 1000, 10000, 60000, 600000, 3600000)
# Three threads, which allocate side by side for a third of a second.
THREADS = """
import threading, time
kept = []
def work(size):
    for i in range(30):
        kept.append([bytearray(size) for _ in range(50)])
        [bytearray(size // 2) for _ in range(50)]
        time.sleep(0.01)
threads = [threading.Thread(target=work, args=(300 * 2 ** i,), name=f"worker-{i}") for i in range(3)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
"""


def at(name):
    return os.path.join(WORK, name)


def call(*command):
    return run(list(command), env=ENVIRONMENT, timeout=60 * SLOWNESS)


def record(name, *command, heaps=()):
    outcome = call(TOOL, "host", "-q", "-o", at(name), "-i", "512", *heaps, "--", *command)
    check(outcome.status == 0, f"host: {outcome.stderr!r}")
    return at(name)


class Page:
    """The page at the address that heap_profile prints."""

    def __init__(self, stream):
        self.line = stream.readline()
        found = re.search(r"http://([^/]+)/([0-9a-f]{32})/", self.line)
        check(found, f"the first line has no address: {self.line!r}")
        self.host, self.token = found.groups() if found else ("", "")

    def ask(self, page, method="GET", body=None, headers=(), token=None):
        """Return the status, the headers and the body."""
        connection = http.client.HTTPConnection(self.host, timeout=30 * SLOWNESS)
        connection.request(method, f"/{token or self.token}/{page}", body, dict(headers))
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        return answer.status, answer.headers, content

    def json(self, page, **options):
        status, _, content = self.ask(page, **options)
        check(status == 200, f"{page}: {status} {content[:200]!r}")
        return json.loads(content)

    def tree(self, **question):
        """Return a flame graph: its header, and its nodes as dictionaries."""
        status, _, content = self.ask("api/tree?" + urllib.parse.urlencode(question, doseq=True))
        check(status == 200, f"{question}: {status} {content[:200]!r}")
        length = struct.unpack_from("<I", content)[0]
        header, offset = json.loads(content[4:4 + length]), 4 + length
        columns = {}
        for column in header["columns"]:
            values = array.array(TYPES[column["type"]])
            values.frombytes(content[offset:offset + values.itemsize * header["nodes"]])
            offset += (values.itemsize * header["nodes"] + 7) // 8 * 8
            columns[column["name"]] = values
        check(offset == len(content), f"{question}: {len(content)} bytes, {offset} expected")
        return header, [dict(zip(columns, row)) for row in zip(*columns.values())]


class Server(Page):
    """heap_profile view on some profiles."""

    def __init__(self, *arguments, before=None):
        self.process = subprocess.Popen([TOOL, "view", "--no-browser", *arguments], env=dict(os.environ, **ENVIRONMENT),
                                        stdout=subprocess.PIPE, text=True, preexec_fn=before)
        super().__init__(self.process.stdout)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(30 * SLOWNESS)
        check(status == 0, f"view ended with {status}")


def is_near(one, other):
    return abs(one - other) <= 1e-6 * max(abs(one), abs(other), 1)


def sum_of(reported, view):
    """Return the sum over the rows of a report. What a whole heap allocated is counted instead."""
    return sum(site[view]["estimate"] for site in reported["callsites"])


def same_figure(figure, reported, what):
    for ours, theirs in (("value", "estimate"), ("low", "low95"), ("high", "high95")):
        check(is_near(figure[ours], reported[theirs]), f"{what}: {ours} {figure[ours]}, report has {reported[theirs]}")


def stacks_of(heap, view):
    """Return the bytes or counts of each stack of a report, outermost function first."""
    stacks = {}
    for site in heap["callsites"]:
        names = tuple(frame["linkage_name"] or f"{frame['rel_pc']:#x}" for frame in reversed(site["frames"]))
        stacks[names] = stacks.get(names, 0) + site[view]["estimate"]
    return stacks


def test_answers():
    """Every figure of the page is the one that report prints."""
    profile = record("python", "/usr/bin/python3", "-c", SCRIPT)
    report = json.loads(call(TOOL, "report", "--json", profile).stdout)
    with Server(profile) as server:
        overview = server.json("api/overview")
        heaps = overview["profiles"][0]["heaps"]
        check(len(heaps) == len(report["heaps"]), f"{len(heaps)} heaps, report has {len(report['heaps'])}")
        views = [view["name"] for view in overview["views"]]
        check(views == ["space", "objects", "alloc_space", "alloc_objects", "max"], f"views: {views}")
        for heap, reported in zip(heaps, report["heaps"]):
            last = heap["dumps"][-1]
            check(heap["name"] == reported["heap"], f"{heap['name']}, report has {reported['heap']}")
            check(last["exact_bytes"] == reported["exact_bytes"], "exact bytes differ")
            for view in views[:4]:
                same_figure(last[view], reported["total"][view], view)
                header, nodes = server.tree(heap=heap["id"], view=view)
                unit = "count" if header["counts"] else "bytes"
                check(is_near(nodes[0][unit], sum_of(reported, view)), f"{view}: the graph's root differs")
                same_figure(header["whole"][unit], reported["total"][view], f"{view}: the graph's whole")
                wanted = stacks_of(reported, view)
                found = sum(node["self_" + unit] for node in nodes)
                check(is_near(found, sum(wanted.values())), f"{view}: {found} in stacks, {sum(wanted.values())} expected")
                for direction in ("up", "down"):
                    _, nodes = server.tree(heap=heap["id"], view=view, direction=direction)
                    below = [0.0] * len(nodes)
                    for node in nodes[1:]:
                        below[node["parent"]] += node["width"]
                    for node, width in zip(nodes, below):
                        check(width <= node["width"] * (1 + 1e-9), f"{view}: children are wider than their parent")
    largest = max(report["heaps"], key=lambda heap: heap["total"]["max"]["estimate"])
    opening = next(heap for heap in heaps if heap["id"] == overview["opening"]["heap"])
    check(opening["name"] == largest["heap"], f"opens on {overview['opening']}")


def test_opening():
    """The page opens on what report says first: the peak of a program that had freed nearly all at its end."""
    text = at("many.xml")
    with open(text, "w", encoding="ascii") as out:
        out.write("<all>" + "".join(f"<one number='{i}'>text {i}</one>" for i in range(20000)) + "</all>")
    freed = record("freed", "xmllint", "--noout", text)
    held = record("held", "xz", "-9", "-k", "-c", text)
    for profile, view, sentence in (freed, "max", b"The peak was"), (held, "space", b" was never freed"):
        first = next(line for line in call(TOOL, "report", profile).stdout.splitlines() if line.startswith(b"  "))
        check(sentence in first, f"{view}: the report begins with {first!r}")
        with Server(profile) as server:
            overview = server.json("api/overview")
            (heap,) = overview["profiles"][0]["heaps"]
            last = heap["dumps"][-1]
            check(overview["opening"] == {"heap": heap["id"], "dump": len(heap["dumps"]) - 1, "view": view}, f"opens on {overview['opening']}")
            check(heap["first_view"] == view, f"the heap opens on {heap['first_view']}")
            check(heap["start"] <= heap["peak_time"] <= last["time"], f"the peak is at {heap['peak_time']}, of {heap['start']} to {last['time']}")
            header, nodes = server.tree(heap=heap["id"], view=view)
            check(header["whole"]["bytes"] == last[view], f"{view}: the first graph has {header['whole']['bytes']} of {last[view]}")
            check(nodes[0]["bytes"] > 0, f"{view}: the first graph is empty")
    half = at("half.xml")
    with open(half, "w", encoding="ascii") as out:
        out.write("<all>" + "".join(f"<one number='{i}'>text {i}</one>" for i in range(10000)) + "</all>")
    less = record("less", "xmllint", "--noout", half)
    for profiles, view in ((less, freed), "max"), ((freed, held), "space"):
        with Server(*profiles) as server:
            overview = server.json("api/overview")
            heaps = [profile["heaps"][0] for profile in overview["profiles"]]
            last = [len(heap["dumps"]) - 1 for heap in heaps]
            wanted = {"heap": heaps[1]["id"], "dump": last[1], "view": view, "base": f"{heaps[0]['id']}.{last[0]}"}
            check(overview["opening"] == wanted, f"two profiles open on {overview['opening']}")
            table = server.json(f"api/table?heap={heaps[1]['id']}&base={wanted['base']}&view={view}&by=holder&order=bytes&sort=down&limit=5")
            before, after = (heap["dumps"][-1][view]["value"] for heap in heaps)
            check(is_near(table["bytes"]["value"], after - before), f"{view}: the change is {table['bytes']}, of {before} to {after}")
            check(table["row"][0]["bytes"]["value"] > 0, f"{view}: what grew most is {table['row'][0]}")


def test_tables():
    """Functions, holders, modules and threads add up, and callers and callees of a function have its total."""
    profile = record("sqlite3", "sqlite3", ":memory:", "create table t(x); insert into t select randomblob(200) from "
                     "(with recursive c(n) as (select 1 union all select n+1 from c where n<3000) select n from c);")
    with Server(profile) as server:
        for view in ("alloc_space", "alloc_objects"):
            unit = "count" if view == "alloc_objects" else "bytes"
            question = f"heap=0.0&view={view}&limit=20000"
            functions = server.json(f"api/table?{question}&by=function")
            header, _ = server.tree(heap="0.0", view=view)
            all_rows = header["total"][1 if unit == "count" else 0]
            (reported,) = [heap for heap in json.loads(call(TOOL, "report", "--json", profile).stdout)["heaps"] if heap["heap"] == "libc.malloc"]
            same_figure(functions[unit], reported["total"][view], f"{view}: the table's whole")
            for by in ("holder", "thread", "type", "context"):
                table = server.json(f"api/table?{question}&by={by}")
                total = sum(row[unit]["value"] for row in table["row"])
                check(is_near(total, all_rows), f"by {by}: rows have {total} of {all_rows}")
            own = sum(row["self_" + unit]["value"] for row in functions["row"])
            check(is_near(own, all_rows), f"functions have {own} of {all_rows}")
            for row in functions["row"][:20]:
                for direction in ("callers", "callees"):
                    _, nodes = server.tree(heap="0.0", view=view, direction=direction, function=row["function"])
                    check(is_near(nodes[0][unit], row[unit]["value"]), f"{direction} of {row['key']} differ from the table")
        one = server.json("api/table?heap=0.0&view=alloc_space&by=function&limit=1&offset=1")
        check(len(one["row"]) == 1 and one["rows"] == functions["rows"], "a page of the table has one row")
        found = server.json("api/table?heap=0.0&view=alloc_space&by=function&search=SQLITE3MALLOC")["row"]
        check(all("sqlite3malloc" in row["key"].lower() or "sqlite3malloc" in row["module"].lower() for row in found),
              f"the search found {[row['key'] for row in found][:5]}")


def rows_of(server, by, **question):
    return server.json("api/table?" + urllib.parse.urlencode({"by": by, "limit": 20000, **question}, doseq=True))["row"]


def net(node, unit):
    return node[unit] - node.get("lost_" + unit, 0)


def test_parts():
    """only= keeps what a row of a table has, in graphs, tables and files; what a file cannot tell is refused."""
    made = at("made.collapsed")
    with open(made, "w", encoding="utf-8") as file:
        file.write("main;run;leaf 7000\nmain;other 500\n")
    call(TOOL, "host", "-q", "-c", "100", "-o", at("threads"), "-i", "256", "--", "/usr/bin/python3", "-c", THREADS)
    with Server(at("threads"), at("threads"), made) as server:
        for view, unit in (("alloc_space", "bytes"), ("alloc_objects", "count"), ("space", "bytes")):
            for by in ("thread", "module", "function", "holder", "file", "type", "context"):
                for row in rows_of(server, by, heap="0.0", view=view)[:4]:
                    header, nodes = server.tree(heap="0.0", view=view, only=f"{by}:{row['part']}")
                    check(is_near(nodes[0][unit], row[unit]["value"]), f"{view}: {by} {row['part']}: {nodes[0][unit]}, row {row[unit]}")
                    check("whole" not in header, "a part has the limits of the whole heap")
        threads = rows_of(server, "thread", heap="0.0", view="alloc_space")
        check(len(threads) >= 3, f"{len(threads)} threads")
        for row in threads:
            part = f"thread:{row['tid']}"
            holders = rows_of(server, "holder", heap="0.0", view="alloc_space", only=part)
            check(is_near(sum(one["bytes"]["value"] for one in holders), row["bytes"]["value"]), f"{part}: its holders differ")
            one = rows_of(server, "thread", heap="0.0", view="alloc_space", only=part)
            check([(each["tid"], each["bytes"]) for each in one] == [(row["tid"], row["bytes"])], f"{part} has {one}")
            both = server.tree(heap="0.0", view="alloc_space", only=[part, f"holder:{holders[0]['part']}"])[1][0]
            check(is_near(both["bytes"], holders[0]["bytes"]["value"]), f"{part} and a holder: {both}")
            status, _, text = server.ask(f"api/export?heap=0.0&view=alloc_space&format=collapsed&only={part}")
            inside = sum(int(line.rsplit(b" ", 1)[1]) for line in text.splitlines())
            check(status == 200 and abs(inside - row["bytes"]["value"]) <= 1, f"{part}: {inside} in the file")
            _, _, text = server.ask(f"api/export?heap=0.0&format=speedscope&only={part}")
            names = [profile["name"] for profile in json.loads(text)["profiles"]]
            has_peak = (server.ask(f"api/tree?heap=0.0&view=max&only={part}")[0] == 200 and
                        server.tree(heap="0.0", view="max", only=part)[1][0]["bytes"] >= 1)
            check(names and any("(max)" in name for name in names) == has_peak, f"{part}: its file has other views than the page: {names}")
        for base in ("0", "1.0.0"):
            question = {"heap": "0.0", "base": base, "view": "alloc_space"}
            whole = net(server.tree(**question)[1][0], "bytes")
            parts = [net(server.tree(**question, only=f"thread:{row['tid']}")[1][0], "bytes") for row in threads]
            check(whole > 0 and is_near(sum(parts), whole), f"since dump {base}: threads changed by {parts} of {whole}")
        whole = server.tree(heap="0.0", view="alloc_space")[1][0]["bytes"]
        for dimension, values in (("size", [0] + [2 ** i for i in range(24)]), ("lifetime", LIFETIMES)):
            parts = [server.tree(heap="0.0", view="alloc_space", only=f"{dimension}:{value}")[1][0] for value in values]
            check(is_near(sum(part["bytes"] for part in parts), whole), f"{dimension}: the classes add up to another sum than {whole}")
            if dimension == "size":
                means = [(value, part["bytes"] / part["count"]) for value, part in zip(values, parts) if part["count"]]
                check(all(value <= mean < max(2 * value, 1) for value, mean in means), f"means are of other classes: {means}")
        header, nodes = server.tree(heap="2.0", view="alloc_space", only="function:run@")
        check(nodes[0]["bytes"] == 7000, f"a made file: {nodes[0]}")
        for heap, part, words in (("0.0", "type:x", "no allocation of this heap has a type"), ("2.0", "thread:7", "does not contain threads"),
                                  ("0.0", "function:no@where", "there is no function"), ("0.0", "thread:x", "no tid"),
                                  ("0.0", "size:3", "no such class"), ("0.0", "colour:red", "no dimension"), ("0.0", "module:/no", "no function"),
                                  ("2.0", "lifetime:10", "lifetimes"), ("0.0", ["thread:1"] * 9, "more than 8")):
            question = urllib.parse.urlencode({"heap": heap, "only": part, "view": "alloc_space"}, doseq=True)
            status, _, content = server.ask("api/tree?" + question)
            check(status in (400, 404) and words in json.loads(content)["error"], f"{part}: {status} {content[:200]!r}")


def rank(figure):
    """Return a figure to 40 of its 53 bits, as rows are ordered by it: a sum does not hang on the order of its parts."""
    fraction, exponent = math.frexp(figure)
    return math.ldexp(round(math.ldexp(fraction, 40)), exponent - 40)


def class_of(mean, limits):
    """Return the name of the class of a mean in a histogram: the highest of the limits that it reaches."""
    return max((limit for limit in limits if mean >= limit), default=None)


def test_histograms():
    """Sizes and lifetimes are those of query's stacks; changes by thread are those of diff; rows come in any order."""
    call(TOOL, "host", "-q", "-c", "100", "-o", at("histograms"), "-i", "256", *ONE_HEAP, "--", "/usr/bin/python3", "-c", THREADS)
    made = at("classes.collapsed")
    with open(made, "w", encoding="utf-8") as file:
        file.write("main;leaf 7000\n")
    stats = json.loads(call(TOOL, "query", "--json", at("histograms"), "select alloc_size, alloc_count, live_size, live_count, "
                            "mean_lifetime_ms from hp_callsite_stats where dump_id = (select max(dump_id) from hp_callsite_stats)").stdout)
    sizes, lifetimes = [0] + [2 ** i for i in range(40)], LIFETIMES[1:]
    with Server(at("histograms"), made) as server:
        for view, prefix in (("alloc_space", "alloc"), ("space", "live")):
            wanted = {"size": {}, "lifetime": {}}
            for row in stats:
                size, count, lifetime = row[prefix + "_size"], row[prefix + "_count"], row["mean_lifetime_ms"]
                if size > 0:
                    for by, key in (("size", class_of(size / count, sizes)), ("lifetime", "none" if lifetime is None else class_of(lifetime, lifetimes))):
                        wanted[by][str(key)] = wanted[by].get(str(key), 0) + size
            for by in ("size", "lifetime"):
                rows = rows_of(server, by, heap="0.0", view=view, order="name")
                found = {row["part"]: row["bytes"]["value"] for row in rows}
                check(found.keys() == wanted[by].keys() and all(is_near(found[key], wanted[by][key]) for key in found),
                      f"{view} by {by}: {found}, query: {wanted[by]}")
                numbers = [-1 if row["part"] == "none" else int(row["part"]) for row in rows]
                check(numbers == sorted(numbers), f"{by} in the order {numbers}")
                for row in rows:
                    root = server.tree(heap="0.0", view=view, only=f"{by}:{row['part']}")[1][0]
                    check(is_near(root["bytes"], row["bytes"]["value"]), f"{by} {row['part']}: the graph has {root['bytes']}")
                changes = rows_of(server, by, heap="0.0", base=0, view=view)
                total = net(server.tree(heap="0.0", base=0, view=view)[1][0], "bytes")
                check(is_near(sum(row["bytes"]["value"] for row in changes), total), f"{view} by {by}: changes are not {total}")
        names = f"{at('histograms')}@1", f"{at('histograms')}@last"
        changed = json.loads(call(TOOL, "diff", "--json", "--by", "thread", "--top", "0", "--view", "alloc_space", *names).stdout)["heaps"][0]["rows"]
        wanted = {row["tid"]: row["alloc_space"]["change"] for row in changed}
        for base in ("0", "0.0.0"):
            rows = rows_of(server, "thread", heap="0.0", base=base, view="alloc_space")
            found = {row["tid"]: row["bytes"]["value"] for row in rows}
            check(found.keys() == wanted.keys() and all(is_near(found[tid], wanted[tid]) for tid in found), f"{found}, diff: {wanted}")
            for row in rows:
                root = server.tree(heap="0.0", base=base, view="alloc_space", only=f"thread:{row['part']}")[1][0]
                check(is_near(net(root, "bytes"), row["bytes"]["value"]), f"thread {row['tid']}: the graph changed by {net(root, 'bytes')}")
        for order in ("before", "after"):
            values = [rank(row[order]) for row in rows_of(server, "function", heap="0.0", base=0, view="space", order=order)]
            check(values == sorted(values, reverse=True), f"{order}: {values[:10]}")
        for order in ("bytes", "count", "self_bytes", "self_count"):
            for sort, sign in (("down", -1), ("up", 1), (None, -1)):
                rows = rows_of(server, "function", heap="0.0", base=0, view="space", order=order, **({"sort": sort} if sort else {}))
                values = [sign * rank(row[order]["value"]) for row in rows]
                check(values == sorted(values), f"{order} {sort}: {values[:10]}")
        rows = rows_of(server, "function", heap="0.0", view="space", order="name")
        names = [row["key"].lower() for row in rows]
        check(names == sorted(names), f"names: {names[:10]}")
        for question, words in (("heap=1.0&by=lifetime", "does not contain lifetimes"), ("heap=1.0&by=thread", "does not contain threads"),
                                ("heap=0.0&by=thread&view=max", "the peak of single threads"), ("heap=0.0&base=1.0.0&by=size", "by size"),
                                ("heap=0.0&by=colour", "no table by"), ("heap=0.0&order=colour", "ordered by"), ("heap=0.0&sort=x", "sorted")):
            status, _, content = server.ask(f"api/table?{question}")
            check(status == 400 and words in json.loads(content)["error"], f"{question}: {status} {content[:200]!r}")


def test_groups():
    """Groups of a graph are the rows of the table, with the stacks that only= has; heaps are side by side."""
    call(TOOL, "host", "-q", "-c", "100", "-o", at("grouped"), "-i", "256", "--heaps", "libc.malloc,libc.mmap", "--", "/usr/bin/python3", "-c",
         "import mmap\nheld = mmap.mmap(-1, 2000000)\n" + THREADS)
    with Server(at("grouped")) as server:
        heaps = server.json("api/overview")["profiles"][0]["heaps"]
        malloc = next(heap["id"] for heap in heaps if heap["name"] == "libc.malloc")

        def groups_of(**question):
            """Return {name: node} of the groups, and the whole answer."""
            header, nodes = server.tree(heap=malloc, **question)
            names = [function["name"] for function in header["functions"]]
            top = [node for node in nodes if node["parent"] == 0]
            check(all(header["functions"][node["function"]]["kind"] == question["group"] for node in top), f"groups: {top[:3]}")
            return {names[node["function"]]: node for node in top}, header, nodes

        for base in ({}, {"base": 0}):
            for by in ("thread", "type", "context"):
                found, header, nodes = groups_of(view="alloc_space", group=by, **base)
                rows = rows_of(server, by, heap=malloc, view="alloc_space", **base)
                wanted = sorted(row["bytes"]["value"] for row in rows)
                values = sorted(net(node, "bytes") for node in found.values())
                check(len(values) == len(wanted) and all(map(is_near, values, wanted)), f"by {by}: {values}, the table {wanted}")
                check(len(header["groups"]) == len(rows), f"by {by}: {header['groups']}")
                whole = server.tree(heap=malloc, view="alloc_space", **base)[1][0]
                check(is_near(net(nodes[0], "bytes"), net(whole, "bytes")), f"by {by}: the root has {nodes[0]}, not {whole}")
            group = next(one for one in header["functions"] if one.get("part") is not None)
            part = server.tree(heap=malloc, view="alloc_space", only=f"context:{group['part']}", **base)[1]
            below = server.tree(heap=malloc, view="alloc_space", group="context", root=group["id"], **base)[1]
            check(len(part) == len(below) and all(is_near(one["width"], other["width"]) for one, other in zip(part, below)),
                  f"{len(below)} nodes are below the group, {len(part)} are of the part")
        found, header, nodes = groups_of(view="alloc_space", group="heap")
        wanted = {f"heap {heap['name']}": server.tree(heap=heap["id"], view="alloc_space")[0]["total"][0] for heap in heaps if not heap["unseen"]}
        check(found.keys() == wanted.keys() and all(is_near(found[name]["bytes"], wanted[name]) for name in wanted), f"heaps: {found}, {wanted}")
        check(is_near(nodes[0]["bytes"], sum(wanted.values())) and "whole" not in header, f"the root has {nodes[0]['bytes']}")
        for question, words in (("group=colour", "grouped by"), ("group=thread&view=max", "peak of single threads"), ("group=", "grouped by")):
            status, _, content = server.ask(f"api/tree?heap={malloc}&{question}")
            check(status == 400 and words in json.loads(content)["error"], f"{question}: {status} {content[:200]!r}")
        check(server.ask(f"api/export?heap={malloc}&format=json&group=thread")[0] == 400, "a file has groups")


def test_breakdown():
    """Each step of a breakdown has the rows that explore shows on the same way."""
    if call(TOOL, "explore", "--help").status != 0:
        skip("heap_profile is built without explore")
    from explore_programs import rows_shown
    from exploring import explore, quit_it, two_dumps

    call(TOOL, "host", "-q", "-o", at("steps"), "-i", "256", "--", "/usr/bin/python3", "-c", THREADS)
    terminal = explore("--mode", "heavy", "--view", "alloc_space", "--heap", "libc.malloc", at("steps"), columns=200, lines=40)
    terminal.send("e")

    def tab(screen):
        return next((found[1] for line in screen.text()[:3] if (found := re.search(r"\[([A-Z][a-z ]+)\]", line))), "")

    def same(what, rows):
        wanted = sorted(((round(row["bytes"]["value"]), round(row["count"]["value"])) for row in rows), reverse=True)

        def shown():
            return [(size, count) for size, count, name in rows_shown(terminal) if name != "<self>"]
        check(terminal.wait(lambda _: shown() and sorted(shown(), reverse=True) == wanted[:len(shown())], 10),
              f"{what}: explore shows {shown()[:6]}, the page {wanted[:6]}")

    with Server(at("steps")) as server:
        question = {"heap": "0.0", "view": "alloc_space", "only": []}
        same("functions", rows_of(server, "function", **question))
        for by, title in (("thread", "Thread"), ("module", "Module")):
            for _ in range(7):
                if (before := tab(terminal.screen)) == title:
                    break
                terminal.send("right")
                terminal.wait(lambda screen: tab(screen) not in (before, ""), 10)
            rows = rows_of(server, by, **question)
            same(f"by {by}", rows)
            terminal.send("home", "enter")
            question["only"].append(f"{by}:{max(rows, key=lambda row: row['bytes']['value'])['part']}")
            same(f"functions of {question['only']}", rows_of(server, "function", **question))
    quit_it(terminal)
    with Server(two_dumps()) as server:
        for base, wanted in (({}, {"Text": 2500, "Image": 4000, "Node": 4000, "": 2500}), ({"base": 0}, {"Text": 1000, "Image": 2000, "": -3000})):
            question = {"heap": "0.0", "dump": 1, "view": "space", **base}
            found = {row["part"]: row["bytes"]["value"] for row in rows_of(server, "type", **question)}
            check(found == wanted, f"types: {found}, the file has {wanted}")
            header, nodes = server.tree(**question, group="type")
            groups = {header["functions"][node["function"]]["part"]: net(node, "bytes") for node in nodes if node["parent"] == 0}
            check(groups == wanted, f"groups: {groups}")
            for part, size in wanted.items():
                _, nodes = server.tree(**question, only=f"type:{part}")
                check(net(nodes[0], "bytes") == size, f"type {part} has {nodes[0]}")


def test_function_names():
    """A function is found by its name whatever its number is, and a numbering holds while profiles only grow."""
    one, other = (record(name, "/usr/bin/python3", "-c", SCRIPT) for name in ("first", "second"))
    made = at("before.collapsed")
    with open(made, "w", encoding="utf-8") as file:
        file.write("main;leaf 7000\n")
    with Server(one) as server, Server(one, other) as grown, Server(made, one) as moved:
        row = rows_of(server, "function", heap="0.0", view="alloc_space")[2]
        numbering = server.json("api/functions")["numbering"]
        check(int(numbering.split("-")[0]) > 10, f"numbering: {numbering}")
        for page, same in ((server, True), (grown, True), (moved, False)):
            heap = "1.0" if page is moved else "0.0"
            found = page.json("api/functions?" + urllib.parse.urlencode({"numbering": numbering, "function": row["part"]}))
            check(found["same"] == same and found["name"] == row["part"], f"{found}")
            check((found["function"] == row["function"]) == same, f"{row}: {found}")
            for name in (row["part"], found["function"]):
                _, nodes = page.tree(heap=heap, view="alloc_space", direction="callees", function=name)
                check(is_near(nodes[0]["bytes"], row["bytes"]["value"]), f"{name}: {nodes[0]}, the table has {row['bytes']}")
                check(page.ask("api/source?" + urllib.parse.urlencode({"heap": heap, "function": name}))[0] == 200, f"source of {name}")
        found = server.json("api/functions?function=no@where&numbering=x")
        check(found["function"] is None and not found["same"], f"{found}")
        for wrong in ("", "0", "99999999999999999999-0", numbering + "0", "-1-0"):
            check(not server.json(f"api/functions?numbering={wrong}")["same"], f"numbering {wrong!r}")
        check(server.ask("api/tree?heap=0.0&direction=callees&function=no@where")[0] == 404, "a function that is not there")


def test_difference():
    """The difference of two profiles is that of heap_profile diff."""
    one = record("one", "/usr/bin/python3", "-c", SCRIPT)
    other = record("other", "/usr/bin/python3", "-c", SCRIPT.replace("3000", "6000"))
    difference = json.loads(call(TOOL, "diff", "--json", one, other).stdout)
    with Server(one, other) as server:
        for view in ("space", "alloc_space"):
            header, nodes = server.tree(heap="1.0", base="0.0.0", view=view)
            check(header["difference"], "the answer is no difference")
            grown = header["whole"]["bytes"]["value"]
            wanted = difference["heaps"][0]["total"][view]["change"]
            check(is_near(grown, wanted), f"{view}: {grown} more, diff prints {wanted}")
        check(0 in header["marks"], "twice the allocations are not beyond chance")
        check(set(header["marks"]) <= set(range(len(nodes))), "a mark is at no node")
        same, nodes = server.tree(heap="0.0", base="0.0.0", view="space")
        check(nodes[0]["width"] == 0 and not same["marks"], "a dump differs from itself")
        status, _, content = server.ask("api/tree?heap=0.0&base=0.0.0&width=x")
        check(status == 400 and "change, larger or after" in json.loads(content)["error"], f"{status} {content[:200]!r}")


def test_dumps():
    """The difference of two dumps of one heap is that of heap_profile diff, in each row."""
    script = ("import time\nkept = []\nfor i in range(12):\n kept += [str(j) * 3 for j in range(2000)]\n"
              " del kept[:500]\n time.sleep(0.05)\n")
    call(TOOL, "host", "-q", "-c", "100", "-o", at("dumps"), "-i", "256", "--", "/usr/bin/python3", "-c", script)
    with Server(at("dumps")) as server:
        count = len(server.json("api/overview")["profiles"][0]["heaps"][0]["dumps"])
        check(count >= 3, f"{count} dumps")
        for first, last, view in ((1, count, "space"), (count, 1, "space"), (1, count, "alloc_objects")):
            rows = json.loads(call(TOOL, "diff", "--json", "--by", "callsite", "--frames", "all", "--top", "0", "--view", view,
                                   f"{at('dumps')}@{first}", f"{at('dumps')}@{last}").stdout)["heaps"][0]
            header, nodes = server.tree(heap="0.0", dump=last - 1, base=first - 1, view=view)
            unit = "count" if header["counts"] else "bytes"
            whole, total = header["whole"][unit], rows["total"][view]
            check(is_near(whole["value"], total["change"]), f"{view}: {whole}, diff {total}")
            change = nodes[0][unit] - nodes[0]["lost_" + unit]
            check(is_near(change, sum(row[view]["change"] for row in rows["rows"])), f"{view}: {change} in stacks")
            check(is_near(whole["low"], total["low95"]) and is_near(whole["high"], total["high95"]), f"{view}: limits {whole}, diff {total}")
            functions = json.loads(call(TOOL, "diff", "--json", "--by", "function", "--top", "0", "--view", view, "--demangle", "full",
                                        f"{at('dumps')}@{first}", f"{at('dumps')}@{last}").stdout)["heaps"][0]["rows"]
            wanted = {(row["function"]["name"], row["function"]["mapping"]): row[view] for row in functions if row["function"]["name"]}
            sides = [{row["part"]: row[unit]["value"] for row in rows_of(server, "function", heap="0.0", dump=dump - 1, view=view)}
                     for dump in (first, last)]
            compared = 0
            for row in rows_of(server, "function", heap="0.0", dump=last - 1, base=first - 1, view=view):
                check(is_near(row["before"], sides[0].get(row["part"], 0)) and is_near(row["after"], sides[1].get(row["part"], 0)),
                      f"{view}: {row['part']} has {row['before']} and {row['after']}")
                figure, theirs = row[unit], wanted.get(tuple(row["part"].rsplit("@", 1)))
                if theirs and is_near(figure["value"], theirs["change"]):
                    compared += 1
                    check(is_near(figure["low"], theirs["low95"]) and is_near(figure["high"], theirs["high95"]),
                          f"{view}: {row['part']}: {figure}, diff {theirs}")
                    check(row["beyond_chance"] == theirs["beyond_chance"], f"{view}: {row['part']}: {row['beyond_chance']}, diff {theirs}")
            check(compared >= 5, f"{view}: {compared} functions compared")
            moved = sum(abs(row[view]["change"]) for row in rows["rows"])
            check(is_near(nodes[0]["width"], moved), f"{view}: {nodes[0]['width']} in stacks, diff {moved}")
            later = server.tree(heap="0.0", dump=last - 1, view=view)[1]
            wide = server.tree(heap="0.0", dump=last - 1, base=first - 1, view=view, width="after")[1]
            check(is_near(wide[0]["width"], later[0][unit]) and len(wide) == len(later), f"{view}: {wide[0]['width']} after, the dump {later[0][unit]}")
            wide = server.tree(heap="0.0", dump=last - 1, base=first - 1, view=view, width="larger")[1]
            check(is_near(2 * wide[0]["width"], wide[0]["before"] + wide[0]["after"] + moved), f"{view}: {wide[0]['width']} is not the larger side of each stack")
    check_asked_dumps(at("dumps"), count)


def check_asked_dumps(path, count):
    """TRACE@DUMP opens the page on that dump, two of them on their difference, on the server and in a saved page."""
    other = record("other", "/usr/bin/python3", "-c", "kept = ['x' * 1000]")
    page = at("asked.html")
    # Which heap of a profile holds most may differ, and so its last dump: `*`.
    for arguments, wanted in (([path + "@2"], "heap=0.*&dump=1&view=space"),
                              ([path + "@1", path + "@last"], "heap=0.*&dump=*&view=space&base=0"),
                              ([path + "@last", other + "@1"], "heap=1.*&dump=0&view=space&base=0.*.*"),
                              ([other, path + "@1"], "heap=1.*&dump=0&view=space")):
        form = re.escape(wanted).replace(r"\*", r"\d+")
        with Server(*arguments) as server:
            check(re.fullmatch(form, server.line.strip().rsplit("#", 1)[-1]), f"{arguments}: {server.line}")
        outcome = call(TOOL, "view", "--save", page, *arguments)
        check(outcome.status == 0, f"--save: {outcome.stderr!r}")
        saved = SavedPage(page).overview
        opening = "&".join(f"{name}={saved['opening'][name]}" for name in ("heap", "dump", "view", "base") if name in saved["opening"])
        check(re.fullmatch(form, opening), f"{arguments}: {opening}")
        profile, heap = (int(number) for number in saved["opening"]["heap"].split("."))
        check(saved["profiles"][profile]["heaps"][heap]["dumps"][saved["opening"]["dump"]]["kept"], f"{arguments}: not in the page")
    for argument, words in ((path + "@1000", b"nothing in it has that"), (path + "@x", b"@ needs the number of a dump"),
                            (at("missing") + "@1", b"missing")):
        outcome = call(TOOL, "view", "--no-browser", argument)
        check(outcome.status == 1 and words in outcome.stderr, f"{argument}: {outcome.status} {outcome.stderr!r}")


def test_source():
    """The lines of a source file have the bytes that they and their callees allocate."""
    source = at("made.c")
    with open(source, "w", encoding="utf-8") as file:
        file.write("#include <stdlib.h>\n"
                   "char *kept[300];\n"
                   "static char *make(size_t size) {\n"
                   "    return malloc(size);\n"
                   "}\n"
                   "int main(void) {\n"
                   "    for (int i = 0; i < 100; i++)\n"
                   "        kept[i] = make(1000);\n"
                   "    for (int i = 100; i < 300; i++)\n"
                   "        kept[i] = make(50);\n"
                   "}\n")
    outcome = call("gcc", "-g", "-O0", "-o", at("made"), source)
    check(outcome.status == 0, f"gcc: {outcome.stderr!r}")
    outcome = call(TOOL, "host", "-q", "-o", at("lines"), "-i", "1", "--", at("made"))
    with Server(at("lines")) as server:
        rows = server.json("api/table?heap=0.0&view=space&by=function")["row"]
        function = next(row["function"] for row in rows if row["key"] == "make")
        answer = server.json(f"api/source?heap=0.0&view=space&function={function}")
        check(answer["found"] and answer["file"] == source, f"the file is {answer['file']}: {answer['why']}")
        lines = {line["n"]: line for line in answer["lines"]}
        check(lines[4]["text"] == "    return malloc(size);" and len(lines) == 11, f"{len(lines)} lines")
        found = {n: line["total"]["value"] for n, line in lines.items() if line["total"]}
        check(found == {4: 110000, 8: 100000, 10: 10000}, f"lines hold {found}")
        own = {n: line["self"]["value"] for n, line in lines.items() if line["self"]}
        check(own == {4: 110000}, f"lines allocate {own}")
        os.unlink(source)
        answer = server.json(f"api/source?heap=0.0&view=space&function={function}")
        check(not answer["found"] and answer["why"], f"a file that is gone: {answer}")
        os.mkfifo(source)
        answer = server.json(f"api/source?heap=0.0&view=space&function={function}")
        check(not answer["found"] and answer["why"], f"a pipe: {answer}")


def test_growing():
    """The page of a recording that goes on gets its new dumps."""
    script = "import time\nkept = []\nwhile True: kept.append(bytearray(100000)); time.sleep(0.1)\n"
    with subprocess.Popen([TOOL, "host", "-q", "-i", "65536", "-c", "300", "-o", at("growing"), "--", "/usr/bin/python3", "-c", script],
                          env=dict(os.environ, **ENVIRONMENT)) as recording:
        deadline = time.monotonic() + TIMEOUT
        while call(TOOL, "report", "--json", at("growing")).status != 0 and time.monotonic() < deadline:
            time.sleep(0.1)
        with Server(at("growing")) as server:
            first = server.json("api/overview")["profiles"][0]["heaps"][0]
            while server.json("api/state")["generation"] < 2 and time.monotonic() < deadline:
                time.sleep(0.1)
            later = server.json("api/overview")["profiles"][0]["heaps"][0]
            check(len(later["dumps"]) > len(first["dumps"]), f"{len(later['dumps'])} dumps after {len(first['dumps'])}")
            check(later["dumps"][-1]["exact_bytes"] > first["dumps"][-1]["exact_bytes"], "the new dump has nothing new")
            check(later["unfinished"], "a recording that goes on is called finished")
        recording.send_signal(signal.SIGINT)


def test_memory():
    """The parts of the memory are those of report --rss at each dump, and of query over time."""
    script = ("import mmap, time\nkept = []\nheld = mmap.mmap(-1, 3000000)\nheld.write(b'x' * 3000000)\n"
              "for i in range(5):\n kept += [str(j) * 9 for j in range(20000)]\n time.sleep(0.2)\n")
    call(TOOL, "host", "-q", "-c", "200", "-o", at("memory"), "--heaps", "libc.malloc,libc.mmap", "--", "/usr/bin/python3", "-c", script)
    with open(at("other.collapsed"), "w", encoding="utf-8") as file:
        file.write("main;leaf 7000\n")
    with Server(at("memory"), at("other.collapsed")) as server:
        heaps = server.json("api/overview")["profiles"][0]["heaps"]
        malloc = next(heap for heap in heaps if heap["name"] == "libc.malloc")
        known = 0
        for dump in range(len(malloc["dumps"]) + 1):
            is_last = dump == len(malloc["dumps"])
            options, number = ([], "") if is_last else (["--dump", str(dump + 1)], f"&dump={dump}")
            wanted = json.loads(call(TOOL, "report", "--rss", "--json", *options, at("memory")).stdout)["processes"][0]
            answer = server.json(f"api/memory?heap={malloc['id']}{number}")
            check(answer["moment"] == wanted, f"dump {dump}: {answer['moment']}, report: {wanted}")
            check((answer["why"] == "") == wanted["known"], f"dump {dump}: {answer['why']!r}")
            snapshots, chosen = answer["snapshots"], answer["snapshots"]["chosen"]
            check((chosen is not None) == wanted["known"], f"dump {dump}: snapshot {chosen}")
            if not wanted["known"]:
                continue
            known += 1
            rows = {row["name"]: row["bytes"] for row in wanted["other_rows"]}
            parts = {kind["name"]: kind["rss"][chosen] for kind in snapshots["kinds"] if kind["rss"][chosen] > 0}
            check(parts == rows | {"allocator": wanted["allocator_bytes"]}, f"dump {dump}: {parts}, report: {rows}")
            check(snapshots["rss"][chosen] == wanted["rss_bytes"], f"dump {dump}: {snapshots['rss'][chosen]} resident")
            check(snapshots["swap"][chosen] == wanted["swap_bytes"], f"dump {dump}: {snapshots['swap'][chosen]} swapped")
            live = {limit: column[chosen] for limit, column in snapshots["live"].items()}
            row = wanted["allocator_rows"][0]
            check(round(live["value"]) == row["bytes"] and is_near(live["high"] - live["value"], row["margin_bytes"]), f"live {live}")
        check(known >= 2, f"{known} dumps with a snapshot")
        rows = json.loads(call(TOOL, "query", "--json", at("memory"), "select ts, rss_size, live_size, rounding_size, untouched_size "
                               "from hp_memory_snapshot order by ts").stdout)
        check(snapshots["all"] == len(rows) and snapshots["rss"] == [row["rss_size"] for row in rows], f"over time: {snapshots['rss']}")
        for column, name in (("rounding", "rounding_size"), ("untouched", "untouched_size")):
            check(all(is_near(one or 0, row[name] or 0) for one, row in zip(snapshots[column], rows)), f"{column}: {snapshots[column]}")
        other = server.json("api/memory?heap=1.0")
        check(not other["moment"]["known"] and "no memory snapshot" in other["why"], f"another profiler's file: {other}")
        check(other["snapshots"]["time"] == [] and other["snapshots"]["chosen"] is None, f"snapshots: {other['snapshots']}")
        check(server.ask("api/memory?heap=7.7")[0] == 404 and server.ask("api/memory")[0] == 400, "a heap that is not there")


def test_summary():
    """The sentences of the page, and of a page that is a file, are those with which report begins, for each heap and dump."""
    need_saved_pages()
    script = ("import time\nkept = []\nfor i in range(6):\n"
              " kept = kept + [str(j) * 9 for j in range(20000)] if i < 4 else []\n time.sleep(0.2)\n")
    call(TOOL, "host", "-q", "-c", "100", "-i", "2048", "-o", at("summary"), "--heaps", "libc.malloc,python.object", "--", "/usr/bin/python3", "-c", script)
    with open(at("summary.collapsed"), "w", encoding="utf-8") as file:
        file.write("main;`a`;b\u202e` 1000\nmain;c 500\n")
    names, compared = set(), 0
    for profile in (at("summary"), at("summary.collapsed")):
        outcome = call(TOOL, "view", "--save", at("summary.html"), profile)
        check(outcome.status == 0, f"--save: {outcome.stderr!r}")
        saved = SavedPage(at("summary.html"))
        with Server(profile) as server:
            for heap in server.json("api/overview")["profiles"][0]["heaps"]:
                for dump in range(len(heap["dumps"])):
                    answer = server.json(f"api/summary?heap={heap['id']}&dump={dump}")["sentences"]
                    chosen = ("--heap", heap["name"], "--dump", str(dump + 1))
                    wanted = sentences_of(call(TOOL, "report", *chosen, profile).stdout.decode())
                    check(["".join(parts) for parts in answer] == wanted and wanted, f"{chosen}: {answer}, report: {wanted}")
                    check(saved.json(f"api/summary?heap={heap['id']}&dump={dump}")["sentences"] == answer, f"{chosen}: {answer}, but the file has others")
                    check(all(len(parts) % 2 == 1 for parts in answer), f"{chosen}: {answer}")
                    names.update(name for parts in answer for name in parts[1::2])
                    compared += 1
                check(server.json(f"api/summary?heap={heap['id']}")["sentences"] == answer, "without a number it is not the last dump")
            check(server.ask("api/summary?heap=7.7")[0] == 404 and server.ask("api/summary")[0] == 400, "a heap that is not there")
    check(compared >= 10 and "c" in names and "b\\u202e`" in names, f"{compared} dumps, {names}")


def test_timeline():
    """Losses and raised intervals stand at their dump; readings of memory are those of query."""
    call(os.path.join(BUILD, "tests", "e2e", "make_dumps"), at("dumps.trace"), "2", "8")
    with open(at("no-dumps.collapsed"), "w", encoding="utf-8") as file:
        file.write("main;leaf 7000\n")
    call(TOOL, "host", "-q", "-c", "200", "-o", at("real"), "--", "/usr/bin/python3", "-c",
         "import time\nkept = []\nfor i in range(5):\n kept += [str(j) * 9 for j in range(20000)]\n time.sleep(0.2)\n")
    os.mkdir(at("large"))
    call(os.path.join(BUILD, "tests", "e2e", "make_trace"), at("large"), "10000")  # dumps of several packets
    with open(os.path.join(at("large"), "raw-trace"), "rb") as file:
        content = file.read()
    with open(at("cut-off.trace"), "wb") as file:
        file.write(content[:len(content) * 9 // 10])
    with Server(at("dumps.trace"), at("no-dumps.collapsed"), at("real"), at("cut-off.trace")) as server:
        made, other, recorded, cut = server.json("api/overview")["profiles"]
        first, second = made["heaps"]
        dumps = first["dumps"]
        check([dump["interval_bytes"] for dump in dumps] == [4096] * 4 + [8192] * 4, "intervals")
        losses = {number: {loss["name"]: loss["amount"] for loss in dump["losses"]} for number, dump in enumerate(dumps) if dump["losses"]}
        check(losses == {2: {"overrun": 50}, 3: {"overrun": 20, "unwind": 4}, 5: {"blocked_us": 250000}}, f"new losses {losses}")
        named = {loss["name"]: (loss["amount"], loss["unit"], loss["affects_figures"]) for loss in first["losses"]}
        check(named == {"overrun": (70, "", True), "unwind": (4, "", False), "blocked_us": (250000, "us", False)}, f"all losses {named}")
        check(all(dump["losses"] == [] for dump in second["dumps"]), "another process lost nothing")
        unknown = other["heaps"][0]["dumps"][0]
        check(unknown["losses"] is None and unknown["interval_bytes"] is None, f"another profiler's file: {unknown}")
        memory = made["processes"][0]["memory"]
        check(memory["all"] == 16 and memory["rss"].index(None) == 2 and memory["swap"] is None, f"readings {memory}")
        check(recorded["heaps"][0]["dumps"][-1]["why_incomplete"] == "", "a whole dump")
        last = cut["heaps"][0]["dumps"][-1]
        check(last["incomplete"] and last["why_incomplete"] == "the trace ends inside this dump", f"the last dump: {last}")
        memory = recorded["processes"][0]["memory"]
        columns = {"rss": "rss_size", "anonymous": "rss_anon_size", "file": "rss_file_size", "shmem": "rss_shmem_size", "swap": "swap_size"}
        rows = json.loads(call(TOOL, "query", "--json", at("real"), "select * from hp_timeline where rss_size is not null").stdout)
        check(len(rows) > 1, f"{len(rows)} rows")
        for column, name in columns.items():
            readings = dict(zip(memory["time"], memory[column]))
            check(readings == {row["ts"]: row[name] for row in rows}, f"readings of {column}: {readings}")
        # Without counters beside the heap, the snapshots have the memory.
        call(TOOL, "host", "-q", "--timeline", "off", "-c", "200", "-o", at("plain"), "--", "/usr/bin/python3", "-c", "import time; time.sleep(0.5)")
        rows = json.loads(call(TOOL, "query", "--json", at("plain"), "select ts, swap_size, rss_size from hp_memory_snapshot").stdout)
    with Server(at("plain")) as server:
        memory = server.json("api/overview")["profiles"][0]["processes"][0]["memory"]
        for column, name in (("rss", "rss_size"), ("swap", "swap_size")):
            readings = {time: bytes for time, bytes in zip(memory["time"], memory[column]) if bytes is not None}
            check(rows and readings == {row["ts"]: row[name] for row in rows}, f"{column} of snapshots: {readings}")


def check_course(server):
    """Over time, each row has the figures of the dumps' tables, and with the others they are all that is live."""
    dumps = server.json("api/overview")["profiles"][0]["heaps"][0]["dumps"]
    for by, own in (("holder", ""), ("function", "self_"), ("module", "self_"), ("thread", ""), ("type", "")):
        course = server.json(f"api/course?heap=0.0&by={by}&limit=3")
        check(course["dumps"] == list(range(len(dumps))) and course["all"] == len(dumps), f"{by}: {course['dumps']}")
        check(0 < len(course["row"]) <= 3 and course["rows"] >= len(course["row"]), f"{by}: {course['rows']} rows")
        for dump in course["dumps"]:
            rows = {row["part"]: row for row in server.json(f"api/table?heap=0.0&by={by}&dump={dump}&limit=20000&course=4")["row"]}
            sums = 0
            for row in [*course["row"], {**course["rest"], "part": None}]:
                figure = {name: row[name][dump] for name in ("value", "low", "high")}
                sums += figure["value"]
                if row["part"] is not None:
                    of_table = rows[row["part"]][own + "bytes"] if row["part"] in rows else {"value": 0, "low": 0, "high": 0}
                    check(of_table == figure, f"{by}, dump {dump}: {figure}, the table: {of_table}")
            check(is_near(sums, dumps[dump]["space"]["value"]), f"{by}, dump {dump}: {sums} of {dumps[dump]['space']}")
        few = server.json(f"api/table?heap=0.0&by={by}&limit=5&course=4")
        check(few["course"][-1] == len(dumps) - 1 and len(few["course"]) <= 4, f"the dumps of lines: {few['course']}")
        for row in few["row"]:
            check(row["course"][-1] == row["bytes"]["value"], f"{by}: the line of {row['key']} ends at {row['course'][-1]}")
    part = server.json("api/course?heap=0.0&by=function&only=thread:1&filter=focus:x")
    check(part["row"] == [] and set(part["rest"]["value"]) == {0}, f"of a thread that is not there: {part}")
    check(server.ask("api/course?heap=0.0&by=color")[0] == 400, "an unknown dimension")
    check(server.ask("api/course?heap=0.0&by=lifetime&dumps=0")[0] == 400, "no dumps")


def check_retained(server, last):
    """What was retained since a dump is a graph and tables, whose sums are those of the range."""
    middle = last // 2
    selection = f"heap=0.0&dump={last}&base={middle}&retained=1"
    whole = server.json(f"api/range?heap=0.0&dump={last}&base={middle}")
    check(0 < whole["retained_least"] <= whole["retained_most"], f"the range: {whole}")
    for by in ("holder", "module", "thread", "type"):
        table = server.json(f"api/table?{selection}&by={by}&limit=20000")
        own = "self_bytes" if by == "module" else "bytes"
        for bound, key in (("least", "retained_least"), ("value", "retained_most")):
            check(is_near(table["bytes"][bound], whole[key]), f"{by}: {bound} {table['bytes']}, the range: {whole}")
            check(is_near(sum(row[own][bound] for row in table["row"]), whole[key]), f"the rows by {by} are not {key}")
        for figure in (row[unit] for row in [table, *table["row"]] for unit in ("bytes", "count")):
            check(figure["low"] <= figure["least"] <= figure["value"] <= figure["high"], f"{by}: {figure}")
        row = table["row"][0]
        part = urllib.parse.quote(f"{by}:{row['part']}")
        alone = server.json(f"api/table?{selection}&by=function&only={part}")["bytes"]
        check(is_near(alone["value"], row["bytes"]["value"]) and is_near(alone["least"], row["bytes"]["least"]), f"{by}: {alone} alone, {row}")
        then = server.json(f"api/table?heap=0.0&dump={last}&by={by}&limit=20000")["row"]
        live = {one["part"]: one["bytes"]["value"] for one in then}
        for one in table["row"]:
            check(one["bytes"]["value"] <= live[one["part"]] * (1 + 1e-9), f"more of {one} than is live: {live[one['part']]}")
    header, nodes = server.tree(heap="0.0", dump=last, base=middle, retained=1, direction="down")
    check(header["retained"] and not header["difference"] and is_near(header["whole"]["bytes"]["least"], whole["retained_least"]), f"{header['whole']}")
    check(is_near(nodes[0]["bytes"], whole["retained_most"]) and is_near(nodes[0]["lost_bytes"], whole["retained_least"]), f"the root: {nodes[0]}")
    turned = server.json(f"api/table?heap=0.0&dump={middle}&base={last}&retained=1&by=holder")
    check(is_near(turned["bytes"]["value"], whole["retained_most"]), "the order matters")
    check(server.json(f"api/table?heap=0.0&dump={last}&base={last}&retained=1")["rows"] == 0, "retained since now")
    for question in (f"table?{selection}&by=size", f"table?{selection}&view=max", f"table?{selection}&only=lifetime:none", "tree?heap=0.0&retained=1",
                     f"tree?{selection}&group=heap", f"export?{selection}&format=json"):
        check(server.ask("api/" + question)[0] == 400, question)


def test_range():
    """Between two dumps: the change is that of diff, and for neighbours retained is that of query."""
    script = ("import time\nkept, blocks = [], []\nfor i in range(16):\n kept += [str(j) * 3 for j in range(2000)]\n del kept[:500]\n"
              " blocks += [bytearray(2000) for _ in range(40)]\n del blocks[:10]\n time.sleep(0.05)\n")
    call(TOOL, "host", "-q", "-c", "100", "-o", at("range"), "-i", "256", *ONE_HEAP, "--", "/usr/bin/python3", "-c", script)
    with Server(at("range")) as server:
        check_course(server)
        dumps = server.json("api/overview")["profiles"][0]["heaps"][0]["dumps"]
        rows = json.loads(call(TOOL, "query", "--json", at("range"), "INCLUDE PERFETTO MODULE android.memory.heap_profile.intervals; "
                               "select ts, dur, retained, allocated, delta from _android_heap_profile_intervals order by ts").stdout)
        intervals = {row["ts"] + row["dur"]: row for row in rows}
        compared = 0
        for dump in range(1, len(dumps)):
            answer = server.json(f"api/range?heap=0.0&dump={dump}&base={dump - 1}")
            check(answer["why"] == "" and answer["retained_least"] <= answer["retained_most"] <= answer["allocated"], f"dump {dump}: {answer}")
            check(server.json(f"api/range?heap=0.0&dump={dump - 1}&base={dump}") == answer, "the order matters")
            row = intervals.get(dumps[dump]["time"])
            if row is None:
                continue
            compared += 1
            # query rounds each callsite, also the count that decides whether it has grown.
            for key, name, share in (("retained_least", "retained", 0.02), ("allocated", "allocated", 1e-3), ("change", "delta", 1e-3)):
                check(abs(answer[key] - row[name]) <= 1000 + share * row["allocated"], f"dump {dump}: {key} {answer[key]}, query: {row}")
        check(compared >= 1, f"{compared} intervals compared")
        check_retained(server, max(range(len(dumps)), key=lambda dump: dumps[dump]["space"]["value"]))
        first, last = dumps[0], dumps[-1]
        whole = server.json(f"api/range?heap=0.0&dump={len(dumps) - 1}&base=0")
        check(is_near(whole["change"], last["space"]["value"] - first["space"]["value"]), f"the whole range: {whole}")
        check(server.ask("api/range?heap=0.0&dump=1")[0] == 400, "a range without a base")


def wait_until(holds, what):
    deadline = time.monotonic() + 30 * SLOWNESS
    while not (held := holds()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return check(held, f"in vain waited until {what}")


def heap_of(page):
    """Return the page's first heap; one without a dump if there is none yet."""
    heaps = [heap for profile in page.json("api/overview")["profiles"] for heap in profile["heaps"]]
    return heaps[0] if heaps else {"dumps": [], "unfinished": True}


def test_interpreted():
    """Functions of one name in two files are two, and the interpreter's own frames can be shown and hidden."""
    for name, size in (("first", 3000000), ("second", 2000000)):
        with open(at(name + ".py"), "w", encoding="utf-8") as file:
            file.write(f"kept = bytes({size})\n")
    script = f"import sys; sys.path.insert(0, {WORK!r}); import first, second"
    recorded = record("interpreted", "/usr/bin/python3", "-c", script, heaps=ONE_HEAP)

    def loops(server):
        names = [row["key"] for row in server.json("api/table?heap=0.0&view=max&by=function&limit=10000")["row"]]
        return names, [name for name in names if name.startswith("_PyEval_EvalFrameDefault")]

    with Server(recorded) as server:
        check(server.json("api/overview")["native"] is False, "native at first")
        names, found = loops(server)
        check({"<module> (first.py)", "<module> (second.py)"} <= set(names) and "<module>" not in names, f"{names}")
        check(not found, f"loops: {found}")
        for native in (True, False):
            body = json.dumps({"paths": [], "add": True, "native": native})
            status, _, text = server.ask("api/open", "POST", body, {"Content-Type": "application/json"})
            check(status == 200, f"{status} {text!r}")
            check(server.json("api/overview")["native"] is native and bool(loops(server)[1]) is native, f"native {native}: {loops(server)[1]}")
    with Server("--native", recorded) as server:
        check(server.json("api/overview")["native"] is True and loops(server)[1], "no loops with --native")
    with Server(record("plain", "/bin/ls", "/")) as server:
        check(server.json("api/overview")["native"] is None, "a program without an interpreter")


class Recording(Page):
    """A recording with --view: heap_profile with these arguments."""

    def __init__(self, *arguments):
        self.process = subprocess.Popen([TOOL, *arguments], env=dict(os.environ, **ENVIRONMENT), stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
        super().__init__(self.process.stderr)
        with open(f"/proc/{self.process.pid}/task/{self.process.pid}/children", encoding="ascii") as file:
            children = file.read().split()
        self.view = next((int(pid) for pid in children if b"\0view\0" in self.command_of(pid)), 0)
        check(self.view, f"no child is the view: {children}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()

    @staticmethod
    def command_of(pid):
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read()

    def wait_for_end(self):
        """Wait until the recording has ended and is written; the page is still there."""
        while "the page stays" not in (line := self.process.stderr.readline()):
            if not check(line != "", "heap_profile has ended, and the page with it"):
                return
        wait_until(lambda: not heap_of(self)["unfinished"], "the page has the end")

    def end(self, number, status):
        """Send a signal, and check that nothing is left. Return what is left of the standard output."""
        self.process.send_signal(number)
        output, _ = self.process.communicate(timeout=30 * SLOWNESS)
        check(self.process.returncode == status, f"exit code {self.process.returncode}, not {status}")
        wait_until(lambda: not os.path.exists(f"/proc/{self.view}"), "the view's process is gone")
        host, port = self.host.split(":")
        with socket.socket() as connection:
            check(connection.connect_ex((host, int(port))) != 0, "the server still listens")
        return output


def test_host():
    """host --view shows the dumps as they come and stays until Control-C; the command sees nothing of it."""
    script = ("import os, sys, time\nprint(sorted(os.listdir('/proc/self/fd')), flush=True)\nkept = []\n"
              f"while not os.path.exists({at('enough')!r}):\n kept.append(bytearray(10000)); time.sleep(0.02)\n"
              "print('done')\nsys.exit(7)")
    with Recording("host", "--view", "-q", "-o", at("hosted"), "--", "/usr/bin/python3", "-c", script) as recording:
        check(recording.ask("")[0] == 200, "there is no page at the recording's beginning")
        wait_until(lambda: len(heap_of(recording)["dumps"]) >= 2, "two dumps are there")
        with open(at("enough"), "w", encoding="utf-8"):
            pass
        recording.wait_for_end()
        output = recording.end(signal.SIGINT, 7)
    bare = subprocess.run(["/usr/bin/python3", "-c", script], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, check=False)
    check(output == bare.stdout, f"output {output!r}, bare {bare.stdout!r}")


def test_host_interrupted():
    """Control-C in the terminal ends the command, and not its page; a command that cannot run has no page."""
    script = "import time; kept = [str(i) for i in range(5000)]; print('ready', flush=True); time.sleep(60)"
    with Recording("host", "--view", "-q", "-o", at("interrupted"), "--", "/usr/bin/python3", "-c", script) as recording:
        recording.process.stdout.readline()
        os.killpg(recording.process.pid, signal.SIGINT)
        recording.wait_for_end()
        recording.end(signal.SIGINT, -signal.SIGINT)
    outcome = call(TOOL, "host", "--view", "-o", at("nothing"), "--", "/no/such/command")
    check(outcome.status == 127 and not os.path.exists(at("nothing/raw-trace")), f"no command: {outcome.status}")


def test_pid():
    """-p PID --view shows a program that already runs. If heap_profile is killed, the page ends."""
    script = "import time\nkept = []\nfor i in range(6000):\n kept.append(bytearray(10000)); time.sleep(0.01)"
    with subprocess.Popen(["/usr/bin/python3", "-c", script]) as program:
        for name, number, status in (("attached", signal.SIGINT, 0), ("killed", signal.SIGKILL, -signal.SIGKILL)):
            with Recording("-p", str(program.pid), "--view", "-q", "-o", at(name)) as recording:
                wait_until(lambda: heap_of(recording)["dumps"], "a dump is there")
                recording.process.send_signal(signal.SIGINT)
                recording.wait_for_end()
                recording.end(number, status)
        check(program.poll() is None, "the program has ended")
        program.kill()


def test_sql():
    """SQL answers what heap_profile query does, and changes nothing."""
    profile = record("jq", "jq", "-n", "[range(2000) | tostring] | length")
    statement = "select heap_name, sum(size) from heap_profile_allocation group by 1 order by 1"
    wanted = json.loads(call(TOOL, "query", "--json", profile, statement).stdout)
    with Server(profile) as server:
        answer = server.json("api/sql", method="POST", body=statement)
        check(answer["columns"] == list(wanted[0]), f"columns: {answer['columns']}")
        check(answer["rows"] == [list(row.values()) for row in wanted], f"rows: {answer['rows']}, query: {wanted}")
        tables = {table["name"] for table in server.json("api/tables")}
        check("heap_profile_allocation" in tables, f"tables: {sorted(tables)}")
        for wrong in ("selec 1", "", "select * from nothing", f"attach '{at('file')}' as f", "create table t(x)", "select 1; ;x"):
            status, _, content = server.ask("api/sql", method="POST", body=wrong)
            check(status == 400 and json.loads(content)["error"], f"{wrong!r}: {status} {content[:100]!r}")
        many = server.json("api/sql", method="POST", body="with recursive c(n) as (select 1 union all select n+1 from c "
                           "where n<20000) select n from c")
        check(len(many["rows"]) == 10000 and many["more"], f"{len(many['rows'])} rows")
        status, _, _ = server.ask("api/sql", method="POST", body="x" * 100000)
        check(status == 413, f"a long statement: {status}")
        wide = server.json("api/sql", method="POST", body="with recursive c(n) as (select 1 union all select n+1 from c "
                           "where n<10000) select printf('%4000s', n) from c")
        check(len(wide["rows"]) < 9000 and wide["more"], f"{len(wide['rows'])} rows of 4 kB each")


def ask_in_thread(server, statement):
    """Begin a query. Return a thread with its answer; None: the server has ended."""
    def run():
        with contextlib.suppress(OSError, http.client.HTTPException):
            thread.answer = server.ask("api/sql", method="POST", body=statement)
    thread = threading.Thread(target=run, daemon=True)
    thread.answer = None
    thread.start()
    time.sleep(0.5)
    return thread


def test_slow_sql():
    """A query that never ends keeps neither other profiles nor the server's end waiting."""
    profile = record("slow", "true")
    endless = "with recursive c(n) as (select 1 union all select n+1 from c) select count(*) from c"
    with Server(profile) as server:
        def replaces():
            status, _, content = server.ask("api/open", method="POST", body=json.dumps({"paths": [profile]}))
            return check(status == 200, f"open: {status} {content!r}") and not query.is_alive()
        query = ask_in_thread(server, endless)
        wait_until(replaces, "the query ends when the profiles are replaced")
        check(query.answer and query.answer[0] == 400 and b"were replaced" in query.answer[2], f"{query.answer}")
        ask_in_thread(server, endless)
    # SQLite does not ask in the middle of a step whether to go on: this one takes an hour.
    long_step = "select " + ", ".join(f"instr(zeroblob(8000000), zeroblob(3999{i:03}) || x'01')" for i in range(900))
    with Server(profile) as server:
        query = ask_in_thread(server, long_step)
        wait_until(replaces, "a query within a step ends when the profiles are replaced")
        check(query.answer and query.answer[0] == 400 and b"were replaced" in query.answer[2], f"{query.answer}")
        if LONG:
            status, _, content = server.ask("api/sql", method="POST", body=long_step)
            check(status == 400 and b"ran for a minute" in content, f"a minute: {status} {content!r}")
        query = ask_in_thread(server, long_step)
        server.process.send_signal(signal.SIGTERM)
        wait_until(lambda: server.process.poll() is not None, "one signal ends it")


def test_sql_limits():
    """What a statement may take and do: memory, lengths, functions, files."""
    profile = record("limits", "true")
    with Server(profile) as server:
        for statement, words in (("select fts3_tokenizer('simple')", "not authorized"), ("select load_extension('x')", "not authorized"),
                                 ("select fts3_tokenizer('x', x'0000000000000000')", "not authorized"),
                                 ("pragma temp_store_directory='/'", "not authorized"), ("vacuum into '/tmp/x'", "not authorized"),
                                 ("select length(zeroblob(100000000))", "too big")):
            status, _, content = server.ask("api/sql", method="POST", body=statement)
            check(status == 400 and words in json.loads(content)["error"], f"{statement}: {status} {content[:200]!r}")
        sorted_rows = server.json("api/sql", method="POST", body="with recursive c(n) as (select 1 union all select n+1 from c where n<30000) select count(*), max(length(t)) from "
                                  "(select n, printf('%200d', n) as t from c order by n % 7, t)")
        check(sorted_rows["rows"] == [[30000, 200]], f"{sorted_rows['rows']}")


def test_costly_filters():
    """A filter that takes too much memory or too many steps is an error with the reason."""
    with open(at("long.collapsed"), "w", encoding="utf-8") as file:
        file.write("main;" + "a" * 30000 + " 7\n")
    with Server(at("long.collapsed")) as server:
        for pattern, words in (("(((.{1,200}){1,200}){1,200})x", "too large"), ("(a+)+[bc]", "too many steps")):
            for answer in ("tree", "table"):
                status, _, content = server.ask(f"api/{answer}?heap=0.0&filter={urllib.parse.quote('focus:' + pattern)}")
                check(status == 400 and words in json.loads(content)["error"], f"{pattern}: {status} {content[:200]!r}")
        status, _, _ = server.ask("api/tree?heap=0.0&filter=focus:a")
        check(status == 200, f"a usual filter: {status}")


def test_replaced_file():
    """A file that becomes a pipe, whose reader would wait for ever, is refused."""
    profile = record("replaced", "jq", "-n", "1")
    with Server(profile) as server:
        os.unlink(f"{profile}/symbolized-trace")
        os.mkfifo(f"{profile}/symbolized-trace")
        for page, options in (("api/sql", {"method": "POST", "body": "select 1"}),
                              ("api/export?heap=0.0&format=pprof&filter=focus:.", {})):
            status, _, content = server.ask(page, **options)
            check(status == 400 and b"not a regular file" in content, f"{page}: {status} {content!r}")
        time.sleep(1.5)  # The server looks for changes each second.


def test_export():
    """A file of another format has what the page shows, with its filters."""
    profile = record("exported", "jq", "-n", "[range(3000) | tostring] | length")
    with Server(profile) as server:
        for filters, options in (([], []), (["focus:jv_|jq_", "hide:^main$"], ["--focus", "jv_|jq_", "--hide", "^main$"])):
            question = urllib.parse.urlencode({"heap": "0.0", "view": "alloc_space", "filter": filters}, doseq=True)
            status, _, collapsed = server.ask(f"api/export?{question}&format=collapsed")
            wanted = call(TRACECONV, "collapsed", "--view", "alloc_space", *options, profile).stdout
            check(status == 200 and collapsed == wanted, f"{filters}: {collapsed[:80]!r}, traceconv: {wanted[:80]!r}")
            _, nodes = server.tree(heap="0.0", view="alloc_space", filter=filters)
            in_file = sum(int(line.rsplit(b" ", 1)[1]) for line in collapsed.splitlines())
            check(abs(in_file - nodes[0]["bytes"]) <= 1, f"{in_file} in the file, {nodes[0]['bytes']} on the page")
            with open(at("made.pb.gz"), "wb") as file:
                file.write(server.ask(f"api/export?{question}&format=pprof")[2])
            again = call(TRACECONV, "collapsed", "--view", "alloc_space", at("made.pb.gz"))
            check(again.status == 0 and again.stdout.count(b"\n") == collapsed.count(b"\n"), f"pprof: {again.stderr!r}")
            json.loads(server.ask(f"api/export?{question}&format=speedscope")[2])
        for wrong in ("format=x", "", "format=collapsed&base=0", "format=speedscope&base=0", "format=pprof&filter=focus:a&filter=focus:b"):
            check(server.ask(f"api/export?heap=0.0&{wrong}")[0] == 400, f"{wrong} is answered")


def same_limits(figure, reported, what, value="estimate"):
    for key in (value, "low95", "high95"):
        check(is_near(figure[key] or 0, reported[key] or 0), f"{what}: {key} {figure[key]}, report has {reported[key]}")


def names_above(nodes, node):
    names = []
    while node["parent"] is not None:
        names.append((node["name"], node["mapping"]))
        node = nodes[node["parent"]]
    return tuple(names)


def shown_name(frame):
    """Return the name that a page gives to a frame of report --json."""
    if frame.get("kind") == "interpreted" and frame.get("file"):
        parts = frame["file"].split("/")
        return f"{frame['name']} ({'/'.join(parts[-2:] if parts[-1] == '__init__.py' else parts[-1:])})"
    return frame["name"] or f"{frame.get('function_start', frame['rel_pc']):#x} @ {os.path.basename(frame['mapping'])}"


def test_export_json():
    """JSON has the stacks of report --json with their figures and limits, and differences those of diff --json."""
    profile = record("json", "/usr/bin/python3", "-c", SCRIPT, heaps=ONE_HEAP)
    report = json.loads(call(TOOL, "report", "--json", profile).stdout)["heaps"][0]
    sums, alone = {}, {}
    for site in report["callsites"]:
        stack = tuple((shown_name(frame), frame["mapping"]) for frame in site["frames"])
        sums[stack] = sums.get(stack, 0) + site["alloc_space"]["estimate"]
        alone[stack] = None if stack in alone else site
    with Server(profile) as server:
        answer = server.json("api/export?heap=0.0&view=alloc_space&format=json")
        check(answer["at"]["pid"] == report["pid"] and answer["at"]["dump"] == report["dump"], f"of {answer['at']}")
        check((answer["view"], answer["direction"], answer["pruned"]) == ("alloc_space", "down", False), "another view")
        same_limits(answer["total"]["bytes"], report["total"]["alloc_space"], "total")
        same_limits(answer["total"]["count"], report["total"]["alloc_objects"], "total")
        nodes, compared = answer["nodes"], 0
        for index, node in enumerate(nodes):
            check(node["parent"] is None if index == 0 else node["parent"] < index, f"node {index} is below {node['parent']}")
            stack = names_above(nodes, node)
            if stack not in sums:
                continue
            check(is_near(node["self"]["bytes"]["estimate"], sums[stack]), f"{stack}: {node['self']['bytes']}")
            if alone[stack]:
                same_limits(node["self"]["bytes"], alone[stack]["alloc_space"], stack)
                same_limits(node["self"]["count"], alone[stack]["alloc_objects"], stack)
                compared += 1
        # How many have a sample hangs on chance: all of them are compared.
        wanted = sum(1 for site in alone.values() if site)
        check(compared == wanted > 100, f"{compared} of {wanted} stacks compared")
        up = server.json("api/export?heap=0.0&view=alloc_space&format=json&direction=up&filter=ignore:json")
        check(up["filters"] == [{"kind": "ignore", "expression": "json"}], f"{up['filters']}")
        check(is_near(up["nodes"][0]["bytes"]["estimate"] + up["left_out"]["bytes"]["estimate"], sum_of(report, "alloc_space")),
              "what is shown and left out is not all")
    other = record("json2", "/usr/bin/python3", "-c", SCRIPT.replace("3000", "6000"), heaps=ONE_HEAP)
    total = json.loads(call(TOOL, "diff", "--json", profile, other).stdout)["heaps"][0]["total"]
    with Server(profile, other) as server:
        question = "heap=1.0&base=0.0.0&view=alloc_space"
        answer = server.json(f"api/export?{question}&format=json")
        root = answer["nodes"][0]
        check(is_near(root["bytes"]["change"], total["alloc_space"]["change"]), f"{root['bytes']}, diff {total['alloc_space']}")
        same_limits(answer["total"]["bytes"], total["alloc_space"], "total of a difference", "change")
        check(root["beyond_chance"] and answer["base"]["dump"] == 1 and answer["base"]["pid"] == report["pid"], f"{answer['base']}")
        for filters, options in (("", []), ("&filter=focus:loads", ["--focus", "loads"])):
            status, _, content = server.ask(f"api/export?{question}{filters}&format=pprof")
            check(status == 200, f"{filters}: {content[:200]!r}")
            with open(at("diff.pb.gz"), "wb") as file:
                file.write(content)
            call(TOOL, "diff", "--pprof", at("wanted.pb.gz"), *options, profile, other)
            ours, wanted = (call(TRACECONV, "collapsed", "--view", "alloc_space", at(name)).stdout for name in ("diff.pb.gz", "wanted.pb.gz"))
            check(ours == wanted and ours, f"{filters}: {ours[:80]!r}, diff --pprof: {wanted[:80]!r}")


def test_save():
    """A saved page has the server's overview and memory, the stacks of report, and nothing of names outside of its data."""
    need_saved_pages()
    profile = record("saved", "/usr/bin/python3", "-c", SCRIPT)
    hostile = at("hostile")
    with open(hostile, "w", encoding="utf-8") as file:
        file.write("main;</script><img src=x onerror=alert(1)>;\"'<!-- 100\n")
    page = at("page.html")
    for what in (profile, hostile):
        outcome = call(TOOL, "view", "--save", page, what)
        check(outcome.status == 0, f"--save: {outcome.status} {outcome.stderr!r}")
        saved = SavedPage(page)
        check("onerror=alert" not in saved.text and "default-src 'none'" in saved.text and saved.text.count("</script>") == 4,
              "the page is not only the page")
        report = json.loads(call(TOOL, "report", "--json", "--demangle", "full", what).stdout)["heaps"][0]
        with Server(what) as server:
            for one in saved.overview["profiles"]:
                for heap in one["heaps"]:
                    check(all(dump.pop("kept") for dump in heap["dumps"]), "a dump is not in the page")
            check(saved.overview == server.json("api/overview"), "the overview differs")
            check(saved.json("api/memory?heap=0.0") == server.json("api/memory?heap=0.0"), "the memory differs")
        for view in ("space", "alloc_objects"):
            if report["total"][view]["estimate"] is not None:
                found, wanted = sum(saved.values("0.0", view).values()), sum_of(report, view)
                check(is_near(found, wanted), f"{view}: stacks have {found}, report has {wanted}")
        check(saved.title == "heap_profile view", f"the title is {saved.title}")
    check(call(TOOL, "view", "--save", "/nothing/page.html", profile).status == 1, "a page is written nowhere")


def ask_as_user(server, user):
    """Ask as another user who knows the address. Return whether an answer came."""
    child = os.fork()
    if child == 0:
        os.setresuid(user, user, user)
        try:
            os._exit(0 if server.ask("api/state")[0] == 200 else 1)
        except OSError:
            os._exit(2)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_strangers():
    """Who does not know the address, is another user, or comes from another site, gets nothing."""
    profile = record("ls", "ls", "/")
    with Server(profile) as server:
        page = "api/overview"
        check(server.ask(page)[0] == 200, "the page's own question is refused")
        check(os.geteuid() != 0 or not ask_as_user(server, 65534), "another user's question is answered")
        check(os.geteuid() != 0 or ask_as_user(server, 0), "root's question is not answered")
        refused = {
            "no token": {"token": "0" * 32},
            "a short token": {"token": server.token[:-1]},
            "another host": {"headers": {"Host": "example.org"}},
            "a host that ends like ours": {"headers": {"Host": f"example.org:{server.host.split(':')[1]}"}},
            "another origin": {"headers": {"Origin": "https://example.org"}},
            "no origin": {"headers": {"Origin": "null"}},
            "another site": {"headers": {"Sec-Fetch-Site": "cross-site"}},
        }
        for why, options in refused.items():
            status, headers, content = server.ask(page, **options)
            check(status == 403 and b"heaps" not in content, f"{why}: {status} {content[:100]!r}")
            check(headers["Connection"] == "close", f"{why}: the connection stays open")
        for method in ("POST", "PUT", "DELETE", "OPTIONS"):
            check(server.ask(page, method=method)[0] == 405, f"{method} is answered")
        status, headers, _ = server.ask("")
        policy = headers["Content-Security-Policy"] or ""
        check(status == 200 and "default-src 'none'" in policy and "unsafe" not in policy, f"policy: {policy!r}")
        for missing in ("api", "api/", "api/nothing", "../etc/passwd", "page.js/", "%2e%2e/"):
            check(server.ask(missing)[0] == 404, f"{missing} is there")
        for wrong in ("heap=9.9", "heap=0.0&dump=x", "heap=0.0&view=x", "heap=0.0&root=x", "heap=0.0&root=1..2",
                      "heap=0.0&least=nan", "heap=0.0&filter=hide:(", "heap=0.0&direction=sideways",
                      "heap=0.0&direction=callers&function=99999999", "&".join("heap=0.0" for _ in range(200)) + "&dump=x"):
            status, _, content = server.ask("api/tree?" + wrong)
            check(status in (400, 404) and json.loads(content)["error"], f"{wrong[:40]}: {status} {content[:80]!r}")
        for raw in (b"\r\n\r\n", b"GET\r\n\r\n", b"\x16\x03\x01" + b"\0" * 300, b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 20000,
                    b"POST /" + server.token.encode() + b"/api/sql HTTP/1.1\r\nHost: " + server.host.encode() +
                    b"\r\nContent-Length: 99999999999999999999\r\n\r\n"):
            host, port = server.host.split(":")
            with socket.create_connection((host, int(port)), timeout=30) as connection:
                try:
                    connection.sendall(raw)
                    connection.shutdown(socket.SHUT_WR)
                    while connection.recv(65536):
                        pass
                except OSError:
                    pass
        # A request that contradicts itself ends its connection: what follows could be anybody's.
        post, get = f"POST /{server.token}/api/sql HTTP/1.1\r\nHost: {server.host}\r\n", f"GET /{server.token}/api/overview HTTP/1.1\r\n"
        for raw in (post + f"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{get}Host: {server.host}\r\n\r\n",
                    post + "Content-Length: 8\r\nContent-Length: 1\r\n\r\nselect 1",
                    get + f"Host: {server.host}\r\nHost: other.example\r\n\r\n",
                    get + f"Host: {server.host}\r\nOrigin: http://{server.host}\r\nOrigin: http://other.example\r\n\r\n"):
            host, port = server.host.split(":")
            with socket.create_connection((host, int(port)), timeout=30) as connection:
                connection.sendall(raw.encode())
                said = b""
                with contextlib.suppress(ConnectionResetError):
                    said = connection.recv(65536)
            check(said == b"", f"{raw!r}: {said[:200]!r}")
        check(server.ask(page)[0] == 200, "the server does not answer any more")


def ask_for_trace(path, method="GET", body=None, **headers):
    """Ask as Perfetto UI does. Return the status, the headers and the body."""
    connection = http.client.HTTPConnection("127.0.0.1:9001", timeout=30 * SLOWNESS)
    connection.request(method, path, body, {"Origin": "https://ui.perfetto.dev", **headers})
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return answer.status, answer.headers, content


def open_in_perfetto(server, profile=0):
    """Return the path at which the server hands the trace out."""
    url = server.json(f"api/perfetto?profile={profile}", method="POST")["url"]
    found = re.fullmatch(r"https://ui\.perfetto\.dev/#!/\?url=http://127\.0\.0\.1:9001(/([0-9a-f]{32})/symbolized-trace)", url)
    check(found and found[2] != server.token, f"the address of Perfetto UI is {url}")
    return found[1]


def test_perfetto():
    """Perfetto UI reads the trace's very bytes after the user asked for it; nobody else reads any."""
    profile = record("perfetto", "jq", "-n", "[range(2000) | tostring] | length")
    imported = at("imported.collapsed")
    with open(imported, "w", encoding="utf-8") as file:
        file.write("main;leaf 7000\n")
    with open(os.path.join(profile, "symbolized-trace"), "rb") as file:
        trace = file.read()
    if not own_network():
        skip("this user cannot have a network namespace with a free port 9001")
    with Server(profile) as other:
        with Server(profile, imported) as server:
            with socket.socket() as early:
                check(early.connect_ex(("127.0.0.1", 9001)) != 0, "the port is open before the user asks for it")
            path = open_in_perfetto(server)
            status, headers, content = ask_for_trace(path)
            check(status == 200 and content == trace, f"{status}, {len(content)} bytes, the trace has {len(trace)}")
            check(headers.get_all("Access-Control-Allow-Origin") == ["https://ui.perfetto.dev"], f"{headers}")
            check(headers["Cache-Control"] == "no-store", f"{headers}")
            status, headers, content = ask_for_trace(path, "HEAD")
            check(status == 200 and content == b"" and headers["Content-Length"] == str(len(trace)), f"HEAD: {status} {headers}")
            status, headers, _ = ask_for_trace(path, "OPTIONS", **{"Access-Control-Request-Private-Network": "true"})
            check(status == 204 and headers["Access-Control-Allow-Private-Network"] == "true" and
                  headers["Access-Control-Allow-Origin"] == "https://ui.perfetto.dev", f"OPTIONS: {status} {headers}")
            token = path.split("/")[1]
            refused = {
                "no token": ("/symbolized-trace", "GET", {}), "the root": ("/", "GET", {}), "a star": ("*", "OPTIONS", {}),
                "Perfetto UI's question for its own server": ("/status", "POST", {}),
                "another token": (f"/{'0' * 32}/symbolized-trace", "GET", {}),
                "the page's token": (f"/{server.token}/symbolized-trace", "GET", {}),
                "a short token": (path[:32] + "/symbolized-trace", "GET", {}), "another file": (f"/{token}/../../etc/passwd", "GET", {}),
                "another host": (path, "GET", {"Host": "example.org"}), "a name": (path, "GET", {"Host": "localhost:9001"}),
                "another origin": (path, "GET", {"Origin": "https://example.org"}),
                "no origin": (path, "GET", {"Origin": "null"}),
                "the page's own origin": (path, "GET", {"Origin": f"http://{server.host}"}),
                "a stranger's preflight": (path, "OPTIONS", {"Origin": "https://example.org"}),
            }
            for why, (where, method, headers) in refused.items():
                status, headers, content = ask_for_trace(where, method, **headers)
                check(status == 403 and len(content) < 100 and not headers["Access-Control-Allow-Origin"],
                      f"{why}: {status} {content[:99]!r}")
            for method in ("POST", "PUT", "DELETE", "TRACE"):
                status, headers, _ = ask_for_trace(path, method, body=b"x" * 100000)
                check(status == 405 and not headers["Access-Control-Allow-Origin"], f"{method}: {status}")

            check(server.ask("api/perfetto")[0] == 405, "GET opens the port")
            check(server.ask("api/perfetto", method="POST", headers={"Origin": "https://ui.perfetto.dev"})[0] == 403,
                  "another page opens the port")
            for question, wanted, words in (("profile=1", 400, "is collapsed stacks: Perfetto UI can open traces only"),
                                            ("profile=2", 404, "no profile 2"), ("profile=x", 400, "profile=x")):
                status, _, content = server.ask(f"api/perfetto?{question}", method="POST")
                check(status == wanted and words in json.loads(content)["error"], f"{question}: {status} {content!r}")
            check(ask_for_trace(path)[2] == trace, "a refused request ends the last one")
            again = open_in_perfetto(server)
            check(ask_for_trace(path)[0] == 403 and ask_for_trace(again)[2] == trace, "the last address still has the trace")
            status, _, content = other.ask("api/perfetto", method="POST")
            check(status == 409 and "another program has port 9001" in json.loads(content)["error"], f"{status} {content!r}")
        check(ask_for_trace(open_in_perfetto(other))[2] == trace, "the port is not free again")


def test_command_line():
    """The verb's messages and exit codes; and the unix socket, which only the user can reach."""
    profile = record("true", "true")
    for arguments, status in ((["--port", "70000"], 2), (["--nothing"], 2), ([at("missing")], 1), ([__file__], 1)):
        outcome = call(TOOL, "view", "--no-browser", *arguments)
        check(outcome.status == status and b"heap_profile: " in outcome.stderr, f"{arguments}: {outcome.status}")
    browser = at("browser")
    with open(browser, "w", encoding="utf-8") as out:
        out.write(f"#!/bin/sh\ngrep Sig /proc/$$/status > {browser}.new; cat $1 >> {browser}.new; mv {browser}.new {browser}.out\n")
    os.chmod(browser, 0o700)
    with subprocess.Popen([TOOL, "view", profile], env={**os.environ, **ENVIRONMENT, "BROWSER": browser, "DISPLAY": ":0"},
                          stdout=subprocess.PIPE, text=True) as server:
        address = server.stdout.readline().split()[-1]
        wait_until(lambda: os.path.exists(f"{browser}.out"), "the browser is started")
        with open(f"{browser}.out", encoding="utf-8") as found:
            text = found.read()
        check(address in text and not any(int(mask, 16) & 1 << 12 for mask in re.findall(r"SigIgn:\s+(\w+)", text)),
              f"the browser's signals and page: {text}")
        server.send_signal(signal.SIGTERM)
    path = at("socket")
    process = subprocess.Popen([TOOL, "view", "--listen", path, profile], env=dict(os.environ, **ENVIRONMENT),
                               stdout=subprocess.PIPE, text=True)
    token = re.search(r"/([0-9a-f]{32})/", process.stdout.readline()).group(1)
    check(os.stat(path).st_mode & 0o777 == 0o600, f"the socket has mode {os.stat(path).st_mode:o}")
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        connection.sendall(f"GET /{token}/api/overview HTTP/1.0\r\nHost: localhost:8000\r\n\r\n".encode())
        answer = b""
        while part := connection.recv(65536):
            answer += part
    check(b"200 OK" in answer and b'"profiles"' in answer, f"over the socket: {answer[:100]!r}")
    process.send_signal(signal.SIGINT)
    check(process.wait(30 * SLOWNESS) == 0, "Control-C is no failure")
    check(not os.path.exists(path), "the socket is left behind")


if __name__ == "__main__":
    main()
