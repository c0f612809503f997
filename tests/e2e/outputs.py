#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The files that our programs write: in directories that a stranger could change, over existing files,
and after an interruption.

    outputs.py CASE      HEAPPROFD_BUILD names the build directory
"""

import contextlib
import gzip
import os
import pty
import select
import shutil
import signal
import stat
import subprocess
import threading

from harness import BUILD, SANITIZED, SLOWNESS, TOOL, check, main, make_work_directory, need_saved_pages, run, skip

TRACECONV = os.path.join(BUILD, "traceconv")
HEAPPROFD = os.path.join(BUILD, "heapprofd")
WORK = make_work_directory("outputs-")
ENVIRONMENT = {"TMPDIR": WORK, "DEBUGINFOD_URLS": "", "HOME": WORK, "HEAPPROFD_RUN_DIR": f"{WORK}/run",
               "SUDO_UID": ""}
STRANGER = 54321
SECRET = b"root's own\n"


def at(name):
    return os.path.join(WORK, name)


def call(*command, timeout=120 * SLOWNESS, **options):
    return run(list(command), env=ENVIRONMENT, timeout=timeout, **options)


def content(path):
    with open(path, "rb") as file:
        return file.read()


def write(path, data, mode=0o644):
    with open(path, "wb") as file:
        file.write(data)
    os.chmod(path, mode)
    return path


def inputs():
    """Make small inputs for all writers."""
    for name in ("a", "b"):
        outcome = call(TOOL, "host", "-q", "-o", at(name), "-i", "1", "--memory-infra", "--", "ls", "/")
        check(outcome.status == 0, f"host: {outcome.stderr!r}")
    write(at("text"), call(TRACECONV, "text", at("a")).stdout)
    write(at("map"), b"a.B -> c:\n")
    write(at("config"), b"duration_ms: 1\ndata_sources { config { name: \"android.heapprofd\" "
          b"heapprofd_config { sampling_interval_bytes: 1 process_cmdline: \"none_of_this_name\" } } }\n")


# Programs that write a named file: the words before and after the name.
def file_writers():
    return {
        "text": ([TRACECONV, "text", at("a")], []),
        "binary": ([TRACECONV, "binary", at("text")], []),
        "bundle": ([TRACECONV, "bundle", at("a")], []),
        "collapsed": ([TRACECONV, "collapsed", at("a")], []),
        "decompress_packets": ([TRACECONV, "decompress_packets", at("a")], []),
        "memory_infra": ([TRACECONV, "memory_infra", at("a")], []),
        "flamegraph": ([TRACECONV, "flamegraph", at("a")], []),
        "speedscope": ([TRACECONV, "speedscope", at("a")], []),
        "symbolize": ([TRACECONV, "symbolize", at("a")], []),
        "symbolize json": ([TRACECONV, "symbolize", "--json"], [at("a"), "/dev/null"]),
        "symbolize dump": ([TRACECONV, "symbolize", at("a/memory_infra.json.gz")], []),
        "deobfuscate": ([TRACECONV, "deobfuscate", "--proguard-map", at("map"), at("a")], []),
        "deobfuscate json": ([TRACECONV, "deobfuscate", "--proguard-map", at("map"), "--json"], [at("a"), "/dev/null"]),
        "diff --pprof": ([TOOL, "diff", at("a"), at("b"), "--pprof"], []),
        "check --junit": ([TOOL, "check", "--max-peak", "1G", "--junit"], [at("a")]),
        "check --save-baseline": ([TOOL, "check", "--save-baseline"], [at("a")]),
        "check --github-summary": ([TOOL, "check", "--max-peak", "1G", "--github-summary"], [at("a")]),
        "query --export": ([TOOL, "query", at("a"), "--export"], []),
        "record": ([TOOL, "record", "--quiet", "-c", at("config"), "-o"], []),
        "heapprofd": ([HEAPPROFD, "host", "-o"], ["--", "ls", "/"]),
    }


def directory_writers():
    return {
        "host": ([TOOL, "host", "-q", "-o"], ["--", "true"]),
        "profile": ([TOOL, "-q", "-n", "none_of_this_name", "-d", "1", "-o"], []),
        "leaks": ([TOOL, "leaks", at("a"), "--flame-graph", "--output"], []),
        "traceconv profile": ([TRACECONV, "profile", at("a"), "-o"], []),
        "check": ([TOOL, "check", "--max-peak", "1G", "-o"], ["--", "ls", "/"]),
    }


def need_root():
    if os.geteuid() != 0:
        skip("needs root, to run as two users")
    os.chmod(WORK, 0o755)


def place(name, owner, mode):
    os.mkdir(at(name))
    os.chown(at(name), owner, owner)
    os.chmod(at(name), mode)
    return at(name)


def refused(what, command, words=b"not a safe place"):
    outcome = call(*command)
    check(outcome.status not in (0, None) and words in outcome.stderr,
          f"{what}: status {outcome.status}: {outcome.stderr[-300:]!r}")


def test_strangers_directories():
    """No program writes into a directory in which another user could redirect the output."""
    need_root()
    inputs()
    os.umask(0o022)
    safe = place("safe", 0, 0o755)
    open_to_all = place("open", 0, 0o777)
    places = [
        place("theirs", STRANGER, 0o777),
        open_to_all,
        place("open/inside", 0, 0o755),  # which they may rename
        place("group", 0, 0o775),
    ]
    os.chown(at("group"), 0, STRANGER)
    os.symlink(safe, at("link"))
    os.lchown(at("link"), STRANGER, STRANGER)
    for kind, writers in (("file", file_writers()), ("directory", directory_writers())):
        for number, (name, (before, after)) in enumerate(writers.items()):
            for where in places if number == 0 else places[:1]:
                refused(f"{name} in {where}", [*before, f"{where}/{kind}", *after])
                check("file" not in os.listdir(where) and "directory" not in os.listdir(where),
                      f"{name} made something in {where}: {os.listdir(where)}")
            if kind == "directory":
                # An empty directory of theirs exists: they may put anything into it.
                refused(f"{name} in theirs", [*before, at("theirs"), *after])
                check(os.listdir(at("theirs")) == [], f"{name} wrote into another's directory")
        refused(f"{name} by a stranger's link", [*before, f"{at('link')}/{kind}", *after])
        check(os.listdir(safe) == [], f"{name} followed a stranger's link: {os.listdir(safe)}")
    refused("host in TMPDIR", ["env", f"TMPDIR={at('theirs')}", TOOL, "host", "-q", "--", "true"])
    refused("a configuration's output", [TOOL, "record", "-c", at("config"), "-o", at("theirs/x")])
    # The directories above the working directory do not matter: no path leads through them.
    outcome = call(TOOL, "host", "-q", "-o", "here", "--", "true", cwd=at("open/inside"))
    check(outcome.status == 0, f"from the working directory: {outcome.stderr!r}")
    outcome = call(TOOL, "host", "-q", "-o", "../here", "--", "true", cwd=at("open/inside"))
    check(outcome.status != 0, "in the directory above, which all may write to")
    # Users who call sudo may write to their own directories.
    outcome = call("env", f"SUDO_UID={STRANGER}", *directory_writers()["host"][0], at("theirs/mine"), "--", "true")
    check(b"every user may rename" in outcome.stderr, f"sudo, and open to all: {outcome.stderr!r}")
    os.chmod(at("theirs"), 0o755)
    outcome = call("env", f"SUDO_UID={STRANGER}", *directory_writers()["host"][0], at("theirs/mine"), "--", "true")
    check(outcome.status == 0, f"by sudo: {outcome.stderr!r}")


def test_planted_entries():
    """In a directory like /tmp, entries that others put in place of the output are not followed."""
    need_root()
    inputs()
    sticky, secret = place("sticky", 0, 0o1777), write(at("secret"), SECRET)
    # The kernel itself keeps root from following such links if this is on.
    guarded = content("/proc/sys/fs/protected_symlinks").strip() != b"0"
    for name, (before, after) in file_writers().items():
        out = os.path.join(sticky, name.replace(" ", "_"))
        command = [*before, out, *after]
        os.symlink(secret, out)
        os.lchown(out, STRANGER, STRANGER)
        exports = name == "query --export"
        refused(f"{name} through a link (the kernel guards: {guarded})", command,
                b"not an exported database" if exports else b"not a safe place")
        os.unlink(out)
        os.symlink(at("new"), out)
        os.lchown(out, STRANGER, STRANGER)
        refused(f"{name} through a dangling link", command)
        check(not os.path.exists(at("new")), f"{name} made a file by a stranger's link")
        os.unlink(out)
        os.mkfifo(out)
        os.chown(out, STRANGER, STRANGER)
        refused(f"{name} into a pipe", command, b"not an exported database" if exports else b"belongs to user")
        os.unlink(out)
        write(out, b"theirs\n")
        os.chown(out, STRANGER, STRANGER)
        refused(f"{name} over a stranger's file", command,
                b"not an exported database" if exports else b"belongs to user")
        check(content(out) == b"theirs\n", f"{name} wrote over it")
        os.unlink(out)
        os.link(secret, out)
        outcome = call(*command)
        if exports:
            check(b"not an exported database" in outcome.stderr, f"{name}: {outcome.stderr!r}")
        else:
            check(outcome.status in (0, 3), f"{name} in place of a link: {outcome.stderr!r}")
            check(os.stat(out).st_ino != os.stat(secret).st_ino, f"{name} wrote to both names")
        check(content(secret) == SECRET, f"{name} wrote over {content(secret)!r}")
        os.unlink(out)
    check(os.listdir(sticky) == [], f"left: {os.listdir(sticky)}")


def swap_for_ever(target, paths):
    os.setgroups([])
    os.setgid(STRANGER)
    os.setuid(STRANGER)
    while True:
        for path in paths:
            for change in (lambda: os.symlink(target, path), lambda: os.unlink(path)):
                try:
                    change()
                except OSError:
                    pass


def test_races():
    """A stranger who keeps replacing the output by a link cannot make us overwrite the link's target."""
    need_root()
    inputs()
    secret = write(at("secret"), SECRET)
    sticky, theirs = place("sticky", 0, 0o1777), place("theirs", STRANGER, 0o777)
    names = ["raw-trace", "memory_infra.json.gz", "symbolized-trace", "symbols"]
    swapper = os.fork()
    if swapper == 0:
        swap_for_ever(secret, [os.path.join(sticky, "out"), *[os.path.join(theirs, name) for name in names]])
    try:
        writers = file_writers()
        for name in ("text", "symbolize dump", "check --junit"):
            for _ in range(12):
                before, after = writers[name]
                call(*before, os.path.join(sticky, "out"), *after)
                check(content(secret) == SECRET, f"{name}: the secret is {content(secret)!r}")
                with contextlib.suppress(FileNotFoundError):  # the stranger may remove it at any time
                    if os.lstat(os.path.join(sticky, "out")).st_uid == 0:
                        os.unlink(os.path.join(sticky, "out"))
        for _ in range(4):
            refused("host", [TOOL, "host", "-q", "--memory-infra", "-o", theirs, "--", "true"])
            check(content(secret) == SECRET, f"host: the secret is {content(secret)!r}")
    finally:
        os.kill(swapper, signal.SIGKILL)
        os.waitpid(swapper, 0)


def test_own_files():
    """Users may write over their own files, through their links, into devices and pipes."""
    need_saved_pages()
    inputs()
    expected = call(TRACECONV, "text", at("a")).stdout
    old = write(at("old"), b"old", mode=0o640)
    check(call(TRACECONV, "text", at("a"), old).status == 0 and content(old) == expected, "over a file")
    check(stat.S_IMODE(os.stat(old).st_mode) == 0o640, f"its mode: {oct(os.stat(old).st_mode)}")
    os.symlink("old", at("by_link"))
    write(old, b"old")
    check(call(TRACECONV, "text", at("a"), at("by_link")).status == 0 and content(old) == expected, "by a link")
    check(os.path.islink(at("by_link")), "the link became a file")
    os.symlink("fresh", at("dangling"))
    check(call(TRACECONV, "text", at("a"), at("dangling")).status == 0 and content(at("fresh")) == expected,
          "own dangling link is not followed")
    for name in ("/dev/stdout", "/dev/fd/1", "/proc/self/fd/1", "-"):
        outcome = call(TRACECONV, "text", at("a"), name)
        check(outcome.stdout == expected, f"{name}: {outcome.stderr!r}")
    outcome = run(["sh", "-c", f"echo first; {TRACECONV} text {at('a')} /dev/stdout"], env=ENVIRONMENT)
    check(outcome.stdout == b"first\n" + expected, "standard output is written from its beginning")
    with open(at("both"), "wb") as file:
        subprocess.run(["sh", "-c", f"echo first; {TRACECONV} text {at('a')} /dev/stdout"],
                       env={**os.environ, **ENVIRONMENT}, stdout=file, check=True)
    check(content(at("both")) == b"first\n" + expected, "the old file's end is left")
    check(call(TRACECONV, "text", at("a"), "/dev/null").status == 0, "/dev/null")
    outcome = call(TRACECONV, "text", at("a"), "/dev/full")
    check(outcome.status == 1 and b"No space left" in outcome.stderr, f"/dev/full: {outcome.stderr!r}")
    os.mkfifo(at("pipe"))
    got = []
    reader = threading.Thread(target=lambda: got.append(content(at("pipe"))))
    reader.start()
    check(call(TRACECONV, "text", at("a"), at("pipe")).status == 0, "into a pipe")
    reader.join()
    check(got == [expected], "the pipe's output differs")
    for name, reason in ((WORK, b"directory"), (at("no/such"), b"No such file"), (at("old") + "/x", b"Not a directory")):
        outcome = call(TRACECONV, "text", at("a"), name)
        check(outcome.status == 1 and reason in outcome.stderr, f"{name}: {outcome.stderr!r}")
    # The part before the damage is written.
    write(at("cut"), content(at("a/raw-trace"))[:-3])
    outcome = call(TRACECONV, "text", at("cut"), at("of_cut"))
    check(outcome.status == 1 and expected.startswith(content(at("of_cut"))) and content(at("of_cut")),
          f"a truncated trace: {outcome.stderr!r}")
    # Failure leaves the old file.
    write(at("bad"), b"no trace")
    outcome = call(TRACECONV, "text", at("bad"), old)
    check(outcome.status == 1 and content(old) == expected, "a failed conversion emptied the old file")
    for writer in directory_writers().values():
        os.umask(0)
        outcome = call(*writer[0], at("dir"), *writer[1])
        check(outcome.status in (0, 3), f"{writer[0]}: {outcome.stderr!r}")
        if os.path.isdir(at("dir")):
            check(os.stat(at("dir")).st_mode & 0o022 == 0, f"{writer[0]} made a directory for all")
            shutil.rmtree(at("dir"))
    os.umask(0o022)
    left = [name for name in os.listdir(WORK) if name.startswith(".")]
    check(all(name in (".cache",) for name in left), f"left: {left}")


def test_for_the_owner_only():
    """What has a profile in it is for its owner only, whatever the umask; reports for other programs follow the umask."""
    os.umask(0o022)
    inputs()
    write(at("config"), f"data_sources {{ config {{ name: \"android.heapprofd\" heapprofd_config {{ "
          f"sampling_interval_bytes: 1 process_cmdline: \"x\" }} }} }} duration_ms: 1".encode())
    public = {"symbolize json", "deobfuscate json", "check --junit", "check --save-baseline", "check --github-summary"}
    for name, (before, after) in file_writers().items():
        if name == "symbolize dump":
            continue  # it keeps the permissions of the dump
        call(*before, at("new"), *after)
        mode = stat.S_IMODE(os.stat(at("new")).st_mode)
        check(mode == (0o644 if name in public else 0o600), f"{name}: {mode:o}")
        os.chmod(at("new"), 0o640)
        call(*before, at("new"), *after)
        check(stat.S_IMODE(os.stat(at("new")).st_mode) == 0o640, f"{name}: another mode than the file that it replaced")
        os.unlink(at("new"))
    for name, (before, after) in directory_writers().items():
        call(*before, at("dir"), *after)
        if not os.path.isdir(at("dir")):
            continue
        check(stat.S_IMODE(os.stat(at("dir")).st_mode) == 0o700, f"{name}: its directory has {os.stat(at('dir')).st_mode:o}")
        for folder, _, names in os.walk(at("dir")):
            for each in names:
                mode = stat.S_IMODE(os.stat(os.path.join(folder, each)).st_mode)
                check(mode == 0o600, f"{name}: {each} has {mode:o}")
        shutil.rmtree(at("dir"))
    os.mkdir(at("shared"), 0o750)
    call(TOOL, "host", "-q", "-o", at("shared"), "--", "true")
    check(stat.S_IMODE(os.stat(at("shared")).st_mode) == 0o750, "the mode of the user's directory was changed")


def test_cache_directory():
    """The cache of names is where XDG_CACHE_HOME says, also before that directory exists."""
    inputs()
    for given in ("absent", "absent/"):
        outcome = run([TRACECONV, "symbolize", at("a"), "/dev/null"], env={**ENVIRONMENT, "XDG_CACHE_HOME": at(given)})
        check(outcome.status == 0 and os.path.isdir(at("absent/heapprofd")), f"{given}: {outcome.stderr!r}")
        check(stat.S_IMODE(os.stat(at("absent")).st_mode) == 0o700, "others can read it")
        shutil.rmtree(at("absent"))
    outcome = run([TRACECONV, "symbolize", at("a"), "/dev/null"], env={**ENVIRONMENT, "XDG_CACHE_HOME": at("no/such/parent")})
    check(outcome.status == 0 and not os.path.exists(at("no")), "parents were created")
    if os.geteuid() == 0:
        os.chmod(WORK, 0o755)
        theirs = place("home", STRANGER, 0o755)
        run([TRACECONV, "symbolize", at("a"), "/dev/null"], env={**ENVIRONMENT, "XDG_CACHE_HOME": theirs + "/.cache"})
        check(os.listdir(theirs) == [], "root made a directory in another user's home")


def test_pipes():
    """A program that waits at a pipe prints so, and continues when the other end opens."""
    inputs()
    expected = call(TRACECONV, "text", at("a")).stdout
    os.mkfifo(at("pipe"))
    for command in ([TRACECONV, "text", at("pipe"), at("text_of_pipe")], [TRACECONV, "text", at("a"), at("pipe")],
                    [TRACECONV, "text", "/proc/kmsg", at("none")]):
        terminal, theirs = pty.openpty()
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=theirs, env={**os.environ, **ENVIRONMENT})
        os.close(theirs)
        kmsg = "kmsg" in command[2]
        ready, _, _ = select.select([terminal], [], [], 2 if kmsg else 10)
        said = b""
        while ready and b"\n" not in said:
            said += os.read(terminal, 4096)
        # There may be no readable log here, or it may contain messages.
        check(b"pipe" in said or b"nothing comes" in said or kmsg, f"{command}: prints {said!r}")
        if kmsg:
            process.kill()
        elif command[2] == at("pipe"):
            write(at("pipe"), content(at("a/raw-trace")))
            check(process.wait(10) == 0 and len(content(at("text_of_pipe"))) > 1000, "from a pipe")
        else:
            check(content(at("pipe")) == expected, "into a pipe")
            check(process.wait(10) == 0, "into a pipe: status")
        process.wait()
        os.close(terminal)


def test_no_pprof():
    """Without pprof files the profile is whole: traceconv makes the same files from its trace."""
    outcome = call(TOOL, "host", "--no-pprof", "-i", "1", "-o", at("alone"), "--", "jq", "-n", "[range(99)]")
    check(outcome.status == 0, f"host: {outcome}")
    check("pprof file" not in outcome.stderr.decode().split("Profile in")[-1], f"the files: {outcome.stderr}")
    check([name for name in os.listdir(at("alone")) if ".pb" in name] == [], "a pprof file was written")
    usual = call(TOOL, "host", "-i", "1", "-o", at("with-pprof"), "--", "jq", "-n", "[range(99)]")
    check(b" and 1 pprof file\n" in usual.stderr, f"the usual files: {usual.stderr}")
    made = {}
    for directory in ("alone", "with-pprof"):
        call(TRACECONV, "profile", "--gzip", "-o", at(f"{directory}.made"), at(f"{directory}/symbolized-trace"))
        made[directory] = {name: gzip.decompress(content(at(f"{directory}.made/{name}")))
                           for name in os.listdir(at(f"{directory}.made"))}
    written = {name: gzip.decompress(content(at(f"with-pprof/{name}")))
               for name in os.listdir(at("with-pprof")) if name.endswith(".pb.gz")}
    check(made["with-pprof"] == written and len(written) == 1, f"made later: {list(written)}, {list(made)}")
    check(len(made["alone"]) == 1, f"of the trace alone: {list(made['alone'])}")


def test_memory_of_names():
    """Names are added while the trace is read: there is one profile in memory, never two. The child that finds them
    runs with fewer rights, but can keep them in the cache."""
    if SANITIZED:
        skip("the sanitizer keeps memory that was freed")
    peak_kb, cache = {}, at("cache")
    os.mkdir(cache, 0o700)
    for how, options in (("named", ()), ("plain", ("--no-symbols",))):
        process = subprocess.Popen(
            [TOOL, "host", "-q", "-i", "1", *options, "-o", at(f"memory-{how}"), "--",
             os.path.join(BUILD, "tests/programs/many_stacks"), "17"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, env={**os.environ, "XDG_CACHE_HOME": cache},
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        check(process.returncode == 0, f"{how}: {process.returncode}")
        check(("symbolized-trace" in os.listdir(at(f"memory-{how}"))) == (how == "named"), f"{how}: files")
        peak_kb[how] = usage.ru_maxrss
    check(os.listdir(os.path.join(cache, "heapprofd")) != [], "the sandboxed child keeps no names")
    check(peak_kb["named"] < 1.25 * peak_kb["plain"], f"memory: {peak_kb} kB")


if __name__ == "__main__":
    main()
