#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Sessions of the daemon run in their own processes, with their users' rights: what one user, or one session,
can do to others, and what it can access.

    session_processes.py CASE
"""

import argparse
import contextlib
import ctypes
import itertools
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time

import harness
from blocking_file import READ, WRITE, BlockingFile
from daemon import (
    ALICE, BOB, LIBRARY, PATIENCE, Commanded, Session, as_user, check_begins, check_figure, figure,
    heap_of, joined, need_root, own_name, reachable, report_of, scene, wait_for,
)
from harness import TOOL, check, program, run

# Status and attaching take a few milliseconds each, but other tests load the machine.
SOON_S = 3


class UserSession:
    """Run heap_profile as another user."""

    def __init__(self, daemon, directory, uid, name, *options, begins=True, **more):
        self.output = os.path.join(directory, name)
        os.mkdir(self.output)
        os.chown(self.output, uid, uid)
        self.process = subprocess.Popen(
            [TOOL, "-i", "1", "-o", self.output, *options], env=daemon.environment,
            stderr=subprocess.PIPE, stdout=subprocess.PIPE, **{**as_user(uid), **more},
        )
        if begins:
            check_begins(self.process)

    def end(self, number=signal.SIGINT):
        if number:
            self.process.send_signal(number)
        self.stdout, stderr = self.process.communicate(timeout=PATIENCE)
        self.stderr = stderr.decode()
        return self.process.returncode

    def report(self):
        return report_of(self.output)


def program_of(uid, name, *arguments, **more):
    return subprocess.Popen(
        [program(name), *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        **{**as_user(uid), **more},
    )


def end_programs(*processes):
    for process in processes:
        process.stdin.close()
        process.wait(PATIENCE)
        process.stdout.close()


def kill_programs(*processes):
    """Programs that wait for the profiler, with their children."""
    for process in processes:
        process.stdin.close()
        process.kill()
        process.wait(PATIENCE)
        process.stdout.close()


def status_as(uid, daemon):
    """Return the sessions that a user sees, and how long the request took."""
    began = time.monotonic()
    outcome = run([TOOL, "status", "--json"], env=daemon.environment, **as_user(uid))
    took = time.monotonic() - began
    check(outcome.status == 0, f"status as {uid}: {outcome.stderr!r}")
    return json.loads(outcome.stdout)["sessions"] if outcome.status == 0 else [], took


def ask_status(daemon):
    """Return the daemon's own processor time."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as peer:
        peer.connect(os.path.join(daemon.environment["HEAPPROFD_RUN_DIR"], "socket"))
        began = time.monotonic()
        peer.send(struct.pack("<II", 0x48504354, 1) + b"\x10\x01")
        peer.recv(1 << 18)
        return time.monotonic() - began


def works_for(uid, daemon, directory, name):
    """Check that the user's -p profiles at once, also if the daemon has to attach."""
    process = program_of(uid, "commanded")

    def tell(command):
        process.stdin.write(command)
        process.stdin.flush()
        check(process.stdout.readline() == b"ok\n", "the program does not obey")

    tell(b"churn 1 10\n")  # it has begun
    began = time.monotonic()
    session = UserSession(daemon, directory, uid, name, "-p", str(process.pid))
    took = time.monotonic() - began
    tell(b"hold 10 1000\n")
    check(session.end() == 0, session.stderr)
    check_figure(heap_of(session.report(), process.pid), "hold_block", "space", 10000)
    check(took < SOON_S, f"{name}: began after {took:.2f} s")
    end_programs(process)
    return took


def may_raise_priority():
    """Whether this machine lets root do it."""
    child = os.fork()
    if child == 0:
        try:
            os.setpriority(os.PRIO_PROCESS, 0, -10)
        except OSError:
            os._exit(1)
        os._exit(0)
    return os.waitpid(child, 0)[1] == 0


def check_priorities(daemon):
    """The daemon answers before other programs run; its sessions take their turns among these."""
    own = os.getpriority(os.PRIO_PROCESS, 0)
    supervisor = os.getpriority(os.PRIO_PROCESS, daemon.process.pid)
    check(supervisor == (min(own, -10) if may_raise_priority() else own), f"the daemon is at nice {supervisor}")
    for pid in daemon.session_processes():
        nice = os.getpriority(os.PRIO_PROCESS, pid)
        check(nice == max(own, 0), f"a session is at nice {nice}, the test at {own}")


def test_users_do_not_wait_for_others():
    """Programs that cannot be stopped delay one session only."""
    need_root()
    with scene() as (daemon, directory):
        reachable(directory)
        for count in (8, 60):
            stuck = [program_of(ALICE, "stepper", "stuck", "1") for _ in range(count)]
            pids = ",".join(str(process.pid) for process in stuck)
            session = UserSession(daemon, directory, ALICE, f"stuck{count}", "-p", pids, begins=False)
            wait_for("her session", lambda: daemon.status()["sessions"])
            check_priorities(daemon)
            longest = [0, 0]
            end = time.monotonic() + 1.5
            while time.monotonic() < end:
                longest[0] = max(longest[0], ask_status(daemon))
                longest[1] = max(longest[1], status_as(BOB, daemon)[1])
            took = works_for(BOB, daemon, directory, f"bob{count}")
            print(f"{count} stuck programs: status within {longest[0] * 1000:.1f} ms, the whole "
                  f"command {longest[1] * 1000:.0f} ms; his session began in {took * 1000:.0f} ms")
            check(longest[0] < SOON_S and longest[1] < SOON_S, f"status took {longest} s")
            # After the second signal her heap_profile leaves at once.
            session.process.send_signal(signal.SIGINT)
            time.sleep(0.3)
            session.process.send_signal(signal.SIGINT)
            began = time.monotonic()
            session.process.wait(PATIENCE)
            check(time.monotonic() - began < SOON_S, "her second signal")
            session.end(None)
            kill_programs(*stuck)
            wait_for("the end of her session", lambda: not daemon.status()["sessions"])


# --- a file that blocks ---


def test_blocked_trace():
    """A user who passes a blocking file waits alone; other users' requests are served."""
    need_root()
    with scene() as (daemon, directory):
        reachable(directory)
        blocking = BlockingFile(directory, WRITE)
        try:
            process = program_of(ALICE, "commanded")
            config = run(
                [TOOL, "-i", "1", "-p", str(process.pid), "--print-config"], **as_user(ALICE)
            ).stdout
            recording = subprocess.Popen(
                [TOOL, "record", "-c", "-", "-o", os.path.join(blocking.mountpoint, "trace")],
                stdin=subprocess.PIPE, stderr=subprocess.PIPE, env=daemon.environment, **as_user(ALICE),
            )
            recording.stdin.write(config)
            recording.stdin.close()
            recording.stdin = None
            wait_for("her session", lambda: daemon.status()["sessions"])
            wait_for("the first write", lambda: blocking.blocked > 0)
            time.sleep(2.2)
            longest = max(ask_status(daemon) for _ in range(20))
            [hers] = daemon.status()["sessions"]
            check(hers["silent_ms"] > 1000, f"no message that it does not answer: {hers}")
            took = works_for(BOB, daemon, directory, "bob")
            print(f"with a blocked session: status within {longest * 1000:.1f} ms, a session "
                  f"began in {took * 1000:.0f} ms")
            check(longest < SOON_S, f"status took {longest:.2f} s")
            # A program of hers that says hello waits no longer for it than for a daemon.
            began = time.monotonic()
            mine = Commanded({**daemon.environment}, preload=True)
            check(time.monotonic() - began < SOON_S, "a program of another user starts")
            mine.end()
            # A session that does not end is killed, with a message.
            os.kill(recording.pid, signal.SIGKILL)
            recording.communicate()
            began = time.monotonic()
            outcome = run([TOOL, "stop", "--session", str(hers["id"])], env=daemon.environment)
            took = time.monotonic() - began
            check(b"killed" in outcome.stderr, f"stop: {outcome.stdout!r} {outcome.stderr!r}")
            check(took < 15, f"stop took {took:.1f} s")
            wait_for("the log", lambda: "was killed" in daemon.log())
            began = time.monotonic()
            again = run([TOOL, "stop", "--session", str(hers["id"])], env=daemon.environment)
            took = time.monotonic() - began
            check(again.status == 1 and took < SOON_S, f"stop again: {took:.1f} s, {again.stderr!r}")
            check(len(daemon.status()["sessions"]) == 1, "the killed process does not count as hers")
            blocking.let_go()
            wait_for("its end", lambda: not daemon.status()["sessions"])
            end_programs(process)
        finally:
            blocking.let_go()


MAPPER = """
import ctypes, os, sys
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
file = os.open(sys.argv[1], os.O_RDONLY)
assert libc.mmap(None, 1 << 20, 1, 2, file, ctypes.c_long(0)) != ctypes.c_void_p(-1).value
print("mapped", flush=True)
sys.stdin.read()
"""


def test_blocked_memory():
    """A program whose memory seems to be a profiler's ring, and is a file that nobody can read, does not stop root's
    session, which may read that memory."""
    need_root()
    with scene() as (daemon, directory):
        reachable(directory)
        blocking = BlockingFile(directory, READ, "memfd:heapprofd-ring")
        hostile = subprocess.Popen(
            ["/usr/bin/python3", "-c", MAPPER, os.path.join(blocking.mountpoint, "x")], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, **as_user(ALICE),
        )
        try:
            check(hostile.stdout.readline() == b"mapped\n", "the file is not mapped")
            process = Commanded(daemon.environment)
            session = Session(daemon, os.path.join(directory, "o"), "-p", f"{hostile.pid},{process.pid}", begins=False)
            joined(daemon, process)
            check(blocking.blocked == 0, "the session reads the file")
            check(session.end() == 0, session.stderr)
            process.end()
        finally:
            blocking.let_go()
            kill_programs(hostile)


def stop_session_of_alice(daemon, directory, stack):
    """Stop the process of root's session of a program of Alice's. Return the check that she gets no session of it."""
    if os.geteuid() != 0 or run(["test", "-r", program("commanded")], **as_user(ALICE)).status != 0:
        return lambda: None
    process = program_of(ALICE, "commanded")
    stack.callback(kill_programs, process)
    session = Session(daemon, os.path.join(directory, "root"), "-p", str(process.pid))
    wait_for("root's session", lambda: process.pid in daemon.profiled_pids())
    stopped = next(
        s["pid"] for s in daemon.status()["sessions"] if any(p["pid"] == process.pid for p in s["processes"])
    )
    os.kill(stopped, signal.SIGSTOP)
    stack.callback(session.end)
    stack.callback(os.kill, stopped, signal.SIGCONT)

    def check_refused():
        os.chmod(directory, 0o755)
        own = UserSession(daemon, directory, ALICE, "alice", "-p", str(process.pid), begins=False)
        check(own.end(None) == 1 and "Another session" in own.stderr, f"not refused: {own.stderr}")

    return check_refused


def test_killed_session():
    """If a session's process dies, that session is lost; the others and the daemon continue. A later session gets its
    program before that fills its ring, although a child of it has a profiler's name and still maps the ring. The
    program of a stopped session process stays with it, even if the next user may not read that process's maps."""
    with scene() as (daemon, directory), contextlib.ExitStack() as stack:
        first, second = Commanded(daemon.environment, "heapish", directory), Commanded(daemon.environment)
        sessions = [
            Session(daemon, os.path.join(directory, str(process.pid)), "-p", str(process.pid))
            for process in (first, second)
        ]
        joined(daemon, first, second)
        victim = next(
            s for s in daemon.status()["sessions"]
            if any(p["pid"] == first.pid for p in s["processes"])
        )
        first.tell("idle")
        check_stopped = stop_session_of_alice(daemon, directory, stack)
        os.kill(victim["pid"], signal.SIGKILL)
        killed = time.monotonic()
        check(sessions[0].end(None) == 1, "its client fails")
        check("signal 9" in sessions[0].stderr, f"no reason: {sessions[0].stderr}")
        wait_for("the log", lambda: f"session {victim['id']} of uid" in daemon.log())
        second.tell("hold 3 100")
        check(sessions[1].end() == 0, "the other session failed")
        check_figure(heap_of(sessions[1].report(), second.pid), "hold_block", "space", 300)
        # Until then the dead profiler's last heartbeat counts.
        time.sleep(max(0, killed + 2.2 - time.monotonic()))
        session = Session(daemon, os.path.join(directory, "later"), "-p", str(first.pid))
        # Less than 5 of the 8 MiB of its ring: 72 bytes for each allocation and its free.
        for _ in range(90):
            first.tell("churn 700 100")
            if first.pid in daemon.profiled_pids():
                break
            time.sleep(0.05)
        first.tell("hold 3 200")
        check(session.end() == 0, "the later session failed")
        check_figure(heap_of(session.report(), first.pid), "hold_block", "space", 600)
        check_stopped()
        first.end(), second.end()


def test_rings_are_read_during_dumps():
    """While a large process is dumped, another one of the session does not wait for room in its ring."""
    depth, rounds = 16, 5
    with scene() as (daemon, directory):
        path = os.path.join(directory, own_name("large"))
        shutil.copy(program("many_stacks"), path)
        session = Session(daemon, os.path.join(directory, "o"), "-n", f"{own_name('large')},{own_name('small')}",
                          "--block-client", "--shmem-size", "512k")
        small = Commanded(daemon.environment, own_name("small"), directory)
        large = subprocess.Popen([path, str(depth)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                 env={**daemon.environment, "LD_PRELOAD": LIBRARY})
        check(large.stdout.readline() == b"ok\n", "it has allocated on all stacks")
        joined(daemon, small)
        wait_for("all stacks", lambda: any(
            p["pid"] == large.pid and p["samples"] >= 1 << depth
            for s in daemon.status()["sessions"] for p in s["processes"]))
        dump = subprocess.Popen([TOOL, "snapshot"], env=daemon.environment, stdout=subprocess.DEVNULL)
        done = 0
        while dump.poll() is None:
            small.tell("churn 20000 16")  # fills the ring four times
            done += 1
        check(done >= rounds, f"{done} rounds during the dump")
        check(dump.returncode == 0, f"snapshot: {dump.returncode}")
        [seen] = daemon.status()["sessions"]
        check(seen["lost"] == 0, f"lost: {seen['lost']}")
        check(seen["requester_pid"] == session.process.pid, f"requested by {seen['requester_pid']}")
        for process in seen["processes"]:
            ring = process["ring"]
            check(ring["bytes"] == 512 << 10 >= ring["most_bytes"] >= ring["used_bytes"], f"ring: {ring}")
            check(ring["most_bytes"] > 16 << 10, f"most that waited in the ring: {ring}")
            check(process["interval_bytes"] == process["first_interval_bytes"] == 1, f"{process}")
        check(session.end() == 0, session.stderr)
        small.end()
        end_programs(large)


# --- the kernel's rule ---


def traceable(uid, pid, **more):
    """Return whether a debugger of this user could attach."""
    how = {**as_user(uid), **more}
    libc = ctypes.CDLL(None)
    libc.ptrace.argtypes = [ctypes.c_long] * 4
    child = os.fork()
    if child == 0:
        os.setgroups(how["extra_groups"])
        os.setgid(how["group"])
        os.setuid(how["user"])
        os._exit(0 if libc.ptrace(0x4206, pid, 0, 0) == 0 else 1)  # PTRACE_SEIZE
    return os.waitpid(child, 0)[1] == 0


def is_profiled(daemon, directory, name, pid, uid, **more):
    session = UserSession(
        daemon, directory, uid, name, "-d", "300", "-p", str(pid), begins=False, **more
    )
    status = session.end(None)
    check(status in (0, 1), f"{name}: status {status}: {session.stderr}")
    return status == 0, session


class Scope:
    """Set Yama's ptrace_scope, and restore it at the end. None: the kernel has no Yama."""

    PATH = "/proc/sys/kernel/yama/ptrace_scope"

    def __init__(self, value):
        self.value, self.before = value, self.now()

    @classmethod
    def now(cls):
        with contextlib.suppress(FileNotFoundError), open(cls.PATH) as file:
            return int(file.read())
        return None

    @classmethod
    def set(cls, value):
        if value != cls.now():
            with open(cls.PATH, "w") as file:
                file.write(str(value))

    def __enter__(self):
        self.set(self.value)

    def __exit__(self, *_):
        self.set(self.before)


def possible_scopes():
    """The values of ptrace_scope that can be tested here. 3 cannot be taken back before the next boot."""
    now = Scope.now()
    if now is None or now == 3 or not os.access(Scope.PATH, os.W_OK):
        return [now]
    return [0, 1, 2]


def started(arguments, **how):
    """Start a program that does nothing; wait until it has its final identity."""
    process = subprocess.Popen(
        arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, **how
    )
    process.stdin.write(b"hold 1 1\n")
    process.stdin.flush()
    check(process.stdout.readline() == b"ok\n", f"{arguments} runs")
    return process


def test_access_table():
    """A user may profile the processes that the kernel lets the user trace."""
    need_root()
    harness.need("setpriv", "unshare")
    shadow, commanded = 42, program("commanded")
    with scene() as (daemon, directory):
        reachable(directory)
        special = os.path.join(directory, "special")
        os.mkdir(special)
        setgid, undumpable = os.path.join(special, "setgid"), os.path.join(special, "undumpable")
        capable = os.path.join(special, "capable")
        for path in (setgid, capable):
            shutil.copy(commanded, path)
        os.chown(setgid, 0, shadow)
        os.chmod(setgid, 0o2755)
        # Executable but not readable: the kernel does not let others inspect such a process.
        shutil.copy(commanded, undumpable)
        os.chmod(undumpable, 0o711)
        bob = as_user(BOB)
        wakes = ["setpriv", f"--reuid={BOB}", f"--regid={BOB}", "--clear-groups"]
        # A description, how it is started, and the requesting user if not Bob.
        cases = [
            ("same_user", [commanded], bob, {}, True),
            ("other_user", [commanded], as_user(ALICE), {}, False),
            ("roots", [commanded], {}, {}, False),
            ("other_gid", [commanded], {"user": BOB, "group": shadow, "extra_groups": []}, {}, False),
            ("extra_group", [commanded], {**bob, "extra_groups": [shadow]}, {}, True),
            ("asked_with_other_gid", [commanded], bob, {"group": shadow}, False),
            ("both_with_other_gid", [commanded], {**bob, "group": shadow}, {"group": shadow}, True),
            ("setgid", [setgid], bob, {}, False),
            ("capabilities", [*wakes, "--inh-caps=+net_raw", "--ambient-caps=+net_raw", commanded], {},
             {}, False),
            ("undumpable", [undumpable], bob, {}, False),
            ("user_namespace_of_his", ["unshare", "-U", commanded], bob, {}, True),
            ("user_namespace_of_roots", ["unshare", "-U", commanded], {}, {}, False),
        ]
        for value in possible_scopes():
            print(f"ptrace_scope {value}", flush=True)
            with Scope(value):
                inside = os.path.join(directory, f"scope-{value}")
                os.mkdir(inside)
                check_access(daemon, inside, cases, value)
                requester_with_a_capability(daemon, inside, value)
                joins_by_itself(daemon, inside)


def check_access(daemon, directory, cases, scope):
    """From 1 on, only whoever has CAP_SYS_PTRACE over a process attaches to it, unless it is a descendant."""
    for name, arguments, how, asks, expected in cases:
        # A user has all capabilities in the user's own namespace.
        allowed = expected and (not scope or (scope < 3 and name == "user_namespace_of_his"))
        process = started(arguments, **how)
        traced = traceable(BOB, process.pid, **asks)
        profiled, session = is_profiled(daemon, directory, name, process.pid, BOB, **asks)
        print(f"  {name}: a debugger may {traced}, profiled {profiled}")
        check(profiled == traced, f"{name}: traced {traced}, profiled {profiled}: {session.stderr}")
        check(traced == allowed, f"{name}: the kernel allows {traced}")
        if not profiled:
            check(session.stderr.count(f"process {process.pid}") == 1, f"{name}: {session.stderr}")
        if name == "undumpable":
            check("is not dumpable" in session.stderr and "namespace" not in session.stderr, session.stderr)
        if expected and not allowed:
            check(f"ptrace_scope is {scope}" in session.stderr, f"{name}: {session.stderr}")
        end_programs(process)


def proves_pids():
    """Return whether the kernel proves whose pid a connection has (SO_PEERPIDFD, Linux 6.5)."""
    with contextlib.suppress(OSError):
        peer, other = socket.socketpair()
        with peer, other:
            os.close(peer.getsockopt(socket.SOL_SOCKET, 77))
            return True
    return False


def requester_with_a_capability(daemon, directory, scope):
    """A user with a debugger's capabilities may profile all processes, up to ptrace_scope 2; root without
    them may not. The daemon does not count them if nothing proves whose they are."""
    process = started([program("commanded")], **as_user(ALICE))
    # Files below /proc/PID belong to the process's user: the second capability is for these.
    capable = [f"--reuid={BOB}", f"--regid={BOB}", "--clear-groups", "--inh-caps=+sys_ptrace,+dac_override",
               "--ambient-caps=+sys_ptrace,+dac_override"]
    for name, arguments, expected in (
        ("capable", capable, scope != 3 and proves_pids()),
        ("capable_alone", capable, scope != 3),
        ("root", ["--reuid=0"], scope != 3),
        ("root_without", ["--bounding-set=-sys_ptrace", "--inh-caps=-sys_ptrace"], False),
    ):
        output, run_directory = os.path.join(directory, name), os.path.join(directory, name + ".run")
        for path in (output, run_directory):
            os.mkdir(path)
            os.chown(path, BOB if arguments is capable else 0, -1)
        environment = {"HEAPPROFD_RUN_DIR": run_directory} if name == "capable_alone" else daemon.environment
        outcome = run(
            ["setpriv", *arguments, TOOL, "-i", "1", "-d", "300", "-o", output, "-p",
             str(process.pid)], env=environment,
        )
        print(f"  {name}: {outcome.status == 0}")
        check((outcome.status == 0) == expected, f"{name}: {outcome.status} {outcome.stderr!r}")
        if scope == 3 and name in ("root", "capable_alone"):
            check(b"ptrace_scope is 3" in outcome.stderr, f"{name}: {outcome.stderr!r}")
    end_programs(process)


def varint(number):
    """Return a number in protobuf's encoding."""
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def field(number, value):
    """Return a field of a protobuf message: a number, or bytes."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def start_request(pid):
    """Return a request for a session that profiles this process (proto/control.proto, proto/config.proto)."""
    source = field(1, b"android.heapprofd") + field(105, field(1, 1) + field(4, pid))
    config = field(2, field(1, source)) + field(3, 300)
    return struct.pack("<II", 0x48504354, 1) + field(1, field(1, config))


def answers_to_borrowed_rights(daemon, directory, privileged, pid):
    """Return the daemon's reply to a connection whose user, Bob, has since executed a privileged program."""
    how = as_user(BOB)
    peer = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    trace = os.open(os.path.join(directory, "bobs-trace"), os.O_RDWR | os.O_CREAT, 0o666)
    hold, release = os.pipe()
    child = os.fork()
    if child == 0:
        os.setgroups(how["extra_groups"])
        os.setgid(how["group"])
        os.setuid(how["user"])
        peer.connect(os.path.join(daemon.environment["HEAPPROFD_RUN_DIR"], "socket"))
        os.dup2(hold, 0)
        os.execv(privileged, [privileged])
    wait_for("the program", lambda: os.readlink(f"/proc/{child}/exe") == privileged)
    socket.send_fds(peer, [start_request(pid)], [trace])
    peer.settimeout(PATIENCE)
    answers = b""
    with contextlib.suppress(OSError):
        while got := peer.recv(1 << 16):
            answers += got
    peer.close()
    for fd in (trace, hold, release):
        os.close(fd)
    os.waitpid(child, 0)
    return answers


def test_privileged_exec_after_connecting():
    """The rights of a privileged program that a user begins after connecting are not the user's."""
    need_root()
    harness.need("setcap")
    with scene() as (daemon, directory):
        reachable(directory)
        setuid, capable = os.path.join(directory, "setuid"), os.path.join(directory, "capable")
        for path in (setuid, capable):
            shutil.copy(program("commanded"), path)
        os.chmod(setuid, 0o4755)
        run(["setcap", "cap_sys_ptrace,cap_dac_override+ep", capable])
        for path in (setuid, capable):
            for owner in (0, ALICE):
                process = started([program("commanded")], **(as_user(owner) if owner else {}))
                answers = answers_to_borrowed_rights(daemon, directory, path, process.pid)
                check(b"belongs to another user" in answers, f"{path}, uid {owner}: {answers!r}")
                end_programs(process)


def joins_by_itself(daemon, directory):
    """The same rule holds for processes with the preloaded library, which need no ptrace."""
    preloaded = {**daemon.environment, "LD_PRELOAD": LIBRARY}
    for name, how, expected in (
        ("joins", as_user(BOB), True),
        ("joins_not", {"user": BOB, "group": 42, "extra_groups": []}, False),
    ):
        process = started([program("commanded")], env=preloaded, **how)
        session = UserSession(
            daemon, directory, BOB, name, "-d", "600", "-p", str(process.pid), begins=False
        )
        deadline = time.monotonic() + PATIENCE
        while session.process.poll() is None and time.monotonic() < deadline:
            process.stdin.write(b"churn 2000 100\n")
            process.stdin.flush()
            process.stdout.readline()
            time.sleep(0.01)
        check((session.end(None) == 0) == expected, f"{name}: {session.stderr}")
        end_programs(process)


def test_rights_for_files():
    """Files that a user's program names are opened with that user's rights: Bob gets no names from a program in
    root's directory."""
    need_root()
    harness.need("strip")
    with scene() as (daemon, directory):
        reachable(directory)
        secret, his = os.path.join(directory, "secret"), os.path.join(directory, "his")
        os.mkdir(secret, 0o700)
        os.mkdir(his)
        shutil.copy(program("commanded"), os.path.join(secret, "prog"))
        run(["strip", "-o", os.path.join(his, "prog"), program("commanded")])
        os.chown(his, BOB, BOB)
        for kind in ("preloaded", "attached"):
            environment = dict(daemon.environment)
            if kind == "preloaded":
                environment["LD_PRELOAD"] = LIBRARY
            process = started([os.path.join(his, "prog")], env=environment, **as_user(BOB))
            session = UserSession(daemon, directory, BOB, kind, "-p", str(process.pid))
            for _ in range(30):
                process.stdin.write(b"churn 2000 100\n")
                process.stdin.flush()
                process.stdout.readline()
            wait_for("joining", lambda: process.pid in daemon.profiled_pids())
            process.stdin.write(b"hold 7 100\n")
            process.stdin.flush()
            process.stdout.readline()
            os.rename(his, his + ".away")
            os.symlink(secret, his)
            session.end()
            os.unlink(his)
            os.rename(his + ".away", his)
            raw = os.path.join(session.output, "raw-trace")
            with open(raw, "rb") as trace:
                check(b"hold_block" not in trace.read(), f"{kind}: names of root's file in his trace")
            heap = heap_of(report_of(raw), process.pid)
            check(heap["total"]["samples"] > 0, f"{kind}: it was profiled")
            # Neither does a perf map expose root's files.
            end_programs(process)


# A client that lies: it reports that its code is in the given file.
FORGED = """
import array, ctypes, mmap, os, socket, struct, sys
path, build_id, offset, data_at = sys.argv[1].encode(), bytes.fromhex(sys.argv[2]), int(sys.argv[3]), 4259840
peer = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
peer.connect(os.path.join(os.environ["HEAPPROFD_RUN_DIR"], "socket"))
peer.send(struct.pack("<6I64s", 0x48504853, int(sys.argv[4]), 1, os.getpid(), os.getpid(), 0, b"libc.so.6"))
_, fds, _, _ = socket.recv_fds(peer, 256, 1)
ring = mmap.mmap(fds[0], data_at + 65536)
struct.pack_into("<II", ring, 196, 1, 1)
def put(kind, body):
    at, = struct.unpack_from("<Q", ring, 64)
    body += bytes(-len(body) % 8)
    struct.pack_into("<Q", ring, 64, at + 8 + len(body))
    ring[data_at + at + 8:data_at + at + 8 + len(body)] = body
    struct.pack_into("<IBBH", ring, data_at + at, 8 + len(body), kind, 0, 0)
start = 0x10000000
put(8, struct.pack("<II16s", os.getpid(), 0, b"forged"))
put(6, struct.pack("<4QHHI", start, start + (1 << 24), 0, 0, len(build_id), len(path), 0) + build_id + path)
put(5, struct.pack("<QIHHQ", 1, 1, 0, 0, start + offset))
put(2, struct.pack("<3Q4I", 4096, 1000, 1, 1, 1, 0, 0))
print("ok", flush=True)
sys.stdin.readline()
"""


def test_forged_module():
    """A client that names a file which its user may not read gets nothing from it."""
    need_root()
    harness.need("nm", "readelf")
    original = program("commanded")
    notes = run(["readelf", "-n", original]).stdout.decode()
    build_id = notes.split("Build ID:")[1].split()[0] if "Build ID:" in notes else ""
    [line] = [line for line in run(["nm", original]).stdout.decode().splitlines()
              if line.endswith(" hold_block")]
    with scene() as (daemon, directory):
        reachable(directory)
        for name, mode, expected in (("open", 0o755, True), ("secret", 0o700, False)):
            place = os.path.join(directory, name)
            os.mkdir(place, mode)
            shutil.copy(original, os.path.join(place, "prog"))
            session = UserSession(daemon, directory, BOB, f"of_{name}", "-n", "forged")
            client = subprocess.Popen(
                ["forged", "-c", FORGED, os.path.join(place, "prog"), build_id, str(int(line.split()[0], 16) + 4),
                 str(harness.handshake_version())],
                executable=sys.executable, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                # As if it would load the library: nobody attaches to it.
                env={**daemon.environment, "LIBRARY": "libheapprofd_preload.so"}, **as_user(BOB),
            )
            check(client.stdout.readline() == b"ok\n", f"{name}: it has a ring")
            wait_for("its sample", lambda: any(s["samples"] for s in daemon.status()["sessions"]))
            check(session.end() == 0, session.stderr)
            end_programs(client)
            with open(os.path.join(session.output, "raw-trace"), "rb") as trace:
                named = b"hold_block" in trace.read()
            check(named == expected, f"{name}: its names are in his trace: {named}")


def is_written(pid, mode, path):
    """Return whether hand_made has reported its code; it then waits for a line."""
    if not os.path.exists(path):
        return False
    with open(path if mode == "map" else f"/proc/{pid}/maps") as file:
        return ("inner\n" if mode == "map" else path) in file.read()


def test_foreign_jit_files():
    """Another user's perf map and jitdump are not used, in Bob's session and in root's."""
    need_root()
    with scene() as (daemon, directory):
        reachable(directory)
        # The file's owner, the requesting user, and whether the names may be used.
        cases = [(BOB, 0o644, BOB, True), (0, 0o600, BOB, False), (ALICE, 0o644, 0, False)]
        for number, (mode, (owner, permissions, asks, expected)) in enumerate(
                itertools.product(("map", "dump"), cases)):
            what = f"{mode} of {owner} {permissions:o} for {asks}"
            his = os.path.join(directory, f"his{number}")
            os.mkdir(his)
            os.chown(his, BOB, BOB)
            process = subprocess.Popen(
                [program("hand_made"), mode, "told"], cwd=his, stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, bufsize=0, **as_user(BOB))
            path = f"/tmp/perf-{process.pid}.map"
            if mode == "dump":
                path = os.path.join(his, f"jit-{process.pid}.dump")
            try:
                wait_for("its file", lambda: is_written(process.pid, mode, path))
                os.chown(path, owner, owner)
                os.chmod(path, permissions)
                session = UserSession(daemon, directory, asks, f"asks{number}", "-p", str(process.pid))
                wait_for("attaching", lambda: process.pid in daemon.profiled_pids())
                process.stdin.write(b"\n")
                check(process.stdout.readline() == b"ok\n", f"{what}: it runs")
                check(session.end() == 0, session.stderr)
                with open(os.path.join(session.output, "raw-trace"), "rb") as trace:
                    content = trace.read()
                check((b"inner" in content) == expected, f"{what}: its names are there or not")
            finally:
                os.unlink(path)
            end_programs(process)


# --- shares, and what other users see ---


def test_shares():
    """A user gets at most a quarter of the sessions; others get theirs, and root always does."""
    need_root()
    with scene() as (daemon, directory):
        reachable(directory)
        uids = (54331, 54332, 54333, 54334)
        sessions = []
        for uid in uids:
            for number in range(17):
                session = UserSession(
                    daemon, directory, uid, f"{uid}-{number}", "-n", "no_such_name", begins=False
                )
                # A busy daemon lets it wait, and it says so.
                line = next((line for line in session.process.stderr if b"still waiting" not in line), b"")
                sessions.append(session)
                if b"Profiling" not in line:
                    break
            else:
                harness.fail(f"user {uid} has {number + 1} sessions")
            check(b"you have 16" in line or b"no room" in line, f"{line!r}")
            seen, _ = status_as(uid, daemon)
            check(len(seen) in (16, 8) and {s["uid"] for s in seen} == {uid}, f"{uid} sees {len(seen)}")
        everything = daemon.status()["sessions"]
        check(len(everything) == 56, f"{len(everything)} sessions of users")
        numbers = sorted(s["id"] for s in everything)
        check(numbers[-1] - numbers[0] > 1000, f"numbers about other processes: {numbers}")
        mine = Session(daemon, os.path.join(directory, "root"), "-n", "no_such_name")
        check(len(daemon.status()["sessions"]) == 57, "root has room")
        mine.end()
        for session in sessions:
            session.process.send_signal(signal.SIGINT)
        for session in sessions:
            session.end(None)


def test_memory_share():
    """A target that keeps sending new stacks and blocks ends its session, with a profile and a reason."""
    need_root()
    policy = "/etc/heapprofd.conf"
    if not harness.own_etc():
        harness.skip("a mount namespace cannot be made")
    with open(policy, "w") as file:
        file.write("session_memory_mb 64\n")
    with scene() as (daemon, directory):
        reachable(directory)
        process = started([program("commanded")], **as_user(BOB))
        other = started([program("commanded")], **as_user(ALICE))
        beside = UserSession(daemon, directory, ALICE, "alice", "-p", str(other.pid))
        session = UserSession(daemon, directory, BOB, "bob", "-p", str(process.pid))
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(b"hold 5000000 16\n")
            process.stdin.flush()
        check(session.end(None) == 0, f"status: {session.stderr}")
        check("memory" in session.stderr or "guardrail" in session.stderr, session.stderr)
        check("share of memory" in daemon.log(), daemon.log())
        heap = heap_of(session.report(), process.pid)
        kept = figure(heap, "hold_block", "objects")
        check(kept > 10000 and heap["hit_guardrail"], f"the profile is lost: {kept}")
        check(daemon.status() is not None, "the daemon serves")
        other.stdin.write(b"hold 3 100\n")
        other.stdin.flush()
        other.stdout.readline()
        check(beside.end() == 0, "another user's session")
        check_figure(heap_of(beside.report(), other.pid), "hold_block", "space", 300)
        process.stdout.readline()
        end_programs(process, other)


def test_killed_beside_another_users():
    """A killed profiler's program is free again at once, also beside a daemon whose maps its user cannot see."""
    need_root()
    with scene() as (daemon, directory):
        reachable(directory)
        process = started([program("commanded")], **as_user(BOB))
        environment = {**daemon.environment, "HEAPPROFD_RUN_DIR": os.path.join(directory, "none")}
        own = argparse.Namespace(environment=environment)
        first = UserSession(own, directory, BOB, "first", "-p", str(process.pid), begins=False)
        wait_for("it is attached to", lambda: harness.client_mappings(process.pid))
        first.process.kill()
        first.process.communicate(timeout=PATIENCE)
        left = set(harness.client_mappings(process.pid))
        second = UserSession(own, directory, BOB, "second", "-p", str(process.pid), begins=False)
        wait_for("it is attached to again", lambda: set(harness.client_mappings(process.pid)) - left)
        process.stdin.write(b"hold 3 100\n")
        process.stdin.flush()
        process.stdout.readline()
        check(second.end() == 0, second.stderr)
        check_figure(heap_of(second.report(), process.pid), "hold_block", "space", 300)
        end_programs(process)


def as_bob(script, *arguments):
    """Return the output of a script of Bob's."""
    outcome = run([sys.executable, "-c", script, *map(str, arguments)], **as_user(BOB))
    check(outcome.status == 0, f"{script}: {outcome.stderr!r}")
    return outcome.stdout


def page_tells_nothing(daemon, directory):
    """The control page, which every process maps, does not show which or how many processes are invited, nor
    how many sessions wait for new ones."""
    page = os.path.join(daemon.environment["HEAPPROFD_RUN_DIR"], "control")
    preloaded = {**daemon.environment, "LD_PRELOAD": LIBRARY}
    idle = [program_of(ALICE, "commanded", env=preloaded) for _ in range(2)]
    sessions = [
        UserSession(daemon, directory, ALICE, "idle", "-p", ",".join(str(p.pid) for p in idle)),
        *(UserSession(daemon, directory, ALICE, f"new{i}", "-n", "no_such_name") for i in range(2)),
    ]

    def read():
        content = as_bob("import sys; sys.stdout.buffer.write(open(sys.argv[1], 'rb').read())", page)
        return struct.unpack_from("<4I500Q", content)

    _, _, generation, asks, *tokens = read()
    check(asks == 1, f"sessions that wait for new processes: {asks}")
    numbers = {half for token in tokens for half in (token & 0xffffffff, token >> 32)}
    check(not numbers & {0, *(process.pid for process in idle)}, "who is invited")
    _, _, next_one, _, *later = wait_for("a reminder", lambda: (read() if read()[2] != generation else None))
    same = sum(a == b for a, b in zip(tokens, later))
    check(same == 0, f"{same} of {len(tokens)} places are as they were, {generation} to {next_one}")
    for process in idle:
        process.stdin.write(b"churn 2000 100\n")
        process.stdin.flush()
        process.stdout.readline()
    wait_for("joining", lambda: {process.pid for process in idle} <= set(daemon.profiled_pids()))
    for session in sessions:
        session.end()
    end_programs(*idle)


def process_tells_nothing(pid):
    """/proc shows only the name and the user of another user's session process."""
    shown = json.loads(as_bob(
        "import json, os, sys\n"
        "shown = {}\n"
        "for name in os.listdir(place := '/proc/' + sys.argv[1]):\n"
        "    try:\n"
        "        path = place + '/' + name\n"
        "        shown[name] = os.readlink(path) if os.path.islink(path) else open(path, 'rb').read().decode()\n"
        "    except OSError:\n"
        "        pass\n"
        "print(json.dumps(shown))", pid))
    check(shown["comm"] == "heapd-session\n" and not shown["cmdline"].strip("\0"), f"{shown}")
    hidden = {"environ", "exe", "cwd", "root", "maps", "fd", "io"} & shown.keys()
    check(not hidden, f"he reads {hidden}")


def test_hidden_from_other_users():
    """A refusal reveals neither another user's session nor the arguments of another user's process."""
    need_root()
    with scene() as (daemon, directory):
        reachable(directory)
        hers = started([program("commanded"), "her-secret-argument"], **as_user(ALICE))
        session = UserSession(daemon, directory, ALICE, "alice", "-p", str(hers.pid))
        seen, _ = status_as(BOB, daemon)
        check(not seen, f"he sees {seen}")
        [visible] = daemon.status()["sessions"]
        for verb in ("stop", "snapshot"):
            outcome = run([TOOL, verb, "--session", str(visible["id"])], env=daemon.environment,
                          **as_user(BOB))
            check(outcome.status == 1 and b"no such session of yours" in outcome.stderr,
                  f"{verb}: {outcome.stderr!r}")
        _, refused = is_profiled(daemon, directory, "bob", hers.pid, BOB)
        for place, _, files in os.walk(refused.output):
            for name in files:
                with open(os.path.join(place, name), "rb") as file:
                    check(b"her-secret" not in file.read(), f"her arguments are in his {name}")
        check("her-secret" not in refused.stderr and "commanded" not in refused.stderr, refused.stderr)
        wait_for("the end of his session's process", lambda: len(daemon.session_processes()) == 1)
        [profiler] = daemon.session_processes()
        process_tells_nothing(profiler)
        page_tells_nothing(daemon, directory)
        check(session.end() == 0, session.stderr)
        end_programs(hers)


def test_long_names():
    """Processes with names that do not fit a message do not hide their session."""
    with scene() as (daemon, directory):
        processes = [
            subprocess.Popen(["x" * 16000], executable=program("commanded"), stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE) for _ in range(9)
        ]
        pids = ",".join(str(process.pid) for process in processes)
        session = Session(daemon, os.path.join(directory, "long"), "-p", pids)
        wait_for("the log", lambda: " began: uid" in daemon.log())
        # They are attached to one after the other.
        [seen] = wait_for("nine processes", lambda: [s for s in daemon.status()["sessions"] if s["process_count"] == 9])
        check(seen["processes"], f"{str(seen)[:500]}")
        session.end()
        end_programs(*processes)


def test_second_signal():
    """After a second signal heap_profile leaves at once, killed by that signal."""
    with scene(start=False) as (daemon, directory):
        for with_daemon in (False, True):
            if with_daemon:
                daemon.start()
            stuck = [
                subprocess.Popen([program("stepper"), "stuck", "1"], stdin=subprocess.PIPE,
                                 stdout=subprocess.PIPE) for _ in range(4)
            ]
            pids = ",".join(str(process.pid) for process in stuck)
            for number in (signal.SIGINT, signal.SIGTERM):
                session = Session(daemon, os.path.join(directory, f"{number}{with_daemon}"), "-p",
                                  pids, begins=False)
                time.sleep(0.1)
                if with_daemon:
                    [profiler] = wait_for("its session", daemon.session_processes)
                    os.kill(profiler, signal.SIGSTOP)
                else:
                    profiler = None
                session.process.send_signal(number)
                time.sleep(0.3)
                began = time.monotonic()
                if session.process.poll() is None:
                    session.process.send_signal(number)
                status = session.end(None)
                took = time.monotonic() - began
                if profiler:
                    os.kill(profiler, signal.SIGCONT)
                    check(status == -number, f"{number.name} with a daemon: {status}")
                check(status in (-number, 3), f"{number.name}: {status} {session.stderr}")
                check(took < SOON_S, f"{number.name}: {took:.2f} s")
                wait_for("its end", lambda: not with_daemon or not daemon.session_processes())
            kill_programs(*stuck)


if __name__ == "__main__":
    harness.main()
