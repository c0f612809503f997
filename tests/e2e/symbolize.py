#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""traceconv symbolize on programs built in all the ways of compilers and packagers: each frame's function,
file and line are llvm-symbolizer's and eu-addr2line's.

    symbolize.py CASE
"""

import contextlib
import functools
import hashlib
import json
import os
import re
import shutil
import struct
import subprocess
import tempfile
import urllib.request
import zipfile

from harness import BUILD, LONG, ROOT, SANITIZED, TRACECONV, check, main, need, run, skip
from perfetto_bytes import field, fields


def trace_of(modules, processes=()):
    """Return a trace with frames in modules: (path, build id, addresses, load bias)."""
    interned, frame = b"", 0
    for index, (path, build_id, addresses, bias) in enumerate(modules, 1):
        interned += field(16, field(1, index) + field(2, build_id)) if build_id else b""
        parts = [f"{index}-{part}" for part in path.split("/") if part]
        identifiers = []
        for part in parts:
            identifiers.append(index * 1000 + len(identifiers))
            text = part.split("-", 1)[1].encode()
            interned += field(17, field(1, identifiers[-1]) + field(2, text))
        mapping = field(1, index) + (field(2, index) if build_id else b"") + field(6, bias)
        interned += field(19, mapping + b"".join(field(7, each) for each in identifiers))
        for address in addresses:
            frame += 1
            interned += field(6, field(1, frame) + field(3, index) + field(4, address))
    profile = b"".join(field(5, field(1, each)) for each in processes)
    profile = field(37, profile) if profile else b""
    return field(1, field(10, 1) + field(13, 1) + field(12, interned) + profile)


def decode_symbols(data, starts=None):
    """Return {(path, build id): {address: [(function, file, line)]}} of ModuleSymbols packets. `starts` gets {address:
    function's start} of addresses without a name."""
    result = {}
    for number, packet in fields(data):
        assert number == 1
        for number, symbols in fields(packet):
            if number != 61:
                continue
            path, build_id, table = "", b"", {}
            for number, value in fields(symbols):
                if number == 1:
                    path = value.decode()
                elif number == 2:
                    build_id = value
                elif number == 3:
                    address, lines, offset = 0, [], None
                    for number, inner in fields(value):
                        if number == 1:
                            address = inner
                        elif number == 5001:
                            offset = inner
                        else:
                            line = dict(fields(inner))
                            lines.append((line.get(1, b"").decode(), line.get(2, b"").decode(), line.get(3, 0)))
                    check(address not in table, f"{address:#x} twice")
                    check((offset is None) == bool(lines), f"{address:#x}: {lines}, {offset}")
                    if lines:
                        table[address] = lines
                    elif starts is not None:
                        starts[address] = address - offset
            if table:
                result.setdefault((path, build_id), {}).update(table)
    return result


# --- tools ---


def tool(name, *others):
    for candidate in (name, *others):
        if shutil.which(candidate):
            return candidate
    need(name)


def output(command, **more):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=100, **more)
    if done.returncode != 0:
        raise RuntimeError(f"{command}: {done.returncode} {done.stderr.decode(errors='replace')[:500]}")
    return done.stdout


def build_id_of(path):
    text = output(["readelf", "-n", path], env={**os.environ, "LC_ALL": "C"}).decode()
    return bytes.fromhex(re.search(r"Build ID: ([0-9a-f]+)", text).group(1))


def bias_of(path):
    """Return the difference between addresses of the code and offsets in the file."""
    headers = output(["readelf", "-lW", path]).decode()
    offset, virtual = re.search(r"LOAD +0x(\w+) 0x(\w+) 0x\w+ 0x\w+ 0x\w+ R E", headers).groups()
    return int(virtual, 16) - int(offset, 16)


def code_addresses(path, step=5):
    """Return addresses in the functions of a file with a symbol table."""
    result = set()
    for line in output(["nm", "-S", "--defined-only", path]).decode().split("\n"):
        parts = line.split()
        if len(parts) == 4 and parts[2] in "tTwW":
            start, size = int(parts[0], 16), int(parts[1], 16)
            result.update(range(start, start + min(size, 2000), step))
    return sorted(result)


def llvm_frames(path, addresses):
    """Return llvm-symbolizer's {address: [(function, file, line)]}."""
    command = [tool("llvm-symbolizer", "llvm-symbolizer-14"), "--no-demangle", "--output-style=JSON", "--obj=" + path]
    text = subprocess.run(
        command, input="\n".join(hex(each) for each in addresses).encode(), capture_output=True, timeout=200, check=True
    ).stdout.decode()
    result = {}
    for line in text.splitlines():
        entry = json.loads(line)
        frames = [
            ("" if each["FunctionName"] == "??" else each["FunctionName"],
             "" if each["FileName"] == "??" else each["FileName"], each["Line"])
            for each in entry["Symbol"]
        ]
        result[int(entry["Address"], 16)] = frames
    return result


def eu_lines(path, addresses):
    """Return eu-addr2line's {address: (file, line)} of the innermost frame."""
    done = subprocess.run(
        ["eu-addr2line", "-a", "-A", "-e", path], input="\n".join(hex(each) for each in addresses).encode(),
        capture_output=True, timeout=100, check=True,
    ).stdout.decode().splitlines()
    result = {}
    for head, place in zip(done[::2], done[1::2]):
        file, line = re.match(r"(.*?):(\d+)(?::\d+)?$", place.split(" (")[0]).groups()
        result[int(head, 16)] = ("" if file == "??" else file, int(line))
    return result


def symbolize(directory, modules, *options, environment=None, status=0, processes=()):
    """Run traceconv symbolize. Return its symbols, and its JSON summary by path."""
    trace, out, summary = (os.path.join(directory, name) for name in ("trace", "trace-symbols", "summary"))
    with open(trace, "wb") as file:
        file.write(trace_of(modules, processes))
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("PERFETTO_", "DEBUGINFOD_"))}
    done = subprocess.run(
        [TRACECONV, "symbolize", *options, "--json", summary, trace, out],
        stdin=subprocess.DEVNULL, capture_output=True, timeout=100, env={**clean, **(environment or {})},
    )
    check(done.returncode == status, f"traceconv symbolize: {done.returncode} {done.stderr!r}")
    with open(out, "rb") as file:
        symbols = decode_symbols(file.read())
    with open(summary) as file:
        report = {each["path"]: each for each in json.load(file)["modules"]}
    return symbols, report, done.stderr.decode()


def written_symbols(scene):
    """Return the bytes that symbolize() has written last."""
    with open(os.path.join(scene.directory, "trace-symbols"), "rb") as file:
        return file.read()


# --- the programs ---

C_SOURCE = r"""
#include <stdio.h>
#include <stdlib.h>
#include "inline.h"
static int leaf(int value) { return value * 3 + twice(value); }
__attribute__((noinline)) int outer(int value)
{
    int sum = 0;
    for (int i = 0; i < value; i++) {
        sum += leaf(i);
        if (sum > 1000)
            sum -= clamp(sum);
    }
    return sum;
}
__attribute__((noinline, cold)) static void complain(int value) { printf("%d\n", value); abort(); }
__attribute__((noinline)) static int checked(int value)
{
    if (value < -5)
        complain(value);
    return outer(value) + twice(value);
}
int main(int argc, char **argv)
{
    (void)argv;
    return checked(argc) + clamp(outer(argc * 2));
}
"""

HEADER = r"""
static inline __attribute__((always_inline)) int half(int value) { return value / 2; }
static inline __attribute__((always_inline)) int twice(int value)
{
    return value + half(value) * 4;
}
static inline int clamp(int value)
{
    if (value > 99)
        return twice(99);
    return half(value);
}
"""

CXX_SOURCE = r"""
#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>
#include "inline.h"
namespace shapes {
struct shape {
    virtual ~shape() = default;
    virtual double area() const = 0;
};
struct square final : shape {
    explicit square(double side) : side(side) {}
    double area() const override { return side * side; }
    double side;
};
template <typename T> struct scaled final : shape {
    scaled(T inner, int by) : inner(inner), by(by) {}
    double area() const override { return inner.area() * twice(by); }
    T inner;
    int by;
};
}
static std::map<std::string, std::unique_ptr<shapes::shape>> all;
int main(int argc, char **argv)
{
    std::vector<std::string> names(argv, argv + argc);
    auto add = [&](const std::string &name) {
        struct local {
            static double grow(double value) { return value * 1.5 + half((int)value); }
        };
        all[name] = std::make_unique<shapes::scaled<shapes::square>>(shapes::square(local::grow(argc)), 3);
    };
    std::for_each(names.begin(), names.end(), add);
    std::sort(names.begin(), names.end(), [](const auto &a, const auto &b) { return a.size() < b.size(); });
    double sum = 0;
    for (const auto &[name, value] : all)
        sum += value->area() + clamp((int)name.size());
    std::printf("%f\n", sum);
    return 0;
}
"""

RUST_SOURCE = r"""
use std::collections::HashMap;
#[inline(always)]
fn thrice(value: u64) -> u64 { value.wrapping_mul(3) }
#[inline(never)]
fn count(words: &[String]) -> HashMap<String, u64> {
    let mut map = HashMap::new();
    for word in words { *map.entry(word.clone()).or_insert(0) += thrice(word.len() as u64); }
    map
}
fn main() {
    let words: Vec<String> = std::env::args().collect();
    println!("{:?}", count(&words));
}
"""


class Scene:
    def __init__(self):
        self.directory = os.path.realpath(tempfile.mkdtemp(prefix="symbolize-"))
        for name, text in (("one.c", C_SOURCE), ("two.cc", CXX_SOURCE), ("inline.h", HEADER), ("three.rs", RUST_SOURCE)):
            with open(self.path(name), "w") as file:
                file.write(text)

    def path(self, *parts):
        return os.path.join(self.directory, *parts)

    def compile(self, name, language, compiler, *flags):
        source = {"c": "one.c", "c++": "two.cc"}[language]
        need(compiler)
        kept = self.kept(source, compiler, flags)
        if language == "c++" and os.path.exists(kept):
            shutil.copy(kept, self.path(name))
            return self.path(name)
        output([compiler, *flags, "-Wl,--build-id", source, "-o", name], cwd=self.directory)
        if language == "c++":
            os.makedirs(os.path.dirname(kept), exist_ok=True)
            temporary = f"{kept}.{os.getpid()}"
            shutil.copy(self.path(name), temporary)
            os.replace(temporary, kept)
        return self.path(name)

    def kept(self, source, compiler, flags):
        """Return where a program is kept that takes a second to compile: for the cases that use the same one, and for those
        of the other build, because it does not depend on the product."""
        with open(self.path(source)) as file:
            made_of = repr((file.read(), HEADER, os.stat(shutil.which(compiler)).st_mtime_ns, compiler, flags))
        return os.path.join(ROOT, "build", "tests", "e2e", "programs", hashlib.sha256(made_of.encode()).hexdigest())

    def close(self):
        shutil.rmtree(self.directory, ignore_errors=True)


def compare(scene, path, reference=None, addresses=None, places=True, inlined=True, **more):
    """Check that each frame of each address is llvm-symbolizer's, and its line eu-addr2line's.

    reference: the complete file, if path is stripped."""
    reference = reference or path
    addresses = addresses or code_addresses(reference)
    build_id = build_id_of(path)
    symbols, report, _ = symbolize(scene.directory, [(path, build_id, addresses, bias_of(path))], **more)
    ours = symbols.get((path, build_id), {})
    theirs = llvm_frames(reference, addresses)
    lines = eu_lines(reference, addresses) if places else None
    wrong = []
    for address in addresses:
        mine, other = ours.get(address, []), theirs[address]
        other = [each for each in other if each != ("", "", 0)]
        if len(other) == 1 and other[0][2] == 0 and "/" not in other[0][1]:
            other = [(other[0][0], "", 0)]  # only the object's name, from its STT_FILE symbol, and no line
        if [each[1:] for each in mine] != [each[1:] for each in other]:
            wrong.append((hex(address), mine, other))
        elif [each[0] for each in mine] != [each[0] for each in other] and not same_names(reference, mine, other):
            wrong.append((hex(address), mine, other))
        elif places and mine and lines[address] != mine[0][1:] and lines[address] != ("", 0):
            wrong.append((hex(address), mine, "eu", lines[address]))
    check(not wrong, f"{path}: {len(wrong)} of {len(addresses)} differ: {wrong[:3]}")
    check(not inlined or sum(len(each) > 1 for each in ours.values()) > 5, f"{path}: too few inlined functions")
    check(report[path]["source"] == "dwarf", f"{path}: {report[path]}")
    check(report[path]["damaged_units"] == 0, f"{path}: {report[path]}")
    return len(addresses)


@functools.cache
def symbol_places(path):
    places = {}
    for line in output(["nm", "--defined-only", path]).decode().splitlines():
        parts = line.split()
        places.setdefault(parts[-1].partition("@")[0], set()).add(parts[0])
    return places


def same_names(path, mine, other):
    """Return whether only the outermost names differ, and are two symbols of one address."""
    if [each[0] for each in mine[:-1]] != [each[0] for each in other[:-1]]:
        return False
    places = symbol_places(path)
    return bool(places.get(mine[-1][0], set()) & places.get(other[-1][0], set()))


def each_build(scene, variants):
    # C++ takes most of the time, so it is compiled with one compiler a variant, in turn. Under sanitizers, where the
    # compilers make the same inputs as without, so is C, with the other one.
    for index, flags in enumerate(variants):
        pairs = [("c", "gcc"), ("c", "clang-14"), ("c++", "g++"), ("c++", "clang++-14")]
        if not LONG:
            pairs.remove(("c++", ("g++", "clang++-14")[index % 2]))
        if SANITIZED:
            pairs.remove(("c", ("clang-14", "gcc")[index % 2]))
        for language, compiler in pairs:
            path = scene.compile(f"{compiler}-{index}", language, compiler, *flags)
            compare(scene, path)


def test_versions(scene):
    """Programs with DWARF 2 to 5, optimized and not, get names and lines."""
    each_build(scene, [("-g", f"-gdwarf-{version}", "-O2") for version in (2, 3, 4, 5)]
               + [("-g", "-O0")])


def test_layouts(scene):
    """Layouts: not position-independent, a section per function, compressed sections, link-time optimization."""
    each_build(scene, [
        ("-g", "-O2", "-no-pie", "-fno-pie"),
        ("-g", "-O2", "-ffunction-sections", "-Wl,--gc-sections"),
        ("-g", "-O2", "-gz=zlib"),
        ("-g", "-O3", "-fno-omit-frame-pointer"),
    ])
    for language, compiler in (("c", "gcc"), ("c++", "g++")):
        compare(scene, scene.compile("lto", language, compiler, "-g", "-O2", "-flto"))
    for language, compiler in (("c", "clang-14"), ("c++", "clang++-14")):
        compare(scene, scene.compile("lld", language, compiler, "-g", "-O2", "-fuse-ld=lld"))


def test_indexes(scene):
    """Indexes: .gdb_index, .debug_names or .debug_gnu_pubnames, no .debug_aranges, and old-style compressed sections."""
    need("gold")
    need("lld")
    each_build(scene, [
        ("-g", "-O2", "-ggnu-pubnames", "-fuse-ld=gold", "-Wl,--gdb-index"),
        ("-g", "-O2", "-ggnu-pubnames", "-fuse-ld=lld", "-Wl,--gdb-index"),
        ("-g", "-O2", "-gz=zlib", "-fuse-ld=gold"),
    ])
    for language, compiler in (("c", "clang-14"), ("c++", "clang++-14")):
        path = scene.compile("names", language, compiler, "-g", "-O2", "-gdwarf-5", "-gpubnames")
        check(b".debug_names" in output(["readelf", "-SW", path]), "no .debug_names")
        compare(scene, path)
        path = scene.compile("aranges", language, compiler, "-g", "-O2", "-gdwarf-4", "-gdwarf-aranges")
        check(b".debug_aranges" in output(["readelf", "-SW", path]), "no .debug_aranges")
        compare(scene, path)
    path = scene.compile("old", "c++", "g++", "-g", "-O2")
    plain = scene.path("plain")
    shutil.copy(path, plain)
    output(["objcopy", "--compress-debug-sections=zlib-gnu", path])
    check(b".zdebug_info" in output(["readelf", "-SW", path]), "no .zdebug_info")
    compare(scene, path, reference=plain)


def test_folded(scene):
    """Of identical functions that the linker merged, one is shown, with its own line."""
    need("lld")
    source = "".join(f"__attribute__((noinline)) int same{i}(int value)\n{{ return value * 3 + 1; }}\n" for i in range(4))
    with open(scene.path("folded.c"), "w") as file:
        file.write(source + "int main(int n, char **v) { (void)v; return "
                   + " + ".join(f"same{i}(n)" for i in range(4)) + "; }\n")
    output(["clang-14", "-g", "-O2", "-ffunction-sections", "-fuse-ld=lld", "-Wl,--icf=all", "-Wl,--build-id", "folded.c",
            "-o", "folded"], cwd=scene.directory)
    path = scene.path("folded")
    addresses, build_id = code_addresses(path), build_id_of(path)
    places = {int(line.split()[0], 16) for line in output(["nm", path]).decode().splitlines() if " same" in line}
    check(len(places) == 1, f"no functions were folded: {places}")
    symbols, _, _ = symbolize(scene.directory, [(path, build_id, addresses, bias_of(path))])
    theirs = llvm_frames(path, addresses)
    for address, frames in symbols[path, build_id].items():
        other = theirs[address]
        if frames[-1][0].startswith("same"):
            check(len(frames) == 1 and re.fullmatch("same[0-3]", frames[0][0]) is not None, f"{frames}")
            check(frames[0][1] == scene.path("folded.c") and 1 <= frames[0][2] <= 8, f"{frames}")
        else:
            check(frames == other or other[0][2] == 0, f"{address:#x}: {frames}, {other}")


def test_dlang(scene):
    """D: gdc's names and lines, also of inlined functions, and their demangled names."""
    need("gdc")
    with open(scene.path("four.d"), "w") as file:
        file.write(D_SOURCE)
    for index, flags in enumerate((("-O2",), ("-O0",), ("-O2", "-gdwarf-4"))):
        output(["gdc", "-g", *flags, "-Wl,--build-id", "four.d", "-o", f"four{index}"], cwd=scene.directory)
        path = scene.path(f"four{index}")
        addresses = [address for address, name in own_functions(path, "_D4four")]
        check(len(addresses) > 20, f"{addresses}")
        compare(scene, path, addresses=addresses, inlined=flags[0] == "-O2")
    names = output(["nm", path]).decode()
    check("_D4four3Box" in names or "_D4four" in names, names[:300])


D_SOURCE = """
import core.stdc.stdlib;
pragma(inline, true) int half(int value) { return value / 2; }
class Box { int[] all; int sum;
  void add(T)(T value) { all ~= cast(int) value; sum += half(cast(int) value); } }
int main(string[] arguments) {
  auto box = new Box;
  foreach (index, word; arguments) { box.add(index); box.add(cast(short) word.length); }
  int delegate(int) twice = (int value) { return value + half(value) + box.sum; };
  return twice(box.sum) > 1000 ? 1 : 0;
}
"""


def own_functions(path, prefix, step=3):
    """Return (address, name) in functions whose names begin so."""
    for line in output(["nm", "-S", "--defined-only", path]).decode().splitlines():
        parts = line.split()
        if len(parts) == 4 and parts[2] in "tTwW" and (parts[3].startswith(prefix) or parts[3] == "_Dmain"):
            yield from ((address, parts[3]) for address in range(int(parts[0], 16), int(parts[0], 16) + int(parts[1], 16), step))


def test_split_units(scene):
    """-gsplit-dwarf: the functions are in .dwo files; without these, lines and symbols remain."""
    for version in ("4", "5"):
        pairs = [("c", "gcc"), ("c++", "clang++-14"), ("c", "clang-14"), ("c++", "g++")]
        if SANITIZED:  # each compiler once: they make the same inputs as without
            pairs = pairs[:2] if version == "4" else pairs[2:]
        for language, compiler in pairs:
            source = {"c": "one.c", "c++": "two.cc"}[language]
            need(compiler)
            name = f"split-{compiler}-{version}"
            output([compiler, "-g", "-O2", "-gdwarf-" + version, "-gsplit-dwarf", "-c", source, "-o", name + ".o"],
                   cwd=scene.directory)
            output([compiler, name + ".o", "-Wl,--build-id", "-o", name], cwd=scene.directory)
            compare(scene, scene.path(name))
            os.unlink(scene.path(name + ".dwo"))
            path = scene.path(name)
            _, report, words = symbolize(scene.directory, [(path, build_id_of(path), code_addresses(path), 0)])
            check(report[path]["missing_units"] == 1, f"{name}: {report[path]}")
            check(name + ".dwo is not there" in words, words)
            check(report[path]["with_lines"] > 20, f"{name}: {report[path]}")
            os.mkfifo(scene.path(name + ".dwo"))
            _, report, _ = symbolize(scene.directory, [(path, build_id_of(path), code_addresses(path), 0)], "--no-cache")
            check(report[path]["missing_units"] == 1, f"{name}, a pipe: {report[path]}")
            os.unlink(scene.path(name + ".dwo"))


def test_packages(scene):
    """The .dwo files may be in one .dwp, next to the program or its debug file. Neither packager reads
    gcc 12's DWARF 5."""
    for version, language, compiler, packager in (
        ("4", "c", "gcc", "dwp"), ("4", "c++", "g++", "dwp"), ("4", "c++", "clang++-14", "llvm-dwp"),
        ("5", "c", "clang-14", "llvm-dwp"), ("5", "c++", "clang++-14", "llvm-dwp"),
    ):
        source = {"c": "one.c", "c++": "two.cc"}[language]
        need(compiler)
        packager = tool(packager, packager + "-14")
        name = f"packed-{compiler}-{version}"
        common = [compiler, "-g", "-O2", "-gdwarf-" + version, "-gsplit-dwarf"]
        with open(scene.path("other.c"), "w") as file:
            file.write('#include "inline.h"\nint other(int value) { return clamp(value) + twice(value); }\n')
        output([*common, "-c", source, "-o", name + ".o"], cwd=scene.directory)
        output([*common, "-c", "other.c", "-o", name + "2.o"], cwd=scene.directory)
        output([compiler, name + "2.o", name + ".o", "-Wl,--build-id", "-o", name], cwd=scene.directory)
        path = scene.path(name)
        addresses, build_id = code_addresses(path), build_id_of(path)
        plain, report, _ = symbolize(scene.directory, [(path, build_id, addresses, 0)])
        check(report[path]["missing_units"] == 0, f"{name}: {report[path]}")
        output([packager, "-e", path, "-o", path + ".dwp"], cwd=scene.directory)
        for part in (name + ".dwo", name + "2.dwo"):
            os.unlink(scene.path(part))
        packed, report, words = symbolize(scene.directory, [(path, build_id, addresses, 0)])
        check(report[path]["missing_units"] == 0 and packed == plain, f"{name}: {report[path]} {words}")
        if not compiler.startswith("g"):  # in gcc's, llvm-symbolizer misses ranges without their own base
            compare(scene, path)
        debug = scene.path("symbols", name + ".debug")
        os.makedirs(scene.path("symbols"), exist_ok=True)
        output(["objcopy", "--only-keep-debug", path, debug])
        os.rename(path + ".dwp", scene.path("symbols", name + ".dwp"))
        output(["objcopy", "--strip-all", "--add-gnu-debuglink=" + debug, path])
        shutil.copy(path, scene.path("symbols", name))
        separate, report, words = symbolize(
            scene.directory, [(path, build_id, addresses, 0)], "--no-auto-symbol-paths",
            environment={"PERFETTO_BINARY_PATH": scene.path("symbols")})
        check(separate == plain, f"{name}: {report[path]} {words}")


def test_separated(scene):
    """The debug file of a stripped program is found next to it by its link, in .debug, and in a directory by build id."""
    need("eu-strip")
    for language, compiler in (("c", "gcc"), ("c++", "g++")):
        whole = scene.compile("whole", language, compiler, "-g", "-O2")
        addresses, build_id = code_addresses(whole), build_id_of(whole)
        for form in ("objcopy", "eu-strip"):
            for folder in ("", ".debug"):
                os.makedirs(scene.path("away", folder), exist_ok=True)
                path, debug = scene.path("away", "stripped"), scene.path("away", folder, "stripped.debug")
                if form == "objcopy":
                    output(["objcopy", "--only-keep-debug", whole, debug])
                    output(["objcopy", "--strip-all", "--add-gnu-debuglink=" + debug, whole, path])
                else:
                    output(["eu-strip", "-f", debug, "-o", path, whole])
                compare(scene, path, reference=whole, addresses=addresses)
                os.unlink(debug)
        hexadecimal = build_id.hex()
        folder = scene.path("symbols", ".build-id", hexadecimal[:2])
        os.makedirs(folder, exist_ok=True)
        output(["objcopy", "--only-keep-debug", whole, os.path.join(folder, hexadecimal[2:] + ".debug")])
        compare(scene, path, reference=whole, addresses=addresses,
                environment={"PERFETTO_BINARY_PATH": "/nowhere:" + scene.path("symbols")})


def test_debug_file_in_the_directory(scene):
    """DIR/NAME.debug is found by its build id alone, whatever its name, without index mode; deeper ones are not."""
    whole = scene.compile("app", "c", "gcc", "-g", "-O1")
    build_id, addresses = build_id_of(whole), code_addresses(whole)[:20]
    for name, is_found in (("app.debug", True), ("of-a-server-1.2", True), ("deep/app.debug", False)):
        folder = scene.path("only-" + name.replace("/", "-"))
        os.makedirs(os.path.dirname(os.path.join(folder, name)))
        output(["objcopy", "--only-keep-debug", whole, os.path.join(folder, name)])
        for options, environment in ((("--symbol-paths", folder), {}), ((), {"PERFETTO_BINARY_PATH": folder})):
            _, report, words = symbolize(scene.directory, [("/srv/bin/app", build_id, addresses, 0)], "--no-auto-symbol-paths", *options, environment=environment)
            check((report["/srv/bin/app"]["with_lines"] > 10) == is_found, f"{name} {options}: {report} {words}")
        _, report, words = symbolize(scene.directory, [("/srv/bin/app", build_id, addresses, 0)], "--no-auto-symbol-paths",
                                     environment={"PERFETTO_BINARY_PATH": folder, "PERFETTO_SYMBOLIZER_MODE": "index"})
        check(report["/srv/bin/app"]["with_lines"] > 10, f"{name} in index mode: {report} {words}")


HIDDEN = """
#include <stdlib.h>
__attribute__((noinline)) static void *hidden_function(int size) { void *volatile block = malloc(size); return block; }
int main(int argc, char **argv) { (void)argv; volatile char *kept = hidden_function(5000 * argc); kept[0] = 1; return 0; }
"""


def address_of_view(process):
    return re.search(r"http://\S+/", process.stdout.readline())[0]


def test_names_with_every_tool(scene):
    """PERFETTO_BINARY_PATH gives names to every tool that reads a trace; nothing else is searched, and no line is lost."""
    heap_profile = os.path.join(BUILD, "heap_profile")
    with open(scene.path("hidden.c"), "w") as file:
        file.write(HIDDEN)
    output(["gcc", "-g", "-O1", "-Wl,--build-id", "hidden.c", "-o", "whole"], cwd=scene.directory)
    for name in ("debug", "index/deep"):
        os.makedirs(scene.path(name))
        output(["objcopy", "--only-keep-debug", scene.path("whole"), scene.path(name, "a.debug")])
    output(["strip", "-o", scene.path("hidden"), scene.path("whole")])
    for name, more in (("p", []), ("q", ["and more"])):
        output([heap_profile, "host", "--quiet", "-i", "1", "--no-symbols", "-o", scene.path(name), "--", scene.path("hidden"), *more])
    trace, other = scene.path("p", "raw-trace"), scene.path("q", "raw-trace")
    tools = {
        "report": [heap_profile, "report", "--stacks", trace], "report --json": [heap_profile, "report", "--json", trace],
        "query": [heap_profile, "query", trace, "select name || ' ' || line_number from stack_profile_symbol"],
        "diff": [heap_profile, "diff", "--json", trace, other], "leaks": [heap_profile, "leaks", trace],
        "check": [heap_profile, "check", "--max-leak", "hidden_function=10", trace],
        "collapsed": [TRACECONV, "collapsed", trace], "speedscope": [TRACECONV, "speedscope", trace],
        "memory_infra": [TRACECONV, "memory_infra", trace], "profile": [TRACECONV, "profile", "-o", scene.path("pprof"), trace],
        "export": [heap_profile, "query", trace, "--export", scene.path("database")],
    }
    files = {"profile": lambda: [scene.path("pprof", name) for name in os.listdir(scene.path("pprof"))],
             "export": lambda: [scene.path("database")]}
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("PERFETTO_", "DEBUGINFOD_"))}
    for environment, is_named in (({}, False), ({"PERFETTO_BINARY_PATH": scene.path("debug")}, True),
                                  ({"PERFETTO_BINARY_PATH": scene.path("index")}, False),
                                  ({"PERFETTO_BINARY_PATH": scene.path("index"), "PERFETTO_SYMBOLIZER_MODE": "index"}, True)):
        for name, command in tools.items():
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=100, env={**clean, **environment})
            text = done.stdout + b"".join(open(path, "rb").read() for path in files.get(name, list)())
            # What check looks for is in its report anyway: its verdict tells.
            found = done.returncode == 1 if name == "check" else b"hidden_function" in text
            check(done.stderr == b"" or name in ("check", "profile"), f"{name}: {done.stderr!r}")
            check(found == is_named, f"{name} with {environment}: {done.returncode} {done.stdout[-1500:]!r} {done.stderr!r}")
    if "view" in output([heap_profile, "--help"]).decode():
        with subprocess.Popen([heap_profile, "view", "--no-browser", trace], stdout=subprocess.PIPE, text=True,
                              env={**clean, "PERFETTO_BINARY_PATH": scene.path("debug")}) as process:
            address = address_of_view(process)
            with urllib.request.urlopen(address + "api/table?by=function&heap=0.0") as answer:
                check(b"hidden_function" in answer.read(), "view")
            process.terminate()
    # A trace that has lines keeps them if only names are found.
    output([TRACECONV, "bundle", "--symbol-paths", scene.path("debug"), trace, scene.path("bundle")])
    os.makedirs(scene.path("names"))
    output(["strip", "-g", "-o", scene.path("names/hidden"), scene.path("whole")])
    environment = {**clean, "PERFETTO_BINARY_PATH": scene.path("names")}
    for path, wanted in ((trace, b"hidden_function [hidden]"), (scene.path("bundle"), b"hidden_function hidden.c:3")):
        text = output([heap_profile, "report", "--stacks", path], env=environment)
        check(wanted in text, f"{path}: {text.decode()}")
    # Mistakes are warnings, once.
    for environment, words in (({"PERFETTO_SYMBOLIZER_MODE": "indx"}, "may be find or index"), ({"PERFETTO_BINARY_PATH": "/nowhere"}, "/nowhere"),
                               ({"PERFETTO_PROGUARD_MAP": "a=/nowhere"}, "/nowhere")):
        done = subprocess.run([heap_profile, "diff", trace, other], stdin=subprocess.DEVNULL, capture_output=True, timeout=100,
                              env={**clean, "PERFETTO_BINARY_PATH": scene.path("debug"), **environment})
        check(done.returncode == 0 and done.stderr.decode().count(words) == 1, f"{environment}: {done.returncode} {done.stderr!r}")


def test_dwz(scene):
    """dwz: two programs share parts in a separate file (.gnu_debugaltlink), or one program within its file."""
    need("dwz")
    path, build_id, addresses = share(scene, "common", "-m", scene.path("common"), "-M", scene.path("common"))
    os.unlink(scene.path("common"))
    os.mkfifo(scene.path("common"))
    _, report, _ = symbolize(scene.directory, [(path, build_id, addresses, 0)], "--no-cache")
    check(report[path]["with_names"] == len(addresses), f"a pipe in place of the common file: {report}")


def test_supplementary(scene):
    """The same in DWARF 5's form (.debug_sup); another file in its place is not used."""
    need("dwz")
    path, build_id, addresses = share(scene, "sup", "-5", "-m", scene.path("sup"), "-M", "sup")
    check(b".debug_sup" in output(["readelf", "-SW", path]), "dwz wrote no .debug_sup")
    plain, _, _ = symbolize(scene.directory, [(path, build_id, addresses, 0)])
    section = output(["readelf", "-SW", scene.path("sup")]).decode()
    checksum = int(re.search(r"\.debug_sup +PROGBITS +0+ (\w+)", section).group(1), 16) + 5  # after an empty name
    with open(scene.path("sup"), "rb+") as file:
        file.seek(checksum)
        first = file.read(1)[0]
        file.seek(checksum)
        file.write(bytes([first ^ 1]))
    other, _, _ = symbolize(scene.directory, [(path, build_id, addresses, 0)])
    check(other != plain, "another supplementary file was believed")


def share(scene, common, *options):
    paths = [scene.compile(f"dwz{index}", "c++", "g++", "-g", "-O2", f"-DNUMBER={index}") for index in range(2)]
    plain = [path + ".plain" for path in paths]
    for path, copy in zip(paths, plain):
        shutil.copy(path, copy)
    output(["dwz", *options, *paths])
    check(os.path.exists(scene.path(common)), "dwz made no common file")
    for path, copy in zip(paths, plain):
        compare(scene, path, reference=copy, places=False)
    return paths[0], build_id_of(paths[0]), code_addresses(plain[0])


def pack(path):
    """Compress a file's debug sections with zstd, which elfutils 0.188 does not know."""
    output(["objcopy", "--compress-debug-sections=zstd", path])
    check(b"ZSTD" in output(["readelf", "-tW", path]), f"{path}: no section is compressed with zstd")


def test_zstd(scene):
    """Sections compressed with zstd: of the program, of its debug file, of split units, of their package, and of what
    dwz shares."""
    need("objcopy")
    if b"zstd" not in output(["objcopy", "--help"]):
        skip("objcopy does not know zstd")
    need("dwz")
    for language, compiler in (("c", "gcc"), ("c++", "g++")):
        path = scene.compile("zstd", language, compiler, "-g", "-O2")
        plain = path + ".plain"
        shutil.copy(path, plain)
        pack(path)
        addresses = code_addresses(plain)
        compare(scene, path, reference=plain, addresses=addresses)
        debug = scene.path("zstd.debug")
        output(["objcopy", "--only-keep-debug", path, debug])
        output(["objcopy", "--strip-all", "--add-gnu-debuglink=" + debug, plain, path])
        compare(scene, path, reference=plain, addresses=addresses)
    with zipfile.ZipFile(scene.path("zstd.zip"), "w") as archive:  # read in place
        pack(shutil.copy(plain, scene.path("libzstd.so")))
        archive.write(scene.path("libzstd.so"), "lib/libzstd.so")
    inside = scene.path("zstd.zip") + "!lib/libzstd.so"
    symbols, report, _ = symbolize(scene.directory, [(inside, build_id_of(plain), addresses, 0)])
    check(report[inside]["source"] == "dwarf" and report[inside]["with_lines"] > 20, f"{report}")
    # Split units, then their package.
    for version, compiler in (("4", "gcc"), ("5", "clang-14")):
        need(compiler)
        packager = tool(*(("dwp",) if version == "4" else ("llvm-dwp", "llvm-dwp-14")))
        name = f"zstd-{version}"
        output([compiler, "-g", "-O2", "-gdwarf-" + version, "-gsplit-dwarf", "-c", "one.c", "-o", name + ".o"],
               cwd=scene.directory)
        output([compiler, name + ".o", "-Wl,--build-id", "-o", name], cwd=scene.directory)
        path, dwo = scene.path(name), scene.path(name + ".dwo")
        addresses, build_id = code_addresses(path), build_id_of(path)
        module = [(path, build_id, addresses, 0)]
        plain, report, _ = symbolize(scene.directory, module)
        check(sum(len(each) > 1 for each in plain[path, build_id].values()) > 5, f"{name}: {report}")
        output([packager, "-e", path, "-o", path + ".dwp"], cwd=scene.directory)
        os.rename(path + ".dwp", path + ".package")
        pack(dwo)
        pack(path)
        packed, report, words = symbolize(scene.directory, module)
        check(report[path]["missing_units"] == 0 and packed == plain, f"{name}.dwo: {report[path]} {words}")
        os.unlink(dwo)
        for method in ("zstd", "zlib"):
            shutil.copy(path + ".package", path + ".dwp")
            output(["objcopy", "--compress-debug-sections=" + method, path + ".dwp"])
            packed, report, words = symbolize(scene.directory, module, "--no-cache")
            check(report[path]["missing_units"] == 0 and packed == plain, f"{name}.dwp, {method}: {report[path]} {words}")
    # What two programs share.
    for form in (("common", "-m", scene.path("common"), "-M", scene.path("common")),
                 ("sup", "-5", "-m", scene.path("sup"), "-M", "sup")):
        path, build_id, addresses = share(scene, *form)
        plain, _, _ = symbolize(scene.directory, [(path, build_id, addresses, 0)])
        pack(path)
        pack(scene.path(form[0]))
        packed, report, _ = symbolize(scene.directory, [(path, build_id, addresses, 0)])
        check(packed == plain, f"{form[0]}: {report[path]}")


def test_compression_limits(scene):
    """Sections of an unknown method, damaged ones and ones that claim too much are named, and the symbol table serves."""
    path = scene.compile("damaged", "c", "gcc", "-g", "-O2")
    addresses, build_id = code_addresses(path), build_id_of(path)
    pack(path)
    table = output(["readelf", "-SW", path]).decode()
    at = int(re.search(r"\.debug_info +PROGBITS +0+ (\w+)", table).group(1), 16)
    with open(path, "rb") as file:
        whole = file.read()
    check(whole[at : at + 4] == b"\x02\0\0\0", "no header of zstd")
    for what, place, bytes_there in (
        ("a method that is not known", 0, struct.pack("<I", 77)),
        ("damaged", 24, b"\xff\xff\xff\xff"),
        ("damaged", 8, struct.pack("<Q", 1 << 40)),
        ("damaged", 8, struct.pack("<Q", 17)),
    ):
        with open(path, "wb") as file:
            file.write(whole[: at + place] + bytes_there + whole[at + place + len(bytes_there) :])
        symbols, report, words = symbolize(scene.directory, [(path, build_id, addresses, 0)])
        check(report[path]["with_names"] > 20 and report[path]["with_lines"] == 0, f"{what}: {report[path]}")
        check(what in words and ".debug" not in words, f"{what}: {words}")


def test_rust(scene):
    need("rustc")
    output(["rustc", "-g", "-O", "-Clink-arg=-Wl,--build-id", "three.rs", "-o", "three"], cwd=scene.directory)
    path = scene.path("three")
    addresses = code_addresses(path, step=11)
    compare(scene, path, addresses=addresses[:: len(addresses) // 20000 + 1], places=False)


# --- where files are found ---


def test_places(scene):
    """Files are searched in the documented order, base.apk! included; another build is skipped and reported."""
    whole = scene.compile("whole", "c", "gcc", "-g", "-O1")
    other = scene.compile("other", "c", "gcc", "-g", "-O2")
    build_id, addresses = build_id_of(whole), code_addresses(whole)[:20]
    mapping = "/system/lib/base.apk!foo.so"
    root = scene.path("root")
    hexadecimal = build_id.hex()
    order = [
        "system/lib/base.apk!foo.so", "system/lib/foo.so", "base.apk!foo.so", "foo.so",
        f".build-id/{hexadecimal[:2]}/{hexadecimal[2:]}.debug",
    ]
    environment = {"PERFETTO_BINARY_PATH": root}

    def found():
        _, report, words = symbolize(
            scene.directory, [(mapping, build_id, addresses, 0)], "--no-auto-symbol-paths", environment=environment)
        return report[mapping], words

    for place in order:
        os.makedirs(os.path.dirname(os.path.join(root, place)), exist_ok=True)
        shutil.copy(whole, os.path.join(root, place))
    for index, place in enumerate(order):
        check(found()[0]["file"] == os.path.join(root, place), f"not {place} but {found()[0]['file']}")
        shutil.copy(other, os.path.join(root, place))
    report, words = found()
    check(report["file"] is None and report["without"]["other_build"] == 20, f"{report}")
    check(report["other_build"] == os.path.join(root, order[0]), f"{report}")
    check("another build" in words and "PERFETTO_BINARY_PATH" in words, words)
    os.makedirs(os.path.join(root, "deep", "er"))
    shutil.copy(whole, os.path.join(root, "deep", "er", "whatever"))
    check(found()[0]["file"] is None, "found without the option to search")
    environment["PERFETTO_SYMBOLIZER_MODE"] = "index"
    check(found()[0]["file"] == os.path.join(root, "deep", "er", "whatever"), f"{found()[0]}")


def test_deleted(scene):
    """A program and a library that were deleted or replaced during the process's life get names."""
    with open(scene.path("hold.c"), "w") as file:
        file.write("#include <dlfcn.h>\n#include <unistd.h>\n"
                   "int main(int n, char **a) { return n < 2 || !dlopen(a[1], RTLD_NOW) || write(1, \"+\", 1) != 1 || pause(); }\n")
    output(["gcc", "-g", "-O1", "-Wl,--build-id", "hold.c", "-o", "hold"], cwd=scene.directory)
    output(["gcc", "-g", "-O2", "-fPIC", "-shared", "-Wl,--build-id", "one.c", "-o", "libone.so"], cwd=scene.directory)
    other = scene.compile("other", "c", "gcc", "-g", "-O1")
    paths = [scene.path("hold"), scene.path("libone.so")]
    modules = [(path, build_id_of(path), code_addresses(path), 0) for path in paths]
    plain, _, _ = symbolize(scene.directory, modules)
    child = subprocess.Popen([paths[0], paths[1]], stdout=subprocess.PIPE)
    try:
        check(child.stdout.read(1) == b"+", "the library was not loaded")
        os.unlink(paths[0])
        os.rename(other, paths[1])
        for suffix in ("", " (deleted)"):
            gone = [(path + suffix, *rest) for path, *rest in modules]
            symbols, report, words = symbolize(scene.directory, gone, processes=[child.pid])
            check(list(symbols.values()) == list(plain.values()), f"{suffix}: {report} {words}")
            check(all(f"/proc/{child.pid}/" in each["file"] for each in report.values()), f"{report}")
    finally:
        child.kill()
        child.wait()
    symbols, report, _ = symbolize(scene.directory, modules, processes=[child.pid, os.getpid()])
    check(symbols == {}, f"symbols of files that are gone: {report}")
    check(report[paths[0]]["without"]["no_file"] > 0 and report[paths[1]]["without"]["other_build"] > 0, f"{report}")


def test_vdso(scene):
    """The kernel's vDSO gets names if it is this machine's."""
    with open("/proc/self/maps") as maps:
        line = next((each for each in maps if each.endswith("[vdso]\n")), None)
    if line is None:
        print("this kernel maps no vdso")
        return
    start, end = (int(each, 16) for each in line.split()[0].split("-"))
    with open("/proc/self/mem", "rb") as memory:
        memory.seek(start)
        content = memory.read(end - start)
    path = scene.path("vdso.so")
    with open(path, "wb") as file:
        file.write(content)
    build_id, names = build_id_of(path), {}
    for entry in output(["nm", "-D", "--defined-only", path]).decode().splitlines():
        address, kind, name = entry.split()
        if kind in "TW":
            names.setdefault(int(address, 16), set()).add(name.split("@")[0])
    symbols, report, _ = symbolize(scene.directory, [("[vdso]", build_id, sorted(names), 0)])
    ours = symbols["[vdso]", build_id]
    check(set(ours) == set(names) and all(ours[a][0][0] in names[a] for a in names), f"{ours} {names} {report}")
    symbols, report, _ = symbolize(scene.directory, [("[vdso]", b"\2" * 20, sorted(names), 0)])
    check(symbols == {} and report["[vdso]"]["without"]["no_file"] == len(names), f"{report}")


def test_archives(scene):
    """Libraries stored in an .apk are found by each form of a mapping's path; compressed ones are not."""
    whole = scene.compile("whole", "c", "gcc", "-g", "-O2")
    other = scene.compile("other", "c", "gcc", "-g", "-O1")
    build_id, addresses = build_id_of(whole), code_addresses(whole)
    apk = scene.path("base.apk")
    plain = symbolize(scene.directory, [(whole, build_id, addresses, 0)])[0][whole, build_id]

    def pack(method, zip64=False, comment=b""):
        with zipfile.ZipFile(apk, "w", method) as archive:
            archive.comment = comment
            archive.writestr("AndroidManifest.xml", b"<x/>" * 50, zipfile.ZIP_DEFLATED)
            for name, path in (("lib/x86_64/libother.so", other), ("lib/x86_64/libfoo.so", whole)):
                member = zipfile.ZipInfo(name)
                member.compress_type = method
                member.extra = struct.pack("<HH", 0xD935, 4090) + bytes(4090)  # padded as by zipalign
                with archive.open(member, "w", force_zip64=zip64) as into, open(path, "rb") as file:
                    into.write(file.read())

    def ask(mapping, *options, **environment):
        symbols, report, _ = symbolize(
            scene.directory, [(mapping, build_id, addresses, 0)], *options, environment=environment)
        return symbols.get((mapping, build_id)), report[mapping]

    member = apk + "!lib/x86_64/libfoo.so"
    for zip64, comment in ((False, b""), (True, b"PK\5\6 in a comment")):
        pack(zipfile.ZIP_STORED, zip64, comment)
        for mapping in (member, apk + "!/lib/x86_64/libfoo.so", apk + "!libfoo.so", apk):
            symbols, report = ask(mapping)
            check(symbols == plain, f"{mapping}: {report}")
            check(report["file"].replace("!/", "!") == member, f"{mapping}: {report}")
    with open(apk, "rb") as file:
        content = file.read()
    os.rename(whole, scene.path("kept"))
    os.mkdir(scene.path("given"))
    shutil.copy(apk, scene.path("given"))
    for mode in ("find", "index"):
        symbols, report = ask("/data/app/base.apk!libfoo.so", "--no-auto-symbol-paths",
                              PERFETTO_BINARY_PATH=scene.path("given"), PERFETTO_SYMBOLIZER_MODE=mode)
        check(symbols == plain, f"{mode}: {report}")
    os.rename(scene.path("kept"), whole)
    pack(zipfile.ZIP_DEFLATED)
    symbols, report = ask(apk)
    check(symbols is None and report["without"]["no_file"] == len(addresses), f"{report}")
    for size in (*range(0, len(content), 2999), *range(len(content) - 100, len(content), 7)):
        with open(apk, "wb") as file:
            file.write(content[:size])
        check(ask(apk)[0] is None, f"symbols from an archive cut at {size}")


def test_reasons(scene):
    """Each address without a name has a reason, and the remedy is printed."""
    whole = scene.compile("whole", "c", "gcc", "-O1")
    build_id, addresses = build_id_of(whole), code_addresses(whole)
    stripped = scene.path("stripped")
    output(["objcopy", "--strip-all", whole, stripped])
    modules = [
        (whole, build_id, addresses + [0x123456789], 0),
        (stripped, build_id, addresses, 0),
        ("/nowhere/lib.so", b"\1" * 20, [1, 2, 3], 0),
        (scene.path("without"), b"", [4, 5], 0),
        ("[vdso]", b"\2" * 20, [6], 0),
    ]
    symbols, report, words = symbolize(scene.directory, modules)
    check(report[whole]["source"] == "symtab", f"{report[whole]}")
    check(report[whole]["with_names"] == len(addresses), f"{report[whole]}")
    check(report[whole]["without"]["outside"] == 1, f"{report[whole]}")
    check(report[stripped]["source"] == "dynsym", f"{report[stripped]}")
    check(report[stripped]["without"]["no_symbol"] == len(addresses), f"{report[stripped]}")
    check(report["/nowhere/lib.so"]["without"]["no_file"] == 3, f"{report}")
    check(report[scene.path("without")]["without"]["no_build_id"] == 2, f"{report}")
    check(report["[vdso]"]["without"]["no_file"] == 1, f"{report}")
    for remedy in ("the file that ran in PERFETTO_BINARY_PATH", "debug symbols", "-g"):
        check(remedy in words, f"{remedy} is not in {words!r}")
    check((scene.path("without"), b"") not in symbols, "symbols for a file without a build id")
    # An unreachable server makes no difference.
    servers = {"DEBUGINFOD_URLS": "http://127.0.0.1:1", "DEBUGINFOD_CACHE_PATH": scene.path("debuginfod")}
    again, _, _ = symbolize(scene.directory, modules, environment=servers)
    check(again == symbols, "an unreachable server has symbols")


def test_debugdata(scene):
    """Static functions get names from .gnu_debugdata, which Fedora's stripped programs have."""
    need("xz")
    whole = scene.compile("whole", "c", "gcc", "-O1")
    stripped, mini = scene.path("stripped"), scene.path("mini")
    output(["objcopy", "--strip-all", "--remove-section", ".comment", "-S", "--keep-symbol=checked", whole, mini])
    output(["xz", "-k", mini])
    output(["objcopy", "--strip-all", "--add-section", f".gnu_debugdata={mini}.xz", whole, stripped])
    address = next(int(line.split()[0], 16) for line in output(["nm", whole]).decode().splitlines()
                   if line.endswith(" checked"))
    symbols, _, _ = symbolize(scene.directory, [(stripped, build_id_of(whole), [address], 0)])
    check(symbols == {(stripped, build_id_of(whole)): {address: [("checked", "", 0)]}}, f"{symbols}")


def entries_of(path):
    """Return the (start, end) of all functions in a file's unwind table, by readelf."""
    # It ends with 1 if a debug file is missing.
    text = subprocess.run(["readelf", "--debug-dump=frames", path], capture_output=True, timeout=100).stdout.decode()
    return sorted((int(start, 16), int(end, 16)) for start, end in re.findall(r" FDE .*pc=(\w+)\.\.(\w+)", text))


def test_function_starts(scene):
    """Stripped files tell where functions without a name start; a report has a function once, whichever call allocated."""
    libraries = [line.split()[2] for line in output(["ldd", "/bin/ls"]).decode().splitlines() if " => /" in line]
    for path in ["/bin/ls", "/usr/bin/env", *libraries]:
        entries, base, starts = entries_of(path), bias_of(path), {}
        gaps = [end for (_, end), (start, _) in zip(entries, entries[1:]) if end < start]
        addresses = sorted({at for start, end in entries[::7] for at in (start, (start + end) // 2, end - 1) if at >= base} |
                           set(gaps[::7]))
        for bias in {0, base}:
            moved = [at - bias for at in addresses] if bias == 0 and base != 0 else addresses
            shift = base if moved is not addresses else 0
            symbols, _, _ = symbolize(scene.directory, [(path, build_id_of(path), moved, bias)])
            starts.clear()
            decode_symbols(written_symbols(scene), starts)
            named = symbols.get((path, build_id_of(path)), {})
            wanted = {}
            for at in moved:
                covering = [start for start, end in entries if start <= at + shift < end]
                if at not in named and covering:
                    wanted[at] = covering[-1] - shift
            # A debug file, which libc's symbols may come from, has no code.
            check(starts == wanted or (not starts and "libc.so" in path), f"{path}: {len(starts)} starts, {len(wanted)} wanted, "
                                    f"{sorted(starts.items() ^ wanted.items())[:6]}")
            check(path not in ("/bin/ls", "/usr/bin/env") or len(starts) > 20, f"{path}: {len(starts)} starts")
    source, program = scene.path("nameless.c"), scene.path("nameless")
    with open(source, "w") as file:
        file.write("""
            #include <stdlib.h>
            void *volatile kept;
            __attribute__((noinline)) static void twice(int n) { kept = malloc(n); kept = malloc(n); __asm__(""); }
            __attribute__((noinline)) static void once(int n) { kept = malloc(n); __asm__(""); }
            int main(void) { twice(1000); once(1000); return 0; }
            """)
    output(["gcc", "-O1", "-o", program, source])
    names = {parts[2]: int(parts[0], 16) for parts in map(str.split, output(["nm", program]).decode().splitlines()) if len(parts) == 3}
    output(["strip", program])
    output([os.path.join(BUILD, "heap_profile"), "host", "--quiet", "-i", "1", "-o", scene.path("stripped"), "--", program])
    report = lambda *options: output([os.path.join(BUILD, "heap_profile"), "report", *options, scene.path("stripped")]).decode()
    table = report("--view", "alloc_space").split("Bytes ever allocated")[1].split("\n\n")[0]
    rows = [line for line in table.splitlines() if " @ nameless < " in line]
    check(len(rows) == 2 and "2.00 kB" in rows[0] and f"{names['twice']:#x} @ nameless < {names['main']:#x} @ nameless" in rows[0] and
          "1.00 kB" in rows[1] and f"{names['once']:#x} @ nameless < " in rows[1], f"{rows}")
    frames = [frame for heap in json.loads(report("--json"))["heaps"] for site in heap["callsites"] for frame in site["frames"]]
    check({frame["function_start"] for frame in frames if frame["mapping"] == program} >= {names["twice"], names["once"], names["main"]},
          f"{frames}")


def test_load_bias(scene):
    """Traces without a load bias have file offsets: the file's own bias corrects them."""
    need("lld")
    path = scene.compile("biased", "c", "clang-14", "-g", "-O1", "-fuse-ld=lld")
    bias = bias_of(path)
    check(bias != 0, "lld gives no bias")
    addresses, build_id = code_addresses(path), build_id_of(path)
    plain, _, _ = symbolize(scene.directory, [(path, build_id, addresses, bias)])
    moved, _, _ = symbolize(scene.directory, [(path, build_id, [a - bias for a in addresses], 0)])
    check({a - bias: f for a, f in plain[path, build_id].items()} == moved[path, build_id], "not the same")
    # Linked for a fixed address: programs that are not position-independent, and prelinked libraries.
    for name, flags in (("fixed", ("-no-pie", "-fno-pie")), ("high", ("-no-pie", "-fno-pie", "-Wl,-Ttext-segment=0x7000000")),
                        ("prelinked.so", ("-shared", "-fPIC", "-Wl,-Ttext-segment=0x41000000"))):
        path = scene.compile(name, "c", "gcc", "-g", "-O2", *flags)
        check(bias_of(path) >= 0x400000, f"{name}: {bias_of(path):#x}")
        compare(scene, path)
        build_id, addresses, bias = build_id_of(path), code_addresses(path), bias_of(path)
        plain, _, _ = symbolize(scene.directory, [(path, build_id, addresses, bias)])
        moved, _, _ = symbolize(scene.directory, [(path, build_id, [a - bias for a in addresses], 0)])
        check({a - bias: f for a, f in plain[path, build_id].items()} == moved[path, build_id], f"{name}: not the same")


def test_removed_option(scene):
    """--symbolizer is an unknown option, and the message says to leave it out."""
    for options in (["--symbolizer", "llvm"], ["--symbolizer=llvm"], ["--symbolizer", "own"], ["--symbolizer"]):
        done = run([TRACECONV, "symbolize", *options, scene.path("trace"), scene.path("out")])
        said = done.stderr.decode()
        check(done.status == 2 and "no option '--symbolizer'; " in said and "leave the option out" in said,
              f"{options}: {done.status} {said}")


def test_cache(scene):
    """The cache returns the same names without another read of the file, also for a part of the addresses or
    together with new ones; a cache of another file, a damaged one or a stranger's is not used."""
    path = scene.compile("whole", "c++", "g++", "-g", "-O2")
    build_id, addresses = build_id_of(path), code_addresses(path)
    kept = scene.path("kept")
    os.mkdir(kept)

    def ask(some=addresses, *options, **environment):
        symbols, report, _ = symbolize(scene.directory, [(path, build_id, some, 0)], *options,
                                       environment={"XDG_CACHE_HOME": kept, **environment})
        return symbols.get((path, build_id), {}), report[path]

    def files():
        return sorted(os.path.join(kept, "heapprofd", name) for name in os.listdir(os.path.join(kept, "heapprofd")))

    plain = ask(addresses, "--no-cache")
    check(os.listdir(kept) == [], "--no-cache wrote")
    written = [written_symbols(scene)]
    half = ask(addresses[::2])
    check(half[0] == {a: plain[0][a] for a in addresses[::2] if a in plain[0]}, "the first half differs")
    for _ in range(3):
        check(ask() == plain, "not the same answers")
        written.append(written_symbols(scene))
    check(len(set(written)) == 1, "the order of what is written depends on what is kept")
    check(len(files()) == 1 and os.stat(files()[0]).st_mode & 0o777 == 0o600, f"{files()}")
    with open(files()[0], "rb") as file:
        content = file.read()
    names = [name for frames in plain[0].values() for name, _, _ in frames]
    other = names[0].replace("i", "j", 1) if "i" in names[0] else names[0][:-1] + "?"
    check(content.count(names[0].encode()) > 0, "names are not kept")
    seen = os.stat(path)
    with open(path, "rb+") as file:  # the file is not read again
        lines = output(["readelf", "-SW", path]).decode()
        offset, size = (int(each, 16) for each in re.search(r"\.debug_line +PROGBITS +\w+ (\w+) (\w+)", lines).groups())
        file.seek(offset)
        line_programs = file.read(size)
        file.seek(offset)
        file.write(bytes(size))
    os.utime(path, ns=(seen.st_atime_ns, seen.st_mtime_ns))
    check(ask() == plain, "the file was read again")
    check(ask(addresses, "--no-cache") != plain, "the test does not change the file")
    os.utime(path)
    check(ask() != plain, "another file's names were used")
    with open(path, "rb+") as file:
        file.seek(offset)
        file.write(line_programs)
    os.utime(path, ns=(seen.st_atime_ns, seen.st_mtime_ns))
    cached = [each for each in files() if open(each, "rb").read() == content][0]
    for damage in (content[:-1], content[: len(content) // 2], b"", content.replace(names[0].encode(), other.encode()),
                   content + b"x", bytes(len(content)), content[:60] + b"\xff" * 8 + content[68:]):
        with open(cached, "wb") as file:
            file.write(damage)
        check(ask() == plain, f"damage of {len(damage)} bytes was believed")
        check(open(cached, "rb").read() == content or ask() == plain, "not repaired")
    os.unlink(cached)
    os.symlink("/etc/passwd", cached)
    check(ask() == plain, "a link")
    shutil.rmtree(kept)
    check(ask() == plain and files() != [], "a directory that is missing is not created")
    shutil.rmtree(kept)
    check(ask(addresses, XDG_CACHE_HOME="", HOME="/nonexistent") == plain, "without a home")
    os.makedirs(os.path.join(kept, "heapprofd"))
    os.chmod(os.path.join(kept, "heapprofd"), 0o777)
    check(ask() == plain and files() == [], "the cache of a directory that others may write to was used")
    os.chmod(os.path.join(kept, "heapprofd"), 0o700)
    trace = scene.path("many")
    with open(trace, "wb") as file:
        file.write(trace_of([(path, build_id, addresses, 0)]))
    runs = [subprocess.Popen([TRACECONV, "symbolize", "-q", trace, f"{trace}{index}"],
                             env={**os.environ, "XDG_CACHE_HOME": kept}) for index in range(8)]
    check([run.wait(timeout=180) for run in runs] == [0] * 8, "at once")
    for index in range(8):
        with open(f"{trace}{index}", "rb") as file:
            check(decode_symbols(file.read())[path, build_id] == plain[0], "at once: not the same")
    check(len(files()) == 1 and ask() == plain, f"{files()}")


def test_usage(scene):
    """The trace is not overwritten, wrong usage is reported, and unwritable output is an error."""
    path = scene.path("trace")
    with open(path, "wb") as file:
        file.write(trace_of([("/nowhere", b"\1" * 20, [1], 0)]))
    size = os.path.getsize(path)
    for arguments, status, word in (
        ([path, path], 1, "the trace itself"),
        ([path, scene.path("no", "such")], 1, "cannot be written"),
        ([path, "/dev/null", "more"], 2, "'more' is one argument too many"),
        (["--symbols", path], 2, "no option"),
        ([scene.path("absent"), "/dev/null"], 1, "absent"),
        (["--json", scene.path("no", "such"), path, "/dev/null"], 1, "cannot be written"),
    ):
        done = run([TRACECONV, "symbolize", *arguments])
        check(done.status == status and word in str(done.stderr), f"{arguments}: {done.status} {done.stderr!r}")
    check(os.path.getsize(path) == size, "the trace was overwritten")
    for unpack in ("gzip", "zstd"):
        need(unpack)
        packed = output([unpack, "-c", path])
        with open(path + ".packed", "wb") as file:
            file.write(packed)
        _ = output([TRACECONV, "symbolize", path + ".packed", scene.path("out")])


INLINED = """
#include <stdlib.h>
static inline __attribute__((always_inline)) char *grab(size_t size) {
    char *memory = malloc(size);
    if (memory != NULL) memory[0] = 1;
    return memory;
}
static inline __attribute__((always_inline)) char *keep(size_t size) { return grab(size + 1); }
static __attribute__((noinline)) void fill(void) { for (size_t i = 0; i < 10; i++) if (keep(i) == NULL) abort(); }
int main(void) { fill(); return grab(5) == NULL; }
"""


def test_appended(scene):
    """In a trace with appended symbols, inlined functions are frames in reports and in pprof."""
    need("go")
    with open(scene.path("inlined.c"), "w") as file:
        file.write(INLINED)
    program = scene.path("inlined")
    output(["gcc", "-O2", "-g", "-o", program, scene.path("inlined.c")])
    output([os.path.join(BUILD, "heap_profile"), "host", "--quiet", "-i", "1", "-o", scene.path("p"), "--", program])
    output([TRACECONV, "symbolize", scene.path("p", "raw-trace"), scene.path("symbols")])
    with open(scene.path("whole"), "wb") as whole:
        for part in (scene.path("p", "raw-trace"), scene.path("symbols")):
            with open(part, "rb") as file:
                whole.write(file.read())
    report = json.loads(output([os.path.join(BUILD, "heap_profile"), "report", "--json", scene.path("whole")]))
    stacks = {
        tuple(frame["name"] for frame in site["frames"])[:4]: (site["alloc_objects"], site["alloc_space"])
        for heap in report["heaps"] for site in heap["callsites"]
    }
    wanted = {("grab", "keep", "fill", "main"): (10, 55), ("grab", "main", "__libc_start_call_main", "__libc_start_main"): (1, 5)}
    for stack, figures in wanted.items():
        got = stacks.get(stack)
        check(got is not None and (figure_of(got[0]), figure_of(got[1])) == figures, f"{stack}: {got}, in {list(stacks)}")
    output([TRACECONV, "profile", "-o", scene.path("pprof"), scene.path("whole")])
    files = [scene.path("pprof", name) for name in os.listdir(scene.path("pprof"))]
    listed = output(["go", "tool", "pprof", "-traces", "-sample_index=alloc_objects", *files]).decode()
    check(re.search(r"10\s+grab\s+keep\s+fill\s+main", listed) is not None, listed)


TEMPLATE = """
#include <vector>
namespace shop { template <typename T> struct basket {
    std::vector<T> all;
    __attribute__((noinline)) void fill(int count, const T &one) { for (int i = 0; i < count; i++) all.push_back(one); }
}; }
int main(int argc, char **) { shop::basket<long> one; one.fill(100 * argc, 7); return (int)one.all.size() & 0; }
"""


def test_demangling(scene):
    """Full, simple and mangled names are available in reports and exports."""
    with open(scene.path("basket.cc"), "w") as file:
        file.write(TEMPLATE)
    need("g++")
    program = scene.path("basket")
    output(["g++", "-O1", "-g", "-o", program, scene.path("basket.cc")])
    output([os.path.join(BUILD, "heap_profile"), "host", "--quiet", "-i", "1", "-o", scene.path("p"), "--", program])
    trace = scene.path("p", "raw-trace")
    for mode, name in (
        ((), "shop::basket<long>::fill(int, long const&)"), (("--demangle", "full"), "shop::basket<long>::fill(int, long const&)"),
        (("--demangle", "simple"), "shop::basket::fill"), (("--demangle=none",), "_ZN4shop6basketIlE4fillEiRKl"),
    ):
        report = json.loads(output([os.path.join(BUILD, "heap_profile"), "report", "--json", *mode, trace]))
        names = {frame["name"] for heap in report["heaps"] for site in heap["callsites"] for frame in site["frames"]}
        check(name in names, f"{mode}: {names}")
        lines = output([TRACECONV, "collapsed", "--view", "alloc_space", *mode, trace]).decode()
        check(f"main;{name};" in lines, f"{mode}: {lines}")
        output([TRACECONV, "profile", *mode, "-o", scene.path("pprof"), trace])
        files = [scene.path("pprof", each) for each in os.listdir(scene.path("pprof"))]
        check(any(name.encode() in open(each, "rb").read() for each in files), f"{mode}: not in pprof")
    done = run([TRACECONV, "collapsed", "--demangle", "some", trace])
    check(done.status == 2 and "full, simple or none" in str(done.stderr), f"{done.stderr!r}")


def figure_of(value):
    return value["estimate"] if isinstance(value, dict) else value


if __name__ == "__main__":
    os.environ["XDG_CACHE_HOME"] = "/nonexistent"  # no case finds the cache of another
    with contextlib.closing(Scene()) as made_scene:
        main(made_scene)
