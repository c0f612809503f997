# SPDX-License-Identifier: Apache-2.0
"""Perfetto's trace packets, byte for byte: tests and benchmarks build and parse traces with this. It
shares no code with the tested programs."""

import struct


SMALL = [bytes([value]) for value in range(0x80)]


def varint(value):
    if 0 <= value < 0x80:
        return SMALL[value]
    out = bytearray()
    value &= (1 << 64) - 1
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def field(number, value):
    """Return a field: a number, or bytes, a message or a text with its length."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, str):
        value = value.encode()
    return varint(number << 3 | 2) + varint(len(value)) + value


def double(number, value):
    return varint(number << 3 | 1) + struct.pack("<d", value)


def fields(data):
    """Return (number, value) of each field of a message; bytes for fields with a length."""
    at = 0

    def number():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at, value, shift = at + 1, value | (byte & 0x7F) << shift, shift + 7
            if byte < 0x80:
                return value

    while at < len(data):
        key = number()
        if key & 7 not in (0, 2):
            raise ValueError(f"wire type {key & 7}")
        value = number()
        if key & 7 == 2:
            value, at = data[at:at + value], at + value
        yield key >> 3, value


def text(number, value):
    return field(number, value)


def packet(body, timestamp=0, sequence=0, flags=0, clock=0):
    """Return a TracePacket with this body, as an entry of the file."""
    head = field(8, timestamp) if timestamp else b""
    head += field(58, clock) if clock else b""
    head += field(10, sequence) if sequence else b""
    head += field(13, flags) if flags else b""
    return field(1, head + body)


def snapshot(readings, primary=0, sequence=0):
    """Return a ClockSnapshot: {clock: reading} or {clock: (reading, unit in ns, incremental)}."""
    body = b""
    for clock, reading in readings.items():
        value, unit, incremental = reading if isinstance(reading, tuple) else (reading, 0, 0)
        entry = field(1, clock) + field(2, value) + (field(3, 1) if incremental else b"")
        body += field(1, entry + (field(4, unit) if unit else b""))
    return packet(field(6, body + (field(2, primary) if primary else b"")), sequence=sequence)


def clocks(coarse, boottime):
    """Return a ClockSnapshot of the two clocks that give a dump its time."""
    return snapshot({4: coarse, 6: boottime})


def process_tree(processes, threads=()):
    """processes: (pid, parent, arguments) or (pid, parent, arguments, uid); threads: (tid, tgid, name)."""
    tree = b""
    for pid, parent, arguments, *uid in processes:
        entry = field(1, pid) + field(2, parent) + b"".join(text(3, a) for a in arguments)
        tree += field(1, entry + (field(5, uid[0]) if uid else b""))
    for tid, tgid, name in threads:
        tree += field(2, field(1, tid) + text(2, name) + field(3, tgid))
    return packet(field(2, tree))


def string(iid, value):
    return field(1, iid) + field(2, value if isinstance(value, bytes) else value.encode())


def mapping(iid, build_id, start, end, path, exact_offset=0, start_offset=0, load_bias=0):
    body = field(1, iid) + (field(2, build_id) if build_id else b"") + field(3, start_offset)
    body += field(4, start) + field(5, end) + field(6, load_bias)
    return body + b"".join(field(7, part) for part in path) + field(8, exact_offset)


def frame(iid, mapping_id, rel_pc, name):
    return field(1, iid) + field(2, name) + field(3, mapping_id) + field(4, rel_pc)


def callstack(iid, frames):
    return field(1, iid) + b"".join(field(2, f) for f in frames)


def interned(names=None, paths=None, build_ids=None, mappings=(), frames=(), stacks=None):
    """InternedData of a packet. mappings: (iid, build_id, start, end, path ids)."""
    body = b"".join(field(5, string(i, v)) for i, v in (names or {}).items())
    body += b"".join(field(16, string(i, v)) for i, v in (build_ids or {}).items())
    body += b"".join(field(17, string(i, v)) for i, v in (paths or {}).items())
    body += b"".join(field(19, mapping(*m)) for m in mappings)
    body += b"".join(field(6, frame(*f)) for f in frames)
    body += b"".join(field(7, callstack(i, f)) for i, f in (stacks or {}).items())
    return field(12, body)


def sample(stack, allocated=0, freed=0, count=0, free_count=0, maximum=None, maximum_count=None):
    body = field(1, stack)
    if maximum is not None:
        body += field(8, maximum)
        return body + (field(9, maximum_count) if maximum_count is not None else b"")
    return body + field(2, allocated) + field(3, freed) + field(5, count) + field(6, free_count)


def heap_samples(pid, samples, timestamp=0, heap="libc.malloc", extra=b""):
    body = field(1, pid) + b"".join(field(2, s) for s in samples)
    body += field(9, timestamp) if timestamp else b""
    return field(5, body + (text(11, heap) if heap else b"") + extra)


def profile_packet(dumps, index=None, continued=False, tables=b""):
    body = tables + b"".join(dumps)
    body += field(6, 1) if continued else b""
    return field(37, body + (field(7, index) if index is not None else b""))


def module_symbols(path, build_id, addresses):
    """addresses: {rel_pc: [(function, file, line), ...]}, the innermost first."""
    body = text(1, path) + field(2, build_id)
    for address, lines in addresses.items():
        entry = field(1, address)
        for function, source, line in lines:
            entry += field(2, text(1, function) + (text(2, source) if source else b"")
                           + (field(3, line) if line else b""))
        body += field(3, entry)
    return packet(field(61, body))


def deobfuscation(package, classes):
    """classes: {obfuscated: (name, {obfuscated member: name})}."""
    body = text(1, package)
    for obfuscated, (name, members) in classes.items():
        entry = text(1, obfuscated) + text(2, name)
        for member, original in members.items():
            entry += field(4, text(1, member) + text(2, original))
        body += field(3, entry)
    return packet(field(64, body))


def smaps(pid, timestamp, entries):
    """entries: (path, size, private dirty, swap), in kB."""
    body = field(1, pid)
    for path, size, dirty, swap in entries:
        body += field(2, text(1, path) + field(2, size) + field(3, dirty) + field(4, swap))
    return packet(field(68, body), timestamp=timestamp)


def memory_snapshot(pid, timestamp, parts, figures):
    """parts: {kind: (resident, swapped, mapped, mappings)}; figures: other fields by their numbers."""
    body = field(1, pid)
    for kind, values in parts.items():
        body += field(2, field(1, kind) + b"".join(field(i + 2, v) for i, v in enumerate(values)))
    body += b"".join((double if isinstance(v, float) else field)(number, v) for number, v in figures.items())
    return packet(field(5001, body), timestamp=timestamp)
