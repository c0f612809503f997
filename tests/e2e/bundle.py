#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Names that a run adds at its end, and traceconv bundle: what the files contain, and what our tools read from
them after the programs are gone.

    bundle.py CASE
"""

import contextlib
import gzip
import json
import os
import shutil
import signal
import subprocess
import tempfile

from daemon import wait_for
from harness import BUILD, TOOL, check, main, need, run

TRACECONV = os.path.join(BUILD, "traceconv")
SOURCE = """
#include <stdlib.h>
#include <string.h>

static inline __attribute__((always_inline)) void *inlined(size_t size)
{
    void *memory = malloc(size);
    memset(memory, 1, size);
    return memory;
}

__attribute__((noinline)) static void *hidden(size_t size)
{
    void *memory = inlined(size);
    __asm__ volatile("" ::: "memory");
    return memory;
}

int main(void)
{
    for (int i = 0; i < 100; i++)
        if (!hidden(1000 + (size_t)i))
            return 1;
    return 0;
}
"""
INLINED_LINE, HIDDEN_LINE = 7, 14


class Place:
    """Build a stripped program in bin and its debug file in debug."""

    def __init__(self, directory):
        need("gcc", "objcopy")
        self.directory = directory
        self.debug = os.path.join(directory, "debug")
        self.program = os.path.join(directory, "bin", "prog")
        self.output = os.path.join(directory, "out")
        self.trace = os.path.join(self.output, "raw-trace")
        os.mkdir(self.debug)
        os.mkdir(os.path.dirname(self.program))
        source = os.path.join(directory, "prog.c")
        with open(source, "w") as file:
            file.write(SOURCE)
        subprocess.run(
            ["gcc", "-g", "-O2", "-fno-ipa-cp", "-fno-ipa-sra", "-Wl,--build-id", source, "-o", self.program],
            check=True,
        )
        subprocess.run(
            ["objcopy", "--only-keep-debug", self.program, os.path.join(self.debug, "prog")],
            check=True,
        )
        subprocess.run(["objcopy", "--strip-all", self.program], check=True)
        # Each test has its own cache.
        self.env = {"XDG_CACHE_HOME": os.path.join(directory, "cache"), "DEBUGINFOD_URLS": ""}

    def host(self, *options, env=None):
        shutil.rmtree(self.output, ignore_errors=True)
        outcome = run(
            [TOOL, "host", "-i", "1", "-o", self.output, *options, "--", self.program],
            env={**self.env, **(env or {})},
        )
        check(outcome.status == 0, f"host: {outcome.status}, {outcome.stderr}")
        return outcome.stderr.decode()

    def named(self, *options, **more):
        return self.host(*options, env={"PERFETTO_BINARY_PATH": self.debug, **more})

    def bundle(self, *options, trace=None, out="bundle", env=None):
        self.bundled = os.path.join(self.directory, out)
        return run(
            [TRACECONV, "bundle", *options, trace or self.trace, self.bundled],
            env={**self.env, **(env or {})},
            cwd=self.directory,
        )


def read(path):
    with open(path, "rb") as file:
        return file.read()


def report(trace):
    outcome = run([TOOL, "report", "--json", trace])
    check(outcome.status == 0, f"report {trace}: {outcome.stderr}")
    return json.loads(outcome.stdout)


def stack_of(profile):
    """Return the heaviest stack's frames in the program: (name, file, line), innermost first."""
    callsite = max(profile["heaps"][0]["callsites"], key=lambda site: site["alloc_space"]["estimate"])
    return [
        (frame["name"], os.path.basename(frame.get("file", "")), frame.get("line", 0))
        for frame in callsite["frames"]
        if frame["mapping"].endswith("/prog")
    ]


def check_named(trace):
    stack = stack_of(report(trace))
    check(
        stack[:2] == [("inlined", "prog.c", INLINED_LINE), ("hidden", "prog.c", HIDDEN_LINE)],
        f"{trace}: {stack}",
    )
    check([frame[0] for frame in stack[2:3]] == ["main"], f"{trace}: {stack}")


def check_nameless(trace):
    stack = stack_of(report(trace))
    check(stack and all(name == "" or name.startswith("0x") for name, *_ in stack), f"{stack}")


def in_place(case):
    def run_case():
        with tempfile.TemporaryDirectory() as directory:
            case(Place(os.path.realpath(directory)))

    return run_case


@in_place
def test_names_after_host(place):
    """Lines and inlined functions appear in the report, in pprof files, and in symbolized-trace."""
    said = place.named()
    check("inlined" in said and "hidden" in said, f"the short report: {said}")
    check("symbolized-trace" in said, f"the files are not listed: {said}")
    check_named(place.output)
    check_named(os.path.join(place.output, "symbolized-trace"))
    check_nameless(place.trace)
    parts = read(place.trace) + read(os.path.join(place.output, "symbols"))
    check(parts == read(os.path.join(place.output, "symbolized-trace")), "not the sum of its parts")
    shutil.rmtree(place.debug)
    os.remove(place.program)
    check_named(place.output)


@in_place
def test_no_symbols(place):
    said = place.named("--no-symbols")
    files = sorted(name for name in os.listdir(place.output) if not name.endswith(".gz"))
    check(files == ["raw-trace"], f"{files}")
    check_nameless(place.output)
    check("Frames without a name" in said and place.program in said, said)


@in_place
def test_no_debug_information(place):
    """Without debug information there are no empty files and no copy of the trace."""
    said = place.host()
    files = os.listdir(place.output)
    if "symbols" in files:
        check(len(read(os.path.join(place.output, "symbols"))) > 0, "symbols is empty")
    else:
        check("symbolized-trace" not in files, f"{files}")
    lines = said[said.index("Frames without a name") :].splitlines()
    check(place.program in lines[1] and "debug symbols" in lines[1], said)
    unnamed = report(place.output)["unnamed"]
    check([entry["mapping"] for entry in unnamed] == [place.program], f"{unnamed}")
    check(unnamed[0]["share"] == 1 and unnamed[0]["addresses"] >= 2, f"{unnamed}")
    check(unnamed[0]["reason"] and unnamed[0]["remedy"], f"{unnamed}")
    text = run([TOOL, "report", place.output]).stdout.decode()
    check("Frames without a name" in text and place.program in text, text)


@in_place
def test_wrong_search_paths(place):
    """Wrong search directories are reported, and the profile is written nevertheless."""
    said = place.named(PERFETTO_SYMBOLIZER_MODE="elsewhere")
    check("PERFETTO_SYMBOLIZER_MODE" in said, said)
    check_nameless(place.output)
    said = place.host(env={"PERFETTO_BINARY_PATH": "/nonexistent"})
    check("/nonexistent" in said, said)
    check_nameless(place.output)
    said = place.named(PERFETTO_PROGUARD_MAP="com.example=/nonexistent")
    check("/nonexistent" in said, said)
    check_named(place.output)


@in_place
def test_interrupted(place):
    """Ctrl-C during the search for symbols leaves raw-trace, and a message says how to continue."""
    fifo_free = os.path.join(place.directory, "many")
    os.mkdir(fifo_free)
    for number in range(20000):
        os.link(place.program, os.path.join(fifo_free, str(number)))
    process = subprocess.Popen(
        [TOOL, "host", "-o", place.output, "--", place.program],
        env={
            **os.environ,
            **place.env,
            "PERFETTO_BINARY_PATH": ":".join([fifo_free] * 200),
            "PERFETTO_SYMBOLIZER_MODE": "index",
        },
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    def searches():
        found = []
        with open(f"/proc/{process.pid}/task/{process.pid}/children") as children:
            for pid in children.read().split():
                with contextlib.suppress(OSError):
                    found += [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
        return any(path.startswith(fifo_free) for path in found)

    wait_for("the search", lambda: process.poll() is not None or searches())
    check(process.poll() is None, "it was over before it could be interrupted")
    os.killpg(process.pid, signal.SIGINT)
    said = process.communicate(timeout=180)[1].decode()
    check("signal 2" in said and "bundle" in said, said)
    check("Profile in" in said, f"no report: {said}")
    check(not os.path.exists(os.path.join(place.output, "symbols")), "unfinished symbols are left")
    check_nameless(place.output)


@in_place
def test_other_machine(place):
    """A bundle shows names on a machine with neither program nor debug file."""
    place.host("--no-symbols")
    outcome = place.bundle("--symbol-paths", place.debug)
    check(outcome.status == 0, f"{outcome.status}: {outcome.stderr}")
    shutil.rmtree(place.debug)
    shutil.rmtree(os.path.dirname(place.program))
    check_nameless(place.trace)
    check_named(place.bundled)
    check(read(place.bundled).startswith(read(place.trace)), "the trace is not its beginning")
    # Every tool reads it like a trace.
    collapsed = run([TRACECONV, "collapsed", place.bundled])
    check(b"hidden;inlined" in collapsed.stdout, f"collapsed: {collapsed.stdout}")
    text = run([TRACECONV, "text", place.bundled])
    check(b"module_symbols" in text.stdout, "text: no symbols")
    # If nothing more is found, no name is lost and no name counts as missing.
    again = place.bundle("--no-auto-symbol-paths", trace=place.bundled, out="again")
    check(again.status == 0, f"{again.stderr}")
    check(read(again_path(place)) == read(os.path.join(place.directory, "bundle")), "it changed")
    check(place.program not in again.stderr.decode(), f"{again.stderr}")


def again_path(place):
    return os.path.join(place.directory, "again")


@in_place
def test_bundled_twice(place):
    """Bundling a bundle, or a trace that already has its names, adds nothing."""
    place.named()
    for options in [("--symbol-paths", place.debug), ("--symbol-paths", place.debug)]:
        outcome = place.bundle(*options)
        check(outcome.status == 0, f"{outcome.stderr}")
        first = read(place.bundled)
        outcome = place.bundle(*options, trace=place.bundled, out="again")
        check(outcome.status == 0, f"{outcome.stderr}")
        check(first == read(again_path(place)), "bundled twice is not the same")
    symbolized = os.path.join(place.output, "symbolized-trace")
    outcome = place.bundle("--no-auto-symbol-paths", "--symbol-paths", place.debug, trace=place.output)
    check(outcome.status == 0, f"{outcome.stderr}")
    check(read(place.bundled) == read(symbolized), "a symbolized trace grew")
    # Frames that were named without lines get their lines later, once.
    place.host("--no-symbols")
    subprocess.run(["objcopy", "--strip-debug", os.path.join(place.debug, "prog")], check=True)
    place.bundle("--no-auto-symbol-paths", "--symbol-paths", place.debug)
    stack = stack_of(report(place.bundled))
    check(stack[:2] == [("hidden", "", 0), ("main", "", 0)], f"{stack}")


@in_place
def test_missing(place):
    """The summary lists the frames without names, the reasons and the remedy; --verbose adds the searched places."""
    place.host("--no-symbols")
    outcome = place.bundle("--no-auto-symbol-paths")
    said = outcome.stderr.decode()
    check(outcome.status == 0, f"{outcome.status}: {said}")
    line = [line for line in said.splitlines() if place.program in line]
    check(len(line) == 1 and "no file with this build id" in line[0], said)
    check("PERFETTO_BINARY_PATH" in line[0] and "100.0 %" in line[0], said)
    check(read(place.bundled) == read(place.trace), "a bundle without additions was written")
    said = place.bundle().stderr.decode()
    check("no symbol there" in said and "debug symbols" in said, said)
    shutil.copy("/bin/true", os.path.join(place.debug, "prog"))
    said = place.bundle(
        "--no-auto-symbol-paths", env={"PERFETTO_BINARY_PATH": place.debug}
    ).stderr.decode()
    check("another build" in said, said)
    said = place.bundle("--verbose").stderr.decode()
    check("libc" in said and "build id" in said, said)
    check(place.bundle("-q").stderr == b"", "--quiet printed a message")


@in_place
def test_maps(place):
    """Maps that the user names must be readable; maps that are found need not be."""
    place.host("--no-symbols")
    outcome = place.bundle("--proguard-map", "com.example=/nonexistent/map")
    check(outcome.status == 1, f"{outcome.status}")
    check(b"/nonexistent/map" in outcome.stderr, f"{outcome.stderr}")
    check(not os.path.exists(place.bundled), "something was written")
    outcome = place.bundle(env={"PERFETTO_PROGUARD_MAP": "com.example=/nonexistent/map"})
    check(outcome.status == 0, f"{outcome.status}")
    check(b"/nonexistent/map" in outcome.stderr, f"{outcome.stderr}")
    outcome = place.bundle(
        "--no-auto-proguard-maps", env={"PERFETTO_PROGUARD_MAP": "com.example=/nonexistent/map"}
    )
    check(outcome.status == 0 and b"/nonexistent" not in outcome.stderr, f"{outcome.stderr}")
    gradle = os.path.join(place.directory, "app", "build", "outputs", "mapping", "release")
    os.makedirs(gradle)
    with open(os.path.join(gradle, "mapping.txt"), "w") as file:
        file.write("com.example.Main -> a:\n    void run() -> b\n")
    outcome = place.bundle()
    check(outcome.status == 0 and b"release/mapping.txt" in outcome.stderr, f"{outcome.stderr}")


@in_place
def test_streams(place):
    """Standard input and output, packed and truncated traces."""
    place.host("--no-symbols")
    trace = read(place.trace)
    command = [TRACECONV, "bundle", "--no-auto-symbol-paths", "--symbol-paths", place.debug]
    run([*command, "-", "-"], stdin=trace, env=place.env)  # what is cached comes before what is not
    whole = run([*command, "-", "-"], stdin=trace, env=place.env)
    check(whole.status == 0, f"{whole.stderr}")
    check(whole.stdout.startswith(trace) and len(whole.stdout) > len(trace), "through pipes")
    packed = run([*command, "-", "-"], stdin=gzip.compress(trace), env=place.env)
    check(packed.stdout == whole.stdout, "packed input is another bundle")
    cut = run([*command, "-", "-"], stdin=trace + b"\x0a\x7f", env=place.env)
    check(cut.status == 0 and b"cut off" in cut.stderr, f"{cut.stderr}")
    check(cut.stdout == whole.stdout, "a truncated trace has a damaged end")


@in_place
def test_usage(place):
    place.host("--no-symbols")
    for arguments in [[], ["one"], ["one", "two", "three"], ["--nothing", "a", "b"]]:
        outcome = run([TRACECONV, "bundle", *arguments], cwd=place.directory)
        check(outcome.status == 2, f"{arguments}: {outcome.status}")
    outcome = run([TRACECONV, "bundle", "/nonexistent", os.path.join(place.directory, "out2")])
    check(outcome.status == 1 and b"/nonexistent" in outcome.stderr, f"{outcome.stderr}")
    outcome = run([TRACECONV, "bundle", place.trace, place.trace])
    check(outcome.status == 1 and b"the trace itself" in outcome.stderr, f"{outcome.stderr}")
    check_nameless(place.trace)
    helped = run([TOOL, "bundle", "--help"])
    check(helped.status == 0 and b"--symbol-paths" in helped.stdout, f"{helped.stdout}")
    outcome = place.bundle(env={"PERFETTO_SYMBOLIZER_MODE": "elsewhere"})
    check(outcome.status == 2, f"{outcome.status}")


if __name__ == "__main__":
    main()
