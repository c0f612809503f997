#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Allocators that a library has under other names are heaps of their own, and wrappers of malloc are not.

    families.py CASE
"""

import os
import re
import subprocess
import sys
import tempfile

import harness
from allocators import TRUTH
from attach import attached, maps_of
from daemon import Session, figure, report_of, scene
from harness import check, run

HEAP = "engine.malloc"
USUAL = ["-O1", "-g", "-fno-builtin", "-fno-optimize-sibling-calls", "-UNDEBUG", "-w"]


def source(name):
    return os.path.join(harness.ROOT, "tests", "programs", name)


def gcc(directory, name, what, *flags):
    path = os.path.join(directory, name)
    built = run(["gcc", *USUAL, "-o", path, *([] if what is None else [what]), *flags])
    check(built.status == 0, f"gcc {name}: {built.stderr!r}")
    return path


def gcc_text(directory, name, text, *flags):
    path = os.path.join(directory, name + ".c")
    with open(path, "w") as file:
        file.write(text)
    return gcc(directory, name, path, *flags)


def library(directory, name="libengine.so", *flags):
    return gcc(directory, name, source("renamed_allocator.c"), "-shared", "-fPIC", "-lpthread", *flags)


def host(directory, command, interval=1, *options):
    """Profile the command. Return its output, which is what it is without a profiler, and the heaps by name."""
    bare = run(command)
    output = tempfile.mkdtemp(dir=directory)
    done = run(harness.host_command(command, output, interval, *options))
    done.check_same(bare, command[0])
    return done.stdout, {heap["heap"]: heap for heap in report_of(output)["heaps"]}


def check_exact(what, printed, heap):
    """Check the heap against what the program printed, and against the library's own figure."""
    truths = [(match[1].decode(), int(match[2]), int(match[3]), int(match[4])) for match in TRUTH.finditer(printed)]
    for function, *truth in truths:
        got = [figure(heap, function, name) for name in ("alloc_space", "alloc_objects", "space")]
        if function == "call_posix_memalign":
            got = [figure(heap, "stored", name) for name in ("alloc_space", "alloc_objects", "space")]
        check(got == truth, f"{what}: {function}: {got}, truth {truth}")
    live = int(re.search(rb"live (\d+)", printed)[1])
    check(len(truths) == 10, f"{what}: {len(truths)} truths")
    check(heap["total"]["space"]["estimate"] == live, f"{what}: {heap['total']['space']}, truth {live}")
    check(heap["exact_calls"] == sum(truth[2] for truth in truths), f"{what}: {heap['exact_calls']} calls")
    check(not heap["partial"], f"{what}: {heap['partial']}")


def test_linked():
    """The program is linked to the library."""
    with tempfile.TemporaryDirectory() as directory:
        library(directory)
        for binding in ("now", "lazy"):
            path = gcc(directory, binding, source("renamed_calls.c"), "-DLINKED", "-L" + directory, "-lengine", f"-Wl,-z,{binding},-rpath,{directory}")
            printed, heaps = host(directory, [path])
            check_exact(binding, printed, heaps[HEAP])
            check(not heaps["libc.malloc"]["partial"], f"{binding}: {heaps['libc.malloc']['partial']}")


def test_opened():
    """The program opens the library, and looks its functions up."""
    with tempfile.TemporaryDirectory() as directory:
        path, opened = gcc(directory, "opens", source("renamed_calls.c"), "-ldl"), library(directory)
        printed, heaps = host(directory, [path, opened])
        check_exact("opened", printed, heaps[HEAP])
        check(not heaps["libc.malloc"]["partial"], f"{heaps['libc.malloc']['partial']}")


def test_interval():
    """Estimates at larger intervals are unbiased."""
    errors = []
    with tempfile.TemporaryDirectory() as directory:
        path, opened = gcc(directory, "opens", source("renamed_calls.c"), "-ldl"), library(directory)
        for _ in range(6):
            printed, heaps = host(directory, [path, opened, "20000"], 4096)
            live = int(re.search(rb"live (\d+)", printed)[1])
            estimate = heaps[HEAP]["total"]["space"]
            errors.append((estimate["estimate"] - live) / live)
            check(heaps[HEAP]["exact_calls"] == 20026, f"{heaps[HEAP]['exact_calls']} calls")
    # 800 samples a run: the mean of six has a standard deviation of 1.5 %.
    check(abs(sum(errors) / len(errors)) < 0.06, f"errors {errors}")


def test_attached():
    """In a running program the entries of the functions are patched: calls inside the library are seen, too."""
    for name, flags in (("plain", []), ("symbolic", ["-Wl,-Bsymbolic"])):
        with scene() as (daemon, directory):
            library(directory, "libengine.so", *flags)
            path = gcc(directory, "calls", source("renamed_calls.c"), "-DLINKED", "-L" + directory, "-lengine", f"-Wl,-rpath,{directory}")
            process = subprocess.Popen([path, "linked", "wait"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
            check(process.stdout.readline() == b"ready\n", "not ready")
            maps = maps_of(process.pid)
            session = Session(daemon, os.path.join(directory, "o"), "-p", str(process.pid))
            attached(daemon, process)
            process.stdin.write(b"\n")
            printed = b""
            while b"live" not in printed:
                line = process.stdout.readline()
                if not check(line, f"{name}: the program has ended"):
                    break
                printed += line
            check(session.end() == 0, session.stderr)
            heaps = {heap["heap"]: heap for heap in session.report()["heaps"]}
            check_exact(f"attached {name}", printed, heaps[HEAP])
            check(not heaps["libc.malloc"]["partial"], f"{name}: {heaps['libc.malloc']['partial']}")
            check(maps_of(process.pid) == maps, "the mappings are as they were")
            process.stdin.write(b"\n")
            check(process.wait() == 0, f"{name}: the program failed")


USER = """
void *engine_malloc(unsigned long);
void *use(unsigned long bytes) { return engine_malloc(bytes); }
"""

CALLS_USER = """
#include <dlfcn.h>
int main(int argc, char **argv)
{
    void *library = dlopen(argv[1], RTLD_NOW);
    void *(*use)(unsigned long) = (void *(*)(unsigned long))dlsym(library, "use");
    return use(1000000) == 0;
}
"""


def test_unseen():
    """Calls inside a library go through its table of functions, or are bound when it is linked: then its memory is
    unknown, and the report says so."""
    with tempfile.TemporaryDirectory() as directory:
        program = gcc_text(directory, "calls_user", CALLS_USER, "-ldl")
        for name, flags in (("seen", []), ("unseen", ["-Wl,-Bsymbolic"])):
            user = gcc_text(directory, f"lib{name}.so", USER, source("renamed_allocator.c"), "-shared", "-fPIC", "-lpthread", *flags)
            _, heaps = host(directory, [program, user])
            if name == "seen":
                check(heaps[HEAP]["total"]["space"]["estimate"] == 1000000, f"{heaps[HEAP]['total']['space']}")
                check(not heaps["libc.malloc"]["partial"], f"{heaps['libc.malloc']['partial']}")
            else:
                malloc = heaps["libc.malloc"]
                check(malloc["unseen_allocator"] == HEAP and malloc["partial"], f"unseen: {malloc['partial']}")
                check(HEAP in malloc["remark"], malloc["remark"])
                _, heaps = host(directory, [program, user], 1, "--heaps", "libc.malloc")
                check(not heaps["libc.malloc"]["partial"], "what nobody asked for is not missing")


def test_selection():
    """--heaps and --exclude-heaps know the heap by its name."""
    with tempfile.TemporaryDirectory() as directory:
        path, opened = gcc(directory, "opens", source("renamed_calls.c"), "-ldl"), library(directory)
        for options, names in (
            (["--exclude-heaps", HEAP], {"libc.malloc"}),
            (["--heaps", HEAP], {HEAP}),
            (["--heaps", "libc.malloc"], {"libc.malloc"}),
            (["--all-heaps"], {"libc.malloc", HEAP}),
        ):
            _, heaps = host(directory, [path, opened], 1, *options)
            with_samples = {name for name, heap in heaps.items() if heap["total"]["samples"] > 0}
            check(with_samples == names, f"{options}: {with_samples}")


MANY = """
#include <dlfcn.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        char name[64];
        void *library = dlopen(argv[i], RTLD_NOW);
        sprintf(name, "p%d_malloc", i);
        void *(*allocate)(unsigned long) = (void *(*)(unsigned long))dlsym(library, name);
        if (allocate == 0 || allocate(100 * i) == 0)
            return 1;
        if (i > 8)
            dlclose(library);
    }
    return 0;
}
"""


def test_bound():
    """Eight libraries a process are counted. A ninth is unknown, and said to be."""
    with tempfile.TemporaryDirectory() as directory:
        libraries = [library(directory, f"lib{i}.so", f"-DRENAMED(name)=p{i}_##name") for i in range(1, 10)]
        program = gcc_text(directory, "many", MANY, "-ldl")
        _, heaps = host(directory, [program, *libraries[:8]])
        for i in range(1, 9):
            check(heaps[f"p{i}.malloc"]["total"]["space"]["estimate"] == 100 * i, f"p{i}.malloc")
        check(not heaps["libc.malloc"]["partial"], f"{heaps['libc.malloc']['partial']}")
        _, heaps = host(directory, [program, *libraries])
        check(heaps["libc.malloc"]["unseen_allocator"] == "p9.malloc", f"{heaps['libc.malloc']['unseen_allocator']}")


REOPENED = """
#include <dlfcn.h>
int main(int argc, char **argv)
{
    for (int i = 0; i < 40; i++) {
        void *library = dlopen(argv[1 + i % 2], RTLD_NOW);
        void *(*allocate)(unsigned long) = (void *(*)(unsigned long))dlsym(library, "engine_malloc");
        void (*release)(void *) = (void (*)(void *))dlsym(library, "engine_free");
        release(allocate(1000));
        dlclose(library);
    }
    return 0;
}
"""


def test_reopened():
    """Libraries that are closed make room for others."""
    with tempfile.TemporaryDirectory() as directory:
        libraries = [library(directory, f"lib{i}.so") for i in range(2)]
        _, heaps = host(directory, [gcc_text(directory, "reopened", REOPENED, "-ldl"), *libraries])
        total = heaps[HEAP]["total"]
        check((total["alloc_objects"]["estimate"], total["space"]["estimate"]) == (40, 0), f"{total}")
        check(not heaps["libc.malloc"]["partial"], f"{heaps['libc.malloc']['partial']}")


# Library, allocate, its arguments, release.
WRAPPERS = (
    ("libglib-2.0.so.0", "g_malloc", "g_free"),
    ("libsqlite3.so.0", "sqlite3_malloc", "sqlite3_free"),
    ("libcrypto.so.3", "CRYPTO_malloc", "CRYPTO_free"),
    ("libxml2.so.2", "xmlMemMalloc", "xmlMemFree"),
    ("libicuuc.so.72", "uprv_malloc_72", "uprv_free_72"),
)

CALLS_WRAPPER = """
#include <dlfcn.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    void *library = dlopen(argv[1], RTLD_NOW);
    if (library == 0)
        return 77;
    void *(*allocate)(unsigned long, const char *, int) = (void *(*)(unsigned long, const char *, int))dlsym(library, argv[2]);
    void (*release)(void *, const char *, int) = (void (*)(void *, const char *, int))dlsym(library, argv[3]);
    for (int i = 0; i < 20; i++) {
        void *block = allocate(70000, "", 0);
        if (i % 2)
            release(block, "", 0);
    }
    return 0;
}
"""


def test_wrappers():
    """Functions that only pass requests on to malloc are in malloc's heap, once."""
    tried = 0
    with tempfile.TemporaryDirectory() as directory:
        program = gcc_text(directory, "wrapped", CALLS_WRAPPER, "-ldl")
        for wrapper in WRAPPERS:
            command = [program, *wrapper]
            if run(command).status == 77:
                continue
            tried += 1
            _, heaps = host(directory, command)
            check(set(heaps) == {"libc.malloc"}, f"{wrapper}: {set(heaps)}")
            sites = [site for site in heaps["libc.malloc"]["callsites"] if any(frame["name"] == "main" for frame in site["frames"])]
            calls = sum(site["alloc_objects"]["estimate"] for site in sites if 70000 <= site["alloc_space"]["estimate"] / site["alloc_objects"]["estimate"] < 71000)
            check(calls == 20, f"{wrapper}: {calls} calls of 70000 bytes")
            check(not heaps["libc.malloc"]["partial"], f"{wrapper}: {heaps['libc.malloc']['partial']}")
    if tried == 0:
        harness.skip("none of the libraries is installed")


CALLS_TBB = """
#include <dlfcn.h>
int main(void)
{
    void *library = dlopen("libtbbmalloc.so.2", RTLD_NOW);
    if (library == 0)
        return 77;
    void *(*allocate)(unsigned long) = (void *(*)(unsigned long))dlsym(library, "scalable_malloc");
    void *(*aligned)(unsigned long, unsigned long) = (void *(*)(unsigned long, unsigned long))dlsym(library, "scalable_aligned_malloc");
    void *(*resize)(void *, unsigned long) = (void *(*)(void *, unsigned long))dlsym(library, "scalable_realloc");
    void (*release)(void *) = (void (*)(void *))dlsym(library, "scalable_free");
    for (int i = 0; i < 10; i++)
        release(allocate(1000));
    return resize(aligned(300, 64), 5000) == 0;
}
"""


def test_tbb():
    """oneTBB's allocator."""
    with tempfile.TemporaryDirectory() as directory:
        program = gcc_text(directory, "calls_tbb", CALLS_TBB, "-ldl")
        if run([program]).status == 77:
            harness.skip("libtbbmalloc is not installed")
        _, heaps = host(directory, [program])
        total = heaps["scalable.malloc"]["total"]
        got = tuple(total[name]["estimate"] for name in ("alloc_space", "alloc_objects", "space", "objects"))
        check(got == (15300, 12, 5000, 1), f"{got}")


if __name__ == "__main__":
    harness.main()
