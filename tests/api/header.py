#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""heap_profile.h is compiled by every compiler at hand in every language that it is promised for,
with the library and without it, without a warning.

    header.py COMPILER...     names of C compilers; those that are not installed are left out
"""

import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
INCLUDE = os.path.join(HERE, "..", "..", "include")
LANGUAGES = {"c": ("c11", "c17"), "c++": ("c++11", "c++17", "c++20")}
MODES = ((), ("-DHEAP_PROFILE_NOOP",))
STRICT = ("-Wall", "-Wextra", "-pedantic", "-Werror", "-Wshadow", "-O1")


def compile_as(compiler, language, standard, mode):
    """What the compiler says; empty where it is content."""
    command = [compiler, "-x", language, f"-std={standard}", *mode, *STRICT, f"-I{INCLUDE}",
               "-c", "-o", os.devnull, os.path.join(HERE, "header_use.c")]
    outcome = subprocess.run(command, capture_output=True, text=True)
    said = outcome.stdout + outcome.stderr
    return said or ("" if outcome.returncode == 0 else f"status {outcome.returncode}")


def main(compilers):
    compiled = failed = 0
    for compiler in filter(shutil.which, compilers):
        for language, standards in LANGUAGES.items():
            for standard in standards:
                for mode in MODES:
                    said = compile_as(compiler, language, standard, mode)
                    if "cc1plus" in said:  # a C compiler that came without C++
                        print(f"left out: {compiler} {standard}")
                        continue
                    compiled += 1
                    if said:
                        failed += 1
                        print(f"FAIL: {compiler} {standard} {' '.join(mode)}:\n{said}")
    print(f"{compiled} compiled, {failed} failed")
    return 77 if not compiled else int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
