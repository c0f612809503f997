#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Measure what continuous mode costs: a machine with 50 programs, in real time, and what redis and a Python service
lose by it.

    bench/continuous.py [machine | redis | python] [SECONDS or ROUNDS]

machine   40 services that allocate 5 MB/s each (bench/continuous_work.c) and 10 Python services of 20 requests/s, with
          the default configuration: share of one processor and PSS of the whole daemon, bytes a sample. After the
          intervals have settled (two periods), SECONDS are measured: 300.
redis     redis-benchmark against no profiler, in alternating runs: ROUNDS, 7.
python    requests of a Python service, the same.

Figures go to standard output as JSON.
"""

import contextlib
import gzip
import http.server
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter

from common import BUILD, ROOT, TOOL, cost

LIBRARY = os.path.join(BUILD, "libheapprofd_preload.so")
PYTHON = os.environ.get("PYTHON", "/usr/bin/python3")
WORK = os.path.join(ROOT, "bench", "python_work.py")
SERVICES, PYTHONS, MEGABYTES, REQUESTS = 40, 10, 5, 20
SETTLE_S = int(os.environ.get("SETTLE_S", "150"))
PERIODS = "60s"


class StandIn(http.server.BaseHTTPRequestHandler):
    """Takes what a sink sends, as a Pyroscope would, and counts the bytes. It stands in for one."""

    protocol_version = "HTTP/1.1"
    received, requests, header_bytes = 0, 0, 0

    def do_POST(self):
        length = int(self.headers["Content-Length"])
        self.rfile.read(length)
        StandIn.received += length
        StandIn.requests += 1
        StandIn.header_bytes += len(str(self.headers)) + len(self.requestline) + 2
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


class Daemon:
    """A heapprofd in continuous mode, with a run directory and a configuration of its own."""

    def __init__(self, directory, programs, sinks=""):
        self.directory = directory
        self.run_directory = os.path.join(directory, "run")
        config = os.path.join(directory, "heapprofd.conf")
        with open(config, "w", encoding="utf-8") as file:
            file.write(f"[continuous]\nperiod = {PERIODS}\nspool = {directory}/spool\n[metrics]\nlisten = 127.0.0.1:0\n")
            for program in programs:
                file.write(f"[program {program}]\n")
            file.write(sinks)
        self.environment = {**os.environ, "HEAPPROFD_RUN_DIR": self.run_directory, "HEAPPROFD_CONFIG": config}
        with open(os.path.join(directory, "log"), "ab") as log:
            self.process = subprocess.Popen([os.path.join(BUILD, "heapprofd")], env=self.environment, stderr=log, stdout=log)
        self.wait_for(lambda: self.status() is not None, "continuous mode")

    def wait_for(self, condition, what, seconds=60):
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > end or self.process.poll() is not None:
                with open(os.path.join(self.directory, "log"), encoding="utf-8") as log:
                    raise RuntimeError(f"no {what}: {log.read()}")
            time.sleep(0.2)

    def status(self):
        said = subprocess.run([TOOL, "status", "--json"], env=self.environment, capture_output=True, check=False)
        return json.loads(said.stdout).get("continuous") if said.returncode == 0 else None

    def profiled(self):
        return {p["pid"] for p in (self.status() or {}).get("programs", []) if p["interval_bytes"]}

    def end(self):
        self.process.terminate()
        self.process.wait(60)


@contextlib.contextmanager
def daemon_of(programs, sinks=""):
    directory = tempfile.mkdtemp(prefix="bench-continuous-")
    daemon = Daemon(directory, programs, sinks)
    try:
        yield daemon
    finally:
        daemon.end()
        shutil.rmtree(directory, ignore_errors=True)


def tree_of(pid):
    """Return the processes below a process, with itself: {pid: name}."""
    parents, names = {}, {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{entry}/stat", encoding="utf-8") as file:
            head, _, rest = file.read().rpartition(")")
            names[int(entry)], parents[int(entry)] = head.partition("(")[2], int(rest.split()[1])
    found = {pid}
    while True:
        more = {child for child, parent in parents.items() if parent in found} - found
        if not more:
            return {child: names[child] for child in found if child in names}
        found |= more


def cpu_of(tree):
    """Return {pid: CPU seconds}, with children that have ended."""
    found = {}
    for pid in tree:
        with contextlib.suppress(OSError), open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            fields = file.read().rpartition(")")[2].split()
            found[pid] = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    return found


def pss_of(tree):
    """Return {pid: PSS in MB}. A page of a ring counts half: it is the program's, too."""
    found = {}
    for pid in tree:
        with contextlib.suppress(OSError), open(f"/proc/{pid}/smaps_rollup", encoding="utf-8") as file:
            found[pid] = next(int(line.split()[1]) for line in file if line.startswith("Pss:")) * 1024 / 1e6
    return found


def forks():
    """Return the number of processes that the machine has started."""
    with open("/proc/stat", encoding="utf-8") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("processes"))


def totals_of(status):
    return {
        "samples": sum(p["samples"] or 0 for p in status["programs"]),
        "sent": {s["name"]: (s["sent_bytes"], s["sent_messages"], s["dropped_messages"], s["failures"]) for s in status["sinks"]},
        "dumps": status["dumps_taken"], "dumps_lost": status["dumps_lost"],
    }


def raw_size(directory):
    """Return the bytes of the files of a directory sink as they are, and unpacked; and their number."""
    packed = unpacked = count = 0
    for place, _, names in os.walk(directory):
        for name in names:
            with open(os.path.join(place, name), "rb") as file:
                bytes_ = file.read()
            packed += len(bytes_)
            unpacked += len(gzip.decompress(bytes_)) if bytes_[:2] == b"\x1f\x8b" else len(bytes_)
            count += 1
    return packed, unpacked, count


@contextlib.contextmanager
def fifty_programs(directory):
    """Start the programs, preloaded. Yield their processes and names."""
    running, names = [], []
    environment = {**os.environ, "LD_PRELOAD": LIBRARY}
    work = os.path.join(directory, "continuous_work")
    subprocess.run(["gcc", "-O2", "-g", "-o", work, os.path.join(ROOT, "bench", "continuous_work.c")], check=True)
    try:
        for number in range(SERVICES):
            names.append(f"cservice{number:02}")
            path = os.path.join(directory, names[-1])
            shutil.copy(work, path)
            running.append(subprocess.Popen([path, str(MEGABYTES)], env=environment))
        for number in range(PYTHONS):
            names.append(f"pyservice{number:02}")
            path = os.path.join(directory, names[-1])
            os.symlink(PYTHON, path)
            running.append(subprocess.Popen([path, WORK, "serve", str(REQUESTS)], env=environment, stdout=subprocess.DEVNULL))
        yield running, names
    finally:
        for process in running:
            process.kill()
            process.wait()


def measure_machine(seconds):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), StandIn)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory(prefix="bench-services-") as directory:
        profiles = os.path.join(directory, "profiles")
        names = [f"cservice{n:02}" for n in range(SERVICES)] + [f"pyservice{n:02}" for n in range(PYTHONS)]
        sinks = (f"[sink disk]\ntype = directory\npath = {profiles}\n"
                 f"[sink net]\ntype = pyroscope\nurl = http://127.0.0.1:{server.server_address[1]}\n")
        with daemon_of(names, sinks) as daemon:
            # The client finds the daemon's run directory by its environment.
            os.environ["HEAPPROFD_RUN_DIR"] = daemon.run_directory
            with fifty_programs(directory) as (running, _):
                pids = {process.pid for process in running}
                daemon.wait_for(lambda: pids <= daemon.profiled(), "profiles of all programs", 120)
                time.sleep(SETTLE_S)
                return watch(daemon, profiles, seconds)


def watch(daemon, profiles, seconds):
    tree, files, began = tree_of(daemon.process.pid), raw_size(profiles), time.monotonic()
    cpu, before, received = cpu_of(tree), totals_of(daemon.status()), (StandIn.received, StandIn.requests, StandIn.header_bytes)
    pss, started = [], forks()
    while time.monotonic() - began < seconds:
        time.sleep(5)
        pss.append(pss_of(tree_of(daemon.process.pid)))
    elapsed = time.monotonic() - began
    tree = tree_of(daemon.process.pid)
    spent = {pid: used - cpu.get(pid, 0) for pid, used in cpu_of(tree).items()}
    status = daemon.status()
    after, files_after = totals_of(status), raw_size(profiles)
    samples = after["samples"] - before["samples"]
    sums = [sum(one.values()) for one in pss]
    packed, unpacked, count = (b - a for a, b in zip(files, files_after))
    return {
        "seconds": elapsed, "processes started a second": (forks() - started) / elapsed, "programs": len(status["programs"]), "samples": samples,
        "samples an hour and program": samples / len(status["programs"]) / elapsed * 3600,
        "intervals": dict(Counter(p["interval_bytes"] for p in status["programs"])),
        "cpu share": sum(spent.values()) / elapsed,
        "cpu shares": {f"{tree[pid]} {pid}": used / elapsed for pid, used in spent.items()},
        "pss median MB": statistics.median(sums), "pss most MB": max(sums),
        "pss MB": {f"{tree.get(pid, '?')} {pid}": round(value, 1) for pid, value in pss[-1].items()},
        "own cpu_share": status["cpu_share"], "own rss": status["memory_bytes"],
        "bytes a sample received": (StandIn.received - received[0]) / max(samples, 1),
        "header bytes a sample": (StandIn.header_bytes - received[2]) / max(samples, 1),
        "requests": StandIn.requests - received[1],
        "bytes a sample, directory": packed / max(samples, 1), "unpacked": unpacked / max(samples, 1), "files": count,
        "before": before, "after": after,
        "losses": sum((loss["amount"] for p in status["programs"] for loss in p["losses"]), 0),
        "problems": [p["problem"] for p in status["programs"] if p["problem"]],
    }


# --- slow-down ---


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def run_redis(daemon, directory):
    """Return seconds a request of SET and GET, and seconds of the server's processor time, after a warm-up in which the
    interval settles."""
    environment, port = dict(os.environ), free_port()
    name = os.path.join(directory, "redisbench")
    if not os.path.exists(name):
        os.symlink(shutil.which("redis-server"), name)
    if daemon:
        environment.update(daemon.environment, LD_PRELOAD=LIBRARY)
    server = subprocess.Popen([name, "--port", str(port), "--save", "", "--appendonly", "no"], env=environment,
                              stdout=subprocess.DEVNULL, cwd=directory)
    bench = ["redis-benchmark", "-p", str(port), "-q", "--csv", "-r", "100000", "-d", "64", "-t", "set,get"]
    try:
        for _ in range(100):
            if subprocess.run(["redis-cli", "-p", str(port), "ping"], capture_output=True, check=False).stdout == b"PONG\n":
                break
            time.sleep(0.1)
        if daemon:
            daemon.wait_for(lambda: server.pid in daemon.profiled(), "profile of redis")
        subprocess.run([*bench, "-n", "100000"], check=True, capture_output=True)
        used = sum(cpu_of([server.pid]).values())
        text = subprocess.run([*bench, "-n", "300000"], check=True, capture_output=True, text=True).stdout
        used = sum(cpu_of([server.pid]).values()) - used
        rates = [float(line.split(",")[1].strip('"')) for line in text.splitlines() if line.startswith(('"SET"', '"GET"'))]
        return statistics.mean(1 / rate for rate in rates), used
    finally:
        server.terminate()
        server.wait()


def run_python(daemon, directory):
    """Return seconds of a Python service's requests, and of its processor time."""
    name = os.path.join(directory, "pybench")
    if not os.path.exists(name):
        os.symlink(PYTHON, name)
    environment = {**daemon.environment, "LD_PRELOAD": LIBRARY} if daemon else None
    return cost([name, WORK, "requests", "20000"], env=environment)[:2]


def spread_of(pairs):
    """Return the ratios of (with, without), their median and quartiles, and how much runs without differ."""
    ratios = sorted(with_ / without for with_, without in pairs)
    bare = [without for _, without in pairs]
    low, middle, high = statistics.quantiles(ratios, n=4)
    return {"median": middle, "quartiles": (low, high), "ratios": [round(ratio, 4) for ratio in ratios],
            "deviation of runs without": statistics.pstdev(bare) / statistics.mean(bare)}


def measure_slowdown(run, program, rounds):
    pairs = []
    with tempfile.TemporaryDirectory(prefix="bench-slow-") as directory:
        for number in range(rounds):
            found = {}
            # The order alternates, so that a drift of the machine is in both.
            for which in ("without", "with") if number % 2 == 0 else ("with", "without"):
                with daemon_of([program]) if which == "with" else contextlib.nullcontext() as daemon:
                    found[which] = run(daemon, directory)
            pairs.append((found["with"], found["without"]))
            print(f"{program}: {[with_ / without for with_, without in zip(*pairs[-1])]}", file=sys.stderr, flush=True)
    return {kind: spread_of([(with_[i], without[i]) for with_, without in pairs]) for i, kind in enumerate(("wall", "cpu"))}


if __name__ == "__main__":
    which = sys.argv[1] if len(sys.argv) > 1 else "all"
    amount = int(sys.argv[2]) if len(sys.argv) > 2 else None
    figures = {}
    if which in ("all", "machine"):
        figures["machine"] = measure_machine(amount or 300)
    if which in ("all", "redis"):
        figures["redis"] = measure_slowdown(run_redis, "redisbench", amount or 7)
    if which in ("all", "python"):
        figures["python"] = measure_slowdown(run_python, "pybench", amount or 7)
    print(json.dumps(figures, indent=1))
