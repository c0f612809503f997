#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""One figure has one source: twenty profiles of different programs, and in each the totals of every heap and its
first rows on every surface. `report --json` is the reference; all others print the same figure and the same limits.

    surfaces.py CASE
"""

import glob
import json
import math
import os
import re

import harness
from exploring import explore, quit_it, until
from harness import BUILD, TOOL, check, main, make_work_directory, need, program
from pprof_check import Pprof
from saved_page import SavedPage
from view import Server

WORK = make_work_directory("surfaces-")
VIEWS = ("space", "objects", "alloc_space", "alloc_objects", "max")
PAIRS = {"space": "objects", "alloc_space": "alloc_objects", "max": "max_objects"}  # bytes and count of a view of the page
FIRST = 3  # rows that are compared
KEEP = "import json; kept = [json.loads('[1, 2, {\"a\": 3}]') for _ in range(4000)]; x = b''.join(b'%d' % i for i in range(9000))"
WAIT = "import time\nkept = []\nfor i in range(4):\n kept += [str(j) * 3 for j in range(3000)]\n del kept[:900]\n time.sleep(0.06)\n"


def at(name):
    return os.path.join(WORK, name)


def tool(*arguments, status=(0,), **options):
    outcome = harness.run([TOOL, *arguments], **options)
    check(outcome.status in status, f"{arguments}: status {outcome.status}: {outcome.stderr[-300:]!r}")
    return outcome.stdout


def json_of(*arguments, **options):
    return json.loads(tool(*arguments, **options))


def record(name, *command, options=("-i", "4096"), stdin=None, status=(0,)):
    tool("host", "-q", *options, "-o", at(name), "--", *command, stdin=stdin, status=status)
    return at(name)


def is_near(one, other):
    return one == other or math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-6)


# --- as people read it ---


def amount(value, counts):
    if counts:
        return f"{value:,.0f}"
    for unit in ("B", "kB", "MB", "GB"):
        if value < 999.5 or unit == "GB":
            return f"{value:.{0 if unit == 'B' or value >= 99.95 else 1 if value >= 9.995 else 2}f} {unit}"
        value /= 1000


def margin(figure, counts):
    """Return the words of an interval, as docs/report.md describes them."""
    value, low, high = figure
    if counts:
        value = float(round(value))
    below, above = (side if side >= 0.5 else 0 for side in (value - low, high - value))
    printed, lower, upper = (amount(one, counts) for one in (value, low, high))
    if (above <= 1.25 * below and below <= 1.25 * above) or printed == lower == upper or \
            (below == 0 and printed == upper) or (above == 0 and printed == lower):
        return f"± {amount(max(above, below), counts)}"
    if below == 0 or lower == printed:
        return f"(up to {upper})"
    number, _, unit = lower.partition(" ")
    return f"({number if unit and unit == upper.partition(' ')[2] else lower} to {upper})"


# --- the surfaces ---


def triple(figure):
    return figure["estimate"], figure["low95"], figure["high95"]


def same(found, wanted, what):
    """Compare (value, low, high); limits that a surface calls unknown are not compared."""
    for one, other, which in zip(found, wanted, ("figure", "lower limit", "upper limit")):
        check(one is None and which != "figure" or is_near(one, other), f"{what}: {which} {one}, report --json has {other}: {found}, {wanted}")


class Reference:
    """The report of a profile."""

    def __init__(self, path, *options):
        self.path, self.options = path, options
        self.heaps = json_of("report", "--json", *options, path)["heaps"]
        check(self.heaps, f"{path}: no heap")

    def name(self, heap):
        return f"{os.path.basename(self.path)} {' '.join(self.options)} {heap['pid']} {heap['heap']}"

    def choice(self, heap):
        return ("--pid", str(heap["pid"]), "--heap", heap["heap"])

    def figures(self, heap, site=None):
        return {view: triple(figure) for view, figure in (site or heap["total"]).items() if isinstance(figure, dict)}


def is_sampled(heap):
    return heap["interval_bytes"] > 1


def compact(reference):
    for heap, other in zip(reference.heaps, json_of("report", "--json", "--compact", *reference.options, reference.path)["heaps"]):
        for site, theirs in ((heap["total"], other["total"]), *zip(heap["callsites"][:FIRST], other["callsites"])):
            for view, figure in reference.figures(heap, site).items():
                found = theirs[view]
                same(found if isinstance(found, list) else (found,) * 3, figure, f"{reference.name(heap)}: compact {view}")


def text(reference):
    for heap in reference.heaps:
        what, total = reference.name(heap), reference.figures(heap)
        said = tool("report", *reference.options, *reference.choice(heap), reference.path).decode()
        lines = dict(re.findall(r"^  (allocated|live|peak) +(.*)$", said, re.M))
        bytes_of, calls = total["alloc_space"][0], total["alloc_objects"][0]
        check(lines["allocated"].startswith(f"{amount(bytes_of, False)} in {amount(calls, True)} call"), f"{what}: {lines}, report --json {total}")
        if not is_sampled(heap):
            check(f"{amount(total['space'][0], False)} exact in" in lines["live"] or heap["partial"], f"{what}: {lines}, {total}")
            continue
        unit = "allocation" if amount(total["objects"][0], True) == "1" else "allocations"
        live = f"{amount(total['space'][0], False)} {margin(total['space'], False)} in {amount(total['objects'][0], True)} {unit} {margin(total['objects'], True)}"
        check(lines["live"] == live, f"{what}: live {lines['live']!r}, not {live!r}")
        peak = f"{amount(total['max'][0], False)} {margin(total['max'], False)}"
        check(lines["peak"].split("; ")[0] == peak, f"{what}: peak {lines['peak']!r}, not {peak!r}")
        functions(reference, heap, what)


def functions(reference, heap, what):
    """Rows of functions are those of the page, in words."""
    if reference.options:
        return
    said = tool("report", "--view", "space", "--cumulative", "--frames", "all", "--top", "20", *reference.choice(heap), reference.path).decode()
    rows = re.findall(r"^ +([\d.,]+ k?M?B) +[\d.]+% (± [\d.,]+ \w+|\([^)]*\)) +[\d,]+ +\S+ \w+  (\S+)", said, re.M)
    check(rows or heap["total"]["space"]["estimate"] < 0.5, f"{what}: no functions in {said[-600:]}")
    reference.functions = getattr(reference, "functions", {})
    reference.functions[heap["pid"], heap["heap"]] = rows


def sql_sums(reference, heap, total, what):
    """The rows of a heap with one dump have the exact totals as their sums; Perfetto's whole numbers are off by half each."""
    if heap["dumps"] != 1 or heap["partial"] or total["exact_alloc_size"] is None:
        return
    (sums,) = json_of("query", "--json", reference.path, "select count(*) as n, total(samples) as samples, sum(alloc_size) as alloc_size, sum(alloc_count) as "
                      "alloc_count, total(alloc_size_variance) as alloc_size_variance, total(alloc_count_variance) as alloc_count_variance "
                      f"from hp_callsite_stats where dump_id = {total['dump_id']}")
    if not sums["n"]:  # without a sample the total has no callsite
        return
    for column in ("alloc_size", "alloc_count") if sums["samples"] >= 1000 else ():  # few are not calibrated
        # Of the samples after a widening there may be too few to calibrate them.
        widened = heap["first_interval_bytes"] != heap["interval_bytes"]
        chance = 6 * sums[column + "_variance"] ** 0.5 if widened else 0
        check(abs(sums[column] - total["exact_" + column]) <= 1e-9 * total["exact_" + column] + 1e-6 + chance,
              f"{what}: the sum of {column} is {sums[column]}, the exact total {total['exact_' + column]}")
    # With --dump-at-max these rows have what was live at the peak.
    at_max = os.path.basename(reference.path) == "peak"
    if at_max or sum((other["pid"], other["heap"]) == (heap["pid"], heap["heap"]) for other in reference.heaps) > 1:
        return
    (whole,) = json_of("query", "--json", reference.path, "select total(size) as alloc_size, total(count) as alloc_count from "
                       "heap_profile_allocation join process using (upid) where size >= 0 and count >= 0 and "
                       f"pid = {heap['pid']} and heap_name = '{heap['heap']}'")
    for column in ("alloc_size", "alloc_count"):
        check(abs(whole[column] - sums[column]) <= sums["n"] / 2 + 0.5,
              f"{what}: rows of heap_profile_allocation have {whole[column]}, those of hp_callsite_stats {sums[column]}")


def sql(reference):
    totals = json_of("query", "--json", reference.path, "select p.pid, t.* from hp_total t join process p using (upid) order by ts")
    last = {(row["pid"], row["heap_name"]): row for row in totals}
    for heap in reference.heaps:
        what, total, row = reference.name(heap), reference.figures(heap), last[heap["pid"], heap["heap"]]
        for view, column in (("space", "live_size"), ("objects", "live_count")):
            same((row[column], row[f"{column}_low"], row[f"{column}_high"]), total[view], f"{what}: hp_total.{column}")
        for view, column in (("alloc_space", "alloc_size"), ("alloc_objects", "alloc_count")):
            same((row[column],), total[view], f"{what}: hp_total.{column}")
        sql_sums(reference, heap, row, what)
        stats = json_of("query", "--json", reference.path, "select * from hp_callsite_stats where dump_id = "
                        f"{row['dump_id']} order by live_size desc, live_count desc limit {FIRST}")
        sites = sorted((reference.figures(heap, site) for site in heap["callsites"]), key=lambda site: (-site["space"][0], -site["objects"][0]))
        for found, site in zip(stats, sites):
            for view, column in (("space", "live_size"), ("objects", "live_count")):
                same((found[column], found[f"{column}_low"], found[f"{column}_high"]), site[view], f"{what}: hp_callsite_stats.{column}")


def pprof(reference):
    for heap in reference.heaps:
        found = glob.glob(os.path.join(glob.escape(reference.path), f"*.{heap['pid']}.{heap['heap']}.final.pb.gz"))
        if not found:
            continue
        with open(found[0], "rb") as file:
            profile = Pprof(file.read())
        what, total = reference.name(heap), reference.figures(heap)
        exact = f"exact: {heap['exact_bytes']} bytes in {heap['exact_calls']} calls"
        check(exact in profile.comments or heap["totals_partial"] or heap["exact_calls"] == 0, f"{what}: {profile.comments}")
        if heap["exact_calls"]:
            same((heap["exact_bytes"], heap["exact_calls"]), (total["alloc_space"][0], total["alloc_objects"][0]), f"{what}: exact totals")
        for view in set(VIEWS) & set(profile.total_of):
            # Each stack is rounded to a whole number, and keeps its estimate.
            rows = sum(site[view]["estimate"] for site in heap["callsites"])
            check(abs(profile.total_of[view] - rows) <= 0.5 * len(heap["callsites"]) + 1e-6, f"{what}: pprof {view} {profile.total_of[view]}, rows {rows}")
        check({"space", "objects"} <= set(profile.total_of), f"{what}: pprof has {profile.total_of}")


def budgets(reference):
    if reference.options:
        return
    names = {"max-live": "space", "max-peak": "max", "max-allocated": "alloc_space", "max-allocations": "alloc_objects"}
    limits = [word for name in names for word in (f"--{name}", "900G" if name != "max-allocations" else "1000000000")]
    results = json_of("check", "--json", *limits, reference.path, status=(0, 1, 2))["results"]
    for heap in reference.heaps:
        for result in results:
            if (result["pid"], result["heap"]) == (heap["pid"], heap["heap"]) and result["value"] is not None:
                same((result["value"], result["low95"], result["high95"]), triple(heap["total"][names[result["budget"]]]),
                     f"{reference.name(heap)}: check {result['budget']}")


def compare(reference):
    """A profile compared with itself does not differ, and both sides are what the report has; leaks has it, too."""
    difference = json_of("diff", "--json", *reference.options, reference.path, reference.path)["heaps"]
    pids = len({heap["pid"] for heap in reference.heaps})
    for found in difference:
        (heap,) = (one for one in reference.heaps if (one["pid"], one["heap"]) == (found["before"][0]["pid"], found["before"][0]["heap"])) \
            if len(found["before"]) == 1 else (None,)
        for view in VIEWS if heap else ():
            what, row = f"{reference.name(heap)}: diff {view}", found["total"][view]
            if row["change"] is None:
                continue  # the file does not contain it
            check(row["change"] == 0 and (not found["same_process"] or row["low95"] == row["high95"] == 0), f"{what}: {row}")
            if not reference.options:
                same((row["before"], row["after"]), (heap["total"][view]["estimate"],) * 2, what)
    if reference.options or pids > 1:
        return
    for process in json_of("leaks", "--json", reference.path)["processes"]:
        for found in process["heaps"]:
            heap = next(one for one in reference.heaps if one["heap"] == found["heap"])
            for view, key in (("space", "total_size"), ("objects", "total_count")):
                same((found[key], found[f"{key}_low95"], found[f"{key}_high95"]), triple(heap["total"][view]), f"{reference.name(heap)}: leaks {key}")
            if found["leaks"]:
                most = max(heap["callsites"], key=lambda site: site["space"]["estimate"])
                check(found["leaks"][0]["size"] >= most["space"]["estimate"] * (1 - 1e-9), f"{reference.name(heap)}: leaks {found['leaks'][0]}, {most}")


def on_screen(reference):
    """explore's first line is the total."""
    if reference.options:
        return
    for heap in reference.heaps[:1]:
        for figure, view in (("space", "space"), ("alloc_space", "alloc_space"), ("max", "max")):
            rows = at(f"rows-{len(os.listdir(WORK))}")
            terminal = explore("--view", figure, *reference.choice(heap), reference.path)
            until(terminal, "Current path", "explore")
            terminal.send("w", "\x15", rows, "enter")
            until(terminal, "Written: ", "explore")
            quit_it(terminal)
            with open(rows, encoding="utf-8") as file:
                first = file.read().splitlines()[2].split()
            # A view without bytes shows the peak instead.
            if triple(heap["total"][view])[0] >= 0.5:
                wanted = [f"{heap['total'][name]['estimate']:.0f}" for name in (view, PAIRS[view])]
                check(first == [*wanted, "everything"], f"{reference.name(heap)}: explore {figure} {first}, {wanted}")
            break


def heaps_of_page(overview):
    for profile in overview["profiles"]:
        for heap in profile["heaps"]:
            yield heap, profile["processes"][heap["process"]]["pid"]


def of_page(figure):
    return figure["value"], figure["low"], figure["high"]


def page(reference):
    """The server's overview, tables and graphs, and the same of a page that is a file."""
    if reference.options:
        return
    tool("view", "--save", at("page.html"), "--no-browser", reference.path)
    saved = SavedPage(at("page.html"))
    os.remove(at("page.html"))
    with Server(reference.path) as server:
        for shown, pid in heaps_of_page(server.json("api/overview")):
            heap = next((one for one in reference.heaps if (one["pid"], one["heap"]) == (pid, shown["name"])), None)
            if heap is None or not shown["dumps"]:
                continue
            what, total = f"{reference.name(heap)}: page", reference.figures(heap)
            for view in VIEWS:
                same(of_page(shown["dumps"][-1][view]), total[view], f"{what}: overview, {view}")
            for view, count in PAIRS.items():
                table = server.json(f"api/table?heap={shown['id']}&by=function&view={view}&order=total&limit=50")
                header, _ = server.tree(heap=shown["id"], view=view)
                whole = saved.header(f"api/tree?heap={shown['id']}&view={view}")["whole"]
                for name, unit in ((view, "bytes"), (count, "count")):
                    same(of_page(table[unit]), total[name], f"{what}: table, {name}")
                    same(of_page(header["whole"][unit]), total[name], f"{what}: graph, {name}")
                    same(of_page(whole[unit]), total[name], f"{what}: saved, {name}")
                if view == "space":
                    words = {(row["key"], amount(row["bytes"]["value"], False), margin(of_page(row["bytes"]), False))
                             for row in table["row"] if row["bytes"]["low"] is not None}
                    for size, limits, name in getattr(reference, "functions", {}).get((pid, shown["name"]), [])[:FIRST]:
                        check(any(row[1:] == (size, limits) for row in words if row[0].split("(")[0] == name) or name.startswith("0x"),
                              f"{what}: {name} {size} {limits} of the report is not in the table: {sorted(words)[:9]}")


def resident(reference):
    """The live blocks of the memory at a dump have the margin of the report, if nothing has changed since."""
    if reference.options:
        return
    for moment in json_of("report", "--rss", "--json", reference.path)["processes"]:
        row = next((one for one in moment.get("allocator_rows", []) if one["name"] == "live_requested"), None)
        heap = next((one for one in reference.heaps if (one["pid"], one["heap"]) == (moment["pid"], "libc.malloc")), None)
        if row and heap and row["bytes"] == round(heap["total"]["space"]["estimate"]):
            value, low, high = triple(heap["total"]["space"])
            check(is_near(row["margin_bytes"], max(high - value, value - low)), f"{reference.name(heap)}: rss {row}, {heap['total']['space']}")


SURFACES = (resident, compact, text, sql, pprof, budgets, compare, page, on_screen)


def hold(*paths, options=(), without=()):
    for path in paths:
        reference = Reference(path, *options)
        for surface in SURFACES:
            if surface not in without:
                surface(reference)


# --- twenty profiles ---


def test_exact():
    """Every allocation is recorded: of a loop, an interpreter, types and contexts, mapped memory."""
    hold(record("loop", program("commanded"), options=("-i", "1"), stdin=b"hold 50 100\nchurn 2000 640\n"),
         record("each", "perl", "-e", "my @k = map { [$_] } 1 .. 500", options=("-i", "1")),
         record("scopes", program("heap_scopes"), options=("-i", "1", "--all-heaps")),
         record("mapped", "/usr/bin/python3", "-c", "import mmap; m = mmap.mmap(-1, 1 << 20)", options=("-i", "1", "--heaps", "libc.mmap")))


def test_sampled():
    """Programs at several intervals: many samples, few, none, and estimates above what is certain."""
    perl = "my @k; push @k, 'x' x 60 for 1..30000; @k = (); my @z = map { 'y' x 300 } 1..2000"
    hold(record("perl", "perl", "-e", perl),
         record("fine", "perl", "-e", perl, options=("-i", "256")),
         record("coarse", "perl", "-e", perl, options=("-i", "131072")),
         record("large", program("commanded"), options=("-i", "10M",), stdin=b"hold 3 600000\nhold 40 16\n"),
         record("none", program("commanded"), options=("-i", "10M",), stdin=b"hold 3 16\ndrop\n"))


def test_by_default():
    """The interval that the profiler chooses itself, threads, and a program that frees everything."""
    hold(record("default", "perl", "-e", "my @k; push @k, [1 .. 5] for 1 .. 9000", options=()),
         record("threads", program("threads_many"), options=("-i", "2048")),
         record("freed", "/usr/bin/python3", "-c", KEEP, options=("-i", "1024", "--heaps", "libc.malloc")))


def test_heaps_and_processes():
    """Several heaps and several processes."""
    hold(record("two", "/usr/bin/python3", "-c", KEEP, options=("-i", "2048", "--heaps", "libc.malloc,python.object")),
         record("pool", program("heap_commanded"), options=("-i", "512", "--all-heaps"), stdin=b"register pool\n" + b"".join(
             b"allocate 1 %d %d Node\n" % (number, 40 + number) for number in range(60))),
         record("family", "sh", "-c", "expr 1 + 1; ls / | wc; :", options=("-i", "4096", "--follow-children")))


def test_dumps_and_filters():
    """Several dumps, the dump of the peak, and stacks that a filter leaves out."""
    dumps = record("dumps", "/usr/bin/python3", "-c", WAIT, options=("-i", "1024", "-c", "80", "--heaps", "libc.malloc"))
    hold(dumps, record("peak", "/usr/bin/python3", "-c", WAIT, options=("-i", "1024", "--dump-at-max", "--heaps", "libc.malloc")))
    hold(dumps, options=("--focus", "list|str|unicode"), without=(sql, pprof))


def test_imported():
    """What another tool wrote has the same figures everywhere, too: a pprof file of ours, and Chrome's memory dumps."""
    need("perl")
    path = record("source", "perl", "-e", "my @k; push @k, 'x' x 60 for 1..9000")
    (file,) = glob.glob(os.path.join(path, "*.pb.gz"))
    dump = at("dump.json")
    harness.run([os.path.join(BUILD, "traceconv"), "memory_infra", path, dump])
    for imported in (file, dump):
        reference = Reference(imported)
        compact(reference)
        compare(reference)


if __name__ == "__main__":
    main()
