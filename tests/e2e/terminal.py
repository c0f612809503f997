# SPDX-License-Identifier: Apache-2.0
"""A program on a pseudo-terminal, and its screen: a model that understands the sequences in the terminfo
entries of xterm, screen, linux and vt100. An unknown sequence is an error."""

import codecs
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
import unicodedata

from harness import SLOWNESS

GRAPHICS = {"x": "│", "q": "─", "l": "┌", "k": "┐", "m": "└", "j": "┘", "n": "┼", "t": "├", "u": "┤",
            "v": "┴", "w": "┬"}
BLANK = (" ", frozenset())
SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[()][A-Za-z0-9]|[=>78MDEHc]|\][^\x07\x1b]*(?:\x07|\x1b\\))")
# Incomplete sequences, whose rest may still arrive.
BEGINNING = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|[()]|\][^\x07\x1b]*\x1b?)?$")


def width_of(character):
    if unicodedata.combining(character) or unicodedata.category(character) in ("Cf", "Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


class Screen:
    def __init__(self, columns, lines):
        self.columns, self.lines = columns, lines
        self.decoder = codecs.getincrementaldecoder("utf-8")("strict")
        self.pending = ""
        self.clear_all()
        self.alternate = self.insert = self.keypad = False
        self.cursor_shown = self.wraps = True
        self.entered = self.left = 0

    def clear_all(self):
        self.cells = [[BLANK] * self.columns for _ in range(self.lines)]
        self.y = self.x = 0
        self.wrapping = False
        self.top, self.bottom = 0, self.lines - 1
        self.attributes = frozenset()
        self.sets, self.shifted, self.saved = ["B", "B"], 0, (0, 0)

    def resize(self, columns, lines):
        rows = [row[:columns] + [BLANK] * (columns - len(row)) for row in self.cells[:lines]]
        rows += [[BLANK] * columns for _ in range(lines - len(rows))]
        self.columns, self.lines, self.cells = columns, lines, rows
        self.top, self.bottom = 0, lines - 1
        self.y, self.x = min(self.y, lines - 1), min(self.x, columns - 1)

    def text(self):
        return [self.line(y) for y in range(self.lines)]

    def line(self, y):
        return "".join(cell[0] for cell in self.cells[y]).rstrip()

    def with_attribute(self, attribute):
        """Return the lines of the screen that have this attribute."""
        shown = ["".join(c for c, a in row if attribute in a).strip() for row in self.cells]
        return [line for line in shown if line]

    # --- input ---

    def feed(self, data):
        self.pending += self.decoder.decode(data)
        at, text = 0, self.pending
        while at < len(text):
            if text[at] != "\x1b":
                self.take(text[at])
                at += 1
                continue
            found = SEQUENCE.match(text, at)
            if found:
                self.obey(found.group())
                at = found.end()
            elif BEGINNING.match(text, at):
                break
            else:
                raise ValueError(f"unknown sequence {text[at:at + 20]!r}")
        self.pending = text[at:]

    def take(self, character):
        if character == "\r":
            self.x, self.wrapping = 0, False
        elif character == "\n":
            self.line_feed()
        elif character == "\b":
            self.x, self.wrapping = max(self.x - 1, 0), False
        elif character == "\t":
            self.x = min(self.x // 8 * 8 + 8, self.columns - 1)
        elif character in "\x0e\x0f":
            self.shifted = int(character == "\x0e")
        elif character in "\x00\x07":
            pass
        elif ord(character) < 0x20 or 0x7F <= ord(character) < 0xA0:
            raise ValueError(f"control character {character!r}")
        else:
            self.put(character)

    def put(self, character):
        width = width_of(character)
        if width == 0:
            raise ValueError(f"character without width {character!r}")
        if self.sets[self.shifted] == "0":
            character = GRAPHICS.get(character, character)
        if self.wrapping and self.wraps:
            self.x, self.wrapping = 0, False
            self.line_feed()
        row = self.cells[self.y]
        if self.insert:
            row[self.x:self.x] = [BLANK] * width
            del row[self.columns:]
        row[self.x] = (character, self.attributes)
        if width == 2 and self.x + 1 < self.columns:
            row[self.x + 1] = ("", self.attributes)
        self.last = character
        self.x += width
        if self.x >= self.columns:
            self.x, self.wrapping = self.columns - 1, True

    def line_feed(self):
        if self.y == self.bottom:
            self.scroll(1)
        else:
            self.y = min(self.y + 1, self.lines - 1)

    def scroll(self, by, top=None):
        top = self.top if top is None else top
        for _ in range(abs(by) if top <= self.bottom else 0):
            row = [BLANK] * self.columns
            if by > 0:
                del self.cells[top]
                self.cells.insert(self.bottom, row)
            else:
                del self.cells[self.bottom]
                self.cells.insert(top, row)

    # --- sequences ---

    def obey(self, sequence):
        if sequence[1] == "[":
            self.obey_csi(sequence)
        elif sequence[1] in "()":
            self.sets["()".index(sequence[1])] = sequence[2]
        elif sequence[1] == "7":
            self.saved = (self.y, self.x)
        elif sequence[1] == "8":
            self.y, self.x = self.saved
        elif sequence[1] == "M":
            if self.y == self.top:
                self.scroll(-1)
            else:
                self.y -= 1
        elif sequence[1] in "=>":
            self.keypad = sequence[1] == "="
        elif sequence[1] == "c":
            self.clear_all()
        elif sequence[1] != "]":
            raise ValueError(f"unknown sequence {sequence!r}")

    def obey_csi(self, sequence):
        kind, body = sequence[-1], sequence[2:-1]
        if body[:1] in ("?", ">", "!"):
            self.obey_mode(sequence, body, kind)
            return
        numbers = [int(n) if n else 0 for n in body.split(";")]
        first = numbers[0]
        count, row = max(first, 1), self.cells[self.y]
        if kind != "m":
            self.wrapping = False
        blank = (" ", frozenset(a for a in self.attributes if str(a).startswith("back")))
        if kind in "Hf":
            self.y = min(max(first, 1), self.lines) - 1
            self.x = min(max((numbers + [1])[1], 1), self.columns) - 1
        elif kind == "A":
            self.y = max(self.y - count, 0)
        elif kind == "B":
            self.y = min(self.y + count, self.lines - 1)
        elif kind == "C":
            self.x = min(self.x + count, self.columns - 1)
        elif kind == "D":
            self.x = max(self.x - count, 0)
        elif kind == "G":
            self.x = min(count, self.columns) - 1
        elif kind == "d":
            self.y = min(count, self.lines) - 1
        elif kind == "K":
            begin, end = ((self.x, self.columns), (0, self.x + 1), (0, self.columns))[first]
            row[begin:end] = [blank] * (end - begin)
        elif kind == "J":
            before, after = first in (1, 2), first in (0, 2)
            for y in range(self.lines):
                for x in range(self.columns):
                    if (before and (y, x) <= (self.y, self.x)) or (after and (y, x) >= (self.y, self.x)):
                        self.cells[y][x] = blank
        elif kind == "X":
            row[self.x:self.x + count] = [blank] * min(count, self.columns - self.x)
        elif kind == "P":
            del row[self.x:self.x + count]
            row.extend([blank] * (self.columns - len(row)))
        elif kind == "@":
            row[self.x:self.x] = [blank] * count
            del row[self.columns:]
        elif kind in "LM":
            self.scroll(-count if kind == "L" else count, top=self.y)
        elif kind in "ST":
            self.scroll(count if kind == "S" else -count)
        elif kind == "b":
            for _ in range(count):
                self.put(self.last)
        elif kind == "r":
            # What was sent before a resize is clipped, as terminals do.
            self.bottom = min((numbers + [0])[1] or self.lines, self.lines) - 1
            self.top = min(count - 1, self.bottom)
            self.y = self.x = 0
        elif kind == "m":
            self.dress(numbers)
        elif kind in "hl" and first in (4, 34):  # screen: 34 is the shape of the cursor
            self.insert = kind == "h" if first == 4 else self.insert
        elif kind == "t":
            pass  # the window's title
        else:
            raise ValueError(f"unknown sequence {sequence!r}")

    def obey_mode(self, sequence, body, kind):
        on = kind == "h"
        if body[0] == ">" or body == "!" or kind not in "hl":
            if kind not in "cpm" and body != "!":
                raise ValueError(f"unknown sequence {sequence!r}")
            return
        for mode in body[1:].split(";"):
            if mode in ("1049", "47", "1047"):
                self.alternate = on
                self.entered, self.left = self.entered + on, self.left + (not on)
            elif mode == "25":
                self.cursor_shown = on
            elif mode == "7":
                self.wraps = on
            elif mode not in ("1", "12", "3", "4", "34", "5", "6", "1034", "2004"):
                raise ValueError(f"unknown mode {sequence!r}")

    def dress(self, numbers):
        attributes, at = set(self.attributes), 0
        names = {1: "bold", 2: "dim", 3: "italic", 4: "underline", 5: "blink", 7: "reverse"}
        while at < len(numbers):
            number = numbers[at]
            if number == 0 or number == 10:
                attributes = set() if number == 0 else attributes
            elif number in names:
                attributes.add(names[number])
            elif number in (22, 23, 24, 25, 27):
                attributes -= {"bold", "dim"} if number == 22 else {names[number - 20]}
            elif number == 11:
                pass
            elif number in (38, 48):
                attributes.add(f"{'fore' if number == 38 else 'back'} {numbers[at + 2]}")
                at += 2
            elif 30 <= number <= 37 or 90 <= number <= 97:
                attributes.add(f"fore {number % 10}")
            elif 40 <= number <= 47:
                attributes.add(f"back {number % 10}")
            elif number in (39, 49):
                attributes = {a for a in attributes if not a.startswith(("fore", "back")[number == 49])}
            else:
                raise ValueError(f"unknown rendition {number}")
            at += 1
        self.attributes = frozenset(attributes)


KEYS = {"up": "\x1bOA", "down": "\x1bOB", "right": "\x1bOC", "left": "\x1bOD", "home": "\x1bOH",
        "end": "\x1bOF", "page up": "\x1b[5~", "page down": "\x1b[6~", "enter": "\r",
        "backspace": "\x7f", "escape": "\x1b"}


class Terminal:
    """A program with its own terminal, the leader of its session."""

    def __init__(self, command, columns=80, lines=24, env=None, cwd=None, stdin=None):
        self.screen = Screen(columns, lines)
        self.output = b""
        self.master, slave = pty.openpty()
        self.set_size(columns, lines)
        self.modes = termios.tcgetattr(slave)

        def begin():
            os.setsid()
            fcntl.ioctl(1, termios.TIOCSCTTY, 0)

        environment = {**os.environ, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8", **(env or {})}
        environment.pop("LINES", None)
        environment.pop("COLUMNS", None)
        environment = {k: v for k, v in environment.items() if v is not None}
        self.process = subprocess.Popen(
            command, stdin=slave if stdin is None else stdin, stdout=slave, stderr=slave,
            env=environment, cwd=cwd, preexec_fn=begin, close_fds=True,
        )
        self.slave = slave  # kept open, so that its final state can be checked

    def set_size(self, columns, lines):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def resize(self, columns, lines):
        self.screen.resize(columns, lines)
        self.set_size(columns, lines)

    def send(self, *keys):
        for key in keys:
            os.write(self.master, KEYS.get(key, key).encode())

    def read(self, seconds):
        """Read what arrives in this time. Return False if nothing did."""
        ready, _, _ = select.select([self.master], [], [], seconds)
        if not ready:
            return False
        try:
            data = os.read(self.master, 65536)
        except OSError:
            return False
        self.output += data
        self.screen.feed(data)
        return bool(data)

    def wait(self, wanted, seconds=20):
        """Read until wanted(screen) is true. Return whether it is."""
        end = time.monotonic() + seconds * SLOWNESS
        while not wanted(self.screen):
            if time.monotonic() > end:
                return False
            if not self.read(0.05) and self.process.poll() is not None and not self.read(0.05):
                return wanted(self.screen)
        return True

    def end(self, seconds=20):
        """Wait until the program has ended. Return its status, or None."""
        until = time.monotonic() + seconds * SLOWNESS
        while self.process.poll() is None and time.monotonic() < until:
            self.read(0.05)
        while self.read(0.05):
            pass
        return self.process.poll()

    def is_restored(self):
        """Return whether the terminal is restored: its modes, and its screen."""
        now, screen = termios.tcgetattr(self.slave), self.screen
        return (now[:4] == self.modes[:4] and not screen.alternate and screen.cursor_shown
                and not screen.keypad and not screen.attributes and not screen.insert
                and screen.sets[screen.shifted] == "B")

    def close(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
        os.close(self.master)
        os.close(self.slave)
