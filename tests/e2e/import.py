#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""We open other profilers' files, and find the figures that their own tools print.

    import.py CASE
"""

import glob
import gzip
import json
import os
import re
import subprocess
import tempfile

from harness import TOOL, TRACECONV, check, main, need, skip
from import_programs import build, go_environment, go_profiles, run, stacks


def of_function(table, name):
    return sum(value for stack, value in table.items()
               if any(frame.split(" [")[0] == name for frame in stack.split(";")))


def test_go(directory):
    heap, _, cpu = go_profiles(directory, 4096)
    environment = go_environment(directory)
    for view, index in (("space", "inuse_space"), ("alloc_space", "alloc_space"),
                        ("objects", "inuse_objects"), ("alloc_objects", "alloc_objects")):
        unit = "-unit=B" if "space" in view else "-unit=count"
        done = run("go", "tool", "pprof", "-top", "-nodefraction=0", "-edgefraction=0", unit,
                   "-sample_index=" + index, heap, env=environment)
        total = re.search(r"of (\d+)B? total", done.stdout)
        check(total is not None, f"Go's pprof prints no total: {done.stderr}")
        ours = sum(stacks(heap, view).values())
        check(ours == int(total.group(1)), f"{view}: {ours}, Go prints {total.group(1)}")
        hold = re.search(r"(\d+)B? +[\d.]+% +(?:main\.hold)$", done.stdout, re.M)
        if view == "space":
            table = of_function(stacks(heap, view), "main.hold")
            check(hold is not None and table == int(hold.group(1)) > 0, f"main.hold: {table}, Go prints {hold and hold.group(1)}")
    done = run(TOOL, "report", cpu)
    check(done.returncode == 1 and "samples, cpu" in done.stderr,
          "a CPU profile is not refused with its types: " + done.stderr.strip())
    with open(heap, "rb") as packed:
        whole = gzip.decompress(packed.read())
    with open(cpu, "wb") as cut:
        cut.write(whole[:-5])
    done = run(TOOL, "report", cpu)
    check(done.returncode == 1 and "offset" in done.stderr,
          "a truncated profile is not refused with the offset: " + done.stderr.strip())


def test_ours(directory):
    """A pprof file of ours, read and written again, has the same bytes and figures."""
    trace = os.path.join(directory, "trace")
    done = run(TOOL, "host", "-i", "256", "-o", trace, "--", build(directory))
    check(done.returncode == 0, "cannot record: " + done.stderr)
    names = []
    for number, of in enumerate((trace, None, None)):
        out = os.path.join(directory, f"pprof{number}")
        source = of if of is not None else names[-1]
        done = run(TRACECONV, "profile", "--output", out, source)
        check(done.returncode == 0, "cannot convert to pprof: " + done.stderr)
        names.append(glob.glob(os.path.join(out, "*"))[0])
    for view in ("space", "alloc_space", "objects", "alloc_objects"):
        first = stacks(names[0], view)
        check(first == stacks(trace, view) and len(first) > 0, f"{view} differs from the trace's")
    with open(names[1], "rb") as second, open(names[2], "rb") as third:
        check(second.read() == third.read(), "the second copy has other bytes")


CHURN = r"""
#include <stdlib.h>
#include <string.h>
char *kept[100000];
__attribute__((noinline)) char *make(size_t n) { char *p = malloc(n); memset(p, 1, n); return p; }
int main(void)
{
    for (int round = 0; round < 60; round++)
        for (int i = 0; i < 100000; i++) {
            free(kept[i]);
            kept[i] = make(16 + i % 500);
        }
}
"""


def test_intervals(directory):
    """A pprof file of a profile whose interval was widened has the samples and the margins of each value."""
    source, program, trace = (os.path.join(directory, name) for name in ("churn.c", "churn", "churn-trace"))
    with open(source, "w") as file:
        file.write(CHURN)
    check(run("cc", "-O1", source, "-o", program).returncode == 0, "cannot build the program")
    done = run(TOOL, "host", "-q", "--max-overhead", "1%", "-o", trace, "--", program)
    check(done.returncode == 0, "cannot record: " + done.stderr)
    out = os.path.join(directory, "churn-pprof")
    check(run(TRACECONV, "profile", "--output", out, trace).returncode == 0, "cannot convert to pprof")
    (path,) = glob.glob(os.path.join(out, "*"))
    heaps = [json.loads(run(TOOL, "report", "--json", one).stdout)["heaps"][0] for one in (trace, path)]
    intervals = [(heap["first_interval_bytes"], heap["interval_bytes"]) for heap in heaps]
    check(intervals[0][0] < intervals[0][1] and intervals[0] == intervals[1], f"{intervals}")
    samples = [[site["samples"] for site in heap["callsites"]] for heap in heaps]
    check(samples[0] == samples[1], f"samples {samples}")
    for view in ("space", "objects", "alloc_space"):
        figures = [heap["total"][view] for heap in heaps]
        margins = [figure["high95"] - figure["low95"] for figure in figures]
        check(abs(figures[0]["estimate"] - figures[1]["estimate"]) <= 1
              and abs(margins[0] - margins[1]) <= 0.05 * margins[0], f"{view}: {figures}")
    texts = [run(TOOL, "report", one).stdout for one in (trace, path)]
    lines = [re.search(r"^  samples .*$", text, re.M).group(0) for text in texts]
    check(lines[0] == lines[1] and " to " in lines[0], f"{lines}")


def test_heaptrack(directory):
    need("heaptrack")
    program, out = build(directory), os.path.join(directory, "track")
    done = run("heaptrack", "-o", out, program)
    files = glob.glob(out + ".*")
    check(done.returncode == 0 and len(files) == 1, "heaptrack writes no file: " + done.stderr)
    said = run("heaptrack_print", "-F", os.path.join(directory, "leaked"),
               "--flamegraph-cost-type", "leaked", "--disable-builtin-suppressions",
               "--disable-embedded-suppressions", files[0]).stdout
    calls = int(re.search(r"calls to allocation functions: (\d+)", said).group(1))
    check(sum(stacks(files[0], "alloc_objects").values()) == calls, f"heaptrack counted {calls} calls")
    with open(os.path.join(directory, "leaked")) as leaked:
        expected = sum(int(line.rsplit(" ", 1)[1]) for line in leaked if line.strip())
    live = stacks(files[0], "space")
    check(sum(live.values()) == expected, f"{sum(live.values())} bytes live, heaptrack counted {expected} leaked")
    check(of_function(live, "keep") == 1000000, f"keep holds {of_function(live, 'keep')} bytes")
    report = json.loads(run(TOOL, "report", "--json", files[0]).stdout)
    check('"interval_bytes": 1,' in json.dumps(report), "the figures are not exact")
    peak = stacks(files[0], "max")
    check(of_function(peak, "largest") == 5000000, f"at the peak, largest holds {of_function(peak, 'largest')} bytes")
    temporary = run(TOOL, "report", files[0]).stdout
    check(re.search(r"500 +.*32\.0 kB.*drop", temporary) is not None, "drop's allocations do not count as temporary")


def test_tcmalloc(directory):
    library = glob.glob("/usr/lib/*/libtcmalloc.so.4")
    if not library:
        skip("tcmalloc is not installed")
    out = os.path.join(directory, "tc")
    done = run(build(directory), env=dict(os.environ, LD_PRELOAD=library[0], HEAPPROFILE=out))
    files = glob.glob(out + ".*.heap")
    check(len(files) == 1, "tcmalloc writes no file: " + done.stderr)
    with open(files[0]) as file:
        numbers = [int(number) for number in re.findall(r"\d+", file.readline())[:4]]
    for view, expected in zip(("objects", "space", "alloc_objects", "alloc_space"), numbers):
        check(sum(stacks(files[0], view).values()) == expected, f"{view}: tcmalloc wrote {expected}")
    check("make [kept]" in run(TOOL, "report", files[0]).stdout, "no frame is in the program's mapping")


def test_jemalloc(directory):
    library = glob.glob("/usr/lib/*/libjemalloc.so.2")
    need("jeprof")
    if not library:
        skip("jemalloc is not installed")
    out = os.path.join(directory, "je")
    options = f"prof:true,lg_prof_sample:12,prof_final:true,prof_prefix:{out}"
    done = run(build(directory), env=dict(os.environ, LD_PRELOAD=library[0], MALLOC_CONF=options))
    files = glob.glob(out + ".*.heap")
    if not files:
        skip("this jemalloc has no profiler: " + done.stderr)
    live = sum(stacks(files[0], "space").values())
    done = run("jeprof", "--text", "--show_bytes", os.path.join(directory, "kept"), files[0])
    total = re.search(r"Total: (\d+) B", done.stdout)
    check(total is not None, "jeprof prints no total: " + done.stderr)
    check(abs(live - int(total.group(1))) <= 64, f"{live} bytes live, jeprof prints {total.group(1)}")


def test_collapsed(directory):
    path = os.path.join(directory, "stacks")
    text = "main;f;g 12\nmain;h 3000\n"
    with open(path, "w") as file:
        file.write(text)
    check(run(TRACECONV, "collapsed", path).stdout == text, "the stacks change when they are read and written")
    done = subprocess.run([TOOL, "report", "-"], input=text, stdout=subprocess.PIPE,
                          text=True, timeout=180)
    check(done.returncode == 0 and "3.00 kB" in done.stdout, "standard input is not read")
    query = ("select f.name as function, m.name as file, a.size from heap_profile_allocation a "
             "join stack_profile_callsite c on a.callsite_id = c.id "
             "join stack_profile_frame f on c.frame_id = f.id "
             "join stack_profile_mapping m on f.mapping = m.id order by a.size")
    done = run(TOOL, "query", "--json", path, query)
    rows = json.loads(done.stdout or "[]")
    check([list(row.values()) for row in rows] == [["g", "", 12], ["h", "", 3000]],
          f"SQL has other samples: {rows} {done.stderr}")
    done = run(TOOL, "report", path)
    check("allocated     not in the file" in done.stdout
          and "peak          not in the file" in done.stdout,
          "a figure that the file does not contain is not called unknown")
    heap = json.loads(run(TOOL, "report", "--json", path).stdout)["heaps"][0]
    check("live          3.01 kB ± unknown" in done.stdout
          and heap["total"]["space"] == {"estimate": 3012, "low95": None, "high95": None},
          "the error of a figure is not unknown")
    check(heap["untold"] == ["objects", "alloc_space", "alloc_objects", "max"], f"{heap['untold']}")
    done = run(TOOL, "diff", path, path + "@1", "--view", "max")
    check("not in one of the files" in done.stdout, "diff shows a figure that the file does not contain")
    done = run(TOOL, "check", "--max-peak", "1", "--max-temporary", "0%", path)
    check(done.returncode == 2 and done.stdout.count("the figure is not in the file") == 2,
          f"a budget on an unknown figure is decided: {done.stdout}")
    done = run(TOOL, "check", "--max-allocated-growth", "1G", "--max-allocations-growth", "100%", "--baseline", path, path)
    check(done.returncode == 2 and done.stdout.count("the figure is not in the file") == 2,
          f"a growth of unknown figures is decided: {done.stdout}")
    with open(path, "a") as file:
        file.write("main;x\n")
    done = run(TOOL, "report", path)
    check(done.returncode == 1 and "line 3" in done.stderr,
          "the error does not name the wrong line: " + done.stderr.strip())


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made_directory:
        main(made_directory)
