#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""make dist: the file for servers works in any root directory, from any place, and in containers. dist.py [FILE]

The roots are Debian 11, 12, 13 and sid, and one with musl and a static busybox. FILE is
used instead of one that is made here.
"""

import glob
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import tarfile
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

import as_service
import harness
from harness import BUILD, ROOT, check, fail, finish, need, run, skip

BYTES_MAX = 25_000_000
SUITES = ("bullseye", "bookworm", "trixie", "sid")
PLACE = "/opt/of a server"
TIMEOUT_S = 120
# A program that was there before and goes on, and one that allocates at its start and ends.
PERL_LOOP = ("exec perl -e 'while (1) { my %h = map { $_ . rand() => \"x\" x (1000 + rand 1000) } 1..100; "
             "select undef, undef, undef, 0.01 }'")
PERL_ONCE = "perl -e 'my @a = map { \"x\" x 1000 } 1..100;'"
MUSL_LOOP = "while :; do echo churn 100 1000; sleep 0.05; done | exec /commanded"
MUSL_ONCE = "/commanded"
ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "TERM": "dumb", "LC_ALL": "C"}

# Wait until a running session has seen allocations, and end it: until_seen DIRECTORY SESSION.
UNTIL_SEEN = """
until_seen() {
    until ./heap_profile report $1 2>/dev/null | grep -q "^ *allocated  *[1-9]"; do
        kill -0 $2 || exit 1
        sleep 0.1
    done
    kill $2
    wait $2
}
"""
HOST = """
rm -rf /tmp/host
echo hold 100 1000 | ./heap_profile host --quiet -o /tmp/host -- sh -c "exec $ONCE" >/dev/null || exit 1
./heap_profile report /tmp/host >/tmp/report || exit 1
grep "^  allocated" /tmp/report || exit 1
./heap_profile query /tmp/host "select 'calls', sum(count) from heap_profile_allocation where count > 0" || exit 1
"""
# A program that kills itself for each system call of ours: its stacks are whole in any C library.
PERL_FILTERS = r"""
sub hold { my $depth = shift; return $depth > 0 ? hold($depth - 1) : map { "x" x (2000 + $_) } 1..500 }
my @ours = (9, 28, 39, 186, 257, 310); # mmap, madvise, getpid, gettid, openat, process_vm_readv
my @filter = ([0x20, 0, 0, 0], (map { ([0x15, 0, 1, $_], [0x06, 0, 0, 0x80000000]) } @ours), [0x06, 0, 0, 0x7fff0000]);
my @room = map { "x" x 3000 } 1..1000;
undef @room;
my $code = join "", map { pack "SCCL", @$_ } @filter;
my $program = pack "S x6 P", scalar(@filter), $code;
syscall(157, 38, 1, 0, 0, 0) == 0 && syscall(157, 22, 2, $program) == 0 or die "prctl: $!";
my @held = hold(20);
"""
RESTRICTED = """
./heap_profile host --quiet -i 1 -o /tmp/restricted -- perl -e "$FILTERS" || exit 1
./heap_profile report /tmp/restricted >/tmp/report || exit 1
grep "every allocation" /tmp/report
grep incomplete /tmp/report && exit 1
exit 0
"""
SAVE = """
./heap_profile view --save /tmp/saved.html /tmp/host || exit 1
head -c 15 /tmp/saved.html
./heap_profile doctor
"""
RUNNING = UNTIL_SEEN + """
sh -c "$LOOP" & target=$!
./heap_profile -p $(program_of $target) -c 100 -o /tmp/running & until_seen /tmp/running $! || exit 1
kill $target
echo attached
"""
NAMED = UNTIL_SEEN + """
./heap_profile -n $NAME -c 100 -o /tmp/named & session=$!
until ./heap_profile status | grep -q /tmp/named; do kill -0 $session || exit 1; sleep 0.1; done
sh -c "$LOOP" & target=$!
until_seen /tmp/named $session || exit 1
kill $target
echo found
"""
CONTINUOUS = """
mkdir -p /etc/heapprofd.conf.d
printf '[continuous]\\nperiod = 1s\\n[program %s]\\n[sink files]\\ntype = directory\\npath = /tmp/sink\\n' $NAME \\
    >/etc/heapprofd.conf.d/test.conf
sh -c "$LOOP" & target=$!
./heapprofd & daemon=$!
until [ "$(find /tmp/sink -type f 2>/dev/null)" ]; do kill -0 $daemon || exit 1; sleep 0.1; done
./heap_profile status
kill $daemon $target
wait $daemon
rm /etc/heapprofd.conf.d/test.conf
echo collected
"""

# A sink needs the program curl, which no root has.
NO_CURL = """
printf '[continuous]\\nperiod = 1s\\n[program %s]\\n[sink web]\\ntype = pyroscope\\nurl = http://localhost:1\\n' $NAME \\
    >/etc/heapprofd.conf.d/test.conf
sh -c "$LOOP" >/dev/null & target=$!
./heapprofd & daemon=$!
until ./heap_profile status | grep "install curl"; do kill -0 $daemon || exit 1; sleep 0.1; done
kill $daemon $target
wait $daemon
"""


class Root:
    """A root directory in which the file is unpacked."""

    def __init__(self, directory, name, once=PERL_ONCE, loop=PERL_LOOP):
        self.path = os.path.join(directory, name)
        self.name, self.once, self.loop = name, once, loop
        self.program = os.path.basename(re.findall(r"exec (\S+)", loop)[0])
        self.problem = ""

    def install_debian(self, mirror):
        """Unpack a few packages of Debian. Archives of old releases have lists that have expired."""
        result = subprocess.run(
            ["mmdebstrap", "--variant=extract", "--quiet", "--aptopt=Acquire::Check-Valid-Until \"false\"",
             "--aptopt=APT::Install-Recommends false", "--include=base-files,coreutils,dash,findutils,grep,perl-base",
             self.name, self.path, mirror], capture_output=True, text=True, errors="replace")
        self.problem = "" if result.returncode == 0 else result.stderr[-500:]

    def install_busybox(self, *files):
        os.makedirs(os.path.join(self.path, "bin"))
        shutil.copy(shutil.which("busybox"), os.path.join(self.path, "bin"))
        names = run([os.path.join(self.path, "bin", "busybox"), "--list"]).stdout.decode().split()
        for name in names:
            if name != "busybox":
                os.symlink("busybox", os.path.join(self.path, "bin", name))
        for source, target in files:
            os.makedirs(os.path.dirname(self.path + target), exist_ok=True)
            shutil.copy(source, self.path + target)

    def unpack(self, file):
        for name in ("proc", "dev", "tmp", "etc", "run", PLACE[1:]):
            os.makedirs(os.path.join(self.path, name), exist_ok=True)
        with tarfile.open(file) as archive:
            archive.extractall(self.path + PLACE)
        # Look-ups for which the root has no libraries.
        with open(os.path.join(self.path, "etc", "nsswitch.conf"), "w") as names:
            names.write("passwd: files systemd sss\ngroup: files systemd sss\nhosts: files resolve dns\n")
        self.place = os.path.join(PLACE, os.listdir(self.path + PLACE)[0])

    def command(self, script, namespaces=("--pid",), rights=(), user=0):
        """Return a command that runs a shell's script as root of the directory, in the unpacked one. Everything that it
        starts ends with it. `rights`: a command that restricts what it starts."""
        inside = (f"mount -t proc proc {self.path}/proc && mount --bind /dev {self.path}/dev && "
                  f"exec \"$@\"")
        # program_of: the process that has become of a shell, or its child at the end of a pipe.
        functions = """program_of() {
            until found=$(grep -l -x "$NAME" /proc/[0-9]*/comm 2>/dev/null); do sleep 0.05; done
            found=${found%%/comm*}; echo ${found#/proc/}; }
        """
        return ["unshare", "--mount", *namespaces, "--fork", "--kill-child", "sh", "-c", inside, "sh", *rights,
                "chroot", *([f"--userspec={user}:{user}"] if user else []), self.path, "sh", "-c", f"cd '{self.place}' || exit 1\n{functions}\n{script}"]

    def environment(self, name=None):
        return {**ENVIRONMENT, "ONCE": self.once, "LOOP": self.loop, "NAME": name or self.program, "FILTERS": PERL_FILTERS}

    def run(self, script, before=(), name=None, **options):
        try:
            return subprocess.run(
                [*before, *self.command(script, **options)], env=self.environment(name), capture_output=True, text=True,
                errors="replace", timeout=TIMEOUT_S, stdin=subprocess.DEVNULL)
        except subprocess.TimeoutExpired as late:
            return subprocess.CompletedProcess(late.cmd, 124, str(late.stdout), str(late.stderr))

    def succeeds(self, script, what, wanted, **options):
        begin = time.monotonic()
        result = self.run(script, **options)
        if os.environ.get("HEAPPROFD_VERBOSE"):
            print(f"{self.name}, {what}, {time.monotonic() - begin:.1f} s:\n{result.stdout}{result.stderr}")
        check(result.returncode == 0 and re.search(wanted, result.stdout),
              f"{self.name}, {what}: {result.returncode}, no {wanted!r}: {result.stdout[-1500:]} {result.stderr[-1500:]}")
        return result.stdout


def make(directory):
    """Make the file. Return its path."""
    begin = time.monotonic()
    result = run([os.path.join(ROOT, "scripts", "dist"), "build", directory], timeout=600)
    found = glob.glob(os.path.join(directory, "*.tar.gz"))
    if result.status != 0 or len(found) != 1:
        raise RuntimeError(f"scripts/dist: {result.stderr.decode()[-3000:]} {result.stdout.decode()[-3000:]}")
    print(f"made in {time.monotonic() - begin:.1f} s, {os.path.getsize(found[0]):,} bytes")
    return found[0]


def needs_loader(content):
    """Return whether a program's ELF file has PT_INTERP."""
    offset, = struct.unpack_from("<Q", content, 32)
    size, count = struct.unpack_from("<HH", content, 54)
    return any(struct.unpack_from("<I", content, offset + i * size)[0] == 3 for i in range(count))


def check_file(path):
    """It is small, has what an installation has, programs that need no loader, and no trace of where it was built."""
    check(os.path.getsize(path) <= BYTES_MAX, f"{os.path.getsize(path)} bytes")
    with tarfile.open(path) as archive:
        members = archive.getmembers()
        contents = {member.name.partition("/")[2]: archive.extractfile(member).read() for member in members if member.isreg()}
    for name in ("bin/heap_profile", "bin/heapprofd", "bin/traceconv", "libexec/heapprofd/heapprofd_collector",
                 "libexec/heapprofd/heap_profile_view", "libexec/heapprofd/heap_profile_query",
                 "lib/heapprofd/libheapprofd_preload.so", "lib/libheapprofd_client.a", "include/heap_profile.h",
                 "share/man/man1/heap_profile.1", "share/doc/heapprofd/docs/containers.md",
                 "share/doc/heapprofd/licenses/libdw-dev", "share/doc/heapprofd/licenses/libxxhash-dev", "share/bash-completion/completions/heap_profile",
                 "lib/pkgconfig/heapprofd-client.pc", "lib/systemd/system/heapprofd.service"):
        check(name in contents, f"{name} is missing")
    for member in members:
        check((member.uid, member.gid, member.uname, member.mode & 0o022) == (0, 0, "", 0), f"{member.name}: {member}")
    check([m.name for m in members] == sorted(m.name for m in members), "the members are not sorted")
    check(len({member.mtime for member in members}) == 1, "the members differ in time")
    here = os.path.realpath(ROOT).encode()
    for name, content in contents.items():
        check(here not in content, f"{name} names the directory of the build")
        if name.startswith(("bin/", "libexec/")):
            check(content[:4] == b"\x7fELF" and not needs_loader(content), f"{name} needs a loader")


def check_clients(tree):
    """No symbol of the preload library has a version, so that it is loaded next to any C library."""
    library = os.path.join(tree, "lib", "heapprofd", "libheapprofd_preload.so")
    shown = run(["readelf", "--dyn-syms", "--dynamic", "--wide", library]).stdout.decode()
    check(not re.search(r"\bUND \S+@|\(NEEDED\)|\(VERNEED\)", shown), f"the preload library needs versions: {shown}")


def check_places(file, directory):
    """It works from a directory with a blank, through a link in PATH, and compiles programs from there."""
    place = os.path.join(directory, "a place of its own")
    os.mkdir(place)
    with tarfile.open(file) as archive:
        archive.extractall(place)
    tree = os.path.join(place, os.listdir(place)[0])
    check_clients(tree)
    links = os.path.join(directory, "links")
    os.mkdir(links)
    os.symlink(os.path.join(tree, "heap_profile"), os.path.join(links, "heap_profile"))
    for number, (command, path) in enumerate((("./heap_profile", "/usr/bin:/bin"), ("heap_profile", links + ":/usr/bin:/bin"))):
        output = os.path.join(directory, f"place{number}")
        environment = {"PATH": path}
        outcome = run([command, "host", "--quiet", "-o", output, "--", "ls", "/"], cwd=tree, env=environment)
        check(outcome.status == 0, f"{command}: {outcome.stderr!r}")
        outcome = run([command, "query", output, "select 6 * 7"], cwd=tree, env=environment)
        check(b"42" in outcome.stdout, f"{command} query: {outcome.stderr!r}")
    outcome = run(["pkg-config", "--cflags", "--libs", "heapprofd-client"],
                  env={"PKG_CONFIG_PATH": os.path.join(tree, "lib", "pkgconfig")})
    check(b"place" in outcome.stdout and b"/usr/local" not in outcome.stdout, f"pkg-config: {outcome.stdout} {outcome.stderr}")
    return tree


def try_root(root):
    """All ways to profile, from inside."""
    text = root.succeeds(HOST, "host and query", "allocated")
    calls = sum(int(number.replace(",", "")) for number in re.findall(r"in ([\d,]+) calls, exact", text))
    check(f"\"calls\",{calls}\n" in text, f"{root.name}: report and query differ: {text}")
    if root.once == PERL_ONCE and os.uname().machine == "x86_64":
        root.succeeds(RESTRICTED, "a program that forbids system calls", "every allocation")
    text = root.succeeds(SAVE, "view and doctor", "(?i)^.*<!doctype html")
    check("preload library: /" in text, f"{root.name}: doctor: {text}")
    root.succeeds(RUNNING, "-p", "attached")
    root.succeeds(NAMED, "-n", "found")
    root.succeeds(CONTINUOUS, "continuous mode", "collected")
    root.succeeds(NO_CURL, "a sink without curl", "install curl")


def until(condition, what):
    end = time.monotonic() + TIMEOUT_S
    while not condition():
        if time.monotonic() > end:
            return fail(f"{what} does not come")
        time.sleep(0.05)
    return True


class Program:
    """A program that allocates for ever in a root, in namespaces of its own, perhaps under a filter."""

    def __init__(self, root, before=(), **options):
        self.parent = subprocess.Popen(
            [*before, *root.command(root.loop, **options)], env=root.environment(), stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until(lambda: harness.find_descendant(self.parent.pid, root.program), f"{root.name}: {root.program}")
        self.pid = harness.find_descendant(self.parent.pid, root.program)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        # The first process of the namespace: all others end with it. Its parent cannot be relied on to end it, because
        # the kernel forgets that wish when rights change.
        for child in harness.children_of(self.parent.pid):
            os.kill(child, signal.SIGKILL)
        self.parent.wait()


def attach(tree, pid, directory, before=()):
    """Attach from this tree. Return whether allocations were seen, and what heap_profile said."""
    output = os.path.join(directory, f"attached-{pid}-{time.monotonic_ns()}")
    tool = os.path.join(tree, "heap_profile")
    with tempfile.TemporaryFile() as said:
        session = subprocess.Popen([*before, tool, "-p", str(pid), "-c", "100", "-o", output], stdout=said, stderr=said,
                                   stdin=subprocess.DEVNULL)
        seen = [False]

        def sees():
            report = run([tool, "report", output])
            seen[0] = re.search(rb"^ *allocated +[1-9]", report.stdout, re.M) is not None
            return seen[0] or session.poll() is not None
        until(sees, f"an allocation of {pid}")
        session.send_signal(signal.SIGTERM)
        session.wait(timeout=TIMEOUT_S)
        said.seek(0)
        return seen[0], said.read().decode(errors="replace")


def try_from_outside(root, tree, directory):
    with Program(root) as program:
        seen, said = attach(tree, program.pid, directory)
        check(seen, f"from outside to {root.name}: {said}")


# What Docker and containerd give to a container.
USUAL_RIGHTS = ("chown", "dac_override", "fowner", "fsetid", "kill", "setgid", "setuid", "setpcap", "net_bind_service",
                "net_raw", "sys_chroot", "mknod", "audit_write", "setfcap")
HARMLESS_FILTER = [(as_service.RETURN, 0, 0, as_service.ALLOW)]
ATTACH = UNTIL_SEEN + """
rm -rf /tmp/attached
./heap_profile -p $(program_of) -c 100 -o /tmp/attached & until_seen /tmp/attached $! || exit 1
echo attached
"""
REFUSED = "rm -rf /tmp/refused; ./heap_profile -p ${PID:-$(program_of)} -o /tmp/refused 2>&1; test $? != 0"


def only_rights(*more, denied=None):
    """Return a command that runs another one with a container's usual rights and more, perhaps under a filter."""
    bounds = ",".join(["-all", *("+" + name for name in (*USUAL_RIGHTS, *more))])
    filtered = [*as_service.filtered(denied), shutil.which("env")] if denied else []
    return [*filtered, "setpriv", f"--bounding-set={bounds}"]


def try_containers(pod, debugger):
    """A container with the unpacked file, beside the program of a pod's container, with different rights."""
    no_ptrace = as_service.only("ptrace", as_service.EPERM)

    def beside(program):
        """Return what shares the program's process namespace, as an ephemeral container does."""
        init = harness.children_of(program.parent.pid)[0]
        return {"before": ["nsenter", "--target", str(init), "--pid"], "namespaces": ("--net", "--ipc"), "name": pod.program}

    with Program(pod, rights=only_rights()) as program:
        debugger.succeeds(ATTACH, "beside it, of the same user", "attached", rights=only_rights(), **beside(program))
        debugger.succeeds(REFUSED, "without ptrace", "a seccomp filter of ours forbids ptrace",
                          rights=only_rights("sys_ptrace", denied=no_ptrace), **beside(program))
        debugger.succeeds(f"PID={program.pid}; {REFUSED}", "a process namespace of its own", "No process has this pid",
                          rights=only_rights("sys_ptrace"))
    with Program(pod, user=1000) as program:
        debugger.succeeds(REFUSED, "without SYS_PTRACE to another user", "another user than you",
                          rights=only_rights(), **beside(program))
        debugger.succeeds(ATTACH, "SYS_PTRACE to another user", "attached", rights=only_rights("sys_ptrace"), **beside(program))
    with Program(pod, rights=only_rights(denied=HARMLESS_FILTER)) as program:
        debugger.succeeds(REFUSED, "without SYS_ADMIN to a program under a filter", "seccomp",
                          rights=only_rights("sys_ptrace"), **beside(program))
        debugger.succeeds(ATTACH, "SYS_ADMIN to a program under a filter", "attached",
                          rights=only_rights("sys_ptrace", "sys_admin"), **beside(program))
    for rights in (only_rights(denied=no_ptrace), ["setpriv", "--bounding-set=-all,+sys_chroot", "--no-new-privs"]):
        pod.succeeds(HOST, f"host without rights: {rights[-1]}", "allocated", rights=rights)


def make_musl(directory):
    """Return a root with musl's loader, a program for it, and a static busybox."""
    musl = Root(directory, "musl", MUSL_ONCE, MUSL_LOOP)
    program = os.path.join(directory, "commanded")
    headers = ["-idirafter", "/usr/include", "-idirafter", "/usr/include/x86_64-linux-gnu"]
    built = run(["musl-gcc", "-std=gnu17", "-D_GNU_SOURCE", "-O2", *headers, "-o", program,
                 os.path.join(ROOT, "tests", "programs", "commanded.c")])
    check(built.status == 0, f"musl-gcc: {built.stderr}")
    musl.install_busybox((program, "/commanded"), ("/lib/ld-musl-x86_64.so.1", "/lib/ld-musl-x86_64.so.1"))
    return musl


def main():
    need("mmdebstrap", "unshare", "nsenter", "setpriv", "busybox", "musl-gcc", "readelf")
    if os.geteuid() != 0:
        skip("a root directory needs root")
    if subprocess.run(["unshare", "--mount", "--pid", "--fork", "true"], stderr=subprocess.DEVNULL).returncode != 0:
        skip("this machine has no namespaces for us")
    if os.path.realpath(BUILD) != os.path.join(os.path.realpath(ROOT), "build"):
        skip("this is not the build directory of make dist")
    directory = harness.make_work_directory("dist-")
    # Of the programs that are not run in a root: nothing of the machine's is used or left.
    os.environ["HEAPPROFD_RUN_DIR"] = os.path.join(directory, "run")
    mirrors = re.search(r"\S*debian\S*", run(
        ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages", "Codename: bookworm"]).stdout.decode())
    mirror = mirrors[0] if mirrors else "http://deb.debian.org/debian/"
    debians = [Root(directory, suite) for suite in SUITES]
    begin = time.monotonic()
    with ThreadPoolExecutor(len(SUITES)) as pool:
        installed = [pool.submit(root.install_debian, mirror) for root in debians]
        file = sys.argv[1] if len(sys.argv) > 1 else make(os.path.join(directory, "made"))
        check_file(file)
        tree = check_places(file, directory)
    made = time.monotonic()
    for each in installed:
        each.result()
    for root in debians:
        if root.problem:
            print(f"{root.name} is left out: {root.problem}")
    roots = [root for root in debians if not root.problem] + [make_musl(directory)]
    with ThreadPoolExecutor(len(roots)) as pool:
        for root in roots:
            root.unpack(file)
        for each in [pool.submit(try_root, root) for root in roots]:
            each.result()
        if len(roots) > 1:
            try_containers(roots[0], roots[-1])
        for each in [pool.submit(try_from_outside, root, tree, directory) for root in roots]:
            each.result()
    end = time.monotonic()
    print(f"file and roots {made - begin:.1f} s, use {end - made:.1f} s")
    finish()


main()
