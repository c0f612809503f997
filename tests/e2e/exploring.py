# SPDX-License-Identifier: Apache-2.0
"""Helpers of the tests of heap_profile explore: profiles with known figures, and the comparison of
whole screens."""

import atexit
import json
import os
import shutil
import tempfile

from harness import TOOL, check
from perfetto_bytes import (
    heap_samples, interned, packet, process_tree, profile_packet, sample,
)
from terminal import Terminal

directory = tempfile.mkdtemp(prefix="explore-")
atexit.register(shutil.rmtree, directory, ignore_errors=True)
KEYS_80 = " Enter in  Backspace out  Left/Right by what  / search  ? help  q quit"

# (stack, outermost first; type; bytes; count)
SITES = [
    ("main;parse;build;copy", "Text", 1000, 10),
    ("main;parse;build", "Image", 2000, 20),
    ("main;parse", "Text", 500, 5),
    ("main;read;copy", "", 3000, 3),
    ("main;walk;walk;walk;copy", "Node", 4000, 40),
    ("start;read;copy", "", 2500, 25),
]
GROWN = [(s, t, b * 2 if "build" in s else 0 if s == "main;read;copy" else b, c) for s, t, b, c in SITES]


# --- profiles ---


def memory_dump(pid, number, heaps):
    """Return a detailed dump of MemoryInfra. heaps: {name: sites}."""
    strings, nodes, types, allocators = {}, {}, {"[unknown]": 0}, {}

    def string_id(text):
        return strings.setdefault(text, len(strings) + 1)

    for name, sites in heaps.items():
        table = {"nodes": [], "types": [], "counts": [], "sizes": []}
        for stack, kind, size, count in sites:
            if size == 0:
                continue
            parent = None
            for function in stack.split(";"):
                parent = nodes.setdefault((string_id(function), parent), len(nodes) + 1)
            table["nodes"].append(parent)
            table["types"].append(types.setdefault(kind, len(types)) if kind else 0)
            table["counts"].append(count)
            table["sizes"].append(size)
        allocators[name] = table
    named = [{"id": i, "name_sid": string_id(t)} for t, i in types.items()]
    maps = {
        "strings": [{"id": i, "string": s} for s, i in strings.items()],
        "nodes": [dict(id=i, name_sid=s, **({"parent": p} if p else {})) for (s, p), i in nodes.items()],
        "types": named,
    }
    return {
        "ph": "v", "cat": "disabled-by-default-memory-infra", "name": "periodic_interval",
        "id": hex(number), "pid": pid, "tid": -1, "ts": number * 1000000,
        "args": {"dumps": {"level_of_detail": "detailed",
                           "heaps_v2": {"version": 1, "maps": maps, "allocators": allocators}}},
    }


def memory_infra(name, processes):
    """Write a MemoryInfra file. processes: {(pid, name): [heaps of each dump]}"""
    events = []
    for (pid, process), dumps in processes.items():
        events.append({"ph": "M", "cat": "__metadata", "name": "process_name", "pid": pid, "ts": 0,
                       "args": {"name": process}})
        events += [memory_dump(pid, i, heaps) for i, heaps in enumerate(dumps, 1)]
    path = os.path.join(directory, name)
    with open(path, "w") as out:
        json.dump({"traceEvents": events, "metadata": {}}, out)
    return path


def usual():
    return memory_infra("made.json", {(100, "prog"): [{"malloc": SITES}]})


def two_dumps():
    return memory_infra("two.json", {(100, "prog"): [{"malloc": SITES}, {"malloc": GROWN}]})


def trace(name, stacks, names=None):
    """Write a trace of Perfetto's packets. stacks: [(functions, bytes, count)], the innermost first."""
    functions = sorted({f for frames, _, _ in stacks for f in frames})
    numbers = {f: i for i, f in enumerate(functions, 1)}
    tables = interned(
        names=dict(enumerate(functions, 1)), paths={1: "usr", 2: "prog"}, build_ids={1: b"\1" * 20},
        mappings=[(1, 1, 0x1000, 0x900000, [1, 2])], frames=[(i, 1, i * 16, i) for i in numbers.values()],
        stacks={i: [numbers[f] for f in reversed(frames)] for i, (frames, _, _) in enumerate(stacks, 1)},
    )
    samples = [sample(i, size, 0, count) for i, (_, size, count) in enumerate(stacks, 1)]
    path = os.path.join(directory, name)
    with open(path, "wb") as out:
        out.write(process_tree([(100, 1, ["prog"])]))
        out.write(packet(tables, timestamp=1000000, sequence=1, flags=1))
        out.write(packet(profile_packet([heap_samples(100, samples, timestamp=1000000)], index=0),
                         timestamp=1000000, sequence=1, flags=2))
    return path


# --- the terminal ---


def explore(*arguments, **options):
    return Terminal([TOOL, "explore", *arguments], cwd=directory, **options)


def whole(text, lines=24, path_width=26):
    """Return the lines of a screen. A line ~ means as many empty lines as fill the height."""
    wanted = text.strip("\n").split("\n")
    if "~" in wanted:
        at = wanted.index("~")
        empty = [" " * path_width + "│" if path_width else ""] * (lines - len(wanted) + 1)
        wanted[at:at + 1] = empty
    return [line.rstrip() for line in wanted]


def shows(terminal, what, text, lines=24, path_width=26):
    """Wait until the screen shows these lines."""
    wanted = whole(text, lines, path_width)
    if not check(terminal.wait(lambda screen: screen.text() == wanted, 10), f"{what}: the screen"):
        for number, (has, wants) in enumerate(zip(terminal.screen.text(), wanted)):
            if has != wants:
                print(f"  line {number} is     {has!r}\n  instead of {wants!r}")


def until(terminal, text, what):
    check(terminal.wait(lambda screen: any(text in line for line in screen.text()), 10),
          f"{what}: {text!r} is not in\n" + "\n".join(terminal.screen.text()))


def under_cursor(terminal, text, what):
    """Wait until the cursor's row has the text."""
    def is_there(screen):
        rows = [line for y, line in enumerate(lines_reversed(screen)) if y > 0 and line]
        return len(rows) == 1 and text in rows[0]
    check(terminal.wait(is_there, 10), f"{what}: the cursor is on {lines_reversed(terminal.screen)[1:]}")


def lines_reversed(screen):
    return ["".join(c for c, a in row if "reverse" in a).strip() for row in screen.cells]


def quit_it(terminal, key="q"):
    terminal.send(key)
    check(terminal.end() == 0, f"status {terminal.process.poll()}")
    check(terminal.is_restored(), "the terminal is as it was")
    check(terminal.screen.entered == terminal.screen.left == 1, "the screen was put back once")
    terminal.close()
