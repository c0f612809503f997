# SPDX-License-Identifier: Apache-2.0
"""Make Breakpad symbol files of ELF files, from the output of nm and llvm-symbolizer for every byte of each function.

So they are independent of how we read debug information."""

import os
import re
import subprocess

from symbolize import build_id_of, llvm_frames, output


def debug_id_of(build_id):
    """Return a build id as a GUID: the first three numbers have their bytes swapped; then the age, 0."""
    first = (build_id + bytes(16))[:16]
    swapped = first[3::-1] + first[5:3:-1] + first[7:5:-1] + first[8:]
    return swapped.hex().upper() + "0"


def base_of(path):
    headers = output(["readelf", "-lW", path]).decode()
    return int(re.search(r"LOAD +0x\w+ 0x(\w+)", headers).group(1), 16) & ~0xfff


def functions_of(path):
    """Return (start, size, name) of each function, each address once."""
    seen = {}
    for line in output(["nm", "-S", "--defined-only", path]).decode().splitlines():
        parts = line.split()
        if len(parts) == 4 and parts[2] in "tTwW" and int(parts[1], 16) > 0:
            seen.setdefault(int(parts[0], 16), (int(parts[1], 16), parts[3]))
    return [(start, *seen[start]) for start in sorted(seen)]


class Numbers(dict):
    def of(self, text):
        return self.setdefault(text, len(self))


def runs(pairs):
    """Merge ordered (address, value) pairs into ranges (start, size, value) of equal neighbours."""
    result = []
    for address, value in pairs:
        if result and result[-1][2] == value and sum(result[-1][:2]) == address:
            result[-1] = (result[-1][0], result[-1][1] + 1, value)
        else:
            result.append((address, 1, value))
    return result


def dump(path, name=None, identifier=None, system="Linux", demangled=False):
    """Return the text of a symbol file."""
    base, files, origins, records = base_of(path), Numbers(), Numbers(), []
    functions = functions_of(path)
    frames = llvm_frames(path, [each for start, size, _ in functions for each in range(start, start + size)])
    if demangled:
        names = sorted({frame[0] for each in frames.values() for frame in each} | {each[2] for each in functions})
        done = subprocess.run(["c++filt"], input="\n".join(names).encode(), capture_output=True, check=True)
        readable = dict(zip(names, done.stdout.decode().split("\n")))
    else:
        readable = {}
    for start, size, symbol in functions:
        within = [(address, frames[address]) for address in range(start, start + size)]
        known = [(address, each) for address, each in within if each and each[0][2]]
        if not known:
            records.append(f"PUBLIC {start - base:x} 0 {readable.get(symbol, symbol)}")
            continue
        outer = within[0][1][-1][0]
        records.append(f"FUNC {start - base:x} {size:x} 0 {readable.get(outer, outer)}")
        calls = {}
        for address, each in known:
            chain = each[::-1]  # outermost first
            for level in range(len(chain) - 1):
                key = (level, chain[level][2], files.of(chain[level][1]), origins.of(readable.get(chain[level + 1][0], chain[level + 1][0])))
                calls.setdefault((key, tuple(chain[:level + 1])), []).append(address)
        for (key, _), addresses in calls.items():
            ranges = " ".join(f"{at - base:x} {length:x}" for at, length, _ in runs([(each, 0) for each in addresses]))
            records.append("INLINE %d %d %d %d " % key + ranges)
        for at, length, (line, file) in runs([(address, (each[0][2], files.of(each[0][1]))) for address, each in known]):
            records.append(f"{at - base:x} {length:x} {line} {file}")
    head = [f"MODULE {system} x86_64 {identifier or debug_id_of(build_id_of(path))} {name or os.path.basename(path)}",
            f"INFO CODE_ID {build_id_of(path).hex().upper()}"]
    head += [f"FILE {number} {text}" for text, number in files.items()]
    head += [f"INLINE_ORIGIN {number} {text}" for text, number in origins.items()]
    tail = ["STACK CFI INIT 1000 10 .cfa: $rsp 8 + .ra: .cfa -8 + ^", "STACK CFI 1001 .cfa: $rsp 16 +"]
    return "\n".join(head + records + tail) + "\n"


def write(text, *path):
    path = os.path.join(*path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(text)
    return path
