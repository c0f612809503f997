#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What `heap_profile view` answers about this machine: profiles to open, processes, against what /proc, report and
doctor print of them, and what it refuses. tests/view/ has the pages themselves.

    view_machine.py CASE      HEAPPROFD_BUILD names the build directory
"""

import contextlib
import ctypes
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time

from harness import SLOWNESS, TOOL, check, main
from view import ENVIRONMENT, SCRIPT, Server, at, call, record, wait_until


class MachineServer(Server):
    """heap_profile view, asked about this machine."""

    def open(self, *paths, **more):
        return self.ask("api/open", method="POST", body=json.dumps({"paths": paths, **more}))

    def shown(self):
        return [profile["path"] for profile in self.json("api/overview")["profiles"]]


def refused(answer, status, words):
    found, _, content = answer
    message = json.loads(content).get("error", "")
    check(found == status and words in message, f"{found} {message!r}, expected {status} and {words!r}")


def test_open():
    """The page opens other profiles, beside the others or instead, and they are what report prints."""
    one = record("one", "/usr/bin/python3", "-c", SCRIPT)
    other = record("other", "/usr/bin/python3", "-c", SCRIPT.replace("3000", "6000"))
    with MachineServer() as server:
        check(server.line.rstrip().endswith("#page=home"), f"the address is not that of the start page: {server.line!r}")
        check(server.shown() == [], f"without a profile, {server.shown()} are shown")
        generation = server.json("api/state")["generation"]
        check(server.open(one)[0] == 200, "the profile was not opened")
        check(server.json("api/state")["generation"] > generation, "the page does not learn that there is a profile")
        for profile, opened in ((one, server.json("api/overview")), (other, None)):
            if opened is None:
                check(server.open(other, add=True)[0] == 200, "the other profile was not opened")
                opened = server.json("api/overview")
            report = json.loads(call(TOOL, "report", "--json", profile).stdout)["heaps"][0]["total"]["space"]
            dump = opened["profiles"][-1]["heaps"][0]["dumps"][-1]
            check(dump["space"]["value"] == report["estimate"], f"{profile}: {dump['space']}, report has {report}")
        check(len(server.shown()) == 2, f"{server.shown()} are shown")
        check(server.open(other)[0] == 200 and server.shown() == [f"{other}/symbolized-trace"], "one is not removed")
        check(server.open()[0] == 200 and server.shown() == [], "the last is not removed")


def test_open_refuses():
    """What is no profile is refused with the reason, and what is shown stays."""
    profile = record("kept", "/usr/bin/python3", "-c", "print(1)")
    os.mkfifo(at("pipe"))
    os.makedirs(at("trap"))
    os.symlink(at("pipe"), at("trap/raw-trace"))
    os.symlink(at("nowhere"), at("dangling"))
    for name, content in (("empty", ""), ("text", "no profile\n" * 9)):
        with open(at(name), "w", encoding="utf-8") as out:
            out.write(content)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(at("socket"))
    with MachineServer(profile) as server:
        before = server.shown()
        for path, status, words in (
                (at("pipe"), 400, "neither a file nor a directory"), (at("trap"), 400, "is not a regular file"),
                (at("socket"), 400, "neither a file nor a directory"), ("/dev/zero", 400, "neither a file nor a directory"),
                ("/proc/kmsg", 400, "is empty"), (at("empty"), 400, "is empty"), (at("nowhere"), 404, "nowhere"),
                (at("dangling"), 404, "dangling"), (at("text"), 400, "text"), ("relative", 400, "absolute"), ("-", 400, "absolute"),
                ("", 400, "absolute"), ("/" + "x" * 5000, 400, "the path"), ("/etc", 404, "raw-trace"), ("/tmp/\u202e\n", 404, "tmp")):
            refused(server.open(path), status, words)
            refused(server.open(profile, path), status, words)
        refused(server.open(*[profile] * 17), 400, "at most 16")
        refused(server.open(profile, add="yes"), 400, "add")
        for body, words in (("", "JSON"), ("[]", "paths"), ("{}", "paths"), ('{"paths": "x"}', "paths"), ('{"paths": [1]}', "string"),
                            ("[" * 60, "deep"), ('{"paths": ["/\\u0000"]}', "zero"), (b"\xff", "JSON")):
            refused(server.ask("api/open", method="POST", body=body), 400, words)
        check(server.ask("api/open", method="POST", body="x" * 100000)[0] == 413, "a long body is taken")
        check(server.shown() == before, f"{server.shown()} are shown, {before} before")
    listener.close()


def test_who_may_ask():
    """GET changes nothing; strangers and other sites are refused before their request is read."""
    profile = record("asked", "/usr/bin/python3", "-c", "print(1)")
    body = json.dumps({"paths": [profile]})
    with MachineServer() as server:
        check(server.ask("api/open?paths=" + profile)[0] == 405, "GET opens a profile")
        refused(server.ask("api/open", method="POST", body=body, token="0" * 32), 403, "token")
        refused(server.ask("api/open", method="POST", body=body, headers={"Origin": "https://example.com"}), 403, "another page")
        refused(server.ask("api/open", method="POST", body=body, headers={"Host": "example.com"}), 403, "another host")
        check(server.shown() == [], "a refused request opened a profile")


@contextlib.contextmanager
def running(*command, **options):
    """Run a program until the end of the block."""
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, **options)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def status_of(pid):
    """Return the lines of /proc/PID/status."""
    with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as lines:
        return dict(line.rstrip("\n").split(":\t", 1) for line in lines if ":\t" in line)


def kb(text):
    return int(text.split()[0]) * 1024


def row_of(server, pid):
    return next(row for row in server.json("api/processes")["processes"] if row["pid"] == pid)


# Sleeps with 30 MB, 3 MB of them shared, and two threads.
SLEEPER = """
import mmap, threading, time
kept = bytearray(30000000); shared = mmap.mmap(-1, 3000000); shared.write(b"x" * 3000000)
threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
print("ready", flush=True); time.sleep(600)
"""


def test_processes():
    """The figures of a process are those of /proc, and hostile names are only text."""
    hostile = at("<img src=x onerror=1>")
    shutil.copy("/bin/sleep", hostile)
    with MachineServer() as server, running(sys.executable, "-c", SLEEPER, stdout=subprocess.PIPE) as sleeper, \
            running(hostile, "600") as named:
        sleeper.stdout.readline()
        row, status = row_of(server, sleeper.pid), status_of(sleeper.pid)
        for figure, line in (("rss", "VmRSS"), ("anonymous", "RssAnon"), ("file", "RssFile"), ("shared", "RssShmem"), ("swap", "VmSwap")):
            check(row[figure] == kb(status[line]), f"{figure} {row[figure]}, /proc has {line} {status[line]}")
        check(row["threads"] == 2 and row["parent_pid"] == os.getpid(), f"{row}")
        check(row["shared"] >= 3000000 and row["anonymous"] >= 30000000, f"{row}")
        check(row["name"] == os.path.basename(sys.executable) and row["command"].startswith(sys.executable + " -c"), f"{row}")
        check(abs(row["start_ms"] / 1000 - time.time()) < 60 * SLOWNESS, f"it started at {row['start_ms']}")
        check(not row["kernel"] and row["cpu_ms"] > 0, f"{row}")
        check(len(row["command"]) < 240, "a command is not cut")
        wait_until(lambda: row_of(server, named.pid)["name"] == "<img src=x onerror=1>", "the copied program has its name")


def doctor(pid):
    outcome = call(TOOL, "doctor", "-p", str(pid))
    findings = outcome.stdout.decode().split(f"process {pid}\n")[1]
    marks = {"ok": "ok", "note": "note", "NO": "no"}
    return [(marks[mark], text) for mark, text in re.findall(r"^  (ok|note|NO) +(.*)$", findings, re.M)]


def test_checks():
    """Whether a process can be profiled, and why not, is what doctor prints."""
    with MachineServer() as server, running("/bin/sleep", "600") as sleeper, running(sys.executable, "-c", "import time; time.sleep(600)") as python:
        pids = [1, sleeper.pid, python.pid, os.getpid()]
        wait_until(lambda: "python" in status_of(python.pid)["Name"], "the program has begun")
        checks, missing = {}, pids
        while missing:  # what takes longer than 0.2 s is left out, to be asked again
            found = {one["pid"]: one for one in server.json("api/checks?pids=" + ",".join(map(str, missing)))["checks"]}
            if not check(found and list(found) == missing[:len(found)], f"checked: {list(found)} of {missing}"):
                return
            checks, missing = {**checks, **found}, missing[len(found):]
        for pid, found in checks.items():
            expected = doctor(pid)
            check([(one["finding"], one["text"]) for one in found["findings"]] == expected, f"{pid}: {found}, doctor prints {expected}")
            check(found["can_be_profiled"] == all(mark != "no" for mark, _ in expected), f"{pid}: {found}")
        # Each question comes over a connection of its own.
        for _ in range(30):
            (found,) = server.json(f"api/checks?pids={python.pid}")["checks"]
            check(found["findings"] == checks[python.pid]["findings"], f"again: {found}")
        check(server.json("api/checks?pids=2147483647")["checks"] == [], "a pid that no process has")
        check(server.json("api/checks")["checks"] == [], "no pids")
        for wrong in ("0", "-1", "x", "1,,2", "99999999999", ",".join(["1"] * 65)):
            refused(server.ask("api/checks?pids=" + wrong), 400, "pid")


@contextlib.contextmanager
def impostor(directory, user):
    """A user's process that calls itself heap_profile and holds a directory open."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.open(directory, os.O_RDONLY)
        ctypes.CDLL(None).prctl(15, b"heap_profile", 0, 0, 0)  # PR_SET_NAME
        os.setresuid(user, user, user)
        os.write(writer, b"x")
        signal.pause()
    os.read(reader, 1)
    os.close(reader)
    os.close(writer)
    yield child
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def test_recent():
    """Recent profiles are those that heap_profile wrote to TMPDIR, the newest first; what others put there is not."""
    def recent(server):
        return [row for row in server.json("api/recent")["profiles"] if row["path"].startswith(at(""))]

    for count in ("3000", "6000"):
        check(call(TOOL, "host", "-q", "--heaps", "libc.malloc", "--", "/usr/bin/python3", "-c", SCRIPT.replace("3000", count)).status == 0, "host failed")
    made = [name for name in os.listdir(at("")) if name.startswith("heap_profile-") and len(name) == len("heap_profile-XXXXXX")]
    check(len(made) == 2, f"{made}")
    os.symlink(at(made[0]), at("heap_profile-symlin"))
    os.mkfifo(at("heap_profile-mkfifo"))
    for name in ("heap_profile-nofile", "heap_profile-aalink", "heap_profile-aafifo", "heap_profile-strang"):
        os.mkdir(at(name))
    os.symlink("/etc/passwd", at("heap_profile-aalink/raw-trace"))
    os.mkfifo(at("heap_profile-aafifo/raw-trace"))
    shutil.copy(at(f"{made[0]}/raw-trace"), at("heap_profile-strang/raw-trace"))
    if os.geteuid() == 0:
        os.chown(at("heap_profile-strang"), 12345, 12345)
    else:
        shutil.rmtree(at("heap_profile-strang"))
    with MachineServer() as server:
        rows = recent(server)
        check(sorted(row["path"] for row in rows) == sorted(map(at, made)), f"{[row['path'] for row in rows]}")
        check(rows[0]["time_ms"] >= rows[1]["time_ms"], "the newest is not the first")
        for row in rows:
            trace = f"{row['path']}/symbolized-trace"
            check(row["bytes"] == os.path.getsize(trace), f"{row['bytes']} bytes")
            check(abs(row["time_ms"] / 1000 - os.path.getmtime(trace)) < 0.01, f"at {row['time_ms']}")
            check(row["command"].startswith("/usr/bin/python3 -c import json") and row["recorder_pid"] is None, f"{row}")
            check([process["name"] for process in row["processes"]] == ["python3"] and row["dump_files"] == 1, f"{row}")
        shutil.copytree(at(made[0]), at("held"))
        for user in (65534, 0) if os.geteuid() == 0 else ():
            with impostor(at("held"), user) as pid:
                held = [row["recorder_pid"] for row in recent(server) if row["path"] == at("held")]
                check(held == ([] if user else [pid]), f"what process {pid} of user {user} holds open: {held}")
        with subprocess.Popen([TOOL, "host", "-q", "-o", at("chosen"), "--", "/bin/sleep", "600"], env=dict(os.environ, **ENVIRONMENT)) as recording:
            wait_until(lambda: {row["path"]: row["recorder_pid"] for row in recent(server)}.get(at("chosen")) == recording.pid,
                       "the recording in a chosen directory is listed")
            recording.send_signal(signal.SIGTERM)
        check(all(row["recorder_pid"] is None for row in recent(server)), "a recording that has ended goes on")


KEEPER = "import sys, time; kept = [bytearray(900) for _ in range(4000)]; print('kept', flush=True); time.sleep(600)"


def wait_until_recorded(server):
    """Return the processes of the session."""
    found = []

    def are_there():
        status = server.json("api/recordings")["status"] or {"sessions": []}
        found[:] = [process for session in status["sessions"] for process in session["processes"]]
        return found

    wait_until(are_there, "the session has its process")
    return found


def test_dump():
    """A dump of a process that is recorded is saved in each format, with the figures of the trace."""
    def live(name):
        heap = json.loads(call(TOOL, "report", "--json", at(name)).stdout)["heaps"][0]
        return heap["total"]["space"]["estimate"], heap["exact_bytes"]

    with MachineServer() as server, subprocess.Popen([TOOL, "host", "-q", "-i", "512", "-o", at("held"), "--", sys.executable, "-c", KEEPER],
                                                     env=dict(os.environ, **ENVIRONMENT), stdout=subprocess.PIPE) as recording:
        try:
            recording.stdout.readline()
            processes = wait_until_recorded(server)
            pid = processes[0]["pid"]
            for name, ending in (("trace", ""), ("pprof", ".pb.gz"), ("memory_infra", ".json.gz")):
                status, headers, content = server.ask(f"api/dump?pid={pid}&format={name}", method="POST")
                check(status == 200 and headers["Content-Type"] == "application/octet-stream", f"{name}: {status} {content[:300]!r}")
                with open(at("saved-" + name + ending), "wb") as out:
                    out.write(content)
            bytes, exact = live("saved-trace")
            check(bytes > 2000000, f"{bytes} bytes are live")
            check(abs(live("saved-pprof.pb.gz")[0] - bytes) <= 0.001 * bytes, f"pprof has {live('saved-pprof.pb.gz')}, the trace {bytes}")
            check(abs(live("saved-memory_infra.json.gz")[0] - bytes) <= 0.001 * bytes, f"MemoryInfra has {live('saved-memory_infra.json.gz')}")
            check(json.loads(call(TOOL, "report", "--json", at("held/raw-trace")).stdout)["heaps"][0]["exact_bytes"] == exact, "another dump was saved")
            for question, code, words in ((f"pid={pid}&format=x", 400, "format"), ("format=trace", 400, "pid"), ("pid=0&format=trace", 400, "pid"),
                                          (f"pid={os.getpid()}&format=trace", 404, "no session of yours profiles")):
                refused(server.ask("api/dump?" + question, method="POST"), code, words)
            check(server.ask(f"api/dump?pid={pid}&format=trace")[0] == 405, "GET takes a dump")
        finally:
            recording.terminate()


if __name__ == "__main__":
    main()
