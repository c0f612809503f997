# SPDX-License-Identifier: Apache-2.0
"""Run programs under several profilers in turn, and compare the runs of each round.

A disturbance of the machine affects all runs of a round alike, so each run is compared with the base
of its own round. A figure is the median of these ratios over the rounds, with its quartiles.

Each round has an order of its own, drawn with a fixed seed. In a fixed order, a run directly after a
certain other one took up to 2 % longer, round after round, perhaps because of the memory that that one
gave back.
"""

import contextlib
import math
import random
import statistics
import sys
import tempfile
import threading
from typing import NamedTuple

from common import Figure, figure_of, run
from profilers import is_installed
from programs import can_run


class Found(NamedTuple):
    """Of one profiler on one program: relative to its base, and the base's median seconds."""

    wall: Figure
    cpu: Figure
    seconds: float
    rounds: int


def geometric_mean(values):
    return math.exp(statistics.mean(map(math.log, values)))


def stop_after(seconds):
    """Return a function for run() that kills the program after this time."""
    def begin(process):
        timer = threading.Timer(seconds, process.kill)
        timer.daemon = True
        timer.start()

    return begin if seconds else None


def run_once(program, profiler):
    """Return the exit status and the Cost of one run."""
    with tempfile.TemporaryDirectory(prefix="bench-") as work:
        command, env = profiler.wrap(program.command, work, program.options)
        env = {**program.env, **env}
        if program.run:
            return program.run(command, env)
        return run(command, program.stdin, env, stop_after(profiler.cut_after))


def alternate(program, profilers, rounds):
    """Return {profiler: [Cost of each round]}. A profiler that fails in a round, or does not run in it, has None there."""
    runs = {name: [] for name in profilers}
    order = random.Random(1)
    for number in range(rounds):
        for name in order.sample(list(profilers), len(profilers)):
            profiler = profilers[name]
            # One run is enough for a profiler whose runs are cut.
            if number and profiler.cut_after:
                continue
            if number % profiler.every:
                runs[name].append(None)
                continue
            status, cost = run_once(program, profiler)
            if status != 0 and not profiler.cut_after:
                print(f"{' '.join(program.command)[:60]} under {name}: status {status}", file=sys.stderr)
                cost = None
            runs[name].append(cost)
    return runs


def compare(runs, profilers):
    """Return {profiler: Found} for each profiler with a base."""
    found = {}
    for name, profiler in profilers.items():
        pairs = [(mine, base) for mine, base in zip(runs[name], runs.get(profiler.base, [])) if mine and base]
        if not pairs:
            continue
        found[name] = Found(
            figure_of([mine.wall / base.wall for mine, base in pairs]), figure_of([mine.cpu / base.cpu for mine, base in pairs]),
            statistics.median(base.wall for _, base in pairs), len(pairs))
    return found


def shares_of(runs, name, other, base="none"):
    """Return what `name` adds to the base in a round, as a share of what `other` adds: wall, CPU; and its CPU in all
    as a share of the other's. Medians, or None if `other` did not run."""
    rounds = [each for each in zip(runs[name], runs.get(other, []), runs[base]) if all(each)]
    if not rounds:
        return None

    def share(what):
        return figure_of([max(what(a) - what(c), 1e-3) / max(what(b) - what(c), 1e-3) for a, b, c in rounds])

    return (share(lambda cost: cost.wall), share(lambda cost: cost.cpu), figure_of([a.cpu / b.cpu for a, b, _ in rounds]))


def measure(programs, profilers, rounds, report=print):
    """Return {program: (runs, {profiler: Found})} of those programs and profilers that this machine has."""
    measured = {}
    for name, make in programs.items():
        with tempfile.TemporaryDirectory(prefix="bench-") as inputs:
            with contextlib.suppress(FileNotFoundError):  # a compiler that the input needs
                program = make(inputs)
                usable = {key: each for key, each in profilers.items()
                          if is_installed(each) or each.base is None and each.library is None}
                if program.own_malloc:
                    usable = {key: each for key, each in usable.items() if not each.library or "jemalloc" in key}
                if not can_run(program):
                    report(f"{name}: not installed")
                    continue
                runs = alternate(program, usable, rounds)
                measured[name] = runs, compare(runs, usable)
                report(name, {key: f"{each.wall:.3f}/{each.cpu:.3f}" for key, each in measured[name][1].items()})
    return measured
