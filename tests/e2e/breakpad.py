#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""traceconv symbolize and bundle with Breakpad's symbol files alone: names, files, lines and inlined functions match
llvm-symbolizer's.

    breakpad.py CASE
"""

import contextlib
import re
import shutil

from breakpad_dump import debug_id_of, dump, write
from harness import check, main, run
from symbolize import TRACECONV, Scene, bias_of, build_id_of, code_addresses, llvm_frames, symbolize, trace_of

ALONE = ("--no-auto-symbol-paths", "--no-cache")


def compare(scene, path, directory, *options, mapped=None, build_id=None):
    """Compare all code addresses, with the names that the symbol files alone provide."""
    addresses = code_addresses(path)
    build_id = build_id_of(path) if build_id is None else build_id
    mapped = mapped or path
    symbols, report, words = symbolize(
        scene.directory, [(mapped, build_id, addresses, bias_of(path))], *ALONE, "--breakpad-symbols", directory, *options)
    ours, theirs = symbols.get((mapped, build_id), {}), llvm_frames(path, addresses)
    wrong = []
    for address in addresses:
        other = theirs[address]
        mine = ours.get(address, [])
        if other[0][2] == 0:  # no debug information: a PUBLIC record
            wrong += [] if len(mine) == 1 and mine[0][1:] == ("", 0) else [(hex(address), mine, other)]
        elif mine != other:
            wrong.append((hex(address), mine, other))
    check(not wrong, f"{path}: {len(wrong)} of {len(addresses)} differ: {wrong[:3]}")
    check(sum(len(each) > 1 for each in ours.values()) > 5, f"{path}: too few inlined functions")
    return report[mapped], words


def test_builds(scene):
    """Position-independent, fixed and lld's programs, each with its own first address."""
    for index, (language, compiler, *flags) in enumerate((
        ("c", "gcc"), ("c++", "g++"), ("c", "gcc", "-no-pie", "-fno-pie"),
        ("c++", "clang++-14", "-fuse-ld=lld"), ("c", "clang-14", "-fuse-ld=lld", "-no-pie", "-fno-pie"),
    )):
        path = scene.compile(f"built{index}", language, compiler, "-g", "-O2", *flags)
        write(dump(path), scene.path(f"symbols{index}"), f"any{index}.sym")
        report, words = compare(scene, path, scene.path(f"symbols{index}"))
        check(report["breakpad"] == scene.path(f"symbols{index}", f"any{index}.sym"), f"{report}")
        # If the file is available, too, its own first address counts.
        symbols, _, _ = symbolize(
            scene.directory, [(path, build_id_of(path), code_addresses(path), bias_of(path))],
            "--breakpad-symbols", scene.path(f"symbols{index}"), "--no-cache")
        check({a: f for a, f in symbols[path, build_id_of(path)].items() if f[0][2]}
              == {a: f for a, f in llvm_frames(path, code_addresses(path)).items() if f[0][2]}, f"{path}: with the file")


def test_directories(scene):
    """Symbol files are found in a symbol server's layout, or at any depth; by build id, else by name."""
    path = scene.compile("program", "c", "gcc", "-g", "-O2")
    text, identifier = dump(path), debug_id_of(build_id_of(path))
    stored = write(text, scene.path("store"), "program", identifier, "program.sym")
    check(compare(scene, path, scene.path("store"))[0]["breakpad"] == stored, "the store")
    deep = write(text, scene.path("flat"), "a", "b", "other-name.sym")
    check(compare(scene, path, scene.path("flat"))[0]["breakpad"] == deep, "any file")
    check(compare(scene, path, scene.path("empty") + "," + scene.path("flat"))[0]["breakpad"] == deep, "two directories")
    report, _ = compare(scene, path, scene.path("flat"), mapped="/opt/PROGRAM", build_id=b"")
    check(report["breakpad"] == deep, f"without a build id: {report}")
    check("cannot be searched" in compare(scene, path, scene.path("flat") + ":/nowhere/at/all")[1], "no warning")


def test_others(scene):
    """A symbol file of another build, or a damaged one, provides no names and is reported; others still count."""
    path = scene.compile("program", "c", "gcc", "-g", "-O2")
    addresses, build_id = code_addresses(path), build_id_of(path)
    module = (path, build_id, addresses, bias_of(path))
    write(dump(path, identifier="F" * 32 + "0"), scene.path("other"), "program.sym")
    symbols, report, words = symbolize(scene.directory, [module], *ALONE, "--breakpad-symbols", scene.path("other"))
    check(not symbols and report[path]["without"]["other_build"] == len(addresses), f"{report}")
    check(scene.path("other", "program.sym") in words and "another build" in words, words)
    damaged = write(dump(path) + "FUNC what\n", scene.path("damaged"), "program.sym")
    lines = open(damaged).read().count("\n")
    symbols, report, words = symbolize(scene.directory, [module], *ALONE, "--breakpad-symbols", scene.path("damaged"))
    check(not symbols and f"{damaged}: line {lines}: FUNC needs" in words, words)
    symbols, report, words = symbolize(scene.directory, [module], "--breakpad-symbols", scene.path("damaged"))
    check(len(symbols[path, build_id]) == len(addresses) and report[path]["with_lines"] > 20, f"the other files are not used: {report}")
    symbols, report, words = symbolize(scene.directory, [("/none", b"", [1, 2], 0)], *ALONE, "--breakpad-symbols", scene.path("other"))
    check(report["/none"]["without"]["no_build_id"] == 2 and "no build id" in words, words)


def test_remains(scene):
    """Addresses that a symbol file lacks are looked up in the executed files."""
    path = scene.compile("program", "c", "gcc", "-g", "-O2")
    addresses, build_id = code_addresses(path), build_id_of(path)
    text = dump(path)
    without = re.sub(r"FUNC \w+ \w+ 0 outer\n((INLINE|[0-9a-f]+) .*\n)*", "", text)
    check(without != text, "the function outer is missing")
    without = re.sub(r"PUBLIC .*\n", "", without)  # these extend to the next record, across the removed ones
    write(without.replace(" checked\n", " renamed\n"), scene.path("some"), "some.sym")
    symbols, report, _ = symbolize(
        scene.directory, [(path, build_id, addresses, bias_of(path))], "--breakpad-symbols", scene.path("some"), "--no-cache")
    names = {frames[-1][0] for frames in symbols[path, build_id].values()}
    check({"outer", "renamed"} <= names and "checked" not in names, f"{names}")
    theirs = llvm_frames(path, addresses)
    for address, frames in symbols[path, build_id].items():
        if frames[-1][0] == "outer":
            check(frames == theirs[address], f"{address:#x}: {frames}, {theirs[address]}")
    check(report[path]["with_lines"] + report[path]["with_names"] + sum(report[path]["without"].values()) == len(addresses), f"{report}")


def test_bundled(scene):
    """traceconv bundle uses them, too, and says so."""
    path = scene.compile("program", "c", "gcc", "-g", "-O2")
    write(dump(path), scene.path("symbols"), "program.sym")
    trace, out = scene.path("trace"), scene.path("bundle")
    with open(trace, "wb") as file:
        file.write(trace_of([(path, build_id_of(path), code_addresses(path), bias_of(path))]))
    shutil.move(path, scene.path("gone"))
    done = run([TRACECONV, "bundle", "--no-auto-symbol-paths", "--breakpad-symbols", scene.path("symbols"), "--verbose", trace, out])
    check(done.status == 0 and scene.path("symbols", "program.sym") in done.stderr.decode(), f"{done.stderr!r}")
    check(b"outer" in open(out, "rb").read(), "no names")


if __name__ == "__main__":
    with contextlib.closing(Scene()) as made_scene:
        main(made_scene)
