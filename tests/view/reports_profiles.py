# SPDX-License-Identifier: Apache-2.0
"""What the page must say as the terminal does (reports.ts): recordings, and what heap_profile prints of them."""

import gzip
import json
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


# Grows, and is killed.
KILLED = """
import os, signal, time
kept = []
for step in range(5):
    kept.append([bytearray(20000) for _ in range(30)])
    time.sleep(0.15)
kept.append(bytearray(700000))
os.kill(os.getpid(), signal.SIGTERM)
"""
COMPILER = "import os, sys; kept = [bytearray(1000) for _ in range(int(sys.argv[2]))]; os._exit(0)"
HOSTILE_ARGUMENT = "<img src=x onerror=alert(2)>" + "y" * 2000

BUDGETS = """# of reports.ts
max-peak = 1G
max-live = 1M
max-leak = <img*=64k
suppress: leak:no_such_<b>function # <script>alert(3)</script>
"""


def build(harness, work):
    """Record a build: two processes of one name, and the shell that started them."""
    recording = os.path.join(work, "build")
    script = 'for part in 2000 3000; do /usr/bin/python3 -c "$1" -O2 $part "$2$part" & done; wait'
    command = ["/bin/sh", "-c", script, "sh", COMPILER, HOSTILE_ARGUMENT]
    subprocess.run([harness.TOOL, "host", "-q", "-i", "1024", "--follow-children", "--heaps", "libc.malloc", "-o", recording, "--", *command],
                   check=True, stdin=subprocess.DEVNULL, timeout=harness.TIMEOUT)
    return recording


# By function, of three runs each.
RUNS = {
    "before": [{"grown": 1000, "same": 500, "<img src=x onerror=alert(4)>": 70}, {"grown": 1010, "same": 540, "<img src=x onerror=alert(4)>": 71}, {"grown": 990, "same": 510, "<img src=x onerror=alert(4)>": 72}],
    "after": [{"grown": 2000, "same": 520, "<img src=x onerror=alert(4)>": 70}, {"grown": 2010, "same": 505, "<img src=x onerror=alert(4)>": 73}, {"grown": 1990, "same": 530, "z" * 100000: 90}],
}


def runs(work):
    """Write them as files. Return the arguments of `view`."""
    arguments = ["--base"]
    for side, files in RUNS.items():
        for i, functions in enumerate(files):
            path = os.path.join(work, f"{side}{i}.collapsed")
            with open(path, "w", encoding="utf-8") as out:
                out.writelines(f"main;{name} {value}\n" for name, value in functions.items())
            arguments.append(path)
        if side == "before":
            arguments.append("--")
    return arguments


def expect_runs(harness, work):
    """Return the arguments of `view` for the runs, and what reports.ts expects of them. A saved page opens on their comparison."""
    arguments, saved = runs(work), os.path.join(work, "runs.html")
    subprocess.run([harness.TOOL, "view", "--save", saved, *arguments], check=True, timeout=harness.TIMEOUT)
    with open(saved, encoding="utf-8") as page:
        found = re.search(r'<meta name="selection" content="([^"]*)">', page.read()).group(1)
    assert found == "tab=runs&#38;runs=0,1,2-3,4,5", found
    return arguments, {"saved": saved, **RUNS}


def curve(work):
    """Write a heaptrack file whose memory rises and falls. Return its path and what was live at each reading."""
    lines, live, curve = ["v 10400 3", "X /usr/bin/app <b>", "I 1000 10000", "s 4 main", "i 1000 0 1", "t 1 0", "a 400 1"], 0, []
    for i in range(1, 201):
        count = i % 40
        lines += [f"c {i * 10:x}", *["+ 0"] * count]
        live += count * 1024
        if i % 50 == 0:
            lines += ["- 0"] * 600
            live -= 600 * 1024
        curve.append(live)
        lines.append(f"R {1000 + i:x}")
    path = os.path.join(work, "heaptrack.app.1.gz")
    with gzip.open(path, "wt", encoding="utf-8") as out:
        out.write("\n".join(lines) + "\n")
    return path, curve


def expect(harness, work):
    """Return the arguments of `view`, and what reports.ts expects of the profiles."""
    recording, killed, built = leaking(harness, work), os.path.join(work, "killed"), build(harness, work)
    subprocess.run([harness.TOOL, "host", "-q", "-c", "200", "-i", "4096", "--heaps", "libc.malloc", "-o", killed, "--", "/usr/bin/python3", "-c", KILLED],
                   check=False, stdin=subprocess.DEVNULL, timeout=harness.TIMEOUT)
    budgets = os.path.join(work, "heap.budgets")
    with open(budgets, "w", encoding="utf-8") as out:
        out.write(BUDGETS)

    def ask(*arguments):
        return json.loads(subprocess.run([harness.TOOL, *arguments], check=False, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=harness.TIMEOUT).stdout)

    tracked, live = curve(work)
    return ["--budgets", budgets, recording, killed, built, tracked], {
        "curve": live,
        "death": ask("oom", "--all", "--json", "--top", "0", killed)["deaths"][0],
        "check": ask("check", "--json", "--budgets", budgets, recording),
        "grown": ask("check", "--json", "--max-growth", "5%", "--baseline", killed, recording),
        "built": ask("report", "--json", built)["heaps"],
        "leaks": rows_of(harness, recording),
        "growth": rows_of(harness, f"{recording}@1", f"{recording}@3"),
    }
