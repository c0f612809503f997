#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The fleet's store: what the sink sends to a real ClickHouse is what heap_profile fleet answers.

    fleet.py CASE
"""

import gzip
import json
import os
import re
import socket
import subprocess
import threading
import time

import clickhouse_server
from clickhouse_server import ClickHouse, cluster, free_ports
from harness import BUILD, SLOWNESS, TOOL, check, host_command, main, make_work_directory, program, run, skip

FILL = os.path.join(BUILD, "tests", "e2e", "fill_fleet")
PATIENCE_S = 30 * SLOWNESS
LINES_OF_COLLECTION = 12  # few, but quicker than one
DAY_S, HOUR_S = 86400, 3600
# Environment of the sinks: a proxy of this machine would see our requests.
CLEAN = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}

directory = make_work_directory("fleet-")
TRACE = os.path.join(directory, "recorded", "raw-trace")


def need_server():
    if not clickhouse_server.is_installed():
        skip("clickhouse-server is not installed")


def record():
    """Record a trace of a real program that holds memory in several stacks."""
    script = "import json; kept = [json.loads('[' + '\"x\",' * 200 + '1]') for _ in range(400)]"
    outcome = run(host_command(["/usr/bin/python3", "-c", script], os.path.dirname(TRACE), 16384))
    check(outcome.status == 0 and os.path.exists(TRACE), f"no trace: {outcome.stderr}")


def fleet(server, *arguments, status=0):
    """Run a verb of fleet and return what it prints."""
    outcome = run([TOOL, "fleet", arguments[0], "--url", server.url, *arguments[1:]], env=CLEAN)
    check(outcome.status == status, f"fleet {arguments}: {outcome.status}: {outcome.stderr}")
    return outcome.stdout.decode() if status == 0 else outcome.stderr.decode()


def start_fill(url, lines, name="spool"):
    """Start to give lines to the sink; end_fill() waits until all are sent."""
    configuration = os.path.join(directory, name + ".conf")
    spool = os.path.join(directory, name)
    os.makedirs(spool, mode=0o700, exist_ok=True)
    with open(configuration, "w") as file:
        file.write(f"[sink store]\ntype = clickhouse\nurl = {url}\nretry_first = 50ms\nretry_max = 300ms\n")
    process = subprocess.Popen(
        [FILL, configuration, spool, TRACE, str(PATIENCE_S)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, env=CLEAN)
    process.lines = "".join(
        " ".join(str(word) for word in line) + ("\n\n" if number % LINES_OF_COLLECTION == 0 else "\n")
        for number, line in enumerate(lines, 1))
    return process


def end_fill(process):
    output, errors = process.communicate(process.lines, timeout=PATIENCE_S * 2)
    check(process.returncode == 0, f"fill_fleet: {process.returncode}: {output} {errors}")
    figures = json.loads(output)
    check(figures["waiting"] == 0 and figures["dropped"] == 0, f"not all was sent: {figures}")
    return figures


def live_of_trace():
    """Return the live bytes of each heap of the trace."""
    report = json.loads(run([TOOL, "report", "--json", TRACE]).stdout)
    return {each["heap"]: live_of(each) for each in report["heaps"]}


def live_of(heap):
    return heap["total"]["space"]["estimate"]


def sums(server, level, what="live_byte_seconds"):
    rows = server.ask(f"SELECT sum({what}), sum(alloc_bytes), sum(live_byte_variance) FROM figures "
                      f"WHERE level = '{level}'")
    return [float(value) for value in rows[0]]


def near(value, wanted, error=1e-4):
    return abs(value - wanted) <= error * abs(wanted)


def past_days(days):
    """Return the beginning of the day that is so many days ago (UTC)."""
    return int(time.time()) // DAY_S * DAY_S - days * DAY_S


def test_questions():
    """top, diff, growth, hosts and exports give what was sent, from every level of figures."""
    need_server()
    record()
    server = ClickHouse(os.path.join(directory, "server"))
    first = fleet(server, "setup")
    again = fleet(server, "setup")
    check("Created" in first and "already" in again, f"setup: {first}{again}")
    start, days, step = past_days(9), 9, 6 * HOUR_S
    lines = []
    for moment in range(start, start + days * DAY_S, step):
        day = (moment - start) // DAY_S
        for host in range(4):
            version, scale = ("1.4", 1.0) if day < 5 else ("1.5", 1.0)
            # One host leaks; the other hosts' levels change without a trend.
            scale *= 1 + 0.2 * day if host == 3 else 1 + 0.01 * ((day * 7 + host * 3) % 5)
            lines.append(("shop", f"web-{host}", version, moment, step, scale))
    lines += [("batch", "web-0", "9", start + 3 * DAY_S, 600, 0.5)]
    end_fill(start_fill(server.url, lines))

    # Every level has the same sums, whatever the server's time zone.
    for level in ("hour", "day"):
        for mine, wanted in zip(sums(server, level), sums(server, "period")):
            check(near(mine, wanted), f"{level}: {mine}, period: {wanted}")
    rows = server.ask("SELECT count() FROM figures WHERE level = 'day_total' AND time % 86400 != 0")
    check(rows == [["0"]] or rows[0][0] == "0", f"days that do not begin at midnight UTC: {rows}")

    held = live_of_trace()
    scales = [line[5] for line in lines if line[0] == "shop"]
    wanted = {heap: live * sum(scales) / (days * DAY_S / step) for heap, live in held.items()}
    span = ("--since", time.strftime("%Y-%m-%d", time.gmtime(start)),
            "--until", time.strftime("%Y-%m-%d", time.gmtime(start + days * DAY_S)))
    report = json.loads(fleet(server, "top", "--service", "shop", "--json", *span))
    for each in report["heaps"]:
        check(near(live_of(each), wanted[each["heap"]]),
              f"{each['heap']}: {live_of(each)} live, {wanted[each['heap']]} sent")
    check(len(report["heaps"]) == len(held), "not all heaps are there")
    text = fleet(server, "top", "--service", "shop", *span)
    check("4 hosts, 4 processes on average" in text and "±" in text, f"top: {text[:600]}")

    check_diff(server, lines, span, held)
    check_growth(server, span)
    check_exports(server, span, wanted)
    hosts = json.loads(fleet(server, "hosts", "--json", *span))
    mine = {(row["host"], row["service"], row["heap"]): row for row in hosts}
    scales = [line[5] for line in lines if line[1] == "web-3"]
    for heap, live in held.items():
        row = mine.get(("web-3", "shop", heap), {"live_bytes": 0, "processes": 0})
        check(near(row["live_bytes"], live * sum(scales) / len(scales)) and near(row["processes"], 1), f"hosts: {row}")
        # At 16,384 bytes three intervals may go unseen, beside what is live or not.
        check(row["low"] <= row["live_bytes"] and row["live_bytes"] + 3 * 16384 * 0.99 <= row["high"], f"hosts: {row}")
    check(len(mine) == 5 * len(held), f"hosts: {hosts}")
    answer = fleet(server, "query", "SELECT uniqExact(series) AS n FROM figures WHERE level = 'day_total'")
    check(answer.split() == ["n", str(len(held) * 9)], f"query: {answer}")
    check_errors(server, span)
    check_expire(server)


def check_diff(server, lines, span, held):
    """Figures of both sides are those of a mean process."""
    answer = json.loads(fleet(server, "diff", "--service", "shop", "--json", *span, "rest", "host=web-3"))
    scales = {side: [line[5] for line in lines if line[0] == "shop" and (line[1] == "web-3") == side]
              for side in (False, True)}
    check(len(answer["heaps"]) == len(held), f"diff: {answer['heaps']}"[:500])
    for pair in answer["heaps"]:
        heap = pair["before"][0]["heap"]
        for side, name in ((False, "before"), (True, "after")):
            mine = pair["total"]["space"][name]
            wanted = held[heap] * sum(scales[side]) / len(scales[side])
            check(near(mine, wanted), f"diff, {heap}, {name}: {mine}, not {wanted}")
    text = fleet(server, "diff", "--service", "shop", *span, "version=1.4", "version=1.5")
    check("version=1.4" in text and "What grew" in text, f"diff: {text[:500]}")
    check("is no condition" in fleet(server, "diff", "1.4", "1.5", status=2), "a diff without a label")


def check_growth(server, span):
    """The host that leaks is found, and no other."""
    answer = json.loads(fleet(server, "growth", "--json", *span))
    rows = [row for row in answer["rows"] if row["p"] <= 0.05]
    check(answer["moments"] == 9 and len(rows) > 0, f"no growth: {answer}")
    for row in rows:
        check(row["worst_host"] == "web-3" and row["service"] == "shop", f"growth: {row}")
        check(row["frames"], f"a row without frames: {row}")
    text = fleet(server, "growth", *span)
    check("web-3" in text, f"growth: {text}")
    check("a trend needs" in fleet(server, "growth", "--since", "2h", status=1), "growth of two hours")


def check_exports(server, span, wanted):
    """Exports open in the tools for one machine, with the same figures."""
    heap = "libc.malloc"
    for name in ("export.pb.gz", "export.trace"):
        path = os.path.join(directory, name)
        fleet(server, "top", "--service", "shop", "--label", f"heap={heap}", "--export", path, *span)
        report = json.loads(run([TOOL, "report", "--json", path]).stdout)
        live = live_of(report["heaps"][0])
        check(near(live, wanted[heap], 1e-3), f"{name}: {live} live, not {wanted[heap]}")
    page = fleet(server, "flamegraph", *span, "--service", "shop")
    check("<html" in page and "Py" in page, "no flame graph")


def check_errors(server, span):
    check("nothing of this time" in fleet(server, "top", "--service", "absent", *span, status=1), "no service")
    broken = fleet(server, "query", "SELECT nonsense", status=1)
    check(re.search(r"query heapprofd-[0-9a-f]{16}: HTTP \d+: .*nonsense", broken), f"query: {broken}")
    secret = os.path.join(directory, "password")
    with open(secret, "w") as file:
        file.write("hidden-word\n")
    os.chmod(secret, 0o644)
    refused = fleet(server, "hosts", "--password-file", secret, status=1)
    check("others may read" in refused and "hidden-word" not in refused, f"password: {refused}")
    os.chmod(secret, 0o600)
    refused = fleet(server, "hosts", "--password-file", secret, status=1)
    check("hidden-word" not in refused and "heapprofd-" in refused, f"password: {refused}")


def check_expire(server):
    """Old rows go, level by level; the others stay."""
    before = sums(server, "day")
    fleet(server, "expire", "--periods", "2", "--hours", "4")
    end = time.monotonic() + PATIENCE_S
    query = ("SELECT countIf(level = 'period' AND time < now() - 3 * 86400), "
             "countIf(level = 'hour' AND time < now() - 5 * 86400) FROM figures")
    while server.ask(query) != [["0", "0"]] and time.monotonic() < end:
        time.sleep(0.1)
    check(server.ask(query) == [["0", "0"]], f"not expired: {server.ask(query)}")
    check(near(sums(server, "day")[0], before[0]), "expire removed sums by day")
    check(sums(server, "period")[0] > 0, "expire removed recent figures")
    fleet(server, "expire", "--periods", "2", "--hours", "4", "--days", "7")
    rows = server.ask("SELECT count() FROM figures WHERE level = 'day' AND time < now() - 9 * 86400")
    check(rows == [["0"]], f"days are left: {rows}")


class Proxy(threading.Thread):
    """Passes requests on to a server, and closes the connection instead of some answers."""

    def __init__(self, port, drops):
        super().__init__(daemon=True)
        self.port, self.drops, self.dropped = port, drops, 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        self.count = 0
        self.start()

    def run(self):
        while True:
            client = self.listener.accept()[0]
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client):
        server = socket.create_connection(("127.0.0.1", self.port))
        pump = threading.Thread(target=self.answer, args=(server, client), daemon=True)
        pump.start()
        try:
            while data := client.recv(65536):
                server.sendall(data)
            server.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def answer(self, server, client):
        try:
            while data := server.recv(65536):
                if data.startswith(b"HTTP/1.1 200"):
                    self.count += 1
                    if self.drops(self.count):
                        self.dropped += 1
                        break
                client.sendall(data)
        except OSError:
            pass
        for each in (client, server):
            try:
                each.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            each.close()


def test_retries():
    """A batch whose answer is lost is sent again, and counts once."""
    need_server()
    record()
    server = ClickHouse(os.path.join(directory, "server"))
    fleet(server, "setup")
    proxy = Proxy(server.http_port, lambda count: count <= 12 or count % 3 == 0)
    start = past_days(1)
    lines = [("shop", f"web-{host}", "1", start + hour * HOUR_S, HOUR_S, 1.0)
             for hour in range(6) for host in range(2)]
    # Over midnight: a batch has one day.
    lines += [("shop", "web-0", "1", start - 600, 1200, 1.0)]
    figures = end_fill(start_fill(proxy.url, lines))
    check(proxy.dropped >= 5 and figures["failures"] >= 1, f"{proxy.dropped} answers lost, {figures}")
    held = sum(live_of_trace().values())
    wanted = held * (12 * HOUR_S + 1200)
    for level in ("period", "hour", "day", "period_total", "hour_total", "day_total"):
        check(near(sums(server, level)[0], wanted), f"{level}: {sums(server, level)[0]}, not {wanted}")
    rows = server.ask("SELECT sum(periods), sum(seconds) FROM figures WHERE level = 'period_total'")
    heaps = len(live_of_trace())
    check([float(value) for value in rows[0]] == [13 * heaps, (12 * HOUR_S + 1200) * heaps], f"periods: {rows}")


def test_shards():
    """Two shards answer as one server does. Both are killed meanwhile and come back, and nothing is lost."""
    need_server()
    record()
    ports = free_ports(6)
    clusters = cluster("pair", (ports[3], ports[5]))
    single = ClickHouse(os.path.join(directory, "single"), ports[0:2])
    pair = [ClickHouse(os.path.join(directory, f"shard{i}"), ports[2 + 2 * i:4 + 2 * i], clusters) for i in (0, 1)]
    fleet(single, "setup")
    for server in pair:
        fleet(server, "setup", "--cluster", "pair")
    start = past_days(6)
    lines = [("shop", f"web-{host}", "1", start + step * 6 * HOUR_S, 6 * HOUR_S, 1 + 0.05 * step * (host == 1))
             for step in range(20) for host in range(3)]
    end_fill(start_fill(single.url, lines, "spool-single"))
    process = start_fill(pair[0].url, lines, "spool-pair")
    words = process.lines.splitlines(keepends=True)  # with the empty ones
    process.stdin.write("".join(words[:26]))
    process.stdin.flush()
    end = time.monotonic() + PATIENCE_S
    while pair[1].ask("SELECT count() FROM figures_local") == [["0"]] and time.monotonic() < end:
        time.sleep(0.05)
    pair[1].kill()  # the sink keeps its rows
    process.stdin.write("".join(words[26:39]))
    process.stdin.flush()
    time.sleep(0.5)
    pair[0].kill()  # the sink keeps all
    process.stdin.write("".join(words[39:52]))
    process.stdin.flush()
    time.sleep(0.5)
    for server in pair:
        server.start()
    process.lines = "".join(words[52:])
    figures = end_fill(process)
    check(figures["failures"] > 0, f"no attempt met the killed server: {figures}")
    rows = [server.ask("SELECT count() FROM figures_local WHERE level = 'day'")[0][0] for server in pair]
    check(all(int(count) > 0 for count in rows), f"not distributed: {rows}")
    for level in ("period", "hour", "day"):
        for mine, wanted in zip(sums(pair[0], level), sums(single, level)):
            check(near(mine, wanted), f"{level}: {mine} on two shards, {wanted} on one server")
    span = ("--since", time.strftime("%Y-%m-%d", time.gmtime(start)))
    for verb in (("top", "--json"), ("growth", "--json"), ("hosts", "--json"), ("diff", "--json", "rest", "host=web-1")):
        answers = [fleet(server, verb[0], *span, *verb[1:]) for server in (single, *pair)]
        parsed = [rounded(json.loads(answer)) for answer in answers]
        check(parsed[0] == parsed[1] == parsed[2], f"{verb}: {parsed[0]} differs from {parsed[1]}"[:3000])


def test_symbolize():
    """Addresses get files, lines and inlined functions, once."""
    need_server()
    outcome = run(host_command([program("deep_stack")], os.path.dirname(TRACE), 64))
    check(outcome.status == 0, f"no trace: {outcome.stderr}")
    server = ClickHouse(os.path.join(directory, "server"))
    fleet(server, "setup")
    end_fill(start_fill(server.url, [("deep", "web-0", "1", past_days(1), 600, 1.0)]))
    names = server.ask("SELECT count() FROM symbols WHERE quality < 3 AND has(functions, 'main')")
    check(int(names[0][0]) > 0, f"the sink's own names: {names}")
    fleet(server, "symbolize", "--offline", "--symbol-paths", os.path.dirname(program("deep_stack")))
    lines = server.ask("SELECT count() FROM symbols WHERE quality = 3 AND has(functions, 'main') AND lines[1] > 0")
    check(lines == names, f"lines of main: {lines}")
    text = fleet(server, "top", "--service", "deep", "--since", "3d", "--stacks")
    check("deep_stack.c:" in text, f"no line: {text[-600:]}")
    outcome = fleet(server, "symbolize", "--offline", "--symbol-paths", os.path.dirname(program("deep_stack")))
    check("names of 0 addresses" in outcome, f"a second time: {outcome}")


def test_collector():
    """What the daemon's collector sees of a program is what the store answers."""
    need_server()
    from continuous import COLLECTOR, EXACT, configure
    from daemon import Commanded, own_name, scene, wait_for
    server = ClickHouse(os.path.join(directory, "server"))
    fleet(server, "setup")
    with scene() as (daemon, place):
        name = own_name("stored")
        process = Commanded(daemon.environment, name, place, True)
        path = configure(place, f"{EXACT}\n[program stored]\nname = {name}\n[labels]\nteam = core\n"
                                f"[sink store]\ntype = clickhouse\nurl = {server.url}\n")
        collector = subprocess.Popen([COLLECTOR, "--config", path], env=daemon.environment)

        def is_in():
            process.wake()
            return process.pid in daemon.profiled_pids()

        wait_for("the program", is_in)
        for blocks in (10, 20, 30):
            process.tell(f"hold {blocks} 1000")
        process.tell("hold 1 5000")
        check(process.end() == 0, "the program failed")

        def answer():
            outcome = run([TOOL, "fleet", "top", "--url", server.url, "--service", name, "--label", "team=core",
                           "--view", "alloc_space"], env=CLEAN)
            return outcome.stdout.decode() if b"65.0 kB" in outcome.stdout else ""

        text = wait_for("the program's figures in the store", answer)
        check("hold_block" in text, f"top: {text}")
        # Several periods: none lost anything, and all calls were counted.
        check("partial" not in text and "lost" not in text, f"a loss that did not happen: {text}")
        check(re.search(r"processes +\d\.\d on average", text) and "process  " not in text, f"a sum is no process: {text}")
        check(re.search(r"allocated .* calls, exact", text), f"top: {text}")
        # Nor has it a pid anywhere else.
        select = ["--url", server.url, "--service", name, "--label", "team=core"]
        report = json.loads(run([TOOL, "fleet", "top", "--json", *select], env=CLEAN).stdout)
        check([heap["pid"] for heap in report["heaps"]] == [None], f"pids of a sum: {report['heaps'][0]['pid']}")
        exported = os.path.join(directory, "sum.pb.gz")
        run([TOOL, "fleet", "top", "--export", exported, *select], env=CLEAN)
        with gzip.open(exported) as file:
            comments = file.read()
        check(b"sum over 1.00 processes on average, heap libc.malloc" in comments and b"process 1" not in comments,
              f"comments: {comments!r}")
        again = run([TOOL, "report", exported]).stdout.decode()
        check(re.search(r"processes +\d\.\d on average", again), f"read again: {again}")
        collector.terminate()
        collector.wait()


def rounded(value):
    """Return JSON whose numbers have 3 digits, and whose lists are sorted: sums of Float32, and so ranks of
    equal rows, depend on their order."""
    if isinstance(value, dict):
        return {key: rounded(each) for key, each in value.items()}
    if isinstance(value, list):
        return sorted((rounded(each) for each in value), key=json.dumps)
    return float(f"{value:.3g}") if isinstance(value, float) else value


if __name__ == "__main__":
    main()
