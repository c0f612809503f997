# SPDX-License-Identifier: Apache-2.0
"""Files on FUSE that nobody can get rid of: their server never answers a write.

With the kernel's write cache, the last close of such a file writes what is in the cache, and waits for the server in
a way that no signal interrupts.
"""

import contextlib
import ctypes
import os
import signal
import struct

LOOKUP, GETATTR, SETATTR, OPEN, WRITE, INIT, FORGET, OPENDIR, BATCH_FORGET = 1, 3, 4, 14, 16, 26, 2, 27, 42
WRITEBACK_CACHE = 1 << 16
ENOSYS = 38
PATIENCE_S = 60
DIRECTORY, FILE = 0o040755, 0o100666


def attributes(node):
    """Return a struct fuse_attr. The root directory is inode 1."""
    return struct.pack("<6Q10I", node, 0, 0, 0, 0, 0, 0, 0, 0, DIRECTORY if node == 1 else FILE, 1, 0, 0, 0, 4096, 0)


def answer_to(operation, node, data):
    """Return an error and a body, or None to stay silent."""
    if operation == INIT:
        return 0, struct.pack("<4I2H2I2HI28x", 7, 31, 65536, WRITEBACK_CACHE, 16, 12, 65536, 1, 0, 0, 0)
    if operation == LOOKUP:
        node = 2 + int(data.rstrip(b"\0"))
        return 0, struct.pack("<4Q2I", node, 0, 3600, 3600, 0, 0) + attributes(node)
    if operation in (GETATTR, SETATTR):
        return 0, struct.pack("<QII", 3600, 0, 0) + attributes(node)
    if operation in (OPEN, OPENDIR):
        return 0, struct.pack("<QII", 1, 0, 0)
    return None if operation in (WRITE, FORGET, BATCH_FORGET) else (-ENOSYS, b"")


def serve(device):
    """Serve until the parent kills this process; at the latest after a time, so that nothing waits for ever."""
    signal.alarm(PATIENCE_S)
    while True:
        request = os.read(device, 1 << 18)
        _, operation, unique, node = struct.unpack_from("<IIQQ", request)
        answer = answer_to(operation, node, request[40:])
        if answer is not None:
            error, body = answer
            os.write(device, struct.pack("<IiQ", 16 + len(body), error, unique) + body)


@contextlib.contextmanager
def mounted(directory):
    """Mount such files, whose names are numbers, at a directory. Yield a function that ends their server, so that all
    that waits for it gets an error; None if that is not possible here."""
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        device = os.open("/dev/fuse", os.O_RDWR)
    except OSError:
        yield None
        return
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other"
    if libc.mount(b"test", directory.encode(), b"fuse", 0, options.encode()) != 0:
        os.close(device)
        yield None
        return
    server = os.fork()
    if server == 0:
        try:
            serve(device)
        finally:
            os._exit(1)
    os.close(device)
    try:
        yield lambda: os.kill(server, signal.SIGKILL)
    finally:
        os.kill(server, signal.SIGKILL)
        os.waitpid(server, 0)
        libc.umount2(directory.encode(), 2)
