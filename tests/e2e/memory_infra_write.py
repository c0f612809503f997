#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Profiles of real programs, and constructed traces, written as Chrome's memory dumps: the files meet the requirements of
the trace viewer, symbolize_trace and diff_heap_profiler, and have the figures of our other tools.

    memory_infra_write.py CASE
"""

import collections
import gzip
import json
import os
import shutil
import subprocess
import sys
import time

from harness import TOOL, TRACECONV, check, main, make_work_directory, need, program, run
from memory_infra_file import File, Frame, Rules, leaks, named, places
from memory_infra_made import Made
from perfetto_bytes import field, packet

WORK = make_work_directory("memory-infra-")
# Some of its functions hold memory to the end.
HOLDER = """
import os, sqlite3, json, time
kept = [[b"x" * (100 + i % 900) for i in range(20000)], json.loads("[" + ",".join('{"a": %d}' % i for i in range(20000)) + "]")]
base = sqlite3.connect(":memory:")
base.execute("create table t (a text)")
base.executemany("insert into t values (?)", [("text %d" % i,) for i in range(20000)])
time.sleep(1)  # its memory is looked at every now and then: a shorter life may be missed
os._exit(0)
"""


def at(name):
    return os.path.join(WORK, name)


def convert(trace, *options, out=None, odd=()):
    """Convert. Return the content of the file, after a check of all requirements."""
    outcome = run([TRACECONV, "memory_infra", *options, trace, *([at(out)] if out else [])])
    check(outcome.status == 0, f"{options}: {outcome.status}, {outcome.stderr!r}")
    check(outcome.stderr == b"", f"{options}: {outcome.stderr!r}")
    file = File(at(out) if out else outcome.stdout)
    for broken in Rules(file, odd).broken:
        check(False, f"{os.path.basename(trace)} {options}: {broken}")
    return file


def profiled(name, *command, options=("-i", "512")):
    directory = at(name)
    outcome = run([TOOL, "host", "--quiet", "-o", directory, *options, "--", *command])
    check(outcome.status == 0, f"{command}: {outcome.status}, {outcome.stderr[-300:]!r}")
    return directory


def report(trace, *options):
    outcome = run([TOOL, "report", "--json", *options, trace])
    check(outcome.status == 0, f"report {options}: {outcome.stderr!r}")
    return {(heap["pid"], heap["heap"]): heap for heap in json.loads(outcome.stdout)["heaps"]}


def same(got, wanted, what):
    if got != wanted and isinstance(got, dict):
        wrong = [key for key in {*got, *wanted} if got.get(key) != wanted.get(key)][:3]
        got, wanted = {key: got.get(key) for key in wrong}, {key: wanted.get(key) for key in wrong}
    check(got == wanted, f"{what}\n  gave   {got}\n  wanted {wanted}"[:3000])


def whole(heap, figure):
    return int(heap["total"][figure]["estimate"] + 0.5)


# --- real programs ---


def holds_what_the_report_has(directory, file, what):
    """Each heap's sums are the report's, and each stack's too, except for rounding; so are the names."""
    for (pid, name), heap in report(directory).items():
        key = "malloc" if name == "libc.malloc" else name
        dump = file.dump(pid)
        sizes, counts = dump.sum(key)
        check(abs(sizes - whole(heap, "space")) <= 1, f"{what}: {sizes} bytes, the report has {heap['total']['space']}")
        check(abs(counts - whole(heap, "objects")) <= 1, f"{what}: {counts} allocations")
        wanted = collections.Counter()
        for site in heap["callsites"]:
            stack = tuple(frame["name"] or None for frame in site["frames"])
            wanted[stack] += site["space"]["estimate"]
        got, merged = collections.Counter(), collections.Counter()
        for (names, _), (size, _) in named(dump.sites(key)).items():
            inner = names[1:] if names[0] in ("malloc", "mmap", f"{name}::allocate") else names
            got[tuple(None if name.startswith("pc:") or " @ " in name else name for name in inner)] += size
            merged[tuple(None if name.startswith("pc:") or " @ " in name else name for name in inner)] += 1
        for stack, estimate in wanted.items():
            slack = sum(1 for site in heap["callsites"]) if None in stack else merged[stack] + len(wanted)
            check(abs(got[stack] - estimate) <= slack or (stack not in got and estimate < 1),
                  f"{what}: {stack} has {got[stack]}, the report {estimate}")


def test_python():
    directory = profiled("python", sys.executable, "-c", HOLDER, options=("-i", "512"))
    file = convert(directory)
    holds_what_the_report_has(directory, file, "python3")
    dump = file.dump()
    sizes, counts = dump.sum()
    check(sizes > 10_000_000 and counts > 10_000, f"python3 holds {sizes} bytes in {counts}")
    check(file.names[dump.pid].startswith("python3"), f"it is called {file.names}")
    labels = file.told("process_labels")[0]["args"]["labels"]
    check(labels.startswith(os.path.basename(sys.executable)) or sys.executable in labels, f"labels {labels!r}")
    resident = dump.totals()["resident_set_bytes"]
    check(sizes // 2 < resident <= dump.totals()["peak_resident_set_bytes"], f"totals {dump.totals()}")
    check(dump.totals()["is_peak_rss_resetable"] is False, f"totals {dump.totals()}")
    check(any("libc.so" in region.file and region.build_id and region.offset for region in dump.regions()),
          f"regions {dump.regions()}")


def test_dump_at_max():
    """With --dump-at-max the file shows the moment of the peak, before the program frees its memory."""
    need("sqlite3", "xmllint")
    statement = "create table t(a); with recursive n(i) as (select 1 union all select i+1 from n where i < 50000) " \
                "insert into t select hex(i) || 'some text' from n; select count(*) from t;"
    document = at("big.xml")
    with open(document, "w", encoding="utf-8") as out:
        out.write("<a>" + "<b c='d'>text</b>" * 20000 + "</a>")
    for name, command in (("sqlite3", ["sqlite3", ":memory:", statement]), ("xmllint", ["xmllint", "--noout", document])):
        directory = profiled(name, *command, options=("-i", "512", "--dump-at-max"))
        heap = next(iter(report(directory, "--view", "max").values()))
        peak = sum(site["max"]["estimate"] for site in heap["callsites"]) if "max" in heap["callsites"][0] else None
        file = convert(directory)
        sizes, counts = file.dump().sum()
        check(sizes > 1_000_000 and counts > 100, f"{name}: {sizes} bytes in {counts}")
        if peak is not None:
            check(abs(sizes - peak) <= 1, f"{name}: {sizes} bytes, the report's peak is {peak}")
        later = profiled(name + " plain", *command)
        check(convert(later, "--max").dump().sum()[0] > 1_000_000, f"{name}: --max of a usual profile")
        check(convert(later).dump().sum()[0] < sizes // 4, f"{name}: it gives its memory back")


def compile_leak(name, *flags, compiler="gcc"):
    source, binary = at("leak.c"), at(name)
    with open(source, "w", encoding="utf-8") as out:
        out.write("#include <stdlib.h>\n#include <unistd.h>\nchar padding[100000] = {1};\nvoid *volatile kept;\n"
                  "__attribute__((noinline)) static void hold_some(int size)\n{\n    kept = malloc(size);\n"
                  "    kept = malloc(size + 1);\n}\n"
                  "__attribute__((noinline)) static void hold_more(void)\n{\n    hold_some(5000);\n    hold_some(7000);\n}\n"
                  "int main(void)\n{\n    hold_more();\n    _exit(0);\n}\n")
    done = run([compiler, "-g", "-O1", "-fno-optimize-sibling-calls", *flags, source, "-o", binary])
    if not check(done.status == 0, f"{compiler} {flags}: {done.stderr[-300:]!r}"):
        return None, None
    stripped = at(name + "-stripped")
    check(run(["strip", "-o", stripped, binary]).status == 0, "strip")
    return binary, stripped


def test_memory_by_kind():
    """A dump has the process's private memory by kind, whose sum the viewer's columns show: what was resident then."""
    directory = profiled("kinds", sys.executable, "-c", HOLDER)
    dump = convert(directory).dump()
    regions = [region for region in dump.dumps["process_mmaps"]["vm_regions"] if region["bs"]]
    dirty = {region["mf"]: int(region["bs"]["pd"], 16) for region in regions}
    check({"[heap]", "[stack]"} <= set(dirty), f"{dirty}")
    check(all(set(region["bs"]) == {"pd", "sw"} for region in regions), f"{regions}")
    resident = dump.totals()["resident_set_bytes"]
    check(dump.sum()[0] // 2 < sum(dirty.values()) <= 1.1 * resident, f"{sum(dirty.values())} bytes of {resident}: {dirty}")


def test_exec():
    """The heaps of a process before and after an exec are in one event: diff_heap_profiler takes only the first of a
    process. So has the file that is read back both heaps, each with its own figures."""
    binary, _ = compile_leak("after", "-pie", "-fPIE")
    directory = profiled("exec", "/bin/sh", "-c", f"exec {binary}", options=("-i", "1"))
    heaps = report(directory)
    check(len(heaps) == 2, f"heaps {list(heaps)}")
    file = convert(directory, out="exec.json")
    check(len(file.dumps) == 1, f"{len(file.dumps)} events of {[dump.heaps() for dump in file.dumps]}")
    dump = file.dump()
    names = {name: "malloc" if name == "libc.malloc" else name for _, name in heaps}
    same(sorted(dump.heaps()), sorted(names.values()), "allocators")
    for (_, name), heap in heaps.items():
        sizes, counts = dump.sum(names[name])
        check((sizes, counts) == (whole(heap, "space"), whole(heap, "objects")), f"{name}: {sizes} bytes, {counts}")
    check(dump.sum()[0] == 5000 + 5001 + 7000 + 7001, f"the program: {dump.sum()}")
    check(file.names[dump.pid] == os.path.basename(binary), f"it is called {file.names}")
    again = report(at("exec.json"))
    same({key: whole(heap, "space") for key, heap in again.items()}, {key: whole(heap, "space") for key, heap in heaps.items()},
         "read back")


def test_addresses_without_names():
    """Addresses without names are where symbolize_trace expects them, for every linker: it finds the functions without
    corrections."""
    need("gcc", "strip", "addr2line")
    kinds = {"pie": ["-pie", "-fPIE"], "fixed": ["-no-pie", "-fno-pie"]}
    if shutil.which("ld.lld") and shutil.which("clang"):
        kinds["lld"] = ["-fuse-ld=lld", "-pie", "-fPIE", "-Wl,-z,separate-code"]
    for kind, flags in kinds.items():
        binary, stripped = compile_leak(kind, *flags, compiler="clang" if kind == "lld" else "gcc")
        if binary is None:
            continue
        file = convert(profiled("of " + kind, stripped, options=("-i", "1", "--no-symbols")))
        found = [address for path, address in places(file).values() if path == stripped]
        check(len(found) >= 4, f"{kind}: {len(found)} addresses of the program")
        outcome = run(["addr2line", "-f", "-e", binary, *map(hex, found)])
        functions = set(outcome.stdout.decode().split("\n")[::2]) - {""}
        check(functions >= {"hold_some", "hold_more", "main"}, f"{kind}: addr2line prints {functions}")
        sizes = sorted(size for (names, _), (size, _) in named(file.dump().sites()).items() if size in (5000, 5001, 7000, 7001))
        check(sizes == [5000, 5001, 7000, 7001], f"{kind}: sites of {sizes}")


def test_names_files_lines():
    need("gcc")
    binary, _ = compile_leak("named", "-pie", "-fPIE")
    file = convert(profiled("with names", binary, options=("-i", "1")))
    frames = {frame for stack, _ in file.dump().sites() for frame in stack}
    lines = {frame.line for frame in frames if frame.name == "hold_some"}
    check({7, 8} <= lines, f"lines of hold_some: {lines}")
    check(any(frame.name == "hold_more" and frame.file.endswith("leak.c") for frame in frames), f"{frames}")
    total = sum(size for (stack, _), (size, _) in file.dump().sites().items() if stack[1].name == "hold_some")
    check(total == 24002, f"hold_some holds {total}")


def test_host_option():
    directory = profiled("beside", sys.executable, "-c", HOLDER, options=("-i", "4096", "--memory-infra"))
    file = File(os.path.join(directory, "memory_infra.json.gz"))
    check(file.packed and Rules(file).broken == [], f"{Rules(file).broken}")
    same(file.document, convert(directory).document, "next to the trace, and converted")
    without = profiled("without", "true")
    check(not os.path.exists(os.path.join(without, "memory_infra.json.gz")), "written without the option")


def test_running_programs():
    """-n and -p with continuous dumps write a dump for each."""
    process = subprocess.Popen([program("long_runner")], stdout=subprocess.DEVNULL)
    outcome = run([TOOL, "-p", str(process.pid), "-d", "1500", "-c", "300", "-i", "64", "--memory-infra", "-o", at("runs")])
    process.wait()
    if outcome.status == 3:
        print("SKIP: it cannot be attached to here:", outcome.stderr[-200:])
        sys.exit(77)
    check(outcome.status == 0, f"-p: {outcome.status}, {outcome.stderr!r}")
    check(b"memory_infra.json.gz" in outcome.stderr, f"it is not named: {outcome.stderr!r}")
    file = File(at("runs/memory_infra.json.gz"))
    check(Rules(file).broken == [], f"{Rules(file).broken}")
    check(len(file.dumps) >= 3, f"{len(file.dumps)} dumps")
    times = [dump.event["ts"] for dump in file.dumps]
    check(times == sorted(times) and len(set(times)) == len(times), f"times {times}")
    check([dump.event["id"] for dump in file.dumps] == [hex(i + 1) for i in range(len(times))], "ids")
    check(all(dump.totals() for dump in file.dumps), "totals of each dump")
    check(file.dump().sum()[0] > 0, "the last dump is empty")


# --- constructed traces ---


def small(name="small", **more):
    """Make a trace: main calls own, which holds 10 and calls deep, which holds 4; another heap, a thread, types and contexts."""
    made = Made()
    made.process(7, "/bin/prog", "a b", "c,d")
    made.threads = [(8, 7, "worker")]
    main, own, deep = (made.stack(*names) for names in (("main",), ("main", "own"), ("main", "own", "deep")))
    samples = [
        made.sample(own, 1000, 10, [(7, "Node", ("load",), 600, 6), (8, "Edge", ("load", "parse"), 300, 3), (8, "", (), 100, 1)]),
        made.sample(deep, 400, 4, [(9, "Node", (), 400, 4)]),
        made.sample(main, 50, 1),
    ]
    made.dump(2000, {(7, "libc.malloc"): samples, (7, "pool/of things"): [made.sample(deep, 77, 7)]})
    return made.write(at(name), **more)


def test_by_type():
    file = convert(small())
    same(named(file.dump().sites()), {
        (("malloc", "own", "main"), "Node"): (600, 6), (("malloc", "own", "main"), "Edge"): (300, 3),
        (("malloc", "own", "main"), "[unknown]"): (100, 1), (("malloc", "deep", "own", "main"), "Node"): (400, 4),
        (("malloc", "main"), "[unknown]"): (50, 1),
    }, "by type")
    same(named(file.dump().sites("pool:of things")),
         {(("pool/of things::allocate", "deep", "own", "main"), "[unknown]"): (77, 7)}, "the other heap")
    same(file.dump().attribute("malloc", "size"), 1450, "the allocator")
    same(file.metadata["heapprofd-heap-7-1"]["name"], "pool/of things", "the heap's own name")
    same(file.names, {7: "prog"}, "process_name")
    same(file.told("process_labels")[0]["args"]["labels"], "/bin/prog 'a b' c,d", "process_labels")


def test_stack_modes():
    trace = small()
    sites = {mode: named(convert(trace, "--stack-mode", mode).dump().sites())
             for mode in ("native", "native-with-thread-names", "pseudo", "mixed")}
    same(sites["native"], named(convert(trace).dump().sites()), "the default is native")
    same(sites["native-with-thread-names"], {
        (("malloc", "own", "main", "<unknown>"), "Node"): (600, 6), (("malloc", "own", "main", "worker"), "Edge"): (300, 3),
        (("malloc", "own", "main", "worker"), "[unknown]"): (100, 1),
        (("malloc", "deep", "own", "main", "<unknown>"), "Node"): (400, 4),
        (("malloc", "main", "<unknown>"), "[unknown]"): (50, 1),
    }, "with thread names")
    same(sites["pseudo"], {
        (("malloc", "load"), "Node"): (600, 6), (("malloc", "parse", "load"), "Edge"): (300, 3),
        (("malloc", "[no context]"), "[unknown]"): (150, 2), (("malloc", "[no context]"), "Node"): (400, 4),
    }, "pseudo stacks")
    same(sites["mixed"], {
        (("malloc", "own", "main", "load"), "Node"): (600, 6),
        (("malloc", "own", "main", "parse", "load"), "Edge"): (300, 3), (("malloc", "own", "main"), "[unknown]"): (100, 1),
        (("malloc", "deep", "own", "main"), "Node"): (400, 4), (("malloc", "main"), "[unknown]"): (50, 1),
    }, "mixed stacks")


def test_several():
    """There are two processes: one ends before the second round, the other has three dumps."""
    made = Made()
    made.process(7, "/bin/long")
    made.process(9, "/bin/short")
    stack = made.stack("main", "work")
    for number in range(3):
        heaps = {(7, "libc.malloc"): [made.sample(stack, 100 * (number + 1), number + 1)]}
        if number == 0:
            heaps[9, "libc.malloc"] = [made.sample(stack, 30, 3)]
        if number > 0:
            heaps[7, "pool"] = [made.sample(stack, number, 1)]
        made.dump(1000 * (number + 2), heaps)
    trace = made.write(at("several"))
    file = convert(trace)
    same([(dump.pid, dump.event["id"], dump.event["ts"], dump.heaps()) for dump in file.dumps], [
        (7, "0x1", 2.1, ["malloc"]), (7, "0x2", 3.1, ["malloc", "pool"]), (7, "0x3", 4.1, ["malloc", "pool"]),
        (9, "0x1", 2.1, ["malloc"])], "dumps")
    same([dump.sum()[0] for dump in file.dumps], [100, 200, 300, 30], "sizes")
    same(file.names, {7: "long", 9: "short"}, "names")
    same([(d.pid, d.sum(*d.heaps())) for d in convert(trace, "--dump", "2").dumps], [(7, (200, 2)), (7, (2, 1))], "--dump 2")
    same([(d.pid, d.sum("malloc")) for d in convert(trace, "--dump", "final", "--heap", "libc.malloc").dumps],
         [(7, (300, 3)), (9, (30, 3))], "--dump final --heap")
    same([d.pid for d in convert(trace, "--pid", "9").dumps], [9], "--pid")
    same([d.heaps() for d in convert(trace, "--heap", "pool").dumps], [["pool"], ["pool"]], "--heap pool")
    for options, said in ((("--dump", "4"), b"none of the requested dumps"), (("--heap", "malloc"), b"none of the requested dumps"),
                          (("--dump", "0"), b"counts from 1"), (("--prune", "5"), b"BYTES,COUNT"),
                          (("--stack-mode", "odd"), b"--stack-mode takes"), (("--pid", "x"), b"x")):
        outcome = run([TRACECONV, "memory_infra", *options, trace])
        check(outcome.status in (1, 2) and said in outcome.stderr and outcome.stdout == b"",
              f"{options}: {outcome.status}, {outcome.stderr!r}, {outcome.stdout[:50]!r}")


def test_rounds():
    """An exit is not part of the previous or next round; a round at the end of the session continues around one."""
    made = Made()
    stack = made.stack("main")
    for pid in (7, 8, 9, 10):
        made.process(pid, f"p{pid}")
    # (time, pids of the round, pids that end, last dumps)
    steps = [(2000, (7, 8, 9), ()), (2500, (), (7,)), (2600, (), (8,)), (3000, (9, 10), ()), (4000, (9,), ()), (4000, (), (10,))]
    last = {7: 2500, 8: 2600, 9: 4000, 10: 4000}
    for time_ns, rounds_of, ended in steps:
        heaps = {(pid, "libc.malloc"): [made.sample(stack, pid, 1)] for pid in rounds_of + ended}
        made.dump(time_ns, heaps, ended=ended, final=[pid for pid in rounds_of if last[pid] == time_ns])
    trace = made.write(at("rounds"))
    wanted = {"0x1": [(7, 2.1), (8, 2.1), (9, 2.1)], "0x2": [(7, 2.6), (8, 2.7)], "0x3": [(9, 3.1), (10, 3.1)],
              "0x4": [(9, 4.1)], "0x5": [(10, 4.1)]}
    for file in (convert(trace, out="rounds.json"), convert(at("rounds.json"))):
        got = collections.defaultdict(list)
        for dump in file.dumps:
            got[dump.event["id"]].append((dump.pid, dump.event["ts"]))
        same(dict(got), wanted, "global dumps")
    made.dumps = []
    for time_ns, pid, ended in ((2000, 7, False), (2001, 8, True), (2002, 9, False)):
        made.dump(time_ns, {(pid, "libc.malloc"): [made.sample(stack, 1, 1)]}, ended=[pid] if ended else [], final=[pid])
    same([d.event["id"] for d in convert(made.write(at("end"))).dumps], ["0x1", "0x2", "0x1"], "the session's end")


def test_bytes_of_mappings():
    """Regions have the figures of the trace's smaps, also known zeros, and none for missing ones; snapshots by path
    alone work the same."""
    made = Made()
    made.process(7, "p")
    code = made.mapping("/bin/p", 0x1000, 0x3000)
    made.dump(2000, {(7, "libc.malloc"): [made.sample(made.stack(made.frame("f", code, 0x10)), 1, 1)]})
    entries = [
        field(2, 8) + field(5, b"/bin/p") + field(6, 0x1000) + field(15, 7) + field(3, 0) + field(4, 1),
        field(2, 4) + field(5, b"/lib/data") + field(6, 0x9000) + field(15, 0) + field(3, 3) + field(4, 0) + field(11, 1)
        + field(12, 2) + field(13, 0),
        field(2, 4) + field(5, b"/lib/silent") + field(6, 0xb000),
        field(2, 100) + field(1, b"/apk/one") + field(3, 60) + field(4, 5),
        field(2, 200) + field(1, b"/apk/two") + field(3, 70) + field(4, 0),
    ]
    smaps = packet(field(68, field(1, 7) + b"".join(field(2, entry) for entry in entries)), timestamp=2000)
    trace = made.write(at("mappings"), extra=smaps)
    wanted = {"/bin/p": {"pss": 7, "pd": 0, "sw": 1}, "/lib/data": {"pss": 0, "pd": 3, "pc": 1, "sd": 2, "sc": 0, "sw": 0},
              "/lib/silent": {}, "/apk/one": {"pd": 60, "sw": 5}, "/apk/two": {"pd": 70, "sw": 0}}
    for file in (convert(trace, out="mappings.json"), convert(at("mappings.json"))):
        regions = file.dump().dumps["process_mmaps"]["vm_regions"]
        same({r["mf"]: {k: int(v, 16) // 1024 for k, v in r["bs"].items()} for r in regions}, wanted, "bytes")
        same(sorted(int(r["sz"], 16) // 1024 for r in regions), [4, 4, 8, 100, 200], "sizes")
        check(all(int(r["sa"], 16) >= 1 << 63 for r in regions if "apk" in r["mf"]), f"{regions}")


def test_equal_times():
    """Two dumps with the same time stay two, in their order."""
    made = Made()
    made.process(7, "p")
    for size in (10, 20, 30):
        made.dump(2000, {(7, "libc.malloc"): [made.sample(made.stack("main"), size, 1)]})
    file = convert(made.write(at("at once")))
    same([(d.event["id"], d.event["ts"], d.sum()[0]) for d in file.dumps],
         [("0x1", 2.1, 10), ("0x2", 2.101, 20), ("0x3", 2.102, 30)], "dumps")


def test_outputs():
    """Output is packed if its name says so, plain on standard output, and never replaces the trace itself."""
    trace = small()
    plain, packed, printed = convert(trace, out="a.json"), convert(trace, out="a.json.gz"), convert(trace)
    check(packed.packed and not plain.packed, "gzip by name")
    same(packed.text, plain.text, "packed")
    same(printed.text, plain.text, "standard output")
    outcome = run([TRACECONV, "memory_infra", trace, trace])
    check(outcome.status == 1 and b"the trace itself" in outcome.stderr, f"over the trace: {outcome.stderr!r}")
    with open(trace, "rb") as data:
        piped = run([TRACECONV, "memory_infra"], stdin=data.read())
    same(File(piped.stdout).document, plain.document, "from standard input")
    full = run([TRACECONV, "memory_infra", trace, "/dev/full"])
    check(full.status == 1 and b"cannot be written" in full.stderr, f"a full disk: {full.status}, {full.stderr!r}")


def test_rounding():
    """Estimates are rounded to whole numbers, and their sum is the heap's."""
    made = Made()
    made.process(7, "p")
    samples = [made.sample(made.stack("main", f"f{i}"), 0.4 + i / 7, 0.3 + i / 11) for i in range(500)]
    made.dump(2000, {(7, "libc.malloc"): samples})
    file = convert(made.write(at("rounding")))
    size, count = sum(0.4 + i / 7 for i in range(500)), sum(0.3 + i / 11 for i in range(500))
    same(file.dump().sum(), (int(size + 0.5), int(count + 0.5)), "sums")
    for (names, _), (got, _) in named(file.dump().sites()).items():
        wanted = 0.4 + int(names[1][1:]) / 7
        check(abs(got - wanted) < 1, f"{names}: {got} of {wanted}")


def test_diff_heap_profiler():
    """diff_heap_profiler, with its fault, shows the true figures of one dump and of growth."""
    made = Made()
    made.process(7, "p")
    main, own, deep = (made.stack(*names) for names in (("main",), ("main", "own"), ("main", "own", "deep")))
    made.dump(2000, {(7, "libc.malloc"): [made.sample(own, 1000, 10), made.sample(deep, 400, 4), made.sample(main, 5, 5)]})
    made.dump(3000, {(7, "libc.malloc"): [made.sample(own, 1700, 17), made.sample(deep, 500, 5), made.sample(main, 5, 5)]})
    trace = made.write(at("growth"))
    first, second = (convert(trace, "--dump", str(i)).dump() for i in (1, 2))
    same(leaks(first), {("malloc", "own", "main"): (1000, 10), ("malloc", "deep", "own", "main"): (400, 4),
                        ("malloc", "main"): (5, 5)}, "of one dump")
    same(leaks(second, first), {("malloc", "own", "main"): (700, 7), ("malloc", "deep", "own", "main"): (100, 1)}, "growth")


def test_allocator_frames():
    """If all stacks end in an allocator function, none is added; otherwise one is added to all stacks of the heap."""
    made = Made()
    made.process(7, "p")
    stacks = [made.stack("main", "f", "malloc"), made.stack("main", "operator new(unsigned long)"), made.stack("main", "f")]
    made.dump(2000, {(7, "libc.malloc"): [made.sample(s, 10, 1) for s in stacks[:2]],
                     (7, "libc.mmap"): [made.sample(s, 10, 1) for s in stacks],
                     (7, "malloc"): [made.sample(stacks[2], 10, 1)]})
    file = convert(made.write(at("ends")))
    same(set(named(file.dump().sites())), {(("malloc", "f", "main"), "[unknown]"),
                                           (("operator new(unsigned long)", "main"), "[unknown]")}, "their own")
    same({names for names, _ in named(file.dump().sites("libc.mmap"))},
         {("mmap", "malloc", "f", "main"), ("mmap", "operator new(unsigned long)", "main"), ("mmap", "f", "main")}, "all")
    same({names for names, _ in named(file.dump().sites("malloc-2"))}, {("malloc", "f", "main")}, "as Chrome calls it")
    check("allocator-frame" not in file.metadata["heapprofd-heap-7-0"], "a frame that was not added is named")


def test_long_heap_names():
    """An allocator and its allocations have the heap's full name: different names stay different."""
    made = Made()
    made.process(7, "p")
    names = ["h" * 300 + end for end in ("", "a", "b")]
    stack = made.stack("main", "f")
    made.dump(2000, {(7, name): [made.sample(stack, 10 + i, 1)] for i, name in enumerate(names)})
    dump = convert(made.write(at("long"))).dump()
    same(set(dump.dumps["allocators"]), {name + below for name in names for below in ("", "/allocated_objects")}, "allocators")
    for i, name in enumerate(names):
        same({held for held in dump.sites(name).values()}, {(10 + i, 1)}, "sites")


def test_heap_names_not_utf8():
    """Different names that are not UTF-8 stay different."""
    made = Made()
    made.process(7, "p")
    stack = made.stack("main", "f")
    made.dump(2000, {(7, b"h\xff"): [made.sample(stack, 10, 1)], (7, b"h\xfe"): [made.sample(stack, 20, 1)]})
    dump = convert(made.write(at("bytes"))).dump()
    same({name: list(dump.sites(name).values()) for name in dump.heaps()}, {"h?": [(10, 1)], "h?-2": [(20, 1)]}, "heaps")


def test_deep_stacks():
    for depth in (898, 899, 900, 1200, 5000):
        made = Made()
        made.process(7, "p")
        made.dump(2000, {(7, "libc.malloc"): [
            made.sample(made.stack(*[f"f{i}" for i in range(depth)]), 123, 5), made.sample(made.stack("f0", "g"), 7, 1)]})
        for options in ((), ("--stack-mode", "mixed"), ("--stack-mode", "native-with-thread-names")):
            file = convert(made.write(at("deep")), *options)
            same(file.dump().sum(), (130, 6), f"{depth} frames {options}")
            stack = max((names for names, _ in named(file.dump().sites())), key=len)
            total = depth + 1 + ("native-with-thread-names" in options)
            check(len(stack) == min(total, 900), f"{depth} frames {options}: {len(stack)}")
            check(("[frames left out]" in stack) == (total > 900), f"{depth} frames {options}: cut or not")
            check(stack[:2] == ("malloc", f"f{depth - 1}") and "f0" in stack[-2:], f"{depth}: ends {stack[:2]} {stack[-2:]}")


STRANGE = ['"quoted"', "back\\slash", "new\nline\ttab\r", "\x01\x1f\x7f", "\u00e4\u20ac\U0001f600", "</script>", "operator<< <int>",
           " leading", "pc:", "pc:zz", "pc:12 34", "\u2028\ud7ff\ue000\uffff", "a;b;c", "{}[],:", "'", "x" * 100_000]


def test_strange_names():
    """Strange names in frames, types, contexts, threads, files, paths, commands and heaps do no harm."""
    made = Made()
    made.process(7, "/bin/" + STRANGE[4], *STRANGE)
    made.threads = [(8, 7, STRANGE[0])]
    mapping = made.mapping("/lib/" + STRANGE[0] + STRANGE[1], 0x1000, 0x9000, b"\x12\xff")
    samples = []
    for number, name in enumerate(STRANGE):
        stack = made.stack("main", made.frame("", mapping, 0x10 * (number + 1)), name)
        samples.append(made.sample(stack, number + 1, 1, [(8, name, (name,), number + 1, 1)]))
    samples.append(made.sample(made.stack(made.frame(b"bad \xff\xc0\x80 utf-8")), 99, 1))
    made.dump(2000, {(7, "libc.malloc"): samples, (7, STRANGE[0] + "/" + STRANGE[2]): samples[:2]})
    trace = made.write(at("strange"))
    file = convert(trace, odd=STRANGE)
    got = named(file.dump().sites())
    for number, name in enumerate(STRANGE):
        same(got.get((("malloc", name, f"pc:{0x1001 + 0x10 * (number + 1):x}", "main"), name)), (number + 1, 1), repr(name[:50]))
    check(any("bad \ufffd\ufffd\ufffd utf-8" in names for names, _ in got), "the escaped names differ")
    same(file.dump().regions()[0].file, "/lib/" + STRANGE[0] + STRANGE[1], "path")
    same(file.dump().regions()[0].build_id, "12FF", "build id")
    check(STRANGE[0] + ":" + STRANGE[2] in file.dump().heaps(), f"{file.dump().heaps()}")
    convert(trace, out="strange.json", odd=STRANGE)
    back = report(at("strange.json"))
    names = {frame["name"] for site in back[7, "libc.malloc"]["callsites"] for frame in site["frames"]}
    check(set(STRANGE[:5]) <= names, f"read back: {names}")
    pseudo = named(convert(trace, "--stack-mode", "pseudo", odd=STRANGE).dump().sites())
    same(pseudo.get((("malloc", STRANGE[0]), STRANGE[0])), (1, 1), "context")
    threads = named(convert(trace, "--stack-mode", "native-with-thread-names", odd=STRANGE).dump().sites())
    check(any(names[-1] == STRANGE[0] for names, _ in threads), "thread")


def test_overlapping_mappings():
    """Mappings may overlap, as when one process executes several programs, or have unknown ranges, or be missing."""
    made = Made()
    made.process(7, "p")
    first = made.mapping("/bin/one", 0x1000, 0x3000, b"\x01", 0x200, 0x100)
    second = made.mapping("/bin/two", 0x2000, 0x4000, b"\x02")
    nowhere = made.mapping("/lib/three", 0, 0)
    frames = [made.frame("", first, 0x310), made.frame("", second, 0x20), made.frame("", nowhere, 0x30),
              made.frame("", 0, 0)]
    made.dump(2000, {(7, "libc.malloc"): [made.sample(made.stack(frame), 10, 1) for frame in frames]})
    file = convert(made.write(at("overlap")))
    same({names[1] for names, _ in named(file.dump().sites())},
         {"pc:1011", "0x20 @ two", "0x30 @ three", "<unknown>"}, "labels")
    same([(r.start, r.file, r.offset) for r in file.dump().regions()], [(0x1000, "/bin/one", 0x300)], "regions")


def test_empty_heap():
    """An empty heap is written, with empty columns."""
    made = Made()
    made.process(7, "p")
    made.dump(2000, {(7, "libc.malloc"): [made.sample(made.stack("main"), 0, 0)]})
    trace = made.write(at("nothing"))
    file = convert(trace)
    same(file.dump().sites(), {}, "sites")
    same(file.dump().dumps["heaps_v2"]["allocators"]["malloc"], {"nodes": [], "types": [], "counts": [], "sizes": []}, "columns")


# --- pruning ---


def pruned_by_hand(sites, size, count):
    """Return the sites that should remain after pruning."""
    kept = {key: held for key, held in sites.items() if held[0] >= size or held[1] >= count}
    above = {stack[i:] for stack, _ in kept for i in range(len(stack))}
    found = collections.defaultdict(lambda: (0, 0))
    for (stack, kind), held in sites.items():
        if (stack, kind) not in kept:
            stack = stack[1:]
            while stack and stack not in above:
                stack = stack[1:]
            stack = (Frame("<other>", "", 0), *stack)
        found[stack, kind] = found[stack, kind][0] + held[0], found[stack, kind][1] + held[1]
    return dict(found)


def test_pruning():
    trace = small()
    before = convert(trace)
    for size, count in ((0, 0), (401, 5), (1000, 3), (100000, 100000), (600, 0), (0, 6)):
        file = convert(trace, "--prune", f"{size},{count}")
        wanted = pruned_by_hand(before.dump().sites(), size, count)
        same(file.dump().sites(), wanted, f"pruned by {size},{count}")
        same(file.dump().sum(), before.dump().sum(), f"sums with {size},{count}")
        same(file.dump().dumps["allocators"], before.dump().dumps["allocators"], "allocators")
    check("<other>" not in before.text, "pruned without the option")
    all_of_it = convert(trace, "--prune", "100000,100000").dump()
    same(set(names for names, _ in named(all_of_it.sites())), {("<other>",)}, "all pruned")
    directory = profiled("pruned", sys.executable, "-c", HOLDER)
    usual, less = convert(directory), convert(directory, "--prune", "16384,1024")
    same(less.dump().sites(), pruned_by_hand(usual.dump().sites(), 16384, 1024), "python3, pruned")
    check(0 < len(less.text) < len(usual.text), "it is smaller")


# --- size ---


def memory_of(command):
    """Return a command's peak resident bytes and its duration."""
    began = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    check(status == 0, f"{command}: {status}")
    return usage.ru_maxrss * 1024, time.monotonic() - began


SITES = 250_000


def test_many_sites():
    """The profile bounds the memory: for 250,000 sites of 30 frames the writer needs less than an index of the nodes
    beyond the trace itself, although the text is far larger."""
    made = Made()
    made.process(7, "p")
    outer = [made.frame(f"outer{i}") for i in range(2000)]
    frames = [made.frame(f"function_with_a_name_{i}") for i in range(1000)]
    samples = []
    for i in range(SITES):
        stack = made.stack(*(outer[(i // 1000 * 7 + k * 11) % 2000] for k in range(28)), frames[i // 1000], frames[i % 1000])
        samples.append(made.sample(stack, 1000 + i % 100, 1))
    parts = [samples[i:i + 5000] for i in range(0, len(samples), 5000)]
    trace = write_in_parts(made, parts)
    read, _ = memory_of([TRACECONV, "collapsed", trace, os.devnull])
    out = at("many_sites.json")
    used, seconds = memory_of([TRACECONV, "memory_infra", trace, out])
    text = os.path.getsize(out)
    print(f"{SITES} sites: {text / 1e6:.0f} MB of JSON in {seconds:.1f} s, {used / 1e6:.0f} MB resident, "
          f"{read / 1e6:.0f} of them for the profile")
    check(used - read < SITES * 200, f"{(used - read) / 1e6:.0f} MB beyond the profile")
    check(used < read + text, "the text was held")
    with open(out, encoding="utf-8") as file:
        columns = json.load(file)["traceEvents"][-1]["args"]["dumps"]["heaps_v2"]["allocators"]["malloc"]
    same((len(columns["sizes"]), sum(columns["sizes"])), (SITES, sum(1000 + i % 100 for i in range(SITES))), "sites")


def write_in_parts(made, parts):
    """Write a dump in packets of limited size, as a recorder does."""
    from perfetto_bytes import field, heap_samples, packet, profile_packet
    path = made.write(at("many_sites"))
    with open(path, "ab") as out:
        for index, part in enumerate(parts):
            body = heap_samples(7, part, 2000, "libc.malloc", field(12, 4096))
            out.write(packet(profile_packet([body], index, continued=index + 1 < len(parts)), timestamp=9, sequence=1))
    return path


if __name__ == "__main__":
    main()
