#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The screens of heap_profile explore, key by key, on a pseudo-terminal: explore.py CASE"""

import os

from exploring import (
    GROWN, KEYS_80, SITES, directory, explore, memory_infra, quit_it, shows, trace, two_dumps,
    under_cursor, until, usual,
)
from harness import TOOL, check, main, program, run


def test_first_screen():
    terminal = explore(usual())
    shows(terminal, "first", """
 made.json@last: prog (100), malloc                                13.0 kB live
 Top-down (Tree)  [Stack frame]  Object type
Current path              │     vSize     Count  Share  Stack frame
everything         13.0 kB│   10.5 kB        78  80.8%  main
                          │   2.50 kB        25  19.2%  start
~
 main                                                                    1 of 2
""" + KEYS_80)
    under_cursor(terminal, "main", "at first")
    quit_it(terminal)


def test_steps():
    """Enter a row, leave it, change the tab, and continue from there."""
    terminal = explore(usual())
    until(terminal, "start", "first")
    terminal.send("enter")
    shows(terminal, "into main", """
 made.json@last: prog (100), malloc                                13.0 kB live
 Top-down (Tree)  [Stack frame]  Object type
Current path              │     vSize     Count  Share  Stack frame
everything         13.0 kB│   4.00 kB        40  38.1%  walk
main               10.5 kB│   3.50 kB        35  33.3%  parse
                          │   3.00 kB         3  28.6%  read
~
 walk                                                                    1 of 3
""" + KEYS_80)
    terminal.send("down", "enter")
    shows(terminal, "into parse", """
 made.json@last: prog (100), malloc                                13.0 kB live
 Top-down (Tree)  [Stack frame]  Object type
Current path              │     vSize     Count  Share  Stack frame
everything         13.0 kB│   3.00 kB        30  85.7%  build
main               10.5 kB│     500 B         5  14.3%  <self>
parse              3.50 kB│
~
 build                                                                   1 of 2
""" + KEYS_80)
    terminal.send("right")
    shows(terminal, "by type", """
 made.json@last: prog (100), malloc                                13.0 kB live
 Top-down (Tree)   Stack frame  [Object type]
Current path              │     vSize     Count  Share  Object type
everything         13.0 kB│   2.00 kB        20  57.1%  Image
main               10.5 kB│   1.50 kB        15  42.9%  Text
parse              3.50 kB│
~
 Image                                                                   1 of 2
""" + KEYS_80)
    terminal.send("down", "enter")
    shows(terminal, "into a type, then by frame", """
 made.json@last: prog (100), malloc                                13.0 kB live
 Top-down (Tree)  [Stack frame]  Object type
Current path              │     vSize     Count  Share  Stack frame
everything         13.0 kB│   1.00 kB        10  66.7%  build
main               10.5 kB│     500 B         5  33.3%  <self>
parse              3.50 kB│
type Text          1.50 kB│
~
 build                                                                   1 of 2
""" + KEYS_80)
    terminal.send("enter")
    shows(terminal, "into a frame after the type", """
 made.json@last: prog (100), malloc                                13.0 kB live
 Top-down (Tree)  [Stack frame]  Object type
Current path              │     vSize     Count  Share  Stack frame
everything         13.0 kB│   1.00 kB        10 100.0%  copy
main               10.5 kB│
parse              3.50 kB│
type Text          1.50 kB│
build              1.00 kB│
~
 copy                                                                    1 of 1
""" + KEYS_80)
    terminal.send("backspace", "backspace")
    shows(terminal, "out of the type: its tab, the cursor where it was", """
 made.json@last: prog (100), malloc                                13.0 kB live
 Top-down (Tree)   Stack frame  [Object type]
Current path              │     vSize     Count  Share  Object type
everything         13.0 kB│   2.00 kB        20  57.1%  Image
main               10.5 kB│   1.50 kB        15  42.9%  Text
parse              3.50 kB│
~
 Text                                                                    2 of 2
""" + KEYS_80)
    terminal.send("backspace", "backspace", "backspace")
    until(terminal, "That is the whole profile.", "out of everything")
    under_cursor(terminal, "main", "back at the root")
    quit_it(terminal)


def test_heavy():
    terminal = explore("--mode", "heavy", usual())
    shows(terminal, "heavy: walk is on one stack three times, and counts once", """
 made.json@last: prog (100), malloc                                13.0 kB live
 Top-down (Heavy)  [Stack frame]  Object type
Current path              │     vSize     Count  Share  Stack frame
everything         13.0 kB│   13.0 kB       103 100.0%  <self>
                          │   10.5 kB        78  80.8%  copy
                          │   10.5 kB        78  80.8%  main
                          │   5.50 kB        28  42.3%  read
                          │   4.00 kB        40  30.8%  walk
                          │   3.50 kB        35  26.9%  parse
                          │   3.00 kB        30  23.1%  build
                          │   2.50 kB        25  19.2%  start
~
 <self>                                                                  1 of 8
""" + KEYS_80)
    terminal.send("/", "walk", "enter", "enter")
    shows(terminal, "what walk calls, from any place", """
 made.json@last: prog (100), malloc                                13.0 kB live
 Top-down (Heavy)  [Stack frame]  Object type
Current path              │     vSize     Count  Share  Stack frame
everything         13.0 kB│   4.00 kB        40 100.0%  copy
walk               4.00 kB│   4.00 kB        40 100.0%  walk
~
 copy                                                                    1 of 2
""" + KEYS_80)
    terminal.send("v")
    until(terminal, "Bottom-up", "the next mode")
    shows(terminal, "bottom-up: who allocates", """
 made.json@last: prog (100), malloc                                13.0 kB live
 Bottom-up  [Stack frame]  Object type
Current path              │     vSize     Count  Share  Stack frame
everything         13.0 kB│   10.5 kB        78  80.8%  copy
                          │   2.00 kB        20  15.4%  build
                          │     500 B         5   3.8%  parse
~
 copy                                                                    1 of 3
""" + KEYS_80)
    terminal.send("enter")
    shows(terminal, "and who calls it", """
 made.json@last: prog (100), malloc                                13.0 kB live
 Bottom-up  [Stack frame]  Object type
Current path              │     vSize     Count  Share  Stack frame
everything         13.0 kB│   5.50 kB        28  52.4%  read
copy               10.5 kB│   4.00 kB        40  38.1%  walk
                          │   1.00 kB        10   9.5%  build
~
 read                                                                    1 of 3
""" + KEYS_80)
    terminal.send("v")
    until(terminal, "Top-down (Tree)", "the first mode again")
    quit_it(terminal)


def test_dumps():
    path = two_dumps()
    terminal = explore(path + "@1", path + "@last")
    shows(terminal, "two dumps", """
 two.json@1, @last: prog (100), malloc                             13.0 kB live
 Top-down (Tree)  [Stack frame]  Object type
Current path              │        @1     @last     vDiff  Stack frame
everything             0 B│   10.5 kB   10.5 kB       0 B  main
                          │   2.50 kB   2.50 kB       0 B  start
~
 main                                                                    1 of 2
""" + KEYS_80)
    terminal.send("enter")
    difference = """
 two.json@1, @last: prog (100), malloc                             13.0 kB live
 Top-down (Tree)  [Stack frame]  Object type
Current path              │        @1     @last     vDiff  Stack frame
everything             0 B│   3.50 kB   6.50 kB  +3.00 kB  parse
main                   0 B│   4.00 kB   4.00 kB       0 B  walk
                          │   3.00 kB       0 B  −3.00 kB  read
~
 parse                                                                   1 of 3
""" + KEYS_80
    shows(terminal, "what grew, what shrank", difference)
    terminal.send("x")
    shows(terminal, "the maximum", """
 two.json@1, @last: prog (100), malloc                             13.0 kB live
 Top-down (Tree)  [Stack frame]  Object type
Current path              │        @1     @last      vMax  Stack frame
everything         13.0 kB│   3.50 kB   6.50 kB   6.50 kB  parse
main               10.5 kB│   4.00 kB   4.00 kB   4.00 kB  walk
                          │   3.00 kB       0 B   3.00 kB  read
~
 parse                                                                   1 of 3
""" + KEYS_80)
    terminal.send("x", "c")
    shows(terminal, "counts", """
 two.json@1, @last: prog (100), malloc                             13.0 kB live
 Top-down (Tree)  [Stack frame]  Object type
Current path              │      @1 n   @last n    Diff n  Stack frame
everything              −3│        35        35         0  parse
main                    −3│        40        40         0  walk
                          │         3         0        −3  read
~
 parse                                                                   1 of 3
""" + KEYS_80)
    terminal.send("c", "d")
    shows(terminal, "the dumps", """
 Dumps
 [x] 1          0.000 s     13.0 kB live
 [x] last       1.000 s     13.0 kB live
~
 Space marks  Enter takes  q back
""", path_width=0)
    terminal.send(" ", "enter")  # the cursor is on the last row shown
    shows(terminal, "one of them alone, the path as it was", """
 two.json@1: prog (100), malloc                                    13.0 kB live
 Top-down (Tree)  [Stack frame]  Object type
Current path              │     vSize     Count  Share  Stack frame
everything         13.0 kB│   4.00 kB        40  38.1%  walk
main               10.5 kB│   3.50 kB        35  33.3%  parse
                          │   3.00 kB         3  28.6%  read
~
 walk                                                                    1 of 3
""" + KEYS_80)
    terminal.send("d", " ", "down", " ", "enter")
    shows(terminal, "both again", difference)
    quit_it(terminal)


def test_four_dumps():
    """If dumps do not fit the line, the difference and its two dumps are shown."""
    halves = [(s, t, b // 2, c) for s, t, b, c in SITES]
    path = memory_infra("four.json", {(100, "prog"): [{"malloc": x} for x in (halves, SITES, GROWN, SITES)]})
    terminal = explore(*(f"{path}@{i}" for i in (1, 2, 3, 4)))
    until(terminal, "start", "first")
    terminal.send("enter")
    shows(terminal, "in 80 columns", """
 four.json@1, @2, @3, @4: prog (100), malloc                       13.0 kB live
 Top-down (Tree)  [Stack frame]  Object type
Current path              │        @1        @4     vDiff  Stack frame
everything        +6.50 kB│   2.00 kB   4.00 kB  +2.00 kB  walk
main              +5.25 kB│   1.75 kB   3.50 kB  +1.75 kB  parse
                          │   1.50 kB   3.00 kB  +1.50 kB  read
~
 walk                                                                    1 of 3
""" + KEYS_80)
    terminal.send("x")
    until(terminal, "1.75 kB   3.50 kB   6.50 kB  parse", "the maximum is between")
    terminal.resize(100, 24)
    until(terminal, "@1        @2        @3        @4", "with more room")
    until(terminal, "1.75 kB   3.50 kB   6.50 kB   3.50 kB   6.50 kB  parse", "all four")
    quit_it(terminal)


def test_directories():
    """Profiles of heap_profile are named by their directories, because their files have the same name."""
    paths = []
    for name in ("before", "after"):
        os.mkdir(os.path.join(directory, name))
        paths.append(memory_infra(name + "/symbolized-trace", {(100, "prog"): [{"malloc": SITES}]}))
    terminal = explore(os.path.dirname(paths[0]), paths[1])
    until(terminal, "#1 before@last, #2 after@last: prog, malloc", "both")
    quit_it(terminal)


def test_traces():
    """Two files are distinguished by number, and matched by name."""
    one, other = usual(), memory_infra("other.json", {(200, "prog"): [{"malloc": GROWN}]})
    terminal = explore(one, other)
    until(terminal, "start", "first")
    terminal.send("enter")
    shows(terminal, "side by side", """
 #1 made.json@last, #2 other.json@last: prog, malloc               13.0 kB live
 Top-down (Tree)  [Stack frame]  Object type
Current path              │        #1        #2     vDiff  Stack frame
everything             0 B│   3.50 kB   6.50 kB  +3.00 kB  parse
main                   0 B│   4.00 kB   4.00 kB       0 B  walk
                          │   3.00 kB       0 B  −3.00 kB  read
~
 parse                                                                   1 of 3
""" + KEYS_80)
    # Wide enough for all figures of both files.
    terminal.resize(120, 24)
    shows(terminal, "wider", """
 #1 made.json@last, #2 other.json@last: prog, malloc                                                       13.0 kB live
 Top-down (Tree)  [Stack frame]  Object type
Current path                            │        #1        #2     vDiff      #1 n      #2 n    Diff n  Stack frame
everything                           0 B│   3.50 kB   6.50 kB  +3.00 kB        35        35         0  parse
main                                 0 B│   4.00 kB   4.00 kB       0 B        40        40         0  walk
                                        │   3.00 kB       0 B  −3.00 kB         3         0        −3  read
~
 parse                                                                                                           1 of 3
 Enter in  Backspace out  Left/Right by what  / search  v view  d dumps  ? help  q quit
""", path_width=40)
    green = [line.split() for line in terminal.screen.with_attribute("fore 2")]
    check(green == [["−3.00", "kB", "−3"]], f"shrunk rows are not green: {green}")
    quit_it(terminal)


def test_processes():
    path = memory_infra("several.json", {
        (100, "browser"): [{"malloc": SITES, "partition_alloc": SITES[:2]}],
        (101, "renderer"): [{"malloc": SITES[:1]}],
    })
    terminal = explore(path)
    shows(terminal, "the largest heap of the largest process", """
 several.json@last: 2 processes, 2 heaps                           17.0 kB live
 Top-down (Tree)  [Stack frame]  Object type   Heap   Process
Current path              │     vSize     Count  Share  Stack frame
everything         17.0 kB│   10.5 kB        78  80.8%  main
process browser…   16.0 kB│   2.50 kB        25  19.2%  start
heap malloc        13.0 kB│
~
 main                                                                    1 of 2
This is the largest heap; Backspace shows the others.
""")
    terminal.send("backspace")
    until(terminal, "[Heap]", "the tab of heaps")
    terminal.send("backspace")
    shows(terminal, "what processes have", """
 several.json@last: 2 processes, 2 heaps                           17.0 kB live
 Top-down (Tree)   Stack frame   Object type   Heap  [Process]
Current path              │     vSize     Count  Share  Process
everything         17.0 kB│   16.0 kB       133  94.1%  browser (100)
                          │   1.00 kB        10   5.9%  renderer (101)
~
 browser (100)                                                           1 of 2
""" + KEYS_80)
    terminal.send("enter", "left", "left")
    until(terminal, "[Heap]", "the tab of heaps")
    terminal.send("enter")
    until(terminal, "heap malloc", "into a process and a heap")
    terminal.send("enter", "h")
    shows(terminal, "heaps to choose from", """
 Heap
 all
 malloc
 partition_alloc
~
 Enter takes  q back
""", path_width=0)
    terminal.send("down", "enter")
    until(terminal, "heap partition", "another heap")
    until(terminal, "3.00 kB        30 100.0%  parse", "the path goes on as it did")
    terminal.send("p")
    until(terminal, " renderer (101)", "processes to choose from")
    terminal.send("down", "enter")
    shows(terminal, "a process that has not this heap", """
 several.json@last: 2 processes, 2 heaps                           17.0 kB live
 Top-down (Tree)  [Stack frame]  Object type   Heap   Process
Current path              │     vSize     Count  Share  Stack frame
everything         17.0 kB│   1.00 kB        10 100.0%  main
process rendere…   1.00 kB│
~
 main                                                                    1 of 1
""" + KEYS_80)
    quit_it(terminal)
    terminal = explore("--pid", "101", path)
    until(terminal, "several.json@last: renderer (101), malloc", "--pid")
    quit_it(terminal)
    terminal = explore("--heap", "partition_alloc", path)
    until(terminal, "several.json@last: browser (100), partition_alloc", "--heap")
    quit_it(terminal)


def test_search():
    terminal = explore(usual())
    until(terminal, "start", "first")
    terminal.send("/", "STA", "backspace", "backspace", "backspace", "tar", "enter")
    under_cursor(terminal, "start", "a row")
    terminal.send("/", "copy", "enter")
    shows(terminal, "what holds most below", """
 made.json@last: prog (100), malloc                                13.0 kB live
 Top-down (Tree)  [Stack frame]  Object type
Current path              │     vSize     Count  Share  Stack frame
everything         13.0 kB│   4.00 kB        40 100.0%  copy
main               10.5 kB│
walk               4.00 kB│
walk               4.00 kB│
walk               4.00 kB│
~
 copy                                                                    1 of 1
1 of 4 below; n: the next, N: the one before
""")
    terminal.send("n")
    until(terminal, "2 of 4 below", "the next")
    until(terminal, "read               3.00 kB", "the next's path")
    terminal.send("n")
    until(terminal, "read               2.50 kB", "the third")
    terminal.send("n")
    until(terminal, "build              3.00 kB", "the fourth")
    terminal.send("N")
    until(terminal, "3 of 4 below", "the one before")
    terminal.send("n", "n")
    until(terminal, "1 of 4 below", "from the first again")
    # A pattern with capitals is case-sensitive.
    terminal.send("/", "Copy", "enter")
    until(terminal, 'Nothing here or below has "Copy" in its name.', "nothing")
    terminal.send("/", "x", "escape")
    until(terminal, "Enter in", "given up")
    quit_it(terminal)


def test_sorting():
    terminal = explore(usual())
    until(terminal, "start", "first")
    terminal.send("enter")
    until(terminal, "walk", "in main")
    orders = [("s", "vCount", ["walk", "parse", "read"]), ("r", "^Count", ["read", "parse", "walk"]),
              ("s", "^Stack frame", ["walk", "read", "parse"]),
              ("r", "vStack frame", ["parse", "read", "walk"]),
              ("s", "vSize", ["walk", "parse", "read"])]
    for key, head, names in orders:
        terminal.send(key)
        until(terminal, head, "the head")
        terminal.wait(lambda s: [(line.split() or [""])[-1] for line in s.text()[3:6]] == names, 10)
        shown = [line.split()[-1] for line in terminal.screen.text()[3:6]]
        check(shown == names, f"by {head}: {shown}")
    quit_it(terminal)
    for view, head in (("objects", "vCount"), ("space", "vSize")):
        terminal = explore("--view", view, usual())
        until(terminal, head, f"--view {view}")
        quit_it(terminal)


def test_many_rows():
    """There are more rows than lines, and a path deeper than the screen."""
    stacks = [([f"leaf_{i:03}", "main"], 1000 - i, 1) for i in range(200)]
    stacks.append((["deep_end"] + [f"deep_{i}" for i in range(40, 0, -1)] + ["main"], 1, 1))
    terminal = explore(trace("rows", stacks))
    until(terminal, "main", "first")
    terminal.send("enter")
    under_cursor(terminal, "leaf_000", "the first row")
    for key, name in (("page down", "leaf_018"), ("page down", "leaf_036"), ("down", "leaf_037"),
                      ("page up", "leaf_019"), ("up", "leaf_018"), ("end", "deep_1"),
                      ("home", "leaf_000"), ("G", "deep_1"), ("g", "leaf_000"), ("\x06", "leaf_018"),
                      ("\x02", "leaf_000"), ("up", "leaf_000"), ("j", "leaf_001"), ("k", "leaf_000")):
        terminal.send(key)
        under_cursor(terminal, name, f"{key!r}")
    terminal.send("end", *["enter"] * 40)
    until(terminal, "deep_40                1 B", "far in")
    check(terminal.screen.line(3).startswith("... 24 above"), terminal.screen.line(3))
    terminal.send(*["backspace"] * 40)
    under_cursor(terminal, "deep_1", "out of it all")
    quit_it(terminal)


def test_written_rows():
    path = os.path.join(directory, "rows")
    terminal = explore(usual())
    until(terminal, "start", "first")
    terminal.send("enter", "w", "\x15", path, "enter")
    until(terminal, "Written: ", "written")
    with open(path) as file:
        text = file.read().splitlines()
    check([line.split(None, 2) for line in text[2:]] == [
        ["13000", "103", "everything"], ["10500", "78", "path: main"], ["4000", "40", "walk"],
        ["3500", "35", "parse"], ["3000", "3", "read"],
    ], f"rows: {text}")
    terminal.send("w", "\x15", path, "enter")
    until(terminal, "File exists", "not over another file")
    terminal.send("w", "escape")
    until(terminal, "Enter in", "given up")
    quit_it(terminal)


def test_types_and_contexts():
    """Profile a program that reports types and contexts of its allocations."""
    script = "register pool\nallocate 1 0 100 Node\npush main loop\npush parse\nallocate 1 1 200 Node\n" \
             "allocate 1 2 400 Style\npop 2\nallocate 1 3 50 Node\nfree 1 3\n"
    path = os.path.join(directory, "profile")
    done = run([TOOL, "host", "--quiet", "-o", path, "--all-heaps", "-i", "1", "--",
                program("heap_commanded")], stdin=script.encode())
    check(done.status == 0, f"host: {done.status}, {done.stderr[-300:]!r}")
    terminal = explore("--heap", "pool", path, lines=10)

    def rows(heading, wanted):
        until(terminal, heading, "the tab")
        def shown(screen):
            parts = [line.partition("│")[2].split() for line in screen.text()[3:8]]
            return [part for part in parts if part]
        check(terminal.wait(lambda s: shown(s) == wanted, 10), f"{heading}: {shown(terminal.screen)}")

    until(terminal, "700 B live", "first")
    terminal.send("right")
    rows("[Object type]", [["400", "B", "1", "57.1%", "Style"], ["300", "B", "2", "42.9%", "Node"]])
    terminal.send("right")
    rows("[Context]", [["600", "B", "2", "85.7%", "main", "loop;parse"], ["100", "B", "1", "14.3%", "[no", "context]"]])
    terminal.send("enter", "right")
    rows("[Object type]", [["400", "B", "1", "66.7%", "Style"], ["200", "B", "1", "33.3%", "Node"]])
    until(terminal, "in main loop;pa…     600 B", "the path")
    terminal.send("right")
    rows("[Context]", [["600", "B", "2", "100.0%", "main", "loop;parse"]])
    terminal.send("enter")
    until(terminal, "The path has that already", "once is enough")
    terminal.send("backspace")
    rows("[Context]", [["600", "B", "2", "85.7%", "main", "loop;parse"], ["100", "B", "1", "14.3%", "[no", "context]"]])
    terminal.send("f", "f")
    until(terminal, "750 B at peak", "at the peak")
    terminal.send("left")
    rows("[Object type]", [["400", "B", "1", "53.3%", "Style"], ["350", "B", "3", "46.7%", "Node"]])
    quit_it(terminal)


def test_unknown_figures():
    """A figure that the file does not contain is skipped, with a message, not shown as 0."""
    terminal = explore(usual(), "--view", "max")
    until(terminal, "'at peak' is not in the file; 'live' is shown instead.", "at first")
    under_cursor(terminal, "main", "the printed figure")
    terminal.send("f")
    until(terminal, "'allocated' is not in the file; 'live' is shown instead.", "the next figure")
    quit_it(terminal)
    path = os.path.join(directory, "stacks.txt")
    with open(path, "w") as out:
        out.write("main;parse 4000\nmain;read 1000\n")
    terminal = explore(path)
    shows(terminal, "no counts", """
 stacks.txt@last: [no name], heap                                  5.00 kB live
 Top-down (Tree)  [Stack frame]
Current path              │     vSize     Count  Share  Stack frame
everything         5.00 kB│   5.00 kB         ? 100.0%  main
~
 main                                                                    1 of 1
""" + KEYS_80)
    terminal.send("w", "enter")
    until(terminal, "Written: heap_profile-rows.txt", "a file of them")
    quit_it(terminal)
    written_path = os.path.join(directory, "heap_profile-rows.txt")
    with open(written_path) as rows:
        check(rows.read().splitlines()[-1].split() == ["5000", "?", "main"], "the written rows differ")
    os.unlink(written_path)


def test_empty_profile():
    path = trace("empty", [(["main"], 0, 0)])
    terminal = explore(path)
    shows(terminal, "empty", """
 empty@last: prog (100), libc.malloc                                   0 B live
 Top-down (Tree)  [Stack frame]
Current path              │     vSize     Count  Share  Stack frame
everything             0 B│  Nothing is here.
~

""" + KEYS_80)
    for key in ("enter", "backspace", "down", "end", "page down", "right", "v", "v", "f", "s", "/", "x", "enter", "n"):
        terminal.send(key)
    until(terminal, 'Nothing here or below has "x"', "no row to be found")
    quit_it(terminal)
    # The complete part of a truncated trace is shown, with a warning at the end.
    with open(trace("cut", [([f"f{i}", "main"], 1000, 1) for i in range(50)]), "rb") as whole_file:
        data = whole_file.read()
    cut = os.path.join(directory, "cut-off")
    with open(cut, "wb") as out:
        out.write(data + b"\x0a\xff\x01")
    terminal = explore(cut)
    until(terminal, "50.0 kB", "what is left")
    terminal.send("q")
    check(terminal.end() == 0, "status")
    check(b"cut-off" in terminal.output[terminal.output.rindex(b"\x1b[?1049l"):], "the warning at the end")
    terminal.close()


if __name__ == "__main__":
    main()
