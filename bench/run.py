#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Measure the costs of profiling, in comparison with other profilers, and write
docs/performance.md.

    make bench            everything, about ten minutes on two processors
    bench/run.py [PROGRAM...]      only these programs; prints, writes nothing

Runs alternate between the profilers, so that a disturbance affects all of them; figures are
medians. CPU is user and system time of the program and of all processes of its profiler. A profiler
with its own allocator is compared with that allocator without profiling.
"""

import json
import math
import os
import platform
import random
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time

from attach import measure_attach
from common import BUILD, ROOT, TOOL, make, make_micro, medians, run
from daemon import measure_dormant, measure_dump, measure_dump_at_max
from heaps import measure_heaps
from memory_infra import measure_memory_infra
from query import measure_query
from report import measure_report
from symbolize import measure_pprof, measure_symbolize

LIBRARIES = "/usr/lib/x86_64-linux-gnu"
RUNS = int(os.environ.get("HEAPPROFD_BENCH_RUNS", "5"))
PYTHON_MALLOC = {"PYTHONMALLOC": "malloc"}
SLOW_RUNS = 3  # of profilers that take several times as long
CUT_AFTER = {"gperftools": 20}  # seconds; a run that is cut counts as if it had ended then


def ours(interval, *options):
    return lambda command, work: (
        [TOOL, "host", "--quiet", "-i", str(interval), "-o", os.path.join(work, "profile"),
         *options, "--", *command], {},
    )


def preloaded(library, **env):
    def wrap(command, work):
        values = {name: value.format(work=work) for name, value in env.items()}
        # env becomes the program, so that nothing else runs on the other allocator.
        return command, {"LD_PRELOAD": os.path.join(LIBRARIES, library), **values}

    return wrap


def heaptrack(command, work):
    return ["heaptrack", "-o", os.path.join(work, "heaptrack"), *command], {}


# name: (wrapper, name of the base that it is compared with, runs)
PROFILERS = {
    "none": (lambda command, work: (command, {}), None, RUNS),
    "524288": (ours(524288), "none", RUNS),
    "4096": (ours(4096), "none", RUNS),
    "1": (ours(1), "none", SLOW_RUNS),
    "heaptrack": (heaptrack, "none", SLOW_RUNS),
    "jemalloc": (preloaded("libjemalloc.so.2"), None, SLOW_RUNS),
    "jemalloc prof": (
        preloaded("libjemalloc.so.2",
                  MALLOC_CONF="prof:true,lg_prof_sample:12,prof_final:true,prof_prefix:{work}/je"),
        "jemalloc", SLOW_RUNS,
    ),
    "tcmalloc": (preloaded("libtcmalloc.so.4"), None, SLOW_RUNS),
    "gperftools": (preloaded("libtcmalloc.so.4", HEAPPROFILE="{work}/gp"), "tcmalloc", SLOW_RUNS),
}


def stop_after(seconds):
    """Return a function for run() that kills the program after this time."""
    def begin(process):
        timer = threading.Timer(seconds, process.kill)
        timer.daemon = True
        timer.start()

    return begin if seconds else None


def data_jq(work):
    rng = random.Random(1)
    path = os.path.join(work, "data.json")
    with open(path, "w") as file:
        for i in range(200000):
            file.write(f'{{"id":{i},"city":"c{rng.randrange(500)}","amount":{rng.random()}}}\n')
    return ["jq", "-s", "group_by(.city) | map({c: .[0].city, s: map(.amount) | add})", path], None


def data_xmllint(work):
    path = os.path.join(work, "data.xml")
    with open(path, "w") as file:
        file.write("<all>")
        for i in range(800000):
            file.write(f'<item id="{i}"><name>n{i}</name><v>{i * 7}</v></item>')
        file.write("</all>")
    return ["xmllint", "--noout", path], None


def data_sqlite3(work):
    path = os.path.join(work, "script.sql")
    with open(path, "w") as file:
        file.write(
            """create table t(a integer primary key, b text, c real);
            with recursive n(i) as (select 1 union all select i + 1 from n where i < 1000000)
                insert into t select i, 'text ' || (i * 7919 % 1000), i * 0.5 from n;
            create index u on t(b);
            select b, count(*), sum(c) from t group by b order by 2 desc, 1 limit 20;
            select count(*) from t x where upper(x.b) || x.a like '%9%';"""
        )
    return ["sqlite3", ":memory:"], path


def data_python3(work):
    path = os.path.join(work, "script.py")
    with open(path, "w") as file:
        file.write(
            """
import json, collections
words = [str(i * 7919 % 10007) for i in range(600000)]
counts = collections.Counter(words)
tree = {w: [n, {"again": w * 3, "list": list(range(n))}] for w, n in sorted(counts.items())}
for _ in range(4):
    back = json.loads(json.dumps(tree))
print(len(back), sum(len(v[1]["list"]) for v in back.values()))
"""
        )
    return ["/usr/bin/python3", path], None


def data_clang(work):
    path = os.path.join(work, "a.cc")
    with open(path, "w") as file:
        file.write("#include <algorithm>\n#include <map>\n#include <string>\n#include <vector>\n")
        for i in range(60):
            file.write(
                f"int f{i}(const std::map<std::string, std::vector<int>> &all) {{ int s = {i};"
                " for (const auto &[k, v] : all) { auto w = v; std::sort(w.begin(), w.end());"
                " s += w[0] + (int)k.size(); } return s; }\n"
            )
    return ["clang++", "-std=c++17", "-O1", "-c", "-o", os.path.join(work, "a.o"), path], None


PROGRAMS = {
    "jq": data_jq,
    "xmllint": data_xmllint,
    "sqlite3": data_sqlite3,
    "python3": data_python3,
    "clang": data_clang,
}


def run_redis(wrapper, work):
    """Run a server under a fixed load. Return its exit status, and its Cost with the wall time of
    the load."""
    socket = os.path.join(work, "redis.sock")
    command, env = wrapper(
        ["redis-server", "--port", "0", "--unixsocket", socket, "--save", "", "--dir", work], work
    )
    wall = 0

    def load(_):
        nonlocal wall
        for _ in range(400):
            if subprocess.run(["redis-cli", "-s", socket, "ping"], capture_output=True,
                              text=True).stdout.startswith("PONG"):
                break
            time.sleep(0.02)
        if not os.path.exists(socket):
            return
        start = time.monotonic()
        subprocess.run(
            ["redis-benchmark", "-s", socket, "-q", "-n", "200000", "-c", "20", "-P", "8", "-d", "100",
             "-r", "10000", "-t", "set,get,lpush,hset,zadd"],
            stdout=subprocess.DEVNULL, check=True,
        )
        wall = time.monotonic() - start
        subprocess.run(["redis-cli", "-s", socket, "shutdown", "nosave"], capture_output=True)

    status, found = run(command, env={**PYTHON_MALLOC, **env}, during=load)
    return status, found._replace(wall=wall)


def measure(name):
    """Return {profiler: (median wall, median CPU)} of a program."""
    results = {profiler: [] for profiler in PROFILERS}
    with tempfile.TemporaryDirectory(prefix="bench-") as inputs:
        command, stdin = PROGRAMS[name](inputs) if name in PROGRAMS else (None, None)
        for number in range(max(runs for _, _, runs in PROFILERS.values())):
            for profiler, (wrapper, _, runs) in PROFILERS.items():
                # One run is enough for a profiler that takes very long.
                slow = sum(r.wall for r in results[profiler]) > 6
                if number >= runs or slow:
                    continue
                # redis includes jemalloc, which cannot be replaced.
                if name == "redis" and profiler in ("tcmalloc", "gperftools"):
                    continue
                with tempfile.TemporaryDirectory(prefix="bench-") as work:
                    if command:
                        wrapped, env = wrapper(command, work)
                        status, found = run(wrapped, stdin or os.devnull, {**PYTHON_MALLOC, **env},
                                            stop_after(CUT_AFTER.get(profiler)))
                    else:
                        status, found = run_redis(wrapper, work)
                if status != 0 and profiler not in CUT_AFTER:
                    print(f"{name} under {profiler}: status {status}", file=sys.stderr)
                    continue
                results[profiler].append(found)
    return {profiler: medians(runs)[:2] for profiler, runs in results.items() if runs}


def ratios(figures):
    """Return {profiler: (wall ratio, CPU ratio)} to the base of each."""
    return {
        profiler: tuple(figures[profiler][i] / figures[base][i] for i in (0, 1))
        for profiler, (_, base, _) in PROFILERS.items()
        if base and profiler in figures and base in figures
    }


def geometric_mean(values):
    return math.exp(statistics.mean(map(math.log, values)))


def micro(program, *arguments, interval=None, options=()):
    """Return a figure of bench/micro.c, the median of five runs."""
    command = [program, *map(str, arguments)]
    figures = []
    for _ in range(5):
        with tempfile.TemporaryDirectory() as work:
            full = ours(interval, *options)(command, work)[0] if interval else command
            figures.append(float(subprocess.run(full, capture_output=True, check=True).stdout))
    return statistics.median(figures)


def measure_micro():
    with tempfile.TemporaryDirectory() as directory:
        program = make_micro(directory)
        unsampled, large_ring = 1 << 40, ["--shmem-size", str(256 << 20)]
        found = {"pair": micro(program, "pair", 5000000)}
        found["pair_on"] = micro(program, "pair", 5000000, interval=unsampled)
        found["threads"] = micro(program, "pair", 1000000, 8)
        found["threads_on"] = micro(program, "pair", 1000000, 8, interval=unsampled)
        found["threads_4096"] = micro(program, "pair", 1000000, 8, interval=4096)
        found["pair_4096"] = micro(program, "pair", 5000000, interval=4096)
        for frames in (1, 32):
            found[f"deep{frames}"] = micro(program, "deep", 20000, frames)
            found[f"deep{frames}_on"] = micro(
                program, "deep", 20000, frames, interval=1, options=large_ring
            )
        few, many = 1000, 1000000
        for blocks in (few, many):
            found[f"hold{blocks}"] = micro(program, "hold", blocks)
            found[f"hold{blocks}_on"] = micro(
                program, "hold", blocks, interval=1, options=large_ring
            )
        return found


def measure_daemon():
    """Return resident memory and CPU of heap_profile at interval 1 while a program allocates
    many samples."""
    with tempfile.TemporaryDirectory() as work:
        program, found = make_micro(work), {}
        for blocks in (1000, 2000000):
            command = [program, "hold", str(blocks)]
            process = subprocess.Popen(
                ours(1)(command, tempfile.mkdtemp(dir=work))[0], stdout=subprocess.DEVNULL
            )
            peak = 0
            while process.poll() is None:
                try:
                    with open(f"/proc/{process.pid}/status") as status:
                        text = status.read()
                    # Without the ring, which belongs to the target.
                    anon = re.search(r"RssAnon:\s+(\d+)", text)
                    peak = max(peak, int(anon.group(1)) if anon else 0)
                except OSError:
                    pass
                time.sleep(0.005)
            found[blocks] = peak
        return found


def measure_ledger():
    """Return the output of bench/ledger.c as {name: figure}: nanoseconds of CPU an event, bytes
    a live sample. Medians of three runs."""
    program, = make("src/daemon/ledger_bench")
    found = {}
    for _ in range(3):
        text = subprocess.run([program, "4096", "1000000", "10000000"], capture_output=True, text=True).stdout
        for name, value in re.findall(r"(\w+): +([0-9.]+)", text):
            found.setdefault(name, []).append(float(value))
    return {name: statistics.median(values) for name, values in found.items()}


def machine():
    with open("/proc/cpuinfo") as file:
        model = re.search(r"model name\s*: (.*)", file.read()).group(1)
    compiler = subprocess.run(["gcc", "--version"], capture_output=True, text=True).stdout
    return (
        f"{os.cpu_count()} x {model}, Linux {platform.release()}, "
        f"{' '.join(platform.libc_ver())}, {compiler.splitlines()[0]}"
    )


def table_of_programs(all_ratios):
    columns = [name for name, (_, base, _) in PROFILERS.items() if base]
    titles = {"524288": "ours, 524288", "4096": "ours, 4096", "1": "ours, 1"}
    lines = [
        "| program | " + " | ".join(titles.get(c, c) for c in columns) + " |",
        "|---|" + "---|" * len(columns),
    ]
    for name, found in all_ratios.items():
        cells = [
            f"{found[c][0]:.2f} / {found[c][1]:.2f}" if c in found else "n/a" for c in columns
        ]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    means = [
        " / ".join(
            f"{geometric_mean([r[c][i] for r in all_ratios.values() if c in r]):.3f}" for i in (0, 1)
        )
        for c in columns
    ]
    lines.append("| **geometric mean** | " + " | ".join(means) + " |")
    return "\n".join(lines)


def measure_growth():
    """Run bench/growth.py as a separate process: it imports modules of the tests, which have the
    same names as ours."""
    script = os.path.join(ROOT, "bench", "growth.py")
    return json.loads(subprocess.run([sys.executable, script, "--json"], stdout=subprocess.PIPE, check=True).stdout)


def main():
    names = sys.argv[1:] or [*PROGRAMS, "redis"]
    all_figures, all_ratios = {}, {}
    for name in names:
        figures = measure(name)
        all_figures[name], all_ratios[name] = figures, ratios(figures)
        print(name, {p: f"{w:.2f}/{c:.2f}" for p, (w, c) in figures.items()}, flush=True)
    print(table_of_programs(all_ratios))
    if sys.argv[1:]:
        return
    figures = {
        "machine": machine(), "runs": RUNS, "programs": all_figures, "micro": measure_micro(),
        "daemon": measure_daemon(), "ledger": measure_ledger(), "report": measure_report(),
        "dump": measure_dump(), "dump_at_max": measure_dump_at_max(), "dormant": measure_dormant(),
        "attach": measure_attach(), "heaps": measure_heaps(), "symbolize": measure_symbolize(),
        "pprof": measure_pprof(), "query": measure_query(), "memory_infra": measure_memory_infra(),
        "growth": measure_growth(),
    }
    from write_performance import write_page

    write_page(figures, all_ratios, table_of_programs(all_ratios))
    with open(os.path.join(BUILD, "bench.json"), "w") as file:
        json.dump(figures, file, indent=1)


if __name__ == "__main__":
    main()
