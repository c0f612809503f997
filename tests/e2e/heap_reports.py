#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Programs' own heaps as heap_profile shows them: which are profiled, report sections, pprof files,
types, contexts, and callsites.

    heap_reports.py CASE
"""

import json
import os
import re
import subprocess
import time

from harness import TOOL, check, main, make_work_directory, need, program, run

WORK = make_work_directory("heap-reports-")
TEMPORARY = {"TMPDIR": WORK}

# Two heaps; 100 bytes of type Node outside of all scopes, then in scopes 200 of Node and 400 of
# Style, and 800 of malloc's. The program itself samples the heap "frames".
SCRIPT = """register pool
register frames
allocate 1 0 100 Node
push main loop
push parse
allocate 1 1 200 Node
allocate 1 18446744073709551615 400 Style
hold 8 100
pop 2
sample 2 0 5000
allocate 1 3 50 Node
free 1 3
"""


def at(name):
    return os.path.join(WORK, name)


def tool(*arguments, **options):
    return run([TOOL, *arguments], env=TEMPORARY, **options)


def profile(name, *options, script=SCRIPT):
    """Profile the program with these commands. Return {name: heap} as in the JSON."""
    outcome = tool("host", "--quiet", "-o", at(name), *options, "--", program("heap_commanded"),
                   stdin=script.encode())
    check(outcome.status == 0, f"{options}: {outcome.status}, {outcome.stderr!r}")
    return heaps_of(name)


def heaps_of(name, *options):
    outcome = tool("report", "--json", *options, at(name))
    return {heap["heap"]: heap for heap in json.loads(outcome.stdout)["heaps"]}


def text_of(name, *options):
    return tool("report", *options, at(name)).stdout.decode()


def stat_of(name, stat):
    """The value of a row of SQL's `stats`, for the trace's one process."""
    done = tool("query", "--csv", at(name), f"select value from stats where name = '{stat}'")
    return float(done.stdout.decode().split()[1])


def live(figures):
    return figures["space"]["estimate"]


def test_selected_heaps():
    """A session selects heaps by name, all heaps, or all but some; each has its interval."""
    for options, expected in (
        ((), {"libc.malloc": 1}),
        (("--heaps", "pool", "-i", "1"), {"pool": 1}),
        (("--heaps", "pool,libc.malloc", "--heap-intervals", "1,4k"), {"libc.malloc": 4096, "pool": 1}),
        (("--all-heaps", "-i", "1"), {"libc.malloc": 1, "pool": 1, "frames": 1}),
        (("--all-heaps", "-i", "1", "--exclude-heaps", "libc.malloc,frames"), {"pool": 1}),
        (("--all-heaps", "--heaps", "pool", "--heap-intervals", "1"),
         {"libc.malloc": 4096, "pool": 1, "frames": 4096}),
    ):
        name = "which" + re.sub(r"\W", "", "".join(options))
        heaps = profile(name, *options)
        got = {heap: figures["interval_bytes"] for heap, figures in heaps.items()}
        check(got == expected, f"{options}: {got}, not {expected}")
        files = sorted(file.split(".", 2)[2] for file in os.listdir(at(name)) if "pb.gz" in file)
        wanted = sorted(f"{heap}.final.pb.gz" for heap in expected)
        check(files == wanted, f"{options}: files {files}")


def test_missing_heaps():
    """A session reports requested heaps that the program does not have."""
    heaps = profile("nothing", "--heaps", "textures")
    check(list(heaps) == ["textures"], f"{list(heaps)}")
    remark = heaps["textures"]["remark"]
    check("Nothing was reported to textures:" in remark, remark)
    check("libc.malloc, was not requested" in remark and "--all-heaps" in remark, remark)
    heaps = profile("one_of_two", "--heaps", "pool,textures")
    check(list(heaps) == ["pool"], f"{list(heaps)}")
    remark = heaps["pool"]["remark"]
    check("Nothing was reported to textures:" in remark, remark)


def test_started_before_the_run_directory():
    """A program that started before the run directory existed is attached to, and the report says why its
    heaps are missing. A program that starts later joins by itself, also through a link to the directory."""
    os.mkdir(at("there"))
    os.symlink(at("there"), at("link"))
    environment = {**TEMPORARY, "HEAPPROFD_RUN_DIR": os.path.join(at("link"), "run")}

    def heaps_of_session(name, *wanted):
        process = subprocess.Popen(
            [program("heap_commanded")], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            env={**os.environ, **environment}, text=True,
        )

        def ask(line):
            process.stdin.write(line + "\n")
            process.stdin.flush()
            return process.stdout.readline()

        ask("register pool")
        session = subprocess.Popen(
            [TOOL, "-p", str(process.pid), *wanted, "-i", "1", "-o", at(name), "-d", "3000"],
            env={**os.environ, **environment}, stderr=subprocess.DEVNULL,
        )
        while session.poll() is None:
            ask("allocate 1 1 100")
            time.sleep(0.01)
        process.stdin.close()
        process.wait()
        process.stdout.close()
        return heaps_of(name)

    heaps = heaps_of_session("before", "--all-heaps")
    check(list(heaps) == ["libc.malloc"], f"{list(heaps)}")
    check("heapprofd prepare" in heaps["libc.malloc"]["remark"], heaps["libc.malloc"]["remark"])
    heaps = heaps_of_session("after", "--all-heaps")
    check("pool" in heaps, f"{list(heaps)}")
    outcome = tool("-p", str(os.getpid()), "--heaps", "libc.mmap", "-d", "100")
    text = outcome.stderr.decode()
    check(outcome.status == 1, f"ended with {outcome.status}: {text}")
    check(f"process {os.getpid()}" in text and "only malloc and CPython's objects are seen" in text, text)


def test_wrong_options():
    for options, said in (
        (("--heaps", ","), "a list of names is empty"),
        (("--heaps", "a,b", "--heap-intervals", "1"), "(--heap-intervals) are 1, heaps (--heaps) 2"),
        (("--heaps", "a", "--heap-intervals", "x"), "--heap-intervals takes bytes"),
        (("--heaps", "a", "--heap-intervals", "0"), "heap a is 0 bytes"),
        (("--heaps", "a", "--exclude-heaps", "a"), "no heap is left"),
        (("--heaps", "libc.mmap", "--heap-intervals", "4096"), "recorded in full"),
        (("--stack-mode", "pseudonym"), "not 'pseudonym'"),
    ):
        for verb in (("host",), ("-p", str(os.getpid()))):
            rest = ("--", "true") if verb == ("host",) else ("-d", "1")
            outcome = tool(*verb, *options, "-o", at("wrong"), *rest)
            text = outcome.stderr.decode()
            check(outcome.status == (125 if verb == ("host",) else 2) and said in text, f"{verb} {options}: {outcome.status} {text}")
    outcome = tool("report", "--by", "typ", at("wrong"))
    check(outcome.status == 2 and b"--by takes" in outcome.stderr, f"{outcome.stderr!r}")


def test_sections():
    """Each heap has its own heading, with exact totals if they are known."""
    heaps = profile("sections", "--all-heaps", "-i", "1")
    pool, frames = heaps["pool"], heaps["frames"]
    check((pool["exact_bytes"], pool["exact_calls"]) == (750, 4), f"{pool['exact_bytes']}")
    check(live(pool["total"]) == 700 and pool["peak_live_bytes"] == 750, f"{pool['total']}")
    check(live(frames["total"]) == 5000 and frames["exact_calls"] is None, f"{frames['total']}")
    check(frames["weighed_samples"] == 1 and pool["weighed_samples"] == 0, "drawn by the program")
    text = text_of("sections")
    heads = re.findall(r"^  process .* heap (\S+)", text, re.M)
    check(sorted(heads) == ["frames", "libc.malloc", "pool"], f"{heads}")
    check("750 B in 4 calls, exact" in text, text)
    check("5.00 kB as reported in 1 allocations" in text, text)
    check("1, drawn by the program" in text, text)
    dump = at("sections.json")
    done = tool("memory_infra", at("sections"), dump)
    check(done.status == 0, f"{done.stderr!r}")
    again = {heap["heap"]: heap for heap in json.loads(tool("report", "--json", dump).stdout)["heaps"]}
    check(again["frames"]["weighed_samples"] == 1 and again["pool"]["weighed_samples"] == 0, "in a memory dump")
    check("5.00 kB as reported" in tool("report", dump).stdout.decode(), "in a memory dump's report")
    only = text_of("sections", "--heap", "pool")
    check(re.findall(r"heap (\S+)\n", only) == ["pool"], only)


def test_file_names():
    """Heap names that are not valid file names are replaced; every heap has a file."""
    profile("files", "--all-heaps", "-i", "1", "--exclude-heaps", "libc.malloc",
            script="register a/b\nregister a_b\nregister a_b\n"
                   "allocate 1 1 10\nallocate 2 1 20\nallocate 3 1 30\n")
    files = [file.split(".", 2)[2] for file in os.listdir(at("files")) if "pb.gz" in file]
    check(sorted(files) == ["a_b-2.final.pb.gz", "a_b.final.pb.gz", "a_b.final.pb.gz"], f"{files}")


def groups(name, heap, by):
    return {
        group.get("type", group.get("context")): group
        for group in heaps_of(name, "--by", by)[heap]["groups"]
    }


def test_types_and_contexts():
    heaps = profile("by", "--all-heaps", "-i", "1")
    total = live(heaps["pool"]["total"])
    types = groups("by", "pool", "type")
    check({name: live(group) for name, group in types.items()} == {"Node": 300, "Style": 400},
          f"{types}")
    check(types["Node"]["max"]["estimate"] == 350, "Node at the peak")
    contexts = groups("by", "pool", "context")
    check({name: live(group) for name, group in contexts.items()} ==
          {"": 100, "main loop;parse": 600}, f"{contexts}")
    check(live(groups("by", "libc.malloc", "context")["main loop;parse"]) == 800, "malloc's")
    for by in ("type,context", "context,type", "type,backtrace", "context,backtrace",
               "backtrace,type", "backtrace,context"):
        parts = heaps_of("by", "--by", by)["pool"]["groups"]
        check(sum(live(group) for group in parts) == total, f"{by}: sum of groups")
        for group in parts:
            inner = sum(live(part) for part in group["groups"])
            check(inner == live(group), f"{by}: {inner} of {live(group)}")
    nodes = groups("by", "pool", "type,backtrace")["Node"]["groups"]
    check(any(frame["name"] == "main" for frame in nodes[0]["frames"]), f"{nodes[0]['frames']}")
    text = text_of("by", "--by", "context,type", "--heap", "pool")
    rows = re.findall(r"% exact .* B  (.*)$", text, re.M)
    check(rows == ["main loop;parse", "  Style", "  Node", "[no context]", "  Node"], f"{rows}")


def test_pprof_labels():
    need("go")
    profile("labels", "--all-heaps", "-i", "1")
    files = [file for file in os.listdir(at("labels")) if ".pool." in file]
    raw = subprocess.run(["go", "tool", "pprof", "-raw", at("labels/" + files[0])],
                         capture_output=True, text=True, check=True).stdout
    check("context:[main loop;parse]" in raw and "type:[Style]" in raw, raw[:2000])
    tags = subprocess.run(["go", "tool", "pprof", "-tags", at("labels/" + files[0])],
                          capture_output=True, text=True, check=True).stdout
    check(re.search(r"400\.0B.*Style|400B.*Style", tags), tags)


def stacks(name):
    """Return the names of the frames of each callsite in the heap "pool", the outermost first."""
    return {
        tuple(frame["name"] for frame in reversed(callsite["frames"])): live(callsite)
        for callsite in heaps_of(name)["pool"]["callsites"]
    }


def test_stack_modes():
    options = ("--heaps", "pool", "-i", "1", "--stack-mode")
    profile("native", *options, "native")
    native = stacks("native")
    check(all("main loop" not in stack for stack in native), f"{native}")
    profile("threads", *options, "native-with-thread-names")
    expected = {("heap_commanded", *stack): bytes_ for stack, bytes_ in native.items()}
    check(stacks("threads") == expected, f"{stacks('threads')}")
    profile("pseudo", *options, "pseudo")
    check(stacks("pseudo") == {("[no context]",): 100, ("main loop", "parse"): 600},
          f"{stacks('pseudo')}")
    profile("mixed", *options, "mixed")
    mixed = stacks("mixed")
    inside = {stack: live for stack, live in mixed.items() if stack[:2] == ("main loop", "parse")}
    check(sum(inside.values()) == 600 and all("main" in stack for stack in inside), f"{mixed}")
    check(sum(mixed.values()) == 700, f"{mixed}")
    mappings = {
        frame["mapping"] for callsite in heaps_of("pseudo")["pool"]["callsites"]
        for frame in callsite["frames"]
    }
    check(mappings == {""}, f"names have mappings: {mappings}")


def test_print_config():
    """--print-config prints all options of the session."""
    options = ("--heaps", "pool,libc.mmap", "--heap-intervals", "5,1", "--exclude-heaps", "frames",
               "--all-heaps", "--stack-mode", "mixed")
    printed = tool("host", *options, "--print-config").stdout.decode()
    for field in ('heaps: "pool"', 'heaps: "libc.mmap"', "heap_sampling_intervals: 5",
                  "heap_sampling_intervals: 1", 'exclude_heaps: "frames"', "all_heaps: true",
                  "# heapprofd: stack_mode: MIXED"):
        check(f"      {field}\n" in printed, f"no {field} in {printed}")
    again = tool("-n", "x", *options, "--print-config").stdout.decode()
    check("stack_mode: MIXED" in again and "heap_sampling_intervals: 5" in again, again)


def test_many_heaps():
    """host's output at its end stays short; the report has all heaps."""
    script = "".join(f"register heap{i}\n" for i in range(1, 31))
    script += "".join(f"allocate {i} 1 {1000 * i}\n" for i in range(1, 31))
    outcome = tool("host", "-o", at("many"), "--all-heaps", "-i", "1", "--",
                   program("heap_commanded"), stdin=script.encode())
    shown = re.findall(r"^  process .* heap (\w+)", outcome.stderr.decode(), re.M)
    check(sorted(shown) == [f"heap{i}" for i in range(23, 31)], f"{shown}")
    check(b"\n23 more heaps" in outcome.stderr, outcome.stderr[-500:])
    check(text_of("many").count("  process ") == 31, "the report has all")


def test_many_types():
    """Types beyond the client's limit are counted together."""
    heaps = profile("types", "--heaps", "pool", "-i", "1",
                    script="register pool\ntypes 1 100000 16\n")
    heap = heaps["pool"]
    check(heap["exact_calls"] == 100000, f"{heap['exact_calls']}")
    types = groups("types", "pool", "type")
    others = types["[other types]"]["alloc_objects"]["estimate"]
    check(len(types) <= 65536 and others == 100000 - len(types) + 1, f"{len(types)}, {others}")
    check(heap["other_types"] == others, f"{heap['other_types']}")
    check("samples, of types beyond the" in text_of("types"), "the heading does not say so")
    check(stat_of("types", "hp_other_types") == others, "SQL counts others")


if __name__ == "__main__":
    main()
