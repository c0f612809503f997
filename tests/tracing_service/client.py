# SPDX-License-Identifier: Apache-2.0
"""A producer and a consumer in a test's own hands: each chunk and each call is chosen.

They block until what they wait for is there. Tests use them on the tests' service and on Perfetto's traced.
"""

import array
import mmap
import os
import socket
import struct

from .connection import BIND, BIND_REPLY, INVOKE, INVOKE_REPLY, REQUEST_ID
from .shared_memory import CHUNK_HEADER, CHUNKS_OF_LAYOUT, COMPLETE, COUNT_BITS, PAGE_HEADER
from .wire import Message, frame, message, split_frames

TIMEOUT_S = 120  # only a hang reaches it
EMULATED_BYTES = 64 << 10
SETUP_TRACING, SETUP_SOURCE, START_SOURCE, STOP_SOURCE, FLUSH, CLEAR_STATE = 3, 6, 1, 2, 5, 7


class Client:
    def __init__(self, path, service_name):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(TIMEOUT_S)
        self.sock.connect(path)
        self.received, self.replies, self.descriptors = bytearray(), {}, []
        self.requests = 1
        self.sock.sendall(frame(message((REQUEST_ID, 1), (BIND, message((1, service_name))))))
        bound = self._wait_frame(1, BIND_REPLY)
        self.service_id = bound.number(2)
        self.methods = {method.text(2): method.number(1) for method in bound.messages(3)}

    def invoke(self, method, arguments=b"", descriptors=()):
        """Call a method; return the number to wait for its replies."""
        self.requests += 1
        call = message((1, self.service_id), (2, self.methods[method]), (3, arguments), (4, False))
        body = frame(message((REQUEST_ID, self.requests), (INVOKE, call)))
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
        sent = self.sock.sendmsg([body], rights)
        self.sock.sendall(body[sent:])
        return self.requests

    def wait(self, request):
        """Return the next reply to a call: (whether it succeeded, whether more follow, its message)."""
        reply = self._wait_frame(request, INVOKE_REPLY)
        return bool(reply.number(1)), bool(reply.number(2)), reply.message(3)

    def call(self, method, arguments=b"", descriptors=()):
        """Call a method that must succeed; return the reply's message."""
        success, _, reply = self.wait(self.invoke(method, arguments, descriptors))
        if not success:
            raise ConnectionError(f"{method} is refused")
        return reply

    def close(self):
        self.sock.close()
        for fd in self.descriptors:
            os.close(fd)

    def _wait_frame(self, request, kind):
        while not self.replies.get((request, kind)):
            data, ancillary, _, _ = self.sock.recvmsg(65536, socket.CMSG_SPACE(32))
            if not data:
                raise ConnectionError("the service hung up")
            for level, rights, value in ancillary:
                if (level, rights) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                    self.descriptors += array.array("i", value)
            self.received += data
            for body in split_frames(self.received):
                reply = Message(body)
                for found in (BIND_REPLY, INVOKE_REPLY):
                    if reply.has(found):
                        self.replies.setdefault((reply.number(REQUEST_ID), found), []).append(reply.message(found))
        return self.replies[request, kind].pop(0)


class ProducerClient(Client):
    def __init__(self, path, name="test.producer", page_size=4096, shm_size=65536):
        super().__init__(path, "ProducerPort")
        self.call("InitializeConnection", message((1, page_size), (2, shm_size), (3, name), (8, "v56.0")))
        self.commands = self.invoke("GetAsyncCommand")
        self.page_size, self.shm, self.by_ipc, self.next_page = page_size, None, False, 0
        self.buffer, self.instance = 0, 0

    def register(self, name, *fields):
        """Register a data source; fields are more (number, value) pairs of its descriptor."""
        self.call("RegisterDataSource", message((1, message((1, name), *fields))))

    def wait_command(self, kind):
        """Return the next command of this kind, without those before it. Note shared memory and instances."""
        while True:
            _, _, command = self.wait(self.commands)
            if command.has(SETUP_TRACING):
                self.page_size = command.message(SETUP_TRACING).number(1) * 1024
                self._map()
            for source in (SETUP_SOURCE, START_SOURCE):
                if command.has(source):
                    self.instance = command.message(source).number(1)
                    self.buffer = command.message(source).message(2).number(2)
            if command.has(kind):
                return command.message(kind)

    def _map(self):
        """Map the shared memory; without a descriptor, chunks are sent from memory of ours."""
        self.by_ipc = not self.descriptors
        if self.by_ipc:
            self.shm = bytearray(EMULATED_BYTES)
        else:
            fd = self.descriptors.pop(0)
            self.shm = mmap.mmap(fd, os.fstat(fd).st_size)
            os.close(fd)

    def write_page(self, chunks, layout=1, state=COMPLETE):
        """Write chunks into a page: (writer, chunk id, fragments, flags) each. Return the page's ChunksToMove."""
        page, count = self.next_page, CHUNKS_OF_LAYOUT[layout]
        self.next_page += 1
        size = (self.page_size - PAGE_HEADER) // count & ~3
        word = layout << 28
        for index, (writer, chunk_id, fragments, flags) in enumerate(chunks):
            at = page * self.page_size + PAGE_HEADER + index * size
            payload = b"".join(four_byte_size(len(part)) + part for part in fragments)
            if len(payload) > size - CHUNK_HEADER:
                raise ValueError(f"{len(payload)} bytes in a chunk of {size}")
            header = struct.pack("<IHH", chunk_id, writer, len(fragments) | flags << COUNT_BITS)
            self.shm[at : at + CHUNK_HEADER + len(payload)] = header + payload
            word |= state << 2 * index
        self.shm[page * self.page_size : page * self.page_size + 4] = struct.pack("<I", word)
        return [(page, index) for index in range(len(chunks))]

    def page_data(self, page):
        """Return the only chunk of a page."""
        return bytes(self.shm[page * self.page_size + PAGE_HEADER : (page + 1) * self.page_size])

    def write(self, writer, chunk_id, fragments, flags=0):
        """Write one chunk into a page of its own and commit it."""
        self.commit(self.write_page([(writer, chunk_id, fragments, flags)]))

    def commit(self, chunks, patches=(), flush_id=None, buffer=None):
        """patches: (writer, chunk id, [(offset, bytes)], whether more follow)."""
        buffer = self.buffer if buffer is None else buffer
        moved = [
            (1, message((1, page), (2, index), (3, buffer), (4, self.page_data(page) if self.by_ipc else None)))
            for page, index in chunks
        ]
        patched = [
            (2, message(
                (1, buffer), (2, writer), (3, chunk_id),
                *((4, message((1, offset), (2, data))) for offset, data in parts), (5, more),
            ))
            for writer, chunk_id, parts, more in patches
        ]
        self.call("CommitData", message(*moved, *patched, (3, flush_id)))


class ConsumerClient(Client):
    def __init__(self, path):
        super().__init__(path, "ConsumerPort")

    def enable(self, config, descriptors=()):
        """Begin a session; return the call whose reply comes when tracing is disabled."""
        return self.invoke("EnableTracing", message((1, config)), descriptors)

    def read(self):
        """Return the packets of ReadBuffers."""
        request, packets, partial, more = self.invoke("ReadBuffers"), [], b"", True
        while more:
            _, more, reply = self.wait(request)
            for part in reply.messages(2):
                partial += part.bytes(1)
                if part.number(2):
                    packets.append(Message(partial))
                    partial = b""
        return packets


def four_byte_size(size):
    """Return a size as a varint of four bytes, so that it can be patched."""
    return bytes([size & 0x7F | 0x80, size >> 7 & 0x7F | 0x80, size >> 14 & 0x7F | 0x80, size >> 21])
