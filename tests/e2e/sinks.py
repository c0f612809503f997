#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Sinks send what they promise, to servers that stand in for the stores, and keep it while these are away.

    sinks.py CASE
"""

import gzip
import json
import os
import signal
import socket
import subprocess
import time

from daemon import Commanded, joined, own_name, scene, wait_for
from harness import (
    BUILD, SLOWNESS, TOOL, check, host_command, main, make_work_directory, need, own_network, run, skip,
)
from standin_coroot import StandInCoroot
from standin_gigapipe import StandInGigapipe
from standin_otlp import StandInOtlp
from standin_parca import StandInParca
from standin_pyroscope import StandInPyroscope

PUT_PERIODS = os.path.join(BUILD, "tests", "e2e", "put_periods")
COLLECTOR = os.path.join(BUILD, "heapprofd_collector")
WORK_MS = 20_000 * SLOWNESS
FIGURES = ("alloc_objects", "alloc_space", "inuse_objects", "inuse_space")
QUICK = "retry_first = 50ms\nretry_max = 200ms\n"
# Environment of the sinks: a proxy of this machine would see our requests.
CLEAN = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}

directory = make_work_directory("sinks-")
TRACE = os.path.join(directory, "recorded", "raw-trace")


def record():
    """Record a trace of a real program: Python, which has two heaps."""
    script = "import json; kept = [json.loads('[' + '\"x\",' * 200 + '1]') for _ in range(400)]"
    command = host_command(["/usr/bin/python3", "-c", script], os.path.dirname(TRACE), 16384)
    outcome = run(command)
    check(outcome.status == 0 and os.path.exists(TRACE), f"no trace: {outcome.stderr}")


class Sinks:
    """put_periods with a configuration."""

    def __init__(self, configuration, spool=None, wrapper=()):
        if not os.path.exists(TRACE):
            record()
        self.spool = spool or os.path.join(directory, "spool")
        path = os.path.join(directory, "heapprofd.conf")
        with open(path, "w") as file:
            file.write(configuration)
        self.process = subprocess.Popen(
            [*wrapper, PUT_PERIODS, path, self.spool, TRACE], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, env=CLEAN)
        line = self.process.stdout.readline()
        self.error = "" if line else self.process.stderr.read()
        self.first = json.loads(line)["sinks"] if line else None
        self.periods = []

    def ask(self, command):
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        self.periods = answer["periods"]
        return answer["sinks"]

    def put(self, count=1):
        return self.ask(f"put {count}")

    def work(self, patience_ms=WORK_MS):
        return self.ask(f"work {patience_ms}")

    def work_until(self, name, condition):
        """Work until the sink's figures fulfil the condition, and return them."""
        end = time.monotonic() + WORK_MS / 1000
        while True:
            figures = self.work(50)[name]
            if condition(figures) or time.monotonic() > end:
                return figures

    def close(self, patience_ms=0):
        self.process.stdin.write(f"close {patience_ms}\n")
        self.process.stdin.flush()
        check(self.process.wait(30) == 0, f"put_periods failed: {self.process.stderr.read()}")

    def kill(self):
        self.process.kill()
        self.process.wait()


def sink(name, kind, url, more=""):
    return f"[sink {name}]\ntype = {kind}\nurl = {url}\n{QUICK}{more}\n"


def secret_file(name, text, mode=0o600):
    path = os.path.join(directory, name)
    with open(path, "w") as file:
        file.write(text)
    os.chmod(path, mode)
    return path


def check_figures(figures, **wanted):
    for name, value in wanted.items():
        check(figures[name] == value, f"{name} is {figures[name]}, not {value}: {figures}")


def check_taken(server, sinks, count, prefix="", suffixes=("",) * 4):
    """Check that the server took the periods `count` times, and that the figures are those of the trace."""
    check(server.problems == [], f"refused: {server.problems[:3]}")
    taken = [item for request in server.taken for item in request]
    check(len(taken) == count * len(sinks.periods), f"{len(taken)} periods taken")
    by_heap = {period["heap"]: period for period in sinks.periods}
    for labels, profile in taken:
        period = by_heap[labels["heap"]]
        for figure, suffix in zip(FIGURES, suffixes):
            got, wanted = profile.total_of[prefix + figure + suffix], period[figure]
            check(abs(got - wanted) <= 1, f"{labels['heap']}: {figure} is {got}, not {wanted}")
        check(profile.total_of[prefix + "alloc_space" + suffixes[1]] > 100_000 or labels["heap"] != "libc.malloc",
              "nothing was allocated")
        check(profile.duration_ns == 60_000_000_000, f"duration {profile.duration_ns}")
    return taken


# --- what is sent ---


def test_pyroscope():
    server = StandInPyroscope(tenant="team-a")
    sinks = Sinks(sink("grafana", "pyroscope", server.url + "/", "tenant = team-a"))
    check(sinks.first["grafana"]["kind"] == "pyroscope", f"kind: {sinks.first} {sinks.error}")
    check(sinks.put(3)["grafana"]["spooled_messages"] == 3, "not on disk before they are sent")
    figures = sinks.work()["grafana"]
    taken = check_taken(server, sinks, 3)
    check_figures(figures, sent_messages=3, sent_periods=3 * len(sinks.periods), spooled_messages=0,
                  dropped_messages=0, failures=0, lag_ms=0, last_error="")
    check(figures["sent_bytes"] == sum(len(body) for _, _, body in server.requests), "sent_bytes")
    check(server.connections == 1, f"{server.connections} connections for three requests")
    labels, pprof = taken[0]
    check(labels["service_name"] == "shop.cart" and labels["host"] == "db 1/a=b,c"
          and labels["version"] == "1.2ä" and labels["region"] == "north?" and "pid" in labels and "boot_id" not in labels, f"labels {labels}")
    check(pprof.labels == set(), f"labels of samples: {pprof.labels}")
    check(not any("json.loads" in comment for comment in pprof.comments), "the command line left the machine")
    check(any(build_id for _, build_id in pprof.mappings), "no build id")
    check("python" in pprof.mappings[0][0], f"the first mapping is {pprof.mappings[0]}")
    sinks.close()


def test_pprof_tool():
    """Go's pprof opens what is sent, and finds the same totals; so do our own tools."""
    server = StandInCoroot()
    sinks = Sinks(sink("coroot", "coroot", server.url))
    sinks.put()
    sinks.work()
    check_taken(server, sinks, 1, "go:heap_", (":count", ":bytes") * 2)
    body = next(body for path, _, body in server.requests if "heap=libc.malloc" in path)
    path = os.path.join(directory, "sent.pb.gz")
    with open(path, "wb") as file:
        file.write(body)
    period = next(period for period in sinks.periods if period["heap"] == "libc.malloc")
    for index, figure in (("go:heap_alloc_space:bytes", "alloc_space"), ("go:heap_inuse_space:bytes", "inuse_space")):
        outcome = run(["go", "tool", "pprof", "-top", "-unit=B", f"-sample_index={index}", path])
        total = [line for line in outcome.stdout.decode().splitlines() if "of " in line and "total" in line]
        wanted = f"{round(period[figure])}B total"
        check(total and wanted in total[0], f"pprof: {total} {outcome.stderr!r}, wanted {wanted}")
    sinks.close()


def test_parca():
    server = StandInParca()
    sinks = Sinks(sink("parca", "parca", server.url))
    sinks.put(2)
    check_figures(sinks.work()["parca"], sent_messages=2, failures=0)
    check_taken(server, sinks, 2)
    sinks.close()


def test_coroot():
    server = StandInCoroot(api_key="key-1234")
    key = secret_file("key", "key-1234\n")
    sinks = Sinks(sink("coroot", "coroot", server.url, f"api_key_file = {key}"))
    sinks.put(2)
    check_figures(sinks.work()["coroot"], sent_messages=2 * len(sinks.periods), failures=0)
    for labels, pprof in check_taken(server, sinks, 2, "go:heap_", (":count", ":bytes") * 2):
        check(labels["service.name"] == "shop.cart" and labels["host"] == "db 1/a=b,c", f"labels {labels}")
        check(abs(pprof.start_ns - sinks.periods[0]["end_ns"]) < 60e9, "the file's time is not the period's end")
    sinks.close()


def test_gigapipe():
    server = StandInGigapipe()
    sinks = Sinks(sink("gigapipe", "gigapipe", server.url))
    sinks.put(2)
    check_figures(sinks.work()["gigapipe"], sent_messages=2 * len(sinks.periods), failures=0)
    for labels, _ in check_taken(server, sinks, 2):
        check(labels["service_name"] == "shop.cart" and labels["host"] == "db 1/a_b_c", f"labels {labels}")
    sinks.close()


def test_otlp():
    need("zstd")
    server = StandInOtlp()
    refused = Sinks(sink("otel", "otlp", server.url))
    check("experimental = yes" in refused.error, f"without the flag: {refused.error}")
    sinks = Sinks(sink("otel", "otlp", server.url, "experimental = yes"))
    sinks.put(2)
    check_figures(sinks.work()["otel"], sent_messages=2 * len(sinks.periods), failures=0)
    for attributes, profile in [item for request in server.taken for item in request]:
        check(attributes["service.name"] == "shop.cart" and attributes["host.name"], f"attributes {attributes}")
        check(any(build_id.startswith("process.executable.build_id.gnu=") for build_id in profile.build_ids),
              "no build id")
    for request in server.taken:
        for attributes, _ in request:
            attributes["heap"] = attributes.get("heap")
    check_taken(server, sinks, 2)
    for packed, wanted in (("compression = none", None), ("compression = zstd", "zstd"), ("", "gzip")):
        other = Sinks(sink("otel", "otlp", server.url, f"experimental = yes\n{packed}"), sinks.spool + str(wanted))
        other.put()
        check_figures(other.work()["otel"], sent_messages=len(sinks.periods), failures=0)
        got = server.requests[-1][1].get("Content-Encoding")
        check(got == wanted, f"{packed}: {got}")
        other.close()
    check(server.problems == [], f"refused: {server.problems[:3]}")
    # An answer may say that some profiles of a request were rejected: field 1 (partial success), in
    # it field 1 (a count).
    server.next_answers = [(200, {}, b"\x0a\x02\x08\x04"), (200, {}, b"\x0a\x00"), (200, {}, b"\xff" * 100)]
    sinks.put()
    check_figures(sinks.work()["otel"], dropped_messages=1, dropped_periods=1)
    sinks.close()


def test_directory():
    kept = os.path.join(directory, "profiles")
    sinks = Sinks(f"[sink disk]\ntype = directory\npath = {kept}\n")
    sinks.put()
    check_figures(sinks.work()["disk"], sent_messages=len(sinks.periods), spooled_messages=0, dropped_messages=0)
    for place in (kept, sinks.spool, os.path.join(sinks.spool, "disk")):
        check(os.stat(place).st_mode & 0o777 == 0o700, f"{place}: mode {os.stat(place).st_mode:o}")
    files = sorted(os.listdir(kept))
    modes = {os.stat(os.path.join(kept, name)).st_mode & 0o777 for name in files}
    check(modes == {0o600}, f"modes of the files: {modes}")
    check(len(files) == len(sinks.periods) and all(name.endswith(".pb.gz") for name in files), f"files {files}")
    period = next(period for period in sinks.periods if period["heap"] == "libc.malloc")
    name = next(name for name in files if name.endswith(".libc.malloc.pb.gz"))
    outcome = run([TOOL, "report", "--json", os.path.join(kept, name)])
    check(outcome.status == 0, f"report: {outcome.stderr}")
    heap = json.loads(outcome.stdout)["heaps"][0]
    total = heap["total"] if "total" in heap else heap
    check(abs(total["space"]["estimate"] - period["inuse_space"]) <= 1, f"live bytes {total['space']}")
    check("python3" in heap["command"], f"command {heap['command']}")
    with open(os.path.join(kept, name), "rb") as file:
        content = gzip.decompress(file.read())
    for label in ("service_name: shop.cart", "version: 1.2ä", "heap: libc.malloc", f"pid: {heap['pid']}", "boot_id: "):
        check(f"label {label}".encode() in content, f"the file has no label {label}")
    sinks.close()
    # The same periods again, with room for one round only.
    size = sum((os.path.getsize(os.path.join(kept, name)) + 4095) // 4096 * 4096 for name in files)
    stranger = os.path.join(kept, "notes.txt")
    with open(stranger, "w") as file:
        file.write("not ours")
    sinks = Sinks(f"[sink disk]\ntype = directory\npath = {kept}\nsize = {size + 4096}\n")
    for _ in range(3):
        sinks.put()
        sinks.work()
    newer = sorted(name for name in os.listdir(kept) if name.endswith(".pb.gz"))
    check(len(newer) <= len(files) + 1 and files[0] not in newer, f"not rotated: {newer}")
    check(os.path.exists(stranger), "a stranger's file was removed")
    check(not [name for name in os.listdir(kept) if name.startswith(".")], "a temporary file was left")
    sinks.close()


def test_directory_ages_step_by_step():
    """With each new file a few of those go that are too old: a clock that jumps ahead for a while costs few."""
    kept = os.path.join(directory, "aged")
    os.mkdir(kept, 0o700)
    for number in range(20):
        with open(os.path.join(kept, f"200612{number + 1:02}T170409.586Z.shop.7.libc.malloc.pb.gz"), "w") as file:
            file.write("old")
    old = lambda: [name for name in os.listdir(kept) if name.startswith("2006")]
    sinks = Sinks(f"[sink disk]\ntype = directory\npath = {kept}\nmax_age = 1d\n")
    sinks.put()
    sinks.work()
    check(len(old()) == 20 - 4 * len(sinks.periods), f"{len(old())} are left after {len(sinks.periods)} new ones")
    for _ in range(5):
        sinks.put()
        sinks.work()
    check(not old(), f"left: {old()}")
    sinks.close()


def test_directory_of_all():
    """If others can list the directory, the log says so, from the start. Whatever the umask is, only the owner can read
    the files."""
    kept = os.path.join(directory, "open")
    os.mkdir(kept)
    os.chmod(kept, 0o755)
    before = os.umask(0)
    try:
        sinks = Sinks(f"[sink disk]\ntype = directory\npath = {kept}\n")
    finally:
        os.umask(before)
    check("others can look into this directory" in sinks.first["disk"]["last_error"], f"told: {sinks.first}")
    sinks.put()
    figures = sinks.work()["disk"]
    check_figures(figures, sent_messages=len(sinks.periods), failures=0)
    modes = {os.stat(os.path.join(kept, name)).st_mode & 0o777 for name in os.listdir(kept)}
    check(modes == {0o600}, f"modes of the files: {modes}")
    sinks.close()
    os.chmod(kept, 0o700)
    sinks = Sinks(f"[sink disk]\ntype = directory\npath = {kept}\n")
    check(not sinks.first["disk"]["last_error"], f"not told: {sinks.first}")
    sinks.close()


# --- outages ---


def outage(answers, after=None, **wanted):
    """Let the next requests fail in these ways. Nothing is lost, and it is said what went wrong."""
    server = StandInPyroscope()
    server.next_answers = list(answers)
    sinks = Sinks(sink("grafana", "pyroscope", server.url, "timeout = 2s"))
    sinks.put(2)
    figures = sinks.work()["grafana"]
    check_taken(server, sinks, 2)
    check_figures(figures, sent_messages=2, dropped_messages=0, failures=len(answers), spooled_messages=0, **wanted)
    check(figures["last_error"], "no error is told")
    if after:
        after(figures)
    sinks.close()
    server.close()


def test_errors():
    def told(figures):
        check("HTTP" not in figures["last_error"] and "503: try later" in figures["last_error"],
              f"error: {figures['last_error']}")
    outage([(500, {}, b"oops"), (502, {}, b""), (401, {}, b"who?"), (404, {}, b"no"), (503, {}, b"try later\nnot this")],
           told)


def test_broken_answers():
    outage(["cut", "garbage", "flood", "cut"])


def test_hanging_answer():
    outage(["hang"])


def test_answers_without_end():
    """Whatever its first line says, an answer that is cut or endless counts as failed. The message is sent again with
    the same bytes and id, by which a store can tell that it has it."""
    answers = ["cut head", "cut body", "flood taken", "flood head"]
    server = StandInPyroscope()
    server.next_answers = list(answers)
    sinks = Sinks(sink("grafana", "pyroscope", server.url))
    sinks.put()
    figures = sinks.work()["grafana"]
    check_figures(figures, sent_messages=1, failures=len(answers), spooled_messages=0, dropped_messages=0)
    check(len(server.requests) == len(answers) + 1, f"{len(server.requests)} requests")
    check(len({body for _, _, body in server.requests}) == 1, "the same bytes")
    check(len(server.taken) == 1 and not server.problems, f"taken once: {server.problems}")
    sinks.close()
    server.close()


def test_endless_answer_is_told():
    def told(figures):
        check("the answer has no end" in figures["last_error"], f"error: {figures['last_error']}")
    outage(["flood taken"], told)


def test_refused_message():
    """A request that the store will never take is dropped and counted."""
    server = StandInPyroscope()
    server.next_answers = [(400, {}, b"bad \x1b[31mlabel")]
    sinks = Sinks(sink("grafana", "pyroscope", server.url))
    sinks.put(2)
    figures = sinks.work()["grafana"]
    check_figures(figures, sent_messages=1, dropped_messages=1, dropped_periods=len(sinks.periods), failures=1)
    check("400: bad" in figures["last_error"] and "\x1b" not in figures["last_error"], f"{figures['last_error']!r}")
    sinks.close()


def test_retry_after():
    """The store's wish is longer than our own delay, and is kept."""
    server = StandInPyroscope()
    server.next_answers = [(429, {"Retry-After": "2"}, b"slow down")]
    sinks = Sinks(sink("grafana", "pyroscope", server.url))
    sinks.put()
    figures = sinks.work(1500)["grafana"]
    check_figures(figures, sent_messages=0, failures=1, spooled_messages=1)
    check(len(server.requests) == 1, f"{len(server.requests)} requests in 1.5 s")
    check(figures["lag_ms"] > 1000, f"lag {figures['lag_ms']} ms")
    check_figures(sinks.work()["grafana"], sent_messages=1, failures=1)
    sinks.close()


def test_redirect():
    """A redirection is not followed: it would take the token elsewhere."""
    elsewhere, server = StandInPyroscope(), StandInPyroscope(token="token-5678")
    server.next_answers = [(307, {"Location": elsewhere.url + "/push.v1.PusherService/Push"}, b"")]
    token = secret_file("token", "token-5678")
    sinks = Sinks(sink("grafana", "pyroscope", server.url, f"token_file = {token}"))
    sinks.put()
    figures = sinks.work()["grafana"]
    check(elsewhere.requests == [], "the redirection was followed")
    check_taken(server, sinks, 1)
    check("redirection" in figures["last_error"], f"error: {figures['last_error']}")
    sinks.close()


def test_refused_connection():
    """The store is down for a while; afterwards everything is there, the message of a bad server included."""
    server = StandInPyroscope()
    port, url = server.port, server.url
    server.close()
    sinks = Sinks(sink("grafana", "pyroscope", url))
    sinks.put(5)
    start = time.monotonic()
    figures = sinks.work_until("grafana", lambda figures: figures["failures"] >= 4)
    check(time.monotonic() - start > 0.2, "four attempts without a pause")
    check_figures(figures, sent_messages=0, spooled_messages=5, dropped_messages=0)
    check("127.0.0.1" in figures["last_error"], f"error: {figures['last_error']}")
    server = StandInPyroscope(port=port)
    check_figures(sinks.work()["grafana"], sent_messages=5, spooled_messages=0, dropped_messages=0)
    check_taken(server, sinks, 5)
    sinks.close()


def test_one_away():
    """A sink that is away does not delay another one."""
    good, away = StandInPyroscope(), StandInParca()
    away.next_answers = ["hang"] * 10
    sinks = Sinks(sink("grafana", "pyroscope", good.url) + sink("parca", "parca", away.url))
    sinks.put(3)
    check_figures(sinks.work_until("grafana", lambda figures: figures["sent_messages"] == 3),
                  sent_messages=3, spooled_messages=0)
    check_figures(sinks.work(0)["parca"], sent_messages=0, spooled_messages=3)
    check_taken(good, sinks, 3)
    sinks.close()


def test_silent_resolver():
    """Name servers that do not answer hold up nothing, not even the end."""
    if not own_network():
        skip("a network of our own is not permitted")
    listener = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    listener.bind(("127.0.0.1", 53))
    servers = secret_file("resolv.conf", "nameserver 127.0.0.1\n", 0o644)
    switch = secret_file("nsswitch.conf", "hosts: dns\n", 0o644)
    record()
    sinks = Sinks(sink("grafana", "pyroscope", "http://store.example", "timeout = 300ms"), wrapper=[
        "unshare", "-m", "sh", "-c", f"mount --bind {servers} /etc/resolv.conf && "
        f"mount --bind {switch} /etc/nsswitch.conf && exec \"$@\"", "sh"])
    check(sinks.first is not None, f"not opened: {sinks.error}")
    sinks.put()
    start = time.monotonic()
    figures = sinks.work_until("grafana", lambda figures: figures["failures"] >= 2)
    sinks.close()
    check(time.monotonic() - start < 4 * SLOWNESS, f"{time.monotonic() - start:.1f} s for two attempts and the end")
    check("Resolving timed out" in figures["last_error"], f"error: {figures['last_error']}")


# --- the spool ---


def test_restart():
    """What waits outlives a kill; damaged and foreign files are no messages."""
    server = StandInPyroscope()
    port, url = server.port, server.url
    server.close()
    sinks = Sinks(sink("grafana", "pyroscope", url))
    sinks.put(4)
    sinks.kill()
    spool = os.path.join(sinks.spool, "grafana")
    names = sorted(os.listdir(spool))
    check(len(names) == 4, f"spool {names}")
    with open(os.path.join(spool, names[1]), "r+b") as file:  # one byte of its body
        file.seek(-10, os.SEEK_END)
        byte = file.read(1)
        file.seek(-10, os.SEEK_END)
        file.write(bytes([byte[0] ^ 1]))
    os.truncate(os.path.join(spool, names[2]), 100)
    for name, text in (("new.message", b"half"), ("0000000000000099.message", b""), ("notes.txt", b"kept")):
        with open(os.path.join(spool, name), "wb") as file:
            file.write(text)
    os.symlink("/etc/passwd", os.path.join(spool, "0000000000000098.message"))
    os.mkfifo(os.path.join(spool, "0000000000000097.message"))
    server = StandInPyroscope(port=port)
    sinks = Sinks(sink("grafana", "pyroscope", url))
    check_figures(sinks.first["grafana"], spooled_messages=3, dropped_messages=4)
    figures = sinks.work()["grafana"]
    check_figures(figures, sent_messages=2, spooled_messages=0, dropped_messages=5)
    check("damaged" in figures["last_error"], f"error: {figures['last_error']}")
    check_taken(server, sinks, 2)
    check(os.listdir(spool) == ["notes.txt"], f"left: {os.listdir(spool)}")
    second = Sinks(sink("grafana", "pyroscope", url))
    check("another collector" in second.error, f"two of one spool: {second.error}")
    sinks.close()


def test_bound():
    """Beyond the bound the oldest messages go, and are counted; the newest arrive."""
    server = StandInPyroscope()
    port, url = server.port, server.url
    server.close()
    probe = Sinks(sink("grafana", "pyroscope", url))
    size = probe.put()["grafana"]["spooled_bytes"]
    probe.kill()
    sinks = Sinks(sink("grafana", "pyroscope", url, f"spool_size = {3 * size + 4096}"))
    figures = sinks.put(5)["grafana"]
    check_figures(figures, spooled_messages=3, dropped_messages=3, dropped_periods=3 * len(sinks.periods))
    check(figures["spooled_bytes"] <= 3 * size + 4096, f"{figures['spooled_bytes']} bytes")
    server = StandInPyroscope(port=port)
    check_figures(sinks.work()["grafana"], sent_messages=3, dropped_messages=3)
    check_taken(server, sinks, 3)
    sinks.close()


# --- from a program to a store ---


def test_through_daemon():
    """The periods of a running program reach the store, also those of an outage and of a restart of the daemon.

    Their allocated bytes add up to what the program allocated; the live ones are those of the moment.
    """
    with scene(start=False) as (daemon, place):
        server, name = StandInPyroscope(), own_name("shop")
        configuration = os.path.join(place, "heapprofd.conf")
        with open(configuration, "w") as file:
            file.write(
                "[continuous]\nperiod = 1s\nleast_interval = 1\nstart_interval = 1\n"
                f"samples_per_hour = 1000000000\ncpu = 100%\nspool = {place}/spool\n[program {name}]\n"
                f"version = 7\n[labels]\nregion = north\n"
                + sink("grafana", "pyroscope", server.url)
                + f"[sink disk]\ntype = directory\npath = {place}/kept\n")
        daemon.environment = {**{key: value for key, value in daemon.environment.items() if key in CLEAN},
                              "HEAPPROFD_CONFIG": configuration}

        def taken(server):
            return [pprof for request in server.taken for labels, pprof in request if labels["heap"] == "libc.malloc"]

        def allocated(*servers):
            return sum(pprof.total_by("hold_block", "alloc_space") for server in servers for pprof in taken(server))

        daemon.start()
        process = Commanded(daemon.environment, name, place)
        joined(daemon, process)
        # Blocks that are sampled certainly, also if the daemon has made the interval longer. One byte of its start
        # may count as many.
        process.tell("hold 10 10000000")
        wait_for("the first blocks at the store", lambda: allocated(server) >= 100_000_000)
        first = allocated(server) - 100_000_000
        check(first < 10_000, f"{allocated(server)} bytes, not 100,000,000")
        process.tell("drop")
        process.tell("hold 3 10000000")
        wait_for("the next blocks at the store", lambda: allocated(server) >= 130_000_000)
        labels = server.taken[-1][-1][0]
        check(labels["service_name"] == name and labels["version"] == "7" and labels["region"] == "north"
              and labels["host"] and labels["pid"] == str(process.pid), f"labels {labels}")
        live = taken(server)[-1].total_by("hold_block", "inuse_space")
        check(abs(live - 30_000_000) <= 3_000, f"{live} bytes are live, not 30,000,000")
        got = allocated(server) - first
        check(abs(got - 130_000_000) <= 13_000, f"{got} bytes were allocated, not 130,000,000")
        check(server.problems == [], f"refused: {server.problems[:3]}")

        server.close()
        process.tell("hold 2 10000000")
        wait_for("a message that waits", lambda: any(
            name.endswith(".message") for name in os.listdir(os.path.join(place, "spool", "grafana"))))
        check(process.end() == 0, "the program failed")
        check(daemon.end() == 0, f"the daemon failed: {daemon.log()}")
        again = StandInPyroscope(port=server.port)
        daemon.start()
        wait_for("the blocks of the outage", lambda: allocated(server, again) >= 150_000_000)
        got = allocated(server, again) - first
        check(abs(got - 150_000_000) <= 15_000, f"{got} bytes in all, not 150,000,000")
        check(again.problems == [], f"refused: {again.problems[:3]}")
        for file in os.listdir(os.path.join(place, "kept")):
            outcome = run([TOOL, "report", "--json", os.path.join(place, "kept", file)])
            check(outcome.status == 0, f"report of {file}: {outcome.stderr}")


# --- security ---


def make_certificates():
    """Make an authority, and certificates of a server, of a client, and of another authority."""
    def make(name, subject, issuer=None, more=()):
        command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", subject,
                   "-keyout", f"{name}.key", "-out", f"{name}.pem", *more]
        if issuer:
            command += ["-CA", f"{issuer}.pem", "-CAkey", f"{issuer}.key"]
        outcome = run(command, cwd=directory)
        check(outcome.status == 0, f"openssl: {outcome.stderr}")
        return os.path.join(directory, f"{name}.pem"), os.path.join(directory, f"{name}.key")
    here = ("-addext", "subjectAltName=IP:127.0.0.1", "-addext", "basicConstraints=CA:FALSE")
    make("authority", "/CN=authority")
    make("stranger", "/CN=authority")
    return (make("server", "/CN=server", "authority", here),
            make("wrong", "/CN=server", "authority", ("-addext", "subjectAltName=IP:127.0.0.2")),
            make("client", "/CN=client", "authority", ("-addext", "basicConstraints=CA:FALSE")))


def test_tls():
    server_files, wrong_files, client_files = make_certificates()
    authority, stranger = (os.path.join(directory, name) for name in ("authority.pem", "stranger.pem"))

    def attempt(files, more, verify=None):
        server = StandInPyroscope(tls=(*files, verify) if verify else files)
        spool = os.path.join(directory, f"spool-{server.port}")
        sinks = Sinks(sink("grafana", "pyroscope", server.url, more), spool)
        check(sinks.first is not None, f"not opened: {sinks.error}")
        sinks.put()
        figures = sinks.work_until(
            "grafana", lambda figures: figures["sent_messages" if expected == "sent" else "failures"] > 0)
        if expected == "sent":
            check_figures(figures, sent_messages=1)
            check_taken(server, sinks, 1)
        else:
            check_figures(figures, sent_messages=0, spooled_messages=1, dropped_messages=0)
            check(server.requests == [], "a request went to an unknown server")
            check(expected in figures["last_error"].lower(), f"error: {figures['last_error']}")
        sinks.kill()
        server.close()

    expected = "certificate"
    attempt(server_files, "")  # the machine's authorities do not know it
    attempt(server_files, f"ca_file = {stranger}")
    expected = "127.0.0.1"
    attempt(wrong_files, f"ca_file = {authority}")  # another host's certificate
    expected = "sent"
    attempt(server_files, f"ca_file = {authority}")
    os.chmod(client_files[1], 0o600)
    attempt(server_files, f"ca_file = {authority}\nclient_certificate = {client_files[0]}\n"
            f"client_key = {client_files[1]}", authority)
    expected = "127.0.0.1"  # openssl has several words for a connection that was refused
    attempt(server_files, f"ca_file = {authority}", authority)
    os.chmod(client_files[1], 0o644)
    sinks = Sinks(sink("grafana", "pyroscope", "https://127.0.0.1:1",
                       f"client_certificate = {client_files[0]}\nclient_key = {client_files[1]}"))
    check("others can read" in sinks.error, f"a key for everybody: {sinks.error}")


def test_tokens():
    """Tokens come from files that others cannot read, are read again, and are nowhere to be seen."""
    server = StandInPyroscope(token="secret-token-2")
    token = secret_file("token", "secret-token-1\n", 0o644)
    configuration = sink("grafana", "pyroscope", server.url, f"token_file = {token}")
    check("others can read" in Sinks(configuration).error, "a token for everybody")
    os.chmod(token, 0o600)
    sinks = Sinks(configuration)
    sinks.put()
    figures = sinks.work_until("grafana", lambda figures: figures["failures"] > 0)
    check_figures(figures, sent_messages=0, spooled_messages=1, dropped_messages=0)
    # The server's answer repeats the token.
    check("401: no such token: Bearer *****" in figures["last_error"], f"error: {figures['last_error']}")
    pid = sinks.process.pid
    for place in ("cmdline", "environ"):
        with open(f"/proc/{pid}/{place}") as file:
            check("secret-token" not in file.read(), f"the token is in {place}")
    for path, _, names in os.walk(sinks.spool):
        for name in names:
            with open(os.path.join(path, name), "rb") as file:
                check(b"secret-token" not in file.read(), "the token is in the spool")
    secret_file("token", "secret-token-2\n")
    check_figures(sinks.work()["grafana"], sent_messages=1)
    os.chmod(token, 0o604)
    sinks.put()
    figures = sinks.work_until("grafana", lambda figures: "others" in figures["last_error"])
    check_figures(figures, sent_messages=1, spooled_messages=1)
    check("others can read" in figures["last_error"], f"error: {figures['last_error']}")
    sinks.kill()


def test_basic():
    server = StandInParca()
    password = secret_file("password", "pass:word\n")
    sinks = Sinks(sink("parca", "parca", server.url, f"username = me\npassword_file = {password}"))
    sinks.put()
    sinks.work()
    check(server.requests[0][1]["Authorization"] == "Basic bWU6cGFzczp3b3Jk", f"{server.requests[0][1]}")
    sinks.close()


def test_settings():
    """What is wrong in a section is refused with its place and the remedy."""
    token = secret_file("token", "secret-token-1")
    for text, words in (
        ("[sink]\ntype = parca\n", "needs a name"),
        ("[sink ../x]\ntype = parca\n", "needs a name"),
        ("[sink a]\n", "pyroscope"),
        ("[sink a]\ntype = kafka\n", "pyroscope"),
        ("[sink a]\ntype = parca\n", "url"),
        ("[sink a]\ntype = parca\nurl = ftp://host\n", "https://"),
        ("[sink a]\ntype = parca\nurl = file:///etc/passwd\n", "https://"),
        ("[sink a]\ntype = parca\nurl = http://me:secret-token-1@host\n", "password_file"),
        ("[sink a]\ntype = parca\nurl = http://host/?token=secret-token-1\n", "path"),
        (f"[sink a]\ntype = parca\nurl = http://host\ntoken_file = {token}\n", "plaintext_credentials"),
        (f"[sink a]\ntype = parca\nurl = http://127.evil.example\ntoken_file = {token}\n", "plaintext_credentials"),
        ("[sink a]\ntype = parca\nurl = https://host\ntoken_file = /none\n", "/none"),
        ("[sink a]\ntype = parca\nurl = https://host\ntoken_file = /dev/zero\n", "regular"),
        ("[sink a]\ntype = parca\nurl = https://host\nca_file = /none\n", "ca_file"),
        ("[sink a]\ntype = parca\nurl = https://host\nusername = me\n", "password_file"),
        ("[sink a]\ntype = parca\nurl = https://host\ncompression = gzip\n", "compression"),
        ("[sink a]\ntype = parca\nurl = https://host\ndrop_labels = service_name\n", "service_name"),
        ("[sink a]\ntype = pyroscope\nurl = https://host\ncompression = zstd\n", "gzip"),
        ("[sink a]\ntype = directory\n", "path"),
        ("[sink a]\ntype = directory\npath = here\n", "absolute"),
        ("[sink a]\ntype = directory\npath = " + directory + "\nurl = https://host\n", "url"),
    ):
        sinks = Sinks(text)
        check(sinks.first is None and words in sinks.error, f"{text!r}: {sinks.error!r}")
        check("secret-token" not in sinks.error, f"the secret is told: {sinks.error!r}")
        with open(os.path.join(directory, "heapprofd.conf"), "w") as file:
            file.write("[continuous]\n[program cart]\n" + text)
        outcome = run([COLLECTOR, "--check", "--config", file.name], env={"LD_LIBRARY_PATH": BUILD})
        check(outcome.status > 0 and words.encode() in outcome.stderr, f"--check: {text!r}: {outcome.stderr!r}")


signal.signal(signal.SIGPIPE, signal.SIG_IGN)
main()
