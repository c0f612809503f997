#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Programs that the preloaded library cannot see are profiled from their first allocation on: entered.py CASE"""

import os
import tempfile

import harness
import unseen
from harness import TOOL, check, run
from robust import check_truth

JEMALLOC = "/usr/lib/x86_64-linux-gnu/libjemalloc.a"
OF_JEMALLOC = [JEMALLOC, "-lstdc++", "-lm", "-lpthread"]


def build(directory, name, *arguments, compiler="gcc"):
    return unseen.build(directory, name, *arguments, compiler=compiler, source="from_start.c")


def with_library(directory, name, *arguments):
    """Build the program with its library. Return None if it cannot be built."""
    if unseen.build(directory, f"lib{name}_first.so", "-DLIBRARY", "-shared", "-fPIC", source="from_start.c") is None:
        return None
    return build(directory, name, "-DWITH_LIBRARY", "-L" + directory, f"-l{name}_first",
                 "-Wl,-rpath,$ORIGIN,--export-dynamic", *arguments)


def check_whole(path, words, interval=1):
    """Check that the program runs as ever, that each of its allocations is in its profile, and what the remark says."""
    name = os.path.basename(path)
    outcome, profile = harness.same_with_and_without([path], interval)
    check(outcome.status == 3 and b"TracerPid:\t0\n" in outcome.stdout, f"{name}: {outcome.status}, {outcome.stdout!r}")
    if not check(profile is not None and profile.processes, f"{name}: no profile"):
        return
    check_truth(profile, outcome.stdout, name)
    check(profile.lost() == {}, f"{name}: lost {profile.lost()}")
    remark = profile.process().process.remark
    check(words in remark and "earlier allocations" not in remark, f"{name}: {remark!r}")


def test_own_allocator(directory):
    """An allocator in a dynamic program is seen from before the first constructor on, those of libraries included."""
    path = with_library(directory, "with_jemalloc", *OF_JEMALLOC) if os.path.exists(JEMALLOC) else None
    if path is None:
        harness.skip(f"no gcc, or no {JEMALLOC}")
    check_whole(path, "before its first constructor")


def test_static(directory):
    """Static programs, of both C libraries and with another allocator, are entered at their first instruction."""
    tried = 0
    for name, compiler, arguments in [
        ("static", "gcc", ["-static"]),
        ("static_pie", "gcc", ["-static-pie"]),
        ("static_musl", "musl-gcc", ["-static"]),
        ("static_jemalloc", "gcc", ["-static", *OF_JEMALLOC]),
    ]:
        path = build(directory, name, *arguments, compiler=compiler)
        if path is not None:
            tried += 1
            check_whole(path, "before its first instruction")
    if tried == 0:
        harness.skip("no static C library")


NEVER_FREES = """
#include <stdlib.h>
#include <unistd.h>
static __attribute__((noipa)) void *hold(void) { void *block = malloc(100); return block; }
int main(void)
{
    for (int i = 0; i < 1000; i++)
        if (hold() == NULL)
            return 1;
    write(1, "done\\n", 5);
    return 0;
}
"""


def test_never_frees(directory):
    """A static program into which the linker has put malloc and no free, because nothing calls it."""
    source, path, output = (os.path.join(directory, name) for name in ("never.c", "never", "o"))
    with open(source, "w") as file:
        file.write(NEVER_FREES)
    harness.need("musl-gcc", "nm")
    check(run(["musl-gcc", "-static", "-O1", "-g", "-fno-builtin", "-w", "-o", path, source]).status == 0, "musl-gcc")
    names = {line.split()[-1] for line in run(["nm", path]).stdout.decode().splitlines()}
    if "free" in names:
        harness.skip("this C library's malloc needs free")
    done = run(harness.host_command([path], output, 1))
    done.check_same(run([path]), "never frees")
    heap = unseen.report(output)["heaps"][0]
    check((heap["exact_calls"], heap["exact_bytes"]) == (1000, 100_000) and not heap["partial"], f"{heap['exact_calls']} calls, {heap['remark']}")


def test_becomes_another(directory):
    """A static program that becomes a dynamic one, and the reverse: both are profiled, in one session."""
    static, dynamic = build(directory, "static", "-static"), build(directory, "dynamic")
    if static is None or dynamic is None:
        harness.skip("no static C library")
    bare = run([static, dynamic])
    output = tempfile.mkdtemp(dir=directory)
    done = run(harness.host_command([static, dynamic], output, 1))
    done.check_same(bare, "static, then dynamic")
    heaps = {(heap["name"], heap["heap"]): heap for heap in unseen.report(output)["heaps"]}
    check(len(heaps) == 2, f"heaps: {list(heaps)}")
    for name, heap in heaps.items():
        found = sum(c["alloc_objects"]["estimate"] for c in heap["callsites"]
                    if any(frame["name"] == "allocate_in_main" for frame in c["frames"]))
        check(found == 1000, f"{name}: {found} calls")
    done = run([TOOL, "check", "--max-allocated", "1G", "-o", os.path.join(directory, "checked"), "--", static])
    check(done.status == 3 and b"holds" in done.stderr, f"check: {done.status}, {done.stdout!r}, {done.stderr!r}")


SPAWN = "import os, sys; os._exit(os.waitpid(os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ), 0)[1] >> 8)"


def test_started_by_others(directory):
    """A static program that a process of the session becomes is entered at its first instruction, too. If the C library
    executes it by itself, it is attached to as it runs, and the remark says so."""
    static = build(directory, "static", "-static")
    if static is None:
        harness.skip("no static C library")
    first, late = "before its first instruction", "earlier allocations are not part"
    os.environ["PATH"] += ":" + directory
    for command, words in [
        (["sh", "-c", f"exec {static}"], first),
        (["sh", "-c", f"{static}; exit $?"], first),
        (["nice", "static"], first),
        (["python3", "-c", SPAWN, static, "await"], late),
    ]:
        outcome, profile = harness.profile(command, 1, ["--follow-children"])
        check(outcome.status == 3, f"{command}: {outcome.status}, {outcome.stderr!r}")
        found = [p for p in profile.processes if p.allocated_by("allocate_in_main").alloc_objects]
        if check(len(found) == 1, f"{command}: {len(found)} processes with its allocations"):
            calls = found[0].allocated_by("allocate_in_main").alloc_objects
            remark = found[0].process.remark
            check(round(calls) == 1000, f"{command}: {calls} calls")
            check(words in remark, f"{command}: {remark!r}")


FAILING = """
import os, sys, time
try:
    os.execv(sys.argv[1], ["x" * 200000])
except OSError as error:
    print(error.errno)
for i in range(2000):
    with open("/proc/self/status") as status:
        traced = "TracerPid:\\t0\\n" not in status.read()
    if not traced:
        break
    time.sleep(0.005)
print("traced", traced)
"""


def test_failing_exec(directory):
    """A process whose exec of a static program fails goes on, and is not traced for long."""
    static = build(directory, "static", "-static")
    if static is None:
        harness.skip("no static C library")
    outcome, profile = harness.same_with_and_without(["python3", "-c", FAILING, static], 4096)
    check(outcome.stdout == b"7\ntraced False\n", f"{outcome.stdout!r}")


def test_refused(directory):
    """If the kernel forbids ptrace, the static program runs all the same, and the report says why it is unseen."""
    static = build(directory, "static", "-static")
    if static is None:
        harness.skip("no static C library")
    bare = run([static])
    output = tempfile.mkdtemp(dir=directory)
    done = run(harness.host_command([static], output, 1), preexec_fn=unseen.forbid_ptrace,
               env={"ASAN_OPTIONS": "detect_leaks=0"})
    done.check_same(bare, "without ptrace")
    (heap,) = unseen.report(output)["heaps"]
    check("seccomp filter of ours forbids ptrace" in heap["remark"], f"without ptrace: {heap['remark']!r}")


WITHOUT_LIBC = """
static long call(long number, long a, long b, long c)
{
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
    return result;
}
static char *next, *end;
__attribute__((noipa)) void *malloc(unsigned long bytes)
{
    if (next == 0)
        next = end = (char *)call(12, 0, 0, 0);
    char *block = next;
    next += bytes;
    if (next > end && (end = (char *)call(12, (long)next, 0, 0)) < next)
        call(60, 9, 0, 0);
    return block;
}
__attribute__((noipa)) void free(void *block) { __asm__ volatile("nop; nop; nop; nop; nop" : : "r"(block)); }
__attribute__((used)) void begin(void)
{
    for (int i = 0; i < 1000; i++)
        free(malloc(1 << 20));
    call(60, 4, 0, 0);
}
__asm__(".globl _start; _start: xor %ebp, %ebp; call begin");
"""


def test_without_libc(directory):
    """A program without a thread pointer, whose heap (brk) grows by a gigabyte, runs as ever: its calls are unknown."""
    source = os.path.join(directory, "bare.c")
    with open(source, "w") as file:
        file.write(WITHOUT_LIBC)
    for kind in "-static", "-static-pie":
        path = os.path.join(directory, "bare" + kind)
        command = ["gcc", "-O1", kind, "-nostdlib", "-fno-builtin", "-fno-stack-protector", "-o", path, source]
        if os.uname().machine != "x86_64" or run(command).status != 0 or run([path]).status != 4:
            harness.skip("no gcc for x86-64, or too little address space")
        output = tempfile.mkdtemp(dir=directory)
        done = run(harness.host_command([path], output, 1))
        done.check_same(run([path]), kind)
        (heap,) = unseen.report(output)["heaps"]
        check(heap["exact_bytes"] in (None, 0) and not heap["callsites"], f"{kind}: {heap['exact_bytes']}")
        check("No call of the allocator" in heap["remark"], f"{kind}: {heap['remark']!r}")


SELF_TRACER = """
#include <signal.h>
#include <stdio.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>
int main(void)
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        long code = ptrace(PTRACE_TRACEME, 0, 0, 0);
        raise(SIGSTOP);
        _exit(code == 0 ? 7 : 8);
    }
    waitpid(child, &status, 0);
    printf("stopped %d\\n", WIFSTOPPED(status));
    ptrace(PTRACE_CONT, child, 0, 0);
    waitpid(child, &status, 0);
    printf("traced %d\\n", WEXITSTATUS(status) == 7);
    fflush(stdout);
    raise(SIGTERM);
    return 0;
}
"""


def test_behaves(directory):
    """A static program may trace its children, and dies of its own signals. One that cannot be executed is reported."""
    source, path = os.path.join(directory, "tracer.c"), os.path.join(directory, "tracer")
    with open(source, "w") as file:
        file.write(SELF_TRACER)
    harness.need("gcc")
    if run(["gcc", "-static", "-o", path, source]).status != 0:
        harness.skip("no static C library")
    output = tempfile.mkdtemp(dir=directory)
    bare, done = run([path]), run(harness.host_command([path], output, 1))
    done.check_same(bare, "a tracer")
    check(b"stopped 1\ntraced 1\n" in done.stdout, f"a tracer: {done.stdout!r}")
    # A file that is no program: the launcher's child ends before it is held.
    broken = os.path.join(directory, "broken")
    with open(path, "rb") as file, open(broken, "wb") as cut:
        cut.write(file.read(4096))
    os.chmod(broken, 0o755)
    bare, done = run([broken]), run(harness.host_command([broken], tempfile.mkdtemp(dir=directory), 1))
    done.check_same(bare, "broken")


def test_rights(directory):
    """A static program that gains rights at its start is not traced there: it would lose them."""
    if os.geteuid() != 0 or run(["setpriv", "--reuid=65534", "--clear-groups", "test", "-x", TOOL]).status != 0:
        harness.skip("only root can make such a program, for another user")
    source, path = os.path.join(directory, "who.c"), os.path.join(directory, "who")
    with open(source, "w") as file:
        file.write('#include <stdio.h>\n#include <unistd.h>\nint main(void) { printf("%d\\n", (int)geteuid()); return 0; }\n')
    harness.need("gcc")
    if run(["gcc", "-static", "-o", path, source]).status != 0:
        harness.skip("no static C library")
    os.chmod(path, 0o4755)
    os.chmod(directory, 0o755)
    output = tempfile.mkdtemp(dir=directory)
    os.chown(output, 65534, 65534)
    wrapper = ["setpriv", "--reuid=65534", "--clear-groups"]
    bare, done = run([*wrapper, path]), run([*wrapper, *harness.host_command([path], output, 1)])
    done.check_same(bare, "set-user-id")
    check(done.stdout == b"0\n", f"set-user-id: {done.stdout!r}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="test-") as made_directory:
        harness.main(made_directory)
