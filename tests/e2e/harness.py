# SPDX-License-Identifier: Apache-2.0
"""Shared by the end-to-end tests: run a command with and without the profiler, and read the profile.

HEAPPROFD_BUILD names the build directory. Python's standard library only. A test ends by finish():
exit code 0, 1, or 77 if something that it needs is not installed.
"""

import atexit
import contextlib
import ctypes
import fcntl
import gc
import json
import math
import os
import re
import resource
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile

import intervals
import list_cases
from trace import Figures, Trace

# No test makes garbage in circles, and the collector looks at a large report again and again while it is read.
gc.disable()

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.append(os.path.join(ROOT, "tests"))  # for the package tracing_service
BUILD = os.path.abspath(os.environ.get("HEAPPROFD_BUILD", os.path.join(ROOT, "build")))
if not {" ", ":"}.isdisjoint(BUILD):  # where the loader ends a name in LD_PRELOAD
    _links = tempfile.mkdtemp(prefix="test-build-")
    atexit.register(shutil.rmtree, _links, ignore_errors=True)
    os.chmod(_links, 0o755)
    os.symlink(BUILD, os.path.join(_links, "build"))
    BUILD = os.path.join(_links, "build")
TOOL = os.environ.get("HEAPPROFD_TOOL", os.path.join(BUILD, "heap_profile"))
TRACECONV = os.path.join(BUILD, "traceconv")
PROGRAMS = os.path.join(BUILD, "tests", "programs")
# Whether the tools are built with sanitizers (tests/meson.build). They run several times slower, so all time limits,
# Meson's included, are three times as long.
SANITIZED = "ASAN_OPTIONS" in os.environ
SLOWNESS = 3 if SANITIZED else 1
TIMEOUT = 120 * SLOWNESS
# More repetitions and more random inputs, for minutes.
LONG = bool(os.environ.get("HEAPPROFD_LONG_TESTS"))

# The symbol cache of a test is its own, not the user's. Go's build cache, which is below the same
# directory, stays the user's.
os.environ.setdefault(
    "GOCACHE",
    os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "go-build"),
)
CACHE = tempfile.mkdtemp(prefix="test-cache-")
atexit.register(shutil.rmtree, CACHE, ignore_errors=True)
os.environ["XDG_CACHE_HOME"] = CACHE
# The machine's continuous mode is not taken up by the daemons of tests.
os.environ["HEAPPROFD_CONFIG"] = "/nonexistent/heapprofd.conf"

# A shell's & and nohup start us with these signals ignored, and our children would inherit that.
for _number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
    if signal.getsignal(_number) == signal.SIG_IGN:
        signal.signal(_number, signal.SIG_DFL)



def handshake_version():
    with open(os.path.join(ROOT, "src", "wire", "handshake.h"), encoding="utf-8") as header:
        return int(re.search(r"#define HANDSHAKE_VERSION (\d+)", header.read()).group(1))


def hello(tid, pid, allocator=b"", origin=1, is_initialized=0):
    """Return a struct handshake_hello, as bytes."""
    return struct.pack("<6I64s", 0x48504853, handshake_version(), origin, tid, pid, is_initialized, allocator)


# Losses of samples that are kept with an incomplete stack, or without the frames of an interpreter.
INCOMPLETE = ("unwind", "interpreter_state", "interpreter_unknown")

failures = []


def fail(message):
    """Record a failure; the test continues, to find more."""
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


def need_saved_pages():
    """Not every machine can compile the engine of pages that are files. Their commands say so then."""
    built = os.path.join(BUILD, "src", "tools", "view", "page")
    if os.path.isdir(built) and not os.path.exists(os.path.join(built, "engine.wasm")):
        skip("built without the engine of saved pages")


def finish():
    print("passed" if not failures else f"{len(failures)} failures")
    sys.exit(1 if failures else 0)


def main(*arguments):
    """Run the case that the command line names, the script's function test_CASE, and end the test."""
    script = sys.modules["__main__"]
    case = getattr(script, f"test_{sys.argv[1]}", None) if len(sys.argv) == 2 else None
    if not case:
        sys.exit(f"usage: {sys.argv[0]} {'|'.join(list_cases.cases_of(script.__file__))}")
    case(*arguments)
    finish()


def make_work_directory(prefix):
    """Return a new directory, which is removed when the script ends."""
    directory = tempfile.mkdtemp(prefix=prefix)
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return directory


def own_network():
    """Enter a new network namespace: its ports are free whatever else runs here. Return whether this is allowed."""
    CLONE_NEWNET, SIOCSIFFLAGS, IFF_UP = 0x40000000, 0x8914, 1
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET) != 0:
        return False
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", IFF_UP))
    return True


def own_etc():
    """Enter a new mount namespace, with a copy of /etc without the machine's heapprofd.conf. A test may write there
    whatever else runs here, and leaves nothing if it is killed. Return whether this is allowed."""
    CLONE_NEWNS, MS_BIND, MS_REC, MS_PRIVATE = 0x20000, 0x1000, 0x4000, 1 << 18
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS) != 0 or libc.mount(None, b"/", None, MS_REC | MS_PRIVATE, None) != 0:
        return False
    copy = make_work_directory("test-etc-")
    subprocess.run(["cp", "-a", "/etc/.", copy], check=True)
    os.chmod(copy, 0o755)
    shutil.rmtree(os.path.join(copy, "heapprofd.conf.d"), ignore_errors=True)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(os.path.join(copy, "heapprofd.conf"))
    return libc.mount(copy.encode(), b"/etc", None, MS_BIND, None) == 0


def program(name):
    """Return the path of a test program. Those in C++ are built where a compiler for it is installed."""
    path = os.path.join(PROGRAMS, name)
    if not os.path.exists(path) and os.path.exists(os.path.join(ROOT, "tests", "programs", name + ".cc")):
        skip(f"{path} was not built")
    return path


class Outcome:
    """How a command ended."""

    def __init__(self, status, stdout, stderr):
        self.status, self.stdout, self.stderr = status, stdout, stderr

    def check_same(self, other, what, stderr=True):
        """Record a failure for each difference from the other outcome."""
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


def sentences_of(report):
    """Return the sentences with which a report on one heap begins."""
    title_and_sentences = report.strip("\n").split("\n\n")[0]
    return [line.strip() for line in title_and_sentences.split("\n")[1:]]


def run(command, stdin=None, env=None, cwd=None, timeout=TIMEOUT, **options):
    """Run a command to its end. A timeout is a failure, with status None."""
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
    if stdout.startswith(b"{") and command[0] == TOOL:
        wrong, _ = intervals.outside(stdout)
        check(not wrong, f"{len(wrong)} estimates outside of their intervals: {command}: {wrong[:3]}")
    return Outcome(process.returncode, stdout, stderr)


class Profile:
    """The content of a raw-trace, in the terms of the tests."""

    def __init__(self, path):
        self.trace = Trace(path)
        self.processes = [
            ProcessProfile(self.trace, self.trace.processes[pid]) for pid in self.trace.order
        ]

    def process(self):
        """Return the command's own process: the first one that was profiled."""
        return self.processes[0] if self.processes else ProcessProfile(self.trace, None)

    def samples(self):
        return sum(process.total.samples for process in self.processes)

    def lost(self):
        """Return the losses by reason, without samples that were kept with an incomplete stack."""
        sums = {}
        for process in self.processes:
            for reason, count in process.lost.items():
                sums[reason] = sums.get(reason, 0) + count
        for reason in INCOMPLETE:
            sums.pop(reason, None)
        return sums

    def unwinding_errors(self):
        return sum(process.process.unwinding_errors for process in self.processes)

    def share_reaching_start(self):
        reached = sum(process.bytes_reaching_start() for process in self.processes)
        return reached / (sum(process.total.alloc_space for process in self.processes) or 1)


class ProcessProfile:
    def __init__(self, trace, process):
        self.trace, self.by_caller, self.total = trace, {}, Figures()
        self.pid = process.pid if process else None
        self.stacks = process.stacks if process else {}
        self.lost = process.lost if process else {}
        self.process = process
        for stack, figures in self.stacks.items():
            caller = caller_of(trace.callstacks.get(stack, []))
            self.by_caller.setdefault(caller, Figures()).add(figures)
            self.total.add(figures)

    def allocated_by(self, function):
        """Return the figures of the function's own allocations, also through operator new."""
        return self.by_caller.get(function, Figures())

    def bytes_reaching_start(self):
        return sum(
            figures.alloc_space
            for stack, figures in self.stacks.items()
            if reaches_start(self.trace.callstacks.get(stack, []))
        )


def caller_of(frames):
    """Return the plain name of the function that allocated: the innermost that is not operator new."""
    for frame in frames:
        if frame.name.startswith(("operator new", "_Znw", "_Zna")):
            continue
        mangled = re.match(r"_ZL?(\d+)(\w+)", frame.name)
        return mangled.group(2)[: int(mangled.group(1))] if mangled else frame.name.split("(")[0]
    return ""


def reaches_start(frames):
    """Return whether a stack ends at the start of the program, of a thread, or of the loader.

    Distributed binaries are stripped: frames without a name are recognized by their module."""
    if not frames:
        return False
    if any(f.name in ("main", "__libc_start_main", "start_thread", "_start") for f in frames):
        return True
    library = os.path.basename(frames[-1].path)
    if library.startswith("ld-linux"):
        return True
    # clone3 has no caller, and its callee start_thread is in the C library, too.
    return library == "libc.so.6" and len(frames) > 2 and frames[-2].path == frames[-1].path


def read_profile(directory):
    path = os.path.join(directory, "raw-trace")
    if not os.path.exists(path) or not os.path.getsize(path):
        return None
    return Profile(path)


class Reported:
    """A function's figures as `heap_profile report --json` prints them."""

    def __init__(self):
        self.figures = {}

    def add(self, callsite):
        for name in ("alloc_space", "alloc_objects", "space", "objects"):
            estimate, below, above = self.figures.get(name, (0, 0, 0))
            printed = callsite[name]
            self.figures[name] = (
                estimate + printed["estimate"],
                math.hypot(below, printed["estimate"] - printed["low95"]),
                math.hypot(above, printed["high95"] - printed["estimate"]),
            )

    def value(self, figure):
        return self.figures.get(figure, (0, 0, 0))[0]

    def interval(self, figure):
        """Return the limits of the 95 % interval; exact if the function has one callsite."""
        estimate, below, above = self.figures.get(figure, (0, 0, 0))
        return estimate - below, estimate + above


def read_report(directory):
    """Return {function: Reported} of the only process, and its heap's entry in the JSON."""
    outcome = run([TOOL, "report", "--json", directory])
    check(outcome.status == 0, f"report: status {outcome.status}, {outcome.stderr[-300:]!r}")
    heap = json.loads(outcome.stdout)["heaps"][0]
    found = {}
    for callsite in heap["callsites"]:
        name = callsite["frames"][0]["name"] if callsite["frames"] else ""
        found.setdefault(name, Reported()).add(callsite)
    return found, heap


def host_command(command, directory, interval, *options):
    """`interval` may be None: none is given."""
    given = [] if interval is None else ["-i", str(interval)]
    return [TOOL, "host", "--quiet", *given, "-o", directory, *options, "--", *command]


def profile(command, interval=1, options=(), keep=None, **run_options):
    """Run a command under the profiler. Return its outcome and its Profile (None if there is none)."""
    directory = keep or tempfile.mkdtemp(prefix="test-")
    try:
        outcome = run(host_command(command, directory, interval, *options), **run_options)
        return outcome, read_profile(directory)
    finally:
        if not keep:
            shutil.rmtree(directory, ignore_errors=True)


def same_with_and_without(command, interval=1, options=(), stderr=True, **run_options):
    """Run a command bare and profiled, and compare. Return the profiled outcome and its Profile."""
    bare = run(command, **run_options)
    ours, result = profile(command, interval, options, **run_options)
    ours.check_same(bare, f"{os.path.basename(command[0])} at interval {interval}", stderr)
    return ours, result


def limit_core_dumps():
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def client_mappings(pid):
    """Return the lines of a process's maps that are the profiler's. The checkout may have its name, too."""
    with open(f"/proc/{pid}/maps") as maps:
        return [line for line in maps.read().splitlines() if "/memfd:heapprofd" in line or "/libheapprofd_" in line]


def find_descendant(pid, name):
    """Return the descendant of pid with that name, or None."""
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
