# SPDX-License-Identifier: Apache-2.0
"""Constructed traces for the tests of MemoryInfra. A test gives the content; interning is automatic."""

from perfetto_bytes import (
    clocks, double, field, heap_samples, interned, module_symbols, packet, process_tree, profile_packet, text,
)

SEQUENCE = {"sequence": 1}


def figures(number, size, count):
    return field(number, double(1, size) + double(2, 0) + double(3, count) + double(4, 0) + field(9, round(count)))


class Made:
    """A trace. Ids are assigned in the order of use."""

    def __init__(self):
        self.names, self.paths, self.build_ids, self.tags = {}, {}, {}, {}
        self.mappings, self.frames, self.stacks, self.contexts = {}, {}, {}, {}
        self.symbols, self.processes, self.threads, self.dumps = [], [], [], []
        self.status = b""  # fields of every heap besides those of its dump

    @staticmethod
    def number(table, key):
        return table.setdefault(key, len(table) + 1)

    def mapping(self, path, start, end, build_id=b"", exact_offset=0, load_bias=0):
        parts = tuple(self.number(self.paths, part) for part in path.strip("/").split("/"))
        build = self.number(self.build_ids, build_id) if build_id else 0
        return self.number(self.mappings, (build, start, end, parts, exact_offset, 0, load_bias))

    def frame(self, name="", mapping=0, rel_pc=0):
        return self.number(self.frames, (mapping, rel_pc, self.number(self.names, name) if name else 0))

    def stack(self, *frames):
        """Return the id of a stack: ids or names of frames, the outermost first."""
        return self.number(self.stacks, tuple(f if isinstance(f, int) else self.frame(f) for f in frames))

    def lines(self, path, build_id, addresses):
        self.symbols.append(module_symbols(path, build_id, addresses))

    def process(self, pid, *arguments):
        self.processes.append((pid, 1, list(arguments)))

    def sample(self, stack, size, count, parts=()):
        """Return a sample. parts: (tid, type, context, bytes, count); a context is a tuple of scopes."""
        body = field(1, stack) + field(2, round(size)) + field(5, round(count)) + figures(5000, size, count)
        for tid, kind, context, part_size, part_count in parts:
            entry = field(1, tid) + figures(2, part_size, part_count)
            entry += field(3, self.number(self.tags, kind)) if kind else b""
            if context:
                scopes = tuple(self.number(self.tags, name) for name in context)
                entry += field(4, self.number(self.contexts, scopes))
            body += field(5005, entry)
        return body

    def dump(self, time, heaps, ended=(), final=()):
        """Add a dump. heaps: {(pid, name): samples}; ended: pids of ended processes; last: pids whose dump is the last."""
        self.dumps.append((time, heaps, ended, final))

    def write(self, path, extra=b""):
        tables = interned(
            names={i: name for name, i in self.names.items()},
            paths={i: part for part, i in self.paths.items()},
            build_ids={i: build for build, i in self.build_ids.items()},
            mappings=[(i, *mapping) for mapping, i in self.mappings.items()],
            frames=[(i, *frame) for frame, i in self.frames.items()],
            stacks={i: list(stack) for stack, i in self.stacks.items()},
        )
        tags = b"".join(field(5000, field(1, i) + text(2, name)) for name, i in self.tags.items())
        tags += b"".join(field(5001, field(1, i) + b"".join(field(2, scope) for scope in scopes))
                         for scopes, i in self.contexts.items())
        packets = [clocks(1000, 1100), process_tree(self.processes, self.threads)]
        packets += [packet(tables, timestamp=1, flags=1, **SEQUENCE), packet(field(12, tags), timestamp=1, flags=2, **SEQUENCE)]
        packets += self.symbols
        for index, (time, heaps, ended, final) in enumerate(self.dumps):
            bodies = [heap_samples(pid, samples, time, heap, self.status + field(12, 4096) + field(6, pid in ended)
                                   + field(5010, pid in ended or pid in final)) for (pid, heap), samples in heaps.items()]
            packets.append(packet(profile_packet(bodies, index), timestamp=9, **SEQUENCE))
        with open(path, "wb") as out:
            out.write(b"".join(packets) + extra)
        return path
