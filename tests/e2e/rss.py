#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Why the heap is not the RSS: the rows of report --rss add up to the kernel's figures, and known parts are in
the right rows.

    rss.py CASE
"""

import contextlib
import glob
import json
import os
import re
import shutil
import socket
import subprocess
import tempfile
import time

import harness
from daemon import Commanded, Session, joined, scene, wait_for
from harness import TOOL, check, need, program, run, skip

MIB = 1 << 20
# Each dump has a memory snapshot of its own.
DUMPS_MS = 300
PATIENCE = harness.TIMEOUT
# Meson makes malloc fill all blocks, so that no memory would stay untouched.
os.environ.pop("MALLOC_PERTURB_", None)


def smaps_of(pid):
    """Return {figure of smaps: sum over the mappings, in bytes}."""
    sums = {}
    with open(f"/proc/{pid}/smaps") as file:
        for line in file:
            words = line.split()
            if len(words) == 3 and words[2] == "kB":
                sums[words[0]] = sums.get(words[0], 0) + int(words[1]) * 1024
    return sums


def dumps_of(output):
    """Return how many dumps a recording that goes on has so far."""
    outcome = run([TOOL, "report", "--json", output])
    return json.loads(outcome.stdout)["heaps"][-1]["dumps"] if outcome.status == 0 else 0


def wait_for_snapshot(output):
    """Wait until a memory snapshot is in the profile that was begun after this call: the one of the dump that is being
    written may be older."""
    known = dumps_of(output)
    wait_for("two dumps", lambda: dumps_of(output) >= known + 2)


def child_of(pid):
    """Return the program that host runs; host's other child watches for signals."""
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        children = file.read().split()
    for child in children:
        with open(f"/proc/{child}/comm") as file:
            if file.read() != "signal-watcher\n":
                return int(child)
    return None


def in_words(bytes):
    """Return bytes as reports print them."""
    value, unit = abs(bytes), 0
    while value >= 999.5 and unit < 4:
        value, unit = value / 1000, unit + 1
    digits = 0 if unit == 0 or value >= 99.95 else 1 if value >= 9.995 else 2
    sign = "\N{MINUS SIGN}" if bytes < 0 else ""
    return f"{sign}{value:.{digits}f} {('B', 'kB', 'MB', 'GB', 'TB')[unit]}"


def report_of(output, *options):
    """Return the text of a report, as one line."""
    return " ".join(run([TOOL, "report", *options, output]).stdout.decode().split())


class Table:
    """Return one process of report --rss --json, after a check of its sums."""

    def __init__(self, output, *options):
        outcome = run([TOOL, "report", "--rss", "--json", *options, output])
        check(outcome.status == 0, f"report --rss: {outcome.stderr!r}")
        self.process = json.loads(outcome.stdout)["processes"][-1]
        check(self.process["known"], f"no memory snapshot: {self.process}")
        self.own = self.process["allocator_rows"]
        self.others = self.process["other_rows"]
        self.rows = {row["name"]: row for row in self.own + self.others}
        inner = sum(row["bytes"] or 0 for row in self.own)
        check(inner == self.process["allocator_bytes"],
              f"the allocator's rows give {inner}, not {self.process['allocator_bytes']}")
        total = inner + sum(row["bytes"] for row in self.others)
        check(total == self.process["rss_bytes"],
              f"all rows give {total}, not {self.process['rss_bytes']}")
        for row in self.others:
            check(row["bytes"] <= row["mapped_bytes"] and row["huge_bytes"] <= row["bytes"], f"above what is mapped: {row}")
        check(self.process["allocator_bytes"] <= self.process["allocator_mapped_bytes"], "the allocator's is above what is mapped")
        sizes = [row["bytes"] for row in self.others]
        check(sizes == sorted(sizes, reverse=True), f"the rows are not sorted: {sizes}")
        self.check_text(output, options)

    def check_text(self, output, options):
        """Check that the text report has the same figures."""
        text = run([TOOL, "report", "--rss", *options, output]).stdout.decode()
        for row in self.own + self.others:
            if row["bytes"] is not None:
                figure = in_words(row["bytes"])
                found = any(row["words"] in line and figure in line for line in text.splitlines())
                check(found, f"{row['name']} is not in the text as {figure}")
        check(in_words(self.process["rss_bytes"]) in text, "the RSS is not in the text")
        check(in_words(self.process["profiler_bytes"]) in text, "the profiler's own memory is not in the text")

    def bytes(self, name):
        return self.rows[name]["bytes"] if name in self.rows else 0

    def check_near(self, name, wanted, slack):
        got = self.bytes(name)
        check(abs(got - wanted) <= slack, f"{name}: {got:,}, expected {wanted:,} ± {slack:,}")


@contextlib.contextmanager
def profiled(command, *options, wait=None, interval=4096):
    """Run the program until a memory snapshot is taken. Return its tables, and the kernel's figures just before."""
    with tempfile.TemporaryDirectory(prefix="test-") as directory:
        output = os.path.join(directory, "profile")
        process = subprocess.Popen(
            harness.host_command(command, output, interval, "-c", str(DUMPS_MS), *options),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )
        try:
            wait(process, directory) if wait else process.stdout.readline()
            wait_for_snapshot(output)
            truth = smaps_of(child_of(process.pid))
            process.stdin.close()
            process.wait(PATIENCE)
        finally:
            process.kill()
            process.wait()
            process.stdout.close()
        yield output, truth


def check_total(table, truth, what):
    """Compare with the kernel's figures, which include the profiler's own memory: the program is idle, so its memory
    changes only at its end."""
    total = table.process["rss_bytes"] + table.process["profiler_bytes"]
    check(abs(total - truth["Rss:"]) <= truth["Rss:"] * 0.02 + 256 * 1024,
          f"{what}: RSS {total:,}, smaps {truth['Rss:']:,}")


def check_unexplained(output, kind):
    """Only what the program mapped itself is in no heap, whichever allocator it has."""
    heap = json.loads(run([TOOL, "report", "--json", output]).stdout)["heaps"][-1]
    if kind == "mapped":
        check(heap["partial"] == ["unexplained_memory"], f"{heap['partial']}")
        check(abs(heap["unexplained_bytes"] - 30 * MIB) < MIB, f"{heap['unexplained_bytes']:,}")
    else:
        check(heap["partial"] == [] and heap["unexplained_bytes"] < MIB, f"{kind}: {heap['unexplained_bytes']:,}")


def known(kind, allocator="libc.so.6"):
    """Return the table of a program with memory of this kind."""
    with profiled([program("resident"), kind]) as (output, truth):
        table = Table(output)
        check_total(table, truth, kind)
        check(table.process["allocator"] == allocator, f"allocator {table.process['allocator']}")
        check(0 < table.process["profiler_bytes"] < 16 * MIB, f"profiler: {table.process['profiler_bytes']:,}")
        check_unexplained(output, kind)
        check(table.bytes("files_clean") > 0 and table.bytes("files_written") > 0, "no files")
        check(table.bytes("main_stack") > 0, "no main stack")
        return table


def test_mapped():
    table = known("mapped")
    table.check_near("anonymous", 30 * MIB, MIB)
    check(table.process["allocator_bytes"] < MIB, "the program's mappings count as the allocator's")
    check(any("libc.mmap" in note for note in table.process["not_known"]), "the note about mappings is missing")


def test_own():
    """What is said of the program is without the profiler's ring and tables, which it would not have alone."""
    # Every allocation is recorded: the ring is used once round, and its pages stay.
    command = [program("resident"), "repeated"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as alone:
        alone.stdout.readline()
        truth = smaps_of(alone.pid)["Rss:"]
        alone.stdin.close()
    with profiled(command, interval=1) as (output, with_profiler):
        heap = json.loads(run([TOOL, "report", "--json", output]).stdout)["heaps"][0]
        text = run([TOOL, "report", output]).stdout.decode()
        peak = run([TOOL, "query", output, "select max(rss_size) from hp_timeline where profiler_size > 0"]).stdout
        rows = Table(output).process["rss_bytes"]
    own, ours = heap["peak_rss_bytes"], heap["peak_rss_profiler_bytes"]
    check(with_profiler["Rss:"] > truth + 8 * MIB, f"the ring is not used: {with_profiler['Rss:']:,}, alone {truth:,}")
    # Which pages of files the kernel maps around the touched ones differs from run to run.
    check(abs(own - truth) < MIB, f"resident {own:,}, alone {truth:,}")
    check(abs(own + ours - with_profiler["Rss:"]) < MIB // 4, f"{own:,} and {ours:,} of {with_profiler['Rss:']:,}")
    # The kernel's own count may be a little higher than the largest reading.
    check(own - MIB // 4 < int(peak.split()[-1]) <= own and abs(rows - own) < MIB // 4, f"{peak} in SQL, {rows:,} in the table, {own:,}")
    check("and the profiler's own 8." in text, f"{text!r}")


def test_unexplained():
    """Memory that is in no heap makes figures partial on every surface, however the program mapped it."""
    names = "libc.malloc,libc.mmap"
    for kind, options, is_partial in (("mapped", [], True), ("syscall", [], True), ("mapped", ["--heaps", names], False),
                                      ("syscall", ["--heaps", names], True)):
        with profiled([program("resident"), kind], *options, interval=1) as (output, _):
            what = f"{kind} {options}"
            check_surfaces(output, what, is_partial)
            for surface in [], ["--rss"], ["--rss", "--json"]:
                text = " ".join(run([TOOL, "report", *surface, output]).stdout.decode().split())
                advised = "--heaps libc.m" in text
                check(advised == (not options), f"{what}: {surface} {'advises' if advised else 'lacks'} --heaps: {text!r}")


def check_surfaces(output, what, is_partial):
    (heap,) = [heap for heap in json.loads(run([TOOL, "report", "--json", output]).stdout)["heaps"] if heap["heap"] == "libc.malloc"]
    check(("unexplained_memory" in heap["partial"], heap["totals_partial"]) == (is_partial, is_partial), f"{what}: {heap['partial']}")
    whole = json.loads(run([TOOL, "report", "--json", "--compact", "--heap", "libc.malloc", output]).stdout)["heaps"][0]["total"]["alloc_space"]
    counted = heap["exact_bytes"]
    check(whole == ([counted, None, None] if is_partial else counted), f"{what}: compact {whole}, counted {counted}")
    bytes = heap["unexplained_bytes"]
    check(abs(bytes - 30 * MIB) < MIB if is_partial else bytes < MIB, f"{what}: {bytes:,} bytes in no heap")
    check(bytes <= heap["anonymous_bytes"] < bytes + (40 * MIB if not is_partial else 2 * MIB), f"{what}: of {heap['anonymous_bytes']:,}")
    text = run([TOOL, "report", "--heap", "libc.malloc", output]).stdout.decode()
    check(("of anonymous memory is in no heap" in text) == is_partial, f"{what}: {text!r}")
    check("an allocator has it" not in text, f"{what}: the program mapped it: {text!r}")
    check(("exact" in text) != is_partial, f"{what}: {text!r}")
    for budget in "--max-live", "--max-peak", "--max-allocated":
        done = run([TOOL, "check", "--heap", "libc.malloc", budget, "1G", output])
        check(done.status == (2 if is_partial else 0), f"{what}: {budget}: {done.status}, {done.stdout!r}")
    stat = run([TOOL, "query", output, "select value from stats where name = 'hp_unexplained_memory'"]).stdout.split()[1:]
    check([int(value) for value in stat] == ([bytes] if is_partial else []), f"{what}: {stat}")
    total = run([TOOL, "query", output, "select unexplained_size from hp_total where heap_name = 'libc.malloc'"]).stdout
    check(int(total.split()[-1]) == bytes, f"{what}: {total}")
    finals = glob.glob(f"{output}/*.libc.malloc.final.pb.gz")
    check(len(finals) == 1, f"{what}: pprof files {finals}")
    for path in finals:
        again = json.loads(run([TOOL, "report", "--json", path]).stdout)["heaps"][0]
        check(("unexplained_memory" in again["partial"]) == is_partial, f"{what}: as pprof: {again['partial']}")


def test_shared():
    known("shared").check_near("shared", 30 * MIB, 64 * 1024)


def test_threads():
    # Each of eight threads touches 512 KiB; the rest of its stack comes on top.
    known("threads").check_near("thread_stacks", 8 * 512 * 1024, 8 * 64 * 1024)


def test_guarded_threads():
    """Stacks whose guard pages are a part of their mapping, and which the kernel merges."""
    if tuple(int(part) for part in re.findall(r"\d+", os.uname().release)[:2]) < (6, 15):
        skip("the kernel does not tell which pages are guards (Linux 6.15 does)")
    known("guarded").check_near("thread_stacks", 8 * 512 * 1024, 8 * 64 * 1024)


def test_freed():
    table = known("freed")
    # 150,000 of 200,000 pieces of 208 bytes are free, between pieces that are in use.
    table.check_near("free_lists", 150000 * 208, 3 * MIB)
    table.check_near("live_requested", 50000 * 200, 3 * table.rows["live_requested"]["margin_bytes"])


def test_untouched():
    check_block("untouched")


def test_advised():
    """A large block is the allocator's, whole, if advice of the program divides its mapping."""
    check_block("advised")


def check_block(kind):
    table = known(kind)
    table.check_near("live_requested", 40 * MIB, 256 * 1024)
    table.check_near("untouched", -30 * MIB, 64 * 1024)
    check(10 * MIB <= table.process["allocator_bytes"] < 11 * MIB, f"resident: {table.process['allocator_bytes']:,}")
    table.check_near("anonymous", 0, MIB)


def test_absent():
    """Live memory that is not resident is said to be so."""
    with profiled([program("resident"), "untouched"], interval=1) as (output, _):
        text = report_of(output)
        check("Of 42.0 MB live in malloc's heap, 31.5 MB was in pages that were never touched" in text, f"{text!r}")
        check("less than the heap's peak" in text, f"{text!r}")


def site_of(output, function):
    """Return the callsite of this function in the table."""
    process = json.loads(run([TOOL, "report", "--rss", "--json", output]).stdout)["processes"][-1]
    found = [site for site in process["callsites"] if any(frame.startswith(function) for frame in site["stack"])]
    check(len(found) == 1, f"{function}: {found} of {process['callsites']}")
    text = report_of(output, "--rss")
    check(f"{in_words(found[0]['resident_bytes'])}" in text and function in text, f"no row of {function}: {text!r}")
    return process, found[0]


def test_callsites():
    """Which callsite's blocks are not resident, and around which the allocator's free memory is."""
    with profiled([program("resident"), "untouched"]) as (output, _):
        _, site = site_of(output, "keep_untouched")
        check(abs(site["live_bytes"] - 40 * MIB) < 5000 and abs(site["resident_bytes"] - 10 * MIB) < 5000, f"{site}")
        check(site["free_bytes"] is None, f"free memory where there is little: {site}")
    for interval in 4096, 1:
        with profiled([program("resident"), "freed"], interval=interval) as (output, _):
            process, site = site_of(output, "fragment")
            free = next(row["bytes"] for row in process["allocator_rows"] if row["name"] == "free_lists")
            check(process["piece_bytes"] == (64 * 4096 if interval > 1 else 4096), f"{process['piece_bytes']}")
            check(abs(site["live_bytes"] - 50000 * 200) <= 4 * site["live_margin_bytes"], f"{site}")
            check(site["resident_bytes"] == site["live_bytes"], f"small blocks are resident: {site}")
            # Three of four blocks are free, and a live one is in every page.
            check(abs(site["free_bytes"] - free) < free / 20, f"{site['free_bytes']:,} of {free:,} is free")


def test_read():
    """Pages that were only read are not resident where the kernel has a page of zeros for them; the rows add up."""
    for interval in 4096, 1:
        with profiled([program("resident"), "read"], interval=interval) as (output, truth):
            table = Table(output)
            check_total(table, truth, "read")
            check(table.bytes("free_lists") > -MIB, f"free lists {table.bytes('free_lists'):,}")
            resident = table.bytes("live_requested") + table.bytes("untouched")
            check(resident <= table.process["allocator_bytes"] + MIB, f"resident live blocks: {resident:,}")
            check("-i 1" not in report_of(output, "--rss") or interval > 1, "advice to do what was done")


def test_arenas():
    """Free memory in the arenas of threads, and what returns it."""
    with profiled([program("resident"), "arenas"]) as (output, _):
        table = Table(output)
        table.check_near("free_lists", 12 * 4000 * 1008, 4 * MIB)
        check(table.process["arenas"] >= 8, f"{table.process['arenas']} mappings of arenas")
        rows, first = report_of(output, "--rss"), report_of(output)
        for text in rows, first:
            check("malloc_trim" in text and "MALLOC_ARENA_MAX" in text, f"no remedy: {text!r}")
        part = json.loads(run([TOOL, "report", "--json", output]).stdout)["heaps"][0]["rest_of_rss"]["parts"][0]
        check(part["name"] == "free_lists" and part["bytes"] == table.bytes("free_lists"), f"{part}")
        check(f"{in_words(part['bytes'])} ± {in_words(part['margin_bytes'])} was free in the" in first, f"{part}: {first!r}")
        check(" that were read " in first and " after the start, " in first, f"of no time: {first!r}")
        check("from before the profile" not in rows + first, "nothing is from before the profile")


def test_given_back():
    """A process that gave memory back has a table of the moment with the most, too."""
    def shrink(process, directory):
        process.stdout.readline()
        wait_for_snapshot(os.path.join(directory, "profile"))
        process.stdin.write(b"\n")
        process.stdin.flush()
        process.stdout.readline()

    with profiled([program("resident"), "shrunk"], wait=shrink) as (output, truth):
        table = Table(output)
        check_total(table, truth, "shrunk")
        most = table.process["most"]
        check(most["rss_bytes"] > table.process["rss_bytes"] + 59 * MIB, f"the most: {most['rss_bytes']:,}")
        sums = sum(row["bytes"] or 0 for row in most["allocator_rows"] + most["other_rows"])
        check(sums == most["rss_bytes"], f"its rows give {sums:,}")
        text = report_of(output, "--rss")
        check("The most that was read" in text and in_words(most["rss_bytes"]) in text, f"{text!r}")


def test_passing():
    """The most that a command ever had is the kernel's count, whatever was read."""
    with tempfile.TemporaryDirectory(prefix="test-") as directory:
        output = os.path.join(directory, "profile")
        run(harness.host_command([program("resident"), "passing"], output, 4096))
        heap = json.loads(run([TOOL, "report", "--json", output]).stdout)["heaps"][0]
        end = heap["end"]
        if end["profiler_rss_bytes"] is None:
            harness.skip("it ended before the first reading")
        check(heap["peak_rss_at_least"] is False, "not the kernel's count")
        check(60 * MIB < heap["peak_rss_bytes"] < 66 * MIB, f"the most: {heap['peak_rss_bytes']:,}")
        # The kernel sums up the counters of each processor now and then, so a reading may be a little above its count.
        most = heap["peak_rss_bytes"] + heap["peak_rss_profiler_bytes"]
        check(end["most_rss_bytes"] <= most < end["most_rss_bytes"] + MIB, f"the most: {most:,}, by the kernel's count {end['most_rss_bytes']:,}")
        check("Resident memory reached 6" in report_of(output), "a lower bound in words")


def test_children():
    """The kernel's count of a process that waited for children is not its own."""
    with tempfile.TemporaryDirectory(prefix="test-") as directory:
        output = os.path.join(directory, "profile")
        run(harness.host_command(["sh", "-c", f"{program('resident')} passing </dev/null; sleep 0.3"], output, 4096))
        for heap in json.loads(run([TOOL, "report", "--json", output]).stdout)["heaps"]:
            most = heap["end"]["most_rss_bytes"] if heap["end"] else None
            check(heap["name"] == "resident" or most is None, f"{heap['name']} had {most}")


def test_python_objects():
    """The arenas of python.object have live blocks."""
    script = ("import os, sys; x = [bytes(400) for i in range(100000)]; print('ready', flush=True); "
              "sys.stdin.read(); os._exit(0)")
    with profiled(["/usr/bin/python3", "-c", script]) as (output, truth):
        table = Table(output)
        check_total(table, truth, "python3")
        check(42 * 10**6 < table.bytes("other_heaps") < 60 * 10**6, f"{table.bytes('other_heaps'):,}")
        live, margin = (table.process[f"other_heaps_live_{name}"] for name in ("bytes", "margin_bytes"))
        check(abs(live - 43.3e6) < 4 * margin + 3e6 and margin > 0, f"live {live:,} ± {margin:,}")
        check(table.bytes("anonymous") < 4 * MIB, f"without live blocks: {table.bytes('anonymous'):,}")


def test_runtime():
    """What the heaps do not explain is named, with the tool for it."""
    need("node")
    script = ("const x = []; for (let i = 0; i < 1000000; i++) x.push({i, s: 'a' + i}); console.log('ready'); "
              "process.stdin.on('data', () => 0); globalThis.x = x")
    with profiled(["node", "-e", script]) as (output, _):
        text = report_of(output)
        parts = json.loads(run([TOOL, "report", "--json", output]).stdout)["heaps"][0]["rest_of_rss"]["parts"]
        check(parts[0]["tool"] == "node --heap-prof" and parts[0]["name"] == "anonymous", f"{parts}")
        check("(node --heap-prof)" in text and in_words(parts[0]["bytes"]) in text, f"{text!r}")


def test_php():
    """Arrays of PHP are in its own heap, and the answer names the way to see them."""
    need("php")
    script = "$rows = range(1, 2000000); echo 'ready\n'; fgets(STDIN);"
    with profiled(["php", "-r", script]) as (output, _):
        text = report_of(output)
        check("was Zend's heap" in text and "(USE_ZEND_ALLOC=0 in its environment shows them in malloc's)" in text, f"{text!r}")


def test_rounded():
    table = known("rounded")
    # Chunks have 32 bytes for blocks of 17.
    table.check_near("rounding", 100000 * 15, 300000)


def test_each_dump():
    """Each dump of a running process has its own table, of its own time."""
    with scene() as (daemon, directory):
        process = Commanded(daemon.environment)
        output = os.path.join(directory, "o")
        session = Session(daemon, output, "-p", str(process.pid), "-c", "400")
        joined(daemon, process)
        wait_for("two dumps", lambda: dumps_of(output) >= 2)
        process.tell("hold 200000 100")
        session.end()
        process.end()
        first, last = Table(output, "--dump", "1"), Table(output)
        check(first.process["dumps"] >= 2, f"{first.process['dumps']} dumps")
        check(first.process["dump"] == 1, f"dump {first.process['dump']}")
        grown = last.process["rss_bytes"] - first.process["rss_bytes"]
        check(20e6 < grown < 30e6, f"20 MB and more were allocated between the dumps, {grown:,} bytes are resident")
        begin_ns = 0
        for number, table in ("1", first), (str(last.process["dump"]), last):
            heap = json.loads(run([TOOL, "report", "--json", "--dump", number, output]).stdout)["heaps"][0]
            age_ns = table.process["seconds_before_dump"] * 1e9
            check(age_ns < heap["duration_ns"] - begin_ns, f"of another dump's moment: {age_ns / 1e9} s before dump {number}")
            check(table.process["profiler_bytes"] > 0, "the profiler's own memory is missing")
            begin_ns = heap["duration_ns"]


def test_attached():
    """The memory of a process that ran before is its own, also what lies beside the profiler's ring."""
    with scene() as (daemon, directory):
        process = subprocess.Popen([program("resident"), "shrunk"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        try:
            process.stdout.readline()
            truth = smaps_of(process.pid)["Rss:"]
            output = os.path.join(directory, "o")
            session = Session(daemon, output, "-p", str(process.pid), "-c", "300")
            wait_for("two dumps", lambda: dumps_of(output) >= 2)
            session.end()
        finally:
            process.kill()
            process.wait()
            process.stdin.close()
            process.stdout.close()
        table = Table(output)
        check(abs(table.process["rss_bytes"] - truth) < MIB, f"{table.process['rss_bytes']:,}, before the profile {truth:,}")
        text = report_of(output, "--rss")
        check("allocations from before the profile share one row" in text, f"{text!r}")


def test_between_dumps():
    """A process that ends by itself has the last snapshot that was taken while it ran, without any dump."""
    with tempfile.TemporaryDirectory(prefix="test-") as directory:
        output = os.path.join(directory, "profile")
        process = subprocess.Popen(harness.host_command([program("resident"), "mapped"], output, 4096),
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        process.stdout.readline()
        # The first checkpoint comes after a second; the first snapshot came before it.
        wait_for("a checkpoint", lambda: dumps_of(output) > 0)
        process.stdin.close()
        check(process.wait(PATIENCE) == 0, f"status {process.returncode}")
        process.stdout.close()
        table = Table(output)
        check(table.process["dumps"] == 1 and table.process["rss_bytes"] > 0, f"{table.process}")


def test_ended_before():
    """If a run is too short for a memory snapshot, the report says so and has no rows."""
    with tempfile.TemporaryDirectory(prefix="test-") as directory:
        output = os.path.join(directory, "profile")
        run(harness.host_command(["/bin/true"], output, 4096))
        outcome = run([TOOL, "report", "--rss", "--json", output])
        processes = json.loads(outcome.stdout)["processes"]
        text = run([TOOL, "report", "--rss", output]).stdout.decode()
        if not processes[-1]["known"]:
            check("has no memory snapshot of this process" in text, f"no message: {text!r}")
            check("allocator_rows" not in processes[-1], "rows without a snapshot")


def test_became_another():
    """The memory of a program without a client is kept apart from the blocks of the program before its exec."""
    command = ["env", "LD_PRELOAD=", program("resident"), "mapped"]
    with profiled(command) as (output, truth):
        check(truth["Rss:"] > 30 * MIB, f"the program has {truth['Rss:']:,}")
        outcome = run([TOOL, "report", "--rss", "--json", output])
        for process in json.loads(outcome.stdout)["processes"]:
            check(not process["known"] or process["rss_bytes"] < 20 * MIB, f"env has the program's memory: {process}")


def test_jq():
    need("jq")

    def feed(process, _):
        document = json.dumps([{"number": i, "text": "x" * 50} for i in range(20000)])
        process.stdin.write(document.encode() + b"\n" * 100000)
        process.stdin.flush()
        check(process.stdout.readline() == b"20000\n", "jq did not count")

    with profiled(["jq", "--unbuffered", "length"], wait=feed) as (output, truth):
        check_total(Table(output), truth, "jq")


def test_python3():
    # It ends at once: what the interpreter frees at its end may be seen by a last reading.
    script = ("import os, sys; x = [bytearray(100000) for i in range(100)]; print('ready', flush=True); "
              "sys.stdin.read(); os._exit(0)")
    with profiled(["/usr/bin/python3", "-c", script]) as (output, truth):
        table = Table(output)
        check_total(table, truth, "python3")
        check(10000000 <= table.bytes("live_requested") <= 14000000, "the byte arrays")


def with_allocator(library, rounding):
    """Profile a program with another allocator: the rows add up, and have the program's figures.

    rounding: the allocator's size class for 17 bytes; None if the report calls its classes unknown."""
    found = glob.glob(f"/usr/lib/*/{library}*")
    if not found:
        harness.skip(f"{library} is not installed")
    path = min(found)
    os.environ["LD_PRELOAD"] = path
    name = os.path.basename(path)
    table = known("rounded", name)
    live = table.rows["live_requested"]
    slack = 4 * live["margin_bytes"]
    check(abs(live["bytes"] - 1700000) < slack + 100000, f"17 bytes 100,000 times: {live}")
    check((table.rows["rounding"]["bytes"] is None) == (rounding is None), f"{table.rows['rounding']}")
    check(any("size classes of this allocator are unknown" in note for note in table.process["not_known"]) == (rounding is None),
          f"notes: {table.process['not_known']}")
    if rounding is not None:
        table.check_near("rounding", 100000 * rounding, 100000 * rounding / 4)
    check(table.process["allocator_bytes"] > 100000 * 24, "the allocator's own mappings do not count")
    table = known("freed", name)
    table.check_near("live_requested", 50000 * 200, 4 * table.rows["live_requested"]["margin_bytes"] + 100000)
    table.check_near("free_lists", 150000 * 208, 5 * MIB)
    table = known("untouched", name)
    table.check_near("live_requested", 40 * MIB, 512 * 1024)
    table.check_near("untouched", -30 * MIB, 256 * 1024)
    table = known("mapped", name)
    table.check_near("anonymous", 30 * MIB, MIB)
    check(table.process["allocator_bytes"] < 4 * MIB, "the program's mappings count as the allocator's")


def test_tcmalloc():
    with_allocator("libtcmalloc_minimal.so.4", None)


def test_mimalloc():
    with_allocator("libmimalloc.so.2", None)


def test_jemalloc():
    with_allocator("libjemalloc.so.2", 15)


def test_redis():
    need("redis-server")

    def fill(process, directory):
        path = os.path.join(directory, "socket")
        deadline = time.monotonic() + PATIENCE
        while not os.path.exists(path) and time.monotonic() < deadline:
            time.sleep(0.05)
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(path)
            client.sendall(b"DEBUG POPULATE 100000 key 200\r\n")
            check(client.recv(100).startswith(b"+OK"), "redis did not store the values")
        fill.path = path

    with tempfile.TemporaryDirectory(prefix="test-") as place:
        with profiled_server(place, fill) as (output, truth):
            table = Table(output)
            check_total(table, truth, "redis")
            linked = subprocess.run(["ldd", shutil.which("redis-server")], capture_output=True, text=True, check=True)
            wanted = "libjemalloc.so.2" if "libjemalloc" in linked.stdout else "libc.so.6"
            check(table.process["allocator"] == wanted, f"allocator {table.process['allocator']}")
            check(table.bytes("live_requested") > 100000 * 200, "the values")


@contextlib.contextmanager
def profiled_server(place, fill):
    output, path = os.path.join(place, "profile"), os.path.join(place, "socket")
    command = ["redis-server", "--port", "0", "--unixsocket", path, "--save", "",
               "--appendonly", "no", "--enable-debug-command", "yes"]
    process = subprocess.Popen(
        harness.host_command(command, output, 4096, "-c", str(DUMPS_MS)),
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )
    try:
        fill(process, place)
        wait_for_snapshot(output)
        truth = smaps_of(child_of(process.pid))
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(path)
            client.sendall(b"SHUTDOWN NOSAVE\r\n")
            client.recv(100)
        process.wait(PATIENCE)
    finally:
        process.kill()
        process.wait()
    yield output, truth


if __name__ == "__main__":
    harness.main()
