#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Run whole test suites of other projects with and without a profiler, and compare case by case.

    bench/whole_suites.py cpython [MODULE...]     every module of CPython's own tests
    bench/whole_suites.py redis DIR [TEST...]     ./runtest in DIR, a redis source tree with src/redis-server
    bench/whole_suites.py stress [STRESSOR...]    stress-ng's memory class, two seconds each
    bench/whole_suites.py allocators DIR          the programs of mimalloc-bench, built in DIR/out/bench,
                                                  on glibc, jemalloc, mimalloc and tcmalloc
    bench/whole_suites.py end [MODULE...]         modules of CPython's with many processes as one command,
                                                  every allocation sampled: how long the profiler goes on
                                                  after the command's end, its memory, and the trace's size

Prints a line for each case and a summary. The exit status is 1 if a case differs that has the same
result in every run without the profiler. HEAPPROFD_BUILD names the build directory. Takes from
minutes (stress, allocators) to hours (cpython).
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
os.environ.setdefault("HEAPPROFD_BUILD", os.path.join(ROOT, "build"))
sys.path.insert(0, os.path.join(ROOT, "tests", "e2e"))
import harness  # noqa: E402
import suites  # noqa: E402

TIMEOUT_S = 1200
BARE_RUNS_MORE = 3
DIFFERS, SAME, UNSTABLE = "differs", "same", "unstable without us"


class Outcome:
    """The result of a command: its status (None: timeout) and its output without numbers."""

    def __init__(self, command, environment=None, cwd=None):
        began = time.monotonic()
        with tempfile.TemporaryFile() as stream:
            child = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=stream, stderr=subprocess.STDOUT,
                env={**os.environ, **(environment or {})}, cwd=cwd, start_new_session=True,
            )
            try:
                self.status = child.wait(TIMEOUT_S)
            except subprocess.TimeoutExpired:
                os.killpg(child.pid, 9)
                child.wait()
                self.status = None
            stream.seek(0)
            self.output = stream.read().decode(errors="replace")
        self.seconds = time.monotonic() - began


def profiled(command, output):
    return harness.host_command(command, output, 4096, "--follow-children")


def lost_samples(output):
    """Return {reason: count} of the losses in the profile, and its number of samples."""
    report = harness.run([harness.TOOL, "report", "--json", output])
    if report.status != 0:
        return {"no report": 1}, 0
    lost, samples = {}, 0
    for heap in json.loads(report.stdout)["heaps"]:
        samples += heap["heap_samples"] or 0
        for reason, count in heap["lost"].items():
            if count and reason != "unwind":
                lost[reason] = lost.get(reason, 0) + count
    return lost, samples


def compare(name, command, judge, environment=None, cwd=None):
    """Run the command bare and profiled. `judge` turns a result into the part that must be equal."""
    bare = Outcome(command, environment, cwd)
    with tempfile.TemporaryDirectory(prefix="whole-") as directory:
        output = os.path.join(directory, "profile")
        ours = Outcome(profiled(command, output), environment, cwd)
        lost, samples = lost_samples(output)
    verdict, expected, got = SAME, judge(bare), judge(ours)
    if got != expected:
        others = [judge(Outcome(command, environment, cwd)) for _ in range(BARE_RUNS_MORE)]
        verdict = UNSTABLE if any(other != expected for other in others) else DIFFERS
    print(f"{name}: {verdict}; {bare.seconds:.1f} s bare, {ours.seconds:.1f} s profiled, "
          f"{samples} samples, lost {lost or 'nothing'}", flush=True)
    if verdict != SAME:
        print(f"  bare: {expected}\n  profiled: {got}", flush=True)
    return verdict


def summarize(verdicts):
    counts = {verdict: verdicts.count(verdict) for verdict in (SAME, UNSTABLE, DIFFERS)}
    print(f"{len(verdicts)} cases: {counts[SAME]} the same, {counts[UNSTABLE]} unstable without us, "
          f"{counts[DIFFERS]} differ")
    return 1 if counts[DIFFERS] else 0


# --- CPython ---


def cpython(modules):
    suites.need_tests()
    if not modules:
        listed = harness.run([suites.PYTHON, "-m", "test", "--list-tests"])
        modules = [line[5:] for line in listed.stdout.decode().split() if line.startswith("test_")]
    for module in modules:
        try:
            suites.compare_module(module, [])
        except (subprocess.TimeoutExpired, AssertionError) as trouble:
            harness.fail(f"test_{module}: {trouble}")
    harness.finish()


# --- redis ---

REDIS_TEST = re.compile(r"^\[(ok|err|exception|skip|ignore)\]: (.*?)(?: \([\d.]+ m?s\))?$", re.M)


def redis_tests(directory):
    listed = Outcome(["./runtest", "--list-tests"], cwd=directory)
    return re.findall(r"^\S+/\S+$", listed.output, re.M)


def redis(directory, tests):
    def judge(outcome):
        plain = re.sub(r"\x1b\[[\d;]*m", "", outcome.output)
        cases = sorted((test, end) for end, test in REDIS_TEST.findall(plain))
        return outcome.status, tuple((re.sub(r"\d+", "N", test), end) for test, end in cases)

    verdicts = []
    for test in tests or redis_tests(directory):
        command = ["./runtest", "--clients", "1", "--single", test, "--baseport", "24111"]
        verdicts.append(compare(test, command, judge, cwd=directory))
    return summarize(verdicts)


# --- stress-ng ---


def stress(stressors):
    if not stressors:
        words = Outcome(["stress-ng", "--class", "memory?"]).output
        stressors = words.split(":", 1)[1].split()

    def judge(outcome):
        plain = re.sub(r"\[\d+\]|\d+(\.\d+)?", "-", outcome.output)
        bad = [line for line in plain.splitlines() if re.search(r"fail|error|unexpected", line)]
        return outcome.status, tuple(sorted(set(bad)))

    verdicts = []
    with tempfile.TemporaryDirectory(prefix="whole-") as directory:
        for stressor in stressors:
            command = [
                "prlimit", "--as=4294967296", "stress-ng", f"--{stressor}", "1", "-t", "2",
                "--verify", "--temp-path", directory, "--oomable",
            ]
            verdicts.append(compare(stressor, command, judge))
    return summarize(verdicts)


# --- allocators ---

LIBRARIES = {
    "glibc": None,
    "jemalloc": "libjemalloc.so.2",
    "mimalloc": "libmimalloc.so.2.0",
    "tcmalloc": "libtcmalloc_minimal.so.4",
}
BENCHES = {
    "cfrac": ["17545186520507317056371138836327483792789528"],
    "espresso": ["{source}/espresso/largest.espresso"],
    "barnes": [],
    "larson": ["2.5", "7", "8", "1000", "5000", "100", "4141"],
    "xmalloc-test": ["-w", "2", "-t", "5", "-s", "64"],
    "cache-scratch": ["1", "1000", "1", "200000", "2"],
    "cache-thrash": ["1", "1000", "1", "200000", "2"],
    "glibc-simple": [],
    "glibc-thread": ["2"],
    "mstress": ["2", "50", "20"],
    "rptest": ["2", "0", "1", "2", "100", "1000", "100", "8", "16000"],
    "alloc-test": ["1"],
    "malloc-large": [],
    "mleak": ["10"],
    "sh6bench": ["4"],
    "sh8bench": ["4"],
    "rbstress": ["2"],
}


def allocators(directory):
    def judge(outcome):
        # By words: the lines of several threads are mixed.
        return outcome.status, tuple(sorted(set(re.sub(r"[\d.:]+", "-", outcome.output).split())))

    verdicts = []
    for bench, arguments in BENCHES.items():
        program = os.path.join(directory, "out", "bench", bench)
        if not os.path.exists(program):
            continue
        source = os.path.join(directory, "bench")
        command = [program, *(argument.format(source=source) for argument in arguments)]
        standard_input = os.path.join(source, bench, "input")
        if os.path.isfile(standard_input):
            command = ["sh", "-c", 'exec "$@" < "$0"', standard_input, *command]
        for name, library in LIBRARIES.items():
            environment = {"LD_PRELOAD": library} if library else {}
            verdicts.append(compare(f"{bench} on {name}", command, judge, environment))
    return summarize(verdicts)


# --- the profiler's own end ---

MANY_PROCESSES = [
    "cmd_line", "cmd_line_script", "compileall", "concurrent_futures", "distutils", "ensurepip", "faulthandler",
    "gc", "import", "multiprocessing_fork", "multiprocessing_forkserver", "os", "popen", "regrtest", "runpy",
    "signal", "site", "subprocess", "support", "sys", "threading", "traceback", "utf8_mode", "venv", "warnings",
]
POLL_S = 0.2
KEPT_AND_LOST = """select name, sum(value) as sum, count(distinct idx) as processes from stats
    where value > 0 and (name = 'heapprofd_unwind_samples' or name like '%lost%') group by name"""


def peak_bytes(pid):
    try:
        with open(f"/proc/{pid}/status") as file:
            return int(re.search(r"VmHWM:\s+(\d+)", file.read()).group(1)) * 1024
    except (OSError, AttributeError):
        return 0


def one_run(command, stamp, cwd):
    """Seconds until the command's end, seconds from there to our child's end, and our child's peak memory."""
    began, peak = time.time(), 0
    timed = ["sh", "-c", '"$@"; date +%s.%N >"$0"', stamp]
    child = subprocess.Popen(command(timed), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, cwd=cwd)
    while True:
        peak = max(peak, peak_bytes(child.pid))
        try:
            child.wait(POLL_S)
            break
        except subprocess.TimeoutExpired:
            pass
    ended = time.time()
    with open(stamp) as file:
        inner = float(file.read())
    return inner - began, ended - inner, peak


def end(modules):
    suites.need_tests()
    with tempfile.TemporaryDirectory(prefix="whole-") as directory:
        tests = [suites.PYTHON, "-m", "test", "-j2", *(f"test_{module}" for module in modules or MANY_PROCESSES)]
        stamp, output = os.path.join(directory, "stamp"), os.path.join(directory, "profile")
        seconds, _, _ = one_run(lambda timed: [*timed, *tests], stamp, directory)
        print(f"without the profiler: {seconds:.0f} s", flush=True)
        seconds, after, peak = one_run(
            lambda timed: harness.host_command([*timed, *tests], output, 1, "--follow-children"), stamp, directory)
        size = os.path.getsize(os.path.join(output, "raw-trace"))
        print(f"profiled: {seconds:.0f} s, the profiler's end {after:.1f} s later, its memory {peak / 1e6:.0f} MB, "
              f"trace of {size / 1e6:.0f} MB", flush=True)
        # Every process's stacks as JSON would be gigabytes.
        print(harness.run([harness.TOOL, "query", output, KEPT_AND_LOST], timeout=600).stdout.decode(), end="")
    return 0


def main():
    words = sys.argv[1:]
    if words[:1] == ["cpython"]:
        return cpython(words[1:])
    if words[:1] == ["redis"] and len(words) > 1:
        return redis(words[1], words[2:])
    if words[:1] == ["end"]:
        return end(words[1:])
    if words[:1] == ["stress"]:
        return stress(words[1:])
    if words[:1] == ["allocators"] and len(words) == 2 and shutil.which("cmake"):
        return allocators(words[1])
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    harness.limit_core_dumps()
    sys.exit(main())
