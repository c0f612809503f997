#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Write the pages of what profiling costs from stored results (results.py).

    bench/write_performance.py [DIRECTORY]

Writes below the directory (default: the repository) docs/performance.md, the page for users, its
chart docs/images/cost.svg, and bench/aims.md (write_aims.py), the page for those who change the
code. Nothing is measured.
"""

import os
import sys
import textwrap

from chart import Bar, draw_bars
from common import ROOT
from results import PEERS, load
from write_aims import page_of_aims

PAGE = """# What profiling costs

By default every allocation is recorded while that costs less than 5 % of the program's processor time.
Beyond that, and with `-i N`, one byte in N is sampled: the larger the interval, the cheaper the
profile and the wider the `±`.

| option | what is recorded | wall time | processor time | dearest program |
|---|---|---|---|---|
{intervals}

Added to {number} real programs of about a second each (geometric means). The last column has the
program that pays most, as multiples; python3 runs with PYTHONMALLOC=malloc here. Processor time is
that of the program and of everything that the profiler runs, files and symbols included.

The default costs such programs more than its 5 %: the first 100,000 allocations are recorded in any
case, which takes 0.1 to 0.8 s of processor time. A longer program pays that once, and for what
follows no more than its budget ([the limit of cost](sampling.md#a-limit-of-cost)).

Other programs, wall time / processor time added:

| programs | by default | `-i 524288` |
|---|---|---|
{kinds}

A preloaded library that does nothing but pass calls on adds {passed_on} to the first row and
{passed_on_own} to the third one. No profiler whose hooks see each call costs less.

## Beside other profilers

![{alt}](images/cost.svg)

The same {number} programs; blue is heapprofd. The others do not all do the same:

- **heaptrack** 1.4 records every allocation, as `-i 1` does. It interprets in a second process;
  with `-r` it only records, and the work remains to be done.
- **jemalloc** 5.3 samples one byte in 4,096 here (`lg_prof_sample:12`), to compare the same
  density. Its default is one in 524,288, which is cheaper and was not measured. It is compared with
  jemalloc without profiling.
- **gperftools** 2.10 (`HEAPPROFILE`) records every allocation. Its runs were cut after {cut:.0f} s, so
  its bar is a lower bound. It is compared with tcmalloc without profiling, and without redis.
- massif, bytehound, memray and Perfetto's heapprofd were not measured.

Some took longer with `-i 1` than under heaptrack, by the medians or round by round:
{dearer}. [bench/aims.md](../bench/aims.md) has
each program, with quartiles.

## Single operations

| what | cost |
|---|---|
| malloc and free that are not sampled, while a session is on | {added:+.1f} ns |
| the same, preloaded, without a session | {dormant:+.1f} ns |
| an allocation that is sampled, with 32 frames, and its free | {sampled:.0f} ns |
| start and end of a session of `host` | {start:.1f} ms of wall time, {start_cpu:.1f} ms of processor time |
| attaching to a process of 100 busy threads | they stand still for {attach:.1f} ms, and for {detach:.1f} ms at the end |
| memory in the program, beyond the ring (`--shmem-size`) | {target_1:.0f} to {target_4096:.0f} bytes a live sample |
| memory in the profiler | {rest:.0f} MiB, and {sample:.0f} bytes a live sample |

After detaching, nothing remains to be paid: the code has its original bytes
([attach.md](attach.md#what-it-costs)).

## Which interval

| you want | use |
|---|---|
| an answer about a command, a test, a leak, a peak | nothing: the default |
| every figure exact, whatever it costs | `-i 1` |
| a server that others use | `-i 524288`, or `-i 65536` for smaller callsites |
| every allocation, as far as a share of the processor allows | `--max-overhead 2`: at most 2 %, after the first 100,000 allocations |
| totals without stacks | `-i 1G`: bytes and calls in all are exact at any interval |
| all programs of a machine, always | continuous mode, which has a budget of samples an hour ([continuous.md](continuous.md)) |

What an interval can show, of callsites of small blocks. Larger blocks are more exact, and blocks
above 4.6 intervals are always sampled:

| interval | a callsite below this may go unseen | 1 MB | 100 MB |
|---|---|---|---|
| 1 | 0 | exact | exact |
| 4096 | 12.3 kB | ± 13 % | ± 1.3 % |
| 65536 | 196 kB | ± 50 % | ± 5 % |
| 524288 | 1.57 MB | may go unseen | ± 14 % |

Four times the interval doubles the error
([sampling.md](sampling.md#the-variance-and-how-samples-estimate-it)).

If a profile is still too expensive: `--no-pprof` leaves out the pprof files and `--no-symbols` the
names, which both can be made later (`traceconv profile`, `traceconv symbolize`).

## Repeat it

`make bench` measures everything in half an hour on two processors that do nothing else, stores it in
`bench/results.json`, and writes this page, its chart and [bench/aims.md](../bench/aims.md).
`bench/run.py jq` measures one program; `bench/write_performance.py` writes the pages without measuring.

Measured on {date}, on {machine}.
Medians of {rounds} rounds, of {few} with other profilers and `-i 1`. Runs of a round alternate, and are
compared with the run without a profiler of the same round.
"""

CHOICES = (
    ("none", "default", "long", "every allocation within 5 %; then one byte in 4,096 or more"),
    ("`-i 4096`", "4096", "long", "one byte in 4,096"),
    ("`-i 524288`", "524288", "long", "one byte in 524,288: for production"),
    ("`-i 1`", "1", "whole", "every allocation, whatever it costs"),
)
KINDS = (
    ("long", "real programs of about a second"),
    ("short", "short programs, 0.1 to 0.7 s"),
    ("own", "Python with its own objects, node, Java"),
)
BARS = (
    ("heapprofd -i 524288", "long", "524288", "ours"), ("heapprofd -i 4096", "long", "4096", "ours"),
    ("heapprofd, default", "long", "default", "ours"), ("heapprofd -i 1", "whole", "1", "ours"),
    ("jemalloc, 1 byte in 4,096", "whole", "jemalloc prof", "other"), ("heaptrack -r", "whole", "heaptrack -r", "other"),
    ("heaptrack", "whole", "heaptrack", "other"), ("gperftools", "whole", "gperftools", "other"),
)
TITLE = "Wall time added to real programs, geometric mean"


def added(ratio):
    return f"{(ratio - 1) * 100:+.1f} %"


def added_both(ratios):
    return f"{added(ratios['wall'])} / {added(ratios['cpu'])}"


def rows_of_intervals(results):
    rows = []
    for option, choice, kind, what in CHOICES:
        mean, programs = results[kind]["means"][choice], results[kind]["programs"]
        worst = max(programs, key=lambda name: programs[name]["ratios"][choice]["wall"])
        dearest = programs[worst]["ratios"][choice]
        rows.append(f"| {option} | {what} | {added(mean['wall'])} | {added(mean['cpu'])} "
                    f"| {worst}: {dearest['wall']:.2f} x, {dearest['cpu']:.2f} x |")
    return "\n".join(rows)


def rows_of_kinds(results):
    return "\n".join(f"| {what} ({len(results[kind]['programs'])}) | "
                     + " | ".join(added_both(results[kind]["means"][choice]) for choice in ("default", "524288")) + " |"
                     for kind, what in KINDS)


def dearer_than_heaptrack(results):
    """Name the programs that take longer with every allocation than under heaptrack, by the medians or round by round."""
    found = {}
    for name, each in results["whole"]["programs"].items():
        ratios = each["ratios"]
        for peer in PEERS:
            by_round = results["shares"].get(peer, {"programs": {}})["programs"].get(name)
            if peer in ratios and (ratios["1"]["wall"] > ratios[peer]["wall"] or by_round[0] > 1):
                found.setdefault(name, []).append(f"`{peer}`")
    return ", ".join(f"{name} ({', '.join(peers)})" for name, peers in found.items()) or "none"


def chart(results):
    bars = []
    for name, kind, profiler, whose in BARS:
        if profiler not in results[kind]["means"]:
            continue
        ratio = results[kind]["means"][profiler]["wall"]
        label = f"more than {added(ratio)}" if profiler == "gperftools" else added(ratio)
        bars.append(Bar(name, ratio - 1, label, whose))
    bars.sort(key=lambda bar: bar.value)
    words = f"{TITLE}: " + "; ".join(f"{bar.name} {bar.label}" for bar in bars) + "."
    return draw_bars(TITLE, bars), textwrap.fill(words, 98)


def page_for_users(results, alt):
    micro, attach, own = results["micro"], results["attach"]["100"], results["own"]["means"]
    rounds, few = results["rounds"]
    return PAGE.format(
        intervals=rows_of_intervals(results), kinds=rows_of_kinds(results), number=len(results["long"]["programs"]), alt=alt,
        passed_on=added_both(results["long"]["means"]["passed on"]), passed_on_own=added_both(own["passed on"]),
        cut=results["cut after s"], dearer=dearer_than_heaptrack(results),
        added=micro["added"], dormant=micro["added without a session"], sampled=micro["sampled"],
        start=micro["start wall ms"], start_cpu=micro["start CPU ms"], attach=attach[0], detach=attach[1],
        target_1=micro["target bytes a sample, 1"], target_4096=micro["target bytes a sample, 4096"],
        rest=micro["daemon at rest MiB"], sample=micro["daemon bytes a sample"],
        date=results["date"], machine=results["machine"], rounds=rounds, few=few,
    )


def write_pages(results, directory=ROOT):
    picture, alt = chart(results)
    for path, text in (("docs/performance.md", page_for_users(results, alt)), ("docs/images/cost.svg", picture),
                       ("bench/aims.md", page_of_aims(results))):
        path = os.path.join(directory, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)


if __name__ == "__main__":
    write_pages(load(), *sys.argv[1:2])
