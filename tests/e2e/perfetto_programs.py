# SPDX-License-Identifier: Apache-2.0
"""Perfetto's own programs, where they are found: in the directory HEAPPROFD_PERFETTO, or in PATH."""

import os
import shutil
import signal
import socket
import subprocess
import time

from harness import TIMEOUT, skip

PATH = os.pathsep.join(filter(None, [os.environ.get("HEAPPROFD_PERFETTO"), os.environ.get("PATH")]))


def need_perfetto(*programs):
    """Return the programs' paths; end the test as skipped if one is not found."""
    paths = [shutil.which(name, path=PATH) for name in programs]
    if None in paths:
        skip(f"{programs[paths.index(None)]} is in neither HEAPPROFD_PERFETTO nor PATH")
    return paths


class Sockets:
    """A service's two sockets in a directory, and the environment in which Perfetto's programs find them."""

    def __init__(self, directory):
        self.producer, self.consumer = os.path.join(directory, "p"), os.path.join(directory, "c")
        self.environment = {
            **os.environ, "PERFETTO_PRODUCER_SOCK_NAME": self.producer, "PERFETTO_CONSUMER_SOCK_NAME": self.consumer,
        }

    def wait(self):
        """Wait until a service listens at both."""
        for path in (self.producer, self.consumer):
            deadline = time.monotonic() + TIMEOUT
            while time.monotonic() < deadline:
                with socket.socket(socket.AF_UNIX) as attempt:
                    if attempt.connect_ex(path) == 0:
                        break
                time.sleep(0.01)


class Background:
    """A program that runs until the end of the with block."""

    def __init__(self, command, environment, log):
        self.command, self.environment, self.log = command, environment, log

    def __enter__(self):
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                self.command, env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True,
            )
        return self.process

    def __exit__(self, *error):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
