#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What a library gives programs to link to, against the list of what was ever promised
(exports.txt): a name that is missing breaks programs that exist, and one that is not listed is one
that nobody may take back.

    exports.py client LIBRARY     a shared library that exports these, versioned, and nothing else
    exports.py preload LIBRARY    one that exports these, versioned, beside what is not versioned
    exports.py archive LIBRARY    an archive that defines these and no other name
    exports.py noop LIBRARY       the same
"""

import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
# What has other loaders pass the library over (src/client/musl_loader.c).
FOREIGN = {"__libc_start_main@@HEAPPROFD_1", "stdin@@HEAPPROFD_1"}
INTERNAL = ("_fini", "_init", "_end", "_edata", "__bss_start")


def names_of(library, *options):
    outcome = subprocess.run(
        ["nm", *options, "--defined-only", "--format=posix", library],
        capture_output=True, text=True, check=True,
    )
    rows = [line.split() for line in outcome.stdout.splitlines() if line and not line.endswith(":")]
    # A version of which symbols are is a symbol, too: absolute.
    return {row[0] for row in rows if row[1] != "A" and row[0] not in INTERNAL}


def main(kind, library):
    with open(os.path.join(HERE, "exports.txt")) as file:
        wanted = set(file.read().split())
    if kind in ("archive", "noop"):
        wanted = {name.split("@")[0] for name in wanted}
        found = names_of(library, "--extern-only")
    else:
        found = names_of(library, "--dynamic", "--with-symbol-versions")
    if kind == "preload":
        wanted |= FOREIGN
        found = {name for name in found if "@" in name or name.startswith(("AHeap", "HeapProfile"))}
    for name in sorted(wanted - found):
        print(f"FAIL: {name} is missing")
    for name in sorted(found - wanted):
        print(f"FAIL: {name} is not listed")
    print(f"{len(found)} names")
    return int(found != wanted)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
