#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Files that other profilers write are opened, and have the figures that their own tools say.
import.py CASE HEAP_PROFILE TRACECONV; exit code 0: good, 1: bad, 77: the other profiler is not here."""
import glob
import gzip
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

case, heap_profile, traceconv = sys.argv[1:4]

PROGRAM = r"""
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
char *kept[1000];
__attribute__((noinline)) char *make(size_t n) { char *p = malloc(n); memset(p, 1, n); return p; }
__attribute__((noinline)) void keep(void) { for (int i = 0; i < 200; i++) kept[i] = make(5000); }
__attribute__((noinline)) void drop(void) { for (int i = 0; i < 500; i++) free(make(64)); }
__attribute__((noinline)) void largest(void) { free(make(5000000)); }
int main(void) { keep(); drop(); largest(); return 0; }
"""

GO_PROGRAM = r"""
package main

import (
	"os"
	"runtime"
	"runtime/pprof"
)

var kept [][]byte
var sink []byte

//go:noinline
func hold() {
	for i := 0; i < 500; i++ {
		kept = append(kept, make([]byte, 10000))
	}
}

//go:noinline
func drop() {
	for i := 0; i < 500; i++ {
		sink = make([]byte, 20000)
	}
	sink = nil
}

func main() {
	runtime.MemProfileRate = 4096
	hold()
	drop()
	runtime.GC()
	runtime.GC()
	heap, _ := os.Create(os.Args[1])
	pprof.Lookup("heap").WriteTo(heap, 0)
	heap.Close()
	cpu, _ := os.Create(os.Args[2])
	pprof.StartCPUProfile(cpu)
	pprof.StopCPUProfile()
	cpu.Close()
}
"""


def need(tool):
    if shutil.which(tool) is None:
        print(f"{tool} is not installed")
        sys.exit(77)


def check(what, good):
    print(("ok: " if good else "NOT OK: ") + what)
    if not good:
        sys.exit(1)


def run(*command, **options):
    return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=100, **options)


def build(directory, *arguments):
    source, program = os.path.join(directory, "kept.c"), os.path.join(directory, "kept")
    with open(source, "w") as file:
        file.write(PROGRAM)
    done = run("cc", "-g", "-O1", "-fno-optimize-sibling-calls", source, "-o", program, *arguments)
    check("the program is built " + done.stderr, done.returncode == 0)
    return program


def stacks(path, view):
    done = run(traceconv, "collapsed", "--view", view, path)
    check(f"{view} of {os.path.basename(path)} {done.stderr}", done.returncode == 0)
    table = {}
    for line in done.stdout.splitlines():
        stack, value = line.rsplit(" ", 1)
        # Frames of one function at different lines have one name here.
        table[stack] = table.get(stack, 0) + int(value)
    return table


def of_function(table, name):
    return sum(value for stack, value in table.items()
               if any(frame.split(" [")[0] == name for frame in stack.split(";")))


def go(directory):
    need("go")
    source = os.path.join(directory, "kept.go")
    with open(source, "w") as file:
        file.write(GO_PROGRAM)
    heap, cpu = os.path.join(directory, "heap.pb.gz"), os.path.join(directory, "cpu.pb.gz")
    environment = dict(os.environ, HOME=directory, GOCACHE=os.path.join(directory, "cache"),
                       GOPROXY="off", GOTELEMETRY="off", PPROF_TMPDIR=directory)
    program = os.path.join(directory, "kept-go")
    done = run("go", "build", "-o", program, source, env=environment)
    check("the Go program is built " + done.stderr, done.returncode == 0)
    done = run(program, heap, cpu, env=environment)
    check("Go writes profiles " + done.stderr, done.returncode == 0)
    for view, index in (("space", "inuse_space"), ("alloc_space", "alloc_space"),
                        ("objects", "inuse_objects"), ("alloc_objects", "alloc_objects")):
        unit = "-unit=B" if "space" in view else "-unit=count"
        done = run("go", "tool", "pprof", "-top", "-nodefraction=0", "-edgefraction=0", unit,
                   "-sample_index=" + index, heap, env=environment)
        total = re.search(r"of (\d+)B? total", done.stdout)
        check(f"Go's pprof says a total {done.stderr}", total is not None)
        ours = sum(stacks(heap, view).values())
        check(f"{view}: {ours}, Go says {total.group(1)}", ours == int(total.group(1)))
        hold = re.search(r"(\d+)B? +[\d.]+% +(?:main\.hold)$", done.stdout, re.M)
        if view == "space":
            table = of_function(stacks(heap, view), "main.hold")
            check(f"main.hold has {table}", hold is not None and table == int(hold.group(1)) > 0)
    done = run(heap_profile, "report", cpu)
    check("a CPU profile is refused by its types: " + done.stderr.strip(),
          done.returncode == 1 and "samples, cpu" in done.stderr)
    with open(heap, "rb") as packed:
        whole = gzip.decompress(packed.read())
    with open(cpu, "wb") as cut:
        cut.write(whole[:-5])
    done = run(heap_profile, "report", cpu)
    check("one that is cut off, by its offset: " + done.stderr.strip(),
          done.returncode == 1 and "offset" in done.stderr)


def ours(directory):
    """What we write as pprof is the same written again."""
    trace = os.path.join(directory, "trace")
    done = run(heap_profile, "host", "-i", "256", "-o", trace, "--", build(directory))
    check("a trace is recorded " + done.stderr, done.returncode == 0)
    names = []
    for number, of in enumerate((trace, None, None)):
        out = os.path.join(directory, f"pprof{number}")
        source = of if of is not None else names[-1]
        done = run(traceconv, "profile", "--output", out, source)
        check("pprof of it " + done.stderr, done.returncode == 0)
        names.append(glob.glob(os.path.join(out, "*"))[0])
    for view in ("space", "alloc_space", "objects", "alloc_objects"):
        first = stacks(names[0], view)
        check(f"{view} is the trace's", first == stacks(trace, view) and len(first) > 0)
    with open(names[1], "rb") as second, open(names[2], "rb") as third:
        check("the same bytes come of it again", second.read() == third.read())


def heaptrack(directory):
    need("heaptrack")
    program, out = build(directory), os.path.join(directory, "track")
    done = run("heaptrack", "-o", out, program)
    files = glob.glob(out + ".*")
    check("heaptrack writes its file " + done.stderr, done.returncode == 0 and len(files) == 1)
    said = run("heaptrack_print", "-F", os.path.join(directory, "leaked"),
               "--flamegraph-cost-type", "leaked", "--disable-builtin-suppressions",
               "--disable-embedded-suppressions", files[0]).stdout
    calls = int(re.search(r"calls to allocation functions: (\d+)", said).group(1))
    check(f"{calls} calls", sum(stacks(files[0], "alloc_objects").values()) == calls)
    with open(os.path.join(directory, "leaked")) as leaked:
        expected = sum(int(line.rsplit(" ", 1)[1]) for line in leaked if line.strip())
    live = stacks(files[0], "space")
    check(f"{expected} bytes leaked", sum(live.values()) == expected)
    check("keep's are", of_function(live, "keep") == 1000000)
    report = json.loads(run(heap_profile, "report", "--json", files[0]).stdout)
    check("all is exact", '"interval_bytes": 1,' in json.dumps(report))
    peak = stacks(files[0], "max")
    check("at the peak was what was largest", of_function(peak, "largest") == 5000000)
    temporary = run(heap_profile, "report", files[0]).stdout
    check("drop's are temporary", re.search(r"500 +.*32\.0 kB.*drop", temporary) is not None)


def tcmalloc(directory):
    library = glob.glob("/usr/lib/*/libtcmalloc.so.4")
    if not library:
        print("tcmalloc is not installed")
        sys.exit(77)
    out = os.path.join(directory, "tc")
    done = run(build(directory), env=dict(os.environ, LD_PRELOAD=library[0], HEAPPROFILE=out))
    files = glob.glob(out + ".*.heap")
    check("tcmalloc writes its file " + done.stderr, len(files) == 1)
    with open(files[0]) as file:
        numbers = [int(number) for number in re.findall(r"\d+", file.readline())[:4]]
    for view, expected in zip(("objects", "space", "alloc_objects", "alloc_space"), numbers):
        check(f"{view}: {expected}", sum(stacks(files[0], view).values()) == expected)
    check("in the program's mapping", "@ kept" in run(heap_profile, "report", files[0]).stdout)


def jemalloc(directory):
    library = glob.glob("/usr/lib/*/libjemalloc.so.2")
    need("jeprof")
    if not library:
        sys.exit(77)
    out = os.path.join(directory, "je")
    options = f"prof:true,lg_prof_sample:12,prof_final:true,prof_prefix:{out}"
    done = run(build(directory), env=dict(os.environ, LD_PRELOAD=library[0], MALLOC_CONF=options))
    files = glob.glob(out + ".*.heap")
    if not files:
        print("this jemalloc has no profiler " + done.stderr)
        sys.exit(77)
    live = sum(stacks(files[0], "space").values())
    done = run("jeprof", "--text", "--show_bytes", os.path.join(directory, "kept"), files[0])
    total = re.search(r"Total: (\d+) B", done.stdout)
    check("jeprof says a total " + done.stderr, total is not None)
    check(f"{live} live, jeprof says {total.group(1)}", abs(live - int(total.group(1))) <= 64)


def collapsed(directory):
    path = os.path.join(directory, "stacks")
    text = "main;f;g 12\nmain;h 3000\n"
    with open(path, "w") as file:
        file.write(text)
    check("they come back", run(traceconv, "collapsed", path).stdout == text)
    done = subprocess.run([heap_profile, "report", "-"], input=text, stdout=subprocess.PIPE,
                          text=True, timeout=60)
    check("and from standard input", done.returncode == 0 and "3.00 kB" in done.stdout)
    query = ("select f.name as function, m.name as file, a.size from heap_profile_allocation a "
             "join stack_profile_callsite c on a.callsite_id = c.id "
             "join stack_profile_frame f on c.frame_id = f.id "
             "join stack_profile_mapping m on f.mapping = m.id order by a.size")
    done = run(heap_profile, "query", "--json", path, query)
    rows = json.loads(done.stdout or "[]")
    check(f"SQL has their samples, as it has a trace's: {rows} {done.stderr}",
          [list(row.values()) for row in rows] == [["g", "", 12], ["h", "", 3000]])
    done = run(heap_profile, "report", path)
    check("what the file does not tell is no 0",
          "allocated     not in the file" in done.stdout
          and "peak          not in the file" in done.stdout)
    heap = json.loads(run(heap_profile, "report", "--json", path).stdout)["heaps"][0]
    check("nor how sure it is", "live          3.01 kB ± unknown" in done.stdout
          and heap["total"]["space"] == {"estimate": 3012, "low95": None, "high95": None})
    check(f"{heap['untold']}", heap["untold"] == ["objects", "alloc_space", "alloc_objects", "max"])
    done = run(heap_profile, "diff", path, path + "@1", "--view", "max")
    check("nor is it in a difference", "not in one of the files" in done.stdout)
    done = run(heap_profile, "check", "--max-peak", "1", "--max-temporary", "0%", path)
    check(f"nor does it hold or fail: {done.stdout}",
          done.returncode == 2 and done.stdout.count("the figure is not in the file") == 2)
    with open(path, "a") as file:
        file.write("main;x\n")
    done = run(heap_profile, "report", path)
    check("a wrong line is named: " + done.stderr.strip(),
          done.returncode == 1 and "line 3" in done.stderr)


with tempfile.TemporaryDirectory() as place:
    {"go": go, "ours": ours, "heaptrack": heaptrack, "tcmalloc": tcmalloc, "jemalloc": jemalloc,
     "collapsed": collapsed}[case](place)
