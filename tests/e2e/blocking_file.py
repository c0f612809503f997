# SPDX-License-Identifier: Apache-2.0
"""A file that blocks its users, for the end-to-end tests. Needs root and FUSE."""

import contextlib
import ctypes
import os
import struct
import threading

import harness
from daemon import ALICE

# From linux/fuse.h.
LOOKUP, READ, WRITE, FLUSH = 1, 15, 16, 25


class BlockingFile:
    """A regular file on FUSE that blocks one operation until the test releases it. With READ it exists, has 1 MiB, and
    can be mapped. With `content` it is a program, and blocks everything once `is_silent` is set."""

    def __init__(self, directory, blocks, name="fuse", content=None):
        self.blocks, self.blocked, self.content, self.is_silent = blocks, 0, content, False
        self.mountpoint = os.path.join(directory, name)
        os.mkdir(self.mountpoint)
        try:
            self.device = os.open("/dev/fuse", os.O_RDWR)
        except OSError as error:
            harness.skip(f"/dev/fuse: {error.strerror}")
        self.libc = ctypes.CDLL(None, use_errno=True)
        options = f"fd={self.device},rootmode=40755,user_id=0,group_id=0,allow_other".encode()
        if self.libc.mount(b"test", self.mountpoint.encode(), b"fuse", 0, options) != 0:
            os.close(self.device)
            harness.skip(f"cannot mount FUSE: {os.strerror(ctypes.get_errno())}")
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def attributes(self, node):
        mode = 0o40755 if node == 1 else 0o100755 if self.content else 0o100644
        # ino size blocks atime mtime ctime, their nanoseconds, mode nlink uid gid rdev blksize flags
        size = 0 if node == 1 else len(self.content) if self.content else 1 << 20 if self.blocks == READ else 0
        return struct.pack("<6Q3I7I", node, size, 0, 0, 0, 0, 0, 0, 0, mode, 1, ALICE, ALICE, 0, 4096, 0)

    def serve(self):
        # From linux/fuse.h: LOOKUP 1, GETATTR 3, SETATTR 4, OPEN 14, WRITE 16, FLUSH 25, INIT 26,
        # CREATE 35.
        exists = self.blocks == READ or self.content is not None
        opened = struct.pack("<Q2I", 0, 0 if exists else 1, 0)  # FOPEN_DIRECT_IO
        while True:
            try:
                request = os.read(self.device, 1 << 20)
            except OSError:
                return
            _, kind, unique, node = struct.unpack_from("<IIQQ", request)
            answer, error = b"", 0
            if kind == self.blocks or (self.is_silent and kind not in (2, 36, 42)):
                self.blocked += 1
                continue
            if kind == 26:
                answer = struct.pack("<4I2H8I", 7, 31, 65536, 0, 12, 9, 65536, 1, 0, 0, 0, 0, 0, 0)
            elif kind == 1 and not exists:
                error = -2
            elif kind in (1, 35):
                answer = struct.pack("<4Q2I", 2, 0, 1, 1, 0, 0) + self.attributes(2)
                answer += opened if kind == 35 else b""
                exists = True
            elif kind in (3, 4):
                answer = struct.pack("<Q2I", 1, 0, 0) + self.attributes(node)
            elif kind == 14:
                answer = opened
            elif kind == READ:
                at, size = struct.unpack_from("<8xQI", request, 40)
                answer = self.content[at:at + size]
            elif kind in (2, 36, 42):  # FORGET, INTERRUPT, BATCH_FORGET
                continue
            elif kind not in (18, 25):  # RELEASE, FLUSH
                error = -38
            answer = b"" if error else answer
            with contextlib.suppress(OSError):
                os.write(self.device, struct.pack("<IiQ", 16 + len(answer), error, unique) + answer)

    def let_go(self):
        if self.device < 0:
            return
        self.libc.umount2(self.mountpoint.encode(), 3)  # MNT_FORCE, MNT_DETACH
        os.close(self.device)
        self.device = -1
