#!/usr/bin/python3
"""Sessions without a daemon: how signals reach them and their commands, how other commands reach
them, and when they end. On programs that nobody here wrote.

    sessions.py CASE
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

import harness
import terminal
from daemon import report_of, wait_for
from harness import TOOL, check, finish, need, run

WORK = tempfile.mkdtemp(prefix="sessions-")
PATIENCE = 30
ENVIRONMENT = {**os.environ, "TMPDIR": WORK, "HEAPPROFD_RUN_DIR": os.path.join(WORK, "run")}


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
    """What it said until its end, which must be of that status."""
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
    """The child of that name, once it is one."""
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
    """redis-server under host, once it answers."""
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
    """A python3 under host that says which signals it got, and ends after so many."""
    command = ["python3", "-c", COUNTING, str(count), *signals]
    process = host(name, *command, options=options, **more)
    check(process.stdout.readline() == b"ready\n", "the command did not begin")
    return process


def signals_are_the_commands():
    """kill of the profiler reaches the command, which ends in its own way; the profile is written."""
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
    # As a script does it.
    script = f"{TOOL} host -q -o {at('script')} -- python3 -m http.server {free_port()} & sleep 1; kill $!; wait $!; echo $?"
    out, _ = end_of(begin("sh", "-c", script), "a script", 0)
    check(out.endswith(b"143\n") and profile_files("script"), f"a script: {out!r}")


def signals_come_once():
    """What a group or a terminal is sent reaches the command by itself, and is not passed on."""
    names = ["SIGTERM", "SIGINT", "SIGHUP", "SIGUSR2", "SIGRTMIN"]
    numbers = [getattr(signal, name) for name in names]
    process = counting("alone", 5, *names)
    for number in numbers:
        process.send_signal(number)
        check(process.stdout.readline().startswith(b"got "), f"{number} did not come")
    out, _ = end_of(process, "signals to the profiler", 7)
    check(out.decode().split() == names, f"to the profiler alone: {out!r}")
    process = counting("group", 5, *names)
    for number in numbers:
        os.killpg(process.pid, number)
        check(process.stdout.readline().startswith(b"got "), f"{number} did not come")
    out, _ = end_of(process, "signals to the group", 7)
    check(out.decode().split() == names, f"to the group: {out!r}")
    # Who looks for the profiler by its name finds one process.
    process = counting("name", 1, "SIGTERM")
    found = run(["pgrep", "-f", at("name")]).stdout.split() + run(["pgrep", "-x", "heap_profile", "-s", str(process.pid)]).stdout.split()
    check(found == [str(process.pid).encode()] * 2, f"processes of its name: {found}, not {process.pid}")
    process.terminate()
    end_of(process, "the one process", 7)
    # timeout(1) sends to its child, and then to the group.
    command = [TOOL, "host", "-q", "-o", at("timeout"), "--", "python3", "-c", COUNTING, "9", "SIGINT"]
    out = run(["timeout", "-s", "INT", "-k", "3", "1", *command], env=ENVIRONMENT).stdout
    check(out.count(b"got") == 1, f"timeout -s INT: {out!r}")
    # The command sends to its group, which is ours.
    script = "trap 'echo term; exit 4' TERM; kill -TERM 0; sleep 5"
    out, _ = end_of(host("own", "sh", "-c", script), "kill 0", 4)
    check(out == b"term\n", f"kill 0: {out!r}")


def signals_after_the_session():
    """While the command goes on after its profile, its signals still reach it."""
    process = counting("short", 1, "SIGTERM", options=["-d", "100"])
    wait_for("the profile", lambda: profile_files("short"))
    process.terminate()
    out, _ = end_of(process, "after the session", 7)
    check(out.split() == [b"got", b"SIGTERM", b"SIGTERM"], f"{out!r}")


IGNORING = "import signal, time; signal.signal(signal.SIGTSTP, signal.SIG_IGN); print('ready'); time.sleep(9)"


def job_control():
    """Ctrl-C and Ctrl-Z on a terminal: the command acts on them, and we as it does."""
    for what, command, line in (
        ("default", "sleep", "sleep 9"), ("ignoring", "python3", f'python3 -uc "{IGNORING}"'),
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
            check(state_of(pid) == state_of(child) == "T", "one of both goes on")
            shell.send("fg\r")
            wait_for("both go on", lambda: state_of(pid) != "T" and state_of(child) != "T")
        shell.send("\x03")
        wait_for("the end of both", lambda: not os.path.exists(f"/proc/{pid}"))
        check(not os.path.exists(f"/proc/{child}") and profile_files(what), f"{what}: Ctrl-C")
        shell.send("echo status $?\r")
        check(shell.wait(lambda screen: any("status 130" in row for row in screen.text())), "status")
        shell.close()
    # Who stops and continues the command alone does not stop us.
    process = host("stopped", "sleep", "1")
    child = command_of(process.pid, "sleep")
    os.kill(child, signal.SIGSTOP)
    time.sleep(0.1)
    check(state_of(process.pid) != "T", "SIGSTOP of the command stopped the profiler")
    process.send_signal(signal.SIGCONT)
    wait_for("the command to go on", lambda: state_of(child) != "T")
    end_of(process, "stopped and continued", 0)


def dump_by_signal():
    """SIGUSR1 takes a dump, of host and of -p, and the command does not see it."""
    server, port = redis("usr1")
    for count in (1, 2):
        server.send_signal(signal.SIGUSR1)
        time.sleep(0.2)
        check(server.poll() is None, "SIGUSR1 ended the profiler")
    check(run(["redis-cli", "-p", str(port), "ping"]).stdout == b"PONG\n", "redis does not answer")
    child = command_of(server.pid, "redis-server")
    server.terminate()
    end_of(server, "redis", 0)
    check(len(profile_files("usr1")) == 3, f"two dumps and the end: {profile_files('usr1')}")
    check(not os.path.exists(f"/proc/{child}"), "redis is left")


CASES = [
    signals_are_the_commands, signals_come_once, signals_after_the_session, job_control, dump_by_signal,
]

if __name__ == "__main__":
    try:
        {case.__name__: case for case in CASES}[sys.argv[1]]()
    finally:
        shutil.rmtree(WORK, ignore_errors=True)
    finish()
