# SPDX-License-Identifier: Apache-2.0
"""A memory cgroup of a test, of version 2 or 1, whichever the machine lets it make."""

import atexit
import os
import time


def mounts(kind, option):
    with open("/proc/self/mounts") as lines:
        for line in lines:
            _, path, of_kind, options, *_ = line.split()
            if of_kind == kind and (not option or option in options.split(",")):
                return path
    return None


def write(path, text):
    with open(path, "w") as file:
        file.write(text)


class MemoryCgroup:
    """`version` is 2 or 1, or None if none can be made; then `why` says why."""

    def __init__(self, limit_bytes):
        self.version, self.path, self.why = None, None, "no memory controller is mounted"
        self.limit = limit_bytes
        for version, kind, option in ((2, "cgroup2", None), (1, "cgroup", "memory")):
            root = mounts(kind, option)
            if root and self.make(root, version):
                return

    def make(self, root, version):
        path = os.path.join(root, f"heapprofd-test-{os.getpid()}-{time.monotonic_ns()}")
        try:
            if version == 2 and "memory" not in open(os.path.join(root, "cgroup.subtree_control")).read().split():
                if "memory" not in open(os.path.join(root, "cgroup.controllers")).read().split():
                    return False
                write(os.path.join(root, "cgroup.subtree_control"), "+memory")
            os.mkdir(path)
            self.path = path
            atexit.register(self.remove)
            write(os.path.join(path, "memory.max" if version == 2 else "memory.limit_in_bytes"), str(self.limit))
            swap = "memory.swap.max" if version == 2 else "memory.memsw.limit_in_bytes"
            if os.path.exists(os.path.join(path, swap)):
                write(os.path.join(path, swap), "0" if version == 2 else str(self.limit))
        except OSError as error:
            self.why = f"{error.filename}: {error.strerror}"
            return False
        self.version, self.paths = version, [path]
        if version == 1:
            self.make_unified()
        return True

    def make_unified(self):
        """Beside version 1, pressure is that of a cgroup of version 2."""
        root = mounts("cgroup2", None)
        if root:
            path = os.path.join(root, os.path.basename(self.path))
            try:
                os.mkdir(path)
                self.paths.append(path)
            except OSError:
                pass

    def pressure_file(self):
        """Return the file of its pressure; None: it has none."""
        path = os.path.join(self.paths[-1], "memory.pressure")
        return path if os.path.exists(path) else None

    def remove(self):
        """It must be empty; a process that has just ended may still be in it."""
        for path in getattr(self, "paths", [self.path]):
            for _ in range(100):
                try:
                    os.rmdir(path)
                    break
                except OSError:
                    if not os.path.exists(path):
                        break
                    time.sleep(0.05)

    def inside(self, command):
        """Return the command as a shell runs it in the cgroup: the profiler stays outside."""
        enter = " && ".join(f"echo $$ > {path}/cgroup.procs" for path in self.paths)
        return ["/bin/sh", "-c", f'{enter} && exec "$@"', "sh", *command]

    def kills(self):
        name = "memory.events" if self.version == 2 else "memory.oom_control"
        with open(os.path.join(self.path, name)) as lines:
            return next(int(line.split()[1]) for line in lines if line.startswith("oom_kill "))
