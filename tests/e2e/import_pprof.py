#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""pprof files of others have the figures and the frames that `go tool pprof` shows.

    import_pprof.py CASE
"""

import gzip
import json
import os
import re
import tempfile

from harness import TOOL, TRACECONV, check, main, need, skip
from import_programs import go_environment, run, write as write_file
from pprof_bytes import Pprof, of_addresses

STACK = ["leaf", "inner", "caller", "main"]
CODE = """int inner(int x) { return x + 1; }
int outer(int x) { return inner(x) + 1; }
int main(void) { return outer(1); }
"""


def write(directory, name, data):
    return write_file(directory, name, data if isinstance(data, (bytes, str)) else data.bytes())


def report(path):
    done = run(TOOL, "report", "--json", path)
    check(done.returncode == 0, f"report {os.path.basename(path)}: {done.stderr}")
    return json.loads(done.stdout)


def total(path, view="space"):
    return report(path)["heaps"][0]["total"][view]["estimate"]


def names(path):
    """Return the stacks of a file, the innermost function first."""
    done = run(TRACECONV, "collapsed", path)
    check(done.returncode == 0, f"collapsed {os.path.basename(path)}: {done.stderr}")
    return sorted(line.rsplit(" ", 1)[0].split(";")[::-1] for line in done.stdout.splitlines())


def of_go(directory, path, index, unit="B"):
    """Return the total and the functions with their own figures, as go tool pprof has them."""
    need("go")
    environment = go_environment(directory)
    done = run("go", "tool", "pprof", "-top", "-symbolize=none", "-nodefraction=0", "-edgefraction=0", "-unit=" + unit,
               "-sample_index=" + index, path, env=environment)
    whole = re.search(r"of (-?[\d.]+)\w* total", done.stdout)
    check(whole is not None, f"go tool pprof prints no total: {done.stdout}{done.stderr}")
    rows = dict((name, float(value)) for value, name in
                re.findall(r"^ *(-?[\d.]+)\w* +-?[\d.]+% +-?[\d.]+% +-?[\d.]+\w* +-?[\d.]+% +(.*)$", done.stdout, re.M))
    return float(whole.group(1)), {name: value for name, value in rows.items() if value}


def test_units(directory):
    """Values and the interval are in the units that the file names."""
    for unit, factor in (("bytes", 1), ("B", 1), ("kilobytes", 1 << 10), ("kb", 1 << 10), ("MB", 1 << 20),
                         ("megabyte", 1 << 20), ("GB", 1 << 30)):
        file = Pprof([("objects", "count"), ("space", unit)], 4, "kilobytes").sample(STACK, [3, 7])
        path = write(directory, "units.pb", file)
        check(total(path) == 7 * factor, f"{unit}: {total(path)} bytes")
        check(total(path) == of_go(directory, path, "space")[0], f"{unit}: go tool pprof has another total")
        heap = report(path)["heaps"][0]
        check(heap["interval_bytes"] == 4096 and total(path, "objects") == 3, f"{unit}: {heap['interval_bytes']}")


def test_drop(directory):
    """Functions that the file drops go, with what they call, unless no other function called them."""
    drop = r"malloc|tcmalloc::.*|operator new(\[\])?|(?:__)?posix_memalign|x\d|runtime\..*"
    stacks = [
        (["f1", "tcmalloc::allocate(unsigned long)", "operator new[](unsigned long)", "caller", "main"], ["caller", "main"]),
        (["malloc", "x7", "main"], ["main"]),
        (["keep", "malloc", "runtime.panic", "main"], ["keep", "malloc", "runtime.panic", "main"]),
        ([("a", "malloc", "outer"), "main"], ["outer", "main"]),
        (["malloc"], ["malloc"]),
        (["g(int)", "mallocs", "main"], ["g(int)", "mallocs", "main"]),
    ]
    file = Pprof([("space", "bytes")]).number(7, drop).number(8, r"runtime\.panic|malloc_is_kept")
    for i, (stack, _) in enumerate(stacks):
        file.sample(stack, [1 << i])
    path = write(directory, "drop.pb", file)
    expected = sorted(list(kept) for _, kept in stacks)
    # Below the function that is kept, malloc is dropped.
    expected = sorted(["runtime.panic", "main"] if "keep" in kept else kept for kept in expected)
    check(names(path) == expected, f"{names(path)}, not {expected}")
    _, rows = of_go(directory, path, "space")
    ours = {}
    for line in run(TRACECONV, "collapsed", path).stdout.splitlines():
        stack, value = line.rsplit(" ", 1)
        leaf = re.sub(r"\(.*", "", stack.split(";")[-1])
        ours[leaf] = ours.get(leaf, 0) + int(value)
    theirs = {re.sub(r" ?\(.*", "", name): value for name, value in rows.items()}
    check(ours == theirs, f"own figures {ours}, go tool pprof has {theirs}")
    bad = Pprof([("space", "bytes")]).number(7, "a{1000}{1000}").sample(STACK, [1])
    said = report(write(directory, "bad.pb", bad))
    check("drop_frames" in said["warning"] and names(os.path.join(directory, "bad.pb")) == [STACK],
          f"an expression that costs too much: {said['warning']!r}")


def test_difference(directory):
    """Values below 0 are shown as they are."""
    file = Pprof([("objects", "count"), ("space", "bytes")], 524288)
    file.sample(["shrank", "main"], [-5, -5000]).sample(["grew", "main"], [2, 3000])
    path = write(directory, "difference.pb", file)
    said = report(path)
    heap = said["heaps"][0]
    check("1 of 2 callsites have negative values" in said["warning"], said["warning"])
    check(total(path) == -2000 and total(path, "objects") == -3, f"{heap['total']}")
    figures = sorted(site["space"]["estimate"] for site in heap["callsites"])
    check(figures == [-5000, 3000] and heap["total"]["space"]["low95"] is None, f"{heap['callsites']}")
    _, rows = of_go(directory, path, "space")
    check(rows == {"shrank": -5000, "grew": 3000}, f"go tool pprof has {rows}")
    text = run(TOOL, "report", path).stdout
    check(re.search(r"−5.00 kB +−62\.5% .*−5 .*shrank", text) is not None
          and text.index("shrank") < text.index("grew"), text)
    again = os.path.join(directory, "again")
    check(run(TRACECONV, "profile", "--output", again, path).returncode == 0, "it is not converted")
    _, rows = of_go(directory, os.path.join(again, os.listdir(again)[0]), "space")
    check(rows == {"shrank": -5000, "grew": 3000}, f"converted, it has {rows}")


def test_counts_alone(directory):
    """A file that only counts allocations has no bytes."""
    path = write(directory, "counts.pb", Pprof([("alloc_objects", "count")], 512).sample(STACK, [5]))
    heap = report(path)["heaps"][0]
    check(heap["untold"] == ["space", "objects", "alloc_space", "max"], f"{heap['untold']}")
    figures = heap["total"]
    check(figures["alloc_objects"] == {"estimate": 5, "low95": None, "high95": None}
          and figures["alloc_space"]["estimate"] is None and figures["space"]["estimate"] is None, f"{figures}")
    text = run(TOOL, "report", path).stdout
    check("5 allocations ± unknown; their bytes are not in the file" in text and "exact" not in text
          and " 0 B" not in text, text)
    done = run(TOOL, "query", "--json", path, "select alloc_size as bytes, alloc_count as count from hp_total")
    check(json.loads(done.stdout or "[]") == [{"bytes": None, "count": 5}], f"SQL has {done.stdout}{done.stderr}")


def test_bytes_alone(directory):
    """Bytes of an unknown number of blocks have a margin, that of the smallest blocks, and not 0."""
    path = write(directory, "bytes.pb", Pprof([("inuse_space", "bytes")], 524288).sample(STACK, [50000000]))
    heap = report(path)["heaps"][0]
    live = heap["total"]["space"]
    margin = 1.96 * (50000000 * 524288) ** 0.5
    check(live["estimate"] == 50000000, f"{live}")
    check(live["low95"] < 50000000 - margin / 2 and live["high95"] > 50000000 + margin / 2, f"{live}, not ± {margin:.0f}")
    check(heap["callsites"][0]["space"]["high95"] > 50000000 + margin / 2, f"{heap['callsites'][0]['space']}")


def test_names(directory):
    """The types of other profilers are those of a heap."""
    files = [
        # ddprof and Datadog's others
        ([("alloc-samples", "count"), ("alloc-space", "bytes"), ("inuse-objects", "count"), ("inuse-space", "bytes")],
         [5, 1000, 2, 400], {"alloc_objects": 5, "alloc_space": 1000, "objects": 2, "space": 400}),
        ([("alloc-samples", "count"), ("alloc-size", "bytes")], [5, 1000], {"alloc_objects": 5, "alloc_space": 1000}),
        ([("heap-live-samples", "count"), ("heap-live-size", "bytes")], [5, 1000], {"objects": 5, "space": 1000}),
        ([("cpu", "nanoseconds"), ("heap-space", "bytes")], [9, 1000], {"space": 1000}),
        # .NET of Pyroscope
        ([("cpu", "nanoseconds"), ("alloc_samples", "count"), ("alloc_size", "bytes")], [9, 5, 1000],
         {"alloc_objects": 5, "alloc_space": 1000}),
        # Java
        ([("alloc_in_new_tlab_objects", "count"), ("alloc_in_new_tlab_bytes", "bytes"),
          ("alloc_outside_tlab_objects", "count"), ("alloc_outside_tlab_bytes", "bytes")], [5, 1000, 1, 70],
         {"alloc_objects": 6, "alloc_space": 1070}),
        # tcmalloc: lifetimes, of which the last are of what was not freed
        ([("allocated_objects", "count"), ("allocated_space", "bytes"), ("deallocated_objects", "count"),
          ("deallocated_space", "bytes"), ("censored_allocated_objects", "count"), ("censored_allocated_space", "bytes")],
         [5, 1000, 0, 0, 2, 400], {"alloc_objects": 7, "alloc_space": 1400, "objects": 2, "space": 400}),
        # one type only
        ([("inuse_space", "bytes")], [400], {"space": 400}),
        ([("alloc_space", "bytes")], [400], {"alloc_space": 400}),
        # unknown, but in bytes
        ([("gpu-memory", "kilobytes")], [4], {"space": 4096}),
        ([("samples", "count"), ("jvm allocations", "bytes")], [4, 77], {"alloc_space": 77}),
    ]
    for types, values, expected in files:
        path = write(directory, "names.pb", Pprof(types).sample(STACK, values))
        heap = report(path)["heaps"][0]
        found = {view: heap["total"][view]["estimate"] for view in ("alloc_objects", "alloc_space", "objects", "space")}
        check({view: value for view, value in found.items() if value is not None} == expected, f"{types}: {found}")
    # The stacks that freed are not those that allocated.
    lifetimes = files[6][0]
    path = write(directory, "lifetimes.pb",
                 Pprof(lifetimes).sample(STACK, [5, 1000, 0, 0, 0, 0]).sample(["free", "main"], [0, 0, 5, 1000, 0, 0]))
    check(names(path) == [] and "free < main" not in run(TOOL, "report", path).stdout,
          "a stack that freed is shown")
    # tcmalloc's profile of allocations is told by its default.
    path = write(directory, "allocations.pb",
                 Pprof([("objects", "count"), ("space", "bytes")]).number(10, 1000000000).number(14, "objects")
                 .sample(STACK, [5, 1000]))
    heap = report(path)["heaps"][0]
    check(heap["total"]["alloc_space"]["estimate"] == 1000 and heap["untold"] == ["space", "objects", "max"],
          f"{heap['total']}")
    done = run(TOOL, "report", write(directory, "cpu.pb", Pprof([("samples", "count"), ("cpu", "nanoseconds")])
                                     .sample(STACK, [1, 2])))
    check(done.returncode == 1 and "its sample types are samples, cpu" in done.stderr, done.stderr)


def test_packings(directory):
    """What is packed twice or with LZ4 is unpacked; three times is not."""
    plain = Pprof([("space", "bytes")]).sample(STACK, [400]).number(7, "x" * 300000).bytes()
    path = write(directory, "plain.pb", plain)
    once, twice = gzip.compress(plain), gzip.compress(gzip.compress(plain))
    for name, data in (("gzip", once), ("gzip in gzip", twice)):
        check(total(write(directory, "packed.pb", data)) == 400, f"{name} is not unpacked")
    done = run(TOOL, "report", write(directory, "packed.pb", gzip.compress(twice)))
    check(done.returncode == 1 and "unknown format" in done.stderr, done.stderr)
    if run("sh", "-c", "command -v lz4").returncode != 0:
        skip("lz4 is not installed")
    packed = os.path.join(directory, "packed.lz4")
    options = [["-1"], ["-9", "-BD"], ["-B4", "-BX"], ["--no-frame-crc"], ["-B4D", "--content-size"]]
    for option in options:
        done = run("lz4", "-q", "-f", *option, path, packed)
        check(done.returncode == 0 and total(packed) == 400, f"lz4 {option}: {done.stderr}")
    with open(packed, "rb") as file:
        data = file.read()
    check(total(write(directory, "two", gzip.compress(data))) == 400, "LZ4 in gzip is not unpacked")
    for cut, words in ((data[:-9], "cut off"), (data[:30] + b"\xff" + data[31:], "damaged"),
                       (data[:5] + b"\x70" + data[6:], "LZ4")):
        done = run(TOOL, "report", write(directory, "bad.lz4", cut))
        check(done.returncode == 1 and "LZ4" in done.stderr, f"{words}: {done.stderr}")


class Program:
    """A program of known functions, and where its segments are."""

    def __init__(self, directory, *options):
        source, self.path = write(directory, "a.c", CODE), os.path.join(directory, "a")
        done = run("cc", "-g", "-O0", *options, source, "-o", self.path)
        check(done.returncode == 0, f"cannot build: {done.stderr}")
        listing = run("nm", self.path).stdout
        self.address = {name: int(value, 16) + 1 for value, name in re.findall(r"^(\w+) [Tt] (\w+)$", listing, re.M)}
        header = run("readelf", "-lnW", self.path).stdout
        loads = [(int(offset, 16), int(virtual, 16), int(size, 16), "E" in flags) for offset, virtual, size, flags in
                 re.findall(r"LOAD +(0x\w+) (0x\w+) 0x\w+ 0x\w+ (0x\w+) (.{3}) 0x", header)]
        found = re.search(r"Build ID: (\w+)", header)
        self.build_id = found.group(1) if found else ""
        self.base = loads[0][1] & ~0xfff
        self.whole = (loads[-1][1] + loads[-1][2] + 0xfff & ~0xfff) - self.base
        (self.offset, self.virtual, size, _), = [load for load in loads if load[3]]
        self.differ = len({virtual - offset for offset, virtual, _, _ in loads}) > 1
        first = self.virtual & ~0xfff
        self.code = (first - self.base, (self.virtual + size + 0xfff & ~0xfff) - self.base, self.offset & ~0xfff)

    def mapping(self, kind, name=None, build_id=""):
        """Return a mapping and what to add to an address of the file for one in it."""
        name, load = self.path if name is None else name, 0x7f0000001000 if self.base == 0 else self.base
        if kind == "zero":
            return (0, 0, 0, name, build_id), 0
        if kind == "all":
            return (0, (1 << 64) - 1, 0, name, build_id), 0
        if kind == "whole":
            return (load, load + self.whole, 0, name, build_id), load - self.base
        start, end, offset = self.code
        return (load + start, load + end, offset, name, build_id), load - self.base

    def file(self, kind, name=None, build_id=""):
        mapping, more = self.mapping(kind, name, build_id)
        stack = [(0, self.address[function] + more) for function in ("inner", "outer", "main")]
        return of_addresses([mapping], [(stack, [400])])


NAMED = ["inner", "outer", "main"]


def plain_names(path, **environment):
    done = run(TRACECONV, "collapsed", path, env=dict(os.environ, **environment))
    check(done.returncode == 0, f"collapsed {os.path.basename(path)}: {done.stderr}")
    return [re.sub(r" \[[^]]*\]", "", frame) for frame in done.stdout.rsplit(" ", 1)[0].split(";")[::-1]]


def test_locations(directory):
    """A location without a line gets the names that the present file of its path has, however it was linked and
    mapped: in one mapping for its code, in one for all of it, or as addresses in the file."""
    layouts = [("-fuse-ld=bfd",), ("-fuse-ld=bfd", "-Wl,-z,noseparate-code"), ("-fuse-ld=bfd", "-no-pie")]
    if run("sh", "-c", "command -v ld.lld").returncode == 0:
        layouts += [("-fuse-ld=lld",), ("-fuse-ld=lld", "-no-pie"), ("-fuse-ld=lld", "-Wl,-z,separate-code")]
    for layout in layouts:
        program = Program(directory, *layout)
        check(program.differ or "lld" not in layout[0], f"{layout}: all segments are at the same distance")
        for kind in ("code", "whole", "zero", "all"):
            path = write(directory, "raw.pb", program.file(kind))
            check(plain_names(path) == NAMED, f"{layout}, {kind}: {plain_names(path)}")
    # go tool pprof says the same of addresses in the file.
    need("go")
    environment = go_environment(directory)
    for kind in ("zero", "all"):
        path = write(directory, "raw.pb", program.file(kind))
        done = run("go", "tool", "pprof", "-traces", "-symbolize=local", path, env=environment)
        theirs = re.findall(r"^ +(?:400B +)?(\w+)$", done.stdout, re.M)
        check(theirs == NAMED, f"go tool pprof: {done.stdout}{done.stderr}")


def test_debug_file(directory):
    """A debug file gives names, though its segments have no offsets of their own."""
    for layout in (("-fuse-ld=bfd",), ("-fuse-ld=bfd", "-no-pie"), ("-fuse-ld=bfd", "-Wl,-z,noseparate-code")):
        program = Program(directory, "-Wl,--build-id=sha1", *layout)
        debug = os.path.join(directory, "debug")
        place = os.path.join(debug, ".build-id", program.build_id[:2])
        os.makedirs(place, exist_ok=True)
        done = run("objcopy", "--only-keep-debug", program.path, os.path.join(place, program.build_id[2:] + ".debug"))
        check(done.returncode == 0, done.stderr)
        os.unlink(program.path)
        for kind in ("code", "whole", "zero", "all"):
            path = write(directory, "raw.pb", program.file(kind, build_id=program.build_id))
            check(plain_names(path, PERFETTO_BINARY_PATH=debug) == NAMED,
                  f"{layout}, {kind}: {plain_names(path, PERFETTO_BINARY_PATH=debug)}")


def test_places(directory):
    """Files are looked for as PERFETTO_BINARY_PATH and PERFETTO_SYMBOLIZER_MODE say, by build id if there is one."""
    program = Program(directory, "-Wl,--build-id=sha1")
    deep = os.path.join(directory, "deep", "er")
    os.makedirs(deep)
    moved = os.path.join(deep, "a")
    os.rename(program.path, moved)

    def said(path, **environment):
        done = run(TOOL, "report", "--json", path, env=dict(os.environ, **environment))
        check(done.returncode == 0, done.stderr)
        return json.loads(done.stdout)["warning"]

    find, index = {"PERFETTO_BINARY_PATH": deep}, {"PERFETTO_BINARY_PATH": os.path.dirname(deep),
                                                   "PERFETTO_SYMBOLIZER_MODE": "index"}
    for name in (program.path, "a"):
        # Without a build id the name decides, and that is said.
        path = write(directory, "nameless.pb", program.file("code", name))
        check(plain_names(path) != NAMED and said(path) == "", f"{name}: {said(path)}")
        for environment in (find, index):
            check(plain_names(path, **environment) == NAMED, f"{name}, {environment}: {plain_names(path, **environment)}")
            check("name alone" in said(path, **environment) and moved in said(path, **environment),
                  said(path, **environment))
        # A build id decides, whatever its letters; another build is never taken.
        for build_id in (program.build_id, program.build_id.upper()):
            path = write(directory, "id.pb", program.file("code", name, build_id))
            for environment in (find, index):
                check(plain_names(path, **environment) == NAMED and said(path, **environment) == "",
                      f"{name}, {environment}: {said(path, **environment)}")
        path = write(directory, "other.pb", program.file("code", name, "00" + program.build_id[2:]))
        for environment in (find, index):
            check(plain_names(path, **environment) != NAMED, f"{name}, {environment}: another build gives names")
    check(report(write(directory, "id.pb", program.file("code", "a", program.build_id.upper())))["unnamed"][0]["build_id"]
          == program.build_id, "the build id is shown in capitals")
    # Of two builds of the same name, neither is better.
    other = os.path.join(directory, "deep", "a")
    done = run("objcopy", "--remove-section=.note.gnu.build-id", moved, other)
    check(done.returncode == 0 and plain_names(write(directory, "two.pb", program.file("code", "b/a")), **index) != NAMED
          or "deep/a" in said(os.path.join(directory, "two.pb"), **index), "one of two builds is taken")
    path = write(directory, "mode.pb", program.file("code"))
    check("may be find or index" in said(path, PERFETTO_SYMBOLIZER_MODE="indx"), said(path, PERFETTO_SYMBOLIZER_MODE="indx"))
    check("/nowhere" in said(path, PERFETTO_BINARY_PATH="/nowhere"), said(path, PERFETTO_BINARY_PATH="/nowhere"))


def test_before(directory):
    """An address before its mapping is shown as it is."""
    start = 0x7f0000001000
    file = of_addresses([(start, start + 0x1000, 0, "/nowhere/prog", "")], [([(0, start - 0x345)], [400]), ([(0, start + 0x10)], [4])])
    path = write(directory, "before.pb", file)
    check(names(path) == [["0x10 @ prog"], [f"0x{start - 0x345:x} @ ?"]], f"{names(path)}")


def test_zeros(directory):
    """A column of zeros that others contradict was not counted."""
    four = [("alloc_objects", "count"), ("alloc_space", "bytes"), ("inuse_objects", "count"), ("inuse_space", "bytes")]
    for values, untold in (([0, 0, 2, 400], ["alloc_space", "alloc_objects", "max"]),
                           ([0, 500, 0, 400], ["objects", "alloc_objects", "max"]),
                           ([2, 0, 2, 0], ["space", "alloc_space", "max"]),
                           ([3, 500, 0, 0], ["max"])):
        path = write(directory, "zeros.pb", Pprof(four).sample(STACK, values).sample(STACK[1:], values))
        heap = report(path)["heaps"][0]
        check(heap["untold"] == untold, f"{values}: {heap['untold']}")
        for view, value in zip(("alloc_objects", "alloc_space", "objects", "space"), values):
            estimate = heap["total"][view]["estimate"]
            check(estimate == (None if view in untold else 2 * value), f"{values}: {view} {estimate}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made_directory:
        main(made_directory)
