#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Conversions of traces, judged by the tools that read them: protoc, Speedscope's importer, Go's pprof,
flamegraph.pl's rules; and traces as text and back, byte for byte.

    conversions.py CASE      HEAPPROFD_BUILD names the build directory
"""

import gzip
import io
import json
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
import threading
import zlib

from harness import BUILD, ROOT, TOOL, TRACECONV, check, main, make_work_directory, need, need_saved_pages, program, run, skip
from terminal import Terminal

MAKE_TRACE = os.path.join(BUILD, "tests", "e2e", "make_trace")
PROTO = os.path.join(ROOT, "proto")
WORK = make_work_directory("conversions-")
ENVIRONMENT = {"TMPDIR": WORK, "DEBUGINFOD_URLS": "", "HOME": WORK}
VIEWS = ("space", "objects", "alloc_space", "alloc_objects", "max")


def at(name):
    return os.path.join(WORK, name)


def write(name, data):
    with open(at(name), "wb") as file:
        file.write(data)
    return at(name)


def convert(*arguments, stdin=None, status=0):
    """Return the standard output of a conversion, and check its exit status."""
    outcome = run([TRACECONV, *arguments], stdin=stdin, env=ENVIRONMENT)
    check(outcome.status == status,
          f"traceconv {arguments}: status {outcome.status}: {outcome.stderr.decode(errors='replace')[-400:]}")
    return outcome.stdout if status == 0 else outcome.stderr.decode(errors="replace")


def made_trace(callsites=1000):
    os.makedirs(at("made"), exist_ok=True)
    check(run([MAKE_TRACE, at("made"), str(callsites)]).status == 0, "make_trace failed")
    with open(at("made/raw-trace"), "rb") as file:
        return file.read()


def profiled(name, *command, options=()):
    """Record the trace of a command."""
    outcome = run([TOOL, "host", "--quiet", "-o", at(name), *options, "--", *command], env=ENVIRONMENT)
    check(outcome.status == 0, f"{command}: status {outcome.status}: {outcome.stderr[-400:]}")
    with open(at(name + "/raw-trace"), "rb") as file:
        return file.read()


def varint(value, least=1):
    out = bytearray()
    while value >= 0x80 or len(out) + 1 < least:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out + bytes([value]))


def block(field, content, least=1):
    return varint(field << 3 | 2) + varint(len(content), least) + content


def number(field, value):
    return varint(field << 3) + varint(value)


def protoc(direction, data):
    done = subprocess.run(["protoc", f"--{direction}=perfetto.protos.Trace", "-I", PROTO,
                           os.path.join(PROTO, "trace.proto")], input=data, capture_output=True)
    check(done.returncode == 0, f"protoc --{direction}: {done.stderr[:300]}")
    return done.stdout


# --- text and back ---


def checkpoint(withdrawn):
    """The head of a checkpoint that withdraws this many bytes after it."""
    key = varint(5003 << 3 | 2)
    return varint(1 << 3 | 2) + varint(len(key) + 5 + withdrawn, 5) + key + varint(withdrawn, 5)


def test_text_and_back():
    """Traces of every sort come back from text byte for byte."""
    traces = {
        "all that a trace can hold": made_trace(),
        "threads": profiled("threads", program("threads_many"), options=("-i", "100")),
        "a stream": profiled("stream", "sh", "-c", "echo", options=("-i", "1", "--dump-at-max")),
        "nothing": b"",
        # Heads of checkpoints have lengths of fixed size.
        "a checkpoint": checkpoint(0) + block(1, number(8, 5)),
        "a withdrawn checkpoint": checkpoint(4) + block(1, number(8, 5)) + block(1, number(8, 6)),
        # Packets of unknown types, as Perfetto writes them.
        "strangers": block(1, number(8, 5) + block(1, block(9, b"\x08\x01\x12\x02ab")) + number(700, 8)),
        "a field besides packets": block(1, number(8, 5)) + number(15, 3) + block(16, b"\0\xff"),
    }
    for what, trace in traces.items():
        path, text = write("trace", trace), at("text")
        convert("text", path, text)
        check(convert("binary", text) == trace, f"{what}: text and back is another trace")
        check(convert("text", stdin=trace) == open(text, "rb").read(), f"{what}: standard input")
        convert("binary", "-", at("back"), stdin=open(text, "rb").read())
        check(open(at("back"), "rb").read() == trace, f"{what}: to a file")
        check(run([TOOL, "text", path], env=ENVIRONMENT).stdout == open(text, "rb").read(),
              f"{what}: heap_profile text")


def test_text_is_canonical():
    """A trace with lengths of four bytes, as Perfetto writes them, comes back with short ones."""
    def padded(least):
        return block(1, number(8, 5) + block(37, block(5, number(1, 7), least), least))

    text = convert("text", stdin=padded(4))
    check(text == convert("text", stdin=padded(1)), f"the encoding is in the text: {text}")
    check(convert("binary", stdin=text) == padded(1), "the lengths have not become short")


def test_lists_in_text():
    """A list of packets is all of them, also behind the head of a checkpoint."""
    binary = convert("binary", stdin=b'packet: [{withdrawn: ""}, {timestamp: 5}]')
    check(binary == block(1, block(5003, b"")) + block(1, number(8, 5)), f"{binary}")


def test_compressed():
    """Traces packed in any way become the text, and the trace, of their content."""
    trace = made_trace(50)
    text = convert("text", stdin=trace)
    raw = zlib.compress(trace)
    path = write("plain", trace)
    ways = {
        "gzip": gzip.compress(trace),
        "two members": gzip.compress(trace[:5000]) + gzip.compress(trace[5000:]),
        "compressed packets": block(1, block(50, raw)),
        "compressed packets, gzipped": gzip.compress(block(1, block(50, raw))),
    }
    if shutil.which("zstd"):
        small = run(["zstd", "-c", path]).stdout
        ways["zstd"] = small
        ways["zstd packets"] = block(1, block(133, small))
    for what, bytes_of in ways.items():
        check(convert("text", stdin=bytes_of) == text, f"{what}: another text")
        check(convert("decompress_packets", stdin=bytes_of) == trace, f"{what}: another trace")
        convert("decompress_packets", write("packed", bytes_of), at("unpacked"))
        check(open(at("unpacked"), "rb").read() == trace, f"{what}: another file")
    check(convert("decompress_packets", stdin=trace) == trace, "a plain trace is left as it is")
    check(convert("binary", stdin=gzip.compress(text)) == trace, "gzipped text is not read")


def archive(*members, kind="w", form=tarfile.GNU_FORMAT):
    """A tar archive of (name, bytes); a name alone is a directory."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode=kind, format=form) as tar:
        for name, *data in members:
            entry = tarfile.TarInfo(name)
            entry.type = tarfile.REGTYPE if data else tarfile.DIRTYPE
            entry.size = len(data[0]) if data else 0
            tar.addfile(entry, io.BytesIO(data[0]) if data else None)
    return file.getvalue()


def test_archives():
    """The traces in a tar archive are read as if they were concatenated."""
    trace = made_trace(50)
    halves = trace + block(1, number(8, 5)), block(1, number(8, 6))
    members = (("a",), ("a/" + "long" * 60, halves[0]), ("readme", b"Not a trace."), ("none", b""),
               ("a/symbols", halves[1]))
    text = convert("text", stdin=b"".join(halves))
    for form in (tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        named = members if form != tarfile.USTAR_FORMAT else (("a/trace", halves[0]), *members[2:])
        check(convert("text", stdin=archive(*named, form=form)) == text, f"archive of format {form}")
    packed = write("packed.tar.gz", archive(*members, kind="w:gz"))
    check(convert("text", packed) == text, "a packed archive")
    check(convert("collapsed", packed) == convert("collapsed", stdin=trace), "stacks of an archive")
    convert("bundle", "-q", packed, at("bundled"))
    with open(at("bundled"), "rb") as file:
        check(file.read().startswith(b"".join(halves)), "the bundle of an archive is not a trace")
    whole = archive(*members)
    for cut in (600, 5000, len(halves[0]) + 1600):
        said = convert("text", stdin=whole[:cut], status=1)
        check("the tar archive is cut off" in said, f"cut at {cut}: {said}")
    damaged = bytearray(archive(("trace", trace), ("other", halves[1])))
    damaged[512 + (len(trace) + 511) // 512 * 512 + 3] ^= 1
    check("the tar archive is damaged" in convert("text", stdin=bytes(damaged), status=1), "a header with another sum")
    said = convert("text", stdin=archive(("trace.gz", gzip.compress(trace))), status=1)
    check("trace.gz in the tar archive is compressed by itself" in said, said)


def test_protoc_agrees():
    """protoc reads our texts, we read protoc's, and the fields are the same."""
    need("protoc")
    smaps = block(1, block(68, number(1, 9) + block(2, block(1, b"/lib/x") + number(2, 7)) + number(4, 2)))
    names = block(1, block(64, block(1, b"app") + block(3, block(1, b"a") + block(2, "Größe".encode()))))
    symbols = block(1, block(61, block(1, b"/lib/x") + block(2, b"\xde\xad")
                             + block(3, number(1, 16) + block(2, block(1, b"f;g") + number(3, 5)))))
    for what, trace in (("made", made_trace()), ("smaps", smaps), ("names", names), ("symbols", symbols),
                        ("jq", profiled("jq", "sh", "-c", "true"))):
        ours, theirs = convert("text", stdin=trace), protoc("decode", trace)
        check(not re.search(rb"^\s*\d+[:\s{]", ours, re.M), f"{what}: a field has no name")
        check(protoc("decode", protoc("encode", ours)) == theirs, f"{what}: protoc reads another trace in our text")
        check(protoc("decode", convert("binary", stdin=theirs)) == theirs, f"{what}: we read another in its text")


def test_large():
    """Converting a trace of any size needs the memory of one packet."""
    packet = made_trace(2000)
    repeats = 100_000_000 // len(packet)
    for verb, piece in (("text", packet), ("binary", convert("text", stdin=packet)), ("decompress_packets", packet)):
        times = repeats if verb != "binary" else max(1, 200_000_000 // len(piece))
        with open(os.devnull, "wb") as null:
            process = subprocess.Popen([TRACECONV, verb, "-", os.devnull],
                                       stdin=subprocess.PIPE, stdout=null, stderr=subprocess.PIPE)
            for _ in range(times):
                process.stdin.write(piece)
            process.stdin.close()
            said = process.stderr.read()
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        check(process.returncode == 0, f"{verb}: {said[-300:]}")
        print(f"{verb}: {times * len(piece) / 1e6:.0f} MB in {usage.ru_utime:.2f} s, {usage.ru_maxrss} kB")
        check(usage.ru_maxrss < 40_000, f"{verb}: {usage.ru_maxrss} kB")


def test_wrong_input():
    """A truncated or invalid text is reported with its position, and the part before it is written."""
    need_saved_pages()
    trace = made_trace(50)
    text = convert("text", stdin=trace)
    said = convert("text", stdin=trace[:-7], status=1)
    check("standard input: the trace is cut off in the packet at offset" in said, said)
    check("damaged at offset" in convert("text", stdin=b"\xff" * 99, status=1), "garbage")
    before = run([TRACECONV, "text"], stdin=trace[:-7], env=ENVIRONMENT).stdout
    check(len(before) > 1000 and text.startswith(before), "the part before the cut is not written")
    line = text.count(b"\n", 0, 3000) + 1
    broken = b"\n".join(row if i + 1 != line else b"  oops" for i, row in enumerate(text.split(b"\n")))
    said = convert("binary", write("broken", broken), status=1)
    check(f"{at('broken')}: {line}:" in said, said)
    check("4:1: the text ends before the '}' of TracePacket" in
          convert("binary", stdin=b"packet {\n timestamp: 1\n\n", status=1), "a truncated text is not reported")
    for verb in ("text", "binary", "decompress_packets", "collapsed", "flamegraph", "speedscope"):
        check("No such file" in convert(verb, at("nowhere"), status=1), f"{verb} of an empty file")
        check("one argument too many" in convert(verb, "a", "b", "c", status=2), f"{verb} of three")
        check(convert(verb, "--help").startswith(b"usage: traceconv " + verb.encode()), f"{verb} --help")
        path = write("itself", trace)
        if verb != "binary":
            check("is the trace itself" in convert(verb, path, path, status=1), f"{verb} over its input")
        check(open(path, "rb").read() == trace, f"{verb} destroyed its input")
    check("cannot be written" in convert("text", write("trace", trace), at("no/where"), status=1), "OUT")
    nothing_written(trace)


def nothing_written(trace):
    """A full disk, a missing standard output, and input that is not a trace are reported."""
    path = write("trace", trace)
    for verb in ("text", "decompress_packets", "collapsed", "flamegraph", "speedscope", "symbolize", "bundle"):
        said = "" if verb == "symbolize" else convert(verb, path, "/dev/full", status=1)
        check("cannot be written: No space left on device" in said or verb == "symbolize",  # where no symbols are found
              f"{verb} to a full disk: {said}")
        closed = run(["sh", "-c", 'exec "$@" >&-', "sh", TRACECONV, verb, path, "-"], env=ENVIRONMENT)
        check(closed.status == 1 and b"standard output is closed" in closed.stderr,
              f"{verb} without standard output: status {closed.status}, {closed.stderr}")
        if verb not in ("text", "decompress_packets"):
            said = convert(verb, write("empty", b""), at("out"), status=1)
            check("there is no trace packet in it" in said, f"{verb} of an empty file: {said}")


def test_no_traces():
    """Conversions that need a trace name the format of other input; for other tools' verbs the error suggests ours."""
    made_trace(100)
    convert("memory_infra", at("made"), at("dump.json.gz"))
    convert("profile", "-o", at("pprof"), at("made"))
    pprof = at("pprof/" + os.listdir(at("pprof"))[0])
    stacks = write("stacks", b"main;f 12\n")
    mapped = ["--proguard-map", write("map.txt", b"com.x.Y -> a:\n")]
    for path, words in ((at("dump.json.gz"), "Chrome's memory dumps"), (pprof, "a pprof profile"), (stacks, "collapsed")):
        for command in (["symbolize"], ["bundle"], ["deobfuscate", *mapped], ["text"], ["decompress_packets"]):
            if command == ["symbolize"] and path.endswith(".json.gz"):
                continue
            if path == pprof and command[0] in ("text", "decompress_packets"):
                continue  # pprof is protobuf, too, and is converted as it is
            said = convert(*command, path, at("out"), status=1)
            check(path + " is not a trace" in said and words in said, f"{command} of {words}: {said}")
    with open(at("dump.json.gz"), "rb") as file:
        said = convert("bundle", "-", at("out"), stdin=file.read(), status=1)
    check("standard input is not a trace" in said, said)
    for typed, meant in (("pprof", "profile"), ("folded", "collapsed"), ("json", "memory_infra"), ("txt", "text")):
        check(f"did you mean {meant}?" in convert(typed, status=2), typed)
        said = run([TOOL, typed], env=ENVIRONMENT)
        check(said.status == 2 and f"did you mean {meant}?".encode() in said.stderr, f"heap_profile {typed}")


# --- stacks with numbers ---


def test_hostile_names():
    """Names from a trace do not control a terminal, whichever verb prints them."""
    evil = b"\x1b]0;x\x07\nnext\xc2\x9b31m"
    bid, path = bytes(range(20)), b"/tmp/" + evil
    strings = (block(16, number(1, 1) + block(2, bid)), block(17, number(1, 1) + block(2, path)),
               block(5, number(1, 1) + block(2, evil)))
    mapping = block(19, number(1, 1) + number(2, 1) + number(7, 1))
    frame = block(6, number(1, 1) + number(2, 1) + number(3, 1) + number(4, 64))
    stack = block(7, number(1, 1) + number(2, 1))
    tree = block(1, number(1, 7) + block(3, evil))
    heap = block(5, number(1, 7) + block(11, evil) + number(7, 1) + number(10, 1) +
                 block(2, number(1, 1) + number(2, 1000) + number(5, 1)))
    packets = (block(12, b"".join(strings) + mapping + frame + stack), block(2, tree), block(37, heap))
    trace = write("evil", b"".join(block(1, number(10, 1) + packet) for packet in packets))
    mapped = write("map.txt", b"com.x.Y -> a:\n    void foo() -> f\n")
    for command in (["symbolize", trace, at("out")], ["bundle", "--verbose", trace, at("out")],
                    ["profile", "-o", at("evil-pprof"), trace], ["collapsed", "--dump", "9", trace],
                    ["deobfuscate", "--proguard-map", "a.b=" + mapped, trace, at("out")],
                    ["collapsed", trace], ["text", trace]):
        outcome = run([TRACECONV, *command], env=ENVIRONMENT)
        said = outcome.stdout + outcome.stderr
        check(len(said) > 0 and not re.search(rb"[\x00-\x09\x0b-\x1f\x7f]|\xc2[\x80-\x9f]|^next", said, re.M),
              f"traceconv {command[0]} commands the terminal: {said}")


def shows(wanted, command, feed=None, drain=None):
    """Return whether a command on a terminal shows `wanted` while its input arrives, or its output is read, bit by bit.

    It must erase the text and exit with 0 at the end. feed: (path, or None for standard input; the first bytes; bytes
    that are repeated; the last bytes)."""
    enough = threading.Event()
    source = None if feed is None or feed[0] is not None else os.pipe()

    def give(descriptor):
        with open(descriptor, "wb", buffering=0) as out:
            out.write(feed[1])
            while not enough.wait(0.05):
                out.write(feed[2])
            out.write(feed[3])

    def take(path):
        with open(path, "rb", buffering=0) as made:
            while made.read(1 << 16):
                enough.wait(0.05)

    terminal = Terminal(command, env=ENVIRONMENT, stdin=None if source is None else source[0])
    if source is not None:
        os.close(source[0])
    threads = []
    if feed is not None:
        threads.append(threading.Thread(target=give, args=(feed[0] or source[1],), daemon=True))
    if drain is not None:
        threads.append(threading.Thread(target=take, args=(drain,), daemon=True))
    for thread in threads:
        thread.start()
    terminal.wait(lambda _: wanted in terminal.output)
    check(wanted in terminal.output, f"{command} does not show {wanted}: {terminal.output[-300:]}")
    enough.set()
    status = terminal.end()
    for thread in threads:
        thread.join(20)
    told, _, after = terminal.output.rpartition(b"\r\x1b[K")
    check(status == 0 and wanted in told and wanted not in after, f"{command}: {status}, {terminal.output[-600:]}")
    terminal.close()


def test_progress():
    """Slow reading and writing show progress on a terminal, and erase it at the end."""
    trace = made_trace(20000)
    padding = block(1, number(10, 1)) * 20000
    dump = gzip.decompress(convert("memory_infra", "--dump", "final", at("made"), at("dump.json.gz"))
                           or open(at("dump.json.gz"), "rb").read())
    spaces = b" " * 70000
    of_trace, of_dump = (None, trace, padding, b""), (None, dump[:-1], spaces, dump[-1:])
    for command in (["memory_infra", "-", at("out.json")], ["collapsed", "-", at("out")],
                    ["profile", "-o", at("pprof"), "-"]):
        shows(b" MB ", [TRACECONV, *command], of_trace)
        shows(b" MB ", [TRACECONV, *command], of_dump)
    mapped = write("map.txt", b"com.x.Y -> a:\n    void foo() -> f\n")
    shows(b" MB ", [TRACECONV, "deobfuscate", "-q", "--proguard-map", mapped, "-", at("out")], of_trace)
    for command in (["report"], ["leaks"], ["check", "--undecided", "pass", "--max-live", "9G"]):
        shows(b" MB  ", [TOOL, *command, "-"], of_dump)
    os.mkfifo(at("slow"))
    lines = (at("slow"), b"com.x.Y -> a:\n", b"    void foo() -> f\n" * 9000, b"")
    shows(b" lines", [TRACECONV, "deobfuscate", "-q", "--proguard-map", at("slow"), at("made"), at("out")], lines)
    shows(b" MB written", [TRACECONV, "memory_infra", at("made"), at("slow")], drain=at("slow"))
    outcome = run([TRACECONV, "memory_infra", at("made"), at("out.json")], env=ENVIRONMENT)
    check(outcome.stderr == b"", f"progress without a terminal: {outcome.stderr}")


def report_of(path, view):
    outcome = run([TOOL, "report", "--json", "--view", view, path], env=ENVIRONMENT)
    check(outcome.status == 0, f"report: {outcome.stderr[-300:]}")
    return json.loads(outcome.stdout)


def folded(data):
    """Return the stacks of collapsed lines, by flamegraph.pl's own rule for a line."""
    stacks = {}
    for line in data.decode().splitlines():
        match = re.fullmatch(r"(.*)\s+?(\d+(?:\.\d*)?)", line)
        if not check(match is not None, f"no collapsed line: {line!r}"):
            continue
        check(not re.fullmatch(r"(.*)\s+?(\d+(?:\.\d*)?)", match[1]), f"taken for a comparison: {line!r}")
        stacks[match[1]] = stacks.get(match[1], 0) + int(match[2])
    return stacks


def dump_packet(samples, pid=7, heap=b"libc.malloc"):
    """Return one of Perfetto's profile packets with these samples: (callstack, allocated, freed)."""
    body = number(1, pid) + block(11, heap) + number(12, 4096) + number(13, 4096) + number(9, 2_000_000)
    for callstack, allocated, freed in samples:
        body += block(2, number(1, callstack) + number(2, allocated) + number(3, freed)
                      + number(5, allocated // 10) + number(6, freed // 10))
    return block(37, block(5, body))


def hostile_trace(heaps=((7, b"libc.malloc"),)):
    """Return a trace with a stack of frames that have strange names."""
    names = [b"a;b", b"two\nlines", b"ends 12", b"", b" ", b"operator new(unsigned long)", b"\xff\xfe", b"t\ta\rb 1.5"]
    interned = b""
    for i, name in enumerate(names):
        interned += block(5, number(1, i + 1) + block(2, name))
        interned += block(6, number(1, i + 1) + number(2, i + 1) + number(3, 1) + number(4, 0x100 + i))
    interned += block(17, number(1, 1) + block(2, b"lib;x")) + block(19, number(1, 1) + number(7, 1) + number(4, 4096))
    for i in range(len(names)):
        frames = b"".join(number(2, j + 1) for j in range(i + 1))
        interned += block(7, number(1, i + 1) + frames)
    packets = block(1, number(10, 1) + number(13, 1) + block(12, interned))
    tree = b"".join(block(1, number(1, pid) + block(3, b"/bin/pro;g %d" % pid)) for pid in {pid for pid, _ in heaps})
    packets += block(1, number(10, 1) + block(2, tree))
    samples = [(i + 1, 1000 * (i + 1), 100) for i in range(len(names))]
    for pid, heap in heaps:
        packets += block(1, number(10, 1) + number(13, 2) + number(8, 3_000_000) + dump_packet(samples, pid, heap))
    return packets


def test_collapsed():
    """Collapsed stacks have the report's figures, and no name breaks a line."""
    trace = write("trace", made_trace())
    for view in VIEWS:
        stacks = folded(convert("collapsed", "--view", view, trace))
        total, figure = sum(stacks.values()), total_of(trace, view)
        check(abs(total - figure) <= 0.5001, f"{view}: {total}, and {figure} in the report")
    first = sum(folded(convert("collapsed", "--dump", "1", trace)).values())
    last = sum(folded(convert("collapsed", "--dump", "final", trace)).values())
    check(abs(last - 2 * first) <= 2, f"dumps: {first}, {last}")
    lines = convert("collapsed", stdin=hostile_trace()).decode().splitlines()
    check(len(lines) == 8, f"{len(lines)} lines: {lines}")
    stacks = folded("\n".join(lines).encode())
    frames = "a:b;two lines;ends_12;0x103 @ lib:x;?;operator new(unsigned long)"
    check(sum(stacks.values()) == 36_000 - 800, f"{stacks}")
    check(stacks.get(frames) == 5900, f"{list(stacks)}")
    check(all("\t" not in stack and "\r" not in stack for stack in stacks), f"{list(stacks)}")
    check(any(stack.endswith(";??;t a b_1.5") for stack in stacks), f"{list(stacks)}")


def total_of(trace, view):
    """Return the sum over the callsites of the first heap, as reported."""
    return report_of(trace, view)["heaps"][0]["total"][view]["estimate"]


def test_chosen_heaps():
    """Processes and heaps become frames if there are several, and can be selected."""
    trace = write("trace", hostile_trace(((7, b"libc.malloc"), (8, b"libc.malloc"), (8, b"own;heap"))))
    stacks = folded(convert("collapsed", trace))
    outer = {tuple(stack.split(";")[:2]) for stack in stacks}
    check(("pro:g 7 (7)", "a:b") in outer and ("pro:g 8 (8)", "libc.malloc") in outer
          and ("pro:g 8 (8)", "own:heap") in outer, f"{outer}")
    check(len(stacks) == 24 and sum(stacks.values()) == 3 * 35_200, f"{len(stacks)} stacks")
    chosen = folded(convert("collapsed", "--pid", "8", "--heap", "own;heap", trace))
    check(all(stack.startswith("a:b") for stack in chosen) and len(chosen) == 8, f"{list(chosen)}")
    made = json.loads(convert("speedscope", "--pid", "8", trace))
    check(len(made["profiles"]) == 8, f"{[p['name'] for p in made['profiles']]}")
    for arguments, said in ((["--pid", "9"], "libc.malloc of process 7 (1 dump), libc.malloc of process 8"),
                            (["--dump", "3"], "no requested heap has a dump 3"),
                            (["--heap", "x"], "own;heap of process 8")):
        for verb in ("collapsed", "flamegraph", "speedscope"):
            check(said in convert(verb, *arguments, trace, status=1), f"{verb} {arguments}: {said}")
    for arguments, said in ((["--view", "spaces"], "not 'spaces'"), (["--dump", "0"], "counts from 1"),
                            (["--pid", "x"], "traceconv: --pid takes a whole number")):
        check(said in convert("collapsed", *arguments, trace, status=2), f"{arguments}")
    check("there is nothing in the view max" in run([TRACECONV, "collapsed", "--view", "max", trace],
                                                    env=ENVIRONMENT).stderr.decode(), "an empty view")


def check_schema(made):
    """Check what Speedscope's schema requires of a file of sampled profiles."""
    check(made["$schema"] == "https://www.speedscope.app/file-format-schema.json", "the schema's name")
    check(set(made) <= {"$schema", "exporter", "name", "activeProfileIndex", "shared", "profiles"}, f"{set(made)}")
    check(0 <= made["activeProfileIndex"] < len(made["profiles"]), "the active profile")
    for frame in made["shared"]["frames"]:
        check(isinstance(frame["name"], str) and frame["name"] != "" and set(frame) <= {"name", "file", "line", "col"}
              and isinstance(frame.get("line", 0), int) and isinstance(frame.get("file", ""), str), f"{frame}")
    for profile in made["profiles"]:
        check(set(profile) == {"type", "name", "unit", "startValue", "endValue", "samples", "weights"}
              and profile["type"] == "sampled" and profile["unit"] in ("bytes", "none"), f"{profile['name']}")
        check(len(profile["samples"]) == len(profile["weights"]), "as many weights as samples")
        check(sum(profile["weights"]) == profile["endValue"] - profile["startValue"], "weights and bounds")
        count = len(made["shared"]["frames"])
        check(all(0 <= frame < count for stack in profile["samples"] for frame in stack), "a reference to a missing frame")
        check(all(weight > 0 for weight in profile["weights"]), "weights")


def test_speedscope():
    """Speedscope files have every view, with the report's figures, and follow the schema."""
    trace = write("trace", made_trace())
    made = json.loads(convert("speedscope", trace))
    check_schema(made)
    check([re.search(r"\((\w+)\)$", p["name"])[1] for p in made["profiles"]] == list(VIEWS), "views")
    for profile, view in zip(made["profiles"], VIEWS):
        figure = total_of(trace, view)
        check(abs(profile["endValue"] - figure) <= 0.5001, f"{view}: {profile['endValue']}, {figure}")
        check(profile["unit"] == ("none" if view.endswith("objects") else "bytes"), f"{view}: {profile['unit']}")
    hostile = json.loads(convert("speedscope", stdin=hostile_trace()))
    check_schema(hostile)
    check({"a;b", "two\nlines", "\ufffd\ufffd"} <= {frame["name"] for frame in hostile["shared"]["frames"]}, "names")


SPEEDSCOPE = "1.25.0"


def speedscope_package():
    """Return the directory of the npm package, which is fetched once for a build."""
    package = os.path.join(BUILD, "tests", "npm", f"speedscope-{SPEEDSCOPE}")
    if os.path.isdir(package):
        return package
    need("npm", "node")
    directory = tempfile.mkdtemp(prefix="npm-", dir=WORK)
    fetched = run(["npm", "pack", "--silent", f"speedscope@{SPEEDSCOPE}"], cwd=directory, timeout=60)
    if fetched.status != 0:
        skip(f"npm cannot be reached: {fetched.stderr.decode(errors='replace')[-200:]}")
    shutil.unpack_archive(os.path.join(directory, f"speedscope-{SPEEDSCOPE}.tgz"), directory)
    os.makedirs(os.path.dirname(package), exist_ok=True)
    try:
        os.rename(os.path.join(directory, "package"), package)
    except OSError:
        check(os.path.isdir(package), "the package cannot be kept")  # another test has fetched it meanwhile
    return package


def test_speedscope_imports():
    """Speedscope's own importer reads both outputs, and finds the same stacks."""
    need("node")
    package = speedscope_package()
    for what, trace in (("made", made_trace()), ("hostile", hostile_trace())):
        path = write(f"{what}.trace", trace)
        files = [at(f"{what}.json"), at(f"{what}.folded")]
        convert("speedscope", path, files[0])
        convert("collapsed", path, files[1])
        outcome = run(["node", os.path.join(ROOT, "tests", "e2e", "speedscope_import.js"), package, *files])
        if not check(outcome.status == 0, f"the importer failed: {outcome.stderr[-400:]}"):
            return
        ours, lines = json.loads(outcome.stdout)
        check(ours["log"] == ["Importing as speedscope json file"], f"{ours['log']}")
        check(lines["log"] == ["Importing as collapsed stack format"], f"{lines['log']}")
        made = json.load(open(files[0]))
        for theirs, written in zip(ours["profiles"], made["profiles"]):
            check(theirs["name"] == written["name"] and theirs["total"] == written["endValue"]
                  and theirs["unit"] == written["unit"], f"{theirs['name']}, {theirs['total']}")
        check(lines["profiles"][0]["stacks"] == folded(open(files[1], "rb").read()), f"{what}: other stacks")
        if what == "made":
            space = ours["profiles"][0]
            check(space["stacks"] == lines["profiles"][0]["stacks"], "both outputs have the same stacks")


# --- pprof ---


def test_profile_options():
    """traceconv profile writes the requested dumps, plain or gzipped."""
    trace = write("trace", made_trace(200))
    convert("profile", "-o", at("plain"), trace)
    convert("profile", "--gzip", "-o", at("zipped"), trace)
    plain = sorted(os.listdir(at("plain")))
    check(sorted(os.listdir(at("zipped"))) == [name + ".gz" for name in plain] and len(plain) == 2, f"{plain}")
    for name in plain:
        bytes_of = open(at("plain/" + name), "rb").read()
        check(gzip.open(at(f"zipped/{name}.gz")).read() == bytes_of, f"{name} is another when gzipped")
    said = convert("profile", "--timestamps", "5", trace, status=1)
    times = re.findall(r"\d{6,}", said.split("there are:")[-1])
    check(len(times) == 2, said)
    for i, time in enumerate(times):
        convert("profile", "--timestamps", time, "-o", at(f"one{i}"), trace)
        check(os.listdir(at(f"one{i}")) == [plain[i]], f"{time}: {os.listdir(at(f'one{i}'))}")
    convert("profile", "--timestamps", ",".join(times), "-o", at("both"), trace)
    check(sorted(os.listdir(at("both"))) == plain, "two times")
    several = write("several", hostile_trace(((7, b"libc.malloc"), (8, b"libc.malloc"), (9, b"own"))))
    convert("profile", "--pid", "7", "--pid", "9", "-o", at("two"), several)
    convert("profile", "--pid", "7,9", "-o", at("list"), several)
    names = sorted(name.split(".")[1] for name in os.listdir(at("two")))
    check(names == ["7", "9"] and sorted(os.listdir(at("list"))) == sorted(os.listdir(at("two"))), f"{names}")
    for arguments, status, said in (
        (["--pid", "7,5"], 1, "no heap profile of process 5 in it, but of: 7, 8, 9"),
        (["--pid", "7", "--timestamps", "1"], 1, "no dump is at 1; there are: 2000000"),
        (["--pid", ""], 2, "--pid takes"), (["--timestamps", "1,x"], 2, "--timestamps takes times of dumps"),
        (["--timestamps", "-1"], 2, "not '-1'"),
    ):
        check(said in convert("profile", *arguments, several, status=status), f"{arguments}: not {said!r}")
    made = convert("profile", several).decode().strip()
    check(made.startswith(WORK + "/heap_profile-") and len(os.listdir(made)) == 3, made)


def test_profile_warnings():
    """Profiles that ended early or never began are reported, each once, and no others."""
    interned = hostile_trace()
    flags = ((21, 7, 1, "process 21 (?): ended early: the process allocated faster than the profiler could read"),
             (22, 8, 1, "process 22 (?): ended early: the process overwrote the memory"),
             (23, 10, 1, "process 23 (?): ended early: the profiler reached its limit"),
             (24, 14, 1, "process 24 (?): ended early: a thread waited for the profiler longer"),
             (26, 14, 5000, "process 26 (?): ended early: the profiler gave no sign of life for 5 s"),
             (25, 4, 1, "process 25 (?): no profile: another session was profiling this process"))
    trace = interned
    for pid, field, value, _ in flags:
        for heap in (b"libc.malloc", b"own"):
            body = number(1, pid) + number(field, value) + block(11, heap) + number(12, 4096) + number(9, 2_000_000)
            trace += block(1, number(10, 1) + number(13, 2) + number(8, 3_000_000) + block(37, block(5, body)))
    # Perfetto's statistics count 3 stacks that ended in an error.
    body = number(1, 27) + block(2, number(1, 1) + number(2, 64) + number(5, 1)) + block(5, number(1, 3))
    trace += block(1, number(10, 1) + number(13, 2) + number(8, 3_000_000) + block(37, block(5, body + block(11, b"own"))))
    outcome = run([TRACECONV, "profile", "-o", at("all")], stdin=trace, env=ENVIRONMENT)
    said = outcome.stderr.decode()
    check(outcome.status == 0, said)
    for pid, _, _, words in flags:
        words = re.escape(words).replace(r"\(\?\)", r"\(.*\)")
        check(len(re.findall(words, said)) == 1, f"{words}: {said}")
    check(said.count("warning:") == len(flags), said)
    (name,) = [name for name in os.listdir(at("all")) if ".27.own." in name]
    with open(os.path.join(at("all"), name), "rb") as file:
        check(b"incomplete: 3 stacks that end before" in file.read(), "stacks with errors")
    only = run([TRACECONV, "profile", "--pid", "7", "-o", at("seven")], stdin=trace, env=ENVIRONMENT).stderr.decode()
    check("warning" not in only, only)


SOURCE = """#include <stdlib.h>
#include <string.h>
static void *kept[100];
static inline __attribute__((always_inline)) void *take(size_t size) {
    return malloc(size); /* here */
}
__attribute__((noinline)) void fill(void) {
    for (int i = 0; i < 100; i++)
        memset(kept[i] = take(10000), 1, 10000);
}
int main(void) { fill(); return kept[7] == NULL; }
"""


def symbolized():
    """Record a program with lines and an inlined function. Return its trace with symbols."""
    need("gcc")
    source = write("source.c", SOURCE.encode())
    built = run(["gcc", "-g", "-O2", "-o", at("built"), source])
    check(built.status == 0, f"gcc: {built.stderr[-300:]}")
    trace = profiled("run", at("built"), options=("-i", "1"))
    return write("symbolized", trace + convert("symbolize", "-q", "-", stdin=trace))


def test_names_once():
    """Names that the frames of a trace already have are not written again as symbols."""
    quiet = ("symbolize", "--quiet", "--no-cache", "--no-auto-symbol-paths")
    source = write("named.c", b"#include <stdlib.h>\n"
                              b"__attribute__((noinline)) void *asks(int n) { return malloc(n); }\n"
                              b"int main(void) { for (int i = 0; i < 99; i++) *(volatile char *)asks(i + 1) = 1; }\n")
    check(run(["cc", "-O1", "-Wl,--build-id", source, "-o", at("named-program")]).status == 0, "cc failed")
    trace = profiled("named", at("named-program"), options=("-i", "1"))
    nameless = re.sub(rb"\n *function_name_id: \d+", b"", convert("text", stdin=trace))
    nameless = write("nameless", convert("binary", stdin=nameless))
    places = ("--symbol-paths", WORK)
    index = {**ENVIRONMENT, "PERFETTO_SYMBOLIZER_MODE": "index"}
    found = [run([TRACECONV, *quiet, *places, path], env=index).stdout for path in (at("named/raw-trace"), nameless)]
    check(b"asks" not in found[0] and b"main" not in found[0], "names that the trace has are written again")
    check(b"asks" in found[1] and b"main" in found[1], "names that the trace has not are missing")


def test_pprof_lists():
    """Go's pprof and the other outputs have files and lines, also of inlined functions."""
    need("go")
    trace = symbolized()
    convert("profile", "-o", at("pprof"), trace)
    name = next(name for name in os.listdir(at("pprof")) if "libc.malloc" in name and "final" in name)
    environment = dict(ENVIRONMENT, GOFLAGS="-mod=mod", GOTELEMETRY="off", GOPROXY="off", PPROF_TMPDIR=WORK)
    listed = run(["go", "tool", "pprof", "-symbolize=none", "-sample_index=alloc_space", "-unit=B", "-list", "^(take|fill)$",
                  at("pprof/" + name)], env=environment).stdout.decode()
    line = SOURCE.split("/* here */")[0].count("\n") + 1
    check(re.search(rf"1000000B +1000000B[^\n]*\b{line}:.*malloc\(size\); /\* here", listed), listed[-1500:])
    check(re.search(r"1000000B +\d+:.*take\(10000\)", listed), listed[-1500:])
    stacks = folded(convert("collapsed", "--view", "alloc_space", trace))
    check(any(stack.endswith("main;fill;take") and value == 1_000_000 for stack, value in stacks.items()), f"{stacks}")
    frames = json.loads(convert("speedscope", trace))["shared"]["frames"]
    check({"name": "take", "file": at("source.c"), "line": line} in frames, f"{frames}")


if __name__ == "__main__":
    main()
