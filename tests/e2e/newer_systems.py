#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Programs of newer systems: their C library, CPython, Ruby and PHP run in a root of their own, and are profiled from here.

    newer_systems.py trixie|sid|noble
"""

import glob
import json
import os
import re
import shutil
import subprocess
import tempfile

import harness
from daemon import Session, scene
from harness import TOOL, check, need, program, run, skip
from php_frames import ATTACHED as PHP
from php_frames import IN_MALLOC
from python_frames import ATTACHED as PYTHON
from python_frames import attached
from rss import Table
from ruby_frames import ATTACHED as RUBY

# Unpacked only: no script of theirs runs.
PACKAGES = {"trixie": "base-files,python3.13,python3.13-dbg,ruby3.3,php8.4-cli", "sid": "base-files,python3,ruby,php-cli",
            "noble": "base-files,ruby3.2"}
UBUNTU = {"noble"}  # has the Ruby that no release of Debian has
UBUNTU_KEYS = "/usr/share/keyrings/ubuntu-archive-keyring.gpg"
STACK_BYTES = 8 * 512 * 1024  # that the threads of tests/programs/resident.c touch


def made_root(suite, path):
    """Unpack the system's packages."""
    need("mmdebstrap", "chroot")
    if os.geteuid() != 0:
        skip("only root can enter another root directory")
    if suite in UBUNTU:
        if not os.path.exists(UBUNTU_KEYS):
            skip("no package ubuntu-keyring")
        source = f"deb [signed-by={UBUNTU_KEYS}] http://archive.ubuntu.com/ubuntu {suite} main"
    else:
        mirror = re.search(r"\S*debian\S*", run(
            ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages", "Component: main"]).stdout.decode())
        source = mirror[0] if mirror else "http://deb.debian.org/debian/"
    made = run(
        ["mmdebstrap", "--variant=extract", "--quiet", "--aptopt=APT::Install-Recommends false",
         # A mirror may be a snapshot.
         "--aptopt=Acquire::Check-Valid-Until false",
         f"--include={PACKAGES[suite]}", suite, path, source], timeout=300)
    if made.status != 0:
        skip(f"no {suite} to be had: {made.stderr.decode().strip()[-300:]}")


class Profiled:
    """A program in the root that has been profiled while it ran. It answers each size that it reads with a line; without
    sizes, it prints one and waits."""

    def __init__(self, root, directory, command, sizes=(), environment=None):
        self.output = os.path.join(directory, "o")
        shutil.rmtree(self.output, ignore_errors=True)
        with scene() as (daemon, _):
            process = subprocess.Popen(["chroot", root, *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                       env={**os.environ, **(environment or {})})

            def step(size):
                process.stdin.write(b"%d\n" % size)
                process.stdin.flush()
                process.stdout.readline()

            if sizes:
                step(100_000)
            else:
                process.stdout.readline()
            self.doctor = run([TOOL, "doctor", "-p", str(process.pid)])
            session = Session(daemon, self.output, "-p", str(process.pid), "-i", "1")
            attached(daemon, process)
            for size in sizes:
                step(size)
            check(session.end() == 0, f"{command}: {session.stderr}")
            process.stdin.close()
            process.wait()
        check(b"it can be attached to" in self.doctor.stdout, f"{command}: doctor: {self.doctor.stdout.decode()}")
        heaps = json.loads(run([TOOL, "report", "--json", self.output]).stdout)["heaps"]
        self.heaps = {heap["heap"]: heap for heap in heaps}

    def check_functions(self, language, wanted):
        """All large blocks are under these functions, [name, line]."""
        found = set()
        for site in self.heaps["libc.malloc"]["callsites"]:
            if site["alloc_space"]["estimate"] > 300_000:
                found.add(json.dumps([
                    [frame["name"], frame.get("line", 0)] for frame in site["frames"]
                    if frame.get("mapping") == f"[{language}]" and not frame.get("file", "").startswith("<internal:")]))
        check(found == {json.dumps(wanted)}, f"{language}: {found}")

    def check_counted(self, calls, size):
        heap = self.heaps["libc.malloc"]
        check(heap["exact_calls"] >= calls and heap["exact_bytes"] >= size,
              f"{heap['exact_calls']} calls, {heap['exact_bytes']} bytes; {heap['remark']}")
        check(not heap["unseen"] and not heap["partial"], f"{heap['remark']}")


def check_python(root, directory):
    """malloc's figures of all builds, and the functions and objects of those for release."""
    found = sorted(glob.glob(f"{root}/usr/bin/python3.*"))
    names = [os.path.basename(path) for path in found if re.search(r"/python3\.\d+d?$", path)]
    check(names, "no CPython")
    for name in names:
        profiled = Profiled(root, directory, [f"/usr/bin/{name}", "-c", PYTHON], (300_000, 700_000))
        profiled.check_counted(20, 10_000_000)
        if not name.endswith("d"):
            profiled.check_functions("python", [["held", 4], ["middle", 6], ["<module>", 8]])
            objects = profiled.heaps.get("python.object")
            check(objects is not None and objects["exact_calls"] > 0, f"{name}: {objects and objects['remark']}")
        # The process is gone, and its files are not those that are here at the same paths.
        told = run([TOOL, "bundle", profiled.output, os.path.join(directory, "bundle")])
        check(told.status == 0 and b"another build" not in told.stdout + told.stderr, f"{name}: {told.stdout} {told.stderr}")
        os.remove(os.path.join(directory, "bundle"))


def check_ruby(root, directory):
    profiled = Profiled(root, directory, ["/usr/bin/ruby", "-e", RUBY], (300_000, 700_000))
    profiled.check_counted(20, 10_000_000)
    profiled.check_functions("ruby", [["held", 3], ["block in middle", 6], ["middle", 6], ["<main>", 9]])


def check_php(root, directory):
    """Debian's version has no heap of its own here, so that all is malloc's."""
    name = os.path.basename(max(glob.glob(f"{root}/usr/bin/php[0-9]*"), default="php"))
    profiled = Profiled(root, directory, [f"/usr/bin/{name}", "-r", PHP], (300_000, 700_000), IN_MALLOC)
    profiled.check_counted(20, 10_000_000)
    profiled.check_functions("php", [["str_repeat", 0], ["held", 3], ["{closure:middle():6}", 6], ["array_map", 0],
                                     ["middle", 6], ["{eval}", 9]])


def check_stacks(root, directory):
    """The stacks that this C library gives to threads."""
    shutil.copy(program("resident"), os.path.join(root, "tmp", "resident"))
    profiled = Profiled(root, directory, ["/tmp/resident", "threads"])
    Table(profiled.output).check_near("thread_stacks", STACK_BYTES, STACK_BYTES // 8)


def of_suite(suite, *checks):
    def body():
        with tempfile.TemporaryDirectory() as directory:
            root = os.path.join(directory, "root")
            made_root(suite, root)
            for each in checks:
                each(root, directory)
    return body


test_trixie = of_suite("trixie", check_python, check_ruby, check_php, check_stacks)
test_sid = of_suite("sid", check_python, check_ruby, check_php, check_stacks)
test_noble = of_suite("noble", check_ruby)


if __name__ == "__main__":
    harness.main()
