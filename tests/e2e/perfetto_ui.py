#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The option --perfetto of `heap_profile view` and `heap_profile report`: it hands one trace to Perfetto's page, and
ends. A client that asks as that page does reads it.

    perfetto_ui.py CASE      HEAPPROFD_BUILD names the build directory
"""

import http.client
import json
import os
import re
import select
import signal
import socket
import subprocess

from harness import SLOWNESS, TOOL, check, main, make_work_directory, own_network, run, skip

WORK = make_work_directory("perfetto-ui-")
ENVIRONMENT = {"TMPDIR": WORK, "DEBUGINFOD_URLS": "", "HOME": WORK, "HEAPPROFD_RUN_DIR": f"{WORK}/run", "DISPLAY": "",
               "WAYLAND_DISPLAY": "", "BROWSER": ""}
PAGE = "https://ui.perfetto.dev"


def at(name):
    return os.path.join(WORK, name)


def record(name):
    outcome = run([TOOL, "host", "-q", "-o", at(name), "-i", "512", "--", "jq", "-n", "[range(2000) | tostring] | length"],
                  env=ENVIRONMENT, timeout=180 * SLOWNESS)
    check(outcome.status == 0, f"host: {outcome.stderr!r}")
    return at(name)


class Shown:
    """`heap_profile VERB --perfetto` that waits for the page."""

    def __init__(self, *arguments, page=PAGE, **environment):
        self.process = subprocess.Popen([TOOL, *arguments], env={**os.environ, **ENVIRONMENT, **environment},
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        readable, _, _ = select.select([self.process.stdout], [], [], 60 * SLOWNESS)
        line = self.process.stdout.readline().decode() if readable else ""
        found = re.search(r" at (\S+)/#!/\?url=http://127\.0\.0\.1:9001(/[0-9a-f]{32}/\S+)$", line.strip())
        check(found and found[1] == page, f"{arguments}: {line!r} {b'' if found else self.process.communicate()[1]!r}")
        self.path, self.url = found[2], line.split(" at ")[1].strip()

    def ask(self, method="GET", path=None, **headers):
        connection = http.client.HTTPConnection("127.0.0.1:9001", timeout=30 * SLOWNESS)
        connection.request(method, path or self.path, None, {"Origin": PAGE, **headers})
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        return answer.status, answer.headers, content

    def end(self):
        output, errors = self.process.communicate(timeout=180 * SLOWNESS)
        return self.process.returncode, output.decode(), errors.decode()


def read_file(name):
    with open(name, "rb") as file:
        return file.read()


def first_heap(path, view):
    """Return the bytes of the first heap."""
    outcome = run([TOOL, "report", "--json", path], env=ENVIRONMENT, timeout=180 * SLOWNESS)
    check(outcome.status == 0, f"report: {outcome.stderr!r}")
    return json.loads(outcome.stdout)["heaps"][0]["total"][view]["estimate"]


def test_page_reads_trace():
    """The page gets the very trace, with its names, and the verb ends; whoever else asks gets nothing and ends nothing."""
    if not own_network():
        skip("this user cannot have a network namespace with a free port 9001")
    profile = record("profile")
    trace = read_file(os.path.join(profile, "symbolized-trace"))
    for verb in ("view", "report"):
        shown = Shown(verb, "--perfetto", "--no-browser", profile)
        check(shown.path.endswith("/symbolized-trace"), shown.path)
        status, headers, content = shown.ask("HEAD")
        check(status == 200 and content == b"" and headers["Content-Length"] == str(len(trace)), f"HEAD: {status} {headers}")
        status, headers, _ = shown.ask("OPTIONS", **{"Access-Control-Request-Private-Network": "true"})
        check(status == 204 and headers["Access-Control-Allow-Origin"] == PAGE, f"OPTIONS: {status} {headers}")
        for why, question in (("another page", {"Origin": "https://example.org"}), ("another name", {"Host": "localhost:9001"}),
                              ("another file", {"path": "/" + "0" * 32 + "/symbolized-trace"})):
            status, headers, content = shown.ask(**question)
            check(status == 403 and not headers["Access-Control-Allow-Origin"] and len(content) < 100, f"{why}: {status}")
        with socket.create_connection(("127.0.0.1", 9001)) as half:  # a tab that is closed too early
            half.sendall(f"GET {shown.path} HTTP/1.1\r\nHost: 127.0.0.1:9001\r\n".encode())
        check(shown.process.poll() is None, "it ended before the page had the trace")
        status, headers, content = shown.ask()
        check(status == 200 and content == trace, f"{status}: {len(content)} bytes, the trace has {len(trace)}")
        check(headers["Access-Control-Allow-Origin"] == PAGE and headers["Cache-Control"] == "no-store", f"{headers}")
        status, output, errors = shown.end()
        check(status == 0 and "the page has the trace" in output and errors == "", f"{status} {output!r} {errors!r}")


def test_other_formats():
    """A file of another profiler becomes a trace with the same stacks and bytes."""
    if not own_network():
        skip("this user cannot have a network namespace with a free port 9001")
    with open(at("stacks.collapsed"), "w", encoding="utf-8") as file:
        file.write("main;load;_ZN3net5parseEv 7000\nmain;b 200\n")
    pprof = next(entry.path for entry in os.scandir(record("pprof")) if "final" in entry.name)
    for path, view, wanted in ((at("stacks.collapsed"), "space", 7200), (pprof, "alloc_space", first_heap(pprof, "alloc_space"))):
        shown = Shown("view", "--perfetto", "--no-browser", path)
        _, _, content = shown.ask()
        check(shown.end()[0] == 0, path)
        with open(at("made.trace"), "wb") as file:
            file.write(content)
        found = first_heap(at("made.trace"), view)
        check(abs(found - wanted) <= wanted * 0.001, f"{path}: {found} bytes, not {wanted}")
    shown = Shown("report", "--perfetto", "--no-browser", at("stacks.collapsed"))
    with open(at("made.trace"), "wb") as file:
        file.write(shown.ask()[2])
    outcome = run([TOOL, "query", at("made.trace"), "SELECT name FROM stack_profile_frame ORDER BY name; SELECT name FROM process; "
                   "SELECT sum(size), min(count) FROM heap_profile_allocation"], env=ENVIRONMENT, timeout=180 * SLOWNESS)
    for words in ("_ZN3net5parseEv", "load", "stacks.collapsed", "7200"):
        check(words in outcome.stdout.decode(), f"no {words} in {outcome.stdout!r} {outcome.stderr!r}")


def test_own_page():
    """A page that the user hosts reads the trace instead; the browser opens it; a signal ends the wait."""
    if not own_network():
        skip("this user cannot have a network namespace with a free port 9001")
    profile, browser = record("own"), at("browser")
    with open(browser, "w", encoding="utf-8") as out:
        out.write(f"#!/bin/sh\ncp $1 {browser}.new; mv {browser}.new {browser}.out; : > {browser}.done\n")
    os.chmod(browser, 0o700)
    os.mkfifo(f"{browser}.done")
    shown = Shown("view", "--perfetto", "--ui", "http://LocalHost:10000/base/", profile, page="http://LocalHost:10000/base",
                  BROWSER=browser, DISPLAY=":0")
    with open(f"{browser}.done", encoding="utf-8"):
        pass
    check(shown.url.encode() in read_file(f"{browser}.out"), "the browser gets another address")
    for origin, wanted in (("http://localhost:10000", 200), (PAGE, 403), ("http://localhost:10001", 403)):
        status, headers, _ = shown.ask("HEAD", Origin=origin)
        check(status == wanted, f"{origin}: {status} {headers}")
    shown.process.send_signal(signal.SIGINT)
    status, output, errors = shown.end()
    check(status == 0 and "the page has" not in output and errors == "", f"{status} {output!r} {errors!r}")


def test_refused():
    """The port's owner is named; wrong command lines say what is right."""
    profile = record("refused")
    for arguments, words in ((("view", "--perfetto", "--port", "9002"), "no other port"),
                             (("view", "--perfetto", "--ui", "ftp://x"), "begins with http:// or https://"),
                             (("view", "--perfetto", "--ui", "https://x/#y"), "no address of Perfetto UI"),
                             (("view", "--perfetto", "--save", "x"), "neither --listen nor --save"),
                             (("view", "--perfetto", profile), "one profile"),
                             (("view", "--ui", PAGE), "an option of --perfetto"),
                             (("report", "--no-browser"), "options of --perfetto")):
        outcome = run([TOOL, *arguments, profile], env=ENVIRONMENT, timeout=180 * SLOWNESS)
        check(outcome.status == 2 and words in outcome.stderr.decode(), f"{arguments}: {outcome.status} {outcome.stderr!r}")
    if not own_network():
        skip("this user cannot have a network namespace with a free port 9001")
    with socket.socket() as other:
        other.bind(("127.0.0.1", 9001))
        other.listen()
        outcome = run([TOOL, "view", "--perfetto", profile], env=ENVIRONMENT, timeout=180 * SLOWNESS)
        check(outcome.status == 1 and f", process {os.getpid()})" in outcome.stderr.decode(), f"{outcome.status} {outcome.stderr!r}")


main()
