#!/usr/bin/python3
"""The daemon's socket, as strangers use it: whatever they send, pass or hold, nobody else waits for it.

    strangers.py CASE
"""

import contextlib
import os
import socket
import struct
import sys
import time

import harness
from daemon import Commanded, Session, check_figure, heap_of, joined, scene, wait_for
from harness import check

REQUEST = struct.pack("<II", 0x48504354, 1)
STATUS = REQUEST + b"\x10\x01"
START = REQUEST + b"\x0a\x00"
HELLO = struct.pack("<6I64s", 0x48504853, 1, 1, 1, 1, 1, b"")


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
    """The daemon has as many descriptors after as before."""
    check(daemon.status() is not None, "the daemon serves")
    before = descriptors_of(daemon)
    yield
    wait_for(f"the daemon's {before} descriptors", lambda: descriptors_of(daemon) == before)


def works(daemon, directory, name="works"):
    """A session begins, profiles and ends."""
    process = Commanded(daemon.environment)
    session = Session(daemon, os.path.join(directory, name), "-p", str(process.pid))
    joined(daemon, process)
    process.tell("hold 10 1000")
    session.end()
    check_figure(heap_of(session.report(), process.pid), "hold_block", "space", 10000)
    process.end()


# --- descriptors ---


def descriptors():
    """None that is passed to the daemon stays open there, and a session works after 20,000."""
    with scene() as (daemon, directory), open("/dev/null") as null, same_descriptors(daemon):
        for message in (b"", b"x", HELLO, STATUS, START, REQUEST, b"\0" * 200000):
            for count in (0, 1, 2, 3, 253):
                # As the first message of a connection, and after another.
                for before in ((), (STATUS,)):
                    with connect(daemon) as peer:
                        for other in before:
                            peer.send(other)
                            peer.recv(65536)
                        with contextlib.suppress(BrokenPipeError):
                            socket.send_fds(peer, [message], [null.fileno()] * count)
        for number in range(20000):
            with connect(daemon) as peer:
                socket.send_fds(peer, [(STATUS, START, HELLO)[number % 3]], [null.fileno()] * 2)
        works(daemon, directory)


def answer_to(daemon, message, count):
    """What the daemon says to a message with so many descriptors."""
    with connect(daemon) as peer, open("/dev/null") as null:
        socket.send_fds(peer, [message], [null.fileno()] * count)
        return peer.recv(65536)


def descriptors_are_refused():
    """The reason is said."""
    with scene() as (daemon, _):
        check(b"a request that takes none" in answer_to(daemon, STATUS, 1), "a status with a file")
        check(b"one file is taken" in answer_to(daemon, START, 2), "a start with two files")
        check(b"regular file" in answer_to(daemon, START, 0), "a start without a file")


def lingering(patience_s):
    """A TCP socket whose last close waits so long: its peer takes nothing."""
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


def slow_to_close():
    """The daemon waits for no descriptor that it lets go."""
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
                    # The daemon has the last one.
                    os.close(lingers.detach())
        start = time.monotonic()
        check(daemon.status() is not None, "it serves")
        took = time.monotonic() - start
        check(took < 2, f"status took {took:.1f} s")
        works(daemon, directory)
        for end in ends:
            end.close()


if __name__ == "__main__":
    globals()[sys.argv[1]]()
    harness.finish()
