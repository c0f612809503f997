#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What we write, others read: protoc decodes the trace with no field left unknown, and Go's
pprof opens the pprof files and finds the profile's totals. formats.py CASE MAKE_TRACE PROTO_DIR;
exit code 0: good, 1: bad, 77: the other tool is not here."""
import os
import re
import shutil
import subprocess
import sys
import tempfile

case, make_trace, proto_dir = sys.argv[1:4]


def need(tool):
    if shutil.which(tool) is None:
        print(f"{tool} is not installed")
        sys.exit(77)


def check(what, good):
    print(("ok: " if good else "NOT OK: ") + what)
    if not good:
        sys.exit(1)


def make(directory, callsites):
    done = subprocess.run([make_trace, directory, str(callsites)], check=True, text=True,
                          stdout=subprocess.PIPE)
    print(done.stdout)
    totals = {}
    for line in done.stdout.splitlines():
        if line.startswith("dump "):
            _, name, *values = line.split()
            totals[name] = {key: float(value) for key, value in
                            (value.split("=") for value in values)}
    return totals


def protoc_decodes(directory):
    need("protoc")
    make(directory, 50)
    with open(os.path.join(directory, "raw-trace"), "rb") as trace:
        done = subprocess.run(
            ["protoc", "--decode=perfetto.protos.Trace", "-I", proto_dir,
             os.path.join(proto_dir, "trace.proto")],
            stdin=trace, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            errors="replace")
    check("protoc decodes the trace " + done.stderr, done.returncode == 0)
    # An unknown field is printed by its number.
    unknown = re.findall(r"^\s*\d+[:\s{].*$", done.stdout, re.M)
    check(f"no unknown fields {unknown[:5]}", not unknown)
    for word in ("clock_snapshot", "trace_config", "heapprofd_config", "process_tree", "cmdline",
                 "interned_data", "callstacks", "profile_packet", "process_dumps", "samples",
                 "estimate", "threads", "exact_bytes",
                 "unprofiled_process", "process_stats", "system_info", "trace_uuid"):
        check(f"{word} is in it", word in done.stdout)


def protoc_encodes_config(directory):
    need("protoc")
    make(directory, 5)
    with open(os.path.join(directory, "config.txt"), "rb") as text:
        done = subprocess.run(
            ["protoc", "--encode=perfetto.protos.TraceConfig", "-I", proto_dir,
             os.path.join(proto_dir, "config.proto")],
            stdin=text, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    check(f"the text configuration parses {done.stderr}", done.returncode == 0)
    check("its strings come through", b'a "quoted\\ name"\n' in done.stdout)


def go_pprof_totals(directory):
    need("go")
    totals = make(directory, 2000)
    environment = dict(os.environ, HOME=directory, GOFLAGS="-mod=mod", GOTELEMETRY="off",
                       GOPROXY="off", PPROF_TMPDIR=directory, PPROF_NO_BROWSER="1")
    for name, expected in totals.items():
        for index, total in expected.items():
            unit = "-unit=B" if "space" in index else "-unit=count"
            done = subprocess.run(
                ["go", "tool", "pprof", "-top", "-nodecount=3", f"-sample_index={index}", unit,
                 "-symbolize=none", os.path.join(directory, name)],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
            check(f"pprof opens {name}: {done.stderr}", done.returncode == 0)
            found = re.search(r"of (-?\d+)(B?) total", done.stdout)
            check(f"{index} of {name}: {found and found[0]} for {total}",
                  found is not None and abs(int(found[1]) - total) <= 0.5001)
        done = subprocess.run(["go", "tool", "pprof", "-raw", "-symbolize=none",
                               os.path.join(directory, name)],
                              stdout=subprocess.PIPE, text=True, env=environment, check=True)
        check("space is the default", "space/bytes[dflt]" in done.stdout)
        check("threads are labelled", "thread:[worker]" in done.stdout)
        check("build ids are there", "deadbeef" in done.stdout)
        check("losses are said", "lost: 3" in done.stdout)


with tempfile.TemporaryDirectory() as made:
    {"protoc": protoc_decodes, "config": protoc_encodes_config, "pprof": go_pprof_totals}[case](made)
