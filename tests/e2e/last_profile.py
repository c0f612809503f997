#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""How a program ended, and its last dumps.

    last_profile.py CASE

The OOM killer is the kernel's own, in a memory cgroup that the test makes. Where the machine does not let it, a kill by
the test takes its place, and the test says so.
"""

import json
import math
import os
import select
import signal
import subprocess
import sys
import threading
import time

import harness
from continuous import Collector, configure
from daemon import Daemon, own_name, wait_for
from harness import TOOL, check, run
from memory_cgroup import MemoryCgroup

PYTHON = os.path.realpath(sys.executable)
MB = 1 << 20
LIMIT = 64 * MB
WORDS_OF_OOM = "signal 9, the cgroup's oom_kill counter rose"

# Allocates a MB at a time, and counts them in a file; then ends as its argument says. `hold` waits to be killed, and so does
# `attached`, which begins when the profiler is in it.
PROGRAM = """
import os, signal, sys, time
tally = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
kind, megabytes, pause = sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
held = []
while kind == "attached" and b"/memfd:heapprofd" not in open("/proc/self/maps", "rb").read():
    time.sleep(0.01)
while len(held) < megabytes:
    held.append(bytearray(b"x") * (1 << 20))
    os.write(tally, b".")
    time.sleep(pause)
if kind == "again":
    held = held[:len(held) // 4]
    time.sleep(0.5)
    while len(held) < megabytes:
        held.append(bytearray(b"x") * (1 << 20))
        time.sleep(pause)
    time.sleep(0.5)
if kind in ("hold", "attached"):
    time.sleep(60)
if kind == "abort":
    os.abort()
if kind in ("SIGSEGV", "SIGBUS", "SIGKILL", "SIGTERM"):
    os.kill(os.getpid(), getattr(signal, kind))
sys.exit(3 if kind == "exit" else 0)
"""


class Scene:
    def __init__(self):
        self.directory = harness.make_work_directory("test-last-profile-")
        self.tally, self.output = os.path.join(self.directory, "tally"), os.path.join(self.directory, "profile")

    def command(self, kind, megabytes, pause=0.0):
        return [PYTHON, "-S", "-c", PROGRAM, self.tally, kind, str(megabytes), str(pause)]

    def allocated(self):
        """Return how many MB the program has allocated."""
        return os.path.getsize(self.tally) if os.path.exists(self.tally) else 0

    def heaps(self, *options):
        report = run([TOOL, "report", "--json", *options, self.output])
        heaps = json.loads(report.stdout or b'{"heaps": []}')["heaps"]
        return [heap for heap in heaps if heap["heap"] == "libc.malloc" and heap["command"].startswith(PYTHON)]

    def heap(self, *options):
        heaps = self.heaps(*options)
        check(len(heaps) == 1, f"heaps: {[(heap['pid'], heap['command'][:40]) for heap in heaps]}")
        return heaps[0]

    def text(self, *options):
        return run([TOOL, "report", *options, self.output]).stdout.decode()

    def causes(self):
        """Return the cause of each dump of malloc's heap."""
        rows = run([TOOL, "query", "--json", self.output,
                    "select cause from hp_total where heap_name = 'libc.malloc' order by ts"]).stdout
        return [row["cause"] for row in json.loads(rows)]


def check_held(scene, heap, what):
    """The last dump has every MB that the program still held, and no more than the one that was being allocated."""
    live, held = heap["total"]["space"]["estimate"] / MB, scene.allocated()
    check(held <= live <= held + 6, f"{what}: {live:.1f} MB live at the last dump, the program had {held}")


def test_command():
    """The reasons of a command's own end."""
    for kind, status, words, how, code in (
        ("abort", -signal.SIGABRT, "signal 6 (SIGABRT)", "signal", 6),
        ("SIGSEGV", -signal.SIGSEGV, "signal 11 (SIGSEGV)", "signal", 11),
        ("SIGBUS", -signal.SIGBUS, "signal 7 (SIGBUS)", "signal", 7),
        ("SIGKILL", -signal.SIGKILL, "signal 9 (SIGKILL)", "signal", 9),
        ("exit", 3, "exit code 3", "exit", 3),
        ("well", 0, "exit code 0", "exit", 0),
    ):
        scene = Scene()
        outcome = run(harness.host_command(scene.command(kind, 10), scene.output, 4096), preexec_fn=harness.limit_core_dumps)
        check(outcome.status == status, f"{kind}: status {outcome.status}")
        heap = scene.heap()
        end = heap["end"]
        check(end and (end["words"], end["how"], end["code"]) == (words, how, code), f"{kind}: {end}")
        check(not end["oom_killer"], f"{kind}: {end}")
        if end["how"] == "signal":  # else Python frees all before it ends
            check_held(scene, heap, kind)
        check(("ended         " + words in scene.text()) == (kind != "well"), f"{kind}: {scene.text()[:600]}")


def reap_at_once(process):
    """Wait for a process in the moment of its end, as a shell does."""
    thread = threading.Thread(target=process.wait)
    thread.start()
    return thread


def profile_running(scene, environment=None):
    """Profile a program that is not our tool's child, kill it in the middle of its allocations, and return its heap."""
    process = subprocess.Popen(scene.command("hold", 1000, 0.002))
    reaper = reap_at_once(process)
    tool = subprocess.Popen([TOOL, "-i", "4096", "-q", "-o", scene.output, "-p", str(process.pid)], env=environment)
    wait_for("the profile", lambda: os.path.exists(os.path.join(scene.output, "raw-trace"))
             and harness.client_mappings(process.pid))
    before = scene.allocated()
    wait_for("some allocations", lambda: scene.allocated() > before + 20)
    process.kill()
    reaper.join()
    check(tool.wait(harness.TIMEOUT) == 0, f"the tool's status: {tool.returncode}")
    return scene.heap()


def test_strangers():
    """The reason of the end of a process whose parent is not the profiler."""
    scene = Scene()
    end = profile_running(scene)["end"]
    check(end and end["words"] == "signal 9 (SIGKILL)", f"without a daemon: {end}")
    scene = Scene()
    daemon = Daemon(scene.directory).start()
    end = profile_running(scene, daemon.environment)["end"]
    check(end and end["words"] == "signal 9 (SIGKILL)", f"by a daemon: {end}")
    daemon.process.terminate()
    daemon.process.wait()


def test_child():
    """The reason of a child's end, beside that of the command."""
    scene = Scene()
    command = ["/bin/sh", "-c", '"$@"; exit 5', "sh", *scene.command("abort", 5)]
    run(harness.host_command(command, scene.output, 4096, "--follow-children"), preexec_fn=harness.limit_core_dumps)
    end = scene.heap()["end"]
    check(end and end["words"] == "signal 6 (SIGABRT)", f"the child: {end}")
    rows = run([TOOL, "query", "--json", scene.output, "select how, code from hp_process_end order by code"]).stdout
    check(json.loads(rows) == [{"how": "exit", "code": 5}, {"how": "signal", "code": 6}], rows)


def make_cgroup():
    cgroup = MemoryCgroup(LIMIT)
    if cgroup.version is None:
        harness.skip(f"no memory cgroup can be made here: {cgroup.why}")
    print(f"a memory cgroup of version {cgroup.version}")
    return cgroup


def test_oom_killer():
    """The kernel's OOM killer ends the program: its last dump is whole, and one was taken before."""
    cgroup = MemoryCgroup(LIMIT)
    scene = Scene()
    if cgroup.version is None:
        print(f"no memory cgroup can be made here ({cgroup.why}): the test kills the program")
        command = scene.command("SIGKILL", 60, 0.005)
    else:
        print(f"a memory cgroup of version {cgroup.version}")
        command = cgroup.inside(scene.command("hold", 1000, 0.005))
    outcome = run(harness.host_command(command, scene.output, 4096))
    check(outcome.status == -signal.SIGKILL, f"status {outcome.status}: {outcome.stderr}")
    heap = scene.heap()
    end = heap["end"]
    check_held(scene, heap, "killed by the kernel")
    if cgroup.version is None:
        check(end["words"] == "signal 9 (SIGKILL)", f"{end}")
        return
    check(cgroup.kills() == 1, f"{cgroup.kills()} kills")
    check(end["words"] == WORDS_OF_OOM and end["oom_killer"] and end["oom_kills"] == "cgroup_rose", f"{end}")
    check(end["limit_bytes"] == LIMIT, f"limit: {end}")
    check(end["used_bytes"] and LIMIT / 2 < end["used_bytes"] <= LIMIT, f"used: {end}")
    check(end["rss_bytes"] and LIMIT / 2 < end["rss_bytes"] <= LIMIT * 1.1, f"resident: {end}")
    check(WORDS_OF_OOM in scene.text(), scene.text()[:800])
    causes = scene.causes()
    check(causes[-2:] == ["near_limit", None], f"causes of the dumps: {causes}")
    before = scene.heap("--dump", str(heap["dumps"] - 1))
    cause = before["cause"]
    check(cause and 0.9 * LIMIT <= cause["used_bytes"] <= LIMIT and cause["limit_bytes"] == LIMIT, f"{cause}")
    check("dumped        because the cgroup used" in scene.text("--dump", str(heap["dumps"] - 1)), "the dump's cause")
    grown = heap["total"]["space"]["estimate"] - before["total"]["space"]["estimate"]
    check(0 <= grown < 0.2 * LIMIT, f"{grown / MB:.1f} MB between the dump and the end")
    check_oom(scene, heap, grown)


def check_oom(scene, heap, grown):
    """`heap_profile oom` lists the program, with the figures of the report."""
    (death,) = json.loads(run([TOOL, "oom", "--json", scene.output]).stdout)["deaths"]
    check((death["pid"], death["end"]) == (heap["pid"], heap["end"]), f"{death['pid']}: {death['end']}")
    check(abs(death["time_ns"] / 1e9 - time.time()) < 600, f"time: {death['time_ns']}")
    listed = next(one for one in death["heaps"] if one["heap"] == "libc.malloc")
    held = listed["held"]
    live = heap["total"]["space"]
    check(math.isclose(held["space"]["estimate"], live["estimate"]), f"held: {held['space']}, live {live}")
    check(math.isclose(listed["grown"]["space"]["estimate"], grown), f"grown: {listed['grown']['space']}, not {grown}")
    check(listed["grown"]["cause"]["kind"] == "near_limit", f"{listed['grown']['cause']}")
    most = held["callsites"][0]
    check(most["space"]["estimate"] >= scene.allocated() * MB, f"the largest callsite: {most}")
    check(any("<module>" in frame or "python" in frame for frame in most["stackframes"]), f"{most['stackframes']}")
    sizes = [row["space"]["estimate"] for row in held["callsites"]]
    check(sizes == sorted(sizes, reverse=True) and len(sizes) <= 10 <= held["callsites_in_all"], f"rows: {sizes}")
    text = run([TOOL, "oom", scene.output, "--top", "1"]).stdout.decode()
    for words in (f"{WORDS_OF_OOM}, at 20", "limit of its cgroup 67.1 MB", "Held at the last dump by the heap libc.malloc",
                  "(because the cgroup used", "more with"):
        check(words in text, f"no {words!r} in {text}")


def test_oom_verb():
    """Which ends the verb lists, and its exit codes."""
    killed, ended = Scene(), Scene()
    run(harness.host_command(killed.command("SIGTERM", 5), killed.output, 4096))
    run(harness.host_command(ended.command("exit", 5), ended.output, 4096))
    outputs = [killed.output, ended.output]
    none = run([TOOL, "oom", *outputs])
    check(none.status == 0 and none.stdout.startswith(b"No process died by the OOM killer: 2 ended in another way"), none.stdout)
    check(json.loads(run([TOOL, "oom", "--json", *outputs]).stdout)["deaths"] == [], "deaths")
    text = run([TOOL, "oom", "--all", *outputs]).stdout.decode()
    check(text.count("  ended  ") == 1 and "signal 15 (SIGTERM)" in text, text)
    check("There is no dump before, so what grew is unknown." in text, text)
    missing = run([TOOL, "oom", "--all", killed.output, "/nonexistent"])
    check(missing.status == 1 and b"/nonexistent" in missing.stderr and b"SIGTERM" in missing.stdout, f"{missing.stderr}")


def test_no_oom_killer():
    """A kill by somebody else is not the OOM killer's."""
    cgroup = make_cgroup()
    scene = Scene()
    run(harness.host_command(cgroup.inside(scene.command("SIGKILL", 10)), scene.output, 4096))
    end = scene.heap()["end"]
    check((end["words"], end["oom_kills"], end["oom_killer"]) == ("signal 9 (SIGKILL)", "unchanged", False), f"{end}")


def test_near_limit():
    """One dump for a rise, at the share that the option gives; none if it is off, or the share is not reached."""
    cgroup = make_cgroup()
    for options, kind, wanted in (
        ([], "well", [None]),
        (["--near-limit", "50%"], "well", ["near_limit", None]),
        # The second rise is within ten seconds of the first.
        (["--near-limit", "50"], "again", ["near_limit", None]),
        (["--near-limit", "off"], "well", [None]),
    ):
        scene = Scene()
        run(harness.host_command(cgroup.inside(scene.command(kind, 45, 0.01)), scene.output, 4096, *options))
        causes = scene.causes()
        # The shell's profile is a heap of another name.
        check(causes == wanted, f"{options}: {causes}")
    for value in ("0%", "101", "x", "90%x", ""):
        outcome = run([TOOL, "host", "--near-limit", value, "--", "true"])
        check(outcome.status == 125 and b"--near-limit" in outcome.stderr, f"--near-limit {value}: {outcome.stderr}")


# Reads a file over and over, for which the cgroup has no room, until its pressure has grown by some seconds.
THRASHER = """
import mmap, os, sys, time
def waited():
    with open(sys.argv[2]) as lines:
        return next(int(line.split("total=")[1]) for line in lines if line.startswith("some"))
file = open(sys.argv[1], "rb")
os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)  # it belongs to the cgroup of its writer
data = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
held = [bytearray(b"x") * (1 << 20) for i in range(4)]
began = time.monotonic()
while time.monotonic() < began + 10 and waited() < 2500000:
    for at in range(0, len(data), 4096):
        data[at]
time.sleep(0.5)
"""


def watch_pressure(path, notified):
    """Note the times of the kernel's notifications, by the same trigger as the profiler's."""
    trigger = os.open(path, os.O_RDWR | os.O_NONBLOCK)
    os.write(trigger, b"some 200000 2000000\0")
    poll = select.poll()
    poll.register(trigger, select.POLLPRI)
    while not poll.poll()[0][1] & select.POLLERR:
        notified.append(time.monotonic())


def run_under_pressure(data):
    """Return (the number of the kernel's notifications, the causes of the dumps)."""
    cgroup, scene, notified = make_cgroup(), Scene(), []
    if not cgroup.pressure_file():
        harness.skip("the kernel has no pressure of cgroups")
    watcher = threading.Thread(target=watch_pressure, args=(cgroup.pressure_file(), notified), daemon=True)
    watcher.start()
    command = [PYTHON, "-S", "-c", THRASHER, data, cgroup.pressure_file()]
    run(harness.host_command(cgroup.inside(command), scene.output, 4096))
    return len(notified), scene.causes()


def test_pressure():
    """A dump when the tasks of a cgroup wait for memory. A notification may come too late for it, in the program's last
    moments."""
    data = os.path.join(harness.make_work_directory("test-pressure-"), "data")
    with open(data, "wb") as file:
        for _ in range(2 * LIMIT // MB):
            file.write(os.urandom(MB))
        os.fsync(file.fileno())
    for _ in range(3):
        count, causes = run_under_pressure(data)
        print(f"{count} notifications, causes of the dumps: {causes}")
        if "pressure" in causes:
            return check(causes[-1] is None, f"the last dump: {causes}")
    if count == 0:
        harness.skip("the kernel notifies nobody of pressure here")
    return harness.fail("no dump by pressure in three runs")


def test_daemon():
    """A program that a daemon profiles by its name, killed by the kernel in a cgroup."""
    cgroup = make_cgroup()
    scene = Scene()
    name = own_name("oom")
    link = os.path.join(scene.directory, name)
    os.symlink(PYTHON, link)
    daemon = Daemon(scene.directory).start()
    tool = subprocess.Popen([TOOL, "-i", "4096", "-q", "-o", scene.output, "-n", name], env=daemon.environment)
    wait_for("the session", lambda: daemon.status()["sessions"])
    command = [link, *scene.command("attached", 1000, 0.005)[1:]]
    outcome = run(cgroup.inside(command))
    check(outcome.status == -signal.SIGKILL, f"status {outcome.status}")
    wait_for("the end of its profile", lambda: not daemon.status()["sessions"][0].get("processes"))
    tool.send_signal(signal.SIGINT)
    tool.wait(harness.TIMEOUT)
    report = json.loads(run([TOOL, "report", "--json", scene.output]).stdout)
    ends = [heap["end"] for heap in report["heaps"] if heap["heap"] == "libc.malloc"]
    check(len(ends) == 1 and ends[0]["words"] == WORDS_OF_OOM, f"{ends}")
    check("near_limit" in scene.causes(), f"{scene.causes()}")
    daemon.process.terminate()
    daemon.process.wait()


def test_continuous():
    """Continuous mode: the last period of a program says that the OOM killer ended it."""
    cgroup, scene, name = make_cgroup(), Scene(), own_name("always")
    link = os.path.join(scene.directory, name)
    os.symlink(PYTHON, link)
    daemon = Daemon(scene.directory).start()
    collector = Collector(daemon, scene.directory, f"near_limit = 80%\n[program always]\nname = {name}\n")
    outcome = run(cgroup.inside([link, *scene.command("attached", 1000, 0.02)[1:]]))
    check(outcome.status == -signal.SIGKILL, f"status {outcome.status}")
    wait_for("the last period", lambda: [p for p in collector.periods() if p["is_final"]])
    ends = [(p["is_final"], p["end_reason"]) for p in collector.periods()]
    check(ends[-1] == (True, "signal 9 (oom)") and not any(end for end in ends[:-1] if end[0]), f"ends of periods: {ends}")
    collector.end()
    daemon.process.terminate()
    daemon.process.wait()


def test_oom_from_the_sink():
    """`heap_profile oom` reads the directory that continuous mode fills: only the ends, and only those by the OOM
    killer; the figures are those of the last period."""
    cgroup, scene = make_cgroup(), Scene()
    names = [own_name(name) for name in ("killed", "ended")]
    files = os.path.join(scene.directory, "periods")
    text = f"[program both]\nname = {' '.join(names)}\n[sink files]\ntype = directory\npath = {files}\n"
    daemon = Daemon(scene.directory)
    daemon.environment["HEAPPROFD_CONFIG"] = configure(scene.directory, f"near_limit = 80%\n{text}")
    daemon.start()
    for name in names:
        os.symlink(PYTHON, os.path.join(scene.directory, name))
    wait_for("continuous mode", lambda: daemon.status()["sessions"])
    killed, ended = (os.path.join(scene.directory, name) for name in names)
    outcome = run(cgroup.inside([killed, *scene.command("attached", 1000, 0.02)[1:]]))
    check(outcome.status == -signal.SIGKILL, f"status {outcome.status}")
    check(run([ended, "-c", "import time; held = bytearray(8000000); time.sleep(3)"]).status == 0, "the program failed")

    def ends():
        found = sorted(name for name in (os.listdir(files) if os.path.isdir(files) else []) if name.endswith(".end.pb.gz"))
        return found if all(any(f".{name}." in file for file in found) for name in names) else []

    paths = [os.path.join(files, name) for name in wait_for("the last periods", ends)]
    daemon.process.terminate()
    daemon.process.wait()
    deaths = json.loads(run([TOOL, "oom", "--json", files]).stdout)["deaths"]
    check(deaths and {death["trace"] for death in deaths} <= set(paths), f"{deaths}")
    (death,) = [death for death in deaths if death["heaps"] and death["heaps"][0]["heap"] == "libc.malloc"]
    end = death["end"]
    check(end["oom_kills"] == "cgroup_rose" and end["limit_bytes"] == LIMIT and names[0] in death["command"], f"{death}")
    check(abs(death["time_ns"] - time.time_ns()) < harness.TIMEOUT * 1e9, f"time {death['time_ns']}")
    report = json.loads(run([TOOL, "report", "--json", death["trace"]]).stdout)
    (live,) = [heap["total"]["space"]["estimate"] for heap in report["heaps"]]
    check(death["heaps"][0]["held"]["space"]["estimate"] == live, f"{death['heaps'][0]['held']} but {live} live")
    check(live > LIMIT / 4, f"{live} bytes live, of a limit of {LIMIT}")
    text = run([TOOL, "oom", files]).stdout.decode()
    check(WORDS_OF_OOM in text and names[1] not in text, text)
    check(run([TOOL, "oom", scene.directory]).status == 1, "a directory without periods is an error")


if __name__ == "__main__":
    harness.main()
