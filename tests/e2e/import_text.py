#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Text of gperftools, tcmalloc, jemalloc, Go, Java and Valgrind is read as their own tools read it.

    import_text.py CASE
"""

import glob
import gzip
import json
import math
import os
import re
import tempfile

from harness import TOOL, TRACECONV, check, main, need, skip
from import_programs import build, go_environment, go_profiles, run, stacks, write
from perfetto_bytes import field


MAPS = "\nMAPPED_LIBRARIES:\n00400000-00500000 r-xp 00000000 08:01 12 /nowhere/prog\n"


def heaps(path):
    done = run(TOOL, "report", "--json", path)
    check(done.returncode == 0, f"report {os.path.basename(path)}: {done.stderr}")
    return json.loads(done.stdout)["heaps"]


def total(path, view="space"):
    return heaps(path)[0]["total"][view]["estimate"]


def of_go(directory, path, index, unit):
    need("go")
    done = run("go", "tool", "pprof", "-top", "-symbolize=none", "-unit=" + unit, "-sample_index=" + index, path,
               env=go_environment(directory))
    found = re.search(r"of (-?[\d.e+]+)\w* total", done.stdout)
    check(found is not None, f"go tool pprof prints no total: {done.stdout}{done.stderr}")
    return float(found.group(1))


def check_against_go(directory, path, views):
    """go tool pprof cuts each line's fractions off."""
    with open(path) as file:
        lines = sum(" @ " in line for line in file)
    for view, index in views.items():
        ours, theirs = total(path, view), of_go(directory, path, index, "B" if "space" in view else "count")
        check(0 <= ours - theirs <= lines, f"{os.path.basename(path)}, {view}: {ours}, go tool pprof has {theirs}")


def test_go(directory):
    """Go's text has half of the number in its header as the interval, and the names in comments."""
    binary, text, _ = go_profiles(directory, 8192)
    with open(text) as file:
        check("heap/16384" in file.readline() and "# runtime.MemStats" in file.read(), "Go writes another form")
    check_against_go(directory, text, {"space": "inuse_space", "objects": "inuse_objects", "alloc_space": "alloc_space"})
    heap = heaps(text)[0]
    check(heap["interval_bytes"] == 8192 and heap["pid"] is None and heap["duration_ns"] is None, f"{heap['pid']}")
    # What is not known is not printed.
    for command in (["report"], ["diff", text], ["leaks"], ["check", "--max-live", "1"]):
        said = run(TOOL, *command, text).stdout
        check(said != "" and "process 0" not in said and "[0]" not in said and " 0," not in said and "0.00 s" not in said,
              f"{command[0]}: {said}")
    # The binary form of the same moment has the same memory of the function; Go rounds it.
    held = [sum(value for stack, value in stacks(path).items() if stack.endswith("main.main;main.hold"))
            for path in (binary, text)]
    check(held[0] > 0 and abs(held[0] - held[1]) <= 10, f"main.hold has {held}")
    check(re.search(r"main\.hold kept\.go:1\d", run(TOOL, "report", text).stdout) is not None, "it has no lines")


def test_kinds(directory):
    """What the header says decides whether figures are samples, and what they are of."""
    line = "1: 1048576 [2: 2097152] @ 0x401235 0x402235\n"
    header = "heap profile: 1: 1048576 [2: 2097152] @ "
    seen, seen_go = 1 - math.exp(-1048576 / 524288), 1 - math.exp(-1048576 / 262144)
    for kind, interval, live, allocated in (
            ("heapprofile", 1, 1048576, 2097152), ("heapz_v2/524288", 524288, 1048576 / seen, 2097152 / seen),
            ("heap_v2/524288", 524288, 1048576 / seen, 2097152 / seen),
            ("heap/524288", 262144, 1048576 / seen_go, 2097152 / seen_go), ("heap/2", 1, 1048576, 2097152)):
        path = write(directory, "kind.heap", header + kind + "\n" + line + MAPS)
        heap = heaps(path)[0]
        check(heap["interval_bytes"] == interval and abs(total(path) - live) < 1
              and abs(total(path, "alloc_space") - allocated) < 1, f"{kind}: {heap['total']}")
        check_against_go(directory, path, {"space": "inuse_space", "alloc_space": "alloc_space"})
    growth = write(directory, "growth.heap", header.replace("[2: 2097152]", "[1: 1048576]") + "growthz\n"
                   + line.replace("[2: 2097152]", "[1: 1048576]") + MAPS)
    heap = heaps(growth)[0]
    check(heap["heap"] == "growth" and heap["interval_bytes"] == 1 and total(growth) == 1048576
          and "alloc_space" in heap["untold"], f"{heap}")
    check_against_go(directory, growth, {"space": "space", "objects": "objects"})
    done = run(TOOL, "report", write(directory, "other.heap", header + "something\n" + line))
    check(done.returncode == 1 and "line 1" in done.stderr and "something" in done.stderr, done.stderr)
    # What was freed without having been seen.
    negative = write(directory, "negative.heap", "heap profile: 2: 2 [1: 5] @ heapprofile\n"
                     "  -1: -4096 [  1: 8192] @ 0x401235\n  3: 300 [3: 300] @ 0x402235\n" + MAPS)
    check(total(negative) == 300 - 4096 and total(negative, "objects") == 2, f"{heaps(negative)[0]['total']}")
    # Its total is of the sizes of all stacks.
    theirs = of_go(directory, negative, "inuse_space", "B")
    check(theirs == 300 + 4096, f"go tool pprof has {theirs}")
    rows = sorted(site["space"]["estimate"] for site in heaps(negative)[0]["callsites"])
    check(rows == [-4096, 300], f"{rows}")
    # Names of libraries in the short form.
    brief = write(directory, "brief.heap", header + "heapprofile\n" + line + "--- Memory map: ---\n"
                  "  build=/usr/lib\n  400000-500000: $build/prog (@1000) 00112233aabbccdd\n")
    check("prog" in list(stacks(brief))[0], f"{stacks(brief)}")


def test_java(directory):
    """Java's heapz names its numbers after the stacks."""
    path = write(directory, "java.heap", "--- heapz 1 ---\nformat = java\nresolution = bytes\n"
                 "          7048     1 @ 0x00000003 0x00000004\n          4752     9 @ 0x00000004\n\n"
                 "  0x00000003 com.example.A.f (A.java:12)\n  0x00000004 com.example.B.main (/usr/lib/libb.so)\n")
    check_against_go(directory, path, {"space": "inuse_space", "objects": "inuse_objects"})
    check(sorted(stacks(path)) == ["com.example.B.main", "com.example.B.main;com.example.A.f"], f"{stacks(path)}")
    check("A.java:12" in run(TOOL, "report", path).stdout, "a line is lost")
    done = run(TOOL, "report", write(directory, "bad.heap", "--- heapz 1 ---\nformat = java\n 12 x @ 0x1\n"))
    check(done.returncode == 1 and "line 3" in done.stderr, done.stderr)


def test_symbolized(directory):
    """jeprof --raw and ClickHouse put the names of addresses before the profile."""
    profile = "heap_v2/524288\n  t*: 2: 2097152 [0: 0]\n@ 0x401235 0x402235 0x403235\n  t*: 2: 2097152 [0: 0]\n" + MAPS
    symbols = ("--- symbol\nbinary=/usr/bin/prog\n0x0000000000401235 leaf<0000000000001159>\n0x402234 outer--inlined\n"
               "0x403235 main\n---\n--- heap\n")
    path = write(directory, "symbols.heap", symbols + profile)
    check(list(stacks(path)) == ["main [nowhere];outer;inlined;leaf"] or
          [re.sub(r" \[\w+\]", "", stack) for stack in stacks(path)] == ["main;outer;inlined;leaf"], f"{stacks(path)}")
    check(heaps(path)[0]["name"] == "prog", "the program is not named")
    warned = write(directory, "warned.heap", "<jemalloc>: Number of CPUs detected is not deterministic.\n%warn slow\n\n"
                   + profile)
    check(total(warned) == total(path), "warnings before the header")
    done = run(TOOL, "report", write(directory, "cpu.heap", "--- symbol\n0x1 f\n---\n--- profile\n\n"))
    check(done.returncode == 1 and "line 4" in done.stderr and "memprof" in done.stderr, done.stderr)


def test_mmap_regions(directory):
    """gperftools lists what was mapped before what was allocated: these are two heaps."""
    library = glob.glob("/usr/lib/*/libtcmalloc.so.4")
    if not library:
        skip("tcmalloc is not installed")
    out = os.path.join(directory, "tc")
    run(build(directory), env=dict(os.environ, LD_PRELOAD=library[0], HEAPPROFILE=out, HEAP_PROFILE_MMAP="true"))
    (path,) = glob.glob(out + ".*.heap")
    with open(path) as file:
        numbers = [int(number) for number in re.findall(r"\d+", file.readline())[:4]]
    found = heaps(path)
    check([heap["heap"] for heap in found] == ["libc.malloc", "mmap"], f"{[heap['heap'] for heap in found]}")
    figures = [found[0]["total"][view]["estimate"] for view in ("objects", "space", "alloc_objects", "alloc_space")]
    check(figures == numbers, f"malloc: {figures}, the header has {numbers}")
    check(found[1]["total"]["space"]["estimate"] > 0, "nothing was mapped")


def test_names(directory):
    """The names of addresses come from the program where it is: functions, lines and inlined calls."""
    library = glob.glob("/usr/lib/*/libtcmalloc.so.4")
    if not library:
        skip("tcmalloc is not installed")
    for number, options in enumerate(([], ["-Wl,--build-id=none"], ["-no-pie"], ["-fuse-ld=bfd", "-Wl,-z,separate-code"])):
        out = os.path.join(directory, f"tc{number}")
        program = build(directory, *options)
        run(program, env=dict(os.environ, LD_PRELOAD=library[0], HEAPPROFILE=out))
        (path,) = glob.glob(out + ".*.heap")
        text = run(TOOL, "report", path).stdout
        check(re.search(r"1\.00 MB .* make .*< keep < main", text) is not None and "keep kept.c:6" in text,
              f"{options}: {text}")
    # The same in every tool; without the program, the report says where it is looked for.
    check(any("main;keep;make" in re.sub(r" \[\w+\]", "", stack) for stack in stacks(path)), f"{stacks(path)}")
    done = run(TOOL, "query", "--csv", path, "select name from stack_profile_frame where name = 'keep'")
    check("keep" in done.stdout.splitlines()[1:2][0:1] or '"keep"' in done.stdout, f"SQL: {done.stdout}{done.stderr}")
    moved = os.path.join(directory, "elsewhere")
    os.mkdir(moved)
    os.rename(program, os.path.join(moved, "kept"))
    text = run(TOOL, "report", path).stdout
    check("PERFETTO_BINARY_PATH" in text and "make" not in text, f"without the program: {text}")


def test_massif(directory):
    """massif's snapshots with stacks are dumps."""
    need("valgrind", "ms_print")
    path = os.path.join(directory, "massif.out")
    program = build(directory)
    done = run("valgrind", "--tool=massif", "--detailed-freq=1", "--massif-out-file=" + path, program, "x y")
    check(done.returncode == 0, "massif fails: " + done.stderr)
    found = heaps(path)
    check(len(found) == 1 and found[0]["command"] == f"{program} x y" and found[0]["name"] == "kept", f"{found[0]['command']}")
    printed = run("ms_print", path).stdout
    snapshots = re.findall(r"^ +(\d+) +[\d,]+ +([\d,]+) +([\d,]+) +[\d,]+ +0$", printed, re.M)
    peak = int(re.search(r"(\d+) \(peak\)", printed).group(1))
    useful = {int(number): int(useful.replace(",", "")) for number, _, useful in snapshots}
    check(found[0]["peak_live_bytes"] == useful[peak], f"peak {found[0]['peak_live_bytes']}, ms_print has {useful[peak]}")
    check(found[0]["dumps"] >= len(useful) - 1, f"{found[0]['dumps']} dumps of {len(useful)} snapshots")
    at_peak = stacks(path, "max")
    check(any(re.sub(r" \[\w+\]", "", stack).endswith("main;largest;make") and value == 5000000
              for stack, value in at_peak.items()), f"{at_peak}")
    check(total(path) == useful[max(useful)] and "objects" in found[0]["untold"], f"{found[0]['total']['space']}, {useful}")
    text = run(TOOL, "report", path).stdout
    check("kept.c:6" in text and "process" not in text.split("\n")[2] and "0.00 s" not in text and "0 us" not in text, text)
    # A file that ends in a tree is of a process that was killed.
    with open(path) as file:
        whole = file.read()
    cut = write(directory, "cut", whole[: whole.index("heap_tree=peak") + 400].rsplit("\n", 1)[0] + "\n")
    check(heaps(cut)[0]["peak_live_bytes"] > 0, "the part before the cut is lost")
    done = run(TOOL, "report", write(directory, "bad", whole.replace(" n", " m", 1)))
    check(done.returncode == 1 and re.search(r"line \d+ of the massif file", done.stderr), done.stderr)
    done = run(TOOL, "report", write(directory, "empty", whole[: whole.index("heap_tree=") + 15]))
    check(done.returncode == 1 and "has stacks" in done.stderr, done.stderr)


def test_dhat(directory):
    """DHAT's file has totals, the peak and what is left."""
    need("valgrind")
    path = os.path.join(directory, "dhat.out")
    program = build(directory)
    done = run("valgrind", "--tool=dhat", "--dhat-out-file=" + path, program)
    said = {name: tuple(int(number.replace(",", "")) for number in numbers) for name, *numbers in
            re.findall(r"(Total|At t-gmax|At t-end): +([\d,]+) bytes.* in ([\d,]+) blocks", done.stderr)}
    check(len(said) == 3, "DHAT prints no summary: " + done.stderr)
    (heap,) = heaps(path)
    figures = heap["total"]
    for name, bytes_view, count_view in (("Total", "alloc_space", "alloc_objects"), ("At t-gmax", "max", "max_objects"),
                                         ("At t-end", "space", "objects")):
        ours = (figures[bytes_view]["estimate"], figures[count_view]["estimate"])
        check(ours == said[name], f"{name}: {ours}, DHAT prints {said[name]}")
    check(heap["exact_calls"] == said["Total"][1] and heap["pid"] > 0, f"{heap['exact_calls']}")
    check(any(stack.endswith("keep;make;malloc") or "keep;make" in re.sub(r" \[[^]]+\]", "", stack)
              for stack in stacks(path)), f"{stacks(path)}")
    with open(path) as file:
        whole = file.read()
    for name, text, words in (("cut", whole[:-20], "cut off"), ("version", whole.replace(":2", ":3", 1), "version"),
                              ("mode", whole.replace('"bklt":true', '"bklt":false'), "not a heap profile"),
                              ("frame", re.sub(r'"fs":\[1', '"fs":[999', whole), "frame 999")):
        done = run(TOOL, "report", write(directory, name, text))
        check(done.returncode == 1 and words in done.stderr, f"{name}: {done.stderr}")


def test_unknown(directory):
    """A file of no known format is called so, with those that are read."""
    texts = {"words": "hello, world\n" * 20, "listing": "total 48\ndrwxr-xr-x 3 root root 4096 Nov 29 12:31 .\n",
             "csv": "a,b\n1,2\n", "newline": "\n" + "some words\n" * 20, "elf": "\x7fELF" + "\0" * 100,
             "text": "packet {\n  timestamp: 5\n}\n", "cpu": "--- contentionz 1 ---\nformat = java\n"}
    for name, text in texts.items():
        path = write(directory, name, text)
        for command in ([TOOL, "report"], [TOOL, "diff", path], [TRACECONV, "profile"], [TOOL, "query"]):
            done = run(*command, path, *(["select 1"] if command[-1] == "query" else []))
            check(done.returncode not in (0, 2) and "massif" in done.stderr and "pprof" in done.stderr
                  and "damaged" not in done.stderr, f"{command[1:]} {name}: {done.returncode} {done.stderr}")
    check("traceconv binary" in run(TOOL, "report", os.path.join(directory, "text")).stderr, "a trace as text")
    # OpenTelemetry's profiles: with a resource and a scope, or without; longer than what is looked at.
    profile = field(1, field(1, 1) + field(2, 2)) + field(2, field(1, 1) + field(2, b"\x05"))
    resource = field(1, field(1, "service.name") + field(2, field(1, "shop")))
    for scope_profiles in (field(2, profile), field(1, field(1, "agent")) + field(2, profile), field(2, profile * 9000)):
        for before in (b"", field(1, resource)):
            path = write(directory, "otlp", field(1, before + field(2, scope_profiles)) + field(2, field(5, "")))
            for data in (path, write(directory, "otlp.gz", gzip.compress(open(path, "rb").read()))):
                done = run(TOOL, "report", data)
                check(done.returncode == 1 and "OpenTelemetry" in done.stderr and "pprof" in done.stderr, done.stderr)
    two = write(directory, "two", "main;f 12 15\nmain;g 3 0\n")
    done = run(TOOL, "report", two)
    check(done.returncode == 1 and "difffolded" in done.stderr and "heap_profile diff" in done.stderr, done.stderr)
    one = write(directory, "one", "main;thread 5 15\nmain;g 3\n")
    check(stacks(one) == {"main;thread_5": 15, "main;g": 3} or stacks(one) == {"main;thread 5": 15, "main;g": 3},
          f"{stacks(one)}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made_directory:
        main(made_directory)
