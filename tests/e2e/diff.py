#!/usr/bin/python3
"""heap_profile diff on real programs: diff.py CASE."""

import json
import math
import os
import shutil
import subprocess
import sys
import tempfile

import harness
from harness import TOOL, check, program, run

RUNS = int(os.environ.get("HEAPPROFD_RUNS", "100"))


def record(directory, name, *arguments, interval=4096, command="added_leak", options=()):
    path = os.path.join(directory, name)
    done = run(harness.host_command([program(command), *arguments], path, interval, *options))
    check(done.status == 0, f"host: {done.status}, {done.stderr[-300:]!r}")
    return path


def diff_text(*arguments):
    done = run([TOOL, "diff", *arguments])
    check(done.status == 0, f"diff {arguments}: {done.status}, {done.stderr[-300:]!r}")
    return done.stdout.decode()


def diff_json(*arguments):
    done = run([TOOL, "diff", "--json", "--top", "0", *arguments])
    check(done.status == 0, f"diff {arguments}: {done.status}, {done.stderr[-300:]!r}")
    return json.loads(done.stdout)


def marked(difference, view="space"):
    """Innermost functions of the callsites that are beyond chance."""
    return [
        row["frames"][0]["name"]
        for heap in difference["heaps"]
        for row in heap["rows"]
        if row[view]["beyond_chance"]
    ]


def with_itself(directory):
    profile = record(directory, "a")
    copied = os.path.join(directory, "copied")
    shutil.copytree(profile, copied)
    for by in ("callsite", "function", "module", "thread", "type", "context"):
        for view in ("space", "objects", "alloc_space", "alloc_objects", "max"):
            for other in (profile, copied):
                arguments = ("--by", by, "--view", view, profile, other)
                check("\nno difference\n" in diff_text(*arguments), f"text {arguments}")
                (heap,) = diff_json(*arguments)["heaps"]
                check(heap["rows"] == [] and heap["rows_in_all"] == 0, f"rows {arguments}")
                check(heap["total"][view]["change"] == 0, f"total {arguments}")


def exact(directory):
    before = record(directory, "a", interval=1)
    after = record(directory, "b", "2000", interval=1)
    (heap,) = diff_json("--view", "alloc_objects", before, after)["heaps"]
    check(heap["exact"], "exact")
    (row,) = heap["rows"]
    check(row["frames"][0]["name"] == "the_leak", f"function {row['frames'][0]}")
    for view, value in (("space", 400000), ("objects", 2000), ("alloc_space", 400000)):
        figure = row[view]
        check(figure["change"] == figure["low95"] == figure["high95"] == value, f"{view} {figure}")
        check(figure["beyond_chance"], f"{view} is marked")
        check(heap["total"][view]["change"] == value, f"total {view}")
    text = diff_text(before, after)
    check("What grew" in text and "What shrank" not in text, "one direction")


def added_leak(directory):
    """The leak is found and nothing else, in 95 of 100 pairs of runs with seeds of their own. The
    true share lies above 95 %; what fails by chance is tried once more."""
    shares = [share_found(directory)]
    if shares[0] < 0.95:
        shares.append(share_found(directory))
    check(max(shares) >= 0.95, f"the leak alone in {shares} of {RUNS} pairs")


def share_found(directory):
    right, found = 0, 0
    for number in range(RUNS):
        before = record(directory, f"before-{number}")
        after = record(directory, f"after-{number}", "2000")
        names = marked(diff_json(before, after))
        found += "the_leak" in names
        right += names == ["the_leak"]
        shutil.rmtree(before)
        shutil.rmtree(after)
    print(f"of {RUNS}: found in {found}, and nothing else in {right}")
    return right / RUNS


def nothing_added(directory):
    """Without a leak nothing is marked, in 95 % of pairs of runs, in each view: three standard
    errors more fail."""
    views = ("space", "objects", "alloc_space", "alloc_objects", "max")
    marks = dict.fromkeys(views, 0)
    for number in range(RUNS):
        before, after = record(directory, f"before-{number}"), record(directory, f"after-{number}")
        difference = diff_json(before, after)
        for view in views:
            marks[view] += bool(marked(difference, view))
        shutil.rmtree(before)
        shutil.rmtree(after)
    print(f"marked in so many of {RUNS}: {marks}")
    for view, count in marks.items():
        most = 0.05 * RUNS + 3 * math.sqrt(0.05 * 0.95 * RUNS)
        check(count <= most, f"{view}: marked in {count} of {RUNS}")


def pprof(directory):
    before, after = record(directory, "a", "2000", interval=1), record(directory, "b", interval=1)
    path = os.path.join(directory, "difference.pb.gz")
    diff_text("--pprof", path, before, after)
    done = subprocess.run(
        ["go", "tool", "pprof", "-top", "-sample_index=space", "-unit=B", path],
        capture_output=True, text=True, timeout=60, env={**os.environ, "HOME": directory,
                                                         "PPROF_TMPDIR": directory},
    )
    check(done.returncode == 0, f"go tool pprof: {done.stderr[-500:]}")
    leaks = [line.split() for line in done.stdout.splitlines() if line.endswith(" the_leak")]
    check(len(leaks) == 1 and leaks[0][0] == "-400000B", f"below zero: {done.stdout}")


def main():
    with tempfile.TemporaryDirectory() as directory:
        {
            "with_itself": with_itself, "exact": exact, "added_leak": added_leak,
            "nothing_added": nothing_added, "pprof": pprof,
        }[sys.argv[1]](directory)
    harness.finish()


if __name__ == "__main__":
    main()
