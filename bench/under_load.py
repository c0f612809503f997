#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Measure short and refused profiles on a loaded machine: aims.md.

    bench/under_load.py [--load N] [--rounds N]

Each round runs every command once, in turn, so that all have the same machine. `heap_profile
--version` shows the time to start a program. Several HEAPPROFD_BUILD, separated by colons, are
compared. Needs root: one of the refused requests is another user's.
"""

import argparse
import os
import tempfile

from common import ROOT, cost, load

BUILDS = os.environ.get("HEAPPROFD_BUILD", os.path.join(ROOT, "build")).split(":")
STRANGER = {"user": 12345, "group": 12345, "extra_groups": []}
MISSING_PID = 4194303


def kernel_thread():
    """Return the pid of a kernel thread, or None in a container without any."""
    for name in sorted(filter(str.isdigit, os.listdir("/proc")), key=int):
        try:
            with open(f"/proc/{name}/stat") as file:
                flags = int(file.read().rpartition(")")[2].split()[6])
        except OSError:
            continue
        if flags & 0x200000:  # PF_KTHREAD
            return int(name)
    return None


def commands(build, directory, json):
    """Return {name: (arguments, options of Popen, exit status)}."""
    tool = os.path.join(build, "heap_profile")
    host, session = [tool, "host", "-q", "-o"], [tool, "-q", "-o"]
    thread = kernel_thread()
    cases = {
        "--version": ([tool, "--version"], {}, 0),
        "host true": ([*host, "{}", "--", "true"], {}, 0),
        "host jq": ([*host, "{}", "--", "jq", ".", json], {}, 0),
        "-p, no such process": ([*session, "{}", "-p", str(MISSING_PID)], {}, 1),
        "-p, another user's": ([*session, "{}", "-p", str(os.getpid())], STRANGER, 1),
    }
    if thread:
        cases["-p, a kernel thread"] = ([*session, "{}", "-p", str(thread)], {}, 1)
    return cases


def measure(arguments, how, expected, environment):
    with tempfile.TemporaryDirectory(prefix="under-load-") as output:
        os.chmod(output, 0o755)
        if "user" in how:
            os.chown(output, how["user"], how["group"])
        return cost([part.format(output) for part in arguments], statuses=(expected,), env=environment, **how)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--load", type=int, default=30, help="programs that compute meanwhile")
    parser.add_argument("--rounds", type=int, default=20)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="under-load-") as directory:
        json = os.path.join(directory, "json")
        with open(json, "w") as file:
            file.write("[" + ",".join(f'{{"a": {i}, "b": "text"}}' for i in range(20000)) + "]")
        environment = {"HEAPPROFD_RUN_DIR": os.path.join(directory, "run")}
        cases = {"true": (["true"], {}, 0), "jq": (["jq", ".", json], {}, 0)}
        for number, build in enumerate(BUILDS):
            for name, case in commands(build, directory, json).items():
                cases[f"{name} ({number + 1})" if len(BUILDS) > 1 else name] = case
        took = {name: [] for name in cases}
        with load(options.load):
            for _ in range(options.rounds):
                for name, case in cases.items():
                    took[name].append(measure(*case, environment))
    print(f"load {os.getloadavg()[0]:.0f}, {options.rounds} rounds; seconds")
    for name, figures in took.items():
        seconds, used, _ = (sorted(figure) for figure in zip(*figures))
        print(f"  {name:28} median {seconds[len(seconds) // 2]:.2f}, longest {seconds[-1]:.2f}; "
              f"processor time {used[len(used) // 2] * 1000:.1f} ms")


main()
