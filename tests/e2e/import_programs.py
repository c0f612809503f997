# SPDX-License-Identifier: Apache-2.0
"""Programs whose memory other profilers are to see, and the profiles that Go writes of one."""

import os
import subprocess

from harness import TRACECONV, check, need

PROGRAM = r"""
#include <stdlib.h>
#include <string.h>
char *kept[1000];
__attribute__((noinline)) char *make(size_t n) { char *p = malloc(n); memset(p, 1, n); return p; }
__attribute__((noinline)) void keep(void) { for (int i = 0; i < 200; i++) kept[i] = make(5000); }
__attribute__((noinline)) void drop(void) { for (int i = 0; i < 500; i++) free(make(64)); }
__attribute__((noinline)) void largest(void) { free(make(5000000)); }
int main(void) { keep(); drop(); largest(); kept[500] = make(7); return 0; }
"""

GO_PROGRAM = r"""
package main

import (
	"os"
	"runtime"
	"runtime/pprof"
	"strconv"
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
	runtime.MemProfileRate, _ = strconv.Atoi(os.Args[1])
	hold()
	drop()
	runtime.GC()
	runtime.GC()
	for debug, path := range os.Args[2:4] {
		file, _ := os.Create(path)
		pprof.Lookup("heap").WriteTo(file, debug)
		file.Close()
	}
	cpu, _ := os.Create(os.Args[4])
	pprof.StartCPUProfile(cpu)
	pprof.StopCPUProfile()
	cpu.Close()
}
"""


def run(*command, **options):
    return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=100, **options)


def write(directory, name, data):
    path = os.path.join(directory, name)
    with open(path, "wb") as file:
        file.write(data.encode() if isinstance(data, str) else data)
    return path


def stacks(path, view="space"):
    """Return the value of each stack. Frames of one function at different lines have one name."""
    done = run(TRACECONV, "collapsed", "--view", view, path)
    check(done.returncode == 0, f"{view} of {os.path.basename(path)}: {done.stderr}")
    table = {}
    for line in done.stdout.splitlines():
        stack, value = line.rsplit(" ", 1)
        table[stack] = table.get(stack, 0) + int(value)
    return table


def build(directory, *options):
    source, program = write(directory, "kept.c", PROGRAM), os.path.join(directory, "kept")
    done = run("cc", "-g", "-O1", "-fno-optimize-sibling-calls", *options, source, "-o", program)
    check(done.returncode == 0, "cannot build the program: " + done.stderr)
    return program


def go_environment(directory):
    return dict(os.environ, HOME=directory, GOCACHE=os.path.join(directory, "cache"), GOPROXY="off", GOTELEMETRY="off",
                PPROF_TMPDIR=directory)


def go_profiles(directory, rate):
    """Return the paths of a heap profile, of the same as text, and of a CPU profile."""
    need("go")
    source, program = write(directory, "kept.go", GO_PROGRAM), os.path.join(directory, "kept-go")
    done = run("go", "build", "-o", program, source, env=go_environment(directory))
    check(done.returncode == 0, "cannot build the Go program: " + done.stderr)
    paths = [os.path.join(directory, name) for name in ("heap.pb.gz", "heap.txt", "cpu.pb.gz")]
    done = run(program, str(rate), *paths)
    check(done.returncode == 0, "Go cannot write its profiles: " + done.stderr)
    return paths
