#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measure the fleet's store: a day of simulated hosts in Debian's ClickHouse on this machine.

    fleet.py [--hosts 1000] [--programs 20] [--stacks 35] [--periods 144] [--encoded 40] [--keep DIR]

A period is 10 minutes, and every period has every stack of every program: 1,000 x 20 x 35 x 144 are 100.8 million
rows. Two ways in:

 - a part of them by the sink itself: fill_fleet gives profiles of a real program to the encoder, the spool and the
   sender, one collection for each host (--encoded). This is the rate of one connection.
 - the bulk by ClickHouse's own numbers(), inserted into `inbox`, so that the roll-ups and the search for batches that
   have arrived before are the same. An insert has the rows of one period (at most a million).

Then times of `heap_profile fleet`, the best of three, and of a plain scan of the same columns.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tests", "e2e"))
from clickhouse_server import ClickHouse, is_installed  # noqa: E402

BUILD = os.environ.get("HEAPPROFD_BUILD", os.path.join(ROOT, "build"))
TOOL = os.path.join(BUILD, "heap_profile")
PERIOD_S, DAY_S = 600, 86400
BLOCK_ROWS = 1_000_000  # of an insert: ClickHouse's block has 1,048,576
SUMS = ("live_byte_seconds", "live_byte_variance", "live_count_seconds", "live_count_variance", "alloc_bytes",
        "alloc_byte_variance", "alloc_count", "alloc_count_variance", "samples")
TOTALS = ("seconds", "interval_seconds", "periods", "partial_periods")


def run(*command, text=None):
    began = time.monotonic()
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: {done.stderr}")
    return time.monotonic() - began, done.stdout


def best(function, times=3):
    return min(function() for _ in range(times))


def plain(number):
    return f"{number:,.0f}"


class Bench:
    def __init__(self, options, directory):
        self.options, self.directory = options, directory
        self.server = ClickHouse(os.path.join(directory, "server"), memory_bytes=12 << 30)
        self.start = int(time.time()) // DAY_S * DAY_S - DAY_S
        self.rows = 0
        run(TOOL, "fleet", "setup", "--url", self.server.url)

    def ask(self, query):
        return self.server.ask(query)

    def fill_encoded(self):
        """Send the periods of some hosts through the sink."""
        trace = os.path.join(self.directory, "recorded")
        script = "import json; kept = [json.loads('[' + '\"x\",' * 200 + '1]') for _ in range(400)]"
        run(TOOL, "host", "-i", "4096", "-o", trace, "--", "/usr/bin/python3", "-c", script)
        configuration, spool = os.path.join(self.directory, "conf"), os.path.join(self.directory, "spool")
        os.makedirs(spool, mode=0o700)
        with open(configuration, "w") as file:
            file.write(f"[sink store]\ntype = clickhouse\nurl = {self.server.url}\n")
        lines = "".join(
            "".join(f"encoded host-{host} 1 {self.start + PERIOD_S * number} {PERIOD_S} 1\n" for number in range(20)) + "\n"
            for host in range(self.options.encoded))
        took, output = run(os.path.join(BUILD, "tests", "e2e", "fill_fleet"), configuration, spool,
                           os.path.join(trace, "raw-trace"), "600", text=lines)
        rows = int(self.ask("SELECT toUInt64(sum(batch_rows)) FROM figures WHERE level = 'batch'")[0][0])
        sent = json.loads(output)["bytes"]
        print(f"sink           {plain(rows)} rows in {took:.1f} s, {plain(rows / took)} a second; "
              f"{sent / rows:.1f} bytes a row on the wire, with stacks and symbols")

    def fill_names(self):
        programs, stacks, hosts = self.options.programs, self.options.stacks, self.options.hosts
        pairs = (f"(SELECT intDiv(number, {stacks + 1}) AS p, number % {stacks + 1} AS s "
                 f"FROM numbers({programs * (stacks + 1)}))")
        none, texts = "emptyArrayString()", "['', '', '']"
        self.ask("INSERT INTO stacks SELECT cityHash64(p, s), concat('program-', toString(p)), 'libc.malloc', 1, "
                 f"{none}, {none}, emptyArrayUInt64(), emptyArrayUInt64(), {none}, {none}, emptyArrayUInt32(), today() "
                 f"FROM {pairs} WHERE s = 0")
        self.ask("INSERT INTO stacks SELECT cityHash64(p, s), concat('program-', toString(p)), 'libc.malloc', 0, "
                 f"{texts}, {texts}, [0, 0, 0], [0, 0, 0], ['malloc', concat('function_', toString(s)), 'main'], {texts}, "
                 f"[0, 0, 0], today() FROM {pairs} WHERE s > 0")
        self.ask(
            "INSERT INTO series SELECT cityHash64(h, p, 'series'), concat('program-', toString(p)), 'libc.malloc', "
            "concat('host-', toString(h)), if(h % 2 = 0, '1.4', '1.5'), [], [], today() FROM "
            f"(SELECT intDiv(number, {programs}) AS h, number % {programs} AS p FROM numbers({hosts * programs}))")

    def fill_bulk(self):
        """Insert the periods of all hosts. A level changes in one of four periods; stack 1 of program 0 leaks on host 7."""
        hosts, programs, stacks = self.options.hosts, self.options.programs, self.options.stacks
        each = stacks + 1  # stack 0 is the heap's total
        rows = hosts * programs * each
        figures = ("level * 600, level * 600 * 500000, level / 100 * 600, level / 100 * 6, "
                   "level / 2, level / 2 * 500000, level / 200, level / 200, toFloat32(3)")
        totals = f"if(s = 0, {PERIOD_S}, 0), if(s = 0, {PERIOD_S} * 524288, 0), toFloat32(s = 0), toFloat32(0)"
        began = time.monotonic()
        for number in range(self.options.periods):
            for first in range(0, rows, BLOCK_ROWS):
                count = min(BLOCK_ROWS, rows - first)
                level = (f"toFloat32(1000 * (1 + cityHash64(p, s) % 4000) * (1 + (cityHash64(h, s, "
                         f"intDiv({number} + cityHash64(h, s) % 4, 4)) % 100) / 500) * "
                         f"if(s = 1 AND p = 0 AND h = 7, 1 + {number} / 10, 1))")
                self.ask(
                    f"INSERT INTO inbox ({', '.join(SUMS + TOTALS)}, batch, is_total, service, stack, series, time) "
                    f"SELECT {figures}, {totals}, toUInt64({number * 1000 + first // BLOCK_ROWS + 1}), toUInt8(s = 0), "
                    "concat('program-', toString(p)), cityHash64(p, s), cityHash64(h, p, 'series'), "
                    f"toDateTime({self.start + number * PERIOD_S} + h % {PERIOD_S}) FROM "
                    f"(SELECT h, p, s, {level} AS level FROM (SELECT intDiv(number, {programs * each}) AS h, "
                    f"intDiv(number, {each}) % {programs} AS p, number % {each} AS s FROM "
                    f"(SELECT number + {first} AS number FROM numbers({count}))))")
            self.rows += rows
            if number % 12 == 11:
                print(f"               {plain(self.rows)} rows after {time.monotonic() - began:.0f} s", flush=True)
            if time.monotonic() - began > self.options.seconds:
                break
        took = time.monotonic() - began
        print(f"bulk           {plain(self.rows)} rows in {took:.0f} s, {plain(self.rows / took)} a second, each on three levels")

    def settle(self):
        """Wait until no merge runs."""
        end = time.monotonic() + self.options.settle
        while self.ask("SELECT count() FROM system.merges") != [["0"]] and time.monotonic() < end:
            time.sleep(1)
        parts = self.ask("SELECT count(), sum(rows), sum(bytes_on_disk) FROM system.parts WHERE active AND table = 'figures'")[0]
        count, rows, size = (int(value) for value in parts)
        print(f"on disk        {size / self.rows:.1f} bytes for each inserted row, in all levels; {plain(rows)} rows, "
              f"{size / 1e9:.2f} GB, {count} parts")

    def measure(self):
        since = time.strftime("%Y-%m-%d", time.gmtime(self.start))
        span = ("--since", since, "--until", time.strftime("%Y-%m-%d", time.gmtime(self.start + DAY_S)))
        questions = {
            "top": ("top",),
            "top of one service": ("top", "--service", "program-3"),
            "top of one host": ("top", "--label", "host=host-5"),
            "diff of versions": ("diff", "version=1.4", "version=1.5"),
            "diff of a canary": ("diff", "rest", "host=host-5"),
            "growth by hour": ("growth",),
            "growth, one service": ("growth", "--service", "program-0"),
            "hosts": ("hosts",),
        }
        for name, (verb, *words) in questions.items():
            took = best(lambda: run(TOOL, "fleet", verb, "--url", self.server.url, *span, *words)[0])
            print(f"{name:<20} {took:7.2f} s", flush=True)
        scans = {
            "scan, one column": "SELECT sum(live_byte_seconds) FROM figures WHERE level = 'period'",
            "scan, 9 sums": f"SELECT {', '.join(f'sum({each})' for each in SUMS)} FROM figures WHERE level = 'period'",
            "scan, 9 by stack": f"SELECT stack, {', '.join(f'sum({each})' for each in SUMS)} FROM figures "
                                "WHERE level = 'period' GROUP BY stack FORMAT Null",
        }
        for name, query in scans.items():
            def ask(query=query):
                began = time.monotonic()
                self.ask(query)
                return time.monotonic() - began
            print(f"{name:<20} {best(ask):7.2f} s   of all {plain(self.rows)} rows")
        levels = {level: self.ask(f"SELECT sum(live_byte_seconds), count() FROM figures WHERE level = '{level}'")[0]
                  for level in ("period", "hour", "day")}
        print("levels         " + ", ".join(f"{level}: {plain(int(count))} rows, sum {float(total):.6g}"
                                            for level, (total, count) in levels.items()))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--hosts", type=int, default=1000)
    parser.add_argument("--programs", type=int, default=20)
    parser.add_argument("--stacks", type=int, default=35)
    parser.add_argument("--periods", type=int, default=144)
    parser.add_argument("--encoded", type=int, default=40, help="hosts whose periods go through the sink")
    parser.add_argument("--seconds", type=float, default=3600, help="end the bulk after this time")
    parser.add_argument("--settle", type=float, default=300, help="wait at most so long for merges")
    parser.add_argument("--keep", help="directory of the server; kept")
    options = parser.parse_args()
    if not is_installed():
        sys.exit("clickhouse-server is not installed")
    directory = options.keep or tempfile.mkdtemp(prefix="bench-fleet-")
    try:
        bench = Bench(options, directory)
        print(f"hosts {options.hosts}, programs {options.programs}, stacks {options.stacks}, periods {options.periods}; "
              f"{os.cpu_count()} processors")
        bench.fill_encoded()
        bench.fill_names()
        bench.fill_bulk()
        bench.settle()
        bench.measure()
        bench.server.kill()
    finally:
        if not options.keep:
            shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main()
