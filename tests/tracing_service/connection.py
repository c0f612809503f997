# SPDX-License-Identifier: Apache-2.0
"""One connection to a port: frames in and out, binding, and the replies of methods."""

import array
import os
import socket
import struct

from .wire import Malformed, Message, frame, message, split_frames

REQUEST_ID = 2
BIND, BIND_REPLY, INVOKE, INVOKE_REPLY, REQUEST_ERROR = 3, 4, 5, 6, 7
UNKNOWN_FRAME = 99
MAX_DESCRIPTORS = 8


class Reply:
    """The answers to one call of a method. Without has_more, an answer is the last one."""

    def __init__(self, connection, request_id, method, wanted):
        self.connection, self.request_id, self.method = connection, request_id, method
        self.open = wanted

    def resolve(self, body=b"", has_more=False, descriptors=()):
        behaviour = self.connection.behaviour
        if not self.open or self.method in behaviour.ignore:
            return
        if self.method in behaviour.reject:
            self.reject()
            return
        if self.method in behaviour.refuse:
            self.open = False
            self.connection.send(self.request_id, REQUEST_ERROR, message((1, "not today")))
            return
        self.open = has_more
        body = behaviour.reply.get(self.method, body)
        endless = self.method in behaviour.endless
        self._send(body, has_more or endless, descriptors)
        if behaviour.replies_twice:
            self._send(body, has_more, descriptors)
        if endless and self.connection.sock:
            self.open = True
            self.connection.service.loop.later(1, lambda: self.resolve(body, True))

    def reject(self):
        if self.open:
            self.open = False
            self.connection.send(self.request_id, INVOKE_REPLY, message((1, False)))

    def _send(self, body, has_more, descriptors):
        reply = message((1, True), (2, has_more), (3, body))
        self.connection.send(self.request_id, INVOKE_REPLY, reply, descriptors)


class Connection:
    """A port's subclass has SERVICE_NAME, METHODS {name: function(self, arguments, reply)} and closed()."""

    SERVICE_NAME, METHODS = "", {}

    def __init__(self, service, sock, number):
        self.service, self.sock, self.behaviour = service, sock, service.behaviour
        credentials = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        self.pid, self.uid, _ = struct.unpack("3i", credentials)
        sock.setblocking(False)
        self.received, self.descriptors = bytearray(), []
        self.outgoing, self.sent_bytes, self.sent_frames = [], 0, 0
        self.cut_after = number if self.behaviour.cut_next else self.behaviour.cut_after
        self.reading = True
        self._watch()

    def send(self, request_id, kind, body, descriptors=()):
        """Send a frame of this kind."""
        behaviour = self.behaviour
        request_id += 1000000 if behaviour.wrong_request_ids else 0
        data = frame(message((REQUEST_ID, request_id), (kind, body)))
        if behaviour.unknown_frames:
            error = message((1, "unknown request"))
            self._queue(frame(message((REQUEST_ID, request_id), (UNKNOWN_FRAME, b"\0\1\2"))))
            self._queue(frame(message((REQUEST_ID, request_id + 1000000), (REQUEST_ERROR, error))))
        if behaviour.empty_frames:
            self._queue(frame(b""))
        if self.sent_frames == behaviour.frames_before:
            if behaviour.frame_length is not None:
                data = struct.pack("<I", behaviour.frame_length) + data[4:]
            if behaviour.garbage:
                data = frame(self.service.random.randbytes(len(data)))
        self.sent_frames += 1
        self._queue(data, descriptors)

    def _queue(self, data, descriptors=()):
        if not self.sock:
            return
        descriptors = [os.dup(fd) for fd in descriptors]
        if self.behaviour.byte_by_byte:
            pieces = [bytes([byte]) for byte in data]
        else:
            pieces = [data]
        self.outgoing += [(piece, [] if at else descriptors) for at, piece in enumerate(pieces)]
        self._write()

    def _write(self):
        while self.outgoing and self.sock:
            data, descriptors = self.outgoing[0]
            if self.cut_after is not None:
                data = data[: self.cut_after - self.sent_bytes]
            try:
                sent = self._send_some(data, descriptors) if data else 0
            except BlockingIOError:
                break
            except OSError:
                self.close()
                return
            self.sent_bytes += sent
            if self.sent_bytes == self.cut_after:
                self.service.note("cut", self.sent_bytes)
                self.close()
                return
            for fd in descriptors:
                os.close(fd)
            self.outgoing[0] = (self.outgoing[0][0][sent:], [])
            if not self.outgoing[0][0]:
                self.outgoing.pop(0)
        self._watch()

    def _send_some(self, data, descriptors):
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
        return self.sock.sendmsg([data], rights, socket.MSG_NOSIGNAL)

    def _watch(self):
        if self.sock:
            self.service.loop.watch(self.sock, self._read if self.reading else None,
                                    self._write if self.outgoing else None)

    def _read(self):
        room = 1 if self.behaviour.reads_slowly else 65536
        try:
            data, ancillary, _, _ = self.sock.recvmsg(room, socket.CMSG_SPACE(4 * MAX_DESCRIPTORS))
        except BlockingIOError:
            return
        except OSError:
            data, ancillary = b"", []
        for level, kind, value in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                descriptors = array.array("i")
                descriptors.frombytes(value[: len(value) - len(value) % 4])
                self.descriptors += descriptors
        if not data:
            self.close()
            return
        self.received += data
        try:
            for body in split_frames(self.received):
                self._handle(Message(body))
        except Malformed as error:
            self.service.note("malformed", str(error))
            self.close()

    def _handle(self, request):
        request_id = request.number(REQUEST_ID)
        if request.has(BIND):
            self._bind(request_id, request.message(BIND).text(1))
        elif request.has(INVOKE):
            self._invoke(request_id, request.message(INVOKE))
        else:
            self.send(request_id, REQUEST_ERROR, message((1, "unknown request")))

    def _bind(self, request_id, name):
        behaviour = self.behaviour
        if name != self.SERVICE_NAME or behaviour.bind_fails:
            self.send(request_id, BIND_REPLY, b"")
            return
        methods = [(method, number) for number, method in enumerate(self.METHODS, 1)]
        if behaviour.methods == "none":
            methods = []
        elif behaviour.methods in ("zero", "same"):
            methods = [(method, int(behaviour.methods == "same")) for method, _ in methods]
        elif behaviour.methods == "many":
            methods += [(f"Method{number}", number) for number in range(100, 3100)]
        entries = [(3, message((1, number), (2, method))) for method, number in methods]
        self.send(request_id, BIND_REPLY, message((1, True), (2, behaviour.service_id), *entries))
        self.service.note("bind", name)

    def _invoke(self, request_id, call):
        number, names = call.number(2), list(self.METHODS)
        known = call.number(1) == self.behaviour.service_id and 0 < number <= len(names)
        name = names[number - 1] if known else ""
        reply = Reply(self, request_id, name, wanted=not call.number(4))
        if not known:
            self.service.note("unknown method", number)
            reply.open = True  # This is answered even where no reply is wanted.
            reply.reject()
            return
        try:
            arguments = Message(call.bytes(3))
        except Malformed as error:
            self.service.note("malformed", f"{name}: {error}")
            reply.open = True
            reply.reject()
            return
        self.METHODS[name](self, arguments, reply)

    def take_descriptor(self):
        """Return the oldest descriptor that the peer sent, or None."""
        return self.descriptors.pop(0) if self.descriptors else None

    def stop_reading(self):
        self.reading = False
        self._watch()

    def close(self):
        """Close the connection, once."""
        if not self.sock:
            return
        self.service.loop.watch(self.sock, None)
        sock, self.sock = self.sock, None
        sock.close()
        for fd in self.descriptors + [fd for _, descriptors in self.outgoing for fd in descriptors]:
            os.close(fd)
        self.descriptors, self.outgoing = [], []
        self.service.connections.discard(self)
        self.service.note("disconnect", self.SERVICE_NAME)
        self.closed()

    def closed(self):
        raise NotImplementedError
