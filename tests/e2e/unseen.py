#!/usr/bin/python3
"""Programs whose allocations the preloaded library meets late, or not at all: unseen.py CASE."""

import json
import os
import shutil
import sys
import tempfile

import harness
from harness import ROOT, TOOL, check, run

LEAKED = 1000  # blocks of 200 bytes
LEAKED_BYTES = 200 * LEAKED


def build(directory, name, *arguments, compiler="gcc"):
    """tests/programs/added_leak.c, built in another way; None where it cannot be, or does not run."""
    path = os.path.join(directory, name)
    source = os.path.join(ROOT, "tests", "programs", "added_leak.c")
    if shutil.which(compiler) is None:
        return None
    # The blocks are not known to be unused, or the compiler would leave them out.
    done = run([compiler, "-g", "-O1", "-fno-builtin", "-o", path, source, *arguments])
    if done.status != 0 or run([path, "10"]).status is None:
        return None
    return path


def report(directory):
    done = run([TOOL, "report", "--json", directory])
    check(done.status == 0, f"report: {done.status}, {done.stderr[-300:]!r}")
    return json.loads(done.stdout)


def leaked(heap):
    """Bytes live at the end that the_leak holds."""
    return sum(
        callsite["space"]["estimate"]
        for callsite in heap["callsites"]
        if any(frame["name"] == "the_leak" for frame in callsite["frames"])
    )


def heap_of(found, name):
    (heap,) = [heap for heap in found["heaps"] if heap["name"] == name] or [None]
    return heap


def sanitizers(directory):
    """Run times of sanitizers that are shared libraries: the command's, its children's, and in a shell."""
    harness.need("gcc")
    # What the program leaves on purpose is no matter here.
    os.environ["ASAN_OPTIONS"] = os.environ["LSAN_OPTIONS"] = "detect_leaks=0"
    tried = 0
    for sanitizer in "address", "thread", "leak", "undefined":
        name = f"with_{sanitizer}"
        path = build(directory, name, f"-fsanitize={sanitizer}")
        if path is None or run([path, "10"]).status != 0:
            continue
        tried += 1
        bare = run([path, str(LEAKED)])
        for command in [path, str(LEAKED)], ["/bin/sh", "-c", f"{path} {LEAKED}; exit $?"]:
            output = tempfile.mkdtemp(dir=directory)
            done = run(harness.host_command(command, output, 1, "--follow-children"))
            done.check_same(bare, f"{sanitizer}: {command[0]}")
            heap = heap_of(report(output), name)
            if check(heap is not None, f"{sanitizer}: {command[0]}: it is not in the profile"):
                check(leaked(heap) == LEAKED_BYTES, f"{sanitizer}: {command[0]}: the_leak has {leaked(heap)} bytes")
        done = run([TOOL, "shell", "--", path, str(LEAKED)], env={"HEAPPROFD_RUN_DIR": directory})
        done.check_same(bare, f"{sanitizer}: shell")
    if tried == 0:
        harness.skip("no sanitizer's run time is installed")


CASES = {
    "sanitizers": sanitizers,
}


def main():
    with tempfile.TemporaryDirectory(prefix="test-") as directory:
        CASES[sys.argv[1]](directory)
    harness.finish()


main()
