#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The file reader process: its rights, and the consequences of its end.

    reader.py CASE
"""

import json
import os
import re
import shutil
import signal
import struct
import subprocess
import tempfile
import time

import harness
from harness import check, program

NAME = "heapprofd-read"


def reader_of(pid):
    for child in harness.children_of(pid):
        try:
            with open(f"/proc/{child}/comm") as comm:
                if comm.read().strip() == NAME:
                    return child
        except OSError:
            continue
    return None


def wait_for(condition, what, seconds=20):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
        time.sleep(0.01)
    check(False, f"{what}: not after {seconds} s")
    return None


def test_rights():
    """The reader can do nothing but read, for root and for an ordinary user."""
    with tempfile.TemporaryDirectory(prefix="test-") as directory:
        # Outside of /, and with an additional descriptor.
        host = subprocess.Popen(
            harness.host_command(["sleep", "30"], os.path.join(directory, "out"), 1),
            cwd=directory, pass_fds=[os.open("/dev/null", os.O_RDONLY)], start_new_session=True,
        )
        pid = wait_for(lambda: reader_of(host.pid), "the reader")
        if pid:
            def status():
                with open(f"/proc/{pid}/status") as file:
                    return dict(line.split(":\t", 1) for line in file.read().splitlines())
            wait_for(lambda: status().get("Seccomp") == "2", "its filter")
            facts = status()
            check(facts["NoNewPrivs"] == "1", f"NoNewPrivs {facts['NoNewPrivs']}")
            for kind in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
                check(int(facts[kind], 16) == 0, f"{kind} {facts[kind]}")
            if os.geteuid() == 0:
                check(facts["Uid"].split() == [str(0xFFB00000 + pid)] * 4, f"Uid {facts['Uid']}")
                refused = harness.run(["kill", "-0", str(pid)], user=65534, group=65534,
                                      extra_groups=[])
                check(refused.status != 0, "user nobody may send it signals")
                check(facts["Gid"].split() == ["65534"] * 4, f"Gid {facts['Gid']}")
                check(facts["Groups"].strip() == "", f"Groups {facts['Groups']}")
                # Besides it, the files that it reads at the moment.
                wait_for(lambda: os.listdir(f"/proc/{pid}/fd") == ["0"], "no descriptor but its socket")
                check(os.readlink(f"/proc/{pid}/fd/0").startswith("socket:"), "its descriptor")
                check(os.readlink(f"/proc/{pid}/cwd") == "/", "its directory")
                with open(f"/proc/{pid}/maps") as maps:
                    shared = [line for line in maps if re.match(r"\S+ .w.s", line)]
                check(not shared, f"shared memory: {shared}")
        host.terminate()
        check(host.wait(harness.TIMEOUT) == -signal.SIGTERM, f"status {host.returncode}")
        check(not pid or not os.path.exists(f"/proc/{pid}"), "the reader outlived its profiler")


def end_at_sight(host, number):
    """Send the signal to every reader of the profiler as soon as it starts."""
    seen = set()
    while host.poll() is None:
        pid = reader_of(host.pid)
        if pid:
            seen.add(pid)
            try:
                os.kill(pid, number)
            except OSError:
                pass
    return seen


def ended(number):
    # Reading its libraries' symbols takes long enough.
    harness.need("clang")
    command = ["clang", "--version"]
    bare = harness.run(command)
    with tempfile.TemporaryDirectory(prefix="test-") as directory:
        out = os.path.join(directory, "out")
        begun = time.monotonic()
        host = subprocess.Popen(
            harness.host_command(command, out, 1, "--no-symbols"),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
        )
        seen = end_at_sight(host, number)
        stdout, _ = host.communicate()
        check(len(seen) > 1, f"readers seen: {seen}")
        check(time.monotonic() - begun < 30, f"took {time.monotonic() - begun} s")
        check((host.returncode, stdout) == (bare.status, bare.stdout), "the program's output differs")
        found = harness.read_profile(out)
        if not check(found is not None, "no profile"):
            return
        check(found.samples() > 100 and found.lost() == {}, f"lost {found.lost()}")
        report = harness.run([harness.TOOL, "report", out]).stdout.decode()
        check("the process that reads files" in report, f"no message: {report}")
        # Where the program's file was not read, its own allocator is unknown, and no figure is exact.
        for heap in json.loads(harness.run([harness.TOOL, "report", "--json", out]).stdout)["heaps"]:
            unread = "could not be read in time" in (heap["remark"] or "")
            check(unread == ("perhaps" in heap["unseen_allocator"]), f"{heap['unseen_allocator']}: {heap['remark']}")


def test_killed():
    """Without a reader, names are missing, with a message; figures and the program's output stay the same."""
    ended(signal.SIGKILL)


def test_stopped():
    ended(signal.SIGSTOP)


def copy_with_symbol_tables(path, copy, tables, symbols):
    """Copy a program, with more symbol tables. All are the same bytes, a hole at the file's end."""
    with open(path, "rb") as file:
        image = bytearray(file.read())
    offset, size, count = *struct.unpack_from("<Q", image, 40), *struct.unpack_from("<HH", image, 58)
    strings = struct.unpack_from("<H", image, 62)[0]
    sections = image[offset:offset + size * count]
    begins = len(image) + 4095 & ~4095
    table = struct.pack("<IIQQQQIIQQ", 0, 2, 0, 0, begins, 24 * symbols, strings, 0, 8, 24)
    struct.pack_into("<Q", image, 40, begins + 24 * symbols)
    struct.pack_into("<H", image, 60, count + tables)
    with open(copy, "wb") as file:
        file.write(image)
        file.seek(begins + 24 * symbols)
        file.write(sections + table * tables)
    os.chmod(copy, 0o755)


def test_endless_symbols():
    """A program whose symbol tables have twenty thousand million entries is profiled like any other."""
    with tempfile.TemporaryDirectory(prefix="test-") as directory:
        path, out = os.path.join(directory, "slow"), os.path.join(directory, "out")
        copy_with_symbol_tables(program("commanded"), path, 20000, 1 << 20)
        outcome = harness.run(
            harness.host_command([path], out, 1, "--no-symbols"), stdin=b"hold 3 100\n"
        )
        check(outcome.status == 0, f"status {outcome.status}: {outcome.stderr}")
        report = json.loads(harness.run([harness.TOOL, "report", "--json", out]).stdout)
        heap = report["heaps"][0]
        held = sum(site["space"]["estimate"] for site in heap["callsites"])
        check(held >= 300, f"{held} bytes")
        check(heap["remark"] is None or "could not be read" not in heap["remark"],
              f"remark: {heap['remark']}")
        check(heap["unseen_allocator"] == "", f"unseen: {heap['unseen_allocator']}")


def test_replaced():
    """A program whose file was replaced by another while it runs keeps its functions' names."""
    if os.geteuid() != 0:
        harness.skip("only root may open map_files")
    with tempfile.TemporaryDirectory(prefix="test-") as directory:
        path, out = os.path.join(directory, "it"), os.path.join(directory, "out")
        shutil.copy(program("long_runner"), path)
        running = subprocess.Popen([path], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        try:
            wait_for(lambda: os.readlink(f"/proc/{running.pid}/exe") == path, "its start")
            os.unlink(path)
            shutil.copy("/bin/true", path)
            harness.run([harness.TOOL, "--quiet", "-i", "1", "-d", "1000", "--no-symbols",
                         "-o", out, "-p", str(running.pid)], timeout=180)
        finally:
            running.kill()
            running.wait()
        found = harness.read_profile(out)
        if check(found is not None, "no profile"):
            frames = [frame for stack in found.process().stacks
                      for frame in found.trace.callstacks.get(stack, [])
                      if frame.path.startswith(path)]
            check(frames, "no frame of the program")
            check(any(frame.name == "main" for frame in frames),
                  f"no name: {sorted({f.name for f in frames})}")


if __name__ == "__main__":
    harness.limit_core_dumps()
    harness.main()
