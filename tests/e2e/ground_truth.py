#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The profile's figures against a program with known figures (tests/programs/ground_truth.c).

    ground_truth.py exact      interval 1: every callsite to the byte and to the call
    ground_truth.py 4096       estimates over many runs, each with its own seeds
    ground_truth.py 65536
    ground_truth.py widened    begins at interval 1 and widens: its totals agree with the exact ones;
                               with HEAPPROFD_RUNS=1000 or more as above, except that intervals may hold
                               more often (the upper limit of a count assumes the longest interval)

Two properties of the estimates, of each size class (small, mixed, large, once, huge) by itself:

mean      Per figure, the mean over the runs lies within 3 standard errors of the truth.
coverage  The 95 % interval that the report prints for a callsite holds the truth in 93 to 97 % of
          all callsites and runs, of bytes and of counts, live and ever allocated. A point interval
          holds the truth only if it equals it. Huge blocks are always sampled: all their intervals
          must hold. A live figure is not judged at callsites without live memory.

Standard errors come from the spread between runs: figures of one run share samples (live memory was
also allocated), runs share nothing. Coverage fails if it lies more than 3 standard errors below 0.93
or above 0.97.

False alarms. The mean of 300 runs falls outside of 3 standard errors on one side with probability
0.0015 (Student's t). So does the share of a class whose true coverage is exactly 0.93 or 0.97; at 0.94
(standard error 0.004) the probability is 2e-8. A failed check is repeated with new, independent runs,
and must fail again in the same direction: 0.0015 squared, for two directions 4.6e-6 a check. With 20
means and 8 shares, the test of an interval gives a false alarm with a probability below
28 * 4.6e-6 = 1.3e-4 (this bound does not need independent checks).

Power. A true bias of 5 standard errors of the mean is found twice in a row with probability 0.95. So is
a coverage 5 standard errors outside of the range (0.91 with a standard error of 0.004).
"""

import json
import math
import os
import tempfile

import harness
from harness import check, fail, program

FIGURES = ("alloc_space", "alloc_objects", "space", "objects")
RUNS = int(os.environ.get("HEAPPROFD_RUNS", "300"))
COVERAGE_LOW, COVERAGE_HIGH = 0.93, 0.97


def run_once(interval, *arguments):
    """Run once, at an interval, or with None at intervals that widen and narrow. Return the true and the reported figures: two lists, in the same order of callsites."""
    with tempfile.TemporaryDirectory() as directory:
        truth_path, output = os.path.join(directory, "truth.json"), os.path.join(directory, "profile")
        command = [program("ground_truth"), truth_path, *arguments]
        options = ["--max-overhead", "1"] if interval is None else []
        outcome = harness.run(harness.host_command(command, output, interval, *options))
        if outcome.status != 0:
            fail(f"status {outcome.status}, {outcome.stderr[-500:]!r}")
            harness.finish()
        with open(truth_path) as file:
            truth = json.load(file)
        reported, heap = harness.read_report(output)
        lost = {reason: count for reason, count in heap["lost"].items() if count and reason != "unwind"}
        check(not lost, f"lost {lost}")
        check(heap["exact_bytes"] >= sum(site["alloc_space"] for site in truth), "exact bytes")
        return truth, [reported.get(site["function"], harness.Reported()) for site in truth]


def test_exact():
    for arguments in ([], ["4", "25"], ["16", "5"]):
        truth, found = run_once(1, *arguments)
        for site, estimate in zip(truth, found):
            for figure in FIGURES:
                check(
                    estimate.value(figure) == site[figure],
                    f"threads {arguments[:1]}: {site['function']} {figure}: "
                    f"{estimate.value(figure)}, truth {site[figure]}",
                )
        print(f"{len(truth)} callsites exact, arguments {arguments}")


class Observations:
    """Results of many runs: totals by (class, figure), and whether the callsites' intervals held."""

    def __init__(self):
        self.totals, self.truths = {}, {}
        # {(class, figure): a list for each run}
        self.held, self.wrong_points = {}, {}

    def add_run(self, truth, found):
        sums, truths, held = {}, {}, {}
        for site, estimate in zip(truth, found):
            for figure in FIGURES:
                key = site["class"], figure
                sums[key] = sums.get(key, 0) + estimate.value(figure)
                truths[key] = truths.get(key, 0) + site[figure]
                if site[figure] == 0 and estimate.value(figure) == 0:
                    continue
                low, high = estimate.interval(figure)
                # Certain samples add up exactly, except for the rounding of doubles.
                holds = low <= site[figure] * (1 + 1e-9) and site[figure] * (1 - 1e-9) <= high
                held.setdefault(key, []).append(holds)
                if high <= low and not holds:
                    self.wrong_points[key] = self.wrong_points.get(key, 0) + 1
        self.truths = truths
        for key, value in sums.items():
            self.totals.setdefault(key, []).append(value)
        for key, value in held.items():
            self.held.setdefault(key, []).append(value)


def observe(interval):
    observations = Observations()
    for _ in range(RUNS):
        observations.add_run(*run_once(interval, "1", "100"))
    return observations


def outside(value, low, high):
    return -1 if value < low else int(value > high)


def judge_means(observations):
    verdicts = {}
    for key, values in observations.totals.items():
        truth, mean = observations.truths[key], sum(values) / len(values)
        spread = math.sqrt(sum((v - mean) ** 2 for v in values) / (len(values) - 1))
        error, off = spread / math.sqrt(len(values)), mean - truth
        # Figures without spread are exact, except for rounding.
        allowed = 3 * error + 1e-9 * truth
        verdicts[("mean", *key)] = outside(off, -allowed, allowed)
        print(
            f"{key[0]:6} {key[1]:13} truth {truth:12} mean {mean:14.1f} "
            f"standard error {error:9.1f} off {off / error if error else 0:+.2f}"
        )
    return verdicts


def share_of(runs):
    """Return the share that held, of lists by run, and its standard error with the runs as clusters."""
    count = sum(map(len, runs))
    share = sum(map(sum, runs)) / count
    squares = sum((sum(run) - share * len(run)) ** 2 for run in runs)
    return share, math.sqrt(squares * len(runs) / (len(runs) - 1)) / count


def judge_coverage(observations, is_bounded_above):
    verdicts = {}
    for kind in sorted({key[0] for key in observations.held}):
        for unit, figures in (("bytes", FIGURES[::2]), ("counts", FIGURES[1::2])):
            by_figure = [observations.held[kind, figure] for figure in figures]
            assert len({len(runs) for runs in by_figure}) == 1
            share, error = share_of([sum(lists, []) for lists in zip(*by_figure)])
            parts = ", ".join(
                f"{figure} {share_of(runs)[0]:.4f}" for figure, runs in zip(figures, by_figure)
            )
            points = sum(observations.wrong_points.get((kind, figure), 0) for figure in figures)
            print(
                f"coverage {kind:6} {unit:6} {share:.4f} standard error {error:.4f} "
                f"({parts}; {points} wrong points)"
            )
            low, high = COVERAGE_LOW - 3 * error, COVERAGE_HIGH + 3 * error
            verdicts["coverage", kind, unit] = (
                outside(share, 1, 1) if kind == "huge" else outside(share, low, high)
            )
            if not is_bounded_above:
                verdicts["coverage", kind, unit] = min(verdicts["coverage", kind, unit], 0)
    return verdicts


def judge(interval):
    """Judge one set of runs. Return each check's verdict: -1, 0 or 1 (too low, correct, too high)."""
    observations = observe(interval)
    return {**judge_means(observations), **judge_coverage(observations, interval is not None)}


def check_estimates(interval):
    first = judge(interval)
    suspects = {key: verdict for key, verdict in first.items() if verdict}
    if not suspects:
        return
    print(f"once more, for {suspects}")
    second = judge(interval)
    for key, verdict in suspects.items():
        check(second[key] != verdict, f"{key} is off twice, direction {verdict:+d}")


def estimates(interval):
    return lambda: check_estimates(interval)


test_4096 = estimates(4096)
test_65536 = estimates(65536)


def test_widened():
    if RUNS >= 1000:
        check_estimates(None)
        return
    for _ in range(3):
        with tempfile.TemporaryDirectory() as directory:
            output = os.path.join(directory, "profile")
            command = [program("ground_truth"), os.path.join(directory, "truth.json"), "1", "100"]
            harness.run(harness.host_command(command, output, None, "--max-overhead", "1"))
            _, heap = harness.read_report(output)
            check(heap["agreement"]["agrees"], f"{heap['agreement']}")
            check((heap["first_interval_bytes"], heap["interval_bytes"] >= 4096) == (1, True), f"{heap['interval_bytes']}")

if __name__ == "__main__":
    harness.main()
