# SPDX-License-Identifier: Apache-2.0
"""Protobuf messages and IPC frames, as bytes.

A message is read strictly: what is cut or has an unknown wire type raises Malformed. Its fields are found by
number, and their raw bytes are kept, so that a configuration passes through the service with its unknown fields.
A frame is a length of 4 bytes, little-endian, and an IPCFrame.
"""

import struct

from perfetto_bytes import field

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
FIXED_SIZES = {FIXED64: 8, FIXED32: 4}

# Perfetto's limit is 128 KiB for a frame with its length.
MAX_FRAME = 128 * 1024 - 4


class Malformed(Exception):
    """A message that no protobuf parser accepts, or a frame above the limit."""


def read_varint(data, at):
    """Return the number at this offset, and the offset after it."""
    value = shift = 0
    while at < len(data) and shift < 64:
        byte = data[at]
        at, value, shift = at + 1, value | (byte & 0x7F) << shift, shift + 7
        if byte < 0x80:
            return value & (1 << 64) - 1, at
    raise Malformed(f"number at byte {at}")


def raw_fields(data):
    """Return (number, value, raw bytes with the key) of each field."""
    at = 0
    while at < len(data):
        start = at
        key, at = read_varint(data, at)
        kind = key & 7
        if not key >> 3:
            raise Malformed(f"field 0 at byte {start}")
        if kind == VARINT:
            value, at = read_varint(data, at)
        else:
            if kind == BYTES:
                size, at = read_varint(data, at)
            elif kind in FIXED_SIZES:
                size = FIXED_SIZES[kind]
            else:
                raise Malformed(f"wire type {kind} at byte {start}")
            if size > len(data) - at:
                raise Malformed(f"field {key >> 3} at byte {start} ends after the message")
            value, at = bytes(data[at : at + size]), at + size
        yield key >> 3, value, bytes(data[start:at])


class Message:
    """A parsed message. A field with another wire type than the expected one counts as absent."""

    def __init__(self, data=b""):
        self.data = bytes(data)
        self.entries = list(raw_fields(self.data))

    def all(self, number, kind):
        return [value for n, value, _ in self.entries if n == number and isinstance(value, kind)]

    def has(self, number):
        return any(n == number for n, _, _ in self.entries)

    def number(self, number, default=0):
        return (self.all(number, int) or [default])[-1]

    def numbers(self, number):
        return self.all(number, int)

    def bytes(self, number):
        return (self.all(number, bytes) or [b""])[-1]

    def text(self, number):
        return self.bytes(number).decode(errors="replace")

    def texts(self, number):
        return [value.decode(errors="replace") for value in self.all(number, bytes)]

    def message(self, number):
        return Message(self.bytes(number))

    def messages(self, number):
        return [Message(value) for value in self.all(number, bytes)]

    def without(self, *numbers):
        """Return the bytes of all other fields."""
        return b"".join(raw for n, _, raw in self.entries if n not in numbers)


def message(*fields):
    """Return a message of (number, value) pairs; None leaves a field out."""
    return b"".join(field(number, value) for number, value in fields if value is not None)


def frame(body):
    return struct.pack("<I", len(body)) + body


def split_frames(buffer):
    """Remove the complete frames from a bytearray and return their bodies."""
    bodies = []
    while len(buffer) >= 4:
        (size,) = struct.unpack_from("<I", buffer)
        if size > MAX_FRAME:
            raise Malformed(f"frame of {size} bytes")
        if len(buffer) < 4 + size:
            break
        bodies.append(bytes(buffer[4 : 4 + size]))
        del buffer[: 4 + size]
    return bodies
