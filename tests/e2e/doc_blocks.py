#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Every command block of README.md and docs/ runs, or is listed here with the reason why not. What a page shows of the
output is compared in shape: the words, and the figures that do not depend on the machine.

    doc_blocks.py PAGE      docs/PAGE.md, or README
"""

import contextlib
import functools
import glob
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import time

import harness
from harness import BUILD, ROOT, TOOL, check, run

COMMAND_WORDS = (
    "heap_profile", "traceconv", "heapprofd", "heapprofd_collector", "make", "cc", "cat", "curl", "jq", "apt", "ssh", "bpftrace",
    "perf", "gdb", "export", "seq", "scripts/fuzz", "bench/whole_suites.py", "bench/hostile_sizes.py", "meson",
)

# Blocks that do not run: the page and how the block begins, and why.
NOT_RUN = {
    ("README", "make demo"): "it installs packages; the tests `install` and `packages` build and install",
    ("packages", "apt install"): "it installs packages; the test `packages` does so in a root of its own",
    ("robustness", "make fuzz"): "minutes of fuzzing; the tests `fuzz_*` run each fuzzer on its corpus",
    ("robustness", "bench/whole_suites.py"): "hours of other projects' test suites",
    ("robustness", "bench/hostile_sizes.py"): "a measurement of minutes; the suite `sizes` has its bounds",
    ("fleet", "heap_profile fleet setup --url http://clickhouse"): "it needs a ClickHouse server; the suite `fleet` runs each verb with one",
    ("fleet", "heap_profile fleet setup --url http://shard1"): "it needs two ClickHouse servers; the test `fleet shards` has them",
    ("tracing", "heapprofd --producer"): "it needs Perfetto's tracing service; the suite `tracing` has a stand-in",
    ("tracing", "heap_profile -p 1234 --service"): "it needs Perfetto's tracing service; the suite `tracing` has a stand-in",
    ("tracing", "heap_profile host --with-tracing"): "it needs Perfetto's tracing service; the tests `with_tracing *` have a stand-in",
    ("tracing", "heap_profile record -c CONFIG --detach"): "it needs Perfetto's tracing service; the tests `tracing_consumer *` have a stand-in",
    ("tracing", "bpftrace"): "it needs tracers and their rights; the tests `usdt *` use the probes",
    ("view", "ssh"): "it needs another machine",
    ("heaps", "cc app.c"): "it compiles what a reader writes; the tests `examples *` compile and run those of examples/",
    ("last-profile", "$ heap_profile report"): "it needs the OOM killer; the tests `last_profile *` have a cgroup of their own",
    ("last-profile", "$ heap_profile oom"): "it needs the OOM killer; the tests `last_profile *` have a cgroup of their own",
}

# Words of a page that stand for something: replaced before a line runs. Longer ones first.
WORDS = {
    "COMMAND [ARGS]": "ls /", "-- COMMAND": "-- ls /", "[ID]": "", "[DIR|FILE]": "DIR", "1234,5678": "$PID", "1234": "$PID", "PID": "$PID", "4711": "$PID",
    "./unit-tests": "true ./unit-tests", "heaptrack.app.123.zst": "folded", "/var/lib/heapprofd/profiles": "DIR",
}

# Commands that go on until Ctrl-C, or that take longer than a test may.
UNTIL_CTRL_C = re.compile(r"^heap_profile (-n|-p|host --view|view)(?! --save)|^heap_profile report --perfetto|^\./|^heap_profile explore")
SECONDS = 2.0 * harness.SLOWNESS


def name_of(path):
    return os.path.basename(path).removesuffix(".md")


def pages():
    return [os.path.join(ROOT, "README.md"), *sorted(glob.glob(os.path.join(ROOT, "docs", "*.md")))]


def is_of_commands(body):
    first = body.lstrip("(").split("\n")[0]
    return first.startswith("$ ") or (first.split() and first.split()[0] in COMMAND_WORDS and "─" not in first and ":" not in first.split()[0])


def blocks_of(path):
    """Return the command blocks of a page."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    blocks = re.findall(r"^```([^\n]*)\n(.*?)^```$", text, flags=re.M | re.S)
    return [body for language, body in blocks if language in ("", "sh") and is_of_commands(body)]


def reason_not_to_run(page, body):
    return next((reason for (name, start), reason in NOT_RUN.items() if name == page and body.startswith(start)), None)


def without_comments(command):
    return re.sub(r"(?m)\s+#\s.*$", "", command)


def commands_of(body):
    """Return [(command, the output that the page shows)]. With prompts, other lines are output; without, each is a command."""
    has_prompts = body.startswith("$ ")
    lines, found = body.rstrip("\n").split("\n"), []
    while lines:
        line = lines.pop(0)
        if not has_prompts or line.startswith("$ "):
            command = line.removeprefix("$ ")
            heredoc = re.search(r"<<'?(\w+)'?$", command)
            while heredoc and lines and command.split("\n")[-1] != heredoc[1] or command.endswith("\\") or without_comments(command).count("'") % 2:
                command += "\n" + lines.pop(0)
            if command.strip():
                found.append((command, []))
        elif found:
            found[-1][1].append(line)
    return found


# --- what commands find ---

PROGRAMS = {
    "server": "import time\nkept = []\nfor i in range(60):\n    kept.append(bytearray(20000))\n    time.sleep(0.05)\n",
}


class Scene:
    """A directory with what the pages name: profiles, programs, configurations."""

    def __init__(self, page):
        self.page, self.directory = page, harness.make_work_directory(f"test-blocks-{page}-")
        self.programs = os.path.join(self.directory, "bin")
        os.mkdir(self.programs)
        # In PATH it may be a script that finds one of several (pyenv).
        os.symlink(os.path.realpath(sys.executable), os.path.join(self.programs, "python3"))
        # heapprofd_collector and others are beside the tools in the build.
        self.environment = {
            "PATH": f"{self.programs}:{BUILD}:{os.environ['PATH']}", "TMPDIR": self.directory, "HOME": self.directory,
            "HEAPPROFD_RUN_DIR": self.at("run"), "PERFETTO_PROGUARD_MAP": "", "PERFETTO_BINARY_PATH": "", "DEBUGINFOD_URLS": "",
            "BROWSER": "true", "COLUMNS": "", "LC_ALL": "C.UTF-8",
        }
        os.mkdir(self.at("run"), 0o700)
        self.process, self.background = None, []

    def at(self, name):
        return os.path.join(self.directory, name)

    def write(self, name, text, mode=0o644):
        with open(self.at(name), "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(self.at(name), mode)

    def call(self, command, timeout=harness.TIMEOUT):
        return run(["bash", "-c", command], env=self.environment, cwd=self.directory, timeout=timeout)

    def make(self):
        """Record what the pages call profiles, and make files of other kinds of it."""
        for name in ("unit-tests", "tests", "app", "render"):
            self.write(name, "#!/bin/sh\nls / > /dev/null\n", 0o755)
        self.write("server.py", PROGRAMS["server"])
        self.write("server", f"#!/bin/sh\nexec {sys.executable} {self.at('server.py')}\n", 0o755)
        recorded = self.call("heap_profile host -q -i 1 -c 60 --memory-infra -o DIR -- python3 -c 'import time\n"
                             "kept = []\nfor i in range(12):\n    kept.append(bytearray(9000)); time.sleep(0.05)'")
        check(recorded.status == 0, f"no profile: {recorded.stderr!r}")
        for name in ("A", "B", "OLD", "NEW", "old", "new", "before", "after", "profile", "BEFORE", "AFTER"):
            shutil.copytree(self.at("DIR"), self.at(name))
        for name in ("TRACE", "raw-trace"):
            shutil.copy(self.at("DIR/raw-trace"), self.at(name))
        for name in ("chrome.json.gz", "before.json.gz", "after.json.gz"):
            shutil.copy(self.at("DIR/memory_infra.json.gz"), self.at(name))
        self.write("heap.budgets", "max-peak = 200M\n")
        self.write("statements.sql", "select 1;\n")
        self.write("Makefile", "all:\n\tls /\n")
        self.write("mapping.txt", "a.B -> c:\n")
        self.write("folded", "main;f;g 12\n")
        self.call("traceconv collapsed TRACE > /dev/null")

    def start_process(self):
        """Start a program that allocates, for the commands that profile a running one."""
        self.process = subprocess.Popen([sys.executable, "-c", "import time\nwhile True:\n    b = [bytearray(3000)]; time.sleep(0.01)"],
                                        start_new_session=True)
        self.environment["PID"] = str(self.process.pid)

    def start(self, command):
        """Start a command of a page that runs in the background."""
        self.background.append(subprocess.Popen(
            ["bash", "-c", command], env={**os.environ, **self.environment}, cwd=self.directory, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        time.sleep(0.5)

    def serve(self):
        """Start `heap_profile view` on the profile DIR. Return its address."""
        self.background.append(subprocess.Popen(
            [TOOL, "view", "--no-browser", "DIR"], env={**os.environ, **self.environment}, cwd=self.directory,
            start_new_session=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True))
        return re.search(r"http://\S+/", self.background[-1].stdout.readline())[0]

    def close(self):
        for process in [*self.background, *([self.process] if self.process else [])]:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


# --- running ---


def runnable(command, page):
    """Return the command as a test can run it."""
    command = without_comments(command)
    for word, replacement in WORDS.items():
        command = re.sub(rf"(?<![\w/$.]){re.escape(word)}(?![\w])", lambda _: replacement, command)
    return command


# Commands whose exit status is another one than 0.
STATUSES = {
    r"heap_profile check --max-live 0 ": (0, 1, 2), r"heap_profile check --budgets": (0, 1, 2), r"heap_profile check --baseline": (0, 1, 2),
    r"heap_profile check --max-live 100k": (0,), r"heap_profile doctor": (0, 1),
    r"heap_profile (status|snapshot|stop)": (0, 1), r"jq ": (0,),
    r"heap_profile -n": (0, 3, 124), r"heap_profile -p": (0, 1, 124),
}


def allowed_statuses(command):
    if UNTIL_CTRL_C.match(command):
        return (0, 1, 3, 124, 137, -9)
    return next((statuses for pattern, statuses in STATUSES.items() if re.match(pattern, command)), (0,))


def run_line(scene, command):
    ready = runnable(command, scene.page).replace("$PID", scene.environment["PID"])
    if ready.rstrip().endswith("&"):
        scene.start(ready.rstrip()[:-1])
        return harness.Outcome(0, b"", b"")
    if UNTIL_CTRL_C.match(ready) and scene.page != "tutorial":
        ready = re.sub(r"-d \d+", "-d 300", ready)
        if ready.startswith("heap_profile explore"):
            ready = f"script -qec '{ready}' /dev/null < /dev/null"
        ready = f"timeout -k {SECONDS} -s INT {SECONDS} {ready}"
    done = scene.call(f"exec 2>&1\n{ready}")
    text = done.stdout.decode(errors="replace")
    if done.status == 1 and "this build cannot write pages" in text:
        return done
    check(done.status in allowed_statuses(runnable(command, scene.page)),
          f"{scene.page}: `{command}` as `{ready}`: status {done.status}: {text[-1000:]}")
    check(not re.search(r"no option '|takes .*, not '|there is no verb|one argument too many|unrecognized option", text),
          f"{scene.page}: `{command}`: {text[-500:]}")
    return done


# --- shapes ---

NUMBER = r"[-+−≤]?\d[\d,]*(?:\.\d+)?"
AMOUNT = rf"{NUMBER}(?: ?(?:kB|MB|GB|TB|B|ms|us|s|%))?"


def shape(line):
    """Return a line of a report without what depends on the run: numbers, margins, addresses, pids."""
    line = re.sub(r"0x[0-9a-f]+", "ADDRESS", line)
    line = re.sub(rf" (?:± ?{AMOUNT}|exact|\((?:up to {AMOUNT}|{AMOUNT} to {AMOUNT})\))", " ±", line)
    # Whether a block that is freed at once is live at a dump hangs on chance.
    line = re.sub(r", among [\d,]+ callsites?\b", "", line)
    line = line.replace("That is nearly its peak.", "That is its peak.") # by chance, where the end is the peak
    # Whether the last reading came while the program freed its memory.
    line = re.sub(r"\. Of [^;]* that were read .*; report --rss has all\.", ".", line)
    line = re.sub(rf"{AMOUNT}", "N", line)
    line = re.sub(r"[├└│┐┌─|` ]+", " ", line)
    return re.sub(r"\s+", " ", line).strip()


# What a machine's speed decides: whether every allocation was recorded, and how long that took.
BY_CHANCE = re.compile(r"^(note|samples|filter|unseen|partial)\b|^N .*_IO_fgets|^\*?$|^\(")


def figures(line):
    """Return the figures of a line, in bytes or calls, without resident memory, which no run has twice."""
    units = {"kB": 1e3, "MB": 1e6, "GB": 1e9, "B": 1, "": 1}
    text = re.sub(r"0x[0-9a-f]+|\[[^]]*\]|;.*|:\d+", "", line)
    return [float(number.replace(",", "").lstrip("+−-")) * units[unit] for number, unit in re.findall(rf"({NUMBER})(?: ?(kB|MB|GB|B)\b)?", text)]


def check_figures(page, command, shown, printed):
    """What is exact on the page and in the run is the same, but for what an interpreter does once more or less."""
    ours, theirs = figures(shown), figures(printed)
    if " -d " in command or not ("exact" in shown and "exact" in printed and "..." not in shown and len(ours) == len(theirs)):
        return
    for mine, other in zip(ours, theirs):
        check(abs(mine - other) <= 0.15 * max(mine, other, 1000), f"{page}: `{command}`: the page shows {shown!r}, a run {printed!r}")


def check_shape(page, command, shown, output):
    """Each line that the page shows is in the output, in this order, up to "..." ."""
    if not shown:
        return # the output may have megabytes
    lines = output.split("\n")
    printed, whole = [shape(line) for line in lines], shape(output)
    at = 0
    for line in shown:
        wanted = shape(line.split("...")[0].rstrip())
        if not wanted or line.strip() == "..." or BY_CHANCE.match(wanted):
            continue
        is_whole = "..." not in line
        if re.match(r" {16}[A-Z]", line) and wanted in whole:
            continue  # of a note, which the page breaks into lines
        place = next((i for i in range(at, len(printed))
                      if (printed[i] == wanted if is_whole else printed[i].startswith(wanted))), None)
        if check(place is not None, f"{page}: `{command}` shows no line like {line!r} ({wanted!r}) in\n{output[-3500:]}"):
            check_figures(page, command, line, lines[place])
            at = place + 1


def exact_of(text):
    """Return the exact totals of a report's text, which are the same in every run: [(bytes, calls)]."""
    found = re.findall(r"allocated +([\d.]+) (kB|MB|GB) in ([\d,]+) calls, exact", text)
    return [(float(number) * {"kB": 1e3, "MB": 1e6, "GB": 1e9}[unit], int(calls.replace(",", ""))) for number, unit, calls in found]


def check_exact(page, command, shown, output):
    for (ours, calls), (theirs, their_calls) in zip(exact_of("\n".join(shown)), exact_of(output)):
        if " -d " in command:
            continue  # of a time, not of a work
        check(abs(ours - theirs) <= 0.05 * theirs and abs(calls - their_calls) <= 0.05 * their_calls,
              f"{page}: `{command}`: the page shows {ours:.0f} bytes in {calls} calls, a run {theirs:.0f} in {their_calls}")


def run_page(path):
    page = name_of(path)
    blocks = [body for body in blocks_of(path) if reason_not_to_run(page, body) is None]
    scene = Scene(page)
    try:
        scene.make()
        scene.start_process()
        if page in SPECIAL:
            SPECIAL[page](scene, blocks)
            return
        for body in blocks:
            for command, shown in commands_of(body):
                run_and_compare(scene, command, shown)
    finally:
        scene.close()


def run_and_compare(scene, command, shown):
    done = run_line(scene, command)
    text = done.stdout.decode(errors="replace")
    check_shape(scene.page, command, shown, text)
    check_exact(scene.page, command, shown, text)


# --- pages with scenes of their own ---


def need_debian_12():
    """These pages show what its jq, libxml2 and libstdc++ allocate. Others allocate something else."""
    try:
        release = platform.freedesktop_os_release()
    except (AttributeError, OSError):  # Python from 3.10 on has it
        release = {}
    if (release.get("ID"), release.get("VERSION_ID")) != ("debian", "12"):
        harness.skip(f"the page shows programs of Debian 12, and this is {release.get('PRETTY_NAME', 'another system')}")


def run_readme(scene, blocks):
    need_debian_12()
    scene.call(BOOKS)
    for body in blocks:
        for command, shown in commands_of(body):
            run_and_compare(scene, command, shown)


# The document of the tutorial's second part, of which README shows the report.
BOOKS = """python3 - > books.xml <<'END'
print("<books>")
for i in range(100000):
    print(f'<book id="{i}"><title>Book {i}</title><year>{1900 + i % 120}</year></book>')
print("</books>")
END"""


def run_report(scene, blocks):
    harness.need("jq")
    need_debian_12()
    scene.call("seq 200000 > n.txt")
    for command, shown in commands_of(blocks[0]):
        run_and_compare(scene, command, shown)


def run_tutorial(scene, blocks):
    """The commands follow from each other. The second block is the summary of the first one's last command."""
    harness.need("jq", "xmllint", "pgrep")
    first = commands_of(blocks[0])
    first[-1] = (first[-1][0], blocks[1].rstrip("\n").split("\n"))
    check(BOOKS in blocks[4].replace("$ ", ""), "the document is not README's any more")
    for command, shown in first + [pair for body in blocks[2:] for pair in commands_of(body)]:
        run_and_compare(scene, command, shown)


def run_continuous(scene, blocks):
    """The first run, as it is pasted."""
    collector = os.path.join(BUILD, "heapprofd_collector")
    if not os.path.exists(collector):
        harness.skip("continuous mode is not built")
    (body,) = blocks
    # On a busy machine the daemon takes longer to begin.
    done = scene.call("unset HEAPPROFD_RUN_DIR HEAPPROFD_CONFIG\n" + body.replace("time.time() + 8", f"time.time() + {20 * harness.SLOWNESS}"))
    text = done.stdout.decode()
    check(done.status == 0 and "busy -c" in text and "allocated" in text, f"{done.status} {text[-2000:]} {done.stderr.decode()[-2000:]}")
    check(" busy (busy), interval" in text or "busy" in text.split("continuous mode")[-1], f"status: {text[:2000]}")


def run_view(scene, blocks):
    address = scene.serve()
    scene.call(f"curl -s '{address}api/export?heap=0.0&format=json' > profile.json")
    for body in blocks:
        for command, shown in commands_of(body):
            run_and_compare(scene, command, shown)


def run_view_requests(scene, blocks):
    """Every request of the table, with the body that it says, is understood."""
    harness.need("curl")
    address = scene.serve()
    (body,) = blocks
    for command, _ in commands_of(body)[1:]:
        done = scene.call(runnable(command, scene.page).replace("$PID", scene.environment["PID"]).replace("http://127.0.0.1:8000/TOKEN/", address))
        check(done.status == 0 and done.stdout and b"error" not in done.stdout[:20], f"{command}: {done.stdout[:500]!r} {done.stderr!r}")
    with open(os.path.join(ROOT, "docs", "view-requests.md"), encoding="utf-8") as file:
        rows = re.findall(r"^\| `(api/[^`]*)`(, POST)? \| (.*) \|$", file.read(), flags=re.M)
    check(len(rows) > 23, f"{len(rows)} requests")
    selection = "heap=0.0&dump=1"
    values = {"KEY": "function", "FORMAT": "json", "H": "0.0", "N": "1", "PID,PID": scene.environment["PID"], "PID": "1"}
    recording = None
    for request, post, answer in rows:
        path = re.sub(r"=(KEY|FORMAT|H|PID,PID|PID|N)\b", lambda m: "=" + values[m[1]], request)
        path = path.replace("base=1", "base=0").replace("function=", "function=0").replace("profile=1", "profile=0")
        path += ("&" if "?" in path else "?") + selection if not post and "range" not in path else ""
        text = re.search(r"`(\{[^`]*\})`", answer)
        given = text[1] if text and post else ""
        if "sql" in path:
            given = "select 1; select name from process"
        given = given.replace("[PATH, ...]", json.dumps([scene.at("DIR")])).replace("{\"recording\": ID}", json.dumps({"recording": recording}))
        given = given.replace('["-p", "4711"]', json.dumps(["-n", "nobody-has-this-name"])).replace("[...]", json.dumps(["-n", "app"]))
        given = given.replace("{\"session\": ID}", '{"session": 1}')
        if "doctor" in path:
            given = '{"arguments": ["--", "true"]}'
        done = run(["curl", "-s", "-w", "\n%{http_code}", "-X", "POST" if post else "GET", *(["--data-binary", given] if given else []), address + path])
        content, _, code = done.stdout.rpartition(b"\n")
        # There is no such session, nothing to dump, nothing in this trace to tell: refused for what it is, not for its form.
        may_lack = re.search(r"sessions|dump|source|memory|perfetto|recordings/end", path)
        check(code == b"200" or (may_lack and code in (b"400", b"404", b"409", b"500") and b"error" in content and b"body" not in content and b"JSON" not in content),
              f"{'POST' if post else 'GET'} {path} {given}: {code} {content[:400]!r}")
        if "recordings/start" in path and code == b"200":
            recording = json.loads(content)["id"]


SPECIAL = {
    "README": run_readme, "report": run_report, "tutorial": run_tutorial, "continuous": run_continuous, "view": run_view,
    "view-requests": run_view_requests,
}


def page(name):
    return functools.partial(run_page, os.path.join(ROOT, "README.md" if name == "README" else f"docs/{name}.md"))


test_README = page("README")
test_check = page("check")
test_continuous = page("continuous")
test_deobfuscation = page("deobfuscation")
test_diff = page("diff")
test_explore = page("explore")
test_last_profile = page("last-profile")
test_leaks = page("leaks")
test_memory_infra = page("memory_infra")
test_report = page("report")
test_sessions = page("sessions")
test_sql = page("sql")
test_symbols = page("symbols")
test_tracing = page("tracing")
test_troubleshooting = page("troubleshooting")
test_tutorial = page("tutorial")
test_view = page("view")
test_view_requests = page("view-requests")


def test_all_pages():
    """Every page with a command block has a case here, and no reason is left of a block that is gone."""
    here = {name.removeprefix("test_").replace("_", "-") for name in globals() if name.startswith("test_")}
    used = set()
    for path in pages():
        name = name_of(path)
        bodies = blocks_of(path)
        for body in bodies:
            used |= {key for key in NOT_RUN if key[0] == name and body.startswith(key[1])}
        runs = [body for body in bodies if reason_not_to_run(name, body) is None]
        has_case = name.replace("_", "-") in here
        check(bool(runs) == has_case, f"{name}: {len(runs)} blocks to run, and {'a' if has_case else 'no'} case")
    check(used == set(NOT_RUN), f"no such block any more: {set(NOT_RUN) - used}")


if __name__ == "__main__":
    harness.main()
