#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Programs with the preload library that restrict their own system calls (seccomp): an unexpected call would
kill them.

    restricted.py CASE
"""

import os
import re
import tempfile

import as_service
import harness
from attach import DENIED_ARGUMENTS, NEEDED_CALLS, OWN_CALLS, deny_line, remark_of
from daemon import Commanded, Session, figure, report_of, scene
from harness import check, program

# The system calls of the program and its allocator themselves, on x86-64.
ALLOCATOR_CALLS = {"mmap": 9, "munmap": 11, "rt_sigreturn": 15}
FORK_CALLS = {"clone": 56, "wait4": 61, "set_robust_list": 273, "rseq": 334}
SOCKET_CALLS = {"socket": 41, "connect": 42, "sendto": 46, "getrandom": 318, "getppid": 110}
REMARK = "restricted its own system calls"


def numbers_of(*calls):
    return " ".join(str(number) for group in calls for number in group.values())


def permit_own(*more):
    return "permit kill " + numbers_of(OWN_CALLS, ALLOCATOR_CALLS, *more)


def forbid_ours():
    own = {**OWN_CALLS, **ALLOCATOR_CALLS}
    ours = {**NEEDED_CALLS, **SOCKET_CALLS}
    return "forbid kill " + numbers_of({n: c for n, c in ours.items() if n not in own})


def check_lines(what, lines, remarks, holds, options=(), wrapper=()):
    """Run the program with these commands, bare and profiled: every command is answered, and the profile has
    the memory that it holds."""
    lines = ["churn 1 100", *lines]  # malloc's initialization makes more calls
    stdin = "".join(line + "\n" for line in lines).encode()
    command = [*wrapper, program("commanded")]
    bare = harness.run(command, stdin)
    check(bare.status == 0 and bare.stdout == b"ok\n" * len(lines), f"{what} bare: {bare.status}")
    for interval in (1, 4096):
        with tempfile.TemporaryDirectory() as directory:
            output = os.path.join(directory, "profile")
            ours = harness.run(harness.host_command(command, output, interval, *options), stdin)
            ours.check_same(bare, f"{what} at {interval}")
            report = report_of(output)
            heap = max(report["heaps"], key=lambda heap: heap["exact_bytes"])  # forked children hold less
            check(
                (REMARK in heap["remark"]) == remarks, f"{what} at {interval}: {heap['remark']!r}"
            )
            for name, truth in holds.items():
                found = figure(heap, "hold_block", name)
                close = found == truth if interval == 1 else abs(found - truth) < 0.1 * truth
                check(close, f"{what} at {interval}: {name} is {found}, truth {truth}")
            check(heap["unwinding_errors"] == 0, f"{what} at {interval}: whole stacks")


WORK = [
    "hold 50000 100", "churn 500 100000", "drop", "hold 50000 3000", "churn 100 1000000",
    "churn 50000 100",
]
HELD = {"space": 150_000_000, "objects": 50000, "alloc_objects": 100_000}


def test_by_prctl():
    check_lines("by prctl", [forbid_ours(), *WORK], True, HELD)


def test_by_syscall():
    check_lines("by syscall", [permit_own(), *WORK], True, HELD)


def test_small_ring():
    """The client waits for a full ring without sleeping."""
    check_lines("in a small ring", [permit_own(), *WORK], True, HELD, ["--shmem-size", "65536"])


def test_refused_by_the_kernel():
    """A process that only asks about filters, or whose filter is refused, is not treated as restricted."""
    check_lines("refused", ["probe", *WORK, "fork"], False, HELD, ["--follow-children"])


def test_harmless_filter():
    """A filter that allows all our calls changes nothing: the client goes on making them."""
    lines = ["forbid kill 101", "deny 28 2 99", *WORK]  # ptrace; madvise with unknown advice
    check_lines("harmless", lines, False, HELD)


def test_denied_arguments():
    """A filter that kills for an argument of a call of ours ends them all, but if it is one that copies memory."""
    for name in DENIED_ARGUMENTS:
        check_lines(name, [deny_line(name), *WORK], "barrier" not in name, HELD)


def test_dispatched_calls():
    """A program that handles its system calls itself (Syscall User Dispatch) gets none of ours."""
    probe = harness.run([program("commanded")], b"dispatch\n")
    if probe.status == 77:
        harness.skip("this kernel has no Syscall User Dispatch")
    check_lines("dispatched", ["dispatch", *WORK], True, HELD)


def test_call_sites():
    """All system calls are made from the table that filters are checked with, and each row of it is used."""
    rows = set()
    used = set()
    source = os.path.join(harness.ROOT, "src")
    with open(os.path.join(source, "wire", "client_calls.h"), encoding="utf-8") as header:
        rows = set(re.findall(r"ROW\((\w+),", header.read())) - {"name"}
    for directory, _, names in (*os.walk(os.path.join(source, "client")), *os.walk(os.path.join(source, "recorder", "attach"))):
        for name in names:
            path = os.path.relpath(os.path.join(directory, name), source)
            if not name.endswith((".c", ".h", ".S")):
                continue
            with open(os.path.join(source, path), encoding="utf-8") as file:
                text = re.sub(r"/\*.*?\*/", "", file.read(), flags=re.S)
            used |= set(re.findall(r"\bCALL_(\w+)", text))
            if not path.startswith("client"):
                continue
            is_bottom = name == "syscall.h" or path == "client/system.h"
            check(is_bottom or "arch_system_call" not in text, f"{path}: a call without the table")
            check(is_bottom or not re.search(r'__asm__[^;]*"(syscall|svc)|^\s+(syscall|svc)\s', text, re.M),
                  f"{path}: an instruction of its own")
            check(not re.search(r"(?<![\w.])syscall\(", text), f"{path}: libc's syscall()")
    used.add("RETURN_FROM_SIGNAL")  # made by the program's own code, to which the attacher's frame returns
    check(rows and not rows - used, f"rows that no call uses: {sorted(rows - used)}")


def test_forks():
    """A forked child of a restricted process sends no hello."""
    lines = [permit_own(FORK_CALLS), "fork", *WORK, "fork"]
    check_lines("forks", lines, True, HELD, ["--follow-children"])


def test_dormant():
    """A restricted dormant process is not invited to a session."""
    with scene() as (daemon, directory):
        process = Commanded(daemon.environment)
        process.tell(permit_own())
        process.tell("hold 1000 1000")
        session = Session(daemon, os.path.join(directory, "o"), "-p", str(process.pid))
        process.wake()
        check(session.end() == 3, f"an empty profile: {session.stderr}")
        remark = remark_of(session.report(), process.pid)
        check("seccomp" in remark, repr(remark))
        process.wake()
        check(process.end() == 0, "the program failed")


def heap_of_program(report, name):
    """Return the program's own heap, not that of the wrapper before its exec."""
    found = [(heap["name"], heap["heap"]) for heap in report["heaps"]]
    if not check((name, "libc.malloc") in found, f"{name} has no heap: {found}, {report['unprofiled']}"):
        raise SystemExit(1)
    return report["heaps"][found.index((name, "libc.malloc"))]


def test_from_the_start():
    """A program that begins under a filter which kills, as a service with SystemCallFilter=@system-service does,
    is profiled, also on stacks that are not its threads' own, and in libraries at the same address."""
    harness.need("systemd-analyze")
    if harness.SANITIZED:
        harness.skip("sanitizers make system calls that the filter kills for")
    wrapper = as_service.filtered()
    # The wrapper is a Python program, whose own objects are not what this is about.
    options = ["--exclude-heaps", "python.object"]
    check_lines("from the start", WORK, False, HELD, options, wrapper)
    plugins = {"plugin_a_allocate": 2000, "plugin_b_allocate": 2000}
    for name, arguments, calls in (("fibers", [], {"allocate_in_fiber": 6400}),
                                   ("signals_altstack", [], {"allocate_in_handler": 10000}),
                                   ("dlopen_reuse", [harness.PROGRAMS], plugins)):
        with tempfile.TemporaryDirectory() as directory:
            output = os.path.join(directory, "profile")
            outcome = harness.run(harness.host_command([*wrapper, program(name), *arguments], output, 1, *options))
            check(outcome.status == 0, f"{name}: {outcome.status}, {outcome.stderr!r}")
            heap = heap_of_program(report_of(output), name)
            for function, truth in calls.items():
                found = figure(heap, function, "alloc_objects")
                check(found == truth, f"{name}: {function}: {found}, truth {truth}")
            check(heap["unwinding_errors"] == 0, f"{name}: stacks are not whole")


def foreign_stacks_under(what, outer, inner, whole):
    """Profile a program whose walks lead to memory that another thread takes away, and deep into a fiber's stack.
    `outer` is the profiler's filter, `inner` the program's own."""
    with tempfile.TemporaryDirectory() as directory:
        output = os.path.join(directory, "profile")
        # The filters' wrappers are Python programs, with 30,000 callsites of objects.
        command = harness.host_command([*inner, program("foreign_stacks")], output, 1, "--exclude-heaps", "python.object")
        outcome = harness.run([*outer, *command])
        check(outcome.status == 0, f"{what}: {outcome.status}, {outcome.stderr!r}")
        heap = heap_of_program(report_of(output), "foreign_stacks")
    check(figure(heap, "allocate_without_frame", "alloc_objects") == 20000, f"{what}: frame pointer")
    check(figure(heap, "allocate_in_fiber", "alloc_objects") == 100, f"{what}: fiber")
    unreadable = [site for site in heap["callsites"] if site["frames"][-1]["name"] == "[unreadable stack]"]
    if whole:
        check(not unreadable, f"{what}: {unreadable[:1]}")
    else:
        check(heap["unwinding_errors"] == 20100, f"{what}: {heap['unwinding_errors']} errors")
        check(len(unreadable) == 1 and len(unreadable[0]["frames"]) > 10, f"{what}: {unreadable}")


def test_foreign_stacks():
    """Under a filter, memory that is not the thread's own is copied if that is known to be allowed, or not read."""
    allow = as_service.filtered([(as_service.RETURN, 0, 0, as_service.ALLOW)])
    kill = as_service.filtered(as_service.only("process_vm_readv", as_service.KILL))
    foreign_stacks_under("the profiler's harmless filter", allow, [], True)
    foreign_stacks_under("the profiler's deadly filter", kill, [], False)
    foreign_stacks_under("another filter of the program", [], allow, False)


if __name__ == "__main__":
    harness.limit_core_dumps()
    harness.main()
