#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""make install: the installed programs work in their place, the loader and pkg-config find the library, make uninstall
removes all of it, and the build directory does not change. install.py"""

import os
import shutil
import subprocess
import tempfile

import docs
from harness import BUILD, ROOT, check, finish, run, skip


def files_of(directory):
    """Return {path: time} of the build directory, without the log that meson writes."""
    return {path: os.stat(path).st_mtime_ns for folder, _, names in os.walk(directory)
            for path in (os.path.join(folder, name) for name in names)
            if not path.endswith("/install-log.txt") and os.path.exists(path)}


# Root installs for the whole system, in a mount namespace with an empty /usr/local and a copy of /etc.
FOR_ALL = """
set -e
mkdir "$work/etc"
cp -a /etc/. "$work/etc"
mount --bind "$work/etc" /etc
mount -t tmpfs tmpfs /usr/local
list() { (cd /usr/local && find . | sort; ldconfig -p | grep heapprofd || true); }
list >"$work/before"
make -s -C "$root" install prefix=/usr/local >"$work/said"
ldconfig -p | grep -F "=> /usr/local/lib/$(gcc -print-multiarch)/libheapprofd_client.so.1" || { echo "not the loader's"; exit 1; }
cd /usr/local/share/doc/heapprofd/examples
for library in heapprofd-client heapprofd-client-static heapprofd-noop; do
    gcc -Wall -Werror -o "$work/$library" arena.c $(pkg-config --cflags --libs $library)
    "$work/$library"
done
heap_profile host --quiet --all-heaps -o "$work/arena" -- "$work/heapprofd-client"
heap_profile report "$work/arena"
cd /
make -s -C "$root" uninstall prefix=/usr/local
list >"$work/after"
diff "$work/before" "$work/after"
cat "$work/said"
"""


def try_for_all():
    if os.geteuid() != 0 or subprocess.run(["unshare", "--mount", "true"], stderr=subprocess.DEVNULL).returncode != 0:
        print("left out: an installation for the whole system needs root and a mount namespace")
        return
    with tempfile.TemporaryDirectory(prefix="install-") as work:
        # Nothing of this machine's own /usr/local.
        outcome = run(["unshare", "--mount", "bash", "-c", FOR_ALL],
                      env={**os.environ, "work": work, "root": ROOT, "PATH": "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"})
        said = outcome.stdout.decode(errors="replace") + outcome.stderr.decode(errors="replace")
        check(outcome.status == 0 and "example.arena" in said, f"for the whole system: {outcome.status}, {said[-1500:]}")
        check("LD_LIBRARY_PATH" not in said and "PKG_CONFIG_PATH" not in said, f"it asks for paths: {said[-500:]}")


def main():
    if os.path.realpath(BUILD) != os.path.join(os.path.realpath(ROOT), "build"):
        skip("this is not the build directory of make install")
    directory = tempfile.mkdtemp(prefix="install-")
    before = files_of(BUILD)
    outcome = run(["make", "-C", ROOT, "install", "prefix=/opt/of its own", f"DESTDIR={directory}"])
    check(outcome.status == 0, f"make install: {outcome.status}, {outcome.stderr[-500:]!r}")
    after = files_of(BUILD)
    changed = [path for path in {*before, *after} if before.get(path) != after.get(path)]
    check(not [path for path in changed if not path.endswith((".ninja_log", ".ninja_deps"))], f"changed: {changed[:5]}")
    prefix = os.path.join(directory, "opt", "of its own")
    check(os.listdir(directory) == ["opt"] and os.listdir(os.path.join(directory, "opt")) == ["of its own"], "DESTDIR")
    out = os.path.join(directory, "out")
    outcome = run([os.path.join(prefix, "bin", "heap_profile"), "host", "--quiet", "-o", out, "--", "ls", "/"])
    check(outcome.status == 0 and os.path.exists(os.path.join(out, "raw-trace")), f"it profiles: {outcome.stderr!r}")
    # A verb that is a program of its own.
    outcome = run([os.path.join(prefix, "bin", "heap_profile"), "query", out, "select 6 * 7"])
    check(outcome.status == 0 and b"42" in outcome.stdout, f"it queries: {outcome.stderr!r}")
    out = os.path.join(directory, "trace")
    outcome = run([os.path.join(prefix, "bin", "heapprofd"), "host", "-o", out, "--", "ls", "/"])
    check(outcome.status == 0 and os.path.exists(out), f"the daemon's host profiles: {outcome.stderr!r}")
    for folder, _, names in os.walk(prefix):
        for name in names:
            path = os.path.join(folder, name)
            if name.endswith((".pc", ".service", ".socket")):
                with open(path) as file:
                    check("/usr/local" not in file.read(), f"{path} names another prefix")
    service = os.path.join(prefix, "lib", "systemd", "system", "heapprofd.service")
    with open(service) as file:
        check("ExecStart=/opt/of its own/bin/heapprofd" in file.read(), "the unit names the prefix")
    docs.test_links(os.path.join(prefix, "share", "doc", "heapprofd"))
    # Install again over the first installation: a link to a directory stays a link.
    os.rename(os.path.join(prefix, "share"), os.path.join(directory, "shared"))
    os.symlink("../../shared", os.path.join(prefix, "share"))
    outcome = run(["make", "-C", ROOT, "install", "prefix=/opt/of its own", f"DESTDIR={directory}"])
    check(outcome.status == 0, f"again: {outcome.status}, {outcome.stderr[-500:]!r}")
    check(os.path.islink(os.path.join(prefix, "share")), "a link became a directory")
    # What an older version left is removed, and what is not ours stays.
    with open(os.path.join(prefix, "share", "heapprofd", "installed-files"), "a") as file:
        file.write("bin/zzz_of_an_older_version\n")
    for name in "bin/zzz_of_an_older_version", "bin/of_the_user":
        open(os.path.join(prefix, name), "w").close()
    outcome = run(["make", "-C", ROOT, "install", "prefix=/opt/of its own", f"DESTDIR={directory}"])
    check(outcome.status == 0, f"a third time: {outcome.status}, {outcome.stderr[-500:]!r}")
    check(not os.path.exists(os.path.join(prefix, "bin", "zzz_of_an_older_version")), "an old file stays")
    outcome = run(["make", "-C", ROOT, "uninstall", "prefix=/opt/of its own", f"DESTDIR={directory}"])
    check(outcome.status == 0, f"make uninstall: {outcome.status}, {outcome.stderr[-500:]!r}")
    left = [os.path.join(folder, name) for place in (prefix, os.path.join(directory, "shared"))
            for folder, _, names in os.walk(place) for name in names]
    check(left == [os.path.join(prefix, "bin", "of_the_user")], f"left: {left}")
    check(not os.path.exists(os.path.join(prefix, "libexec", "heapprofd")), "an empty directory of ours stays")
    outcome = run(["make", "-C", ROOT, "uninstall", "prefix=/opt/of its own", f"DESTDIR={directory}"])
    check(outcome.status != 0 and b"nothing to remove" in outcome.stderr, f"again: {outcome.stderr!r}")
    shutil.rmtree(directory)
    try_for_all()
    finish()


main()
