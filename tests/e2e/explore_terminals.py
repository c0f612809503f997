#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""heap_profile explore and its terminal: kinds, sizes, keys, hostile names, and its restoration:
explore_terminals.py CASE"""

import os
import random
import signal
import subprocess

from exploring import (
    KEYS_80, directory, explore, quit_it, shows, trace, two_dumps, under_cursor, until, usual,
)
from harness import TOOL, check, main, run
from terminal import Terminal


def test_resized():
    terminal = explore(usual())
    until(terminal, "start", "first")
    terminal.send("enter", "enter")
    until(terminal, "walk               4.00 kB", "in walk")
    terminal.resize(40, 10)
    small = """
 made.json@last: prog (10… 13.0 kB live
 Top-down (Tree)  [Stack frame]
 everything > main > walk
     vSize     Count  Stack frame
   4.00 kB        40  walk




 walk                            1 of 1
 Enter in  Backspace out  ? help  q quit
"""
    shows(terminal, "40 by 10", small.replace("\n\n\n\n\n", "\n\n\n\n"), lines=10)
    terminal.resize(39, 10)
    shows(terminal, "too narrow", "Too small: 40x10 is the least.\nq quits.\n~", 10, 0)
    terminal.resize(80, 9)
    shows(terminal, "too low", "Too small: 40x10 is the least.\nq quits.\n~", 9, 0)
    terminal.resize(80, 24)
    shows(terminal, "80 by 24 again", """
 made.json@last: prog (100), malloc                                13.0 kB live
 Top-down (Tree)  [Stack frame]  Object type
Current path              │     vSize     Count  Share  Stack frame
everything         13.0 kB│   4.00 kB        40 100.0%  walk
main               10.5 kB│
walk               4.00 kB│
~
 walk                                                                    1 of 1
""" + KEYS_80)
    for columns, lines in ((300, 100), (41, 11), (72, 10), (71, 50)):
        terminal.resize(columns, lines)
        check(terminal.wait(lambda s: s.line(lines - 1).endswith("q quit"), 10),
              f"{columns} by {lines}: {terminal.screen.text()}")
        terminal.send("?")
        until(terminal, "Keys", "help")
        terminal.send("q")
        until(terminal, "walk", "back")
    terminal.resize(20, 5)
    until(terminal, "q quits.", "small again")
    quit_it(terminal)


HOSTILE = {
    "esc\x1b[2J\x1b]0;owned\x07": "esc?[2J?]0;owned?",
    "line\nfeed\ttab\x7f": "line?feed?tab?",
    "csi\xc2\x9b31m": "csi?31m",
    "\u6f22\u5b57\u95a2\u6570": "漢字関数",
    "e\u0301combining": "e?combining",
    "rtl\u202eoverride\u200bzero": "rtl?override?zero",
    b"bytes\xff\xfe\xc3": "bytes???",
    "emoji\U0001f600": "emoji😀",
    "x" * 3000: "x" * 10,
    "\u6f22" * 300: "漢" * 5,
}


def test_hostile_names():
    stacks = []
    for number, name in enumerate(HOSTILE):
        # latin-1 keeps the bytes as they are
        raw = name if isinstance(name, bytes) else name.encode("latin-1") if "\x9b" in name else name.encode()
        stacks.append(([raw, b"main"], 10000 - number, 1))
    path = trace("hostile", stacks)
    for columns in (80, 40, 79):
        terminal = explore(path, columns=columns)
        until(terminal, "main", "first")
        terminal.send("enter")
        until(terminal, "esc?[2J", "in main")
        for row, shown in enumerate(HOSTILE.values()):
            y = row + (3 if columns >= 72 else 4)
            part = shown if columns >= 72 else shown[:4]
            found = terminal.wait(lambda s: part in s.line(y), 10)
            line = terminal.screen.line(y)
            check(found, f"{columns}: {shown!r} is not in {line!r}")
            check(len(line) <= columns, f"{columns}: {line!r} is too long")
            if columns >= 72:
                check(line.split("│")[1][:10].endswith(" kB"), f"aligned: {line!r}")
        for _ in HOSTILE:
            terminal.send("down")
        terminal.send("enter")
        until(terminal, "<self>", "into the last")
        quit_it(terminal)
    # On a terminal with ASCII alone, other characters become question marks.
    terminal = explore(path, env={"LC_ALL": "C"})
    until(terminal, "main", "first")
    terminal.send("enter")
    until(terminal, "emoji?", "in main")
    check(terminal.wait(lambda s: "xxx>" in s.line(11), 10), f"cut: {terminal.screen.line(11)!r}")
    check(b"\xe6\xbc\xa2" not in terminal.output and b"\xc2\x9b" not in terminal.output, "ASCII alone")
    quit_it(terminal)


def test_terminals():
    for name in ("xterm-256color", "xterm", "screen", "linux", "vt100", "tmux-256color"):
        if run(["infocmp", name]).status != 0:
            continue
        terminal = explore(usual(), env={"TERM": name})
        until(terminal, "│", f"{name}: the rule")
        terminal.send("enter")
        shows(terminal, name, """
 made.json@last: prog (100), malloc                                13.0 kB live
 Top-down (Tree)  [Stack frame]  Object type
Current path              │     vSize     Count  Share  Stack frame
everything         13.0 kB│   4.00 kB        40  38.1%  walk
main               10.5 kB│   3.50 kB        35  33.3%  parse
                          │   3.00 kB         3  28.6%  read
~
 walk                                                                    1 of 3
""" + KEYS_80)
        # Each terminal's arrow keys, in application mode or not.
        terminal.send("\x1b[B" if name in ("linux",) else "\x1bOB")
        under_cursor(terminal, "parse", f"{name}: down")
        terminal.send("q")
        check(terminal.end() == 0, f"{name}: status")
        check(terminal.is_restored(), f"{name}: restored")
        terminal.close()


def test_no_terminal():
    path = usual()
    done = run([TOOL, "explore", path])
    check(done.status == 1 and b"heap_profile report" in done.stderr, f"no terminal: {done.stderr}")
    for name, words in (("dumb", "has no screen to draw on"), (None, "TERM is not set"), ("", "TERM is not set"),
                        ("no-such-terminal", "no terminal 'no-such-terminal'")):
        terminal = explore(path, env={"TERM": name})
        check(terminal.end() == 1, f"{name}: status {terminal.process.poll()}")
        check(words.encode() in terminal.output and b"heap_profile report" in terminal.output,
              f"{name}: {terminal.output}")
        check(b"\x1b" not in terminal.output and terminal.is_restored(), f"{name}: other output")
        terminal.close()


def test_errors():
    path = usual()
    for arguments, words in (
        (["/no/such/file"], "cannot open"), ([path + "@9"], "nothing in it has that"),
        ([path + "@x"], "@ needs"), (["--pid", "5", path], "nothing in it has that"),
        (["--mode", "sideways", path], "--mode takes"), (["--view", "x", path], "not 'x'"),
        (["--modus", "tree", path], "--mode"), ([path] * 9, "8 dumps at once"),
    ):
        terminal = explore(*arguments)
        check(terminal.end() in (1, 2), f"{arguments}: status {terminal.process.poll()}")
        check(words in " ".join(terminal.output.decode().split()), f"{arguments}: {terminal.output}")
        check(b"\x1b" not in terminal.output and terminal.is_restored(), f"{arguments}: other output")
        terminal.close()
    done = run([TOOL, "explore", "--help"])
    check(done.status == 0 and b"usage: heap_profile explore" in done.stdout, "--help")


def test_endings():
    path = usual()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        terminal = explore(path)
        until(terminal, "start", "first")
        terminal.process.send_signal(number)
        check(terminal.end() == -number, f"{number.name}: status {terminal.process.poll()}")
        check(terminal.is_restored(), f"{number.name}: restored")
        terminal.close()
    for keys in (["\x03"], ["?", "\x03"], ["/", "ab", "\x03"], ["d", "\x03"]):
        terminal = explore(path)
        until(terminal, "start", "first")
        for key in keys:
            # Ctrl-C makes the terminal discard its pending output.
            while terminal.read(0.1):
                pass
            terminal.send(key)
        check(terminal.end() == -signal.SIGINT, f"{keys}: status {terminal.process.poll()}")
        check(terminal.is_restored(), f"{keys}: restored")
        terminal.close()
    # Stop and continue it.
    terminal = explore(path)
    until(terminal, "start", "first")
    os.killpg(terminal.process.pid, signal.SIGSTOP)
    os.killpg(terminal.process.pid, signal.SIGCONT)
    terminal.send("enter")
    until(terminal, "walk", "goes on")
    # Close the terminal.
    os.close(terminal.slave)
    os.close(terminal.master)
    try:
        status = terminal.process.wait(20)
    except subprocess.TimeoutExpired:
        status = None
        terminal.process.kill()
    check(status is not None, "it ends with its terminal")


def test_stopped():
    """Ctrl-Z returns the terminal to the shell, and fg takes it back."""
    terminal = Terminal(["bash", "--norc", "--noprofile", "--noediting", "-i"], cwd=directory,
                        env={"PS1": "READY ", "TOOL": TOOL, "MADE": usual()})
    until(terminal, "READY", "the shell")
    terminal.send('"$TOOL" explore "$MADE"\n')
    until(terminal, "Enter in", "the screen")
    # ncurses ignores Ctrl-Z until it has written the screen, and a moment longer.
    for _ in range(5):
        terminal.send("\x1a")
        if terminal.wait(lambda s: any("Stopped" in line for line in s.text()), 2):
            break
    until(terminal, "Stopped", "stopped")
    check(not terminal.screen.alternate and terminal.screen.cursor_shown, "the shell's screen is not restored")
    terminal.send("stty -a | grep -o -- '-\\?icanon'\n")
    # If the shell was slow, its prompt precedes the answer.
    check(terminal.wait(lambda s: any(line.split()[-1:] == ["icanon"] for line in s.text()), 10),
          "and its modes:\n" + "\n".join(terminal.screen.text()))
    terminal.send("fg\n")
    check(terminal.wait(lambda s: s.alternate and "Enter in" in s.line(23), 10), "on again")
    terminal.send("enter")
    until(terminal, "walk", "in main")
    terminal.send("q")
    check(terminal.wait(lambda s: not s.alternate and s.cursor_shown, 10), "the end")
    terminal.close()


def test_colours():
    path = two_dumps()
    for environment, coloured in (({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "vt100"}, False)):
        terminal = explore(path + "@1", path + "@last", env=environment)
        until(terminal, "start", "first")
        terminal.send("enter", "down")
        until(terminal, "+3.00 kB", "in main")
        # The same text is on the screen before the last key, too, but not in the colour of growth.
        terminal.wait(lambda screen: (screen.with_attribute("fore 1") == ["+3.00 kB"]) == coloured)
        red = terminal.screen.with_attribute("fore 1")
        check((red == ["+3.00 kB"]) == coloured, f"{environment}: {red}")
        quit_it(terminal) if "TERM" not in environment else terminal.close()


def test_any_keys():
    """explore survives any keys and window sizes, and restores the terminal."""
    stacks = [([f"f{(i * k) % 17}" for k in range(1, 9)] + ["main"], i + 1, 1) for i in range(200)]
    paths = [trace("keys", stacks), two_dumps()]
    names = ["up", "down", "left", "right", "enter", "enter", "backspace", "page up", "page down", "home", "end",
             "escape", "\t", "é", "\x0c", *"vfsrnNdxphcemw?/ jkgGafq"]
    for seed in range(4):
        drawn = random.Random(seed)
        terminal = explore(*(paths[seed % 2] + dump for dump in (["", "@1"] if seed > 1 else [""])))
        until(terminal, "Stack frame", "first")
        for _ in range(150):
            key = drawn.choice(names)
            if key == "q":
                # These never end explore: a letter of the pattern, or the key that closes a list.
                key = "?q"
            terminal.send(key)
            if drawn.random() < 0.1:
                terminal.resize(drawn.choice((20, 39, 40, 71, 72, 80, 200)), drawn.choice((3, 9, 10, 24, 50)))
            if drawn.random() < 0.3:
                terminal.read(0.01)
        check(terminal.process.poll() is None, f"seed {seed}: it ended by {terminal.process.poll()}")
        terminal.resize(80, 24)
        # Escape closes any open prompt or list.
        terminal.send("escape", "escape", "\x0c")
        until(terminal, "q", f"seed {seed}: it answers")
        terminal.process.send_signal(signal.SIGTERM)
        check(terminal.end() == -signal.SIGTERM and terminal.is_restored(), f"seed {seed}: restored")
        terminal.close()
    for name in os.listdir(directory):
        check(name in ("keys", "two.json") or name.startswith("heap_profile-rows"), f"it wrote {name}")


def test_piped():
    """explore reads the profile from standard input and keys from the terminal."""
    with open(usual(), "rb") as file:
        terminal = explore("-", stdin=file)
        until(terminal, "start", "first")
        terminal.send("enter")
        until(terminal, "walk", "in main")
        quit_it(terminal)


if __name__ == "__main__":
    main()
