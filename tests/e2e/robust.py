#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Programs that make it hard for a profiler in their process: they behave the same with and without it,
and at interval 1 the profile is exact.

    robust.py CASE

Each program of tests/programs prints its own true figures (see truth.h there).
"""

import concurrent.futures
import json
import os
import platform
import re
import signal
import subprocess
import sys
import tempfile
import time

import harness
from daemon import figure, report_of
from harness import check, fail, program


BUFFER_OVERRAN = 7  # a field of Perfetto's ProcessHeapSamples


def check_truth(profile, stdout, what):
    """Compare the profile with the true figures that the program printed."""
    lines = re.findall(rb"^truth: (\S+) (\S+) (\d+)$", stdout, re.M)
    check(lines, f"{what}: the program printed no true figures")
    known = profile.process()
    remark = known.process.remark if known.process else "it has no profile"
    for function, size, calls in lines:
        function, calls = function.decode(), int(calls)
        found = known.allocated_by(function)
        check(
            round(found.alloc_objects) == calls,
            f"{what}: {function}: {found.alloc_objects} calls in the profile, {calls} in truth, "
            f"{known.total.alloc_objects} of all functions. {remark}",
        )
        if size != b"-":
            check(
                round(found.alloc_space) == int(size),
                f"{what}: {function}: {found.alloc_space} bytes in the profile, {int(size)} in truth",
            )


def check_program(name, *arguments, options=(), truth=True, stderr=True):
    """Run a program as usual: at interval 1 with exact figures, at 4096 for the same behaviour."""
    command = [program(name), *arguments]
    what = " ".join([name, *arguments])
    outcome, profile = harness.same_with_and_without(command, 1, options, stderr)
    check(outcome.status == 0, f"{what}: status {outcome.status}")
    if check(profile is not None, f"{what}: no profile"):
        if truth:
            check_truth(profile, outcome.stdout, what)
        check(profile.lost() == {}, f"{what}: lost {profile.lost()}")
    harness.same_with_and_without(command, 4096, options, stderr)
    return profile


def simple(name, *arguments, **options):
    return lambda: check_program(name, *arguments, **options)


def test_limits_from_start():
    """A program whose limits are set before it starts runs as without the profiler."""
    limits = program("limits")
    for limit, what in (("-v 40000", "files"), ("-d 28000", "data"), ("-n 4", "files"),
                        ("-s 64", "files")):
        limit = f"ulimit {limit}"
        command = ["/bin/sh", "-c", f"{limit}; exec {limits} {what}"]
        for interval in (1, 4096):
            bare = harness.run(command)
            ours, _ = harness.profile(command, interval)
            ours.check_same(bare, limit)
            check(bare.status == 0, f"{limit}: fails without us, too: {bare.stderr}")


def test_children():
    check_program("children")
    command = [program("children")]
    bare = harness.run(command)
    ours, profile = harness.profile(command, 1, ["--follow-children"])
    ours.check_same(bare, "--follow-children")
    if not check(profile is not None, "--follow-children: no profile"):
        return
    # 10 rounds of fork, vfork and exec, posix_spawn, clone.
    workers = [p for p in profile.processes if p.allocated_by("allocate_in_child").alloc_objects]
    check(len(workers) == 40, f"--follow-children: {len(workers)} children profiled, 40 made")
    for worker in workers:
        found = worker.allocated_by("allocate_in_child")
        check(
            (round(found.alloc_objects), round(found.alloc_space)) == (100, 100000),
            f"--follow-children: child {worker.pid} has {found}",
        )


def test_first_thread_ended():
    """The stacks of a program whose first thread has ended are whole."""
    lines = b"leave\nhold 1000 100\nchurn 20000 1000\n"
    with tempfile.TemporaryDirectory() as directory:
        output = os.path.join(directory, "profile")
        outcome = harness.run(harness.host_command([program("commanded")], output, 1), lines)
        check(outcome.status == 0 and outcome.stdout == b"ok\n" * 3, f"{outcome.status}, {outcome.stderr!r}")
        heap = report_of(output)["heaps"][0]
        for name, truth in (("hold_block", 1000), ("churn_block", 20000)):
            check(figure(heap, name, "alloc_objects") == truth, f"{name}: {figure(heap, name, 'alloc_objects')}")
        check(heap["unwinding_errors"] == 0, f"{heap['unwinding_errors']} stacks are not whole")
        ends = {site["frames"][-1]["name"] for site in heap["callsites"] if site["frames"]}
        check(not any(name.startswith("[") for name in ends), f"stacks end at {ends}")


def test_signal_storm():
    small_ring = ["--shmem-size", "65536"]  # always full
    for how, options in (("storm", []), ("escape", []), ("escape", small_ring)):
        profile = None
        for interval in (1, 4096):
            # A jump out of a hook may lose only the sample that it interrupted.
            ours, profile = harness.profile([program("signal_storm"), how], interval, options)
            what = " ".join(["signal_storm", how, *options, f"at {interval}"])
            check(ours.status == 0, f"{what}: status {ours.status} {ours.stderr}")
            if not check(profile is not None, f"{what}: no profile") or interval != 1:
                continue
            calls, escapes = map(int, re.findall(rb"calls: (\d+), escapes: (\d+)", ours.stderr)[0])
            lost = profile.lost()
            # A handler must not wait for a full ring. On a loaded machine a few of its samples, stacks
            # or frees are lost, and counted.
            full = lost.pop("reentrant", 0) + lost.pop("free", 0) + profile.unwinding_errors()
            check(full <= 10, f"{what}: {profile.unwinding_errors()} stacks, {profile.lost()}")
            abandoned = lost.pop("abandoned", 0)
            check(abandoned <= escapes, f"{what}: {abandoned} records given up, {escapes} escapes")
            missing, missing_bytes = lost.pop("allocations", 0), lost.pop("allocated bytes", 0)
            check(missing <= escapes + full, f"{what}: {missing} allocations, {escapes} escapes")
            check(lost == {}, f"{what}: lost {lost}")
            # Every call in the exact totals has a sample or counts as lost. A jump between the end of a
            # record and its accounting may count a sampled call as lost.
            process = profile.process()
            gap = (process.process.exact_calls - round(process.total.alloc_objects),
                   process.process.exact_bytes - round(process.total.alloc_space))
            more = missing - gap[0]
            check(0 <= more <= 10 and gap[1] <= missing_bytes <= gap[1] + 1000 * more, f"{what}: {gap} not sampled, lost {profile.lost()}")
            # The profile has all calls that returned, and some of those that a jump left.
            if full == 0:
                check_truth(profile, ours.stdout, what)
            found = profile.process().allocated_by("allocate_outside").alloc_objects
            check(
                calls - full <= round(found) <= calls + escapes,
                f"{what}: {found} calls outside in the profile, {calls} made, {escapes} escapes",
            )
            print(f"{what}: {calls} calls, {escapes} escapes, lost {profile.lost()}")


def test_stepped_frees():
    """A handler may free memory while the ring is full and its thread writes to it. The free is counted, and
    reported at the address's next free: no block stays live forever."""
    if platform.machine() != "x86_64":
        sys.exit(77)  # no single steps
    ours, profile = harness.profile(
        [program("stepped_frees")], 1, ["--shmem-size", "8192", "--block-client"]
    )
    check(ours.status == 0, f"status {ours.status} {ours.stderr}")
    if not check(profile is not None, "no profile"):
        return
    check_truth(profile, ours.stdout, "stepped_frees")
    lost = profile.lost()
    check(lost.get("free", 0) > 0, f"no free met a full ring: lost {lost} {ours.stderr}")
    check(set(lost) == {"free"}, f"events outside of the handler were lost, too: {lost}")
    live = profile.process().allocated_by("allocate_block").objects
    check(live == 0, f"{live} blocks are live, {lost} lost")


def test_stepped_unloads():
    """Another thread may interrupt the first sample after the unloading of a library at any instruction:
    later samples keep their stacks."""
    if platform.machine() != "x86_64":
        sys.exit(77)  # no single steps
    ours, profile = harness.profile(
        [program("stepped_unloads"), os.path.join(harness.PROGRAMS, "libplugin_a.so")], 1
    )
    check(ours.status == 0, f"status {ours.status} {ours.stderr}")
    if check(profile is not None, "no profile"):
        check_truth(profile, ours.stdout, "stepped_unloads")
        check(profile.lost() == {}, f"lost {profile.lost()}")


def test_stepped_jumps():
    """A thread may jump out of all its first walks, after any instruction: later samples keep their stacks."""
    if platform.machine() != "x86_64":
        sys.exit(77)  # no single steps
    ours, profile = harness.profile([program("stepped_jumps")], 1)
    check(ours.status == 0, f"status {ours.status} {ours.stderr}")
    if check(profile is not None, "no profile"):
        check_truth(profile, ours.stdout, "stepped_jumps")
        check(profile.lost().get("no_scratch", 0) == 0, f"lost {profile.lost()}")


def test_dying_threads():
    """Threads that end in the middle of an allocation do not block others."""
    if platform.machine() != "x86_64":
        sys.exit(77)  # no single steps
    for options in (["--block-client"], ["--no-block-client"]):
        ours, profile = harness.profile([program("dying_threads")], 1, options)
        what = f"dying_threads {options}"
        check(ours.status == 0, f"{what}: status {ours.status} {ours.stderr}")
        if check(profile is not None, f"{what}: no profile"):
            check_truth(profile, ours.stdout, what)
            check(profile.lost() == {}, f"{what}: lost {profile.lost()}")


def test_jump_out_of_first_call():
    """A handler that jumps out of the very first allocation does not cost the profile."""
    for interval in (1, 4096):
        ours, profile = harness.profile([program("signal_storm"), "early"], interval)
        what = f"signal_storm early at {interval}"
        check(ours.status == 0, f"{what}: status {ours.status} {ours.stderr}")
        if not check(profile is not None, f"{what}: no profile"):
            continue
        calls = int(re.search(rb"calls: (\d+)", ours.stderr)[1])
        exact = profile.process().process.exact_calls
        check(exact >= calls, f"{what}: {exact} calls were counted of {calls}")


def test_signal_totals():
    """Handlers that allocate inside an allocation leave the exact totals exact: the totals without the loop's
    and the handlers' calls are the same as in a run without signals."""
    for interval in (4096, 65536, 1 << 20):
        rest = {}
        for how in ("quiet", "storm"):
            ours, profile = harness.profile([program("signal_storm"), how], interval)
            what = f"signal_storm {how} at {interval}"
            check(ours.status == 0, f"{what}: status {ours.status} {ours.stderr}")
            if not check(profile is not None, f"{what}: no profile"):
                return
            outside = int(re.search(rb"calls: (\d+)", ours.stderr)[1])
            handlers = int(re.search(rb"truth: allocate_in_handler \d+ (\d+)", ours.stdout)[1])
            process = profile.process().process
            rest[how] = (
                process.exact_bytes - 72 * outside - 40 * handlers,
                process.exact_calls - outside - handlers,
            )
        check(
            rest["storm"] == rest["quiet"],
            f"at {interval}: bytes and calls of the rest {rest['storm']}, in quiet {rest['quiet']}",
        )


def test_sudden_death():
    """The profile has all calls up to the process's end, however it ends."""
    count = 5000
    for how, status in (
        ("kill", -signal.SIGKILL), ("abort", -signal.SIGABRT), ("_exit", 7), ("exec", 8), ("exit", 9),
    ):
        ours, profile = harness.same_with_and_without([program("vanish"), how, str(count)])
        check(ours.status == status, f"{how}: status {ours.status}, not {status}")
        if check(profile is not None, f"{how}: no profile"):
            # The memory before an exec is a separate heap.
            found = profile.process().allocated_by("allocate_and_tell")
            check(
                (round(found.alloc_objects), round(found.alloc_space)) == (count, 100 * count),
                f"{how}: {found} in the profile, {count} calls made",
            )


def test_killed_from_outside():
    """After kill -9 at any instant, the profile has all records that the program had written."""
    for lines in (1, 10, 3000):
        with tempfile.TemporaryDirectory() as directory:
            output = os.path.join(directory, "profile")
            process = subprocess.Popen(
                harness.host_command([program("vanish"), "endless", "0"], output, 1),
                stdout=subprocess.PIPE,
            )
            for _ in range(lines):
                process.stdout.readline()
            target = harness.find_descendant(process.pid, "vanish")
            os.kill(target, signal.SIGKILL)
            told = lines + len(process.stdout.read().splitlines())
            status = process.wait(harness.TIMEOUT)
            check(status == -signal.SIGKILL, f"kill -9: status {status}")
            profile = harness.read_profile(output)
            if check(profile is not None, "kill -9: no profile"):
                found = profile.process().allocated_by("allocate_and_tell").alloc_objects
                check(
                    told <= found <= told + 1,
                    f"kill -9: {found} calls in the profile, {told} written to the pipe",
                )


def run_while(act, options=(), look=None):
    """Run long_runner under the profiler, call act(tool's Popen) after its start, and look(the profile's directory) at
    the end. Return its output without the first line, the seconds that it took, and the tool's exit code."""
    with tempfile.TemporaryDirectory() as directory:
        shell = ["/bin/sh", "-c", f"{program('long_runner')}; echo status $?"]
        command = harness.host_command(
            shell, os.path.join(directory, "profile"), 1, "-n", "long_runner", *options
        )
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        check(process.stdout.readline() == b"begun\n", "long_runner did not begin")
        time.sleep(0.5)
        start = time.monotonic()
        act(process)
        # Do not read to the end of file: a stopped profiler keeps the pipe open.
        output = process.stdout.readline()
        output += process.stdout.readline()
        elapsed = time.monotonic() - start
        process.send_signal(signal.SIGCONT)
        process.stderr.read()
        try:
            status = process.wait(30)
        except subprocess.TimeoutExpired:
            fail("the profiler did not end within 30 s")
            process.kill()
            status = process.wait()
        if look is not None:
            look(os.path.join(directory, "profile"))
        return output, elapsed, status


def at_once(act, *cases):
    """Call act(case) for all cases at the same time, and run long_runner alone beside them. They sleep most of it. Return
    what act() returned, and the seconds that it took alone: how long it takes hangs on the machine, too."""
    def alone():
        start = time.monotonic()
        harness.run([program("long_runner")], timeout=600)
        return time.monotonic() - start

    with concurrent.futures.ThreadPoolExecutor(len(cases) + 1) as pool:
        taken_alone = pool.submit(alone)
        return list(pool.map(act, cases)), taken_alone.result()


def test_profiler_killed():
    """The program keeps running correctly after the profiler's death."""
    bare = harness.run([program("long_runner")]).stdout.split(b"\n", 1)[1] + b"status 0\n"

    def kill(options):
        output, elapsed, _ = run_while(lambda tool: tool.kill(), options)
        check(output == bare, f"killed {options}: {output!r}, bare {bare!r}")
        return elapsed

    taken, alone = at_once(kill, [], ["--block-client"], ["--no-block-client"])
    check(max(taken) < 13 * harness.SLOWNESS + 2 * alone, f"killed: the programs took {taken} s, and one alone {alone:.1f} s")


def ended_in_silence(directory):
    """The profile of a program that waited in vain for a stopped profiler is partial, and says so."""
    text = harness.run([harness.TOOL, "report", directory]).stdout.decode()
    check(re.search(r"ended early +the profiler gave no sign of life for 5 s", text), text)
    check(re.search(r"allocated .* in .* calls, partial\n", text), text)
    report = json.loads(harness.run([harness.TOOL, "report", "--json", directory]).stdout)
    [heap] = [heap for heap in report["heaps"] if heap["name"] == "long_runner"]
    check(heap["client_error"] == 5000 and heap["totals_partial"], f"{heap['client_error']}")
    check("profiler_silent" in heap["partial"], f"{heap['partial']}")
    check(0 < heap["exact_calls"] < 600000, f"calls until then: {heap['exact_calls']}")
    rows = harness.run([harness.TOOL, "query", "--csv", directory,
                        "select value from stats where name = 'heapprofd_client_error' and value > 0"])
    check(rows.stdout.splitlines()[1:] == [b"5000"], f"{rows.stdout} {rows.stderr}")
    budget = harness.run([harness.TOOL, "check", "--max-allocations", "1000000", directory])
    check(budget.status == 2, f"a budget on it is undecidable: {budget.status} {budget.stdout}")


def test_profiler_stopped():
    """A profiler that hangs delays the program only for a limited time."""
    bare = harness.run([program("long_runner")]).stdout.split(b"\n", 1)[1] + b"status 0\n"

    def stop(options):
        output, elapsed, status = run_while(
            lambda tool: tool.send_signal(signal.SIGSTOP), options,
            ended_in_silence if "--shmem-size" in options else None,
        )
        check(output == bare, f"stopped {options}: {output!r}, bare {bare!r}")
        check(status == 0, f"stopped {options}: the profiler ended with {status}")
        print(f"stopped {options}: {elapsed:.1f} s")
        return elapsed

    taken, alone = at_once(stop, [], ["--no-block-client"], ["--shmem-size", "65536"])
    check(max(taken) < 23 * harness.SLOWNESS + 2 * alone, f"stopped: the programs took {taken} s, and one alone {alone:.1f} s")


def test_small_ring():
    """With a ring much smaller than the traffic, the program waits and no sample is lost."""
    command = [program("ground_truth"), "/dev/null", "4", "5"]
    ours, profile = harness.profile(
        command, 1, ["--shmem-size", "8192", "--block-client"]
    )
    check(ours.status == 0, f"status {ours.status} {ours.stderr}")
    if check(profile is not None, "no profile"):
        check(profile.lost() == {}, f"lost {profile.lost()}")


def test_late_answer():
    """The report tells a process that did not wait for the answer to its hello from one that never allocates."""
    gone = (
        "import os, socket, struct, sys, time\n"
        "peer = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n"
        "peer.connect(os.environ['HEAPPROFD_SOCKET'])\n"
        "peer.send(struct.pack('6I64s', 0x48504853, int(sys.argv[1]), 1, os.getpid(),"
        " os.getpid(), 1, b''))\n"
        "peer.close()\n"
        "time.sleep(0.3)\n"
    )
    command = ["/bin/sh", "-c", f'exec env -u LD_PRELOAD {sys.executable} -c "$0" "$1"', gone,
               str(harness.handshake_version())]
    with tempfile.TemporaryDirectory() as directory:
        output = os.path.join(directory, "profile")
        harness.run(harness.host_command(command, output, 1))
        trace = os.path.join(output, "raw-trace")
        report = subprocess.run([harness.TOOL, "report", "--json", trace],
                                stdout=subprocess.PIPE, check=True)
        heaps = json.loads(report.stdout)["heaps"]
    remarks = [heap["remark"] or "" for heap in heaps if "python" in heap["command"]]
    check(any("for the profiler's answer in vain" in remark for remark in remarks),
          f"no remark about it: {remarks} {[heap['command'] for heap in heaps]}")


def test_ring_overrun():
    """With --no-block-client a full ring ends the session with a message, and the program is not affected."""
    ours, profile = harness.profile(
        [program("ground_truth"), "/dev/null", "2"], 1,
        ["--shmem-size", "8192", "--no-block-client"],
    )
    check(ours.status == 0, f"status {ours.status} {ours.stderr}")
    if check(profile is not None, "no profile"):
        told = profile.process().process.flags.get(BUFFER_OVERRAN, 0)
        check(told, "the overrun is not reported")


def test_dlopen_reuse():
    check_program("dlopen_reuse", harness.PROGRAMS)


test_threads_many = simple("threads_many")
test_threads_churn = simple("threads_churn", truth=False)
test_signals_altstack = simple("signals_altstack")
test_fibers = simple("fibers")
test_fiber_first = simple("fiber_first")
test_close_all = simple("close_all")


def test_before_main():
    if harness.run([program("before_main")]).status != 0:
        harness.skip("this C library cannot allocate in an IFUNC resolver (glibc 2.43): the program fails alone")
    check_program("before_main")


test_deep_stack = simple("deep_stack")
test_small_stacks = simple("small_stacks")
test_exceptions = simple("exceptions")
test_operators = simple("operators")
test_longjmp = simple("longjmp")
test_limit_memory = simple("limits", "memory")
test_limit_files = simple("limits", "files")
test_contract = simple("contract", truth=False)

if __name__ == "__main__":
    harness.limit_core_dumps()
    harness.main()
