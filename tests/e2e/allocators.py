#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Each extended function of each allocator is counted once, exactly, and its blocks are live until they are released,
preloaded and attached to. The programs (tests/programs/extended_*.c) print the figures.

    allocators.py CASE
"""

import glob
import os
import re
import tempfile

import harness
from attach import Other, attached
from daemon import Session, figure, heap_of, report_of, scene
from harness import check, program, run

TRUTH = re.compile(rb"truth: (\S+) (\d+) (\d+) (\d+)")
INPUT = b"calls\n"


def inclusive(heap, function, name):
    """Return the sum of a figure over the callsites with the function on the stack. (Rust inlines what a library
    has between it and the allocator.)"""
    return sum(
        site[name]["estimate"] for site in heap["callsites"]
        if any(frame["name"] == function for frame in site["frames"])
    )


def check_truths(what, lines, heap):
    """Check the figures that the program printed. Return their sum of calls. A function that cannot be patched is
    named in the remark; it may be seen as a call of another one."""
    refused = set(re.findall(r"(\w+) \(it begins with a call", heap["remark"]))
    truths = [(match[1].decode(), int(match[2]), int(match[3]), int(match[4])) for match in TRUTH.finditer(lines)]
    check(truths, f"{what}: the program printed {lines!r}")
    for function, size, calls, live in truths:
        if function.replace("call_", "") in refused:
            continue
        read = inclusive if "::" in function else figure
        got = tuple(read(heap, function, name) for name in ("alloc_space", "alloc_objects", "space"))
        check(got == (size, calls, live), f"{what}: {function}: bytes, calls, live bytes {got}, truth {(size, calls, live)}")
    print(f"{what}: {len(truths)} callsites exact")
    return sum(calls for _, _, calls, _ in truths)


def under_host(name, path, environment=None):
    """Profile the program from its start."""
    bare = run([path], INPUT)
    with tempfile.TemporaryDirectory() as directory:
        output = os.path.join(directory, "o")
        done = run(harness.host_command([path], output, 1), INPUT, env=environment)
        done.check_same(bare, name)
        heap = report_of(output)["heaps"][0]
        check_truths(f"host {name}", done.stdout, heap)
        check(heap["heap"] == "libc.malloc", f"{name}: {heap['heap']}")


def by_attaching(name, path):
    """Attach to the running program. Return the number of calls, and that of the profile. If nothing but the calls
    of the table allocates, they are equal: no call of a function that ends in another one counts twice."""
    with scene() as (daemon, directory):
        process = Other(path, "first")
        session = Session(daemon, os.path.join(directory, "o"), "-p", str(process.pid))
        attached(daemon, process)
        process.process.stdin.write(b"calls\n")
        lines = b""
        while not lines.endswith(b"ok\n"):
            line = process.process.stdout.readline()
            if not check(line, f"{name}: the program has ended"):
                break
            lines += line
        check(session.end() == 0, session.stderr)
        heap = heap_of(session.report(), process.pid)
        calls = check_truths(f"attached {name}", lines, heap)
        # The first memory of a heap is mimalloc's own.
        calls += figure(heap, "mi_heap_new_in_arena", "alloc_objects")
        check(process.end() == 0, f"{name}: the program failed")
        return calls, heap["exact_calls"]


def case(name):
    def body():
        """Preloaded and by attaching, with the allocator's library, with its archive, and without any library."""
        tried = 0
        for form in (name, name + "_linked_in", name + "_static"):
            path = program(form)
            if os.path.exists(path):
                under_host(form, path)
                calls, exact_calls = by_attaching(form, path)
                check(exact_calls == calls, f"{form}: {exact_calls} calls, truth {calls}")
                tried += 1
        if tried == 0:
            harness.skip("its library, or its header, is not installed")

    return body


def test_operators():
    """All forms of operator new and delete of an allocator in the executable, which attaching finds though it does not
    export them; a failure throws through the hook as without it."""
    tried = 0
    source = os.path.join(harness.ROOT, "tests", "programs", "operators.cc")
    for library in ("libjemalloc_pic.a", "libtcmalloc_minimal.a"):
        with tempfile.TemporaryDirectory() as directory:
            path, output = os.path.join(directory, "operators"), os.path.join(directory, "o")
            flags = ["-O1", "-g", "-fno-builtin", "-fno-optimize-sibling-calls", "-UNDEBUG"]
            built = run(["g++", *flags, "-o", path, source, "-Wl,--exclude-libs,ALL", "-l:" + library, "-lpthread", "-lm"])
            if built.status != 0:
                continue
            done = run(harness.host_command([path], output, 1))
            done.check_same(run([path]), library)
            heap = report_of(output)["heaps"][0]
            for match in re.finditer(rb"truth: (\w+) (\d+|-) (\d+)", done.stdout):
                function, size, calls = match[1].decode() + "()", match[2], int(match[3])
                got = figure(heap, function, "alloc_objects")
                check(got == calls, f"{library}: {function}: {got} calls, truth {calls}")
                got = figure(heap, function, "alloc_space")
                check(size == b"-" or got == int(size), f"{library}: {function}: {got} bytes, truth {size}")
                check(figure(heap, function, "space") == 0, f"{library}: {function}: some are live")
            tried += 1
    if tried == 0:
        harness.skip("no allocator's archive is installed, or no C++ compiler")


ONLY_EXTENDED = """
#include <stdio.h>
#include <stdlib.h>
static char arena[1 << 24] __attribute__((aligned(4096)));
static size_t used, unused;
__attribute__((noipa)) void *mi_malloc_aligned(size_t size, size_t alignment)
{
    used = (used + alignment - 1) & -alignment;
    void *block = arena + used;
    used += size;
    return block;
}
__attribute__((noipa)) void mi_free(void *block) { unused += block != NULL; }
static __attribute__((noipa)) void *call_aligned(void) { void *block = mi_malloc_aligned(100, 64); return block; }
static __attribute__((noipa)) void *call_shared(void) { void *block = malloc(300); return block; }
int main(void)
{
    for (int c; (c = getchar()) != EOF;) {
        for (int i = 0; c == 'c' && i < 1000; i++) {
            void *block = USED ? call_aligned() : NULL, *other = call_shared();
            if (i % 2) {
                mi_free(block);
                free(other);
            }
        }
        if (c == 'c' && USED)
            puts("truth: call_aligned 100000 1000 50000");
        if (c == 'c')
            puts("truth: call_shared 300000 1000 150000");
        if (c == '\\n') {
            puts("ok");
            fflush(stdout);
        }
    }
    return USED && unused == 0;
}
"""


def build_extended(directory, name, *flags):
    """Build the program `name` with other libraries. Return its path, or None if that fails."""
    path = os.path.join(directory, name)
    source, include = (os.path.join(harness.ROOT, *parts) for parts in (("tests", "programs", name + ".c"), ("src",)))
    usual = ["-O1", "-g", "-fno-builtin", "-fno-optimize-sibling-calls", "-UNDEBUG", "-w", "-I" + include]
    return path if run(["gcc", *usual, "-o", path, source, *flags]).status == 0 else None


EXTENDED_OF_JEMALLOC = ("mallocx", "rallocx", "xallocx", "dallocx", "sdallocx")


def test_prefixed():
    """jemalloc in the executable, with the prefix of Rust's crate."""
    functions = ("malloc", "free", "calloc", "realloc", *EXTENDED_OF_JEMALLOC)
    with tempfile.TemporaryDirectory() as directory:
        archive = os.path.join(directory, "libprefixed.a")
        renamed = [f"--redefine-sym={name}=_rjem_{name}" for name in functions]
        source = glob.glob("/usr/lib/*/libjemalloc_pic.a")
        if not source or run(["objcopy", *renamed, source[0], archive]).status != 0:
            harness.skip("no archive of jemalloc, or no objcopy")
        macros = [f"-D{name}=_rjem_{name}" for name in EXTENDED_OF_JEMALLOC]
        base = ["-DBASE_MALLOC=_rjem_malloc", "-DBASE_FREE=_rjem_free"]
        declared = os.path.join(directory, "declared.h")
        with open(declared, "w") as file:
            file.write("#include <stddef.h>\nvoid *_rjem_malloc(size_t);\nvoid _rjem_free(void *);\n")
        path = build_extended(
            directory, "extended_jemalloc", *macros, *base, "-include", declared, archive, "-lstdc++", "-lm", "-lpthread"
        )
        if not check(path is not None, "gcc fails"):
            return
        under_host("prefixed", path)
        calls, exact_calls = by_attaching("prefixed", path)
        check(exact_calls == calls, f"{exact_calls} calls, truth {calls}")


def test_user_preload():
    """A user's own LD_PRELOAD after ours is profiled. Before ours it hides the allocator: its memory is unknown."""
    library = glob.glob("/usr/lib/*/libjemalloc.so.2")
    with tempfile.TemporaryDirectory() as directory:
        # Linked to a library that has the names only, as if it took the allocator that it finds.
        stub = os.path.join(directory, "libstub.so")
        source = "".join(f"void *{name}(void) {{ return 0; }}\n" for name in EXTENDED_OF_JEMALLOC)
        run(["gcc", "-shared", "-fPIC", "-x", "c", "-", "-o", stub], source.encode())
        path = build_extended(directory, "extended_jemalloc", stub)
        if not library or path is None:
            harness.skip("jemalloc is not installed")
        for name, value in (("after", f"$LD_PRELOAD:{library[0]}"), ("before", f"{library[0]}:$LD_PRELOAD")):
            output = os.path.join(directory, name)
            done = run(harness.host_command(["sh", "-c", f"LD_PRELOAD={value} exec {path}"], output, 1), INPUT)
            check(done.status == 0 and done.stdout.endswith(b"ok\n"), f"{name}: {done.status}: {done.stderr!r}")
            (heap,) = (heap for heap in report_of(output)["heaps"] if "before exec" not in heap["heap"])
            if name == "after":
                check_truths("preloaded", done.stdout, heap)
            else:
                check(heap["unseen"] and heap["exact_bytes"] is None, f"before ours: {heap['exact_bytes']} bytes")


def test_only_extended():
    """An executable of whose allocator the linker has left two extended functions, as of Rust's mimalloc crate: the C
    library's malloc counts beside them, be they in use or not."""
    with tempfile.TemporaryDirectory() as directory:
        path, source = os.path.join(directory, "only_extended"), os.path.join(directory, "only_extended.c")
        with open(source, "w") as file:
            file.write(ONLY_EXTENDED)
        for form in "-pie", "-no-pie":
            for used in 1, 0:
                built = run(["gcc", "-O1", "-g", "-fno-optimize-sibling-calls", form, f"-DUSED={used}", "-o", path, source])
                check(built.status == 0, f"gcc: {built.stderr!r}")
                under_host(f"only extended, {form}, used: {used}", path)
                by_attaching(f"only extended, {form}, used: {used}", path)


def test_rust():
    """A global allocator of Rust's that no other name shows. Where rustc puts its calls inline, they are unknown."""
    with tempfile.TemporaryDirectory() as directory:
        source = os.path.join(harness.ROOT, "tests", "programs", "rust_arena.rs")
        path, optimized = os.path.join(directory, "called"), os.path.join(directory, "inlined")
        if run(["rustc", "-g", "--crate-name", "rust_arena", "-o", path, source]).status != 0:
            harness.skip("no rustc")
        under_host("rust", path)
        check(run(["rustc", "-O", "-g", "-o", optimized, source]).status == 0, "rustc -O")
        output = os.path.join(directory, "o")
        run(harness.host_command([optimized], output, 1), INPUT)
        heap = report_of(output)["heaps"][0]
        check(heap["unseen_allocator"] == "inlined calls" and "without a call of __rust_alloc" in heap["remark"], f"optimized: {heap['remark']!r}")


def test_rust_jemalloc():
    """A program with the jemalloc of a crate, whose functions have a prefix of their own."""
    path = program("slow/rust_jemalloc")
    if not os.path.exists(path):
        harness.skip("built without Debian's cargo, or its crate of jemalloc")
    under_host("rust_jemalloc", path)
    by_attaching("rust_jemalloc", path)


def test_newer():
    """Functions of allocators that are newer than Debian's."""
    with tempfile.TemporaryDirectory() as directory:
        library = os.path.join(directory, "libnewer.so")
        source = os.path.join(harness.ROOT, "tests", "programs", "newer_allocator.c")
        built = run(["gcc", "-O1", "-g", "-fno-builtin", "-w", "-shared", "-fPIC", "-o", library, source])
        check(built.status == 0, f"gcc: {built.stderr!r}")
        path = build_extended(directory, "extended_newer", library)
        if not check(path is not None, "gcc fails"):
            return
        under_host("newer", path)
        by_attaching("newer", path)


def test_documentation():
    """The page lists the table's functions."""
    def read(*path):
        with open(os.path.join(harness.ROOT, *path)) as file:
            return file.read()

    table = re.findall(r"^ +F\((\w+), +(\w+), +([\d.]+),", read("src", "wire", "allocator_functions.h"), re.M)
    page = read("docs", "allocators.md")
    listed = [
        (name, library.upper(), since)
        for library, since, names in re.findall(r"^\| (jemalloc|tcmalloc|mimalloc|token|fast_token|rust) \| ([\d.]+) \| (.*) \|$", page, re.M)
        for name in re.findall(r"`(\w+)`", names)
    ]
    check(len(table) > 100, f"{len(table)} rows")
    check(listed == table, f"not the same: {sorted(set(listed) ^ set(table))}")


test_jemalloc = case("extended_jemalloc")
test_tcmalloc = case("extended_tcmalloc")
test_mimalloc = case("extended_mimalloc")


if __name__ == "__main__":
    harness.main()
