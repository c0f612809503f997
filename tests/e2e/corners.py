#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Programs at the limits of what the client expects: calls that fail, hooks that are called before the
client's library is ready, more threads and modules than it has room for, a machine that has run for months.

    corners.py CASE

Each program of tests/programs prints its own true figures (see truth.h there).
"""

import os
import re
import time

import harness
from harness import check, program
from robust import check_truth

PRELOAD = os.path.join(harness.BUILD, "libheapprofd_preload.so")


def test_failed_calls():
    """A call that fails because of its arguments is no allocation, at any interval, preloaded and (static
    programs) attached."""
    for name in ("failed_calls", "failed_calls_static"):
        if not os.path.exists(program(name)):
            continue
        for interval in (1, 524288, 1 << 30):
            figures = {}
            for failing in ("0", "100000"):
                ours, profile = harness.profile([program(name), failing], interval)
                what = f"{name} {failing} at {interval}"
                check(ours.status == 0, f"{what}: status {ours.status} {ours.stderr}")
                if not check(profile is not None, f"{what}: no profile"):
                    return
                if interval == 1:
                    check_truth(profile, ours.stdout, what)
                process = profile.process().process
                figures[failing] = (process.exact_bytes, process.exact_calls)
            print(f"{name} at {interval}: {figures}")
            check(figures["0"] == figures["100000"], f"{name} at {interval}: failed calls count: {figures}")


def test_early():
    """A library may allocate while the loader relocates it, before it has relocated the client's."""
    if not os.path.exists(program("early")):
        harness.skip("there are no indirect functions")
    for interval in (1, 4096):
        ours, profile = harness.same_with_and_without([program("early")], interval)
        check(ours.status == 0, f"at {interval}: status {ours.status} {ours.stderr}")
        if check(profile is not None, f"at {interval}: no profile") and interval == 1:
            check_truth(profile, ours.stdout, "early")
            check(profile.lost() == {}, f"lost {profile.lost()}")


def check_threads(name):
    command = [program(name), "16600"]
    bare = harness.run(command)
    if bare.status == 77:
        harness.skip("there cannot be so many threads")
    check(bare.status == 0, f"{name} without us: status {bare.status} {bare.stderr}")
    preloaded = harness.run(command, env={**os.environ, "LD_PRELOAD": PRELOAD})
    preloaded.check_same(bare, f"{name} preloaded", stderr=False)
    calls = {}
    for threads in (100, 200, 16600):
        what = f"{name} {threads}"
        ours, profile = harness.profile([program(name), str(threads)], 1 << 30)
        print(f"{what}: {ours.stderr.decode().splitlines()[0]}")
        check(ours.status == 0, f"{what}: status {ours.status} {ours.stderr}")
        if not check(profile is not None, f"{what}: no profile"):
            return
        lost = profile.lost()
        check(set(lost) == ({"no thread slot"} if threads > 16384 else set()), f"{what}: lost {lost}")
        calls[threads] = profile.process().process.exact_calls + lost.get("no thread slot", 0)
    # Each thread adds the same number of calls, its own and those of its creation.
    expected = calls[100] + (calls[200] - calls[100]) // 100 * (16600 - 100)
    check(calls[16600] == expected, f"{name}: {calls} calls, counted or lost, expected {expected}")


def test_threads_over():
    """Threads beyond the number of slots run on as fast as others. Their calls are counted as lost: no call is
    in neither figure. The static program is attached to."""
    for name in ("threads_over", "threads_over_static"):
        if os.path.exists(program(name)):
            check_threads(name)



def many_modules(count, how):
    """Run the program and return its profile."""
    directory = harness.make_work_directory("many-modules-")
    plugin = os.path.join(harness.PROGRAMS, "libmany_modules_plugin.so")
    command = [program("many_modules"), plugin, directory, str(count), how]
    ours, profile = harness.profile(command, 1, timeout=600)
    what = f"{count} modules, {how}"
    print(f"{what}: {ours.stderr.decode().splitlines()[0]}")
    check(ours.status == 0, f"{what}: status {ours.status} {ours.stderr}")
    check(profile is not None, f"{what}: no profile")
    return ours, profile


def test_many_modules():
    """The number of libraries that a program has loaded in its life does not matter. The last one has its name,
    and its calls cost as much as those of the first one."""
    ours, profile = many_modules(4300, "reload")
    if profile is not None:
        check_truth(profile, ours.stdout, "reload")
        check(profile.lost() == {}, f"lost {profile.lost()}")


def test_modules_over():
    """Where more libraries are loaded than there is room for, those without a name are counted, and cost no more
    than others."""
    _, profile = many_modules(4150, "keep")
    if profile is not None:
        check(set(profile.lost()) == {"modules"} and 0 < profile.lost()["modules"] < 1000, f"lost {profile.lost()}")


def test_shifted_clock():
    """The clock of a process may be far ahead of the profiler's (a time namespace), by more than fits the 32 bits of
    a record's time. Its profile has the times of the profiler's clock."""
    for days in (0, 30, 60, 1000):
        command = [program("limits"), "files"]
        if days > 0:
            shifted = ["unshare", "--time", "--fork", "--monotonic", str(days * 86400)]
            if harness.run([*shifted, "true"]).status != 0:
                harness.skip("a time namespace cannot be made")
            command = [*shifted, *command]
        output = os.path.join(harness.make_work_directory("shifted-clock-"), "profile")
        begin_ns = time.monotonic_ns()
        outcome = harness.run(harness.host_command(command, output, 1, "-n", "limits"))
        end_ns = time.monotonic_ns()
        check(outcome.status == 0, f"{days} days: status {outcome.status} {outcome.stderr}")
        text = harness.run([os.path.join(harness.BUILD, "traceconv"), "text", os.path.join(output, "raw-trace")]).stdout
        peaks = [int(peak) for peak in re.findall(rb"peak_timestamp: (\d+)", text)]
        check(peaks, f"{days} days: no peak")
        for peak in peaks:
            # The coarse clock is up to 10 ms behind.
            check(begin_ns - 10_000_000 <= peak <= end_ns, f"{days} days: the peak was at {peak} ns, not from {begin_ns} to {end_ns}")


if __name__ == "__main__":
    harness.main()
