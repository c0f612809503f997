#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Measure what profiling costs, beside other profilers, and write docs/performance.md and aims.md.

    make bench                     everything, at most 30 minutes on two processors: writes
                                   results.json (results.py) and the pages (write_performance.py)
    bench/run.py [PROGRAM...]      only these programs (programs.py); prints, writes nothing

HEAPPROFD_OTHER names a second heap_profile, of another build, for programs under our profiler.
HEAPPROFD_BENCH_ROUNDS (15) is the number of rounds of the programs under our profiler; every
allocation and other profilers have a fifth of them. rounds.py says how runs are compared.
"""

import json
import multiprocessing
import os
import platform
import re
import subprocess
import sys
import time

from attach import measure_attach
from common import ROOT, make_pass_through
from daemon import measure_dormant, measure_dump, measure_dump_at_max
from heaps import measure_heaps
from memory_infra import measure_memory_infra
from micro import measure_daemon, measure_ledger, measure_micro, measure_start
from profilers import OURS, OURS_OWN, OURS_SHORT, WHOLE
from programs import LONG, OWN_ALLOCATORS, SHORT
from query import measure_query
from report import measure_report
from results import reduce, store
from rounds import measure, shares_of
from symbolize import measure_pprof, measure_symbolize
from write_performance import write_pages

ROUNDS = int(os.environ.get("HEAPPROFD_BENCH_ROUNDS", "15"))
FEW_ROUNDS = max(2, ROUNDS // 5)


def separately(function, *arguments):
    """Run the function in a process of its own. The kernel counts the memory of whoever starts a program to that
    program's peak, so this process must stay small."""
    with multiprocessing.get_context("fork").Pool(1) as pool:
        return pool.apply(function, arguments)


def only(programs, names):
    return {name: make for name, make in programs.items() if not names or name in names}


def say(*words):
    print(*words, flush=True)


def measure_programs(names=()):
    """Return {"long", "short", "own", "whole": the result of measure()}."""
    make_pass_through()
    return {
        "long": measure(only(LONG, names), OURS, ROUNDS, say),
        "short": measure(only(SHORT, names), OURS_SHORT, ROUNDS, say),
        "own": measure(only(OWN_ALLOCATORS, names), OURS_OWN, ROUNDS, say),
        "whole": measure(only(LONG, names), WHOLE, FEW_ROUNDS, say),
    }


def measure_growth():
    """Run bench/growth.py as a separate process: it imports modules of the tests, which have the
    same names as ours."""
    script = os.path.join(ROOT, "bench", "growth.py")
    return json.loads(subprocess.run([sys.executable, script, "--json"], stdout=subprocess.PIPE, check=True).stdout)


REST = {
    "micro": measure_micro, "start": measure_start, "daemon": measure_daemon, "ledger": measure_ledger,
    "report": measure_report, "dump": measure_dump, "dump_at_max": measure_dump_at_max, "dormant": measure_dormant,
    "attach": measure_attach, "heaps": measure_heaps, "symbolize": measure_symbolize, "pprof": measure_pprof,
    "query": measure_query, "memory_infra": measure_memory_infra, "growth": measure_growth,
}


def machine():
    with open("/proc/cpuinfo") as file:
        model = re.search(r"model name\s*: (.*)", file.read()).group(1)
    compiler = subprocess.run(["gcc", "--version"], capture_output=True, text=True).stdout
    return (
        f"{os.cpu_count()} x {model}, Linux {platform.release()}, "
        f"{' '.join(platform.libc_ver())}, {compiler.splitlines()[0]}"
    )


def main():
    names = sys.argv[1:]
    began = time.monotonic()
    programs = separately(measure_programs, names)
    if names:
        for name, (runs, _) in programs["whole"].items():
            say(name, "share of heaptrack -r:", shares_of(runs, "1", "heaptrack -r"))
        return
    figures = {"date": time.strftime("%Y-%m-%d"), "machine": machine(), "rounds": (ROUNDS, FEW_ROUNDS)}
    for name, measure_it in REST.items():
        start = time.monotonic()
        figures[name] = separately(measure_it)
        say(f"{name}: {time.monotonic() - start:.0f} s")
    figures["minutes"] = (time.monotonic() - began) / 60
    results = reduce(figures, programs)
    store(results)
    write_pages(results)


if __name__ == "__main__":
    main()
