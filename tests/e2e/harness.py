"""What the end-to-end tests share: running a command with and without the profiler, and reading
the profile that came of it.

The build directory is named by HEAPPROFD_BUILD. Python's standard library only. A test ends by
finish(): exit code 0, 1, or 77 where something that it needs is not installed.
"""

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("HEAPPROFD_BUILD", os.path.join(ROOT, "build")))
TOOL = os.path.join(BUILD, "heap_profile")
PROGRAMS = os.path.join(BUILD, "tests", "programs")
TIMEOUT = 120

failures = []


def fail(message):
    """Notes a failure; the test goes on to find more."""
    failures.append(message)
    print("FAIL:", message, flush=True)


def check(condition, message):
    if not condition:
        fail(message)
    return bool(condition)


def skip(reason):
    print("SKIP:", reason)
    sys.exit(77)


def need(*programs):
    for program in programs:
        if not shutil.which(program):
            skip(f"{program} is not installed")


def finish():
    print("passed" if not failures else f"{len(failures)} failures")
    sys.exit(1 if failures else 0)


def program(name):
    return os.path.join(PROGRAMS, name)


class Outcome:
    """How a command ended."""

    def __init__(self, status, stdout, stderr):
        self.status, self.stdout, self.stderr = status, stdout, stderr

    def check_same(self, other, what, stderr=True):
        """Notes a failure where this outcome is not as the other."""
        check(self.status == other.status, f"{what}: status {self.status}, bare {other.status}")
        check(self.stdout == other.stdout, f"{what}: {first_difference(self.stdout, other.stdout)}")
        if stderr:
            check(
                self.stderr == other.stderr,
                f"{what}: standard error: {first_difference(self.stderr, other.stderr)}",
            )


def first_difference(ours, bare):
    ours, bare = ours.splitlines(), bare.splitlines()
    for number, (a, b) in enumerate(zip(ours, bare), 1):
        if a != b:
            return f"line {number} is {a[:300]!r}, bare {b[:300]!r}"
    longer, whose = (ours, "profiled") if len(ours) > len(bare) else (bare, "bare")
    extra = longer[min(len(ours), len(bare)) :]
    return f"{len(extra)} lines more {whose}, from {extra[:3]!r}" if extra else "ends differ"


def run(command, stdin=None, env=None, cwd=None, timeout=TIMEOUT, **options):
    """Runs a command to its end. Not ended in time is a failure, with status None."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE if stdin is not None else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **(env or {})},
        cwd=cwd,
        start_new_session=True,
        **options,
    )
    try:
        stdout, stderr = process.communicate(stdin, timeout)
    except subprocess.TimeoutExpired:
        fail(f"not ended after {timeout} s: {command}")
        os.killpg(process.pid, signal.SIGKILL)
        stdout, stderr = process.communicate()
        return Outcome(None, stdout, stderr)
    return Outcome(process.returncode, stdout, stderr)


def host_command(command, directory, interval, *options):
    return [
        TOOL, "host", "--quiet", "-i", str(interval), "-o", directory, *options, "--", *command,
    ]


def profile(command, interval=1, options=(), keep=None, **run_options):
    """Runs a command under the profiler; its outcome and its Profile (None if there is none)."""
    directory = keep or tempfile.mkdtemp(prefix="test-")
    try:
        outcome = run(host_command(command, directory, interval, *options), **run_options)
        return outcome, read_profile(directory)
    finally:
        if not keep:
            shutil.rmtree(directory, ignore_errors=True)


def same_with_and_without(command, interval=1, options=(), stderr=True, **run_options):
    """Runs a command bare and profiled, compares the outcomes; the profiled outcome and Profile."""
    bare = run(command, **run_options)
    ours, result = profile(command, interval, options, **run_options)
    ours.check_same(bare, f"{os.path.basename(command[0])} at interval {interval}", stderr)
    return ours, result


def limit_core_dumps():
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def find_descendant(pid, name):
    """The process of that name under pid."""
    for child in children_of(pid):
        try:
            with open(f"/proc/{child}/comm") as comm:
                if comm.read().strip() == name[:15]:
                    return child
        except OSError:
            continue
        found = find_descendant(child, name)
        if found:
            return found
    return None


def children_of(pid):
    try:
        tasks = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []
    found = []
    for task in tasks:
        try:
            with open(f"/proc/{pid}/task/{task}/children") as children:
                found += map(int, children.read().split())
        except OSError:
            continue
    return found
