# SPDX-License-Identifier: Apache-2.0
"""Files that cost a reader as much as possible for their size; sizes.py and bench/hostile_sizes.py open them.

Each function takes a directory and a scale, writes one file there and returns its path. A file of scale n has about n KiB,
packed or not."""

import gzip
import io
import os
import subprocess
import tarfile
import zlib

from perfetto_bytes import (
    callstack, clocks, deobfuscation, double, field, frame, heap_samples, interned, memory_snapshot, module_symbols, packet,
    process_tree, profile_packet, sample, smaps, snapshot, string, text, varint,
)

SEQUENCE = {"timestamp": 9, "sequence": 1}


def write(directory, name, *parts):
    path = os.path.join(directory, name)
    with open(path, "wb") as out:
        for part in parts:
            out.write(part if isinstance(part, bytes) else part.encode())
    return path


# --- Perfetto traces ---


def tables(**entries):
    """Return a packet of interned data that begins its sequence."""
    return packet(interned(**entries), flags=1, **SEQUENCE)


USUAL = tables(names={1: "main", 2: "f"}, frames=[(1, 0, 0, 1), (2, 0, 8, 2)], stacks={1: [1], 2: [1, 2]})


def dump(heaps, index=0):
    return packet(profile_packet(heaps, index), **SEQUENCE)


ONE_SAMPLE = dump([heap_samples(7, [sample(1, 100, 0, 1)], 10)])


def dump_of_stacks(count):
    """Return a dump with a sample of each stack below count."""
    return dump([heap_samples(7, [sample(i, 100, 0, 1) for i in range(1, count)], 10)])


def trace(directory, name, *parts):
    return write(directory, name + ".pb", clocks(1000, 1100), *parts)


def sequences(directory, scale):
    """Packets that only begin a sequence."""
    count = scale * 1024 // 8
    return trace(directory, "sequences", USUAL, ONE_SAMPLE,
                 b"".join(packet(b"", sequence=i + 2, flags=1) for i in range(count)))


def sequences_interning(directory, scale):
    """Sequences that each intern one name."""
    count = scale * 1024 // 20
    return trace(directory, "sequences_interning", USUAL, ONE_SAMPLE,
                 b"".join(packet(interned(names={1: "f"}), sequence=i + 2, flags=1) for i in range(count)))


def batches(heaps):
    """Dumps of some hundred heaps each, so that no packet is as large as the file."""
    return [dump(heaps[i:i + 500], i // 500) for i in range(0, len(heaps), 500)]


def trace_processes(directory, scale):
    """Processes with one sample each, in one dump."""
    count = scale * 1024 // 45
    tree = process_tree([(i + 1, 1, ["p"]) for i in range(count)])
    return trace(directory, "trace_processes", USUAL, tree,
                 dump([heap_samples(i + 1, [sample(1 + i % 2, 100 + i, 0, 1)], 10) for i in range(count)]))


def trace_heaps(directory, scale):
    """Heaps of one process."""
    count = scale * 1024 // 30
    return trace(directory, "trace_heaps", USUAL,
                 dump([heap_samples(7, [sample(1, 100 + i, 0, 1)], 10, heap=f"h{i}") for i in range(count)]))


def trace_dumps(directory, scale):
    """Dumps of one process and one sample."""
    count = scale * 1024 // 30
    return trace(directory, "trace_dumps", USUAL,
                 b"".join(dump([heap_samples(7, [sample(1, 100 + i, 0, 1)], 10 + i)], i) for i in range(count)))


def trace_dumps_callsites(directory, scale):
    """Half of the file are callsites of the first dump, the other half are dumps of one sample."""
    count, dumps = scale * 1024 // 60, scale * 1024 // 60
    stacks = tables(names={1: "f"}, frames=[(i, 0, i, 1) for i in range(1, count)],
                    stacks={i: [i] for i in range(1, count)})
    return trace(directory, "trace_dumps_callsites", stacks,
                 dump_of_stacks(count),
                 b"".join(dump([heap_samples(7, [sample(1, 100 + i, 0, 1)], 11 + i)], i + 1) for i in range(dumps)))


def trace_heaps_dumps(directory, scale):
    """Many heaps, then dumps that each have another heap."""
    count = scale * 1024 // 90
    return trace(directory, "trace_heaps_dumps", USUAL,
                 b"".join(dump([heap_samples(i % 5 + 1, [sample(1, 100 + i, 0, 1)], 10 + i, heap=f"h{i}"),
                                heap_samples(i % 5 + 1, [sample(1, 100 + i, 0, 1)], 10 + i, heap=f"h{i // 2}")], i)
                          for i in range(count)))


def trace_chain(directory, scale):
    """One stack of many different frames."""
    count = scale * 1024 // 16
    return trace(directory, "trace_chain",
                 tables(names={1: "f"}, frames=[(i, 0, i, 1) for i in range(1, count)], stacks={1: list(range(1, count))}),
                 ONE_SAMPLE)


def trace_recursion(directory, scale):
    """One stack that repeats one frame."""
    return trace(directory, "trace_recursion",
                 tables(names={1: "f"}, frames=[(1, 0, 8, 1)], stacks={1: [1] * (scale * 512)}),
                 ONE_SAMPLE)


def trace_chain_inlined(directory, scale):
    """A frame of many inlined functions, in many callsites."""
    count = scale * 1024 // 60
    stacks = tables(names={1: "f"}, paths={1: "lib"}, build_ids={1: b"\1\2\3\4"}, mappings=[(1, 1, 0x1000, 0x9000, [1])],
                    frames=[(1, 1, 0x1234, 0)] + [(i, 0, i, 1) for i in range(2, count)],
                    stacks={i: [i, 1] for i in range(2, count)})
    lines = [("g", "", 0)] * (scale * 1024 // 20)
    return trace(directory, "trace_chain_inlined", stacks,
                 dump([heap_samples(7, [sample(i, 100, 0, 1) for i in range(2, count)], 10)]),
                 module_symbols("/lib", b"\1\2\3\4", {0x1234: lines}))


def trace_interned(directory, scale):
    """Ids of every kind, each used once."""
    count = scale * 1024 // 110
    return trace(directory, "trace_interned",
                 tables(names={i: f"f{i}" for i in range(1, count)}, paths={i: f"p{i}" for i in range(1, count)},
                        build_ids={i: b"%08d" % i for i in range(1, count)},
                        mappings=[(i, i, i << 12, i + 1 << 12, [i]) for i in range(1, count)],
                        frames=[(i, i, i, i) for i in range(1, count)], stacks={i: [i] for i in range(1, count)}),
                 dump_of_stacks(count))


def trace_interned_far(directory, scale):
    """Ids that are far apart, which collide in a weak hash table."""
    count = scale * 1024 // 60
    ids = [(i << 44) + 1 for i in range(1, count)]
    return trace(directory, "trace_interned_far",
                 tables(names={i: "f" for i in ids}, frames=[(i, 0, i, i) for i in ids], stacks={i: [i] for i in ids}),
                 dump([heap_samples(7, [sample(i, 100, 0, 1) for i in ids], 10)]))


def trace_reinterned(directory, scale):
    """An id that gets another meaning before each dump; of the dump's many callsites, one changes."""
    count = scale * 1024 // 80
    stacks = tables(names={1: "f", 2: "g"}, frames=[(i, 0, i, 1) for i in range(1, count // 2)],
                    stacks={i: [i] for i in range(1, count // 2)})
    parts = [dump([heap_samples(7, [sample(i, 100, 0, 1) for i in range(1, count // 2)], 10)])]
    for i in range(count):
        parts.append(packet(interned(names={2: f"g{i}"}) + profile_packet(
            [heap_samples(7, [sample(1, 100 + i, 0, 1)], 11 + i)], i + 1), **SEQUENCE))
    return trace(directory, "trace_reinterned", stacks, *parts)


def trace_cleared(directory, scale):
    """A sequence that restarts again and again."""
    count = scale * 1024 // 60
    return trace(directory, "trace_cleared", b"".join(
        USUAL + dump([heap_samples(7, [sample(1, 100 + i, 0, 1)], 10 + i)], i) for i in range(count * 60 // 110)))


def trace_long_name(directory, scale):
    """One long name of many frames."""
    count = scale * 512 // 24
    return trace(directory, "trace_long_name",
                 tables(names={1: "f" * (scale * 512)}, frames=[(i, 0, i, 1) for i in range(1, count)],
                        stacks={i: [i] for i in range(1, count)}),
                 dump_of_stacks(count))


def trace_long_path(directory, scale):
    """A path of many parts, of many mappings."""
    count = scale * 512 // 30
    path = list(range(1, 3)) * (scale * 128)
    return trace(directory, "trace_long_path",
                 tables(names={1: "f"}, paths={1: "a" * 20, 2: "b" * 20},
                        mappings=[(i, 0, i << 12, i + 1 << 12, path if i == 1 else [1]) for i in range(1, count)],
                        frames=[(i, i, i, 1) for i in range(1, count)], stacks={i: [i] for i in range(1, count)}),
                 dump_of_stacks(count))


def trace_long_shared_path(directory, scale):
    """A long text that is part of many mappings' paths."""
    count = scale * 512 // 30
    return trace(directory, "trace_long_shared_path",
                 tables(names={1: "f"}, paths={1: "a" * (scale * 512)},
                        mappings=[(i, 0, i << 12, i + 1 << 12, [1, 1]) for i in range(1, count)],
                        frames=[(i, i, i, 1) for i in range(1, count)], stacks={i: [i] for i in range(1, count)}),
                 dump_of_stacks(count))


def trace_mangled(directory, scale):
    """A mangled name whose substitutions demangle to an exponentially long text."""
    nested = "1a"
    for _ in range(scale * 4):
        nested = f"1bI{nested}E" if len(nested) < 60000 else nested
    pairs = "_Z1f" + "St4pairI" * 30 + "ii" + "E" + "S_E" * 29
    names = {1: "_Z1f" + nested, 2: pairs, 4: "_Z" + "N" * 50000, 5: "_Z1f" + "P" * 60000 + "i"}
    for i in range(scale):
        names[10 + i] = "_Z1f" + "".join(f"1a{'I' if j % 2 else ''}" for j in range(100)) + f"{i}"
    chain = "_Z1fI" + "1aI" * 20
    expanding = "_Z1f" + "1aI1b1cE" + "".join(f"1aIS{'_' if i == 0 else f'{i - 1:X}_'}S{'_' if i == 0 else f'{i - 1:X}_'}E"
                                               for i in range(40))
    names[6], names[7] = chain, expanding
    return trace(directory, "trace_mangled",
                 tables(names=names, frames=[(i, 0, i, i) for i in names], stacks={i: [i] for i in names}),
                 dump([heap_samples(7, [sample(i, 100, 0, 1) for i in names], 10)]))


def trace_mappings(directory, scale):
    """Mappings that overlap, and frames in them."""
    count = scale * 1024 // 60
    return trace(directory, "trace_mappings",
                 tables(names={1: "f"}, paths={1: "lib"}, mappings=[(i, 0, 0x1000, 0x100000 + i, [1]) for i in range(1, count)],
                        frames=[(i, i, 0x2000 + i, 1) for i in range(1, count)], stacks={i: [i] for i in range(1, count)}),
                 dump_of_stacks(count))


def trace_unnamed(directory, scale):
    """Frames without names in modules without symbols, which reports explain."""
    count = scale * 1024 // 70
    return trace(directory, "trace_unnamed",
                 tables(paths={i: f"lib{i}" for i in range(1, count)}, build_ids={i: b"%08d" % i for i in range(1, count)},
                        mappings=[(i, i, i << 12, i + 1 << 12, [i]) for i in range(1, count)],
                        frames=[(i, i, 0x2000 + i, 0) for i in range(1, count)], stacks={i: [i] for i in range(1, count)}),
                 dump_of_stacks(count))


def trace_process_tree(directory, scale):
    """Processes and threads without any other data."""
    count = scale * 1024 // 50
    return trace(directory, "trace_process_tree", USUAL,
                 process_tree([(i + 1, i, ["p"]) for i in range(count)], [(i + 5, i + 1, f"t{i}") for i in range(count)]),
                 ONE_SAMPLE)


def trace_renamed(directory, scale):
    """A process and a thread that are named again and again, in separate packets."""
    count = scale * 1024 // 50
    return trace(directory, "trace_renamed", USUAL,
                 *(process_tree([(7, 1, [f"p{i}"])], [(7 + i % 9, 7, f"t{i}")]) for i in range(count)),
                 ONE_SAMPLE)


def trace_smaps(directory, scale):
    """SmapsPackets with one entry each, and one packet with many."""
    count = scale * 1024 // 60
    return trace(directory, "trace_smaps", USUAL, *(smaps(7 + i % 50, 20 + i, [(f"lib{i}", 4, 4, 0)]) for i in range(count)),
                 smaps(7, 10, [("lib", 4, 4, 0)] * count), ONE_SAMPLE)


def trace_looks(directory, scale):
    """Memory snapshots of processes."""
    count = scale * 1024 // 30
    return trace(directory, "trace_looks", USUAL,
                 *(memory_snapshot(7 + i % 5000, 20 + i, {1: (4, 0, 4, 1), 2: (4, 0, 4, 1)}, {}) for i in range(count)),
                 ONE_SAMPLE)


def trace_clocks(directory, scale):
    """ClockSnapshots, and packets with clocks of their own."""
    count = scale * 1024 // 60
    return trace(directory, "trace_clocks", USUAL,
                 *(snapshot({64 + i % 1000: 10 + i, 6: 1000 + i}, sequence=1) for i in range(count)),
                 *(packet(field(68, field(1, 7) + field(2, text(1, "x"))), timestamp=50 + i, sequence=1, clock=64 + i % 1000)
                   for i in range(count)),
                 ONE_SAMPLE)


def trace_clock_kinds(directory, scale):
    """Clocks that each appear once, and packets with clocks that no snapshot relates to others."""
    count = scale * 1024 // 60
    return trace(directory, "trace_clock_kinds", USUAL,
                 *(snapshot({64 + i: 10 + i, 65 + i: 1000 + i}, sequence=1) for i in range(count)),
                 *(packet(field(68, field(1, 7) + field(2, text(1, "x"))), timestamp=50 + i, sequence=1, clock=64 + i)
                   for i in range(count)),
                 ONE_SAMPLE)


def trace_symbols(directory, scale):
    """Repeated ModuleSymbols of one module; the addresses are all equal or all different."""
    count = scale * 1024 // 60
    stacks = tables(names={1: "f"}, paths={1: "lib"}, build_ids={1: b"\1\2\3\4"}, mappings=[(1, 1, 0x1000, 0x9000000, [1])],
                    frames=[(i, 1, 0x1000 + i, 0) for i in range(1, count)], stacks={i: [i] for i in range(1, count)})
    return trace(directory, "trace_symbols", stacks,
                 dump_of_stacks(count),
                 *(module_symbols("/lib", b"\1\2\3\4", {0x1000 + i: [(f"g{i}", "a.c", 3)]}) for i in range(count)))


def trace_deobfuscation(directory, scale):
    """Repeated DeobfuscationMappings of one class, and of one member."""
    count = scale * 1024 // 60
    return trace(directory, "trace_deobfuscation",
                 tables(names={i: f"a.m{i % 7}" for i in range(1, count)}, frames=[(i, 0, i, i) for i in range(1, count)],
                        stacks={i: [i] for i in range(1, count)}),
                 dump_of_stacks(count),
                 *(deobfuscation("", {"a": (f"A{i % 3}", {f"m{i % 7}": f"method{i}"})}) for i in range(count)))


def trace_line_ranges(directory, scale):
    """A method with many line ranges, and as many frames."""
    count = scale * 1024 // 50
    members = b"".join(field(4, text(1, "m") + text(2, f"n{i}") + field(3, 2 * i + 1) + field(4, 2 * i + 2)) for i in range(count))
    interned_frames = b"".join(field(6, frame(i, 0, i, 1) + field(5, 1) + field(6, 2 * i)) for i in range(1, count))
    stacks = b"".join(field(7, callstack(i, [i])) for i in range(1, count))
    names = field(5, string(1, "a.m")) + field(18, string(1, "A.java"))
    return trace(directory, "trace_line_ranges", packet(field(12, names + interned_frames + stacks), flags=1, **SEQUENCE),
                 dump_of_stacks(count),
                 packet(field(64, field(3, text(1, "a") + text(2, "A") + members))))


def trace_cross(directory, scale):
    """Equal numbers of callsites and processes."""
    count = scale * 1024 // 110
    return trace(directory, "trace_cross",
                 tables(names={1: "f"}, frames=[(i, 0, i, 1) for i in range(1, count)], stacks={i: [i] for i in range(1, count)}),
                 process_tree([(i + 1, 1, ["p"]) for i in range(count)]),
                 dump([heap_samples(i + 1, [sample(1 + i % (count - 1), 100 + i, 0, 1)], 10) for i in range(count)]))


def trace_heaps_callsites(directory, scale):
    """Half of the file are callsites of one heap, the other half are heaps of one sample."""
    count, heaps = scale * 1024 // 90, scale * 1024 // 90
    stacks = tables(names={1: "f"}, frames=[(i, 0, i, 1) for i in range(1, count)],
                    stacks={i: [i] for i in range(1, count)})
    return trace(directory, "trace_heaps_callsites", stacks, *batches(
        [heap_samples(7, [sample(i, 100, 0, 1) for i in range(1, count)], 10)]
        + [heap_samples(7, [sample(1 + i % (count - 1), 100 + i, 0, 1)], 10, heap=f"h{i}") for i in range(heaps)]))


def trace_heaps_chain(directory, scale):
    """A chain of callers in each of many heaps."""
    count, heaps = scale * 1024 // 24, scale * 1024 // 90
    return trace(directory, "trace_heaps_chain",
                 tables(names={1: "f"}, frames=[(i, 0, i, 1) for i in range(1, count)], stacks={1: list(range(1, count))}),
                 *batches([heap_samples(7, [sample(1, 100 + i, 0, 1)], 10, heap=f"h{i}") for i in range(heaps)]))


def trace_unseen(directory, scale):
    """Processes whose heaps are empty."""
    count = scale * 1024 // 60
    tree = process_tree([(i + 1, 1, [f"p{i}"]) for i in range(count)])
    return trace(directory, "trace_unseen", USUAL, tree, *batches([heap_samples(i + 1, [], 10) for i in range(count)]))


def trace_line_overlaps(directory, scale):
    """A method whose line ranges all overlap, and as many frames."""
    count = scale * 1024 // 50
    members = b"".join(field(4, text(1, "m") + text(2, f"n{i}") + field(3, i + 1) + field(4, 2 * count - i)) for i in range(count))
    interned_frames = b"".join(field(6, frame(i, 0, i, 1) + field(5, 1) + field(6, i)) for i in range(1, count))
    stacks = b"".join(field(7, callstack(i, [i])) for i in range(1, count))
    names = field(5, string(1, "a.m")) + field(18, string(1, "A.java"))
    return trace(directory, "trace_line_overlaps",
                 packet(field(12, names + interned_frames + stacks), flags=1, **SEQUENCE),
                 dump_of_stacks(count),
                 packet(field(64, field(3, text(1, "a") + text(2, "A") + members))))


def trace_streamed(directory, scale):
    """Streamed allocations and frees in many heaps."""
    count = scale * 1024 // 24
    return trace(directory, "trace_streamed", USUAL,
                 *(packet(field(74, b"".join(field(n, i) for n in (1, 2, 3, 4, 5, 7))), **SEQUENCE) for i in range(count)),
                 ONE_SAMPLE)


def trace_parts(directory, scale):
    """Samples with many threads and types, and with contexts of many names."""
    count = scale * 1024 // 70
    tags = b"".join(field(5000, field(1, i) + text(2, f"T{i}")) for i in range(1, count))
    tags += b"".join(field(5001, field(1, i) + field(2, i) + field(2, max(i - 1, 1))) for i in range(1, count))
    body = field(1, 1) + field(2, 100) + field(5, 1)
    parts = b"".join(field(5005, field(1, i) + field(2, double(1, 1.0)) + field(3, i) + field(4, i)) for i in range(1, count))
    return trace(directory, "trace_parts", USUAL, packet(field(12, tags), **SEQUENCE),
                 dump([heap_samples(7, [body + parts], 10)]))


def trace_long_contexts(directory, scale):
    """Contexts that contain one long text many times."""
    count = scale * 512 // 20
    tags = field(5000, field(1, 1) + text(2, "T" * (scale * 256)))
    tags += b"".join(field(5001, field(1, i) + field(2, 1) * 8) for i in range(1, count))
    body = field(1, 1) + field(2, 100) + field(5, 1)
    parts = b"".join(field(5005, field(1, i) + field(2, double(1, 1.0)) + field(4, i)) for i in range(1, count))
    return trace(directory, "trace_long_contexts", USUAL, packet(field(12, tags), **SEQUENCE),
                 dump([heap_samples(7, [body + parts], 10)]))


def trace_parts_dumps(directory, scale):
    """A sample with many parts, and dumps that each change one part."""
    count = scale * 512 // 50
    body = field(1, 1) + field(2, 100) + field(5, 1)
    parts = b"".join(field(5005, field(1, i) + field(2, double(1, 1.0))) for i in range(1, count))
    return trace(directory, "trace_parts_dumps", USUAL, dump([heap_samples(7, [body + parts], 10)]),
                 *(dump([heap_samples(7, [field(1, 1) + field(2, 101 + i) + field(5, 2)
                                          + field(5005, field(1, 1) + field(2, double(1, 2.0 + i)))], 11 + i)], i + 1)
                   for i in range(count)))


def trace_compressed(directory, scale):
    """Repeated compressed packets of one byte."""
    inner = zlib.compress(packet(b"", sequence=5) * (scale * 100000), 9)
    return trace(directory, "trace_compressed", USUAL, packet(field(50, inner)),
                 ONE_SAMPLE)


def trace_compressed_nested(directory, scale):
    """Compressed packets in compressed packets."""
    inner = packet(b"", sequence=5) * 1000
    for _ in range(scale):
        inner = packet(field(50, zlib.compress(inner, 1)))
    return trace(directory, "trace_compressed_nested", USUAL, inner, ONE_SAMPLE)


def trace_tiny(directory, scale):
    """Empty packets."""
    return trace(directory, "trace_tiny", USUAL, b"\x0a\x00" * (scale * 512),
                 ONE_SAMPLE)


def trace_tiny_dumps(directory, scale):
    """Empty dumps, and empty heaps."""
    return trace(directory, "trace_tiny_dumps", USUAL, ONE_SAMPLE,
                 dump([b"\x2a\x00"] * (scale * 256), 1), dump([b"\x2a\x00"] * 1, 2) * (scale * 25))


def trace_tiny_samples(directory, scale):
    """Samples without fields, in one heap, whose callstacks do not exist."""
    return trace(directory, "trace_tiny_samples", USUAL,
                 dump([heap_samples(7, [b""] * (scale * 256) + [field(1, 99 + i) for i in range(scale * 100)], 10)]))


def trace_tiny_interned(directory, scale):
    """Interned data without fields."""
    return trace(directory, "trace_tiny_interned", USUAL,
                 *(packet(field(12, field(number, b"") * (scale * 85)), flags=2, **SEQUENCE) for number in (5, 6, 7, 16, 17, 19)),
                 *(packet(field(12, b"".join(field(number, field(1, i + 100)) for i in range(scale * 30))), flags=2, **SEQUENCE)
                   for number in (5, 6, 7, 16, 17, 19)),
                 ONE_SAMPLE)


def trace_gzip_bomb(directory, scale):
    """Packets of an unknown field, compressed."""
    body = clocks(1000, 1100) + USUAL + ONE_SAMPLE
    return write(directory, "trace_gzip_bomb.pb.gz", gzip.compress(body), *[gzip.compress(packet(field(900, bytes(1 << 20))))] * scale)


def trace_zstd_bomb(directory, scale):
    """The same with zstd: a frame of 1 MiB has 50 bytes."""
    body = clocks(1000, 1100) + USUAL + ONE_SAMPLE
    frames = [subprocess.run(["zstd", "-q"], input=part, stdout=subprocess.PIPE, check=True).stdout
              for part in (body, packet(field(900, bytes(1 << 20))))]
    return write(directory, "trace_zstd_bomb.pb.zst", frames[0], frames[1] * scale)


def gzip_members(directory, scale):
    """A gzip member for each byte."""
    member = gzip.compress(b"\x0a\x00", 9, mtime=0)
    head = gzip.compress(clocks(1000, 1100) + USUAL + ONE_SAMPLE)
    return write(directory, "gzip_members.pb.gz", head, member * (scale * 1024 // len(member)))


def zstd_frames(directory, scale):
    """Empty frames of zstd."""
    return write(directory, "zstd_frames.zst", bytes.fromhex("28b52ffd0000010000") * (scale * 1024 // 9))


def tar_members(directory, scale):
    """An archive of empty traces."""
    path = os.path.join(directory, "tar_members.tar")
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as archive:
        for i in range(scale * 2):
            info = tarfile.TarInfo(f"{i}/raw-trace")
            archive.addfile(info, io.BytesIO(b""))
        body = clocks(1000, 1100) + USUAL + ONE_SAMPLE
        info = tarfile.TarInfo("raw-trace")
        info.size = len(body)
        archive.addfile(info, io.BytesIO(body))
    return path


# --- MemoryInfra ---


def event(number, pid=1, ts=None, maps="", columns="", regions="", allocators=None, extra=""):
    allocators = f'"malloc":{{{columns}}}' if allocators is None else allocators
    return (f'{{"ph":"v","name":"periodic_interval","id":"0x{number:x}","pid":{pid},"ts":{ts or 1000 * number},'
            f'"args":{{"dumps":{{"level_of_detail":"detailed",{regions}"heaps_v2":{{"version":1,"maps":{{{maps}}},'
            f'"allocators":{{{allocators}}}}}{extra}}}}}}}')


def row(nodes=(1,), types=None, sizes=None, counts=None):
    nodes = list(nodes)
    lists = (("nodes", nodes), ("types", types or [0] * len(nodes)), ("sizes", sizes or [16] * len(nodes)),
             ("counts", counts or [1] * len(nodes)))
    return ",".join(f'"{name}":[{",".join(map(str, values))}]' for name, values in lists)


def maps(strings, nodes, types=((0, 1),)):
    return "".join((
        '"strings":[', ",".join(f'{{"id":{key},"string":"{value}"}}' for key, value in strings), '],"nodes":[',
        ",".join(f'{{"id":{key},"name_sid":{name}' + (f',"parent":{parent}}}' if parent else "}") for key, name, parent in nodes),
        '],"types":[', ",".join(f'{{"id":{key},"name_sid":{name}}}' for key, name in types), "]"))


ONE = maps([(1, "f")], [(1, 1, None)])


def events(directory, name, parts):
    path = os.path.join(directory, name + ".json")
    with open(path, "w") as out:
        out.write('{"traceEvents":[')
        for i, part in enumerate(parts):
            out.write((",\n" if i else "") + part)
        out.write("]}")
    return path


def infra_processes(directory, scale):
    """Processes with one site each, in one dump."""
    return events(directory, "infra_processes", (event(1, i + 1, 1000, ONE, row()) for i in range(scale * 1024 // 300)))


def infra_dumps(directory, scale):
    """Dumps of one process."""
    return events(directory, "infra_dumps",
                  (event(i + 1, 1, None, ONE if i == 0 else "", row()) for i in range(scale * 1024 // 240)))


def infra_processes_dumps(directory, scale):
    """Processes with two dumps each, ordered by process."""
    count = scale * 1024 // 560
    return events(directory, "infra_processes_dumps",
                  (event(j * count + i + 1, i + 1, None, ONE, row()) for i in range(count) for j in range(2)))


def infra_processes_same_dumps(directory, scale):
    """Equal numbers of dumps and processes, each dump of another process."""
    count = scale * 1024 // 280
    return events(directory, "infra_processes_same_dumps",
                  (event(i % (int(count ** 0.5) + 1) + 1, i // (int(count ** 0.5) + 1) + 1, 1000 + i, ONE, row()) for i in range(count)))


def infra_parts(directory, scale):
    """Many events of one dump of one process."""
    return events(directory, "infra_parts",
                  (event(1, 1, 1000 + i, ONE if i == 0 else "", allocators=f'"h{i}":{{{row()}}}') for i in range(scale * 1024 // 240)))


def infra_heaps(directory, scale):
    """Heaps of one process."""
    count = scale * 1024 // 60
    return events(directory, "infra_heaps", [event(1, 1, None, ONE, allocators=",".join(
        f'"h{i}":{{{row()}}}' for i in range(count)))])


def infra_chain(directory, scale):
    """A chain of frames with a site at each."""
    count = min(scale * 1024 // 55, 60000)
    return events(directory, "infra_chain", [event(1, 1, None, maps([(1, "f")], [(i + 1, 1, i or None) for i in range(count)]),
                                                    row(range(1, count + 1)))])


def infra_chain_names(directory, scale):
    """The same with a name for each frame, and two dumps."""
    count = min(scale * 1024 // 85, 60000)
    return events(directory, "infra_chain_names", [
        event(1, 1, None, maps([(i + 1, f"f{i}") for i in range(count)], [(i + 1, i + 1, i or None) for i in range(count)]),
              row(range(1, count + 1))), event(2, 1, None, "", row([1]))])


def infra_chains(directory, scale):
    """Many chains of 1,000 frames with a site at each."""
    count = scale * 1024 // 60
    return events(directory, "infra_chains", [
        event(1, 1, None, maps([(1, "f")] + [(i + 2, f"g{i}") for i in range(count // 1000)],
                               [(i + 1, 1 if i % 1000 else 2 + i // 1000, i if i % 1000 else None) for i in range(count // 1000 * 1000)]),
              row(range(1, count // 1000 * 1000 + 1)))])


def infra_chain_backwards(directory, scale):
    """A chain whose frames come after their callees."""
    count = min(scale * 1024 // 55, 60000)
    return events(directory, "infra_chain_backwards", [
        event(1, 1, None, maps([(1, "f")], [(i, 1, i + 1 if i < count else None) for i in range(1, count + 1)]),
              row(range(1, count + 1)))])


def infra_column_bomb(directory, scale):
    """A column of zeros, compressed."""
    head, tail = event(1, 1, None, ONE, '"nodes":[0').split('"nodes":[0')
    return write(directory, "infra_column_bomb.json.gz", gzip.compress(('{"traceEvents":[' + head + '"nodes":[0').encode()),
                 *[gzip.compress(b",0" * (1 << 19))] * scale, gzip.compress(("]" + tail + "]}").encode()))


def infra_columns(directory, scale):
    """Columns of unequal lengths."""
    count = scale * 512
    return events(directory, "infra_columns", [event(1, 1, None, ONE, '"nodes":[' + ",".join("1" * count) + '],"sizes":[1]')])


def infra_events_bomb(directory, scale):
    """Identical sites, compressed."""
    parts = [gzip.compress(b'{"traceEvents":[' + event(1, 1, None, ONE, row([1])).encode())]
    again = gzip.compress(("," + event(2, 1, None, "", row([1] * 10000))).encode())
    return write(directory, "infra_events_bomb.json.gz", *parts, *[again] * scale, gzip.compress(b"]}"))


def infra_regions(directory, scale):
    """Regions that overlap, and addresses in them."""
    count = scale * 1024 // 130
    regions = ('"process_mmaps":{"vm_regions":[' + ",".join(
        f'{{"sa":"1000","sz":"{0x100000 + i:x}","pf":5,"mf":"/x{i}","bs":{{}}}}' for i in range(count)) + "]},")
    return events(directory, "infra_regions", [event(
        1, 1, None, maps([(i + 1, f"pc:{0x2000 + i:x}") for i in range(count)], [(i + 1, i + 1, None) for i in range(count)]),
        row(range(1, count + 1)), regions)])


def infra_types(directory, scale):
    """Types of one frame."""
    count = scale * 1024 // 60
    return events(directory, "infra_types", [event(
        1, 1, None, maps([(i + 1, f"t{i}") for i in range(count)], [(1, 1, None)], [(i, i + 1) for i in range(count)]),
        row([1] * count, list(range(count))))])


def infra_names(directory, scale):
    """Events that name processes and threads."""
    return events(directory, "infra_names", [event(1, 1, None, ONE, row())] + [
        f'{{"ph":"M","name":"{"thread_name" if i % 2 else "process_name"}","pid":{i},"tid":{i},"args":{{"name":"n{i}"}}}}'
        for i in range(scale * 1024 // 70)])


def infra_long_string(directory, scale):
    """A long name that all frames share."""
    count = scale * 512 // 40
    return events(directory, "infra_long_string", [event(
        1, 1, None, maps([(1, "f" * (scale * 512))], [(i + 1, 1, None) for i in range(count)]), row(range(1, count + 1)))])


def infra_nested(directory, scale):
    """Nested lists in a field that no reader needs."""
    return events(directory, "infra_nested", [event(1, 1, None, ONE, row(), extra=',"x":' + "[" * 400 + "]" * 400)] * 2 + [
        "[" * 400 + "]" * 400 for _ in range(scale)])


def infra_same_keys(directory, scale):
    """An object that repeats one key."""
    return events(directory, "infra_same_keys", [event(1, 1, None, ONE, allocators=",".join(
        f'"malloc":{{{row()}}}' for i in range(scale * 1024 // 60)))])


def infra_escapes(directory, scale):
    """Strings of escapes."""
    return events(directory, "infra_escapes", [event(1, 1, None, maps(
        [(i + 1, "\\u00e4" * 20 + str(i)) for i in range(scale * 1024 // 180)],
        [(i + 1, i + 1, None) for i in range(scale * 1024 // 180)]), row(range(1, scale * 1024 // 180 + 1)))])


# --- pprof ---


def packed(number, values):
    return field(number, b"".join(varint(v) for v in values))


def pprof(directory, name, strings, *parts):
    table = ["", "space", "bytes", "objects", "count"] + list(strings)
    types = field(1, field(1, 3) + field(2, 4)) + field(1, field(1, 1) + field(2, 2))
    return write(directory, name + ".pprof", types, *parts, b"".join(field(6, s) for s in table))


def pprof_sample(locations, values=(1, 100), labels=b""):
    return field(2, packed(1, locations) + packed(2, values) + labels)


def pprof_function(number, name):
    return field(5, field(1, number) + field(2, name))


def pprof_location(number, functions, mapping_id=0, address=0):
    return field(4, field(1, number) + field(2, mapping_id) + field(3, address)
                 + b"".join(field(4, field(1, f)) for f in functions))


def pprof_lines(directory, scale):
    """A location with many inlined lines, many times in each of many samples."""
    count = scale * 1024 // 40
    return pprof(directory, "pprof_lines", ["f", "g"], pprof_function(1, 5), pprof_function(2, 6),
                 pprof_location(1, [1] * (scale * 60)), *(pprof_location(i + 2, [2]) for i in range(count)),
                 *(pprof_sample([1, i + 2]) for i in range(count)), pprof_sample([1] * scale * 60))


def pprof_labels(directory, scale):
    """Labels of one sample and of many."""
    count = scale * 1024 // 30
    return pprof(directory, "pprof_labels", [f"k{i}" for i in range(count)], pprof_function(1, 1), pprof_location(1, [1]),
                 *(pprof_sample([1], labels=field(3, field(1, 5 + i) + field(2, 5 + i))) for i in range(count)),
                 pprof_sample([1], labels=b"".join(field(3, field(1, 5 + i) + field(2, 5 + i)) for i in range(count))))


def pprof_own_labels(directory, scale):
    """Labels that we interpret: threads, types and contexts."""
    count = scale * 1024 // 45
    return pprof(directory, "pprof_own_labels", ["thread", "type", "context"] + [f"k{i}" for i in range(count)],
                 pprof_function(1, 1), pprof_location(1, [1]),
                 *(pprof_sample([1], labels=field(3, field(1, 5) + field(2, 8 + i)) + field(3, field(1, 6) + field(2, 8 + i))
                                + field(3, field(1, 7) + field(2, 8 + i))) for i in range(count)))


def pprof_long_name(directory, scale):
    """A long name that many functions and mappings share."""
    count = scale * 512 // 40
    return pprof(directory, "pprof_long_name", ["f" * (scale * 512)],
                 *(pprof_function(i, 5) + field(3, field(1, i) + field(2, i << 12) + field(3, i + 1 << 12) + field(5, 5))
                   + pprof_location(i, [i], i, i << 12) + pprof_sample([i]) for i in range(1, count)))


def pprof_long_label(directory, scale):
    """A long text as the label of many samples."""
    count = scale * 512 // 20
    return pprof(directory, "pprof_long_label", ["type", "f" * (scale * 512)], pprof_function(1, 1), pprof_location(1, [1]),
                 *(pprof_sample([1], labels=field(3, field(1, 5) + field(2, 6))) for i in range(count)))


def pprof_mappings(directory, scale):
    """Mappings that overlap."""
    count = scale * 1024 // 40
    return pprof(directory, "pprof_mappings", ["lib"],
                 *(field(3, field(1, i) + field(2, 4096) + field(3, 0x1000000 + i) + field(5, 5))
                   + pprof_location(i, [], i, 8192 + i) + pprof_sample([i]) for i in range(1, count)))


def pprof_types(directory, scale):
    """Many sample types, and as many values."""
    count = scale * 1024 // 12
    return pprof(directory, "pprof_types", [], field(1, field(1, 1) + field(2, 2)) * count, pprof_function(1, 1), pprof_location(1, [1]),
                 *(pprof_sample([1], [1] * count) for _ in range(3)))


def pprof_chain(directory, scale):
    """A chain of locations in one sample."""
    count = scale * 1024 // 24
    return pprof(directory, "pprof_chain", [f"f{i}" for i in range(count)], *(
        pprof_function(i, 4 + i) + pprof_location(i, [i]) for i in range(1, count)), pprof_sample(range(1, count)))


def pprof_tiny(directory, scale):
    """Messages without fields."""
    return pprof(directory, "pprof_tiny", [], b"".join(field(n, b"") for n in (1, 2, 3, 4, 5, 6)) * (scale * 85), packed(13, [0] * scale * 100))


def pprof_wide(directory, scale):
    """Samples that differ in all their frames."""
    count = scale * 1024 // 60
    return pprof(directory, "pprof_wide", [f"f{i}" for i in range(count)], *(
        pprof_function(i, 4 + i) + pprof_location(i, [i]) for i in range(1, count)),
        *(pprof_sample([i, count - i]) for i in range(1, count)))


# --- heaptrack, text, collapsed stacks ---


def heaptrack(directory, name, *lines):
    return write(directory, name + ".txt", "v 10400 2\nX p\nI 1000 100\n", "\n".join(lines), "\n")


def heaptrack_inlined(directory, scale):
    """An ip with many inlined functions, in many stacks."""
    count = scale * 1024 // 24
    return heaptrack(directory, "heaptrack_inlined", "s f", "s g", "i 1000 1" + " 1 1 1" * (scale * 60),
                     *(f"i {i + 0x2000:x} 1 2 1 {i:x}" for i in range(count)), *(f"t {i + 2:x} 0" for i in range(count)),
                     *(f"t 1 {i + 1:x}" for i in range(count)), *(f"a 10 {count + i + 1:x}\n+ {i:x}" for i in range(count)))


def heaptrack_chain(directory, scale):
    """A chain of nodes, with an allocation at each."""
    count = scale * 1024 // 30
    return heaptrack(directory, "heaptrack_chain", "s f", "i 1000 1 1 1 1", *(f"t 1 {i:x}" for i in range(count)),
                     *(f"a 10 {i + 1:x}\n+ {i:x}" for i in range(count)))


def heaptrack_times(directory, scale):
    """Time stamps, with the process's memory at each."""
    return heaptrack(directory, "heaptrack_times", "s f", "i 1000 1 1 1 1", "t 1 0", "a 10 1", "+ 0",
                     *(f"c {i:x}\nR {i:x}" for i in range(scale * 1024 // 14)))


def heaptrack_peaks(directory, scale):
    """A new peak with each allocation, at many callsites."""
    count = scale * 1024 // 50
    return heaptrack(directory, "heaptrack_peaks", "s f", *(f"i {i + 0x1000:x} 1 1 1 {i:x}" for i in range(count)),
                     *(f"t {i + 1:x} 0" for i in range(count)), *(f"a 10 {i + 1:x}\n+ {i:x}\n+ {i:x}\n- {i:x}" for i in range(count)))


def text_regions(directory, scale):
    """gperftools: mapped libraries that overlap, and addresses in all of them."""
    count = scale * 1024 // 90
    return write(directory, "text_regions.heap", f"heap profile: {count}: {count} [{count}: {count}] @ heapprofile\n",
                 *(f"1: 1 [1: 1] @ 0x{0x5000 + i:x}\n" for i in range(count)), "\nMAPPED_LIBRARIES:\n",
                 *(f"00001000-{0x1000000 + i:08x} r-xp 00000000 08:01 {i + 1} /x/lib{i}\n" for i in range(count)))


def text_threads(directory, scale):
    """jemalloc: one stack with figures of many threads."""
    count = scale * 1024 // 20
    return write(directory, "text_threads.heap", "heap_v2/524288\n  t*: 1: 1 [0: 0]\n@ 0x1000\n  t*: 1: 1 [0: 0]\n",
                 *(f"  t{i}: 1: 1 [0: 0]\n" for i in range(count)), "\nMAPPED_LIBRARIES:\n")


def text_inlined(directory, scale):
    """gperftools: an address in which 4,096 functions are inlined, in many stacks."""
    return write(directory, "text_inlined.heap", "--- symbol\nbinary=/x\n0x1 ", "--".join(["f"] * 4096), "\n---\n--- heap\n",
                 "heap profile: 1: 1 [1: 1] @ heapprofile\n",
                 *(f"1: 1 [1: 1] @ 0x{0x1000 + i:x}" + " 0x1" * 15 + "\n" for i in range(scale * 1024 // 80)))


def collapsed_again(directory, scale):
    """Packed: stacks of many frames, again and again."""
    again = gzip.compress("".join(chr(97 + i) + ";f" * 30000 + " 1\n" for i in range(15)).encode())
    return write(directory, "collapsed_again.txt.gz", *[again] * scale)


def collapsed_blank(directory, scale):
    """Packed: blank lines."""
    return write(directory, "collapsed_blank.txt.gz", gzip.compress(b"main;f 7\n"), *[gzip.compress(b"\n" * 1000000)] * scale)


def text_blank(directory, scale):
    """Packed: blank lines after a stack of gperftools."""
    head = b"heap profile: 1: 1 [1: 1] @ heapprofile\n1: 1 [1: 1] @ 0x1\n"
    return write(directory, "text_blank.heap.gz", gzip.compress(head), *[gzip.compress(b"\n" * 1000000)] * scale)


def collapsed_chain(directory, scale):
    """Stacks that go one frame deeper each time."""
    count = int((scale * 1024) ** 0.5)
    return write(directory, "collapsed_chain.txt", *(";".join("f" * (i + 1)) + f" {i + 1}\n" for i in range(count)))


def collapsed_deep(directory, scale):
    """One stack of many frames."""
    return write(directory, "collapsed_deep.txt", ";".join(f"f{i}" for i in range(scale * 1024 // 7)), " 7\n")


def collapsed_wide(directory, scale):
    """Stacks that share no frame."""
    return write(directory, "collapsed_wide.txt", *(f"a{i};b{i};c{i} {i + 1}\n" for i in range(scale * 1024 // 30)))


def collapsed_alike(directory, scale):
    """Long names that differ only in their ends."""
    return write(directory, "collapsed_alike.txt", *("x" * 1000 + f"{i} {i + 1}\n" for i in range(scale)))


def collapsed_regex(directory, scale):
    """A long name, for pattern matching."""
    return write(directory, "collapsed_regex.txt", "main;" + "a" * (scale * 1024) + " 7\n")


# All of them, in the order of their definitions.
CASES = {name: made for name, made in list(globals().items())
         if callable(made) and getattr(made, "__module__", "") == __name__ and made.__code__.co_varnames[:2] == ("directory", "scale")}
