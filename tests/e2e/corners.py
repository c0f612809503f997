#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Programs at the limits of what the client expects: calls that fail, hooks that are called before the
client's library is ready, more threads and modules than it has room for, a machine that has run for months.

    corners.py CASE

Each program of tests/programs prints its own true figures (see truth.h there).
"""

import os

import harness
from harness import check, program
from robust import check_truth


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


if __name__ == "__main__":
    harness.main()
