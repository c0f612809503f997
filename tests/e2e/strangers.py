#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The daemon's socket in the hands of strangers: whatever they send, pass or hold, no other user waits.

    strangers.py CASE
"""

import contextlib
import fcntl
import os
import signal
import socket
import struct
import subprocess
import time

import fuse_files
import harness
from daemon import (
    ALICE, BOB, DAEMON, LIBRARY, Commanded, Session, ask_as, as_user, check_figure, heap_of, joined, need_root, reachable,
    PATIENCE, report_of, scene, wait_for,
)
from harness import TOOL, check, program, run

REQUEST = struct.pack("<II", 0x48504354, 1)
STATUS = REQUEST + b"\x10\x01"
SNAPSHOT = REQUEST + b"\x1a\x00"
START = REQUEST + b"\x0a\x00"
HELLO = harness.hello(1, 1)


def socket_of(daemon):
    return os.path.join(daemon.environment["HEAPPROFD_RUN_DIR"], "socket")


def connect(daemon):
    peer = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    peer.connect(socket_of(daemon))
    return peer


def descriptors_of(daemon):
    return len(os.listdir(f"/proc/{daemon.process.pid}/fd"))


@contextlib.contextmanager
def same_descriptors(daemon):
    """Check that the daemon has no more descriptors after than before."""
    check(daemon.status() is not None, "the daemon serves")
    before = descriptors_of(daemon)
    yield
    wait_for(f"the daemon's {before} descriptors", lambda: descriptors_of(daemon) <= before)


def works(daemon, directory, name="works"):
    """Check that a session starts, profiles and ends."""
    process = Commanded(daemon.environment)
    session = Session(daemon, os.path.join(directory, name), "-p", str(process.pid))
    joined(daemon, process)
    process.tell("hold 10 1000")
    session.end()
    check_figure(heap_of(session.report(), process.pid), "hold_block", "space", 10000)
    process.end()


# --- descriptors ---


def test_descriptors():
    """The daemon closes all passed descriptors, and a session works after 20,000 of them."""
    with scene() as (daemon, directory), open("/dev/null") as null, same_descriptors(daemon):
        for message in (b"", b"x", HELLO, STATUS, START, REQUEST, b"\0" * 200000):
            for count in (0, 1, 2, 3, 253):
                # With the first message of a connection, and with a later one.
                for before in ((), (STATUS,)):
                    with connect(daemon) as peer:
                        for other in before:
                            peer.send(other)
                            peer.recv(65536)
                        with contextlib.suppress(BrokenPipeError):
                            socket.send_fds(peer, [message], [null.fileno()] * count)
        for number in range(20000):
            with connect(daemon) as peer:
                # The daemon starts a process for each START.
                message = START if number % 50 == 0 else (STATUS, HELLO)[number % 2]
                socket.send_fds(peer, [message], [null.fileno()] * 2)
        works(daemon, directory)


def answer_to(daemon, message, count):
    """Return the daemon's reply to a message with this number of descriptors."""
    with connect(daemon) as peer, open("/dev/null") as null:
        socket.send_fds(peer, [message], [null.fileno()] * count)
        return peer.recv(65536)


def test_descriptors_are_refused():
    """The reason is printed."""
    with scene() as (daemon, _):
        check(b"a request that takes none" in answer_to(daemon, STATUS, 1), "a status with a file")
        check(b"a request takes one file" in answer_to(daemon, START, 2), "a start with two files")
        check(b"regular file" in answer_to(daemon, START, 0), "a start without a file")


def lingering(patience_s):
    """Return a TCP socket whose last close waits for this time, because its peer reads nothing."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        first = socket.create_connection(listener.getsockname())
        second, _ = listener.accept()
    first.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        while True:
            first.send(b"x" * 65536)
    first.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, patience_s))
    return first, second


def has_zombie(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as children:
        for child in children.read().split():
            with open(f"/proc/{child}/stat") as stat:
                if stat.read().rsplit(") ", 1)[1].startswith("Z"):
                    return True
    return False


def test_slow_close():
    """The daemon does not wait when it closes a descriptor."""
    with scene() as (daemon, directory), same_descriptors(daemon):
        ends = []
        for message in (b"x", HELLO, STATUS, REQUEST):
            for first_message in (b"", STATUS):
                lingers, end = lingering(60)
                ends.append(end)
                with connect(daemon) as peer:
                    if first_message:
                        peer.send(first_message)
                    socket.send_fds(peer, [message], [lingers.fileno()])
                    # The daemon has the last copy.
                    os.close(lingers.detach())
        start = time.monotonic()
        check(daemon.status() is not None, "it serves")
        took = time.monotonic() - start
        check(took < 2, f"status took {took:.1f} s")
        wait_for("the end of the children", lambda: not has_zombie(daemon.process.pid))
        works(daemon, directory)
        for end in ends:
            end.close()


def children_of(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as children:
        return len(children.read().split())


def pass_stuck_file(daemon, path):
    """Pass a file whose last close waits for ever to the daemon, which is stopped."""
    def pass_it(back):
        passed, writer = os.open(path, os.O_RDWR), os.open(path, os.O_RDWR)
        with connect(daemon) as peer:
            socket.send_fds(peer, [b"x"], [passed])
        os.close(passed)
        os.write(writer, b"x")
        os.write(back, b"passed")
        signal.pause()

    return as_another(ALICE, pass_it)


def test_stuck_close():
    """Files that the kernel cannot close keep the daemon neither from serving others nor from ending."""
    need_root()
    with contextlib.ExitStack() as stack:
        daemon, directory = stack.enter_context(scene())
        null = stack.enter_context(open("/dev/null"))
        files = os.path.join(directory, "files")
        os.mkdir(files)
        reachable(directory)
        end_files = stack.enter_context(fuse_files.mounted(files))
        if end_files is None:
            harness.skip("files on FUSE need /dev/fuse and mount()")
        check(daemon.status() is not None, "it serves")
        before = children_of(daemon.process.pid)
        for number in range(8):
            daemon.process.send_signal(signal.SIGSTOP)
            pipe = stack.enter_context(pass_stuck_file(daemon, os.path.join(files, str(number))))
            stack.callback(end_files)
            check(pipe.read(6) == b"passed", "the file is passed")
            daemon.process.send_signal(signal.SIGCONT)
            wait_for("another child that cannot end",
                     lambda: children_of(daemon.process.pid) == before + number + 1)
        for _ in range(600):
            with connect(daemon) as peer:
                peer.settimeout(PATIENCE)
                socket.send_fds(peer, [b"x"], [null.fileno()])
        works(daemon, directory)
        check(children_of(daemon.process.pid) == before + 8, "the children could end")
        check(descriptors_of(daemon) < 300, f"it has {descriptors_of(daemon)} descriptors")
        daemon.process.send_signal(signal.SIGTERM)
        check(daemon.process.wait(PATIENCE) == 0, "it ends")


def processor_ticks(pid):
    with open(f"/proc/{pid}/stat") as stat:
        return sum(int(word) for word in stat.read().rsplit(")", 1)[1].split()[11:13])


def test_connections_while_ending():
    """A daemon that waits for a session before it ends spends no time on new connections."""
    with scene() as (daemon, directory):
        process = Commanded(daemon.environment)
        session = Session(daemon, os.path.join(directory, "one"), "-p", str(process.pid))
        joined(daemon, process)
        [stopped] = daemon.session_processes()
        os.kill(stopped, signal.SIGSTOP)
        try:
            daemon.process.send_signal(signal.SIGTERM)
            time.sleep(0.2)
            with connect(daemon) as peer:
                peer.send(STATUS)
                before = processor_ticks(daemon.process.pid)
                time.sleep(1)
                used = processor_ticks(daemon.process.pid) - before
        finally:
            os.kill(stopped, signal.SIGCONT)
        check(used < 10, f"it used {used} of 100 ticks")
        check(daemon.process.wait(PATIENCE) == 0, "it ends")
        session.end(None)
        process.end()


# --- shares ---


@contextlib.contextmanager
def as_another(uid, what):
    """Start a process of that user that runs until it is killed. Return what it first writes to its pipe."""
    out, back = os.pipe()
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            os.close(out)
            os.setgroups([])
            os.setgid(uid)
            os.setuid(uid)
            what(back)
        os._exit(1)
    os.close(back)
    try:
        with open(out, "rb", closefd=True) as pipe:
            yield pipe
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def work_until_answer(uid, daemon):
    """Return the daemon's processor seconds from that user's request for status to the answer. The one who asks runs at
    once: while he waited for a processor, the daemon would go on to serve others."""
    def used():
        with open(f"/proc/{daemon.process.pid}/schedstat") as file:
            return int(file.read().split()[0]) / 1e9

    def ask(back):
        with connect(daemon) as peer:
            peer.settimeout(20)
            start = used()
            peer.send(STATUS)
            answer = peer.recv(65536)
            os.write(back, f"{used() - start} ".encode() + answer)

    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    try:
        with as_another(uid, ask) as pipe:
            took, answer = pipe.read().split(b" ", 1)
    finally:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    check(daemon.environment["HEAPPROFD_RUN_DIR"].encode() in answer, f"user {uid} has no status: {answer}")
    return float(took)


def served(daemon, directory, name, limit):
    """Check that root and Bob get status and sessions at once."""
    for uid in (BOB, 0):
        took = sorted(work_until_answer(uid, daemon) for _ in range(7))
        print(f"{name}: status as {uid} took {took[0] * 1000:.1f} to {took[-1] * 1000:.1f} ms of CPU")
        check(took[3] < limit, f"{name}: status as {uid} took {took}")
    outcome = run([TOOL, "status"], env=daemon.environment, **as_user(BOB))
    check(outcome.status == 0, f"{name}: {outcome.stderr!r}")
    his = subprocess.Popen(
        [program("commanded")], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        env={**daemon.environment, "LD_PRELOAD": LIBRARY}, **as_user(BOB),
    )
    his.stdin.write(b"hold 10 1000\nchurn 2000 100\n")
    his.stdin.flush()
    outcome, output = ask_as(BOB, daemon, directory, name, "-p", str(his.pid))
    check(b"cannot" not in outcome.stderr and b"connections" not in outcome.stderr, f"{name}: {outcome.stderr!r}")
    check(heap_of(report_of(output), his.pid) is not None, f"{name}: no profile: {outcome.stderr!r}")
    his.stdin.close()
    his.wait()
    his.stdout.close()


def test_shares():
    """Alice holds as many connections as she can: Bob and root are served at once, and she gets an error."""
    need_root()
    with scene() as (daemon, directory), same_descriptors(daemon):
        reachable(directory)

        def hold(back):
            peers, refused = [], set()
            for number in range(1200):
                peer = connect(daemon)
                peer.settimeout(10)
                with contextlib.suppress(OSError):
                    # Silent connections, and others that stay after a request.
                    if number % 2:
                        # The daemon may have refused the connection before it receives a request.
                        with contextlib.suppress(BrokenPipeError):
                            peer.send(STATUS)
                        answer = peer.recv(65536)
                        if b"connections" in answer:
                            refused.add(answer)
                peers.append(peer)
            os.write(back, repr(refused).encode() + b"\n")
            while True:
                time.sleep(0.01)
                for index in range(0, len(peers), 2):
                    peers[index].close()
                    peers[index] = connect(daemon)

        with as_another(ALICE, hold) as pipe:
            told = pipe.readline()
            check(b"you hold 512 connections" in told, f"her error is {told}")
            served(daemon, directory, "held", 0.05)


def test_refused_before_request():
    """heap_profile prints the reason if the daemon refuses its connection before it sends a request."""
    with scene(start=False) as (daemon, directory), socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        os.mkdir(daemon.environment["HEAPPROFD_RUN_DIR"], 0o755)
        listener.bind(socket_of(daemon))
        listener.listen()
        cpu = min(os.sched_getaffinity(0))
        refuser = os.fork()
        if refuser == 0:
            with contextlib.suppress(OSError):  # it answers before its peer continues
                os.sched_setaffinity(0, {cpu})
                os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
            while True:
                peer, _ = listener.accept()
                with contextlib.suppress(OSError):
                    peer.send(REQUEST + b"\x0a\x07no room\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01")
                peer.close()
        process = Commanded(daemon.environment)
        try:
            for words in (["status"], ["-p", str(process.pid), "-d", "100", "-o", os.path.join(directory, "o")]):
                outcome = run(["taskset", "-c", str(cpu), TOOL, *words], env=daemon.environment)
                check(b"no room" in outcome.stdout + outcome.stderr,
                      f"{words}: {outcome.status} {outcome.stdout!r} {outcome.stderr!r}")
        finally:
            os.kill(refuser, signal.SIGKILL)
            os.waitpid(refuser, 0)
        process.end()


def test_floods():
    """Alice requests and connects endlessly without reading answers: Bob and root are served at once."""
    need_root()
    with scene() as (daemon, directory), same_descriptors(daemon), contextlib.ExitStack() as stack:
        reachable(directory)

        def flood(message, each):
            def go_on(back):
                os.write(back, b"\n")
                while True:
                    with contextlib.suppress(OSError), connect(daemon) as peer:
                        peer.setblocking(False)
                        for _ in range(each):
                            peer.send(message)
            return go_on

        for message, each in ((STATUS, 1), (STATUS, 100), (HELLO, 1), (SNAPSHOT, 100), (b"x", 1)):
            stack.enter_context(as_another(ALICE, flood(message, each))).readline()
        served(daemon, directory, "flooded", 0.3)
        # Each snapshot writes a line to the log, up to the user's share.
        lines = sum(f"uid {ALICE}" in line for line in daemon.log().splitlines())
        check(100 < lines < 1000, f"{lines} lines of the log are about her")


def test_blocked_log():
    """A daemon whose log blocks drops lines, and continues to serve."""
    with scene(start=False) as (daemon, directory):
        read_end, write_end = os.pipe()
        fcntl.fcntl(write_end, fcntl.F_SETPIPE_SZ, 8192)
        daemon.process = subprocess.Popen([DAEMON], env=daemon.environment, stderr=write_end)
        os.close(write_end)
        wait_for("the daemon", lambda: daemon.status() is not None)
        with connect(daemon) as peer:
            for _ in range(100):
                peer.send(SNAPSHOT)
                check(peer.recv(4096), "its answer")
        text = os.read(read_end, 8192)
        check(text.count(b"snapshot of 0") > 10, f"{text!r}")
        with connect(daemon) as peer:
            peer.send(SNAPSHOT)
            peer.recv(4096)
        text = os.read(read_end, 8192)
        check(b"lines were left out: the log was not read in time" in text, f"{text!r}")
        check(daemon.end() == 0, "its end")
        os.close(read_end)


# --- another user's daemon ---


def test_other_users_daemon():
    """Root neither sends requests nor passes a file to another user's daemon."""
    need_root()
    with scene(start=False) as (daemon, directory):
        reachable(directory)
        os.mkdir(daemon.environment["HEAPPROFD_RUN_DIR"])
        os.chown(daemon.environment["HEAPPROFD_RUN_DIR"], ALICE, ALICE)
        hers = subprocess.Popen([DAEMON], env=daemon.environment, stderr=subprocess.DEVNULL, **as_user(ALICE))
        wait_for("her socket", lambda: os.path.exists(socket_of(daemon)))
        process = Commanded(daemon.environment)
        for options in (["-p", str(process.pid), "-o", os.path.join(directory, "o")], ["status"]):
            outcome = run([TOOL, *options], env=daemon.environment)
            check(f"belongs to user {ALICE}".encode() in outcome.stdout + outcome.stderr,
                  f"{options}: {outcome.status} {outcome.stdout!r} {outcome.stderr!r}")
            check(outcome.status == 1 or options == ["status"], f"{options}: {outcome.status}")
        process.end()
        hers.terminate()
        hers.wait()


def test_run_directories():
    """The daemon refuses a run directory that another user could change."""
    with scene(start=False) as (daemon, directory):
        path = daemon.environment["HEAPPROFD_RUN_DIR"]

        def check_refused(what):
            outcome = run([DAEMON], env=daemon.environment)
            check(outcome.status == 1 and b"nobody else may write to" in outcome.stderr, f"{what}: {outcome.stderr!r}")

        os.mkdir(path)
        for mode in (0o777, 0o775, 0o1777):
            os.chmod(path, mode)
            check_refused(f"mode {mode:o}")
        os.rename(path, path + "-other")
        os.chmod(path + "-other", 0o755)
        os.symlink(path + "-other", path)
        check_refused("a link")
        os.unlink(path)
        if os.geteuid() == 0:
            os.mkdir(path)
            os.chown(path, ALICE, ALICE)
            check_refused("another user's")


def test_lock():
    """Nobody else can hold the daemon's lock, and so prevent its next start."""
    need_root()
    with scene(start=False) as (daemon, directory):
        reachable(directory)
        run_directory = daemon.environment["HEAPPROFD_RUN_DIR"]
        os.mkdir(run_directory, 0o755)
        # An earlier version's file, which every user could open.
        with open(os.path.join(run_directory, "lock"), "w") as lock:
            os.fchmod(lock.fileno(), 0o644)

        def hold(back):
            opened = [os.open(os.path.join(run_directory, "lock"), os.O_RDONLY)]
            os.write(back, b"\n")
            while not os.path.exists(socket_of(daemon)):
                time.sleep(0.01)
            while True:
                for name in os.listdir(run_directory):
                    with contextlib.suppress(OSError):
                        opened.append(os.open(os.path.join(run_directory, name), os.O_RDONLY))
                for fd in opened:
                    with contextlib.suppress(OSError):
                        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
                while len(opened) > 50:
                    os.close(opened.pop(1))

        with as_another(ALICE, hold) as pipe:
            pipe.readline()
            daemon.start()
            for _ in range(3):
                check(daemon.end() == 0, "its end")
                time.sleep(0.1)
                with open(daemon.log_path, "a") as log:
                    daemon.process = subprocess.Popen([DAEMON], env=daemon.environment, stderr=log)
                wait_for("the next daemon", lambda: daemon.status() is not None or daemon.process.poll() is not None)
                if not check(daemon.process.poll() is None, f"the next daemon has ended: {daemon.log()}"):
                    return
        daemon.end()


if __name__ == "__main__":
    harness.main()
