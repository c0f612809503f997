#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Other tools read what we write: protoc decodes the trace without unknown fields, and Go's pprof
opens the pprof files and finds the profile's totals.

    formats.py CASE
"""

import os
import re
import subprocess
import tempfile

from harness import BUILD, ROOT, check, main, need

MAKE_TRACE = os.path.join(BUILD, "tests", "e2e", "make_trace")
PROTO = os.path.join(ROOT, "proto")


def make(directory, callsites):
    done = subprocess.run([MAKE_TRACE, directory, str(callsites)], check=True, text=True,
                          stdout=subprocess.PIPE)
    print(done.stdout)
    totals = {}
    for line in done.stdout.splitlines():
        if line.startswith("dump "):
            _, name, *values = line.split()
            totals[name] = {key: float(value) for key, value in
                            (value.split("=") for value in values)}
    return totals


def test_protoc(directory):
    need("protoc")
    make(directory, 50)
    with open(os.path.join(directory, "raw-trace"), "rb") as trace:
        done = subprocess.run(
            ["protoc", "--decode=perfetto.protos.Trace", "-I", PROTO,
             os.path.join(PROTO, "trace.proto")],
            stdin=trace, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            errors="replace")
    check(done.returncode == 0, "protoc cannot decode the trace: " + done.stderr)
    # An unknown field is printed by its number.
    unknown = re.findall(r"^\s*\d+[:\s{].*$", done.stdout, re.M)
    check(not unknown, f"unknown fields: {unknown[:5]}")
    for word in ("clock_snapshot", "trace_config", "heapprofd_config", "process_tree", "cmdline",
                 "interned_data", "callstacks", "profile_packet", "process_dumps", "samples",
                 "estimate", "threads", "exact_bytes",
                 "unprofiled_process", "process_stats", "system_info", "trace_uuid"):
        check(word in done.stdout, f"protoc's text lacks {word}")


def test_config(directory):
    need("protoc")
    make(directory, 5)
    with open(os.path.join(directory, "config.txt"), "rb") as text:
        done = subprocess.run(
            ["protoc", "--encode=perfetto.protos.TraceConfig", "-I", PROTO,
             os.path.join(PROTO, "config.proto")],
            stdin=text, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    check(done.returncode == 0, f"protoc cannot encode the text configuration: {done.stderr}")
    check(b'a "quoted\\ name"\n' in done.stdout, "a string of the configuration is lost")


def test_pprof(directory):
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
            check(done.returncode == 0, f"pprof cannot open {name}: {done.stderr}")
            found = re.search(r"of (-?\d+)(B?) total", done.stdout)
            check(found is not None and abs(int(found[1]) - total) <= 0.5001,
                  f"{index} of {name}: pprof has {found and found[0]}, we wrote {total}")
        done = subprocess.run(["go", "tool", "pprof", "-raw", "-symbolize=none",
                               os.path.join(directory, name)],
                              stdout=subprocess.PIPE, text=True, env=environment, check=True)
        check("space/bytes[dflt]" in done.stdout, f"{name}: space is not the default")
        check("thread:[worker]" in done.stdout, f"{name}: no label has the thread")
        check("deadbeef" in done.stdout, f"{name}: no build id")
        # Agents of backends crash at a location without one.
        locations = done.stdout.partition("\nLocations\n")[2].partition("\nMappings\n")[0]
        places = [line for line in locations.splitlines() if re.match(r" *\d+: 0x", line)]
        check(places and all(re.search(r" M=[1-9]", line) for line in places), f"{name}: locations without a mapping: {places[:3]}")
        check("lost: 3" in done.stdout, f"{name}: no comment counts the losses")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made_directory:
        main(made_directory)
