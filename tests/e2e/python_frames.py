#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A sample inside CPython has Python's frames: the same that Python itself reports.

    python_frames.py CASE
"""

import collections
import contextlib
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

import harness
from attach import attached
from daemon import Session, scene
from harness import TOOL, TRACECONV, check, host_command, need, run, skip

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "programs", "python_stacks.py")
BYTES_HEAD = 33  # of a bytes object, with its terminating zero


@contextlib.contextmanager
def directory():
    path = tempfile.mkdtemp(prefix="test-python-")
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def python_frames(callsite):
    return [
        [frame["name"], frame.get("file", ""), frame.get("line", 0)]
        for frame in callsite["frames"] if frame.get("kind") == "interpreted"
    ]


def report(path, *options):
    outcome = run([TOOL, "report", "--json", *options, path])
    check(outcome.status == 0, f"report: status {outcome.status}, {outcome.stderr[-300:]!r}")
    heaps = json.loads(outcome.stdout)["heaps"]
    return next(heap for heap in reversed(heaps) if heap["heap"] == "libc.malloc")


def check_certain(heap):
    lost = {name: amount for name, amount in heap["lost"].items() if name.startswith("interpreter")}
    check(not any(lost.values()), f"lost {lost}")


def check_stacks(heap, notes, what):
    """Check the bytes of each noted stack. Blocks of one stack are in one sum."""
    wanted, found = collections.Counter(), collections.Counter()
    leaves = [note["frames"][0] for note in notes]
    for note in notes:
        wanted[json.dumps(note["frames"])] += note["bytes"] + BYTES_HEAD
    for callsite in heap["callsites"]:
        frames = python_frames(callsite)
        if frames and frames[0] in leaves:
            found[json.dumps(frames)] += round(callsite["alloc_space"]["estimate"])
    for stack in sorted(wanted.keys() | found.keys()):
        check(wanted[stack] == found[stack], f"{what}: {wanted[stack]} bytes, found {found[stack]}, of {stack}")


def check_program(python, *options):
    with directory() as path:
        notes = os.path.join(path, "notes")
        bare = run([python, PROGRAM, notes])
        output = os.path.join(path, "o")
        ours = run(host_command([python, PROGRAM, notes], output, 1, *options))
        ours.check_same(bare, python)
        with open(notes) as file:
            noted = json.load(file)
        check(len(noted) >= 60, f"{python}: {len(noted)} stacks")
        heap = report(output, "--focus", "^probe")
        check_stacks(heap, noted, python)
        check_certain(heap)
        return heap, report(output, "--focus", "^probe", "--native")


def loops(heap):
    return sum(
        frame["name"].startswith("_PyEval_EvalFrameDefault")
        for callsite in heap["callsites"] for frame in callsite["frames"]
    )


def check_deep(python):
    """A stack that is too deep keeps its innermost frames, and ends in the mark for missing ones."""
    with directory() as path:
        run(host_command([python, PROGRAM, os.devnull], path, 4096))
        heap = report(path, "--focus", "^endless$")
        deep = [site["frames"] for site in heap["callsites"] if site["alloc_space"]["estimate"] >= 3_000_000]
        check(len(deep) == 1, f"{len(deep)} deep stacks")
        names = [frame["name"] for frame in deep[0]]
        check(names.count("endless") > 200, f"{names.count('endless')} of the deep function")
        check(names[-1] == "[truncated stack]", f"the deep stack ends in {names[-1]}")
        check_certain(heap)


def test_own_stacks():
    """Python's own stacks: calls, generators, threads, callbacks from C, code that is made and dropped.

    The interpreter's loop is shown with --native only; the figures are the same."""
    shown, native = check_program(need_python())
    check(loops(shown) == 0, f"{loops(shown)} loops without --native")
    check(loops(native) > 60, f"{loops(native)} loops with --native")
    check_deep(need_python())
    for figure in ("alloc_space", "alloc_objects", "space"):
        sums = [sum(site[figure]["estimate"] for site in heap["callsites"]) for heap in (shown, native)]
        check(sums[0] == sums[1], f"{figure}: {sums}")


def need_python():
    need("python3")
    return shutil.which("python3", path="/usr/bin")


def test_other_versions():
    """The other versions that are installed here (pyenv)."""
    pythons = sorted(glob.glob(os.path.expanduser("~/.pyenv/versions/3.*/bin/python3")))
    supported = [p for p in pythons if 9 <= int(p.split("/versions/3.")[1].split(".")[0]) <= 14]
    if not supported:
        skip("no other versions of Python")
    for python in supported:
        check_program(python)


def test_old_version():
    """A version without support keeps its native frames, and the report says so."""
    pythons = glob.glob(os.path.expanduser("~/.pyenv/versions/3.8.*/bin/python3"))
    if not pythons:
        skip("no Python 3.8")
    with directory() as path:
        outcome = run(host_command([pythons[0], "-c", "x = [bytes(1000) for i in range(100)]"], path, 1))
        check(outcome.status == 0, f"status {outcome.status}")
        heap = report(path)
        check(not any(python_frames(site) for site in heap["callsites"]), "Python's frames of 3.8")
        check(loops(heap) > 0, "no loop")
        check(heap["lost"]["interpreter_unknown"] > 100, f"lost {heap['lost']}")


def test_embedded():
    """A C program opens CPython's library, runs it and closes it, twice."""
    need("cc")
    libraries = glob.glob("/usr/lib/*/libpython3.1?.so.1.0")
    if not libraries:
        skip("no shared library of CPython")
    with directory() as path:
        program, output = os.path.join(path, "embed"), os.path.join(path, "o")
        built = run(["cc", os.path.join(os.path.dirname(PROGRAM), "embed_python.c"), "-ldl", "-o", program])
        check(built.status == 0, f"cc: {built.stderr[-500:]!r}")
        script = "def embedded():\n  return bytes(1234567)\nx = embedded()\n"
        outcome = run(host_command([program, libraries[0], script], output, 1))
        check(outcome.status == 0, f"status {outcome.status}: {outcome.stdout!r}")
        heap = report(output, "--focus", "^embedded$")
        sites = [site for site in heap["callsites"] if site["alloc_space"]["estimate"] >= 1234567]
        sums = sum(site["alloc_space"]["estimate"] for site in sites)
        check(sums == 2 * (1234567 + BYTES_HEAD), f"{sums} bytes")
        wanted = [["embedded", "<string>", 2], ["<module>", "<string>", 3]]
        for site in sites:
            check(python_frames(site) == wanted, f"{python_frames(site)}")
            check(site["frames"][-1]["name"] == "_start", f"{site['frames'][-1]}")
        check_certain(heap)


PASSES_ON = """
import ctypes, sys
library = ctypes.PyDLL(sys.argv[1])
CODE = b'''
def rec(n):
    return rec(n - 1) if n else [bytes(600)]
def made(n):
    names = {}
    exec(f"def made{n}(x): return rec(x)", {"rec": rec}, names)
    return names[f"made{n}"](n % 50)
def generated(n):
    for i in range(n):
        yield rec(i % 20)
for i in range(1000):
    made(i)
    sum(len(x) for x in generated(20))
'''
for _ in range(3):
    library.pass_on(CODE)
print("over")
"""


def test_state_passed_on():
    """A thread's state may be lent to another thread. What that one does with it harms nobody who allocates."""
    need("cc")
    pythons = [need_python(), *sorted(glob.glob(os.path.expanduser("~/.pyenv/versions/3.1[0-4]*/bin/python3")))]
    with directory() as path:
        library = os.path.join(path, "pass_on.so")
        source = os.path.join(os.path.dirname(PROGRAM), "python_state_passed_on.c")
        built = run(["cc", "-O1", "-shared", "-fPIC", source, "-o", library, "-lpthread"])
        check(built.status == 0, f"cc: {built.stderr[-500:]!r}")
        for number, python in enumerate(pythons):
            outcome = run(host_command([python, "-c", PASSES_ON, library], os.path.join(path, str(number)), 5000))
            check(outcome.status == 0 and outcome.stdout == b"over\n", f"{python}: {outcome.status}, {outcome.stdout!r}")


def test_files():
    """Rows show the file and line of each function, and functions of one name in two files are two."""
    with directory() as path:
        for name, size in (("first", 3000000), ("second", 2000000)):
            with open(os.path.join(path, name + ".py"), "w", encoding="utf-8") as file:
                file.write(f"\nkept = bytes({size})\n")
        output = os.path.join(path, "o")
        script = f"import sys; sys.path.insert(0, {path!r})\nimport first\nimport second"
        outcome = run(host_command([need_python(), "-c", script], output, 4096))
        check(outcome.status == 0, f"status {outcome.status}: {outcome.stderr[-300:]!r}")

        def rows(*options):
            return run([TOOL, "report", "--heap", "libc.malloc", "--view", "max", *options, output]).stdout.decode()

        # With debug symbols of CPython, the function that allocates has a name.
        for text in (r"<module> first\.py:2 (\(in \S+\) )?< ", r"<module> second\.py:2 (\(in \S+\) )?< "):
            check(re.search(text, rows()), f"{text!r} is not in {rows()}")
        for text in ("<module> [first.py]\n", "<module> [second.py]\n"):
            check(text in rows("--cumulative", "--top", "0"), f"{text!r} is not in {rows('--cumulative')}")
        (exported,) = glob.glob(os.path.join(output, "*.libc.malloc.final.pb.gz"))
        for options, text in (([], r"<module> first\.py:2 (\(in \S+\) )?< "), (["--cumulative", "--top", "0"], r"<module> \[first\.py\]\n")):
            again = run([TOOL, "report", "--view", "alloc_space", *options, exported]).stdout.decode()
            check(re.search(text, again) and "[[" not in again, f"as pprof: {text!r} is not in {again}")
        lines = run([TRACECONV, "collapsed", "--heap", "libc.malloc", "--view", "max", output]).stdout.decode().splitlines()
        for name, size in (("first", 3000000), ("second", 2000000)):
            sizes = [int(line.rsplit(" ", 1)[1]) for line in lines if f";<module> ({name}.py);" in line]
            check(size + BYTES_HEAD in sizes, f"{name}: collapsed {sizes}")
        check(not any(";<module>;" in line for line in lines), "collapsed: a module without its file")


def test_layouts():
    """The client's offsets are those of CPython's headers, for each version whose headers are here."""
    need("cc")
    source = os.path.join(os.path.dirname(PROGRAM), "..", "..", "src")
    found = glob.glob("/usr/include/python3.*") + glob.glob(
        os.path.expanduser("~/.pyenv/versions/3.*/include/python3.*"))
    minors = {str(minor) for minor in range(9, 16)}
    headers = [path for path in found if path.rsplit(".", 1)[1] in minors
               and os.path.exists(os.path.join(path, "internal"))]
    if not headers:
        skip("no headers of CPython's inside")
    with directory() as path:
        program = os.path.join(path, "check")
        for include in headers:
            built = run(["cc", "-w", "-I", include, "-I", os.path.join(include, "internal"), "-I", source,
                         os.path.join(os.path.dirname(PROGRAM), "python_layout.c"),
                         os.path.join(source, "client/interp/python_layout.c"), "-o", program])
            check(built.status == 0, f"{include}: {built.stderr[-500:]!r}")
            outcome = run([program])
            check(outcome.status == 0, f"{include}: {outcome.stdout.decode()}")


ATTACHED = """
import sys
def held(n):
    return bytes(n)
def middle(n):
    return [held(n + i) for i in range(10)]
for line in sys.stdin:
    kept = middle(int(line))
    print("ready", flush=True)
"""


def heap_while_attached(command):
    """Attach to a running program between its steps. Return its heap.

    A step allocates as many bytes as a line of the standard input says, and answers with a line.
    """
    with scene() as (daemon, path):
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

        def step(size):
            process.stdin.write(b"%d\n" % size)
            process.stdin.flush()
            process.stdout.readline()

        step(100_000)
        output = os.path.join(path, "o")
        session = Session(daemon, output, "-p", str(process.pid), "-i", "1")
        attached(daemon, process)
        step(300_000)
        step(700_000)
        session.end()
        process.stdin.close()
        process.wait()
        return report(output)


def test_attached():
    """A running Python program, found by its pid."""
    heap = heap_while_attached([need_python(), "-c", ATTACHED])
    found = [python_frames(site) for site in heap["callsites"] if site["alloc_space"]["estimate"] > 300_000]
    names = {tuple(frame[0].split(".")[0] for frame in frames[:1]) for frames in found}
    check(names == {("held",)}, f"innermost {names}")
    lines = {tuple(frame[2] for frame in frames) for frames in found}
    check(all(stack[0] == 4 and stack[-1] == 8 for stack in lines), f"lines {lines}")
    check("python.object" not in heap["remark"], f"remark {heap['remark']}")
    check_certain(heap)


if __name__ == "__main__":
    harness.main()
