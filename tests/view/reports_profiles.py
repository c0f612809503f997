# SPDX-License-Identifier: Apache-2.0
"""What the page must say as the terminal does (reports.ts): recordings, and what heap_profile prints of them."""

import os
import re
import subprocess

# A leak, a cache that turns over, and what is set up once; for longer than it takes to tell them apart. The leak's
# function has a hostile name.
LEAKING = """
import os, time
kept, cache = [], []
def leak(): kept.append(bytearray(3000))
def cached():
    cache.append(bytearray(5000))
    if len(cache) > 100: del cache[:50]
code = leak.__code__
name = "<img src=x onerror=alert(1)>" + "x" * 100000
leak.__code__ = code.replace(**{member: name for member in ("co_name", "co_qualname") if hasattr(code, member)})
setup = [bytearray(4000) for _ in range(200)]
until = time.monotonic() + 6.5
while time.monotonic() < until:
    leak(); cached(); cached(); time.sleep(0.01)
os._exit(0)
"""

FIGURE = r"[^ ]+(?: [kMGT]?B)?"
ROW = re.compile(r"^ +(?P<bytes>" + FIGURE + r") [ *] .{19} +(?P<count>[^ ]+) [ *] .{17}  (?P<text>.*)$")


def leaking(harness, work):
    """Record it, with a dump each 1.5 seconds."""
    recording = os.path.join(work, "leaking")
    command = [harness.TOOL, "host", "-q", "-c", "1500", "-i", "4096", "--heaps", "libc.malloc", "-o", recording, "--", "/usr/bin/python3", "-c", LEAKING]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, timeout=harness.TIMEOUT)
    return recording


def rows_of(harness, *profiles):
    """Return the sentence and the rows that `leaks` prints of a heap: bytes, count, text and the line below."""
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    printed = subprocess.run([harness.TOOL, "leaks", *profiles], check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment, timeout=harness.TIMEOUT).stdout
    rows = []
    for line in printed.splitlines()[3:]:
        row = ROW.match(line)
        if row:
            rows.append({**row.groupdict(), "line": ""})
        elif rows and line.startswith(" " * 14):
            rows[-1]["line"] = line.strip()
    return {"found": re.search(r"\d+ potential leaks? found", printed).group(), "rows": rows}


def expect(harness, work):
    """Return the profiles to serve, and what reports.ts expects of them."""
    recording = leaking(harness, work)
    return [recording], {
        "leaks": rows_of(harness, recording),
        "growth": rows_of(harness, f"{recording}@1", f"{recording}@3"),
    }
