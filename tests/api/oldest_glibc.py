#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The programs need no function that glibc 2.28 lacks: then they build there, too. A newer glibc gives old functions a new
version when it changes them or moves them to another library. Those are listed here.

    oldest_glibc.py PROGRAM...
"""

import re
import subprocess
import sys

OLDEST = (2, 28)
# Names of glibc 2.28 and before, which later versions have again.
AGAIN = {
    "__libc_start_main", "dladdr", "dlclose", "dlerror", "dlopen", "dlsym", "exp", "fcntl64", "fmod", "fstat", "fstat64", "fstatat",
    "fstatat64", "hypot", "log", "log2", "lstat", "lstat64", "pow", "stat", "stat64", "timer_create", "timer_delete", "timer_settime",
}
# All of libpthread, but for what came later. From 2.38 on, headers name other functions for C23: strtol becomes __isoc23_strtol.
MORE_NAMES = re.compile("pthread_(?!.*clock|attr_.*sigmask_np)|__isoc23_")


def newer_names(program):
    said = subprocess.run(["nm", "-D", "--undefined-only", "--with-symbol-versions", program], capture_output=True, text=True, check=True)
    found = re.findall(r" (\w+)@+GLIBC_([\d.]+)", said.stdout)
    if not found:
        sys.exit(f"FAIL: {program}: nm shows no name of glibc: {said.stdout[:200]}")
    return sorted(f"{name} of {version}" for name, version in found
                  if tuple(map(int, version.split("."))) > OLDEST and name not in AGAIN and not MORE_NAMES.match(name))


def main(programs):
    failed = 0
    for program in programs:
        for name in newer_names(program):
            failed += 1
            print(f"FAIL: {program} needs {name}, which glibc 2.28 may lack: see src/util/kernel_calls.h")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
