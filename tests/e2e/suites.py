#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Other projects' stress tests under the preload library: stress-ng's stressors and CPython's own tests have
the same results as without it.

    suites.py CASE

cpython runs the modules that take seconds, without their tests that wait: half a minute.
HEAPPROFD_LONG_TESTS=1 makes it run all ten modules whole: eight minutes. bench/whole_suites.py runs
one alone.
"""

import collections
import json
import os
import re
import shutil
import tempfile
import xml.etree.ElementTree

import harness
from daemon import LIBRARY, Session, scene
from harness import LONG, TOOL, check, fail, need, run

# Beginnings of harmless remarks: about a forked child, and about one that allocated little.
CALM_REMARKS = ("The process began as a copy of its parent", "Nothing was sampled of what it allocated")


def judge(directory, what):
    """Check that the profile opens and has samples, and that none were lost. Return the report's heaps."""
    outcome = run([TOOL, "report", "--json", "--top", "1", directory])
    if not check(outcome.status == 0, f"{what}: report: {outcome.status} {outcome.stderr!r}"):
        return []
    heaps = json.loads(outcome.stdout)["heaps"]
    check(any(heap["heap_samples"] for heap in heaps), f"{what}: an empty profile")
    for heap in heaps:
        lost = {reason: count for reason, count in heap["lost"].items()
                if count and reason not in harness.INCOMPLETE}
        whose = f"{what}: {heap['command'][:100]} ({heap['pid']})"
        check(lost == {}, f"{whose}: lost {lost}")
        for trouble in ("incomplete", "buffer_overran", "buffer_corrupted", "client_error"):
            check(not heap[trouble], f"{whose}: {trouble}")
    return heaps


# --- stress-ng ---

# What stress-ng itself allocates at least, before it forks: 67 kB by valgrind where it finds few
# devices, and more elsewhere.
STARTER_BYTES = 60_000


def verdict(outcome):
    """Return the exit code, and the messages without pids and times."""
    lines = re.sub(r"\[\d+\]", "[]", (outcome.stdout + outcome.stderr).decode()).splitlines()
    remarks = [line for line in lines if "metrc:" not in line]
    return outcome.status, re.sub(r"\d+\.\d+", "-", "\n".join(remarks))


def operations_done(path):
    with open(path) as metrics:
        found = re.search(r"bogo-ops: (\d+)", metrics.read())
    return int(found.group(1)) if found else 0


def stress(name, operations, least_bytes=STARTER_BYTES):
    """Compare a stressor with and without the profiler.

    stress-ng and the process that it forks allocate at least least_bytes.
    """
    need("stress-ng")
    with scene() as (daemon, directory):
        metrics = os.path.join(directory, "metrics")
        # A unique name: a session by name takes every such process of the machine.
        tool = os.path.join(directory, f"stress_{name}_{os.getpid()}")
        shutil.copy(shutil.which("stress-ng"), tool)
        command = [
            tool, f"--{name}", "1", f"--{name}-ops", str(operations), "--verify",
            "--metrics-brief", "--yaml", metrics, "--temp-path", directory,
        ]
        preloaded = {**daemon.environment, "LD_PRELOAD": LIBRARY}

        def compare(outcome, what):
            check(verdict(outcome) == bare, f"{name} {what}: {verdict(outcome)}, bare {bare}")
            done = operations_done(metrics)
            check(done >= operations, f"{name} {what}: {done} operations")
            os.unlink(metrics)

        def judge_stress(output, what):
            heaps = judge(output, f"{name} {what}")
            for heap in heaps:
                remark = heap["remark"] if heap["exact_calls"] else ""  # else it allocated nothing
                padded = "'' ''" in heap["command"]  # after stress-ng's own title
                check(not padded, f"{name} {what}: command {heap['command']}")
                check(remark == "" or remark.startswith(CALM_REMARKS), f"{name} {what}: {remark}")
            allocated = sum(heap["exact_bytes"] or 0 for heap in heaps)  # None: unknown
            check(allocated >= least_bytes, f"{name} {what}: {allocated} bytes allocated")
            samples = sum(heap["heap_samples"] for heap in heaps)
            print(f"{name} {what}: {len(heaps)} processes, {samples} samples, {allocated} bytes")

        bare = verdict(run(command))
        check(bare[0] == 0 and "successful" in bare[1], f"{name} fails without us: {bare}")
        os.unlink(metrics)
        compare(run(command, env=preloaded), "dormant")

        output = os.path.join(directory, "host")
        compare(run(harness.host_command(command, output, 4096, "--follow-children")), "in host")
        judge_stress(output, "in host")

        output = os.path.join(directory, "session")
        session = Session(
            daemon, output, "-n", os.path.basename(tool), "--no-running", "--follow-children", "-i", "4096"
        )
        compare(run(command, env=preloaded), "in a session")
        check(session.end() == 0, f"{name} in a session: {session.stderr}")
        judge_stress(output, "in a session")


def stressor(*arguments):
    return lambda: stress(*arguments)


test_stress_malloc = stressor("malloc", 20000, 100_000_000)
test_stress_fork = stressor("fork", 1000)
test_stress_vfork = stressor("vfork", 1000)
test_stress_clone = stressor("clone", 60)
test_stress_pthread = stressor("pthread", 500, 1_000_000)
test_stress_sigsegv = stressor("sigsegv", 50000)
test_stress_context = stressor("context", 1000)
test_stress_stack = stressor("stack", 1)  # an operation takes a second

# --- CPython ---

PYTHON = "/usr/bin/python3"
MODULE_TIMEOUT = 600
BARE_RUNS_MORE = 3

# Tests that the short form leaves out, because they wait for seconds.
SHORT = {
    "gc": ["*.test_trashcan_threads"],
    "mmap": [],
    "fork1": ["*.test_wait"],
    "signal": [
        "*.SiginterruptTest.*", "*.test_interprocess_signal", "*.test_wakeup_fd_*", "*.test_sig*wait*",
        "*.ItimerTest.*",
    ],
    "os": [],
    "threading": [],
}
LONG_ONLY = ["json", "re", "subprocess", "asyncio"]
SUBTEST = "(tests of which a part failed)"  # these have no name in the results


def read_results(path):
    """Return {test: its results}, and {test: its message when it failed}."""
    results, words = {}, {}
    if not os.path.exists(path):
        return results, words
    for case in xml.etree.ElementTree.parse(path).iter("testcase"):
        name = case.get("name", SUBTEST)
        ends = [kind for kind in ("error", "failure", "skipped") if case.find(kind) is not None]
        results.setdefault(name, []).extend(ends or ["passed"])
        if ends:
            words[name] = case.find(ends[0]).text
    return {name: sorted(ends) for name, ends in results.items()}, words


def run_module(module, prefix=(), only=(), ignored=()):
    """Run python3 -m test once. Return its status, results and messages."""
    with tempfile.TemporaryDirectory(prefix="test-py-") as directory:
        path = os.path.join(directory, "results.xml")
        chosen = [word for name in only for word in ("-m", name)]
        chosen += [word for pattern in ignored for word in ("-i", pattern)]
        outcome = run(
            [*prefix, PYTHON, "-m", "test", "--junit-xml", path, *chosen, f"test_{module}"],
            env={"PYTHONMALLOC": "malloc", "TMPDIR": directory}, cwd=directory,
            timeout=MODULE_TIMEOUT,
        )
        results, words = read_results(path)
        if not results and outcome.status == 0:  # skipped as a whole, or only doctests
            results = {"(all of it)": ["skipped" if b"skipped" in outcome.stdout else "passed"]}
        if not results:
            fail(f"test_{module} {prefix[:2]} ended without results: {outcome.status} "
                 f"{outcome.stdout[-500:]!r} {outcome.stderr[-500:]!r}")
        return outcome.status, results, words


def unstable_without_us(module, names, bare):
    """Return those of the tests whose results vary between bare runs."""
    only = [] if SUBTEST in names else names
    found = {}
    for _ in range(BARE_RUNS_MORE):
        _, again, _ = run_module(module, only=only)
        for name in names:
            if again.get(name) != bare.get(name):
                found.setdefault(name, []).append(again.get(name))
    return found


def compare_module(module, ignored):
    what = f"test_{module}"
    bare_status, bare, _ = run_module(module, ignored=ignored)
    with tempfile.TemporaryDirectory(prefix="test-py-") as directory:
        output = os.path.join(directory, "profile")
        prefix = harness.host_command([], output, 4096, "--follow-children")
        status, ours, words = run_module(module, prefix, ignored=ignored)
        heaps = judge(output, what)
    differing = sorted(name for name in {*bare, *ours} if bare.get(name) != ours.get(name))
    unstable = unstable_without_us(module, differing, bare) if differing else {}
    for name in differing:
        if name in unstable:
            print(f"{what}: unstable without us, too: {name}: {bare.get(name)}, {unstable[name]}")
            continue
        fail(f"{what}: {name}: {ours.get(name)}, bare {bare.get(name)}: {words.get(name, '')}")
    if not unstable:
        check(status == bare_status, f"{what}: status {status}, bare {bare_status}")
    ends = collections.Counter(end for ends in ours.values() for end in ends)
    samples = sum(heap["heap_samples"] for heap in heaps)
    print(f"{what}: {dict(ends)}, {len(unstable)} unstable; {len(heaps)} processes, "
          f"{samples} samples", flush=True)


def need_tests():
    if run([PYTHON, "-c", "import test.test_json, test.libregrtest"]).status != 0:
        harness.skip("CPython's tests are not installed")


def test_cpython():
    need_tests()
    for module, ignored in SHORT.items():
        compare_module(module, [] if LONG else ignored)
    for module in LONG_ONLY if LONG else []:
        compare_module(module, [])


if __name__ == "__main__":
    harness.limit_core_dumps()
    harness.main()
