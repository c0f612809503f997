#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Run a program as systemd would run it for a unit: as_service.py UNIT PROGRAM [ARGUMENTS]

Apply the unit's limits: capabilities, system calls, address families, writable paths, home directories and a
private /tmp. HEAPPROFD_RUN_DIR is its RuntimeDirectory. Python's standard library only; needs root, and
systemd-analyze for the names of groups of system calls.
"""

import ctypes
import functools
import os
import re
import struct
import subprocess
import sys

libc = ctypes.CDLL(None, use_errno=True)

HEADERS = ("/usr/include/x86_64-linux-gnu/asm/unistd_64.h", "/usr/include/asm/unistd_64.h")
FAMILIES = {"AF_UNIX": 1, "AF_INET": 2, "AF_INET6": 10, "AF_NETLINK": 16}
CAPABILITIES = {name: number for number, name in enumerate(
    "CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP LINUX_IMMUTABLE NET_BIND_SERVICE "
    "NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO SYS_CHROOT SYS_PTRACE SYS_PACCT SYS_ADMIN "
    "SYS_BOOT SYS_NICE SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG MKNOD LEASE AUDIT_WRITE AUDIT_CONTROL SETFCAP MAC_OVERRIDE "
    "MAC_ADMIN SYSLOG WAKE_ALARM BLOCK_SUSPEND AUDIT_READ PERFMON BPF CHECKPOINT_RESTORE".split())}

PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP = 24, 38, 22
CLONE_NEWNS, MS_BIND, MS_REC, MS_PRIVATE = 0x20000, 0x1000, 0x4000, 1 << 18
MOUNT_SETATTR, AT_FDCWD, AT_RECURSIVE, MOUNT_ATTR_RDONLY = 442, -100, 0x8000, 1
ALLOW, EPERM, KILL = 0x7fff0000, 0x00050001, 0x80000000
LOAD, EQUAL, ANY_OF, RETURN = 0x20, 0x15, 0x45, 0x06
PROT_WRITE, PROT_EXEC, NAMESPACES = 2, 4, 0x7e020080


def unit_of(path):
    """Return {key: all its words} of the unit."""
    settings = {}
    with open(path) as file:
        for line in file:
            key, equals, value = line.strip().partition("=")
            if equals and not line.startswith("#"):
                settings.setdefault(key, []).extend(value.split())
    return settings


def wanted(result, what):
    if result != 0:
        error = ctypes.get_errno()
        sys.exit(f"as_service.py: {what}: {os.strerror(error)}")


def set_read_only(path, read_only):
    attributes = struct.pack("QQQQ", *((MOUNT_ATTR_RDONLY, 0) if read_only else (0, MOUNT_ATTR_RDONLY)), 0, 0)
    wanted(libc.syscall(MOUNT_SETATTR, AT_FDCWD, path.encode(), AT_RECURSIVE, attributes, len(attributes)), path)


def mount(source, target, kind, flags):
    wanted(libc.mount(source and source.encode(), target.encode(), kind, flags, None), f"mount {target}")


def take_files(unit, run_directory, program):
    """Apply ProtectSystem, ProtectHome and PrivateTmp, except to the directories of the tests themselves."""
    wanted(libc.unshare(CLONE_NEWNS), "unshare")
    mount(None, "/", None, MS_REC | MS_PRIVATE)
    os.makedirs(run_directory, 0o755, exist_ok=True)
    kept = os.open(run_directory, os.O_PATH)
    hidden = []
    if unit.get("ProtectHome") == ["yes"]:
        hidden += ["/home", "/root", "/run/user"]
    if unit.get("PrivateTmp") == ["yes"]:
        hidden += ["/tmp", "/var/tmp"]
    for path in hidden:
        if os.path.isdir(path) and not program.startswith(path + "/"):
            mount("none", path, b"tmpfs", 0)
    if unit.get("ProtectSystem") == ["strict"]:
        set_read_only("/", True)
        for path in ("/proc", "/dev", "/sys"):
            set_read_only(path, False)
    # A directory under /tmp is created again in the private /tmp.
    for path in hidden:
        if run_directory.startswith(path + "/"):
            set_read_only(path, False)
            os.makedirs(run_directory, 0o755, exist_ok=True)
    mount(f"/proc/self/fd/{kept}", run_directory, None, MS_BIND)
    set_read_only(run_directory, False)


def take_capabilities(unit):
    kept = {CAPABILITIES[name.removeprefix("CAP_")] for name in unit["CapabilityBoundingSet"]}
    with open("/proc/sys/kernel/cap_last_cap") as file:
        last = int(file.read())
    for number in range(last + 1):
        if number not in kept:
            wanted(libc.prctl(PR_CAPBSET_DROP, number, 0, 0, 0), f"capability {number}")


def numbers_of_calls():
    header = next(path for path in HEADERS if os.path.exists(path))
    with open(header) as file:
        return {name: int(number) for name, number in re.findall(r"#define __NR_(\w+) (\d+)", file.read())}


@functools.cache
def groups_of_calls():
    """Return systemd's {group: names of system calls and groups}."""
    groups, members = {}, []
    text = subprocess.run(["systemd-analyze", "syscall-filter"], capture_output=True, text=True, check=True).stdout
    for line in text.splitlines():
        if line.startswith("@"):
            groups[line.strip()] = members = []
        elif line.startswith(" ") and not line.strip().startswith("#"):
            members.append(line.strip())
    return groups


def expand(words):
    """Return the names of system calls in these names and groups."""
    names = set()
    for word in words:
        names |= expand(groups_of_calls()[word]) if word.startswith("@") else {word}
    return names


def filter_of(unit, refused=EPERM):
    """Return a filter's instructions: (code, jump if true, jump if false, operand). Other calls than the unit's are
    `refused`."""
    number_of = numbers_of_calls()
    program = [(LOAD, 0, 0, 0)]

    def when(name, *tests):
        """The rest decides about this call, and A is its number after."""
        program.extend([(EQUAL, 0, len(tests) + 1, number_of[name]), *tests, (LOAD, 0, 0, 0)])

    if unit.get("RestrictNamespaces") == ["yes"]:
        when("clone", (LOAD, 0, 0, 16), (ANY_OF, 0, 1, NAMESPACES), (RETURN, 0, 0, EPERM))
    if unit.get("MemoryDenyWriteExecute") == ["yes"]:
        when("mmap", (LOAD, 0, 0, 32), (ANY_OF, 0, 2, PROT_WRITE), (ANY_OF, 0, 1, PROT_EXEC), (RETURN, 0, 0, EPERM))
        for name in ("mprotect", "pkey_mprotect"):
            when(name, (LOAD, 0, 0, 32), (ANY_OF, 0, 1, PROT_EXEC), (RETURN, 0, 0, EPERM))
    families = [FAMILIES[name] for name in unit.get("RestrictAddressFamilies", [])]
    if families:
        tests = [(EQUAL, len(families) - index, 0, family) for index, family in enumerate(families)]
        when("socket", (LOAD, 0, 0, 16), *tests, (RETURN, 0, 0, EPERM))
    calls = expand(unit.get("SystemCallFilter", []))
    for name in sorted(calls & set(number_of)):
        program.extend([(EQUAL, 0, 1, number_of[name]), (RETURN, 0, 0, ALLOW)])
    program.append((RETURN, 0, 0, refused if calls else ALLOW))
    return program


def code_of(program):
    return b"".join(struct.pack("HBBI", *instruction) for instruction in program)


def take_calls(code):
    buffer = ctypes.create_string_buffer(code)
    head = struct.pack("HxxxxxxQ", len(code) // 8, ctypes.addressof(buffer))
    wanted(libc.prctl(PR_SET_SECCOMP, 2, head, 0, 0), "seccomp")


def filtered(program=None):
    """Return a command that becomes the program after it, under this filter, or the one that systemd makes of
    SystemCallFilter=@system-service: it kills for all other system calls."""
    code = code_of(program or filter_of({"SystemCallFilter": ["@system-service"]}, KILL))
    here = os.path.dirname(os.path.abspath(__file__))
    script = f"import sys; sys.path.insert(0, {here!r}); import as_service; as_service.become_filtered(sys.argv[1:])"
    return [sys.executable, "-c", script, code.hex()]


def only(name, refused):
    """Return a filter's instructions that refuse one system call and allow all others."""
    return [(LOAD, 0, 0, 0), (EQUAL, 0, 1, numbers_of_calls()[name]), (RETURN, 0, 0, refused), (RETURN, 0, 0, ALLOW)]


def become_filtered(arguments):
    wanted(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no new privileges")
    take_calls(bytes.fromhex(arguments[0]))
    os.execv(arguments[1], arguments[1:])


def main():
    unit, program = unit_of(sys.argv[1]), sys.argv[2:]
    instructions = filter_of(unit)
    take_files(unit, os.environ["HEAPPROFD_RUN_DIR"], program[0])
    take_capabilities(unit)
    if unit.get("NoNewPrivileges") == ["yes"]:
        wanted(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no new privileges")
    take_calls(code_of(instructions))
    os.execv(program[0], program)


if __name__ == "__main__":
    main()
