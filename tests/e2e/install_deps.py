#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""scripts/install-deps, with an apt whose directories are in a temporary one, and a dpkg that does nothing.

    install_deps.py waits     while another package manager has the lock of the lists or of dpkg, it says so, and waits
    install_deps.py names     it takes the names that apt has, and says which are under none
    install_deps.py others    without apt, it prints the packages of the system that /etc/os-release names
"""

import contextlib
import fcntl
import hashlib
import os
import subprocess
import tempfile

import harness
from harness import ROOT, check, need, run, skip

SCRIPT = os.path.join(ROOT, "scripts", "install-deps")
CONFIGURATION = """
Dir "{directory}";
Dir::State::status "{directory}/var/lib/dpkg/status";
Dir::Etc::sourcelist "{directory}/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::Etc::parts "/dev/null";
Dir::Bin::dpkg "/bin/true";
APT::Sandbox::User "";
APT::Architecture "amd64";
APT::Architectures {{ "amd64"; }};
"""
PACKAGE = """Package: {name}
Version: 1
Architecture: amd64
Maintainer: nobody <nobody@example.org>
Filename: ./{name}.deb
Size: {size}
SHA256: {hash}
Description: {name}

"""


@contextlib.contextmanager
def system(names):
    """Yield a directory and an environment, in which no package is installed, and apt has these."""
    need("apt-get", "apt-cache", "dpkg-query")
    with tempfile.TemporaryDirectory(prefix="install-deps-") as directory:
        for name in ("var/lib/dpkg", "var/lib/apt/lists/partial", "var/cache/apt/archives/partial", "etc/apt/preferences.d", "var/log/apt", "bin", "repository"):
            os.makedirs(os.path.join(directory, name))
        open(os.path.join(directory, "var/lib/dpkg/status"), "w").close()
        with open(os.path.join(directory, "repository", "Packages"), "w") as packages:
            for name in names:
                with open(os.path.join(directory, "repository", name + ".deb"), "w") as file:
                    file.write(name)
                packages.write(PACKAGE.format(name=name, size=len(name), hash=hashlib.sha256(name.encode()).hexdigest()))
        with open(os.path.join(directory, "sources.list"), "w") as file:
            file.write(f"deb [trusted=yes] file:{directory}/repository ./\n")
        with open(os.path.join(directory, "apt.conf"), "w") as file:
            file.write(CONFIGURATION.format(directory=directory))
        # The real one knows this machine's packages. It also stands for sudo.
        for name, text in (("dpkg-query", "exit 0"), ("sudo", 'exec "$@"')):
            path = os.path.join(directory, "bin", name)
            with open(path, "w") as file:
                file.write(f"#!/bin/sh\n{text}\n")
            os.chmod(path, 0o755)
        yield directory, {"APT_CONFIG": os.path.join(directory, "apt.conf"), "LANG": "de_DE.UTF-8",
                          "PATH": f"{directory}/bin:{os.environ['PATH']}"}


def held(path):
    """Lock a file as apt does, and return it."""
    file = open(path, "w")
    fcntl.lockf(file, fcntl.LOCK_EX)
    return file


def test_waits():
    with system(["gcc", "meson"]) as (directory, environment):
        for name, other in (("var/lib/apt/lists/lock", "the lists"), ("var/lib/dpkg/lock-frontend", "dpkg")):
            lock = held(os.path.join(directory, name))
            process = subprocess.Popen([SCRIPT, "build"], env={**os.environ, **environment}, text=True,
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            said = ""
            for line in process.stderr:  # ends when it ends
                said += line
                if "waiting for another package manager" in line:
                    check(directory in line, f"{other}: it does not name the lock: {line!r}")
                    lock.close()
            check("waiting for another package manager" in said, f"{other}: {said!r}")
            check(said.count("waiting") == 1, f"{other}: it says so again: {said!r}")
            out = process.stdout.read()
            check(process.wait() == 0 and "installing gcc meson" in out, f"{other}: {process.returncode}, {out!r}, {said!r}")
            lock.close()


def test_names():
    with system(["gcc", "pkgconf", "libcurl-dev"]) as (_, environment):
        outcome = run([SCRIPT, "build"], env=environment)
        check(outcome.status == 0, f"status {outcome.status}: {outcome.stderr!r}")
        check(b"installing gcc pkgconf libcurl-dev\n" in outcome.stdout, f"{outcome.stdout!r}")
        lacks = outcome.stderr.decode()
        check("lists lack meson ninja-build libc6-dev" in lacks and "pkg" not in lacks.split("lack")[1].split("libc6")[0], lacks)


def test_others():
    need("unshare")
    if os.geteuid() != 0 or subprocess.run(["unshare", "--mount", "true"], stderr=subprocess.DEVNULL).returncode != 0:
        skip("another /etc/os-release needs root and a mount namespace")
    with tempfile.TemporaryDirectory() as directory:
        # All that the script calls before it knows that there is no apt.
        tools = os.path.join(directory, "bin")
        os.mkdir(tools)
        for name in ("bash", "env", "dirname"):
            os.symlink(os.path.join("/bin" if os.path.exists("/bin/" + name) else "/usr/bin", name), os.path.join(tools, name))
        release = os.path.join(directory, "os-release")
        for system_id, wanted in (("ID=fedora", "dnf install gcc meson"), ('ID="rocky"\nID_LIKE="rhel fedora"', "dnf install"),
                                  ("ID=arch", "pacman -S --needed base-devel"), ('ID="opensuse-leap"\nID_LIKE="suse opensuse"', "zypper install"),
                                  ("ID=alpine", "apk add bash"), ("ID=other", "packages of Debian")):
            with open(release, "w") as file:
                file.write(system_id + "\n")
            outcome = run(["unshare", "--mount", "sh", "-c", 'mount --bind "$0" "$(realpath /etc/os-release)" && PATH=$1 exec /bin/bash "$2" build',
                           release, tools, SCRIPT])
            check(outcome.status == 1 and wanted in outcome.stderr.decode(), f"{system_id}: {outcome.status}, {outcome.stderr!r}")


if __name__ == "__main__":
    harness.main()
