# SPDX-License-Identifier: Apache-2.0
"""Profiles for the browser's test of heap details, and what the program's own reports say of them.

A program that reports typed allocations, recorded with several dumps; the same recording as Chrome's memory
dumps; and memory dumps of 500 processes.
"""

import gzip
import json
import os
import subprocess
import time

HEAP = "Textures"
HOSTILE_TYPE = "<img/src=x/onerror=alert(4)>"
STEPS = 3
PROCESSES = 500
CHROMIUM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "memory_infra", "chromium-150-browser.json.gz")


def commands(step):
    """Return what heap_commanded does in a step: allocations of several types and of none. What is freed at once
    keeps the live bytes far below what was allocated, which would cut the limits of estimates."""
    first = 1000 * step
    lines = [f"allocate 1 {first + i} {200 + i} Texture" for i in range(200)]
    lines += [f"allocate 1 {first + 300 + i} 60 {HOSTILE_TYPE}" for i in range(200)]
    lines += [f"fill 1 {first + 600} 100 64", "hold 10 5000", "fill 1 1000000 1500 100", "drain 1 1000000 1500"]
    return lines + ([f"free 1 {300 + i}" for i in range(150)] if step == STEPS - 1 else [])


def record(harness, directory):
    command = [harness.TOOL, "host", "-q", "-c", "200", "--all-heaps", "-i", "256", "-o", directory, "--",
               harness.program("heap_commanded")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        for step in range(STEPS):
            lines = ([f"register {HEAP}"] if step == 0 else []) + commands(step)
            process.stdin.write("".join(line + "\n" for line in lines))
            process.stdin.flush()
            for _ in lines:
                process.stdout.readline()
            time.sleep(0.22)  # a dump
        process.stdin.close()
        if process.wait() != 0:
            raise SystemExit(f"{command}: exit code {process.returncode}")


def write_many_processes(path):
    """Write memory dumps of processes with one callsite each: the n-th holds n kB."""
    def event(number):
        heap = {"nodes": [1], "types": [0], "counts": [1], "sizes": [1000 * number]}
        maps = {"strings": [{"id": 1, "string": "main"}, {"id": 2, "string": "[unknown]"}],
                "nodes": [{"id": 1, "name_sid": 1}], "types": [{"id": 0, "name_sid": 2}]}
        dumps = {"level_of_detail": "detailed", "process_totals": {"resident_set_bytes": f"{1_000_000 + number:x}"},
                 "heaps_v2": {"version": 1, "maps": maps, "allocators": {"malloc": heap}}}
        return {"ph": "v", "name": "periodic_interval", "id": "0x1", "pid": number, "tid": -1, "ts": 1000 + number,
                "args": {"dumps": dumps}}

    names = [{"ph": "M", "name": "process_name", "cat": "__metadata", "pid": number, "ts": 0,
              "args": {"name": f"worker_{number:03}"}} for number in range(1, PROCESSES + 1)]
    with open(path, "w", encoding="utf-8") as out:
        json.dump({"traceEvents": names + [event(number) for number in range(1, PROCESSES + 1)]}, out)


def reported_by_chromium(events):
    """Return {pid: {name: bytes}} of the outermost allocators, of the processes with one report, and their footprint."""
    reports = {}
    for event in events:
        if event["ph"] == "v":
            dumps = event["args"]["dumps"]
            process = reports.setdefault(event["pid"], {"times": set()})
            process["times"].add(event["ts"])
            footprint = dumps.get("process_totals", {}).get("private_footprint_bytes")
            if footprint:
                process["Footprint"] = int(footprint, 16)
            for name, allocator in dumps.get("allocators", {}).items():
                sizes = {key: int(value["value"], 16) for key, value in allocator.get("attrs", {}).items() if value["units"] == "bytes"}
                if "/" not in name and "size" in sizes:
                    process[name] = sizes.get("effective_size", sizes["size"])
    return {pid: {key: value for key, value in process.items() if key != "times"}
            for pid, process in reports.items() if len(process["times"]) == 1}


def expect(harness, work):
    """Return the profiles, and what heap_details.ts compares with."""
    recording, memory_dumps, many = (os.path.join(work, name) for name in ("typed", "typed.json", "many.json"))
    record(harness, recording)
    subprocess.run([os.path.join(harness.BUILD, "traceconv"), "memory_infra", recording, memory_dumps], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    write_many_processes(many)

    def ask(*arguments):
        return json.loads(subprocess.run([harness.TOOL, *arguments], check=True, stdout=subprocess.PIPE).stdout)

    def report(path, *options):
        return ask("report", "--json", "--demangle", "simple", "--heap", HEAP, *options, path)["heaps"][0]

    with gzip.open(CHROMIUM) as file:
        chromium = reported_by_chromium(json.load(file)["traceEvents"])
    trace = os.path.join(recording, "symbolized-trace")
    dumps = report(recording)["dumps"]
    change = ask("diff", "--json", "--by", "type", "--heap", HEAP, f"{trace}@1", f"{trace}@last")["heaps"][0]
    return [recording, memory_dumps, many, CHROMIUM], {
        "heap": HEAP,
        "hostileType": HOSTILE_TYPE,
        "processes": PROCESSES,
        "chromium": chromium,
        "reports": [report(recording, "--dump", str(dump + 1)) for dump in range(dumps)],
        "memoryDumps": report(memory_dumps),
        "types": change["rows"],
        "total": change["total"]["space"],
    }
