#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Programs whose allocator is hard to find or not there: without symbols, of Go, for other machines.

    stripped.py CASE
"""

import errno
import json
import lzma
import os
import shutil
import struct
import sys
import tempfile

import harness
from attach import Other, attached
from daemon import Session, check_figure, heap_of, scene
from harness import TOOL, check, program, run


def built(*command):
    outcome = run(list(command))
    check(outcome.status == 0, f"{command}: {outcome.stderr[-300:]!r}")


def need_static():
    if not os.path.exists(program("commanded_static")):
        harness.skip("no static C library")
    harness.need("objcopy", "strip")


class Stripped:
    """Ways to strip a program and to keep its symbols elsewhere."""

    def __init__(self, directory, source):
        self.directory, self.source = directory, source
        self.debug = self.path("whole.debug")
        built("objcopy", "--only-keep-debug", source, self.debug)

    def path(self, name):
        return os.path.join(self.directory, name)

    def make(self, name, *options):
        built("strip", *options, "-o", self.path(name), self.source)
        return self.path(name)

    def named(self, name, debug):
        """The program names its debug file, which is in .debug beside it."""
        place = self.path(".debug")
        os.makedirs(place, exist_ok=True)
        path = self.make(name)
        shutil.copy(debug, os.path.join(place, name + ".debug"))
        built("objcopy", "--add-gnu-debuglink=" + os.path.join(place, name + ".debug"), path)
        return path

    def without_build_id(self, name):
        """The checksum of the debug file is all that identifies it."""
        path = self.path(name)
        built("objcopy", "--remove-section=.note.gnu.build-id", self.source, path + ".whole")
        built("objcopy", "--only-keep-debug", path + ".whole", path + ".debug")
        built("strip", "-o", path, path + ".whole")
        built("objcopy", "--add-gnu-debuglink=" + path + ".debug", path)
        return path

    def packed(self, name, section=None):
        """The program has its symbols in .gnu_debugdata, as Fedora's have."""
        path = self.make(name)
        if section is None:
            small = self.path(name + ".small")
            built("objcopy", "-S", "--wildcard", "--keep-symbol=*", self.debug, small)
            with open(small, "rb") as file:
                section = lzma.compress(file.read())
        with open(path + ".xz", "wb") as file:
            file.write(section)
        built("objcopy", "--add-section=.gnu_debugdata=" + path + ".xz", path)
        return path


def build_id(path):
    line = [l for l in run(["readelf", "-n", path]).stdout.decode().splitlines() if "Build ID" in l]
    return line[0].split()[-1]


def doctor(path, status, *words, **environment):
    outcome = run([TOOL, "doctor", "--", path], env={"DEBUGINFOD_URLS": "", **environment})
    check(outcome.status == status, f"doctor of {path}: {outcome.status}, {outcome.stdout.decode()}")
    for word in words:
        check(word in outcome.stdout.decode(), f"doctor of {path}: no {word!r} in {outcome.stdout.decode()}")


def test_found():
    """The allocator of a stripped static program is found in its debug file and in .gnu_debugdata."""
    need_static()
    with scene() as (daemon, directory):
        make = Stripped(directory, program("commanded_static"))
        paths = [make.named("named", make.debug), make.without_build_id("summed"), make.packed("packed")]
        programs = [Other(path, "hold 1 1") for path in paths]
        session = Session(daemon, os.path.join(directory, "o"), "-p", ",".join(str(one.pid) for one in programs))
        attached(daemon, *programs)
        for one in programs:
            one.tell("hold 10 1000")
        check(session.end() == 0, session.stderr)
        report = session.report()
        for path, one in zip(paths, programs):
            heap = heap_of(report, one.pid)
            check(heap["exact_bytes"] == 10000, f"{path}: {heap['exact_bytes']} bytes, {heap['remark']}")
            if not path.endswith("summed"):  # without a build id, no names are found
                check_figure(heap, "hold_block", "space", 10000)
            check(one.end() == 0, "the program failed")


JEMALLOC = "/usr/lib/x86_64-linux-gnu/libjemalloc_pic.a"


def test_own_allocator():
    """An allocator that a stripped program does not export is found in the debug file; else the report names that."""
    harness.need("objcopy", "strip")
    if not os.path.exists(JEMALLOC):
        harness.skip("no archive of jemalloc")
    with tempfile.TemporaryDirectory() as directory:
        source = os.path.join(harness.ROOT, "tests", "programs", "added_leak.c")
        whole = os.path.join(directory, "whole")
        built("gcc", "-g", "-O1", "-fno-builtin", "-Wl,--build-id", "-Wl,--exclude-libs,ALL", "-o", whole, source, JEMALLOC,
              "-lstdc++", "-lm", "-lpthread")
        make = Stripped(directory, whole)
        for path, leaked, words in (
            (make.named("named", make.debug), 20000, "attached to it"),
            (make.make("bare"), 0, f"its own allocator, which was not found: its symbols are stripped, and there is no debug "
             f"file /usr/lib/debug/.build-id/{build_id(whole)[:2]}"),
        ):
            output = path + ".o"
            check(run(harness.host_command([path, "100"], output, 1)).status == 0, f"{path} failed")
            report = json.loads(run([TOOL, "report", "--json", output]).stdout)
            held, heap = live_in(report, "the_leak")
            check(held == leaked, f"{path}: {held} bytes")
            check(words in heap["remark"], f"{path}: {heap['remark']}")


def facts(path, **environment):
    """Return what doctor's JSON says about a program."""
    outcome = run([TOOL, "doctor", "--json", "--", path], env={"DEBUGINFOD_URLS": "", **environment})
    found = json.loads(outcome.stdout)
    check(found["works"] == (outcome.status == 0), f"doctor of {path}: {outcome.status}, {found}")
    check(all(one["finding"] in ("ok", "note", "no") and one["text"] for one in found["program"]["findings"]), f"{found}")
    return found["program"]


def check_ways(make, named):
    """doctor names the way in which a program is profiled, and where its allocator was found."""
    interpreter = os.path.realpath(sys.executable)
    for path, *expected in (
        (program("commanded_static"), "attach_at_start", "malloc", "symbols"),
        (make.packed("ways"), "attach_at_start", "malloc", "gnu_debugdata"),
        (named, "attach_at_start", "malloc", "debug_file"),
        (make.make("without"), "none", None, None),
        (program("commanded"), "preload", None, None),
        (interpreter, "preload", None, None),
    ):
        found = facts(path)
        check([found[key] for key in ("way", "allocator", "allocator_found_in")] == expected, f"{path}: {found}")
    check(facts(named)["debug_file"] == os.path.join(make.directory, ".debug/right.debug"), f"{facts(named)}")
    check(facts(interpreter)["cpython_minor"] == sys.version_info[1], f"{facts(interpreter)}")


def check_servers(directory, path, ident, debug):
    """doctor asks the user's debuginfod servers, whose client allows directories."""
    if not os.path.exists("/usr/lib/x86_64-linux-gnu/libdebuginfod.so.1"):
        print("libdebuginfod is not installed")
        return
    place = os.path.join(directory, "server", "buildid", ident)
    os.makedirs(place)
    shutil.copy(debug, os.path.join(place, "debuginfo"))
    servers = {"DEBUGINFOD_URLS": f"file://{directory}/server", "DEBUGINFOD_CACHE_PATH": f"{directory}/fetched"}
    found = run([TOOL, "doctor", "--", path], env=servers)
    check(b"was not found" not in found.stdout, f"the server is not asked: {found.stdout.decode()}")
    output = os.path.join(directory, "fetched.o")
    done = run(harness.host_command([path], output, 1), stdin=b"hold 10 1000\n", env=servers)
    held, _ = live_in(json.loads(run([TOOL, "report", "--json", output]).stdout), "hold_block")
    check(done.status == 0 and held == 10000, f"hold_block has {held} bytes, with names from debuginfod's cache")


def test_missing():
    """What is missing is named. Debug files of other builds, damaged ones, and bombs are refused."""
    need_static()
    with tempfile.TemporaryDirectory() as directory:
        make = Stripped(directory, program("commanded_static"))
        path, ident = make.make("plain"), build_id(make.debug)
        expected = f"there is no debug file /usr/lib/debug/.build-id/{ident[:2]}/{ident[2:]}.debug ("
        doctor(path, 1, expected, "DEBUGINFOD_URLS")
        # Whatever the cache of debuginfod has.
        cache = os.path.join(directory, "cache")
        os.makedirs(os.path.join(cache, ident))
        kept = os.path.join(cache, ident, "debuginfo")
        shutil.copy(make.debug, kept)
        found = run([TOOL, "doctor", "--", path], env={"DEBUGINFOD_URLS": "", "DEBUGINFOD_CACHE_PATH": cache})
        check(b"was not found" not in found.stdout, f"the cache is not used: {found.stdout.decode()}")
        with open(kept, "r+b") as file:
            file.truncate(200)
        doctor(path, 1, "is the debug file of another build", DEBUGINFOD_CACHE_PATH=cache)
        with open(kept, "w"):
            pass
        doctor(path, 1, expected, DEBUGINFOD_CACHE_PATH=cache)

        check_ways(make, make.named("right", make.debug))
        check_servers(directory, path, ident, make.debug)
        other = os.path.join(directory, "other.debug")
        built("objcopy", "--only-keep-debug", TOOL, other)
        wrong = make.named("wrong", other)
        doctor(wrong, 1, "wrong.debug is the debug file of another build")
        if os.getuid() == 0:
            # A user's program does not make root read what only root may read.
            secret = make.named("secret", make.debug)
            os.chmod(os.path.join(directory, ".debug", "secret.debug"), 0o600)
            doctor(secret, 0)
            os.chown(secret, 12345, 12345)
            doctor(secret, 1, expected)
        for name, section in (
            ("bomb", lzma.compress(bytes(80 << 20), preset=0)),
            ("cut", lzma.compress(b"\x7fELF" + bytes(5000))[:60]),
            ("garbage", os.urandom(5000)),
            ("no_elf", lzma.compress(bytes(5000))),
        ):
            doctor(make.packed(name, section), 1, expected)


GO = """\
package main

import (
	"os"
	"runtime"
	"runtime/pprof"
)

var kept [][]byte

func hold() {
	for i := 0; i < 1000; i++ {
		kept = append(kept, make([]byte, 1024))
	}
}

func main() {
	runtime.MemProfileRate = 1
	hold()
	file, _ := os.Create(os.Args[1])
	pprof.WriteHeapProfile(file)
}
"""

CGO = """\
package main

/*
#include <stdlib.h>
#include <string.h>
__attribute__((noinline)) void *the_c_block(size_t bytes) { return memset(malloc(bytes), 1, bytes); }
*/
import "C"

func main() {
	for i := 0; i < 100; i++ {
		C.the_c_block(1000)
	}
}
"""


def live_in(report, function):
    """Return the bytes that a function holds in the only heap."""
    (heap,) = report["heaps"]
    return sum(site["space"]["estimate"] for site in heap["callsites"] if function in (f["name"] for f in site["frames"])), heap


def test_go():
    """Go programs are sent to Go's own profiler, whose files report opens. The C code in them is profiled."""
    harness.need("go", "gcc")
    with tempfile.TemporaryDirectory() as directory:
        environment = {**os.environ, "GOCACHE": os.path.join(directory, "cache"), "GOFLAGS": ""}
        for name, source in (("pure", GO), ("mixed", CGO)):
            with open(os.path.join(directory, name + ".go"), "w") as file:
                file.write(source)
            done = run(["go", "build", "-ldflags=-s -w", "-o", name, name + ".go"], cwd=directory, env=environment)
            if done.status != 0:
                harness.skip(f"Go builds nothing here: {done.stderr[-200:]!r}")
        pure, mixed = os.path.join(directory, "pure"), os.path.join(directory, "mixed")
        saved = os.path.join(directory, "heap.pb.gz")
        doctor(pure, 1, "is a static Go program", "runtime/pprof")
        check(facts(pure)["is_go"] and facts(mixed)["way"] == "preload", f"{facts(pure)}, {facts(mixed)}")
        output = os.path.join(directory, "o")
        check(run(harness.host_command([pure, saved], output, 1)).status == 0, "the Go program failed")
        check(b"is a static Go program" in run([TOOL, "report", output]).stdout, "the report says nothing of Go")
        bytes_held, _ = live_in(json.loads(run([TOOL, "report", "--json", saved]).stdout), "main.hold")
        # Beside the blocks, there are the slices that listed them.
        check(1024000 <= bytes_held < 1300000, f"main.hold has {bytes_held} bytes")
        output = os.path.join(directory, "mixed.o")
        check(run(harness.host_command([mixed], output, 1)).status == 0, "the program with C code failed")
        bytes_held, heap = live_in(json.loads(run([TOOL, "report", "--json", output]).stdout), "the_c_block")
        check(bytes_held == 100000, f"the_c_block has {bytes_held} bytes")
        check("Go's own heap, which is not in this profile" in heap["remark"], heap["remark"])


def elf(machine, bits=64, big_endian=False, interpreter=b""):
    """Return a program for another machine: the header, and a segment with the interpreter's name."""
    order = ">" if big_endian else "<"
    head = b"\x7fELF" + bytes([bits // 32, 1 + big_endian, 1]) + bytes(9)
    if bits == 64:
        return head + struct.pack(order + "HHIQQQIHHHHHH", 2, machine, 1, 0x10000, 64, 0, 0, 64, 56, 0, 64, 0, 0)
    return head + struct.pack(order + "HHIIIIIHHHHHH", 2, machine, 1, 0x10000, 52, 0, 0, 52, 32, 0, 40, 0, 0)


MACHINES = {
    "i386": (elf(3, 32), "32-bit x86 (i386)"),
    "x32": (elf(62, 32), "x32"),
    "armhf": (elf(40, 32), "32-bit ARM"),
    "riscv64": (elf(243), "64-bit RISC-V"),
    "s390x": (elf(22, big_endian=True), "64-bit s390, big-endian"),
    "ppc64": (elf(21, big_endian=True), "64-bit PowerPC, big-endian"),
    "unknown": (elf(0x1234), "ELF machine 4660"),
}


# A dynamic program of i386, of which only the loader and the C library have to be there.
I386 = """\
int puts(const char *);
void *malloc(unsigned);
void exit(int);
void _start(void)
{
    char *text = malloc(100);
    text[0] = 'h', text[1] = 'i', text[2] = 0;
    puts(text);
    exit(3);
}
"""
I386_LIBC = "/lib32/libc.so.6"


def check_start(directory, foreign):
    """host does not run a program that the kernel refuses as a script. A 32-bit program runs as without a profiler,
    and the empty profile says why it is empty."""
    output = os.path.join(directory, "o")
    done = run(harness.host_command([foreign], output, 1))
    check(done.status == 126 and b"is a program for ELF machine 4660, and" in done.stderr, f"{done.status}, {done.stderr!r}")
    source, path = os.path.join(directory, "i386.c"), os.path.join(directory, "small")
    with open(source, "w") as file:
        file.write(I386)
    if not os.path.exists(I386_LIBC) or run(["gcc", "-m32", "-nostdlib", "-fno-builtin", "-fno-stack-protector", "-no-pie",
                                             "-Wl,--dynamic-linker=/lib/ld-linux.so.2", "-o", path, source, I386_LIBC]).status:
        print("no i386 program can be made here")
        return
    try:
        bare = run([path])
    except OSError as error:
        check(error.errno == errno.ENOEXEC, f"{error}")
        print("this kernel runs no 32-bit program")
        return
    check(bare.status == 3 and bare.stdout == b"hi\n", f"{bare.status}, {bare.stdout!r}")
    done = run(harness.host_command([path], output, 1))
    done.check_same(bare, "a 32-bit program")
    check(b"ERROR" not in done.stderr, f"its loader complains: {done.stderr!r}")
    report = run([TOOL, "report", output]).stdout
    check(b"is a program for 32-bit x86 (i386), and" in report, f"{report!r}")


def test_other_machines():
    """Programs for other machines are refused in one sentence that names the machine."""
    with tempfile.TemporaryDirectory() as directory:
        for name, (content, words) in MACHINES.items():
            path = os.path.join(directory, name)
            with open(path, "wb") as file:
                file.write(content)
            os.chmod(path, 0o755)
            doctor(path, 1, f"{path} is a program for {words}, and")
        script = os.path.join(directory, "script")
        with open(script, "w") as file:
            file.write(f"#!{os.path.join(directory, 's390x')}\n")
        os.chmod(script, 0o755)
        check_start(directory, os.path.join(directory, "unknown"))
        doctor(script, 1, "is a program for 64-bit s390, big-endian, and")


if __name__ == "__main__":
    harness.main()
