#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""query.py CASE: heap_profile query on constructed traces gives the rows that the documentation of the fields
requires, and agrees with the other tools on the same trace."""

import contextlib
import csv
import io
import json
import math
import os
import re
import shutil
import subprocess
import tempfile
import zlib

from harness import BUILD, TOOL, check, main
from perfetto_bytes import (
    callstack, clocks, snapshot, deobfuscation, double, field, fields, frame, heap_samples, interned, mapping, memory_snapshot, module_symbols,
    packet, process_tree, profile_packet, sample, smaps, string, text, varint,
)

directory = tempfile.TemporaryDirectory()


def write(*packets, name="trace"):
    path = os.path.join(directory.name, name)
    with open(path, "wb") as out:
        out.write(b"".join(packets))
    return path


def ask(trace, sql, *options, status=0, stdin=""):
    """Return standard output and error of a query."""
    traces = trace if isinstance(trace, list) else [trace]
    arguments = [sql] if sql is not None else []
    done = subprocess.run([TOOL, "query", *traces, *arguments, *options], input=stdin,
                          capture_output=True, text=True, timeout=180)
    check(done.returncode == status, f"{sql}: status {done.returncode}: {done.stderr}")
    return done.stdout, done.stderr


def rows(trace, sql):
    out, _ = ask(trace, sql, "--jsonl")
    return [tuple(json.loads(line).values()) for line in out.splitlines()]


def expect(trace, sql, wanted):
    got = rows(trace, sql)
    check(got == wanted, f"{sql}\n  gave   {got}\n  wanted {wanted}")


def names(*given):
    return {i + 1: name for i, name in enumerate(given)}


def usual(stacks=None, **more):
    """Return interned data: mapping 1 (/lib/libc.so), frames 1 malloc, 2 main, 3 _Z3foov."""
    return interned(
        names=names("malloc", "main", "_Z3foov"),
        paths=names("lib", "libc.so"),
        build_ids={1: b"\xde\xad"},
        mappings=[(1, 1, 0x1000, 0x2000, [1, 2], 0x10, 0x20, 0x30)],
        frames=[(1, 1, 0x100, 1), (2, 1, 0x200, 2), (3, 1, 0x300, 3)],
        stacks=stacks or {1: [2, 1], 2: [2, 3, 1]},
        **more,
    )


ALLOCATIONS = "select id, ts, upid, heap_name, callsite_id, count, size from heap_profile_allocation"


def two_dumps(heap="libc.malloc", sequence=1, extra=b""):
    """Return a trace: callstack 1 in both dumps, 2 in the second; the clocks differ by 100."""
    return (
        packet(usual(), timestamp=5, sequence=sequence, flags=1)
        + packet(profile_packet(
            [heap_samples(7, [sample(1, 100, 40, 10, 4)], 1000, heap, extra)], 0),
            timestamp=9, sequence=sequence)
        + packet(profile_packet(
            [heap_samples(7, [sample(1, 150, 40, 15, 4), sample(2, 8, 0, 1, 0)], 2000, heap, extra)], 1),
            timestamp=9, sequence=sequence)
    )


HEAD = clocks(1000, 1100) + process_tree([(7, 3, ["/bin/prog", "a b"], 5)], [(8, 7, "worker")])


def test_tables():
    trace = write(HEAD, two_dumps())
    expect(trace, "select * from process", [
        (0, 0, 0, None, None, None, None, None, None),
        (1, 1, 3, None, None, None, None, None, None),
        (2, 2, 7, "/bin/prog", "/bin/prog a b", 5, None, 1, None),
    ])
    expect(trace, "select * from thread", [
        (0, 0, 0, "swapper", 0, None, None, 1), (1, 1, 3, None, 1, None, None, 1),
        (2, 2, 7, None, 2, None, None, 1), (3, 3, 8, "worker", 2, None, None, 0),
    ])
    expect(trace, "select * from stack_profile_mapping",
           [(0, "dead", 0x10, 0x20, 0x1000, 0x2000, 0x30, "/lib/libc.so")])
    expect(trace, "select * from stack_profile_frame", [
        (0, "main", 0, 0x200, None, None, None), (1, "malloc", 0, 0x100, None, None, None),
        (2, "_Z3foov", 0, 0x300, None, None, None),
    ])
    expect(trace, "select * from stack_profile_callsite",
           [(0, 0, None, 0), (1, 1, 0, 1), (2, 1, 0, 2), (3, 2, 2, 1)])
    expect(trace, ALLOCATIONS, [
        (0, 1100, 2, "libc.malloc", 1, 10, 100), (1, 1100, 2, "libc.malloc", 1, -4, -40),
        (2, 2100, 2, "libc.malloc", 1, 5, 50), (3, 2100, 2, "libc.malloc", 3, 1, 8),
    ])
    expect(trace, "select * from heap_profile",
           [(0, 1100, 1100, 0, 2, "libc.malloc"), (1, 2100, 2100, 0, 2, "libc.malloc")])
    expect(trace, "select name, idx, value from stats where severity = 'error'", [
        ("heapprofd_missing_packet", None, 0), ("heapprofd_non_finalized_profile", None, 0),
        ("symbolization_tmp_build_id_not_found", None, 0), ("hp_damaged_packet", None, 0),
    ])


def test_upids():
    """Processes and threads are numbered in the order of time: in trees, dumps, smaps and counters."""
    def tree(timestamp, processes, threads=()):
        body = b"".join(field(1, entry) for entry in processes)
        return packet(field(2, body + b"".join(field(2, field(1, t) + field(3, p) + text(2, n)) for t, p, n in threads)),
                      timestamp=timestamp)

    def process(pid, parent, *arguments, extra=b""):
        return field(1, pid) + field(2, parent) + b"".join(text(3, a) for a in arguments) + extra

    ask_all = "select pid, name, cmdline, uid, start_ts, parent_upid from process"
    dump = packet(usual(), timestamp=50, sequence=1, flags=1) + packet(
        profile_packet([heap_samples(7, [sample(1, 1, 0, 1, 0)], 60)], 0), timestamp=60, sequence=1)
    named = tree(70, [process(7, 3, "/bin/prog arg", extra=field(5, 4294967295) + field(7, 33))],
                 [(9, 7, "worker"), (7, 7, "prog")])
    trace = write(snapshot({4: 0, 6: 1}), dump, named)
    expect(trace, ask_all, [(0, None, None, None, None, None), (7, "/bin/prog", "/bin/prog arg", 4294967295, 33, 2),
                            (3, None, None, None, None, None)])
    expect(trace, "select utid, tid, name, upid from thread",
           [(0, 0, "swapper", 0), (1, 7, "prog", 1), (2, 3, None, 2), (3, 9, "worker", 1)])
    # By time, whatever the order in the file. Processes without a command line, or only in packets of ours, come last.
    ours = packet(field(5002, field(1, 99) + field(2, 1)), timestamp=1)
    early = tree(40, [process(6, 5, "first"), process(8, 1)])
    counter = packet(field(9, field(1, field(1, 12) + field(3, 40))), timestamp=45)
    trace = write(snapshot({4: 0, 6: 1}), ours, dump, smaps(11, 55, [("/x", 1, 1, 1)]), named, counter, early)
    got = [row[0] for row in rows(trace, "select pid from process")]
    check(got[:8] == [0, 5, 6, 12, 11, 7, 3, 99] and set(got[8:]) == {8}, f"pids {got}")
    # A process that executes another program keeps its row and its first parent, and has the last name.
    trace = write(snapshot({4: 0, 6: 1}), tree(10, [process(7, 3, "sh")]), dump, tree(80, [process(7, 4, "/bin/jq", "-r")]))
    expect(trace, ask_all, [(0, None, None, None, None, None), (3, None, None, None, None, None),
                            (7, "/bin/jq", "/bin/jq -r", None, None, 1), (4, None, None, None, None, None)])
    comm = process(7, 2, "kworker", extra=field(9, 1))
    expect(write(tree(10, [comm])), "select name from thread where tid = 7", [("kworker",)])


def test_counters():
    """Counters of processes, of the machine and of track events have their tracks and values, by time."""
    def track(uuid, parent, *more):
        return packet(field(60, field(1, uuid) + field(5, parent) + b"".join(more)), timestamp=1)

    def event(timestamp, uuid, value):
        return packet(field(11, field(9, 4) + field(11, uuid) + value), timestamp=timestamp)

    stats = packet(field(9, field(1, field(1, 7) + field(3, 40) + field(10, (1 << 64) - 5) + field(5000, 9))), timestamp=30)
    machine = packet(field(7, field(1, field(1, 3) + field(2, 2)) + field(2, field(1, 50) + field(2, 8)) +
                           field(14, field(1, 5) + field(2, 6)) + field(1, field(1, 999) + field(2, 2))), timestamp=20)
    counter, steps = text(2, "faults") + field(8, field(3, 2)), text(2, "steps") + field(8, field(4, 10) + field(5, 1))
    # A circle of parents, a track without a counter, and an event before its track.
    odd = track(90, 91, text(2, "odd"), field(8, b"")) + track(91, 90) + event(60, 91, field(30, 1)) + event(60, 95, field(30, 1))
    tracks = track(70, 0, field(3, field(1, 7))) + track(71, 70, counter) + track(72, 71, steps)
    values = (event(50, 71, field(30, 9)) + event(40, 71, field(30, 4)) + event(41, 72, field(30, 2)) +
              event(42, 72, field(30, 3)) + event(61, 90, double(44, 0.5)))
    trace = write(snapshot({6: 1}), stats, machine, tracks, odd, values)
    expect(trace, "select ts, name, type, unit, value from counter join counter_track on counter_track.id = track_id", [
        (20, "MemAvailable", "meminfo", "bytes", 2048), (20, "pgmajfault", "vmstat", None, 8), (20, "psi.mem.some", "psi", None, 6),
        (30, "mem.rss", "process_memory", None, 40960), (30, "oom_score_adj", "oom_score_adj", None, -5),
        (40, "faults", "process_counter_track_event", "count", 4), (41, "steps", "process_counter_track_event", None, 20),
        (42, "steps", "process_counter_track_event", None, 50), (50, "faults", "process_counter_track_event", "count", 9),
        (61, "odd", "global_counter_track_event", None, 0.5),
    ])
    expect(trace, "select t.name, pid from process_counter_track t join process using (upid) order by 1",
           [("faults", 7), ("mem.rss", 7), ("oom_score_adj", 7), ("steps", 7)])


def test_lifetimes():
    """Threads have their starts and ends, and the end of a main thread is that of its process."""
    def state(timestamp, tid, number):
        return packet(field(117, field(3, tid) + field(4, number)), timestamp=timestamp)

    names = packet(field(2, field(1, field(1, 7) + text(3, "prog")) +
                         b"".join(field(2, field(1, tid) + field(3, 7)) for tid in (7, 8, 9))), timestamp=20)
    trace = write(snapshot({6: 1}), names, state(50, 7, 8), state(10, 8, 1), state(40, 8, 8), state(45, 9, 3), state(46, 99, 8))
    expect(trace, "select tid, start_ts, end_ts from thread where upid > 0 and tid > 0",
           [(7, None, 50), (8, 10, 40), (9, None, None)])
    expect(trace, "select pid, end_ts from process where pid = 7", [(7, 50)])


def test_finding_rows():
    """Rows are found by id, by an indexed column, in an order, and by values that no row has."""
    trace = write(HEAD, two_dumps())
    expect(trace, "select id from stack_profile_callsite where id = 2", [(2,)])
    expect(trace, "select id from stack_profile_callsite where id in (3, 1, 9, -1, null)",
           [(1,), (3,)])
    expect(trace, "select id from stack_profile_callsite where id = 2.5 or id = 'x'", [])
    expect(trace, "select id from stack_profile_callsite where parent_id = 0", [(1,), (2,)])
    expect(trace, "select id from stack_profile_callsite where parent_id is null", [(0,)])
    expect(trace, "select id from stack_profile_callsite order by id desc limit 1", [(3,)])
    expect(trace, "select count(*) from heap_profile_allocation where callsite_id = 1", [(3,)])
    expect(trace, "with recursive up(id) as (select 3 union all select parent_id from up join "
           "stack_profile_callsite using (id) where parent_id is not null) "
           "select group_concat(id) from up", [("3,2,0",)])


def test_finding_dumps():
    """Rows are found by columns that are equal in a dump: with several heaps, empty dumps, several traces."""
    later = packet(profile_packet([heap_samples(7, [], 3000), heap_samples(9, [], 3000)], 3), timestamp=9, sequence=1)
    pool = packet(profile_packet([heap_samples(9, [sample(1, 5, 2, 1, 1)], 2000, "pool")], 2), timestamp=9, sequence=1)
    trace = write(HEAD, two_dumps(), pool, later)
    all_rows = "select id, ts, upid, heap_name, size from heap_profile_allocation"
    every = rows(trace, all_rows)
    check(len(every) == 6, f"rows {every}")
    for column, values in (("ts", (0, 1100, 2100, 3100, "'x'", 2100.5)), ("upid", (0, 2, 3, 99)),
                           ("callsite_id", (0, 1, 3))):
        for value in values:
            # `+column` hides the constraint from the table.
            expect(trace, f"{all_rows} where {column} = {value}", rows(trace, f"{all_rows} where +{column} = {value}"))
    expect(trace, f"{all_rows} where ts = 2100 and upid = 3", [row for row in every if row[1:3] == (2100, 3)])
    expect([trace, trace], "select trace_id, count(*) from heap_profile_allocation where ts = 2100 group by 1",
           [(0, 4), (1, 4)])
    expect([trace, trace], "select id, upid from heap_profile_allocation where ts = 1100 and trace_id = 1",
           [(6, 6), (7, 6)])
    for table in ("hp_callsite_stats", "hp_part"):
        for column in ("dump_id", "ts", "upid"):
            expect(trace, f"select t.dump_id, t.callsite_id from {table} t join heap_profile p on t.{column} = "
                   f"p.{dict(dump_id='id', ts='ts_end', upid='upid')[column]}",
                   rows(trace, f"select t.dump_id, t.callsite_id from heap_profile p join {table} t on +t.{column} = "
                        f"p.{dict(dump_id='id', ts='ts_end', upid='upid')[column]}"))
    check(rows(trace, "select count(*) from hp_callsite_stats where dump_id = 2") == [(1,)], "hp_callsite_stats")


def test_seed_queries():
    """The statements of Perfetto's documentation work, unchanged except for their numbers."""
    trace = write(HEAD, two_dumps())
    expect(trace, "select c.id, c.depth, f.name, f.rel_pc, m.build_id, m.name as file from "
           "stack_profile_callsite c join stack_profile_frame f on c.frame_id = f.id "
           "join stack_profile_mapping m on f.mapping = m.id where c.id = 1",
           [(1, 1, "malloc", 0x100, "dead", "/lib/libc.so")])
    wanted = [("main", "/lib/libc.so", 118), ("malloc", "/lib/libc.so", 110),
              ("_Z3foov", "/lib/libc.so", 8), ("malloc", "/lib/libc.so", 8)]
    select = "select name, map_name, cumulative_size from experimental_flamegraph"
    order = " order by abs(cumulative_size) desc, id"
    expect(trace, f"{select}(2100, 2, 'native'){order}", wanted)
    expect(trace, f"{select}('native', 2100, NULL, 2, NULL, NULL){order}", wanted)
    expect(trace, f"{select} where ts = 2100 and upid = 2 and profile_type = 'native'{order}", wanted)
    expect(trace, f"{select}(1100, 2, 'native'){order} limit 1", [("main", "/lib/libc.so", 60)])
    expect(trace, "select id, depth, name, parent_id, count, cumulative_count, size, alloc_size, "
           "cumulative_alloc_size, alloc_count, cumulative_alloc_count, source_file, line_number "
           "from experimental_flamegraph(2100, 2, 'native')", [
               (0, 0, "main", None, 0, 12, 0, 0, 158, 0, 16, None, None),
               (1, 1, "malloc", 0, 11, 11, 110, 150, 150, 15, 15, None, None),
               (2, 1, "_Z3foov", 0, 0, 1, 0, 0, 8, 0, 1, None, None),
               (3, 2, "malloc", 2, 1, 1, 8, 8, 8, 1, 1, None, None)])
    expect(trace, "select name, cumulative_size from "
           "experimental_flamegraph('native', 2100, NULL, 2, NULL, 'FOO')",
           [("main", 8), ("_Z3foov", 8), ("malloc", 8)])
    expect(trace, "INCLUDE PERFETTO MODULE android.memory.heap_profile.summary_tree;\n"
           "select * from android_heap_profile_summary_tree", [
               (0, None, "main", "/lib/libc.so", None, None, 0, 118, 0, 158),
               (1, 0, "malloc", "/lib/libc.so", None, None, 110, 110, 150, 150),
               (2, 0, "foo()", "/lib/libc.so", None, None, 0, 8, 0, 8),
               (3, 2, "malloc", "/lib/libc.so", None, None, 8, 8, 8, 8)])
    expect(trace, "select demangle('_ZN1a1bEv'), demangle('plain'), demangle(null)",
           [("a::b()", None, None)])


def test_android_10():
    """Strings, mappings, frames and stacks may be in the ProfilePacket itself, and the heap may have no name."""
    own = b"".join(field(1, string(i, v)) for i, v in names("malloc", "main", "lib", "libc.so").items())
    own += field(4, mapping(1, 0, 0x1000, 0x2000, [3, 4]))
    own += field(2, frame(1, 1, 1, 1)) + field(2, frame(2, 1, 2, 2)) + field(3, callstack(1, [2, 1]))
    trace = write(HEAD, packet(profile_packet(
        [heap_samples(7, [sample(1, 10, 3, 2, 1)], 1000, heap="")], 0, tables=own),
        timestamp=1, sequence=1))
    expect(trace, ALLOCATIONS, [(0, 1100, 2, "unknown", 1, 2, 10),
                                (1, 1100, 2, "unknown", 1, -1, -3)])
    expect(trace, "select heap_name from heap_profile", [(None,)])
    # Entries of the packet's own tables are numbered in their order.
    expect(trace, "select f.name, m.name as file from stack_profile_frame f join stack_profile_mapping m "
           "on f.mapping = m.id", [("malloc", "/lib/libc.so"), ("main", "/lib/libc.so")])


TIMES = "select ts, ts_end, dur from heap_profile"


def dumps_at(*times, start=None, **more):
    """Return a packet of stacks, and a packet with a dump for each time."""
    out = packet(usual(), timestamp=9, sequence=1, flags=1)
    for i, time in enumerate(times):
        begin = field(15, start[i]) if start else b""
        out += packet(profile_packet([heap_samples(7, [sample(1, 100 * (i + 1), 0, i + 1, 0)], time, extra=begin)], i),
                      timestamp=9, sequence=1, **more)
    return out


def test_clock_snapshots():
    """Dumps use CLOCK_MONOTONIC_COARSE; tables use trace time, by the latest snapshot at or before."""
    tree = process_tree([(7, 3, ["/bin/prog"])])
    one = snapshot({6: 0, 4: 10})
    expect(write(one, tree, dumps_at(30)), TIMES, [(20, 20, 0)])
    expect(write(one, tree, dumps_at(0)), TIMES, [(-10, -10, 0)])
    expect(write(one, tree, dumps_at(0)), "select ts, size from heap_profile_allocation", [(-10, 100)])
    expect(write(one, tree, dumps_at(0)), "select name, size from experimental_flamegraph(-10, 2, 'native')",
           [("main", 0), ("malloc", 100)])
    expect(write(one, tree, dumps_at(30, start=[15])), TIMES, [(5, 20, 15)])
    # A snapshot after the dumps converts their times, too; each dump uses the snapshot before it.
    three = [snapshot({4: 100, 6: 1100}), snapshot({4: 200, 6: 1250}), snapshot({4: 300, 6: 1400})]
    times = (50, 100, 199, 200, 299, 1000)
    wanted = [(1050,), (1100,), (1199,), (1250,), (1349,), (2100,)]
    for trace in (write(*three, tree, dumps_at(*times)), write(tree, dumps_at(*times), *three)):
        expect(trace, "select ts_end from heap_profile", wanted)
    # The trace's clock is the snapshot's primary one.
    expect(write(snapshot({4: 10, 6: 1000, 3: 500}, primary=3), tree, dumps_at(30)), TIMES, [(520, 520, 0)])
    # Without a snapshot that has both clocks, times are not converted.
    expect(write(tree, dumps_at(30)), TIMES, [(30, 30, 0)])
    expect(write(snapshot({6: 1000}), snapshot({4: 10}), tree, dumps_at(30)), TIMES, [(30, 30, 0)])
    expect(write(snapshot({1: 5000, 6: 1000}), tree), "select boottime_to_realtime_ns from hp_trace", [(4000,)])


def test_packet_clocks():
    """A packet's own time is in the units of its clock, or of its sequence's clock."""
    one = smaps(2, 30, [("/lib/libc.so", 20, 4, 4)])
    ask_ts = "select ts from profiler_smaps"

    def at(timestamp, clock=0, sequence=0):
        body = field(68, field(1, 2) + field(2, text(1, "/x") + field(2, 1)))
        return packet(body, timestamp=timestamp, sequence=sequence, clock=clock)

    head = snapshot({6: 1000, 3: 100, 4: 90})
    defaults = packet(field(59, field(58, 3)), sequence=5, flags=1)
    expect(write(head, one), ask_ts, [(30,)])
    expect(write(head, at(130, 3)), ask_ts, [(1030,)])
    expect(write(at(130, 3), head), ask_ts, [(1030,)])
    expect(write(at(130, 3)), ask_ts, [(130,)])
    expect(write(head, defaults, at(130, sequence=5), at(130, sequence=6), at(130, 6, sequence=5)), ask_ts,
           [(1030,), (130,), (130,)])
    # A sequence's defaults are valid until its state is cleared.
    expect(write(head, defaults, packet(b"", sequence=5, flags=1), at(130, sequence=5)), ask_ts, [(130,)])
    # A sequence's own clock, in microseconds, and one with incremental time stamps.
    own = snapshot({64: (7, 1000, 0), 6: 50000}, sequence=5)
    expect(write(own, at(9, 64, 5), at(9, 64, 6)), ask_ts, [(52000,), (9,)])
    steps = snapshot({65: (7, 1, 1), 6: 50000}, sequence=5)
    expect(write(steps, at(3, 65, 5), at(4, 65, 5)), ask_ts, [(50003,), (50007,)])


def test_windows():
    """A dump covers the time from its own start; a dump that starts at the end of the last one continues its heap."""
    tree = process_tree([(7, 3, ["/bin/prog"])])
    trace = write(snapshot({6: 0, 4: 0}), tree, dumps_at(20, 40, 60, start=[10, 20, 40]))
    expect(trace, TIMES, [(10, 20, 10), (20, 40, 20), (40, 60, 20)])
    expect(trace, "select ts, count, size from heap_profile_allocation", [(20, 1, 100), (40, 1, 100), (60, 1, 100)])
    done = subprocess.run([TOOL, "report", trace, "--json"], capture_output=True, text=True, timeout=180, check=False)
    heaps = json.loads(done.stdout)["heaps"]
    check(len(heaps) == 1, f"windows make {len(heaps)} heaps")
    # A dump that starts after the end of the last one belongs to another program of the same pid.
    trace = write(snapshot({6: 0, 4: 0}), tree, dumps_at(20, 40, start=[10, 30]))
    expect(trace, "select ts, size from heap_profile_allocation", [(20, 100), (40, 200)])


INTERVALS = ("include perfetto module android.memory.heap_profile.intervals; "
             "select heap_name, ts, dur, retained, allocated, delta from _android_heap_profile_intervals")


def test_intervals():
    """A dump starts at its own start time, or without one at the end of the previous dump."""
    tree = process_tree([(7, 3, ["/bin/prog"])])
    head = snapshot({6: 0, 4: 0}) + tree + packet(usual(), timestamp=60, sequence=1, flags=1)
    dumps = [heap_samples(7, [sample(1, 1000, 0, 4, 0)], 20, heap=""),
             heap_samples(7, [sample(1, 1000, 1000, 4, 4), sample(2, 1000, 0, 4, 0)], 40, heap=""),
             heap_samples(7, [sample(2, 1000, 1000, 4, 4)], 60, heap="")]
    trace = write(head, packet(profile_packet(dumps), timestamp=60, sequence=1))
    expect(trace, INTERVALS, [("unknown", 20, 0, 1000, 1000, 1000), ("unknown", 21, 19, 1000, 1000, 0),
                              ("unknown", 41, 19, 0, 0, -1000)])
    expect(trace, "select id, upid from _android_heap_profile_intervals", [(0, 2), (1, 2), (3, 2)])
    trace = write(snapshot({6: 0, 4: 10}), tree, dumps_at(30, start=[15]))
    expect(trace, INTERVALS, [("libc.malloc", 5, 15, 100, 100, 100)])
    # An earlier dump, of another heap or as a counter, is the beginning of the trace.
    earlier = packet(field(9, field(1, field(1, 7) + field(3, 40))), timestamp=4)
    expect(write(snapshot({6: 0, 4: 0}), tree, dumps_at(20), earlier), INTERVALS, [("libc.malloc", 5, 15, 100, 100, 100)])


def test_frame_kinds():
    """Frames may have kinds, files and lines of their own; missing and empty names are distinguished."""
    def entry(iid, name=0, mapping_id=1, pc=0, kind=None, kind_name=None, source=None, line=None):
        out = field(1, iid) + (field(2, name) if name else b"") + (field(3, mapping_id) if mapping_id else b"")
        out += field(4, pc) + (field(5, source) if source else b"") + (field(6, line) if line is not None else b"")
        out += field(7, kind) if kind is not None else b""
        return field(6, out + (text(8, kind_name) if kind_name else b""))

    body = b"".join(field(5, string(i, v)) for i, v in {1: "interp", 2: "own", 3: "collect", 4: "plain", 5: ""}.items())
    body += field(18, string(1, "a.py")) + field(19, mapping(1, 0, 0x1000, 0x2000, []))
    body += entry(1, 1, pc=1, kind=3, source=1, line=12) + entry(2, 2, pc=2, kind_name="custom")
    body += entry(3, 3, pc=3, kind=5) + entry(4, 4, pc=4, kind=1) + entry(5, 5, pc=5) + entry(6, pc=6)
    body += entry(7, 4, mapping_id=0, pc=9) + field(7, callstack(1, [1, 2, 3, 4, 5, 6, 7]))
    trace = write(HEAD, packet(field(12, body), timestamp=5, sequence=1, flags=1), packet(
        profile_packet([heap_samples(7, [sample(1, 10, 0, 1, 0)], 1000)], 0), timestamp=5, sequence=1))
    expect(trace, "select name, mapping, rel_pc, symbol_set_id, type from stack_profile_frame", [
        ("interp", 0, 1, 0, "interpreted"), ("own", 0, 2, None, "custom"), ("collect", 0, 3, None, "gc"),
        ("plain", 0, 4, None, "native"), ("", 0, 5, None, None), (None, 0, 6, None, None), ("plain", 1, 0, 1, None)])
    expect(trace, "select * from stack_profile_symbol",
           [(0, 0, "interp", "a.py", 12, None), (1, 1, "plain", None, None, None)])
    expect(trace, "select name, start, end from stack_profile_mapping", [("", 0x1000, 0x2000), ("", 0, -1)])
    expect(trace, "select name, source_file, line_number from experimental_flamegraph(1100, 2, 'native') where depth in (0, 4, 5)",
           [("interp", "a.py", 12), ("", None, None), (None, None, None)])
    expect(trace, "include perfetto module android.memory.heap_profile.summary_tree; "
           "select name from android_heap_profile_summary_tree",
           [("interp",), ("own",), ("collect",), ("plain",), ("",), ("unknown",), ("plain",)])
    exported = os.path.join(directory.name, "kinds.sqlite")
    ask(trace, None, "--export", exported)
    sql = "select * from experimental_flamegraph(1100, 2, 'native')"
    expect(exported, sql, rows(trace, sql))
    done = subprocess.run([TOOL, "report", trace, "--json"], capture_output=True, text=True, timeout=180, check=False)
    frames = json.loads(done.stdout)["heaps"][0]["callsites"][0]["frames"]
    kinds = {frame["name"]: frame.get("kind") for frame in frames}
    check(kinds["interp"] == "interpreted" and kinds["own"] == "custom", f"report: kinds {kinds}")


def test_timelines():
    """Live bytes are in a message of our own, with or without the kernel's figures; older files have them in that one."""
    ours = field(5002, field(1, 7) + field(2, 4097))
    system = field(9, field(1, field(1, 7) + field(3, 8)))
    old = field(9, field(1, field(1, 7) + field(3, 8) + field(5000, 4097)))
    for body, wanted in ((ours + system, (5, 2, 4097, 8192)), (old, (5, 2, 4097, 8192)), (ours, (5, 2, 4097, None)),
                         (system, (5, 2, None, 8192))):
        expect(write(HEAD, packet(body, timestamp=5)), "select ts, upid, live_size, rss_size from hp_timeline", [wanted])
    # The profiler's own memory, of each kind, is not the program's. The counters are the kernel's.
    kernel = field(9, field(1, field(1, 7) + field(3, 80) + field(4, 40) + field(5, 30) + field(6, 10)))
    trace = write(HEAD, packet(field(5002, field(1, 7) + field(3, 4096) + field(4, 2048) + field(5, 10240)) + kernel, timestamp=5))
    expect(trace, "select rss_size, rss_anon_size, rss_file_size, rss_shmem_size, profiler_size from hp_timeline",
           [(65536, 36864, 28672, 0, 16384)])
    expect(trace, "select value from counter join process_counter_track t on t.id = track_id where name = 'mem.rss'", [(81920,)])
    expect(write(HEAD, packet(kernel, timestamp=5)), "select rss_size, profiler_size from hp_timeline", [(81920, None)])


def test_split_snapshot():
    """One snapshot may be in two packets, with the names in between."""
    trace = write(
        HEAD,
        packet(profile_packet([heap_samples(7, [sample(1, 10, 0, 1, 0)], 1000)], 0, continued=True),
               timestamp=1, sequence=1, flags=1),
        packet(usual(), timestamp=1, sequence=1, flags=2),
        packet(profile_packet([heap_samples(7, [sample(2, 20, 0, 2, 0)], 1000)], 1),
               timestamp=1, sequence=1))
    expect(trace, "select ts, callsite_id, count, size from heap_profile_allocation",
           [(1100, 1, 1, 10), (1100, 3, 2, 20)])
    expect(trace, "select count(*) from heap_profile", [(1,)])


def test_several_heaps():
    trace = write(HEAD, two_dumps(), packet(profile_packet(
        [heap_samples(7, [sample(1, 5, 0, 1, 0)], 2000, "custom")], 2), timestamp=9, sequence=1))
    expect(trace, "select heap_name, sum(size), sum(count) from heap_profile_allocation group by 1",
           [("custom", 5, 1), ("libc.malloc", 118, 12)])
    expect(trace, "select cumulative_size from experimental_flamegraph(2100, 2, 'native') "
           "where depth = 0", [(123,)])


def test_dump_at_max():
    """A dump at the maximum has only the positive row, with a count only if the trace has the original interval."""
    for told, count in ((b"", 0), (field(13, 4096), 3)):
        trace = write(HEAD, packet(usual(), timestamp=1, sequence=1, flags=1), packet(
            profile_packet([heap_samples(7, [sample(1, maximum=77, maximum_count=3)], 1000,
                                         extra=told)], 0), timestamp=1, sequence=1))
        expect(trace, "select callsite_id, count, size from heap_profile_allocation",
               [(1, count, 77)])
    # In our own traces, decreasing figures have negative rows and are not malformed.
    def at_peak(now, allocated, freed):
        counters = field(8, now) + field(9, 1) if freed == 0 else field(2, allocated) + field(3, freed) + field(5, 1)
        return field(1, 1) + counters + field(5000, field(9, 1)) + double(5001, float(now)) + double(5002, 1.0)

    steps = [(50, 50, 0), (100, 100, 0), (40, 100, 60), (45, 105, 60)]
    trace = write(HEAD, packet(usual(), timestamp=1, sequence=1, flags=1), *(packet(profile_packet(
        [heap_samples(7, [at_peak(*step)], 1000 * (i + 1), extra=field(13, 4096) + field(5011, 1))], i), timestamp=1, sequence=1)
        for i, step in enumerate(steps)))
    expect(trace, "select ts, count, size from heap_profile_allocation",
           [(1100, 1, 50), (2100, 0, 50), (3100, 0, -60), (4100, 0, 5)])
    expect(trace, "select size, alloc_size from experimental_flamegraph(3100, 2, 'native') where depth = 1", [(40, 100)])
    expect(trace, "select value from stats where name = 'heapprofd_malformed_packet'", [])
    # In traces of Perfetto's recorder, a decrease is malformed there, too.
    trace = write(HEAD, packet(usual(), timestamp=1, sequence=1, flags=1), *(packet(profile_packet(
        [heap_samples(7, [sample(1, maximum=size, maximum_count=1)], 1000 * (i + 1), extra=field(13, 4096))], i),
        timestamp=1, sequence=1) for i, size in enumerate((50, 40))))
    expect(trace, "select ts, size from heap_profile_allocation", [(1100, 50)])
    expect(trace, "select value from stats where name = 'heapprofd_malformed_packet'", [(1,)])


def test_unchanged_callsites():
    """A callsite that a dump leaves out has not changed, however old its last entry is."""
    head = packet(usual(), timestamp=1, sequence=1, flags=1)
    dumps = [[sample(1, 100, 0, 1, 0), sample(2, 10, 0, 1, 0)], [sample(2, 20, 0, 2, 0)], [],
             [sample(1, 130, 0, 2, 0)]]
    trace = write(HEAD, head, *(packet(profile_packet([heap_samples(7, d, 1000 * (i + 1))], i),
                                       timestamp=1, sequence=1) for i, d in enumerate(dumps)))
    expect(trace, "select ts, callsite_id, count, size from heap_profile_allocation",
           [(1100, 1, 1, 100), (1100, 3, 1, 10), (2100, 3, 1, 10), (4100, 1, 1, 30)])
    expect(trace, "select cumulative_size from experimental_flamegraph(4100, 2, 'native') "
           "where depth = 0", [(150,)])
    expect(trace, "select live_size from hp_total", [(110.0,), (120.0,), (120.0,), (150.0,)])


def test_limits_of_changed_callsites():
    """Rows of a dump of which packets are lost have the limits of the report: what is missing had not changed."""
    def live(stack, count):
        missed = math.exp(-1000 / 4096)
        sums = (1000 * count, 0, count, 0, 1000 ** 2 * missed / (1 - missed) * count, 0, missed / (1 - missed) * count, 0)
        figures = b"".join(double(i + 1, value) for i, value in enumerate(sums)) + field(9, round(count * (1 - missed)))
        return sample(stack, 1000 * count, 0, count, 0) + field(5000, figures)

    def dump(index, calls, *changed):
        totals = field(12, 4096) + field(5000, 1000 * calls) + field(5001, calls) + double(5030, 1000 * calls) + double(5031, calls)
        return packet(profile_packet([heap_samples(7, changed, 1000 * (index + 1), extra=totals)], index), timestamp=1, sequence=1)

    trace = write(HEAD, packet(usual(), timestamp=1, sequence=1, flags=1), dump(0, 500, live(1, 100), live(2, 400)), dump(2, 900, live(2, 800)))
    (found,) = rows(trace, "select live_size, live_size_low, live_size_high from hp_callsite_stats where ts = 3100")
    report = json.loads(subprocess.run([TOOL, "report", "--json", "--dump", "2", trace], capture_output=True, check=True).stdout)
    wanted = [tuple(site["space"].values()) for site in report["heaps"][0]["callsites"]]
    check(found in wanted, f"SQL has {found}, the report {wanted}")


def test_malformed():
    """A decreasing counter's row is left out, and the others stay."""
    trace = write(HEAD, packet(usual(), timestamp=1, sequence=1, flags=1), *(
        packet(profile_packet([heap_samples(7, d, 1000 * (i + 1))], i), timestamp=1, sequence=1)
        for i, d in enumerate([[sample(1, 100, 0, 2, 0)], [sample(1, 90, 0, 3, 0)],
                               [sample(1, 110, 0, 3, 0)]])))
    expect(trace, "select ts, size from heap_profile_allocation", [(1100, 100), (3100, 10)])
    malformed_rows = "select idx, severity, value from stats where name = 'heapprofd_malformed_packet'"
    expect(trace, malformed_rows, [(2, "error", 1)])
    expect([trace, trace], malformed_rows, [(2, "error", 1), (5, "error", 1)])
    several = write(HEAD, packet(usual(), timestamp=1, sequence=1, flags=1), *(
        packet(profile_packet([heap_samples(pid, d, 1000 * (i + 1), heap) for pid in (7, 9) for heap in ("a", "b")], i),
               timestamp=1, sequence=1)
        for i, d in enumerate([[sample(1, 100, 50, 2, 1), sample(2, 5, 0, 5, 0)], [sample(1, 100, 49, 2, 1)],
                               [sample(1, 100, 50, 2, 0)], [sample(2, 6, 0, 4, 0)], [sample(1, 100, 50, 3, 1)]])))
    expect(several, malformed_rows, [(2, "error", 6), (3, "error", 6)])


def test_java_heap():
    """ART's heap reports no frees."""
    trace = write(HEAD, two_dumps("com.android.art"))
    expect(trace, "select callsite_id, count, size from heap_profile_allocation", [(1, 10, 100), (1, 5, 50), (3, 1, 8)])
    expect(trace, "select cumulative_size from experimental_flamegraph(2100, 2, 'native') where depth = 0", [(158,)])


def test_empty_stack():
    trace = write(HEAD, packet(interned(stacks={1: []}), timestamp=1, sequence=1, flags=1), packet(
        profile_packet([heap_samples(7, [sample(1, 1, 0, 1, 0), sample(1, 1, 0, 1, 0)], 1000)], 0),
        timestamp=1, sequence=1))
    expect(trace, "select count(*) from heap_profile_allocation", [(0,)])


def test_compressed():
    inner = two_dumps()
    plain = write(HEAD, inner, name="plain")
    packed = write(HEAD, field(1, field(50, zlib.compress(inner))), name="packed")
    for sql in (ALLOCATIONS, "select * from stack_profile_callsite"):
        check(rows(packed, sql) == rows(plain, sql), f"compressed packets: {sql}")


def test_several_sequences():
    """Each sequence has its own names. A mapping belongs to one process, and so do its frames."""
    other = interned(names=names("main", "malloc"), paths=names("lib", "libc.so"),
                     build_ids={1: b"\xde\xad"},
                     mappings=[(1, 1, 0x1000, 0x2000, [1, 2], 0x10, 0x20, 0x30)],
                     frames=[(1, 1, 0x200, 1), (2, 1, 0x100, 2)], stacks={9: [1, 2]})
    trace = write(HEAD, two_dumps(), packet(other, timestamp=1, sequence=2, flags=1), packet(
        profile_packet([heap_samples(99, [sample(9, 6, 0, 1, 0)], 1000)], 0), timestamp=1, sequence=2))
    expect(trace, "select count(*) from stack_profile_callsite", [(6,)])
    expect(trace, "select pid, callsite_id, size from heap_profile_allocation join process using "
           "(upid) where pid = 99", [(99, 5, 6)])


def test_mappings_of_processes():
    """Processes that share addresses and interned data have separate rows, which are the same in each dump."""
    def dump(index, *pids):
        heaps = [heap_samples(pid, [sample(1, 5 + index, 0, 1, 0), sample(2, 7, 0, 1, 0)], 1000 * (index + 1)) for pid in pids]
        return packet(profile_packet(heaps, index), timestamp=1, sequence=1)

    trace = write(HEAD, packet(usual(), timestamp=1, sequence=1, flags=1), *(dump(i, 7, 8) for i in range(6)), dump(6, 8, 9, 7))
    expect(trace, "select id, start, name from stack_profile_mapping", [(i, 0x1000, "/lib/libc.so") for i in range(3)])
    expect(trace, "select mapping, count(*), min(id) from stack_profile_frame group by 1", [(0, 3, 0), (1, 3, 3), (2, 3, 6)])
    expect(trace, "select pid, callsite_id, count(*), sum(size) from heap_profile_allocation join process using (upid) "
           "group by 1, 2", [(7, 1, 7, 11), (7, 3, 1, 7), (8, 5, 7, 11), (8, 7, 1, 7), (9, 9, 1, 11), (9, 11, 1, 7)])
    everywhere = packet(interned(names=names("f"), mappings=[(1, 0, 0, 0, [])], frames=[(1, 1, 0x100, 1)], stacks={1: [1]}),
                        timestamp=1, sequence=1, flags=1)
    trace = write(HEAD, everywhere, packet(profile_packet(
        [heap_samples(pid, [sample(1, 5, 0, 1, 0)], 1000) for pid in (7, 8)], 0), timestamp=1, sequence=1))
    expect(trace, "select count(*) from stack_profile_mapping", [(1,)])


def test_checkpoints():
    """Our checkpoint after a dump is another sequence, and counts from the start again."""
    def dump(sequence, bytes_of, time):
        entry = sample(1, bytes_of, 0, 1, 0) + field(5000, field(9, 1))
        return packet(usual(), timestamp=1, sequence=sequence, flags=1) + packet(profile_packet(
            [heap_samples(7, [entry], time, extra=field(12, 1))], 0), timestamp=1, sequence=sequence)

    trace = write(HEAD, dump(1, 100, 1000), dump(2, 130, 2000))
    expect(trace, "select alloc_size, alloc_count, live_size from hp_total", [(100.0, 1.0, 100.0), (130.0, 1.0, 130.0)])


def test_r8_names():
    """R8's names are resolved: overloaded, of merged classes, without their arguments, of JIT code."""
    def names_for(path, package, found, members):
        data = interned(names=names(*found), paths=names(*path), build_ids={1: b"id"},
                        mappings=[(1, 1, 0, 0x9000, range(1, len(path) + 1))],
                        frames=[(i + 1, 1, 0x1000, i + 1) for i in range(len(found))],
                        stacks={i + 1: [i + 1] for i in range(len(found))})
        trace = write(HEAD, packet(data, timestamp=1, sequence=1, flags=1), packet(profile_packet(
            [heap_samples(7, [sample(i + 1, 10, 0, 1, 0) for i in range(len(found))], 1000)], 0), timestamp=1, sequence=1),
            deobfuscation(package, members))
        return rows(trace, "select name, deobfuscated_name, mapping, rel_pc from stack_profile_frame")

    path, package = ["data", "app", "org.some.app-x1", "base.apk"], "org.some.app"
    two = {"b": ("org.some.Source", {"a": "get", "b": "get"})}
    check(names_for(path, package, ["b.a", "b.b"], two) ==
          [("b.a", "org.some.Source.get", 0, 0x1000), ("b.b", "org.some.Source.get", 0, 0x1000)], "overloaded")
    # Members of a merged class keep that class's name.
    merged = {"a": ("org.some.Sub", {"a": "org.some.Base.run", "b": "stop", "c": "org.some.Other.made"})}
    check([row[1] for row in names_for(path, package, ["a.a", "a.b", "a.c"], merged)] ==
          ["org.some.Base.run", "org.some.Sub.stop", "org.some.Other.made"], "merged classes")
    # Two functions at one address of generated code are two frames.
    check(names_for(["cache"], "", ["one", "two"], {}) == [("one", None, 0, 0x1000), ("two", None, 0, 0x1000)], "one place")


def test_returning_stacks():
    """Perfetto's recorder counts from zero under a new id when a callstack returns after its memory was freed."""
    def dumps(*of_dumps):
        return write(HEAD, packet(usual(stacks={1: [2, 1], 2: [2, 3, 1], 3: [2, 1]}), timestamp=1, sequence=1, flags=1), *(
            packet(profile_packet([heap_samples(7, samples, 1000 * (i + 1))], i), timestamp=1, sequence=1)
            for i, samples in enumerate(of_dumps)))

    trace = dumps([sample(1, 1, 1, 1, 1)], [sample(3, 1, 1, 1, 1)])
    expect(trace, "select ts, callsite_id, count, size from heap_profile_allocation",
           [(1100, 1, 1, 1), (1100, 1, -1, -1), (2100, 1, 1, 1), (2100, 1, -1, -1)])
    trace = dumps([sample(1, 100, 40, 4, 2), sample(2, 5, 0, 1, 0)], [sample(1, 100, 100, 4, 4)],
                  [sample(3, 30, 0, 1, 0)], [sample(3, 50, 10, 2, 1), sample(2, 9, 0, 2, 0)])
    expect(trace, "select ts, sum(size) filter (where size > 0), sum(size) from heap_profile_allocation group by 1",
           [(1100, 105, 65), (2100, None, -60), (3100, 30, 30), (4100, 24, 14)])
    expect(trace, "select value from stats where name = 'heapprofd_malformed_packet'", [])
    for dump, allocated, live in ((1, 105, 65), (2, 105, 5), (3, 135, 35), (4, 159, 49)):
        done = subprocess.run([TOOL, "report", trace, "--json", "--dump", str(dump)], capture_output=True, text=True, timeout=180,
                              check=False)
        total = json.loads(done.stdout)["heaps"][0]["total"]
        got = total["alloc_space"]["estimate"], total["space"]["estimate"]
        check(got == (allocated, live), f"dump {dump}: {got}, not {allocated} and {live}")
    # Under the same id the trace processor calls it malformed. The report follows the recorder's intention.
    trace = dumps([sample(1, 100, 100, 4, 4)], [sample(1, 30, 0, 1, 0)])
    expect(trace, "select ts, size from heap_profile_allocation", [(1100, 100), (1100, -100)])
    expect(trace, "select value from stats where name = 'heapprofd_malformed_packet'", [(1,)])
    done = subprocess.run([TOOL, "report", trace, "--json"], capture_output=True, text=True, timeout=180, check=False)
    total = json.loads(done.stdout)["heaps"][0]["total"]
    check((total["alloc_space"]["estimate"], total["space"]["estimate"]) == (130, 30), f"{total}")


def test_lost_packets():
    lost = packet(profile_packet([heap_samples(7, [sample(1, 200, 40, 20, 4)], 3000)], 5),
                  timestamp=9, sequence=1)
    trace = write(HEAD, two_dumps(), lost)
    expect(trace, "select value > 0 from stats where name = 'heapprofd_missing_packet'", [(1,)])
    expect(trace, "select sum(size) from heap_profile_allocation", [(168,)])
    half = write(HEAD, packet(usual(), timestamp=1, sequence=1, flags=1), packet(
        profile_packet([heap_samples(7, [sample(1, 1, 0, 1, 0)], 1000)], 0, continued=True),
        timestamp=1, sequence=1))
    expect(half, "select value from stats where name = 'heapprofd_non_finalized_profile'", [(1,)])


def test_symbols_anywhere():
    """Symbols may come before or after the profile; inlined lines are rows, and frames stay the same."""
    lines = {0x300: [("inlined", "a.h", 3), ("foo", "a.c", 9)], 0x200: [("main", "", 0)],
             0x999: [("nobody", "x.c", 1)]}
    module = module_symbols("/lib/libc.so", b"\xde\xad", lines)
    for trace in (write(HEAD, module, two_dumps()), write(HEAD, two_dumps(), module)):
        expect(trace, "select * from stack_profile_symbol", [
            (0, 0, "inlined", "a.h", 3, None), (1, 0, "foo", "a.c", 9, None), (2, 2, "main", None, None, None)])
        expect(trace, "select name, source_file, line_number from experimental_flamegraph(2100, 2, 'native')",
               [("main", None, None), ("malloc", None, None), ("foo", "a.c", 9), ("inlined", "a.h", 3),
                ("malloc", None, None)])
        expect(trace, "select name, symbol_set_id from stack_profile_frame",
               [("main", 2), ("malloc", None), ("_Z3foov", 0)])
        expect(trace, "select count(*) from stack_profile_callsite", [(4,)])
        expect(trace, "select name, cumulative_size from "
               "experimental_flamegraph(2100, 2, 'native')",
               [("main", 118), ("malloc", 110), ("foo", 8), ("inlined", 8), ("malloc", 8)])
        expect(trace, "select id, parent_id, name, source_file, line_number, cumulative_size from "
               "android_heap_profile_summary_tree", [
                   (0, None, "main", None, None, 118), (1, 0, "malloc", None, None, 110),
                   (2, 3, "inlined", "a.h", 3, 8), (3, 0, "foo", "a.c", 9, 8),
                   (4, 2, "malloc", None, None, 8)])


def test_deobfuscated():
    data = interned(names=names("fsd.a", "fsd.other"), paths=names("data"),
                    mappings=[(1, 0, 0x1000, 0x2000, [1])],
                    frames=[(1, 1, 1, 1), (2, 1, 2, 2)], stacks={1: [1, 2]})
    trace = write(
        HEAD, packet(data, timestamp=1, sequence=1, flags=1),
        packet(profile_packet([heap_samples(7, [sample(1, 4, 0, 1, 0)], 1000)], 0), timestamp=1,
               sequence=1),
        deobfuscation("", {"fsd": ("com.example.Foo", {"a": "Bar"})}))
    got = rows(trace, "select name, deobfuscated_name from stack_profile_frame")
    check(got[0] == ("fsd.a", "com.example.Foo.Bar"), f"deobfuscated: {got}")
    check(got[1][0] == "fsd.other", f"deobfuscated: {got}")


def test_deobfuscated_lines():
    """Lines select inlined calls, ambiguous names are joined, and the process determines the package."""
    app, apk = "com.example.app", ["data", "app", "com.example.app-abc123", "base.apk"]

    def member(obfuscated, name, lines=None, source=None):
        out = text(1, obfuscated) + text(2, name)
        out += field(3, lines[0]) + field(4, lines[1]) if lines else b""
        return field(4, out + (field(5, source[0]) + (field(6, source[1]) if source[1:] else b"") if source else b""))

    def maps(package, *classes):
        body = text(1, package)
        for obfuscated, name, members in classes:
            body += field(3, text(1, obfuscated) + text(2, name) + b"".join(members))
        return packet(field(64, body))

    def trace_of(path, function_names, *more, uid=10001):
        data = interned(names=names(*function_names), paths=names(*path), build_ids={1: b"abc"},
                        mappings=[(1, 1, 0x1000, 0x9000, range(1, len(path) + 1))],
                        frames=[(i + 1, 1, 0x1000 * (i + 1), i + 1) for i in range(len(function_names))],
                        stacks={i + 1: [i + 1] for i in range(len(function_names))})
        listed = field(47, field(1, text(1, app) + field(2, 10001)))
        return write(
            clocks(10, 20), process_tree([(1, 0, ["init"], 0), (100, 1, ["some.process"], uid)]), packet(listed),
            packet(data, timestamp=100, sequence=1, flags=1),
            packet(profile_packet([heap_samples(100, [sample(i + 1, 1000, 0, 1, 0) for i in range(len(function_names))], 30)], 0),
                   timestamp=100, sequence=1), *more)

    def symbols(lines):
        return module_symbols("/" + "/".join(apk), b"abc", {address: [("a.a", "Main.java", line)] for address, line in lines.items()})

    chain = [member("a", "foo", (1, 1), [54]), member("a", "test", (1, 1), [50]), member("a", "bar", (2, 2), [59]),
             member("a", "foo", (2, 2), [55]), member("a", "test", (2, 2), [50]), member("a", "ranged", (10, 20), [100, 110])]
    trace = trace_of(apk, ["a.a", "a.a", "a.a", "a.a"], symbols({0x1000: 1, 0x2000: 2, 0x3000: 13}),
                     maps(app, ("a", "com.example.Main", chain)))
    main = "com.example.Main."
    expect(trace, "select f.rel_pc, f.deobfuscated_name, s.name, s.line_number, s.inlined from stack_profile_frame f "
           "left join stack_profile_symbol s using (symbol_set_id) order by f.id, s.id", [
               (0x1000, main + "test", main + "foo", 54, 1), (0x1000, main + "test", main + "test", 50, 0),
               (0x2000, main + "test", main + "bar", 59, 1), (0x2000, main + "test", main + "foo", 55, 1),
               (0x2000, main + "test", main + "test", 50, 0), (0x3000, main + "ranged", main + "ranged", 103, 0),
               (0x4000, " | ".join(main + each for each in ("bar", "foo", "ranged", "test")), None, None, None)])
    # The trace's symbols stay, before the selected ones.
    expect(trace, "select count(*), min(name) from stack_profile_symbol where inlined is null", [(3, "a.a")])
    merged = [member("c", "foo"), member("b", "com.example.B.bar"), member("a", "com.example.B.baz", (1, 1), [51]),
              member("a", "baz", (2, 2), [51])]
    # The path does not contain the package: the process has it, by its user id.
    path = ["system", "priv-app", "Prebuilt", "Prebuilt.apk"]
    for uid, known in ((10001, True), (110001, True), (10002, False)):
        trace = trace_of(path, ["a.a", "a.b", "a.c", "a.d"], maps(app, ("a", "com.example.A", merged)), uid=uid)
        expect(trace, "select name, deobfuscated_name from stack_profile_frame", [
            ("a.a", "com.example.A.baz | com.example.B.baz" if known else None), ("a.b", "com.example.B.bar" if known else None),
            ("a.c", "com.example.A.foo" if known else None), ("a.d", None)])
    # Code in the JIT's memory may belong to any package.
    trace = trace_of(["memfd:jit-cache"], ["a.f1"], maps("com.other", ("a", "Bar", [member("f1", "function1")])))
    expect(trace, "select deobfuscated_name from stack_profile_frame", [("Bar.function1",)])


def test_smaps_rows():
    trace = write(process_tree([(1, 0, ["init"], 0), (2, 1, ["system_server"], 1000)]), smaps(
        2, 10, [("/system/lib64/libc.so", 20, 4, 4), ("[anon: libc_malloc]", 30, 10, 10)]))
    expect(trace, "SELECT id, upid, ts, path, size_kb, private_dirty_kb, swap_kb FROM profiler_smaps",
           [(0, 2, 10, "/system/lib64/libc.so", 20, 4, 4), (1, 2, 10, "[anon: libc_malloc]", 30, 10, 10)])
    # One list for each field: of each mapping, or of all mappings of a name.
    def packed(names, **lists):
        numbers = {"name_id": 2, "aggregate_count": 3, "size": 4, "rss": 5, "swap": 7, "private_dirty": 11, "pss": 13}
        body = b"".join(text(1, name) for name in names)
        return packet(field(68, field(1, 2) + field(3, body + b"".join(
            field(numbers[name], b"".join(varint(v) for v in values)) for name, values in lists.items()))), timestamp=10)

    columns = "select path, size_kb, private_dirty_kb, swap_kb, proportional_resident_kb from profiler_smaps"
    trace = write(packed(["", "/a", "/b"], name_id=[2, 0, 2], size=[300, 4, 8], rss=[1, 1, 1], private_dirty=[1, 2, 3]),
                  packed(["/c", "/d"], aggregate_count=[5, 6], size=[70, 80], swap=[7, 8], pss=[1, 200]))
    expect(trace, columns, [("/b", 300, 1, 0, 0), ("", 4, 2, 0, 0), ("/b", 8, 3, 0, 0), ("/c", 70, 0, 7, 1), ("/d", 80, 0, 8, 200)])
    # Rows of one byte each are accepted as long as a process could have as many mappings.
    count = 1 << 20
    trace = write(HEAD, packed(["/a"], name_id=[0] * count), packed(["/b"], size=[7]))
    got = rows(trace, "select path, count(*) from profiler_smaps group by 1")
    check(got[0][0] == "/a" and 65530 <= got[0][1] < count // 2 and got[1] == ("/b", 1), f"rows of a byte each: {got}")
    expect(trace, "select value from stats where name = 'hp_damaged_packet'", [(1,)])
    # Lists that are too short, and a missing name.
    trace = write(HEAD, packed(["/a"], name_id=[0, 0], size=[5]), packed(["/a"], name_id=[0, 1], size=[5, 6]))
    expect(trace, columns, [("/a", 5, 0, 0, 0), ("/a", 5, 0, 0, 0)])
    expect(trace, "select value from stats where name = 'hp_damaged_packet'", [(2,)])


def test_streamed():
    """Streamed events are not dumps; a table has their sums."""
    event = field(1, 16) + field(2, 100) + field(3, 4096) + field(6, 1)
    trace = write(HEAD, two_dumps(), packet(field(74, event), timestamp=1, sequence=1))
    expect(trace, "select count(*) from heap_profile_allocation", [(4,)])
    expect(trace, "select * from hp_stream", [(None, 0, 1, 0, 0, 4096.0, 1.0, 0)])
    more = b"".join(field(1, 32) + field(2, 10) + field(3, 50) + field(5, heap) + field(6, 2 + heap) for heap in (0, 3))
    more += field(5000, 7) + double(5001, 2.5) + double(5001, 4.0)
    free = field(1, 32) + field(2, 0) + field(3, 9) + field(5000, 7) + field(5001, 32) + field(5002, 0) + field(5003, 10)
    own = write(HEAD, two_dumps(), packet(field(74, more), timestamp=1, sequence=1),
                packet(field(75, free), timestamp=1, sequence=1), name="own")
    expect(own, "select * from hp_stream", [(2, 0, 1, 1, 1, 25.0, 2.5, 6), (2, 3, 1, 0, 0, 40.0, 4.0, 6)])
    expect([trace, own], "select trace_id, upid from hp_stream", [(0, None), (1, 5), (1, 5)])


def test_memory_snapshots():
    """A process's memory snapshot: its parts add up, and belong to the dump that follows."""
    first = memory_snapshot(7, 1050, {1: (5000, 0, 8192, 1), 9: (4096, 100, 4096, 2)},
                        {3: 4000.0, 4: 16.0, 5: 10.0, 6: 80.0, 7: "glibc", 8: 256.0, 9: 0.0, 10: "libc.so.6", 11: 77})
    second = memory_snapshot(7, 2600, {2: (1, 2, 3, 4)}, {12: 1})
    trace = write(HEAD, first, two_dumps(), second)
    expect(trace, "select * from hp_memory_snapshot", [
        (0, 1050, 2, 0, 9096, 100, 4000.0, 16.0, 10.0, 80.0, "glibc", 256.0, 0.0, "libc.so.6", 77),
        (1, 2600, 2, None, 1, 2, 0.0, 0.0, 0.0, None, None, None, None, None, 0)])
    expect(trace, "select look_id, kind, rss_size, swap_size, mapped_size, mappings from hp_memory_part where mappings > 0",
           [(0, "allocator", 5000, 0, 8192, 1), (0, "kernel", 4096, 100, 4096, 2), (1, "anonymous", 1, 2, 3, 4)])
    expect([trace, trace], "select l.trace_id t, l.id, dump_id, p.trace_id p, sum(r.rss_size) = l.rss_size from hp_memory_snapshot l "
           "join hp_memory_part r on r.look_id = l.id left join heap_profile p on p.id = dump_id group by l.id",
           [(0, 0, 0, 0, 1), (0, 1, None, None, 1), (1, 2, 2, 1, 1), (1, 3, None, None, 1)])


def test_stats_rows():
    """Stats rows are by pid, in Perfetto's order, summed over all packets of a process and of later programs of its pid."""
    flags = field(6, 1) + field(14, 1) + field(13, 4096) + field(12, 8192)
    again = field(6, 1) + field(13, 4096) + field(12, 8192) + field(5, field(2, 6) + field(5, 21) + field(6, 5))
    flags += field(5, field(2, 6) + field(5, 21) + field(6, 5))
    later = field(7, 1) + field(8, 1) + field(10, 1) + field(4, 1) + field(14, 2) + field(5, field(2, 1) + field(6, 3))
    trace = write(HEAD, packet(usual(), timestamp=1, sequence=1, flags=1), packet(
        profile_packet([heap_samples(7, [], 1000, extra=flags), heap_samples(5, [], 1000)], 0), timestamp=1, sequence=1),
        process_tree([(7, 3, ["/bin/next"], 5)]), packet(profile_packet(
            [heap_samples(7, [], 2000, "other", extra=later + field(15, 1500))], 1), timestamp=1, sequence=1),
        packet(profile_packet([heap_samples(7, [], 3000, extra=again)], 2), timestamp=1, sequence=1))
    expect(trace, "select name, idx, severity, value from stats", [
        ("heapprofd_buffer_corrupted", 7, "error", 1), ("heapprofd_hit_guardrail", 7, "error", 1),
        ("heapprofd_buffer_overran", 7, "data_loss", 2), ("heapprofd_client_error", 7, "error", 2),
        ("heapprofd_client_disconnected", 7, "info", 2),
        ("heapprofd_missing_packet", None, "error", 0), ("heapprofd_rejected_concurrent", 7, "error", 1),
        ("heapprofd_non_finalized_profile", None, "error", 0),
        ("heapprofd_sampling_interval_adjusted", 7, "info", 4096),
        ("heapprofd_unwind_time_us", 5, "info", 0), ("heapprofd_unwind_time_us", 7, "info", 42),
        ("heapprofd_unwind_samples", 5, "info", 0), ("heapprofd_unwind_samples", 7, "info", 13),
        ("heapprofd_client_spinlock_blocked", 5, "info", 0), ("heapprofd_client_spinlock_blocked", 7, "info", 13),
        ("heapprofd_last_profile_timestamp", 5, "info", 1), ("heapprofd_last_profile_timestamp", 7, "info", 1),
        ("symbolization_tmp_build_id_not_found", None, "error", 0), ("hp_damaged_packet", None, "error", 0)])
    # Mappings of a directory for tests, whose files have no build id.
    paths = {1: "data", 2: "local", 3: "tmp", 4: "tool", 5: "data2"}
    for path, build_id, wanted in (([1, 2, 3, 4], 0, 1), ([1, 2, 3, 4], 1, 0), ([5, 2, 3, 4], 0, 0), ([1, 2, 3], 0, 0)):
        data = interned(names=names("f"), paths=paths, build_ids={1: b"abc"}, mappings=[(1, build_id, 0, 9, path)],
                        frames=[(1, 1, 1, 1)], stacks={1: [1]})
        trial = write(HEAD, packet(data, timestamp=1, sequence=1, flags=1), packet(profile_packet(
            [heap_samples(7, [sample(1, 1, 0, 1, 0)], 1000)], 0), timestamp=1, sequence=1))
        expect(trial, "select value from stats where name = 'symbolization_tmp_build_id_not_found'", [(wanted,)])
    damaged = write(HEAD, two_dumps(), packet(field(37, b"\x0a\xff")), two_dumps())
    expect(damaged, "select value from stats where name = 'hp_damaged_packet'", [(1,)])


def test_several_traces():
    """Ids continue from trace to trace, so joins work; trace_id is hidden from `*` and distinguishes the traces."""
    one, two = write(HEAD, two_dumps()), write(HEAD, two_dumps("other"), name="second")
    expect([one, two], "select trace_id, min(id), max(id) from stack_profile_callsite group by 1",
           [(0, 0, 3), (1, 4, 7)])
    expect([one, two], "select c.trace_id c, f.trace_id f, m.trace_id m, p.trace_id p, p.pid, sum(a.size) "
           "from heap_profile_allocation a join stack_profile_callsite c on a.callsite_id = c.id "
           "join stack_profile_frame f on c.frame_id = f.id join stack_profile_mapping m "
           "on f.mapping = m.id join process p on a.upid = p.upid group by 1",
           [(0, 0, 0, 0, 7, 118), (1, 1, 1, 1, 7, 118)])
    expect([one, two], "select * from stack_profile_callsite where trace_id = 1 and parent_id is null",
           [(4, 0, None, 3)])
    expect([one, two], "select count(*) from stack_profile_callsite where trace_id = 2", [(0,)])
    expect([one, two], "select t.trace_id t, p.trace_id p, dump_id from hp_total t join heap_profile p on p.id = dump_id "
           "union all select t.trace_id, p.trace_id, dump_id from hp_callsite_stats t join heap_profile p on p.id = dump_id "
           "where dump_id > 2", [(0, 0, 0), (0, 0, 1), (1, 1, 2), (1, 1, 3), (1, 1, 3), (1, 1, 3)])
    expect([one, two], "select max(cumulative_size) from experimental_flamegraph(2100, 5, 'native')",
           [(118,)])


def test_exported():
    """An exported database has the same rows for any client."""
    import sqlite3

    trace = write(HEAD, two_dumps())
    path = os.path.join(directory.name, "exported.sqlite")
    ask(trace, None, "--export", path)
    mode = os.stat(path).st_mode & 0o777
    check(mode == 0o600, f"exported: mode {mode:o}")
    client = sqlite3.connect(path)
    for table in ("process", "thread", "stack_profile_mapping", "stack_profile_frame",
                  "stack_profile_callsite", "stack_profile_symbol", "heap_profile",
                  "heap_profile_allocation", "profiler_smaps", "stats", "hp_trace",
                  "hp_callsite_stats", "hp_part", "hp_total", "hp_timeline", "hp_memory_snapshot", "hp_memory_part", "hp_stream", "hp_process_end",
                  "android_heap_profile_summary_tree", "_android_heap_profile_intervals"):
        sql = f"select * from {table}"
        check(client.execute(sql).fetchall() == rows(trace, sql), f"exported: {table}")
        expect(path, sql, rows(trace, sql))
    indexes = client.execute("select count(*) from sqlite_master where type = 'index'").fetchone()
    check(indexes[0] > 10, f"indexes: {indexes}")
    check(client.execute("pragma integrity_check").fetchone() == ("ok",), "integrity")
    client.close()
    ask(path, "delete from process", status=1)
    expect(path, "include perfetto module android.memory.heap_profile.summary_tree; "
           "select name from android_heap_profile_summary_tree where cumulative_size = 8 and self_size = 0", [("foo()",)])
    expect(path, "select demangle(name) from stack_profile_frame where id = 2", [("foo()",)])
    for arguments in ("2100, 2, 'native'", "1100, 2, 'native'", "1099, 2, 'native'", "2100, 1, 'native'", "2100, 99, 'native'",
                      "'native', 2100, NULL, 2, NULL, 'FOO'", "-1, 2, 'native'"):
        sql = f"select * from experimental_flamegraph({arguments})"
        expect(path, sql, rows(trace, sql))
    lines = {0x300: [("inlined", "a.h", 3), ("foo", "a.c", 9)], 0x200: [("main", "", 0)]}
    other = write(HEAD, two_dumps(), module_symbols("/lib/libc.so", b"\xde\xad", lines), name="other")
    both = os.path.join(directory.name, "both.sqlite")
    ask([trace, other], None, "--export", both)
    for upid in range(7):
        sql = f"select * from experimental_flamegraph(2100, {upid}, 'native')"
        expect(both, sql, rows([trace, other], sql))
    for damage, said in (("update stack_profile_callsite set parent_id = id", "not those of an exported one"),
                         ("update stack_profile_frame set mapping = 77", "not those of an exported one"),
                         ("delete from stack_profile_frame where id = 1", "not those of an exported one"),
                         ("update heap_profile_allocation set callsite_id = -1", "not those of an exported one"),
                         ("drop table stack_profile_symbol", "no such table: main.stack_profile_symbol")):
        damaged = os.path.join(directory.name, "damaged.sqlite")
        shutil.copy(path, damaged)
        with contextlib.closing(sqlite3.connect(damaged)) as writer:
            writer.execute(damage)
            writer.commit()
        _, error = ask(damaged, "select * from experimental_flamegraph(2100, 2, 'native')", status=1)
        check(said in error, f"{damage}: {error}")
    os.chmod(directory.name, 0o700)
    with open(trace, "rb") as file:
        before = file.read()
    for place in (trace, path + ".mine.txt"):
        with open(path + ".mine.txt", "w") as file:
            file.write("mine")
        _, error = ask(trace, None, "--export", place, status=1)
        check("not an exported database" in error, f"export over {place}: {error}")
    with open(trace, "rb") as file:
        check(file.read() == before, "an export overwrote its own trace")
    ask(trace, None, "--export", path)
    _, error = ask(trace, None, "--export", "/nonexistent/x", status=1)
    check("cannot be written" in error, error)


def test_refused():
    """Statements that write, or open other files, are refused."""
    trace = write(HEAD, two_dumps())
    target = os.path.join(directory.name, "made")
    for sql in (f"attach '{target}' as x", f"vacuum into '{target}'", "pragma journal_mode = wal",
                "pragma query_only = 0", "create table t (x)", "insert into process values (1)",
                "delete from stack_profile_frame", "update process set pid = 1",
                "drop table process", "select load_extension('x')", "create temp table t (x)",
                "create virtual table t using stats", "reindex", "analyze"):
        ask(trace, sql, status=1)
    for sql in ("vacuum", "VACUUM;", "reindex", "Reindex process", "-- a comment\nvacuum", "analyze", "drop table process",
                f"attach '{target}' as x"):
        _, error = ask(trace, sql, status=1)
        check("a profile is read only" in error, f"{sql}: {error}")
    _, error = ask(trace, "explain", status=1)
    check("incomplete input" in error, error)
    check(ask(trace, "-- what it is\nselect 1 as n")[0] == '"n"\n1\n', "SQL that begins with a comment")
    for sql in ("-- what it is\nselect 1 as n", "--what\nselect 1 as n"):
        for argv in ((trace, sql, "--csv"), (sql, trace), ("--csv", sql, trace)):
            done = subprocess.run([TOOL, "query", *argv], capture_output=True, text=True, timeout=180, check=False)
            check(done.stdout == '"n"\n1\n', f"SQL that begins with a comment: {argv}: {done}")
    check("there is no option" in ask(trace, "--selct", status=2)[1], "an option is not recognized")
    check(ask(trace, "/* so */ select 1 as n")[0] == '"n"\n1\n', "SQL that begins with another comment")
    for argv in ((trace, "-f", "--", "-- x"), (trace, "--jsonl=1", "-- x")):
        done = subprocess.run([TOOL, "query", *argv], capture_output=True, text=True, timeout=180, check=False)
        check(done.returncode == 2, f"{argv}: {done.returncode} {done.stderr}")
    check(not os.path.exists(target), "a file was made")
    out, _ = ask(trace, "create temp view v as select pid from process; select count(*) from v",
                 "--csv")
    check(out.splitlines()[-1] == "3", out)


def test_errors_name_the_place():
    trace = write(HEAD, two_dumps())
    _, error = ask(trace, "select 1;\n\nselect id,\n  nme from process", status=1)
    # SQLite says where from 3.38 on.
    version = tuple(map(int, re.findall(r"\d+", ask(trace, "select sqlite_version() as v", "--csv")[0])))
    says_where = version >= (3, 38)
    check("line 4: no such column: nme\n    nme from process\n    ^" in error if says_where else "no such column: nme" in error, error)
    _, error = ask(trace, "select id frm process where", status=1)
    check("line 1: near " in error and error.rstrip().endswith("^") if says_where else "near " in error, error)
    _, error = ask(trace, "include perfetto module slices.flat; select 1", status=1)
    check("no module slices.flat" in error, error)
    for sql in ("select * from experimental_flamegraph", "select * from experimental_flamegraph(1, 2)",
                "select * from experimental_flamegraph(1, 2, 'perf')",
                "select * from experimental_flamegraph('x', 'y', 'native')"):
        _, error = ask(trace, sql, status=1)
        check("experimental_flamegraph" in error, f"{sql}: {error}")
    ask(trace, "select 1", "-f", "x", status=2)
    ask(trace, None, "--no-such", status=2)
    ask(os.path.join(directory.name, "missing"), "select 1", status=1)


def test_formats():
    trace = write(HEAD, two_dumps())
    sql = "select 1 as n, 'a\"b,c' as t, null as z, 1.5 as r"
    out, _ = ask(trace, sql, "--csv")
    check(out == '"n","t","z","r"\n1,"a""b,c","[NULL]",1.500000\n', out)
    check(ask(trace, sql)[0] == out, "not CSV to a pipe")
    read = list(csv.reader(io.StringIO(out)))
    check(read[1] == ["1", 'a"b,c', "[NULL]", "1.500000"], f"{read}")
    check(json.loads(ask(trace, sql, "--json")[0]) == [{"n": 1, "t": 'a"b,c', "z": None, "r": 1.5}],
          "--json")
    check(json.loads(ask(trace, sql, "--jsonl")[0])["t"] == 'a"b,c', "--jsonl")
    out, _ = ask(trace, "select 10 as n, 'x' as t, null as z", "--table")
    check(out == " n  t  z\n--  -  ----\n10  x  NULL\n", out)
    check(json.loads(ask(trace, "select 1 where 0", "--json")[0]) == [], "no rows")


def test_statement_sources():
    """Statements come from a file, from standard input, or from the shell."""
    trace = write(HEAD, two_dumps())
    path = os.path.join(directory.name, "statements.sql")
    with open(path, "w", encoding="utf-8") as out:
        out.write("-- a comment\nselect count(*) as n from process; /* and */ select 2 as m")
    wanted = '"n"\n3\n"m"\n2\n'
    check(ask(trace, None, "-f", path)[0] == wanted, "-f")
    check(ask(trace, None, stdin=open(path, encoding="utf-8").read())[0] == wanted, "standard input")
    out, _ = ask(trace, None, "-i", stdin=".tables\n.schema stats\n.examples\n.quit\nselect 99;\n")
    for table in ("heap_profile_allocation", "hp_stream", "hp_memory_snapshot", "hp_memory_part",
                  "counter", "counter_track", "process_counter_track", "_android_heap_profile_intervals"):
        check(table in out.split(), f".tables: {table}: {out}")
    check("severity" in out and "demangle" not in out.split()[:3],
          out)
    check("99" not in out.split("select")[-1], "output after .quit")
    check(ask(trace, None, ".tables")[0] == ask(trace, None, stdin=".tables\n")[0] != "", "a command as argument")
    for command in ([".schema stats"], [".schema", "stats"]):
        check("severity" in ask(trace, None, *command)[0].split(), f"{command}")
    done = subprocess.run([TOOL, "query", trace], input=".shcema\n", capture_output=True, text=True, timeout=180, check=False)
    check(done.returncode == 1 and "there is no command '.shcema'" in done.stderr, f"{done}")


def pprof_sums(path):
    """Return the sums of a pprof file's columns."""
    with open(path, "rb") as file:
        samples = [value for number, value in fields(file.read()) if number == 2]
    columns = [[value for number, value in fields(one) if number == 2] for one in samples]
    signed = [[v - (1 << 64) if v >> 63 else v for v in values] for values in columns]
    return [sum(column) for column in zip(*signed)]


def test_sums_agree():
    """SQL, report, collapsed stacks and pprof agree to the byte on a trace of whole numbers."""
    trace = write(HEAD, two_dumps(extra=field(12, 1)))
    live, count = rows(trace, "select sum(size), sum(count) from heap_profile_allocation")[0]
    allocated, calls = rows(trace, "select sum(size), sum(count) from heap_profile_allocation where size > 0")[0]
    done = subprocess.run([TOOL, "report", trace, "--json"], capture_output=True, text=True,
                          timeout=180, check=False)
    sites = json.loads(done.stdout)["heaps"][0]["callsites"]
    for view, wanted in (("space", live), ("objects", count), ("alloc_space", allocated), ("alloc_objects", calls)):
        found = sum(site[view]["estimate"] for site in sites)
        check(found == wanted, f"report, {view}: {found}, SQL {wanted}")
    collapsed = subprocess.run([os.path.join(BUILD, "traceconv"), "collapsed", trace, "-"],
                               capture_output=True, text=True, timeout=180, check=False)
    total = sum(int(line.rsplit(" ", 1)[1]) for line in collapsed.stdout.splitlines())
    check(total == live, f"collapsed: {total}, SQL {live}: {collapsed.stderr}")
    made = os.path.join(directory.name, "pprof")
    subprocess.run([os.path.join(BUILD, "traceconv"), "profile", "-o", made, trace], capture_output=True,
                   timeout=180, check=True)
    last = sorted(os.listdir(made), key=lambda name: os.path.getmtime(os.path.join(made, name)))
    sums = [pprof_sums(os.path.join(made, name)) for name in last]
    check([calls, allocated, count, live] in sums, f"pprof: {sums}, SQL {[calls, allocated, count, live]}")
    check(count == 12, f"count {count}")


def test_perfetto_recorder():
    """Perfetto's recorder counts samples and reports either the peak or the other figures, never both."""
    sampled = field(12, 4096) + field(13, 4096)

    def of(samples, name):
        return write(HEAD, packet(usual(), timestamp=5, sequence=1, flags=1), packet(
            profile_packet([heap_samples(7, samples, 2000, extra=sampled)], 0), timestamp=9, sequence=1), name=name)

    def tool(*arguments, status=0):
        done = subprocess.run([TOOL, *arguments], capture_output=True, text=True, timeout=180, check=False)
        check(done.returncode == status, f"{arguments}: status {done.returncode}: {done.stderr}")
        return done.stdout + done.stderr

    trace = of([sample(1, 100000, 40000, 10, 4), sample(2, 9000, 0, 2, 0)], "sampled")
    later = of([sample(1, 300000, 40000, 30, 4), sample(2, 9000, 0, 2, 0)], "later")
    said = tool("report", trace)
    check("by 12 samples; the trace counts samples, not allocations" in said, said)
    check("peak          not in the file" in said and "± 0" not in said, said)
    heap = json.loads(tool("report", "--json", trace))["heaps"][0]
    check(heap["untold"] == ["objects", "alloc_objects", "max"] and heap["peak_live_bytes"] is None, f"{heap}")
    check(heap["total"]["objects"] == {"estimate": None, "low95": None, "high95": None}, f"{heap['total']}")
    check(heap["total"]["samples"] == 12 and heap["total"]["temporary_space"] is None, f"{heap['total']}")
    said = tool("check", "--max-peak", "1k", "--max-allocations", "5", "--max-temporary", "50%", "--max-live", "1M",
                trace, status=2)
    check(said.count("the figure is not in the file") == 3 and "1 of 4 budgets hold, 0 fail, 3 undecidable" in said, said)
    said = tool("diff", trace, later)
    check(said.count("not in both files") == 3, said)
    row = json.loads(tool("diff", "--json", trace, later))["heaps"][0]["total"]
    check(row["objects"]["change"] is None and row["max"]["after"] is None and row["space"]["change"] == 200000, f"{row}")
    said = tool("leaks", trace, later)
    check("?" in said, said)
    expect(trace, "select live_size, live_count, peak_size, temporary_size, samples from hp_callsite_stats",
           [(60000.0, None, None, None, 10), (9000.0, None, None, None, 2)])
    expect(trace, "select alloc_size, alloc_count, live_count, temporary_count from hp_total", [(109000.0, None, None, None)])
    expect(trace, "select count, size from heap_profile_allocation", [(10, 100000), (-4, -40000), (2, 9000)])
    said = tool("report", of([], "empty"))
    check("what it allocated is unknown" in said and "exact" not in said, f"a heap without a sample: {said}")
    trace = of([sample(1, maximum=70000, maximum_count=5)], "at the peak")
    said = tool("report", trace)
    check("peak          70.0 kB ±" in said and "live          not in the file" in said, said)
    heap = json.loads(tool("report", "--json", trace))["heaps"][0]
    check(heap["untold"] == ["space", "objects", "alloc_space", "alloc_objects"], f"{heap['untold']}")
    check(heap["peak_live_bytes"] == 70000 and heap["total"]["max"]["low95"] < 70000, f"{heap['total']}")


if __name__ == "__main__":
    main()
