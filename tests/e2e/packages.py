#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""make deb: lintian accepts the packages, and they work in a fresh Debian 12. packages.py [DIRECTORY]

DIRECTORY has the packages already. They are installed with apt in a new root directory, with mount and process namespaces of its own, and purged.
Those of Debian 12 are installed and used in newer releases, too.
"""

import atexit
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time

import harness
from as_service import filtered
from harness import BUILD, ROOT, check, finish, need, skip

PAGE = os.path.join(BUILD, "src", "tools", "view", "page", "view_page.c")
# The packages differ from those of `make deb` in that only the client is optimized, have no debug information, and are
# hardly compressed.
QUICKLY = {"DEB_CFLAGS_APPEND": "-O0 -g0", "DEB_BUILD_OPTIONS": "noautodbgsym", "DPKG_DEB_COMPRESSOR_LEVEL": "0"}
# For the development package.
COMPILER = ("gcc", "libc6-dev", "pkg-config")
TIMEOUT_S = 1200
# Directories whose files change with any installation.
STATE = ("/var/lib/dpkg", "/var/lib/apt", "/var/cache", "/var/log", "/etc/ld.so.cache", "/proc", "/packages")

# Profile a process, $target.
USE_DAEMON = """
heapprofd & daemon=$!
timeout 20 sh -c 'until [ -S /run/heapprofd/socket ]; do sleep 0.05; done' || exit 1
rm -rf /tmp/attached
heap_profile -p $target -c 100 -o /tmp/attached & session=$!
timeout 120 sh -c 'until heap_profile report /tmp/attached | grep -q "^ *allocated  *[1-9]"; do sleep 0.1; done' 2>/dev/null
kill $session
wait $session || exit 1
timeout 20 sh -c 'until heap_profile status | grep -q "^no sessions"; do sleep 0.05; done'
heap_profile status
heap_profile report /tmp/attached
kill $daemon
wait $daemon
"""

# A shell that allocates for ever.
ALLOCATE = "while :; do x=$x.; x=${x%..........}; done"

# The daemon starts the collector, which writes periods into a directory.
USE_COLLECTOR = """
mkdir /etc/heapprofd.conf.d
printf '[continuous]\\nperiod = 1s\\n[program allocating]\\n[sink files]\\ntype = directory\\npath = /tmp/sink\\n' \\
    >/etc/heapprofd.conf.d/test.conf
cp /bin/sh /tmp/allocating
/tmp/allocating -c "$ALLOCATE" & target=$!
heapprofd & daemon=$!
timeout 30 sh -c 'until [ "$(find /tmp/sink -type f 2>/dev/null)" ]; do sleep 0.1; done'
found=$?
heap_profile status
find /tmp/sink
kill $daemon $target
wait $daemon
rm -r /etc/heapprofd.conf.d
exit $found
"""

USE_LIBRARY = """
cd /tmp
example=/usr/share/doc/heapprofd/examples/arena.c
for library in heapprofd-client heapprofd-client-static heapprofd-noop; do
    gcc -Wall -Werror -o $library $example $(pkg-config --cflags --libs $library) || exit 1
    ./$library || exit 1
done
heap_profile host --quiet -o /tmp/arena -- ./heapprofd-client && heap_profile report /tmp/arena
"""


# Libraries have other packages there: libelf1t64 for libelf1.
NEWER = ("trixie", "sid")

USE_TOOLS = """
apt-get -qq install -y /packages/*.deb || exit 1
for file in /usr/bin/heap_profile /usr/bin/heapprofd /usr/bin/traceconv /usr/libexec/heapprofd/*; do
    ! ldd $file | grep 'not found' || exit 1
done
heap_profile host --quiet -o /tmp/ls -- ls / && heap_profile report /tmp/ls && heap_profile query /tmp/ls 'select 6 * 7'
"""


class Root:
    """A root directory with a release of Debian."""

    def __init__(self, path, release="bookworm"):
        self.path = path
        self.release = release
        self.problem = "not made"

    def install_debian(self, *packages):
        mirror = re.search(r"\S*debian\S*", subprocess.run(
            ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages", "Codename: bookworm"],
            capture_output=True, text=True).stdout)
        result = subprocess.run(
            ["mmdebstrap", "--variant=apt", "--quiet", "--skip=cleanup/apt/lists", "--aptopt=APT::Install-Recommends false",
             "--aptopt=Acquire::Check-Valid-Until false",  # a mirror of an earlier day
             *([f"--include={','.join(packages)}"] if packages else []), self.release, self.path,
             mirror[0] if mirror else "http://deb.debian.org/debian/"],
            capture_output=True, text=True, errors="replace")
        self.problem = "" if result.returncode == 0 else f"mmdebstrap {self.release}: {result.stderr[-1000:]}"

    def run(self, script, namespaces=("--pid",), wrapper=()):
        """Run a shell's script as root of the directory. Everything that it starts in its own --pid ends with it."""
        inside = f"mount -t proc proc {self.path}/proc && exec chroot {self.path} \"$@\""
        return subprocess.run(
            ["unshare", "--mount", *namespaces, "--fork", "--kill-child", "sh", "-c", inside, "sh", *wrapper,
             "sh", "-c", script],
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive", "HOME": "/root",
                 "ALLOCATE": ALLOCATE},
            capture_output=True, text=True, errors="replace", timeout=TIMEOUT_S)

    def succeeds(self, script, what, wanted="", **options):
        result = self.run(script, **options)
        check(result.returncode == 0, f"{what}: {result.returncode}, {result.stdout[-1500:]} {result.stderr[-1500:]}")
        if os.environ.get("HEAPPROFD_VERBOSE"):
            print(f"{what}:\n{result.stdout}{result.stderr}")
        check(re.search(wanted, result.stdout), f"{what}: no {wanted!r} in {result.stdout[-1500:]}")

    def files(self):
        result = subprocess.run(["find", self.path, "-xdev"], capture_output=True, text=True, check=True)
        names = {line.removeprefix(self.path) for line in result.stdout.splitlines()}
        return {name for name in names if not name.startswith(STATE)}


def build(directory):
    """Build the packages."""
    arguments = ["--page", PAGE] if os.path.exists(PAGE) else []
    result = subprocess.run(
        [os.path.join(ROOT, "scripts", "deb"), *arguments, directory], capture_output=True, text=True, errors="replace",
        env={**os.environ, **({} if harness.LONG else QUICKLY)})
    check(result.returncode == 0, f"scripts/deb: {result.stderr[-3000:]}")


def lintian(directory):
    changes = [name for name in os.listdir(directory) if name.endswith(".changes")]
    result = harness.run(["lintian", "--allow-root", "--fail-on", "error,warning", os.path.join(directory, changes[0])], timeout=1200)
    check(result.status == 0, f"lintian: {result.stdout.decode()} {result.stderr.decode()}")


def rights_of_examples():
    """Return the capabilities that the examples for containers add. All add the same."""
    directory = os.path.join(ROOT, "examples", "containers")
    found = set()
    for name in ("compose.yaml", "daemonset.yaml"):
        with open(os.path.join(directory, name)) as file:
            found |= {tuple(re.findall(r"- ([A-Z_]+)$", text, re.M)) for text in re.findall(
                r"add:\n((?: +- [A-Z_]+\n)+)", file.read())}
    check(len(found) == 1, f"rights of the examples: {found}")
    return found.pop()


def try_container(root):
    """A daemon with an example's rights attaches to a program outside that is under a filter, as in a container."""
    bounds = ",".join(["-all", *("+" + name.lower() for name in rights_of_examples())])
    outside = subprocess.Popen([*filtered(), "/bin/sh", "-c", ALLOCATE])
    try:
        root.succeeds(
            "target=%d; %s" % (outside.pid, USE_DAEMON), "container", "no sessions(.|\n)* allocated  +[1-9]",
            namespaces=("--net",), wrapper=("setpriv", "--no-new-privs", f"--bounding-set={bounds}"))
    finally:
        outside.kill()
        outside.wait()


def bring(root, packages):
    inside = os.path.join(root.path, "packages")
    os.mkdir(inside)
    for package in packages:
        shutil.copy(package, inside)
    shutil.copy("/etc/resolv.conf", os.path.join(root.path, "etc"))


def try_newer(root, packages):
    """The packages of Debian 12 work in a newer release. The mirror may not have it."""
    if root.problem:
        print(f"left out: {root.problem}")
        return
    bring(root, packages)
    root.succeeds(USE_TOOLS, root.release, r"Bytes live(.|\n)*\b42\b")


def try_packages(root, packages):
    """Install, use and purge the packages."""
    bring(root, packages)
    before = root.files()
    root.succeeds("apt-get -qq install -y /packages/heapprofd_*.deb", "only the daemon")
    for absent in ("/usr/bin/heap_profile", "/usr/libexec/heapprofd", "/lib/systemd/system/heapprofd-collector.service"):
        check(not os.path.exists(root.path + absent), f"the daemon's package brings {absent}")
    root.succeeds("apt-get -qq install -y /packages/*.deb", "apt-get install")
    root.succeeds("heap_profile host -o /tmp/ls -- ls / && heap_profile report /tmp/ls", "host", r"Bytes live")
    root.succeeds("sh -c \"$ALLOCATE\" & target=$!; " + USE_DAEMON, "daemon", "no sessions(.|\n)* allocated  +[1-9]")
    root.succeeds(USE_LIBRARY, "development package", "arena")
    root.succeeds(USE_COLLECTOR, "collector", "/tmp/sink/")
    try_container(root)
    root.succeeds("rm -rf /tmp/* /root/.cache /root/.local", "remove the profiles")
    names = " ".join(os.path.basename(package).split("_")[0] for package in packages)
    root.succeeds(f"apt-get -qq purge -y --autoremove {names}", "purge")
    after = root.files()
    check(after == before, f"left: {sorted(after - before)[:20]}, gone: {sorted(before - after)[:20]}")


def main():
    need("mmdebstrap", "dh", "lintian", "unshare", "systemd-analyze")
    if os.geteuid() != 0:
        skip("a root directory needs root")
    if subprocess.run(["unshare", "--mount", "--pid", "--fork", "true"], stderr=subprocess.DEVNULL).returncode != 0:
        skip("this machine has no namespaces for us")
    directory = tempfile.mkdtemp(prefix="packages-", dir=os.environ.get("TMPDIR", "/var/tmp"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    root = Root(os.path.join(directory, "root"))
    newer = [Root(os.path.join(directory, release), release) for release in NEWER]
    begin = time.monotonic()

    def install_releases():
        root.install_debian(*COMPILER)
        for other in newer:
            other.install_debian()

    debian = threading.Thread(target=install_releases)
    debian.start()
    output = sys.argv[1] if len(sys.argv) > 1 else os.path.join(directory, "build")
    if len(sys.argv) == 1:
        build(output)
    built = time.monotonic()
    packages = [name for name in glob.glob(os.path.join(output, "*.deb")) if "-dbgsym" not in name]
    if packages:
        lintian(output)
    debian.join()
    ready = time.monotonic()
    check(not root.problem, root.problem)
    if not harness.failures:
        try_packages(root, packages)
        for other in newer:
            try_newer(other, packages)
    end = time.monotonic()
    print(f"build {built - begin:.1f} s, lintian and Debian {ready - built:.1f} s, packages {end - ready:.1f} s")
    finish()


main()
