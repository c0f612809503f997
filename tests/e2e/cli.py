#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The output and exit status of heap_profile host, heap_profile report and traceconv profile: for wrong usage,
for damaged files, and in every view of the same profile.

    cli.py CASE      HEAPPROFD_BUILD names the build directory
"""

import gzip
import json
import math
import os
import pty
import re
import shutil
import signal
import subprocess
import time

from harness import BUILD, ROOT, SANITIZED, SLOWNESS, TOOL, check, limit_core_dumps, main, make_work_directory, need, run, sentences_of, skip
from memory_infra_made import Made
from perfetto_bytes import field
from trace import fields

TRACECONV = os.path.join(BUILD, "traceconv")
MAKE_TRACE = os.path.join(BUILD, "tests", "e2e", "make_trace")
WORK = make_work_directory("cli-")
BOB = 65501
VIEWS = ("space", "objects", "alloc_space", "alloc_objects", "max")
TEMPORARY = {"TMPDIR": WORK}


def at(name):
    return os.path.join(WORK, name)


def tool(*arguments, **options):
    return run([TOOL, *arguments], env=TEMPORARY, **options)


def expect(outcome, status, what, *said):
    """Check the exit status, and that standard error contains each text."""
    check(outcome.status == status, f"{what}: status {outcome.status}, not {status}")
    words = outcome.stderr.decode(errors="replace")
    for text in said:
        check(text in words, f"{what}: prints {words[-400:]!r}, not {text!r}")


def write(name, data):
    with open(at(name), "wb") as file:
        file.write(data)
    return at(name)


def made_trace(callsites=3000):
    """Make a trace of two dumps with this number of callsites and every kind of packet."""
    os.makedirs(at("made"), exist_ok=True)
    check(run([MAKE_TRACE, at("made"), str(callsites)]).status == 0, "make_trace failed")
    with open(at("made/raw-trace"), "rb") as file:
        return file.read()


def profile_of(directory, *command, options=()):
    """Profile a command. Return the tool's messages."""
    outcome = tool("host", "-o", at(directory), *options, "--", *command)
    return outcome


def compile_c(name, source, *flags):
    need("gcc")
    done = run(["gcc", "-x", "c", "-o", at(name), "-", *flags], stdin=source.encode())
    check(done.status == 0, f"gcc: {done.stderr[-300:]!r}")
    return at(name)


SMALL = "#include <stdlib.h>\nint main() { volatile char *p = malloc(100); p[0] = 1; return 0; }\n"


def test_truncated():
    """A trace cut anywhere causes no crash; the part before the cut is shown and marked partial."""
    data = made_trace(5000)
    whole = json.loads(tool("report", "--json", at("made")).stdout)
    check(whole["heaps"][0]["incomplete"] is False and whole["warning"] == "", "whole: not partial")
    sites = len(whole["heaps"][0]["callsites"])
    parts = 8 if SANITIZED else 20
    offsets = {0, 1, 2, 3, 9, 10, 100} | {len(data) * part // parts for part in range(1, parts)}
    offsets |= {len(data) - back for back in (1, 2, 10, 1000)}
    shown = partial = 0
    for offset in sorted(offsets):
        path = write("cut", data[:offset])
        text, script = tool("report", path), tool("report", "--json", path)
        what = f"cut at {offset} of {len(data)}"
        check(text.status in (0, 1), f"{what}: status {text.status}")
        check(text.status == script.status, f"{what}: JSON's status is {script.status}")
        if text.status == 1:
            expect(text, 1, what, path)
            continue
        shown += 1
        found = json.loads(script.stdout)
        heap = found["heaps"][-1]
        # A cut between two packets is undetectable if a dump ended there.
        if not heap["incomplete"]:
            check(len(heap["callsites"]) == sites, f"{what}: {len(heap['callsites'])} callsites")
            continue
        partial += 1
        check(b"partial" in text.stdout, f"{what}: the report does not call it partial")
        check(b"warning: " in text.stdout, f"{what}: no warning")
        check("incomplete" in found["warning"], f"{what}: warns {found['warning']!r}")
    check(shown > parts * 2 // 5, f"only {shown} cuts left something to show")
    check(partial > 3, f"only {partial} cuts were called partial")


def test_partial_is_not_exact():
    """At interval 1, the figures of a partial trace are not called exact."""
    # Every path through these calls is a callsite: 2 to the power of 14.
    many = compile_c(
        "many",
        "#include <stdlib.h>\n"
        "void left(int deep); void right(int deep);\n"
        "void left(int deep) { malloc(16); if (deep) { left(deep - 1); right(deep - 1); } }\n"
        "void right(int deep) { malloc(24); if (deep) { left(deep - 1); right(deep - 1); } }\n"
        "int main() { left(13); return 0; }\n",
        "-O0", "-fno-builtin", "-w",
    )
    profile_of("many.profile", many, options=["-i", "1", "--quiet"])
    with open(at("many.profile/raw-trace"), "rb") as file:
        data = file.read()
    whole = tool("report", at("many.profile")).stdout
    check(b"all figures are exact" in whole, "whole: not exact")
    shown = 0
    for part in range(3, 20):
        outcome = tool("report", write("cut", data[: len(data) * part // 20]))
        if outcome.status == 0:
            shown += 1
            check(b"all figures are exact" not in outcome.stdout, f"cut at {part}/20: called exact")
            check(b" partial " in outcome.stdout, f"cut at {part}/20: not called partial")
    check(shown > 2, f"only {shown} cuts left something to show")


def test_compressed():
    """gzip and zstd files are read; truncated or damaged ones are reported."""
    need("zstd")
    data = made_trace()
    plain = tool("report", at("made/raw-trace")).stdout
    zstd = run(["zstd", "-q", "-c", at("made/raw-trace")]).stdout
    for name, packing in (("gzip", gzip.compress(data, 1)), ("zstd", zstd)):
        path = write("packed", packing)
        outcome = tool("report", path)
        check(outcome.status == 0 and outcome.stdout == plain, f"{name}: another report")
        outcome = tool("report", "-", stdin=packing)
        check(outcome.status == 0 and outcome.stdout == plain, f"{name} from a pipe: another report")
        for part in (1, 3, 5, 7, 9):
            outcome = tool("report", write("packed", packing[: len(packing) * part // 10]))
            words = outcome.stdout + outcome.stderr
            check(outcome.status in (0, 1), f"{name} cut: status {outcome.status}")
            check(f"{name} data is cut off".encode() in words, f"{name} truncated: prints {words[-300:]!r}")
        middle = len(packing) // 2
        garbled = packing[:middle] + bytes(byte ^ 0x5A for byte in packing[middle : middle + 64])
        outcome = tool("report", write("packed", garbled + packing[middle + 64 :]))
        words = outcome.stdout + outcome.stderr
        check(outcome.status in (0, 1), f"{name} garbled: status {outcome.status}")
        check(b"damaged" in words or b"cut off" in words, f"{name} damaged: prints {words[-300:]!r}")


def test_not_a_trace():
    """An error names the file, the reason, and what to name instead."""
    expect(tool("report", at("nowhere")), 1, "missing", "nowhere", "No such file")
    expect(tool("report", write("empty", b"")), 1, "empty", at("empty"), "no trace packet")
    for seed in range(30):
        garbage = bytes((seed * 7919 + i * i * 31 + (i >> 3) * seed) & 255 for i in range(4000))
        expect(tool("report", write("garbage", garbage)), 1, f"garbage {seed}", at("garbage"))
    expect(tool("report", write("script", b"#!/bin/sh\necho\n")), 1, "a script", at("script"), "unknown format", "pprof")
    os.mkdir(at("hollow"))
    expect(tool("report", at("hollow")), 1, "hollow directory", at("hollow"), "no raw-trace in it")
    expect(tool("report"), 1, "no latest profile", "no latest profile", "heap_profile host -- COMMAND")
    expect(tool("report", "/dev/null"), 1, "/dev/null", "/dev/null", "no trace packet")
    expect(tool("report", "-", stdin=b""), 1, "empty pipe", "standard input")
    made_trace(10)
    files = [name for name in os.listdir(at("made")) if name.endswith(".pb.gz")]
    expect(tool("report", at("made/" + files[0])), 0, "a pprof file is no trace, but is read")
    expect(tool("report", "a", "b"), 2, "two profiles", "one profile at a time", "'b'")
    outcome = run([TOOL, "report", at("made")], env=TEMPORARY)
    check(outcome.status == 0, "the trace beside all that garbage is read")
    with open("/dev/full", "wb") as full:
        outcome = subprocess.run([TOOL, "report", at("made")], stdout=full, stderr=subprocess.PIPE)
    check(outcome.returncode == 1 and b"No space left" in outcome.stderr, "a full disk is reported")
    if os.getuid() == 0:
        shutil.copy(at("made/raw-trace"), at("secret"))
        os.chmod(at("secret"), 0)
        os.chmod(WORK, 0o755)
        outcome = run([TOOL, "report", at("secret")], user=65534, group=65534, extra_groups=[])
        expect(outcome, 1, "unreadable", at("secret"), "Permission denied")


def test_unknown_selection():
    """If a dump, pid or heap does not exist, the error lists those that do."""
    made_trace(10)
    for option, value in (("--dump", "9"), ("--pid", "9"), ("--heap", "other")):
        outcome = tool("report", option, value, at("made"))
        expect(outcome, 1, option, "has that pid, heap or dump", "--pid 4711", "libc.malloc", "1 to 2")
        check(outcome.stdout == b"", f"{option}: prints {outcome.stdout!r}")
        script = tool("report", "--json", option, value, at("made"))
        check(script.status == 1 and json.loads(script.stdout)["heaps"] == [], f"{option} --json")


def figures_of(text):
    """Return (value, share) of the lines of a table, as printed, without the head."""
    found = []
    for line in text.decode().splitlines():
        match = re.match(r" *([\d.,]+(?: [kMGT]?B)?) +([\d.]+)% ", line)
        if match:
            found.append((number_of(match.group(1)), float(match.group(2))))
    return found


def number_of(text):
    units = {"B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12}
    digits, _, unit = text.partition(" ")
    return float(digits.replace(",", "")) * units.get(unit, 1)


def main_table(text):
    """Return only the first table of a report, with its title."""
    return next((part for part in text.split(b"\n\n") if b" share 95 % " in part), b"")


def test_views_agree():
    """Table, tree, functions, threads and JSON of one profile have the same totals."""
    need("jq")
    program = "[range(3000)|tostring]|length"
    profile_of("jq", "jq", "-n", program, options=["-i", "1", "--quiet"])
    # A program that holds memory at its end, allocated by more than one thread.
    outcome = profile_of(
        "threads", os.path.join(BUILD, "tests/programs/threads_many"), options=["-i", "1", "--quiet"],
    )
    check(outcome.status == 0, f"threads_many: status {outcome.status}")
    compared = 0
    for directory in ("jq", "threads"):
        script = json.loads(tool("report", "--json", at(directory)).stdout)
        heap = script["heaps"][0]
        check(heap["total"]["alloc_space"]["estimate"] == heap["exact_bytes"], f"{directory}: bytes")
        check(heap["total"]["alloc_objects"]["estimate"] == heap["exact_calls"], f"{directory}: calls")
        for view in VIEWS:
            total = heap["total"][view]["estimate"]
            sites = sum(site[view]["estimate"] for site in heap["callsites"])
            check(abs(sites - total) <= 1e-9 * total, f"{directory} {view}: callsites {sites}, {total}")
            if view != "max":
                threads = sum(thread[view]["estimate"] for thread in heap["threads"])
                check(abs(threads - total) <= 1e-9 * total, f"{directory} {view}: threads {threads}")
            if total < 0.5:
                continue
            compared += 1
            for shape in ((), ("--tree",), ("--cumulative",), ("--thread",)):
                if view == "max" and shape == ("--thread",):
                    continue
                text = tool("report", "--view", view, "--top", "0", *shape, at(directory)).stdout
                lines = figures_of(main_table(text))
                what = f"{directory} --view {view} {' '.join(shape)}"
                if not check(lines, f"{what}: no lines in {text[-300:]!r}"):
                    continue
                if shape == ("--cumulative",):
                    # Rows below a function add up to at most its figure; the largest comes first.
                    check(lines[0][0] == max(line[0] for line in lines), f"{what}: not in order")
                    check(lines[0][0] <= total * 1.005 + 0.5, f"{what}: {lines[0][0]} of {total}")
                    continue
                if shape == ("--tree",):
                    roots = [line for line in tree_roots(text)]
                    printed = sum(value for value, _ in roots)
                else:
                    printed = sum(value for value, _ in lines)
                # Printed values have three digits.
                check(abs(printed - total) <= total * 0.006 + 0.5 * len(lines), f"{what}: {printed}, {total}")
    check(compared >= 5, f"only {compared} views had anything in them")


def tree_roots(text):
    """Return the outermost lines of the tree: those with a branch in the first column, or else the first line."""
    found, branches = [], []
    for line in main_table(text).decode().splitlines():
        # The last figure column is the mean, and two spaces precede the outermost names.
        match = re.match(r"( *[\d.,]+(?: [kMGT]?B)? +[\d.]+% .{19} .{10} .{9}  )(\S)", line)
        if match:
            found += figures_of(line.encode())
        if match and match.group(2) in "├└|`":
            branches += figures_of(line.encode())
    return branches if branches and branches[0] == found[0] else found[:1]


def test_branches():
    """The tree's branches use the locale's characters; functions are shown over all their calls, or by call."""
    made = Made()
    made.process(7, "/bin/made")
    code = made.mapping("/bin/made", 0x1000, 0x9000)
    main, one, two, other = (made.frame(name, code, pc) for name, pc in
                             (("main", 1), ("work", 0x10), ("work", 0x20), ("rest", 0x30)))
    leaf, deep = made.frame("leaf", code, 0x40), made.frame("deep", code, 0x50)
    stacks = ((main, one, leaf), (main, two, leaf), (main, two, deep), (main, other, deep, leaf))
    made.dump(2000, {(7, "libc.malloc"): [made.sample(made.stack(*stack), size, 1) for stack, size in
                                          zip(stacks, (4096000, 8192000, 2048000, 1024000))]})
    trace = made.write(at("made"))

    def lines(locale, *options):
        text = run([TOOL, "report", "--tree", *options, trace], env={"LC_ALL": locale}).stdout.decode()
        return [re.sub(r" \[made\]", "", line[60:]).rstrip() for line in main_table(text.encode()).decode().splitlines()[2:]]

    wanted = ["main", "├ work", "│ ├ leaf", "│ └ deep", "└ rest", "  deep", "  leaf"]
    check(lines("C.UTF-8") == wanted, f"UTF-8: {lines('C.UTF-8')}")
    plain = ["main", "|- work", "|  |- leaf", "|  `- deep", "`- rest", "   deep", "   leaf"]
    check(lines("C") == plain, f"ASCII: {lines('C')}")
    apart = lines("C.UTF-8", "--addresses")
    check(apart == ["main at 0x1", "├ work at 0x20", "│ ├ leaf at 0x40", "│ └ deep at 0x50", "├ work at 0x10", "│ leaf at 0x40",
                    "└ rest at 0x30", "  deep at 0x50", "  leaf at 0x40"], f"apart: {apart}")


def test_intervals():
    """Exact totals bound estimates; the peak is as certain as live memory; no figure is "-0"."""
    commands = b"hold 20 2000\nchurn 1000 65536\n"
    words = ""
    for number in range(4):
        name = f"intervals-{number}"
        run([TOOL, "host", "--quiet", "-i", "4096", "-o", at(name), "--", os.path.join(BUILD, "tests/programs/commanded")],
            stdin=commands)
        (heap,) = json.loads(tool("report", "--json", at(name)).stdout)["heaps"]
        for site in [heap["total"], *heap["threads"], *heap["callsites"]]:
            for view in (*VIEWS, "max_objects"):
                if view not in site:
                    check(site in heap["threads"] and view.startswith("max"), f"{view} of {site}")
                    continue
                most = heap["exact_calls" if "objects" in view else "exact_bytes"]
                low, high = site[view]["low95"], site[view]["high95"]
                # A row keeps an estimate above what is certain, so that rows add up; the total is the limit then.
                most = most if site is heap["total"] else max(most, site[view]["estimate"])
                check(0 <= low <= site[view]["estimate"] <= high <= most, f"{view} {site[view]}, most {most}")
        (held,) = [site for site in heap["callsites"] if site["frames"][0]["name"] == "hold_block"] or [None]
        # Each sample is a whole block; this is the number of blocks that were live at the heap's peak.
        if held:
            check(held["space"]["low95"] >= 2000 * held["samples"], f"a limit is below the samples: {held}")
            for view in ("space", "objects"):
                peak = held["max" if view == "space" else "max_objects"]
                check(peak == held[view], f"at the peak {peak}, later {held[view]}")
            live, peak = heap["total"]["space"]["high95"], heap["total"]["max"]["high95"]
            check(abs(live + 65536 - peak) < 0.2 * 65536, f"upper limits {live} and {peak}: they do not differ by one block of 65,536")
        for view in VIEWS:
            words += tool("report", "--view", view, "--top", "0", at(name)).stdout.decode()
            words += tool("diff", "--view", view, "--top", "0", at("intervals-0"), at(name)).stdout.decode()
    check(not re.search(r"[-+−]0( [kMG]?B)?( |$)", words, re.M), f"a zero with a sign: {words}")


def test_overhead_limit():
    """Without an interval, every allocation is recorded until that costs too much; with one, it stays."""
    figures = {}
    recordings = {"limited": (), "given": ("-i", "4096"), "both": ("-i", "65536", "--max-overhead", "1"), "off": ("--max-overhead", "off")}
    for name, options in recordings.items():
        outcome = run([TOOL, "host", "--quiet", *options, "-o", at(name), "--", os.path.join(BUILD, "tests/programs/commanded")],
                      stdin=b"hold 100 1000\nchurn 2000000 64\n")
        check(outcome.status == 0, f"{name}: {outcome.stderr}")
        (figures[name],) = json.loads(tool("report", "--json", at(name)).stdout)["heaps"]
    for name, heap in figures.items():
        total = heap["total"]["alloc_space"]
        check(abs(total["estimate"] / heap["exact_bytes"] - 1) < 0.15, f"{name}: {total}, exact {heap['exact_bytes']}")
        check(heap["agreement"]["agrees"], f"{name}: {heap['agreement']}")
    for name, first, least, most in (("limited", 1, 4096, 1 << 24), ("given", 4096, 4096, 4096),
                                     ("both", 1, 65536, 1 << 24), ("off", 1, 1, 1)):
        heap = figures[name]
        check(heap["first_interval_bytes"] == first and least <= heap["interval_bytes"] <= most,
              f"{name}: intervals {heap['first_interval_bytes']} to {heap['interval_bytes']}")
        is_widened = name in ("limited", "both")
        check(("-i 1 records every allocation" in heap["widened"]) == is_widened, f"{name}: {heap['widened']!r}")
        check(not is_widened or heap["heap_samples"] >= 100000, f"{name}: {heap['heap_samples']} samples")
        for verb in ("report", "leaks"):
            said = tool(verb, at(name)).stdout.decode().replace("\n", " ")
            check(("interval was widened from 1 to" in said) == is_widened, f"{verb} {name}: {said[:600]}")
    said = tool("diff", at("given"), at("limited")).stdout.decode()
    check(said.count("interval was widened") == 1, f"diff: {said[:800]}")
    compared = json.loads(tool("diff", "--json", at("given"), at("limited")).stdout)
    check([side["widened"] != "" for key in ("before", "after") for heap in compared["heaps"] for side in heap[key]] == [False, True],
          f"diff --json: {json.dumps(compared)[:800]}")


def test_growing_buffer():
    """Blocks above the wide interval are no reason to widen: it would not save their samples."""
    for arguments, live, peak in (((), 81915904, 81915904), (("small",), 639994, None)):
        name = "growing-" + "".join(arguments)
        outcome = run([TOOL, "host", "--quiet", "-o", at(name), "--", os.path.join(BUILD, "tests/programs/growing"), *arguments])
        check(outcome.status == 0, f"{name}: {outcome.stderr}")
        (heap,) = json.loads(tool("report", "--json", at(name)).stdout)["heaps"]
        space = heap["total"]["space"]
        check((space["low95"], space["estimate"], space["high95"]) == (live,) * 3, f"{name}: live {space}, truth {live}")
        check(peak is None or heap["total"]["max"]["estimate"] == peak, f"{name}: peak {heap['total']['max']}")
        check(heap["interval_bytes"] == 1, f"{name}: interval {heap['interval_bytes']}")


def test_few_allocations():
    """A leak of few bytes in a program of few calls is the one row, without an option."""
    run([TOOL, "host", "--quiet", "-o", at("few"), "--", os.path.join(BUILD, "tests/programs/commanded")],
        stdin=b"hold 1 72\nchurn 10000 64\n")
    (heap,) = json.loads(tool("report", "--json", at("few")).stdout)["heaps"]
    check(heap["interval_bytes"] == 1, f"interval {heap['interval_bytes']}")
    check(any(row["space"]["estimate"] == 72 for row in heap["callsites"]), f"{heap['callsites'][:5]}")


def test_unseen_allocations():
    """The limits of a heap's totals cover allocations without samples; no limit exceeds the exact total."""
    commands = b"hold 1 16000\nhold 60 16\n"
    command = ["--", os.path.join(BUILD, "tests/programs/commanded")]
    run([TOOL, "host", "--quiet", "-i", "1", "-o", at("rest"), *command], stdin=commands)
    (truth,) = json.loads(tool("report", "--json", at("rest")).stdout)["heaps"]
    run([TOOL, "host", "--quiet", "-i", "4096", "-o", at("nothing"), *command], stdin=b"hold 3 16\ndrop\n")
    for number in range(5):
        for _ in range(9):
            shutil.rmtree(at(f"rest-{number}"), ignore_errors=True)
            run([TOOL, "host", "--quiet", "-i", "4096", "-o", at(f"rest-{number}"), *command], stdin=commands)
            (heap,) = json.loads(tool("report", "--json", at(f"rest-{number}")).stdout)["heaps"]
            if heap["total"]["space"]["estimate"] >= 16000:
                break  # else no sample hit the large block, which happens in 2 % of the runs
        for view in (*VIEWS, "max_objects"):
            low, high = heap["total"][view]["low95"], heap["total"][view]["high95"]
            true = truth["total"][view]["estimate"]
            check(low <= true <= high, f"{view}: {true} is not in {low} to {high}")
        text = tool("report", at(f"rest-{number}")).stdout.decode()
        check("at most" not in text.split("\n\n")[1], f"another notation: {text}")
        resident = heap["peak_rss_bytes"]  # usually over before the first memory snapshot
        check(resident != 0 and ("resident memory reached" in text) == (resident is not None), f"{resident}: {text}")
        rows = tool("query", "--json", at(f"rest-{number}"), "select * from hp_total where heap_name = 'libc.malloc'").stdout
        (row,) = json.loads(rows)
        for view, name in (("space", "live_size"), ("objects", "live_count")):
            for key, end in (("low95", "_low"), ("high95", "_high")):
                check(math.isclose(row[name + end], heap["total"][view][key]), f"{name + end}: {row}, {heap['total'][view]}")
            for before, change in ((at("nothing"), 16960 if view == "space" else 61), (at("rest-0"), 0)):
                total = json.loads(tool("diff", "--json", before, at(f"rest-{number}")).stdout)["heaps"][0]["total"][view]
                check(total["low95"] <= change <= total["high95"], f"{change} is not in {total}, {before}")
                check(change != 0 or not total["beyond_chance"], f"the total changed: {total}")
        check(re.search(r": [0-9.]+ k?B (± |\()[0-9u].* was never freed", tool("leaks", at(f"rest-{number}")).stdout.decode()), "leaks: no total")
        limit = int(truth["total"]["space"]["estimate"]) - 100
        done = tool("check", "--max-live", str(limit), at(f"rest-{number}"))
        check(done.status == 2, f"the exceeded limit {limit} holds: {done.status} {done.stdout!r}")


def test_incomplete_stacks():
    """The remedy for an incomplete stack fits the code: generated code has no build option. A small share is not 0."""
    made = Made()
    made.process(7, "p")
    end = made.frame("[no unwind information]")
    stacks = [made.stack(end, made.frame("", made.mapping(path, 0x1000 * at, 0x1000 * at + 0x1000), 0x10), made.frame("leaf"))
              for at, path in enumerate(("[jit:7]", "/lib/old.so"), 1)]
    whole = made.stack("main", made.frame("", made.mapping("/bin/p", 0x9000, 0xa000, b"\1\2\3\4"), 0x20))
    made.dump(2000, {(7, "libc.malloc"): [made.sample(stack, 1_000_000, 10) for stack in stacks] + [made.sample(whole, 1e9, 1e6)]})
    report = json.loads(tool("report", "--json", made.write(at("gaps"))).stdout)
    (heap,), (unnamed,) = report["heaps"], (module for module in report["unnamed"] if module["mapping"].endswith("bin/p"))
    check("bundle --symbol-paths" in unnamed["remedy"] and "Chrome" not in unnamed["remedy"], f"{unnamed}")
    text = tool("report", at("gaps")).stdout.decode()
    check("less than 0.1 % of samples: stacks end in code of old.so without unwind information: build it" in text, text[:900])
    remedies = {gap["mapping"].strip("/"): gap["remedy"] for gap in heap["unwind_gaps"]}
    check(sorted(remedies) == ["[jit:7]", "lib/old.so"], f"{remedies}")
    check("frame pointers (java" in remedies["[jit:7]"] and "build it" not in remedies["[jit:7]"], f"{remedies}")
    check("build it with" in remedies["lib/old.so"], f"{remedies}")


def test_many_processes():
    """The report begins with a table of processes, the largest first; then come sections of the largest, in that order."""
    made = Made()
    stack = made.stack("main")
    sizes = {100 + i: 1_000_000 * (i * 7 % 25 + 1) for i in range(25)}
    for pid in sizes:
        made.process(pid, f"/bin/p{pid}")
    heaps = {(pid, "libc.malloc"): [made.sample(stack, size, 10)] for pid, size in sizes.items()}
    heaps[110, "pool"] = [made.sample(stack, 99_000_000, 5)]
    made.dump(2000, heaps)
    trace = made.write(at("many"))
    largest = sorted(sizes, key=lambda pid: -(99_000_000 if pid == 110 else sizes[pid]))

    def look(*options):
        text = tool("report", *options, trace).stdout.decode()
        table = text.split("\n\n")[0].strip().splitlines()
        shown = [int(re.match(r" *\S+ [kMG]?B +(?:≤ )?\S+(?: [kMG]?B)? +(\d+)  /bin/p", line).group(1)) for line in table[2:] if "more)" not in line
                 and "..." not in line]
        sections = [int(pid) for pid in re.findall(r"^  process       (\d+),", text, re.M)]
        return text, table, shown, sections

    text, table, shown, sections = look()
    check(table[0].startswith("25 processes, the largest first"), f"{table[0]!r}")
    check(shown == largest[:20], f"rows {shown}, wanted {largest[:20]}")
    check("(5 more; --top 0 shows all)" in table[-1], f"{table[-1]!r}")
    check("/bin/p110 [pool] and 1 more heap" in table[2], f"{table[2]!r}")
    check(sections == [110, 110, *largest[1:10]], f"sections {sections}")
    check("15 more processes, smaller: --pid PID shows one, --top 0 all" in text, "the rest is not named")
    _, _, shown, sections = look("--top", "0")
    check(shown == largest and sections == [110, *largest], f"all: {shown}, {sections}")
    check("processes, the largest first" not in tool("report", "--pid", "110", trace).stdout.decode(), "one process has a table of processes")
    file = json.loads(tool("report", "--json", trace).stdout)
    check([heap["pid"] for heap in file["heaps"]][:3] == [100, 101, 102], "JSON keeps the order of the file")


def test_summary_limits():
    """The table of processes claims no more than is certain, and no 0 where nothing was sampled: it prints limits."""
    # At this interval no process has a sample: the chance is one in ten thousand.
    tool("host", "--quiet", "-i", "1G", "--follow-children", "-o", at("limits"), "--", "sh", "-c", "expr 1 + 1; ls / | wc; :")
    heaps = json.loads(tool("report", "--json", at("limits")).stdout)["heaps"]
    exact = {heap["pid"]: heap for heap in heaps if heap["exact_calls"]}
    text = tool("report", at("limits")).stdout.decode()
    rows = re.findall(r"^ {1,8}≤ (\S+) (k?B) {1,9}≤ (\S+) (k?B) +(\d+)  ", text.split("\n\n")[0], re.M)
    check("limits (≤)" in text and len(rows) == len(exact) >= 3, f"{len(exact)} processes: {text[:900]}")
    for *figures, pid in rows:
        for number, unit in (figures[:2], figures[2:]):
            most = exact[int(pid)]["exact_bytes"]
            check(0 < float(number) * (1000 if unit == "kB" else 1) <= most * 1.006, f"{pid}: {number} {unit}, exact {most}")


def test_readable_losses():
    """The report says what slowed a process down or ended its profile, in readable units and words."""
    for status, said in (
        (field(5, field(6, 1719054900)), "slowed down   28 min 39 s that threads waited for the profiler, added up over all of them"),
        (field(7, 1), "ended early   the process allocated faster than the profiler could read"),
        (field(8, 1), "ended early   the process overwrote the memory that it shares with the profiler"),
        (field(10, 1), "ended early   the profiler reached its limit of memory or CPU time"),
        (field(14, 5000), "ended early   the profiler gave no sign of life for 5 s while the process waited for it"),
    ):
        made = Made()
        made.status = status
        made.process(7, "p")
        made.dump(2000, {(7, "libc.malloc"): [made.sample(made.stack("main"), 10, 1)]})
        text = tool("report", made.write(at("status"))).stdout.decode()
        check(said in text, f"{said!r} is not in {text!r}")
        check(" ring" not in text, f"words of the implementation: {text!r}")
    expect(tool("report", at("status") + "@1"), 1, "TRACE@1", f"report and the converters take {at('status')} --dump 1")
    expect(tool("report", at("other") + "@1"), 1, "no such trace", "No such file or directory")


def test_one_row_per_stack():
    """A table prints each visible stack once, and adds up the rows that look the same."""
    need("jq")
    program = "[range(3000)|tostring]|length"
    profile_of("jq", "jq", "-n", program, options=["-i", "1", "--quiet"])
    sites = json.loads(tool("report", "--json", at("jq")).stdout)["heaps"][0]["callsites"]
    for shape in ((), ("--stacks",)):
        text = tool("report", "--view", "alloc_space", "--top", "0", *shape, at("jq")).stdout
        table = main_table(text).decode().splitlines()[2:]
        starts = [i for i, line in enumerate(table) if re.match(r" *[\d.,]+ \S+ +[\d.]+%", line)]
        stacks = ["\n".join(table[i:j]) for i, j in zip(starts, starts[1:] + [None])]
        # After the figures: share, exact, count, mean.
        stacks = [re.sub(r"^.*?% +exact +[\d.,]+[kMG]? +[\d.,]+ \S+ +", "", stack) for stack in stacks]
        check(len(stacks) > 5, f"{shape}: {len(stacks)} lines")
        check(len(set(stacks)) == len(stacks), f"{shape}: of {len(stacks)} lines {len(set(stacks))} differ")
        print(f"{shape}: {len(sites)} callsites, {len(stacks)} lines")


def test_one_row_per_group():
    """--by prints what looks the same once, whichever two keys are chosen; rows of a level add up to those above."""
    tool("host", "--quiet", "-i", "1", "--all-heaps", "-o", at("groups"), "--", os.path.join(BUILD, "tests/programs/heap_scopes"))
    keys = ("type", "context", "backtrace")
    for by in ("type", "context", *(f"{one},{other}" for one in keys for other in keys if one != other)):
        text = tool("report", "--by", by, "--view", "alloc_space", "--top", "0", at("groups")).stdout.decode()
        tables = re.findall(r"^By .*\n.*\n((?: +[\d.,]+ .*\n)+)", text, re.M)
        check(tables, f"{by}: {text[:600]}")
        for table in tables:
            group, seen, counts = None, set(), {}
            for line in table.splitlines():
                count, indent, row = re.match(r".*?% +exact +([\d,]+) +[\d.,]+ k?B  ( *)(.*)", line).groups()
                group = group if indent else row
                counts.setdefault(group, []).append(int(count.replace(",", "")))
                check((group, indent, row) not in seen, f"--by {by} prints a row twice: {line}")
                seen.add((group, indent, row))
            for name, (whole, *parts) in counts.items():
                check(not parts or sum(parts) == whole, f"--by {by}: {name}: {parts} of {whole}")


def test_peak_table():
    """The table of the peak is printed only if it differs from that of the end."""
    commanded = os.path.join(BUILD, "tests/programs/commanded")
    for script, tables, title in (
        (b"hold 10 1000\n", 1, b"Never freed: still live at the end, which is the peak"),
        (b"hold 10 1000\ndrop\nhold 1 10\n", 2, b"Bytes live at the peak\n"),
    ):
        outcome = tool("host", "-i", "1", "--", commanded, stdin=script)
        said = outcome.stderr
        check(said.count(b"function < its callers") == tables and title in said, f"{script}: {said!r}")


def test_doctor_of_linked():
    """doctor decides by a program's libraries whether its own heaps can be profiled."""
    linked = (("documented_c_client", True), ("documented_c_archive", True), ("documented_c_noop", False))
    for name, can in linked:
        said = tool("doctor", "--", os.path.join(BUILD, "tests/api", name)).stdout.decode()
        check(("linked to the client library" in said) == can, f"{name}: {said}")
        check(("does nothing" in said) != can, f"{name}: {said}")
    said = tool("doctor", "--", os.path.join(BUILD, "tests/programs/commanded")).stdout.decode()
    check("client" not in said and "does nothing" not in said, f"a program without our libraries: {said}")


def test_process_names():
    """A process has the name that it was started by; a file of its profile has a name without characters
    that a shell would interpret."""
    commanded = os.path.join(BUILD, "tests/programs/commanded")
    shutil.copy(commanded, at("an odd $name (1)"))
    os.symlink("an odd $name (1)", at("called"))
    for title, called, name in (
        ("called *:6379", "called", "called"),
        ("-called", "called", "called"),
        ("called", "called", "called"),
        ("/a path/of an odd $name (1)", "called", "of an odd $name (1)"),
        # As chromium's children do: they write all their arguments into one.
        ("/usr/lib/called --type=renderer --user-data-dir=/tmp/other", "called", "called"),
    ):
        directory = at("named")
        outcome = tool("host", "-i", "1", "-o", directory, "--quiet", "--", "bash", "-c",
                       'exec -a "$0" "$1"', title, at(called), stdin=b"hold 1 10\n")
        check(outcome.status == 0, f"{title!r}: {outcome.stderr!r}")
        heaps = json.loads(tool("report", "--json", directory).stdout)["heaps"]
        found = {heap["name"] for heap in heaps if "before exec" not in heap["heap"]}
        check(found == {name}, f"{title!r} of {called!r} is called {found}, not {name!r}")
        files = [file for file in os.listdir(directory) if file.endswith(".pb.gz")]
        check(len(files) == len(heaps), f"{files} of {len(heaps)} heaps")
        for file in files:
            check(re.fullmatch(r"[A-Za-z0-9._][A-Za-z0-9._-]*", file), f"a file {file!r}")
        shutil.rmtree(directory)


def test_process_titles():
    """Processes that change their titles after their fork are shown under these titles, not under their
    parent's, however short they live."""
    need("perl")
    script = """
        $0 = "acorns: master /etc/acorns";
        my @children = map { my $n = $_; my $pid = fork();
            if (!$pid) { $0 = "acorns: worker $n /var/run/x"; my @held = map { "x" x 500 } 1 .. 20000;
                         select(undef, undef, undef, 0.3) if $n < 3; exit 0 }
            $pid } 1 .. 3;
        waitpid($_, 0) for @children;
    """
    # A process waits for room in its small ring until the profiler has looked at it.
    options = ["--follow-children", "-i", "1", "--block-client", "--shmem-size", "65536"]
    outcome = profile_of("titles", "perl", "-e", script, options=options)
    check(outcome.status == 0, f"{outcome.stderr!r}")
    heaps = json.loads(tool("report", "--json", at("titles")).stdout)["heaps"]
    found = sorted(heap["command"] for heap in heaps)
    wanted = ["'acorns: master /etc/acorns'"] + [f"'acorns: worker {n} /var/run/x'" for n in (1, 2, 3)]
    check(found == wanted, f"titles: {found}")
    check({heap["name"] for heap in heaps} == {"acorns"}, f"names: {[heap['name'] for heap in heaps]}")
    files = [name for name in os.listdir(at("titles")) if name.endswith(".pb.gz")]
    check(len(files) == 4 and all(name.startswith("acorns.") for name in files), f"files: {files}")


def test_hints():
    """Errors suggest the probable meaning."""
    expect(tool("host", "--block", "--", "true"), 125, "--block", "is ambiguous",
           "--block-client, --block-client-timeout")
    outcome = profile_of("hints", "true", options=["--all-heaps", "--exclude-heaps", "malloc", "-i", "1"])
    expect(outcome, 0, "a heap named malloc", "did you mean libc.malloc?")
    outcome = profile_of("exact", "true", options=["--all-heaps", "--exclude-heaps", "libc.mmap", "-i", "1"])
    check(b"did you mean" not in outcome.stderr, f"{outcome.stderr!r}")
    for options, said in ((["--exclude-heaps", "pool"], b"--exclude-heaps pool changes nothing: without --heaps"),
                          (["--heaps", "pool", "--exclude-heaps", "libc.malloc"], b"libc.malloc changes nothing: --heaps"),
                          (["--all-heaps", "--exclude-heaps", "libc.mmap"], b"libc.mmap changes nothing: it is profiled only"),
                          (["--all-heaps", "--exclude-heaps", "pool"], None),
                          (["--heaps", "pool,libc.malloc", "--exclude-heaps", "pool"], None)):
        outcome = profile_of("excluded", "true", options=[*options, "-i", "1"])
        check(outcome.status == 0, f"{options}: {outcome.status}")
        changes = b"changes nothing" in outcome.stderr
        check(said in outcome.stderr if said else not changes, f"{options}: {outcome.stderr!r}")
        shutil.rmtree(at("excluded"), ignore_errors=True)
    commanded = os.path.join(BUILD, "tests/programs/commanded")
    tool("host", "-i", "1", "--quiet", "-o", at("typeless"), "--", commanded, stdin=b"hold 1 10\n")
    for by in ("type", "context"):
        said = tool("report", "--by", by, at("typeless")).stdout.decode()
        check(f"does not report {by}s" in said and "docs/heaps.md" in said, f"--by {by}: {said[-300:]}")


def test_top():
    """--top shortens the table and says by how much; the order is that of the view."""
    made_trace(500)
    for view in VIEWS:
        full = figures_of(main_table(tool("report", "--view", view, "--top", "0", at("made")).stdout))
        cut_text = main_table(tool("report", "--view", view, "--top", "7", at("made")).stdout)
        cut = figures_of(cut_text)
        check(len(full) > 400 and len(cut) == 7, f"{view}: {len(full)} lines, {len(cut)} after --top 7")
        check(cut == full[:7], f"{view}: --top 7 shows others than the first seven")
        check(full == sorted(full, key=lambda line: -line[0]), f"{view}: not in order")
        check(f"({len(full) - 7:,} more callsites".encode() in cut_text, f"{view}: {cut_text[-100:]!r}")
        but_one = main_table(tool("report", "--view", view, "--top", str(len(full) - 1), at("made")).stdout)
        check(b"(1 more callsite;" in but_one, f"{view}: {but_one[-100:]!r}")
    functions = tool("report", "--cumulative", "--top", "3", at("made")).stdout
    check(len(figures_of(functions)) == 3 and b" more; --top 0" in functions, "--cumulative --top 3")


def json_report(*options):
    outcome = tool("report", "--json", *options)
    check(outcome.status == 0, f"{options}: {outcome.stderr!r}")
    return json.loads(outcome.stdout)


def test_json_top():
    """--json has all callsites, or with --top the largest of the view, and says how many more there are."""
    made_trace(500)
    for view, figure in (("space", "space"), ("alloc_objects", "alloc_objects")):
        (whole,), (cut,) = (json_report("--view", view, *options, at("made"))["heaps"]
                            for options in ((), ("--top", "7")))
        sizes = sorted((site[figure]["estimate"] for site in whole["callsites"]), reverse=True)
        check(len(sizes) > 400 and whole["more_callsites"] == 0, f"{len(sizes)} callsites")
        check([site[figure]["estimate"] for site in cut["callsites"]] == sizes[:7], f"{view}: not the largest, in order")
        check(cut["more_callsites"] == len(sizes) - 7, f"{view}: {cut['more_callsites']} more")
        check(cut["total"] == whole["total"], f"{view}: another total")


def test_json_compact():
    """The compact form has the same figures and stacks, each stack and frame once."""
    made_trace(500)
    whole, compact = json_report(at("made")), json_report("--compact", at("made"))
    check((whole["version"], compact["version"]) == (1, 2), "versions")

    def expand(number):
        frames = []
        while number is not None:
            frame, *caller = compact["stacks"][number]
            frames.append(compact["frames"][frame])
            number = caller[0] if caller else None
        return frames

    def expand_figure(value):
        if not isinstance(value, list):
            value = [value] * 3
        return dict(zip(("estimate", "low95", "high95"), value))

    sites = compact["heaps"][0]["callsites"]
    check(len(sites) == len(whole["heaps"][0]["callsites"]) > 400, f"{len(sites)} callsites")
    for one, other in zip(whole["heaps"][0]["callsites"], sites):
        again = {name: expand_figure(value) if isinstance(one.get(name), dict) else value
                 for name, value in other.items() if name != "stack"}
        again["frames"] = expand(other["stack"])
        if not check(again == one, f"{again}, not {one}"):
            break
    check(len({json.dumps(frame) for frame in compact["frames"]}) == len(compact["frames"]), "a frame is there twice")
    expect(tool("report", "--compact", at("made")), 2, "--compact", "--json")


def test_remarks():
    """An empty profile's remark names the cause and the remedy."""
    static = compile_c("static", SMALL, "-static")
    dynamic = compile_c("dynamic", SMALL)

    def says(what, command, *words, options=()):
        name = f"remark-{len(os.listdir(WORK))}"
        outcome = profile_of(name, *command, options=options)
        check(outcome.status == 0, f"{what}: status {outcome.status}")
        later = tool("report", at(name)).stdout.decode()
        for word in words:
            check(word in outcome.stderr.decode(), f"{what}: host does not print {word!r}")
            check(word in later, f"{what}: report does not print {word!r}")

    stripped = at("stripped")
    run(["strip", "-o", stripped, static])
    says("static", [static], "statically linked", "before its first instruction")
    says("stripped", [stripped], "statically linked", "do not strip it")
    run(["objcopy", "--add-section", ".go.buildinfo=/dev/null", stripped, at("go")])
    says("Go", [at("go")], "Go program", "runtime/pprof")
    if shutil.which("go"):
        says("Go with a loader", ["go", "version"], "Go's own heap, which is not in this profile")
    says("too little", [dynamic], "Nothing was sampled of what it allocated", "-i 1", options=["-i", "1G"])
    says("nothing allocated", ["true"], "allocated nothing")
    says("exec", ["sh", "-c", f"exec {dynamic}"], "Before its exec this process was sh", options=["-i", "1"])
    outcome = profile_of("wrapped", "bash", "-c", "exec jq -n '[range(100000)]|length'", options=["-i", "1"])
    told = outcome.stderr.decode()
    check(told.count("  process  ") == 1 and "1 smaller heap of programs that a process ran before its exec" in told,
          f"a small wrapper has its own section: {told}")
    check("(bash, before exec)" in tool("report", at("wrapped")).stdout.decode(), "the report has the wrapper's heap")
    if os.getuid() == 0:
        shutil.copy(dynamic, at("setuid"))
        os.chown(at("setuid"), 65534, 65534)
        os.chmod(at("setuid"), 0o4755)
        says("setuid", [at("setuid")], "gains rights", "a copy without these rights")


def test_unprofiled_children():
    """The report lists processes that ran unprofiled, and how to include them."""
    dynamic = compile_c("worker", SMALL)
    script = ["sh", "-c", f"{dynamic}; {dynamic}; true"]

    def read(name, *options):
        outcome = profile_of(name, *script, options=["-i", "1", *options])
        check(outcome.status == 0, f"{name}: status {outcome.status}")
        found = json.loads(tool("report", "--json", at(name)).stdout)
        used = [heap["name"] for heap in found["heaps"] if heap["exact_calls"]]
        return sorted(used), {process["name"]: process["reason"] for process in found["unprofiled"]}, outcome

    profiled, others, outcome = read("alone")
    check(profiled == ["sh"], f"alone: {profiled} profiled")
    reason = others.get("worker", "")
    check(b"worker (2 processes)" in outcome.stderr, f"alone: {outcome.stderr[-900:]!r}")
    check("--follow-children" in reason and "-n" in reason, f"alone: {others}")
    check(b"Not profiled" in outcome.stderr, "host does not list unprofiled processes")
    profiled, others, _ = read("named", "-n", "worker")
    check(profiled == ["worker", "worker"] and "sh" in others, f"-n: {profiled}, not {others}")
    profiled, others, _ = read("followed", "--follow-children")
    others.pop("(perhaps others)", None)
    check(profiled == ["sh", "worker", "worker"] and not others, f"followed: {profiled}, not {others}")
    profiled, others, outcome = read("nobody", "-n", "absent")
    check(profiled == [], f"-n absent: {profiled}")
    check(b"No process named absent was seen" in outcome.stderr, "-n absent: no message")


def code_of_pprof(path):
    """Return {path: (start, end)} of the mappings of a pprof file."""
    with gzip.open(path) as file:
        profile = list(fields(file.read()))
    strings = [value.decode() for number, value in profile if number == 6]
    mappings = [dict(fields(value)) for number, value in profile if number == 3]
    return {strings[mapping.get(5, 0)]: (mapping.get(2, 0), mapping.get(3, 0)) for mapping in mappings}


def test_children_share_stacks():
    """A trace grows with its different stacks, not with its processes; each process keeps its addresses."""
    stacks, libc = {}, re.compile(r"^(\w+)-(\w+) r-xp .* (/\S*/libc\.so\.6)$", re.M)
    for number in (2, 12):
        script = "; ".join(["cat /proc/self/maps"] * number) + "; true"
        outcome = profile_of(f"equal{number}", "sh", "-c", script, options=["--follow-children", "-i", "1", "-q", "--memory-infra"])
        with open(at(f"equal{number}/raw-trace"), "rb") as file:
            packets = [dict(fields(packet)) for _, packet in fields(file.read())]
        stacks[number] = sum(table == 7 for packet in packets for table, _ in fields(packet.get(12, b"")))
        places = {(int(start, 16), int(end, 16)): path for start, end, path in libc.findall(outcome.stdout.decode())}
        files = [name for name in os.listdir(at(f"equal{number}")) if name.startswith("cat.")]
        check(len(files) == number, f"{len(files)} profiles of {number} children: {files}")
        found = {code_of_pprof(at(f"equal{number}/{name}")).get(path) for name in files for path in places.values()}
        check(found == set(places), f"libc is at {sorted(places)}, profiles have it at {found}")
        with gzip.open(at(f"equal{number}/memory_infra.json.gz"), "rt") as file:
            regions = set(re.findall(r'"sa":"(\w+)"', file.read()))
        missing = {f"{start:x}" for start, _ in places} - regions
        check(not missing, f"memory dumps have no region of libc at {missing}")
    check(20 < stacks[2] and stacks[12] < 1.5 * stacks[2], f"stacks in traces of 2 and of 12 children: {stacks}")


def said_on_terminal(*arguments, status=0):
    """Run a command of ours on a terminal, without standard output. Return its messages."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen([TOOL, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=theirs,
                               env={**os.environ, **TEMPORARY})
    os.close(theirs)
    said = b""
    try:
        while part := os.read(ours, 4096):
            said += part
    except OSError:  # the other end is closed
        pass
    os.close(ours)
    check(process.wait(20) == status, f"{arguments}: status {process.returncode}, {said[-400:]}")
    return said


def test_pipes_in_directories():
    """A pipe in place of a directory's trace, whose reader would wait for ever, is refused; one that the user names is read."""
    directory, pipe, out = at("with-pipe"), at("with-pipe/raw-trace"), at("never")
    os.mkdir(directory)
    os.mkfifo(pipe)
    traceconv = os.path.join(BUILD, "traceconv")
    for command in ([TOOL, "report"], [TOOL, "oom"], [TOOL, "leaks"], [TOOL, "diff"], [TOOL, "view"], [TOOL, "check", "--max-live", "1k"],
                    [traceconv, "collapsed"], [traceconv, "text"], [traceconv, "symbolize"], [traceconv, "profile"],
                    [traceconv, "memory_infra"], [TOOL, "query", "--csv", directory, ".tables"], [traceconv, "bundle", directory, out],
                    [traceconv, "decompress_packets", directory, out]):
        refused = run(command if directory in command else [*command, directory])
        check(refused.status in (1, 2) and f"{pipe} is not a regular file" in refused.stderr.decode(),
              f"{command}: {refused.status} {refused.stderr}")
    check(not os.path.exists(out), "an output is written")
    with open(at("stacks"), "w", encoding="utf-8") as file:
        file.write("main;leaf 7\n")
    with subprocess.Popen(["cp", at("stacks"), pipe]) as writer:
        named = run([TOOL, "report", pipe])
        check(named.status == 0 and b"leaf" in named.stdout and writer.wait(20) == 0, f"{named}")
    for command in ([TOOL, "check", "--budgets", directory, at("stacks")], [TOOL, "query", "-f", directory, at("stacks")],
                    [TOOL, "record", "-c", directory]):
        refused = run(command)
        check(refused.status in (1, 2) and b"directory" in refused.stderr, f"{command}: {refused.status} {refused.stderr}")


def test_progress_on_terminal():
    """Progress after the command's end is shown on a terminal, and erased at the end."""
    source = "#include <stdio.h>\n#include <unistd.h>\n" + SMALL.replace("return 0;", "puts(\"ran\"); fflush(stdout); sleep(1);")
    program, fifo = compile_c("sleeper", source, "-g"), at("fifo")
    os.mkfifo(fifo)
    script = f"{program} > {fifo} 2> {at('none')} & read line < {fifo}"
    command = ["host", "-i", "1", "--follow-children", "--end-with-command", "--", "sh", "-c", script]
    said = said_on_terminal(*command)
    for wanted in (rb"writing the last dumps: 1 process left", rb"symbolizing: 0 of \d files: "):
        check(re.search(rb"\r\x1b\[K" + wanted, said), f"no message {wanted}: {said}")
        check(not re.search(wanted, said.rpartition(b"\r\x1b[K")[2]), f"leaves {wanted}: {said}")
    said = said_on_terminal("-n", "no-such-program", "-d", "1000", status=3)
    check(b"waiting for a process to profile" in said, "it does not say that it waits")
    check(b"Profiling for 1 s; Ctrl-C ends it earlier and writes the profile." in said, f"when it ends: {said!r}")
    told = tool(*command).stderr
    check(b"\r" not in told and b"symbolizing" not in told, f"progress is written to a file: {told}")


def test_unprofiled_commands():
    """Children that cannot load the library are listed, each with its reason, and run normally."""
    slow = "#include <stdio.h>\n#include <unistd.h>\nint main(void) { usleep(3000000); return !puts(\"ran\"); }"
    programs = {"still": compile_c("still", slow, "-static"), "cleaned": compile_c("cleaned", slow)}
    wanted = {"still": "stripped", "cleaned": "environment"}
    shutil.copy(programs["still"], at("symbols"))
    run(["strip", programs["still"]])
    script = [f"{programs['still']} & {programs['still']} & {at('symbols')}", f"env -i {programs['cleaned']}"]
    wanted["symbols"] = "child"
    if os.getuid() == 0:
        shutil.copy(programs["cleaned"], at("raised"))
        os.chown(at("raised"), 65534, 65534)
        os.chmod(at("raised"), 0o4755)
        script.append(at("raised"))
        wanted["raised"] = "rights"
    told = run([TOOL, "doctor"]).stdout.find(b"the kernel reports") >= 0
    command = ["sh", "-c", " & ".join(script) + " & wait"]
    for number, options in enumerate(([], ["--follow-children"], ["-n", ",".join(wanted)])):
        for wrapper in ([], ["unshare", "-n"]) if os.getuid() == 0 and number == 0 else ([],):
            what = f"silent-{number}-{len(wrapper)}"
            outcome = run([*wrapper, TOOL, "host", "-o", at(what), "--no-symbols", *options, "--", *command])
            check(outcome.stdout == b"ran\n" * (len(wanted) + 1), f"{what}: they ran: {outcome.stdout}, {outcome.stderr}")
            report = json.loads(tool("report", "--json", at(what)).stdout)
            found = report["unprofiled"]
            kinds = {entry["name"]: (entry["kind"], entry["count"]) for entry in found}
            for name, kind in wanted.items():
                count = 2 if name == "still" else 1
                if name == "symbols" and number > 0:
                    # It is attached to, unless that comes too late.
                    is_profiled = any(heap["name"] == name for heap in report["heaps"])
                    check(is_profiled or kinds.get(name) == ("static", 1), f"{what}: {name}: {kinds}")
                    continue
                check(kinds.get(name) == (kind, count), f"{what}: {name} is {kinds.get(name)}, not {kind}, {count}")
            check(b"still (2 processes)" in outcome.stderr, f"{what}: {outcome.stderr[-900:]!r}")
            # If the kernel does not report new processes, short ones may be missing, and the report warns of it.
            check(("incomplete" in [e["kind"] for e in found]) != (told and not wrapper), f"{what}: {kinds}")
    alone = json.loads(tool("report", "--json", at("silent-0-0")).stdout)
    check(alone["heaps"], "the command itself is profiled")
    if told:
        silent_command(programs["cleaned"])


def silent_command(cleaned):
    """A command that cannot load the library is listed besides those that can; a program that its child
    executes is listed by its own name, however soon after the fork."""
    forks = """
    #include <stdlib.h>
    #include <sys/wait.h>
    #include <unistd.h>
    int main(int argc, char **argv) {
        char *nothing[] = {NULL};
        for (int i = 0; i < 20; i++) {
            if (fork() == 0) {
                if (i == 0)
                    execl("/bin/ls", "ls", "/", NULL);
                execle(argv[argc - 1], argv[argc - 1], NULL, nothing);
            }
        }
        while (wait(NULL) > 0)
            ;
        return 0;
    }"""
    forking = compile_c("forking", forks, "-static")
    run(["strip", forking])
    for what, options, kind, command in (
        ("forking-followed", ["--follow-children"], "environment", [forking, cleaned]),
        ("forking-named", ["-n", "ls"], "name", [forking, cleaned]),
        ("forking-child", ["--follow-children"], "environment", ["sh", "-c", f"{forking} {cleaned}; true"]),
    ):
        outcome = profile_of(what, *command, options=options)
        check(outcome.stdout.count(b"ran\n") == 19, f"{what}: {outcome.stdout}, {outcome.stderr}")
        found = json.loads(tool("report", "--json", at(what)).stdout)
        kinds = sorted((entry["name"], entry["kind"], entry["count"]) for entry in found["unprofiled"])
        wanted = [("cleaned", kind, 19)]
        wanted += {"forking-named": [("forking", "name", 1)], "forking-child": [("forking", "stripped", 1)]}.get(what, [])
        check(kinds == wanted, f"{what}: {kinds}, not {wanted}")
        heaps = {heap["name"]: heap["remark"] for heap in found["heaps"]}
        check("ls" in heaps, f"{what}: {heaps}")
        if what == "forking-followed":
            check("statically linked" in heaps.get("forking", ""), f"{what}: the command: {heaps}")


def start_others(count):
    """Start programs that have nothing to do with the profiled one."""
    for _ in range(count):
        run(["true"])


def voluntary_switches(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return int(re.search(r"^voluntary_ctxt_switches:\s*(\d+)", file.read(), re.M)[1])


def test_many_other_programs():
    """On a machine that starts many programs a run sleeps on, and sees what its own command starts."""
    if os.getuid() != 0 or b"the kernel reports" not in run([TOOL, "doctor"]).stdout:
        skip("the kernel does not report new processes")
    slow = "#include <stdio.h>\n#include <unistd.h>\nint main(void) { usleep(250000); return !puts(\"ran\"); }"
    still, cleaned = compile_c("alone", slow, "-static", "-s"), compile_c("bare", slow)
    command = ["sh", "-c", f"read go; {still}; env -i {cleaned}; read go"]
    with subprocess.Popen([TOOL, "host", "-q", "-i", "524288", "-o", at("others"), "--", *command],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        begun = time.monotonic()
        start_others(200)
        before, others_begun = voluntary_switches(process.pid), time.monotonic()
        start_others(400)
        seconds = time.monotonic() - others_begun
        switches = voluntary_switches(process.pid) - before
        # Each of the 400 is three events. By itself the run wakes up a dozen times a second.
        check(switches < 100 + 40 * seconds,
              f"{switches} wake-ups in {seconds:.1f} s, {others_begun - begun:.1f} s after the start")
        process.stdin.write(b"go\n")
        process.stdin.flush()
        start_others(50)
        stdout, _ = process.communicate(b"go\n", timeout=120 * SLOWNESS)
    check(process.returncode == 0 and stdout == b"ran\nran\n", f"{process.returncode}, {stdout}")
    found = json.loads(tool("report", "--json", at("others")).stdout)["unprofiled"]
    kinds = sorted((entry["name"], entry["kind"], entry["count"]) for entry in found)
    check(kinds == [("alone", "stripped", 1), ("bare", "environment", 1)], f"its own programs: {kinds}")


def test_doctor_of_broken_commands():
    """doctor reports why an existing command cannot be run."""
    for name, mode, words in (("locked", 0o644, b"chmod +x"), ("absent", None, b"no such file")):
        if mode:
            shutil.copy(shutil.which("true"), at(name))
            os.chmod(at(name), mode)
        outcome = run([TOOL, "doctor", "--", at(name)])
        check(outcome.status == 1 and words in outcome.stdout, f"{name}: {outcome.stdout[-200:]!r}")
    outcome = run([TOOL, "doctor", "--", "no-such-program-anywhere"])
    check(b"no such program in PATH" in outcome.stdout, repr(outcome.stdout[-200:]))


def test_print_config():
    """--print-config prints a configuration that protoc accepts, with the given values."""
    need("protoc")
    outcome = tool(
        "host", "-i", "12345", "-d", "6789", "--shmem-size", "64k", "-n", "a b,c\"d", "--dump-at-max",
        "--block-client-timeout", "77", "--print-config",
    )
    check(outcome.status == 0 and outcome.stderr == b"", f"prints {outcome.stderr!r}")
    definition = [name for name in os.listdir(os.path.join(ROOT, "proto")) if name.endswith(".proto")]
    encoded = None
    for name in definition:
        call = ["protoc", "-I", os.path.join(ROOT, "proto"), os.path.join(ROOT, "proto", name)]
        with open(os.path.join(ROOT, "proto", name)) as file:
            text = file.read()
        if "message TraceConfig" not in text:
            continue
        package = re.search(r"^package (\S+);", text, re.M)
        message = (package.group(1) + "." if package else "") + "TraceConfig"
        encoded = run([*call, f"--encode={message}"], stdin=outcome.stdout)
        check(encoded.status == 0, f"protoc --encode: {encoded.stderr[-300:]!r}")
        decoded = run([*call, f"--decode={message}"], stdin=encoded.stdout).stdout.decode()
        for line in (
            "sampling_interval_bytes: 12345", "duration_ms: 6789", "shmem_size_bytes: 65536",
            'process_cmdline: "a b"', 'process_cmdline: "c\\"d"', "dump_at_max: true",
            "block_client_timeout_us: 77", "block_client: true",
        ):
            check(line in decoded, f"not in the config: {line}\n{decoded}")
    check(encoded is not None, "no .proto of ours has TraceConfig")


# The fields of Perfetto's messages that a heap profile's configuration needs.
PERFETTOS = {
    "": "buffers data_sources duration_ms write_into_file flush_period_ms flush_timeout_ms data_source_stop_timeout_ms",
    "buffers": "size_kb", "data_sources": "config", "config": "name target_buffer heapprofd_config process_stats_config "
    "sys_stats_config", "continuous_dump_config": "dump_phase_ms dump_interval_ms",
    "heapprofd_config": "sampling_interval_bytes adaptive_sampling_shmem_threshold process_cmdline pid heaps exclude_heaps "
    "adaptive_sampling_max_sampling_interval_bytes target_installed_by stream_allocations heap_sampling_intervals all_heaps all "
    "min_anonymous_memory_kb max_heapprofd_memory_kb max_heapprofd_cpu_secs skip_symbol_prefix continuous_dump_config "
    "shmem_size_bytes block_client block_client_timeout_us no_startup no_running dump_at_max disable_fork_teardown "
    "disable_vfork_detection",
    "process_stats_config": "proc_stats_poll_ms scan_smaps_rollup",
    "sys_stats_config": "meminfo_period_ms meminfo_counters vmstat_period_ms vmstat_counters psi_period_ms",
}


def test_print_config_for_others():
    """What is printed has Perfetto's fields only, so that perfetto and protoc take it; options of ours are comments, which
    make the same session again."""
    ours = ["--stack-mode", "mixed", "--context-slices", "--near-limit", "80%", "--max-overhead", "7", "--timeline", "200"]
    all_options = ["-i", "777", "-d", "1", "-c", "100", "--heaps", "a,b", "--exclude-heaps", "b",
                   "--shmem-size", "1M", "--no-block-client", "--dump-at-max", "--disable-fork-teardown", "--no-startup"]
    for verb, options, wanted in ((["-n", "app"], [], ["max_overhead_percent: 5"]), (["host", "-n", "app"], [], ["max_overhead_percent: 5"]),
                                  (["-n", "app"], ["-i", "4096"], []), (["-p", "1"], ["--timeline", "off"], ["no_timeline: true"]),
                                  (["-n", "app"], [*all_options, *ours],
                                   ["stack_mode: MIXED", "context_slices: true", "near_limit_percent: 80", "max_overhead_percent: 7"])):
        printed = tool(*verb, *options, "--print-config").stdout.decode()
        inside, commented = [""], []
        for line in printed.splitlines():
            text = line.strip()
            if text.startswith("# heapprofd: "):
                commented.append(text.removeprefix("# heapprofd: "))
            elif text == "}":
                inside.pop()
            elif text:
                name = re.match(r"\w+", text)[0]
                check(name in PERFETTOS[inside[-1]].split(), f"{options}: no field of Perfetto's {inside[-1]!r}: {text}")
                if text.endswith("{"):
                    inside.append(name)
        missing = set(wanted) - set(commented)
        check(not missing, f"{options}: not printed: {missing} of {commented}")
        if "-i" in options or "off" in options:
            check(len(commented) == len(wanted) or "off" in options, f"{options}: {commented}")
    printed = tool("-n", "app", *all_options, *ours, "--print-config").stdout
    if shutil.which("protoc"):
        # A copy without our fields: what Perfetto's own definition has.
        os.makedirs(at("theirs"))
        for name in ("config.proto", "data_sources.proto"):
            with open(os.path.join(ROOT, "proto", name)) as file:
                text = re.sub(r"^ +(optional|repeated) .* = 5\d\d\d( \[.*\])?;\n", "", file.read(), flags=re.M)
            write(f"theirs/{name}", text.encode())
        encoded = run(["protoc", "-I", at("theirs"), at("theirs/config.proto"), "--encode=perfetto.protos.TraceConfig"], stdin=printed)
        check(encoded.status == 0 and b"stack_mode" not in printed.replace(b"# heapprofd: stack_mode", b""), f"{encoded.stderr!r}")


def test_options_of_perfettos_tool():
    """Options of Perfetto's heap_profile that mean nothing here are accepted with a word."""
    for options in (["--trace-to-text-binary", "/bin/x"], ["--traceconv-binary", "/bin/x"], ["--no-start"], ["--disable-selinux"],
                    ["--no-android-tree-symbolization"], ["--no-versions"], ["--no-annotations"], ["--simpleperf"]):
        outcome = tool("-n", "app", *options, "--print-config")
        expect(outcome, 0, " ".join(options), f"{options[0]} has no effect on Linux")


def test_sizes_as_they_are_printed():
    """A size of a report can be given back: kB is 1000 bytes, k and KiB are 1024."""
    for text, value in (("100kB", 100_000), ("100 kB", 100_000), ("100k", 102_400), ("100KiB", 102_400), ("1MB", 1_000_000),
                        ("1M", 1 << 20), ("2GB", 2_000_000_000), ("7B", 7)):
        printed = tool("-n", "x", "-i", text, "--print-config").stdout.decode()
        check(f"sampling_interval_bytes: {value}\n" in printed, f"-i {text}: {printed}")
    for text in ("1kb", "1 ", "1mB", "1k B", "1.5M", "kB", "20000000000GB", "1  kB"):
        expect(tool("-n", "x", "-i", text, "--print-config"), 2, text, "--interval")
    printed = tool("-n", "x", "--heaps", "a,b", "--heap-intervals", "1kB,4k", "--print-config").stdout.decode()
    check("heap_sampling_intervals: 1000\n" in printed and "heap_sampling_intervals: 4096\n" in printed, printed)


def test_times_as_people_write_them():
    """A time has its unit; a bare number is milliseconds, as in Perfetto's heap_profile."""
    for text, ms in (("5s", 5000), ("200ms", 200), ("1.5s", 1500), ("2min", 120_000), ("2m", 120_000), ("1h", 3_600_000),
                     ("10 s", 10_000), ("10000", 10_000), ("0", 0)):
        printed = tool("-n", "x", "-d", text, "-c", text, "--print-config").stdout.decode()
        check(ms == 0 or f"duration_ms: {ms}\n" in printed, f"-d {text}: {printed}")
        check(ms == 0 or f"dump_interval_ms: {ms}\n" in printed, f"-c {text}: {printed}")
    for text in ("5x", "1us", "-1", "s", "", "1.5", "5s ", "0x10", "nan"):
        expect(tool("-n", "x", "-d", text, "--print-config"), 2, text, "--duration takes a time, as in 200ms, 5s or 1.5h")
    expect(tool("-n", "x", "--timeline", "50ms", "--print-config"), 2, "--timeline", "at least 100 milliseconds")
    daemon = os.path.join(BUILD, "heapprofd")
    expect(run([daemon, "host", "-d", "5x", "--", "true"]), 125, "heapprofd", "-d takes a time, as in 10s, not '5x'")


def left_of_runs(place):
    return sorted(name for name in os.listdir(place) if name.startswith("heap_profile-") and "latest" not in name)


def test_commands_that_start_others():
    """Of timeout, time and xargs, nobody means these: what they start is profiled, and comes first."""
    commanded = os.path.join(BUILD, "tests/programs/commanded")
    need("timeout", "xargs")
    script = at("script")
    with open(script, "w") as file:
        file.write("hold 100 100000\n")
    for words in (["timeout", "300", commanded], ["xargs", "-a", "/dev/null", "sh", "-c", f"exec {commanded} < {script}"],
                  ["env", "A=b", commanded]):
        outcome = run([TOOL, "host", "-i", "1", "-o", at("others"), "--", *words], env=TEMPORARY, stdin=b"hold 100 100000\n")
        check(outcome.status == 0 and outcome.stdout.startswith(b"ok"), f"{words}: {outcome.status}, {outcome.stdout!r}")
        said = b"starts another program" in outcome.stderr
        check(said == (words[0] != "env"), f"{words}: {outcome.stderr!r}")
        heap = json.loads(tool("report", "--json", at("others")).stdout)["heaps"]
        held = [one for one in heap if one["total"]["space"]["estimate"] >= 10_000_000]
        check(len(held) == 1, f"{words}: {[one['pid'] for one in heap]}")
        first = tool("report", at("others")).stdout.decode()
        check("10.0 MB was never freed: hold_block [commanded]" in first, f"{words}: {first[:600]}")
        shutil.rmtree(at("others"))


def test_clean():
    """clean lists profiles without a place of their own, and removes them if that is wanted."""
    place, cache = at("temporary"), at("cache")
    for directory in (place, cache):
        os.mkdir(directory)
    own = {"TMPDIR": place, "XDG_CACHE_HOME": cache, "HOME": at("home")}
    clean = lambda *arguments, **options: run([TOOL, "clean", *arguments], env=own, **options)
    expect(clean(), 0, "nothing")
    check(b"There is nothing to remove" in clean().stdout, "nothing is there")
    for _ in range(2):
        run([TOOL, "host", "-i", "1", "--", "true"], env=own)
    profiles = left_of_runs(place)
    check(len(profiles) == 2, f"{profiles}")
    # What is not ours, or not only ours, stays: an empty directory, one with another file, one whose name is a user's
    # word, a link.
    others = [os.path.join(place, f"heap_profile-{name}") for name in ("Empty1", "AbcDE2", "before", "Link12", "of-mine")]
    os.mkdir(others[0])
    run([TOOL, "host", "-i", "1", "-o", others[1], "--", "true"], env=own)
    run([TOOL, "host", "-i", "1", "-o", others[2], "--", "true"], env=own)
    open(os.path.join(others[1], "notes.txt"), "w").close()
    os.symlink(at("home"), others[3])
    os.mkdir(others[4])
    listed = clean(stdin=b"y\n")
    check(all(name.encode() in listed.stdout for name in profiles) and b"--yes removes it" in listed.stdout, f"{listed.stdout!r}")
    check(not any(path.encode() in listed.stdout for path in others), f"{listed.stdout!r}")
    check(b"There is nothing" in clean("--older", "1h", "--yes").stdout, "younger ones are removed")
    old = time.time() - 7200
    for name in os.listdir(os.path.join(place, profiles[0])):
        os.utime(os.path.join(place, profiles[0], name), (old, old))
    expect(clean("--older", "1h", "--yes"), 0, "--older 1h")
    check(profiles[0] not in left_of_runs(place) and profiles[1] in left_of_runs(place), f"{left_of_runs(place)}")
    # One that is being recorded stays.
    holder = subprocess.Popen([TOOL, "host", "--", os.path.join(BUILD, "tests/programs/commanded")], env={**os.environ, **own},
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    holder.stdin.write(b"hold 10 1000\n")
    holder.stdin.flush()
    holder.stdout.readline()
    expect(clean("--yes"), 0, "--yes")
    left = left_of_runs(place)
    check(len(left) == len(others) + 1 and profiles[1] not in left, f"while one records: {left}")
    check(all(os.path.lexists(path) for path in others) and len(os.listdir(others[1])) > 1, f"{left}")
    holder.communicate()
    check(holder.returncode == 0, f"the recording ended with {holder.returncode}")
    check(run([TOOL, "report"], env=own).status == 0, "its profile is damaged")
    for wrong in (["--older", "soon"], ["now"], ["--all"]):
        expect(clean(*wrong), 2, f"{wrong}", "heap_profile")


def said_of(output):
    """Return the sentences between a report's title and its facts."""
    return " ".join(sentences_of(tool("report", output).stdout.decode()))


def test_sentences():
    """A report begins with what matters: a peak if all is free at the end, a leak if it is not, and churn."""
    commanded = os.path.join(BUILD, "tests/programs/commanded")
    for script, wanted, unwanted in (
        (b"hold 100 100000\ndrop\n", ["The peak was 10.0 MB", ": hold_block [commanded] held nearly all of it.", "at its end."],
         ["never freed", "allocated 10"]),
        (b"hold 100 100000\n", ["10.0 MB was never freed: hold_block [commanded] allocated nearly all of it.", "That is its peak."],
         ["The peak was", "It had freed"]),
        (b"hold 100 100000\nchurn 1 100000\n", ["10.0 MB was never freed", "That is nearly its peak."], ["The peak was"]),
        (b"hold 100 100000\ndrop\nhold 30 100000\n", ["3.00 MB was never freed", "The peak was 10.0 MB"], ["It had freed"]),
        (b"churn 200000 1000\n", ["It allocated 200 MB in 200,0", " times its peak: churn_block [commanded] made nearly all of the calls"], ["never freed:"]),
    ):
        run([TOOL, "host", "-q", "-i", "1", "-o", at("said"), "--", commanded], env=TEMPORARY, stdin=script)
        said = said_of(at("said"))
        check(all(words in said for words in wanted), f"{script}: {said!r} lacks one of {wanted}")
        check(not any(words in said for words in unwanted), f"{script}: {said!r} has one of {unwanted}")
        shutil.rmtree(at("said"))
    # What was allocated before the profile is none of its business, and the program goes on.
    program = subprocess.Popen([commanded], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    def command(line):
        program.stdin.write(line)
        program.stdin.flush()
        program.stdout.readline()
    command(b"hold 10 1000\n")
    profiler = subprocess.Popen([TOOL, "-p", str(program.pid), "-i", "1", "-o", at("said")], env={**os.environ, **TEMPORARY},
                                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    profiler.stderr.readline()  # it profiles
    command(b"hold 100 100000\n")
    command(b"drop\n")
    profiler.send_signal(signal.SIGINT)
    profiler.communicate()
    program.communicate()
    said = said_of(at("said"))
    check("When the profile ended, it had freed everything that it allocated since the profile began." in said, said)
    check("The peak was 10.0 MB, " in said and " after the profile began: " in said, said)
    shutil.rmtree(at("said"))
    # A file of stacks alone has one moment, and neither an end nor a peak.
    with open(at("stacks.collapsed"), "w") as file:
        file.write("main;a;b 1000\nmain;c 500\n")
    said = tool("report", at("stacks.collapsed")).stdout.decode()
    check("1.50 kB ± unknown is live: b holds 66.7 % of it, c 33.3 %." in said and "the end" not in said.split("\n\n")[1], said)
    # The table below is of the view that they speak of.
    run([TOOL, "host", "-q", "-i", "1", "-o", at("said"), "--", commanded], env=TEMPORARY, stdin=b"hold 100 100000\ndrop\n")
    for options, title in ([], "Bytes live at the peak"), (["--view", "space"], "Bytes live\n"), (["--tree"], "Bytes live at the peak"):
        said = tool("report", *options, at("said")).stdout.decode()
        check(f"\n{title}" in said, f"report {options}: {said}")
    # A filter leaves out a part of the heap: no sentence about the whole.
    check("The peak was" not in tool("report", "--focus", "hold", at("said")).stdout.decode(), "sentences beside a filter")


def test_sentences_of_dumps():
    """An earlier dump has what is live then, how it differs from the first, the peak until then, and what was resident."""
    program = subprocess.Popen([os.path.join(BUILD, "tests/programs/commanded")], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    own = {**TEMPORARY, "HEAPPROFD_RUN_DIR": at("run-of-dumps")}
    profiler = subprocess.Popen([TOOL, "-p", str(program.pid), "-i", "1", "-o", at("dumps")], env={**os.environ, **own},
                                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    profiler.stderr.readline()  # it profiles
    for line in (b"hold 100 100000\n", b"drop\n", b"hold 100 100000\n"):
        program.stdin.write(line)
        program.stdin.flush()
        program.stdout.readline()
        check(run([TOOL, "snapshot"], env=own).status == 0, "no snapshot")
    profiler.send_signal(signal.SIGINT)
    profiler.communicate()
    program.communicate()
    said = [sentences_of(tool("report", "--dump", str(dump), at("dumps")).stdout.decode()) for dump in (1, 2, 3, 4)]
    whose = ": hold_block [commanded] {} nearly all of it."
    check(said[0][:2] == ["10.0 MB is live" + whose.format("holds"), "That is its peak until then."], f"{said[0]}")
    check(said[1][0] == "0 B is live." and said[1][1].startswith("That is 10.0 MB less than at the first dump, "), f"{said[1]}")
    check(said[1][2] == "The peak until then was 10.0 MB" + whose.format("held"), f"{said[1]}")
    check(said[2][1].startswith("That is as much as at the first dump, ") and said[2][1].endswith("s before."), f"{said[2]}")
    for dump in (0, 1, 2):
        check(any(one.startswith("Resident memory was ") and "at this dump" in one for one in said[dump]), f"{said[dump]}")
    check(said[3][0] == "10.0 MB was live when the profile ended" + whose.format("held") and "That is its peak." in said[3], f"{said[3]}")


def test_summary():
    """The summary goes to standard error, or to where --summary says; a file that cannot be written is known before."""
    command = ["--", "sh", "-c", "echo out; echo err >&2; ls /"]
    run_host = lambda *options: run([TOOL, "host", "-o", at("said"), *options, *command], env=TEMPORARY)
    def took(*options):
        done = run_host(*options)
        shutil.rmtree(at("said"), ignore_errors=True)
        return done
    plain = took("-q")
    check(plain.stdout.startswith(b"out\n") and plain.stderr == b"err\n", f"{plain}")
    usual = took()
    check(usual.stdout == plain.stdout and b"Profile in" in usual.stderr, f"{usual.stderr!r}")
    done = took("--summary", at("summary"))
    with open(at("summary"), "rb") as file:
        said = file.read()
    check(done.stdout == plain.stdout and done.stderr == b"err\n" and b"Profile in" in said and b"\x1b" not in said, f"{done.stderr!r}, {said!r}")
    done = took("-q", "--summary", "-")
    check(done.stdout.startswith(plain.stdout) and b"Profile in" in done.stdout and done.stderr == b"err\n", f"{done.stdout!r}")
    for path in (at("nowhere/summary"), at(".")):
        done = took("--summary", path)
        check(done.status == 125 and b"--summary" in done.stderr and path.encode() in done.stderr and done.stdout == b"", f"{path}: {done}")


def test_bad_usage():
    """Wrong usage exits with 2, of host with 125, which no command is likely to have; the message names the option, the value and the accepted values."""
    for options, *said in (
        (["-i", "0"], "interval is 0", "4096"),
        (["-i", "-1"], "--interval", "-1"), (["-i", "4k5"], "--interval", "4k5", "64k"),
        (["-i", ""], "--interval"), (["-i", " 5"], "--interval"), (["-i", "1e3"], "--interval", "1e3"),
        (["-i", "99999999999999999999"], "--interval"), (["-i", "20000000000G"], "--interval"),
        (["-d", "5x"], "--duration", "5x", "5s"), (["-d", "4294967296"], "--duration", "4294967295"),
        (["--shmem-size", "4096"], "too small", "8192"),
        (["--shmem-size", "12000"], "not a power of two", "12000"),
        (["--block-client-timeout", "x"], "--block-client-timeout", "'x'"),
        (["-n", ","], "names", "','"),
        (["--interval"], "--interval needs a value"), (["-n"], "-n needs a value"),
        (["--quiet=yes"], "--quiet takes no value"), (["-x"], "no option '-x'"),
        (["--block-clinet"], "did you mean --block-client?"),
        (["--intervall", "5"], "no option '--intervall'", "did you mean --interval?"),
        (["--folow-children"], "did you mean --follow-children?"),
        (["--zzzz"], "no option '--zzzz'", "heap_profile host --help"),
    ):
        ending = [] if options in (["--interval"], ["-n"]) else ["--", "touch", at("ran")]
        outcome = tool("host", *options, *ending)
        expect(outcome, 125, " ".join(options), *said)
        check(outcome.stdout == b"", f"{options}: writes {outcome.stdout!r}")
    check(not os.path.exists(at("ran")), "a command was run although its options were refused")
    for arguments, *said in (
        (["reprot"], "no verb 'reprot'", "did you mean report?"),
        (["jq", "."], "no verb 'jq'", "heap_profile host -- jq", "heap_profile --help"),
        (["-p", "abc"], "--pid", "1234,5678", "'abc'"),
        (["report", "--cumulativ-"], "did you mean --cumulative?"),
        (["report", "--view", "spce"], "not 'spce'", "alloc_space"),
        (["report", "--top", "-3"], "--top", "'-3'"), (["report", "--pid", "x"], "--pid", "'x'"),
        (["report", "--t", "3"], "is ambiguous"),
        (["help", "reprot"], "did you mean report?"),
        (["query", "select", "pid", "from", "process"], "one argument", "quotes"),
    ):
        expect(tool(*arguments), 2, " ".join(arguments), *said)
    for arguments, usage in ((["-n", "--help"], b"usage: heap_profile -n "),
                             (["--pid", "--help"], b"usage: heap_profile -n "),
                             (["help"], b"usage: heap_profile VERB"),
                             (["help", "leaks"], b"usage: heap_profile leaks"),
                             (["help", "-p"], b"usage: heap_profile -n "),
                             (["help", "flamegraph"], b"usage: ")):
        outcome = tool(*arguments)
        expect(outcome, 0, " ".join(arguments))
        check(outcome.stdout.startswith(usage), f"{arguments}: {outcome.stdout!r}")
    check(b"did you mean" not in tool("jq").stderr, "jq is near no verb")
    check(b"did you mean" not in tool("host", "--zzzz").stderr, "--zzzz is near no option")


def test_limits():
    """The smallest ring works; a ring above the limit is reduced, with a notice."""
    dynamic = compile_c("dynamic", SMALL)
    outcome = profile_of("smallest", dynamic, options=["-i", "1", "--shmem-size", "8192"])
    check(outcome.status == 0 and b"100 B in 1 call," in outcome.stderr, "--shmem-size 8192")
    outcome = profile_of("largest", dynamic, options=["--quiet", "--shmem-size", "1G"])
    expect(outcome, 0, "--shmem-size 1G", "reduced to 512M")
    for interval in ("9223372036854775807", "1G"):
        outcome = profile_of(f"interval-{interval}", dynamic, options=["-i", interval])
        check(outcome.status == 0 and b"100 B in 1 call, exact" in outcome.stderr, f"-i {interval}: status {outcome.status}")


def test_output_directory():
    """Output goes only to a new or an empty directory; otherwise the command does not run."""
    ran = ["touch", at("ran")]
    os.makedirs(at("full/sub"))
    write("full/kept", b"kept")
    write("file", b"kept")
    before = sorted(os.listdir(at("full")))
    for where, *said in (
        (at("full"), at("full"), "not empty"), (at("file"), at("file"), "Not a directory"),
        (at("none/below"), at("none/below"), "No such file"), ("", "output directory"),
        (at("file/below"), at("file/below"), "Not a directory"),
    ):
        expect(tool("host", "-o", where, "--", *ran), 125, f"-o {where!r}", *said)
    check(not os.path.exists(at("ran")), "the command ran although there was no place for its profile")
    check(sorted(os.listdir(at("full"))) == before, "something was left in a directory that was refused")
    os.mkdir(at("empty"))
    check(tool("host", "--quiet", "-o", at("empty"), "--", *ran).status == 0, "an empty directory is refused")
    check("raw-trace" in os.listdir(at("empty")), "no raw-trace in it")
    check(tool("host", "--quiet", "--", *ran).status == 0, "the directory was not created")
    latest = at(f"heap_profile-latest-{os.geteuid()}")
    check(os.path.realpath(latest).startswith(at("heap_profile-")), "no latest")
    check(not [name for name in os.listdir(WORK) if name.startswith(".heap_profile")], "the temporary link is left")
    check(tool("report").status == 0, "report shows the latest")
    shown = os.readlink(latest)
    check(tool("-n", "no-such-program", "-d", "100", "-q").status == 3, "an empty directory is left")
    # Nothing suggests to report a trace without a profile.
    outcome = tool("-n", "no-such-program", "-d", "100", "-o", at("nobody"))
    expect(outcome, 3, "no process", at("nobody/raw-trace") + " has no profile", "no process with such a name ran")
    check(b"report" not in outcome.stderr and b"perfetto" not in outcome.stderr, f"it suggests {outcome.stderr!r}")
    check(os.readlink(latest) == shown, "a session without a process became the latest profile")


def test_latest_of_any_place():
    """Every recording with data is the latest one, wherever it was written: verbs never show an older one."""
    latest = at(f"heap_profile-latest-{os.geteuid()}")

    def shown():
        return json.loads(tool("report", "--json").stdout)["heaps"][0]["command"]

    profile_of("given", "true", "given", options=["--quiet"])
    check(os.readlink(latest) == at("given") and shown() == "true given", f"-o: {os.readlink(latest)}")
    check(tool("host", "--quiet", "--", "true", "chosen").status == 0 and shown() == "true chosen", "without -o")
    check(tool("check", "--max-live", "1G", "--", "true", "checked").status == 0 and shown() == "true checked", "check")
    # On another file system than TMPDIR: nothing is linked or renamed from there.
    elsewhere = make_work_directory("/dev/shm/cli-") if os.access("/dev/shm", os.W_OK) else at("shm")
    tool("host", "-q", "-o", os.path.join(elsewhere, "far"), "--", "true", "far")
    check(shown() == "true far", "on another file system")
    with subprocess.Popen(["sleep", "100"]) as process:
        config = tool("-p", str(process.pid), "-d", "300", "--print-config").stdout
        recorded = tool("record", "-q", "-c", "-", "-o", at("single"), stdin=config)
        process.kill()
    if b"not permitted" not in recorded.stderr:
        check(recorded.status == 0 and os.readlink(latest) == at("single"), f"record -o: {recorded.stderr!r}")
        check(shown().startswith("sleep"), "record -o TRACE")
    os.unlink(at("single"))
    expect(tool("report"), 1, "a trace that is gone", "there is no latest profile")
    # Where there is no place for a link, nothing is said, as nothing wrong can be shown either.
    outcome = run([TOOL, "host", "-q", "-o", at("quiet-place"), "--", "true"], env={"TMPDIR": at("none")})
    check(outcome.status == 0 and outcome.stderr == b"", f"{outcome.stderr!r}")
    outcome = run([TOOL, "host", "-o", at("loud-place"), "--", "true"], env={"TMPDIR": at("none")})
    check(outcome.status == 0, "without a temporary directory")


def test_latest_per_user():
    """Two users of one /tmp each have their own latest link, and follow no link of the other."""
    if os.geteuid() != 0:
        skip("needs root, to run as two users")
    os.chmod(WORK, 0o1777)
    bob = {"user": BOB, "group": BOB, "extra_groups": []}
    outcome = tool("host", "--quiet", "--", "true", **bob)
    if b"cannot open shared object" in outcome.stderr or outcome.status != 0:
        skip(f"other users cannot run {TOOL}: {outcome.stderr!r}")
    expect(tool("report"), 1, "root, without a profile", at("heap_profile-latest-0"), "No such file")
    check(tool("host", "--quiet", "--", "true").stderr == b"", "a warning because of the other's link")
    latest = [os.readlink(at(f"heap_profile-latest-{uid}")) for uid in (0, BOB)]
    check(latest[0] != latest[1], "both users have the same link")
    for uid, user in ((0, {}), (BOB, bob)):
        check(tool("report", **user).status == 0, f"report of user {uid}")
    # The other user was first, or recreated a directory that had been cleaned from /tmp.
    shutil.rmtree(latest[0])
    run(["mkdir", "-m", "755", latest[0]], **bob)
    shutil.copy(os.path.join(latest[1], "raw-trace"), latest[0])
    expect(tool("report"), 1, "the other's directory", "is not this user's")
    os.unlink(at("heap_profile-latest-0"))
    run(["ln", "-s", latest[1], at("heap_profile-latest-0")], **bob)
    expect(tool("report"), 1, "the other's link", at("heap_profile-latest-0"), "is not this user's")


def test_traceconv():
    """traceconv profile writes the same files as host, into the given directory, and reports what it cannot write."""
    data = made_trace(10000)
    ours = {name for name in os.listdir(at("made")) if name.endswith(".pb.gz")}
    outcome = run([TRACECONV, "profile", "--gzip", "-o", at("out"), at("made")], env=TEMPORARY)
    check(outcome.status == 0 and outcome.stdout.decode() == at("out") + "\n", f"prints {outcome.stdout!r}")
    check(set(os.listdir(at("out"))) == ours and len(ours) == 2, f"writes {os.listdir(at('out'))}")
    for name in ours:
        with gzip.open(at("out/" + name)) as new, gzip.open(at("made/" + name)) as old:
            check(new.read() == old.read(), f"{name} is another than make_trace wrote")
    outcome = run([TRACECONV, "profile", "-"], env=TEMPORARY, stdin=data)
    made = outcome.stdout.decode().strip()
    check(made.startswith(WORK + "/heap_profile-"), f"TMPDIR is not obeyed: {made!r}")
    check(outcome.status == 0 and {name + ".gz" for name in os.listdir(made)} == ours, "standard input")
    cut = write("cut", data[: len(data) * 3 // 5])
    expect(run([TRACECONV, "profile", "-o", at("part"), cut]), 0, "cut", "warning: ", "cut off")
    for arguments, status, *said in (
        (["profile", at("nowhere")], 1, at("nowhere"), "No such file"),
        (["profile", write("garbage", b"\xff" * 99)], 1, at("garbage")),
        (["profile", "-o", at("garbage"), at("made")], 1, at("garbage"), "Not a directory"),
        (["profile", "a", "b"], 2, "'b'", "one argument too many"),
        (["profle"], 2, "did you mean profile?"), (["profile", "--ouput", "x"], 2, "mean --output?"),
        (["profile", "-o"], 2, "-o needs a value"), ([], 2, "usage: traceconv"),
    ):
        expect(run([TRACECONV, *arguments], env=TEMPORARY), status, f"traceconv {arguments}", *said)
    check(run([TRACECONV, "--help"]).status == 0, "--help")
    check(run([TRACECONV, "profile", "--help"]).stdout.startswith(b"usage: traceconv"), "profile --help")


def test_quiet_and_dumps():
    """-q is --quiet in every verb that profiles; -c dumps a command, too."""
    outcome = profile_of("dumps", "sh", "-c", "sleep 1", options=["-q", "-c", "100", "-i", "1"])
    check(outcome.status == 0 and outcome.stderr == b"", f"{outcome.status}, {outcome.stderr[-300:]!r}")
    first, last = (tool("report", "--json", *which, at("dumps")) for which in (["--dump", "1"], []))
    ended = [json.loads(outcome.stdout)["heaps"][0]["duration_ns"] for outcome in (first, last)]
    check(0 < ended[0] < ended[1], f"dumps after {ended} ns")
    check(tool("report", "--json", "--dump", "final", at("dumps")).stdout == last.stdout, "--dump final")
    check(tool("report", "--dump", "finally", at("dumps")).status == 2, "--dump finally")
    # Each dump covers the time since the previous one, and Perfetto's trace processor counts no errors.
    with open(os.path.join(at("dumps"), "raw-trace"), "rb") as file:
        packets = [dict(fields(packet)) for number, packet in fields(file.read()) if number == 1]
    windows, starts = {}, 0
    for packet in packets:
        stats, config = packet.get(9, b""), packet.get(33, b"")
        for number, process in fields(stats):
            check(number != 1 or all(key < 5000 for key, _ in fields(process)), "ProcessStats has a field of ours")
        check(not config or dict(fields(config)).get(13, 0) > 0, "a file without a flush period")
        for number, dump in fields(packet.get(37, b"")):
            if number == 5:
                head = dict(fields(dump))
                key = head[1], head[11]
                check(windows.get(key, head[15]) == head[15], f"{key} begins at {head[15]}, not {windows.get(key)}")
                windows[key], starts = head[9], starts + 1
    check(starts > 3, f"{starts} dumps")
    # A forked child's heap that was dumped is also dumped at its exec: one heap, which has ended.
    profile_of("exec", "sh", "-c", "(sleep 0.4; exec sleep 0); :", options=["-q", "-c", "100", "-i", "1", "--follow-children"])
    heaps = json.loads(tool("report", "--json", at("exec")).stdout)["heaps"]
    named = [(heap["heap"], heap["dumps"], heap["unfinished"]) for heap in heaps]
    check(not any(unfinished for _, _, unfinished in named), f"a heap has no end: {named}")
    check(all(dumps > 1 for name, dumps, _ in named if "before exec" in name), f"two heaps of one program: {named}")
    process = subprocess.Popen(["sleep", "60"])
    outcome = tool("-q", "-d", "100", "-o", at("asleep"), "-p", str(process.pid))
    process.kill()
    process.wait()
    check(outcome.status == 0 and outcome.stderr == b"", f"{outcome.status}, {outcome.stderr[-300:]!r}")
    check(tool("host", "-c", "soon", "--", "true").status == 125, "-c soon")


def test_duration():
    """-d ends the profile, not the command; memory that is live then is not called never freed."""
    begin = time.monotonic()
    outcome = profile_of("short", "sh", "-c", "sleep 1; echo done; exit 5", options=["-d", "400", "-i", "1"])
    check(time.monotonic() - begin >= 1, "the command did not run to its end")
    check(outcome.status == 5 and outcome.stdout == b"done\n", f"{outcome.status}, {outcome.stdout!r}")
    check(b"still running when the session ended" in outcome.stderr, "no message says that the command still runs")
    check(b"Still live" in outcome.stderr and b"Never freed" not in outcome.stderr, "called never freed")
    heap = json.loads(tool("report", "--json", at("short")).stdout)["heaps"][0]
    check(100e6 <= heap["duration_ns"] < 1000e6, f"lasted {heap['duration_ns']} ns")


def test_interrupted():
    """Ctrl-C reaches the command as without the profiler, and its profile is written."""
    script = "trap 'echo caught; exit 9' INT; echo ready; while :; do sleep 0.05; done"
    command = [TOOL, "host", "-i", "1", "-o", at("interrupted"), "--", "sh", "-c", script]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    )
    check(process.stdout.readline() == b"ready\n", "the command did not start")
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the whole foreground group
    stdout, stderr = process.communicate(timeout=120)
    check(process.returncode == 9 and stdout == b"caught\n", f"{process.returncode}, {stdout!r}")
    check(b"Profile in " in stderr, f"no report: {stderr[-300:]!r}")
    check(tool("report", at("interrupted")).status == 0, "no profile")


def test_exit_status():
    """host exits with the command's exit code or signal; with 126 or 127 if it could not run it."""
    limit_core_dumps()
    for number in (signal.SIGKILL, signal.SIGSEGV, signal.SIGINT, signal.SIGUSR1):
        outcome = profile_of(f"signal-{number}", "sh", "-c", f"kill -{int(number)} $$", options=["--quiet"])
        check(outcome.status == -number, f"killed by {number}: ended by {outcome.status}")
        check(tool("report", at(f"signal-{number}")).status == 0, f"killed by {number}: no profile")
    expect(tool("host", "--", at("nothing")), 127, "missing", at("nothing"), "No such file")
    write("text", b"plain text\n")
    expect(tool("host", "--", at("text")), 126, "no program", at("text"), "Permission denied")
    expect(tool("host", "--", WORK), 126, "a directory", WORK)
    left = [name for name in os.listdir(WORK) if name.startswith("heap_profile-") and "latest" not in name]
    check(left == [], f"directories of commands that never ran are left: {left}")
    expect(tool("host"), 125, "no command", "which command?")


def test_streams():
    """Standard output and input are the command's alone, byte for byte."""
    data = bytes(range(256)) * 4096
    outcome = tool("host", "-o", at("cat"), "--", "cat", stdin=data)
    check(outcome.stdout == data, "standard output is not the command's")
    check(b"Profile in " in outcome.stderr, "no report on standard error")
    # The suggested next command can be pasted although the tool is not in PATH.
    offered = re.search(rb"^  (\S+ report \S+)", outcome.stderr, re.M)
    if check(offered, "host does not suggest the next command"):
        check(run(offered.group(1).decode().split()).status == 0, f"{offered.group(1)!r} fails")
    outcome = tool("host", "--quiet", "-o", at("quiet"), "--", "sh", "-c", "echo to stderr >&2")
    check(outcome.stdout == b"" and outcome.stderr == b"to stderr\n", f"{outcome.stderr!r}")
    # Options end before the command, with and without "--".
    for dashes in ([], ["--"]):
        outcome = tool("host", "--quiet", *dashes, "sh", "-c", 'echo "$0 $1"', "-i", "--help")
        check(outcome.stdout == b"-i --help\n", f"{dashes}: {outcome.stdout!r}")


def test_library_in_any_place():
    """LD_PRELOAD cannot name a path with a blank or a colon. Then the library is preloaded by a link to it. If there can be no
    link, the reason is printed, and the command does not run."""
    for name in ("new user", "a:b"):
        os.mkdir(at(name))
        library = shutil.copy(os.path.join(BUILD, "libheapprofd_preload.so"), at(name))
        environment = dict(os.environ, **TEMPORARY, HEAPPROFD_PRELOAD=library)
        place = os.stat(library)
        links = f"/tmp/heapprofd-preload-{os.geteuid()}-{place.st_dev:x}-{place.st_ino:x}"
        for number, command in enumerate((["host", "-o", at(name + ".out"), "--", "echo", "it ran"], ["shell", "--", "echo", "it ran"]) * 2):
            if number == 2:
                os.unlink(os.path.join(links, os.path.basename(library)))
                os.symlink("/nowhere", os.path.join(links, os.path.basename(library)))
                shutil.rmtree(at(name + ".out"))
            done = run([TOOL, *command], env=environment)
            check(done.status == 0 and done.stdout == b"it ran\n" and b"ERROR" not in done.stderr, f"{command}: {done.status} {done.stderr!r}")
            check(os.readlink(os.path.join(links, os.path.basename(library))) == library, f"{command}: {os.listdir(links)}")
        (heap,) = json.loads(tool("report", "--json", at(name + ".out")).stdout)["heaps"]
        check(heap["name"] == "echo" and heap["exact_calls"] > 0, f"{heap}")
        os.rename(links, at(name + ".links"))
        os.symlink(at(name + ".links"), links)
        done = run([TOOL, "host", "--", "echo", "it ran"], env=environment)
        check(done.status == 125 and b"it ran" not in done.stdout, f"{name}, led elsewhere: {done.status} {done.stdout!r}")
        os.unlink(links)
        os.rename(at(name + ".links"), links)
        if os.geteuid() == 0:
            os.chown(links, 54321, 54321)
            done = run([TOOL, "host", "--", "echo", "it ran"], env=environment)
            check(done.status == 125 and b"it ran" not in done.stdout, f"{name}: {done.status} {done.stdout!r}")
            check(f"{library}: LD_PRELOAD cannot name" in done.stderr.decode() and links in done.stderr.decode(), f"{name}: {done.stderr!r}")
        shutil.rmtree(links)


def test_hostile_names():
    """Names from a trace neither control a terminal nor break the JSON."""
    name = b"cat\x1b[31m\xff\xc2\x9b\n"
    os.symlink("/bin/cat", os.fsencode(WORK) + b"/" + name)
    command = [os.fsencode(WORK) + b"/" + name]
    outcome = run([TOOL, "host", "-i", "1", "-o", at("named"), "--", *command], stdin=b"")
    check(outcome.status == 0, f"status {outcome.status}")
    for printed in (outcome.stderr, tool("report", at("named")).stdout):
        check(b"cat\\x1b[31m" in printed and b"\x1b" not in printed, f"prints {printed[:200]!r}")
        check(b"\xc2\x9b" not in printed, "prints a control character of two bytes")
    script = tool("report", "--json", at("named")).stdout
    parsed = json.loads(script.decode("utf-8"))
    check("\x1b[31m\ufffd" in parsed["heaps"][0]["command"], f"{parsed['heaps'][0]['command']!r}")


COMPLETIONS = os.path.join(BUILD, "completions")
# Print the completions of a command line's last word; the shell itself matches prefixes.
SHELLS = {
    "bash": f'source {COMPLETIONS}/heap_profile; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _heap_profile; '
            'printf "%s\\n" "${COMPREPLY[@]}"',
    "zsh": f'fpath=({COMPLETIONS}); autoload -Uz _heap_profile; _files() {{ }}; _normal() {{ }}; '
           'compadd() { shift; print -l -- "$@" }; words=("$@"); CURRENT=$#; _heap_profile',
    "fish": f'source {COMPLETIONS}/heap_profile.fish; complete -C "$argv"',
}


def test_completion():
    """Each shell completes the verbs, options and values of the tools."""
    for shell, script in SHELLS.items():
        if shutil.which(shell) is None:
            check(shell != "bash", "no bash")
            continue
        command = [shell, "-c", script] if shell == "fish" else [shell, "-c", script, shell]

        def offered(*words):
            outcome = run([*command, *words], env={"PATH": BUILD + ":" + os.environ["PATH"], "HOME": WORK})
            found = {line.split("\t")[0] for line in outcome.stdout.decode().split("\n")} - {""}
            return {word for word in found if word.startswith(words[-1])}

        check({"host", "report", "snapshot", "memory_infra"} <= offered("heap_profile", ""), f"{shell}: verbs of heap_profile")
        check("heap_profile" not in offered("heap_profile", ""), f"{shell}: completes an unknown verb")
        check(offered("heap_profile", "rep") == {"report"}, f"{shell}: does not complete a verb")
        check({"prepare", "host"} == offered("heapprofd", ""), f"{shell}: verbs of heapprofd")
        check({"profile", "symbolize"} <= offered("traceconv", ""), f"{shell}: conversions")
        check({"profile", "symbolize"} <= offered("heap_profile", ""), f"{shell}: conversions of heap_profile")
        for words, some, none in (
            (("heap_profile", "host", "--"), {"--interval", "--all-heaps", "--view", "--help"}, {"--port", "--json"}),
            (("heap_profile", "report", "--"), {"--view", "--json", "--addresses"}, {"--interval"}),
            (("heap_profile", "-n", "x", "--"), {"--continuous-dump", "--pid", "--view"}, {"--json"}),
            (("heap_profile", "stop", "--"), {"--session"}, {"--pid"}),
            (("traceconv", "profile", "--"), {"--output"}, {"--interval"}),
            (("traceconv", "memory_infra", "--"), {"--prune", "--max"}, {"--v1", "--dump-at-max"}),
            (("traceconv", "symbolize", "--"), {"--symbol-paths", "--json"}, {"--output"}),
        ):
            found = offered(*words)
            check(some <= found and not none & found, f"{shell}: {words}: {sorted(found)}")
        check(offered("heap_profile", "report", "--view", "a") == {"alloc_space", "alloc_objects"}, f"{shell}: views")
        check(not offered("heap_profile", "host", "--view", "a"), f"{shell}: values of host --view, which takes none")
        check(offered("heap_profile", "report", "--by", "type,") == {"type,backtrace", "type,context"}, f"{shell}: keys")
        check(offered("heap_profile", "memory_infra", "--dump", "") == {"all", "final"}, f"{shell}: dumps")
        check(offered("heap_profile", "host", "--stack-mode", "m") == {"mixed"}, f"{shell}: stack modes")
        check(not any(word.startswith("--") for word in offered("heap_profile", "host", "--", "no-such-command", "-")),
              f"{shell}: options of the command")


def test_completion_values():
    """The table of option values agrees with the help texts, verb by verb."""
    with open(os.path.join(ROOT, "completions", "values")) as table:
        rows = [line.split() for line in table if not line.startswith("#")]
    verbs = ["host", "report", "diff", "check", "explore", "fleet", "leaks", "memory_infra", "collapsed", "profile", "symbolize", "-n x"]
    helps = {verb: tool(*verb.split(), "--help") for verb in verbs}
    # A build may lack a verb that needs libraries of its own.
    lacking = {verb for verb, outcome in helps.items() if verb in ("explore", "fleet") and outcome.status != 0}
    texts = {verb: outcome.stdout.decode() for verb, outcome in helps.items() if verb not in lacking}
    for verb, option, *values in rows:
        if verb in lacking:
            continue
        takes = [name for name, text in texts.items() if option in text and (verb == "*" or verb == name)]
        check(takes, f"no help text has {option} of {verb}")
        for value in values:
            check(any(all(word in texts[name] for word in value.split(",")) for name in takes),
                  f"{option} {value}: not in the help text of {takes}")
    # Each choice of the help texts is in the table.
    known = {(verb, option) for verb, option, *_ in rows}
    for name, text in texts.items():
        for option, choice in re.findall(r"(--[a-z][a-z-]+) ((?:[a-z_-]+\|)+[a-z_-]+)", text):
            check({(name, option), ("*", option)} & known, f"{name}: {option} takes {choice}, which the table has not")


if __name__ == "__main__":
    main()
