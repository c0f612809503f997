#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The systemd unit: the daemon works under its restrictions. service.py"""

import os
import re
import shutil
import subprocess
import sys

import harness
from as_service import unit_of
from attach import NEEDED_CALLS, OWN_CALLS, Bare, attached, profile
from daemon import (
    ALICE, Commanded, Session, as_user, ask_as, check_figure, heap_of, joined, need_root, own_name, reachable, report_of,
    scene,
)
from harness import BUILD, check, need, program

UNIT = os.path.join(BUILD, "dist", "heapprofd.service")
EXPOSURE_MAX = 3.5
FIRST_NAMESPACE = "pid:[4026531836]"
HERE = os.path.dirname(os.path.abspath(__file__))


def its_exposure():
    """Return systemd's own exposure level of the unit, from 0 to 10."""
    if not shutil.which("systemd-analyze"):
        return
    outcome = harness.run(["systemd-analyze", "security", "--offline=yes", UNIT])
    found = re.search(rb"Overall exposure level for heapprofd.service: ([0-9.]+)", outcome.stdout)
    check(found and float(found[1]) <= EXPOSURE_MAX, f"exposure {found and found[1]}: {outcome.stderr!r}")


def spares_sessions():
    """If the daemon dies, systemd lets the sessions finish (daemon daemon_killed)."""
    check(unit_of(UNIT)["KillMode"] == ["control-group"], "systemd kills the sessions of a daemon that died")


class Other(Bare):
    """Start a program of another user, without our library."""

    def __init__(self, daemon):
        self.process = subprocess.Popen(
            [program("commanded")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0,
            env=daemon.environment, **as_user(ALICE),
        )
        self.pid = self.process.pid
        self.tell("hold 1 1")


def suffices():
    """Root attaches to root's and others' programs, reads their files, and is informed of new processes."""
    need_root()
    need("systemd-analyze")
    with scene(wrapper=(sys.executable, os.path.join(HERE, "as_service.py"), UNIT)) as (daemon, directory):
        reachable(directory)
        if os.readlink("/proc/self/ns/pid") == FIRST_NAMESPACE:
            check(daemon.status()["told_of_newcomers"], "the daemon gets no exec events")
        # The kernel reports exec events to the daemon, not to Alice. Her sessions are the daemon's.
        doctor = harness.run([harness.TOOL, "doctor"], env=daemon.environment, **as_user(ALICE)).stdout
        check((b"the kernel reports" in doctor) == daemon.status()["told_of_newcomers"], f"doctor: {doctor!r}")
        other, preloaded = Other(daemon), Commanded(daemon.environment)
        # Its file is accessible only through map_files.
        bare = Bare(daemon, own_name("gone"), directory)
        os.remove(os.path.join(directory, own_name("gone")))
        pids = ",".join(str(process.pid) for process in (bare, other, preloaded))
        session = Session(daemon, os.path.join(directory, "o"), "-p", pids)
        attached(daemon, bare, other)
        joined(daemon, preloaded)
        for process in (bare, other, preloaded):
            process.tell("hold 10 1000")
        check(session.end() == 0, session.stderr)
        report = session.report()
        for process in (bare, other, preloaded):
            heap = heap_of(report, process.pid)
            # The function has a name, so the daemon has read the program's file.
            check_figure(heap, "hold_block", "space", 10000)
            check(process.end() == 0, "the program failed")
        hers = Other(daemon)
        outcome, output = ask_as(ALICE, daemon, directory, "alice", "-p", str(hers.pid))
        check(outcome.status == 0 and heap_of(report_of(output), hers.pid), f"Alice: {outcome.stderr!r}")
        hers.end()
        restricted = Bare(daemon)
        restricted.tell(f"permit kill {' '.join(map(str, [*NEEDED_CALLS.values(), *OWN_CALLS.values()]))}")
        outcome, _ = profile(restricted.pid, directory, "-d", "1", environment=daemon.environment)
        check(outcome.status == 1 and b"without the daemon" in outcome.stderr, f"restricted: {outcome.stderr!r}")
        alone = {**daemon.environment, "HEAPPROFD_RUN_DIR": os.path.join(directory, "alone")}
        outcome, report = profile(restricted.pid, directory, "-d", "200", environment=alone)
        check(outcome.status == 0 and heap_of(report, restricted.pid), f"without the daemon: {outcome.stderr!r}")
        restricted.end()


def serves_shells():
    """A user without a run directory of their own starts programs for the system's daemon."""
    need_root()
    here = {name: value for name, value in os.environ.items() if name not in ("HEAPPROFD_RUN_DIR", "XDG_RUNTIME_DIR")}
    shell = f"mount -t tmpfs none /run && $0 && exec setpriv --reuid={ALICE} --clear-groups {harness.TOOL} shell -- " \
            "sh -c 'echo $LD_PRELOAD'"
    for prepare, status in ((":", 125), (f"{BUILD}/heapprofd prepare", 0)):
        outcome = subprocess.run(["unshare", "-m", "sh", "-c", shell.replace("$0", prepare)], env=here,
                                 capture_output=True, check=False, timeout=harness.TIMEOUT)
        check(outcome.returncode == status, f"{prepare}: {outcome.returncode}: {outcome.stderr!r}")
        check((b"libheapprofd_preload" in outcome.stdout) == (status == 0), f"{prepare}: {outcome.stdout!r}")


def main():
    its_exposure()
    spares_sessions()
    serves_shells()
    suffices()
    harness.finish()


main()
