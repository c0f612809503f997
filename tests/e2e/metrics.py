#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Metrics of continuous mode, and what `heap_profile status` says of it.

    metrics.py CASE

Each case starts a daemon with a configuration of its own. Programs obey commands (tests/programs/commanded.c).
"""

import contextlib
import json
import math
import os
import re
import shutil
import socket
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

import daemon as service
import harness
from harness import TOOL, check, need, run

OPEN_METRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
TEXT = "text/plain; version=0.0.4; charset=utf-8"

# --- a strict reader of both forms ---

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"'
SAMPLE = re.compile(rf"({NAME})(?:\{{({LABEL}(?:,{LABEL})*)\}})? (\S+)")


def unescape(text):
    return re.sub(r"\\(.)", lambda found: {"n": "\n"}.get(found[1], found[1]), text)


class Exposition:
    """The samples of a text: {(name, frozenset of labels): value}. Any violation of the form is a failure."""

    def __init__(self, text, is_open_metrics):
        self.samples, self.types, self.is_open_metrics = {}, {}, is_open_metrics
        self.family, self.helped, self.units = None, set(), {}
        check(text.endswith("\n"), "the text does not end with a line's end")
        lines = text.split("\n")[:-1]
        if is_open_metrics:
            check(lines[-1] == "# EOF", f"the last line is {lines[-1]!r}")
            lines = lines[:-1]
        for line in lines:
            if line.startswith("#"):
                self.take_head(line)
            else:
                self.take_sample(line)

    def take_head(self, line):
        found = re.fullmatch(rf"# (HELP|TYPE|UNIT) ({NAME}) (.+)", line)
        if not check(found, f"no head of a metric: {line!r}"):
            return
        word, name, rest = found.groups()
        if word == "HELP":
            check(name not in self.helped and name not in self.types, f"{name} begins twice")
            self.helped.add(name)
            self.family = name
        check(name == self.family, f"{word} of {name} within {self.family}")
        if word == "TYPE":
            check(rest in ("counter", "gauge"), f"{name} is a {rest}")
            check(self.is_open_metrics or (rest == "counter") == name.endswith("_total"), f"{name} is a {rest}")
            self.types[name] = rest
        if word == "UNIT":
            check(self.is_open_metrics and name.endswith("_" + rest), f"{name} has the unit {rest}")

    def take_sample(self, line):
        found = SAMPLE.fullmatch(line)
        if not check(found, f"no sample: {line!r}"):
            return
        name, labels, value = found.group(1), found.group(2) or "", found.groups()[-1]
        suffix = "_total" if self.is_open_metrics and self.types.get(self.family) == "counter" else ""
        check(name == f"{self.family}{suffix}", f"{name} within {self.family}")
        check(self.family in self.types, f"{name} has no type")
        pairs = [(key, unescape(text)) for key, text in re.findall(LABEL, labels)]
        check(len({key for key, _ in pairs}) == len(pairs), f"a label twice: {line}")
        key = (name, frozenset(pairs))
        check(key not in self.samples, f"a series twice: {line}")
        number = float(value)
        check(math.isfinite(number), f"no finite value: {line}")
        self.samples[key] = number

    def value(self, name, **labels):
        return self.samples.get((name, frozenset(labels.items())))

    def named(self, name):
        return {key[1]: value for key, value in self.samples.items() if key[0] == name}


# --- the scene ---


@contextlib.contextmanager
def scene(metrics="listen = 127.0.0.1:0", more="", interval=1):
    """Start a daemon in continuous mode. A program's section is named as the program."""
    with service.scene(start=False) as (daemon, directory):
        name = service.own_name("metered")[-15:]
        path = os.path.join(directory, "heapprofd.conf")
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"[continuous]\nperiod = 1s\nspool = {directory}/spool\nstart_interval = {interval}\n"
                       f"least_interval = {interval}\n"
                       "samples_per_hour = 1000000000\ncpu = 100%\nmemory = 4GiB\n"
                       f"[program {name}]\nservice = shop \"é\\\n"
                       f"[sink disk]\ntype = directory\npath = {directory}/profiles\n"
                       f"[metrics]\n{metrics}\n{more}")
        daemon.environment["HEAPPROFD_CONFIG"] = path
        yield daemon, directory, name


def continuous(daemon):
    status = daemon.status()
    return status.get("continuous") if status else None


def measured(daemon, programs):
    """Wait until each program has a dump. Return the status."""

    def all_measured():
        # One large block is enough to notice the session. Until the daemon has answered, many small ones would be a
        # burst that makes the interval longer, and whether they are still live would never be known.
        for program in programs:
            program.tell("churn 1 300000")
        status = continuous(daemon)
        found = [p["pid"] for p in (status or {}).get("programs", []) if p["last_dump_ns"]]
        return status if {p.pid for p in programs} <= set(found) else None

    return service.wait_for("dumps of all programs", all_measured)


def fetch(address, path="/metrics", accept=None, method="GET"):
    """Return the answer's status, type and text."""
    request = urllib.request.Request(urllib.parse.urljoin(address, path), method=method, headers={"Accept": accept} if accept else {})
    try:
        with urllib.request.urlopen(request, timeout=service.PATIENCE) as answer:
            return answer.status, answer.headers["Content-Type"], answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.headers["Content-Type"], error.read().decode()


def scrape(address, accept=None):
    status, kind, text = fetch(address, accept=accept)
    check(status == 200, f"status {status}: {text[:200]}")
    check(kind == (OPEN_METRICS if accept else TEXT), f"type {kind}")
    return Exposition(text, bool(accept)), text


def sums_of(status):
    """Return {metric: {labels: value}} as the status has them, for series that change with dumps only."""
    sums = {}

    def add(name, value, **labels):
        if value is not None:
            series = sums.setdefault(name, {})
            key = frozenset(labels.items())
            series[key] = series.get(key, 0) + value

    for program in status["programs"]:
        of = {"program": program["name"], "service": program["service"]}
        add("heapprofd_processes", 1, **of)
        add("heapprofd_processes_measured", int(program["last_dump_ns"] is not None), **of)
        add("heapprofd_samples_total", program["samples"], **of)
        for heap in program["heaps"]:
            add("heapprofd_live_bytes", heap["live_bytes"], heap=heap["name"], **of)
            add("heapprofd_live_allocations", heap["live_count"], heap=heap["name"], **of)
            add("heapprofd_allocated_bytes_total", heap["allocated_bytes"], heap=heap["name"], **of)
            add("heapprofd_allocations_total", heap["allocated_count"], heap=heap["name"], **of)
    return sums


def differences(status, found):
    """Return the metrics whose series differ from the status."""
    return {name: (series, found(name)) for name, series in sums_of(status).items()
            if found(name).keys() != series.keys()
            or any(not math.isclose(found(name)[key], value, rel_tol=1e-9) for key, value in series.items())}


def check_agrees(daemon, found):
    """The status and the series agree, as soon as both are of the same dumps."""
    seen = {}

    def agrees():
        seen["differences"] = differences(continuous(daemon), found())
        return not seen["differences"]

    if not service.wait_for("agreement of status and metrics", agrees):
        harness.fail(f"they differ: {seen['differences']}")


# --- cases ---


def test_exposition():
    """Both forms are right to the letter, and say what the status says."""
    with scene() as (daemon, directory, name):
        daemon.start()
        programs = [service.Commanded(daemon.environment, name, directory) for _ in range(2)]
        status = measured(daemon, programs)
        address = status["metrics_address"]
        of = {"program": name, "service": 'shop "é\\'}
        for program in programs:
            program.tell("hold 100 1000")

        def most_margin(interval):
            """200 blocks of 1,000 bytes: each is sampled with the probability p, and adds (1 - p) / p to the count's
            variance."""
            missed = math.exp(-1000 / interval) if interval > 1 else 0
            return 20000 + 2 * 1.96 * 1000 * math.sqrt(200 * missed / (1 - missed))

        def holds_all():
            """Return whether the programs hold 200,000 bytes and what is their own, as exactly as the interval lets."""
            found, _ = scrape(address)
            held, margin = (found.value(f"heapprofd_live_{what}", heap="libc.malloc", **of)
                            for what in ("bytes", "margin_bytes"))
            interval = found.value("heapprofd_sampling_interval_bytes", **of)
            if held is None or margin is None or not 180000 - 2 * margin <= held <= 250000 + 2 * margin:
                return False
            return margin < most_margin(interval)

        service.wait_for("a dump with what is held", holds_all)
        check_agrees(daemon, lambda: scrape(address)[0].named)
        check_agrees(daemon, lambda: scrape(address, OPEN_METRICS)[0].named)
        exposition, text = scrape(address)
        check(exposition.value("heapprofd_processes", **of) == 2, f"processes in {text}")
        margin = exposition.value("heapprofd_live_margin_bytes", heap="libc.malloc", **of)
        interval = exposition.value("heapprofd_sampling_interval_bytes", **of)
        check(0 <= margin < most_margin(interval), f"± {margin} of 200,000 bytes at interval {interval}")
        check(exposition.value("heapprofd_losses_total", reason="overrun", **of) == 0, "no loss is 0")
        check(abs(time.time() - exposition.value("heapprofd_last_dump_timestamp_seconds", **of)) < 60, "the dump's time")
        check(exposition.value("heapprofd_memory_bytes") > 1e6, "memory of the profiler")
        check(exposition.value("heapprofd_cpu_seconds_total") is not None, "CPU time of the profiler")
        check(exposition.value("heapprofd_sink_lag_seconds", sink="disk", type="directory") is not None, "the sink")
        check(exposition.value("heapprofd_restart_gap_seconds") is None, "the first start has a gap")
        if shutil.which("promtool"):
            outcome = run(["promtool", "check", "metrics"], stdin=text.encode())
            check(outcome.status == 0, f"promtool: {outcome.stdout.decode()} {outcome.stderr.decode()}")
        # Counters keep a process that has ended, gauges do not.
        before = exposition.value("heapprofd_allocated_bytes_total", heap="libc.malloc", **of)
        programs[0].end()
        service.wait_for("the end of a process", lambda: scrape(address)[0].value("heapprofd_processes", **of) == 1)
        exposition, _ = scrape(address)
        after = exposition.value("heapprofd_allocated_bytes_total", heap="libc.malloc", **of)
        check(after >= before, f"a counter fell from {before} to {after}")
        programs[1].end()


def test_limits_agree():
    """Status, metrics and the period's file have the same figures of one dump: live bytes with their limits, whatever
    was allocated in the period, and the bytes that were allocated, which are counted."""
    with scene(interval=65536) as (daemon, directory, name):
        daemon.start()
        program = service.Commanded(daemon.environment, name, directory)
        address = measured(daemon, [program])["metrics_address"]
        program.tell("hold 2000 3000")
        # The total allocated is exact. What is live has a margin only if some of it was freed: free enough for one.
        program.tell("churn 1000 3000")
        of = {"program": name, "service": 'shop "é\\', "heap": "libc.malloc"}
        seen = {}

        def newest():
            names = sorted(n for n in os.listdir(f"{directory}/profiles") if f".{program.pid}.libc.malloc." in n)
            return json.loads(run([TOOL, "report", "--json", f"{directory}/profiles/{names[-1]}"]).stdout)["heaps"][0]

        def agree():
            heap, found = newest(), scrape(address)[0]
            (status,) = [h for p in continuous(daemon)["programs"] for h in p["heaps"] if h["name"] == "libc.malloc"]
            live = heap["total"]["space"]
            seen["all"] = [
                [live[key] for key in ("estimate", "low95", "high95")],
                [status[key] for key in ("live_bytes", "live_bytes_low95", "live_bytes_high95")],
                [found.value(f"heapprofd_live_{what}bytes", **of) for what in ("", "low_", "high_")]]
            counted = found.value("heapprofd_allocated_bytes_total", **of)
            # The values of a pprof file are whole bytes, and its last period may have had no allocation.
            return live["estimate"] > 3e6 and heap["exact_bytes"] < 1e5 and status["allocated_exact"] and \
                counted == status["allocated_bytes"] >= 6e6 and \
                all(abs(mine - wanted) <= 2 for figures in seen["all"][1:] for mine, wanted in zip(figures, seen["all"][0]))

        if not service.wait_for("agreement", agree):
            harness.fail(f"file, status and metrics differ: {seen['all']}")
        estimate, low, high = seen["all"][0]
        check(low < estimate - 3e5 and estimate + 3e5 < high, f"{low} to {high} of {estimate} bytes, of about 90 samples")
        text = run([TOOL, "status"], env=daemon.environment).stdout.decode()
        check("partial" not in text and " ± 0 B" not in text and "allocated" in text, text)
        program.end()


def test_pages():
    """Only GET of two pages is answered, and refusals say why."""
    with scene() as (daemon, directory, name):
        daemon.start()
        status = service.wait_for("continuous mode", lambda: continuous(daemon))
        address = status["metrics_address"]
        check("/metrics" in fetch(address, "/")[2], "the index names no page")
        check(fetch(address, "/secret")[0] == 404, "an unknown page")
        check(fetch(address, method="POST")[0] == 405, "POST")
        check(fetch(address, method="HEAD")[0] == 200, "HEAD")
        check(b"continuous mode, process" in run([TOOL, "status"], env=daemon.environment).stdout, "status as text")


def test_refused():
    """An address that others reach needs to be allowed; a wrong one is refused with its line."""
    for metrics, reason in (("listen = 0.0.0.0:9464", "allow_remote"), ("listen = localhost", "127.0.0.1:9464"),
                            ("listen = unix:here", "absolute"), ("socket_mode = 0800\nlisten = unix:/tmp/x", "octal"),
                            ("listn = 127.0.0.1:0", "listn")):
        with scene(metrics) as (daemon, directory, name):
            daemon.start()
            service.wait_for(f"refusal of {metrics!r}", lambda: reason in daemon.log())
            check("heapprofd.conf:" in daemon.log(), f"no line: {daemon.log()}")


def test_unix_socket():
    """A unix socket has the permissions of the configuration, and replaces one that nobody serves."""
    with tempfile.TemporaryDirectory(prefix="test-metrics-") as place:
        path = os.path.join(place, "metrics")
        with socket.socket(socket.AF_UNIX) as old:
            old.bind(path)
        with scene(f"listen = unix:{path}\nsocket_mode = 0620") as (daemon, directory, name):
            daemon.start()
            service.wait_for("continuous mode", lambda: continuous(daemon))
            check(os.stat(path).st_mode & 0o777 == 0o620, f"mode {os.stat(path).st_mode:o}")
            with socket.socket(socket.AF_UNIX) as client:
                client.settimeout(service.PATIENCE)
                client.connect(path)
                client.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
                answer = b"".join(iter(lambda: client.recv(65536), b""))
            head, _, text = answer.decode().partition("\r\n\r\n")
            check(" 200 " in head.splitlines()[0], head)
            check(Exposition(text, False).value("heapprofd_build_info", version="0.1.0") == 1, text)
            daemon.end()
            check(not os.path.exists(path), "the socket is left")


def connect(port, *lines):
    client = socket.create_connection(("127.0.0.1", port))
    for line in lines:
        client.sendall(line)
    return client


def test_hostile():
    """Clients that are silent, slow or long neither keep others away for long, nor make the collector grow."""
    with scene() as (daemon, directory, name):
        daemon.start()
        status = service.wait_for("continuous mode", lambda: continuous(daemon))
        port = urllib.parse.urlsplit(status["metrics_address"]).port
        scrape(status["metrics_address"])
        resident = lambda: int(re.search(r"VmRSS:\s+(\d+)", open(f"/proc/{status['pid']}/status").read())[1])
        before = resident()
        # More than are served at once: silent ones, and such that go on with a header line now and then.
        clients = [connect(port) for _ in range(8)]
        slow = [connect(port, b"GET /metrics HTTP/1.1\r\nX: ") for _ in range(16)]
        long = connect(port, b"GET /metrics HTTP/1.1\r\nX: " + b"y" * 100000)
        deadline = time.monotonic() + service.PATIENCE
        done = []
        scraper = threading.Thread(target=lambda: done.append(fetch(status["metrics_address"])))
        scraper.start()
        while scraper.is_alive() and time.monotonic() < deadline:
            for client in slow:
                with contextlib.suppress(OSError):
                    client.sendall(b"z")
            time.sleep(0.3)
        scraper.join(service.PATIENCE)
        check(done and done[0][0] == 200, f"strangers keep the scrape away: {done}")
        check(resident() - before < 4096, f"memory grew from {before} to {resident()} kB")
        with contextlib.suppress(OSError):
            check(b" 200 " not in long.recv(65536), "too long a header was taken")
        # Readers that never read hold no more than the texts that were made.
        for _ in range(60):
            clients.append(connect(port, b"GET /metrics HTTP/1.1\r\n\r\n"))
            clients.pop(0).close()
        check(resident() - before < 4096, f"memory grew from {before} to {resident()} kB")
        for client in clients + slow + [long]:
            client.close()
        service.wait_for("a scrape afterwards", lambda: fetch(status["metrics_address"])[0] == 200)


@contextlib.contextmanager
def prometheus(directory, target):
    """Run Debian's Prometheus, which scrapes the target each second. Yield its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    path = os.path.join(directory, "prometheus.yml")
    with open(path, "w", encoding="utf-8") as file:
        file.write("global: {scrape_interval: 1s, scrape_timeout: 1s}\n"
                   f"scrape_configs:\n- job_name: heapprofd\n  static_configs: [{{targets: ['{target}']}}]\n")
    with open(os.path.join(directory, "prometheus.log"), "wb") as log:
        process = subprocess.Popen(
            ["prometheus", f"--config.file={path}", f"--storage.tsdb.path={directory}/tsdb", f"--web.listen-address=127.0.0.1:{port}"],
            stdout=log, stderr=log)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(service.PATIENCE)


def ask(address, query):
    """Return {labels: value} of an instant query; {} before Prometheus answers."""
    url = f"{address}/api/v1/query?" + urllib.parse.urlencode({"query": query})
    try:
        with urllib.request.urlopen(url, timeout=service.PATIENCE) as answer:
            found = json.load(answer)["data"]["result"]
    except OSError:
        return {}
    skipped = ("__name__", "instance", "job")
    return {frozenset((k, v) for k, v in item["metric"].items() if k not in skipped): float(item["value"][1]) for item in found}


def test_prometheus():
    """Debian's Prometheus scrapes what the status says."""
    need("prometheus")
    with scene() as (daemon, directory, name):
        daemon.start()
        programs = [service.Commanded(daemon.environment, name, directory) for _ in range(2)]
        programs[0].tell("hold 100 1000")
        status = measured(daemon, programs)
        target = urllib.parse.urlsplit(status["metrics_address"]).netloc
        with prometheus(directory, target) as address:
            service.wait_for("a scrape", lambda: ask(address, 'up{job="heapprofd"} == 1'))
            check_agrees(daemon, lambda: lambda metric: ask(address, metric))
            # What it scraped is what we serve: nothing was dropped or refused.
            ours, _ = scrape(status["metrics_address"])
            theirs = ask(address, 'scrape_samples_scraped{job="heapprofd"}')
            check(set(theirs.values()) == {len(ours.samples)}, f"{theirs} samples of {len(ours.samples)}")
            programs[0].tell("hold 60 100000")
            service.wait_for("growth in Prometheus", lambda: any(
                value > 5e6 for value in ask(address, "heapprofd_live_bytes - heapprofd_live_margin_bytes").values()))
        for program in programs:
            program.end()


def test_documented():
    """docs/metrics.md names every series that the source has, and its rules are ones that Prometheus takes."""
    with open(os.path.join(harness.ROOT, "docs", "metrics.md"), encoding="utf-8") as file:
        page = file.read()
    with open(os.path.join(harness.ROOT, "src", "production", "metrics", "render.c"), encoding="utf-8") as file:
        source = re.findall(r'\{\s*"(heapprofd_\w+)",\s*"\w*",\s*(true|false)', file.read())
    check(len(source) > 25, f"the source has {source}")
    named = set(re.findall(r"heapprofd_\w+", page))
    for match in re.finditer(r"`(heapprofd_sink_\w+?_)[a-z]+_total`(?:, `\.\.\._(\w+)`)+", page):
        named |= {match[1] + rest for rest in re.findall(r"`\.\.\._(\w+)`", match[0])}
    for name, is_counter in source:
        full = name + ("_total" if is_counter == "true" else "")
        check(full in named, f"docs/metrics.md does not name {full}")
    known = {name + ("_total" if is_counter == "true" else "") for name, is_counter in source}
    for name in sorted(named):
        check(name in known, f"docs/metrics.md names {name}, which is not served")
    need("promtool")
    rules = re.search(r"```yaml\n(groups:.*?)```", page, re.S)[1]
    with tempfile.NamedTemporaryFile("w", suffix=".yml") as file:
        file.write(rules)
        file.flush()
        outcome = run(["promtool", "check", "rules", file.name])
        check(outcome.status == 0, f"promtool: {outcome.stdout.decode()} {outcome.stderr.decode()}")


if __name__ == "__main__":
    harness.main()
