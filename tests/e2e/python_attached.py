#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The heap python.object of running programs, which the profiler attaches to; each behaviour by its name.

    python_attached.py CASE

The truth is the interpreter's own count, as in python_heap.py: what both heaps hold, less the blocks
that the interpreter has got meanwhile, is the same for all amounts of objects.
"""

import contextlib
import glob
import json
import os
import signal
import subprocess
import tempfile
import time
import urllib.request

import harness
from attach import attached
from daemon import PATIENCE, Session, report_of, scene, wait_for
from harness import check, run
from python_heap import BOOKKEEPING_MAX, DEBIAN, ENVIRONMENT, HEAP, MAKE, PYTHONS, live, profiled

CALL_PAGE = "heapprofd_calls"
SLACK = 2 * BOOKKEEPING_MAX  # of two sessions

# Makes some objects for each line with a number, and answers with the blocks that were added.
MAKES = MAKE + """
import gc, threading
gc.disable()
kept = [make(50)]
def add(n):
    before = sys.getallocatedblocks()
    kept.append(make(n))
    return sys.getallocatedblocks() - before
for line in sys.stdin:
    print(eval(line), flush=True)
"""


class Asked:
    """A running program that evaluates each line of its input."""

    def __init__(self, script=MAKES, python=DEBIAN, options=(), environment=None):
        self.process = subprocess.Popen(
            [python, *options, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            stderr=subprocess.DEVNULL if environment else None,
            env={**os.environ, **ENVIRONMENT, **(environment or {})})
        self.pid = self.process.pid
        self.ask("add(10)")

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def end(self):
        self.process.stdin.close()
        check(self.process.wait(PATIENCE) == 0, f"the program failed: {self.process.returncode}")

    def maps(self):
        with open(f"/proc/{self.pid}/maps") as file:
            return file.read()


@contextlib.contextmanager
def session_of(daemon, program, output, *options):
    session = Session(daemon, output, "-p", str(program.pid), "--no-symbols", *options)
    attached(daemon, program)
    yield
    session.end()


def heaps_of(output, sites=1):
    """Return {name: heap} of the report, with that many callsites, 0 for all: at interval 1 there are very many."""
    heaps = {heap["heap"]: heap for heap in report_of(output, "--top", str(sites))["heaps"]}
    for heap in heaps.values():
        lost = {reason: count for reason, count in heap["lost"].items() if count and reason not in harness.INCOMPLETE}
        check(not lost, f"{heap['heap']}: lost {lost}")
    return heaps


def beyond_blocks(daemon, program, directory, line):
    """Return the live allocations of a session in which the line is evaluated, less its blocks; the heaps."""
    output = os.path.join(directory, f"o{time.monotonic_ns()}")
    with session_of(daemon, program, output, "-i", "1"):
        program.ask("add(20)")
        blocks = int(program.ask(line))
    heaps = heaps_of(output)
    return live(heaps) - blocks, heaps


def check_amounts(what, daemon, directory, few="add(0)", many="add(2000)", **options):
    program = Asked(**options)
    first, _ = beyond_blocks(daemon, program, directory, few)
    between = program.ask("add(300)")
    second, heaps = beyond_blocks(daemon, program, directory, many)
    check(int(between) > 900, f"{what}: without a session {between}")
    check(abs(first - second) <= SLACK, f"{what}: {first} allocations beyond blocks, then {second}")
    check(program.maps().count(CALL_PAGE) == 1, f"{what}: {program.maps()}")
    check("heapprofd_client" not in program.maps(), f"{what}: the client stays mapped")
    program.end()
    return heaps


def test_exact():
    """Both heaps hold each block once, in two sessions one after the other."""
    with scene() as (daemon, directory):
        for python in PYTHONS:
            heaps = check_amounts(python, daemon, directory, python=python)
            check(live(heaps, HEAP) > 6000, f"{python}: {live(heaps, HEAP)} objects")
            check("python.object" not in heaps[HEAP]["remark"], heaps[HEAP]["remark"])
        check_amounts("-X dev", daemon, directory, options=("-X", "dev"))
        check_amounts("debug", daemon, directory, environment={"PYTHONMALLOC": "debug"})


def test_wrapped():
    """Threads, tracemalloc and a table that the program has copied: the heap sees what reaches pymalloc."""
    script = MAKES.replace("for line in sys.stdin:", """
def in_threads(n):
    before = sys.getallocatedblocks()
    threads = [threading.Thread(target=lambda: kept.append(make(n))) for _ in range(4)]
    for thread in threads:
        thread.start()
        thread.join()
    del kept[-2]
    return sys.getallocatedblocks() - before
def traced(n):
    import tracemalloc
    tracemalloc.start()
    before = sys.getallocatedblocks()
    kept.append(make(n))
    after = sys.getallocatedblocks()
    tracemalloc.stop()
    return after - before
in_threads(1), traced(1)
for line in sys.stdin:""")
    with scene() as (daemon, directory):
        heaps = check_amounts("threads", daemon, directory, "in_threads(0)", "in_threads(2000)", script=script)
        check(live(heaps, HEAP) > 18000, f"threads: {live(heaps, HEAP)} objects")
        heaps = check_amounts("tracemalloc", daemon, directory, "traced(0)", "traced(2000)", script=script)
        check(live(heaps, HEAP) > 6000, f"tracemalloc: {live(heaps, HEAP)} objects")


# Answers with the interpreter's tables of functions, and calls through a copy of one.
COPIES = MAKES.replace("for line in sys.stdin:", """
import ctypes, json
def tables():
    found = []
    for domain in range(3):
        table = (ctypes.c_uint64 * 5)()
        ctypes.pythonapi.PyMem_GetAllocator(domain, table)
        found.append(list(table))
    return json.dumps(found)
copied = (ctypes.c_uint64 * 5)()
def copy():
    ctypes.pythonapi.PyMem_GetAllocator(2, copied)
    return 1
def use():
    allocate = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)(copied[1])
    release = ctypes.PYFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(copied[4])
    blocks = [allocate(None, 100) for _ in range(1000)]
    for block in blocks:
        release(None, block)
    return len(set(blocks))
tables()
for line in sys.stdin:""")


def test_tables():
    """A session changes the tables of pymalloc, and its end restores them. A copy stays valid."""
    with scene() as (daemon, directory):
        program = Asked(COPIES)
        before = json.loads(program.ask("tables()"))
        for number in range(3):
            with session_of(daemon, program, os.path.join(directory, f"o{number}"), "-i", "4096"):
                during = json.loads(program.ask("tables()"))
                check(during[0] == before[0] and during[1] != before[1] and during[2] != before[2], f"{during}")
                program.ask("copy()")
                check(program.ask("use()") == "1000", "calls through a copy")
            check(json.loads(program.ask("tables()")) == before, f"session {number}: the tables stay changed")
            check(program.ask("use()") == "1000", "calls through a copy after the session")
        check(program.maps().count(CALL_PAGE) == 1, program.maps())
        program.end()


# Makes objects in threads until it is told to end. Prints a figure that depends on all of them.
STORM = """
import hashlib, sys, threading
def work(number):
    text = hashlib.sha256()
    for turn in range(int(sys.argv[1])):
        made = [str((i, turn, number)) for i in range(300)]
        made.sort()
        table = {entry: [i] * (i % 40) for i, entry in enumerate(made)}
        text.update("".join(made[::7]).encode() + str(sum(map(len, table.values()))).encode())
    results[number] = text.hexdigest()
results = {}
threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(sorted(results.items()))
"""


def test_cycles():
    """Sessions begin and end while threads make objects: the program's output is as without them."""
    truth = run([DEBIAN, "-c", STORM, "1200"]).stdout
    with scene() as (daemon, directory):
        process = subprocess.Popen([DEBIAN, "-c", STORM, "1200"], stdout=subprocess.PIPE)
        sessions = 0
        while process.poll() is None and sessions < 25:
            session = Session(daemon, os.path.join(directory, f"o{sessions}"), "-p", str(process.pid),
                              "-i", "1" if sessions % 3 == 0 else "4096", "--no-symbols", begins=False)
            wait_for("attaching", lambda: process.pid in daemon.profiled_pids() or process.poll() is not None)
            time.sleep(0.02 * (sessions % 4))
            session.end()
            sessions += 1
        out, _ = process.communicate(timeout=PATIENCE)
        check(process.returncode == 0 and out == truth, f"{process.returncode}: {out!r}, without {truth!r}")
        check(sessions >= 3, f"{sessions} sessions")


FORKS = MAKES.replace("for line in sys.stdin:", """
def fork(n):
    out, into = os.pipe()
    if os.fork() == 0:
        made = make(n)
        del made
        again = [make(n) for _ in range(3)]
        changed = "heapprofd_client" in open("/proc/self/maps").read()
        os.write(into, f"{len(again)} {changed}".encode())
        os._exit(0)
    os.close(into)
    answer = os.read(out, 100).decode()
    os.close(out)
    os.wait()
    return answer
for line in sys.stdin:""")


def test_forks():
    """Forked children of a profiled program run on unprofiled, and the parent's figures stay exact."""
    with scene() as (daemon, directory):
        program = Asked(FORKS)
        first, _ = beyond_blocks(daemon, program, directory, "add(0)")
        output = os.path.join(directory, "o")
        with session_of(daemon, program, output, "-i", "1"):
            program.ask("add(20)")
            for _ in range(3):
                check(program.ask("fork(500)").startswith("3 "), "a child failed")
            blocks = int(program.ask("add(2000)"))
        heaps = heaps_of(output)
        check(abs(live(heaps) - blocks - first) <= SLACK,
              f"{first} allocations beyond blocks, with children {live(heaps) - blocks}")
        check("3 forked children" in heaps["libc.malloc"]["remark"] or "child" in heaps["libc.malloc"]["remark"],
              heaps["libc.malloc"]["remark"])
        check(program.ask("fork(500)").startswith("3 "), "a child after the session failed")
        program.end()


def test_missing():
    """If the heap cannot be counted, doctor and the report say why; malloc is profiled."""
    with scene() as (daemon, directory):
        for number, (environment, reason) in enumerate((
            ({"PYTHONMALLOC": "malloc_debug"}, "another allocator for them than pymalloc"),
            ({"PYTHONMALLOCSTATS": "1"}, "PYTHONMALLOCSTATS is set"),
            ({"PYTHONMALLOC": "malloc"}, "no request has reached"),
        )):
            program = Asked(environment=environment)
            if environment.get("PYTHONMALLOC") != "malloc":
                advice = run([harness.TOOL, "doctor", "-p", str(program.pid)]).stdout.decode()
                check(reason in advice, f"{environment}: {advice}")
            output = os.path.join(directory, f"o{number}")
            with session_of(daemon, program, output, "-i", "1"):
                program.ask("add(1000)")
            heaps = heaps_of(output)
            check(HEAP not in heaps and "There is no python.object: " in heaps["libc.malloc"]["remark"]
                  and reason in heaps["libc.malloc"]["remark"], f"{environment}: {heaps['libc.malloc']['remark']}")
            program.end()


def test_selected():
    """--heaps and --exclude-heaps choose among malloc and python.object."""
    with scene() as (daemon, directory):
        program = Asked()
        for number, (options, expected) in enumerate((
            ((), {"libc.malloc", HEAP}), (("--heaps", HEAP), {HEAP}), (("--heaps", "libc.malloc"), {"libc.malloc"}),
            (("--exclude-heaps", HEAP), {"libc.malloc"}), (("--heaps", "libc.malloc," + HEAP), {"libc.malloc", HEAP}),
        )):
            output = os.path.join(directory, f"o{number}")
            with session_of(daemon, program, output, *options):
                program.ask("add(500)")
            heaps = heaps_of(output)
            check(set(heaps) == expected, f"{options}: {list(heaps)}")
            for heap in heaps.values():
                check("only malloc" not in heap["remark"], heap["remark"])
        program.end()


def test_limit():
    """Every object is recorded until that costs too much, and estimates stay right."""
    with scene() as (daemon, directory):
        program = Asked(MAKES.replace("for line in sys.stdin:", """
import time
def busy(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        x = [bytes(i) for i in range(400)]
    return 1
for line in sys.stdin:"""))
        intervals = {}
        for option in ("", "5"):
            output = os.path.join(directory, "o" + option)
            with session_of(daemon, program, output, "-i", "4096", *(("--max-overhead", option) if option else ())):
                program.ask("busy(1.0)")
            heaps = heaps_of(output)
            intervals[option] = [heaps["python.object"][key] for key in ("first_interval_bytes", "interval_bytes")]
            for heap in heaps.values():
                check(heap["agreement"]["agrees"], f"{option}: {heap['agreement']}")
        check(intervals[""] == [4096, 4096], f"given: {intervals}")
        check(intervals["5"][0] == 1 and intervals["5"][1] >= 4096, f"limited: {intervals}")
        program.end()


SERVER = """
import http.server, json
kept = []
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        kept.append({"path": self.path, "parts": [self.path * i for i in range(20)]})
        body = json.dumps(kept[-1]).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *arguments):
        pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
"""


def test_server():
    """A running HTTP server: what its handler keeps has the handler's function and line."""
    with scene() as (daemon, directory):
        process = subprocess.Popen([DEBIAN, "-c", SERVER], stdout=subprocess.PIPE, text=True, env={**os.environ, **ENVIRONMENT})
        address = f"http://127.0.0.1:{process.stdout.readline().strip()}/"
        answers = [[], []]
        for i in range(50):
            answers[0].append(urllib.request.urlopen(f"{address}{i}").read())
        output = os.path.join(directory, "o")
        session = Session(daemon, output, "-p", str(process.pid))
        wait_for("attaching", lambda: process.pid in daemon.profiled_pids())
        for i in range(50):
            answers[1].append(urllib.request.urlopen(f"{address}{i}").read())
        session.end()
        check(answers[0] == answers[1], "the server's answers differ")
        heap = heaps_of(output, sites=0)[HEAP]
        sites = [site for site in heap["callsites"] if any(
            frame["name"].startswith("Handler.do_GET") for frame in site["frames"])]
        objects = sum(site["objects"]["estimate"] for site in sites)
        check(objects >= 50 * 19, f"{objects} objects of the handler")
        process.terminate()
        process.wait(PATIENCE)


EMBEDS = """
#include <Python.h>
int main(int count, char **arguments)
{
    Py_Initialize();
    return PyRun_SimpleString(arguments[count - 1]);
}
"""


def check_embedded(what, program):
    """Run a program with CPython inside: the heap begins with its first object."""
    def beyond(n):
        outcome, heaps = profiled(MAKE + f"keep = make({n}); count()", python=program)
        remark = heaps["libc.malloc"]["remark"]
        check("begins with its first allocation" in remark, f"{what}: {remark}")
        return live(heaps) - int(outcome.stdout), heaps

    few, _ = beyond(0)
    many, heaps = beyond(2000)
    check(abs(few - many) <= SLACK, f"{what}: {few} allocations beyond blocks, then {many}")
    check(live(heaps, HEAP) > 6000, f"{what}: {live(heaps, HEAP)} objects")


def test_from_start():
    """Programs that the preloaded library cannot see: a static one, and one with jemalloc in its executable."""
    harness.need("cc")
    archives = glob.glob("/usr/lib/python3.*/config-*/libpython3.*[0-9].a")
    include = glob.glob("/usr/include/python3.*/Python.h")
    jemalloc = glob.glob("/usr/lib/*/libjemalloc_pic.a")
    if not archives or not include or not jemalloc:
        harness.skip("no static libraries of CPython and jemalloc")
    libraries = ["-lexpat", "-lz", "-lm", "-ldl", "-lutil", "-lpthread"]
    with tempfile.TemporaryDirectory(prefix="test-") as directory:
        source = os.path.join(directory, "embeds.c")
        with open(source, "w") as file:
            file.write(EMBEDS)
        for what, options in (
            ("static", ["-static", "-no-pie", archives[0], *libraries]),
            ("jemalloc", ["-no-pie", "-Wl,--export-dynamic", "-Wl,--whole-archive", jemalloc[0], "-Wl,--no-whole-archive",
                          archives[0], *libraries, "-lstdc++"]),
        ):
            program = os.path.join(directory, what)
            built = run(["cc", "-w", source, "-I", os.path.dirname(include[0]), *options, "-o", program])
            if check(built.status == 0, f"{what}: {built.stderr[-500:]!r}"):
                check_embedded(what, program)


def test_left_behind():
    """A killed profiler leaves the program running; the next session is exact, and restores the tables."""
    with scene() as (daemon, directory):
        program = Asked(COPIES)
        before = program.ask("tables()")
        session = Session(daemon, os.path.join(directory, "o"), "-p", str(program.pid), "--no-symbols")
        attached(daemon, program)
        program.ask("add(100)")
        for process in daemon.session_processes():
            os.kill(process, signal.SIGKILL)
        session.process.communicate()
        check(int(program.ask("add(500)")) > 1000, "it runs on")
        few, _ = beyond_blocks(daemon, program, directory, "add(0)")
        many, _ = beyond_blocks(daemon, program, directory, "add(2000)")
        check(abs(few - many) <= SLACK, f"{few} allocations beyond blocks, then {many}")
        check(program.ask("tables()") == before, "the tables stay changed")
        check(program.maps().count(CALL_PAGE) == 1, program.maps())
        program.end()


def test_child():
    """A child that a profiled program has forked can be attached to itself."""
    script = MAKES.replace("for line in sys.stdin:", """
def fork():
    into, out = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(into[0], 0)
        os.dup2(out[1], 1)
        for fd in (*into, *out):
            os.close(fd)
        sys.stdin = open(0)
        return 0
    global child_input, child_output
    child_input, child_output = open(into[1], "w"), open(out[0])
    os.close(into[0]), os.close(out[1])
    child_output.readline()
    return child
def tell(line):
    child_input.write(line + "\\n")
    child_input.flush()
    return child_output.readline().strip()
def lines():
    while True:
        line = sys.stdin.readline()
        if not line:
            return
        yield line
for line in lines():""")

    class Child:
        def __init__(self, parent, pid):
            self.parent, self.pid = parent, pid

        def ask(self, line):
            return self.parent.ask(f"tell({line!r})")

    with scene() as (daemon, directory):
        program = Asked(script)
        with session_of(daemon, program, os.path.join(directory, "o"), "-i", "1"):
            child = Child(program, int(program.ask("fork()")))
            check(int(child.ask("add(300)")) > 900, "the child runs on")
        few, _ = beyond_blocks(daemon, child, directory, "add(0)")
        many, heaps = beyond_blocks(daemon, child, directory, "add(2000)")
        check(abs(few - many) <= SLACK, f"{few} allocations beyond blocks, then {many}")
        check(live(heaps, HEAP) > 6000, f"{live(heaps, HEAP)} objects")
        program.ask("[child_input.close(), os.waitpid(-1, 0)]")
        program.end()


if __name__ == "__main__":
    harness.limit_core_dumps()
    harness.main()
