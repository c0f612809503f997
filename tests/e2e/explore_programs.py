#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""heap_profile explore shows the report's figures, on profiles of real programs and on large ones:
explore_programs.py CASE"""

import json
import os
import re
import shutil
import sys

import harness
from exploring import directory, explore, quit_it, trace, until
from harness import TOOL, check, main, need, run, skip

def recorded(command, *arguments, options=()):
    path = os.path.join(directory, os.path.basename(command))
    known = command if os.sep in command else harness.program(command)
    done = run(harness.host_command([known, *arguments], path, 1, *options), timeout=100)
    check(done.status == 0, f"host: {done.status}, {done.stderr[-300:]!r}")
    return path


CLONES = re.compile(r"(?<=.)( \[clone |\.isra\.|\.constprop\.|\.part\.|\.cold|\.lto_priv\.|\.llvm\.).*")


def identity(place):
    module = re.sub(r"(\.so)\.\d.*", r"\1", os.path.basename(place["mapping"]))
    if place.get("kind") == "interpreted":
        module = place["file"]  # many files have a function <module>
    return (CLONES.sub("", place["name"]) if place["name"] else place.get("function_start", place["rel_pc"]), module)


def sums(callsites, key):
    """Return {name: (bytes, count) ever allocated} for the names key(frames), each counted once per callsite."""
    table = {}
    for site in callsites:
        stack = [identity(f) for f in reversed(site["frames"])]
        for name in set(key(stack)):
            bytes_, count = table.get(name, (0, 0))
            table[name] = (bytes_ + site["alloc_space"]["estimate"], count + site["alloc_objects"]["estimate"])
    return {name: value for name, value in table.items() if value[0] >= 0.5 or value[1] >= 0.5}


ROW = re.compile(r"│ *(-?[\d,]+) +(-?[\d,]+) +[\d.]+%  (.+)$")


def rows_shown(terminal):
    """Return (bytes, count, name) of the rows on the screen."""
    found = [ROW.search(line) for line in terminal.screen.text()[3:]]
    return [(int(f[1].replace(",", "")), int(f[2].replace(",", "")), f[3].rstrip("…")) for f in found if f]


def compare_rows(terminal, table, what):
    """Wait until the rows are those of the table, the largest first."""
    wanted = sorted(((round(b), round(c)) for b, c in table.values()), reverse=True)
    most = terminal.screen.lines - 5
    largest = [name[:20] for (name, _), value in sorted(table.items(), key=lambda item: -item[1][0])[:5]
               if isinstance(name, str)]

    def differs():
        shown, left = rows_shown(terminal), list(wanted)
        if [b for b, _, _ in shown] != [b for b, _ in wanted][:most]:
            return f"{shown[:5]} instead of {wanted[:5]}"
        for size, count, name in shown:
            if (size, count) not in left:
                return f"{name} has {size}, {count}, not one of {left[:3]}"
            left.remove((size, count))
        missing = [name for name in largest if not any(n.startswith(name) for _, _, n in shown)]
        return f"no {missing} in {shown[:6]}" if missing else None

    check(terminal.wait(lambda _: differs() is None, 10), f"{what}: {differs()}")


def agrees(path):
    """Step through the largest rows in the tree, then in the heavy mode."""
    report = json.loads(run([TOOL, "report", "--json", "--top", "0", path]).stdout)
    heap = max(report["heaps"], key=lambda h: h["total"]["alloc_space"]["estimate"])
    callsites = heap["callsites"]
    check(len(callsites) > 20, f"{len(callsites)} callsites")
    pid, name = str(heap["pid"]), heap["heap"]
    arguments = ("--pid", pid, "--heap", name, "--demangle", "full", path)
    terminal = explore(*arguments, columns=250, lines=60)
    until(terminal, "Stack frame", "first")
    total = heap["total"]
    if total["space"]["estimate"] == 0:
        skip("this build of the program frees all: explore begins at the peak")
    for key, view, words in (("e", "space", "live"), ("f", "alloc_space", "allocated"), ("f", "max", "at peak"),
                             ("f", "space", "live"), ("f", "alloc_space", "allocated")):
        terminal.send(key)
        until(terminal, f"{round(total[view]['estimate']):,} {words}", "the total")
    terminal.send("home")
    trail = []
    for step in range(7):
        depth = len(trail)
        inside = [s for s in callsites if [identity(f) for f in reversed(s["frames"])][:depth] == trail]
        table = sums(inside, lambda stack: [stack[depth] if depth < len(stack) else ("<self>", "")])
        compare_rows(terminal, table, f"step {step}")
        largest = max(table, key=lambda n: table[n][0])
        if largest[0] == "<self>" or sum(v[0] == table[largest][0] for v in table.values()) > 1:
            break
        trail.append(largest)
        terminal.send("enter")
    terminal.send("v")
    until(terminal, "Top-down (Heavy)", "heavy")
    compare_rows(terminal, sums(callsites, lambda stack: stack + [("<self>", "")]), "heavy")
    terminal.send("v")
    until(terminal, "Bottom-up", "bottom-up")
    compare_rows(terminal, sums(callsites, lambda stack: stack[-1:]), "bottom-up")
    quit_it(terminal)


def test_python3():
    need("python3")
    script = "import json\nx=[json.loads('{\"a\":[%d,2,3]}'%i) for i in range(300)]\nimport os; os._exit(0)"
    agrees(recorded(os.path.realpath(sys.executable), "-I", "-S", "-c", script))


def test_sqlite3():
    need("sqlite3")
    sql = "create table t(a,b); with recursive n(i) as (select 1 union all select i+1 from n where i<3000)" \
          " insert into t select i, hex(randomblob(20)) from n; create index x on t(b); select count(*) from t;" \
          " select max(b) from t group by a%7;"
    agrees(recorded(shutil.which("sqlite3"), ":memory:", sql))


def test_xmllint():
    need("xmllint")
    path = os.path.join(directory, "made.xml")
    with open(path, "w") as out:
        out.write("<r>" + "".join(f"<a n='{i}'><b>{i}</b></a>" for i in range(3000)) + "</r>")
    agrees(recorded(shutil.which("xmllint"), "--noout", path))


def test_many_sites():
    """explore opens and walks through 100,000 stacks of 30 functions."""
    def stack(i):
        functions, value = ["main"], i
        for depth in range(1, 30):
            functions.append(f"f{depth}_{value % 40 if depth > 2 else value % 3}")
            value = value // 3 + depth
        return list(reversed(functions))

    stacks = [(stack(i), i % 977 + 1, i % 7 + 1) for i in range(100000)]
    path = trace("many", stacks)
    terminal = explore(path)
    until(terminal, "main", "first")
    total = sum(size for _, size, _ in stacks)
    terminal.send("e")
    until(terminal, f"{total:,} live", "the total")
    terminal.send("enter")
    second = {}
    for functions, size, _ in stacks:
        second[functions[-2]] = second.get(functions[-2], 0) + size
    for name, size in second.items():
        check(terminal.wait(lambda s: any(f"{size:,} " in l and l.endswith(name) for l in s.text()), 20),
              f"{name} has {size:,}:\n" + "\n".join(terminal.screen.text()[:9]))
    terminal.send("v")
    anywhere = {}
    for functions, size, _ in stacks:
        for name in set(functions):
            anywhere[name] = anywhere.get(name, 0) + size
    until(terminal, "Top-down (Heavy)", "heavy")
    for name, size in sorted(anywhere.items(), key=lambda item: -item[1])[:5]:
        check(terminal.wait(lambda s: any(f"{size:,} " in l and l.endswith(name) for l in s.text()), 20),
              f"{name} has {size:,}")
    quit_it(terminal)


if __name__ == "__main__":
    main()
