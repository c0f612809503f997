#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Combined traces: heap dumps among the packets of Perfetto's other data sources, as the tracing service writes them.
Every verb has the figures of the heap dumps alone, and says what was lost.

    combined.py CASE      HEAPPROFD_BUILD names the build directory
"""

import gzip
import json
import os
import zlib

from harness import BUILD, SLOWNESS, TOOL, check, main, make_work_directory, run
from perfetto_bytes import (clocks, field, fields, heap_samples, interned, packet, process_tree, profile_packet, sample, text)

TRACECONV = os.path.join(BUILD, "traceconv")
WORK = make_work_directory("combined-")
ENVIRONMENT = {"TMPDIR": WORK, "DEBUGINFOD_URLS": "", "HOME": WORK, "HEAPPROFD_RUN_DIR": f"{WORK}/run"}
CLEARED, NEEDED = 1, 2
PROFILED, OTHER = 4711, 70000


def at(name):
    return os.path.join(WORK, name)


def write(name, *parts):
    with open(at(name), "wb") as file:
        for part in parts:
            file.write(part)
    return at(name)


def call(*command, status=0):
    outcome = run(list(command), env=ENVIRONMENT, timeout=180 * SLOWNESS)
    check(outcome.status == status, f"{command}: {outcome.status} {outcome.stderr[-2000:]!r}")
    return outcome


def report(path):
    return json.loads(call(TOOL, "report", "--json", path).stdout)


def rows(path, statement):
    return [list(row.values()) for row in json.loads(call(TOOL, "query", "--json", path, statement).stdout)]


def stacks(path, view="alloc_space"):
    return call(TRACECONV, "collapsed", "--view", view, path).stdout


def record(name):
    outcome = run([TOOL, "host", "-q", "-o", at(name), "-i", "512", "--", "jq", "-n", "[range(3000) | tostring] | length"],
                  env=ENVIRONMENT, timeout=180 * SLOWNESS)
    check(outcome.status == 0, f"host: {outcome.stderr!r}")
    with open(os.path.join(at(name), "symbolized-trace"), "rb") as file:
        return [field(1, body) for _, body in fields(file.read())]


# --- packets of other data sources ---


def scheduler(time):
    """FtraceEvents of one processor."""
    switches = b"".join(field(2, field(1, time + i) + field(2, i) + field(4, text(1, "swapper/0") + field(2, 0) + field(7, 120)))
                        for i in range(20))
    return packet(field(1, field(1, 3) + switches), timestamp=time, sequence=901)


def track_events(time):
    """Events whose names are interned under the ids that the heap dumps use, too, in sequences of their own."""
    names = interned(names={i: f"of a track {i}" for i in range(1, 9)}, frames=[(i, 1, i, 1) for i in range(1, 9)],
                     stacks={i: [1, 2] for i in range(1, 9)})
    defaults = field(59, field(58, 64) + field(11, field(1, 7)))
    clock = packet(field(6, field(1, field(1, 64) + field(2, 0) + field(3, 1)) + field(1, field(1, 6) + field(2, time))), sequence=902)
    events = [packet(field(11, field(9, 1) + field(10, 3)), timestamp=i, sequence=902, flags=NEEDED) for i in range(20)]
    return [clock, packet(names + defaults, sequence=902, flags=CLEARED), *events]


def process_stats(time):
    return packet(field(9, b"".join(field(1, field(1, OTHER + i) + field(2, 5000) + field(3, 4000)) for i in range(50))), timestamp=time)


def all_processes():
    """The process tree of a machine with thousands of processes."""
    return [process_tree([(OTHER + 1000 * part + i, 1, [f"/usr/sbin/daemon-{i}", "-d"]) for i in range(1000)],
                         [(OTHER + 1000 * part + i, OTHER + 1000 * part + i, f"main-{i}") for i in range(1000)]) for part in range(3)]


def counters(time):
    return packet(field(7, field(1, field(1, 3) + field(2, 77))), timestamp=time, sequence=903)


def foreign(time):
    lost = packet(field(35, field(1, field(1, 4096))) + field(42, 1), sequence=905, flags=NEEDED)
    marker = packet(field(36, b"\x82\x77\x49\x90"))
    return [scheduler(time), *track_events(time), process_stats(time), counters(time), lost, marker,
            packet(field(900, b"an extension")), packet(b"")]


def test_among_others():
    """All verbs have the same figures with the packets of other data sources, interleaved, packed, or in front."""
    packets = record("alone")
    alone = write("alone.trace", *packets)
    wanted = report(alone)["heaps"][0]
    mixed = []
    for i, one in enumerate(packets):
        mixed += foreign(10**12 + i * 10**6) + [one]
    body = b"".join(packets)
    half = len(packets) // 2
    made = {
        "mixed": [b"".join(all_processes()), *mixed, packet(field(33, b""))],
        "packed": [b"".join(foreign(10**12)) * 30, *(packet(field(50, zlib.compress(part))) for part in (
            b"".join(packets[:half] + foreign(1)), b"".join(foreign(2)), b"".join(packets[half:]))), b"".join(all_processes())],
        "gzipped": [gzip.compress(b"".join(foreign(10**12)) + body + b"".join(all_processes()))],
    }
    for name, parts in made.items():
        path = write(f"{name}.trace", *parts)
        found = report(path)
        check(found["warning"] == "" and len(found["heaps"]) == 1, f"{name}: {found['warning']} {len(found['heaps'])} heaps")
        for key in ("pid", "name", "command", "heap", "total", "exact_bytes", "exact_calls", "interval_bytes", "dumps", "heap_samples"):
            check(found["heaps"][0][key] == wanted[key], f"{name}: {key} is {found['heaps'][0][key]}, not {wanted[key]}")
        check(stacks(path) == stacks(alone), f"{name}: other stacks")
        allocations = "SELECT count(*), sum(size), sum(count), sum(max(size, 0)) FROM heap_profile_allocation"
        check(rows(path, allocations) == rows(alone, allocations), f"{name}: {rows(path, allocations)}")
        others = rows(path, f"SELECT count(*), min(name) FROM process WHERE pid >= {OTHER}")
        check(others == [[3000, "/usr/sbin/daemon-0"]], f"{name}: {others}")
        call(TOOL, "diff", alone, path)
        call(TOOL, "check", "--max-peak", "1G", path)
        files = call(TRACECONV, "profile", "-o", at(f"{name}.pprof"), path).stdout
        check(files != b"" and len(os.listdir(at(f"{name}.pprof"))) == wanted["dumps"], f"{name}: {files!r}")


def test_passed_through():
    """Conversions that write a trace keep all packets of other data sources."""
    packets = record("kept")
    mixed = b"".join(packets[:3] + foreign(10**12) + packets[3:] + all_processes())
    path = write("kept.trace", mixed)
    call(TRACECONV, "bundle", "--quiet", path, at("bundled.trace"))
    with open(at("bundled.trace"), "rb") as file:
        check(file.read().startswith(mixed), "bundle changes packets")
    packed = write("packed.trace", packet(field(50, zlib.compress(mixed))))
    call(TRACECONV, "decompress_packets", packed, at("unpacked.trace"))
    with open(at("unpacked.trace"), "rb") as file:
        check(file.read() == mixed, "decompress_packets changes packets")
    call(TRACECONV, "text", path, at("kept.txt"))
    call(TRACECONV, "binary", at("kept.txt"), at("again.trace"))
    with open(at("again.trace"), "rb") as file:
        check(file.read() == mixed, "text and back changes packets")


# --- losses ---


def tables(name, stack=1):
    """A function and a stack of it."""
    return interned(names={stack: name}, frames=[(stack, 0, stack, stack)], stacks={stack: [stack]})


def dump(pid, samples, time, index, body=b"", flags=NEEDED, sequence=7, dropped=False, machine=0):
    body += profile_packet([heap_samples(pid, samples, timestamp=time)], index=index) + (field(42, 1) if dropped else b"")
    return packet(body + (field(98, machine) if machine else b""), timestamp=time, sequence=sequence, flags=flags)


def test_lost_beginning():
    """A ring buffer has lost the first dumps: the report says so, and names nothing wrongly."""
    first = dump(PROFILED, [sample(1, 1000, 0, 10)], 100, 0, tables("gone", 1), CLEARED)
    second = dump(PROFILED, [sample(2, 500, 0, 5)], 200, 1, tables("seen", 2))
    third = dump(PROFILED, [sample(1, 2000, 0, 20), sample(2, 600, 0, 6)], 300, 2)
    whole = report(write("whole.trace", clocks(1, 1), first, second, third))
    check(whole["warning"] == "" and not whole["heaps"][0]["incomplete"], f"{whole['warning']}")
    lost = report(write("lost.trace", clocks(1, 1), second, third))
    check("1 packets of samples are missing" in lost["warning"], lost["warning"])
    check(lost["heaps"][0]["incomplete"], "the last dump relies on the lost one, and is not called incomplete")
    text_of = stacks(at("lost.trace")).decode()
    check("gone" not in text_of and "seen 600" in text_of and "2000" in text_of, text_of)
    check("references to frames" in lost["warning"], lost["warning"])


def test_lost_meaning():
    """The packet that gave ids new meanings is lost: the old meanings are not used."""
    first = dump(PROFILED, [sample(1, 1000, 0, 10)], 100, 0, tables("old", 1), CLEARED)
    lost = dump(PROFILED, [sample(1, 1000, 0, 10)], 200, 1, tables("new", 1), CLEARED)
    third = dump(PROFILED, [sample(1, 2000, 0, 20)], 300, 2)
    after_loss = dump(PROFILED, [sample(1, 2000, 0, 20)], 300, 2, dropped=True)
    later = dump(PROFILED, [sample(1, 3000, 0, 30)], 400, 3, tables("newest", 1), CLEARED)
    whole = stacks(write("meaning.trace", clocks(1, 1), first, lost, third)).decode()
    check("new 2000" in whole, whole)
    path = write("meaning lost.trace", clocks(1, 1), first, after_loss)
    found = stacks(path).decode()
    check("old 2000" not in found and "missing" in report(path)["warning"], f"{found} {report(path)['warning']}")
    check("newest" in stacks(write("again.trace", clocks(1, 1), first, after_loss, later)).decode(), "new tables are not read")
    # Perfetto's recorder writes its tables once, and no packet relies on the flag.
    keeps = [dump(PROFILED, [sample(1, 1000, 0, 10)], 100, 0, tables("kept", 1), CLEARED),
             dump(PROFILED, [sample(1, 2000, 0, 20)], 200, 1, flags=0, dropped=True)]
    check("kept 2000" in stacks(write("kept names.trace", clocks(1, 1), *keeps)).decode(), "names are forgotten")


SUMS = "SELECT sum(count), sum(size) FROM heap_profile_allocation WHERE count > 0"


def period(pid, bytes_ever, count, begin, end, index, calls=None):
    """A dump as Perfetto's recorder times it: it begins when the one before ended."""
    body = tables("grows") if index == 0 else b""
    extra = field(15, begin) + (field(5, field(2, calls)) if calls is not None else b"")
    heap = heap_samples(pid, [sample(1, bytes_ever, 0, count)], timestamp=end, extra=extra)
    return packet(body + profile_packet([heap], index=index), timestamp=end, sequence=7, flags=NEEDED if index else CLEARED)


def test_lost_between():
    """A dump that is lost in the middle does not make the next one another heap, whose figures would count again."""
    dumps = [period(PROFILED, 100 * n, n, 100 * n, 100 * n + 100, n - 1, calls=n) for n in range(1, 8)]
    whole = write("between.trace", clocks(1, 1), *dumps)
    path = write("between lost.trace", clocks(1, 1), *dumps[:3], *dumps[4:])
    found = report(path)
    check([h["total"]["alloc_space"]["estimate"] for h in found["heaps"]] == [700], f"{found['heaps']}")
    check("1 packets of samples are missing" in found["warning"], found["warning"])
    check(rows(path, SUMS) == rows(whole, SUMS) == [[7, 700]], f"{rows(path, SUMS)} {rows(whole, SUMS)}")
    # The next client of the same pid begins at 0, whatever was lost.
    other = [period(PROFILED, 10 * n, n, 1000 + 100 * n, 1100 + 100 * n, n + 7, calls=n) for n in range(1, 4)]
    found = report(write("between clients.trace", clocks(1, 1), *dumps, *other))
    check([h["total"]["alloc_space"]["estimate"] for h in found["heaps"]] == [700, 30], f"{found['heaps']}")

    # The same with a recording of ours.
    script = "for (1..40) { push @kept, 'x' x 100_000; select undef, undef, undef, 0.05 }"
    call(TOOL, "host", "-q", "-o", at("growing"), "-i", "1", "-c", "100", "--", "perl", "-e", script)
    with open(os.path.join(at("growing"), "symbolized-trace"), "rb") as file:
        packets = [body for _, body in fields(file.read())]
    profiles = [n for n, body in enumerate(packets) if any(number == 37 for number, _ in fields(body))]
    if not check(len(profiles) >= 5, f"{len(profiles)} dumps"):
        return
    del packets[profiles[len(profiles) // 2]]
    lost = write("growing lost.trace", *(field(1, body) for body in packets))
    before, after = report(at("growing")), report(lost)
    check(len(after["heaps"]) == len(before["heaps"]) == 1, f"{len(after['heaps'])} heaps")
    check(after["heaps"][0]["exact_calls"] == before["heaps"][0]["exact_calls"], "exact calls")
    ever, ever_before = (rows(path, SUMS)[0][1] for path in (lost, at("growing")))
    check(0.9 * ever_before < ever <= ever_before, f"{ever} of {ever_before} bytes")
    check("missing" in after["warning"], after["warning"])


def service_packets(heap_buffer, losses):
    """The configuration and the statistics of a service's session; losses: {field of BufferStats: count} of each buffer."""
    def source(name, buffer):
        return field(2, field(1, text(1, name) + field(2, buffer)))
    config = source("linux.ftrace", 1 - heap_buffer) + source("android.heapprofd", heap_buffer)
    stats = b"".join(field(1, b"".join(field(number, count) for number, count in of.items())) for of in losses)
    return [packet(field(33, config)), packet(field(35, stats))]


def test_service_losses():
    """The service's own statistics tell that a whole profile may be missing; losses of other buffers do not matter."""
    heap = dump(PROFILED, [sample(1, 1000, 0, 10)], 100, 0, tables("main"), CLEARED)
    for buffer, wanted in ((0, True), (1, False)):
        for name, order in (("first", lambda config, stats: [config, heap, stats]), ("last", lambda config, stats: [stats, heap, config])):
            packets = order(*service_packets(buffer, [{3: 7, 18: 2, 19: 1}, {3: 0}]))
            warning = report(write(f"{name}.trace", clocks(1, 1), *packets))["warning"]
            check(("7 chunks overwritten, 2 discarded, 1 packets" in warning) == wanted, f"buffer {buffer}, {name}: {warning!r}")
    nothing = write("nothing.trace", *service_packets(0, [{3: 7}]))
    check("7 chunks overwritten" in call(TOOL, "report", nothing, status=1).stderr.decode(), "a lost profile is not explained")


def test_several_sources():
    """Two data sources count in sequences of their own, with ids of their own."""
    packets = [clocks(1, 1), process_tree([(1, 0, ["one"]), (2, 0, ["two"])])]
    for i in range(3):
        packets.append(dump(1, [sample(1, 100 * (i + 1), 0, i + 1)], 100 + i, i, tables("of_one", 1), CLEARED, sequence=7))
        packets.append(dump(2, [sample(1, 70 * (i + 1), 0, i + 1)], 100 + i, i, tables("of_two", 1), CLEARED, sequence=8))
    found = report(write("sources.trace", *packets))
    check(found["warning"] == "" and [(h["name"], h["total"]["alloc_space"]["estimate"]) for h in found["heaps"]] ==
          [("one", 300), ("two", 210)], f"{found['warning']} {[(h['name'], h['total']) for h in found['heaps']]}")
    text_of = stacks(at("sources.trace")).decode()
    check("of_one 300" in text_of and "of_two 210" in text_of, text_of)


def test_machines():
    """Processes of two machines have the same pid, and stay two."""
    tree = field(2, field(1, field(1, 5) + field(2, 1) + text(3, "far")))
    packets = [clocks(1, 1), process_tree([(5, 1, ["near"])]), packet(tree + field(98, 77)),
               dump(5, [sample(1, 100, 0, 1)], 100, 0, tables("of_near"), CLEARED, sequence=7),
               dump(5, [sample(1, 900, 0, 9)], 100, 0, tables("of_far"), CLEARED, sequence=8, machine=77),
               dump(5, [sample(1, 200, 0, 2)], 200, 1, sequence=7),
               packet(field(6, field(1, field(1, 6) + field(2, 10**15)) + field(1, field(1, 4) + field(2, 1))) + field(98, 77))]
    found = report(write("machines.trace", *packets))
    heaps = sorted((h["pid"], h["name"], h["dumps"], h["total"]["alloc_space"]["estimate"]) for h in found["heaps"])
    check(heaps == [(5, "far", 1, 900), (5, "near", 2, 200)], f"{heaps} {found['warning']}")
    check(rows(at("machines.trace"), "SELECT DISTINCT ts FROM heap_profile_allocation ORDER BY ts")[0] == [100], "other clocks")


def test_no_dump():
    """A trace of the service without a dump says what the service says: how long it waited, and what was dropped."""
    source = field(2, field(1, text(1, "android.heapprofd") + field(2, 0)))
    config = packet(field(33, source + field(23, 1)), sequence=1)
    first = packet(field(2, field(1, field(1, PROFILED) + field(2, 1))) + field(42, 1) + field(87, 1), sequence=2, flags=CLEARED)
    later = packet(field(42, 1), sequence=2)
    stats = packet(field(35, b""), sequence=1)
    for name, packets, told, untold in (
            ("ended", (config, first, stats), "in the 1 ms", "were dropped"),
            ("dropped", (config, first, later, stats), "were dropped in 1 place", "first second"),
            ("killed", (config, first), "first second", "in the 1 ms")):
        outcome = call(TOOL, "report", write(name, *packets), status=1)
        check(told.encode() in outcome.stderr and untold.encode() not in outcome.stderr, f"{name}: {outcome.stderr!r}")


main()
