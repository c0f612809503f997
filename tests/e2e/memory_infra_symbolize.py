#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""traceconv symbolize on Chrome's memory dumps: stacks and mappings of real processes, in every layout of linkers, get
llvm-symbolizer's names, files, lines and inlined functions.

    memory_infra_symbolize.py CASE
"""

import contextlib
import functools
import gzip
import json
import os
import shutil
import stat
import tempfile

from breakpad_dump import debug_id_of, dump as breakpad_dump, write
from harness import BUILD, ROOT, check, main, need, run
from memory_infra_file import File, Rules
from symbolize import TRACECONV, build_id_of, output

TOOL = os.path.join(BUILD, "heap_profile")

PROGRAM = r"""
#include <cstdio>
#include <dlfcn.h>
#include <execinfo.h>
#include <link.h>
#include <vector>
static void maps(const char *title)
{
    char line[4096];
    FILE *file = fopen("/proc/self/maps", "r");
    printf("== %s\n", title);
    while (fgets(line, sizeof(line), file) != nullptr)
        fputs(line, stdout);
    fclose(file);
}
extern "C" __attribute__((noinline, visibility("default"))) void record(int what)
{
    void *stack[64];
    int count = backtrace(stack, 64);
    printf("stack %d", what);
    for (int i = 1; i < count; i++)
        printf(" %p", stack[i]);
    printf("\n");
}
static int object(struct dl_phdr_info *info, size_t, void *)
{
    printf("object %lx %s\n", (unsigned long)info->dlpi_addr, info->dlpi_name);
    return 0;
}
namespace shop {
struct item { int price; };
template <typename T> struct basket {
    std::vector<T> all;
    inline __attribute__((always_inline)) void put(T one) { all.push_back(one); record(1); }
    __attribute__((noinline)) void fill(int count) { for (int i = 0; i < count; i++) { put(T{i}); } asm volatile("" ::: "memory"); }
};
static inline __attribute__((always_inline)) int twice(int value) { record(2); return value * 2; }
static inline __attribute__((always_inline)) int thrice(int value)
{
    int sum = twice(value);
    record(3);
    return sum + value;
}
}
__attribute__((noinline)) static int serve(int value) { int result = shop::thrice(value); asm volatile("" ::: "memory"); return result; }
int main(int argc, char **argv)
{
    setvbuf(stdout, nullptr, _IOLBF, 0);
    shop::basket<shop::item> basket;
    basket.fill(2);
    int sum = serve(argc);
    maps("before");
    void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : nullptr;
    if (library != nullptr) {
        auto entry = reinterpret_cast<int (*)(int)>(dlsym(library, "plug"));
        sum += entry(argc);
        maps("with");
        dl_iterate_phdr(object, nullptr);
        dlclose(library);
    } else {
        dl_iterate_phdr(object, nullptr);
    }
    maps("after");
    return sum == 12345;
}
"""

LIBRARY = r"""
extern "C" void record(int what);
namespace plug_in {
static inline __attribute__((always_inline)) int inner(int value) { record(10); return value + 1; }
__attribute__((noinline)) int outer(int value) { int result = inner(value) + 1; record(11); return result; }
}
extern "C" int plug(int value) { int result = plug_in::outer(value) * 2; record(12); return result; }
"""


class Process:
    """The addresses and mappings that a run of the program printed."""

    def __init__(self, text, program):
        self.maps, self.stacks, self.objects, part = {}, [], {}, None
        for line in text.splitlines():
            if line.startswith("== "):
                part = self.maps.setdefault(line[3:], [])
            elif line.startswith("stack "):
                words = line.split()
                self.stacks.append((int(words[1]), [int(each, 16) for each in words[2:]]))
            elif line.startswith("object "):
                words = line.split(" ", 2)
                self.objects[words[2] or program] = int(words[1], 16)
            else:
                part.append(line)

    def regions(self, which="before", offsets=None, build_ids=None, rename=None):
        """Return regions in Chrome's form. offsets: None, "virtual" or "file"."""
        result = []
        for line in self.maps[which]:
            span, flags, offset, _, _, *name = line.split(None, 5)
            start, end = (int(each, 16) for each in span.split("-"))
            path = name[0] if name else ""
            region = {"sa": f"{start:x}", "sz": f"{end - start:x}", "pf": sum(value for flag, value in zip(flags, (4, 2, 1)) if flag != "-"),
                      "mf": (rename or {}).get(path, path), "bs": {"pss": "0", "pd": "0", "pc": "0", "sd": "0", "sc": "0", "sw": "0"}}
            if path in self.objects and path.startswith("/"):
                if offsets == "virtual":
                    region["fo"] = f"{start - self.objects[path]:x}"
                elif offsets == "file":
                    region["fo"] = offset.lstrip("0") or "0"
                if build_ids is None or path in build_ids:
                    region["id"] = build_id_of(path).hex().upper()
            result.append(region)
        return result

    def expected(self, stack, known):
        """Return [(function, file, line)], innermost first, or ("pc:...",) for frames in unknown files."""
        result = []
        for address in stack:
            path, virtual = self.locate(address)
            if path in known:
                result += frames_of(path, virtual - 1)
            else:
                result.append((f"pc:{address:x}",))
        return result

    def locate(self, address):
        for lines in self.maps.values():
            for line in lines:
                span, _, _, _, _, *name = line.split(None, 5)
                start, end = (int(each, 16) for each in span.split("-"))
                if start <= address < end and name and name[0] in self.objects:
                    return name[0], address - self.objects[name[0]]
        return None, 0


@functools.cache
def frames_of(path, address):
    text = output(["llvm-symbolizer", "--demangle", "--inlines", "--output-style=JSON", "--obj=" + path, hex(address)]).decode()
    return tuple((each["FunctionName"], each["FileName"], each["Line"]) for each in json.loads(text)[0]["Symbol"])


class Scene:
    def __init__(self):
        self.directory = os.path.realpath(tempfile.mkdtemp(prefix="memory-infra-symbolize-"))
        for name, text in (("program.cc", PROGRAM), ("plug.cc", LIBRARY)):
            write(text, self.directory, name)

    def path(self, *parts):
        return os.path.join(self.directory, *parts)

    def build(self, name, *flags, compiler="g++", source="program.cc", build_id=True, exports=True):
        need(compiler, "llvm-symbolizer")
        output([compiler, "-g", "-O2", source, "-o", name, "-Wl,--build-id" if build_id else "-Wl,--build-id=none",
                *(["-rdynamic"] if exports else []), *flags],
               cwd=self.directory)
        return self.path(name)

    def library(self, name, *flags, **more):
        return self.build(name, "-shared", "-fPIC", *flags, source="plug.cc", **more)

    def run(self, program, *arguments):
        return Process(output([program, *arguments]).decode(), program)

    def write(self, events, name="dump.json"):
        data = json.dumps({"traceEvents": events, "metadata": {"product-version": "a/1.2.3"}}).encode()
        with (gzip.open if name.endswith(".gz") else open)(self.path(name), "wb") as file:
            file.write(data)
        return self.path(name)

    def symbolize(self, path, *options, out=None, status=0, cwd=None, env=None):
        """Return the messages and the summary."""
        summary = self.path("summary")
        clean = {"PERFETTO_BINARY_PATH": "", "DEBUGINFOD_URLS": "", **(env or {})}
        done = run([TRACECONV, "symbolize", "--json", summary, *options, path, *([out] if out else [])], env=clean, cwd=cwd)
        check(done.status == status, f"exit code {done.status}: {done.stderr!r}")
        report = None
        if done.status == 0:
            with open(summary) as file:
                report = json.load(file)
        return done.stderr.decode(), report

    def close(self):
        shutil.rmtree(self.directory, ignore_errors=True)


# --- dumps ---


class Maps:
    """Strings and nodes of heaps_v2, with consecutive ids."""

    def __init__(self, first=1):
        self.next, self.strings, self.nodes, self.string_ids, self.node_ids, self.sites = first, [], [], {}, {}, []

    def string(self, text):
        if text not in self.string_ids:
            self.string_ids[text] = self.next
            self.strings.append({"id": self.next, "string": text})
            self.next += 1
        return self.string_ids[text]

    def stack(self, addresses):
        """Return the id of a stack's innermost node; the stack is given innermost first."""
        parent = None
        for address in reversed(addresses):
            key = (self.string(f"pc:{address:x}" if isinstance(address, int) else address), parent)
            if key not in self.node_ids:
                self.node_ids[key] = self.next
                self.nodes.append({"id": self.next, "name_sid": key[0], **({"parent": parent} if parent else {})})
                self.next += 1
            parent = self.node_ids[key]
        self.sites.append(parent)
        return parent

    def take(self):
        """Return the new strings and nodes since the last call."""
        result = {"nodes": self.nodes, "strings": self.strings, "types": [{"id": 0, "name_sid": self.string("[unknown]")}]}
        result["strings"] = self.strings
        sites, self.strings, self.nodes, self.sites = self.sites, [], [], []
        return result, sites


def dump_event(pid, number, maps=None, sites=(), regions=None):
    dumps = {"level_of_detail": "detailed"}
    if regions is not None:
        dumps["process_mmaps"] = {"vm_regions": regions}
    if maps is not None:
        dumps["heaps_v2"] = {"version": 1, "maps": maps, "allocators": {"malloc": {
            "nodes": list(sites), "types": [0] * len(sites), "counts": [1] * len(sites), "sizes": [16] * len(sites)}}}
    return {"pid": pid, "tid": -1, "ts": 1000 + number, "ph": "v", "cat": "disabled-by-default-memory-infra",
            "name": "periodic_interval", "id": f"0x{number:x}", "args": {"dumps": dumps}}


def process_event(process, pid=7, number=1, regions=None, maps=None, stacks=None):
    maps = maps or Maps()
    for _, stack in stacks if stacks is not None else process.stacks:
        maps.stack(stack)
    content, sites = maps.take()
    return dump_event(pid, number, content, sites, regions)


def read(path):
    with (gzip.open if open(path, "rb").read(2) == b"\x1f\x8b" else open)(path, "rb") as file:
        return json.load(file)["traceEvents"]


def told_stacks(events):
    """Return {(pid, dump): [stack], one for each allocation}; a stack is [(function, file, line), or (text,) without a
    line], innermost first and without the allocator that the writer adds."""
    return {key: [stack for stack, _, count in sites for _ in range(count)] for key, sites in told_sites(events).items()}


def told_sites(events):
    """Return {(pid, dump): [(stack, size, count)]}; the dump is the number that its time has."""
    result = {}
    for event in events:
        heaps = event["args"].get("dumps", {}).get("heaps_v2")
        if heaps is None:
            continue
        strings, nodes = {}, {}
        for each in heaps["maps"]["strings"]:
            check(each["id"] not in strings or strings[each["id"]] == each["string"], f"string {each['id']} means two things")
            strings[each["id"]] = each["string"]
        for each in heaps["maps"]["nodes"]:
            nodes[each["id"]] = each
        sites, columns = [], heaps["allocators"]["malloc"]
        for node, size, count in zip(columns["nodes"], columns["sizes"], columns["counts"]):
            stack = []
            while node is not None:
                check(len(stack) < 1000, "a circle of nodes")
                each = nodes[node]
                place = (strings[each["file_sid"]], each.get("line", 0)) if "file_sid" in each else ()
                stack.append((strings[each["name_sid"]], *place))
                node = each.get("parent")
            sites.append((stack[1:] if stack[0] == ("malloc",) else stack, size, count))
        result[event["pid"], f"0x{int(event['ts']) - 1000:x}"] = sites
    return result


def check_stacks(process, told, known, stacks=None, what=""):
    expected = [list(process.expected(stack, known)) for _, stack in (process.stacks if stacks is None else stacks)]
    # Without debug information there is no source line.
    expected = [[each if len(each) == 1 or each[2] else each[:1] for each in stack] for stack in expected]
    for ours, theirs in zip(sorted(told), sorted(expected)):
        if not check(ours == theirs, f"{what}: {ours}\n    for {theirs}"):
            return
    check(len(told) == len(expected), f"{what}: {len(told)} stacks for {len(expected)}")


# --- cases ---

VARIANTS = {
    "pie": ("g++",), "fixed": ("g++", "-no-pie", "-fno-pie"),
    "lld": ("clang++-14", "-fuse-ld=lld"), "lld-fixed": ("clang++-14", "-fuse-ld=lld", "-no-pie", "-fno-pie"),
    "separate": ("g++", "-Wl,-z,separate-code", "-Wl,-z,max-page-size=0x200000"), "together": ("g++", "-Wl,-z,noseparate-code"),
}


def test_layouts(scene):
    """Programs and libraries of both linkers get names: position-independent or not, with offsets of each kind or without."""
    libraries = {"gnu": scene.library("libgnu.so"), "lld": scene.library("liblld.so", "-fuse-ld=lld", compiler="clang++-14")}
    for name, (compiler, *flags) in VARIANTS.items():
        need("lld")
        program = scene.build(name, *flags, compiler=compiler)
        for linker, library in libraries.items():
            process = scene.run(program, library)
            check(len(process.stacks) == 7 and all(len(stack) > 2 for _, stack in process.stacks), f"{process.stacks}")
            for offsets in (None, "virtual", "file"):
                path = scene.write([process_event(process, regions=process.regions("with", offsets))])
                said, report = scene.symbolize(path, "--no-auto-symbol-paths", "--symbol-paths", scene.directory, "--no-backup")
                what = f"{name}, {linker}'s library, offsets {offsets}"
                check_stacks(process, told_stacks(read(path))[7, "0x1"], {program, library}, what=what)
                inlined = [each for each in told_stacks(read(path))[7, "0x1"] if len(each) > len(process.stacks[0][1])]
                check(inlined, f"{what}: no inlined function")
                check(report["named"] >= 6 and sum(module["with_lines"] for module in report["modules"]) >= 6, f"{what}: {report}")


def test_local_files(scene):
    """With the files of this machine every frame has a name, libc's too."""
    program = scene.build("pie")
    process = scene.run(program)
    path = scene.write([process_event(process, regions=process.regions())])
    said, report = scene.symbolize(path)
    names = [frame[0] for stack in told_stacks(read(path))[7, "0x1"] for frame in stack]
    check(not any(name.startswith("pc:") for name in names), f"{names}")
    check(any("libc_start" in name for name in names) and "main" in names, f"{names}")
    check("rewritten" in said and report["named"] == report["frames"], said)


def test_processes(scene):
    """Two programs with the same ids and two dumps each are kept apart."""
    programs = [scene.build("one"), scene.build("two", "-DOTHER", "-O1", compiler="clang++-14")]
    libraries = [scene.library("libone.so"), scene.library("libtwo.so", "-O1", compiler="clang++-14")]
    runs = [scene.run(*each) for each in zip(programs, libraries)]
    events = []
    for number in (1, 2):  # complete maps in each dump, ids from 1 in each process
        for pid, process in enumerate(runs, 11):
            events.append(process_event(process, pid, number, process.regions("with")))
    path = scene.write(events)
    scene.symbolize(path, "--no-auto-symbol-paths", "--symbol-paths", scene.directory, "--no-backup")
    told = told_stacks(read(path))
    for number in ("0x1", "0x2"):
        for pid, process, program, library in zip((11, 12), runs, programs, libraries):
            check_stacks(process, told[pid, number], {program, library}, what=f"{pid} {number}")


def test_incremental(scene):
    """A dump has only the nodes and strings that are new since the previous dump."""
    program, library = scene.build("pie"), scene.library("libplug.so")
    process = scene.run(program, library)
    maps, first, rest = Maps(), process.stacks[:2], process.stacks[2:]
    events = [process_event(process, 7, 1, process.regions("with"), maps, first),
              dump_event(7, 2, {"nodes": [], "strings": [], "types": []}, [], process.regions("with")),
              process_event(process, 7, 3, process.regions("with"), maps, rest)]
    path = scene.write(events)
    scene.symbolize(path, "--no-auto-symbol-paths", "--symbol-paths", scene.directory, "--no-backup")
    told = told_stacks(read(path))
    check_stacks(process, told[7, "0x1"], {program, library}, first, "first")
    check_stacks(process, told[7, "0x3"], {program, library}, rest, "rest")
    check(told[7, "0x2"] == [], f"a dump without sites: {told[7, '0x2']}")


def test_unmapped(scene):
    """An unloaded library is found in the regions of the previous or next dump; an unknown address is not."""
    program, library = scene.build("pie"), scene.library("libplug.so")
    process = scene.run(program, library)
    for order in (("with", "after"), ("after", "with")):
        events = [dump_event(7, 1, None, (), process.regions(order[0])),
                  process_event(process, 7, 2, process.regions(order[1])), dump_event(7, 3, None, (), process.regions("before"))]
        path = scene.write(events)
        said, report = scene.symbolize(path, "--no-auto-symbol-paths", "--symbol-paths", scene.directory, "--no-backup")
        check_stacks(process, told_stacks(read(path))[7, "0x2"], {program, library}, what=f"{order}")
    heap = int(next(line for line in process.maps["before"] if "[heap]" in line).split("-")[0], 16) + 64
    events = [process_event(process, 7, 1, process.regions("after"), stacks=process.stacks + [(0, [heap, 0x1234])]),
              process_event(process, 8, 1, None)]
    path = scene.write(events)
    said, report = scene.symbolize(path, "--no-auto-symbol-paths", "--symbol-paths", scene.directory, "--no-backup")
    told = told_stacks(read(path))
    check_stacks(process, [each for each in told[7, "0x1"] if each[-1] != ("pc:1234",)], {program}, what="without")
    check([(f"pc:{heap:x}",), ("pc:1234",)] in told[7, "0x1"], f"{told[7, '0x1']}")
    check(all(frame[0].startswith("pc:") for stack in told[8, "0x1"] for frame in stack), f"{told[8, '0x1']}")
    library_addresses = {a for _, stack in process.stacks for a in stack if process.locate(a)[0] == library}
    check(report["no_region"] == len(library_addresses) + 1 and report["no_file"] == 1, f"{report}")
    check(report["no_maps"] == len({a for _, stack in process.stacks for a in stack}), f"{report}")
    for words in ("nothing was mapped there in any dump", "no memory regions of the process", "the program generated it"):
        check(words in said, f"{words}: {said}")


def test_reused(scene):
    """Two libraries are at the same address, one after the other: each dump's frames belong to its own library."""
    program = scene.build("fixed", "-no-pie", "-fno-pie")
    libraries = [scene.library("libone.so"), scene.library("libtwo.so", "-O1", compiler="clang++-14")]
    runs = [scene.run(program, each) for each in libraries]
    base = {each: process.objects[library] for each, (process, library) in enumerate(zip(runs, libraries))}
    events = []
    for number, (process, library) in enumerate(zip(runs, libraries)):
        shift = 0x7f0000000000 - base[number]
        regions = [{**each, "sa": f"{int(each['sa'], 16) + shift:x}"} for each in process.regions("with") if each["mf"] == library]
        stacks = [(0, [address + shift for address in stack if process.locate(address)[0] == library]) for _, stack in process.stacks]
        stacks = [each for each in stacks if each[1]]
        events.append(process_event(process, 7, number + 1, regions, Maps(1 + 1000 * number), stacks))
    path = scene.write(events)
    scene.symbolize(path, "--no-auto-symbol-paths", "--symbol-paths", scene.directory, "--no-backup")
    told = told_stacks(read(path))
    for number, (process, library) in enumerate(zip(runs, libraries)):
        stacks = [(0, [a for a in stack if process.locate(a)[0] == library]) for _, stack in process.stacks]
        check_stacks(process, told[7, f"0x{number + 1}"], {library}, [each for each in stacks if each[1]], f"{library}")


def test_missing(scene):
    """The reasons are distinguished, each with its remedy: deleted, replaced, another build, no build id, no file."""
    program, library = scene.build("pie"), scene.library("libplug.so")
    process = scene.run(program, library)
    gone = {library: library + " (deleted)"}
    path = scene.write([process_event(process, regions=process.regions("with", rename=gone))])
    scene.build("libplug.so", "-shared", "-fPIC", "-O0", source="plug.cc")  # another file in its place
    original = open(path, "rb").read()
    said, report = scene.symbolize(path)
    check(f"{library} (deleted): 4 of 4 addresses without a name: the file was deleted or replaced" in said, said)
    stacks = told_stacks(read(path))[7, "0x1"]
    check(not any(frame[0].startswith("plug") for stack in stacks for frame in stack), f"{stacks}")
    check(sum(frame[0].startswith("pc:") for frame in stacks[-1]) == 1 and stacks[-1][1][0] == "main", f"{stacks[-1]}")
    check(open(path + ".BACKUP", "rb").read() == original, "the backup is not the original")
    # The file exists, but is of another build.
    path = scene.write([process_event(process, regions=process.regions("with", build_ids=()))], "plain.json")
    events = read(path)
    for each in events[0]["args"]["dumps"]["process_mmaps"]["vm_regions"]:
        if each["mf"] == library:
            each["id"] = "AB" * 20
    path = scene.write(events, "other.json")
    said, report = scene.symbolize(path, "--no-backup")
    check(f"{library}: 4 of 4 addresses without a name: the file is another build ({library}) (build id {'ab' * 20})" in said, said)
    modules = {each["path"]: each for each in report["modules"]}
    check(modules[library]["without"]["other_build"] == 4, f"{modules[library]}")
    # The others have no build id: their names are those of the present file, and a message says so.
    check(f"{program}: the dump does not have its build id" in said, said)
    os.unlink(library)
    path = scene.write(events, "none.json")
    said, report = scene.symbolize(path, "--no-backup")
    check(f"{library}: 4 of 4 addresses without a name: no file with this build id" in said, said)
    said, report = scene.symbolize(scene.path("plain.json"), "--no-backup")
    check(f"{library}: 4 of 4 addresses without a name: there is no such file" in said, said)


def test_without_id(scene):
    """The file of a program without a build id is used if the dump has no build id, either."""
    program = scene.build("pie", build_id=False)
    process = scene.run(program)
    path = scene.write([process_event(process, regions=process.regions(build_ids=()))])
    said, report = scene.symbolize(path, "--no-backup")
    told = told_stacks(read(path))[7, "0x1"]
    ours = [[each for each in stack if len(each) == 3 and each[1].startswith(scene.directory)] for stack in told]
    theirs = [[each for each in process.expected(stack, {program}) if len(each) == 3 and each[1].startswith(scene.directory)]
              for _, stack in process.stacks]
    check(sorted(ours) == sorted(theirs) and ours[0], f"{ours}\n    for {theirs}")


def test_old_heaps(scene):
    """A file with heaps of Chrome before version 59 is refused, and the message says why; beside a heap of the current
    format, they are left out with a warning."""
    process = scene.run(scene.build("pie"))
    old = {"malloc": {"entries": [{"bt": "1", "size": "40", "count": "1"}]}}
    described = {"pid": 7, "tid": 0, "ts": 0, "ph": "M", "cat": "__metadata", "name": "stackFrames",
                 "args": {"stackFrames": {"1": {"name": f"pc:{process.stacks[0][1][0]:x}"}}}}
    event = dump_event(7, 1, None, (), process.regions())
    event["args"]["dumps"]["heaps"] = old
    path = scene.write([described, event], "old.json")
    before = open(path, "rb").read()
    places = ("--no-auto-symbol-paths", "--symbol-paths", scene.directory, "--no-backup")
    said, _ = scene.symbolize(path, *places, status=1)
    check("Chrome before version 59" in said and "trace2html" in said, said)
    check(open(path, "rb").read() == before, "a file of the old format was rewritten")
    path = scene.write([described, event, process_event(process, 7, 2)], "both.json")
    said, report = scene.symbolize(path, *places)
    check("Chrome before version 59" in said and report["named"] > 0, said)


def test_breakpad(scene):
    """Breakpad's symbol files alone provide the names of libraries and programs at any address."""
    for name in ("pie", "fixed", "lld"):
        compiler, *flags = VARIANTS[name]
        program, library = scene.build(name, *flags, compiler=compiler), scene.library("libplug.so")
        for path in (program, library):
            write(breakpad_dump(path, demangled=True), scene.path("symbols"), os.path.basename(path) + ".sym")
        process = scene.run(program, library)
        for offsets in (None, "virtual"):
            path = scene.write([process_event(process, regions=process.regions("with", offsets))])
            said, report = scene.symbolize(path, "--no-auto-symbol-paths", "--breakpad-symbols", scene.path("symbols"), "--no-backup")
            told = told_stacks(read(path))[7, "0x1"]
            theirs = [[each if len(each) == 1 or each[2] else ("PUBLIC",) for each in process.expected(stack, {program, library})]
                      for _, stack in process.stacks]
            check(len(told) == len(theirs), f"{name}, offsets {offsets}: {len(told)} stacks")
            for ours, other in zip(sorted(told), sorted(theirs)):
                same = len(ours) == len(other) and all(a == b or b == ("PUBLIC",) and len(a) == 1 for a, b in zip(ours, other))
                check(same, f"{name}, offsets {offsets}: {ours}\n    for {other}")
            check(all(each["breakpad"] for each in report["modules"] if each["path"] in (program, library)), f"{report}")


def test_chromium(scene):
    """In Chromium's own dump, with a symbol file that names each address of its program, every frame gets its own name."""
    source = os.path.join(ROOT, "tests", "data", "memory_infra", "chromium-150-browser.json.gz")
    before = read(source)
    event = next(each for each in before if "heaps_v2" in each["args"].get("dumps", {}))
    regions = [each for each in event["args"]["dumps"]["process_mmaps"]["vm_regions"] if each["mf"] == "/usr/lib/chromium/chromium"]
    first, code = int(regions[0]["sa"], 16), next(each for each in regions if each["pf"] & 1)
    strings = event["args"]["dumps"]["heaps_v2"]["maps"]["strings"]
    addresses = sorted(int(each["string"][3:], 16) for each in strings if each["string"].startswith("pc:"))
    inside = [each for each in addresses if int(code["sa"], 16) < each <= int(code["sa"], 16) + int(code["sz"], 16)]
    check(len(inside) > 100, f"{len(inside)} addresses")
    identifier = debug_id_of(bytes.fromhex(code["id"]))
    symbols = f"MODULE Linux x86_64 {identifier} chromium\nFILE 0 /src/browser.cc\nINLINE_ORIGIN 0 content::Inlined()\n"
    for address in inside:  # names of the byte before each return address
        symbols += f"FUNC {address - 1 - first:x} 1 0 content::At({address:x})\nINLINE 0 7 0 0 {address - 1 - first:x} 1\n{address - 1 - first:x} 1 8 0\n"
    write(symbols, scene.path("store"), "chromium", identifier, "chromium.sym")
    path = scene.path("dump.json.gz")
    shutil.copy(source, path)
    said, report = scene.symbolize(path, "--no-auto-symbol-paths", "--breakpad-symbols", scene.path("store"))
    check(report["named"] == len(inside), f"{report['named']} of {len(inside)}: {said}")
    after = read(path)
    (ours,) = told_sites(after).values()
    (theirs,) = told_sites(before).values()
    expected = []
    for stack, size, count in theirs:
        named = []
        for (name,) in stack:
            if name.startswith("pc:") and int(name[3:], 16) in inside:
                named += [("content::Inlined()", "/src/browser.cc", 8), (f"content::At({name[3:]})", "/src/browser.cc", 7)]
            else:
                named.append((name,))
        expected.append((named, size, count))
    check(sorted(ours) == sorted(expected), f"{ours}\n    for {expected}")
    sizes, heaps = outermost(before), {(event["pid"], event["ts"]) for event in before if "heaps_v2" in event["args"].get("dumps", {})}
    check(len({pid for pid, _, _ in sizes}) == 8 and len(sizes) > 40, f"{len(sizes)} sizes")
    told = outermost(after)
    for (pid, time, name), size in sizes.items():  # malloc's size is the heap's where there is one
        check(told.get((pid, time, name)) == size or (name == "malloc" and (pid, time) in heaps), f"{pid} {time} {name}: {size}")


def outermost(events):
    """Return {(pid, ts, allocator): (size, effective size)} of the allocators that are inside of no other."""
    return {(event["pid"], event["ts"], name): tuple(attributes.get(key, {}).get("value") for key in ("size", "effective_size"))
            for event in events if event["ph"] == "v" for name, allocator in event["args"]["dumps"].get("allocators", {}).items()
            for attributes in [allocator.get("attrs", {})] if "size" in attributes and "/" not in name and name != "global"}


def test_files(scene):
    """The file is replaced with a backup that is never lost, or another file is written; packed input stays packed;
    no output is partial."""
    program = scene.build("pie")
    process = scene.run(program)
    events = [process_event(process, regions=process.regions())]
    places = ("--no-auto-symbol-paths", "--symbol-paths", scene.directory)
    path = scene.write(events)
    original = open(path, "rb").read()
    os.chmod(path, 0o640)
    os.symlink("dump.json", scene.path("link.json"))
    said, _ = scene.symbolize(scene.path("link.json"), *places)
    check(os.path.islink(scene.path("link.json")) and open(path + ".BACKUP", "rb").read() == original, "through a link")
    check(stat.S_IMODE(os.stat(path).st_mode) == 0o640 and path + ".BACKUP" in said, said)
    symbolized = open(path, "rb").read()
    # Again: the other frames have no name on this machine, and the file stays.
    said, report = scene.symbolize(path, *places)
    check(open(path, "rb").read() == symbolized and "stays as it is: no name was found" in said, said)
    check(not os.path.exists(path + ".BACKUP.1"), "a needless backup")
    # A second backup is written next to the first.
    shutil.copy(path + ".BACKUP", path)
    said, _ = scene.symbolize(path, *places)
    check(path + ".BACKUP.1" in said and open(path + ".BACKUP.1", "rb").read() == original, said)
    check(open(path + ".BACKUP", "rb").read() == original and open(path, "rb").read() == symbolized, "the first backup")
    # To another file, with gzip if its name says so or the original was packed; and to standard output.
    before = sorted(os.listdir(scene.directory))
    shutil.copy(path + ".BACKUP", path)
    packed = scene.write(events, "packed.json.gz")
    for source, out, is_packed in ((path, "out.json", False), (path, "out.json.gz", True), (packed, "again", True), (packed, "plain.json", False)):
        scene.symbolize(source, *places, out=scene.path(out))
        data = open(scene.path(out), "rb").read()
        check((data[:2] == b"\x1f\x8b") == is_packed, f"{out}: {data[:2]}")
        check((gzip.decompress(data) if is_packed else data) == symbolized, f"{out}: not as in place")
    check(open(path, "rb").read() == original, "the original has changed")
    done = run([TRACECONV, "symbolize", "-q", *places, path, "-"])
    check(done.status == 0 and done.stdout == symbolized and done.stderr == b"", f"{done.stderr!r}")
    for source, is_packed in ((path, False), (scene.path("again"), True)):
        with open(source, "rb") as file:
            text = file.read()
        done = run([TRACECONV, "symbolize", *places], stdin=text)
        check(done.status == 0, f"{done.stderr!r}")
        check((gzip.decompress(done.stdout) if is_packed else done.stdout) == symbolized, "from standard input")
    done = run([TRACECONV, "symbolize", *places, path, "/dev/full"])
    check(done.status == 1 and b"cannot be written: No space left" in done.stderr, f"{done.stderr!r}")
    done = run([TOOL, "symbolize", "--quiet", "--no-backup", *places, packed])
    check(done.status == 0 and gzip.decompress(open(packed, "rb").read()) == symbolized, f"{done.stderr!r}")
    check(not os.path.exists(packed + ".BACKUP"), "a backup that was not wanted")
    check(sorted(os.listdir(scene.directory)) == sorted(before + ["packed.json.gz", "out.json", "out.json.gz", "again", "plain.json"]),
          f"{sorted(os.listdir(scene.directory))}")
    # No frames without names, and errors.
    path = scene.write([process_event(process, stacks=[(0, ["main", "start"])])], "named.json")
    text = open(path, "rb").read()
    said, report = scene.symbolize(path, *places)
    check("there is nothing to symbolize" in said and open(path, "rb").read() == text and report["frames"] == 0, said)
    said, _ = scene.symbolize(path, *places, out=scene.path("copy.json"))
    check("copy.json has no new names" in said, said)
    check(told_stacks(read(scene.path("copy.json"))) == told_stacks(json.loads(text)["traceEvents"]), "the copy")
    for damage, reason in ((original[:-40], "byte"), (original.replace(b'"nodes"', b'"nodes', 1), "byte")):
        with open(path, "wb") as file:
            file.write(damage)
        said, _ = scene.symbolize(path, *places, status=1)
        check(reason in said and path in said and open(path, "rb").read() == damage, said)
        check(not os.path.exists(path + ".BACKUP"), "a backup of a damaged file")
    with open(path, "wb") as file:
        file.write(original)
    said, _ = scene.symbolize(path, *places, out=path, status=1)
    check("is the input file" in said, said)
    os.mkdir(scene.path("directory"))
    said, _ = scene.symbolize(path, *places, out=scene.path("directory"), status=1)
    said, _ = scene.symbolize(path, *places, out=scene.path("nowhere", "out.json"), status=1)
    check("cannot be written" in said, said)
    check(open(path, "rb").read() == original, "the original has changed")


def test_stripped_program(scene):
    """A profile of a stripped program, written as Chrome's dump, gets the names of its debug file."""
    program = scene.build("whole", exports=False)
    stripped = scene.path("run", "whole")
    os.mkdir(scene.path("run"))
    output(["strip", "-o", stripped, program])
    done = run([TOOL, "host", "--quiet", "--no-symbols", "-i", "1", "-o", scene.path("profile"), "--", stripped])
    check(done.status == 0, f"{done.stderr!r}")
    path = scene.path("dump.json")
    done = run([TRACECONV, "memory_infra", scene.path("profile", "raw-trace"), path])
    check(done.status == 0, f"{done.stderr!r}")
    before = told_all(read(path))
    check(any(name.startswith("pc:") for name in before), f"{sorted(before)[:20]}")
    said, report = scene.symbolize(path, "--symbol-paths", scene.directory)
    after = told_all(read(path))
    modules = {each["path"]: each for each in report["modules"]}
    check(modules[stripped]["with_lines"] >= 3 and stripped not in said, f"{said}: {modules}")
    check({"main", "shop::basket<shop::item>::fill(int)", "shop::basket<shop::item>::put(shop::item)"} <= after, f"{sorted(after)}")
    done = run([TOOL, "report", "--json", path])
    names = {frame["name"] for heap in json.loads(done.stdout)["heaps"] for site in heap["callsites"] for frame in site["frames"]}
    check("shop::basket<shop::item>::fill(int)" in names, f"{names}")


def test_quotes_in_names(scene):
    """A function name with quotes does not break the JSON of the scripts."""
    write('#include <stdlib.h>\n#include <unistd.h>\nvoid *volatile kept;\n'
          '__attribute__((noinline)) void *operator""_kb(unsigned long long n) { return kept = malloc(n * 1024); }\n'
          'int main() { 3_kb; _exit(0); }\n', scene.directory, "quoted.cc")
    program = scene.build("quoted", source="quoted.cc", exports=False)
    done = run([TOOL, "host", "--quiet", "--no-symbols", "-i", "1", "-o", scene.path("profile"), "--", program])
    check(done.status == 0, f"{done.stderr!r}")
    path = scene.path("quoted.json")
    output([TRACECONV, "memory_infra", scene.path("profile", "raw-trace"), path])
    scene.symbolize(path, "--no-backup")
    for broken in Rules(File(path)).broken:
        check("an address" in broken or "no allocator" in broken, broken)
    names = {frame.name for frame, _ in File(path).dump().tree.values()}
    check(any(name.startswith('operator""_kb') or name.startswith('operator"" _kb') for name in names), f"{names}")


def told_all(events):
    return {each["string"] for event in events for heaps in [event["args"].get("dumps", {}).get("heaps_v2")] if heaps
            for each in heaps["maps"]["strings"]}


if __name__ == "__main__":
    with contextlib.closing(Scene()) as made_scene:
        main(made_scene)
