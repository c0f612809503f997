#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Measure traceconv symbolize, llvm-symbolizer and addr2line, each in its own process, on a C++
program with about 200 MB of debug information, which is made first. And measure traceconv profile
on traces of about 100 MB: clang's with a dump each 0.3 s, and one with more callsites than any
program has.

    bench/symbolize.py

Medians of three runs in turn: wall and CPU seconds, and the peak of resident memory. The files are
in the page cache for all of them. "cold" is with an empty cache of ours, "again" with the cache of
the previous run. addr2line, which is slow, runs once, on a twentieth of the addresses.
"""

import importlib.util
import os
import random
import signal
import subprocess
import sys
import tempfile
import time

from common import ROOT, TOOL, TRACECONV, cost, make, median_cost, medians

RUNS = int(os.environ.get("HEAPPROFD_BENCH_RUNS", "3"))
COPIES = 40
COUNTS = (10_000, 100_000)
COMPARED = 100_000  # the other tools run only with this number
ADDR2LINE_SHARE = 20
TRACE_BYTES = 100_000_000

HEAD = "#include <algorithm>\n#include <functional>\n#include <map>\n#include <memory>\n#include <set>\n" \
    "#include <string>\n#include <unordered_map>\n#include <vector>\nnamespace {\n"
KIND = """
struct kind@ { int id; double weight; std::string name;
  bool operator<(const kind@ &o) const { return id < o.id; } };
struct store@ {
  std::vector<kind@> all; std::map<std::string, kind@> named;
  std::unordered_map<int, std::shared_ptr<kind@>> shared; std::set<kind@> ordered;
  void add(int n) { for (int i = 0; i < n; i++) { kind@ one{i * @, 0, std::to_string(i)};
    all.push_back(one); named[one.name] = one; shared[i] = std::make_shared<kind@>(one); ordered.insert(one); }
    std::sort(all.begin(), all.end()); }
  double sum() const { double s = 0; for (const auto &one : all) s += one.weight;
    std::for_each(ordered.begin(), ordered.end(), [&](const kind@ &one) { s += one.id; }); return s; }
  std::function<double(int)> later() { return [this](int n) { add(n); return sum(); }; }
};
"""


def make_program(work, kinds=24):
    """One unit of local templates, linked COPIES times: each copy has code and debug information."""
    source = HEAD + "".join(KIND.replace("@", str(k)) for k in range(kinds)) + "}\n"
    source += 'extern "C" double run(int n) { double s = 0;\n'
    source += "".join(f"{{ store{k} all; s += all.later()(n); }}\n" for k in range(kinds)) + "return s; }\n"
    main = "".join(f'extern "C" double run_{i}(int);\n' for i in range(COPIES)) + "int main(int n, char **) { return 0"
    main += "".join(f" + (int)run_{i}(n)" for i in range(COPIES)) + "; }\n"
    for name, text in (("unit.cc", source), ("main.cc", main)):
        with open(os.path.join(work, name), "w") as file:
            file.write(text)
    subprocess.run(["g++", "-g", "-O1", "-c", "unit.cc"], cwd=work, check=True)
    for i in range(COPIES):
        subprocess.run(["objcopy", f"--redefine-sym=run=run_{i}", "unit.o", f"unit{i}.o"], cwd=work, check=True)
    subprocess.run(["g++", "-g", "-fuse-ld=lld", "-Wl,--build-id", "main.cc", *(f"unit{i}.o" for i in range(COPIES)),
                    "-o", "program"], cwd=work, check=True)
    for i in range(COPIES):
        os.unlink(os.path.join(work, f"unit{i}.o"))
    return os.path.join(work, "program")


def pick_addresses(path, count, *options):
    functions = set()
    for line in subprocess.check_output(["nm", "-S", "--defined-only", *options, path]).decode().splitlines():
        parts = line.split()
        if len(parts) == 4 and parts[2] in "tTwW" and int(parts[1], 16):
            functions.add((int(parts[0], 16), int(parts[1], 16)))
    functions, chosen, generator = sorted(functions), set(), random.Random(1)
    for _ in range(20 * count):
        start, size = generator.choice(functions)
        chosen.add(start + generator.randrange(size))
        if len(chosen) == count:
            break
    return sorted(chosen)


def trace_writer():
    """Return the module tests/e2e/symbolize.py, which writes traces of code addresses. This file
    has the same name."""
    tests = os.path.join(ROOT, "tests", "e2e")
    sys.path.insert(0, tests)
    spec = importlib.util.spec_from_file_location("e2e_symbolize", os.path.join(tests, "symbolize.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.path.remove(tests)
    return module


def measure_addresses(work, writer, path, count, found):
    addresses = pick_addresses(path, count)
    trace, text, some = (os.path.join(work, name) for name in ("trace", "addresses", "some"))
    module = (path, writer.build_id_of(path), addresses, writer.bias_of(path))
    with open(trace, "wb") as file:
        file.write(writer.trace_of([module]))
    for name, listed in ((text, addresses), (some, addresses[::ADDR2LINE_SHARE])):
        with open(name, "w") as file:
            file.writelines(f"{each:#x}\n" for each in listed)
    cache = os.path.join(work, f"cache{count}")
    os.mkdir(cache, 0o700)
    kept = {"XDG_CACHE_HOME": cache, "DEBUGINFOD_URLS": ""}
    ours = [TRACECONV, "symbolize", "-q"]
    files = [trace, os.path.join(work, "symbols")]
    cost([*ours, *files], env=kept)  # fills the cache
    commands = {"cold": ([*ours, "--no-cache", *files], {}), "again": ([*ours, *files], {"env": kept})}
    if count == COMPARED:
        commands["llvm-symbolizer"] = (["llvm-symbolizer-14", "--no-demangle", f"--obj={path}"], {"stdin": text})
    runs = {tool: [] for tool in commands}
    for _ in range(RUNS):
        for tool, (command, how) in commands.items():
            runs[tool].append(cost(command, **how))
    found[len(addresses)] = {tool: medians(many) for tool, many in runs.items()}
    if count == COMPARED:
        found[len(addresses)]["addr2line"] = cost(["addr2line", "-f", "-i", "-e", path], stdin=some)
        found["compared"] = len(addresses)


def measure_symbolize():
    """Return {addresses: {tool: (wall s, CPU s, peak MB)}}; "compared": the compared number;
    "bytes" of the program."""
    found = {}
    writer = trace_writer()
    with tempfile.TemporaryDirectory(prefix="bench-") as work:
        path = make_program(work)
        found["bytes"] = os.path.getsize(path)
        for count in COUNTS:
            measure_addresses(work, writer, path, count, found)
    return found


def make_dumps_of_clang(work, _):
    """Run a session with every allocation of clang and a dump each 0.3 s."""
    source = os.path.join(work, "a.cc")
    with open(source, "w") as file:
        file.write("#include <algorithm>\n#include <iostream>\n#include <map>\n#include <regex>\n#include <string>\n"
                   "#include <unordered_map>\n#include <vector>\nint main() { std::map<std::string, std::vector<int>> m;"
                   " std::regex r(\"a+b\"); for (int i = 0; i < 100; i++) m[std::to_string(i)].push_back(i);"
                   " std::cout << m.size() << std::regex_match(\"aab\", r); }\n")
    out = os.path.join(work, "clang")
    session = subprocess.Popen([TOOL, "-n", "clang", "-i", "1", "-c", "300", "-d", "60000",
                                "--quiet", "--no-symbols", "-o", out])
    time.sleep(1)
    subprocess.run(["clang++", "-std=c++17", "-O2", "-c", "-o", os.path.join(work, "a.o"), source], check=True)
    session.send_signal(signal.SIGINT)
    session.wait()
    return os.path.join(out, "raw-trace")


def make_callsites(work, make_trace):
    """Write two dumps of more callsites than any program has, each with nearly two separate frames."""
    trace, callsites, size = os.path.join(work, "raw-trace"), 100_000, 0
    while size < TRACE_BYTES:
        subprocess.run([make_trace, work, str(callsites)], check=True, stdout=subprocess.DEVNULL)
        size = os.path.getsize(trace)
        callsites = int(callsites * max(1.1, 1.1 * TRACE_BYTES / size))
    return trace


def measure_pprof():
    """Return {trace: (its MB, wall s, CPU s, peak MB of the conversion to pprof files)}."""
    make_trace, *_ = make("tests/e2e/make_trace", "traceconv", "heap_profile")
    found = {}
    for name, write in (("clang", make_dumps_of_clang), ("callsites", make_callsites)):
        with tempfile.TemporaryDirectory(prefix="bench-") as work:
            trace = write(work, make_trace)
            command = [TRACECONV, "profile", "-o", os.path.join(work, "pprof"), trace]
            found[name] = (os.path.getsize(trace) / 1e6, *median_cost(command, RUNS))
    return found


if __name__ == "__main__":
    figures = measure_symbolize()
    compared = figures.pop("compared")
    print(f"a program of {figures.pop('bytes') / 1e6:.0f} MB")
    for addresses, tools in figures.items():
        for tool, (wall, cpu, memory) in tools.items():
            listed = addresses // ADDR2LINE_SHARE if tool == "addr2line" else addresses
            print(f"{listed:9,} addresses  {tool:16} {wall:6.2f} s wall {cpu:6.2f} s CPU {memory:6.0f} MB")
    for name, (size, wall, cpu, memory) in measure_pprof().items():
        print(f"pprof files of {name}, {size:.0f} MB  {wall:.2f} s wall {cpu:.2f} s CPU {memory:.0f} MB, {size / wall:.0f} MB/s")
