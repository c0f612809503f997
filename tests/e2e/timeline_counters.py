#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What a session records beside the heap: the counters and lifetimes in its trace are those of /proc.

    timeline_counters.py CASE
"""

import contextlib
import json
import os
import signal
import subprocess
import tempfile
import time

import harness
from harness import TOOL, check, need, run

PATIENCE = 60
PRESSURE = "/proc/pressure/memory"
# Stops at each line of input, and says when it is there.
STEPS = """
import sys, mmap
def step(): print("ready", flush=True); return sys.stdin.readline()
step()
block = mmap.mmap(-1, 40 << 20)
for at in range(0, len(block), 4096): block[at] = 1
step()
block.close()
step()
"""


def query(trace, sql):
    outcome = run([TOOL, "query", "--json", trace, sql])
    check(outcome.status == 0, f"query: {outcome.stderr!r}")
    return json.loads(outcome.stdout)


def counters(trace, name):
    """Return the values of a counter, by time."""
    rows = query(trace, "select ts, value from counter join counter_track on counter_track.id = track_id "
                 f"where name = '{name}' order by ts")
    return [(row["ts"], row["value"]) for row in rows]


def boottime():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def status_of(pid):
    with open(f"/proc/{pid}/status") as file:
        return {line.split()[0]: int(line.split()[1]) * 1024 for line in file if line.endswith(" kB\n")}


def faults_of(pid):
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return int(fields[7]), int(fields[9])


def process_name(pid):
    with open(f"/proc/{pid}/comm") as file:
        return file.read().strip()


def wait_for(condition, what):
    end = time.monotonic() + PATIENCE
    while not condition():
        check(time.monotonic() < end, f"did not happen in {PATIENCE} s: {what}") or harness.finish()
        time.sleep(0.1)


@contextlib.contextmanager
def hosted(command, *options):
    """Run a command under the profiler. Yield the process of heap_profile and the trace."""
    with tempfile.TemporaryDirectory(prefix="test-") as directory:
        output = os.path.join(directory, "profile")
        process = subprocess.Popen(harness.host_command(command, output, 65536, *options), stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0)
        try:
            yield process, os.path.join(output, "raw-trace")
        finally:
            process.stdin.close()
            process.kill()
            process.wait()
            process.stdout.close()


def finish(process):
    process.stdin.close()
    process.wait(PATIENCE)


def test_process_counters():
    """While the program waits, each counter in the trace is what /proc says."""
    need("python3")
    with hosted(["python3", "-c", STEPS], "-c", "300") as (process, trace):
        for step in range(3):
            check(process.stdout.readline() == b"ready\n", "the program does not answer")
            began = boottime()
            wait_for(lambda began=began: any(ts > began for ts, _ in counters(trace, "mem.rss")), "a reading")
            wait_for(lambda began=began: any(ts > began for ts, _ in counters(trace, "mem.smaps.rss")), "a dump")
            pid = query(trace, "select pid from process where name like '%python3'")[-1]["pid"]
            status, faults = status_of(pid), faults_of(pid)
            for name, line in (("mem.rss", "VmRSS:"), ("mem.rss.anon", "RssAnon:"), ("mem.rss.file", "RssFile:"),
                               ("mem.rss.shmem", "RssShmem:"), ("mem.swap", "VmSwap:"), ("mem.virt", "VmSize:"),
                               ("mem.locked", "VmLck:"), ("mem.rss.watermark", "VmHWM:")):
                got = [value for ts, value in counters(trace, name) if ts > began][0]
                # The client and the kernel may touch a few pages more.
                check(abs(got - status[line]) <= 512 * 1024, f"step {step}: {name} {got:,}, not {status[line]:,}")
            for name, wanted in zip(("mem.faults.minor", "mem.faults.major"), faults):
                got = counters(trace, name)[-1][1]
                check(abs(got - wanted) <= 200, f"step {step}: {name} {got:,}, not {wanted:,}")
            got = counters(trace, "mem.smaps.rss")[-1][1]
            check(abs(got - status["VmRSS:"]) <= 1 << 20, f"step {step}: smaps {got:,}, not {status['VmRSS:']:,}")
            process.stdin.write(b"\n")
        finish(process)
        faults = [value for _, value in counters(trace, "mem.faults.minor")]
        check(faults == sorted(faults) and faults[-1] - faults[0] > 10000, f"minor faults {faults[0]} to {faults[-1]}")
        peak = max(value for _, value in counters(trace, "mem.rss"))
        # The kernel's watermark is less exact than its sum.
        check(counters(trace, "mem.rss.watermark")[-1][1] >= peak - (1 << 20), "the watermark is below the RSS")
        row, = query(trace, "select start_ts, end_ts from process where name like '%python3'")
        check(row["start_ts"] < row["end_ts"] < boottime(), f"lifetime {row}")


THREADS = """
import ctypes, sys, threading, time
name = lambda text: ctypes.CDLL(None).prctl(15, text, 0, 0, 0)
def work(go, text): bytes(1 << 20); name(text); go.wait()
def step(text): print(text, time.clock_gettime_ns(7), flush=True); sys.stdin.readline()
early, late = threading.Event(), threading.Event()
step("alone")
one = threading.Thread(target=work, args=(early, b"early")); one.start()
two = threading.Thread(target=work, args=(late, b"late")); two.start()
step("three")
early.set(); one.join(); name(b"renamed")
step("two")
late.set(); two.join()
"""


def test_threads():
    """Threads have their names, their starts and their ends, and the process has its own.

    The first sample of each is older than its name: a checkpoint must not bring the old one back."""
    need("python3")
    times = {}

    def answered(process):
        text, at = process.stdout.readline().decode().split()
        times[text] = int(at)

    def named(trace, name):
        return query(trace, f"select * from thread where name = '{name}'")

    with hosted(["python3", "-c", THREADS]) as (process, trace):
        answered(process)
        wait_for(lambda: query(trace, "select 1 from thread where name = 'python3'"), "the main thread")
        process.stdin.write(b"\n")
        answered(process)
        wait_for(lambda: named(trace, "early") and named(trace, "late"), "threads with names")
        wait_for(lambda: query(trace, "select 1 from heap_profile_allocation limit 1"), "a checkpoint")
        check(named(trace, "early") and named(trace, "late"), "a checkpoint has other names")
        process.stdin.write(b"\n")
        answered(process)
        wait_for(lambda: named(trace, "early")[0]["end_ts"] and named(trace, "renamed"), "the end of a thread")
        check(named(trace, "late")[0]["end_ts"] is None, "a thread that runs has ended")
        process.stdin.write(b"\n")
        finish(process)
        (early,), (late,), (main,) = named(trace, "early"), named(trace, "late"), named(trace, "renamed")
        # The kernel's start is in hundredths of a second.
        for thread in (early, late):
            check(times["alone"] - 10**7 <= thread["start_ts"] <= times["three"], f"start of {thread}: {times}")
        check(times["three"] < early["end_ts"], f"{early}: {times}")
        check(times["two"] < late["end_ts"] <= main["end_ts"], f"{late}, {main}: {times}")
        check(main["is_main_thread"] == 1 and early["upid"] == main["upid"], f"{main}, {early}")


def test_machine():
    """The machine's counters are those of /proc; what the kernel does not have is left out."""
    def vmstat():
        with open("/proc/vmstat") as file:
            return {line.split()[0]: int(line.split()[1]) for line in file}

    before = vmstat()
    with hosted(["sleep", "1.5"]) as (process, trace):
        process.wait(PATIENCE)
        after = vmstat()
        names = {row["name"] for row in query(trace, "select name from counter_track")}
        with open("/proc/meminfo") as file:
            meminfo = {line.split(":")[0]: int(line.split()[1]) * 1024 for line in file}
        for name in ("MemTotal", "MemFree", "MemAvailable", "SwapTotal", "SwapFree"):
            check((name in names) == (name in meminfo), f"{name} in the trace: {names}")
        for name in ("MemTotal", "SwapTotal"):
            check({value for _, value in counters(trace, name)} == {meminfo[name]}, name)
        for name in ("pgfault", "pgmajfault", "pswpin", "pswpout", "oom_kill"):
            values = [value for _, value in counters(trace, name)]
            check(bool(values) == (name in before), f"{name}: {values}")
            check(all(before[name] <= value <= after[name] for value in values), f"{name}: {values}")
        try:
            with open(PRESSURE) as file:
                total = int(file.read().split("total=")[1].split()[0]) * 1000
        except OSError:
            check("psi.mem.some" not in names, "pressure without a kernel that has it")
            return
        values = [value for _, value in counters(trace, "psi.mem.some")]
        check(values and all(0 <= value <= total for value in values), f"pressure {values}, at last {total}")


def test_periods():
    """--timeline and the data sources of a configuration set what is recorded, and how often."""
    need("python3")
    command = ["python3", "-c", "import time; time.sleep(1)"]
    with hosted(command, "--timeline", "off") as (process, trace):
        process.wait(PATIENCE)
        check(query(trace, "select count(*) as n from counter")[0]["n"] == 0, "off records counters")
        check(query(trace, "select count(live_size) as n from hp_timeline")[0]["n"] > 2, "off stops the heap's size")
    with hosted(command, "--timeline", "700") as (process, trace):
        process.wait(PATIENCE)
        times = [ts for ts, _ in counters(trace, "mem.rss")]
        # Beside one in each period: at the beginning, each exec, each dump and the end.
        most = (times[-1] - times[0]) / 700e6 + 4 if times else 0
        check(1 <= len(times) <= most, f"not the period of --timeline: {times}")
    outcome = run([TOOL, "host", "--timeline", "x", "--", "true"])
    check(outcome.status == 125 and b"--timeline" in outcome.stderr, f"{outcome.stderr!r}")
    outcome = run([TOOL, "host", "--timeline", "99", "--", "true"])
    check(outcome.status == 125 and b"at least 100 milliseconds" in outcome.stderr, f"{outcome.stderr!r}")


BECOMES = """
import os, sys
block = b"x" * (40 << 20)
sys.stdin.readline()
os.execvp("sleep", ["sleep", "60"])
"""


def test_exec():
    """scan_smaps_rollup divides the pages of each program, also of one after another in a process."""
    need("python3", "sleep")
    config = ("data_sources {{ config {{ name: 'android.heapprofd' heapprofd_config {{ sampling_interval_bytes: 65536 "
              "pid: {} continuous_dump_config {{ dump_interval_ms: 300 }} }} }} }} data_sources {{ config {{ "
              "name: 'linux.process_stats' process_stats_config {{ scan_smaps_rollup: true }} }} }}")
    with tempfile.TemporaryDirectory(prefix="test-") as directory:
        trace = os.path.join(directory, "trace")

        def sums():
            return [value for _, value in counters(trace, "mem.smaps.pss.anon")]

        process = subprocess.Popen(["python3", "-c", BECOMES], stdin=subprocess.PIPE)
        session = subprocess.Popen([TOOL, "record", "--quiet", "-c", "-", "-o", trace], stdin=subprocess.PIPE,
                                   stderr=subprocess.DEVNULL, env={**os.environ, "HEAPPROFD_RUN_DIR": directory})
        try:
            session.stdin.write(config.format(process.pid).encode())
            session.stdin.close()
            wait_for(lambda: os.path.exists(trace) and any(value > 40 << 20 for value in sums()), "a dump")
            process.stdin.close()
            wait_for(lambda: process_name(process.pid) == "sleep", "the next program")
            session.send_signal(signal.SIGINT)
            check(session.wait(PATIENCE) == 0, f"the session ended with {session.returncode}")
        finally:
            session.kill()
            process.kill()
            session.wait()
            process.wait()
        large = {ts for ts, value in counters(trace, "mem.smaps.rss") if value > 40 << 20}
        values = [value for ts, value in counters(trace, "mem.smaps.pss.anon") if ts in large]
        check(min(values) > 1 << 20, f"pages of sleep among those of python3: {values}")


def test_children():
    """The children of a real program have lifetimes that follow each other."""
    need("git")
    with tempfile.TemporaryDirectory(prefix="test-") as directory:
        script = ("git init -q . && git config user.email a@b.c && git config user.name a && touch f && "
                  "git add f && git commit -qm f && git gc -q && git log --stat")
        with hosted(["sh", "-c", f"cd {directory} && {script}"], "--follow-children") as (process, trace):
            process.wait(PATIENCE)
            rows = query(trace, "select pid, name, start_ts, end_ts from process where start_ts is not null")
            check(len(rows) > 5, f"{len(rows)} processes")
            for row in rows:
                check(row["end_ts"] is not None and row["start_ts"] <= row["end_ts"], f"lifetime of {row}")


if __name__ == "__main__":
    harness.main()
