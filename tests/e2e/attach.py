#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Attaching to processes that were started without the profiler works, is exact, and leaves no trace.

    attach.py CASE
"""

import ctypes
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import daemon as daemon_tests
import harness
from blocking_file import FLUSH, BlockingFile
from daemon import Commanded, Session, check_figure, figure, heap_of, own_name, report_of, scene, wait_for
from harness import TOOL, check, program, run

CYCLES = int(os.environ.get("HEAPPROFD_CYCLES", "40" if harness.LONG else "15"))


def maps_of(pid):
    """Return the mappings, without those that the program itself may change, its heap and stacks, and without
    the page that stays in Python programs."""
    with open(f"/proc/{pid}/maps") as maps:
        lines = [line.split() for line in maps if "memfd:heapprofd_calls" not in line]
    return sorted((l[0], l[1], l[5]) for l in lines if len(l) > 5 and l[5].startswith("/"))


def code_of(pid):
    """Return a digest of every executable mapping of a file, except the client's."""
    digest = hashlib.sha256()
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb") as memory:
        for line in maps:
            parts = line.split()
            if len(parts) < 6 or "x" not in parts[1] or not parts[5].startswith("/"):
                continue
            if "memfd:heapprofd" in parts[5]:
                continue
            start, end = (int(number, 16) for number in parts[0].split("-"))
            memory.seek(start)
            digest.update(memory.read(end - start))
    return digest.hexdigest()


def status_of(pid, field):
    with open(f"/proc/{pid}/status") as status:
        return int(re.search(rf"^{field}:\s+(\d+)", status.read(), re.M).group(1))


def descriptors_of(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def profile(pid, directory, *options, environment=None):
    """Run one session of heap_profile -p. Return its outcome and its report (None if there is none)."""
    output = tempfile.mkdtemp(dir=directory)
    outcome = run([TOOL, "-p", str(pid), "-o", output, *options], env=environment)
    trace = os.path.join(output, "raw-trace")
    return outcome, report_of(trace) if os.path.exists(trace) else None


def remark_of(report, pid):
    heap = heap_of(report, pid)
    return heap["remark"] if heap else ""


class Bare(Commanded):
    """Start a program that obeys commands and is not linked to our library."""

    def __init__(self, daemon, name=None, directory=None):
        super().__init__(daemon.environment, name, directory, preload=False)


class Other(Commanded):
    """Start another program that obeys commands. The first command proves that it has begun."""

    def __init__(self, path, command, cwd=None):
        arguments = [path] if isinstance(path, str) else path
        self.process = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, cwd=cwd)
        self.pid = self.process.pid
        self.tell(command)


def attached(daemon, *processes):
    return wait_for(
        "attaching", lambda: {p.pid for p in processes} <= daemon.profiled_pids()
    )


def test_exact():
    """The profile is exact to the byte and the call; afterwards code and mappings are as before."""
    with scene() as (daemon, directory):
        process = Bare(daemon)
        maps, code = maps_of(process.pid), code_of(process.pid)
        session = Session(daemon, os.path.join(directory, "o"), "-p", str(process.pid))
        attached(daemon, process)
        check(code_of(process.pid) != code, "the code is patched meanwhile")
        process.tell("hold 1000 100")
        process.tell("churn 5000 64")
        check(session.end() == 0, session.stderr)
        heap = heap_of(session.report(), process.pid)
        for figure, truth in (("space", 100000), ("objects", 1000)):
            check_figure(heap, "hold_block", figure, truth)
        for figure, truth in (("alloc_space", 320000), ("alloc_objects", 5000), ("space", 0)):
            check_figure(heap, "churn_block", figure, truth)
        check(heap["exact_bytes"] == 420000, f"exact bytes {heap['exact_bytes']}")
        check(heap["exact_calls"] == 6000, f"exact calls {heap['exact_calls']}")
        check(code_of(process.pid) == code, "the code is as it was")
        check(maps_of(process.pid) == maps, "the mappings are as they were")
        process.tell("churn 1000 100")
        check(process.end() == 0, "the program failed")


def check_agreement(directory, what):
    """Check that at interval 1 each dump has one sample for each call that its exact totals count. Return the number
    of dumps with calls: a process that gets no processor makes none."""
    report = lambda *options: json.loads(run([TOOL, "report", "--json", *options, directory]).stdout)["heaps"]
    decided = 0
    for number in range(1, max((heap["dumps"] for heap in report()), default=0) + 1):
        for heap in report("--dump", str(number)):
            calls = heap["exact_calls"] or 0  # None: unknown, for no call was seen
            gap = [0, calls - heap["total"]["samples"]]
            if calls > 0:
                gap = [heap["agreement"]["missing_" + unit] for unit in ("bytes", "calls")]
                decided += 1
            check(gap == [0, 0], f"{what}: dump {number} lacks {gap} of {heap['exact_bytes']}: {heap['lost']}")
    return decided


def test_agreement():
    """Totals and samples show the same moment: while threads allocate, at the session's end, at a kill."""
    options = ("-i", "1", "-c", "100", "--quiet")
    busy = [program("busy_threads"), "8", "600"]
    with tempfile.TemporaryDirectory() as directory:
        process = subprocess.Popen(busy, stdout=subprocess.PIPE)
        process.stdout.readline()
        try:
            decided, cycle = 0, 0
            while cycle < 2 or (decided < 4 and cycle < 10):
                output = os.path.join(directory, str(cycle))
                outcome = run([TOOL, "-p", str(process.pid), "-d", "120", "-o", output, *options])
                check(outcome.status == 0, f"-p: {outcome.status}, {outcome.stderr!r}")
                decided += check_agreement(output, "attached")
                cycle += 1
            check(decided >= 4, f"attached: {decided} dumps have calls")
        finally:
            process.kill()
            process.wait()
        for cycle in range(2):
            output = os.path.join(directory, "host" + str(cycle))
            killed = ["timeout", "-s", "KILL", str(harness.SLOWNESS), *busy]
            run([TOOL, "host", "-n", "busy_threads", "-o", output, *options, "--", *killed])
            check(check_agreement(output, "killed") > 1, "killed: dumps have calls")
        output = os.path.join(directory, "churn")
        run([TOOL, "host", "-i", "1", "-c", "40", "--quiet", "-o", output, "--", program("threads_churn")])
        check(check_agreement(output, "threads that come and go") > 1, "no dump has calls while threads start and end")


def test_by_name_from_its_start():
    """A program that starts during the session, without our library, is found and attached to."""
    with scene() as (daemon, directory):
        session = Session(daemon, os.path.join(directory, "o"), "-n", own_name("newcomer"))
        process = Bare(daemon, own_name("newcomer"), directory)
        attached(daemon, process)
        process.tell("hold 3 1000")
        session.end()
        held = figure(heap_of(session.report(), process.pid), "hold_block", "space")
        # The byte that it allocates before it reports that it runs may be in the profile or precede it.
        check(held in (3000, 3001), f"held: {held} bytes")
        process.end()


def test_threads_in_system_calls():
    """Threads in system calls do not notice the attaching."""
    with tempfile.TemporaryDirectory() as directory:
        process = subprocess.Popen([program("blocked")], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        check(process.stdout.readline() == b"waiting\n", "it begins")
        time.sleep(0.3)
        for _ in range(5):
            outcome, _ = profile(process.pid, directory, "-d", "50")
            check(outcome.status == 0, repr(outcome.stderr[-400:]))
        process.stdin.close()
        check(process.stdout.read() == b"ok\n", "its system calls returned as ever")
        check(process.wait() == 0, "the program failed")


def test_interrupted_calls():
    """No call fails with EINTR because its thread was stopped, and each does for a signal that it handles."""
    with tempfile.TemporaryDirectory() as directory:
        process = subprocess.Popen([program("interrupted_calls")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        check(process.stdout.readline() == b"waiting\n", "it begins")
        for _ in range(20):
            outcome, heap = profile(process.pid, directory, "-d", "20")
            check(outcome.status == 0, repr(outcome.stderr[-400:]))
        out, err = process.communicate(timeout=harness.TIMEOUT)
        check(process.returncode == 0 and not err, f"status {process.returncode}: {err}")
        check(int(out.split()[0]) > 20, f"it was interrupted too rarely: {out}")


class Sharing:
    """The program shared_memory, told by lines."""

    def __init__(self):
        self.process = subprocess.Popen([program("shared_memory")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        check(self.process.stdout.readline() == b"ready\n", "it begins")

    def tell(self, word):
        self.process.stdin.write(word + b"\n")
        return int(self.process.stdout.readline())

    def check_refused(self, pid, directory, sharer):
        doctor = run([TOOL, "doctor", "-p", str(pid)])
        check(b"shares its memory with process %d " % sharer in doctor.stdout, f"doctor: {doctor.stdout}")
        outcome, _ = profile(pid, directory, "-d", "100")
        check(outcome.status != 0 and b"shares its memory" in outcome.stderr, f"-p: {outcome}")

    def end(self):
        self.process.stdin.close()
        check(self.process.stdout.readline() == b"unchanged\n", "its code was changed")
        check(self.process.wait() == 0, "it failed")


def test_child_of_vfork():
    """A child of vfork has its parent's memory, which its exec would leave changed: both are refused until then."""
    with tempfile.TemporaryDirectory() as directory:
        sharing = Sharing()
        child = sharing.tell(b"vfork")
        sharing.check_refused(child, directory, sharing.process.pid)
        sharing.process.stdin.write(b"x")
        check(sharing.process.stdout.readline() == b"on\n", "the parent goes on")
        outcome, _ = profile(sharing.process.pid, directory, "-d", "100")
        check(outcome.status == 0, f"after the exec: {outcome}")
        os.kill(child, signal.SIGKILL)
        sharing.end()


def test_peer_with_the_same_memory():
    """A process by clone(CLONE_VM) would run while code is changed: attaching waits for its end, and so does leaving."""
    with scene() as (daemon, directory):
        sharing = Sharing()
        peer = sharing.tell(b"peer")
        sharing.check_refused(sharing.process.pid, directory, peer)
        os.kill(peer, signal.SIGKILL)
        session = Session(daemon, os.path.join(directory, "o"), "-p", str(sharing.process.pid))
        attached(daemon, sharing.process)
        peer = sharing.tell(b"peer")
        session.end()
        check("shares its memory" in remark_of(session.report(), sharing.process.pid), remark_of(session.report(), sharing.process.pid))
        os.kill(peer, signal.SIGKILL)
        outcome, _ = profile(sharing.process.pid, directory, "-d", "100", environment=daemon.environment)
        check(outcome.status == 0, f"once it is alone: {outcome}")
        sharing.end()


def test_threads():
    """A process with 500 busy threads is profiled."""
    with tempfile.TemporaryDirectory() as directory:
        # In a session of its own, for kernels that weigh sessions: else this script starves among the threads.
        process = subprocess.Popen([program("busy_threads"), "500", "180"], stdout=subprocess.PIPE, start_new_session=True)
        check(process.stdout.readline() == b"busy\n", "it begins")
        for _ in range(2):
            outcome, report = profile(process.pid, directory, "-d", "300")
            check(outcome.status == 0, repr(outcome.stderr[-400:]))
            print(remark_of(report, process.pid))
        process.terminate()
        check(process.stdout.read() == b"ok\n", "the program reports an error")
        check(process.wait() == 0, "the program failed")


def test_starved_thread():
    """Attaching waits for a thread that gets a processor only about once a second."""
    with tempfile.TemporaryDirectory() as directory:
        here = {min(os.sched_getaffinity(0))}
        process = subprocess.Popen([program("busy_threads"), "1", "100"], stdout=subprocess.PIPE)
        check(process.stdout.readline() == b"busy\n", "it begins")
        for tid in map(int, os.listdir(f"/proc/{process.pid}/task")):
            os.sched_setaffinity(tid, here)
            os.setpriority(os.PRIO_PROCESS, tid, 19)
        script = f"import os\nos.sched_setaffinity(0, {here})\nwhile True: pass"
        others = [subprocess.Popen([sys.executable, "-c", script]) for _ in range(2)]
        try:
            # A single attempt, because later attempts would hide a failure.
            outcome, report = profile(process.pid, directory, "-d", "10", "--quiet")
            remark = remark_of(report, process.pid) if report else ""
            if check(outcome.status == 0, f"{outcome.stderr[-400:]!r} {remark}"):
                print(remark)
        finally:
            for other in (*others, process):
                other.kill()
                other.wait()
        process.stdout.close()


def cycle(pid, directory, cycles, options=("-d", "10", "--quiet")):
    """Attach and detach repeatedly. Return (kB of address space, number of descriptors) after each session."""
    code, maps = code_of(pid), maps_of(pid)
    sizes = []
    for number in range(cycles):
        outcome, report = profile(pid, directory, *options)
        what = f"cycle {number}: {remark_of(report, pid) if report else outcome.stderr!r}"
        if not check(outcome.status == 0, what):
            return
        heap = heap_of(report, pid)
        check("could not" not in heap["remark"], heap["remark"])
        sizes.append((status_of(pid, "VmSize"), descriptors_of(pid)))
        shutil.rmtree(directory)
        os.mkdir(directory)
    check(code_of(pid) == code, "the code is as it was")
    check(maps_of(pid) == maps, "the mappings are as they were")
    return sizes


def test_cycles_threads():
    with tempfile.TemporaryDirectory() as directory:
        directory = os.path.join(directory, "o")
        os.mkdir(directory)
        process = subprocess.Popen([program("busy_threads"), "8", "180"], stdout=subprocess.PIPE, start_new_session=True)
        check(process.stdout.readline() == b"busy\n", "it begins")
        time.sleep(0.3)
        sizes = cycle(process.pid, directory, CYCLES)
        if sizes:
            grown = [last - first for first, last in zip(sizes[0], sizes[-1])]
            check(max(grown) <= 0, f"kB and descriptors grow by {grown}: {sizes}")
        process.kill()
        process.wait()
        process.stdout.close()


def test_cycles_python():
    script = (
        "import sys, json, hashlib\n"
        "n = 0\n"
        "print('begun', flush=True)\n"
        "while True:\n"
        "    text = json.dumps([{'k': i, 'v': 'x' * i} for i in range(200)])\n"
        "    assert len(json.loads(text)) == 200\n"
        "    n += 1\n"
        "    if n % 50 == 0: print(hashlib.sha256(text.encode()).hexdigest(), flush=True)\n"
    )
    with tempfile.TemporaryDirectory() as directory:
        directory = os.path.join(directory, "o")
        os.mkdir(directory)
        out = tempfile.TemporaryFile()
        process = subprocess.Popen(
            [sys.executable, "-c", script], stdout=out, stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONMALLOC": "malloc"},
        )
        # The program has loaded everything that it needs once it has a result.
        wait_for("a result", lambda: os.fstat(out.fileno()).st_size > 2 * hashlib.sha256().digest_size)
        sizes = cycle(process.pid, directory, CYCLES)
        if sizes:
            check(sizes[-1][1] <= sizes[0][1], f"descriptors: {sizes[0]} to {sizes[-1]}")
            check(sizes[-1][0] <= sizes[0][0] + 4096, f"kB: {sizes[0]} to {sizes[-1]}")
        check(process.poll() is None, "it still runs")
        process.kill()
        check(process.stderr.read() == b"", "the program reports an error")
        process.wait()
        out.seek(0)
        check(len(set(out.read().splitlines()[1:])) == 1, "every result is the same")


def test_cycles_redis():
    harness.need("redis-server", "redis-benchmark")
    with tempfile.TemporaryDirectory() as directory:
        socket = os.path.join(directory, "redis")
        output = os.path.join(directory, "o")
        os.mkdir(output)
        server = subprocess.Popen(
            ["redis-server", "--port", "0", "--unixsocket", socket, "--save", "", "--dir", directory],
            stdout=subprocess.DEVNULL,
        )
        wait_for("redis", lambda: os.path.exists(socket))
        load = subprocess.Popen(
            ["redis-benchmark", "-s", socket, "-n", "100000000", "-d", "100", "-r", "1000", "-q",
             "-t", "set,get,lpush,lpop"],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        )
        time.sleep(0.5)
        sizes = cycle(server.pid, output, CYCLES)
        if sizes:
            check(sizes[-1][1] <= sizes[0][1] + 1, f"descriptors: {sizes[0]} to {sizes[-1]}")
        check(load.poll() is None, "the benchmark still runs")
        load.terminate()
        load.communicate()
        outcome = run(["redis-cli", "-s", socket, "ping"])
        check(outcome.stdout == b"PONG\n", repr(outcome.stdout))
        outcome, report = profile(server.pid, output, "-d", "100")
        check("jemalloc" in json.dumps(report) or heap_of(report, server.pid), "its allocator")
        server.terminate()
        check(server.wait(30) == 0, "the program failed")


def test_static_program():
    """A static program is attached to by its symbols; without symbols it is refused with the reason."""
    with scene() as (daemon, directory):
        for name, status in (("commanded_static", 0), ("stripped", 1)):
            path = program("commanded_static")
            if not os.path.exists(path):
                harness.skip("no static C library")
            if status:
                path = os.path.join(directory, name)
                run(["strip", "-o", path, program("commanded_static")])
            process = Other(path, "hold 1 1")
            session = Session(
                daemon, os.path.join(directory, "o" + name), "-p", str(process.pid),
                begins=status == 0,
            )
            if status == 0:
                attached(daemon, process)
            process.tell("hold 10 1000")
            check(session.end(None if status else signal.SIGINT) == status, f"{name}: {session.stderr}")
            if status == 0:
                heap = heap_of(session.report(), process.pid)
                check_figure(heap, "hold_block", "space", 10000)
            else:
                check("linked statically" in session.stderr and "do not strip it" in session.stderr, session.stderr)
            check(process.end() == 0, "the program failed")


def test_jemalloc():
    """Memory that is released by jemalloc's own functions is not live any more."""
    for name in ("jemalloc_calls", "jemalloc_calls_linked_in"):
        if not os.path.exists(program(name)):
            harness.skip("built without jemalloc")
        with scene() as (daemon, directory):
            process = Other(program(name), "malloc 1 1")
            session = Session(daemon, os.path.join(directory, "o"), "-p", str(process.pid))
            attached(daemon, process)
            for release in ("dallocx", "sdallocx"):
                process.tell("malloc 1000 100")
                process.tell(release)
            process.tell("mallocx 1000 200")
            process.tell("rallocx 300")
            process.tell("dallocx")
            process.tell("malloc 5 1000")
            check(session.end() == 0, session.stderr)
            heap = heap_of(session.report(), process.pid)
            print(name, heap["exact_bytes"], heap["remark"])
            check_figure(heap, "malloc_block", "alloc_space", 205000)
            check_figure(heap, "malloc_block", "space", 5000)
            check(process.end() == 0, f"{name}: the program failed")
    lines = b"malloc 1000 100\ndallocx\nmalloc 1000 100\nsdallocx\nmalloc 5 1000\n"
    with tempfile.TemporaryDirectory() as directory:
        output = os.path.join(directory, "o")
        outcome = run(harness.host_command([program("jemalloc_calls")], output, 1), lines)
        check(outcome.stdout == b"ok\n" * 5, f"preloaded: {outcome.status}")
        heap = report_of(output)["heaps"][0]
        check_figure(heap, "malloc_block", "alloc_space", 205000)
        check_figure(heap, "malloc_block", "space", 5000)


def test_musl():
    """The profile of a musl process is exact to the byte and the call; twice, because the first session leaves code in place."""
    loader = "/lib/ld-musl-x86_64.so.1"
    if not os.path.exists(loader):
        harness.skip("no musl")
    with scene() as (daemon, directory):
        # As on Alpine: the loader is the library itself, not a link to it.
        own_loader, path = os.path.join(directory, "ld-musl-x86_64.so.1"), os.path.join(directory, "on_musl")
        shutil.copy(os.path.realpath(loader), own_loader)
        source = os.path.join(harness.ROOT, "tests", "programs", "commanded.c")
        built = run(["gcc", "-O2", "-g", "-U_FORTIFY_SOURCE", "-o", path, source, f"-Wl,--dynamic-linker={own_loader}"])
        check(built.status == 0, repr(built.stderr[-400:]))
        process = Other(path, "hold 1 1")
        doctor = run([TOOL, "doctor", "-p", str(process.pid)])
        check(doctor.status == 0 and b"NO" not in doctor.stdout, f"doctor: {doctor.stdout[-900:]!r}")
        maps, code = maps_of(process.pid), code_of(process.pid)
        for turn in range(2):
            session = Session(daemon, os.path.join(directory, f"o{turn}"), "-p", str(process.pid), "--no-symbols")
            attached(daemon, process)
            process.tell("hold 1000 100")
            process.tell("churn 5000 64")
            check(session.end() == 0, session.stderr)
            heap = heap_of(session.report(), process.pid)
            check_figure(heap, "hold_block", "space", 100000)
            check_figure(heap, "churn_block", "alloc_space", 320000)
            check_figure(heap, "churn_block", "space", 0)
            check((heap["exact_bytes"], heap["exact_calls"]) == (420000, 6000), "exact totals")
            check((maps_of(process.pid), code_of(process.pid)) == (maps, code), "all is as it was")
        check(process.end() == 0, "the program failed")


def loaders():
    """Return (what, program, ways to run it by its loader, its directory) of programs whose loader is run itself, as Nix
    and AppImages do. No other program has one of their names."""
    made = harness.make_work_directory("loaders-")
    source = os.path.join(harness.ROOT, "tests", "programs", "commanded.c")
    programs = {"PIE": ["-pie", "-fPIE"], "at a fixed address": ["-no-pie", "-fno-pie"]}
    glibc = re.search(r"interpreter: (\S+)\]", run(["readelf", "-lW", program("commanded")]).stdout.decode()).group(1)
    for what, options in programs.items():
        path = os.path.join(made, own_name("fixed" if "fixed" in what else "pie"))
        built = run(["gcc", "-O2", "-g", "-U_FORTIFY_SOURCE", "-o", path, source, *options])
        check(built.status == 0, repr(built.stderr[-400:]))
        yield what, path, [glibc, "./" + os.path.basename(path)], made
    yield "options", path, [glibc, "--inhibit-cache", "--library-path", made, path], made
    if os.path.exists(program("jemalloc_calls_linked_in")):
        own = shutil.copy(program("jemalloc_calls_linked_in"), os.path.join(made, own_name("jemalloc")))
        yield "its own allocator", own, [glibc, own], "/"
    musl = "/lib/ld-musl-x86_64.so.1"
    if os.path.exists(musl):
        path = os.path.join(made, own_name("musl"))
        built = run(["gcc", "-O2", "-g", "-U_FORTIFY_SOURCE", "-o", path, source, f"-Wl,--dynamic-linker={musl}"])
        check(built.status == 0, repr(built.stderr[-400:]))
        yield "musl", path, [musl, "--", "./" + os.path.basename(path)], made
    path = os.path.join(made, own_name("static"))
    if run(["gcc", "-O2", "-g", "-U_FORTIFY_SOURCE", "-static-pie", "-o", path, source]).status == 0:
        yield "static PIE", path, [path], made


def frames_of(heap, function):
    """Return the frames of the callsite of a function."""
    return next((one["frames"] for one in heap["callsites"] if one["frames"][0]["name"] == function), [])


def check_program(what, heap, path, function):
    """Check that the frames of the program have names and lines and are filed under it, to the outermost."""
    frames = frames_of(heap, function)
    own = [frame for frame in frames if frame["mapping"] == os.path.realpath(path)]
    check(len(own) >= 2 and own[0] is frames[0] and own[0].get("line"), f"{what}: {frames}")
    check(any(frame["name"] == "main" for frame in own), f"{what}: {frames}")
    check(not any("ld-" in frame["mapping"] or frame["mapping"].endswith("libc.so") and "start" not in frame["name"]
                  and frame["name"] != "main" for frame in frames if frame["name"]), f"{what}: {frames}")
    check(heap["name"] == os.path.basename(path), f"{what}: named {heap['name']}")


def test_run_by_loader():
    """Programs whose loader is run itself are attached to, by pid and by name, and have their own names and lines."""
    for what, path, command, directory in loaders():
        block = ("malloc", "malloc_block") if "jemalloc" in path else ("hold", "hold_block")
        with scene() as (daemon, work):
            process = Other(command, f"{block[0]} 1 1", cwd=directory)
            doctor = run([TOOL, "doctor", "-p", str(process.pid)])
            check(doctor.status == 0 and b"NO" not in doctor.stdout, f"{what}: doctor: {doctor.stdout[-900:]!r}")
            for way in (["-p", str(process.pid)], ["-n", os.path.basename(path)]):
                output = os.path.join(work, "o" + way[0])
                session = Session(daemon, output, *way)
                attached(daemon, process)
                process.tell(f"{block[0]} 1000 100")
                check(session.end() == 0, session.stderr)
                heap = heap_of(session.report(), process.pid)
                check_figure(heap, block[1], "alloc_space", 100000)
                check_program(f"{what}, {way[0]}", heap, path, block[1])
            check(process.end() == 0, f"{what}: the program failed")


def test_loader_by_name():
    """A program that its loader starts while the session waits for its name is attached to once the loader has mapped it."""
    what, path, command, directory = next(loaders())
    with scene() as (daemon, work):
        session = Session(daemon, os.path.join(work, "o"), "-n", os.path.basename(path))
        for _ in range(5):
            process = Other(command, "hold 1 1", cwd=directory)
            attached(daemon, process)
            process.tell("hold 1000 100")
            check(process.end() == 0, f"{what}: the program failed")
        check(session.end() == 0, session.stderr)
        heaps = session.report()["heaps"]
        check(len(heaps) == 5, f"{len(heaps)} heaps")
        for heap in heaps:
            # The byte that proves its start may come before the attaching, or after it.
            check(figure(heap, "hold_block", "alloc_space") in (100000, 100001), f"{figure(heap, 'hold_block', 'alloc_space')}")
            check_program(what, heap, path, "hold_block")


def test_hosted_by_loader():
    """The same under host: preloaded, from the first allocation. doctor says so before."""
    for what, path, command, directory in loaders():
        block = ("malloc", "malloc_block") if "jemalloc" in path else ("hold", "hold_block")
        doctor = run([TOOL, "doctor", "--", *command], cwd=directory)
        wanted = b"ok    build id"
        check(doctor.status == 0 and wanted in doctor.stdout and b"NO" not in doctor.stdout,
              f"{what}: doctor: {doctor.stdout[-900:]!r}")
        with tempfile.TemporaryDirectory() as work:
            output = os.path.join(work, "o")
            outcome = run(harness.host_command(command, output, 1), f"{block[0]} 1000 100\n".encode(), cwd=directory)
            check(outcome.status == 0 and outcome.stdout == b"ok\n", f"{what}: {outcome.status} {outcome.stderr[-400:]!r}")
            report = report_of(output)
            heap = report["heaps"][0]
            check(len(report["heaps"]) == 1 and report["unprofiled"] == [], f"{what}: {report['unprofiled']}")
            check_figure(heap, block[1], "alloc_space", 100000)
            check_program(what, heap, path, block[1])


def test_namespaces():
    """A process in its own mount and pid namespaces, with another root directory, is profiled."""
    if os.geteuid() != 0:
        harness.skip("needs root, to make namespaces")
    with scene() as (daemon, directory):
        unshare = subprocess.Popen(
            ["unshare", "--mount", "--pid", "--fork", "--mount-proc", program("commanded")],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0,
        )
        pid = wait_for("the program", lambda: harness.find_descendant(unshare.pid, "commanded"))
        process = Bare.__new__(Bare)
        process.process, process.pid = unshare, pid
        process.tell("hold 1 1")
        session = Session(daemon, os.path.join(directory, "o"), "-p", str(pid))
        attached(daemon, process)
        process.tell("hold 7 300")
        check(session.end() == 0, session.stderr)
        check_figure(heap_of(session.report(), pid), "hold_block", "space", 2100)
        check(process.end() == 0, "the program failed")


def test_forks_and_execs():
    """A forked child continues unprofiled and does not disturb the parent's profile."""
    with scene() as (daemon, directory):
        process = Bare(daemon)
        session = Session(daemon, os.path.join(directory, "o"), "-p", str(process.pid))
        attached(daemon, process)
        for _ in range(10):
            process.tell("fork")
        process.tell("hold 5 100")
        # Now a session of the parent has ended, too.
        process.tell("fork")
        session.end()
        heap = heap_of(session.report(), process.pid)
        check_figure(heap, "hold_block", "space", 500)
        check_figure(heap, "child_block", "alloc_space", 0)
        check(process.end() == 0, "the program failed")
        shell = subprocess.Popen(
            ["sh", "-c", "read x; exec sleep 2"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        session = Session(daemon, os.path.join(directory, "o2"), "-p", str(shell.pid))
        wait_for("attaching", lambda: shell.pid in daemon.profiled_pids())
        shell.stdin.write(b"go\n")
        shell.stdin.close()
        check(shell.wait() == 0, "the program after the exec failed")
        shell.stdout.close()
        session.end()


def has_client(pid):
    with open(f"/proc/{pid}/maps") as maps:
        return "memfd:heapprofd_client" in maps.read()


def test_exec_by_number():
    """A session by pid follows the process from program to program, and reports when it cannot."""
    with scene() as (daemon, directory):
        stripped = os.path.join(directory, "stripped")
        if not os.path.exists(program("commanded_static")):
            harness.skip("no static C library")
        run(["strip", "-o", stripped, program("commanded_static")])
        process = Bare(daemon)
        session = Session(daemon, os.path.join(directory, "o"), "-p", str(process.pid), "--no-symbols")
        attached(daemon, process)
        process.tell("hold 5 100")
        # The same file, so that neither its name nor its path distinguishes them.
        process.tell(f"exec {program('commanded')}", answers=False)
        time.sleep(0.02)
        wait_for("attaching once more", lambda: has_client(process.pid))
        process.tell("hold 7 1000")
        process.tell(f"exec {stripped}", answers=False)
        process.tell("hold 3000 10000")
        time.sleep(0.4)
        session.end()
        report = session.report()
        heaps = [h for h in report["heaps"] if h["pid"] == process.pid]
        check(len(heaps) == 3, f"not two heaps with a profile and one without: {[h['heap'] for h in heaps]}")
        before, last, absent = sorted(heaps, key=lambda h: -(h["exact_calls"] or 0) if "before" not in h["heap"] else -1e9)
        check_figure(before, "hold_block", "space", 500)
        check("before it became commanded by exec" in before["remark"], before["remark"])
        check_figure(last, "hold_block", "space", 7000)
        check("It became stripped by exec" in last["remark"], last["remark"])
        check("Nothing since then is in this profile" in last["remark"], last["remark"])
        check((last["peak_rss_bytes"] or 0) < 20e6, f"the peak includes memory of the next program: {last['peak_rss_bytes']}")
        check("linked statically" in absent["remark"], absent["remark"])
        check(process.end() == 0, "the program failed")


def test_grouped_refusals():
    """The report has one entry, with a count, for processes of one name that are refused for one reason."""
    with scene() as (daemon, directory):
        stripped = os.path.join(directory, "stripped")
        if not os.path.exists(program("commanded_static")):
            harness.skip("no static C library")
        run(["strip", "-o", stripped, program("commanded_static")])
        several = [subprocess.Popen([stripped], stdin=subprocess.PIPE) for _ in range(5)]
        process = Bare(daemon)
        pids = ",".join(str(p.pid) for p in [process, *several])
        output = os.path.join(directory, "o")
        run([TOOL, "-p", pids, "-d", "300", "-o", output, "--no-symbols"], env=daemon.environment)
        text = run([TOOL, "report", output]).stdout.decode()
        check(text.count("linked statically") == 1, f"not one entry: {text}")
        check("and 4 more of this name, not profiled" in text, text)
        absent = [h for h in report_of(output)["heaps"] if h["name"] == "stripped"]
        check({h["pid"] for h in absent} == {p.pid for p in several}, "the JSON does not list each of them")
        for each in several:
            each.stdin.close()
            each.wait()
        check(process.end() == 0, "the program failed")


def test_exec_by_name():
    """A session by name reports that a process became a program of another name, and the remedy."""
    with scene() as (daemon, directory):
        process = Bare(daemon, own_name("first"), directory)
        session = Session(daemon, os.path.join(directory, "o"), "-n", own_name("first"), "--no-symbols")
        attached(daemon, process)
        process.tell("hold 5 100")
        process.tell(f"exec {program('commanded')}", answers=False)
        process.tell("hold 3000 10000")
        time.sleep(0.3)
        session.end()
        heap = heap_of(session.report(), process.pid)
        check_figure(heap, "hold_block", "space", 500)
        check("It became commanded by exec" in heap["remark"], heap["remark"])
        check("names after -n" in heap["remark"], heap["remark"])
        check(process.end() == 0, "the program failed")
        outcome = run([TOOL, "report", "--rss", session.output])
        check(b"had ended" not in outcome.stdout, f"it had not ended: {outcome.stdout[-300:]!r}")


def test_daemon_killed():
    """The program continues; the next session removes the leftovers and attaches again."""
    with scene() as (daemon, directory):
        process = Bare(daemon)
        code = code_of(process.pid)
        session = Session(daemon, os.path.join(directory, "o1"), "-p", str(process.pid))
        attached(daemon, process)
        [profiler] = daemon.session_processes()
        os.kill(profiler, signal.SIGKILL)
        session.end(None)
        process.tell("churn 300000 100")
        check(code_of(process.pid) != code, "the patches are still there")
        session = Session(daemon, os.path.join(directory, "o2"), "-p", str(process.pid))
        attached(daemon, process)
        process.tell("hold 4 100")
        check(session.end() == 0, session.stderr)
        check_figure(heap_of(session.report(), process.pid), "hold_block", "space", 400)
        check(code_of(process.pid) == code, "the code is as it was")
        check(process.end() == 0, "the program failed")


def test_killed_while_attaching():
    """If the profiler is killed at any moment of attaching, the process continues."""
    with scene() as (daemon, directory):
        process = subprocess.Popen([program("busy_threads"), "4", "600"], stdout=subprocess.PIPE)
        check(process.stdout.readline() == b"busy\n", "it begins")
        code = code_of(process.pid)
        for number in range(40):
            session = Session(daemon, os.path.join(directory, f"o{number}"), "-p", str(process.pid))
            wait_for("the session's process", daemon.session_processes)
            [profiler] = daemon.session_processes()
            time.sleep(number * 0.0005)
            os.kill(profiler, signal.SIGKILL)
            session.end(None)
            if not check(process.poll() is None, f"kill {number}: status {process.returncode}"):
                return
        session = Session(daemon, os.path.join(directory, "last"), "-p", str(process.pid))
        attached(daemon, process)
        check(session.end() == 0, session.stderr)
        check(code_of(process.pid) == code, "the code is as it was")
        left = harness.client_mappings(process.pid)
        check(not left, f"a mapping of the client is left: {left}")
        check(process.poll() is None, "it still runs")
        process.kill()
        process.wait()
        process.stdout.close()


def test_never_allocates():
    with tempfile.TemporaryDirectory() as directory:
        process = subprocess.Popen(["sleep", "30"])
        time.sleep(0.2)
        outcome, report = profile(process.pid, directory, "-d", "100")
        check(outcome.status == 0, repr(outcome.stderr[-300:]))
        check("No call of the allocator in libc.so.6 was seen" in remark_of(report, process.pid), "no message says so")
        check(process.poll() is None, "it still sleeps")
        process.kill()
        process.wait()


def test_just_begun():
    """A program that stands at its exec is not called static: its loader has not run yet."""
    libc = ctypes.CDLL(None, use_errno=True)
    traceme, detach = 0, 17
    pid = os.fork()
    if pid == 0:
        libc.ptrace(traceme, 0, None, None)
        os.execv("/bin/sleep", ["sleep", "100"])
    os.waitpid(pid, 0)
    if libc.ptrace(detach, pid, None, ctypes.c_void_p(signal.SIGSTOP)) < 0:
        harness.skip("ptrace is forbidden")
    outcome = run([TOOL, "doctor", "-p", str(pid)])
    check(outcome.status == 1 and b"has not loaded the libraries yet" in outcome.stdout, f"{outcome.stdout.decode()}")
    os.kill(pid, signal.SIGCONT)
    outcome = run([TOOL, "doctor", "-p", str(pid)])
    check(b"it can be attached to; its allocator is libc" in outcome.stdout, f"{outcome.stdout.decode()}")
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def test_refusals():
    with tempfile.TemporaryDirectory() as directory:

        def refused(pid, words, what):
            outcome, report = profile(pid, directory, "-d", "100")
            remark = remark_of(report, pid)
            check(outcome.status == 1, f"{what}: status {outcome.status}")
            check(words in remark, f"{what}: {remark!r}")

        traced = subprocess.Popen(
            ["gdb", "-q", "-batch", "-ex", "start", "-ex", "shell sleep 3", "/bin/sleep"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        ) if shutil.which("gdb") else None
        if os.geteuid() == 0:
            refused(2, "kernel thread", "a kernel thread")
        zombie = subprocess.Popen(["true"])
        time.sleep(0.2)
        refused(zombie.pid, "has ended", "a zombie")
        zombie.wait()
        if os.geteuid() == 0:
            strict = subprocess.Popen(
                [sys.executable, "-c",
                 "import ctypes, time\n"
                 "libc = ctypes.CDLL(None)\n"
                 "print('ready', flush=True)\n"
                 "libc.prctl(22, 1, 0, 0, 0)\n"
                 "while True: pass\n"],
                stdout=subprocess.PIPE,
            )
            strict.stdout.readline()
            time.sleep(0.3)
            refused(strict.pid, "strict seccomp", "strict seccomp")
            check(strict.poll() is None, "it still runs")
            strict.kill()
            strict.wait()
            strict.stdout.close()
        if traced:
            traced.kill()
            traced.wait()


ATTACHING = """\
import ctypes, sys, time
libc = ctypes.CDLL(None, use_errno=True)
libc.prctl(15, b"heapprofd")
if libc.ptrace(0x4206, int(sys.argv[1]), 0, 0) != 0:
    sys.exit(77)
print("traces", flush=True)
sys.stdin.read()
"""


def test_attached_meanwhile():
    """Another profiler that attaches at that moment is no obstacle: the session tries again."""
    with scene() as (daemon, directory):
        process = Bare(daemon)
        other = subprocess.Popen(
            [sys.executable, "-c", ATTACHING, str(process.pid)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        if other.stdout.readline() != b"traces\n":
            harness.skip("the kernel forbids ptrace")
        session = Session(daemon, os.path.join(directory, "o"), "-p", str(process.pid))
        time.sleep(0.3)  # so long, all attempts fail
        other.communicate()
        attached(daemon, process)
        process.tell("hold 1000 100")
        check(session.end() == 0, session.stderr)
        check_figure(heap_of(session.report(), process.pid), "hold_block", "objects", 1000)
        process.end()


def test_unmovable_entries():
    """An allocator that begins with a call cannot be patched: -p and doctor agree, and name the call. If only some of
    its functions do, doctor names those whose calls are not seen."""
    forms = {"calls": "push %rbx\ncall __libc_{0}@plt\npop %rbx\nret", "jumps": "jmp __libc_{0}@plt"}
    words = "(it begins with a call, which cannot be moved)"
    with tempfile.TemporaryDirectory() as directory:
        for name, malloc_form in (("calling", "calls"), ("mixed", "jumps")):
            path = os.path.join(directory, name)
            with open(path + ".s", "w") as file:
                for function, form in (("malloc", malloc_form), ("free", malloc_form), ("calloc", "calls")):
                    file.write(f".globl {function}\n.type {function}, @function\n{function}: ")
                    file.write(forms[form].format(function) + f"\n.size {function}, . - {function}\n")
                file.write('.section .note.GNU-stack,"",@progbits\n')
            built = run(["gcc", "-shared", "-o", path + ".so", path + ".s"])
            check(built.status == 0, f"gcc: {built.stderr!r}")
            process = subprocess.Popen(["sleep", "60"], env={**os.environ, "LD_PRELOAD": path + ".so"})
            wait_for("its start", lambda: path + ".so" in open(f"/proc/{process.pid}/maps").read())
            doctor = run([TOOL, "doctor", "-p", str(process.pid)])
            # A session whose only process is refused ends at once.
            outcome, report = profile(process.pid, directory, "-d", "30000" if name == "calling" else "100")
            if name == "calling":
                refused = f"its allocator (calling.so) cannot be patched: malloc {words}, "
                for said, status in ((doctor.stdout, doctor.status), (outcome.stderr, outcome.status)):
                    check(refused.encode() in said and status == 1, f"{name}: {status}, {said!r}")
                check(outcome.stderr.count(b"process %d" % process.pid) == 1, f"{outcome.stderr!r}")
            else:
                check(outcome.status in (0, 3), f"{name}: {outcome.status}, {outcome.stderr!r}")
                check(f"so their calls are not seen: calloc {words}" in remark_of(report, process.pid), f"{name}: {report}")
                told = f"note  it can be attached to; its allocator is mixed.so; calls that would not be seen: calloc {words}"
                check(told in doctor.stdout.decode() and doctor.status == 0, f"{name}: {doctor.stdout.decode()}")
            process.kill()
            process.wait()


def test_ending_process():
    """A process that is about to end has no memory and no executable; it is not taken for a kernel thread."""
    daemon_tests.need_root()
    with tempfile.TemporaryDirectory() as directory:
        blocking = BlockingFile(directory, FLUSH)
        try:
            path = os.path.join(blocking.mountpoint, "file")
            script = f"file = open({path!r}, 'w')\nprint(flush=True)\ninput()"
            process = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            process.stdout.readline()
            process.kill()
            # The kernel removes its memory before it closes its files.
            wait_for("its end", lambda: "VmSize" not in open(f"/proc/{process.pid}/status").read())
            check(process.poll() is None, "it is not a zombie yet")
            outcome, report = profile(process.pid, directory, "-d", "100")
            check(outcome.status == 1 and b"is ending" in outcome.stderr, f"-p: {outcome.status}, {outcome.stderr!r}")
            check("is ending" in remark_of(report, process.pid), f"remark: {remark_of(report, process.pid)!r}")
            outcome = run([TOOL, "doctor", "-p", str(process.pid)])
            check(b"is ending" in outcome.stdout, f"doctor: {outcome.stdout[-300:]!r}")
        finally:
            blocking.let_go()
        process.communicate()


def leave_first_thread(process):
    """Let the process go on without its first thread. Return the thread whose files in /proc still tell of it."""
    process.tell("leave")
    wait_for("its thread's end", lambda: "State:\tZ" in open(f"/proc/{process.pid}/status").read())
    return max(int(tid) for tid in os.listdir(f"/proc/{process.pid}/task"))


def test_first_thread_ended():
    """A process whose first thread has ended, before the session or during it, is attached to and left like any
    other; its stacks are whole, and what /proc tells of its memory is in the profile."""
    with scene() as (daemon, directory):
        # pthread_exit() loads it otherwise, and the mappings would be others afterwards.
        environment = {**daemon.environment, "LD_PRELOAD": "libgcc_s.so.1"}
        for when in ("before", "during"):
            process = Commanded(environment, preload=False)
            living = leave_first_thread(process) if when == "before" else process.pid
            maps, code = maps_of(living), code_of(living)
            session = Session(daemon, os.path.join(directory, when), "-p", str(process.pid))
            attached(daemon, process)
            if when == "during":
                process.tell("hold 10 100")
                living = leave_first_thread(process)
            check(code_of(living) != code, f"{when}: the code is not patched meanwhile")
            process.tell("hold 1000 100")
            process.tell("churn 20000 100000")
            check(session.end() == 0, f"{when}: {session.stderr}")
            heap = heap_of(session.report(), process.pid)
            check_figure(heap, "hold_block", "objects", 1010 if when == "during" else 1000)
            check_figure(heap, "churn_block", "alloc_objects", 20000)
            check(heap["unwinding_errors"] == 0, f"{when}: {heap['unwinding_errors']} stacks are not whole")
            ends = {site["frames"][-1]["name"] for site in heap["callsites"] if site["frames"]}
            check(not any(name.startswith("[") for name in ends), f"{when}: stacks end at {ends}")
            check(code_of(living) == code and maps_of(living) == maps, f"{when}: something of ours is left")
            process.tell("churn 1000 100")
            check(process.end() == 0, f"{when}: the program failed")


# The system calls of attaching and of the client, by their numbers on x86-64 and aarch64. The program
# itself also uses those after them.
NUMBERS = {
    "mmap": (9, 222), "munmap": (11, 215), "rt_sigprocmask": (14, 135), "rt_sigreturn": (15, 139),
    "sched_yield": (24, 124), "msync": (26, 227), "madvise": (28, 233), "getpid": (39, 172), "recvmsg": (47, 212),
    "socketpair": (53, 199), "kill": (62, 129), "sigaltstack": (131, 132), "prctl": (157, 167), "gettid": (186, 178),
    "futex": (202, 98), "clock_gettime": (228, 113), "tgkill": (234, 131), "openat": (257, 56),
    "readlinkat": (267, 78), "prlimit64": (302, 261), "memfd_create": (319, 279), "close": (3, 57),
    "process_vm_readv": (310, 270), "read": (0, 63), "write": (1, 64), "brk": (12, 214), "exit_group": (231, 94),
}
CALLS = {name: numbers[os.uname().machine == "aarch64"] for name, numbers in NUMBERS.items()}
AVOIDED_CALLS = {"process_vm_readv": CALLS["process_vm_readv"]}
OWN_CALLS = {name: CALLS[name] for name in ("read", "write", "brk", "exit_group")}
NEEDED_CALLS = {name: CALLS[name] for name in CALLS if name not in OWN_CALLS and name not in AVOIDED_CALLS}


def look_of(process):
    return code_of(process.pid), maps_of(process.pid), descriptors_of(process.pid)


def check_goes_on(process, look, what):
    check(look_of(process) == look, f"{what}: its code, mappings or descriptors are others")
    process.tell("hold 20 100")
    process.tell("drop")
    status = process.end()
    check(status == 0, f"{what}: it ends with {status}")


def profile_filtered(directory, daemon, filters):
    """Run one session on a process for each filter ({name: line}). Return its outcome and {name: remark}.

    Check that all the processes continue unchanged."""
    processes = {name: Bare(daemon) for name in filters}
    for name, process in processes.items():
        process.tell(filters[name])
    looks = {name: look_of(process) for name, process in processes.items()}
    pids = ",".join(str(process.pid) for process in processes.values())
    outcome, report = profile(pids, directory, "-d", "200")
    for name, process in processes.items():
        check_goes_on(process, looks[name], name)
    return outcome, {name: remark_of(report, p.pid) for name, p in processes.items()}


def test_forbidden_calls():
    """A process whose filter would kill it for a system call of ours is refused and not touched."""
    with scene() as (daemon, directory):
        filters = {name: f"forbid kill {number}" for name, number in NEEDED_CALLS.items()}
        outcome, remarks = profile_filtered(directory, daemon, filters)
        check(outcome.status == 1, f"status {outcome.status}")
        for name, remark in remarks.items():
            check(f"the system call {name} (seccomp)" in remark, f"{name}: {remark!r}")
        filters = {name: f"forbid trap {NEEDED_CALLS[name]}" for name in ("memfd_create", "futex")}
        outcome, remarks = profile_filtered(directory, daemon, filters)
        check(all("(seccomp)" in remark for remark in remarks.values()), f"trapped: {remarks}")


def test_failing_calls():
    """If a seccomp filter makes our calls fail, there is a refusal or a profile, and no leftovers."""
    with scene() as (daemon, directory):
        filters = {name: f"forbid errno {number}" for name, number in {**NEEDED_CALLS, **AVOIDED_CALLS}.items()}
        outcome, remarks = profile_filtered(directory, daemon, filters)
        check(outcome.status == 0, f"status {outcome.status}")
        refused = {name for name, remark in remarks.items() if "(seccomp)" in remark}
        for name in set(remarks) - refused:
            check("attached while it ran" in remarks[name], f"{name}: {remarks[name]!r}")
        print("refused where these fail:", *sorted(refused))
        check({"munmap", "close"} < refused < set(filters), f"refused: {refused}")


# Arguments for which a filter may kill: the system call on x86-64 and aarch64, the argument's number and its value.
DENIED_ARGUMENTS = {
    "processor clock": ((228, 113), 0, 2), "populate": ((28, 233), 2, 23), "block signals": ((14, 135), 0, 0),
    "set signals": ((14, 135), 0, 2), "test pages": ((14, 135), 0, 0xffffffff), "sleep": ((202, 98), 1, 128),
    "unlock": ((150, 229), 2, 0), "make writable": ((10, 226), 2, 3), "map unreadable": ((9, 222), 2, 0),
    "barrier": ((324, 283), 0, 8), "register barrier": ((324, 283), 0, 16),
}


def deny_line(name):
    numbers, index, value = DENIED_ARGUMENTS[name]
    return f"deny {numbers[os.uname().machine == 'aarch64']} {index} {value}"


def test_denied_arguments():
    """A filter that kills for an argument of a call of ours: the process is refused, or the call is not made."""
    with scene() as (daemon, directory):
        processes = {}
        for locked in (False, True):
            for name in DENIED_ARGUMENTS:
                what = name + " locked" * locked
                processes[what] = Bare(daemon)
                if locked:
                    processes[what].tell("lock")
                processes[what].tell(deny_line(name))
        codes = {what: code_of(process.pid) for what, process in processes.items()}
        refused = {"processor clock", "populate", "block signals", "set signals", "test pages", "sleep",
                   "map unreadable"}
        refused |= {f"{name} locked" for name in (*refused, "unlock", "make writable")}
        pids = ",".join(str(process.pid) for process in processes.values())
        session = Session(daemon, os.path.join(directory, "o"), "-p", pids, begins=False)
        attached(daemon, *(process for what, process in processes.items() if what not in refused))
        for process in processes.values():
            process.tell("hold 2000 100")
            process.tell("churn 20000 1000")
        session.end()
        report = session.report()
        for what, process in processes.items():
            remark = remark_of(report, process.pid)
            check(("(seccomp)" in remark) == (what in refused), f"{what}: {remark!r}")
            if what not in refused:
                check_figure(heap_of(report, process.pid), "hold_block", "objects", 2000)
            check(code_of(process.pid) == codes[what], f"{what}: its code is not as it was")
            check(process.end() == 0, f"{what}: the program failed")


def test_dispatched_calls():
    """A process that handles system calls itself (Syscall User Dispatch) is refused, and goes on."""
    with scene() as (daemon, directory):
        process = Bare(daemon)
        process.tell("dispatch", answers=False)
        if process.process.stdout.readline() != b"ok\n":
            harness.skip("this kernel has no Syscall User Dispatch")
        look = look_of(process)
        outcome, report = profile(process.pid, directory, "-d", "100")
        check(outcome.status == 1, f"{outcome.status}, {outcome.stderr!r}")
        check("Syscall User Dispatch" in remark_of(report, process.pid), remark_of(report, process.pid))
        check_goes_on(process, look, "dispatched")


def test_permitted_calls():
    """Under a filter that permits our documented calls and kills for all others, we make no others."""
    with scene() as (daemon, directory):
        process = Bare(daemon)
        numbers = " ".join(map(str, [*NEEDED_CALLS.values(), *OWN_CALLS.values()]))
        process.tell(f"permit kill {numbers}")
        look = look_of(process)
        session = Session(daemon, os.path.join(directory, "o"), "-p", str(process.pid))
        attached(daemon, process)
        process.tell("hold 20000 100")
        process.tell("churn 20000 1000")
        process.tell("drop")
        process.tell("hold 10 1000")
        check(session.end() == 0, session.stderr)
        check_figure(heap_of(session.report(), process.pid), "hold_block", "space", 10000)
        check_goes_on(process, look, "permitted")


def test_filter_during_session():
    """If a filter is installed during the session, the client no longer makes calls that it kills for."""
    with scene() as (daemon, directory):
        names = [name for name in NEEDED_CALLS if name not in ("mmap", "munmap", "rt_sigreturn")]
        processes = {name: Bare(daemon) for name in [*names, "munmap"]}
        codes = {name: code_of(process.pid) for name, process in processes.items()}
        pids = ",".join(str(process.pid) for process in processes.values())
        session = Session(daemon, os.path.join(directory, "o"), "-p", pids)
        attached(daemon, *processes.values())
        for name, process in processes.items():
            process.tell("hold 10 1000")
            process.tell(f"forbid kill {NEEDED_CALLS[name]}")
        time.sleep(2)  # the daemon checks ten times a second
        for name, process in processes.items():
            if name != "munmap":  # calls of malloc itself
                process.tell("churn 300 1000000")
                process.tell("hold 30000 100")
        check(session.end() == 0, session.stderr)
        report = session.report()
        for name, process in processes.items():
            what = f"{name} meanwhile"
            heap = heap_of(report, process.pid)
            check_figure(heap, "hold_block", "objects", 10 if name == "munmap" else 30010)
            check("restricted its own system calls" in heap["remark"], f"{what}: {heap['remark']}")
            check(code_of(process.pid) == codes[name], f"{what}: its code is not as it was")
            process.tell("hold 20 100")
            check(process.end() == 0, f"{what}: the program failed")


def test_filter_at_once():
    """No call of the client comes after a filter that kills for it, not even in the moment before the daemon can
    notice the filter: in this thread, and in one that begins later."""
    with scene() as (daemon, directory):
        filters = {name: f"forbid kill {CALLS[name]}" for name in CALLS if name not in ("mmap", "munmap", "rt_sigreturn", *OWN_CALLS)}
        # It still writes, maps memory, starts a thread, and ends.
        filters["all others"] = "permit kill " + " ".join(str(CALLS[name]) for name in OWN_CALLS) + " 9 10 11 28 56 435 273 334 14 202 158"
        processes = {name: Bare(daemon) for name in filters}
        pids = ",".join(str(process.pid) for process in processes.values())
        session = Session(daemon, os.path.join(directory, "o"), "-p", pids, "-i", "1")
        attached(daemon, *processes.values())
        for name, process in processes.items():
            process.tell(filters[name])
            process.tell("hold 3000 100")
            process.tell("churn 3000 1000")
        check(session.end() == 0, session.stderr)
        report = session.report()
        for name, process in processes.items():
            heap = heap_of(report, process.pid)
            check_figure(heap, "hold_block", "objects", 3000)
            check("restricted its own system calls" in heap["remark"], f"{name}: {heap['remark']}")
            process.tell("hold 20 100")
            check(process.end() == 0, f"{name}: the program failed")


if __name__ == "__main__":
    harness.main()
