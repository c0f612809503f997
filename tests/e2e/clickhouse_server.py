# SPDX-License-Identifier: Apache-2.0
"""Debian's clickhouse-server, started for a test: its own configuration, data and ports on loopback."""

import atexit
import os
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request

CONFIGURATION = """<yandex>
<logger><level>warning</level><log>{0}/log</log><errorlog>{0}/errors</errorlog></logger>
<http_port>{1}</http_port><tcp_port>{2}</tcp_port>
<listen_host>127.0.0.1</listen_host>
<path>{0}/data/</path><tmp_path>{0}/tmp/</tmp_path><user_files_path>{0}/files/</user_files_path>
<users_config>users.xml</users_config>
<default_profile>default</default_profile><default_database>default</default_database>
<mark_cache_size>268435456</mark_cache_size>
<timezone>Asia/Kathmandu</timezone>
<remote_servers>{3}</remote_servers>
</yandex>
"""
USERS = """<yandex>
<profiles><default><max_memory_usage>{0}</max_memory_usage></default></profiles>
<users><default><password></password><networks><ip>127.0.0.1</ip></networks>
<profile>default</profile><quota>default</quota></default></users>
<quotas><default/></quotas>
</yandex>
"""
START_S = 60
OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def is_installed():
    return bool(shutil.which("clickhouse-server", path=os.environ["PATH"] + ":/usr/sbin"))


def free_ports(count):
    """Return ports that nobody listens on: the kernel's choice."""
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def cluster(name, servers):
    """Return the configuration of a cluster with one shard for each server (TCP ports)."""
    shards = "".join(
        "<shard><internal_replication>true</internal_replication>"
        f"<replica><host>127.0.0.1</host><port>{port}</port></replica></shard>"
        for port in servers)
    return f"<{name}>{shards}</{name}>"


class ClickHouse:
    """A server. It can be killed and started again with the same data."""

    def __init__(self, directory, ports=None, clusters="", memory_bytes=4 << 30):
        self.directory = directory
        self.http_port, self.tcp_port = ports or free_ports(2)
        self.url = f"http://127.0.0.1:{self.http_port}"
        os.makedirs(directory, exist_ok=True)
        with open(os.path.join(directory, "config.xml"), "w") as file:
            file.write(CONFIGURATION.format(directory, self.http_port, self.tcp_port, clusters))
        with open(os.path.join(directory, "users.xml"), "w") as file:
            file.write(USERS.format(memory_bytes))
        self.process = None
        self.start()
        atexit.register(self.kill)

    def start(self):
        path = shutil.which("clickhouse-server", path=os.environ["PATH"] + ":/usr/sbin")
        with open(os.path.join(self.directory, "output"), "ab") as output:
            self.process = subprocess.Popen(
                [path, f"--config-file={self.directory}/config.xml"], stdin=subprocess.DEVNULL,
                stdout=output, stderr=output, cwd=self.directory)
        end = time.monotonic() + START_S
        while True:
            try:
                OPENER.open(self.url + "/ping", timeout=5).read()
                return
            except OSError as error:
                if time.monotonic() > end or self.process.poll() is not None:
                    raise RuntimeError(f"clickhouse-server does not start: {error}") from error
                time.sleep(0.05)

    def kill(self):
        """End the server as a power failure does, but for what the kernel has to write."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def ask(self, query, database="heapprofd"):
        """Return the rows of a query, split at tabs."""
        url = f"{self.url}/?database={database}&query=" + urllib.parse.quote(query)
        try:
            with OPENER.open(urllib.request.Request(url, b""), timeout=120) as answer:
                text = answer.read().decode()
        except urllib.error.HTTPError as error:
            raise RuntimeError(error.read().decode()) from error
        return [line.split("\t") for line in text.splitlines()]
