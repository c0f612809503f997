#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Measure heap_profile leaks: compare two profiles of 20,000 call stacks of 30 frames, as traces
and as Chrome's JSON. And measure traceconv flamegraph on 100,000 call stacks.

    bench/growth.py [--json]

Prints medians of five runs: wall and CPU seconds, and the peak of resident memory.
"""

import json
import multiprocessing
import os
import random
import subprocess
import sys
import tempfile

from common import ROOT, TOOL, TRACECONV, median_cost

sys.path.insert(0, os.path.join(ROOT, "tests", "e2e"))
from leaks import one_process  # noqa: E402

COMPARED, DRAWN, FRAMES, FUNCTIONS, RUNS = 20_000, 100_000, 30, 6_000, 5


def make(directory, name, count, seed):
    """Make stacks that share their outer frames with the previous one, like real stacks."""
    shape, values, stacks, last = random.Random(1), random.Random(seed), {}, []
    names = [f"ns{i % 40}::Class{i % 300}::function_{i}(int, std::string const&)" for i in range(FUNCTIONS)]
    for _ in range(count):
        last = last[: shape.randrange(FRAMES - 1)]
        last += [names[shape.randrange(FUNCTIONS)] for _ in range(FRAMES - len(last))]
        stacks[";".join(last)] = (int(values.paretovariate(1.1) * 100), values.randint(1, 50))
    return one_process(stacks).write(directory, name)


def make_separately(*arguments):
    """Make stacks in a process of its own: run.py says why."""
    with multiprocessing.get_context("fork").Pool(1) as pool:
        return pool.apply(make, arguments)


def measure(*command):
    return median_cost(command, RUNS)


def measure_growth():
    """Return {what: (s, CPU s, MB)}: two traces compared, the same as JSON, and a page of many
    stacks."""
    with tempfile.TemporaryDirectory() as directory:
        return measure_in(directory)


def measure_in(directory):
    traces = [make_separately(directory, f"trace{seed}", COMPARED, seed) for seed in (2, 3)]
    found = {"traces": measure(TOOL, "leaks", *traces)}
    documents = [trace + ".json" for trace in traces]
    for trace, document in zip(traces, documents):
        subprocess.run([TRACECONV, "memory_infra", trace, document], check=True)
    found["JSON"] = measure(TOOL, "leaks", *documents)
    found["page"] = measure(TRACECONV, "flamegraph", make_separately(directory, "large", DRAWN, 2), os.path.join(directory, "page.html"))
    return found


def main():
    if sys.argv[1:] == ["--json"]:
        print(json.dumps(measure_growth()))
        return
    with tempfile.TemporaryDirectory() as directory:
        for what, figures in measure_in(directory).items():
            print(f"{what}: {figures[0]:.2f} s, {figures[1]:.2f} s CPU, {figures[2]:.0f} MB", flush=True)
        page = os.path.join(directory, "page.html")
        print(f"size of the page: {os.path.getsize(page) / 1e6:.0f} MB", flush=True)


if __name__ == "__main__":
    main()
