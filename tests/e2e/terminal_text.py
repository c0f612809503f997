#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Names from a profile, a process, a file or a configuration do not control a terminal: every verb escapes
them there.

    terminal_text.py CASE      HEAPPROFD_BUILD names the build directory
"""

import gzip
import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import time

from harness import BUILD, SLOWNESS, TOOL, check, main, make_work_directory, run

TRACECONV = os.path.join(BUILD, "traceconv")
WORK = make_work_directory("terminal-text-")
ENVIRONMENT = {**os.environ, "TMPDIR": WORK, "DEBUGINFOD_URLS": "", "HOME": WORK, "TERM": "xterm",
               "HEAPPROFD_RUN_DIR": f"{WORK}/run", "LC_ALL": "C.UTF-8"}
# A title, an unusual colour, C1 in UTF-8 and raw, DEL, bidirectional marks, a lone byte.
HOSTILE = (b"h\x1b]0;owned\x07\x1b[5;35mo\xc2\x9b31ms\x9b31mt\x7f\xe2\x80\xae\xe2\x81\xa6\xe2\x80\x8f"
           b"i\r\x08\xffle")
# Our own programs' output: line feeds, progress, colours and bold. (explore sends more, but does not run
# here.)
OURS = re.compile(rb"\x1b\[(?:0|1|2|3|4|7|22|31|32|33|36|39|1;3\d|0;3\d|3\d)?m|\x1b\[K|\r\n|\r|\n|\x08|\t")
FORBIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def at(name):
    return os.path.join(WORK, name)


def on_terminal(command, input=None, timeout=120 * SLOWNESS, **options):
    """Return all bytes that a command sends to its terminal, and its status."""
    pid, fd = pty.fork()
    if pid == 0:
        if options.get("cwd"):
            os.chdir(options["cwd"])
        os.execve(command[0], command, ENVIRONMENT)
    shown, end = b"", time.monotonic() + timeout
    while True:
        ready, _, _ = select.select([fd], [], [], max(0, end - time.monotonic()))
        if not ready:
            os.kill(pid, signal.SIGKILL)
            check(False, f"not ended: {command}: {shown[-200:]!r}")
            break
        try:
            piece = os.read(fd, 65536)
        except OSError:
            break
        if not piece:
            break
        shown += piece
        if input:
            os.write(fd, input)
            input = None
    _, status = os.waitpid(pid, 0)
    os.close(fd)
    return shown, os.waitstatus_to_exitcode(status)


def harmless(what, shown):
    # Progress goes back to the beginning of its line; a name does not.
    left = OURS.sub(b"", shown)
    try:
        text = left.decode("utf-8")
    except UnicodeDecodeError as error:
        return check(False, f"{what}: no UTF-8: {left[max(0, error.start - 40):error.start + 40]!r}")
    found = FORBIDDEN.search(text)
    if found:
        check(False, f"{what}: {found.group()!r} in {text[max(0, found.start() - 60):found.start() + 40]!r}")
    check(b"\x1b[5" not in shown and b"\x1b]" not in shown and b"i\r\x08" not in shown, f"{what}: obeyed")


def octal(data):
    return "".join(chr(b) if 32 <= b < 127 and chr(b) not in "\"\\" else f"\\{b:03o}" for b in data)


def hostile_trace():
    """Return a real profile in which every string that a program could choose is replaced."""
    outcome = run([TOOL, "host", "-q", "-i", "1", "-o", at("real"), "--memory-infra", "--", "ls", "/"],
                  env=ENVIRONMENT)
    check(outcome.status == 0, f"host: {outcome.stderr!r}")
    text = run([TRACECONV, "text", at("real")], env=ENVIRONMENT).stdout.decode()
    number = 0

    def replace(match):
        nonlocal number
        number += 1
        return f'{match.group(1)}: "{octal(HOSTILE)}{number}"'

    text = re.sub(r'\b(str|cmdline|heap_name|process_name|thread_name|name|path|reason|thread_names): "(?:[^"\\]|\\.)*"',
                  replace, text)
    check(number > 20, f"only {number} strings were replaced")
    with open(at("hostile.txt"), "w") as file:
        file.write(text)
    outcome = run([TRACECONV, "binary", at("hostile.txt"), at("hostile")], env=ENVIRONMENT)
    check(outcome.status == 0, f"binary: {outcome.stderr!r}")
    return at("hostile")


def test_verbs():
    """Every verb that reads a trace escapes a hostile one's names."""
    trace = hostile_trace()
    odd = os.path.join(WORK.encode(), b"t\x1b]0;owned\x07\x9b5m\xe2\x80\xae").decode(errors="surrogateescape")
    shutil.copy(trace, odd)
    commands = {
        "report": [TOOL, "report", trace],
        "report of all": [TOOL, "report", "--frames", "all", "--stacks", "--lines", "--top", "0", trace],
        "report --tree": [TOOL, "report", "--tree", trace],
        "report --by": [TOOL, "report", "--by", "thread", trace],
        "report --by type": [TOOL, "report", "--by", "type,context", trace],
        "report --rss": [TOOL, "report", "--rss", trace],
        "report --json": [TOOL, "report", "--json", trace],
        "report of a name": [TOOL, "report", odd],
        "report of none": [TOOL, "report", odd + "none"],
        "leaks": [TOOL, "leaks", trace],
        "leaks of two": [TOOL, "leaks", "--stacks", "--lines", trace, odd],
        "leaks --json": [TOOL, "leaks", "--json", trace],
        "diff": [TOOL, "diff", at("real"), trace],
        "diff --by": [TOOL, "diff", "--by", "module", trace, odd],
        "diff --json": [TOOL, "diff", "--json", at("real"), trace],
        "check": [TOOL, "check", "--max-live", "0", "--max-leak", "*=0", trace],
        "check --json": [TOOL, "check", "--max-live", "0", "--json", trace],
        "check --github": [TOOL, "check", "--max-live", "0", "--github", trace],
        "check --baseline": [TOOL, "check", "--baseline", odd, "--max-growth", "1", trace],
        "query as a table": [TOOL, "query", trace, "select * from stack_profile_frame"],
        "query --csv": [TOOL, "query", "--csv", trace, "select * from stack_profile_frame"],
        "query --json": [TOOL, "query", "--json", trace, "select * from stack_profile_mapping"],
        "query processes": [TOOL, "query", trace, "select * from process"],
        "query of a column": [TOOL, "query", trace, f"select 1 as \"{HOSTILE[:20].decode(errors='surrogateescape')}\""],
        "query of nonsense": [TOOL, "query", trace, f"select {HOSTILE[:20].decode(errors='surrogateescape')}"],
        "traceconv text": [TRACECONV, "text", trace],
        "traceconv collapsed": [TRACECONV, "collapsed", trace],
        "traceconv speedscope": [TRACECONV, "speedscope", trace],
        "traceconv flamegraph": [TRACECONV, "flamegraph", trace],
        "traceconv memory_infra": [TRACECONV, "memory_infra", trace],
        "traceconv profile": [TRACECONV, "profile", trace],
        "traceconv profile into": [TRACECONV, "profile", trace, "-o", odd + "dir"],
        "traceconv symbolize": [TRACECONV, "symbolize", trace, at("symbols")],
        "traceconv symbolize --json": [TRACECONV, "symbolize", trace, "--json", "-", at("symbols")],
        "traceconv bundle": [TRACECONV, "bundle", "--verbose", trace, at("bundle")],
        "traceconv binary": [TRACECONV, "binary", odd],
        "traceconv into": [TRACECONV, "text", odd, odd + "/none/x"],
        "an option": [TOOL, "report", "--" + HOSTILE[:12].decode(errors="surrogateescape")],
        "a verb": [TOOL, HOSTILE[:12].decode(errors="surrogateescape")],
        "a verb of traceconv": [TRACECONV, HOSTILE[:12].decode(errors="surrogateescape")],
    }
    for what, command in commands.items():
        shown, status = on_terminal(command)
        check(status in (0, 1, 2), f"{what}: status {status}")
        harmless(what, shown)
        if what in ("report", "leaks", "query --csv", "query as a table"):
            check(b"\\x1b]0;owned" in shown, f"{what}: shows no name: {shown[:300]!r}")
    # A file or pipe gets the unescaped bytes, as a reader of CSV needs them.
    csv = run([TOOL, "query", trace, "select name from stack_profile_frame"], env=ENVIRONMENT).stdout
    check(HOSTILE[:12] in csv, f"CSV in a pipe: {csv[:200]!r}")
    check(json.loads(run([TOOL, "report", "--json", trace], env=ENVIRONMENT).stdout), "JSON")


def test_other_files():
    """Names in files of other kinds are escaped."""
    hostile_trace()
    name = HOSTILE.replace(b"\r", b"").replace(b"\n", b"")
    with open(at("collapsed"), "wb") as file:
        file.write(b"main;" + name + b";f 10\nmain;" + name + b" 7\n")
    escaped = name.decode("utf-8", errors="replace")
    dump = json.loads(gzip.open(at("real/memory_infra.json.gz")).read())
    text = json.dumps(dump).replace("ls", json.dumps(escaped)[1:-1])
    with open(at("dump.json"), "w") as file:
        file.write(text)
    with open(at("heap.txt"), "wb") as file:
        file.write(b"heap profile: 1: 10 [1: 10] @ heapprofile\n 1: 10 [1: 10] @ 0x1000\n\nMAPPED_LIBRARIES:\n"
                   b"00001000-00002000 r-xp 00000000 08:01 12 /" + name + b"\n")
    with open(at("map"), "wb") as file:
        file.write(b"a." + name + b" -> c:\nwrong " + name + b"\n")
    with open(at("config"), "wb") as file:
        file.write(b'duration_ms: 1\n' + name + b': 1\ndata_sources { }\n')
    with open(at("budgets"), "wb") as file:
        file.write(name + b" = 1\n")
    with open(at("sql"), "wb") as file:
        file.write(b"select " + name + b";\n")
    with open(at("noise"), "wb") as file:
        file.write(name * 50)
    for what, command in {
        "report of collapsed": [TOOL, "report", "--stacks", at("collapsed")],
        "diff of collapsed": [TOOL, "diff", at("collapsed"), at("collapsed")],
        "report of a dump": [TOOL, "report", at("dump.json")],
        "symbolize a dump": [TRACECONV, "symbolize", at("dump.json"), at("dump2.json")],
        "leaks of a dump": [TOOL, "leaks", at("dump.json")],
        "report of a text heap": [TOOL, "report", at("heap.txt")],
        "deobfuscate": [TRACECONV, "deobfuscate", "--proguard-map", at("map"), at("real"), at("names")],
        "record": [TOOL, "record", "-c", at("config"), "-o", at("trace")],
        "budgets": [TOOL, "check", "--budgets", at("budgets"), at("real")],
        "SQL": [TOOL, "query", at("real"), "-f", at("sql")],
        "report of noise": [TOOL, "report", at("noise")],
        "binary of noise": [TRACECONV, "binary", at("noise")],
        "text of noise": [TRACECONV, "text", at("noise")],
    }.items():
        shown, status = on_terminal(command)
        check(status in (0, 1, 2, 3), f"{what}: status {status}")
        harmless(what, shown)


def test_processes():
    """The name and arguments of a hostile program are escaped."""
    odd = os.path.join(WORK.encode(), b"p\x1b]0;owned\x07\x9b5m\xe2\x80\xae")
    shutil.copy("/bin/sleep", odd)
    name = odd.decode(errors="surrogateescape")
    for what, command in {
        "host": [TOOL, "host", "-i", "1", "--", name, "0"],
        "host of none": [TOOL, "host", "--", name + "none"],
        "host of a script": [TOOL, "host", "--", "/bin/sh", "-c", f"'{name}' 0; exit 0"],
        "host into": [TOOL, "host", "-o", name + "dir", "--", name, "0"],
        "check": [TOOL, "check", "--max-peak", "1", "--", name, "0"],
        "check following": [TOOL, "check", "--max-peak", "1", "--follow-children", "--", "/bin/sh", "-c", f"'{name}' 0"],
    }.items():
        shown, _ = on_terminal(command, cwd=WORK)
        harmless(what, shown)
    running = subprocess.Popen([odd, b"30", ], env=ENVIRONMENT)
    try:
        for what, command in {
            "-p": [TOOL, "-p", str(running.pid), "-d", "100"],
            "-p of none": [TOOL, "-p", f"{running.pid},999999", "-d", "100"],
            "-n": [TOOL, "-n", os.path.basename(name), "-d", "100"],
            "doctor": [TOOL, "doctor", "-p", str(running.pid)],
            "doctor of a program": [TOOL, "doctor", name],
        }.items():
            shown, _ = on_terminal(command, cwd=WORK)
            harmless(what, shown)
        session = subprocess.Popen([TOOL, "-q", "-p", str(running.pid)], env=ENVIRONMENT,
                                   stderr=subprocess.DEVNULL)
        end = time.monotonic() + 10
        shown = b""
        while time.monotonic() < end and b"1 profiled" not in shown and b"1 process" not in shown:
            shown, _ = on_terminal([TOOL, "status"])
        harmless("status", shown)
        check(b"\\x1b" in shown, f"status shows no name: {shown!r}")
        harmless("status --json", on_terminal([TOOL, "status", "--json"])[0])
        session.send_signal(signal.SIGINT)
        session.wait()
    finally:
        running.kill()
        running.wait()


if __name__ == "__main__":
    main()
