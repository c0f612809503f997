#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""heap_profile check: check.py CASE"""

import json
import os
import re
import shutil
import sys
import tempfile
import xml.etree.ElementTree as ElementTree

import harness
from harness import ROOT, TOOL, check, program, run
from perfetto_bytes import clocks, double, field, heap_samples, interned, packet, process_tree, profile_packet

TRACECONV = os.path.join(harness.BUILD, "traceconv")
LEAK = [program("added_leak"), "2000"]  # 400,000 bytes of the_leak, 14,000 calls


def record(directory, name, *arguments, interval=4096):
    path = os.path.join(directory, name)
    done = run(harness.host_command([program("added_leak"), *arguments], path, interval))
    check(done.status == 0, f"host: {done.status}, {done.stderr[-300:]!r}")
    return path


def judge(*arguments):
    """Return the exit status and the results."""
    done = run([TOOL, "check", "--json", *arguments])
    check(done.status in (0, 1, 2), f"check {arguments}: {done.status}, {done.stderr[-300:]!r}")
    return done.status, json.loads(done.stdout) if done.stdout else None


def state(*arguments):
    status, found = judge(*arguments)
    (result,) = found["results"]
    check(status == {"holds": 0, "fails": 1, "undecidable": 2}[result["state"]], f"status {status}")
    return result["state"], result


def test_outcomes(directory):
    """Each budget has each of its possible outcomes on a sampled profile."""
    sampled, before = record(directory, "a", "5000"), record(directory, "b")
    growth = ("--baseline", before)
    _, report = judge("--max-live", "1G", "--max-peak", "1G", "--max-leak", "the_leak=1G",
                      "--max-growth", "100%", *growth, sampled)
    live, peak, leak, grown = (int(result["value"]) for result in report["results"])
    share = 100 * grown / report["results"][3]["limit"]
    for arguments, wanted in [
        (("--max-peak", str(2 * peak)), "holds"),
        (("--max-peak", str(peak // 2)), "fails"),
        (("--max-peak", str(peak)), "undecidable"),
        (("--max-live", str(2 * live)), "holds"),
        (("--max-live", str(live // 2)), "fails"),
        (("--max-live", str(live)), "undecidable"),
        (("--max-leak", f"the_leak={2 * leak}"), "holds"),
        (("--max-leak", f"the_l?ak={leak // 2}"), "fails"),
        (("--max-leak", f"module:added_*={live}"), "undecidable"),
        (("--max-leak", "not_there=20k"), "holds"),  # more than sampling can miss
        (("--max-leak", "not_there=1k"), "undecidable"),
        (("--max-temporary", "50%"), "holds"),
        (("--max-temporary", "0.1%"), "undecidable"),
        (("--max-allocated", "100M"), "holds"),  # exact at any interval
        (("--max-allocated", "1M"), "fails"),
        (("--max-allocations", "17000"), "holds"),
        (("--max-allocations", "16999"), "fails"),
        ((*growth, "--max-growth", "5M"), "holds"),
        ((*growth, "--max-growth", "500%"), "holds"),
        ((*growth, "--max-growth", str(grown)), "undecidable"),
        ((*growth, "--max-growth", f"{share:.3f}%"), "undecidable"),
        ((*growth, "--max-growth", "10k"), "fails"),
        ((*growth, "--max-growth", "1%"), "fails"),
        ((*growth, "--max-peak-growth", "1%"), "fails"),
        ((*growth, "--max-peak-growth", "500%"), "holds"),
    ]:
        found, result = state(*arguments, sampled)
        check(found == wanted, f"{arguments}: {found}, {result}")
        if found == "undecidable":
            deciding = result["deciding_interval_bytes"]
            check(1 <= deciding < 4096, f"{arguments}: an interval of {deciding}")
    # Against itself nothing has grown. A copy may be another run: that there are samples is not denied.
    # What was allocated is counted at any interval, and so is its growth.
    for budget in "--max-allocated-growth", "--max-allocations-growth":
        _, result = state(*growth, budget, "1G", sampled)
        for value, wanted in ((result["value"], "holds"), (result["value"] - 1, "fails")):
            found, again = state(*growth, budget, f"{value:.0f}", sampled)
            check(found == wanted and again["exact"], f"{budget} {value}: {found}, {again}")
        check(state(*growth, budget, "0.001%", sampled)[0] == "fails", f"{budget} as a share")
        check(state("--baseline", sampled, budget, "0", sampled)[0] == "holds", f"{budget} beside itself")
    found, result = state("--baseline", sampled, "--max-growth", "0", sampled)
    check(found == "holds" and result["exact"] and result["high95"] == 0, f"against itself: {result}")
    copy = shutil.copy(os.path.join(sampled, "raw-trace"), os.path.join(directory, "copy"))
    text = run([TOOL, "check", "--baseline", copy, "--max-growth", "0", sampled]).stdout.decode()
    check("undecidable" in text and "nothing was sampled" not in text and " < " not in text, text)


def test_recommended_interval(directory):
    """The interval that an undecided check recommends decides in most runs."""
    sampled = record(directory, "a", "2000")
    right = 0
    for number in range(10):
        found, result = state("--max-leak", "the_leak=300k", sampled)
        if found != "undecidable":
            interval = 256
        else:
            interval = result["deciding_interval_bytes"]
        finer = record(directory, f"finer-{number}", "2000", interval=interval)
        right += state("--max-leak", "the_leak=300k", finer)[0] == "fails"
    check(right >= 7, f"decided {right} of 10 times")


def test_exact(directory):
    """At interval 1 every budget is decided, to the byte."""
    whole, before = record(directory, "a", "2000", interval=1), record(directory, "b", interval=1)
    _, report = judge("--max-live", "1G", "--max-peak", "1G", whole)
    live, peak = (int(result["value"]) for result in report["results"])
    growth = ("--baseline", before)
    peak_before = int(judge("--max-peak", "1G", before)[1]["results"][0]["value"])
    for arguments, limit in [
        (("--max-live", "{}"), live),
        (("--max-peak", "{}"), peak),
        (("--max-leak", "the_leak={}"), 400000),
        (("--max-leak", "module:added_leak={}"), live),
        (("--max-allocations", "{}"), 14000),
        ((*growth, "--max-growth", "{}"), 400000),
        ((*growth, "--max-peak-growth", "{}"), peak - peak_before),
        ((*growth, "--max-allocated-growth", "{}"), 400000),
        ((*growth, "--max-allocations-growth", "{}"), 2000),
        (("--max-leak", "not_there={}"), 0),
    ]:
        for value, wanted in ((limit, "holds"), (limit - 1, "fails")):
            if value < 0:
                continue
            found, result = state(*(text.format(value) for text in arguments), whole)
            check(found == wanted and result["exact"], f"{arguments} {value}: {found}, {result}")
    check(state("--max-temporary", "0%", whole)[0] == "holds", "temporary allocations are counted")
    churn = record_other(directory, "churn", ["/usr/bin/env"])
    _, report = judge("--max-temporary", "0%", churn)
    share = report["results"][0]["value"]
    check(report["results"][0]["state"] == ("fails" if share > 0 else "holds"), f"share {share}")


def write_trace(directory, name, figures, interval, status=b"", unfinished=()):
    """Write a trace of one callsite with these HeapFigures, {field number: value}. The same heap of the pids in
    `unfinished` has no last dump."""
    estimate = b"".join((field if isinstance(v, int) else double)(n, v) for n, v in figures.items())
    sample = field(1, 1) + field(5000, estimate)
    path = os.path.join(directory, name)
    with open(path, "wb") as out:
        out.write(clocks(1000, 1000) + process_tree([(pid, 1, ["/bin/made"]) for pid in (7, *unfinished)]))
        out.write(packet(interned(names={1: "site"}, paths={1: "made"}, mappings=[(1, 0, 0, 4096, [1])],
                                  frames=[(1, 1, 16, 1)], stacks={1: [1]}), timestamp=1, sequence=1, flags=1))
        heaps = [heap_samples(pid, [sample], 1000, extra=field(12, interval) + field(5010, pid == 7) + status)
                 for pid in (7, *unfinished)]
        out.write(packet(profile_packet(heaps, 0), timestamp=2, sequence=1))
    return path


def test_one_row_per_stack(directory):
    """Stacks that a row shows alike are one row, as in the report: here, two calls in one function."""
    path = os.path.join(directory, "alike")
    bytes_of = {1: 30, 2: 30, 3: 50}
    with open(path, "wb") as out:
        out.write(clocks(1000, 1000) + process_tree([(7, 1, ["/bin/made"])]))
        out.write(packet(interned(names={1: "put", 2: "other"}, paths={1: "made"}, mappings=[(1, 0, 0, 4096, [1])],
                                  frames=[(1, 1, 16, 1), (2, 1, 32, 1), (3, 1, 48, 2)],
                                  stacks={i: [i] for i in bytes_of}), timestamp=1, sequence=1, flags=1))
        samples = [field(1, i) + field(2, size) + field(5, 1) for i, size in bytes_of.items()]
        out.write(packet(profile_packet([heap_samples(7, samples, 1000, extra=field(12, 1))], 0), timestamp=2, sequence=1))
    text = run([TOOL, "check", "--max-live", "1", path]).stdout.decode()
    rows = re.findall(r"^ +(\d+ B) +(\w+) \[made\]$", text, re.M)
    check(rows == [("60 B", "put"), ("50 B", "other")], f"{rows}: {text}")


def test_large_exact_figures(directory):
    """A complete profile decides budgets to the byte, however large its figures are."""
    live = (1 << 40) + 1
    whole = write_trace(directory, "large", {1: float(live), 3: 1e9, 9: 10**9}, 1)
    for option, limit in (("--max-live", live), ("--max-leak", live)):
        pattern = "" if option == "--max-live" else "site="
        check(state(option, f"{pattern}{limit}", whole)[0] == "holds", f"{option} {limit}")
        check(state(option, f"{pattern}{limit - 1}", whole)[0] == "fails", f"{option} {limit - 1}")


def test_temporary(directory):
    """Three of four allocations were temporary: in exact figures, in many samples, and in few."""
    whole = write_trace(directory, "whole", {1: 4e6, 2: 3e6, 3: 4e4, 4: 3e4, 9: 40000, 10: 30000, 11: 3e6, 12: 3e4}, 1)
    check(state("--max-temporary", "75%", whole)[0] == "holds", "75 % exactly")
    found, result = state("--max-temporary", "74.9%", whole)
    check(found == "fails" and result["exact"] and result["value"] == 0.75, f"more than 74.9 %: {result}")
    for samples, wanted in ((10**6, {"90%": "holds", "76%": "holds", "74%": "fails", "50%": "fails"}),
                            (10, {"74%": "undecidable", "80%": "undecidable"})):
        # Blocks so small that each sample represents a whole interval.
        size, weight = 16.0, 4096 / 16
        figures = {1: samples * 4096.0, 2: samples * 3072.0, 3: samples * weight, 4: samples * weight * 0.75,
                   5: samples * 4096.0**2, 6: samples * 0.75 * 4096**2, 7: samples * weight**2,
                   8: samples * 0.75 * weight**2, 9: samples, 10: samples * 3 // 4,
                   11: samples * 0.75 * 4096, 12: samples * 0.75 * weight}
        sampled = write_trace(directory, "sampled", figures, 4096)
        for limit, outcome in wanted.items():
            found, result = state("--max-temporary", limit, sampled)
            check(found == outcome and not result["exact"], f"{samples} of {size}: {limit}: {found} {result}")


def partial_forms(directory, trace, name):
    """The same profile as a pprof file and as memory dumps."""
    dumps, files = os.path.join(directory, name + ".json"), os.path.join(directory, name)
    run([TRACECONV, "memory_infra", trace, dumps])
    run([TRACECONV, "profile", "-o", files, trace])
    return [dumps, *(os.path.join(files, file) for file in os.listdir(files))]


def test_partial(directory):
    """Report, JSON, SQL, pprof and budgets take losses from one table, and agree on what is partial."""
    totals = field(5000, 1000) + field(5001, 10)
    losses = [  # (status, its name, whether the exact totals lack it, too, a part of the message, SQL's row)
        (field(7, 1), "buffer_overran", True, "allocated faster", "heapprofd_buffer_overran"),
        (field(8, 1), "buffer_corrupted", True, "overwrote the memory", "heapprofd_buffer_corrupted"),
        (field(10, 1), "hit_guardrail", True, "its limit of memory", "heapprofd_hit_guardrail"),
        (field(14, 1), "client_timed_out", True, "--block-client-timeout", "heapprofd_client_error"),
        (field(14, 2), "client_stack_bounds", True, "bounds of a stack", "heapprofd_client_error"),
        (field(14, 5000), "profiler_silent", True, "no sign of life", "heapprofd_client_error"),
        (field(4, 1), "rejected_concurrent", True, "another session", "heapprofd_rejected_concurrent"),
        (field(5002, 64), "unsent_ring_bytes", False, "unfinished at the process's death", "hp_lost_ring_bytes"),
        (field(5003, bytes([3])), "overrun", False, "allocated faster", "hp_lost_overrun"),
        (field(5003, bytes([0, 3])), "reentrant", False, "in signal handlers", "hp_lost_reentrant"),
        (field(5003, bytes([0, 0, 0, 3])), "no_thread_slot", True, "threads beyond", "hp_lost_no_thread_slot"),
        (field(5003, bytes([0] * 8 + [3, 4])), "allocations", False, "samples never arrived", "hp_lost_allocations"),
        (field(5003, bytes([0] * 5 + [3])), None, False, "before the outermost frame", "hp_lost_unwind"),
    ]
    figures = {1: 1000.0, 3: 10.0, 9: 10, 11: 900.0, 12: 9.0}
    for status, name, lacks_totals, words, row in losses:
        trace = write_trace(directory, "lossy", figures, 1, totals + status)
        heap = json.loads(run([TOOL, "report", "--json", trace]).stdout)["heaps"][0]
        check((name in heap["partial"]) == (len(heap["partial"]) > 0) == (name is not None), f"{name}: {heap['partial']}")
        check(heap["totals_partial"] == lacks_totals, f"{name}: totals {heap['totals_partial']}")
        text = run([TOOL, "report", trace]).stdout.decode()
        check(words in text and ("  partial  " in text) == (name is not None), f"{name}: {text}")
        check(("calls, partial" in text) == lacks_totals and (": all figures are exact" in text) == (name is None), text)
        for form in partial_forms(directory, trace, f"{name}"):
            (other,) = json.loads(run([TOOL, "report", "--json", form]).stdout)["heaps"]
            check((other["partial"], other["totals_partial"], other["exact_calls"]) ==
                  (heap["partial"], heap["totals_partial"], heap["exact_calls"]), f"{form}: {other}")
        totals_row = run([TOOL, "query", trace, "select exact_alloc_count, totals_partial from hp_total"]).stdout
        check(totals_row.splitlines()[1:] == [b"10,%d" % lacks_totals], f"{name}: {totals_row}")
        asked = run([TOOL, "query", trace, f"select count(*), min(value) > 0 from stats where name = '{row}'"]).stdout
        check(asked.splitlines()[1:] == [b"1,1"], f"{row}: {asked}")
        # A sum above its limit stays above it. A share may have been lower.
        budgets = [
            ("--max-live", "2000", "holds" if name is None else "undecidable", name is None),
            ("--max-live", "999", "fails", name is None),
            ("--max-allocated", "2000", "undecidable" if lacks_totals else "holds", not lacks_totals),
            ("--max-allocated", "999", "fails", not lacks_totals),
            ("--max-allocations", "20", "undecidable" if lacks_totals else "holds", not lacks_totals),
            ("--max-temporary", "95%", "holds" if name is None else "undecidable", name is None),
            ("--max-temporary", "1%", "fails" if name is None else "undecidable", name is None),
        ]
        _, judged = judge(*(word for budget in budgets for word in budget[:2]), trace)
        check(len(judged["results"]) == len(budgets), f"results: {judged['results']}")
        for (budget, limit, wanted, exact), result in zip(budgets, judged["results"]):
            check((result["state"], result["exact"]) == (wanted, exact), f"{name}: {budget} {limit}: {result}")


def test_lost_frees(directory):
    """Live memory is an upper bound if frees were lost, and no tool calls it exact."""
    figures, totals = {1: 1000.0, 3: 10.0, 9: 10, 11: 900.0, 12: 9.0}, field(5000, 1000) + field(5001, 10)
    whole = write_trace(directory, "whole", figures, 1, totals)
    budgets = [
        ("--max-live", "2000", "holds", False),
        ("--max-live", "999", "undecidable", False),
        ("--max-allocated", "2000", "holds", True),
        ("--max-allocated", "999", "fails", True),
        ("--max-temporary", "95%", "undecidable", False),
        ("--max-temporary", "1%", "fails", False),
    ]
    for index, words, row in [(4, "no memory to remember", "hp_lost_live_set"), (6, "longjmp", "hp_lost_abandoned"),
                              (7, "frees in signal handlers", "hp_lost_free")]:
        trace = write_trace(directory, "lossy", figures, 1, totals + field(5003, bytes([0] * index + [3])))
        text = run([TOOL, "report", trace]).stdout.decode()
        check(words in text and "frees were lost: live memory may be less" in text, f"{row}: {text}")
        check("all figures are exact" not in text and "calls, exact" in text, f"{row}: {text}")
        asked = run([TOOL, "query", trace, f"select severity from stats where name = '{row}'"]).stdout.split()
        check(asked[1:] == [b'"data_loss"'], f"{row}: {asked}")
        for form in [trace, *partial_forms(directory, trace, row)]:
            (process,) = json.loads(run([TOOL, "leaks", "--json", form]).stdout)["processes"]
            check(not process["heaps"][0]["exact"], f"{form}: live memory is exact")
        _, judged = judge(*(word for budget in budgets for word in budget[:2]), trace)
        check(len(judged["results"]) == len(budgets), f"results: {judged['results']}")
        for (budget, limit, wanted, exact), result in zip(budgets, judged["results"]):
            check((result["state"], result["exact"]) == (wanted, exact), f"{row}: {budget} {limit}: {result}")
        for before, after in (whole, trace), (trace, whole):
            found, result = state("--baseline", before, "--max-growth", "1G", after)
            check(found == "undecidable" and not result["exact"], f"{row}: growth: {result}")


def test_unfinished(directory):
    """A heap without its last dump decides no budget, also not beside others, in another form, or as a baseline."""
    figures, totals = {1: 1000.0, 3: 10.0, 9: 10, 11: 900.0, 12: 9.0}, field(5000, 1000) + field(5001, 10)
    whole = write_trace(directory, "whole", figures, 1, totals)
    killed = write_trace(directory, "killed", figures, 1, totals, unfinished=[8])
    for form in [killed, *partial_forms(directory, killed, "forms")]:
        _, judged = judge("--max-live", "2000", "--max-allocated", "2000", form)
        for result in judged["results"]:
            wanted = "undecidable" if result["pid"] == 8 else "holds"
            check(result["state"] == wanted, f"{form}: {result}")
    for before, after, wanted in [(whole, whole, "holds"), (whole, killed, "undecidable"),
                                  (killed, whole, "undecidable"), (killed, killed, "undecidable")]:
        found, result = state("--baseline", before, "--max-growth", "1G", after)
        check(found == wanted, f"from {before} to {after}: {result}")


def record_other(directory, name, command):
    path = os.path.join(directory, name)
    run(harness.host_command(command, path, 1))
    return path


def test_command(directory):
    """A command runs with every allocation recorded; its output and status stay the same."""
    check_one = [TOOL, "check", "--max-leak"]
    os.environ["TMPDIR"] = directory
    done = run([*check_one, "the_leak=400000", "--", *LEAK])
    check(done.status == 0 and b"400 kB, exact" in done.stderr, f"the budget does not hold: {done.status}, {done.stderr!r}")
    check(done.stdout == b"", f"standard output is the command's: {done.stdout!r}")
    done = run([*check_one, "the_leak=399999", "--", *LEAK])
    check(done.status == 1 and b"FAILS" in done.stderr, f"fails: {done.status}, {done.stderr!r}")
    done = run([*check_one, "*=1G", "--", "/bin/sh", "-c", "exit 7"])
    check(done.status == 7, f"not the command's status: {done.status}")
    done = run([*check_one, "*=1G", "--", "/bin/sh", "-c", "kill -TERM $$"])
    check(done.status == -15, f"not the command's signal: {done.status}")
    done = run([*check_one, "*=1G", "--", "/not/there"])
    check(done.status == 127, f"no command: {done.status}")


def test_undecided(directory):
    sampled = record(directory, "a", "2000")
    for choice, wanted in ((), 2), (("--undecided", "pass"), 0), (("--undecided", "fail"), 1):
        status, _ = judge(*choice, "--max-leak", "not_there=1k", sampled)
        check(status == wanted, f"{choice}: {status}")
    status, _ = judge("--undecided", "pass", "--max-leak", "not_there=1k", "--max-live", "1", sampled)
    check(status == 1, f"no budget fails: {status}")
    # 65,536 bytes that are always sampled say nothing about 100 bytes that are rarely sampled.
    small = os.path.join(directory, "small")
    run(harness.host_command([program("commanded")], small, 4096), stdin=b"hold 1 65536\nhold 1 100\n")
    found, result = state("--max-live", "65600", small)
    check(found != "holds", f"65,636 bytes are live: {result}")
    found, result = state("--max-live", "70000", small)
    check(found == "holds" or result["value"] > 65600, f"all calls together are below 70,000 bytes: {result}")


def test_suppressions(directory):
    whole = record(directory, "a", "2000", interval=1)
    budgets = os.path.join(directory, "budgets")
    with open(budgets, "w") as file:
        file.write(
            "# what tests may leave behind\n\n"
            "max-leak = the_leak=0   # the leak itself\n"
            "max-leak = module:added_leak=2M\n"
            "suppress: leak:the_leak  # known, and being worked on\n"
            "suppress: leak:old_one   # fixed long ago\n"
        )
    status, report = judge("--budgets", budgets, whole)
    check(status == 0, f"suppressed: {status}, {report}")
    used, unused = report["suppressions"]
    check((used["space"], used["objects"]) == (400000, 2000), f"counted: {used}")
    check(used["reason"] == "known, and being worked on", f"reason: {used}")
    check(unused["space"] == 0, f"unused: {unused}")
    text = run([TOOL, "check", "--budgets", budgets, whole]).stdout.decode()
    check("unused" in text and "fixed long ago" in text, text)
    check("400 kB in 2,000 blocks" in text, text)
    with open(budgets, "w") as file:
        file.write("max-leak = the_leak < main = 0\nmax-leak = the_leak = 0\n")
    states = [result["state"] for result in judge("--budgets", budgets, whole)[1]["results"]]
    check(states == ["fails", "fails"], f"blanks around the limit: {states}")
    status, _ = judge("--suppress", "leak:module:added_leak # all of it", "--max-live", "0", whole)
    check(status == 0, f"module: {status}")


GROWTHS = ("--max-growth", "--max-peak-growth", "--max-allocated-growth", "--max-allocations-growth")


def save(directory, name, *arguments):
    path = os.path.join(directory, name)
    done = run([TOOL, "check", "--save-baseline", path, *arguments])
    check(done.status == 0, f"{arguments}: {done.status}, {done.stderr!r}")
    with open(path) as file:
        return path, file.read()


def test_growth_of_parts(directory):
    """Each growth can be limited for a function, a module and a heap, in bytes or calls and in percent."""
    for interval in (1, 4096):
        before, after = (record(directory, f"{name}-{interval}", leaks, interval=interval) for name, leaks in (("a", "2000"), ("b", "6000")))
        growth = ("--baseline", before)
        for budget, gained, had in (("--max-growth", 800000, 400000), ("--max-allocated-growth", 800000, 400000), ("--max-allocations-growth", 4000, 2000)):
            for part, base in (("the_leak", had), ("the_?eak", had), ("the_leak < main", had), ("module:added_leak", None), ("heap:libc.malloc", None), ("heap:libc*", None)):
                found, result = state(*growth, budget, f"{part}={gained}", after)
                check(result["pattern"] == part, f"{result}")
                is_exact = interval == 1 or (part.startswith("heap:") and budget != "--max-growth")
                check(result["exact"] == is_exact, f"{budget} {part} at {interval}: {result}")
                if is_exact:
                    check(found == "holds" and result["value"] == gained, f"{budget} {part}: {result}")
                    check(state(*growth, budget, f"{part}={gained - 1}", after)[0] == "fails", f"{budget} {part}")
                check(state(*growth, budget, f"{part}={gained // 3}", after)[0] == "fails", f"{budget} {part}: a third")
                check(state(*growth, budget, f"{part}={3 * gained}", after)[0] == "holds", f"{budget} {part}: three times")
                if base is not None:  # it has grown by 200 %
                    check(state(*growth, budget, f"{part}=80%", after)[0] == "fails", f"{budget} {part}: 80 %")
                    check(state(*growth, budget, f"{part}=500%", after)[0] == "holds", f"{budget} {part}: 500 %")
        check(state(*growth, "--max-peak-growth", "the_leak=300k", after)[0] == "fails", "the peak of a function")
        found, result = state(*growth, "--max-growth", "heap:none=1G", after)
        check(found == "undecidable" and "neither run" in result["reason"], f"{result}")
        suppressed = ("--suppress", "leak:the_leak # known")
        check(state(*growth, *suppressed, "--max-growth", "the_leak=20k", after)[0] == "holds", "suppressed")


def test_baseline_file(directory):
    """A baseline file is small, does not change from run to run, and leads to the verdicts of the whole profile."""
    budgets = [(budget, limit) for budget in GROWTHS for part in ("", "the_leak=", "site_*=", "heap:libc.malloc=") for limit in
               (f"{part}{limit}" for limit in ("0", "100", "3k", "1M", "1G", "1%", "15%", "300%"))]
    named = ("--max-growth", "site_*=0", "--max-growth", "the_leak=0")
    for interval in (1, 4096):
        before, after = (record(directory, f"{name}-{interval}", leaks, interval=interval) for name, leaks in (("a", "1000"), ("b", "5000")))
        path, text = save(directory, f"file-{interval}", *named, before)
        check(len(text) < 10000 and all(len(line) < 300 for line in text.splitlines()), f"{len(text)} bytes: {text}")
        whole, of_file = (judge("--baseline", baseline, *sum(budgets, ()), after)[1]["results"] for baseline in (before, path))
        check([result["state"] for result in whole] == [result["state"] for result in of_file],
              f"{[(one, other) for one, other in zip(whole, of_file) if one['state'] != other['state']]}")
        check({result["state"] for result in whole} >= {"holds", "fails"}, "all the same")
        for one, other in zip(whole, of_file):
            # Rounded to a byte, four times as much for a limit of 300 %.
            check(abs(one["value"] - other["value"]) <= 1 and abs(one["low95"] - other["low95"]) <= 8, f"{one} {other}")
            check(one["stacks"] == other["stacks"] or interval > 1, f"{one['stacks']} {other['stacks']}")
        check(json.loads(text)["total"]["calls"] == 13000, text)
    # Of two runs of a command that do the same the file is the same.
    texts = {save(directory, f"same-{number}", "--", *LEAK)[1] for number in range(2)}
    check(len(texts) == 1, f"{texts}")
    # What the file lacks is undecidable, but a heap that it lacks was not there.
    plain, _ = save(directory, "plain", "--", program("added_leak"))
    grown = record(directory, "grown", "2000", interval=1)
    found, result = state("--baseline", plain, "--max-growth", "the_leak=1G", grown)
    check(found == "undecidable" and "has no row for it" in result["reason"], f"{result}")
    found, result = state("--baseline", plain, "--max-growth", "heap:none=1", grown)
    check(found == "undecidable" and "neither run" in result["reason"], f"{result}")
    for more, wanted in (((), "holds"), (("--suppress", "leak:the_leak # it is known"), "undecidable")):
        found, result = state("--baseline", plain, "--max-growth", "1G", *more, grown)
        check(found == wanted and ("other suppressions" in result["reason"]) == bool(more), f"{more}: {result}")
    one, other = (("--suppress", f"leak:{name} # it is known") for name in ("site_1", "site_2"))
    both, _ = save(directory, "both", *one, *other, "--", program("added_leak"))
    for more, wanted in (((*one, *other, *one), "holds"), ((*one, *one), "undecidable")):
        found, result = state("--baseline", both, "--max-growth", "1G", *more, grown)
        check(found == wanted, f"{more}: {result}")
    check(state("--baseline", plain, "--heap", "libc.malloc", "--max-growth", "399999", grown)[0] == "fails", "--heap of a file of all")
    found, result = state("--baseline", plain, "--heap", "libc.malloc", "--max-growth", "site_1=1", grown)
    check(found == "undecidable" and "same --heap" in result["reason"], f"{result}")


def test_baseline_of_poor_profiles(directory):
    """Whatever makes growth beyond a profile undecidable does so with its baseline file."""
    totals = field(5000, 1000) + field(5001, 10)
    figures = {1: 1000.0, 3: 10.0, 9: 10, 11: 900.0, 12: 9.0}
    after = write_trace(directory, "after", figures, 1, totals + field(11, b"new"))
    limits = sum(((budget, f"{part}{limit}") for budget in GROWTHS for part, limit in (("", "1G"), ("heap:new=", "1G"), ("heap:new=", "1"))), ())
    for name, status in (("whole", b""), ("overran", field(7, 1)), ("lost", field(5003, bytes([0, 3]))), ("no_slot", field(5003, bytes([0, 0, 0, 3]))),
                         ("frees", field(5003, bytes([0] * 8 + [0, 0, 3]))), ("no totals", None)):
        before = write_trace(directory, name, figures, 1, totals + status if status is not None else b"")
        with open(before, "ab") as out:
            out.write(packet(field(5000, field(1, 8) + field(3, b"other") + field(4, b"it is static")), timestamp=3, sequence=1))
        path = os.path.join(directory, name + ".baseline")
        run([TOOL, "check", "--save-baseline", path, before])
        for more in ((), ("--only-profiled",)):
            whole, of_file = (judge(*more, *limits, "--baseline", baseline, after)[1]["results"] for baseline in (before, path))
            check([(one["state"], one["exact"]) for one in whole] == [(one["state"], one["exact"]) for one in of_file], f"{name} {more}: {whole} {of_file}")
            check(bool(more) or {one["state"] for one in whole} == {"undecidable"}, f"{name}: {whole}")


def test_saved_baseline(directory):
    """--save-baseline needs no budget, makes the first baseline of a project, and takes no failed run."""
    path, budgets = os.path.join(directory, "heap.baseline"), os.path.join(directory, "heap.budgets")
    with open(budgets, "w") as file:
        file.write(f"baseline = {path}\nmax-growth = the_leak=10%\n")
    again = [TOOL, "check", "--budgets", budgets, "--save-baseline", path]
    done = run([*again, "--", "/bin/sh", "-c", "exit 3"])
    check(done.status == 3 and b"is not written" in done.stderr and not os.path.exists(path), f"{done.status} {done.stderr!r}")
    done = run([*again, "--", program("added_leak"), "100"])
    check(done.status == 0 and b"no baseline yet" in done.stderr and os.path.exists(path), f"{done.status} {done.stderr!r}")
    done = run([*again, "--", *LEAK])
    check(done.status == 1 and b"from 20.0 kB to 400 kB, limit 2.00 kB" in done.stderr, f"{done.status} {done.stderr!r}")
    done = run([*again, "--", *LEAK])
    check(done.status == 0 and b"holds" in done.stderr, f"{done.status} {done.stderr!r}")
    check(os.stat(path).st_mode & 0o444 == 0o444 & ~os.umask(os.umask(0)), "the file is for everybody whom the umask allows")


def test_baseline_input(directory):
    """A damaged baseline file is refused with the byte and the reason."""
    whole = record(directory, "a", interval=1)
    path, text = save(directory, "good", whole)
    bad = os.path.join(directory, "bad")
    row = '{"live":1,"peak":1,"allocated":1,"calls":1}'
    for old, new, said in [
        ('"heap_profile_baseline":1', '"heap_profile_baseline":2', "another version"),
        ('"interval_bytes":1,', '"interval_bytes":1.5,', "an interval is in bytes"),
        ('"interval_bytes":1,\n', "", "is missing"),
        ('"interval_bytes":1,', '"interval_bytes":1,\n<<<<<<< HEAD', "byte "),
        ('"live":', '"life":', "no such member"),
        ('"calls":12000}', '"calls":12000,"calls":1}', "a second time"),
        ('"calls":12000}', '"calls":"many"}', "a figure is a number"),
        ('"calls":12000}', '"calls":[1,2]}', "[value, low, high]"),
        ('"calls":12000}', '"calls":[5,6,7]}', "outside of its limits"),
        ('"calls":12000}', '"calls":1e300}', "beyond 2^62"),
        ('"calls":12000}', '"calls":1' + 70 * "0" + "}", "63 digits"),
        ('"of":"main"', '"of":"aaa"', "order"),
        ('"of":"main"', f'"of":"{5000 * "m"}"', "4,096 bytes"),
        ('"of":"main"', '"of":"m\udcff"', "not UTF-8"),
        ('"stacks":[', f'"stacks":[{row},', "a stack needs stack"),
        ('"other_stacks":{', '"other_stacks":{"stack":"main",', "no such member"),
        ('"other_stacks":{', '"other_stacks":{"live":1,', "a second time"),
        ('"rows":[', f'"rows":[{row},', "a row needs of"),
        ('"suppressions":[]', '"suppressions":[1]', "texts"),
        ('"suppressions":[]', '"suppressions":["b","a"]', "order"),
        ('"suppressions":[]', '"suppressions":["a","a"]', "twice"),
        ("]}\n", "]} {}", "follows its end"),
        ("]}\n", "", "ends in the middle"),
        ("]}\n", "]}" + (1 << 20) * " ", "more than 1 MiB"),
    ]:
        check(old in text, f"{old} is not in {text}")
        with open(bad, "w", errors="surrogateescape") as file:
            file.write(text.replace(old, new, 1))
        done = run([TOOL, "check", "--baseline", bad, "--max-growth", "1", whole])
        check(done.status == 2 and said in done.stderr.decode() and bad in done.stderr.decode(), f"{old} {new[:99]}: {done.status} {done.stderr!r}")
        check("1 MiB" in said or re.search(rb"byte \d+: .*save it again", done.stderr), f"{old} {new[:99]}: {done.stderr!r}")
    rows = ",".join('{"of":"f%05d",%s' % (i, row[1:]) for i in range(5000))
    with open(bad, "w") as file:
        file.write(re.sub(r'"rows":\[.*?\],', lambda _: f'"rows":[{rows}],', text, flags=re.S))
    done = run([TOOL, "check", "--baseline", bad, "--max-growth", "1", whole])
    check(done.status == 2 and b"more than 4,096 rows" in done.stderr, f"{done.stderr!r}")


def test_failure_text(directory):
    """What fails has the limit, both figures, the margin, and the three rows that grew most, in text, JUnit and JSON."""
    before, after = record(directory, "a", "1000", interval=1), record(directory, "b", "6000", interval=1)
    limits = ("--baseline", before, "--max-growth", "25%", "--max-peak-growth", "1", "--max-allocations-growth", "1k")
    junit = os.path.join(directory, "junit.xml")
    text = run([TOOL, "check", "--junit", junit, *limits, after]).stdout.decode()
    lines = text.splitlines()
    check(re.match(r"FAILS +max-growth 25%: 1\.00 MB, exact; from 1\.31 MB to 2\.31 MB, limit 326 kB ", lines[0]), text)
    check(re.fullmatch(r" +\+1\.00 MB the_leak \[added_leak\] < main", lines[1]), text)
    rows = [re.fullmatch(r" +\+([\d.]+ \w+) (\w+) \[added_leak\] < main", line) for line in lines[3:6]]
    check(all(rows) and rows[0][2] == "the_leak" and rows[1][2].startswith("site_"), text)
    check(any(re.fullmatch(r" +\+5,000 the_leak \[added_leak\] < main", line) for line in lines), text)
    (suite,) = ElementTree.parse(junit).getroot()
    failures = {case.get("name"): case.find("failure") for case in suite}
    check("the_leak [added_leak] < main" in failures["max-growth 25%"].text, failures)
    _, report = judge(*limits, after)
    result = report["results"][0]
    check((result["after"] - result["before"], result["stacks"][0]) == (1000000, {"stack": "the_leak [added_leak] < main", "amount": 1000000, "at_most": False}), result)
    # A row that a baseline file may have left out grew by at most what it has.
    path, kept = save(directory, "file", before)
    found = json.loads(kept)
    others = {figure: max(stack[figure] for stack in found["stacks"]) for figure in ("live", "peak", "allocated", "calls")}
    check(set(found["other_stacks"].values()) == {0}, f"{found['other_stacks']}")
    found["stacks"], found["other_stacks"] = [], others
    with open(path, "w") as file:
        json.dump(found, file)
    text = run([TOOL, "check", "--baseline", path, "--max-growth", "1", after]).stdout.decode()
    check("up to 1.20 MB the_leak [added_leak] < main" in text and "site_" not in text, text)
    sampled = record(directory, "c", "6000")
    text = run([TOOL, "check", "--baseline", record(directory, "d", "1000"), "--max-growth", "1k", sampled]).stdout.decode()
    check(re.search(r"FAILS +max-growth 1k: [\d.]+ \w+ ± [\d.]+ kB; from [\d.]+ MB to [\d.]+ MB, limit 1\.02 kB", text), text)


def test_stable_names(directory):
    """JUnit's names are the same in two runs: no pids, and processes of one name are numbered."""
    names = []
    for number in range(2):
        path = os.path.join(directory, f"junit-{number}.xml")
        script = f"{program('added_leak')} 1; {program('added_leak')} 2; true"
        run([TOOL, "check", "--max-live", "1", "--max-peak", "1G", "--follow-children", "--junit", path, "--", "sh", "-c", script])
        (suite,) = ElementTree.parse(path).getroot()
        names.append([(case.get("classname"), case.get("name")) for case in suite])
    check(names[0] == names[1] and len(set(names[0])) == len(names[0]), f"{names}")
    check(("added_leak, libc.malloc (2)", "max-live 1") in names[0], f"{names[0]}")


def test_summary(directory):
    """The summary for GitHub is added to the file, and nothing in it is markup of a name."""
    whole, path = record(directory, "a", "2000", interval=1), os.path.join(directory, "summary.md")
    with open(path, "w") as file:
        file.write("before\n")
    hostile = "<img src=x>|`*_[a](b)@me"
    done = run([TOOL, "check", "--github-summary", path, "--max-live", "1G", "--max-leak", "the_leak=1k", "--max-leak", f"{hostile}=1k", whole])
    with open(path) as file:
        text = file.read()
    check(done.status == 1 and text.startswith("before\n### Heap budgets: 1 fail, 0 undecidable, 2 hold\n"), text)
    table = [line for line in text.splitlines() if line.startswith("|")]
    check(len(table) == 5 and all(len(line.split("|")) == 6 for line in table), f"{table}")
    check(not any(mark in text for mark in ("<img", "`", "@me", "[a]")), text)
    check("<pre>" in text and re.search(r"400 kB the&#95;leak .*&#91;added&#95;leak&#93; &#60; main", text), text)
    run([TOOL, "check", "--github-summary", path, "--max-live", "1G", whole])
    with open(path) as file:
        check(file.read().startswith(text), "the second one replaced the first")


# --- the examples of docs/check.md ---


def snippets():
    """Return {language: text} of the blocks under "In a project"."""
    with open(os.path.join(ROOT, "docs/check.md")) as file:
        text = file.read().split("## In a project")[1]
    return dict(re.findall(r"^```(\w*)\n(.*?)^```$", text, re.M | re.S))


def make_project(directory, leaks=0):
    """Make the project that the page speaks of, and save its baseline."""
    with open(os.path.join(directory, "unit-tests.c"), "w") as file:
        file.write("#include <stdlib.h>\n\nstatic void *volatile kept[4000];\n\nstatic void keep(int i)\n{\n    kept[i] = malloc(200);\n}\n\n"
                   f"int main(void)\n{{\n    for (int i = 0; i < {1000 + leaks}; i++)\n        keep(i);\n}}\n")
    with open(os.path.join(directory, "heap.budgets"), "w") as file:
        file.write(snippets()[""])
    environment = {"PATH": f"{os.path.dirname(TOOL)}:{os.environ['PATH']}", "TMPDIR": directory}
    if not os.path.exists(os.path.join(directory, "heap.baseline")):
        for command in ("cc -g -o unit-tests unit-tests.c", "heap_profile check --budgets heap.budgets --save-baseline heap.baseline -- ./unit-tests"):
            done = run(["bash", "-ec", command], cwd=directory, env=environment)
            check(done.status == 0, f"{command}: {done.status} {done.stderr!r}")
    return environment


def judge_project(directory, commands):
    """The commands succeed with the project, and fail when it leaks."""
    for leaks in (0, 2000):
        environment = make_project(directory, leaks)
        done = None
        for command in commands:
            done = run(["bash", "-ec", command], cwd=directory, env={**environment, "GITHUB_STEP_SUMMARY": os.path.join(directory, "summary")})
            if done.status != 0:
                break
        text = (done.stdout + done.stderr).decode()
        check((done.status == 0) == (leaks == 0) and command == commands[-1], f"leaks {leaks}: {command}: {done.status} {text}")
        check(leaks == 0 or "max-growth 5%" in text, text)


def test_example_workflow(directory):
    harness.need("cc")
    blocks = re.findall(r"^( +)- run: (?:\|\n((?:\1 {3,}.*\n)+)|(.*)\n)", snippets()["yaml"], re.M)
    commands = [line or re.sub(r"(?m)^ {10}", "", block) for _, block, line in blocks]
    check(len(commands) == 2, f"{commands}")
    judge_project(directory, commands)
    with open(os.path.join(directory, "summary")) as file:
        check("| fails | max-growth 5% |" in file.read(), "no summary")
    check(os.path.exists(os.path.join(directory, "heap.xml")), "no JUnit")


def test_example_cmake(directory):
    harness.need("cc", "cmake", "ctest")
    with open(os.path.join(directory, "CMakeLists.txt"), "w") as file:
        file.write(snippets()["cmake"])
    judge_project(directory, ["cmake -S . -B out > /dev/null", "cmake --build out > /dev/null", "cd out && ctest --output-on-failure"])


def test_example_meson(directory):
    harness.need("cc", "meson", "ninja")
    with open(os.path.join(directory, "meson.build"), "w") as file:
        file.write(snippets()["meson"])
    judge_project(directory, ["[ -d out ] || meson setup out > /dev/null", "ninja -C out > /dev/null", "meson test -C out --print-errorlogs"])


def test_example_pytest(directory):
    harness.need("cc")
    if run([sys.executable, "-m", "pytest", "--version"]).status != 0:
        harness.skip("pytest is not installed")
    with open(os.path.join(directory, "test_heap.py"), "w") as file:
        file.write(snippets()["python"])
    judge_project(directory, ["cc -g -o unit-tests unit-tests.c", f"{sys.executable} -m pytest -q -p no:cacheprovider test_heap.py"])


def test_junit(directory):
    sampled = record(directory, "a", "2000")
    path = os.path.join(directory, "results.xml")
    budgets = ("--max-live", "1G", "--max-allocations", "1", "--max-leak", "<&\">=1k")
    for choice, (errors, skipped) in (((), (1, 0)), (("--undecided", "pass"), (0, 1))):
        run([TOOL, "check", "--junit", path, *choice, *budgets, sampled])
        (suite,) = ElementTree.parse(path).getroot()
        counts = [int(suite.get(key)) for key in ("tests", "failures", "errors", "skipped")]
        check(counts == [3, 1, errors, skipped], f"counts {counts}")
        cases = {case.get("name"): [child.tag for child in case] for case in suite}
        check(cases["max-live 1G"] == [], f"not all hold: {cases}")
        check(cases["max-allocations 1"] == ["failure"], f"fails: {cases}")
        check(cases["max-leak <&\">=1k"] == ["error" if errors else "skipped"], f"undecidable: {cases}")


def test_github(directory):
    whole = record(directory, "a", "2000", interval=1)
    budgets = os.path.join(directory, "budgets, ours")
    with open(budgets, "w") as file:
        file.write("max-allocations = 1\nmax-leak = the_leak=64k\nmax-temporary = 50%\n")
    lines = run([TOOL, "check", "--github", "--budgets", budgets, whole], cwd=ROOT).stdout.decode().splitlines()
    lines = [line for line in lines if line.startswith("::")]
    with open(os.path.join(ROOT, "tests/programs/added_leak.c")) as file:
        number = next(i for i, line in enumerate(file.read().splitlines(), 1) if "void *the_leak" in line)
    check(len(lines) == 2, f"{lines}")
    check(lines[0].startswith(f"::error file={directory}/budgets%2C ours,line=1,title=max-allocations 1::fails: "),
          lines[0])
    check(any(lines[1].startswith(f"::error file=tests/programs/added_leak.c,line={number + i},title=max-leak "
                                  "the_leak=64k::fails: 400 kB, exact") for i in (1, 2)), lines[1])


def test_usage(directory):
    whole = record(directory, "a", interval=1)
    saved, _ = save(directory, "heap.baseline", whole)
    bad = os.path.join(directory, "bad")
    for text, said in [
        ("max-lives = 3\n", "line 1: budgets are"),
        ("\nmax-live = many\n", "line 2: a budget of memory"),
        ("max-leak = 64k\n", "max-leak takes"),
        ("max-live = 5%\n", "not '5%'"),
        ("max-temporary = 5\n", "max-temporary takes"),
        ("suppress: leak:a\n", "reason"),
        ("suppress: a # b\n", "a suppression is"),
        ("what is this\n", "a line is"),
        ("max-leak = the_leak =\n", "max-leak takes"),
        ("max-leak = =5\n", "max-leak takes"),
        ("max-live = 0x10\n", "not '0x10'"),
        ("max-live = 1e400\n", "not '1e400'"),
        ("max-live = 1\0\n", "line 1: this is not a file of budgets"),
        ("#" * (1 << 23), "more than 4 MB"),
    ]:
        with open(bad, "w") as file:
            file.write(text)
        done = run([TOOL, "check", "--budgets", bad, whole])
        check(done.status == 2 and said in done.stderr.decode(), f"{text!r}: {done.status}, {done.stderr!r}")
    for arguments, said in [
        ((whole,), "such as --max-live"),
        (("--baseline", saved, whole), "such as --max-growth"),
        (("--max-live", "1", "--max-growth", "1", whole), "go together"),
        (("--max-growth", "=5", whole), "parse_*=64k or heap:libc.malloc=5%, not '=5'"),
        (("--max-growth", "f=many", whole), "parse_*=64k or heap:libc.malloc=5%, not 'f=many'"),
        (("--max-allocations-growth", "f=", whole), "1000, 5%, parse_*=100"),
        (("--save-baseline", "/not/there/x", whole), "/not/there"),
        (("--save-baseline", "", whole), "takes a file, as in heap.baseline, not ''"),
        (("--github-summary", "", "--max-live", "1", whole), 'as in "$GITHUB_STEP_SUMMARY", which GitHub sets, not'),
        (("--baseline", f"{saved}@2", "--max-growth", "1", whole), "has no dumps"),
        (("--max-live", "1", saved), "is a baseline file, for --baseline"),
        (("--github-summary", "/not/there/x", "--max-live", "1", whole), "/not/there"),
        (("--baseline", "/not/there", "--max-growth", "1", whole), "/not/there"),
        (("--save-baseline", whole, whole), whole),
        (("--github-summary", whole, "--max-live", "1", whole), whole),
        (("--max-live", "1", "--budgets", "/not/there", whole), "cannot read"),
        (("--max-live", "1", "/not/there"), "/not/there"),
        (("--max-live", "1", whole, "more"), "one trace, or a command after --"),
        (("--max-live", "1", "--"), "nothing to check"),
        (("--max-live", "1", "/bin/true"), "heap_profile check [options] -- /bin/true"),
        (("--max-live", "1", "true"), "heap_profile check [options] -- true"),
        (("--max-live", "1", "--undecided", "maybe", whole), "pass or fail"),
        (("--max-live", "1", "--pid", "1", whole), "nothing in it"),
        (("--max-leaks", "1", whole), "--max-leak"),
        (("--max-live", "1", "-n", "x", whole), "-n is for a command"),
    ]:
        done = run([TOOL, "check", *arguments])
        check(done.status == 2 and said in done.stderr.decode(), f"{arguments}: {done.status}, {done.stderr!r}")


def test_named_processes(directory):
    """-n NAME judges the processes of that name that the command starts; the others do not matter."""
    script = f"{program('added_leak')} 2000; true; cat /dev/null"
    for options, status, names in ((["-n", "added_leak"], 1, {"added_leak"}), (["-n", "cat"], 0, {"cat"}), (["-n", "cat,added_leak"], 1, {"cat", "added_leak"})):
        done = run([TOOL, "check", "--json", "--max-live", "100k", *options, "--", "sh", "-c", script])
        results = json.loads(done.stdout)["results"]
        check(done.status == status and {result["name"] for result in results} == names, f"{options}: {done.status} {results}")
    # The advice for the processes that were not profiled works.
    done = run([TOOL, "check", "--max-live", "100k", "--", "sh", "-c", script])
    check(done.status == 2 and b"use -n with its name" in done.stderr, f"{done.status} {done.stderr!r}")


def test_units(directory):
    """Sizes of budgets are those of all options (docs/units.md)."""
    whole = record(directory, "a", "2000", interval=1)
    for text, wanted in (("400kB", "holds"), ("400 kB", "holds"), ("390.6 KiB", "fails"), ("390.7k", "holds"), ("0.4MB", "holds"), ("0.38M", "fails"), ("399999B", "fails")):
        found, result = state("--max-leak", f"the_leak={text}", whole)
        check(found == wanted, f"{text}: {result}")


def test_known_totals(directory):
    """Report, JSON, SQL, pprof and budgets agree on whether exact totals are known, perhaps as zeros."""
    without = write_trace(directory, "without", {1: 1000.0, 3: 10.0, 9: 10}, 4096)
    zero = os.path.join(directory, "zero")
    with open(zero, "wb") as out:
        out.write(clocks(1000, 1000) + process_tree([(7, 1, ["/bin/made"])]))
        idle = heap_samples(7, [], 1000, heap="idle", extra=field(12, 4096) + field(5001, 0) + field(5010, 1))
        out.write(packet(profile_packet([idle], 0), timestamp=2, sequence=1, flags=1))
    for trace, known in (without, False), (zero, True):
        text = run([TOOL, "report", trace]).stdout.decode()
        check(("0 B in 0 calls, exact" in text) == known, f"{trace}: {text}")
        (heap,) = json.loads(run([TOOL, "report", "--json", trace]).stdout)["heaps"]
        wanted = 0 if known else None
        check((heap["exact_bytes"], heap["exact_calls"]) == (wanted, wanted), f"{trace}: {heap}")
        rows = run([TOOL, "query", "--json", trace, "select exact_alloc_size s, exact_alloc_count c from hp_total"]).stdout
        check(json.loads(rows) == [{"s": wanted, "c": wanted}], f"{trace}: {rows}")
        for file in partial_forms(directory, trace, trace + ".forms")[1:]:
            with open(file, "rb") as written:
                comments = written.read()
            check((b"exact: 0 bytes in 0 calls" in comments) == known, f"{file}: {comments}")
        shutil.copy(trace, trace + ".copy")
        found, result = state("--max-allocated-growth", "1k", "--baseline", trace + ".copy", trace)
        check((found == "holds") == known and (result["value"] is None) != known, f"{trace}: {result}")


def test_unprofiled_before(directory):
    """Growth beyond a baseline with processes that were not profiled is undecidable."""
    totals = field(5000, 1000) + field(5001, 10)
    trace = write_trace(directory, "after", {1: 1000.0, 3: 10.0, 9: 10}, 1, totals)
    limits = [("--max-growth", "0"), ("--max-peak-growth", "10%"), ("--max-allocated-growth", "0"),
              ("--max-allocations-growth", "1")]
    for name, process, wanted in (
        ("quiet", field(7, b"quiet"), "holds"),
        ("chosen", field(5, 1), "holds"),
        ("other", b"", "undecidable"),
    ):
        before = write_trace(directory, name, {1: 1000.0, 3: 10.0, 9: 10}, 1, totals)
        with open(before, "ab") as out:
            fields_of = field(1, 8) + field(3, b"other") + field(4, b"it is static") + process
            out.write(packet(field(5000, fields_of), timestamp=3, sequence=1))
        for budget in limits:
            found, result = state(*budget, "--baseline", before, trace)
            check(found == wanted, f"{name}: {budget}: {result}")
            check(("were not profiled" in result["reason"]) == (wanted != "holds"), f"{name}: {result}")
            for limit in "0", "1G":
                found, result = state(budget[0], limit, "--only-profiled", "--baseline", before, trace)
                check(found == "holds", f"{name}: only what was profiled, {budget}: {result}")


def add_to_exact_total(path, more):
    """Copy the trace, with its exact totals changed by this number of bytes."""
    text = run([TOOL, "text", path]).stdout
    moved, count = re.subn(rb"(exact_bytes: )(\d+)", lambda m: m[1] + b"%d" % (int(m[2]) + more), text)
    check(count >= 1, "no exact total in the trace")
    with open(path + ".text", "wb") as file:
        file.write(moved)
    done = run([TOOL, "binary", path + ".text", path + ".moved"])
    check(done.status == 0, f"binary: {done.stderr!r}")
    return path + ".moved"


def test_disagreement(directory):
    """If the exact totals exceed the samples by a block, every tool shows it, and no budget is decided."""
    found = "select value from stats where name = 'hp_figures_disagree'"
    recorded = os.path.join(record(directory, "a", "5000"), "raw-trace")
    budgets = ("--max-peak", "1G", "--max-live", "1G", "--max-allocated", "1G", "--max-temporary", "100%",
               "--max-allocated-growth", "1k", "--baseline", recorded)
    for more, said in [(0, None), (3_000_000, b"3.00 MB"), (-3_000_000, b"in samples and not in the exact total")]:
        trace = add_to_exact_total(recorded, more)
        status, report = judge(*budgets, trace)
        states = {result["state"] for result in report["results"]}
        text = run([TOOL, "report", trace]).stdout
        (heap,) = json.loads(run([TOOL, "report", "--json", trace]).stdout)["heaps"]
        rows = run([TOOL, "query", trace, found]).stdout.split()[1:]
        if said is None:
            check(status == 0 and states == {"holds"}, f"untouched: {status}, {states}")
            check(b"disagree" not in text and rows == [], f"untouched: {text[:1000]!r}, {rows}")
            check(heap["agreement"]["agrees"], f"untouched: {heap['agreement']}")
            chance = heap["agreement"]["chance_bytes"]
            check(abs(heap["agreement"]["missing_bytes"]) < chance < 2_500_000, f"{heap['agreement']}")
            continue
        check(status == 2 and states == {"undecidable"}, f"{more}: {status}, {report['results']}")
        for form in partial_forms(directory, trace, f"forms{more}"):
            status, judged = judge(*budgets, form)
            check(status == 2, f"{more}: {form}: {status}, {judged['results']}")
            check(not any(result["state"] == "holds" for result in judged["results"]), f"{form}: {judged['results']}")
        check(all("disagree" in result["reason"] for result in report["results"]), f"{more}: reasons")
        line = next((line for line in text.splitlines() if b"disagree: exact" in line), b"")
        check(b"in no sample" in line if more > 0 else said in line, f"{more}: {line!r} in {text[:1500]!r}")
        check(rows == [b"1"], f"{more}: stats {rows}")
        agreement = heap["agreement"]
        check(not agreement["agrees"] and abs(agreement["missing_bytes"] - more) < 1_000_000, f"{agreement}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made_directory:
        harness.main(made_directory)
