#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The heap python.object: what CPython's own allocator serves, each behaviour by its name.

    python_heap.py CASE

The truth is the interpreter's own count. sys.getallocatedblocks() counts the blocks of pymalloc and
those that it had from malloc. So the live allocations of both heaps, less these blocks, are what the
interpreter has from malloc otherwise: that number is the same for all amounts of objects, but for
pymalloc's own bookkeeping of its arenas.
"""

import glob
import json
import os
import subprocess
import tempfile

import harness
from daemon import LIBRARY, PATIENCE, Session, report_of, scene, wait_for
from harness import check, run

HEAP = "python.object"
DEBIAN = "/usr/bin/python3"
# Debian's; with HEAPPROFD_LONG_TESTS=1 also those of pyenv.
PYTHONS = [DEBIAN]
if os.environ.get("HEAPPROFD_LONG_TESTS"):
    PYTHONS += sorted(glob.glob(os.path.expanduser("~/.pyenv/versions/3.9.*/bin/python3"))
                      + glob.glob(os.path.expanduser("~/.pyenv/versions/3.1[0-9].*/bin/python3")))
BOOKKEEPING_MAX = 4  # blocks from malloc, depending on the arenas' number and addresses
ENVIRONMENT = {"PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}

# Prints the interpreter's count at the end, without giving anything back.
MAKE = """
import os, sys
def count():
    print(sys.getallocatedblocks(), flush=True)
    os._exit(0)
def make(n):
    keep = [None] * 5000
    for i in range(n):
        keep[i] = (i + 0.5, str(i), bytearray(i % 900))
    for i in range(0, n, 3):
        keep[i][2].extend(b"x" * (i % 900))
    return keep
"""


def profiled(script, *arguments, python=DEBIAN, options=(), environment=None, interval=1, recording=()):
    """Run the script. Return what it printed, and {name: heap} of the report, with few of very many callsites."""
    with tempfile.TemporaryDirectory(prefix="test-") as directory:
        output = os.path.join(directory, "profile")
        command = [python, *options, "-c", script, *map(str, arguments)]
        outcome = run(harness.host_command(command, output, interval, "--no-symbols", *recording),
                      env={**ENVIRONMENT, **(environment or {})})
        check(outcome.status == 0, f"{command[:2]}: {outcome.status}, {outcome.stderr[-300:]!r}")
        heaps = {heap["heap"]: heap for heap in report_of(output, "--top", "1")["heaps"]}
        for heap in heaps.values():
            lost = {reason: count for reason, count in heap["lost"].items()
                    if count and reason not in harness.INCOMPLETE}
            check(not lost, f"{heap['heap']}: lost {lost}")
        return outcome, heaps


def live(heaps, *names):
    return sum(heaps[name]["total"]["objects"]["estimate"] for name in names or heaps if name in heaps)


def beyond_blocks(script, *arguments, **options):
    """Return the live allocations of all heaps that are not the interpreter's blocks; the heaps."""
    outcome, heaps = profiled(script, *arguments, **options)
    return live(heaps) - int(outcome.stdout), heaps


def check_amounts(what, script, **options):
    few, _ = beyond_blocks(script, 0, **options)
    many, heaps = beyond_blocks(script, 2000, **options)
    check(abs(many - few) <= BOOKKEEPING_MAX, f"{what}: {few} allocations beyond blocks, then {many}")
    return heaps


def test_exact():
    """Both heaps together hold each block once, in every version and with the debug hooks."""
    script = MAKE + "keep = make(int(sys.argv[1])); count()"
    for python in PYTHONS:
        heaps = check_amounts(python, script, python=python)
        check(live(heaps, HEAP) > 6000, f"{python}: {live(heaps, HEAP)} objects")
    check_amounts("-X dev", script, options=("-X", "dev"))
    check_amounts("debug", script, environment={"PYTHONMALLOC": "debug"})
    heaps = check_amounts("threads", MAKE + """
import threading
kept = []
for _ in range(4):
    thread = threading.Thread(target=lambda: kept.append(make(int(sys.argv[1]))))
    thread.start()
    thread.join()
del kept[1]
count()""")
    check(live(heaps, HEAP) > 18000, f"threads: {live(heaps, HEAP)} objects")


def test_sizes():
    """Up to 512 bytes are pymalloc's, larger ones malloc's, and none is counted in both."""
    script = """import itertools, sys
n, size = map(int, sys.argv[1:])
keep = [bytes(size) for _ in itertools.repeat(None, n)]"""
    header = bytes().__sizeof__()
    for size, owner, other in ((512, HEAP, "libc.malloc"), (513, "libc.malloc", HEAP)):
        _, none = profiled(script, 10, size - header)
        _, some = profiled(script, 1010, size - header)
        grown = {name: (some[name]["exact_calls"] - none[name]["exact_calls"],
                        some[name]["exact_bytes"] - none[name]["exact_bytes"]) for name in some}
        # The list of the objects grows, too, and its larger sizes are malloc's.
        calls, grown_bytes = grown[owner]
        check(1000 <= calls <= 1060 and 1000 * size <= grown_bytes < 1000 * size + 80000,
              f"{size} bytes: {grown}")
        check(grown[other][0] < 60, f"{size} bytes: {grown}")


def test_no_arena():
    """If pymalloc finds no memory for an arena, malloc serves the request, and one heap counts it."""
    script = MAKE + """
import mmap, resource
large = [bytes(700) for _ in range(6000)]
last = large[-1]
del large[:]
if sys.argv[1] == "limited":
    size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size, size))
    try:
        mmap.mmap(-1, 1 << 20)
        sys.exit("there is memory for arenas")
    except OSError:
        pass
keep = make(5000)
count()"""
    free, _ = beyond_blocks(script, "free")
    limited, _ = beyond_blocks(script, "limited")
    check(abs(free - limited) <= BOOKKEEPING_MAX, f"{free} allocations beyond blocks, with the limit {limited}")
    # The same without samples: the requests are counted before pymalloc knows that it has no memory.
    calls = []
    for limit in ("free", "limited"):
        _, heaps = profiled(script, limit, interval=1 << 30)
        calls.append({name: heap["exact_calls"] for name, heap in heaps.items()})
    difference = sum(calls[1].values()) - sum(calls[0].values())
    check(abs(difference) < 100, f"calls, without a limit and with it: {calls}")
    check(sum(calls[0].values()) > 20000, f"calls: {calls}")


# Makes and drops some 100 MB of small objects.
BUSY = """
import sys, time
end = time.process_time() + float(sys.argv[1])
kept = [bytes(100) for _ in range(20000)]
while time.process_time() < end:
    x = [bytes(i) for i in range(400)]
"""


def busy(*options, interval=None, seconds=0.5):
    """Run BUSY. Return its heap python.object, and how many samples it has, with malloc's."""
    _, heaps = profiled(BUSY, seconds, recording=options, interval=interval)
    for heap in heaps.values():
        check(heap["agreement"]["agrees"], f"{options}: {heap['agreement']}")
    return heaps[HEAP], sum(heap["heap_samples"] for heap in heaps.values())


def test_limit():
    """Objects are all recorded until that costs too much, then sampled; and estimates stay right."""
    given, _ = busy(interval=4096)
    check(given["first_interval_bytes"] == given["interval_bytes"] == 4096, f"given: {given['interval_bytes']}")
    limited, many = busy()
    check(limited["first_interval_bytes"] == 1 and limited["interval_bytes"] >= 4096, f"limited: {limited['interval_bytes']}")
    check(many >= 100000, f"{many} samples")
    total = limited["total"]["alloc_space"]
    error = abs(total["estimate"] / limited["exact_bytes"] - 1)
    check(error < 0.2, f"{total}, exact {limited['exact_bytes']}")
    exact, _ = busy(seconds=0.001)
    check(exact["interval_bytes"] == 1, f"a short run: {exact['interval_bytes']}")


def test_tracemalloc():
    """tracemalloc wraps what it finds, and puts it back: the heap sees all frees."""
    check_amounts("tracemalloc", MAKE + """
import tracemalloc
tracemalloc.start()
keep = make(int(sys.argv[1]))
tracemalloc.stop()
del keep[1::2]
count()""")


def test_other_allocators():
    """Without pymalloc, malloc has everything. The interpreter's statistics stay as they are."""
    script = "x = [str(i) for i in range(3000)]; print(len(x))"
    _, heaps = profiled(script, environment={"PYTHONMALLOC": "malloc"})
    check(HEAP not in heaps and heaps["libc.malloc"]["exact_calls"] > 3000, f"malloc: {list(heaps)}")
    statistics = {"PYTHONMALLOCSTATS": "1"}
    bare = run([DEBIAN, "-c", script], env={**ENVIRONMENT, **statistics})
    ours, heaps = profiled(script, environment=statistics)
    check(HEAP not in heaps, "the tables have pymalloc's functions while it prints statistics")
    check(ours.stderr.count(b"arenas") == bare.stderr.count(b"arenas") > 0, f"{ours.stderr[-300:]!r}")


def test_selected():
    """The heap is there by default and with --all-heaps, for Python only, and can be left out."""
    script = "x = [str(i) for i in range(3000)]"
    with tempfile.TemporaryDirectory(prefix="test-") as directory:
        run(harness.host_command(["/bin/ls", "/"], directory + "/profile", 1, "--heaps", HEAP))
        remark = run([harness.TOOL, "report", directory + "/profile"]).stdout.decode()
        check("There is no python.object: the program is not CPython" in remark, remark)
    for options, expected in (
        ((), {"libc.malloc", HEAP}), (("--all-heaps",), {"libc.malloc", HEAP}),
        (("--heaps", HEAP), {HEAP}), (("--heaps", "libc.malloc"), {"libc.malloc"}),
        (("--exclude-heaps", HEAP), {"libc.malloc"}),
    ):
        with tempfile.TemporaryDirectory(prefix="test-") as directory:
            output = os.path.join(directory, "profile")
            outcome = run(harness.host_command([DEBIAN, "-c", script], output, 1, "--no-symbols", *options))
            found = {heap["heap"] for heap in report_of(output, "--top", "1")["heaps"]}
            check(outcome.status == 0 and found == expected, f"{options}: {found}, {outcome.stderr!r}")


# Answers each line with the interpreter's tables of functions.
TABLES = """
import ctypes, sys
def tables():
    table = (ctypes.c_uint64 * 5)()
    for domain in range(3):
        ctypes.pythonapi.PyMem_GetAllocator(domain, table)
        yield list(table)
kept = []
for line in sys.stdin:
    kept += [str(i) for i in range(5000)] + [bytes(900) for i in range(500)]
    print(list(tables()), flush=True)
"""


def test_tables():
    """A session changes the interpreter's tables, and its end restores them."""
    with scene() as (daemon, directory):
        process = subprocess.Popen(
            [DEBIAN, "-c", TABLES], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**daemon.environment, "LD_PRELOAD": LIBRARY})

        def ask():
            process.stdin.write("\n")
            process.stdin.flush()
            return json.loads(process.stdout.readline())

        def asked_until(condition):
            wait_for("the tables", lambda: condition(ask()))

        before = ask()
        for number in range(2):
            session = Session(daemon, os.path.join(directory, f"session{number}"),
                              "-i", "4096", "-p", str(process.pid))
            asked_until(lambda now: now[1] != before[1] and now[2] != before[2] and now[0] == before[0])
            ask()
            session.end()
            asked_until(lambda now: now == before)
        process.stdin.close()
        check(process.wait(PATIENCE) == 0, "the program failed")


def check_opened(library, program, directory):
    # The first time, nothing but the interpreter's end gives back. The second time count() ends the program.
    script = MAKE.replace("def count():", """def count():
    if "AGAIN" not in os.environ:
        os.environ["AGAIN"] = "yes"
        return""")

    def beyond(n):
        output = tempfile.mkdtemp(dir=directory)
        outcome = run(harness.host_command([program, library, script + f"keep = make({n}); count()"], output, 1))
        heaps = {heap["heap"]: heap for heap in report_of(output, "--top", "1")["heaps"]}
        check(outcome.status == 0 and HEAP in heaps, f"{library}: {outcome.status}, {list(heaps)}, {outcome.stderr[-300:]!r}")
        check(not any(heap["partial"] for heap in heaps.values()), f"{library}: {[heap['partial'] for heap in heaps.values()]}")
        return live(heaps) - int(outcome.stdout), live(heaps, HEAP)

    few, many = beyond(0), beyond(2000)
    check(abs(few[0] - many[0]) <= BOOKKEEPING_MAX, f"{library}: {few[0]} allocations beyond blocks, then {many[0]}")
    check(many[1] > few[1] + 6000, f"{library}: {few[1]} objects, then {many[1]}")


def test_opened():
    """An interpreter that the program opens, closes and opens again: each time the heap holds each block once."""
    harness.need("cc")
    libraries = [path for python in PYTHONS for path in glob.glob(os.path.dirname(python) + "/../lib/libpython3.*.so.1.0")]
    libraries += glob.glob("/usr/lib/*/libpython3.1?.so.1.0")
    if not libraries:
        harness.skip("no shared library of CPython")
    source = os.path.join(harness.ROOT, "tests", "programs", "embed_python.c")
    with tempfile.TemporaryDirectory(prefix="test-") as directory:
        program = os.path.join(directory, "embed")
        check(run(["cc", source, "-ldl", "-o", program]).status == 0, "cc")
        for library in libraries:
            check_opened(library, program, directory)


if __name__ == "__main__":
    harness.limit_core_dumps()
    harness.main()
