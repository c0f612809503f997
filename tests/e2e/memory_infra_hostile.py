#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""MemoryInfra files of a few MB whose parts multiply in a naive reader: their content is read correctly, or left out
with a reason, long before the time limit. memory_infra_hostile.py CASE"""

import csv
import io
import os
import pty
import tempfile

from harness import TOOL, check, main, run

WORK = tempfile.TemporaryDirectory()


def dump(number, strings=(), nodes=(), types=(), rows=(), region=None):
    """Return a dump. strings: (id, text); nodes: (id, string, parent or None); types: (id, string); rows: (node, type, bytes)"""
    maps = "".join((
        '"strings":[', ",".join(f'{{"id":{key},"string":"{text}"}}' for key, text in strings), '],"nodes":[',
        ",".join(f'{{"id":{key},"name_sid":{name}' + (f',"parent":{parent}}}' if parent else "}")
                 for key, name, parent in nodes),
        '],"types":[', ",".join(f'{{"id":{key},"name_sid":{name}}}' for key, name in types), "]"))
    columns = ",".join(f'"{name}":[{",".join(map(str, values))}]' for name, values in (
        ("nodes", [row[0] for row in rows]), ("types", [row[1] for row in rows]),
        ("sizes", [row[2] for row in rows]), ("counts", [1] * len(rows))))
    regions = "" if region is None else (
        f'"process_mmaps":{{"vm_regions":[{{"sa":"{region:x}","sz":"1000","pf":5,"mf":"/x","bs":{{}}}}]}},')
    return (f'{{"ph":"v","name":"periodic_interval","id":"0x{number:x}","pid":1,"ts":{1000 * number},'
            f'"args":{{"dumps":{{"level_of_detail":"detailed",{regions}"heaps_v2":{{"version":1,"maps":{{{maps}}},'
            f'"allocators":{{"malloc":{{{columns}}}}}}}}}}}}}')


def query(events, sql):
    """Return the rows and the messages."""
    path = os.path.join(WORK.name, "hostile.json")
    with open(path, "w") as out:
        out.write('{"traceEvents":[')
        for i, event in enumerate(events):
            out.write((",\n" if i > 0 else "") + event)
        out.write("]}")
    outcome = run([TOOL, "query", path, sql, "--csv"])
    check(outcome.status == 0, f"status {outcome.status}: {outcome.stderr[:300]}")
    return list(csv.reader(io.StringIO(outcome.stdout.decode())))[1:], outcome.stderr.decode()


LIVE = "select count(distinct ts), count(distinct callsite_id), sum(live_size) from hp_callsite_stats"


def test_regions():
    """An address is in none of the regions of 60,000 dumps, which all differ."""
    count = 60000
    found, _ = query((dump(i + 1, [(1, "pc:dead")], [(1, 1, None)], [(0, 1)], [(1, 0, 16)], 0x100000 + 0x1000 * i)
                      for i in range(count)), LIVE)
    check(found == [[str(count), "1", f"{16 * count}.000000"]], str(found))
    outcome = run([TOOL, "symbolize", "--no-cache", "--no-auto-symbol-paths", os.path.join(WORK.name, "hostile.json")])
    check(outcome.status == 0 and b"0 of these have one now" in outcome.stderr, str(outcome.stderr[:300]))


def test_ids():
    """There are 300,000 nodes, and 60,000 dumps that each change the meaning of an id."""
    nodes = 300000
    def events():
        yield dump(1, [(1, "f0"), (2, "g")], ((i + 1, 2, None) for i in range(nodes)), [(0, 2)], [(1, 0, 16)], 0x1000)
        for i in range(1, 60000):
            yield dump(i + 1, [(2, f"f{i % 2}")], rows=[(1, 0, 16)], region=0x1000)
    found, _ = query(events(), LIVE)
    check(found == [["60000", "3", f"{16 * 60000}.000000"]], str(found))


def test_types():
    """A frame has 200,000 types: all in one dump, then those with odd numbers, then the others."""
    count = 200000
    def events():
        yield dump(1, [(i + 1, f"t{i}") for i in range(count)] + [(count + 1, "f")], [(1, count + 1, None)],
                   [(i, i + 1) for i in range(count)], [(1, i, 16) for i in range(count)], 0x1000)
        yield dump(2, rows=[(1, i, 16) for i in range(1, count, 2)], region=0x1000)
        yield dump(3, rows=[(1, i, 16) for i in range(0, count, 2)], region=0x1000)
    found, _ = query(events(), "select ts, count(*), sum(live_count), sum(alloc_count), "
                               "sum(live_count and alloc_count > 1) from hp_part group by ts order by ts")
    check(found == [["1000000", "200000", "200000.000000", "200000.000000", "0"],
                    ["2000000", "200000", "100000.000000", "200000.000000", "0"],
                    ["3000000", "200000", "100000.000000", "300000.000000", "100000"]], str(found))


def test_broken():
    """There are 400,000 sites on a stack of 60,000 frames whose root is missing."""
    depth, sites = 60000, 400000
    found, said = query([dump(1, [(1, "f")], [(i + 1, 1, i or depth + 9) for i in range(depth)], [(0, 1)],
                              [(depth, 0, 16)] * sites, 0x1000)],
                        "select sum(live_size), max(name) from hp_callsite_stats join stack_profile_callsite c on "
                        "callsite_id = c.id join stack_profile_frame f on frame_id = f.id")
    check(found == [[f"{16 * sites}.000000", "[broken stack]"]], str(found))
    check(f"node {depth + 9}, which is in no map" in said and f"{sites - 1} more" in said, said)


def test_deep():
    """Each of 60,000 frames of a chain has a site: 3 MB, but 7 GB if each site had its own stack."""
    depth = 60000
    query([dump(1, [(1, "f")], [(i + 1, 1, i or None) for i in range(depth)], [(0, 1)],
                [(i + 1, 0, 16) for i in range(depth)], 0x1000)], LIVE)
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ["TERM"] = "xterm"
        os.execv(TOOL, [TOOL, "explore", os.path.join(WORK.name, "hostile.json")])
    said = b""
    try:
        while data := os.read(terminal, 4096):
            said += data
    except OSError:  # it has ended
        pass
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    check(status in (1, 2) and b"too many stacks, or too deep ones" in said, f"{status}: {said[-300:]}")


if __name__ == "__main__":
    main()
