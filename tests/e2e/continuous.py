#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Continuous mode: periods of real programs from the collector, each behaviour by its name.

    continuous.py CASE

Most cases read the periods that heapprofd_collector --print writes. At interval 1 they are exact.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import harness
from blocking_file import LOOKUP, BlockingFile
from daemon import (
    ALICE, BOB, LIBRARY, PATIENCE, Commanded, Daemon, Session, as_user, ask_as, figure, heap_of, need_root, own_name,
    reachable, scene, wait_for,
)
from harness import BUILD, TOOL, check, need, program, run

COLLECTOR = os.path.join(BUILD, "heapprofd_collector")

EXACT = """
least_interval = 1
start_interval = 1
samples_per_hour = 1000000000
ring = 8MiB
"""

SQL = """
create table t(a, b);
with recursive c(x) as (select 1 union all select x+1 from c where x<3000) insert into t select x, hex(x*x) from c;
create index i on t(b);
select count(*), sum(length(b)), min(b), max(b) from t;
"""


def configure(directory, text, period="1s"):
    """Write a configuration, and return its path."""
    path = os.path.join(directory, "heapprofd.conf")
    spool = os.path.join(directory, "spool")
    with open(path, "w") as file:
        file.write(f"[continuous]\nperiod = {period}\nspool = {spool}\ncpu = 100%\n{text}")
    return path


class Collector:
    """A collector that prints its periods."""

    def __init__(self, daemon, directory, text, period="1s", wrapper=()):
        self.output, self.log_path = os.path.join(directory, "periods"), os.path.join(directory, "collector.log")
        path = configure(directory, text, period)
        with open(self.output, "w") as output, open(self.log_path, "a") as log:
            self.process = subprocess.Popen(
                [*wrapper, COLLECTOR, "--print", "--config", path], stdout=output, stderr=log, env=daemon.environment
            )
        # Programs that begin now are in the session.
        wait_for("the collector's session", lambda: daemon.status()["sessions"])

    def periods(self, pid=None, heap="libc.malloc"):
        with open(self.output) as output:
            lines = [line for line in output.read().split("\n") if line]
        periods = []
        for line in lines:
            with contextlib.suppress(json.JSONDecodeError):  # the last one may be half written
                periods.append(json.loads(line))
        return [p for p in periods if p["labels"]["heap"] == heap and pid in (None, int(p["labels"]["pid"]))]

    def next_period(self, pid, wanted=lambda period: True):
        """Wait for a further period of the process."""
        known = len(self.periods(pid))

        def find():
            return [p for p in self.periods(pid)[known:] if wanted(p)]

        return wait_for(f"a period of {pid}", find)[-1]

    def log(self):
        with open(self.log_path) as log:
            return log.read()

    def end(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE)


def callsite_sum(periods, function, figure):
    """Add a figure of the callsites of a function over periods."""
    return sum(
        site[figure] for period in periods for site in period["callsites"] if site["stack"] and site["stack"][0] == function
    )


def check_one_program(preload):
    """A program whose allocations are known, over several periods: deltas add up, live is a gauge."""
    with scene() as (daemon, directory):
        name = own_name("counted")
        process = Commanded(daemon.environment, name, directory, preload)
        collector = Collector(daemon, directory, f"{EXACT}\n[program counted]\nname = {name}\n[labels]\nteam = core\n")

        def is_in():
            process.wake()
            return process.pid in daemon.profiled_pids()

        wait_for("the program", is_in)
        for blocks in (10, 20, 30):
            process.tell(f"hold {blocks} 1000")
            collector.next_period(process.pid)
        process.tell("hold 1 5000")
        period = collector.next_period(process.pid, lambda p: callsite_sum([p], "hold_block", "live_count") >= 61)
        process.tell("drop")
        process.tell("churn 100 300")
        check(process.end() == 0, "the program failed")
        wait_for("the last period", lambda: [p for p in collector.periods(process.pid) if p["is_final"]])
        collector.end()
        periods = collector.periods(process.pid)
        held, live = (callsite_sum(p, "hold_block", f) for p, f in ((periods, "alloc_bytes"), ([period], "live_bytes")))
        check(held == 65000, f"{held} bytes were held over all periods, truth 65000")
        check(live in (65000, 65001), f"{live} bytes live, truth 65000, or one more if the first block was seen")
        total, exact = sum(p["alloc_bytes"] for p in periods), periods[-1]["exact_bytes"]
        check(total == exact, f"the periods have {total} bytes, the program requested {exact}")
        check(periods[-1]["is_final"] and not any(p["is_final"] for p in periods[:-1]), "the last one is final")
        starts_and_ends = zip(periods[1:], periods)
        check(all(abs(p["start_ns"] - q["end_ns"]) < 1e7 for p, q in starts_and_ends), "periods without gaps")
        check(abs(periods[-1]["end_ns"] - time.time_ns()) < PATIENCE * 1e9, "times are since 1970")
        labels = periods[-1]["labels"]
        wanted = {"program": name, "service_name": name, "team": "core", "user": "root", "pid": str(process.pid)}
        check(wanted.items() <= labels.items() or os.geteuid() != 0, f"labels {labels}")
        check({"host", "boot_id", "build_id"} <= set(labels), f"labels {labels}")


def test_periods_of_a_preloaded_program():
    check_one_program(preload=True)


def test_periods_of_an_attached_program():
    check_one_program(preload=False)


def sqlite(environment, slow=False):
    """Run the SQL, with pauses in which periods end if `slow`; return the output."""
    with subprocess.Popen(
        ["sqlite3", ":memory:"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True
    ) as process:
        for line in SQL.strip().split("\n"):
            process.stdin.write(line + "\n")
            process.stdin.flush()
            if slow:
                time.sleep(0.7)
        process.stdin.close()
        return process.pid, process.stdout.read(), process.wait(PATIENCE)


def test_same_as_a_session():
    """The sums over the periods of sqlite3 are those of one session, and its output is unchanged."""
    need("sqlite3")
    with scene() as (daemon, directory):
        _, bare, _ = sqlite(os.environ)
        collector = Collector(daemon, directory, f"{EXACT}\n[program sqlite3]\n")
        pid, output, status = sqlite({**daemon.environment, "LD_PRELOAD": LIBRARY}, slow=True)
        check(status == 0 and output == bare, f"sqlite3 wrote {output!r}, without us {bare!r}")
        wait_for("the last period", lambda: [p for p in collector.periods(pid) if p["is_final"]])
        collector.end()
        periods = collector.periods(pid)
        check(len(periods) >= 2, f"{len(periods)} periods")
        trace_path = os.path.join(directory, "o")
        run([TOOL, "host", "-i", "1", "-o", trace_path, "--", "sqlite3", ":memory:"], stdin=SQL.encode())
        report = json.loads(run([TOOL, "report", "--json", trace_path]).stdout)
        (heap,) = [heap for heap in report["heaps"] if heap["heap"] == "libc.malloc"]
        for figure, ours in (("alloc_space", "alloc_bytes"), ("alloc_objects", "alloc_count")):
            wanted, got = heap["total"][figure]["estimate"], sum(p[ours] for p in periods)
            check(abs(got - wanted) <= wanted * 0.001, f"{figure}: {got} in the periods, {wanted} in a session")


ALLOCATING = """
import sys, time
blocks = []
end = time.time() + float(sys.argv[1])
while time.time() < end:
    blocks = [bytearray(2000) for _ in range(5000)]
    time.sleep(0.1)
print("done")
"""


def check_budget(preload):
    """A program of 100 MB/s keeps to 3,600 samples an hour, and each sample keeps its weight."""
    budget = 3600
    with scene() as (daemon, directory):
        name = own_name("busy")
        path = os.path.join(directory, name)
        shutil.copy(sys.executable, path)
        # It cannot fall below the first one, and rise again, within one period.
        text = f"least_interval = 128KiB\nstart_interval = 128KiB\nsamples_per_hour = {budget}\n[program b]\nname = {name}\n"
        environment = {**daemon.environment, **({"LD_PRELOAD": LIBRARY} if preload else {})}
        collector = Collector(daemon, directory, text)
        with subprocess.Popen(
            [path, "-c", ALLOCATING, "9"], env={**environment, "PYTHONHOME": sys.base_prefix}, stdout=subprocess.PIPE
        ) as process:
            check(process.stdout.read() == b"done\n", "the program's output")
        wait_for("the last period", lambda: [p for p in collector.periods(process.pid) if p["is_final"]])
        collector.end()
        periods = collector.periods(process.pid)
        samples, exact = sum(p["alloc_samples"] for p in periods), periods[-1]["exact_bytes"]
        intervals = [p["interval_bytes"] for p in periods]
        # The bucket, and two seconds at the first interval.
        bound = budget * 0.1 + 10 + 2 * 100e6 * harness.SLOWNESS / 131072
        check(samples < bound, f"{samples} samples, at most {bound}; intervals {intervals}")
        check(intervals[-1] >= 8 * 131072, f"intervals {intervals}")
        check(samples < exact / 131072 / 2, f"{samples} samples of {exact} bytes: no fewer than at the first interval")
        # A sample stands for its interval, which is the period's last or the one before, and for at most its size more.
        # A program may have none once its interval is long, so the sum of all periods proves nothing.
        # Calibration moves that towards the exact total, or towards what makes up for earlier periods.
        interval, requested, estimated = 131072, 0, 0
        for p in periods:
            least, most = sorted((interval, p["interval_bytes"]))
            exact = p["exact_bytes"] - requested
            wholly = exact, p["exact_bytes"] - estimated
            least, most = p["alloc_samples"] * least, p["alloc_samples"] * most + exact
            least, most = min(least, *wholly) - 1, max(most, *wholly) + 1
            check(least <= p["alloc_bytes"] <= most, f"{p['alloc_bytes']} bytes estimated, between {least} and {most}")
            interval, requested, estimated = p["interval_bytes"], p["exact_bytes"], estimated + p["alloc_bytes"]
        first, margin = periods[0], 6 * periods[0]["alloc_bytes_variance"] ** 0.5
        difference = abs(first["alloc_bytes"] - first["exact_bytes"])
        check(difference < margin, f"{first['alloc_bytes']} bytes estimated, {first['exact_bytes']} requested, margin {margin}")


def test_budget_of_a_preloaded_program():
    check_budget(preload=True)


def test_budget_of_an_attached_program():
    check_budget(preload=False)


def test_interval_after_a_pause_of_the_collector():
    """Reports that waited are read at once: the interval still follows the program's rate, not that of the reading."""
    with scene() as (daemon, directory):
        name = own_name("busy")
        path = os.path.join(directory, name)
        shutil.copy(sys.executable, path)
        text = f"least_interval = 64KiB\nstart_interval = 128KiB\nsamples_per_hour = 36000\n[program b]\nname = {name}\n"
        collector = Collector(daemon, directory, text)
        with subprocess.Popen(
            [path, "-c", ALLOCATING, "14"], env={**daemon.environment, "PYTHONHOME": sys.base_prefix},
            stdout=subprocess.DEVNULL
        ) as process:
            wait_for("periods", lambda: len(collector.periods(process.pid)) >= 4)
            before = max(p["interval_bytes"] for p in collector.periods(process.pid))
            collector.process.send_signal(signal.SIGSTOP)
            time.sleep(4.5)
            collector.process.send_signal(signal.SIGCONT)
            check(process.wait(PATIENCE) == 0, "the program failed")
        wait_for("the last period", lambda: [p for p in collector.periods(process.pid) if p["is_final"]])
        collector.end()
        after = max(p["interval_bytes"] for p in collector.periods(process.pid))
        check(after <= 16 * before, f"the interval went from {before} to {after}")


def test_names_are_found_in_a_sandbox():
    """The process that reads the files of programs has a filter of system calls, few capabilities, and no connection."""
    need("sqlite3", "perl", "bash")
    with scene() as (daemon, directory):
        names = [own_name(program) for program in ("perl", "bash", "sqlite3")]
        collector = Collector(daemon, directory, f"{EXACT}\n[program all]\nname = {' '.join(names)}\n")
        seen, commands = {}, zip(names, (["-e", "sleep 3"], ["-c", "read -t 3 x < <(sleep 4); true"],
                                         [":memory:", ".shell sleep 3"]))

        def watch():
            for pid in harness.children_of(collector.process.pid):
                with contextlib.suppress(OSError), open(f"/proc/{pid}/status") as file:
                    status = dict(line.split(":", 1) for line in file.read().split("\n") if ":" in line)
                    if status["Name"].strip() == "heapd-symbols" and status["Seccomp"].strip() == "2":
                        seen["capabilities"] = int(status["CapEff"], 16)
                        seen["files"] = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd") if int(fd) > 2]
            return "files" in seen

        processes = []
        for name, arguments in commands:
            path = os.path.join(directory, name)
            os.symlink(os.path.realpath(shutil.which(name.rsplit("_", 1)[0])), path)
            processes.append(subprocess.Popen(
                [path, *arguments], env={**daemon.environment, "LD_PRELOAD": LIBRARY}))
        end = time.monotonic() + PATIENCE
        while not watch() and time.monotonic() < end:
            pass
        for process in processes:
            process.wait()
        collector.end()
        check("files" in seen, "no process that finds names was seen under a filter")
        dangerous = 1 << 7 | 1 << 12 | 1 << 21  # CAP_SETUID, CAP_NET_ADMIN, CAP_SYS_ADMIN
        check(seen.get("capabilities", 0) & dangerous == 0, f"capabilities {seen.get('capabilities', 0):x}")
        check(not [file for file in seen.get("files", []) if file.startswith(("socket:", "pipe:"))], f"files {seen}")
        named = [site["stack"] for period in collector.periods() for site in period["callsites"]]
        check(any(frame and "[" not in frame for stack in named for frame in stack), f"no names: {named[:2]}")


def test_choice_of_programs():
    """Programs that begin later are found; excluded ones are not; the first section that matches counts."""
    with scene() as (daemon, directory):
        prefix = own_name("chosen")
        text = (
            f"{EXACT}\n[program first]\nname = {prefix}_a* {prefix}_b*\nexclude_name = {prefix}_b2\nuser = {os.geteuid()}\n"
            f"version_file = {directory}/VERSION\n"
            f"[program second]\nname = {prefix}_*\nexclude_name = {prefix}_c*\nservice = other\nversion_env = APP_VERSION\n"
            f"[program nobody]\nname = {prefix}_c*\nuser = 65533\n"
        )
        with open(os.path.join(directory, "VERSION"), "w") as file:
            file.write("7.1\x1b\nsecond line\n")
        early = Commanded(daemon.environment, f"{prefix}_a1", directory)
        collector = Collector(daemon, directory, text)
        environment = {**daemon.environment, "APP_VERSION": "4.2-rc1"}
        late = [Commanded(environment, prefix + end, directory, preload) for end, preload in (
            ("_b1", True), ("_b2", False), ("_c1", True))]

        def all_in():
            for process in (early, *late):
                process.wake()
            return {early.pid, late[0].pid, late[1].pid} <= daemon.profiled_pids()

        wait_for("the chosen programs", all_in)
        check(late[2].pid not in daemon.profiled_pids(), "an excluded program is profiled")
        for process in (early, *late):
            check(process.end() == 0, "a program failed")
        wait_for("the periods", lambda: {early.pid, late[0].pid, late[1].pid} <= {
            int(p["labels"]["pid"]) for p in collector.periods() if p["is_final"]})
        collector.end()
        second = collector.periods(late[1].pid)[-1]["labels"]
        check((second["service_name"], second["version"]) == ("other", "4.2-rc1"), f"labels {second}")
        first = collector.periods(early.pid)[-1]["labels"]
        check((first["service_name"], first["version"]) == (f"{prefix}_a1", "7.1"), f"labels {first}")
        check(not collector.periods(late[2].pid), "periods of an excluded program")


def test_version_file_of_a_user():
    """A program's version file is read with the rights of the program's user, wherever its path leads; a path that
    leads to a server that never answers delays nobody."""
    need_root()
    with scene() as (daemon, directory):
        reachable(directory)
        secret = os.path.join(directory, "secret")
        with open(secret, "w") as file:
            file.write("root:*:20228\n")
        os.chmod(secret, 0o600)
        his = os.path.join(directory, "his")
        os.mkdir(his)
        blocking = BlockingFile(directory, LOOKUP)
        leads_to = {
            "own": None, "secret": secret, "proc": f"/proc/{os.getpid()}/environ", "self": "/proc/self/maps",
            "fifo": os.path.join(his, "fifo"), "fuse": os.path.join(blocking.mountpoint, "file"),
        }
        os.mkfifo(leads_to["fifo"], 0o666)
        names = {kind: own_name(f"v{kind}") for kind in leads_to}
        text = EXACT
        for kind, target in leads_to.items():
            path = os.path.join(his, kind + ".version")
            text += f"[program {names[kind]}]\nversion_file = {path}\n"
            if target is None:
                with open(path, "w") as file:
                    file.write("1.2\n")
                os.chmod(path, 0o600)
                os.chown(path, BOB, BOB)
            else:
                os.symlink(target, path)
        try:
            processes = {kind: Commanded(daemon.environment, name, directory, user=BOB) for kind, name in names.items()}
            collector = Collector(daemon, directory, text)

            def all_in():
                for process in processes.values():
                    process.wake()
                return {process.pid for process in processes.values()} <= daemon.profiled_pids()

            wait_for("the programs", all_in)
            for process in processes.values():
                process.tell("hold 10 1000")
            wait_for("their periods", lambda: all(collector.periods(process.pid) for process in processes.values()))
            versions = {kind: collector.periods(process.pid)[0]["labels"].get("version")
                        for kind, process in processes.items()}
            for process in processes.values():
                check(process.end() == 0, "a program failed")
            collector.end()
        finally:
            blocking.let_go()
        check(blocking.blocked > 0, "the path was followed")
        check(versions == {**dict.fromkeys(leads_to), "own": "1.2"}, f"versions {versions}")


def test_program_on_a_silent_server():
    """A user's program lies on a file system whose server stops to answer. Others are profiled all the same."""
    need_root()
    with scene() as (daemon, directory):
        reachable(directory)
        with open(program("commanded"), "rb") as file:
            blocking = BlockingFile(directory, None, content=file.read())
        name = own_name("beside")
        try:
            silent = Commanded(daemon.environment, os.path.basename(blocking.mountpoint), blocking.mountpoint, user=BOB)
            beside = Commanded(daemon.environment, name, directory)
            for process in (silent, beside):
                process.wake()
            blocking.is_silent = True
            collector = Collector(daemon, directory, f"{EXACT}\n[program fuse]\n[program {name}]\n")

            def both():
                silent.tell("churn 2000 100")
                beside.wake()
                return blocking.blocked and collector.periods(beside.pid)

            wait_for("a period of the other program", both)
            beside.tell("hold 10 1000")
            collector.next_period(beside.pid, lambda period: period["callsites"])
            check(beside.end() == 0, "the other program failed")
            silent.process.kill()
        finally:
            blocking.let_go()
        collector.end()


@contextlib.contextmanager
def daemon_with_collector(text):
    """Start a daemon that starts its collector, with a directory as sink."""
    with scene(start=False) as (daemon, directory):
        files = os.path.join(directory, "files")
        daemon.environment["HEAPPROFD_CONFIG"] = configure(
            directory, f"{EXACT}\n{text}\n[sink files]\ntype = directory\npath = {files}\n"
        )
        daemon.start()
        yield daemon, files


def files_of(directory, pid):
    return [name for name in (os.listdir(directory) if os.path.isdir(directory) else []) if f".{pid}." in name]


def test_ends_with_a_last_dump():
    """SIGTERM of the daemon: what was allocated since the last dump is in a last one, and the program runs on."""
    name = own_name("last")
    with daemon_with_collector(f"[program {name}]") as (daemon, files):
        directory = os.path.dirname(files)
        process = Commanded(daemon.environment, name, directory)
        wait_for("the program", lambda: process.wake() or process.pid in daemon.profiled_pids())
        wait_for("a period", lambda: files_of(files, process.pid))
        process.tell("hold 7 1000")
        check(daemon.end() == 0, "the daemon failed")
        held = 0
        for file in files_of(files, process.pid):
            collapsed = run([TOOL, "report", "--json", os.path.join(files, file)])
            report = json.loads(collapsed.stdout)
            for heap in report["heaps"]:
                held += sum(site["alloc_space"]["estimate"] for site in heap["callsites"]
                            if site["frames"] and site["frames"][0]["name"] == "hold_block")
        check(held in (7000, 7001), f"{held} bytes were held, truth 7000")
        check(process.end() == 0, "the program failed")


def held_in(session, pid):
    """Return the bytes that hold_block allocated in a session."""
    heap = heap_of(session.report(), pid)
    return figure(heap, "hold_block", "alloc_space"), heap


def check_hand_over(preload):
    """A session gets a program that continuous mode has, and continuous mode takes it again afterwards: no block is
    in both, and the period that was cut says so."""
    with scene() as (daemon, directory):
        name = own_name("lent")
        process = Commanded(daemon.environment, name, directory, preload)
        collector = Collector(daemon, directory, f"{EXACT}\n[program lent]\nname = {name}\n")

        def has(session_count):
            process.wake()
            sessions = daemon.status()["sessions"]
            having = [s for s in sessions if process.pid in {p["pid"] for p in s["processes"]}]
            return len(sessions) == session_count and having and having[0]["id"]

        continuous = wait_for("continuous mode", lambda: has(1))
        process.tell("hold 10 1000")
        session = Session(daemon, os.path.join(directory, "o"), "-p", str(process.pid))
        wait_for("the hand-over", lambda: has(2) not in (False, [], continuous))
        process.tell("hold 5 1000")
        (cut,) = wait_for("the cut period", lambda: [p for p in collector.periods(process.pid) if p["is_final"]])
        check(cut["labels"].get("cut_by") == "session" and cut["end_reason"] == "lent to a session", f"{cut}")
        check(f"process {process.pid} ({name}) is lent to another session, number" in collector.log(), collector.log())
        check(session.end() == 0, f"the session: {session.stderr}")
        in_session, heap = held_in(session, process.pid)
        check(in_session == 5000, f"{in_session} bytes in the session, truth 5000: {heap and heap['remark']}")
        wait_for("continuous mode again", lambda: has(1) == continuous)
        process.tell("hold 3 1000")
        check(process.end() == 0, "the program failed")
        wait_for("the last period", lambda: len([p for p in collector.periods(process.pid) if p["is_final"]]) == 2)
        collector.end()
        periods = collector.periods(process.pid)
        after = periods[periods.index(cut) + 1:]
        check(cut["end_ns"] < after[0]["start_ns"], "the periods have a gap")
        check(callsite_sum(after, "hold_block", "alloc_bytes") == 3000, "what was held after the session")
        in_all = callsite_sum(periods, "hold_block", "alloc_bytes")
        check(in_all in (13000, 13001), f"{in_all} bytes in continuous mode, truth 13000")
        check(not any("cut_by" in p["labels"] for p in periods if p != cut), "only one period was cut")


def test_hands_over_a_preloaded_program():
    check_hand_over(preload=True)


def test_hands_over_an_attached_program():
    check_hand_over(preload=False)


def test_hands_over_only_to_its_user():
    """A user gets an own program from continuous mode, and not the program of another user."""
    need_root()
    with scene() as (daemon, directory):
        reachable(directory)
        text = f"{EXACT}\n[program mine]\nname = {own_name('users')}\n"
        collector = Collector(daemon, directory, text)
        path = os.path.join(directory, own_name("users"))
        shutil.copy(program("commanded"), path)
        processes = [
            subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=daemon.environment,
                             **as_user(uid)) for uid in (ALICE, BOB)
        ]
        hers, his = (process.pid for process in processes)
        wait_for("continuous mode", lambda: {hers, his} <= daemon.profiled_pids())
        outcome, _ = ask_as(BOB, daemon, directory, "hers", "-p", str(hers))
        check(outcome.status == 1 and b"belongs to another user" in outcome.stderr, f"{outcome.status}: {outcome.stderr}")
        outcome, _ = ask_as(BOB, daemon, directory, "his", "-p", str(his))
        check(outcome.status == 0, f"{outcome.status}: {outcome.stderr}")
        wait_for("the log", lambda: f"process {his} (" in collector.log())
        check(f"process {hers} (" not in collector.log(), collector.log())
        wait_for("continuous mode again", lambda: {hers, his} <= daemon.profiled_pids())
        for process in processes:
            process.stdin.close()
            process.wait()
            process.stdout.close()
        collector.end()
        cut = {int(p["labels"]["pid"]) for p in collector.periods() if "cut_by" in p["labels"]}
        check(cut <= {his}, f"cut: {cut}, his {his}, hers {hers}")


def test_redis_goes_from_hand_to_hand():
    """A redis-server under load, in continuous mode, goes to three sessions in turn, one of which is killed."""
    need("redis-server", "redis-cli", "redis-benchmark")
    with scene() as (daemon, directory):
        socket = os.path.join(directory, "redis.sock")
        server = subprocess.Popen(
            ["redis-server", "--port", "0", "--unixsocket", socket, "--save", "", "--dir", directory],
            stdout=subprocess.DEVNULL)
        load = None
        try:
            wait_for("redis", lambda: os.path.exists(socket))
            load = subprocess.Popen(
                ["redis-benchmark", "-s", socket, "-n", "100000000", "-r", "10000", "-t", "lpush", "-q"],
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            text = f"[program redis]\nname = redis-server\ncgroup = *\nsamples_per_hour = 100000\n"
            collector = Collector(daemon, directory, text)
            wait_for("continuous mode", lambda: server.pid in daemon.profiled_pids())
            for turn in range(3):
                finals = len([p for p in collector.periods(server.pid) if p["is_final"]])
                session = Session(daemon, os.path.join(directory, f"o{turn}"), "-i", "4096", "-p", str(server.pid))
                wait_for("a cut period", lambda: len(
                    [p for p in collector.periods(server.pid) if p["labels"].get("cut_by")]) == turn + 1)
                time.sleep(0.5)
                session.end(signal.SIGKILL if turn == 1 else signal.SIGINT)
                if turn != 1:
                    heap = heap_of(session.report(), server.pid)
                    check(heap["total"]["alloc_space"]["estimate"] > 0, f"turn {turn}: {heap['remark']}")
                collector.next_period(server.pid, lambda p: not p["is_final"])
                check(len([p for p in collector.periods(server.pid) if p["is_final"]]) == finals + 1, "periods")
            answer = run(["redis-cli", "-s", socket, "ping"])
            check(answer.stdout == b"PONG\n", f"redis answers {answer.stdout!r}")
            collector.end()
        finally:
            for process in (load, server):
                if process is not None:
                    process.kill()
                    process.wait()


def test_takes_what_another_profiler_had():
    """A program that a profiler without the daemon has is taken when that one ends; until then the status says who
    has it."""
    name = own_name("held")
    with scene(start=False) as (daemon, directory):
        daemon.environment["HEAPPROFD_CONFIG"] = configure(
            directory, f"{EXACT}\n[program {name}]\n[sink files]\ntype = directory\npath = {directory}/files\n")
        process = Commanded(daemon.environment, name, directory, preload=False)
        alone = Daemon(os.path.join(directory, "alone"))  # its run directory, in which no daemon runs
        session = Session(alone, os.path.join(directory, "o"), "-p", str(process.pid))
        wait_for("the session", lambda: has_ring(process.pid))
        daemon.start()

        def shows():
            process.wake()
            status = run([TOOL, "status"], env=daemon.environment).stdout
            return f"Another session, of process {session.process.pid}".encode() in status

        wait_for("the status", shows)
        session.end()
        wait_for("continuous mode", lambda: process.wake() or process.pid in daemon.profiled_pids())
        check(process.end() == 0, "the program failed")


def has_ring(pid):
    with open(f"/proc/{pid}/maps") as maps:
        return "memfd:heapprofd-ring" in maps.read()


def collector_pid(daemon):
    for pid in harness.children_of(daemon.process.pid):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/comm") as comm:
            if comm.read().strip() == "heapd-collector":
                return pid
    return None


def test_collector_is_restarted():
    """A killed collector is started again; the programs go on, are profiled again, and the gap is told."""
    name = own_name("restarted")
    with daemon_with_collector(f"[program {name}]") as (daemon, files):
        process = Commanded(daemon.environment, name, os.path.dirname(files))
        wait_for("the program", lambda: process.wake() or process.pid in daemon.profiled_pids())
        wait_for("a period", lambda: files_of(files, process.pid))
        first = wait_for("the collector", lambda: collector_pid(daemon))
        os.kill(first, signal.SIGKILL)
        wait_for("another collector", lambda: collector_pid(daemon) not in (None, first))
        wait_for("the gap", lambda: "what was allocated since is in no period" in daemon.log())
        known = len(files_of(files, process.pid))

        def goes_on():
            process.wake()
            return len(files_of(files, process.pid)) > known

        wait_for("further periods", goes_on)
        check("the collector, process" in daemon.log(), daemon.log())
        check(process.end() == 0, "the program failed")


def final_periods(collector, pid):
    return [p for p in collector.periods(pid) if p["is_final"]]


def test_reload():
    """SIGHUP: programs that the new configuration chooses are taken, others left; what stays keeps its live memory. A
    mistake is told, and changes nothing."""
    with scene() as (daemon, directory):
        stays, goes, comes = (own_name(name) for name in ("stays", "goes", "comes"))
        process, leaving, coming = (Commanded(daemon.environment, name, directory, preload)
                                    for name, preload in ((stays, True), (goes, False), (comes, False)))
        collector = Collector(daemon, directory, f"{EXACT}\n[program old]\nname = {stays} {goes}\nservice = one\n")
        wait_for("the programs", lambda: process.wake() or {process.pid, leaving.pid} <= daemon.profiled_pids())
        process.tell("hold 10 1000")
        leaving.tell("hold 2 1000")
        collector.next_period(process.pid)

        def reload(text):
            configure(directory, text)
            collector.process.send_signal(signal.SIGHUP)

        reload(f"{EXACT}\n[program old]\nnmae = {stays}\n")
        wait_for("the mistake", lambda: "the old configuration stays" in collector.log() and "nmae" in collector.log())
        check({process.pid, leaving.pid} <= daemon.profiled_pids(), "a mistake changed the session")
        reload(f"{EXACT}\n[program new]\nname = {comes} {stays}\nversion = 2\n[labels]\nteam = core\n")
        wait_for("other programs", lambda: daemon.profiled_pids() == {process.pid, coming.pid})
        wait_for("a last period", lambda: final_periods(collector, leaving.pid))
        process.tell("hold 5 1000")
        coming.tell("hold 3 1000")
        period = collector.next_period(process.pid, lambda p: p["labels"].get("version") == "2")
        check(period["labels"]["service_name"] == stays and period["labels"]["team"] == "core", f"{period['labels']}")
        wait_for("live memory from before", lambda: callsite_sum(
            collector.periods(process.pid)[-1:], "hold_block", "live_count") in (15, 16))
        check(not final_periods(collector, process.pid), "a program that stays was left")
        for one in (process, leaving, coming):
            check(one.end() == 0, "a program failed")
        wait_for("the last periods", lambda: final_periods(collector, process.pid) and final_periods(collector, coming.pid))
        collector.end()
        for one, held in ((process, 15000), (coming, 3000)):
            total = callsite_sum(collector.periods(one.pid), "hold_block", "alloc_bytes")
            check(total in (held, held + 1), f"{total} bytes in all periods, truth {held}")


def test_reload_begins_the_session_anew():
    """SIGHUP with another ring or interval: a last period, and then the program is profiled by another session."""
    with scene() as (daemon, directory):
        name = own_name("anew")
        process = Commanded(daemon.environment, name, directory)
        collector = Collector(daemon, directory, f"{EXACT}\n[program anew]\nname = {name}\n")
        wait_for("the program", lambda: process.wake() or process.pid in daemon.profiled_pids())
        first = daemon.status()["sessions"][0]["id"]
        process.tell("hold 10 1000")
        configure(directory, f"{EXACT.replace('8MiB', '4MiB')}\n[program anew]\nname = {name}\n")
        collector.process.send_signal(signal.SIGHUP)
        wait_for("a last period", lambda: final_periods(collector, process.pid))
        wait_for("another session", lambda: process.wake() or [
            s for s in daemon.status()["sessions"] if s["id"] != first and s["processes"]])
        process.tell("hold 5 1000")
        check(process.end() == 0, "the program failed")
        wait_for("the last period", lambda: len(final_periods(collector, process.pid)) == 2)
        check(collector.end() == 0, collector.log())
        total = callsite_sum(collector.periods(process.pid), "hold_block", "alloc_bytes")
        check(total in (15000, 15001), f"{total} bytes in all periods, truth 15000")


def test_reload_through_the_daemon():
    """SIGHUP to the daemon reaches its collector: another sink begins, and without [continuous] the collector ends;
    with it again, one starts."""
    name = own_name("sunk")
    with daemon_with_collector(f"[program {name}]") as (daemon, files):
        directory = os.path.dirname(files)
        process = Commanded(daemon.environment, name, directory)
        wait_for("a period", lambda: process.wake() or files_of(files, process.pid))
        path = daemon.environment["HEAPPROFD_CONFIG"]
        with open(path) as file:
            text = file.read()

        def reload(changed):
            with open(path, "w") as file:
                file.write(changed)
            daemon.process.send_signal(signal.SIGHUP)

        reload(f"{text}\n[sink more]\ntype = directory\npath = {directory}/more\n")
        wait_for("a period in both", lambda: process.wake() or files_of(f"{directory}/more", process.pid))
        reload(f"{text}\n[sink more]\ntype = directory\npath = {directory}/log/impossible\n")
        wait_for("the mistake", lambda: "the old configuration stays" in daemon.log())
        known = len(files_of(f"{directory}/more", process.pid))
        wait_for("a period in both", lambda: process.wake() or len(files_of(f"{directory}/more", process.pid)) > known)
        first = collector_pid(daemon)
        reload("# nothing\n")
        wait_for("the collector's end", lambda: collector_pid(daemon) is None)
        check("no section [continuous] any more" in daemon.log(), daemon.log())
        reload(text)
        wait_for("another collector", lambda: collector_pid(daemon) not in (None, first))
        known = len(files_of(files, process.pid))
        wait_for("a period", lambda: process.wake() or len(files_of(files, process.pid)) > known)
        check(process.end() == 0, "the program failed")


def test_leaves_out_what_costs_too_much():
    """Far beyond the bound of memory, the program with the most samples is left out, and the status says so."""
    name, quiet = own_name("costly"), own_name("quiet")
    with daemon_with_collector(f"memory = 2MiB\n[program {name}]\n[program {quiet}]") as (daemon, files):
        directory = os.path.dirname(files)
        process, other = (Commanded(daemon.environment, n, directory) for n in (name, quiet))
        wait_for("the programs", lambda: process.wake() or other.tell("hold 1 1") or {process.pid, other.pid} <=
                 daemon.profiled_pids() or other.wake())
        wait_for("the end of its profile", lambda: process.wake() or process.pid not in daemon.profiled_pids())
        check(f"{name} is left out: the daemon's memory is above its bound" in daemon.log(), daemon.log())

        def shows():
            process.wake()
            status = run([TOOL, "status"], env=daemon.environment)
            return b"left out: the daemon's memory" in status.stdout

        wait_for("the status", shows)
        check(process.pid not in daemon.profiled_pids(), "it is profiled again")
        check(process.end() == 0 and other.end() == 0, "a program failed")


def test_a_neighbour_has_a_budget_of_its_own():
    """Another user starts busy programs under the name of a service: the service is sampled as before, no more samples
    come than the budget has, and what cannot be sampled is counted."""
    need_root()
    name, budget, longest = own_name("service"), 5000, 4 << 30
    with scene(start=False) as (daemon, directory):
        reachable(directory)
        files, others = os.path.join(directory, "files"), []
        daemon.environment["HEAPPROFD_CONFIG"] = configure(
            # Programs begin at the longest interval: on a busy machine it may take long until a request reaches one.
            directory, f"samples_per_hour = {budget}\nstart_interval = {longest}\n[program svc]\nname = {name}\n"
            f"[sink files]\ntype = directory\npath = {files}\n")
        daemon.start()
        service = Commanded(daemon.environment, name, directory)
        path = os.path.join(directory, name)

        def programs():
            service.tell("churn 200 1000")
            status = (daemon.status() or {}).get("continuous") or {}
            return {p["pid"]: p for p in status.get("programs", [])}

        wait_for("the service", lambda: 0 < programs().get(service.pid, {}).get("interval_bytes", 0) <= longest // 16)
        try:
            for _ in range(6):
                others.append(subprocess.Popen(
                    [path], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, **as_user(BOB),
                    env={**daemon.environment, "LD_PRELOAD": LIBRARY}))
                # More than the longest interval can bear.
                others[-1].stdin.write(b"hold 1000 1000\nchurn 1000000000000 60000\n")
                others[-1].stdin.flush()

            def are_off():
                known = programs()
                return all(known.get(other.pid, {}).get("sampled") is False for other in others) and known

            known = wait_for("programs without samples", are_off)
            text = run([TOOL, "status"], env=daemon.environment).stdout.decode()
            check("not sampled: it allocates more than its budget allows" in text, f"status: {text}")
            then = [programs() for _ in range(20)]
            intervals = [at[service.pid]["interval_bytes"] for at in then]
            check(max(intervals) <= longest // 16, f"the service's intervals: {intervals}")
            samples = sum(p["samples"] for p in then[-1].values())
            check(samples <= budget, f"{samples} samples, of {budget} an hour")
            for other in others:
                before, after = (at[other.pid]["samples"] for at in (known, then[-1]))
                check(before == after, f"{before} samples, and {after} without being sampled")
        finally:
            for other in others:
                other.kill()
                other.wait()
        # What was counted is exact where nothing was sampled. The last period may be too short for a call.
        for other in others:
            wait_for("a last period", lambda pid=other.pid: [f for f in files_of(files, pid) if ".end." in f])
            reports = {file: run([TOOL, "report", os.path.join(files, file)]).stdout.decode()
                       for file in files_of(files, other.pid)}
            counted = {file: report for file, report in reports.items()
                       if "none for a time: the program allocated more" in report}
            check(any(".end." in file for file in counted), f"reports: {reports}")
            check(all("calls, exact" in report for report in counted.values()), f"reports: {counted}")
            check(any("0 B in 0 calls" not in report for report in counted.values()), f"reports: {counted}")
        check(service.end() == 0, "the service failed")


def test_wrong_configuration():
    """A mistake is told with its place, and the daemon serves others."""
    for text, words in (
        ("[program p]\nname = *\nperoid = 3s\n", "peroid"),
        ("[program p]\nuser = no-such-user-here\n", "no such user"),
        ("[labels]\nBad-Name = 1\n[program p]\n", "lower-case"),
        ("", "no section [program NAME]"),
    ):
        with daemon_with_collector(text) as (daemon, _):
            wait_for(f"a message with {words!r}", lambda: words in daemon.log() and "restart the daemon" in daemon.log())
            check("heapprofd.conf" in daemon.log(), daemon.log())
            check(daemon.status() is not None, "the daemon serves")
    for section, words in (
        ("listen = 10.9.8.7:9464", "allow_remote"), ("listen = somewhere", "an address and a port"),
        ("listen = 127.0.0.1:99999", "an address and a port"), ("listen = unix:relative", "absolute"),
        ("listen = unix:/run/no-such-place/s", "there is no directory /run/no-such-place"),
        ("listen = 203.0.113.9:9464\nallow_remote = yes", "cannot serve metrics"), ("socket_mod = 0600", "socket_mod"),
        ("listen = unix:/run/x\nsocket_mode = 9", "octal"), ("", ""), ("listen = 127.0.0.1:0", ""), ("listen = [::1]:9464", ""),
    ):
        with tempfile.NamedTemporaryFile("w") as file:
            spool = tempfile.gettempdir() + "/spool-of-a-check"
            file.write(f"[continuous]\nspool = {spool}\n[program p]\n[metrics]\n{section}\n")
            file.flush()
            outcome = run([COLLECTOR, "--config", file.name, "--check"])
            if "::1" in section and b"cannot serve" in outcome.stderr:
                continue  # a machine without IPv6
            check(outcome.status == (78 if words else 0) and words in outcome.stderr.decode(), f"{section}: {outcome.status} {outcome.stderr!r}")
    outcome = run([COLLECTOR, "--config", "/nonexistent", "--check"])
    check(outcome.status == 78 and b"/nonexistent" in outcome.stderr, f"{outcome.status} {outcome.stderr}")


if __name__ == "__main__":
    harness.main()
