#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A process that is attached to is stopped for a moment only, whatever its threads, its cgroup and the profiler do,
and nothing of its memory changes.

    stops.py CASE
"""

import contextlib
import ctypes
import os
import re
import signal
import subprocess
import tempfile
import time
import uuid

import harness
from attach import Bare, attached, code_of, maps_of, profile, remark_of
from daemon import Session, need_root, scene, wait_for
from harness import TOOL, check, program

FLAGS_KERNEL_WORKER = 0x4010  # PF_IO_WORKER, PF_USER_WORKER
PTRACE_SEIZE, PTRACE_INTERRUPT = 0x4206, 0x4207


def threads_of(pid):
    return [int(tid) for tid in os.listdir(f"/proc/{pid}/task")]


def fields_of(pid, tid):
    """Return the fields of a thread's stat, from its state on."""
    with open(f"/proc/{pid}/task/{tid}/stat") as stat:
        return stat.read().rpartition(")")[2].split()


def kernel_workers(pid):
    return [tid for tid in threads_of(pid) if int(fields_of(pid, tid)[6]) & FLAGS_KERNEL_WORKER]


def status_of(pid, tid, field):
    with open(f"/proc/{pid}/task/{tid}/status") as status:
        return re.search(rf"^{field}:\s+(\S+)", status.read(), re.M).group(1)


def tracer_of(pid, tid):
    return int(status_of(pid, tid, "TracerPid"))


@contextlib.contextmanager
def running(name, *arguments):
    """Start a program that prints a line when it has begun. Afterwards it must print "ok" after a SIGTERM."""
    process = subprocess.Popen([program(name), *arguments], stdout=subprocess.PIPE)
    try:
        line = process.stdout.readline()
        if process.poll() == 77 or b"io_uring_setup" in line or b"no segment" in line or b"only x86-64" in line:
            harness.skip(line.decode().strip())
        yield process
        process.terminate()
        rest = process.communicate(timeout=180)[0]
        check(rest == b"ok\n" and process.returncode == 0, f"{name} ends with {process.returncode}, {rest!r}")
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def attach_once(pid, directory, *options):
    """Profile a process for a moment, with a run directory of its own. Return the outcome and the report."""
    environment = {**os.environ, "HEAPPROFD_RUN_DIR": os.path.join(directory, "run")}
    return profile(pid, directory, "--quiet", *options, environment=environment)


def check_kernel_worker(*arguments):
    with running("io_uring_worker", *arguments) as process, tempfile.TemporaryDirectory() as directory:
        wait_for("the kernel's thread", lambda: kernel_workers(process.pid))
        for number in range(5):
            outcome, report = attach_once(process.pid, directory, "-d", "50")
            check(outcome.status == 0, f"attachment {number}: {outcome.status}, {outcome.stderr!r}")
            check(report and "were stopped for" in remark_of(report, process.pid), "it was attached to")
        check(not harness.client_mappings(process.pid), "a mapping of the client is left")


def test_io_uring_worker():
    """A worker of io_uring is not stopped: what it reads arrives."""
    check_kernel_worker()


def test_io_uring_poller():
    """Nor is the kernel's thread that looks for requests."""
    check_kernel_worker("poll")


def check_attachments(name, times):
    """Attach to a program and detach that often. Check that its code and mappings are as they were."""
    with running(name) as process, tempfile.TemporaryDirectory() as directory:
        code, maps = code_of(process.pid), maps_of(process.pid)
        for number in range(times):
            outcome, _ = attach_once(process.pid, directory, "-d", "20")
            check(outcome.status == 0, f"attachment {number}: {outcome.status}, {outcome.stderr!r}")
        check(code_of(process.pid) == code and maps_of(process.pid) == maps, "its code and mappings are as they were")


def test_small_coroutine():
    """No byte below the stack pointer is changed, neither by attaching nor by detaching."""
    check_attachments("small_coroutine", 5)


def test_code_of_32_bits():
    """A thread that executes code of 32 bits makes the profiler's system calls, too, and continues there."""
    check_attachments("code_of_32_bits", 3)


@contextlib.contextmanager
def freezable(pid):
    """Put the process into a cgroup of its own. Yield a function that freezes or thaws it."""
    need_root()
    with open("/proc/mounts") as mounts:
        roots = [line.split()[1] for line in mounts if line.split()[2] == "cgroup2"]
    path = os.path.join(roots[0], f"stops-{uuid.uuid4().hex}") if roots else ""
    try:
        os.mkdir(path)
        with open(os.path.join(path, "cgroup.procs"), "w") as file:
            file.write(str(pid))
    except OSError as error:
        harness.skip(f"no cgroup can be made: {error}")

    def freeze(is_frozen):
        with open(os.path.join(path, "cgroup.freeze"), "w") as file:
            file.write(str(int(is_frozen)))
        wait_for("the cgroup", lambda: f"frozen {int(is_frozen)}" in open(os.path.join(path, "cgroup.events")).read())

    try:
        yield freeze
    finally:
        with contextlib.suppress(OSError):
            freeze(False)
            with open(os.path.join(roots[0], "cgroup.procs"), "w") as file:
                file.write(str(pid))
        with contextlib.suppress(OSError):
            os.rmdir(path)


def test_frozen():
    """A frozen process makes no system call for us: the attempts end, it is as before, and is profiled later."""
    with scene() as (daemon, directory), running("small_coroutine") as process, freezable(process.pid) as freeze:
        code, maps = code_of(process.pid), maps_of(process.pid)
        freeze(True)
        session = Session(daemon, os.path.join(directory, "o"), "-p", str(process.pid))
        [tid] = threads_of(process.pid)
        for number in range(2):
            wait_for(f"attempt {number}", lambda: tracer_of(process.pid, tid) != 0)
            wait_for(f"the end of attempt {number}", lambda: tracer_of(process.pid, tid) == 0)
        freeze(False)
        attached(daemon, process)
        check(session.end() == 0, session.stderr)
        check(code_of(process.pid) == code and maps_of(process.pid) == maps, "its code and mappings are as they were")


def test_frozen_at_detaching():
    """The code of a process that is frozen at the session's end is restored, and the rest stays, unused."""
    with scene() as (daemon, directory), running("small_coroutine") as process, freezable(process.pid) as freeze:
        code, maps = code_of(process.pid), maps_of(process.pid)
        session = Session(daemon, os.path.join(directory, "o1"), "-p", str(process.pid))
        attached(daemon, process)
        freeze(True)
        session.end()
        check(code_of(process.pid) == code, "the code is as it was")
        remark = remark_of(session.report(), process.pid)
        check("did not make the profiler's system calls in time" in remark, f"remark: {remark!r}")
        freeze(False)
        session = Session(daemon, os.path.join(directory, "o2"), "-p", str(process.pid))
        attached(daemon, process)
        check(session.end() == 0, session.stderr)
        check(code_of(process.pid) == code and maps_of(process.pid) == maps, "its code and mappings are as they were")


def allocating_thread(pid):
    """Return the thread of vfork_parent that allocates."""
    return max(threads_of(pid))


def catch_stopped(daemon, directory, process, act):
    """Start sessions on a process that cannot be stopped as a whole, until act(tracer) comes while the profiler holds
    its other threads, a moment each time. act() returns a function that undoes it. Return the session and the
    tracer."""
    tid = allocating_thread(process.pid)
    for number in range(30):
        session = Session(daemon, os.path.join(directory, str(number)), "-p", str(process.pid), begins=False)
        end = time.monotonic() + 2
        while time.monotonic() < end:
            tracer = tracer_of(process.pid, tid)
            if tracer == 0:
                continue
            undo = act(tracer)
            if tracer_of(process.pid, tid) == tracer and fields_of(process.pid, tid)[0] == "t":
                return session, tracer
            undo()
            break
        session.end()
    harness.fail("the process was never seen stopped")
    harness.finish()


def stand_still(tracer):
    os.kill(tracer, signal.SIGSTOP)
    while fields_of(tracer, tracer)[0] != "T":
        pass
    return lambda: os.kill(tracer, signal.SIGCONT)


def test_profiler_stopped():
    """A profiler that is stopped (Ctrl-Z) while it holds a process soon continues."""
    with scene() as (daemon, directory), running("vfork_parent") as process:
        session, tracer = catch_stopped(daemon, directory, process, stand_still)
        tid = allocating_thread(process.pid)
        wait_for("the release", lambda: tracer_of(process.pid, tid) == 0)
        check(fields_of(tracer, tracer)[0] != "T", "the profiler continues")
        session.end()


def hold(tracer):
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
    if libc.ptrace(PTRACE_SEIZE, tracer, None, None) != 0:
        harness.skip("the kernel forbids ptrace")
    libc.ptrace(PTRACE_INTERRUPT, tracer, None, None)
    os.waitpid(tracer, 0x40000000)  # __WALL
    return lambda: libc.ptrace(17, tracer, None, None)  # PTRACE_DETACH


def test_profiler_held():
    """If the profiler does not go on at all, it is killed, and the process goes on. Other sessions do not wait."""
    need_root()
    with scene() as (daemon, directory), running("vfork_parent") as process:
        session, tracer = catch_stopped(daemon, directory, process, hold)
        # Another session does not wait for this one.
        other = Bare(daemon)
        another = Session(daemon, os.path.join(directory, "another"), "-p", str(other.pid))
        attached(daemon, other)
        check(another.end() == 0, another.stderr)
        check(other.end() == 0, "the program failed")
        tid = allocating_thread(process.pid)
        wait_for("the release", lambda: tracer_of(process.pid, tid) == 0)
        check(os.WIFSIGNALED(os.waitpid(tracer, 0x40000000)[1]), "the session's process was killed")
        session.end()


def test_others_served():
    """While one process makes no progress, the ring of another one in the same session is read."""
    with scene() as (daemon, directory), running("small_coroutine") as stuck, freezable(stuck.pid) as freeze:
        process = Bare(daemon)
        [tid] = threads_of(stuck.pid)
        freeze(True)
        session = Session(daemon, os.path.join(directory, "o"), "-p", f"{process.pid},{stuck.pid}",
                          "--shmem-size", "65536", "--block-client")
        attached(daemon, process)

        def attempt():
            """Return a value that differs for each attempt to attach, or None if nobody attaches now."""
            if tracer_of(stuck.pid, tid) == 0:
                return None
            return [status_of(stuck.pid, tid, kind + "_ctxt_switches") for kind in ("voluntary", "nonvoluntary")]

        def served():
            before = attempt()
            if before is None:
                return False
            process.tell("churn 4000 64")  # some rings full
            return attempt() == before

        wait_for("some rings full within one attempt", served)
        freeze(False)
        session.end()
        check(process.end() == 0, "the program failed")


if __name__ == "__main__":
    harness.main()
