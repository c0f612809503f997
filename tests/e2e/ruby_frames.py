#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A sample inside Ruby has Ruby's frames: the same that Ruby itself reports.

    ruby_frames.py CASE
"""

import collections
import json
import os

import harness
from harness import TOOL, TRACECONV, check, host_command, need, run, skip
from python_frames import check_certain, directory, heap_while_attached, report

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "programs", "ruby_stacks.rb")
SUPPORTED = ("3.1.", "3.2.", "3.3.", "3.4.")
BYTES_TAIL = 1  # a string's terminating zero
BYTES_LEAST = 100_000  # of a noted allocation; Ruby's own are smaller


def need_ruby():
    need("ruby")
    version = run(["ruby", "-e", "print RUBY_VERSION"]).stdout.decode()
    if not version.startswith(SUPPORTED):
        skip(f"Ruby {version} has no support")
    return version


def ruby_frames(callsite):
    return [
        [frame["name"], frame.get("file", ""), frame.get("line", 0)]
        for frame in callsite["frames"] if frame.get("mapping") == "[ruby]"
    ]


def without_internal(stack):
    """Methods such as Integer#times are in C or, in later versions, in Ruby."""
    return json.dumps([frame for frame in json.loads(stack) if not frame[1].startswith("<internal:")])


def large_stacks(heap):
    """The bytes of each of Ruby's stacks, of large blocks."""
    found = collections.Counter()
    for callsite in heap["callsites"]:
        if callsite["alloc_space"]["estimate"] >= BYTES_LEAST:
            found[json.dumps(ruby_frames(callsite))] += round(callsite["alloc_space"]["estimate"])
    return found


def loops(heap):
    return sum(frame["name"] == "rb_vm_exec" for callsite in heap["callsites"] for frame in callsite["frames"])


def test_own_stacks():
    """Ruby's own stacks: methods, blocks, callbacks from C, exceptions, threads, fibers, required files."""
    version = need_ruby()
    if version.startswith("3.4."):
        skip("backtraces of Ruby 3.4 name methods otherwise, and leave out frames that stacks have")
    with directory() as path:
        notes, output = os.path.join(path, "notes"), os.path.join(path, "o")
        bare = run(["ruby", PROGRAM, notes])
        ours = run(host_command(["ruby", PROGRAM, notes], output, 1))
        ours.check_same(bare, "ruby")
        with open(notes) as file:
            noted = json.load(file)
        check(len(noted) >= 90, f"{len(noted)} stacks")
        wanted = collections.Counter()
        for note in noted:
            wanted[json.dumps(note["frames"])] += note["bytes"] + BYTES_TAIL
        heap, native = report(output, "--focus", "^probe$"), report(output, "--focus", "^probe$", "--native")
        found = large_stacks(heap)
        for stack in sorted(wanted.keys() | found.keys()):
            check(wanted[stack] == found[stack], f"{wanted[stack]} bytes, found {found[stack]}, of {stack}")
        check_certain(heap)
        table = run([TOOL, "report", "--focus", "^probe$", output]).stdout.decode()
        check("probe ruby_stacks.rb" in table and "@ libruby" not in table, f"libruby in {table!r}")
        check(loops(heap) == 0, f"{loops(heap)} loops without --native")
        # From 3.3 on libruby exports no loop, so it has a name only if there are debug symbols.
        check(loops(native) > 90 or not version.startswith("3.1."), f"{loops(native)} loops with --native")


def test_generated_code():
    """Under YJIT, stacks through generated code keep their native frames, and are counted. None is wrong."""
    need_ruby()
    if run(["ruby", "--yjit", "-e", "print RubyVM::YJIT.enabled?"]).stdout != b"true":
        skip("this Ruby has no YJIT")
    with directory() as path:
        notes, output = os.path.join(path, "notes"), os.path.join(path, "o")
        bare = run(["ruby", "--yjit", PROGRAM, notes])
        ours = run(host_command(["ruby", "--yjit", PROGRAM, notes], output, 1))
        ours.check_same(bare, "ruby")
        with open(notes) as file:
            noted = json.load(file)
        wanted = collections.Counter()
        for note in noted:
            wanted[json.dumps(note["frames"])] += note["bytes"] + BYTES_TAIL
        heap = report(output, "--focus", "^probe$")
        found = large_stacks(heap)
        for stack in sorted(found.keys()):
            check(found[stack] <= wanted[stack], f"{wanted[stack]} bytes, found {found[stack]}, of {stack}")
        check(heap["lost"]["interpreter_state"] > 0, f"lost {heap['lost']}")


def test_internal_files():
    """Files that Ruby calls its own, "<internal:/usr/lib/ruby/x.rb>", have a base name, too."""
    need_ruby()
    with directory() as path:
        output = os.path.join(path, "o")
        outcome = run(host_command(["ruby", "-e", "require 'json'; JSON.generate([1])"], output, 1))
        check(outcome.status == 0, f"status {outcome.status}: {outcome.stderr[-300:]!r}")
        heap = report(output)
        own = {frame["file"] for site in heap["callsites"] for frame in site["frames"] if frame.get("file", "").startswith("<internal:/")}
        if not own:
            skip("this Ruby has no such file")
        text = run([TOOL, "report", "--stacks", "--top", "0", "--view", "alloc_space", output]).stdout.decode()
        labels = run([TRACECONV, "collapsed", "--view", "alloc_space", output]).stdout.decode()
        for name in (os.path.basename(file).rstrip(">") for file in own):
            check(f"{name}:" in text and f"{name}>" not in text, f"{name} in the report")
            check(f"({name})" in labels and f"{name}>" not in labels, f"{name} in collapsed stacks")


DEEP = """
require "socket"
def endless(depth)
  return "x" * 3_000_000 if depth == 0
  endless(depth - 1)
end
endless(5000)
def resolve
  [1].each { Addrinfo.getaddrinfo("localhost", 80) }
end
resolve
"""


def test_edges():
    """A stack that is too deep keeps its innermost frames. A thread without the global lock has frames, too."""
    version = need_ruby()
    with directory() as path:
        run(host_command(["ruby", "-e", DEEP], path, 1))
        heap = report(path, "--focus", "^endless$|^getaddrinfo$")
        deep = [site for site in heap["callsites"] if site["alloc_space"]["estimate"] >= 3_000_000]
        check(len(deep) == 1, f"{len(deep)} deep stacks")
        names = [frame["name"] for frame in deep[0]["frames"]]
        check(names.count("endless") > 200, f"{names.count('endless')} of the deep function")
        check(names[-1] == "[truncated stack]", f"the deep stack ends in {names[-1]}")
        resolving = {
            json.dumps([frame[0] for frame in ruby_frames(site)]) for site in heap["callsites"]
            if any(frame["name"] == "getaddrinfo" for frame in site["frames"])
        }
        # From 3.3 on, a thread in C resolves.
        check(resolving == ({json.dumps(["block in resolve", "resolve", "<main>"])} if version.startswith("3.1.") else {"[]"}), f"getaddrinfo's callers {resolving}")
        check_certain(heap)


ATTACHED = """
def held(n)
  "x" * n
end
def middle(n)
  10.times.map { |i| held(n + i) }
end
while line = $stdin.gets
  kept = middle(line.to_i)
  puts "ready"
  $stdout.flush
end
"""


def test_attached():
    """A running Ruby program, found by its pid."""
    need_ruby()
    heap = heap_while_attached(["ruby", "-e", ATTACHED])
    found = {without_internal(stack) for stack, amount in large_stacks(heap).items() if amount > 300_000}
    wanted = [["held", "-e", 3], ["block in middle", "-e", 6], ["middle", "-e", 6], ["<main>", "-e", 9]]
    check(found == {json.dumps(wanted)}, f"stacks {found}")
    check_certain(heap)


def test_doctor():
    """doctor says whether stacks will have Ruby's functions."""
    version = need_ruby()
    outcome = run([TOOL, "doctor", "--", "ruby", "-v"])
    wanted = f"interpreter: Ruby {version[:3]}; stacks have the functions of Ruby".encode()
    check(outcome.status == 0 and wanted in outcome.stdout, f"{outcome.stdout.decode()}")


LONG_PATH = """
directory = ARGV[0]
20.times { |i| directory += "/" + "d" * 99; Dir.mkdir(directory) }
File.write(directory + "/long.rb", "def held; 'x' * 3_000_000; end\n$kept = held\n")
require directory + "/long.rb"
"""


def test_long_path():
    """A file with a path of more than 2,000 bytes has its name."""
    need_ruby()
    with directory() as path:
        output = os.path.join(path, "o")
        outcome = run(host_command(["ruby", "-e", LONG_PATH, path], output, 4096))
        check(outcome.status == 0, f"{outcome.stderr[-300:]!r}")
        sites = [site for site in report(output)["callsites"] if site["alloc_space"]["estimate"] >= 3_000_000]
        files = [ruby_frames(site)[0][1] for site in sites]
        check(len(files) == 1 and files[0].endswith("/long.rb") and len(files[0]) > 2000, f"{[file[-50:] for file in files]}")


if __name__ == "__main__":
    harness.main()
