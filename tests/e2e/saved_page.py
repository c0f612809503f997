# SPDX-License-Identifier: Apache-2.0
"""Read a page that is a file (src/tools/view/saved/saved_blocks.h, src/tools/view/saved/saved_stacks.h): its data, and the figures of its stacks."""

import base64
import json
import re
import struct
import zlib

NONE = 0xffffffff
ALLOCATED, FREED, PEAK = 0, 5, 10
VIEWS = {"space": (ALLOCATED, 0), "objects": (ALLOCATED, 1), "alloc_space": (ALLOCATED, 0), "alloc_objects": (ALLOCATED, 1), "max": (PEAK, 0)}


class Block:
    """A header with columns."""

    def __init__(self, content):
        length = struct.unpack_from("<I", content)[0]
        self.header, at = json.loads(content[4:4 + length]), 4 + length
        self.columns = {}
        for column in self.header.get("columns", []):
            width = 8 if column["type"] == "f64" else 4
            count = column["count"]
            planes = content[at:at + width * count]
            at += width * count
            values = bytearray(width * count)
            for byte in range(width):
                values[byte::width] = planes[byte * count:(byte + 1) * count]
            numbers = struct.unpack(f"<{count}{'d' if width == 8 else 'I'}", bytes(values))
            self.columns[column["name"]] = numbers if width == 8 else sums_of(numbers)


def sums_of(differences):
    total, sums = 0, []
    for difference in differences:
        total = (total + difference) & 0xffffffff
        sums.append(total)
    return sums


class SavedPage:
    """A page's data."""

    def __init__(self, path):
        with open(path, encoding="utf-8") as file:
            self.text = file.read()
        packed = json.loads(re.search(r'<script type="application/json" id="saved">(.*?)</script>', self.text, re.S).group(1))
        self.blocks = {name: zlib.decompress(base64.b64decode(text)) for name, text in packed.items()}
        self.overview = json.loads(self.blocks["api/overview"])
        self.title = re.search(r"<title>(.*?)</title>", self.text, re.S).group(1)
        self.functions = Block(self.blocks["functions"]).header["functions"]
        tree = Block(self.blocks["tree"]).columns
        self.parents = [NONE if above == 0 else node - above for node, above in enumerate(tree["above"])]
        self.of_nodes = tree["function"]

    def heaps(self):
        """Return the listed heaps: process, pid, name, number of dumps by id."""
        return {heap["id"]: dict(heap, **{"process": profile["processes"][heap["process"]]})
                for profile in self.overview["profiles"] for heap in profile["heaps"]}

    def stack(self, node):
        """Return the functions' names, the outermost first."""
        names = []
        while node != NONE:
            function = self.functions[self.of_nodes[node]]
            names.append(function.get("full_name", function["name"]))
            node = self.parents[node]
        return tuple(reversed(names))

    def dump(self, heap, dump=None):
        """Return a dump's header and its samples' numbers; None: the last dump."""
        dump = len(self.heaps()[heap]["dumps"]) - 1 if dump is None else dump
        block = Block(self.blocks[f"dump {heap}.{dump}"])
        return block.header, block.columns["samples"]

    def values(self, heap, view, dump=None):
        """Return the value of each stack that has one."""
        block, (first, which) = Block(self.blocks[f"heap {heap}"]), VIEWS[view]
        column = block.columns[f"figure {first + which}"]
        freed = block.columns[f"figure {FREED + which}"] if view in ("space", "objects") else None
        found = {}
        for sample in self.dump(heap, dump)[1]:
            stack = self.stack(block.columns["node"][sample])
            value = column[sample] - (freed[sample] if freed else 0)
            if value != 0:
                found[stack] = found.get(stack, 0) + value
        return found
