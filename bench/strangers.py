#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Measure what programs that cannot be stopped cost the daemon and its users: docs/security.md,
"Time".

    bench/strangers.py status [--sessions N] [--load N] [--requests N]
                                   time of the daemon's answers to clients at nice 0 and -20, beside
                                   that of a process that only wakes up
    bench/strangers.py attempts [--seconds S]
                                   processor time of 1 and 16 sessions that try to attach to them, and of
                                   as many sessions with an idle program each

The programs wait in vfork, where no signal reaches them. Several HEAPPROFD_BUILD, separated by
colons, are measured in turn, so that they have the same machine. Needs root.
"""

import argparse
import contextlib
import json
import os
import socket
import subprocess
import sys
import time

from common import ROOT, load

BUILDS = os.environ.get("HEAPPROFD_BUILD", os.path.join(ROOT, "build")).split(":")
ONE = "HEAPPROFD_BENCH_ONE_BUILD"

STUCK = 60
TICK_S = 1 / os.sysconf("SC_CLK_TCK")
PAUSE_S = 0.005
AIM_S = 0.05


def in_turn():
    """Run this script for each build, --rounds times."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("status", "attempts"))
    parser.add_argument("--sessions", type=int, default=16)
    parser.add_argument("--load", type=int, default=30, help="programs that compute meanwhile")
    parser.add_argument("--requests", type=int, default=1000, help="of each client")
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--rounds", type=int, default=1)
    options = parser.parse_args()
    if ONE in os.environ:
        sys.path.insert(0, os.path.join(ROOT, "tests", "e2e"))
        status(options) if options.what == "status" else attempts(options)
        return
    for _ in range(options.rounds):
        for build in BUILDS:
            print(f"{build}:", flush=True)
            subprocess.run([sys.executable, *sys.argv], check=True,
                           env={**os.environ, "HEAPPROFD_BUILD": build, ONE: "1"})


class Attack:
    """60 stuck programs of a user, and sessions of this user that try to attach to all of them.
    If not `stuck`: idle programs, and a session for each."""

    def __init__(self, daemon, directory, sessions, stuck=True):
        import session_processes as parts
        self.parts, self.daemon = parts, daemon
        program = ("stepper", "stuck", "1") if stuck else ("commanded",)
        self.programs = [parts.program_of(parts.ALICE, *program) for _ in range(STUCK if stuck else sessions)]
        time.sleep(0.5)
        pids = [str(program.pid) for program in self.programs]
        self.sessions = [
            parts.UserSession(daemon, directory, parts.ALICE, f"{'stuck' if stuck else 'idle'}{sessions}-{i}",
                              "-p", ",".join(pids) if stuck else pids[i], begins=False)
            for i in range(sessions)
        ]
        parts.wait_for("the sessions", lambda: len(daemon.status()["sessions"]) == sessions)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for session in self.sessions:
            session.process.kill()
            session.process.communicate()
        self.parts.kill_programs(*self.programs)
        self.parts.wait_for("their ends", lambda: not self.daemon.status()["sessions"])


# --- duration of an answer ---


class Echo:
    """A process at the daemon's nice value, -10, that only wakes up and answers one byte."""

    def __init__(self):
        self.end, end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.child = os.fork()
        if self.child == 0:
            self.end.close()
            os.setsid()  # the daemon is in another session, too (sched_autogroup)
            os.setpriority(os.PRIO_PROCESS, 0, -10)
            while end.send(end.recv(1) or os._exit(0)):
                pass
        end.close()

    def ask(self):
        began = time.monotonic()
        self.end.send(b"?")
        self.end.recv(1)
        return time.monotonic() - began

    def close(self):
        self.end.close()
        os.waitpid(self.child, 0)


def oversleep():
    """Return how much longer than asked a pause takes."""
    began = time.monotonic()
    time.sleep(PAUSE_S)
    return time.monotonic() - began - PAUSE_S


def ask(daemon, echo, nice, requests):
    """Return {what: the seconds that each took}, measured in turn by one process with this nice value."""
    import session_processes as parts
    end, result = os.pipe()
    child = os.fork()
    if child == 0:
        os.setpriority(os.PRIO_PROCESS, 0, nice)
        took = {"status": [], "bare answer": [], "bare pause": []}
        for _ in range(requests):
            took["status"].append(parts.ask_status(daemon))
            took["bare pause"].append(oversleep())
            took["bare answer"].append(echo.ask())
            oversleep()
        with os.fdopen(result, "w") as stream:
            json.dump(took, stream)
        os._exit(0)
    os.close(result)
    with os.fdopen(end) as stream:
        took = json.load(stream)
    os.waitpid(child, 0)
    return took


def status(options):
    from daemon import reachable, scene
    with scene() as (daemon, directory):
        reachable(directory)
        with (contextlib.closing(Echo()) as echo, load(options.load),
              Attack(daemon, directory, options.sessions)):
            for nice in (0, -20, 0, -20):
                answers = ask(daemon, echo, nice, options.requests)
                print(f"  client at nice {nice}, load {os.getloadavg()[0]:.0f}, {options.requests} of each:")
                for what, took in answers.items():
                    took.sort()
                    late = sum(seconds > AIM_S for seconds in took)
                    print(f"    {what:12} median {took[len(took) // 2] * 1000:.2f} ms, 99 of 100 "
                          f"{took[len(took) * 99 // 100] * 1000:.1f} ms, longest {took[-1] * 1000:.1f} ms, "
                          f"{late} after {AIM_S * 1000:.0f} ms", flush=True)


# --- cost of the attempts ---


def processor_seconds(root):
    """Return the processor time of a process and all its descendants."""
    used, parents = {}, {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat") as file:
                fields = file.read().rpartition(")")[2].split()
        except OSError:
            continue
        parents[int(name)] = int(fields[1])
        used[int(name)] = sum(map(int, fields[11:15])) * TICK_S
    total = 0
    for pid, seconds in used.items():
        while pid not in (root, 0, None):
            pid = parents.get(pid)
        total += seconds if pid == root else 0
    return total


def attempts(options):
    from daemon import reachable, scene
    with scene() as (daemon, directory):
        reachable(directory)
        for stuck, sessions in ((False, 1), (True, 1), (False, 16), (True, 16)):
            with Attack(daemon, directory, sessions, stuck):
                time.sleep(2)  # the first attempts
                before, began = processor_seconds(daemon.process.pid), time.monotonic()
                time.sleep(options.seconds)
                share = (processor_seconds(daemon.process.pid) - before) / (time.monotonic() - began)
            print(f"  {sessions} sessions, {f'{STUCK} stuck programs' if stuck else 'idle programs'}: "
                  f"{share * 100:.1f} % of a processor", flush=True)


in_turn()
