#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Allocators that a library has under other names are heaps of their own, and wrappers of malloc are not.

    families.py CASE
"""

import hashlib
import os
import re
import subprocess
import sys
import tempfile

import harness
from allocators import TRUTH
from attach import attached, maps_of
from daemon import Session, figure, report_of, scene, wait_for
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


def codes_of(pid):
    """Return a digest of each executable mapping of a file, wherever it is."""
    codes = []
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb") as memory:
        for line in maps:
            parts = line.split()
            if len(parts) > 5 and "x" in parts[1] and parts[5].startswith("/"):
                start, end = (int(number, 16) for number in parts[0].split("-"))
                memory.seek(start)
                codes.append((parts[5], hashlib.sha256(memory.read(end - start)).hexdigest()))
    return sorted(codes)


def profile_calls(daemon, directory, process, name):
    """Profile the calls of a program that is ready. Return the heaps by name, and what it prints."""
    maps, codes = maps_of(process.pid), codes_of(process.pid)
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
    check(maps_of(process.pid) == maps, f"{name}: the mappings are not as they were")
    check(codes_of(process.pid) == codes, f"{name}: the code is not as it was")
    process.stdin.write(b"\n")
    check(process.wait() == 0, f"{name}: the program failed")
    return {heap["heap"]: heap for heap in session.report()["heaps"]}, printed


def test_attached():
    """In a running program the entries of the functions are patched: calls inside the library are seen, too."""
    for name, flags in (("plain", []), ("symbolic", ["-Wl,-Bsymbolic"])):
        with scene() as (daemon, directory):
            library(directory, "libengine.so", *flags)
            path = gcc(directory, "calls", source("renamed_calls.c"), "-DLINKED", "-L" + directory, "-lengine", f"-Wl,-rpath,{directory}")
            process = subprocess.Popen([path, "linked", "wait"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
            check(process.stdout.readline() == b"ready\n", "not ready")
            heaps, printed = profile_calls(daemon, directory, process, name)
            check_exact(f"attached {name}", printed, heaps[HEAP])
            check(not heaps["libc.malloc"]["partial"], f"{name}: {heaps['libc.malloc']['partial']}")


def executable(directory, name, *flags):
    """Build a program that has the allocator in itself."""
    return gcc(directory, name, source("renamed_calls.c"), source("renamed_allocator.c"), "-DLINKED", "-lpthread", *flags)


def test_static_executable():
    """A static program has the allocator under another name: it is found by the program's symbols."""
    with tempfile.TemporaryDirectory() as directory:
        for name, flags in (("fixed", ["-static"]), ("anywhere", ["-static-pie"])):
            printed, heaps = host(directory, [executable(directory, name, *flags)])
            check_exact(name, printed, heaps[HEAP])
            check(not heaps["libc.malloc"]["partial"], f"{name}: {heaps['libc.malloc']['partial']}")


def test_attached_executable():
    """A running program has the allocator in its executable, exported or not."""
    for name, flags in (("plain", []), ("exported", ["-rdynamic"]), ("fixed", ["-no-pie"])):
        with scene() as (daemon, directory):
            path = executable(directory, name, *flags)
            process = subprocess.Popen([path, "linked", "wait"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
            check(process.stdout.readline() == b"ready\n", "not ready")
            heaps, printed = profile_calls(daemon, directory, process, name)
            check_exact(f"attached {name}", printed, heaps[HEAP])
            check(not heaps["libc.malloc"]["partial"], f"{name}: {heaps['libc.malloc']['partial']}")


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


USES_LINKED = """
#include <unistd.h>
void *engine_malloc(unsigned long size);
void *user_call(void) { return engine_malloc(3000); }
int user_libc(void) { return getppid(); } /* the last of the words for calls leads to libc */
"""


def test_order():
    """The libraries that call a family are bound wherever the loader puts them: libc, to whose functions their last
    words lead, may be below them."""
    with tempfile.TemporaryDirectory() as directory:
        library(directory)
        flags = ["-shared", "-fPIC", "-L" + directory, "-lengine", f"-Wl,-z,now,-rpath,{directory}"]
        gcc_text(directory, "libuser.so", USES_LINKED, *flags)
        text = "void *user_call(void);\nint main(void) { for (int i = 0; i < 7; i++) user_call(); return 0; }\n"
        path = gcc_text(directory, "now", text, "-L" + directory, "-luser", f"-Wl,-z,now,-rpath,{directory},-rpath-link,{directory}")
        _, heaps = host(directory, [path])
        total = heaps[HEAP]["total"]
        check((total["alloc_objects"]["estimate"], total["alloc_space"]["estimate"]) == (7, 21000), f"{total}")
        check(not heaps["libc.malloc"]["partial"], f"{heaps['libc.malloc']['partial']}")


PROXY = """
void *engine_malloc(unsigned long size);
void *engine_calloc(unsigned long count, unsigned long size);
void *engine_realloc(void *block, unsigned long size);
void engine_free(void *block);
void *malloc(unsigned long size) { return engine_malloc(size); }
void *calloc(unsigned long count, unsigned long size) { return engine_calloc(count, size); }
void *realloc(void *block, unsigned long size) { return engine_realloc(block, size); }
void free(void *block) { engine_free(block); }
"""


def test_proxy():
    """What malloc requests from a family in another library is malloc's, and not the family's as well."""
    with tempfile.TemporaryDirectory() as directory:
        library(directory)
        gcc_text(directory, "libproxy.so", PROXY, "-shared", "-fPIC", "-L" + directory, "-lengine", f"-Wl,-rpath,{directory}")
        text = """
#include <stdlib.h>
void *engine_malloc(unsigned long size);
int main(void)
{
    for (int i = 0; i < 9; i++)
        free(malloc(12345));
    return engine_malloc(777) == 0;
}
"""
        path = gcc_text(directory, "proxied", text, "-L" + directory, "-lproxy", "-lengine", f"-Wl,-rpath,{directory}")
        _, heaps = host(directory, [path])
        got = [heaps[HEAP]["total"][name]["estimate"] for name in ("alloc_objects", "alloc_space", "space")]
        check(got == [1, 777, 777], f"{got}")
        check(figure(heaps["libc.malloc"], "main", "alloc_objects") == 9, "malloc's calls")


ENGINE_OF = """
#include <stdlib.h>
#include <sys/mman.h>
%(filler)s
static char arena[1 << 20];
static unsigned long used;
int %(prefix)s_whose;
void *%(prefix)s_malloc(unsigned long size) { used += 64 + size; %(prefix)s_whose = %(number)d; return arena + used - size; }
void *%(prefix)s_mallocx(unsigned long size, int flags) { return %(prefix)s_malloc(size); }
void %(prefix)s_free(void *block) { if ((char *)block < arena || (char *)block > arena + sizeof(arena)) abort(); }
void *more(void) { return mmap(0, 4096, 3, 34, -1, 0); }
"""


def test_same_names():
    """Of two libraries with the same names, the one that comes first serves all calls. A word that the loader has not
    resolved yet stays: no allocator gets a block of another."""
    with tempfile.TemporaryDirectory() as directory:
        names = []
        for number in (1, 2):
            text = ENGINE_OF % {"prefix": "engine", "number": number, "filler": ""}
            text += f"void free{number}(void *block) {{ engine_free(block); }}\nvoid *malloc{number}(void) {{ return engine_malloc(100); }}\n"
            names.append(gcc_text(directory, f"libsame{number}.so", text, "-shared", "-fPIC", "-Wl,-z,lazy"))
        text = """
void *malloc1(void); void *malloc2(void); void free1(void *); void free2(void *);
int main(void)
{
    for (int i = 0; i < 5; i++) {
        free1(malloc2());
        free2(malloc1());
    }
    return 0;
}
"""
        path = gcc_text(directory, "same", text, "-Wl,--no-as-needed", *names, f"-Wl,-z,lazy,-rpath,{directory}")
        _, heaps = host(directory, [path])
        check(heaps["libc.malloc"]["unseen_allocator"] == HEAP, f"{heaps['libc.malloc']['unseen_allocator']}")


RELOADED = """
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    char *places[2];
    for (int i = 0; i < 2; i++) {
        /* The same name, so that nothing of the loader's moves. */
        unlink(argv[3]);
        if (link(argv[1 + i], argv[3]) != 0)
            return 1;
        void *library = dlopen(argv[3], RTLD_NOW);
        if (i == 0 && dlsym(library, "engine_free") == 0)
            return 2;
        void *(*allocate)(unsigned long) = (void *(*)(unsigned long))dlsym(library, "engine_malloc");
        int *whose = dlsym(library, "engine_whose");
        char *block = allocate(1000);
        memset(block, 0, 1000);
        places[i] = (char *)whose;
        if (*whose != i + 1)
            return 3;
        dlclose(library);
    }
    puts(places[0] == places[1] ? "same" : "moved");
    return 0;
}
"""


def test_reloaded():
    """A library is built anew and opened at the same place: its functions are elsewhere."""
    with tempfile.TemporaryDirectory() as directory:
        built = []
        for number in (1, 2):
            filler = "" if number == 1 else "int filler(int i) { return i * i + 3 * i / 7; }"
            text = ENGINE_OF % {"prefix": "engine", "number": number, "filler": filler}
            built.append(gcc_text(directory, f"libbuilt{number}.so", text, "-shared", "-fPIC"))
        path = gcc_text(directory, "reloaded", RELOADED, "-ldl")
        command = ["setarch", "-R", path, *built, os.path.join(directory, "libengine.so")]
        output = os.path.join(directory, "o")
        done = run(harness.host_command(command, output, 1))
        check(done.status == 0, f"status {done.status}: {done.stderr!r}")
        check(done.stdout == b"same\n", f"{done.stdout!r}: the test shows nothing")
        heaps = {heap["heap"]: heap for heap in report_of(output)["heaps"]}
        got = [heaps[HEAP]["total"][name]["estimate"] for name in ("alloc_objects", "alloc_space")]
        check(got == [2, 2000], f"{got}")


FORKED = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    pid_t child = fork();
    int status = 0;
    if (child == 0) {
        void *library = dlopen(argv[1], RTLD_NOW);
        void *(*allocate)(unsigned long) = (void *(*)(unsigned long))dlsym(library, "engine_malloc");
        Dl_info info;
        /* No look at the loader's list, whose lock a thread of the parent may have held. */
        _exit(dladdr((void *)allocate, &info) == 0 || strcmp(info.dli_fname, argv[1]) != 0 || allocate(1) == 0 ? 1 : 7);
    }
    waitpid(child, &status, 0);
    return WEXITSTATUS(status);
}
"""


def test_forked():
    """A forked child that opens a library gets its functions themselves."""
    with tempfile.TemporaryDirectory() as directory:
        path, opened = gcc_text(directory, "forked", FORKED, "-ldl"), library(directory)
        done = run(harness.host_command([path, opened], os.path.join(directory, "o"), 1))
        check(done.status == 7, f"status {done.status}: {done.stderr!r}")


THROWS = """
#include <new>
#include <cstdlib>
#include <sys/mman.h>
extern "C" {
static char arena[1 << 20];
static unsigned long used;
void *deep_malloc(unsigned long size) { used += 64 + size; return arena + used - size; }
void *deep_mallocn(unsigned long count, unsigned long size) { return count * size > 100000 ? 0 : deep_malloc(count * size); }
void *deep_malloc_aligned_at(unsigned long size, unsigned long alignment, unsigned long offset) { return deep_malloc(size); }
void deep_free(void *block) {}
void *deep_new_n(unsigned long count, unsigned long size)
{
    void *block = deep_mallocn(count, size);
    if (block == 0)
        throw std::bad_alloc();
    return block;
}
void *deep_new(unsigned long size) { return deep_new_n(1, size); }
void *more(void) { return mmap(0, 4096, 3, 34, -1, 0); }
}
"""

CATCHES = """
#include <new>
extern "C" void *deep_new_n(unsigned long count, unsigned long size);
extern "C" void *deep_new(unsigned long size);
extern "C" void *deep_malloc(unsigned long size);
__attribute__((noinline)) static int deeper(int depth)
{
    volatile char room[256];
    room[0] = 0;
    if (depth > 0)
        return deeper(depth - 1) + room[0];
    return deep_malloc(500) == 0;
}
int main()
{
    int caught = 0;
    for (int i = 0; i < 2; i++) {
        try {
            i == 0 ? deep_new_n(1000, 1000) : deep_new(1000000);
        } catch (const std::bad_alloc &) {
            caught++;
        }
    }
    for (int i = 0; i < 6; i++)
        deeper(i);
    return caught == 2 ? 0 : 1;
}
"""


def test_throws():
    """After an allocation that throws, calls further in on the stack count as ever."""
    with tempfile.TemporaryDirectory() as directory:
        paths = {}
        for name, text in (("throws", THROWS), ("catches", CATCHES)):
            paths[name] = os.path.join(directory, name + ".cc")
            with open(paths[name], "w") as file:
                file.write(text)
        engine, path = os.path.join(directory, "libdeep.so"), os.path.join(directory, "catches")
        for command in (["-shared", "-fPIC", "-o", engine, paths["throws"]], ["-o", path, paths["catches"], engine, f"-Wl,-rpath,{directory}"]):
            built = run(["g++", *USUAL, *command])
            check(built.status == 0, f"g++: {built.stderr!r}")
        _, heaps = host(directory, [path])
        got = [heaps["deep.malloc"]["total"][name]["estimate"] for name in ("alloc_objects", "alloc_space")]
        check(got == [6, 3000], f"{got}")


CLOSES = """
#include <dlfcn.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    void *library = dlopen(argv[1], RTLD_NOW);
    void *(*allocate)(unsigned long) = (void *(*)(unsigned long))dlsym(library, "engine_malloc");
    puts("ready");
    fflush(stdout);
    getchar();
    for (int i = 0; i < 3; i++)
        allocate(100);
    dlclose(library);
    puts("closed");
    fflush(stdout);
    getchar();
    return 0;
}
"""


def test_closed_attached():
    """The program closes the library of a family during the session: the profiler leaves nothing, and may come again."""
    with scene() as (daemon, directory):
        path, opened = gcc_text(directory, "closes", CLOSES, "-ldl"), library(directory)
        process = subprocess.Popen([path, opened], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        check(process.stdout.readline() == b"ready\n", "not ready")
        for number in range(2):
            session = Session(daemon, os.path.join(directory, f"o{number}"), "-p", str(process.pid))
            attached(daemon, process)
            if number == 0:
                process.stdin.write(b"\n")
                check(process.stdout.readline() == b"closed\n", "not closed")
            check(session.end() == 0, session.stderr)
            left = harness.client_mappings(process.pid)
            check(not left, f"{number}: {left}")
            if number == 0:
                total = {heap["heap"]: heap for heap in session.report()["heaps"]}[HEAP]["total"]
                check(total["alloc_objects"]["estimate"] == 3, f"{total}")
        process.stdin.write(b"\n")
        check(process.wait() == 0, "the program failed")


LATER = """
#include <dlfcn.h>
#include <link.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <sys/prctl.h>
/* A filter that allows every system call. */
static void restrict_itself(void)
{
    struct sock_filter allow = {.code = BPF_RET | BPF_K, .k = SECCOMP_RET_ALLOW};
    struct sock_fprog filter = {1, &allow};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
}
/* Let the loader say that it is in this state. */
static void say(int state)
{
    for (ElfW(Dyn) *at = _DYNAMIC; at->d_tag != DT_NULL; at++) {
        if (at->d_tag == DT_DEBUG)
            ((struct r_debug *)at->d_un.d_ptr)->r_state = state;
    }
}
/* Commands, a letter and a number: open library N, and print the address of its malloc; call it N times, and release
 * every other block; close library N; set a filter; say that the loader rests (0) or adds a library (1). The arguments
 * are libraries, each with its prefix. */
int main(int argc, char **argv)
{
    static void *(*allocate)(unsigned long);
    static void (*release)(void *);
    void *libraries[16];
    char command;
    int number;
    while (scanf(" %c%d", &command, &number) == 2) {
        void *address = 0;
        if (command == 'o') {
            char names[2][64];
            sprintf(names[0], "%smalloc", argv[2 + 2 * number]);
            sprintf(names[1], "%sfree", argv[2 + 2 * number]);
            libraries[number] = dlopen(argv[1 + 2 * number], RTLD_NOW);
            allocate = (void *(*)(unsigned long))(address = dlsym(libraries[number], names[0]));
            release = (void (*)(void *))dlsym(libraries[number], names[1]);
        }
        for (int i = 0; command == 'c' && i < number; i++) {
            void *block = allocate(100);
            if (i % 2)
                release(block);
        }
        if (command == 'x')
            dlclose(libraries[number]);
        if (command == 's')
            restrict_itself();
        if (command == 'l')
            say(number);
        printf("%lx\\n", (unsigned long)address);
        fflush(stdout);
    }
    return 0;
}
"""


class Opens:
    """A program that obeys commands, each a line that it answers with a number."""

    def __init__(self, path, *arguments):
        self.process = subprocess.Popen([path, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        self.pid = self.process.pid

    def tell(self, command):
        self.process.stdin.write(command.encode() + b"\n")
        return int(self.process.stdout.readline(), 16)

    def has_patched(self, library):
        """Return whether the library's code is another than its file's."""
        with open(f"/proc/{self.pid}/maps") as maps, open(f"/proc/{self.pid}/mem", "rb") as memory, open(library, "rb") as file:
            for line in maps:
                parts = line.split()
                if len(parts) < 6 or "x" not in parts[1] or parts[5] != library:
                    continue
                start, end = (int(number, 16) for number in parts[0].split("-"))
                memory.seek(start)
                file.seek(int(parts[2], 16))
                own = file.read(end - start)
                if memory.read(end - start)[:len(own)] != own:
                    return True
        return False

    def open(self, command, library):
        """Open a library. Return once the profiler has patched it."""
        self.tell(command)
        wait_for("patching", lambda: self.has_patched(library))

    def end(self):
        self.process.stdin.close()
        return self.process.wait()


def test_opened_later():
    """A library that a program opens while it is profiled is a heap from then on, exact, and so it is if it is closed
    and opened again. Afterwards the code is as it was."""
    with scene() as (daemon, directory):
        engine = library(directory)
        program = Opens(gcc_text(directory, "later", LATER, "-ldl"), engine, "engine_")
        program.tell("o0")
        codes = codes_of(program.pid)
        program.tell("x0")
        session = Session(daemon, os.path.join(directory, "o"), "-p", str(program.pid))
        attached(daemon, program)
        for _ in range(3):
            program.open("o0", engine)
            program.tell("c1000")
            program.tell("x0")
        program.open("o0", engine)
        program.tell("c100")
        check(session.end() == 0, session.stderr)
        check(codes_of(program.pid) == codes, "the code is not as it was")
        left = harness.client_mappings(program.pid)
        check(not left, f"{left}")
        program.tell("c10")
        check(program.end() == 0, "the program failed")
        heaps = {heap["heap"]: heap for heap in session.report()["heaps"]}
        total = heaps[HEAP]["total"]
        got = [total[name]["estimate"] for name in ("alloc_objects", "alloc_space", "objects", "space")]
        check(got == [3100, 310000, 1550, 155000], f"{got}")
        check(heaps[HEAP]["exact_calls"] == 3100, f"{heaps[HEAP]['exact_calls']}")
        malloc = heaps["libc.malloc"]
        check(not malloc["partial"], f"{malloc['partial']}")
        check(HEAP in malloc["remark"] and "3 times" in malloc["remark"], malloc["remark"])


def test_bound_later():
    """Of libraries that are opened later, eight are counted, too. A ninth is unknown, and said to be."""
    with scene() as (daemon, directory):
        arguments = []
        for i in range(9):
            arguments += [library(directory, f"lib{i}.so", f"-DRENAMED(name)=p{i}_##name"), f"p{i}_"]
        program = Opens(gcc_text(directory, "later", LATER, "-ldl"), *arguments)
        session = Session(daemon, os.path.join(directory, "o"), "-p", str(program.pid))
        attached(daemon, program)
        for i in range(8):
            program.open(f"o{i}", arguments[2 * i])
            program.tell(f"c{10 + i}")
        program.tell("o8")
        program.tell("c10")
        # The look that finds this one anew has seen the ninth, too.
        program.tell("x0")
        program.open("o0", arguments[0])
        check(session.end() == 0, session.stderr)
        check(program.end() == 0, "the program failed")
        heaps = {heap["heap"]: heap for heap in session.report()["heaps"]}
        for i in range(8):
            check(heaps[f"p{i}.malloc"]["exact_calls"] == 10 + i, f"p{i}: {heaps[f'p{i}.malloc']['exact_calls']}")
        malloc = heaps["libc.malloc"]
        check("p8.malloc" not in heaps, "a ninth heap")
        check(malloc["unseen_allocator"] == "p8.malloc" and malloc["partial"], f"{malloc['unseen_allocator']}")


def test_uncounted_later():
    """A program that has restricted its system calls meanwhile gets none of the client: it has no memory for the heap of
    a library that is opened then, and the report says so."""
    with scene() as (daemon, directory):
        engine = library(directory)
        program = Opens(gcc_text(directory, "later", LATER, "-ldl"), engine, "engine_")
        session = Session(daemon, os.path.join(directory, "o"), "-p", str(program.pid))
        attached(daemon, program)
        program.tell("s0")
        program.open("o0", engine)
        program.tell("c100")
        check(session.end() == 0, session.stderr)
        check(not program.has_patched(engine), "the code is not as it was")
        check(program.end() == 0, "the program failed")
        heaps = {heap["heap"]: heap for heap in session.report()["heaps"]}
        malloc = heaps["libc.malloc"]
        check(HEAP not in heaps, "the heap is not counted")
        check(malloc["unseen_allocator"] == HEAP and malloc["partial"], f"{malloc['unseen_allocator']}")
        check(f"under another name ({HEAP})" in malloc["remark"], malloc["remark"])


# An allocator under a name that the profiler knows as malloc's.
KNOWN = [source("renamed_allocator.c"), "-DRENAMED(name)=je_##name", "-lpthread"]

CALLS_KNOWN = """
#include <stdio.h>
#include <string.h>
void *je_malloc(unsigned long size);
int main(void)
{
    puts("ready");
    fflush(stdout);
    getchar();
    for (int i = 0; i < 100; i++)
        je_malloc(1000);
    for (int i = 0; i < 50; i++)
        strdup("of the C library");
    puts("live");
    fflush(stdout);
    getchar();
    return 0;
}
"""


def test_known_prefix():
    """Functions that are the allocator's, because the profiler knows their prefix, are not a family as well. What the C
    library requests from its own malloc counts beside them."""
    with scene() as (daemon, directory):
        path = gcc_text(directory, "known", CALLS_KNOWN, *KNOWN, "-rdynamic")
        process = subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        check(process.stdout.readline() == b"ready\n", "not ready")
        heaps, _ = profile_calls(daemon, directory, process, "known")
        check(set(heaps) == {"libc.malloc"}, f"{set(heaps)}")
        malloc = heaps["libc.malloc"]
        check(malloc["exact_calls"] == 150, f"{malloc['exact_calls']} calls")
        check(malloc["exact_bytes"] == 100 * 1000 + 50 * 17 and not malloc["unseen"], f"{malloc['exact_bytes']} bytes: {malloc['remark']}")
        check("je.malloc" not in malloc["remark"], malloc["remark"])


def test_many_keys():
    """A program has thousands of names that end as a family's key does: its allocator is found all the same."""
    with scene() as (daemon, directory):
        keys = "".join(f".globl k{i}_mallocx\n.type k{i}_mallocx, @function\n.set k{i}_mallocx, one_mallocx\n" for i in range(20000))
        with open(os.path.join(directory, "keys.s"), "w") as file:
            file.write(".text\n.globl one_mallocx\n.type one_mallocx, @function\none_mallocx: ret\n" + keys)
        path = gcc_text(directory, "many_keys", CALLS_KNOWN, file.name, *KNOWN)
        process = subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        check(process.stdout.readline() == b"ready\n", "not ready")
        heaps, _ = profile_calls(daemon, directory, process, "many keys")
        check(set(heaps) == {"libc.malloc"}, f"{set(heaps)}")
        check(heaps["libc.malloc"]["exact_calls"] == 150, f"{heaps['libc.malloc']['exact_calls']} calls")


def test_opened_later_hosted():
    """Under host, a program with an allocator of its own is attached to at its start. A library's that it opens later
    is a heap, too."""
    with tempfile.TemporaryDirectory() as directory:
        engine, output = library(directory), os.path.join(directory, "o")
        program = Opens(*harness.host_command([gcc_text(directory, "later", LATER, *KNOWN, "-ldl"), engine, "engine_"], output, 1))
        program.tell("c0")
        program.pid = harness.find_descendant(program.pid, "later")
        program.open("o0", engine)
        program.tell("c100")
        check(program.end() == 0, "the program failed")
        heaps = {heap["heap"]: heap for heap in report_of(output)["heaps"]}
        total = heaps[HEAP]["total"]
        got = [total[name]["estimate"] for name in ("alloc_objects", "alloc_space", "space")]
        check(got == [100, 10000, 5000], f"{got}")
        check(HEAP in heaps["libc.malloc"]["remark"], heaps["libc.malloc"]["remark"])


def test_attached_while_opening():
    """The profiler attaches while the program opens a library. Afterwards only this one is new: the allocator's own
    library is not."""
    with scene() as (daemon, directory):
        engine = library(directory)
        own = [source("renamed_allocator.c"), "-DRENAMED(name)=own_##name", "-shared", "-fPIC", "-lpthread"]
        # An entry that is only a call cannot be patched.
        gcc_text(directory, "libown.so", "static volatile int calls;" + PROXY.replace("engine_", "own_").replace("{", "{ calls++;"), *own)
        flags = ["-L" + directory, "-Wl,--no-as-needed", "-lown", "-ldl", f"-Wl,-rpath,{directory}"]
        program = Opens(gcc_text(directory, "later", LATER, *flags), engine, "engine_")
        program.tell("l1")
        session = Session(daemon, os.path.join(directory, "o"), "-p", str(program.pid))
        attached(daemon, program)
        program.tell("l0")
        program.open("o0", engine)
        program.tell("c10")
        check(session.end() == 0, session.stderr)
        check(program.end() == 0, "the program failed")
        heaps = {heap["heap"]: heap for heap in session.report()["heaps"]}
        check(set(heaps) == {"libc.malloc", HEAP}, f"{set(heaps)}")
        malloc = heaps["libc.malloc"]
        check(not malloc["partial"], f"{malloc['partial']}")
        check("own.malloc" not in malloc["remark"], malloc["remark"])


THREADS_LATER = """
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
static void *(*allocate)(unsigned long);
static void (*release)(void *);
static volatile int stopping;
static volatile unsigned long rounds;
static void *work(void *argument)
{
    unsigned long wrong = 0;
    while (!stopping) {
        char *blocks[16];
        for (int i = 0; i < 16; i++)
            memset(blocks[i] = allocate(50 + i), i + (int)(long)argument, 50);
        for (int i = 0; i < 16; i++) {
            wrong += blocks[i][49] != i + (int)(long)argument;
            release(blocks[i]);
        }
        rounds++;
    }
    return (void *)wrong;
}
/* Commands: open the library and let threads use it; answer with the number of rounds; end the threads and close it,
 * and answer with the number of errors. */
int main(int argc, char **argv)
{
    pthread_t threads[4];
    void *library = 0;
    char command;
    while (scanf(" %c", &command) == 1) {
        unsigned long answer = rounds;
        if (command == 'o') {
            library = dlopen(argv[1], RTLD_NOW);
            allocate = (void *(*)(unsigned long))dlsym(library, "engine_malloc");
            release = (void (*)(void *))dlsym(library, "engine_free");
            answer = (unsigned long)allocate;
            stopping = 0;
            for (long i = 0; i < 4; i++)
                pthread_create(&threads[i], 0, work, (void *)(i * 16));
        }
        if (command == 'x') {
            answer = 0;
            stopping = 1;
            for (int i = 0; i < 4; i++) {
                void *wrong;
                pthread_join(threads[i], &wrong);
                answer += (unsigned long)wrong;
            }
            dlclose(library);
        }
        printf("%lx\\n", answer);
        fflush(stdout);
    }
    return 0;
}
"""


def test_threads_later():
    """Threads call a family while it is patched, and while the profiler leaves."""
    with scene() as (daemon, directory):
        engine = library(directory)
        program = Opens(gcc_text(directory, "threads_later", THREADS_LATER, "-ldl", "-lpthread"), engine)
        for number in range(5):
            session = Session(daemon, os.path.join(directory, f"o{number}"), "-p", str(program.pid), "-i", "4096")
            attached(daemon, program)
            program.open("o", engine)
            rounds = program.tell("r")
            wait_for("rounds", lambda: program.tell("r") > rounds + 100)
            check(session.end() == 0, session.stderr)
            left = harness.client_mappings(program.pid)
            check(not left, f"{number}: {left}")
            check(program.tell("x") == 0, f"{number}: blocks were changed")
            heap = {heap["heap"]: heap for heap in session.report()["heaps"]}[HEAP]
            check(heap["exact_calls"] >= 1600, f"{number}: {heap['exact_calls']} calls")
        check(program.end() == 0, "the program failed")


WRITABLE = """
#include <link.h>
#include <stdint.h>
#include <sys/mman.h>
void *engine_malloc(unsigned long size);
/* The loader makes this page read-only, and the library makes it writable again. */
void *(*const volatile table[])(unsigned long) __attribute__((section(".data.rel.ro"))) = {engine_malloc, 0};
__attribute__((constructor)) static void open_page(void)
{
    mprotect((void *)((uintptr_t)table & -4096ul), 4096, PROT_READ | PROT_WRITE);
}
void write_page(void) { *(void *volatile *)&table[1] = (void *)1; }
"""

WRITES = """
#include <dlfcn.h>
int main(int argc, char **argv)
{
    void *library = dlopen(argv[1], RTLD_NOW);
    void *(*allocate)(unsigned long) = (void *(*)(unsigned long))dlsym(library, "engine_malloc");
    ((void (*)(void))dlsym(library, "write_page"))();
    return allocate(100) == 0;
}
"""


def test_writable():
    """A page that the program keeps writable stays writable."""
    with tempfile.TemporaryDirectory() as directory:
        flags = ["-shared", "-fPIC", "-lpthread", "-Wl,-z,now"]
        opened = gcc_text(directory, "libwritable.so", WRITABLE, source("renamed_allocator.c"), *flags)
        _, heaps = host(directory, [gcc_text(directory, "writes", WRITES, "-ldl"), opened])
        total = heaps[HEAP]["total"]
        check(total["alloc_space"]["estimate"] == 100, f"{total}")


LOCKED = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <semaphore.h>
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static sem_t inside;
static int visit(struct dl_phdr_info *info, size_t size, void *context)
{
    sem_post(&inside);
    pthread_mutex_lock(&mutex);
    pthread_mutex_unlock(&mutex);
    return 1;
}
static void *iterate(void *argument)
{
    dl_iterate_phdr(visit, 0);
    return 0;
}
int main(int argc, char **argv)
{
    pthread_t thread;
    void *library = dlopen(argv[1], RTLD_NOW);
    for (int i = 0; i < 20; i++)
        dlsym(library, "engine_malloc");
    sem_init(&inside, 0, 0);
    pthread_mutex_lock(&mutex);
    pthread_create(&thread, 0, iterate, 0);
    sem_wait(&inside);
    void *found = dlsym(library, "engine_free"); /* while the other thread has the lock of the loader's list */
    pthread_mutex_unlock(&mutex);
    pthread_join(thread, 0);
    return found == 0;
}
"""


def test_locked():
    """dlsym takes no lock that it would not take without the profiler, unless the program has opened a library."""
    with tempfile.TemporaryDirectory() as directory:
        host(directory, [gcc_text(directory, "locked", LOCKED, "-ldl", "-lpthread"), library(directory)])


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
