#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""traceconv deobfuscate on traces of obfuscated Java code: the content of the packets, and what our tools
read from a trace with these packets appended.

    deobfuscate.py CASE
"""

import gzip
import json
import os
import re
import subprocess
import tempfile

from harness import TOOL, TRACECONV, check, main, need, run, skip
from perfetto_bytes import field, fields

APP = "com.example.app"
APK = f"data/app/~~Wk3x==/{APP}-q1-Zz==/oat/arm64/base.vdex"


def make_trace(stacks, processes=((100, APP, 10001),), packages=(), heap_graph=False):
    """Make a trace. stacks: (pid, [(name, mapping, line)]), the innermost frame first; line 0 is unknown."""
    tree = b""
    for pid, command, uid in processes:
        tree += field(1, field(1, pid) + field(3, command) + field(5, uid))
    interned, mappings, frames, samples, names = b"", {}, {}, {}, {}
    for pid, stack in stacks:
        identifiers = []
        for frame in stack:
            name, mapping, line = frame
            if mapping not in mappings:
                index = mappings[mapping] = len(mappings) + 1
                parts = [part for part in mapping.split("/") if part]
                paths = b"".join(field(7, index * 100 + i) for i in range(len(parts)))
                for i, part in enumerate(parts):
                    interned += field(17, field(1, index * 100 + i) + field(2, part))
                interned += field(19, field(1, index) + field(5, 4096) + paths)
            if name not in names:
                names[name] = len(names) + 1
                interned += field(5, field(1, names[name]) + field(2, name))
            if frame not in frames:
                frames[frame] = len(frames) + 1
                text = field(1, frames[frame]) + field(2, names[name]) + field(3, mappings[mapping])
                text += field(4, 64 * len(frames))
                interned += field(6, text + (field(5, 1) + field(6, line) if line else b""))
            identifiers.append(frames[frame])
        index = sum(len(each) for each in samples.values()) + 1
        samples.setdefault(pid, []).append(index)
        interned += field(7, field(1, index) + b"".join(field(2, each) for each in reversed(identifiers)))
    interned += field(18, field(1, 1) + field(2, "SourceFile"))
    dumps = b""
    for pid, callstacks in samples.items():
        text = field(1, pid) + field(11, "libc.malloc") + field(12, 1)
        for index in callstacks:
            text += field(2, field(1, index) + field(2, 1000 * index) + field(5, 1))
        dumps += field(5, text)
    listed = b"".join(field(1, field(1, name) + field(2, uid)) for name, uid in packages)
    return (
        field(1, field(2, tree))
        + (field(1, field(47, listed)) if listed else b"")
        + (field(1, field(56, field(1, 1))) if heap_graph else b"")
        + field(1, field(8, 5) + field(10, 1) + field(13, 1) + field(12, interned) + field(37, dumps + field(7, 0)))
    )


def decode(data):
    """Return [(package, {class: (original, [(method, original, lines...)], [(field, original)])})] of packets."""
    result = []
    for number, packet in fields(data):
        check(number == 1 and len(packet) < 500_000, f"a packet of {len(packet)} bytes")
        for number, mapping in fields(packet):
            check(number == 64, f"field {number}")
            package, classes = None, {}
            for number, value in fields(mapping):
                if number == 1:
                    package = value.decode()
                    continue
                name = original = ""
                methods, members = [], []
                for number, inner in fields(value):
                    if number == 1:
                        name = inner.decode()
                    elif number == 2:
                        original = inner.decode()
                    else:
                        member = dict(fields(inner))
                        texts = (member[1].decode(), member[2].decode())
                        if number == 4:
                            methods.append(texts + tuple(member.get(i) for i in (3, 4, 5, 6)))
                        else:
                            members.append(texts)
                check(name not in classes, f"{name} twice in a packet")
                classes[name] = (original, methods, members)
            result.append((package, classes))
    return result


# --- tools ---


class Scene:
    def __init__(self):
        self.directory = tempfile.mkdtemp(prefix="deobfuscate-")

    def write(self, name, content):
        path = os.path.join(self.directory, name)
        with open(path, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
        return path

    def convert(self, trace, *options, status=0, env=None):
        """Return the packets, the summary as JSON, and the messages."""
        path, out = self.write("raw-trace", trace), os.path.join(self.directory, "names")
        summary = os.path.join(self.directory, "summary.json")
        done = run(
            [TRACECONV, "deobfuscate", "--json", summary, *options, path, out],
            env={"PERFETTO_PROGUARD_MAP": "", **(env or {})},
        )
        words = done.stderr.decode()
        check(done.status == status, f"deobfuscate {options}: status {done.status}: {words}")
        if done.status != 0:
            return b"", None, words
        with open(out, "rb") as file, open(summary, encoding="utf-8") as text:
            return file.read(), json.load(text)["maps"], words

    def stacks(self, trace, env=None):
        """Return the report's [[(name, file:line, obfuscated name)]], in the order of the samples."""
        path = self.write("whole-trace", trace)
        done = run([TOOL, "report", "--json", path], env={"PERFETTO_PROGUARD_MAP": "", **(env or {})})
        check(done.status == 0, f"report: {done.stderr.decode()}")
        result = {}
        for heap in json.loads(done.stdout)["heaps"]:
            for callsite in heap["callsites"]:
                result[callsite["alloc_space"]["estimate"]] = [
                    (
                        frame["name"],
                        f"{frame['file']}:{frame['line']}" if "file" in frame else "",
                        frame.get("obfuscated_name", ""),
                    )
                    for frame in callsite["frames"]
                ]
        return [result[key] for key in sorted(result)]

    def named(self, map_text, stacks, **more):
        """Return the deobfuscated stacks of a trace of one package."""
        trace = make_trace(stacks, **more)
        path = self.write("mapping.txt", map_text)
        packets, _, _ = self.convert(trace, "--proguard-map", f"{APP}={path}")
        return self.stacks(trace + packets)

    def name(self, map_text, obfuscated, line=0):
        """Return the frames that replace one frame: [(name, place)], the innermost first."""
        stacks = self.named(map_text, [(100, [(obfuscated, APK, line)])])
        check(stacks[0][-1][2] == obfuscated, f"{obfuscated}: {stacks}")
        return [frame[:2] for frame in stacks[0]]


# --- cases ---


def test_positions():
    """R8's inline positions: a line chooses its calls; without one, the function that was not inlined."""
    scene = Scene()
    text = """\
com.example.Main -> a:
# {"id":"sourceFile","fileName":"Main.java"}
    1:1:void foo():54:54 -> a
    1:1:void test():50 -> a
    2:2:void bar():59:59 -> a
    2:2:void foo():55 -> a
    2:2:void test():50 -> a
    3:3:void baz():64:64 -> a
    3:3:void bar():60 -> a
    3:3:void foo():55 -> a
    3:3:void test():50 -> a
    1:4:void main(java.lang.String[]):45:45 -> main
"""
    main = "com.example.Main."
    expected = {
        0: [("test", "")],
        1: [("foo", 54), ("test", 50)],
        2: [("bar", 59), ("foo", 55), ("test", 50)],
        3: [("baz", 64), ("bar", 60), ("foo", 55), ("test", 50)],
    }
    for line, names in expected.items():
        wanted = [(main + name, f"Main.java:{at}" if at else "") for name, at in names]
        got = scene.name(text, "a.a", line)
        check(got == wanted, f"line {line}: {got}, not {wanted}")
    # Its callers and callees stay where they are.
    stack = [("malloc", "lib/libc.so", 0), ("a.a", APK, 2), ("a.main", APK, 1), ("a.a", APK, 1)]
    got = scene.named(text, [(100, stack), (100, stack[2:]), (100, stack[:2] + stack[3:])])
    first = ["malloc"] + [main + each for each in ("bar", "foo", "test", "main", "foo", "test")]
    check([frame[0] for frame in got[0]] == first, f"{got[0]}")
    check([frame[0] for frame in got[1]] == first[4:], f"{got[1]}")
    check([frame[0] for frame in got[2]] == first[:4] + first[5:], f"{got[2]}")
    check(got[0][3][2] == "a.a" and got[0][1][2] == "", f"{got[0]}")


def test_maps_of_the_environment():
    """Every tool that reads a trace names its Java code by PERFETTO_PROGUARD_MAP, as `deobfuscate` would, and not twice."""
    scene = Scene()
    path = scene.write("mapping.txt", "com.example.Main -> a:\n    1:1:void foo():54:54 -> a\n    1:1:void test():50 -> a\n    void x() -> b\n")
    trace = make_trace([(100, [("a.a", APK, 1), ("a.b", APK, 0)])])
    packets, _, _ = scene.convert(trace, "--proguard-map", f"{APP}={path}")
    wanted, environment = scene.stacks(trace + packets), {"PERFETTO_PROGUARD_MAP": f"{APP}={path}"}
    check([frame[0] for frame in wanted[0]] == [f"com.example.Main.{name}" for name in ("foo", "test", "x")], f"{wanted}")
    check(scene.stacks(trace, environment) == wanted, f"by the environment: {scene.stacks(trace, environment)}")
    check(scene.stacks(trace + packets, environment) == wanted, "named twice")
    raw = scene.write("raw", trace)
    lines = run([TRACECONV, "collapsed", "--view", "alloc_space", raw], env=environment).stdout.decode()
    check("com.example.Main.x;com.example.Main.test;com.example.Main.foo " in lines, f"collapsed: {lines}")
    rows = run([TOOL, "query", raw, "select deobfuscated_name from stack_profile_frame"], env=environment).stdout.decode()
    check("com.example.Main.x" in rows, f"query: {rows}")


def test_retraced():
    """R8's other published cases."""
    scene = Scene()

    def same(text, obfuscated, line, *wanted):
        got = scene.name(text, obfuscated, line)
        check(got == list(wanted), f"{obfuscated}:{line}: {got}, not {wanted}")

    horizontal = """\
com.example.T$A -> a:
    int $r8$classId -> a
      # {"id":"com.android.tools.r8.synthesized"}
    1:1:void <init>(int):0:0 -> <init>
      # {"id":"com.android.tools.r8.synthesized"}
    1:1:void com.example.T$B.baz():51:51 -> a
    2:2:void baz():51:51 -> a
    1:8:void com.example.T$B.bar():46:46 -> b
    1:8:void foo():46:46 -> c
com.example.T$I -> b:
    void baz() -> a
"""
    same(horizontal, "a.a", 0, ("com.example.T$A.baz | com.example.T$B.baz", ""))
    same(horizontal, "a.a", 1, ("com.example.T$B.baz", "T.java:51"))
    same(horizontal, "a.a", 2, ("com.example.T$A.baz", "T.java:51"))
    same(horizontal, "a.b", 0, ("com.example.T$B.bar", ""))
    same(horizontal, "a.c", 5, ("com.example.T$A.foo", "T.java:46"))
    same(horizontal, "a.<init>", 0, ("com.example.T$A.<init>", ""))
    same(horizontal, "b.a", 0, ("com.example.T$I.baz", ""))
    vertical = """\
com.example.T$A -> R8$$REMOVED$$CLASS$$0:
com.example.T$B -> a:
    2:5:void <init>():42:42 -> <init>
    6:6:void com.example.T$A.<init>():42:42 -> <init>
      # {"id":"com.android.tools.r8.residualsignature","signature":"(I)V"}
    1:3:void bar():47:47 -> a
    4:11:void bar():48:48 -> a
    1:8:void com.example.T$A.bar():52:52 -> b
    1:8:void com.example.T$A.baz():57:57 -> c
    1:8:void com.example.T$A.foo():47:47 -> d
"""
    same(vertical, "a.a", 0, ("com.example.T$B.bar", ""))
    same(vertical, "a.a", 11, ("com.example.T$B.bar", "T.java:48"))
    same(vertical, "a.b", 0, ("com.example.T$A.bar", ""))
    same(vertical, "a.c", 0, ("com.example.T$A.baz", ""))
    same(vertical, "a.d", 0, ("com.example.T$A.foo", ""))
    same(vertical, "a.<init>", 6, ("com.example.T$A.<init>", "T.java:42"))
    overload = """\
com.example.T$StringSupplier -> b:
    1:5:java.lang.Object get():42:42 -> a
    1:3:java.lang.String get():46:46 -> b
    1:5:java.lang.Object get():42:42 -> get
    6:6:java.lang.String get():46:46 -> get
"""
    for method in "a", "b", "get":
        same(overload, f"b.{method}", 0, ("com.example.T$StringSupplier.get", ""))
    same(overload, "b.get", 6, ("com.example.T$StringSupplier.get", "T.java:46"))
    argument = """\
com.example.Main -> a:
    1:1:void test(java.lang.Object):50:50 -> a
      # {"id":"com.android.tools.r8.residualsignature","signature":"()V"}
"""
    same(argument, "a.a", 0, ("com.example.Main.test", ""))
    same(argument, "void a.a()", 1, ("com.example.Main.test", "Main.java:50"))
    static = "com.example.Main -> a:\n    1:8:void test():46:46 -> a\n"
    same(static, "a.a", 0, ("com.example.Main.test", ""))
    # Ranges of lines: of equal length, all mapped to one line, none, of another length, outside.
    lines = """\
foo.Baz -> a:
  1:10:void qux():27:27 -> a
  11:15:void qux():42 -> a
  1337:1400:void foo.Other.quux():113:113 -> b
  1337:1400:void quuz():72 -> b
  6:7:void three(long):80:81 -> c
  6:7:void two(int):88 -> c
  1:1:void method1(java.lang.String):42:44 -> d
  void plain(long):1:1 -> e
  void zero():0:0 -> f
  void none() -> g
  5:9:void kept() -> k
  void main(java.lang.String[]) -> h
  1:1:void method1(java.lang.String):0:0 -> h
  1:1:void main(java.lang.String[]):0 -> h
  1:1:void overload():7:7 -> i
  1:1:void overload(java.lang.String):13:13 -> i
  1:1:void other(int):15:15 -> i
  void foo(int) -> j
  void bar(int, int) -> j
"""
    same(lines, "a.a", 8, ("foo.Baz.qux", "Baz.java:27"))
    same(lines, "a.a", 13, ("foo.Baz.qux", "Baz.java:42"))
    same(lines, "a.b", 1399, ("foo.Other.quux", "Other.java:113"), ("foo.Baz.quuz", "Baz.java:72"))
    same(lines, "a.c", 7, ("foo.Baz.three", "Baz.java:81"), ("foo.Baz.two", "Baz.java:88"))
    same(lines, "a.c", 99, ("foo.Baz.two", "Baz.java:0"))
    same(lines, "a.d", 1, ("foo.Baz.method1", "Baz.java:42"))
    same(lines, "a.e", 9, ("foo.Baz.plain", "Baz.java:1"))
    same(lines, "a.f", 8, ("foo.Baz.zero", "Baz.java:8"))
    same(lines, "a.g", 7, ("foo.Baz.none", "Baz.java:7"))
    same(lines, "a.k", 6, ("foo.Baz.kept", "Baz.java:6"))
    same(lines, "a.h", 0, ("foo.Baz.main", ""))
    same(lines, "a.h", 1, ("foo.Baz.method1", "Baz.java:0"), ("foo.Baz.main", "Baz.java:0"))
    same(lines, "a.i", 1, ("foo.Baz.other | foo.Baz.overload", ""))
    same(lines, "a.j", 0, ("foo.Baz.bar | foo.Baz.foo", ""))
    # One obfuscated class from two originals; a method that kept its name.
    merged = "com.A -> a:\n    void x() -> m\ncom.C -> c:\ncom.B -> a:\n    void y() -> m\n    void z() -> n\n"
    same(merged, "a.m", 0, ("com.A.x | com.B.y", ""))
    same(merged, "a.n", 0, ("com.B.z", ""))
    same(merged, "c.run", 0, ("com.C.run", ""))


def test_packages():
    """A map counts for the frames of its package alone."""
    scene = Scene()
    one = scene.write("one.txt", "com.one.Main -> a:\n    void first() -> a\n")
    two = scene.write("two.txt", "com.two.Main -> a:\n    void second() -> a\n")
    three = scene.write("three.txt", "com.three.Main -> a:\n    void third() -> a\n")
    processes = [(1, "com.one", 10001), (2, "/usr/bin/com.two:remote", 10002), (3, "java", 1000)]

    def frames(mapping):
        return [(pid, [("a.a", f"{mapping}{pid if mapping != 'x' else ''}", 0)]) for pid in (1, 2, 3)]

    def names(stacks, *maps, **more):
        trace = make_trace(stacks, processes, **more)
        options = [option for each in maps for option in ("--proguard-map", each)]
        packets, summary, words = scene.convert(trace, *options)
        return [stack[0][0] for stack in scene.stacks(trace + packets)], summary, words

    both = (f"com.one={one}", f"com.two={two}")
    got, summary, words = names(frames("/system/app/base.apk"), *both)
    check(got == ["com.one.Main.first", "com.two.Main.second", "a.a"], f"by process: {got}")
    check([each["package_in_trace"] for each in summary] == [True, True], f"{summary}")
    got, _, _ = names([(3, [("a.a", "data/app/com.two-1==/base.apk", 0)])], *both)
    check(got == ["com.two.Main.second"], f"by path: {got}")
    got, _, _ = names([(1, [("a.a", "data/app/com.other-1==/base.apk", 0)])], *both)
    check(got == ["a.a"], f"another package's file in the process: {got}")
    memory = "[anon:dalvik-classes2.dex extracted in memory from /data/app/com.one-x==/base.apk"
    got, _, _ = names([(3, [("a.a", memory, 0)])], *both)
    check(got == ["com.one.Main.first"], f"extracted in memory: {got}")
    got, _, _ = names([(3, [("a.a", "memfd:jit-cache (deleted)", 0)])], *both)
    check(got == ["com.two.Main.second"], f"the JIT's memory: {got}")
    got, _, _ = names([(1, [("a.a", "memfd:jit-cache (deleted)", 0)])], *both)
    check(got == ["com.one.Main.first"], f"JIT code of a known process: {got}")
    got, _, _ = names(frames("/system/app/base.apk"), *both, packages=[("com.two", 10001)])
    check(got[0] == "com.two.Main.second", f"by user id: {got}")
    got, summary, words = names(frames("/system/app/base.apk"), *both, three)
    check(got[2] == "com.three.Main.third", f"without a package: {got}")
    got, summary, words = names(frames("/system/app/base.apk"), f"com.wrong={one}")
    check(got == ["a.a"] * 3 and not summary[0]["package_in_trace"], f"{got}, {summary}")
    check("com.one, com.two, java" in words and "no process" in words, words)
    got, summary, words = names([(1, [("b.a", "x", 0)])], both[0])
    check(got == ["b.a"] and "no frame of the trace" in words, f"{got}: {words}")
    # Maps from the environment; of two maps for one package the last one counts.
    trace = make_trace(frames("/system/app/base.apk"), processes)
    first, _, _ = scene.convert(trace, env={"PERFETTO_PROGUARD_MAP": f"com.one={one}:com.two={two}"})
    check([package for package, _ in decode(first)] == ["com.one", "com.two"], f"{decode(first)}")
    last, _, _ = scene.convert(trace, "--proguard-map", f"com.one={three}")
    got = [stack[0][0] for stack in scene.stacks(trace + first + last)]
    check(got == ["com.three.Main.third", "com.two.Main.second", "a.a"], f"two maps: {got}")
    got = [stack[0][0] for stack in scene.stacks(first + last + trace)]
    check(got == ["com.three.Main.third", "com.two.Main.second", "a.a"], f"one map: {got}")
    got = [stack[0][0] for stack in scene.stacks(trace + first + first)]
    check(got[:2] == ["com.one.Main.first", "com.two.Main.second"], f"the same twice: {got}")


def test_packets():
    """The packets have the names that the trace needs (all names with a heap graph), and none is too big."""
    scene = Scene()
    text = "com.example.Main -> a:\n    int counter -> c\n    1:2:void run(int):10:11 -> b\n    void other() -> d\n"
    text += "com.example.Unused -> z:\n    void unused() -> b\n"
    path = scene.write("mapping.txt", text)
    stacks = [(100, [("a.b", APK, 0), ("native_function", "lib/libc.so", 0)])]
    out, summary, _ = scene.convert(make_trace(stacks), "--proguard-map", f"{APP}={path}")
    needed = [(APP, {"a": ("com.example.Main", [("b", "run", 1, 2, 10, 11)], [])})]
    check(decode(out) == needed, f"{decode(out)}")
    counts = {"classes": 2, "methods": 3, "fields": 1, "written_classes": 1, "written_methods": 1, "written_fields": 0}
    check(counts.items() <= summary[0].items(), f"{summary}")
    check(summary[0]["names"] == 1 and summary[0]["remedy"] is None, f"{summary}")
    whole = [
        (
            APP,
            {
                "a": (
                    "com.example.Main",
                    [("b", "run", 1, 2, 10, 11), ("d", "other", None, None, None, None)],
                    [("c", "counter")],
                ),
                "z": ("com.example.Unused", [("b", "unused", None, None, None, None)], []),
            },
        )
    ]
    for more in {"heap_graph": True}, {}:
        options = () if more else ("--whole-maps",)
        out, _, _ = scene.convert(make_trace(stacks, **more), *options, "--proguard-map", f"{APP}={path}")
        check(decode(out) == whole, f"{more}: {decode(out)}")
    # Big maps: classes spread over several packets, also a single class; the entries of a method stay together.
    lines, count = ["com.example.Big -> b:"], 20_000
    for i in range(count):
        lines.append(f"    {i + 1}:{i + 1}:void com.example.Inlined{i}.call():{i}:{i} -> m{i}")
        lines.append(f"    {i + 1}:{i + 1}:void method{i}():{i} -> m{i}")
    lines += [f"com.example.Class{i} -> c{i}:\n    void run() -> a" for i in range(count)]
    path = scene.write("big.txt", "\n".join(lines) + "\n")
    out, summary, _ = scene.convert(make_trace(stacks), "--whole-maps", "--proguard-map", f"{APP}={path}")
    packets = decode(out)
    check(len(packets) > 5 and {package for package, _ in packets} == {APP}, f"{len(packets)} packets")
    methods = [method for _, classes in packets for method in classes.get("b", ("", [], []))[1]]
    check(len(methods) == 2 * count, f"{len(methods)} methods")
    for _, classes in packets:
        names = [method[0] for method in classes.get("b", ("", [], []))[1]]
        check(all(names[i] == names[i + 1] for i in range(0, len(names), 2)), "a method's entries are parted")
    classes = {name for _, each in packets for name in each}
    check(len(classes) == count + 1, f"{len(classes)} classes")
    trace = make_trace([(100, [("b.m19999", APK, 20000), ("b.m7", APK, 8), ("c9.a", APK, 0)])])
    got = [frame[0] for frame in scene.stacks(trace + out)[0]]
    wanted = ["Inlined19999.call", "Big.method19999", "Inlined7.call", "Big.method7", "Class9.run"]
    check(got == ["com.example." + each for each in wanted], f"{got}")


def test_errors():
    """An unreadable map is an error with its line; unknown lines are skipped."""
    scene = Scene()
    trace = make_trace([(100, [("a.b", APK, 0)])])
    head = "# comment\n\ncom.example.Main -> a:\r\n\t# indented\n    void run() -> b\n"
    bad = {
        "com.example.Other -> c\n": "colon",
        "com.example.Other -> :\n": "two names",
        "    5:3:void x() -> c\n": "line numbers",
        "    99999999999:3:void x() -> c\n": "line numbers",
        "    1:2:void x():a -> c\n": "line numbers",
        "    void x( -> c\n": "arguments",
        "    x() -> c\n": "type and a name",
        "    void x() -> c d\n": "two names",
        "    void " + "x" * 70000 + "() -> c\n": "two names",
        "    void " + "x" * 1100000 + "() -> c\n": "1 MB",
    }
    for text, why in bad.items():
        path = scene.write("bad.txt", head + text + "com.example.Last -> l:\n")
        _, _, words = scene.convert(trace, "--proguard-map", f"{APP}={path}", status=1)
        check(f"{path}:6: " in words and why in words, f"{text[:40]!r}: {words}")
    path = scene.write("bad.txt", "    void run() -> b\n")
    _, _, words = scene.convert(trace, "--proguard-map", f"{APP}={path}", status=1)
    check(":1: " in words and "before the first class" in words, words)
    path = scene.write("bad.txt", b"\x00\x01binary\n" * 9)
    _, _, words = scene.convert(trace, "--proguard-map", f"{APP}={path}", status=1)
    check("none of its 9 lines" in words, words)
    unknown = "\ufeff" + head + "unknown line\n    another\n# " + "y" * 3000000 + "\n    void also() -> c\n"
    path = scene.write("good.txt", unknown)
    out, summary, words = scene.convert(trace, "--proguard-map", f"{APP}={path}")
    check(summary[0]["unknown_lines"] == 2 and summary[0]["methods"] == 2, f"{summary}")
    check("2 of 9 lines are unknown" in words, words)
    check([stack[0][0] for stack in scene.stacks(trace + out)] == ["com.example.Main.run"], "CRLF")
    path = scene.write("cut.txt", "com.example.Main -> a:\n    void run() -> b")
    out, _, _ = scene.convert(trace, "--proguard-map", f"{APP}={path}")
    check(decode(out)[0][1]["a"][1][0][:2] == ("b", "run"), "no newline at the end")
    path = scene.write("empty.txt", "")
    _, summary, words = scene.convert(trace, "--proguard-map", f"{APP}={path}")
    check(summary[0]["remedy"] and "names no class" in words, words)
    for missing in os.path.join(scene.directory, "absent"), scene.directory, "/dev/zero":
        _, _, words = scene.convert(trace, "--proguard-map", f"{APP}={missing}", status=1)
        check(missing in words, words)
    pipe = os.path.join(scene.directory, "pipe")
    os.mkfifo(pipe)
    endless = subprocess.Popen(["sh", "-c", f"exec yes > {pipe}"])
    _, _, words = scene.convert(trace, "--proguard-map", f"{APP}={pipe}", status=1)
    check(":100001: " in words and "without end" in words, words)
    endless.wait(10)
    _, _, words = scene.convert(trace, status=2)
    check("PERFETTO_PROGUARD_MAP" in words, words)
    _, _, words = scene.convert(trace, status=2, env={"PERFETTO_PROGUARD_MAP": "file"})
    check("package=FILE" in words, words)
    _, _, words = scene.convert(trace, "--proguard-map", "a=", status=2)
    check("names no ProGuard map" in words, words)


def test_compiled():
    """JIT code gets its names from symbols that were added later; then these are deobfuscated."""
    scene = Scene()
    trace = make_trace([(100, [("", "memfd:jit-cache", 0), ("a.b", APK, 0)])])
    lines = b"".join(field(2, field(1, name) + field(3, line)) for name, line in (("int a.c()", 2), ("void a.b(int)", 0)))
    symbols = field(1, field(61, field(1, "/memfd:jit-cache") + field(3, field(1, 64) + lines)))
    text = "com.Main -> a:\n    2:2:void inlined():7:7 -> c\n    2:2:int add():9 -> c\n    void run(int) -> b\n"
    path = scene.write("mapping.txt", text)
    packets, _, _ = scene.convert(trace + symbols, "--proguard-map", f"{APP}={path}")
    wanted = ["com.Main.inlined", "com.Main.add", "com.Main.run", "com.Main.run"]
    for whole in trace + symbols + packets, packets + symbols + trace:
        got = scene.stacks(whole)
        check([frame[0] for frame in got[0]] == wanted, f"{got}")
        check([frame[2] for frame in got[0]] == ["", "int a.c()", "void a.b(int)", "a.b"], f"{got}")


def test_streams():
    """From standard input to standard output, by either name."""
    scene = Scene()
    trace = make_trace([(100, [("a.b", APK, 3)])])
    path = scene.write("mapping.txt", "com.example.Main -> a:\n    1:9:void run():11:19 -> b\n")
    environment = {"PERFETTO_PROGUARD_MAP": f"{APP}={path}"}
    for command in [TRACECONV, "deobfuscate"], [TOOL, "deobfuscate", "-q", "-", "-"]:
        done = run(command, stdin=trace, env=environment)
        check(done.status == 0, f"{command}: {done.stderr}")
        got = scene.stacks(trace + done.stdout)
        check(got == [[("com.example.Main.run", "Main.java:13", "a.b")]], f"{command}: {got}")
    whole = scene.write("named", trace + done.stdout)
    listing = run([TOOL, "report", whole])
    check(b"com.example.Main.run" in listing.stdout, f"{listing.stdout} {listing.stderr}")
    made = run([TRACECONV, "profile", "-o", os.path.join(scene.directory, "pprof"), whole])
    files = [os.path.join(scene.directory, "pprof", each) for each in os.listdir(made.stdout.decode().strip())]
    with open(files[0], "rb") as file:
        data = file.read()
    data = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    strings = [value for number, value in fields(data) if number == 6]
    check(b"com.example.Main.run" in strings and b"Main.java" in strings, f"{strings}")


JAVA = """\
package com.example;

public class Main {
    interface Step { int run(int value); }

    static class Add implements Step {
        private final int by;
        Add(int by) { this.by = by; }
        public int run(int value) { return check(value + by); }
        private int check(int value) {
            if (value > 40)
                fail(value);
            return value;
        }
        private static void fail(int value) {
            throw new IllegalStateException("value " + value);
        }
    }

    static class Twice implements Step {
        private final Step step;
        Twice(Step step) { this.step = step; }
        public int run(int value) { return step.run(step.run(value)); }
        public int run(int value, String why) { return run(value + why.length()); }
    }

    private static int loop(Twice step, int count) {
        int value = 0;
        for (int i = 0; i < count; i++)
            value = step.run(value, "why");
        return value;
    }

    public static void main(String[] args) {
        System.out.println(loop(new Twice(new Add(args.length + 2)), 100));
    }
}
"""
RULES = """\
-injars in.jar
-outjars out.jar
-printmapping mapping.txt
-dontwarn
-ignorewarnings
-dontpreverify
-optimizationpasses 3
-allowaccessmodification
-repackageclasses
-overloadaggressively
-keepattributes SourceFile,LineNumberTable
-renamesourcefileattribute SourceFile
-keep public class com.example.Main { public static void main(java.lang.String[]); }
"""


def test_proguard():
    """The stack of a real program, obfuscated by ProGuard, has the names that ProGuard's own retrace prints."""
    need("javac", "jar", "java", "proguard")
    retrace = "/usr/share/java/retrace.jar"
    if not os.path.exists(retrace):
        skip(f"{retrace} is not installed")
    scene = Scene()
    source = scene.write("Main.java", JAVA)
    scene.write("rules.pro", RULES)

    def call(*command, status=0):
        done = run(command, cwd=scene.directory)
        check(done.status == status, f"{command}: status {done.status}: {done.stderr.decode()}")
        return done

    call("javac", "--release", "8", "-g", "-d", "classes", source)
    call("jar", "cf", "in.jar", "-C", "classes", ".")
    call("proguard", "@rules.pro")
    stack = call("java", "-Xverify:none", "-cp", "out.jar", "com.example.Main", status=1)
    scene.write("stack.txt", stack.stderr)
    place = re.compile(r"\tat ([\w.$<>]+)\(([\w.]+):(\d+)\)")
    obfuscated = place.findall(stack.stderr.decode())
    retraced = place.findall(call("java", "-jar", retrace, "mapping.txt", "stack.txt").stdout.decode())
    check(len(retraced) > len(obfuscated) > 1, f"{obfuscated} {retraced}")
    with open(os.path.join(scene.directory, "mapping.txt"), encoding="utf-8") as file:
        text = file.read()
    got = scene.named(text, [(100, [(name, APK, int(line)) for name, _, line in obfuscated])])[0]
    wanted = [(name, f"{file}:{line}") for name, file, line in retraced]
    check([frame[:2] for frame in got] == wanted, f"{got}, not {wanted}")


if __name__ == "__main__":
    main()
