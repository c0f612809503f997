#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Recordings that `heap_profile view` begins for its page: what runs meanwhile, against status, and what is recorded,
against report; and what the server refuses. tests/view/record.ts has the page itself.

    view_record.py CASE      HEAPPROFD_BUILD names the build directory
"""

import contextlib
import json
import os
import signal
import subprocess
import time

from harness import BUILD, SLOWNESS, TOOL, check, main
from view import ENVIRONMENT, WORK, Server, at, call

PATIENCE_S = 40 * SLOWNESS
# Allocates until it is asked to end, by SIGTERM, and says so.
PROGRAM = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: (print("bye", flush=True), sys.exit(3)))
kept = []
print("hello <img src=x>", flush=True)
while True:
    kept.append(["%d" % i * 20 for i in range(2000)])
    time.sleep(0.02)
"""


class Recorder(Server):
    """heap_profile view, asked to record."""

    def post(self, page, **body):
        return self.ask(page, method="POST", body=json.dumps(body))

    def start(self, *arguments, **more):
        status, _, content = self.post("api/recordings/start", arguments=arguments, **more)
        check(status == 200, f"{arguments}: {status} {content!r}")
        return json.loads(content)

    def state(self, recording):
        """Return a recording of the page, and its session as status has it: None if it has none."""
        answer = self.json("api/recordings")
        [found] = [one for one in answer["recordings"] if one["id"] == recording["id"]]
        sessions = (answer["status"] or {}).get("sessions", [])
        return found, next((one for one in sessions if one["requester_pid"] == found["pid"]), None)

    def wait(self, recording, what, holds):
        deadline = time.monotonic() + PATIENCE_S
        while not holds(*self.state(recording)):
            if not check(time.monotonic() < deadline, f"in vain waited for {what}: {self.state(recording)}"):
                break
            time.sleep(0.05)
        return self.state(recording)

    def dumps(self):
        return sum(len(heap["dumps"]) for profile in self.json("api/overview")["profiles"] for heap in profile["heaps"])

    def ended(self, recording):
        return self.wait(recording, "its end", lambda found, _: not found["running"])[0]


def refused(answer, status, words):
    found, _, content = answer
    message = json.loads(content).get("error", "")
    check(found == status and words in message, f"{found} {message!r}, expected {status} and {words!r}")


@contextlib.contextmanager
def running_program():
    program = subprocess.Popen(["/usr/bin/python3", "-c", PROGRAM], stdout=subprocess.PIPE, text=True)
    program.stdout.readline()
    try:
        yield program
    finally:
        program.kill()
        program.wait()


def report_of(directory):
    return json.loads(call(TOOL, "report", "--json", directory).stdout)["heaps"]


def test_command():
    """A command is recorded, watched, and goes on after the end of its profile."""
    with Recorder() as server:
        recording = server.start("host", "-i", "512", "--heaps", "libc.malloc", "--", "/usr/bin/python3", "-c", PROGRAM)
        check(os.path.dirname(recording["directory"]) == WORK, f"the directory is {recording['directory']}")
        found, session = server.wait(recording, "samples", lambda _, session: session and session["samples"] > 20)
        check(found["arguments"][:4] == ["heap_profile", "host", "-o", recording["directory"]], f"it runs {found['arguments']}")
        with open(f"/proc/{found['pid']}/cmdline", encoding="utf-8") as file:
            check(file.read().split("\0")[1:-1] == found["arguments"][1:], "the page shows another command line")
        [process] = session["processes"]
        check(process["name"].startswith("python3") and process["ring"]["bytes"] == 8 << 20, f"{process}")
        server.wait(recording, "a trace", lambda found, _: found["has_trace"])
        check(server.post("api/open", paths=[recording["directory"]])[0] == 200, "the recording was not opened")
        server.wait(recording, "a dump without being asked", lambda *_: server.dumps() > 0)
        check(json.loads(server.post("api/sessions/snapshot", session=session["id"])[2]) == {"message": "took a dump of 1 session"},
              "no snapshot")
        check(json.loads(server.post("api/sessions/stop", session=session["id"])[2]) == {"message": "ended 1 session"}, "not stopped")
        found, _ = server.wait(recording, "the profile", lambda found, _: "Profile in" in found["output"])
        check(found["running"] and "hello <img src=x>" in found["output"], f"the command has ended: {found}")
        check(server.post("api/recordings/end", recording=recording["id"])[0] == 200, "the command was not asked to end")
        found = server.ended(recording)
        check(found["exit_code"] == 3 and "bye" in found["output"], f"it did not end by the signal: {found}")
        [heap] = report_of(recording["directory"])
        check(heap["pid"] == process["pid"] and heap["dumps"] >= 3, f"{heap['dumps']} dumps of {heap['pid']}")
        refused(server.post("api/recordings/end", recording=recording["id"]), 404, "runs")
        refused(server.post("api/sessions/stop", session=session["id"]), 404, "no such session")


def test_process():
    """A running process is recorded by its pid; at the end of the page its profile is written."""
    with running_program() as program:
        check_process(program)


def check_process(program):
    with Recorder() as server:
        refused(server.post("api/doctor", arguments=["host", "--", "/bin/sh"]), 400, "doctor")
        advice = json.loads(server.post("api/doctor", arguments=["-p", str(program.pid)])[2])
        check(advice["works"] and f"process {program.pid}" in advice["text"], f"doctor: {advice}")
        advice = json.loads(server.post("api/doctor", arguments=["--", "/bin/sh", "-o", "--view"])[2])
        check("/bin/sh" in advice.get("text", ""), f"doctor, of a command with options of its own: {advice}")
        recording = server.start("-p", str(program.pid), "-i", "512", directory=at("attached"))
        check(recording["directory"] == at("attached"), f"{recording}")
        _, session = server.wait(recording, "samples", lambda _, session: session and session["samples"] > 20)
        check([one["pid"] for one in session["processes"]] == [program.pid], f"{session}")
        status = json.loads(call(TOOL, "status", "--json").stdout)["sessions"]
        check([one["id"] for one in status] == [session["id"]], f"status has {status}")
    check(program.poll() is None, "the program has ended with the page")
    check(report_of(at("attached"))[0]["pid"] == program.pid, "no profile after the end of the page")


def test_daemon():
    """With heapprofd a recording is one of its sessions, with the rights of the page's user."""
    daemon = subprocess.Popen([os.path.join(BUILD, "heapprofd")], env=dict(os.environ, **ENVIRONMENT), stderr=subprocess.DEVNULL)
    try:
        with running_program() as program, Recorder() as server:
            check_daemon(daemon, program, server)
    finally:
        daemon.terminate()
        daemon.wait()


def check_daemon(daemon, program, server):
    deadline = time.monotonic() + PATIENCE_S
    while not server.json("api/recordings")["status"] and time.monotonic() < deadline:
        time.sleep(0.05)
    recording = server.start("-p", str(program.pid), "-i", "512")
    _, session = server.wait(recording, "samples", lambda _, session: session and session["samples"] > 20)
    check(session["profiler"]["pid"] == daemon.pid and session["uid"] == os.geteuid(), f"{session}")
    check(server.post("api/sessions/stop", session=session["id"])[0] == 200, "not stopped")
    found = server.ended(recording)
    check(found["exit_code"] == 0 and "through the running heapprofd" in found["output"], f"{found}")
    check(report_of(recording["directory"])[0]["pid"] == program.pid, "no profile of the program")


def test_failures():
    """What cannot be recorded says why, in the words of heap_profile, also to a page whose parent ignores SIGCHLD."""
    with Recorder(before=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN)) as server:
        for arguments, code, words in ((["host", "--", "/nonexistent/command"], 127, "cannot run /nonexistent/command"),
                                       (["-p", "4000001"], 1, "4000001"), (["host", "-i", "x", "--", "true"], 125, "--interval takes bytes"),
                                       (["-n", "nobody-has-this-name", "--no-startup", "-d", "100"], 3, "no process was profiled")):
            found = server.ended(server.start(*arguments))
            check(found["exit_code"] == code and words in found["output"], f"{arguments}: {found}")
        check([one["has_trace"] for one in server.json("api/recordings")["recordings"]][::2] == [False, False], "a trace of nothing")
        configuration = json.loads(server.post("api/configuration", arguments=["-n", "jq", "-i", "1M", "-c", "500"])[2])
        printed = call(TOOL, "-n", "jq", "-i", "1M", "-c", "500", "--print-config").stdout.decode()
        check(configuration["text"] == printed and "sampling_interval_bytes: 1048576" in printed, f"{configuration}")
        refused(server.post("api/configuration", arguments=["host", "--stack-mode", "x", "--"]), 400, "--stack-mode")


def check_refusals(server):
    for page in ("configuration", "doctor", "recordings/end", "recordings/start", "sessions/snapshot", "sessions/stop"):
        check(server.ask(f"api/{page}?arguments=host")[0] == 405, f"{page} answers GET")
    body = json.dumps({"arguments": ["host", "--", "touch", at("touched")]})
    for more in ({"token": "0" * 32}, {"headers": {"Origin": "https://evil.example"}}, {"headers": {"Host": "evil.example"}},
                 {"headers": {"Sec-Fetch-Site": "cross-site"}}):
        check(server.ask("api/recordings/start", method="POST", body=body, **more)[0] == 403, f"{more} may record")
    ask = [server.ask("api/recordings/start", method="POST", body=one) for one in (
        b"", b"{}", b'{"arguments": []}', b'{"arguments": "host"}', b'{"arguments": [1]}', b"[" * 100,
        b'{"arguments": ["host", "--", "touch\\u0000"]}', body.encode() + b"\0", b'{"arguments": ["-p", "1"], "directory": 1}')]
    check([status for status, _, _ in ask] == [400] * len(ask), f"{[(status, content) for status, _, content in ask]}")
    check(server.ask("api/recordings/start", method="POST", body=b" " * (2 << 20) + body.encode())[0] == 413, "2 MB are accepted")
    for arguments, words in ((["host", "touch", at("touched")], "after --"), (["host", "--"], "which command"),
                             (["sh", "-c", f"touch {at('touched')}"], "begins no recording"), (["view"], "begins no recording"),
                             (["-p", "-o/etc"], "directory"), (["-p", "1", "--outp=/etc"], "directory"),
                             (["-p", "1", "-qo", "/etc"], "directory"),
                             (["host", "-o", "/etc", "--", "true"], "directory"), (["host", "--view", "--", "true"], "already"),
                             (["-p"] + ["1"] * 600, "601 words"), (["-n", "x" * 40000], "bytes")):
        refused(server.post("api/recordings/start", arguments=arguments), 400, words)
    refused(server.post("api/recordings/start", arguments=["-n", "x"], directory="x" * 5000), 400, "too long")
    for session in (-1, 1.5, "1", None, 1e300):
        refused(server.post("api/sessions/stop", session=session), 400, "session")
    check(server.json("api/recordings")["recordings"] == [] and not os.path.exists(at("touched")), "something has begun")


def test_refusals():
    """Nothing begins by GET, from other origins, or with a body that is no command line of a recording."""
    with Recorder() as server:
        check_refusals(server)
    server = Recorder()
    started = [server.post("api/recordings/start", arguments=["host", "--", "sleep", "60"]) for _ in range(9)]
    check([status for status, _, _ in started] == [200] * 8 + [400], "more than eight recordings run")
    refused(started[-1], 400, "8 recordings")
    children = [one["pid"] for one in server.json("api/recordings")["recordings"]]
    server.process.kill()
    server.process.wait()
    deadline = time.monotonic() + PATIENCE_S
    while any(os.path.exists(f"/proc/{pid}") for pid in children) and time.monotonic() < deadline:
        time.sleep(0.05)
    check(not any(os.path.exists(f"/proc/{pid}") for pid in children), "recordings outlive a killed page")


if __name__ == "__main__":
    main()
