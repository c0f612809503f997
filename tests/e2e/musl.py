#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Programs on musl, dynamic and static, under host and attached to: exact at interval 1, with unchanged output.

    musl.py CASE
"""

import json
import os
import re
import tempfile

import as_service
import harness
import robust
from attach import Other, attached
from daemon import Session, check_figure, heap_of, scene
from harness import ROOT, check, need, run

SOURCES = os.path.join(ROOT, "tests", "programs")


def build(directory, name, *options, source=None):
    """Build one of the test programs on musl. Return its path."""
    path = os.path.join(directory, name)
    # musl-tools has no headers of the kernel. Those of glibc's package come after all of musl's.
    headers = ["-idirafter", "/usr/include", "-idirafter", "/usr/include/x86_64-linux-gnu"]
    built = run(["musl-gcc", "-std=gnu17", "-D_GNU_SOURCE", "-O2", "-g", *headers, "-o", path,
                 os.path.join(SOURCES, source or name + ".c"), *options])
    if built.status != 0:
        raise RuntimeError(f"{name}: {built.stderr.decode()}")
    return path


def start():
    """Return a directory for programs, or skip the test."""
    need("musl-gcc")
    return harness.make_work_directory("musl-")


def preloaded(*names):
    """Return a test of programs that print their own true figures."""
    def test():
        directory = start()
        for name in names:
            robust.check_program(build(directory, name))
    return test


def test_static():
    """The profiler enters a static program under host before its first allocation."""
    directory = start()
    for name in ("musl_functions", "small_stacks", "signals_altstack"):
        robust.check_program(build(directory, name, "-static"))


test_functions = preloaded("musl_functions")
test_threads = preloaded("small_stacks", "signals_altstack")
test_jumps = preloaded("longjmp", "close_all")


def test_libraries():
    """Libraries that are loaded later are profiled, too."""
    directory = start()
    for letter in "ab":
        build(directory, f"libplugin_{letter}.so", "-shared", "-fPIC", f"-DPLUGIN_ALLOCATE=plugin_{letter}_allocate", source="plugin.c")
    robust.check_program(build(directory, "dlopen_reuse"), directory)


def test_children():
    """Forked children and programs after an exec have profiles of their own."""
    path = build(start(), "children")
    robust.check_program(path)
    ours, profile = harness.same_with_and_without([path], 1, ["--follow-children"])
    counts = [round(process.allocated_by("allocate_in_child").alloc_objects) for process in profile.processes]
    check(ours.status == 0 and counts.count(100) == 40, f"40 children with 100 calls each: {counts}")


def test_mixed():
    """Programs on glibc and on musl start each other, with one library in LD_PRELOAD."""
    directory = start()
    ours = build(directory, "longjmp")
    theirs = harness.program("longjmp")
    script = f"{ours}; {theirs}; env {ours}; exec {ours}"
    outcome, profile = harness.same_with_and_without(["sh", "-c", script], 1, ["--follow-children"])
    check(outcome.stderr == b"", f"the loaders are silent: {outcome.stderr}")
    wanted = {name.decode(): (int(size), int(calls)) for name, size, calls in re.findall(rb"^truth: (\S+) (\d+) (\d+)$", outcome.stdout, re.M)}
    for name, truth in wanted.items():
        found = [process.allocated_by(name) for process in profile.processes]
        found = [(round(f.alloc_space), round(f.alloc_objects)) for f in found if f.alloc_objects]
        check(found == [truth] * 4, f"{name}: {found}, not 4 times {truth}")


def test_stack():
    """A sample takes less than 3 KiB of stack, and one in a signal handler no more than the signal's frame besides."""
    path = build(start(), "stack_use")
    bare = run([path, "0", "verbose"])
    used = {what: int(number) for what, number in re.findall(r"^(.*): (\d+) bytes$", run([path, "65536", "verbose"]).stdout.decode(), re.M)}
    check(bare.status != 0 and used, f"the program measures: {used}")
    frame = used.get("a signal", 0)
    for interval in (1, 4096):
        ours, _ = harness.profile([path, str(frame + 3072), "verbose"], interval, ["--follow-children"])
        now = {what: int(number) for what, number in re.findall(r"^(.*): (\d+) bytes$", ours.stdout.decode(), re.M)}
        print(interval, now)
        check(now.keys() == used.keys(), f"at {interval}: {ours.stdout} {ours.stderr}")
        for what, number in now.items():
            check(number < 3072 + (frame if what == "a signal" else 0), f"{what} at {interval}: {number} bytes, bare {used.get(what)}")


def test_complete_stacks():
    """Stacks lead through musl's functions, which have no unwind information, to main and to a thread's first function.
    They do so under a filter from before the start, too, as a container has."""
    directory = start()
    filtered = as_service.filtered([(as_service.RETURN, 0, 0, as_service.ALLOW)])
    for name, wrapper in (("signals_altstack", []), ("musl_functions", []), ("musl_functions", filtered)):
        output = tempfile.mkdtemp(dir=directory)
        run([*wrapper, *harness.host_command([build(directory, name)], output, 1)])
        profile = harness.read_profile(output)
        check(profile.unwinding_errors() == 0, f"{name}: {profile.unwinding_errors()} incomplete stacks")
        process = profile.process()
        for stack in process.stacks:
            names = [frame.name for frame in process.trace.callstacks[stack]]
            check("main" in names or "run" in names, f"{name}: {names}")


def test_old_version():
    """With a musl whose realloc calls hooked functions there is no profile, and the program runs as before."""
    directory = start()
    with open("/lib/ld-musl-x86_64.so.1", "rb") as file:
        content = file.read()
    loader = os.path.join(directory, "ld-musl-old.so.1")
    with open(loader, "wb") as file:
        file.write(content.replace(b"\0reallocarray\0", b"\0unknownarray\0"))
    os.chmod(loader, 0o755)
    path = build(directory, "longjmp", f"-Wl,--dynamic-linker={loader}")
    ours, profile = harness.same_with_and_without([path], 1)
    remark = profile.process().process.remark
    check(ours.status == 0 and "did not report" in remark, f"status {ours.status}, {remark}")


def test_attached():
    """Dynamic and static programs on musl are attached to; their figures are exact."""
    directory = start()
    for kind, options in (("dynamic", []), ("static", ["-static"])):
        path = build(directory, kind, *options, source="commanded.c")
        with scene() as (daemon, work):
            process = Other(path, "hold 1 1")
            session = Session(daemon, os.path.join(work, "o"), "-p", str(process.pid), "--no-symbols")
            attached(daemon, process)
            process.tell("hold 1000 100")
            process.tell("churn 5000 64")
            check(session.end() == 0, session.stderr)
            heap = heap_of(session.report(), process.pid)
            check_figure(heap, "hold_block", "space", 100000)
            check_figure(heap, "churn_block", "alloc_space", 320000)
            check_figure(heap, "churn_block", "space", 0)
            check((heap["exact_bytes"], heap["exact_calls"]) == (420000, 6000), f"{kind}: exact totals: {heap}")
            check(heap["unwinding_errors"] == 0 and heap["unwind_gaps"] == [], f"{kind}: incomplete stacks: {heap['unwind_gaps']}")
            check(process.end() == 0, f"{kind}: the program failed")


if __name__ == "__main__":
    harness.limit_core_dumps()
    harness.main()
