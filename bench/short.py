#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Measure what profiling adds to short programs, where the start and the end of the profiler count.

    bench/short.py [-n PAIRS] [PROGRAM...]

Runs alternate: without a profiler, then at each interval. Prints medians of the ratios of neighbouring runs, with
their quartiles, for wall and processor time; of `true`, the shortest run and the median in ms. HEAPPROFD_OTHER names
a second heap_profile (of an older build), which runs in the same rounds.
"""

import argparse
import os
import random
import statistics
import tempfile

from common import ROOT, TOOL, cost

INTERVALS = (4096, 524288)


def data_git(_):
    return ["git", "-C", ROOT, "log", "-p", "-40"], ()


def data_xmllint(work):
    path = os.path.join(work, "data.xml")
    with open(path, "w") as file:
        file.write("<all>")
        for i in range(400000):
            file.write(f'<item id="{i}"><name>n{i}</name><v>{i * 7}</v></item>')
        file.write("</all>")
    return ["xmllint", "--noout", path], ()


def source(work, functions):
    path = os.path.join(work, "a.cc")
    with open(path, "w") as file:
        file.write("#include <algorithm>\n#include <map>\n#include <string>\n#include <vector>\n")
        for i in range(functions):
            file.write(f"int f{i}(const std::map<std::string, std::vector<int>> &all) {{ int s = {i}; "
                       "for (const auto &[k, v] : all) { auto w = v; std::sort(w.begin(), w.end()); "
                       "s += w[0] + (int)k.size(); } return s; }\n")
    return path


def data_clang(work):
    return ["clang++", "-std=c++17", "-O1", "-c", "-o", os.path.join(work, "a.o"), source(work, 10)], ()


def data_cc1plus(work):
    return (["g++", "-std=c++17", "-O1", "-c", "-o", os.path.join(work, "a.o"), source(work, 20)],
            ("--follow-children",))


def data_true(_):
    return ["/bin/true"], ()


PROGRAMS = {"true": data_true, "git": data_git, "xmllint": data_xmllint, "clang": data_clang, "cc1plus": data_cc1plus}


def measure(name, pairs):
    """Return {how: [Cost]}, where how is None or (tool, interval)."""
    tools = [TOOL, *filter(None, [os.environ.get("HEAPPROFD_OTHER")])]
    ways = [None, *((tool, interval) for interval in INTERVALS for tool in tools)]
    found = {way: [] for way in ways}
    with tempfile.TemporaryDirectory(prefix="bench-") as work:
        command, options = PROGRAMS[name](work)
        for _ in range(pairs):
            # In another order each time: a disturbance meets all of them.
            for way in random.sample(ways, len(ways)):
                with tempfile.TemporaryDirectory(prefix="bench-") as output:
                    full = command if way is None else [
                        way[0], "host", "--quiet", "-i", str(way[1]), *options, "-o", f"{output}/profile", "--", *command]
                    found[way].append(cost(full))
    return found


def quartiles(values):
    low, middle, high = statistics.quantiles(values, n=4)
    return f"{middle:.3f} ({low:.3f} to {high:.3f})"


def report(name, found):
    plain = found[None]
    print(f"{name}: {statistics.median(run.wall for run in plain) * 1000:.0f} ms, "
          f"{statistics.median(run.cpu for run in plain) * 1000:.0f} ms of processor time")
    for way, runs in found.items():
        if way is None:
            continue
        least, middle = min(run.wall for run in runs), statistics.median(run.wall for run in runs)
        print(f"  {way[1]:>7} {'' if way[0] == TOOL else '(other) '}"
              f"wall {quartiles([run.wall / base.wall for run, base in zip(runs, plain)])}, "
              f"CPU {quartiles([run.cpu / base.cpu for run, base in zip(runs, plain)])}, "
              f"least {least * 1000:.1f} ms, median {middle * 1000:.1f} ms", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("-n", type=int, default=15, help="number of pairs")
    parser.add_argument("programs", nargs="*")
    chosen = parser.parse_args()
    for name in chosen.programs or PROGRAMS:
        report(name, measure(name, chosen.n))


if __name__ == "__main__":
    main()
