# SPDX-License-Identifier: Apache-2.0
"""Reads a raw-trace (Perfetto packets) without any of the project's code: a second opinion.

It reads only the parts of a heap profile that the tests check: processes, callsites, figures.
"""

import math
import struct

LOSSES = ("overrun", "reentrant", "no scratch", "no thread slot", "live set", "unwind", "abandoned",
          "free", "allocations",
          "allocated bytes", "scopes", "interpreter_state", "interpreter_unknown", "modules")


def read_varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def fields(data):
    """Return the (number, value) pairs of a message; bytes for length-delimited values."""
    at = 0
    while at < len(data):
        key, at = read_varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = read_varint(data, at)
        elif kind == 1:
            value, at = data[at : at + 8], at + 8
        elif kind == 2:
            length, at = read_varint(data, at)
            value, at = data[at : at + length], at + length
        elif kind == 5:
            value, at = data[at : at + 4], at + 4
        else:
            raise ValueError(f"wire type {kind} at offset {at}")
        yield key >> 3, value


def first(message, number, default=0):
    return next((value for n, value in fields(message) if n == number), default)


def double(value):
    return struct.unpack("<d", value)[0]


class Figures:
    """Estimates of one or several callsites: bytes and calls, allocated and live, with variances."""

    def __init__(self):
        self.alloc_space = self.alloc_objects = self.space = self.objects = 0.0
        self.variances = {name: 0.0 for name in ("alloc_space", "alloc_objects", "space", "objects")}
        self.samples = 0

    def margin(self, figure):
        """Return the half-width of the 95 % interval."""
        return 1.959963984540054 * math.sqrt(self.variances[figure])

    def add(self, other):
        for name in self.variances:
            setattr(self, name, getattr(self, name) + getattr(other, name))
            self.variances[name] += other.variances[name]
        self.samples += other.samples

    def __repr__(self):
        return f"({self.alloc_space} bytes in {self.alloc_objects} calls)"


class Frame:
    def __init__(self, name, path, rel_pc):
        self.name, self.path, self.rel_pc = name, path, rel_pc


class Process:
    """One heap of one process, at its last dump."""

    def __init__(self, pid):
        self.pid = pid
        self.stacks = {}  # callstack id: Figures
        self.lost = {}
        self.exact_bytes = self.exact_calls = 0
        self.samples = self.unwinding_errors = 0
        self.remark = ""
        self.flags = {}


class Trace:
    def __init__(self, path):
        self.strings, self.mappings, self.frames, self.callstacks = {}, {}, {}, {}
        self.processes, self.order = {}, []
        with open(path, "rb") as file:
            data = file.read()
        for number, packet in fields(data):
            if number == 1:
                self.read_packet(packet)

    def read_packet(self, packet):
        parts = list(fields(packet))
        for number, value in parts:
            if number == 12:
                self.read_interned(value)
        for number, value in parts:
            if number == 37:
                for part, message in fields(value):
                    if part == 5:
                        self.read_dump(message)

    def read_interned(self, data):
        # Read referenced entries before the entries that refer to them, whatever the order in the packet.
        order = (16, 17, 5, 19, 6, 7)
        parts = sorted((p for p in fields(data) if p[0] in order), key=lambda p: order.index(p[0]))
        for number, message in parts:
            if number in (16, 17, 5):
                self.strings[number, first(message, 1)] = first(message, 2, b"")
            elif number == 19:
                ids = [v for n, v in fields(message) if n == 7]
                parts = [self.strings.get((17, i), b"").decode() for i in ids]
                self.mappings[first(message, 1)] = "/" + "/".join(p.strip("/") for p in parts)
            elif number == 6:
                name = self.strings.get((5, first(message, 2)), b"").decode(errors="replace")
                path = self.mappings.get(first(message, 3), "")
                self.frames[first(message, 1)] = Frame(name, path, first(message, 4))
            elif number == 7:
                ids = []
                for n, value in fields(message):
                    if n == 2 and isinstance(value, int):
                        ids.append(value)
                    elif n == 2:
                        at = 0
                        while at < len(value):
                            one, at = read_varint(value, at)
                            ids.append(one)
                # Innermost first, as everywhere in these tests.
                self.callstacks[first(message, 1)] = [self.frames[i] for i in reversed(ids)]

    def read_dump(self, data):
        pid = first(data, 1)
        if pid not in self.processes:
            self.processes[pid] = Process(pid)
            self.order.append(pid)
        process = self.processes[pid]
        for number, value in fields(data):
            if number == 2:
                stack = first(value, 1)
                process.stacks[stack] = self.read_sample(value)
            elif number == 5000:
                process.exact_bytes = value
            elif number == 5001:
                process.exact_calls = value
            elif number == 5003:
                at, counts = 0, []
                while at < len(value):
                    one, at = read_varint(value, at)
                    counts.append(one)
                process.lost = {
                    LOSSES[i] if i < len(LOSSES) else str(i): n for i, n in enumerate(counts) if n
                }
            elif number == 5:
                process.unwinding_errors = first(value, 1)
                process.samples = first(value, 2)
            elif number == 5009:
                process.remark = value.decode(errors="replace")
            elif number in (6, 7, 8, 10, 14):
                process.flags[number] = value

    @staticmethod
    def read_sample(data):
        """Return a figure; `estimate` omits it if Perfetto's whole number is equal."""
        found = Figures()
        whole = {n: v for n, v in fields(data)}
        values = {n: v for n, v in fields(whole.get(5000, b""))}

        def get(number, stand_in=0):
            return double(values[number]) if number in values else float(whole.get(stand_in, 0))

        found.alloc_space, found.alloc_objects = get(1, 2), get(3, 5)
        found.space = found.alloc_space - get(2, 3)
        found.objects = found.alloc_objects - get(4, 6)
        found.variances = {
            "alloc_space": get(5),
            "alloc_objects": get(7),
            "space": max(0.0, get(5) - get(6)),
            "objects": max(0.0, get(7) - get(8)),
        }
        found.samples = values.get(9, 0)
        return found
