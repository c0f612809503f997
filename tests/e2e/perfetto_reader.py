# SPDX-License-Identifier: Apache-2.0
"""What Perfetto's trace processor makes of heap dumps: the sums of its table heap_profile_allocation.

A model of it (as of its version 58), because few machines have it. A dump's counters are cumulative, so it enters
their differences from the last ones of the same callsite. It keeps those with the state of the packets' sequence:
SEQ_INCREMENTAL_STATE_CLEARED makes it forget them, a lost packet does not. After a loss, or before the first clear,
it skips packets that need the state, and all InternedData. A ProfilePacket may have tables of its own, which end
with the first packet that is not continued.
"""

import json
import time

from daemon import check_figure, report_of
from harness import TOOL, check, run
from tracing_service.wire import Message

INTERNED_DATA, FLAGS, SEQUENCE, PROFILE, CLEARED_OLD, DROPPED = 12, 13, 10, 37, 41, 42
CLEARED, NEEDED = 1, 2
STRINGS, FRAMES, CALLSTACKS, MAPPINGS = 1, 2, 3, 4  # of a ProfilePacket
OF_INTERNED = {FRAMES: 6, CALLSTACKS: 7, MAPPINGS: 19}
BUILD_IDS, PATHS, NAMES = 16, 17, 5  # of InternedData


class Lost(Exception):
    """An id that the reader does not know."""


class State:
    """What ends when the sequence's state is cleared."""

    def __init__(self):
        self.interned, self.tables, self.pending = {}, {}, []
        self.last, self.seen, self.corrections = {}, {}, {}
        self.tables[STRINGS] = {0: b""}

    def intern(self, data):
        for number in (BUILD_IDS, PATHS, NAMES, *OF_INTERNED.values()):
            for entry in data.messages(number):
                self.interned.setdefault(number, {})[entry.number(1)] = entry

    def take_tables(self, packet):
        for entry in packet.messages(STRINGS):
            self.tables.setdefault(STRINGS, {})[entry.number(1)] = entry.bytes(2)
        for number in (MAPPINGS, FRAMES, CALLSTACKS):
            for entry in packet.messages(number):
                try:
                    found = getattr(self, f"table_{number}")(entry)
                except KeyError:
                    continue
                self.tables.setdefault(number, {})[entry.number(1)] = found

    # An entry of a ProfilePacket's tables is read at once: what it refers to must be there.

    def table_4(self, entry):
        strings = self.tables[STRINGS]
        return ("shared", strings[entry.number(2)], tuple(strings[i] for i in entry.numbers(7)), entry.number(4),
                entry.number(5), entry.number(6), entry.number(8))

    def table_2(self, entry):
        return self.tables[MAPPINGS][entry.number(3)], entry.number(4), self.tables[STRINGS][entry.number(2)]

    def table_3(self, entry):
        return tuple(self.tables[FRAMES][i] for i in entry.numbers(2))

    # Entries of InternedData are looked up when they are used.

    def entry(self, number, iid):
        found = self.interned.get(number, {}).get(iid)
        if found is None:
            raise Lost
        return found

    def string(self, number, iid):
        return self.entry(number, iid).bytes(2) if iid else b""

    def mapping(self, pid, iid):
        if not iid:
            return "none"
        entry = self.entry(19, iid)
        if entry.number(4) < entry.number(5):
            return "of a process", pid, id(self), iid
        return ("shared", self.string(BUILD_IDS, entry.number(2)), tuple(self.string(PATHS, i) for i in entry.numbers(7)),
                entry.number(4), entry.number(5), entry.number(6), entry.number(8))

    def callstack(self, pid, iid):
        known = self.tables.get(CALLSTACKS, {}).get(iid)
        if known is not None:
            return known
        frames = [self.entry(6, i) for i in self.entry(7, iid).numbers(2)]
        return tuple((self.mapping(pid, f.number(3)), f.number(4), self.string(NAMES, f.number(2))) for f in frames)


class PerfettoReader:
    """Reads packets; then `sums` has [allocations, bytes, live allocations, live bytes] of each (pid, heap)."""

    def __init__(self, packets):
        self.sums, self.unknown, self.decreasing, self.skipped = {}, 0, 0, 0
        self.sequences = {}
        for packet in packets:
            self.take(Message(packet) if isinstance(packet, bytes) else packet)

    def take(self, packet):
        sequence = packet.number(SEQUENCE)
        state, valid = self.sequences.get(sequence, (State(), False))
        flags = packet.number(FLAGS)
        if flags & CLEARED or packet.number(CLEARED_OLD):
            state, valid = State(), True
        elif packet.number(DROPPED):
            valid = False
        self.sequences[sequence] = state, valid
        if flags & NEEDED and not valid:
            self.skipped += packet.has(PROFILE)
            return
        if packet.has(INTERNED_DATA) and valid:
            state.intern(packet.message(INTERNED_DATA))
        if packet.has(PROFILE):
            self.profile(state, packet.message(PROFILE))

    def profile(self, state, packet):
        state.take_tables(packet)
        for dump in packet.messages(5):
            for sample in dump.messages(2):
                state.pending.append((dump.number(1), dump.text(11), sample))
        if packet.number(6):
            return
        for pid, heap, sample in state.pending:
            try:
                self.add(state, pid, heap, sample)
            except Lost:
                self.unknown += 1
        state.pending, state.tables = [], {STRINGS: {}}

    def add(self, state, pid, heap, sample):
        iid = sample.number(1)
        key = pid, state.callstack(pid, iid)
        now = [sample.number(number) for number in (5, 2, 6, 3)]  # allocated count, bytes; freed count, bytes
        last = state.last.setdefault(key, [0, 0, 0, 0])
        if key not in state.seen.setdefault((pid, iid, heap), set()):
            state.seen[pid, iid, heap].add(key)
            state.corrections[iid] = last
        now = [value + more for value, more in zip(now, state.corrections[iid])]
        growth = [value - before for value, before in zip(now, last)]
        if min(growth) < 0:
            self.decreasing += 1
            return
        state.last[key] = now
        sums = self.sums.setdefault((pid, heap), [0, 0, 0, 0])
        for i, value in enumerate((growth[0], growth[1], growth[0] - growth[2], growth[1] - growth[3])):
            sums[i] += value


def check_readers(path, pid):
    """Check that our tools and Perfetto's have the true sums of allocate(): those of the process's own counters."""
    heaps = [heap for heap in report_of(path)["heaps"] if heap["pid"] == pid]
    check(len(heaps) == 1, f"{len(heaps)} heaps")
    sums = [round(sum(site[name]["estimate"] for site in heaps[0]["callsites"]))
            for name in ("alloc_objects", "alloc_space", "objects", "space")]
    exact = [heaps[0]["exact_calls"], heaps[0]["exact_bytes"]]
    check(sums[:2] == exact, f"ours: {sums}, not {exact}")
    check_figure(heaps[0], "hold_block", "space", 80000)
    query = run([TOOL, "query", "--json", path, "select sum(max(count, 0)), sum(max(size, 0)), sum(count), sum(size) "
                 "from heap_profile_allocation"])
    check(query.status == 0, f"query: {query.stderr!r}")
    check(list(json.loads(query.stdout)[0].values()) == sums, f"query: {query.stdout!r}, not {sums}")
    with open(path, "rb") as file:
        reader = PerfettoReader(Message(file.read()).all(1, bytes))
    check(reader.sums == {(pid, "libc.malloc"): sums}, f"Perfetto's: {reader.sums}, not {sums}")
    return reader


def allocate(process):
    """Let a commanded process hold 80 blocks of 1000 bytes, and free others, in several dumps of 50 ms."""
    for _ in range(8):
        process.tell("hold 10 1000")
        process.tell("churn 100 50")
        time.sleep(0.06)  # how many dumps come between does not matter
