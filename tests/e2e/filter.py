#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""--focus, --ignore, --hide and --show-from in every verb that shows or converts stacks: filter.py CASE"""

import gzip
import json
import os
import re
import shutil
import tempfile

import harness
from harness import BUILD, SANITIZED, TOOL, check, need, profile, run, skip
from saved_page import SavedPage
from terminal import Terminal

TRACECONV = os.path.join(BUILD, "traceconv")
STACKS = {
    "main;load;parse;copy": 100,
    "main;load;parse;std::vector<int>::push_back(int)": 50,
    "main;serve;parse;copy": 30,
    "main;serve;one;copy": 20,
    "main;serve;two;copy": 10,
    "other;copy": 7,
}
# options: the stacks that stay, and the dropped figures
CASES_OF = {
    ("--focus", "parse"): ({
        "main;load;parse;copy": 100, "main;load;parse;std::vector<int>::push_back(int)": 50,
        "main;serve;parse;copy": 30}, 37),
    ("--focus", "load", "--focus", "^other$"): ({
        "main;load;parse;copy": 100, "main;load;parse;std::vector<int>::push_back(int)": 50, "other;copy": 7}, 60),
    ("--ignore", "serve"): ({
        "main;load;parse;copy": 100, "main;load;parse;std::vector<int>::push_back(int)": 50, "other;copy": 7}, 60),
    ("--hide", "^(one|two|other)$"): ({
        "main;load;parse;copy": 100, "main;load;parse;std::vector<int>::push_back(int)": 50,
        "main;serve;parse;copy": 30, "main;serve;copy": 30, "copy": 7}, 0),
    ("--hide", "other|copy"): ({
        "main;load;parse": 100, "main;load;parse;std::vector<int>::push_back(int)": 50,
        "main;serve;parse": 30, "main;serve;one": 20, "main;serve;two": 10}, 7),
    ("--show-from", "parse"): ({"parse;copy": 130, "parse;std::vector<int>::push_back(int)": 50}, 37),
    ("--show-from", "serve|parse"): ({
        "parse;copy": 100, "parse;std::vector<int>::push_back(int)": 50, "serve;parse;copy": 30,
        "serve;one;copy": 20, "serve;two;copy": 10}, 7),
    ("--focus", "serve", "--ignore", "two", "--show-from", "serve", "--hide", "copy"): ({
        "serve;parse": 30, "serve;one": 20}, 167),
    ("--focus", "<int>"): ({"main;load;parse;std::vector<int>::push_back(int)": 50}, 167),
    ("--hide", "."): ({}, 217),
}


def write_stacks(directory, stacks=STACKS, name="stacks"):
    path = os.path.join(directory, name)
    with open(path, "w") as out:
        out.writelines(f"{stack} {size}\n" for stack, size in stacks.items())
    return path


def collapsed(output):
    stacks = {}
    for line in output.decode().splitlines():
        stack, size = line.rsplit(" ", 1)
        check(stack not in stacks, f"twice: {line}")
        stacks[stack] = int(size)
    return stacks


def ok(*command, stdin=None):
    outcome = run(command, stdin)
    check(outcome.status == 0, f"{command}: {outcome.status} {outcome.stderr[-300:]}")
    return outcome


def of_report(heap, key="space"):
    return {
        ";".join(f["name"] for f in reversed(site["frames"])): site[key]["estimate"] for site in heap["callsites"]
    }


def label_of(frame):
    """A function's name, or what stands for it."""
    return frame["name"] or f"0x{frame.get('function_start', frame['rel_pc']):x} @ {os.path.basename(frame['mapping'])}"


def same(ours, theirs, what):
    check(ours == theirs, f"{what}: {ours} is not {theirs}")


def test_verbs(directory):
    """Every verb shows the same stacks and reports the dropped figures."""
    harness.need_saved_pages()
    path = write_stacks(directory)
    for options, (kept, left) in CASES_OF.items():
        converted = ok(TRACECONV, "collapsed", *options, path)
        same(collapsed(converted.stdout), kept, f"collapsed {options}")
        check(f"leaves out {left} B of 217 B".encode() in converted.stderr, f"{options}: {converted.stderr}")
        (heap,) = json.loads(ok(TOOL, "report", "--json", *options, path).stdout)["heaps"]
        same(of_report(heap), kept, f"report {options}")
        same((heap["total"]["space"]["estimate"], heap["left_out"]["space"]["estimate"]), (217, left), f"{options}")
        text = ok(TOOL, "report", *options, path).stdout.decode()
        check(f"leaves out {left} B of 217 B ({100 * left / 217:.1f} %)" in text, f"{options}: {text}")
        check(re.search(r"\n  live +217 B", text), f"{options}: the heap's own figures changed: {text}")
        tree = ok(TOOL, "report", "--tree", "--cumulative", *options, path).stdout.decode()
        for name in ("one", "parse", "load"):
            there = any(name in stack.split(";") for stack in kept)
            check(there == bool(re.search(rf"\b{name}\n", tree)), f"{options}: {name} in {tree}")
        ok(TRACECONV, "flamegraph", *options, path, os.path.join(directory, "page.html"))
        page = SavedPage(os.path.join(directory, "page.html"))
        (heap,) = page.heaps()
        same({";".join(stack): value for stack, value in page.values(heap, "space").items()}, kept, f"the page {options}")
        same(page.graph(heap, "space")["total"]["bytes"]["estimate"], 217, f"the page {options}: all")
        check(f"{options[0]} &#39;" in page.title, f"{options}: the page's title is {page.title}")
        scope = json.loads(ok(TRACECONV, "speedscope", *options, path).stdout)
        same(sum(scope["profiles"][0]["weights"]), 217 - left, f"speedscope {options}")
        leaks = json.loads(ok(TOOL, "leaks", "--json", *options, path).stdout)
        heaps = [h for p in leaks["processes"] for h in p["heaps"]]
        same(sum(entry["size"] for h in heaps for entry in h["leaks"]), 217 - left, f"leaks {options}")
        same([h["left_out"]["after"]["space"] for h in heaps], [left], f"leaks {options}")
        text = ok(TOOL, "leaks", *options, path).stdout.decode()
        check(f" leaves out {left} B of 217 B" in text, f"leaks {options}: {text}")


def test_sides(directory):
    """A difference of filtered profiles reports the dropped figures of each side."""
    grown = {stack: size * 2 if "serve" in stack else size for stack, size in STACKS.items()}
    before, after = write_stacks(directory), write_stacks(directory, grown, "grown")
    found = json.loads(ok(TOOL, "diff", "--json", "--focus", "parse", before, after).stdout)
    (pair,) = found["heaps"]
    same(pair["total"]["space"]["change"], 30, "what grew")
    same((pair["left_out"]["before"]["space"], pair["left_out"]["after"]["space"]), (37, 67), "left out")
    text = ok(TOOL, "diff", "--focus", "parse", before, after).stdout.decode()
    check("leaves out 37 B of 217 B (17.1 %) before, 67 B of 277 B (24.2 %) after" in text, text)
    grew = ok(TOOL, "leaks", "--ignore", "parse", before, after).stdout.decode()
    check("--ignore 'parse' leaves out 180 B of 217 B (82.9 %) before, 210 B of 277 B (75.8 %) after" in grew, grew)


def test_pprof(directory):
    """The pprof file has the stacks that stay, and a comment."""
    out = os.path.join(directory, "out")
    ok(TRACECONV, "profile", "--show-from", "serve", "-o", out, write_stacks(directory))
    (name,) = os.listdir(out)
    written = os.path.join(out, name)
    converted = collapsed(ok(TRACECONV, "collapsed", written).stdout)
    same(converted, {"serve;parse;copy": 30, "serve;one;copy": 20, "serve;two;copy": 10}, "read again")
    with open(written, "rb") as file:
        content = file.read()
    content = gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content
    check(b"filter: --show-from 'serve'" in content, "a comment of the filter")
    check(b"left out: 157 of 217 bytes live" in content, "no comment has the dropped figures")


def test_patterns(directory):
    """An invalid pattern is refused, with the position of the mistake; a warning names one that matches nothing."""
    path = write_stacks(directory)
    for option, text, place in (("--focus", "a(b", 4), ("--ignore", "ab[c", 5), ("--hide", "a{2,1}", 6),
                                ("--show-from", "(a)(b[", 7), ("--focus", "a\\", 3), ("--focus", "", None),
                                ("--focus", "(((.{1,200}){1,200}){1,200})x", "(30|1)")):  # by pcre2 10.47
        for verb in ([TOOL, "report"], [TOOL, "diff"], [TOOL, "leaks"], [TOOL, "explore"], [TRACECONV, "collapsed"],
                     [TRACECONV, "profile"], [TRACECONV, "speedscope"], [TRACECONV, "flamegraph"]):
            refused = run([*verb, option, text, path])
            check(refused.status == 2, f"{verb} {option} {text}: {refused.status}")
            said = re.escape(f"{option} '{text}': character ") + f"{place}: " if place else f"{option}: the pattern is empty"
            check(re.search(said, refused.stderr.decode()), f"{verb}: {refused.stderr}")
    nothing = ok(TOOL, "report", "--focus", "parse", "--ignore", "nowhere", path)
    check(b"--ignore 'nowhere' matches no frame" in nothing.stdout, nothing.stdout)
    check(b"--focus" not in nothing.stdout.split(b"warning")[1], nothing.stdout)
    refused = run([TOOL, "report", "--rss", "--focus", "parse", path])
    check(refused.status == 2 and b"--rss" in refused.stderr, f"--rss: {refused.stderr}")


def test_costly(directory):
    """A pattern that takes too many steps on a name ends with the reason, as wrong usage, in little memory."""
    path = write_stacks(directory, {"main;" + "a" * 30000: 7})
    for verb in ([TOOL, "report"], [TOOL, "diff"], [TOOL, "leaks"], [TRACECONV, "collapsed"], [TRACECONV, "profile"],
                 [TRACECONV, "speedscope"], [TRACECONV, "flamegraph"]):
        paths = [path, path] if verb[1] == "diff" else [path]
        limits = [] if SANITIZED else ["prlimit", f"--as={1 << 30}"]
        refused = run([*limits, *verb, "--hide", "(a+)+[bc]", *paths])
        check(refused.status == 2, f"{verb}: {refused.status} {refused.stderr}")
        check(b"--hide '(a+)+[bc]': it takes too many steps to match" in refused.stderr, f"{verb}: {refused.stderr}")
        check(refused.stdout == b"", f"{verb}: {refused.stdout[:100]}")


def test_explore(directory):
    """The screen shows the kept stacks and the dropped figures."""
    terminal = Terminal([TOOL, "explore", "--focus", "serve", write_stacks(directory)], columns=150)
    check(terminal.wait(lambda screen: any(" main" in line for line in screen.text()), 10), terminal.screen.text())
    text = "\n".join(terminal.screen.text())
    check("--focus 'serve' leaves out 157 B of 217 B (72.4 %) live" in text and "60 B" in text, text)
    check("other" not in text, text)
    terminal.send("q")
    terminal.process.wait(10)


def test_programs(directory):
    """Real stacks: kept and dropped ones add up to the whole; names match, and addresses without one."""
    need("sqlite3")
    if b"libsqlite3" not in run(["ldd", shutil.which("sqlite3")]).stdout:
        skip("sqlite3 is not linked to libsqlite3, whose functions have names")
    script = "create table t(a,b); insert into t select value, hex(value) from generate_series(1,3000);" \
             "select sum(length(b)) from t group by a % 7 order by 1;"
    kept = os.path.join(directory, "kept")
    profile(["sqlite3", ":memory:", script], interval=512, options=("-o", kept), keep=kept)
    whole = json.loads(ok(TOOL, "report", "--json", kept).stdout)["heaps"][0]
    stacks = [[f["name"] for f in site["frames"]] for site in whole["callsites"]]
    sizes = [site["alloc_space"]["estimate"] for site in whole["callsites"]]
    nameless = next(label_of(f) for site in whole["callsites"] for f in site["frames"] if f["name"] == "")
    for pattern in ("sqlite3_step", "libsqlite3", "main", f"^{nameless}$".replace(".", "\\.")):
        part = json.loads(ok(TOOL, "report", "--json", "--focus", pattern, kept).stdout)["heaps"][0]
        wanted = sum(size for site, size in zip(whole["callsites"], sizes)
                     if any(re.search(pattern, text) for f in site["frames"]
                            for text in (label_of(f), f["mapping"], f.get("file", ""))))
        shown = sum(site["alloc_space"]["estimate"] for site in part["callsites"])
        check(abs(shown - wanted) < 1e-6 * max(wanted, 1) and wanted > 0, f"{pattern}: {shown} is not {wanted}")
        left = part["left_out"]["alloc_space"]["estimate"]
        check(abs(shown + left - sum(sizes)) < 1e-6 * sum(sizes), f"{pattern}: {shown} + {left} of {sum(sizes)}")
        same({key: round(part["total"][key]["estimate"], 3) for key in ("space", "objects", "alloc_space", "max")},
             {key: round(whole["total"][key]["estimate"], 3) for key in ("space", "objects", "alloc_space", "max")},
             f"{pattern}: the heap's figures")
    inner = json.loads(ok(TOOL, "report", "--json", "--show-from", "^sqlite3_step$", kept).stdout)["heaps"][0]
    check(inner["callsites"] and all(site["frames"][-1]["name"] == "sqlite3_step" for site in inner["callsites"]),
          "stacks begin at sqlite3_step")
    check(any("sqlite3_step" in names and names[-1] != "sqlite3_step" for names in stacks), "which has callers")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made_directory:
        harness.main(made_directory)
