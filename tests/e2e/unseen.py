#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Programs whose allocations the preloaded library sees late, or not at all: unseen.py CASE"""

import ctypes
import json
import os
import shutil
import struct
import tempfile

import harness
from harness import ROOT, TOOL, check, run

LEAKED = 1000  # blocks of 200 bytes
LEAKED_BYTES = 200 * LEAKED


def build(directory, name, *arguments, compiler="gcc", source="added_leak.c"):
    """Build a program of tests/programs in another way. Return None if it cannot be built, or does not run."""
    path = os.path.join(directory, name)
    source = os.path.join(ROOT, "tests", "programs", source)
    if shutil.which(compiler) is None:
        return None
    # Hide that the blocks are unused, or the compiler would remove them.
    done = run([compiler, "-g", "-O1", "-fno-builtin", "-o", path, source, *arguments])
    if done.status != 0 or run([path, "10"]).status is None:
        return None
    return path


def report(directory):
    done = run([TOOL, "report", "--json", directory])
    check(done.status == 0, f"report: {done.status}, {done.stderr[-300:]!r}")
    return json.loads(done.stdout)


def leaked(heap):
    """Return the bytes that the_leak holds at the end."""
    return sum(
        callsite["space"]["estimate"]
        for callsite in heap["callsites"]
        if any(frame["name"] == "the_leak" for frame in callsite["frames"])
    )


def heap_of(found, name):
    (heap,) = [heap for heap in found["heaps"] if heap["name"] == name] or [None]
    return heap


def test_sanitizers(directory):
    """Programs with sanitizers are reported, with a shared runtime (gcc) and one in the executable (clang): as the
    command, as its children, and in a shell."""
    # The program's deliberate leak does not matter here.
    os.environ["ASAN_OPTIONS"] = os.environ["LSAN_OPTIONS"] = "detect_leaks=0"
    tried = 0
    for compiler, sanitizer in [
        ("gcc", "address"), ("gcc", "thread"), ("gcc", "leak"), ("gcc", "undefined"),
        ("clang", "address"), ("clang", "thread"), ("clang", "memory"),
    ]:
        name = f"{compiler}_{sanitizer}"
        path = build(directory, name, f"-fsanitize={sanitizer}", compiler=compiler)
        if path is None or run([path, "10"]).status != 0:
            continue
        tried += 1
        bare = run([path, str(LEAKED)])
        for command in [path, str(LEAKED)], ["/bin/sh", "-c", f"{path} {LEAKED}; exit $?"]:
            output = tempfile.mkdtemp(dir=directory)
            done = run(harness.host_command(command, output, 1, "--follow-children"))
            done.check_same(bare, f"{name}: {command[0]}")
            heap = heap_of(report(output), name)
            if check(heap is not None, f"{name}: {command[0]}: it is not in the profile"):
                check(leaked(heap) == LEAKED_BYTES, f"{name}: {command[0]}: the_leak has {leaked(heap)} bytes")
        done = run([TOOL, "shell", "--", path, str(LEAKED)], env={"HEAPPROFD_RUN_DIR": directory})
        done.check_same(bare, f"{name}: shell")
    if tried == 0:
        harness.skip("no sanitizer's run time is installed")


JEMALLOC = "/usr/lib/x86_64-linux-gnu/libjemalloc_pic.a"


def own_allocator_programs(directory):
    """In programs with jemalloc in the executable, exported or not, the preloaded library sees no call, or only
    those of libraries."""
    rest = ["-lstdc++", "-lm", "-lpthread"]
    return [
        path
        for path in (
            build(directory, "exported", JEMALLOC, *rest),
            build(directory, "hidden", "-Wl,--exclude-libs,ALL", JEMALLOC, *rest),
        )
        if path is not None
    ]


def states(done):
    """Return {(budget, subject): state} of check's JSON."""
    return {
        (result["budget"], result.get("name")): result["state"]
        for result in json.loads(done.stdout[done.stdout.index(b'{"version"'):])["results"]
    }


def check_unseen(name, output, heap):
    """Check that every verb calls the figure unknown."""
    check(heap["unseen_allocator"] == "malloc", f"{name}: {heap['unseen_allocator']}")
    check("were requested" in heap["remark"], f"{name}: no reason in {heap['remark']!r}")
    check(heap["unseen"] and heap["exact_bytes"] is None, f"{name}: {heap['exact_bytes']} bytes")
    check("space" in heap["untold"], f"{name}: {heap['untold']}")
    heap = ["--heap", "libc.malloc"]
    text = run([TOOL, "report", *heap, output]).stdout
    check(b"unknown" in text and b"exact" not in text, f"{name}: {text!r}")
    text = run([TOOL, "diff", *heap, output, output]).stdout
    check(b"unknown" in text and b"no difference" not in text, f"{name}: {text!r}")
    text = run([TOOL, "query", output, "select live_size from hp_total where heap_name = 'libc.malloc'"]).stdout
    check(b"NULL" in text, f"{name}: {text!r}")


BUDGETS = ["--json", "--heap", "libc.malloc", "--max-live", "1G", "--max-peak", "1G", "--max-allocated", "1G",
           "--max-allocations", "1G"]


def forbid_ptrace():
    """Refuse ptrace to this process and its children by seccomp, as a container does."""
    number = {"x86_64": 101, "aarch64": 117}[os.uname().machine]
    # Load the call's number; refuse ptrace with EPERM, allow the others.
    code = [(0x20, 0, 0, 0), (0x15, 0, 1, number), (0x06, 0, 0, 0x00050001), (0x06, 0, 0, 0x7FFF0000)]
    filters = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *line) for line in code))
    program = ctypes.create_string_buffer(struct.pack("@HP", len(code), ctypes.addressof(filters)))
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    if prctl(38, 1, 0, 0, 0) != 0 or prctl(22, 2, ctypes.c_void_p(ctypes.addressof(program)), 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "cannot restrict system calls")


def own_allocator_cannot_be_attached_to(path, directory):
    """Check that the program runs nevertheless, and that the report names the obstacle."""
    hidden = os.path.join(directory, "unreadable")
    os.chmod(directory, 0o711)
    shutil.copy(path, hidden)
    os.chmod(hidden, 0o711)
    nobody = ["setpriv", "--reuid=65534", "--clear-groups"]
    # The leak sanitizer in our tools needs ptrace itself.
    no_leak_check = {"preexec_fn": forbid_ptrace, "env": {"ASAN_OPTIONS": "detect_leaks=0"}}
    for name, command, options, reason in [
        ("forbidden", [path], no_leak_check, "seccomp filter of ours forbids ptrace"),
        ("unreadable", [hidden], {}, "may not read its file"),
    ]:
        output = tempfile.mkdtemp(dir=directory)
        wrapper = [] if name == "forbidden" else nobody
        if wrapper:
            # Other users may not be able to enter the build directory.
            if os.geteuid() != 0 or run([*wrapper, "test", "-x", TOOL]).status != 0:
                continue
            os.chown(output, 65534, 65534)
        done = run([*wrapper, *harness.host_command([*command, str(LEAKED)], output, 1)], **options)
        check(done.status == 0, f"{name}: {done.status}: {done.stderr!r}")
        heap = report(output)["heaps"][0]
        check(heap["unseen"] and reason in heap["remark"], f"{name}: {heap['remark']!r}")


def own_allocator_under_yama(path, directory):
    """A refusal names Yama's ptrace_scope, also to root and for another user's process.

    A seccomp filter refuses ptrace, and a tmpfs over /proc/sys/kernel contains the value.
    """
    with_scope = "mount -t tmpfs none /proc/sys/kernel && mkdir /proc/sys/kernel/yama && " \
             "echo $0 > /proc/sys/kernel/yama/ptrace_scope && exec \"$@\""
    if os.geteuid() != 0 or run(["unshare", "-m", "sh", "-c", with_scope, "3", "true"]).status != 0:
        return
    restricted = {"preexec_fn": forbid_ptrace, "env": {"ASAN_OPTIONS": "detect_leaks=0"}}
    for scope, owner, remedy in [
        (1, [], "a program can be profiled from its start (heap_profile host)"),
        (2, [], "a program without its own allocator can be profiled from its start (heap_profile host)"),
        (3, ["setpriv", "--reuid=65534", "--clear-groups"], "until the next boot"),
    ]:
        output = tempfile.mkdtemp(dir=directory)
        wrapper = ["unshare", "-m", "sh", "-c", with_scope, str(scope)]
        command = ["sh", "-c", 'exec "$@"', "sh", *owner, path, str(LEAKED)]
        done = run([*wrapper, *harness.host_command(command, output, 1)], **restricted)
        check(done.status == 0, f"scope {scope}: {done.status}: {done.stderr!r}")
        remark = report(output)["heaps"][-1]["remark"]
        check(f"ptrace_scope is {scope})" in remark and remedy in remark, f"scope {scope}: {remark!r}")
        done = run([*wrapper, TOOL, "doctor", "--", path])
        impossible = f"It does not: kernel.yama.ptrace_scope is {scope}.".encode() in done.stdout
        check((done.status, impossible) == ((1, True) if scope == 3 else (0, False)), f"doctor: {done.stdout!r}")


def test_own_allocator(directory):
    """A program with an allocator in its executable is attached to at its start. If that is not possible, every
    verb calls the unseen figures unknown, and no budget holds."""
    programs = own_allocator_programs(directory)
    if not programs:
        harness.skip(f"no gcc, or no {JEMALLOC}")
    for path in programs:
        name = os.path.basename(path)
        for kind, command, options in [
            ("itself", [path, str(LEAKED)], []),
            ("child", ["/bin/sh", "-c", f"{path} {LEAKED}; true"], ["--follow-children"]),
            ("all heaps", [path, str(LEAKED)], ["--all-heaps"]),
        ]:
            output = tempfile.mkdtemp(dir=directory)
            done = run(harness.host_command(command, output, 1, *options))
            check(done.status == 0, f"{name}, {kind}: status {done.status}")
            heap = [heap for heap in report(output)["heaps"] if heap["name"] == name and heap["heap"] == "libc.malloc"][0]
            done = run([TOOL, "check", *BUDGETS, "--max-growth", "1G", "--baseline", output, output])
            held = [key for key, state in states(done).items() if key[1] != "sh" and state == "holds"]
            if kind != "all heaps":
                check(leaked(heap) == LEAKED_BYTES, f"{name}, {kind}: the_leak has {leaked(heap)} bytes")
                # A program that does not export its allocator has another one for its libraries, which was not seen.
                check(len(held) == (5 if name == "exported" else 0), f"{name}, {kind}: budgets hold: {held}")
            else:
                check(not held and done.status == 2, f"{name}, {kind}: {done.status}, budgets hold: {held}")
                if name == "exported":
                    check_unseen(name, output, heap)
        done = run([TOOL, "doctor", "--", path])
        check(done.status == 0 and b"attaches to it at its start" in done.stdout, f"{name}: doctor: {done.stdout!r}")
    own_allocator_cannot_be_attached_to(programs[0], directory)
    own_allocator_under_yama(programs[0], directory)
    # The children of an attached program cannot say hello, but are listed.
    path = build(directory, "forking", JEMALLOC, "-lstdc++", "-lm", "-lpthread", source="children.c")
    if path is not None:
        bare = run([path])
        done = run([TOOL, "check", "-o", os.path.join(directory, "forks"), "--max-live", "1G", "--", path])
        check(done.stdout == bare.stdout, f"children: {done.stdout!r}")
        check(done.status == (bare.status or 2), f"children: {done.status}, {done.stderr!r}")
        reasons = [process["reason"] for process in report(os.path.join(directory, "forks"))["unprofiled"]]
        check(any("forked by a process that was attached to" in reason for reason in reasons), f"children: {reasons}")
    done = run([TOOL, "check", "--max-live", "1G", "--", "/bin/true"])
    check(done.status == 2, f"/bin/true: {done.status}")


def test_unprofiled_children(directory):
    """Budgets are undecidable for an unprofiled child, unless it is declared irrelevant."""
    script = ["/bin/sh", "-c", f"{harness.program('added_leak')} {LEAKED}; true"]
    budget = [TOOL, "check", "--json", "--max-live", "100k"]
    alone = run([*budget, "--", *script])
    check(alone.status == 2, f"alone: {alone.status}")
    check(states(alone) == {("max-live", "sh"): "holds", ("max-live", "added_leak"): "undecidable"},
          f"alone: {states(alone)}")
    (result,) = [r for r in json.loads(alone.stdout)["results"] if r["state"] == "undecidable"]
    check("--follow-children" in result["reason"], f"{result}")
    only = run([*budget, "--only-profiled", "--", *script])
    check(only.status == 0 and states(only) == {("max-live", "sh"): "holds"}, f"only: {only.status}, {only.stdout!r}")
    followed = run([*budget, "--follow-children", "--", *script])
    check(followed.status == 1 and states(followed)[("max-live", "added_leak")] == "fails", f"all: {followed.stdout!r}")
    # Naming the processes declares the others irrelevant.
    output = os.path.join(directory, "named")
    run(harness.host_command(script, output, 1, "-n", "added_leak"))
    named = run([TOOL, "check", "--json", "--max-live", "1G", output])
    check(named.status == 0, f"named: {named.status}, {named.stdout!r}")
    junit = os.path.join(directory, "junit.xml")
    done = run([TOOL, "check", "--github", "--junit", junit, "--max-live", "100k", "--", *script])
    with open(junit) as file:
        check('errors="1"' in file.read(), "junit: the child is not an error")
    check(b"::warning" in done.stderr and b"--only-profiled" in done.stderr, f"github: {done.stderr!r}")


DEEPBIND_PROGRAM = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#ifdef LIBRARY
void *kept[1000];
void allocate(void) { for (int i = 0; i < 1000; i++) kept[i] = malloc(1000); }
#else
int main(int count, char **arguments)
{
    void *library = dlopen("libapart.so", RTLD_NOW | (count > 1 ? RTLD_DEEPBIND : 0)); /* by our RUNPATH */
    void (*allocate)(void) = library != NULL ? (void (*)(void))dlsym(library, "allocate") : NULL;
    if (allocate == NULL)
        return 9;
    allocate();
    return 3;
}
#endif
"""


def test_deepbind(directory):
    """A library that is opened with RTLD_DEEPBIND calls libc's malloc: totals are partial, budgets undecidable."""
    harness.need("gcc")
    source, path = os.path.join(directory, "apart.c"), os.path.join(directory, "apart")
    with open(source, "w") as file:
        file.write(DEEPBIND_PROGRAM)
    for command in (["-DLIBRARY", "-fno-builtin", "-shared", "-fPIC", "-o", os.path.join(directory, "libapart.so"), source],
                    ["-o", path, source, "-ldl", "-Wl,--enable-new-dtags,-rpath,$ORIGIN"]):
        check(run(["gcc", *command]).status == 0, f"gcc {command}")
    for arguments, status, words in [([], 1, b"FAILS"), (["deep"], 2, b"undecidable")]:
        output = os.path.join(directory, f"bound-{status}")
        # dlopen finds the library by its caller's RUNPATH: the caller must be the program, not the profiler.
        done = run(harness.host_command([path, *arguments], output, 1))
        check(done.status == 3, f"{arguments}: {done.status}, {done.stderr!r}")
        done = run([TOOL, "check", "--max-live", "100k", output])
        check(done.status == status and words in done.stdout, f"{arguments}: {done.status}, {done.stdout!r}")
        text = run([TOOL, "report", output]).stdout.decode()
        check(("calls, partial" in text) == ("RTLD_DEEPBIND" in text) == bool(arguments), f"{arguments}: {text}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="test-") as made_directory:
        harness.main(made_directory)
