#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Generated code on the stack has names, kinds and callers, and missing names are reported.

    jit.py CASE
"""

import contextlib
import glob
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import tempfile

import harness
from daemon import LIBRARY, Session, heap_of, own_name, report_of, scene, wait_for
from harness import TOOL, TRACECONV, check, fail, need, program, run


SCRIPT = """'use strict';
const held = [];
function makeBuffer(n) { return Buffer.allocUnsafeSlow(n); }
function leafAllocator(n) {
  held.push(makeBuffer(5000 + n));
}
function middleCaller(n) { for (let i = 0; i < 50; i++) leafAllocator(i & 7); }
function outerCaller(n) { for (let i = 0; i < 50; i++) middleCaller(i); }
%s
"""
AT_ONCE = "for (let i = 0; i < 8; i++) outerCaller(i);"
FOR_LONG = "setInterval(() => { outerCaller(1); held.length = 0; }, 20); console.log('ready');"


@contextlib.contextmanager
def directory():
    path = tempfile.mkdtemp(prefix="test-jit-")
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def remove_maps(pid):
    for path in glob.glob(f"/tmp/perf-{pid}.map*"):
        os.unlink(path)


def stacks_through(heap, name):
    """Return the callsites with a frame whose name begins so, as lists of frames, innermost first. V8 named
    functions by how they were compiled until its version 11 (node 18); they are read as by later ones."""
    for site in heap["callsites"]:
        for frame in site["frames"]:
            frame["name"] = re.sub("^(LazyCompile|Function|Eval|Script):", "JS:", frame["name"])
    return [
        site["frames"] for site in heap["callsites"]
        if any(frame["name"].startswith(name) for frame in site["frames"])
    ]


def check_whole(stacks, what):
    """Check that every stack reaches the program's start."""
    cut = [stack for stack in stacks if stack[-1]["name"] not in ("_start", "__clone3", "clone3")]
    check(not cut, f"{what}: {len(cut)} of {len(stacks)} stacks do not reach the start: "
                   f"{[f['name'] for f in cut[0]] if cut else ''}")


def check_callers(stacks, innermost, *callers):
    """Check that some stack has these frames in sequence; "JS:*f" counts as "f", whatever the tier."""
    wanted = [innermost, *callers]
    for stack in stacks:
        names = [frame["name"].lstrip("JS:~^+*").split(" ")[0] for frame in stack]
        for start in range(len(names)):
            if names[start : start + len(wanted)] == wanted:
                return
    fail(f"no stack has {' < '.join(wanted)}: {[f['name'] for f in stacks[0]] if stacks else ''}")


def node_heap(path, *options):
    """Run a script in node under heap_profile host. Return its heap and the output directory."""
    need("node")
    script = os.path.join(path, "script.js")
    output = os.path.join(path, "out")
    with open(script, "w") as file:
        file.write(SCRIPT % AT_ONCE)
    # A slow profiler (with sanitizers, on a loaded machine) could read the code only after node's end. node waits for
    # a small ring, so it is never far ahead.
    outcome = run(
        [TOOL, "host", "--quiet", "-i", "512", "--block-client", "--shmem-size", "128k", "-o", output, "--", "node",
         *options, script],
        cwd=path,
    )
    check(outcome.status == 0, f"node {options}: {outcome.status}, {outcome.stderr[-300:]!r}")
    heap = report_of(output)["heaps"][0]
    remove_maps(heap["pid"])
    return heap, output


def check_place(frames, name, line_range):
    """Check that the frames of that function have the script's path and a line."""
    found = [f for stack in frames for f in stack if f["name"].endswith(name)]
    check(found, f"no frame of {name}")
    for frame in found:
        good = frame.get("file", "").endswith("/script.js") and frame["line"] in line_range
        if not check(good, f"{name} is at {frame.get('file')}:{frame.get('line')}"):
            return


def test_node_perf_map():
    """Optimized code has names, source lines and kinds; no other frame lacks a name."""
    with directory() as path:
        heap, output = node_heap(path, "--perf-basic-prof")
        stacks = stacks_through(heap, "JS:*")
        check(stacks, "no stack with optimized JavaScript")
        check_whole(stacks, "node --perf-basic-prof")
        check_place(stacks, "middleCaller", [7])
        for stack in stacks:
            for frame in stack:
                check(frame["name"], f"a frame without a name: {frame}")
                if frame["name"].startswith("JS:"):
                    check(frame.get("kind") == "jit", f"{frame} is not generated code")
                    check(frame["mapping"] == f"[jit:{heap['pid']}]", f"{frame['mapping']}")
        # V8 maps its builtins twice; the loader does not know the second mapping.
        outer = [f["name"] for stack in stacks for f in stack]
        check("Builtins_JSEntry" in outer, "no builtin of V8")
        check("perf-basic-prof" not in heap["remark"], f"remark: {heap['remark']}")
        outcome = run([TRACECONV, "symbolize", os.path.join(output, "raw-trace"), "/dev/null"])
        check(b"[jit" not in outcome.stderr, f"symbolize: {outcome.stderr!r}")
        collapsed = run([TRACECONV, "profile", "-o", os.path.join(path, "pprof"),
                         os.path.join(output, "raw-trace")])
        check(collapsed.status == 0, f"pprof: {collapsed.stderr!r}")


def test_node_native_stack():
    """Interpreted functions have their own frames, which are marked as interpreted."""
    with directory() as path:
        heap, _ = node_heap(path, "--perf-basic-prof", "--interpreted-frames-native-stack", "--no-opt",
                            "--no-sparkplug")
        stacks = stacks_through(heap, "JS:~leafAllocator")
        check_whole(stacks, "interpreted")
        check_callers(stacks, "makeBuffer", "leafAllocator", "middleCaller", "outerCaller")
        check_place(stacks, "~leafAllocator", [4])
        kinds = {f.get("kind") for s in stacks for f in s if f["name"].startswith("JS:~")}
        check(kinds == {"interpreted"}, f"kinds of interpreted frames: {kinds}")


def test_node_jitdump():
    """Lines are those of the calls, or of the function's beginning: V8 11 damages most line tables."""
    with directory() as path:
        heap, _ = node_heap(path, "--perf-prof", "--no-turbo-inlining", "--no-enable-lazy-source-positions")
        check(glob.glob(os.path.join(path, "jit-*.dump")), "node wrote no jitdump")
        stacks = stacks_through(heap, "JS:*leafAllocator")
        check(stacks, "no stack with optimized JavaScript")
        check_whole(stacks, "node --perf-prof")
        check_place(stacks, "*leafAllocator", [4, 5])


def test_node_without_map():
    """Without a map, frames are marked as generated, and the remark names the remedy."""
    with directory() as path:
        heap, _ = node_heap(path)
        frames = [f for site in heap["callsites"] for f in site["frames"] if f.get("kind") == "jit"]
        check(frames, "no generated code")
        check(all(f["name"] == "" for f in frames), "a name without a source")
        check("code that node generated" in heap["remark"] and "--perf-basic-prof" in heap["remark"], f"remark: {heap['remark']!r}")
        check("java" not in heap["remark"] and "python" not in heap["remark"], f"of others: {heap['remark']!r}")


def running_node(daemon, path, wrapper=()):
    """Start a node that runs until it is killed; provide its pid."""
    script = os.path.join(path, "script.js")
    with open(script, "w") as file:
        file.write(SCRIPT % FOR_LONG)
    process = subprocess.Popen(
        [*wrapper, "node", "--perf-basic-prof", "--interpreted-frames-native-stack", script],
        stdout=subprocess.PIPE, cwd=path,
    )
    check(process.stdout.readline() == b"ready\n", "node did not begin")
    return process


def check_running(daemon, path, pid):
    session = Session(daemon, os.path.join(path, "o"), "-p", str(pid), "-i", "512")
    wait_for("attaching", lambda: pid in daemon.profiled_pids())
    wait_for("some samples", lambda: (os.path.exists(f"/proc/{pid}") and samples_of(daemon, pid) > 2000))
    check(session.end() == 0, session.stderr)
    heap = heap_of(session.report(), pid)
    stacks = stacks_through(heap, "JS:")
    named = [s for s in stacks if any(f["name"].endswith("outerCaller") for f in s)]
    check(named, f"no stack through outerCaller; remark {heap['remark']!r}")
    check_whole(named, "a running node")


def samples_of(daemon, pid):
    for session in daemon.status()["sessions"]:
        for process in session["processes"]:
            if process["pid"] == pid:
                return process["samples"]
    return 0


def test_node_running():
    """A running node is attached to, and its code has names."""
    need("node")
    with scene() as (daemon, path):
        process = running_node(daemon, path)
        try:
            check_running(daemon, path, process.pid)
        finally:
            process.kill()
            process.wait()
            remove_maps(process.pid)


def test_node_in_namespaces():
    """The map of a process in namespaces is in its own /tmp, under its own pid."""
    need("node", "unshare")
    if os.geteuid() != 0:
        harness.skip("needs root, to make namespaces")
    with scene() as (daemon, path):
        private = os.path.join(path, "tmp")
        os.mkdir(private)
        process = running_node(daemon, "/var/tmp", ["unshare", "--mount", "--pid", "--fork", "--mount-proc",
                               "sh", "-c", f"mount --bind {private} /tmp && exec \"$@\"", "sh"])
        try:
            pid = wait_for("node", lambda: harness.find_descendant(process.pid, "node"))
            check_running(daemon, path, pid)
            check(os.listdir(private) == ["perf-1.map"], f"its map: {os.listdir(private)}")
        finally:
            subprocess.run(["kill", "-9", str(pid)])
            process.wait()
            os.unlink("/var/tmp/script.js")


JAVA = """import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
public class Allocator {
    static List<ByteBuffer> held = new ArrayList<>();
    static void leaf(int n) { held.add(ByteBuffer.allocateDirect(1000 + n)); }
    static void middle(int n) { for (int i = 0; i < 10; i++) leaf(i); }
    public static void main(String[] args) { for (int i = 0; i < 3000; i++) middle(i); }
}
"""


def test_java():
    """HotSpot writes its map at exit; stacks pass through compiled code and the interpreter."""
    need("java", "javac")
    with directory() as path:
        source = os.path.join(path, "Allocator.java")
        with open(source, "w") as file:
            file.write(JAVA)
        check(run(["javac", source]).status == 0, "javac")
        output = os.path.join(path, "out")
        outcome = run(
            [TOOL, "host", "--quiet", "-i", "4096", "-o", output, "--", "java", "-cp", path,
             "-XX:+PreserveFramePointer", "-XX:+UnlockDiagnosticVMOptions", "-XX:+DumpPerfMapAtExit",
             "Allocator"]
        )
        check(outcome.status == 0, f"java: {outcome.status}, {outcome.stderr[-300:]!r}")
        heap = report_of(output)["heaps"][0]
        remove_maps(heap["pid"])
        stacks = stacks_through(heap, "void Alloc")
        check(stacks, "no stack through compiled methods")
        check_whole(stacks, "java")
        kinds = {
            frame["name"]: frame.get("kind") for stack in stacks for frame in stack
            if frame["mapping"].startswith("[jit:")
        }
        check(kinds.get("Interpreter") == "interpreted", f"kinds: {kinds}")
        check(kinds.get("void Allocator.middle(int)") == "jit", f"kinds: {kinds}")


def test_node_dumps():
    """A stack stays the same from dump to dump, so the figures do not exceed the totals."""
    need("node")
    with scene() as (daemon, path):
        script = os.path.join(path, "script.js")
        with open(script, "w") as file:
            file.write(SCRIPT % FOR_LONG)
        node = os.path.join(path, own_name("node"))
        os.symlink(shutil.which("node"), node)
        session = Session(daemon, os.path.join(path, "o"), "-n", own_name("node"), "-c", "50", "-i", "512")
        process = subprocess.Popen(
            [node, "--perf-basic-prof", script], stdout=subprocess.PIPE, cwd=path,
            env={**daemon.environment, "LD_PRELOAD": LIBRARY},
        )
        try:
            check(process.stdout.readline() == b"ready\n", "node did not begin")
            wait_for("some samples", lambda: samples_of(daemon, process.pid) > 20000)
            check(session.end() == 0, session.stderr)
            heap = heap_of(session.report(), process.pid)
            check(heap["dumps"] > 2, f"{heap['dumps']} dumps")
            total = sum(site["alloc_space"]["estimate"] for site in heap["callsites"])
            share = total / heap["exact_bytes"]
            check(0.97 < share < 1.03, f"callsites have {share:.3f} of the total")
            check(stacks_through(heap, "JS:"), f"no names; {heap['remark']}")
        finally:
            process.kill()
            process.wait()
            remove_maps(process.pid)


# --- a program that generates its own code ---


def hand_made(mode, path):
    """Return {name: heap} of the program in that mode. It ends before the profiler's next scan."""
    output = os.path.join(path, "out-" + mode)
    outcome = run(
        [TOOL, "host", "--quiet", "-i", "1", "-o", output, "--", program("hand_made"), mode], cwd=path
    )
    check(outcome.status == 0, f"{mode}: {outcome.status}, {outcome.stderr[-300:]!r}")
    heaps = report_of(output)["heaps"]
    for heap in heaps:
        remove_maps(heap["pid"])
    return {heap["heap"]: heap for heap in heaps}


class HandMade:
    """The program, which obeys commands; the profiler attaches before the program runs its code."""

    def __init__(self, daemon, path, mode, tells=True):
        self.daemon = daemon
        self.process = subprocess.Popen(
            [program("hand_made"), mode, "told"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, cwd=path,
        )
        self.pid = self.process.pid
        self.session = Session(daemon, os.path.join(path, mode), "-p", str(self.pid))
        wait_for("attaching", lambda: self.pid in daemon.profiled_pids())
        if tells:
            self.tell()

    def tell(self):
        self.process.stdin.write(b"\n")
        check(self.process.stdout.readline() == b"ok\n", "hand_made does not answer")

    def heap(self):
        """End the session. Return the heap of the program, which continues."""
        check(self.session.end() == 0, self.session.stderr)
        return heap_of(self.session.report(), self.pid)

    def end(self):
        self.process.stdin.close()
        check(self.process.wait(harness.TIMEOUT) == 0, "hand_made's end")
        remove_maps(self.pid)


def told(mode):
    """Return the heap of the program in that mode."""
    with scene() as (daemon, path):
        program = HandMade(daemon, path, mode)
        try:
            return program.heap()
        finally:
            program.end()


def stack_of(heap):
    """Return the only stack of allocate()."""
    found = [site for site in heap["callsites"] if site["frames"][0]["name"] == "allocate"]
    bytes_ = sum(site["alloc_space"]["estimate"] for site in found)
    check(len(found) == 1 and bytes_ == 100000, f"{len(found)} stacks of {bytes_} bytes")
    return found[0]["frames"]


def check_hand_made(heap, outer, inner):
    """Check that a stack is complete and has these names, and that generated frames are marked."""
    stack = stack_of(heap)
    check_whole([stack], "hand-made code")
    names = [frame["name"] for frame in stack]
    check(names[:5] == ["allocate", inner, outer, "run", "main"], f"{names}")
    for frame in stack[1:3]:
        check(frame.get("kind") == "jit", f"{frame}")
        check(frame["mapping"].startswith("[jit:"), f"{frame}")
    return stack


def test_perf_map():
    """A perf map names code in anonymous memory, and in memory that is mapped twice."""
    with directory() as path:
        for mode in ("map", "shared"):
            heap = hand_made(mode, path)["libc.malloc"]
            check_hand_made(heap, "outer", "inner")
            check("generated" not in heap["remark"], f"{mode}: {heap['remark']}")
    for mode in ("map", "shared"):
        check_hand_made(told(mode), "outer", "inner")


def test_removed_map():
    """A map that is removed before the end was opened in time."""
    with scene() as (daemon, path):
        program = HandMade(daemon, path, "removed")
        map_path = f"/tmp/perf-{program.pid}.map"
        links = f"/proc/{daemon.session_processes()[0]}/fd"

        def is_open():
            try:
                return any(os.readlink(f"{links}/{fd}") == map_path for fd in os.listdir(links))
            except OSError:
                return False

        wait_for("the daemon's read of the map", is_open)
        program.tell()
        check(not os.path.exists(map_path), "the map is still there")
        check_hand_made(program.heap(), "outer", "inner")
        program.end()


def test_jitdump():
    stack = check_hand_made(told("dump"), "outer", "inner")
    places = [(frame.get("file"), frame.get("line")) for frame in stack[1:3]]
    check(places == [("made.src", 22), ("made.src", 11)], f"{places}")


def test_exec_writes_another():
    """Two programs of one pid each have their own names, although they write to the same file."""
    with directory() as path:
        heaps = hand_made("again", path)
        check_hand_made(heaps["libc.malloc"], "new_outer", "new_inner")
        before = [heap for name, heap in heaps.items() if "before exec" in name]
        check(len(before) == 1, f"heaps {list(heaps)}")
        check_hand_made(before[0], "outer", "inner")


def test_not_trusted():
    """A link is not followed and another user's file is not read. Both are reported."""
    heap = told("link")
    check_hand_made(heap, "", "")
    check("is a link" in heap["remark"], heap["remark"])
    if os.geteuid() == 0:
        heap = told("stranger")
        check_hand_made(heap, "", "")
        check("another user" in heap["remark"], heap["remark"])


def test_damaged():
    """Valid lines of a damaged map count; the damage is reported if names are missing."""
    heap = told("damaged")
    check_hand_made(heap, "outer", "")
    check("2 lines" in heap["remark"], heap["remark"])


def heap_unread(daemon, path, mode):
    """Return the heap of the program in that mode, whose code runs while the profiler is stopped."""
    program = HandMade(daemon, path, mode, tells=False)
    (profiler,) = daemon.session_processes()
    os.kill(profiler, signal.SIGSTOP)
    try:
        program.tell()
        program.process.stdin.close()
        check(program.process.wait(harness.TIMEOUT) == 0, "hand_made's end")
    finally:
        os.kill(profiler, signal.SIGCONT)
    heap = program.heap()
    remove_maps(program.pid)
    return heap


def test_ends_unread():
    """Code of a process that ends before the profiler looks at it is unknown, and the remark says why. A perf map names
    it all the same."""
    words = "The profile ended before the memory map was read"
    with scene() as (daemon, path):
        heap = heap_unread(daemon, path, "nothing")
        stack = stack_of(heap)
        check([frame["name"] for frame in stack[1:3]] == ["", ""] and "kind" not in stack[1], f"{stack}")
        check(words in heap["remark"] and "no name: 2." in heap["remark"], f"{heap['remark']!r}")
        heap = heap_unread(daemon, path, "map")
        check([frame["name"] for frame in stack_of(heap)[1:3]] == ["inner", "outer"], f"{stack_of(heap)}")
        check(words not in heap["remark"], f"{heap['remark']!r}")


def test_no_names():
    heap = told("nothing")
    check_hand_made(heap, "", "")
    check("the program wrote neither /tmp/perf-PID.map nor a jitdump" in heap["remark"], heap["remark"])
    check(not any(name in heap["remark"] for name in ("node", "java", "python")), f"a run time that did not run: {heap['remark']}")


if __name__ == "__main__":
    if not sys.argv[1].startswith(("node", "java")) and platform.machine() != "x86_64":
        harness.skip("hand_made's code is x86-64's")
    harness.main()
