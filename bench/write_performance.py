# SPDX-License-Identifier: Apache-2.0
"""Write docs/performance.md from the figures that run.py measured, with the aims."""

import math
import os

from attach import table_of_attaching
from common import ROOT, spread
from heaps import table_of_heaps
from profilers import OURS, OURS_OWN, OURS_SHORT, WHOLE
from rounds import geometric_mean, shares_of

PAGE = """# What profiling costs

Measured by `make bench` in one run of {minutes:.0f} minutes, on {machine}.
The same command repeats every figure here and writes this page anew; the commands below repeat one.
By default every allocation is recorded until that costs more than 5 % of the program's processor time,
and then the interval is 4096 or longer ([sampling.md](sampling.md#a-limit-of-cost)). 524288 suits
production; 1 is every allocation, whatever it costs.

A figure is a median; behind it, in parentheses, are its quartiles. Ratios compare the runs of one round,
which alternate. A figure of the page without quartiles is one run, or a sum.

## Aims and figures

| what | aim | measured | repeat with |
|---|---|---|---|
{aims}

{remarks}## Whole programs

Wall time / CPU time as multiples of the same program without a profiler, by `bench/run.py` (one
program: `bench/run.py jq`). CPU includes the program and everything that the profiler runs. Wall times
of short programs include the start and the end of the session.

Programs of about one second, {rounds} rounds. Nothing was tuned for the last three. The last column is no
profiler: a preloaded library that does nothing but pass malloc, free and Python's allocations of objects
on (`bench/pass_through.c`), in every second round. No profiler whose hooks see each call costs less.

{long}

Short programs, {rounds} rounds. gcc runs with `--follow-children`.

{short}

Programs whose objects are not malloc's, {rounds} rounds. Python's have the heap `python.object`.

{own}

Every allocation, beside other profilers, {few} rounds:

{whole}

What profiling every allocation adds, as a share of what heaptrack adds in the same round:

{shares}

The profilers: heaptrack 1.4 (every allocation, unwinds with libunwind; interprets in a second process,
or with -r only records, so that the work remains to be done); jemalloc 5.3 `prof:true,lg_prof_sample:12`;
gperftools 2.10 `HEAPPROFILE` (every allocation; one run, cut after {cut:.0f} s, so its figures are lower
bounds). jemalloc's and gperftools' profilers bring their own allocators and are compared with those
allocators without profiling. redis is linked to jemalloc, which tcmalloc cannot replace.

## Micro-benchmarks

`bench/micro.py`: nanoseconds of the thread's CPU time, least of seven passes, median of seven runs. A
preloaded library that does nothing but pass malloc and free on (`bench/pass_through.c`) takes
{through} ns a pair: that is the limit of an interposed call on this machine.

| what | without | with a session |
|---|---|---|
{micro}

## Attaching

How long the threads of a process are stopped at attaching and detaching, by their number. All of
them allocate; medians of five attachments by `bench/attach.py`.

{attach}

## Short profiles on a loaded machine

A profile that is short or refused ends in time if it needs little processor time: on a loaded
machine each millisecond of that takes as long as any other program's. `bench/under_load.py` with 16
programs that compute, on two processors that others used, too (load 33), median and longest of 15.
Before: a session of named processes read the name of every process in /proc (150 here).

| command | processor time | median | longest |
|---|---|---|---|
| `true` | 0.8 ms | 0.07 s | 0.23 s |
| `heap_profile --version` | 3 ms | 0.26 s | 0.44 s |
| `heap_profile host -- true` | 10 ms | 0.72 s | 1.77 s |
| `heap_profile -p`, no such process | 4.2 ms, before 9 ms | 0.35 s, before 0.73 s | 0.68 s, before 1.25 s |
| `heap_profile -p`, a kernel thread | 4.8 ms, before 10 ms | 0.34 s, before 0.80 s | 1.02 s, before 1.78 s |

A session of one second (`-p PID -d 1000`, a python3 program, 25 ms of processor time) took 2.8 s at
a load of 55, where `sleep 1` took 1.4 s.

## Continuous mode

`bench/continuous.py`, with the default configuration (a dump each 60 s, at most 20,000 samples an
hour of each program). The machine: 40 C services that allocate 5 MB/s each with 512 stacks, and 10
Python services of 20 requests/s, in real time; 240 and 120 s were measured after the intervals had
settled for 130 and 95 s. Two sinks: a directory, and a server that stands in for Pyroscope. Others
used the two processors, too. They started 51 processes a second in the first run and 24 in the
second one, and the daemon looks at each.

| what | aim | measured |
|---|---|---|
| share of one processor: daemon, its session, file reader, collector | 0.5 % | 1.03 % (session 0.74, collector 0.28); 0.72 % (0.46, 0.27) (**short of the aim**) |
| memory (PSS) of the same: median; most | 100 MB | 56 MB; 62 MB, and 48 MB; 82 MB |
| samples an hour of each program | at most 20,000 | 13,800; 14,300 |
| bytes a sample that leave the machine, to Pyroscope |  | 19.0; 18.9 |
| the same as unpacked pprof, one file for each heap and period |  | 50.0; 49.5 |
| losses, dumps lost, messages dropped | 0 | 0 |
| redis-server, 600,000 requests of redis-benchmark: processor time, relative to no profiler | 1.01x | 0.99 x (quartiles 0.95 to 1.01, six rounds) |
| the same: time a request | 1.01x | not known: runs without a profiler differed by 43 % |
| a Python service, 20,000 requests: processor time, relative to no profiler | 1.01x | 1.058 x (quartiles 1.046 to 1.062, seven rounds) (**short of the aim**) |
| the same: wall | 1.01x | 1.06 x (quartiles 0.95 to 1.06) (**short of the aim**) |

## Custom heaps

`bench/heaps.py`: nanoseconds of the thread's CPU time for a call in a loop (the loop alone:
{loop:.1f}), least of seven passes, median of five runs. A heap that is not profiled costs what the
second and third columns show.

{heaps}
"""


def verdict(figure, aim, unit, form="{:.2f}"):
    met = "" if figure <= aim else " (**short of the aim**)"
    return f"{spread(figure, form)} {unit}{met}".strip()


CHOSEN = {"default": "by default", "passed on": "no profiler, but a library that only passes calls on"}


def rows_of_programs(kind, measured, aims):
    """`aims`: {choice of the interval: (aim of the geometric mean, aim of the worst), each may be None}."""
    rows = []
    for interval, (aim_mean, aim_worst) in aims.items():
        for what in ("wall", "CPU"):
            values = {name: getattr(found[interval], what.lower()) for name, (_, found) in measured.items()
                      if interval in found}
            if not values:
                continue
            worst = max(values, key=values.get)
            mean = geometric_mean(values.values())
            chosen = CHOSEN.get(interval, f"interval {interval}")
            for which, figure, aim in ((f"{kind}, {chosen}, {what}, geometric mean of {len(values)}", mean, aim_mean),
                                       ("the same, worst", values[worst], aim_worst)):
                judged = verdict(figure, aim or math.inf, "x", "{:.3f}")
                where = f" ({worst})" if figure is values[worst] else ""
                rows.append(f"| {which} | {f'{aim}x' if aim else ''} | {judged}{where} | `bench/run.py` |")
    return rows


def rows_of_shares(whole):
    rows = []
    for peer, aims in (("heaptrack -r", (0.5, None, 1)), ("heaptrack", (0.5, None, None))):
        found = [shares for shares in (shares_of(runs, "1", peer) for runs, _ in whole.values()) if shares]
        for what, index in (("wall time added", 0), ("CPU time added", 1), ("CPU time in all", 2)):
            if not found:
                continue
            mean = geometric_mean(shares[index] for shares in found)
            aim = aims[index]
            rows.append(f"| interval 1, {what}, as a share of `{peer}`'s, geometric mean of {len(found)} | {aim or ''} | "
                        f"{verdict(mean, aim, '') if aim else f'{mean:.2f}'} | `bench/run.py` |")
    return rows


def aim_rows(figures, programs):
    micro, daemon = figures["micro"], figures["daemon"]
    rows = rows_of_programs("real programs", programs["long"],
                            {"default": (1.04, 1.10), "4096": (1.04, 1.10), "524288": (1.005, 1.01),
                             "passed on": (None, None)})
    rows += rows_of_programs("short programs", programs["short"], {"default": (1.10, 1.10), "524288": (1.02, 1.02)})
    rows += rows_of_programs("own allocators (Python, node, Java)", programs["own"],
                             {"default": (1.01, 1.01), "passed on": (None, None)})
    rows += rows_of_shares(programs["whole"])

    def row(what, aim, measured, command):
        rows.append(f"| {what} | {aim} | {measured} | `{command}` |")

    wall, cpu = figures["start"]
    row("start and end of a session: what `host -- /bin/true` adds to `/bin/true`, wall", "5 ms",
        verdict(wall, 5, "ms", "{:.1f}"), "bench/micro.py")
    row("the same, CPU", "", f"{spread(cpu)} ms", "bench/micro.py")
    added = micro["pair_on"].less(micro["pair"])
    row("malloc+free of 64 bytes, not sampled, session on", "+ 1 ns",
        verdict(added, 1, "ns", "{:+.1f}"), "bench/micro.py")
    row("the same through a library that only passes calls on", "",
        f"{spread(micro['pair_through'].less(micro['pair']), '{:+.1f}')} ns", "bench/micro.py")
    dormant = figures["dormant"]
    row("malloc+free of 64 bytes, preloaded, no session", "+ 3 ns",
        verdict(dormant["dormant"].less(dormant["bare"]), 3, "ns", "{:+.1f}"), "bench/daemon.py")
    row("100 threads of a process stopped at attaching", "20 ms",
        verdict(figures["attach"][100][0], 20, "ms", "{:.1f}"), "bench/attach.py")
    frame = (micro["deep32_on"] - micro["deep1_on"]) / 31
    sampled = micro["deep32_on"].less(micro["deep32"])
    row("a sampled allocation with 32 frames, warm, and its free", "120 ns",
        verdict(sampled, 120, "ns", "{:.0f}"), "bench/micro.py")
    row("unwinding, DWARF rules, warm", "4 ns a frame", verdict(frame, 4, "ns a frame"),
        "bench/micro.py")
    ledger = figures["ledger"]
    row("daemon, CPU an event, while a million live samples come and go", "150 ns",
        verdict(ledger["churning"], 150, "ns", "{:.0f}"), "build/src/daemon/ledger_bench")
    row("daemon, CPU an event, while its tables grow to a million", "120 ns",
        verdict(ledger["filling"], 120, "ns", "{:.0f}"), "build/src/daemon/ledger_bench")
    row("daemon, CPU an event of a heap with only new maxima, relative to a heap with none", "1.2x",
        verdict(ledger["rising"] / ledger["level"], 1.2, "x"), "build/src/daemon/ledger_bench")
    wall, cpu = figures["dump_at_max"]
    for kind, ratio in (("wall", wall), ("CPU", cpu)):
        row(f"`--dump-at-max`, a program of new maxima only, interval 1, {kind}, relative to a session without", "1.2x",
            verdict(ratio, 1.2, "x"), "bench/daemon.py")
    dumps = figures["dump"]
    row("a dump of 1,000,000 live samples at 100,000 callsites while events come in, the first", "1 s",
        verdict(dumps["first"][0] / 1000, 1, "s"), "build/src/daemon/dump_bench")
    row("the same: longest stall of ingestion", "50 ms",
        verdict(max(stall for _, stall in dumps.values()), 50, "ms", "{:.0f}"),
        "build/src/daemon/dump_bench")
    few, many = daemon[1000] / 1024, daemon[2000000] / 1024
    row("daemon, memory at rest", "64 MiB", verdict(few, 64, "MiB", "{:.0f}"), "bench/micro.py")
    row("daemon, memory a live sample", "100 bytes",
        verdict((many - few) * 1048576 / 2e6, 100, "bytes", "{:.0f}"), "bench/micro.py")
    for interval, blocks, samples, heap in ((1, 1000000, 1e6, "1 million blocks"),
                                            (4096, 4000000, 4e6 * 64 / 4096, "256 MB in 4 million blocks")):
        base = micro[f"hold1000_{interval}"] - micro["hold1000"]
        grown = micro[f"hold{blocks}_{interval}"] - micro[f"hold{blocks}"]
        row(f"target's memory beyond the ring, at rest, interval {interval}", "1 MiB",
            verdict(base / 1024, 1, "MiB"), "bench/micro.py")
        row(f"target's memory a live sample, the same, {heap}", "16 bytes",
            verdict((grown - base) * 1024 / samples, 16, "bytes", "{:.0f}"), "bench/micro.py")
    many_added = micro["threads_on"].less(micro["threads"])
    row("8 threads allocating and freeing, not sampled: added", f"as with one: {added:+.1f} ns",
        f"{spread(many_added, '{:+.1f}')} ns", "bench/micro.py")
    for way, what in (("table", "as a table"), ("tree", "as a tree"), ("json", "as JSON")):
        row(f"heap_profile report, two dumps of 100,000 callsites, {what}, wall", "1 s",
            verdict(figures["report"][way][0], 1, "s"), "bench/report.py")
    heaps = figures["heaps"]
    for kind, name in (("report", "AHeapProfile_reportAllocation"), ("free", "AHeapProfile_reportFree")):
        states = heaps[kind]
        row(f"{name}, nobody profiles, beyond an empty call", "a load and a branch",
            f"{spread(states['idle'].less(states['noop']))} ns", "bench/heaps.py")
        row(f"{name}, profiled and not sampled, the same", "2 ns",
            verdict(states["unsampled"].less(states["noop"]), 2, "ns", "{:.1f}"), "bench/heaps.py")
    for state, when in (("idle", "nobody profiles"), ("unsampled", "profiled")):
        row(f"a scope (`HEAP_PROFILE_SCOPE`), {when}", "2 ns",
            verdict(heaps["scope"][state], 2, "ns", "{:.1f}"), "bench/heaps.py")
    row("a sampled report with 16 frames besides its program's, and its free", "300 ns",
        verdict(heaps["deep16"]["sampled"], 300, "ns", "{:.0f}"), "bench/heaps.py")
    rows += rows_of_symbols(figures["symbolize"], figures["pprof"]) + rows_of_query(figures["query"])
    rows += rows_of_memory_infra(figures["memory_infra"], figures["growth"])
    return rows


def rows_of_symbols(symbolize, pprof):
    count = str(symbolize["compared"])
    tools = symbolize.get(symbolize["compared"]) or symbolize[count]
    cold, llvm, line = tools["cold"], tools["llvm-symbolizer"], tools["addr2line"]
    fewest = min((each for each in symbolize if each not in ("compared", "bytes")), key=int)
    program = f"{symbolize['bytes'] / 1e6:.0f} MB with debug information"
    found = [
        (f"symbols of {int(count):,} addresses in {program}, cold: speed relative to llvm-symbolizer", "5x",
         f"{llvm[0] / cold[0]:.1f}x ({cold[0]:.2f} s and {llvm[0]:.2f} s)"
         + ("" if llvm[0] / cold[0] >= 5 else " (**short of the aim**)")),
        ("the same, CPU time", "5x", f"{llvm[1] / cold[1]:.1f}x"),
        ("the same: speed per address relative to addr2line -f -i", "", f"{20 * line[0] / cold[0]:.0f}x"),
        ("the same: memory", "500 MB", verdict(cold[2], 500, "MB", "{:.0f}") + f"; llvm-symbolizer {llvm[2]:.0f} MB"),
        ("the same, again, from the cache", "faster", f"{tools['again'][0]:.2f} s, {tools['again'][2]:.0f} MB"),
        (f"symbols of {int(fewest):,} addresses there, cold", "", f"{symbolize[fewest]['cold'][0]:.2f} s"),
    ]
    for name, what in (("clang", "every allocation of clang, dumps each 0.3 s"),
                       ("callsites", "two dumps of 250,000 callsites with 500,000 frames")):
        size, wall, _, memory = pprof[name]
        met = "" if size / wall >= 200 else " (**short of the aim**)"
        found.append((f"`traceconv profile`: {size:.0f} MB of trace ({what})", "200 MB/s",
                      f"{size / wall:.0f} MB/s{met}, {memory:.0f} MB of memory"))
    return [f"| {what} | {aim} | {measured} | `bench/symbolize.py` |" for what, aim, measured in found]


def rows_of_query(query):
    found = [
        ("`heap_profile query`: 100,000 callsites and 50 dumps loaded", "1 s", verdict(query["load"] / 1000, 1, "s")),
        (f"the same: memory besides the rows ({query['rows']:.0f} MB), relative to the trace's size", "3x",
         verdict(query["besides rows"] / query["trace"], 3, "x")),
    ]
    found += [(f"then a documented query: {name}", "100 ms", verdict(query[name], 100, "ms", "{:.0f}"))
              for name in ("stack tables joined", "allocations of a dump", "all allocations", "flamegraph", "summary tree")]
    found.append(("an exported database opened again", "50 ms", verdict(query["reopen"], 50, "ms", "{:.0f}")))
    return [f"| {what} | {aim} | {measured} | `bench/query.py` |" for what, aim, measured in found]


def rows_of_memory_infra(files, leaks):
    size = files["report"][0]
    three = sum(files[what][1] for what in ("report", "symbolize", "diff"))
    found = [
        (f"a memory dump of Chrome's form, 20,000 sites of 30 frames ({size:.0f} MB of JSON): read, symbolized, compared",
         "0.8 s", verdict(three, 0.8, "s") + " ({0[1]:.2f}, {1[1]:.2f}, {2[1]:.2f})".format(
             files["report"], files["symbolize"], files["diff"])),
    ]
    for what, name, aim in (("report, one dump", "one dump of stacks that share nothing", 250),
                            ("report, many dumps", "36 dumps of the same stacks", 150)):
        megabytes, wall, _, memory = files[what]
        met = "" if megabytes / wall >= aim else " (**short of the aim**)"
        found.append((f"1 GB of such JSON read: {name}", f"{aim} MB/s",
                      f"{megabytes / wall:.0f} MB/s{met}, {memory:.0f} MB of memory"))
    rows = [f"| {what} | {aim} | {measured} | `bench/memory_infra.py` |" for what, aim, measured in found]
    for what, name in (("traces", "`heap_profile leaks`, two traces of 20,000 stacks of 30 frames"),
                       ("JSON", "the same as JSON"), ("page", "`traceconv flamegraph`, 100,000 stacks")):
        wall, _, memory = leaks[what]
        rows.append(f"| {name} |  | {wall:.2f} s, {memory:.0f} MB of memory | `bench/growth.py` |")
    return rows


def table_of(measured, profilers):
    columns = [name for name, profiler in profilers.items() if profiler.base]
    titles = {"passed on": "only passed on", "default": "ours, by default", "524288": "ours, 524288", "4096": "ours, 4096", "1": "ours, 1"}
    lines = ["| program | seconds | " + " | ".join(titles.get(name, name) for name in columns) + " |",
             "|---" * (2 + len(columns)) + "|"]

    def cell(found):
        return f"{spread(found.wall, '{:.2f}')} / {spread(found.cpu, '{:.2f}')}"

    for name, (_, found) in measured.items():
        seconds = next((each.seconds for each in found.values()), 0)
        lines.append(f"| {name} | {seconds:.2f} | "
                     + " | ".join(cell(found[column]) if column in found else "n/a" for column in columns) + " |")
    means = []
    for column in columns:
        those = [found[column] for _, found in measured.values() if column in found]
        means.append(" / ".join(f"{geometric_mean(getattr(each, what) for each in those):.3f}" for what in ("wall", "cpu"))
                     if those else "n/a")
    lines.append("| **geometric mean** |  | " + " | ".join(means) + " |")
    return "\n".join(lines)


def table_of_shares(whole):
    lines = ["| program | wall added, of `heaptrack -r`'s | CPU added | CPU in all | wall added, of heaptrack's | CPU added "
             "| CPU in all |", "|---" * 7 + "|"]
    for name, (runs, _) in whole.items():
        cells = []
        for peer in ("heaptrack -r", "heaptrack"):
            shares = shares_of(runs, "1", peer)
            cells += [spread(share, "{:.2f}") for share in shares] if shares else ["n/a"] * 3
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def write_page(figures, programs):
    micro = figures["micro"]
    rows = [
        ("malloc+free of 64 bytes, nothing sampled", micro["pair"], micro["pair_on"]),
        ("the same at interval 4096 (1 in 64 sampled)", micro["pair"], micro["pair_4096"]),
        ("8 threads, nothing sampled", micro["threads"], micro["threads_on"]),
        ("8 threads, interval 4096", micro["threads"], micro["threads_4096"]),
        ("every one sampled, 1 frame besides its program's", micro["deep1"], micro["deep1_on"]),
        ("every one sampled, 32 frames besides its program's", micro["deep32"], micro["deep32_on"]),
    ]
    path = os.path.join(ROOT, "docs", "performance.md")
    remarks = os.path.join(ROOT, "bench", "remarks.md")
    with open(remarks, encoding="utf-8") as file:
        remarks = file.read()
    rounds, few = figures["rounds"]
    text = PAGE.format(
        machine=figures["machine"], minutes=figures["minutes"], rounds=rounds, few=few,
        aims="\n".join(aim_rows(figures, programs)),
        remarks=remarks,
        long=table_of(programs["long"], OURS), short=table_of(programs["short"], OURS_SHORT),
        own=table_of(programs["own"], OURS_OWN), whole=table_of(programs["whole"], WHOLE),
        shares=table_of_shares(programs["whole"]), cut=WHOLE["gperftools"].cut_after,
        through=spread(micro["pair_through"]),
        attach=table_of_attaching(figures["attach"]),
        heaps=table_of_heaps(figures["heaps"]), loop=figures["heaps"]["empty"]["noop"],
        micro="\n".join(f"| {what} | {spread(bare)} | {spread(on)} |" for what, bare, on in rows),
    )
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
