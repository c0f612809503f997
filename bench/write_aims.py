# SPDX-License-Identifier: Apache-2.0
"""The page bench/aims.md: every figure of the results beside its aim, and the tables of the benchmarks."""

import math
import os

from attach import table_of_attaching
from common import ROOT, spread
from heaps import table_of_heaps
from profilers import OURS, OURS_OWN, OURS_SHORT, WHOLE
from results import PEERS

PAGE = """# Aims, figures and what was tried

[docs/performance.md](../docs/performance.md) says what profiling costs and how to choose an interval.
This page is for those who change the code: what each part may cost, what it costs, why figures fall
short of their aims, and what was tried.

Measured by `make bench` on {date} in one run of {minutes:.0f} minutes, on {machine}.
The same command repeats every figure here and writes both pages anew; the commands below repeat one.

By default every allocation is recorded until that costs more than 5 % of the program's processor time,
and then the interval is 4096 or longer ([sampling.md](../docs/sampling.md#a-limit-of-cost)). 524288 suits
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
            values = {name: found["ratios"][interval][what.lower()] for name, found in measured["programs"].items()
                      if interval in found["ratios"]}
            if not values:
                continue
            worst = max(values, key=values.get)
            mean = measured["means"][interval][what.lower()]
            chosen = CHOSEN.get(interval, f"interval {interval}")
            for which, figure, aim in ((f"{kind}, {chosen}, {what}, geometric mean of {len(values)}", mean, aim_mean),
                                       ("the same, worst", values[worst], aim_worst)):
                judged = verdict(figure, aim or math.inf, "x", "{:.3f}")
                where = f" ({worst})" if figure is values[worst] else ""
                rows.append(f"| {which} | {f'{aim}x' if aim else ''} | {judged}{where} | `bench/run.py` |")
    return rows


def rows_of_shares(shares):
    rows = []
    for peer, aims in zip(PEERS, ((0.5, None, 1), (0.5, None, None))):
        if peer not in shares:
            continue
        number = len(shares[peer]["programs"])
        for what, aim, mean in zip(("wall time added", "CPU time added", "CPU time in all"), aims, shares[peer]["means"]):
            rows.append(f"| interval 1, {what}, as a share of `{peer}`'s, geometric mean of {number} | {aim or ''} | "
                        f"{verdict(mean, aim, '') if aim else f'{mean:.2f}'} | `bench/run.py` |")
    return rows


def table_rows(what, command):
    """Return lines of the table from (what, aim, measured)."""
    return [f"| {name} | {aim} | {measured} | `{command}` |" for name, aim, measured in what]


def rows_of_micro(micro, attach):
    """Single calls, sessions and attaching."""
    return table_rows([
        ("start and end of a session: what `host -- /bin/true` adds to `/bin/true`, wall", "5 ms",
         verdict(micro["start wall ms"], 5, "ms", "{:.1f}")),
        ("the same, CPU", "", f"{spread(micro['start CPU ms'])} ms"),
        ("malloc+free of 64 bytes, not sampled, session on", "+ 1 ns", verdict(micro["added"], 1, "ns", "{:+.1f}")),
        ("the same through a library that only passes calls on", "", f"{spread(micro['added by passing on'], '{:+.1f}')} ns"),
    ], "bench/micro.py") + table_rows([
        ("malloc+free of 64 bytes, preloaded, no session", "+ 3 ns",
         verdict(micro["added without a session"], 3, "ns", "{:+.1f}")),
    ], "bench/daemon.py") + table_rows([
        ("100 threads of a process stopped at attaching", "20 ms", verdict(attach["100"][0], 20, "ms", "{:.1f}")),
    ], "bench/attach.py") + table_rows([
        ("a sampled allocation with 32 frames, warm, and its free", "120 ns", verdict(micro["sampled"], 120, "ns", "{:.0f}")),
        ("unwinding, DWARF rules, warm", "4 ns a frame", verdict(micro["frame"], 4, "ns a frame")),
    ], "bench/micro.py")


def rows_of_daemon(daemon):
    return table_rows([
        ("daemon, CPU an event, while a million live samples come and go", "150 ns",
         verdict(daemon["churning"], 150, "ns", "{:.0f}")),
        ("daemon, CPU an event, while its tables grow to a million", "120 ns", verdict(daemon["filling"], 120, "ns", "{:.0f}")),
        ("daemon, CPU an event of a heap with only new maxima, relative to a heap with none", "1.2x",
         verdict(daemon["rising"], 1.2, "x")),
    ], "build/src/recorder/ledger_bench") + table_rows([
        (f"`--dump-at-max`, a program of new maxima only, interval 1, {kind}, relative to a session without", "1.2x",
         verdict(ratio, 1.2, "x")) for kind, ratio in daemon["dump at max"].items()
    ], "bench/daemon.py") + table_rows([
        ("a dump of 1,000,000 live samples at 100,000 callsites while events come in, the first", "1 s",
         verdict(daemon["first dump s"], 1, "s")),
        ("the same: longest stall of ingestion", "50 ms", verdict(daemon["stall ms"], 50, "ms", "{:.0f}")),
    ], "build/src/recorder/dump_bench")


def rows_of_memory(micro):
    found = [("daemon, memory at rest", "64 MiB", verdict(micro["daemon at rest MiB"], 64, "MiB", "{:.0f}")),
             ("daemon, memory a live sample", "100 bytes", verdict(micro["daemon bytes a sample"], 100, "bytes", "{:.0f}"))]
    for interval, heap in ((1, "1 million blocks"), (4096, "256 MB in 4 million blocks")):
        found += [(f"target's memory beyond the ring, at rest, interval {interval}", "1 MiB",
                   verdict(micro[f"target at rest MiB, {interval}"], 1, "MiB")),
                  (f"target's memory a live sample, the same, {heap}", "16 bytes",
                   verdict(micro[f"target bytes a sample, {interval}"], 16, "bytes", "{:.0f}"))]
    found.append(("8 threads allocating and freeing, not sampled: added", f"as with one: {micro['added']:+.1f} ns",
                  f"{spread(micro['added with 8 threads'], '{:+.1f}')} ns"))
    return table_rows(found, "bench/micro.py")


def rows_of_reports(report):
    return table_rows([(f"heap_profile report, two dumps of 100,000 callsites, {what}, wall", "1 s", verdict(report[way], 1, "s"))
                 for way, what in (("table", "as a table"), ("tree", "as a tree"), ("json", "as JSON"))], "bench/report.py")


def rows_of_heaps(heaps):
    found = []
    for kind, name in (("report", "AHeapProfile_reportAllocation"), ("free", "AHeapProfile_reportFree")):
        found += [(f"{name}, nobody profiles, beyond an empty call", "a load and a branch", f"{spread(heaps[kind]['idle'])} ns"),
                  (f"{name}, profiled and not sampled, the same", "2 ns", verdict(heaps[kind]["unsampled"], 2, "ns", "{:.1f}"))]
    found += [(f"a scope (`HEAP_PROFILE_SCOPE`), {when}", "2 ns", verdict(heaps["scope"][state], 2, "ns", "{:.1f}"))
              for state, when in (("idle", "nobody profiles"), ("unsampled", "profiled"))]
    found.append(("a sampled report with 16 frames besides its program's, and its free", "300 ns",
                  verdict(heaps["sampled"], 300, "ns", "{:.0f}")))
    return table_rows(found, "bench/heaps.py")


def rate(megabytes, least):
    return f"{megabytes:.0f} MB/s" + ("" if megabytes >= least else " (**short of the aim**)")


def rows_of_symbols(symbols):
    found = [
        (f"symbols of {symbols['addresses']:,} addresses in {symbols['program MB']:.0f} MB with debug information, cold: "
         "speed relative to llvm-symbolizer", "5x",
         f"{symbols['speed']:.1f}x ({symbols['cold s']:.2f} s and {symbols['llvm s']:.2f} s)"
         + ("" if symbols["speed"] >= 5 else " (**short of the aim**)")),
        ("the same, CPU time", "5x", f"{symbols['CPU speed']:.1f}x"),
        ("the same: speed per address relative to addr2line -f -i", "", f"{symbols['speed of addr2line']:.0f}x"),
        ("the same: memory", "500 MB",
         verdict(symbols["cold MB"], 500, "MB", "{:.0f}") + f"; llvm-symbolizer {symbols['llvm MB']:.0f} MB"),
        ("the same, again, from the cache", "faster", f"{symbols['again s']:.2f} s, {symbols['again MB']:.0f} MB"),
        (f"symbols of {symbols['fewest addresses']:,} addresses there, cold", "", f"{symbols['fewest s']:.2f} s"),
    ]
    for name, what in (("clang", "every allocation of clang, dumps each 0.3 s"),
                       ("callsites", "two dumps of 250,000 callsites with 500,000 frames")):
        pprof = symbols["pprof"][name]
        found.append((f"`traceconv profile`: {pprof['MB']:.0f} MB of trace ({what})", "200 MB/s",
                      f"{rate(pprof['MB/s'], 200)}, {pprof['memory MB']:.0f} MB of memory"))
    return table_rows(found, "bench/symbolize.py")


def rows_of_query(query):
    found = [
        ("`heap_profile query`: 100,000 callsites and 50 dumps loaded", "1 s", verdict(query["load"] / 1000, 1, "s")),
        (f"the same: memory besides the rows ({query['rows']:.0f} MB), relative to the trace's size", "3x",
         verdict(query["besides rows, of the trace"], 3, "x")),
    ]
    found += [(f"then a documented query: {name}", "100 ms", verdict(query[name], 100, "ms", "{:.0f}"))
              for name in ("stack tables joined", "allocations of a dump", "all allocations", "flamegraph", "summary tree")]
    found.append(("an exported database opened again", "50 ms", verdict(query["reopen"], 50, "ms", "{:.0f}")))
    return table_rows(found, "bench/query.py")


def rows_of_memory_infra(files, growth):
    parts = ", ".join(f"{seconds:.2f}" for seconds in files["s"])
    found = [(f"a memory dump of Chrome's form, 20,000 sites of 30 frames ({files['MB']:.0f} MB of JSON): read, symbolized, compared",
              "0.8 s", f"{verdict(files['sum s'], 0.8, 's')} ({parts})")]
    for what, name, aim in (("report, one dump", "one dump of stacks that share nothing", 250),
                            ("report, many dumps", "36 dumps of the same stacks", 150)):
        found.append((f"1 GB of such JSON read: {name}", f"{aim} MB/s",
                      f"{rate(files[what]['MB/s'], aim)}, {files[what]['memory MB']:.0f} MB of memory"))
    return table_rows(found, "bench/memory_infra.py") + table_rows([
        (name, "", f"{growth[what]['s']:.2f} s, {growth[what]['MB']:.0f} MB of memory")
        for what, name in (("traces", "`heap_profile leaks`, two traces of 20,000 stacks of 30 frames"),
                           ("JSON", "the same as JSON"), ("page", "`traceconv flamegraph`, 100,000 stacks"))
    ], "bench/growth.py")


def aim_rows(results):
    return [
        *rows_of_programs("real programs", results["long"],
                          {"default": (1.04, 1.10), "4096": (1.04, 1.10), "524288": (1.005, 1.01), "passed on": (None, None)}),
        *rows_of_programs("short programs", results["short"], {"default": (1.10, 1.10), "524288": (1.02, 1.02)}),
        *rows_of_programs("own allocators (Python, node, Java)", results["own"],
                          {"default": (1.01, 1.01), "passed on": (None, None)}),
        *rows_of_shares(results["shares"]),
        *rows_of_micro(results["micro"], results["attach"]),
        *rows_of_daemon(results["daemon"]),
        *rows_of_memory(results["micro"]),
        *rows_of_reports(results["report"]),
        *rows_of_heaps(results["heaps"]),
        *rows_of_symbols(results["symbols"]),
        *rows_of_query(results["query"]),
        *rows_of_memory_infra(results["memory_infra"], results["growth"]),
    ]


def table_of(measured, profilers):
    columns = [name for name, profiler in profilers.items() if profiler.base]
    titles = {"passed on": "only passed on", "default": "ours, by default", "524288": "ours, 524288", "4096": "ours, 4096", "1": "ours, 1"}
    lines = ["| program | seconds | " + " | ".join(titles.get(name, name) for name in columns) + " |",
             "|---" * (2 + len(columns)) + "|"]

    def cell(ratios):
        return f"{spread(ratios['wall'], '{:.2f}')} / {spread(ratios['cpu'], '{:.2f}')}"

    for name, found in measured["programs"].items():
        ratios = found["ratios"]
        lines.append(f"| {name} | {found['seconds']:.2f} | "
                     + " | ".join(cell(ratios[column]) if column in ratios else "n/a" for column in columns) + " |")
    means = [" / ".join(f"{measured['means'][column][what]:.3f}" for what in ("wall", "cpu"))
             if column in measured["means"] else "n/a" for column in columns]
    lines.append("| **geometric mean** |  | " + " | ".join(means) + " |")
    return "\n".join(lines)


def table_of_shares(programs, shares):
    lines = ["| program | wall added, of `heaptrack -r`'s | CPU added | CPU in all | wall added, of heaptrack's | CPU added "
             "| CPU in all |", "|---" * 7 + "|"]
    for name in programs:
        cells = []
        for peer in PEERS:
            found = shares.get(peer, {"programs": {}})["programs"].get(name)
            cells += [spread(share, "{:.2f}") for share in found] if found else ["n/a"] * 3
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def page_of_aims(results):
    """Return the text of bench/aims.md."""
    pairs, (rounds, few) = results["micro"]["pairs"], results["rounds"]
    single = [
        ("malloc+free of 64 bytes, nothing sampled", "pair", "pair_on"),
        ("the same at interval 4096 (1 in 64 sampled)", "pair", "pair_4096"),
        ("8 threads, nothing sampled", "threads", "threads_on"),
        ("8 threads, interval 4096", "threads", "threads_4096"),
        ("every one sampled, 1 frame besides its program's", "deep1", "deep1_on"),
        ("every one sampled, 32 frames besides its program's", "deep32", "deep32_on"),
    ]
    with open(os.path.join(ROOT, "bench", "remarks.md"), encoding="utf-8") as file:
        remarks = file.read()
    return PAGE.format(
        date=results["date"], machine=results["machine"], minutes=results["minutes"], rounds=rounds, few=few,
        aims="\n".join(aim_rows(results)), remarks=remarks,
        long=table_of(results["long"], OURS), short=table_of(results["short"], OURS_SHORT),
        own=table_of(results["own"], OURS_OWN), whole=table_of(results["whole"], WHOLE),
        shares=table_of_shares(results["whole"]["programs"], results["shares"]), cut=results["cut after s"],
        through=spread(pairs["pair_through"]), attach=table_of_attaching(results["attach"]),
        heaps=table_of_heaps(results["heaps"]["table"]), loop=results["heaps"]["table"]["empty"]["noop"],
        micro="\n".join(f"| {what} | {spread(pairs[bare])} | {spread(pairs[on])} |" for what, bare, on in single),
    )
