#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Sessions without a daemon, on real programs: signals to them and their commands, requests of other commands,
and their end.

    sessions.py CASE
"""

import contextlib
import fcntl
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time

import harness
import terminal
from daemon import need_root, report_of, wait_for
from harness import TOOL, check, main, make_work_directory, need, run

WORK = make_work_directory("sessions-")
PATIENCE = 120 * harness.SLOWNESS
ENVIRONMENT = {**os.environ, "TMPDIR": WORK, "HEAPPROFD_RUN_DIR": os.path.join(WORK, "run")}


# A process that never allocates is unknown, and no file is written.
BUSY = [sys.executable, "-c", "import time\nwhile True: bytearray(99999); time.sleep(0.001)"]


def at(name):
    return os.path.join(WORK, name)


def tool(*arguments):
    return run([TOOL, *arguments], env=ENVIRONMENT)


def begin(*command, **options):
    options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE,
               "env": ENVIRONMENT, "start_new_session": True, **options}
    return subprocess.Popen(command, **options)


def host(name, *command, options=(), **more):
    return begin(TOOL, "host", "-o", at(name), *options, "--", *command, **more)


def end_of(process, what, status):
    """Return its messages until its end, and check its exit status."""
    try:
        out, err = process.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        harness.fail(f"{what}: not ended after {PATIENCE} s")
        process.kill()
        out, err = process.communicate()
    check(process.returncode == status, f"{what}: {process.returncode}, not {status}: {err[-300:]!r}")
    return out, err.decode(errors="replace")


def profile_files(name):
    return sorted(file for file in os.listdir(at(name)) if file.endswith(".pb.gz"))


def children_of(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return [int(child) for child in file.read().split()]


def command_of(pid, comm):
    """Wait for the child of that name and return it."""
    def found():
        for child in children_of(pid):
            with open(f"/proc/{child}/comm") as file:
                if file.read().strip() == comm:
                    return child
        return None

    return wait_for(f"{comm} below {pid}", found)


def state_of(pid):
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rsplit(") ", 1)[1][0]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def redis(name, *arguments):
    """Start redis-server under host, and wait until it answers."""
    need("redis-server", "redis-cli")
    port = free_port()
    server = host(name, "redis-server", "--port", str(port), "--save", "", "--dir", WORK, *arguments)
    wait_for("redis", lambda: run(["redis-cli", "-p", str(port), "ping"]).stdout == b"PONG\n")
    return server, port


# --- signals ---

COUNTING = """
import signal, sys, time
got = []
def take(number, frame):
    got.append(signal.Signals(number).name)
    print("got", got[-1], flush=True)
for name in sys.argv[2:]:
    signal.signal(getattr(signal, name), take)
print("ready", flush=True)
end = time.monotonic() + 30
while len(got) < int(sys.argv[1]) and time.monotonic() < end:
    time.sleep(0.01)
time.sleep(0.3)
print(" ".join(got), flush=True)
sys.exit(7)
"""


def counting(name, count, *signals, options=(), **more):
    """Start a python3 under host that prints the signals that it receives, and ends after a given number."""
    command = [sys.executable, "-c", COUNTING, str(count), *signals]
    process = host(name, *command, options=options, **more)
    check(process.stdout.readline() == b"ready\n", "the command did not begin")
    return process


def test_signals_reach_the_command():
    """A signal to the profiler reaches the command, which handles it; the profile is written."""
    server, _ = redis("term")
    server.terminate()
    out, err = end_of(server, "redis-server, SIGTERM", 0)
    check(b"Received SIGTERM" in out and b"bye bye" in out, f"redis did not shut down: {out[-300:]!r}")
    check("Profile in " in err and profile_files("term"), f"no profile: {err[-300:]!r}")
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR2, signal.SIGALRM):
        name = f"killed-{number}"
        process = host(name, "sleep", "60", preexec_fn=harness.limit_core_dumps)
        child = command_of(process.pid, "sleep")
        process.send_signal(number)
        _, err = end_of(process, f"sleep, signal {number}", -number)
        check(not os.path.exists(f"/proc/{child}"), f"signal {number} left the command")
        check(os.path.exists(at(f"{name}/raw-trace")), f"signal {number}: no profile")
    # As a script would do.
    script = (f"{TOOL} host -q -o {at('script')} -- {sys.executable} -u -m http.server {free_port()} >{at('log')} & "
              f"until grep -q Serving {at('log')}; do sleep 0.1; done; kill $!; wait $!; echo $?")
    out, _ = end_of(begin("sh", "-c", script), "a script", 0)
    check(out.endswith(b"143\n") and profile_files("script"), f"a script: {out!r}")


def test_group_signals_come_once():
    """A signal to the process group or from the terminal reaches the command directly, and is not passed on."""
    names = ["SIGTERM", "SIGINT", "SIGHUP", "SIGUSR2", "SIGRTMIN"]
    numbers = [getattr(signal, name) for name in names]
    process = counting("alone", 5, *names)
    for number in numbers:
        process.send_signal(number)
        check(process.stdout.readline().startswith(b"got "), f"signal {number} did not arrive")
    out, _ = end_of(process, "signals to the profiler", 7)
    check(out.decode().split() == names, f"to the profiler alone: {out!r}")
    process = counting("group", 5, *names)
    for number in numbers:
        os.killpg(process.pid, number)
        check(process.stdout.readline().startswith(b"got "), f"signal {number} did not arrive")
    out, _ = end_of(process, "signals to the group", 7)
    check(out.decode().split() == names, f"to the group: {out!r}")
    # A search for the profiler by name finds one process, once its helper has its own name.
    process = counting("name", 1, "SIGTERM")
    own = str(process.pid).encode()

    def named():
        return (run(["pgrep", "-f", at("name")]).stdout.split() +
                run(["pgrep", "-x", "heap_profile", "-s", str(process.pid)]).stdout.split())

    wait_for(f"one process of its name, {process.pid}", lambda: named() == [own] * 2)
    process.terminate()
    end_of(process, "the one process", 7)
    # timeout(1) sends to its child, and then to the group. SIGALRM tells it that the time is over. A second SIGINT
    # would come before the SIGUSR2.
    command = [TOOL, "host", "-q", "-o", at("timeout"), "--", sys.executable, "-c", COUNTING, "2", "SIGINT", "SIGUSR2"]
    process = begin("timeout", "-s", "INT", "0", *command)
    check(process.stdout.readline() == b"ready\n", "the command of timeout did not begin")
    process.send_signal(signal.SIGALRM)
    check(process.stdout.readline() == b"got SIGINT\n", "timeout's signal did not arrive")
    (profiler,) = children_of(process.pid)
    os.kill(profiler, signal.SIGUSR2)
    out, _ = end_of(process, "timeout -s INT", 124)
    check(out.split(b"\n")[-2] == b"SIGINT SIGUSR2", f"timeout -s INT: {out!r}")
    # The command sends to its group, which is also ours.
    script = "trap 'echo term; exit 4' TERM; kill -TERM 0; sleep 5"
    out, _ = end_of(host("own", "sh", "-c", script), "kill 0", 4)
    check(out == b"term\n", f"kill 0: {out!r}")


def has_begun(pid):
    """Return whether the profiler blocks signals, and its watcher runs."""
    with open(f"/proc/{pid}/status") as status:
        held = int(re.search(r"SigBlk:\s*(\w+)", status.read())[1], 16)
    return held >> (signal.SIGTERM - 1) & 1 and children_of(pid)


def test_signals_before_the_command():
    """A signal to the group after our start and before the command's start ends the command nevertheless."""
    for i in range(10):
        process = host(f"early{i}", "sleep", "9", options=["-q"])
        while True:
            # Try delays in small steps, because the window is a few microseconds.
            process.send_signal(signal.SIGSTOP)
            while state_of(process.pid) not in "TZ":
                pass
            if has_begun(process.pid):
                break
            process.send_signal(signal.SIGCONT)
        time.sleep(0.01)
        os.killpg(process.pid, signal.SIGTERM)
        time.sleep(0.01)
        process.send_signal(signal.SIGCONT)
        end_of(process, f"terminated early, time {i}", -signal.SIGTERM)


@contextlib.contextmanager
def running_daemon():
    daemon = begin(os.path.join(harness.BUILD, "heapprofd"))
    wait_for("the daemon", lambda: tool("status").stdout.startswith(b"heapprofd "))
    try:
        yield daemon
    finally:
        os.killpg(daemon.pid, signal.SIGCONT)
        daemon.terminate()
        daemon.communicate()


def ask_again(session, number):
    """Return whether to repeat: on a busy machine two requests can be so close that they count as one."""
    for _ in range(10):
        session.send_signal(number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            session.wait(0.5)
            return


def test_second_signal():
    """A tool whose end takes long leaves at the second signal, and is killed by it."""
    busy = begin(*BUSY)
    pipe = at("pipe")
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    # The pipe is full, and has no reader.
    filler = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
    os.write(filler, bytes(fcntl.fcntl(reader, fcntl.F_GETPIPE_SZ)))
    with open(at("config"), "w") as file:
        file.write("data_sources { config { name: \"android.heapprofd\" heapprofd_config { "
                   f"sampling_interval_bytes: 1 pid: {busy.pid} }} }} }}\n")
    for number in (signal.SIGINT, signal.SIGTERM):
        session = begin(TOOL, "record", "-c", at("config"), "-o", pipe)
        time.sleep(1)
        session.send_signal(number)
        time.sleep(0.5)
        check(session.poll() is None, f"it did not wait: {session.poll()}")
        ask_again(session, number)
        end_of(session, f"{number} twice, alone", -number)
        check(busy.poll() is None, "the program ended with it")
    with running_daemon() as daemon:
        session = begin(TOOL, "-p", str(busy.pid), "-o", at("by_daemon"))
        time.sleep(1)
        os.killpg(daemon.pid, signal.SIGSTOP)
        session.send_signal(signal.SIGTERM)
        # timeout(1) sends a second one right after the first.
        session.send_signal(signal.SIGTERM)
        time.sleep(0.5)
        check(session.poll() is None, f"it did not wait for the daemon: {session.poll()}")
        ask_again(session, signal.SIGTERM)
        end_of(session, "a client of a daemon that stands still", -signal.SIGTERM)
        session = begin(TOOL, "-p", str(busy.pid), "-o", at("at_start"))
        time.sleep(0.3)
        session.send_signal(signal.SIGINT)
        time.sleep(0.4)
        ask_again(session, signal.SIGINT)
        end_of(session, "before the daemon answers", -signal.SIGINT)
    busy.kill()
    end_of(busy, "busy", -signal.SIGKILL)
    os.close(filler)
    os.close(reader)


def test_signals_after_the_session():
    """While the command continues after the end of its profile, signals still reach it."""
    process = counting("short", 1, "SIGTERM", options=["-d", "1000"])
    wait_for("the profile", lambda: profile_files("short"))
    process.terminate()
    out, _ = end_of(process, "after the session", 7)
    check(out.split() == [b"got", b"SIGTERM", b"SIGTERM"], f"{out!r}")


IGNORING = "import signal, time; signal.signal(signal.SIGTSTP, signal.SIG_IGN); print('ready'); time.sleep(9)"


def test_job_control():
    """On a terminal the command handles Ctrl-C and Ctrl-Z, and the profiler follows it."""
    for what, command, line in (
        ("default", "sleep", "sleep 9"), ("ignoring", "python3", f'{sys.executable} -uc "{IGNORING}"'),
    ):
        shell = terminal.Terminal(["bash", "--norc", "-i"], env={**ENVIRONMENT, "PS1": "# "})
        shell.send(f"{TOOL} host -q -o {at(what)} -- {line}\r")
        pid = command_of(shell.process.pid, "heap_profile")
        child = command_of(pid, command)
        if what == "ignoring":
            shell.wait(lambda screen: "ready" in screen.text())
        shell.send("\x1a")
        if what == "ignoring":
            time.sleep(0.2)
            check(state_of(pid) != "T", "we stopped, and the command did not")
        else:
            check(shell.wait(lambda screen: any("Stopped" in row for row in screen.text())), "not stopped")
            check(state_of(pid) == state_of(child) == "T", "one of both continues")
            shell.send("fg\r")
            wait_for("both go on", lambda: state_of(pid) != "T" and state_of(child) != "T")
        shell.send("\x03")
        wait_for("the end of both", lambda: not os.path.exists(f"/proc/{pid}"))
        is_whole = os.path.exists(at(f"{what}/raw-trace")) and tool("report", at(what)).status == 0
        check(not os.path.exists(f"/proc/{child}") and is_whole, f"{what}: Ctrl-C")
        shell.send("echo status $?\r")
        check(shell.wait(lambda screen: any("status 130" in row for row in screen.text())), "status")
        shell.close()
    # Stopping and continuing the command alone does not stop us. (In a group of our session, because
    # in an orphaned one SIGTSTP stops no process.)
    for what in ("SIGSTOP", "SIGTSTP"):
        process = host(what, "sleep", "1", start_new_session=False, process_group=0)
        child = command_of(process.pid, "sleep")
        os.kill(child, getattr(signal, what))
        wait_for(f"{what} to stop the command", lambda: state_of(child) == "T")
        time.sleep(0.1)
        check(state_of(process.pid) != "T", f"{what} of the command stopped the profiler")
        os.kill(child, signal.SIGCONT)
        end_of(process, f"{what} and SIGCONT", 0)
    # Stopping us stops both.
    process = host("both", "sleep", "1", start_new_session=False, process_group=0)
    child = command_of(process.pid, "sleep")
    process.send_signal(signal.SIGTSTP)
    wait_for("both to stop", lambda: state_of(process.pid) == state_of(child) == "T")
    process.send_signal(signal.SIGCONT)
    wait_for("the command to go on", lambda: state_of(child) != "T")
    end_of(process, "both stopped and continued", 0)


def dump_by_signal(session, name):
    """Have a session dump, and wait for the dump: two signals before it are one request."""
    begun = time.clock_gettime_ns(time.CLOCK_BOOTTIME)

    def is_dumped():
        done = tool("query", "--json", os.path.join(at(name), "raw-trace"), "select max(ts) as last from hp_total")
        return done.status == 0 and (json.loads(done.stdout)[0]["last"] or 0) > begun

    session.send_signal(signal.SIGUSR1)
    wait_for("the dump", lambda: session.poll() is not None or is_dumped())


def test_dump_by_signal():
    """SIGUSR1 to host or -p writes a dump, and the command does not receive it."""
    server, port = redis("usr1")
    for _ in range(2):
        dump_by_signal(server, "usr1")
        check(server.poll() is None, "SIGUSR1 ended the profiler")
    check(run(["redis-cli", "-p", str(port), "ping"]).stdout == b"PONG\n", "redis does not answer")
    child = command_of(server.pid, "redis-server")
    server.terminate()
    end_of(server, "redis", 0)
    check(len(profile_files("usr1")) == 3, f"two dumps and the end: {profile_files('usr1')}")
    check(not os.path.exists(f"/proc/{child}"), "redis is left")
    sleeper = begin(*BUSY)
    daemon = None
    for name in ("without", "with"):
        if name == "with":
            daemon = begin(os.path.join(harness.BUILD, "heapprofd"))
            wait_for("the daemon", lambda: tool("status").stdout.startswith(b"heapprofd "))
        session = begin("nohup", TOOL, "--heaps", "libc.malloc", "-p", str(sleeper.pid), "-o", at(name))
        check(b"Profiling" in session.stderr.readline(), "-p did not begin")
        dump_by_signal(session, name)
        session.send_signal(signal.SIGHUP)  # ignored, as under nohup(1)
        time.sleep(0.1)
        check(session.poll() is None, f"{name} a daemon: an ignored SIGHUP ended it")
        session.send_signal(signal.SIGINT)
        end_of(session, f"{name} a daemon", 0)
        check(len(profile_files(name)) == 2, f"{name} a daemon: {profile_files(name)}")
    sleeper.kill()
    daemon.terminate()
    daemon.wait()


def status(*options):
    outcome = tool("status", "--json")
    return json.loads(outcome.stdout)["sessions"] if outcome.status == 0 else []


def test_requests_without_a_daemon():
    """status, snapshot and stop find the sessions of host and -p, by number and by process."""
    check(tool("status").status == 1, "status lists a session")
    server, port = redis("host")
    child = command_of(server.pid, "redis-server")
    sleeper = begin("sleep", "60")
    other = begin(TOOL, "-p", str(sleeper.pid), "-o", at("attached"))
    check(b"Profiling" in other.stderr.readline(), "-p did not begin")
    sessions = {session["id"]: session for session in status()}
    check(set(sessions) == {server.pid, other.pid}, f"sessions {set(sessions)}")
    check([p["pid"] for p in sessions[server.pid]["processes"]] == [child], f"{sessions[server.pid]}")
    check("redis-server" in sessions[server.pid]["profiler"]["command"], f"{sessions[server.pid]}")
    check(sessions[other.pid]["requester_pid"] == other.pid, f"{sessions[other.pid]}")
    text = tool("status").stdout.decode()
    check(f"session {server.pid} " in text and f"session {other.pid} " in text, text)
    check("\n  0 B live, 0 samples, 0 lost\n" in text, text)  # of sleep
    for number in ([], [server.pid], [child], ["--session", server.pid]):
        outcome = tool("snapshot", *map(str, number))
        count = 1 if number else 2
        check(f"a dump of {count} session" in outcome.stdout.decode(), f"snapshot {number}: {outcome}")
    running = tool("report", "--top", "1", at("host")).stdout.decode()  # the dump, while the program runs
    check("unfinished" in running and "or still runs" in running and f"process       {child}," in running, running)
    check(tool("stop", str(sleeper.pid)).stdout == b"ended 1 session\n", "stop by process")
    end_of(other, "the one that was stopped", 0)
    for number in (["4000001"], ["--session", str(child)], [str(sleeper.pid)]):
        outcome = tool("stop", *number)
        check(outcome.status == 1 and b"no such session" in outcome.stderr, f"{number}: {outcome}")
    check(sleeper.poll() is None, "stop ended the process")
    server.send_signal(signal.SIGSTOP)
    for verb, *said in (("stop", str(server.pid), "does not answer"), ("status", f"process {server.pid}", "does not answer")):
        outcome = tool(verb, *(said[:1] if verb == "stop" else ()))
        words = (outcome.stdout + outcome.stderr).decode()
        check(all(text in words for text in said) and words.count("answer") == 1, f"stopped profiler: {words}")
    server.send_signal(signal.SIGCONT)
    check(tool("stop", str(server.pid)).stdout == b"ended 1 session\n", "stop by number")
    wait_for("its profiles", lambda: len(profile_files("host")) == 5)
    check(run(["redis-cli", "-p", str(port), "ping"]).stdout == b"PONG\n", "stop ended the command")
    check(status() == [], "still listed")
    server.terminate()
    end_of(server, "redis", 0)
    sleeper.kill()
    check(os.listdir(at("run/sessions")) == [], "links are left")


# Request the end of all sessions, as heap_profile stop does.
ASKING = """
import socket, struct, sys
asking = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
asking.connect(sys.argv[1])
asking.send(struct.pack("<II", 0x48504354, 1) + bytes([4 << 3 | 2, 0]))
print(asking.recv(1000))
"""


def test_other_users_are_refused():
    """Other users neither find nor reach a session; root does. The leftovers of a killed session are removed."""
    process = host("one", "sleep", "60")
    child = command_of(process.pid, "sleep")
    session = wait_for("the session", status)[0]
    link = at(f"run/sessions/{process.pid}")
    check(session["id"] == process.pid and os.readlink(link).endswith("/socket"), f"{session}")
    check(os.stat(at("run/sessions")).st_mode & 0o777 == 0o700, "others can look into it")
    if os.geteuid() == 0:
        for name in ("", "run"):
            os.chmod(at(name), 0o755)
        bob = {"user": 65501, "group": 65501, "extra_groups": []}
        outcome = run([TOOL, "stop"], env=ENVIRONMENT, **bob)
        check(outcome.status == 1 and b"no such session" in outcome.stderr, f"another user: {outcome}")
        # A user who knows the socket is refused.
        outcome = run(["python3", "-c", ASKING, os.readlink(link)], **bob)
        check(b"another user's" in outcome.stdout, f"by its socket: {outcome.stdout} {outcome.stderr}")
        check(process.poll() is None and status(), "another user ended it")
    process.kill()
    process.wait()
    check(os.path.exists(f"/proc/{child}"), "the profiler's death ended the command")
    check(status() == [] and not os.path.lexists(link), "leftovers of a killed profiler remain")
    os.kill(child, signal.SIGKILL)


@contextlib.contextmanager
def with_and_without_daemon():
    """Return a name for the round; in the second one a daemon runs."""
    def rounds():
        yield "without a daemon"
        daemon = begin(os.path.join(harness.BUILD, "heapprofd"))
        try:
            wait_for("the daemon", lambda: tool("status").stdout.startswith(b"heapprofd "))
            yield "with a daemon"
        finally:
            daemon.terminate()
            daemon.wait()
    yield rounds()


def wait_of(pid):
    """Return the kernel's function in which the process waits."""
    with open(f"/proc/{pid}/wchan") as file:
        return file.read()


# Listens as a profiler of its own session. It answers requests for its status, with a claim to be root's profiler of
# process 1 and the machine's daemon, and no others. Or it answers nothing.
PROFILER = """
import os, socket, struct, sys
place, answers, links = sys.argv[1], sys.argv[2] == "answers", int(sys.argv[3])
os.umask(0o77)
os.mkdir(place)
path = os.path.join(place, "socket")
listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
listener.bind(path)
listener.listen(4096)
for number in range(links):
    os.symlink(path, os.path.join(place, str(os.getpid() + number)))
def number(field, value):
    text = bytes([field << 3])
    while value > 127:
        text, value = text + bytes([value & 127 | 128]), value >> 7
    return text + bytes([value])
def message(field, body):
    return bytes([field << 3 | 2, len(body)]) + body
session = number(1, 77) + number(2, 0) + message(9, number(1, 1) + message(2, b"init")) + number(12, 1) + number(13, 1)
status = number(2, 1) + message(4, b"/etc") + message(7, session) + message(11, b"heap_profile of root")
print("ready", flush=True)
kept = []
while True:
    peer, _ = listener.accept()
    kept.append(peer)
    if answers and peer.recv(1 << 17)[8:] == number(2, 1):
        peer.send(struct.pack("<II", 0x48504354, 1) + message(4, status))
"""


@contextlib.contextmanager
def profiler_of(uid, answers, links=1):
    place = f"/tmp/heapprofd-sessions-{uid}"
    shutil.rmtree(place, ignore_errors=True)
    process = subprocess.Popen(
        ["/usr/bin/python3", "-c", PROFILER, place, "answers" if answers else "silent", str(links)],
        stdout=subprocess.PIPE, user=uid, group=uid, extra_groups=[])
    try:
        check(process.stdout.readline() == b"ready\n", "it listens")
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        shutil.rmtree(place, ignore_errors=True)


ALONE = {"HEAPPROFD_RUN_DIR": "", "XDG_RUNTIME_DIR": ""}
# Each case has users of its own: a user has a limited number of places, and cases run side by side.
STRANGER, OTHER, FORGER, SQUATTED, SQUATTER = range(54341, 54346)


def test_many_silent_places():
    """However many places of other users do not answer, root's tools wait once, for all together."""
    need_root()
    with profiler_of(STRANGER, False, 4000) as silent, profiler_of(OTHER, True) as other:
        for verb in (["status"], ["stop", str(silent.pid)], ["snapshot", str(silent.pid)], ["doctor"]):
            outcome = run([TOOL, *verb], env=ALONE, timeout=100)
            check(b"were left out" in outcome.stderr, f"{verb}: {outcome.stderr[-300:]}")
        sessions = json.loads(run([TOOL, "status", "--json"], env=ALONE, timeout=100).stdout)["sessions"]
        check(any(session["pid"] == other.pid for session in sessions), f"the other's is there: {sessions}")


def test_forged_session():
    """What another user's server says is that user's: not root's, not the daemon's, and of no foreign process. It
    cannot hold a request up."""
    need_root()
    with profiler_of(FORGER, True) as forged:
        sessions = json.loads(run([TOOL, "status", "--json"], env=ALONE, timeout=100).stdout)["sessions"]
        # Other tests forge sessions at the same time.
        session = next((session for session in sessions if session["id"] == 77 and session["pid"] == forged.pid), None)
        check(session and (session["uid"], session["pid"]) == (FORGER, forged.pid), f"whose it is: {session}")
        check(session["processes"] == [] and session["profiler"]["uid"] == FORGER, f"processes: {session}")
        text = run([TOOL, "status"], env=ALONE, timeout=100).stdout.decode()
        check(f"session 77 of user {FORGER}, process {forged.pid}" in text, text)
        check("as that user's process tells them" in text, text)
        for verb in ("snapshot", "stop"):
            outcome = run([TOOL, verb, str(forged.pid)], env=ALONE, timeout=100)
            said = f"process {forged.pid} of user {FORGER}: the profiler does not answer"
            check(outcome.status == 1 and said in outcome.stderr.decode(), f"{verb}: {outcome.stderr}")
        outcome = run([TOOL, "stop", "1"], env=ALONE, timeout=100)
        check(outcome.status == 1 and b"no such session" in outcome.stderr, f"stop 1: {outcome.stderr}")


def test_taken_place():
    """If another user made the directory in which a user's profilers are found, status and each session say so."""
    need_root()
    place = f"/tmp/heapprofd-sessions-{SQUATTED}"
    output = at("taken")
    os.mkdir(output)
    os.chown(output, SQUATTED, SQUATTED)
    os.chmod(WORK, 0o755)
    shutil.rmtree(place, ignore_errors=True)
    os.mkdir(place, 0o700)
    os.chown(place, SQUATTER, SQUATTER)
    try:
        for command in (["status"], ["host", "-q", "-o", os.path.join(output, "profile"), "--", "true"]):
            outcome = run([TOOL, *command], env=ALONE, user=SQUATTED, group=SQUATTED, extra_groups=[])
            check(f"{place} belongs to user {SQUATTER}".encode() in outcome.stderr, f"{command}: {outcome.stderr}")
    finally:
        os.rmdir(place)


def test_ends_with_its_processes():
    """-p ends with its last process, and the profile is written; -n and -d have other ends."""
    with with_and_without_daemon() as rounds:
        for what in rounds:
            first, second = begin(*BUSY), begin(*BUSY)
            time.sleep(0.3)
            name = what.split()[0] + "-ends"
            session = begin(TOOL, "--heaps", "libc.malloc", "-p", f"{first.pid},{second.pid}", "-o", at(name))
            check(b"Profiling" in session.stderr.readline(), "-p did not begin")
            wait_for("samples of both", lambda: [s for s in status() if all(p["samples"] > 5 for p in s["processes"])])
            first.kill()
            first.wait()
            time.sleep(0.3)
            check(session.poll() is None, f"{what}: ended with the first of two")
            second.kill()
            second.wait()
            _, err = end_of(session, what, 0)
            check("Profile in " in err and len(profile_files(name)) == 2, f"{what}: {err[-300:]}")
            # A process that waits to join counts while it lives, and not until its parent has waited for it.
            for kind in "asleep", "zombie":
                asleep = begin("sleep", "60", env={**ENVIRONMENT, "LD_PRELOAD": os.path.join(harness.BUILD, "libheapprofd_preload.so")})
                wait_for("it sleeps", lambda: "nanosleep" in wait_of(asleep.pid)) # it allocates no more
                session = begin(TOOL, "-p", str(asleep.pid), "-o", at(f"{name}-{kind}"))
                # Written when the session has looked at its processes. Before, it might find that this one has ended.
                check(b"Profiling" in session.stderr.readline(), f"{what}, {kind}: -p did not begin")
                check(session.poll() is None, f"{what}, {kind}: did not wait for a process that may join")
                asleep.kill()
                if kind == "asleep":
                    asleep.wait()
                _, err = end_of(session, f"{what}, {kind}", 1)
                check("ended before it joined" in err, f"{what}, {kind}: {err!r}")
                asleep.wait()


def test_immediate_refusals():
    """Processes that cannot be profiled are reported at once; if no others are wanted, the session ends."""
    sleeper, child = begin("sleep", "60"), None
    server = host("refusing", "sleep", "60")
    child = command_of(server.pid, "sleep")
    with with_and_without_daemon() as rounds:
        for what in rounds:
            first = begin(TOOL, "-q", "-p", str(sleeper.pid), "-o", at(what.split()[0] + "-first"))
            wait_for("the first session", lambda: [s for s in status() if s["profiled"]][1:])
            for pid, *said in (
                (2, "kthreadd", "kernel thread"), (4000001, "No process has this pid"),
                (child, "(sleep)", "Another session", f"of process {server.pid} (heap_profile)"),
                (sleeper.pid, "Another session", "(heapd-session)" if what == "with a daemon" else f"of process {first.pid} (heap_profile)"),
            ):
                outcome = tool("-p", str(pid))
                err = outcome.stderr.decode()
                check(outcome.status == 1 and err.count("\n") == 1, f"{what}, {pid}: {outcome.status} {err}")
                check(all(words in err for words in said), f"{what}, {pid}: {err}")
                check(tool("-q", "-p", str(pid)).stderr == outcome.stderr, f"{what}, {pid}: --quiet")
            left = [name for name in os.listdir(WORK) if name.startswith("heap_profile-") and "latest" not in name]
            check(left == [], f"{what}: empty profiles: {left}")
            if what != "with a daemon":
                # A stopped profiler keeps its process. It also serves our run directory, so we wait for it.
                first.send_signal(signal.SIGSTOP)
                waiting = begin(TOOL, "-p", str(sleeper.pid))
                check(f"process {first.pid}, which" in waiting.stderr.readline().decode(), "no word of the wait")
                elsewhere = {**ENVIRONMENT, "HEAPPROFD_RUN_DIR": at("elsewhere")}
                outcome = run([TOOL, "-p", str(sleeper.pid)], env=elsewhere)
                check(outcome.status == 1 and b"Another session" in outcome.stderr, f"{outcome.stderr}")
                first.send_signal(signal.SIGCONT)
                check(b"Another session" in waiting.stderr.readline(), "no refusal after the wait")
                end_of(waiting, "after the wait", 1)
            # Together with a profilable process: at once, too, and the session continues.
            other = begin("sleep", "60")
            session = begin(TOOL, "-p", f"2,{other.pid}", "-o", at(what.split()[0] + "-other"))
            lines = [session.stderr.readline() for _ in range(2)]
            check(b"kernel thread" in lines[0] and b"Profiling" in lines[1], f"{what}: {lines}")
            other.kill()
            other.wait()
            end_of(session, what, 0)
            # With a configuration.
            config = tool("-p", "2", "--print-config").stdout
            outcome = run([TOOL, "record", "-c", "-", "-o", at("trace")], stdin=config, env=ENVIRONMENT)
            check(outcome.status == 1 and b"kernel thread" in outcome.stderr, f"{what}: record: {outcome.stderr}")
            first.terminate()
            end_of(first, "the first session", 0)
    sleeper.kill()
    server.terminate()
    end_of(server, "the command's", -signal.SIGTERM)


def test_named_pids_only():
    """A session of named processes does not read any others in /proc: a large machine has thousands."""
    need("strace")
    sleeper, trace = begin("sleep", "60"), at("opened")
    for pid in (4000001, sleeper.pid):
        run(
            ["strace", "-f", "-qq", "-e", "trace=openat", "-e", "signal=none", "-o", trace, TOOL, "-q", "-d", "100",
             "-o", at(f"named-{pid}"), "-p", f"{pid},{pid}"], env={**ENVIRONMENT, "ASAN_OPTIONS": "detect_leaks=0"},
        )
        with open(trace) as file:
            lines = file.read()
        own = set(re.findall(r"^\d+", lines, re.M))
        others = set(re.findall(r'"/proc/(\d+)/', lines)) - own - {str(pid)}
        check(f'"/proc/{pid}/' in lines and not others, f"-p {pid}: looked at {others}")
    sleeper.kill()
    sleeper.wait()


def daemonized(name, *options, **more):
    """Start redis-server under host so that a child does its work. Return its port."""
    need("redis-server", "redis-cli")
    port = free_port()
    server = host(
        name, "redis-server", "--port", str(port), "--save", "", "--dir", WORK, "--daemonize", "yes",
        "--logfile", at(name + ".log"), options=options, **more,
    )
    wait_for("redis", lambda: run(["redis-cli", "-p", str(port), "ping"]).stdout == b"PONG\n")
    return server, port


def ignore_hangup():
    """Start as under nohup and a shell's &."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def test_outlives_its_command():
    """With --follow-children the profile continues after the command's end: a server that daemonizes."""
    for what, options in (("children", ["--follow-children"]), ("named", ["-n", "redis-server"])):
        server, port = daemonized(what, *options)
        line = server.stderr.readline()
        check(b"the command has ended; 1 process" in line, f"{what}: {line!r}")
        time.sleep(0.3)
        check(server.poll() is None, f"{what}: ended with the command")
        run(["redis-benchmark", "-p", str(port), "-n", "1000", "-q", "-t", "set"])
        run(["redis-cli", "-p", str(port), "shutdown", "nosave"])
        end_of(server, what, 0)
        heaps = report_of(at(what))["heaps"]
        calls = [heap["exact_calls"] for heap in heaps]
        check(len(calls) == 2 and max(calls) > 15000, f"{what}: calls of its processes: {calls}")
    for what, end in (
        ("terminated", lambda server: server.terminate()),
        ("stopped", lambda server: tool("stop", str(server.pid))),
    ):
        server, port = daemonized(what, "--follow-children", preexec_fn=ignore_hangup)
        server.stderr.readline()
        server.send_signal(signal.SIGHUP)
        server.send_signal(signal.SIGINT)
        time.sleep(0.1)
        is_listed = str(server.pid).encode() in tool("status").stdout
        check(is_listed, f"{what}: an ignored signal ended the session")
        end(server)
        _, err = end_of(server, what, 0)
        check("Profile in " in err and len(profile_files(what)) == 2, f"{what}: {err[-300:]}")
        check(run(["redis-cli", "-p", str(port), "ping"]).stdout == b"PONG\n", f"{what} ended the server")
        run(["redis-cli", "-p", str(port), "shutdown", "nosave"])
    server, port = daemonized("asked", "--follow-children", "--end-with-command")
    end_of(server, "--end-with-command", 0)
    run(["redis-cli", "-p", str(port), "shutdown", "nosave"])
    # A child that has not said hello when its parent ends; the exit status is the command's.
    begun = time.monotonic()
    server = host("late", "sh", "-c", "(sleep 0.8; exec ls /) & exit 3", options=["--follow-children", "-q"])
    out, _ = end_of(server, "a child in the background", 3)
    check(b"usr\n" in out and time.monotonic() - begun > 0.7, f"{out!r}")
    names = {heap["name"] for heap in report_of(at("late"))["heaps"]}
    check({"sh", "sleep", "ls"} <= names, f"profiles of {names}")
    if os.getuid() == 0 and b"the kernel reports" in tool("doctor").stdout:
        # A server that first gives up root is an orphan of another user when it says hello.
        drops = "$< = $> = 65534; $p = $$; exit if fork; 1 while getppid == $p; @a = map { 'x' x $_ } 1 .. 9000"
        os.chmod(WORK, 0o711)  # it contains the session's socket
        end_of(host("dropped", "perl", "-e", drops, options=["--follow-children", "-q"]), "an orphan", 0)
        calls = [heap["exact_calls"] for heap in report_of(at("dropped"))["heaps"]]
        check(len(calls) == 2 and max(calls) > 9000, f"an orphan of another user: {calls}")
    # The session does not wait for processes that it does not profile.
    begun = time.monotonic()
    server = host("alone", "sh", "-c", "sleep 5 >&- 2>&- & exit 3", options=["-q"])
    end_of(server, "a child that is not followed", 3)
    check(time.monotonic() - begun < 4, "waits for a child that is not followed")


if __name__ == "__main__":
    main()
