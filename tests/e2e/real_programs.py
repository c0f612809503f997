#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Real programs of the distribution, with and without the profiler, at intervals 1 and 4096: the same
output and exit code, and stacks that reach the program's beginning.

    real_programs.py CASE
"""

import os
import random
import subprocess
import tempfile
import time

import harness
from harness import check, need

# The share of sampled bytes whose stacks must reach main or a thread's start.
SHARE_REACHING_START = 0.95


def write(path, text):
    with open(path, "w") as file:
        file.write(text)
    return path


def judge_profile(profile, what):
    if not check(profile is not None, f"{what}: no profile"):
        return
    check(profile.samples() > 0, f"{what}: no samples")
    ours = [path for path in profile.trace.mappings.values() if "/libheapprofd" in path]
    check(not ours, f"{what}: frames of the profiler: {ours}")
    share = profile.share_reaching_start()
    print(
        f"{what}: {len(profile.processes)} processes, {profile.samples()} samples, "
        f"{profile.unwinding_errors()} unwinding errors, "
        f"{100 * share:.2f} % of the bytes in stacks that reach the start, lost {profile.lost()}"
    )
    check(share >= SHARE_REACHING_START, f"{what}: only {100 * share:.2f} % reach the start")


def compare(command, options=(), product=None, **run_options):
    """Compare a command, bare and profiled at two intervals. product: a file that it writes, which must be the same."""

    def take_product():
        if not product:
            return None
        with open(product, "rb") as file:
            content = file.read()
        os.unlink(product)
        return content

    bare = harness.run(command, **run_options)
    bare_product = take_product()
    check(bare.status == 0, f"{command[0]} fails without us: {bare.stderr[-500:]!r}")
    for interval in (1, 4096):
        start = time.monotonic()
        ours, profile = harness.profile(command, interval, options, **run_options)
        what = f"{os.path.basename(command[0])} at {interval} ({time.monotonic() - start:.1f} s)"
        ours.check_same(bare, what)
        check(take_product() == bare_product, f"{what}: wrote another {product}")
        judge_profile(profile, what)


def test_jq(directory):
    need("jq")
    rng = random.Random(1)
    data = write(
        os.path.join(directory, "data.json"),
        "\n".join(
            f'{{"id":{i},"city":"city{rng.randrange(50)}","amount":{rng.random()}}}'
            for i in range(6000)
        ),
    )
    compare(["jq", "-s", "group_by(.city) | map({city: .[0].city, n: length})", data])


def test_xmllint(directory):
    need("xmllint")
    items = "".join(f'<item id="{i}"><name>n{i}</name><v>{i * 7}</v></item>' for i in range(8000))
    data = write(os.path.join(directory, "data.xml"), f"<all>{items}</all>")
    compare(["xmllint", "--format", data])


def test_sqlite3(directory):
    need("sqlite3")
    script = b"""create table t(a integer primary key, b text, c real);
        with recursive n(i) as (select 1 union all select i + 1 from n where i < 20000)
            insert into t select i, 'text ' || (i * 7919 % 1000), i * 0.5 from n;
        create index u on t(b);
        select b, count(*), sum(c) from t group by b order by 2 desc, 1 limit 20;
        select group_concat(b) from (select distinct b from t order by b limit 50);"""
    compare(["sqlite3", ":memory:"], stdin=script)


def test_python3(directory):
    script = """
import json, re, collections
words = [str(i * 7919 % 1000) for i in range(20000)]
counts = collections.Counter(words)
text = json.dumps({w: [n, {"again": w * 3}] for w, n in sorted(counts.items())})
back = json.loads(text)
print(len(text), len(back), len(re.findall("[13]7", text)))
"""
    env = {"PYTHONMALLOC": "malloc", "PYTHONHASHSEED": "0"}
    compare(["/usr/bin/python3", "-c", script], env=env)


def test_git(directory):
    need("git")
    env = {
        "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a",
        "GIT_COMMITTER_EMAIL": "a@b", "GIT_AUTHOR_DATE": "2020-01-01T00:00:00Z",
        "GIT_COMMITTER_DATE": "2020-01-01T00:00:00Z", "GIT_CONFIG_GLOBAL": "/dev/null",
    }
    stream = []
    for i in range(300):
        text = "\n".join(f"line {j * i % 101}" for j in range(100))
        stream.append(
            f"commit refs/heads/main\ncommitter a <a@b> {1577836800 + i} +0000\ndata 2\nc\n"
            f"M 100644 inline f{i % 10}\ndata {len(text)}\n{text}\n"
        )
    subprocess.run(["git", "init", "-q", "-b", "main", directory], check=True, env={**os.environ, **env})
    subprocess.run(
        ["git", "-C", directory, "fast-import", "--quiet"], input="".join(stream).encode(),
        check=True, env={**os.environ, **env},
    )
    compare(["git", "-C", directory, "--no-pager", "log", "-p", "--stat", "main"], env=env)


C_SOURCE = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
struct node { struct node *next; int value; };
static struct node *push(struct node *list, int value)
{
    struct node *node = malloc(sizeof(*node));
    node->next = list;
    node->value = value;
    return node;
}
#define F(n) int f##n(int x) { struct node *l = 0; for (int i = 0; i < x; i++) l = push(l, i * n); \\
    int s = 0; for (; l; l = l->next) s += l->value % (n + 1); return s; }
F(1) F(2) F(3) F(4) F(5) F(6) F(7) F(8) F(9) F(10)
"""

CXX_SOURCE = """
#include <algorithm>
#include <map>
#include <string>
#include <vector>
template <typename K> int count(const std::map<K, std::vector<std::string>> &all)
{
    int sum = 0;
    for (const auto &[key, list] : all)
        sum += std::count_if(list.begin(), list.end(), [](const auto &s) { return s.size() > 3; });
    return sum;
}
template int count<int>(const std::map<int, std::vector<std::string>> &);
template int count<std::string>(const std::map<std::string, std::vector<std::string>> &);
"""


def test_gcc(directory):
    """The driver and its children cc1, as, collect2 and ld are profiled, each as a process."""
    need("gcc")
    source = write(os.path.join(directory, "a.c"), C_SOURCE + "int main(void) { return f3(4) > 99; }")
    out = os.path.join(directory, "a.out")
    compare(["gcc", "-O2", "-o", out, source], ["--follow-children"], product=out)


def test_clang(directory):
    need("clang++")
    source = write(os.path.join(directory, "a.cc"), CXX_SOURCE)
    out = os.path.join(directory, "a.o")
    compare(["clang++", "-std=c++17", "-O1", "-c", "-o", out, source], product=out)


def test_perl(directory):
    need("perl")
    script = """
my %h; for my $i (1 .. 30000) { push @{$h{$i * 7919 % 503}}, "v$i" x 3; }
my $s = join ",", map { "$_:" . scalar @{$h{$_}} } sort { $a <=> $b } keys %h;
$s =~ s/(\\d+):(\\d+)/$2-$1/g; print length $s, " ", substr($s, 0, 200), "\\n";
"""
    compare(["perl", "-e", script], env={"PERL_HASH_SEED": "0"})


def test_gdb(directory):
    need("gdb")
    commands = ["info functions allocate", "info types .", "list main", "disassemble main"]
    expressions = [word for command in commands for word in ("-ex", command)]
    compare(
        ["gdb", "--batch", "-nx", "-iex", "set debuginfod enabled off", *expressions,
         harness.program("children")],
        env={"HOME": directory},
    )


def test_stress_ng(directory):
    need("stress-ng")
    command = [
        "stress-ng", "--quiet", "--malloc", "1", "--malloc-ops", "5000", "--malloc-pthreads", "7",
        "--malloc-bytes", "1M", "--temp-path", directory,
    ]
    compare(command, ["--follow-children"])


def test_openssl(directory):
    need("openssl")
    data = write(os.path.join(directory, "data"), "some text\n" * 100000)
    compare(
        ["openssl", "enc", "-aes-256-cbc", "-pbkdf2", "-k", "word", "-S", "0102030405060708",
         "-base64", "-in", data]
    )


def test_sort(directory):
    """coreutils' sort uses threads."""
    rng = random.Random(2)
    data = write(
        os.path.join(directory, "data"), "".join(f"{rng.random()}\n" for _ in range(200000))
    )
    compare(["sort", "--parallel=4", data], env={"LC_ALL": "C"})


def test_node(directory):
    """node has code without CFI (JIT) on the stack, and many threads."""
    need("node")
    script = """
const m = new Map(); for (let i = 0; i < 200000; i++) m.set('k' + i % 5000, Buffer.alloc(64 + i % 64));
const z = require('zlib').gzipSync(Buffer.from(JSON.stringify([...m.keys()])));
console.log(m.size, z.length, JSON.parse('[' + [...Array(1000).keys()].join() + ']').length);
"""
    compare(["node", "-e", script])


def allocator(library):
    """Return a case: a program that is linked to another allocator keeps it, and is profiled."""

    def run(directory):
        command = [harness.program(f"ground_truth_{library}"), "/dev/stdout", "4", "20"]
        if not os.path.exists(command[0]):
            harness.skip(f"built without {library}")
        compare(command)

    return run


def redis_command(socket, *words):
    return subprocess.run(
        ["redis-cli", "-s", socket, *words], stdout=subprocess.PIPE, text=True, timeout=180
    ).stdout.strip()


def serve_redis(directory, prefix):
    """Run a server under load, then stop it. Return its exit code and a digest of its data."""
    socket = os.path.join(directory, "redis.sock")
    server = subprocess.Popen(
        [*prefix, "redis-server", "--port", "0", "--unixsocket", socket, "--save", "",
         "--dir", directory, "--loglevel", "warning", "--enable-debug-command", "local"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )
    try:
        for _ in range(200):
            if os.path.exists(socket) and redis_command(socket, "ping") == "PONG":
                break
            time.sleep(0.05)
        else:
            harness.fail("redis-server does not answer")
        subprocess.run(
            ["redis-benchmark", "-s", socket, "-q", "-n", "8000", "-c", "20", "-d", "200",
             "-t", "set,get,lpush,lrange_100,hset,zadd"],
            stdout=subprocess.DEVNULL, timeout=100, check=True,
        )
        for i in range(50):
            redis_command(socket, "set", f"key{i}", "value" * i)
        digest = redis_command(socket, "debug", "digest-value", *[f"key{i}" for i in range(50)])
        allocator_name = redis_command(socket, "info", "memory")
        check("mem_allocator:jemalloc" in allocator_name, "redis is not linked to jemalloc")
        redis_command(socket, "shutdown", "nosave")
        return server.wait(60), digest
    except subprocess.TimeoutExpired:
        harness.fail("redis-server does not end")
        return None, None
    finally:
        if server.poll() is None:
            server.kill()
            server.wait()


def test_redis(directory):
    """A server that is linked to jemalloc runs under load."""
    need("redis-server", "redis-benchmark", "redis-cli")
    bare = serve_redis(directory, [])
    check(bare[0] == 0, f"redis fails without us: {bare}")
    for interval in (1, 4096):
        output = os.path.join(directory, f"profile{interval}")
        ours = serve_redis(directory, harness.host_command([], output, interval))
        check(ours == bare, f"redis at {interval}: {ours}, bare {bare}")
        judge_profile(harness.read_profile(output), f"redis at {interval}")


test_jemalloc = allocator("jemalloc")
test_tcmalloc = allocator("tcmalloc")
test_mimalloc = allocator("mimalloc")

if __name__ == "__main__":
    harness.limit_core_dumps()
    with tempfile.TemporaryDirectory(prefix="test-") as work:
        harness.main(work)
