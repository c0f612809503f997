#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Samples of stacks that are counted in bytes (Perfetto's StackSample) are heap profiles: Chromium's snapshots of what
is live, and what other profilers saw allocated.

    stack_samples.py CASE
"""

import json
import math
import os

from harness import TOOL, check, main, make_work_directory, run
from perfetto_bytes import callstack, field, frame, mapping, packet, process_tree, snapshot, string, text, varint

WORK = make_work_directory("stack-samples-")
CLEARED, NEEDED = 1, 2
BYTES, NANOSECONDS = 4, 1
CHROMIUM = "org.chromium.native_heap_profiler"


def counter(iid, name, unit=None, unit_str=None, multiplier=None):
    body = (field(1, iid) if iid else b"") + text(2, name)
    body += field(3, unit) if unit is not None else b""
    body += text(4, unit_str) if unit_str else b""
    return body + (field(5, multiplier) if multiplier else b"")


def task(pid, tid, iid=0):
    return (field(1, iid) if iid else b"") + field(2, pid) + field(3, tid)


def tables(counters=(), stacks=None, tasks=()):
    """Functions 1 main, 2 load, 3 keep, each a frame of one module."""
    body = b"".join(field(5, string(i, name)) for i, name in enumerate(("main", "load", "keep"), 1))
    body += field(17, string(1, "chromium")) + field(19, mapping(1, 0, 0, 0, [1]))
    body += b"".join(field(6, frame(i, 1, i * 16, i)) for i in (1, 2, 3))
    body += b"".join(field(7, callstack(i, frames)) for i, frames in (stacks or {1: [1, 2], 2: [1, 2, 3]}).items())
    body += b"".join(field(48, one) for one in tasks)
    return field(12, body + b"".join(field(50, one) for one in counters))


def defaults(source, descriptor=None):
    body = text(1, source) + (field(2, descriptor) if descriptor else b"")
    return field(59, field(100, body))


def sample(weight, stack=None, counter_iid=None, pid=None, tid=0, task_iid=None, inline=None):
    body = field(10, counter_iid) if counter_iid else b""
    body += field(11, weight)
    body += field(6, stack) if stack else field(5, inline)
    return field(135, body + (field(2, task_iid) if task_iid else field(1, task(pid, tid))))


def config(interval):
    source = text(1, CHROMIUM) + field(2, 0) + field(144, field(1, interval) + field(2, 500))
    return packet(field(33, field(2, field(1, source))))


def write(name, *packets):
    path = os.path.join(WORK, name)
    with open(path, "wb") as out:
        out.write(b"".join(packets))
    return path


def report(path, *options):
    outcome = run([TOOL, "report", "--json", *options, path])
    check(outcome.status == 0, f"{path}: {outcome.status}, {outcome.stderr!r}")
    return {(heap["pid"], heap["heap"]): heap for heap in json.loads(outcome.stdout)["heaps"]}


def by_stack(heap, figure):
    """Return {functions, the innermost first: bytes}."""
    return {tuple(one["name"] for one in site["frames"]): site[figure]["estimate"] for site in heap["callsites"]}


def rows(paths, sql):
    """Return the rows of a query, and its standard error."""
    paths = paths if isinstance(paths, list) else [paths]
    outcome = run([TOOL, "query", *paths, sql, "--jsonl"])
    check(outcome.status == 0, f"{sql}: {outcome.status}, {outcome.stderr!r}")
    return [tuple(json.loads(line).values()) for line in outcome.stdout.splitlines()], outcome.stderr


def expect(paths, sql, wanted):
    got, _ = rows(paths, sql)
    check(got == wanted, f"{sql}\n  gave   {got}\n  wanted {wanted}")


KEEP, LOAD = ("keep", "load", "main"), ("load", "main")
KINDS = [counter(1, "malloc", BYTES), counter(2, "partition_alloc", BYTES)]


def chromiums(interval_known=True):
    """Two snapshots of process 7, the state of the sequence is cleared in the second; one of process 8."""
    first, second = 5_000_000_000, 6_000_000_000
    begin = defaults(CHROMIUM) + tables(KINDS)
    again = defaults(CHROMIUM) + tables([counter(1, "malloc", BYTES)], {1: [1, 2, 3]})
    packets = [snapshot({6: 1, 3: 1}), config(1024) if interval_known else b""]
    for iid, weight, stack, tid in ((1, 1024, 1, 71), (1, 4096, 2, 71), (2, 2048, 1, 72)):
        packets.append(packet((begin if len(packets) == 2 else b"") + sample(weight, stack, iid, 7, tid), first, 2,
                              CLEARED if len(packets) == 2 else NEEDED))
    packets.append(packet(begin + sample(3072, 1, 1, 8, 8), first, 3, CLEARED))
    packets.append(packet(sample(5120, 1, 1, 7, 71), second, 2, NEEDED))
    packets.append(packet(again + sample(1024, 1, 1, 7, 72), second, 2, CLEARED))
    packets.append(packet(sample(1024, 1, 1, 7, 71), second, 2, NEEDED))
    return packets


def test_chromium():
    """Each snapshot is a dump of what was live, by counter and process; its interval gives the ±."""
    for known in (True, False):
        path = write(f"chromium-{known}", *chromiums(known))
        heaps = report(path)
        check(set(heaps) == {(7, "malloc"), (7, "partition_alloc"), (8, "malloc")}, f"{set(heaps)}")
        heap = heaps[7, "malloc"]
        check(heap["dumps"] == 2 and by_stack(heap, "space") == {LOAD: 5120, KEEP: 2048}, f"{by_stack(heap, 'space')}")
        check(heap["interval_bytes"] == 1024 and heap["total"]["samples"] == 3, f"{heap['interval_bytes']}, {heap['total']}")
        low, high = heap["total"]["space"]["low95"], heap["total"]["space"]["high95"]
        margin = 1.96 * math.sqrt(1024 * 7168)
        check(low < 7168 < high and margin / 2 < high - 7168 < 2 * margin, f"{low} to {high}, ± {margin}")
        check(set(heap["untold"]) == {"objects", "alloc_space", "alloc_objects", "max"}, f"{heap['untold']}")
        check(heap["partial"] == [] and "sampled and that were live" in heap["remark"], f"{heap['remark']!r}")
        check(by_stack(heaps[7, "partition_alloc"], "space") == {LOAD: 2048}, "partition_alloc")
        check(by_stack(heaps[8, "malloc"], "space") == {LOAD: 3072}, "process 8")
        first = report(path, "--dump", "1")[7, "malloc"]
        check(by_stack(first, "space") == {LOAD: 1024, KEEP: 4096}, f"{by_stack(first, 'space')}")


def test_text():
    """The report says that these are sampled live blocks, and nothing of a damaged or unfinished trace."""
    outcome = run([TOOL, "report", write("text", *chromiums())])
    check(outcome.status == 0 and outcome.stderr == b"", f"{outcome.status}, {outcome.stderr!r}")
    for word in (b"Chromium's own heap profiler", b"not in the file", b"one in 1,024 B"):
        check(word in outcome.stdout, f"no {word} in {outcome.stdout}")
    check(b"unfinished" not in outcome.stdout and b"warning" not in outcome.stdout, f"{outcome.stdout}")
    outcome = run([TOOL, "leaks", f"{WORK}/text@1", f"{WORK}/text@last"])
    check(outcome.status == 0 and b"load" in outcome.stdout, f"{outcome.stdout}, {outcome.stderr!r}")


def test_allocated():
    """Another profiler's samples are what was allocated: by default counter, unit in words, multiplier, task by id,
    stack in the sample."""
    kilobytes = counter(0, "alloc", unit_str="bytes", multiplier=1024)
    begin = defaults("my.sampler", kilobytes) + tables(tasks=[task(9, 91, iid=4)])
    path = write(
        "allocated", packet(begin + sample(3, 1, task_iid=4), 1_000, 5, CLEARED),
        packet(sample(5, inline=b"".join(field(2, i) for i in (1, 2, 3)), task_iid=4), 2_000, 5, NEEDED),
        packet(sample(7, 1, task_iid=4), 3_000, 5, NEEDED))
    (name, heap), = report(path).items()
    check(name == (9, "alloc") and heap["dumps"] == 1, f"{name}, {heap['dumps']} dumps")
    check(by_stack(heap, "alloc_space") == {LOAD: 10240, KEEP: 5120}, f"{by_stack(heap, 'alloc_space')}")
    check(set(heap["untold"]) == {"space", "objects", "alloc_objects", "max"}, f"{heap['untold']}")
    check("what was allocated" in heap["remark"], f"{heap['remark']!r}")


def test_other_units():
    """Samples of time are no heap profile."""
    begin = defaults("python.wall", counter(0, "wall", NANOSECONDS)) + tables()
    outcome = run([TOOL, "report", "--json", write("time", packet(begin + sample(10_000, 1, pid=9), 1_000, 5, CLEARED))])
    check(outcome.status != 0 or json.loads(outcome.stdout)["heaps"] == [], f"{outcome.stdout!r}")
    check(b"damaged" not in outcome.stderr, f"{outcome.stderr!r}")


def test_damaged():
    """Wrong ids and cut packets cost their samples only."""
    begin = defaults(CHROMIUM) + tables(KINDS)
    good = packet(begin + sample(1024, 1, 1, 7, 7), 1_000, 2, CLEARED)
    for bad in (packet(sample(1024, 1, 9, 7, 7), 1_000, 2, NEEDED), packet(field(135, b"\x0a\x7f\x01"), 1_000, 2, NEEDED),
                packet(field(12, field(50, b"\x12\x7f")), 1_000, 2, NEEDED)):
        heap = report(write("damaged", good, bad))[7, "malloc"]
        check(by_stack(heap, "space") == {LOAD: 1024}, f"{bad}: {by_stack(heap, 'space')}")


# --- rows of SQL ---

TABLES = ("stack_sample", "stack_sample_session", "stack_sample_task_context", "stack_sample_async_context",
          "stack_sample_execution_context", "stack_sample_counter_track", "stack_sample_counter")
CYCLES, INSTRUCTIONS, COUNT = 2, 3, 9
OF_CPU = 2


def packed(number, values):
    return field(number, b"".join(varint(value) for value in values))


def inline_stack(*frames):
    """Frames as (function, file, line), each part None if it is not there; the outermost first."""
    body = b""
    for function, file, line in frames:
        one = text(1, function) if function is not None else b""
        one += text(2, file) if file else b""
        body += field(1, one + (field(3, line) if line is not None else b""))
    return field(5, body)


def stack_sample(*parts):
    return field(135, b"".join(parts))


def sampled_async(iid, name=None, kind=None, parent=None):
    body = field(1, iid) + (text(2, name) if name else b"") + (text(3, kind) if kind else b"")
    return field(12, field(51, body + (field(4, parent) if parent else b"")))


def execution(cpu=None, mode=None, iid=None):
    body = field(1, iid) if iid else b""
    return body + (field(2, cpu) if cpu is not None else b"") + (field(3, mode) if mode is not None else b"")


def several():
    """Four sequences, which are not in the order of time in the file.

    1: wall time with a follower by default, stacks inside and interned, an async context in another one.
    2: cycles of each processor, interned counters, tasks and states; one thread without its process.
    3: no source, no stack: counters only.
    4: units in words, without a unit, and one that nobody knows.
    """
    wall = field(59, field(100, text(1, "python.wall") + field(2, counter(0, "wall-time", NANOSECONDS)) +
                           field(3, counter(0, "instructions", INSTRUCTIONS))))
    per_cpu = counter(5, "cycles", CYCLES) + text(6, "of each processor") + field(7, OF_CPU)
    interned = field(12, field(48, task(100, 101, iid=3)) + field(48, field(1, 4) + field(3, 909)) +
                     field(49, execution(0, 1, iid=1)) + field(49, execution(1, 5, iid=2)) + field(50, per_cpu) +
                     field(50, counter(6, "misses", unit_str="lines")))
    fiber = sampled_async(6, "pool", "fiber"), sampled_async(7, "worker", "fiber", 6), sampled_async(9, "unused")
    main_load = (("main", "/src/main.py", 10), ("load", None, None))
    return [
        process_tree([(100, 1, ["/bin/app"], 0)]),
        packet(tables(), 1400, 2, CLEARED),
        packet(interned + field(59, field(100, text(1, "linux.test")))
               + stack_sample(field(2, 3), field(4, 2), field(6, 1), field(10, 5), field(11, 70), packed(13, [6, 5]),
                              packed(14, [3, 4])), 1500, 2, NEEDED),
        packet(stack_sample(field(2, 3), field(4, 1), field(6, 2), field(10, 5), field(11, 80)), 2500, 2, NEEDED),
        # Without a processor, cycles have no track: only the misses have.
        packet(stack_sample(field(2, 4), field(6, 2), field(10, 5), field(11, 90), packed(13, [5, 6]), packed(14, [1, 2])),
               2600, 2, NEEDED),
        packet(stack_sample(field(1, task(100, 100)), field(9, counter(0, "ticks", COUNT)), field(11, 5)), 900, 3, CLEARED),
        packet(tables(), 950, 1, CLEARED),
        *(packet(one, 960, 1, NEEDED) for one in fiber),
        packet(wall
               + stack_sample(field(1, task(100, 101)), field(3, execution(2, 1)), inline_stack(*main_load),
                              field(11, 1000), packed(14, [500])), 1000, 1, NEEDED),
        packet(stack_sample(field(1, task(100, 101)), field(3, execution(2, 2)), field(6, 1), field(11, 2000)), 2000, 1, NEEDED),
        packet(stack_sample(field(1, field(2, 100) + field(4, 7)), inline_stack(("load", None, None)), field(11, 4000)),
               6000, 1, NEEDED),
        packet(stack_sample(inline_stack((None, None, 0)), field(11, 1 << 63)), 7000, 1, NEEDED),
        packet(field(59, field(100, text(1, "odd")))
               + stack_sample(field(1, b""), field(3, execution(mode=0)), inline_stack(*main_load),
                              field(9, counter(0, "pages", unit_str="pages", multiplier=4096)), field(11, 1)), 1500, 4, CLEARED),
        packet(stack_sample(inline_stack(*main_load), field(9, counter(0, "odd", 77)), field(11, 2),
                            field(12, text(6, "nameless")), field(12, counter(0, "", COUNT)), field(14, 8), field(14, 9),
                            field(14, 10)), 1600, 4, NEEDED),
    ]


WANTED = {
    # Callsites are numbered as in the file: 0 to 2 those of linux.test.
    "stack_sample": [
        (1, 1000, "python.wall", 1, 0, 4, 1),
        (2, 1500, "linux.test", 1, 1, 1, 2),
        (3, 1500, "odd", 2, 2, 4, 3),
        (4, 1600, "odd", None, None, 4, 3),
        (5, 2000, "python.wall", 1, 3, 1, 1),
        (6, 2500, "linux.test", 1, 4, 2, 2),
        (7, 2600, "linux.test", 3, None, 2, 2),
        (8, 6000, "python.wall", 4, None, 5, 1),
        (9, 7000, "python.wall", None, None, 6, 1),
    ],
    "stack_sample_session": [(1, "python.wall", "ns", None), (2, "linux.test", "cycles", None), (3, "odd", "pages", None)],
    "stack_sample_task_context": [(1, 2, 3, None), (2, None, None, None), (3, None, 4, None), (4, 2, None, 1)],
    "stack_sample_async_context": [(0, "pool", "fiber", None), (1, "worker", "fiber", 0)],
    "stack_sample_execution_context": [(0, 2, "user"), (1, 1, "guest_kernel"), (2, None, None), (3, 2, "kernel"), (4, 0, "user")],
}
SESSION_COUNTER, CPU_COUNTER = "stack_sample_session_counter", "stack_sample_cpu_counter"
TRACKS = [  # id, name, type, unit, description, session_id, cpu, is_timebase
    (1, "wall-time", SESSION_COUNTER, "ns", None, 1, None, 1),
    (2, "instructions", SESSION_COUNTER, "instructions", None, 1, None, 0),
    (3, "cycles", CPU_COUNTER, "cycles", "of each processor", 2, 1, 1),
    (4, "misses", SESSION_COUNTER, "lines", None, 2, None, 0),
    (5, "pages", SESSION_COUNTER, "pages", None, 3, None, 1),
    (6, "odd", SESSION_COUNTER, "", None, 3, None, 1),
    (7, None, SESSION_COUNTER, None, "nameless", 3, None, 0),  # and the one that is named ""
    (8, "cycles", CPU_COUNTER, "cycles", "of each processor", 2, 0, 1),
]
VALUES = [  # id, stack_sample_id, track_id, value
    (1, 1, 1, 1000), (2, 1, 2, 500), (3, 2, 3, 70), (4, 2, 4, 3), (5, 2, 3, 4), (6, 3, 5, 1), (7, 4, 6, 2), (8, 4, 7, 8),
    (9, 4, 7, 9), (10, 5, 1, 2000), (11, 6, 8, 80), (12, 7, 4, 2), (13, 8, 1, 4000), (14, 9, 1, float(1 << 63)),
]


def check_rows(path):
    for table, wanted in WANTED.items():
        expect(path, f"select * from {table}", wanted)
    expect(path, "select id, name, type, unit, description, session_id, cpu, is_timebase from stack_sample_counter_track", TRACKS)
    expect(path, "select distinct parent_id, source_arg_set_id, machine_id from stack_sample_counter_track", [(None, None, 0)])
    expect(path, "select * from stack_sample_counter", VALUES)


def test_rows():
    """Rows are those of the trace processor: numbers by time, what is not in the packet NULL, samples without a stack left out."""
    path = write("several", *several())
    check_rows(path)
    # Values are counters like others; those of samples without a stack, too.
    expect(path, "select id, ts, track_id, value from counter where id in (0, 14)", [(0, 900, 0, 5), (14, 7000, 1, float(1 << 63))])
    expect(path, "select count(*), sum(c.value = s.value) from stack_sample_counter s join counter c using (id, track_id) "
           "join stack_sample m on m.id = stack_sample_id and m.ts = c.ts", [(14, 14)])
    expect(path, "select name, unit from counter_track order by id limit 2", [("ticks", "count"), ("wall-time", "ns")])
    expect(path, "select utid, tid, upid, is_main_thread from thread where utid > 2", [(3, 101, 2, 0), (4, 909, None, None)])
    expect(path, "select count(*) from heap_profile", [(0,)])


def test_stacks():
    """Stacks of rows: frames without interned data have a mapping of their own, and lines; a frame may have no name."""
    path = write("stacks", *several())
    stack = ("with recursive s(id, depth, parent_id, frame_id) as (select c.id, c.depth, c.parent_id, c.frame_id from "
             "stack_profile_callsite c join stack_sample on callsite_id = c.id where ts = {} and source = 'python.wall' union "
             "select c.id, c.depth, c.parent_id, c.frame_id from stack_profile_callsite c join s on c.id = s.parent_id) "
             "select f.name, m.name as module, source_file, line_number from s join stack_profile_frame f on f.id = frame_id "
             "join stack_profile_mapping m on m.id = f.mapping left join stack_profile_symbol using (symbol_set_id) order by s.depth")
    inline = "stack_sample_inline"
    expect(path, stack.format(1000), [("main", inline, "/src/main.py", 10), ("load", inline, None, None)])
    expect(path, stack.format(2000), [("main", "/chromium", None, None), ("load", "/chromium", None, None)])
    expect(path, stack.format(7000), [(None, inline, None, 0)])


def test_include():
    """Queries of Perfetto's UI run: the module is there already, and may be included."""
    path = write("include", *several())
    expect(path, "include perfetto module prelude.after_eof.stack_samples; select ct.name, sum(c.value) from stack_sample p "
           "join stack_sample_counter c on c.stack_sample_id = p.id join stack_sample_counter_track ct on c.track_id = ct.id "
           "left join stack_sample_task_context tc on tc.id = p.task_context_id left join thread t on t.utid = tc.utid "
           "where p.ts between 1000 and 2500 and coalesce(tc.upid, t.upid) = 2 group by 1 order by 1",
           [("cycles", 154), ("instructions", 500), ("misses", 3), ("wall-time", 3000)])


def test_export():
    """An exported database has the same rows, also of several traces, whose numbers go on."""
    path, database = write("exported", *several()), os.path.join(WORK, "exported.sqlite")
    outcome = run([TOOL, "query", path, "--export", database])
    check(outcome.status == 0, f"{outcome.stderr!r}")
    check_rows(database)
    expect(database, "include perfetto module prelude.after_eof.stack_samples; select count(*) from stack_sample", [(9,)])
    for table in TABLES:
        check(rows([path, path], f"select * from {table}")[0][:len(rows(path, f'select * from {table}')[0])] ==
              rows(path, f"select * from {table}")[0], table)
    joined = ("select s.trace_id, s.id, m.source, p.pid, tid, u.cpu_mode, t.name, c.value from stack_sample s "
              "join stack_sample_session m on m.id = s.session_id join stack_sample_task_context k on k.id = s.task_context_id "
              "left join process p using (upid) left join thread h on h.utid = k.utid "
              "left join stack_sample_execution_context u on u.id = s.execution_context_id "
              "join stack_sample_counter c on c.stack_sample_id = s.id join stack_sample_counter_track t on t.id = c.track_id "
              "join counter v on v.id = c.id and v.value = c.value order by s.id, c.id")
    twice, _ = rows([path, path], joined)
    check(len(twice) == 2 * len(rows(path, joined)[0]) == 20, f"{len(twice)}")
    check([(1, row[1] + 10, *row[2:]) for row in twice[:10]] == twice[10:], f"{twice}")
    outcome = run([TOOL, "query", path, path, "--export", database])
    check(outcome.status == 0 and rows(database, joined)[0] == twice, f"{outcome.stderr!r}")


def test_chromium_rows():
    """The blocks of Chromium's snapshots are rows, and no heap profile in SQL; the report has its heaps."""
    path = write("chromium-rows", *chromiums())
    expect(path, "select s.id, s.ts, pid, tid, ct.name, ct.unit, value from stack_sample s join stack_sample_task_context t "
           "on t.id = task_context_id join process using (upid) join thread using (utid) join stack_sample_counter c on "
           "stack_sample_id = s.id join stack_sample_counter_track ct on ct.id = track_id order by s.id",
           [(0, 5000000000, 7, 71, "malloc", "bytes", 1024), (1, 5000000000, 7, 71, "malloc", "bytes", 4096),
            (2, 5000000000, 7, 72, "partition_alloc", "bytes", 2048), (3, 5000000000, 8, 8, "malloc", "bytes", 3072),
            (4, 6000000000, 7, 71, "malloc", "bytes", 5120), (5, 6000000000, 7, 72, "malloc", "bytes", 1024),
            (6, 6000000000, 7, 71, "malloc", "bytes", 1024)])
    expect(path, "select id, source, timebase_unit from stack_sample_session", [(0, CHROMIUM, "bytes"), (1, CHROMIUM, "bytes")])
    expect(path, "select (select count(*) from heap_profile), count(distinct callsite_id) from stack_sample", [(0, 2)])


def test_clocks():
    """Times are trace time, and numbers follow it, whatever clock a sequence has."""
    begin = defaults("a", counter(0, "wall", NANOSECONDS)) + tables()
    late = packet(begin + sample(1, 1, pid=9), 100, 2, CLEARED, clock=3)
    early = packet(begin + sample(2, 1, pid=9), 4_000, 3, CLEARED)
    path = write("clocks", snapshot({6: 5_000, 3: 100}), late, early)
    expect(path, "select s.id, ts, session_id, value from stack_sample s join stack_sample_counter c on s.id = stack_sample_id",
           [(0, 4000, 0, 2), (1, 5000, 1, 1)])


def test_replaced_defaults():
    """New defaults replace all of the previous ones; so do defaults without any of stack samples."""
    begin = defaults("first", counter(0, "wall", NANOSECONDS)) + tables()
    path = write("defaults", packet(begin + sample(1, 1, pid=9), 1_000, 2, CLEARED),
                 packet(field(59, field(100, text(1, "second"))) + sample(2, 1, pid=9), 2_000, 2, NEEDED),
                 packet(field(59, field(58, 6)) + sample(3, 1, pid=9), 3_000, 2, NEEDED))
    expect(path, "select ts, source, value from stack_sample s left join stack_sample_counter on stack_sample_id = s.id",
           [(1000, "first", 1), (2000, "second", None), (3000, None, None)])


def test_inline_report():
    """A stack that is inside the sample is in the heap view, too."""
    begin = defaults("my.sampler", counter(0, "alloc", BYTES))
    stack = inline_stack(("main", "/src/main.py", 10), ("load", "/src/load.py", 20))
    path = write("inline", packet(begin + stack_sample(field(1, task(9, 9)), stack, field(11, 64)), 1_000, 5, CLEARED))
    heap = report(path)[9, "alloc"]
    check(by_stack(heap, "alloc_space") == {LOAD: 64}, f"{by_stack(heap, 'alloc_space')}")
    lines = [(one["file"], one["line"]) for one in heap["callsites"][0]["frames"]]
    check(lines == [("/src/load.py", 20), ("/src/main.py", 10)], f"{lines}")


def test_hostile_rows():
    """What the trace does not have is NULL and counted. Cut packets, circles and lists of different lengths break nothing."""
    good = packet(defaults("s", counter(0, "wall", NANOSECONDS)) + tables() + sample(1, 1, pid=7), 1_000, 2, CLEARED)
    unknown = packet(stack_sample(field(2, 77), field(4, 78), field(6, 1), field(10, 79), field(11, 5), packed(13, [80]),
                                  packed(14, [1])), 2_000, 2, NEEDED)
    got, warning = rows(write("unknown", good, unknown), "select ts, task_context_id, execution_context_id, callsite_id, "
                        "(select count(*) from stack_sample_counter where stack_sample_id = s.id) from stack_sample s")
    check(got == [(1000, 0, None, 1, 1), (2000, None, None, 1, 0)], f"{got}")
    check(b"4 references of stack samples" in warning, f"{warning!r}")
    for name, bad in (("stack", field(6, 99)), ("frame", field(12, field(7, callstack(5, [1, 99]))))):
        more = stack_sample(field(6, 5), field(11, 1)) if name == "frame" else b""
        bad = packet(bad + more if name == "frame" else stack_sample(bad, field(11, 1)), 2_000, 2, NEEDED)
        got, warning = rows(write(name, good, bad), "select (select count(*) from stack_sample), count(*) from counter")
        check(got == [(1, 2)] and b"1 references to frames" in warning, f"{name}: {got}, {warning!r}")
    for cut in (field(135, b"\x0a\x7f\x01"), stack_sample(field(1, b"\x10")), stack_sample(field(3, b"\x7f")),
                stack_sample(field(9, b"\x12\x7f")), stack_sample(field(12, b"\x12\x7f"), field(6, 1)),
                stack_sample(field(13, b"\xff"), field(6, 1)), stack_sample(field(5, b"\x0a\x03\x0a\x7f")),
                field(12, field(49, b"\x08")), field(12, field(51, b"\x12\x7f")), field(59, field(100, b"\x1a\x7f"))):
        path = write("cut", good, packet(cut, 2_000, 2, NEEDED))
        expect(path, "select value from stats where name = 'hp_damaged_packet'", [(1,)])
        expect(path, "select ts, callsite_id from stack_sample where ts = 1000", [(1000, 1)])
    circle = sampled_async(1, "a", parent=2), sampled_async(2, "b", parent=3), sampled_async(3, "c", parent=1)
    path = write("circle", packet(tables(), 900, 2, CLEARED), *(packet(one, 950, 2, NEEDED) for one in circle),
                 packet(stack_sample(field(1, field(4, 2)), field(6, 1)), 1_000, 2, NEEDED))
    expect(path, "select id, name, parent_id from stack_sample_async_context",
           [(0, "a", None), (1, "c", 0), (2, "b", 1)])
    # More weights than counters, and fewer.
    lists = stack_sample(field(6, 1), field(12, counter(0, "a")), field(12, counter(0, "b")), packed(14, [1]))
    many = stack_sample(field(6, 1), field(12, counter(0, "a")), packed(14, [2, 3, 4]))
    path = write("lists", packet(tables() + lists, 1_000, 2, CLEARED), packet(many, 2_000, 2, NEEDED))
    expect(path, "select ts, name, value from stack_sample s join stack_sample_counter c on stack_sample_id = s.id "
           "join stack_sample_counter_track t on t.id = track_id", [(1000, "a", 1), (2000, "a", 2)])


def test_no_samples():
    """A trace without samples has the tables, without rows."""
    path = write("none", process_tree([(100, 1, ["/bin/app"], 0)]))
    for table in TABLES:
        expect(path, f"select * from {table}", [])


if __name__ == "__main__":
    main()
