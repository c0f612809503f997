#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Measure how long the server of `heap_profile view` takes to answer, and its memory: docs/view.md.

    bench/view.py [--callsites N,N,...] [--dumps PxN,PxN,...] [--rounds N]

Each trace is made (tests/e2e/make_trace): two dumps of N callsites, stacks of 16 frames, a fifth of
the callsites with two threads. Traces of P processes with N small dumps of each (make_dumps) are
asked for the overview, and for the range from the first to the last dump. A time is the median of
the rounds, from the request until the last byte of the answer, as a browser on this machine has it;
the first round, which makes what later ones share, is left out. "first graph" is the time from the
start of the command.
"""

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

from common import ROOT

BUILD = os.environ.get("HEAPPROFD_BUILD", os.path.join(ROOT, "build"))
LEAST = "least=0.0002"
QUESTIONS = {
    "overview": ["api/overview"],
    "another view": [f"api/tree?heap=0.0&{LEAST}&view=max", f"api/tree?heap=0.0&{LEAST}&view=space"],
    "another dump": [f"api/tree?heap=0.0&{LEAST}&dump=0", f"api/tree?heap=0.0&{LEAST}&dump=1"],
    "bottom-up": [f"api/tree?heap=0.0&{LEAST}&direction=up"],
    "callers": [f"api/tree?heap=0.0&{LEAST}&direction=callers&function=1"],
    "stack has": [f"api/tree?heap=0.0&{LEAST}&filter=focus:number7", f"api/tree?heap=0.0&{LEAST}&filter=focus:number8"],
    "hide frame": [f"api/tree?heap=0.0&{LEAST}&filter=hide:number7", f"api/tree?heap=0.0&{LEAST}&filter=hide:number8"],
    "difference": [f"api/tree?heap=0.0&{LEAST}&dump=1&base=0"],
    "table": ["api/table?heap=0.0&by=function"],
    "200,000 nodes": ["api/tree?heap=0.0"],
}


class Server:
    def __init__(self, trace):
        begin = time.monotonic()
        self.process = subprocess.Popen([os.path.join(BUILD, "heap_profile"), "view", "--no-browser", trace],
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.address = re.search(r"http://\S+", self.process.stdout.readline()).group(0)
        self.ask("api/overview")
        self.ask(f"api/tree?heap=0.0&{LEAST}")
        self.first_s = time.monotonic() - begin

    def ask(self, page):
        begin = time.monotonic()
        with urllib.request.urlopen(self.address + page) as answer:
            length = len(answer.read())
        return time.monotonic() - begin, length

    def peak_bytes(self):
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as status:
            return 1024 * int(re.search(r"VmHWM:\s+(\d+)", status.read()).group(1))

    def end(self):
        self.process.terminate()
        self.process.wait()


def ask_all(server, questions, rounds):
    for name, pages in questions.items():
        times, length = [], 0
        for turn in range(rounds + 1):
            for page in pages:
                taken, length = server.ask(page)
                if turn > 0:
                    times.append(taken)
        print(f"  {name:14} {1e3 * statistics.median(times):8.1f} ms   {length / 1e3:10,.0f} kB")


def measure_dumps(directory, processes, dumps, rounds):
    trace = os.path.join(directory, "trace")
    subprocess.run([os.path.join(BUILD, "tests", "e2e", "make_dumps"), trace, str(processes), str(dumps)], check=True)
    print(f"\n{processes:,} processes, {dumps:,} dumps of each, {os.path.getsize(trace) / 1e6:.0f} MB")
    server = Server(trace)
    ask_all(server, {"overview": ["api/overview"], "range": [f"api/range?heap=0.0&base=0&dump={dumps - 1}"]}, rounds)
    print(f"  memory {server.peak_bytes() / os.path.getsize(trace):.1f} times the trace")
    server.end()


def measure(directory, callsites, rounds):
    subprocess.run([os.path.join(BUILD, "tests", "e2e", "make_trace"), directory, str(callsites)], check=True,
                   stdout=subprocess.DEVNULL)
    trace = os.path.join(directory, "raw-trace")
    size = os.path.getsize(trace)
    print(f"\n{callsites:,} callsites, {size / 1e6:.0f} MB")
    firsts = []
    for _ in range(rounds):
        server = Server(trace)
        firsts.append(server.first_s)
        peak = server.peak_bytes()
        if len(firsts) < rounds:
            server.end()
    print(f"  {'first graph':14} {1e3 * statistics.median(firsts):8.0f} ms")
    ask_all(server, QUESTIONS, rounds)
    print(f"  memory after the first graph {peak / size:.1f} times the trace, at the end {server.peak_bytes() / size:.1f}")
    server.end()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--callsites", default="100000,250000,1000000")
    parser.add_argument("--dumps", default="500x100,1x10000", help="processes x dumps of each")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    for callsites in options.callsites.split(","):
        with tempfile.TemporaryDirectory() as directory:
            measure(directory, int(callsites), options.rounds)
    for size in options.dumps.split(","):
        with tempfile.TemporaryDirectory() as directory:
            measure_dumps(directory, *map(int, size.split("x")), options.rounds)


if __name__ == "__main__":
    sys.exit(main())
