#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A sample inside PHP has PHP's frames: the same that PHP itself reports.

    php_frames.py CASE
"""

import collections
import json
import os

import harness
from harness import TOOL, TRACECONV, check, host_command, need, run, skip
from python_frames import check_certain, directory, heap_while_attached, report

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "programs", "php_stacks.php")
SUPPORTED = ("8.1", "8.2", "8.3", "8.4")
IN_MALLOC = {"USE_ZEND_ALLOC": "0"}  # PHP then has no heap of its own
STRING_HEAD, WORD = 24, 8  # of a string, with a 0 at its end
BYTES_LEAST = 100_000  # of a noted allocation


def need_php():
    need("php")
    version = run(["php", "-n", "-r", "echo PHP_MAJOR_VERSION . '.' . PHP_MINOR_VERSION . (PHP_ZTS ? 'z' : '') . (PHP_DEBUG ? 'd' : '');"])
    version = version.stdout.decode()
    if version not in SUPPORTED:
        skip(f"PHP {version} has no support")
    return version


def php_frames(callsite):
    return [
        [frame["name"], frame.get("file", ""), frame.get("line", 0)]
        for frame in callsite["frames"] if frame.get("mapping") == "[php]"
    ]


def large_stacks(heap):
    """The bytes of each of PHP's stacks, of large blocks."""
    found = collections.Counter()
    for callsite in heap["callsites"]:
        if callsite["alloc_space"]["estimate"] >= BYTES_LEAST:
            found[json.dumps(php_frames(callsite))] += round(callsite["alloc_space"]["estimate"])
    return found


def noted_stacks(notes):
    wanted = collections.Counter()
    for note in notes:
        size = note["bytes"] + STRING_HEAD + 1
        wanted[json.dumps(note["frames"])] += (size + WORD - 1) // WORD * WORD
    return wanted


def profiled(path, *options, environment=IN_MALLOC, interval=1):
    """Run the program with and without the profiler. Return its notes."""
    notes, output = os.path.join(path, "notes"), os.path.join(path, "o")
    command = ["php", *options, PROGRAM, notes]
    bare = run(command, env=environment)
    ours = run(host_command(command, output, interval), env=environment)
    ours.check_same(bare, "php")
    with open(notes) as file:
        return json.load(file), output


def in_fibers(notes):
    return [note for note in notes if any(frame[0].startswith("Fiber::") for frame in note["frames"])]


def test_own_stacks():
    """PHP's own stacks: methods, closures, callbacks from C, generators, eval, included files, destructors, exceptions.

    The first frame of a fiber has no unwind information. So its stacks stay native, and are counted."""
    need_php()
    with directory() as path:
        noted, output = profiled(path)
        check(len(noted) >= 38, f"{len(noted)} stacks")
        fibers = in_fibers(noted)
        heap = report(output, "--focus", "str_repeat")
        wanted, found = noted_stacks([note for note in noted if note not in fibers]), large_stacks(heap)
        for stack in sorted(wanted.keys() | found.keys()):
            check(wanted[stack] == found[stack], f"{wanted[stack]} bytes, found {found[stack]}, of {stack}")
        native = large_stacks(report(output, "--focus", "^execute_ex$", "--native"))
        check(native["[]"] == sum(noted_stacks(fibers).values()), f"{native['[]']} bytes without functions")
        lost = heap["lost"]["interpreter_state"]
        check((lost > 0) == bool(fibers) and heap["lost"]["interpreter_unknown"] == 0, f"lost {heap['lost']}")


def test_rows():
    """The first rows name the function and line in PHP, in report and in collapsed stacks."""
    need_php()
    with directory() as path:
        _, output = profiled(path)
        table = run([TOOL, "report", "--focus", "str_repeat", "--view", "alloc_space", output]).stdout.decode()
        check("php_stacks.php:" in table and "@ php" not in table, table)
        check("str_repeat [php] < Stacks\\probe php_stacks.php:" in table, table)
        labels = run([TRACECONV, "collapsed", "--view", "alloc_space", output]).stdout.decode()
        stacks = [line for line in labels.splitlines() if "Stacks\\probe (php_stacks.php)" in line]
        check(stacks and not any("execute_ex" in stack for stack in stacks), f"{stacks[:2]}")


def test_own_heap():
    """With PHP's own heap, memory of libraries has PHP's lines."""
    need_php()
    if run(["php", "-r", "exit(extension_loaded('sqlite3') || extension_loaded('openssl') ? 0 : 1);"]).status != 0:
        skip("no extension that allocates from malloc")
    script = """<?php
function sealed(): string {
    $key = openssl_pkey_new(['private_key_bits' => 1024]);
    openssl_pkey_export($key, $text);
    return $text;
}
function many(): void {
    for ($i = 0; $i < 3; $i++)
        sealed();
}
many();
"""
    with directory() as path:
        file, output = os.path.join(path, "sealed.php"), os.path.join(path, "o")
        with open(file, "w") as out:
            out.write(script)
        check(run(host_command(["php", file], output, 1)).status == 0, "php")
        sites = [php_frames(site) for site in report(output)["callsites"]]
        wanted = [["openssl_pkey_new", "", 0], ["sealed", file, 3], ["many", file, 9], ["{main}", file, 11]]
        check(wanted in sites, f"{[site for site in sites if site][:3]}")


def test_generated_code():
    """Under the JIT, no stack is wrong. Those that are not certain stay native, and are counted."""
    need_php()
    jit = ["-d", "opcache.enable_cli=1", "-d", "opcache.jit_buffer_size=16M", "-d", "opcache.jit=function"]
    shown = run(["php", *jit, "-r", "echo (opcache_get_status()['jit']['on'] ?? false) ? 'on' : '';"])
    if shown.stdout != b"on":
        skip("this PHP has no JIT")
    with directory() as path:
        noted, output = profiled(path, *jit)
        heap = report(output)
        wanted, found = noted_stacks(noted), large_stacks(heap)
        for stack, amount in found.items():
            check("str_repeat" not in stack or amount <= wanted[stack], f"{wanted[stack]} bytes, found {amount}, of {stack}")
        named = sum(found[stack] for stack in wanted)
        lost = heap["lost"]["interpreter_state"] + heap["lost"]["unwind"]
        check(named == sum(wanted.values()) or lost > 0, f"{named} bytes, lost {heap['lost']}")


DEEP = """
function endless(int $depth): string {
    return $depth === 0 ? str_repeat('x', 3000000) : endless($depth - 1);
}
endless(5000);
"""


def test_deep():
    """A stack that is too deep keeps its innermost frames."""
    need_php()
    with directory() as path:
        run(host_command(["php", "-r", DEEP], path, 1), env=IN_MALLOC)
        heap = report(path, "--focus", "^endless$")
        deep = [site for site in heap["callsites"] if site["alloc_space"]["estimate"] >= 3_000_000]
        check(len(deep) == 1, f"{len(deep)} deep stacks")
        names = [frame["name"] for frame in deep[0]["frames"]]
        check(names.count("endless") > 900, f"{names.count('endless')} of the deep function")
        check(names[-1] == "[truncated stack]", f"the deep stack ends in {names[-1]}")


ATTACHED = """
function held(int $n): string {
    return str_repeat('x', $n);
}
function middle(int $n): array {
    return array_map(fn($i) => held($n + $i), range(0, 9));
}
while ($line = fgets(STDIN)) {
    $kept = middle((int) $line);
    echo "ready\\n";
}
"""


def test_attached():
    """A running PHP program, found by its pid."""
    version = need_php()
    heap = heap_while_attached(["env", "USE_ZEND_ALLOC=0", "php", "-r", ATTACHED])
    found = {stack for stack, amount in large_stacks(heap).items() if amount > 300_000}
    closure = "{closure:middle():6}" if version == "8.4" else "{closure}"
    file = "Command line code"
    wanted = [["str_repeat", "", 0], ["held", file, 3], [closure, file, 6], ["array_map", "", 0], ["middle", file, 6], ["{eval}", file, 9]]
    check(json.dumps(wanted) in found, f"stacks {found}")
    check_certain(heap)


def test_doctor():
    """doctor says that stacks will have PHP's functions."""
    need_php()
    outcome = run([TOOL, "doctor", "--", "php", "-v"])
    check(outcome.status == 0 and b"stacks have the functions of PHP" in outcome.stdout, f"{outcome.stdout.decode()}")


if __name__ == "__main__":
    harness.main()
