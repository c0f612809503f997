#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The client on aarch64, under qemu-user: the profile of this machine's tools equals what the programs count.

    aarch64.py CASE

scripts/build build-aarch64 builds the client. The programs of Debian are in sysroot-aarch64/
(scripts/sysroot sysroot-aarch64 jq sqlite3). Return addresses are signed in the programs that say so: qemu's
processor has pointer authentication.
"""

import json
import os
import re
import subprocess

import harness
import real_programs
from harness import ROOT, check, need, skip
from robust import check_truth
from unwind_cross_check import read_results, report

CLIENT = os.path.join(ROOT, "build-aarch64", "libheapprofd_preload.so")
SYSROOT = os.path.join(ROOT, "sysroot-aarch64")
CHECK = os.path.join(ROOT, "tests", "unwind-check")
CROSS_ROOT = "/usr/aarch64-linux-gnu"  # the compiler's own C library
SIGNED = ["-mbranch-protection=pac-ret+leaf+bti", "-fomit-frame-pointer"]


def compile_c(work, name, *arguments):
    path = os.path.join(work, name)
    subprocess.run(
        ["aarch64-linux-gnu-gcc", "-std=gnu17", "-D_GNU_SOURCE", "-g", "-pthread", "-o", path, *arguments], check=True
    )
    return path


def compile_program(work, name, options):
    source = os.path.join(ROOT, "tests", "programs", name + ".c")
    return compile_c(work, name, "-O2", "-fno-builtin", "-fno-optimize-sibling-calls", *options, source)


def emulated(*command, root=CROSS_ROOT, variables=()):
    options = [word for variable in variables for word in ("-E", variable)]
    return ["qemu-aarch64", "-cpu", "max", "-L", root, *options, *command]


def need_client():
    need("aarch64-linux-gnu-gcc", "qemu-aarch64")
    if not os.path.exists(CLIENT):
        skip("scripts/build build-aarch64 has not built the client")
    os.environ["HEAPPROFD_PRELOAD"] = CLIENT


def each_kind():
    """Yield the name, the compiler's options and a directory for each way to compile."""
    for kind, options in (("plain", []), ("signed", SIGNED)):
        yield kind, options, harness.make_work_directory("test-aarch64-")


def test_exact():
    """Every callsite to the byte and to the call, in four threads."""
    need_client()
    for kind, options, work in each_kind():
        program = compile_program(work, "ground_truth", options)
        output, truth_path = os.path.join(work, "profile"), os.path.join(work, "truth.json")
        command = harness.host_command(emulated(program, truth_path, "4", "5"), output, 1)
        outcome = harness.run(command)
        check(outcome.status == 0, f"{kind}: status {outcome.status} {outcome.stderr[-300:]}")
        found, heap = harness.read_report(output)
        with open(truth_path) as file:
            truth = json.load(file)
        for site in truth:
            for figure in ("alloc_space", "alloc_objects", "space", "objects"):
                value = found.get(site["function"], harness.Reported()).value(figure)
                check(value == site[figure], f"{kind}: {site['function']} {figure} {value}, truth {site[figure]}")
        check(heap["unwinding_errors"] == 0, f"{kind}: {heap['unwinding_errors']} unwinding errors")
        print(f"{kind}: {len(truth)} callsites exact")


def test_signals():
    """Handlers that interrupt code which has saved nothing, and handlers on stacks of their own."""
    need_client()
    for kind, options, work in each_kind():
        for name in ("interrupted_leaf", "signals_altstack"):
            program = compile_program(work, name, options)
            outcome, profile = harness.profile(emulated(program))
            what = f"{name} {kind}"
            check(outcome.status == 0, f"{what}: status {outcome.status} {outcome.stderr[-300:]}")
            if not check(profile is not None, f"{what}: no profile"):
                continue
            check_truth(profile, outcome.stdout, what)
            check(profile.lost() == {} and profile.unwinding_errors() == 0, f"{what}: {profile.lost()}")
            if name == "interrupted_leaf":
                check_interrupted(profile, what)


def check_interrupted(profile, what):
    """Each handler's stack has the interrupted function, then the function that called it."""
    process, leaves = profile.process(), 0
    for stack, figures in process.stacks.items():
        names = [frame.name for frame in profile.trace.callstacks[stack]]
        if "allocate_in_handler" not in names:
            continue
        check(names[-1] in ("_start", "__libc_start_main") or "main" in names, f"{what}: {names}")
        if "spin_in_leaf" in names:
            at = names.index("spin_in_leaf")
            check(names[at + 1 : at + 3] == ["call_leaf", "main"], f"{what}: {names}")
            leaves += figures.alloc_objects
    check(leaves >= 100, f"{what}: only {leaves} of 200 signals interrupted the leaf")


def test_real():
    """Programs of Debian arm64: the same output, and stacks that reach the start."""
    need_client()
    if not os.path.exists(os.path.join(SYSROOT, "usr", "bin", "jq")):
        skip("scripts/sysroot sysroot-aarch64 jq sqlite3 has not unpacked the programs")
    rows = json.dumps([{"id": i, "city": f"city{i % 50}", "amount": i / 7} for i in range(1000)]).encode()
    query = b"""create table t(a integer primary key, b text);
        with recursive n(i) as (select 1 union all select i + 1 from n where i < 1000)
            insert into t select i, 'text ' || (i * 7919 % 100) from n;
        select b, count(*) from t group by b order by 2 desc, 1 limit 20;"""
    for arguments, stdin in ((["jq", "group_by(.city) | map(length)"], rows), (["sqlite3", ":memory:"], query)):
        command = emulated(os.path.join(SYSROOT, "usr", "bin", arguments[0]), *arguments[1:], root=SYSROOT)
        bare = harness.run(command, stdin=stdin)
        check(bare.status == 0, f"{arguments[0]} fails without us: {bare.stderr[-300:]}")
        ours, profile = harness.profile(command, 1, stdin=stdin)
        # qemu's own loader says that it ignores a library for another processor.
        ours.check_same(bare, arguments[0], stderr=False)
        real_programs.judge_profile(profile, arguments[0])


def test_unwinder():
    """The unwinder's stacks equal those of gcc's unwinder, which knows signed return addresses."""
    need("aarch64-linux-gnu-gcc", "qemu-aarch64")
    work = harness.make_work_directory("test-aarch64-")
    results = os.path.join(work, "results")
    os.mkdir(results)
    with open(os.path.join(CHECK, "meson.build")) as file:
        sources = [os.path.join(CHECK, name) for name in re.findall(r"'(\.\./\S+\.c)'", file.read())]
    library = compile_c(
        work, "libunwind_check.so", "-O2", "-shared", "-fPIC", "-fvisibility=hidden", "-ftls-model=initial-exec",
        "-I" + os.path.join(ROOT, "src"), os.path.join(CHECK, "unwind_check.c"), *sources,
    )
    variables = [f"LD_PRELOAD={library}", f"UNWIND_CHECK_DIR={results}", "UNWIND_CHECK_LIBGCC=1", "UNWIND_CHECK_EVERY=1"]
    for kind, options, _ in each_kind():
        for name, arguments in (("interrupted_leaf", []), ("ground_truth", ["/dev/null", "2", "1"])):
            program = compile_program(work, name, options)
            outcome = harness.run(emulated(program, *arguments, variables=variables))
            check(outcome.status == 0, f"{name} {kind}: status {outcome.status} {outcome.stderr[-300:]}")
    sums, texts = read_results(results)
    report(sums, texts)
    stacks = sum(words[0] for words in sums.values())
    identical = sum(words[1] for words in sums.values())
    check(stacks > 2000 and identical == stacks, f"{identical} of {stacks} stacks are the same")


if __name__ == "__main__":
    harness.main()
