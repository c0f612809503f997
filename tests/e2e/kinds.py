#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Programs of more kinds, each a real one of the distribution: exact figures at interval 1, the right
frames, and unchanged answers.

    kinds.py CASE

Interpreters with JIT compilers are in jit.py (node, java), Python and Ruby themselves in
python_frames.py and ruby_frames.py, allocators in allocators.py.
"""

import contextlib
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile

import harness
import musl
import python_frames
from attach import has_client
from daemon import LIBRARY, PATIENCE, figure, report_of, wait_for
from harness import TOOL, check, host_command, need, program, run, skip
from python_frames import report
from stripped import build_id, doctor

PYTHON = "/usr/bin/python3"
TRACECONV = os.path.join(harness.BUILD, "traceconv")


def write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def need_module(name):
    if run([PYTHON, "-c", f"import {name}"]).status != 0:
        skip(f"{PYTHON} has no module {name}")


# --- Python's libraries and hosts ---

NUMPY = """
import numpy
def held():
    return numpy.zeros((1000, 125)), numpy.ones(30000, dtype=numpy.int32)
def product(a):
    return a @ a
def churned():
    for i in range(10):
        numpy.full(20000, i)
kept = held()
churned()
print(numpy.__version__, kept[0].shape, kept[1].sum(), product(numpy.identity(300)).sum())
"""


def test_numpy():
    """Arrays are counted to the byte, at the Python line that makes them."""
    need_module("numpy")
    with tempfile.TemporaryDirectory() as path:
        script, output = write(os.path.join(path, "arrays.py"), NUMPY), os.path.join(path, "o")
        ours = run(host_command([PYTHON, script], output, 1))
        ours.check_same(run([PYTHON, script]), "numpy")
        sites = report(output, "--focus", "^(held|product|churned)$")["callsites"]
        for place, size, count in (
            (["held", script, 4], 1_000_000, 1), (["held", script, 4], 120_000, 1),
            (["product", script, 6], 720_000, 1), (["churned", script, 9], 160_000, 10),
        ):
            # The interpreter calls a function in several ways: one Python stack may have several native ones.
            found = sum(site["alloc_objects"]["estimate"] for site in sites if place in python_frames.python_frames(site)
                        and site["alloc_space"]["estimate"] == size * site["alloc_objects"]["estimate"])
            check(found == count, f"{found} arrays of {size} bytes at {place}, not {count}")


# test and no underscore: list_cases.py would take it for a case of this script.
PYTEST = """
kept = []
def testKeeping():
    kept.append(bytes(3_000_000 - 33))
class TestGroup:
    def test_also(self):
        kept.append(bytearray(2_000_000 - 1))
"""


def test_pytest():
    """A test that pytest runs is a Python function like any other."""
    need_module("pytest")
    with tempfile.TemporaryDirectory() as path:
        script, output = write(os.path.join(path, "test_kept.py"), PYTEST), os.path.join(path, "o")
        command = [PYTHON, "-m", "pytest", "-q", "-p", "no:cacheprovider", script]

        def without_times(outcome):
            outcome.stdout = re.sub(rb" in [\d.]+s", b"", outcome.stdout)
            return outcome

        bare = without_times(run(command, cwd=path))
        # Large blocks are always sampled. At interval 1, the profile of pytest itself would be large.
        ours = without_times(run(host_command(command, output, 4096), cwd=path))
        ours.check_same(bare, "pytest")
        check(b"2 passed" in ours.stdout, f"{ours.stdout!r}")
        heap = report(output, "--focus", "pytest_pyfunc_call")
        for name, size in (("testKeeping", 3_000_000), ("TestGroup.test_also", 2_000_000)):
            site = next((site for site in heap["callsites"] if site["alloc_space"]["estimate"] == size), None)
            if check(site is not None, f"no callsite of {size} bytes"):
                names = [frame[0] for frame in python_frames.python_frames(site)]
                check(names[0] == name and "pytest_pyfunc_call" in names, f"{names}")
                check(site["frames"][-1]["name"] == "_start", f"{site['frames'][-1]}")
        python_frames.check_certain(heap)


WSGI = """
kept = []
def page(size):
    kept.append(bytes(size - 33))
    return b"%d bytes\\n" % size
def application(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [page(int(environ["QUERY_STRING"]))]
"""
UWSGI_SIZES = (100_000, 200_000, 400_000)


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost")
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self.path)


def serve(path, prefix):
    """Run uwsgi, ask for some pages, and end it. Return its exit code and the answers. It has one worker: one that
    were still loading the application at the end would be killed only after a minute."""
    address, log = os.path.join(path, "socket"), os.path.join(path, "log")
    with open(log, "wb") as file:
        server = subprocess.Popen(
            [*prefix, "uwsgi", "--plugin", "python3", "--http-socket", address, "--wsgi-file",
             os.path.join(path, "app.py"), "--master", "--processes", "1", "--lazy-apps", "--die-on-term"],
            stdout=file, stderr=file, stdin=subprocess.DEVNULL, cwd=path)

    def ask(size):
        connection = UnixConnection(address)
        try:
            connection.request("GET", f"/?{size}")
            answer = connection.getresponse()
            return answer.status, answer.getheaders(), answer.read()
        except OSError:
            return None
        finally:
            connection.close()

    try:
        if wait_for("uwsgi", lambda: server.poll() is not None or ask(UWSGI_SIZES[0])) is None:
            return None, []
        answers = [ask(size) for size in UWSGI_SIZES]
        # The profiler passes the signal on to its command.
        server.terminate()
        return server.wait(harness.TIMEOUT), answers
    finally:
        if server.poll() is None:
            server.kill()
            server.wait()
            with open(log, encoding="utf-8", errors="replace") as file:
                harness.fail(file.read()[-2000:])
        if os.path.exists(address):
            os.unlink(address)


def test_uwsgi():
    """A server that opens CPython as a plugin: requests have Python's frames in the worker that served them."""
    need("uwsgi")
    with tempfile.TemporaryDirectory() as path:
        script, output = write(os.path.join(path, "app.py"), WSGI), os.path.join(path, "o")
        bare = serve(path, [])
        ours = serve(path, host_command([], output, 1, "--follow-children"))
        check(ours == bare and len(ours[1]) == 3 and all(ours[1]), f"{ours}, bare {bare}")
        outcome = run([TOOL, "report", "--json", "--focus", "^page$", output])
        heaps = json.loads(outcome.stdout)["heaps"]
        sites = [site for heap in heaps if heap["heap"] == "libc.malloc" for site in heap["callsites"]]
        found = sum(site["alloc_space"]["estimate"] for site in sites)
        check(found == UWSGI_SIZES[0] + sum(UWSGI_SIZES), f"{found} bytes in {len(sites)} callsites")
        # The plugin opened the interpreter after the program's start.
        texts = [python_frames.python_frames(site)[0] for heap in heaps if heap["heap"] == "python.object"
                 for site in heap["callsites"]]
        check(["page", script, 5] in texts and all(text[:2] == ["page", script] for text in texts), f"small objects: {texts}")
        for site in sites:
            frames, names = python_frames.python_frames(site), [frame["name"] for frame in site["frames"]]
            check(frames == [["page", script, 4], ["application", script, 8]], f"{frames}")
            check(names[-1] == "_start" and "uwsgi_request_wsgi" in names, f"{names}")


# --- mono ---

CSHARP = """using System;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
class Allocator {
    [MethodImpl(MethodImplOptions.NoInlining)]
    static IntPtr Leaf(int n) { return Marshal.AllocHGlobal(n); }
    [MethodImpl(MethodImplOptions.NoInlining)]
    static void Middle() { for (int i = 0; i < 10; i++) Leaf(100000); }
    static void Main() {
        for (int i = 0; i < 30; i++) Middle();
        Console.WriteLine("done");
        // The profiler looks at new code now and then: see jit.py for programs that end before.
        System.Threading.Thread.Sleep(300);
    }
}
"""


def test_mono():
    """Compiled methods have names by a perf map, and their callers with frame pointers."""
    need("mono", "mcs")
    with tempfile.TemporaryDirectory() as path:
        source, binary = write(os.path.join(path, "a.cs"), CSHARP), os.path.join(path, "a.exe")
        check(run(["mcs", "-out:" + binary, source]).status == 0, "mcs")
        bare = run(["mono", binary])

        def profiled(name, *options, **environment):
            output = os.path.join(path, name)
            # Large blocks are always sampled.
            run(host_command(["mono", *options, binary], output, 4096), env=environment).check_same(bare, name)
            heap = report(output)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(f"/tmp/perf-{heap['pid']}.map")
            sites = [site for site in heap["callsites"] if site["alloc_space"]["estimate"] == 30_000_000]
            check(len(sites) == 1 and sites[0]["alloc_objects"]["estimate"] == 300, f"{name}: {len(sites)} callsites")
            return heap, [frame["name"] for site in sites for frame in site["frames"]]

        heap, _ = profiled("plain")
        check("mono generated" in heap["remark"] and "--jitmap" in heap["remark"], f"remark: {heap['remark']!r}")
        heap, names = profiled("whole", "--jitmap", MONO_DEBUG="disable_omit_fp")
        first = names.index("Allocator:Leaf (int)") if "Allocator:Leaf (int)" in names else 0
        check(names[first : first + 3] == ["Allocator:Leaf (int)", "Allocator:Middle ()", "Allocator:Main ()"], f"{names}")
        check(names[-1] == "_start" and "--jitmap" not in heap["remark"], f"{names[-1]}, remark {heap['remark']!r}")


# --- other C libraries and static programs ---


def test_musl_chroot():
    """A small system on musl, as Alpine is: its programs are profiled inside of it, dynamic and static ones."""
    directory = musl.start()
    if os.geteuid() != 0 or run(["unshare", "--mount", "true"]).status != 0:
        skip("needs root, to change the root directory and mount")
    for name in ("lib", "bin", "tmp", "proc"):
        os.mkdir(os.path.join(directory, name))
    shutil.copy("/lib/ld-musl-x86_64.so.1", os.path.join(directory, "lib"))
    # The chroot sees the library and the profiler's socket, which is below /tmp, where they are outside.
    inside = directory + LIBRARY
    os.makedirs(os.path.dirname(inside))
    shutil.copy(LIBRARY, inside)
    script = f'mount --bind {tempfile.gettempdir()} {directory}/tmp && mount --bind /proc {directory}/proc && exec "$@"'
    mounted = ["unshare", "--mount", "sh", "-c", script, "sh"]
    # The programs are gone when their names are looked up, and outside they have other paths.
    names = {"PERFETTO_BINARY_PATH": os.path.join(directory, "bin")}
    for kind, options in (("dynamic", []), ("static", ["-static"])):
        for name in ("musl_functions", "small_stacks", "longjmp"):
            musl.build(os.path.join(directory, "bin"), name, "-Wl,--build-id", *options)
            command = ["chroot", directory, "/bin/" + name]
            output, what = tempfile.mkdtemp(dir=directory), f"{kind} {name}"
            ours = run([*mounted, *host_command(command, output, 1)], env=names)
            ours.check_same(run([*mounted, *command]), what)
            heaps = [heap for heap in report_of(output)["heaps"] if heap["heap"] == "libc.malloc"]
            truths = re.findall(r"^truth: (\S+) (\d+) (\d+)$", ours.stdout.decode(), re.M)
            check(len(heaps) == 1 and truths, f"{what}: {len(heaps)} heaps, {ours.stdout!r}")
            for function, size, calls in truths:
                found = [figure(heaps[0], function, one) for one in ("alloc_space", "alloc_objects")]
                check(found == [int(size), int(calls)], f"{what}: {function}: {found}, truth {size} {calls}")
            check(heaps[0]["partial"] == [], f"{what}: {heaps[0]['partial']}")


def has_client_in(process, root):
    """Return whether a child of the process is in this root directory and has the client."""
    with open(f"/proc/{process.pid}/task/{process.pid}/children") as children:
        pids = [int(pid) for pid in children.read().split()]
    return any(os.path.realpath(f"/proc/{pid}/root") == root and has_client(pid) for pid in pids)


def test_other_root():
    """A program in a root directory without the library is attached to, and its loader complains of nothing."""
    if os.geteuid() != 0:
        skip("needs root, to change the root directory")
    with tempfile.TemporaryDirectory() as directory:
        command = program("commanded")
        for path in {command, *re.findall(r"(/\S+) \(0x", run(["ldd", command]).stdout.decode())}:
            os.makedirs(os.path.dirname(directory + path), exist_ok=True)
            shutil.copy(path, directory + path)
        output = os.path.join(directory, "o")
        arguments = host_command(["chroot", directory, command], output, 1)
        process = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

        wait_for("attaching", lambda: has_client_in(process, directory))
        out, err = process.communicate(b"hold 1000 100\nchurn 5000 100\n")
        check(process.returncode == 0 and out == b"ok\n" * 2, f"{process.returncode}, {out!r}")
        check(b"ld.so" not in err, f"{err!r}")
        report = report_of(output)
        heaps = [heap for heap in report["heaps"] if heap["name"] == "commanded"]
        totals = [(heap["exact_calls"], heap["exact_bytes"]) for heap in heaps]
        check(totals == [(6000, 600_000)], f"{totals}; unprofiled: {report['unprofiled']}")
        # There is no /proc, where the client could read its program's path.
        check_filed_under(heaps[0], command)


def check_filed_under(heap, path):
    """Check that every frame is filed under a file, and the innermost one under the program's, as it sees that."""
    stacks = [[frame["mapping"] for frame in one["frames"]] for one in heap["callsites"]]
    check(stacks and all(each[0] == path and "" not in each for each in stacks), f"{path}: {stacks[:2]}")


def test_no_proc():
    """A program with the library in a root directory without /proc has frames of its own, by its path there."""
    if os.geteuid() != 0 or run(["unshare", "--mount", "true"]).status != 0:
        skip("needs root, to change the root directory and mount")
    with tempfile.TemporaryDirectory() as directory:
        command = program("commanded")
        for path in {command, LIBRARY, *re.findall(r"(/\S+) \(0x", run(["ldd", command]).stdout.decode())}:
            os.makedirs(os.path.dirname(directory + path), exist_ok=True)
            shutil.copy(path, directory + path)
        os.makedirs(directory + tempfile.gettempdir(), exist_ok=True)
        os.makedirs(directory + "/bin", exist_ok=True)
        shutil.copy(command, directory + "/bin/inside")
        mounted = f'mount --bind {tempfile.gettempdir()} {directory}{tempfile.gettempdir()} && exec "$@"'
        output = os.path.join(directory, "o")
        arguments = host_command(["chroot", directory, "/bin/inside"], output, 1)
        outcome = run(["unshare", "--mount", "sh", "-c", mounted, "sh", *arguments], b"hold 1000 100\n",
                      env={"PERFETTO_BINARY_PATH": directory + "/bin"})
        check(outcome.stdout == b"ok\n", f"{outcome.status}, {outcome.stderr[-300:]!r}")
        heap = next(heap for heap in report_of(output)["heaps"] if heap["name"] == "inside")
        check_filed_under(heap, "/bin/inside")
        check(figure(heap, "hold_block", "space") == 100_000, f"{heap['callsites']}")


def profile_in_root(process, directory, number):
    """Profile a running program, with the places of this machine alone, and return its heap."""
    output = os.path.join(directory, f"out{number}")
    environment = dict(os.environ, HEAPPROFD_RUN_DIR=os.path.join(directory, f"run{number}"), HOME=directory)
    session = subprocess.Popen([TOOL, "-p", str(process.pid), "-i", "1", "-o", output], env=environment,
                               stderr=subprocess.PIPE, stdout=subprocess.PIPE)
    wait_for("attaching", lambda: has_client(process.pid))
    process.stdin.write(b"hold 1000 100\n")
    process.stdin.flush()
    check(process.stdout.readline() == b"ok\n", "the program fails")
    session.send_signal(signal.SIGINT)
    _, err = session.communicate(timeout=PATIENCE)
    check(session.returncode == 0, f"{session.returncode}: {err!r}")
    return next(heap for heap in report_of(output)["heaps"] if heap["name"] == "inside")


def test_debug_files_of_root():
    """The debug files of a program in another root directory are found there, and no link leads out of it."""
    if os.geteuid() != 0:
        skip("needs root, to change the root directory")
    need("objcopy")
    with tempfile.TemporaryDirectory() as directory:
        root = os.path.join(directory, "root")
        source = os.path.join(directory, "commanded")
        code = os.path.join(harness.ROOT, "tests", "programs", "commanded.c")
        check(run(["cc", "-g", "-Wl,--build-id", code, "-o", source]).status == 0, "cannot build")
        for path in re.findall(r"(/\S+) \(0x", run(["ldd", source]).stdout.decode()):
            os.makedirs(os.path.dirname(root + path), exist_ok=True)
            shutil.copy(path, root + path)
        debug, outside = os.path.join(directory, "whole.debug"), os.path.join(directory, "outside.debug")
        os.makedirs(root + "/bin/.debug")
        # The same code, whose debug file is identified by its build id, and by its checksum.
        whole = os.path.join(directory, "inside")
        shutil.copy(source, whole)
        for command in (["objcopy", "--only-keep-debug", whole, debug], ["strip", whole],
                        ["objcopy", "--add-gnu-debuglink=" + debug, whole, root + "/bin/inside"]):
            check(run(command).status == 0, f"{command} fails")
        shutil.copy(debug, outside)
        ident = build_id(source)
        by_id = f"{root}/usr/lib/debug/.build-id/{ident[:2]}/{ident[2:]}.debug"
        os.makedirs(os.path.dirname(by_id))
        beside = root + "/bin/.debug/whole.debug"
        outcomes = []
        process = subprocess.Popen(["chroot", root, "/bin/inside"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        try:
            for number, (place, link) in enumerate(((None, False), (by_id, False), (beside, False), (by_id, True))):
                if place and link:
                    os.symlink(outside, place)
                elif place:
                    shutil.copy(debug, place)
                heap = profile_in_root(process, directory, number)
                frames = [frame for site in heap["callsites"] for frame in site["frames"] if frame["mapping"] == "/bin/inside"]
                outcomes.append({(frame["name"], os.path.basename(frame.get("file", ""))) for frame in frames
                                 if frame["name"] == "hold_block"})
                if place:
                    os.unlink(place)
        finally:
            process.stdin.close()
            process.wait()
        named = {("hold_block", "commanded.c")}
        check(outcomes == [set(), named, named, set()], f"{outcomes}")


CGO = r"""
package main

// #include <stdlib.h>
// #include <stdio.h>
// __attribute__((noinline)) static void *take(int n) { void *volatile block = malloc(n); return block; }
// __attribute__((noinline)) static int answer(void) { char line[8]; return fgets(line, sizeof line, stdin) != NULL; }
// extern void called_back(int n);
// __attribute__((noinline)) static void call_back(int n) { called_back(n); }
import "C"

//export called_back
func called_back(n C.int) { C.free(C.take(n)) }

//go:noinline
func grab(calls int, bytes int) {
	for i := 0; i < calls; i++ {
		C.free(C.take(C.int(bytes)))
	}
}

//go:noinline
func deep(levels int, calls int) {
	if levels > 0 {
		deep(levels-1, calls)
		return
	}
	grab(calls, 200)
}

//go:noinline
func back(calls int) {
	for i := 0; i < calls; i++ {
		C.call_back(300)
	}
}

func main() {
	for C.answer() != 0 {
		grab(100, 100)
		done := make(chan int)
		go func() { deep(60, 50); done <- 1 }()
		<-done
		back(10)
		println("ok")
	}
}
"""


def names_without_boundary(frames):
    """Return the names of Go's functions on a stack, and of C's that it calls, without what cgo puts between."""
    names = [re.sub(r"\.abi0$", "", frame["name"]) for frame in frames]
    return [name for name in names if re.match(r"(main\.|take$|call_back$|called_back$|runtime\.(main|goexit|\w*cgo))", name)
            and "_Cfunc" not in name and "_cgoexp" not in name]


def check_cgo(what, output, rounds):
    """Check that all stacks with C's allocations lead through Go, as often as they were made."""
    outer = ["runtime.asmcgocall", "runtime.cgocall"]
    wanted = {
        100: ["take", *outer, "main.grab.func1", "main.grab", "main.main", "runtime.main", "runtime.goexit"],
        200: ["take", *outer, "main.grab.func1", "main.grab", *["main.deep"] * 61, "main.main.func1", "runtime.goexit"],
        300: ["take", *outer, "main.called_back"],
    }
    stacks = [(one["frames"], one["alloc_objects"]["estimate"], one["alloc_space"]["estimate"])
              for one in report(output, "--view", "alloc_space")["callsites"]]
    for size, names in wanted.items():
        found = [(frames, calls) for frames, calls, space in stacks if calls and space == size * calls
                 and frames[0]["name"] == "take"]
        kept = [[name for name in names_without_boundary(frames) if not name.endswith(".func1") or name in names]
                for frames, _ in found]
        calls = sum(calls for _, calls in found)
        check(calls == rounds * {100: 100, 200: 50, 300: 10}[size], f"{what}: {calls} calls of {size} bytes")
        check(kept and all(each[: len(names)] == names for each in kept), f"{what}: {size}: {kept[:2]}, {found[:1]}")
    ended = [frames for frames, _, _ in stacks if frames[-1]["name"].startswith("[")]
    check(not [frames for frames in ended if not any("cgocallback" in one["name"] for one in frames)], f"{what}: {ended[:1]}")


def test_cgo():
    """C code that Go calls has Go's callers on its stacks: of the main goroutine, others, and after calls back from C."""
    need("go", "gcc")
    directory = harness.make_work_directory("cgo-")
    write(os.path.join(directory, "cgo.go"), CGO)
    environment = {"GOCACHE": os.path.join(directory, "cache"), "GO111MODULE": "off", "HOME": directory}
    for mode in ("exe", "pie"):
        path = os.path.join(directory, mode)
        built = run(["go", "build", "-buildmode=" + mode, "-o", path, "cgo.go"], cwd=directory, env=environment)
        if built.status != 0:
            skip(f"go cannot build a program with cgo: {built.stderr[-300:]!r}")
        output = os.path.join(directory, "o-" + mode)
        outcome = run(host_command([path], output, 1), b"1\n" * 3)
        check(outcome.status == 0 and outcome.stderr.count(b"ok\n") == 3, f"{outcome.status}: {outcome.stderr[-300:]!r}")
        check_cgo(mode, output, 3)
        remark = report_of(output)["heaps"][0]["remark"]
        check("a Go program" in remark and "asmcgocall" not in remark, remark)
    process = subprocess.Popen([path], stdin=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0)
    command = [TOOL, "-q", "-p", str(process.pid), "-i", "1", "-o", output + "-attached"]
    profiler = subprocess.Popen(command, stderr=subprocess.PIPE)
    wait_for("attaching", lambda: has_client(process.pid))
    process.stdin.write(b"1\n")
    check(process.stderr.read(3) == b"ok\n", "the program failed")
    process.stdin.close()
    check(process.wait() == 0 and profiler.wait() == 0, f"the program or the profiler failed: {profiler.stderr.read()!r}")
    check_cgo("attached", output + "-attached", 1)


def test_no_build_id():
    """Lines of a program without a build id are those of the file at its path, as long as that is the one that ran."""
    directory = harness.make_work_directory("no-build-id-")
    source = os.path.join(harness.ROOT, "tests", "programs", "commanded.c")
    names = {"commanded": ["gcc", "-Wl,--build-id=none"]}
    if shutil.which("musl-gcc"):
        headers = ["-idirafter", "/usr/include", "-idirafter", "/usr/include/x86_64-linux-gnu"]
        names["on_musl"] = ["musl-gcc", "-static", *headers]
    for name, compiler in names.items():
        path, output = os.path.join(directory, name), os.path.join(directory, "o-" + name)
        build = [*compiler, "-std=gnu17", "-D_GNU_SOURCE", "-O2", "-g", "-U_FORTIFY_SOURCE", source, "-o", path]
        built = run(build)
        check(built.status == 0, repr(built.stderr[-400:]))
        check(b"Build ID" not in run(["readelf", "-n", path]).stdout, f"{name} has a build id")
        doctor = run([TOOL, "doctor", "--", path])
        check(b"no build id: names and lines come from the file at its path" in doctor.stdout, f"{doctor.stdout[-600:]!r}")
        outcome = run(host_command([path], output, 1), b"hold 1000 100\n")
        check(outcome.stdout == b"ok\n", f"{name}: {outcome.status} {outcome.stderr[-400:]!r}")
        truth = 1 + next(i for i, line in enumerate(open(source, encoding="utf-8")) if "kept(malloc(bytes))" in line)

        def line_of(output):
            sites = report_of(output)["heaps"][0]["callsites"]
            frame = next(one["frames"][0] for one in sites if one["frames"][0]["name"] == "hold_block")
            return frame.get("line")

        check(line_of(output) == truth, f"{name}: line {line_of(output)}, truth {truth}")
        check(run([TRACECONV, "symbolize", os.path.join(output, "raw-trace"), os.path.join(directory, "symbols")]).stderr
              .count(b"no build id: names and lines are those of") >= 1, f"{name}: it is not said")
        # A file that has come there since is not believed, even if it is the same. Nor is another build that the user
        # names: its functions are elsewhere.
        trace, symbols = os.path.join(output, "raw-trace"), os.path.join(directory, "symbols")
        shutil.move(path, os.path.join(directory, "kept"))
        shutil.copy(os.path.join(directory, "kept"), path)
        outcome = run([TRACECONV, "symbolize", trace, symbols])
        check(b"the file is another build (" + path.encode() in outcome.stderr, f"{name}: {outcome.stderr!r}")
        changed = write(os.path.join(directory, "changed.c"), open(source, encoding="utf-8").read())
        options = ["-I" + os.path.dirname(source), "-O0", "-ffunction-sections"]
        rebuilt = run([changed if each == source else each for each in build] + options)
        check(rebuilt.status == 0, repr(rebuilt.stderr[-400:]))
        for environment in ({}, {"PERFETTO_BINARY_PATH": directory}):
            outcome = run([TRACECONV, "symbolize", trace, symbols], env=environment)
            check(b"the file is another build (" + path.encode() in outcome.stderr, f"{name}: {outcome.stderr!r}")
            check(b"hold_block" not in open(symbols, "rb").read(), f"{name}: another build has named the frames")
        # The right one, elsewhere, is found below the directories that the user names.
        os.mkdir(os.path.join(directory, "elsewhere-" + name))
        shutil.move(os.path.join(directory, "kept"), os.path.join(directory, "elsewhere-" + name, name))
        outcome = run([TRACECONV, "symbolize", trace, symbols],
                      env={"PERFETTO_BINARY_PATH": os.path.join(directory, "elsewhere-" + name)})
        check(b"commanded.c" in open(symbols, "rb").read(), f"{name}: {outcome.stderr!r}")


def test_busybox():
    """Debian's static busybox is stripped. It runs as ever, and the refusal names the debug file that is missing."""
    path = shutil.which("busybox")
    if path is None or b"statically linked" not in run(["file", path]).stdout:
        skip("no static busybox")
    missing = f"/usr/lib/debug/.build-id/{build_id(path)[:2]}/{build_id(path)[2:]}.debug"
    if os.path.exists(missing):
        skip(f"{missing} is installed")
    command = [path, "sh", "-c", "seq 1000 | busybox sort -r | busybox md5sum"]
    with tempfile.TemporaryDirectory() as directory:
        output = os.path.join(directory, "o")
        run(host_command(command, output, 1), env={"DEBUGINFOD_URLS": ""}).check_same(run(command), "busybox")
        heap = json.loads(run([TOOL, "report", "--json", output]).stdout)["heaps"][0]
        check(heap["unseen"] and heap["exact_bytes"] is None, f"{heap['exact_bytes']} bytes")
        check("its symbols are stripped" in heap["remark"] and missing in heap["remark"], f"remark: {heap['remark']}")
    doctor(path, 1, missing)


if __name__ == "__main__":
    harness.limit_core_dumps()
    harness.main()
