#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The heap libc.mmap: memory that programs map themselves, each behaviour by its name.

    mmap_heap.py CASE

A program with known figures (tests/programs/mappings.c), and real ones, whose true figures come from
strace: it prints for each call what was mapped, and the caller.
"""

import glob
import os
import re
import subprocess
import tempfile

import harness
from daemon import LIBRARY, PATIENCE, Session, figure, report_of, scene, wait_for
from harness import check, need, program, run

PAGE = os.sysconf("SC_PAGESIZE")
HEAP = "libc.mmap"
MAPPINGS = program("mappings")


def heap_of(report, name=HEAP):
    found = [heap for heap in report["heaps"] if heap["heap"] == name]
    return found[-1] if found else None


def check_total(heap, what, **wanted):
    if not check(heap is not None, f"{what}: no such heap"):
        return
    for name, value in wanted.items():
        got = heap[name] if name.startswith("exact") else heap["total"][name]["estimate"]
        check(got == value, f"{what}: {name} is {got}, truth {value}")
    lost = {reason: count for reason, count in heap["lost"].items()
            if count and reason not in harness.INCOMPLETE}
    check(not lost, f"{what}: lost {lost}. {heap['remark']}")
    check(heap["interval_bytes"] == 1, f"{what}: interval {heap['interval_bytes']}")


def profiled(command, *options, interval=1000000, **run_options):
    """Profile the program. Return its outcome, which must equal the bare one's, and the report."""
    bare = run(command, **run_options)
    with tempfile.TemporaryDirectory(prefix="test-") as directory:
        output = os.path.join(directory, "profile")
        ours = run(harness.host_command(command, output, interval, *options), **run_options)
        ours.check_same(bare, os.path.basename(command[0]), stderr=False)
        return ours, report_of(output)


def check_sites(heap, pages):
    """Return {function: (live bytes in pages, live count, count of all)}."""
    for function, (live, objects, all_objects) in pages.items():
        got = tuple(figure(heap, function, name)
                    for name in ("space", "objects", "alloc_objects"))
        truth = (live * PAGE, objects, all_objects)
        check(got == truth, f"{function}: {got}, truth {truth}")


# --- known figures ---

WAYS = {
    "kept_whole": (9, 2, 2),
    "unmapped_whole": (0, 0, 1),
    "cut_at_both_ends": (85, 1, 1),
    "split": (25, 1, 1),
    "reserved": (80, 1, 1),
    "spanned_first": (6, 1, 1),
    "spanned_second": (7, 1, 1),
    "grown": (400, 1, 2),
    "shrunk": (4, 1, 2),
    "moved_over": (9 - 5 + 5, 2, 3),
    "left_mapped": (12, 2, 2),
    "mapped_twice": (16, 2, 2),
    "failed": (11, 1, 2),
    "of_file": (5, 2, 2),
    "of_break": (50000 / PAGE, 1, 2),
}


def check_ways(report, what):
    heap = heap_of(report)
    check_sites(heap, WAYS)
    others = [site["frames"][0]["name"] for site in heap["callsites"]
              if site["frames"][0]["name"] not in WAYS]
    check(not others, f"{what}: other functions map: {others}")
    check_total(heap, what, objects=sum(count for _, count, _ in WAYS.values()),
                space=sum(pages for pages, _, _ in WAYS.values()) * PAGE,
                exact_calls=sum(count for _, _, count in WAYS.values()))


def test_kinds_of_calls():
    """Ranges are cut, split, spanned, mapped over and moved; failed calls change nothing."""
    _, report = profiled([MAPPINGS, "ways"], "--heaps", HEAP)
    check({heap["heap"] for heap in report["heaps"]} == {HEAP}, "that heap alone")
    check_ways(report, "ways")


def test_off_by_default():
    for options in ((), ("--all-heaps",), ("--heaps", "libc.malloc"),
                    ("--heaps", HEAP + ",libc.malloc", "--exclude-heaps", HEAP)):
        _, report = profiled([MAPPINGS, "ways"], *options)
        names = {heap["heap"] for heap in report["heaps"]}
        check(HEAP not in names and "libc.malloc" in names, f"{options}: {names}")


def test_beside_malloc():
    """libc.mmap is profiled besides malloc, which has its own interval, and with all heaps."""
    for options in (("--heaps", "libc.malloc,libc.mmap"), ("--all-heaps", "--heaps", HEAP),
                    ("--heaps", "libc.malloc,libc.mmap", "--heap-intervals", "300,1")):
        _, report = profiled([MAPPINGS, "ways"], *options, interval=300)
        check_ways(report, " ".join(options))
        malloc = heap_of(report, "libc.malloc")
        check(malloc and malloc["interval_bytes"] == 300, f"{options}: malloc's interval")
    refused = run(harness.host_command([MAPPINGS, "ways"], "/dev/null", 300, "--heaps",
                                       "libc.mmap", "--heap-intervals", "300"))
    check(refused.status != 0 and b"recorded in full" in refused.stderr, f"{refused.stderr!r}")


def test_threads():
    """Threads take each other's addresses as soon as these are free."""
    _, report = profiled([MAPPINGS, "threads"], "--heaps", HEAP)
    check_sites(heap_of(report),
                {"kept_by_thread": (128, 128, 160000), "passing": (0, 0, 160000)})
    check_total(heap_of(report), "threads", objects=128, exact_calls=320000)


def test_signals():
    """A signal handler that maps memory may interrupt any of these calls."""
    with tempfile.TemporaryDirectory(prefix="test-") as directory:
        output = os.path.join(directory, "profile")
        outcome = run(harness.host_command([MAPPINGS, "signals"], output, 1, "--heaps", HEAP))
        check(outcome.status == 0, f"status {outcome.status}")
        handled = int(outcome.stdout.split()[0])
        heap = heap_of(report_of(output))
        check(figure(heap, "in_handler", "objects") == handled, f"{handled} in the handler")
        check_total(heap, "signals", objects=handled, space=handled * PAGE)


def test_children():
    """A vfork child's mappings are its parent's; a fork child's are not."""
    _, report = profiled([MAPPINGS, "children"], "--heaps", HEAP)
    check_sites(heap_of(report), {"of_parent": (15, 1, 1), "of_child": (33, 1, 1)})
    _, report = profiled([MAPPINGS, "children"], "--heaps", HEAP, "--follow-children")
    heaps = [heap for heap in report["heaps"] if heap["heap"] == HEAP]
    live = sorted(heap["total"]["space"]["estimate"] / PAGE for heap in heaps)
    check(live == [33, 48], f"the fork child lacks its own mappings: {live}")


def test_failing_munmap():
    """An munmap fails because it would need one more mapping; nothing changes."""
    outcome, report = profiled([MAPPINGS, "full"], "--heaps", HEAP)
    reason, unmapped = (int(word) for word in outcome.stdout.split()[:2])
    check(reason == 12, f"refused with {reason}")
    check_sites(heap_of(report), {"as_many_as_can_be": (400000 - unmapped, 1, 1)})


def test_restricted():
    """A program is profiled that would be killed for any system call except mmap and munmap."""
    _, report = profiled([MAPPINGS, "restricted"], "--heaps", HEAP)
    check_sites(heap_of(report), {"before_filter": (20, 10, 10), "behind_filter": (200, 100, 100)})
    check_total(heap_of(report), "restricted", exact_calls=110)


def test_sessions():
    """A program notices invitations when it maps memory. Each of several sessions has the mappings of its
    own time."""
    with scene() as (daemon, directory):
        process = subprocess.Popen(
            [MAPPINGS, "told"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0,
            env={**daemon.environment, "LD_PRELOAD": LIBRARY},
        )

        def tell(word, answer=b"ready\n"):
            process.stdin.write(word.encode() + b"\n")
            check(process.stdout.readline() == answer, f"its answer to {word}")

        def begin(number, heaps):
            return Session(daemon, os.path.join(directory, f"profile{number}"), "-p",
                           str(process.pid), "--heaps", heaps)

        def finish(session):
            wait_for("joining", lambda: process.pid in daemon.profiled_pids())
            check(session.end() == 0, session.stderr)
            return session.report()

        check(process.stdout.readline() == b"ready\n", "it runs")
        first = begin(1, HEAP)
        for word in ("map", "halve", "halve", "map", "halve"):
            tell(word)
        check_total(heap_of(finish(first)), "first", space=48 * PAGE, objects=2,
                    alloc_space=128 * PAGE, max=80 * PAGE)
        tell("map")  # at this call it notices the session's end
        second = begin(2, "libc.malloc," + HEAP)
        for word in ("halve", "map", "halve"):
            tell(word)
        check_total(heap_of(finish(second)), "second", space=32 * PAGE, objects=1,
                    alloc_space=64 * PAGE, max=64 * PAGE)
        tell("map")
        third = begin(3, "libc.malloc")
        tell("map")
        check(heap_of(finish(third)) is None, "the third did not ask for it")
        tell("end", b"done\n")
        check(process.wait(PATIENCE) == 0, "the program's end")


# --- real programs ---


def rounded(size):
    return (size + PAGE - 1) // PAGE * PAGE


class Truth:
    """The program's own mappings of one executed program, by page, as strace saw them."""

    def __init__(self, allocator):
        self.allocator, self.pages, self.owners = allocator, {}, {}
        self.bytes = self.calls = self.of_allocator = 0
        self.heap_end = None

    def unmap(self, address, size):
        for page in range(address // PAGE, (address + rounded(size)) // PAGE):
            owner = self.pages.pop(page, None)
            if owner is not None:
                self.owners[owner] -= 1

    def map(self, address, size):
        self.unmap(address, size)
        self.calls += 1
        self.bytes += rounded(size)
        self.owners[self.calls] = rounded(size) // PAGE
        for page in range(address // PAGE, (address + rounded(size)) // PAGE):
            self.pages[page] = self.calls

    def live(self):
        return len(self.pages) * PAGE, sum(1 for pages in self.owners.values() if pages)

    def called_by_program(self, frames):
        """Return whether the program called the C library's function, not the kernel, and not the library itself."""
        if not frames or "/libc.so" not in frames[0]:
            return False
        callers = [frame for frame in frames[1:] if "/libheapprofd_preload.so" not in frame]
        if self.allocator and callers and self.allocator in callers[0]:
            self.of_allocator += 1
            return False
        return bool(callers) and "/libc.so" not in callers[0]

    def take(self, name, arguments, result, frames):
        value = int(result, 16) if result.startswith("0x") else 0
        words = arguments.split(", ")
        if name == "brk":
            own, before, self.heap_end = self.called_by_program(frames), self.heap_end, value
            check(not own or before == value, "a program that moves its break itself")
        elif not self.called_by_program(frames):
            return
        elif name == "mmap":
            self.map(value, int(words[1]))
        elif name == "munmap":
            self.unmap(int(words[0], 16), int(words[1]))
        else:
            if "DONTUNMAP" not in words[3]:
                self.unmap(int(words[0], 16), int(words[1]))
            self.map(value, int(words[2]))


CALL = re.compile(r"(\w+)\((.*)\) += (0x[0-9a-f]+|0)$")


def read_strace(path, allocator):
    """Return the true figures of the last program that a process executed."""
    truth, call, frames = Truth(allocator), None, []

    def finish():
        nonlocal truth
        if call is not None and call[0] == "execve":
            truth = Truth(allocator)
        elif call is not None:
            truth.take(*call, frames)

    with open(path) as file:
        for line in file:
            if line.startswith(" > "):
                frames.append(line)
                continue
            finish()
            match = CALL.match(line.rstrip())
            call, frames = match and match.groups(), []
    finish()
    return truth


def against_strace(command, allocator=None, shared=False, **run_options):
    """Compare a program's output with the bare run, and its exact figures with strace's of the same run.

    Live figures are compared if a single thread maps, and no others unmap its memory (shared): strace's
    files have no order between threads."""
    need("strace")
    bare = run(command, **run_options)
    with tempfile.TemporaryDirectory(prefix="test-") as directory:
        output, traces = os.path.join(directory, "profile"), os.path.join(directory, "strace")
        host = harness.host_command(command, output, 1000000, "--heaps", HEAP)
        ours = run(["strace", "-ff", "-k", "-qq", "-e", "trace=mmap,munmap,mremap,brk,execve",
                    "-e", "signal=none", "-o", traces, *host], **run_options)
        ours.check_same(bare, os.path.basename(command[0]), stderr=False)
        heap = heap_of(report_of(output))
        check(heap is not None, f"{command}: no such heap")
        truth = read_strace(f"{traces}.{heap['pid']}", allocator)
        space, objects = truth.live()
        live = {} if shared else {"space": space, "objects": objects}
        for thread in heap["threads"] if truth.calls != heap["exact_calls"] else ():
            if thread["tid"] != heap["pid"]:
                other = read_strace(f"{traces}.{thread['tid']}", allocator)
                truth.calls, truth.bytes = truth.calls + other.calls, truth.bytes + other.bytes
                live = {}
        if truth.calls == 0:
            check(heap["exact_calls"] == heap["heap_samples"] == 0, f"{command}: no mappings")
            return heap, truth
        check_total(heap, command[0], exact_bytes=truth.bytes, exact_calls=truth.calls,
                    alloc_space=truth.bytes, alloc_objects=truth.calls, **live)
        return heap, truth


def test_sqlite3():
    """sqlite3 maps its database, and maps it again as it grows."""
    need("sqlite3")
    with tempfile.TemporaryDirectory(prefix="test-") as directory:
        database = os.path.join(directory, "data.db")
        script = "PRAGMA mmap_size=67108864; CREATE TABLE t(x); WITH RECURSIVE n(i) AS " \
                 "(SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<20000) INSERT INTO t SELECT " \
                 "hex(zeroblob(50)) FROM n; SELECT count(*), sum(length(x)) FROM t; " \
                 "DROP TABLE t; VACUUM;"
        heap, _ = against_strace(["sqlite3", database, script])
        check(heap and heap["total"]["alloc_space"]["estimate"] > 1 << 20, "it maps megabytes")


def test_python3():
    """python3 maps its arenas, and memory by the module mmap."""
    script = "import mmap\nmaps = [mmap.mmap(-1, 50000 + i) for i in range(30)]\n" \
             "maps[3].resize(900000)\nfor one in maps[10:]:\n    one.close()\n" \
             "things = [[i] for i in range(200000)]\nprint(len(maps), len(things))\ndel things\n"
    heap, _ = against_strace(["/usr/bin/python3", "-c", script], env={"PYTHONHASHSEED": "0"})
    names = {frame["name"] for site in heap["callsites"] for frame in site["frames"][:2]}
    check(heap["total"]["alloc_objects"]["estimate"] > 31, f"30 maps, and arenas: {names}")


def test_git():
    """git maps packs and the index."""
    need("git")
    with tempfile.TemporaryDirectory(prefix="test-") as directory:
        environment = {"HOME": directory, "GIT_CONFIG_NOSYSTEM": "1"}

        def do(*words):
            name = ["-c", "user.name=a", "-c", "user.email=a@b"]
            outcome = run(["git", *name, *words], cwd=directory, env=environment)
            check(outcome.status == 0, f"git {words}: {outcome.stderr!r}")

        do("init", "-q")
        for number in range(30):
            with open(os.path.join(directory, f"file{number}"), "w") as file:
                file.write(f"line {number}\n" * 2000)
            do("add", "-A")
            do("commit", "-q", "-m", f"number {number}")
        do("repack", "-adq")
        for words in (["rev-list", "--objects", "--all"], ["status", "--short"],
                      ["log", "--stat", "--no-color"]):
            heap, _ = against_strace(["git", *words], cwd=directory, env=environment)
            check(heap and heap["total"]["alloc_objects"]["estimate"] > 0, f"git {words} maps")


def test_node():
    """node has threads, and a runtime that maps its heaps itself."""
    need("node")
    script = "const all = [];\nfor (let i = 0; i < 60000; i++) all.push({i});\n" \
             "console.log(all.length);"
    heap, _ = against_strace(["node", "-e", script], shared=True)
    check(heap and heap["total"]["alloc_space"]["estimate"] > 1 << 24, "it maps megabytes")


def test_allocators():
    """Mappings of jemalloc, mimalloc and tcmalloc themselves do not count; the program's do, under each
    of them."""
    seen = 0
    for name in ("jemalloc", "mimalloc", "tcmalloc"):
        command = [program(f"ground_truth_{name}"), "/dev/stdout", "2", "5"]
        if not os.path.exists(command[0]):
            print(f"built without {name}")
            continue
        _, truth = against_strace(command, "/lib" + name)
        check(truth.calls == 0, f"{name}: {truth.calls} mappings")
        seen += truth.of_allocator
    check(seen > 0, "no thread maps through the C library")
    for name in ("libjemalloc.so.2", "libtcmalloc_minimal.so.4", "libtcmalloc.so.4",
                 "libmimalloc.so.2"):
        paths = glob.glob(f"/usr/lib/*/{name}")
        if not paths:
            print(f"{name} is not installed")
            continue
        _, report = profiled([MAPPINGS, "ways"], "--heaps", "libc.malloc,libc.mmap",
                             env={"LD_PRELOAD": paths[0]})
        if name == "libtcmalloc.so.4":  # has its own mmap, and a libunwind that maps
            check_sites(heap_of(report), WAYS)
        else:
            check_ways(report, name)


def test_redis():
    """A server with jemalloc is profiled."""
    from real_programs import serve_redis

    need("redis-server", "redis-benchmark", "redis-cli")
    with tempfile.TemporaryDirectory(prefix="test-") as directory:
        bare = serve_redis(directory, [])
        output = os.path.join(directory, "profile")
        ours = serve_redis(directory, harness.host_command([], output, 1000000, "--heaps",
                                                           "libc.malloc,libc.mmap"))
        check(ours == bare and bare[0] == 0, f"redis: {ours}, bare {bare}")
        report = report_of(output)
        check(heap_of(report, "libc.malloc") is not None, "malloc is profiled")
        for heap in report["heaps"]:
            for site in heap["callsites"] if heap["heap"] == HEAP else []:
                check("jemalloc" not in site["frames"][0]["mapping"], f"{site['frames'][:3]}")


if __name__ == "__main__":
    harness.limit_core_dumps()
    harness.main()
