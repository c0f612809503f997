#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Stacks through code that is loaded without unwind information: complete if its file has some, otherwise a
gap with the module's name.

    unwind_missing.py CASE
"""

import json
import os
import re
import subprocess
import tempfile

import harness
from harness import ROOT, TOOL, check, need, run

SOURCES = os.path.join(ROOT, "tests", "programs")
LIBRARIES = ("minidebug", "debug_frame", "nothing")
GAP = "[no unwind information]"
ROUNDS = 100

# Return the frames of the program on the stack, innermost first; the rest is the C library's.
THROUGH = ["step_inwards", "step_inwards", "step_inwards", "through_"]
FRAMES = {
    "behind_minidebug": ["behind_minidebug", *THROUGH, "call_through_all"],
    "behind_both": ["behind_both", *THROUGH, "between", *THROUGH, "call_through_all"],
}
# The callers of it in each of the program's stacks.
CALLERS = {"main": ["main"], "thread": ["run_thread"], "fiber": ["run_fiber"]}


def tool(*command, cwd):
    outcome = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    if outcome.returncode != 0:
        harness.skip(f"{command[0]} cannot build the test program: {outcome.stderr[-300:]}")
    return outcome.stdout


def sections(path):
    return set(re.findall(r"\] (\.\w+)", tool("readelf", "-SW", path, cwd="/")))


def pack(path, method, directory):
    """Compress the .debug_frame of a file. (objcopy does so only if that makes it smaller.)"""
    tool("objcopy", "--compress-debug-sections=" + method, path, cwd=directory)
    table = tool("readelf", "-SW", path, cwd=directory)
    check(re.search(r"\.zdebug_frame" if method == "zlib-gnu" else r"\.debug_frame .* C ", table), f"{method}: {table}")


def build(directory, method=None):
    """Build the program, and the same library three times, each stripped of all but the part in its name. Compress
    .debug_frame by this method."""
    need("gcc", "objcopy", "readelf", "xz")
    with open(os.path.join(directory, "more.c"), "w", encoding="ascii") as file:
        for i in range(100):  # enough to compress
            file.write(f"int more_{i}(int (*f)(int), int n) {{ int a = f(n), b = f(a); return a * b + {i}; }}\n")
    for name in LIBRARIES:
        tool(
            "gcc", "-O2", "-g", "-fPIC", "-shared", "-nostartfiles", "-fomit-frame-pointer",
            "-fno-asynchronous-unwind-tables", "-fno-unwind-tables", f"-DTHROUGH=through_{name}",
            "-Wl,--no-ld-generated-unwind-info", "-Wl,--build-id", f"-I{SOURCES}",
            os.path.join(SOURCES, "through.c"), "more.c", "-o", f"lib{name}.so", cwd=directory,
        )
    tool("objcopy", "--only-keep-debug", "libminidebug.so", "whole.debug", cwd=directory)
    tool("objcopy", "--strip-debug", "--keep-section=.debug_frame", "whole.debug", "mini",
         cwd=directory)
    if method is not None:
        pack("mini", method, directory)
    tool("xz", "mini", cwd=directory)
    tool("objcopy", "--strip-all", "--add-section", ".gnu_debugdata=mini.xz", "libminidebug.so",
         cwd=directory)
    tool("objcopy", "--strip-all", "--keep-section=.debug_frame", "libdebug_frame.so",
         cwd=directory)
    if method is not None:
        pack("libdebug_frame.so", method, directory)
    tool("objcopy", "--strip-all", "libnothing.so", cwd=directory)
    tool(
        "gcc", "-O1", "-g", "-fno-builtin", "-fno-optimize-sibling-calls", "-pthread",
        os.path.join(SOURCES, "calls_through.c"), "-o", "calls_through", "-L.",
        *(f"-l{name}" for name in LIBRARIES), f"-Wl,-rpath,{directory}", cwd=directory,
    )
    # Otherwise the test would prove nothing.
    wanted = {"minidebug": {".gnu_debugdata"}, "debug_frame": {".debug_frame"}, "nothing": set()}
    for name, extra in wanted.items():
        found = sections(os.path.join(directory, f"lib{name}.so"))
        found = {part.replace(".z", ".") for part in found} & {".eh_frame", ".debug_frame", ".gnu_debugdata"}
        check(found == extra, f"lib{name}.so has {found}")
    return os.path.join(directory, "calls_through")


def stacks_of(directory):
    """Return the report's (frames, samples) of each callsite."""
    outcome = run([TOOL, "report", "--json", "--view", "alloc_space", directory])
    check(outcome.status == 0, f"report: {outcome.stderr[-300:]!r}")
    report = json.loads(outcome.stdout)
    check(len(report["heaps"]) == 1, f"{len(report['heaps'])} heaps")
    heap = report["heaps"][0]
    return heap, [(c["frames"], c["alloc_objects"]["estimate"]) for c in heap["callsites"]]


def module_of(frame):
    return os.path.basename(frame.get("mapping", ""))


def names_of(frames):
    """Return the functions of a stack; those of the libraries have no name if it was stripped."""
    names = []
    for frame in frames:
        if module_of(frame) in ("libdebug_frame.so", "libminidebug.so"):
            inner = names[-3:] != ["step_inwards"] * 3
            names.append("step_inwards" if inner else "through_")
        else:
            names.append(frame["name"])
    return names


def check_stacks(callsites, rounds, callers):
    """Every sample of each kind has its whole stack; a stack that ends early has a named gap."""
    for function, inner in FRAMES.items():
        for where, outer in callers.items():
            wanted = inner + outer
            found = sum(
                count for frames, count in callsites
                if names_of(frames)[: len(wanted)] == wanted
                and not frames[-1]["name"].startswith("[")
            )
            check(found == rounds or (rounds is None and found > 0),
                  f"{function} in {where}: {found} whole stacks of {rounds}")
        broken = [
            [f["name"] or module_of(f) for f in frames] for frames, _ in callsites
            if frames[0]["name"] == function and frames[-1]["name"].startswith("[")
        ]
        check(not broken, f"{function}: {broken[:3]}")
    gaps = [frames for frames, _ in callsites if frames[0]["name"] == "behind_nothing"]
    check(gaps, "a gap follows a gap")
    for frames in gaps:
        check(frames[-1]["name"] == GAP, f"behind_nothing ends in {frames[-1]}")
        check(module_of(frames[-2]) == "libnothing.so", f"the gap is at {frames[-2]}")


def check_gaps(heap, output):
    """The report names the module, the number of affected samples and the remedy, in JSON and as text."""
    gaps = heap["unwind_gaps"]
    if check(len(gaps) == 1, f"gaps: {gaps}"):
        share = gaps[0]["samples"] / heap["heap_samples"]
        check(module_of(gaps[0]) == "libnothing.so", f"gap: {gaps[0]}")
        check(gaps[0]["samples"] == 3 * ROUNDS, f"gap: {gaps[0]}")
        check(abs(gaps[0]["share"] - share) < 1e-9, f"gap: {gaps[0]}, {share} of all")
        check("-fasynchronous-unwind-tables" in gaps[0]["remedy"], f"gap: {gaps[0]}")
    text = run([TOOL, "report", output]).stdout.decode()
    lines = [line for line in text.splitlines() if "stacks end in code of libnothing.so" in line]
    check(len(lines) == 1 and "33." in lines[0], f"the report has {lines}")
    check(re.search(r"^  incomplete +[\d,]+ stacks that end .*; their figures count$", text, re.M), text[:900])


def test_complete():
    with tempfile.TemporaryDirectory() as directory:
        program = build(directory)
        output = os.path.join(directory, "o")
        outcome, profile = harness.profile([program, str(ROUNDS)], 1, keep=output)
        check(outcome.status == 0, f"status {outcome.status}: {outcome.stderr[-300:]!r}")
        check(profile.lost() == {}, f"lost {profile.lost()}")
        heap, callsites = stacks_of(output)
        check_stacks(callsites, ROUNDS, CALLERS)
        check(heap["unwinding_errors"] == 3 * ROUNDS, f"{heap['unwinding_errors']} errors")
        check_gaps(heap, output)


def test_compressed():
    """The same if the tables are compressed, by each method that compilers and objcopy know."""
    for method in ("zlib", "zlib-gnu", "zstd"):
        with tempfile.TemporaryDirectory() as directory:
            output = os.path.join(directory, "o")
            outcome, profile = harness.profile([build(directory, method), str(ROUNDS)], 1, keep=output)
            check(outcome.status == 0 and profile.lost() == {}, f"{method}: {outcome.status}, lost {profile.lost()}")
            _, callsites = stacks_of(output)
            check_stacks(callsites, ROUNDS, CALLERS)


def test_attached():
    with tempfile.TemporaryDirectory() as directory:
        program = build(directory)
        process = subprocess.Popen([program, "until_closed"], stdin=subprocess.PIPE)
        output = os.path.join(directory, "o")
        outcome = run([TOOL, "-p", str(process.pid), "-o", output, "-i", "1", "-d", "500"])
        check(process.poll() is None, "the program ended")
        process.stdin.close()
        check(process.wait() == 0, "the program failed")
        check(outcome.status == 0, f"status {outcome.status}: {outcome.stderr[-300:]!r}")
        _, callsites = stacks_of(output)
        check_stacks(callsites, None, {"main": ["main"]})


if __name__ == "__main__":
    harness.main()
