#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""examples/README.md: each command line runs unchanged with the files that `meson install` installs,
and the reports contain what the text promises.

    examples.py SECTION     a part of a section's title
"""

import os
import re
import shutil
import sys
import tempfile

import harness
from harness import BUILD, ROOT, check, fail, run

EXAMPLES = os.path.join(ROOT, "examples")

# {part of a command line: texts that its output must contain}
PROMISES = {
    # Texts and headers are small: possibly none of the live ones is sampled.
    "report arena-profile": ["heap example.arena", "arena_allocate", "make_reply"],
    "report --by type arena-profile": ["reply"],
    "report --by context,type --view alloc_space arena-profile": [
        "parse headers", "make reply", "reply"],
    "report --heap example.pmr": ["heap example.pmr", "memory_resource"],
    "report --heap example.nodes two-profile": [
        "24.0 kB in 1,500 calls, exact", "8.00 kB", "load_level"],
    "report --heap example.textures": ["ground", "sprite", "texture_create"],
    "report two-profile-2": ["heap example.nodes", "heap example.textures", "one in 64 B"],
    "./two_allocators_noop": ["20 textures"],
    "./two_allocators_alone": ["20 textures"],
    "report --heap example.nodes static-profile": ["24.0 kB in 1,500 calls, exact", "load_level"],
    "report --view max apr-profile": ["heap apr.pools", "svn_fs"],
    "report --view max obstack-profile": ["heap libc.obstack", "dpkg-query"],
}
NEEDED = {"Subversion": ["svnadmin"], "dpkg": ["dpkg-query"], "memory_resource": ["c++"]}


def sections():
    """Return {title: command lines}."""
    with open(os.path.join(EXAMPLES, "README.md")) as file:
        parts = re.split(r"^## (.*)$", file.read(), flags=re.M)[1:]
    return {
        title: [line for block in re.findall(r"^```sh\n(.*?)^```", text, flags=re.M | re.S)
                for line in block.splitlines()]
        for title, text in zip(parts[::2], parts[1::2])
    }


def install(directory):
    """Install into the directory. Return the environment in which the installed files are found."""
    outcome = run(["meson", "install", "-C", BUILD, "--no-rebuild", "--destdir", directory])
    if not check(outcome.status == 0, f"meson install: {outcome.stderr[-500:]!r}"):
        harness.finish()

    def folder_of(ending):
        return next(path for path, _, names in os.walk(directory)
                    if any(f"{path}/{name}".endswith(ending) for name in names))

    libraries = folder_of("/libheapprofd_client.so.1")
    return {
        "PATH": f"{folder_of('/bin/heap_profile')}:{os.environ['PATH']}",
        "LD_LIBRARY_PATH": libraries,
        "PKG_CONFIG_PATH": os.path.join(libraries, "pkgconfig"),
        "PKG_CONFIG_SYSROOT_DIR": directory,
    }


def main(wanted):
    found = {title: lines for title, lines in sections().items() if wanted in title}
    if len(found) != 1:
        sys.exit(f"examples.py: {wanted!r} is the title of {len(found)} sections")
    (title, lines), = found.items()
    harness.need("pkg-config", "cc", *(n for part, ns in NEEDED.items() if part in title for n in ns))
    directory = tempfile.mkdtemp(prefix="test-examples-")
    try:
        environment = install(os.path.join(directory, "installed"))
        work = os.path.join(directory, "examples")
        shutil.copytree(EXAMPLES, work)
        check(lines, "the section has command lines")
        for line in lines:
            outcome = run(["sh", "-c", line], env=environment, cwd=work)
            print(f"$ {line}\n{outcome.stdout.decode()}{outcome.stderr.decode()}")
            if outcome.status != 0:
                fail(f"status {outcome.status}: {line}")
                break
            for part, promises in PROMISES.items():
                for promise in promises if part in line else []:
                    check(promise in outcome.stdout.decode(), f"{promise!r} is not shown by {line}")
    finally:
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: examples.py SECTION")
    harness.limit_core_dumps()
    main(sys.argv[1])
    harness.finish()
