#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Measure how fast `heap_profile view` is, and its memory: docs/view.md.

    bench/view.py [--traces NAME,NAME,...] [--rounds N] [server] [page] [saved] [frames] [others]

The traces are made. TRACES below (tests/e2e/make_trace): stacks of 16 frames or 300, a fifth of the
callsites with two threads. PROCESSES (make_dumps): many small dumps, whose overview and range from
the first to the last dump `server` asks for.

    server   answers, from the request until the last byte, after a first round that makes what later
             ones share; "first graph" counts from the start of the command
    page     what a user sees, in Chromium of 1920 x 1080 without a GPU: from the command to the first
             painted graph, and from a click or key to the painted answer
    saved    the same of a page that is a file, from its opening on
    frames   panning and zooming a graph whose boxes are all a pixel wide
    others   the first graph and another view of Speedscope and of `go tool pprof -http` beside the
             page, on files that the page exports

A time is the median of the rounds. The last four need Chromium, node and the libraries of the
page's tests in the build directory (-Dtests=enabled); `others` also needs go, and Speedscope's directory
dist/release (npm package speedscope) in SPEEDSCOPE.
"""

import argparse
import json
import os
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

from common import BUILD, ROOT, TOOL

TRACES = {  # callsites, dumps, frames
    "100k": (100_000, 2, 16),
    "250k": (250_000, 2, 16),
    "1M": (1_000_000, 2, 16),
    "dumps": (10_000, 50, 16),
    "deep": (100_000, 2, 300),
}
PROCESSES = {"500 processes": (500, 100), "10,000 dumps": (1, 10_000)}  # processes, dumps of each
CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")
MODULES = os.path.join(BUILD, "tests", "view", "libraries", "libraries.stamp.p", "node_modules")
BOUNDS = "least=0.00005&enough=30000"  # as the page asks
TREE = f"api/tree?heap=0.0&{BOUNDS}"
QUESTIONS = {
    "overview": ["api/overview"],
    "another view": [f"{TREE}&view=max", f"{TREE}&view=space"],
    "another dump": [f"{TREE}&dump=0", f"{TREE}&dump=1"],
    "bottom-up": [f"{TREE}&direction=up"],
    "callers": [f"{TREE}&direction=callers&function=1"],
    "stack has": [f"{TREE}&filter=focus:number7", f"{TREE}&filter=focus:number8"],
    "hide frame": [f"{TREE}&filter=hide:number7", f"{TREE}&filter=hide:number8"],
    "difference": [f"{TREE}&dump=1&base=0"],
    "table": ["api/table?heap=0.0&by=function"],
    "200,000 nodes": ["api/tree?heap=0.0"],
}
HEIGHTS = (1080, 1600)  # of the window for `frames`: a common one, and one that has room for 100,000 boxes


class Server:
    def __init__(self, trace):
        begin = time.monotonic()
        self.process = subprocess.Popen([TOOL, "view", "--no-browser", trace], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.address = re.search(r"http://\S+", self.process.stdout.readline()).group(0)
        self.ask("api/overview")
        self.ask(TREE)
        self.first_s = time.monotonic() - begin

    def ask(self, page):
        """Return the seconds that the answer takes, and the answer."""
        begin = time.monotonic()
        with urllib.request.urlopen(self.address + page) as answer:
            content = answer.read()
        return time.monotonic() - begin, content

    def memory(self):
        """Return the memory in use and its peak, in bytes."""
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as status:
            text = status.read()
        return [1024 * int(re.search(rf"{name}:\s+(\d+)", text).group(1)) for name in ("VmRSS", "VmHWM")]

    def end(self):
        self.process.terminate()
        self.process.wait()


def missing(what):
    """Return what a part of this needs and does not find."""
    needs = {"Chromium (CHROMIUM)": os.path.exists(CHROMIUM), "node": shutil.which("node"),
             f"playwright-core ({MODULES})": os.path.isdir(os.path.join(MODULES, "playwright-core"))} if what != "server" else {}
    if what == "others":
        needs["go"] = shutil.which("go")
        needs["Speedscope's dist/release (SPEEDSCOPE)"] = os.path.isfile(os.path.join(os.environ.get("SPEEDSCOPE", ""), "index.html"))
    return [name for name, found in needs.items() if not found]


def make(directory, name):
    callsites, dumps, frames = TRACES[name]
    command = [os.path.join(BUILD, "tests", "e2e", "make_trace"), directory, str(callsites), str(dumps), str(frames)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    trace = os.path.join(directory, "raw-trace")
    print(f"\n{name}: {callsites:,} callsites, {dumps} dumps, {frames} frames, {os.path.getsize(trace) / 1e6:.0f} MB", flush=True)
    return trace


def ask_all(server, questions, rounds):
    for name, pages in questions.items():
        times, length = [], 0
        for turn in range(rounds + 1):
            for page in pages:
                taken, content = server.ask(page)
                length = len(content)
                if turn > 0:
                    times.append(taken)
        print(f"  {name:14} {1e3 * statistics.median(times):8.1f} ms   {length / 1e3:10,.0f} kB")


def measure_processes(directory, name, rounds):
    processes, dumps = PROCESSES[name]
    trace = os.path.join(directory, "trace")
    subprocess.run([os.path.join(BUILD, "tests", "e2e", "make_dumps"), trace, str(processes), str(dumps)], check=True)
    print(f"\n{name}: {processes:,} processes, {dumps:,} dumps of each, {os.path.getsize(trace) / 1e6:.0f} MB")
    server = Server(trace)
    ask_all(server, {"overview": ["api/overview"], "range": [f"api/range?heap=0.0&base=0&dump={dumps - 1}"]}, rounds)
    print(f"  memory {server.memory()[1] / os.path.getsize(trace):.1f} times the trace", flush=True)
    server.end()


def measure_server(trace, rounds):
    size = os.path.getsize(trace)
    firsts = []
    for turn in range(rounds):
        server = Server(trace)
        firsts.append(server.first_s)
        used, peak = server.memory()
        if turn + 1 < rounds:
            server.end()
    print(f"  {'first graph':14} {1e3 * statistics.median(firsts):8.0f} ms")
    ask_all(server, QUESTIONS, rounds)
    later, most = server.memory()
    print(f"  memory: {used / size:.1f} times the trace after the first graph, {later / size:.1f} after all; peak {peak / size:.1f}, {most / size:.1f}")
    server.end()


def browse(tool, command, directory, **environment):
    """Return what view_browser.mjs measures."""
    script = os.path.join(directory, "view_browser.mjs")
    shutil.copyfile(os.path.join(ROOT, "bench", "view_browser.mjs"), script)
    if not os.path.exists(os.path.join(directory, "node_modules")):
        os.symlink(MODULES, os.path.join(directory, "node_modules"))
    answer = subprocess.run(["node", script, tool, *command], stdout=subprocess.PIPE, check=True, timeout=900,
                            env=dict(os.environ, CHROMIUM=CHROMIUM, HOME=directory, **environment))
    return json.loads(answer.stdout)


def medians(results):
    return {key: statistics.median(one[key] for one in results) for key in results[0] if results[0][key] is not None}


def print_times(label, found, keys):
    print(f"  {label:22} " + "  ".join(f"{key} {found[key]:,.0f} ms" for key in keys if key in found), flush=True)


def view_command(trace):
    return [TOOL, "view", "--no-browser", trace]


def measure_page(trace, directory, rounds):
    found = medians([browse("view", view_command(trace), directory) for _ in range(rounds)])
    size = os.path.getsize(trace)
    print_times("page", found, ("first", "view", "dump", "direction", "filter", "table"))
    print(f"  page's transfer {found['transfer'] / 1e3:.0f} kB; server {found['server'] / size:.1f} times the trace, "
          f"peak {found['serverPeak'] / size:.1f}; tab {found['tab'] / 1e6:.0f} MB", flush=True)


def measure_saved(trace, directory, rounds):
    page = os.path.join(directory, "page.html")
    begin = time.monotonic()
    subprocess.run([TOOL, "view", "--save", page, trace], check=True)
    taken = time.monotonic() - begin
    found = medians([browse("saved", [page], directory) for _ in range(rounds)])
    print_times("saved page", found, ("first", "view", "dump", "direction", "filter", "table"))
    print(f"  {os.path.getsize(page) / 1e6:.1f} MB, written in {taken:.1f} s; tab {found['tab'] / 1e6:.0f} MB", flush=True)


def measure_frames(directory, rounds, height):
    """Draw a comb: stacks side by side, each a pixel wide and deeper than the window."""
    comb = os.path.join(directory, "comb.collapsed")

    def draw(teeth):
        with open(comb, "w", encoding="utf-8") as file:
            for tooth in range(teeth):
                file.write(f"tooth{tooth};" + ";".join(f"frame{frame}" for frame in range(height // 20)) + " 1000\n")
        return browse("frames", view_command(comb), directory, WINDOW_HEIGHT=str(height))

    area = draw(10)
    teeth, rows = int(area["width"]) - 1, int(area["height"]) // 20
    found = medians([draw(teeth) for _ in range(rounds)])
    print(f"\nframes of 1920 x {height}: {teeth * rows:,} boxes in {found['width']:.0f} x {found['height']:.0f} pixels: "
          + ", ".join(f"{what} {found[what]:.1f} ms, 99 % {found[what + '99']:.1f} ms" for what in ("pan", "zoom")), flush=True)


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def measure_others(trace, directory, rounds):
    scope = os.path.join(directory, "speedscope")
    shutil.copytree(os.environ["SPEEDSCOPE"], scope)
    server = Server(trace)
    for name, form in (("speedscope/profile.json", "speedscope"), ("profile.pb.gz", "pprof")):
        with open(os.path.join(directory, name), "wb") as file:
            content = server.ask(f"api/export?heap=0.0&format={form}")[1]
            # Speedscope's demangler fails on made names.
            file.write(content.replace(b'"_ZN', b'"N') if form == "speedscope" else content)
    server.end()
    pprof = subprocess.run(["go", "tool", "-n", "pprof"], stdout=subprocess.PIPE, check=True, text=True).stdout.strip()
    commands = {
        "view": view_command(trace),
        "speedscope": [sys.executable, "-u", "-m", "http.server", "--bind", "127.0.0.1", "--directory", scope, "0"],
        "pprof": [pprof, f"-http=127.0.0.1:{free_port()}", "-no_browser", os.path.join(directory, "profile.pb.gz")],
    }
    found = {name: [] for name in commands}
    for _ in range(rounds):
        for name, command in commands.items():
            found[name].append(browse(name, command, directory))
    for name, results in found.items():
        result = medians(results)
        print_times(name, result, ("first", "view"))
        print(f"  {'':22} server {result['serverPeak'] / 1e6:.0f} MB, tab {result['tab'] / 1e6:.0f} MB", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="server, page, saved, frames, others")
    parser.add_argument("--traces", default="100k,250k,1M,dumps,deep")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    parts = []
    for part in options.parts or ["server", "page", "saved", "frames", "others"]:
        if lacks := missing(part):
            print(f"{part}: not measured, for want of {', '.join(lacks)}")
        else:
            parts.append(part)
    for name in options.traces.split(",") if set(parts) & {"server", "page", "saved", "others"} else []:
        with tempfile.TemporaryDirectory() as directory:
            trace = make(directory, name)
            if "server" in parts:
                measure_server(trace, options.rounds)
            if "page" in parts:
                measure_page(trace, directory, options.rounds)
            if "saved" in parts:
                measure_saved(trace, directory, options.rounds)
            if "others" in parts and name == "100k":
                measure_others(trace, directory, options.rounds)
    for name in PROCESSES if "server" in parts else []:
        with tempfile.TemporaryDirectory() as directory:
            measure_processes(directory, name, options.rounds)
    if "frames" in parts:
        with tempfile.TemporaryDirectory() as directory:
            for height in HEIGHTS:
                measure_frames(directory, options.rounds, height)


if __name__ == "__main__":
    sys.exit(main())
