#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Trampolines of aarch64, on any processor. Our decoder agrees with binutils on every instruction of
real libraries of arm64, and patched functions, real ones and hand-made ones, return the same under
qemu-user. Skipped without Debian's cross compiler or qemu-user."""

import ctypes
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

TOP = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", ".."))
ARCH = TOP + "/src/recorder/attach/arch/aarch64/"
LIBRARIES = "/usr/aarch64-linux-gnu/lib/"
# Packages unpacked by scripts/sysroot have more of them.
MORE = TOP + "/sysroot-aarch64/usr/lib/aarch64-linux-gnu/"

KINDS = "PLAIN ADDRESS LOAD PREFETCH JUMP CONDITION CALL LEAVE UNKNOWN".split()
WITH_TARGET = {"ADDRESS", "LOAD", "PREFETCH", "JUMP", "CONDITION"}
CONDITIONS = re.compile(r"(bc?\.\w\w|cbn?z|tbn?z)$")


class Instruction(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int), ("word", ctypes.c_uint32), ("target", ctypes.c_uint64)]


def load_decoder(directory):
    library = directory + "/decoder.so"
    subprocess.run([os.environ.get("CC", "cc").split()[-1], "-std=gnu17", "-O2", "-shared", "-fPIC", "-I" + TOP + "/src",
                    "-o", library, ARCH + "instruction.c"], check=True)
    decode = ctypes.CDLL(library).instruction_decode
    decode.restype = Instruction
    decode.argtypes = [ctypes.c_uint32, ctypes.c_uint64]
    return decode


def expected_kind(mnemonic, operands):
    """Return what objdump's text says of an instruction; None: it does not know it either."""
    if mnemonic in (".inst", "udf", ".word"):
        return None
    if mnemonic in ("adr", "adrp"):
        return "ADDRESS"
    if mnemonic in ("ldr", "ldrsw") and "[" not in operands and "," in operands:
        return "LOAD"
    if mnemonic == "prfm" and "[" not in operands:
        return "PREFETCH"
    if mnemonic == "b":
        return "JUMP"
    if CONDITIONS.match(mnemonic):
        return "CONDITION"
    if mnemonic in ("bl", "blr") or mnemonic.startswith("blra"):
        return "CALL"
    if mnemonic in ("br", "ret", "retaa", "retab") or mnemonic.startswith("bra"):
        return "LEAVE"
    return "PLAIN"


def compare(decode, library):
    """Return the number of instructions, and of kinds that occur."""
    dump = subprocess.run(["aarch64-linux-gnu-objdump", "-d", library], capture_output=True, text=True, check=True).stdout
    kinds, count = set(), 0
    for line in dump.splitlines():
        parts = line.split("\t")
        if len(parts) < 3 or not parts[0].endswith(":"):
            continue
        address, word = int(parts[0].strip()[:-1], 16), int(parts[1].strip(), 16)
        operands = parts[3] if len(parts) > 3 else ""
        kind = expected_kind(parts[2], operands)
        if kind is None:
            continue
        got = decode(word, address)
        assert KINDS[got.kind] == kind, f"{library}: {line}: {KINDS[got.kind]}"
        if kind in WITH_TARGET:
            target = int(re.search(r"(?:^|, )(?:0x)?([0-9a-f]+)(?: <|$| +//)", operands).group(1), 16)
            assert got.target == target, f"{library}: {line}: target {got.target:#x}"
        kinds.add(kind)
        count += 1
    return count, len(kinds)


def run_patched(directory):
    program = directory + "/trampolines"
    check = TOP + "/tests/unwind-check/trampolines_aarch64"
    subprocess.run(["aarch64-linux-gnu-gcc", "-std=gnu17", "-D_GNU_SOURCE", "-O1", "-g", "-fno-builtin", "-Wall", "-Wextra",
                    "-Werror", "-I" + TOP + "/src", "-o", program, check + ".c", check + ".S", ARCH + "trampoline.c",
                    ARCH + "instruction.c", TOP + "/src/recorder/attach/trampoline.c"], check=True)
    subprocess.run(["qemu-aarch64", "-L", "/usr/aarch64-linux-gnu", program], check=True, timeout=60)


def main():
    for tool in ("aarch64-linux-gnu-gcc", "aarch64-linux-gnu-objdump", "qemu-aarch64"):
        if shutil.which(tool) is None:
            print(f"skipped: there is no {tool}")
            return 77
    with tempfile.TemporaryDirectory() as directory:
        decode = load_decoder(directory)
        libraries = [LIBRARIES + "libc.so.6", LIBRARIES + "ld-linux-aarch64.so.1"]
        for name in ("libjemalloc.so.2", "libmimalloc.so.2.0", "libtcmalloc_minimal.so.4", "libpython3.11.so.1.0"):
            libraries += glob.glob(MORE + name)
        libraries += sys.argv[1:]
        for library in libraries:
            count, kinds = compare(decode, library)
            print(f"{library}: {count:,} instructions of {kinds} kinds")
            assert count > 10000 and kinds >= 6
        run_patched(directory)
        print("patched functions return the same")
    return 0


sys.exit(main())
