#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The systemd units: the daemon and the collector work under their restrictions. service.py"""

import os
import re
import shutil
import subprocess
import sys

import harness
from as_service import unit_of
from attach import NEEDED_CALLS, OWN_CALLS, Bare, attached, profile
from continuous import EXACT, Collector, callsite_sum
from daemon import (
    ALICE, Commanded, Session, as_user, ask_as, check_figure, heap_of, joined, need_root, own_name, reachable, report_of,
    scene,
)
from harness import BUILD, check, need, program

UNIT = os.path.join(BUILD, "dist", "heapprofd.service")
COLLECTOR_UNIT = os.path.join(BUILD, "dist", "heapprofd-collector.service")
# Of 10, by systemd 252.
EXPOSURES_MAX = {UNIT: 3.0, COLLECTOR_UNIT: 3.0}
FIRST_NAMESPACE = "pid:[4026531836]"
AS_SERVICE = (sys.executable, os.path.join(os.path.dirname(os.path.abspath(__file__)), "as_service.py"))


def their_exposure():
    """systemd's own exposure level of the units is low."""
    if not shutil.which("systemd-analyze"):
        return
    for unit, most in EXPOSURES_MAX.items():
        outcome = harness.run(["systemd-analyze", "security", "--offline=yes", unit])
        found = re.search(rb"Overall exposure level for [a-z.-]+: ([0-9.]+)", outcome.stdout)
        check(found and float(found[1]) <= most, f"exposure {found and found[1]} of {unit}: {outcome.stderr!r}")


def spares_sessions():
    """If the daemon dies, systemd lets the sessions finish (daemon daemon_killed)."""
    check(unit_of(UNIT)["KillMode"] == ["control-group"], "systemd kills the sessions of a daemon that died")


class Other(Bare):
    """Start a program of another user, without our library."""

    def __init__(self, daemon, path=None):
        self.process = subprocess.Popen(
            [path or program("commanded")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0,
            env=daemon.environment, **as_user(ALICE),
        )
        self.pid = self.process.pid
        self.tell("hold 1 1")


def under_unit():
    return scene(wrapper=(*AS_SERVICE, UNIT))


def suffices():
    """Root attaches to root's and others' programs, reads their files, and is informed of new processes."""
    need_root()
    need("systemd-analyze")
    with under_unit() as (daemon, directory):
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


def collects():
    """The collector profiles another user's program and names its functions, as a client of the daemon."""
    with under_unit() as (daemon, directory):
        reachable(directory)
        path = shutil.copy(program("commanded"), os.path.join(directory, own_name("served")))
        os.chmod(path, 0o755)
        other = Other(daemon, path)
        # Nothing else of the directory is visible to both.
        collector = Collector(
            daemon, daemon.environment["HEAPPROFD_RUN_DIR"], f"{EXACT}[program served]\nname = {own_name('served')}\n",
            wrapper=(*AS_SERVICE, COLLECTOR_UNIT))
        attached(daemon, other)
        other.tell("hold 10 1000")
        period = collector.next_period(other.pid, lambda period: callsite_sum([period], "hold_block", "live_count") >= 10)
        other.end()
        check(collector.end() == 0, collector.log())


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
    their_exposure()
    spares_sessions()
    serves_shells()
    suffices()
    collects()
    harness.finish()


main()
