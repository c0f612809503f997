# SPDX-License-Identifier: Apache-2.0
"""The verbs that open strangers' files, and the cost of a verb on a file; for sizes.py and bench/hostile_sizes.py."""

import os
import pty
import resource
import subprocess
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("HEAPPROFD_BUILD", os.path.join(ROOT, "build")))
TOOL, TRACECONV = os.path.join(BUILD, "heap_profile"), os.path.join(BUILD, "traceconv")
CPU_SECONDS = 20

VERBS = {
    "report": [TOOL, "report", "FILE"],
    "tree": [TOOL, "report", "--tree", "--top", "0", "FILE"],
    "cumulative": [TOOL, "report", "--cumulative", "FILE"],
    "stacks": [TOOL, "report", "--stacks", "--top", "0", "FILE"],
    "json": [TOOL, "report", "--json", "FILE"],
    "leaks": [TOOL, "leaks", "FILE"],
    "leaks2": [TOOL, "leaks", "FILE", "FILE"],
    "labels": [TOOL, "leaks", "--match-by-labels", "FILE", "COPY"],
    "oom": [TOOL, "oom", "--all", "--top", "0", "FILE"],
    "diff": [TOOL, "diff", "FILE", "COPY"],
    "difflines": [TOOL, "diff", "--by", "function", "FILE", "COPY"],
    "check": [TOOL, "check", "--max-live", "1k", "--max-leak", "*f*=3k", "FILE"],
    "query": [TOOL, "query", "FILE", "select count(*), sum(size) from heap_profile_allocation", "--csv"],
    "views": [TOOL, "query", "FILE", "select count(*) from hp_callsite_stats; select count(*) from stack_profile_callsite; "
              "select count(*) from hp_part; select count(*) from stack_profile_symbol", "--csv"],
    "flames": [TOOL, "query", "FILE", "select count(*) from experimental_flamegraph where ts = (select max(ts) from "
               "heap_profile_allocation) and upid = (select min(upid) from heap_profile_allocation) and "
               "profile_type = 'native'", "--csv"],
    "focus": [TOOL, "report", "--focus", "(a*)*b|f", "FILE"],
    "explore": ["pty", TOOL, "explore", "FILE"],
    "profile": [TRACECONV, "profile", "-o", "DIR", "FILE"],
    "collapsed": [TRACECONV, "collapsed", "FILE"],
    "flamegraph": [TRACECONV, "flamegraph", "FILE"],
    "speedscope": [TRACECONV, "speedscope", "FILE"],
    "text": [TRACECONV, "text", "FILE"],
    "memory_infra": [TRACECONV, "memory_infra", "FILE"],
    "symbolize": [TRACECONV, "symbolize", "--no-cache", "--no-auto-symbol-paths", "FILE", "/dev/null"],
    "deobfuscate": [TRACECONV, "deobfuscate", "FILE", "/dev/null"],
    "bundle": [TRACECONV, "bundle", "--no-auto-symbol-paths", "--no-auto-proguard-maps", "FILE", "/dev/null"],
    "unpack": [TRACECONV, "decompress_packets", "FILE", "/dev/null"],
}


def limits():
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
    resource.setrlimit(resource.RLIMIT_FSIZE, (4 << 30, 4 << 30))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def run_on_terminal(command, environment):
    pid, terminal = pty.fork()
    if pid == 0:
        limits()
        os.environ.update(environment, TERM="xterm")
        os.execv(command[0], command)
    said, sent = b"", False
    try:
        while data := os.read(terminal, 4096):
            said = (said + data)[-4000:]
            if not sent and b"\x1b[?1049h" in said or b"\x1b[?25l" in said:
                os.write(terminal, b"q")
                sent = True
    except OSError:
        pass
    _, status, usage = os.wait4(pid, 0)
    return os.waitstatus_to_exitcode(status), usage, said


def measure(verb, path, directory):
    """Run a verb. Return (status, processor seconds, peak KiB, last message)."""
    copy = path
    command = [{"FILE": path, "COPY": copy, "DIR": os.path.join(directory, "out")}.get(word, word) for word in VERBS[verb]]
    # meson makes malloc fill all blocks, so that unused space would count as used memory.
    environment = {**os.environ, "XDG_CACHE_HOME": directory, "DEBUGINFOD_URLS": "", "MALLOC_PERTURB_": "0"}
    if command[0] == "pty":
        status, usage, said = run_on_terminal(command[1:], environment)
    else:
        with tempfile.TemporaryFile() as errors:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors,
                                       env=environment, preexec_fn=limits)
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = status = os.waitstatus_to_exitcode(status)
            errors.seek(0)
            said = errors.read(2000)
    subprocess.run(["rm", "-rf", os.path.join(directory, "out")])
    return status, usage.ru_utime + usage.ru_stime, usage.ru_maxrss, said.decode(errors="replace").strip().replace("\n", " ")
