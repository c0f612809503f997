#!/usr/bin/python3
"""The profile's figures against a program whose truth is known (tests/programs/ground_truth.c).

    ground_truth.py exact      interval 1: every callsite to the byte and to the call
    ground_truth.py 4096       estimates over many runs, each with seeds of its own
    ground_truth.py 65536

Two properties of the estimates:

mean      Per size class and figure, the mean over the runs lies within 3 standard errors of the
          truth (the error taken from the spread of the runs).
coverage  The 95 % interval that the report prints for a callsite holds the truth in 93 to 97 % of
          all (callsite, run) pairs.

False alarms. A mean that is right falls outside of 3 standard errors with probability 0.0034
(Student's t, 100 runs). With n pairs and a true coverage of 0.95, the observed share has a standard
deviation of sqrt(0.0475 / n): 0.0045 for n = 2,400, so that 0.93 and 0.97 are 4.5 of them away
(probability 7e-6). Power: a true coverage of 0.92 would pass with probability 0.03.
What fails is tried once more with fresh runs and must fail again in the same direction, so that one
mean alarms falsely with 0.0034 * 0.0017 = 6e-6, all 40 of them together with 2.4e-4, all with less than 1e-3.
A true bias of 5 standard errors of the mean is found with probability 0.95 even so.

Coverage is asked of bytes everywhere, of counts where all sizes are small, and of counts elsewhere
where the estimate is no more skewed than the count of 60 samples (the program works its figures'
skewness out). No interval can hold the count of a callsite that asks for 16 bytes and for 16 KiB: a
single small sample stands for thousands of calls, mostly is not there, and nothing tells of it.
"""

import json
import math
import os
import sys
import tempfile

import harness
from harness import check, fail, program

FIGURES = ("alloc_space", "alloc_objects", "space", "objects")
RUNS = int(os.environ.get("HEAPPROFD_RUNS", "100"))
SKEWNESS_FOR_COVERAGE = 1 / math.sqrt(60)


def run_once(interval, *arguments):
    """Truth and what the report says, of one run: two lists, in the same order of callsites."""
    with tempfile.TemporaryDirectory() as directory:
        truth_path, output = os.path.join(directory, "truth.json"), os.path.join(directory, "profile")
        outcome, profile = harness.profile(
            [program("ground_truth"), truth_path, *arguments], interval, keep=output
        )
        if outcome.status != 0 or profile is None:
            fail(f"status {outcome.status}, {outcome.stderr[-500:]!r}")
            harness.finish()
        with open(truth_path) as file:
            truth = json.load(file)
        if profile.lost():
            fail(f"lost {profile.lost()}")
        reported, heap = harness.read_report(output)
        check(heap["exact_bytes"] >= sum(site["alloc_space"] for site in truth), "exact bytes")
        return truth, [reported.get(site["function"], harness.Reported()) for site in truth]


def check_exact():
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


def is_judged(kind, figure, skewness):
    if figure.endswith("space") or kind == "small":
        return True
    return abs(skewness) <= SKEWNESS_FOR_COVERAGE


def observe(interval):
    """Many runs: for (class, figure) the runs' totals and the truth; for each figure, whether the
    intervals of the callsites held the truth."""
    totals, truths, covered = {}, {}, {figure: [] for figure in FIGURES}
    for _ in range(RUNS):
        truth, found = run_once(interval, "1", "100", str(interval))
        sums = {}
        truths = {}
        for site, estimate in zip(truth, found):
            for figure, skewness in zip(FIGURES, site["skewness"]):
                key = site["class"], figure
                value, (low, high) = estimate.value(figure), estimate.interval(figure)
                sums[key] = sums.get(key, 0) + value
                truths[key] = truths.get(key, 0) + site[figure]
                if high > low and is_judged(site["class"], figure, skewness):
                    covered[figure].append(low <= site[figure] <= high)
        for key, value in sums.items():
            totals.setdefault(key, []).append(value)
    return totals, truths, covered


def judge(interval):
    """One set of runs: the verdict of each check, -1, 0 or 1 (too low, right, too high)."""
    totals, truths, covered = observe(interval)
    verdicts = {}
    for key, values in totals.items():
        mean = sum(values) / len(values)
        spread = math.sqrt(sum((v - mean) ** 2 for v in values) / (len(values) - 1))
        error, off = spread / math.sqrt(len(values)), mean - truths[key]
        # What has no spread is not sampled: exact but for rounding.
        allowed = 3 * error + 1e-9 * truths[key]
        verdicts["mean", *key] = 0 if abs(off) <= allowed else int(math.copysign(1, off))
        print(
            f"{key[0]:6} {key[1]:13} truth {truths[key]:12} mean {mean:14.1f} "
            f"standard error {error:9.1f} off {off / error if error else 0:+.2f}"
        )
    # Counts of few samples are whole numbers, so that no interval has 95 % at each: all together.
    for figure in ("space", "objects"):
        observations = [held for name in FIGURES if name.endswith(figure) for held in covered[name]]
        if len(observations) < 500:
            continue
        share = sum(observations) / len(observations)
        verdicts["coverage", figure] = -1 if share < 0.93 else 1 if share > 0.97 else 0
        print(f"coverage of {figure}: {share:.4f} of {len(observations)}")
    return verdicts


def check_estimates(interval):
    first = judge(interval)
    suspects = {key: verdict for key, verdict in first.items() if verdict}
    if not suspects:
        return
    print(f"once more, for {suspects}")
    second = judge(interval)
    for key, verdict in suspects.items():
        check(second[key] != verdict, f"{key} is off twice, direction {verdict:+d}")


if __name__ == "__main__":
    if sys.argv[1:] == ["exact"]:
        check_exact()
    else:
        check_estimates(int(sys.argv[1]))
    harness.finish()
