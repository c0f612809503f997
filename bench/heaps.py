# SPDX-License-Identifier: Apache-2.0
"""Measure the costs of reports to custom heaps (bench/heaps.c): linked to the no-op library, to the
client without a session, with a session of the heap that does not sample, and with samples.

    bench/heaps.py      prints the table
"""

import os
import subprocess
import tempfile

from common import BUILD, ROOT, TOOL, figure_of

RUNS = 5
MANY, SAMPLED = 5000000, 20000
UNSAMPLED, EVERY = 1 << 40, 1

LIBRARIES = {
    "noop": ["libheapprofd_noop.a"],
    "shared": ["libheapprofd_client.so", f"-Wl,-rpath,{BUILD}"],
    "archive": ["libheapprofd_client.a"],
}


def build(directory):
    programs = {}
    for name, (library, *options) in LIBRARIES.items():
        programs[name] = os.path.join(directory, name)
        subprocess.run(
            ["gcc", "-O2", f"-I{ROOT}/include", "-o", programs[name],
             os.path.join(ROOT, "bench", "heaps.c"), os.path.join(BUILD, library), *options],
            check=True,
        )
    return programs


def run(program, *arguments, interval=None, preload=False):
    """Return nanoseconds, the median of five runs; with an interval, under a session of the heap."""
    command = [program, *map(str, arguments)]
    heaps = "libc.malloc,bench" if preload else "bench"
    figures = []
    for _ in range(RUNS):
        with tempfile.TemporaryDirectory() as work:
            session = [TOOL, "host", "--quiet", "-i", str(interval), "--heaps", heaps,
                       "--shmem-size", str(256 << 20), "-o", os.path.join(work, "profile"), "--"]
            full = [*session, *command] if interval else command
            figures.append(float(subprocess.run(full, capture_output=True, check=True).stdout))
    return figure_of(figures)


def measure_heaps():
    """Return {kind: {state: nanoseconds}}. "deep" has the sampled reports."""
    found = {}
    with tempfile.TemporaryDirectory() as directory:
        programs = build(directory)
        for kind in ("empty", "report", "typed", "free", "scope"):
            found[kind] = {
                "noop": run(programs["noop"], kind, MANY),
                "idle": run(programs["shared"], kind, MANY),
                "idle_archive": run(programs["archive"], kind, MANY),
                "unsampled": run(programs["shared"], kind, MANY, interval=UNSAMPLED),
            }
        for frames in (1, 16):
            found[f"deep{frames}"] = {
                "idle": run(programs["shared"], "deep", SAMPLED, frames),
                "sampled": run(programs["shared"], "deep", SAMPLED, frames, interval=EVERY),
            }
    return found


NAMES = {
    "report": "`AHeapProfile_reportAllocation`",
    "typed": "`HeapProfile_reportAllocationOfType`",
    "free": "`AHeapProfile_reportFree`",
    "scope": "a scope, pushed and popped",
}


def table_of_heaps(found):
    lines = [
        "| what | no-op library | nobody profiles | the same, archive | profiled, not sampled |",
        "|---|---|---|---|---|",
    ]
    for kind, name in NAMES.items():
        states = found[kind]
        columns = ("noop", "idle", "idle_archive", "unsampled")
        lines.append(f"| {name} | " + " | ".join(f"{states[c]:.1f}" for c in columns) + " |")
    for frames in (1, 16):
        states = found[f"deep{frames}"]
        lines.append(
            f"| report and free, every one sampled, {frames} frames besides its program's "
            f"| | {states['idle']:.1f} | | {states['sampled']:.0f} (sampled) |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    print(table_of_heaps(measure_heaps()))
