#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What a library gives programs to link to, against the list of what was ever promised
(exports.txt): a name that is missing breaks programs that exist, and one that is not listed is one
that nobody may take back. And what a library needs of the process that loads it.

    exports.py client LIBRARY     a shared library that exports these, versioned, and nothing else, and
                                  whose package for Debian promises the same
    exports.py preload LIBRARY    one that exports these, versioned, beside what is not versioned
    exports.py archive LIBRARY    an archive that defines these and no other name
    exports.py noop LIBRARY       the same
"""

import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
# What a shared library may take from the process (src/client/libc/libc.h). A name of a newer C library would keep it from
# loading; functions of the loader, of unwinders and of threads take locks that the program may hold. All of it weakly, as each
# C library lacks a part.
NEEDED = {"__errno_location", "__libc_stack_end", "_dl_debug_addr", "_r_debug", "abort", "environ", "getauxval"}
# What programs link to calls these by name; the preloaded library finds them, and needs no library.
NEEDED_BY = {"client": NEEDED | {"__environ", "_environ", "malloc", "free", "memalign"}, "preload": NEEDED}
# What the archive may need weakly: one C library lacks it, or no preload library is there. A function that it needs weakly
# would not be linked into a static program.
WEAK = {"_DYNAMIC", "__libc_stack_end", "_dl_debug_addr", "_r_debug", "environ", "heapprofd_preloaded"}
LIBRARIES = {"client": {"libc.so.6"}, "preload": set()}
# Of each shared library made by a compiler.
MADE = {"_ITM_deregisterTMCloneTable", "_ITM_registerTMCloneTable", "__cxa_finalize", "__gmon_start__"}
NEWEST_GLIBC = (2, 17)  # of these names' versions; aarch64's first one
# Room in the block of thread-local storage that all libraries share ("cannot allocate memory in static TLS block").
TLS_BYTES_MAX = 64
SONAME = "libheapprofd_client.so.1"
SYMBOLS = os.path.join(HERE, "..", "..", "debian", "libheapprofd-client1.symbols")
INTERNAL = ("_fini", "_init", "_end", "_edata", "__bss_start")


def names_of(library, *options):
    outcome = subprocess.run(
        ["nm", *options, "--defined-only", "--format=posix", library],
        capture_output=True, text=True, check=True,
    )
    rows = [line.split() for line in outcome.stdout.splitlines() if line and not line.endswith(":")]
    # A version of which symbols are is a symbol, too: absolute.
    return {row[0] for row in rows if row[1] != "A" and row[0] not in INTERNAL}


def output_of(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def check_needs(kind, library):
    """Return the number of faults in what the shared library needs."""
    rows = [line.split()[-2:] for line in output_of("nm", "-D", "--undefined-only", library).splitlines()]
    needed = dict(row[1].partition("@")[::2] for row in rows)
    faults = [f"needs {name}, which is not listed" for name in sorted(set(needed) - NEEDED_BY[kind] - MADE)]
    libraries = set(re.findall(r"NEEDED.*\[(.*)\]", output_of("readelf", "-dW", library)))
    if libraries != LIBRARIES[kind]:
        faults.append(f"needs the libraries {sorted(libraries)}")
    for name, version in needed.items():
        if tuple(map(int, re.findall(r"\d+", version))) > NEWEST_GLIBC:
            faults.append(f"needs {name} of {version}")
    sizes = [int(line.split()[5], 16) for line in output_of("readelf", "-lW", library).splitlines() if line.split()[:1] == ["TLS"]]
    if not sizes or max(sizes) > TLS_BYTES_MAX:
        faults.append(f"takes {sizes} bytes of thread-local storage")
    # The C library turns off the shadow stack of a process (CET) if one of its objects is not marked as compatible.
    if "X86-64" in output_of("readelf", "-hW", library) and "SHSTK" not in output_of("readelf", "-nW", library):
        faults.append("turns off the shadow stack of the process that loads it")
    for fault in faults:
        print(f"FAIL: it {fault}")
    return len(faults)


def check_promise(library, wanted):
    """Return the number of differences between the library, its package's symbols and the list."""
    faults = []
    sonames = re.findall(r"SONAME.*\[(.*)\]", output_of("readelf", "-dW", library))
    with open(SYMBOLS) as file:
        lines = [line for line in file.read().splitlines() if not line.startswith("*")]
    promised = {line.split()[0].replace("@", "@@") for line in lines[1:]} - {"HEAPPROFD_1@@HEAPPROFD_1"}
    if sonames != [SONAME] or lines[0].split()[0] != SONAME:
        faults.append(f"is {sonames}, in the package {lines[0].split()[0]}")
    faults += [f"and its package differ in {name}" for name in sorted(promised ^ wanted)]
    for fault in faults:
        print(f"FAIL: it {fault}")
    return len(faults)


def check_strong(archive):
    """Return the number of functions that the archive needs weakly."""
    rows = [line.split() for line in output_of("nm", "--undefined-only", "--format=posix", archive).splitlines()]
    weak = {row[0] for row in rows if row[1:2] == ["w"]} - WEAK
    for name in sorted(weak):
        print(f"FAIL: needs {name} weakly")
    return len(weak)


def main(kind, library):
    with open(os.path.join(HERE, "exports.txt")) as file:
        wanted = set(file.read().split())
    if kind in ("archive", "noop"):
        wanted = {name.split("@")[0] for name in wanted}
        found = names_of(library, "--extern-only")
    else:
        found = names_of(library, "--dynamic", "--with-symbol-versions")
    if kind == "preload":
        found = {name for name in found if "@" in name or name.startswith(("AHeap", "HeapProfile"))}
    for name in sorted(wanted - found):
        print(f"FAIL: {name} is missing")
    for name in sorted(found - wanted):
        print(f"FAIL: {name} is not listed")
    print(f"{len(found)} names")
    faults = check_needs(kind, library) if kind in NEEDED_BY else 0
    if kind == "client":
        faults += check_promise(library, wanted)
    if kind == "archive":
        faults += check_strong(library)
    return int(found != wanted or faults > 0)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
