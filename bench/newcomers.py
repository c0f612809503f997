#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Measure how much of a program that starts during a session is missed before the attaching, and
the daemon's cost of an exec.

    bench/newcomers.py

Prints both figures with the kernel's reports of new programs, and (as root) without them: in
another network namespace. Uses its own run directories.
"""

import json
import os
import re
import shutil
import statistics
import subprocess
import tempfile
import time

from common import BUILD, TOOL, make

DAEMON = os.path.join(BUILD, "heapprofd")
ROUNDS, STEPS, EXECS = 21, 200, 2000
ATTACHED = re.compile(r"attached (?:up to )?([\d.]+) ms after it began")


def cpu_ms(pid):
    with open(f"/proc/{pid}/stat") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) * 1000 / os.sysconf("SC_CLK_TCK")


class Scene:
    """A daemon with one session that profiles programs by name."""

    def __init__(self, directory, name, wrapper):
        self.output = os.path.join(directory, "o")
        self.environment = {**os.environ, "HEAPPROFD_RUN_DIR": os.path.join(directory, "run")}
        self.daemon = subprocess.Popen(
            [*wrapper, DAEMON], env=self.environment, stderr=subprocess.DEVNULL
        )
        while self.status() is None:
            time.sleep(0.01)
        self.session = subprocess.Popen(
            [TOOL, "-i", "1", "-n", name, "-o", self.output],
            env=self.environment, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL,
        )
        self.session.stderr.readline()

    def status(self):
        outcome = subprocess.run(
            [TOOL, "status", "--json"], env=self.environment, capture_output=True
        )
        return json.loads(outcome.stdout) if outcome.returncode == 0 else None

    def end(self):
        self.session.send_signal(2)
        self.session.communicate()
        self.daemon.terminate()
        self.daemon.wait()
        if not os.path.exists(os.path.join(self.output, "raw-trace")):
            return []
        report = subprocess.run([TOOL, "report", "--json", self.output], capture_output=True)
        return json.loads(report.stdout)["heaps"] if report.returncode == 0 else []


def measure_start(stepper, wrapper):
    """Return milliseconds until each program was attached to, and the shares of their steps in
    the profile."""
    missed, shares, made = [], [], {}
    with tempfile.TemporaryDirectory() as directory:
        name = f"bench{os.getpid()}"
        program = shutil.copy(stepper, os.path.join(directory, name))
        scene = Scene(directory, name, wrapper)
        for _ in range(ROUNDS):
            process = subprocess.Popen([program, str(STEPS)], stdout=subprocess.DEVNULL)
            process.wait()
            made[process.pid] = STEPS
        for heap in scene.end():
            found = ATTACHED.search(heap["remark"])
            if found:
                missed.append(float(found.group(1)))
                shares.append(heap["total"]["alloc_objects"]["estimate"] / made[heap["pid"]])
    return missed, shares


def measure_exec(wrapper):
    """Return microseconds of the daemon's time for the exec of an unrelated program."""
    with tempfile.TemporaryDirectory() as directory:
        scene = Scene(directory, "nobody_has_this_name", wrapper)
        pid = scene.status()["pid"]
        before = cpu_ms(pid)
        began = time.monotonic()
        subprocess.run(["sh", "-c", f"i=0; while [ $i -lt {EXECS} ]; do /bin/true; i=$((i+1)); done"])
        busy, seconds = cpu_ms(pid) - before, time.monotonic() - began
        before = cpu_ms(pid)
        time.sleep(seconds)
        idle = cpu_ms(pid) - before
        scene.end()
    return max(busy - idle, 0) * 1000 / EXECS


def main():
    stepper, = make("tests/programs/stepper")
    print("| new programs | attached after, median | at most | steps seen | an exec costs |")
    print("|---|---|---|---|---|")
    for what, wrapper in (("reported by the kernel", ()), ("found by scans", ("unshare", "--net"))):
        if wrapper and os.geteuid() != 0:
            continue
        missed, shares = measure_start(stepper, wrapper)
        cost = measure_exec(wrapper)
        if not missed:
            print(f"| {what} | none of {ROUNDS} was attached to | | | {cost:.0f} us |")
            continue
        print(
            f"| {what} | {statistics.median(missed):.1f} ms | {max(missed):.1f} ms "
            f"| {statistics.median(shares):.1%} in {len(missed)} of {ROUNDS} | {cost:.0f} us |"
        )


if __name__ == "__main__":
    main()
