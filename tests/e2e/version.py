#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The version stands in meson.build, and what repeats it agrees.

    version.py files      debian/changelog, CHANGELOG.md, the man pages and the page's package
    version.py programs   --version of each program, and the commit that it was built from
    version.py tarball    sources without git, also inside of another project's checkout, have no commit
"""

import json
import os
import re
import shutil
import tempfile

import harness
from harness import BUILD, ROOT, check, need, run

PROGRAMS = ("heap_profile", "heapprofd", "traceconv", "heapprofd_collector")
COMMIT = r"[0-9a-f]{12}(-dirty)?"


def read(*names):
    with open(os.path.join(ROOT, *names), encoding="utf-8") as file:
        return file.read()


def version():
    return re.search(r"^  version: '(.*)',$", read("meson.build"), re.M)[1]


def test_files():
    wanted = version()
    changes = re.findall(r"^## \[(.*?)\](?: - (\S+))?$", read("CHANGELOG.md"), re.M)
    released = [(name, date) for name, date in changes if name != "Unreleased"]
    check(released[0][0] == wanted, f"CHANGELOG.md has {released[0][0]}")
    check(all(re.fullmatch(r"\d{4}-\d\d-\d\d", date) for _, date in released), f"dates: {released}")
    package = re.match(r"heapprofd \(([^)-]*)(-[^)]*)?\)", read("debian", "changelog"))
    check(package[1] == wanted, f"debian/changelog has {package[1]}")
    for name in sorted(os.listdir(os.path.join(ROOT, "man"))):
        if name.endswith(".1"):
            check(f"\n.Os heapprofd {wanted}\n" in read("man", name), f"man/{name} has another version")
    page = json.loads(read("src", "tools", "view", "page", "package.json"))["version"]
    check(page == wanted, f"the page's package has {page}")


def test_programs():
    wanted = version()
    seen = set()
    for name in PROGRAMS:
        path = os.path.join(BUILD, name)
        if not os.path.exists(path):
            continue  # built without libcurl
        said = run([path, "--version"]).stdout.decode()
        found = re.fullmatch(rf"{name} {re.escape(wanted)}(?: \(({COMMIT})\))?\n", said)
        check(found, f"{name}: {said!r}")
        seen.add(found and found[1])
    check(len(seen) == 1, f"commits: {seen}")


def test_tarball():
    need("git")
    with tempfile.TemporaryDirectory() as directory:
        scripts = os.path.join(directory, "heapprofd", "scripts")
        os.makedirs(scripts)
        shutil.copy(os.path.join(ROOT, "scripts", "print-commit"), scripts)
        print_commit = os.path.join(scripts, "print-commit")

        def git(*arguments):
            outcome = run(["git", "-c", "user.name=x", "-c", "user.email=x@x.example", *arguments], cwd=directory)
            check(outcome.status == 0, f"git {arguments}: {outcome.stderr!r}")

        check(run([print_commit]).stdout == b"", "a commit without git")
        git("init", "--quiet", ".")
        git("add", ".")
        git("commit", "--quiet", "-m", "x")
        check(run([print_commit]).stdout == b"", "the commit of another project")
        os.rename(os.path.join(directory, ".git"), os.path.join(directory, "heapprofd", ".git"))
        said = run([print_commit]).stdout.decode()
        check(re.fullmatch(COMMIT + "\n", said), f"its own commit: {said!r}")


if __name__ == "__main__":
    harness.main()
